#!/usr/bin/python3
"""tools/gpu_check with programs that only pretend: its order, its limits of time, and what it leaves when it is ended."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HANGS = 'sleep 600 & echo $! > "$LOG.child"; wait'


def is_alive(pid):
    """A zombie, which a container without an init process may keep, is dead."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="starling-gpu-check-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.log, self.table = self.root / "log", self.root / "table.md"
        (self.root / "tools").mkdir()
        shutil.copy2(ROOT / "tools/gpu_check", self.root / "tools")
        (self.root / "kernels/cuda").mkdir(parents=True)
        (self.root / "kernels/cuda/interface_version.py").write_text("")
        for name in ("build/tools/starling", "build/tests/starling_emulated.so", "build/kernels/cuda/starling_cuda.so"):
            self.program(name, "exit 1")
        self.program("bin/nvidia-smi", "echo 'Pretended GPU, 1.0, 1 MiB, 9.0'")
        self.program("bin/nvcc", 'while [ "$1" != -o ]; do [ $# = 0 ] && exit; shift; done; echo built > "$2"')
        self.program("bin/compute-sanitizer", 'echo "$2" >> "$LOG"; echo "========= ERROR SUMMARY: 0 errors"')
        for name in ("test_kernels", "test_scenarios"):
            self.program("build/tests/" + name, f'echo "{name} $(basename $STARLING_CUDA_PLUGIN)" >> "$LOG"')
        self.bench('printf "verb\\t2e9\\tB/s\\n"')
        (self.root / "tools/bench").mkdir()
        (self.root / "tools/bench/compare_gpu.py").write_text('print("limit copy\\t4e9\\tB/s")\n')

    def program(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n" + text + "\n")
        path.chmod(0o755)

    def bench(self, text):
        self.program("build/tests/benchmarks/bench_cuda", 'echo bench >> "$LOG"\n' + text)

    def start(self, *words, **variables):
        environment = dict(os.environ, PATH=f"{self.root / 'bin'}:{os.environ['PATH']}", LOG=str(self.log), **variables)
        return subprocess.Popen([sys.executable, self.root / "tools/gpu_check", "--output", self.table, *words],
                                env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run_check(self, *words, **variables):
        with self.start(*words, **variables) as process:
            return process.communicate(timeout=120)[0], process.returncode

    def assert_child_is_dead(self):
        pid = int(pathlib.Path(f"{self.log}.child").read_text())
        end = time.monotonic() + 10
        while is_alive(pid) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertFalse(is_alive(pid))

    def test_measures_before_what_takes_long(self):
        text, status = self.run_check()
        self.assertEqual(status, 0, text)
        self.assertEqual(self.log.read_text().splitlines(),
                         ["test_kernels starling_cuda.so", "test_scenarios starling_cuda.so", "bench",
                          "test_kernels starling_emulated.so", "test_scenarios starling_emulated.so",
                          "memcheck", "racecheck", "initcheck", "synccheck"])
        self.assertEqual((self.root / "build/kernels/cuda/starling_cuda.so").read_text(), "built\n")
        table = self.table.read_text()
        self.assertIn("Pretended GPU", table)
        self.assertIn("| verb | 2 G | B/s | 50 % |", table)

    def test_initcheck_leaves_out_networks_whose_tasks_lack_rows(self):
        self.program("bin/compute-sanitizer", 'echo "$@" >> "$LOG"; echo "========= ERROR SUMMARY: 0 errors"')
        text, status = self.run_check("--steps", "sanitize")
        self.assertEqual(status, 0, text)
        excluded = [line.partition(" --test-case-exclude=")[2] for line in self.log.read_text().splitlines()]
        self.assertEqual([bool(words) for words in excluded], [False, False, True, False])
        names = "".join(path.read_text() for path in (ROOT / "tests/kernels").glob("test_cuda_*.cpp"))
        for pattern in excluded[2].split(","):
            self.assertRegex(names, r'TEST_CASE\("cuda: [^"]*' + pattern.strip("*"))

    def test_a_sanitizer_that_cannot_attach_is_not_done_and_says_why(self):
        self.program("bin/compute-sanitizer", "echo '========= Error: No attachable process found.'; echo '[doctest] all well'")
        text, status = self.run_check("--steps", "sanitize")
        self.assertEqual(status, 0, text)
        self.assertIn("| compute-sanitizer synccheck | not done | ========= Error: No attachable process found. |",
                      self.table.read_text())

    def test_what_a_sanitizer_finds_is_a_failure(self):
        self.program("bin/compute-sanitizer", "echo '========= Error: Race reported'; echo '========= ERROR SUMMARY: 1 error'; exit 9")
        text, status = self.run_check("--steps", "sanitize")
        self.assertEqual(status, 1, text)
        self.assertIn("| compute-sanitizer racecheck | FAILED | ========= Error: Race reported |", self.table.read_text())

    def test_figures_stand_beside_their_goals(self):
        self.bench('printf "steps A 784-128-64-10, batch 32 strict\\t2.1e6\\tnode-steps/s\\n"\n'
                   'printf "steps C 784-1024-1024-10, batch 64 fast\\t2e5\\tnode-steps/s\\n"')
        text, status = self.run_check("--steps", "measure")
        self.assertEqual(status, 0, text)
        self.assertIn("| A 784-128-64-10, batch 32 | **2.1 M** | 2.2 M | - | - |", self.table.read_text())
        self.assertIn("| C 784-1024-1024-10, batch 64 | - | 60 k | 200 k | 100 k |", self.table.read_text())

    def test_only_the_steps_that_are_named(self):
        text, status = self.run_check("--steps", "measure")
        self.assertEqual(status, 0, text)
        self.assertEqual(self.log.read_text(), "bench\n")

    def test_finds_the_driver_where_the_machine_says_and_cublas_beside_nvcc_or_among_pytorchs_packages(self):
        (self.root / "lib").mkdir()  # as in a packed folder
        for folder in ("lib64", "packages/nvidia/cu13/lib"):
            (self.root / folder).mkdir(parents=True)
            (self.root / folder / "libcublas.so.13").touch()
        self.bench('echo "$LD_LIBRARY_PATH" >> "$LOG"')
        text, status = self.run_check("--steps", "measure", LD_LIBRARY_PATH="/the/driver", PYTHONPATH=str(self.root / "packages"))
        self.assertEqual(status, 0, text)
        root = self.root.resolve()
        self.assertEqual(self.log.read_text().splitlines()[-1],
                         f"{root}/lib:/the/driver:{root}/lib64:{self.root}/packages/nvidia/cu13/lib")

    def test_the_table_says_why_a_test_failed(self):
        self.program("build/tests/test_kernels", "echo 'a.cpp:1: ERROR: no driver'; echo 'b.cpp:2: ERROR: no more'; echo counts; exit 1")
        text, status = self.run_check("--steps", "test")
        self.assertEqual(status, 1, text)
        self.assertIn("FAILED | a.cpp:1: ERROR: no driver |", self.table.read_text())

    def test_the_table_says_why_the_plugin_does_not_build(self):
        self.program("bin/nvcc", "echo 'plugin.cu:1: fatal error: no such file'; echo 'compilation terminated.'; exit 1")
        text, status = self.run_check("--steps", "build")
        self.assertEqual(status, 1, text)
        self.assertIn("FAILED | plugin.cu:1: fatal error: no such file |", self.table.read_text())
        (self.root / "bin/nvcc").write_text("#!/nowhere\n")
        text, status = self.run_check("--steps", "build")
        self.assertRegex(self.table.read_text(), r"FAILED \| .*No such file.* \(what follows is of the plug-in that was there\) \|")

    def test_says_what_to_do_where_the_program_cannot_be_built(self):
        (self.root / "build/tools/starling").unlink()
        self.program("bin/meson", "exit 0")
        self.program("bin/ninja", "echo no boost here; exit 1")
        text, status = self.run_check()
        self.assertEqual(status, 1, text)
        self.assertIn("pack FOLDER", text)
        self.assertNotIn("Traceback", text)

    def test_a_program_that_hangs_is_ended_with_what_it_started_and_the_rest_goes_on(self):
        self.bench('printf "verb\\t2e9\\tB/s\\n"\n' + HANGS)
        text, status = self.run_check("--minutes", "0.1", "--steps", "measure", "sanitize")
        self.assertEqual(status, 1, text)
        self.assertIn("its time limit", text)
        self.assert_child_is_dead()
        table = self.table.read_text()
        self.assertIn("| measuring this program | FAILED |", table)
        self.assertIn("| verb | 2 G | B/s | 50 % |", table)
        self.assertIn("| compute-sanitizer memcheck | passed |", table)

    def test_without_pytorch_comparisons_say_so_in_a_sentence(self):
        (self.root / "torch.py").write_text("raise ImportError(name='torch')\n")
        for name in ("compare_gpu", "compare_cnn", "compare_mlp", "compare_networks"):
            done = subprocess.run([sys.executable, ROOT / f"tools/bench/{name}.py"], env=dict(os.environ, PYTHONPATH=self.root),
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertRegex(done.stdout.splitlines()[-1], rf"^{name}: needs PyTorch.*, found no (torch|numpy|h5py)$")
            self.assertNotIn("Traceback", done.stdout)

    def test_a_figure_that_pytorch_cannot_give_costs_no_other(self):
        (self.root / "torch.py").write_text(
            'import sys\n'
            'class Anything:\n'
            '    __version__ = "0"\n'
            '    def __getattr__(self, name): return self\n'
            '    def __call__(self, *words, **named):\n'
            '        if words[:1] == (16384,) and "generator" in named and len(words) == 3: raise RuntimeError("no memory")\n'
            '        return self\n'
            '    def __iter__(self): return iter([])\n'
            '    def __len__(self): return 1\n'
            '    def __exit__(self, *_): pass\n'
            'for name in "enter getitem gt itruediv matmul".split():\n'
            '    setattr(Anything, f"__{name}__", lambda self, *_: self)\n'
            'sys.modules["torch"] = Anything()\n')
        done = subprocess.run([sys.executable, ROOT / "tools/bench/compare_gpu.py", "--seconds", "0"], text=True, check=False,
                              env=dict(os.environ, PYTHONPATH=self.root), capture_output=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        figures = [line.split("\t")[0] for line in done.stdout.splitlines() if "bmm" in line or "vmap" in line]
        self.assertEqual({name.split()[3] for name in figures}, {"A", "C"})
        self.assertEqual(len(figures), 8)
        self.assertIn("compare_gpu: torch bmm float32 B 64-32-10, batch 16: no memory\n", done.stderr)

    def test_the_cases_have_the_same_names_wherever_they_are_measured(self):
        names = [re.findall(r'"([A-Z] [\d-]+, batch \d+)"', (ROOT / name).read_text())
                 for name in ("tools/gpu_check", "tools/bench/compare_gpu.py", "tests/benchmarks/bench_cuda.cpp")]
        self.assertEqual(len(names[0]), 3)
        self.assertEqual(names, 3 * names[:1])

    def test_without_time_nothing_begins(self):
        text, status = self.run_check("--minutes", "0", "--steps", "test")
        self.assertEqual(status, 1, text)
        self.assertFalse(self.log.exists())
        self.assertIn("| test_kernels on the GPU: the CPU's bits | FAILED | no time left |", self.table.read_text())

    def test_a_file_of_others_is_not_replaced_by_the_table(self):
        self.table.write_text("years of work")
        text, status = self.run_check("--minutes", "0", "--steps", "test")
        self.assertEqual((status, self.table.read_text()), (2, "years of work"))
        self.assertIn(f"{self.table}: is there already and no such table", text)
        self.table.write_text("")
        for _ in range(2):
            self.assertEqual(self.run_check("--minutes", "0", "--steps", "test")[1], 1)
        self.assertIn("no time left", self.table.read_text())

    def test_a_packed_program_runs_without_openmp_and_without_mpi(self):
        """Neither is on every machine with a driver, and MPI's own libraries may want a newer C library than is there."""
        def compiled(to, text, *words):
            subprocess.run(["cc", "-x", "c", "-", "-o", self.root / to, "-L", self.root, *words], input=text, text=True, check=True)
        library = lambda name: ["-shared", "-fPIC", f"-Wl,-soname,{name}"]
        compiled("libdeep.so", "int deep(void) { return 1; }", *library("libdeep.so"))
        compiled("libmpi.so", "int deep(void); int world[4] = {1}; int MPI_Init(void) { return deep() + world[0]; }",
                 *library("libmpi.so"), "-ldeep")
        program = self.root / "build/tools/starling"
        compiled(program, "#include <omp.h>\n#include <stdio.h>\nextern int world[4]; int MPI_Init(void);\n"
                          "int main(int n, char** words) { puts(words[0]); return n == 2 ? MPI_Init() : omp_get_max_threads() < 1 || world[0]; }",
                 "-fopenmp", "-lmpi", f"-Wl,-rpath-link,{self.root}")
        for name in ("tests/test_kernels", "tests/test_scenarios", "tests/benchmarks/bench_cuda", "tests/starling_emulated.so",
                     "kernels/cuda/starling_cuda.so"):
            shutil.copy2(program, self.root / "build" / name)
        self.program("bin/ninja", 'echo "$@" >> "$LOG"')
        folder = self.root / "packed"
        subprocess.run([sys.executable, self.root / "tools/gpu_check", "pack", folder], check=True, capture_output=True,
                       env=dict(os.environ, PATH=f"{self.root / 'bin'}:{os.environ['PATH']}", LOG=str(self.log),
                                LD_LIBRARY_PATH=str(self.root)))
        self.assertIn(" tests/test_scenarios tests/benchmarks/bench_cuda ", self.log.read_text())  # not what is older than sources
        self.assertEqual(sorted(path.name for path in (folder / "lib").iterdir()), ["libgomp.so.1", "libmpi.so"])
        subprocess.run([folder / "starling"], check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run([folder / "starling", "mpi"], check=False, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, "libmpi.so was left out of this folder\n"))

    def test_ended_early_it_leaves_what_it_found(self):
        self.bench('printf "verb\\t2e9\\tB/s\\n"\n' + HANGS)
        with self.start("--steps", "test", "measure") as process:
            while not pathlib.Path(f"{self.log}.child").exists():
                self.assertIsNone(process.poll())
                time.sleep(0.05)
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1)
        self.assert_child_is_dead()
        table = self.table.read_text()
        self.assertIn("| test_kernels on the GPU: the CPU's bits | passed |", table)
        self.assertIn("| verb | 2 G | B/s |", table)


if __name__ == "__main__":
    unittest.main()
