"""Programs of ranks as the arrays that the event loop reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import PredictionError
from foretrace.replay.engine import _engine
from foretrace.replay.engine.compiler import (
    CLASS,
    COLLECTIVE,
    COMMUNICATOR,
    MESSAGE,
    OPERATION,
    START,
    Compiled,
    Traffic,
)
from foretrace.replay.engine.network import Network
from foretrace.replay.engine.program import Entity, System

from .actions import COLLECTIVES, Kind, RankActions
from .checks import ROOTED, check_actions, loops, name_of, places_of
from .collectives import Recipe, algorithm_numbers

Ints = npt.NDArray[np.int64]
Table = npt.NDArray[np.void]

Conditions = tuple[tuple[float, float], ...]

MOST_PLACES = 192
"""Largest number of pairs of a kind of action and a place. A run with more has labels for the kinds alone."""
_PATH_BINS = 64


@dataclass(frozen=True, slots=True)
class Hosts:
    """Places of ranks, their speed, and what they share.

    Attributes:
        node_of: node of each rank.
        cores: cores of each node.
        flops_per_s: speed of a core; 1 where computations are in seconds.
        network: joins the nodes.
        memory_bytes_per_s: what 1, 2, ... ranks get of a node's memory together; () for one that is never full.
        caches: number of last caches of a node, over which its ranks are spread.
        demands: of computations, by number, the first number 0: (speed, bytes/s of memory) with 1, 2, ... ranks in the
            cache; speed is relative to a rank alone.
    """

    node_of: tuple[int, ...]
    cores: int
    flops_per_s: float
    network: Network
    memory_bytes_per_s: tuple[float, ...] = ()
    caches: int = 1
    demands: tuple[Conditions, ...] = (((1.0, 0.0),),)

    @property
    def is_crowded(self) -> bool:
        """Whether a node has more ranks than cores."""
        return int(np.bincount(self.node_of).max()) > self.cores

    @property
    def number_in_node(self) -> Ints:
        """[ranks] number of each rank among those of its node."""
        nodes = np.array(self.node_of, np.int64)
        order = np.argsort(nodes, kind="stable")
        within = np.empty(len(nodes), np.int64)
        within[order] = np.arange(len(nodes)) - np.searchsorted(nodes[order], nodes[order])
        return within

    @property
    def cache_of(self) -> Ints:
        """[ranks] last cache that each rank uses: those of a node are spread over its caches one by one."""
        return np.array(self.node_of, np.int64) * self.caches + self.number_in_node % self.caches


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Activities of ranks: kinds of actions, at each place of the program where the run names places.

    Attributes:
        kinds: of each label.
        lines: of each label, as `ACTION` has them; -1 where places are not told apart.
        names: of the labels.
        merged: number of pairs of a kind and a place, where these are more than `MOST_PLACES` and not told apart.
    """

    kinds: Ints
    lines: Ints
    names: tuple[str, ...]
    merged: int = 0

    @classmethod
    def of(cls, run: RankActions) -> Labels:
        """The labels of a run."""
        merged = 0
        if run.places:
            actions, step = run.actions, len(run.places) + 1
            kinds, lines = actions["kind"].astype(np.int64), np.clip(actions["line"], -1, len(run.places) - 1) + 1
            reduces = np.isin(kinds, COLLECTIVES) & (actions["amount"] > 0)  # which compute at their end
            keys = np.unique(np.concatenate([kinds * step + lines, int(Kind.COMPUTE) * step + lines[reduces]]))
            if 0 < len(keys) <= MOST_PLACES:
                kinds, lines = keys // step, keys % step - 1
                places = [f" at {run.place_of_line(line)}" if line >= 0 else "" for line in lines.tolist()]
                names = [name_of(Kind(kind)) + at for kind, at in zip(kinds.tolist(), places, strict=True)]
                return cls(kinds, lines, tuple(names))
            merged = len(keys)
        kinds = np.arange(len(Kind))
        return cls(kinds, np.full(len(kinds), -1), tuple(map(name_of, Kind)), merged)

    @property
    def has_places(self) -> bool:
        """Whether labels are of places as well as kinds."""
        return bool((self.lines >= 0).any())

    def numbers(self, run: RankActions, kind: Ints | int, which: Ints | slice) -> Ints:
        """Labels of some actions, as if they were of a kind."""
        if not self.has_places:
            return np.zeros(len(run.actions[which]), np.int64) + kind
        step = len(run.places) + 1
        lines = np.clip(run.actions["line"][which], -1, len(run.places) - 1) + 1
        return np.asarray(
            np.searchsorted(self.kinds * step + self.lines + 1, np.asarray(kind) * step + lines), np.int64
        )


