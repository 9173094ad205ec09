"""Several runs in one picture, the first against the others: simulated and real, or any; results files, or CSV files of runs by
anybody's code (columns: tools/reference_run.hpp). Quality against time, steps, samples and epochs, and the time to a target."""
import math
import pathlib
import textwrap

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator, PercentFormatter

from pictures.reference import read_reference
from pictures.results import choose_evaluations, end_of_run, forward, opened
from pictures.run import Results, draw_zeros, use_log
from pictures.style import DASHES, GREY, MARKERS, SERIES, Failure, add_note, byte_scale, cut, finite, fit, literal, percent, set_log, short, spans_decades, text, time_scale, wants_log, whole_numbers

METRICS = {"test_accuracy": "Test accuracy", "test_auc": "Test AUC", "test_loss": "Test loss", "train_loss": "Training loss",
           "consensus_distance": "Consensus distance"}
AXES = {"time": "time", "step": "steps", "samples": "samples", "epoch": "epochs", "bytes_sent": "bytes sent by all nodes"}
USUAL_AXES = ("time", "step", "samples", "epoch")
HIGHER_IS_BETTER = ("test_accuracy", "test_auc")
MOST_RUNS = 8            # as many as there are colors
AT_MOST = "≤"            # before a time that is a bound
LETTERS = 11             # of a legend or a note, to an inch
COLUMN = 3.6             # inches
PANEL, BAR, LINE = 2.6, 0.14, 0.16  # heights in inches: of a row, at least; of a bar with its number; of a line of text


class Run:
    """Name, evaluation table, curves of training losses (none until they are asked for) and time per step of a run."""

    def __init__(self, path, name=""):
        self.path = path
        self.name = name or pathlib.Path(path).stem
        self.is_reference = pathlib.Path(path).suffix == ".csv"
        self.columns = read_reference(path) if self.is_reference else read_results(path)
        self.by_time = self.columns.pop("by_time", {})
        self.step_time = self.columns.pop("step_time", np.nan)
        self.unread = self.columns.pop("unread", [])
        self.training = {}  # by axis; of a reference, its columns have it
        self.progress = None  # steps against time, if asked for

    def curve(self, metric, against):
        """Finite points; empty if either is not known."""
        if metric == "train_loss" and not self.is_reference:
            return self.training.get(against, (np.empty(0), np.empty(0)))
        if (metric, against) == ("step", "time") and self.progress is not None:
            return self.progress
        table = choose_evaluations(self.columns, self.by_time, against)
        if metric not in table or against not in table:
            return np.empty(0), np.empty(0)
        return finite(table[against], table[metric])

    def read_training(self):
        """The mean over nodes; samples and epochs of its steps by those of the evaluations before and after."""
        results = Results(self.path)
        for axis in ("step", "time", "bytes_sent"):
            found = results.training(axis)
            if found is not None:
                self.training[axis] = finite(found[0], found[2])
        for axis in ("samples", "epoch") if self.training else ():
            steps, known = self.curve(axis, "step")
            if len(steps):
                at, losses = self.training["step"]
                self.training[axis] = np.interp(at, [0, *steps], [0, *known]), losses

    def read_progress(self):
        """Steps of the nodes on average against time: a row of the table of steps comes when the slowest node ends it."""
        if not self.is_reference:
            self.progress = Results(self.path).progress()

    def reached(self, metric, target, against="time"):
        """When the metric is at the target for the first time, between rows by a straight line; if in none of them, but at the end by
        time, then; NaN if never. And whether that is a bound: before the first row nothing is known."""
        sign = 1 if metric in HIGHER_IS_BETTER else -1
        end = finite(*(self.by_time.get(name, np.empty(0))[-1:] for name in (against, metric)))
        for x, values in (self.curve(metric, against), end):
            there = np.flatnonzero(sign * values >= sign * target)
            if len(there) and there[0] == 0:
                return x[0], True
            if len(there):
                around = slice(there[0] - 1, there[0] + 1)
                return float(np.interp(sign * target, sign * values[around], x[around])), False
        return np.nan, False


