"""What others measured at some points of a sweep, as a CSV file with columns of the sweep's table: swept keys and outcomes."""
import math

from pictures.csv_file import cells_of, check_count, check_share, lines_of, number
from pictures.metrics import SHARES
from pictures.style import Failure, rank


class Published:
    """The rows of such a file; those that name not all swept keys tell of all values of the others. Raises Failure, with file and line."""

    def __init__(self, path, sweep):
        self.sweep = sweep
        self.columns, self.rows = [], []
        for place, line in lines_of(path):
            if line.startswith("#"):
                continue
            if self.columns:
                self.rows.append(self.read_row(cells_of(line), place))
            else:
                self.columns = self.read_names(cells_of(line), place)
        if not self.rows:
            raise Failure(f"{path}: holds no rows")
        self.keys = [name for name in self.columns if name in sweep.all_keys]
        self.outcomes = [name for name in self.columns if name not in self.keys]

    def read_names(self, cells, place):
        keys = self.sweep.all_keys
        outcomes = [name for name in self.sweep.outcomes if self.sweep.knows(name)]
        strange = [name for name in cells if name not in [*keys, *outcomes]]
        if strange or not set(cells) & set(keys) or not set(cells) & set(outcomes):
            raise Failure(f"{place}: expected names of columns: of swept keys ({', '.join(keys)}) and of outcomes ({', '.join(outcomes)}), "
                          f"got {', '.join(strange or cells)}")
        return cells

    def read_row(self, cells, place):
        check_count(cells, self.columns, place)
        row = dict(zip(self.columns, cells))
        for outcome in set(self.columns).difference(self.sweep.all_keys):
            value = number(row[outcome], outcome, place)
            if outcome in SHARES:
                check_share(value, outcome, row[outcome], place)
            row[outcome] = value
        return row

    def fits(self, row, point):
        """Whether a row tells of a row of the sweep's table: "0.1 s" is 100 ms."""
        return all(row[key] == point[key] or rank(row[key]) == rank(point[key]) is not None for key in self.keys)

    def cell(self, outcome, settings):
        """What was published of the point with these settings; NaN if nothing was."""
        point = self.sweep.row(outcome, settings) if outcome in self.outcomes else None
        return next((row[outcome] for row in self.rows if point and self.fits(row, point) and not math.isnan(row[outcome])), math.nan)

    def deviations(self):
        """Lines that say how far the sweep is from each value: relative to it, of shares in points."""
        lines = []
        for row in self.rows:
            for outcome in (outcome for outcome in self.outcomes if not math.isnan(row[outcome])):
                points = [point for point in self.sweep.table if self.fits(row, point) and point[outcome]]
                lines += [f"{self.named(row, point)}: {outcome} {float(point[outcome]):.4g}, published {row[outcome]:.4g}, "
                          f"{apart(outcome, float(point[outcome]), row[outcome])}" for point in points]
                if not points:
                    lines.append(f"{self.named(row, row)}: {outcome} published {row[outcome]:.4g}, of no finished point")
        return lines

    def named(self, row, point):
        """"run.nodes = 4, algorithm.tau = 10": the keys of the row, and the others that tell points apart."""
        others = [key for key in self.sweep.all_keys if key in point and key not in self.keys and len(self.sweep.values(key)) > 1]
        return ", ".join([*(f"{key} = {row[key]}" for key in self.keys), *(f"{key} = {point[key]}" for key in others)])


def apart(outcome, here, there):
    if outcome in SHARES:
        return f"{100 * (here - there):+.2f} points"
    return f"{100 * (here / there - 1):+.1f} %" if there else f"{here - there:+.3g}"
