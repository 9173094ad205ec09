#!/usr/bin/python3
"""Signals, full disks and memory that is used up: a run tells what ended it, and files stay readable.

usage: test_early_ends.py STARLING [--mpirun MPIRUN]
"""

import resource
import signal
import subprocess
import time

import h5py
from command_line import GOOD, OF_MLP, CommandLineCase
from program_case import main
from runs import obey_permissions


class FilesThatAreThereTest(CommandLineCase):
    """What is no results file is not replaced by one, nor a results file by its own export or page, nor anything else by an export."""

    def test_a_run_replaces_no_other_file(self):
        self.write("thesis.txt", "years of work")
        with h5py.File(self.folder / "samples.h5", "w") as data:
            data["x"] = data["y"] = range(10)
        for name in "thesis.txt", "good.ini", "samples.h5":
            before = (self.folder / name).read_bytes()
            self.expect("run", "good.ini", "-o", name, status=1, sentence=f"{name}: is there already and no results file")
            self.assertEqual((self.folder / name).read_bytes(), before)

    def test_an_export_replaces_exports_alone(self):
        for _ in range(2):  # results, too, replace results
            self.expect("run", "good.ini", "run.timeline=1 s", "-o", "kept.h5")
        self.expect("export", "kept.h5", "--table", "steps", "-o", "kept.h5", status=2, sentence="is the results file itself")
        for name, text in (("thesis.txt", "years of work"), ("own.csv", "step,time_seconds,test_loss\n1,0.1,2\n")):
            self.write(name, text)
            for what in (["--trace"], ["--table", "evaluation"]):
                self.expect("export", "kept.h5", *what, "-o", name, status=1, sentence=f"{name}: is there already and no export")
            self.assertEqual(self.read(name), text)
        for table in ("steps", "evaluation", "evaluation_by_time", "nodes", "timeline", "links"):
            for what in (["--table", table], ["--table", table], ["--trace"], ["--table", table]):
                self.expect("export", "kept.h5", *what, "-o", "export.csv")
        self.assertEqual(self.status_in("kept.h5"), "complete")

    def test_what_may_not_be_read_or_written_is_told(self):
        self.expect("run", "good.ini", "run.timeline=1 s", "-o", "kept.h5")
        for mode, why in ((0o200, "is there already and no "), (0o400, "cannot write: Permission denied")):
            for name, *words in (["held.csv", "export", "kept.h5", "--trace"], ["held.h5", "run", "good.ini"]):
                self.expect(*words, "-o", name)
                (self.folder / name).chmod(mode)
                self.expect(*words, "-o", name, status=1, sentence=f"{name}: {why}", preexec_fn=obey_permissions)
                (self.folder / name).unlink()


class SignalsTest(CommandLineCase):
    """They end a run with a status that says so and leave a results file that can be read."""

    def check_interrupt(self, number):
        for _ in range(4):
            process = self.start("run", "good.ini", "run.steps=100000000", "-o", "interrupted.h5", stdout=subprocess.DEVNULL,
                                 environment={"STARLING_HEARTBEAT": "1"},
                                 preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))  # nohup leaves it ignored
            line = process.stderr.readline()  # comes after a second
            begin = time.monotonic()
            for _ in range(3):  # timeout(1) sends it to the process, and to its group
                process.send_signal(number)
                time.sleep(0.002)
            took = time.monotonic() - begin
            errors = process.communicate(timeout=60)[1]
            if took < 0.4:  # else the machine stood still, and the last one asked to end at once
                break
        self.assertRegex(line, r"^  \d %, .*starting\n$")
        self.assertEqual(process.returncode, 128 + number, errors)
        self.assertEqual(self.status_in("interrupted.h5"), f"interrupted by signal {number}")
        with h5py.File(self.folder / "interrupted.h5", "r") as results:
            self.assertGreater(results["nodes/steps"][:].min(), 0)

    def test_control_c(self):
        self.check_interrupt(signal.SIGINT)

    def test_a_terminal_that_goes_away(self):
        self.check_interrupt(signal.SIGHUP)


