"""A world for twins (see test_twins.py) whose nodes draw random numbers, pause, and send messages over networks: written from the documentation of
the program, with which it shares nothing but the names of its random streams. Time is whole picoseconds."""
import collections
import heapq
import itertools
import math
import random

import h5py
import numpy as np
from program_case import ProgramCase


MS = 10**9
WORD, TWO_WORDS = 2**32 - 1, 2**64 - 1
NEVER = math.inf


class Stream:
    """Random numbers by (seed, purpose, node, step): Philox4x32-10."""

    def __init__(self, seed, purpose, node=-1, step=0):
        name = 0xcbf29ce484222325
        for byte in purpose.encode():
            name = (name ^ byte) * 0x100000001b3 & TWO_WORDS
        key = self.mix(self.mix(seed) ^ name)
        self.key, self.counter, self.words = (key & WORD, key >> 32), [0, node & WORD, step & WORD, step >> 32], []

    @staticmethod
    def mix(value):
        value = value + 0x9e3779b97f4a7c15 & TWO_WORDS
        value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9 & TWO_WORDS
        value = (value ^ value >> 27) * 0x94d049bb133111eb & TWO_WORDS
        return value ^ value >> 31

    def draw(self):
        if not self.words:
            (a, b, c, d), (k, l) = self.counter, self.key
            for _ in range(10):
                p, q = a * 0xD2511F53, c * 0xCD9E8D57
                a, b, c, d = q >> 32 ^ b ^ k, q & WORD, p >> 32 ^ d ^ l, p & WORD
                k, l = k + 0x9E3779B9 & WORD, l + 0xBB67AE85 & WORD
            self.words = [a << 32 | b, c << 32 | d]
            self.counter[0] += 1
        return self.words.pop(0)

    def uniform(self):
        return (self.draw() >> 11) * 2.0**-53

    def exponential(self):
        return -math.log(1 - self.uniform())

    def below(self, bound):
        """Draws in the surplus of 2^64 over a multiple of the bound are drawn again."""
        while (product := self.draw() * bound) & TWO_WORDS < (1 << 64) % bound:
            pass
        return product >> 64

    def shuffle(self, items):
        for i in range(len(items), 1, -1):
            j = self.below(i)
            items[i - 1], items[j] = items[j], items[i - 1]


Message = collections.namedtuple("Message", "source tag value number")


class Constant:
    """Latency and bytes; a pair of nodes keeps its order."""

    def __init__(self, latency=0, per_byte=0):
        self.latency, self.per_byte, self.last = latency, per_byte, {}

    def send(self, world, pair, size, arrive):
        self.last[pair] = max(world.now + self.latency + size * self.per_byte, self.last.get(pair, 0))
        world.at(self.last[pair], arrive)


