#!/usr/bin/python3
"""`tools/plot` of runs: what pictures say of one, or of several beside each other, is right.

usage: test_plot_runs.py STARLING
"""
import math
import re
import shutil
import subprocess
import unittest.mock
import xml.etree.ElementTree

import h5py
import matplotlib.pyplot as plt
import numpy as np
from plot_case import SCENARIO, PlotCase
from program_case import main

from pictures import convergence, headline, links, run, run_activities, run_evaluations, run_pace
from pictures.results import ACTIVITIES, Results
from pictures.runs import Run
from pictures.style import SERIES, numbers


class PlotRunsTest(PlotCase):
    def points_of_the_green_line(self, *words):
        """Numbers of points of the unbroken pieces of the green line on the left."""
        self.plot(*words, "-o", "read.svg")
        tree = xml.etree.ElementTree.parse(self.folder / "read.svg")
        lines = [path.get("d") for path in tree.iter("{http://www.w3.org/2000/svg}path")
                 if "stroke: #009e73" in path.get("style", "") and "fill: none" in path.get("style", "")]
        return [piece.count("L") + 1 for piece in lines[0].split("M")[1:]]

    def test_training_and_test_losses_stand_at_the_same_times(self):
        subprocess.run([self.program, "run", "s.ini", "-q", "-o", "skewed.h5", "compute.slow_nodes=1", "compute.slowdown=4", "algorithm.kind=adpsgd"],
                       cwd=self.folder, check=True)
        with h5py.File(self.folder / "skewed.h5") as file:
            times, steps, step = (file[name][()] for name in ("evaluation/time", "evaluation/step", "steps/step"))
        rows = np.searchsorted(step, steps)
        np.testing.assert_array_equal(Results(self.folder / "skewed.h5").training("time")[0][rows], times)
        beside = Run(self.folder / "skewed.h5")
        beside.read_training()
        np.testing.assert_array_equal(beside.curve("train_loss", "time")[0][rows], times)
        figure, axes = plt.subplots(1, 2)
        run_evaluations.draw_loss(dict(zip(("time", "step"), axes)), Results(self.folder / "skewed.h5"), {"time": 1, "step": 1})
        self.assertEqual([line.get_xdata()[-1] for line in axes[0].lines], [times[-1]] * 2)
        plt.close(figure)

    def test_a_run_that_did_not_come_to_its_end_is_named(self):
        def change(file):
            file["facts"].attrs["status"] = "interrupted by signal 2"
        part = self.folder / self.changed("part.h5", change)
        figure, said = convergence.draw([self.folder / "a.h5", part], (), ("time",))
        self.assertIn("note: part is not complete: interrupted by signal 2", said)
        self.assertEqual(figure.axes[0].get_legend_handles_labels()[1], ["a", "part, not complete"])
        plt.close(figure)

    def test_training_losses_at_equal_times_are_the_newest_of_each_node(self):
        def change(file):
            table = file.create_group("evaluation_by_time")
            table["time"], table["test_loss"] = [2.0, 4.0], [1.0, 0.5]
            for name, values in {"time": [[1, 2, 9, 9], [2, 4, 9, 9], [3, math.nan, 9, 9], [4, math.nan, 9, 9]],
                                 "train_loss": [[8, 4, 1, 1], [6, 2, 1, 1], [4, math.nan, 1, 1], [2, math.nan, 1, 1]]}.items():
                del file[f"steps/{name}"]
                file[f"steps/{name}"] = np.array(values, dtype=float)
        at, low, mean, high = Results(self.folder / self.changed("newest.h5", change)).training("time")
        self.assertEqual(at.tolist(), [1, 2, 3, 4])
        self.assertEqual([low.tolist(), mean.tolist(), high.tolist()], [[8, 4, 4, 2], [8, 5, 4, 2], [8, 6, 4, 2]])

    def test_time_does_not_run_backwards_where_nodes_stopped(self):
        def change(file):
            file["evaluation/time"][...] = [1, 5, 3, 6]  # the slow node ended but two of the four
        results = Results(self.folder / self.changed("stopped.h5", change))
        self.assertEqual(results.evaluated("test_loss", "time")[0].tolist(), [1, 5, 5, 6])
        figure, _ = convergence.draw([self.folder / "stopped.h5", self.folder / "a.h5"], (), ("time",))
        self.assertTrue(all((np.diff(line.get_xdata()) >= 0).all() for line in figure.axes[0].lines))
        plt.close(figure)

    def test_the_deviation_of_the_first_run_is_printed_as_compare_tells_it(self):
        said = self.plot("a.h5", "slow.h5", "--x", "time")
        # Gradients take 1.2 times as long and messages next to nothing; what is computed is the same: 1 / 1.2 - 1.
        found = re.search(r"a against slow: time per step (-[0-9.]+) %, test accuracy 0.00 points apart on average over 4 steps", said)
        self.assertIsNotNone(found, said)
        self.assertAlmostEqual(float(found[1]), -16.7, delta=0.4)
        told = subprocess.run([self.program, "compare", "a.h5", "slow.h5"], cwd=self.folder, capture_output=True, text=True).stdout
        self.assertAlmostEqual(float(re.search(r"time per step, .* (-[0-9.]+) %  +10.00 %", told)[1]), float(found[1]), delta=0.051)

    def test_a_topology_that_nobody_reads_is_not_named(self):
        self.assertIn("ring topology", " ".join(self.texts("a.h5")))
        subprocess.run([self.program, "run", "s.ini", "-q", "-o", "sums.h5", "algorithm.kind=allreduce"], cwd=self.folder, check=True)
        self.assertNotIn("topology", " ".join(self.texts("sums.h5")))

    def test_what_is_evaluated_by_time_alone_is_drawn(self):
        subprocess.run([self.program, "run", "s.ini", "-q", "-o", "by_time.h5", "run.until=8.5 ms", "run.evaluate_interval=2 ms"],
                       cwd=self.folder, check=True)  # before the 10 steps of the first row by step
        with h5py.File(self.folder / "by_time.h5") as file:
            accuracy = file["evaluation_by_time/test_accuracy"][-1]
        said = " ".join(self.texts("by_time.h5"))
        self.assertIn(f"test accuracy {accuracy:.1%}, 8 steps", said)
        self.assertIn("Test accuracy of the mean model", said)
        said = self.texts("by_time.h5", "by_time.h5")
        self.assertIn("test accuracy", said)
        self.assertIn("time (ms)", said)

    def test_progress_begins_at_the_start_and_ends_with_the_run(self):
        subprocess.run([self.program, "run", "s.ini", "-q", "-o", "uneven.h5", "run.until=20 ms", "compute.slow_nodes=1", "compute.slowdown=4",
                        "algorithm.kind=adpsgd", "run.record_every=8"], cwd=self.folder, check=True)
        figure, ax = plt.subplots()
        run_pace.draw_progress(ax, Results(self.folder / "uneven.h5"))
        corners = ax.collections[0].get_paths()[0].vertices
        self.assertEqual(corners.min(axis=0).tolist(), [0, 0])
        # Node 0 has not ended 8 steps of 4 ms by then.
        self.assertAlmostEqual(max(x for x, step in corners if step == 8), 20)
        plt.close(figure)

    def test_throughput_is_that_of_all_nodes_however_far_apart_they_are(self):
        timing = ["workload.kind=timing", "workload.parameters=610", "workload.dataset=default", "workload.hidden=default", "run.until=80 ms",
                  "algorithm.learning_rate=default", "run.steps=1000", "run.evaluate_every=1", "compute.slow_nodes=1", "compute.slowdown=4"]
        for name, more in (("by_steps", []), ("by_time", ["run.evaluate_interval=4 ms"])):
            subprocess.run([self.program, "run", "s.ini", "-q", "-o", f"{name}.h5", "algorithm.kind=adpsgd", *timing, *more], cwd=self.folder, check=True)
            results = Results(self.folder / f"{name}.h5")
            time, step, rate, unit = results.throughput()
            self.assertEqual(unit, "samples/s")
            # Three nodes end a step each ms, one in four; rows of steps, which the slow one ends last, would tell 4 / 4.
            np.testing.assert_allclose(np.median(rate), 16 * 1000 * (3 + 1 / 4), rtol=0.1)
            self.assertAlmostEqual(step[-1], results.nodes["steps"].mean(), delta=0.5)
            curve = self.laid_out(lambda path=self.folder / f"{name}.h5": convergence.draw([path])[0]).axes[0].lines[0]
            np.testing.assert_allclose(curve.get_xydata(), np.transpose([1000 * time, step]))
        subprocess.run([self.program, "run", "s.ini", "-q", "-o", "stops.h5", "algorithm.kind=adpsgd", *timing, "compute.slow_nodes=0",
                        "failures.stop=3 @ 40 ms"], cwd=self.folder, check=True)
        time, _, rate, _ = Results(self.folder / "stops.h5").throughput()
        np.testing.assert_allclose(np.median(rate[time < 0.03]), 16 * 1000 * 4, rtol=0.02)
        np.testing.assert_allclose(np.median(rate[time > 0.05]), 16 * 1000 * 3, rtol=0.02)

    def test_losses_that_span_decades_are_drawn_so(self):
        grown = self.changed("grown.h5", lambda file: file["evaluation/test_loss"].write_direct(np.array([1e3, 1e6, 1e9, 1e12])))
        for paths, scale in ((["a.h5", "slow.h5"], "linear"), (["a.h5", grown], "log")):
            figure = convergence.draw([self.folder / path for path in paths])[0]
            loss = next(ax for ax in figure.axes if ax.get_ylabel() == "test loss")
            self.assertEqual(loss.get_yscale(), scale)
            plt.close(figure)

    def test_a_run_that_ends_at_a_time_took_that_long(self):
        subprocess.run([self.program, "run", "s.ini", "-q", "-o", "cut.h5", "run.until=8.5 ms"], cwd=self.folder, check=True)
        self.assertIn("8 steps in 8.5 ms of virtual time", " ".join(self.texts("cut.h5")))
        told = subprocess.run([self.program, "compare", "cut.h5", "a.h5"], cwd=self.folder, capture_output=True, text=True).stdout
        theirs = float(re.search(r"time per step, .* ([-+0-9.]+) %  +10.00 %", told)[1])
        ours = float(re.search(r"time per step ([-+0-9.]+) %", self.plot("cut.h5", "a.h5", "--x", "time"))[1])
        self.assertAlmostEqual(ours, theirs, delta=0.051)
        self.assertGreater(ours, 5)  # 8 steps in 8.5 ms, where the other takes hardly more than 1 ms for each

    def test_how_far_apart_nodes_are_is_not_drawn_where_a_run_was_cut_before_all_got_there(self):
        for slowdown, count in ((1000, 0), (4, 2)):  # by 8.9 ms a node that takes 4 ms for a step has done two
            subprocess.run([self.program, "run", "s.ini", "-q", "-o", "far.h5", "algorithm.kind=adpsgd", "compute.slow_nodes=1",
                            f"compute.slowdown={slowdown}", "run.until=8.9 ms", "run.record_every=1"], cwd=self.folder, check=True)
            results = Results(self.folder / "far.h5")
            self.assertEqual(np.isfinite(run_pace.lag(results)).sum(), count)
            self.assertEqual(any(title.startswith("Spread") for title, *_ in run_pace.panels(results)), count > 0)
            self.assertIn(f"{count} to 8 steps in 8.9 ms", " ".join(self.texts("far.h5")))

    def test_a_run_by_other_code_is_drawn_over_the_simulation(self):
        (self.folder / "r.csv").write_text("# nodes = 4\n# samples_per_step = 16\nstep,time_seconds,test_loss\n20,0.03,\n40,0.08,1\n")
        said = self.plot("a.h5", "--reference", "--x", "time")
        # 1 ms per step, and little for messages, against 80 ms over 40 steps
        found = re.search(r"a against r: time per step (-[0-9.]+) %, test loss [0-9.]+ apart on average over 1 step\b", said)
        self.assertIsNotNone(found, said)
        self.assertAlmostEqual(float(found[1]), -50, delta=0.5)
        run = Run(self.folder / "r.csv")
        self.assertEqual(list(run.columns["samples"]), [20 * 4 * 16, 40 * 4 * 16])

    def test_a_training_loss_that_other_code_tells_is_drawn_over_that_of_all_nodes(self):
        (self.folder / "log.csv").write_text("step,time_seconds,train_loss,lr,acc\n10,0.02,2.0,0.1,1\n40,0.08,1.5,0.1,1\n")
        with h5py.File(self.folder / "a.h5") as file:
            ours = file["steps/train_loss"][()].mean(axis=1)
            steps = file["steps/step"][()]
        apart = sum(abs(float(ours[list(steps).index(step)]) - loss) for step, loss in ((10, 2.0), (40, 1.5))) / 2
        said = self.plot("a.h5", "log.csv", "--x", "time")
        self.assertIn(f"training loss {apart:.3g} apart on average over 2 steps", said)
        self.assertIn("note: of log nobody reads lr, acc", said)
        figure, _ = convergence.draw([self.folder / "a.h5", self.folder / "log.csv"])
        panels = [ax for ax in figure.axes if ax.get_ylabel() == "training loss"]
        self.assertEqual([len(line.get_xdata()) for line in panels[0].lines], [40, 2])
        self.assertIn("not known", [text.get_text() for ax in figure.axes for text in ax.texts])  # when its accuracy was reached
        plt.close(figure)
        figure, _ = convergence.draw([self.folder / "a.h5", self.folder / "slow.h5"])
        self.assertNotIn("training loss", [ax.get_ylabel() for ax in figure.axes])
        plt.close(figure)

    def test_the_time_to_a_target_is_read_off_between_two_rows(self):
        (self.folder / "t.csv").write_text("step,time_seconds,test_accuracy,test_loss\n1,10,0.5,2\n2,20,0.7,1\n3,30,0.6,0.5\n")
        run = Run(self.folder / "t.csv")
        self.assertAlmostEqual(run.reached("test_accuracy", 0.6)[0], 15)  # half the way from 0.5 to 0.7
        self.assertAlmostEqual(run.reached("test_loss", 0.75)[0], 25)     # half the way from 1 to 0.5
        self.assertEqual(run.reached("test_accuracy", 0.4), (10, True))   # there from the first row on
        self.assertTrue(math.isnan(run.reached("test_accuracy", 0.71)[0]))
        self.assertAlmostEqual(run.reached("test_accuracy", 0.6, "step")[0], 1.5)

    def test_a_time_to_a_target_that_the_first_row_is_at_is_a_bound(self):
        (self.folder / "late.csv").write_text("step,time_seconds,test_accuracy\n60,10,0.7\n80,20,0.9\n")
        (self.folder / "often.csv").write_text("step,time_seconds,test_accuracy\n1,1,0.1\n60,10,0.7\n80,20,0.9\n")
        files = [self.folder / "late.csv", self.folder / "often.csv"]
        figure, said = convergence.draw(files, [0.4])
        self.addCleanup(plt.close, figure)
        self.assertIn("late: 40% test accuracy after at most 10 s, at most 60 steps", said)
        self.assertIn("often: 40% test accuracy after 5.5 s, 30.5 steps", said)
        (panel,) = [ax for ax in figure.axes if ax.get_title() == "Time to test accuracy"]
        self.assertEqual([(round(bar.get_width(), 9), bar.get_fill()) for bar in panel.patches], [(10, False), (5.5, True)])
        self.assertEqual([text.get_text() for text in panel.texts], ["≤ 10", "5.5"])
        # targets that nobody asked for lie between 70 and 90 %
        figure, _ = convergence.draw(files)
        self.addCleanup(plt.close, figure)
        (panel,) = [ax for ax in figure.axes if ax.get_title() == "Time to test accuracy"]
        self.assertTrue(all(bar.get_fill() for bar in panel.patches))

    def test_targets_lie_beyond_the_first_rows_where_there_are_such(self):
        def targets(metric, *curves):
            runs = [unittest.mock.Mock(curve=lambda metric, against, values=values: (None, np.array(values))) for values in curves]
            return convergence.default_targets(runs, metric)
        self.assertEqual(targets("test_accuracy", [0.1, 0.9], [0.2, 1.0]), [0.72, 0.81, 0.9])
        self.assertEqual(targets("test_accuracy", [0.84, 0.9], [0.2, 1.0]), [0.86, 0.88, 0.9])
        self.assertEqual(targets("test_accuracy", [0.89, 0.9], [0.2, 1.0]), [0.9])
        self.assertEqual(targets("test_accuracy", [0.1, 0.5], [0.6, 0.9]), [0.4, 0.45, 0.5])
        self.assertEqual(targets("test_loss", [3, 1], [9, 0.5]), [2, 1.5, 1])
        self.assertEqual(targets("test_loss", [1.31, 1], [9, 0.5]), [1.2, 1.1, 1])

    def test_a_target_that_only_the_end_by_time_is_at_is_reached_then(self):
        def end(losses, times):
            def change(file):
                table = file.create_group("evaluation_by_time")
                table["time"], table["bytes_sent"], table["test_loss"] = times, [7e6 * time for time in times], losses
            return Run(self.folder / self.changed("ended.h5", change))
        run = end([0.001], [0.05])
        self.assertEqual([run.reached("test_loss", 0.01, axis) for axis in ("time", "bytes_sent")], [(0.05, True), (350000, True)])
        self.assertTrue(math.isnan(run.reached("test_loss", 0.01, "step")[0]))
        self.assertTrue(math.isnan(run.reached("test_loss", 0.0001)[0]))
        _, losses = run.curve("test_loss", "time")
        self.assertLess(run.reached("test_loss", losses[1:3].mean())[0], 0.04)  # between two rows by step
        self.assertAlmostEqual(end([0.02, 0.005], [0.05, 0.06]).reached("test_loss", 0.0125)[0], 0.055)

    def test_when_each_run_got_to_a_target_is_printed(self):
        (self.folder / "t.csv").write_text("step,time_seconds,bytes_sent,test_accuracy\n1,10,2e6,0.5\n2,20,4e6,0.7\n")
        said = self.plot("t.csv", "a.h5", "--target", "0.6", "0.999", "--x", "time")
        self.assertIn("t: 60% test accuracy after 15 s, 1.5 steps, 3 MB\nt: 99.9% test accuracy never\na: ", said)
        self.assertNotIn("test accuracy after", self.plot("t.csv", "a.h5", "--x", "time"))

    def test_curves_are_drawn_against_the_bytes_that_all_nodes_have_sent(self):
        figure, _ = convergence.draw([self.folder / "a.h5", self.folder / "slow.h5"], (), ("bytes_sent", "time"))
        panels = {ax.get_xlabel(): ax for ax in figure.axes if ax.get_ylabel() == "test accuracy" or not ax.get_ylabel()}
        plt.close(figure)
        # 4 nodes send two neighbors 610 floats at each of 40 steps, evaluated at every 10th
        ax = panels["bytes sent by all nodes (kB)"]
        np.testing.assert_allclose(ax.lines[0].get_xdata(), 4 * 2 * 610 * 4 * np.arange(10, 50, 10) / 1e3)
        self.assertEqual(ax.get_xscale(), "linear")
        self.assertIn("time (ms)", panels)
        # a hundredth of the entries, each with its place: a fiftieth of the bytes is a speck on a linear axis
        subprocess.run([self.program, "run", "s.ini", "-q", "-o", "coded.h5", "algorithm.kind=choco", "algorithm.compression=top_k",
                        "algorithm.keep=0.01", "algorithm.consensus_rate=0.1"], cwd=self.folder, check=True)
        figure, _ = convergence.draw([self.folder / "a.h5", self.folder / "coded.h5"], (), ("bytes_sent",))
        self.assertEqual(figure.axes[0].get_xscale(), "log")
        plt.close(figure)
        self.assertIn("bytes sent by all nodes (kB)", self.texts("a.h5", "--x", "bytes"))
        self.assertIn("invalid choice: 'byte'", self.plot("a.h5", "--x", "byte", status=2))

    def test_training_losses_stand_against_the_bytes_of_their_steps(self):
        run = Run(self.folder / "a.h5")
        run.read_training()
        np.testing.assert_array_equal(run.curve("train_loss", "bytes_sent")[0], 4 * 2 * 610 * 4 * np.arange(1, 41))

    def test_results_that_tell_no_bytes_say_so(self):
        def drop(file):
            del file["evaluation/bytes_sent"], file["steps/bytes_sent"]
        self.changed("old.h5", drop)
        self.assertIn("not told of old", self.texts("a.h5", "old.h5", "--x", "bytes"))
        self.assertIn("nothing that can be drawn", self.plot("old.h5", "--x", "bytes", status=1))

    def test_a_target_that_no_run_tells_of_is_said_to_be_idle(self):
        def drop(file):
            for column in [*file["evaluation"]]:
                if column.startswith(("test_", "consensus")):
                    del file[f"evaluation/{column}"]
            del file["steps/train_loss"]
        names = [self.changed(name, drop) for name in ("timing.h5", "timing2.h5")]
        self.assertIn("--target says nothing here", self.plot(*names, "--target", "0.9"))

    def test_a_run_over_mpi_takes_wall_time(self):
        def change(file):
            file["facts"].attrs["transport"] = np.bytes_("mpi")
        said = self.texts(self.changed("real.h5", change))
        self.assertFalse([text for text in said if "virtual" in text])
        self.assertTrue(any("of wall time" in text for text in said))
        self.assertTrue(any("over MPI" in text and "fluid" not in text for text in said))
        self.assertTrue(any("of virtual time" in text for text in self.texts("a.h5")))

    def test_the_reason_of_a_failure_is_cut_behind_a_clause(self):
        status = "failed: node 3 diverged at step 7: a number in its model is not finite; a smaller learning rate helps"
        self.assertEqual(headline.shortened(status), "failed: node 3 diverged at step 7 …")
        self.assertEqual(headline.shortened("failed: no room"), "failed: no room")

    def test_the_share_of_computing_is_that_of_all_nodes_time(self):
        # One node computes for 9 s of 9 s, three compute for 1 s of 2 s: 12 of 15 s. The mean of their shares would be 62 %,
        # the share of the 9 s that the run takes 33 %.
        def change(file):
            for name, values in {"compute": [9, 1, 1, 1], "wait": [0, 1, 1, 1], "communicate": [0] * 4, "finished": [9, 2, 2, 2]}.items():
                file[f"nodes/{name}"][...] = values
        self.assertTrue(any(text.endswith("nodes compute 80% of theirs") for text in self.texts(self.changed("uneven.h5", change))))

    def test_serving_after_the_last_step_is_set_apart(self):
        def change(file):
            for name, values in {"compute": [9, 2, 2, 2], "wait": [0, 1, 7, 0], "communicate": [0, 0, 0, 0], "finished": [9, 3, 2, 2]}.items():
                file[f"nodes/{name}"][...] = values
        results = Results(self.folder / self.changed("serving.h5", change))
        np.testing.assert_allclose(results.shares(), [[1, 0, 0, 0], [2 / 3, 0, 1 / 3, 0], [2 / 9, 0, 0, 7 / 9], [1, 0, 0, 0]])
        said = self.texts("serving.h5")
        self.assertTrue(any(text.endswith("nodes compute 94% of theirs up to their last steps") for text in said), said)  # 15 of 16 s
        self.assertIn("serve after last step", said)
        self.assertNotIn("serve after last step", self.texts("a.h5"))

    def test_a_node_that_stopped_is_away_from_then_on(self):
        subprocess.run([self.program, "run", "s.ini", "-q", "-o", "stops.h5", "failures.stop=2 @ 10 ms", "algorithm.kind=adpsgd",
                        "algorithm.patience=1 ms"], cwd=self.folder, check=True)
        results = Results(self.folder / "stops.h5")
        share = results.shares().sum(axis=1)
        self.assertAlmostEqual(share[2], 0.0095 / results.end, delta=0.001 / results.end)  # a gradient that was not ended does not count
        self.assertLess(share[2], 0.3)
        np.testing.assert_allclose(share[[0, 1, 3]], 1)
        figure = self.laid_out(lambda: run.draw(results, "stops.h5", None))
        (shares,) = [ax for ax in figure.axes if ax.get_title("left") == "Each node's time up to its end"]
        self.assertIn("away", [text.get_text() for text in shares.get_legend().get_texts()])
        self.assertGreater(shares.get_legend().get_window_extent().x0, shares._left_title.get_window_extent().x1)

    def test_the_title_says_which_stretch_of_the_run_the_timeline_shows(self):
        def title(*window):
            figure = self.laid_out(lambda: run.draw(Results(self.folder / "a.h5"), "a.h5", window or None))
            (ax,) = [ax for ax in figure.axes if ax.get_title("left").startswith("What the nodes did")]
            self.assertGreater(ax.get_legend().get_window_extent().x0, ax._left_title.get_window_extent().x1)
            return ax.get_title("left"), ax.get_xlim()
        end = Results(self.folder / "a.h5").end
        self.assertEqual(title()[0], f"What the nodes did, first {24e3 * end / 40:.3g} ms of {1e3 * end:.3g} ms")
        self.assertEqual(title(0.01, 0.02), (f"What the nodes did, 10–20 ms of {1e3 * end:.3g} ms", (10, 20)))
        said, (begin, last) = title(0, 9)  # which is as far as it was kept
        self.assertEqual((said, begin), ("What the nodes did", 0))
        self.assertAlmostEqual(last, 1e3 * end)

    def test_of_many_nodes_groups_of_neighbors_are_drawn(self):
        # Every 8th node would be the first of each host of eight.
        self.assertEqual(list(run_activities.shown_nodes(64)), list(range(64)))
        for count in (65, 512, 1000):
            shown = run_activities.shown_nodes(count)
            self.assertEqual(len(set(shown)), 64)
            self.assertEqual((shown[0], shown[-1]), (0, count - 1))
            self.assertEqual(len({tuple(shown[i:i + 8] - shown[i]) for i in range(0, 64, 8)}), 1)
            self.assertEqual(len(set(shown % 8)), 8)

    def test_rows_of_the_timeline_are_named_at_even_distances(self):
        def change(file):
            for name in [*file["nodes"]]:
                values = np.resize(file[f"nodes/{name}"][()], 100)
                del file[f"nodes/{name}"]
                file[f"nodes/{name}"] = values
            file["timeline/node"][...] = np.arange(len(file["timeline/node"])) % 100
        for name, label in ((self.changed("hundred.h5", change), "node (64 of 100, in groups of 8)"), ("a.h5", "node")):
            figure, ax = plt.subplots()
            run_activities.draw_timeline(ax, Results(self.folder / name), (0, 0.02))
            numbers_of_nodes = [int(tick.get_text()) for tick in ax.get_yticklabels()]
            self.assertEqual(ax.get_ylabel(), label)
            self.assertGreater(len(numbers_of_nodes), 3)
            self.assertLessEqual(np.ptp(np.diff(numbers_of_nodes)), 1, numbers_of_nodes)
            plt.close(figure)

    def test_pictures_of_links_and_of_the_run_lie_beside_each_other(self):
        shutil.copy(self.folder / "a.h5", self.folder / "beside.h5")
        self.assertEqual([self.plot("beside.h5", *words).splitlines(keepends=True)[-1] for words in ([], ["--links"], ["--convergence"])],
                         ["wrote beside.png\n", "wrote beside_links.png\n", "wrote beside_convergence.png\n"])

    def test_a_distance_of_zero_breaks_the_line_of_a_logarithmic_axis(self):
        def change(file):
            file["evaluation/consensus_distance"][...] = [0.1, 0.2, 0, 0.3]
        self.assertEqual(self.points_of_the_green_line(self.changed("zero.h5", change)), [2, 1])
        self.assertEqual(self.points_of_the_green_line("a.h5"), [4])
        figure = convergence.draw([self.folder / "a.h5", self.folder / "zero.h5"])[0]
        ax = next(ax for ax in figure.axes if ax.get_ylabel() == "consensus distance")
        zeros, curve = [line for line in ax.lines if line.get_color() == SERIES[1]]
        self.assertEqual(zeros.get_ydata().tolist(), [0])
        np.testing.assert_array_equal(curve.get_ydata(), [0.1, 0.2, np.nan, 0.3])
        plt.close(figure)

    def test_samples_of_a_reference_that_tells_none_are_not_known(self):
        (self.folder / "untold.csv").write_text("\ufeffstep,time_seconds,test_loss\n20,0.03,2\n40,0.08,1\n", encoding="utf-8")
        run = Run(self.folder / "untold.csv")
        self.assertEqual(len(run.curve("test_loss", "samples")[0]), 0)
        self.assertEqual(len(run.curve("test_loss", "step")[0]), 2)

    def test_runs_of_one_name_are_told_apart_by_their_folders(self):
        (self.folder / "real").mkdir()
        (self.folder / "real" / "a.h5").write_bytes((self.folder / "slow.h5").read_bytes())
        self.assertIn(f"{self.folder.name}/a against real/a: time per step -", self.plot("a.h5", "real/a.h5", "--x", "time"))

    def test_the_median_node_is_known_as_far_as_half_of_them_got(self):
        # Of the fourth, of a lost rank, nothing is known.
        time = np.array([[1, 2, 4, np.nan], [2, 4, np.nan, np.nan], [3, np.nan, np.nan, np.nan]])
        results = unittest.mock.Mock(steps={"time": time, "step": np.array([1, 2, 3])}, end=4.5, clock="virtual time",
                                     is_told=lambda: np.array([True, True, True, False]))
        figure, ax = plt.subplots()
        run_pace.draw_progress(ax, results)
        median, = (line for line in ax.lines if line.get_label() == "median node")
        self.assertEqual(median.get_ydata().tolist(), [0, 1, 2])
        self.assertEqual((np.array(median.get_xdata()) / median.get_xdata()[-1]).tolist(), [0, 0.5, 1])
        plt.close(figure)

    def test_quantities_of_one_kind_share_an_axis(self):
        self.assertEqual(numbers(["0.001 s", "2 ms", "100 us", "0"]), ([1, 2, 0.1, 0], "ms"))
        self.assertEqual(numbers(["1 GB/s", "16 Gbit/s"]), ([8, 16], "Gbit/s"))
        self.assertEqual(numbers(["3", "4"]), ([3, 4], ""))
        self.assertEqual(numbers(["3 things", "0"]), ([3, 0], "things"))
        for texts in (["1 s", "1 MB"], ["1 s", "2"], ["ring", "2"]):
            self.assertIsNone(numbers(texts))

    def test_two_runs_of_long_names_are_both_named_beside_their_deviations(self):
        first, others = "a" * 40, ["b" * 40, "c" * 40]
        lines = convergence.apart_in_lines([(first, other, ["as one"]) for other in others], 38)
        self.assertLessEqual(max(map(len, lines)), 38)
        for line, letter in zip((lines[1], lines[4]), "bc"):
            self.assertTrue(line.startswith("  " + letter), line)
        self.assertEqual(convergence.apart_in_lines([("a", "b", ["as one"])], 38), ["a against b:", "  as one"])

    def test_what_is_drawn_against_time_alone_is_named(self):
        subprocess.run([self.program, "run", "s.ini", "-q", "-o", "unsteady.h5", "run.until=5 ms", "run.evaluate_interval=2 ms", "run.evaluate_every=40"],
                       cwd=self.folder, check=True)
        results = Results(self.folder / "unsteady.h5")
        self.assertEqual(len(results.evaluated("test_loss", "step")[0]), 0)
        figure, axes = plt.subplots(1, 2)
        run_evaluations.draw_loss(dict(zip(("time", "step"), axes)), results, {"time": 1, "step": 1})
        self.assertEqual([text.get_text() for text in axes[1].get_legend().get_texts()], ["training, mean and range of nodes", "test, mean model"])
        plt.close(figure)

    def test_a_single_loss_among_unknown_ones_is_seen(self):
        def change(file):
            file["steps/train_loss"][1:, :] = math.nan
        results = Results(self.folder / self.changed("single.h5", change))
        figure, axes = plt.subplots(1, 2)
        run_evaluations.draw_loss(dict(zip(("time", "step"), axes)), results, {"time": 1, "step": 1})
        self.assertEqual(axes[0].lines[0].get_marker(), "o")
        plt.close(figure)

    def test_a_run_beside_a_much_longer_one_is_no_speck(self):
        (self.folder / "far.csv").write_text("step,time_seconds\n100000,125\n")
        (self.folder / "near.csv").write_text("step,time_seconds\n10,0.0125\n30,0.0375\n")
        for others, scale in (("far.csv", "log"), ("near.csv", "linear")):
            figure, _ = convergence.draw([self.folder / "near.csv", self.folder / others])
            self.assertEqual(figure.axes[0].get_xscale(), scale)
            plt.close(figure)

    def test_an_auc_is_written_in_capitals(self):
        for name, auc in (("auc", 0.5), ("other", 0.6)):
            (self.folder / f"{name}.csv").write_text(f"step,time_seconds,test_auc\n1,10,{auc}\n2,20,0.7\n")
        figure, said = convergence.draw([self.folder / "auc.csv", self.folder / "other.csv"], [0.65])
        self.addCleanup(plt.close, figure)
        self.assertIn("test AUC", {ax.get_ylabel() for ax in figure.axes})
        self.assertIn("Time to test AUC", {ax.get_title("left") for ax in figure.axes} | {ax.get_title() for ax in figure.axes})
        self.assertIn("auc: test AUC 0.65 after 17.5 s, 1.75 steps", said)
        self.assertIn("test AUC 5.00 points apart on average over 2 steps", said[0])
        (self.folder / "other.csv").write_text("step,time_seconds,test_auc\n2,20,0.7\n")
        one, other = (Run(self.folder / f"{name}.csv") for name in ("auc", "other"))
        self.assertIn("test AUC 0.00 points apart on average over 1 step", convergence.deviations(one, other))

    def test_a_long_name_does_not_run_into_what_stands_beside_it(self):
        name = "group_size=4,delay=160 ms,learning_rate=0.1,activation=full,nodes=1024,seed=1"
        shutil.copy(self.folder / "a.h5", self.folder / f"{name}.h5")
        for words in ([], ["--links"]):
            said = self.texts(f"{name}.h5", *words)
            self.assertFalse([text for text in said if text.startswith(name)])
            self.assertTrue(any(re.match("group_size=4,delay.*….*seed=1|group_size=4,delay.*….*links", text) for text in said), said)
        self.assertIn("slow", self.texts("slow.h5"))

    def test_the_name_of_a_run_beside_others_ends_within_the_picture(self):
        long = f"{'long_name_' * 20}.h5"
        shutil.copy(self.folder / "a.h5", self.folder / long)
        figure, _ = convergence.draw([self.folder / "a.h5", self.folder / long, self.folder / "slow.h5"])
        figure.canvas.draw()
        written = [*figure.axes[0].get_legend().get_texts(), *(text for ax in figure.axes for text in ax.texts)]
        self.assertTrue(any("…" in text.get_text() for text in written))
        self.assertLess(max(text.get_window_extent().x1 for text in written), figure.bbox.x1)
        plt.close(figure)

    def test_what_is_written_beside_two_columns_ends_within_the_picture(self):
        names = [f"{which}_run_of_several_that_were_made_here.h5" for which in ("one", "another", "last")]
        for name in names:
            shutil.copy(self.folder / "a.h5", self.folder / name)
        figure = self.laid_out(lambda: convergence.draw([self.folder / name for name in names], (), ("bytes_sent", "time"))[0])
        for words in [figure._suptitle, *(text for ax in figure.axes for text in ax.texts)]:
            self.assertLess(words.get_window_extent().x1, figure.bbox.x1, words.get_text())
        (beside,) = [text for ax in figure.axes for text in ax.texts if "against" in text.get_text() or "…" in text.get_text()]
        self.assertIn("average over 4", " ".join(beside.get_text().split()))

    def test_links_of_a_kind_are_told_apart_by_their_numbers(self):
        names = [*(f"host {i} up" for i in range(30)), *(f"edge {i} -> core {i // 2}" for i in range(6)), "a cable of its own"]
        kinds = links.kinds_of(names)
        self.assertEqual({kind: len(own) for kind, own in kinds.items()}, {"host # up": 30, "edge # -> core #": 6, "a cable of its own": 1})
        mean = np.concatenate([np.full(30, 0.5), [0.1, 0.2, 0.3, 0.1, 0.1, 0.1], [0.25]])
        order = np.argsort(-mean, kind="stable")
        shown = links.chosen(order, kinds)
        self.assertEqual(list(shown), [*range(18), 32, 36])  # the busiest of each
        self.assertEqual([line.split("  ")[0].strip() for line in links.loads_of_kinds(kinds, mean)],
                         ["host # up", "edge # -> core #", "a cable of its own"])
        self.assertIn(" 6 links, mean load 15.0 %, of the busiest 30.0 %", list(links.loads_of_kinds(kinds, mean))[1])
        cities = [f"{a} -> {b}" for a in "abcd" for b in "abcd" if a != b]
        self.assertEqual(links.kinds_of(cities), {})
        self.assertEqual(list(links.chosen(np.arange(40), {})), list(range(20)))

    def test_a_window_is_of_the_load_of_links_over_time(self):
        results = Results(self.folder / "a.h5")
        end = results.link_timeline["end"].max() / 1e12
        whole, said = links.draw(results, "a.h5")
        part, _ = links.draw(results, "a.h5", (end / 4, end / 2))
        self.assertTrue(all(" links, mean load " in line for line in said), said)
        heats = [figure.axes[2].images[0] for figure in (whole, part)]
        # A quarter of the time in as many stretches carries what the same time does in the whole picture.
        np.testing.assert_allclose(heats[1].get_array().mean(axis=1), heats[0].get_array()[:, 60:120].mean(axis=1), rtol=1e-6, atol=1e-9)
        self.assertAlmostEqual(heats[1].get_extent()[0] / heats[0].get_extent()[1], 0.25)
        plt.close("all")

    def test_links_are_counted_in_whole_numbers(self):
        figure, ax = plt.subplots()
        links.draw_sorted_loads(ax, np.linspace(0.2, 0.1, 20), np.ones(20))
        ticks = ax.get_xticks()
        self.assertGreater(len(ticks), 2)
        self.assertEqual([tick for tick in ticks if tick % 1], [])
        plt.close(figure)

    def test_time_that_a_node_was_away_is_named(self):
        subprocess.run([self.program, "run", "s.ini", "-q", "-o", "paused.h5", "failures.pause=1 @ 5 ms for 9 ms"], cwd=self.folder, check=True)
        self.assertIn("away", self.texts("paused.h5"))
        self.assertNotIn("away", self.texts("a.h5"))

    def test_the_legend_of_a_run_with_time_away_leaves_the_heading_free(self):
        subprocess.run([self.program, "run", "s.ini", "-q", "-o", "paused.h5", "failures.pause=1 @ 5 ms for 9 ms"], cwd=self.folder, check=True)
        figure = self.laid_out(lambda: run.draw(Results(self.folder / "paused.h5"), "paused.h5", None))
        (shares,) = [ax for ax in figure.axes if ax.get_title("left") == "Each node's time up to its end"]
        legend = shares.get_legend()
        self.assertEqual([text.get_text() for text in legend.get_texts()], ["compute", "communicate", "wait", "away"])
        self.assertGreater(legend.get_window_extent().x0, shares._left_title.get_window_extent().x1)

    def test_time_that_no_failure_took_is_not_called_away(self):
        for short, stopped, what in ((0, 0, []), (1, 0, ["not accounted for"]), (1, 1, ["away"]), (2, 1, ["away or not accounted for"])):
            def change(file):
                file["nodes/finished"][...] = 2
                for name in ACTIVITIES:
                    file[f"nodes/{name}"][...] = 0
                file["nodes/compute"][...] = [1] * short + [2] * (4 - short)
                file["statistics"].attrs["failures.stopped_nodes"] = stopped
            results = Results(self.folder / self.changed("short.h5", change))
            figure = self.laid_out(lambda: run.draw(results, "short.h5", None))
            (shares,) = [ax for ax in figure.axes if ax.get_title("left") == "Each node's time up to its end"]
            legend = shares.get_legend()
            self.assertEqual([text.get_text() for text in legend.get_texts()] if legend else [], what)

    def test_points_at_the_end_are_drawn_whole(self):
        # The slowest of 8 nodes ends but one step before all wait for one that stopped.
        subprocess.run([self.program, "run", "s.ini", "-q", "-o", "stalled.h5", "run.nodes=8", "run.evaluate_every=1", "failures.stop=7 @ 0.5 ms",
                        "compute.slow_nodes=1", "compute.slowdown=100"], cwd=self.folder, capture_output=True)
        figure = self.laid_out(lambda: run.draw(Results(self.folder / "stalled.h5"), "stalled.h5", None))
        (ax,) = [ax for ax in figure.axes if ax.get_title("left") == "Loss"]
        last = max(np.nanmax(line.get_xdata()) for line in ax.lines)
        self.assertGreater(ax.get_xlim()[1], 1.03 * last)

    def test_a_short_run_is_drawn_beside_a_long_reference_in_all_panels_and_on_equal_scales(self):
        subprocess.run([self.program, "run", "s.ini", "-q", "-o", "timing.h5", "workload.kind=timing", "workload.bytes=1 MB", "workload.dataset=default",
                        "workload.hidden=default", "workload.samples=640"], cwd=self.folder, check=True)
        (self.folder / "long.csv").write_text("# nodes = 4\n# samples_per_step = 16\nstep,time_seconds\n40000,14400\n")
        figure = self.laid_out(lambda: convergence.draw([self.folder / "timing.h5", self.folder / "long.csv"])[0])
        *curves, pace = figure.axes
        self.assertEqual([ax.get_xlabel() for ax in curves], ["time (s)", "samples", "epochs"])  # not 1e-5 h
        self.assertEqual({(ax.get_xscale(), ax.get_yscale()) for ax in curves}, {("log", "log")})
        self.assertEqual(list(curves[2].lines[1].get_xdata()), [40000 * 4 * 16 / 640])
        self.assertRegex(pace.texts[1].get_text(), r"^360 \(first: -99\.\d %\)$")
        self.assertLess(pace.texts[1].get_window_extent().x1, figure.bbox.x1)

    def test_a_run_that_does_not_tell_its_time_is_named_where_it_is_missing(self):
        (self.folder / "r.csv").write_text("step,test_loss\n40,1\n")
        self.assertIn("not told of r", self.texts("a.h5", "r.csv"))
        self.assertFalse([text for text in self.texts("a.h5", "slow.h5") if text.startswith("not told")])

    def test_runs_whose_nodes_all_diverged_have_no_final_loss(self):
        (self.folder / "q.ini").write_text(re.sub(r"kind = mlp\n.*?\[", "kind = quadratic\n[", SCENARIO, flags=re.DOTALL))
        done = subprocess.run([self.program, "run", "q.ini", "-o", "q.h5", "run.on_divergence=mark", "run.steps=60", "algorithm.learning_rate=5"],
                              cwd=self.folder, check=True, capture_output=True, text=True)
        self.assertIn("4 of 4 nodes", done.stdout)
        self.assertNotIn("test loss", done.stdout)  # that of step 40 is finite
        said = self.texts("q.h5")
        self.assertTrue(any(text.startswith("all nodes diverged, 60 steps") for text in said), said)


if __name__ == "__main__":
    main("program")
