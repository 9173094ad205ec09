"""What tests of whole runs share: the processes of a run, and what its results file says."""
import subprocess
import time

import h5py
import numpy as np


def of_children(pid, column):
    """What ps says, as numbers, of the processes that `pid` has started and that are there."""
    done = subprocess.run(["ps", "-o", f"{column}=", "--ppid", str(pid)], stdout=subprocess.PIPE, text=True)
    return [int(word) for word in done.stdout.split()]


def children(pid):
    """The processes that `pid` has started, the oldest first."""
    return sorted(of_children(pid, "pid"))


def wait_until_at_work(pid, processes, seconds=2):
    """Until so many processes that `pid` has started have computed for so long, however busy the machine is."""
    for _ in range(600):
        if sum(used >= seconds for used in of_children(pid, "cputimes")) >= processes:
            return
        time.sleep(0.1)
    raise TimeoutError(f"process {pid} has no {processes} processes at work")


def content(path, but=()):
    """Everything in a results file that equal runs share, to the bit: {data set or object@attribute: (shape, bytes)}. Not
    what the machinery did, and not those named in `but`."""
    found = {}

    def note(name, value):
        if name.split("/")[0].split("@")[0] not in ("machine", "statistics") and name not in but:
            values = np.asarray(value)
            found[name] = (values.shape, values.tobytes())

    def visit(name, item):
        for key, value in item.attrs.items():
            note(f"{name}@{key}", value)
        if isinstance(item, h5py.Dataset):
            note(name, item[()])

    with h5py.File(path) as file:
        visit("", file)
        file.visititems(visit)
    return found
