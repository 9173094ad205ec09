"""What a run learned: test accuracy, AUC, losses and consensus distance. Each is drawn twice, `axes` against "time" and "step", whose
numbers are multiplied by `scales`."""
import numpy as np
from matplotlib.ticker import PercentFormatter

from pictures.style import BLUE, GREEN, ORANGE, draw_zeros, positive, set_log, spans_decades


def panels(results):
    """Titles, drawing functions and relative heights of what is known."""
    found = []
    if len(results.seen("test_accuracy")):
        found.append(("Test accuracy of the mean model", draw_accuracy, 1.0))
    if len(results.seen("test_auc")):
        found.append(("Test AUC of the mean model", draw_auc, 1.0))
    if len(results.seen("test_loss")) or len(results.seen("train_loss")) or results.spread("train_loss") is not None:
        found.append(("Loss", draw_loss, 1.0))
    if (results.seen("consensus_distance") > 0).any():
        found.append(("Distance of the nodes' models from their mean", draw_consensus, 0.7))
    return found


def draw_line(ax, x, y, color, label=None):
    if len(x):
        ax.plot(x, y, color=color, label=label, marker="o" if len(x) <= 25 else None, markersize=3.2)


def add_legend(axes):
    """Names among the steps what is drawn there or against time: a run may have evaluations by time alone."""
    named = {label: handle for ax in axes.values() for handle, label in zip(*ax.get_legend_handles_labels())}
    if named:
        axes["step"].legend(named.values(), named.keys(), loc="best")


def draw_quality(axes, results, scales, metric, name):
    """An accuracy, or an area under a curve: at most 1."""
    for against, ax in axes.items():
        x, y = results.evaluated(metric, against)
        draw_line(ax, x * scales[against], y, BLUE)
    values = results.seen(metric)
    axes["time"].set_ylim(max(0.0, values.min() - 0.05), min(1.02, values.max() + 0.05))
    axes["time"].set_ylabel(name)


def draw_accuracy(axes, results, scales):
    draw_quality(axes, results, scales, "test_accuracy", "test accuracy")
    for ax in axes.values():
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))


def draw_auc(axes, results, scales):
    draw_quality(axes, results, scales, "test_auc", "test AUC")


def draw_loss(axes, results, scales):
    seen = [results.seen("test_loss")]
    for against, ax in axes.items():
        train = results.training(against)
        if train is not None:
            x, low, mean, high = train
            x = x * scales[against]
            ax.fill_between(x, low, high, color=ORANGE, alpha=0.18, linewidth=0)
            ax.plot(x, mean, color=ORANGE, linewidth=1.0, marker="o" if np.isfinite(mean).sum() == 1 else None, markersize=3.2,
                    label="training, mean and range of nodes")
            seen.append(mean[np.isfinite(mean)])
        else:
            x, y = results.evaluated("train_loss", against)
            draw_line(ax, x * scales[against], y, ORANGE, "training")
            seen.append(y)
        x, y = results.evaluated("test_loss", against)
        draw_line(ax, x * scales[against], y, BLUE, "test, mean model")
    if spans_decades(np.concatenate(seen), 20):
        set_log(axes["time"])
    axes["time"].set_ylabel("loss")
    add_legend(axes)


def draw_consensus(axes, results, scales):
    for against, ax in axes.items():
        x, y = results.evaluated("consensus_distance", against)
        x = x * scales[against]
        draw_line(ax, x, positive(y), GREEN)
        draw_zeros(ax, x[y == 0], GREEN, "0")
    add_legend(axes)
    set_log(axes["time"])
    axes["time"].set_ylabel("consensus distance")
