#!/usr/bin/python3
"""`tools/plot` of sweeps: what pictures say of them is right, and can be read.

usage: test_plot_sweeps.py STARLING
"""
import csv
import re
import shutil
import subprocess

import h5py
import matplotlib.pyplot as plt
import numpy as np
from plot_case import SCENARIO, PlotCase
from program_case import main

from pictures import sweep, sweep_axes, sweep_curves, sweep_layout, sweep_tables
from pictures.metrics import write_outcome
from pictures.published import Published
from pictures.runs import Run, names_of
from pictures.style import GREY, short_number
from pictures.sweep_lines import speed_up
from pictures.sweep_tables import Sweep


class PlotSweepsTest(PlotCase):
    def drawn_sweep(self, name, lists, *what):
        """The figure of a sweep over `lists`, laid out."""
        (self.folder / f"{name}.ini").write_text(SCENARIO + f"[sweep]\n{lists}\n")
        subprocess.run([self.program, "sweep", f"{name}.ini", "-q", "-o", name], cwd=self.folder, capture_output=True)
        return self.laid_out(lambda: sweep.draw(self.folder / name, *what))

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

    def test_bars_of_shares_end_where_shares_do(self):
        cells = [(0.9, 0.2), (0.1, 0.3), (np.nan, np.nan)]
        np.testing.assert_allclose(sweep_axes.bars_of("test_accuracy", cells), [[0.2, 0.1, np.nan], [0.1, 0.3, np.nan]])
        np.testing.assert_allclose(sweep_axes.bars_of("test_loss", cells), [[0.2, 0.3, np.nan]] * 2)
        self.assertIsNone(sweep_axes.bars_of("target_reached", cells))

    def test_points_of_a_sweep_are_told_apart_by_what_differs(self):
        (self.folder / "four.ini").write_text(SCENARIO + "[sweep]\nrun.nodes = 4, 6\nrun.steps = 10\ntopology.kind = ring, complete\nrepeats = 2\n")
        subprocess.run([self.program, "sweep", "four.ini", "-q", "-o", "four"], cwd=self.folder, check=True)
        points = sorted(f"four/{path.name}" for path in (self.folder / "four").glob("*seed=1.h5"))
        self.assertEqual(names_of(points), ["nodes=4,kind=complete", "nodes=4,kind=ring", "nodes=6,kind=complete", "nodes=6,kind=ring"])
        self.assertEqual(names_of([points[0], "a.h5"]), ["nodes=4,steps=10,kind=complete,seed=1", "a"])
        self.assertIn("nodes=4,kind=complete against nodes=6,kind=ring: time per step ", self.plot(*points, "--x", "time"))
        self.assertEqual(self.plot(*points, "four/table.h5", "--x", "time"), self.plot(*points, "--x", "time"))  # as four/*.h5 names it
        said = self.texts(*points, "a.h5")  # long names stand above the panels, each once, and once in the title
        self.assertEqual(len([text for text in said if text == "nodes=6,steps=10,kind=ring,seed=1"]), 1)

    def test_words_along_an_axis_are_not_joined_by_a_line(self):
        (self.folder / "words.ini").write_text(SCENARIO + "[sweep]\ntopology.kind = ring, complete, star\n")
        subprocess.run([self.program, "sweep", "words.ini", "-q", "-o", "words"], cwd=self.folder, check=True)
        (self.folder / "rates.ini").write_text(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.01, 0.02, 0.05\n")
        subprocess.run([self.program, "sweep", "rates.ini", "-q", "-o", "rates"], cwd=self.folder, check=True)
        self.assertIn("topology kind", self.texts("words"))
        for name, joined in (("words", False), ("rates", True)):
            figure = sweep.draw(self.folder / name, ["samples_per_second"])
            self.assertEqual([line.get_linestyle() != "None" for line in figure.axes[0].get_lines()], [joined])

    def test_zipped_keys_are_one_axis(self):
        (self.folder / "zip.ini").write_text(SCENARIO + "[sweep]\nrun.nodes = 4, 6, 8\nrun.steps = 10, 20, 30\n"
                                             "algorithm.learning_rate = 0.05, 0.1\nzip = run.nodes, run.steps\n")
        subprocess.run([self.program, "sweep", "zip.ini", "-q", "-o", "zipped"], cwd=self.folder, check=True)
        swept = Sweep(self.folder / "zipped")
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
            subprocess.run([self.program, "sweep", f"{name}.ini", "-q", "-o", name], cwd=self.folder, check=True)
            said = self.texts(name)
            self.assertIn(f"{name}: 3 runs", said)
            self.assertIn("nodes / steps", said)
            self.assertEqual(len(Sweep(self.folder / name).values(Sweep(self.folder / name).keys[0])), 3)
            self.assertEqual(Sweep(self.folder / name).varied(), ["run.steps"] if name == "second" else ["zip"])
        self.assertIn("neither: 1 run, at nodes / steps = 6 / 20", self.texts("neither", "--at", "run.nodes=6"))

    def test_values_of_zipped_keys_hold_together(self):
        self.drawn_sweep("codes", "algorithm.kind = choco, choco, choco, dpsgd\nalgorithm.compression = top_k, top_k, sign, default\n"
                         "algorithm.keep = 0.1, 0.5, default, default\nalgorithm.consensus_rate = 0.3, 0.3, 0.3, default\n"
                         "zip = algorithm.kind algorithm.compression algorithm.keep algorithm.consensus_rate\nalgorithm.learning_rate = 0.05, 0.1")
        self.set_cells("codes", test_accuracy=lambda row: 0.1 + 0.1 * row)  # the later, the better
        held = Sweep(self.folder / "codes").held
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
        subprocess.run([self.program, "sweep", "lacks.ini", "-q", "-o", "lacks"], cwd=self.folder, check=True)
        self.assertLessEqual({"dpsgd", "local_sgd / 2", "local_sgd / 4"}, set(self.texts("lacks")))

    def test_what_differs_by_rounding_alone_is_drawn_as_constant(self):
        figure, (rounded, varying) = plt.subplots(1, 2)
        rounded.plot([31.6, 31.6 * (1 + 1e-12)])
        varying.plot([31.6, 31.7])
        range_of_varying = varying.get_ylim()
        sweep_layout.calm(figure)
        self.assertGreater(np.ptp(rounded.get_ylim()), 3)
        self.assertEqual(varying.get_ylim(), range_of_varying)
        plt.close(figure)

    def test_noise_of_rounding_single_samples_and_zeros_do_not_fill_an_axis(self):
        figure, axes = plt.subplots(1, 5)
        for ax, metric, values in zip(axes, ("consensus_distance", "test_accuracy", "wait_share", "bytes_per_step", "communicate_share"),
                                      ([1.34e-6, 1.4e-6], [0.911, 0.914], [0, 0], [2e6, 4e6], [0.0005, 0.0005])):
            ax.plot(values)
            sweep_axes.scale(ax, "y", metric, values)
        sweep_layout.calm(figure)
        distance, accuracy, nothing, sent, little = axes
        self.assertEqual(distance.get_yscale(), "log")
        self.assertGreater(distance.get_ylim()[1], 9 * distance.get_ylim()[0])
        self.assertAlmostEqual(np.ptp(accuracy.get_ylim()), 0.02)
        self.assertEqual(nothing.get_ylim(), (-0.05, 1))
        np.testing.assert_allclose(little.get_ylim(), (-0.001, 0.019))
        self.assertEqual(sent.yaxis.get_major_formatter()(3e6), "3 MB")
        self.assertEqual(write_outcome("target_bytes", 55.39e6), "55.4 MB")
        plt.close(figure)

    def speed_up_without(self, name, *missing, rates):
        """Title and curves (x, y) of the sweep over 4, 8 nodes and 0.05, 0.1, of which points are missing, with such rates."""
        folder = self.folder / name
        folder.mkdir()
        for file in ("table.csv", "points.csv"):
            lines = (self.folder / "swept" / file).read_text().splitlines(keepends=True)
            (folder / file).write_text("".join(line for line in lines if not any(f"{point}," in line for point in missing)))
        self.set_cells(name, samples_per_second=lambda row: rates[row])
        figure, ax = plt.subplots()
        speed_up(ax, Sweep(folder), "algorithm.learning_rate", {})
        plt.close(figure)
        return ax.get_title(), [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines]

    def test_the_speed_up_has_one_unit_for_all_series(self):
        # of 4 nodes 0.1 is the faster, by 8 times; then 0.05 comes to the half of it, which doubles
        title, curves = self.speed_up_without("all", rates=[10, 80, 80, 160])
        self.assertEqual(title, "Speed-up (the best of 4 nodes: 4)")
        self.assertEqual(curves, [([4, 8], [0.5, 4]), ([4, 8], [4, 8]), ([4, 8], [4, 8])])

    def test_a_series_that_begins_later_is_no_ideal_one(self):
        # 0.1 has no point with 4 nodes; with 8 it is a quarter faster than 0.05 with 4
        title, curves = self.speed_up_without("holes", "4,0.1", rates=[80, 120, 100])
        self.assertEqual(title, "Speed-up (the best of 4 nodes: 4)")
        self.assertEqual(curves, [([4, 8], [4, 6]), ([8], [5]), ([4, 8], [4, 8])])

    def test_the_speed_up_is_one_of_the_fewest_nodes_that_are_finished(self):
        for rates, y in (([100, 50], [8, 4]), (["", ""], [])):
            title, curves = self.speed_up_without(f"8 nodes{len(y)}", "4,0.05", "4,0.1", rates=rates)
            self.assertEqual(title, "Speed-up (the best of 8 nodes: 8)")
            self.assertEqual([y[0] for x, y in curves if x == [8]], [*y, 8])

    def test_one_outcome_is_drawn_against_another(self):
        figure = self.drawn_sweep("traded", "algorithm.kind = dpsgd, allreduce\nrun.steps = 10, 20, 40\nrepeats = 2",
                                  ["test_accuracy"], ["run.steps", "algorithm.kind"], (), (), (), "bytes_per_step")
        swept = Sweep(self.folder / "traded")
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
        sweep_layout.make_room(figure)
        figure.draw_without_rendering()
        self.assertLess(ax.transData.transform((right, low))[1], legend.get_window_extent().y0 - 0.03 * figure.dpi)
        plt.close(figure)

    def test_what_was_published_is_drawn_over_a_sweep_and_the_deviations_are_told(self):
        rate = Sweep(self.folder / "swept").cell("samples_per_second", {"run.nodes": "4", "algorithm.learning_rate": "0.05"})[0]
        file = self.folder / "published.csv"
        file.write_text(f"# read off their figure 3\nrun.nodes, samples_per_second\n4, {rate / 1.25}\n16, 1000\n")
        said = self.plot("swept", "--published", "published.csv")
        for other in ("0.05", "0.1"):  # the file does not say with which learning rate: that of each line
            self.assertRegex(said, rf"run.nodes = 4, algorithm.learning_rate = {other}: samples_per_second \S+, published \S+, \+25.0 %")
        self.assertIn("run.nodes = 16: samples_per_second published 1000, of no finished point", said)
        figure = self.laid_out(lambda: sweep.draw(self.folder / "swept", published=Published(file, Sweep(self.folder / "swept"))))
        hollow = [line for ax in figure.axes for line in ax.lines if line.get_markersize() > 8 and len(line.get_ydata())]
        for line in hollow:
            np.testing.assert_allclose(line.get_ydata(), [rate / 1.25, np.nan])
        self.assertEqual([line.get_color() for line in hollow], [GREY])  # once, of no line
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
            swept = Sweep(self.folder / "noisy")
            swept.table += [{**swept.table[0], "algorithm.kind": "allreduce", "runs": "1", "test_accuracy": ""}] if note else []
            self.assertEqual(swept.best_for_all("algorithm.learning_rate", "algorithm.kind", {}), rate)
            figure, ax = plt.subplots()
            sweep_curves.curves(ax, swept, "test_accuracy", "step", "algorithm.kind", {}, {"algorithm.learning_rate": rate})
            self.assertEqual([text.get_text() for text in ax.texts], note)
            plt.close(figure)

    def test_the_best_gets_most_runs_to_the_target_then_soonest_or_learns_best(self):
        folder = self.folder / "reaching"
        folder.mkdir()
        (folder / "scenario.ini").write_text("[sweep]\na.kind = x, y\na.rate = 1, 2, 3\n")
        head = "a.kind,a.rate,runs,test_accuracy,test_accuracy_deviation,target_reached,target_reached_deviation,target_time_seconds,target_time_seconds_deviation"
        rows = ["x,1,3,0.8,0,0.667,0.5,10,0", "x,2,3,0.7,0,1,0,20,0", "x,3,3,0.7,0,1,0,15,0",  # two of three, three, three and sooner
                "y,1,3,0.5,0,0,0,,", "y,2,3,0.6,0,0,0,,", "y,3,3,0.4,0,0,0,,"]                # nobody gets there
        (folder / "table.csv").write_text("\n".join([head, *rows]) + "\n")
        (folder / "points.csv").write_text("point,a.kind,a.rate,run.seed\n")
        swept = sweep.Sweep(folder)
        swept.judge = "target_time_seconds"
        for kind, rate in (("x", "3"), ("y", "2")):
            self.assertEqual(swept.chosen({"a.kind": kind, "a.rate": sweep_tables.BEST})["a.rate"], rate)
        self.assertEqual(swept.choices_in_words(), ["a kind = x: rate of the best target time seconds is 3, the greatest",
                                                    "a kind = y: rate of the best target time seconds is 2"])

    def test_the_best_of_a_swept_key_is_chosen_for_each_combination(self):
        rates = {"dpsgd": "0.001", "allreduce": "0.1"}
        self.drawn_sweep("tuned", "algorithm.kind = dpsgd, allreduce\nalgorithm.learning_rate = 0.001, 0.01, 0.1\nrepeats = 2")
        swept = Sweep(self.folder / "tuned")
        self.set_cells("tuned", test_accuracy=lambda i: 0.5 + 0.1 * (swept.table[i]["algorithm.learning_rate"] == rates[swept.table[i]["algorithm.kind"]]),
                       samples_per_second=lambda i: float(swept.table[i]["algorithm.learning_rate"]))
        figure = self.laid_out(lambda: sweep.draw(self.folder / "tuned", fixed=[("algorithm.learning_rate", "best")]))
        accuracy, throughput, *curves = figure.axes
        self.assertEqual(list(accuracy.lines[0].get_ydata()), [0.6, 0.6])
        self.assertEqual(list(throughput.lines[0].get_ydata()), [0.001, 0.1])  # of the runs whose accuracy is best
        self.assertEqual([text.get_text() for text in curves[0].get_legend().get_texts()],
                         ["dpsgd, learning rate = 0.001", "allreduce, learning rate = 0.1"])
        self.assertEqual(figure._suptitle.get_text().replace("\n", " "),
                         "tuned: best of 12 runs, at learning rate of the best test accuracy; mean over seeds, bars and bands for one standard deviation")
        figure = self.laid_out(lambda: sweep.draw(self.folder / "tuned", ["wait_share"], fixed=[("algorithm.learning_rate", "best")]))
        least = [min(float(row["wait_share"]) for row in swept.table if row["algorithm.kind"] == kind) for kind in rates]
        self.assertEqual(list(figure.axes[0].lines[0].get_ydata()), least)
        self.set_cells("tuned", runs=lambda i: 1 if swept.table[i]["algorithm.learning_rate"] == "0.1" else 2)  # the other one failed
        figure = self.laid_out(lambda: sweep.draw(self.folder / "tuned", fixed=[("algorithm.learning_rate", "best")]))
        self.assertEqual(list(figure.axes[0].lines[0].get_ydata()), [0.6, 0.5])

    def test_long_headings_are_broken_into_lines_and_do_not_run_into_each_other(self):
        figure = self.drawn_sweep("headed", "run.steps = 10, 20\nalgorithm.kind = compressed_parameter_server, gradient_tracking\n"
                                  "algorithm.direction = both, default\nalgorithm.keep = 0.1, default\nworkload.batch_size = 8, 16\n"
                                  "zip = algorithm.kind algorithm.direction algorithm.keep\nalgorithm.learning_rate = 0.05, 0.1\n"
                                  "compute.gradient = 1 ms, 2 ms\nnetwork.bandwidth = 1 GB/s\nnetwork.latency = 1 us\nrepeats = 2",
                                  (), ("run.steps", "algorithm.kind"))
        heading = figure._suptitle
        self.assertLessEqual(heading.get_window_extent().x1, figure.bbox.x1)
        self.assertIn("bars and bands for one standard deviation", heading.get_text().replace("\n", " "))
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
        self.assertTrue(figure._suptitle.get_text().replace("\n", " ").endswith("2 of the sweep's runs failed"), figure._suptitle.get_text())
        for log in (self.folder / "failing").glob("*.log"):
            log.write_text("")  # as of one that runs
        self.assertNotIn("failed", self.laid_out(lambda: sweep.draw(self.folder / "failing"))._suptitle.get_text())

    def test_bars_are_named_only_where_there_are_some(self):
        self.assertEqual(self.drawn_sweep("repeated", "repeats = 3")._suptitle.get_text(), "repeated: 3 runs; mean over seeds, bands for one standard deviation")
        figure = self.laid_out(lambda: sweep.draw(self.folder / "repeated"))
        losses = []
        for seed in (1, 2, 3):
            with h5py.File(self.folder / f"repeated/seed={seed}.h5") as file:
                losses.append(file["evaluation/test_accuracy"][()])
        mean, deviation = np.mean(losses, axis=0), np.std(losses, axis=0, ddof=1)
        self.assertGreater(deviation.max(), 0)
        for ax in figure.axes:
            corners = ax.collections[0].get_paths()[0].vertices[:, 1]
            self.assertAlmostEqual(corners.min(), np.maximum(mean - deviation, 0).min())
            self.assertAlmostEqual(corners.max(), np.minimum(mean + deviation, 1).max())

    def test_what_is_of_fewer_runs_than_others_says_so(self):
        self.drawn_sweep("fewer", "algorithm.learning_rate = 0.05, 0.1\nalgorithm.kind = dpsgd, allreduce\nrepeats = 3")
        self.set_cells("fewer", runs=lambda row: 1 if row == 2 else 3)  # 0.1, dpsgd
        figure = self.laid_out(lambda: sweep.draw(self.folder / "fewer", ["samples_per_second"]))
        cells, lines = figure.axes[:2]
        self.assertEqual([text.get_text().split("\n")[1:] for text in cells.texts], [[], ["1 run"], [], []])
        self.assertEqual([text.get_text() for text in lines.texts], ["1 run"])
        self.assertIn("of fewer runs than others", [text.get_text() for text in lines.get_legend().get_texts()])
        figure = self.laid_out(lambda: sweep.draw(self.folder / "fewer", fixed=[("algorithm.kind", "dpsgd")]))
        self.assertEqual([text.get_text() for text in figure.axes[-1].get_legend().get_texts()], ["0.05", "0.1, 1 run"])

    def test_words_that_stand_too_close_are_turned(self):
        names = ["ring", "complete", "random_matching", "exponential", "one_peer_exponential", "hypercube", "star"]
        for count, turned in ((2, 0), (7, 20)):
            figure = self.drawn_sweep(f"turned{count}", f"topology.kind = {', '.join(names[:count])}")
            labels = figure.axes[0].get_xticklabels()
            self.assertEqual([label.get_text() for label in labels if label.get_visible()], names[:count])
            self.assertEqual({label.get_rotation() for label in labels}, {turned})

    def test_keys_of_one_name_are_told_apart_by_their_sections(self):
        (self.folder / "kinds.ini").write_text(SCENARIO + "[sweep]\nalgorithm.kind = dpsgd, sgp\ntopology.kind = ring, complete\n")
        subprocess.run([self.program, "sweep", "kinds.ini", "-q", "-o", "kinds"], cwd=self.folder, check=True)
        self.assertLessEqual({"algorithm kind", "topology kind"}, set(self.texts("kinds")))

    def test_curves_are_as_many_as_can_be_told_apart(self):
        (self.folder / "many.ini").write_text(SCENARIO + "[sweep]\nrun.nodes = 4, 8\nalgorithm.learning_rate = 0.01 .. 0.2 step 0.01\n")
        subprocess.run([self.program, "sweep", "many.ini", "-q", "-o", "many"], cwd=self.folder, check=True)
        self.assertIn("learning rate, 8 of 20", self.texts("many"))
        self.assertIn("9 runs are too many", self.plot(*["a.h5"] * 9, status=1))

    def test_runs_without_numbers_are_compared_by_their_time_per_step(self):
        timing = re.sub(r"kind = mlp\n.*?\[", "kind = timing\nparameters = 100\n[", SCENARIO, flags=re.DOTALL)
        (self.folder / "timing.ini").write_text(timing)
        subprocess.run([self.program, "run", "timing.ini", "-q", "-o", "timing.h5"], cwd=self.folder, check=True)
        (self.folder / "long.csv").write_text("step,time_seconds\n100000,125\n")  # 1.25 ms per step
        said = self.texts("timing.h5", "long.csv")
        self.assertIn("time per step (ms)", said)
        self.assertIn("1.25", said)

    def noted(self, figure, title):
        """Hollow marks and notes of a panel, and what its legend says of them."""
        ax = next(ax for ax in figure.axes if ax.get_title("left").startswith(title) and ax.lines)
        hollow = [line.get_ydata()[0] for line in ax.lines if line.get_markerfacecolor() == "white" and len(line.get_ydata())]
        return hollow, [text.get_text() for text in ax.texts], [text.get_text() for text in ax.get_legend().get_texts()]

    def test_times_of_some_seeds_alone_say_so(self):
        points = [self.folder / "swept" / f"nodes=4,learning_rate=0.05,seed={seed}.h5" for seed in (1, 2)]
        worse, better = sorted(points, key=lambda path: max(Run(path).curve("test_accuracy", "time")[1]))
        target = sum(max(Run(path).curve("test_accuracy", "time")[1]) for path in (worse, better)) / 2
        time = Run(better).reached("test_accuracy", target)[0]
        (self.folder / "some.ini").write_text(SCENARIO + f"[sweep]\nrepeats = 2\nalgorithm.learning_rate = 0.05, 0.001\ntarget = test_accuracy {target}\n")
        subprocess.run([self.program, "sweep", "some.ini", "-q", "-o", "some"], cwd=self.folder, check=True)
        figure = self.laid_out(lambda: sweep.draw(self.folder / "some", ["target_time_seconds"], targets=[target]))
        for title in "Virtual time to the target, s, of runs that get there", "Virtual time to ":
            hollow, notes, said = self.noted(figure, title)
            np.testing.assert_allclose(hollow, [time])
            self.assertEqual((notes, said), (["1 of 2"], ["of those that get there"]))
        figure = self.laid_out(lambda: sweep.draw(self.folder / "some", ["target_step"], against="target_bytes"))
        self.assertIn("0.05 (1 of 2)", [text.get_text() for text in figure.axes[0].texts])
        self.assertFalse(any(" of 2" in text for text in self.texts("swept", "--target", "0.05")))

    def test_times_that_are_bounds_say_so(self):
        figure = self.drawn_sweep("seldom", "run.evaluate_every = 1, 40\ntopology.kind = ring, complete\ntarget = test_accuracy 0.2",
                                  ["target_time_seconds"], (), (), [0.2])
        for title in "Virtual time to the target", "Virtual time to 20%":
            hollow, notes, said = self.noted(figure, title)
            np.testing.assert_allclose(hollow, [0.04, 0.04], rtol=0.01)
            self.assertEqual((notes, said), (["≤", "≤"], ["ring", "complete", "at most"]))
        cells = [text.get_text() for text in figure.axes[0].texts]
        self.assertEqual([text.partition("\n")[2] for text in cells], ["", "≤", "", "≤"])

    def test_a_heading_counts_the_runs_in_which_nodes_diverged(self):
        figure = self.drawn_sweep("marked", "algorithm.learning_rate = 0.05, 1e20\nrepeats = 2\nrun.on_divergence = mark")
        self.assertTrue(figure._suptitle.get_text().replace("\n", " ").endswith("; nodes diverged in 2 of the sweep's runs"))

    def test_numbers_along_a_wide_axis_do_not_run_into_each_other(self):
        figure = self.drawn_sweep("wide", "algorithm.learning_rate = 0.3, 1e9, 1e10, 1e20\nrun.steps = 10\nrun.on_divergence = mark")
        labels = [label for label in figure.axes[0].get_xticklabels() if label.get_visible()]
        self.assertEqual([label.get_text() for label in labels], ["0.3", "1e+09", "1e+20"])
        self.assertFalse([1 for a, b in zip(labels, labels[1:]) if a.get_window_extent().x1 + 3 > b.get_window_extent().x0])

    def test_a_zipped_key_that_one_kind_lacks_keeps_its_place(self):
        self.drawn_sweep("places", "algorithm.kind = dpsgd, local_sgd, wagma\nalgorithm.period = default, 4, default\n"
                         "algorithm.group_size = default, default, 4\nzip = algorithm.kind algorithm.period algorithm.group_size")
        said = set(self.texts("places"))
        self.assertLessEqual({"algorithm kind / period / group size", "dpsgd", "local_sgd / 4", "wagma / – / 4"}, said)


if __name__ == "__main__":
    main("program")
