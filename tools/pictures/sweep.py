"""Pictures of a sweep: how an outcome depends on one or two swept keys, and the curves behind it."""
import configparser
import csv
import pathlib
import textwrap

import h5py
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import LogNorm
from matplotlib.text import Annotation
from matplotlib.ticker import EngFormatter, FixedLocator, PercentFormatter

from pictures import convergence
from pictures.results import choose_evaluations, forward, opened
from pictures.style import DASHES, GREY, MARKERS, SERIES, Failure, add_note, byte_scale, cut, literal, numbers, percent, set_log, short, spans_decades, wants_log, whole_numbers

MOST_CURVES = 8          # as many as there are colors
MOST_LABELS = 16         # values named along an axis
MOST_CELLS = 14          # cells of a heat map side by side that have room for a number; twice as many above each other
LEAST_SHARES = 0.02      # of an axis: a test sample more is no mountain
LONGEST_LABEL = 28       # characters
LONGEST_TITLE = 64       # characters of a line above a panel, bold
BESIDE_LEGEND = 0.06     # inches: what is nearer looks like one of its marks
BESIDE_LABEL = 0.04      # inches between names along an axis
LONGEST_HEADING = 58     # characters above each panel's width of a picture, bold and larger
TITLES = {
    "test_accuracy": "Test accuracy of the mean model", "best_test_accuracy": "Best test accuracy of the mean model",
    "test_auc": "Test AUC of the mean model", "best_test_auc": "Best test AUC of the mean model",
    "test_loss": "Test loss of the mean model", "samples_per_second": "Throughput, samples/s",
    "step_time_seconds": "Time per step, s", "virtual_time_seconds": "Virtual time, s",
    "wait_share": "Share of time waiting", "consensus_distance": "Consensus distance",
    "target_reached": "Share of runs that get to the target", "target_time_seconds": "Virtual time to the target, s, of runs that get there",
    "target_step": "Steps to the target, of runs that get there", "target_bytes": "Bytes sent up to the target, of runs that get there",
}
QUALITIES = ("test_accuracy", "test_auc", "test_loss")  # of which the first that is known is drawn
TARGET_AXES = {"target_time_seconds": "time", "target_step": "step", "target_bytes": "bytes_sent"}  # columns of evaluations
ALL_ZIPPED = "zip"       # stands for zipped keys none of which tells all points apart
PUBLISHED = "published"  # how a legend names what is hollow
# What a legend says of hollow marks with such notes.
HOLLOW = {convergence.AT_MOST: "at most", " of ": "of those that get there", " run": "of fewer runs than others"}
BEST = "best"            # in place of a value: of each combination of the other keys' values, the one with the best outcome
HIGHER_IS_BETTER = ("test_accuracy", "best_test_accuracy", "test_auc", "best_test_auc", "samples_per_second", "steps_per_second",
                    "compute_share", "spectral_gap", "target_reached")
