"""The picture of one run: quality against time and steps, what the nodes did when, and how they spent their time."""
import configparser
import math
import pathlib
import re
import warnings

import h5py
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator, PercentFormatter

from pictures.results import choose_evaluations, end_of_run, forward, opened
from pictures.style import BLUE, GREEN, GREY, ORANGE, Failure, finite, set_log, text, time_scale, whole_numbers, write

MOST_NODES = 64          # rows of the node timeline
STEPS_IN_WINDOW = 24     # of the median node
MOST_BARS = 512          # nodes drawn one by one in the shares
MOST_INSTANTS = 100      # of progress
LETTERS_BESIDE_TITLE = 44
MOST_STATUS = 60         # letters of how a run ended
ACTIVITIES = {"compute": BLUE, "communicate": ORANGE, "wait": "#D9D9D9"}
SERVING, SERVING_COLOR = "serve after last step", "#B5DDEF"


class Results:
    """What the picture needs of a results file. Cells that were not recorded are NaN."""

    def __init__(self, path):
        with opened(path) as file:
            self.facts = {key: text(value) for key, value in file["facts"].attrs.items()}
            self.scenario = text(file["scenario"][()]) if "scenario" in file else ""
            self.steps = {name: values[()] for name, values in file["steps"].items()}
            self.evaluation = {name: values[()] for name, values in file["evaluation"].items()}
            self.by_time = {name: values[()] for name, values in file.get("evaluation_by_time", {}).items()}
            self.nodes = {name: values[()] for name, values in file["nodes"].items()}
            self.planned_steps = int(file["evaluation"].attrs["steps"])
            self.end = end_of_run(file)
            timeline = file["timeline"]
            names = h5py.check_enum_dtype(timeline["activity"].dtype)
            self.activity_numbers = {text(name): number for name, number in names.items()}
            self.timeline = {name: timeline[name][()] for name in ("node", "activity")}
            for name in ("begin", "end"):
                self.timeline[name] = timeline[name][()] / 1e12
            self.timeline_until = int(timeline.attrs["until"]) / 1e12
            self.links = {name: values[()] for name, values in file.get("links", {}).items()}
            self.link_timeline = {name: values[()] for name, values in file.get("link_timeline", {}).items()}
            self.diverged_nodes = int(file["statistics"].attrs.get("diverged_nodes", 0))
            self.away_seconds = float(file["statistics"].attrs.get("failures.away_seconds", 0))
            self.stopped_nodes = int(file["statistics"].attrs.get("failures.stopped_nodes", 0))
        self.node_count = len(self.nodes["steps"])
        self.clock = "time" if self.facts.get("transport") == "mpi" else "virtual time"

    def evaluated(self, metric, against):
        """Finite points (x, y) of an evaluated metric."""
        table = choose_evaluations(self.evaluation, self.by_time, against)
        if metric not in table or against not in table:
            return np.empty(0), np.empty(0)
        return finite(forward(table[against]) if against == "time" else table[against], table[metric])

    def seen(self, metric):
        """All finite values of an evaluated metric that are drawn, against time or steps."""
        return np.concatenate([self.evaluated(metric, against)[1] for against in ("time", "step")])

    def last(self, metric):
        """At most one value: the last, as `starling run` prints it."""
        by_time = "ended" in self.facts and len(self.by_time.get("time", ()))
        values = (self.by_time if by_time else self.evaluation).get(metric, np.empty(0))
        return values[np.isfinite(values)][-1:]

    def spread(self, metric):
        """Least, mean and greatest cell of each row over nodes; None if there is no number at all."""
        return spread_of(self.steps.get(metric))

    def step_positions(self, against, rows):
        """x of the rows of the table of steps, as in evaluations: the step, when the last of the nodes that got there had ended it, or what
        all had sent by then (nodes that stopped: what they had)."""
        if against == "step":
            return self.steps["step"][:rows].astype(float)
        if against == "bytes_sent":
            return np.maximum.accumulate(np.nan_to_num(self.steps["bytes_sent"][:rows])).sum(axis=1)
        time = self.spread("time")
        return np.full(rows, np.nan) if time is None else padded(forward(time[2]), rows)

    def training(self, against):
        """(x, least, mean, greatest training loss of the nodes), where test losses are drawn, too: by step, or what every node had
        recorded last at equal times; None if it is not known."""
        if "train_loss" not in self.steps or (against == "bytes_sent" and against not in self.steps):
            return None
        is_by_time = choose_evaluations(self.evaluation, self.by_time, against) is self.by_time and "time" in self.steps
        loss = self.newest("train_loss") if is_by_time else self.steps["train_loss"]
        spread = spread_of(loss)
        if spread is None:
            return None
        if not is_by_time:
            return self.step_positions(against, len(loss)), *spread
        return np.nansum(self.newest(against), axis=1) if against == "bytes_sent" else self.instants(), *spread

    def instants(self):
        """As many equal times up to the end as there are rows of steps."""
        return np.linspace(0, self.by_time["time"][-1], len(self.steps["time"]) + 1)[1:]

    def newest(self, metric):
        """(instants, nodes) what each node had recorded last by each of these times."""
        cells = self.steps[metric]
        time = np.where(np.isfinite(self.steps["time"][:len(cells)]), self.steps["time"][:len(cells)], np.inf)
        rows = np.stack([np.searchsorted(column, self.instants(), side="right") - 1 for column in time.T], axis=1)
        return np.where(rows >= 0, np.take_along_axis(cells, np.maximum(rows, 0), axis=0), np.nan)

    def samples_per_step(self):
        """Of one node; NaN if it is not told."""
        return float(self.facts.get("samples_per_step") or "nan")

    def progress(self):
        """(time, steps that the nodes had ended by then, on average), at equal times from one on; None if nothing tells it. Rows of steps are
        complete when the slowest node ends them, long after the others."""
        per_step = self.samples_per_step()
        if len(self.by_time.get("samples", ())) > 1 and per_step > 0:
            return self.by_time["time"], self.by_time["samples"] / (per_step * self.node_count)
        if self.spread("time") is not None:
            step, time = self.steps["step"], self.steps["time"]
            instants = np.linspace(0, np.nanmax(time), min(len(time), MOST_INSTANTS) + 1)[1:]
            done = np.zeros(len(instants))
            for ended, steps in (finite(column, step[:len(column)]) for column in time.T):
                done += np.interp(instants, np.append(0, ended), np.append(0, steps))
            return instants, done / self.node_count
        time, step = finite(forward(self.evaluation.get("time", np.empty(0))), self.evaluation.get("step", np.empty(0)))
        return (time, step) if len(time) else None

    def throughput(self):
        """(time, steps of the nodes on average, rate, unit): pace between such points, of all nodes; None if nothing tells it."""
        found = self.progress()
        if found is None or len(found[0]) < 2:
            return None
        time, step = found
        per_step = self.samples_per_step()
        passed = np.diff(time, prepend=0.0)
        rate = self.node_count * np.diff(step, prepend=0.0) / np.where(passed > 0, passed, np.nan)
        return (time, step, rate, "steps/s, all nodes") if np.isnan(per_step) else (time, step, rate * per_step, "samples/s")

    def accounted(self):
        """What each node spent in any activity."""
        return sum(self.nodes[name] for name in ACTIVITIES)

    def active_end(self):
        """Seconds after which the last node had served others, too; as Recorder::active_seconds() in sim/record."""
        return max(self.end, self.accounted().max())

    def has_ended(self):
        """Whether each node ended all its steps."""
        return self.nodes["steps"] >= self.planned_steps

    def serving(self):
        """What of it came after a node's last step, while others still asked it; of one that was away before, less than that."""
        return np.where(self.has_ended(), np.maximum(self.accounted() - self.nodes["finished"], 0), 0)

    def serves(self):
        """Whether it is worth a word, as in tools/summary.cpp."""
        return self.serving().sum() > 0.01 * self.nodes["finished"].sum()

    def computing(self):
        """Share of all nodes' time up to their last steps that they computed; None if no time was noted."""
        total = (self.accounted() - self.serving()).sum()
        return self.nodes["compute"].sum() / total if total > 0 else None

    def shares(self):
        """(nodes, activities and serving) share of the node's time, which of one that stopped ends with the run; None if no time was noted."""
        serving = self.serving()
        spent = {name: self.nodes[name] for name in ACTIVITIES}
        waiting = np.minimum(serving, spent["wait"])  # a node that serves waits to be asked, and for what is under way
        spent["wait"], spent["communicate"] = spent["wait"] - waiting, spent["communicate"] - (serving - waiting)
        total = np.maximum(self.accounted(), self.nodes["finished"])
        if self.stopped_nodes > 0:
            total = np.where(self.has_ended(), total, self.active_end())
        if not (total > 0).any():
            return None
        return np.stack([*spent.values(), serving], axis=1) / np.where(total > 0, total, np.inf)[:, None]

    def white(self):
        """What the rest of the shares is called; nothing if it is not worth a word."""
        shares = self.shares()
        is_away = self.away_seconds > 0 or self.stopped_nodes > 0
        is_untold = shares is not None and self.away_seconds == 0 and (shares.sum(axis=1) < 0.99).sum() > self.stopped_nodes
        return " or ".join(name for name, is_there in (("away", is_away), ("not accounted for", is_untold)) if is_there)