def read_results(path):
    with opened(path) as file:
        columns = {name: values[()].astype(float) for name, values in file["evaluation"].items()}
        columns["by_time"] = {name: values[()] for name, values in file.get("evaluation_by_time", {}).items()}
        steps, end = file["nodes/steps"][()], end_of_run(file)
    if steps.sum() > 0 and end > 0:
        columns["step_time"] = float(end * len(steps) / steps.sum())
    return columns


def reference_of(path):
    """The file that [reference] in the scenario of a results file names; its folder is that of the scenario, found as
    find_scenario() in scenarios/scenario.cpp does."""
    with opened(path) as file:
        scenario = text(file["scenario"][()])
        name = pathlib.Path(text(file["facts"].attrs["scenario_name"]))
        there = pathlib.Path(text(file["machine"].attrs.get("folder", ""))) / name
    place = name.parent if name.exists() or not there.parent.exists() else there.parent
    _, found, section = scenario.partition("[reference]")
    for line in section.splitlines()[1:] if found else ():
        if line.startswith("["):
            break
        key, _, value = line.partition("=")
        if key.strip() == "file":
            return place / value.partition(" #")[0].strip()
    raise Failure("its scenario has no [reference]")


def in_words(metric):
    """The name of a metric within a sentence."""
    return METRICS[metric][0].lower() + METRICS[metric][1:]


def deviations(first, other):
    """Lines that say how far `first` is from `other`, which is the yardstick as in `starling compare`."""
    lines = []
    if np.isfinite(first.step_time) and np.isfinite(other.step_time):
        lines.append(f"time per step {100 * (first.step_time / other.step_time - 1):+.1f} %")
    for metric in METRICS:
        ours, theirs = first.curve(metric, "step"), other.curve(metric, "step")
        shared, at, there = np.intersect1d(ours[0], theirs[0], return_indices=True)
        if len(shared) and metric != "consensus_distance":
            mean = np.mean(np.abs(theirs[1][there] - ours[1][at]))
            lines.append(f"{in_words(metric)} {f'{100 * mean:.2f} points' if metric in HIGHER_IS_BETTER else f'{mean:.3g}'} apart on average "
                         f"over {len(shared)} step{'s' * (len(shared) != 1)}")
    return lines


def apart_in_lines(pairs, most):
    """What deviations() tells of each pair of runs, in lines of at most so many characters."""
    lines = []
    for first, other, apart in pairs:
        names = f"{first} against {other}:"
        lines += [names] if len(names) <= most else [f"{cut(first, most - len(' against'))} against", f"  {cut(f'{other}:', most - 2)}"]
        for said in apart:
            lines += textwrap.wrap(said, most, initial_indent="  ", subsequent_indent="    ")
    return lines


def settings_of(name):
    """["nodes=4", "kind=ring"] of a point of a sweep, which is called by its settings."""
    parts = name.split(",")
    return parts if all("=" in part for part in parts) else []


def told_apart(names):
    """Points of one sweep are called by the settings in which they differ, others as they are."""
    parts = [settings_of(name) for name in names]
    if len(names) < 2 or any([part.partition("=")[0] for part in each] != [part.partition("=")[0] for part in parts[0]] for each in parts):
        return names
    differing = [i for i in range(len(parts[0])) if len({each[i] for each in parts}) > 1]
    return [",".join(each[i] for i in differing) for each in parts] if differing else names


def count_epochs(runs):
    """Of runs by other code, which tell samples at most: as many samples to an epoch as in the first run of ours that tells both."""
    for run in runs:
        samples, epochs = run.curve("epoch", "samples")
        if len(samples) and epochs[-1] > 0:
            for other in runs:
                if other.is_reference:
                    other.columns["epoch"] = other.columns["samples"] * epochs[-1] / samples[-1]
            return


