"""Error interval of a prediction: named sources of error, each with its own range, and their combination.

The sources are taken to be independent: their ranges, as logarithms of factors, add up in squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .records import ErrorPart
from .residuals import model_error_range

RELATIVE_ERROR = (0.8, 1.25)
"""Measured over predicted time, of a machine whose figures are those of a relative: assumed (docs/model.md)."""


CONVOLUTION_ERROR = (0.65, 5.3)
"""Measured over predicted time of the convolution as published: the 5th and the 95th percentile of 55 programs of the
suite on an AMD EPYC (Zen 5). It knows no latencies, dependency chains or mispredicted branches (docs/model.md)."""


def convolution_error() -> ErrorPart:
    """Error of the published convolution."""
    return ErrorPart("model", *CONVOLUTION_ERROR)


def relative_error() -> ErrorPart:
    """Error of taking figures from a calibrated machine with the same cores."""
    return ErrorPart("relative", *RELATIVE_ERROR)


def model_error(covered: float, outside: float = 0.0) -> ErrorPart:
    """Error of the core model; `covered` is the share of the time that it speaks for, `outside` that of code
    outside the paths, which is left to the convolution."""
    low, high = (
        1 + covered * (factor - 1) + outside * (other - 1)
        for factor, other in zip(model_error_range(), CONVOLUTION_ERROR, strict=True)
    )
    return ErrorPart("model", low, high)


def figure_error(fast_s: float, time_s: float, slow_s: float) -> ErrorPart:
    """Noise of the machine's figures and the ranges of assumed ones, and the errors of hit rates."""
    if time_s <= 0:
        return ErrorPart("figures", 1.0, 1.0)
    return ErrorPart("figures", min(fast_s / time_s, 1.0), max(slow_s / time_s, 1.0))


def path_error(halves_s: Sequence[float], time_s: float) -> ErrorPart:
    """Sampling error of the paths: twice the standard error estimated from their two halves."""
    if time_s <= 0 or min(halves_s) <= 0:
        return ErrorPart("paths", 1.0, 1.0)
    spread = abs(halves_s[1] - halves_s[0]) / time_s
    return ErrorPart("paths", 1 / (1 + spread), 1 + spread)


def combined(parts: Sequence[ErrorPart]) -> tuple[float, float]:
    """Factors of the lower and of the upper end of all sources together."""
    low = math.sqrt(sum(math.log(max(part.low, 1e-6)) ** 2 for part in parts))
    high = math.sqrt(sum(math.log(part.high) ** 2 for part in parts))
    return math.exp(-low), math.exp(high)
