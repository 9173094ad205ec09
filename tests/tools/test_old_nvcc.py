#!/usr/bin/python3
"""Where nvcc is too old, the build leaves the GPU plug-in out, or says what it needs.

    test_old_nvcc.py SOURCE
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = sys.argv.pop(1)


class OldNvccTest(unittest.TestCase):
    def configure(self, *words):
        folder = tempfile.TemporaryDirectory(prefix="starling-old-nvcc-")
        self.addCleanup(folder.cleanup)
        nvcc, build = pathlib.Path(folder.name, "nvcc"), pathlib.Path(folder.name, "build")
        nvcc.write_text(f"""#!/bin/sh
case "$*" in *-std=c++20*) echo "nvcc fatal : Value 'c++20' is not defined for option 'std'" >&2; exit 1;; esac
exec {shutil.which("nvcc")} "$@"
""")
        nvcc.chmod(0o755)
        done = subprocess.run(["meson", "setup", build, SOURCE, *words], check=False, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=dict(os.environ, PATH=f"{folder.name}:{os.environ['PATH']}"))
        return done, build

    def test_is_left_out(self):
        done, build = self.configure()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("starling_cuda.so", (build / "build.ninja").read_text())

    def test_is_told_if_the_plugin_is_wanted(self):
        done, _ = self.configure("-Dcuda=enabled")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("needs nvcc 12 or later", done.stdout)


if __name__ == "__main__":
    unittest.main()
