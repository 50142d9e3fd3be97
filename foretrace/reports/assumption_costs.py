"""Costs of assumed figures of a machine, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from foretrace.base.units import counted, format_seconds
from foretrace.replay.base.records import Prediction

from .model import Section, Text

_LEAST_COST = 0.01
"""Share of an interval's width from which on the assumption of a figure has a line of its own."""


def costs_document(prediction: Prediction) -> dict[str, Any]:
    """Costs of assumed figures in parts of an interval's width, as JSON; nothing where that was not asked for."""
    costs = prediction.assumption_costs
    return {"assumption_costs": [asdict(one) for one in costs]} if costs else {}


def unknown_costs_sections(predictions: Sequence[Prediction]) -> list[Section]:
    """A line on predictions with assumptions whose costs were not worked out."""
    if not any(one.assumptions and one.assumption_costs is None for one in predictions):
        return []
    text = (
        "costs of assumptions are worked out for the traced run, on one core, of named machines: --machine M --cores 1"
    )
    return [Text(["", text])]


def assumption_cost_sections(prediction: Prediction) -> list[Section]:
    """Each assumed figure's cost in parts of the interval's width, where that was asked for."""
    if not prediction.assumption_costs:
        return []
    dear = [one for one in prediction.assumption_costs if one.width_share >= _LEAST_COST]
    ends = f"{format_seconds(prediction.low_s)} to {format_seconds(prediction.high_s)}"
    lines = [
        "",
        f"of the width of the interval on {prediction.machine}, {ends}; parts do not add up, errors add in squares",
    ]
    for one in dear:
        then = f"{format_seconds(one.low_s)} to {format_seconds(one.high_s)}"
        lines.append(f"  {one.name} {one.width_share:.0%}: give it and it is {then}")
    if less := len(prediction.assumption_costs) - len(dear):
        lines.append(f"  {counted(less, 'other figure')}: less than {_LEAST_COST:.0%} each")
    return [Text(lines)]
