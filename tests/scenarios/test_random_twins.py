#!/usr/bin/python3
"""Asynchronous algorithms beside twins (see test_twins.py) that draw the same random numbers: partners, lengths of phases,
receivers, initiators. Gradients of random lengths, messages that take time, nodes that pause or join late, and messages that come
twice, which nobody notices. Models and the end of every step are the same.

usage: test_random_twins.py STARLING
"""
import itertools
import math
import statistics

import numpy as np
from program_case import main

from twin_pairs import Task, adpsgd, blocking_swarm, one_sided_swarm, pairwise_gossip, swarm, tagged
from twin_support import CURVATURE, START, Optimizer
from twin_world import MS, NEVER, Constant, World, WorldCase, come, drawn, seconds


def push_sum(t, send_chance, to_model):
    weight, unfinished = np.ones(t.nodes), [{j for j in range(t.nodes) if i in t.peers[j]} for i in range(t.nodes)]

    def take(i, m):
        if m.value is None:
            unfinished[i].discard(m.source)
        else:
            t.x[i], weight[i] = t.x[i] + m.value[0], weight[i] + m.value[1]

    def node(i):
        for k in range(t.steps):
            z = t.x[i] / weight[i]
            yield "compute", k
            t.x[i] -= (weight[i] if to_model else 1) * t.step(i, z)
            stream = t.stream("push", i, k)
            if stream.uniform() < send_chance:
                to = t.peers[i][stream.below(len(t.peers[i]))]
                t.x[i], weight[i] = t.x[i] / 2, weight[i] / 2
                t.world.send(i, to, "share", (t.x[i], weight[i]))
            while m := t.world.take(i, tagged("share")):
                take(i, m)
            t.world.ends[i].append(t.world.now)
        for to in t.peers[i]:
            t.world.send(i, to, "share")
        while unfinished[i] and (m := (yield t.patient(tagged("share")))):
            take(i, m)

    t.world.run(node)
    return t.x / weight


class SlowMomentum:
    """SlowMo, at the ends of blocks."""

    def __init__(self, t, period, rate, momentum, policy):
        self.t, self.period, self.rate, self.momentum, self.policy = t, period, rate, momentum, policy
        self.begin, self.u = t.x.copy(), np.zeros(t.nodes)

    def ends(self, k):
        return (k + 1) % self.period == 0

    def step(self, i, k, x):
        base = self.t.optimizer
        progress = self.begin[i] - (yield from mean(self.t, i, ("slow", k), x))
        self.u[i] = self.momentum * self.u[i] + progress / base.rate
        self.begin[i] -= self.rate * base.rate * self.u[i]
        if self.policy == "reset":
            base.velocity[i] = 0
        elif self.policy == "average" and base.momentum:
            base.velocity[i] = yield from mean(self.t, i, ("velocity", k), base.velocity[i])
        return self.begin[i]


def slow_adpsgd(t, exchanges_per_step, *slow):
    return adpsgd(t, exchanges_per_step, SlowMomentum(t, *slow))


def overlap_sgp(t, tau, *slow):
    """With one exponential peer; alone, or with slow momentum."""
    weight, cycle, slow = np.ones(t.nodes), (t.nodes - 1).bit_length(), SlowMomentum(t, *slow) if slow else None

    def fold(i, m):
        t.x[i], weight[i] = t.x[i] + m.value[0], weight[i] + m.value[1]

    def node(i):
        missing = []  # steps whose shares have not come
        for k in range(t.steps):
            z = t.x[i] / weight[i]
            yield "compute", k
            t.x[i] -= t.step(i, z)
            t.x[i], weight[i] = t.x[i] / 2, weight[i] / 2
            t.world.send(i, (i + 2 ** (k % cycle)) % t.nodes, k, (t.x[i], weight[i]))
            missing.append(k)
            ends_block = slow is not None and slow.ends(k)
            while missing and missing[0] <= k - (0 if ends_block else tau):
                fold(i, (yield (tagged(missing.pop(0)),)))
            while m := t.world.take(i, tagged(*missing)):
                missing.remove(m.tag)
                fold(i, m)
            if ends_block:
                t.x[i] = yield from slow.step(i, k, t.x[i])
                weight[i] = 1
            t.world.ends[i].append(t.world.now)
        while missing:
            fold(i, (yield (tagged(missing.pop(0)),)))

    t.world.run(node)
    return t.x / weight


