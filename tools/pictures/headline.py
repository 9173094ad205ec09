"""What stands above the picture of a run: who ran what, and how it ended."""
import configparser
import pathlib
import re

from pictures.style import duration_text

MOST_STATUS = 60         # letters of how a run ended


def shortened(status):
    """As many of its clauses as a subtitle has room for."""
    if len(status) <= MOST_STATUS:
        return status
    clauses = [part.start() for part in re.finditer(r"[:;,] | \(", status[:MOST_STATUS])]
    end = clauses[-1] if clauses and clauses[-1] > len("interrupted: ") else status.rfind(" ", 0, MOST_STATUS)
    return status[:end if end > 0 else MOST_STATUS] + " …"


def headline(results, path):
    """Title and subtitle: who ran what, and how it ended."""
    settings = configparser.ConfigParser(inline_comment_prefixes=("#",), strict=False, interpolation=None)
    try:
        settings.read_string(results.scenario)
    except configparser.Error:
        pass

    def fact(key):
        return results.facts.get(key) or settings.get(key, "kind", fallback="")

    nodes = f"{results.node_count:,} node{'s' * (results.node_count != 1)}"
    parts = [fact("algorithm"), nodes]
    is_real = results.facts.get("transport") == "mpi"  # whatever network its scenario names
    parts += [f"{fact(key)} {key}" for key in ("topology", "network")[:1 if is_real else 2] if fact(key) not in ("", "not read")]
    parts += ["over MPI"] if is_real else []
    seed = results.facts.get("seed") or settings.get("run", "seed", fallback="")
    parts += [f"seed {seed}"] if seed else []
    status = results.facts.get("status", "complete")
    parts += [status.upper() if len(status) < 20 else shortened(status)] if status != "complete" else []
    outcome = []
    accuracy, loss, area = (results.last(metric) for metric in ("test_accuracy", "test_loss", "test_auc"))
    if 0 < results.diverged_nodes == results.node_count:
        outcome.append("all nodes diverged")
    elif len(accuracy):
        outcome.append(f"test accuracy {accuracy[-1]:.1%}")
    elif len(area):
        outcome.append(f"test AUC {area[-1]:.3f}")
    elif len(loss):
        outcome.append(f"test loss {loss[-1]:.4g}")
    if results.end > 0:
        fewest, most = int(results.nodes["steps"].min()), int(results.nodes["steps"].max())
        clock = "wall time" if results.clock == "time" else results.clock
        steps = f"{fewest:,} to {most:,}" if fewest < most else f"{most:,}"
        outcome.append(f"{steps} {'step' if most == 1 else 'steps'} in {duration_text(results.end)} of {clock}")
        if results.computing() is not None:  # nodes may end long before the last one, so this is no share of that time
            outcome.append(f"nodes compute {results.computing():.0%} of theirs{' up to their last steps' if results.serves() else ''}")
    workload = fact("workload")
    return pathlib.Path(path).stem, " · ".join(part for part in parts + [workload] if part), ", ".join(outcome)
