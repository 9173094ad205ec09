"""What others measured at some points of a sweep, as a CSV file with columns of the sweep's table: swept keys and outcomes."""
import csv
import math

from pictures.reference import number
from pictures.style import Failure, rank
from pictures.sweep import SHARES


class Published:
    """The rows of such a file; those that name not all swept keys tell of all values of the others. Raises Failure, with file and line."""

    def __init__(self, path, sweep):
        self.sweep = sweep
        self.columns, self.rows = [], []
        for place, cells in cells_of(path):
            if self.columns:
                self.rows.append(self.read_row(cells, place))
            else:
                self.columns = self.read_names(cells, place)
        if not self.rows:
            raise Failure(f"{path}: holds no rows")
        self.keys = [name for name in self.columns if name in sweep.all_keys]
        self.metrics = [name for name in self.columns if name not in self.keys]

    def read_names(self, cells, place):
        keys = self.sweep.all_keys
        outcomes = [name for name in self.sweep.outcomes if self.sweep.knows(name)]
        strange = [name for name in cells if name not in [*keys, *outcomes]]
        if strange or not set(cells) & set(keys) or not set(cells) & set(outcomes):
            raise Failure(f"{place}: expected names of columns: of swept keys ({', '.join(keys)}) and of outcomes ({', '.join(outcomes)}), "
                          f"got {', '.join(strange or cells)}")
        return cells

    def read_row(self, cells, place):
        if len(cells) != len(self.columns):
            raise Failure(f"{place}: expected {len(self.columns)} cells, got {len(cells)}")
        row = dict(zip(self.columns, cells))
        for metric in set(self.columns).difference(self.sweep.all_keys):
            value = number(row[metric], metric, place)
            if metric in SHARES and (value < 0 or value > 1):
                raise Failure(f"{place}: {metric} must be a share from 0 to 1, not in percent, got {row[metric]}")
            row[metric] = value
        return row

    def fits(self, row, point):
        """Whether a row tells of a row of the sweep's table: "0.1 s" is 100 ms."""
        return all(row[key] == point[key] or rank(row[key]) == rank(point[key]) is not None for key in self.keys)

    def cell(self, metric, settings):
        """What was published of the point with these settings; NaN if nothing was."""
        point = self.sweep.row(metric, settings) if metric in self.metrics else None
        return next((row[metric] for row in self.rows if point and self.fits(row, point) and not math.isnan(row[metric])), math.nan)

    def deviations(self):
        """Lines that say how far the sweep is from each value: relative to it, of shares in points."""
        lines = []
        for row in self.rows:
            for metric in (metric for metric in self.metrics if not math.isnan(row[metric])):
                points = [point for point in self.sweep.table if self.fits(row, point) and point[metric]]
                lines += [f"{self.named(row, point)}: {metric} {float(point[metric]):.4g}, published {row[metric]:.4g}, "
                          f"{apart(metric, float(point[metric]), row[metric])}" for point in points]
                if not points:
                    lines.append(f"{self.named(row, row)}: {metric} published {row[metric]:.4g}, of no finished point")
        return lines

    def named(self, row, point):
        """"run.nodes = 4, algorithm.tau = 10": the keys of the row, and the others that tell points apart."""
        others = [key for key in self.sweep.all_keys if key in point and key not in self.keys and len(self.sweep.values(key)) > 1]
        return ", ".join([*(f"{key} = {row[key]}" for key in self.keys), *(f"{key} = {point[key]}" for key in others)])


def apart(metric, here, there):
    if metric in SHARES:
        return f"{100 * (here - there):+.2f} points"
    return f"{100 * (here / there - 1):+.1f} %" if there else f"{here - there:+.3g}"


def cells_of(path):
    """(place, cells) of the lines that are not empty and no comments."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = file.read().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: cannot read: {getattr(error, 'strerror', None) or 'expected UTF-8, found other bytes'}") from error
    return [(f"{path}:{i}", [cell.strip() for cell in next(csv.reader([line.strip()], skipinitialspace=True))])
            for i, line in enumerate(lines, 1) if line.strip() and not line.strip().startswith("#")]
