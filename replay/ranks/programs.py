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
"""Labels of activities: what an action is called."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """Where ranks run.

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

    actions: Table
    at: Ints
    operations: Table

    def put(self, which: npt.NDArray[np.bool_], offset: int, **fields: object) -> None:
        """Set fields of the operation number `offset` of each of some actions."""
        rows = self.at[which] + offset
        for name, values in fields.items():
            self.operations[name][rows] = values


def compile_ranks(run: RankActions, hosts: Hosts, recipes: Mapping[Kind, tuple[Recipe, ...]]) -> Compiled:
    """The arrays of a run on hosts, with collectives by some recipes.

    Raises:
        PredictionError: there are more ranks than places for them.
    """
    if len(hosts.node_of) != run.num_ranks:
        raise PredictionError(f"replay: {len(hosts.node_of)} places for {run.num_ranks} ranks")
    actions, kinds = run.actions, run.actions["kind"]
    ranks = run.num_ranks
    recipe_of, widths = _recipes_of(run, recipes)
    rank_of = run.rank_of
    at: Ints = (np.concatenate([[0], np.cumsum(widths)])[:-1] + rank_of).astype(np.int64)  # an end of each rank before
    operations = np.zeros(int(widths.sum()) + ranks, OPERATION)
    writer = _Writer(actions, at, operations)
    operations["label"][at] = kinds
    ends = np.add.accumulate(np.bincount(rank_of, widths, ranks).astype(np.int64) + 1) - 1
    operations["code"][ends] = _engine.END
    for kind, code in ((Kind.COMPUTE, _engine.RUN), (Kind.SLEEP, _engine.SLEEP)):
        which = kinds == kind
        seconds = actions["amount"][which] / (hosts.flops_per_s if kind is Kind.COMPUTE else 1.0)
        writer.put(which, 0, code=code, x=seconds, a=0 if kind is Kind.SLEEP else _classes(hosts)[rank_of[which]])
    messages = _messages(run, writer)
    slot_lists = _waits(run, writer)
    collectives = _collectives(run, writer, recipes, recipe_of, hosts, rank_of)
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


def _sizes(run: RankActions) -> npt.NDArray[np.float64]:
    """[actions] bytes of each action; the sum of all ranks' where a reduce-scatter has them by rank."""
    actions = run.actions
    sizes = np.maximum(actions["size_bytes"], 0.0)
    by_rank = np.flatnonzero((actions["kind"] == Kind.REDUCE_SCATTER) & (actions["first_count"] >= 0))
    sums = np.concatenate([[0.0], np.cumsum(run.counts)])
    firsts = actions["first_count"][by_rank]
    sizes[by_rank] = sums[firsts + run.num_ranks] - sums[firsts]
    return np.asarray(sizes, np.float64)


def _recipes_of(run: RankActions, recipes: Mapping[Kind, tuple[Recipe, ...]]) -> tuple[npt.NDArray[np.int32], Ints]:
    """[actions] number of its recipe, and of the operations that it takes."""
    kinds, sizes = run.actions["kind"], _sizes(run)
    recipe_of = np.zeros(len(kinds), np.int32)
    widths = np.ones(len(kinds), np.int64)
    widths[kinds == Kind.EXCHANGE] = 3
    widths[(kinds == Kind.TEST) | ((kinds == Kind.WAIT) & (run.actions["request"] == 0))] = 0
    for kind in COLLECTIVES:
        which = kinds == kind
        if not which.any():
            continue
        limits = np.array([recipe.up_to_bytes for recipe in recipes[kind]])
        recipe_of[which] = np.searchsorted(limits, sizes[which])
        steps = np.array([len(recipe.steps) for recipe in recipes[kind]])
        widths[which] = steps[recipe_of[which]] + (run.actions["amount"][which] > 0)
    return recipe_of, widths