@dataclass(frozen=True, slots=True)
class _Writer:
    """Operations of all ranks, at the places of their actions."""

    run: RankActions
    labels: Labels
    at: Ints
    operations: Table

    def label(self, which: Ints, offset: int, kind: Kind) -> None:
        """Label the operation number `offset` of each of some actions as of a kind."""
        self.operations["label"][self.at[which] + offset] = self.labels.numbers(self.run, int(kind), which)

    def put(self, which: Ints, offset: int, **fields: object) -> None:
        """Set fields of the operation number `offset` of each of some actions."""
        rows = self.at[which] + offset if offset else self.at[which]
        for name, values in fields.items():
            self.operations[name][rows] = values


def _distinct(keys: Ints) -> tuple[Ints, Ints]:
    """Distinct keys in ascending order, and for each key its number among them. Keys are not negative."""
    most = int(keys.max(initial=0))
    if most > max(4 * len(keys), 1 << 20):
        distinct, numbers = np.unique(keys, return_inverse=True)
        return distinct, numbers.reshape(-1)
    present = np.zeros(most + 1, np.bool_)
    present[keys] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[keys]


Choose = Callable[[int], Mapping[Kind, tuple[Recipe, ...]]]
"""Algorithms of collectives among a number of ranks: `collectives.recipes`."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Collectives of one kind and recipe."""

    kind: Kind
    recipe: Recipe
    which: Ints


def compile_ranks(run: RankActions, hosts: Hosts, choose: Choose) -> Compiled:
    """The arrays of a run on hosts.

    Args:
        run: what its ranks do.
        hosts: where they do it.
        choose: algorithms of collectives by the number of ranks of a communicator.

    Raises:
        PredictionError: there are more ranks than places for them, or an action refers to what does not exist.
    """
    if len(hosts.node_of) != run.num_ranks:
        raise PredictionError(f"replay: {len(hosts.node_of)} places for {run.num_ranks} ranks")
    ranks = run.num_ranks
    places = places_of(run)
    check_actions(run, places)
    groups = _groups(run, places, choose)
    widths = _widths(run, places, groups)
    rank_of = run.rank_of
    demand = np.where(run.actions["kind"] == Kind.COMPUTE, run.actions["request"], 0)
    shared = _Shared.of(hosts, rank_of, demand)
    class_of = shared.class_of
    at = np.cumsum(widths)
    ends = np.concatenate([[0], at])[run.firsts[1:]] + np.arange(ranks)  # of each rank, behind its operations
    at += rank_of
    at -= widths
    operations = np.zeros(int(widths.sum()) + ranks, OPERATION)
    labels = Labels.of(run)
    operations["label"][at] = labels.numbers(run, run.actions["kind"], slice(None))
    operations["code"][ends] = _engine.END
    operations["label"][ends] = 0
    writer = _Writer(run, labels, at, operations)
    for kind, code in ((Kind.COMPUTE, _engine.RUN), (Kind.SLEEP, _engine.SLEEP)):
        which = places[kind]
        seconds = run.actions["amount"][which] / (hosts.flops_per_s if kind is Kind.COMPUTE else 1.0)
        writer.put(which, 0, code=code, x=seconds, a=0 if kind is Kind.SLEEP else class_of[which])
    begins, closes = loops(run, places)
    writer.put(begins, 0, code=_engine.LOOP, a=at[closes] + 1, n=run.actions["amount"][begins])
    writer.put(closes, 0, code=_engine.NEXT, a=at[begins] + 1)
    messages = _messages(run, places, writer)
    slot_lists = _waits(run, places, writer)
    collectives = _collectives(run, groups, writer, class_of, hosts.flops_per_s)
    starts = np.zeros(ranks, START)
    starts["first_operation"] = ends - np.diff(np.concatenate([[-1], ends])) + 1
    starts["born"], starts["node"], starts["job"] = 1, hosts.node_of, hosts.number_in_node
    slots = run.requests + 2  # two of exchanges
    starts["slots"], starts["first_slot"] = slots, np.cumsum(slots) - slots
    links = hosts.network.capacities
    memories = dict.fromkeys(shared.memories, hosts.memory_bytes_per_s)
    points = np.concatenate([np.tile(hosts.memory_bytes_per_s, len(memories)), links])
    num_points = np.array([len(hosts.memory_bytes_per_s)] * len(memories) + [1] * len(links))
    members = run.communicators or (tuple(range(ranks)),)
    return Compiled(
        system=System(
            cores=dict.fromkeys(shared.core_groups, float(hosts.cores)), bandwidths=memories, network=hosts.network
        ),
        entities=tuple(Entity(f"rank {rank}", (), "rank", node=hosts.node_of[rank]) for rank in range(ranks)),
        labels=labels.names,
        objects=(),
        object_kinds=(),
        groups=shared.core_groups,
        bandwidths=(*memories, *hosts.network.topology.links()),
        tokens=(),
        choices=(),
        num_caches=shared.num_caches,
        num_jobs=int(hosts.number_in_node.max()) + 1,
        operations=operations,
        starts=starts,
        classes=shared.classes,
        uses=np.arange(len(memories), dtype=np.int32),
        resources=np.stack([np.cumsum(num_points) - num_points, num_points], axis=1).astype(np.int32),
        units=np.zeros((0, 2), np.int32),
        cores=np.full(len(shared.core_groups), float(hosts.cores)),
        conditions=np.array([one for conditions in hosts.demands for one in conditions], np.float64),
        points=points,
        traffic=Traffic(
            messages=messages,
            communicators=np.array([*zip(np.cumsum(run.sizes) - run.sizes, run.sizes, strict=True)], COMMUNICATOR),
            members=np.fromiter((rank for of in members for rank in of), np.int32),
            collectives=collectives,
            counts=run.counts,
            slot_lists=slot_lists,
        ),
        names=tuple(name_of(Kind(kind)) for kind in labels.kinds.tolist()),
        path_bins=min(ranks, _PATH_BINS),
        place_of=lambda operation: run.place(int(np.searchsorted(at, operation, "right")) - 1),
    )


