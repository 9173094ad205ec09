#!/usr/bin/python3
"""Runs that are killed at random moments (SIGKILL, so that nobody can tidy up) and resumed each time leave the results of
an undisturbed run: every series, every total and every model, to the bit. Also SIGTERM, and the heartbeat of a log.

usage: test_kill.py STARLING [--mpirun MPIRUN] [KillTest]

With mpirun the run is shared by 2 processes, after the first kill by 3, then by one, and so on. Killed is one of them, or
all. KillTest has what can be shared.

STARLING_KILLS=20 and STARLING_KILL_SECONDS=120 make it the long version: so many kills per scenario, in runs of so many
seconds. STARLING_KILL_SEED repeats the moments of another run, which printed it.
"""

import os
import random
import shlex
import signal
import subprocess
import time

import h5py
from program_case import ProgramCase, main
from runs import children, content, wait_until_at_work

KILLS = int(os.environ.get("STARLING_KILLS", "5"))
SECONDS = float(os.environ.get("STARLING_KILL_SECONDS", "3"))
SEED = int(os.environ.get("STARLING_KILL_SEED", time.time()))

SCENARIO = """[run]
nodes = 16
steps = {steps}
record_every = 10
evaluate_every = 50
evaluate_interval = 150 ms
save_models = yes
checkpoint = {checkpoint}
[topology]
kind = ring
[network]
kind = loggp
preset = 10gbe
[compute]
gradient = 2 ms
distribution = lognormal
sigma = 0.4
[workload]
kind = mlp
dataset = digits
hidden = 24
batch_size = 8
[algorithm]
learning_rate = 0.05
"""

# What is run, besides the scenario: synchronous and asynchronous, with a code whose size follows from values, with
# nodes that fail.
CASES = {
    "dpsgd": ["algorithm.kind=dpsgd"],
    "adpsgd": ["algorithm.kind=adpsgd"],
    "dgc": ["algorithm.kind=dgc"],
    "failing": ["algorithm.kind=adpsgd", "algorithm.patience=5 ms", "failures.stop=3 @ 40 ms",
                "failures.pause=5 @ 30 ms for 20 ms", "failures.lose=0.001"],
}


class Killed:
    """One scenario, run by one program: alone, or with a launcher by several processes."""

    def __init__(self, case, name, overrides, steps, checkpoint):
        self.case, self.overrides = case, overrides
        self.processes = 2 if case.mpirun else 0
        self.scenario, self.results = case.folder / f"{name}.ini", case.folder / f"{name}.h5"
        text = SCENARIO.format(steps=steps, checkpoint=checkpoint)
        if any(word.startswith("failures.") for word in overrides):
            text += "[failures]\n"
        self.scenario.write_text(text)

    def end(self, ending):
        """A file beside the results."""
        return self.results.with_name(self.results.name + ending)

    def words(self, command):
        if command == "resume":
            return [command, "--quiet", self.results]
        return [command, "--quiet", self.scenario, "-o", self.results, *self.overrides]

    def run(self):
        """Undisturbed; how many seconds that took."""
        began = time.monotonic()
        process = self.case.start(*self.words("run"), processes=self.processes, stdout=None, stderr=None)
        self.case.assertEqual(process.wait(), 0)
        return time.monotonic() - began

    def has_checkpoint(self):
        return any(self.end(ending).exists() for ending in (".checkpoint", ".checkpoint.previous"))

    def wait_for_checkpoint(self, process):
        """Until there is one, or the process has ended."""
        while process.poll() is None and not self.has_checkpoint():
            time.sleep(0.01)

    def start(self):
        """Goes on where it is, or begins."""
        return self.case.start(*self.words("resume" if self.has_checkpoint() else "run"), processes=self.processes,
                               stdout=subprocess.DEVNULL)

    def kill(self, process, chance):
        """One process of those that compute, which ends the others, or all at once."""
        process.send_signal(signal.SIGSTOP)  # it starts no more
        computing = children(process.pid)
        if computing and chance.random() < 0.5:
            os.kill(chance.choice(computing), signal.SIGKILL)
            process.send_signal(signal.SIGCONT)
        else:
            for victim in [*computing, process.pid]:
                os.kill(victim, signal.SIGKILL)
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:  # Open MPI's mpirun may miss the end of a process that it just starts
            self.case.assertEqual(children(process.pid), [], "processes live on beside one that was killed")
            process.kill()
            process.communicate()
        if self.case.mpirun:
            self.processes = chance.choice([0, 2, 3])

    def status(self):
        with h5py.File(self.results, "r") as file:
            return file["facts"].attrs["status"].decode()


