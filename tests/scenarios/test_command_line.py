#!/usr/bin/python3
"""The program as its user meets it: exit statuses, one clear sentence for every mistake, files that stay readable.

usage: test_command_line.py STARLING [MPIRUN]
"""

import ctypes.util
import gzip
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import h5py
import numpy
from runs import mpi_environment, obey_permissions

GOOD = """# eight nodes on a ring
[run]
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

OF_MLP = "mlp\ndataset = digits\nhidden = 8"

FLUID = ["network.kind=fluid", "network.bandwidth=1 GB/s"]

# override or file contents -> exit status and what the sentence must contain
MISTAKES = [
    (["algorithm.learning_rat=0.1"], 2, "command line: algorithm.learning_rat is not a key here"),
    (["algorithm.learning_rate=fast"], 2, "command line: algorithm.learning_rate must be a number, got fast"),
    (["algorithm.learning_rate=0"], 2, "algorithm.learning_rate must be positive, got 0"),
    (["compute.gradient=3"], 2, "compute.gradient"),
    (["compute.gradient=3 miles"], 2, "compute.gradient"),
    (["algorithm.kind=wagma", "algorithm.group_size=3"], 2, "algorithm.group_size must be a power of two, got 3"),
    (["algorithm.kind=wagma", "run.nodes=6"], 2, "a power of two, got 6"),
    (["topology.kind=hypercube", "run.nodes=6"], 2, "power of two"),
    (["topology.kind=erdos_renyi", "topology.probability=0.001"], 2, "enough to connect 8 nodes"),
    (["topology.kind=file", "topology.path=nowhere.graphml"], 2, "nowhere.graphml"),
    (["topology.kind=file", "topology.path=apart.dot"], 2, "connected"),
    (["workload.dataset=idx", "workload.directory=cut"], 2, "command line: workload.directory cut/train-images"),
    (["workload.dataset=idx", f"workload.directory={300 * 'x'}"], 2, "/train-images-idx3-ubyte: cannot open: File name too long"),
    (["workload.dataset=hdf5", "workload.path=nowhere.h5"], 2, "command line: workload.path nowhere.h5: cannot open"),
    (["workload.dataset=hdf5", "workload.path=lzf.h5"], 2, "damaged, or stored with a filter that is not installed"),
    (["compute.distribution=empirical", "compute.samples=nowhere.csv"], 2, "compute.samples nowhere.csv: cannot open"),
    (["algorithm.learning_rate=1e30"], 1, "the run diverged"),
    (["run.output=/proc/nowhere/x.h5"], 1, "/proc/nowhere"),
    (["failures.stop=3 @ 5 ms"], 1, ": node 3 stopped at 0.005 s; "),
    (["failures.stop=8 @ 5 ms"], 2, "failures.stop must name nodes from 0 to 7, got 8"),
    (["failures.lose=0.1", "network.eager_limit=8 KiB"], 2, "network.eager_limit must be infinite with [failures]"),
    (["network.eager_limit=-1 B"], 2, "network.eager_limit"),
    (["network.eager_limit=often"], 2, "; or infinite"),
    (["failures.lose=0.1", "network.collectives=analytic"], 2,
     "failures.lose needs network.collectives = expanded, which changes nothing for an algorithm without collectives"),
    # A closed form would leave these out without a word.
    ([*FLUID, "network.link_schedule=away.csv", "network.collectives=analytic"], 2, "network.link_schedule needs network.collectives ="),
    ([*FLUID, "network.failure_interval=1 s", "network.collectives=analytic"], 2, "network.failure_interval needs network.collectives ="),
    ([*FLUID, "network.slow_hosts=3", "network.collectives=analytic"], 2, "network.slow_hosts needs network.collectives = expanded"),
    ([*FLUID, "network.host_latencies=3: 1 s", "network.collectives=analytic"], 2, "network.host_latencies needs network.collectives ="),
    ([*FLUID, "network.link_bandwidths=host 3 *: 1 MB/s", "network.collectives=analytic"], 2,
     "network.link_bandwidths needs network.collectives = expanded: collectives in closed form take all links for alike"),
    ([*FLUID, "network.link_latencies=*: 1 us, host 3 *: 1 s", "network.collectives=analytic"], 2, "network.link_latencies needs"),
    (["network.kind=loggp", "network.preset=edr", "network.slowdowns=3: 9", "network.collectives=analytic"], 2,
     "network.slowdowns needs network.collectives = expanded"),
    (["compute.distribution=published"], 2, "compute.name is missing"),
    (["compute.distribution=trace", "compute.trace=nowhere.csv"], 2, "compute.trace nowhere.csv: cannot open"),
    (["nonsense.key=1"], 2, "nonsense"),
    (["workload.wire_parameters=-1"], 2, "workload.wire_parameters"),
    # Keys that nothing would come of without another one.
    ([*FLUID, "network.local_bandwidth=9 GB/s"], 2, "network.local_bandwidth needs nodes_per_host"),
    ([*FLUID, "network.local_latency=1 us"], 2, "network.local_latency needs nodes_per_host"),
    (["failures.reliable_nodes=2"], 2, "failures.reliable_nodes needs mean_time_between_failures"),
    (["network.cache=30 MB", "network.reduction_bandwidth=2 GB/s"], 2, "network.cache needs cache_bandwidth, without which"),
    (["network.cache=30 MB", "network.cache_bandwidth=3 GB/s"], 2, "network.cache needs reduction_bandwidth, without which"),
    (["network.cache_bandwidth=3 GB/s"], 2, "network.cache_bandwidth needs cache, which"),
    (["network.bandwidth=1e-300 B/s"], 1, " B at next to no bandwidth take longer than the clock holds (106 days)"),
]

BLOBS = ["workload.dataset=blobs"]
# What no machine can hold, or no clock: refused before memory is asked for, with the arithmetic or the bound.
ABSURD = [
    (["run.nodes=1e12"], 2, "run.nodes must be fewer: 1000000000000 nodes * 380 B beside their models = 353902.6 GiB"),
    (["workload.hidden=1048576,1048576"], 1, "8 nodes * 1099591319562 parameters * 4 B = 32770.4 GiB"),
    (["workload.hidden=1000000000"], 2, "the weights between two such layers would take 1000000000 * 1000000000 * 4 B"),
    (["workload.batch_size=1000000000"], 2, "workload.batch_size must be from 1 to 1048576, got 1000000000"),
    ([*BLOBS, "workload.samples=1000000000", "workload.features=1000000"], 2,
     "workload.samples must be fewer: 1000000500 samples * 1000000 features * 4 B = 3725292.2 GiB"),
    ([*BLOBS, "workload.samples=1000000000000"], 2, "workload.samples must be from 1 to 1073741824"),
    ([*BLOBS, "workload.samples=1", "workload.features=1000000", "workload.classes=1000000"], 2,
     "workload.classes must be fewer: 1000000 centers * 1000000 features * 8 B = 7450.6 GiB"),
    ([*BLOBS, "workload.classes=1000000000"], 2, "workload.classes must be from 1 to 1000000"),
    (["workload.partition=by_label", "workload.shards_per_node=1000000000"], 2, "workload.shards_per_node must be from 1 to"),
    (["workload.kind=cnn", "workload.layers=dense 1000000000"], 2, "must have numbers up to 1048576 in layer 1"),
    (["workload.kind=cnn", "workload.layers=dense 1000000, dense 1000000"], 2, "at most 2147483647 parameters"),
    (["workload.kind=transformer", "workload.width=1000000000"], 2, "workload.width must be from 1 to 65536"),
    (["workload.kind=transformer", "workload.layers=1000000000"], 2, "workload.layers must be from 1 to 1000"),
    (["workload.kind=quadratic", "workload.dimension=1e12"], 2, "workload.dimension must be from 1 to 2147483647"),
    (["workload.kind=quadratic", "workload.dimension=1e9", "run.nodes=10000"], 2,
     "workload.dimension must be fewer: 10000 nodes * 1000000000 curvatures and centers * 8 B = 74505.8 GiB"),
    (["workload.kind=transformer", "workload.dataset=sequences", "workload.samples=16777216", "workload.context=65536",
      "workload.median_length=1e6"], 2, "workload.samples must be fewer: 16777716 samples * 65536 tokens * 4 B = 4096.1 GiB"),
    (["workload.kind=navigation", "workload.side=256", "workload.maps=65536", "run.nodes=10000"], 2,
     "workload.maps must be fewer: 10000 nodes * 65536 maps * 65536 cells * 1 B = 40000.0 GiB"),
    (["workload.kind=navigation", "workload.environments=65536", "workload.rollout_steps=65536"], 2,
     "workload.rollout_steps must be fewer: 65536 environments * 65536 moves * 67 numbers * 4 B = 1072.0 GiB"),
    (["workload.kind=timing", "workload.parameters=1e14"], 2, "workload.parameters must be from 0 to 10000000000000"),
    (["workload.kind=timing", "workload.tensors=1e15"], 2, "workload.tensors must be whole numbers of floats"),
    (["workload.wire_parameters=1e15"], 2, "workload.wire_parameters must be from 0 to 10000000000000"),
    (["workload.wire_parameters=1e13", "network.bandwidth=10 MB/s"], 1, "virtual time passes the end of the clock (106 days)"),
    (["run.nodes=100000", "topology.kind=random_regular", "topology.degree=50000"], 2, "would have 5e+09 arcs of 40 bytes each"),
    (["topology.kind=random_matching", "topology.rounds=1e12"], 2, "would have 8e+12 arcs of 40 bytes each"),
    (["topology.kind=equi_static", "topology.degree=1e12"], 2, "topology.degree must be from 1 to 1000000"),
    (["topology.kind=torus", "topology.sides=1000000000x1000000000"], 2, "topology.sides must multiply to the 8 nodes"),
    ([*FLUID, "network.fabric=hyperx", "network.sides=3000,3000"], 2, "gives a fabric of 2 * 2.7e+10 links"),
    ([*FLUID, "network.fabric=torus", "network.sides=1000000,1000000"], 2, "gives a fabric of 1000000000000 hosts"),
    ([*FLUID, "network.fabric=fat_tree", "network.k=1000000"], 2, "gives a fabric of 2.5e+17 hosts"),
    ([*FLUID, "network.fabric=dragonfly", "network.routers=1000000", "network.groups=1000000"], 2, "fabric of 2000000000000"),
    (["algorithm.kind=wagma", "algorithm.group_size=1073741824"], 2, "must be at most the number of nodes (8)"),
    (["algorithm.kind=parameter_server", "algorithm.servers=1000000000"], 2, "must be from 1 to the number of nodes (8)"),
    (["algorithm.kind=powersgd", "algorithm.rank=1000000000"], 2, "algorithm.rank must be from 1 to 4096"),
    ([*FLUID, "network.latency=2000 h"], 2, "network.latency must be at most 60 s, got 7200000 s"),
    ([*FLUID, "network.local_latency=2 min"], 2, "network.local_latency must be at most 60 s, got 120 s"),
    ([*FLUID, "network.host_latencies=1: 2 min"], 2, "must be at most 60 s, got 2 min"),
    (["network.kind=tcp", "network.bandwidth=1 GB/s", "network.latency_factor=1e30"], 2, "latency_factor must be at most 1000"),
    ([*FLUID, "network.failure_interval=1 ps"], 2, "network.failure_interval must be 0 s or at least 1 us, got 1 ps"),
    (["algorithm.kind=allreduce", "algorithm.gathered=9223372036854775807 B"], 2, "algorithm.gathered must be from 0 to 1099511627776 B"),
    (["run.timeline=1e12 s"], 2, "which is past the end of the clock (106 days)"),
    (["compute.gradient=1e30 s"], 2, "which is past the end of the clock (106 days)"),
    (["run.steps=1e15"], 2, "run.steps must be from 1 to 2^40"),
]
ABSURD_SWEEPS = [
    ("workload.hidden = 1 .. 1000000000", "sweep.workload.hidden has a range of more than 1000000 values"),
    ("workload.hidden = 1 .. 1000\nrun.seed = 1 .. 1000\nrun.steps = 1 .. 1000", "[sweep] has more than 1000000 points"),
    ("run.steps = 1 .. 2\nrepeats = 1000000000", "sweep.repeats must be from 1 to 100000"),
]


class Folder:
    """A temporary folder with the scenarios and broken files the cases need."""

    def __init__(self, starling, path):
        self.starling, self.path = os.path.abspath(starling), path
        self.write("good.ini", GOOD)
        self.write("arcs.dot", "digraph { 0 -> 1; 1 -> 2; 2 -> 3; 3 -> 0; 0 -> 2; }")
        self.write("away.csv", "time, link, factor\n0 s, host 3 *, 0.5\n")
        self.write("apart.dot", "graph G { " + "; ".join(f"{i}" for i in range(8)) + "; 0 -- 1; }")
        with h5py.File(self.file("lzf.h5"), "w") as data:  # a filter that h5py has and the library has not
            data.create_dataset("x", data=[[0.5] * 64] * 100, compression="lzf")
            data["y"] = [0, 1] * 50
        os.mkdir(self.file("cut"))
        with gzip.open(self.file("cut/train-images-idx3-ubyte.gz"), "wb") as images:
            images.write(struct.pack(">IIII", 0x803, 10, 8, 8) + bytes(10 * 64 - 7))  # seven bytes short
        for name, magic, count in (("train-labels-idx1", 0x801, 10), ("t10k-labels-idx1", 0x801, 2)):
            with open(self.file(f"cut/{name}-ubyte"), "wb") as labels:
                labels.write(struct.pack(">II", magic, count) + bytes(count))
        with open(self.file("cut/t10k-images-idx3-ubyte"), "wb") as images:
            images.write(struct.pack(">IIII", 0x803, 2, 8, 8) + bytes(2 * 64))

    def file(self, name):
        return os.path.join(self.path, name)

    def write(self, name, text):
        with open(self.file(name), "w", encoding="utf-8") as file:
            file.write(text)

    def run(self, *words, prefix=(), prepare=None):
        return subprocess.run([*prefix, self.starling, *words], cwd=self.path, text=True, timeout=120, preexec_fn=prepare,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


def status_of(results):
    status = results["facts"].attrs["status"]
    return status.decode() if isinstance(status, bytes) else status


def expect(done, status, sentence=""):
    assert done.returncode == status, f"exit status {done.returncode}, expected {status}: {done.stdout}{done.stderr}"
    assert sentence in done.stderr, f"expected '{sentence}' in: {done.stderr}"
    if status != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("starling: ")]
        assert len(lines) == 1, f"expected one sentence, got: {done.stderr}"


def check_mistakes(folder):
    """Every mistake ends with its status and one sentence, and leaves no results file that cannot be opened."""
    for overrides, status, sentence in MISTAKES:
        output = folder.file("mistake.h5")
        words = overrides if any(o.startswith("run.output") for o in overrides) else [*overrides, "-o", output]
        try:
            expect(folder.run("run", "good.ini", *words), status, sentence)
        except AssertionError as error:
            raise AssertionError(f"{overrides}: {error}") from error
        if os.path.exists(output):
            with h5py.File(output, "r") as results:
                assert "failed" in status_of(results), status_of(results)
            os.remove(output)
        assert not os.path.exists(output + ".partial")


def check_keys_of_other_kinds(folder):
    """Another kind has other keys: which one has them, and how to go on without an editor. A section that is not there is no missing key."""
    folder.write("wagma.ini", GOOD.replace("kind = dpsgd", "kind = wagma\ngroup_size = 4\ntau = 5"))
    place, cure = ": algorithm.group_size is not a key here; known keys: ", "; algorithm.group_size=default algorithm.tau=default takes away"
    for words, start, end in ((["wagma.ini", "algorithm.kind=allreduce"], f"wagma.ini:18{place}", f"; kind = wagma has it{cure} what the file sets, on the command line or zipped in [sweep]"),
                              (["good.ini", "algorithm.group_size=4"], f"command line{place}", "; kind = wagma has it"),
                              (["good.ini", "network.preset=edr"], "command line: network.preset is not a key here; ", "; kind = fluid, loggp, tcp has it"),
                              (["good.ini", "network.fabric=torus", "network.sides=2, 4"], "command line: network.fabric is not a key here; ",
                               "; kind = fluid, tcp has it"),
                              (["good.ini", "topology.kind=complete", "topology.sides=2, 4"], "command line: topology.sides is", "; kind = torus has it"),
                              (["good.ini", "workload.hiden=4"], "command line: workload.hiden is", "; did you mean hidden?")):
        done = folder.run("describe", *words)
        expect(done, 2, f"starling: {start}")
        assert done.stderr.endswith(f"{end}\n"), done.stderr
    assert folder.run("describe", "wagma.ini", "algorithm.kind=allreduce", *cure.split()[1:3]).returncode == 0
    folder.write("short.ini", GOOD.replace("[network]\nkind = constant\nlatency = 20 us\n", ""))
    expect(folder.run("run", "short.ini"), 2, "short.ini has no section [network]: network.kind is missing")


def check_absurd_requests(folder):
    """Refused with one sentence by a process that may have 1 GiB of address space, and within seconds."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    folder.write("bare.ini", GOOD.replace("dataset = digits\nhidden = 8\n", ""))  # for workloads of other kinds, too
    for overrides, status, sentence in ABSURD:
        try:
            expect(folder.run("run", "bare.ini", *overrides, "-o", folder.file("absurd.h5"), prepare=limit), status, sentence)
        except AssertionError as error:
            raise AssertionError(f"{overrides}: {error}") from error
    for number, (section, sentence) in enumerate(ABSURD_SWEEPS):
        folder.write(f"sweep{number}.ini", GOOD + f"[sweep]\n{section}\n")
        expect(folder.run("sweep", f"sweep{number}.ini", prepare=limit), 2, sentence)


