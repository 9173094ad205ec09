"""Metrics of runs and outcomes of sweeps: how they are called and written, which are shares, and which are better the higher."""
from pictures.style import Failure, byte_scale, short

METRICS = {"test_accuracy": "Test accuracy", "test_auc": "Test AUC", "test_loss": "Test loss", "train_loss": "Training loss",
           "own_test_accuracy": "Nodes' own test accuracy", "worst_test_accuracy": "Worst node's test accuracy",
           "own_test_loss": "Nodes' own test loss", "consensus_distance": "Consensus distance"}
AXES = {"time": "time", "step": "steps", "samples": "samples", "epoch": "epochs", "bytes_sent": "bytes sent by all nodes"}
QUALITIES = ("test_accuracy", "test_auc", "test_loss")  # of which the first that is known is drawn
UP_TO_1 = ("test_accuracy", "test_auc", "own_test_accuracy", "worst_test_accuracy")
OUTCOMES = {
    "test_accuracy": "Test accuracy of the mean model", "best_test_accuracy": "Best test accuracy of the mean model",
    "test_auc": "Test AUC of the mean model", "best_test_auc": "Best test AUC of the mean model",
    "test_loss": "Test loss of the mean model", "samples_per_second": "Throughput, samples/s",
    "running_steps_per_second": "Steps/s of all nodes while they run", "first_finish_seconds": "End of the first node, s",
    "step_time_seconds": "Time per step, s", "virtual_time_seconds": "Virtual time, s",
    "own_test_accuracy": "Test accuracy of nodes' own models", "worst_test_accuracy": "Test accuracy of the worst node's own model",
    "own_test_loss": "Test loss of nodes' own models", "wait_share": "Share of time waiting", "consensus_distance": "Consensus distance",
    "target_reached": "Share of runs that get to the target", "target_time_seconds": "Virtual time to the target, s, of runs that get there",
    "target_step": "Steps to the target, of runs that get there", "target_bytes": "Bytes sent up to the target, of runs that get there",
}
TARGET_AXES = {"target_time_seconds": "time", "target_step": "step", "target_bytes": "bytes_sent"}  # outcomes, and columns of evaluations
SHARES = ("test_accuracy", "best_test_accuracy", "own_test_accuracy", "worst_test_accuracy", "target_reached",
          "wait_share", "compute_share", "communicate_share")  # written in percent
HIGHER_IS_BETTER = ("test_accuracy", "best_test_accuracy", "own_test_accuracy", "worst_test_accuracy", "test_auc", "best_test_auc",
                    "samples_per_second", "steps_per_second", "running_steps_per_second", "compute_share", "spectral_gap", "target_reached")


def in_words(metric):
    """The name of a metric within a sentence."""
    return METRICS[metric][0].lower() + METRICS[metric][1:]


def title_of(outcome):
    words = outcome.replace("_", " ")
    return OUTCOMES.get(outcome, words[0].upper() + words[1:])


def write_outcome(outcome, value, digits=3):
    """The text of a value, of shares in percent without its sign."""
    if outcome in SHARES:
        return f"{100 * value:.{digits - 2}f}"
    factor, unit = byte_scale(value) if "bytes" in outcome else (1, "")
    return f"{short(value * factor, digits)} {unit}".rstrip()


def digits_that_tell(outcome, values):
    """So many that the least and the greatest of `values` do not read alike, 3 to 5."""
    if len(values) == 0 or values.min() == values.max():
        return 3
    return next((digits for digits in (3, 4) if write_outcome(outcome, values.min(), digits) != write_outcome(outcome, values.max(), digits)), 5)


def check_targets(metric, targets):
    """Accuracies and AUC are shares: 90 would be an empty panel."""
    for target in targets:
        if metric in UP_TO_1 and not 0 < target <= 1:
            raise Failure(f"--target {target:g}: a {in_words(metric)} is above 0 and at most 1: 0.9 for 90 %")
