"""Li et al., "Taming Unbalanced Training Workloads in Deep Learning with Partial Collective Operations", PPoPP 2020."""
import numpy as np

from papers.table import Table, with_algorithm
from papers.wagma import MPI_ALLREDUCE


def fig9(bench, policy, size):
    """Milliseconds until a process has its sum, mean over processes."""
    if policy == "allreduce":
        edit, settings = with_algorithm(["kind=allreduce", *MPI_ALLREDUCE, "learning_rate=0.1"]), []
    else:
        edit, settings = (lambda text: text), [f"algorithm.activation={policy}", "run.steps=1024"]
    with bench.run("eager_fig9.ini", [*settings, f"workload.bytes={size} B"], edit) as results:
        return 1e3 * float(np.mean(results["steps/exchange_time"][:]))


TABLES = [Table("eager_fig9", "eager-SGD, Fig. 9: 32 processes, arrivals 1 ms apart", "bytes", "ms", fig9, 10)]
