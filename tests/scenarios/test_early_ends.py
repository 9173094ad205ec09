#!/usr/bin/python3
"""Signals, full disks and memory that is used up: a run tells what ended it, and files stay readable.

usage: test_early_ends.py STARLING [MPIRUN]
"""

import os
import re
import resource
import signal
import subprocess
import sys
import time

import h5py
from command_line import GOOD, OF_MLP, expect, run_cases, status_of
from runs import obey_permissions


def check_no_file_is_lost(folder):
    """What is no results file is not replaced by one, nor a results file by its own export or page, nor anything else by an export."""
    folder.write("thesis.txt", "years of work")
    expect(folder.run("run", "good.ini", "-o", "thesis.txt"), 1, "thesis.txt: is there already and no results file")
    expect(folder.run("run", "good.ini", "-o", "good.ini"), 1, "good.ini: is there already and no results file")
    with h5py.File(folder.file("samples.h5"), "w") as data:
        data["x"] = data["y"] = range(10)
    expect(folder.run("run", "good.ini", "-o", "samples.h5"), 1, "samples.h5: is there already and no results file")
    with h5py.File(folder.file("samples.h5"), "r") as data:
        assert len(data["x"]) == 10
    for _ in range(2):
        expect(folder.run("run", "good.ini", "run.timeline=1 s", "-o", "kept.h5"), 0)
    expect(folder.run("export", "kept.h5", "--table", "steps", "-o", "kept.h5"), 2, "is the results file itself")
    for name, text in (("thesis.txt", "years of work"), ("own.csv", "step,time_seconds,test_loss\n1,0.1,2\n")):
        folder.write(name, text)
        for what in (["--trace"], ["--table", "evaluation"]):
            expect(folder.run("export", "kept.h5", *what, "-o", name), 1, f"{name}: is there already and no export")
        with open(folder.file(name)) as file:
            assert file.read() == text
    for mode, why in ((0o200, "is there already and no "), (0o400, "cannot write: Permission denied")):
        for name, *words in (["held.csv", "export", "kept.h5", "--trace"], ["held.h5", "run", "good.ini"]):
            expect(folder.run(*words, "-o", name), 0)
            os.chmod(folder.file(name), mode)
            expect(folder.run(*words, "-o", name, prepare=obey_permissions), 1, f"{name}: {why}")
            os.remove(folder.file(name))
    for table in ("steps", "evaluation", "evaluation_by_time", "nodes", "timeline", "links"):
        for what in (["--table", table], ["--table", table], ["--trace"], ["--table", table]):
            expect(folder.run("export", "kept.h5", *what, "-o", "export.csv"), 0)
    with h5py.File(folder.file("kept.h5"), "r") as results:
        assert status_of(results) == "complete"


def check_interrupt(folder, number=signal.SIGINT):
    """Ctrl-C, or a terminal that goes away, ends a run with a status that says so and leaves a results file that can be read."""
    output = folder.file("interrupted.h5")
    for _ in range(4):
        process = subprocess.Popen([folder.starling, "run", "good.ini", "run.steps=100000000", "-o", output],
                                   cwd=folder.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "STARLING_HEARTBEAT": "1"},
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
    assert re.fullmatch(r"  \d %, .*starting\n", line), line
    assert process.returncode == 128 + number, f"{process.returncode}: {errors}"
    with h5py.File(output, "r") as results:
        assert status_of(results) == f"interrupted by signal {number}"
        assert results["nodes/steps"][:].min() > 0


def check_disk_full(folder):
    """A full disk is one sentence, and the file that was there before stays."""
    mount = folder.file("small")
    os.mkdir(mount)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", mount], check=False,
                             stderr=subprocess.DEVNULL).returncode == 0
    if not mounted:
        print("SKIPPED disk full: no right to mount")
        return "skipped"
    try:
        output = os.path.join(mount, "x.h5")
        expect(folder.run("run", "good.ini", "-o", output), 0)
        expect(folder.run("run", "good.ini", "run.save_models=yes", "run.nodes=200", "-o", output), 1,
               "No space left on device")
        with h5py.File(output, "r") as results:
            assert results["nodes/steps"].shape == (8,)
    finally:
        subprocess.run(["umount", mount], check=False)
    return "passed"


