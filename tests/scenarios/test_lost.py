#!/usr/bin/python3
"""A process of a run that dies or hangs, over MPI or in a shared simulation: the others end in time, with one sentence and a
results file that holds what was recorded so far.

usage: test_lost.py STARLING MPIRUN
"""
import os
import pathlib
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
from program_case import ProgramCase, main
from runs import children, wait_until_at_work

PATIENCE = {signal.SIGSTOP: 4, signal.SIGKILL: 30}  # seconds, run.patience: it is the signal of mpirun that ends the wait for the dead
GRACE = 3     # seconds that mpirun leaves before and after its signal; a second by default, too short for a busy machine
LIMIT = 60    # from the blow to the end of mpirun, on a busy machine

SCENARIO = """[run]
nodes = 6
steps = {steps}
record_every = {record_every}
evaluate_every = 1000
record_order = no
window = 1 MiB
patience = {patience} s
[topology]
kind = ring
[network]
kind = loggp
preset = aries
[compute]
gradient = 1 ms
[workload]
kind = mlp
dataset = digits
hidden = 8
batch_size = 4
[algorithm]
kind = {kind}
learning_rate = 0.01
"""

KINDS = {
    # Over MPI a step takes a millisecond of real time.
    "mpi": (["--transport", "mpi"], {"steps": 20_000, "record_every": 1, "kind": "adpsgd"}),
    "shared": ([], {"steps": 10**7, "record_every": 100, "kind": "dpsgd"}),
}


class LostTest(ProgramCase):
    def blow(self, kind, processes, victim, blow, patience=None, waits_for_save=False):
        """Strikes one rank of a run. Steps and losses in the results."""
        patience = patience or PATIENCE[blow]
        with tempfile.TemporaryDirectory(prefix="starling-lost-") as folder:
            words, values = KINDS[kind]
            pathlib.Path(folder, "s.ini").write_text(SCENARIO.format(patience=patience, **values))
            results = pathlib.Path(folder, "r.h5")
            # When a rank dies, mpirun waits, sends SIGTERM to the others, waits as long again and kills them.
            process = self.start("run", "s.ini", "-q", "-o", results, *words, processes=processes, cwd=folder, stdout=subprocess.DEVNULL,
                                 options=["--mca", "odls_base_sigkill_timeout", str(GRACE)], environment={"OMP_NUM_THREADS": "1"})
            try:
                wait_until_at_work(process.pid, processes)
                while waits_for_save and not results.exists() and process.poll() is None:
                    time.sleep(0.1)
                os.kill(children(process.pid)[victim], blow)
                began = time.monotonic()
                _, errors = process.communicate(timeout=LIMIT)
            except BaseException:
                for child in children(process.pid):
                    os.kill(child, signal.SIGKILL)
                process.kill()
                process.communicate()
                raise
            took = time.monotonic() - began
            self.assertNotEqual(process.returncode, 0)
            self.assertEqual(errors.count(f"starling: lost rank {victim} of {processes}: no answer "), 1, errors)
            with h5py.File(results) as file:
                status = file["facts"].attrs["status"].decode()
                self.assertTrue(status.startswith(f"failed: lost rank {victim} of {processes}"), status)
                if patience == PATIENCE[blow]:
                    cause = "signal 15" if blow == signal.SIGKILL else "run.patience"
                    self.assertIn(cause, status)
                steps = file["nodes/steps"][()]
                losses = file["steps/train_loss"][()] if kind == "mpi" else None
            print(f"{kind}, signal {int(blow)} to rank {victim} of {processes}: {took:.1f} s, {steps.sum()} steps recorded; "
                  f"{status}", flush=True)
            return steps, losses

    def blows(self, kind, processes, victims, blow, **options):
        """One such run for each victim, all at once, because they mostly wait. {victim: (steps, losses)}"""
        with ThreadPoolExecutor(len(victims)) as pool:
            return dict(zip(victims, pool.map(lambda victim: self.blow(kind, processes, victim, blow, **options), victims)))

    def check_left(self, processes, victim, steps, losses, is_saved=False):
        """Over MPI a rank takes along what it has recorded since the last save, if there was one."""
        for node, count in enumerate(steps):
            is_lost = node * processes // len(steps) == victim
            if is_saved or not is_lost:
                self.assertGreater(count, 0, (node, steps))
            self.assertTrue(np.isfinite(losses[:count, node]).all(), (node, steps))

    def test_a_rank_over_mpi_that_hangs(self):
        for victim, left in self.blows("mpi", 3, (1, 0), signal.SIGSTOP).items():
            self.check_left(3, victim, *left)

    def test_a_rank_over_mpi_that_dies(self):
        for victim, left in self.blows("mpi", 3, (2, 0), signal.SIGKILL).items():
            self.check_left(3, victim, *left)

    def test_what_a_rank_had_recorded_until_the_last_save_is_kept_when_it_dies(self):
        for victim, left in self.blows("mpi", 3, (2, 0), signal.SIGKILL, waits_for_save=True).items():
            self.check_left(3, victim, *left, is_saved=True)

    def test_a_signal_that_comes_when_patience_ends(self):
        """Some of the others have seen it, some have not."""
        self.check_left(3, 2, *self.blow("mpi", 3, 2, signal.SIGKILL, patience=GRACE))

    def test_a_process_of_a_shared_run_that_hangs(self):
        for steps, _ in self.blows("shared", 3, (1, 0), signal.SIGSTOP).values():
            self.assertGreater(steps.sum(), 0)

    def test_a_process_of_a_shared_run_that_dies(self):
        for steps, _ in self.blows("shared", 2, (1, 0), signal.SIGKILL).values():
            self.assertGreater(steps.sum(), 0)


if __name__ == "__main__":
    main("program", "mpirun")