def token_walk(t, is_cyclic):
    models = np.zeros(t.nodes)

    def node(i):
        if i == 0:
            t.world.send(0, 0, "token", START, 0)
        while True:
            m = yield (tagged("token", "done"),)
            if m.tag == "done":
                break
            visit = len(t.world.ends[i])
            yield "compute", visit
            x = m.value - t.step(i, m.value)
            t.world.ends[i].append(t.world.now)
            if m.number + 1 == t.steps * t.nodes:
                for j in range(t.nodes):
                    t.world.send(i, j, "done", x)
                continue
            stream, to = t.stream("walk", i, m.number), (i + 1) % t.nodes
            if not is_cyclic:
                to = t.peers[i][stream.below(len(t.peers[i]))]
                to = to if stream.uniform() < len(t.peers[i]) / len(t.peers[to]) else i
            t.world.send(i, to, "token", x, m.number + 1)
        models[i] = m.value
        t.world.ends[i] = (t.world.ends[i] + [t.world.now] * t.steps)[:t.steps]

    t.world.run(node)
    return models


def epidemic(t, receivers, local_steps, timeout):
    """Rounds end at a deadline."""
    def sample(stream):
        chosen = []
        for last in range(t.nodes - 1 - receivers, t.nodes - 1):
            j = stream.below(last + 1)
            chosen.append(last if j in chosen else j)
        return chosen

    def node(i):
        for k in range(t.steps):
            yield "compute", k
            t.x[i] -= t.step(i, t.x[i])
            if (k + 1) % local_steps == 0:
                for j in sorted(sample(t.stream("epidemic receivers", -1, k * t.nodes + i))):
                    t.world.send(i, j + (j >= i), k, t.x[i])
                models, deadline = {i: t.x[i]}, t.world.now + timeout
                while m := (yield [lambda m, k=k: m.tag <= k], deadline):
                    if m.tag == k:
                        models[m.source] = m.value
                t.x[i] = sum(models.values()) / len(models)
            t.world.ends[i].append(t.world.now)

    t.world.run(node)
    return t.x


class PartialSums:
    """Wait-avoiding sums over groups of a butterfly: whoever may starts one, tells the others along a hypercube, and takes of
    late members what is in their buffers."""

    def __init__(self, t, operations, may_start, waits_for_all, bits, late, buffer):
        self.t, self.may_start, self.late = t, may_start, late
        self.buffer, self.made, self.done, self.entered = [buffer] * t.nodes, *(np.full((3, t.nodes), -1))
        self.newest = [None] * t.nodes
        self.in_time = [{} for _ in range(t.nodes)]  # {step: sum} that the node's own part of the step is in
        for i in range(t.nodes):
            t.world.start(i, self.communicate(i, operations, waits_for_all, bits))

    def communicate(self, i, operations, waits_for_all, bits):
        world = self.t.world
        for k in operations:
            starts = [lambda m: m.tag == ("start", k) or m.tag[:2] == ("sum", k)]
            m = yield (starts,)
            if m.tag[0] == "sum":
                world.mail[i].insert(0, m)
            if waits_for_all(k):
                yield "until", lambda: self.entered[i] >= k
            for r in range(self.t.nodes.bit_length() - 1):
                world.send(i, i ^ 1 << r, ("start", k))
            total, is_in_time = self.buffer[i], self.made[i] == k
            if self.late != "keep":
                self.buffer[i] = 0.0
            for bit in bits(k):
                world.send(i, i ^ 1 << bit, ("sum", k, bit), total)
                m = yield come(i ^ 1 << bit, ("sum", k, bit))
                total += m.value
            self.newest[i], self.done[i] = total, k
            if is_in_time:
                self.in_time[i][k] = total

    def set(self, i, k, v):
        self.buffer[i] = self.buffer[i] + v if self.late == "accumulate" else v
        self.made[i] = k

    def enter(self, i, k, v):
        """Answers (sum, whether v is in it)."""
        self.set(i, k, v)
        self.entered[i] = k
        if self.done[i] < k and self.may_start(i, k):
            self.t.world.send(i, i, ("start", k))
        yield "until", lambda: self.done[i] >= k
        return self.in_time[i].get(k, self.newest[i]), k in self.in_time[i]


