"""One word on each loop: what stands most in the way of running its iterations at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from foretrace.tracer.signature.data_flow_records import Dependence, DependenceKind
from foretrace.tracer.signature.records import Signature


class Verdict(IntEnum):
    """What a loop carries from one iteration to the next, the worst of it; in ascending severity."""

    NONE = 0
    PRIVATISABLE = 1
    REDUCTION = 2
    COLLISION = 3
    RECURRENCE = 4


_OF_KIND = {
    DependenceKind.PRIVATISABLE: Verdict.PRIVATISABLE,
    DependenceKind.REDUCTION: Verdict.REDUCTION,
    DependenceKind.COLLISION: Verdict.COLLISION,
    DependenceKind.RECURRENCE: Verdict.RECURRENCE,
}


@dataclass(frozen=True, slots=True)
class LoopVerdict:
    """What was seen of a node of the tree in `iterations` iterations. The worst of `dependences` comes first."""

    node: int
    iterations: int
    verdict: Verdict
    dependences: tuple[Dependence, ...]


def verdicts(signature: Signature) -> Iterator[LoopVerdict]:
    """A verdict on each loop that was examined."""
    of_node: dict[int, list[Dependence]] = {}
    for one in signature.dependences:
        of_node.setdefault(one.node, []).append(one)
    for loop in signature.examined_loops:
        found = sorted(of_node.get(loop.node, ()), key=lambda one: (-_OF_KIND[one.kind], -one.count))
        verdict = _OF_KIND[found[0].kind] if found else Verdict.NONE
        yield LoopVerdict(loop.node, loop.iterations, verdict, tuple(found))
