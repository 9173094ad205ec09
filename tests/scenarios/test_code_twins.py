#!/usr/bin/python3
"""Algorithms that compress, or that average once per block of local steps, beside twins (see test_twins.py): quadratics that differ
in every entry, drawn settings, any number of nodes. Models and the bytes of every node are the same.

usage: test_code_twins.py STARLING
"""
import math
import pathlib

import h5py
import numpy as np

from twin_world import Stream, WorldCase, drawn, main


def normal(stream):
    radius = math.sqrt(-2 * math.log(1 - stream.uniform()))
    return radius * math.cos(2 * math.pi * stream.uniform())


class Problem:
    """Quadratics as the workload draws them."""

    def __init__(self, nodes, dimension, seed, steps):
        self.nodes, self.dimension, self.seed, self.steps = nodes, dimension, seed, steps
        curvatures, centers = ([Stream(seed, f"quadratic {name}", i) for i in range(nodes)] for name in ("curvature", "centers"))
        self.curvature = np.array([[0.5 + 1.5 * stream.uniform() for _ in range(dimension)] for stream in curvatures])
        self.center = np.array([[normal(stream) for _ in range(dimension)] for stream in centers])
        self.start = np.full((nodes, dimension), 0.3)

    def gradient(self, x):
        return self.curvature * (x - self.center)


class Optimizer:
    """SGD of all nodes, a row each."""

    def __init__(self, settings):
        self.settings, self.velocity = settings, None

    def rate(self, k):
        warmup = self.settings.get("warmup_steps", 0)
        return self.settings["learning_rate"] * min(1, (k + 1) / warmup if warmup else 1)

    def step(self, g, at, k):
        s = self.settings
        if "clip_norm" in s:
            g = g * np.minimum(1, s["clip_norm"] / np.linalg.norm(g, axis=1, keepdims=True))
        d = g + s.get("weight_decay", 0) * at
        self.velocity = d if self.velocity is None else s.get("momentum", 0) * self.velocity + d
        return self.rate(k) * (d + s["momentum"] * self.velocity if s.get("nesterov") else self.velocity)

    def apply(self, policy):
        if policy == "reset":
            self.velocity = None
        elif policy == "average":
            self.velocity = means(self.velocity)


def means(x):
    return np.tile(x.mean(axis=0), (len(x), 1))


# --- Codes: (what is read, bytes) -----------------------------------------------------------------------------------------------