def mean(t, i, k, v):
    """Over all nodes, by recursive doubling."""
    for r in range(t.nodes.bit_length() - 1):
        t.world.send(i, i ^ 1 << r, ("mean", k, r), v)
        m = yield come(i ^ 1 << r, ("mean", k, r))
        v += m.value
    return v / t.nodes


def eager(t, activation, late, full_every, synchronize_every):
    def waits_for_all(k):
        return activation == "full" or (full_every > 0 and (k + 1) % full_every == 0)

    def may_start(i, k):
        return activation != "majority" or waits_for_all(k) or t.stream("initiator", -1, k).below(t.nodes) == i

    sums = PartialSums(t, range(t.steps), may_start, waits_for_all, lambda k: range(t.nodes.bit_length() - 1), late, 0.0)

    def node(i):
        for k in range(t.steps):
            g = CURVATURE * (t.x[i] - t.centers[i]) / t.nodes
            yield "compute", k
            total, _ = yield from sums.enter(i, k, g)
            t.x[i] -= t.optimizer.step(total, t.x[i], i)
            if synchronize_every and (k + 1) % synchronize_every == 0:
                t.x[i] = yield from mean(t, i, k, t.x[i])
            t.world.ends[i].append(t.world.now)

    t.world.run(node)
    return t.x


def wagma(t, group_size, tau, groups):
    bits, all_bits = group_size.bit_length() - 1, t.nodes.bit_length() - 1
    sums = PartialSums(t, [k for k in range(t.steps) if (k + 1) % tau], lambda i, k: True, lambda k: False,
                       lambda k: [((k if groups == "dynamic" else 0) * bits + r) % all_bits for r in range(bits)], "keep", START)

    def node(i):
        for k in range(t.steps):
            yield "compute", k
            v = t.x[i] - t.step(i, t.x[i])
            if (k + 1) % tau == 0:
                sums.set(i, k, v)  # what others get who are ahead
                t.x[i] = yield from mean(t, i, k, v)
                sums.set(i, k, t.x[i])
            else:
                total, is_in_time = yield from sums.enter(i, k, v)
                t.x[i] = total / group_size if is_in_time else (total + v) / (group_size + 1)
            t.world.ends[i].append(t.world.now)

    t.world.run(node)
    return t.x


