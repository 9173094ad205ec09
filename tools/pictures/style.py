"""The look of all pictures, and small helpers that several of them need."""
import argparse
import contextlib
import errno
import os
import pathlib
import re
import signal
import sys
import warnings

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

# Okabe and Ito's colors, which most color-blind people tell apart, in an order whose lightness alternates; grey in place of their
# yellow, which is hard to see on white and vanishes in print.
BLUE, ORANGE, GREEN, VERMILLION, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#666666"
SERIES = [BLUE, ORANGE, GREEN, VERMILLION, "#56B4E9", "#CC79A7", "#000000", "#999999"]
MARKERS = "osD^vPX*"
DASHES = ["-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (7, 2))]

# Letters that DejaVu Sans lacks come from the first of these that is there: Chinese, Japanese, Korean.
OTHER_FONTS = ("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Noto Sans SC", "Source Han Sans", "WenQuanYi Zen Hei",
               "WenQuanYi Micro Hei", "Droid Sans Fallback", "IPAexGothic", "IPAGothic", "Hiragino Sans", "PingFang SC")
FONTS = ["DejaVu Sans", *(name for name in OTHER_FONTS if name in font_manager.fontManager.get_font_names())]

STYLE = {
    "font.family": FONTS, "font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.labelsize": 9, "axes.labelcolor": "#333333", "axes.edgecolor": "#888888",
    "axes.linewidth": 0.8, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "axes.axisbelow": True, "grid.color": "#E4E4E4", "grid.linewidth": 0.7, "xtick.color": "#888888",
    "ytick.color": "#888888", "xtick.labelcolor": "#333333", "ytick.labelcolor": "#333333", "lines.linewidth": 1.8,
    "legend.framealpha": 0.85, "legend.edgecolor": "#E4E4E4", "legend.fancybox": False, "legend.fontsize": 8.5, "svg.hashsalt": "starling",
    "figure.dpi": 150,  # at which texts and legends are placed is at which they are drawn
}

# kinds of pictures, and with what matplotlib begins them
PICTURES = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b'<?xml version="1.0" encoding="utf-8" standalone="no"?>\n<!DOCTYPE svg',
            ".pdf": b"%PDF-1.4\n%\xac\xdc \xab\xba\n"}


class Failure(Exception):
    """Something outside the program is wrong; the message is for the user."""


def expect_kept(window, what, kept):
    """Refuses a window, if there is one, that begins behind what the run kept: the node timeline, until so many seconds."""
    if window and not window[0] < kept:
        ends = f"the {what} ends at {kept:g} s" if kept > 0 else f"no {what} was kept"
        raise Failure(f"{ends} (run.timeline), --window begins at {window[0]:g} s")


def named(failure, *paths):
    """What a failure says, behind the first path unless it names one itself."""
    return str(failure) if str(failure).startswith(tuple(map(str, paths))) else f"{paths[0]}: {failure}"


def may_replace(path, begin):
    """Whether nothing is lost but, at most, a file that begins so. What cannot be read may be anything."""
    if not os.path.isfile(path):
        return not os.path.exists(path) or os.path.isdir(path)  # but no device or pipe; what else is wrong is told by writing
    try:
        with open(path, "rb") as file:
            return file.read(len(begin)) in (b"", begin)
    except OSError:
        return False


@contextlib.contextmanager
def replacing(path):
    """Where to write what takes the place of `path`, or of what it links to, if it is written whole; the directories above are made."""
    target = pathlib.Path(os.path.realpath(path))
    partial = target.with_name(target.name + ".partial")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield partial
        partial.replace(target)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def save(figure, path):
    """Writes a picture without anything that differs between equal ones; an older one stays unless it is written whole."""
    if not may_replace(path, PICTURES[path.suffix]):
        raise Failure(f"{path}: is there already and no such picture; name another one (--output)")
    metadata = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    try:
        with replacing(path) as partial:
            figure.savefig(partial, format=path.suffix[1:], metadata=metadata[path.suffix])
    except OSError as error:
        raise Failure(f"{path}: cannot write: {error.strerror}") from error


