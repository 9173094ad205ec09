#!/usr/bin/python3
"""The tables of scenarios/papers/README.md are what runs: those that take little are run again and compared, line by line.

usage: test_gallery.py STARLING
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Some 60 s of one core together; the others take minutes.
CHEAP = ["wagma_accuracy", "wagma_accuracy_no_delay", "wagma_fig6", "wagma_fig8", "wagma_fig9", "wagma_ablations",
         "zou_counterexample", "swarm_convergence", "swarm_scaling", "eager_ucf101", "eager_imagenet"]


def written(name):
    """The lines of a table in the README."""
    text = (ROOT / "scenarios" / "papers" / "README.md").read_text(encoding="utf-8")
    return text.split(f"<!-- {name} -->\n")[1].split(f"<!-- end of {name} -->")[0].splitlines()


class GalleryTest(unittest.TestCase):
    def test_tables_of_the_readme_are_what_runs(self):
        with tempfile.TemporaryDirectory(prefix="starling-gallery-") as folder:
            for name in CHEAP:
                with self.subTest(name):
                    command = [sys.executable, ROOT / "tools" / "reproduce", name, "--program", PROGRAM, "--pictures", folder]
                    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stdout.splitlines()[3:], written(name))

    def test_curves_of_accuracies_are_drawn(self):
        with tempfile.TemporaryDirectory(prefix="starling-gallery-") as folder:
            picture = pathlib.Path(folder) / "accuracy.png"
            command = [sys.executable, ROOT / "tools" / "accuracy_order", "--program", PROGRAM, "--seeds", "2", "--picture", picture,
                       "run.steps=20"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(" of 55 pairs stand as published", done.stdout)
            self.assertGreater(picture.stat().st_size, 10_000)


if __name__ == "__main__":
    PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