def draw_curves(ax, runs, metric, against, scale, is_log):
    for i, run in enumerate(runs):
        x, y = run.curve(metric, against)
        x = forward(x) if against == "time" else x
        few = len(x) <= 25
        if metric == "consensus_distance":
            draw_zeros(ax, x[y == 0] * scale, SERIES[i])
            y = np.where(y > 0, y, np.nan)  # no line across rows that the axis has no place for
        ax.plot(x * scale, y, color=SERIES[i], linestyle=DASHES[i], label=literal(run.name),
                marker=MARKERS[i] if few else None, markersize=4, markerfacecolor="none" if i else None)
    ends = [x[-1] for x in (run.curve(metric, against)[0] for run in runs) if len(x)]
    if against == "bytes_sent" and wants_log(against, ends):
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(numticks=6))
    else:
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=against == "step", min_n_ticks=1))
    ax.xaxis.set_major_formatter(lambda value, _: short(value))
    silent = [run.name for run in runs if len(run.curve(metric, "step")[0]) and not len(run.curve(metric, against)[0])]
    if silent:
        add_note(ax, literal(f"not told of {', '.join(silent)}"))
    if is_log:
        ax.set(xscale="log", yscale="log")
        ax.xaxis.set_major_locator(LogLocator(numticks=6))
    elif ax.get_xscale() == "linear":
        ax.set_xlim(left=0)
    if metric == "test_accuracy":
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    if metric == "step" and not is_log:
        ax.yaxis.set_major_locator(whole_numbers())
    seen = np.concatenate([run.curve(metric, against)[1] for run in runs])
    if (metric == "consensus_distance" and (seen > 0).any()) or (metric in ("test_loss", "train_loss") and use_log(seen)):
        set_log(ax)


def draw_targets(ax, runs, metric, targets, scale, unit):
    """How long each run took to each target, a hollow bar for at most so long; what never got there, or does not tell, says so."""
    height = 0.8 / len(runs)
    for i, run in enumerate(runs):
        missed = "never" if len(run.curve(metric, "time")[0]) else "not known"
        for row, target in enumerate(targets):
            time, is_bound = run.reached(metric, target)
            length = 0 if np.isnan(time) else time * scale
            y = row + (i - (len(runs) - 1) / 2) * height
            ax.barh(y, length, 0.9 * height, color=SERIES[i], edgecolor=SERIES[i], fill=not is_bound,
                    label=literal(run.name) if row == 0 else None)
            ax.annotate(missed if np.isnan(time) else f"{AT_MOST} " * is_bound + short(length), (length, y), xytext=(4, 0),
                        textcoords="offset points", va="center", fontsize=8, color=GREY)
    ax.set_yticks(range(len(targets)), [percent(target) if metric == "test_accuracy" else f"{target:g}" for target in targets])
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.grid(False, axis="y")
    ax.set_xlabel(f"time ({unit})")
    ax.set_title(f"Time to {in_words(metric)}")


def draw_pace(ax, runs):
    """The time per step, which can be compared even where one run is a small part of the other, and by how much the first exceeds it."""
    times = np.array([run.step_time for run in runs])
    factor, unit = time_scale(np.nanmax(times))
    for i, time in enumerate(times * factor):
        ax.barh(i, 0 if np.isnan(time) else time, 0.7, color=SERIES[i])
        deviation = f" (first: {100 * (times[0] / times[i] - 1):+.1f} %)" if i > 0 and np.isfinite(times[0] / times[i]) else ""
        ax.annotate("not known" if np.isnan(time) else short(time) + deviation, (0 if np.isnan(time) else time, i), xytext=(4, 0),
                    textcoords="offset points", va="center", fontsize=8, color=GREY)
    ax.set_yticks([])
    room = max(0.5, 1.5 - len(runs) / 2)  # one bar is no thicker than two
    ax.set_ylim(len(runs) - 1 + room, -room)
    ax.margins(x=0.35 if len(runs) > 1 else 0.15)
    ax.grid(False, axis="y")
    ax.set_xlabel(f"time per step ({unit})")


