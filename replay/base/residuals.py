"""The model's error: residuals of programs that it was not made with, and the interval they give.

residuals.csv holds the measured and the predicted times of the held-back programs on calibrated machines; `make
residuals` writes it. The interval is that of split conformal prediction (Vovk, Gammerman and Shafer, "Algorithmic
Learning in a Random World", section 4.1; Lei et al., "Distribution-Free Predictive Inference for Regression", JASA
2018): the residual of a new program is no greater than the k-th smallest of n with probability k / (n + 1), if it is as
likely to be any of the n + 1. Signed residuals, as logarithms of measured over predicted time, give each end its own
quantile.
"""

from __future__ import annotations

import csv
import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

TABLE = Path(__file__).with_name("residuals.csv")
_ROUNDING = 1e-12
COVERAGE = 0.9
"""Share of new programs, at least, whose time on a calibrated machine lies in the interval."""


@dataclass(frozen=True, slots=True)
class Residual:
    """A program on a machine. `low` and `high` are the factors of all other sources of error together."""

    machine: str
    program: str
    measured_s: float
    predicted_s: float
    low: float
    high: float

    @property
    def log_error(self) -> float:
        """Logarithm of measured over predicted time."""
        return math.log(self.measured_s / self.predicted_s)

    @property
    def below(self) -> float:
        """Logarithm of predicted over measured time beyond the other sources, at least 0."""
        return _beyond(-self.log_error, -math.log(self.low))

    @property
    def above(self) -> float:
        """Logarithm of measured over predicted time beyond the other sources, at least 0."""
        return _beyond(self.log_error, math.log(self.high))

    def is_inside(self, low: float, high: float) -> bool:
        """Whether the measured time lies in the interval that a range of the model, two factors, gives."""
        return self.below <= -math.log(low) + _ROUNDING and self.above <= math.log(high) + _ROUNDING


def _beyond(log_error: float, others: float) -> float:
    """The width that a source must add, in squares, for the error to lie in the combined interval."""
    return math.sqrt(max(log_error**2 - others**2, 0.0)) if log_error > 0 else 0.0


def conformal_quantile(scores: Sequence[float], level: float) -> float:
    """The ceil((n + 1) x level)-th smallest score, which a new one exceeds with a probability of 1 - `level` at most.

    The largest where n are too few for that.

    Raises:
        ValueError: there is no score.
    """
    if not scores:
        raise ValueError("no scores: a quantile needs at least one")
    rank = math.ceil((len(scores) + 1) * level)
    return sorted(scores)[min(rank, len(scores)) - 1]


def model_range(residuals: Sequence[Residual], coverage: float = COVERAGE) -> tuple[float, float]:
    """Factors of the lower and the upper end that hold a share of new programs, half of the rest beyond each."""
    level = 1 - (1 - coverage) / 2
    below, above = (conformal_quantile([getattr(one, side) for one in residuals], level) for side in ("below", "above"))
    return math.exp(-below), math.exp(above)


@functools.cache
def model_error_range() -> tuple[float, float]:
    """The range from the table of the tree."""
    return model_range(read_residuals(TABLE.read_text()))


def read_residuals(text: str) -> tuple[Residual, ...]:
    """The rows of a table; lines that begin with # are comments."""
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return tuple(
        Residual(row["machine"], row["program"], *(float(row[field.name]) for field in fields(Residual)[2:]))
        for row in rows
    )


def format_residuals(residuals: Iterable[Residual], comment: str) -> str:
    """The text of a table, by machine and program."""
    names = [field.name for field in fields(Residual)]
    lines = [f"# {line}" for line in comment.splitlines()] + [",".join(names)]
    for one in sorted(residuals, key=lambda one: (one.machine, one.program)):
        figures = (f"{getattr(one, name):.5g}" for name in names[2:])
        lines.append(",".join((one.machine, one.program, *figures)))
    return "\n".join(lines) + "\n"


def share_inside(residuals: Sequence[Residual]) -> float:
    """Share of residuals inside a range made from the other programs' alone, each program left out in turn."""
    inside = 0
    for program in {one.program for one in residuals}:
        low, high = model_range([one for one in residuals if one.program != program])
        own = [one for one in residuals if one.program == program]
        inside += sum(one.is_inside(low, high) for one in own)
    return inside / len(residuals)
