"""Programs of ranks as the arrays that the event loop reads."""

from __future__ import annotations

from collections.abc import Mapping
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
from .collectives import Recipe, algorithm_numbers

Ints = npt.NDArray[np.int64]
Table = npt.NDArray[np.void]

LABELS = tuple(kind.name.lower().replace("_", "-") for kind in Kind)
"""Labels of activities: the names of the kinds of actions."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """Places of ranks, and their speed.

    Attributes:
        node_of: node of each rank.
        cores: cores of each node.
        flops_per_s: speed of a core.
        network: joins the nodes.
    """

    node_of: tuple[int, ...]
    cores: int
    flops_per_s: float
    network: Network


@dataclass(frozen=True, slots=True)
class _Writer:
    """Operations of all ranks, at the places of their actions."""

    at: Ints
    operations: Table

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


def compile_ranks(run: RankActions, hosts: Hosts, recipes: Mapping[Kind, tuple[Recipe, ...]]) -> Compiled:
    """The arrays of a run on hosts, with collectives by some recipes.

    Raises:
        PredictionError: there are more ranks than places for them.
    """
    if len(hosts.node_of) != run.num_ranks:
        raise PredictionError(f"replay: {len(hosts.node_of)} places for {run.num_ranks} ranks")
    ranks = run.num_ranks
    places = _places(run)
    recipe_of, widths = _recipes_of(run, places, recipes)
    rank_of = run.rank_of
    class_of = _classes(hosts)[rank_of]
    at = np.cumsum(widths)
    ends = np.concatenate([[0], at])[run.firsts[1:]] + np.arange(ranks)  # of each rank, behind its operations
    at += rank_of
    at -= widths
    operations = np.zeros(int(widths.sum()) + ranks, OPERATION)
    operations["label"][at] = run.actions["kind"]
    operations["code"][ends] = _engine.END
    writer = _Writer(at, operations)
    for kind, code in ((Kind.COMPUTE, _engine.RUN), (Kind.SLEEP, _engine.SLEEP)):
        which = places[kind]
        seconds = run.actions["amount"][which] / (hosts.flops_per_s if kind is Kind.COMPUTE else 1.0)
        writer.put(which, 0, code=code, x=seconds, a=0 if kind is Kind.SLEEP else class_of[which])
    messages = _messages(run, places, writer)
    slot_lists = _waits(run, places, writer)
    collectives = _collectives(run, places, writer, recipes, recipe_of, class_of, hosts.flops_per_s)
    crowded = _is_crowded(hosts)
    starts = np.zeros(ranks, START)
    starts["first_operation"] = ends - np.diff(np.concatenate([[-1], ends])) + 1
    starts["born"], starts["node"] = 1, hosts.node_of
    slots = run.requests + 2  # two of exchanges
    starts["slots"], starts["first_slot"] = slots, np.cumsum(slots) - slots
    nodes = hosts.network.topology.nodes
    classes = np.zeros(nodes if crowded else 1, CLASS)
    classes["cores"] = np.arange(nodes) if crowded else -1
    classes["cache"], classes["conditions"] = -1, 1
    capacities = hosts.network.capacities
    groups = tuple(f"node {node}" for node in range(nodes)) if crowded else ()
    return Compiled(
        system=System(cores=dict.fromkeys(groups, float(hosts.cores)), network=hosts.network),
        entities=tuple(Entity(f"rank {rank}", (), "rank", node=hosts.node_of[rank]) for rank in range(ranks)),
        labels=LABELS,
        objects=(),
        object_kinds=(),
        groups=groups,
        bandwidths=tuple(hosts.network.topology.links()),
        tokens=(),
        choices=(),
        num_caches=0,
        num_jobs=1,
        operations=operations,
        starts=starts,
        classes=classes,
        uses=np.zeros(0, np.int32),
        resources=np.stack([np.arange(len(capacities)), np.ones(len(capacities))], axis=1).astype(np.int32),
        units=np.zeros((0, 2), np.int32),
        cores=np.full(len(groups), float(hosts.cores)),
        conditions=np.array([(1.0, 0.0)]),
        points=capacities,
        traffic=Traffic(
            messages=messages,
            communicators=np.array([(0, ranks)], COMMUNICATOR),
            members=np.arange(ranks, dtype=np.int32),
            collectives=collectives,
            counts=run.counts,
            slot_lists=slot_lists,
        ),
    )


def _is_crowded(hosts: Hosts) -> bool:
    """Whether a node has more ranks than cores."""
    return int(np.bincount(hosts.node_of).max()) > hosts.cores


def _classes(hosts: Hosts) -> npt.NDArray[np.int32]:
    """[ranks] class of each rank's computation."""
    return np.array(hosts.node_of if _is_crowded(hosts) else [0] * len(hosts.node_of), np.int32)