def check_usage(folder):
    """Help everywhere with status 0; commands and options that do not exist with status 2."""
    done = folder.run("--help")
    expect(done, 0)
    assert "usage" in done.stdout
    commands = re.findall(r"^  ([a-z]+) +(.*)", done.stdout, re.MULTILINE)
    assert len(commands) == 9, commands
    for command, summary in commands:
        if command == "report":  # by a program of its own
            continue
        done = folder.run(command, "--help")
        expect(done, 0)
        assert f"\n\nstarling {command}: {summary}\n\n" in done.stdout, done.stdout
    folder.write("points.ini", GOOD + "[sweep]\nrun.steps = 1, 2\n")
    for words, sentence in ((["walk"], "there is no command walk"),
                            (["run"], "no scenario was named"),
                            (["run", "-o", "x.h5"], "no scenario was named"),
                            (["run", "good.ini", "-o", "x.csv"], "x.csv: results are an HDF5 file, such as x.h5; starling export writes its tables"),
                            (["run", "good.ini", "--transport", "carrier"], "must be simulated or mpi, got carrier"),
                            (["run", "--fast", "good.ini"], "unrecognised option '--fast'"),
                            (["run", "good.ini", "nodes=3"], "expected section.key=value, got nodes=3"),
                            (["run", "good.ini", "no\ndes=3"], "expected section.key=value, got no\\ndes=3"),
                            (["run", "good.ini", "run.nodes=3\n4"], "run.nodes must be one line without a comment, got 3\\n4"),
                            (["export", "x.h5"], "export takes either --table NAME or --trace"),
                            (["export", "x.h5", "--trace", "--table", "steps"], "either --table NAME or --trace"),
                            (["list", "a", "b"], "list takes one name at most"),
                            (["list", "nonsense"], "there is no section or component nonsense; sections are algorithm, topology, "),
                            (["list", "sweep"], "run (and sweep: docs/keys.md); all components: starling list --brief"),
                            (["list", "workloads"], "all components: starling list --brief; did you mean workload?"),
                            (["list", "--markdown", "dpsgd"], "--markdown lists everything, got a name"),
                            (["resume", "a.h5", "b.h5"], "expected one file, whose run is to go on"),
                            (["run", "s.ini", "--resume", "--replay", "a.h5"], "--replay and --resume do not go together"),
                            (["run", "s.ini", "--resume", "--transport", "mpi"], "--resume is a simulation, got --transport mpi"),
                            *((["sweep", "points.ini", f"--jobs={count}", *more],
                               f"--jobs must be a whole number from 1 to 4096, got {count}")
                              for count in ("4097", "0", "-1", "x", "1.5", "9" * 30) for more in ([], ["--list"])),
                            *((["sweep", "points.ini", f"--shard={shard}"], f"--shard must be i/n with i from 1 to n, got {shard}")
                              for shard in ("0/2", "3/2", "1/2x", "1/-2", "2"))):
        expect(folder.run(*words), 2, sentence)
    assert folder.run().returncode == 2
    os.environ["STARLING_ISA"] = "v9"
    expect(folder.run("run", "good.ini"), 1, "environment variable STARLING_ISA: expected one that this processor can run")
    os.environ["STARLING_ISA"] = "v1"
    expect(folder.run("run", "good.ini", "-o", "v1.h5"), 0)
    del os.environ["STARLING_ISA"]
    os.environ["STARLING_CUDA_PLUGIN"] = ctypes.util.find_library("m")
    expect(folder.run("run", "good.ini", "run.device=cuda"), 1, "is no GPU plug-in: it lacks starling_device_interface")
    del os.environ["STARLING_CUDA_PLUGIN"]
    expect(folder.run("run", "missing.ini"), 1, "missing.ini")


