#!/usr/bin/python3
"""One simulation by one process, and shared by two: speed, memory, and what both do alike.

usage: tools/bench/compare_shared.py [--program build/tools/starling] [--case A|B|memory ...] [--repetitions N]

Ring D-PSGD with 1,024 nodes on case A (MLP 784-128-64-10, batch 32) and case B (64-32-10, batch 16), one core for each
process; the best of N. Processor times show what an idle machine would do where other work is in the way. Every
process repeats the timeline and the plan of who computes what. `memory` is case B with 100,000 nodes: the most
that a process ever held.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from simulator import add_program, checked

try:
    import h5py
except ImportError as error:
    sys.exit(f"compare_shared: needs h5py, found no {error.name}")

SCENARIO = """[run]
nodes = {nodes}
steps = {steps}
evaluate_every = {steps}
record_every = {steps}
[topology]
kind = ring
[network]
kind = constant
latency = 50 us
bandwidth = 10 Gbit/s
[compute]
gradient = 4 ms
distribution = lognormal
sigma = 0.1
[workload]
kind = mlp
dataset = blobs
samples = {samples}
{model}
[algorithm]
kind = dpsgd
learning_rate = 0.02
"""
A = "features = 784\nhidden = 128, 64\nbatch_size = 32"
B = "features = 64\nhidden = 32\nbatch_size = 16"
# nodes, steps, model, the least speedup, the largest part of the memory of one process
CASES = {
    "A": (1024, 20, A, 1.8, None),
    "B": (1024, 400, B, 1.5, None),
    "memory": (100_000, 6, B, None, 0.6),
}


@dataclasses.dataclass
class Measured:
    speed: float      # node-steps per second
    processor: float  # time of all threads of process 0 (s); of that
    timeline: float
    plan: float
    memory: float     # the most that a process held (MiB)


def measure(words):
    """Runs a command on one core, and tells the most memory it held (MiB): how this script starts each process."""
    os.sched_setaffinity(0, {int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", 0))})
    status = subprocess.run(words).returncode
    print(f"peak {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f}", flush=True)
    return status


def run(program, folder, case, processes):
    nodes, steps, model, _, _ = CASES[case]
    scenario, results = f"{folder}/bench.ini", f"{folder}/bench.h5"
    with open(scenario, "w") as file:
        file.write(SCENARIO.format(nodes=nodes, steps=steps, model=model, samples=max(16384, nodes)))
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive", OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    words = [sys.executable, __file__, "--measure", program, "run", scenario, "-o", results, "-q"]
    if processes > 1:
        words = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(processes), *words]
    output = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
    with h5py.File(results) as file:
        facts = {name: float(file["machine"].attrs[name])
                 for name in ("wall_seconds", "processor_seconds", "timeline_seconds", "plan_seconds") if name in file["machine"].attrs}
    return Measured(speed=nodes * steps / facts["wall_seconds"], processor=facts["processor_seconds"],
                    timeline=facts["timeline_seconds"], plan=facts.get("plan_seconds", 0),
                    memory=max(float(peak) for peak in re.findall(r"peak (\d+)", output)))


def best(runs):
    """The least of every cost, for other work on the machine only adds to it."""
    return Measured(max(r.speed for r in runs), *(min(getattr(r, name) for r in runs)
                                                  for name in ("processor", "timeline", "plan", "memory")))


def report(case, one, two):
    goal, share = CASES[case][3:]
    idle = one.processor / two.processor
    beside = (one.processor - one.timeline) / two.processor
    print(f"case {case}: {one.speed:.0f} node-steps/s by one process, {two.speed:.0f} by two: {two.speed / one.speed:.2f} times;"
          f" by processor time, as on an idle machine, {idle:.2f} times" + (f" (goal {goal})" if goal else ""))
    print(f"  if one process had a second core for its timeline, which two need for their numbers: {beside:.2f} times")
    print(f"  memory {one.memory:.0f} MiB by one process, {two.memory:.0f} MiB at most by each of two:"
          f" {100 * two.memory / one.memory:.0f} %" + (f" (goal {100 * share:.0f} %)" if share else ""))
    print(f"  of the processor time of one process the timeline takes {100 * one.timeline / one.processor:.1f} %, of each of two"
          f" {100 * two.timeline / two.processor:.1f} %, the plan {100 * two.plan / two.processor:.1f} %", flush=True)


def main():
    if sys.argv[1:2] == ["--measure"]:
        return measure(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_program(parser)
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    checked(parser, options.program)
    with tempfile.TemporaryDirectory(prefix="starling-bench-") as folder:
        for case in options.case or CASES:
            found = {1: [], 2: []}
            for _ in range(options.repetitions):
                for processes in found:
                    found[processes].append(run(options.program, folder, case, processes))
            report(case, *(best(found[processes]) for processes in (1, 2)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