def _places(run: RankActions) -> dict[Kind, Ints]:
    """The actions of each kind."""
    order = np.argsort(run.actions["kind"].astype(np.int8), kind="stable")
    bounds = np.searchsorted(run.actions["kind"][order], np.arange(len(Kind) + 1))
    return {kind: order[bounds[kind] : bounds[kind + 1]] for kind in Kind}


def _sizes(run: RankActions, kind: Kind, which: Ints) -> npt.NDArray[np.float64]:
    """Bytes of some actions of a kind; the sum of all ranks' where a reduce-scatter has them by rank."""
    sizes = run.actions["size_bytes"][which]
    if kind is Kind.REDUCE_SCATTER:
        sums = np.concatenate([[0.0], np.cumsum(run.counts)])
        firsts = run.actions["first_count"][which]
        by_rank = np.maximum(firsts, 0)
        sizes = np.where(firsts < 0, sizes, sums[np.minimum(by_rank + run.num_ranks, len(sums) - 1)] - sums[by_rank])
    return np.asarray(np.maximum(sizes, 0.0), np.float64)


def _recipes_of(
    run: RankActions, places: Mapping[Kind, Ints], recipes: Mapping[Kind, tuple[Recipe, ...]]
) -> tuple[npt.NDArray[np.int32], Ints]:
    """[actions] number of its recipe, and of the operations that it takes."""
    recipe_of = np.zeros(len(run.actions), np.int32)
    widths = np.ones(len(run.actions), np.int64)
    widths[places[Kind.EXCHANGE]] = 3
    widths[places[Kind.TEST]] = 0
    waits = places[Kind.WAIT]
    widths[waits[run.actions["request"][waits] == 0]] = 0
    for kind in COLLECTIVES:
        which = places[kind]
        if len(which):
            limits = np.array([recipe.up_to_bytes for recipe in recipes[kind]])
            steps = np.array([len(recipe.steps) for recipe in recipes[kind]])
            numbers = np.searchsorted(limits, _sizes(run, kind, which))
            recipe_of[which] = numbers
            widths[which] = steps[numbers] + (run.actions["amount"][which] > 0)
    return recipe_of, widths


def _own_requests(run: RankActions, which: Ints) -> Ints:
    """Number of requests of the rank of each of some actions: those of exchanges come behind them."""
    return np.asarray(run.requests[np.searchsorted(run.firsts, which, "right") - 1])


def _messages(run: RankActions, places: Mapping[Kind, Ints], writer: _Writer) -> Table:
    """The operations of messages of pairs; returns the kinds of messages that there are."""
    actions = run.actions
    sends = np.concatenate([places[Kind.SEND], places[Kind.ISEND]])
    receives = np.concatenate([places[Kind.RECEIVE], places[Kind.IRECEIVE]])
    exchanges = places[Kind.EXCHANGE]
    rows = np.concatenate([sends, receives, exchanges, exchanges])
    peers = actions["peer"][rows].astype(np.int64)
    peers[len(rows) - len(exchanges) :] = actions["request"][exchanges] - 1
    tags, tag_of = _distinct(actions["tag"][rows].astype(np.int64) + 1)
    distinct, numbers = _distinct((peers + 1) * max(len(tags), 1) + tag_of)
    messages = np.zeros(len(distinct), MESSAGE)
    messages["peer"] = distinct // max(len(tags), 1) - 1
    messages["tag"] = tags[distinct % max(len(tags), 1)] - 1 if len(tags) else 0
    of_sends, of_receives, sent, received = np.split(numbers, np.cumsum([len(sends), len(receives), len(exchanges)]))
    sizes = np.maximum(actions["size_bytes"], 0.0)
    writer.put(sends, 0, code=_engine.SEND, a=of_sends, b=actions["request"][sends], x=sizes[sends])
    writer.put(receives, 0, code=_engine.RECEIVE, a=of_receives, b=actions["request"][receives])
    own = _own_requests(run, exchanges)
    writer.put(exchanges, 0, code=_engine.SEND, a=sent, b=own + 1, x=sizes[exchanges])
    writer.put(exchanges, 1, code=_engine.RECEIVE, a=received, b=own + 2, label=int(Kind.EXCHANGE))
    return messages


