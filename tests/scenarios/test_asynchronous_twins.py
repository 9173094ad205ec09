#!/usr/bin/python3
"""Algorithms beside twins in numpy (see test_twins.py): those in which every node goes at its own pace. Twins have event loops.

usage: test_asynchronous_twins.py STARLING
"""
import collections
import heapq
import itertools

import numpy as np

from twin_support import OPTIMIZERS, START, Optimizer, TwinCase, gradient, main

# Milliseconds of a gradient, of every node; no two ends of gradients coincide.
TIMES = {2: [10, 27.3], 4: [10, 11.03, 12.07, 27.3], 8: [10, 11.03, 12.07, 13.1, 14.2, 15.3, 16.7, 41.4]}
LATENCY = 3.17  # milliseconds, of a message


# --- Gradients alone take time --------------------------------------------------------------------------------------------------


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


# --- Messages that take time ---------------------------------------------------------------------------------------------------


class Clock:
    """Runs processes: generators that yield milliseconds to sleep, or the name of a mailbox to wait for a message there."""

    def __init__(self):
        self.now, self.events, self.order = 0, [], itertools.count()
        self.mail, self.waiting = collections.defaultdict(collections.deque), {}

    def after(self, delay, action, *arguments):
        heapq.heappush(self.events, (self.now + delay, next(self.order), action, arguments))

    def start(self, process):
        self.after(0, self.resume, process)

    def resume(self, process, message=None):
        try:
            wish = process.send(message)
        except StopIteration:
            return
        if isinstance(wish, (int, float)):
            self.after(wish, self.resume, process)
        elif self.mail[wish]:
            self.resume(process, self.mail[wish].popleft())
        else:
            self.waiting[wish] = process

    def deliver(self, mailbox, message=None):
        if mailbox in self.waiting:
            self.resume(self.waiting.pop(mailbox), message)
        else:
            self.mail[mailbox].append(message)

    def run(self):
        while self.events:
            self.now, _, action, arguments = heapq.heappop(self.events)
            action(*arguments)


def way_to_server(node):
    """The server is on node 0."""
    return 0 if node == 0 else LATENCY


def async_parameter_server(times, steps, settings, push_period, fetch_period, divides, bound):
    nodes, clock, optimizer = len(times), Clock(), Optimizer(1, **settings)
    models, x, version = np.full(nodes, START), np.full(1, START), 0
    fetched, pushes, asking = [0] * nodes, [0] * nodes, []

    def answer():
        for i in asking[:]:
            if bound is None or pushes[i] - min(pushes) <= bound:
                asking.remove(i)
                fetched[i] = version
                clock.after(way_to_server(i), clock.deliver, ("model", i), x[0])

    def take_push(i, g):
        nonlocal version
        staleness = version - fetched[i]
        x[0] -= optimizer.step(g / max(1, staleness) if divides else g, x[0], 0)
        version += 1
        pushes[i] += 1
        answer()

    def take_fetch(i):
        asking.append(i)
        answer()

    def node(i):
        x_i, pushed = START, 0
        for k in range(1, steps + 1):
            g = gradient(x_i, i)
            yield times[i]
            x_i, pushed = x_i - settings["learning_rate"] * g, pushed + g
            if k % push_period == 0 or k == steps:
                clock.after(way_to_server(i), take_push, i, pushed)
                pushed = 0
            if k % fetch_period == 0 or k == steps:
                clock.after(way_to_server(i), take_fetch, i)
                x_i = yield "model", i
        models[i] = x_i

    for i in range(nodes):
        clock.start(node(i))
    clock.run()
    return models


