"""What tests of pictures have in common: two runs and a sweep to draw, and how to read what was drawn."""
import re
import subprocess

import h5py
import matplotlib.pyplot as plt
from program_case import ProgramCase
from python_tool import call

from pictures.style import STYLE

SCENARIO = """[run]
nodes = 4
steps = 40
evaluate_every = 10
[topology]
kind = ring
[network]
kind = fluid
latency = 1 us
bandwidth = 1 GB/s
[compute]
gradient = 1 ms
[workload]
kind = mlp
dataset = digits
hidden = 8
batch_size = 16
[algorithm]
kind = dpsgd
learning_rate = 0.05
"""


class PlotCase(ProgramCase):
    @classmethod
    def setUpClass(cls):
        cls.share_folder()
        (cls.folder / "s.ini").write_text(SCENARIO + "[reference]\nfile = r.csv\n")
        for name, settings in {"a": ["run.timeline=1 s"], "slow": ["compute.gradient=1.2 ms"]}.items():
            subprocess.run([cls.program, "run", "s.ini", "-q", "-o", f"{name}.h5", *settings], cwd=cls.folder, check=True)
        (cls.folder / "sweep.ini").write_text(SCENARIO + "[sweep]\nrun.nodes = 4, 8\nalgorithm.learning_rate = 0.05, 0.1\nrepeats = 2\n")
        subprocess.run([cls.program, "sweep", "sweep.ini", "-q", "-o", "swept"], cwd=cls.folder, check=True)

    def plot(self, *words, status=0):
        """What the tool says."""
        end, said = call("plot", words, self.folder)
        self.assertEqual(end, status, said)
        return said

    def changed(self, name, change):
        """A copy of a.h5 in which `change` has written."""
        (self.folder / name).write_bytes((self.folder / "a.h5").read_bytes())
        with h5py.File(self.folder / name, "r+") as file:
            change(file)
        return name

    def texts(self, *words):
        """What a picture says, glyph by glyph replaced by what the glyphs were drawn for."""
        self.plot(*words, "-o", "read.svg")
        return re.findall(r"<!-- (.*?) -->", (self.folder / "read.svg").read_text())

    def laid_out(self, draw):
        with plt.style.context(STYLE, after_reset=True):
            figure = draw()
            self.addCleanup(plt.close, figure)
            figure.draw_without_rendering()
        return figure
