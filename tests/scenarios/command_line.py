"""What tests of the command line share: a folder with scenarios and broken files, and what is expected of a command."""

import gzip
import os
import struct
import subprocess
import sys
import tempfile

import h5py
from runs import mpi_environment

GOOD = """# eight nodes on a ring
[run]
nodes = 8
steps = 20
[topology]
kind = ring
[network]
kind = constant
latency = 20 us
[compute]
gradient = 1 ms
[workload]
kind = mlp
dataset = digits
hidden = 8
[algorithm]
kind = dpsgd
learning_rate = 0.05
"""
OF_MLP = "mlp\ndataset = digits\nhidden = 8"
FLUID = ["network.kind=fluid", "network.bandwidth=1 GB/s"]


class Folder:
    """A temporary folder with the scenarios and broken files the cases need."""

    def __init__(self, starling, path):
        self.starling, self.path = os.path.abspath(starling), path
        self.write("good.ini", GOOD)
        self.write("arcs.dot", "digraph { 0 -> 1; 1 -> 2; 2 -> 3; 3 -> 0; 0 -> 2; }")
        self.write("away.csv", "time, link, factor\n0 s, host 3 *, 0.5\n")
        self.write("apart.dot", "graph G { " + "; ".join(f"{i}" for i in range(8)) + "; 0 -- 1; }")
        with h5py.File(self.file("lzf.h5"), "w") as data:  # a filter that h5py has and the library has not
            data.create_dataset("x", data=[[0.5] * 64] * 100, compression="lzf")
            data["y"] = [0, 1] * 50
        os.mkdir(self.file("cut"))
        with gzip.open(self.file("cut/train-images-idx3-ubyte.gz"), "wb") as images:
            images.write(struct.pack(">IIII", 0x803, 10, 8, 8) + bytes(10 * 64 - 7))  # seven bytes short
        for name, magic, count in (("train-labels-idx1", 0x801, 10), ("t10k-labels-idx1", 0x801, 2)):
            with open(self.file(f"cut/{name}-ubyte"), "wb") as labels:
                labels.write(struct.pack(">II", magic, count) + bytes(count))
        with open(self.file("cut/t10k-images-idx3-ubyte"), "wb") as images:
            images.write(struct.pack(">IIII", 0x803, 2, 8, 8) + bytes(2 * 64))

    def file(self, name):
        return os.path.join(self.path, name)

    def write(self, name, text):
        with open(self.file(name), "w", encoding="utf-8") as file:
            file.write(text)

    def run(self, *words, prefix=(), prepare=None):
        return subprocess.run([*prefix, self.starling, *words], cwd=self.path, text=True, timeout=120, preexec_fn=prepare,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


def status_of(results):
    status = results["facts"].attrs["status"]
    return status.decode() if isinstance(status, bytes) else status


def expect(done, status, sentence=""):
    assert done.returncode == status, f"exit status {done.returncode}, expected {status}: {done.stdout}{done.stderr}"
    assert sentence in done.stderr, f"expected '{sentence}' in: {done.stderr}"
    if status != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("starling: ")]
        assert len(lines) == 1, f"expected one sentence, got: {done.stderr}"


def run_cases(starling, cases):
    """Calls each with a folder that all share, prints how many passed, and ends the script. A case answers "skipped" where it could not run."""
    os.environ.update(mpi_environment())
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    with tempfile.TemporaryDirectory(prefix="starling_command_line") as path:
        folder = Folder(starling, path)
        for case in cases:
            try:
                counts[case(folder) or "passed"] += 1
            except (AssertionError, subprocess.TimeoutExpired, OSError, KeyError) as error:
                counts["failed"] += 1
                print(f"FAILED {getattr(case, '__name__', 'case')}: {error}")
    print(", ".join(f"{counts[key]} {key}" for key in ("passed", "failed", "skipped")))
    sys.exit(1 if counts["failed"] else 0)
