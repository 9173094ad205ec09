"""What is put right in a picture of a sweep once all is drawn: ranges of axes, and texts that would cover something."""
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.text import Annotation
from matplotlib.ticker import FixedLocator

from pictures.style import numbers

BESIDE_LEGEND = 0.06     # inches: what is nearer looks like one of its marks
BESIDE_LABEL = 0.04      # inches between names along an axis


def put_right(figure):
    calm(figure)
    make_room(figure)
    thin_out(figure)
    keep_apart(figure)


def calm(figure):
    """Gives axes along which nothing varies but the rounding of sums the range of a constant; if that is 0, what could be."""
    for ax in figure.axes:
        low, high = ax.get_ylim()
        values = np.concatenate([line.get_ydata() for line in ax.lines]) if ax.lines else np.empty(0)
        if ax.get_yscale() == "linear" and len(values) and not np.nan_to_num(values.astype(float)).any():
            ax.set_ylim(-0.05, 1)
            continue
        largest = max(abs(low), abs(high))
        if ax.get_yscale() == "linear" and high - low < 1e-9 * largest:
            ax.set_ylim(low - 0.05 * largest, high + 0.05 * largest)


def make_room(figure):
    """Lifts the upper end of axes whose legend covers what is drawn, as where bars of errors fill the whole height."""
    figure.draw_without_rendering()
    for ax in figure.axes:
        legend = ax.get_legend()
        if legend is None or not covers(legend.get_window_extent().padded(BESIDE_LEGEND * figure.dpi), ax):
            continue
        share = legend.get_window_extent().height / ax.bbox.height + 0.06
        if share < 0.6:
            scale = ax.yaxis.get_transform()
            low, high = scale.transform(ax.get_ylim())
            ax.set_ylim(scale.inverted().transform([low, low + (high - low) / (1 - share)]))  # where "best" then puts it


def covers(box, ax):
    """Whether a box in the picture's coordinates hides a part of a line, a marker or a bar of an error."""
    for line in ax.lines:
        path = line.get_transform().transform_path(line.get_path())
        has_line = line.get_linestyle() != "None" and path.intersects_bbox(box, filled=False)
        if has_line or box.count_contains(path.vertices):
            return True
    return any(collection.get_transform().transform_path(path).intersects_bbox(box, filled=False)
               for collection in ax.collections for path in collection.get_paths())


def thin_out(figure):
    """Of what would run into what stands left of it along the x axis takes numbers away, and turns words, and names of cells."""
    figure.draw_without_rendering()
    for ax in figure.axes:
        end, crowded = -np.inf, []
        for label in ax.get_xticklabels():
            box = label.get_window_extent()
            if box.x0 > end:
                end = box.x1 + BESIDE_LABEL * figure.dpi
            else:
                crowded.append(label)
        names = [label.get_text() for label in ax.get_xticklabels()]
        if crowded and isinstance(ax.xaxis.get_major_locator(), FixedLocator) and (ax.images or numbers(names) is None):
            slant(ax)
        else:
            plt.setp(crowded, visible=False)


def slant(ax):
    """Turns the names along the x axis; the steeper, the more there are."""
    labels = ax.get_xticklabels()
    plt.setp(labels, rotation=20 if len(labels) <= 8 else 35, ha="right", rotation_mode="anchor")


def keep_apart(figure):
    """Writes below its mark what would lie over what another one says; takes it away where there is no room either."""
    notes = [[text for text in ax.texts if isinstance(text, Annotation)] for ax in figure.axes]
    if not any(notes):
        return
    figure.draw_without_rendering()
    for beside in notes:
        boxes = []
        for note in beside:
            if note.get_window_extent().count_overlaps(boxes):
                note.set(position=(4, -4), verticalalignment="top")
            if note.get_window_extent().count_overlaps(boxes):
                note.remove()
            else:
                boxes.append(note.get_window_extent())
