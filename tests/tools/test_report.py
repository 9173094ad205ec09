#!/usr/bin/python3
"""tools/plot and tools/report on a sweep and on a run: what they write, and the page in a real browser where there is one.

usage: test_report.py STARLING
"""
import csv
import html.parser
import os
import re
import shutil
import subprocess
import unittest

from program_case import ProgramCase, main
from python_tool import TOOLS, call
from runs import obey_permissions
from small_scenarios import SCENARIO, SMALL

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Cells(html.parser.HTMLParser):
    """Rows of the first table of a page, as texts."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.tables, self.is_cell, self.links = [], 0, False, []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tables += tag == "table"
        if self.tables == 1 and tag == "tr":
            self.rows.append([])
        self.is_cell = tag in ("td", "th") and self.tables == 1
        self.links += [value for name, value in attributes if name in ("src", "href")]

    def handle_data(self, data):
        if self.is_cell:
            self.rows[-1].append(data)

    def handle_endtag(self, tag):
        self.is_cell = False


class ReportTest(ProgramCase):
    @classmethod
    def setUpClass(cls):
        cls.share_folder()
        (cls.folder / "s.ini").write_text(SMALL)
        cls.run_tool(cls.program, "sweep", "s.ini", "-o", "out", "-q")

    @classmethod
    def run_tool(cls, program, *words, status=0, before=None):
        """What a program says, or a tool in Python; with `before`, this is called in a process of its own."""
        if program.parent == TOOLS and before is None:
            end, said = call(program.name, words, cls.folder)
        else:
            done = subprocess.run([program, *words], cwd=cls.folder, capture_output=True, text=True, timeout=240, preexec_fn=before)
            end, said = done.returncode, done.stdout + done.stderr
        if end != status:
            raise AssertionError(f"{program} {words}: ended with {end}: {said}")
        return said

    def page(self):
        self.run_tool(TOOLS / "report", "out", "-o", "page.html")
        return (self.folder / "page.html").read_text()

    def rows_in_browser(self, script):
        """First column but one of the table after `script` ran in the page."""
        page = self.page().replace("</body>", f"<script>{script}</script></body>")
        (self.folder / "clicked.html").write_text(page)
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                               f"file://{self.folder}/clicked.html"], capture_output=True, text=True, timeout=120)
        return Cells(done.stdout).rows[1:]

    def test_a_sweep_is_drawn_whole_or_as_asked(self):
        self.run_tool(TOOLS / "plot", "out")
        self.assertEqual((self.folder / "out" / "sweep.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        self.run_tool(TOOLS / "plot", "out", "--metric", "step_time_seconds", "--over", "compute.gradient", "--at",
                      "algorithm.learning_rate=0.1", "-o", "time.svg")
        svg = (self.folder / "time.svg").read_text()
        self.run_tool(TOOLS / "plot", "out", "--metric", "step_time_seconds", "--over", "compute.gradient", "--at",
                      "algorithm.learning_rate=0.1", "-o", "again.svg")
        self.assertEqual(svg, (self.folder / "again.svg").read_text())

    def test_what_cannot_be_drawn_is_said(self):
        self.assertIn("no outcome speed; known are test_accuracy",
                      self.run_tool(TOOLS / "plot", "out", "--metric", "speed", status=1))
        self.assertIn("run.nodes is not swept; swept are algorithm.learning_rate",
                      self.run_tool(TOOLS / "plot", "out", "--over", "run.nodes", status=1))
        (self.folder / "empty").mkdir(exist_ok=True)
        for tool in ("plot", "report"):
            self.assertEqual(self.run_tool(TOOLS / tool, "empty", status=1), f"{tool}: empty: holds no sweep: there is no table.csv\n")

    def test_a_page_holds_the_table_and_needs_nothing_else(self):
        page = self.page()
        cells = Cells(page)
        with open(self.folder / "out" / "table.csv", newline="") as file:
            table = list(csv.DictReader(file))
        self.assertEqual(len(cells.rows), 1 + len(table))
        self.assertEqual([row[1] for row in cells.rows[1:]], [row["compute.gradient"] for row in table])
        self.assertTrue(all(link.startswith("data:image/png;base64,") for link in cells.links), cells.links[:3])
        self.assertNotRegex(page, r"https?://")
        self.assertIn("learning_rate = 0.05", page)
        self.assertRegex(page, r"<dt>code version</dt><dd>[^<]+</dd>")

    def test_a_page_names_the_points_that_failed(self):
        (self.folder / "failing.ini").write_text(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.1, 1e30\nrun.seed = 1, 2\n")
        self.run_tool(self.program, "sweep", "failing.ini", "-o", "failing", "-q", status=1)
        self.run_tool(TOOLS / "report", "failing", "-o", "failing.html")
        page = (self.folder / "failing.html").read_text()
        self.assertIn("2 runs, and 2 that failed; ", page)
        self.assertEqual(re.findall(r">(learning_rate=[^<]*)</td><td[^>]*>starling: the loss of node \d+ became", page),
                         ["learning_rate=1e30,seed=1", "learning_rate=1e30,seed=2"])
        self.assertNotIn("failed", self.page())

    def test_a_page_has_the_columns_of_the_tables_alone(self):
        lists = "run.nodes = 2, 2, 4\nrun.steps = 5, 6, 5\nzip = run.nodes run.steps"  # neither key tells all points apart
        (self.folder / "zipped.ini").write_text(SCENARIO + f"[sweep]\n{lists}\n")
        self.run_tool(self.program, "sweep", "zipped.ini", "-o", "zipped", "-q")
        self.run_tool(TOOLS / "report", "zipped", "-o", "zipped.html")
        names = Cells((self.folder / "zipped.html").read_text()).rows[0]
        self.assertEqual(names[:3], ["run.nodes", "run.steps", "runs"])
        self.assertNotIn("zip", names)

    def test_a_page_counts_the_points_of_shards_that_never_ran(self):
        (self.folder / "shards.ini").write_text(SCENARIO + "[sweep]\nalgorithm.learning_rate = 0.05, 0.1, 1e30\nrun.seed = 1 .. 3\n")
        # Point 1 of each group of 4: rates and seeds 0.05 1, 0.1 2, 1e30 3.
        self.run_tool(self.program, "sweep", "shards.ini", "-o", "shards", "-q", "--shard", "1/4", status=1)
        self.run_tool(TOOLS / "report", "shards", "-o", "shards.html")
        self.assertIn("2 runs, 1 that failed, and 6 not yet finished; ", (self.folder / "shards.html").read_text())
        (self.folder / "shards" / "table.h5").unlink()  # as older programs left none of this
        self.run_tool(TOOLS / "report", "shards", "-o", "shards.html")
        self.assertIn("2 runs, and 1 that failed; ", (self.folder / "shards.html").read_text())

    def test_a_sweep_of_which_no_picture_can_be_drawn_has_a_page(self):
        timing = re.sub(r"kind = mlp\n.*?\[", "kind = timing\nparameters = 100\n[", SCENARIO, flags=re.DOTALL)
        (self.folder / "one.ini").write_text(timing + "[sweep]\nalgorithm.learning_rate = 0.1\n")
        self.run_tool(self.program, "sweep", "one.ini", "-o", "one", "-q")
        self.run_tool(TOOLS / "report", "one", "-o", "one.html")
        page = (self.folder / "one.html").read_text()
        self.assertIn("<p>No picture: one: one point alone makes no picture of a sweep.</p>", page)
        self.assertEqual(Cells(page).rows[1][0], "0.1")
        (self.folder / "no_time.ini").write_text(
            timing.replace("20 us", "0 s").replace("1 ms", "0 s") + "[sweep]\nalgorithm.learning_rate = 0.1, 0.2\n")
        self.run_tool(self.program, "sweep", "no_time.ini", "-o", "no_time", "-q")
        self.assertEqual(self.run_tool(TOOLS / "plot", "no_time", status=1),
                         "plot: no_time: nothing to draw: no test accuracy, AUC, loss or throughput is known\n")

    def test_quantities_are_sorted_whatever_their_units(self):
        (self.folder / "units.ini").write_text(SCENARIO + "[sweep]\ncompute.gradient = 500 us, 1 ms, 0.01 s\n")
        self.run_tool(self.program, "sweep", "units.ini", "-o", "units", "-q")
        self.run_tool(TOOLS / "report", "units", "-o", "units.html")
        page = (self.folder / "units.html").read_text()
        values = [float(re.search(f'data-value="([^"]*)">{text}<', page)[1]) for text in ("500 us", "1 ms", "0.01 s")]
        self.assertEqual(values, [0.0005, 0.001, 0.01])

    def test_a_page_that_cannot_be_written_whole_is_not_begun(self):
        (self.folder / "taken").mkdir(exist_ok=True)
        self.assertIn("report: taken: cannot write: Is a directory", self.run_tool(TOOLS / "report", "out", "-o", "taken", status=1))
        self.assertIn("nowhere.h5", self.run_tool(TOOLS / "report", "nowhere.h5", "-o", "nowhere.html", status=1))
        self.assertEqual(list(self.folder.glob("taken*")), [self.folder / "taken"])

    def test_a_name_that_is_no_unicode_has_a_page(self):
        self.run_tool(self.program, "run", "s.ini", "-q", "-o", "latin.h5")
        name = os.fsencode(self.folder) + b"/caf\xe9.h5"
        os.rename(self.folder / "latin.h5", name)
        subprocess.run([TOOLS / "report", name, "-o", self.folder / "latin.html"], check=True, capture_output=True, timeout=120)
        self.assertIn("<title>caf?</title>", (self.folder / "latin.html").read_text())

    def test_names_that_are_no_unicode_are_drawn(self):
        name = os.fsdecode(b"caf\xe9")
        self.run_tool(self.program, "run", "s.ini", "-q", "-o", f"{name}.h5")
        self.run_tool(TOOLS / "plot", f"{name}.h5", "-o", "name.svg")
        self.assertIn("caf?", (self.folder / "name.svg").read_text())
        for graph in (name, "tea"):
            (self.folder / f"{graph}.dot").write_text("graph { 0 -- 1; 1 -- 2; 2 -- 3; 3 -- 4; 4 -- 5; 5 -- 6; 6 -- 7 }")
        (self.folder / "names.ini").write_bytes(os.fsencode(
            SCENARIO.replace("kind = ring", "kind = file") + f"[sweep]\ntopology.path = {name}.dot, tea.dot\n"))
        self.run_tool(self.program, "sweep", "names.ini", "-o", "names", "-q")
        self.run_tool(TOOLS / "plot", "names", "-o", "names.svg")
        self.assertIn("caf?.dot", (self.folder / "names.svg").read_text())
        self.run_tool(TOOLS / "report", "names", "-o", "names.html")
        self.assertIn(">caf?.dot</td>", (self.folder / "names.html").read_text())

    def test_a_run_has_a_page_too(self):
        self.run_tool(self.program, "run", "s.ini", "-q", "-o", "one.h5")
        self.run_tool(self.program, "report", "one.h5")
        cells = Cells((self.folder / "one.html").read_text())
        self.assertIn("test_loss", cells.rows[0])

    def test_what_is_no_page_is_not_replaced_by_one(self):
        self.run_tool(self.program, "run", "s.ini", "-q", "-o", "mine.h5")
        for name, text in (("s.ini", SMALL), ("mine.html", "<!doctype html>\n<title>Mine</title>\n")):
            (self.folder / name).write_text(text)
            self.assertIn(f"report: {name}: is there already and no report", self.run_tool(TOOLS / "report", "mine.h5", "-o", name, status=1))
            self.assertEqual((self.folder / name).read_text(), text)
        (self.folder / "mine.html").write_text("")
        for _ in range(2):
            self.run_tool(TOOLS / "report", "mine.h5")
        for mode, why in ((0, "is there already"), (0o400, "cannot write: Permission denied")):
            (self.folder / "mine.html").chmod(mode)
            self.assertIn(f"mine.html: {why}", self.run_tool(TOOLS / "report", "mine.h5", status=1, before=obey_permissions))
        os.mkfifo(self.folder / "pipe")
        self.assertIn("report: pipe: is there already and no report", self.run_tool(TOOLS / "report", "mine.h5", "-o", "pipe", status=1))
        self.assertTrue((self.folder / "pipe").is_fifo())

    def test_the_timeline_of_a_run_shows_the_stretch_that_one_names(self):
        self.run_tool(self.program, "run", "s.ini", "run.timeline=1 s", "-q", "-o", "kept.h5")
        pages = []
        for words in ([], ["--window", "0", "0.002"]):
            self.run_tool(self.program, "report", "kept.h5", "-o", "kept.html", *words)
            pages.append((self.folder / "kept.html").read_text())
        self.assertNotEqual(*pages)
        self.assertIn("--window begins at 2 s", self.run_tool(self.program, "report", "kept.h5", "--window", "2", "3", status=1))
        self.assertIn("--window: expected a bare number such as 0.1, in seconds, got 3s", self.run_tool(self.program, "report", "kept.h5", "--window", "2", "3s", status=2))
        self.assertIn("--window wants a run", self.run_tool(self.program, "report", "out", "--window", "2", "3", status=2))

    def test_the_table_of_a_run_begins_with_its_steps_and_times(self):
        self.run_tool(self.program, "run", "s.ini", "-q", "-o", "columns.h5")
        self.run_tool(TOOLS / "report", "columns.h5", "-o", "columns.html")
        heads = re.findall(r"<th>([^<]*)", (self.folder / "columns.html").read_text())
        self.assertEqual(heads[:6], ["step", "time (s)", "epoch", "samples", "bytes sent (B)", "consensus_distance"])

    def test_a_page_has_the_evaluations_by_time_too(self):
        for settings, is_there in (["run.evaluate_interval=2 ms"], True), ([], False):
            self.run_tool(self.program, "run", "s.ini", "-o", "timed.h5", "-q", *settings)
            self.run_tool(TOOLS / "report", "timed.h5")
            page = (self.folder / "timed.html").read_text()
            self.assertIn("<h2>Evaluations</h2>", page)
            self.assertEqual("<h2>Evaluations by time</h2>" in page, is_there)

    def test_what_differs_between_points_is_not_told_of_all(self):
        (self.folder / "parts.ini").write_text(SCENARIO + "[sweep]\nworkload.partition = iid, by_label\nalgorithm.kind = dpsgd, sgp\n")
        self.run_tool(self.program, "sweep", "parts.ini", "-o", "parts", "-q")
        self.run_tool(TOOLS / "report", "parts", "-o", "parts.html")
        page = (self.folder / "parts.html").read_text()
        self.assertIn('<p class="about">4 runs</p>', page)
        told = re.findall(r"<dt>([^<]*)</dt>", page)
        self.assertIn("code version", told)
        self.assertFalse({"algorithm", "workload", "wall seconds", "timeline seconds"} & set(told), told)

    def test_a_sweep_whose_results_were_cleared_away_has_its_table(self):
        shutil.copytree(self.folder / "out", self.folder / "cleared", ignore=shutil.ignore_patterns("*=*.h5"))
        self.run_tool(TOOLS / "report", "cleared", "-o", "cleared.html")
        page = (self.folder / "cleared.html").read_text()
        self.assertIn("<p>No picture: ", page)
        self.assertEqual(len(Cells(page).rows), len(Cells(self.page()).rows))

    def test_a_page_says_above_that_its_run_failed(self):
        self.run_tool(self.program, "run", "s.ini", "-q", "-o", "failed.h5", "algorithm.learning_rate=1e30", status=1)
        self.run_tool(TOOLS / "report", "failed.h5")
        self.assertRegex((self.folder / "failed.html").read_text(), r'<p class="about">[^<]*; failed: the loss of node \d+ became')

    def test_a_failed_run_whose_name_is_cut_is_told_by_its_settings(self):
        long = "graph-with-a-name-that-takes-more-than-half-of-what-a-point-may-be-called-by-starling-"
        for end in "ab":
            (self.folder / f"{long}{end}.dot").write_text("graph { 0 -- 1; 1 -- 2; 2 -- 3; 3 -- 4; 4 -- 5; 5 -- 6; 6 -- 7 }")
        (self.folder / "cut.ini").write_text(SCENARIO.replace("kind = ring", "kind = file") + "[sweep]\nalgorithm.learning_rate = 0.05, 1e30\n"
                                             f"workload.partition = iid, by_label\ntopology.path = {long}a.dot, {long}b.dot\n")
        self.run_tool(self.program, "sweep", "cut.ini", "-o", "cut", "-q", status=1)
        self.run_tool(TOOLS / "report", "cut", "-o", "cut.html")
        self.assertEqual(sorted(re.findall(r">(algorithm.learning_rate=[^<]*)</td></tr>", (self.folder / "cut.html").read_text())),
                         [f"algorithm.learning_rate=1e30, workload.partition={partition}, topology.path={long}{end}.dot"
                          for partition in ("by_label", "iid") for end in "ab"])

    def test_words_stand_left_and_numbers_right(self):
        (self.folder / "mixed.ini").write_text(SCENARIO + "[sweep]\nalgorithm.kind = dpsgd, local_sgd\nalgorithm.period = default, 2\n"
                                               "zip = algorithm.kind algorithm.period\n")
        self.run_tool(self.program, "sweep", "mixed.ini", "-o", "mixed", "-q")
        self.run_tool(TOOLS / "report", "mixed", "-o", "mixed.html")
        page = (self.folder / "mixed.html").read_text()
        self.assertIn('<th class="text">algorithm.period</th><th>runs</th>', page)
        self.assertIn('>local_sgd</td><td class="text" data-value="2.0">2</td><td data-value="1.0">1</td>', page)

    def test_outcomes_of_a_column_are_rounded_alike_and_values_of_keys_not_at_all(self):
        shutil.copytree(self.folder / "out", self.folder / "rounded")
        with open(self.folder / "rounded" / "table.csv", newline="") as file:
            rows = list(csv.DictReader(file))[:3]
        for row, rate, sent, step in zip(rows, ("0.12345", "0.12346", "1"), ("19551000", "19329875.5", "1e+30"), ("12345", "10", "7")):
            row |= {"algorithm.learning_rate": rate, "bytes_per_step": sent, "runs": step}
        with open(self.folder / "rounded" / "table.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        self.run_tool(TOOLS / "report", "rounded", "-o", "rounded.html")
        head, *shown = Cells((self.folder / "rounded.html").read_text()).rows[:4]
        for name, expected in {"algorithm.learning_rate": ["0.12345", "0.12346", "1"], "bytes_per_step": ["19.6M", "19.3M", "1e+30"],
                               "runs": ["12345", "10", "7"]}.items():
            self.assertEqual([row[head.index(name)] for row in shown], expected)

    @unittest.skipUnless(BROWSER, "no Chromium on this machine")
    def test_the_head_of_a_long_table_stays_in_view(self):
        script = """const box = document.querySelector("div.wide"), body = box.querySelector("tbody");
            while (body.rows.length < 500) body.append(body.rows[0].cloneNode(true));
            box.scrollTop = 5000; window.scrollTo(0, box.offsetTop + 3000);
            const head = box.querySelector("th").getBoundingClientRect();
            document.title = `${box.scrollTop} ${head.top - box.getBoundingClientRect().top}`;"""
        (self.folder / "scrolled.html").write_text(self.page().replace("</body>", f"<script>{script}</script></body>"))
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"file://{self.folder}/scrolled.html"],
                              capture_output=True, text=True, timeout=120)
        scrolled, above = map(float, re.search("<title>(.*) (.*)</title>", done.stdout).groups())
        self.assertEqual((scrolled, abs(above) < 2), (5000, True))

    @unittest.skipUnless(BROWSER, "no Chromium on this machine")
    def test_a_click_sorts_the_table_in_a_browser(self):
        click = "document.querySelectorAll('th')[{}].click();"
        gradients = [row[1] for row in self.rows_in_browser(click.format(1))]
        self.assertEqual(gradients, sorted(gradients, key=lambda text: float(re.match(r"[\d.]+", text)[0])))
        self.assertEqual(gradients[0], "1 ms")
        self.assertEqual([row[1] for row in self.rows_in_browser(2 * click.format(1))], gradients[::-1])


if __name__ == "__main__":
    main("program")
