#!/usr/bin/python3
"""The same algorithm file simulated and over real MPI.

Synchronous algorithms must end with the same models to the bit, on 4 and on 8 ranks (most on one of these), also with random
modeled delays. Asynchronous ones must end cleanly on 8 ranks, again and again, and keep what they promise whatever the order of
events: bounds of staleness, equal replicas, and above all the sum of what all nodes learnt. And each real asynchronous
run, replayed, must end with the same models to the bit.

usage: test_mpi_parity.py STARLING MPIRUN RUNS_OVER_MPI [--repetitions=N] [case ...]

Real runs are made first, by RUNS_OVER_MPI; the cases look at what they left. N is how often each asynchronous case runs, each
time with another seed: 3, or STARLING_REPETITIONS.
"""

import functools
import os
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np
from runs import mpi_environment

BASE = """
[run]
nodes = 8
steps = 24
seed = 3
record_every = 1
evaluate_every = 6
evaluate_nodes = yes
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
"""

# Gradients that do not depend on the model: curvature 0, noise drawn by (seed, node, draw). Then a sum over everything
# that was learnt is known before a run begins, in whatever order messages come.
DRIFT = BASE[:BASE.index("[workload]")] + """
[workload]
kind = quadratic
dimension = 500
curvature_min = 0
curvature_max = 0
noise = 1
[algorithm]
learning_rate = 0.05
"""

