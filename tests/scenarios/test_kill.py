#!/usr/bin/python3
"""Runs that are killed at random moments (SIGKILL, so that nobody can tidy up) and resumed each time leave the results of
an undisturbed run: every series, every total and every model, to the bit. Also SIGTERM, and the heartbeat of a log.

usage: test_kill.py STARLING [--mpirun MPIRUN] [CASE ...]

With mpirun the run is shared by 2 processes, after the first kill by 3, then by one, and so on. Killed is one of them, or
all.

STARLING_KILLS=20 and STARLING_KILL_SECONDS=120 make it the long version: so many kills per scenario, in runs of so many
seconds. STARLING_KILL_SEED repeats the moments of another run, which printed it.
"""

import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import h5py
from runs import children, content, wait_until_at_work

KILLS = int(os.environ.get("STARLING_KILLS", "5"))
SECONDS = float(os.environ.get("STARLING_KILL_SECONDS", "3"))
MPIRUN = None

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

    def __init__(self, starling, folder, name, overrides, steps, checkpoint):
        self.starling, self.overrides = starling, overrides
        self.processes = 2 if MPIRUN else 1
        self.scenario = os.path.join(folder, name + ".ini")
        self.results = os.path.join(folder, name + ".h5")
        with open(self.scenario, "w") as file:
            text = SCENARIO.format(steps=steps, checkpoint=checkpoint)
            if any(word.startswith("failures.") for word in overrides):
                text += "[failures]\n"
            file.write(text)

    def words(self, command):
        launcher = [MPIRUN, "--oversubscribe", "-n", str(self.processes)] if self.processes > 1 else []
        words = [*launcher, self.starling, command, "--quiet"]
        if command == "resume":
            return words + [self.results]
        return words + [self.scenario, "-o", self.results] + self.overrides

    def run(self):
        """Undisturbed; how many seconds that took."""
        began = time.monotonic()
        subprocess.run(self.words("run"), check=True)
        return time.monotonic() - began

    def has_checkpoint(self):
        return any(os.path.exists(self.results + end) for end in (".checkpoint", ".checkpoint.previous"))

    def wait_for_checkpoint(self, process):
        """Until there is one, or the process has ended."""
        while process.poll() is None and not self.has_checkpoint():
            time.sleep(0.01)

    def start(self):
        """Goes on where it is, or begins."""
        return subprocess.Popen(self.words("resume" if self.has_checkpoint() else "run"), stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE)

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
            assert not children(process.pid), "processes live on beside one that was killed"
            process.kill()
            process.communicate()
        if MPIRUN:
            self.processes = chance.choice([1, 2, 3])


def check_kills(starling, folder, name, overrides, chance):
    # How many steps fill the wanted time is measured once.
    probe = Killed(starling, folder, name + "_probe", overrides, 2000, "never")
    steps = int(2000 * SECONDS / probe.run()) // 50 * 50 + 50

    interval = f"{SECONDS * 1000 / 60:.0f} ms"
    whole = Killed(starling, folder, name + "_whole", overrides, steps, interval)
    duration = whole.run()
    assert not whole.has_checkpoint(), "a complete run leaves no checkpoint"

    run = Killed(starling, folder, name, overrides, steps, interval)
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
        complaint = process.stderr.read().decode()
        assert process.returncode == 0, complaint
        break
    names = ("scenario", "facts@scenario_name")  # they say where the results are
    expected, found = content(whole.results, names), content(run.results, names)
    assert expected.keys() == found.keys(), expected.keys() ^ found.keys()
    different = [key for key in expected if expected[key] != found[key]]
    assert not different, different
    assert "models" in found and "steps/train_loss" in found
    print(f"{name}: {steps} steps, killed {kills} times, resumed {resumed} times: the same {len(found)} items")
    return resumed


def check_sigterm(starling, folder):
    run = Killed(starling, folder, "asked", CASES["adpsgd"], 100_000, "1 h")
    process = run.start()
    if MPIRUN:
        wait_until_at_work(process.pid, run.processes, 1)
    else:
        wait_until_at_work(os.getpid(), 1, 1)
    # One process tells the others, whichever it is.
    os.kill(children(process.pid)[-1] if MPIRUN else process.pid, signal.SIGTERM)
    sentence = process.communicate()[1].decode()
    assert process.returncode == 128 + signal.SIGTERM, process.returncode
    for words in "results so far are kept", f"starling resume {run.results} goes on":
        assert sentence.count(words) == 1, sentence
    assert run.has_checkpoint() and not os.path.exists(run.results + ".checkpoint.previous")
    with h5py.File(run.results, "r") as file:
        assert file["facts"].attrs["status"] == b"interrupted by signal 15", file["facts"].attrs["status"]
    print("SIGTERM: status 143, a checkpoint and readable results")

    # No other run takes its checkpoint away, and results that one has left there meanwhile are not replaced.
    os.rename(run.results, "aside.h5")
    later = ["algorithm.learning_rate=1e30", "run.steps=100"]
    words = [starling, "run", "--quiet", run.scenario, "-o", run.results, *run.overrides, *later, "run.checkpoint=never"]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and f"{run.results}: another run has left a checkpoint" in done.stderr, done
    assert run.has_checkpoint() and not os.path.exists(run.results)
    os.rename(run.results + ".checkpoint", "aside.checkpoint")
    assert subprocess.run(words, stderr=subprocess.DEVNULL).returncode == 1, "it must diverge"
    os.rename("aside.checkpoint", run.results + ".checkpoint")
    sentence = run.start().communicate()[1].decode()
    assert sentence.count("holds later results, of another scenario than") == 1, sentence
    with h5py.File(run.results, "r") as file:
        assert "diverged" in str(file["facts"].attrs["status"])
    os.replace("aside.h5", run.results)

    # A second one while the first is still being replayed changes nothing; nor does a damaged newest file.
    with open(run.results + ".checkpoint", "r+b") as file:
        file.truncate(1000)
    before = os.stat(run.results).st_mtime_ns
    process = run.start()
    sentence = process.communicate()[1].decode()
    assert process.returncode == 1 and "damaged or cut short" in sentence, sentence
    assert os.stat(run.results).st_mtime_ns == before
    print("a damaged checkpoint without an older one: status 1,", sentence.strip())