def spread_of(cells):
    """Least, mean and greatest cell of each row that are known; None if there is no number at all."""
    if cells is None or not np.isfinite(cells).any():
        return None
    cells = np.where(np.isfinite(cells), cells, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows without a number
        return np.nanmin(cells, axis=1), np.nanmean(cells, axis=1), np.nanmax(cells, axis=1)


def padded(values, rows):
    return np.concatenate([values[:rows], np.full(max(0, rows - len(values)), np.nan)])


def duration_text(seconds):
    factor, unit = time_scale(seconds)
    return f"{seconds * factor:{',.0f' if seconds * factor >= 100 else '.3g'}} {unit}"


def shortened(status):
    """As many of its clauses as a subtitle has room for."""
    if len(status) <= MOST_STATUS:
        return status
    clauses = [part.start() for part in re.finditer(r"[:;,] | \(", status[:MOST_STATUS])]
    end = clauses[-1] if clauses and clauses[-1] > len("interrupted: ") else status.rfind(" ", 0, MOST_STATUS)
    return status[:end if end > 0 else MOST_STATUS] + " …"


def headline(results, path):
    """Title and subtitle: who ran what, and how it ended."""
    settings = configparser.ConfigParser(inline_comment_prefixes=("#",), strict=False, interpolation=None)
    try:
        settings.read_string(results.scenario)
    except configparser.Error:
        pass

    def fact(key):
        return results.facts.get(key) or settings.get(key, "kind", fallback="")

    nodes = f"{results.node_count:,} node{'s' * (results.node_count != 1)}"
    parts = [fact("algorithm"), nodes]
    is_real = results.facts.get("transport") == "mpi"  # whatever network its scenario names
    parts += [f"{fact(key)} {key}" for key in ("topology", "network")[:1 if is_real else 2] if fact(key) not in ("", "not read")]
    parts += ["over MPI"] if is_real else []
    seed = results.facts.get("seed") or settings.get("run", "seed", fallback="")
    parts += [f"seed {seed}"] if seed else []
    status = results.facts.get("status", "complete")
    parts += [status.upper() if len(status) < 20 else shortened(status)] if status != "complete" else []
    outcome = []
    accuracy, loss, area = (results.last(metric) for metric in ("test_accuracy", "test_loss", "test_auc"))
    if 0 < results.diverged_nodes == results.node_count:
        outcome.append("all nodes diverged")
    elif len(accuracy):
        outcome.append(f"test accuracy {accuracy[-1]:.1%}")
    elif len(area):
        outcome.append(f"test AUC {area[-1]:.3f}")
    elif len(loss):
        outcome.append(f"test loss {loss[-1]:.4g}")
    if results.end > 0:
        steps = int(np.median(results.nodes["steps"]))
        clock = "wall time" if results.clock == "time" else results.clock
        outcome.append(f"{steps:,} {'step' if steps == 1 else 'steps'} in {duration_text(results.end)} of {clock}")
        if results.computing() is not None:  # nodes may end long before the last one, so this is no share of that time
            outcome.append(f"nodes compute {results.computing():.0%} of theirs{' up to their last steps' if results.serves() else ''}")
    workload = fact("workload")
    return pathlib.Path(path).stem, " · ".join(part for part in parts + [workload] if part), ", ".join(outcome)


def use_log(values):
    """Whether positive `values` span so much that a linear axis hides them."""
    return len(values) > 1 and values.min() > 0 and values.max() > 20 * values.min()


def draw_line(ax, x, y, color, label=None):
    if len(x):
        ax.plot(x, y, color=color, label=label, marker="o" if len(x) <= 25 else None, markersize=3.2)


def add_legend(axes):
    """Names among the steps what is drawn there or against time: a run may have evaluations by time alone."""
    named = {label: handle for ax in axes.values() for handle, label in zip(*ax.get_legend_handles_labels())}
    if named:
        axes["step"].legend(named.values(), named.keys(), loc="best")


def draw_quality(axes, results, scale, metric, name):
    """A share of one: an accuracy, or an area under a curve."""
    for against, ax in axes.items():
        draw_line(ax, *scaled(results.evaluated(metric, against), against, scale), BLUE)
    values = results.seen(metric)
    axes["time"].set_ylim(max(0.0, values.min() - 0.05), min(1.02, values.max() + 0.05))
    axes["time"].set_ylabel(name)


def draw_accuracy(axes, results, scale):
    draw_quality(axes, results, scale, "test_accuracy", "test accuracy")
    for ax in axes.values():
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))


