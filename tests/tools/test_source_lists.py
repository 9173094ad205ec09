"""Lists of sources in meson.build are sorted and in line, so that everybody finds the place for a new one, and name all tests."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = re.compile(r"(?:^ +'[a-z0-9_/]+\.cpp',\n){2,}", re.MULTILINE)
FOLDERS = ("sim", "topology", "algorithms", "network_models", "kernels", "scenarios", "tests", "tools")


def lists_of_sources():
    return [ROOT / "meson.build", *(path for folder in FOLDERS for path in (ROOT / folder).rglob("meson.build"))]


class SourceLists(unittest.TestCase):
    def test_they_are_sorted(self):
        lists = [(path, match[0].splitlines()) for path in lists_of_sources() for match in LIST.finditer(path.read_text())]
        self.assertGreater(len(lists), 10)
        for path, lines in lists:
            with self.subTest(path=path, first=lines[0]):
                self.assertEqual(lines, sorted(lines))
                self.assertEqual(len({line.index("'") for line in lines}), 1)

    def test_every_test_is_named(self):
        """One that is not would never run."""
        named = {path.parent / name for path in lists_of_sources() for name in re.findall(r"'([a-z0-9_/]*test_[a-z0-9_]+\.cpp)'", path.read_text())}
        tests = list((ROOT / "tests").rglob("test_*.cpp"))
        self.assertGreater(len(tests), 100)
        self.assertEqual([str(path.relative_to(ROOT)) for path in tests if path not in named], [])


if __name__ == "__main__":
    unittest.main()
