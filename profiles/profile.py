"""A machine profile: what a machine can do, as typed records. It knows of no program.

Figures nobody published are None: the model says what it assumed in their place.
"""

from __future__ import annotations

import itertools
from enum import StrEnum

from msgspec import Struct

from foretrace.cache_sim.level import Inclusion, Replacement

from .points import (
    ArrayCost,
    IdiomRate,
    IndexMode,
    LatencyQuantile,
    LinearCost,
    MessagePoint,
    OperationCost,
    PrefetchPoint,
    SurfacePoint,
    ThreadPoint,
    Tlb,
)


class MachineKind(StrEnum):
    """What a profile describes."""

    HOST = "host"
    ACCELERATOR = "accelerator"


class SourceKind(StrEnum):
    """Where a figure comes from."""

    PAPER = "paper"
    VENDOR = "vendor"
    MEASURED = "measured"
    DERIVED = "derived"  # computed from other published figures; the citation says how


class Pattern(StrEnum):
    """Order of the accesses that a bandwidth was measured with."""

    SEQUENTIAL = "sequential"
    RANDOM = "random"


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """Where figures come from. `date` is that of the publication or measurement (YYYY, YYYY-MM or YYYY-MM-DD).

    `read_on`: when somebody last opened the source itself and found the figures there. None: nobody of this profile's
    authors did, the figures are from memory or from another's quotation.
    """

    kind: SourceKind
    citation: str
    date: str
    url: str | None = None
    read_on: str | None = None

    @property
    def is_opened(self) -> bool:
        """Whether the figures were compared with the source; what was measured has no other source."""
        return self.read_on is not None or self.kind is SourceKind.MEASURED


class Product(Struct, frozen=True, forbid_unknown_fields=True):
    """The machine as it is sold: the year it came out, and the power its maker designs its cooling for."""

    source: dict[str, str]
    year: int | None = None
    power_w: float | None = None


class Core(Struct, frozen=True, forbid_unknown_fields=True):
    """The processor core. `source` names, for each figure given, its entry in the profile's sources.

    `noise`, here and below: of measured figures, how far apart repeated passes came out.
    """

    source: dict[str, str]
    cores: int | None = None
    clock_hz: float | None = None
    issue_width_instructions_per_cycle: float | None = None
    in_order: bool | None = None  # starts instructions in the program's order; None: as soon as each can
    peak_flops_per_cycle: float | None = None  # double precision, one core, all units busy
    scalar_flops_per_cycle: float | None = None
    # What is reached where instructions wait for others: of all kinds, of integer and of floating-point additions.
    mixed_instructions_per_cycle: float | None = None
    chained_int_adds_per_cycle: float | None = None
    chained_fp_adds_per_cycle: float | None = None
    loads_per_cycle: float | None = None
    stores_per_cycle: float | None = None
    store_lines: float | None = None  # that stores gather in on their way to the nearest cache
    store_line_cycles: float | None = None  # between two stores that begin with another line
    outstanding_misses: float | None = None
    # Most instructions in flight, dispatched and not retired; and of these, most that wait for operands and most that
    # write a register, of integers and of vectors and floating point each, and most that are stores.
    window_instructions: float | None = None
    int_waiting_instructions: float | None = None
    vector_waiting_instructions: float | None = None
    address_waiting_instructions: float | None = None  # loads and stores
    vector_scheduled_instructions: float | None = None  # of those, most that start when their operands are there
    int_writing_instructions: float | None = None
    vector_writing_instructions: float | None = None
    storing_instructions: float | None = None
    loop_cycles: float | None = None  # of an iteration of the shortest loop
    code_lines_per_cycle: float | None = None  # of 64 bytes, in a short loop that reaches into two
    straight_lines_per_cycle: float | None = None  # of code that goes straight on
    line_instructions: float | None = None  # of a line of code that a branch leads to, so many are fetched at once
    line_rest_cycles: float | None = None  # after which the next ones are
    decode_instructions_per_cycle: float | None = None  # of code that is not kept decoded
    decode_switch_cycles: float | None = None  # until such comes behind code that is kept decoded
    decoded_instructions: float | None = None  # so many are kept decoded, of code that runs again and again
    # Latency of a dependent operation, and time between independent ones.
    fp_add_latency_cycles: float | None = None
    fp_add_other_latency_cycles: float | None = None  # the same, where its result goes to anything but an addition
    fp_mul_latency_cycles: float | None = None
    fp_fma_latency_cycles: float | None = None
    fp_div_latency_cycles: float | None = None
    fp_div_interval_cycles: float | None = None
    int_div_interval_cycles: float | None = None
    fp_sqrt_latency_cycles: float | None = None
    fp_sqrt_interval_cycles: float | None = None
    int_mul_latency_cycles: float | None = None
    int_div_latency_cycles: float | None = None
    int_adds_per_cycle: float | None = None  # independent ones
    moved_adds_per_cycle: float | None = None  # a move and an addition to what it moved, with a load beside them
    branch_miss_cycles: float | None = None
    taken_branches_per_cycle: float | None = None  # of a predicted, unconditional kind
    untaken_branches_per_cycle: float | None = None  # each with a comparison of its own
    call_return_cycles: float | None = None  # of a call and the return from it, with nothing between them
    several_targets_cycles: float | None = None  # of a predicted jump through a register that goes to several places
    # A store and the load that reads it back, both in a dependency chain: from the one's data to the other's.
    store_forward_latency_cycles: float | None = None  # in integer registers
    fp_store_forward_latency_cycles: float | None = None
    blocked_forward_latency_cycles: float | None = None  # the same, of a load that reads more than the store wrote
    # An addition of floating point and a comparison, or a conversion to an integer: many such in turns.
    fp_add_compare_cycles: float | None = None
    fp_add_convert_cycles: float | None = None
    scaled_load_latency_cycles: float | None = None  # of a dependent load by a multiple of a register, nearest cache
    fp_load_latency_cycles: float | None = None  # of a dependent load into a floating-point register, nearest cache
    register_crossing_cycles: float | None = None  # a value's way between integer and floating-point registers
    register_crossing_interval_cycles: float | None = None  # between independent ones, there and back in turns
    vector_int_latency_cycles: float | None = None  # of an addition of integer vectors
    python_block_s: float | None = None  # one line of plain numbers in the Python interpreter
    python_line_s: float | None = None  # one of foretrace/python_line.py
    python_call_s: float | None = None  # one array operation's fixed cost
    noise: dict[str, float] | None = None


