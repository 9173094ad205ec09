#!/usr/bin/python3
"""`tools/plot`: every kind of picture is made, as PNG and as SVG, and what it says of several runs is right.

usage: test_plot.py STARLING
"""
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from pictures import convergence

SCENARIO = """[run]
nodes = 4
steps = 40
evaluate_every = 10
[topology]
kind = ring
[network]
kind = fluid
latency = 1 us
bandwidth = 1 GB/s
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


class PlotTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="starling-plot-")
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        (cls.folder / "s.ini").write_text(SCENARIO + "[reference]\nfile = r.csv\n")
        for name, settings in {"a": ["run.timeline=1 s"], "slow": ["compute.gradient=1.2 ms"]}.items():
            subprocess.run([PROGRAM, "run", "s.ini", "-q", "-o", f"{name}.h5", *settings], cwd=cls.folder, check=True)
        (cls.folder / "sweep.ini").write_text(SCENARIO + "[sweep]\nrun.nodes = 4, 8\nalgorithm.learning_rate = 0.05, 0.1\nrepeats = 2\n")
        subprocess.run([PROGRAM, "sweep", "sweep.ini", "-q", "-o", "swept"], cwd=cls.folder, check=True)

    def plot(self, *words, status=0):
        done = subprocess.run([sys.executable, ROOT / "tools" / "plot", *words], cwd=self.folder, capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr

    def test_every_kind_is_drawn(self):
        for suffix, start, *words in ((".png", b"\x89PNG", "a.h5"), (".svg", b"<?xml", "a.h5", "--links"),
                                      (".svg", b"<?xml", "a.h5", "slow.h5", "--target", "0.1", "0.99"),
                                      (".png", b"\x89PNG", "swept", "--target", "0.3")):
            with self.subTest(words=words):
                self.plot(*words, "-o", f"picture{suffix}")
                drawn = (self.folder / f"picture{suffix}").read_bytes()
                self.assertEqual(drawn[:len(start)], start)
                self.assertGreater(len(drawn), 10_000)

    def test_pictures_of_the_same_results_are_the_same(self):
        drawn = []
        for name in ("one.svg", "two.svg"):
            self.plot("a.h5", "slow.h5", "-o", name)
            drawn.append((self.folder / name).read_bytes())
        self.assertEqual(*drawn)

    def test_the_deviation_from_the_first_run_is_printed(self):
        said = self.plot("a.h5", "slow.h5")
        # Gradients take 1.2 times as long and messages next to nothing; what is computed is the same.
        found = re.search(r"slow against a: time per step \+([0-9.]+) %, test accuracy 0.00 points apart on average over 4 steps", said)
        self.assertIsNotNone(found, said)
        self.assertAlmostEqual(float(found[1]), 20, delta=0.5)

    def test_a_run_by_other_code_is_drawn_over_the_simulation(self):
        (self.folder / "r.csv").write_text("# nodes = 4\n# samples_per_step = 16\nstep,time_seconds,test_loss\n20,0.03,\n40,0.08,1\n")
        said = self.plot("a.h5", "--reference")
        # 80 ms over 40 steps against 1 ms per step, and little for messages
        found = re.search(r"r against a: time per step \+([0-9.]+) %, test loss [0-9.]+ apart on average over 1 steps", said)
        self.assertIsNotNone(found, said)
        self.assertAlmostEqual(float(found[1]), 100, delta=2)
        run = convergence.Run(self.folder / "r.csv")
        self.assertEqual(list(run.columns["samples"]), [20 * 4 * 16, 40 * 4 * 16])

    def test_the_time_to_a_target_is_read_off_between_two_rows(self):
        (self.folder / "t.csv").write_text("step,time_seconds,test_accuracy,test_loss\n1,10,0.5,2\n2,20,0.7,1\n3,30,0.6,0.5\n")
        run = convergence.Run(self.folder / "t.csv")
        self.assertAlmostEqual(run.first_time("test_accuracy", 0.6), 15)  # half the way from 0.5 to 0.7
        self.assertAlmostEqual(run.first_time("test_loss", 0.75), 25)     # half the way from 1 to 0.5
        self.assertEqual(run.first_time("test_accuracy", 0.4), 10)        # there from the first row on
        self.assertTrue(math.isnan(run.first_time("test_accuracy", 0.71)))

    def test_what_cannot_be_drawn_is_refused(self):
        self.assertIn("--target wants", self.plot("a.h5", "--target", "0.9", status=2))
        self.assertIn("folder of a sweep among them", self.plot("a.h5", "swept", status=2))
        self.assertIn("expected a results file", self.plot("a.h5", "nowhere.h5", status=1))
        (self.folder / "bad.csv").write_text("time_seconds\n1\n")
        self.assertIn("bad.csv: has no column step", self.plot("a.h5", "bad.csv", status=1))
        (self.folder / "words.csv").write_text("step,test_loss\n1,much\n")
        self.assertIn("words.csv: test_loss must be numbers", self.plot("a.h5", "words.csv", status=1))


if __name__ == "__main__":
    PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