class World:
    """Runs fibres of nodes: generators that yield a time to sleep until, ("compute", step), a function that tells whether to go
    on, or a list of such functions of a message, and perhaps a deadline, to wait for the first message that one of them takes."""

    def __init__(self, durations, network=None, seed=1, outages=(), lose=0):
        self.nodes, self.durations, self.seed, self.network = len(durations), durations, seed, network or Constant()
        self.lose, self.sent = lose, [0] * self.nodes
        self.now, self.events, self.order = 0, [], itertools.count()
        self.outages = [sorted((b, e) for node, b, e in outages if node == i) for i in range(self.nodes)]
        self.mail, self.waiting, self.held = ([[] for _ in range(self.nodes)] for _ in range(3))
        self.ends = [[] for _ in range(self.nodes)]  # of steps

    def at(self, time, action, *arguments, last=False, due=None):
        """An event; what is to be the last of its instant comes behind all others, what was due before that before them."""
        place = (2 if last else 1, 0) if due is None else (0, due)
        if time < NEVER:
            heapq.heappush(self.events, (time, place, next(self.order), action, arguments))

    def of_node(self, i, time, action, *arguments):
        """An event of a node, which waits while that is away, and keeps its place among others that do."""
        def happen():
            back = next((end for begin, end in self.outages[i] if begin <= self.now < end), None)
            if back is None:
                action(*arguments)
            else:
                self.at(back, happen, due=time)
        self.at(max(time, self.now), happen, due=time if time < self.now else None)

    def end_of_work(self, i, work):
        """A node that is away rests."""
        time = self.now
        for begin, end in self.outages[i]:
            if end <= time:
                continue
            if begin - time >= work:
                break
            work -= max(0, begin - time)
            time = end
        return time + work

    def start(self, i, *fibres):
        for fibre in fibres:
            self.of_node(i, self.now, self.resume, i, fibre)

    def resume(self, i, fibre, answer=None):
        while True:
            try:
                wish = fibre.send(answer)
            except StopIteration:
                break
            if isinstance(wish, int):
                self.of_node(i, max(wish, self.now), self.resume, i, fibre)
                break
            if wish[0] == "compute":
                self.of_node(i, self.end_of_work(i, self.durations[i][wish[1]]), self.resume, i, fibre)
                break
            if wish[0] == "until":
                if wish[1]():
                    answer = None
                    continue
                self.held[i].append((wish[1], fibre))
                break
            answer = self.take(i, wish[0])
            if answer is None:
                wait = (wish[0], fibre)
                self.waiting[i].append(wait)
                if len(wish) > 1:
                    self.of_node(i, wish[1], self.expire, i, wait)
                break
        for wait in [wait for wait in self.held[i] if wait[0]()]:
            self.held[i].remove(wait)
            self.start(i, wait[1])

    def take(self, i, accepts):
        """The first message in the mail of a node that is accepted."""
        found = next((m for m in self.mail[i] if any(accept(m) for accept in accepts)), None)
        if found is not None:
            self.mail[i].remove(found)
        return found

    def expire(self, i, wait):
        if wait in self.waiting[i]:
            self.waiting[i].remove(wait)
            self.resume(i, wait[1])

    def deliver(self, i, message):
        for wait in self.waiting[i]:
            if any(accept(message) for accept in wait[0]):
                self.waiting[i].remove(wait)
                return self.resume(i, wait[1], message)
        return self.mail[i].append(message)

    def send(self, i, to, tag, value=None, number=0, size=0):
        message = Message(i, tag, value, number)
        if i == to:
            return self.of_node(i, self.now, self.deliver, i, message)
        is_lost = self.lose and Stream(self.seed, "message fate", i, self.sent[i]).uniform() < self.lose
        self.sent[i] += 1
        self.network.send(self, (i, to), size, lambda: is_lost or self.of_node(to, self.now, self.deliver, to, message))

    def run(self, fibre):
        """The program of every node, until all is done."""
        for i in range(self.nodes):
            self.start(i, fibre(i))
        while self.events:
            self.now, _, _, action, arguments = heapq.heappop(self.events)
            action(*arguments)


def come(source, tag):
    """To wait for such a message."""
    return ([lambda m: m.source == source and m.tag == tag],)


def seconds(picoseconds):
    return f"{picoseconds // 10**12}.{picoseconds % 10**12:012d}"


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

    def workload(self, _place):
        return {"kind": "quadratic", "dimension": self.dimension, "start": 0.3}


class WorldCase(ProgramCase):
    def durations(self, rng, nodes, steps, slow=()):
        """Of all gradients, 5 to 20 ms, or four times as long."""
        return [[rng.randrange(5 * MS, 20 * MS) * (4 if i in slow else 1) for _ in range(steps)] for i in range(nodes)]

    def results(self, sections, durations, files=None, status=0):
        """Of a run whose gradients last so long: its final models, ends of steps in seconds, and traffic; None if it shall fail."""
        rows = [f"{i},{k},{seconds(d)}\n" for i, steps in enumerate(durations) for k, d in enumerate(steps)]
        for name, text in {**(files or {}), "trace.csv": "node,step,seconds\n" + "".join(rows)}.items():
            self.write(name, text)
        nodes, steps = len(durations), len(durations[0])
        base = {"run": {"nodes": nodes, "steps": steps, "output": "twin.h5", "record_every": 1},
                "network": {"kind": "constant", "latency": "0 s"}, "compute": {"distribution": "trace", "trace": "trace.csv"}}
        text = ""
        for name in base | sections:
            keys = base.get(name, {}) | sections.get(name, {})
            text += f"[{name}]\n" + "".join(f"{key} = {'yes' if value is True else value}\n" for key, value in keys.items())
        self.write("twin.ini", text)
        self.starling("run", "--quiet", "twin.ini", status=status)
        if status:
            return None
        with h5py.File(self.folder / "twin.h5") as results:
            models = results["models"][:, 0] if "models" in results else None
            return models, results["steps/time"][()], results["nodes/bytes_sent"][()]

    def expect_ends(self, world, time, tolerance=0):
        """Steps end at the same times, or never; tolerance in picoseconds, beside the rounding of a double."""
        ends = np.array([times + [math.nan] * (len(time) - len(times)) for times in world.ends]).T
        np.testing.assert_allclose(time, ends * 1e-12, rtol=1e-15, atol=(tolerance + 0.5) * 1e-12)


def drawn(seed):
    return random.Random(seed)