def bare(example):
    """Reads a number on the command line that is written as `example` is."""
    def read(text):
        try:
            return float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a bare number such as {example}, got {text}") from None
    return read


def print_whatever_happens():
    """Nobody need read what is printed, and letters that the terminal's encoding lacks are printed by their numbers."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def telling_missing_letters():
    """Within it, letters that no font has are told once, in one sentence."""
    missing = set()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def note(message, *rest, **more):
            found = re.match(r"Glyph (\d+) .*missing from", str(message))
            if found:
                missing.add(chr(int(found[1])))
            else:
                show(message, *rest, **more)

        warnings.filterwarnings("always", r"Glyph \d+ .*missing from")
        warnings.showwarning = note
        yield
    if missing:
        print(f"note: boxes stand for {''.join(sorted(missing))}, which are in none of the fonts {', '.join(FONTS)}; another one, such as "
              f"Noto Sans CJK, is found when {matplotlib.get_cachedir()} is gone", file=sys.stderr)


def finite(x, y):
    """The points (x, y) of which both numbers are known; the longer array counts as far as the other reaches."""
    rows = min(len(x), len(y))
    known = np.isfinite(x[:rows]) & np.isfinite(y[:rows])
    return np.asarray(x[:rows])[known], np.asarray(y[:rows])[known]


def cut(text, most):
    """A text of at most `most` characters; of a longer one both ends."""
    return text if len(text) <= most else text[:most // 2] + "…" + text[len(text) - (most - most // 2 - 1):]


def literal(words):
    """Words of others as they are: no formula between dollar signs, named in a legend though an underscore begins them, and bytes that are
    no letters as question marks."""
    words = words.encode("utf-8", "replace").decode("utf-8")
    return ("\u200b" if words.startswith("_") else "") + words.replace("$", r"\$")


def percent(share):
    """A share in percent with the digits that it has: 90%, 99.5%."""
    return f"{100 * share:g}%"


def fit(line, words, right):
    """Has a line of text end left of `right`, a share of the picture's width; of one too long, its beginning and end."""
    room = right * line.figure.bbox.width - line.get_window_extent().x0
    most = len(words)
    while most > 8 and (width := line.get_window_extent().width) > room:
        most = max(8, min(most - 1, int(most * room / width)))
        line.set_text(literal(cut(words, most)))
    return line


def write(figure, x, y, words, right, **look):
    """A line of text that begins at x and ends left of `right`, both shares of the picture's width."""
    return fit(figure.text(x, y, literal(words), **look), words, right)


def add_note(ax, words):
    """A small remark in the lower right corner of a panel."""
    ax.annotate(words, (1, 0), xycoords="axes fraction", xytext=(-4, 4), textcoords="offset points", ha="right", va="bottom", fontsize=8,
                color=GREY)


