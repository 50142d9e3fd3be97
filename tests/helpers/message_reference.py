"""A slow, obvious replay of ranks that send messages: what messages.c, network.c and collectives.c must agree with.

Messages and receives are objects in Python lists. Routes are walked from the definitions of the topologies, rates of
all flows are worked out anew after each event, and collectives are lists of rounds made from what each rank holds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain

from engine_reference import Reference

from foretrace.replay.engine.network import Crossbar, FatTree, Regime, Torus
from foretrace.replay.engine.program import Await, Collective, Receive, Run, Send, Started

# ---- routes: names of links ----


def crossbar_route(topology, source, target):
    shared = ["backbone"] if topology.backbone_bytes_per_s else []
    return [f"node {source} up", *shared, f"node {target} down"]


def torus_route(topology, source, target):
    """Dimension by dimension, the shorter way round. A tie goes forth, but from the middle of the row back."""

    def place(node):
        found = []
        for size in topology.sizes:
            found.append(node % size)
            node //= size
        return found

    def number(at):
        return sum(x * math.prod(topology.sizes[:d]) for d, x in enumerate(at))

    at, goal, links = place(source), place(target), []
    for d, size in enumerate(topology.sizes):
        forth, back = (goal[d] - at[d]) % size, (at[d] - goal[d]) % size
        goes_forth = forth < back or (forth == back and at[d] != size // 2)
        for _ in range(min(forth, back)):
            here = number(at)
            at[d] = (at[d] + (1 if goes_forth else -1)) % size
            # a link belongs to the node at its lower end
            links.append(f"node {here} dimension {d} forth" if goes_forth else f"node {number(at)} dimension {d} back")
    return links


def fat_tree_route(topology, source, target):
    """D-mod-k (Zahavi, Concurrency and Computation 22, 2010): the port up is the destination's number, divided by the
    ports of the levels below; the way down is the only one, on the parallel link of the source's number."""
    down, up, parallel = topology.down, topology.up, topology.parallel

    def subtree(node, level):
        return node // math.prod(down[:level])

    top = next(level for level in range(len(down) + 1) if subtree(source, level) == subtree(target, level))
    links, copy, turns = [], 0, []
    for level in range(top):
        port = target // math.prod(up[:level]) % (up[level] * parallel[level])
        parent, lane = port % up[level], port // up[level]
        child = subtree(source, level) * math.prod(up[:level]) + copy
        links.append(f"level {level} child {child} parent {parent} link {lane} up")
        turns.append((copy, parent))
        copy = copy * up[level] + parent
    for level in reversed(range(top)):
        copy, parent = turns[level]
        child = subtree(target, level) * math.prod(up[:level]) + copy
        links.append(f"level {level} child {child} parent {parent} link {source % parallel[level]} down")
    return links


def route(topology, source, target):
    ways = {Crossbar: crossbar_route, Torus: torus_route, FatTree: fat_tree_route}
    return [] if source == target else ways[type(topology)](topology, source, target)


# ---- rates ----


def weighted_filling(asked, penalties, weights, capacities):
    """Rates that grow in proportion to 1 / penalty until a flow has what it asked for or one of its links is full."""
    given = [0.0] * len(asked)
    growing = set(range(len(asked)))
    while growing:
        levels = {i: asked[i] * penalties[i] for i in growing}
        for link, capacity in capacities.items():
            users = [i for i in growing if link in weights[i]]
            if users:
                left = capacity - sum(
                    weights[i][link] * given[i] for i in range(len(asked)) if i not in growing and link in weights[i]
                )
                full = max(left, 0.0) / sum(weights[i][link] / penalties[i] for i in users)
                for i in users:
                    levels[i] = min(levels[i], full)
        lowest = min(levels.values())
        for i in [i for i in growing if levels[i] <= lowest * (1 + 1e-12)]:
            given[i] = min(asked[i], lowest / penalties[i])
            growing.discard(i)
    return given


# ---- collectives: rounds of (sends, receives) of one rank; all of a round is awaited before the next ----


def _log2(number):
    return number.bit_length() - 1