def draw_auc(axes, results, scale):
    draw_quality(axes, results, scale, "test_auc", "test AUC")


def draw_loss(axes, results, scale):
    seen = [results.seen("test_loss")]
    for against, ax in axes.items():
        train = results.training(against)
        if train is not None:
            x, low, mean, high = train
            x = x * (scale if against == "time" else 1)
            ax.fill_between(x, low, high, color=ORANGE, alpha=0.18, linewidth=0)
            ax.plot(x, mean, color=ORANGE, linewidth=1.0, marker="o" if np.isfinite(mean).sum() == 1 else None, markersize=3.2,
                    label="training, mean and range of nodes")
            seen.append(mean[np.isfinite(mean)])
        else:
            x, y = scaled(results.evaluated("train_loss", against), against, scale)
            draw_line(ax, x, y, ORANGE, "training")
            seen.append(y)
        draw_line(ax, *scaled(results.evaluated("test_loss", against), against, scale), BLUE, "test, mean model")
    if use_log(np.concatenate(seen)):
        set_log(axes["time"])
    axes["time"].set_ylabel("loss")
    add_legend(axes)


def draw_zeros(ax, x, color, label=None):
    """Marks at the foot of a logarithmic axis, which has no place for zeros."""
    if len(x):
        ax.plot(x, np.zeros(len(x)), transform=ax.get_xaxis_transform(), color=color, marker="v", linestyle="none", markersize=5,
                clip_on=False, label=label)