def async_parameter_server(t, settings, servers, push_period, fetch_period, divides, bound):
    """A model of 7 numbers in nearly equal pieces on the first nodes; of each piece the one number that all its entries are. Who
    is silent is not waited for until it sends something; a server that nobody waits for when its patience ends has ended."""
    x, version = np.full(servers, START), np.zeros(servers, int)
    optimizers = [Optimizer(1, **settings) for _ in range(servers)]
    fetched, pushes, asking = np.zeros((servers, t.nodes), int), np.zeros((servers, t.nodes), int), [[] for _ in range(servers)]
    models, is_silent = np.zeros((t.nodes, servers)), np.zeros((servers, t.nodes), bool)

    def take(s, m):
        if m.tag == "fetch":
            return asking[s].append(m.source)
        staleness = version[s] - fetched[s, m.source]
        x[s] -= optimizers[s].step(m.value / max(1, staleness) if divides else m.value, x[s], 0)
        version[s] += 1
        pushes[s, m.source] += 1

    def serve(s):
        while True:
            m = yield t.patient(tagged("push", "fetch"))
            if m is None:
                if not asking[s]:
                    return
                is_silent[s] = [i not in asking[s] for i in range(t.nodes)]
            else:
                is_silent[s, m.source] = False
                take(s, m)
            slowest = pushes[s][~is_silent[s]].min()
            for i in [i for i in asking[s] if bound is None or pushes[s, i] - slowest <= bound]:
                asking[s].remove(i)
                fetched[s, i] = version[s]
                t.world.send(s, i, ("model", s), x[s])

    def node(i):
        if i < servers:
            t.world.start(i, serve(i))
        at, pushed = np.full(servers, START), 0
        for k in range(1, t.steps + 1):
            g = CURVATURE * (at - t.centers[i])
            yield "compute", k - 1
            at, pushed = at - settings["learning_rate"] * g, pushed + g
            if k % push_period == 0 or k == t.steps:
                for s in range(servers):
                    t.world.send(i, s, "push", pushed[s])
                pushed = 0
            if k % fetch_period == 0 or k == t.steps:
                for s in range(servers):
                    t.world.send(i, s, "fetch")
                for s in range(servers):
                    m = yield (tagged(("model", s)),)
                    at[s] = m.value
            t.world.ends[i].append(t.world.now)
        models[i] = at

    t.world.run(node)
    return models[:, 0]


