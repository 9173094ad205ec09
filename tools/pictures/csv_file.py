"""CSV files as people write them, with comments and empty lines: what is wrong in one is told with file and line."""
import csv
import math

from pictures.style import Failure


def lines_of(path):
    """(place, line) of the lines that are not empty, without the spaces around them."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = file.read().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: cannot read: {getattr(error, 'strerror', None) or 'expected UTF-8, found other bytes'}") from error
    return [(f"{path}:{i}", line) for i, line in enumerate(map(str.strip, lines), 1) if line]


def cells_of(line):
    return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True))]


def check_count(cells, names, place):
    if len(cells) != len(names):
        raise Failure(f"{place}: expected {len(names)} cells, got {len(cells)}")


def number(text, name, place):
    """NaN where nothing is told."""
    try:
        value = float(text or "nan")
    except ValueError:
        value = math.inf
    if math.isinf(value) or (text and math.isnan(value)):
        raise Failure(f"{place}: {name} must be a number, got {text}")
    return value


def check_share(value, name, text, place):
    if value < 0 or value > 1:
        raise Failure(f"{place}: {name} must be a share from 0 to 1, not in percent, got {text}")