def draw_consensus(axes, results, scale):
    for against, ax in axes.items():
        x, y = scaled(results.evaluated("consensus_distance", against), against, scale)
        draw_line(ax, x, np.where(y > 0, y, np.nan), GREEN)  # no line across rows that the axis has no place for
        draw_zeros(ax, x[y == 0], GREEN, "0")
    add_legend(axes)
    set_log(axes["time"])
    axes["time"].set_ylabel("consensus distance")


def draw_throughput(axes, results, scale):
    time, step, rate, unit = results.throughput()
    for against, ax in axes.items():
        x, y = finite(time * scale if against == "time" else step, rate)
        draw_line(ax, x, y, BLUE)
    axes["time"].set_ylim(0, np.nanmax(np.append(rate, 1e-300)) * 1.12)
    axes["time"].yaxis.set_major_formatter(EngFormatter(sep=""))
    axes["time"].set_ylabel(f"throughput ({unit})")


def draw_lag(axes, results, scale):
    """How far apart in time the nodes finish the same step."""
    first, _, last = results.spread("time")
    lag = last - first
    factor, unit = time_scale(np.nanmax(lag))
    for against, ax in axes.items():
        x, y = finite(results.step_positions(against, len(lag)) * (scale if against == "time" else 1), lag * factor)
        if len(x) > 200:  # too many to see: range and mean of bins
            edges = np.linspace(0, len(x), 101).astype(int)[:-1]
            sizes = np.diff(np.append(edges, len(x)))
            low, high = np.minimum.reduceat(y, edges), np.maximum.reduceat(y, edges)
            x, y = np.add.reduceat(x, edges) / sizes, np.add.reduceat(y, edges) / sizes
            ax.fill_between(x, low, high, color=GREEN, alpha=0.2, linewidth=0, label="range")
        draw_line(ax, x, y, GREEN, "mean")
        ax.set_ylim(0, np.nanmax(lag) * factor * 1.15 or 1.0)
    if np.isfinite(lag).sum() > 200:
        axes["step"].legend(loc="upper right", ncol=2)
    axes["time"].set_ylabel(f"first to last node ({unit})")


