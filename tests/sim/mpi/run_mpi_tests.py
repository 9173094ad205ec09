#!/usr/bin/python3
"""Starts the MPI test program on several numbers of ranks, and the cases that must end by themselves.

    run_mpi_tests.py TEST_PROGRAM [--launcher mpirun] [--repeat N] [--ranks 1,2,3,4,8]

Exit status: 0 if all went well, 1 if not, 77 (skipped) if there is no launcher.
"""

import argparse
import shlex
import shutil
import signal
import subprocess
import sys
import time

from runs import mpi_environment

LIMIT_SECONDS = 300  # far beyond what any case needs; reached only by a hang


def start(launcher, ranks, program, *arguments):
    environment = mpi_environment(OMP_NUM_THREADS="1", OMPI_MCA_mpi_yield_when_idle="1")
    command = [*launcher, "-n", str(ranks), program, *arguments]
    return subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def finish(process):
    """Exit status and output; status None if it had to be killed."""
    try:
        output, _ = process.communicate(timeout=LIMIT_SECONDS)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        process.terminate()
        output, _ = process.communicate()
        return None, output


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--launcher", default="mpirun")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--ranks", default="1,2,3,4,8")
    options = parser.parse_args()
    launcher = shlex.split(options.launcher)
    if shutil.which(launcher[0]) is None:
        print(f"skipped: no {launcher[0]} here")
        return 77

    failures = 0

    def judge(name, is_good, output):
        nonlocal failures
        print(f"{'ok  ' if is_good else 'FAIL'} {name}", flush=True)
        if not is_good:
            failures += 1
            print(output, flush=True)

    for _ in range(options.repeat):
        for ranks in options.ranks.split(","):
            status, output = finish(start(launcher, ranks, options.program))
            judge(f"all tests on {ranks} ranks", status == 0 and "SUCCESS" in output, output)

        # One rank fails outside of a run. The others, who wait for it or have ended, must not hang.
        for mode in ("fail-alone", "fail-quietly"):
            status, output = finish(start(launcher, 3, options.program, mode))
            is_good = status not in (0, None) and output.count("this rank found no data") == 1
            judge(f"{mode}: status {status}", is_good, output)

        # A failed run: the error is printed once, though all ranks have it.
        status, output = finish(start(launcher, 3, options.program, "fail-together"))
        is_good = status not in (0, None) and output.count("error: node 2") == 1
        judge(f"fail-together: status {status}", is_good, output)

        # A rank ends while results are gathered: what the others have recorded is kept, and nothing twice.
        status, output = finish(start(launcher, 4, options.program, "lose-one"))
        is_good = (
            status not in (0, None)
            and "acts 20 20 0 20, 60 segments, 3 ranks" in output
            and output.count("error: lost rank 2 of 4") == 1
        )
        judge(f"lose-one: status {status}", is_good, output)

        # A rank hangs when others have ended already: these are not taken for lost.
        status, output = finish(start(launcher, 3, options.program, "leave-early"))
        is_good = status not in (0, None) and output.count("error: lost rank 2 of 3") == 1
        judge(f"leave-early: status {status}", is_good, output)

        # Ctrl-C: all ranks end together and what was computed can be kept.
        process = start(launcher, 3, options.program, "train-until-signal")
        for line in process.stdout:
            if "training" in line:
                break
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        status, output = finish(process)
        is_good = status not in (0, None) and "interrupted, results of 3 nodes" in output
        judge(f"train-until-signal: status {status}", is_good, output)

    print("all well" if failures == 0 else f"{failures} failures")
    return 0 if failures == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
