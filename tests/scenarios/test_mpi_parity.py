#!/usr/bin/python3
"""The same algorithm file simulated and over real MPI.

Synchronous algorithms must end with the same models to the bit, on 4 and on 8 ranks, also with random modelled
delays. Asynchronous ones must end cleanly, again and again, and keep what they promise: the staleness bound of
WAGMA, and the sum of models in AD-PSGD.

usage: test_mpi_parity.py STARLING MPIRUN [case ...]
"""

import os
import subprocess
import sys
import tempfile

import h5py
import numpy as np

BASE = """
[run]
nodes = 8
steps = 24
seed = 3
record_every = 1
evaluate_every = 6
save_models = yes
[topology]
kind = hypercube
[network]
kind = constant
latency = 20 us
[compute]
gradient = 1 ms
distribution = lognormal
sigma = 0.5
delay = 4 ms
delay_probability = 0.1
[workload]
kind = mlp
dataset = digits
partition = by_label
hidden = 16
batch_size = 8
[algorithm]
learning_rate = 0.05
momentum = 0.5
"""

SYNCHRONOUS = {
    "allreduce_ring": ["algorithm.kind=allreduce", "algorithm.collective=ring"],
    "allreduce_doubling": ["algorithm.kind=allreduce", "algorithm.collective=recursive_doubling"],
    "allreduce_rabenseifner": ["algorithm.kind=allreduce", "algorithm.collective=rabenseifner"],
    "allreduce_twelve_nodes": ["algorithm.kind=allreduce", "run.nodes=12", "topology.kind=ring"],
    "local_sgd": ["algorithm.kind=local_sgd", "algorithm.period=4"],
    "dpsgd_combine": ["algorithm.kind=dpsgd", "algorithm.order=combine_while_adapt"],
    "dpsgd_adapt": ["algorithm.kind=dpsgd", "algorithm.order=adapt_then_combine"],
    "wagma_full": ["algorithm.kind=wagma", "algorithm.group_size=4", "algorithm.tau=5", "algorithm.activation=full"],
}
# One repetition each: the same on 4 and 8 ranks, or a clean end.
FURTHER_SYNCHRONOUS = {
    "post_local_sgd": ["kind=local_sgd", "period=4", "switch_step=7"],
    "slowmo": ["kind=slowmo", "period=4"],
    "bmuf": ["kind=bmuf", "period=4"],
    "diloco": ["kind=diloco", "period=4"],
    "streaming_diloco": ["kind=streaming_diloco", "period=6", "fragments=3"],
    "easgd": ["kind=easgd", "period=3"],
    "parameter_server": ["kind=parameter_server", "servers=3"],
    "dasgd": ["kind=dasgd", "merge=delta", "delay=2"],
    "adaptive_period": ["kind=adaptive_period", "low=0.9", "high=1.1"],
    "sgp": ["kind=sgp"],
    "dpsgd_tensors": ["kind=dpsgd", "exchange=tensors"],
    "dpsgd_overlap": ["kind=dpsgd", "exchange=tensors", "overlap=backward"],
    "sgp_buckets": ["kind=sgp", "peers=two_peer", "exchange=buckets", "bucket_size=4 kB"],
    "allreduce_tensors": ["kind=allreduce", "exchange=tensors", "collective=by_size"],
    "wagma_tensors": ["kind=wagma", "group_size=4", "tau=5", "activation=full", "exchange=tensors"],
    "gradient_tracking": ["kind=gradient_tracking", "momentum=0"],
    "local_gossip": ["kind=local_gossip"],
}
SYNCHRONOUS.update({name: [f"algorithm.{key}" for key in keys] for name, keys in FURTHER_SYNCHRONOUS.items()})
ASYNCHRONOUS = {
    "async_parameter_server": ["kind=async_parameter_server", "servers=2"],
    "async_diloco": ["kind=async_diloco", "period=4"],
    "eager": ["kind=eager"],
    "swarm": ["kind=swarm"],
    "pairwise_gossip": ["kind=pairwise_gossip"],
    "push_sum": ["kind=push_sum"],
    "overlap_sgp": ["kind=overlap_sgp"],
}
REPETITIONS = 20
TIMEOUT = 120


def environment():
    """Open MPI as root, with more ranks than cores."""
    return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}


