#!/usr/bin/python3
"""`starling sweep`: its points, its table, and that nothing finished is ever lost.

usage: test_sweep.py STARLING PRELOADED
"""
import csv
import fcntl
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import time

import h5py
import numpy as np

from program_case import ProgramCase, main
from runs import children, content, wait_until_at_work
from small_scenarios import SCENARIO, SMALL

# the [sweep] section -> names of the points, or a piece of the sentence that refuses it
POINTS = [
    ("run.steps = 1 .. 3", ["steps=1", "steps=2", "steps=3"]),
    ("run.seed = 1000000000001 .. 1000000000003", ["seed=1000000000001", "seed=1000000000002", "seed=1000000000003"]),
    ("run.nodes = 4 .. 16 times 2", ["nodes=4", "nodes=8", "nodes=16"]),
    ("algorithm.learning_rate = 0.1 .. 0.3 step 0.1, 1", [f"learning_rate={v}" for v in ("0.1", "0.2", "0.3", "1")]),
    ("compute.gradient = 0 .. 320 ms step 160", ["gradient=0ms", "gradient=160ms", "gradient=320ms"]),
    ("compute.speeds = 1, 1, 1, 1, 1, 1, 1, 2 | 1, 1, 1, 1, 1, 1, 1, 1", ["speeds=1-1-1-1-1-1-1-2", "speeds=1-1-1-1-1-1-1-1"]),
    ("run.nodes = 2, 4\nrun.steps = 5, 6\nzip = run.nodes run.steps", ["nodes=2,steps=5", "nodes=4,steps=6"]),
    ("run.nodes = 2, 4\nrun.steps = 5, 6\nzip = run.nodes, run.steps", ["nodes=2,steps=5", "nodes=4,steps=6"]),
    ("run.nodes = 2, 4\nrepeats = 2", ["nodes=2,seed=1", "nodes=2,seed=2", "nodes=4,seed=1", "nodes=4,seed=2"]),
    ("topology.kind = ring, complete\nalgorithm.kind = dpsgd", ["topology.kind=ring,algorithm.kind=dpsgd", "topology.kind=complete,algorithm.kind=dpsgd"]),
    # names that fall together end in the FNV-1a of their values, here of "1ms" and a line end
    ("compute.gradient = 1 ms, 1ms", ["gradient=1ms", "gradient=1ms-9d8170ce"]),
    # those of one FNV-1a go on counting
    (f"algorithm.learning_rate = 0.{118 * '0'}177254647, 0.{118 * '0'}125252734",
     [f"learning_rate=0.{104 * '0'}-95cd979{last}" for last in (8, 9)]),
    ("", "lists no values"),
    ("nodes = 2", "must be section.key of another section"),
    ("run.nodes = 2,, 3", "has an empty value"),
    ("run.nodes = 2, 2", "has a value twice"),
    ("run.nodes = 2, 4, 4\nrun.steps = 5, 5, 6\nzip = run.nodes run.steps", ["nodes=2,steps=5", "nodes=4,steps=5", "nodes=4,steps=6"]),
    ("run.nodes = 2, 4, 4\nrun.steps = 5, 6, 6\nzip = run.nodes run.steps", "sweep.zip has the same values twice: 4, 6"),
    ("run.nodes = 1 .. 10 step 0", "positive step"),
    ("run.nodes = 9 .. 1", "does not fall"),
    ("run.nodes = 8 .. 64 *2", "needs ranges such as 1 .. 5, 0 .. 320 ms step 160 ms or 4 .. 64 times 2, got 8 .. 64 *2"),
    ("run.nodes = two .. 9", "needs numbers at the ends of a range, got two"),
    ("algorithm.learning_rate = 0.1 .. 0.3", "needs a step that fits between 0.1 and 0.3"),
    ("run.nodes = 1 .. 9 times 1", "needs a positive start and a factor above 1"),
    ("compute.gradient = 1 ms .. 3 s", "one unit"),
    ("run.nodes = 2, 4\nrun.steps = 1 .. 3\nzip = run.nodes run.steps", "lists of one length"),
    ("run.nodes = 2\nzip = run.nodes run.steps", "names run.steps, which has no list here"),
    ("run.nodes = 1 .. 100000\nrun.steps = 1 .. 100000", "more than 1000000 points"),
    ("run.seed = 1, 2\nrepeats = 2", "cannot stand beside a list of run.seed"),
    ("run.nodes = 2\nrepeats = 0", "must be from 1 to"),
    ("run.output = a.h5, b.h5", "s.ini:19: sweep.run.output would change no run"),
    ("reference.file = a.csv, b.csv", "sweep.reference.file would change no run"),
    ("sweep.repeats = 1, 2", "must be section.key of another section"),
]


