#!/usr/bin/python3
"""Scenarios of keys drawn at random, from the program's own list of them: whatever is combined, a run ends in results, or in
one sentence; and the results are the same, to the bit, of the scenario that the results file holds, on another number of threads
and in another window, and of a run that is killed and resumed. With mpirun instead: of a run that several processes share; and a real
run over MPI, replayed, ends in the same models.

usage: test_random.py STARLING [--mpirun MPIRUN]

STARLING_RANDOM_SCENARIOS=1000 makes it the long version, STARLING_RANDOM_SEED=7 another one.
"""
import collections
import os
import pathlib
import random
import re
import subprocess
import tempfile
import time

from program_case import ProgramCase, main
from runs import content

SEED = int(os.environ.get("STARLING_RANDOM_SEED", "1"))
MOST_CHANGES = 20  # until a scenario is one that runs

Key = collections.namedtuple("Key", "name default values conditions")

# Keys that name files, ask for other programs, or make runs long.
NOT_DRAWN = {
    "run": {"nodes", "steps", "output", "device", "precision", "patience", "checkpoint", "window"},
    "compute": {"pace", "trace", "samples", "distribution"},
    "failures": {"outages", "mean_time_to_repair"},
    "network": {"link_schedule", "file", "latencies", "bandwidths", "failure_interval", "fabric", "check"},
    "topology": {"path"},
    "workload": {"dataset", "partition", "path", "directory", "train_images", "train_labels", "test_images", "test_labels",
                 "test_path", "lengths", "start_file", "layers", "image", "net", "wire_parameters", "model"},
    "algorithm": set(),
}
# What is small, or fits others.
VALUES = {
    "nodes": ["1", "2", "3", "4", "5", "8", "8", "8"],
    "steps": ["1", "4", "25"],
    "gradient": ["1 ms", "5 ms"],
    "latency": ["0 s", "10 us", "1 ms"],
    "learning_rate": ["0.01", "0.1"],
    "parameters": ["1000", "50000"],
    "keep": ["0.01", "0.3", "1"],
    "stop": ["0 @ 5 ms", "1 @ 2 ms"],
    "pause": ["0 @ 1 ms for 5 ms", "1 @ 2 ms for 20 ms"],
    "join": ["0 @ 3 ms", "1 @ 3 ms"],
    "lose": ["0.02"],
    "duplicate": ["0.05", "0.5"],
}
WORKLOADS = {
    "quadratic": {},
    "linear": {"samples": "300", "test_samples": "40"},
    "softmax": {"dataset": "blobs", "samples": "300", "test_samples": "40"},
    "mlp": {"dataset": "blobs", "samples": "300", "test_samples": "40", "hidden": "12, 7"},
    "auc": {"dataset": "blobs", "samples": "300", "test_samples": "40"},
    "cnn": {"dataset": "digits", "layers": "conv 4 3x3 same, relu, pool 2, dense 8, relu", "batch_size": "4"},
    "transformer": {"dataset": "sequences", "samples": "200", "test_samples": "20", "context": "8", "width": "8"},
    "navigation": {"maps": "3", "horizon": "8", "test_episodes": "5", "rollout_steps": "4"},
    "timing": {"parameters": "5000"},
}
FABRICS = ["crossbar", "ring", "star", "torus", "hypercube", "fat_tree", "dragonfly"]
# How a run may end that fails: its nodes wait for what does not come, or the numbers overflow.
FAILURES = re.compile(r"starling: (stalled|deadlock) at |.*(not finite|diverged)|.* ended before node \d+ fetched")


class Catalog:
    """The keys of every section and kind, as `starling list --markdown` tells them."""

    def __init__(self, markdown):
        self.shared = collections.defaultdict(dict)
        self.own = collections.defaultdict(dict)
        self.lacking = {}
        section = kind = None
        for line in markdown.splitlines():
            if found := re.match(r"## \[(\w+)\]", line):
                section, kind = found[1], None
            elif found := re.match(r"### `(\w+)`", line):
                kind = found[1]
                self.own[section][kind] = {}
            elif found := re.match(r"\| `(\w+)` \| (.*?) \| (.*) \| (.*?) \|$", line):
                name, default, values, text = found.groups()
                condition = re.match(r"(with|unless) (.*?): ", text)
                keys = self.own[section][kind] if kind else self.shared[section]
                key = keys.setdefault(name, Key(name, default, values.split(" \\| "), []))  # another row: another condition
                parts = re.findall(r"(\w+) = (\w+(?: or \w+)*)", condition[2]) if condition else []
                key.conditions.append([(condition[1], *part) for part in parts])
            elif found := re.match(r"Has (no shared|the shared keys but (.*)\.)", line):
                self.lacking[section, kind] = set(re.findall(r"`(\w+)`", found[2])) if found[2] else None

    def kinds(self, section):
        return sorted(self.own[section])

    def keys(self, section, kind=None):
        lacking = self.lacking.get((section, kind), set())
        shared = {} if lacking is None else {name: key for name, key in self.shared[section].items() if name not in lacking}
        return {**shared, **(self.own[section][kind] if kind else {})}


