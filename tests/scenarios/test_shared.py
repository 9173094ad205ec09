#!/usr/bin/python3
"""`mpirun -n R starling run`: one simulation shared by several processes, as its user sees it.

The results file of one process, refusals, and ends before the time: with one sentence, on all processes, and a file that can
be read. tests/sim/mpi/test_shared.cpp walks the algorithms.

usage: test_shared.py STARLING MPIRUN TEST_SHARED
"""
import signal
import time

import h5py
from program_case import ProgramCase, main
from runs import content, wait_until_at_work

SCENARIO = """[run]
nodes = 10
steps = 60
evaluate_every = 10
save_models = yes
timeline = 20 ms
[topology]
kind = ring
[network]
kind = loggp
preset = aries
[compute]
gradient = 1 ms
distribution = lognormal
sigma = 0.3
[workload]
kind = mlp
dataset = digits
hidden = 8
batch_size = 16
[algorithm]
kind = adpsgd
learning_rate = 0.05
"""
TIMING = SCENARIO[:SCENARIO.index("kind = mlp")] + "kind = timing\nmodel = resnet50\n" + SCENARIO[SCENARIO.index("[algorithm]"):]


class SharedTest(ProgramCase):
    limit = 300

    def setUp(self):
        super().setUp()
        self.write("s.ini", SCENARIO)
        self.write("timing.ini", TIMING)

    def run_it(self, processes, *words, program=None):
        done = self.starling(*words, processes=processes, program=program, status=None, environment={"OMP_NUM_THREADS": "1"})
        return done.returncode, done.stdout, done.stderr

    def test_the_results_file_is_that_of_one_process(self):
        self.check_same("run.evaluate_interval=10 ms", "run.until=55 ms")

    def test_it_ends_at_its_target_as_one_process_does(self):
        self.check_same("run.until_target=test_accuracy 0.3")
        with h5py.File(self.folder / "same.h5") as results:
            self.assertEqual(results["facts"].attrs["ended"], b"at run.until_target")

    def check_same(self, *settings):
        words = ("run", "s.ini", "run.output=same.h5", *settings)
        self.assertEqual(self.run_it(0, *words)[0], 0)
        alone = content(self.folder / "same.h5")
        self.assertIn("evaluation/consensus_distance", alone)
        self.assertEqual("evaluation_by_time/consensus_distance" in alone, "run.until=55 ms" in settings)
        for processes in (2, 3, 4):
            (self.folder / "same.h5").unlink()
            status, output, errors = self.run_it(processes, *words)
            self.assertEqual(status, 0, errors)
            self.assertEqual(output.count("test accuracy of the mean model"), 1)
            shared = content(self.folder / "same.h5")
            self.assertEqual(alone.keys(), shared.keys())
            self.assertEqual([name for name in alone if alone[name] != shared[name]], [])

    def check_refused(self, status, processes, words, sentence):
        found, _, errors = self.run_it(processes, *words)
        self.assertEqual(found, status, errors)
        self.assertEqual(errors.count(sentence), 1, errors)

    def test_what_several_processes_cannot_do_is_refused_once(self):
        self.check_refused(2, 2, ("run", "timing.ini"), "processes share the numbers of a simulation")
        self.check_refused(2, 3, ("run", "s.ini", "run.nodes=2"), "run.nodes must be at least the number of processes, 3, got 2")
        self.assertEqual(self.run_it(1, "run", "s.ini", "-o", "r.h5")[0], 0)
        self.check_refused(2, 2, ("run", "s.ini", "--replay", "r.h5"), "--replay is for one process, got 2")

    def test_a_run_that_diverges_ends_as_one_process_does(self):
        words = ("run", "s.ini", "-q", "-o", "nan.h5", "algorithm.learning_rate=1e30")
        status, _, expected = self.run_it(0, *words)
        self.assertEqual(status, 1)
        self.assertIn("the run diverged", expected)
        for processes in (2, 3):
            (self.folder / "nan.h5").unlink(missing_ok=True)
            status, _, errors = self.run_it(processes, *words)
            self.assertEqual(status, 1)
            self.assertEqual(errors.count(expected.strip()), 1, errors)
            self.assertEqual(errors.count("diverged"), 1, errors)

    def test_models_that_the_last_step_makes_infinite_are_told_once(self):
        words = ("s.ini", "-q", "-o", "nan.h5", "algorithm.learning_rate=1e300", "run.steps=1", "run.evaluate_every=1")
        sentence = "the test loss of the mean model became nan after step 1: the run diverged"
        for processes, transport in (0, ()), (2, ()), (3, ()), (2, ("--transport", "mpi")):
            with self.subTest(processes=processes, transport=transport):
                (self.folder / "nan.h5").unlink(missing_ok=True)
                status, _, errors = self.run_it(processes, "run", *words, *transport)
                self.assertEqual(status, 1)
                self.assertEqual(errors.count("starling: "), 1, errors)
                self.assertIn(f"starling: {sentence}", errors)
                with h5py.File(self.folder / "nan.h5") as file:
                    self.assertTrue(file["facts"].attrs["status"].decode().startswith(f"failed: {sentence}"))

    def test_results_that_cannot_be_saved_are_told_once(self):
        (self.folder / "taken.h5").mkdir()
        status, _, errors = self.run_it(2, "run", "s.ini", "-q", "-o", "taken.h5")
        self.assertEqual(status, 1)
        self.assertEqual(errors.count("starling: "), 1, errors)
        self.assertIn("taken.h5", errors)

    def test_a_process_that_fails_alone_ends_all(self):
        for mode, sentence in (("disk-full", "no space on the disk of process 1"),
                               ("out-of-memory", "process 1 of 3: out of memory"),
                               ("interrupted", "interrupted")):
            begin = time.monotonic()
            status, output, errors = self.run_it(3, mode, program=self.catalog)
            self.assertNotIn(status, (0, None))
            for process in range(3):
                self.assertEqual(output.count(f"process {process} ends: "), 1, (mode, output, errors))
            self.assertEqual(output.count(sentence), 3, (mode, output, errors))
            self.assertLess(time.monotonic() - begin, 120)

    def test_an_interrupted_run_keeps_its_results(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("run", "s.ini", "-o", "long.h5", "run.steps=100000000", "run.record_every=100000",
                                 "run.evaluate_every=100000", "run.window=1 MiB", processes=2, environment={"OMP_NUM_THREADS": "1"})
            wait_until_at_work(process.pid, 2)
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
            self.assertNotEqual(process.returncode, 0)
            self.assertEqual(errors.count("results so far are kept"), 1, errors)
            with h5py.File(self.folder / "long.h5") as file:
                self.assertIn("interrupted", str(file["facts"].attrs["status"]))
            (self.folder / "long.h5").unlink()


if __name__ == "__main__":
    main("program", "mpirun", "catalog")
