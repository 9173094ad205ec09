"""The picture of a network's links: how loaded they were, and when. Links whose names differ in their numbers alone are of one kind, such
as host # up."""
import re

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

from pictures.headline import headline
from pictures.style import BLUE, GREY, ORANGE, Failure, expect_kept, literal, text, time_scale, write

MOST_LINKS = 20          # the busiest
MOST_KINDS = 10          # of more, names say nothing of the place


def kinds_of(names):
    """{kind: its links}; none where there are too many."""
    kinds = {}
    for link, name in enumerate(names):
        kinds.setdefault(re.sub(r"\d+", "#", name), []).append(link)
    return kinds if len(kinds) <= MOST_KINDS else {}


def chosen(order, kinds):
    """The busiest links, among them the busiest of each kind."""
    place = {link: rank for rank, link in enumerate(order)}
    firsts = {min(links, key=place.get) for links in kinds.values()}
    others = [link for link in order if link not in firsts][:max(0, MOST_LINKS - len(firsts))]
    return np.array(sorted(firsts.union(others), key=place.get))


def loads_of_kinds(kinds, mean):
    """A line for each kind, the busiest first."""
    width = max(map(len, kinds), default=0)
    for kind, links in sorted(kinds.items(), key=lambda item: -mean[item[1]].max()):
        own = mean[links]
        yield f"{kind:<{width}}  {len(own):>6,} links, mean load {100 * own.mean():.1f} %, of the busiest {100 * own.max():.1f} %"


def draw_sorted_loads(ax, mean, peak):
    """Every link that was used, in order of its mean load."""
    rank = np.arange(1, len(mean) + 1)
    ax.fill_between(rank, 0, mean, step="mid", color=BLUE, alpha=0.25, linewidth=0)
    ax.step(rank, mean, where="mid", color=BLUE)
    ax.plot(rank, peak, color=ORANGE, linestyle="none", marker=".", markersize=3)
    if len(mean) > 200:
        ax.set_xscale("log")
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_ylim(0, max(1.05 * peak.max(), 1e-12))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("links, in order of their mean load")
    ax.set_title(f"Load of the {len(mean):,} links that were used")


def draw_busiest_links(ax, names, mean, peak, messages, has_kinds):
    """`messages` that shared each at once; None of older results."""
    rows = np.arange(len(names))
    ax.barh(rows, peak, height=0.8, color=ORANGE, alpha=0.35)
    ax.barh(rows, mean, height=0.5, color=BLUE)
    ax.set_yticks(rows, names)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(False, axis="y")
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    for row, count in enumerate(messages if messages is not None else ()):
        ax.annotate(f"{count:,}", (peak[row], row), (4, 0), textcoords="offset points", va="center", fontsize=8, color=GREY)
    ax.set_xlabel("share of the bandwidth" + ("; how many messages shared it at once" if messages is not None else ""))
    ax.set_title(f"The {len(names)} busiest, at least one of each kind" if has_kinds else f"The {len(names)} busiest")


def draw_link_heat(figure, ax, results, shown, names, window):
    """Mean load of these links in equal stretches of the window, or of the whole timeline."""
    timeline = results.link_timeline
    begin, end = timeline["begin"] / 1e12, timeline["end"] / 1e12
    first, last = (window[0], min(window[1], end.max())) if window else (0, end.max())
    bins = 240
    edges = np.linspace(first, last, bins + 1)
    load = np.zeros((len(shown), bins))
    bandwidth = results.links["bandwidth"]
    for row, link in enumerate(shown):
        mine = timeline["link"] == link
        # What was carried until each edge, by the stretches' cumulative sums.
        times = np.stack([begin[mine], end[mine]], axis=1).ravel()
        carried = np.cumsum((end - begin)[mine] * timeline["rate"][mine]) if mine.any() else np.zeros(0)
        totals = np.stack([np.concatenate([[0], carried[:-1]]), carried], axis=1).ravel() if len(carried) else carried
        if len(times):
            load[row] = np.diff(np.interp(edges, times, totals)) / ((edges[1] - edges[0]) * bandwidth[link])
    factor, unit = time_scale(last)
    image = ax.imshow(load, aspect="auto", interpolation="nearest", cmap="viridis", vmin=0, vmax=load.max() or 1,
                      extent=(first * factor, last * factor, len(shown) - 0.5, -0.5))
    ax.set_yticks(np.arange(len(shown)), names)
    ax.grid(False)
    ax.set_xlabel(f"{results.clock} ({unit})")
    ax.set_title("Load of the busiest links over time, colors up to the largest")
    figure.colorbar(image, ax=ax, format=PercentFormatter(1.0), fraction=0.04, pad=0.02)


def draw(results, path, window=None):
    """The whole picture, and a line for each kind of links; `window` is a stretch of the timeline, None for all of it."""
    if not results.links:
        raise Failure("no link was used, or the network model has none (network.kind = fluid and tcp have)")
    expect_kept(window, "timeline of links", results.link_timeline["end"].max() / 1e12 if results.link_timeline else 0)
    end = max(results.active_end(), 1e-300)
    mean = results.links["bytes"] / (results.links["bandwidth"] * end)
    peak = results.links["peak_rate"] / results.links["bandwidth"]
    order = np.argsort(-mean, kind="stable")
    kinds = kinds_of([text(name) for name in results.links["name"]])
    shown = chosen(order, kinds)
    names = [literal(text(results.links["name"][link])) for link in shown]
    has_heat = bool(results.link_timeline)
    height = 9.2 if has_heat else 5.2  # inches, as are the distances of the texts from the top
    figure = plt.figure(figsize=(13, height))
    margin = min(0.25, 0.03 + 0.0062 * max(len(name) for name in names))
    grid = figure.add_gridspec(2 if has_heat else 1, 2, left=margin if has_heat else 0.06, right=0.98, top=1 - 0.95 / height, bottom=0.08, hspace=0.32,
                               wspace=0.1 + 3 * margin)
    draw_sorted_loads(figure.add_subplot(grid[0, 0]), mean[order], peak[order])
    draw_busiest_links(figure.add_subplot(grid[0, 1]), names, mean[shown], peak[shown],
                       results.links["most_messages"][shown] if "most_messages" in results.links else None, len(kinds) > 1)
    if has_heat:
        draw_link_heat(figure, figure.add_subplot(grid[1, :]), results, shown, names, window)
    legend = figure.legend(handles=[Patch(color=BLUE, label="mean over the run"), Patch(color=ORANGE, alpha=0.35, label="peak")], loc="upper right",
                  bbox_to_anchor=(0.98, 1 - 0.1 / height), borderaxespad=0, ncols=2)
    title, subtitle, _ = headline(results, path)
    write(figure, 0.02, 1 - 0.1 / height, f"{title}: traffic of the network's links",
          legend.get_window_extent().x0 / figure.bbox.width - 0.015, va="top", fontsize=13, fontweight="bold")
    write(figure, 0.02, 1 - 0.4 / height, subtitle, 0.98, va="top", fontsize=9, color=GREY)
    return figure, list(loads_of_kinds(kinds, mean))
