#!/usr/bin/python3
"""`starling compare`: two runs of ours, and a run by anybody's code as a CSV file.

usage: test_compare.py STARLING
"""
import re
import shutil
import subprocess

import h5py
import numpy as np
from program_case import ProgramCase, main

from pictures.reference import read_reference
from pictures.style import Failure

SCENARIO = """[run]
nodes = 4
steps = 40
evaluate_every = 10
save_models = yes
[topology]
kind = ring
[network]
kind = constant
latency = 0 s
[compute]
gradient = 1 ms
[workload]
kind = mlp
dataset = digits
hidden = 8
batch_size = 16
[algorithm]
kind = dpsgd
learning_rate = 0.05
"""

BAD = [
    ("", "holds no rows"),
    ("time_seconds\n1\n", "one of them step"),
    ("step,test_loss\n10\n", "r.csv:2: expected 2 cells, got 1"),
    ("step,test_loss\n10,much\n", "r.csv:2: test_loss must be a number, got much"),
    ("step,test_loss\n10,1\n10,1\n", "r.csv:3: step must be a whole number that grows"),
    ("step,test_loss\n-3,1\n", "r.csv:2: step must be a whole number that grows"),
    ("step,test_loss\n0,2\n3,1\n", "r.csv:2: step must be a whole number that grows, from 1 on, got 0"),
    ("step;test_loss\n3;1\n", "r.csv:1: expected names of columns with commas between them, one of them step, got step;test_loss"),
    ("step,test_accuracy\n3,0.5\n4,52\n", "r.csv:3: test_accuracy must be a share from 0 to 1, not in percent, got 52"),
    ("# nodes = 0\nstep,test_loss\n3,1\n", "r.csv:1: nodes must be a whole number from 1"),
    ("# nodes = 2.5\nstep,test_loss\n3,1\n", "r.csv:1: nodes must be a whole number from 1"),
    ("step,test_loss,test_loss\n3,1,2\n", "r.csv:1: two columns are called test_loss"),
    ("step,time_seconds\n3,5\n4,\n5,4.5\n", "r.csv:4: time_seconds must not fall, got 4.5 after 5"),
    ("step,time_seconds\n3,-1\n", "r.csv:2: time_seconds must not fall, got -1 after 0"),
    ("step,time_seconds\n3,1e8\n", "r.csv:2: time_seconds must be in the range of the clock, up to 9.223e+06, got 100000000"),
    ("step,test_loss\n1,1\n100000000001,1\n", "too uneven"),
]


