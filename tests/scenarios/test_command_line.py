#!/usr/bin/python3
"""The program as its user meets it: help, commands, what they print, and what is replayed.

usage: test_command_line.py STARLING [MPIRUN]
"""

import ctypes.util
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest.mock

import h5py
import numpy
from command_line import FLUID, GOOD, OF_MLP, expect, run_cases, status_of


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
                            (["list", "nonsense"], "there is no section, component or key nonsense; sections are algorithm, topology, "),
                            (["list", "sweep"], "run (and sweep: docs/keys.md); all components: starling list --brief"),
                            (["list", "kind"], "kind says which component a section has: starling list --brief tells all"),
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
    with unittest.mock.patch.dict(os.environ, STARLING_ISA="v9"):
        expect(folder.run("run", "good.ini"), 1, "environment variable STARLING_ISA: expected one that this processor can run")
    with unittest.mock.patch.dict(os.environ, STARLING_ISA="v1"):
        expect(folder.run("run", "good.ini", "-o", "v1.h5"), 0)
    with unittest.mock.patch.dict(os.environ, STARLING_CUDA_PLUGIN=ctypes.util.find_library("m")):
        expect(folder.run("run", "good.ini", "run.device=cuda"), 1, "is no GPU plug-in: it lacks starling_device_interface")
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
    # a key as each kind has it, each way once
    rows = [" ".join(line.split()) for line in folder.run("list", "momentum").stdout.splitlines()]
    assert rows[0] == "algorithms ([algorithm] kind = ..)", rows
    ways = {row: set(names.split(", ")) for names, row in zip(rows[1::2], rows[2::2])}
    said = "with optimizer = sgd or sgdp: share of the last step that is kept; local to the node"
    assert set(ways) == {f"momentum number (0) {said}", f"momentum number (0.9) {said}"}, ways
    assert "dpsgd" in ways[f"momentum number (0) {said}"] and "dgc" in ways[f"momentum number (0.9) {said}"]
    assert folder.run("list", "run.until").stdout.splitlines()[0] == "the run ([run])"
    assert folder.run("list", "algorithm.group_size").stdout == folder.run("list", "group_size").stdout
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
    folder.write("delays.csv", "0.001\n0.002\n")
    expect(folder.run("run", "good.ini", "compute.delay_trace=delays.csv", "-o", "delayed.h5"), 0)
    assert folder.run("run", "delayed.h5", "-q").stderr == ""
    folder.write("delays.csv", "0.001\n0.003\n")
    assert folder.run("run", "delayed.h5", "-q").stderr == "starling: warning: delays.csv has changed since the run of delayed.h5 read it\n"
    done = folder.run("run", "good.ini", "reference.file=theirs.csv", "-q", "-o", "delayed.h5")
    assert done.stderr.endswith("theirs.csv: is not there yet\n"), done.stderr
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
                            (["describe", "network.kind=loggp", "network.preset=10gbe", "network.latency=default"],
                             "message                 25 us + 0.8475 ns per byte between a typical pair, 0.2 more where the receiver sends as much meanwhile; "),
                            (["describe", "workload.dataset=blobs", "workload.partition=iid"], "data of a node          250 samples with 10 labels\n"),
                            (["describe", "run.nodes=4", "topology.kind=file", "topology.path=arcs.dot"], " row-stochastic")):
        done = folder.run(words[0], "good.ini", *words[1:])
        expect(done, 0)
        assert sentence in done.stdout, f"{words}: {done.stdout}"
    timing = ["workload.kind=timing", "workload.parameters=1e6", *(f"workload.{key}=default" for key in ("dataset", "hidden")),
              "algorithm.learning_rate=default"]
    for words, sentence in ((["algorithm.kind=allreduce", "algorithm.compression=half"],
                             "command line: algorithm.compression = half sends more than none: each node's code goes to all others, "
                             "3.5 models, where a ring of sums takes 1.75; code_route = owners sends 0.875\n"),
                            ([*timing, "algorithm.kind=allreduce", "algorithm.exchange=buckets", "algorithm.overlap=backward"],
                             "command line: algorithm.exchange = buckets changes nothing: the workload has one tensor\n"),
                            ([*timing, "algorithm.kind=allreduce", "algorithm.collective=hierarchical", "algorithm.collective_group=3"],
                             "command line: algorithm.collective = hierarchical is one ring of all: 8 nodes do not divide into several groups of "
                             "collective_group = 3\n"),
                            ([*timing, "algorithm.kind=allreduce", "algorithm.collective=hierarchical", "algorithm.collective_group=8"],
                             "command line: algorithm.collective = hierarchical is one ring of all: 8 nodes do not divide into several groups of "
                             "collective_group = 8\n"),
                            ([*timing, *FLUID, "network.nodes_per_host=3", "network.local_bandwidth=10 GB/s",
                              "algorithm.kind=allreduce", "algorithm.collective=hierarchical"],
                             "command line: algorithm.collective = hierarchical is one ring of all: 8 nodes do not divide into several groups of "
                             "collective_group = 3\n"),
                            ([*timing, "run.nodes=20", "algorithm.kind=diloco", "algorithm.period=2", "algorithm.compression=levels"],
                             "command line: algorithm.compression = levels sends more than none: each node's code goes to all others, "),
                            ([*timing, "algorithm.kind=powersgd"],
                             "command line: algorithm.kind = powersgd compresses nothing: the workload names no matrices\n"),
                            ([*FLUID, "network.nodes_per_host=2", "network.local_bandwidth=10 GB/s", "network.collectives=analytic"],
                             "command line: network.collectives = analytic takes all ways for those of node 0, at their least bandwidth, and "
                             "nobody else's messages on them; with nodes_per_host = 2"),
                            (["run.steps=2", "compute.gradient=3 ms", "run.evaluate_interval=1 us"],
                             "command line: run.evaluate_interval is 1 us: 3000 evaluations for each gradient of 3 ms\n"),
                            (["run.steps=1e12", "run.record_every=1", "run.until=20 ms"],
                             "command line: run.record_every is 1: 1000000000000 rows * "),
                            (["network.copy_bandwidth=1 GB/s"], "command line: network.copy_bandwidth has changed nothing: no tensors are gathered"),
                            (["compute.forward_share=0.5"], "command line: compute.forward_share changes nothing without algorithm.overlap = backward")):
        done = folder.run("run", "good.ini", *words)
        assert f"starling: warning: {sentence}" in done.stderr, words
        quiet = folder.run("run", "good.ini", *words, "--quiet")
        # what is free differs from one moment to the next
        first, second = (re.sub(r"[\d.]+ GiB of memory are free", "", text) for text in (done.stderr, quiet.stderr))
        assert (quiet.stdout, second) == ("", first), words
    said = folder.run("run", "good.ini", "algorithm.learning_rate=100").stderr  # all numbers are finite
    assert re.search(r"^starling: warning: training loss ended at [0-9.e+]+, [0-9.e+]+ times its first value: the run seems to have diverged$",
                     said, re.MULTILINE), said
    choco = ["algorithm.kind=choco", "algorithm.compression=top_k", "algorithm.keep=0.1", "algorithm.consensus_rate=1", "run.steps=200"]
    assert "starling: warning: consensus distance ended at " in folder.run("run", "good.ini", *choco).stderr
    for words in ([], ["run.steps=2", "run.evaluate_interval=1 us"]):  # 1000 for each gradient
        assert not folder.run("run", "good.ini", *words).stderr, words
    # Links that are set alike have closed forms.
    ring = ["algorithm.kind=allreduce", "algorithm.collective=ring", *FLUID, "network.collectives=analytic"]
    for name, links in (("all", "network.link_bandwidths=host 3 *: 1 GB/s, host 5 *: 2 GB/s, *: 1 MB/s"), ("usual", "network.bandwidth=1 MB/s")):
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
    cases = [check_usage, check_commands, check_summaries, check_name, check_processor_time, check_progress_bar]
    if mpirun:
        cases.append(lambda folder: check_progress_over_mpi(folder, mpirun[0]))
        cases.append(lambda folder: check_replay(folder, mpirun[0]))
    run_cases(starling, cases)


if __name__ == "__main__":
    main()
