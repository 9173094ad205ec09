#!/usr/bin/python3
"""Runs of several processes that end badly or before their time, as their user sees them: nothing that was recorded is lost,
and one sentence says why.

usage: test_mpi_ends.py STARLING MPIRUN PRELOADED
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np
from runs import children, wait_until_at_work

SCENARIO = """[run]
nodes = 4
steps = 60
record_every = 1
evaluate_every = 6
window = 1 MiB
[topology]
kind = ring
[network]
kind = constant
latency = 20 us
[compute]
gradient = 1 ms
[workload]
kind = quadratic
dimension = 50
curvature_min = 1
curvature_max = 1
centers = list
center_values = {centers}
[algorithm]
kind = local_sgd
period = 100
learning_rate = 11
"""
# Each step takes a node ten times as far from its center, until its loss is infinite, at gradient 39; a node whose center is
# the start stays there.
MPI = ("--transport", "mpi")


class EndsTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="starling-ends-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.write("1,1,0,0")

    def write(self, centers):
        (self.folder / "s.ini").write_text(SCENARIO.format(centers=centers))

    def start(self, ranks, *words, options=()):
        launcher = [MPIRUN, "--oversubscribe", *options, "-n", str(ranks)] if ranks else []
        return subprocess.Popen([*launcher, STARLING, "run", "s.ini", "-q", *words], cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ, OMP_NUM_THREADS="1"))

    def run_it(self, ranks, *words, status=0):
        process = self.start(ranks, *words)
        _, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, status, errors)
        return errors

    def test_an_interrupted_run_saves_its_results_however_slow_the_disk_is(self):
        for words in (MPI, ()):
            preload = [word for name, value in (("LD_PRELOAD", PRELOADED), ("STARLING_TEST_RENAME", "8"),
                                                ("ASAN_OPTIONS", "verify_asan_link_order=0"))
                       for word in ("-x", f"{name}={value}")]
            process = self.start(2, "-o", "slow.h5", "algorithm.learning_rate=0.1", "run.steps=10000000", "run.record_every=10000",
                                 "run.evaluate_every=10000", "run.record_order=no", *words,
                                 options=preload)
            wait_until_at_work(process.pid, 2, seconds=0.5)
            for child in children(process.pid):  # as a scheduler does: mpirun would kill them a second later
                os.kill(child, signal.SIGTERM)
            _, errors = process.communicate(timeout=120)
            self.assertNotEqual(process.returncode, 0)
            self.assertEqual(errors.count("interrupted by signal 15; results so far are kept"), 1, errors)
            self.assertNotIn("MPI_ABORT", errors)
            with h5py.File(self.folder / "slow.h5") as file:
                self.assertEqual(file["facts"].attrs["status"].decode(), "interrupted by signal 15")
                self.assertTrue((file["nodes/steps"][()] > 0).all())
            (self.folder / "slow.h5").unlink()

    def test_a_failed_run_over_mpi_keeps_what_all_ranks_recorded(self):
        self.write("0,0,0,1")
        # Slow enough a failure that the other ranks, who wait for nobody, are at work by then, wherever they have come to.
        words = ("run.steps=2000", "run.evaluate_every=500", "workload.dimension=30000", "algorithm.learning_rate=2.1",
                 "algorithm.period=2000", "-o")
        errors = self.run_it(0, *words, "simulated.h5", status=1)
        sentence, step = re.search(r"starling: the loss of node 3 became inf at its gradient (\d+): .*", errors).group(0, 1)
        with h5py.File(self.folder / "simulated.h5") as simulated:
            status, losses = simulated["facts"].attrs["status"], simulated["steps/train_loss"][: int(step)]
        for ranks in 2, 3:
            self.assertEqual(self.run_it(ranks, *words, "real.h5", *MPI, status=1).count(sentence), 1)
            with h5py.File(self.folder / "real.h5") as real:
                self.assertEqual(real["facts"].attrs["status"], status)
                steps, kept = real["nodes/steps"][()], real["steps/train_loss"][()]
            self.assertEqual(steps[3], int(step))
            self.assertTrue((steps > 0).all(), steps)
            for node, count in enumerate(steps):
                self.assertTrue(np.array_equal(kept[: min(count, int(step)), node], losses[:count, node]), (ranks, node))
                self.assertTrue(np.isnan(kept[count:, node]).all(), (ranks, node))

    def test_nodes_that_diverge_over_mpi_are_left_out_of_the_means_from_then_on(self):
        words = ("run.on_divergence=mark", "-o")
        self.run_it(0, *words, "simulated.h5")
        with h5py.File(self.folder / "simulated.h5") as simulated:
            self.assertEqual(simulated["evaluation/live_nodes"][()].tolist(), 6 * [4] + 4 * [2])
            for ranks in 1, 2, 4:
                self.run_it(ranks, *words, "real.h5", *MPI)
                with h5py.File(self.folder / "real.h5") as real:
                    self.assertEqual(real["facts"].attrs["diverged"].decode(),
                                     "node 0 at its gradient 39, node 1 at its gradient 39")
                    for metric in "live_nodes", "test_loss", "consensus_distance":
                        self.assertTrue(np.array_equal(real["evaluation"][metric][()], simulated["evaluation"][metric][()],
                                                       equal_nan=True), (ranks, metric))

    def test_more_ranks_than_nodes_are_refused_as_a_wrong_setting(self):
        for words, who in (MPI, "ranks"), ((), "processes"):
            errors = self.run_it(5, "-o", "five.h5", *words, status=2)
            self.assertEqual(errors.count(f"starling: s.ini: run.nodes must be at least the number of {who}, 5, got 4"), 1, errors)

    def test_ranks_that_read_different_settings_do_not_make_one_run(self):
        for words in (MPI, ()):
            second = [":", "-n", "1", STARLING, "run", "s.ini", "-q", "-o", "mixed.h5", "algorithm.learning_rate=0.2", *words]
            errors = self.run_it(1, "-o", "mixed.h5", *words, *second, status=1)
            self.assertEqual(errors.count("starling: rank 1 has other settings than rank 0: expected `learning_rate = 11`, "
                                          "found `learning_rate = 0.2`"), 1, errors)
            self.assertFalse((self.folder / "mixed.h5").exists())


if __name__ == "__main__":
    STARLING, MPIRUN, PRELOADED = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:4])
    del sys.argv[1:4]
    unittest.main()
