"""What the nodes of a run did: each in a stretch of time, and in which shares it spent its time."""
import math

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

from pictures.results import ACTIVITIES
from pictures.style import BLUE, ORANGE, duration_text, time_scale

MOST_NODES = 64          # rows of the timeline
NEIGHBORS = 8            # drawn side by side where not all nodes are: every 8th would be the first of each host
MOST_BARS = 512          # nodes drawn one by one in the shares
LETTERS_BESIDE_TITLE = 44
SERVING = "serve after last step"
COLORS = dict(zip((*ACTIVITIES, SERVING), (BLUE, ORANGE, "#D9D9D9", "#B5DDEF")))


def shown_nodes(count):
    """All nodes, or of many evenly spaced blocks of neighbors."""
    if count <= MOST_NODES:
        return np.arange(count)
    first = np.linspace(0, count - NEIGHBORS, MOST_NODES // NEIGHBORS).astype(int)
    return (first[:, None] + np.arange(NEIGHBORS)).ravel()


def draw_timeline(ax, results, window):
    """One row per node, one rectangle per stretch of time that touches the window."""
    timeline = results.timeline
    shown = shown_nodes(results.node_count)
    row_of = np.full(results.node_count, -1)
    row_of[shown] = np.arange(len(shown))
    begin, end = window
    factor, unit = time_scale(end - begin if begin == 0 else end)
    inside = (timeline["end"] > begin) & (timeline["begin"] < end) & (row_of[timeline["node"]] >= 0)
    height = 0.86 if len(shown) <= 40 else 1.0
    has_edges = len(shown) <= 40 and inside.sum() < 100 * len(shown)  # they tell one gradient from the next
    serves = (timeline["begin"] >= results.nodes["finished"][timeline["node"]]) & results.has_ended()[timeline["node"]]
    kinds = {name: (timeline["activity"] == results.activity_numbers[name]) & ~serves for name in ACTIVITIES}
    for name, those in {**kinds, SERVING: serves}.items():
        mine = inside & those
        left = np.clip(timeline["begin"][mine], begin, end) * factor
        right = np.clip(timeline["end"][mine], begin, end) * factor
        low = row_of[timeline["node"][mine]] - height / 2
        corners = np.stack([np.stack([left, low], 1), np.stack([left, low + height], 1),
                            np.stack([right, low + height], 1), np.stack([right, low], 1)], axis=1)
        ax.add_collection(PolyCollection(corners, facecolors=COLORS[name], edgecolors="white",
                                         linewidths=0.5 if has_edges and name == "compute" else 0,
                                         antialiaseds=len(shown) <= 40))
    ax.set_xlim(begin * factor, end * factor)
    ax.set_ylim(len(shown) - 0.5, -0.5)
    is_part = len(shown) < results.node_count
    if is_part:
        ticks = range(0, len(shown), NEIGHBORS)
    else:
        ticks = MaxNLocator(16, integer=True, min_n_ticks=1).tick_values(0, len(shown) - 1)
        ticks = [int(tick) for tick in ticks if 0 <= tick < len(shown)]
    ax.set_yticks(ticks, [str(shown[tick]) for tick in ticks])
    ax.grid(False)
    ax.set_ylabel(f"node ({len(shown)} of {results.node_count:,}, in groups of {NEIGHBORS})" if is_part else "node")
    ax.set_xlabel(f"{results.clock} ({unit})")
    ax.set_title(f"What the nodes did{stretch_in_words(begin, end, results.active_end())}")


def stretch_in_words(begin, end, whole):
    """", first 190 ms of 2.86 s"; nothing if it is all."""
    if begin <= 0 and end >= 0.999 * whole:
        return ""
    factor, _ = time_scale(end)
    return f", {f'{begin * factor:.3g}–' if begin > 0 else 'first '}{duration_text(end)} of {duration_text(whole)}"


def draw_shares(ax, results):
    shares = results.shares()
    count = len(shares)
    if count > MOST_BARS:  # groups of neighbors, their mean
        edges = np.unique(np.linspace(0, count, MOST_BARS + 1).astype(int))
        shares = np.add.reduceat(shares, edges[:-1], axis=0) / np.diff(edges)[:, None]
        left, width = edges[:-1] - 0.5, np.diff(edges)
    else:
        bar = 0.86 if count <= 64 else 1.0
        left, width = np.arange(count) - bar / 2, np.full(count, bar)
    floor = np.zeros(len(shares))
    for i, color in enumerate(COLORS.values()):
        ax.bar(left, shares[:, i], width, floor, align="edge", color=color, linewidth=0, antialiased=count <= 64)
        floor = floor + shares[:, i]
    ax.set_xlim(-0.6, count - 0.4)
    ax.set_ylim(0, 1)
    ax.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.grid(False)
    ax.set_xlabel("node")
    ax.set_ylabel("share of time")
    ax.set_title("Each node's time up to its end")


def keys_of(results):
    """Of the colors of the activities, and of what the shares have beside them."""
    *activities, serving = (Patch(color=color, label=name) for name, color in COLORS.items())
    others = [serving] if results.serves() else []
    if results.white():
        others.append(Patch(facecolor="white", edgecolor="#BBBBBB", label=results.white()))
    return activities, others


def add_key(ax, handles):
    """What the colors stand for, to the right of the title; in two lines where one has no room."""
    lines = 1 if sum(len(handle.get_label()) + 4 for handle in handles) <= LETTERS_BESIDE_TITLE else 2
    if handles:
        ax.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncol=math.ceil(len(handles) / lines),
                  borderaxespad=0.2, handlelength=1.0, handletextpad=0.5, columnspacing=1.0)
