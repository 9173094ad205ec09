"""Published figures stay reproduced: the cheap cells of tools/reproduce, within what the project claims.

    tests/scenarios/test_published.py PROGRAM

WAGMA-SGD, Fig. 4, on 4 and 16 nodes and without late nodes: 5 %. eager-SGD, Fig. 9: 15 %, but for `majority` at 32 KiB and
256 KiB, which scenarios/papers/README.md explains. The full tables take minutes: tools/reproduce.
"""
import csv
import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_MATCHED = {("majority", "32768"), ("majority", "262144")}


def load_reproduce():
    loader = importlib.machinery.SourceFileLoader("reproduce", str(ROOT / "tools" / "reproduce"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("reproduce", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


class PublishedTest(unittest.TestCase):
    def check(self, table, tolerance, is_cheap):
        with open(ROOT / "scenarios/papers/published.csv", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["table"] == table and is_cheap(row)]
        self.assertGreater(len(rows), 4)
        with tempfile.TemporaryDirectory(prefix="starling_published") as folder:
            bench = REPRODUCE.Bench(PROGRAM, folder)
            for row in rows:
                with self.subTest(algorithm=row["algorithm"], at=row["at"]):
                    simulated = REPRODUCE.TABLES[table][2](bench, row["algorithm"], int(row["at"]))
                    self.assertLess(abs(simulated / float(row["value"]) - 1), tolerance)

    def test_throughput_with_late_nodes(self):
        self.check("wagma_fig4", 0.05, lambda row: int(row["at"]) <= 16)

    def test_sums_with_skewed_arrivals(self):
        self.check("eager_fig9", 0.15, lambda row: (row["algorithm"], row["at"]) not in NOT_MATCHED)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    REPRODUCE = load_reproduce()
    unittest.main()
