"""Fields of a sweep's rows: what is kept of each point."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from foretrace.replay.base.records import Bound

Value: TypeAlias = str | int | float | bool | None
Row: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the results.

    Attributes:
        name: ends in the unit.
        type: of its values; each may be None.
    """

    name: str
    type: type[str] | type[int] | type[float] | type[bool] = float


def bound_field(bound: Bound) -> str:
    """Name of the field with the time that is bound by something."""
    return f"by_{str(bound).replace(' ', '_').replace('/', '_')}_s"


TIMES = (Field("time_s"), Field("low_s"), Field("high_s"))
NOTES = (Field("complete", bool), Field("assumptions", int), Field("warnings", str))
PREDICTED = (
    Field("bound_by", str),
    *(Field(name) for name in ("speedup", "speedup_low", "speedup_high")),
    Field("speedup_bound_by", str),
    *(Field(name) for name in ("unseen_s", "waiting_s", "accesses", "nearest_misses", "memory_accesses")),
    *(Field(bound_field(bound)) for bound in Bound if bound is not Bound.NOTHING),
    *NOTES,
)
REPLAYED = (
    *(Field(name) for name in ("alone_s", "one_thread_s", "cores_utilisation", "memory_utilisation")),
    Field("critical_path", str),
    *NOTES,
)
RANKS = (
    Field("ranks", int),
    Field("nodes", int),
    *(Field(name) for name in ("compute_s", "partner_s", "transfer_s", "imbalance")),
    Field("messages", int),
    Field("sent_bytes"),
    Field("estimated_s"),
    *NOTES,
)
ERROR = Field("error", str)


def finite(value: float) -> float | None:
    """A number for a row; None where it is not finite."""
    return float(value) if math.isfinite(value) else None


def converted(field: Field, value: Any) -> Value:
    """A value as its field's type.

    Raises:
        ValueError: it is none of that type.
    """
    if value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if field.type is float and is_number:
        return finite(value)
    if not isinstance(value, field.type) or (field.type is int and not is_number):
        raise ValueError(f"{field.name}: is no {field.type.__name__}")
    return value
