"""The picture of one run: quality against time and steps, what the nodes did when, and how they spent their time."""
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from pictures import run_activities, run_evaluations, run_pace
from pictures.headline import headline
from pictures.style import GREY, Failure, expect_kept, time_scale, write

STEPS_IN_WINDOW = 24     # of the median node


def draw_left(figure, grid, results, panels):
    """A row for each of `panels`, as run_evaluations has them: against time, and against steps."""
    times = [table["time"][np.isfinite(table["time"])] for table in (results.evaluation, results.steps) if "time" in table]
    scale, unit = time_scale(max((values.max(initial=0.0) for values in times), default=0.0))
    rows = grid.subgridspec(len(panels), 2, height_ratios=[height for _, _, height in panels], hspace=0.3, wspace=0.07)
    top = {}
    for i, (title, draw_panel, _) in enumerate(panels):
        left = figure.add_subplot(rows[i, 0], sharex=top.get("time"))
        right = figure.add_subplot(rows[i, 1], sharex=top.get("step"), sharey=left)
        axes = {"time": left, "step": right}
        top = top or axes
        draw_panel(axes, results, {"time": scale, "step": 1})
        left.set_title(title)
        left.yaxis.set_label_coords(-0.16, 0.5)
        right.tick_params(labelleft=False, which="both")
        for ax in (left, right):
            ax.tick_params(labelbottom=i + 1 == len(panels))
        left.xaxis.set_major_locator(MaxNLocator(6))
        right.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    left.set_xlabel(f"{results.clock} ({unit})")
    right.set_xlabel("finished steps")
    for ax in (left, right):
        ax.update_datalim([(0, 0)], updatey=False)  # a margin for what lies far from 0 and close together
        ax.autoscale_view(scaley=False)
        ax.set_xlim(left=0)
    add_epochs(top["step"], results)


def add_epochs(ax, results):
    """A second axis of epochs above the steps."""
    step, epoch = results.evaluated("epoch", "step")
    if not len(step) or epoch[-1] <= 0:
        return
    per_step = epoch[-1] / step[-1]
    above = ax.secondary_xaxis("top", functions=(lambda x: x * per_step, lambda e: e / per_step))
    above.spines["top"].set_visible(True)
    above.xaxis.set_major_locator(MaxNLocator(6))
    above.set_xlabel("epochs", labelpad=3)


def default_window(results):
    """The first steps of the median node, as far as the timeline reaches."""
    last = results.timeline["end"].max()
    steps, finished = results.nodes["steps"], results.nodes["finished"]
    paces = finished[steps > 0] / steps[steps > 0]
    if not len(paces) or np.median(paces) <= 0:
        return 0.0, last
    return 0.0, min(last, STEPS_IN_WINDOW * np.median(paces))


def draw_right(figure, grid, results, window):
    """Timeline (or progress) above, shares below; what is missing leaves its place to the other."""
    panels = []
    if results.has_timeline():
        window = (window[0], min(window[1], results.timeline["end"].max())) if window else default_window(results)
        panels.append(lambda ax: run_activities.draw_timeline(ax, results, window))
    elif results.spread("time") is not None:
        panels.append(lambda ax: run_pace.draw_progress(ax, results))
    has_shares = results.shares() is not None and results.shares().any()
    if has_shares:
        panels.append(lambda ax: run_activities.draw_shares(ax, results))
    if not panels:
        return
    rows = grid.subgridspec(len(panels), 1, height_ratios=[2.1, 1.0][:len(panels)], hspace=0.32)
    axes = [figure.add_subplot(rows[i]) for i in range(len(panels))]
    for ax, draw_panel in zip(axes, panels):
        draw_panel(ax)
    activities, others = run_activities.keys_of(results)
    if results.has_timeline():
        run_activities.add_key(axes[0], activities)
    if has_shares:
        run_activities.add_key(axes[-1], others if results.has_timeline() else activities + others)


def check_window(results, window):
    """Refuses a stretch of time of which nothing was kept."""
    expect_kept(window, "node timeline", min(results.timeline_until, results.timeline["end"].max(initial=0)))


def draw(results, path, window):
    """The whole picture; `window` is the stretch of the node timeline, None for the first steps."""
    check_window(results, window)
    panels = run_evaluations.panels(results) or run_pace.panels(results)
    has_right = results.has_timeline() or results.spread("time") is not None or results.shares() is not None
    if not panels and not has_right:
        raise Failure("nothing to draw: the run recorded no metric and no time")
    widths = [1.15] * bool(panels) + [1.0] * has_right
    left = 0.055 if len(widths) > 1 else 0.09
    figure = plt.figure(figsize=(15 if len(widths) > 1 else 9, 8.4))
    grid = figure.add_gridspec(1, len(widths), width_ratios=widths, wspace=0.13, left=left, right=0.985, top=0.845, bottom=0.075)
    if panels:
        draw_left(figure, grid[0], results, panels)
    if has_right:
        draw_right(figure, grid[-1], results, window)
    title, subtitle, outcome = headline(results, path)
    end = figure.text(0.985, 0.962, outcome, fontsize=10.5, va="center", ha="right")
    write(figure, left, 0.962, title, end.get_window_extent().x0 / figure.bbox.width - 0.015, fontsize=16, fontweight="bold", va="center")
    write(figure, left, 0.925, subtitle, 0.985, fontsize=9.5, color=GREY, va="center")
    return figure