def scaled(points, against, scale):
    return (points[0] * scale, points[1]) if against == "time" else points


def convergence_panels(results):
    """Titles and drawing functions of the rows on the left."""
    has = {metric: len(results.seen(metric)) > 0
           for metric in ("test_accuracy", "test_auc", "test_loss", "train_loss", "consensus_distance")}
    panels = []
    if has["test_accuracy"]:
        panels.append(("Test accuracy of the mean model", draw_accuracy, 1.0))
    if has["test_auc"]:
        panels.append(("Test AUC of the mean model", draw_auc, 1.0))
    if has["test_loss"] or has["train_loss"] or results.spread("train_loss") is not None:
        panels.append(("Loss", draw_loss, 1.0))
    if has["consensus_distance"] and (results.seen("consensus_distance") > 0).any():
        panels.append(("Distance of the nodes' models from their mean", draw_consensus, 0.7))
    if not panels:
        if results.throughput() is not None:
            panels.append(("Throughput of all nodes, by time and by their mean step", draw_throughput, 1.0))
        if results.spread("time") is not None and results.node_count > 1:
            panels.append(("Spread of the nodes: time between first and last to finish a step", draw_lag, 0.8))
    return panels


def draw_left(figure, grid, results, panels):
    times = [table["time"][np.isfinite(table["time"])] for table in (results.evaluation, results.steps)
             if "time" in table]
    scale, unit = time_scale(max((values.max(initial=0.0) for values in times), default=0.0))
    rows = grid.subgridspec(len(panels), 2, height_ratios=[panel[2] for panel in panels], hspace=0.3, wspace=0.07)
    top = {}
    for i, (title, draw, _) in enumerate(panels):
        left = figure.add_subplot(rows[i, 0], sharex=top.get("time"))
        right = figure.add_subplot(rows[i, 1], sharex=top.get("step"), sharey=left)
        axes = {"time": left, "step": right}
        top = top or axes
        draw(axes, results, scale)
        left.set_title(title)
        left.yaxis.set_label_coords(-0.16, 0.5)
        right.tick_params(labelleft=False, which="both")
        is_last = i + 1 == len(panels)
        for ax in (left, right):
            ax.tick_params(labelbottom=is_last)
        left.xaxis.set_major_locator(MaxNLocator(6))
        right.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    left.set_xlabel(f"{results.clock} ({unit})")
    right.set_xlabel("finished steps")
    for ax in (left, right):
        ax.update_datalim([(0, 0)], updatey=False)  # a margin for what lies far from 0 and close together
        ax.autoscale_view(scaley=False)
        ax.set_xlim(left=0)
    add_epochs(top["step"], results)


def add_epochs(ax, results):
    """A second axis of epochs above the steps."""
    step, epoch = results.evaluated("epoch", "step")
    if not len(step) or epoch[-1] <= 0:
        return
    per_step = epoch[-1] / step[-1]
    above = ax.secondary_xaxis("top", functions=(lambda x: x * per_step, lambda e: e / per_step))
    above.spines["top"].set_visible(True)
    above.xaxis.set_major_locator(MaxNLocator(6))
    above.set_xlabel("epochs", labelpad=3)


