"""A metric of a sweep over its runs: the curves behind the outcomes."""
import textwrap

import numpy as np

from pictures.metrics import AXES, title_of
from pictures.results import choose_evaluations, forward, opened
from pictures.style import add_note, byte_scale, cut, positive, short, wants_log, whole_numbers
from pictures.sweep_axes import add_legend, bars_of, scale, series_of, write_inside
from pictures.sweep_tables import BEST

LONGEST_TITLE = 64       # characters of a line above a panel, bold


def curves(ax, sweep, metric, against, key, fixed, held):
    """Mean over seeds with a band of one standard deviation, a curve per value of `key`. `held` keys have these values in this panel
    alone."""
    missing = []
    for settings, label, look, dashes in series_of(sweep, key, {**fixed, **held}):
        chosen = sweep.chosen(settings)
        x, seeds = read_curve(sweep, chosen, metric, against)
        if not len(x):
            missing.append(label)
            continue
        y = seeds.mean(axis=0)
        if metric == "consensus_distance":
            y = positive(y)
        elif len(seeds) > 1 and len(x) > 1:
            down, up = bars_of(metric, np.stack([y, seeds.std(axis=0, ddof=1)], axis=1)) or (0, 0)
            ax.fill_between(x, y - down, y + up, color=look["color"], alpha=0.15, linewidth=0)
        tuned = [sweep.setting(name, chosen[name]) for name in settings if settings[name] is BEST]
        ax.plot(x, y, color=look["color"], linestyle=dashes, marker=look["marker"] if len(x) == 1 else None,
                label=", ".join(filter(None, [label, *tuned, sweep.few(settings)])) or None)
    known = [y for line in ax.lines for y in line.get_ydata() if np.isfinite(y)]
    if not known:
        write_inside(ax, "no run came as far as an evaluation (run.evaluate_every)")
    elif missing:
        add_note(ax, cut(f"no finished run with an evaluation: {', '.join(missing)}", LONGEST_TITLE))
    scale(ax, "y", metric, known)
    scale_along(ax, against)
    ax.set_title("\n".join(textwrap.wrap(", ".join([title_of(metric), *(sweep.setting(k, v) for k, v in held.items())]), LONGEST_TITLE)))
    add_legend(ax, sweep, key)


def read_curve(sweep, settings, metric, against):
    """The mean x, and (runs, x) the metric, of the runs with these settings, as far as all of them came."""
    found = []
    for point in sweep.runs(settings):
        with opened(sweep.file_of(point)) as file:
            table = choose_evaluations(file["evaluation"], file.get("evaluation_by_time", {}), against)
            if metric in table and against in table:
                found.append((table[against][()], table[metric][()]))
    rows = min((len(y) for _, y in found), default=0)
    if rows == 0:
        return np.empty(0), np.empty((0, 0))
    x = np.mean([forward(x[:rows]) if against == "time" else x[:rows] for x, _ in found], axis=0)
    return x, np.array([y[:rows] for _, y in found])


def scale_along(ax, against):
    """The x axis of curves that are drawn."""
    ends = [line.get_xdata()[-1] for line in ax.lines]
    label = "virtual time (s)" if against == "time" else AXES[against]
    if wants_log(against, ends):
        ax.set_xscale("log")
    elif against == "step":
        ax.xaxis.set_major_locator(whole_numbers())
    if against == "bytes_sent":
        factor, unit = byte_scale(max(ends, default=0))
        ax.xaxis.set_major_formatter(lambda value, _: short(value * factor))
        label += f" ({unit})"
    ax.set_xlabel(label)
