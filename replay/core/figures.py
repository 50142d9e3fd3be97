"""What the core model needs of a core, from a profile's figures, and what is assumed where it gives none.

Cycles, each as (fast, typical, slow). What is assumed, of which cores and after whom, is in profiles/defaults.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretrace.profiles import defaults
from foretrace.profiles.points import Movement, Operation, OperationCost
from foretrace.profiles.profile import Core, Pattern, Profile
from foretrace.replay.known import KnownCore, core_class, default_of
from foretrace.replay.records import Bound
from foretrace.replay.spread import TYPICAL, Floats, Notes, between, exactly
from foretrace.tracer.signature.records import OperationKind as Kind

from . import _core_model
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
"""Kinds that have a latency of their own, and what a profile calls them."""
_CROSSING = (Kind.FP_COMPARE, Kind.FP_CONVERT)
DIVIDERS = frozenset({Kind.INT_DIV, Kind.FP_DIV, Kind.FP_SQRT})
"""What dividers do."""

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
"""By which a value is read back later than from the cache, at least, where its address must be compared: Zen and Golden
Cove forward a variable of the stack in no time, others in 6 to 8 cycles (Agner Fog, "The microarchitecture of Intel,
AMD and VIA CPUs", sections on store forwarding)."""
_IN_FLIGHT = (
    "int_waiting_instructions",
    "vector_waiting_instructions",
    "address_waiting_instructions",
    "int_writing_instructions",
    "vector_writing_instructions",
    "storing_instructions",
)
"""What a core has room for of each kind, of the instructions in flight."""
_NO_LIMIT = 1024.0
_ASSUMED_ALUS = 4.0
_CONVERT_CYCLES = np.array([0.0, 2.0, 3.0])
"""What a conversion between integer and floating point takes, beside the way between their registers."""
_PAIRS = 2 / 3
"""Cycles of a taken branch, below which two of them are followed at once."""
_VECTOR_BYTES = 16
_RESOLVE_CYCLES = 1.0
"""From when what the calibration's branch waits for is there to its end: each iteration goes on from the value that the
one before made, missed or not, so that the rest of what a miss costs is getting new instructions."""


@dataclass(frozen=True, slots=True, eq=False)
class CoreFigures:
    """Cycles [3] unless said otherwise. `latency` is by kind; `unit_cycles`, by unit, of one operation on one of them.

    `forward` is from a store's data to that of a load that reads it back. `root_cycles` are of a square root on the
    divider. `native_lanes` is how many 64-bit elements a unit takes at once. `scaled` is what a load takes longer whose
    address has a multiple of a register. `call` is of a call or a return; `pairs`: two branches are followed at once if
    each leads to a single line. `decode` is of an instruction that is not in the micro-op cache, which has
    `decoded_ways` for each set of lines, and `decode_switch` until the first of these behind others. `add_sooner`: by
    how much sooner an addition of floating point has the result of another one.
    """

    width: Floats
    window: Floats
    int_waiting: Floats
    vector_waiting: Floats
    addresses: Floats
    scheduled: Floats
    int_results: Floats
    vector_results: Floats
    stores: Floats
    refill: Floats
    forward: Floats
    vector_load: Floats
    crossing: Floats
    scaled: Floats
    blocked: Floats
    taken_branch: Floats
    call: Floats
    several_targets: Floats
    decode: Floats
    decode_switch: Floats
    decoded_ways: int
    pairs: bool
    load: Floats
    store: Floats
    vector_load_cycles: Floats
    vector_store_cycles: Floats
    wide_load_cycles: Floats  # of 64 bytes
    wide_store_cycles: Floats
    vector_int_cycles: Floats
    shuffle_cycles: Floats
    add_sooner: Floats
    latency: dict[Kind, Floats]
    unit_cycles: tuple[Floats, ...]
    root_cycles: Floats
    native_lanes: float
    in_order: bool


def core_figures(profile: Profile, core: Core, first_latency_cycles: float, notes: Notes) -> CoreFigures:
    """The figures of a profile's core whose nearest cache answers in `first_latency_cycles`."""
    source = _Source(core, core_class(profile), notes)
    width = float(source.figure("issue_width_instructions_per_cycle")[TYPICAL])
    window = source.window()
    int_waiting, vector_waiting, address_waiting, int_writing, vector_writing, storing = source.in_flight(window)
    decode, decoded_ways = source.decode()
    miss = source.cycles("branch_miss_cycles")
    adds, multiplies, lanes = source.fp_units(width)
    div = source.cycles("fp_div_interval_cycles")
    root = core.fp_sqrt_interval_cycles
    forward = source.cycles("store_forward_latency_cycles")
    load = 1 / source.figure("loads_per_cycle")
    store = 1 / source.figure("stores_per_cycle")
    taken_branch = 1 / source.figure("taken_branches_per_cycle")
    several_targets = source.cycles("several_targets_cycles")
    int_div = source.cycles("int_div_interval_cycles")
    shuffle = _cost(profile, Operation.FP_SHUFFLE, elements=2)
    crossing = source.cycles("register_crossing_cycles")
    int_adds = source.int_adds(width)
    of_ints = source.reached("chained_int_adds_per_cycle", float(int_adds[TYPICAL]))
    of_vectors = source.reached("chained_fp_adds_per_cycle", float(1 / adds[TYPICAL]))
    branches = core.untaken_branches_per_cycle
    multiply = _cost(profile, Operation.INT_MUL)
    int_mul = multiply.interval_cycles if multiply else None
    vector_load = _published(core.vector_loads_per_cycle, np.maximum(load, _vector_load_cycles(profile, core)))
    vector_store = _published(core.vector_stores_per_cycle, np.maximum(store, _vector_store_cycles(profile, core)))
    return CoreFigures(
        width=width * source.reached("mixed_instructions_per_cycle", width),
        window=window,
        int_waiting=int_waiting,
        vector_waiting=vector_waiting,
        addresses=address_waiting,
        scheduled=source.scheduled(vector_waiting),
        int_results=int_writing,
        vector_results=vector_writing,
        stores=storing,
        refill=np.maximum(miss - _RESOLVE_CYCLES, 0),
        forward=np.maximum(forward, first_latency_cycles + _FORWARD_CYCLES),
        vector_load=source.beyond("fp_load_latency_cycles", first_latency_cycles),
        crossing=crossing,
        scaled=source.beyond("scaled_load_latency_cycles", first_latency_cycles),
        blocked=source.beyond("blocked_forward_latency_cycles", first_latency_cycles),
        taken_branch=taken_branch,
        decode=decode,
        decode_switch=source.decode_switch(),
        decoded_ways=decoded_ways,
        call=source.call(taken_branch),
        several_targets=np.maximum(several_targets, taken_branch),
        pairs=bool(taken_branch[TYPICAL] < _PAIRS),
        load=load,
        store=store,
        vector_load_cycles=vector_load,
        vector_store_cycles=vector_store,
        wide_load_cycles=_published(core.wide_loads_per_cycle, vector_load),
        wide_store_cycles=_published(core.wide_stores_per_cycle, vector_store),
        vector_int_cycles=_vector_int_cycles(profile, adds) / of_vectors,
        shuffle_cycles=(exactly(shuffle.interval_cycles) if shuffle and shuffle.interval_cycles else adds) / of_vectors,
        add_sooner=source.add_sooner(),
        latency=source.latencies(shuffle) | _part_latencies(profile, crossing, notes),
        unit_cycles=(
            1 / int_adds / of_ints,
            exactly(1.0) if int_mul is None else exactly(int_mul) / of_ints,
            int_div,
            adds / of_vectors,
            multiplies / of_vectors,
            div,
            adds / of_vectors,
            0.5 / of_ints if branches is None else exactly(1 / branches),
        ),
        root_cycles=exactly(root) if root else div * np.array([1.0, 1.5, 2.0]),
        native_lanes=lanes,
        in_order=bool(core.in_order),
    )


def _cost(profile: Profile, operation: Operation, elements: int = 1, bits: int = 64) -> OperationCost | None:
    costs = (c for c in profile.operations if (c.operation, c.element_bits, c.elements) == (operation, bits, elements))
    return next(costs, None)


def _part_latencies(profile: Profile, crossing: Floats, notes: Notes) -> dict[Kind, Floats]:
    """Of the kinds that only some units do, beside their crossing; as an integer operation or a comparison where the
    profile does not tell them."""
    found, missing = {}, []
    for kind, operation in _PARTS.items():
        cost = _cost(profile, operation)
        if cost is not None and cost.latency_cycles is not None:
            latency = exactly(cost.latency_cycles)
            found[kind] = np.maximum(latency - crossing, 1.0) if kind in _CROSSING else latency
        elif kind is Kind.FP_CONVERT:
            found[kind] = 1 + _CONVERT_CYCLES
        else:
            found[kind] = exactly(1.0)
        if cost is None:
            missing.append(str(operation))
    control = _cost(profile, Operation.FP_CONTROL)
    found[Kind.FP_CONTROL] = exactly((control.latency_cycles or 1.0) if control else 1.0)
    if control is None:
        missing.append(str(Operation.FP_CONTROL))
    if missing:
        notes.add("kinds", f"{', '.join(missing)} not in the profile, as other operations of their units")
    return found


def _published(per_cycle: float | None, otherwise: Floats) -> Floats:
    """Cycles of a unit, by one of so many a cycle."""
    return otherwise if per_cycle is None else exactly(1 / per_cycle)


def _vector_load_cycles(profile: Profile, core: Core) -> float:
    """Of a load unit, by a load of a vector: as measured over sets in the nearest cache; 0 where that was not."""
    size = profile.caches[0].size_bytes if profile.caches else 0
    found = [
        p.access_bytes / p.bandwidth_bytes_per_s * (core.clock_hz or 0)
        for p in profile.bandwidth
        if p.pattern is Pattern.SEQUENTIAL and p.access_bytes == _VECTOR_BYTES and p.working_set_bytes <= size
    ]
    return min(found, default=0.0)


def _vector_store_cycles(profile: Profile, core: Core) -> float:
    """The same of a store."""
    found = [
        p.access_bytes / p.bandwidth_bytes_per_s * (core.clock_hz or 0)
        for p in profile.surface
        if p.movement is Movement.STORE and p.access_bytes >= _VECTOR_BYTES and p.hit_rates[:1] == (1.0,)
    ]
    return min(found, default=0.0)


def _vector_int_cycles(profile: Profile, adds: Floats) -> Floats:
    """Of a unit of integer vectors: that of an addition, measured; else as of floating-point additions."""
    for cost in profile.operations:
        if cost.operation is Operation.INT_ADD and cost.elements > 1 and cost.interval_cycles:
            return exactly(cost.interval_cycles)
    return adds


class _Source(KnownCore):
    """What a profile tells of a core, put together."""

    def int_adds(self, width: float) -> Floats:
        """Integer operations a cycle: of what is assumed, typically no more than four."""
        adds = self.figure("int_adds_per_cycle", width)
        if self.given("int_adds_per_cycle") is None:
            adds[TYPICAL] = min(adds[TYPICAL], _ASSUMED_ALUS)
        return adds

    def decode(self) -> tuple[Floats, int]:
        """Cycles of one instruction that is not among the last ones decoded, and the ways that hold these."""
        rate, kept = self.core.decode_instructions_per_cycle, self.core.decoded_instructions
        if rate is not None and kept is not None:
            error = 1 + self.noise("decode_instructions_per_cycle")
            decode = np.array([1 / rate / error, 1 / rate, error / rate])
        else:
            default = default_of(Core, "decode_instructions_per_cycle", self.of)
            decode = 1 / np.array([default.fast, default.typical, default.slow])
            kept = default_of(Core, "decoded_instructions", self.of).typical
            if decode.any():
                most = f"{default.slow:g} instructions decoded a cycle"
                typical = f"{most} assumed" if decode[TYPICAL] else f"no limit of decoders assumed, or {most}"
                self.notes.add(
                    "decode_instructions_per_cycle",
                    f"not in the profile, {typical} and the last {kept:g} kept, as of {default.cores or 'any core'}",
                )
        ways = round(kept / _core_model.DECODED_SETS / DECODED_AT_ONCE)
        return decode, min(max(ways, 1), _core_model.MAX_DECODED_WAYS)

    def decode_switch(self) -> Floats:
        """Cycles until something is decoded behind what already was; 0 where that was not measured."""
        frontend = self.core.frontend
        if frontend is None or frontend.decode_switch_cycles is None:
            return exactly(0.0)
        given = frontend.decode_switch_cycles
        error = 1 + self.noise_of(frontend.noise, "decode_switch_cycles")
        return np.array([given / error, given, given * error])

    def reached(self, field: str, rate: float) -> Floats:
        """Of a rate of some units, or of the width, what code reaches that uses several of them."""
        given = self.given(field)
        if given is None:
            default = default_of(Core, field, self.of)
            return np.array([default.fast, default.typical, default.slow])
        return np.array([1.0, min(given / rate, 1.0), min(given / rate / (1 + self.noise(field)), 1.0)])

    def call(self, taken_branch: Floats) -> Floats:
        """Cycles between a call, or a return, and what it leads to: where that was not measured, two taken branches."""
        given = self.core.call_return_cycles
        return np.asarray(2 * taken_branch if given is None else np.maximum(taken_branch, given / 2), np.float64)

    def window(self) -> Floats:
        """Instructions in flight."""
        return exactly(_NO_LIMIT) if self.core.in_order else self.room("window_instructions")

    def in_flight(self, window: Floats) -> list[Floats]:
        """Of the instructions in flight, most that wait for operands, of integers and of vectors, and for an address;
        most that write a register, of integers and of vectors; and most that are stores."""
        if self.core.in_order:
            # A load goes on behind which others start: what limits such a core is the first use.
            none = exactly(_NO_LIMIT)
            return [exactly(1.0), exactly(1.0), none, none, none, self.room("storing_instructions")]
        return [self.room(field, float(window[TYPICAL])) for field in _IN_FLIGHT]

    def scheduled(self, waiting: Floats) -> Floats:
        """Of the vectors that wait for operands, most that can start."""
        name = "vector_scheduled_instructions"
        if self.core.in_order:
            return waiting
        found = self.room(name, waiting)
        return found if self.given(name) is None else np.minimum(waiting, found)

    def beyond(self, name: str, first_latency_cycles: float) -> Floats:
        """What a latency is more than that of the nearest cache."""
        given = self.given(name)
        if given is None:
            return self.assumed(name)
        error = given * self.noise(name)
        least, typical, most = (max(given + e - first_latency_cycles, 0.0) for e in (-error, 0.0, error))
        return between(least, typical, most)

    def fp_units(self, width: float) -> tuple[Floats, Floats, float]:
        """Cycles of an addition and of a multiplication on their units, and lanes of 64 bits that these have.

        More than two scalar operations a cycle, of additions and multiplications mixed, are two units of each kind;
        up to two are units that do either.
        """
        scalar, peak = self.core.scalar_flops_per_cycle, self.core.peak_flops_per_cycle
        if scalar is None:
            scalar = max(min(2.0, peak or 2.0, width), 0.5)
            self.notes.add("scalar_flops_per_cycle", f"not in the profile, {scalar:g} a cycle assumed")
        apart = scalar > 2.5
        fuses = self.core.fp_fma_latency_cycles is not None and not apart
        lanes = max(round((peak or scalar) / (scalar * (2 if fuses else 1))), 1)
        cycles = exactly(2 / scalar if apart else 1 / scalar)
        return cycles, cycles, float(lanes)

    def add_sooner(self) -> Floats:
        """By which an addition of floating point has the result of another one before other operations have it."""
        add, other = self.core.fp_add_latency_cycles, self.core.fp_add_other_latency_cycles
        return exactly(max(other - add, 0.0) if add is not None and other is not None else 0.0)

    def shuffles(self) -> Floats:
        """Of a shuffle or comparison that was not measured."""
        default = defaults.FP_OTHER
        self.notes.add("fp_shuffle", f"not in the profile, {default.range_text} cycles assumed")
        return np.array([default.fast, default.typical, default.slow])

    def latencies(self, shuffle: OperationCost | None) -> dict[Kind, Floats]:
        """Of a result, for any other operation; but for those of parts, and loads and stores."""
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
            Kind.BRANCH: exactly(1.0),
            Kind.CALL: exactly(1.0),
            Kind.RETURN: exactly(1.0),
            Kind.OTHER: exactly(1.0),
            Kind.UNKNOWN: exactly(1.0),
        }  # fmt: skip