def _tree(rank, ranks):
    """(parent, children in ascending order) in a binomial tree from rank 0."""
    lowest = rank & -rank if rank else 1 << ranks.bit_length()
    distances = [1 << k for k in range(ranks.bit_length()) if 1 << k < lowest and rank + (1 << k) < ranks]
    return rank - lowest, [rank + distance for distance in distances]


def _below(rank, ranks):
    return 1 + sum(_below(child, ranks) for child in _tree(rank, ranks)[1])


def _binomial(rank, ranks, root, size, *, is_from_root, is_of_parts):
    own = (rank - root) % ranks
    parent, children = _tree(own, ranks)

    def bytes_of(node):
        return size * _below(node, ranks) if is_of_parts else size

    def real(node):
        return (node + root) % ranks

    if is_from_root:
        rounds = [([], [real(parent)])] if own else []
        return rounds + [([(real(child), bytes_of(child))], []) for child in reversed(children)]
    rounds = [([], [real(child)]) for child in children]
    return rounds + ([([(real(parent), bytes_of(own))], [])] if own else [])


def _folded(rank, ranks, size, sizes, back):
    """Exchanges among a power of two of ranks; of the others each hands over to a neighbour first and hears last.
    `sizes`: of exchanges at distance 1, 2, 4, ... as (distance, bytes of a rank that takes part)."""
    power = 1 << _log2(ranks)
    rest = ranks - power
    part = [2 * i + 1 for i in range(rest)] + list(range(2 * rest, ranks))
    if rank not in part:
        return [([(rank + 1, size)], []), ([], [rank + 1])]
    own = part.index(rank)
    rounds = [([], [rank - 1])] if rank < 2 * rest else []
    rounds += [([(part[own ^ distance], of(own))], [part[own ^ distance]]) for distance, of in sizes(power, part)]
    return rounds + ([([(rank - 1, back)], [])] if rank < 2 * rest else [])


def _doubling(power, part, size):
    return [(1 << k, lambda own: size) for k in range(_log2(power))]


def _doubling_gather(power, part, size):
    """Each sends all it holds: its blocks and those handed over to it."""
    held = [2 if own < part[-1] + 1 - power else 1 for own in range(power)]
    steps = []
    for k in range(_log2(power)):
        now = list(held)
        steps.append((1 << k, lambda own, now=now: size * now[own]))
        held = [now[own] + now[own ^ 1 << k] for own in range(power)]
    return steps


def _halving(power, part, size):
    return [(1 << k, lambda own, k=k: size / 2 ** (k + 1)) for k in range(_log2(power))]


def _rabenseifner(power, part, size):
    there = _halving(power, part, size)
    return there + there[::-1]


def _counted(part, ranks):
    """bytes_of(sender, receiver) of a collective."""
    counts = part.counts
    if len(counts) == ranks * ranks and ranks > 1:
        return lambda sender, receiver: counts[sender * ranks + receiver]
    return (lambda sender, receiver: counts[sender]) if counts else lambda sender, receiver: part.size_bytes


