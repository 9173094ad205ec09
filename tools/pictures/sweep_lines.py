"""Outcomes of a sweep over the values of one swept key: as they are, the time to a target, or the speed-up by more nodes."""
import numpy as np

from pictures.metrics import in_words, title_of
from pictures.runs import AT_MOST
from pictures.style import GREY, numbers, percent
from pictures.sweep_axes import add_legend, bars_of, name_places, scale, series_of, write_inside, write_note
from pictures.sweep_tables import ALL_ZIPPED

MOST_NUMBERS = 12        # named each along an axis
PUBLISHED = "published"  # how a legend names what is hollow
# What a legend says of hollow marks with such notes.
HOLLOW = {AT_MOST: "at most", " of ": "of those that get there", " run": "of fewer runs than others"}


def lines(ax, sweep, outcome, key, series_key, fixed, cell_of=None, published=None):
    """Mean against the values of one key, a line per value of the other, bars for one standard deviation over seeds; over words,
    which have no order, points side by side. The cells, and the notes of marks that do not tell all, are those of `outcome` unless
    `cell_of` says otherwise. Such marks are hollow, and what was `published` is."""
    cell_of = cell_of or (lambda settings: (sweep.cell(outcome, settings), sweep.note(outcome, settings)))
    texts, found = sweep.values(key), sweep.numbers(key)
    x = found[0] if found else list(range(len(texts)))
    are_words = key == ALL_ZIPPED or numbers(texts) is None
    all_series = list(series_of(sweep, series_key, fixed))
    seen, notes, theirs = [], [], []
    for i, (settings, label, look, dashes) in enumerate(all_series):
        points = [{**settings, key: text} for text in texts]
        cells, said = zip(*map(cell_of, points))
        means = [mean for mean, _ in cells]
        here = np.add(x, 0.6 * (i - (len(all_series) - 1) / 2) / len(all_series) if are_words else 0)
        ax.errorbar(here, means, bars_of(outcome, cells), capsize=2.5, markersize=4.5, linestyle="none" if are_words else dashes, label=label, **look)
        for at, mean, note in zip(here, means, said):
            if note:
                ax.plot(at, mean, markersize=4.5, markerfacecolor="white", zorder=3, **look)
                write_note(ax, (at, mean), note)
        seen += means
        notes += said
        tells_series = published and series_key in published.keys
        others = [published.cell(outcome, point) for point in points] if tells_series or published and i == 0 else []
        if np.isfinite(others).any():  # what holds for all series is no one's
            where, style = (here, look) if tells_series else (x, {"color": GREY, "marker": "o"})
            ax.plot(where, others, markersize=9, markerfacecolor="none", linestyle="none", **style)
            theirs += others
    hollow = [words for sign, words in HOLLOW.items() if any(sign in note for note in notes)]
    if hollow:
        name_marks(ax, ", or ".join(hollow), 4.5, "white")
    if theirs:
        name_marks(ax, PUBLISHED, 9, "none")
    name_values(ax, sweep, key, x, are_words)
    scale(ax, "y", outcome, seen + theirs)
    ax.set_title(title_of(outcome))
    add_legend(ax, sweep, series_key)


def name_marks(ax, label, size, face):
    """Has the legend explain marks of all series."""
    ax.errorbar([], [], color=GREY, marker="o", markersize=size, markerfacecolor=face, linestyle="none", label=label)


def name_values(ax, sweep, key, x, are_words):
    """The x axis of a swept key, whose values lie at `x`."""
    texts, found = sweep.values(key), sweep.numbers(key)
    if are_words:
        ax.set_xlim(-0.5, len(texts) - 0.5)
    is_log = bool(found) and min(x) > 0 and max(x) / min(x) >= 8
    if is_log:
        doublings = np.log2(np.divide(x, min(x)))
        ax.set_xscale("log", base=2 if np.allclose(doublings, doublings.round()) else 10)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
    if not found:
        name_places(ax.set_xticks, [sweep.label(key, text) for text in texts])
    elif len(texts) <= MOST_NUMBERS and has_distance(x, is_log):
        ax.set_xticks(x, [f"{number:g}" for number in x])
        ax.minorticks_off()
    ax.set_xlabel(sweep.name_of(key) + (f" ({found[1]})" if found and found[1] else ""))


def has_distance(x, is_log):
    """Whether all of `x` can be named along an axis."""
    places = np.log(x) if is_log else np.asarray(x, dtype=float)
    return len(x) < 2 or np.diff(places).min() >= 0.03 * (places.max() - places.min())


def time_to(ax, sweep, target, key, series_key, fixed):
    """Virtual time until the mean model has the target accuracy (or AUC, or loss); seeds that never get there are left out."""
    metric = sweep.quality()
    known = []

    def cell_of(settings):
        times, note = sweep.reached(settings, metric, target)
        known.extend(times)
        note = ", ".join(filter(None, [sweep.few(settings), note]))
        return (np.mean(times) if times else np.nan, np.std(times, ddof=1) if len(times) > 1 else np.nan), note

    lines(ax, sweep, "virtual_time_seconds", key, series_key, fixed, cell_of)
    wanted = f"{percent(target)} {in_words(metric)}" if metric == "test_accuracy" else f"a {in_words(metric)} of {target:g}"
    ax.set_title(f"Virtual time to {wanted}, s")
    if not known:
        write_inside(ax, "no run gets there")
        ax.set_yticks([])
        if ax.get_legend():
            ax.get_legend().remove()


def speed_up(ax, sweep, series_key, fixed):
    """Throughput against nodes, and the ideal: in the unit in which the fastest series, with the fewest nodes that any is finished
    with, has as many as it has nodes."""
    texts = sweep.values("run.nodes")
    nodes = np.array([float(text) for text in texts])
    series = list(series_of(sweep, series_key, fixed))
    rates = np.array([[sweep.cell("samples_per_second", {**settings, "run.nodes": text})[0] for text in texts] for settings, *_ in series])
    is_known = np.isfinite(rates)
    first = int(is_known.any(axis=0).argmax())
    best = rates[is_known[:, first], first].max(initial=0)
    for (_, label, look, dashes), theirs, known in zip(series, rates, is_known):
        if known.any():
            ax.plot(nodes[known], theirs[known] / best * nodes[first], linestyle=dashes, label=label, **look)
    ax.plot(nodes, nodes, color=GREY, linewidth=1, linestyle=":", label="ideal")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xticks(nodes, texts)
    ax.set_yticks(nodes, texts)
    ax.minorticks_off()
    ax.set_xlabel("nodes")
    count = texts[first]
    ax.set_title(f"Speed-up ({'the best ' * (len(series) > 1)}of {count} node{'s' * (count != '1')}: {count})")
    ax.legend()
