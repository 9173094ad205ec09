#!/usr/bin/python3
"""`tools/plot`: every kind of picture is made, as PNG and as SVG, and what it says of several runs is right.

usage: test_plot.py STARLING
"""
import csv
import math
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

import h5py
import matplotlib.pyplot as plt
import numpy as np
from python_tool import TOOLS, call  # which puts the tools' folder on the path

from pictures import convergence, links, run, sweep
from pictures.published import Published
from pictures.style import SERIES, STYLE, numbers, save, short, short_number

SCENARIO = """[run]
nodes = 4
steps = 40
evaluate_every = 10
[topology]
kind = ring
[network]
kind = fluid
latency = 1 us
bandwidth = 1 GB/s
[compute]
gradient = 1 ms
[workload]
kind = mlp
dataset = digits
hidden = 8
batch_size = 16
[algorithm]
kind = dpsgd
learning_rate = 0.05
"""


class PlotTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="starling-plot-")
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        (cls.folder / "s.ini").write_text(SCENARIO + "[reference]\nfile = r.csv\n")
        for name, settings in {"a": ["run.timeline=1 s"], "slow": ["compute.gradient=1.2 ms"]}.items():
            subprocess.run([PROGRAM, "run", "s.ini", "-q", "-o", f"{name}.h5", *settings], cwd=cls.folder, check=True)
        (cls.folder / "sweep.ini").write_text(SCENARIO + "[sweep]\nrun.nodes = 4, 8\nalgorithm.learning_rate = 0.05, 0.1\nrepeats = 2\n")
        subprocess.run([PROGRAM, "sweep", "sweep.ini", "-q", "-o", "swept"], cwd=cls.folder, check=True)

    def plot(self, *words, status=0):
        """What the tool says."""
        end, said = call("plot", words, self.folder)
        self.assertEqual(end, status, said)
        return said

    def changed(self, name, change):
        """A copy of a.h5 in which `change` has written."""
        (self.folder / name).write_bytes((self.folder / "a.h5").read_bytes())
        with h5py.File(self.folder / name, "r+") as file:
            change(file)
        return name

    def texts(self, *words):
        """What a picture says, glyph by glyph replaced by what the glyphs were drawn for."""
        self.plot(*words, "-o", "read.svg")
        return re.findall(r"<!-- (.*?) -->", (self.folder / "read.svg").read_text())

    def points_of_the_green_line(self, *words):
        """Numbers of points of the unbroken pieces of the green line on the left."""
        self.plot(*words, "-o", "read.svg")
        tree = xml.etree.ElementTree.parse(self.folder / "read.svg")
        lines = [path.get("d") for path in tree.iter("{http://www.w3.org/2000/svg}path")
                 if "stroke: #009e73" in path.get("style", "") and "fill: none" in path.get("style", "")]
        return [piece.count("L") + 1 for piece in lines[0].split("M")[1:]]

    def test_every_kind_is_drawn(self):
        for suffix, start, *words in ((".png", b"\x89PNG", "a.h5"), (".svg", b"<?xml", "a.h5", "--links"),
                                      (".svg", b"<?xml", "a.h5", "slow.h5", "--target", "0.1", "0.99"),
                                      (".png", b"\x89PNG", "swept", "--target", "0.3")):
            with self.subTest(words=words):
                self.plot(*words, "-o", f"picture{suffix}")
                drawn = (self.folder / f"picture{suffix}").read_bytes()
                self.assertEqual(drawn[:len(start)], start)
                self.assertGreater(len(drawn), 10_000)

    def test_pictures_of_the_same_results_are_the_same(self):
        drawn = []
        for name in ("one.svg", "two.svg"):
            self.plot("a.h5", "slow.h5", "-o", name)
            drawn.append((self.folder / name).read_bytes())
        self.assertEqual(*drawn)

    def test_training_and_test_losses_stand_at_the_same_times(self):
        subprocess.run([PROGRAM, "run", "s.ini", "-q", "-o", "skewed.h5", "compute.slow_nodes=1", "compute.slowdown=4", "algorithm.kind=adpsgd"],
                       cwd=self.folder, check=True)
        with h5py.File(self.folder / "skewed.h5") as file:
            times, steps, step = (file[name][()] for name in ("evaluation/time", "evaluation/step", "steps/step"))
        rows = np.searchsorted(step, steps)
        np.testing.assert_array_equal(run.Results(self.folder / "skewed.h5").training("time")[0][rows], times)
        beside = convergence.Run(self.folder / "skewed.h5")
        beside.read_training()
        np.testing.assert_array_equal(beside.curve("train_loss", "time")[0][rows], times)
        figure, axes = plt.subplots(1, 2)
        run.draw_loss(dict(zip(("time", "step"), axes)), run.Results(self.folder / "skewed.h5"), 1.0)
        self.assertEqual([line.get_xdata()[-1] for line in axes[0].lines], [times[-1]] * 2)
        plt.close(figure)

    def test_training_losses_at_equal_times_are_the_newest_of_each_node(self):
        def change(file):
            table = file.create_group("evaluation_by_time")
            table["time"], table["test_loss"] = [2.0, 4.0], [1.0, 0.5]
            for name, values in {"time": [[1, 2, 9, 9], [2, 4, 9, 9], [3, math.nan, 9, 9], [4, math.nan, 9, 9]],
                                 "train_loss": [[8, 4, 1, 1], [6, 2, 1, 1], [4, math.nan, 1, 1], [2, math.nan, 1, 1]]}.items():
                del file[f"steps/{name}"]
                file[f"steps/{name}"] = np.array(values, dtype=float)
        at, low, mean, high = run.Results(self.folder / self.changed("newest.h5", change)).training("time")
        self.assertEqual(at.tolist(), [1, 2, 3, 4])
        self.assertEqual([low.tolist(), mean.tolist(), high.tolist()], [[8, 4, 4, 2], [8, 5, 4, 2], [8, 6, 4, 2]])

    def test_time_does_not_run_backwards_where_nodes_stopped(self):
        def change(file):
            file["evaluation/time"][...] = [1, 5, 3, 6]  # the slow node ended but two of the four
        results = run.Results(self.folder / self.changed("stopped.h5", change))
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
        told = subprocess.run([PROGRAM, "compare", "a.h5", "slow.h5"], cwd=self.folder, capture_output=True, text=True).stdout
        self.assertAlmostEqual(float(re.search(r"time per step, .* (-[0-9.]+) %  +10.00 %", told)[1]), float(found[1]), delta=0.051)

    def test_a_topology_that_nobody_reads_is_not_named(self):
        self.assertIn("ring topology", " ".join(self.texts("a.h5")))
        subprocess.run([PROGRAM, "run", "s.ini", "-q", "-o", "sums.h5", "algorithm.kind=allreduce"], cwd=self.folder, check=True)
        self.assertNotIn("topology", " ".join(self.texts("sums.h5")))

    def test_what_is_evaluated_by_time_alone_is_drawn(self):
        subprocess.run([PROGRAM, "run", "s.ini", "-q", "-o", "by_time.h5", "run.until=8.5 ms", "run.evaluate_interval=2 ms"],
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
        subprocess.run([PROGRAM, "run", "s.ini", "-q", "-o", "uneven.h5", "run.until=20 ms", "compute.slow_nodes=1", "compute.slowdown=4",
                        "algorithm.kind=adpsgd", "run.record_every=8"], cwd=self.folder, check=True)
        figure, ax = plt.subplots()
        run.draw_progress(ax, run.Results(self.folder / "uneven.h5"))
        corners = ax.collections[0].get_paths()[0].vertices
        self.assertEqual(corners.min(axis=0).tolist(), [0, 0])
        # Node 0 has not ended 8 steps of 4 ms by then.
        self.assertAlmostEqual(max(x for x, step in corners if step == 8), 20)
        plt.close(figure)

    def test_a_run_that_ends_at_a_time_took_that_long(self):
        subprocess.run([PROGRAM, "run", "s.ini", "-q", "-o", "cut.h5", "run.until=8.5 ms"], cwd=self.folder, check=True)
        self.assertIn("8 steps in 8.5 ms of virtual time", " ".join(self.texts("cut.h5")))
        told = subprocess.run([PROGRAM, "compare", "cut.h5", "a.h5"], cwd=self.folder, capture_output=True, text=True).stdout
        theirs = float(re.search(r"time per step, .* ([-+0-9.]+) %  +10.00 %", told)[1])
        ours = float(re.search(r"time per step ([-+0-9.]+) %", self.plot("cut.h5", "a.h5", "--x", "time"))[1])
        self.assertAlmostEqual(ours, theirs, delta=0.051)
        self.assertGreater(ours, 5)  # 8 steps in 8.5 ms, where the other takes hardly more than 1 ms for each

    def test_a_run_by_other_code_is_drawn_over_the_simulation(self):
        (self.folder / "r.csv").write_text("# nodes = 4\n# samples_per_step = 16\nstep,time_seconds,test_loss\n20,0.03,\n40,0.08,1\n")
        said = self.plot("a.h5", "--reference", "--x", "time")
        # 1 ms per step, and little for messages, against 80 ms over 40 steps
        found = re.search(r"a against r: time per step (-[0-9.]+) %, test loss [0-9.]+ apart on average over 1 step\b", said)
        self.assertIsNotNone(found, said)
        self.assertAlmostEqual(float(found[1]), -50, delta=0.5)
        run = convergence.Run(self.folder / "r.csv")
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
        run = convergence.Run(self.folder / "t.csv")
        self.assertAlmostEqual(run.reached("test_accuracy", 0.6), 15)  # half the way from 0.5 to 0.7
        self.assertAlmostEqual(run.reached("test_loss", 0.75), 25)     # half the way from 1 to 0.5
        self.assertEqual(run.reached("test_accuracy", 0.4), 10)        # there from the first row on
        self.assertTrue(math.isnan(run.reached("test_accuracy", 0.71)))
        self.assertAlmostEqual(run.reached("test_accuracy", 0.6, "step"), 1.5)

    def test_a_target_that_only_the_end_by_time_is_at_is_reached_then(self):
        def end(losses, times):
            def change(file):
                table = file.create_group("evaluation_by_time")
                table["time"], table["bytes_sent"], table["test_loss"] = times, [7e6 * time for time in times], losses
            return convergence.Run(self.folder / self.changed("ended.h5", change))
        run = end([0.001], [0.05])
        self.assertEqual([run.reached("test_loss", 0.01, axis) for axis in ("time", "bytes_sent")], [0.05, 350000])
        self.assertTrue(math.isnan(run.reached("test_loss", 0.01, "step")))
        self.assertTrue(math.isnan(run.reached("test_loss", 0.0001)))
        _, losses = run.curve("test_loss", "time")
        self.assertLess(run.reached("test_loss", losses[1:3].mean()), 0.04)  # between two rows by step
        self.assertAlmostEqual(end([0.02, 0.005], [0.05, 0.06]).reached("test_loss", 0.0125), 0.055)

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
        subprocess.run([PROGRAM, "run", "s.ini", "-q", "-o", "coded.h5", "algorithm.kind=choco", "algorithm.compression=top_k",
                        "algorithm.keep=0.01", "algorithm.consensus_rate=0.1"], cwd=self.folder, check=True)
        figure, _ = convergence.draw([self.folder / "a.h5", self.folder / "coded.h5"], (), ("bytes_sent",))
        self.assertEqual(figure.axes[0].get_xscale(), "log")
        plt.close(figure)
        self.assertIn("bytes sent by all nodes (kB)", self.texts("a.h5", "--x", "bytes"))
        self.assertIn("invalid choice: 'byte'", self.plot("a.h5", "--x", "byte", status=2))

    def test_training_losses_stand_against_the_bytes_of_their_steps(self):
        run = convergence.Run(self.folder / "a.h5")
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

    def test_curves_of_a_sweep_are_drawn_against_bytes(self):
        figure = sweep.draw(self.folder / "swept", axes=("bytes_sent",))
        labels = {ax.get_xlabel(): ax for ax in figure.axes}
        self.assertNotIn("virtual time (s)", labels)
        # 4 and 8 nodes; the text of a tick is in the unit that the label names
        ax = labels["bytes sent by all nodes (MB)"]
        np.testing.assert_allclose([line.get_xdata()[-1] for line in ax.lines], [4 * 2 * 610 * 4 * 40, 8 * 2 * 610 * 4 * 40])
        self.assertEqual(ax.xaxis.get_major_formatter()(1e6, 0), "1")
        plt.close(figure)
        self.assertIn("--x wants a metric that has curves", self.plot("swept", "--x", "bytes", "--metric", "samples_per_second", status=1))

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
        self.assertEqual(run.shortened(status), "failed: node 3 diverged at step 7 …")
        self.assertEqual(run.shortened("failed: no room"), "failed: no room")

    def test_bars_of_shares_end_where_shares_do(self):
        cells = [(0.9, 0.2), (0.1, 0.3), (np.nan, np.nan)]
        np.testing.assert_allclose(sweep.bars_of("test_accuracy", cells), [[0.2, 0.1, np.nan], [0.1, 0.3, np.nan]])
        np.testing.assert_allclose(sweep.bars_of("test_loss", cells), [[0.2, 0.3, np.nan]] * 2)
        self.assertIsNone(sweep.bars_of("target_reached", cells))

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
        results = run.Results(self.folder / self.changed("serving.h5", change))
        np.testing.assert_allclose(results.shares(), [[1, 0, 0, 0], [2 / 3, 0, 1 / 3, 0], [2 / 9, 0, 0, 7 / 9], [1, 0, 0, 0]])
        said = self.texts("serving.h5")
        self.assertTrue(any(text.endswith("nodes compute 94% of theirs up to their last steps") for text in said), said)  # 15 of 16 s
        self.assertIn("serve after last step", said)
        self.assertNotIn("serve after last step", self.texts("a.h5"))

    def test_a_node_that_stopped_is_away_from_then_on(self):
        subprocess.run([PROGRAM, "run", "s.ini", "-q", "-o", "stops.h5", "failures.stop=2 @ 10 ms", "algorithm.kind=adpsgd",
                        "algorithm.patience=1 ms"], cwd=self.folder, check=True)
        results = run.Results(self.folder / "stops.h5")
        share = results.shares().sum(axis=1)
        self.assertAlmostEqual(share[2], 0.0095 / results.end, delta=0.001 / results.end)  # a gradient that was not ended does not count
        self.assertLess(share[2], 0.3)
        np.testing.assert_allclose(share[[0, 1, 3]], 1)
        figure = self.laid_out(lambda: run.draw(results, "stops.h5", None))
        (shares,) = [ax for ax in figure.axes if ax.get_title("left") == "How the nodes spent the whole run"]
        self.assertIn("away", [text.get_text() for text in shares.get_legend().get_texts()])
        self.assertGreater(shares.get_legend().get_window_extent().x0, shares._left_title.get_window_extent().x1)

    def test_the_title_says_which_stretch_of_the_run_the_timeline_shows(self):
        def title(*window):
            figure = self.laid_out(lambda: run.draw(run.Results(self.folder / "a.h5"), "a.h5", window or None))
            (ax,) = [ax for ax in figure.axes if ax.get_title("left").startswith("What the nodes did")]
            self.assertGreater(ax.get_legend().get_window_extent().x0, ax._left_title.get_window_extent().x1)
            return ax.get_title("left"), ax.get_xlim()
        end = run.Results(self.folder / "a.h5").end
        self.assertEqual(title()[0], f"What the nodes did, first {24e3 * end / 40:.3g} ms of {1e3 * end:.3g} ms")
        self.assertEqual(title(0.01, 0.02), (f"What the nodes did, 10–20 ms of {1e3 * end:.3g} ms", (10, 20)))
        said, (begin, last) = title(0, 9)  # which is as far as it was kept
        self.assertEqual((said, begin), ("What the nodes did", 0))
        self.assertAlmostEqual(last, 1e3 * end)

    def test_rows_of_the_timeline_are_named_at_even_distances(self):
        def change(file):
            for name in [*file["nodes"]]:
                values = np.resize(file[f"nodes/{name}"][()], 100)
                del file[f"nodes/{name}"]
                file[f"nodes/{name}"] = values
            file["timeline/node"][...] = np.arange(len(file["timeline/node"])) % 100
        for name, label in ((self.changed("hundred.h5", change), "node (50 of 100)"), ("a.h5", "node")):
            figure, ax = plt.subplots()
            run.draw_timeline(ax, run.Results(self.folder / name), (0, 0.02))
            numbers_of_nodes = [int(tick.get_text()) for tick in ax.get_yticklabels()]
            self.assertEqual(ax.get_ylabel(), label)
            self.assertGreater(len(numbers_of_nodes), 3)
            self.assertEqual(len(set(np.diff(numbers_of_nodes))), 1, numbers_of_nodes)
            plt.close(figure)

    def test_pictures_of_links_and_of_the_run_lie_beside_each_other(self):
        shutil.copy(self.folder / "a.h5", self.folder / "beside.h5")
        self.assertEqual([self.plot("beside.h5", *words) for words in ([], ["--links"], ["--convergence"])],
                         ["wrote beside.png\n", "wrote beside_links.png\n", "wrote beside_convergence.png\n"])

    def test_a_distance_of_zero_breaks_the_line_of_a_logarithmic_axis(self):
        def change(file):
            file["evaluation/consensus_distance"][...] = [0.1, 0.2, 0, 0.3]
        self.assertEqual(self.points_of_the_green_line(self.changed("zero.h5", change)), [2, 1])
        self.assertEqual(self.points_of_the_green_line("a.h5"), [4])

    def test_samples_of_a_reference_that_tells_none_are_not_known(self):
        (self.folder / "untold.csv").write_text("\ufeffstep,time_seconds,test_loss\n20,0.03,2\n40,0.08,1\n", encoding="utf-8")
        run = convergence.Run(self.folder / "untold.csv")
        self.assertEqual(len(run.curve("test_loss", "samples")[0]), 0)
        self.assertEqual(len(run.curve("test_loss", "step")[0]), 2)

    def test_runs_of_one_name_are_told_apart_by_their_folders(self):
        (self.folder / "real").mkdir()
        (self.folder / "real" / "a.h5").write_bytes((self.folder / "slow.h5").read_bytes())
        self.assertIn(f"{self.folder.name}/a against real/a: time per step -", self.plot("a.h5", "real/a.h5", "--x", "time"))

    def test_points_of_a_sweep_are_told_apart_by_what_differs(self):
        (self.folder / "four.ini").write_text(SCENARIO + "[sweep]\nrun.nodes = 4, 6\nrun.steps = 10\ntopology.kind = ring, complete\nrepeats = 2\n")
        subprocess.run([PROGRAM, "sweep", "four.ini", "-q", "-o", "four"], cwd=self.folder, check=True)
        points = sorted(f"four/{path.name}" for path in (self.folder / "four").glob("*seed=1.h5"))
        self.assertEqual(convergence.names_of(points), ["nodes=4,kind=complete", "nodes=4,kind=ring", "nodes=6,kind=complete", "nodes=6,kind=ring"])
        self.assertEqual(convergence.names_of([points[0], "a.h5"]), ["nodes=4,steps=10,kind=complete,seed=1", "a"])
        self.assertIn("nodes=4,kind=complete against nodes=6,kind=ring: time per step ", self.plot(*points, "--x", "time"))
        self.assertEqual(self.plot(*points, "four/table.h5", "--x", "time"), self.plot(*points, "--x", "time"))  # as four/*.h5 names it
        said = self.texts(*points, "a.h5")  # long names stand above the panels, each once, and once in the title
        self.assertEqual(len([text for text in said if text == "nodes=6,steps=10,kind=ring,seed=1"]), 1)

    def test_words_along_an_axis_are_not_joined_by_a_line(self):
        (self.folder / "words.ini").write_text(SCENARIO + "[sweep]\ntopology.kind = ring, complete, star\n")
        subprocess.run([PROGRAM, "sweep", "words.ini", "-q", "-o", "words"], cwd=self.folder, check=True)
        (self.folder / "rates.ini").write_text(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.01, 0.02, 0.05\n")
        subprocess.run([PROGRAM, "sweep", "rates.ini", "-q", "-o", "rates"], cwd=self.folder, check=True)
        self.assertIn("topology kind", self.texts("words"))
        for name, joined in (("words", False), ("rates", True)):
            figure = sweep.draw(self.folder / name, ["samples_per_second"])
            self.assertEqual([line.get_linestyle() != "None" for line in figure.axes[0].get_lines()], [joined])

    def test_zipped_keys_are_one_axis(self):
        (self.folder / "zip.ini").write_text(SCENARIO + "[sweep]\nrun.nodes = 4, 6, 8\nrun.steps = 10, 20, 30\n"
                                             "algorithm.learning_rate = 0.05, 0.1\nzip = run.nodes run.steps\n")
        subprocess.run([PROGRAM, "sweep", "zip.ini", "-q", "-o", "zipped"], cwd=self.folder, check=True)
        swept = sweep.Sweep(self.folder / "zipped")
        self.assertEqual(swept.varied(), ["run.nodes", "algorithm.learning_rate"])
        said = self.texts("zipped")
        self.assertIn("zipped: 6 runs", said)
        self.assertIn("8 / 30", said)
        self.assertIn("nodes / steps", said)
        self.assertIn("zipped: 2 runs, at nodes / steps = 6 / 20", self.texts("zipped", "--at", "run.steps=20"))
        self.assertIn("no finished point has run.steps = 25; there are 10, 20, 30",
                      self.plot("zipped", "--at", "run.steps=25", status=1))

    def test_zipped_keys_may_repeat_values(self):
        for name, nodes, steps in (("second", "4, 4, 6", "10, 20, 30"), ("neither", "4, 4, 6", "10, 20, 20")):
            (self.folder / f"{name}.ini").write_text(SCENARIO + f"[sweep]\nrun.nodes = {nodes}\nrun.steps = {steps}\nzip = run.nodes run.steps\n")
            subprocess.run([PROGRAM, "sweep", f"{name}.ini", "-q", "-o", name], cwd=self.folder, check=True)
            said = self.texts(name)
            self.assertIn(f"{name}: 3 runs", said)
            self.assertIn("nodes / steps", said)
            self.assertEqual(len(sweep.Sweep(self.folder / name).values(sweep.Sweep(self.folder / name).keys[0])), 3)
            self.assertEqual(sweep.Sweep(self.folder / name).varied(), ["run.steps"] if name == "second" else ["zip"])
        self.assertIn("neither: 1 run, at nodes / steps = 6 / 20", self.texts("neither", "--at", "run.nodes=6"))

    def test_values_of_zipped_keys_hold_together(self):
        self.drawn_sweep("codes", "algorithm.kind = choco, choco, choco, dpsgd\nalgorithm.compression = top_k, top_k, sign, default\n"
                         "algorithm.keep = 0.1, 0.5, default, default\nalgorithm.consensus_rate = 0.3, 0.3, 0.3, default\n"
                         "zip = algorithm.kind algorithm.compression algorithm.keep algorithm.consensus_rate\nalgorithm.learning_rate = 0.05, 0.1")
        self.set_cells("codes", test_accuracy=lambda row: 0.1 + 0.1 * row)  # the later, the better
        held = sweep.Sweep(self.folder / "codes").held
        kind, code, keep = "algorithm.kind", "algorithm.compression", "algorithm.keep"
        for settings in [(code, "sign"), (keep, "default")], [(keep, "default"), (code, "sign")], [(code, "sign")]:
            self.assertEqual(held(settings, []), {"zip": "choco / sign / default / 0.3"})
        self.assertEqual(held([(kind, "choco"), (keep, "default"), ("algorithm.learning_rate", "0.1")], []),
                         {"zip": "choco / sign / default / 0.3", "algorithm.learning_rate": "0.1"})
        figure = self.laid_out(lambda: sweep.draw(self.folder / "codes", fixed=[(code, "top_k"), (keep, "best")]))
        self.assertTrue(np.allclose(np.array(figure.axes[0].lines[0].get_ydata(), float), [0.3, 0.4]))  # rows 2 and 3, keep = 0.5
        for words, said in (([f"{code}=sign", f"{keep}=0.5"], f"no finished point has {code} = sign and {keep} = 0.5"),
                            ([f"{code}=sign", f"{code}=top_k"], f"{code} cannot be held at sign and at top_k"),
                            (["algorithm.learning_rate=0.1", "--over", "algorithm.learning_rate"],
                             "algorithm.learning_rate is drawn along an axis, so it cannot be held at 0.1"),
                            ([f"{code}=best", "--over", kind], f"{code} is drawn along an axis, so it cannot be held at best")):
            self.assertIn(f"plot: codes: {said}", self.plot("codes", "--at", *words, status=1))

    def test_keys_that_a_kind_lacks_are_not_named(self):
        (self.folder / "lacks.ini").write_text(SCENARIO + "[sweep]\nalgorithm.kind = dpsgd, local_sgd, local_sgd\nalgorithm.period = default, 2, 4\n"
                                               "zip = algorithm.kind algorithm.period\n")
        subprocess.run([PROGRAM, "sweep", "lacks.ini", "-q", "-o", "lacks"], cwd=self.folder, check=True)
        self.assertLessEqual({"dpsgd", "local_sgd / 2", "local_sgd / 4"}, set(self.texts("lacks")))

    def test_what_differs_by_rounding_alone_is_drawn_as_constant(self):
        figure, (rounded, varying) = plt.subplots(1, 2)
        rounded.plot([31.6, 31.6 * (1 + 1e-12)])
        varying.plot([31.6, 31.7])
        range_of_varying = varying.get_ylim()
        sweep.calm(figure)
        self.assertGreater(np.ptp(rounded.get_ylim()), 3)
        self.assertEqual(varying.get_ylim(), range_of_varying)
        plt.close(figure)

    def test_noise_of_rounding_single_samples_and_zeros_do_not_fill_an_axis(self):
        figure, axes = plt.subplots(1, 5)
        for ax, metric, values in zip(axes, ("consensus_distance", "test_accuracy", "wait_share", "bytes_per_step", "communicate_share"),
                                      ([1.34e-6, 1.4e-6], [0.911, 0.914], [0, 0], [2e6, 4e6], [0.0005, 0.0005])):
            ax.plot(values)
            sweep.scale(ax, "y", metric, values)
        sweep.calm(figure)
        distance, accuracy, nothing, sent, little = axes
        self.assertEqual(distance.get_yscale(), "log")
        self.assertGreater(distance.get_ylim()[1], 9 * distance.get_ylim()[0])
        self.assertAlmostEqual(np.ptp(accuracy.get_ylim()), 0.02)
        self.assertEqual(nothing.get_ylim(), (-0.05, 1))
        np.testing.assert_allclose(little.get_ylim(), (-0.001, 0.019))
        self.assertEqual(sent.yaxis.get_major_formatter()(3e6), "3 MB")
        self.assertEqual(sweep.write_metric("target_bytes", 55.39e6), "55.4 MB")
        plt.close(figure)

    def test_the_median_node_is_known_as_far_as_half_of_them_got(self):
        time = np.array([[1, 2, 4], [2, 4, np.nan], [3, np.nan, np.nan]])
        results = unittest.mock.Mock(steps={"time": time, "step": np.array([1, 2, 3])}, end=4.5, clock="virtual time")
        figure, ax = plt.subplots()
        run.draw_progress(ax, results)
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

    def test_the_speed_up_begins_with_what_is_finished(self):
        folder = self.folder / "holes"
        folder.mkdir()
        for name in ("table.csv", "points.csv"):
            lines = (self.folder / "swept" / name).read_text().splitlines(keepends=True)
            (folder / name).write_text("".join(line for line in lines if "4,0.1," not in line))
        figure, ax = plt.subplots()
        sweep.speed_up(ax, sweep.Sweep(folder), "algorithm.learning_rate", {})
        self.assertEqual([list(line.get_xdata()) for line in ax.lines], [[4, 8], [8], [4, 8]])
        self.assertEqual(list(ax.lines[1].get_ydata()), [8])
        plt.close(figure)

    def drawn_sweep(self, name, lists, *what):
        """The figure of a sweep over `lists`, laid out."""
        (self.folder / f"{name}.ini").write_text(SCENARIO + f"[sweep]\n{lists}\n")
        subprocess.run([PROGRAM, "sweep", f"{name}.ini", "-q", "-o", name], cwd=self.folder, capture_output=True)
        return self.laid_out(lambda: sweep.draw(self.folder / name, *what))

    def test_one_outcome_is_drawn_against_another(self):
        figure = self.drawn_sweep("traded", "algorithm.kind = dpsgd, allreduce\nrun.steps = 10, 20, 40\nrepeats = 2",
                                  ["test_accuracy"], ["run.steps", "algorithm.kind"], (), (), (), "bytes_per_step")
        swept = sweep.Sweep(self.folder / "traded")
        ax, = figure.axes
        self.assertEqual((ax.get_title("left"), ax.get_xlabel()), ("Test accuracy of the mean model", "Bytes per step"))
        self.assertEqual([label.get_text() for label in ax.get_legend().get_texts()], ["dpsgd", "allreduce"])
        for kind, marks in zip(("dpsgd", "allreduce"), ax.containers):
            cells = [[swept.cell(metric, {"algorithm.kind": kind, "run.steps": steps})[0] for steps in ("10", "20", "40")]
                     for metric in ("bytes_per_step", "test_accuracy")]
            np.testing.assert_array_equal(marks.lines[0].get_data(), cells)
        self.assertEqual([text.get_text() for text in ax.texts], ["10", "20", "40"] * 2)
        self.assertIn("no outcome bytes; known are ", self.plot("traded", "--against", "bytes", status=1))
        self.assertIn("--against wants the folder of a sweep", self.plot("a.h5", "--against", "bytes_per_step", status=2))

    def test_what_has_no_mark_stretches_no_axis_and_is_counted(self):
        # allreduce reads no topology, so it has no gap; its nodes' models differ by rounding alone
        figure = self.drawn_sweep("gaps", "algorithm.kind = dpsgd, allreduce\ntopology.kind = ring, star",
                                  ["consensus_distance"], ["algorithm.kind"], [("topology.kind", "ring")], (), (), "spectral_gap")
        ax, = figure.axes
        self.assertEqual(ax.get_xlabel(), "Spectral gap; not known of 1 combination")
        self.assertEqual(ax.get_title("left"), "Consensus distance")
        self.assertGreater(ax.get_ylim()[0], 1e-4)

    def test_what_is_drawn_close_to_a_legend_moves_away_from_it(self):
        figure, ax = plt.subplots()
        ax.plot([0, 1], [0, 1], "o", label="curve")
        legend = ax.legend(loc="upper right")
        ax.set(xlim=(0, 1), ylim=(0, 1))
        figure.draw_without_rendering()
        box = legend.get_window_extent()
        right, low = ax.transData.inverted().transform((box.x1, box.y0 - 1))  # a dot below it
        ax.errorbar([right], [low], xerr=[[0.1], [0]])
        sweep.make_room(figure)
        figure.draw_without_rendering()
        self.assertLess(ax.transData.transform((right, low))[1], legend.get_window_extent().y0 - 0.03 * figure.dpi)
        plt.close(figure)

    def test_pictures_are_laid_out_at_the_resolution_that_they_have(self):
        with plt.style.context(STYLE, after_reset=True):
            figure = plt.figure(figsize=(2, 1))
        save(figure, self.folder / "two_inches.png")
        self.assertEqual(plt.imread(self.folder / "two_inches.png").shape[:2], (figure.dpi, 2 * figure.dpi))
        plt.close(figure)

    def test_two_runs_of_long_names_are_both_named_beside_their_deviations(self):
        first, others = "a" * 40, ["b" * 40, "c" * 40]
        lines = convergence.apart_in_lines([(first, other, ["as one"]) for other in others], 38)
        self.assertLessEqual(max(map(len, lines)), 38)
        for line, letter in zip((lines[1], lines[4]), "bc"):
            self.assertTrue(line.startswith("  " + letter), line)
        self.assertEqual(convergence.apart_in_lines([("a", "b", ["as one"])], 38), ["a against b:", "  as one"])

    def test_what_was_published_is_drawn_over_a_sweep_and_the_deviations_are_told(self):
        rate = sweep.Sweep(self.folder / "swept").cell("samples_per_second", {"run.nodes": "4", "algorithm.learning_rate": "0.05"})[0]
        file = self.folder / "published.csv"
        file.write_text(f"# read off their figure 3\nrun.nodes, samples_per_second\n4, {rate / 1.25}\n16, 1000\n")
        said = self.plot("swept", "--published", "published.csv")
        for other in ("0.05", "0.1"):  # the file does not say with which learning rate: that of each line
            self.assertRegex(said, rf"run.nodes = 4, algorithm.learning_rate = {other}: samples_per_second \S+, published \S+, \+25.0 %")
        self.assertIn("run.nodes = 16: samples_per_second published 1000, of no finished point", said)
        figure = self.laid_out(lambda: sweep.draw(self.folder / "swept", published=Published(file, sweep.Sweep(self.folder / "swept"))))
        hollow = [line for ax in figure.axes for line in ax.lines if line.get_markersize() > 8 and len(line.get_ydata())]
        for line in hollow:
            np.testing.assert_allclose(line.get_ydata(), [rate / 1.25, np.nan])
        self.assertEqual(len(hollow), 2)
        self.assertEqual(sum("published" in [text.get_text() for text in ax.get_legend().get_texts()] for ax in figure.axes if ax.get_legend()), 1)
        for text, what in (("run.nodes, thruput\n4, 3\n", "published.csv:1: expected names of columns: of swept keys (run.nodes, "),
                           ("\nrun.nodes, samples_per_second\n4, fast\n", "published.csv:3: samples_per_second must be a number, got fast"),
                           ("run.nodes, test_accuracy\n4, 93\n", "published.csv:2: test_accuracy must be a share from 0 to 1, not in percent"),
                           ("run.nodes, samples_per_second\n4, 1, 2\n", "published.csv:2: expected 2 cells, got 3"),
                           ("", "published.csv: holds no rows")):
            file.write_text(text)
            self.assertIn(what, self.plot("swept", "--published", "published.csv", status=1))
        self.assertIn("no such file", self.plot("swept", "--published", "absent.csv", status=1).lower())
        self.assertIn("wants the folder of a sweep", self.plot("a.h5", "--published", "published.csv", status=2))

    def test_curves_show_the_best_value_of_the_second_key_and_name_lines_that_are_missing(self):
        figure = self.drawn_sweep("noisy", "algorithm.kind = dpsgd, allreduce\nalgorithm.learning_rate = 0.001, 0.1, 100")
        curves = [ax for ax in figure.axes if ax.get_xlabel() in ("virtual time (s)", "steps")]
        self.assertEqual([ax.get_title("left") for ax in curves], ["Test accuracy of the mean model, learning rate = 0.1"] * 2)
        # Where runs of a line are missing at the best value, one that has all lines is taken; of a line that has none a note tells.
        rows = {name: (self.folder / "noisy" / name).read_text().splitlines(keepends=True) for name in ("table.csv", "points.csv")}
        for dropped, rate, note in ((["allreduce,0.1,"], "0.001", []),
                                    (["allreduce,"], "0.1", ["no finished run with an evaluation: allreduce"])):
            for name, lines in rows.items():
                (self.folder / "noisy" / name).write_text("".join(line for line in lines if not any(text in line for text in dropped)))
            swept = sweep.Sweep(self.folder / "noisy")
            swept.table += [{**swept.table[0], "algorithm.kind": "allreduce", "runs": "1", "test_accuracy": ""}] if note else []
            self.assertEqual(swept.best_for_all("algorithm.learning_rate", "algorithm.kind", {}), rate)
            figure, ax = plt.subplots()
            sweep.curves(ax, swept, "test_accuracy", "step", "algorithm.kind", {}, {"algorithm.learning_rate": rate})
            self.assertEqual([text.get_text() for text in ax.texts], note)
            plt.close(figure)

    def test_the_best_of_a_swept_key_is_chosen_for_each_combination(self):
        rates = {"dpsgd": "0.001", "allreduce": "0.1"}
        self.drawn_sweep("tuned", "algorithm.kind = dpsgd, allreduce\nalgorithm.learning_rate = 0.001, 0.01, 0.1\nrepeats = 2")
        swept = sweep.Sweep(self.folder / "tuned")
        self.set_cells("tuned", test_accuracy=lambda i: 0.5 + 0.1 * (swept.table[i]["algorithm.learning_rate"] == rates[swept.table[i]["algorithm.kind"]]),
                       samples_per_second=lambda i: float(swept.table[i]["algorithm.learning_rate"]))
        figure = self.laid_out(lambda: sweep.draw(self.folder / "tuned", fixed=[("algorithm.learning_rate", "best")]))
        accuracy, throughput, *curves = figure.axes
        self.assertEqual(list(accuracy.lines[0].get_ydata()), [0.6, 0.6])
        self.assertEqual(list(throughput.lines[0].get_ydata()), [0.001, 0.1])  # of the runs whose accuracy is best
        self.assertEqual([text.get_text() for text in curves[0].get_legend().get_texts()],
                         ["dpsgd, learning rate = 0.001", "allreduce, learning rate = 0.1"])
        self.assertEqual(figure._suptitle.get_text().replace("\n", " "),
                         "tuned: 12 runs, at learning rate of the best test accuracy; mean over seeds, bars for one standard deviation")
        figure = self.laid_out(lambda: sweep.draw(self.folder / "tuned", ["wait_share"], fixed=[("algorithm.learning_rate", "best")]))
        least = [min(float(row["wait_share"]) for row in swept.table if row["algorithm.kind"] == kind) for kind in rates]
        self.assertEqual(list(figure.axes[0].lines[0].get_ydata()), least)
        self.set_cells("tuned", runs=lambda i: 1 if swept.table[i]["algorithm.learning_rate"] == "0.1" else 2)  # the other one failed
        figure = self.laid_out(lambda: sweep.draw(self.folder / "tuned", fixed=[("algorithm.learning_rate", "best")]))
        self.assertEqual(list(figure.axes[0].lines[0].get_ydata()), [0.6, 0.5])

    def set_cells(self, name, **columns):
        """Replaces columns of a sweep's table.csv by functions of the row's number."""
        path = self.folder / name / "table.csv"
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        for i, row in enumerate(rows):
            row |= {column: value(i) for column, value in columns.items()}
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)

    def laid_out(self, draw):
        with plt.style.context(STYLE, after_reset=True):
            figure = draw()
            self.addCleanup(plt.close, figure)
            figure.draw_without_rendering()
        return figure

    def test_long_headings_are_broken_into_lines_and_do_not_run_into_each_other(self):
        figure = self.drawn_sweep("headed", "run.steps = 10, 20\nalgorithm.kind = compressed_parameter_server, gradient_tracking\n"
                                  "algorithm.direction = both, default\nalgorithm.keep = 0.1, default\nworkload.batch_size = 8, 16\n"
                                  "zip = algorithm.kind algorithm.direction algorithm.keep\nalgorithm.learning_rate = 0.05, 0.1\n"
                                  "compute.gradient = 1 ms, 2 ms\nnetwork.bandwidth = 1 GB/s\nnetwork.latency = 1 us\nrepeats = 2",
                                  (), ("run.steps", "algorithm.kind"))
        heading = figure._suptitle
        self.assertLessEqual(heading.get_window_extent().x1, figure.bbox.x1)
        self.assertIn("bars for one standard deviation", heading.get_text().replace("\n", " "))
        titles = [ax._left_title.get_window_extent() for ax in figure.axes if ax._left_title.get_text()]
        self.assertGreaterEqual(len(titles), 6)
        self.assertFalse([(a, b) for a in titles for b in titles if a is not b and a.overlaps(b)])
        self.assertFalse([title for title in titles if title.x1 > figure.bbox.x1 or title.y1 > heading.get_window_extent().y0])

    def test_no_legend_covers_what_is_drawn(self):
        # bars of errors of three words, side by side, that fill the height of the panel
        self.drawn_sweep("bars", "topology.kind = ring, complete, star\nworkload.partition = iid, by_label\nrepeats = 3")
        self.set_cells("bars", test_accuracy=lambda row: 0.5, test_accuracy_deviation=lambda row: 0.1)
        figure = self.laid_out(lambda: sweep.draw(self.folder / "bars"))
        legends = [ax for ax in figure.axes if ax.get_legend()]
        self.assertGreaterEqual(len(legends), 4)
        for ax in legends:
            box = ax.get_legend().get_window_extent()
            # the bars alone, which matplotlib does not look at when it looks for a place
            self.assertFalse([path for bars in ax.collections for path in bars.get_paths()
                              if bars.get_transform().transform_path(path).intersects_bbox(box, filled=False)])

    def test_numbers_along_axes_differ(self):
        folder = self.folder / "near"
        shutil.copytree(self.folder / "swept", folder)
        self.set_cells("near", test_accuracy=lambda row: 0.2 + 1e-4 * row)  # 20.00 %, 20.01 %, ..
        figure = self.laid_out(lambda: sweep.draw(folder))
        for ax in figure.axes:
            for axis in (ax.xaxis, ax.yaxis):
                said = [label.get_text() for label in axis.get_ticklabels() if label.get_text()]
                self.assertEqual(len(said), len(set(said)), said)
        self.assertEqual([short_number(value, 0) for value in (0.001, 0.5, 10000, 1e-4, 2e-7, 500000)],
                         ["0.001", "0.5", "10000", "$10^{-4}$", "$2{\\cdot}10^{-7}$", "$5{\\cdot}10^{5}$"])

    def test_numbers_are_short_and_have_no_exponent_beside_a_letter(self):
        for value, text in {0: "0", 0.00012345: "0.000123", 0.9996: "1", 999.4: "999", 999.6: "1000", 1234: "1234", -999.7: "-1000",
                            12345: "12.3k", 999400: "999k", 999600: "1M", 999.6e6: "1G", 1.5e12: "1.5e+12", 1.07e29: "1.07e+29",
                            math.inf: "inf", math.nan: "nan"}.items():
            self.assertEqual(short(value), text)

    def test_names_of_many_values_do_not_overlap(self):
        figure = self.drawn_sweep("rates20", "algorithm.learning_rate = 0.0001, 0.001, 0.01, 0.1, 0.2, 0.02 .. 0.09 step 0.01, 0.11 .. 0.17 step 0.01\n"
                                  "run.steps = 10, 20")
        for ax in figure.axes[:2]:
            boxes = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
            self.assertGreater(len(boxes), 3)
            self.assertFalse([1 for a, b in zip(boxes, boxes[1:]) if a.overlaps(b)], [label.get_text() for label in ax.get_xticklabels()])
        self.assertLessEqual({"0.0001", "0.001", "0.01", "0.1"}, {label.get_text() for label in figure.axes[1].get_xticklabels()})

    def test_outcomes_over_decades_are_drawn_on_logarithmic_scales(self):
        figure = self.drawn_sweep("decades", "network.bandwidth = 10 kB/s, 1 MB/s, 100 MB/s\nrun.steps = 10, 20")
        by_title = [(ax.get_title("left"), ax) for ax in figure.axes if ax.get_title("left")]
        rates = [ax for title, ax in by_title if title == "Throughput, samples/s"]
        self.assertIsInstance(rates[0].images[0].norm, plt.matplotlib.colors.LogNorm)
        self.assertEqual(rates[1].get_yscale(), "log")
        accuracies = [ax for title, ax in by_title if title.startswith("Test accuracy")]
        self.assertNotIsInstance(accuracies[0].images[0].norm, plt.matplotlib.colors.LogNorm)
        self.assertEqual([ax.get_xscale() for ax in accuracies[2:]], ["log", "linear"])  # against time, and steps
        figure = self.laid_out(lambda: sweep.draw(self.folder / "swept"))
        self.assertNotIn("log", [ax.get_yscale() for ax in figure.axes if ax.get_title("left").startswith("Throughput")])

    def test_curves_of_a_sweep_over_decades_are_drawn_on_logarithmic_scales(self):
        # gradients of the first step alone: then distances shrink by 3 from step to step, on the complete graph to 0
        figure = self.drawn_sweep("mixing", "topology.kind = ring, complete\nalgorithm.schedule = step\nalgorithm.decay_steps = 1\n"
                                  "algorithm.decay_factor = 1e-30\nrun.evaluate_every = 1", ["consensus_distance", "test_accuracy"])
        by_title = [ax for ax in figure.axes if ax.get_title("left").startswith("Consensus distance")]
        self.assertEqual([ax.get_yscale() for ax in by_title[-2:]], ["log", "log"])
        self.assertTrue(all(y > 0 for ax in by_title[-2:] for line in ax.lines for y in line.get_ydata() if np.isfinite(y)))

    def test_a_panel_without_curves_says_why(self):
        figure = self.drawn_sweep("cut", "run.until = 8 ms\nrun.evaluate_interval = 2 ms\nalgorithm.learning_rate = 0.05, 0.1")
        said = [[text.get_text() for text in ax.texts] for ax in figure.axes[-2:]]
        self.assertEqual(said, [[], ["no run came as far as an evaluation (run.evaluate_every)"]])

    def test_a_target_that_no_run_gets_to_has_no_scale_of_times(self):
        panel = next(ax for ax in self.laid_out(lambda: sweep.draw(self.folder / "swept", targets=[1.0])).axes
                     if ax.get_title("left") == "Virtual time to 100% test accuracy, s")
        self.assertEqual([text.get_text() for text in panel.texts], ["no run gets there"])
        self.assertEqual((list(panel.get_yticks()), panel.get_legend()), ([], None))

    def test_colors_of_equal_shares_are_named_up_to_100_percent(self):
        shutil.copytree(self.folder / "swept", self.folder / "equal")
        self.set_cells("equal", test_accuracy=lambda row: 0.984)
        figure = self.laid_out(lambda: sweep.draw(self.folder / "equal"))
        bar = next(ax for ax in figure.axes if ax.get_label() == "<colorbar>")
        named = [float(label.get_text().rstrip("%")) for label in bar.get_yticklabels() if label.get_text()]
        self.assertTrue(named and max(named) <= 100, named)

    def test_no_share_beyond_100_percent_is_named(self):
        figure = self.drawn_sweep("shares", "algorithm.learning_rate = 0.05, 0.1")
        for ax in figure.axes[0], figure.axes[-1]:
            ax.set_ylim(-0.5, 1.5)
            self.assertEqual([label.get_text() for label in ax.get_yticklabels() if label.get_text()][::len(ax.get_yticks()) // 4],
                             ["0%", "50%", "100%"])

    def test_a_heading_counts_the_runs_that_failed_and_not_those_under_way(self):
        figure = self.drawn_sweep("failing", "algorithm.learning_rate = 0.05, 1e30\nrepeats = 2")
        self.assertTrue(figure._suptitle.get_text().endswith("2 of the sweep's runs failed"), figure._suptitle.get_text())
        for log in (self.folder / "failing").glob("*.log"):
            log.write_text("")  # as of one that runs
        self.assertNotIn("failed", self.laid_out(lambda: sweep.draw(self.folder / "failing"))._suptitle.get_text())

    def test_bars_are_named_only_where_there_are_some(self):
        self.assertEqual(self.drawn_sweep("repeated", "repeats = 3")._suptitle.get_text(), "repeated: 3 runs; mean over seeds")

    def test_every_color_is_seen_in_grey(self):
        for color in SERIES:
            red, green, blue = plt.matplotlib.colors.to_rgb(color)
            self.assertLess(0.299 * red + 0.587 * green + 0.114 * blue, 0.7, color)

    def test_what_is_drawn_against_time_alone_is_named(self):
        subprocess.run([PROGRAM, "run", "s.ini", "-q", "-o", "unsteady.h5", "run.until=5 ms", "run.evaluate_interval=2 ms", "run.evaluate_every=40"],
                       cwd=self.folder, check=True)
        results = run.Results(self.folder / "unsteady.h5")
        self.assertEqual(len(results.evaluated("test_loss", "step")[0]), 0)
        figure, axes = plt.subplots(1, 2)
        run.draw_loss(dict(zip(("time", "step"), axes)), results, 1.0)
        self.assertEqual([text.get_text() for text in axes[1].get_legend().get_texts()], ["training, mean and range of nodes", "test, mean model"])
        plt.close(figure)

    def test_a_single_loss_among_unknown_ones_is_seen(self):
        def change(file):
            file["steps/train_loss"][1:, :] = math.nan
        results = run.Results(self.folder / self.changed("single.h5", change))
        figure, axes = plt.subplots(1, 2)
        run.draw_loss(dict(zip(("time", "step"), axes)), results, 1.0)
        self.assertEqual(axes[0].lines[0].get_marker(), "o")
        plt.close(figure)

    def test_a_run_beside_a_much_longer_one_is_no_speck(self):
        (self.folder / "far.csv").write_text("step,time_seconds\n100000,125\n")
        (self.folder / "near.csv").write_text("step,time_seconds\n10,0.0125\n30,0.0375\n")
        for others, scale in (("far.csv", "log"), ("near.csv", "linear")):
            figure, _ = convergence.draw([self.folder / "near.csv", self.folder / others])
            self.assertEqual(figure.axes[0].get_xscale(), scale)
            plt.close(figure)

    def test_keys_of_one_name_are_told_apart_by_their_sections(self):
        (self.folder / "kinds.ini").write_text(SCENARIO + "[sweep]\nalgorithm.kind = dpsgd, sgp\ntopology.kind = ring, complete\n")
        subprocess.run([PROGRAM, "sweep", "kinds.ini", "-q", "-o", "kinds"], cwd=self.folder, check=True)
        self.assertLessEqual({"algorithm kind", "topology kind"}, set(self.texts("kinds")))

    def test_curves_are_as_many_as_can_be_told_apart(self):
        (self.folder / "many.ini").write_text(SCENARIO + "[sweep]\nrun.nodes = 4, 8\nalgorithm.learning_rate = 0.01 .. 0.2 step 0.01\n")
        subprocess.run([PROGRAM, "sweep", "many.ini", "-q", "-o", "many"], cwd=self.folder, check=True)
        self.assertIn("learning rate, 8 of 20", self.texts("many"))
        self.assertIn("9 runs are too many", self.plot(*["a.h5"] * 9, status=1))

    def test_runs_without_numbers_are_compared_by_their_time_per_step(self):
        timing = re.sub(r"kind = mlp\n.*?\[", "kind = timing\nparameters = 100\n[", SCENARIO, flags=re.DOTALL)
        (self.folder / "timing.ini").write_text(timing)
        subprocess.run([PROGRAM, "run", "timing.ini", "-q", "-o", "timing.h5"], cwd=self.folder, check=True)
        (self.folder / "long.csv").write_text("step,time_seconds\n100000,125\n")  # 1.25 ms per step
        said = self.texts("timing.h5", "long.csv")
        self.assertIn("time per step (ms)", said)
        self.assertIn("1.25", said)

    def test_a_picture_that_cannot_be_written_is_what_is_named(self):
        (self.folder / "file").write_text("")
        self.assertTrue(self.plot("a.h5", "-o", "file/x.png", status=1).startswith("plot: file/x.png: cannot write: "))

    def test_an_older_picture_stays_if_a_new_one_cannot_be_written_whole(self):
        self.plot("a.h5", "-o", "kept.png")
        before = (self.folder / "kept.png").read_bytes()
        done = subprocess.run([sys.executable, TOOLS / "plot", "a.h5", "--links", "-o", "kept.png"], cwd=self.folder,
                              capture_output=True, text=True, timeout=120,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000)))
        self.assertEqual((done.returncode, done.stderr), (1, "plot: kept.png: cannot write: File too large\n"))
        self.assertEqual([(path.name, path.read_bytes()) for path in self.folder.glob("kept*")], [("kept.png", before)])

    def test_what_is_no_such_picture_is_not_replaced_by_one(self):
        others = {"thesis.pdf": b"%PDF-1.7\n", "own.svg": b'<svg xmlns="http://www.w3.org/2000/svg"/>', "results.png": b"\x89HDF\r\n\x1a\n"}
        for name, content in others.items():
            (self.folder / name).write_bytes(content)
            self.assertEqual(self.plot("a.h5", "--links", "-o", name, status=1),
                             f"plot: {name}: is there already and no such picture; name another one (--output)\n")
            self.assertEqual((self.folder / name).read_bytes(), content)
            (self.folder / name).write_bytes(b"")
            for _ in range(2):
                self.plot("a.h5", "--links", "-o", name)
        os.mkfifo(self.folder / "pipe.png")
        self.assertIn("pipe.png: is there already and no such picture", self.plot("a.h5", "-o", "pipe.png", status=1))
        self.assertTrue((self.folder / "pipe.png").is_fifo())
        self.assertIn("pipe.png: expected a results file, found a device or pipe", self.plot("pipe.png", status=1))

    def test_a_link_to_a_picture_stays_a_link(self):
        (self.folder / "latest.png").symlink_to("elsewhere/drawn.png")
        for _ in range(2):
            self.plot("a.h5", "-o", "latest.png")
            self.assertTrue((self.folder / "latest.png").is_symlink())
            self.assertGreater((self.folder / "elsewhere" / "drawn.png").stat().st_size, 10_000)
            self.assertEqual(len(list((self.folder / "elsewhere").iterdir())), 1)

    def test_an_option_given_twice_adds_to_the_first(self):
        said = self.texts("a.h5", "slow.h5", "--target", "0.25", "--target", "0.125")
        self.assertLessEqual({"25%", "12.5%"}, set(said))

    def test_a_target_is_not_rounded_to_one_that_nobody_asked_for(self):
        said = self.texts("swept", "--target", "0.125")
        self.assertIn("Virtual time to 12.5% test accuracy, s", said)
        self.assertLessEqual({"99.5%", "100%"}, set(self.texts("a.h5", "slow.h5", "--target", "0.995", "1")))

    def test_a_target_beyond_what_a_share_can_be_is_refused(self):
        for words in (["a.h5", "slow.h5"], ["swept"]):
            for target in "90", "0", "nan":
                self.assertIn(f"--target {target}: a test accuracy is above 0 and at most 1: 0.9 for 90 %",
                              self.plot(*words, "--target", target, status=1))

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
        one, other = (convergence.Run(self.folder / f"{name}.csv") for name in ("auc", "other"))
        self.assertIn("test AUC 0.00 points apart on average over 1 step", convergence.deviations(one, other))

    def test_names_with_dollar_signs_and_underscores_are_no_formulas_and_are_named(self):
        shutil.copy(self.folder / "a.h5", self.folder / "_cost$x_{$.h5")
        shutil.copytree(self.folder / "swept", self.folder / "_swept$a_{$")
        for words in (["_cost$x_{$.h5"], ["_cost$x_{$.h5", "--links"], ["_swept$a_{$"]):
            self.assertTrue(any("$" in text for text in self.texts(*words)), words)
        said = self.texts("_cost$x_{$.h5", "slow.h5")
        self.assertEqual([text.strip("\u200b") for text in said].count("_cost$x_{$"), 1, said)  # in the legend

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

    def test_letters_of_no_font_are_told_in_one_sentence(self):
        shutil.copy(self.folder / "a.h5", self.folder / "\U00013000\U00013001.h5")  # hieroglyphs
        said = self.plot("\U00013000\U00013001.h5")
        self.assertEqual(said.count("\n"), 2, said)
        self.assertIn("note: boxes stand for \U00013000\U00013001, which are in none of the fonts DejaVu Sans", said)

    def test_links_are_counted_in_whole_numbers(self):
        figure, ax = plt.subplots()
        links.draw_sorted_loads(ax, np.linspace(0.2, 0.1, 20), np.ones(20))
        ticks = ax.get_xticks()
        self.assertGreater(len(ticks), 2)
        self.assertEqual([tick for tick in ticks if tick % 1], [])
        plt.close(figure)

    def test_steps_are_whole(self):
        subprocess.run([PROGRAM, "run", "s.ini", "-q", "-o", "short.h5", "run.steps=1", "run.evaluate_every=1"], cwd=self.folder, check=True)
        results = run.Results(self.folder / "short.h5")
        single, beside = run.draw(results, "short.h5", None), convergence.draw([self.folder / "short.h5", self.folder / "short.h5"])[0]
        (self.folder / "short.ini").write_text(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.05, 0.1\n")
        subprocess.run([PROGRAM, "sweep", "short.ini", "-q", "-o", "briefly", "run.steps=1", "run.evaluate_every=1"], cwd=self.folder, check=True)
        swept = sweep.draw(self.folder / "briefly")
        subprocess.run([PROGRAM, "run", "s.ini", "-q", "-o", "timing.h5", "run.steps=20", "run.evaluate_every=1", "workload.kind=timing",
                        "workload.parameters=610", *(f"workload.{key}=default" for key in ("dataset", "hidden"))], cwd=self.folder, check=True)
        alone = convergence.draw([self.folder / "timing.h5"])[0]
        for figure, name, tick in ((single, "finished steps", 1), (beside, "steps", 1), (swept, "steps", 1), (alone, "finished steps", 20)):
            figure.canvas.draw()
            ticks = [tick for ax in figure.axes for axis in (ax.xaxis, ax.yaxis) if axis.label.get_text() == name for tick in axis.get_ticklocs()]
            self.assertIn(tick, ticks)
            self.assertEqual([tick for tick in ticks if tick % 1], [])
            plt.close(figure)
        self.assertEqual(sum(alone.axes[-1].get_ylim()), 0)  # the bar of its time per step stands in the middle

    def test_nobody_needs_to_read_what_it_prints(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([sys.executable, TOOLS / "plot", "a.h5", "slow.h5"], cwd=self.folder, stdout=writer, stderr=subprocess.PIPE,
                              text=True, timeout=120)
        os.close(writer)
        self.assertEqual(done.stderr, "")

    def test_names_that_the_terminal_cannot_write_are_drawn(self):
        name = "\u6771\u4eac.h5"
        shutil.copy(self.folder / "a.h5", self.folder / name)
        for tool, made in (("plot", ".png"), ("report", ".html")):
            done = subprocess.run([sys.executable, TOOLS / tool, name], cwd=self.folder, capture_output=True, text=True, timeout=120,
                                  env={**os.environ, "PYTHONIOENCODING": "ascii"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, rf"wrote \u6771\u4eac{made}" + "\n")

    def test_pictures_do_not_depend_on_the_settings_of_matplotlib(self):
        (self.folder / "matplotlibrc").write_text("font.size: 30\ntext.usetex: True\nfigure.dpi: 300\nsavefig.bbox: tight\n")  # read from here
        plot = [sys.executable, TOOLS / "plot", "a.h5", "-o"]  # a new process: this one has its settings
        subprocess.run([*plot, "with.png"], cwd=self.folder, check=True, capture_output=True, timeout=120)
        (self.folder / "matplotlibrc").unlink()
        subprocess.run([*plot, "without.png"], cwd=self.folder, check=True, capture_output=True, timeout=120)
        self.assertEqual((self.folder / "with.png").read_bytes(), (self.folder / "without.png").read_bytes())

    def test_time_that_a_node_was_away_is_named(self):
        subprocess.run([PROGRAM, "run", "s.ini", "-q", "-o", "paused.h5", "failures.pause=1 @ 5 ms for 9 ms"], cwd=self.folder, check=True)
        self.assertIn("away", self.texts("paused.h5"))
        self.assertNotIn("away", self.texts("a.h5"))

    def test_the_legend_of_a_run_with_time_away_leaves_the_heading_free(self):
        subprocess.run([PROGRAM, "run", "s.ini", "-q", "-o", "paused.h5", "failures.pause=1 @ 5 ms for 9 ms"], cwd=self.folder, check=True)
        figure = self.laid_out(lambda: run.draw(run.Results(self.folder / "paused.h5"), "paused.h5", None))
        (shares,) = [ax for ax in figure.axes if ax.get_title("left") == "How the nodes spent the whole run"]
        legend = shares.get_legend()
        self.assertEqual([text.get_text() for text in legend.get_texts()], ["compute", "communicate", "wait", "away"])
        self.assertGreater(legend.get_window_extent().x0, shares._left_title.get_window_extent().x1)

    def test_a_short_run_is_drawn_beside_a_long_reference_in_all_panels_and_on_equal_scales(self):
        subprocess.run([PROGRAM, "run", "s.ini", "-q", "-o", "timing.h5", "workload.kind=timing", "workload.bytes=1 MB", "workload.dataset=default",
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

    def test_times_of_some_seeds_alone_say_so(self):
        with h5py.File(self.folder / "swept" / "nodes=4,learning_rate=0.05,seed=1.h5") as one, \
             h5py.File(self.folder / "swept" / "nodes=4,learning_rate=0.05,seed=2.h5") as two:
            best = sorted(file["evaluation/test_accuracy"][()].max() for file in (one, two))
        self.assertLess(*best)
        self.assertTrue(any("without runs that never get there" in text
                            for text in self.texts("swept", "--target", str(sum(best) / 2))))
        self.assertFalse(any("never" in text for text in self.texts("swept", "--target", "0.01")))

    def test_runs_whose_nodes_all_diverged_have_no_final_loss(self):
        (self.folder / "q.ini").write_text(re.sub(r"kind = mlp\n.*?\[", "kind = quadratic\n[", SCENARIO, flags=re.DOTALL))
        done = subprocess.run([PROGRAM, "run", "q.ini", "-o", "q.h5", "run.on_divergence=mark", "run.steps=60", "algorithm.learning_rate=5"],
                              cwd=self.folder, check=True, capture_output=True, text=True)
        self.assertIn("4 of 4 nodes", done.stdout)
        self.assertNotIn("test loss", done.stdout)  # that of step 40 is finite
        said = self.texts("q.h5")
        self.assertTrue(any(text.startswith("all nodes diverged, 60 steps") for text in said), said)

    def test_what_cannot_be_drawn_is_refused(self):
        end = run.Results(self.folder / "a.h5").end
        self.assertIn(f"the node timeline ends at {end:g} s (run.timeline), --window begins at 1 s", self.plot("a.h5", "--window", "1", "2", status=1))
        self.assertIn("no node timeline was kept (run.timeline)", self.plot("slow.h5", "--window", "0", "2", status=1))
        for words in (["a.h5", "slow.h5", "--window", "0", "1"], ["a.h5", "--convergence", "--window", "0", "1"], ["a.h5", "slow.h5", "--links"]):
            self.assertIn(" wants one run by itself", self.plot(*words, status=2))
        self.assertIn("argument --window: expected a bare number such as 0.1, in seconds, got 100ms\n",
                      self.plot("a.h5", "--window", "0", "100ms", status=2))
        self.assertIn("argument --target: expected a bare number such as 0.9, got 90%\n",
                      self.plot("a.h5", "slow.h5", "--target", "90%", status=2))
        self.assertIn("--links does not draw", self.plot("a.h5", "--links", "--window", "0", "1", status=2))
        self.assertIn("--metric wants the folder of a sweep", self.plot("a.h5", "--metric", "test_loss", status=2))
        self.assertIn("--links wants a run", self.plot("swept", "--links", status=2))
        self.assertIn("--target wants", self.plot("a.h5", "--target", "0.9", status=2))
        self.assertIn("folder of a sweep among them", self.plot("a.h5", "swept", status=2))
        (self.folder / "text.h5").write_text("no results")
        for words in (["{}"], ["a.h5", "{}"]):
            for name, expected in {"nowhere.h5": "nowhere.h5: cannot read: No such file or directory\n",
                                   "text.h5": "text.h5: expected a results file, found something that is not HDF5\n",
                                   "swept/table.h5": "swept/table.h5: expected a results file of Starling, found another HDF5 file\n"}.items():
                self.assertEqual(self.plot(*(word.format(name) for word in words), status=1), f"plot: {expected}")
        self.assertEqual(self.plot(".", status=1), "plot: .: holds no sweep: there is no table.csv\n")
        (self.folder / "bad.csv").write_text("time_seconds\n1\n")
        self.assertIn("bad.csv:1: expected names of columns with commas between them, one of them step", self.plot("a.h5", "bad.csv", status=1))
        (self.folder / "words.csv").write_text("step,test_loss\n1,much\n")
        self.assertIn("words.csv:2: test_loss must be a number, got much", self.plot("a.h5", "words.csv", status=1))


if __name__ == "__main__":
    PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
