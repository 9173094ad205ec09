#!/usr/bin/python3
"""Averages in pairs beside twins (twin_pairs.py): SwarmSGD in its three forms, AD-PSGD, and gossip by clocks, with codes of
every kind; lattice codes are read beside what their reader has. Models, the ends of steps and the bytes of every node are the same.

usage: test_pair_twins.py STARLING
"""
import itertools

import h5py
import numpy as np
from program_case import main

import twin_pairs
from twin_codes import levels, none, random_k, sign, top_k, words
from twin_pairs import Task, adpsgd, blocking_swarm, one_sided_swarm, pairwise_gossip, swarm
from twin_support import Optimizer
from twin_world import MS, Constant, Problem, World, WorldCase, come, drawn


EMPTY = 16  # bytes of a message without numbers


class Plain:
    """Codes that say the same to everybody."""
    is_lattice = False

    def __init__(self, codec, keys):
        self.codec, self.keys, self.name = codec, keys, codec.__name__
        self.is_exact = codec is none

    def encode(self, v, stream):
        return self.codec(v.copy(), stream, self.keys)

    def read(self, code, _reference):
        return code


class Lattice:
    """Colors: the point of that color that is the nearest to the reader's own vector is read."""
    is_lattice, is_exact, name = True, False, "lattice"

    def __init__(self, keys):
        self.keys, self.cell, self.bits = keys, keys["cell"], keys["bits"]

    def encode(self, v, stream):
        offset = (words(stream, len(v)) - 0.5) * self.cell if self.keys["shifted"] else 0
        return (np.rint((v - offset) / self.cell) % 2**self.bits, offset), (len(v) * self.bits + 7) // 8

    def read(self, code, reference):
        color, offset = code
        periods = np.rint(((reference - offset) / self.cell - color) / 2**self.bits)
        return self.cell * (color + 2**self.bits * periods) + offset


class Nodes(Task):
    """The same with models of several numbers, which are told in codes."""

    def __init__(self, world, problem, settings, peers, codec):
        self.world, self.problem, self.peers, self.codec = world, problem, peers, codec
        self.nodes, self.steps = world.nodes, problem.steps
        self.x, self.optimizer = problem.start.copy(), Optimizer(problem.start.shape, **settings)
        self.sent = np.zeros(world.nodes, int)

    def step(self, i, at):
        return self.optimizer.step(self.problem.curvature[i] * (at - self.problem.center[i]), at, i)

    def send(self, i, j, tag, value, number, size):
        self.sent[i] += size
        self.world.send(i, j, tag, value, number)

    def pairs(self, takes_mean=False, base=None):
        return Pairs(self, takes_mean, base)

    def readers(self, published):
        return Pairs(self, published=published)

    def average(self, i, j, r):
        code, size = self.codec.encode(self.x[i], self.stream("code", min(i, j), r))
        self.send(i, j, r, code, 0, size)
        m = yield come(j, r)
        ours, theirs = (self.codec.read(said, self.x[i]) for said in (code, m.value))
        self.x[i] += (theirs + ours) / 2 - self.x[i] if self.codec.is_lattice else (theirs - ours) / 2


class Pairs(twin_pairs.Pairs):
    """The same in codes: either side says Q of its vector, and moves by half the difference of what both said, or to the mean of it.
    With `base` a second code says an older vector, which lattice codes are read beside."""

    def __init__(self, t, takes_mean=False, base=None, published=None):
        super().__init__(t, published)
        self.takes_mean, self.base = takes_mean and t.codec.is_lattice, base if t.codec.is_lattice else None

    def say(self, i, j, tag, initiator, number):
        t, codec = self.t, self.t.codec
        told = number, self.seen[i, j]
        if self.published is not None and tag == "ask":
            t.send(i, j, tag, None, told, EMPTY)
            return t.x[i].copy(), t.x[i].copy()
        v = (t.x if self.published is None else self.published)[i].copy()

        def coded(vector):
            other = j if initiator == i else i
            return codec.encode(vector, t.stream("code", initiator, int(number) * t.nodes + other))
        code, size = coded(v)
        base, base_size = (None, 0) if self.base is None else coded(self.base[i])
        t.send(i, j, tag, (code, base), told, size + base_size)
        return v, codec.read(code, v)

    def move(self, i, sent, value):
        (v, ours), (code, base), x = sent, value, self.t.x
        theirs = self.t.codec.read(code, x[i] if base is None else self.t.codec.read(base, self.base[i]))
        x[i] += (theirs + ours) / 2 - v if self.takes_mean else (theirs - ours) / 2