def rounds_of(part, rank, ranks):
    """Messages of a rank in a collective."""
    size, root, bytes_of = part.size_bytes, part.root, _counted(part, ranks)
    others = [i for i in range(ranks) if i != rank]
    after = [(rank + i) % ranks for i in range(1, ranks)]
    match part.algorithm:
        case "linear-gather":
            return [([], others)] if rank == root else [([(root, bytes_of(rank, root))], [])]
        case "linear-scatter":
            by_receiver = len(part.counts) == ranks
            sends = [(i, part.counts[i] if by_receiver else bytes_of(root, i)) for i in others]
            return [(sends, [])] if rank == root else [([], [root])]
        case "linear-exchange":
            return [([(i, bytes_of(rank, i)) for i in after], after)]
        case "linear-scan":
            return [([(i, size) for i in range(rank + 1, ranks)], list(range(rank)))]
        case "binomial-bcast" | "binomial-scatter" | "binomial-reduce" | "binomial-gather":
            return _binomial(
                rank, ranks, root, size, is_from_root=part.algorithm in ("binomial-bcast", "binomial-scatter"),
                is_of_parts=part.algorithm in ("binomial-scatter", "binomial-gather"),
            )  # fmt: skip
        case "recursive-doubling":
            return _folded(rank, ranks, size, lambda *a: _doubling(*a, size), size)
        case "doubling-gather":
            return _folded(rank, ranks, size, lambda *a: _doubling_gather(*a, size), ranks * size)
        case "halving-scatter":
            return _folded(rank, ranks, size, lambda *a: _halving(*a, size), size / ranks)
        case "rabenseifner":
            return _folded(rank, ranks, size, lambda *a: _rabenseifner(*a, size), size)
        case "ring":
            blocks = [(rank - step) % ranks for step in range(ranks - 1)]
            sizes = [part.counts[block] if len(part.counts) == ranks else bytes_of(block, 0) for block in blocks]
            return [([((rank + 1) % ranks, each)], [(rank - 1) % ranks]) for each in sizes]
        case "pairwise":
            return [([(i, bytes_of(rank, i))], [(2 * rank - i) % ranks]) for i in after]
        case "exclusive-or":
            return [([(rank ^ i, bytes_of(rank, rank ^ i))], [rank ^ i]) for i in range(1, ranks)]
        case "bruck":
            steps = [1 << k for k in range(ranks.bit_length()) if 1 << k < ranks]
            return [
                ([((rank + step) % ranks, size * sum(bool(i & step) for i in range(ranks)))], [(rank - step) % ranks])
                for step in steps
            ]
        case "bruck-gather":
            rounds, held = [], 1
            while held < ranks:
                more = min(held, ranks - held)
                rounds.append(([((rank - held) % ranks, size * more)], [(rank + held) % ranks]))
                held += more
            return rounds
        case "dissemination":
            steps = [1 << k for k in range(ranks.bit_length()) if 1 << k < ranks]
            return [([((rank + step) % ranks, size)], [(rank - step) % ranks]) for step in steps]
        case "chain":
            before = [([], [rank - 1])] if rank else []
            return before + ([([(rank + 1, size)], [])] if rank < ranks - 1 else [])
    raise NotImplementedError(part.algorithm)


# ---- messages ----


@dataclass(eq=False)
class _Request:
    owner: str
    peer: str | None
    tag: int | None
    communicator: object
    is_send: bool
    bytes: float = 0.0
    is_detached: bool = False
    flow: object = None
    is_done: bool = False
    task: object = None


@dataclass(eq=False)
class _Flow:
    send: _Request
    receive: _Request | None
    begun: float
    wait_s: float
    left: float
    asked: float
    speed: float
    penalty: float
    weights: dict = field(default_factory=dict)
    moves: bool = False


@dataclass(eq=False)
class _Task:
    """Collectives that proceed beside an entity."""

    owner: str
    request: _Request
    rounds: object
    left: list


