#!/usr/bin/python3
"""The program as its user meets it: help, commands, what they print, and what is replayed.

usage: test_command_line.py STARLING [--mpirun MPIRUN]
"""

import ctypes.util
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import h5py
import numpy
from command_line import FLUID, GOOD, OF_MLP, CommandLineCase
from program_case import main


class UsageTest(CommandLineCase):
    def test_help_is_everywhere(self):
        done = self.expect("--help")
        self.assertIn("usage", done.stdout)
        commands = re.findall(r"^  ([a-z]+) +(.*)", done.stdout, re.MULTILINE)
        self.assertEqual(len(commands), 9, commands)
        for command, summary in commands:
            if command != "report":  # which is by a program of its own
                self.assertIn(f"\n\nstarling {command}: {summary}\n\n", self.expect(command, "--help").stdout)

    def test_commands_and_options_that_do_not_exist_are_refused(self):
        self.write("points.ini", GOOD + "[sweep]\nrun.steps = 1, 2\n")
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
            with self.subTest(words):
                self.expect(*words, status=2, sentence=sentence)
        self.starling(status=2)
        self.expect("run", "missing.ini", status=1, sentence="missing.ini")

    def test_variables_of_the_environment_are_heeded_or_refused(self):
        for name, value, words, status, sentence in (
                ("STARLING_ISA", "v9", [], 1, "environment variable STARLING_ISA: expected one that this processor can run"),
                ("STARLING_ISA", "v1", ["-o", "v1.h5"], 0, ""),
                ("STARLING_CUDA_PLUGIN", ctypes.util.find_library("m"), ["run.device=cuda"], 1,
                 "is no GPU plug-in: it lacks starling_device_interface")):
            with self.subTest(f"{name}={value}"):
                self.expect("run", "good.ini", *words, status=status, sentence=sentence, environment={name: value})


class DescribeTest(CommandLineCase):
    def test_what_describe_prints_is_a_scenario(self):
        described = self.expect("describe", "good.ini").stdout
        for text in ("spectral gap", "learning_rate", "momentum", "memory"):
            self.assertIn(text, described)
        self.write("described.ini", described)
        self.expect("describe", "described.ini")

    def test_one_node_has_no_arcs(self):
        self.assertIn("1 node, 0 arcs in", self.expect("describe", "good.ini", "run.nodes=1").stdout)

    def test_a_workload_without_numbers_is_told(self):
        self.write("timing.ini", GOOD.replace(OF_MLP, "timing"))
        self.assertIn("no numbers are kept", self.expect("describe", "timing.ini").stdout)


class ListTest(CommandLineCase):
    def rows(self, name):
        """What `list NAME` prints, blanks joined."""
        return [" ".join(line.split()) for line in self.expect("list", name).stdout.splitlines()]

    def test_components_and_keys_are_listed(self):
        listed = self.expect("list").stdout
        for text in ("dpsgd", "ring", "loggp", "mlp", "learning_rate", "group_size", "evaluate_every", "with dataset = idx", "collectives"):
            self.assertIn(text, listed)

    def test_a_key_is_told_for_each_choice_that_gives_it_another_default_or_meaning_and_only_for_those_that_have_it(self):
        for name, key, said in (("adpsgd", "momentum", "number (0) with optimizer = sgd or sgdp: share"),
                                ("adpsgd", "epsilon", "number (1e-10) with optimizer = adagrad: added"),
                                ("adpsgd", "epsilon", "number (1e-08) with optimizer = adam or adamw: added"),
                                ("fluid", "slow_bandwidth", "bandwidth (by preset, bandwidth) of the links"),
                                ("mlp", "classes", "integer (10) with dataset = blobs: number"),
                                ("mlp", "classes", "integer (0) with dataset = idx or hdf5: number"),
                                ("mlp", "path", "text (required) with dataset = hdf5: HDF5"),
                                ("mlp", "shards_per_node", "integer (1) with partition = by_length: pieces")):
            with self.subTest(name=name, key=key):
                self.assertTrue(any(row.startswith(f"{key} {said}") for row in self.rows(name)), self.rows(name))

    def test_a_key_is_listed_as_each_kind_has_it_each_way_once(self):
        rows = self.rows("momentum")
        self.assertEqual(rows[0], "algorithms ([algorithm] kind = ..)")
        ways = {row: set(names.split(", ")) for names, row in zip(rows[1::2], rows[2::2])}
        said = "with optimizer = sgd or sgdp: share of the last step that is kept; local to the node"
        self.assertEqual(set(ways), {f"momentum number (0) {said}", f"momentum number (0.9) {said}"})
        self.assertIn("dpsgd", ways[f"momentum number (0) {said}"])
        self.assertIn("dgc", ways[f"momentum number (0.9) {said}"])
        self.assertEqual(self.rows("run.until")[0], "the run ([run])")
        self.assertEqual(self.rows("algorithm.group_size"), self.rows("group_size"))

    def test_the_longest_key_has_a_gap_behind_it_too(self):
        self.assertRegex(self.expect("list", "failures").stdout, r"(?m)^ +mean_time_between_failures +duration ")