def _messages(run: RankActions, writer: _Writer) -> Table:
    """The operations of messages of pairs; returns the kinds of messages that there are."""
    actions, kinds = run.actions, run.actions["kind"]
    sends = (kinds == Kind.SEND) | (kinds == Kind.ISEND)
    receives = (kinds == Kind.RECEIVE) | (kinds == Kind.IRECEIVE)
    exchanges = kinds == Kind.EXCHANGE
    own = np.repeat(run.requests, np.diff(run.firsts))
    rows = np.concatenate([np.flatnonzero(which) for which in (sends, receives, exchanges, exchanges)])
    peers = np.concatenate(
        [
            actions["peer"][sends],
            actions["peer"][receives],
            actions["peer"][exchanges],
            actions["request"][exchanges] - 1,
        ]
    )
    keys = (peers.astype(np.int64) + 1) << 32 | (actions["tag"][rows].astype(np.int64) + 1)
    distinct, number = np.unique(keys, return_inverse=True)
    messages = np.zeros(len(distinct), MESSAGE)
    messages["peer"], messages["tag"] = (distinct >> 32) - 1, (distinct & 0xFFFFFFFF) - 1
    parts = np.split(number, np.cumsum([sends.sum(), receives.sum(), exchanges.sum()]))
    requests = actions["request"]
    sizes = np.maximum(actions["size_bytes"], 0.0)
    writer.put(sends, 0, code=_engine.SEND, a=parts[0], b=requests[sends], x=sizes[sends])
    writer.put(receives, 0, code=_engine.RECEIVE, a=parts[1], b=requests[receives])
    writer.put(exchanges, 0, code=_engine.SEND, a=parts[2], b=own[exchanges] + 1, x=sizes[exchanges])
    writer.put(exchanges, 1, code=_engine.RECEIVE, a=parts[3], b=own[exchanges] + 2, label=kinds[exchanges])
    return messages


def _waits(run: RankActions, writer: _Writer) -> npt.NDArray[np.int32]:
    """The operations that wait for requests; returns the lists of requests."""
    actions, kinds = run.actions, run.actions["kind"]
    writer.put(kinds == Kind.WAIT_ALL, 0, code=_engine.AWAIT, n=-1)
    waits = (kinds == Kind.WAIT) & (actions["request"] > 0)
    most = int(run.requests.max(initial=0)) + 2
    writer.put(waits, 0, code=_engine.AWAIT, a=actions["request"][waits] - 1, n=1)
    exchanges = kinds == Kind.EXCHANGE
    own = np.repeat(run.requests, np.diff(run.firsts))[exchanges]
    writer.put(exchanges, 2, code=_engine.AWAIT, a=own, n=2, label=kinds[exchanges])
    return np.arange(most, dtype=np.int32)


def _collectives(
    run: RankActions,
    writer: _Writer,
    recipes: Mapping[Kind, tuple[Recipe, ...]],
    recipe_of: npt.NDArray[np.int32],
    hosts: Hosts,
    rank_of: npt.NDArray[np.int32],
) -> Table:
    """The operations of collectives, and the computation behind reductions; returns the collectives that there are."""
    actions, kinds, sizes = run.actions, run.actions["kind"], _sizes(run)
    keys: list[Ints] = []
    places: list[Ints] = []
    for kind in COLLECTIVES:
        for number, recipe in enumerate(recipes[kind]):
            which = (kinds == kind) & (recipe_of == number)
            if not which.any():
                continue
            counts = actions["first_count"][which] if kind in _BY_RANK else np.full(which.sum(), -1)
            roots = actions["peer"][which] if kind in _ROOTED else np.zeros(which.sum(), np.int64)
            for offset, (algorithm, step) in enumerate(zip(algorithm_numbers(recipe.steps), recipe.steps, strict=True)):
                writer.put(which, offset, code=_engine.COLLECTIVE, x=sizes[which] * step.share, label=int(kind))
                keys.append(
                    np.stack(
                        [np.full(len(roots), algorithm), roots, counts, np.full(len(roots), _BY_RANK.get(kind, 0))], 1
                    )
                )
                places.append(writer.at[which] + offset)
            computes = which & (actions["amount"] > 0)
            writer.put(
                computes, len(recipe.steps), code=_engine.RUN, a=_classes(hosts)[rank_of[computes]],
                x=actions["amount"][computes] / hosts.flops_per_s, label=int(Kind.COMPUTE),
            )  # fmt: skip
    if not keys:
        return np.zeros(0, COLLECTIVE)
    distinct, numbers = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    writer.operations["a"][np.concatenate(places)] = numbers.reshape(-1)
    table = np.zeros(len(distinct), COLLECTIVE)
    table["algorithm"], table["root"], table["first_count"], table["counts"] = distinct.T
    return table


_BY_RANK = {
    Kind.ALLTOALLV: _engine.COUNTS_TO,
    Kind.SCATTERV: _engine.COUNTS_FROM,
    Kind.ALLGATHERV: _engine.COUNTS_FROM,
}
"""Collectives whose sizes differ by rank, and by which rank."""
_ROOTED = {Kind.BCAST, Kind.REDUCE, Kind.GATHER, Kind.SCATTER, Kind.GATHERV, Kind.SCATTERV}
