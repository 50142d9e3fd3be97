"""The core model's parameters of a core, from a profile's figures, with defaults where the profile gives none.

Cycles, each as (fast, typical, slow). The defaults, the cores they hold for and their sources are in
profiles/defaults.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from foretrace.profiles import defaults
from foretrace.profiles.figure import CoreClass, figures_of_record
from foretrace.profiles.instruction_costs import listed_cost
from foretrace.profiles.points import Operation, OperationCost
from foretrace.profiles.profile import Core, Frontend, Profile
from foretrace.profiles.ranges import Assumptions, Range, core_class, default_of, measured, noise_of
from foretrace.replay.base.known import KnownCore
from foretrace.replay.base.records import Bound
from foretrace.replay.base.spread import FAST, SLOW, TYPICAL, Floats, assumed_as, exactly
from foretrace.tracer.signature.records import OperationKind as Kind

from . import _core_model
from .instruction_costs import InstructionCosts, instruction_costs
from .program import DECODED_AT_ONCE

INT, INT_MUL, INT_DIV, FP_ADD, FP_MUL, FP_DIV, VECTOR, BRANCH = range(8)
"""Units, as they are numbered for core_model.h."""

_PARTS = {
    Kind.INT_SHIFT: Operation.INT_SHIFT,
    Kind.INT_SELECT: Operation.INT_SELECT,
    Kind.INT_SHIFT_ADD: Operation.INT_SHIFT_ADD,
    Kind.INT_BIT_COUNT: Operation.INT_BIT_COUNT,
    Kind.FP_COMPARE: Operation.FP_COMPARE,
    Kind.FP_CONVERT: Operation.FP_CONVERT,
}
"""Kinds of instructions with a latency of their own, and their operation in a profile."""
_CROSSING = (Kind.FP_COMPARE, Kind.FP_CONVERT)
DIVIDERS = frozenset({Kind.INT_DIV, Kind.FP_DIV, Kind.FP_SQRT})
"""Kinds of instructions that the divider executes."""

CAUSES = (
    Bound.ISSUE,
    Bound.COMPUTE,
    Bound.DIVIDE,
    Bound.CHAIN,
    Bound.FORWARD,
    Bound.PORTS,
    Bound.BRANCH,
    Bound.CACHE_BANDWIDTH,
    Bound.MEMORY_BANDWIDTH,
    Bound.CACHE_LATENCY,
    Bound.MEMORY_LATENCY,
)
"""Causes, as they are numbered in core_model.h."""

_FORWARD_CYCLES = 3.0
"""Least delay of store forwarding over a cache hit where addresses must be compared: Zen and Golden Cove
forward a variable of the stack in no time, others in 6 to 8 cycles (Agner Fog, "The microarchitecture of Intel, AMD and
VIA CPUs", sections on store forwarding)."""
_ASSUMED_ALUS = 4.0
_CONVERT_CYCLES = np.array([0.0, 2.0, 3.0])
"""Cycles of a conversion between integer and floating point, without the move between their register files."""
_PAIRS = 2 / 3
"""Cycles of a taken branch below which the front end follows two of them at once."""
_RESOLVE_CYCLES = 1.0
"""Cycles from a branch's operands being ready to its resolution in the calibration loop. Each iteration continues from
the value of the one before, mispredicted or not, so the rest of the misprediction penalty is the front-end refill."""


@dataclass(frozen=True, slots=True, eq=False)
class CoreFigures:
    """Cycles [3] unless said otherwise.

    `members` has the parameters of the C core (core_model.h) by name, without those that the memory system gives.
    `latency` is by kind. `unit_cycles`, by unit, is the time that one operation occupies one unit; `root_cycles` the
    time that a square root occupies the divider. `native_lanes` is the number of 64-bit elements that a unit processes
    at once. `own`: costs of kinds that few profiles give. `crossing` is the latency between register files;
    `add_sooner`: the cycles saved when a floating-point addition uses the result of another one.
    """

    members: Mapping[str, Floats]
    crossing: Floats
    add_sooner: Floats
    latency: dict[Kind, Floats]
    unit_cycles: tuple[Floats, ...]
    root_cycles: Floats
    native_lanes: float
    own: InstructionCosts


OF_MEMORY = frozenset({"lead", "n_levels"})
"""Members of the C core that the memory system gives."""


def core_figures(profile: Profile, core: Core, first_latency_cycles: float, notes: Assumptions) -> CoreFigures:
    """The figures of a profile's core whose nearest cache answers in `first_latency_cycles`."""
    source = _Source(core, core_class(profile), notes)
    width = float(source.figure("issue_width_instructions_per_cycle")[TYPICAL])
    adds, multiplies, lanes = source.fp_units(width)
    div = source.cycles("fp_div_interval_cycles")
    root = core.fp_sqrt_interval_cycles
    crossing = source.cycles("register_crossing_cycles")
    multiply = _cost(profile, Operation.INT_MUL)
    int_mul = multiply.interval_cycles if multiply else None
    branches = core.untaken_branches_per_cycle
    return CoreFigures(
        members=source.members(width, first_latency_cycles),
        crossing=crossing,
        add_sooner=source.add_sooner(),
        latency=source.latencies(_cost(profile, Operation.FP_SHUFFLE, elements=2))
        | _part_latencies(profile, source.of, crossing, notes),
        unit_cycles=(
            1 / source.int_adds(width),
            exactly(1.0 if int_mul is None else int_mul),
            source.cycles("int_div_interval_cycles"),
            adds,
            multiplies,
            div,
            adds,
            exactly(0.5 if branches is None else 1 / branches),
        ),
        root_cycles=exactly(root) if root else div * np.array([1.0, 1.5, 2.0]),
        native_lanes=lanes,
        own=instruction_costs(profile, source.of, notes),
    )


def _cost(profile: Profile, operation: Operation, elements: int = 1, bits: int = 64) -> OperationCost | None:
    costs = (c for c in profile.operations if (c.operation, c.element_bits, c.elements) == (operation, bits, elements))
    return next(costs, None)


def _part_latencies(profile: Profile, of: CoreClass, crossing: Floats, notes: Assumptions) -> dict[Kind, Floats]:
    """Latencies of the kinds restricted to a subset of the execution units, without their crossing between register
    files; those of an integer operation or a comparison where the profile gives none."""
    found, missing = {}, []
    for kind, operation in _PARTS.items():
        cost, listed = _cost(profile, operation), listed_cost(operation, 64, of)
        if cost is not None and cost.latency_cycles is not None:
            latency = exactly(cost.latency_cycles)
            found[kind] = np.maximum(latency - crossing, 1.0) if kind in _CROSSING else latency
        elif kind is Kind.FP_CONVERT:
            found[kind] = 1 + _CONVERT_CYCLES
        elif listed is not None and listed.is_of_the_core:
            found[kind] = np.array(listed.latency_cycles)
            continue
        else:
            found[kind] = exactly(1.0)
        if cost is None:
            missing.append(str(operation))
    control = _cost(profile, Operation.FP_CONTROL)
    found[Kind.FP_CONTROL] = exactly((control.latency_cycles or 1.0) if control else 1.0)
    if control is None:
        missing.append(str(Operation.FP_CONTROL))
    if missing:
        notes.note("kinds", f"{', '.join(missing)} not in the profile, as other operations of their units")
    return found


class _Source(KnownCore):
    """Derives the core model's parameters from a profile, and notes what was assumed."""

    def int_adds(self, width: float) -> Floats:
        """Integer operations per cycle; an assumed typical value is at most four."""
        adds = self.figure("int_adds_per_cycle", width)
        if self.given("int_adds_per_cycle") is None:
            is_settled = adds[FAST] == adds[SLOW]
            adds[TYPICAL] = min(adds[TYPICAL], _ASSUMED_ALUS)
            adds = exactly(adds[TYPICAL]) if is_settled else adds
        return adds

    def members(self, width: float, first_latency_cycles: float) -> dict[str, Floats]:
        """The C core's members by name: some derived from several figures or converted, the others one figure each."""
        taken_branch = 1 / self.figure("taken_branches_per_cycle")
        forward = self.cycles("store_forward_latency_cycles")
        decode, decoded_ways = self.decode()
        derived = {
            "width": exactly(width),
            "refill": np.maximum(self.cycles("branch_miss_cycles") - _RESOLVE_CYCLES, 0),
            "forward": np.maximum(forward, first_latency_cycles + _FORWARD_CYCLES),
            "load_cycles": 1 / self.figure("loads_per_cycle"),
            "store_cycles": 1 / self.figure("stores_per_cycle"),
            "taken_branch": taken_branch,
            "pairs": exactly(float(taken_branch[TYPICAL] < _PAIRS)),
            "decode": decode,
            "decoded_ways": exactly(decoded_ways),
            "in_order": exactly(float(bool(self.core.in_order))),
        }
        names = [name for name, _, _ in _core_model.CORE_FIGURES if name not in OF_MEMORY]
        return {name: derived[name] if name in derived else self.declared(name) for name in names}

    def declared(self, name: str) -> Floats:
        """[3]: a figure by its key, ordered by whether larger or smaller is faster in its unit; a missing figure
        without a default is 0."""
        if name in figures_of_record(Frontend):
            return self.of_frontend(name)
        if name.endswith("_instructions"):
            window = 1.0 if name == "window_instructions" else float(self.declared("window_instructions")[TYPICAL])
            return self.room(name, window)
        return self.cycles(name)

    def of_frontend(self, name: str) -> Floats:
        """Cycles [3] of a front-end figure that is known for few cores."""
        frontend = self.core.frontend
        given: float | None = getattr(frontend, name, None)
        if frontend is None or given is None:
            return exactly(0.0)
        return np.array(measured(given, noise_of(frontend.noise, name), more_is_faster=False))

    def decode(self) -> tuple[Floats, int]:
        """Cycles to decode one instruction outside the micro-op cache, and the ways of that cache."""
        rate, kept = self.core.decode_instructions_per_cycle, self.core.decoded_instructions
        if rate is not None and kept is not None:
            error = 1 + self.noise("decode_instructions_per_cycle")
            decode = np.array([1 / rate / error, 1 / rate, error / rate])
        else:
            default = default_of(Core, "decode_instructions_per_cycle", self.of)
            decode = 1 / np.array(Range.of(default))
            kept = default_of(Core, "decoded_instructions", self.of).typical
            if decode.any():
                most = f"{default.slow:g} instructions decoded a cycle"
                typical = f"{most} assumed" if decode[TYPICAL] else f"no limit of decoders assumed, or {most}"
                text = f"not in the profile, {typical} and the last {kept:g} kept, as of {default.cores or 'any core'}"
                decode = assumed_as(self.notes, "decode_instructions_per_cycle", text, decode)
        ways = round(kept / _core_model.DECODED_SETS / DECODED_AT_ONCE)
        return decode, min(max(ways, 1), _core_model.MAX_DECODED_WAYS)

    def fp_units(self, width: float) -> tuple[Floats, Floats, float]:
        """Cycles of an addition and of a multiplication on their units, and lanes of 64 bits that these have.

        More than two scalar operations a cycle, of additions and multiplications mixed, are two units of each kind;
        up to two are units that do either.
        """
        scalar, peak = self.core.scalar_flops_per_cycle, self.core.peak_flops_per_cycle
        if scalar is None:
            scalar = max(min(2.0, peak or 2.0, width), 0.5)
            self.notes.note("scalar_flops_per_cycle", f"not in the profile, {scalar:g} a cycle assumed")
        apart = scalar > 2.5
        fuses = self.core.fp_fma_latency_cycles is not None and not apart
        lanes = max(round((peak or scalar) / (scalar * (2 if fuses else 1))), 1)
        cycles = exactly(2 / scalar if apart else 1 / scalar)
        return cycles, cycles, float(lanes)

    def add_sooner(self) -> Floats:
        """Cycles by which a floating-point addition gets another one's result sooner than other operations do."""
        add, other = self.core.fp_add_latency_cycles, self.core.fp_add_other_latency_cycles
        return exactly(max(other - add, 0.0) if add is not None and other is not None else 0.0)

    def shuffles(self) -> Floats:
        """Latency, cycles [3], of a shuffle or comparison that was not measured."""
        default = defaults.FP_OTHER
        text = f"not in the profile, {default.range_text} cycles assumed"
        return assumed_as(self.notes, "fp_shuffle", text, np.array(Range.of(default)))

    def latencies(self, shuffle: OperationCost | None) -> dict[Kind, Floats]:
        """Result latency by kind for any other operation; without the kinds in `_PARTS`, loads and stores."""
        add = self.cycles("fp_add_latency_cycles")
        multiply = self.cycles("fp_mul_latency_cycles")
        given = self.core
        fma = given.fp_fma_latency_cycles
        divide = self.cycles("fp_div_latency_cycles")
        root = given.fp_sqrt_latency_cycles
        int_mul = self.cycles("int_mul_latency_cycles")
        int_div = self.cycles("int_div_latency_cycles")
        return {
            Kind.INT_ALU: exactly(1.0),
            Kind.INT_MUL: int_mul,
            Kind.INT_DIV: int_div,
            Kind.FP_ADD: add + self.add_sooner(),
            Kind.FP_MUL: multiply,
            Kind.FP_FMA: exactly(fma) if fma else np.maximum(add, multiply),
            Kind.FP_DIV: divide,
            Kind.FP_SQRT: exactly(root) if root else divide * np.array([1.0, 1.4, 2.0]),
            Kind.FP_OTHER: exactly(shuffle.latency_cycles)
            if shuffle and shuffle.latency_cycles
            else self.shuffles(),
            Kind.VECTOR_INT: self.cycles("vector_int_latency_cycles"),
            Kind.MOVE: exactly(0.0),
            Kind.AES_MIX: exactly(0.0),
            Kind.BRANCH: exactly(1.0),
            Kind.CALL: exactly(1.0),
            Kind.RETURN: exactly(1.0),
            Kind.OTHER: exactly(1.0),
            Kind.UNKNOWN: exactly(1.0),
        }  # fmt: skip