@dataclass(frozen=True, slots=True)
class _Shared:
    """Classes of computations: by the node and last cache of the rank, and the demand.

    Attributes:
        classes: of the engine.
        class_of: [actions] class of each; of what computes nothing, that of its rank's computation without a demand.
        core_groups: names of the nodes' cores, if any node has more ranks than cores.
        memories: names of the nodes' memories, if they can be full.
        num_caches: that ranks divide.
    """

    classes: Table
    class_of: npt.NDArray[np.int32]
    core_groups: tuple[str, ...]
    memories: tuple[str, ...]
    num_caches: int

    @classmethod
    def of(cls, hosts: Hosts, rank_of: npt.NDArray[np.int32], demand: npt.NDArray[np.int32]) -> _Shared:
        """The classes of actions of these ranks with these demands."""
        nodes, is_crowded = hosts.network.topology.nodes, hosts.is_crowded
        has_memory = bool(hosts.memory_bytes_per_s)
        if not is_crowded and not has_memory and len(hosts.demands) == 1:
            classes = np.zeros(1, CLASS)
            classes["cores"], classes["cache"], classes["conditions"] = -1, -1, 1
            return cls(classes, np.zeros(len(rank_of), np.int32), (), (), 0)
        lengths = np.array(list(map(len, hosts.demands)))
        distinct, numbers = _distinct(hosts.cache_of[rank_of] * len(lengths) + demand)
        cache, number = np.divmod(distinct, len(lengths))
        classes = np.zeros(len(distinct), CLASS)
        classes["cores"] = cache // hosts.caches if is_crowded else -1
        classes["cache"] = cache
        classes["conditions"], classes["first_condition"] = lengths[number], (np.cumsum(lengths) - lengths)[number]
        if has_memory:
            classes["uses"], classes["first_use"] = number > 0, cache // hosts.caches
        of_node = tuple(f"node {node}" for node in range(nodes))
        return cls(
            classes,
            numbers.astype(np.int32),
            of_node if is_crowded else (),
            tuple(f"memory of {name}" for name in of_node) if has_memory else (),
            nodes * hosts.caches,
        )


