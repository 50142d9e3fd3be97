"""Times of CPython on a core: a line, a bytecode, the call of an array operation; measured, or derived from the core.

A line of `foretrace/base/python_line.py` is 641 instructions of CPython 3.11 (x86-64, counted). How many cycles these
take follows from the core: how many instructions it starts at a time and whether in order, and which branches it
foresees. docs/model.md compares the result with measured lines, and with the core model's for the interpreter's own
machine code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.profiles.profile import Core, Profile
from foretrace.profiles.ranges import Assumptions, Range
from foretrace.replay.base.spread import assumed_as, between

Floats = npt.NDArray[np.float64]

BYTECODES_OF_LINE = 3.8
"""The calibration's loop of plain numbers takes 19 bytecodes for five lines."""
DEARER_BYTECODES = Range(0.63, 1.65, 4.6)
"""Time of a bytecode over that of the calibration's, which are of the cheapest kinds: least, median and most of twelve
loops (numbers, comparisons, elements of lists, calls of either kind, strings, dictionaries, large integers) in CPython
3.11.7."""
LINE_OF_PLAIN_ONES = Range(4.5, 5.9, 7.5)
"""Time of a line, in lines of plain numbers, on an AMD EPYC (Zen 3); and a quarter less and more."""
TIMED_PYTHON = Range(0.85, 1.0, 1.2)
"""Time in another run over what was timed in one run, in lines of Python: assumed (docs/model.md)."""
LONG_CALLS = Range(0.5, 1.0, 1.1)
"""Further factor for blocks that take very long: what built-in functions do with much memory takes up to twice as long
beside the simulation of caches, which lines of Python do not."""
RECORDING_ERROR = 0.5
"""Relative error of what recording was taken to add: it may have added so much less or more."""

INSTRUCTIONS_OF_LINE = 641.0
LINES_OF_BYTECODE = Range(0.031, 0.077, 0.22)
"""A bytecode in lines: the twelve loops above on Zen 3, of which a line takes 194 cycles."""
LINES_OF_CALL = Range(2.5, 6.0, 20.0)
"""The call of an array operation (NumPy 2, an addition of four elements took 6.8 lines on Zen 3, 5.5 on Zen 5 and 5.9
on Golden Cove), and of others."""

STARTED_OF_WIDTH, MOST_STARTED = 0.92, 4.5
"""Instructions of the interpreter that a core starts each cycle if it need not keep their order, as a share of the
issue width, and the most: the core model's for a line, on cores that issue 2 to 8."""
MOST_IN_ORDER, WAITED_OF_LATENCY = 2.0, 0.17
"""Instructions that a core which keeps the order starts each cycle at most, and cycles that each of them waits, of the
first cache's latency: likewise, on POWER6 and PowerPC A2."""
MISSED_BRANCHES: tuple[tuple[int, Range], ...] = (
    (2013, Range(0.3, 1.4, 3.5)),
    (2010, Range(1.4, 3.5, 12.8)),
    (0, Range(8.0, 12.8, 20.0)),
)
"""From which year on, branches that are not foreseen of 1000 instructions of CPython 3.3: 12.8 on Nehalem (2008), 3.5
on Sandy Bridge (2011), 1.4 on Haswell (2013) (Rohou, Swamy and Seznec, "Branch Prediction and the Performance of
Interpreters - Don't Trust Folklore", CGO 2015, as quoted in python-dev, August 2015)."""
ANY_YEAR = Range(0.5, 3.5, 12.8)
MISS_CYCLES = Range(8.0, 14.0, 20.0)
OF_KNOWN_CORES = (0.75, 1.5)
"""Measured over derived cycles: 1.23 on Zen 3, 0.93 on Zen 5, 0.89 on Golden Cove, which issue 6 and more at a time;
with room for others like them."""
OF_OTHER_CORES = (0.65, 2.2)
"""Measured over derived cycles of narrower, older and in-order cores, of which none was measured: assumed."""
_KNOWN_WIDTH, _KNOWN_YEAR = 5.0, 2017


@dataclass(frozen=True, slots=True, eq=False)
class PythonFigures:
    """Seconds [fast, typical, slow] of a line, a bytecode, and the call of an array operation."""

    line_s: Floats
    bytecode_s: Floats
    call_s: Floats


