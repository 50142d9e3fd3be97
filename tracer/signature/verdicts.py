"""The scale of verdicts: what a loop carries from one iteration to the next, and who says so.

Source, run and binary each say something of a loop. What the source proves decides; what one run showed is evidence,
and so is what the binary's instructions show. Where all are silent, a loop is assumed to be parallel.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Kind of dependence that a loop carries from one iteration to the next."""

    PARALLEL = "parallel"  # no iteration needs another one, but perhaps a copy of its own of what it stores
    REDUCTION = "reduction"  # iterations only combine into one value, or place, in any order
    COLLISION = "colliding updates"  # several iterations update one place through an index
    RECURRENCE = "recurrence"  # an iteration needs what an earlier one computed
    UNKNOWN = "unknown"


class Authority(StrEnum):
    """Evidence that a verdict rests on."""

    SOURCE = "source"
    RUN = "run"
    BINARY = "binary"
    ASSUMPTION = "assumption"


@dataclass(frozen=True, slots=True)
class Said:
    """One authority's verdict on a loop, its reason and its assumptions."""

    verdict: Verdict
    reason: str = ""
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopVerdict:
    """The verdict on a loop, what decided, and what each said of it; None: nothing."""

    verdict: Verdict
    decided_by: Authority
    source: Said | None = None
    run: Said | None = None
    binary: Said | None = None
