#!/usr/bin/python3
"""Algorithms beside twins in numpy, which were written from the papers' rules and share nothing with the program: nodes with
quadratics of known minima end with the same models. Here those whose nodes are in step, and rules that tell matrices from
vectors, by which a small network learns.

usage: test_twins.py STARLING
"""
import itertools

import h5py
import numpy as np
from program_case import main

from twin_support import OPTIMIZERS, START, Optimizer, TwinCase, gradient
from twin_world import MS, WorldCase


def metropolis(nodes, topology):
    """The mixing matrix of a ring or a star."""
    if topology == "ring":
        edges = {tuple(sorted((i, (i + 1) % nodes))) for i in range(nodes) if nodes > 1}
    else:
        edges = {(0, i) for i in range(1, nodes)}
    degree = [sum(i in edge for edge in edges) for i in range(nodes)]
    w = np.zeros((nodes, nodes))
    for a, b in edges:
        w[a, b] = w[b, a] = 1 / (1 + max(degree[a], degree[b]))
    return w + np.diag(1 - w.sum(axis=1))


def dpsgd(w, x, steps, optimizer, order, rounds=1, global_period=0):
    mixing, mean = np.linalg.matrix_power(w, rounds), np.full_like(w, 1 / len(w))
    for k in range(1, steps + 1):
        w = mean if global_period and k % global_period == 0 else mixing
        if order == "combine_while_adapt":
            x = w @ x - optimizer.step(gradient(x), x)
        else:
            x = w @ (x - optimizer.step(gradient(x), x))
    return x


def gradient_tracking(w, x, steps, optimizer, order):
    g = gradient(x)
    y = g
    for _ in range(steps):
        step = optimizer.step(y, x)
        x = w @ x - step if order == "combine_while_adapt" else w @ (x - step)
        before, g = g, gradient(x)
        y = w @ y + g - before if order == "combine_while_adapt" else w @ (y + g - before)
    return x


def push_pull(w, x, steps, optimizer, order):
    """Estimates are pushed in equal shares. Decay is a part of the functions whose gradients are tracked."""
    decay, optimizer.decay = optimizer.decay, 0
    c = (w > 0) / (w > 0).sum(axis=0)
    g = gradient(x) + decay * x
    y = g
    for _ in range(steps):
        step = optimizer.step(y, x)
        x = w @ x - step if order == "combine_while_adapt" else w @ (x - step)
        before, g = g, gradient(x) + decay * x
        y = c @ y + g - before
    return x


def d2(w, x, steps, rate, mixing):
    w = w if mixing == "d2" else (np.eye(len(x)) + w) / 2
    before = x
    for _ in range(steps):
        psi = x - rate * gradient(x)
        x, before = w @ (psi + x - before), psi
    return x


def relay(w, x, steps, optimizer):
    """Everybody's mean of all models whose way along the tree, of a step for each edge, has come to its end. Of a ring the edge
    in the middle, seen from node 0, is no part of the tree."""
    nodes = len(x)
    is_edge = (w > 0) & ~np.eye(nodes, dtype=bool)
    if nodes > 2 and all(is_edge.sum(axis=0) == 2):
        middle = nodes // 2
        is_edge[middle, middle + 1] = is_edge[middle + 1, middle] = False
    distance = np.full((nodes, nodes), np.inf)
    for d in range(nodes):
        reached = np.linalg.matrix_power(np.eye(nodes) + is_edge, d) > 0
        distance[reached & np.isinf(distance)] = d
    delay = np.maximum(distance - 1, 0).astype(int)
    history = []
    for t in range(steps):
        history.append(x - optimizer.step(gradient(x), x))
        x = np.array([np.mean([history[t - delay[i, j]][j] for j in range(nodes) if delay[i, j] <= t]) for i in range(nodes)])
    return x