def _sizes(run: RankActions, kind: Kind, which: Ints) -> npt.NDArray[np.float64]:
    """Bytes of some actions of a kind; the sum of all ranks' where a reduce-scatter has them by rank."""
    sizes = run.actions["size_bytes"][which]
    if kind is Kind.REDUCE_SCATTER:
        sums = np.concatenate([[0.0], np.cumsum(run.counts)])
        firsts = run.actions["first_count"][which]
        by_rank = np.maximum(firsts, 0)
        ends = np.minimum(by_rank + run.sizes[run.actions["communicator"][which]], len(sums) - 1)
        sizes = np.where(firsts < 0, sizes, sums[ends] - sums[by_rank])
    return np.asarray(np.maximum(sizes, 0.0), np.float64)


def _groups(run: RankActions, places: Mapping[Kind, Ints], choose: Choose) -> list[_Group]:
    """Collectives by recipe: by kind, number of ranks and size."""
    groups = []
    chosen: dict[int, Mapping[Kind, tuple[Recipe, ...]]] = {}
    for kind in COLLECTIVES:
        if not len(places[kind]):
            continue
        members = run.sizes[run.actions["communicator"][places[kind]]]
        for count in np.unique(members).tolist():
            which = places[kind][members == count]
            recipes = chosen[count] = chosen.get(count) or choose(count)
            limits = np.array([recipe.up_to_bytes for recipe in recipes[kind]])
            numbers = np.searchsorted(limits, _sizes(run, kind, which))
            groups += [
                _Group(kind, recipe, which[numbers == number])
                for number, recipe in enumerate(recipes[kind])
                if (numbers == number).any()
            ]
    return groups


def _widths(run: RankActions, places: Mapping[Kind, Ints], groups: list[_Group]) -> Ints:
    """[actions] number of operations of each."""
    widths = np.ones(len(run.actions), np.int64)
    widths[places[Kind.EXCHANGE]] = 3
    widths[places[Kind.TEST]] = 0
    widths[places[Kind.FINALIZE]] = 0
    waits = places[Kind.WAIT]
    widths[waits[(run.actions["request"][waits] == 0) & (run.actions["first_count"][waits] < 0)]] = 0
    for group in groups:
        widths[group.which] = len(group.recipe.steps) + (run.actions["amount"][group.which] > 0)
    return widths


def _own_requests(run: RankActions, which: Ints) -> Ints:
    """Number of requests of the rank of each of some actions: those of exchanges come behind them."""
    return np.asarray(run.requests[np.searchsorted(run.firsts, which, "right") - 1])