class FullDisksTest(CommandLineCase):
    def test_a_full_disk_is_one_sentence_and_the_file_that_was_there_before_stays(self):
        mount = self.folder / "small"
        mount.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", mount], check=False, stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no right to mount")
        self.addCleanup(subprocess.run, ["umount", mount], check=False)
        self.expect("run", "good.ini", "-o", mount / "x.h5")
        self.expect("run", "good.ini", "run.save_models=yes", "run.nodes=200", "-o", mount / "x.h5", status=1, sentence="No space left on device")
        with h5py.File(mount / "x.h5", "r") as results:
            self.assertEqual(results["nodes/steps"].shape, (8,))

    def test_what_cannot_be_said_on_standard_error_changes_neither_how_a_run_goes_on_nor_how_it_ends(self):
        (self.folder / "unsaid.h5.checkpoint.partial").mkdir()  # hence a warning that there is no checkpoint
        for words, status in ((["run.steps=x"], 2), (["algorithm.learning_rate=1e30"], 1), (["run.checkpoint=5 steps"], 0)):
            with open("/dev/full", "w", encoding="ascii") as log:
                self.starling("run", "good.ini", *words, "-o", "unsaid.h5", status=status, stdout=subprocess.DEVNULL, stderr=log)
        self.assertEqual(self.status_in("unsaid.h5"), "complete")

    def test_what_cannot_be_written_on_standard_output_is_one_sentence_however_much_it_is(self):
        for words in (["list", "--markdown"], ["list", "--brief"], ["describe", "good.ini"], ["--version"]):
            with open("/dev/full", "w", encoding="ascii") as output:
                self.expect(*words, status=1, sentence="starling: standard output: cannot write: No space left on device\n", stdout=output)


class MemoryTest(CommandLineCase):
    """Memory that is not there is one sentence, and the results so far are kept."""
    bytes_of_addresses = 1200 << 20
    large = ("workload.dataset=blobs", "workload.features=64", "workload.samples=1000", "workload.hidden=8000", "run.steps=2")

    def limit_addresses(self):
        resource.setrlimit(resource.RLIMIT_AS, (self.bytes_of_addresses,) * 2)

    def test_models_that_do_not_fit_are_told_with_the_arithmetic(self):
        # 1000 models of 64 * 8000 + 8000 + 8000 * 10 + 10 parameters of 4 bytes: 2.4 GB, and as much again while they mix.
        done = self.expect("run", "good.ini", "run.nodes=1000", *self.large, "-o", "memory.h5", status=1, sentence="out of memory: ",
                           preexec_fn=self.limit_addresses)
        self.assertIn(" * 4 B = ", done.stderr)
        self.assertRegex(self.status_in("memory.h5"), "^failed: out of memory: ")
        self.assertFalse((self.folder / "memory.h5.partial").exists())

    def test_models_that_cannot_be_saved_leave_what_else_is_known(self):
        # 160 models fit twice, but not thrice, as saving them takes.
        done = self.starling("run", "good.ini", *self.large, "run.nodes=160", "run.save_models=yes", "run.window=16 MiB", "-o", "models.h5", status=1,
                             environment={"OMP_NUM_THREADS": "1"}, preexec_fn=self.limit_addresses)
        self.assertRegex(done.stderr, "allocate memory|out of memory: ")
        self.assertRegex(self.status_in("models.h5"), "^failed: ")
        with h5py.File(self.folder / "models.h5", "r") as results:
            self.assertIn("evaluation/test_loss", results)
            self.assertNotIn("models", results)

    def test_a_thread_without_room_for_its_stack(self):
        # It is as large as the main thread's may become.
        def limit_stacks():
            resource.setrlimit(resource.RLIMIT_STACK, (self.bytes_of_addresses,) * 2)
            self.limit_addresses()

        done = self.starling("run", "good.ini", status=1, preexec_fn=limit_stacks)
        self.assertEqual(done.stderr, "starling: cannot start a thread: Resource temporarily unavailable\n")


