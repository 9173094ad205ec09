"""tools/count_tests.py: the numbers in the last line of tools/test are those of the cases that ran."""
import json
import unittest

import count_tests


def run(command, result, stdout="", stderr=""):
    return json.dumps({"command": command.split(), "result": result, "stdout": stdout, "stderr": stderr})


def doctest(passed, failed, skipped):
    return (f"\x1b[0;32m[doctest] \x1b[0mtest cases: {passed + failed:>3} | {passed:>3} passed | "
            f"{failed} failed | {skipped} skipped\n[doctest] assertions: 9 | 9 passed | 0 failed |\n")


class CountTests(unittest.TestCase):
    def test_cases_add_up_over_programs(self):
        self.assertEqual(count_tests.count([run("a", "OK", doctest(5, 0, 0)), run("b", "FAIL", doctest(2, 1, 0))]),
                         (7, 1, 0))

    def test_a_case_that_another_run_executed_is_not_skipped(self):
        # The program has 7 cases: 5 in suite fast, 1 in slow, 1 in neither.
        fast, slow = run("a --fast", "OK", doctest(5, 0, 2)), run("a --slow", "OK", doctest(1, 0, 6))
        self.assertEqual(count_tests.count([fast, slow]), (6, 0, 1))
        self.assertEqual(count_tests.count([fast]), (5, 0, 2))

    def test_a_crash_fails_although_no_case_does(self):
        self.assertEqual(count_tests.count([run("a", "FAIL", doctest(5, 0, 0))]), (5, 1, 0))
        self.assertEqual(count_tests.count([run("a", "FAIL", "half a li")]), (0, 1, 0))
        self.assertEqual(count_tests.count([run("a", "TIMEOUT")]), (0, 1, 0))

    def test_unittest_is_counted_by_its_last_lines(self):
        self.assertEqual(count_tests.count([run("a", "OK", "", "...\nRan 3 tests in 0.1s\n\nOK (skipped=1)\n")]), (2, 0, 1))
        self.assertEqual(count_tests.count(
            [run("a", "FAIL", "", "F\nRan 4 tests in 2.001s\n\nFAILED (failures=1, errors=1, skipped=1)\n")]), (1, 2, 1))

    def test_a_script_may_say_it_plainly(self):
        self.assertEqual(count_tests.count([run("a", "FAIL", "FAILED ring\n3 passed, 1 failed, 2 skipped\n")]), (3, 1, 2))

    def test_a_program_that_counts_nothing_is_one_case(self):
        self.assertEqual(count_tests.count([run("a", "OK", "fine"), run("b", "SKIP"), run("c", "FAIL")]), (1, 1, 1))


if __name__ == "__main__":
    unittest.main()
