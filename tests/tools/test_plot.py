#!/usr/bin/python3
"""`tools/plot`: every kind of picture is made, as PNG and as SVG, and replaces only pictures; what is asked for wrongly is refused.

usage: test_plot.py STARLING
"""
import math
import os
import resource
import shutil
import subprocess
import sys

import matplotlib.pyplot as plt
from plot_case import SCENARIO, PlotCase
from program_case import main
from python_tool import TOOLS

from pictures import convergence, run, sweep
from pictures.results import Results
from pictures.style import SERIES, STYLE, save, short


class PlotTest(PlotCase):
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

    def test_pictures_are_laid_out_at_the_resolution_that_they_have(self):
        with plt.style.context(STYLE, after_reset=True):
            figure = plt.figure(figsize=(2, 1))
        save(figure, self.folder / "two_inches.png")
        self.assertEqual(plt.imread(self.folder / "two_inches.png").shape[:2], (figure.dpi, 2 * figure.dpi))
        plt.close(figure)

    def test_numbers_are_short_and_have_no_exponent_beside_a_letter(self):
        for value, text in {0: "0", 0.00012345: "0.000123", 0.9996: "1", 999.4: "999", 999.6: "1000", 1234: "1234", -999.7: "-1000",
                            12345: "12.3k", 999400: "999k", 999600: "1M", 999.6e6: "1G", 1.5e12: "1.5e+12", 1.07e29: "1.07e+29",
                            math.inf: "inf", math.nan: "nan"}.items():
            self.assertEqual(short(value), text)

    def test_every_color_is_seen_in_grey(self):
        for color in SERIES:
            red, green, blue = plt.matplotlib.colors.to_rgb(color)
            self.assertLess(0.299 * red + 0.587 * green + 0.114 * blue, 0.7, color)

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

    def test_names_with_dollar_signs_and_underscores_are_no_formulas_and_are_named(self):
        shutil.copy(self.folder / "a.h5", self.folder / "_cost$x_{$.h5")
        shutil.copytree(self.folder / "swept", self.folder / "_swept$a_{$")
        for words in (["_cost$x_{$.h5"], ["_cost$x_{$.h5", "--links"], ["_swept$a_{$"]):
            self.assertTrue(any("$" in text for text in self.texts(*words)), words)
        said = self.texts("_cost$x_{$.h5", "slow.h5")
        self.assertEqual([text.strip("\u200b") for text in said].count("_cost$x_{$"), 1, said)  # in the legend

    def test_letters_of_no_font_are_told_in_one_sentence(self):
        shutil.copy(self.folder / "a.h5", self.folder / "\U00013000\U00013001.h5")  # hieroglyphs
        said = self.plot("\U00013000\U00013001.h5")
        self.assertEqual(said.count("\n"), 2, said)
        self.assertIn("note: boxes stand for \U00013000\U00013001, which are in none of the fonts DejaVu Sans", said)

    def test_steps_are_whole(self):
        subprocess.run([self.program, "run", "s.ini", "-q", "-o", "short.h5", "run.steps=1", "run.evaluate_every=1"], cwd=self.folder, check=True)
        results = Results(self.folder / "short.h5")
        single, beside = run.draw(results, "short.h5", None), convergence.draw([self.folder / "short.h5", self.folder / "short.h5"])[0]
        (self.folder / "short.ini").write_text(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.05, 0.1\n")
        subprocess.run([self.program, "sweep", "short.ini", "-q", "-o", "briefly", "run.steps=1", "run.evaluate_every=1"], cwd=self.folder, check=True)
        swept = sweep.draw(self.folder / "briefly")
        subprocess.run([self.program, "run", "s.ini", "-q", "-o", "timing.h5", "run.steps=20", "run.evaluate_every=1", "workload.kind=timing",
                        "workload.parameters=610", *(f"workload.{key}=default" for key in ("dataset", "hidden"))], cwd=self.folder, check=True)
        alone = convergence.draw([self.folder / "timing.h5"])[0]
        for figure, name, tick in ((single, "finished steps", 1), (beside, "steps", 1), (swept, "steps", 1), (alone, "finished steps, mean of nodes", 20)):
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

    def test_what_cannot_be_drawn_is_refused(self):
        end = Results(self.folder / "a.h5").end
        self.assertIn(f"the node timeline ends at {end:g} s (run.timeline), --window begins at 1 s", self.plot("a.h5", "--window", "1", "2", status=1))
        self.assertIn("no node timeline was kept (run.timeline)", self.plot("slow.h5", "--window", "0", "2", status=1))
        for words in (["a.h5", "slow.h5", "--window", "0", "1"], ["a.h5", "--convergence", "--window", "0", "1"], ["a.h5", "slow.h5", "--links"]):
            self.assertIn(" wants one run by itself", self.plot(*words, status=2))
        self.assertIn("argument --window: expected a bare number such as 0.1, in seconds, got 100ms\n",
                      self.plot("a.h5", "--window", "0", "100ms", status=2))
        self.assertIn("argument --target: expected a bare number such as 0.9, got 90%\n",
                      self.plot("a.h5", "slow.h5", "--target", "90%", status=2))
        self.assertIn("no timeline of links was kept (run.timeline)", self.plot("slow.h5", "--links", "--window", "0", "2", status=1))
        self.assertRegex(self.plot("a.h5", "--links", "--window", "1", "2", status=1), r"the timeline of links ends at 0\.\d+ s \(run.timeline\), --window begins at 1 s")
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
    main("program")