def is_read(key, chosen, keys):
    """Whether what the key depends on has been chosen, as far as its description says so."""
    def holds(word, other, values):
        value = chosen.get(other, keys[other].default if other in keys else None)
        return (value in values.split(" or ")) == (word == "with")
    return any(all(holds(*part) for part in condition) for condition in key.conditions)


def draw_value(draw, key):
    """A value of the key's kind; None for texts."""
    if key.name in VALUES:
        return draw.choice(VALUES[key.name])
    if len(key.values) > 1:
        return draw.choice(key.values)
    default = [key.default] if re.fullmatch(r"[\d.e+-]+", key.default) else []
    choices = {
        "yes/no": ["yes", "no"],
        "integer": ["1", "2", "3", "5", *default],
        "number": ["0.1", "0.5", "1", *default],
        "numbers": ["1", "1, 2"],
        "duration": ["0 s", "1 ms", "10 ms"],
        "bytes": ["100 B", "1 kB"],
        "bandwidth": ["10 MB/s", "1 Gbit/s"],
    }
    return draw.choice(choices[key.values[0]]) if key.values[0] in choices else None


class Drawn:
    """A scenario: {section: {key: value}}."""

    def __init__(self, catalog, seed):
        self.catalog, self.draw = catalog, random.Random(seed)
        pick = self.draw.choice
        algorithm = pick(catalog.kinds("algorithm"))
        workload = "auc" if algorithm == "coda" else pick(sorted(WORKLOADS))
        network = pick(catalog.kinds("network"))
        self.sections = {}
        self.fill("run", None, {"nodes": pick(VALUES["nodes"]), "steps": pick(VALUES["steps"]), "save_models": "yes"}, 0.2)
        self.fill("topology", pick([kind for kind in catalog.kinds("topology") if kind != "file"]), {}, 0.3)
        self.fill("network", network, {"fabric": pick(FABRICS)} if network in ("fluid", "tcp") else {}, 0.15)
        self.fill("compute", None, {"distribution": pick(["constant", "lognormal", "exponential"])}, 0.15)
        self.fill("workload", workload, WORKLOADS[workload], 0.2)
        self.fill("algorithm", algorithm, {}, 0.3)
        if self.draw.random() < 0.3:
            self.fill("failures", None, {}, 0.3)

    def fill(self, section, kind, given, share):
        keys = self.catalog.keys(section, kind)
        chosen = {"kind": kind} if kind else {}
        chosen.update(given)
        # What others depend on comes first.
        for key in sorted(keys.values(), key=lambda key: len(key.values) == 1):
            if key.name in chosen or key.name in NOT_DRAWN[section] or not is_read(key, chosen, keys):
                continue
            if key.default == "required" or self.draw.random() < share:
                value = draw_value(self.draw, key)
                if value is not None:
                    chosen[key.name] = value
        self.sections[section] = chosen

    def mend(self, section, key):
        """Changes what was refused: without the key, or with one that was missing, or another kind. Whether it could."""
        values = self.sections.setdefault(section, {})
        if key == "kind":
            self.fill(section, self.draw.choice([kind for kind in self.catalog.kinds(section) if kind != "file"]), {}, 0.1)
        elif key in values and not (section == "run" and key in ("nodes", "steps")):
            del values[key]
        elif known := self.catalog.keys(section, values.get("kind")).get(key):
            values[key] = draw_value(self.draw, known) or "1"
        else:
            return False
        return True

    def text(self):
        return "".join(f"[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in values.items())
                       for section, values in self.sections.items())


