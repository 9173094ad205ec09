"""Lists of sources in meson.build are sorted and in line, so that everybody finds the place for a new one."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = re.compile(r"(?:^ +'[a-z0-9_/]+\.cpp',\n){2,}", re.MULTILINE)


class SourceLists(unittest.TestCase):
    def test_they_are_sorted(self):
        lists = [(path, match[0].splitlines()) for path in ROOT.glob("*/**/meson.build")
                 for match in LIST.finditer(path.read_text())]
        self.assertGreater(len(lists), 10)
        for path, lines in lists:
            with self.subTest(path=path, first=lines[0]):
                self.assertEqual(lines, sorted(lines))
                self.assertEqual(len({line.index("'") for line in lines}), 1)


if __name__ == "__main__":
    unittest.main()
