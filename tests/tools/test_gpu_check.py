#!/usr/bin/python3
"""`tools/gpu_check` where there is no GPU: its clock, and that what was found is in the table whatever comes after."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import time
import unittest

PATH = pathlib.Path(__file__).resolve().parents[2] / "tools" / "gpu_check"
sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("gpu_check", str(PATH))
gpu_check = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", LOADER))
LOADER.exec_module(gpu_check)


class GpuCheckTest(unittest.TestCase):
    def test_a_command_past_its_time_ends_with_all_that_it_started(self):
        begin = time.monotonic()
        text, succeeded = gpu_check.output_of("sh", "-c", "echo begun; sleep 600 & sleep 600", limit=1)
        self.assertEqual((text, succeeded), ("begun\n\nended after 1 s", False))
        self.assertLess(time.monotonic() - begin, 60)  # who was left would hold the pipe open

    def test_what_a_command_says_and_whether_it_succeeds(self):
        self.assertEqual(gpu_check.output_of("sh", "-c", "echo said; echo and >&2"), ("said\nand\n", True))
        self.assertEqual(gpu_check.output_of("sh", "-c", "exit 3"), ("", False))
        self.assertFalse(gpu_check.output_of("/nowhere/at-all")[1])

    def test_the_table_is_there_after_every_step(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "docs" / "measured.md"
            report = gpu_check.Report(path, until=time.monotonic())
            report.measure("steps B 64-32-10, batch 16 strict\t5e6\t1/s\nlimit copy\t2e12\tB/s\nnoise\n")
            report.check("measured", "all\nis | well\n\n", True)
            first = path.read_text()
            self.assertIn("| measured | passed | is / well |", first)
            self.assertIn("| B 64-32-10, batch 16 | 5 M | - | 6 % |", first)  # 5e6 steps of 23 kB against 2 TB/s
            self.assertFalse(report.failed)
            gpu_check.run_tests(report, gpu_check.PLUGIN, "on the GPU")  # the time is up
            self.assertTrue(report.failed)
            self.assertIn("| test_kernels on the GPU: the CPU's bits | FAILED | not begun: the time is up |", path.read_text())


if __name__ == "__main__":
    unittest.main()