def _waits(run: RankActions, places: Mapping[Kind, Ints], writer: _Writer) -> npt.NDArray[np.int32]:
    """The operations that wait for requests; returns the lists of requests."""
    actions = run.actions
    writer.put(places[Kind.WAIT_ALL], 0, code=_engine.AWAIT, n=-1)
    waits = places[Kind.WAIT]
    waits = waits[actions["request"][waits] > 0]
    writer.put(waits, 0, code=_engine.AWAIT, a=actions["request"][waits] - 1, n=1)
    exchanges = places[Kind.EXCHANGE]
    writer.put(exchanges, 2, code=_engine.AWAIT, a=_own_requests(run, exchanges), n=2, label=int(Kind.EXCHANGE))
    return np.arange(int(run.requests.max(initial=0)) + 2, dtype=np.int32)


def _collectives(
    run: RankActions,
    places: Mapping[Kind, Ints],
    writer: _Writer,
    recipes: Mapping[Kind, tuple[Recipe, ...]],
    recipe_of: npt.NDArray[np.int32],
    class_of: npt.NDArray[np.int32],
    flops_per_s: float,
) -> Table:
    """The operations of collectives, and the computation behind reductions; returns the collectives that there are."""
    actions = run.actions
    rows: list[tuple[int, int, int, int]] = []
    for kind in COLLECTIVES:
        for number, recipe in enumerate(recipes[kind]):
            which = places[kind][recipe_of[places[kind]] == number]
            if not len(which):
                continue
            sizes = _sizes(run, kind, which)
            roots = actions["peer"][which].astype(np.int64) if kind in _ROOTED else np.zeros(len(which), np.int64)
            counts = actions["first_count"][which].astype(np.int64) if kind in _BY_RANK else roots * 0 - 1
            distinct, numbers = _distinct((counts + 1) * run.num_ranks + roots)
            for offset, (algorithm, step) in enumerate(zip(algorithm_numbers(recipe.steps), recipe.steps, strict=True)):
                writer.put(
                    which, offset, code=_engine.COLLECTIVE, a=numbers + len(rows), x=sizes * step.share, label=int(kind)
                )
                rows += [
                    (algorithm, int(root), int(first) - 1, _BY_RANK.get(kind, 0))
                    for first, root in zip(*np.divmod(distinct, run.num_ranks), strict=True)
                ]
            computes = which[actions["amount"][which] > 0]
            writer.put(
                computes, len(recipe.steps), code=_engine.RUN, a=class_of[computes],
                x=actions["amount"][computes] / flops_per_s, label=int(Kind.COMPUTE),
            )  # fmt: skip
    table = np.zeros(len(rows), COLLECTIVE)
    if rows:
        table["algorithm"], table["root"], table["first_count"], table["counts"] = np.array(rows).T
    return table


_BY_RANK = {
    Kind.ALLTOALLV: _engine.COUNTS_TO,
    Kind.SCATTERV: _engine.COUNTS_FROM,
    Kind.ALLGATHERV: _engine.COUNTS_FROM,
}
"""Collectives whose sizes differ by rank, and by which rank."""
_ROOTED = {Kind.BCAST, Kind.REDUCE, Kind.GATHER, Kind.SCATTER, Kind.GATHERV, Kind.SCATTERV}