class RandomScenariosTest(ProgramCase):
    limit = 120  # seconds of a run on a busy machine; most take a tenth of one

    def run_program(self, folder, threads, *words):
        return self.starling(*words, "-q", status=None, cwd=folder, stdout=subprocess.DEVNULL, environment={"OMP_NUM_THREADS": str(threads)})

    def run_processes(self, folder, processes, *words):
        return self.starling("run", *words, "-q", processes=processes, status=None, cwd=folder, stdout=subprocess.DEVNULL,
                             environment={"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"})

    def run_killed(self, folder):
        """As s.ini says, but killed at its first checkpoint, if it lives to write one, and resumed."""
        def has_checkpoint():  # without hard links there is none for a moment but the one before
            return any(pathlib.Path(folder, "killed.h5" + end).exists() for end in (".checkpoint", ".checkpoint.previous"))

        process = self.start("run", "s.ini", "-q", "-o", "killed.h5", "run.checkpoint=1 steps", cwd=folder, stdout=None, stderr=None)
        while process.poll() is None and not has_checkpoint():
            time.sleep(0.001)
        process.kill()
        process.wait()
        if has_checkpoint():
            resumed = self.run_program(folder, 3, "resume", "killed.h5")
            self.assertEqual(resumed.returncode, 0, resumed.stderr)

    def run_until_accepted(self, folder, scenario):
        """The process of the first variant that the program does not refuse; None if there is none so soon."""
        for _ in range(MOST_CHANGES):
            pathlib.Path(folder, "s.ini").write_text(scenario.text())
            done = self.run_program(folder, 1, "run", "s.ini", "-o", "one.h5")
            if done.returncode != 2:
                return done
            refused = re.match(r"starling: s\.ini(?::\d+)?: (\w+)\.(\w+) ", done.stderr)
            self.assertTrue(refused, f"a refusal that names no key: {done.stderr}")
            if not scenario.mend(*refused.groups()):
                return None
        return None

    def check_equal(self, folder, *names):
        one, two = (content(pathlib.Path(folder, name), ["scenario", "@scenario", "@settings"]) for name in names)
        self.assertEqual(sorted(one), sorted(two))
        self.assertEqual([], [name for name in one if one[name] != two[name]])

    def check_described(self, folder):
        self.starling("describe", "s.ini", cwd=folder)

    def check_repeated(self, folder, scenario):
        other = self.run_program(folder, 3, "run", "one.h5", "run.window=20 KiB", "-o", "other.h5")
        self.assertEqual(other.returncode, 0, other.stderr)
        self.check_equal(folder, "one.h5", "other.h5")
        if scenario.sections["run"].get("on_divergence") != "mark":  # which refuses checkpoints
            self.run_killed(folder)
            self.check_equal(folder, "one.h5", "killed.h5")

    def check_shared(self, folder, scenario):
        processes = min(int(scenario.sections["run"]["nodes"]), 4)
        is_refused = (scenario.sections["workload"]["kind"] == "timing" or "per_episode" in scenario.sections["compute"]
                      or scenario.sections["run"].get("on_divergence") == "mark")
        if processes == 1 or is_refused:
            return
        shared = self.run_processes(folder, processes, "one.h5", "-o", "shared.h5")
        self.assertEqual(shared.returncode, 0, shared.stderr)
        self.check_equal(folder, "one.h5", "shared.h5")

    def check_replayed(self, folder, scenario):
        """What only simulations have, and what ends by the clock, is left out."""
        run, workload = scenario.sections["run"], scenario.sections["workload"]
        if ("failures" in scenario.sections or workload["kind"] == "timing" or "per_episode" in scenario.sections["compute"]
                or run.keys() & {"until", "until_target"}):
            return
        real = self.run_processes(folder, min(int(run["nodes"]), 3), "s.ini", "--transport", "mpi", "run.record_order=yes", "-o", "real.h5")
        if real.returncode == 1 and re.search(FAILURES, real.stderr):  # on a busy machine patience ends sooner
            self.replays["failed"] += 1
            return
        self.assertEqual(real.returncode, 0, real.stderr)
        replayed = self.run_program(folder, 1, "run", "s.ini", "--replay", "real.h5", "-o", "replayed.h5")
        self.assertEqual(replayed.returncode, 0, replayed.stderr)
        models = [content(pathlib.Path(folder, name), [])["models"] for name in ("real.h5", "replayed.h5")]
        self.assertEqual(*models)
        self.replays["equal"] += 1

    def test_any_combination_ends_in_results_or_a_sentence(self):
        catalog = Catalog(self.starling("list", "--markdown").stdout)
        count = int(os.environ.get("STARLING_RANDOM_SCENARIOS", "15" if self.mpirun else "40"))
        completed = 0
        self.replays = collections.Counter()
        for number in range(count):
            scenario = Drawn(catalog, f"{SEED} {number}")
            with tempfile.TemporaryDirectory(prefix="starling-random-") as folder:
                done = self.run_until_accepted(folder, scenario)
                with self.subTest(number=number, scenario=scenario.text()):
                    if done is None:
                        continue
                    if done.returncode != 0:
                        self.assertEqual(done.returncode, 1, done.stderr)
                        self.assertRegex(done.stderr.strip().splitlines()[-1], FAILURES)
                        continue
                    self.check_described(folder)
                    if self.mpirun:
                        self.check_shared(folder, scenario)
                        self.check_replayed(folder, scenario)
                    else:
                        self.check_repeated(folder, scenario)
                    completed += 1
        self.assertGreater(completed, count / 2, "most scenarios must run")
        if self.mpirun:
            self.assertGreater(self.replays["equal"], self.replays["failed"], "most real runs must be replayed")


if __name__ == "__main__":
    main("program", "--mpirun")
