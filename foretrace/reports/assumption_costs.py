"""Costs of assumed figures of a machine, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from foretrace.base.terminal import console, plain
from foretrace.base.units import counted, format_seconds
from foretrace.replay.base.records import Prediction

_LEAST_COST = 0.01
"""Of an interval's width, from which on the assumption of a figure has a line of its own."""


def costs_document(prediction: Prediction) -> dict[str, Any]:
    """Costs of assumed figures in parts of an interval's width, as JSON; nothing where that was not asked for."""
    costs = prediction.assumption_costs
    return {"assumption_costs": [asdict(one) for one in costs]} if costs else {}


def show_assumption_costs(prediction: Prediction) -> None:
    """Prints each assumed figure's cost in parts of the interval's width, where that was asked for."""
    dear = [one for one in prediction.assumption_costs if one.width_share >= _LEAST_COST]
    if not prediction.assumption_costs:
        return
    out = console()
    ends = f"{format_seconds(prediction.low_s)} to {format_seconds(prediction.high_s)}"
    out.print(f"\nof the width of the interval on {plain(prediction.machine)}, {ends}", soft_wrap=True)
    for one in dear:
        then = f"{format_seconds(one.low_s)} to {format_seconds(one.high_s)}"
        out.print(plain(f"  {one.name} {one.width_share:.0%}: give it and it is {then}"), soft_wrap=True)
    if less := len(prediction.assumption_costs) - len(dear):
        out.print(f"  {counted(less, 'other figure')}: less than {_LEAST_COST:.0%} each")
