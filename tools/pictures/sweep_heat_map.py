"""An outcome of a sweep over two swept keys, in colors."""
import numpy as np
from matplotlib.colors import LogNorm

from pictures.metrics import SHARES, digits_that_tell, title_of, write_outcome
from pictures.style import spans_decades
from pictures.sweep_axes import name_places, write_units

MOST_CELLS = 14          # side by side that have room for a number; twice as many above each other


def heat_map(ax, sweep, outcome, x_key, y_key, fixed):
    """One cell per pair of values; white where no point is finished."""
    xs, ys = sweep.values(x_key), sweep.values(y_key)
    cells = np.array([[sweep.cell(outcome, {**fixed, x_key: x, y_key: y})[0] for x in xs] for y in ys])
    known = cells[np.isfinite(cells)]
    is_log = outcome not in SHARES and spans_decades(known)
    image = ax.imshow(cells, origin="lower", aspect="auto", cmap="cividis", norm=LogNorm() if is_log else None)
    middle = (np.sqrt(known.min() * known.max()) if is_log else (known.min() + known.max()) / 2) if len(known) else 0
    has_room = len(xs) <= MOST_CELLS and len(ys) <= 2 * MOST_CELLS
    has_lines = len(ys) <= MOST_CELLS  # two, in a cell
    digits = digits_that_tell(outcome, known)
    for row, column in np.argwhere(np.isfinite(cells)) if has_room else ():
        value = cells[row, column]
        note = sweep.note(outcome, {**fixed, x_key: xs[column], y_key: ys[row]}) if has_lines else ""
        ax.text(column, row, "\n".join(filter(None, [write_outcome(outcome, value, digits), note])), ha="center", va="center", fontsize=8,
                color="white" if value < middle else "black")
    for key, texts, set_ticks in ((x_key, xs, ax.set_xticks), (y_key, ys, ax.set_yticks)):
        name_places(set_ticks, [sweep.label(key, text) for text in texts])
    ax.set_xlabel(sweep.name_of(x_key))
    ax.set_ylabel(sweep.name_of(y_key))
    ax.grid(False)
    ax.set_title(title_of(outcome) + (" (%)" if outcome in SHARES else ""))
    bar = ax.figure.colorbar(image, ax=ax, pad=0.015)
    bar.outline.set_visible(False)
    write_units(bar.ax.yaxis, outcome)