def quantity(text):
    """(number, unit) of "160 ms"; None if it is no quantity."""
    found = re.fullmatch(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([^\s\d].*)?", text)
    return (float(found[1]), (found[2] or "").strip()) if found else None


# what units of one kind are worth: seconds; bytes; bytes per second
SECONDS = {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600}
BYTES = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
RATES = {f"{unit}/s": worth for unit, worth in BYTES.items()}
RATES |= {f"{prefix}bit/s": worth / 8 for prefix, worth in {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.items()}
UNITS = {**SECONDS, **BYTES, **RATES}


def rank(text):
    """The number by which a quantity is sorted among others of other units; None if it is no quantity."""
    found = quantity(text)
    if found is None or (found[1] and found[1] not in UNITS):
        return None
    return found[0] * UNITS.get(found[1], 1)


def numbers(texts):
    """Numbers of quantities of one kind, in the unit of the largest (zero fits any), and that unit; None if they are not such."""
    found = [quantity(text) for text in texts]
    if any(one is None for one in found):
        return None
    units = {unit for number, unit in found if number != 0}
    if len(units) > 1 and not any(units <= kind.keys() for kind in (SECONDS, BYTES, RATES)):
        return None
    if len(units) < 2:
        return [number for number, _ in found], units.pop() if units else ""
    _, largest = max(found, key=lambda one: abs(one[0]) * UNITS.get(one[1], 0))
    return [float(f"{number * UNITS.get(unit, 0) / UNITS[largest]:.12g}") for number, unit in found], largest


def short(value, digits=3):
    """A number in few characters, but for an exponent where even billions are small."""
    rounded = float(f"{value:.{digits}g}")  # 999.6 is 1000, which the same format would write as 1e+03
    for limit, scale, suffix in ((1e12, 1, ""), (1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(rounded) >= limit:
            return f"{rounded / scale:.{digits}g}{suffix}"
    return f"{value:.{max(0, digits - 4)}f}" if abs(rounded) >= 1000 else f"{rounded:.{digits}g}"


def spans_decades(values, factor=50):
    """Whether `values` are positive and span so much that all but the largest look alike on a linear scale."""
    return len(values) > 1 and min(values) > 0 and max(values) > factor * min(values)


def whole_numbers():
    """Ticks of an axis that counts, as of steps."""
    return MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True, min_n_ticks=1)


def set_log(ax, letter="y"):
    """A logarithmic axis, the x or the y one, of at least a decade, with labels enough to read it."""
    axis = getattr(ax, f"{letter}axis")
    getattr(ax, f"set_{letter}scale")("log")
    low, high = axis.get_view_interval()
    if high < 10 * low:  # at least a decade, so that noise looks small and there are labels
        low, high = np.sqrt(low * high) / np.sqrt(10), np.sqrt(low * high) * np.sqrt(10)
        getattr(ax, f"set_{letter}lim")(low, high)
    if high < 300 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 30 * low else (1, 3), numticks=12))
    axis.set_major_formatter(FuncFormatter(short_number))
    axis.set_minor_formatter(NullFormatter())


def positive(values):
    """The values as a line on a logarithmic axis, which has no place for zeros: none leads across them."""
    return np.where(values > 0, values, np.nan)


def draw_zeros(ax, x, color, label=None):
    """Marks at the foot of a logarithmic axis in place of zeros."""
    if len(x):
        ax.plot(x, np.zeros(len(x)), transform=ax.get_xaxis_transform(), color=color, marker="v", linestyle="none", markersize=5,
                clip_on=False, label=label)


def wants_log(against, ends):
    """Whether curves against time, steps or bytes that end there share a logarithmic axis: on a linear one a fast run beside slow ones
    would be an upright line. What is compressed a little beside what is not is all about the bytes of the former."""
    return spans_decades(ends, 8 if against == "bytes_sent" else 50)


def short_number(value, _):
    """A tick's text: 0.01, but 10⁻⁴ rather than 0.0001, and 5·10⁵ rather than 500000."""
    if value <= 0 or 0.999e-3 < value < 1.001e4:
        return f"{value:g}"
    mantissa, exponent = f"{value:.2e}".split("e")
    factor = "" if float(mantissa) == 1 else rf"{float(mantissa):g}{{\cdot}}"
    return f"${factor}10^{{{int(exponent)}}}$"


def time_scale(seconds):
    """Factor and name of the unit in which `seconds` reads well."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            break
    else:
        factor, unit = 1e9, "ns"
    if seconds >= 3 * 3600:
        factor, unit = 1 / 3600, "h"
    elif seconds >= 600:
        factor, unit = 1 / 60, "min"
    return factor, unit


def duration_text(seconds):
    factor, unit = time_scale(seconds)
    return f"{seconds * factor:{',.0f' if seconds * factor >= 100 else '.3g'}} {unit}"


def byte_scale(count):
    """Factor and name of the unit in which so many bytes read well."""
    return next((1 / worth, unit) for unit, worth in reversed(BYTES.items()) if "i" not in unit and (count >= worth or worth == 1))


def text(value):
    """Text of an attribute or data set, whichever way h5py hands it over."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
