"""How fast the nodes of a run were: their throughput and how far apart they were, each drawn as in run_evaluations, and their progress."""
import numpy as np
from matplotlib.ticker import EngFormatter

from pictures.run_evaluations import draw_line
from pictures.style import BLUE, GREEN, finite, time_scale, whole_numbers


def panels(results):
    """Titles, drawing functions and relative heights of what is known."""
    found = []
    if results.throughput() is not None:
        found.append(("Throughput of all nodes", draw_throughput, 1.0))
    if results.spread("time") is not None and results.node_count > 1 and np.isfinite(lag(results)).any():
        found.append(("Spread of the nodes: time between first and last to finish a step", draw_lag, 0.8))
    return found


def draw_throughput(axes, results, scales):
    time, step, rate, unit = results.throughput()
    for against, x in (("time", time), ("step", step)):
        draw_line(axes[against], *finite(x * scales[against], rate), BLUE)
    axes["time"].set_ylim(0, np.nanmax(np.append(rate, 1e-300)) * 1.12)
    axes["time"].yaxis.set_major_formatter(EngFormatter(sep=""))
    axes["time"].set_ylabel(f"throughput ({unit})")


def lag(results):
    """How far apart in time the nodes finish the same step: of those that got there, but not where a run was cut before all of them did."""
    first, _, last = results.spread("time")
    if "ended" not in results.facts:
        return last - first
    time = results.steps["time"][:, results.is_told()]
    return np.where(np.isfinite(time).all(axis=1), last - first, np.nan)


def draw_lag(axes, results, scales):
    lags = lag(results)
    factor, unit = time_scale(np.nanmax(lags))
    for against, ax in axes.items():
        x, y = finite(results.step_positions(against, len(lags)) * scales[against], lags * factor)
        if len(x) > 200:  # too many to see: range and mean of bins
            edges = np.linspace(0, len(x), 101).astype(int)[:-1]
            sizes = np.diff(np.append(edges, len(x)))
            low, high = np.minimum.reduceat(y, edges), np.maximum.reduceat(y, edges)
            x, y = np.add.reduceat(x, edges) / sizes, np.add.reduceat(y, edges) / sizes
            ax.fill_between(x, low, high, color=GREEN, alpha=0.2, linewidth=0, label="range")
        draw_line(ax, x, y, GREEN, "mean")
        ax.set_ylim(0, np.nanmax(lags) * factor * 1.15 or 1.0)
    if np.isfinite(lags).sum() > 200:
        axes["step"].legend(loc="upper right", ncol=2)
    axes["time"].set_ylabel(f"first to last node ({unit})")


def draw_progress(ax, results):
    """Steps over time of the first, the middle and the last node at each step, from the start on. Nodes that did not get there had not
    when the run ended; where half of them did not, nobody knows the middle one. Those of a lost rank are left out."""
    time = results.steps["time"][:, results.is_told()]
    step = results.steps["step"][:len(time)]
    known = np.isfinite(time).any(axis=1)
    time, step = np.vstack([np.zeros(time.shape[1]), time[known]]), np.concatenate([[0], step[known]])
    factor, unit = time_scale(np.nanmax(time))
    latest = np.where(np.isfinite(time), time, results.end).max(axis=1)
    ax.fill_betweenx(step, np.nanmin(time, axis=1) * factor, latest * factor, color=BLUE, alpha=0.25, linewidth=0, label="all nodes")
    middle = np.median(np.where(np.isfinite(time), time, np.inf), axis=1)
    ax.plot(middle[middle < np.inf] * factor, step[middle < np.inf], color=BLUE, label="median node")
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_locator(whole_numbers())
    ax.set_xlabel(f"{results.clock} ({unit})")
    ax.set_ylabel("finished steps")
    ax.legend(loc="upper left")
    ax.set_title("Progress of the nodes")
