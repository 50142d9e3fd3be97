"""One word on each loop: what stands most in the way of running its iterations at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from foretrace.tracer.signature.data_flow_records import Dependence, DependenceKind, ExaminedLoop
from foretrace.tracer.signature.records import Signature
from foretrace.tracer.signature.verdicts import Verdict as OnScale


class Verdict(IntEnum):
    """Worst kind of dependence that a loop carries from one iteration to the next; in ascending severity."""

    NONE = 0
    PRIVATISABLE = 1
    REDUCTION = 2
    COLLISION = 3
    RECURRENCE = 4

    @property
    def on_scale(self) -> OnScale:
        """The verdict on the scale that source, binary and run share: a copy for each iteration makes a loop
        parallel."""
        if self in (Verdict.NONE, Verdict.PRIVATISABLE):
            return OnScale.PARALLEL
        return OnScale[self.name]


_ALL_SHARE = 0.99
"""Share of a loop's iterations: a loop whose first entry never comes back is not known from its beginning."""
_OF_KIND = {
    DependenceKind.PRIVATISABLE: Verdict.PRIVATISABLE,
    DependenceKind.REDUCTION: Verdict.REDUCTION,
    DependenceKind.COLLISION: Verdict.COLLISION,
    DependenceKind.RECURRENCE: Verdict.RECURRENCE,
}


@dataclass(frozen=True, slots=True)
class LoopVerdict:
    """Verdict on a node of the tree, from observing `iterations` iterations. The worst of `dependences` comes first.

    `overwritten` is the share of what the iterations store that an earlier one had stored too. `live_bytes` of what the
    loop stores are read outside of it; None where the signature has no data flow. `is_repetition` says that iterations
    store the same bytes over again and hand on nothing: each after the first only overwrites results, so running
    them at the same time gains nothing.
    """

    node: int
    iterations: int
    verdict: Verdict
    dependences: tuple[Dependence, ...]
    overwritten: float = 0.0
    live_bytes: float | None = None
    is_repetition: bool = False


def verdicts(signature: Signature) -> Iterator[LoopVerdict]:
    """A verdict on each loop that was examined."""
    of_node: dict[int, list[Dependence]] = {}
    for one in signature.dependences:
        of_node.setdefault(one.node, []).append(one)
    for loop in signature.examined_loops:
        found = sorted(of_node.get(loop.node, ()), key=lambda one: (-_OF_KIND[one.kind], -one.count))
        verdict = _OF_KIND[found[0].kind] if found else Verdict.NONE
        yield LoopVerdict(
            loop.node,
            loop.iterations,
            verdict,
            tuple(found),
            loop.overwritten,
            live_bytes(signature, loop.node),
            verdict in (Verdict.NONE, Verdict.PRIVATISABLE) and _stores_nothing_new(signature, loop),
        )


def is_in_part(signature: Signature, loop: ExaminedLoop) -> bool:
    """Whether only some of a loop's iterations were examined, in windows of the run."""
    assert signature.tree is not None
    return loop.iterations < _ALL_SHARE * int(signature.tree.iterations[loop.node])


def _stores_nothing_new(signature: Signature, loop: ExaminedLoop) -> bool:
    """Whether iterations after an entry's first store where earlier ones did, but for less than a byte an iteration.

    A temporary that each iteration overwrites can be most of what a loop stores; results elsewhere tell it from a
    repetition.
    """
    assert signature.tree is not None
    entries = max(int(signature.tree.entries[loop.node]), 1)
    again = loop.iterations - entries
    if is_in_part(signature, loop) or again <= 0 or not loop.overwritten_bytes:
        return False
    stored_again = loop.written_bytes * again / loop.iterations
    return stored_again - loop.overwritten_bytes < again


def live_bytes(signature: Signature, node: int) -> float | None:
    """Bytes that a node, or what is below it, stores and something outside of it reads; None without data flow."""
    if signature.data_flow is None or signature.tree is None:
        return None
    parent = signature.tree.parent
    outside = np.flatnonzero(parent[node + 1 :] < node)  # a node's descendants follow it
    inside = np.zeros(len(parent), np.bool_)
    inside[node : node + 1 + int(outside[0]) if len(outside) else None] = True
    return signature.data_flow.crossing_bytes(inside)[1]
