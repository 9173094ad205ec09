"""What `meson install` leaves: it runs without the source tree, wherever it is moved to."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1))
OUTSIDE = {name: value for name, value in os.environ.items() if not name.startswith("STARLING_") and name != "PYTHONPATH"}
SCENARIOS = pathlib.Path(__file__).resolve().parents[2] / "scenarios"


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="starling-install-")
        cls.addClassCleanup(folder.cleanup)
        staged = pathlib.Path(folder.name) / "staged"
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", staged], check=True,
                       stdout=subprocess.DEVNULL)
        program, = staged.rglob("bin/starling")
        cls.prefix = pathlib.Path(folder.name) / "moved"
        program.parents[1].rename(cls.prefix)
        cls.share = cls.prefix / "share/starling"

    def starling(self, *words, **environment):
        return subprocess.run([self.prefix / "bin/starling", *words], cwd=self.prefix, text=True, capture_output=True,
                              env={**OUTSIDE, **environment})

    def test_all_folders_of_scenarios_are_there(self):
        self.assertEqual({path.name for path in (self.share / "scenarios").iterdir()},
                         {path.name for path in SCENARIOS.iterdir() if path.is_dir()})

    def test_a_scenario_runs_and_is_reported(self):
        run = self.starling("run", self.share / "scenarios/first/quickstart.ini", "run.steps=3", "-o", "q.h5")
        self.assertEqual(run.returncode, 0, run.stderr)
        report = self.starling("report", "q.h5", "-o", "q.html")
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertIn("quickstart", (self.prefix / "q.html").read_text())
        subprocess.run([self.share / "tools/plot", "q.h5", "-o", "q.png"], cwd=self.prefix, env=OUTSIDE, check=True,
                       stdout=subprocess.DEVNULL)

    def test_its_own_data_and_scripts_are_taken(self):
        for name, words in {"scenarios/data/digits.csv": ("run", self.share / "scenarios/first/quickstart.ini", "-o", "gone.h5"),
                            "tools/report": ("report", "q.h5")}.items():
            gone = self.share / name
            gone.rename(gone.with_suffix(".away"))
            self.addCleanup(gone.with_suffix(".away").rename, gone)
            run = self.starling(*words)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(str(gone), run.stderr)

    def test_the_plugin_is_found(self):
        plugins = list(self.prefix.rglob("lib*/**/starling/starling_cuda.so"))
        if not plugins:
            self.skipTest("built without nvcc")
        plugins[0].write_text("no library")
        run = self.starling("run", self.share / "scenarios/first/quickstart.ini", "run.device=cuda", "-o", "gpu.h5")
        self.assertIn("the GPU plug-in cannot be loaded", run.stderr)
        self.assertIn(plugins[0].name, run.stderr)


if __name__ == "__main__":
    unittest.main()