class CompareTest(ProgramCase):
    @classmethod
    def setUpClass(cls):
        cls.share_folder()
        (cls.folder / "s.ini").write_text(SCENARIO)
        for name, settings in {"a": [], "again": ["run.window=1 MiB"], "seed": ["run.seed=2"],
                               "slow": ["compute.gradient=1.2 ms"]}.items():
            cls.starling("run", "s.ini", "-q", "-o", f"{name}.h5", *settings)

    @classmethod
    def starling(cls, *words, status=0):
        done = subprocess.run([cls.program, *words], cwd=cls.folder, capture_output=True, text=True, timeout=120)
        if done.returncode != status:
            raise AssertionError(f"{words}: ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def test_equal_runs_agree_to_the_bit(self):
        said = self.starling("compare", "a.h5", "again.h5", "--time", "0", "--loss", "0", "--models", "0")
        self.assertIn("the runs agree", said)

    def test_a_slower_run_differs_in_time_by_as_much(self):
        said = self.starling("compare", "a.h5", "slow.h5", "--models", "0", status=3)
        # (1.0 - 1.2) / 1.2
        self.assertRegex(said, r"time per step, s +0.001 +0.0012 +-16.67 % +10.00 %  differs")
        self.assertRegex(said, r"final models, largest difference +0 +0\n")
        self.assertIn("the runs differ", said)
        self.starling("compare", "a.h5", "slow.h5", "--time", "0.17")

    def test_the_second_run_is_the_yardstick_and_less_time_is_not_judged_as_more_throughput(self):
        # (1.2 - 1.0) / 1.0: 0.17 of the larger one would do. The other way round 16.7 % less time is 20 % more throughput.
        said = self.starling("compare", "slow.h5", "a.h5", "--time", "0.17", status=3)
        self.assertRegex(said, r"time per step, s +0.0012 +0.001 +\+20.00 % +17.00 %  differs")
        said = self.starling("compare", "a.h5", "slow.h5", "--time", "0.17")
        self.assertRegex(said, r"throughput, samples/s +64000 +53333 +\+20.00 % +\n")

    def test_what_is_called_as_results_are_is_read_as_such(self):
        for text, found in ("", "an empty file"), ("hello", "something that is not HDF5"):
            (self.folder / "no.h5").write_text(text)
            self.assertIn(f"no.h5: expected a results file, found {found}", self.starling("compare", "no.h5", "a.h5", status=1))

    def test_waiting_and_the_loss_by_time_are_judged_if_asked_for(self):
        self.starling("run", "s.ini", "-q", "-o", "waits.h5", "compute.slow_nodes=1", "compute.slowdown=2")
        self.assertIn("the runs agree", self.starling("compare", "a.h5", "waits.h5", "--time", "1"))
        said = self.starling("compare", "a.h5", "waits.h5", "--time", "1", "--wait", "0.1", "--loss-by-time", "0.001", status=3)
        self.assertRegex(said, r"share of time waiting +0 +0.\d+ +-0.\d+ +0.1  differs")
        self.assertRegex(said, r"test loss by time, mean +[0-9.]+ % +0.10 %  differs")
        self.starling("compare", "a.h5", "waits.h5", "--time", "1", "--wait", "0.9", "--loss-by-time", "0.9")
        (self.folder / "r.csv").write_text("step,time_seconds\n40,0.04\n")
        for name, needs in ("wait", "tell how nodes spent their time"), ("loss-by-time", "test losses at times in common"):
            self.assertRegex(self.starling("compare", "a.h5", "r.csv", f"--{name}", "1", status=1), f"--{name} needs two runs .*{needs}")
            self.assertIn(f"--{name} must not be negative", self.starling("compare", "a.h5", "again.h5", f"--{name}", "-1", status=2))

    def test_the_loss_at_a_time_is_that_of_the_newest_models_where_it_is_known(self):
        # One node of four takes five times as long. By step the runs are one; rows by step tell at a time what there was long before.
        words = ("run", "s.ini", "-q", "algorithm.kind=adpsgd", "compute.slow_nodes=1", "compute.slowdown=5",
                 "algorithm.learning_rate=0.5")
        self.starling(*words, "-o", "by_step.h5")
        self.starling(*words, "-o", "by_time.h5", "run.evaluate_interval=5 ms")
        self.starling("compare", "by_time.h5", "by_time.h5", "--loss-by-time", "0")
        def grow(file):
            file["evaluation_by_time/test_loss"][...] = 1.5 * file["evaluation_by_time/test_loss"][()]
        said = self.starling("compare", self.changed("grown.h5", grow, "by_time.h5"), "by_time.h5", "--loss", "0", "--loss-by-time", "0.02", status=3)
        self.assertRegex(said, r"test loss by time, mean +50.00 % +2.00 %  differs")
        self.assertEqual(said.count("differs"), 1)
        # Of two runs of which one alone knows it, what both know is compared.
        said = self.starling("compare", "by_time.h5", "by_step.h5", "--loss-by-time", "0", "--target", "test_loss 2")
        self.assertRegex(said, r"seconds to test_loss 2 +([0-9.e-]+) +\1 +0.00 %")
        said = self.starling("compare", "by_time.h5", "by_step.h5", "--target", "test_loss 1.5")
        self.assertIn("note: neither run gets to test_loss 1.5\n", said)

    def test_what_is_recorded_of_a_run_makes_it_no_other_experiment(self):
        self.starling("run", "s.ini", "-q", "-o", "recorded.h5", "run.evaluate_every=7", "run.evaluate_interval=5 ms", "run.record_every=3",
                      "run.timeline=5 ms", "run.save_models=no")
        self.assertNotIn("different", self.starling("compare", "a.h5", "recorded.h5", "--loss", "1"))
        # What would happen to nodes that diverge, where none did.
        self.starling("run", "s.ini", "-q", "-o", "marking.h5", "run.on_divergence=mark")
        self.assertNotIn("different", self.starling("compare", "a.h5", "marking.h5"))
        self.starling("run", "s.ini", "-q", "-o", "until.h5", "run.until=20 ms")
        self.assertIn("different experiments: run.until (0 s, 20 ms)\n", self.starling("compare", "a.h5", "until.h5", "--loss", "1"))

    def test_how_a_value_is_spelled_makes_it_no_other_experiment(self):
        self.starling("run", "s.ini", "-q", "-o", "spelled.h5", "algorithm.learning_rate=5e-2", "compute.gradient=1000us", "network.latency=0 ms")
        self.assertNotIn("different", self.starling("compare", "a.h5", "spelled.h5"))
        for name, lazy, hidden in ("one", "yes", "8,4"), ("other", "true", "8, 4"):
            self.starling("run", "s.ini", "-q", "-o", f"{name}.h5", f"topology.lazy={lazy}", f"workload.hidden={hidden}")
        self.assertNotIn("different", self.starling("compare", "one.h5", "other.h5"))
        self.starling("run", "s.ini", "-q", "-o", "target.h5", "run.until_target=test_loss 0.001", "compute.gradient=1.1 ms")
        self.assertIn("different experiments: compute.gradient (1 ms, 1.1 ms), run.until_target (none, test_loss 0.001)\n",
                      self.starling("compare", "a.h5", "target.h5", "--time", "1"))

    def test_when_both_runs_got_to_a_target_is_told_if_asked_for(self):
        words = ("compare", "a.h5", "slow.h5", "--time", "1", "--target")
        with h5py.File(self.folder / "a.h5") as file:
            losses, sent = file["evaluation/test_loss"][()], file["evaluation/bytes_sent"][()]
        wanted = float(f"{(losses[1] + losses[2]) / 2:.3g}")
        part = (losses[1] - wanted) / (losses[1] - losses[2])  # of the way from step 20 to step 30
        said = self.starling(*words, f"test_loss {wanted}")
        numbers = {what: re.search(rf"{what} to test_loss {wanted} +([-+.e0-9]+) +([-+.e0-9]+) +([-+.0-9]+)", said).groups()
                   for what in ("seconds", "steps", "bytes")}
        self.assertAlmostEqual(float(numbers["steps"][0]), 20 + 10 * part, places=2)
        self.assertAlmostEqual(float(numbers["seconds"][1]), 1.2e-3 * (20 + 10 * part), places=5)
        self.assertAlmostEqual(float(numbers["seconds"][2]), -16.67, places=2)
        self.assertAlmostEqual(float(numbers["bytes"][0]) / (sent[1] + part * (sent[2] - sent[1])), 1, places=4)
        self.assertNotIn(" to test_loss", self.starling(*words[:-1]))

    def test_a_target_that_a_run_had_reached_when_it_was_evaluated_first_is_a_bound(self):
        for name, every in ("often.h5", 1), ("rarely.h5", 40):
            self.starling("run", "s.ini", "-q", "-o", name, f"run.evaluate_every={every}")
        with h5py.File(self.folder / "often.h5") as file:
            accuracy = file["evaluation/test_accuracy"][()]
        target = (accuracy[0] + accuracy[-1]) / 2
        said = self.starling("compare", "often.h5", "rarely.h5", "--target", f"test_accuracy {target:.6f}")
        self.assertRegex(said, r"steps to test_accuracy \S+ +[0-9.]+ +40 +\n")
        self.assertRegex(said, r"note: B is at test_accuracy \S+ when it is evaluated first, so it got there by then\n")
        self.assertNotIn("note: A", said)

    def test_a_target_that_a_run_never_got_to_says_never(self):
        with h5py.File(self.folder / "a.h5") as file:
            accuracy = file["evaluation/test_accuracy"][-1]
        (self.folder / "r.csv").write_text(f"step,time_seconds,test_accuracy\n40,0.04,{accuracy - 0.01}\n")
        said = self.starling("compare", "a.h5", "r.csv", "--target", f"test_accuracy {accuracy - 0.005:.4f}")
        self.assertRegex(said, r"steps to test_accuracy \S+ +[0-9.]+ +never +\n")
        self.assertIn("note: neither run gets to test_accuracy 1\n", self.starling("compare", "a.h5", "r.csv", "--target", "test_accuracy 1"))
        self.assertIn("--target must be a share", self.starling("compare", "a.h5", "r.csv", "--target", "test_accuracy 90", status=2))

    def test_another_seed_gives_other_models(self):
        self.starling("compare", "a.h5", "seed.h5", "--loss", "1", "--models", "0", status=3)
        self.starling("compare", "a.h5", "seed.h5", "--loss", "1", "--models", "10")

    def changed(self, name, change, original="a.h5"):
        """A copy in which `change` has written."""
        shutil.copy(self.folder / original, self.folder / name)
        with h5py.File(self.folder / name, "r+") as file:
            change(file)
        return name

    def test_models_that_are_no_numbers_are_no_others_and_zeros_have_signs(self):
        def write(value):
            def change(file):
                models = file["models"][()]
                models[0, :2] = value
                file["models"][...] = models
            return change
        nan = self.changed("nan.h5", write(np.nan))
        infinity = self.changed("infinity.h5", write(np.inf))
        plus, minus = self.changed("plus.h5", write(0.0)), self.changed("minus.h5", write(-0.0))
        for first, second in (("a.h5", nan), (nan, "a.h5"), ("a.h5", infinity), (nan, infinity)):
            with self.subTest(f"{first} {second}"):
                said = self.starling("compare", first, second, "--models", "1e300", status=3)
                self.assertRegex(said, r"final models, largest difference +inf +1e\+300  differs")
        self.starling("compare", nan, nan, "--models", "0")  # the same bits
        self.starling("compare", infinity, infinity, "--models", "0")
        self.starling("compare", plus, minus, "--models", "0", status=3)
        self.starling("compare", plus, minus, "--models", "1e-30")
        other_size = self.changed("other_size.h5", lambda file: None)
        self.starling("run", "s.ini", "-q", "-o", other_size, "workload.hidden=9")
        self.assertRegex(self.starling("compare", "a.h5", other_size, "--loss", "9", "--models", "9", status=3),
                         r"largest difference +inf +9  differs")

    def test_what_only_one_run_knows_differs_and_what_neither_knows_is_left_out(self):
        def without_accuracy(file):
            del file["evaluation/test_accuracy"]
        bare, twin = self.changed("bare.h5", without_accuracy), self.changed("twin.h5", without_accuracy)
        self.assertRegex(self.starling("compare", bare, "a.h5", "--loss", "9", status=3),
                         r"final test accuracy +unknown +0.\d+ +9  differs")
        self.assertNotIn("accuracy", self.starling("compare", bare, twin))

    def test_a_loss_that_is_no_number_at_one_step_differs(self):
        def lose(row, value):
            def change(file):
                loss = file["evaluation/test_loss"][()]
                loss[row] = value
                file["evaluation/test_loss"][...] = loss
            return change
        for value in (np.nan, np.inf):
            lost = self.changed("lost.h5", lose(1, value))
            for names in (("a.h5", lost), (lost, "a.h5")):
                self.assertRegex(self.starling("compare", *names, "--loss", "9", status=3),
                                 r"test loss by step, mean +inf % +900.00 %  differs")
            self.starling("compare", lost, lost)

    def test_runs_that_did_not_end_as_planned_are_warned_of(self):
        def cut(file):
            file["facts"].attrs["status"] = np.bytes_("interrupted by signal 2")
            file["nodes/steps"][...] = [12, 12, 13, 12]
        def diverge(file):
            file["facts"].attrs["diverged"] = np.bytes_("node 2 at its gradient 7")
        interrupted, diverged = self.changed("interrupted.h5", cut), self.changed("diverged.h5", diverge)
        said = self.starling("compare", "a.h5", interrupted, "--time", "9")
        self.assertIn("A: a.h5 (simulated, complete, 40 steps)\nB: interrupted.h5 (simulated, interrupted by signal 2, 12 to 13 of 40 steps)\n", said)
        self.assertIn("warning: B is not complete: only what it did is compared\nthe runs agree\n", said)
        self.assertIn("warning: A diverged: node 2 at its gradient 7\n", self.starling("compare", diverged, "a.h5"))
        self.assertNotIn("warning", self.starling("compare", "a.h5", "again.h5"))

    def test_areas_under_the_curve_are_compared(self):
        settings = ["workload.kind=auc", "workload.positive_class=8", "algorithm.kind=coda", "algorithm.stage_steps=40"]
        for seed in (1, 2):
            self.starling("run", "s.ini", "-q", "-o", f"auc{seed}.h5", *settings, f"run.seed={seed}")
        self.assertRegex(self.starling("compare", "auc1.h5", "auc2.h5", "--loss", "0", status=3),
                         r"final test AUC +0.\d+ +0.\d+ +[-+]0.\d+ +0  differs")

    def test_a_run_by_other_code_is_compared_where_it_tells(self):
        table = self.starling("export", "a.h5", "--table", "evaluation").splitlines()
        names = table[0].split(",")
        rows = [dict(zip(names, line.split(","))) for line in table[1:]]
        lines = ["# made by other code, nodes = many", "# nodes = 4", "# samples_per_step = 16",
                 "machine,step,time_seconds,test_loss"]
        lines += [f"x,{row['step']},{row['time']},{row['test_loss']}" for row in rows]
        (self.folder / "r.csv").write_text("\n".join(lines) + "\n")
        said = self.starling("compare", "a.h5", "r.csv", "--loss", "0")
        self.assertRegex(said, r"throughput, samples/s +64000 +64000 +0.00 %")
        self.assertNotIn("final models", said)
        self.assertNotIn("accuracy", said)
        self.assertIn("B: r.csv (by other code, 40 steps)", said)
        self.assertNotIn("warning", said)
        self.assertIn("--models needs two runs", self.starling("compare", "a.h5", "r.csv", "--models", "0", status=1))

    def test_a_reference_may_begin_with_a_byte_order_mark(self):
        (self.folder / "r.csv").write_text("\ufeffstep,test_loss\n40,1\n", encoding="utf-8")
        self.assertIn("final test loss", self.starling("compare", "a.h5", "r.csv", "--loss", "9"))

    def test_a_reference_of_one_evaluation_is_compared_by_step(self):
        (self.folder / "r.csv").write_text("step,test_loss\n40,1\n")
        said = self.starling("compare", "a.h5", "r.csv", "--loss", "9")
        final = re.search(r"final test loss .* [-+]([0-9.]+ %) ", said)[1]
        self.assertRegex(said, rf"test loss by step, mean +{final} ")

    def test_a_reference_without_a_column_to_compare_is_told_which_there_are(self):
        (self.folder / "r.csv").write_text("step,time,train_loss\n40,0.04,1\n")
        self.assertIn("nothing in common that has a tolerance; compared are the columns time_seconds",
                      self.starling("compare", "a.h5", "r.csv", status=1))

    def test_a_bad_reference_is_refused_with_its_line(self):
        for text, expected in BAD:
            with self.subTest(text):
                (self.folder / "r.csv").write_text(text)
                self.assertIn(expected, self.starling("compare", "a.h5", "r.csv", status=1))
                if expected != "too uneven" and "the clock" not in expected:  # which pictures have not
                    with self.assertRaises(Failure) as refused:
                        read_reference(self.folder / "r.csv")
                    self.assertIn(expected, str(refused.exception))

    def test_the_last_time_that_is_told_gives_the_time_per_step(self):
        (self.folder / "r.csv").write_text("# nodes = 4\n# samples_per_step = 16\nstep,time_seconds,machine,machine\n20,0.04,,\n40,,,\n")
        said = self.starling("compare", "a.h5", "r.csv", "--time", "2")
        self.assertRegex(said, r"time per step, s +0.001 +0.002 ")
        self.assertIn("B: r.csv (by other code, 40 steps)", said)
        self.assertEqual(read_reference(self.folder / "r.csv")["step_time"], 0.002)

    def test_two_evaluations_of_a_reference_may_have_one_time(self):
        self.assertIn("the runs agree\n", self.compare_with("step,time_seconds\n20,0.04\n40,0.04\n", "--time", "9"))

    def test_a_scenario_may_name_what_its_results_are_compared_with(self):
        # 40 steps of 1 ms and zero latency; the real run took 41 ms, 2.4 % of which are missing
        folder = self.folder / "cluster"
        folder.mkdir()
        (folder / "measured.csv").write_text("# nodes = 4\n# samples_per_step = 16\nstep,time_seconds\n40,0.041\n")
        scenario = SCENARIO + "[reference]\nfile = measured.csv\ntime_tolerance = 0.02\n"
        (folder / "s.ini").write_text(scenario)
        self.assertIn("time_tolerance = 0.02", self.starling("describe", "cluster/s.ini"))
        self.starling("run", "cluster/s.ini", "-q", "-o", "elsewhere.h5")
        said = self.starling("compare", "elsewhere.h5", status=3)
        self.assertRegex(said, r"time per step, s +0.001 +0.001025 +-2.44 % +2.00 %  differs")
        self.assertIn("B: cluster/measured.csv", said)
        self.starling("compare", "elsewhere.h5", "--time", "0.03")
        self.assertIn("throughput", said)
        (folder / "measured.csv").write_text("step,time_seconds\n40,0.041\n")  # of nobody knows how many nodes
        self.assertNotIn("throughput", self.starling("compare", "elsewhere.h5", "--time", "0.03"))
        (folder / "measured.csv").unlink()
        self.assertIn("cluster/measured.csv: cannot open: No such file or directory", self.starling("compare", "elsewhere.h5", status=1))
        # Any text is a table, whatever its name.
        (folder / "measured.txt").write_text("step,time_seconds\n40,0.041\n")
        (folder / "s.ini").write_text(scenario.replace("measured.csv", "measured.txt"))
        self.starling("run", "cluster/s.ini", "-q", "-o", "elsewhere.h5")
        self.assertIn("B: cluster/measured.txt", self.starling("compare", "elsewhere.h5", "--time", "0.03"))
        # A tolerance of the command line wins. The loss is far from 1000.
        (folder / "measured.txt").write_text("step,test_loss\n40,1000\n")
        (folder / "s.ini").write_text(scenario.replace("measured.csv", "measured.txt") + "loss_tolerance = 0.5\n")
        self.starling("run", "cluster/s.ini", "-q", "-o", "elsewhere.h5")
        self.assertRegex(self.starling("compare", "elsewhere.h5", status=3), r"final test loss .* 50.00 %  differs")
        self.starling("compare", "elsewhere.h5", "--loss", "2")
        (folder / "s.ini").write_text(scenario.replace("0.02", "-1"))
        self.assertIn("s.ini:23: reference.time_tolerance must not be negative, got -1",
                      self.starling("run", "cluster/s.ini", status=2))

    def compare_with(self, text, *words, status=0):
        """What is said of a.h5 beside a CSV file."""
        (self.folder / "r.csv").write_text(text)
        return self.starling("compare", "a.h5", "r.csv", *words, status=status)

    def test_a_misspelled_column_is_told(self):
        said = self.compare_with("# node = 5\n# seed = 3\nstep,time_seconds,test_acuracy,Test_Loss,accuracy,machine\n40,0.04,0.5,much,1,x\n")
        self.assertIn("warning: of B nobody reads # node (did you mean nodes?), test_acuracy (did you mean test_accuracy?), "
                      "Test_Loss (did you mean test_loss?), accuracy (did you mean test_accuracy?); known are step, time_seconds, ", said)
        self.assertIn("note: columns of B that nobody reads: machine\n", said)
        said = self.compare_with("step,time\n40,0.04\n", status=1)
        self.assertIn("nobody reads time (did you mean time_seconds?); known are step, time_seconds, bytes_sent, train_loss, test_loss, test_accuracy, test_auc\n", said)
        self.assertIn("a.h5 and r.csv have nothing in common", said)
        self.assertNotIn("nobody reads", self.compare_with("# nodes = 4\nstep,time_seconds\n40,0.04\n"))

    def test_a_table_that_was_exported_says_that_its_time_is_not_read(self):
        self.starling("export", "a.h5", "--table", "evaluation", "-o", "e.csv")
        said = self.starling("compare", "a.h5", "e.csv")
        self.assertIn("warning: of B nobody reads time (did you mean time_seconds?); known are ", said)
        self.assertIn("note: columns of B that nobody reads: consensus_distance, epoch, samples\n", said)

    def test_a_reference_of_another_size_is_another_experiment(self):
        said = self.compare_with("# nodes = 8\n# samples_per_step = 32\nstep,time_seconds\n40,0.04\n", status=3)
        self.assertIn("\ndifferent experiments: nodes (4, 8), samples per step (16, 32)\n", said)
        self.assertNotIn("different", self.compare_with("# nodes = 4\n# samples_per_step = 16\nstep,time_seconds\n40,0.04\n"))
        self.assertNotIn("different", self.compare_with("step,time_seconds\n40,0.04\n"))

    def test_runs_of_other_data_under_one_name_are_other_experiments(self):
        for name, shift in ("first", 0), ("same", 0), ("other", 1):
            with h5py.File(self.folder / "data.h5", "w") as file:
                file["x"] = np.arange(120.0).reshape(40, 3) / 120 + shift
                file["y"] = np.arange(40) % 2
            self.starling("run", "s.ini", "-q", "-o", f"{name}.h5", "workload.dataset=hdf5", "workload.path=data.h5")
        self.assertNotIn("different", self.starling("compare", "first.h5", "same.h5"))
        self.assertIn("\ndifferent experiments: other content of data.h5\n", self.starling("compare", "first.h5", "other.h5", "--loss", "9"))

    def test_final_values_after_other_steps_say_so(self):
        said = self.compare_with("step,test_loss,test_accuracy\n10,2.3,0.1\n40,,0.2\n", "--loss", "9")
        self.assertIn("\nnote: the final test loss of A is that after 40 steps, of B after 10\n", said)
        self.assertNotIn("final test accuracy of A is", said)

    def test_the_final_values_of_a_run_that_was_cut_are_those_by_time(self):
        self.starling("run", "s.ini", "-q", "-o", "cut.h5", "run.until=20 ms", "compute.slow_nodes=1", "compute.slowdown=2", "algorithm.kind=adpsgd",
                      "run.evaluate_every=5")
        with h5py.File(self.folder / "cut.h5") as file:
            steps = file["nodes/steps"][()]
        said = self.starling("compare", "cut.h5", "a.h5", "--loss", "9", "--time", "9")
        self.assertIn(f"\nnote: the final test loss of A is that after {steps.min()} to {steps.max()} steps, of B after 40\n", said)

    def test_a_training_loss_is_compared_and_judged_by_nobody(self):
        with h5py.File(self.folder / "a.h5") as file:
            loss = file["steps/train_loss"][39].mean()
        text = f"step,train_loss,test_loss\n40,{loss / 1.1},{{}}\n"
        self.assertRegex(self.compare_with(text.format(2), "--loss", "0.5"), r"training loss by step, mean +10.00 % +\n")
        said = self.compare_with(text.format(""), status=1)
        self.assertRegex(said, r"training loss by step, mean +10.00 % +\n")
        self.assertIn("a.h5 and r.csv have nothing in common that has a tolerance", said)

    def test_a_wrong_reference_is_told_before_the_run(self):
        folder = self.folder / "early"
        folder.mkdir()
        (folder / "s.ini").write_text(SCENARIO + "[reference]\nfile = m.csv\n")
        for text, expected in {"step;test_loss\n40;1\n": "early/m.csv:1: expected names of columns with commas between them",
                               "# nodes = 8\nstep,test_loss\n40,1\n": "early/m.csv: has 8 nodes, this run 4\n",
                               "step,tset_loss\n40,1\n": "early/m.csv: nobody reads tset_loss (did you mean test_loss?)\n"}.items():
            (folder / "m.csv").write_text(text)
            for words in (["run", "-o", "early.h5"], ["run", "-q", "-o", "early.h5"], ["describe"]):
                self.assertIn(f"starling: warning: reference {expected}", self.starling(words[0], "early/s.ini", *words[1:]))
        (folder / "m.csv").unlink()
        (folder / "m.csv").mkdir()
        self.assertIn("starling: warning: reference early/m.csv: expected a run, found a directory",
                      self.starling("run", "early/s.ini", "-o", "early.h5"))
        (folder / "m.csv").rmdir()
        (folder / "m.csv").write_text("# nodes = 4\nstep,test_loss,machine\n40,1,x\n")
        self.assertNotIn("warning", self.starling("run", "early/s.ini", "-o", "early.h5"))
        (folder / "m.csv").unlink()
        self.assertIn("starling: warning: reference early/m.csv: is not there yet\n", self.starling("run", "early/s.ini", "-o", "early.h5"))

    def test_wrong_words_are_refused(self):
        self.assertIn("that of a.h5 has none", self.starling("compare", "a.h5", status=2))
        self.assertIn("takes two runs", self.starling("compare", "a.h5", "a.h5", "a.h5", status=2))
        self.assertIn("nowhere.h5", self.starling("compare", "a.h5", "nowhere.h5", status=1))
        self.assertIn("--time must not be negative", self.starling("compare", "a.h5", "a.h5", "--time=-1", status=2))


if __name__ == "__main__":
    main("program")
