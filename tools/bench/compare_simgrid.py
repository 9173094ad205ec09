#!/usr/bin/python3
"""The same exchanges in SimGrid and in Starling, one after the other on this machine: time taken, and when nodes finish.

usage: tools/bench/compare_simgrid.py [--program build/tools/starling] [--repetitions 3] [--large] [--case TEXT]

Models of 100 MB over links of 12.5 GB/s, by two rules: `max-min`, fair sharing without latency (SimGrid's CM02 without cross
traffic, `kind = fluid`), and `LV08`, SimGrid's TCP with 0.5 us per link and cross traffic (`kind = tcp`). On a fat tree every node
sends to the four neighbors of a random 4-regular graph, once; on a crossbar, ten times, to both neighbors on a ring, or to
one other node, so that no two messages share a link.

Seconds are those of whole processes, the least of so many runs: `starling run` with its scenario and results file, and a
program of SimGrid's S4U interface (compare_simgrid.cpp beside this script, compiled first) that does no more than the exchange and prints
when nodes finish. `full` is SimGrid with network/optim:Full; `lazy` is its default, whose sharing can give links more than they
have. The ratio is full over Starling; deviations are the largest over nodes of the time of finish, relative, from that of `full`.
--large adds 4,096 nodes by max-min, for which SimGrid takes minutes. --case: only those with that text in their name.

The exit status is 1 if Starling deviates from `full` by more than 1e-8, and 77 (skipped) if SimGrid is not installed.
"""

import argparse
import dataclasses
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import h5py

BYTES = 100_000_000
BYTES_PER_SECOND = 12_500_000_000
LATENCY = {"max-min": "0 ps", "LV08": "500000 ps"}
NETWORK = {"max-min": "fluid", "LV08": "tcp"}
SIMGRID = {"max-min": ["--cfg=network/model:CM02", "--cfg=network/crosstraffic:0"], "LV08": ["--cfg=network/model:LV08"]}
TOLERANCE = 1e-8
SCENARIO = """[run]
nodes = {nodes}
steps = {steps}
[topology]
{topology}
[network]
kind = {network}
bandwidth = {bandwidth} B/s
latency = {latency}
{fabric}
[compute]
gradient = 0 s
[workload]
kind = timing
bytes = {bytes} B
[algorithm]
kind = dpsgd
learning_rate = 0.1
"""


@dataclasses.dataclass
class Case:
    name: str
    nodes: int
    steps: int
    topology: str   # text of the section; none: the graph in a file
    arcs: list      # (source, destination) of every message of a step
    platform: str   # as compare_simgrid.cpp has it
    fabric: str     # keys of [network]
    models: tuple = ("max-min", "LV08")


def random_regular(nodes):
    """Arcs of two random cycles through all nodes that have no edge in common, both ways; drawn until they have none."""
    draw = random.Random(nodes)
    while True:
        edges = set()
        for _ in range(2):
            order = draw.sample(range(nodes), nodes)
            edges |= {tuple(sorted(pair)) for pair in zip(order, order[1:] + order[:1])}
        if len(edges) == 2 * nodes:
            return sorted(edges | {(b, a) for a, b in edges})


def tree(children, models=("max-min", "LV08")):
    """The exchange on a fat tree without oversubscription, from switches with so many children on each level."""
    nodes, shape = 1, ",".join(map(str, children))
    for count in children:
        nodes *= count
    parents = ",".join(map(str, (1, *children[1:])))
    return Case(f"fat tree, random 4-regular, N={nodes}", nodes, 1, "", random_regular(nodes), f"fat_tree:{shape}:{parents}",
                f"fabric = fat_tree\nchildren = {shape}\nparents = {parents}", models)


def cases(is_large):
    nodes, steps = 1024, 10
    yield from (tree((8, 8)), tree((16, 16)), tree((32, 32)))
    if is_large:
        yield tree((16, 16, 16), ("max-min",))
    flat = (f"crossbar:{nodes}", "fabric = crossbar")
    neighbors = [(i, (i + step) % nodes) for i in range(nodes) for step in (1, -1)]
    yield Case(f"crossbar, ring neighbors, N={nodes}, 10 times", nodes, steps, "kind = ring", neighbors, *flat)
    ahead = [(i, (i + 1) % nodes) for i in range(nodes)]
    yield Case(f"crossbar, one peer, N={nodes}, 10 times", nodes, steps, "", ahead, *flat)


