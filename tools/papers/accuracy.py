"""Accuracies of the WAGMA-SGD paper, Fig. 5, ablations and text, on a small task: scenarios/papers/wagma_accuracy.ini under
every algorithm compared there, over several seeds. How the setting was found is said in that file.

Accuracies of ResNet-50 on ImageNet and of a small network on digits have nothing in common but, at best, their order. Every pair
of algorithms is compared, seed by seed: its gap counts from two standard errors of the mean over seeds on.
"""
import itertools

import numpy as np

from papers.table import Table

# What to change in the scenario, whose algorithm is WAGMA. Keys of WAGMA must go where they mean nothing.
VARIANTS = {
    "allreduce": ["algorithm.kind=allreduce"],
    "local_sgd": ["algorithm.kind=local_sgd", "algorithm.period=1"],
    "eager": ["algorithm.kind=eager", "algorithm.full_every=32", "algorithm.synchronize_every=28"],  # 28 steps are 10 epochs
    "wagma": [],
    "sgp": ["algorithm.kind=sgp", "topology.kind=one_peer_exponential"],
    "dpsgd": ["algorithm.kind=dpsgd"],
    "dpsgd_two_rounds": ["algorithm.kind=dpsgd", "algorithm.rounds=2"],
    "adpsgd": ["algorithm.kind=adpsgd", "algorithm.pairs=bipartite"],
    "wagma with fixed groups": ["algorithm.groups=fixed"],
    "wagma with groups of 4": ["algorithm.group_size=4"],
    "every tau steps only": ["algorithm.kind=local_sgd", "algorithm.period=10"],
}
# Twice the batch for equally many epochs, at twice the learning rate, as in the paper, which scales it with the batch.
NO_DELAY = ["compute.delay=default", "compute.delay_probability=default", "workload.batch_size=16", "run.steps=50",
            "algorithm.learning_rate=0.4"]
WAGMA_KEYS = ("group_size", "tau")
SEEDS = 12


def without_wagma_keys(settings):
    """Removes the keys of WAGMA if another algorithm runs: a key that nobody reads is an error."""
    if not any(setting.startswith("algorithm.kind=") for setting in settings):
        return lambda text: text
    return lambda text: "\n".join(line for line in text.splitlines() if line.split("=")[0].strip() not in WAGMA_KEYS) + "\n"


def run(bench, variant, seed, changes=()):
    """Epochs, times and accuracies (percent) of one run's evaluations."""
    settings = VARIANTS[variant]
    with bench.run("wagma_accuracy.ini", [f"run.seed={seed}", *settings, *changes], without_wagma_keys(settings)) as results:
        epoch, time, accuracy = (np.ravel(results["evaluation"][column][:]) for column in ("epoch", "time", "test_accuracy"))
        return epoch, time, 100 * accuracy


def accuracies(bench, variant, changes=()):
    """In the end, of every seed."""
    return [run(bench, variant, seed, changes)[2][-1] for seed in range(1, SEEDS + 1)]


def pairs_of(rows):
    """By what became of them, the pairs whose published values differ: "better > worse (gap +- its standard error)"."""
    pairs = {"as published": [], "inverted": [], "within noise": []}
    for better, worse in itertools.permutations(rows, 2):
        if better.published > worse.published:
            gaps = np.subtract(better.by_seed, worse.by_seed)
            gap, error = gaps.mean(), gaps.std(ddof=1) / np.sqrt(len(gaps))
            became = "within noise" if abs(gap) <= 2 * error else "as published" if gap > 0 else "inverted"
            pairs[became].append(f"{better.series} > {worse.series} ({gap:+.2f} +- {error:.2f})")
    return pairs


def order(rows):
    pairs = pairs_of(rows)
    told = [f"{len(pairs['as published'])} of {sum(map(len, pairs.values()))} pairs stand as published"]
    told += [f"{became}: {', '.join(pairs[became])}" for became in ("inverted", "within noise") if pairs[became]]
    return not pairs["inverted"], "; ".join(told)


TABLES = [
    Table("wagma_accuracy", "Fig. 5 and ablations: accuracies of a small network", "seeds", "% accuracy",
          lambda bench, variant, _: accuracies(bench, variant), 0, "dots", order),
    Table("wagma_accuracy_no_delay", "Text: accuracies without late nodes, a small network", "seeds", "% accuracy",
          lambda bench, variant, _: accuracies(bench, variant, NO_DELAY), 0, "dots", order),
]