SHARES = ("test_accuracy", "best_test_accuracy", "target_reached", "wait_share", "compute_share", "communicate_share")


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
        self.zipped = [key for key in self.all_keys if key in settings.get("zip", "").split()]
        self.target = " ".join(settings.get("target", "").split())
        self.zipped_as_written = list(self.zipped)
        self.put_first_what_stands_for_all()
        rest = [key for key in self.all_keys if key not in self.zipped]
        place = min((self.all_keys.index(key) for key in self.zipped if key != ALL_ZIPPED), default=0)
        self.keys = rest[:place] + self.zipped[:1] + rest[place:]  # of zipped keys, the first stands for all
        self.outcomes = [name for name in columns[columns.index("runs") + 1:] if not name.endswith("_deviation")]
        self.judge = self.quality()  # the outcome that tells what is BEST
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
            is_alike = name_of(key) == "kind" or sum(name_of(other) == name_of(key) for other in self.all_keys) > 1
            return key.replace(".", " ").replace("_", " ") if is_alike else name_of(key)
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

    def varied(self):
        return [key for key in self.keys if len(self.values(key)) > 1]

    def knows(self, metric):
        return metric in self.outcomes and any(row[metric] for row in self.table)

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
            row = next((row for row in self.table if all(row[key] == value for key, value in zipped.items())), None)
            if not row:
                raise Failure(f"{self.folder}: no finished point has {' and '.join(f'{key} = {value}' for key, value in zipped.items())}")
            if self.zipped[0] not in asked:
                held = {key: value for key, value in held.items() if key not in zipped}
                held[self.zipped[0]] = row[self.zipped[0]]
        return {**asked, **held}

    def chosen(self, settings):
        """These settings with values in place of BEST: those of the row, among those with the other settings, that has the best outcome. Of
        seeds that failed nothing is known, so rows with fewer runs than others do not count."""
        open_keys = [key for key, value in settings.items() if value is BEST]
        if not open_keys:
            return settings
        given = {key: value for key, value in settings.items() if value is not BEST}
        rows = [row for row in self.table if row[self.judge] and all(row[key] == value for key, value in given.items())]
        if not rows:
            return settings  # which no row has
        most = max(float(row["runs"]) for row in rows)
        choose = max if self.judge in HIGHER_IS_BETTER else min
        best = choose((row for row in rows if float(row["runs"]) == most), key=lambda row: float(row[self.judge]))
        return {**given, **{key: best[key] for key in open_keys}}

    def runs(self, settings):
        """The points with these settings."""
        settings = self.chosen(settings)
        return [point for point in self.points if all(point[key] == value for key, value in settings.items())]

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
        found = [convergence.Run(self.folder / f"{point['point']}.h5").reached(metric, target, axis) for point in self.runs(settings)]
        there = [value for value, _ in found if np.isfinite(value)]
        notes = [convergence.AT_MOST] * any(is_bound for _, is_bound in found)
        notes += [f"{len(there)} of {len(found)}"] * (len(there) < len(found))
        return there, ", ".join(notes) if there else ""

    def few(self, settings):
        """"1 run" if that is all, as others failed or are yet to come, while there are more with other settings; else nothing."""
        rows = self.rows(settings)
        count = int(float(rows[0]["runs"])) if rows else 0
        return f"{count} run{'s' * (count > 1)}" if 0 < count < self.most_runs else ""

    def note(self, metric, settings):
        """What a mark has to say of an outcome: how few runs it is of; if it tells when they got to the target, what reached() says."""
        notes = [self.few(settings)]
        if metric in TARGET_AXES and self.target:
            quality, value = self.target.split()
            notes.append(self.reached(settings, quality, float(value), TARGET_AXES[metric])[1])
        return ", ".join(filter(None, notes))

    def rows(self, settings):
        """Those of the table with these settings."""
        settings = self.chosen(settings)
        return [row for row in self.table if all(row[key] == value for key, value in settings.items())]

    def row(self, metric, settings):
        """The first of rows() in which the metric is known; None if there is none."""
        return next((row for row in self.rows(settings) if row[metric]), None)

    def cell(self, metric, settings):
        """(mean, deviation) of row()."""
        row = self.row(metric, settings)
        return (float(row[metric]), float(row[metric + "_deviation"] or "nan")) if row else (float("nan"), float("nan"))


def read_csv(path):
    try:
        with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:  # names of files may be anything
            return list(csv.DictReader(file))
    except OSError as error:
        raise Failure(f"{path}: cannot read: {error.strerror}") from error


def name_of(key):
    return key.split(".", 1)[1].replace("_", " ")


def label_of(sweep, key, texts):
    found = numbers(texts) if key not in sweep.zipped else None
    return f"{sweep.name_of(key)} ({found[1]})" if found and found[1] else sweep.name_of(key)


def title_of(metric):
    words = metric.replace("_", " ")
    return TITLES.get(metric, words[0].upper() + words[1:])


def write_metric(metric, value):
    if metric in SHARES:
        return f"{100 * value:.1f}"
    factor, unit = byte_scale(value) if "bytes" in metric else (1, "")
    return f"{short(value * factor)} {unit}".rstrip()


