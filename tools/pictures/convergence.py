"""Several runs in one picture, the first against the others: simulated and real, or any. Quality against time, steps, samples and
epochs, and the time to a target."""
import math
import textwrap

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator, PercentFormatter

from pictures.metrics import AXES, HIGHER_IS_BETTER, METRICS, SHARES, UP_TO_1, check_targets, in_words
from pictures.results import forward
from pictures.runs import AT_MOST, Run, count_epochs, names_of
from pictures.style import (DASHES, GREY, MARKERS, SERIES, Failure, add_note, byte_scale, cut, draw_zeros, fit, literal, percent, positive, set_log,
                            short, spans_decades, time_scale, wants_log, whole_numbers)

USUAL_AXES = ("time", "step", "samples", "epoch")
MOST_RUNS = len(SERIES)  # as many as there are colors
LETTERS = 11             # of a legend or a note, to an inch
COLUMN = 3.6             # inches
PANEL, BAR, LINE = 2.6, 0.14, 0.16  # heights in inches: of a row, at least; of a bar with its number; of a line of text


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
            lines.append(f"{in_words(metric)} {f'{100 * mean:.2f} points' if metric in UP_TO_1 else f'{mean:.3g}'} apart on average "
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


def draw_curves(ax, runs, metric, against, scale, is_log):
    for i, run in enumerate(runs):
        x, y = run.curve(metric, against)
        x = forward(x) if against == "time" else x
        few = len(x) <= 25
        if metric == "consensus_distance":
            draw_zeros(ax, x[y == 0] * scale, SERIES[i])
            y = positive(y)
        ax.plot(x * scale, y, color=SERIES[i], linestyle=DASHES[i], label=run.label,
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
    if metric in SHARES:
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    if metric == "step" and not is_log:
        ax.yaxis.set_major_locator(whole_numbers())
    seen = np.concatenate([run.curve(metric, against)[1] for run in runs])
    if (metric == "consensus_distance" and (seen > 0).any()) or (metric in ("test_loss", "own_test_loss", "train_loss") and spans_decades(seen, 20)):
        set_log(ax)


def draw_targets(ax, runs, metric, targets, scale, label):
    """How long each run took to each target, a hollow bar for at most so long; what never got there, or does not tell, says so."""
    height = 0.8 / len(runs)
    for i, run in enumerate(runs):
        missed = "never" if len(run.curve(metric, "time")[0]) else "not known"
        for row, target in enumerate(targets):
            time, is_bound = run.reached(metric, target)
            length = 0 if np.isnan(time) else time * scale
            y = row + (i - (len(runs) - 1) / 2) * height
            ax.barh(y, length, 0.9 * height, color=SERIES[i], edgecolor=SERIES[i], fill=not is_bound,
                    label=run.label if row == 0 else None)
            ax.annotate(missed if np.isnan(time) else f"{AT_MOST} " * is_bound + short(length), (length, y), xytext=(4, 0),
                        textcoords="offset points", va="center", fontsize=8, color=GREY)
    ax.set_yticks(range(len(targets)), [percent(target) if metric == "test_accuracy" else f"{target:g}" for target in targets])
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.grid(False, axis="y")
    ax.set_xlabel(label)
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


def legend_columns(runs, width):
    """How many names stand side by side above all panels, in so many inches; 0 if the first panel has room for them."""
    longest = max(len(run.label) for run in runs)
    if len(runs) <= 4 and longest <= 24:
        return 0
    return int(max(1, min(len(runs), LETTERS * width // (longest + 8))))


def read(paths):
    """The runs; with their training losses, if one by other code tells such losses."""
    runs = [Run(path, name) for path, name in zip(paths, names_of(paths))]
    if any(len(run.curve("train_loss", "step")[0]) for run in runs):
        for run in runs:
            run.read_training()
    count_epochs(runs)
    return runs


def known_metrics(runs):
    """What is drawn of them: metrics that one tells at least, or else "step", their progress."""
    metrics = [metric for metric in METRICS if any(len(run.curve(metric, against)[0]) for run in runs for against in ("step", "time"))]
    if metrics:
        return metrics
    for run in runs:
        run.read_progress()
    return ["step"]


def scales_of(runs, metrics, axes, is_log):
    """Factors by which numbers along axes are multiplied, where it is not 1, and the labels of the axes."""
    times = [table["time"] for run in runs for table in (run.columns, run.by_time) if "time" in table]
    last = max((time[np.isfinite(time)].max(initial=0.0) for time in times), default=0.0)
    scale, unit = (1.0, "s") if is_log else time_scale(last)
    scales, labels = {"time": scale}, {**AXES, "time": f"time ({unit})"}
    if "bytes_sent" in axes:
        most = max(run.curve(metric, "bytes_sent")[0].max(initial=0) for run in runs for metric in metrics)
        scales["bytes_sent"], unit = byte_scale(most)
        labels["bytes_sent"] += f" ({unit})"
    return scales, labels


def draw_metrics(grid, runs, metrics, axes, is_log, scales, labels):
    """A row for each metric, a column for each axis."""
    for row, metric in zip(grid, metrics):
        for ax, axis in zip(row, axes):
            draw_curves(ax, runs, metric, axis, scales.get(axis, 1.0), is_log)
            ax.set_xlabel(labels[axis])
        progress = "finished steps" + ", mean of nodes" * (axes[0] == "time")
        row[0].set_ylabel(in_words(metric) if metric in METRICS else progress)


def add_legend(row, panel, columns):
    """Names the runs in the first panel; or above all of them, in so many columns and a row of their own, if there are any."""
    handles, names = panel.get_legend_handles_labels()
    if not columns:
        panel.legend(handles, names)
        return
    legend = row[0].legend(handles, names, loc="upper left", ncols=columns, borderaxespad=0)
    legend.set_in_layout(False)  # it crosses the columns
    for ax in row:
        ax.axis("off")


def draw(paths, targets=(), axes=USUAL_AXES):
    """The picture, against what `axes` name, and lines of text that tell the deviations of the first run from the others and when each
    got to the targets."""
    if len(paths) > MOST_RUNS:
        raise Failure(f"{len(paths)} runs are too many to tell apart in one picture, expected at most {MOST_RUNS}")
    runs = read(paths)
    metrics = known_metrics(runs)
    quality, is_timing = metrics[0], metrics == ["step"]
    axes = [axis for axis in axes if any(len(run.curve(quality, axis)[0]) for run in runs) and axis != quality]
    if not axes:
        raise Failure("the runs have nothing that can be drawn")
    ends = [run.curve("step", "step")[1] for run in runs]
    # Of runs of very different lengths the short one would be a speck; a share of the long one's hours does not tell its time, either.
    is_log = is_timing and spans_decades([steps[-1] for steps in ends if len(steps)])
    scales, labels = scales_of(runs, metrics, axes, is_log)
    has_targets = not is_timing and quality != "consensus_distance" and any(len(run.curve(quality, "time")[0]) for run in runs)
    has_pace = is_timing and any(np.isfinite(run.step_time) for run in runs)
    check_targets(quality, targets)
    pairs = [(runs[0].name, run.name, deviations(runs[0], run) or ["nothing in common"]) for run in runs[1:]]
    said = [f"{first} against {other}: {', '.join(apart)}" for first, other, apart in pairs]
    if targets and not has_targets:
        said.append("--target says nothing here: no run tells an accuracy or a loss")
    said += [f"{run.name}: {reached_in_words(run, quality, target)}" for run in runs for target in targets if has_targets]
    said += [f"note: {run.name} is not complete: {run.status}" for run in runs if run.status != "complete"]
    said += [f"note: of {run.name} nobody reads {', '.join(run.unread)}" for run in runs if run.unread]
    targets = (list(targets) or default_targets(runs, quality)) if has_targets else []
    width = 1.2 + COLUMN * (len(axes) + has_pace)
    for run in runs:
        run.name = cut(run.name, int(LETTERS * width) - 8)
    columns = legend_columns(runs, width)
    heights = ([0.1 + 0.2 * math.ceil(len(runs) / columns)] if columns else []) + [PANEL] * len(metrics)
    beside_targets = apart_in_lines(pairs, int(LETTERS * COLUMN * (len(axes) - 1))) if has_targets and len(axes) > 1 else []
    if has_targets:
        heights.append(max(PANEL, 0.9 + BAR * len(targets) * len(runs), 0.2 + LINE * len(beside_targets)))
    figure, grid = plt.subplots(len(heights), len(axes) + has_pace, figsize=(width, 1.1 + sum(heights)), squeeze=False, height_ratios=heights,
                                layout="constrained")
    panels = grid[1:] if columns else grid
    draw_metrics(panels, runs, metrics, axes, is_log, scales, labels)
    if has_pace:
        draw_pace(grid[-1, -1], runs)
    add_legend(grid[0], panels[0, 0], columns)
    if has_targets:
        draw_targets(grid[-1, 0], runs, quality, targets, scales["time"], labels["time"])
        for ax in grid[-1, 1:]:
            ax.axis("off")
    if beside_targets:
        beside = grid[-1, 1].text(0, 1, literal("\n".join(beside_targets)), fontsize=9, color=GREY, va="top")
        beside.set_in_layout(False)  # it may cross the columns
    title = ", ".join(run.name for run in runs)
    fit(figure.suptitle(literal(title), fontsize=13, fontweight="bold", x=0.01, ha="left"), title, 0.99)
    return figure, said
