"""Li et al., "Taming Unbalanced Training Workloads in Deep Learning with Partial Collective Operations", PPoPP 2020."""
import numpy as np

from papers.table import Table, with_algorithm
from papers.wagma import MPI_ALLREDUCE, STEPS, seconds_per_step


def fig9(bench, policy, size):
    """Milliseconds until a process has its sum, mean over processes."""
    if policy == "allreduce":
        edit, settings = with_algorithm(["kind=allreduce", *MPI_ALLREDUCE, "learning_rate=0.1"]), []
    else:
        steps = 16384 if policy == "majority" else 1024  # its drawn initiators average out
        edit, settings = (lambda text: text), [f"algorithm.activation={policy}", f"run.steps={steps}"]
    with bench.run("eager_fig9.ini", [*settings, f"workload.bytes={size} B"], edit) as results:
        return 1e3 * float(np.mean(results["steps/exchange_time"][:]))


def ucf101(bench, policy, nodes):
    """How many times faster than synchronous SGD by Horovod, which sums gradients in buckets, on the device."""
    def seconds(settings, edit):
        with bench.run("eager_ucf101.ini", [f"run.nodes={nodes}", *settings], edit) as results:
            return float(np.max(results["nodes/finished"][:]))
    horovod = ["kind=allreduce", *MPI_ALLREDUCE, "exchange=buckets", "bucket_size=64 MiB", "learning_rate=0.1"]
    return (seconds(["network.operator_bandwidth=infinite"], with_algorithm(horovod)) /
            seconds([f"algorithm.activation={policy}"], lambda text: text))


def imagenet(bench, _, delay):
    """How many times faster than synchronous SGD, tensor by tensor, if 4 of 64 processes, drawn anew at every step, are so late."""
    late = ["compute.delay_draws=0", "compute.delay_restart=0", "compute.delayed_nodes=4", f"compute.delay={delay}"]
    synchronous, solo = (seconds_per_step(bench, "wagma_fig4.ini", algorithm, 64, STEPS[64], late) for algorithm in ("allreduce", "eager"))
    return synchronous / solo


TABLES = [
    Table("eager_fig9", "eager-SGD, Fig. 9: 32 processes, arrivals 1 ms apart", "bytes", "ms", fig9, 10, quantity="mean latency"),
    Table("eager_ucf101", "eager-SGD, abstract: videos of uneven lengths, speed-up", "nodes", "times", ucf101, 10, "dots", quantity="speed-up"),
    Table("eager_imagenet", "eager-SGD, abstract: ResNet-50 with late nodes, speed-up", "delay", "times", imagenet, 10, "dots", quantity="speed-up"),
]
