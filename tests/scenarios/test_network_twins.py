#!/usr/bin/python3
"""Network models and exchanges in pieces beside twins (see test_twins.py): ports by the rules of LogGP, a plain solver of max-min
fair rates, routes worked out anew, collectives message by message. Nodes exchange models over random directed graphs after
gradients of random lengths, so messages cross that set off and arrive at different times. Every step of every node ends at the
same time.

usage: test_network_twins.py STARLING
"""
import collections
import functools
import itertools
import math

from program_case import main
from twin_world import MS, NEVER, Constant, World, WorldCase, come, drawn

ROUNDING = 100  # picoseconds, of some hundred changes of rates


class LogGP:
    """Picoseconds, and picoseconds per byte; nodes that are so many times as slow."""

    def __init__(self, nodes, latency, overhead, gap, per_byte, overhead_per_byte, slow):
        self.latency, self.overhead, self.gap = latency, overhead, gap
        self.per_byte, self.overhead_per_byte = per_byte, overhead_per_byte
        self.slow, self.cpu, self.port = slow, [0] * nodes, ([0] * nodes, [0] * nodes)
        self.queue = tuple([collections.deque() for _ in range(nodes)] for _ in range(2))  # what waits to be sent; to arrive

    def send(self, world, pair, size, arrive):
        self.queue[0][pair[0]].append((world.now, pair[1], size, arrive))
        self.look(world, pair[0])

    def look(self, world, i):
        """Who has waited longest begins, a send before an arrival."""
        while True:
            ready = [(self.queue[way][i][0][0], way) for way in (0, 1)
                     if self.queue[way][i] and max(self.cpu[i], self.port[way][i]) <= world.now]
            if not ready:
                return
            way = min(ready)[1]
            _, to, size, arrive = self.queue[way][i].popleft()
            more, slow = max(size - 1, 0), self.slow.get(i, 1)
            each = self.overhead_per_byte if way == 0 else max(self.overhead_per_byte, self.per_byte)
            self.cpu[i] = world.now + slow * (self.overhead + more * each)
            self.port[way][i] = world.now + slow * (self.gap + more * self.per_byte)
            if way == 0:
                late = max(0, slow - self.slow.get(to, 1)) * more * self.per_byte  # until the last byte has left
                world.at(world.now + slow * self.overhead + self.latency + late, self.first_byte, world, to, size, arrive)
            else:
                world.at(self.cpu[i], arrive)
            for time in (self.cpu[i], self.port[way][i]):
                world.at(time, self.look, world, i, last=True)

    def first_byte(self, world, i, size, arrive):
        self.queue[1][i].append((world.now, i, size, arrive))
        world.at(world.now, self.look, world, i, last=True)


def max_min(flows, capacity):
    """Rates of {flow: (weight, {link: share of the rate}, bound)}: all grow together until a link is full."""
    rates, load, growing = {}, collections.Counter(), dict(flows)
    while growing:
        slope = collections.Counter()
        for weight, links, _ in growing.values():
            for link, share in links.items():
                slope[link] += weight * share
        level = {link: (capacity(link) - load[link]) / slope[link] for link in slope}
        least = min(itertools.chain(level.values(), (bound / weight for weight, _, bound in growing.values())))
        for flow, (weight, links, bound) in list(growing.items()):
            if bound / weight <= least * (1 + 1e-12) or any(level[link] <= least * (1 + 1e-12) for link in links):
                del growing[flow]
                rates[flow] = weight * least
                for link, share in links.items():
                    load[link] += rates[flow] * share
    return rates


