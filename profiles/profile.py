"""A machine profile: what a machine can do, as typed records. It knows of no program.

Figures nobody published are None: the model says what it assumed in their place. Each field is the figure's only
declaration (`figure.py`), which makes this module long: it is a list, a line or two for each.
"""

from __future__ import annotations

import itertools
from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from foretrace.cache_sim.base.level import Inclusion, Replacement

from . import defaults
from .accelerator import AcceleratorTable
from .figure import Figure
from .points import (
    ArrayCost,
    IdiomRate,
    IndexMode,
    LinearCost,
    MessagePoint,
    OperationCost,
    PrefetchPoint,
    SurfacePoint,
    ThreadPoint,
    Tlb,
)


class MachineKind(StrEnum):
    """Kind of machine."""

    HOST = "host"
    ACCELERATOR = "accelerator"


class SourceKind(StrEnum):
    """Kind of source."""

    PAPER = "paper"
    VENDOR = "vendor"
    MEASURED = "measured"
    DERIVED = "derived"  # computed from other published figures; the citation says how


class Pattern(StrEnum):
    """Order of the accesses that a bandwidth was measured with."""

    SEQUENTIAL = "sequential"
    RANDOM = "random"


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """A source of figures. `date` is that of the publication or measurement (YYYY, YYYY-MM or YYYY-MM-DD).

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
    year: Annotated[int | None, Figure("in which the machine came out")] = None
    power_w: Annotated[float | None, Figure("power that its maker designs its cooling for")] = None


class Frontend(Struct, frozen=True, forbid_unknown_fields=True):
    """Front-end penalties that only some cores have; none is assumed.

    `source` and `noise` as of the core.
    """

    source: dict[str, str]
    decode_switch_cycles: Annotated[
        float | None, Figure("penalty of switching from the micro-op cache to the decoders")
    ] = None
    noise: dict[str, float] | None = None


class Core(Struct, frozen=True, forbid_unknown_fields=True):
    """The processor core. `source` names, for each figure given, its entry in the profile's sources.

    `noise`, here and below: of measured figures, how far apart repeated passes came out.
    """

    source: dict[str, str]
    cores: Annotated[int | None, Figure("cores of the socket or node")] = None
    clock_hz: Annotated[float | None, Figure("clock of one busy core")] = None
    issue_width_instructions_per_cycle: Annotated[
        float | None, Figure("most instructions started a cycle", defaults.WIDTH)
    ] = None
    in_order: Annotated[
        bool | None,
        Figure("whether instructions start in the program's order; otherwise as soon as their operands are there"),
    ] = None
    peak_flops_per_cycle: Annotated[float | None, Figure("double-precision operations of one core, all units busy")] = (
        None
    )
    scalar_flops_per_cycle: Annotated[
        float | None, Figure("double-precision operations of one core in scalar code")
    ] = None
    loads_per_cycle: Annotated[float | None, Figure("loads", defaults.LOADS)] = None
    stores_per_cycle: Annotated[float | None, Figure("stores", defaults.STORES)] = None
    outstanding_misses: Annotated[
        float | None, Figure("misses of the nearest cache that one core has in flight", defaults.MISSES)
    ] = None
    window_instructions: Annotated[
        float | None, Figure("most instructions in flight: dispatched and not retired", defaults.WINDOW)
    ] = None
    vector_scheduled_instructions: Annotated[
        float | None,
        Figure("of those that wait for vector operands, most that start when these are there", defaults.SCHEDULED),
    ] = None
    storing_instructions: Annotated[float | None, Figure("of those in flight, most stores", defaults.STORING)] = None
    decode_instructions_per_cycle: Annotated[
        float | None, Figure("instructions decoded that are not kept decoded", defaults.DECODE)
    ] = None
    decoded_instructions: Annotated[
        float | None, Figure("instructions that the micro-op cache holds", defaults.KEPT_DECODED)
    ] = None
    fp_add_latency_cycles: Annotated[float | None, Figure("latency of a floating-point addition", defaults.FP_ADD)] = (
        None
    )
    fp_add_other_latency_cycles: Annotated[
        float | None, Figure("latency of a floating-point addition whose result goes to anything but another one")
    ] = None
    fp_mul_latency_cycles: Annotated[
        float | None, Figure("latency of a floating-point multiplication", defaults.FP_MULTIPLY)
    ] = None
    fp_fma_latency_cycles: Annotated[
        float | None, Figure("latency of a fused multiply-add; not given: the core has none")
    ] = None
    fp_div_latency_cycles: Annotated[
        float | None, Figure("latency of a floating-point division", defaults.FP_DIVIDE_LATENCY)
    ] = None
    fp_div_interval_cycles: Annotated[
        float | None, Figure("between independent floating-point divisions", defaults.FP_DIVIDE)
    ] = None
    int_div_interval_cycles: Annotated[
        float | None, Figure("between independent 64-bit integer divisions", defaults.INT_DIVIDE)
    ] = None
    fp_sqrt_latency_cycles: Annotated[float | None, Figure("latency of a square root")] = None
    fp_sqrt_interval_cycles: Annotated[float | None, Figure("between independent square roots")] = None
    int_mul_latency_cycles: Annotated[
        float | None, Figure("latency of an integer multiplication", defaults.INT_MULTIPLY)
    ] = None
    int_div_latency_cycles: Annotated[
        float | None, Figure("latency of a 64-bit integer division", defaults.INT_DIVIDE_LATENCY)
    ] = None
    int_adds_per_cycle: Annotated[float | None, Figure("independent integer additions", defaults.INT_ADDS)] = None
    branch_miss_cycles: Annotated[float | None, Figure("penalty of a mispredicted branch", defaults.BRANCH_MISS)] = None
    taken_branches_per_cycle: Annotated[
        float | None, Figure("predicted unconditional branches", defaults.TAKEN_BRANCHES)
    ] = None
    untaken_branches_per_cycle: Annotated[
        float | None, Figure("branches not taken, each with a comparison of its own")
    ] = None
    store_forward_latency_cycles: Annotated[
        float | None,
        Figure("from a store's data to that of a load that reads it back, in integer registers", defaults.FORWARD),
    ] = None
    register_crossing_cycles: Annotated[
        float | None,
        Figure("a value's way between integer and floating-point registers, or to flags", defaults.CROSSING),
    ] = None
    vector_int_latency_cycles: Annotated[
        float | None, Figure("latency of an addition of integer vectors", defaults.VECTOR_INT)
    ] = None
    line_transfer_latency_s: Annotated[
        float | None, Figure("from a store of one core to a load of another that waits for it", defaults.LINE_TRANSFER)
    ] = None
    thread_wake_latency_s: Annotated[
        float | None,
        Figure(
            "from the system call that wakes a sleeping thread until that thread goes on, on a core of its own",
            defaults.THREAD_WAKE,
        ),
    ] = None
    thread_wake_call_s: Annotated[
        float | None, Figure("the system call that wakes a thread, to the one that calls", defaults.THREAD_WAKE_CALL)
    ] = None
    python_block_s: Annotated[float | None, Figure("a line of plain numbers in the Python interpreter")] = None
    python_line_s: Annotated[float | None, Figure("a line of foretrace/base/python_line.py")] = None
    python_call_s: Annotated[float | None, Figure("fixed cost of an array operation of Python")] = None
    frontend: Frontend | None = None
    noise: dict[str, float] | None = None


class CacheLevel(Struct, frozen=True, forbid_unknown_fields=True):
    """One data cache level. `size_bytes` is the hardware's. In a virtual machine or beside busy neighbours one core
    gets `effective_size_bytes` of it, and streams, the most that any program holds, `effective_stream_size_bytes`."""

    name: str
    size_bytes: Annotated[int, Figure("size")]
    source: dict[str, str]
    ways: Annotated[int | None, Figure("associativity")] = None
    line_bytes: Annotated[int | None, Figure("size of a line")] = None
    shared_by_cores: Annotated[int | None, Figure("cores that share it")] = None
    replacement: Annotated[
        Replacement | None, Figure("which line gives way: lru, plru, fifo or random; not given: lru")
    ] = None
    inclusion: Annotated[
        Inclusion | None,
        Figure("relation to the levels inside: non-inclusive, inclusive or exclusive; not given: non-inclusive"),
    ] = None
    latency_s: Annotated[float | None, Figure("of a dependent load that hits here", defaults.CACHE_LATENCY)] = None
    core_bandwidth_bytes_per_s: Annotated[
        float | None, Figure("lines streamed out of it by one core alone", defaults.CACHE_RATE)
    ] = None
    effective_size_bytes: Annotated[
        int | None, Figure("what dependent loads of one core get of it, where that was measured to be less")
    ] = None
    effective_stream_size_bytes: Annotated[
        int | None, Figure("what streams get of it, which bring lines in as fast as a core can")
    ] = None
    line_lifetime_s: Annotated[
        float | None, Figure("after how long half of the unused lines are evicted by others")
    ] = None
    noise: dict[str, float] | None = None


class Memory(Struct, frozen=True, forbid_unknown_fields=True):
    """Main memory, of one socket or node."""

    source: dict[str, str]
    size_bytes: Annotated[int | None, Figure("size")] = None
    latency_s: Annotated[float | None, Figure("of a dependent load", defaults.MEMORY_LATENCY)] = None
    peak_bandwidth_bytes_per_s: Annotated[float | None, Figure("of the whole socket or node, by its channels")] = None
    core_read_bandwidth_bytes_per_s: Annotated[
        float | None, Figure("read by one core alone", defaults.CORE_BANDWIDTH)
    ] = None
    core_write_bandwidth_bytes_per_s: Annotated[
        float | None,
        Figure("bytes stored by one core alone, whatever the caches read for it", defaults.STORE_BANDWIDTH),
    ] = None
    core_copy_bandwidth_bytes_per_s: Annotated[float | None, Figure("bytes loaded and stored by one core alone")] = None
    stream_lines_in_flight: Annotated[
        float | None,
        Figure(
            "lines of streams that a core and its prefetchers have in flight at most; used where the profile does not "
            "say what one core reads",
            defaults.LINES_IN_FLIGHT,
        ),
    ] = None
    sustained_bandwidth_bytes_per_s: Annotated[
        float | None, Figure("of all cores together, as STREAM or the like measures it")
    ] = None
    page_bytes: Annotated[int | None, Figure("the usual page of the system")] = None
    huge_page_bytes: Annotated[int | None, Figure("the next larger page")] = None
    default_page_bytes: Annotated[
        int | None, Figure("the page that a large array lies in whose program does not ask: one of these two")
    ] = None
    first_touch_page_s: Annotated[
        float | None,
        Figure("first store to a usual page: fault, clearing it, giving it back in the end", defaults.FIRST_TOUCH),
    ] = None
    first_touch_huge_page_s: Annotated[float | None, Figure("first store to a huge page")] = None
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

    @property
    def largest_range_bytes(self) -> int | None:
        """The largest address range that it covers; None: any."""
        last = self.segments[-1].to_bytes if self.segments else 0
        return None if last is None else max(last - 1, 0)

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
    """Link between an accelerator and the host's memory. A shared memory needs no transfers."""

    source: dict[str, str]
    shared_memory: Annotated[bool, Figure("whether accelerator and host share a memory: nothing is transferred")]
    launch_interval_s: Annotated[
        float | None, Figure("between kernels that are queued one behind the other", may_be_zero=True)
    ] = None
    launch_latency_s: Annotated[
        float | None,
        Figure("from the launch of a lone kernel until it is known to be finished", defaults.LAUNCH, may_be_zero=True),
    ] = None
    to_device_bytes_per_s: Annotated[float | None, Figure("transfers to the accelerator")] = None
    from_device_bytes_per_s: Annotated[float | None, Figure("transfers from the accelerator")] = None
    transfer_latency_s: Annotated[float | None, Figure("fixed cost of a transfer", may_be_zero=True)] = None
    noise: dict[str, float] | None = None


