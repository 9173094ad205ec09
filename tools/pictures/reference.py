"""A run by anybody's code as a CSV file, by the rules of tools/reference_run.hpp, which `starling compare` follows."""
import csv
import math

import numpy as np

from pictures.style import Failure


SHARES = ("test_accuracy", "test_auc")
COLUMNS = ("step", "time_seconds", "bytes_sent", "train_loss", "test_loss", *SHARES)


def is_read(column):
    return column in COLUMNS


def number(text, name, place):
    """NaN where nothing is told."""
    try:
        value = float(text or "nan")
    except ValueError:
        value = math.inf
    if math.isinf(value) or (text and math.isnan(value)):
        raise Failure(f"{place}: {name} must be a number, got {text}")
    return value


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
        if is_read(name) and name in cells[:i]:
            raise Failure(f"{place}: two columns are called {name}")
    return cells


def read_row(names, cells, before, place):
    """The row as a dictionary; `before` has the last step and the last time that was told."""
    if len(cells) != len(names):
        raise Failure(f"{place}: expected {len(names)} cells, got {len(cells)}")
    row = {name: number(cell, name, place) for name, cell in zip(names, cells) if is_read(name)}
    for name in SHARES:
        if row.get(name, 0) < 0 or row.get(name, 0) > 1:
            raise Failure(f"{place}: {name} must be a share from 0 to 1, not in percent, got {cells[names.index(name)]}")
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
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = file.read().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: cannot read: {getattr(error, 'strerror', None) or 'expected UTF-8, found other bytes'}") from error
    for i, line in enumerate(map(str.strip, lines), 1):
        place = f"{path}:{i}"
        if line.startswith("#"):
            read_comment(line, place, facts)
        elif line:
            cells = [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True))]
            if names is None:
                names = read_names(cells, line, place)
            else:
                rows.append(read_row(names, cells, before, place))
    if not rows:
        raise Failure(f"{path}: holds no rows")
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    columns["unread"] = [name for name in names if name and not is_read(name)]
    columns["samples"] = columns["step"] * facts["nodes"] * facts["samples_per_step"]  # not known unless both are told
    if "time_seconds" in columns:
        columns["time"] = columns.pop("time_seconds")
        timed = np.flatnonzero(np.isfinite(columns["time"]))
        if len(timed) and columns["time"][timed[-1]] > 0:
            columns["step_time"] = columns["time"][timed[-1]] / columns["step"][timed[-1]]
    return columns
