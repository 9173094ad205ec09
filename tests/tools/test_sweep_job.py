#!/usr/bin/python3
"""`mpirun starling sweep`: the processes of a job share the points, and none ends the others.

usage: test_sweep_job.py STARLING MPIRUN
"""
import csv

from program_case import ProgramCase, main

SCENARIO = """[run]
nodes = 4
steps = 40000
record_every = 1000
evaluate_every = 40000
[topology]
kind = ring
[network]
kind = constant
latency = 20 us
[compute]
gradient = 1 ms
[workload]
kind = mlp
dataset = digits
hidden = 32
[algorithm]
kind = dpsgd
[sweep]
run.seed = 1, 2
algorithm.learning_rate = 1e30, 0.05
"""


class SweepJobTest(ProgramCase):
    def test_points_that_fail_end_neither_the_other_processes_nor_their_points(self):
        """The first of two processes has the points that diverge, and is done at once."""
        self.write("s.ini", SCENARIO)
        done = self.starling("sweep", "s.ini", "-o", "out", "-j", "1", processes=2, status=1)
        self.assertEqual(done.stdout, "2 of 4 points are finished; see out/table.csv\n")
        self.assertEqual(done.stderr.count("starling: 2 points failed; the logs are in out:"), 1, done.stderr)
        self.assertIn("\n  seed=1,learning_rate=1e30: starling: the loss of node", done.stderr)
        self.assertIn("\n  seed=2,learning_rate=1e30: the same\n", done.stderr)
        with open(self.folder / "out" / "points.csv", newline="") as file:
            self.assertEqual([row["point"] for row in csv.DictReader(file)], ["seed=1,learning_rate=0.05", "seed=2,learning_rate=0.05"])


if __name__ == "__main__":
    main("program", "mpirun")