class Network(Struct, frozen=True, forbid_unknown_fields=True):
    """Message costs between processes, through MPI."""

    source: dict[str, str]
    latency_s: Annotated[float | None, Figure("of the shortest message, one way", defaults.MESSAGE_LATENCY)] = None
    bandwidth_bytes_per_s: Annotated[float | None, Figure("of long messages, one way", defaults.MESSAGE_BANDWIDTH)] = (
        None
    )
    eager_threshold_bytes: Annotated[
        int | None, Figure("above it a send waits for its receive", defaults.EAGER_THRESHOLD)
    ] = None
    send_overhead_s: Annotated[
        float | None, Figure("of the sender's processor for a short message", defaults.SEND_OVERHEAD)
    ] = None
    receive_overhead_s: Annotated[
        float | None, Figure("of the receiver's processor for a short message", defaults.RECEIVE_OVERHEAD)
    ] = None
    noise: dict[str, float] | None = None


class NodeNetwork(Network, frozen=True, forbid_unknown_fields=True):
    """Message costs between two nodes, through MPI; one switch lies between them."""

    latency_s: Annotated[
        float | None, Figure("of the shortest message, one way through one switch", defaults.NODE_LATENCY)
    ] = None
    bandwidth_bytes_per_s: Annotated[float | None, Figure("of long messages, one way", defaults.NODE_BANDWIDTH)] = None
    hop_latency_s: Annotated[
        float | None, Figure("of each further switch on the way, with its cable", defaults.HOP_LATENCY)
    ] = None