def check_commands(folder):
    """run, describe, list and export do their work."""
    expect(folder.run("run", "good.ini", "run.timeline=1 s"), 0)
    described = folder.run("describe", "good.ini")
    expect(described, 0)
    for text in ("spectral gap", "learning_rate", "momentum", "memory"):
        assert text in described.stdout, text
    folder.write("described.ini", described.stdout)  # what describe prints is a scenario
    expect(folder.run("describe", "described.ini"), 0)
    listed = folder.run("list")
    expect(listed, 0)
    for text in ("dpsgd", "ring", "loggp", "mlp", "learning_rate", "group_size", "evaluate_every",
                 "with dataset = idx", "collectives"):
        assert text in listed.stdout, text
    # a key is told for each choice that gives it another default or meaning, and only for those that have it
    for name, key, said in (("adpsgd", "momentum", "number (0) with optimizer = sgd or sgdp: share"),
                            ("adpsgd", "epsilon", "number (1e-10) with optimizer = adagrad: added"),
                            ("adpsgd", "epsilon", "number (1e-08) with optimizer = adam or adamw: added"),
                            ("fluid", "slow_bandwidth", "bandwidth (by preset, bandwidth) of the links"),
                            ("mlp", "classes", "integer (10) with dataset = blobs: number"),
                            ("mlp", "classes", "integer (0) with dataset = idx or hdf5: number"),
                            ("mlp", "path", "text (required) with dataset = hdf5: HDF5"),
                            ("mlp", "shards_per_node", "integer (1) with partition = by_length: pieces")):
        rows = [" ".join(line.split()) for line in folder.run("list", name).stdout.splitlines()]
        assert any(row.startswith(f"{key} {said}") for row in rows), (name, key, said)
    # the longest key has a gap behind it, too
    assert re.search(r"^ +mean_time_between_failures +duration ", folder.run("list", "failures").stdout, re.MULTILINE)
    expect(folder.run("run", "good.ini", *FLUID, "run.timeline=1 s", "-o", "fluid.h5"), 0)
    expect(folder.run("export", "fluid.h5", "--trace", "-o", "fluid.json"), 0)
    with open(folder.file("fluid.json"), encoding="utf-8") as trace:
        assert "host 0 up" in trace.read()
    for table in ("steps", "evaluation", "nodes", "timeline"):
        done = folder.run("export", "results/good.h5", "--table", table)
        expect(done, 0)
        assert done.stdout.count("\n") > 5, table
    expect(folder.run("export", "results/good.h5", "--trace", "-o", "trace.json"), 0)
    expect(folder.run("run", "good.ini", "run.timeline=0 s", "-o", "bare.h5"), 0)
    for what in ["--trace"], ["--table", "timeline"]:
        empty = folder.run("export", "bare.h5", *what)
        assert empty.returncode == 0 and "warning: bare.h5 keeps no timeline" in empty.stderr, empty.stderr
    bare = folder.run("export", "results/good.h5", "--table", "links")
    assert bare.returncode == 0 and "warning: results/good.h5 has no links" in bare.stderr, bare.stderr
    unasked = folder.run("export", "results/good.h5", "--table", "evaluation_by_time")
    assert unasked.returncode == 0 and "has no evaluation_by_time" in unasked.stderr, unasked.stderr
    assert "1 node, 0 arcs in" in folder.run("describe", "good.ini", "run.nodes=1").stdout
    expect(folder.run("export", "results/good.h5", "--table", "walks"), 1)
    expect(folder.run("export", "results/good.h5", "--table", "nodes", "-o", "nodes.csv"), 0)
    with open(folder.file("nodes.csv"), encoding="utf-8") as table:
        assert len(table.read().splitlines()) == 9  # a head and eight nodes
    expect(folder.run("run", "results/good.h5", "run.output=results/good.h5"), 2, "results/good.h5 would be replaced by its repetition")
    os.rename(folder.file("results/good.h5"), folder.file("theirs.h5"))
    expect(folder.run("run", "theirs.h5", "run.steps=3"), 0)  # not where they say that they were
    assert os.path.exists(folder.file("theirs_again.h5")) and not os.path.exists(folder.file("results/good.h5"))
    os.rename(folder.file("theirs.h5"), folder.file("results/good.h5"))
    again = folder.run("run", "results/good.h5", "-o", "again.h5")
    expect(again, 0)
    assert "different experiments" not in folder.run("compare", "results/good.h5", "again.h5").stdout
    expect(folder.run("run", "good.ini", "run.seed=2", "algorithm.kind=allreduce", "-o", "other.h5"), 0)
    done = folder.run("compare", "results/good.h5", "other.h5", "--loss", "10")
    assert "algorithm.kind (dpsgd, allreduce)" in done.stdout.splitlines()[2], done.stdout
    assert "run.seed (1, 2)" in done.stdout.splitlines()[2], done.stdout
    expect(folder.run("run", "good.ini", "compute.gradient=10000 s", "-o", "late.h5"), 0)
    done = folder.run("compare", "late.h5", "results/good.h5")
    per_step = next(line for line in done.stdout.splitlines() if line.startswith("time per step, s"))
    assert len(per_step.split()) == 11, per_step  # columns stay apart, however large the deviation
    # What is done with a loss that is not finite is nothing to runs that have none.
    expect(folder.run("run", "good.ini", "run.on_divergence=mark", "-o", "marked.h5"), 0)
    assert "different experiments" not in folder.run("compare", "results/good.h5", "marked.h5").stdout
    expect(folder.run("run", "good.ini", "algorithm.learning_rate=1e30", "run.on_divergence=mark", "-o", "diverged.h5"), 0)
    expect(folder.run("run", "good.ini", "algorithm.learning_rate=1e30", "-o", "stopped.h5"), 1, "diverged")
    for one, other in ("results/good.h5", "diverged.h5"), ("stopped.h5", "marked.h5"):
        assert ", run.on_divergence (stop, mark)" in folder.run("compare", one, other).stdout, (one, other)
    done = folder.run("resume", "results/good.h5")
    expect(done, 0)
    assert "the run is complete, there is nothing to resume" in done.stdout, done.stdout
    for name in ("nowhere.h5", "good.ini"):
        expect(folder.run("resume", name), 1, f"{name}.checkpoint: there is no checkpoint to resume; that of RESULTS.h5 is RESULTS.h5.checkpoint, ")


