#!/usr/bin/python3
"""Algorithms that compress, that average once per block of local steps, or that have a momentum of their own, beside twins (see
test_twins.py): quadratics that differ in every entry, drawn settings, any number of nodes. Models and the bytes of every node are
the same.

usage: test_code_twins.py STARLING
"""
import itertools
import math

import h5py
import numpy as np
from program_case import main

from twin_codes import levels, none, one_bit, random_k, sign, top_k, words
from twin_world import Problem, Stream, WorldCase, drawn, normal


class Ranking:
    """AUC of a linear score. Mini-batches of a node are all that it has. A model is weights, bias, a, b and, dual, alpha."""

    def __init__(self, nodes, features, seed, steps):
        self.nodes, self.seed, self.steps, self.dimension, numbers = nodes, seed, steps, features + 4, np.random.default_rng(seed)
        self.z, self.y = numbers.normal(size=(nodes, 12, features)).astype("f4"), numbers.random((nodes, 12)) < 0.3
        self.y[0, :2] = False, True
        self.share = self.y.mean()
        stream = Stream(seed, "initial model")
        weights = [math.sqrt(2 / (features + 1)) * normal(stream) for _ in range(features)]
        self.start = np.tile([*weights, 0, 0, 0, 0], (nodes, 1))

    def scores(self, x):
        """Of all samples, and the classes' factors."""
        return np.einsum("isf,if->is", self.z, x[:, :-4]) + x[:, -4:-3], np.where(self.y, self.share - 1, self.share)

    def gradient(self, x):
        """What a step subtracts."""
        (h, c), (a, b, alpha), p = self.scores(x), x[:, -3:].T[..., None], self.share
        off = 2 * np.abs(c) * (h - np.where(self.y, a, b))
        slope = off + 2 * (1 + alpha) * c
        parts = [slope, -off * self.y, -off * ~self.y, 2 * p * (1 - p) * alpha - 2 * c * h]
        return np.hstack([np.einsum("is,isf->if", slope, self.z) / 12, *(v.mean(axis=1, keepdims=True) for v in parts)])

    def best_dual(self, x):
        """Mean over nodes of the alpha that is best for what each has."""
        h, c = self.scores(x)
        return (c * h).mean() / (self.share * (1 - self.share))

    def workload(self, place):
        with h5py.File(place / "samples.h5", "w") as file:
            file["x"], file["y"] = self.z.reshape(-1, self.z.shape[-1]), self.y.reshape(-1).astype("i4")
        return {"kind": "auc", "dataset": "hdf5", "path": "samples.h5", "test_path": "samples.h5", "positive_class": 1,
                "partition": "contiguous", "batch_size": 12}


class Optimizer:
    """SGD of all nodes, a row each."""

    def __init__(self, settings):
        self.settings, self.velocity = settings, None

    def rate(self, k):
        s = self.settings
        warmup, begin = s.get("warmup_steps", 0), s.get("warmup_from", 0)
        if k < warmup:
            return s["learning_rate"] * (begin + (1 - begin) * (k + 1) / warmup)
        offset, since = s.get("decay_offset", 1), k - max(0, warmup - 1)
        share = {"inverse": offset / (offset + since), "inverse_root": math.sqrt(offset / (offset + since))}
        return s["learning_rate"] * share.get(s.get("schedule"), 1)

    def step(self, g, at, k, pull=0):
        """Gradients are cut, not what else pulls."""
        s = self.settings
        if "clip_norm" in s:
            g = g * np.minimum(1, s["clip_norm"] / np.linalg.norm(g, axis=1, keepdims=True))
        d = g + s.get("weight_decay", 0) * at + pull
        self.velocity = d if self.velocity is None else s.get("momentum", 0) * self.velocity + d
        return self.rate(k) * (d + s["momentum"] * self.velocity if s.get("nesterov") else self.velocity)

    def apply(self, policy):
        if policy == "reset":
            self.velocity = None
        elif policy == "average":
            self.velocity = means(self.velocity)