def spaced(count, most):
    """At most `most` of the positions 0 .. count - 1, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def name_places(set_ticks, names):
    """Names the places 0, 1, .. along an axis; of too many every second one, or third .., as a ruler does."""
    shown = range(0, len(names), -(-len(names) // MOST_LABELS))
    set_ticks(shown, [names[i] for i in shown])


class ShareFormatter(PercentFormatter):
    """Percent, of what a share can be: axes with room for bars of errors and for a legend go beyond."""

    def __call__(self, share, place=None):
        return super().__call__(share, place) if -1e-9 < share < 1 + 1e-9 else ""


def slant(ax):
    """Turns the names along the x axis; the steeper, the more there are."""
    labels = ax.get_xticklabels()
    plt.setp(labels, rotation=20 if len(labels) <= 8 else 35, ha="right", rotation_mode="anchor")


def scale(ax, letter, metric, values):
    """Gives the x or the y axis the look of a metric that has these values, some of them perhaps unknown."""
    known = [value for value in values if np.isfinite(value)]
    axis = getattr(ax, f"{letter}axis")
    if metric in SHARES:
        axis.set_major_formatter(ShareFormatter(1.0))
        low, high = axis.get_view_interval()
        if high - low < LEAST_SHARES:
            low = max((low + high - LEAST_SHARES) / 2, -LEAST_SHARES / 20)
            getattr(ax, f"set_{letter}lim")(low, low + LEAST_SHARES)
    elif spans_decades(known) or (metric == "consensus_distance" and known and min(known) > 0):  # of equal models it is rounding alone
        set_log(ax, letter)
    if "bytes" in metric:
        axis.set_major_formatter(EngFormatter(unit="B"))


def heat_map(figure, ax, sweep, metric, x_key, y_key, fixed):
    """One cell per pair of values; white where no point is finished."""
    xs, ys = sweep.values(x_key), sweep.values(y_key)
    cells = np.array([[sweep.cell(metric, {**fixed, x_key: x, y_key: y})[0] for x in xs] for y in ys])
    known = cells[np.isfinite(cells)]
    is_log = metric not in SHARES and spans_decades(known)
    image = ax.imshow(cells, origin="lower", aspect="auto", cmap="cividis", norm=LogNorm() if is_log else None)
    middle = (np.sqrt(known.min() * known.max()) if is_log else (known.min() + known.max()) / 2) if len(known) else 0
    has_room = len(xs) <= MOST_CELLS and len(ys) <= 2 * MOST_CELLS
    has_lines = len(ys) <= MOST_CELLS  # two, in a cell
    for row, line in enumerate(cells):
        for column, value in enumerate(line):
            if np.isfinite(value) and has_room:
                note = sweep.note(metric, {**fixed, x_key: xs[column], y_key: ys[row]}) if has_lines else ""
                ax.text(column, row, "\n".join(filter(None, [write_metric(metric, value), note])), ha="center", va="center", fontsize=8,
                        color="white" if value < middle else "black")
    for key, texts, set_ticks in ((x_key, xs, ax.set_xticks), (y_key, ys, ax.set_yticks)):
        name_places(set_ticks, [sweep.label(key, text) for text in texts])
    ax.set_xlabel(sweep.name_of(x_key))
    ax.set_ylabel(sweep.name_of(y_key))
    ax.grid(False)
    ax.set_title(title_of(metric) + (" (%)" if metric in SHARES else ""))
    bar = figure.colorbar(image, ax=ax, pad=0.015)
    bar.outline.set_visible(False)
    if metric in SHARES:
        bar.ax.yaxis.set_major_formatter(ShareFormatter(1.0))
    elif "bytes" in metric:
        bar.ax.yaxis.set_major_formatter(EngFormatter(unit="B"))


def some_values(sweep, key):
    """As many values of a swept key as can be told apart, the first and the last among them; [None] for no key."""
    values = sweep.values(key) if key else [None]
    return [values[i] for i in spaced(len(values), MOST_CURVES)]


def add_legend(ax, sweep, key):
    """Names the curves of an axis, and says if they are not all."""
    handles, labels = ax.get_legend_handles_labels()
    if not handles:
        return
    title = None
    if key:
        shown, count = len(some_values(sweep, key)), len(sweep.values(key))
        title = sweep.name_of(key) + (f", {shown} of {count}" if shown < count else "")
    ax.legend(handles, labels, title=title, ncols=2 if len(handles) > 4 else 1)


def has_distance(x, is_log):
    """Whether all of `x` can be named along an axis."""
    places = np.log(x) if is_log else np.asarray(x, dtype=float)
    return len(x) < 2 or np.diff(places).min() >= 0.03 * (places.max() - places.min())


def bars_of(metric, cells):
    """How far the bars of cells (mean, deviation) reach down and up: not beyond what a share can be. None if there are none, as
    for the share of runs that got to a target, which is a count."""
    means, deviations = np.transpose(np.asarray(cells, dtype=float))
    if metric == "target_reached" or not np.isfinite(deviations).any():
        return None
    if metric not in SHARES:
        return [deviations, deviations]
    return [np.minimum(deviations, np.maximum(means, 0)), np.minimum(deviations, np.maximum(1 - means, 0))]


def lines(ax, sweep, metric, x_key, series_key, fixed, cell_of=None, published=None):
    """Mean against the values of one key, a line per value of the other, bars for one standard deviation over seeds; over words,
    which have no order, points side by side. The cells, and the notes of marks that do not tell all, are those of `metric` unless
    `cell_of` says otherwise. Such marks are hollow, and what was `published` is."""
    cell_of = cell_of or (lambda settings: (sweep.cell(metric, settings), sweep.note(metric, settings)))
    texts = sweep.values(x_key)
    found = numbers(texts) if x_key not in sweep.zipped else None
    x = found[0] if found else list(range(len(texts)))
    are_words = x_key == ALL_ZIPPED or numbers(texts) is None
    all_series = some_values(sweep, series_key)
    drawn, noted = [], []
    for i, series in enumerate(all_series):
        settings = {**fixed, series_key: series} if series_key else fixed
        cells, notes = zip(*(cell_of({**settings, x_key: value}) for value in texts))
        drawn.append(cells)
        noted += notes
        aside = 0.6 * (i - (len(all_series) - 1) / 2) / len(all_series) if are_words else 0
        ax.errorbar(np.add(x, aside), [mean for mean, _ in cells], bars_of(metric, cells), capsize=2.5,
                    color=SERIES[i], marker=MARKERS[i], markersize=4.5,
                    linestyle="none" if are_words else DASHES[i], label=sweep.label(series_key, series))
        for at, (mean, _), note in zip(np.add(x, aside), cells, notes):
            if note:
                ax.plot(at, mean, color=SERIES[i], marker=MARKERS[i], markersize=4.5, markerfacecolor="white", zorder=3)
                ax.annotate(note, (at, mean), (4, 4), textcoords="offset points", fontsize=8, color=GREY)
        others = [published.cell(metric, {**settings, x_key: value}) for value in texts] if published else []
        if np.isfinite(others).any():
            drawn.append([(other, np.nan) for other in others])
            ax.plot(np.add(x, aside), others, color=SERIES[i], marker=MARKERS[i], markersize=9, markerfacecolor="none", linestyle="none")
    meant = [words for sign, words in HOLLOW.items() if any(sign in note for note in noted)]
    if meant:
        ax.errorbar([], [], color=GREY, marker="o", markersize=4.5, markerfacecolor="white", linestyle="none", label=", or ".join(meant))
    if len(drawn) > len(all_series):
        ax.errorbar([], [], color=GREY, marker="o", markersize=9, markerfacecolor="none", linestyle="none", label=PUBLISHED)
    if are_words:
        ax.set_xlim(-0.5, len(texts) - 0.5)
    is_log = bool(found) and min(x) > 0 and max(x) / min(x) >= 8
    if is_log:
        doublings = np.log2(np.divide(x, min(x)))
        ax.set_xscale("log", base=2 if np.allclose(doublings, doublings.round()) else 10)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
    if not found:
        name_places(ax.set_xticks, [sweep.label(x_key, text) for text in texts])
    elif len(texts) <= 12 and has_distance(x, is_log):
        ax.set_xticks(x, [f"{number:g}" for number in x])
        ax.minorticks_off()
    scale(ax, "y", metric, [mean for cells in drawn for mean, _ in cells])
    ax.set_xlabel(label_of(sweep, x_key, texts))
    ax.set_title(title_of(metric))
    add_legend(ax, sweep, series_key)


def trade(ax, sweep, metric, other, key, series_key, fixed):
    """One outcome against another: a mark per combination of values, in the look of its value of `series_key` and with that of `key`
    beside it; bars for one standard deviation over seeds. Combinations of which either outcome is not known have none."""
    texts = sweep.values(key)
    shown = set(spaced(len(texts), MOST_LABELS))
    all_x, all_y = [], []
    unknown = {metric: 0, other: 0}
    for i, series in enumerate(some_values(sweep, series_key)):
        settings = {**fixed, series_key: series} if series_key else fixed
        across, up = ([sweep.cell(one, {**settings, key: value}) for value in texts] for one in (other, metric))
        x, y = np.array([[mean for mean, _ in cells] for cells in (across, up)])
        is_known = np.isfinite(x) & np.isfinite(y)
        unknown[other] += np.count_nonzero(np.isfinite(y) & ~is_known)
        unknown[metric] += np.count_nonzero(np.isfinite(x) & ~is_known)
        x[~is_known] = y[~is_known] = np.nan  # an axis reaches to what has a mark
        ax.errorbar(x, y, bars_of(metric, up), bars_of(other, across), capsize=2.5,
                    color=SERIES[i], marker=MARKERS[i], markersize=5.5, linestyle="none", label=sweep.label(series_key, series))
        for place in np.flatnonzero(is_known):
            if place in shown:
                here = {**settings, key: texts[place]}
                note = sweep.note(metric, here) or sweep.note(other, here)
                ax.annotate(sweep.label(key, texts[place]) + (f" ({note})" if note else ""), (x[place], y[place]), (4, 4),
                            textcoords="offset points", fontsize=8, color=GREY)
        all_x += [*x]
        all_y += [*y]
    ax.margins(0.1)  # room for what is written beside the last mark
    scale(ax, "x", other, all_x)
    scale(ax, "y", metric, all_y)
    for one, write in ((other, ax.set_xlabel), (metric, ax.set_title)):
        count = unknown[one]
        write(title_of(one) + (f"; not known of {count} combination{'s' * (count > 1)}" if count else ""))
    add_legend(ax, sweep, series_key)


def time_to(ax, sweep, target, x_key, series_key, fixed):
    """Virtual time until the mean model has the target accuracy (or AUC, or loss); seeds that never get there are left out."""
    metric = sweep.quality() or "test_loss"
    is_known = False

    def cell_of(settings):
        nonlocal is_known
        times, note = sweep.reached(settings, metric, target)
        is_known = is_known or bool(times)
        note = ", ".join(filter(None, [sweep.few(settings), note]))
        return (np.mean(times) if times else np.nan, np.std(times, ddof=1) if len(times) > 1 else np.nan), note

    lines(ax, sweep, "virtual_time_seconds", x_key, series_key, fixed, cell_of)
    wanted = f"{percent(target)} {convergence.in_words(metric)}" if metric == "test_accuracy" else f"a {convergence.in_words(metric)} of {target:g}"
    ax.set_title(f"Virtual time to {wanted}, s")
    if not is_known:
        ax.text(0.5, 0.5, "no run gets there", transform=ax.transAxes, ha="center", color=GREY)
        ax.set_yticks([])
        if ax.get_legend():
            ax.get_legend().remove()


def speed_up(ax, sweep, series_key, fixed):
    """Throughput against nodes as a multiple of what the smallest number of nodes that is finished reaches, and the ideal."""
    texts = sweep.values("run.nodes")
    nodes = np.array([float(text) for text in texts])
    for i, series in enumerate(some_values(sweep, series_key)):
        settings = {**fixed, series_key: series} if series_key else fixed
        rates = np.array([sweep.cell("samples_per_second", {**settings, "run.nodes": text})[0] for text in texts])
        known = np.flatnonzero(np.isfinite(rates))
        if not len(known):
            continue
        ax.plot(nodes[known], rates[known] / rates[known[0]] * nodes[known[0]], color=SERIES[i], marker=MARKERS[i],
                linestyle=DASHES[i], label=sweep.label(series_key, series))
    ax.plot(nodes, nodes, color=GREY, linewidth=1, linestyle=":", label="ideal")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xticks(nodes, texts)
    ax.set_yticks(nodes, texts)
    ax.minorticks_off()
    ax.set_xlabel("nodes")
    ax.set_title(f"Speed-up (of {texts[0]} node{'s' * (texts[0] != '1')}: {texts[0]})")
    ax.legend()


def curves(ax, sweep, metric, against, key, fixed, held):
    """The metric over a run, mean over seeds with a band of one standard deviation, a curve per value of `key`. `held` keys have these values in this panel alone."""
    missing = []
    for i, value in enumerate(some_values(sweep, key)):
        settings = {**fixed, **held, **({key: value} if key else {})}
        chosen = sweep.chosen(settings)
        found = []
        for point in sweep.runs(chosen):
            with opened(sweep.folder / f"{point['point']}.h5") as file:
                table = choose_evaluations(file["evaluation"], file.get("evaluation_by_time", {}), against)
                if metric in table and against in table:
                    found.append((table[against][()], table[metric][()]))
        rows = min((len(y) for _, y in found), default=0)
        if rows == 0:
            missing.append(sweep.label(key, value))
            continue
        x = np.mean([forward(x[:rows]) if against == "time" else x[:rows] for x, _ in found], axis=0)
        seeds = np.array([y[:rows] for _, y in found])
        y = seeds.mean(axis=0)
        tuned = [sweep.setting(name, chosen[name]) for name in settings if settings[name] is BEST]
        if metric == "consensus_distance":
            y = np.where(y > 0, y, np.nan)  # no line across rows that a logarithmic axis has no place for
        elif len(seeds) > 1 and rows > 1:
            down, up = bars_of(metric, np.stack([y, seeds.std(axis=0, ddof=1)], axis=1)) or (0, 0)
            ax.fill_between(x, y - down, y + up, color=SERIES[i], alpha=0.15, linewidth=0)
        ax.plot(x, y, color=SERIES[i], linestyle=DASHES[i], marker=MARKERS[i] if rows == 1 else None,
                label=", ".join(filter(None, [sweep.label(key, value), *tuned, sweep.few(settings)])) or None)
    known = [y for line in ax.lines for y in line.get_ydata() if np.isfinite(y)]
    if not known:
        ax.text(0.5, 0.5, "no run came as far as an evaluation (run.evaluate_every)", transform=ax.transAxes, ha="center", color=GREY)
    elif missing:
        add_note(ax, cut(f"no finished run with an evaluation: {', '.join(missing)}", LONGEST_TITLE))
    scale(ax, "y", metric, known)
    ends = [line.get_xdata()[-1] for line in ax.lines]
    label = "virtual time (s)" if against == "time" else convergence.AXES[against]
    if wants_log(against, ends):
        ax.set_xscale("log")
    elif against == "step":
        ax.xaxis.set_major_locator(whole_numbers())
    if against == "bytes_sent":
        factor, unit = byte_scale(max(ends, default=0))
        ax.xaxis.set_major_formatter(lambda value, _: short(value * factor))
        label += f" ({unit})"
    ax.set_xlabel(label)
    ax.set_title("\n".join(textwrap.wrap(", ".join([title_of(metric), *(sweep.setting(k, v) for k, v in held.items())]), LONGEST_TITLE)))
    add_legend(ax, sweep, key)


def heading(sweep, fixed, deviations):
    """What the whole picture shows, by which marks deviations, and what is missing in it."""
    note = ", ".join(sweep.setting(key, value) for key, value in fixed.items())
    count = len(sweep.runs({key: value for key, value in fixed.items() if value is not BEST}))
    among = "best of " * (BEST in fixed.values())
    title = f"{literal(sweep.folder.resolve().name)}: {among}{count} run{'s' * (count != 1)}" + (f", at {note}" if note else "")
    if any(float(row["runs"]) > 1 for row in sweep.table):
        title += "; mean over seeds" + (f", {' and '.join(deviations)} for one standard deviation" if deviations else "")
    if sweep.target:
        title += f"; target: {sweep.target}"
    failed = len(sweep.failures())
    diverged = sum(float(point.get("diverged_nodes") or 0) > 0 for point in sweep.points)
    return (title + (f"; {failed} of the sweep's runs failed" if failed else "") +
            (f"; nodes diverged in {diverged} of the sweep's runs" if diverged else ""))


def calm(figure):
    """Gives axes along which nothing varies but the rounding of sums the range of a constant; if that is 0, what could be."""
    for ax in figure.axes:
        low, high = ax.get_ylim()
        values = np.concatenate([line.get_ydata() for line in ax.lines]) if ax.lines else np.empty(0)
        if ax.get_yscale() == "linear" and len(values) and not np.nan_to_num(values.astype(float)).any():
            ax.set_ylim(-0.05, 1)
            continue
        largest = max(abs(low), abs(high))
        if ax.get_yscale() == "linear" and high - low < 1e-9 * largest:
            ax.set_ylim(low - 0.05 * largest, high + 0.05 * largest)


def make_room(figure):
    """Lifts the upper end of axes whose legend covers what is drawn, as where bars of errors fill the whole height."""
    figure.draw_without_rendering()
    for ax in figure.axes:
        legend = ax.get_legend()
        if legend is None or not covers(legend.get_window_extent().padded(BESIDE_LEGEND * figure.dpi), ax):
            continue
        share = legend.get_window_extent().height / ax.bbox.height + 0.06
        if share < 0.6:
            scale = ax.yaxis.get_transform()
            low, high = scale.transform(ax.get_ylim())
            ax.set_ylim(scale.inverted().transform([low, low + (high - low) / (1 - share)]))  # where "best" then puts it


def thin_out(figure):
    """Of what would run into what stands left of it along the x axis takes numbers away, and turns words, and names of cells."""
    figure.draw_without_rendering()
    for ax in figure.axes:
        end, crowded = -np.inf, []
        for label in ax.get_xticklabels():
            box = label.get_window_extent()
            if box.x0 > end:
                end = box.x1 + BESIDE_LABEL * figure.dpi
            else:
                crowded.append(label)
        names = [label.get_text() for label in ax.get_xticklabels()]
        if crowded and isinstance(ax.xaxis.get_major_locator(), FixedLocator) and (ax.images or numbers(names) is None):
            slant(ax)
        else:
            plt.setp(crowded, visible=False)


def keep_apart(figure):
    """Writes below its mark what would lie over what another one says; takes it away where there is no room either."""
    notes = [[text for text in ax.texts if isinstance(text, Annotation)] for ax in figure.axes]
    if not any(notes):
        return
    figure.draw_without_rendering()
    for beside in notes:
        boxes = []
        for note in beside:
            if note.get_window_extent().count_overlaps(boxes):
                note.set(position=(4, -4), verticalalignment="top")
            if note.get_window_extent().count_overlaps(boxes):
                note.remove()
            else:
                boxes.append(note.get_window_extent())


def covers(box, ax):
    """Whether a box in the picture's coordinates hides a part of a line, a marker or a bar of an error."""
    for line in ax.lines:
        path = line.get_transform().transform_path(line.get_path())
        has_line = line.get_linestyle() != "None" and path.intersects_bbox(box, filled=False)
        if has_line or box.count_contains(path.vertices):
            return True
    return any(collection.get_transform().transform_path(path).intersects_bbox(box, filled=False)
               for collection in ax.collections for path in collection.get_paths())