def check_summaries(folder):
    """What is true of some runs only is said of them."""
    for words, sentence in ((["run", *FLUID, "network.accuracy=0.01"], "off by up to 0 % (1 % allowed)"),
                            (["run", "algorithm.learning_rate=1e30", "run.on_divergence=mark"],
                             "8 of 8 nodes: node 0 at its gradient"),
                            (["run", "failures.duplicate=1"], "0 of 8 nodes stopped, 0 messages lost, 320 duplicated"),
                            (["run", "failures.join=3 @ 20 ms"], "nodes away                          6.6 % of the time until they"),
                            # 2000 blobs of 8 classes in 8 shards sorted by class, and shuffled
                            (["describe", "workload.dataset=blobs", "workload.classes=8", "workload.partition=by_label", "workload.shards_per_node=1"],
                             "data of a node          250 samples with 1 label\n"),
                            (["describe", "workload.dataset=blobs", "workload.partition=iid"], "data of a node          250 samples with 10 labels\n"),
                            (["describe", "run.nodes=4", "topology.kind=file", "topology.path=arcs.dot"], " row-stochastic")):
        done = folder.run(words[0], "good.ini", *words[1:])
        expect(done, 0)
        assert sentence in done.stdout, f"{words}: {done.stdout}"
    timing = ["workload.kind=timing", "workload.parameters=1e6", *(f"workload.{key}=default" for key in ("dataset", "hidden")),
              "algorithm.learning_rate=default"]
    for words, sentence in ((["algorithm.kind=allreduce", "algorithm.compression=half"],
                             "command line: algorithm.compression = half sends more than none: codes do not add, so a node sends 7 of them, "
                             "3.5 models, where a ring of sums takes 1.75\n"),
                            ([*timing, "algorithm.kind=allreduce", "algorithm.exchange=buckets", "algorithm.overlap=backward"],
                             "command line: algorithm.exchange = buckets changes nothing: the workload has one tensor\n"),
                            ([*timing, "algorithm.kind=powersgd"],
                             "command line: algorithm.kind = powersgd compresses nothing: the workload names no matrices\n"),
                            ([*FLUID, "network.nodes_per_host=2", "network.collectives=analytic"],
                             "command line: network.collectives = analytic takes all links for those of node 0 in the mean, and with nodes_per_host = 2"),
                            (["run.steps=2", "compute.gradient=3 ms", "run.evaluate_interval=1 us"],
                             "command line: run.evaluate_interval is 1 us: 3000 evaluations for each gradient of 3 ms\n"),
                            (["run.steps=1e12", "run.record_every=1", "run.until=20 ms"],
                             "command line: run.record_every is 1: 1000000000000 rows * "),
                            (["network.copy_bandwidth=1 GB/s"], "command line: network.copy_bandwidth has changed nothing: no tensors are gathered"),
                            (["compute.forward_share=0.5"], "command line: compute.forward_share changes nothing without algorithm.overlap = backward")):
        assert f"starling: warning: {sentence}" in folder.run("run", "good.ini", *words).stderr, words
        assert not folder.run("run", "good.ini", *words, "--quiet").stderr, words
    said = folder.run("run", "good.ini", "algorithm.learning_rate=100").stderr  # all numbers are finite
    assert re.search(r"^starling: warning: training loss ended at [0-9.e+]+, [0-9.e+]+ times its first value: the run seems to have diverged$",
                     said, re.MULTILINE), said
    choco = ["algorithm.kind=choco", "algorithm.compression=top_k", "algorithm.keep=0.1", "algorithm.consensus_rate=1", "run.steps=200"]
    assert "starling: warning: consensus distance ended at " in folder.run("run", "good.ini", *choco).stderr
    for words in ([], ["run.steps=2", "run.evaluate_interval=1 us"]):  # 1000 for each gradient
        assert not folder.run("run", "good.ini", *words).stderr, words
    # Links that are set alike have closed forms.
    ring = ["algorithm.kind=allreduce", "algorithm.collective=ring", *FLUID, "network.collectives=analytic"]
    for name, links in (("all", "network.link_bandwidths=host 3 *: 1 GB/s, *: 1 MB/s"), ("usual", "network.bandwidth=1 MB/s")):
        expect(folder.run("run", "good.ini", *ring, links, "-o", f"{name}.h5"), 0)
    times = [h5py.File(folder.file(f"{name}.h5"))["steps/time"][-1, 0] for name in ("all", "usual")]
    assert times[0] == times[1] > 0.02, times
    # A results file names every key. Defaults ask for nothing, others stand in its lines.
    expect(folder.run("run", "good.ini", "-o", "stored.h5"), 0)
    for words in (["describe", "stored.h5"], ["run", "stored.h5", "-o", "again.h5"]):
        assert not folder.run(*words).stderr, words
    expect(folder.run("run", "good.ini", "compute.forward_share=0.5", "-o", "stored.h5"), 0)
    with h5py.File(folder.file("stored.h5")) as results:
        lines = results["scenario"][()].decode().splitlines()
    place = f"stored.h5/scenario:{1 + [line.split(' =')[0] for line in lines].index('forward_share')}"
    assert f"warning: {place}: compute.forward_share changes nothing" in folder.run("describe", "stored.h5").stderr
    folder.write("timing.ini", GOOD.replace(OF_MLP, "timing"))
    assert "no numbers are kept" in folder.run("describe", "timing.ini").stdout


