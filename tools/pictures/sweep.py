"""Pictures of a sweep: how an outcome depends on one or two swept keys, and the curves behind it."""
import csv
import pathlib

import h5py
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter, ScalarFormatter

from pictures import convergence
from pictures.style import DASHES, GREY, MARKERS, SERIES, Failure, numbers, short

MOST_CURVES = 8
TITLES = {
    "test_accuracy": "Test accuracy of the mean model", "best_test_accuracy": "Best test accuracy of the mean model",
    "test_auc": "Test AUC of the mean model", "best_test_auc": "Best test AUC of the mean model",
    "test_loss": "Test loss of the mean model", "samples_per_second": "Throughput, samples/s",
    "step_time_seconds": "Time per step, s", "virtual_time_seconds": "Virtual time, s",
    "wait_share": "Share of time waiting", "consensus_distance": "Consensus distance",
}
QUALITIES = ("test_accuracy", "test_auc", "test_loss")  # of which the first that is known is drawn
SHARES = ("test_accuracy", "best_test_accuracy", "wait_share", "compute_share", "communicate_share")


class Sweep:
    """The tables that `starling sweep` left in a folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.table = read_csv(self.folder / "table.csv")
        self.points = read_csv(self.folder / "points.csv")
        if not self.table:
            raise Failure(f"{folder}: no point of the sweep is finished")
        columns = list(self.table[0])
        self.keys = columns[:columns.index("runs")]
        self.outcomes = [name for name in columns[columns.index("runs") + 1:] if not name.endswith("_deviation")]

    def values(self, key):
        """Values of a swept key, smallest number first, or as they were written."""
        texts = list(dict.fromkeys(row[key] for row in self.table))
        as_numbers = numbers(texts)
        return [text for _, text in sorted(zip(as_numbers[0], texts))] if as_numbers else texts

    def varied(self):
        return [key for key in self.keys if len(self.values(key)) > 1]

    def knows(self, metric):
        return metric in self.outcomes and any(row[metric] for row in self.table)

    def quality(self):
        """What tells best how well the runs learned; None if nothing does."""
        return next((name for name in QUALITIES if self.knows(name)), None)

    def runs(self, settings):
        """The points with these settings."""
        return [point for point in self.points if all(point[key] == value for key, value in settings.items())]

    def cell(self, metric, settings):
        """(mean, deviation) of the rows with these settings; of several, of the first."""
        for row in self.table:
            if all(row[key] == value for key, value in settings.items()) and row[metric]:
                return float(row[metric]), float(row[metric + "_deviation"] or "nan")
        return float("nan"), float("nan")


def read_csv(path):
    try:
        with open(path, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise Failure(f"{path}: cannot read: {error.strerror}") from error


def name_of(key):
    return key.split(".", 1)[1].replace("_", " ")


def label_of(key, texts):
    found = numbers(texts)
    return f"{name_of(key)} ({found[1]})" if found and found[1] else name_of(key)


def write_metric(metric, value):
    return f"{100 * value:.1f}" if metric in SHARES else short(value)


def heat_map(figure, ax, sweep, metric, x_key, y_key, fixed):
    """One cell per pair of values; white where no point is finished."""
    xs, ys = sweep.values(x_key), sweep.values(y_key)
    cells = np.array([[sweep.cell(metric, {**fixed, x_key: x, y_key: y})[0] for x in xs] for y in ys])
    image = ax.imshow(cells, origin="lower", aspect="auto", cmap="cividis")
    middle = (np.nanmin(cells) + np.nanmax(cells)) / 2
    for row, line in enumerate(cells):
        for column, value in enumerate(line):
            if np.isfinite(value):
                ax.text(column, row, write_metric(metric, value), ha="center", va="center", fontsize=8,
                        color="white" if value < middle else "black")
    ax.set_xticks(range(len(xs)), xs)
    ax.set_yticks(range(len(ys)), ys)
    ax.set_xlabel(name_of(x_key))
    ax.set_ylabel(name_of(y_key))
    ax.grid(False)
    title = TITLES.get(metric, metric.replace("_", " "))
    ax.set_title(title + (" (%)" if metric in SHARES else ""))
    bar = figure.colorbar(image, ax=ax, pad=0.015)
    bar.outline.set_visible(False)
    if metric in SHARES:
        bar.ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=1))


def lines(ax, sweep, metric, x_key, series_key, fixed, cell_of=None):
    """Mean against the values of one key, a line per value of the other, bars for one standard deviation over seeds. The cells
    are those of `metric` unless `cell_of` says otherwise."""
    cell_of = cell_of or (lambda settings: sweep.cell(metric, settings))
    texts = sweep.values(x_key)
    found = numbers(texts)
    x = found[0] if found else list(range(len(texts)))
    for i, series in enumerate(sweep.values(series_key) if series_key else [None]):
        settings = {**fixed, series_key: series} if series_key else fixed
        cells = [cell_of({**settings, x_key: value}) for value in texts]
        deviations = [deviation for _, deviation in cells]
        ax.errorbar(x, [mean for mean, _ in cells], deviations if np.isfinite(deviations).any() else None, capsize=2.5,
                    color=SERIES[i % len(SERIES)], marker=MARKERS[i % len(MARKERS)], markersize=4.5,
                    linestyle=DASHES[i % len(DASHES)], label=series)
    if found and min(x) > 0 and max(x) / min(x) >= 8:
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter(ScalarFormatter())
    if not found or len(texts) <= 12:
        ax.set_xticks(x, [f"{number:g}" for number in x] if found else texts)
        ax.minorticks_off()
    if metric in SHARES:
        ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel(label_of(x_key, texts))
    ax.set_title(TITLES.get(metric, metric.replace("_", " ")))
    if series_key:
        ax.legend(title=name_of(series_key), ncols=2 if len(sweep.values(series_key)) > 4 else 1)


def time_to(ax, sweep, target, x_key, series_key, fixed):
    """Virtual time until the mean model has the target accuracy (or AUC, or loss); seeds that never get there are left out."""
    metric = sweep.quality() or "test_loss"

    def cell_of(settings):
        times = [convergence.Run(sweep.folder / f"{point['point']}.h5").first_time(metric, target) for point in sweep.runs(settings)]
        times = [time for time in times if np.isfinite(time)]
        return (np.mean(times), np.std(times, ddof=1) if len(times) > 1 else np.nan) if times else (np.nan, np.nan)

    lines(ax, sweep, "virtual_time_seconds", x_key, series_key, fixed, cell_of)
    wanted = f"{target:.0%} test accuracy" if metric == "test_accuracy" else f"a {convergence.METRICS[metric].replace('Test', 'test')} of {target:g}"
    ax.set_title(f"Virtual time to {wanted}, s")


def speed_up(ax, sweep, series_key, fixed):
    """Throughput against nodes as a multiple of what the smallest number of nodes reaches, and the ideal."""
    texts = sweep.values("run.nodes")
    nodes = np.array([float(text) for text in texts])
    for i, series in enumerate(sweep.values(series_key) if series_key else [None]):
        settings = {**fixed, series_key: series} if series_key else fixed
        rates = np.array([sweep.cell("samples_per_second", {**settings, "run.nodes": text})[0] for text in texts])
        ax.plot(nodes, rates / rates[0] * nodes[0], color=SERIES[i % len(SERIES)], marker=MARKERS[i % len(MARKERS)],
                linestyle=DASHES[i % len(DASHES)], label=series)
    ax.plot(nodes, nodes, color=GREY, linewidth=1, linestyle=":", label="ideal")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xticks(nodes, texts)
    ax.set_yticks(nodes, texts)
    ax.minorticks_off()
    ax.set_xlabel("nodes")
    ax.set_title(f"Speed-up (of {texts[0]} nodes: {texts[0]})")
    ax.legend()


def curves(ax, sweep, metric, against, key, fixed, held):
    """The metric over a run, mean over seeds, a curve per value of `key`. `held` keys have these values in this panel alone."""
    values = sweep.values(key) if key else [None]
    if len(values) > MOST_CURVES:
        values = [values[i] for i in np.unique(np.linspace(0, len(values) - 1, MOST_CURVES).round().astype(int))]
    for i, value in enumerate(values):
        settings = {**fixed, **held, **({key: value} if key else {})}
        found = []
        for point in sweep.runs(settings):
            with h5py.File(sweep.folder / f"{point['point']}.h5") as file:
                if metric in file["evaluation"]:
                    found.append((file["evaluation"][against][()], file["evaluation"][metric][()]))
        rows = min((len(y) for _, y in found), default=0)
        if rows == 0:
            continue
        x = np.mean([x[:rows] for x, _ in found], axis=0)
        y = np.mean([y[:rows] for _, y in found], axis=0)
        ax.plot(x, y, color=SERIES[i % len(SERIES)], linestyle=DASHES[i % len(DASHES)],
                marker=MARKERS[i % len(MARKERS)] if rows == 1 else None, label=value)
    if metric in SHARES:
        ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("virtual time (s)" if against == "time" else "steps")
    ax.set_title(", ".join([TITLES.get(metric, metric.replace("_", " ")), *(f"{name_of(k)} = {v}" for k, v in held.items())]))
    if key:
        ax.legend(title=name_of(key))


def draw(folder, metrics=(), keys=(), fixed=(), targets=()):
    """The picture of the sweep in `folder`: `metrics`, and the times to `targets`, over the swept `keys` (one or two), others held
    at `fixed` values."""
    sweep = Sweep(folder)
    fixed = dict(fixed)
    for key in list(keys) + list(fixed):
        if key not in sweep.keys:
            raise Failure(f"{folder}: {key} is not swept; swept are {', '.join(sweep.keys)}")
    for metric in metrics:
        if not sweep.knows(metric):
            raise Failure(f"{folder}: no outcome {metric}; known are "
                          f"{', '.join(name for name in sweep.outcomes if sweep.knows(name))}")
    axes_keys = list(keys) or [key for key in sweep.varied() if key not in fixed][:2]
    for key in sweep.keys:
        if key not in axes_keys and key not in fixed:
            fixed[key] = sweep.values(key)[0]
    if not metrics:
        metrics = [name for name in (sweep.quality(), "samples_per_second") if name and sweep.knows(name)]
    has_curves = metrics[0] in (*QUALITIES, "consensus_distance")
    panels = []
    first = axes_keys[0] if axes_keys else None
    second = axes_keys[1] if len(axes_keys) > 1 else None
    for metric in metrics:
        if second:
            panels.append(lambda f, ax, m=metric: heat_map(f, ax, sweep, m, first, second, fixed))
        if first:
            panels.append(lambda f, ax, m=metric: lines(ax, sweep, m, first, second, fixed))
    for target in targets if first else ():
        panels.append(lambda f, ax, t=target: time_to(ax, sweep, t, first, second, fixed))
    if first and "run.nodes" in axes_keys and "samples_per_second" in metrics:
        other = [key for key in axes_keys if key != "run.nodes"]
        panels.append(lambda f, ax: speed_up(ax, sweep, other[0] if other else None, fixed))
    if has_curves:
        held = {second: sweep.values(second)[-1]} if second else {}
        panels.append(lambda f, ax: curves(ax, sweep, metrics[0], "time", first, fixed, held))
        panels.append(lambda f, ax: curves(ax, sweep, metrics[0], "step", first, fixed, held))
    if not panels:
        raise Failure(f"{folder}: one point alone makes no picture of a sweep")
    columns = 2 if len(panels) > 1 else 1
    rows = (len(panels) + columns - 1) // columns
    figure, grid = plt.subplots(rows, columns, figsize=(7.2 * columns, 3.9 * rows + 0.6), squeeze=False,
                                layout="constrained")
    for ax, panel in zip(grid.flat, panels):
        panel(figure, ax)
    for ax in grid.flat[len(panels):]:
        ax.set_visible(False)
    note = ", ".join(f"{name_of(key)} = {value}" for key, value in fixed.items())
    count = len(sweep.runs(fixed))
    title = f"{sweep.folder.name}: {count} run{'s' * (count != 1)}" + (f", at {note}" if note else "")
    figure.suptitle(title, fontsize=13, fontweight="bold", x=0.01, ha="left")
    return figure
