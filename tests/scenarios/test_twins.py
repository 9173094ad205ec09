#!/usr/bin/python3
"""Algorithms beside twins in numpy, which were written from the papers' rules and share nothing with the program: nodes with
quadratics of known minima end with the same models. Twins of what is asynchronous have an event loop of their own, for a
network that takes no time.

usage: test_twins.py STARLING
"""
import heapq
import itertools
import pathlib
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

CENTERS = [1, -2, 0.5, 3, 4, -1, 2.5, 0.25]  # minima of the nodes' quadratics, whose curvature is
CURVATURE = 1.3
START = 0.7
OPTIMIZERS = [{"learning_rate": 0.1},
              {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.05},
              {"learning_rate": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.02}]
# Milliseconds of a gradient, of every node; no two ends of gradients coincide.
TIMES = {2: [10, 27.3], 4: [10, 11.03, 12.07, 27.3], 8: [10, 11.03, 12.07, 13.1, 14.2, 15.3, 16.7, 41.4]}

SCENARIO = """[run]
nodes = {nodes}
steps = {steps}
output = {output}
save_models = yes
[topology]
kind = {topology}
[network]
kind = constant
latency = 1 ns
[compute]
gradient = 10 ms
speeds = {speeds}
[workload]
kind = quadratic
dimension = 2
centers = list
center_values = {centers}
curvature_min = {curvature}
curvature_max = {curvature}
start = {start}
[algorithm]
{algorithm}
"""


def gradient(x, node=None):
    """Of one node, or of the first len(x)."""
    return CURVATURE * (x - (np.array(CENTERS[:len(x)]) if node is None else CENTERS[node]))


class Optimizer:
    """SGD with momentum; of all nodes at once, or of one."""

    def __init__(self, nodes, learning_rate, momentum=0.0, nesterov=False, weight_decay=0.0):
        self.velocity = np.zeros(nodes)
        self.rate, self.momentum, self.nesterov, self.decay = learning_rate, momentum, nesterov, weight_decay

    def step(self, g, at, node=slice(None)):
        d = g + self.decay * at
        self.velocity[node] = self.momentum * self.velocity[node] + d
        return self.rate * (d + self.momentum * self.velocity[node] if self.nesterov else self.velocity[node])


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


# --- Rounds in step ------------------------------------------------------------------------------------------------------------


def dpsgd(w, x, steps, optimizer, order):
    for _ in range(steps):
        if order == "combine_while_adapt":
            x = w @ x - optimizer.step(gradient(x), x)
        else:
            x = w @ (x - optimizer.step(gradient(x), x))
    return x


def gradient_tracking(w, x, steps, rate, order):
    g = gradient(x)
    y = g
    for _ in range(steps):
        x = w @ x - rate * y if order == "combine_while_adapt" else w @ (x - rate * y)
        before, g = g, gradient(x)
        y = w @ y + g - before if order == "combine_while_adapt" else w @ (y + g - before)
    return x


def d2(w, x, steps, rate, mixing):
    w = w if mixing == "d2" else (np.eye(len(x)) + w) / 2
    before = x
    for _ in range(steps):
        psi = x - rate * gradient(x)
        x, before = w @ (psi + x - before), psi
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


def sgp(x, steps, optimizer, peers):
    """Exponential peers, one or two; the numerators and weights of push-sum."""
    nodes = len(x)
    cycle = (nodes - 1).bit_length()
    weight = np.ones(nodes)
    for k in range(steps):
        z = x / weight
        x = x - optimizer.step(gradient(z), z)
        distances = {2 ** ((k + p) % cycle) % nodes for p in range(peers)}
        p = np.zeros((nodes, nodes))
        for i, distance in itertools.product(range(nodes), distances | {0}):
            p[(i + distance) % nodes, i] = 1 / (len(distances) + 1)
        x, weight = p @ x, p @ weight
    return x / weight


def local_sgd(x, steps, optimizer, period):
    for k in range(1, steps + 1):
        x = x - optimizer.step(gradient(x), x)
        if k % period == 0:
            x = np.full(len(x), x.mean())
    return x