class ExportTest(CommandLineCase):
    def setUp(self):
        super().setUp()
        self.expect("run", "good.ini", "run.timeline=1 s")

    def test_tables_and_traces_are_exported(self):
        for table in ("steps", "evaluation", "nodes", "timeline"):
            self.assertGreater(self.expect("export", "results/good.h5", "--table", table).stdout.count("\n"), 5, table)
        self.expect("export", "results/good.h5", "--trace", "-o", "trace.json")
        self.expect("export", "results/good.h5", "--table", "nodes", "-o", "nodes.csv")
        self.assertEqual(len(self.read("nodes.csv").splitlines()), 9)  # a head and eight nodes
        self.expect("export", "results/good.h5", "--table", "walks", status=1)

    def test_a_trace_has_the_links_of_a_network_that_has_such(self):
        self.expect("run", "good.ini", *FLUID, "run.timeline=1 s", "-o", "fluid.h5")
        self.expect("export", "fluid.h5", "--trace", "-o", "fluid.json")
        self.assertIn("host 0 up", self.read("fluid.json"))

    def test_what_results_do_not_have_is_told(self):
        self.expect("run", "good.ini", "run.timeline=0 s", "-o", "bare.h5")
        for name, what, sentence in (("bare.h5", ["--trace"], "warning: bare.h5 keeps no timeline"),
                                     ("bare.h5", ["--table", "timeline"], "warning: bare.h5 keeps no timeline"),
                                     ("results/good.h5", ["--table", "links"], "warning: results/good.h5 has no links"),
                                     ("results/good.h5", ["--table", "evaluation_by_time"], "has no evaluation_by_time")):
            self.expect("export", name, *what, sentence=sentence)