def check_other_folder(starling, folder):
    """A scenario with a relative path, run by a relative name, is resumed, and run again from its results, wherever one is."""
    os.mkdir("sub")
    with open("sub/s.ini", "w") as file:
        file.write(SCENARIO.format(steps=30_000, checkpoint="1 h").replace("kind = ring", "kind = file\npath = pairs.dot"))
    with open("sub/pairs.dot", "w") as file:
        file.write("graph { " + " ".join(f"{i} -- {(i + 1) % 16};" for i in range(16)) + " }\n")
    words = ["sub/s.ini", "--quiet", *CASES["dpsgd"]]
    process = subprocess.Popen([starling, "run", *words, "-o", "o'er there.h5"], stderr=subprocess.PIPE, text=True)
    wait_until_at_work(os.getpid(), 1, 0.3)
    process.terminate()
    told = process.communicate()[1]
    assert process.returncode == 128 + signal.SIGTERM, process.returncode
    # What is told can be copied into a shell, whatever the name.
    assert any(shlex.split(line)[:3] == ["starling", "resume", "o'er there.h5"] for line in told.splitlines()
               if line.startswith("starling resume")), told
    assert os.path.exists("o'er there.h5.checkpoint")
    for tail in "", ".checkpoint":
        os.rename("o'er there.h5" + tail, "there.h5" + tail)
    os.mkdir("elsewhere")
    for words in (["resume", "../there.h5"], ["run", "../there.h5", "run.steps=3", "-o", "again.h5"], ["describe", "../there.h5"]):
        subprocess.run([starling, *words], cwd="elsewhere", stdout=subprocess.DEVNULL, check=True)
    assert not os.path.exists("there.h5.checkpoint") and os.path.exists("elsewhere/again.h5")
    with h5py.File("there.h5", "r") as file:
        assert file["facts"].attrs["status"] == b"complete"
        assert file["facts"].attrs["scenario_name"] == b"sub/s.ini"
        assert os.path.samefile(file["machine"].attrs["folder"].decode(), folder)
    # Where the scenario has been taken along, that is the one that counts.
    os.mkdir("elsewhere/sub")
    os.rename("sub/s.ini", "elsewhere/sub/s.ini")
    os.rename("sub/pairs.dot", "elsewhere/sub/pairs.dot")
    subprocess.run([starling, "describe", "../there.h5"], cwd="elsewhere", stdout=subprocess.DEVNULL, check=True)
    print("resumed and repeated from another folder")


def check_heartbeat(starling, folder):
    run = Killed(starling, folder, "beating", CASES["dpsgd"], 100_000, "never")
    words = [word for word in run.words("run") if word != "--quiet"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               env=dict(os.environ, STARLING_HEARTBEAT="1"))
    line = process.stderr.readline().decode()
    process.kill()
    process.communicate()
    pattern = r" *\d+ %, virtual time [\d.e+-]+ s, \d+ of 1600000 steps, [\d.e+-]+ samples/s, \d+ MiB, .*(left|starting)\n"
    assert re.fullmatch(pattern, line), line
    print("heartbeat:", line.strip())


def main():
    global MPIRUN
    words = sys.argv[1:]
    starling = os.path.abspath(words.pop(0))
    if words[:1] == ["--mpirun"]:
        MPIRUN = words[1]
        del words[:2]
    seed = int(os.environ.get("STARLING_KILL_SEED", time.time()))
    print(f"STARLING_KILL_SEED={seed}", flush=True)
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="starling-kill-") as folder:
        os.chdir(folder)
        names = words or CASES
        resumed = sum(check_kills(starling, folder, name, CASES[name], chance) for name in names)
        assert resumed > 0, "no kill came late enough to have a checkpoint"
        check_sigterm(starling, folder)
        if not MPIRUN:
            check_other_folder(starling, folder)
            check_heartbeat(starling, folder)


if __name__ == "__main__":
    main()
