#!/usr/bin/python3
"""The device that carries out PTX (kernels/cuda/ptx_blocks.cpp) sees what it is for: faults are put into the device code, one
at a time, and the tests named cuda: must end with the sentence that tells it.

    test_ptx_checks.py TEST_KERNELS PLUGIN PTX
"""
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM, PLUGIN, PTX = sys.argv.pop(1), sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
LINEAR, STEP, FORWARD = "12LinearKernelE", "6StepOfILj32EE", "9ForwardOfINS0_11WideProductILj2E"  # in mangled names
SUMS, MODELS, LARGE = "cuda: linear combinations*", "cuda: more gradients*", "cuda: a model too large*"


def changed(kernel, pattern, replacement, count=0):
    """The device code with a fault in one kernel."""
    text = PTX.read_text()
    begin = re.search(r"\.entry \S*" + kernel, text).start()
    end = text.index("\n}\n", begin)
    body, places = re.subn(pattern, replacement, text[begin:end], count=count)
    assert places, f"{kernel} has no {pattern}"
    return text[:begin] + body + text[end:]


class Faults(unittest.TestCase):
    def tell(self, text, case, sentence):
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
            file.write(text)
            file.flush()
            run = subprocess.run([PROGRAM, "--test-case=" + case], capture_output=True, text=True,
                                 env=dict(os.environ, STARLING_PTX=file.name, STARLING_CUDA_PLUGIN=PLUGIN))
        self.assertNotEqual(run.returncode, 0)
        self.assertIn(sentence, run.stdout + run.stderr)

    def test_code_as_it_is_passes(self):
        for case in (SUMS, MODELS, LARGE):
            subprocess.run([PROGRAM, "--test-case=" + case], check=True, capture_output=True,
                           env=dict(os.environ, STARLING_CUDA_PLUGIN=PLUGIN))

    def test_products_of_an_odd_number_of_rows_fetch_whole_quads(self):
        """1.9 instructions for each of a warp's multiply-adds; number by number it would be 2.8."""
        run = subprocess.run([PROGRAM, "--test-case=cuda: a transformer with an odd number*"], capture_output=True, text=True,
                             check=True, env=dict(os.environ, STARLING_PTX_COUNTS="0", STARLING_CUDA_PLUGIN=PLUGIN))
        wanted = "entry<starling::cuda::ParameterGradientOf<starling::cuda::WideProduct"
        line = next(line for line in run.stderr.splitlines() if wanted in line)
        instructions, multiply_adds = map(int, line.split()[1:3])
        self.assertLess(instructions, 2.3 * multiply_adds / 32)

    def test_wrong_arithmetic(self):
        fault = changed(STEP, r"fma\.rn\.f32\s+(\S+), (\S+), (\S+), \S+;", r"fma.rn.f32 \1, \2, \3, \3;")
        self.tell(fault, MODELS, "FAILURE")

    def test_barriers_that_are_missing(self):
        """All but the first, before which the task itself is not there."""
        barriers = itertools.count()
        self.tell(changed(STEP, r"bar\.sync\s+0;", lambda barrier: "" if next(barriers) else barrier[0]), MODELS, "in this phase")

    def test_a_thread_that_misses_a_barrier(self):
        leave = "mov.u32 %rx, %tid.x;\nsetp.eq.s32 %px, %rx, 5;\n@%px ret;\nbar.sync 0;"
        self.tell(changed(STEP, r"bar\.sync\s+0;", leave, 1), MODELS, "some threads of a block missed a barrier")

    def test_a_warp_at_two_barriers(self):
        part = ("mov.u32 %rx, %tid.x;\nsetp.eq.s32 %px, %rx, 5;\n@%px bra $X;\nbar.sync 0;\nbra.uni $Y;\n"
                "$X:\nbar.sync 0;\n$Y:\n")
        self.tell(changed(STEP, r"bar\.sync\s+0;", part, 1), MODELS, "waits at another barrier than its warp")

    def test_copies_that_nobody_awaits(self):
        self.tell(changed(FORWARD, r"cp\.async\.wait_group\s+1;", ""), LARGE, "memory that a queued copy will write is touched")

    def test_copies_that_do_not_end(self):
        self.tell(changed(FORWARD, r"(ret;)", r"cp.async.ca.shared.global [4096], [%rd1], 4;\n\1"), LARGE, "reaches beyond")

    def test_addresses_beyond_memory(self):
        self.tell(changed(STEP, r"(ld\.shared\.f32\s+\S+, \[%\w+)(\+\d+)?\]", r"\1+400000]"), MODELS,
                  "reaches beyond shared memory")
        self.tell(changed(LINEAR, r"(ld\.global\.f32\s+\S+, \[%\w+)(\+\d+)?\]", r"\1+1073741824]"), SUMS,
                  "reaches beyond device memory")

    def test_addresses_that_are_not_aligned(self):
        self.tell(changed(LINEAR, r"(ld\.(?:global\.)?v4\.f32\s+\{[^}]*\}, \[%\w+)(\+\d+)?\]", r"\1+4]"), SUMS,
                  "an address is not aligned")

    def test_blocks_that_do_the_same(self):
        self.tell(changed(LINEAR, r"(mov\.u32\s+\S+), %ctaid\.x;", r"\1, 0;"), SUMS, "what another block writes")

    def test_instructions_that_are_not_known(self):
        self.tell(changed(LINEAR, r"ret;", "brkpt;"), SUMS, "PTX that is not understood: brkpt")


if __name__ == "__main__":
    unittest.main()