def means(x):
    return np.tile(x.mean(axis=0), (len(x), 1))


def codes(problem, codec, keys, x, k, purpose="code", of=lambda i: i):
    pairs = [codec(x[i], Stream(problem.seed, purpose, of(i), k), keys) for i in range(problem.nodes)]
    return np.array([q for q, _ in pairs]), pairs[0][1]


# --- Algorithms: (models, bytes of each node) -----------------------------------------------------------------------------------


def allreduce_bytes(n, size):
    """By recursive doubling; what is more than a power of two of nodes folds first."""
    power = 1 << n.bit_length() - 1
    extra = n - power
    rounds = [1 if i < 2 * extra and i % 2 else power.bit_length() - 1 + (i < 2 * extra) for i in range(n)]
    return 4 * size * np.array(rounds)


def broadcast_bytes(n, size):
    """Node i has the model from i without its highest bit."""
    parents = [i ^ 1 << i.bit_length() - 1 for i in range(1, n)]
    return 4 * size * np.bincount(np.array(parents, int), minlength=n)


def allreduce(p, o, codec, keys, has_feedback):
    x, error, sent = p.start, 0, 0
    for k in range(p.steps):
        g = p.gradient(x)
        wanted = o.step(g, x, k) + error if has_feedback else g
        q, size = codes(p, codec, keys, wanted, k)
        error = wanted - q
        x = x - (means(q) if has_feedback else o.step(means(q), x, k))
        sent += (p.nodes - 1) * size
    return x, np.full(p.nodes, sent)


def server(p, o, codec, keys, direction, down, down_keys):
    x, errors, error, sent = p.start, 0, 0, np.zeros(p.nodes, int)
    for k in range(p.steps):
        wanted = o.step(p.gradient(x), x, k) + errors
        q, up_size = codes(p, codec, keys, wanted, k)
        errors, u = wanted - q, q.mean(axis=0)
        if direction == "uplink":
            size = min(8 * max(1, np.count_nonzero(u)), 4 * p.dimension)
        else:
            merged = u + error
            u, size = down(merged, Stream(p.seed, "downlink", 0, k), down_keys)
            error = merged - u
        x = x - u
        sent += [size * (p.nodes - 1)] + [up_size] * (p.nodes - 1)
    return x, sent


