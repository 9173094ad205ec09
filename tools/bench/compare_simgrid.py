#!/usr/bin/python3
"""The same exchanges in SimGrid and in Starling, one after the other on this machine: time taken, and when nodes finish.

usage: tools/bench/compare_simgrid.py [--program build/tools/starling] [--repetitions 3] [--large] [--case TEXT]
       tools/bench/compare_simgrid.py --reference tests/network_models/reference/simgrid_uneven.csv

Models of 100 MB over links of 12.5 GB/s, by two rules: `maxmin_lat0`, fair sharing without latency (SimGrid's CM02 without
cross traffic, `kind = fluid`), and `lv08`, SimGrid's TCP with 0.5 us per link and cross traffic (`kind = tcp`). On a fat tree every
node sends to the four neighbors of a random 4-regular graph, once; on a crossbar, ten times, to both neighbors on a ring, or
to one other node, so that no two messages share a link.

Seconds are those of whole processes, the least of so many runs: `starling run` with its scenario and results file, and a
program of SimGrid's S4U interface (compare_simgrid.cpp beside this script, compiled first) that does no more than the exchange and
prints when nodes finish. `full` is SimGrid with network/optim:Full; `lazy` is its default, whose sharing can give links more than
they have; both take events for simultaneous only within 1e-13 s (surf/precision). Ratios are full over Starling, by the clock
and by processor time; deviations are the largest over nodes of the time of finish, relative, from that of `full`. --large adds 4,096
nodes by max-min, for which SimGrid takes minutes. --case: only those with that text in their name.

--reference writes the table that tests/network_models/test_simgrid.cpp reads, by SimGrid (full) alone.

The exit status is 1 if Starling deviates from `full` by more than 1e-8, and 77 (skipped) if SimGrid is not installed.
"""

import argparse
import csv
import dataclasses
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from simulator import add_program, checked

try:
    import h5py
except ImportError as error:
    sys.exit(f"compare_simgrid: needs h5py, found no {error.name}")

