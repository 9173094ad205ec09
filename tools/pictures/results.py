"""Results files (docs/results_format.md), opened with the same words about wrong ones as `starling` has."""
import contextlib

import h5py
import numpy as np

from pictures.style import Failure, text

FORMAT_VERSION = 1


@contextlib.contextmanager
def opened(path):
    """The file, open to be read. Failure names it, also where what is read from it is not there."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise Failure(f"{path}: expected a results file, found a device or pipe")
        with open(path, "rb") as file:
            if file.read(8) != b"\x89HDF\r\n\x1a\n":
                raise Failure(f"{path}: expected a results file, found something that is not HDF5")
    except OSError as error:
        raise Failure(f"{path}: cannot read: {error.strerror}") from error
    try:
        with h5py.File(path, "r") as file:
            if text(file.attrs.get("format", "")) != "starling results":
                raise Failure(f"{path}: expected a results file of Starling, found another HDF5 file")
            version = int(file.attrs["format_version"])
            if version > FORMAT_VERSION:
                raise Failure(f"{path}: written in format {version}, this program reads up to format {FORMAT_VERSION}")
            yield file
    except (OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise Failure(f"{path}: damaged or cut short: {str(error).splitlines()[0]}") from error


def choose_evaluations(by_step, by_time, against):
    """Which table has the curve over `against`: over time and bytes the one by time, unless it has but its end."""
    return by_time if against in ("time", "bytes_sent") and len(by_time.get("time", ())) > 1 else by_step


def forward(times):
    """When rows were ended, as an axis takes them. Those of later steps, which only nodes that had not stopped ended, may lie before."""
    return np.where(np.isfinite(times), np.fmax.accumulate(times), np.nan)


def end_of_run(file):
    """Seconds after which the last node ended its last step, or `run.until` came; as in tools/summary.cpp."""
    ends = [file["nodes/finished"][()]]
    if "ended" in file["facts"].attrs and "evaluation_by_time/time" in file:
        ends.append(file["evaluation_by_time/time"][()])
    return max(float(np.nanmax(times, initial=0.0)) for times in ends)
