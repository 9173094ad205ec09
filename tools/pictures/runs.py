"""Runs to be drawn over each other: their tables of evaluations, curves, and when they got to a target; and how they are called.
Results files, or CSV files of runs by anybody's code (columns: tools/reference_run.hpp)."""
import pathlib

import h5py
import numpy as np

from pictures.metrics import HIGHER_IS_BETTER
from pictures.reference import read_reference
from pictures.results import Results, choose_evaluations, columns_of, end_of_run, is_told, opened
from pictures.style import Failure, finite, literal, text

AT_MOST = "≤"            # before a time that is a bound


def is_reference(path):
    """Whether a file holds a table, rather than results; by its name, if it is not there or called as results are (as `starling compare`)."""
    if path.suffix == ".h5" or not path.is_file():
        return path.suffix == ".csv"
    return not h5py.is_hdf5(path)


class Run:
    """Name, evaluation table, curves of training losses (none until they are asked for) and time per step of a run."""

    def __init__(self, path, name=""):
        self.path = path
        self.name = name or pathlib.Path(path).stem
        self.is_reference = is_reference(pathlib.Path(path))
        self.columns = read_reference(path) if self.is_reference else read_results(path)
        self.by_time = self.columns.pop("by_time", {})
        self.step_time = self.columns.pop("step_time", np.nan)
        self.unread = self.columns.pop("unread", [])
        self.status = self.columns.pop("status", "complete")
        self.training = {}  # by axis
        self.progress = None  # steps against time, if asked for

    @property
    def label(self):
        """For a legend."""
        return literal(self.name) + (", not complete" if self.status != "complete" else "")

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
        """The mean over nodes; samples and epochs of its steps by those of the evaluations before and after. Of a reference its columns have it."""
        if self.is_reference:
            return
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
        columns = {name: values.astype(float) for name, values in columns_of(file["evaluation"]).items()}
        columns["by_time"] = columns_of(file.get("evaluation_by_time", {}))
        columns["status"] = text(file["facts"].attrs.get("status", "complete"))
        nodes, end = columns_of(file["nodes"]), end_of_run(file)
    steps = nodes["steps"]
    if steps.sum() > 0 and end > 0:
        told = len(steps) if columns["status"] == "complete" else is_told(nodes).sum()
        columns["step_time"] = float(end * told / steps.sum())
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


def count_epochs(runs):
    """Of runs by other code, which tell samples at most: as many samples to an epoch as in the first run of ours that tells both."""
    for run in runs:
        samples, epochs = run.curve("epoch", "samples")
        if len(samples) and epochs[-1] > 0:
            for other in runs:
                if other.is_reference:
                    other.columns["epoch"] = other.columns["samples"] * epochs[-1] / samples[-1]
            return


def names_of(paths):
    """The files' names without ending; with their folders, as far up as they need to differ."""
    parts = [[*pathlib.Path(path).absolute().parts[1:-1], pathlib.Path(path).stem] for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-depth:]) for each in parts]
        if len(set(names)) == len(names):
            break
    return told_apart(names)


def told_apart(names):
    """Points of one sweep are called by the settings in which they differ, others as they are."""
    parts = [settings_of(name) for name in names]
    if len(names) < 2 or any([part.partition("=")[0] for part in each] != [part.partition("=")[0] for part in parts[0]] for each in parts):
        return names
    differing = [i for i in range(len(parts[0])) if len({each[i] for each in parts}) > 1]
    return [",".join(each[i] for i in differing) for each in parts] if differing else names


def settings_of(name):
    """["nodes=4", "kind=ring"] of a point of a sweep, which is called by its settings."""
    parts = name.split(",")
    return parts if all("=" in part for part in parts) else []