class KillCase(ProgramCase):
    def run_killed(self, name):
        """Kills a run and resumes it, again and again, and compares; how often there was a checkpoint to resume."""
        chance, overrides = random.Random(f"{SEED} {name}"), CASES[name]
        # How many steps fill the wanted time is measured once.
        probe = Killed(self, name + "_probe", overrides, 2000, "never")
        steps = int(2000 * SECONDS / probe.run()) // 50 * 50 + 50

        interval = f"{SECONDS * 1000 / 60:.0f} ms"
        whole = Killed(self, name + "_whole", overrides, steps, interval)
        duration = whole.run()
        self.assertFalse(whole.has_checkpoint(), "a complete run leaves no checkpoint")

        run = Killed(self, name, overrides, steps, interval)
        kills = resumed = 0
        while True:
            resumed += run.has_checkpoint()
            process = run.start()
            try:
                if kills < KILLS:
                    if kills > 0 and resumed == 0:  # on a busy machine all could come too early
                        run.wait_for_checkpoint(process)
                    process.wait(chance.uniform(0.05, 1.2 * duration / KILLS))  # it may be faster now
                else:
                    process.wait()
            except subprocess.TimeoutExpired:
                run.kill(process, chance)
                kills += 1
                continue
            self.assertEqual(process.returncode, 0, process.stderr.read())
            process.stderr.close()
            break
        names = ("scenario", "facts@scenario_name")  # they say where the results are
        expected, found = content(whole.results, names), content(run.results, names)
        self.assertEqual(expected.keys(), found.keys())
        self.assertEqual([key for key in expected if expected[key] != found[key]], [])
        self.assertLessEqual({"models", "steps/train_loss"}, found.keys())
        print(f"{name}: {steps} steps, killed {kills} times, resumed {resumed} times: the same {len(found)} items", flush=True)
        return resumed


class KillTest(KillCase):
    @classmethod
    def setUpClass(cls):
        print(f"STARLING_KILL_SEED={SEED}", flush=True)

    def test_killed_runs_of_dpsgd_adpsgd_and_dgc_end_as_undisturbed_ones(self):
        resumed = 0
        for name in "dpsgd", "adpsgd", "dgc":
            with self.subTest(name):
                resumed += self.run_killed(name)
        self.assertGreater(resumed, 0, "no kill came late enough to have a checkpoint")

    def asked_to_end(self):
        """A run that SIGTERM has ended, and what it said."""
        run = Killed(self, "asked", CASES["adpsgd"], 100_000, "1 h")
        process = run.start()
        if self.mpirun:
            wait_until_at_work(process.pid, run.processes, 1)
        else:
            wait_until_at_work(os.getpid(), 1, 1)
        # One process tells the others, whichever it is.
        os.kill(children(process.pid)[-1] if self.mpirun else process.pid, signal.SIGTERM)
        said = process.communicate()[1]
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, said)
        return run, said

    def test_a_run_that_is_asked_to_end_leaves_results_and_a_checkpoint(self):
        run, said = self.asked_to_end()
        for words in "results so far are kept", f"starling resume {run.results} goes on":
            self.assertEqual(said.count(words), 1, said)
        self.assertTrue(run.has_checkpoint())
        self.assertFalse(run.end(".checkpoint.previous").exists())
        self.assertEqual(run.status(), "interrupted by signal 15")

    def test_no_other_run_takes_a_checkpoint_away_and_later_results_are_not_replaced(self):
        run, _ = self.asked_to_end()
        run.results.unlink()
        words = [*run.words("run"), "algorithm.learning_rate=1e30", "run.steps=100", "run.checkpoint=never"]
        self.assertIn(f"{run.results}: another run has left a checkpoint", self.starling(*words, status=1).stderr)
        self.assertTrue(run.has_checkpoint())
        self.assertFalse(run.results.exists())
        run.end(".checkpoint").rename(self.folder / "aside.checkpoint")
        self.starling(*words, status=1)  # it diverges
        (self.folder / "aside.checkpoint").rename(run.end(".checkpoint"))
        said = run.start().communicate()[1]
        self.assertEqual(said.count("holds later results, of another scenario than"), 1, said)
        self.assertIn("diverged", run.status())

    def test_a_damaged_checkpoint_without_an_older_one_changes_nothing(self):
        run, _ = self.asked_to_end()
        with open(run.end(".checkpoint"), "r+b") as file:
            file.truncate(1000)
        before = run.results.stat().st_mtime_ns
        process = run.start()
        said = process.communicate()[1]
        self.assertEqual(process.returncode, 1, said)
        self.assertIn("damaged or cut short", said)
        self.assertEqual(run.results.stat().st_mtime_ns, before)


