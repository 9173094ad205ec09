#!/usr/bin/python3
"""`starling compare` of two settings of a sweep: pairs of points that are alike in all else.

usage: test_compare_settings.py STARLING
"""
import csv

import numpy as np
from program_case import ProgramCase, main

# Student's t with 1 and 2 degrees of freedom: 97.5 % lie below.
STUDENT = {2: 12.7062047, 3: 4.30265273}

SCENARIO = """[run]
nodes = 4
steps = 12
evaluate_every = 4
[topology]
kind = ring
[network]
kind = constant
latency = 0 s
[compute]
gradient = 1 ms
[workload]
kind = softmax
dataset = digits
batch_size = 8
[algorithm]
kind = dpsgd
learning_rate = 0.05
[sweep]
algorithm.kind = dpsgd, allreduce
compute.gradient = 1 ms, 2 ms
repeats = 3
"""


class CompareSettingsTest(ProgramCase):
    def said(self, *words, status=0):
        done = self.starling(*words, status=status)
        return done.stdout + done.stderr

    def compare(self, *words, status=0):
        return self.said("compare", "sweep", *words, status=status)

    def write_points(self, *lines):
        (self.folder / "sweep").mkdir(exist_ok=True)
        (self.folder / "sweep" / "points.csv").write_text("\n".join(lines) + "\n")

    def row(self, said, outcome, name="all pairs"):
        """Cells of a row of an outcome's table."""
        table = said[said.index("\n" + outcome + " "):].split("\n\n")[0]
        line = next(line for line in table.splitlines() if line.strip().startswith(name))
        return line.strip()[len(name):].replace(" %", "%").replace(" of ", "/").split()

    def test_points_without_a_partner_are_counted(self):
        self.write_points("point,a.x,a.y,test_loss", "p,1,1,11", "q,1,2,22", "r,1,3,33", "s,2,1,10", "t,2,4,20")
        left_out = "without a partner that is alike in all else, and left out: "
        self.assertIn(left_out + "2 of A, 1 of B\n", self.compare("a.x=1", "a.x=2"))
        self.write_points("point,a.x,a.y,test_loss", "p,1,1,11", "q,1,2,22", "s,2,1,10", "t,2,2,20")
        self.assertNotIn(left_out, self.compare("a.x=1", "a.x=2"))

    def test_how_many_reach_a_target_is_told_beside_when(self):
        self.write_points("point,a.x,run.seed,target_reached,target_time_seconds", "p,1,1,1,3", "q,1,2,1,4", "s,2,1,0,", "t,2,2,0,")
        said = self.compare("a.x=1", "a.x=2")
        self.assertEqual(self.row(said, "target_reached")[:3], ["1", "0", "+1"])
        self.assertNotIn("target_time_seconds", said)  # which no pair knows

    def test_differences_are_of_pairs_and_have_an_interval_by_students_t(self):
        self.write_points("point,a.x,run.seed,test_loss", "p,1,1,11", "q,1,2,22", "r,1,3,33", "s,2,1,10", "t,2,2,20", "u,2,3,30")
        said = self.compare("a.x=1", "a.x=2")
        self.assertIn("A: a.x = 1 (3 points)\nB: a.x = 2 (3 points)\n", said)
        self.assertEqual(self.row(said, "test_loss"), ["22", "20", "+2", f"{STUDENT[3] / np.sqrt(3):.3g}", "+10.00%", "3", "3"])
        self.write_points("point,a.x,run.seed,test_loss", "p,1,1,8", "q,1,2,18.5", "r,1,3,28", "s,2,1,10", "t,2,2,20", "u,2,3,30")
        cells = self.row(self.compare("a.x=1", "a.x=2"), "test_loss")
        self.assertEqual(cells[5:], ["3", "3", "B", "larger"])
        self.assertAlmostEqual(float(cells[3]), STUDENT[3] * np.std([-2, -1.5, -2], ddof=1) / np.sqrt(3), delta=0.0006)

    def test_pairs_are_alike_in_all_other_keys_and_all_are_summed_up(self):
        rng = np.random.default_rng(1)
        values = rng.normal(size=(2, 2, 3))
        lines = [f"p{x}{y}{z},{x},{y} ms,{z},{values[x, y, z]:.17g}" for y in range(2) for x in range(2) for z in range(3)]
        self.write_points("point,a.x,b.y,run.seed,test_accuracy", *lines)
        said = self.compare("a.x=1", "a.x=0")
        for name, part in ("b.y = 0 ms", values[:, :1]), ("b.y = 1 ms", values[:, 1:]), ("all pairs", values):
            differences = (part[1] - part[0]).mean(axis=0)  # of each seed
            interval = STUDENT[len(differences)] * differences.std(ddof=1) / np.sqrt(len(differences))
            cells = self.row(said, "test_accuracy", name)
            np.testing.assert_allclose([float(cell) for cell in cells[:4]], [part[1].mean(), part[0].mean(), differences.mean(), interval], rtol=6e-3)
            self.assertEqual(cells[5:7], [str(part[0].size), "3"])

    def test_copies_of_a_seed_make_no_interval_narrower(self):
        lines = [f"p{x}{y}{z},{x},{y},{z},{x * z * z}" for y in range(5) for x in range(2) for z in range(3)]
        self.write_points("point,a.x,b.y,run.seed,test_loss", *lines)
        said = self.compare("a.x=1", "a.x=0")
        self.assertEqual(self.row(said, "test_loss")[:4], self.row(said, "test_loss", "b.y = 3")[:4])
        self.assertEqual(self.row(said, "test_loss")[4:], ["15", "3"])  # of B, which is 0: nothing
        self.write_points("point,a.x,b.y,test_loss", "p,1,1,3", "q,1,2,4", "r,2,1,1", "s,2,2,1")
        self.assertEqual(self.row(self.compare("a.x=1", "a.x=2"), "test_loss"), ["3.5", "1", "+2.5", "+250.00%", "2", "1"])

    def test_seeds_that_differ_alike_by_chance_prove_nothing(self):
        rows = [(x, y, seed, 10 * seed + y + (difference if x == 1 else 0))
                for seed, differences in ((1, (1, 3)), (2, (2, 2))) for y, difference in zip((1, 2), differences) for x in (1, 2)]
        self.write_points("point,a.x,b.y,run.seed,test_loss", *(f"p{i},{x},{y},{seed},{loss}" for i, (x, y, seed, loss) in enumerate(rows)))
        self.assertEqual(self.row(self.compare("a.x=1", "a.x=2"), "test_loss")[2:], ["+2", "0", "+12.12%", "4", "2"])
        # What differs alike in each pair does differ.
        self.write_points("point,a.x,b.y,run.seed,test_loss", *(f"p{i},{x},{y},{seed},{10 * seed + y + (2 if x == 1 else 0)}"
                                                         for i, (x, y, seed, _) in enumerate(rows)))
        self.assertEqual(self.row(self.compare("a.x=1", "a.x=2"), "test_loss")[5:], ["4", "2", "A", "larger"])
        # One pair for each seed: two more samples of 360 twice, of others. But what is the same for all seeds, as bytes are, does differ.
        for other, verdict in (0.5, []), (0.25, ["A", "larger"]):
            self.write_points("point,a.x,run.seed,test_accuracy", "p,1,1,0.5", "q,2,1,0.25", f"r,1,2,{other + 0.25}", f"s,2,2,{other}")
            self.assertEqual(self.row(self.compare("a.x=1", "a.x=2"), "test_accuracy")[5:], ["2", "2", *verdict])

    def test_a_value_may_have_a_unit_and_a_setting_several_keys(self):
        lines = [f"p{x}{y},{x},{y} ms,{x + 10 * y}" for x in range(2) for y in range(2)]
        self.write_points("point,a.x,b.y,test_loss", *lines)
        self.assertEqual(self.row(self.compare("a.x=1 b.y=0 ms", "b.y=1 ms a.x=0"), "test_loss"), ["1", "10", "-9", "-90.00%", "1", "1"])
        self.assertIn("several points of B are alike but for a.x; name its value there, too", self.compare("a.x=1", "b.y=1 ms", status=2))

    def test_keys_that_go_with_the_settings_may_differ(self):
        self.write_points("point,a.x,b.y,run.seed,test_loss", "p,1,big,1,3", "q,1,big,2,4", "r,2,small,1,1", "s,2,small,2,1")
        said = self.compare("a.x=1", "a.x=2")
        self.assertIn("A: a.x = 1, b.y = big (2 points)\nB: a.x = 2, b.y = small (2 points)\n", said)
        self.assertEqual(self.row(said, "test_loss")[:4], ["3.5", "1", "+2.5", f"{STUDENT[2] * 0.5:.3g}"])

    def test_pairs_that_do_not_know_an_outcome_are_left_out_of_it(self):
        self.write_points("point,a.x,run.seed,test_loss,target_time_seconds", "p,1,1,3,", "q,1,2,4,5", "r,2,1,1,2", "s,2,2,1,2", "t,2,3,9,9")
        said = self.compare("a.x=1", "a.x=2")
        self.assertEqual(self.row(said, "target_time_seconds"), ["5", "2", "+3", "+150.00%", "1/2", "1"])
        self.write_points("point,a.x,test_loss,other", "p,1,,3", "q,2,1,3")
        self.assertIn("no pair knows these outcomes", self.compare("a.x=1", "a.x=2"))
        self.assertEqual(self.row(self.compare("a.x=1", "a.x=2", "--outcome", "other"), "other"), ["3", "3", "+0", "+0.00%", "1", "1"])

    def test_the_points_of_a_sweep_are_compared(self):
        (self.folder / "s.ini").write_text(SCENARIO)
        self.said("sweep", "s.ini", "-o", "sweep", "-q")
        said = self.compare("algorithm.kind=dpsgd", "algorithm.kind=allreduce", "--outcome", "test_loss", "step_time_seconds")
        with open(self.folder / "sweep" / "points.csv", newline="", encoding="utf-8") as file:
            loss = {(row["algorithm.kind"], row["compute.gradient"], row["run.seed"]): float(row["test_loss"]) for row in csv.DictReader(file)}
        self.assertEqual(len(loss), 12)
        for gradient in "1 ms", "2 ms":
            differences = [loss["dpsgd", gradient, seed] - loss["allreduce", gradient, seed] for seed in "123"]
            cells = self.row(said, "test_loss", f"compute.gradient = {gradient}")
            self.assertAlmostEqual(float(cells[2]), np.mean(differences), delta=1e-3 * abs(np.mean(differences)))
        self.assertEqual(self.row(said, "step_time_seconds")[2:], ["+0", "0", "+0.00%", "6", "3"])

    def test_wrong_words_are_refused(self):
        self.write_points("point,a.x,run.seed,test_loss", "p,1,1,1", "q,2,1,1", "r,3,2,1")
        for words, sentence in (
            (("a.x=1",), "compare takes two settings of a sweep"),
            (("a.x=1", "a.x=7"), "no finished point has a.x = 7; there are 1, 2, 3"),
            (("a.x=1", "a.xx=2"), "a.xx is no key that the sweep varies; did you mean a.x?; these are a.x, run.seed"),
            (("a.x=1", "2"), "expected section.key=value of the sweep, got 2"),
            (("a.x=1", ""), "expected section.key=value of the sweep, got nothing"),
            (("a.x=1", "a.x=1"), "A and B share points: a.x=1, and a.x=1"),
            (("a.x=1 run.seed=2", "a.x=2"), "no finished point has a.x = 1, run.seed = 2"),
            (("a.x=1", "a.x=2", "--outcome", "test_los"), "test_los is no outcome of the sweep; did you mean test_loss?; these are test_loss"),
            (("a.x=1", "a.x=2", "--models", "0"), "--models is of two runs, not of a sweep"),
        ):
            self.assertIn(sentence, self.compare(*words, status=2))
        self.assertIn("no point of A has one of B that is alike in all else", self.compare("a.x=1", "a.x=3", status=1))
        self.write_points("point,a.x,test_loss", "p,1")
        self.assertIn("points.csv:2: expected 3 cells, got 2", self.compare("a.x=1", "a.x=2", status=1))
        self.write_points("x,y", "1,2")
        self.assertIn("points.csv:1: not the points of a sweep", self.compare("a.x=1", "a.x=2", status=1))
        (self.folder / "sweep" / "points.csv").unlink()
        self.assertIn("points.csv", self.compare("a.x=1", "a.x=2", status=1))
        self.assertIn("--outcome is of two settings of a sweep", self.said("compare", "a.h5", "b.h5", "--outcome", "test_loss", status=2))


if __name__ == "__main__":
    main("program")