def reached_in_words(run, metric, target):
    """"90% test accuracy after 1.33 s, 93 steps, 12.3 MB", as far as the run tells."""
    words = []
    for axis, scale_of in (("time", time_scale), ("step", None), ("bytes_sent", byte_scale)):
        value, is_bound = run.reached(metric, target, axis)
        if np.isfinite(value):
            factor, unit = scale_of(value) if scale_of else (1, "steps")
            words.append(f"{'at most ' * is_bound}{value * factor:.4g} {unit}")
    goal = f"{percent(target)} {in_words(metric)}" if metric == "test_accuracy" else f"{in_words(metric)} {target:g}"
    return f"{goal} {'after ' + ', '.join(words) if words else 'never'}"


def check_targets(metric, targets):
    """Accuracies and AUC are shares: 90 would be an empty panel."""
    for target in targets:
        if metric in ("test_accuracy", "test_auc") and not 0 < target <= 1:
            raise Failure(f"--target {target:g}: a {in_words(metric)} is above 0 and at most 1: 0.9 for 90 %")


def default_targets(runs, metric):
    """What the worst run reaches in the end, and two easier ones; none that a run is at from its first row on, if there are others."""
    sign = 1 if metric in HIGHER_IS_BETTER else -1
    curves = [sign * values for values in (run.curve(metric, "time")[1] for run in runs) if len(values)]
    best, first = min(values.max() for values in curves), max(values[0] for values in curves)
    goal = np.floor(100 * best) / 100 if sign > 0 else 1.01 * best
    step = (0.1 if sign > 0 else 0.5) * abs(best)
    if goal > first:
        step = min(step, (goal - first) / 3)
    levels = [sign * (goal - steps * step) for steps in (2, 1, 0)]
    levels = list(dict.fromkeys(round(level, 2) if sign > 0 else float(f"{level:.2g}") for level in levels))
    return [level for level in levels if sign * level > first] or levels


def names_of(paths):
    """The files' names without ending; with their folders, as far up as they need to differ."""
    parts = [[*pathlib.Path(path).absolute().parts[1:-1], pathlib.Path(path).stem] for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-depth:]) for each in parts]
        if len(set(names)) == len(names):
            break
    return told_apart(names)


