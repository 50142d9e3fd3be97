"""Costs of kinds of instructions that profiles seldom give: measured ones first, then the table of published ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from foretrace.profiles.figure import CoreClass
from foretrace.profiles.instruction_costs import listed_cost
from foretrace.profiles.points import Operation, OperationCost
from foretrace.profiles.profile import Profile
from foretrace.profiles.ranges import Assumptions
from foretrace.replay.base.spread import Floats, assumed_as
from foretrace.tracer.signature.records import OperationKind as Kind

_OPERATIONS = {
    Kind.VECTOR_MUL: Operation.VECTOR_MUL,
    Kind.GATHER: Operation.GATHER,
    Kind.AES: Operation.AES,
    Kind.SHA_ROUND: Operation.SHA_ROUND,
    Kind.SHA_SCHEDULE: Operation.SHA_SCHEDULE,
    Kind.CRC32: Operation.CRC32,
    Kind.CARRYLESS_MUL: Operation.CARRYLESS_MUL,
    Kind.GALOIS: Operation.GALOIS,
    Kind.BIT_DEPOSIT: Operation.BIT_DEPOSIT,
    Kind.ATOMIC: Operation.ATOMIC,
    Kind.FENCE: Operation.FENCE,
    Kind.X87_FUNCTION: Operation.X87_FUNCTION,
    Kind.TIMER: Operation.TIMER,
}
_ANY = 0
_WORD = 32
"""Bits of the elements whose products take some cores twice as long."""


@dataclass(frozen=True, slots=True, eq=False)
class InstructionCost:
    """Cycles [3] from start to result, and between the starts of two independent ones."""

    latency: Floats
    interval: Floats


@dataclass(frozen=True, slots=True, eq=False)
class InstructionCosts:
    """Costs by kind and element bits; element bits of 0 stand for widths without an entry of their own."""

    of_kind: Mapping[tuple[Kind, int], InstructionCost]

    def of(self, kind: Kind, element_bits: int) -> InstructionCost | None:
        """Cost of a kind and element width; None where the kind has no cost of its own."""
        return self.of_kind.get((kind, element_bits)) or self.of_kind.get((kind, _ANY))


def instruction_costs(profile: Profile, core: CoreClass, notes: Assumptions) -> InstructionCosts:
    """Costs on a core; a kind that neither its profile nor its relatives give is noted by name."""
    found: dict[tuple[Kind, int], InstructionCost] = {}
    for kind, operation in _OPERATIONS.items():
        measured = next((cost for cost in profile.operations if cost.operation is operation), None)
        if measured is not None:
            found[kind, _ANY] = _measured(measured)
            continue
        cost = listed_cost(operation, _ANY, core)
        if cost is None:
            continue
        found[kind, _ANY] = InstructionCost(np.array(cost.latency_cycles), np.array(cost.interval_cycles))
        text = f"{operation}: not in the profile, {_text(found[kind, _ANY])}, {cost.known_of}"
        both = (
            assumed_as(notes, kind_note(kind), text, np.array(values))
            for values in (cost.latency_cycles, cost.interval_cycles)
        )
        found[kind, _ANY] = InstructionCost(*both)
    words = _word_products(profile, core)
    if words is not None:
        found[Kind.VECTOR_MUL, _WORD] = words
    return InstructionCosts(found)


def kind_note(kind: Kind) -> str:
    """Name of the assumption about a kind's cost."""
    return f"cost of {kind}"


def _measured(cost: OperationCost) -> InstructionCost:
    error = 1 + (cost.noise or 0.0)
    spread = np.array([1 / error, 1.0, error])
    latency = cost.latency_cycles or cost.interval_cycles or 1.0
    return InstructionCost(latency * spread, (cost.interval_cycles or latency) * spread)


def _word_products(profile: Profile, core: CoreClass) -> InstructionCost | None:
    """The cost of vector products of 32-bit elements."""
    measured = [
        cost
        for cost in profile.operations
        if cost.operation is Operation.INT_MUL and cost.elements > 1 and cost.element_bits == _WORD
    ]
    if measured:
        return _measured(min(measured, key=lambda cost: cost.elements))
    cost = listed_cost(Operation.VECTOR_MUL, _WORD, core)
    return None if cost is None else InstructionCost(np.array(cost.latency_cycles), np.array(cost.interval_cycles))


def _text(cost: InstructionCost) -> str:
    """A cost in words: "latency 4 cycles (3 to 8), one every 0.5 (0.25 to 1)"."""
    parts = []
    for fast, typical, slow in (cost.latency, cost.interval):
        parts.append(f"{typical:g}" + (f" ({fast:g} to {slow:g})" if fast < slow else ""))
    return f"latency {parts[0]} cycles, one every {parts[1]} assumed"
