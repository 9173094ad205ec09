"""README.md, CONTRIBUTING.md and docs/ tell the truth: their commands run, and the printed results are those printed.

    tests/tools/test_docs.py BUILD_FOLDER

Commands are the lines of the ```sh blocks (those that end with a backslash go on), whole ```python blocks, and the code in
tables with a column `run`. A ```slurm block is a whole job script; it runs as the only task of its job, with Slurm's
variables set here. They run in their order in one temporary copy of the tree, where `build` is BUILD_FOLDER and
tools/setup installs and builds nothing. What needs a cluster says so in its line: "# on the cluster". SKIPPED lists the
other commands that cannot run in a test, each with the reason. docs/keys.md must be what the program prints, docs/results_format.md must name all that results files hold.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import h5py
from runs import mpi_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")))
COPIED = ("docs", "scenarios", "sim", "tools", "README.md", "CONTRIBUTING.md", "DESIGN.md", "CHANGELOG.md")

SKIPPED = {  # beginning of a command: why
    "tools/test": "would run this test again",
    "STARLING_KILLS": "takes hours",
    "meson test": "would build, while other tests run",
    "meson setup": "the build folder under test is the outcome of it",
    "ninja -C build benchmarks": "would build, while other tests run",
    "tools/gpu_check": "takes a GPU, or all benchmarks built",
    "build/tests/benchmarks": "measuring takes a quiet machine and time",
    "tools/bench/compare_simgrid.py": "measuring takes SimGrid, a quiet machine and time",
    "CC=clang-16 CXX=clang++-16 meson": "takes Clang and minutes",
    "ninja -C build-threads": "takes the build folder of the line before",
    "OMP_TOOL_LIBRARIES": "takes the program built by the line before",
    "ninja -C build-fuzz": "takes the build folder of the line before",
    "build-fuzz/": "takes the program built by the line before",
    "clang-format-14": "FILE stands for a file",
    "tools/lint": "is a suite of its own",
    "tools/coverage": "builds and tests everything once more",
}

ON_THE_CLUSTER = "# on the cluster"
SLURM = {"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "6",
         "SLURM_CPUS_PER_TASK": "2"}
# The machine of a test is busy: times may be off by anything, all else is compared as the documents say.
LENIENT = {r"build/tools/starling compare \S+\.h5\b": " --time 1000"}

SETUP = """# Stands in for the real one: what it would make is there.
set -euo pipefail
root=$(pwd)
python=%s
say() { printf '%%s\\n' "$*" >&2; }
set_up() { build=$root/$1; }
build_targets() { :; }
"""


class Command:
    def __init__(self, document, line, text, language="sh"):
        self.document, self.line, self.text, self.language = document, line, text, language

    def __str__(self):
        return f"{self.document}:{self.line}: {self.text.splitlines()[0]}"


def blocks(document):
    """(language, number of the first line, lines) of every fenced block."""
    language, start, inside = None, 0, []
    for number, line in enumerate((ROOT / document).read_text().splitlines(), 1):
        fence = re.match(r"\s*```(\w*)$", line)
        if fence and language is None:
            language, start, inside = fence[1], number + 1, []
        elif fence:
            yield language, start, inside
            language = None
        elif language is not None:
            inside.append(line)


def table_commands(document):
    """Code in the column `run` of tables."""
    column = None
    for number, line in enumerate((ROOT / document).read_text().splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            column = None
        elif "run" in cells:
            column = cells.index("run")
        elif column is not None and column < len(cells):
            for code in re.findall(r"`([^`]+)`", cells[column]):
                yield Command(document, number, code)


def commands(document):
    for language, start, lines in blocks(document):
        if language in ("python", "slurm"):
            yield Command(document, start, "\n".join(lines), language)
        if language == "sh":
            text, first = "", start
            for number, line in enumerate(lines, start):
                if ON_THE_CLUSTER in line:
                    continue
                first = first if text else number
                text += re.sub(r"(^|\s)#.*", "", line).strip()
                if text.endswith("\\"):  # the command goes on
                    text += "\n"
                elif text:
                    yield Command(document, first, text)
                    text = ""
    yield from table_commands(document)


def reason_to_skip(text):
    return next((reason for start, reason in SKIPPED.items() if text.startswith(start)), None)


class DocumentsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="starling-docs-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, cls.folder / name)
            elif (ROOT / name).exists():
                shutil.copy(ROOT / name, cls.folder / name)
        (cls.folder / "build").symlink_to(BUILD)
        (cls.folder / "tools" / "setup").write_text(SETUP % sys.executable)
        cls.environment = mpi_environment(OMP_WAIT_POLICY="passive")
        cls.environment.pop("PYTHONPATH", None)  # what tests need, a reader does not have

    def execute(self, command):
        """Runs one command; what it printed. Fails, showing it, if its exit status is not 0."""
        text = command.text
        for start, more in LENIENT.items():
            text = re.sub(f"^({start}.*?)( --time [0-9.]+)?$", rf"\1{more}", text, flags=re.MULTILINE)
        words = [sys.executable, "-c", text] if command.language == "python" else ["bash", "-c", text]
        environment = {**self.environment, **(SLURM if command.language == "slurm" else {})}
        done = subprocess.run(words, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=240)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def has_mpi(self):
        if shutil.which("mpirun") is None:
            return False
        done = subprocess.run([self.folder / "build/tools/starling", "run", "scenarios/first/allreduce_mpi.ini", "-q",
                               "run.steps=1", "--transport", "mpi", "-o", "results/probe.h5"], cwd=self.folder,
                              env=self.environment, capture_output=True, text=True, timeout=240)
        return "built without MPI" not in done.stderr

    def run_all(self, document):
        has_mpi = self.has_mpi()
        ran = 0
        for command in commands(document):
            needs_mpi = "mpirun" in command.text or "results/real.h5" in command.text or "measured.h5" in command.text
            has_ptx = "starling_ptx.so" not in command.text or (BUILD / "tests/starling_ptx.so").exists()
            if reason_to_skip(command.text):
                continue
            with self.subTest(str(command)):
                if needs_mpi and not has_mpi:
                    self.skipTest("needs MPI")
                if not has_ptx:
                    self.skipTest("needs the device code, which nvcc makes")
                self.execute(command)
                ran += 1
        self.assertGreater(ran, 0, f"no command was found in {document}")

    def test_commands_of_the_readme_run(self):
        self.run_all("README.md")

    def test_commands_of_the_recipes_run(self):
        self.run_all("docs/recipes.md")

    def test_commands_of_contributing_run(self):
        self.run_all("CONTRIBUTING.md")

    def test_commands_of_the_results_format_run(self):
        self.run_all("docs/results_format.md")

    def test_commands_for_own_files_run(self):
        self.run_all("docs/own_files.md")

    def test_job_scripts_run(self):
        self.run_all("docs/slurm.md")

    def test_commands_for_a_gpu_run_without_one(self):
        self.run_all("docs/gpu.md")

    def test_no_other_document_has_commands(self):
        ran = ("README.md", "CONTRIBUTING.md", "docs/recipes.md", "docs/results_format.md", "docs/own_files.md", "docs/slurm.md", "docs/gpu.md")
        self.assertEqual([str(c) for document in set(DOCUMENTS) - set(ran) for c in commands(document)], [])

    def test_the_keys_are_those_of_the_program(self):
        listed = self.execute(Command("docs/keys.md", 1, "build/tools/starling list --markdown"))
        self.assertEqual((ROOT / "docs/keys.md").read_text(), listed,
                         "build/tools/starling list --markdown > docs/keys.md brings it up to date")

    def test_the_results_format_names_all_that_results_hold(self):
        described = (ROOT / "docs/results_format.md").read_text()
        for scenario in ("first/quickstart", "network/fat_tree", "failures/churn"):
            self.execute(Command("", 0, f"build/tools/starling run scenarios/{scenario}.ini -q -o results/all.h5 run.steps=20 "
                                        "'run.timeline=1 s' run.save_models=yes"))
            with h5py.File(self.folder / "results/all.h5") as results:
                found = []
                results.visit(found.append)
            for path in found:
                group, _, name = path.rpartition("/")
                plain = name.removesuffix("_picoseconds")
                known = path in described or f"{group}/{plain}" in described
                known = known or (group in ("evaluation", "steps") and f"`{name}`" in described)
                self.assertTrue(known, f"docs/results_format.md does not name {path}")

    def test_the_results_format_names_what_few_results_hold(self):
        described = (ROOT / "docs/results_format.md").read_text()
        for folder, call in (("algorithms", r'\brecord\("(\w+)"'), ("scenarios", r'\b(?:facts|machine)\["(\w+)"\]')):
            written = {name for path in sorted((ROOT / folder).glob("*.cpp")) for name in re.findall(call, path.read_text())}
            self.assertGreater(len(written), 5, folder)
            for name in sorted(written):
                self.assertIn(f"`{name}`", described, f"docs/results_format.md does not name {name}, of {folder}/")

    def test_the_readme_shows_what_the_quickstart_prints(self):
        shown = ["\n".join(lines) for language, _, lines in blocks("README.md") if language == "text"]
        self.assertEqual(len(shown), 1, "README.md has one block of language text")
        quickstart = next(c for c in commands("README.md") if c.text.startswith("tools/run"))
        printed = self.execute(quickstart).splitlines()
        self.assertEqual(printed[:-1], shown[0].splitlines())
        self.assertEqual(printed[-1], "wrote results/quickstart.png")

    def test_the_readme_counts_the_scenarios_beside_the_quickstart(self):
        more = int(re.search(r"`scenarios/` has (\d+) more", (ROOT / "README.md").read_text())[1])
        self.assertEqual(more, len(list((ROOT / "scenarios").rglob("*.ini"))) - 1)

    def test_a_scenario_that_is_not_there_is_told_before_minutes_of_building(self):
        done = subprocess.run([ROOT / "tools/run", "nowhere.ini"], cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", "run: nowhere.ini: cannot open: No such file or directory\n"))

    def test_every_reason_to_skip_is_used(self):
        texts = [command.text for document in DOCUMENTS for command in commands(document)]
        for start in SKIPPED:
            self.assertTrue(any(text.startswith(start) for text in texts), f"no command begins with {start}")

    def test_the_table_of_interfaces_counts_what_headers_declare(self):
        table = re.findall(r"^\| `(\w+)`, ([\w/]+) \| (\d+) \|", (ROOT / "DESIGN.md").read_text(), re.M)
        self.assertGreater(len(table), 5)
        for name, folder, count in table:
            headers = "".join(path.read_text() for path in sorted((ROOT / folder).glob("*.hpp")))
            body = re.search(rf"^class {name} \{{\n public:\n(.*?)(?=^ (?:private|protected):|^\}};)", headers, re.M | re.S)[1]
            self.assertEqual(len(re.findall(r"^  virtual (?!~)", body, re.M)), int(count), name)

    def test_a_new_decision_has_the_next_number(self):
        text = (ROOT / "DESIGN.md").read_text()
        numbers = [int(number) for number in re.findall(r"^(?:### |\| )(\d+)(?:\.| \|)", text, re.M)]
        self.assertEqual(int(re.search(r"takes the next one, (\d+),", text)[1]), max(numbers) + 1)

    def test_files_that_are_named_exist(self):
        for document in DOCUMENTS + ("DESIGN.md", "CHANGELOG.md"):
            text = (ROOT / document).read_text()
            named = re.findall(r"\]\(([^):]+)\)", text)  # links, but not to other places
            named += re.findall(r"`((?:[\w.-]+/)+[\w.-]*\.(?:[ch]pp|inc|ini|py|md|build|png|graphml))`", text)
            named += re.findall(r"`(tools/\w+)`", text)
            for name in named:
                if "NAME" not in name and not name.startswith(("build/", "results/")):
                    is_there = any((folder / name).exists() for folder in (ROOT, (ROOT / document).parent))
                    self.assertTrue(is_there, f"{document} names {name}, which is not there")


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
