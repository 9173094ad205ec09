"""Twins (see test_twins.py) that average in pairs, each a program of nodes in a `World`: SwarmSGD in its three forms, AD-PSGD, and gossip
by clocks. What they draw is what the program draws; what they tell each other may be told in codes (test_pair_twins.py)."""
import itertools

import numpy as np

from twin_support import CURVATURE, START, Optimizer
from twin_world import Stream, come


def tagged(*tags):
    return [lambda m: m.tag in tags]


class Task:
    """What twins share: nodes with quadratics, an optimizer, and how long a node waits for another one."""
    patience = 0  # for ever

    def __init__(self, world, centers, settings, peers):
        self.world, self.nodes, self.steps = world, world.nodes, len(world.durations[0])
        self.centers, self.peers = centers, peers
        self.x, self.optimizer = np.full(world.nodes, START), Optimizer(world.nodes, **settings)

    def step(self, i, at):
        """The step of node i by its gradient at so and so."""
        return self.optimizer.step(CURVATURE * (at - self.centers[i]), at, i)

    def stream(self, purpose, node, step):
        return Stream(self.world.seed, purpose, node, step)

    def partner(self, purpose, i, step):
        return self.peers[i][self.stream(purpose, i, step).below(len(self.peers[i]))]

    def patient(self, accepts):
        """To wait for a message, as long as one does."""
        return (accepts, self.world.now + self.patience) if self.patience else (accepts,)

    def pairs(self, takes_mean=False, base=None):
        """What averages in pairs; codes (test_pair_twins.py) need to be told more."""
        return Pairs(self)

    def readers(self, published):
        """What moves to the mean with what another has published."""
        return Pairs(self, published)

    def average(self, i, j, r):
        """Of nodes i and j in round r."""
        self.world.send(i, j, r, self.x[i])
        m = yield come(j, r)
        self.x[i] = (self.x[i] + m.value) / 2


class Pairs:
    """Averages in pairs, by half the difference of what was sent; or of what is published, and then only who asks moves. Requests
    are numbered, and all messages tell how many of the other's were seen: two that cross are one exchange.

    With patience a silent partner is left alone for 2, 4, 8, .. times as long, until something comes; what it answers after all
    counts. At the end all tell all, and who hears nothing for so long answers no more."""

    def __init__(self, t, published=None):
        self.t, self.published = t, published
        self.open = [{} for _ in range(t.nodes)]  # {(partner, number): what was sent}
        self.waits, self.is_done = [None] * t.nodes, [False] * t.nodes
        self.asked, self.seen, self.silences, self.alone_until = np.zeros((4, t.nodes, t.nodes), int)
        for i in range(t.nodes):
            t.world.start(i, self.serve(i))

    def say(self, i, j, tag, _initiator, number):
        """Answers what was sent."""
        v = (self.t.x if self.published is None else self.published)[i]
        self.t.world.send(i, j, tag, None if self.published is not None and tag == "ask" else v, (number, self.seen[i, j]))
        return self.t.x[i] if tag == "ask" else v

    def move(self, i, sent, value):
        self.t.x[i] += (value - sent) / 2

    def serve(self, i):
        mine = self.open[i]
        while True:
            accepts = tagged("ask", "answer", "done")
            m = yield self.t.patient(accepts) if self.is_done[i] else (accepts,)
            if m is None:
                return
            j, (number, seen) = m.source, m.number
            self.silences[i, j] = self.alone_until[i, j] = 0
            if m.tag == "done":
                self.is_done[i] |= i == j
                continue
            ended = j, seen
            if m.tag == "ask":
                self.seen[i, j] = number
                crossed = [name for name in mine if name[0] == j and name[1] > seen and self.published is None]
                ended = min(crossed, default=None)
            sent = mine.pop(ended, None)
            for lost in [name for name in mine if name[0] == j and name[1] <= seen]:
                del mine[lost]
            if m.tag == "ask" and sent is None:
                sent = self.say(i, j, "answer", j, number)
            if m.value is not None and sent is not None:
                self.move(i, sent, m.value)

    def exchange(self, i, j):
        world = self.t.world
        if world.now < self.alone_until[i, j]:
            return
        self.asked[i, j] += 1
        name = self.waits[i] = j, self.asked[i, j]
        self.open[i][name] = self.say(i, j, "ask", i, name[1])
        if self.t.patience:
            world.start(i, self.give_up(i, name, world.now + self.t.patience))
        yield "until", lambda: self.waits[i] is None or name not in self.open[i]
        self.waits[i] = None

    def give_up(self, i, name, deadline):
        yield deadline
        if self.waits[i] == name and name in self.open[i]:
            self.waits[i], j = None, name[0]
            self.silences[i, j] = min(self.silences[i, j] + 1, 10)
            self.alone_until[i, j] = self.t.world.now + self.t.patience * 2**self.silences[i, j]

    def finish(self, i):
        for j in [*self.t.peers[i], i] if self.t.patience else []:
            self.t.world.send(i, j, "done", None, (0, self.seen[i, j]))


def length(t, i, phase, local_steps, is_geometric):
    stream, steps = t.stream("local steps", i, phase), 1
    while is_geometric and stream.below(local_steps):
        steps += 1
    return steps if is_geometric else local_steps