class MessageReference(Reference):
    """Adds messages. `sent_bytes`, `messages`: all that was sent."""

    def __init__(self, system, entities):
        self.node = {entity.name: entity.node for entity in entities}
        self.names = {entity.name: entity.names for entity in entities}
        self.links = dict(zip(system.network.topology.links(), system.network.capacities.tolist(), strict=True))
        self.posted, self.arrived_messages = defaultdict(list), defaultdict(list)
        self.requests = {entity.name: {} for entity in entities}
        self.waits = {}
        self.rounds = {}
        self.tags = defaultdict(int)
        self.flows = []
        self.sent_bytes, self.messages = 0.0, 0
        super().__init__(system, entities)

    # -- operations: each returns whether the entity waits

    def message(self, name, part):
        names = self.names[name]
        match part:
            case Send(to, size_bytes, _, tag, communicator, number, synchronous):
                key = names.get(communicator, communicator)
                return self.keep(name, number, self.send(name, names.get(to, to), tag, key, size_bytes, synchronous))
            case Receive(sender, _, tag, communicator, number):
                sender = names.get(sender, sender) if sender is not None else None
                return self.keep(name, number, self.receive(name, sender, tag, names.get(communicator, communicator)))
            case Await(numbers, any_one):
                return self.wait_for(name, numbers or sorted(self.requests[name]), any_one)
            case Collective():
                self.rounds[name] = self.posted_rounds(name, part)
                return self.next_rounds(name)
            case Started(steps, number):
                request = _Request(name, None, None, None, False)
                rounds = [self.posted_rounds(name, step) for step in steps]
                self.keep(name, number, request)
                self.proceed(_Task(name, request, chain.from_iterable(rounds), []), None)
                return False
        raise NotImplementedError(part)

    def keep(self, name, number, request):
        if number:
            assert number not in self.requests[name]
            self.requests[name][number] = request
            return False
        return self.all_of(name, [request])

    def wait_for(self, name, numbers, any_one):
        own = self.requests[name]
        chosen = {number: own[number] for number in numbers if number in own}
        if any_one:
            done = [number for number, request in chosen.items() if request.is_done]
            if done:
                del own[done[0]]
            elif chosen:
                self.waits[name] = (chosen, True)
            return bool(chosen) and not done
        for number in chosen:
            del own[number]
        return self.all_of(name, list(chosen.values()))

    def all_of(self, name, requests):
        left = [request for request in requests if not request.is_done]
        if left:
            self.waits[name] = (left, False)
        return bool(left)

    def posted_rounds(self, name, part):
        """The requests of each round of a collective, each posted when it is asked for. All members number the
        collectives of a communicator alike."""
        communicator = self.names[name].get(part.communicator, part.communicator)
        members = self.system.communicators[communicator]
        key, tag = ("collectives", communicator), self.tags[name, communicator]
        self.tags[name, communicator] += 1

        def rounds():
            for sends, receives in rounds_of(part, members.index(name), len(members)):
                posted = [self.receive(name, members[rank], tag, key) for rank in receives]
                yield posted + [self.send(name, members[rank], tag, key, size) for rank, size in sends]

        return rounds()

    def next_rounds(self, name):
        for requests in self.rounds[name]:
            if self.all_of(name, requests):
                return True
        del self.rounds[name]
        return False

    def proceed(self, task, flow):
        for requests in task.rounds:
            task.left = [request for request in requests if not request.is_done]
            for request in task.left:
                request.task = task
            if task.left:
                return
        self.done(task.request, flow)

    def step(self, name):
        if name in self.rounds:
            self.walkers[name].since = self.now
            if self.next_rounds(name):
                return
        super().step(name)

    # -- matching

    def send(self, name, to, tag, communicator, size_bytes, synchronous=False):
        network = self.system.network
        is_eager = size_bytes < network.eager_below_bytes and not synchronous
        request = _Request(name, to, tag, communicator, True, size_bytes)
        request.is_detached = is_eager or (size_bytes < network.detached_below_bytes and not synchronous)
        request.is_done = request.is_detached
        self.sent_bytes += size_bytes + network.envelope_bytes if is_eager else 0
        self.messages += 1
        if is_eager:
            self.begin(request)
        for receive in self.posted[to, communicator]:
            if receive.peer in (None, name) and receive.tag in (None, tag):
                self.posted[to, communicator].remove(receive)
                self.meet(request, receive)
                return request
        self.arrived_messages[to, communicator].append(request)
        return request

    def receive(self, name, sender, tag, communicator):
        request = _Request(name, sender, tag, communicator, False)
        for message in self.arrived_messages[name, communicator]:
            if sender in (None, message.owner) and tag in (None, message.tag):
                self.arrived_messages[name, communicator].remove(message)
                self.meet(message, request)
                return request
        self.posted[name, communicator].append(request)
        return request

    def meet(self, send, receive):
        if send.flow is None:
            self.sent_bytes += send.bytes + self.system.network.envelope_bytes
            self.begin(send)
        if send.flow in self.flows:
            send.flow.receive = receive
        else:
            receive.is_done = True

    # -- flows

    def begin(self, send):
        network = self.system.network
        source, target = self.node[send.owner], self.node[send.peer]
        links = route(network.topology, source, target)
        hops = [link for link in links if link != "backbone"]
        latency_s, widest = len(hops) * network.link_latency_s, network.link_bytes_per_s
        if len(hops) < len(links):
            latency_s += network.topology.backbone_latency_s
            widest = min(widest, network.topology.backbone_bytes_per_s)
        if source == target:
            latency_s, widest = network.own_latency_s, network.own_bytes_per_s
        size = send.bytes + network.envelope_bytes
        is_own = source == target and network.own_regimes is not None
        regimes = network.own_regimes if is_own else network.regimes
        factors = [regime for regime in regimes if size > regime.above_bytes or regime.above_bytes == 0]
        regime = factors[-1] if factors else Regime(0, 1.0, 1.0)
        wait_s = max(latency_s * regime.latency_factor + regime.latency_s, 0.0)
        weights = defaultdict(float)
        for link in links:
            weights[link] += 1.0
        for link in route(network.topology, target, source) if network.back_share else []:
            weights[link] += network.back_share
        penalty = latency_s + sum(network.weight_bytes / self.links[link] for link in links)
        bound = network.window_bytes / (2 * latency_s) if network.window_bytes and latency_s else math.inf
        send.flow = _Flow(
            send, None, self.now, wait_s, size, min(widest, bound), regime.bandwidth_factor, penalty or 1.0,
            dict(weights),
        )  # fmt: skip
        self.flows.append(send.flow)

    def flow_rates(self):
        moving = [flow for flow in self.flows if flow.moves]
        given = weighted_filling(
            [flow.asked for flow in moving], [flow.penalty for flow in moving],
            [flow.weights for flow in moving], self.links,
        )  # fmt: skip
        return {id(flow): rate * flow.speed for flow, rate in zip(moving, given, strict=True)}

    def arrive(self, flow):
        self.flows.remove(flow)
        for request in (flow.receive, flow.send):
            if request is None or (request.is_send and request.is_detached):
                continue
            self.done(request, flow)

    def done(self, request, flow):
        request.is_done = True
        if request.task is not None:
            request.task.left.remove(request)
            if not request.task.left:
                self.proceed(request.task, flow)
            return
        waiting, is_any = self.waits.get(request.owner, ((), False))
        if is_any and any(request is other for other in waiting.values()):
            (number,) = (number for number, other in waiting.items() if other is request)
            del self.requests[request.owner][number]
            self.go_on(request.owner, flow)
        elif not is_any and any(request is other for other in waiting):
            waiting.remove(request)
            if not waiting:
                self.go_on(request.owner, flow)

    def go_on(self, name, flow):
        walker = self.walkers[name]
        del self.waits[name]
        seconds = self.now - walker.since
        late = min(max(flow.begun - walker.since, 0.0), seconds)
        walker.spent["partner"] += late
        walker.spent["transfer"] += seconds - late
        self.ready.append(name)

    # -- time

    def run(self):
        while True:
            while self.ready:
                self.step(self.ready.popleft())
            at_work = [name for name, walker in self.walkers.items() if walker.what is not None]
            if not at_work and not self.flows:
                return
            running = [name for name in at_work if isinstance(self.walkers[name].what, Run)]
            speed = dict.fromkeys(at_work, 1.0) | self.rates(running)
            rates = self.flow_rates()
            ends = {name: self.walkers[name].left / speed[name] for name in at_work}
            ends |= {id(flow): flow.left / rates[id(flow)] if flow.moves else flow.wait_s for flow in self.flows}
            passed = max(min(ends.values()), 0.0)
            self.now += passed
            done = {key for key, seconds in ends.items() if seconds <= passed + 1e-12 * self.now}
            for name in at_work:
                self.walkers[name].left -= passed * speed[name]
            for flow in self.flows:
                if flow.moves:
                    flow.left -= passed * rates[id(flow)]
                else:
                    flow.wait_s -= passed
            for name in at_work:
                if name in done:
                    self.complete(name)
            for flow in [flow for flow in self.flows if id(flow) in done]:
                if flow.moves:
                    self.arrive(flow)
                else:
                    flow.moves = True
