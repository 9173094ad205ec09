"""What every table of published values shares: its rows, how a cell is run, and how a table is told."""
import csv
import dataclasses
import itertools
import math
import os
import pathlib
import subprocess
import sys

import h5py

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAPERS = ROOT / "scenarios" / "papers"


class Unavailable(Exception):
    """A table needs what is not shipped; the message says what."""


@dataclasses.dataclass(frozen=True)
class Row:
    series: str
    at: str
    published: float      # NaN: the paper claims something, but gives no number
    simulated: float
    is_given: bool        # the setting comes from this very number: it predicts nothing
    by_seed: tuple = ()   # what `simulated` is the mean of, if it is one over seeds

    @property
    def deviation(self):
        """Of the simulation from the paper, in percent."""
        return 100 * (self.simulated / self.published - 1)


@dataclasses.dataclass(frozen=True)
class Table:
    name: str
    title: str
    at: str               # what the rows of a series differ in
    unit: str
    simulate: object      # (bench, series, at) -> number, or a list of them by seed
    tolerance: float      # percent within which rows should agree; 0: numbers are not comparable, only their order is
    shape: str = "lines"  # of the picture: "lines" over numeric `at`, "shares" the same divided by it, "dots" per row
    claim: object = None  # rows -> (whether it holds, sentence), of orderings and of claims without numbers
    quantity: str = ""    # what the picture's axis calls a unit that does not tell it: "time"

    @property
    def axis(self):
        return f"{self.quantity} ({self.unit})" if self.quantity else self.unit


class Bench:
    """Runs scenarios with the program under test, each in a file of its own; several may run at once."""

    def __init__(self, program, folder, mnist):
        self.program, self.folder, self.mnist = program, pathlib.Path(folder), mnist
        self.numbers = itertools.count(1)

    def run(self, scenario, settings=(), edit=lambda text: text):
        """Runs `scenario`, with its text changed by `edit`, and opens the results."""
        path = self.folder / f"{next(self.numbers)}.ini"
        text = edit((PAPERS / scenario).read_text(encoding="utf-8"))
        path.write_text(text.replace("= ../", f"= {PAPERS.parent}/"), encoding="utf-8")
        results = path.with_suffix(".h5")
        command = [self.program, "run", str(path), "--quiet", "-o", str(results), *settings]
        environment = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", **os.environ}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return h5py.File(results, "r")


def with_algorithm(keys):
    """Replaces the [algorithm] section, whose keys depend on the kind."""
    def edit(text):
        head, _, rest = text.partition("[algorithm]")
        _, bracket, after = rest.partition("\n[")
        lines = "".join(f"{key.removeprefix('algorithm.').replace('=', ' = ', 1)}\n" for key in keys)
        return f"{head}[algorithm]\n{lines}{bracket}{after}"
    return edit


def published(name):
    """Rows of scenarios/papers/published.csv that belong to a table."""
    with open(PAPERS / "published.csv", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["table"] == name]


def number(text):
    return float(text) if text else math.nan


def lines_of(table, rows):
    """The table as Markdown, and what it comes to."""
    lines = [f"| algorithm | {table.at} | published {table.unit} | simulated {table.unit} | deviation |",
             "|---|---|---|---|---|"]
    for row in rows:
        has_number = not math.isnan(row.published)
        told = f"{row.published:g}" if has_number else "-"
        deviation = f"{row.deviation:+.1f} %" if has_number and table.tolerance else ""
        lines.append(f"| {row.series} | {row.at} | {told} | {row.simulated:.4g} | "
                     f"{'given' if row.is_given else deviation} |")
    predicted = [abs(row.deviation) for row in rows if not row.is_given and not math.isnan(row.published)]
    if predicted and table.tolerance:
        within = sum(size <= table.tolerance for size in predicted)
        lines.append(f"\nLargest deviation: {max(predicted):.1f} %; {within} of {len(predicted)} rows are within "
                     f"{table.tolerance:g} %.")
    if table.claim:
        holds, sentence = table.claim(rows)
        lines.append(f"\n{'Holds' if holds else 'DOES NOT HOLD'}: {sentence}.")
    return lines
