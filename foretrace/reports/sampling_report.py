"""Confidence of a trace whose accesses were recorded in bursts, in one line."""

from __future__ import annotations

from foretrace.base.units import format_count
from foretrace.tracer.signature.records import EstimatedMisses, Sampling


def line(sampling: Sampling) -> str:
    """When recording went over to bursts, and the error of the first hierarchy's misses."""
    first = sampling.misses[0].hierarchy if sampling.misses else ""
    errors = ", ".join(f"{e.level} {_error(e)}" for e in sampling.misses if e.hierarchy == first)
    misses = f"; misses with 95 % confidence: {errors}" if errors else ""
    return (
        f"accuracy {sampling.accuracy}: the first {format_count(sampling.exact_accesses)} accesses recorded whole, the "
        f"rest in {sampling.bursts} burst{'s' if sampling.bursts != 1 else ''}, {sampling.recorded_share:.0%} of all"
        f"{misses} (--accuracy high records all)"
    )


def _error(estimate: EstimatedMisses) -> str:
    below, above = estimate.misses - estimate.low, estimate.high - estimate.misses
    share = max(below, above) / max(estimate.misses, 1)
    if share > 1:
        return f"{format_count(estimate.low)} to {format_count(estimate.high)}"
    return f"±{100 * share:.2g} %"
