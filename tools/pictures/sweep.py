"""The picture of a sweep: how outcomes depend on one or two swept keys, and the curves behind it."""
import textwrap

import matplotlib.pyplot as plt
from matplotlib.collections import PolyCollection

from pictures.metrics import QUALITIES, check_targets
from pictures.style import Failure, literal
from pictures.sweep_curves import curves
from pictures.sweep_heat_map import heat_map
from pictures.sweep_layout import put_right
from pictures.sweep_lines import lines, speed_up, time_to
from pictures.sweep_tables import BEST, Sweep
from pictures.sweep_trade import trade

LONGEST_HEADING = 58     # characters above each panel's width of a picture, bold and larger


def chosen_keys(sweep, keys, fixed):
    """The keys along axes, `keys` or else the first two that vary, and {key: value} of all others."""
    for key in [*keys, *(key for key, _ in fixed)]:
        if key not in sweep.all_keys:
            raise Failure(f"{sweep.folder}: {key} is not swept; swept are {', '.join(sweep.all_keys)}")
    keys = list(dict.fromkeys(sweep.first_of(key) for key in keys))
    fixed = sweep.held(fixed, keys)
    keys = keys or [key for key in sweep.varied() if key not in fixed][:2]
    return keys, fixed | {key: sweep.values(key)[0] for key in sweep.keys if key not in keys and key not in fixed}


def usual_outcomes(sweep, published):
    """What is drawn if nobody says which outcomes."""
    if published:
        return published.outcomes
    outcomes = [name for name in (sweep.quality(), "samples_per_second") if name and sweep.knows(name)]
    if not outcomes:
        raise Failure(f"{sweep.folder}: nothing to draw: no test accuracy, AUC, loss or throughput is known")
    return outcomes


def panels_of(sweep, outcomes, keys, fixed, targets, axes, against, published):
    """Functions that draw the panels, each on the axes that it is called with."""
    panels = []

    def add(draw_panel, *what, **more):
        panels.append(lambda ax: draw_panel(ax, sweep, *what, **more))

    first, second = [*keys, None, None][:2]
    for outcome in outcomes if first else ():
        if against:
            add(trade, outcome, against, first, second, fixed)
            continue
        if second:
            add(heat_map, outcome, first, second, fixed)
        add(lines, outcome, first, second, fixed, published=published)
    for target in targets if first else ():
        add(time_to, target, first, second, fixed)
    if "run.nodes" in keys and "samples_per_second" in outcomes and not against:
        add(speed_up, second if first == "run.nodes" else first, fixed)
    if has_curves(outcomes[0]):
        held = {second: sweep.best_for_all(second, first, fixed)} if second else {}
        for axis in axes or (() if against else ("time", "step")):
            add(curves, outcomes[0], axis, first, fixed, held)
    return panels


def has_curves(outcome):
    return outcome in (*QUALITIES, "consensus_distance")


def heading(sweep, fixed, deviations):
    """What the whole picture shows, by which marks deviations, and what is missing in it."""
    note = ", ".join(sweep.setting(key, value) for key, value in fixed.items())
    count = len(sweep.runs({key: value for key, value in fixed.items() if value is not BEST}))
    among = "best of " * (BEST in fixed.values())
    title = f"{literal(sweep.folder.resolve().name)}: {among}{count} run{'s' * (count != 1)}" + (f", at {note}" if note else "")
    if any(float(row["runs"]) > 1 for row in sweep.table):
        title += "; mean over seeds" + (f", {' and '.join(deviations)} for one standard deviation" if deviations else "")
    if sweep.target:
        title += f"; target: {sweep.target}"
    failed = len(sweep.failures())
    diverged = sum(float(point.get("diverged_nodes") or 0) > 0 for point in sweep.points)
    return (title + (f"; {failed} of the sweep's runs failed" if failed else "") +
            (f"; nodes diverged in {diverged} of the sweep's runs" if diverged else ""))


def draw(folder, outcomes=(), keys=(), fixed=(), targets=(), axes=(), against=None, published=None, said=None):
    """The picture of the sweep in `folder`: `outcomes`, and the times to `targets`, over the swept `keys` (one or two), others held
    at `fixed` values; and curves against what `axes` name, time and steps unless told. Or the outcomes `against` another one. What
    is `published` of the outcomes (published.Published) is drawn over them. Lines on what was chosen for `best` are added to `said`."""
    sweep = Sweep(folder)
    keys, fixed = chosen_keys(sweep, keys, fixed)
    for outcome in [*outcomes, *([against] if against else [])]:
        if not sweep.knows(outcome):
            raise Failure(f"{folder}: no outcome {outcome}; known are {', '.join(filter(sweep.knows, sweep.outcomes))}")
    if targets and not sweep.quality():
        raise Failure(f"{folder}: --target wants runs with a test accuracy, AUC or loss")
    check_targets(sweep.quality(), targets)
    outcomes = outcomes or usual_outcomes(sweep, published)
    sweep.judge = outcomes[0]
    if axes and not has_curves(outcomes[0]):
        raise Failure(f"{folder}: --x wants a metric that has curves: {', '.join(QUALITIES)} or consensus_distance")
    panels = panels_of(sweep, outcomes, keys, fixed, targets, axes, against, published)
    if not panels:
        raise Failure(f"{folder}: one point alone makes no picture of a sweep")
    columns = 2 if len(panels) > 1 else 1
    rows = (len(panels) + columns - 1) // columns
    figure, grid = plt.subplots(rows, columns, figsize=(7.2 * columns, 3.9 * rows + 0.6), squeeze=False, layout="constrained")
    for ax, draw_panel in zip(grid.flat, panels):
        draw_panel(ax)
    for ax in grid.flat[len(panels):]:
        ax.set_visible(False)
    bands = any(isinstance(part, PolyCollection) for ax in grid.flat for part in ax.collections)
    title = heading(sweep, fixed, ["bars"] * bool(keys) + ["bands"] * bands)
    figure.suptitle("\n".join(textwrap.wrap(title, LONGEST_HEADING * columns)), fontsize=13, fontweight="bold", x=0.01, ha="left")
    put_right(figure)
    if said is not None:
        said += sweep.choices_in_words()
    return figure