def timed(words):
    """Seconds that the command took, and what it printed."""
    begin = time.perf_counter()
    done = subprocess.run(words, env=dict(os.environ, OMP_NUM_THREADS="1"), capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    if done.returncode != 0:
        sys.exit(f"{words[0]} ended with status {done.returncode}: {done.stderr.strip()}")
    return seconds, done.stdout


def run_starling(program, folder, case, model):
    scenario, results, graph = folder / "case.ini", folder / "case.h5", folder / "graph.dot"
    graph.write_text("digraph {\n" + "".join(f"{a} -> {b};\n" for a, b in case.arcs) + "}\n")
    scenario.write_text(SCENARIO.format(nodes=case.nodes, steps=case.steps, topology=case.topology or f"kind = file\npath = {graph}",
                                        network=NETWORK[model], bandwidth=BYTES_PER_SECOND, latency=LATENCY[model],
                                        fabric=case.fabric, bytes=BYTES))
    seconds, _ = timed([program, "run", scenario, "-o", results, "-q"])
    with h5py.File(results) as file:
        return seconds, [1e-12 * float(time) for time in file["nodes/finished_picoseconds"]]


def run_simgrid(program, folder, case, model, optimization):
    arcs = folder / "arcs"
    arcs.write_text("".join(f"{a} {b}\n" for a, b in case.arcs))
    latency = 1e-12 * float(LATENCY[model].split()[0])
    seconds, output = timed([program, case.platform, str(BYTES), str(case.steps), str(BYTES_PER_SECOND), str(latency), arcs,
                             *SIMGRID[model], f"--cfg=network/optim:{optimization}", "--log=root.thresh:warning"])
    return seconds, [float(line) for line in output.split()]


def least(runs):
    """The shortest of runs that all have the same times of finish."""
    return min(runs, key=lambda run: run[0])


def deviation(found, expected):
    return max(abs(a / b - 1) for a, b in zip(found, expected, strict=True))


def compile_simgrid(folder):
    """The program in SimGrid; none if that is not installed."""
    source = pathlib.Path(__file__).with_suffix(".cpp")
    program = folder / "compare_simgrid"
    done = subprocess.run(["c++", "-std=c++20", "-O2", source, "-o", program, "-lsimgrid"], capture_output=True, text=True)
    if done.returncode == 0:
        return program
    if "simgrid" in done.stderr and ("No such file" in done.stderr or "cannot find -lsimgrid" in done.stderr):
        return None
    sys.exit(f"cannot compile {source}:\n{done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/tools/starling")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--case", default="")
    options = parser.parse_args()
    worst = 0
    with tempfile.TemporaryDirectory(prefix="starling-bench-") as name:
        folder = pathlib.Path(name)
        simgrid = compile_simgrid(folder)
        if simgrid is None:
            print("skipped: SimGrid is not installed (in Debian: apt-get install libsimgrid-dev)")
            return 77
        print("| case | model | SimGrid full [s] | lazy [s] | Starling [s] | ratio | deviation of Starling | of lazy |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for case in cases(options.large):
            for model in case.models:
                if options.case not in case.name:
                    continue
                starling, full, lazy = [], [], []
                for _ in range(options.repetitions):
                    starling.append(run_starling(options.program, folder, case, model))
                    full.append(run_simgrid(simgrid, folder, case, model, "Full"))
                    lazy.append(run_simgrid(simgrid, folder, case, model, "Lazy"))
                (ours, found), (theirs, expected), (default, other) = map(least, (starling, full, lazy))
                off = deviation(found, expected)
                worst = max(worst, off)
                print(f"| {case.name} | {model} | {theirs:.3f} | {default:.3f} | {ours:.3f} | {theirs / ours:.1f} | {off:.1e} |"
                      f" {deviation(other, expected):.1e} |", flush=True)
    return 1 if worst > TOLERANCE else 0


if __name__ == "__main__":
    sys.exit(main())