class CacheLevel(Struct, frozen=True, forbid_unknown_fields=True):
    """One data cache level. `ways` and `line_bytes` are None where nobody published them, `replacement` and `inclusion`
    (relation to the levels inside) where LRU and none are to be taken.

    `effective_size_bytes` is what dependent loads of one core get of it, as measured: in a virtual machine, or with
    busy neighbours, less than `size_bytes`, which is the hardware's. `effective_stream_size_bytes` is what streams get,
    which bring lines in as fast as a core can: the most that any program holds. None: not measured, or not less.
    `line_lifetime_s` is after how long half of the lines are gone that nobody uses, by what others bring in.
    """

    name: str
    size_bytes: int
    source: dict[str, str]
    ways: int | None = None
    line_bytes: int | None = None
    shared_by_cores: int | None = None
    replacement: Replacement | None = None
    inclusion: Inclusion | None = None
    latency_s: float | None = None  # of a dependent load that hits here
    effective_size_bytes: int | None = None
    effective_stream_size_bytes: int | None = None
    line_lifetime_s: float | None = None
    noise: dict[str, float] | None = None


class Memory(Struct, frozen=True, forbid_unknown_fields=True):
    """Main memory, of one socket or node.

    `page_bytes` is the usual page of the system, `huge_page_bytes` the next larger one; `default_page_bytes` says which
    of the two a large array lies in when its program does not ask. The first store to a page of new memory costs
    `first_touch_page_s` (usual page) or `first_touch_huge_page_s`: the page fault, clearing the page, and giving it
    back in the end. Of streams out of main memory, and others beside them, `lines_ahead` are fetched ahead, of all
    together; a line out of a nearer cache counts as `near_line_places` of them.
    """

    source: dict[str, str]
    size_bytes: int | None = None
    latency_s: float | None = None
    peak_bandwidth_bytes_per_s: float | None = None
    core_read_bandwidth_bytes_per_s: float | None = None  # one core alone
    core_write_bandwidth_bytes_per_s: float | None = None  # bytes stored, whatever the caches read for it
    core_copy_bandwidth_bytes_per_s: float | None = None  # bytes loaded and bytes stored
    sustained_bandwidth_bytes_per_s: float | None = None  # all cores together, as STREAM or the like measures it
    page_bytes: int | None = None
    huge_page_bytes: int | None = None
    default_page_bytes: int | None = None
    first_touch_page_s: float | None = None
    first_touch_huge_page_s: float | None = None
    lines_ahead: float | None = None
    near_line_places: float | None = None
    noise: dict[str, float] | None = None


