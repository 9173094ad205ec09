"""Scenarios that several tests of the program begin with: a run, and a sweep of twelve such."""
SCENARIO = """[run]
nodes = 8
steps = 20
[topology]
kind = ring
[network]
kind = constant
latency = 20 us
[compute]
gradient = 1 ms
[workload]
kind = mlp
dataset = digits
hidden = 8
[algorithm]
kind = dpsgd
learning_rate = 0.05
"""
SMALL = SCENARIO + """[sweep]
algorithm.learning_rate = 0.05, 0.1
compute.gradient = 1 ms .. 3 ms
repeats = 2
"""
