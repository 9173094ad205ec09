#!/usr/bin/python3
"""Runs of several processes that end badly or before their time, as their user sees them: nothing that was recorded is lost,
and one sentence says why.

usage: test_mpi_ends.py STARLING MPIRUN PRELOADED
"""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import time

import h5py
import numpy as np
from program_case import ProgramCase, main
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
# Of runs that only what happens to them ends.
ENDLESS = ("algorithm.learning_rate=0.1", "run.steps=10000000", "run.record_every=10000", "run.evaluate_every=10000", "run.record_order=no")
# Makes room for another workload.
QUADRATIC_DEFAULTS = [f"{key}=default" for key in ("dimension", "curvature_min", "curvature_max", "centers", "center_values")]


class EndsTest(ProgramCase):
    def setUp(self):
        super().setUp()
        self.set_centers("1,1,0,0")

    def set_centers(self, centers):
        self.write("s.ini", SCENARIO.format(centers=centers))

    def start_run(self, ranks, *words, options=()):
        return self.start("run", "s.ini", "-q", *words, processes=ranks, options=options, environment={"OMP_NUM_THREADS": "1"})

    def start_before_saving(self, ranks, *words, options=()):
        """A run at work that has not begun to save, as it does after ten seconds: on a busy machine that may be sooner than a quarter of a second
        of every rank's work (its start takes half of that), so it is started again."""
        for _ in range(10):
            process = self.start_run(ranks, *words, options=options)
            began = time.monotonic()
            wait_until_at_work(process.pid, ranks, seconds=0.25)
            if time.monotonic() - began < 9:
                return process
            for child in children(process.pid):
                os.kill(child, signal.SIGKILL)
            process.communicate(timeout=120)
        raise TimeoutError("ranks do not get a quarter of a second of work in nine seconds")

    def run_it(self, ranks, *words, status=0):
        process = self.start_run(ranks, *words)
        _, errors = process.communicate(timeout=400)  # seconds of work, on a machine that others may want
        self.assertEqual(process.returncode, status, errors)
        return errors

    def slow_disk(self, seconds):
        """Options of mpirun: the first results that a rank saves take so long to get to the disk."""
        return self.with_preloaded("STARLING_TEST_SYNC", seconds)

    def scarce_memory(self, rank, bytes_per_block=10**15):
        """Options of mpirun: a rank has no memory for blocks of so many bytes, and after SIGUSR1 for none until it gives some back."""
        return self.with_preloaded("STARLING_TEST_MEMORY", f"{rank}:{bytes_per_block}")

    def with_preloaded(self, variable, setting):
        return [word for name, value in (("LD_PRELOAD", self.preloaded), (variable, setting),
                                         ("ASAN_OPTIONS", "verify_asan_link_order=0")) for word in ("-x", f"{name}={value}")]

    def test_a_run_ends_at_its_time_on_all_ranks(self):
        # Learning does not diverge, and takes far more steps than there is time for. Rows of the last instant are those of the nodes
        # as they are, some of them a step ahead.
        words = ("algorithm.learning_rate=0.01", "algorithm.period=1", "run.steps=100000", "run.record_every=1", "run.evaluate_every=1",
                 "run.until=1 s", "run.evaluate_interval=300 ms")
        for ranks in (2, 4):
            self.run_it(ranks, "-o", "cut.h5", *words, *MPI)
            with h5py.File(self.folder / "cut.h5") as results:
                self.assertEqual(results["facts"].attrs["status"], b"complete")
                self.assertEqual(results["facts"].attrs["ended"], b"at run.until")
                rows = {name: values[()] for name, values in results["evaluation_by_time"].items()}
                steps, times = results["nodes/steps"][()], results["steps/time"][()]
                loss = results["evaluation/test_loss"][()]
            np.testing.assert_allclose(rows["time"], [0.3, 0.6, 0.9, 1])
            self.assertLess(steps.max(), 100000)
            for i, instant in enumerate(rows["time"]):
                ended = (times <= instant).sum(axis=0)
                self.assertEqual(rows["samples"][i], ended.sum())
                if ended.min() == ended.max() > 0:
                    self.assertEqual(rows["test_loss"][i], loss[ended[0] - 1])
            self.assertTrue(np.isfinite(rows["test_loss"]).all())
            self.assertGreater(rows["test_loss"][0], rows["test_loss"][-1])

    def test_the_replay_of_a_run_that_ended_at_its_time_ends_where_that_did(self):
        words = ("algorithm.kind=adpsgd", "algorithm.period=default", "algorithm.learning_rate=0.01", "run.steps=100000",
                 "run.evaluate_every=1", "run.save_models=yes")
        self.run_it(2, "-o", "cut.h5", *words, "run.until=300 ms", *MPI)
        self.run_it(0, "-o", "again.h5", *words, "run.until=300 ms", "--replay", "cut.h5")
        with h5py.File(self.folder / "cut.h5") as cut, h5py.File(self.folder / "again.h5") as again:
            self.assertEqual(again["facts"].attrs["replay"], b"the same losses and models as recorded")
            self.assertEqual(again["facts"].attrs["ended"], cut["facts"].attrs["ended"])
            self.assertGreater(cut["nodes/steps"][()].min(), 0)
            for name in ("models", "nodes/steps", "evaluation/test_loss"):
                np.testing.assert_array_equal(again[name][()], cut[name][()])
            self.assertTrue(np.isfinite(again["evaluation_by_time/test_loss"][-1]))

    def test_an_interrupted_run_saves_its_results_however_slow_the_disk_is(self):
        for words in (MPI, ()):
            process = self.start_before_saving(2, "-o", "slow.h5", *ENDLESS, *words, options=self.slow_disk(8))
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

    def test_a_standstill_of_the_whole_machine_after_a_signal_loses_nobody(self):
        for delay in 0, 0.01:
            process = self.start_run(2, "-o", "halted.h5", *ENDLESS, *MPI)
            wait_until_at_work(process.pid, 2, seconds=0.2)
            ranks = children(process.pid)
            for act in signal.SIGTERM, signal.SIGSTOP:
                for rank in ranks:
                    os.kill(rank, act)
                time.sleep(delay if act == signal.SIGTERM else 1.5)
            for rank in reversed(ranks):
                os.kill(rank, signal.SIGCONT)
                time.sleep(0.15)
            _, errors = process.communicate(timeout=120)
            self.assertIn("interrupted by signal 15; results so far are kept", errors)
            self.assertNotIn("lost", errors)
            (self.folder / "halted.h5").unlink()

    def test_a_rank_that_hangs_while_it_saves_leaves_what_the_others_save_meanwhile(self):
        process = self.start_run(3, "-o", "slow.h5", *ENDLESS, "run.patience=4 s", *MPI,
                             options=[*self.slow_disk(4), "--mca", "odls_base_sigkill_timeout", "3"])  # mpirun wakes it before it kills
        while not (self.folder / "slow.h5.partial").exists() and process.poll() is None:
            time.sleep(0.1)
        os.kill(children(process.pid)[0], signal.SIGSTOP)
        _, errors = process.communicate(timeout=120)
        self.assertIn("lost rank 0 of 3", errors)
        with h5py.File(self.folder / "slow.h5") as file:
            self.assertIn("lost rank 0 of 3", file["facts"].attrs["status"].decode())

    def test_a_failed_run_over_mpi_keeps_what_all_ranks_recorded(self):
        self.set_centers("0,0,0,1")
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
                # A gradient may be there whose step has not ended.
                self.assertTrue(np.isnan(kept[count + 1:, node]).all(), (ranks, node))

    def test_a_program_that_fails_over_mpi_leaves_the_evaluations_before(self):
        # Node 3 has no duration for its 31st gradient. Once it is there, all have ended 24 steps at least: they have brought their models
        # to the average after the 30th.
        rows = [f"{node},{step},0.001" for node in range(4) for step in range(31 if node < 3 else 30)]
        (self.folder / "t.csv").write_text("\n".join(["node,step,seconds", *rows]) + "\n")
        words = ("algorithm.learning_rate=0.1", "compute.distribution=trace", "compute.trace=t.csv", "compute.trace_end=fail", "compute.gradient=default",
                 "run.steps=31", "algorithm.period=6", "-o")
        self.assertIn("node 3 at 0.03", self.run_it(0, *words, "simulated.h5", status=1))
        with h5py.File(self.folder / "simulated.h5") as simulated:
            evaluated = simulated["evaluation/test_loss"][()]
        self.assertEqual(len(evaluated), 5)  # after 6, 12, .. 30 steps
        for ranks in 2, 4:
            errors = self.run_it(ranks, *words, "real.h5", *MPI, status=1)
            self.assertEqual(len(re.findall(r"starling: node 3 at [\d.]+ s: ", errors)), 1, errors)
            with h5py.File(self.folder / "real.h5") as real:
                self.assertIn("failed: node 3 at ", real["facts"].attrs["status"].decode())
                kept = real["evaluation/test_loss"][()]
            self.assertTrue(np.array_equal(kept[:4], evaluated[:4]), ranks)
            self.assertTrue(np.isnan(kept[4:]).all() or np.array_equal(kept, evaluated), ranks)

    def end_without_memory(self, process, rank, ranks=2):
        """Which nodes have ended steps in the results of a run that ends because a rank has no memory."""
        began = time.monotonic()
        _, errors = process.communicate(timeout=120)
        sentence = f"rank {rank} of {ranks} is out of memory"
        self.assertEqual(process.returncode, 1, errors)
        # Where a run takes long, the rank may also warn that it has no room to report meanwhile.
        no_room = f"warning: rank {rank} of {ranks} has no room for what is reported of the nodes; the run goes on, and saves results later"
        said = [line for line in re.findall(r"starling: (.*)", errors) if line != no_room]
        self.assertEqual(said, [sentence], errors)
        self.assertLess(time.monotonic() - began, 60)  # far from run.patience
        with h5py.File(self.folder / "scarce.h5") as file:
            self.assertEqual(file["facts"].attrs["status"].decode(), f"failed: {sentence}")
            return (file["nodes/steps"][()] > 0).tolist()

    def test_a_rank_that_runs_out_of_memory_is_named_and_what_all_ranks_recorded_is_kept(self):
        for rank, gradient in (0, "1 ms"), (1, "10 us"):  # most of what needs memory then is of gradients, or of messages
            process = self.start_run(2, "-o", "scarce.h5", "algorithm.kind=dpsgd", "algorithm.period=default", "algorithm.learning_rate=0.1",
                                 f"compute.gradient={gradient}", "run.steps=10000000", "run.record_every=1000", "run.evaluate_every=10000000",
                                 *MPI, options=self.scarce_memory(rank))
            wait_until_at_work(process.pid, 2, seconds=0.5)
            os.kill(children(process.pid)[rank], signal.SIGUSR1)
            self.assertEqual(self.end_without_memory(process, rank), 4 * [True])

    def test_what_a_rank_has_no_room_to_tell_is_all_that_is_lost(self):
        # What rank 1 notes of a node for a replay grows until there is no room, nor is there for all of that in one piece.
        process = self.start_run(2, "-o", "scarce.h5", "algorithm.learning_rate=0.1", "run.steps=10000000", "run.record_every=1000",
                             "run.evaluate_every=10000000", *MPI, options=self.scarce_memory(1, 50000))
        self.assertEqual(self.end_without_memory(process, 1), [True, True, False, False])

    def test_a_rank_without_room_for_its_results_leaves_those_of_the_others(self):
        # No table takes 100 kB in one piece for its 3000 rows; rank 1 has 2 cells of 3 metrics to tell of each, which makes 144 kB.
        process = self.start_run(2, "-o", "scarce.h5", "algorithm.learning_rate=0.1", "run.steps=3000", "run.evaluate_every=3000", "run.record_order=no",
                             *MPI, options=self.scarce_memory(1, 120000))
        self.assertEqual(self.end_without_memory(process, 1), [True, True, False, False])
        with h5py.File(self.folder / "scarce.h5") as file:
            self.assertEqual(file["nodes/steps"][()].tolist(), [3000, 3000, 0, 0])

    def test_a_transform_without_memory_ends_the_run_in_a_sentence(self):
        # Places of nine tenths of 1,076,016 numbers take a block of 4 MB; vectors are not of operator new.
        words = ("workload.kind=mlp", "workload.dataset=blobs", "workload.features=64", "workload.samples=1000", "workload.hidden=1000,1000",
                 "algorithm.kind=choco", "algorithm.period=default", "algorithm.learning_rate=0.01", "algorithm.compression=top_k", "algorithm.keep=0.9", "algorithm.consensus_rate=0.1",
                 "topology.kind=ring", "run.steps=3")
        process = self.start_run(1, "-o", "scarce.h5", *(f"workload.{key}" for key in QUADRATIC_DEFAULTS), *words, options=self.scarce_memory(0, 2000000))
        errors = process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 1, errors)
        self.assertIn("starling: out of memory: 4 nodes * 1076016 floats", errors)
        with h5py.File(self.folder / "scarce.h5") as file:
            self.assertTrue(file["facts"].attrs["status"].startswith(b"failed: out of memory: "))

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

    def test_what_is_counted_over_mpi_is_of_all_ranks(self):
        self.run_it(3, "-o", "counted.h5", "algorithm.learning_rate=0.1", *MPI)
        with h5py.File(self.folder / "counted.h5") as file:
            statistics, machine = dict(file["statistics"].attrs), set(file["machine"].attrs)
        self.assertEqual(statistics["mpi.gradients"], 4 * 60)
        self.assertEqual([name for name in statistics if name.startswith("graph.")], [])
        self.assertTrue(machine.isdisjoint({"processor_seconds", "timeline_seconds"}), machine)
        self.assertIn("wall_seconds", machine)

    def test_models_that_evaluations_over_mpi_keep_are_warned_of_when_the_run_begins(self):
        # 300 evaluations of two nodes of 2 MB on each rank; it diverges long before.
        words = ("-o", "kept.h5", *MPI, "workload.dimension=500000", "run.evaluate_every=1")
        kept = "warning: evaluations over MPI keep 1.1 GiB of models on a rank until the run has ended"
        self.assertEqual(self.run_it(2, *words, "run.steps=300", status=1).count(kept), 1)
        self.assertNotIn("GiB of models", self.run_it(2, *words, "run.steps=250", status=1))

    def test_more_ranks_than_nodes_are_refused_as_a_wrong_setting(self):
        for words, who in (MPI, "ranks"), ((), "processes"):
            errors = self.run_it(5, "-o", "five.h5", *words, status=2)
            self.assertEqual(errors.count(f"starling: s.ini: run.nodes must be at least the number of {who}, 5, got 4"), 1, errors)

    def test_ranks_that_read_different_settings_do_not_make_one_run(self):
        for words in (MPI, ()):
            second = [":", "-n", "1", self.program, "run", "s.ini", "-q", "-o", "mixed.h5", "algorithm.learning_rate=0.2", *words]
            errors = self.run_it(1, "-o", "mixed.h5", *words, *second, status=1)
            self.assertEqual(errors.count("starling: rank 1 has other settings than rank 0: expected `learning_rate = 11`, "
                                          "found `learning_rate = 0.2`"), 1, errors)
            self.assertFalse((self.folder / "mixed.h5").exists())

    def test_ranks_that_hold_other_data_do_not_make_one_run(self):
        for name, seed in ("here", 1), ("there", 2):
            (self.folder / name).mkdir()
            shutil.copy(self.folder / "s.ini", self.folder / name)
            with h5py.File(self.folder / name / "data.h5", "w") as file:
                file["x"] = np.random.default_rng(seed).normal(size=(50, 3)).astype("f4")
                file["y"] = np.arange(50) % 2
        words = ["s.ini", "-q", "-o", "../mixed.h5", "workload.kind=softmax", "workload.dataset=hdf5", "workload.path=data.h5",
                 *(f"workload.{key}" for key in QUADRATIC_DEFAULTS)]
        for how in (MPI, ()):
            for other, status in ("here", 0), ("there", 1):
                run = [self.program, "run", *words, *how]
                done = self.starling("run", *words, *how, ":", "-n", "1", "-wdir", self.folder / other, *run, processes=1, status=status,
                                     options=["-wdir", self.folder / "here"], environment={"OMP_NUM_THREADS": "1"})
                self.assertEqual(done.stderr.count("starling: data.h5: holds something else on rank 1 than on rank 0"), status,
                                 done.stderr)
                self.assertEqual((self.folder / "mixed.h5").exists(), not status)
                (self.folder / "mixed.h5").unlink(missing_ok=True)

    def test_a_file_that_is_no_results_file_is_told_once(self):
        (self.folder / "notes.h5").write_text("mine")
        for words in (MPI, ()):
            errors = self.run_it(3, "-o", "notes.h5", *words, status=1)
            self.assertEqual(errors.count("starling: notes.h5: is there already and no results file"), 1, errors)

    def test_results_that_cannot_be_written_are_told_before_a_real_run_begins(self):
        (self.folder / "taken").write_text("a file, no folder")
        began = time.monotonic()
        errors = self.run_it(2, "-o", "taken/real.h5", "algorithm.learning_rate=0.1", "run.steps=10000000", *MPI, status=1)
        self.assertEqual(errors.count("starling: taken/real.h5: cannot write: Not a directory"), 1, errors)
        self.assertLess(time.monotonic() - began, 60)

    def test_a_real_run_that_is_killed_has_saved_what_all_ranks_recorded(self):
        process = self.start_run(3, "-o", "real.h5", "algorithm.learning_rate=0.1", "run.steps=10000000", "run.evaluate_every=100000",
                             "run.timeline=5 s", *MPI)
        self.wait_for_results(process)
        for victim in [*children(process.pid), process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        process.communicate(timeout=120)
        with h5py.File(self.folder / "real.h5") as file:
            self.assertEqual(file["facts"].attrs["status"].decode(), "running")
            steps, losses = file["nodes/steps"][()], file["steps/train_loss"][()]
            for node, count in enumerate(steps):
                self.assertGreater(count, 1000)  # of a millisecond, in ten seconds
                self.assertTrue(np.isfinite(losses[:count, node]).all())
                self.assertTrue(np.isnan(losses[count + 1:, node]).all())
            self.assertEqual(set(file["timeline/node"][()]), {0, 1, 2, 3})
            self.assertTrue((np.diff(file["timeline/end"][()]) >= 0).all())
            self.assertTrue((np.diff(file["acts/first"][()]) > 1000).all())

    def start_with_slow_evaluations(self, steps, evaluate_every, options=()):
        """A real run of a millisecond a step, each of whose evaluations takes rank 0 a second or more when all have ended."""
        workload = [f"workload.{key}" for key in ("kind=mlp", "dataset=blobs", "hidden=400,400", "test_samples=100000", "samples=100",
                                                  "batch_size=1", *QUADRATIC_DEFAULTS)]
        return self.start_run(2, "-o", "real.h5", "run.nodes=2", f"run.steps={steps}", f"run.evaluate_every={evaluate_every}",
                          "topology.kind=complete", "algorithm.learning_rate=0.001", *workload, *MPI, options=options)

    def wait_for_results(self, process, steps=1):
        """Status and steps of the nodes in the results, once all have so many there, or the process has ended."""
        said = None, []
        for _ in range(1200):
            has_ended = process.poll() is not None
            if (self.folder / "real.h5").exists():
                with h5py.File(self.folder / "real.h5") as file:
                    said = file["facts"].attrs["status"].decode(), file["nodes/steps"][()].tolist()
            if has_ended or min(said[1], default=0) >= steps:
                break
            time.sleep(0.1)
        return said

    def read_and_end(self, process, steps=1):
        said = self.wait_for_results(process, steps)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
        return said

    def test_a_real_run_that_is_killed_in_its_last_evaluations_has_saved_what_was_measured(self):
        process = self.start_with_slow_evaluations(steps=11000, evaluate_every=500)  # ten seconds are not worth a save
        self.assertEqual(self.read_and_end(process, steps=11000), ("running", [11000, 11000]))
        with h5py.File(self.folder / "real.h5") as file:
            self.assertIn(file["facts"].attrs["status"].decode(), ("running", "interrupted by signal 15"))
            self.assertTrue(np.isfinite(file["steps/train_loss"][()]).all())

    def test_a_rank_that_dies_during_the_evaluations_of_a_short_run_is_named_and_what_was_measured_is_there(self):
        process = self.start_with_slow_evaluations(steps=600, evaluate_every=2, options=["--mca", "odls_base_sigkill_timeout", "8"])
        self.assertEqual(self.wait_for_results(process, steps=600), ("running", [600, 600]))  # after ten seconds
        for rank in children(process.pid):
            if pathlib.Path(f"/proc/{rank}/environ").read_bytes().find(b"OMPI_COMM_WORLD_RANK=1\0") >= 0:
                os.kill(rank, signal.SIGKILL)
        _, errors = process.communicate(timeout=120)
        self.assertIn("lost rank 1 of 2: no answer since signal 15 came", errors)
        with h5py.File(self.folder / "real.h5") as file:
            self.assertIn("lost rank 1 of 2", file["facts"].attrs["status"].decode())
            self.assertEqual(file["nodes/steps"][()].tolist(), [600, 600])

    def test_a_rank_that_evaluates_for_longer_than_the_others_wait_is_not_lost(self):
        self.run_it(3, "-o", "real.h5", "run.nodes=3", "run.steps=6", "run.evaluate_every=3", "run.patience=1 s", "topology.kind=complete",
                    "algorithm.learning_rate=0.001", "workload.kind=mlp", "workload.dataset=blobs", "workload.hidden=1200,1200",
                    "workload.samples=100", "workload.test_samples=75000", "workload.batch_size=1",
                    *(f"workload.{key}" for key in QUADRATIC_DEFAULTS), *MPI)
        with h5py.File(self.folder / "real.h5") as file:
            self.assertEqual(file["facts"].attrs["status"].decode(), "complete")
            self.assertTrue(np.isfinite(file["evaluation/test_loss"][()]).all())

    def test_an_interrupted_real_run_saves_before_it_evaluates(self):
        for _ in range(4):  # for a busy machine a second is short
            (self.folder / "real.h5").unlink(missing_ok=True)
            process = self.start_with_slow_evaluations(steps=10**6, evaluate_every=100)
            wait_until_at_work(process.pid, 2, seconds=1.5)
            process.send_signal(signal.SIGTERM)  # which mpirun passes on, to kill a second later
            process.communicate(timeout=120)
            status, steps = self.wait_for_results(process)
            if status == "interrupted by signal 15":
                break
        self.assertEqual(status, "interrupted by signal 15")
        self.assertGreater(min(steps), 0)


if __name__ == "__main__":
    main("program", "mpirun", "preloaded")