def easgd(x, steps, optimizer, period, elasticity):
    anchor = x[0]
    for k in range(1, steps + 1):
        x = x - optimizer.step(gradient(x), x)
        if k % period == 0:
            x, anchor = x + elasticity * (anchor - x), anchor + elasticity * (x - anchor).sum()
    return x


# --- Every node in its own time ------------------------------------------------------------------------------------------------


def ends_of_gradients(times, steps, waiting):
    """(node, its step) as gradients end; a node goes on at once, or, if `waiting` says so, with the last one to come."""
    queue = [(time, node) for node, time in enumerate(times)]
    done, held = [0] * len(times), []
    while queue:
        now, node = heapq.heappop(queue)
        yield node, done[node]
        going_on = [node]
        if waiting(done[node]):
            held.append(node)
            if len(held) < len(times):
                continue
            going_on, held = held, []
        for other in going_on:
            done[other] += 1
            if done[other] < steps:
                heapq.heappush(queue, (now + times[other], other))


class PartialSum:
    """Sums over groups that the first to come starts; others contribute what they have."""

    def __init__(self, buffer, made):
        self.buffer, self.made = buffer, np.full(len(buffer), made)
        self.latest, self.taken = np.zeros(len(buffer)), np.full(len(buffer), -1)
        self.taken_sum, self.done = np.zeros(len(buffer)), -1

    def run(self, step, groups):
        for members in groups:
            self.latest[members] = self.buffer[members].sum()
        self.taken[self.made == step] = step
        self.taken_sum[self.made == step] = self.latest[self.made == step]
        self.done = step


def eager(times, steps, optimizer, late, full_every):
    """Gradients; zeros are left of what was taken."""
    nodes = len(times)
    x, sums = np.full(nodes, START), PartialSum(np.zeros(nodes), -1)

    def is_full(k):
        return full_every > 0 and (k + 1) % full_every == 0

    came = 0
    for i, k in ends_of_gradients(times, steps, is_full):
        g = gradient(x[i], i) / nodes
        sums.buffer[i] = sums.buffer[i] + g if late == "accumulate" else g
        sums.made[i] = k
        came += is_full(k)
        if is_full(k) and came < nodes:
            continue
        if sums.done < k:
            sums.run(k, [np.arange(nodes)])
            sums.buffer[:] = 0
        came = 0 if is_full(k) else came
        for j in range(nodes) if is_full(k) else [i]:
            total = sums.taken_sum[j] if sums.taken[j] == k else sums.latest[j]
            x[j] -= optimizer.step(total, x[j], j)
    return x


def wagma(times, steps, optimizer, size, tau):
    """Models, in groups of a rotating butterfly; what was taken stays, and serves again."""
    nodes = len(times)
    x, stepped, sums = np.full(nodes, START), np.zeros(nodes), PartialSum(np.full(nodes, START), -1)
    bits_of_size, bits_of_all = size.bit_length() - 1, nodes.bit_length() - 1

    def is_full(k):
        return (k + 1) % tau == 0

    came = 0
    for i, k in ends_of_gradients(times, steps, is_full):
        stepped[i] = x[i] - optimizer.step(gradient(x[i], i), x[i], i)
        if is_full(k):
            came += 1
            if came == nodes:
                came, x[:] = 0, stepped.mean()
                sums.buffer[:] = x
                sums.made[:] = k
            continue
        sums.buffer[i], sums.made[i] = stepped[i], k
        if sums.done < k:
            bits = [(k * bits_of_size + r) % bits_of_all for r in range(bits_of_size)]
            mask = sum(1 << bit for bit in bits)
            label = np.arange(nodes) & ~mask
            sums.run(k, [np.flatnonzero(label == other) for other in np.unique(label)])
        if sums.taken[i] == k:
            x[i] = sums.taken_sum[i] / size
        else:
            x[i] = (sums.latest[i] + stepped[i]) / (size + 1)
    return x


def swarm(times, steps, optimizer, local_steps):
    """Two nodes that never wait; at the end their copies for others."""
    copy, base, live = (np.full(2, START) for _ in range(3))
    for i, k in ends_of_gradients(times, steps, lambda k: False):
        live[i] -= optimizer.step(gradient(live[i], i), live[i], i)
        if (k + 1) % local_steps == 0:
            progress = live[i] - base[i]
            copy[:] = copy.mean()
            copy[i] += progress
            base[i] = live[i] = copy[i]
    return copy