class RepetitionTest(CommandLineCase):
    """A run from its results file."""

    def setUp(self):
        super().setUp()
        self.expect("run", "good.ini")

    def test_results_are_not_replaced_by_their_repetition(self):
        self.expect("run", "results/good.h5", "run.output=results/good.h5", status=2,
                    sentence="results/good.h5 would be replaced by its repetition")

    def test_a_repetition_stands_beside_the_results_not_where_they_say_that_they_were(self):
        (self.folder / "results/good.h5").rename(self.folder / "theirs.h5")
        self.expect("run", "theirs.h5", "run.steps=3")
        self.assertTrue((self.folder / "theirs_again.h5").exists())
        self.assertFalse((self.folder / "results/good.h5").exists())

    def test_a_repetition_is_the_same_experiment(self):
        self.expect("run", "results/good.h5", "-o", "again.h5")
        self.assertNotIn("different experiments", self.expect("compare", "results/good.h5", "again.h5").stdout)

    def test_a_file_that_has_changed_since_is_told(self):
        self.write("delays.csv", "0.001\n0.002\n")
        self.expect("run", "good.ini", "compute.delay_trace=delays.csv", "-o", "delayed.h5")
        self.assertEqual(self.expect("run", "delayed.h5", "-q").stderr, "")
        self.write("delays.csv", "0.001\n0.003\n")
        self.assertEqual(self.expect("run", "delayed.h5", "-q").stderr,
                         "starling: warning: delays.csv has changed since the run of delayed.h5 read it\n")

    def test_a_reference_that_is_not_there_yet_is_told(self):
        done = self.expect("run", "good.ini", "reference.file=theirs.csv", "-q", "-o", "delayed.h5")
        self.assertTrue(done.stderr.endswith("theirs.csv: is not there yet\n"), done.stderr)

    def test_a_complete_run_leaves_nothing_to_resume(self):
        self.assertIn("the run is complete, there is nothing to resume", self.expect("resume", "results/good.h5").stdout)
        for name in ("nowhere.h5", "good.ini"):
            self.expect("resume", name, status=1,
                        sentence=f"{name}.checkpoint: there is no checkpoint to resume; that of RESULTS.h5 is RESULTS.h5.checkpoint, ")

    def test_a_results_file_names_every_key_and_defaults_ask_for_nothing(self):
        for words in (["describe", "results/good.h5"], ["run", "results/good.h5", "-o", "again.h5"]):
            self.assertEqual(self.expect(*words).stderr, "")
        # Others stand in its lines.
        self.expect("run", "good.ini", "compute.forward_share=0.5", "-o", "stored.h5")
        with h5py.File(self.folder / "stored.h5") as results:
            lines = results["scenario"][()].decode().splitlines()
        place = f"stored.h5/scenario:{1 + [line.split(' =')[0] for line in lines].index('forward_share')}"
        self.expect("describe", "stored.h5", sentence=f"warning: {place}: compute.forward_share changes nothing")


class CompareTest(CommandLineCase):
    def setUp(self):
        super().setUp()
        self.expect("run", "good.ini", "-o", "good.h5")

    def test_different_experiments_are_told_with_what_differs(self):
        self.expect("run", "good.ini", "run.seed=2", "algorithm.kind=allreduce", "-o", "other.h5")
        third = self.starling("compare", "good.h5", "other.h5", "--loss", "10", status=None).stdout.splitlines()[2]
        self.assertIn("algorithm.kind (dpsgd, allreduce)", third)
        self.assertIn("run.seed (1, 2)", third)

    def test_columns_stay_apart_however_large_the_deviation(self):
        self.expect("run", "good.ini", "compute.gradient=10000 s", "-o", "late.h5")
        said = self.starling("compare", "late.h5", "good.h5", status=None).stdout
        per_step = next(line for line in said.splitlines() if line.startswith("time per step, s"))
        self.assertEqual(len(per_step.split()), 11, per_step)

    def test_what_is_done_with_a_loss_that_is_not_finite_is_nothing_to_runs_that_have_none(self):
        self.expect("run", "good.ini", "run.on_divergence=mark", "-o", "marked.h5")
        self.assertNotIn("different experiments", self.expect("compare", "good.h5", "marked.h5").stdout)
        self.expect("run", "good.ini", "algorithm.learning_rate=1e30", "run.on_divergence=mark", "-o", "diverged.h5")
        self.expect("run", "good.ini", "algorithm.learning_rate=1e30", "-o", "stopped.h5", status=1, sentence="diverged")
        for one, other in ("good.h5", "diverged.h5"), ("stopped.h5", "marked.h5"):
            self.assertIn(", run.on_divergence (stop, mark)", self.starling("compare", one, other, status=None).stdout)


