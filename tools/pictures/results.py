"""Results files (docs/results_format.md), opened with the same words about wrong ones as `starling` has, and what pictures of a run
need of them."""
import contextlib
import warnings

import h5py
import numpy as np

from pictures.style import Failure, finite, text

FORMAT_VERSION = 1
MOST_INSTANTS = 100      # of progress
ACTIVITIES = ("compute", "communicate", "wait")  # columns of nodes, in seconds


@contextlib.contextmanager
def opened(path):
    """The file, open to be read. Failure names it, also where what is read from it is not there."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise Failure(f"{path}: expected a results file, found a device or pipe")
        with open(path, "rb") as file:
            if file.read(8) != b"\x89HDF\r\n\x1a\n":
                raise Failure(f"{path}: expected a results file, found something that is not HDF5")
    except OSError as error:
        raise Failure(f"{path}: cannot read: {error.strerror}") from error
    try:
        with h5py.File(path, "r") as file:
            if text(file.attrs.get("format", "")) != "starling results":
                raise Failure(f"{path}: expected a results file of Starling, found another HDF5 file")
            version = int(file.attrs["format_version"])
            if version > FORMAT_VERSION:
                raise Failure(f"{path}: written in format {version}, this program reads up to format {FORMAT_VERSION}")
            yield file
    except (OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise Failure(f"{path}: damaged or cut short: {str(error).splitlines()[0]}") from error


def columns_of(table):
    """{name: values} of a table of the file."""
    return {name: values[()] for name, values in table.items()}


def choose_evaluations(by_step, by_time, against):
    """Which table has the curve over `against`: over time and bytes the one by time, unless it has but its end."""
    return by_time if against in ("time", "bytes_sent") and len(by_time.get("time", ())) > 1 else by_step


def forward(times):
    """When rows were ended, as an axis takes them. Those of later steps, which only nodes that had not stopped ended, may lie before."""
    return np.where(np.isfinite(times), np.fmax.accumulate(times), np.nan)


def end_of_run(file):
    """Seconds after which the last node ended its last step, or `run.until` came; as in tools/summary.cpp."""
    ends = [file["nodes/finished"][()]]
    if "ended" in file["facts"].attrs and "evaluation_by_time/time" in file:
        ends.append(file["evaluation_by_time/time"][()])
    return max(float(np.nanmax(times, initial=0.0)) for times in ends)


def is_told(nodes):
    """Whether anything is known of what a node did, by its totals: of those of a lost rank perhaps nothing is."""
    return (sum(nodes[name] for name in ACTIVITIES) > 0) | (nodes["steps"] > 0)


class Results:
    """What pictures of a run need of its results file. Cells that were not recorded are NaN."""

    def __init__(self, path):
        with opened(path) as file:
            self.facts = {key: text(value) for key, value in file["facts"].attrs.items()}
            self.scenario = text(file["scenario"][()]) if "scenario" in file else ""
            self.steps = columns_of(file["steps"])
            self.evaluation = columns_of(file["evaluation"])
            self.by_time = columns_of(file.get("evaluation_by_time", {}))
            self.nodes = columns_of(file["nodes"])
            self.planned_steps = int(file["evaluation"].attrs["steps"])
            self.end = end_of_run(file)
            timeline = file["timeline"]
            names = h5py.check_enum_dtype(timeline["activity"].dtype)
            self.activity_numbers = {text(name): number for name, number in names.items()}
            self.timeline = {name: timeline[name][()] for name in ("node", "activity")}
            for name in ("begin", "end"):
                self.timeline[name] = timeline[name][()] / 1e12
            self.timeline_until = int(timeline.attrs["until"]) / 1e12
            self.links = columns_of(file.get("links", {}))
            self.link_timeline = columns_of(file.get("link_timeline", {}))
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

    def has_timeline(self):
        return len(self.timeline["node"]) > 0

    def accounted(self):
        """What each node spent in any activity."""
        return sum(self.nodes[name] for name in ACTIVITIES)

    def active_end(self):
        """Seconds after which the last node had served others, too; as Recorder::active_seconds() in sim/record."""
        return max(self.end, self.accounted().max())

    def is_told(self):
        return is_told(self.nodes)

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
