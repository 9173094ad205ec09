#!/usr/bin/python3
"""kernels/cuda/interface_version.py: its number follows what the GPU plug-in is made of, and nothing else."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class InterfaceVersionTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="starling-interface-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copytree(ROOT / "kernels", self.root / "kernels")

    def write(self):
        """The header, and what it depends on."""
        header, dependencies = self.root / "version.hpp", self.root / "version.d"
        subprocess.run([sys.executable, self.root / "kernels/cuda/interface_version.py", header, dependencies], check=True)
        target, _, sources = dependencies.read_text().partition(": ")
        self.assertEqual(target, str(header))
        return header.read_text(), {str(pathlib.Path(name).relative_to(self.root)) for name in sources.split()}

    def append(self, name):
        with (self.root / name).open("a") as file:
            file.write("// more\n")

    def test_number_changes_with_the_sources(self):
        first, sources = self.write()
        self.assertRegex(first, r"interface_version = 0x[0-9a-f]{8};")
        self.assertEqual(self.write(), (first, sources))
        # Tables, records that kernels are given, the kernels, and the plug-in itself; also what others alone include.
        for name in ("interface", "kernels", "transform_task", "map_kernel", "lanes"):
            self.assertIn(f"kernels/cuda/{name}.hpp", sources)
        for name in ("interface.hpp", "kernels.inc", "transform_task.hpp", "plugin.cu"):
            self.append(f"kernels/cuda/{name}")
            changed, _ = self.write()
            self.assertNotEqual(changed, first, name)
            first = changed

    def test_number_stays_when_others_change(self):
        first, sources = self.write()
        for name in ("kernels/cuda/cuda_backend.cpp", "kernels/cuda/device.hpp", "kernels/mlp.cpp"):
            self.assertNotIn(name, sources)
            self.append(name)
        self.assertEqual(self.write(), (first, sources))


if __name__ == "__main__":
    unittest.main()