def check_log_on_a_full_disk(folder):
    """What cannot be said on standard error changes neither how a run goes on nor how it ends."""
    os.mkdir(folder.file("unsaid.h5.checkpoint.partial"))  # hence a warning that there is no checkpoint
    for words, status in ((["run.steps=x"], 2), (["algorithm.learning_rate=1e30"], 1), (["run.checkpoint=5 steps"], 0)):
        with open("/dev/full", "w", encoding="ascii") as log:
            done = subprocess.run([folder.starling, "run", "good.ini", *words, "-o", "unsaid.h5"], cwd=folder.path, timeout=120,
                                  stdout=subprocess.DEVNULL, stderr=log, check=False)
        assert done.returncode == status, f"exit status {done.returncode} of {words}, expected {status}"
    with h5py.File(folder.file("unsaid.h5"), "r") as results:
        assert status_of(results) == "complete"


def check_output_on_a_full_disk(folder):
    """What is asked for on standard output and cannot be written there is one sentence, however much it is."""
    for words in (["list", "--markdown"], ["list", "--brief"], ["describe", "good.ini"], ["--version"]):
        with open("/dev/full", "w", encoding="ascii") as output:
            done = subprocess.run([folder.starling, *words], cwd=folder.path, timeout=120, stdout=output, stderr=subprocess.PIPE,
                                  text=True, check=False)
        expect(done, 1, "starling: standard output: cannot write: No space left on device\n")


def check_out_of_memory(folder):
    """Memory that is not there is one sentence with the arithmetic, and the results so far are kept."""
    limit = 1200 << 20  # bytes of address space

    def prepare():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    output = folder.file("memory.h5")
    # 1000 models of 64 * 8000 + 8000 + 8000 * 10 + 10 parameters of 4 bytes: 2.4 GB, and as much again while they mix.
    words = ("run.nodes=1000", "workload.dataset=blobs", "workload.features=64", "workload.samples=1000",
             "workload.hidden=8000", "run.steps=2", "-o", output)
    done = folder.run("run", "good.ini", *words, prepare=prepare)
    expect(done, 1, "out of memory: ")
    assert " * 4 B = " in done.stderr, done.stderr
    with h5py.File(output, "r") as results:
        assert status_of(results).startswith("failed: out of memory: "), status_of(results)
    assert not os.path.exists(output + ".partial")

    # 160 models fit twice, but not thrice, as saving them takes: what else is known is kept.
    output = folder.file("models.h5")
    words = (*words[1:-2], "run.nodes=160", "run.save_models=yes", "run.window=16 MiB", "-o", output)
    done = folder.run("run", "good.ini", *words, prefix=["env", "OMP_NUM_THREADS=1"], prepare=prepare)
    assert done.returncode == 1 and ("allocate memory" in done.stderr or "out of memory: " in done.stderr), done.stderr
    with h5py.File(output, "r") as results:
        assert status_of(results).startswith("failed: "), status_of(results)
        assert "evaluation/test_loss" in results and "models" not in results

    # No room for a thread's stack, which is as large as the main thread's may become.
    def prepare_stack():
        resource.setrlimit(resource.RLIMIT_STACK, (limit, limit))
        prepare()

    done = folder.run("run", "good.ini", prepare=prepare_stack)
    assert (done.returncode, done.stderr) == (1, "starling: cannot start a thread: Resource temporarily unavailable\n"), done.stderr