SYNCHRONOUS = {
    "allreduce_ring": ["algorithm.kind=allreduce", "algorithm.collective=ring"],
    "allreduce_doubling": ["algorithm.kind=allreduce", "algorithm.collective=recursive_doubling"],
    "allreduce_rabenseifner": ["algorithm.kind=allreduce", "algorithm.collective=rabenseifner"],
    "allreduce_twelve_nodes": ["algorithm.kind=allreduce", "run.nodes=12", "topology.kind=ring"],
    "local_sgd": ["algorithm.kind=local_sgd", "algorithm.period=4"],
    "dpsgd_combine": ["algorithm.kind=dpsgd", "algorithm.order=combine_while_adapt"],
    "dpsgd_adapt": ["algorithm.kind=dpsgd", "algorithm.order=adapt_then_combine"],
    "sgp": ["algorithm.kind=sgp"],
    "sgp_averaged_over_steps": ["algorithm.kind=sgp", "run.swa_start=5", "run.swa_period=3"],
    "wagma_full": ["algorithm.kind=wagma", "algorithm.group_size=4", "algorithm.tau=5", "algorithm.activation=full"],
}
# The same on 4 or on 8 ranks, in turn: whether a rank has one node or two is the transport's business, which those above test.
FURTHER_SYNCHRONOUS = {
    "post_local_sgd": ["kind=local_sgd", "period=4", "switch_step=7"],
    "hierarchical_local_sgd": ["kind=local_sgd", "period=6", "group_sizes=2, 3", "group_periods=1, 3", "momentum=0.5", "momentum_policy=average"],
    "slowmo": ["kind=slowmo", "period=4"],
    "slowmo_local_period": ["kind=slowmo", "period=6", "local_period=4"],
    "slowmo_sgp": ["kind=slowmo", "base=sgp", "period=4"],
    "bmuf": ["kind=bmuf", "period=4"],
    "bmuf_alone": ["kind=bmuf", "period=4", "alone_steps=5"],
    "bmuf_average": ["kind=bmuf", "period=4", "momentum=0.5", "momentum_policy=average"],
    "diloco": ["kind=diloco", "period=4"],
    "streaming_diloco": ["kind=streaming_diloco", "period=6", "fragments=3"],
    "easgd": ["kind=easgd", "period=3"],
    "parameter_server": ["kind=parameter_server", "servers=3"],
    "dasgd": ["kind=dasgd", "merge=delta", "delay=2"],
    "adaptive_period": ["kind=adaptive_period", "low=0.9", "high=1.1"],
    "dpsgd_tensors": ["kind=dpsgd", "exchange=tensors"],
    "dmsgd_tensors": ["kind=dpsgd", "order=adapt_then_combine", "exchange=tensors", "momentum=0.5",
                      "momentum_policy=mix"],
    "dpsgd_overlap": ["kind=dpsgd", "exchange=tensors", "overlap=backward"],
    "dpsgd_rounds": ["kind=dpsgd", "rounds=3", "momentum=0.5", "momentum_policy=mix", "exchange=tensors", "overlap=backward"],
    "sgp_buckets": ["kind=sgp", "peers=two_peer", "exchange=buckets", "bucket_size=4 kB"],
    "sgp_local_steps": ["kind=sgp", "local_steps=2", "peers=both_ways"],
    "allreduce_tensors": ["kind=allreduce", "exchange=tensors", "collective=by_size"],
    "allreduce_by_hosts": ["kind=allreduce", "collective=hierarchical", "collective_group=2", "exchange=buckets", "bucket_size=4 kB"],
    "allreduce_by_owners": ["kind=allreduce", "compression=sign", "code_route=owners"],
    "allreduce_half": ["kind=allreduce", "compression=half", "code_route=sums", "exchange=tensors", "overlap=backward"],
    "local_sgd_bfloat_ring": ["kind=local_sgd", "period=3", "compression=bfloat", "code_route=sums", "collective=ring"],
    "wagma_tensors": ["kind=wagma", "group_size=4", "tau=5", "activation=full", "exchange=tensors"],
    "gradient_tracking": ["kind=gradient_tracking", "momentum=0"],
    "push_pull": ["kind=push_pull", "momentum=0"],
    "local_gossip": ["kind=local_gossip"],
    "choco": ["kind=choco", "compression=top_k", "keep=0.1", "consensus_rate=0.4"],
    "choco_overlapped": ["kind=choco", "order=mix_old", "compression=random_k", "keep=0.2", "consensus_rate=0.2"],
    "choco_tensors": ["kind=choco", "compression=levels", "unit=tensors", "consensus_rate=0.4"],
    "dcd": ["kind=dcd", "compression=levels", "levels=31"],
    "moniqua": ["kind=moniqua", "rounding=shifted"],
    "sgp_half": ["kind=sgp", "compression=half"],
    "cooperative": ["kind=local_gossip", "local_steps=3", "auxiliary=1"],
    "a2sgd": ["kind=a2sgd"],
    "dgc": ["kind=dgc", "keep=0.01"],
    "gtop_k": ["kind=gtop_k", "keep=0.02"],
    "cser": ["kind=cser", "blocks=8", "reset_period=3"],
    "def": ["kind=def", "blocks=8"],
    "saef": ["kind=def", "blocks=8", "lambda=1", "residual_period=3"],
    "lqsgd": ["kind=lqsgd"],
    "lqsgd_tree": ["kind=lqsgd", "route=tree", "rotation=hadamard", "bits=5"],
    "float4": ["kind=streaming_diloco", "period=6", "fragments=3", "compression=float4"],
    "dropping": ["kind=allreduce", "compression=gradient_dropping", "keep=0.05", "sample=0.1"],
    "strom": ["kind=allreduce", "compression=threshold_quantization", "threshold=0.001", "keep=0.1"],
    "dryden": ["kind=allreduce", "compression=adaptive_quantization", "keep=0.02"],
    "adamw": ["kind=local_sgd", "period=4", "optimizer=adamw", "weight_decay=0.1", "clip_norm=1",
              "momentum_policy=average"],
    "adamp": ["kind=local_sgd", "period=4", "optimizer=adamp", "weight_decay=0.1", "projection_delta=1", "momentum_policy=average"],
    "sgdp": ["kind=dpsgd", "optimizer=sgdp", "momentum=0.9", "nesterov=yes", "weight_decay=0.01", "projection_delta=1"],
    "diloco_adaptive": ["kind=diloco", "period=4", "optimizer=adagrad", "outer_optimizer=adam"],
    "coda": ["kind=coda", "period=3", "stage_steps=7"],
    "epidemic": ["kind=epidemic"],
    "qsparse_local_sgd": ["kind=local_sgd", "period=4", "compression=top_k", "keep=0.1"],
    "slowmo_coded_gossip": ["kind=slowmo", "base=gossip", "period=4", "compression=half"],
    "terngrad": ["kind=terngrad"],
    "token_walk": ["kind=token_walk"],
    "swarm_blocking": ["kind=swarm", "averaging=blocking"],
    "compressed_parameter_server": ["kind=compressed_parameter_server", "direction=both", "keep=0.05",
                                    "downlink_keep=0.1"],
    "d2": ["kind=d2", "mixing=exact_diffusion"],
    "deep_squeeze": ["kind=deep_squeeze", "compression=top_k", "keep=0.25", "consensus_rate=0.2"],
    "ecd": ["kind=ecd", "compression=levels", "levels=127"],
    "one_bit": ["kind=one_bit", "exact_steps=5"],
    "allreduce_coded_tensors": ["kind=allreduce", "compression=top_k", "keep=0.1", "exchange=tensors", "overlap=backward"],
    "allreduce_owned_tensors": ["kind=allreduce", "compression=levels", "code_route=owners", "exchange=tensors"],
    "dgc_tensors": ["kind=dgc", "keep=0.1", "exchange=tensors", "overlap=backward"],
    "powersgd": ["kind=powersgd"],
    "powersgd_alternating": ["kind=powersgd", "sides=alternating", "exact_steps=2"],
    "powersgd_tensors": ["kind=powersgd", "exchange=tensors", "overlap=backward"],
    "quasi_global": ["kind=quasi_global"],
    "relay": ["kind=relay", "exchange=tensors"],
    "sign_sgd": ["kind=sign_sgd"],
    "sign_sgd_sharded": ["kind=sign_sgd", "servers=3", "weight_decay=0.1"],
}
SYNCHRONOUS.update({name: [f"algorithm.{key}" for key in keys] for name, keys in FURTHER_SYNCHRONOUS.items()})
for settings in SYNCHRONOUS.values():
    if not any("optimizer=" in setting or "momentum=" in setting for setting in settings):
        settings.append("algorithm.momentum=0.5")