def python_figures(
    profile: Profile, core: Core, clock_hz: float, latency_cycles: float, notes: Assumptions
) -> PythonFigures:
    """Python figures of a core whose nearest cache answers in `latency_cycles`."""
    derived = _derived_line(profile, core, latency_cycles)
    return PythonFigures(
        _line(core, derived, clock_hz, notes),
        _bytecode(core, derived, clock_hz, notes),
        _call(core, derived, clock_hz, notes),
    )


def _line(core: Core, derived: Range, clock_hz: float, notes: Assumptions) -> Floats:
    if core.python_line_s is not None:
        return core.python_line_s * np.array(TIMED_PYTHON)
    if core.python_block_s is not None:
        less, usual, more = LINE_OF_PLAIN_ONES
        text = f"not measured, taken as {usual:g} lines of plain numbers ({less:g} to {more:g})"
        factors = [line * timed for line, timed in zip(LINE_OF_PLAIN_ONES, TIMED_PYTHON, strict=True)]
        return assumed_as(notes, "python_line", text, core.python_block_s * np.array(factors))
    return _assumed(_together(derived, TIMED_PYTHON), "python_line", "a line", clock_hz, notes)


def _bytecode(core: Core, derived: Range, clock_hz: float, notes: Assumptions) -> Floats:
    if core.python_block_s is not None:
        return core.python_block_s / BYTECODES_OF_LINE * np.array(DEARER_BYTECODES)
    return _assumed(_together(derived, LINES_OF_BYTECODE), "python_bytecode", "a bytecode", clock_hz, notes)


def _call(core: Core, derived: Range, clock_hz: float, notes: Assumptions) -> Floats:
    given = core.python_call_s
    if given is not None:
        return between(given / 1.5, given, given * 1.5)  # operations differ; the figure is that of a common one
    return _assumed(_together(derived, LINES_OF_CALL), "python_call", "an array call", clock_hz, notes)


def _assumed(cycles: Range, name: str, what: str, clock_hz: float, notes: Assumptions) -> Floats:
    fast, usual, slow = cycles
    text = (
        f"not measured here, {usual:.3g} cycles assumed for {what} of Python ({fast:.3g} to {slow:.3g}), as follows "
        "for CPython 3.11 from the core's issue width, its order, its year and what a missed branch costs"
    )
    return assumed_as(notes, name, text, np.array(cycles) / clock_hz)


def _derived_line(profile: Profile, core: Core, latency_cycles: float) -> Range:
    """Cycles of a line."""
    width = core.issue_width_instructions_per_cycle or 2.0
    year = None if profile.product is None else profile.product.year
    if core.in_order:
        each = 1 / min(width, MOST_IN_ORDER) + WAITED_OF_LATENCY * latency_cycles
    else:
        each = 1 / min(STARTED_OF_WIDTH * width, MOST_STARTED)
    penalty = MISS_CYCLES if core.branch_miss_cycles is None else Range.exactly(core.branch_miss_cycles)
    missed = [
        share / 1000 * cost for share, cost in zip(_missed(year, in_order=bool(core.in_order)), penalty, strict=True)
    ]
    is_known = not core.in_order and width >= _KNOWN_WIDTH and (year or 0) >= _KNOWN_YEAR
    less, more = OF_KNOWN_CORES if is_known else OF_OTHER_CORES
    usual = INSTRUCTIONS_OF_LINE * (each + missed[1])
    fastest, slowest = ((each + of_branches) / (each + missed[1]) for of_branches in (missed[0], missed[2]))
    return _together(Range(less * usual, usual, more * usual), Range(fastest, 1.0, slowest))


def _missed(year: int | None, *, in_order: bool) -> Range:
    """Branches of 1000 instructions. Cores that keep the order foresee as little as old ones: they are made small."""
    if in_order:
        return MISSED_BRANCHES[-1][1]
    return ANY_YEAR if year is None else next(missed for since, missed in MISSED_BRANCHES if year >= since)


def _together(one: Range, other: Range) -> Range:
    """The product of two figures whose errors are independent."""
    fast = math.hypot(math.log(one.typical / one.fast), math.log(other.typical / other.fast))
    slow = math.hypot(math.log(one.slow / one.typical), math.log(other.slow / other.typical))
    usual = one.typical * other.typical
    return Range(usual * math.exp(-fast), usual, usual * math.exp(slow))