class FilesThatDoNotFitTest(CommandLineCase):
    # 8 models of 64 * 256 + 256 + 256 * 10 + 10 parameters of 4 bytes: 615 kB; results take 35 kB.
    whole = ("good.ini", "workload.hidden=256", "run.device=cpu", "run.steps=60")
    with_checkpoints = (*whole, "run.checkpoint=5 steps")

    def starling_with_files_of(self, size, *words, status):
        """Of so many bytes at most."""
        return self.starling(*words, status=status, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))

    def check_lost(self, output, done, reason):
        """A run without checkpoints has told so once, and comes to the same end as one that has none."""
        self.assertEqual(done.stderr.count("cannot write"), 1, done.stderr)
        self.assertIn(f"{output}.checkpoint: cannot write: {reason}; the run goes on without a checkpoint", done.stderr)
        self.assertRegex(done.stdout, "checkpoints not written +[2-9]\n")
        self.expect("run", *self.whole, "-o", "whole.h5")
        self.expect("compare", "whole.h5", output)
        with h5py.File(self.folder / "whole.h5") as whole, h5py.File(self.folder / output) as found:
            self.assertTrue((found["evaluation/test_loss"][:] == whole["evaluation/test_loss"][:]).all())

    def test_a_checkpoint_for_which_there_is_no_room_is_told_once_and_costs_the_run_nothing(self):
        self.check_lost("lost.h5", self.starling_with_files_of(200_000, "run", *self.with_checkpoints, "-o", "lost.h5", status=0), "File too large")
        self.assertEqual(list(self.folder.glob("lost.h5.*")), [])

    def test_of_two_processes_one_writes_and_the_other_does_not_wait_for_it(self):
        if not self.mpirun:
            self.skipTest("needs MPI")
        (self.folder / "shared.h5.checkpoint.partial").mkdir()
        self.check_lost("shared.h5", self.starling("run", *self.with_checkpoints, "-o", "shared.h5", processes=2), "Is a directory")

    def test_results_and_exports_that_do_not_fit_leave_no_file(self):
        done = self.starling_with_files_of(4096, "run", *self.with_checkpoints, "-o", "nothing.h5", status=1)
        self.assertTrue(done.stderr.endswith("starling: nothing.h5: cannot write: File too large\n"), done.stderr)
        self.expect("run", *self.whole, "-o", "whole.h5")
        done = self.starling_with_files_of(4096, "export", "whole.h5", "--table", "steps", "-o", "nothing.csv", status=1)
        self.assertEqual(done.stderr, "starling: nothing.csv: cannot write: File too large\n")
        self.assertEqual(list(self.folder.glob("nothing*")), [])

    def test_where_nothing_can_be_written_at_all_a_run_does_not_begin(self):
        # This one would take hours.
        done = self.starling("run", *self.with_checkpoints, "run.steps=1000000000", "-o", "/proc/results.h5", status=1)
        self.assertIn("starling: /proc/results.h5: cannot write: ", done.stderr)


class MpiFailuresTest(CommandLineCase):
    def test_a_failure_on_one_rank_ends_all_with_one_sentence_and_so_does_a_scenario_that_is_wrong(self):
        if not self.mpirun:
            self.skipTest("needs MPI")
        self.write("walks.ini", GOOD.replace(OF_MLP, "navigation"))
        self.write("sizes.ini", GOOD.replace(OF_MLP, "timing"))
        for words, sentence in ((["good.ini", "algorithm.learning_rate=1e30"], "the run diverged"),
                                (["good.ini", "algorithm.learning_rate=-1"], "learning_rate must be positive"),
                                (["good.ini", "failures.stop=3 @ 5 ms"], "[failures] must not be there over MPI"),
                                (["good.ini", "run.checkpoint=5 steps"], "run.checkpoint must be never over MPI"),
                                (["good.ini", "run.until_target=test_loss 0.1"], "run.until_target must be none over MPI"),
                                (["walks.ini", "compute.per_episode=1 ms"], "[compute] per_episode must not be there over MPI"),
                                (["sizes.ini", "compute.pace=measured"], "compute.pace must be modelled over MPI where"),
                                (["good.ini", "run.nodes=2"], "rank")):
            with self.subTest(words):
                done = self.starling("run", *words, "--transport", "mpi", processes=4, status=None)
                self.assertNotEqual(done.returncode, 0)
                said = [line for line in done.stderr.splitlines() if line.startswith("starling: ")]
                self.assertEqual(len(said), 1, done.stderr)
                self.assertIn(sentence, said[0])


if __name__ == "__main__":
    main("program", "--mpirun")
