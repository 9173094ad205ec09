#!/usr/bin/python3
"""Every scenario below scenarios/ runs, shortened, and prints what tests/scenarios/golden/FOLDER/NAME.txt says; in full,
what golden_in_full/FOLDER/NAME.txt says, to which the head comment's "Expect:" must fit.

    tests/scenarios/test_shipped.py PROGRAM [--renew [NAME ..] | ShortenedTest | InFullTest]

PROGRAM is the built `starling`. --renew writes the golden texts anew instead of comparing, all (minutes) or those of the
scenarios NAME.ini: look at the difference, and mark it **results** in CHANGELOG.md if the same seed gives other numbers to a user.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
SCENARIOS = sorted((FOLDER.parents[1] / "scenarios").glob("*/*.ini"))
# Takes 12 GiB; need data that are not shipped.
SHORTENED_ONLY = ("million_nodes", "zou_mnist_both", "zou_mnist_uplink")
IN_FULL = [scenario for scenario in SCENARIOS if scenario.stem not in SHORTENED_ONLY]
GOLDEN = FOLDER / "golden"
GOLDEN_IN_FULL = FOLDER / "golden_in_full"
SHORTENED = ("run.steps=20", "run.evaluate_every=10")
SMALLER = {"scale": ("run.nodes=1000", "workload.samples=1000")}  # by folder


def starling(folder, *words, threads=2, may_warn=True):
    """What `starling WORDS` prints, without the place of the results file; its error text becomes an exception."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="passive")
    done = subprocess.run([PROGRAM, *map(str, words)], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=240)
    if done.returncode != 0:
        raise AssertionError(f"starling {' '.join(map(str, words))} ended with {done.returncode}: {done.stderr}")
    if "seems to have diverged" in done.stderr or ("warning" in done.stderr and not may_warn):
        raise AssertionError(f"starling {' '.join(map(str, words))}: {done.stderr}")
    return "".join(line for line in done.stdout.splitlines(True) if not line.startswith("  results "))


def missing_data(scenario):
    """The folder of a data set that is not shipped and not there, or None."""
    for line in scenario.read_text().splitlines():
        if line.startswith("directory = "):
            folder = scenario.parent / line.split("=", 1)[1].strip()
            return None if folder.is_dir() else folder
    return None


def shortened(scenario):
    return (*SHORTENED, *SMALLER.get(scenario.parent.name, ()))


def golden_of(scenario, golden=GOLDEN):
    return golden / scenario.parent.name / f"{scenario.stem}.txt"


class ShippedTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="starling-shipped-")
        self.addCleanup(self.folder.cleanup)

    def for_each(self, check, needs_data=True, scenarios=SCENARIOS):
        self.assertGreater(len(scenarios), 0)
        for scenario in scenarios:
            with self.subTest(scenario.name):
                if needs_data and missing_data(scenario):
                    self.skipTest(f"{scenario.name} needs data in {missing_data(scenario)}")
                check(scenario)

    def check_golden(self, text, golden):
        self.assertTrue(golden.exists(), f"{golden} is missing; {sys.argv[0]} PROGRAM --renew writes it")
        self.assertEqual(text, golden.read_text())


class ShortenedTest(ShippedTest):
    def run_shortened(self, scenario, **options):
        return starling(self.folder.name, "run", scenario, *shortened(scenario), "-o", f"{scenario.stem}.h5", **options)

    def test_summaries_are_the_golden_ones(self):
        self.for_each(lambda scenario: self.check_golden(self.run_shortened(scenario), golden_of(scenario)))

    def test_summaries_do_not_depend_on_the_number_of_threads(self):
        def check(scenario):
            self.assertEqual(self.run_shortened(scenario, threads=1), self.run_shortened(scenario, threads=3))
        self.for_each(check)

    def test_results_files_repeat_their_runs(self):
        def check(scenario):
            first = self.run_shortened(scenario)
            again = starling(self.folder.name, "run", f"{scenario.stem}.h5", "-o", "again.h5")
            self.assertEqual(again, first)
        self.for_each(check)

    def test_scenarios_tell_question_expectation_and_duration(self):
        def check(scenario):
            comment = scenario.read_text().split("\n[", 1)[0].replace("\n# ", " ")
            self.assertTrue(comment.startswith("# "), comment)
            self.assertRegex(comment, r"\?.* Expect: .* [Rr]uns in ")
        self.for_each(check, needs_data=False)

    def test_every_golden_text_has_a_scenario(self):
        self.assertEqual(sorted(GOLDEN.glob("*/*.txt")), [golden_of(scenario) for scenario in SCENARIOS])


class InFullTest(ShippedTest):
    def test_summaries_are_the_golden_ones(self):
        def check(scenario):
            text = starling(self.folder.name, "run", scenario, "-o", "run.h5", may_warn=False)
            self.check_golden(text, golden_of(scenario, GOLDEN_IN_FULL))
        self.for_each(check, scenarios=IN_FULL)

    def test_every_golden_text_has_a_scenario(self):
        self.assertEqual(sorted(GOLDEN_IN_FULL.glob("*/*.txt")),
                         [golden_of(scenario, GOLDEN_IN_FULL) for scenario in IN_FULL])


def renew(names):
    unknown = set(names) - {scenario.stem for scenario in SCENARIOS}
    if unknown:
        sys.exit(f"no scenario below scenarios/ is named {', '.join(sorted(unknown))}")
    wanted = {golden_of(scenario): (scenario, *shortened(scenario)) for scenario in SCENARIOS}
    wanted.update({golden_of(scenario, GOLDEN_IN_FULL): (scenario,) for scenario in IN_FULL})
    for stale in [*GOLDEN.glob("*/*.txt"), *GOLDEN_IN_FULL.glob("*/*.txt")]:
        if stale not in wanted:
            stale.unlink()
    with tempfile.TemporaryDirectory() as folder:
        for golden, (scenario, *overrides) in wanted.items():
            if names and scenario.stem not in names:
                continue
            if missing_data(scenario):
                print(f"left {golden}: no data in {missing_data(scenario)}")
                continue
            golden.parent.mkdir(parents=True, exist_ok=True)
            golden.write_text(starling(folder, "run", scenario, *overrides, "-o", "run.h5"))
            print(f"wrote {golden}")


if __name__ == "__main__":
    PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
    renew(sys.argv[2:]) if sys.argv[1:2] == ["--renew"] else unittest.main()