def check_no_file_is_lost(folder):
    """What is no results file is not replaced by one, nor a results file by its own export or page, nor anything else by an export."""
    folder.write("thesis.txt", "years of work")
    expect(folder.run("run", "good.ini", "-o", "thesis.txt"), 1, "thesis.txt: is there already and no results file")
    expect(folder.run("run", "good.ini", "-o", "good.ini"), 1, "good.ini: is there already and no results file")
    with h5py.File(folder.file("samples.h5"), "w") as data:
        data["x"] = data["y"] = range(10)
    expect(folder.run("run", "good.ini", "-o", "samples.h5"), 1, "samples.h5: is there already and no results file")
    with h5py.File(folder.file("samples.h5"), "r") as data:
        assert len(data["x"]) == 10
    for _ in range(2):
        expect(folder.run("run", "good.ini", "run.timeline=1 s", "-o", "kept.h5"), 0)
    expect(folder.run("export", "kept.h5", "--table", "steps", "-o", "kept.h5"), 2, "is the results file itself")
    for name, text in (("thesis.txt", "years of work"), ("own.csv", "step,time_seconds,test_loss\n1,0.1,2\n")):
        folder.write(name, text)
        for what in (["--trace"], ["--table", "evaluation"]):
            expect(folder.run("export", "kept.h5", *what, "-o", name), 1, f"{name}: is there already and no export")
        with open(folder.file(name)) as file:
            assert file.read() == text
    for mode, why in ((0o200, "is there already and no "), (0o400, "cannot write: Permission denied")):
        for name, *words in (["held.csv", "export", "kept.h5", "--trace"], ["held.h5", "run", "good.ini"]):
            expect(folder.run(*words, "-o", name), 0)
            os.chmod(folder.file(name), mode)
            expect(folder.run(*words, "-o", name, prepare=obey_permissions), 1, f"{name}: {why}")
            os.remove(folder.file(name))
    for table in ("steps", "evaluation", "evaluation_by_time", "nodes", "timeline", "links"):
        for what in (["--table", table], ["--table", table], ["--trace"], ["--table", table]):
            expect(folder.run("export", "kept.h5", *what, "-o", "export.csv"), 0)
    with h5py.File(folder.file("kept.h5"), "r") as results:
        assert status_of(results) == "complete"