def swarm(t, local_steps, is_geometric, alone_steps):
    base, live = t.x.copy(), t.x.copy()
    pairs = t.pairs(True, base)

    def node(i):
        phase, end = 0, min(alone_steps, t.steps) + length(t, i, 0, local_steps, is_geometric)
        for k in range(1, t.steps + 1):
            yield "compute", k - 1
            live[i] -= t.step(i, live[i])
            if k in (end, t.steps):
                if k == end:
                    yield from pairs.exchange(i, t.partner("partner", i, phase))
                t.x[i] += live[i] - base[i]
                base[i] = live[i] = t.x[i]
                phase += 1
                end += length(t, i, phase, local_steps, is_geometric)
            t.world.ends[i].append(t.world.now)
        pairs.finish(i)

    t.world.run(node)
    return t.x


def matching(t, r):
    stream, order, partner = t.stream("matching", -1, r), list(range(t.nodes)), list(range(t.nodes))
    stream.shuffle(order)
    for i in order:
        free = [j for j in t.peers[i] if partner[j] == j]
        if partner[i] == i and free:
            partner[i] = free[stream.below(len(free))]
            partner[partner[i]] = i
    return partner


def one_sided_swarm(t, local_steps, is_geometric, alone_steps):
    """Nodes read what a random peer had after its last step."""
    published = t.x.copy()
    readers = t.readers(published)

    def node(i):
        phase, end = 0, min(alone_steps, t.steps) + length(t, i, 0, local_steps, is_geometric)
        for k in range(1, t.steps + 1):
            at = t.x[i].copy()
            yield "compute", k - 1
            t.x[i] -= t.step(i, at)
            published[i] = t.x[i]
            if k == end:
                yield from readers.exchange(i, t.partner("partner", i, phase))
                phase += 1
                end += length(t, i, phase, local_steps, is_geometric)
            t.world.ends[i].append(t.world.now)
        readers.finish(i)

    t.world.run(node)
    return t.x


def blocking_swarm(t, local_steps, is_geometric, alone_steps):
    """All take part in the same rounds; steps that are left over come last."""
    alone = min(alone_steps, t.steps)
    rounds = (t.steps - alone) // local_steps

    def node(i):
        r, end = 0, alone + length(t, i, 0, local_steps, is_geometric)
        for k in itertools.count(1):
            if k <= t.steps:
                yield "compute", k - 1
                t.x[i] -= t.step(i, t.x[i])
            if k >= end and r < rounds:
                j = matching(t, r)[i]
                if j != i:
                    yield from t.average(i, j, r)
                r += 1
                end += length(t, i, r, local_steps, is_geometric)
            if k <= t.steps:
                t.world.ends[i].append(t.world.now)
            if k >= t.steps and r == rounds:
                return

    t.world.run(node)
    return t.x


def barrier(t, i, k):
    """Up a binomial tree to node 0, and down again."""
    children = [i + bit for bit in (1 << r for r in range(t.nodes.bit_length())) if bit < (i & -i or t.nodes) and i + bit < t.nodes]
    for child in children:
        yield come(child, ("up", k))
    if i:
        parent = i & i - 1
        t.world.send(i, parent, ("up", k))
        yield come(parent, ("down", k))
    for child in reversed(children):
        t.world.send(i, child, ("down", k))


def adpsgd(t, exchanges_per_step, slow=None, takes_turns=False):
    """Exchanges that earlier gradients allowed, and that have not begun at the last one (of a block), never do. A node that
    takes turns goes round its peers in order of number, from its own on."""
    pairs, begun, owed = t.pairs(), np.zeros(t.nodes, int), np.zeros(t.nodes, int)
    exchanging = np.zeros(t.nodes, bool)

    def gossip(i):
        for e in itertools.count():
            yield "until", lambda: owed[i] > 0 or begun[i] == t.steps
            if owed[i] == 0:
                return pairs.finish(i)
            owed[i] -= 1
            exchanging[i] = True
            in_turn = sorted(t.peers[i], key=lambda j: (j < i, j))
            yield from pairs.exchange(i, in_turn[e % len(in_turn)] if takes_turns else t.partner("partner", i, e))
            exchanging[i] = False

    def node(i):
        t.world.start(i, gossip(i))
        for k in range(t.steps):
            begun[i] += 1
            ends_block = slow is not None and slow.ends(k)
            owed[i] = exchanges_per_step + (owed[i] if k < t.steps - 1 and not ends_block else 0)
            at = t.x[i].copy()
            yield "compute", k
            t.x[i] -= t.step(i, at)
            if ends_block:
                yield "until", lambda: owed[i] == 0 and not exchanging[i]
                yield from barrier(t, i, k)
                t.x[i] = yield from slow.step(i, k, t.x[i])
                yield from barrier(t, i, k)
            t.world.ends[i].append(t.world.now)

    t.world.run(node)
    return t.x


def pairwise_gossip(t, interval):
    pairs = t.pairs()

    def gossip(i):
        tick = t.world.now
        for e in itertools.count():
            stream = t.stream("gossip", i, e)
            tick += round(interval * stream.exponential())
            if (yield tagged("stop"), max(tick, t.world.now)):
                return pairs.finish(i)
            yield from pairs.exchange(i, t.peers[i][stream.below(len(t.peers[i]))])

    def node(i):
        t.world.start(i, gossip(i))
        for k in range(t.steps):
            at = t.x[i].copy()
            yield "compute", k
            t.x[i] -= t.step(i, at)
            t.world.ends[i].append(t.world.now)
        t.world.send(i, i, "stop")

    t.world.run(node)
    return t.x