def async_diloco(times, steps, settings, period, rule, delay, share, rate, momentum, weight):
    """steps is a multiple of period."""
    nodes, clock, inner = len(times), Clock(), Optimizer(len(times), **settings)
    models, theta, m, collected = np.full(nodes, START), START, 0, 0
    blocks, held = [steps // period] * nodes, {}

    def take(i, progress):
        nonlocal theta, m, collected
        blocks[i] -= 1
        answered = [i]
        if rule == "vanilla":
            m = momentum * m + weight * progress
            theta -= rate * (weight * progress + momentum * m)
        elif rule == "delayed":
            held[i] = progress
            others_come = any(blocks[j] > 0 for j in range(nodes) if j not in held)
            if len(held) < delay and others_come:
                return
            mean = sum(held.values()) / len(held)
            m = momentum * m + mean
            theta -= rate * (mean + momentum * m)
            answered = list(held)
            held.clear()
        else:
            collected += progress
            comes_round = (nodes * steps // period - sum(blocks)) % delay == 0
            if comes_round:
                m, collected = momentum * m + collected / delay, 0
            part = 1 - share * delay + share if comes_round else share
            theta -= rate * (part * momentum * m + progress / delay)
        for j in answered:
            clock.after(way_to_server(j), clock.deliver, ("theta", j), theta)

    def node(i):
        x = START
        for _ in range(steps // period):
            begin = x
            for _ in range(period):
                g = gradient(x, i)
                yield times[i]
                x -= inner.step(g, x, i)
            clock.after(way_to_server(i), take, i, begin - x)
            x = yield "theta", i
        models[i] = x

    for i in range(nodes):
        clock.start(node(i))
    clock.run()
    return models


def adpsgd(times, steps, settings):
    """On a ring, partners in turn. Two requests that cross are one exchange."""
    nodes, clock, optimizer = len(times), Clock(), Optimizer(len(times), **settings)
    x, asks = np.full(nodes, START), {}  # {node: [its partner, what it sent, whether the partner has it}

    def node(i):
        for _ in range(steps):
            clock.after(0, clock.deliver, ("begun", i))
            at = x[i]
            yield times[i]
            x[i] -= optimizer.step(gradient(at, i), at, i)

    def beside(i):
        neighbors = sorted({(i - 1) % nodes, (i + 1) % nodes}, key=lambda j: (j < i, j))  # from its own number on
        for k in range(steps):
            yield "begun", i
            asks[i] = [neighbors[k % len(neighbors)], x[i], False]
            clock.after(LATENCY, take_request, i, *asks[i][:2])
            theirs = yield "answer", i
            x[i] += (theirs - asks.pop(i)[1]) / 2

    def take_request(i, partner, model):
        if partner in asks and asks[partner][0] == i and not asks[partner][2]:
            return clock.deliver(("answer", partner), model)
        if i in asks:
            asks[i][2] = True
        clock.after(LATENCY, clock.deliver, ("answer", i), x[partner])
        x[partner] += (model - x[partner]) / 2

    for i in range(nodes):
        clock.start(node(i))
        clock.start(beside(i))
    clock.run()
    return x


class AsynchronousTwins(TwinCase):
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

    def test_async_parameter_server(self):
        for nodes, settings, (push, fetch, divides, bound) in itertools.product((2, 4, 8), OPTIMIZERS, (
                (1, 1, False, None), (1, 1, True, None), (3, 2, False, None), (2, 4, True, None), (1, 1, False, 0),
                (2, 2, True, 1))):
            settings = {**settings, "learning_rate": settings["learning_rate"] / 4}
            twin = async_parameter_server(TIMES[nodes], 14, settings, push, fetch, divides, bound)
            bounded = {} if bound is None else {"consistency": "bounded", "staleness_bound": bound}
            self.expect(twin, nodes, 14, {
                "kind": "async_parameter_server", "push_period": push, "fetch_period": fetch, **bounded, **settings,
                "stale_gradients": "divided" if divides else "full"}, times=TIMES[nodes], latency=LATENCY)

    def test_async_diloco(self):
        for nodes, settings, (rule, delay, share, rate, momentum, weight) in itertools.product((2, 4, 8), OPTIMIZERS[1:], (
                ("vanilla", 1, 0, 0.07, 0.9, 0.4), ("vanilla", 1, 0, 0.3, 0, 1), ("delayed", 2, 0, 0.5, 0.8, 1),
                ("delayed_nesterov", 3, 0.2, 0.5, 0.8, 1), ("delayed_nesterov", 2, 0, 0.7, 0.9, 1))):
            settings = {**settings, "learning_rate": settings["learning_rate"] / 4}
            twin = async_diloco(TIMES[nodes], 20, settings, 4, rule, delay, share, rate, momentum, weight)
            keys = {"weight": weight} if rule == "vanilla" else {"delay": delay}
            keys |= {"share": share} if rule == "delayed_nesterov" else {}
            self.expect(twin, nodes, 20, {
                "kind": "async_diloco", "period": 4, "rule": rule, "outer_learning_rate": rate, "outer_momentum": momentum,
                **keys, **settings}, times=TIMES[nodes], latency=LATENCY)

    def test_adpsgd(self):
        for nodes, settings in itertools.product((2, 4, 8), OPTIMIZERS):
            self.expect(adpsgd(TIMES[nodes], 15, settings), nodes, 15, {"kind": "adpsgd", "neighbor": "cycle", **settings},
                        times=TIMES[nodes], latency=LATENCY)


if __name__ == "__main__":
    main()