def check_interrupt(folder, number=signal.SIGINT):
    """Ctrl-C, or a terminal that goes away, ends a run with a status that says so and leaves a results file that can be read."""
    output = folder.file("interrupted.h5")
    process = subprocess.Popen([folder.starling, "run", "good.ini", "run.steps=100000000", "-o", output],
                               cwd=folder.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "STARLING_HEARTBEAT": "1"},
                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))  # nohup leaves it ignored
    line = process.stderr.readline()  # comes after a second
    for _ in range(3):  # timeout(1) sends it to the process, and to its group
        process.send_signal(number)
        time.sleep(0.002)
    errors = process.communicate(timeout=60)[1]
    assert re.fullmatch(r"  \d %, .*starting\n", line), line
    assert process.returncode == 128 + number, f"{process.returncode}: {errors}"
    with h5py.File(output, "r") as results:
        assert status_of(results) == f"interrupted by signal {number}"
        assert results["nodes/steps"][:].min() > 0


def check_name(folder):
    """Lists of processes show the program by its name, though it starts itself once more."""
    environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    command = [folder.starling, "run", "good.ini", "run.steps=1000000000", "-o", "name.h5"]
    with subprocess.Popen(command, cwd=folder.path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        try:
            def read(name):
                with open(f"/proc/{run.pid}/{name}", "rb") as file:
                    return file.read()

            end = time.monotonic() + 60
            while b"OMP_WAIT_POLICY=passive" not in read("environ") and time.monotonic() < end:
                time.sleep(0.01)
            assert b"OMP_WAIT_POLICY=passive" in read("environ")
            name = read("comm").decode().strip()
        finally:
            run.kill()
    assert name == os.path.basename(folder.starling), name


def check_processor_time(folder):
    """A limit on processor time ends a run as Ctrl-C does."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    done = folder.run("run", "good.ini", "run.steps=100000000", "-o", "limited.h5",
                      prepare=lambda: resource.setrlimit(resource.RLIMIT_CPU, (2, most)))
    expect(done, 128 + signal.SIGXCPU, "results so far are kept")
    with h5py.File(folder.file("limited.h5"), "r") as results:
        assert status_of(results) == f"interrupted by signal {signal.SIGXCPU}"


def check_progress_bar(folder):
    """In a terminal a bar says how far a run is and how long it will take."""
    reader, writer = os.openpty()
    process = subprocess.Popen([folder.starling, "run", "good.ini", "run.steps=1000000", "-o", "bar.h5"],
                               cwd=folder.path, stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    shown = ""
    give_up = time.monotonic() + 60
    while not re.search(r"\[=* *\] +\d+ %  .* \d+ (s|min|h)( \d\d (s|min))? left", shown) and time.monotonic() < give_up:
        shown += os.read(reader, 4096).decode()
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    os.close(reader)
    assert time.monotonic() < give_up, shown


def check_disk_full(folder):
    """A full disk is one sentence, and the file that was there before stays."""
    mount = folder.file("small")
    os.mkdir(mount)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", mount], check=False,
                             stderr=subprocess.DEVNULL).returncode == 0
    if not mounted:
        print("SKIPPED disk full: no right to mount")
        return "skipped"
    try:
        output = os.path.join(mount, "x.h5")
        expect(folder.run("run", "good.ini", "-o", output), 0)
        expect(folder.run("run", "good.ini", "run.save_models=yes", "run.nodes=200", "-o", output), 1,
               "No space left on device")
        with h5py.File(output, "r") as results:
            assert results["nodes/steps"].shape == (8,)
    finally:
        subprocess.run(["umount", mount], check=False)
    return "passed"


def check_log_on_a_full_disk(folder):
    """What cannot be said on standard error changes neither how a run goes on nor how it ends."""
    os.mkdir(folder.file("unsaid.h5.checkpoint.partial"))  # hence a warning that there is no checkpoint
    for words, status in ((["run.steps=x"], 2), (["algorithm.learning_rate=1e30"], 1), (["run.checkpoint=5 steps"], 0)):
        with open("/dev/full", "w", encoding="ascii") as log:
            done = subprocess.run([folder.starling, "run", "good.ini", *words, "-o", "unsaid.h5"], cwd=folder.path, timeout=120,
                                  stdout=subprocess.DEVNULL, stderr=log, check=False)
        assert done.returncode == status, f"exit status {done.returncode} of {words}, expected {status}"
    with h5py.File(folder.file("unsaid.h5"), "r") as results:
        assert status_of(results) == "complete"


def check_output_on_a_full_disk(folder):
    """What is asked for on standard output and cannot be written there is one sentence, however much it is."""
    for words in (["list", "--markdown"], ["list", "--brief"], ["describe", "good.ini"], ["--version"]):
        with open("/dev/full", "w", encoding="ascii") as output:
            done = subprocess.run([folder.starling, *words], cwd=folder.path, timeout=120, stdout=output, stderr=subprocess.PIPE,
                                  text=True, check=False)
        expect(done, 1, "starling: standard output: cannot write: No space left on device\n")


def check_out_of_memory(folder):
    """Memory that is not there is one sentence with the arithmetic, and the results so far are kept."""
    limit = 1200 << 20  # bytes of address space

    def prepare():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    output = folder.file("memory.h5")
    # 1000 models of 64 * 8000 + 8000 + 8000 * 10 + 10 parameters of 4 bytes: 2.4 GB, and as much again while they mix.
    words = ("run.nodes=1000", "workload.dataset=blobs", "workload.features=64", "workload.samples=1000",
             "workload.hidden=8000", "run.steps=2", "-o", output)
    done = folder.run("run", "good.ini", *words, prepare=prepare)
    expect(done, 1, "out of memory: ")
    assert " * 4 B = " in done.stderr, done.stderr
    with h5py.File(output, "r") as results:
        assert status_of(results).startswith("failed: out of memory: "), status_of(results)
    assert not os.path.exists(output + ".partial")

    # 160 models fit twice, but not thrice, as saving them takes: what else is known is kept.
    output = folder.file("models.h5")
    words = (*words[1:-2], "run.nodes=160", "run.save_models=yes", "run.window=16 MiB", "-o", output)
    done = folder.run("run", "good.ini", *words, prefix=["env", "OMP_NUM_THREADS=1"], prepare=prepare)
    assert done.returncode == 1 and ("allocate memory" in done.stderr or "out of memory: " in done.stderr), done.stderr
    with h5py.File(output, "r") as results:
        assert status_of(results).startswith("failed: "), status_of(results)
        assert "evaluation/test_loss" in results and "models" not in results

    # No room for a thread's stack, which is as large as the main thread's may become.
    def prepare_stack():
        resource.setrlimit(resource.RLIMIT_STACK, (limit, limit))
        prepare()

    done = folder.run("run", "good.ini", prepare=prepare_stack)
    assert (done.returncode, done.stderr) == (1, "starling: cannot start a thread: Resource temporarily unavailable\n"), done.stderr


def check_lost_checkpoints(folder, mpirun=None):
    """A checkpoint for which there is no room is told once and costs the run nothing; results and exports that do not fit leave no file."""
    # 8 models of 64 * 256 + 256 + 256 * 10 + 10 parameters of 4 bytes: 615 kB; results take 35 kB.
    words = ["good.ini", "workload.hidden=256", "run.device=cpu", "run.steps=60"]
    expect(folder.run("run", *words, "-o", "whole.h5"), 0)

    def limit(size):
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    words.append("run.checkpoint=5 steps")

    def check(output, done, reason):
        expect(done, 0, f"{output}.checkpoint: cannot write: {reason}; the run goes on without a checkpoint")
        assert done.stderr.count("cannot write") == 1, done.stderr
        assert re.search("checkpoints not written +[2-9]\n", done.stdout), done.stdout
        expect(folder.run("compare", "whole.h5", output), 0)
        with h5py.File(folder.file("whole.h5")) as whole, h5py.File(folder.file(output)) as found:
            assert (found["evaluation/test_loss"][:] == whole["evaluation/test_loss"][:]).all()

    check("lost.h5", folder.run("run", *words, "-o", "lost.h5", prepare=limit(200_000)), "File too large")
    done = folder.run("run", *words, "-o", "nothing.h5", prepare=limit(4096))
    assert done.returncode == 1 and done.stderr.endswith("starling: nothing.h5: cannot write: File too large\n"), done.stderr
    done = folder.run("export", "whole.h5", "--table", "steps", "-o", "nothing.csv", prepare=limit(4096))
    assert done.returncode == 1 and done.stderr == "starling: nothing.csv: cannot write: File too large\n", (done.returncode, done.stderr)
    # Where nothing can be written at all a run does not begin: this one would take hours.
    done = folder.run("run", *words, "run.steps=1000000000", "-o", "/proc/results.h5")
    assert done.returncode == 1 and "starling: /proc/results.h5: cannot write: " in done.stderr, done.stderr
    left = [name for name in os.listdir(folder.path) if name.startswith(("lost.h5.", "nothing"))]
    assert not left, left
    if mpirun:  # of two processes one writes; the other must not wait for it
        os.mkdir(folder.file("shared.h5.checkpoint.partial"))
        check("shared.h5", folder.run("run", *words, "-o", "shared.h5", prefix=[mpirun, "--oversubscribe", "-n", "2"]),
              "Is a directory")


def check_mpi_failures(folder, mpirun):
    """Over MPI a failure on one rank ends all of them, with one sentence; so does a scenario that is wrong."""
    prefix = [mpirun, "--oversubscribe", "-n", "4"]
    folder.write("walks.ini", GOOD.replace(OF_MLP, "navigation"))
    folder.write("sizes.ini", GOOD.replace(OF_MLP, "timing"))
    for overrides, sentence in ((["algorithm.learning_rate=1e30"], "the run diverged"),
                                (["algorithm.learning_rate=-1"], "learning_rate must be positive"),
                                (["failures.stop=3 @ 5 ms"], "[failures] must not be there over MPI"),
                                (["run.checkpoint=5 steps"], "run.checkpoint must be never over MPI"),
                                (["run.until_target=test_loss 0.1"], "run.until_target must be none over MPI"),
                                (["walks.ini", "compute.per_episode=1 ms"], "[compute] per_episode must not be there over MPI"),
                                (["sizes.ini", "compute.pace=measured"], "compute.pace must be modelled over MPI where"),
                                (["run.nodes=2"], "rank")):
        scenario = [] if overrides[0].endswith(".ini") else ["good.ini"]
        done = folder.run("run", *scenario, *overrides, "--transport", "mpi", prefix=prefix)
        assert done.returncode != 0
        said = [line for line in done.stderr.splitlines() if line.startswith("starling: ")]
        assert said and sentence in said[0], done.stderr
        assert len(said) == 1, done.stderr


def check_progress_over_mpi(folder, mpirun):
    """The clock is a real one; a rank counts its own steps and tells the throughput of all nodes."""
    process = subprocess.Popen([mpirun, "--oversubscribe", "-n", "4", folder.starling, "run", "good.ini", "run.steps=100000000",
                                "run.record_every=10000", "run.evaluate_every=10000", "run.record_order=no", "-o", "progress.h5",
                                "--transport", "mpi"],
                               cwd=folder.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "STARLING_HEARTBEAT": "1"})
    lines = [process.stderr.readline() for _ in range(4)]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    found = re.search(r"wall time (\S+) s, (\d+) of 200000000 steps of this rank, (\S+) samples/s", lines[-1])
    assert found, lines
    seconds, steps, rate = map(float, found.groups())
    own_rate = steps * 16 / seconds
    assert 2 < rate / own_rate < 6, lines  # 4, but for the time that the start took


def check_replay(folder, mpirun):
    """A run over MPI is replayed beside it, and what cannot be replayed is refused; the recording stays as it is."""
    done = folder.run("run", "good.ini", "-o", "real.h5", "--transport", "mpi",
                      prefix=[mpirun, "--oversubscribe", "-n", "4"])
    expect(done, 0)
    with open(folder.file("real.h5"), "rb") as file:
        recording = file.read()
    expect(folder.run("run", "good.ini", "-o", "simulated.h5"), 0)
    done = folder.run("run", "real.h5", "--replay", "real.h5")
    expect(done, 0)
    assert "the same losses as recorded" in done.stdout, done.stdout
    assert "another scenario was" not in done.stderr, done.stderr
    with h5py.File(folder.file("real_replay.h5"), "r") as results:
        assert status_of(results) == "complete" and "acts" not in results
    done = folder.run("run", "good.ini", "algorithm.learning_rate=0.01", "--replay", "real.h5")
    expect(done, 0)
    assert "train_loss of node" in done.stdout, done.stdout
    assert ('real.h5: another scenario was recorded: here is "learning_rate = 0.01", which was "learning_rate = 0.05"'
            in done.stderr), done.stderr
    done = folder.run("run", "good.ini", "run.until=1 ms", "--replay", "real.h5")
    expect(done, 0)
    assert "the same losses as recorded" in done.stdout, done.stdout
    assert 'here is "until = 1 ms", which was "until = 0 s"' in done.stderr, done.stderr
    done = folder.run("run", "good.ini", "run.record_every=2", "--replay", "real.h5")
    expect(done, 0)
    assert "losses were not recorded at the same steps" in done.stdout, done.stdout
    shutil.copy(folder.file("real.h5"), folder.file("part.h5"))
    with h5py.File(folder.file("part.h5"), "r+") as results:
        results["facts"].attrs["status"] = numpy.bytes_("interrupted by signal 2")
    for words, status, sentence in (
            (["real.h5", "--replay", "simulated.h5"], 1, "simulated.h5: holds no order of events to replay"),
            (["real.h5", "--replay", "missing.h5"], 1, "missing.h5: cannot read"),
            (["good.ini", "--replay", "part.h5"], 1, "can be replayed, this one: interrupted by signal 2"),
            (["good.ini", "run.checkpoint=5 steps", "--replay", "real.h5"], 2, "run.checkpoint must be never in a replay"),
            (["good.ini", "run.until_target=test_loss 0.1", "--replay", "real.h5"], 2, "run.until_target must be none in a replay"),
            (["good.ini", "run.nodes=7", "--replay", "real.h5"], 2, "run.nodes must be 8 as in the run that real.h5"),
            (["good.ini", "failures.stop=3 @ 5 ms", "--replay", "real.h5"], 2, "[failures] must not be there"),
            (["good.ini", "run.steps=19", "--replay", "real.h5"], 1, 'here is "steps = 19", which was "steps = 20"'),
            (["good.ini", "--replay", "real.h5", "--transport", "mpi"], 2, "--replay is a simulation"),
            (["real.h5", "--replay", "real.h5", "-o", "./real.h5"], 2, "must name another file than real.h5")):
        expect(folder.run("run", *words), status, sentence)
    # Messages were exchanged, whatever the scenario says of collectives.
    closed = folder.run("run", "good.ini", "network.collectives=analytic", "--replay", "real.h5", "-o", "closed.h5")
    expect(closed, 0)
    assert "another scenario" not in closed.stderr, closed.stderr
    with h5py.File(folder.file("closed.h5")) as results:
        assert results["facts"].attrs["replay"].startswith(b"the same losses"), results["facts"].attrs["replay"]
    with open(folder.file("real.h5"), "rb") as file:
        assert file.read() == recording


def main():
    starling, *mpirun = sys.argv[1:]
    os.environ.update(mpi_environment())
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    with tempfile.TemporaryDirectory(prefix="starling_command_line") as path:
        folder = Folder(starling, path)
        cases = [check_mistakes, check_keys_of_other_kinds, check_absurd_requests, check_usage, check_commands, check_summaries, check_no_file_is_lost,
                 check_interrupt, lambda folder: check_interrupt(folder, signal.SIGHUP),
                 check_name, check_processor_time, check_progress_bar, check_disk_full, check_log_on_a_full_disk, check_output_on_a_full_disk,
                 check_out_of_memory]
        cases.append(lambda f: check_lost_checkpoints(f, *mpirun))
        if mpirun:
            cases.append(lambda f: check_mpi_failures(f, mpirun[0]))
            cases.append(lambda f: check_progress_over_mpi(f, mpirun[0]))
            cases.append(lambda f: check_replay(f, mpirun[0]))
        for case in cases:
            try:
                counts[case(folder) or "passed"] += 1
            except (AssertionError, subprocess.TimeoutExpired, OSError, KeyError) as error:
                counts["failed"] += 1
                print(f"FAILED {getattr(case, '__name__', 'case')}: {error}")
    print(", ".join(f"{counts[key]} {key}" for key in ("passed", "failed", "skipped")))
    sys.exit(1 if counts["failed"] else 0)


if __name__ == "__main__":
    main()