def two_phases(p, o, codec, keys, exact_steps, rescales):
    """1-bit SGD, owners step."""
    n, x, sent = p.nodes, p.start.copy(), np.zeros(p.nodes, int)
    errors, error = np.zeros(x.shape), np.zeros(p.dimension)
    pieces = [slice(s * p.dimension // n, (s + 1) * p.dimension // n) for s in range(n)]
    owners = [Optimizer(o.settings) for _ in range(n)]
    for k in range(p.steps):
        way = none if k < exact_steps else codec
        wanted = p.gradient(x) + errors * (o.rate(k - 1) / o.rate(k) if rescales and k else 1)
        x = x.copy()
        for s, piece in enumerate(pieces):
            q, size = codes(p, way, keys, wanted[:, piece], k * n + s)
            errors[:, piece] = wanted[:, piece] - q
            r = owners[s].step(q.mean(axis=0)[None], x[:1, piece], k)[0] + error[piece]
            u, back = way(r, Stream(p.seed, "downlink", s, k * n + s), keys)
            error[piece] = r - u
            x[:, piece] -= u
            sent += size
            sent[s] += back * (n - 1) - size
    return x, sent


def deep_gradient_compression(p, o, keep, masks, rescales):
    x, u, v, sent, s = p.start, 0, 0, 0, o.settings
    for k in range(p.steps):
        g = p.gradient(x) + s.get("weight_decay", 0) * x
        u = s["momentum"] * (u + g) if s.get("nesterov") else s["momentum"] * u + g
        v = v * (o.rate(k - 1) / o.rate(k) if rescales and k else 1) + u + (g if s.get("nesterov") else 0)
        q, size = codes(p, top_k, {"keep": keep}, v, k)
        v = v - q
        u = np.where(q != 0, 0, u) if masks else u
        x = x - o.rate(k) * q.mean(axis=0)
        sent += (p.nodes - 1) * size
    return x, np.full(p.nodes, sent)


def global_top_k(p, o, keep):
    """gTop-k: sums of codes go up a binomial tree, cut at each node that adds one."""
    x, error, keys = p.start, 0, {"keep": keep}
    for k in range(p.steps):
        wanted = o.step(p.gradient(x), x, k) + error
        q, size = codes(p, top_k, keys, wanted, k)
        sums = list(q)
        for distance in (1, 2, 4):
            for i in range(0, p.nodes - distance, 2 * distance):
                sums[i], _ = top_k(sums[i] + sums[i + distance], None, keys)
        error = wanted - np.where(sums[0] != 0, q, 0)
        x = x - sums[0] / p.nodes
    children = [sum(1 for distance in (1, 2, 4) if i % (2 * distance) == 0 and i + distance < p.nodes) for i in range(p.nodes)]
    return x, p.steps * size * np.array([(i > 0) + count for i, count in enumerate(children)])


def drawn_block(p, stream, k, count):
    """The block of `count` that all nodes draw at step k, of a model that is one tensor, and the bytes of averaging it."""
    count = min(count, p.dimension)
    b = Stream(p.seed, stream, -1, k).below(count)
    begin, end = (at * p.dimension // count for at in (b, b + 1))
    return slice(begin, end), allreduce_bytes(p.nodes, end - begin)


def detached(p, o, share, blocks, period, residual_period):
    """DEF and SAEF, of a model that is one tensor."""
    x, y, pending, sent = p.start.copy(), p.start, np.zeros(p.start.shape), 0
    for k in range(p.steps):
        step = o.step(p.gradient(y), y, k)
        y, pending = y - step, pending + step
        if (k + 1) % period == 0 or k + 1 == p.steps:
            block, more = drawn_block(p, "block", k, blocks)
            x[:, block] -= pending[:, block].mean(axis=0)
            pending[:, block] = 0
            y = x - share * pending
            sent = sent + more
        if residual_period and (k + 1) % (period * residual_period) == 0:
            pending = means(pending)
            sent = sent + allreduce_bytes(p.nodes, p.dimension)
    return x, sent


def error_reset(p, o, blocks, reset_period, reset_blocks):
    """CSER, of a model that is one tensor."""
    x, error, sent = p.start.copy(), np.zeros(p.start.shape), 0

    def synchronized(v, count, stream):
        """v with its mean in a block, v without that block, and the bytes of it."""
        block, more = drawn_block(p, stream, k, count)
        mixed, rest = v.copy(), v.copy()
        mixed[:, block], rest[:, block] = v[:, block].mean(axis=0), 0
        return mixed, rest, more

    for k in range(p.steps):
        step = o.step(p.gradient(x), x, k)
        taken, rest, more = synchronized(step, blocks, "block") if blocks else (step, step, 0)
        x, error, sent = x - taken, error - rest, sent + more
        if reset_period and (k + 1) % reset_period == 0:
            mixed, rest, more = synchronized(error, reset_blocks, "reset")
            x, error, sent = x - error + mixed, rest, sent + more
    return x, sent


def two_averages(p, o):
    """A2SGD, by recursive doubling of two numbers."""
    x = p.start
    for k in range(p.steps):
        g = p.gradient(x)
        sides = [np.array([np.abs(v[side(v)]).mean() if side(v).any() else 0 for v in g])
                 for side in (lambda v: v >= 0, lambda v: v < 0)]
        above, below = (side.mean() - side[:, None] for side in sides)
        x = x - o.step(np.where(g >= 0, g + above, g - below), x, k)
    return x, p.steps * allreduce_bytes(p.nodes, 2)


def three_values(p, o, deviations):
    """TernGrad, of a model that is one tensor, by a server on node 0."""
    x, n = p.start, p.nodes
    for k in range(p.steps):
        g = p.gradient(x)
        if deviations:
            limit = deviations * np.sqrt((g * g).mean(axis=1, keepdims=True))
            g = np.clip(g, -limit, limit)
        scale = np.abs(g).max()
        drawn_words = np.array([words(Stream(p.seed, "code", i, k), p.dimension) for i in range(n)])
        x = x - o.step(means(scale * np.where(np.abs(g) / scale > drawn_words, np.sign(g), 0)), x, k)
    up, down = (4 + (p.dimension * bits + 7) // 8 for bits in (2, 1 + math.ceil(math.log2(n + 1))))
    return x, [p.steps * down * (n - 1)] + [p.steps * up] * (n - 1)


def majority_vote(p, o):
    """signSGD, Signum: a bit for each entry to a server on node 0, and one back; weight decay is beside the votes."""
    x, n, decay = p.start, p.nodes, o.settings["weight_decay"]
    o.settings = {**o.settings, "weight_decay": 0}
    for k in range(p.steps):
        votes = np.where(o.step(p.gradient(x), x, k) >= 0, 1, -1).sum(axis=0)
        x = x - o.rate(k) * (np.where(votes >= 0, 1, -1) + decay * x)
    share = p.steps * ((p.dimension + 7) // 8)
    return x, [share * (n - 1)] + [share] * (n - 1)


def quasi_global(p, o, w):
    s, x, q = o.settings, p.start, 0
    for k in range(p.steps):
        o.velocity = None if k == 0 else q
        y = w @ (x - o.step(p.gradient(x), x, k))
        q = s["momentum"] * q + (1 - s["momentum"]) * (x - y) / o.rate(k)
        x = y
    return x, 4 * p.steps * p.dimension * ((w > 0).sum(axis=0) - 1)


def modulo_gossip(p, o, w, theta, bits, is_shifted, rate):
    """Moniqua. Codes are read beside the own model."""
    x, cell = p.start, 2 * theta / (2**bits - 1)
    for k in range(p.steps):
        offset = (words(Stream(p.seed, "code", -1, k), p.dimension) - 0.5) * cell if is_shifted else 0
        numbers = np.rint((x - offset) / cell)
        own = cell * numbers + offset
        periods = np.rint(((x[:, None] - offset) / cell - numbers[None] % 2**bits) / 2**bits)  # (readers, senders, entries)
        read = cell * (numbers[None] % 2**bits + 2**bits * periods) + offset
        x = x + rate * (np.einsum("ij,ijd->id", w, read) - own) - o.step(p.gradient(x), x, k)
    return x, p.steps * ((p.dimension * bits + 7) // 8) * ((w > 0).sum(axis=0) - 1)


def fragments(p, o, period, count, delay, share, rate, momentum):
    """Streaming DiLoCo."""
    x, theta, m, sent = p.start.copy(), p.start[0].copy(), np.zeros(p.dimension), np.zeros(p.nodes, int)
    pieces = [slice(f * p.dimension // count, (f + 1) * p.dimension // count) for f in range(count)]
    begun = {}
    for k in range(p.steps):
        x = x - o.step(p.gradient(x), x, k)
        for f, piece in enumerate(pieces):
            if (k + 1 - (f + 1) * period // count) % period == 0:
                begun[f] = k, (theta[piece] - x[:, piece]).mean(axis=0)
                sent += allreduce_bytes(p.nodes, piece.stop - piece.start)
            if f in begun and k == begun[f][0] + delay:
                progress = begun.pop(f)[1]
                m[piece] = momentum * m[piece] + progress
                theta[piece] -= rate * (progress + momentum * m[piece])
                x[:, piece] = share * x[:, piece] + (1 - share) * theta[piece]
    return x, sent


def gossip(p, o, codec, keys, w, kind, rate):
    """CHOCO-SGD in both orders, DCD-PSGD, ECD-PSGD, DeepSqueeze."""
    x, public, error, sent = p.start, np.zeros(p.start.shape), 0, 0
    public = x if kind in ("dcd", "ecd") else public
    degree = (w > 0).sum(axis=0) - 1
    for k in range(p.steps):
        step = o.step(p.gradient(x), x, k)
        if kind == "dcd":
            q, size = codes(p, codec, keys, w @ x - step - x, k)
            x = x + q
        elif kind == "ecd":
            t, after = k + 1, w @ public - step
            q, size = codes(p, codec, keys, (1 - t / 2) * x + t / 2 * after, k)
            public, x = (1 - 2 / t) * public + 2 / t * q, after
        elif kind == "deep_squeeze":
            x = x - step
            wanted = x + error
            q, size = codes(p, codec, keys, wanted, k, of=lambda i: -1)
            error, x = wanted - q, x + rate * (w @ q - q)
        elif kind == "mix_new":
            x = x - step
            q, size = codes(p, codec, keys, x - public, k)
            public = public + q
            x = x + rate * (w @ public - public)
        else:
            if k > 0:
                q, size = codes(p, codec, keys, x - public, k)
                public = public + q
            x = x - step + rate * (w @ public - public)
            size = size if k > 0 else 0
        sent = sent + size * degree
    return x, sent


def blocks_of_steps(p, o, kind, period, keys, policy):
    """BMUF, DiLoCo, SlowMo over local steps, DaSGD with merge = delta, local SGD."""
    x, sent = p.start, 0
    shared, begin, momentum, snapshot, begun = x, x, 0, None, 0
    for k in range(p.steps):
        x = x - o.step(p.gradient(x), x, k)
        if snapshot is not None and k == begun + keys.get("delay", 0):
            x, snapshot = x + means(snapshot) - snapshot, None
        done = k + 1 - keys.get("alone_steps", 0)
        if done == 0:  # of BMUF: all go on with node 0's model
            shared = begin = x = np.tile(x[0], (p.nodes, 1))
            o.apply("reset")
            sent = sent + broadcast_bytes(p.nodes, p.dimension)
        if done <= 0 or done % period:
            if keys.get("local_period") and (k + 1) % keys["local_period"] == 0:
                x = means(x)
                sent = sent + allreduce_bytes(p.nodes, p.dimension)
            continue
        if kind == "bmuf":
            momentum = keys["block_momentum"] * momentum + means(x) - begin
            shared = shared + momentum
            begin = x = shared + (0 if keys["filter"] == "cbm" else keys["block_momentum"] * momentum)
            shared = x if keys["filter"] == "released" else shared
        elif kind == "diloco":
            progress = means(shared - x)
            momentum = keys["outer_momentum"] * momentum + progress
            shared = x = shared - keys["outer_learning_rate"] * (progress + keys["outer_momentum"] * momentum)
        elif kind == "slowmo":
            momentum = keys["slow_momentum"] * momentum + (begin - means(x)) / o.rate(k)
            begin = x = begin - o.rate(k) * momentum
        elif kind == "dasgd":
            snapshot, begun = x, k
            if keys["delay"] == 0:
                x, snapshot = means(x), None
        else:
            x = means(x)
        o.apply(policy)
        sent = sent + allreduce_bytes(p.nodes, p.dimension * (2 if policy == "average" else 1))
    return (x if snapshot is None else x + means(snapshot) - snapshot), sent


def stages(p, o, period, length, decay, gamma):
    """CODA. The dual number has neither pull nor decay."""
    x, center, stage, begin, sent = p.start, p.start, 0, 0, 0
    primal = np.arange(p.dimension) < p.dimension - isinstance(p, Ranking)
    for k in range(p.steps):
        pull = (x - center) / gamma if gamma else 0
        is_late = k >= o.settings["warmup_steps"]  # falls within the warm-up act at its end
        x = x - o.step(p.gradient(x), x * primal, k, pull * primal) / (decay**stage if is_late else 1)
        is_end = k + 1 == begin + math.floor(length + 0.5)
        if is_end or (k + 1 - begin) % period == 0:
            x = means(x)
            sent = sent + allreduce_bytes(p.nodes, p.dimension)
        if is_end:
            if not primal.all():
                x = np.where(primal, x, p.best_dual(x))
                sent = sent + allreduce_bytes(p.nodes, 1)
            center, stage, begin, length = x, stage + 1, k + 1, length * decay
    return x, sent


def slow_momentum(p, o, w, base, period, alpha, policy):
    """SlowMo over D-PSGD, or over SGP with one exponential peer."""
    n, x, weight, momentum, sent = p.nodes, p.start, np.ones((p.nodes, 1)), 0, 0
    begin, distances = x, [2**i for i in range((n - 1).bit_length())]
    for k in range(p.steps):
        if base == "gossip":
            x = w @ x - o.step(p.gradient(x), x, k)
            sent = sent + 4 * p.dimension * ((w > 0).sum(axis=0) - 1)
        else:
            x = x - o.step(p.gradient(x / weight), x / weight, k)
            if n > 1:
                x, weight = ((v + np.roll(v, distances[k % len(distances)], axis=0)) / 2 for v in (x, weight))
            sent = sent + 4 * p.dimension * (n > 1)
        if (k + 1) % period == 0:
            momentum = 0.5 * momentum + (begin - means(x)) / o.rate(k)
            begin = x = begin - alpha * o.rate(k) * momentum
            weight = np.ones((n, 1))
            o.apply(policy)
            sent = sent + allreduce_bytes(n, p.dimension * (2 if policy == "average" else 1))
    return x / weight, sent


def ring(n):
    w = np.zeros((n, n))
    for i in range(n):
        for j in {(i - 1) % n, (i + 1) % n} - {i}:
            w[i, j] = 1 / min(n, 3)
    return w + np.diag(1 - w.sum(axis=1))


CODECS = [(none, {}), (top_k, {"keep": 0.3}), (random_k, {"keep": 0.4}), (random_k, {"keep": 0.7, "unbiased": True}),
          (levels, {"levels": 15, "bucket": 0, "contractive": False}), (levels, {"levels": 3, "bucket": 0, "contractive": True}),
          (sign, {}), (one_bit, {})]


class CodeTwins(WorldCase):
    def expect(self, twin, kind, seed, keys, topology="complete", mixing=None, problem=Problem):
        """twin(problem, optimizer, mixing matrix) of a case drawn by the seed."""
        rng = drawn(f"{kind} {keys} {seed}")
        problem = problem(rng.choice((1, 2, 3, 5, 6, 8)), rng.choice((16, 23)), seed, rng.choice((6, 9)))
        settings = {"learning_rate": rng.choice((0.03, 0.08)), "momentum": rng.choice((0.4, 0.8)), "nesterov": rng.random() < 0.3,
                    "weight_decay": rng.choice((0, 0.1)), "warmup_steps": rng.choice((0, 4)),
                    "schedule": rng.choice(("constant", "constant", "inverse", "inverse_root"))}
        if kind == "coda":
            settings["schedule"] = "constant"
        if settings["warmup_steps"]:
            settings["warmup_from"] = rng.choice((0, 0.25))
        if settings["schedule"] != "constant":
            settings["decay_offset"] = rng.choice((0.5, 20))
        if rng.random() < 0.4 and kind not in ("dgc", "one_bit"):
            settings["clip_norm"] = 1.5
        models, sent = twin(problem, Optimizer(settings), mixing(problem.nodes) if mixing else None)
        durations = self.durations(rng, problem.nodes, problem.steps)
        lines = {key: "no" if value is False else value for key, value in {"kind": kind, **keys, **settings}.items()}
        with self.subTest(nodes=problem.nodes, **lines, seed=seed):
            _, _, traffic = self.results({
                "run": {"seed": seed, "save_models": True}, "topology": {"kind": topology}, "algorithm": lines,
                "workload": problem.workload(self.folder)}, durations)
            np.testing.assert_array_equal(traffic, sent)
            with h5py.File(self.folder / "twin.h5") as results:
                np.testing.assert_allclose(results["models"][()], models, rtol=2e-5, atol=2e-5)

    def test_codes_of_gradients(self):
        for seed, (codec, keys) in enumerate(CODECS[1:]):
            named = {"compression": codec.__name__, **keys}
            for feedback in (True, False):
                self.expect(lambda p, o, _, f=feedback, c=(codec, keys): allreduce(p, o, *c, f), "allreduce", seed + 1,
                            {**named, "error_feedback": feedback})
            for rescales in True, False:
                self.expect(lambda p, o, _, c=(codec, keys), r=rescales: two_phases(p, o, *c, 2, r), "one_bit", seed + 1,
                            {**named, "exact_steps": 2, "rescale_residual": rescales})
            down, down_keys = CODECS[len(CODECS) - 1 - seed]
            below = {"downlink_compression": down.__name__, **{f"downlink_{key}": value for key, value in down_keys.items()}}
            for direction, chosen in (("uplink", named), ("both", {**named, **below}), ("downlink", below)):
                up = (none, {}) if direction == "downlink" else (codec, keys)
                self.expect(lambda p, o, _, d=direction, u=up, e=(down, down_keys): server(p, o, *u, d, *e),
                            "compressed_parameter_server", seed + 1, {"direction": direction, **chosen})

    def test_global_top_k(self):
        for seed in range(1, 9):
            keep = (0.1, 0.3, 0.5, 1)[seed % 4]
            self.expect(lambda p, o, _, k=keep: global_top_k(p, o, k), "gtop_k", seed, {"keep": keep})

    def test_parts_of_gradients(self):
        for seed, keep, masks in ((1, 0.2, True), (2, 0.2, False), (3, 1, True), (4, 0.6, False)):
            for rescales in True, False:
                self.expect(lambda p, o, _, s=(keep, masks, rescales): deep_gradient_compression(p, o, *s), "dgc", seed,
                            {"keep": keep, "masking": masks, "rescale_residual": rescales})
        cases = ((0.3, 4, 1, 0), (0, 64, 1, 0), (1, 3, 2, 0), (0.3, 1, 3, 0), (1, 4, 1, 1), (1, 64, 1, 3), (0.3, 3, 2, 2))
        for seed, (share, blocks, period, residual_period) in enumerate(cases):
            self.expect(lambda p, o, _, s=(share, blocks, period, residual_period): detached(p, o, *s), "def", seed + 1, {
                "lambda": share, "blocks": blocks, "period": period, "residual_period": residual_period,
                "collective": "recursive_doubling"})

    def test_error_reset(self):
        for seed, settings in enumerate(((4, 3, 2), (64, 1, 64), (1, 0, 1), (0, 4, 1), (0, 2, 3), (3, 5, 4), (2, 0, 1))):
            self.expect(lambda p, o, _, s=settings: error_reset(p, o, *s), "cser", seed + 1, {
                **dict(zip(("blocks", "reset_period", "reset_blocks"), settings)), "collective": "recursive_doubling"})

    def test_two_averages_and_three_values(self):
        for seed in range(1, 7):
            self.expect(lambda p, o, _: two_averages(p, o), "a2sgd", seed, {})
            deviations = (0, 1, 2.5)[seed % 3]
            self.expect(lambda p, o, _, d=deviations: three_values(p, o, d), "terngrad", seed, {"clip_deviations": deviations})

    def test_majority_vote(self):
        for seed in range(1, 9):
            self.expect(lambda p, o, _: majority_vote(p, o), "sign_sgd", seed, {})

    def test_quasi_global_momentum(self):
        for seed in range(1, 7):
            self.expect(lambda p, o, w: quasi_global(p, o, w), "quasi_global", seed, {}, "ring", ring)

    def test_modulo_a_bound(self):
        cases = itertools.product((2, 0.1), (1, 3, 8), ("nearest", "shifted"), (1, 0.5))
        for seed, (theta, bits, rounding, rate) in enumerate(cases):
            settings = (theta, bits, rounding == "shifted", rate)
            self.expect(lambda p, o, w, s=settings: modulo_gossip(p, o, w, *s), "moniqua", seed + 1, {
                "theta": theta, "bits": bits, "rounding": rounding, "consensus_rate": rate}, "ring", ring)

    def test_codes_of_models(self):
        for seed, (codec, keys) in enumerate(CODECS):
            named = {"compression": codec.__name__, **keys}
            for order in ("mix_new", "mix_old"):
                self.expect(lambda p, o, w, c=(codec, keys), d=order: gossip(p, o, *c, w, d, 0.3), "choco", seed + 1,
                            {**named, "order": order, "consensus_rate": 0.3}, "ring", ring)
            self.expect(lambda p, o, w, c=(codec, keys): gossip(p, o, *c, w, "deep_squeeze", 0.3), "deep_squeeze", seed + 1,
                        {**named, "consensus_rate": 0.3}, "ring", ring)
            if codec in (none, levels):
                for kind in ("dcd", "ecd"):
                    self.expect(lambda p, o, w, c=(codec, keys), d=kind: gossip(p, o, *c, w, d, 1), kind, seed + 1, named, "ring",
                                ring)

    def test_blocks_of_steps(self):
        for seed, policy in enumerate(("keep", "average", "reset")):
            bmuf = [("bmuf", {"block_momentum": 0.6, "filter": name, "alone_steps": alone})
                    for name, alone in (("nbm", 0), ("cbm", 2), ("released", 3))]
            slowmo = [("slowmo", {"slow_momentum": 0.5, "local_period": period}) for period in (0, 3)]
            for kind, keys in [("local_sgd", {}), *bmuf, *slowmo, ("diloco", {"outer_learning_rate": 0.6, "outer_momentum": 0.8})]:
                for period in (4,) if keys.get("local_period") else (1, 4):
                    self.expect(lambda p, o, _, a=(kind, period, keys, policy): blocks_of_steps(p, o, *a), kind, seed + 1, {
                        "period": period, "momentum_policy": policy, "collective": "recursive_doubling", **keys})
        for (seed, policy), base, period in itertools.product(enumerate(("keep", "average", "reset")), ("gossip", "sgp"), (1, 4)):
            keys = {"period": period, "slow_learning_rate": (1, 0.7)[seed % 2], "momentum_policy": policy}
            self.expect(lambda p, o, w, a=(base, *keys.values()): slow_momentum(p, o, w, *a), "slowmo", seed + 1, {
                "base": base, "collective": "recursive_doubling", **keys}, "ring", ring)
        for seed, streamed in enumerate(((4, 4, 1, 0.5), (4, 2, 0, 0), (5, 3, 2, 0.3), (1, 1, 0, 0), (6, 5, 5, 0.9))):
            keys = dict(zip(("period", "fragments", "delay", "local_share"), streamed))
            self.expect(lambda p, o, _, s=streamed: fragments(p, o, *s, 0.6, 0.8), "streaming_diloco", seed + 1, {
                **keys, "outer_learning_rate": 0.6, "outer_momentum": 0.8, "collective": "recursive_doubling"})
        for delay in range(4):
            self.expect(lambda p, o, _, d=delay: blocks_of_steps(p, o, "dasgd", 3, {"delay": d}, "keep"), "dasgd", delay + 1, {
                "period": 3, "delay": delay, "merge": "delta", "momentum_policy": "keep", "collective": "recursive_doubling"})

    def test_stages(self):
        for seed, (problem, settings) in enumerate(itertools.product(
                (Problem, Ranking), ((2, 4, 1.5, 2), (3, 2, 1, 0.5), (1, 3, 2, 0), (4, 1, 3, 500)))):
            self.expect(lambda p, o, _, s=settings: stages(p, o, *s), "coda", seed + 1, {
                **dict(zip(("period", "stage_steps", "decay", "gamma"), settings)), "collective": "recursive_doubling"},
                problem=problem)


if __name__ == "__main__":
    main("program")