class SweepTest(ProgramCase):

    def write(self, text):
        (self.folder / "s.ini").write_text(text)

    def command(self, *words):
        return [str(self.program), "sweep", "s.ini", "-o", "out", "-j", "2", *words]

    def sweep(self, *words, status=0, environment=(), before=None):
        """Runs it, after `before` in its process."""
        done = subprocess.run(self.command(*words), cwd=self.folder, capture_output=True, text=True, timeout=240,
                              env=dict(os.environ, **dict(environment)), preexec_fn=before)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr

    def table(self, name="table.csv"):
        with open(self.folder / "out" / name, newline="") as file:
            return list(csv.DictReader(file))

    def test_points_are_the_combinations_of_the_lists(self):
        for text, expected in POINTS:
            with self.subTest(text):
                self.write(SCENARIO + "[sweep]\n" + text + "\n")
                if isinstance(expected, str):
                    self.assertIn(expected, self.sweep("--list", status=2))
                else:
                    self.assertEqual(self.sweep("--list").split(), expected)

    def test_sweeps_started_at_once_in_one_folder_share_the_points(self):
        self.write(SMALL)
        self.sweep()
        alone = (self.folder / "out" / "table.h5").read_bytes()
        shutil.rmtree(self.folder / "out")
        at_once = [subprocess.Popen(self.command(), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(3)]
        said = [process.communicate(timeout=240)[0] for process in at_once]
        self.assertEqual([process.returncode for process in at_once], [0, 0, 0], said)
        self.assertEqual((self.folder / "out" / "table.h5").read_bytes(), alone)
        self.assertEqual([path.name for path in (self.folder / "out").iterdir() if path.suffix not in (".h5", ".csv", ".ini")], [])

    def test_a_point_that_another_sweep_runs_is_left_to_it(self):
        self.write(SCENARIO + "[sweep]\nrun.nodes = 2, 4\n")
        (self.folder / "out").mkdir()
        with open(self.folder / "out" / "nodes=2.log", "w", encoding="ascii") as log:
            fcntl.flock(log, fcntl.LOCK_EX)  # as a point that runs does
            self.assertIn("1 of 2 points are finished, 1 were under way elsewhere", self.sweep())
        self.assertIn("2 of 2 points are finished; ", self.sweep())

    def test_a_point_is_run_after_all_if_the_sweep_that_had_begun_it_was_killed(self):
        self.write(SCENARIO + "[sweep]\nrun.nodes = 2, 4\n")
        (self.folder / "out").mkdir()
        with open(self.folder / "out" / "nodes=2.log", "w", encoding="ascii") as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            sweep = subprocess.Popen(self.command("run.steps=30000", "run.record_every=1000"), cwd=self.folder, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True)
            while not (self.folder / "out" / "nodes=4.log").exists():  # it has left the other to us by then, or does at once
                time.sleep(0.01)
            time.sleep(0.1)
        said = sweep.communicate(timeout=240)[0]
        self.assertIn("2 of 2 points are finished; ", said)

    def test_points_whose_nodes_finish_far_apart_are_named(self):
        self.write(SCENARIO.replace("dpsgd", "adpsgd").replace("[compute]\n", "[compute]\nslow_nodes = 1\n") + "[sweep]\ncompute.slowdown = 1, 10\n")
        said = self.sweep()
        self.assertIn("warning: 1 point has nodes that finish far apart: slowdown=10; of the first, between 0.02", said)
        self.assertIn("running_steps_per_second is of all while they run", said)
        fast, slow = (row for row in self.table("points.csv"))
        self.assertAlmostEqual(float(fast["running_steps_per_second"]), float(fast["steps_per_second"]), delta=0.1 * float(fast["steps_per_second"]))
        self.assertGreater(float(slow["running_steps_per_second"]), 5 * float(slow["steps_per_second"]))
        self.assertLess(10 * float(slow["first_finish_seconds"]), 1.2 * float(slow["virtual_time_seconds"]))

    def test_points_that_seem_to_have_diverged_are_named(self):
        self.write(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.1, 1e20\n")
        softmax = ("workload.kind=softmax", "workload.hidden=default")  # whose losses stay finite
        self.assertIn("warning: 1 point seems to have diverged: learning_rate=1e20; of the first, training loss ended at ", self.sweep(*softmax))
        self.assertNotIn("diverged", self.sweep(*softmax, "-q"))
        done = subprocess.run([str(self.program), "run", "s.ini", "-q", "algorithm.learning_rate=1e20", *softmax], cwd=self.folder, check=True,
                              capture_output=True, text=True)
        self.assertRegex(done.stderr, "^starling: warning: training loss ended at .*\n$")
        self.assertEqual(done.stdout, "")

    def test_a_scenario_without_sweep_is_refused_and_one_with_it_runs_as_it_stands(self):
        self.write(SCENARIO)
        self.assertIn("on the command line that is \"sweep.algorithm.group_size=2, 4, 8\"", self.sweep(status=2))
        self.write(SMALL)
        subprocess.run([self.program, "run", "s.ini", "-q", "-o", "one.h5"], cwd=self.folder, check=True)

    def test_every_point_runs_once_and_the_table_holds_means_and_deviations(self):
        self.write(SMALL)
        self.assertIn("12 of 12 points are finished", self.sweep())
        points = self.table("points.csv")
        table = self.table()
        self.assertEqual((len(points), len(table)), (12, 6))
        for row in table:
            runs = [p for p in points if all(p[k] == row[k] for k in ("algorithm.learning_rate", "compute.gradient"))]
            losses = [float(p["test_loss"]) for p in runs]
            self.assertEqual(len(losses), int(row["runs"]))
            self.assertAlmostEqual(float(row["test_loss"]), statistics.mean(losses), places=12)
            self.assertAlmostEqual(float(row["test_loss_deviation"]), statistics.stdev(losses), places=12)
            self.assertEqual(float(row["virtual_time_seconds_deviation"]), 0)  # alike for all seeds
        # 20 steps of 1 ms, and at most 20 us of waiting for neighbors in each
        self.assertAlmostEqual(float(table[0]["virtual_time_seconds"]), 0.02, delta=0.0005)
        with h5py.File(self.folder / "out" / f"{points[-1]['point']}.h5") as file:
            self.assertEqual(file["evaluation/test_loss"][-1], float(points[-1]["test_loss"]))

    def test_kinds_with_keys_of_their_own_are_swept_side_by_side(self):
        self.write(SCENARIO + "[sweep]\nalgorithm.kind = allreduce, dpsgd, local_sgd, local_sgd\nalgorithm.period = default, default, 2, 8\n"
                   "zip = algorithm.kind algorithm.period\n")
        self.assertIn("4 of 4 points are finished", self.sweep())
        self.assertEqual([(row["algorithm.kind"], row["algorithm.period"]) for row in self.table()],
                         [("allreduce", "default"), ("dpsgd", "default"), ("local_sgd", "2"), ("local_sgd", "8")])

    def test_the_spectral_gap_is_an_outcome_where_the_topology_is_read(self):
        self.write(SCENARIO + "[sweep]\nalgorithm.kind = dpsgd, dpsgd, allreduce\ntopology.kind = ring, complete, ring\nzip = algorithm.kind topology.kind\n")
        self.sweep()
        ring, complete, unread = (point["spectral_gap"] for point in self.table("points.csv"))
        self.assertAlmostEqual(float(ring), 2 / 3 * (1 - np.cos(2 * np.pi / 8)), places=6)  # thirds from both neighbors
        self.assertAlmostEqual(float(complete), 1, places=6)
        self.assertEqual(unread, "")

    def test_the_area_under_the_curve_is_an_outcome(self):
        self.write(SCENARIO.replace("kind = mlp", "kind = auc\npositive_class = 8").replace("kind = dpsgd", "kind = coda\nstage_steps = 40") +
                   "[sweep]\nalgorithm.learning_rate = 0.05, 1\n")
        self.sweep("run.evaluate_every=5")
        for point, row in zip(self.table("points.csv"), self.table()):
            with h5py.File(self.folder / "out" / f"{point['point']}.h5") as file:
                areas = file["evaluation/test_auc"][()]
            self.assertEqual((float(point["test_auc"]), float(point["best_test_auc"])), (areas[-1], areas.max()))
            self.assertEqual((row["test_auc"], row["best_test_auc"]), (point["test_auc"], point["best_test_auc"]))
            self.assertEqual(point["test_accuracy"], "")

    def test_when_points_got_to_a_target_is_an_outcome(self):
        self.write(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.001, 0.4\nrepeats = 2\ntarget = test_accuracy 0.25\n")
        self.sweep("run.evaluate_every=1")
        columns = ("target_reached", "target_time_seconds", "target_step", "target_bytes")
        self.assertEqual(tuple(self.table("points.csv")[0])[-4:], columns)
        for point in self.table("points.csv"):
            with h5py.File(self.folder / "out" / f"{point['point']}.h5") as file:
                evaluation = {name: cells[()] for name, cells in file["evaluation"].items()}
            if point["algorithm.learning_rate"] == "0.001":
                self.assertEqual([point[column] for column in columns], ["0", "", "", ""])
                continue
            self.assertEqual(point["target_reached"], "1")
            row = int(np.argmax(evaluation["test_accuracy"] >= 0.25))
            for column, name in zip(columns[1:], ("time", "step", "bytes_sent")):
                among = np.interp(0.25, evaluation["test_accuracy"][row - 1:row + 1], evaluation[name][row - 1:row + 1])
                self.assertAlmostEqual(float(point[column]) / among, 1, places=12)
        self.assertEqual([row["target_reached"] for row in self.table()], ["0", "1"])
        self.assertEqual([bool(row["target_time_seconds_deviation"]) for row in self.table()], [False, True])

    def test_a_finished_sweep_takes_another_target(self):
        self.write(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.001, 0.4\n")
        self.sweep()
        before = (self.folder / "out" / "points.csv").read_bytes()
        self.assertNotIn(b"target", before)
        self.assertIn("2 points are finished already", self.sweep("sweep.target=test_loss 2"))
        self.assertEqual([row["target_reached"] for row in self.table()], ["0", "1"])
        self.sweep()
        self.assertEqual((self.folder / "out" / "points.csv").read_bytes(), before)

    def test_a_target_that_no_run_tells_is_refused(self):
        self.write(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.001, 0.4\ntarget = test_auc 0.9\n")
        self.assertIn("s.ini:20: sweep.target is a test_auc, which this workload does not tell: MLP ", self.sweep(status=2))
        self.assertFalse((self.folder / "out").exists())
        self.write(SCENARIO + "[sweep]\nrun.nodes = 2..4\n")
        self.assertIn("; a range has blanks: 1 .. 5", self.sweep("--list", status=2))
        self.assertIn("command line: sweep.target must be a share above 0 and at most 1, as 0.9 for 90 %, got 90",
                      self.sweep("sweep.target=test_accuracy 90", status=2))

    def test_a_target_that_some_points_do_not_tell_is_none_of_theirs(self):
        self.write(SCENARIO + "[sweep]\nworkload.kind = timing, mlp\nworkload.parameters = 10, default\nworkload.dataset = default, digits\n"
                   "workload.hidden = default, 8\nzip = workload.kind workload.parameters workload.dataset workload.hidden\n"
                   "target = test_loss 100\n")
        self.assertNotIn("sweep.target", self.sweep())
        self.assertEqual([row["target_reached"] for row in self.table()], ["0", "1"])

    def test_failures_and_divergence_are_outcomes(self):
        self.write(SCENARIO + "[failures]\nduplicate = 1\njoin = 3 @ 5 ms\n[sweep]\nalgorithm.learning_rate = 0.05, 1e30\n")
        self.sweep("run.on_divergence=mark")
        points = self.table("points.csv")
        # 8 nodes send to 2 neighbors in each of 20 steps
        self.assertEqual([[float(point[name]) for name in ("stopped_nodes", "lost_messages", "duplicated_messages", "diverged_nodes")]
                          for point in points], [[0, 0, 320, 0], [0, 0, 320, 8]])
        with h5py.File(self.folder / "out" / f"{points[0]['point']}.h5") as file:
            self.assertAlmostEqual(float(points[0]["away_share"]), 0.005 / file["nodes/finished"][()].sum(), places=12)
        self.write(SCENARIO + "[sweep]\nrun.nodes = 4, 8\n")
        shutil.rmtree(self.folder / "out")
        self.sweep()
        self.assertEqual({(row["stopped_nodes"], row["away_share"], row["diverged_nodes"]) for row in self.table()}, {("", "", "")})

    def test_a_run_that_ends_at_a_time_took_that_long_and_not_until_its_last_step(self):
        # Node 0's second gradient would take 1 s: the others end the second step of nobody, and wait.
        (self.folder / "trace.csv").write_text("node,step,seconds\n" + "".join(
            f"{node},{step},{1 if (node, step) == (0, 1) else 0.001}\n" for node in range(8) for step in range(20)))
        self.write(SCENARIO.replace("gradient = 1 ms", "distribution = trace\ntrace = trace.csv").replace("dpsgd", "allreduce")
                   .replace("[topology]\nkind = ring\n", "") + "[sweep]\nrun.until = 100 ms\n")
        self.sweep()
        point, = self.table("points.csv")
        found = {name: float(point[name]) for name in ("virtual_time_seconds", "step_time_seconds", "steps_per_second", "compute_share")}
        # 8 nodes ended 1 step; node 0 computed 100 ms less that step's exchange, the others 2 ms
        self.assertAlmostEqual(found["virtual_time_seconds"], 0.1)
        self.assertAlmostEqual(found["step_time_seconds"], 0.1)
        self.assertAlmostEqual(found["steps_per_second"], 80)
        self.assertAlmostEqual(found["compute_share"], (0.1 + 7 * 0.002) / 0.8, delta=0.001)
        self.assertAlmostEqual(sum(float(point[f"{name}_share"]) for name in ("compute", "wait", "communicate")), 1)

    def test_time_away_counts_to_the_end_of_a_run_that_ends_at_a_time(self):
        # Node 2 joins at 50 ms, the others wait for it; 20 steps would take until 70 ms at least.
        self.write(SCENARIO.replace("dpsgd", "allreduce").replace("[topology]\nkind = ring\n", "")
                   + "[failures]\njoin = 2 @ 50 ms\n[sweep]\nrun.until = 55 ms\n")
        self.sweep()
        self.assertAlmostEqual(float(self.table("points.csv")[0]["away_share"]), 50 / (8 * 55), places=12)

    def test_a_graph_that_no_point_reads_is_told_before_any_runs(self):
        self.write(SCENARIO.replace("dpsgd", "wagma") + "[sweep]\ntopology.kind = torus, hypercube\n")
        said = self.sweep()
        self.assertEqual(said.count("s.ini:19: topology.kind changes nothing: algorithm.kind = wagma, as it is set, reads no graph\n"), 1)
        # Kinds that read it are compared with one that does not.
        self.write(SCENARIO + "[sweep]\ntopology.kind = torus, hypercube\nalgorithm.kind = dpsgd, wagma\n")
        shutil.rmtree(self.folder / "out")
        self.assertNotIn("changes nothing", self.sweep())

    def test_a_share_of_the_forward_pass_that_no_point_reads_is_told(self):
        self.write(SCENARIO.replace("[compute]", "[compute]\nforward_share = 0.5") + "[sweep]\nalgorithm.exchange = whole, tensors\n")
        self.assertEqual(self.sweep().count("compute.forward_share changes nothing without algorithm.overlap = backward\n"), 1)
        self.write(SCENARIO.replace("[compute]", "[compute]\nforward_share = 0.5")
                   + "[sweep]\nzip = algorithm.exchange algorithm.overlap\nalgorithm.exchange = whole, tensors\nalgorithm.overlap = none, backward\n")
        shutil.rmtree(self.folder / "out")
        self.assertNotIn("changes nothing", self.sweep())

    def test_a_period_that_some_runs_are_too_short_for_is_told(self):
        self.write(SCENARIO.replace("dpsgd", "local_sgd") + "[sweep]\nalgorithm.period = 5, 50\n")
        self.assertIn("s.ini:19: algorithm.period is 50, more than run.steps, 20: nodes may never average (at period=50)", self.sweep())

    def test_finished_points_are_not_run_again_and_unfinished_ones_are(self):
        self.write(SMALL)
        self.sweep()
        out = self.folder / "out"
        files = sorted(out.glob("*=*.h5"))
        before = {file: file.stat().st_mtime_ns for file in files}
        tables = [(out / name).read_bytes() for name in ("points.csv", "table.csv", "table.h5")]
        files[3].unlink()
        files[5].write_bytes(files[5].read_bytes()[:2000])  # cut short
        for left in (files[7].with_suffix(".log"), pathlib.Path(f"{files[7]}.checkpoint")):
            left.touch()  # by who was killed just before it knew the end
        self.assertIn("10 points are finished already", self.sweep())
        changed = {file for file in files if file.stat().st_mtime_ns != before[file]}
        self.assertEqual(changed, {files[3], files[5]})
        self.assertEqual([(out / name).read_bytes() for name in ("points.csv", "table.csv", "table.h5")], tables)
        self.assertEqual(len(list(out.iterdir())), 12 + 4)  # nothing is left but points, tables and scenario.ini

    def test_the_tables_as_hdf5_hold_what_the_csv_files_hold(self):
        self.write(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.05, 1e30\ncompute.speeds = 1, 2 | 1, 1\nrun.nodes = 2\n")
        self.sweep(status=1)
        with h5py.File(self.folder / "out" / "table.h5") as file:
            for name in ("points", "table"):
                rows = self.table(name + ".csv")
                self.assertEqual(len(rows), 2)
                self.assertEqual(list(file[name]), list(rows[0]))  # columns in the same order
                for column, cells in file[name].items():
                    texts = [row[column] for row in rows]
                    if cells.dtype.kind == "f":
                        self.assertEqual(["" if cell != cell else float(cell) for cell in cells[()]],
                                         [text and float(text) for text in texts], column)
                    else:
                        self.assertEqual([cell.decode() for cell in cells[()]], texts, column)
            self.assertEqual(file["table/test_loss_deviation"].dtype.kind, "f")

    def test_one_failing_point_is_named_and_stops_no_other(self):
        self.write(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.05, 1e30, 0.1\n")
        said = self.sweep(status=1)
        self.assertIn("2 of 3 points are finished", said)
        self.assertIn("1 point failed", said)
        self.assertIn("learning_rate=1e+30: starling: ", said.replace("1e30", "1e+30"))
        self.assertIn("diverged", said)
        self.assertEqual(len(self.table("points.csv")), 2)

    def test_a_point_fails_for_its_error_and_not_for_what_it_warned_of(self):
        self.write(SCENARIO.replace("steps = 20", "steps = 400\ncheckpoint = 20 steps")
                   + "[failures]\nstop = 3 @ 300 ms\n[sweep]\nalgorithm.learning_rate = 0.1\n")
        (self.folder / "out" / "learning_rate=0.1.h5.checkpoint.partial").mkdir(parents=True)  # no checkpoint can be written
        said = self.sweep(status=1)
        log = (self.folder / "out" / "learning_rate=0.1.log").read_text()
        self.assertTrue(log.startswith("starling: warning: out/learning_rate=0.1.h5.checkpoint: cannot write"), log)
        self.assertIn("learning_rate=0.1: starling: stalled at ", said)

    def test_where_no_process_can_be_started_points_wait_for_those_that_run(self):
        self.write(SMALL)
        self.sweep(environment={"LD_PRELOAD": str(self.preloaded), "STARLING_TEST_FORK": "2",
                                "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"})
        self.assertEqual(len(self.table("points.csv")), 12)

    def test_a_program_that_has_gone_meanwhile_is_told(self):
        self.write(SCENARIO.replace("steps = 20", "steps = 20000000") + "[sweep]\nalgorithm.learning_rate = 0.05, 0.1\n")
        shutil.copy(self.program, self.folder / "starling")
        started = subprocess.Popen([self.folder / "starling", "sweep", "s.ini", "-o", "out", "-j", "1"], cwd=self.folder,
                                   stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        wait_until_at_work(started.pid, 1, 0.3)
        (self.folder / "starling").unlink()
        os.kill(children(started.pid)[0], signal.SIGKILL)
        _, said = started.communicate(timeout=60)
        self.assertRegex(said, r"learning_rate=0.1: cannot start \S+/starling: No such file or directory")

    def test_a_failing_point_is_told_to_a_parent_that_ignores_the_ends_of_its_children(self):
        self.write(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.05, 1e30\n")
        said = self.sweep(status=1, before=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertIn("1 point failed", said)

    def test_what_is_wrong_with_every_point_is_told_before_any_runs(self):
        self.write(SCENARIO + "[sweep]\nalgorithm.learning_rat = 0.05, 0.1\n")
        self.assertIn("s.ini:19: algorithm.learning_rat is not a key here", self.sweep(status=2))
        self.assertFalse((self.folder / "out").exists())
        self.write(SCENARIO + "[sweep]\nrun.nodes = 4, 8\nrun.steps = none, few\nzip = run.nodes run.steps\n")
        self.assertIn("s.ini:20: run.steps must be an integer, got none", self.sweep(status=2))
        self.assertIn("command line: run.steps must be", self.sweep("sweep.run.steps=few, many", status=2))

    def test_repetitions_have_the_seeds_from_that_of_the_run_on(self):
        self.write(SCENARIO + "[sweep]\nrepeats = 3\n")
        self.assertEqual(self.sweep("run.seed=7", "--list").split(), ["seed=7", "seed=8", "seed=9"])

    def test_seeds_beyond_the_largest_are_told_before_any_runs(self):
        self.write(SCENARIO + "[sweep]\nrepeats = 3\n")
        self.assertIn("s.ini:19: sweep.repeats needs 3 seeds from run.seed on, which is too large for that, 9223372036854775806",
                      self.sweep("run.seed=9223372036854775806", status=2))
        self.assertFalse((self.folder / "out").exists())

    def test_what_is_wrong_with_one_point_is_told_before_any_runs_and_stops_no_other(self):
        self.write(SCENARIO + "[sweep]\ntopology.kind = ring, hypercube\nrun.nodes = 4, 6, 8\nrepeats = 2\n")
        said = self.sweep(status=1)
        told = ("starling: warning: s.ini:19: topology.kind hypercube needs a power of two of nodes, got 6 (the nearest are 4 and 8) "
                "(at kind=hypercube,nodes=6,seed=1)\nthe other points run\n")
        self.assertEqual(said.count(told), 1)
        self.assertIn("10 of 12 points are finished", said)
        self.assertIn("2 points failed", said)

    def test_a_folder_that_no_point_could_name_is_told_before_any_runs(self):
        self.write(SCENARIO + "[sweep]\nrun.nodes = 4, 6\n")
        done = subprocess.run([str(self.program), "sweep", "s.ini", "-o", "a #b"], cwd=self.folder, capture_output=True, text=True, timeout=240)
        self.assertEqual((done.returncode, done.stderr),
                         (2, "starling: command line: run.output must be one line without a comment, got a #b\n"))
        self.assertFalse((self.folder / "a #b").exists())

    def test_a_setting_of_the_command_line_does_not_hide_behind_a_list(self):
        self.write(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.05, 0.1\n")
        self.assertIn("command line: algorithm.learning_rate has a list in [sweep], which would win; give the list, sweep.algorithm.learning_rate=1",
                      self.sweep("algorithm.learning_rate=1", "--list", status=2))
        self.assertEqual(self.sweep("sweep.algorithm.learning_rate=1", "--list"), "learning_rate=1\n")

    def test_a_folder_that_takes_no_tables_is_told_beside_the_points_that_failed(self):
        self.write(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.05, 1e30\n")
        self.sweep(status=1)
        (self.folder / "out" / "points.csv").unlink()
        (self.folder / "out" / "points.csv").mkdir()
        said = self.sweep(status=1)
        self.assertIn("points.csv: cannot write: Is a directory", said)
        self.assertIn("learning_rate=1e30: starling: ", said)

    def test_a_folder_whose_settings_a_crash_has_emptied_is_not_taken_for_another_sweep(self):
        self.write(SMALL)
        self.sweep()
        settings = self.folder / "out" / "scenario.ini"
        kept = settings.read_text()
        settings.write_text("")
        self.assertIn("out/scenario.ini: is empty; remove it if the folder holds this sweep, or choose another folder", self.sweep(status=1))
        settings.unlink()
        self.assertIn("is there already and of no sweep", self.sweep(status=1))
        for table in ("points.csv", "table.csv", "table.h5"):
            (self.folder / "out" / table).unlink()
        self.sweep()
        self.assertEqual(settings.read_text(), kept)

    def test_a_folder_of_another_sweep_is_refused(self):
        self.write(SMALL)
        self.sweep()
        self.assertIn("holds a sweep of other settings (`steps = 20` there, `steps = 21` here)", self.sweep("run.steps=21", status=1))

    def test_tables_that_no_sweep_has_left_are_not_replaced(self):
        self.write(SMALL)
        out = self.folder / "out"
        out.mkdir()
        for name in ("points.csv", "table.csv", "table.h5"):
            (out / name).write_text("years of work")
            self.assertIn(f"out/{name}: is there already and of no sweep", self.sweep(status=1))
            self.assertEqual([(path.name, path.read_text()) for path in out.iterdir()], [(name, "years of work")])
            (out / name).unlink()

    def test_a_sweep_grows_in_its_folder_and_keeps_what_is_finished(self):
        more = SMALL.replace("0.05, 0.1\n", "0.02, 0.05, 0.1\n").replace("repeats = 2", "repeats = 3")
        self.write(more)
        self.sweep()
        tables = {name: (self.folder / "out" / name).read_bytes() for name in ("scenario.ini", "points.csv", "table.csv", "table.h5")}
        shutil.rmtree(self.folder / "out")
        self.write(SMALL)
        self.sweep()
        before = {file: file.stat().st_mtime_ns for file in (self.folder / "out").glob("*=*.h5")}
        self.assertEqual(len(before), 12)
        self.write(more)
        self.assertIn("12 points are finished already\n27 of 27 points are finished", self.sweep())
        self.assertEqual({file: file.stat().st_mtime_ns for file in before}, before)
        self.assertEqual({name: (self.folder / "out" / name).read_bytes() for name in tables}, tables)

    def test_a_sweep_goes_on_with_more_keys_and_keeps_what_is_finished(self):
        # Runs were on a ring, as the scenario says, without momentum, as it does not say, and with the first seed.
        few = SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.02, 0.1\n"
        more = SCENARIO + ("[sweep]\nalgorithm.momentum = 0, 0.9\nalgorithm.learning_rate = 0.02, 0.1, 0.2\n"
                           "topology.kind = complete, ring\nrepeats = 2\n")
        self.write(more)
        self.sweep()
        tables = {name: (self.folder / "out" / name).read_bytes() for name in ("scenario.ini", "points.csv", "table.csv", "table.h5")}
        shutil.rmtree(self.folder / "out")
        self.write(few)
        self.sweep()
        before = {rate: (self.folder / "out" / f"learning_rate={rate}.h5").read_bytes() for rate in ("0.02", "0.1")}
        self.write(more)
        self.assertIn("2 points are finished already\n24 of 24 points are finished", self.sweep())
        for rate, whole in before.items():
            self.assertEqual((self.folder / "out" / f"momentum=0,learning_rate={rate},kind=ring,seed=1.h5").read_bytes(), whole)
            self.assertFalse((self.folder / "out" / f"learning_rate={rate}.h5").exists())
        self.assertEqual({name: (self.folder / "out" / name).read_bytes() for name in tables}, tables)
        self.write(few)
        self.assertIn("holds a sweep of other settings that lists algorithm.momentum, algorithm.learning_rate, topology.kind, run.seed, not "
                      "algorithm.learning_rate (", self.sweep(status=1))

    def test_a_sweep_goes_on_over_a_key_that_the_command_line_has_set(self):
        self.write(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.02, 0.1\n")  # of 8 nodes
        self.sweep("run.nodes=4")
        before = (self.folder / "out" / "learning_rate=0.1.h5").read_bytes()
        self.assertIn("2 points are finished already\n4 of 4 points are finished", self.sweep("sweep.run.nodes=4, 5"))
        self.assertEqual((self.folder / "out" / "learning_rate=0.1,nodes=4.h5").read_bytes(), before)
        self.assertIn("holds a sweep of other settings (`steps = 20` there, `steps = 21` here)",
                      self.sweep("sweep.run.nodes=4, 5", "run.steps=21", status=1))

    def test_points_that_ran_with_another_value_than_a_new_key_lists_stay_outside(self):
        self.write(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.02, 0.1\n")
        self.sweep()
        (self.folder / "out" / "learning_rate=0.02.h5").unlink()
        self.write(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.02, 0.1\nalgorithm.momentum = 0.5, 0.9\n")
        said = self.sweep()
        self.assertIn("starling: warning: out: the results of 1 point that this sweep lacks stay there, outside its tables: learning_rate=0.1\n", said)
        self.assertIn("4 of 4 points are finished", said)
        self.assertTrue((self.folder / "out" / "learning_rate=0.1.h5").exists())

    def test_a_sweep_goes_on_with_fewer_values_and_keeps_the_results_of_the_others(self):
        few = SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.1\n"
        more = few.replace("0.1\n", "0.02, 0.1, 1e30, 0.2\n")
        self.write(few)
        self.sweep()
        tables = [(self.folder / "out" / name).read_bytes() for name in ("scenario.ini", "points.csv", "table.csv", "table.h5")]
        self.write(more)
        self.sweep(status=1)
        before = {file: file.stat().st_mtime_ns for file in (self.folder / "out").glob("*=*.h5")}
        self.assertTrue((self.folder / "out" / "learning_rate=1e30.log").exists())
        self.write(few)
        said = self.sweep()
        self.assertEqual(list((self.folder / "out").glob("*.log")), [])  # none of its points has failed
        self.assertIn("starling: warning: out: the results of 3 points that this sweep lacks stay there, outside its tables: learning_rate=0.02, ..\n", said)
        self.assertIn("1 point is finished already\n1 of 1 points are finished", said)
        self.assertEqual([(self.folder / "out" / name).read_bytes() for name in ("scenario.ini", "points.csv", "table.csv", "table.h5")], tables)
        self.assertNotIn("warning", self.sweep())  # told once
        self.write(more.replace("1e30, ", ""))
        self.assertIn("3 points are finished already\n3 of 3 points are finished", self.sweep())
        self.assertEqual({file: file.stat().st_mtime_ns for file in before}, before)

    def test_a_file_that_was_left_is_not_taken_for_a_point_of_its_name(self):
        names = SCENARIO.replace("kind = ring", "kind = file\n") + "[sweep]\ntopology.path = a/b.dot, c.dot\n"
        (self.folder / "a").mkdir()
        for name in ("a/b.dot", "a-b.dot", "c.dot"):
            (self.folder / name).write_text("graph { 0 -- 1; 1 -- 2; 2 -- 3; 3 -- 4; 4 -- 5; 5 -- 6; 6 -- 7 }")
        self.write(names)
        self.sweep()
        self.write(names.replace("a/b.dot", "a-b.dot"))
        self.assertIn("holds a sweep of other settings whose points would have other files (", self.sweep(status=1))
        self.write(names.replace("a/b.dot, ", ""))
        self.assertIn("the results of 1 point that this sweep lacks", self.sweep())
        self.write(names.replace("a/b.dot", "a-b.dot"))
        self.assertIn("out/path=a-b.dot.h5: holds a run with topology.path = a/b.dot, not a-b.dot; move it away", self.sweep(status=1))
        (self.folder / "out" / "path=a-b.dot.h5").rename(self.folder / "moved.h5")
        self.assertIn("2 of 2 points are finished", self.sweep())

    def test_a_key_may_be_swept_over_none(self):
        self.write(SCENARIO + "[sweep]\nfailures.stop = none | 7 @ 1 s\nrun.until_target = none, test_loss 1e-9\n"
                   "run.until = 5 ms\nrun.steps = 20\n")
        self.assertIn("4 of 4 points are finished", self.sweep())
        self.assertEqual({(row["failures.stop"], row["run.until_target"]) for row in self.table()},
                         {(stop, target) for stop in ("none", "7 @ 1 s") for target in ("none", "test_loss 1e-9")})
        self.assertIn("4 points are finished already", self.sweep())

    def test_a_target_beyond_that_at_which_runs_end_is_warned_of(self):
        lists = "[sweep]\nrun.until_target = none, test_loss 5, test_loss 0.5\ntarget = test_loss 1\nrun.until = 5 ms\nrun.steps = 20\n"
        self.write(SCENARIO + lists)
        said = self.sweep()
        self.assertRegex(said, r"warning: s.ini:\d+: sweep.target is beyond run.until_target, test_loss 5, at which runs end \(at until_target=test_loss5,")
        self.assertNotIn("test_loss 0.5, at which", said)

    def test_results_that_are_moved_away_meanwhile_are_told(self):
        self.write(SCENARIO + "[sweep]\nrun.steps = 20, 20000\n")
        started = subprocess.Popen([self.program, "sweep", "s.ini", "-o", "out", "-j", "1", "-q"], cwd=self.folder, stderr=subprocess.PIPE, text=True)
        while not (self.folder / "out" / "steps=20000.log").exists():  # the second one has begun
            self.assertIsNone(started.poll())
            time.sleep(0.01)
        (self.folder / "out" / "steps=20.h5").rename(self.folder / "moved.h5")
        _, said = started.communicate(timeout=240)
        self.assertEqual(started.returncode, 1)
        self.assertIn("1 point failed; the logs are in out:\n  steps=20: starling: its results have gone since it ended\n", said)
        self.assertIn("2 of 2 points are finished", self.sweep())
        self.assertFalse((self.folder / "out" / "steps=20.log").exists())

    def test_a_sweep_without_repetitions_grows_by_them(self):
        two = SCENARIO + "[sweep]\ncompute.gradient = 1 ms, 2 ms\n"
        self.write(two)
        self.sweep()
        self.write(two + "repeats = 2\n")
        self.assertIn("2 points are finished already\n4 of 4 points", self.sweep())
        self.assertEqual({path.name for path in (self.folder / "out").glob("*.h5")} - {"table.h5"},
                         {f"gradient={ms}ms,seed={seed}.h5" for ms in (1, 2) for seed in (1, 2)})
        self.assertEqual([row["runs"] for row in self.table()], ["2", "2"])
        self.write(SCENARIO.replace("steps = 20", "steps = 20\non_divergence = mark") + "[sweep]\ncompute.gradient = 1 ms, 2 ms\nrepeats = 2\n")
        self.assertIn("(nothing there, `on_divergence = mark` here)", self.sweep(status=1))

    def test_a_list_of_points_is_checked_as_they_are(self):
        self.write(SCENARIO + "[sweep]\nalgorithm.learning_rat = 0.1, 0.2\n")
        self.assertIn("learning_rat", self.sweep("--list", status=2))
        self.assertFalse((self.folder / "out").exists())

    def test_a_sweep_does_not_grow_where_its_points_would_change(self):
        two = SCENARIO + "[sweep]\ncompute.gradient = 1 ms, 2 ms\n"
        self.write(two)
        self.sweep()
        for other, why in ((two.replace("compute.gradient = 1 ms, 2 ms", "run.nodes = 8, 4"), " that lists compute.gradient, not run.nodes ("),
                           (two.replace("1 ms,", "1ms, 1 ms,"), " whose points would have other files ("),
                           (two.replace("steps = 20", "steps = 21").replace("1 ms,", "0.5 ms, 1 ms,"), " (`steps = 20` there")):
            with self.subTest(other):
                self.write(other)
                self.assertIn("out: holds a sweep of other settings" + why, self.sweep(status=1))
        self.write(two.replace("1 ms,", "1 ms, 1ms,"))
        self.assertIn("2 points are finished already\n3 of 3 points", self.sweep())

    def test_a_value_that_no_run_can_have_is_taken_back(self):
        wrong = SCENARIO + "[sweep]\ncompute.gradient = 1 ms, -2 ms\n"
        self.write(wrong)
        self.assertIn("1 of 2 points", self.sweep(status=1))
        self.write(wrong.replace("-2 ms", "2 ms"))
        self.assertIn("1 point is finished already\n2 of 2 points are finished", self.sweep())

    def test_points_of_another_version_are_told(self):
        self.write(SCENARIO + "[sweep]\nrun.nodes = 4, 8\n")
        self.assertNotIn("version", self.sweep() + self.sweep())
        with h5py.File(self.folder / "out" / "nodes=8.h5", "r+") as file:
            file["machine"].attrs["code_version"] = np.bytes_("before")
        self.assertIn("starling: warning: out: 1 finished point was run by another version of the program, before, this is ", self.sweep())

    def write_data(self, name, first):
        partial = self.folder / "partial"  # a point may be reading the one before
        with h5py.File(partial, "w") as file:
            file["x"] = [[float(first + i + j) for j in range(3)] for i in range(40)]
            file["y"] = [i % 2 for i in range(40)]
        partial.rename(self.folder / name)

    def write_sweep_of_data(self, steps):
        self.write_data("a.h5", 0)
        self.write_data("b.h5", 0)
        self.write(SCENARIO.replace("digits", "hdf5").replace("0.05", "0.001").replace("steps = 20", f"steps = {steps}")
                   + "[sweep]\nworkload.path = a.h5, b.h5\nrepeats = 2\n")

    def test_data_that_changed_behind_finished_points_are_told(self):
        self.write_sweep_of_data(20)
        self.sweep()
        self.assertIn("4 points are finished already", self.sweep())
        self.write_data("b.h5", 1)
        self.assertIn("starling: out: b.h5 has changed since 2 finished points read it, the first path=b.h5,seed=1; choose another folder",
                      self.sweep("sweep.repeats=3", status=1))
        for point in (self.folder / "out").glob("path=b.h5,*.h5"):
            point.unlink()
        self.assertIn("2 points are finished already\n6 of 6 points are finished", self.sweep("sweep.repeats=3"))
        (self.folder / "b.h5").unlink()  # what is gone has not changed
        self.assertIn("6 of 6 points are finished", self.sweep("sweep.repeats=3"))
        for name in ("a.h5", "b.h5"):
            self.write_data(name, 2)
        self.assertIn("a.h5 has changed since 3 finished points read it, the first path=a.h5,seed=1;",
                      self.sweep("sweep.repeats=3", status=1))

    def test_data_that_change_during_a_sweep_are_told_at_its_end(self):
        self.write_sweep_of_data(5000)
        started = subprocess.Popen(self.command(), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while started.poll() is None and not list((self.folder / "out").glob("*=*.h5")):
            time.sleep(0.01)
        self.write_data("a.h5", 1)
        self.write_data("b.h5", 1)
        told, said = started.communicate(timeout=240)
        self.assertEqual(started.returncode, 1, said)
        self.assertIn("4 of 4 points are finished", told)
        self.assertIn("a.h5 has changed since ", said)

    def test_a_scenario_that_changes_during_a_sweep_ends_it(self):
        self.write(SCENARIO.replace("steps = 20", "steps = 20000000") + "[sweep]\nalgorithm.learning_rate = 0.05, 0.1, 0.2\n")
        for text, sentence in ((SCENARIO.replace("hidden = 8", "hidden = 16"), r"s.ini: has changed since the sweep began \(`steps = 20000000` then, `steps = 20` now\)"),
                               (None, "s.ini: cannot open: No such file or directory")):
            started = subprocess.Popen(self.command(), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            wait_until_at_work(started.pid, 2, 0.3)
            before = (self.folder / "s.ini").read_text()
            self.write(text) if text else (self.folder / "s.ini").unlink()
            for child in children(started.pid):
                os.kill(child, signal.SIGKILL)
            told, said = started.communicate(timeout=60)
            self.assertEqual(started.returncode, 1)
            self.assertRegex(said, rf"starling: {sentence}; no more points began\n2 points failed")
            self.assertIn("0 of 3 points are finished", told)
            self.write(before)

    def test_points_that_fail_are_counted_whole_and_told_by_what_they_are(self):
        long = "graph-with-a-name-that-takes-more-than-half-of-what-a-point-may-be-called-and-then-some.dot"
        self.write(SCENARIO + f"[sweep]\ntopology.kind = file\nworkload.partition = iid, by_label\ntopology.path = a.dot, {long}\nrepeats = 6\n")
        (self.folder / "a.dot").write_text("graph { 0 -- 1; 1 -- 2; 2 -- 3; 3 -- 4; 4 -- 5; 5 -- 6; 6 -- 7 }")
        said = self.sweep(status=1)
        self.assertIn("(at 2 of the 4 points looked at, the first ", said)  # whatever the seed
        self.assertIn("12 points failed", said)
        self.assertIn(f"(topology.kind=file, workload.partition=iid, topology.path={long}, run.seed=1): starling: ", said)
        self.assertIn(f"(topology.kind=file, workload.partition=iid, topology.path={long}, run.seed=2): the same\n", said)
        self.assertIn(".. and 2 more: the same\n", said)
        self.assertEqual(said.count(": cannot open"), 2, said)  # before any runs, and once for all that failed

    def test_shards_are_disjoint_and_whole(self):
        self.write(SMALL)
        self.sweep("--shard", "1/3")
        self.assertEqual(len(list((self.folder / "out").glob("*=*.h5"))), 4)
        self.sweep("--shard", "3/3")
        said = self.sweep(environment={"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3",
                                       "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                                       "ASAN_OPTIONS": "detect_leaks=0"})  # those of MPI's library
        self.assertIn("12 of 12 points are finished", said)
        self.assertIn("--shard must be i/n", self.sweep("--shard", "4/3", status=2))
        self.assertEqual(len(self.sweep("--list", environment={"OMPI_COMM_WORLD_SIZE": "many"}).split()), 12)

    def test_killed_at_any_moment_it_goes_on_and_ends_the_same(self):
        out = self.folder / "out"

        def tables():
            return [(out / name).read_bytes() for name in ("points.csv", "table.csv")], content(out / "table.h5", [])

        def finished():
            """Which file holds the results of a point, and since when."""
            return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in out.glob("*=*.h5")}

        self.write(SMALL)
        begin = time.monotonic()
        self.sweep()
        took = time.monotonic() - begin
        undisturbed = tables()
        points = len(finished())
        chance = random.Random(5)
        kept, resumed = {}, 0
        for _ in range(int(os.environ.get("STARLING_SWEEP_KILLS", "20"))):
            if len(finished()) == points:  # nothing is left to kill
                for file in out.iterdir():
                    file.unlink()
                kept = {}
            started = subprocess.Popen(self.command("-q"), cwd=self.folder)
            time.sleep(chance.uniform(0.02, 0.6 * took))
            started.send_signal(signal.SIGKILL)
            started.wait()
            self.assertLessEqual(kept.items(), finished().items())  # nothing finished is lost, and none runs again
            resumed += len(kept) > 0
            kept = finished()
            for name in kept:
                with h5py.File(out / name) as file:  # whatever is there can be read, and is whole
                    self.assertEqual(file["facts"].attrs["status"], b"complete")
        if resumed == 0 and not kept:  # the machine has become slower: no point was done in time
            started = subprocess.Popen(self.command("-q"), cwd=self.folder)
            while not finished():
                time.sleep(0.01)
            started.kill()
            started.wait()
            kept = finished()
        resumed += len(kept) > 0
        while "under way elsewhere" in self.sweep():  # processes of points end some time after who started them
            time.sleep(0.1)
        self.assertLessEqual(kept.items(), finished().items())
        self.assertEqual(tables(), undisturbed)
        self.assertGreater(resumed, 0)

    def test_asked_to_end_it_ends_its_points_and_goes_on_later(self):
        self.write(SMALL.replace("steps = 20", "steps = 200000"))
        started = subprocess.Popen(self.command(), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until_at_work(started.pid, 1, 0.3)
        started.send_signal(signal.SIGTERM)
        told, said = started.communicate(timeout=60)
        self.assertEqual(started.returncode, 128 + signal.SIGTERM)
        self.assertIn("0 of 12 points are finished; started again, the sweep goes on\n", told)
        self.assertIn("results so far are kept", said)
        self.assertEqual(list((self.folder / "out").glob("*.log")), [])  # they have not failed

    def test_a_sweep_that_grows_keeps_the_checkpoints_of_killed_points(self):
        self.write(SCENARIO.replace("steps = 20", "steps = 40000\ncheckpoint = 500 steps") + "[sweep]\nalgorithm.learning_rate = 0.05\n")
        started = subprocess.Popen(self.command("-q"), cwd=self.folder, stderr=subprocess.DEVNULL)
        saved = self.folder / "out" / "learning_rate=0.05.h5.checkpoint"
        for _ in range(1200):
            if saved.exists():
                break
            time.sleep(0.05)
        for process in children(started.pid) + [started.pid]:
            os.kill(process, signal.SIGKILL)
        started.wait(60)
        self.assertTrue(saved.exists())
        self.assertFalse((self.folder / "out" / "learning_rate=0.05.h5").exists())  # killed before its first save
        pathlib.Path(f"{saved}.previous").write_bytes(saved.read_bytes())  # as after the next one
        self.sweep("sweep.repeats=1")
        names = sorted(path.name for path in (self.folder / "out").glob("*.h5*") if path.suffix != ".partial")  # killed as it wrote
        self.assertEqual(names, ["learning_rate=0.05,seed=1.h5", "table.h5"])

    def test_points_go_on_from_their_checkpoints(self):
        self.write(SCENARIO.replace("steps = 20", "steps = 40000\ncheckpoint = 1 h\nsave_models = yes")
                   + "[sweep]\nalgorithm.learning_rate = 0.05, 0.1\n")
        started = subprocess.Popen(self.command("-q"), cwd=self.folder, stderr=subprocess.DEVNULL)
        wait_until_at_work(started.pid, 2, 0.2)
        for child in children(started.pid):
            os.kill(child, signal.SIGSTOP)
        time.sleep(8)  # more than a point takes; what is noted of a run counts it
        for child in children(started.pid):
            os.kill(child, signal.SIGCONT)
        started.send_signal(signal.SIGTERM)
        self.assertEqual(started.wait(60), 128 + signal.SIGTERM)
        points = [self.folder / "out" / f"learning_rate={rate}.h5" for rate in ("0.05", "0.1")]
        saved = [pathlib.Path(f"{point}.checkpoint") for point in points]
        self.assertTrue(all(path.exists() for path in saved))
        (self.folder / "other.h5.checkpoint").write_bytes(saved[1].read_bytes())
        saved[1].write_bytes(saved[1].read_bytes()[:-1])  # one is damaged: its point begins anew
        self.sweep()
        self.assertFalse(any(path.exists() for path in saved))
        for point in points:
            whole = self.folder / "whole.h5"
            subprocess.run([self.program, "run", "s.ini", "-q", "-o", whole, f"algorithm.{point.stem}"], cwd=self.folder, check=True)
            but = ["scenario"]  # it says where the results are
            self.assertEqual(content(point, but), content(whole, but))
            with h5py.File(point) as file:
                took = float(file["machine"].attrs["wall_seconds"])
            if point == points[0]:
                self.assertGreater(took, 8)
        done = subprocess.run([self.program, "run", "s.ini", "run.steps=10", "--resume", "-o", "other.h5"], cwd=self.folder, check=False,
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr),
                         (2, "starling: other.h5.checkpoint: is of another scenario (`steps = 40000` there, `steps = 10` here); "
                             "move it away or choose another -o\n"))
        self.assertTrue((self.folder / "other.h5.checkpoint").exists())
        self.assertFalse((self.folder / "other.h5").exists())

    def test_a_point_that_is_killed_is_told_as_such(self):
        self.write(SCENARIO.replace("steps = 20", "steps = 20000000") + "[sweep]\nalgorithm.learning_rate = 0.05\n")
        started = subprocess.Popen(self.command(), cwd=self.folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        wait_until_at_work(started.pid, 1, 0.3)
        os.kill(children(started.pid)[0], signal.SIGKILL)
        _, said = started.communicate(timeout=60)
        self.assertEqual(started.returncode, 1)
        self.assertIn("learning_rate=0.05: ended by signal 9 (Killed), perhaps because memory ran out", said)


if __name__ == "__main__":
    main("program", "preloaded")
