#!/usr/bin/python3
"""Counts the test cases of a run of `meson test`: the last line of tools/test.

    tools/count_tests.py build/meson-logs/testlog.json STATUS_OF_MESON_TEST

Meson counts programs; this counts the cases that they report in their output: doctest, unittest, and scripts that end
with a line like this program's own. One program may run several times, each time with other suites: a case is skipped
if no run executed it. A program that says nothing countable is one case; one that fails without a failing case (a crash,
a sanitizer's report, a timeout) adds a failure.
"""
import collections
import json
import pathlib
import re
import sys

DOCTEST = re.compile(r"\[doctest\] test cases: +(\d+) \| +(\d+) passed \| +(\d+) failed \| +(\d+) skipped")
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\n(?:OK|FAILED)(?: \((.*)\))?$", re.MULTILINE)
PLAIN = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)
COLORS = re.compile(r"\x1b\[[0-9;]*m")
SKIPPED = "SKIP"
GOOD = ("OK", "EXPECTEDFAIL", SKIPPED)


def count_run(result, output):
    """(passed, failed, all cases of the program) of one program's run."""
    if result == SKIPPED:
        return 0, 0, 1
    passed = failed = total = 0
    for ran, good, bad, left_out in DOCTEST.findall(output):
        passed, failed = passed + int(good), failed + int(bad)
        total = max(total, int(ran) + int(left_out))
    for ran, details in UNITTEST.findall(output):
        numbers = {key: int(number) for key, number in re.findall(r"(?:^|, )([a-z ]+)=(\d+)", details)}
        bad = numbers.get("failures", 0) + numbers.get("errors", 0)
        left_out = numbers.get("skipped", 0)
        passed, failed, total = passed + int(ran) - bad - left_out, failed + bad, total + int(ran)
    for good, bad, left_out in PLAIN.findall(output):
        passed, failed, total = passed + int(good), failed + int(bad), total + int(good) + int(bad) + int(left_out)
    if total == 0:
        passed, failed, total = (1, 0, 1) if result in GOOD else (0, 1, 1)
    elif result not in GOOD and failed == 0:
        failed += 1
    return passed, failed, total


def count(lines):
    """(passed, failed, skipped) over the lines of a testlog.json."""
    passed = failed = skipped = 0
    programs = collections.defaultdict(list)
    for line in lines:
        test = json.loads(line)
        output = COLORS.sub("", test.get("stdout", "") + "\n" + test.get("stderr", ""))
        key = " ".join(word for word in test["command"] if not word.startswith("-"))
        programs[key].append(count_run(test["result"], output))
    for runs in programs.values():
        passed += sum(run[0] for run in runs)
        failed += sum(run[1] for run in runs)
        skipped += max(0, max(run[2] for run in runs) - sum(run[0] + run[1] for run in runs))
    return passed, failed, skipped


def main():
    log, status = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    passed, failed, skipped = count(log.read_text().splitlines()) if log.exists() else (0, 0, 0)
    if failed == 0 and (status != 0 or passed == 0):
        failed = 1  # nothing ran, or Meson itself failed
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