def draw(folder, metrics=(), keys=(), fixed=(), targets=(), axes=(), against=None, published=None):
    """The picture of the sweep in `folder`: `metrics`, and the times to `targets`, over the swept `keys` (one or two), others held
    at `fixed` values; and curves against what `axes` name, time and steps unless told. Or the metrics against another outcome. What
    is `published` of the metrics (published.Published) is drawn over them."""
    sweep = Sweep(folder)
    for key in [*keys, *(key for key, _ in fixed)]:
        if key not in sweep.all_keys:
            raise Failure(f"{folder}: {key} is not swept; swept are {', '.join(sweep.all_keys)}")
    keys = list(dict.fromkeys(sweep.first_of(key) for key in keys))
    fixed = sweep.held(fixed, keys)
    for metric in [*metrics, *([against] if against else [])]:
        if not sweep.knows(metric):
            raise Failure(f"{folder}: no outcome {metric}; known are "
                          f"{', '.join(name for name in sweep.outcomes if sweep.knows(name))}")
    axes_keys = list(keys) or [key for key in sweep.varied() if key not in fixed][:2]
    for key in sweep.keys:
        if key not in axes_keys and key not in fixed:
            fixed[key] = sweep.values(key)[0]
    if targets and not sweep.quality():
        raise Failure(f"{folder}: --target wants runs with a test accuracy, AUC or loss")
    convergence.check_targets(sweep.quality(), targets)
    if not metrics:
        usual = [name for name in (sweep.quality(), "samples_per_second") if name and sweep.knows(name)]
        metrics = published.metrics if published else usual
        if not metrics:
            raise Failure(f"{folder}: nothing to draw: no test accuracy, AUC, loss or throughput is known")
    sweep.judge = metrics[0]
    has_curves = metrics[0] in (*QUALITIES, "consensus_distance")
    if axes and not has_curves:
        raise Failure(f"{folder}: --x wants a metric that has curves: {', '.join(QUALITIES)} or consensus_distance")
    panels = []
    first = axes_keys[0] if axes_keys else None
    second = axes_keys[1] if len(axes_keys) > 1 else None
    for metric in metrics:
        if against and first:
            panels.append(lambda f, ax, m=metric: trade(ax, sweep, m, against, first, second, fixed))
            continue
        if second:
            panels.append(lambda f, ax, m=metric: heat_map(f, ax, sweep, m, first, second, fixed))
        if first:
            panels.append(lambda f, ax, m=metric: lines(ax, sweep, m, first, second, fixed, published=published))
    for target in targets if first else ():
        panels.append(lambda f, ax, t=target: time_to(ax, sweep, t, first, second, fixed))
    if first and "run.nodes" in axes_keys and "samples_per_second" in metrics and not against:
        other = [key for key in axes_keys if key != "run.nodes"]
        panels.append(lambda f, ax: speed_up(ax, sweep, other[0] if other else None, fixed))
    if has_curves:
        held = {second: sweep.best_for_all(second, first, fixed)} if second else {}
        for axis in axes or (() if against else ("time", "step")):
            panels.append(lambda f, ax, a=axis: curves(ax, sweep, metrics[0], a, first, fixed, held))
    if not panels:
        raise Failure(f"{folder}: one point alone makes no picture of a sweep")
    columns = 2 if len(panels) > 1 else 1
    rows = (len(panels) + columns - 1) // columns
    figure, grid = plt.subplots(rows, columns, figsize=(7.2 * columns, 3.9 * rows + 0.6), squeeze=False,
                                layout="constrained")
    for ax, panel in zip(grid.flat, panels):
        panel(figure, ax)
    deviations = ["bars"] * bool(first) + ["bands"] * any(isinstance(part, PolyCollection) for ax in grid.flat for part in ax.collections)
    for ax in grid.flat[len(panels):]:
        ax.set_visible(False)
    figure.suptitle("\n".join(textwrap.wrap(heading(sweep, fixed, deviations), LONGEST_HEADING * columns)), fontsize=13, fontweight="bold",
                    x=0.01, ha="left")
    calm(figure)
    make_room(figure)
    thin_out(figure)
    keep_apart(figure)
    return figure
