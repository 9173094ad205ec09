#!/usr/bin/python3
"""The tables of scenarios/papers/README.md are what runs, and agree with the papers within what the project claims.

usage: test_gallery.py STARLING

Tables that take little are run again and compared, line by line, and the small runs of WAGMA-SGD's Fig. 4; the others take minutes.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

from papers import wagma
from papers.table import Bench
from program_case import ProgramCase, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHEAP = ["wagma_accuracy", "wagma_accuracy_no_delay", "wagma_fig6", "wagma_fig8", "wagma_fig9", "wagma_ablations",
         "zou_counterexample", "swarm_convergence", "swarm_scaling", "eager_fig9", "eager_ucf101", "eager_imagenet"]
# Percent, and the rows that are farther off, which scenarios/papers/README.md explains.
CLAIMS = {"wagma_fig4": (5, {("eager", "256")}),
          "wagma_fig8": (10, {("allreduce", "10")}),
          "wagma_ablations": (10, set()),
          "eager_fig9": (15, {("majority", "32768"), ("majority", "262144")}),
          "eager_ucf101": (5, set()),
          "eager_imagenet": (5, set())}


def written(name):
    """The lines of a table in the README."""
    text = (ROOT / "scenarios" / "papers" / "README.md").read_text(encoding="utf-8")
    return text.split(f"<!-- {name} -->\n")[1].split(f"<!-- end of {name} -->")[0].splitlines()


def cells(name):
    """(algorithm, at): (simulated, deviation), as they stand in a table of the README."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in written(name)[2:] if line.startswith("|")]
    return {(algorithm, at): (simulated, deviation) for algorithm, at, _, simulated, deviation in rows}


class GalleryTest(ProgramCase):
    def test_tables_of_the_readme_are_what_runs(self):
        with tempfile.TemporaryDirectory(prefix="starling-gallery-") as folder:
            command = [sys.executable, ROOT / "tools" / "reproduce", *CHEAP, "--program", self.program, "--pictures", folder]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        _, *told = re.split(rf"^\n({'|'.join(CHEAP)}): .*\n\n", done.stdout, flags=re.MULTILINE)
        self.assertEqual(told[::2], CHEAP)
        for name, table in zip(CHEAP, told[1::2]):
            with self.subTest(name):
                self.assertEqual(table.splitlines(), written(name))

    def test_small_runs_of_figure_4_are_those_of_the_readme(self):
        (table,) = [table for table in wagma.TABLES if table.name == "wagma_fig4"]
        small = {(algorithm, nodes): told for (algorithm, nodes), (told, _) in cells(table.name).items() if int(nodes) <= 16}
        self.assertGreater(len(small), 10)
        with tempfile.TemporaryDirectory(prefix="starling-gallery-") as folder:
            bench = Bench(str(self.program), folder, mnist=None)
            for (algorithm, nodes), told in small.items():
                with self.subTest(algorithm=algorithm, nodes=nodes):
                    self.assertEqual(f"{table.simulate(bench, algorithm, nodes):.4g}", told)

    def test_simulated_and_published_agree(self):
        for name, (tolerance, farther) in CLAIMS.items():
            deviations = {at: float(deviation.removesuffix(" %")) for at, (_, deviation) in cells(name).items()
                          if deviation not in ("", "given")}
            with self.subTest(name):
                self.assertGreater(len(deviations), 0)
                self.assertEqual({at for at, deviation in deviations.items() if abs(deviation) > tolerance}, farther)

    def test_curves_of_accuracies_are_drawn(self):
        with tempfile.TemporaryDirectory(prefix="starling-gallery-") as folder:
            picture = pathlib.Path(folder) / "accuracy.png"
            command = [sys.executable, ROOT / "tools" / "accuracy_order", "--program", self.program, "--seeds", "2", "--picture", picture,
                       "run.steps=20"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(" of 55 pairs stand as published", done.stdout)
            self.assertGreater(picture.stat().st_size, 10_000)


if __name__ == "__main__":
    main("program")