class BandwidthPoint(Struct, frozen=True, forbid_unknown_fields=True):
    """A measured point of the MultiMAPS surface: bandwidth of loads over a working set, in one pattern.

    `access_bytes` is the size of each access: random points transfer only these of each line.
    """

    working_set_bytes: int
    pattern: Pattern
    access_bytes: int
    bandwidth_bytes_per_s: float
    source: str
    noise: float | None = None


class LatencyPoint(Struct, frozen=True, forbid_unknown_fields=True):
    """Time of one dependent load (pointer chase) over a working set, which lies in pages of `page_bytes`.

    None: in those that a program gets by default.
    """

    working_set_bytes: int
    latency_s: float
    source: str
    noise: float | None = None
    page_bytes: int | None = None


class CurvePiece(Struct, frozen=True, forbid_unknown_fields=True):
    """Bandwidth over address range, for from_bytes <= range < to_bytes (None: no end): intercept + slope x range."""

    from_bytes: int
    intercept_bytes_per_s: float
    slope_bytes_per_s_per_byte: float
    source: str
    to_bytes: int | None = None

    def covers(self, range_bytes: int) -> bool:
        """Whether the piece tells the bandwidth at this address range."""
        return self.from_bytes <= range_bytes and (self.to_bytes is None or range_bytes < self.to_bytes)

    def bandwidth_bytes_per_s(self, range_bytes: int) -> float:
        """Bandwidth at an address range that the piece covers."""
        return self.intercept_bytes_per_s + self.slope_bytes_per_s_per_byte * range_bytes


class CurvePoint(Struct, frozen=True, forbid_unknown_fields=True):
    """A measured point of a gather/scatter curve."""

    range_bytes: int
    bandwidth_bytes_per_s: float
    noise: float | None = None


class GatherScatterCurve(Struct, frozen=True, forbid_unknown_fields=True):
    """Gather/scatter bandwidth as a function of the address range (Carrington et al., ICS'11, equations 2 to 4).

    `operations`: "gather" (B[i] = A[index[i]]), "scatter" (A[index[i]] = B[i]), "update" (A[index[i]] += B[i]). As in
    equation 2, bandwidth counts every memory reference of the loop: the elements gathered or scattered (an update's
    twice), their indices and the dense array. Below `minimum_range_bytes` an accelerator is not used; None: it is used
    wherever it is faster.

    Published curves have `pieces`, in ascending order and adjoining; measured ones have two or more `points`, straight
    lines between them, and nothing beyond. `index_mode` None: the same for all; `element_bytes` None: 8. With `threads`
    above 1 the bandwidth is of all together, each with a range of its own.
    """

    operations: tuple[str, ...]
    source: str
    pieces: tuple[CurvePiece, ...] = ()
    points: tuple[CurvePoint, ...] = ()
    minimum_range_bytes: int | None = None
    index_mode: IndexMode | None = None
    element_bytes: int | None = None
    threads: int | None = None

    @property
    def segments(self) -> tuple[CurvePiece, ...]:
        """The curve as pieces, whichever way it is given."""
        return self.pieces or tuple(
            _line(left, right, self.source, last=right is self.points[-1])
            for left, right in itertools.pairwise(self.points)
        )

    def piece_at(self, range_bytes: int) -> CurvePiece | None:
        """The piece that covers an address range, or None where nobody published or measured one."""
        return next((piece for piece in self.segments if piece.covers(range_bytes)), None)

    def bandwidth_bytes_per_s(self, range_bytes: int) -> float | None:
        """Bandwidth at an address range, or None outside of all pieces."""
        piece = self.piece_at(range_bytes)
        return None if piece is None else piece.bandwidth_bytes_per_s(range_bytes)


