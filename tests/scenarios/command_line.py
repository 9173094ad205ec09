"""What tests of the command line share: a folder with scenarios and broken files, and what is expected of a command."""

import gzip
import struct

import h5py
from program_case import ProgramCase
from small_scenarios import SCENARIO

GOOD = "# eight nodes on a ring\n" + SCENARIO
OF_MLP = "mlp\ndataset = digits\nhidden = 8"
FLUID = ["network.kind=fluid", "network.bandwidth=1 GB/s"]


class CommandLineCase(ProgramCase):
    """The folder has the scenarios and broken files that the cases need."""
    limit = 120

    def setUp(self):
        super().setUp()
        self.write("good.ini", GOOD)
        self.write("arcs.dot", "digraph { 0 -> 1; 1 -> 2; 2 -> 3; 3 -> 0; 0 -> 2; }")
        self.write("away.csv", "time, link, factor\n0 s, host 3 *, 0.5\n")
        self.write("apart.dot", "graph G { " + "; ".join(f"{i}" for i in range(8)) + "; 0 -- 1; }")
        with h5py.File(self.folder / "lzf.h5", "w") as data:  # a filter that h5py has and the library has not
            data.create_dataset("x", data=[[0.5] * 64] * 100, compression="lzf")
            data["y"] = [0, 1] * 50
        cut = self.folder / "cut"
        cut.mkdir()
        with gzip.open(cut / "train-images-idx3-ubyte.gz", "wb") as images:
            images.write(struct.pack(">IIII", 0x803, 10, 8, 8) + bytes(10 * 64 - 7))  # seven bytes short
        for name, magic, count in (("train-labels-idx1", 0x801, 10), ("t10k-labels-idx1", 0x801, 2)):
            (cut / f"{name}-ubyte").write_bytes(struct.pack(">II", magic, count) + bytes(count))
        (cut / "t10k-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, 2, 8, 8) + bytes(2 * 64))

    def expect(self, *words, status=0, sentence="", **more):
        """A command ends so, with these words on standard error; in one sentence, if it fails."""
        done = self.starling(*words, status=status, **more)
        self.assertIn(sentence, done.stderr)
        if status != 0:
            said = [line for line in done.stderr.splitlines() if line.startswith("starling: ")]
            self.assertEqual(len(said), 1, f"expected one sentence, got: {done.stderr}")
        return done

    def status_in(self, name):
        """What a results file says of its run."""
        with h5py.File(self.folder / name, "r") as results:
            return results["facts"].attrs["status"].decode()
