"""What tests of whole runs share: where MPI starts, the processes of a run, and what its results file says."""
import ctypes
import os
import pathlib
import time

import h5py
import numpy as np


def mpi_environment(**more):
    """Ours, in which Open MPI starts as root, too, without a cluster, and with more processes than there are cores."""
    return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                OMPI_MCA_btl_vader_single_copy_mechanism="none", **more)


def obey_permissions():
    """Has root, too, be kept out by the permissions of files, in what this process becomes."""
    for capability in (1, 2):  # to pass over them, and to read and search
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def of_children(pid):
    """{process: seconds of processor time} of the processes that `pid` has started and that are there, the oldest first."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has gone meanwhile
        if int(fields[1]) == pid and fields[0] != "Z":
            used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            found.append((int(fields[19]), int(path.parent.name), used))  # numbers begin anew after the largest
    return {process: used for _, process, used in sorted(found)}


def children(pid):
    """The processes that `pid` has started, the oldest first."""
    return list(of_children(pid))


def wait_until_at_work(pid, processes, seconds=0.5):
    """Until so many processes that `pid` has started have computed for so long, however busy the machine is: a rank that yields to
    another busy process at every message gets a hundredth of a core."""
    for _ in range(6000):
        if sum(used >= seconds for used in of_children(pid).values()) >= processes:
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