class KillAloneTest(KillCase):
    """Of one process."""

    def test_a_killed_run_of_nodes_that_fail_ends_as_an_undisturbed_one(self):
        self.run_killed("failing")

    def test_a_scenario_by_a_relative_name_is_resumed_and_repeated_from_anywhere(self):
        (self.folder / "sub").mkdir()
        self.write("sub/s.ini", SCENARIO.format(steps=30_000, checkpoint="1 h").replace("kind = ring", "kind = file\npath = pairs.dot"))
        self.write("sub/pairs.dot", "graph { " + " ".join(f"{i} -- {(i + 1) % 16};" for i in range(16)) + " }\n")
        process = self.start("run", "sub/s.ini", "--quiet", *CASES["dpsgd"], "-o", "o'er there.h5", stdout=None)
        wait_until_at_work(os.getpid(), 1, 0.3)
        process.terminate()
        told = process.communicate()[1]
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, told)
        # What is told can be copied into a shell, whatever the name.
        lines = [shlex.split(line)[:3] for line in told.splitlines() if line.startswith("starling resume")]
        self.assertIn(["starling", "resume", "o'er there.h5"], lines)
        for tail in "", ".checkpoint":
            (self.folder / f"o'er there.h5{tail}").rename(self.folder / f"there.h5{tail}")
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        for words in (["resume", "../there.h5"], ["run", "../there.h5", "run.steps=3", "-o", "again.h5"], ["describe", "../there.h5"]):
            self.starling(*words, cwd=elsewhere)
        self.assertFalse((self.folder / "there.h5.checkpoint").exists())
        self.assertTrue((elsewhere / "again.h5").exists())
        with h5py.File(self.folder / "there.h5", "r") as file:
            self.assertEqual(file["facts"].attrs["status"], b"complete")
            self.assertEqual(file["facts"].attrs["scenario_name"], b"sub/s.ini")
            self.assertTrue(os.path.samefile(file["machine"].attrs["folder"].decode(), self.folder))
        # Where the scenario has been taken along, that is the one that counts.
        (self.folder / "sub").rename(elsewhere / "sub")
        self.starling("describe", "../there.h5", cwd=elsewhere)

    def test_a_log_has_lines_of_progress(self):
        run = Killed(self, "beating", CASES["dpsgd"], 100_000, "never")
        process = self.start(*(word for word in run.words("run") if word != "--quiet"), stdout=subprocess.DEVNULL,
                             environment={"STARLING_HEARTBEAT": "1"})
        line = process.stderr.readline()
        process.kill()
        process.communicate()
        self.assertRegex(line, r"^ *\d+ %, virtual time [\d.e+-]+ s, \d+ of 1600000 steps, [\d.e+-]+ samples/s, \d+ MiB, .*(left|starting)\n$")


if __name__ == "__main__":
    main("program", "--mpirun")