def draw_timeline(ax, results, window):
    """One row per node, one rectangle per stretch of time that touches the window."""
    timeline = results.timeline
    shown = np.arange(0, results.node_count, math.ceil(results.node_count / MOST_NODES))
    row_of = np.full(results.node_count, -1)
    row_of[shown] = np.arange(len(shown))
    begin, end = window
    factor, unit = time_scale(end - begin if begin == 0 else end)
    inside = (timeline["end"] > begin) & (timeline["begin"] < end) & (row_of[timeline["node"]] >= 0)
    height = 0.86 if len(shown) <= 40 else 1.0
    has_edges = len(shown) <= 40 and inside.sum() < 100 * len(shown)  # they tell one gradient from the next
    serves = (timeline["begin"] >= results.nodes["finished"][timeline["node"]]) & results.has_ended()[timeline["node"]]
    kinds = [(name, color, (timeline["activity"] == results.activity_numbers[name]) & ~serves) for name, color in ACTIVITIES.items()]
    for name, color, those in [*kinds, (SERVING, SERVING_COLOR, serves)]:
        mine = inside & those
        left = np.clip(timeline["begin"][mine], begin, end) * factor
        right = np.clip(timeline["end"][mine], begin, end) * factor
        low = row_of[timeline["node"][mine]] - height / 2
        corners = np.stack([np.stack([left, low], 1), np.stack([left, low + height], 1),
                            np.stack([right, low + height], 1), np.stack([right, low], 1)], axis=1)
        ax.add_collection(PolyCollection(corners, facecolors=color, edgecolors="white",
                                         linewidths=0.5 if has_edges and name == "compute" else 0,
                                         antialiaseds=len(shown) <= 40))
    ax.set_xlim(begin * factor, end * factor)
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ticks = MaxNLocator(16, integer=True, min_n_ticks=1).tick_values(0, len(shown) - 1)
    ticks = [int(tick) for tick in ticks if 0 <= tick < len(shown)]
    ax.set_yticks(ticks, [str(shown[tick]) for tick in ticks])
    ax.grid(False)
    ax.set_ylabel(f"node ({len(shown)} of {results.node_count:,})" if len(shown) < results.node_count else "node")
    ax.set_xlabel(f"{results.clock} ({unit})")
    ax.set_title(f"What the nodes did{stretch_in_words(begin, end, results.active_end())}")


def stretch_in_words(begin, end, whole):
    """", first 190 ms of 2.86 s"; nothing if it is all."""
    if begin <= 0 and end >= 0.999 * whole:
        return ""
    factor, _ = time_scale(end)
    return f", {f'{begin * factor:.3g}–' if begin > 0 else 'first '}{duration_text(end)} of {duration_text(whole)}"


def default_window(results):
    """The first steps of the median node, as far as the timeline reaches."""
    last = results.timeline["end"].max()
    steps, finished = results.nodes["steps"], results.nodes["finished"]
    paces = finished[steps > 0] / steps[steps > 0]
    if not len(paces) or np.median(paces) <= 0:
        return 0.0, last
    return 0.0, min(last, STEPS_IN_WINDOW * np.median(paces))


def draw_progress(ax, results):
    """Steps over time of the first, the middle and the last node at each step, from the start on. Nodes that did not get there had not
    when the run ended; where half of them did not, nobody knows the middle one."""
    time = results.steps["time"]
    step = results.steps["step"][:len(time)]
    known = np.isfinite(time).any(axis=1)
    time, step = np.vstack([np.zeros(time.shape[1]), time[known]]), np.concatenate([[0], step[known]])
    factor, unit = time_scale(np.nanmax(time))
    latest = np.where(np.isfinite(time), time, results.end).max(axis=1)
    ax.fill_betweenx(step, np.nanmin(time, axis=1) * factor, latest * factor, color=BLUE, alpha=0.25, linewidth=0, label="all nodes")
    middle = np.median(np.where(np.isfinite(time), time, np.inf), axis=1)
    ax.plot(middle[middle < np.inf] * factor, step[middle < np.inf], color=BLUE, label="median node")
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_locator(whole_numbers())
    ax.set_xlabel(f"{results.clock} ({unit})")
    ax.set_ylabel("finished steps")
    ax.legend(loc="upper left")
    ax.set_title("Progress of the nodes")