class Fluid:
    """route(a, b) names links; `own` says which have another (bandwidth, latency). Rules of TCP: see keys.md."""

    def __init__(self, route, bandwidth, latency, own=None, concurrent=True, schedule=(), latency_factor=1, bandwidth_factor=1,
                 window=0, weight_bytes=None, cross_traffic=0, tables=None):
        self.route, self.usual, self.own = route, (bandwidth, latency), own or {}
        self.concurrent, self.schedule = concurrent, schedule
        self.latency_factor, self.bandwidth_factor, self.window = latency_factor, bandwidth_factor, window
        self.weight_bytes, self.cross_traffic = weight_bytes, cross_traffic
        self.tables = tables or {}  # further factors by key: of messages of more bytes than each entry says
        self.flows, self.rates, self.left, self.since, self.changes = {}, {}, {}, 0, 0
        self.factor, self.pairs, self.is_changing = {}, collections.defaultdict(list), False

    def begin(self, world):
        for time, link, factor in self.schedule:
            world.at(time, self.turn, world, link, factor)

    def turn(self, world, link, factor):
        self.factor[link] = factor
        self.change(world)

    def of(self, link):
        return self.own.get(link, self.usual)

    def capacity(self, link):
        return self.of(link)[0] * self.bandwidth_factor * self.factor.get(link, 1)

    def by_size(self, key, size):
        return next((factor for above, factor in reversed(self.tables.get(key, ())) if size > above), 1)

    def send(self, world, pair, size, arrive):
        latency = sum(self.of(link)[1] for link in self.route(*pair))
        message = {"size": size, "pair": pair, "arrive": arrive, "latency": latency, "is_ready": False, "is_through": False}
        self.pairs[pair].append(message)
        world.at(world.now + round(latency * self.latency_factor * self.by_size("latency_factor", size)), self.join, world, message)

    def join(self, world, message):
        message["is_ready"] = True
        if self.concurrent or self.pairs[message["pair"]][0] is message:
            self.open(world, message)

    def open(self, world, message):
        a, b = message["pair"]
        links = collections.Counter(self.route(a, b))
        if self.cross_traffic:
            for link in self.route(b, a):
                links[link] += self.cross_traffic
        latency, weight = message["latency"] * 1e-12, 1
        if self.weight_bytes is not None:
            resistance = latency + sum(self.weight_bytes / self.of(link)[0] for link in self.route(a, b))
            weight = 1 / resistance if resistance else 1
        bound = self.bandwidth_factor * self.window / (2 * latency) if self.window and latency else math.inf
        self.change(world)
        message["is_open"] = True
        self.flows[id(message)], self.left[id(message)] = (weight, links, bound), [message["size"] / self.by_size("bandwidth_factor", message["size"]), message]

    def change(self, world):
        """What has passed so far; at the end of this instant, once, new rates."""
        for flow, left in self.left.items():
            left[0] -= self.rates.get(flow, 0) * (world.now - self.since) * 1e-12
        self.since = world.now
        if not self.is_changing:
            self.is_changing = True
            world.at(world.now, self.settle, world, last=True)

    def settle(self, world):
        self.is_changing, self.rates = False, max_min(self.flows, self.capacity)
        self.changes += 1
        times = [left / self.rates[flow] for flow, (left, _) in self.left.items() if self.rates[flow] > 0]
        if times:
            world.at(world.now + max(0, round(min(times) * 1e12)), self.finish, world, self.changes)

    def finish(self, world, changes):
        if changes != self.changes:
            return
        self.change(world)
        for flow in [flow for flow, (left, _) in self.left.items() if left < 0.6e-12 * self.rates.get(flow, 0)]:
            del self.flows[flow]
            message = self.left.pop(flow)[1]
            message["is_through"], waiting = True, self.pairs[message["pair"]]
            while waiting and waiting[0]["is_through"]:  # in order
                waiting.pop(0)["arrive"]()
            if not self.concurrent and waiting and waiting[0]["is_ready"]:
                self.open(world, waiting[0])


def crossbar(a, b):
    return f"host {a} up", f"host {b} down"