BYTES = 100_000_000
BYTES_PER_SECOND = 12_500_000_000
LATENCY = {"maxmin_lat0": 0, "lv08": 500_000}  # of a link (ps)
NETWORK = {"maxmin_lat0": "fluid", "lv08": "tcp"}
SIMGRID = {
    "maxmin_lat0": ("network/model:CM02", "network/crosstraffic:0"),
    "cm02_nocross": ("network/model:CM02", "network/crosstraffic:0"),
    "cm02": ("network/model:CM02",),
    "lv08_nocross": ("network/model:LV08", "network/crosstraffic:0"),
    "lv08": ("network/model:LV08",),
}
TOLERANCE = 1e-8
SCENARIO = """[run]
nodes = {nodes}
steps = {steps}
[topology]
{topology}
[network]
kind = {network}
bandwidth = {bandwidth} B/s
latency = {latency} ps
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


# ----- speed

@dataclasses.dataclass
class Case:
    name: str
    nodes: int
    steps: int
    topology: str   # text of the section; empty: the graph in a file
    arcs: list      # (source, destination) of every message of a step
    platform: str   # as compare_simgrid.cpp has it
    fabric: str     # keys of [network]
    models: tuple = ("maxmin_lat0", "lv08")


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


def tree(children, **more):
    """The exchange on a fat tree without oversubscription, from switches with so many children on each level."""
    nodes, shape = 1, ",".join(map(str, children))
    for count in children:
        nodes *= count
    parents, cables = ",".join(map(str, (1, *children[1:]))), ",".join("1" for _ in children)
    return Case(f"fat tree, random 4-regular, N={nodes}", nodes, 1, "", random_regular(nodes),
                f"fat_tree {shape} {parents} {cables}", f"fabric = fat_tree\nchildren = {shape}\nparents = {parents}", **more)


def cases(is_large):
    nodes, steps = 1024, 10
    yield from (tree((8, 8)), tree((16, 16)), tree((32, 32)))
    if is_large:
        yield tree((16, 16, 16), models=("maxmin_lat0",))
    flat = (f"crossbar {nodes}", "fabric = crossbar")
    neighbors = [(i, (i + step) % nodes) for i in range(nodes) for step in (1, -1)]
    yield Case(f"crossbar, ring neighbors, N={nodes}, 10 times", nodes, steps, "kind = ring", neighbors, *flat)
    ahead = [(i, (i + 1) % nodes) for i in range(nodes)]
    yield Case(f"crossbar, one peer, N={nodes}, 10 times", nodes, steps, "", ahead, *flat)


@dataclasses.dataclass
class Measured:
    seconds: float    # of the whole process, by the clock
    processor: float  # time of all its threads (s)
    finish: list      # of every node (s)


def timed(words):
    """Runs a command on one thread; seconds by the clock and of the processor, and what it printed."""
    begin, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, env=dict(os.environ, OMP_NUM_THREADS="1"), capture_output=True, text=True)
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{words[0]} ended with status {done.returncode}: {done.stderr.strip()}")
    return seconds, after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime, done.stdout


def run_starling(program, folder, case, model):
    scenario, results, graph = folder / "case.ini", folder / "case.h5", folder / "graph.dot"
    graph.write_text("digraph {\n" + "".join(f"{a} -> {b};\n" for a, b in case.arcs) + "}\n")
    scenario.write_text(SCENARIO.format(nodes=case.nodes, steps=case.steps, topology=case.topology or f"kind = file\npath = {graph}",
                                        network=NETWORK[model], bandwidth=BYTES_PER_SECOND, latency=LATENCY[model],
                                        fabric=case.fabric, bytes=BYTES))
    seconds, processor, _ = timed([program, "run", scenario, "-o", results, "-q"])
    with h5py.File(results) as file:
        return Measured(seconds, processor, [1e-12 * float(time) for time in file["nodes/finished_picoseconds"]])


def run_simgrid(program, folder, lines, model, optimization):
    description = folder / "description"
    description.write_text("\n".join([*lines, ""]))
    settings = [f"--cfg={setting}" for setting in (*SIMGRID[model], f"network/optim:{optimization}", "surf/precision:1e-13")]
    seconds, processor, output = timed([program, description, *settings, "--log=root.thresh:warning"])
    return Measured(seconds, processor, [float(line) for line in output.split()])


def describe(case, model):
    messages = [f"message {step} {a} {b} {BYTES}" for step in range(case.steps) for a, b in case.arcs]
    return [f"{case.platform} {BYTES_PER_SECOND} {1e-12 * LATENCY[model]!r}", *messages]


def least(runs):
    """The least of each cost, for other work on the machine only adds to it; all runs have the same times of finish."""
    return Measured(min(run.seconds for run in runs), min(run.processor for run in runs), runs[0].finish)


def deviation(found, expected):
    return max(abs(a / b - 1) for a, b in zip(found, expected, strict=True))


def compare(options, simgrid, folder):
    """Prints the table; returns the largest deviation of Starling."""
    worst = 0
    print("| case | model | SimGrid full [s] | lazy [s] | Starling [s] | ratio | by processor time | deviation of Starling | of lazy |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for case in cases(options.large):
        for model in case.models:
            if options.case not in case.name:
                continue
            runs = [[], [], []]
            for _ in range(options.repetitions):
                runs[0].append(run_starling(options.program, folder, case, model))
                runs[1].append(run_simgrid(simgrid, folder, describe(case, model), model, "Full"))
                runs[2].append(run_simgrid(simgrid, folder, describe(case, model), model, "Lazy"))
            starling, full, lazy = map(least, runs)
            off = deviation(starling.finish, full.finish)
            worst = max(worst, off)
            print(f"| {case.name} | {model} | {full.seconds:.3f} | {lazy.seconds:.3f} | {starling.seconds:.3f} |"
                  f" {full.seconds / starling.seconds:.1f} | {full.processor / starling.processor:.1f} | {off:.1e} |"
                  f" {deviation(lazy.finish, full.finish):.1e} |", flush=True)
    return worst


# ----- the table of uneven exchanges

MASK = (1 << 64) - 1
CITIES = ((None, 45, 75, 115), (45, None, 32, 80), (75, 32, None, 48), (115, 80, 48, None))  # scenarios/network/cities.csv, ms


def splitmix64(state):
    """State and number that follow (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014)."""
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)


def permutation(nodes, index):
    """Fisher-Yates from the top, as in tests/network_models/exchange_run.hpp."""
    order, state = list(range(nodes)), 1000 + index
    for i in range(nodes - 1, 0, -1):
        state, number = splitmix64(state)
        j = number % (i + 1)
        order[i], order[j] = order[j], order[i]
    return order


def uneven_exchange(nodes, rounds):
    """Statements of an exchange as uneven_exchange() of tests/network_models/test_simgrid.cpp has it."""
    lines = ["own"] + [f"start {i} {1e-12 * (splitmix64((1 << 32) + i)[1] % 2_000_000_000)!r}" for i in range(nodes)]
    for step in range(rounds):
        for p in (2 * step, 2 * step + 1):
            order = permutation(nodes, p)
            for i in range(nodes):
                k = p * nodes + i
                size = 1 + splitmix64(k)[1] % 10 ** (k % 8 + 1)
                lines.append(f"message {step} {order[i]} {order[(i + 1) % nodes]} {size}")
    return lines


def routes(nodes, links, route):
    """Statements of a fabric with these links, (B/s, s), and a rule for the numbers of those between two nodes."""
    lines = [f"routes {nodes}"] + [f"link {bandwidth} {latency!r}" for bandwidth, latency in links]
    for a in range(nodes):
        lines += [f"route {a} {b} " + ",".join(map(str, route(a, b))) for b in range(nodes) if b != a]
    return lines


def two_per_host(nodes, link, local):
    """Nodes 2 h and 2 h + 1 at one port of a crossbar, with a link between themselves."""
    hosts = nodes // 2
    return routes(nodes, [link] * (2 * hosts) + [local] * hosts,
                  lambda a, b: [2 * hosts + a // 2] if a // 2 == b // 2 else [2 * (a // 2), 2 * (b // 2) + 1])


def four_cities(nodes, link):
    """Nodes in the four cities in turn, each with its own link up and down, and one between each two cities."""
    between = [(link[0], 1e-3 * (latency or 0)) for row in CITIES for latency in row]
    return routes(nodes, [link] * (2 * nodes) + between,
                  lambda a, b: [2 * a] + ([2 * nodes + a % 4 * 4 + b % 4] if a % 4 != b % 4 else []) + [2 * b + 1])


def uneven_cases():
    """Nodes, link (B/s, s), model, keys of the fabric, statements of the fabric."""
    def native(nodes, link, model, keys, platform):
        return nodes, link, model, keys, [f"{platform} {link[0]} {link[1]!r}"]
    yield native(12, (125_000_000, 1e-3), "lv08", "fabric = crossbar", "crossbar 12")
    yield native(33, (12_500_000_000, 5e-7), "cm02", "fabric = crossbar", "crossbar 33")
    yield native(30, (12_500_000_000, 1e-6), "cm02_nocross", "fabric = torus | sides = 3, 5, 2", "torus 3,5,2")
    yield native(21, (1_000_000_000, 5e-5), "lv08", "fabric = torus | sides = 7, 3", "torus 7,3")
    yield native(32, (7_300_000_000, 0.0), "maxmin_lat0", "fabric = torus | sides = 2, 4, 2, 2", "torus 2,4,2,2")
    yield native(36, (12_500_000_000, 0.0), "maxmin_lat0",
                 "fabric = fat_tree | children = 3, 4, 3 | parents = 1, 2, 3 | cables = 1, 1, 2", "fat_tree 3,4,3 1,2,3 1,1,2")
    yield native(40, (1_250_000_000, 1e-5), "lv08_nocross", "fabric = fat_tree | children = 8, 5 | parents = 1, 3",
                 "fat_tree 8,5 1,3 1,1")
    link = (12_500_000_000, 5e-7)
    yield 16, link, "cm02_nocross", "nodes_per_host = 2 | local_bandwidth = 50 GB/s | local_latency = 200 ns", two_per_host(
        16, link, (50_000_000_000, 2e-7))
    link = (125_000_000, 1e-4)
    for model in ("lv08", "cm02_nocross"):
        yield 13, link, model, "fabric = matrix | latencies = scenarios/network/cities.csv", four_cities(13, link)


def write_reference(path, simgrid, folder):
    with open(path, "w", newline="") as file:
        file.write(f"# SimGrid 3.32, network/optim:Full. Made by tools/bench/compare_simgrid.py --reference {path}\n")
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("N", "link_bw_Bps", "link_latency_s", "simgrid_model", "rounds", "fabric", "simgrid_finish_s"))
        rounds = 4
        for nodes, (bandwidth, latency), model, keys, fabric in uneven_cases():
            run = run_simgrid(simgrid, folder, [*fabric, *uneven_exchange(nodes, rounds)], model, "Full")
            table.writerow((nodes, bandwidth, latency, model, rounds, keys, " ".join(f"{time:.13g}" for time in run.finish)))


# ----- both

def compile_simgrid(folder):
    """The program in SimGrid; none if that is not installed."""
    header = subprocess.run(["c++", "-E", "-x", "c++", "-"], input="#include <simgrid/s4u.hpp>\n", capture_output=True, text=True)
    if header.returncode != 0:
        return None
    program = folder / "compare_simgrid"
    subprocess.run(["c++", "-std=c++20", "-O2", "-fmax-errors=5", pathlib.Path(__file__).with_suffix(".cpp"), "-o", program, "-lsimgrid"],
                   check=True)
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_program(parser)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--case", default="")
    parser.add_argument("--reference", metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="starling-bench-") as name:
        folder = pathlib.Path(name)
        simgrid = compile_simgrid(folder)
        if simgrid is None:
            print("skipped: SimGrid is not installed (in Debian: apt-get install libsimgrid-dev)")
            return 77
        if options.reference:
            write_reference(options.reference, simgrid, folder)
            return 0
        checked(parser, options.program)
        return 1 if compare(options, simgrid, folder) > TOLERANCE else 0


if __name__ == "__main__":
    sys.exit(main())
