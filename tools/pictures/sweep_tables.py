"""The tables that `starling sweep` left in a folder: which keys were swept, over which values, and what the outcomes were."""
import configparser
import csv
import pathlib

import h5py
import numpy as np

from pictures.metrics import HIGHER_IS_BETTER, QUALITIES, TARGET_AXES
from pictures.runs import AT_MOST, Run
from pictures.style import Failure, cut, literal, numbers

LONGEST_LABEL = 28       # characters
ALL_ZIPPED = "zip"       # stands for zipped keys none of which tells all points apart
BEST = "best"            # in place of a value: of each combination of the other keys' values, the one with the best outcome


class Sweep:
    """The tables that `starling sweep` left in a folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        if not (self.folder / "table.csv").exists():
            raise Failure(f"{folder}: holds no sweep: there is no table.csv")
        self.table = read_csv(self.folder / "table.csv")
        self.points = read_csv(self.folder / "points.csv")
        if not self.table:
            raise Failure(f"{folder}: no point of the sweep is finished")
        columns = list(self.table[0])
        self.all_keys = columns[:columns.index("runs")]
        settings = self.read_settings()
        self.zipped = [key for key in self.all_keys if key in settings.get("zip", "").replace(",", " ").split()]
        self.target = " ".join(settings.get("target", "").split())
        self.zipped_as_written = list(self.zipped)
        self.put_first_what_stands_for_all()
        rest = [key for key in self.all_keys if key not in self.zipped]
        place = min((self.all_keys.index(key) for key in self.zipped if key != ALL_ZIPPED), default=0)
        self.keys = rest[:place] + self.zipped[:1] + rest[place:]  # of zipped keys, the first stands for all
        self.outcomes = [name for name in columns[columns.index("runs") + 1:] if not name.endswith("_deviation")]
        self.judge = self.quality()  # the outcome that tells what is BEST
        self.choices = {}            # settings: what was chosen for BEST
        self.most_runs = max(int(float(row["runs"])) for row in self.table)

    def read_settings(self):
        """Section [sweep] of the scenario of the sweep."""
        scenario = configparser.ConfigParser(delimiters=("=",), comment_prefixes=("#",), strict=False, interpolation=None)
        try:
            scenario.read_string((self.folder / "scenario.ini").read_text(encoding="utf-8", errors="surrogateescape"))
        except (OSError, configparser.Error):
            return {}
        return scenario["sweep"] if scenario.has_section("sweep") else {}

    def put_first_what_stands_for_all(self):
        """Of zipped keys, one that has another value in each row; if none has, one more that joins them."""
        rows = {tuple(row[key] for key in self.zipped) for row in self.table}
        self.zipped.sort(key=lambda key: len({row[key] for row in self.table}) < len(rows))  # stays in order otherwise
        if self.zipped and len({row[self.zipped[0]] for row in self.table}) < len(rows):
            for row in [*self.table, *self.points]:
                row[ALL_ZIPPED] = " / ".join(row[key] for key in self.zipped_as_written)
            self.zipped.insert(0, ALL_ZIPPED)

    def first_of(self, key):
        """The key that stands for `key` in a picture."""
        return self.zipped[0] if key in self.zipped else key

    def label(self, key, value):
        """A value as it is written along an axis or in a legend, with those that go along with it."""
        if value is None or not self.zipped or key != self.zipped[0]:
            return literal(cut(value, LONGEST_LABEL)) if value is not None else None
        row = next(row for row in self.table if row[key] == value)
        parts = [row[other] for other in self.zipped_as_written]
        while len(parts) > 1 and parts[-1] == "default":
            parts.pop()  # that a kind has no such key goes without saying
        if len(parts) > 1:
            parts = ["–" if part == "default" else part for part in parts]
        return literal(cut(" / ".join(parts), LONGEST_LABEL))

    def name_of(self, key):
        """How a swept key is named: without its section, if no other is named so and it is no `kind`, which says nothing alone; with
        those that go along with it."""
        def name(key):
            alone = without_section(key)
            is_alike = alone == "kind" or sum(without_section(other) == alone for other in self.all_keys) > 1
            return key.replace(".", " ").replace("_", " ") if is_alike else alone
        return " / ".join(name(other) for other in self.zipped_as_written) if self.zipped and key == self.zipped[0] else name(key)

    def setting(self, key, value):
        """"momentum = 0.9", as a title says it."""
        if value is BEST:
            return f"{self.name_of(key)} of the best {self.judge.removeprefix('best_').replace('_', ' ')}"
        return f"{self.name_of(key)} = {self.label(key, value)}"

    def values(self, key):
        """Values of a swept key, smallest number first, or as they were written."""
        texts = list(dict.fromkeys(row[key] for row in self.table))
        as_numbers = numbers(texts) if key != ALL_ZIPPED else None
        return [text for _, text in sorted(zip(as_numbers[0], texts))] if as_numbers else texts

    def numbers(self, key):
        """(numbers, unit) of values(), as they lie along an axis; None if they are words, or stand for zipped ones."""
        return None if key in self.zipped else numbers(self.values(key))

    def varied(self):
        return [key for key in self.keys if len(self.values(key)) > 1]

    def knows(self, outcome):
        return outcome in self.outcomes and any(row[outcome] for row in self.table)

    def quality(self):
        """What tells best how well the runs learned; None if nothing does."""
        return next((name for name in QUALITIES if self.knows(name)), None)

    def planned(self):
        """How many points the sweep has, finished or not; what is finished, if an older program made the tables."""
        try:
            with h5py.File(self.folder / "table.h5", "r") as file:
                return int(file["points"].attrs["planned"])
        except (OSError, KeyError):
            return len(self.points)

    def failures(self):
        """A row for each point that has a log instead of a place in the table: what its run said first, but for warnings, and its settings
        where the name does not tell them. A point that runs has said nothing else."""
        finished = {point["point"] for point in self.points}
        logs = {path.stem: [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
                            if not line.startswith("starling: warning: ")] for path in sorted(self.folder.glob("*.log"))}
        return [{"point": name, "what it said": said[0], "settings": said[-1].partition("settings: ")[2]}
                for name, said in logs.items() if said and name not in finished]

    def held(self, settings, axes):
        """The keys that are held, each with its value, if `settings` (key, value) ask for that; none may be drawn along an axis. Values of
        zipped keys hold together: of the combinations that have them the first is taken, or the best."""
        held = {}
        for key, value in settings:
            if self.first_of(key) in axes:
                raise Failure(f"{self.folder}: {key} is drawn along an axis, so it cannot be held at {value}")
            if held.setdefault(key, value) != value:
                raise Failure(f"{self.folder}: {key} cannot be held at {held[key]} and at {value}")
            if value not in (BEST, *self.values(key)):
                raise Failure(f"{self.folder}: no finished point has {key} = {value}; there are {', '.join(self.values(key))}, and {BEST}")
        asked = {self.first_of(key): BEST for key, value in held.items() if value not in self.values(key)}
        held = {key: value for key, value in held.items() if value in self.values(key)}
        zipped = {key: value for key, value in held.items() if key in self.zipped}
        if zipped:
            rows = with_settings(zipped, self.table)
            if not rows:
                raise Failure(f"{self.folder}: no finished point has {' and '.join(f'{key} = {value}' for key, value in zipped.items())}")
            if self.zipped[0] not in asked:
                held = {key: value for key, value in held.items() if key not in zipped}
                held[self.zipped[0]] = rows[0][self.zipped[0]]
        return {**asked, **held}

    def chosen(self, settings):
        """These settings with values in place of BEST: those of the row, among those with the other settings, that has the best outcome.
        Of what takes a target, most runs must get there; where none does, or nothing else is known, quality decides. Of seeds that
        failed nothing is known, so rows with fewer runs than others do not count. What was chosen stays in `choices`."""
        open_keys = [key for key, value in settings.items() if value is BEST]
        if not open_keys:
            return settings
        given = {key: value for key, value in settings.items() if value is not BEST}
        rows = with_settings(given, self.table)
        if not any(row.get(name) for row in rows for name in (self.judge, self.quality())):
            return settings  # which no row has

        def merit(outcome, row):
            sign = 1 if outcome in HIGHER_IS_BETTER else -1
            return (1, sign * float(row[outcome])) if row.get(outcome) else (0, 0)

        if self.judge in TARGET_AXES:
            order = ("target_reached", self.judge, self.quality())
        else:
            order = (self.judge, self.quality())
            rows = [row for row in rows if row.get(self.judge)] or rows
        best = max(rows, key=lambda row: (float(row["runs"]), *(merit(outcome, row) for outcome in order)))
        self.choices[tuple(given.items())] = {key: best[key] for key in open_keys}
        return {**given, **self.choices[tuple(given.items())]}

    def choices_in_words(self):
        """A line for each combination of settings that a value was chosen for: "algorithm kind = swarm: learning rate of the
        best test accuracy is 0.4, the greatest"."""
        lines = []
        for given, chosen in self.choices.items():
            of = ", ".join(f"{self.name_of(key)} = {self.label(key, value)}" for key, value in given if len(self.values(key)) > 1)
            for key, value in chosen.items():
                known = self.numbers(key)
                at_end = {0: ", the least", len(self.values(key)) - 1: ", the greatest"}.get(self.values(key).index(value), "") if known else ""
                lines.append(f"{of + ': ' if of else ''}{self.setting(key, BEST)} is {value}{at_end}")
        return lines

    def file_of(self, point):
        return self.folder / f"{point['point']}.h5"

    def runs(self, settings):
        """The points with these settings."""
        return with_settings(self.chosen(settings), self.points)

    def best_for_all(self, key, other, fixed):
        """The value of `key` at which runs with most values of `other` are finished, and among those are best on the average."""
        def merit(value):
            outcomes = [self.cell(self.judge, {**fixed, key: value, other: each})[0] for each in self.values(other)]
            known = [outcome for outcome in outcomes if np.isfinite(outcome)]
            sign = 1 if self.judge in HIGHER_IS_BETTER else -1
            return len(known), sign * np.mean(known) if known else 0
        return max(self.values(key), key=merit)

    def reached(self, settings, metric, target, axis="time"):
        """When runs with these settings got to a target, of those that did; and what a mark at the mean of that has to say, "≤" of a
        bound and "1 of 2" if others never did."""
        found = [Run(self.file_of(point)).reached(metric, target, axis) for point in self.runs(settings)]
        there = [value for value, _ in found if np.isfinite(value)]
        notes = [AT_MOST] * any(is_bound for _, is_bound in found)
        notes += [f"{len(there)} of {len(found)}"] * (len(there) < len(found))
        return there, ", ".join(notes) if there else ""

    def few(self, settings):
        """"1 run" if that is all, as others failed or are yet to come, while there are more with other settings; else nothing."""
        rows = self.rows(settings)
        count = int(float(rows[0]["runs"])) if rows else 0
        return f"{count} run{'s' * (count > 1)}" if 0 < count < self.most_runs else ""

    def note(self, outcome, settings):
        """What a mark has to say of an outcome: how few runs it is of; if it tells when they got to the target, what reached() says."""
        notes = [self.few(settings)]
        if outcome in TARGET_AXES and self.target:
            quality, value = self.target.split()
            notes.append(self.reached(settings, quality, float(value), TARGET_AXES[outcome])[1])
        return ", ".join(filter(None, notes))

    def rows(self, settings):
        """Those of the table with these settings."""
        return with_settings(self.chosen(settings), self.table)

    def row(self, outcome, settings):
        """The first of rows() in which the outcome is known; None if there is none."""
        return next((row for row in self.rows(settings) if row[outcome]), None)

    def cell(self, outcome, settings):
        """(mean, deviation) of row()."""
        row = self.row(outcome, settings)
        return (float(row[outcome]), float(row[outcome + "_deviation"] or "nan")) if row else (float("nan"), float("nan"))


def read_csv(path):
    try:
        with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:  # names of files may be anything
            return list(csv.DictReader(file))
    except OSError as error:
        raise Failure(f"{path}: cannot read: {error.strerror}") from error


def with_settings(settings, rows):
    return [row for row in rows if all(row[key] == value for key, value in settings.items())]


def without_section(key):
    return key.split(".", 1)[1].replace("_", " ")