def torus(sides):
    def route(a, b):
        links, stride = [], 1
        for side in sides:
            while (x := a // stride % side) != (y := b // stride % side):
                ahead = (y - x) % side
                step = 1 if 2 * ahead < side or (2 * ahead == side and y) else -1
                links.append((a, side, stride, step))
                a += ((x + step) % side - x) * stride
            stride *= side
        return links
    return route


def fat_tree(children, parents, cables):
    """d-mod-k; a switch is (level, its first host's number over those below it, which of the switches with these hosts below)."""
    def route(a, b):
        links, level, which = [], 0, 0
        while a // (below := math.prod(children[:level])) != b // below:
            width = math.prod(parents[:level])
            port = b // width % (parents[level] * cables[level])
            links.append(("up", level, a // below, which, port))
            which += width * (port % parents[level])
            level += 1
        for low in reversed(range(level)):
            width = math.prod(parents[:low])
            links.append(("down", low, b // math.prod(children[:low]), which, a % cables[low]))
            which %= width
        return links
    return route


def way_between(a, b):
    """SplitMix64 of both, the lower one first: whose remainders say which of equal ways a pair takes."""
    z = ((min(a, b) << 32 | max(a, b)) + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def dragonfly(hosts, routers, ports, groups):
    """Minimal."""
    def ways(group, other):
        used = routers * ports // (groups - 1) * (groups - 1)  # as many to each group
        return [port for port in range(used) if (group + 1 + port % (groups - 1)) % groups == other]

    def route(a, b):
        at, goal, links = a // hosts, b // hosts, [("up", a)]
        group, other = at // routers, goal // routers
        if group != other:
            turn = way_between(a, b) % len(ways(group, other))
            port, back = ways(group, other)[turn], ways(other, group)[turn]
            gate = group * routers + port // ports
            links += [("local", at, gate)] * (at != gate) + [("global", group, port)]
            at = other * routers + back // ports
        return links + [("local", at, goal)] * (at != goal) + [("down", b)]
    return route


def shortest(vertices, arcs, goes_on):
    """Fewest links, then least latency; which of equal turns their hash says, divided by how many there were at each. Arcs are (from, to,
    link, latency), in order of the file."""
    @functools.cache
    def rest(to):
        best = {to: (0, 0)}
        for _ in range(vertices):
            for a, b, _, latency in arcs:
                if a != to and b in best and (b == to or goes_on(b)):
                    best[a] = min(best.get(a, (NEVER, 0)), (best[b][0] + 1, best[b][1] + latency))
        return best

    def route(a, b):
        links, at, to_go, way = [], a, rest(b), way_between(a, b)
        while at != b:
            turns = [(y, link) for x, y, link, latency in arcs if x == at and y in to_go and (y == b or goes_on(y))
                     and (to_go[y][0] + 1, to_go[y][1] + latency) == to_go[at]]
            at, link = turns[way % len(turns)]
            way //= len(turns)
            links.append(link)
        return links
    return route


def turns(out):
    """Whom each node sends to, in order: from the one above on, and around; in order of arcs' colors where so two send to one at a time."""
    around = [sorted(to, key=lambda j, i=i: (j < i, j)) for i, to in enumerate(out)]
    if all(len({to[t] for to in around if t < len(to)}) == sum(t < len(to) for to in around) for t in range(len(out))):
        return around
    color = {}

    def first_free(end, node):
        return next(c for c in itertools.count() if all(arc[end] != node or color[arc] != c for arc in color))

    for arc in ((i, j) for i, to in enumerate(out) for j in sorted(to)):
        here, there = first_free(0, arc[0]), first_free(1, arc[1])
        swapped, end, node, wanted = [], 1, arc[1], here
        while found := [a for a in color if a[end] == node and color[a] == wanted]:
            swapped += found
            end, wanted = 1 - end, here + there - wanted
            node = found[0][end]
        color.update({a: here + there - color[a] for a in swapped})
        color[arc] = here
    return [sorted(to, key=lambda j, i=i: color[i, j]) for i, to in enumerate(out)]


def exchange(world, out, size):
    """D-PSGD: models leave when a step begins."""
    order = turns(out)

    def node(i):
        for k in range(len(world.durations[i])):
            for j in order[i]:
                world.send(i, j, k, size=size)
            yield "compute", k
            for j in range(world.nodes):
                if i in out[j]:
                    yield come(j, k)
            world.ends[i].append(world.now)

    world.run(node)


def whole(floats):
    """Bytes: a model without numbers is cut into equal parts, not of whole floats."""
    return math.floor(4 * floats + 0.5)


class Host:
    """Copies between device and host memory, one at a time each way; additions."""

    def __init__(self, nodes, latency, per_byte, reduction):
        self.latency, self.per_byte, self.reduction = latency, per_byte, reduction
        self.until = {"out": [0] * nodes, "in": [0] * nodes}

    def copy(self, way, i, since, size):
        if self.latency + self.per_byte:
            self.until[way][i] = max(self.until[way][i], since) + self.latency + size * self.per_byte
        return max(since, self.until[way][i])


def by_hosts(world, host, i, tag, size, group):
    """The same in rings of `group` nodes, and of each share in a ring of one node of each."""
    def around(name, members, floats, hops, adds):
        at = members.index(i)
        for s in range(hops):
            world.send(i, members[(at + 1) % len(members)], (tag, name, s), size=whole(floats))
            yield come(members[at - 1], (tag, name, s))
            if s < adds:
                yield world.now + whole(floats) * host.reduction

    first, hosts = i - i % group, world.nodes // group
    own, others = range(first, first + group), range(i % group, world.nodes, group)
    yield from around("scatter", own, size / group, group - 1, group - 1)
    yield from around("between", others, size / group / hosts, 2 * hosts - 2, hosts - 1)
    yield from around("gather", own, size / group, group - 1, 0)


def allreduce(world, host, i, tag, size, kind):
    """A sum over all nodes, `size` in floats."""
    nodes = world.nodes

    def add(floats):
        return world.now + whole(floats) * host.reduction

    if kind.startswith("hierarchical"):
        yield from by_hosts(world, host, i, tag, size, int(kind.split()[1]))
        return
    if kind == "ring":
        for s in range(2 * nodes - 2):
            world.send(i, (i + 1) % nodes, (tag, s), size=whole(size / nodes))
            yield come((i - 1) % nodes, (tag, s))
            if s < nodes - 1:
                yield add(size / nodes)
        return
    extra = nodes - (1 << nodes.bit_length() - 1)  # so many pairs fold into their lower ones
    if i < 2 * extra and i % 2:
        world.send(i, i - 1, (tag, "fold"), size=4 * size)
        yield come(i - 1, (tag, "result"))
        return
    if i < 2 * extra:
        yield come(i + 1, (tag, "fold"))
        yield add(size)
    seat, rounds, have, way_back = i // 2 if i < 2 * extra else i - extra, (nodes - extra).bit_length() - 1, size, []

    def member(seat):
        return 2 * seat if seat < extra else seat + extra

    for r in range(rounds if kind != "tree" else 0):
        peer = member(seat ^ 1 << r)
        have = have if kind == "recursive_doubling" else have / 2
        world.send(i, peer, (tag, r), size=whole(have))
        yield come(peer, (tag, r))
        yield add(have)
        way_back.append((peer, have))
    for peer, more in reversed(way_back) if kind == "rabenseifner" else ():
        world.send(i, peer, (tag, "back", more), size=whole(have))
        yield ([lambda m, peer=peer: m.source == peer and m.tag[:2] == (tag, "back")],)
        have += more
    if kind == "tree":
        bit = 1
        while bit < nodes - extra and not seat & bit:
            yield come(member(seat | bit), (tag, "up"))
            yield add(size)
            bit *= 2
        if seat:
            world.send(i, member(seat ^ bit), (tag, "up"), size=4 * size)
            yield come(member(seat ^ bit), (tag, "down"))
        while bit > 1:
            bit //= 2
            world.send(i, member(seat | bit), (tag, "down"), size=4 * size)
    if i < 2 * extra:
        world.send(i, i + 1, (tag, "result"), size=4 * size)


def exchange_sums(world, host, pieces, kind, backward, gathered):
    """Allreduce of pieces, (floats, share of the backward pass after which each is ready); in place of the last one lists of so
    many bytes, in host memory."""
    def node(i):
        for k, duration in enumerate(world.durations[i]):
            end = world.now + duration
            begin = end - round(duration * backward)
            yield begin
            for p, (size, share) in enumerate(pieces):
                is_list = gathered and p + 1 == len(pieces)
                bytes_out = gathered if is_list else 4 * size
                yield host.copy("out", i, begin + round(duration * backward * share), bytes_out)
                if is_list:
                    for s in range(world.nodes - 1):
                        world.send(i, (i + 1) % world.nodes, (k, "list", s), size=gathered)
                        yield come((i - 1) % world.nodes, (k, "list", s))
                else:
                    yield from allreduce(world, host, i, (k, p), size, kind)
                host.copy("in", i, world.now, bytes_out * (world.nodes if is_list else 1))
            yield max(end, host.until["in"][i])
            world.ends[i].append(world.now)

    world.run(node)


class NetworkTwins(WorldCase):
    def expect_exchange(self, rng, nodes, network, keys, files=None, shortest=5):
        out = [[j for j in range(nodes) if j != i and (rng.random() < 0.4 or j == (i + 1) % nodes)] for i in range(nodes)]
        parameters = rng.randrange(1, 300_000)
        durations = [[rng.randrange(shortest * MS, 20 * MS) for _ in range(3)] for _ in range(nodes)]
        world = World(durations, network)
        if isinstance(network, Fluid):
            network.begin(world)
        exchange(world, out, 4 * parameters)
        graph = "".join(f"{i};\n" for i in range(nodes)) + "".join(f"{i} -> {j};\n" for i in range(nodes) for j in out[i])
        with self.subTest(nodes=nodes, parameters=parameters, **keys):
            _, time, _ = self.results({"topology": {"kind": "file", "path": "graph.dot"}, "network": keys,
                                       "workload": {"kind": "timing", "parameters": parameters},
                                       "algorithm": {"kind": "dpsgd", "learning_rate": 0.1}},
                                      durations, {"graph.dot": f"digraph g {{\n{graph}}}\n", **(files or {})})
            self.expect_ends(world, time, ROUNDING)

    def test_loggp(self):
        for seed in range(12):
            rng = drawn(seed)
            nodes, latency, overhead, gap = rng.choice((2, 5, 9)), *(rng.randrange(3000) * 1000 for _ in range(3))
            per_byte, more = rng.choice((40, 1000, 8000)), rng.choice((0, 500, 2000))
            slow = {i: 2 for i in range(nodes) if rng.random() < 0.2}
            keys = {"kind": "loggp", "latency": f"{latency} ps", "overhead": f"{overhead} ps", "gap": f"{gap} ps",
                    "bandwidth": f"{10**12 // per_byte} B/s", "overhead_per_byte": f"{more} ps"}
            if slow:
                keys["slowdowns"] = ", ".join(f"{i}: 2" for i in slow)
            self.expect_exchange(rng, nodes, LogGP(nodes, latency, overhead, gap, per_byte, more, slow), keys, shortest=0)

    def test_links_that_slow_down_and_go_away(self):
        for kind, concurrent, seed in itertools.product(("fluid", "tcp"), (True, False), range(3)):
            rng = drawn(f"{kind} {concurrent} {seed}")
            nodes, bandwidth, latency = rng.choice((2, 6)), rng.choice((10**8, 10**9)), rng.randrange(MS)
            keys = {"kind": kind, "fabric": "crossbar", "bandwidth": f"{bandwidth} B/s", "latency": f"{latency} ps",
                    "concurrent": "yes" if concurrent else "no", "host_bandwidths": f"1: {bandwidth // 4} B/s",
                    "host_latencies": f"1: {latency // 2} ps", "link_schedule": "links.csv", "check": "yes"}
            rules = {"own": {f"host 1 {way}": (bandwidth // 4, latency // 2) for way in ("up", "down")}}
            if kind == "tcp":
                factor, weight, cross, window = rng.choice((1, 13.01)), rng.choice((0, 20537)), rng.choice((0, 0.05)), 65536
                keys |= {"latency_factor": factor, "weight_bytes": f"{weight} B", "cross_traffic": cross, "window": f"{window} B"}
                rules |= {"latency_factor": factor, "weight_bytes": weight, "cross_traffic": cross, "window": window,
                          "bandwidth_factor": 0.97}
                for key in rng.choice(((), ("latency_factor",), ("latency_factor", "bandwidth_factor"))):
                    table = [(above, rng.choice((0.25, 0.8, 1.5))) for above in (0, 1000, 50_000)]
                    keys[key] = ", ".join(f"{above} B: {factor}" for above, factor in table)
                    rules[key], rules["tables"] = 1, rules.get("tables", {}) | {key: table}
            schedule = []
            for link in (f"host {i} {way}" for i in range(nodes) for way in ("up", "down")):
                turns = sorted(rng.sample(range(60 * MS), rng.randrange(4)))
                schedule += [(time, link, rng.choice((0, 0.25, 1))) for time in turns] + [(80 * MS, link, 0.5)]
            schedule.sort()
            lines = "".join(f"{time} ps,{link},{factor}\n" for time, link, factor in schedule)
            network = Fluid(crossbar, bandwidth, latency, concurrent=concurrent, schedule=schedule, **rules)
            self.expect_exchange(rng, nodes, network, keys, {"links.csv": f"time,link,factor\n{lines}"})

    def test_routes(self):
        fabrics = {"torus": [((4,), (5,), (4, 3), (2, 4, 3)), lambda *sides: (math.prod(sides), torus(sides), {
                       "sides": ", ".join(map(str, sides))})],
                   "fat_tree": [(((2, 3), (1, 2), (1, 1)), ((2, 2, 3), (1, 2, 2), (1, 1, 1)), ((3, 2, 2), (2, 1, 2), (1, 2, 1))),
                                lambda *shape: (math.prod(shape[0]), fat_tree(*shape), {
                                    key: ", ".join(map(str, values))
                                    for key, values in zip(("children", "parents", "cables"), shape)})],
                   "dragonfly": [((1, 2, 2, 5), (2, 2, 2, 3), (1, 4, 1, 4)),
                                 lambda p, a, h, g: (p * a * g, dragonfly(p, a, h, g), {
                                     "hosts_per_router": p, "routers": a, "global_links": h, "groups": g})]}
        for fabric, (shapes, make) in fabrics.items():
            for shape, per_host in itertools.product(shapes, (1, 2)):
                rng = drawn(f"{fabric} {shape} {per_host}")
                hosts, route, keys = make(*shape)
                bandwidth, latency = 10**9, rng.randrange(MS // 10)
                keys |= {"kind": "fluid", "fabric": fabric, "bandwidth": f"{bandwidth} B/s", "latency": f"{latency} ps", "check": "yes"}
                own = {}
                if per_host > 1:
                    keys |= {"nodes_per_host": per_host, "local_bandwidth": f"{3 * bandwidth} B/s", "local_latency": "7 us"}
                    own = {("own", h): (3 * bandwidth, 7 * 10**6) for h in range(hosts)}

                def way(a, b, route=route, per_host=per_host):
                    a, b = a // per_host, b // per_host
                    return [("own", a)] if a == b else route(a, b)

                self.expect_exchange(rng, min(hosts * per_host, 16), Fluid(way, bandwidth, latency, own), keys)

    def test_drawn_fabrics(self):
        for directed, kind, seed in itertools.product((False, True), ("fluid", "tcp"), range(4)):
            rng = drawn(f"{directed} {kind} {seed}")
            hosts, switches, bandwidth = rng.randrange(2, 8), rng.randrange(5), 10**8
            core = range(hosts, hosts + switches) if switches else range(hosts)
            pairs = [(v, rng.choice(core[:v - core[0]])) for v in core[1:]] + [rng.sample(core, 2) for _ in range(len(core) // 2)]
            pairs += [(h, rng.choice(core)) for h in range(hosts) for _ in range(rng.randrange(1, 3)) if switches]
            if directed:
                pairs += [(b, a) for a, b in pairs]
            rng.shuffle(pairs)
            arcs, own, lines = [], {}, [f"v{v} [kind=switch]" for v in range(hosts, hosts + switches)]
            for edge, (a, b) in enumerate(pairs):
                latency, speed = rng.choice((MS // 100, MS // 50)), rng.choice((bandwidth, bandwidth // 2))
                lines.append(f"v{a} {'->' if directed else '--'} v{b} [latency=\"{latency} ps\", bandwidth=<{speed} B/s>]")
                for x, y in [(a, b)] if directed else [(a, b), (b, a)]:
                    arcs.append((x, y, (edge, x), latency))
                    own[edge, x] = (speed, latency)
            route = shortest(hosts + switches, arcs, lambda v, first=core[0]: v >= first)
            rules = {"latency_factor": 13.01, "bandwidth_factor": 0.97, "window": 4194304, "weight_bytes": 20537, "cross_traffic": 0.05}
            network = Fluid(route, bandwidth, 0, own, **(rules if kind == "tcp" else {}))
            keys = {"kind": kind, "fabric": "file", "file": "fabric.dot", "bandwidth": "1 GB/s", "latency": "1 s",
                    "check": "yes"}
            text = f"{'digraph' if directed else 'graph'} {{\n" + "".join(f"{{ {line} }}\n" for line in lines) + "}\n"
            self.expect_exchange(rng, hosts, network, keys, {"fabric.dot": text})

    def test_collectives_in_pieces(self):
        for kind, exchanged, gathered, seed in itertools.product(("ring", "recursive_doubling", "rabenseifner", "tree", "hierarchical"),
                                                                 ("whole", "tensors", "buckets"), (0, 5000), range(2)):
            rng = drawn(f"{kind} {exchanged} {gathered} {seed}")
            nodes = rng.choice((2, 3, 6, 8, 11))
            group = rng.choice([one for one in range(1, nodes + 1) if nodes % one == 0])
            tensors = [rng.choice((7, 40, 20_001, 50_000)) for _ in range(rng.randrange(1, 6))]
            pieces = [(size, (r + 1) / len(tensors)) for r, size in enumerate(reversed(tensors))]
            if exchanged != "tensors":
                gathering, pieces = pieces, []
                for size, share in gathering:
                    is_full = not pieces or (exchanged == "buckets" and 4 * (pieces[-1][0] + size) > 100_000)
                    pieces = pieces + [(size, share)] if is_full else pieces[:-1] + [(pieces[-1][0] + size, share)]
            backward, latency, per_byte = rng.choice((0, 0.75)), rng.choice((0, MS)), rng.choice((0, 1000))
            host = Host(nodes, rng.choice((0, MS // 3)), rng.choice((250, 1000)), rng.choice((0, 500)))
            network = {"latency": f"{latency} ps", "staging_latency": f"{host.latency} ps",
                       "staging_bandwidth": f"{10**12 // host.per_byte} B/s"}
            network |= {"bandwidth": f"{10**12 // per_byte} B/s"} if per_byte else {}
            network |= {"reduction_bandwidth": f"{10**12 // host.reduction} B/s"} if host.reduction else {}
            algorithm = {"kind": "allreduce", "learning_rate": 0.1, "collective": kind, "exchange": exchanged,
                         "gathered": f"{gathered} B"}
            algorithm |= {"overlap": "backward"} if backward and exchanged != "whole" else {}  # with one piece the same
            algorithm |= {"bucket_size": "100 kB"} if exchanged == "buckets" else {}
            durations = self.durations(rng, nodes, 3)
            world = World(durations, Constant(latency, per_byte))
            algorithm |= {"collective_group": group} if kind == "hierarchical" else {}
            exchange_sums(world, host, pieces, f"{kind} {group}" if kind == "hierarchical" else kind, backward, gathered)
            with self.subTest(nodes=nodes, tensors=tensors, backward=backward, **algorithm, **network):
                _, time, _ = self.results({"network": network, "compute": {"forward_share": 0.25}, "algorithm": algorithm,
                                           "workload": {"kind": "timing", "tensors": ", ".join(map(str, tensors)),
                                                        "parameters": sum(tensors)}}, durations)
                self.expect_ends(world, time, ROUNDING)


if __name__ == "__main__":
    main("program")