def legend_columns(runs, width):
    """How many names stand side by side above all panels, in so many inches; 0 if the first panel has room for them."""
    longest = max(len(run.name) for run in runs)
    if len(runs) <= 4 and longest <= 24:
        return 0
    return int(max(1, min(len(runs), LETTERS * width // (longest + 8))))


def draw(paths, targets=(), axes=USUAL_AXES):
    """The picture, against what `axes` name, and lines of text that tell the deviations of the first run from the others and when each
    got to the targets."""
    if len(paths) > MOST_RUNS:
        raise Failure(f"{len(paths)} runs are too many to tell apart in one picture, expected at most {MOST_RUNS}")
    runs = [Run(path, name) for path, name in zip(paths, names_of(paths))]
    if any(len(run.curve("train_loss", "step")[0]) for run in runs):
        for run in runs:
            if not run.is_reference:
                run.read_training()
    count_epochs(runs)
    metrics = [metric for metric in METRICS if any(len(run.curve(metric, against)[0]) for run in runs for against in ("step", "time"))]
    pairs = [(runs[0].name, run.name, deviations(runs[0], run) or ["nothing in common"]) for run in runs[1:]]
    said = [f"{first} against {other}: {', '.join(apart)}" for first, other, apart in pairs]
    notes = [f"note: of {run.name} nobody reads {', '.join(run.unread)}" for run in runs if run.unread]
    if not metrics:
        metrics = ["step"]  # timing only: progress
        for run in runs:
            run.read_progress()
    axes = [axis for axis in axes if any(len(run.curve(metrics[0], axis)[0]) for run in runs) and axis != metrics[0]]
    if not axes:
        raise Failure("the runs have nothing that can be drawn")
    times = [table["time"] for run in runs for table in (run.columns, run.by_time) if "time" in table]
    last = max((time[np.isfinite(time)].max(initial=0.0) for time in times), default=0.0)
    ends = [run.curve("step", "step")[1] for run in runs]
    # Of runs of very different lengths the short one would be a speck; a share of the long one's hours does not tell its time, either.
    is_log = metrics == ["step"] and spans_decades([steps[-1] for steps in ends if len(steps)])
    scale, unit = (1.0, "s") if is_log else time_scale(last)
    scales, labels = {"time": scale}, {**AXES, "time": f"time ({unit})"}
    if "bytes_sent" in axes:
        most = max(run.curve(metric, "bytes_sent")[0].max(initial=0) for run in runs for metric in metrics)
        scales["bytes_sent"], byte_unit = byte_scale(most)
        labels["bytes_sent"] += f" ({byte_unit})"
    quality = metrics[0]
    has_targets = quality in METRICS and quality != "consensus_distance" and any(len(run.curve(quality, "time")[0]) for run in runs)
    has_pace = metrics == ["step"] and any(np.isfinite(run.step_time) for run in runs)
    check_targets(quality, targets)
    if targets and not has_targets:
        said.append("--target says nothing here: no run tells an accuracy or a loss")
    said += [f"{run.name}: {reached_in_words(run, quality, target)}" for run in runs for target in targets if has_targets]
    targets = (list(targets) or default_targets(runs, quality)) if has_targets else []
    width = 1.2 + COLUMN * (len(axes) + has_pace)
    for run in runs:
        run.name = cut(run.name, int(LETTERS * width) - 8)
    columns = legend_columns(runs, width)
    heights = [PANEL] * len(metrics)
    beside_targets = apart_in_lines(pairs, int(LETTERS * COLUMN * (len(axes) - 1))) if has_targets and len(axes) > 1 else []
    if has_targets:
        heights.append(max(PANEL, 0.9 + BAR * len(targets) * len(runs), 0.2 + LINE * len(beside_targets)))
    above = [0.1 + 0.2 * math.ceil(len(runs) / columns)] if columns else []
    figure, grid = plt.subplots(len(above + heights), len(axes) + has_pace, figsize=(width, 1.1 + sum(above + heights)), squeeze=False,
                                height_ratios=above + heights, layout="constrained")
    for row, metric in enumerate(metrics):
        for column, axis in enumerate(axes):
            ax = grid[len(above) + row, column]
            draw_curves(ax, runs, metric, axis, scales.get(axis, 1.0), is_log)
            ax.set_xlabel(labels[axis])
            if column == 0:
                progress = "finished steps" + ", mean of nodes" * (axis == "time")
                ax.set_ylabel(in_words(metric) if metric in METRICS else progress)
    if has_pace:
        draw_pace(grid[-1, -1], runs)
    handles, names = grid[len(above), 0].get_legend_handles_labels()
    legend = grid[0, 0].legend(handles, names, **({"loc": "upper left", "ncols": columns, "borderaxespad": 0} if above else {}))
    for ax in grid[0, :] if above else ():
        ax.axis("off")
        legend.set_in_layout(False)  # it crosses the columns
    if has_targets:
        draw_targets(grid[-1, 0], runs, quality, targets, scale, unit)
        for ax in grid[-1, 1:]:
            ax.axis("off")
        if beside_targets:
            beside = grid[-1, 1].text(0, 1, literal("\n".join(beside_targets)), fontsize=9, color=GREY, va="top")
            beside.set_in_layout(False)  # it may cross the columns
    title = ", ".join(run.name for run in runs)
    fit(figure.suptitle(literal(title), fontsize=13, fontweight="bold", x=0.01, ha="left"), title, 0.99)
    return figure, said + notes
