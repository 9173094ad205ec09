"""What twins of algorithms share: nodes with quadratics of known minima, the update rule, and runs of the program beside them."""
import h5py
import numpy as np
from program_case import ProgramCase

CENTERS = [1, -2, 0.5, 3, 4, -1, 2.5, 0.25]  # minima of the nodes' quadratics, whose curvature is
CURVATURE = 1.3
START = 0.7
OPTIMIZERS = [{"learning_rate": 0.1},
              {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.05},
              {"learning_rate": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.02}]

SCENARIO = """[run]
nodes = {nodes}
steps = {steps}
output = {output}
save_models = yes
[topology]
kind = {topology}
[network]
kind = constant
latency = 1 ns
[compute]
gradient = 10 ms
[workload]
kind = quadratic
dimension = 2
centers = list
center_values = {centers}
curvature_min = {curvature}
curvature_max = {curvature}
start = {start}
[algorithm]
{algorithm}
"""


def gradient(x):
    """Of the first len(x) nodes."""
    return CURVATURE * (x - np.array(CENTERS[:len(x)]))


class Optimizer:
    """SGD with momentum; of all nodes at once, or of one."""

    def __init__(self, nodes, learning_rate, momentum=0.0, nesterov=False, weight_decay=0.0):
        self.velocity = np.zeros(nodes)
        self.rate, self.momentum, self.nesterov, self.decay = learning_rate, momentum, nesterov, weight_decay

    def step(self, g, at, node=slice(None)):
        d = g + self.decay * at
        self.velocity[node] = self.momentum * self.velocity[node] + d
        return self.rate * (d + self.momentum * self.velocity[node] if self.nesterov else self.velocity[node])


class TwinCase(ProgramCase):
    def models(self, nodes, steps, algorithm, topology="ring"):
        """(nodes), what the program's nodes end with; both entries are the same."""
        lines = "\n".join(f"{key} = {'yes' if value is True else value}" for key, value in algorithm.items())
        self.write("twin.ini", SCENARIO.format(
            nodes=nodes, steps=steps, topology=topology, algorithm=lines,
            curvature=CURVATURE, start=START, output="twin.h5", centers=", ".join(map(str, CENTERS[:nodes]))))
        self.starling("run", "--quiet", "twin.ini")
        with h5py.File(self.folder / "twin.h5") as results:
            return results["models"][:, 0]

    def expect(self, twin, nodes, steps, algorithm, **where):
        with self.subTest(nodes=nodes, **algorithm, **where):
            np.testing.assert_allclose(self.models(nodes, steps, algorithm, **where), twin, rtol=2e-6, atol=2e-6)