def words(stream, count):
    """Uniform in [0, 1), 32 bits each."""
    both = [stream.draw() for _ in range((count + 1) // 2)]
    return np.array([word for two in both for word in (two >> 32, two & 0xffffffff)][:count]) * 2.0**-32


def entries(keep, size):
    return min(max(math.floor(keep * size + 0.5), 1), size)


def none(v, _stream, _keys):
    return v, 4 * len(v)


def top_k(v, _stream, keys):
    count = entries(keys["keep"], len(v))
    q = np.zeros(len(v))
    largest = np.argsort(np.abs(v), kind="stable")[-count:]
    q[largest] = v[largest]
    return q, 8 * count


def random_k(v, stream, keys):
    count, chosen = entries(keys["keep"], len(v)), set()
    for last in range(len(v) - count, len(v)):
        i = stream.below(last + 1)
        chosen.add(last if i in chosen else i)
    q = np.zeros(len(v))
    q[list(chosen)] = v[list(chosen)]
    return q * (len(v) / count if keys.get("unbiased") else 1), 4 * count


def levels(v, stream, keys):
    s, norm = keys["levels"], np.linalg.norm(v)
    q = np.sign(v) * norm * np.floor(s * np.abs(v) / norm + words(stream, len(v))) / s if norm else v
    loss = min(len(v) / s**2, math.sqrt(len(v)) / s) if keys["contractive"] else 0
    return q / (1 + loss), 4 + (len(v) * (1 + math.ceil(math.log2(s + 1))) + 7) // 8


def sign(v, _stream, _keys):
    return np.where(v < 0, -1, 1) * np.abs(v).mean(), 4 + (len(v) + 7) // 8


def one_bit(v, _stream, _keys):
    q = np.zeros(len(v))
    for side in (v >= 0, v < 0):
        q[side] = v[side].mean() if side.any() else 0
    return q, 8 + (len(v) + 7) // 8


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


def two_phases(p, o, codec, keys, exact_steps):
    """1-bit SGD, owners step."""
    n, x, sent = p.nodes, p.start.copy(), np.zeros(p.nodes, int)
    errors, error = np.zeros(x.shape), np.zeros(p.dimension)
    pieces = [slice(s * p.dimension // n, (s + 1) * p.dimension // n) for s in range(n)]
    owners = [Optimizer(o.settings) for _ in range(n)]
    for k in range(p.steps):
        way = none if k < exact_steps else codec
        wanted = p.gradient(x) + errors
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


def deep_gradient_compression(p, o, keep, masks):
    x, u, v, sent, s = p.start, 0, 0, 0, o.settings
    for k in range(p.steps):
        g = p.gradient(x) + s.get("weight_decay", 0) * x
        u = s["momentum"] * (u + g) if s.get("nesterov") else s["momentum"] * u + g
        v = v + u + (g if s.get("nesterov") else 0)
        q, size = codes(p, top_k, {"keep": keep}, v, k)
        v = v - q
        u = np.where(q != 0, 0, u) if masks else u
        x = x - o.rate(k) * q.mean(axis=0)
        sent += (p.nodes - 1) * size
    return x, np.full(p.nodes, sent)


def detached(p, o, share, blocks, period):
    """DEF, of a model that is one tensor."""
    x, y, pending, sent = p.start.copy(), p.start, np.zeros(p.start.shape), 0
    for k in range(p.steps):
        step = o.step(p.gradient(y), y, k)
        y, pending = y - step, pending + step
        if (k + 1) % period == 0 or k + 1 == p.steps:
            count = min(blocks, p.dimension)
            b = Stream(p.seed, "block", -1, k).below(count)
            block = slice(b * p.dimension // count, (b + 1) * p.dimension // count)
            x[:, block] -= pending[:, block].mean(axis=0)
            pending[:, block] = 0
            y = x - share * pending
            sent = sent + allreduce_bytes(p.nodes, block.stop - block.start)
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
        if (k + 1) % period:
            continue
        if kind == "bmuf":
            momentum = keys["block_momentum"] * momentum + means(x) - begin
            shared = shared + momentum
            begin = x = shared + keys["block_momentum"] * momentum
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


CODECS = [(none, {}), (top_k, {"keep": 0.3}), (random_k, {"keep": 0.4}), (random_k, {"keep": 0.7, "unbiased": True}),
          (levels, {"levels": 15, "bucket": 0, "contractive": False}), (levels, {"levels": 3, "bucket": 0, "contractive": True}),
          (sign, {}), (one_bit, {})]


class CodeTwins(WorldCase):
    def expect(self, twin, kind, seed, keys, topology="complete", mixing=None):
        """twin(problem, optimizer, mixing matrix) of a case drawn by the seed."""
        rng = drawn(f"{kind} {keys} {seed}")
        problem = Problem(rng.choice((1, 2, 3, 5, 6, 8)), rng.choice((16, 23)), seed, rng.choice((6, 9)))
        settings = {"learning_rate": rng.choice((0.03, 0.08)), "momentum": rng.choice((0.4, 0.8)), "nesterov": rng.random() < 0.3,
                    "weight_decay": rng.choice((0, 0.1)), "warmup_steps": rng.choice((0, 4))}
        if rng.random() < 0.4 and kind not in ("dgc", "one_bit"):
            settings["clip_norm"] = 1.5
        models, sent = twin(problem, Optimizer(settings), mixing(problem.nodes) if mixing else None)
        durations = self.durations(rng, problem.nodes, problem.steps)
        lines = {key: "no" if value is False else value for key, value in {"kind": kind, **keys, **settings}.items()}
        with self.subTest(nodes=problem.nodes, **lines, seed=seed):
            _, _, traffic = self.results({
                "run": {"seed": seed, "save_models": True}, "topology": {"kind": topology}, "algorithm": lines,
                "workload": {"kind": "quadratic", "dimension": problem.dimension, "start": 0.3}}, durations)
            np.testing.assert_array_equal(traffic, sent)
            with h5py.File(pathlib.Path(self.place.name) / "twin.h5") as results:
                np.testing.assert_allclose(results["models"][()], models, rtol=2e-5, atol=2e-5)

    def test_codes_of_gradients(self):
        for seed, (codec, keys) in enumerate(CODECS[1:]):
            named = {"compression": codec.__name__, **keys}
            for feedback in (True, False):
                self.expect(lambda p, o, _, f=feedback, c=(codec, keys): allreduce(p, o, *c, f), "allreduce", seed + 1,
                            {**named, "error_feedback": feedback})
            self.expect(lambda p, o, _, c=(codec, keys): two_phases(p, o, *c, 2), "one_bit", seed + 1, {**named, "exact_steps": 2})
            down, down_keys = CODECS[len(CODECS) - 1 - seed]
            below = {"downlink_compression": down.__name__, **{f"downlink_{key}": value for key, value in down_keys.items()}}
            for direction, chosen in (("uplink", named), ("both", {**named, **below}), ("downlink", below)):
                up = (none, {}) if direction == "downlink" else (codec, keys)
                self.expect(lambda p, o, _, d=direction, u=up, e=(down, down_keys): server(p, o, *u, d, *e),
                            "compressed_parameter_server", seed + 1, {"direction": direction, **chosen})

    def test_parts_of_gradients(self):
        for seed, keep, masks in ((1, 0.2, True), (2, 0.2, False), (3, 1, True), (4, 0.6, False)):
            self.expect(lambda p, o, _, k=keep, m=masks: deep_gradient_compression(p, o, k, m), "dgc", seed,
                        {"keep": keep, "masking": masks})
        for seed, share, blocks, period in ((1, 0.3, 4, 1), (2, 0, 64, 1), (3, 1, 3, 2), (4, 0.3, 1, 3)):
            self.expect(lambda p, o, _, s=(share, blocks, period): detached(p, o, *s), "def", seed, {
                "lambda": share, "blocks": blocks, "period": period, "collective": "recursive_doubling"})

    def test_codes_of_models(self):
        def ring(n):
            w = np.zeros((n, n))
            for i in range(n):
                for j in {(i - 1) % n, (i + 1) % n} - {i}:
                    w[i, j] = 1 / min(n, 3)
            return w + np.diag(1 - w.sum(axis=1))

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
            for kind, keys in (("local_sgd", {}), ("bmuf", {"block_momentum": 0.6}), ("slowmo", {"slow_momentum": 0.5}),
                               ("diloco", {"outer_learning_rate": 0.6, "outer_momentum": 0.8})):
                for period in (1, 4):
                    self.expect(lambda p, o, _, a=(kind, period, keys, policy): blocks_of_steps(p, o, *a), kind, seed + 1, {
                        "period": period, "momentum_policy": policy, "collective": "recursive_doubling", **keys})
        for delay in range(4):
            self.expect(lambda p, o, _, d=delay: blocks_of_steps(p, o, "dasgd", 3, {"delay": d}, "keep"), "dasgd", delay + 1, {
                "period": 3, "delay": delay, "merge": "delta", "momentum_policy": "keep", "collective": "recursive_doubling"})


if __name__ == "__main__":
    main()
