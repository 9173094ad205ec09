"""One outcome of a sweep against another: what the one costs of the other."""
import numpy as np

from pictures.metrics import title_of
from pictures.sweep_axes import MOST_LABELS, add_legend, bars_of, scale, series_of, spaced, write_note


def trade(ax, sweep, outcome, other, key, series_key, fixed):
    """A mark per combination of values, in the look of its value of `series_key` and with that of `key` beside it; bars for one
    standard deviation over seeds. Combinations of which either outcome is not known have none."""
    texts = sweep.values(key)
    shown = set(spaced(len(texts), MOST_LABELS))
    all_x, all_y = [], []
    unknown = {outcome: 0, other: 0}
    for settings, label, look, _ in series_of(sweep, series_key, fixed):
        points = [{**settings, key: text} for text in texts]
        across, up = ([sweep.cell(one, point) for point in points] for one in (other, outcome))
        x, y = np.array([[mean for mean, _ in cells] for cells in (across, up)])
        is_known = np.isfinite(x) & np.isfinite(y)
        unknown[other] += np.count_nonzero(np.isfinite(y) & ~is_known)
        unknown[outcome] += np.count_nonzero(np.isfinite(x) & ~is_known)
        x[~is_known] = y[~is_known] = np.nan  # an axis reaches to what has a mark
        ax.errorbar(x, y, bars_of(outcome, up), bars_of(other, across), capsize=2.5, markersize=5.5, linestyle="none", label=label, **look)
        for place in np.flatnonzero(is_known):
            if place in shown:
                note = sweep.note(outcome, points[place]) or sweep.note(other, points[place])
                write_note(ax, (x[place], y[place]), sweep.label(key, texts[place]) + (f" ({note})" if note else ""))
        all_x += [*x]
        all_y += [*y]
    ax.margins(0.1)  # room for what is written beside the last mark
    scale(ax, "x", other, all_x)
    scale(ax, "y", outcome, all_y)
    for one, write in ((other, ax.set_xlabel), (outcome, ax.set_title)):
        count = unknown[one]
        write(title_of(one) + (f"; not known of {count} combination{'s' * (count > 1)}" if count else ""))
    add_legend(ax, sweep, series_key)