class Twins(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory(prefix="starling-twins-")
        self.addCleanup(self.place.cleanup)

    def models(self, nodes, steps, algorithm, topology="ring", times=None):
        """(nodes), what the program's nodes end with; both entries are the same."""
        path = pathlib.Path(self.place.name)
        lines = "\n".join(f"{key} = {'yes' if value is True else value}" for key, value in algorithm.items())
        speeds = ", ".join(repr(10 / time) for time in times or [10] * nodes)
        (path / "twin.ini").write_text(SCENARIO.format(
            nodes=nodes, steps=steps, topology=topology, speeds=speeds, algorithm=lines, curvature=CURVATURE, start=START,
            output=path / "twin.h5", centers=", ".join(map(str, CENTERS[:nodes]))), encoding="utf-8")
        subprocess.run([PROGRAM, "run", "--quiet", path / "twin.ini"], check=True)
        with h5py.File(path / "twin.h5") as results:
            return results["models"][:, 0]

    def expect(self, twin, nodes, steps, algorithm, **where):
        with self.subTest(nodes=nodes, **algorithm, **where):
            np.testing.assert_allclose(self.models(nodes, steps, algorithm, **where), twin, rtol=2e-6, atol=2e-6)

    def test_gossip(self):
        for nodes, topology, settings in itertools.product((1, 2, 5, 8), ("ring", "star"), OPTIMIZERS):
            if nodes == 1 and topology == "star":
                continue
            w, x, rate = metropolis(nodes, topology), np.full(nodes, START), settings["learning_rate"]
            for order in ("combine_while_adapt", "adapt_then_combine"):
                self.expect(dpsgd(w, x, 12, Optimizer(nodes, **settings), order), nodes, 12,
                            {"kind": "dpsgd", "order": order, **settings}, topology=topology)
                if settings == OPTIMIZERS[0]:
                    self.expect(gradient_tracking(w, x, 12, rate, order), nodes, 12,
                                {"kind": "gradient_tracking", "order": order, **settings}, topology=topology)
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
        for nodes, settings in itertools.product((2, 5, 8), OPTIMIZERS):
            x = np.full(nodes, START)
            for peers, name in ((1, "one_peer"), (2, "two_peer")):
                self.expect(sgp(x, 12, Optimizer(nodes, **settings), peers), nodes, 12,
                            {"kind": "sgp", "peers": name, **settings})
            self.expect(local_sgd(x, 12, Optimizer(nodes, **settings), 5), nodes, 12,
                        {"kind": "local_sgd", "period": 5, "momentum_policy": "keep", **settings})
            self.expect(easgd(x, 12, Optimizer(nodes, **settings), 3, 0.1), nodes, 12,
                        {"kind": "easgd", "period": 3, "elasticity": 0.1, **settings})

    def test_partial_collectives(self):
        for nodes, momentum in itertools.product((2, 4, 8), (0.0, 0.5)):
            settings = {"learning_rate": 0.05, "momentum": momentum}
            for late, full_every in itertools.product(("accumulate", "drop"), (0, 4)):
                twin = eager(TIMES[nodes], 15, Optimizer(nodes, **settings), late, full_every)
                self.expect(twin, nodes, 15, {"kind": "eager", "late": late, "full_every": full_every,
                                              "synchronize_every": 0, **settings}, times=TIMES[nodes])
            for size, tau in ((2, 5), (nodes, 4), (max(2, nodes // 2), 7)):
                self.expect(wagma(TIMES[nodes], 22, Optimizer(nodes, **settings), size, tau), nodes, 22,
                            {"kind": "wagma", "group_size": size, "tau": tau, **settings}, times=TIMES[nodes])

    def test_swarm(self):
        for local_steps, momentum, slower in itertools.product((1, 3), (0.0, 0.6), (13.3, 41.7)):
            settings, times = {"learning_rate": 0.05, "momentum": momentum}, [10, slower]
            self.expect(swarm(times, 12, Optimizer(2, **settings), local_steps), 2, 12,
                        {"kind": "swarm", "local_steps": local_steps, **settings}, times=times)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop()
    unittest.main()