def ends(topology, nodes):
    """Bytes of telling that a node starts no more exchanges: to all its peers, or, if these are all, up and down a binary tree."""
    if topology == "ring":
        return EMPTY * np.array([len({(i - 1) % nodes, (i + 1) % nodes}) for i in range(nodes)])
    return EMPTY * np.array([(i > 0) + sum(child < nodes for child in (2 * i + 1, 2 * i + 2)) for i in range(nodes)])


CODECS = [Plain(none, {}), Plain(levels, {"levels": 255, "bucket": 0, "contractive": False}), Plain(top_k, {"keep": 0.4}),
          Plain(random_k, {"keep": 0.5}), Plain(sign, {}), Lattice({"cell": 0.01, "bits": 12, "shifted": True}),
          Lattice({"cell": 0.037, "bits": 10, "shifted": False}), Lattice({"cell": 0.3, "bits": 2, "shifted": True})]


class PairTwins(WorldCase):
    def expect(self, twin, arguments, kind, keys, codec, seed):
        rng = drawn(f"{kind} {keys} {codec.name} {seed}")
        problem = Problem(rng.choice((2, 3, 5, 8)), rng.choice((7, 16)), seed, rng.choice((7, 12)))
        nodes, latency = problem.nodes, rng.choice((0, 10**6, rng.randrange(MS, 30 * MS)))
        settings = {"learning_rate": 0.05, "momentum": rng.choice((0.0, 0.6)), "weight_decay": rng.choice((0, 0.05))}
        topology = rng.choice(("ring", "complete"))
        peers = [[j for j in range(nodes) if j != i and (topology == "complete" or (i - j) % nodes in (1, nodes - 1))]
                 for i in range(nodes)]
        durations = self.durations(rng, nodes, problem.steps, slow=rng.sample(range(nodes), 1))
        world = World(durations, Constant(latency), seed)
        t = Nodes(world, problem, settings, peers, codec)
        twin(t, *arguments)
        lines = {"kind": kind, "compression": codec.name, **keys, **settings, **codec.keys}
        lines = {key: "no" if value is False else value for key, value in lines.items()}
        with self.subTest(nodes=nodes, topology=topology, latency=latency, seed=seed, **lines):
            _, time, traffic = self.results({
                "run": {"seed": seed, "save_models": True}, "topology": {"kind": topology}, "algorithm": lines,
                "network": {"latency": f"{latency} ps"},
                "workload": {"kind": "quadratic", "dimension": problem.dimension, "start": 0.3}}, durations)
            self.expect_ends(world, time)
            np.testing.assert_array_equal(traffic, t.sent + ("blocking" not in keys.values()) * ends(topology, nodes))
            with h5py.File(self.folder / "twin.h5") as results:
                np.testing.assert_allclose(results["models"][()], t.x, rtol=2e-5, atol=2e-5)

    def test_swarm(self):
        twins = {"non_blocking": swarm, "blocking": blocking_swarm, "one_sided": one_sided_swarm}
        for (averaging, twin), steps, seed in itertools.product(twins.items(), (1, 3), range(len(CODECS))):
            if twin is swarm and CODECS[seed].keys.get("shifted") is False:
                continue  # what is offered is halfway between two points, most often
            phase = ("fixed", "geometric")[seed % 2]
            self.expect(twin, (steps, phase == "geometric", 0), "swarm",
                        {"averaging": averaging, "local_steps": steps, "phase": phase}, CODECS[seed], seed + 1)

    def test_adpsgd(self):
        for seed, codec in enumerate(CODECS):
            self.expect(adpsgd, (1,), "adpsgd", {}, codec, seed + 1)

    def test_pairwise_gossip(self):
        for (seed, codec), interval in itertools.product(enumerate(CODECS), (4, 30)):
            self.expect(pairwise_gossip, (interval * MS,), "pairwise_gossip", {"interval": f"{interval} ms"}, codec, seed + 1)


if __name__ == "__main__":
    main("program")