def async_diloco(t, period, rule, rate, momentum, keys):
    """A server on node 0 applies what blocks of `period` steps came to; steps after the last whole block stay at their node.
    Who waits for `delay` arrivals waits for no more of them than are to come."""
    delay, share, is_damped = keys.get("delay"), keys.get("share"), "stale_progress" in keys
    theta, m, collected, version = START, 0, 0, 0
    blocks, fetched = np.full(t.nodes, t.steps // period), np.zeros(t.nodes, int)

    def nesterov(d):
        nonlocal theta, m
        m = momentum * m + d
        theta -= rate * (d + momentum * m)

    def serve():
        nonlocal theta, m, collected, version
        held, arrivals = [], itertools.count(1)
        while blocks.any():
            arrived = yield (tagged("progress"),)
            held.append(arrived)
            blocks[arrived.source] -= 1
            if rule == "vanilla":
                nesterov(arrived.value * keys["weight"] / (math.sqrt(1 + version - fetched[arrived.source]) if is_damped else 1))
            elif rule == "delayed":
                if len(held) < delay and any(blocks[i] and i not in [other.source for other in held] for i in range(t.nodes)):
                    continue
                nesterov(sum(other.value for other in held) / len(held))
            else:
                part, collected = share, collected + arrived.value
                if next(arrivals) % delay == 0:
                    part, m, collected = 1 - share * delay + share, momentum * m + collected / delay, 0
                theta -= rate * (part * momentum * m + arrived.value / delay)
            version += 1
            for other in held:
                fetched[other.source] = version
                t.world.send(0, other.source, "theta", theta)
            held.clear()

    def node(i):
        if i == 0:
            t.world.start(0, serve())
        begin = START
        for k in range(t.steps):
            yield "compute", k
            t.x[i] -= t.step(i, t.x[i])
            if (k + 1) % period == 0:
                t.world.send(i, 0, "progress", begin - t.x[i])
                answer = yield (tagged("theta"),)
                begin = t.x[i] = answer.value
            t.world.ends[i].append(t.world.now)

    t.world.run(node)
    return t.x


def places(slow, clusters, stragglers):
    """Cluster and row of every node. Where a cluster has more slow ones than it can do without, half of all nodes serve the next
    cluster: so many slow ones of each that none has two more than the next if it could hand one on, and as few as that takes; if that
    leaves too many somewhere, as few as leave nowhere too many, if that can be."""
    size = len(slow) // clusters
    living = [sum(slow[c * size:(c + 1) * size]) for c in range(clusters)]
    moving = size // 2 if clusters > 1 and max(living) > stragglers else 0
    bounds = [(max(0, moving - size + count), min(moving, count)) for count in living]

    def serving(handed):
        return [living[c] - handed[c] + handed[c - 1] for c in range(clusters)]

    def is_even(handed):
        there = serving(handed)
        return all(handed[c] == bounds[c][1] or there[c - clusters] < there[c + 1 - clusters] + 2 for c in range(clusters))

    ways = sorted(itertools.product(*(range(low, high + 1) for low, high in bounds)), key=sum)
    handed = next(filter(is_even, ways))
    if max(serving(handed)) > stragglers:
        handed = next((way for way in ways if max(serving(way)) <= stragglers), handed)
    rows, answer = [itertools.count() for _ in range(clusters)], []
    for i, is_slow in enumerate(slow):
        home = i // size
        before = sum(other == is_slow for other in slow[home * size:i])
        cluster = (home + (before < (handed[home] if is_slow else moving - handed[home]))) % clusters
        answer.append((cluster, next(rows[cluster])))
    return answer


def gradient_coding(t, stragglers, is_cyclic, clusters=0, slow_factor=math.inf):
    """Every node computes one part more than there may be stragglers (of its cluster), and stops when the next model comes.
    With clusters the server sends the first model, too, and spreads those that were slow in the last step."""
    parts, size, center = stragglers + 1, t.nodes // max(1, clusters), np.mean(t.centers)

    def suffice(there):
        if is_cyclic:
            return all(sum(c == cluster for c, _ in there) >= size - stragglers for cluster in range(t.nodes // size))
        return len({(c, row // parts) for c, row in there}) == t.nodes // parts

    def send(k):
        for i in range(t.nodes):
            t.world.send(0, i, ("model", k), t.x[0])

    def serve():
        if clusters:
            send(-1)
        slow = [False] * t.nodes
        for k in range(t.steps):
            place, begin, after = places(slow, max(1, clusters), stragglers), t.world.now, {}
            while not suffice({place[i] for i in after}):
                m = yield (tagged("answer"),)
                if m.number == k:
                    after[m.source] = t.world.now - begin
            if slow_factor < math.inf:
                slow = [after.get(i, math.inf) > slow_factor * statistics.median_low(after.values()) for i in range(t.nodes)]
            t.x[0] -= t.optimizer.step(CURVATURE * (t.x[0] - center), t.x[0], 0)
            send(k)

    models = np.zeros(t.nodes)

    def node(i):
        if i == 0:
            t.world.start(0, serve())
        if clusters:
            yield come(0, ("model", -1))
        begun = 0
        for k in range(t.steps):
            for _ in range(parts):
                if m := t.world.take(i, tagged(("model", k))):
                    break
                end = t.world.end_of_work(i, t.world.durations[i][begun])
                begun += 1
                if m := (yield tagged(("model", k)), end):
                    break
            else:
                t.world.send(i, 0, "answer", None, k)
                m = yield come(0, ("model", k))
            models[i] = m.value
            t.world.ends[i].append(t.world.now)

    t.world.run(node)
    return models


PLAIN, MOMENTUM = {"learning_rate": 0.05}, {"learning_rate": 0.03, "momentum": 0.7, "weight_decay": 0.03}
NESTEROV = {"learning_rate": 0.02, "momentum": 0.8, "nesterov": True, "weight_decay": 0.02}


class RandomTwins(WorldCase):
    def expect(self, twin, arguments, kind, keys, seed, sizes=(3, 5, 8), settings=None, patience=0, lasting=0,
               lose=0):
        """The same with all that a case draws: nodes, topology, latencies, lengths of gradients, and who is away. With patience, of
        so many milliseconds at most, nodes stop, but not the first `lasting` ones."""
        rng = drawn(f"{kind} {keys} {seed}")
        nodes, steps = rng.choice(sizes), rng.choice((7, 12))
        settings = settings or rng.choice((PLAIN, MOMENTUM, NESTEROV))
        latency = rng.choice((0, 10**6, rng.randrange(MS, 30 * MS)))
        topology = rng.choice(("ring", "complete", "star"))
        peers = {"ring": [sorted({(i - 1) % nodes, (i + 1) % nodes}) for i in range(nodes)],
                 "complete": [[j for j in range(nodes) if j != i] for i in range(nodes)],
                 "star": [list(range(1, nodes))] + [[0]] * (nodes - 1)}[topology]
        centers = [rng.randrange(-3000, 3000) / 1000 for _ in range(nodes)]
        coded = keys.get("stragglers", 0) + 1
        gradients = {"token_walk": nodes, "gradient_coding": coded, "gc_dc": coded}.get(kind, 1)  # of a step at most
        durations = self.durations(rng, nodes, steps * gradients, slow=rng.sample(range(nodes), 1))
        away = {i: (rng.randrange(80 * MS), rng.randrange(MS, 60 * MS)) for i in rng.sample(range(nodes), rng.randrange(nodes))}
        late = [i for i in away if i % 3 == 2]
        outages = [(i, 0 if i in late else begin, begin + long) for i, (begin, long) in away.items()]
        stops = set()
        if patience:  # chains of messages in no time, and waits that end with the arrival of a message, have no certain order
            latency, patience = latency or 10**6, rng.randrange(5 * MS, patience * MS)
            keys = keys | {"patience": f"{patience} ps"}
            outages += [(i, 0, rng.randrange(1, 10 * MS)) for i in range(nodes) if i not in away]
            stops = set(rng.sample(range(lasting, nodes), max(0, nodes - lasting) // 2)) - set(away)
            outages += [(i, rng.randrange(10 * MS, 150 * MS), NEVER) for i in sorted(stops)]
        rows = [f"{i},{seconds(begin)},{'inf' if end == NEVER else seconds(end)}\n" for i, begin, end in outages]
        world = World(durations, Constant(latency), seed, outages, lose)
        task = Task(world, centers, settings, peers)
        task.steps, task.patience = steps, patience
        models = twin(task, *arguments)
        with self.subTest(kind=kind, nodes=nodes, topology=topology, latency=latency, seed=seed, **keys, outages=outages, lose=lose):
            sections = {"run": {"seed": seed, "steps": steps, "save_models": True},
                        "failures": {"duplicate": 0.2, "lose": lose, "outages": "outages.csv"},
                        "topology": {"kind": topology}, "network": {"latency": f"{latency} ps"},
                        "workload": {"kind": "quadratic", "dimension": 7, "centers": "list", "start": START,
                                     "center_values": ", ".join(map(str, centers)), "curvature_min": CURVATURE,
                                     "curvature_max": CURVATURE},
                        "algorithm": {"kind": kind, **{key: "no" if value is False else value for key, value in keys.items()},
                                      **settings}}
            lasting = [i for i in range(nodes) if i not in stops]
            files = {"outages.csv": "node,begin,end\n" + "".join(rows)}
            if any(len(world.ends[i]) < steps for i in lasting):
                return self.results(sections, durations, files, status=1)
            program, time, _ = self.results(sections, durations, files)
            self.expect_ends(world, time)
            np.testing.assert_allclose(program[lasting], models[lasting], rtol=3e-6, atol=3e-6)

    def test_push_sum(self):
        for chance, gradient, seed in itertools.product((1, 0.5), ("model", "numerator"), range(1, 5)):
            self.expect(push_sum, (chance, gradient == "model"), "push_sum", {"send_chance": chance, "gradient": gradient}, seed,
                        settings=PLAIN)

    def test_swarm(self):
        twins = {"blocking": blocking_swarm, "non_blocking": swarm, "one_sided": one_sided_swarm}
        for averaging, phase, steps, alone, seed in itertools.product(twins, ("fixed", "geometric"), (1, 3), (0, 4), (1, 2)):
            self.expect(twins[averaging], (steps, phase == "geometric", alone), "swarm",
                        {"averaging": averaging, "phase": phase, "local_steps": steps, "alone_steps": alone}, seed)

    def test_adpsgd(self):
        for exchanges, seed in itertools.product((1, 3), range(1, 6)):
            self.expect(adpsgd, (exchanges,), "adpsgd", {"exchanges_per_step": exchanges}, seed)
            self.expect(adpsgd, (exchanges, None, True), "adpsgd", {"exchanges_per_step": exchanges, "neighbor": "cycle"}, seed,
                        sizes=(2, 3, 5, 8))

    def test_overlap_sgp(self):
        for tau, seed in itertools.product((0, 1, 3), range(1, 5)):
            self.expect(overlap_sgp, (tau,), "overlap_sgp", {"tau": tau}, seed)

    def test_slow_momentum(self):
        for (seed, policy), period in itertools.product(enumerate(("keep", "average", "reset")), (1, 4, 5)):
            slow = {"period": period, "slow_learning_rate": (1, 0.7)[seed % 2], "slow_momentum": 0.6, "momentum_policy": policy}
            shared = {"collective": "recursive_doubling", **slow}
            self.expect(overlap_sgp, (seed, *slow.values()), "slowmo", {"base": "overlap_sgp", "tau": seed, **shared}, period,
                        sizes=(2, 4, 8), settings=MOMENTUM)
            self.expect(slow_adpsgd, (seed + 1, *slow.values()), "slowmo",
                        {"base": "adpsgd", "exchanges_per_step": seed + 1, **shared}, period, sizes=(2, 4, 8), settings=MOMENTUM)

    def test_patience(self):
        for seed, lose in enumerate((0, 0, 0.05, 0.2)):
            for twin, arguments, kind, keys in (
                    (adpsgd, (seed + 1,), "adpsgd", {"exchanges_per_step": seed + 1}),
                    (pairwise_gossip, (8 * MS,), "pairwise_gossip", {"interval": "8 ms"}),
                    (push_sum, (0.8, True), "push_sum", {"send_chance": 0.8}),
                    (swarm, (2, False, 0), "swarm", {"local_steps": 2}),
                    (one_sided_swarm, (2, False, 0), "swarm", {"local_steps": 2, "averaging": "one_sided"})):
                self.expect(twin, arguments, kind, keys, seed, settings=MOMENTUM if kind != "push_sum" else PLAIN, patience=60,
                            lose=lose)
        settings = {"learning_rate": 0.01, "momentum": 0.5}
        for servers, bound, patience, seed in itertools.product((1, 2), (0, 2), (60, 250), (1, 2)):
            self.expect(async_parameter_server, (settings, servers, 2, 1, True, bound), "async_parameter_server", {
                "servers": servers, "push_period": 2, "consistency": "bounded", "staleness_bound": bound,
                "stale_gradients": "divided"}, seed, settings=settings, patience=patience, lasting=servers)

    def test_token_walk(self):
        for walk, seed in itertools.product(("random", "cyclic"), range(1, 4)):
            self.expect(token_walk, (walk == "cyclic",), "token_walk", {"walk": walk}, seed)

    def test_epidemic(self):
        for receivers, local_steps, timeout, seed in itertools.product((1, 2), (1, 2), (2, 15), (1, 2)):
            self.expect(epidemic, (receivers, local_steps, timeout * MS), "epidemic", {
                "receivers": receivers, "local_steps": local_steps, "agreement": "deadline", "timeout": f"{timeout} ms"}, seed)

    def test_eager(self):
        for activation, late, full, synchronize in itertools.product(("solo", "majority", "full"), ("accumulate", "drop"), (0, 3),
                                                                     (0, 5)):
            self.expect(eager, (activation, late, full, synchronize), "eager", {
                "activation": activation, "late": late, "full_every": full, "synchronize_every": synchronize,
                "collective": "recursive_doubling"}, 1, sizes=(2, 4, 8))

    def test_wagma(self):
        for size, tau, groups, seed in itertools.product((2, 4, 8), (3, 100), ("dynamic", "fixed"), (1, 2)):
            self.expect(wagma, (size, tau, groups), "wagma", {"group_size": size, "tau": tau, "groups": groups,
                                                              "collective": "recursive_doubling"}, seed,
                        sizes=[nodes for nodes in (2, 4, 8) if nodes >= size])

    def test_gradient_coding(self):
        for (code, stragglers, sizes), seed in itertools.product((("cyclic", 0, (3, 5, 8)), ("cyclic", 1, (3, 5, 8)),
                                                                  ("cyclic", 2, (3, 5, 8)), ("repetition", 1, (2, 4, 8)),
                                                                  ("repetition", 2, (3, 6, 9))), range(1, 5)):
            self.expect(gradient_coding, (stragglers, code == "cyclic"), "gradient_coding", {"code": code, "stragglers": stragglers},
                        seed, sizes=sizes)
        for (code, clusters, stragglers), seed in itertools.product((("cyclic", 1, 2), ("cyclic", 2, 1), ("cyclic", 2, 2),
                                                                     ("repetition", 2, 1), ("cyclic", 4, 0)), range(1, 3)):
            self.expect(gradient_coding, (stragglers, code == "cyclic", clusters), "gc_dc", {
                "code": code, "clusters": clusters, "stragglers": stragglers, "reassign": False}, seed, sizes=(8, 12))
        for (code, clusters, stragglers), factor, seed in itertools.product(
                (("cyclic", 2, 1), ("cyclic", 3, 1), ("repetition", 3, 1), ("cyclic", 4, 1)), (1, 1.5, 3), (1, 2)):
            self.expect(gradient_coding, (stragglers, code == "cyclic", clusters, factor), "gc_dc", {
                "code": code, "clusters": clusters, "stragglers": stragglers, "slow_factor": factor}, seed, sizes=(12, 24))

    def test_async_parameter_server(self):
        for servers, (push, fetch), divides, bound in itertools.product((1, 3), ((1, 1), (2, 3)), (False, True), (None, 0, 2)):
            settings = {"learning_rate": 0.01, "momentum": 0.5}
            bounded = {} if bound is None else {"consistency": "bounded", "staleness_bound": bound}
            self.expect(async_parameter_server, (settings, servers, push, fetch, divides, bound), "async_parameter_server", {
                "servers": servers, "push_period": push, "fetch_period": fetch, **bounded,
                "stale_gradients": "divided" if divides else "full"}, 1, settings=settings)

    def test_async_diloco(self):
        for (rule, rate, momentum, keys), period, seed in itertools.product((
                ("vanilla", 0.07, 0.9, {"weight": 0.4}), ("vanilla", 0.3, 0, {"weight": 1}),
                ("vanilla", 0.1, 0.8, {"weight": 0.5, "stale_progress": "damped"}), ("delayed", 0.5, 0.8, {"delay": 2}),
                ("delayed_nesterov", 0.5, 0.8, {"delay": 3, "share": 0.2}),
                ("delayed_nesterov", 0.7, 0.9, {"delay": 2, "share": 0})), (1, 4), range(1, 4)):
            self.expect(async_diloco, (period, rule, rate, momentum, keys), "async_diloco", {
                "period": period, "rule": rule, "outer_learning_rate": rate, "outer_momentum": momentum, **keys}, seed,
                sizes=(2, 3, 5, 8))


if __name__ == "__main__":
    main("program")
