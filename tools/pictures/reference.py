"""A run by anybody's code as a CSV file, by the rules of tools/reference_run.hpp, which `starling compare` follows."""
import math

import numpy as np

from pictures.csv_file import cells_of, check_count, check_share, lines_of, number
from pictures.metrics import UP_TO_1
from pictures.style import Failure

COLUMNS = ("step", "time_seconds", "bytes_sent", "train_loss", "test_loss", *UP_TO_1)  # that are read


def read_comment(line, place, facts):
    key, equals, value = (word.strip() for word in line.removeprefix("#").partition("="))
    if not equals or key not in facts:
        return
    facts[key] = number(value, key, place)
    if not 1 <= facts[key] <= 1e7 or facts[key] % 1:
        raise Failure(f"{place}: {key} must be a whole number from 1 to 1e7")


def read_names(cells, line, place):
    if "step" not in cells:
        raise Failure(f"{place}: expected names of columns with commas between them, one of them step, got {line}")
    for i, name in enumerate(cells):
        if name in COLUMNS and name in cells[:i]:
            raise Failure(f"{place}: two columns are called {name}")
    return cells


def read_row(names, cells, before, place):
    """The row as a dictionary; `before` has the last step and the last time that was told."""
    check_count(cells, names, place)
    row = {name: number(cell, name, place) for name, cell in zip(names, cells) if name in COLUMNS}
    for name in UP_TO_1:
        if name in row:
            check_share(row[name], name, cells[names.index(name)], place)
    if not before["step"] < row["step"] <= 1e12 or row["step"] % 1:
        raise Failure(f"{place}: step must be a whole number that grows, from 1 on, got {cells[names.index('step')]}")
    before["step"] = row["step"]
    time = row.get("time_seconds", math.nan)
    if time < before["time"]:
        raise Failure(f"{place}: time_seconds must not fall, got {time:g} after {before['time']:g}")
    before["time"] = before["time"] if math.isnan(time) else time
    return row


def read_reference(path):
    """Columns of the evaluation table: time and step, samples where nodes and samples per step are told; the time per step; and the
    names of columns that are not read."""
    facts = {"nodes": math.nan, "samples_per_step": math.nan}
    names, rows, before = None, [], {"step": 0, "time": 0}
    for place, line in lines_of(path):
        if line.startswith("#"):
            read_comment(line, place, facts)
        elif names is None:
            names = read_names(cells_of(line), line, place)
        else:
            rows.append(read_row(names, cells_of(line), before, place))
    if not rows:
        raise Failure(f"{path}: holds no rows")
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    columns["unread"] = [name for name in names if name and name not in COLUMNS]
    columns["samples"] = columns["step"] * facts["nodes"] * facts["samples_per_step"]  # not known unless both are told
    if "time_seconds" in columns:
        columns["time"] = columns.pop("time_seconds")
        timed = np.flatnonzero(np.isfinite(columns["time"]))
        if len(timed) and columns["time"][timed[-1]] > 0:
            columns["step_time"] = columns["time"][timed[-1]] / columns["step"][timed[-1]]
    return columns
