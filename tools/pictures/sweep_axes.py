"""What panels of a sweep have in common: which values are drawn and in which look, bars for deviations, axes of outcomes, legends."""
import numpy as np
from matplotlib.ticker import EngFormatter, PercentFormatter

from pictures.metrics import SHARES
from pictures.style import DASHES, GREY, MARKERS, SERIES, set_log, spans_decades

MOST_LABELS = 16         # values named along an axis
LEAST_SHARES = 0.02      # of an axis: a test sample more is no mountain


def spaced(count, most):
    """At most `most` of the positions 0 .. count - 1, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def some_values(sweep, key):
    """As many values of a swept key as can be told apart by color, the first and the last among them; [None] for no key."""
    values = sweep.values(key) if key else [None]
    return [values[i] for i in spaced(len(values), len(SERIES))]


def series_of(sweep, key, fixed):
    """(settings, label, look, dashes) of what is drawn for each of some_values(): `fixed` settings and that value."""
    for value, color, marker, dashes in zip(some_values(sweep, key), SERIES, MARKERS, DASHES):
        yield {**fixed, key: value} if key else fixed, sweep.label(key, value), {"color": color, "marker": marker}, dashes


def bars_of(outcome, cells):
    """How far the bars of cells (mean, deviation) reach down and up: not beyond what a share can be. None if there are none, as
    for the share of runs that got to a target, which is a count."""
    means, deviations = np.transpose(np.asarray(cells, dtype=float))
    if outcome == "target_reached" or not np.isfinite(deviations).any():
        return None
    if outcome not in SHARES:
        return [deviations, deviations]
    return [np.minimum(deviations, np.maximum(means, 0)), np.minimum(deviations, np.maximum(1 - means, 0))]


class ShareFormatter(PercentFormatter):
    """Percent, of what a share can be: axes with room for bars of errors and for a legend go beyond."""

    def __call__(self, share, place=None):
        return super().__call__(share, place) if -1e-9 < share < 1 + 1e-9 else ""


def write_units(axis, outcome):
    """Has the numbers along an axis written in percent, or with a unit of bytes, if they are such."""
    if outcome in SHARES:
        axis.set_major_formatter(ShareFormatter(1.0))
    elif "bytes" in outcome:
        axis.set_major_formatter(EngFormatter(unit="B"))


def scale(ax, letter, outcome, values):
    """Gives the x or the y axis the look of an outcome that has these values, some of them perhaps unknown."""
    known = [value for value in values if np.isfinite(value)]
    axis = getattr(ax, f"{letter}axis")
    if outcome in SHARES:
        low, high = axis.get_view_interval()
        if high - low < LEAST_SHARES:
            low = max((low + high - LEAST_SHARES) / 2, -LEAST_SHARES / 20)
            getattr(ax, f"set_{letter}lim")(low, low + LEAST_SHARES)
    elif spans_decades(known) or (outcome == "consensus_distance" and known and min(known) > 0):  # of equal models it is rounding alone
        set_log(ax, letter)
    write_units(axis, outcome)


def name_places(set_ticks, names):
    """Names the places 0, 1, .. along an axis; of too many every second one, or third .., as a ruler does."""
    shown = range(0, len(names), -(-len(names) // MOST_LABELS))
    set_ticks(shown, [names[i] for i in shown])


def write_note(ax, place, words):
    """Words beside a mark."""
    ax.annotate(words, place, (4, 4), textcoords="offset points", fontsize=8, color=GREY)


def write_inside(ax, words):
    """Words in the middle of a panel that has nothing else."""
    ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", color=GREY)


def add_legend(ax, sweep, key):
    """Names the series of a panel, and says if they are not all."""
    handles, labels = ax.get_legend_handles_labels()
    if not handles:
        return
    title = None
    if key:
        shown, count = len(some_values(sweep, key)), len(sweep.values(key))
        title = sweep.name_of(key) + (f", {shown} of {count}" if shown < count else "")
    ax.legend(handles, labels, title=title, ncols=2 if len(handles) > 4 else 1)