def check_lost_checkpoints(folder, mpirun=None):
    """A checkpoint for which there is no room is told once and costs the run nothing; results and exports that do not fit leave no file."""
    # 8 models of 64 * 256 + 256 + 256 * 10 + 10 parameters of 4 bytes: 615 kB; results take 35 kB.
    words = ["good.ini", "workload.hidden=256", "run.device=cpu", "run.steps=60"]
    expect(folder.run("run", *words, "-o", "whole.h5"), 0)

    def limit(size):
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    words.append("run.checkpoint=5 steps")

    def check(output, done, reason):
        expect(done, 0, f"{output}.checkpoint: cannot write: {reason}; the run goes on without a checkpoint")
        assert done.stderr.count("cannot write") == 1, done.stderr
        assert re.search("checkpoints not written +[2-9]\n", done.stdout), done.stdout
        expect(folder.run("compare", "whole.h5", output), 0)
        with h5py.File(folder.file("whole.h5")) as whole, h5py.File(folder.file(output)) as found:
            assert (found["evaluation/test_loss"][:] == whole["evaluation/test_loss"][:]).all()

    check("lost.h5", folder.run("run", *words, "-o", "lost.h5", prepare=limit(200_000)), "File too large")
    done = folder.run("run", *words, "-o", "nothing.h5", prepare=limit(4096))
    assert done.returncode == 1 and done.stderr.endswith("starling: nothing.h5: cannot write: File too large\n"), done.stderr
    done = folder.run("export", "whole.h5", "--table", "steps", "-o", "nothing.csv", prepare=limit(4096))
    assert done.returncode == 1 and done.stderr == "starling: nothing.csv: cannot write: File too large\n", (done.returncode, done.stderr)
    # Where nothing can be written at all a run does not begin: this one would take hours.
    done = folder.run("run", *words, "run.steps=1000000000", "-o", "/proc/results.h5")
    assert done.returncode == 1 and "starling: /proc/results.h5: cannot write: " in done.stderr, done.stderr
    left = [name for name in os.listdir(folder.path) if name.startswith(("lost.h5.", "nothing"))]
    assert not left, left
    if mpirun:  # of two processes one writes; the other must not wait for it
        os.mkdir(folder.file("shared.h5.checkpoint.partial"))
        check("shared.h5", folder.run("run", *words, "-o", "shared.h5", prefix=[mpirun, "--oversubscribe", "-n", "2"]),
              "Is a directory")


def check_mpi_failures(folder, mpirun):
    """Over MPI a failure on one rank ends all of them, with one sentence; so does a scenario that is wrong."""
    prefix = [mpirun, "--oversubscribe", "-n", "4"]
    folder.write("walks.ini", GOOD.replace(OF_MLP, "navigation"))
    folder.write("sizes.ini", GOOD.replace(OF_MLP, "timing"))
    for overrides, sentence in ((["algorithm.learning_rate=1e30"], "the run diverged"),
                                (["algorithm.learning_rate=-1"], "learning_rate must be positive"),
                                (["failures.stop=3 @ 5 ms"], "[failures] must not be there over MPI"),
                                (["run.checkpoint=5 steps"], "run.checkpoint must be never over MPI"),
                                (["run.until_target=test_loss 0.1"], "run.until_target must be none over MPI"),
                                (["walks.ini", "compute.per_episode=1 ms"], "[compute] per_episode must not be there over MPI"),
                                (["sizes.ini", "compute.pace=measured"], "compute.pace must be modelled over MPI where"),
                                (["run.nodes=2"], "rank")):
        scenario = [] if overrides[0].endswith(".ini") else ["good.ini"]
        done = folder.run("run", *scenario, *overrides, "--transport", "mpi", prefix=prefix)
        assert done.returncode != 0
        said = [line for line in done.stderr.splitlines() if line.startswith("starling: ")]
        assert said and sentence in said[0], done.stderr
        assert len(said) == 1, done.stderr


def main():
    starling, *mpirun = sys.argv[1:]
    cases = [check_no_file_is_lost, check_interrupt, lambda folder: check_interrupt(folder, signal.SIGHUP), check_disk_full,
             check_log_on_a_full_disk, check_output_on_a_full_disk, check_out_of_memory,
             lambda folder: check_lost_checkpoints(folder, *mpirun)]
    if mpirun:
        cases.append(lambda folder: check_mpi_failures(folder, mpirun[0]))
    run_cases(starling, cases)


if __name__ == "__main__":
    main()
