"""W. Zou, thesis, University of Waterloo, 2022 (hdl.handle.net/10012/18335): top-k compression in both directions."""
import numpy as np

from papers.table import Table, Unavailable, with_algorithm

DIRECTIONS = {
    "uplink": ["direction=uplink", "compression=top_k", "keep=0.01"],
    "both": ["direction=both", "compression=top_k", "keep=0.01", "downlink_keep=0.01"],
    "downlink": ["direction=downlink", "downlink_keep=0.01"],
}
EPOCHS = 20  # of the thesis's 100: the unions change little after the tenth


def counterexample(bench, direction, step):
    """The objective after so many steps, or its mean excess over the optimum in the last 200."""
    keys = ["kind=allreduce"] if direction == "none" else ["kind=compressed_parameter_server", *DIRECTIONS[direction]]
    with bench.run("zou_counterexample.ini", ["run.evaluate_every=1"], with_algorithm([*keys, "learning_rate=0.01"])) as results:
        objective = results["evaluation/test_loss"][:]
        if step == "excess":
            return float(np.mean(objective[-200:])) - 6100 / 9
        return float(objective[int(step) - 1])


def savings(bench, row, nodes):
    """Entries in the union of the uplinks (row "union of uplinks"), or entries sent down for one of them (row "sent down per union")."""
    if not bench.mnist.is_dir():
        raise Unavailable(f"needs MNIST's four IDX files in {bench.mnist} (or --mnist FOLDER)")
    scenario = "zou_mnist_both.ini" if row.startswith("sent down") else "zou_mnist_uplink.ini"
    steps = 60_000 // int(nodes) * EPOCHS // 10
    settings = [f"run.nodes={nodes}", f"run.steps={steps}", f"run.evaluate_every={steps}", "run.record_every=10",
                f"workload.directory={bench.mnist.resolve()}"]
    with bench.run(scenario, settings) as results:
        rows = slice(len(results["steps/uplink_union"]) // 2, None)
        union = np.nanmean(results["steps/uplink_union"][rows])
        if row.startswith("union"):
            return float(union)
        uplink = 51  # entries that a node sends
        return float(np.nanmean(results["steps/downlink_per_uplink"][rows]) * uplink / union)


def both_ends_lower(rows):
    """The claim of the thesis's counterexample."""
    excess = {row.series: row.simulated for row in rows if row.at == "excess"}
    return (0 < excess["both"] < excess["uplink"],
            "compressing both directions ends nearer to the optimum than compressing the uplink alone")


TABLES = [
    Table("zou_counterexample", "Zou's counterexample: objective of three quadratics", "step", "F", counterexample, 5, "dots",
          both_ends_lower, "objective"),
    Table("zou_savings", "Zou: entries of top-k messages, MNIST", "nodes", "entries or share", savings, 5, "dots"),
]