class SummariesTest(CommandLineCase):
    """What is true of some runs only is said of them."""

    def test_summaries_say_what_some_runs_have(self):
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
            with self.subTest(words):
                self.assertIn(sentence, self.expect(words[0], "good.ini", *words[1:]).stdout)

    def test_settings_that_do_not_what_they_seem_to_are_warned_of_also_when_quiet(self):
        timing = ["workload.kind=timing", "workload.parameters=1e6", *(f"workload.{key}=default" for key in ("dataset", "hidden")),
                  "algorithm.learning_rate=default"]
        for words, sentence in ((["algorithm.kind=allreduce", "algorithm.compression=half"],
                                 "command line: algorithm.compression = half sends more than none: each node's code goes to all others, "
                                 "3.5 models, where a ring of sums takes 1.75; code_route = owners or sums sends 0.875\n"),
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
            with self.subTest(words):
                done = self.expect("run", "good.ini", *words, sentence=f"starling: warning: {sentence}")
                quiet = self.expect("run", "good.ini", *words, "--quiet")
                # what is free differs from one moment to the next
                first, second = (re.sub(r"[\d.]+ GiB of memory are free", "", text) for text in (done.stderr, quiet.stderr))
                self.assertEqual((quiet.stdout, second), ("", first))

    def test_a_run_that_seems_to_have_diverged_is_warned_of(self):
        said = self.expect("run", "good.ini", "algorithm.learning_rate=100").stderr  # all numbers are finite
        self.assertRegex(said, r"(?m)^starling: warning: training loss ended at [0-9.e+]+, [0-9.e+]+ times its first value: the run seems to have diverged$")
        choco = ["algorithm.kind=choco", "algorithm.compression=top_k", "algorithm.keep=0.1", "algorithm.consensus_rate=1", "run.steps=200"]
        self.expect("run", "good.ini", *choco, sentence="starling: warning: consensus distance ended at ")

    def test_a_run_as_it_should_be_is_warned_of_nothing(self):
        for words in ([], ["run.steps=2", "run.evaluate_interval=1 us"]):  # 1000 for each gradient
            self.assertEqual(self.expect("run", "good.ini", *words).stderr, "")

    def test_links_that_are_set_alike_have_closed_forms(self):
        ring = ["algorithm.kind=allreduce", "algorithm.collective=ring", *FLUID, "network.collectives=analytic"]
        times = []
        for name, links in (("all", "network.link_bandwidths=host 3 *: 1 GB/s, host 5 *: 2 GB/s, *: 1 MB/s"), ("usual", "network.bandwidth=1 MB/s")):
            self.expect("run", "good.ini", *ring, links, "-o", f"{name}.h5")
            with h5py.File(self.folder / f"{name}.h5") as results:
                times.append(results["steps/time"][-1, 0])
        self.assertEqual(times[0], times[1])
        self.assertGreater(times[0], 0.02)


class ProcessTest(CommandLineCase):
    def test_lists_of_processes_show_the_program_by_its_name_though_it_starts_itself_once_more(self):
        environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
        command = [self.program, "run", "good.ini", "run.steps=1000000000", "-o", "name.h5"]
        with subprocess.Popen(command, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            try:
                def read(name):
                    with open(f"/proc/{run.pid}/{name}", "rb") as file:
                        return file.read()

                end = time.monotonic() + 60
                while b"OMP_WAIT_POLICY=passive" not in read("environ") and time.monotonic() < end:
                    time.sleep(0.01)
                self.assertIn(b"OMP_WAIT_POLICY=passive", read("environ"))
                name = read("comm").decode().strip()
            finally:
                run.kill()
        self.assertEqual(name, self.program.name)

    def test_a_limit_on_processor_time_ends_a_run_as_control_c_does(self):
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        self.expect("run", "good.ini", "run.steps=100000000", "-o", "limited.h5", status=128 + signal.SIGXCPU, sentence="results so far are kept",
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (2, most)))
        self.assertEqual(self.status_in("limited.h5"), f"interrupted by signal {signal.SIGXCPU}")

    def test_in_a_terminal_a_bar_says_how_far_a_run_is_and_how_long_it_will_take(self):
        reader, writer = os.openpty()
        process = self.start("run", "good.ini", "run.steps=1000000", "-o", "bar.h5", stdout=subprocess.DEVNULL, stderr=writer)
        os.close(writer)
        shown = ""
        give_up = time.monotonic() + 60
        while not re.search(r"\[=* *\] +\d+ %  .* \d+ (s|min|h)( \d\d (s|min))? left", shown) and time.monotonic() < give_up:
            shown += os.read(reader, 4096).decode()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        os.close(reader)
        self.assertLess(time.monotonic(), give_up, shown)


class OverMpiTest(CommandLineCase):
    def setUp(self):
        if not self.mpirun:
            self.skipTest("needs MPI")
        super().setUp()

    def test_a_rank_counts_its_own_steps_by_a_real_clock_and_tells_the_throughput_of_all_nodes(self):
        process = self.start("run", "good.ini", "run.steps=100000000", "run.record_every=10000", "run.evaluate_every=10000", "run.record_order=no",
                             "-o", "progress.h5", "--transport", "mpi", processes=4, stdout=subprocess.DEVNULL,
                             environment={"STARLING_HEARTBEAT": "1"})
        lines = [process.stderr.readline() for _ in range(4)]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        found = re.search(r"wall time (\S+) s, (\d+) of 200000000 steps of this rank, (\S+) samples/s", lines[-1])
        self.assertTrue(found, lines)
        seconds, steps, rate = map(float, found.groups())
        own_rate = steps * 16 / seconds
        self.assertTrue(2 < rate / own_rate < 6, lines)  # 4, but for the time that the start took


class ReplayTest(CommandLineCase):
    """Of a run over MPI."""

    def setUp(self):
        if not self.mpirun:
            self.skipTest("needs MPI")
        super().setUp()
        self.expect("run", "good.ini", "-o", "real.h5", "--transport", "mpi", processes=4)

    def test_a_replay_stands_beside_the_recording_and_has_its_losses(self):
        done = self.expect("run", "real.h5", "--replay", "real.h5")
        self.assertIn("the same losses as recorded", done.stdout)
        self.assertNotIn("another scenario was", done.stderr)
        self.assertEqual(self.status_in("real_replay.h5"), "complete")
        with h5py.File(self.folder / "real_replay.h5", "r") as results:
            self.assertNotIn("acts", results)

    def test_another_scenario_than_was_recorded_is_told(self):
        for setting, result, difference in (("algorithm.learning_rate=0.01", "train_loss of node",
                                             'real.h5: another scenario was recorded: here is "learning_rate = 0.01", which was "learning_rate = 0.05"'),
                                            ("run.until=1 ms", "the same losses as recorded", 'here is "until = 1 ms", which was "until = 0 s"'),
                                            ("run.record_every=2", "losses were not recorded at the same steps", "")):
            with self.subTest(setting):
                self.assertIn(result, self.expect("run", "good.ini", setting, "--replay", "real.h5", sentence=difference).stdout)

    def test_messages_were_exchanged_whatever_the_scenario_says_of_collectives(self):
        closed = self.expect("run", "good.ini", "network.collectives=analytic", "--replay", "real.h5", "-o", "closed.h5")
        self.assertNotIn("another scenario", closed.stderr)
        with h5py.File(self.folder / "closed.h5") as results:
            self.assertTrue(results["facts"].attrs["replay"].startswith(b"the same losses"), results["facts"].attrs["replay"])

    def test_what_cannot_be_replayed_is_refused_and_the_recording_stays_as_it_is(self):
        recording = (self.folder / "real.h5").read_bytes()
        self.expect("run", "good.ini", "-o", "simulated.h5")
        shutil.copy(self.folder / "real.h5", self.folder / "part.h5")
        with h5py.File(self.folder / "part.h5", "r+") as results:
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
            with self.subTest(words):
                self.expect("run", *words, status=status, sentence=sentence)
        self.assertEqual((self.folder / "real.h5").read_bytes(), recording)


if __name__ == "__main__":
    main("program", "--mpirun")