SYNCHRONOUS["a2sgd_stand_in"] = ["algorithm.kind=a2sgd", "algorithm.collective=ring", "workload.wire_parameters=50000"]
SYNCHRONOUS["random_matching"] = ["algorithm.kind=dpsgd", "topology.kind=random_matching"]
SYNCHRONOUS["equi_dynamic"] = ["algorithm.kind=dpsgd", "topology.kind=equi_dynamic"]
# Kinds whose nodes send by a fibre beside the program, too: how much they have sent when a step ends is a matter of time.
SENDS_BESIDE = ("compressed_parameter_server", "dasgd", "easgd", "parameter_server", "sign_sgd", "sign_sgd_sharded", "streaming_diloco", "terngrad", "wagma")
# The law each asynchronous algorithm keeps over MPI, see below.
ASYNCHRONOUS = {
    "adpsgd": ("mean", ["kind=adpsgd"]),
    "adpsgd_bipartite": ("mean", ["kind=adpsgd", "pairs=bipartite_exponential", "neighbor=cycle"]),
    "slowmo_adpsgd": ("mean", ["kind=slowmo", "base=adpsgd", "period=4", "slow_momentum=0"]),
    "swarm": ("mean", ["kind=swarm"]),
    "swarm_one_sided": ("clean_end", ["kind=swarm", "averaging=one_sided", "alone_steps=2"]),
    "swarm_quantized": ("clean_end", ["kind=swarm", "compression=lattice", "cell=0.01"]),
    "pairwise_gossip": ("mean", ["kind=pairwise_gossip"]),
    "push_sum": ("mass", ["kind=push_sum", "gradient=numerator"]),
    "overlap_sgp": ("mass", ["kind=overlap_sgp"]),
    "async_parameter_server": ("server", ["kind=async_parameter_server"]),
    "async_parameter_server_coded": ("clean_end", ["kind=async_parameter_server", "servers=2", "compression=top_k",
                                                   "keep=0.1"]),
    "async_diloco_coded": ("clean_end", ["kind=async_diloco", "period=4", "compression=levels", "levels=7"]),
    "async_diloco": ("server", ["kind=async_diloco", "period=4", "outer_momentum=0"]),
    "easgd": ("elastic", ["kind=easgd", "order=asynchronous", "period=1"]),
    # A node that misses an operation gets its sum before the next one, which waits for all.
    "eager": ("all", ["kind=eager", "full_every=2"]),
    "parameter_server_backups": ("equal", ["kind=parameter_server", "backup_nodes=2"]),
    "wagma": ("wagma", ["kind=wagma", "group_size=4", "tau=6"]),
}
# Replayed beside them: what looks at the clock or at what has come already, and more nodes than ranks.
REPLAYED = {name: [f"algorithm.{key}" for key in keys] for name, (law, keys) in ASYNCHRONOUS.items()}
REPLAYED.update({
    "adpsgd_patience": ["algorithm.kind=adpsgd", "algorithm.patience=300 us"],
    "adpsgd_twelve_nodes": ["algorithm.kind=adpsgd", "run.nodes=12", "topology.kind=ring"],
    "swarm_tensors": ["algorithm.kind=swarm", "algorithm.exchange=tensors"],
    "push_sum_patience": ["algorithm.kind=push_sum", "algorithm.patience=1 s"],
    "async_parameter_server_bounded": ["algorithm.kind=async_parameter_server", "algorithm.consistency=bounded",
                                       "algorithm.servers=3"],
    "async_diloco_grace": ["algorithm.kind=async_diloco", "algorithm.period=4", "algorithm.grace=3 ms"],
    "async_diloco_by_speed": ["algorithm.kind=async_diloco", "algorithm.period=4",
                              "algorithm.local_steps=by_speed"],
    "epidemic_deadline": ["algorithm.kind=epidemic", "algorithm.agreement=deadline", "algorithm.timeout=2 ms"],
    "slowmo_overlap_sgp": ["algorithm.kind=slowmo", "algorithm.base=overlap_sgp", "algorithm.period=4"],
    "eager_majority": ["algorithm.kind=eager", "algorithm.activation=majority", "algorithm.exchange=tensors"],
    "gc_dc": ["algorithm.kind=gc_dc"],
    "gradient_coding": ["algorithm.kind=gradient_coding"],
    "token_walk": ["algorithm.kind=token_walk"],
})
# What the server's model has moved by at the end, in units of allreduce SGD's: all gradients in full, or DiLoCo's outer
# learning rate of 0.7 times their mean.
SERVER_SCALE = {"async_parameter_server": 8, "async_diloco": 0.7}
# Pulls without gradients bring the last node and the anchor together: each leaves 7/8 of a difference, e^-16 after 120.
MORE_SETTINGS = {"elastic": ["run.steps=144", "algorithm.schedule=step", "algorithm.decay_steps=24", "algorithm.decay_factor=1e-30",
                             "algorithm.elasticity=0.125"]}