RECORDS = (Product, Core, Frontend, CacheLevel, Memory, Tlb, AcceleratorTable, Link, Network, NodeNetwork)
"""Records of single figures."""

SCHEMA = "foretrace.profile/1"
"""Version 1 is the first; a reader refuses what it does not know."""


class Profile(Struct, frozen=True, forbid_unknown_fields=True):
    """A machine. `sources` maps the short names used throughout to citations; `notes` says what a reader must know.

    `instruction_set` is what its cores run, named as by QEMU: "x86_64", "aarch64", "riscv64", "ppc64";
    `microarchitecture` the design of its cores, by which machines are related: "zen5", "golden-cove". `partial` is true
    where a measurement was interrupted: what was not measured by then is missing or uncertain. `unstable` names the
    measured figures that another run need not agree on.
    """

    schema: str
    name: str
    title: str
    kind: MachineKind
    date: str
    sources: dict[str, Source]
    instruction_set: str | None = None
    microarchitecture: str | None = None
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
    prefetch: tuple[PrefetchPoint, ...] = ()
    thread_bandwidth: tuple[ThreadPoint, ...] = ()
    idiom_rates: tuple[IdiomRate, ...] = ()
    accelerator: AcceleratorTable | None = None
    link: Link | None = None
    network: Network | None = None
    messages: tuple[MessagePoint, ...] = ()
    partial: bool | None = None
    unstable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    metadata: dict[str, str] | None = None  # of a measurement: CPU, kernel, compiler, flags

    def __repr__(self) -> str:
        """One line, not every figure."""
        return f"<{type(self).__name__} {self.name}: {self.title}>"

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
