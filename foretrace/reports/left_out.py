"""Lines below tables on what these leave out: rows beyond the first, and instructions that belong to no row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from foretrace.base.names import function_text
from foretrace.base.units import format_count
from foretrace.tracer.signature.records import Signature

MOST_FUNCTIONS = 3
"""Largest number of functions named in a line."""


def outside_loops(signature: Signature) -> Counter[tuple[str, str, str]]:
    """The instructions that ran outside loops, by module, function and calling function."""
    found: Counter[tuple[str, str, str]] = Counter()
    for block in signature.blocks:
        if block.loop_id is None:
            found[block.module, block.function, block.caller] += block.executions * block.instructions
    return found


def outside_loops_line(signature: Signature) -> str:
    """A line on the functions that ran the instructions outside loops; empty if there are none."""
    outside = outside_loops(signature)
    total, left = signature.totals.instructions, outside.total()
    if not total or not left:
        return ""
    functions: Counter[str] = Counter()
    for (module, function, caller), instructions in outside.items():
        name = function_text(function, caller) if function else module.rpartition("/")[2]
        functions[name or "code without a name"] += instructions
    named = [f"{name} {instructions / total:.0%}" for name, instructions in functions.most_common(MOST_FUNCTIONS)]
    more = len(functions) - len(named)
    others = f", {more} more" if more else ""
    return f"{left / total:.0%} of the instructions are in functions, outside loops: {', '.join(named)}{others}"


def rest_line(values: Sequence[float], shown: int, what: str, of: str, total: float = 0) -> str:
    """A line on the share of a sum in the sorted rows beyond the first `shown`; empty if there are none.

    `what` names the rows, `of` what is summed. The `total` is that of all rows, if it is not given.
    """
    rest, total = sum(values[shown:]), total or sum(values)
    if not rest or len(values) <= shown or not total:
        return ""
    share = f"{rest / total:.0%}" if rest / total >= 0.005 else f"{format_count(round(rest))}"
    return f"{share} of the {of} are in {len(values) - shown} {what} that are not shown"
