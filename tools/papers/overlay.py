"""Pictures of published against simulated values: hollow what the paper measured, filled what the simulation gives."""
import dataclasses
import math

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.lines import Line2D

from pictures.style import BLUE, DASHES, GREY, MARKERS, ORANGE, SERIES, STYLE, save, set_log, short

NAMES = {"local_sgd": "local SGD", "dpsgd": "D-PSGD", "dpsgd_two_rounds": "D-PSGD, two rounds", "sgp": "SGP", "sgp_one": "SGP, one neighbor",
         "sgp_four": "SGP, four neighbors", "adpsgd": "AD-PSGD", "eager": "eager-SGD", "wagma": "WAGMA-SGD",
         "swarm": "SwarmSGD"}
# An algorithm looks alike in all pictures: its color, marker and dashes. Variants share them.
LOOKS = {"adpsgd": 0, "allreduce": 1, "dpsgd": 2, "eager": 3, "local_sgd": 4, "sgp": 5, "sgp_one": 5, "sgp_four": 5, "wagma": 6,
         "majority": 3, "solo": 4, "swarm": 0}


def name_of(series):
    return NAMES.get(series, series)


def binary(count):
    """A number of bytes: "32 KiB"."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            break
        count /= 1024
    return f"{count:g} {unit}"


def legend_of_kinds(ax, **where):
    handles = [Line2D([], [], linestyle="none", marker="o", markersize=7, markerfacecolor="none", markeredgecolor=GREY, label="published"),
               Line2D([], [], color=GREY, marker="o", markersize=4, label="simulated")]
    return ax.legend(handles=handles, **where)


def has_published(rows):
    return any(not math.isnan(row.published) for row in rows)


def draw_lines(ax, table, rows):
    series = list(dict.fromkeys(row.series for row in rows))
    if table.shape == "shares":
        rows = [dataclasses.replace(row, published=row.published / float(row.at), simulated=row.simulated / float(row.at)) for row in rows]
    for name in series:
        i = LOOKS[name]
        mine = sorted((row for row in rows if row.series == name), key=lambda row: float(row.at))
        x = [float(row.at) for row in mine]
        color, marker = SERIES[i], MARKERS[i]
        ax.plot(x, [row.simulated for row in mine], color=color, linestyle=DASHES[i], marker=marker, markersize=4, label=name_of(name))
        ax.plot(x, [row.published for row in mine], linestyle="none", marker=marker, markersize=9, markerfacecolor="none",
                markeredgecolor=color, markeredgewidth=1.3)
    ax.set_xlabel(table.at)
    ax.set_ylabel(table.axis + f", divided by {table.at}" * (table.shape == "shares"))
    ticks = sorted({float(row.at) for row in rows})
    ax.set_xscale("log", base=2)
    ax.set_xticks(ticks, [binary(tick) if table.at == "bytes" else short(tick) for tick in ticks])
    ax.minorticks_off()
    values = [value for row in rows for value in (row.simulated, row.published) if not math.isnan(value)]
    if max(values) > 5 * min(values) > 0:
        set_log(ax)
    else:
        ax.set_ylim(bottom=0.8 * min(values) if table.shape == "shares" else 0)
    if has_published(rows):
        ax.add_artist(legend_of_kinds(ax, loc="lower left", bbox_to_anchor=(1.01, 0.0), borderaxespad=0))
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)


def told_at(table, row):
    return f"{row.at} {table.at}" if row.at.isdigit() else row.at


def draw_dots(ax, table, rows):
    """A line per row, relative where units differ too much for one axis."""
    at = list(dict.fromkeys(row.at for row in rows))
    series = list(dict.fromkeys(row.series for row in rows))
    labels = [row.at if len(series) == 1 else name_of(row.series) + (f", {told_at(table, row)}" if len(at) > 1 else "") for row in rows]
    known = [abs(value) for row in rows for value in (row.simulated, row.published) if not math.isnan(value)]
    is_wide = min(known) > 0 and max(known) > 8 * min(known)
    y = np.arange(len(rows))
    for i, row in enumerate(rows):
        ax.plot([row.published, row.simulated], [i, i], color="#BBBBBB", linewidth=2, zorder=1)
        ax.plot(row.published, i, marker="o", markersize=9, markerfacecolor="white", markeredgecolor=ORANGE, markeredgewidth=1.8,
                zorder=2)
        ax.plot(row.simulated, i, marker="o", markersize=5, color=BLUE, zorder=3)
        note = "given" if row.is_given else "" if math.isnan(row.published) or not table.tolerance else f"{row.deviation:+.1f} %"
        ax.annotate(note, (1.01, i), xycoords=("axes fraction", "data"), va="center", fontsize=8.5, color=GREY)
    if is_wide:
        ax.set_xscale("log")
    ax.set_yticks(y, labels)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(False, axis="y")
    ax.set_xlabel(table.axis)
    if not has_published(rows):
        return
    handles = [Line2D([], [], linestyle="none", marker="o", markersize=9, markerfacecolor="white", markeredgecolor=ORANGE,
                      markeredgewidth=1.8, label="published"),
               Line2D([], [], linestyle="none", marker="o", markersize=5, color=BLUE, label="simulated")]
    ax.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.2)


def draw(table, rows, path):
    """Writes the overlay of a table."""
    with plt.style.context(STYLE, after_reset=True):
        height = 1.3 + 0.34 * len(rows) if table.shape == "dots" else 4.2
        figure, ax = plt.subplots(figsize=(7.6, height), layout="constrained")
        (draw_dots if table.shape == "dots" else draw_lines)(ax, table, rows)
        ax.set_title(table.title, pad=20 if table.shape == "dots" else 8)
        save(figure, path)
        plt.close(figure)