class Bench:
    """Runs scenarios in a temporary folder."""

    def __init__(self, starling, mpirun, folder):
        self.starling, self.mpirun, self.folder = starling, mpirun, folder
        self.scenario = os.path.join(folder, "parity.ini")
        with open(self.scenario, "w", encoding="utf-8") as file:
            file.write(BASE)

    def run(self, name, settings, ranks=0):
        """Runs simulated (ranks = 0) or over MPI; returns the results file, opened."""
        path = os.path.join(self.folder, f"{name}_{ranks}.h5")
        command = [self.starling, "run", self.scenario, "--quiet", "-o", path, *settings]
        if ranks:
            command = [self.mpirun, "--oversubscribe", "-n", str(ranks), *command, "--transport", "mpi"]
        done = subprocess.run(command, env=environment(), timeout=TIMEOUT, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
        return h5py.File(path, "r")


def check_parity(bench, name):
    """Models and all evaluations equal those of the simulation, bit for bit."""
    simulated = bench.run(name, SYNCHRONOUS[name])
    for ranks in (4, 8):
        real = bench.run(name, SYNCHRONOUS[name], ranks)
        assert np.array_equal(real["models"][:], simulated["models"][:]), f"models differ on {ranks} ranks"
        for metric in ("test_loss", "test_accuracy", "consensus_distance"):
            assert np.array_equal(real["evaluation"][metric][:], simulated["evaluation"][metric][:]), metric
        assert np.array_equal(real["steps/train_loss"][:], simulated["steps/train_loss"][:]), "train_loss"
        assert np.all(real["nodes/bytes_sent"][:] == simulated["nodes/bytes_sent"][:]), "bytes"


def check_wagma(bench):
    """Wait-avoiding: clean end, staleness at most tau - 1, equal models after the last (global) step."""
    settings = ["algorithm.kind=wagma", "algorithm.group_size=4", "algorithm.tau=6"]
    for repetition in range(REPETITIONS):
        results = bench.run("wagma", [*settings, f"run.seed={repetition}"], ranks=8)
        models = results["models"][:]
        assert np.all(models == models[0]), "models differ after a global step"
        staleness = results["steps/staleness"][:]
        assert np.nanmax(staleness) <= 5, np.nanmax(staleness)
        assert np.all(results["nodes/steps"][:] == 24)


def check_adpsgd(bench):
    """Clean end; without gradients after the first step the mean stays where that step put it."""
    settings = ["algorithm.kind=adpsgd", "algorithm.momentum=0", "algorithm.schedule=step", "algorithm.decay_steps=1",
                "algorithm.decay_factor=1e-30", "topology.kind=complete"]
    for repetition in range(REPETITIONS):
        seed = f"run.seed={repetition}"
        results = bench.run("adpsgd", [*settings, seed], ranks=8)
        mean = results["models"][:].astype(np.float64).mean(axis=0)
        # One step of allreduce SGD moves the mean by the mean gradient at the common start: the same sum.
        exact = bench.run("one_step", ["algorithm.kind=allreduce", "algorithm.momentum=0", "run.steps=1", seed])
        error = np.abs(mean - exact["models"][0].astype(np.float64)).max()
        assert error < 1e-6, f"the sum of models moved by {error}"


def check_clean_end(bench, name):
    """An asynchronous algorithm ends on 8 ranks, with all steps made and finite models."""
    settings = [f"algorithm.{key}" for key in ASYNCHRONOUS[name]]
    for repetition in range(3):
        results = bench.run(name, [*settings, f"run.seed={repetition}"], ranks=8)
        assert np.all(results["nodes/steps"][:] == 24)
        assert np.isfinite(results["models"][:]).all()


def main():
    starling, mpirun, *only = sys.argv[1:]
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="starling_parity") as folder:
        bench = Bench(os.path.abspath(starling), mpirun, folder)
        cases = {name: lambda name=name: check_parity(bench, name) for name in SYNCHRONOUS}
        cases["wagma_wait_avoiding"] = lambda: check_wagma(bench)
        cases["adpsgd"] = lambda: check_adpsgd(bench)
        cases.update({name: lambda name=name: check_clean_end(bench, name) for name in ASYNCHRONOUS})
        for name, case in cases.items():
            if only and name not in only:
                continue
            try:
                case()
                passed += 1
            except (AssertionError, subprocess.TimeoutExpired, OSError, KeyError) as error:
                failed += 1
                print(f"FAILED {name}: {error}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