def _messages(run: RankActions, places: Mapping[Kind, Ints], writer: _Writer) -> Table:
    """The operations of messages of pairs; returns the kinds of messages that there are."""
    actions = run.actions
    sends = np.concatenate([places[kind] for kind in (Kind.SEND, Kind.ISEND, Kind.SSEND, Kind.ISSEND)])
    receives = np.concatenate([places[Kind.RECEIVE], places[Kind.IRECEIVE]])
    exchanges = places[Kind.EXCHANGE]
    rows = np.concatenate([sends, receives, exchanges, exchanges])
    peers, tags = actions["peer"][rows].astype(np.int64), actions["tag"][rows].astype(np.int64)
    received = slice(len(rows) - len(exchanges), None)
    peers[received] = actions["request"][exchanges] - 1
    tags[received] = actions["second_tag"][exchanges]
    names, tag_of = _distinct(tags + 1)
    num_tags, num_communicators = max(len(names), 1), len(run.sizes)
    keys = ((peers + 1) * num_tags + tag_of) * num_communicators + actions["communicator"][rows]
    distinct, numbers = _distinct(keys)
    messages = np.zeros(len(distinct), MESSAGE)
    messages["peer"] = distinct // (num_tags * num_communicators) - 1
    messages["tag"] = names[distinct // num_communicators % num_tags] - 1 if len(names) else 0
    messages["communicator"] = distinct % num_communicators
    of_sends, of_receives, sent, got = np.split(numbers, np.cumsum([len(sends), len(receives), len(exchanges)]))
    sizes = np.maximum(actions["size_bytes"], 0.0)
    writer.put(sends, 0, code=_engine.SEND, a=of_sends, b=actions["request"][sends], x=sizes[sends])
    for kind in (Kind.SSEND, Kind.ISSEND):
        writer.put(places[kind], 0, n=1)
    room = actions["size_bytes"][receives]
    writer.put(
        receives, 0, code=_engine.RECEIVE, a=of_receives, b=actions["request"][receives], n=room >= 0, x=sizes[receives]
    )
    own = _own_requests(run, exchanges)
    writer.put(exchanges, 0, code=_engine.SEND, a=sent, b=own + 1, x=sizes[exchanges])
    writer.put(exchanges, 1, code=_engine.RECEIVE, a=got, b=own + 2)
    writer.label(exchanges, 1, Kind.EXCHANGE)
    return messages


def _waits(run: RankActions, places: Mapping[Kind, Ints], writer: _Writer) -> npt.NDArray[np.int32]:
    """The operations that wait for requests; returns the lists of requests."""
    actions = run.actions
    writer.put(places[Kind.WAIT_ALL], 0, code=_engine.AWAIT, n=-1)
    waits = places[Kind.WAIT]
    waits = waits[(actions["request"][waits] > 0) & (actions["first_count"][waits] < 0)]
    writer.put(waits, 0, code=_engine.AWAIT, a=actions["request"][waits] - 1, n=1)
    exchanges = places[Kind.EXCHANGE]
    writer.put(exchanges, 2, code=_engine.AWAIT, a=_own_requests(run, exchanges), n=2)
    writer.label(exchanges, 2, Kind.EXCHANGE)
    own = np.arange(int(run.requests.max(initial=0)) + 2, dtype=np.int32)
    for kind in (Kind.WAIT, Kind.WAIT_ALL):
        listed = places[kind][actions["first_count"][places[kind]] >= 0]
        writer.put(
            listed, 0, code=_engine.AWAIT, a=actions["first_count"][listed] + len(own), n=actions["peer"][listed]
        )
    return np.concatenate([own, run.slots - 1]).astype(np.int32)


def _collectives(
    run: RankActions,
    groups: list[_Group],
    writer: _Writer,
    class_of: npt.NDArray[np.int32],
    flops_per_s: float,
) -> Table:
    """The operations of collectives, and the computation behind reductions; returns the collectives that there are."""
    actions, num_communicators, most_root = run.actions, len(run.sizes), int(run.sizes.max())
    tables: list[Table] = []
    num_rows = 0
    for group in groups:
        kind, which, steps = group.kind, group.which, group.recipe.steps
        sizes = _sizes(run, kind, which)
        roots = actions["peer"][which].astype(np.int64) if kind in ROOTED else np.zeros(len(which), np.int64)
        counts = actions["first_count"][which].astype(np.int64) if kind in _BY_RANK else roots * 0 - 1
        keys = ((counts + 1) * most_root + roots) * num_communicators + actions["communicator"][which]
        distinct, numbers = _distinct(keys)
        for offset, (algorithm, step) in enumerate(zip(algorithm_numbers(steps), steps, strict=True)):
            writer.put(which, offset, code=_engine.COLLECTIVE, a=numbers + num_rows, x=sizes * step.share)
            writer.label(which, offset, kind)
            table = np.zeros(len(distinct), COLLECTIVE)
            table["algorithm"], table["counts"] = algorithm, _BY_RANK.get(kind, 0)
            table["kind"], table["sizes_differ"] = int(kind), kind in _OWN_SIZES
            table["communicator"] = distinct % num_communicators
            table["root"] = distinct // num_communicators % most_root
            table["first_count"] = distinct // (num_communicators * most_root) - 1
            tables.append(table)
            num_rows += len(table)
        started = which[actions["request"][which] > 0]
        writer.put(started, 0, b=actions["request"][started], n=len(steps))
        computes = which[actions["amount"][which] > 0]
        writer.put(
            computes, len(steps), code=_engine.RUN, a=class_of[computes], x=actions["amount"][computes] / flops_per_s
        )
        writer.label(computes, len(steps), Kind.COMPUTE)
    return np.concatenate(tables) if tables else np.zeros(0, COLLECTIVE)


_BY_RANK = {
    Kind.ALLTOALLV: _engine.COUNTS_TO,
    Kind.SCATTERV: _engine.COUNTS_FROM,
    Kind.ALLGATHERV: _engine.COUNTS_FROM,
}
"""Collectives whose sizes differ by rank, and by which rank."""
_OWN_SIZES = frozenset({Kind.GATHERV, Kind.ALLTOALLV, Kind.SCATTER, Kind.SCATTERV, Kind.ALLGATHERV})
"""Collectives of which the size that a rank says is its own, or says nothing where it is no root."""