def _line(left: CurvePoint, right: CurvePoint, source: str, *, last: bool) -> CurvePiece:
    slope = (right.bandwidth_bytes_per_s - left.bandwidth_bytes_per_s) / (right.range_bytes - left.range_bytes)
    return CurvePiece(
        from_bytes=left.range_bytes,
        to_bytes=right.range_bytes + 1 if last else right.range_bytes,
        intercept_bytes_per_s=left.bandwidth_bytes_per_s - slope * left.range_bytes,
        slope_bytes_per_s_per_byte=slope,
        source=source,
    )


class Link(Struct, frozen=True, forbid_unknown_fields=True):
    """How an accelerator reaches the host's memory. A shared memory needs no transfers."""

    source: dict[str, str]
    shared_memory: bool
    launch_s: float | None = None
    to_device_bytes_per_s: float | None = None
    from_device_bytes_per_s: float | None = None
    transfer_latency_s: float | None = None
    noise: dict[str, float] | None = None


class Network(Struct, frozen=True, forbid_unknown_fields=True):
    """How processes exchange messages, as MPI gives it. Above `eager_threshold_bytes` a send waits for its receive."""

    source: dict[str, str]
    latency_s: float | None = None  # of the shortest message, one way
    bandwidth_bytes_per_s: float | None = None  # of long messages, one way
    eager_threshold_bytes: int | None = None
    send_overhead_s: float | None = None  # time of the sender's processor for a short message
    receive_overhead_s: float | None = None
    noise: dict[str, float] | None = None


SCHEMA = "foretrace.profile/1"
"""Version 1 is the first; a reader refuses what it does not know."""


class Profile(Struct, frozen=True, forbid_unknown_fields=True):
    """A machine. `sources` maps the short names used throughout to citations; `notes` says what a reader must know.

    `instruction_set` is what its cores run, named as by QEMU: "x86_64", "aarch64", "riscv64", "ppc64". `partial` is
    true where a measurement was interrupted: what was not measured by then is missing or uncertain. `unstable` names
    the measured figures that another run need not agree on.
    """

    schema: str
    name: str
    title: str
    kind: MachineKind
    date: str
    sources: dict[str, Source]
    instruction_set: str | None = None
    product: Product | None = None
    core: Core | None = None
    caches: tuple[CacheLevel, ...] = ()
    memory: Memory | None = None
    bandwidth: tuple[BandwidthPoint, ...] = ()
    latency: tuple[LatencyPoint, ...] = ()
    gather_scatter: tuple[GatherScatterCurve, ...] = ()
    operations: tuple[OperationCost, ...] = ()
    array_costs: tuple[ArrayCost, ...] = ()
    linear_algebra: tuple[LinearCost, ...] = ()
    surface: tuple[SurfacePoint, ...] = ()
    tlbs: tuple[Tlb, ...] = ()
    latency_quantiles: tuple[LatencyQuantile, ...] = ()
    prefetch: tuple[PrefetchPoint, ...] = ()
    thread_bandwidth: tuple[ThreadPoint, ...] = ()
    idiom_rates: tuple[IdiomRate, ...] = ()
    link: Link | None = None
    network: Network | None = None
    messages: tuple[MessagePoint, ...] = ()
    partial: bool | None = None
    unstable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    metadata: dict[str, str] | None = None  # of a measurement: CPU, kernel, compiler, flags

    def latencies(self, page_bytes: int | None = None) -> tuple[LatencyPoint, ...]:
        """The points of dependent loads with pages of one size; None: with those that a program gets by default."""
        default = (self.memory.default_page_bytes or self.memory.page_bytes) if self.memory else None
        default = default or min((p.page_bytes for p in self.latency if p.page_bytes is not None), default=None)
        wanted = default if page_bytes is None else page_bytes
        return tuple(p for p in self.latency if (default if p.page_bytes is None else p.page_bytes) == wanted)

    def gather_scatter_curve(
        self, operation: str, index_mode: IndexMode = IndexMode.RANDOM, *, element_bytes: int = 8, threads: int = 1
    ) -> GatherScatterCurve | None:
        """The curve of an operation: that of the index mode, else one for all modes; None where there is none."""
        fitting = [
            c
            for c in self.gather_scatter
            if operation in c.operations and (c.element_bytes or 8) == element_bytes and (c.threads or 1) == threads
        ]
        exact = [c for c in fitting if c.index_mode is index_mode]
        return next(iter(exact or [c for c in fitting if c.index_mode is None]), None)
