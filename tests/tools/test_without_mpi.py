#!/usr/bin/python3
"""Without MPI, the sources that know of it compile, too.

    test_without_mpi.py SOURCE
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))


class WithoutMpiTest(unittest.TestCase):
    def run_in(self, folder, *words):
        done = subprocess.run(words, cwd=folder, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_compiles(self):
        know = sorted(path for path in SOURCE.glob("tools/*.cpp")
                      if "STARLING_HAVE_MPI" in path.read_text() or "on_all_ranks.hpp" in path.read_text())
        self.assertGreater(len(know), 3)
        with tempfile.TemporaryDirectory(prefix="starling-without-mpi-") as build:
            self.run_in(build, "meson", "setup", build, SOURCE, "-Dmpi=disabled", "-Dcuda=disabled", "-Doptimization=0", "--unity", "off")
            self.run_in(build, "ninja", *(f"tools/starling.p/{path.name}.o" for path in know))


if __name__ == "__main__":
    unittest.main()