def choco(w, x, steps, optimizer, order, consensus_rate):
    """Without compression, estimates begin at zero."""
    estimate = np.zeros(len(x))
    for _ in range(steps):
        if order == "mix_new":
            x = x - optimizer.step(gradient(x), x)
            estimate = x
            x = x + consensus_rate * (w @ estimate - estimate)
        else:
            x = x - optimizer.step(gradient(x), x) + consensus_rate * (w @ estimate - estimate)
            estimate = x
    return x


def sgp(x, steps, optimizer, peers, local_steps=1, both_ways=False):
    """Exponential peers, one or two, or one on either side in turn; the numerators and weights of push-sum."""
    nodes = len(x)
    ahead = [2**p for p in range((nodes - 1).bit_length())]
    cycle = list(dict.fromkeys(d for p in ahead for d in (p, nodes - p))) if both_ways else ahead
    weight = np.ones(nodes)
    for k in range(steps):
        z = x / weight
        x = x - optimizer.step(gradient(z), z)
        if (k + 1) % local_steps:
            continue
        distances = {cycle[(k // local_steps + p) % len(cycle)] for p in range(peers)}
        p = np.zeros((nodes, nodes))
        for i, distance in itertools.product(range(nodes), distances | {0}):
            p[(i + distance) % nodes, i] = 1 / (len(distances) + 1)
        x, weight = p @ x, p @ weight
    return x / weight


def local_sgd(x, steps, optimizer, period, levels=()):
    """`levels`: (size, period) of groups, from the largest on."""
    for k in range(1, steps + 1):
        x = x - optimizer.step(gradient(x), x)
        size = next((size for size, every in ((len(x), period), *levels) if k % every == 0), 1)
        x = np.concatenate([np.full(len(group), group.mean()) for group in np.split(x, range(size, len(x), size))])
    return x


def easgd(x, steps, optimizer, period, elasticity):
    anchor = x[0]
    for k in range(1, steps + 1):
        x = x - optimizer.step(gradient(x), x)
        if k % period == 0:
            x, anchor = x + elasticity * (anchor - x), anchor + elasticity * (x - anchor).sum()
    return x


class Twins(TwinCase):
    def test_gossip(self):
        for nodes, topology, settings in itertools.product((1, 2, 5, 8), ("ring", "star"), OPTIMIZERS):
            if nodes == 1 and topology == "star":
                continue
            w, x, rate = metropolis(nodes, topology), np.full(nodes, START), settings["learning_rate"]
            for order in ("combine_while_adapt", "adapt_then_combine"):
                self.expect(dpsgd(w, x, 12, Optimizer(nodes, **settings), order), nodes, 12,
                            {"kind": "dpsgd", "order": order, **settings}, topology=topology)
                self.expect(dpsgd(w, x, 12, Optimizer(nodes, **settings), order, 2), nodes, 12,
                            {"kind": "dpsgd", "order": order, "rounds": 2, **settings}, topology=topology)
                self.expect(dpsgd(w, x, 11, Optimizer(nodes, **settings), order, global_period=4), nodes, 11,
                            {"kind": "dpsgd", "order": order, "global_period": 4, **settings}, topology=topology)
                for twin in (gradient_tracking, push_pull):
                    self.expect(twin(w, x, 12, Optimizer(nodes, **settings), order), nodes, 12,
                                {"kind": twin.__name__, "order": order, **settings}, topology=topology)
            self.expect(relay(w, x, 12, Optimizer(nodes, **settings)), nodes, 12, {"kind": "relay", **settings}, topology=topology)
            for order in ("mix_new", "mix_old"):
                self.expect(choco(w, x, 12, Optimizer(nodes, **settings), order, 0.6), nodes, 12,
                            {"kind": "choco", "compression": "none", "order": order, "consensus_rate": 0.6, **settings},
                            topology=topology)
            for mixing in ("d2", "exact_diffusion"):
                stable = mixing != "d2" or np.linalg.eigvalsh(w)[0] > -1 / 3
                if settings == OPTIMIZERS[0] and stable:
                    self.expect(d2(w, x, 12, rate, mixing), nodes, 12, {"kind": "d2", "mixing": mixing, **settings},
                                topology=topology)

    def test_push_sum_and_averaging(self):
        for nodes, settings in itertools.product((2, 5, 6, 8), OPTIMIZERS):
            x = np.full(nodes, START)
            for peers, name, local_steps in ((1, "one_peer", 1), (2, "two_peer", 1), (1, "both_ways", 1), (1, "both_ways", 2)):
                self.expect(sgp(x, 12, Optimizer(nodes, **settings), peers, local_steps, name == "both_ways"), nodes, 12,
                            {"kind": "sgp", "peers": name, "local_steps": local_steps, **settings})
            self.expect(local_sgd(x, 12, Optimizer(nodes, **settings), 5), nodes, 12,
                        {"kind": "local_sgd", "period": 5, "momentum_policy": "keep", **settings})
            if nodes > 3:
                self.expect(local_sgd(x, 12, Optimizer(nodes, **settings), 8, ((3, 4), (2, 1))), nodes, 12,
                            {"kind": "local_sgd", "period": 8, "group_sizes": "2, 3", "group_periods": "1, 4", **settings})
            self.expect(easgd(x, 12, Optimizer(nodes, **settings), 3, 0.1), nodes, 12,
                        {"kind": "easgd", "period": 3, "elasticity": 0.1, **settings})


SHAPES = (6, 5), (5,), (5, 3), (3,)  # weights and biases of two layers
SAMPLES = 24


def network_gradient(tensors, x, y):
    """Of the mean cross-entropy, for each of the tensors."""
    w, b, v, c = tensors
    hidden = np.maximum(x @ w + b, 0)
    z = np.exp(hidden @ v + c)
    dz = (z / z.sum(axis=1, keepdims=True) - np.eye(len(c))[y]) / len(y)
    dh = dz @ v.T * (hidden > 0)
    return [x.T @ dh, dh.sum(axis=0), hidden.T @ dz, dz.sum(axis=0)]


def project(step, g, w, delta):
    """The step that AdamP takes in place of this one, and which weights it took together."""
    for axis, name in (0, "columns"), (None, "matrix"):
        norm = np.linalg.norm(w, axis=axis) + 1e-8
        cosine = abs((g * w).sum(axis=axis)) / (np.linalg.norm(g, axis=axis) + 1e-8) / norm
        if np.max(cosine) < delta / np.sqrt(w.size if axis is None else w.shape[0]):
            unit = w / norm
            return step - unit * (unit * step).sum(axis=axis), name
    return step, "none"


class Projecting:
    """SGDP and AdamP of one tensor."""

    def __init__(self, rule, delta, ratio, decay, momentum=0.0):
        self.rule, self.delta, self.ratio, self.decay, self.momentum = rule, delta, ratio, decay, momentum
        self.m, self.v, self.t = 0, 0, 0

    def step(self, g, w, views):
        self.t += 1
        if self.rule == "sgdp":
            self.m = step = self.momentum * self.m + g
        else:
            self.m, self.v = 0.9 * self.m + 0.1 * g, 0.999 * self.v + 0.001 * g * g
            step = self.m / (1 - 0.9**self.t) / (np.sqrt(self.v / (1 - 0.999**self.t)) + 1e-8)
        decay = self.decay / (1 - self.momentum)
        if w.ndim == 2:
            step, view = project(step, g, w, self.delta)
            views.append(view)
            decay *= 1 if view == "none" else self.ratio
        return step + decay * w


class Networks(WorldCase):
    def learned(self, steps, algorithm):
        """The tensors that one node ends with."""
        self.results({"run": {"save_models": True}, "topology": {"kind": "ring"}, "algorithm": {"kind": "allreduce", **algorithm},
                      "workload": {"kind": "mlp", "dataset": "hdf5", "path": "samples.h5", "test_path": "samples.h5",
                                   "batch_size": SAMPLES, "hidden": SHAPES[0][1]}}, [[MS] * steps])
        with h5py.File(self.folder / "twin.h5") as results:
            model = results["models"][0].astype(float)
        ends = np.cumsum([np.prod(shape) for shape in SHAPES])
        return [tensor.reshape(shape) for tensor, shape in zip(np.split(model, ends[:-1]), SHAPES)]

    def test_projections(self):
        rng, views = np.random.default_rng(1), []
        x, y = rng.normal(size=(SAMPLES, 6)).astype(np.float32), np.arange(SAMPLES, dtype=np.int32) % 3
        with h5py.File(self.folder / "samples.h5", "w") as samples:
            samples["x"], samples["y"] = x, y
        start = self.learned(1, {"learning_rate": 1e-30})
        for rule, delta in itertools.product(("sgdp", "adamp"), (0.1, 0.6, 1.5)):
            own = {"momentum": 0.8} if rule == "sgdp" else {}
            keys = {"learning_rate": 0.05, "optimizer": rule, "projection_delta": delta, "weight_decay": 0.1,
                    "weight_decay_ratio": 0.3, **own}
            twin = [tensor.copy() for tensor in start]
            optimizers = [Projecting(rule, delta, 0.3, 0.1, **own) for _ in SHAPES]
            for _ in range(25):
                gradients = network_gradient(twin, x, y)
                twin = [w - 0.05 * o.step(g, w, views) for w, g, o in zip(twin, gradients, optimizers)]
            ends = self.learned(25, keys)
            with self.subTest(rule=rule, delta=delta):
                for tensor, expected in zip(ends, twin):
                    np.testing.assert_allclose(tensor, expected, rtol=2e-5, atol=2e-5)
        for view in "columns", "matrix", "none":
            self.assertGreater(views.count(view), 10)


class Regression(WorldCase):
    """On samples and targets of a file, node after node the next ones, which each gradient sees all."""

    def models(self, nodes, steps, topology, algorithm):
        self.results({"run": {"save_models": True}, "topology": {"kind": topology}, "algorithm": algorithm,
                      "workload": {"kind": "linear", "dataset": "hdf5", "path": "samples.h5", "test_path": "samples.h5",
                                   "partition": "contiguous", "batch_size": SAMPLES // nodes}}, [[MS] * steps] * nodes)
        with h5py.File(self.folder / "twin.h5") as results:
            return results["models"][()], results["evaluation/test_loss"][-1]

    def test_gossip_and_ridge(self):
        rng = np.random.default_rng(2)
        x = rng.normal(size=(SAMPLES, 4)).astype(np.float32)
        y = (x @ [1, -2, 0.5, 3] + 5 + rng.normal(size=SAMPLES)).astype(np.float32)
        with h5py.File(self.folder / "samples.h5", "w") as samples:
            samples["x"], samples["y"] = x, y
        inputs = np.column_stack([x, np.ones(SAMPLES)]).astype(float)  # of weights and bias
        nodes, rate = 4, 0.1
        own = np.split(inputs, nodes), np.split(y.astype(float), nodes)
        w, twin = metropolis(nodes, "ring"), np.zeros((nodes, 5))
        for _ in range(20):
            gradients = [z.T @ (z @ model - t) / len(t) for model, z, t in zip(twin, *own)]
            twin = w @ (twin - rate * np.array(gradients))
        models, loss = self.models(nodes, 20, "ring", {"kind": "dpsgd", "learning_rate": rate, "order": "adapt_then_combine"})
        np.testing.assert_allclose(models, twin, rtol=1e-5, atol=1e-5)
        self.assertAlmostEqual(loss, np.mean((inputs @ twin.mean(axis=0) - y)**2) / 2, places=5)

        decay = 0.3  # sum over all samples of their gradients, and decay of weights and bias: ridge regression
        ridge = np.linalg.solve(inputs.T @ inputs / SAMPLES + decay * np.eye(5), inputs.T @ y / SAMPLES)
        models, _ = self.models(nodes, 300, "complete", {"kind": "allreduce", "learning_rate": rate, "weight_decay": decay})
        np.testing.assert_allclose(models, [ridge] * nodes, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main("program")
