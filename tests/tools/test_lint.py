#!/usr/bin/python3
"""Which sources tools/lint looks at: those that changed since the commit that was clean, themselves or by a header; and
that its tools look at a file that is named; and that a header compiles alone."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True


def load():
    """tools/lint as a module, a new one for every test."""
    loader = importlib.machinery.SourceFileLoader("lint", str(ROOT / "tools" / "lint"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("lint", loader))
    loader.exec_module(module)
    return module


@unittest.skipUnless(shutil.which("git"), "needs git")
class ChangedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="starling-lint-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.lint = load()
        self.lint.ROOT, self.lint.CLEAN = self.root, self.root / "tools" / "lint_clean"
        self.write(".clang-tidy", "Checks: '*'\n")
        self.write("tools/lint", "#!/usr/bin/python3\n")
        self.write("sim/low.hpp", "int low();\n")
        self.write("sim/high.hpp", '#include "sim/low.hpp"\n')
        self.write("sim/high.cpp", '#include "sim/high.hpp"\n')
        self.write("sim/other.cpp", "int other();\n")
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-q", "-m", "clean")
        self.write("tools/lint_clean", self.git("rev-parse", "HEAD"))

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def git(self, *words):
        return subprocess.run(["git", *words], cwd=self.root, check=True, capture_output=True, text=True).stdout

    def looked_at(self):
        """Sources that have to be looked at; None for all."""
        different = self.lint.changed()
        if different is None:
            return None
        sources = sorted((self.root / "sim").glob("*.cpp"))
        return [path.name for path in sources if different.intersection(self.lint.closure(path))]

    def test_without_git_nothing_is_known(self):
        with unittest.mock.patch.object(self.lint.shutil, "which", return_value=None):
            self.assertIsNone(self.looked_at())

    def test_nothing_has_changed(self):
        self.assertEqual(self.looked_at(), [])

    def test_a_source(self):
        self.write("sim/other.cpp", "long other();\n")
        self.assertEqual(self.looked_at(), ["other.cpp"])

    def test_a_header_that_is_included_by_way_of_another(self):
        self.write("sim/low.hpp", "long low();\n")
        self.assertEqual(self.looked_at(), ["high.cpp"])

    def test_a_new_source_that_git_does_not_know(self):
        self.write("sim/new.cpp", "int fresh();\n")
        self.assertEqual(self.looked_at(), ["new.cpp"])

    def test_checks_that_changed_concern_all(self):
        self.write(".clang-tidy", "Checks: 'bugprone-*'\n")
        self.assertIsNone(self.looked_at())

    def test_a_commit_that_git_does_not_know_says_nothing(self):
        self.write("tools/lint_clean", "0123456789012345678901234567890123456789\n")
        self.assertIsNone(self.looked_at())

    def test_no_commit_was_ever_clean(self):
        (self.root / "tools" / "lint_clean").unlink()
        self.assertIsNone(self.looked_at())


class AloneTest(unittest.TestCase):
    def test_a_header_that_needs_what_stands_before_it(self):
        folder = tempfile.TemporaryDirectory(prefix="starling-lint-")
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name).resolve()
        (root / "sim").mkdir()
        texts = {"first.hpp": "using Length = long;\n", "whole.hpp": "#ifndef FLAG\n#error\n#endif\nstruct Whole {};\n",
                 "part.hpp": "struct Part {\n  Length length;\n};\n",
                 "source.cpp": '// Says what it does.\n\n#include "sim/first.hpp"\n#include "sim/part.hpp"\n#include "sim/whole.hpp"\n'}
        for name, text in texts.items():
            (root / "sim" / name).write_text(text)
        lint = load()
        lint.ROOT = root
        command = "c++ -I.. -DFLAG -fdiagnostics-color=always -MD -MQ a.o -MF a.o.d -o a.o -c ../sim/source.cpp"
        (root / "build").mkdir()
        commands = lint.alone_commands({root / "sim" / "source.cpp": {"directory": str(root / "build"), "command": command}})
        said = {path.name: list(lint.findings(lint.run(command))) for path, command in commands.items()}
        self.assertEqual(list(said), ["part.hpp", "whole.hpp"])  # every build compiles the first one
        self.assertEqual(said["whole.hpp"], [])
        self.assertRegex(said["part.hpp"][0][0], r"sim/part\.hpp:2:3: error: .*Length")
        self.assertEqual(list((root / "build").iterdir()), [])

    def test_sources_that_are_compiled_together_have_the_flags_of_what_includes_them(self):
        folder = tempfile.TemporaryDirectory(prefix="starling-lint-")
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name).resolve()
        (root / "build").mkdir()
        sources = [root / "sim" / name for name in ("first.cpp", "second.cpp", "third.cpp")]
        (root / "build" / "sim-unity0.cpp").write_text("".join(f"#include<{path}>\n" for path in sources[:2]))
        (root / "build" / "compile_commands.json").write_text(json.dumps(
            [{"directory": str(root / "build"), "file": file, "command": f"c++ -I.. {flag} -MD -o a.o -c {file}"}
             for flag, file in (("-DTOGETHER", "sim-unity0.cpp"), ("-DALONE", "../sim/third.cpp"))]))
        lint = load()
        lint.ROOT = root
        entries = lint.commands_of(root / "build")
        self.assertEqual(list(entries), sources)
        self.assertEqual([lint.flags_of(entry) for entry in entries.values()],
                         [["c++", "-I..", flag] for flag in ("-DTOGETHER", "-DTOGETHER", "-DALONE")])


class ScriptsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="starling-lint-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.lint = load()
        (self.root / "build").mkdir()
        (self.root / "build" / "compile_commands.json").write_text("[]")
        for folder in "tools", "tests":
            (self.root / folder).mkdir()
        for name, text in {".clang-tidy": "", "tools/setup": "# shellcheck shell=bash\n", "tools/run": "#!/bin/bash\necho $1\n", "tools/plot": "#!/usr/bin/python3\nimport os\n",
                           "tests/test_a.py": "print(1)\n", "tests/corpus": "graph {}\n"}.items():
            (self.root / name).write_text(text)
        for name, value in {"ROOT": self.root, "find_tidy": lambda: ("tidy", "1"), "find_format": lambda: (None, None)}.items():
            setattr(self.lint, name, value)

    def look_at(self, *names):
        """Exit status and output."""
        output = io.StringIO()
        arguments = ["lint", "--build", str(self.root / "build"), *(str(self.root / name) for name in names)]
        with unittest.mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(output):
            return self.lint.main(), output.getvalue()

    def test_scripts_are_known_by_their_first_line(self):
        shell, python = self.lint.scripts()
        self.assertEqual(shell, {self.root / "tools/setup", self.root / "tools/run"})
        self.assertEqual(python, {self.root / "tools/plot", self.root / "tests/test_a.py"})

    @unittest.skipUnless(shutil.which("shellcheck") and load().find_pyflakes(), "needs shellcheck and python3-pyflakes")
    def test_faults_of_scripts_are_findings(self):
        with unittest.mock.patch.object(self.lint.shutil, "which", lambda name: f"/usr/bin/{name}"):
            self.assertEqual(self.look_at("tests/test_a.py", "tools/setup")[0], 0)
            status, output = self.look_at("tools/run", "tools/plot")
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r"tools/run:2:6: warning: Double quote to prevent .*\[SC2086\]")
        self.assertRegex(output, r"tools/plot:2:1: warning: 'os' imported but unused")
        self.assertIn("2 looked at, 2 of them anew: 2 findings", output)

    def test_without_their_tools_it_is_said_that_nothing_looks_at_scripts(self):
        self.lint.find_pyflakes = lambda: None
        with unittest.mock.patch.object(self.lint.shutil, "which", lambda name: "cppcheck" if name == "cppcheck" else None):
            status, output = self.look_at("tools/run", "tools/plot")
        self.assertEqual(status, 0, output)
        self.assertIn("shell scripts not looked at: needs shellcheck\nPython not looked at: needs python3-pyflakes\n", output)


class NamedFileTest(unittest.TestCase):
    def setUp(self):
        self.lint = load()
        if not self.lint.find_tidy()[0] or not shutil.which("cppcheck"):
            self.skipTest("needs clang-tidy and cppcheck")
        folder = tempfile.TemporaryDirectory(prefix="starling-lint-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "compile_commands.json").write_text("[]")

    def look_at(self, text):
        """Exit status and output for a source with this text."""
        source = self.folder / "source.cpp"
        source.write_text(text)
        output = io.StringIO()
        arguments = ["lint", "--build", str(self.folder), str(source)]
        with unittest.mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(output):
            return self.lint.main(), output.getvalue()

    def test_cppcheck_looks_at_it_too(self):
        text = "int f() {\n  int a[2] = {};\n  return a[%d];\n}\n"
        status, output = self.look_at(text % 1)
        self.assertEqual(status, 0, output)
        status, output = self.look_at(text % 2)
        self.assertEqual(status, 1)
        self.assertIn("arrayIndexOutOfBounds", output)

    @unittest.skipUnless(load().find_format()[0], "needs clang-format 14")
    def test_a_layout_of_its_own_is_a_finding(self):
        status, output = self.look_at("int f( ) { return 1; }\n")
        self.assertEqual(status, 1)
        self.assertIn("source.cpp:1:7: error: code should be clang-formatted", output)

    def test_without_clang_format_it_is_said_that_nothing_looks_at_the_layout(self):
        with unittest.mock.patch.object(self.lint, "find_format", return_value=(None, None)):
            status, output = self.look_at("int f( ) { return 1; }\n")
        self.assertEqual(status, 0, output)
        self.assertIn("layout not looked at: needs clang-format-14", output)


if __name__ == "__main__":
    unittest.main()