TIMEOUT = 120


class Bench:
    """Runs scenarios in a temporary folder."""

    def __init__(self, starling, folder):
        self.starling, self.folder = starling, folder
        self.moves = {}
        self.needed_order = 0  # replays that differ from the simulation
        for text, path in ((BASE, "parity.ini"), (DRIFT, "drift.ini")):
            with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                file.write(text)

    def path_of(self, name, ranks=0):
        """The results file; ranks = 0: of a simulation."""
        return os.path.join(self.folder, f"{name}_{ranks}.h5")

    def call(self, command, timeout):
        """What the command prints, and its exit status."""
        environment = mpi_environment(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")
        done = subprocess.run(command, env=environment, timeout=timeout, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.stdout, done.returncode

    def simulate(self, name, settings, scenario="parity.ini"):
        """Returns the results file, opened."""
        path = self.path_of(name)
        command = [self.starling, "run", os.path.join(self.folder, scenario), "--quiet", "-o", path, *settings]
        said, status = self.call(command, TIMEOUT)
        assert status == 0, f"{' '.join(command)}\n{said}"
        return h5py.File(path, "r")

    def run_all(self, command, ranks, runs):
        """Over MPI, one after the other: {name: (scenario, settings)}."""
        lines = []
        for name, (scenario, settings) in runs.items():
            words = [os.path.join(self.folder, scenario), *settings, f"run.output={self.path_of(name, ranks)}"]
            lines.append("\t".join(words) + "\n")
        path = os.path.join(self.folder, f"runs_{ranks}.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(lines)
        said, status = self.call([*command, path], TIMEOUT * len(runs))
        assert status == 0, f"runs on {ranks} ranks, status {status}\n{said[-2000:]}"

    def real(self, name, ranks):
        """Returns the results file of a real run, opened."""
        return h5py.File(self.path_of(name, ranks), "r")

    def learnt(self, seed):
        """What one node of allreduce SGD has moved by at the end of drift.ini; simulated once per seed."""
        if seed not in self.moves:
            exact = self.simulate("exact", ["algorithm.kind=allreduce", seed], scenario="drift.ini")
            self.moves[seed] = exact["models"][0].astype(np.float64)
        return self.moves[seed]


def ranks_of(name):
    """Of a synchronous case."""
    further = list(FURTHER_SYNCHRONOUS)
    return ((4, 8)[further.index(name) % 2],) if name in further else (4, 8)


def drifting(name, repetition):
    """The settings of an asynchronous case, and what names its results."""
    law, keys = ASYNCHRONOUS[name]
    settings = [*(f"algorithm.{key}" for key in keys), *MORE_SETTINGS.get(law, []), f"run.seed={repetition}"]
    return f"{name}_seed_{repetition}", settings


def real_runs(cases, repetitions):
    """Of these cases, by ranks: {name: (scenario, settings)}."""
    runs = {4: {}, 8: {}}
    for name, settings in SYNCHRONOUS.items():
        for ranks in ranks_of(name) if name in cases else ():
            runs[ranks][name] = ("parity.ini", settings)
    for name in ASYNCHRONOUS:
        for repetition in range(repetitions if name in cases else 0):
            results, settings = drifting(name, repetition)
            runs[8][results] = ("drift.ini", settings)
    for name, settings in REPLAYED.items():
        if f"replay_{name}" in cases:
            runs[8][f"recorded_{name}"] = ("parity.ini", settings)
    return runs


def check_parity(bench, name):
    """Models and all evaluations equal those of the simulation, bit for bit."""
    simulated = bench.simulate(name, SYNCHRONOUS[name])
    for ranks in ranks_of(name):
        real = bench.real(name, ranks)
        assert np.array_equal(real["models"][:], simulated["models"][:]), f"models differ on {ranks} ranks"
        for metric in ("test_loss", "test_accuracy", "consensus_distance"):
            assert np.array_equal(real["evaluation"][metric][:], simulated["evaluation"][metric][:]), metric
        # A node that computes nothing at a step has no loss there.
        assert np.array_equal(real["steps/train_loss"][:], simulated["steps/train_loss"][:], equal_nan=True), "train_loss"
        kind = next(setting.partition("=")[2] for setting in SYNCHRONOUS[name] if setting.startswith("algorithm.kind="))
        for table in ("nodes",) if kind in SENDS_BESIDE else ("nodes", "steps", "evaluation"):
            assert np.array_equal(real[table]["bytes_sent"][:], simulated[table]["bytes_sent"][:]), f"bytes by {table}"


def check_law(name, law, results, learnt):
    """`learnt`: what allreduce SGD's model has moved by after as many steps of the same gradients."""
    models = results["models"][:].astype(np.float64)
    assert np.all(results["nodes/steps"][:] == (144 if law == "elastic" else 24)), "steps are missing"
    assert np.isfinite(models).all(), "a model is not finite"
    error = 0.0
    if law == "mean":  # exchanges conserve the sum of models, gradients in between included
        error = np.abs(models.mean(axis=0) - learnt).max()
    elif law == "mass":  # push-sum: the sum of weight times model, and the weights sum to the number of nodes
        weights = results["steps/push_sum_weight"][-1].astype(np.float64)
        assert abs(weights.sum() - 8) < 1e-6, f"weights sum to {weights.sum()}"
        error = np.abs((weights[:, None] * models).sum(axis=0) / 8 - learnt).max()
    elif law == "server":  # whoever was answered last holds the server's model: every push in it, each once
        error = np.abs(models - SERVER_SCALE[name] * learnt).max(axis=1).min() / SERVER_SCALE[name]
    elif law == "elastic":  # the sum of models and anchor, which the last node has come to
        anchor = models[results["nodes/finished"][:].argmax()]
        error = np.abs(models.sum(axis=0) + anchor - 8 * learnt).max() / 8
    elif law == "all":  # every gradient is in one sum, and everybody has all sums
        error = np.abs(models - learnt).max()
    elif law == "equal":  # replicas
        error = np.abs(models - models[0]).max()
    elif law == "wagma":  # equal models after the last, global step; staleness below tau
        error = np.abs(models - models[0]).max()
        assert np.nanmax(results["steps/staleness"][:]) <= 5, np.nanmax(results["steps/staleness"][:])
    assert error < 1e-6, f"{law}: off by {error}"


def check_asynchronous(bench, name, repetitions):
    law, _ = ASYNCHRONOUS[name]
    for repetition in range(repetitions):
        learnt = bench.learnt(f"run.seed={repetition}")
        assert np.abs(learnt).max() > 0.02, "nothing was learnt"
        check_law(name, law, bench.real(drifting(name, repetition)[0], 8), learnt)


def check_replay(bench, name):
    """A replay has the models and losses of the real run, to the bit."""
    real = bench.real(f"recorded_{name}", 8)
    path = real.filename
    replayed = bench.simulate(f"{name}_replay", ["--replay", path], scenario=os.path.basename(path))
    assert np.array_equal(replayed["models"][:], real["models"][:]), "models differ"
    assert np.array_equal(replayed["steps/train_loss"][:], real["steps/train_loss"][:], equal_nan=True), "losses differ"
    said = replayed["facts"].attrs["replay"].decode()
    assert said == "the same losses and models as recorded", said
    for sent in ("nodes/messages_sent", "steps/bytes_sent", "evaluation/bytes_sent"):
        assert np.array_equal(replayed[sent][:], real[sent][:]), sent
    free = bench.simulate(f"{name}_free", [], scenario=os.path.basename(path))
    bench.needed_order += not np.array_equal(free["models"][:], real["models"][:])


def check_order_matters(bench):
    """Most of the runs would come out otherwise if the order were left to the simulation."""
    assert bench.needed_order > len(REPLAYED) // 2, f"only {bench.needed_order} of {len(REPLAYED)} did"


def check_catalog(starling):
    """Every algorithm is compared: a new one needs a case."""
    listed = subprocess.run([starling, "list", "--brief"], timeout=TIMEOUT, text=True, stdout=subprocess.PIPE, check=True)
    lines = listed.stdout.split("\ntopologies ")[0].splitlines()[1:]
    algorithms = {line.split()[0] for line in lines}
    assert "dpsgd" in algorithms, listed.stdout
    cases = [*SYNCHRONOUS.values(), *REPLAYED.values()]
    missing = [name for name in sorted(algorithms) if not any(f"algorithm.kind={name}" in case for case in cases)]
    assert not missing, f"no case runs {', '.join(missing)}"


def main():
    starling, mpirun, runs_over_mpi, *only = sys.argv[1:]
    repetitions = int(os.environ.get("STARLING_REPETITIONS", "3"))
    for word in [word for word in only if word.startswith("--repetitions=")]:
        repetitions = int(word.partition("=")[2])
        only.remove(word)
    with tempfile.TemporaryDirectory(prefix="starling_parity") as folder:
        bench = Bench(os.path.abspath(starling), folder)
        cases = {name: lambda name=name: check_parity(bench, name) for name in SYNCHRONOUS}
        cases.update({name: lambda name=name: check_asynchronous(bench, name, repetitions) for name in ASYNCHRONOUS})
        cases.update({f"replay_{name}": lambda name=name: check_replay(bench, name) for name in REPLAYED})
        cases["order_matters"] = lambda: check_order_matters(bench)
        cases["catalog"] = lambda: check_catalog(bench.starling)
        if only:
            cases = {name: cases[name] for name in only}
        for ranks, runs in real_runs(cases, repetitions).items():
            if runs:
                command = [mpirun, "-n", str(ranks), os.path.abspath(runs_over_mpi)]
                cases = {f"runs_on_{ranks}_ranks": functools.partial(bench.run_all, command, ranks, runs), **cases}
        suite = unittest.TestSuite(unittest.FunctionTestCase(case, description=name) for name, case in cases.items())
        is_good = unittest.TextTestRunner().run(suite).wasSuccessful()
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