def draw_shares(ax, results):
    shares = results.shares()
    count = len(shares)
    if count > MOST_BARS:  # groups of neighbors, their mean
        edges = np.unique(np.linspace(0, count, MOST_BARS + 1).astype(int))
        shares = np.add.reduceat(shares, edges[:-1], axis=0) / np.diff(edges)[:, None]
        left, width = edges[:-1] - 0.5, np.diff(edges)
    else:
        bar = 0.86 if count <= 64 else 1.0
        left, width = np.arange(count) - bar / 2, np.full(count, bar)
    floor = np.zeros(len(shares))
    for i, color in enumerate([*ACTIVITIES.values(), SERVING_COLOR]):
        ax.bar(left, shares[:, i], width, floor, align="edge", color=color, linewidth=0, antialiased=count <= 64)
        floor = floor + shares[:, i]
    ax.set_xlim(-0.6, count - 0.4)
    ax.set_ylim(0, 1)
    ax.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.grid(False)
    ax.set_xlabel("node")
    ax.set_ylabel("share of time")
    ax.set_title("How the nodes spent the whole run")


def draw_right(figure, grid, results, window):
    """Timeline (or progress) above, shares below; what is missing leaves its place to the other."""
    panels = []
    if len(results.timeline["node"]):
        last = results.timeline["end"].max()
        panels.append(lambda ax: draw_timeline(ax, results, (window[0], min(window[1], last)) if window else default_window(results)))
    elif results.spread("time") is not None:
        panels.append(lambda ax: draw_progress(ax, results))
    has_activities = results.shares() is not None and results.shares().any()
    if has_activities:
        panels.append(lambda ax: draw_shares(ax, results))
    if not panels:
        return
    rows = grid.subgridspec(len(panels), 1, height_ratios=[2.1, 1.0][:len(panels)], hspace=0.32)
    axes = [figure.add_subplot(rows[i]) for i in range(len(panels))]
    for ax, draw in zip(axes, panels):
        draw(ax)
    activities = [Patch(color=color, label=name) for name, color in ACTIVITIES.items()]
    others = [Patch(color=SERVING_COLOR, label=SERVING)] if results.serves() else []
    if results.white():
        others.append(Patch(facecolor="white", edgecolor="#BBBBBB", label=results.white()))
    if len(results.timeline["node"]):
        add_key(axes[0], activities)
    if has_activities:
        add_key(axes[-1], others if len(results.timeline["node"]) else activities + others)


def add_key(ax, handles):
    """What the colors stand for, to the right of the title; in two lines where one has no room."""
    lines = 1 if sum(len(handle.get_label()) + 4 for handle in handles) <= LETTERS_BESIDE_TITLE else 2
    if handles:
        ax.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncol=math.ceil(len(handles) / lines),
                  borderaxespad=0.2, handlelength=1.0, handletextpad=0.5, columnspacing=1.0)


def check_window(results, window):
    """Refuses a stretch of time of which nothing was kept."""
    kept = min(results.timeline_until, results.timeline["end"].max(initial=0))
    if window and not window[0] < kept:
        ends = f"the node timeline ends at {kept:g} s" if kept > 0 else "no node timeline was kept"
        raise Failure(f"{ends} (run.timeline), --window begins at {window[0]:g} s")


def draw(results, path, window):
    """The whole picture."""
    check_window(results, window)
    panels = convergence_panels(results)
    has_right = (len(results.timeline["node"]) > 0 or results.spread("time") is not None or
                 results.shares() is not None)
    if not panels and not has_right:
        raise Failure("nothing to draw: the run recorded no metric and no time")
    columns = [1.15 if panels else 0, 1.0 if has_right else 0]
    figure = plt.figure(figsize=(15 if all(columns) else 9, 8.4))
    grid = figure.add_gridspec(1, sum(1 for c in columns if c), width_ratios=[c for c in columns if c], wspace=0.13,
                               left=0.055 if all(columns) else 0.09, right=0.985, top=0.845, bottom=0.075)
    cells = iter(range(2))
    if panels:
        draw_left(figure, grid[next(cells)], results, panels)
    if has_right:
        draw_right(figure, grid[next(cells)], results, window)
    title, subtitle, outcome = headline(results, path)
    left = 0.055 if all(columns) else 0.09
    end = figure.text(0.985, 0.962, outcome, fontsize=10.5, va="center", ha="right")
    write(figure, left, 0.962, title, end.get_window_extent().x0 / figure.bbox.width - 0.015, fontsize=16, fontweight="bold", va="center")
    write(figure, left, 0.925, subtitle, 0.985, fontsize=9.5, color=GREY, va="center")
    return figure
