"""A machine profile: what a machine can do, as typed records. It knows of no program.

Figures nobody published are None: the model says what it assumed in their place.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from foretrace.cache_sim.level import Inclusion, Replacement


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
    """Where figures come from. `date` is that of the publication or measurement (YYYY, YYYY-MM or YYYY-MM-DD)."""

    kind: SourceKind
    citation: str
    date: str


class Core(Struct, frozen=True, forbid_unknown_fields=True):
    """The processor core. `source` names, for each figure given, its entry in the profile's sources."""

    source: dict[str, str]
    cores: int | None = None
    clock_hz: float | None = None
    issue_width_instructions_per_cycle: float | None = None
    peak_flops_per_cycle: float | None = None  # double precision, one core, all units busy
    scalar_flops_per_cycle: float | None = None
    loads_per_cycle: float | None = None
    stores_per_cycle: float | None = None
    outstanding_misses: float | None = None
    # Latency of a dependent operation, and time between independent ones.
    fp_add_latency_cycles: float | None = None
    fp_mul_latency_cycles: float | None = None
    fp_fma_latency_cycles: float | None = None
    fp_div_latency_cycles: float | None = None
    fp_div_interval_cycles: float | None = None
    int_div_interval_cycles: float | None = None
    branch_miss_cycles: float | None = None
    python_block_s: float | None = None  # one line-block of the Python interpreter
    python_call_s: float | None = None  # one array operation's fixed cost


class CacheLevel(Struct, frozen=True, forbid_unknown_fields=True):
    """One data cache level. `ways` and `line_bytes` are None where nobody published them, `replacement` and `inclusion`
    (relation to the levels inside) where LRU and none are to be taken."""

    name: str
    size_bytes: int
    source: dict[str, str]
    ways: int | None = None
    line_bytes: int | None = None
    shared_by_cores: int | None = None
    replacement: Replacement | None = None
    inclusion: Inclusion | None = None
    latency_s: float | None = None  # of a dependent load that hits here


class Memory(Struct, frozen=True, forbid_unknown_fields=True):
    """Main memory, of one socket or node."""

    source: dict[str, str]
    size_bytes: int | None = None
    latency_s: float | None = None
    peak_bandwidth_bytes_per_s: float | None = None
    core_read_bandwidth_bytes_per_s: float | None = None  # one core alone
    page_bytes: int | None = None


class BandwidthPoint(Struct, frozen=True, forbid_unknown_fields=True):
    """A measured point of the MultiMAPS surface: bandwidth of loads over a working set, in one pattern.

    `access_bytes` is the size of each access: random points transfer only these of each line. `noise` is the relative
    spread of repeated measurements, None where unknown.
    """

    working_set_bytes: int
    pattern: Pattern
    access_bytes: int
    bandwidth_bytes_per_s: float
    source: str
    noise: float | None = None


class LatencyPoint(Struct, frozen=True, forbid_unknown_fields=True):
    """Time of one dependent load (pointer chase) over a working set."""

    working_set_bytes: int
    latency_s: float
    source: str
    noise: float | None = None


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


class GatherScatterCurve(Struct, frozen=True, forbid_unknown_fields=True):
    """Gather/scatter bandwidth as a function of the address range (Carrington et al., ICS'11, equations 2 to 4).

    `operations`: "gather", "scatter". Below `minimum_range_bytes` an accelerator is not used; None: it is used wherever
    it is faster. As in equation 2, bandwidth counts every memory reference of the loop: the elements gathered or
    scattered, their indices and the dense array. The pieces are in ascending order and adjoin.
    """

    operations: tuple[str, ...]
    pieces: tuple[CurvePiece, ...]
    source: str
    minimum_range_bytes: int | None = None

    def piece_at(self, range_bytes: int) -> CurvePiece | None:
        """The piece that covers an address range, or None where nobody published or measured one."""
        return next((piece for piece in self.pieces if piece.covers(range_bytes)), None)

    def bandwidth_bytes_per_s(self, range_bytes: int) -> float | None:
        """Bandwidth at an address range, or None outside of all pieces."""
        piece = self.piece_at(range_bytes)
        return None if piece is None else piece.bandwidth_bytes_per_s(range_bytes)


class Link(Struct, frozen=True, forbid_unknown_fields=True):
    """How an accelerator reaches the host's memory. A shared memory needs no transfers."""

    source: dict[str, str]
    shared_memory: bool
    launch_s: float | None = None
    to_device_bytes_per_s: float | None = None
    from_device_bytes_per_s: float | None = None
    transfer_latency_s: float | None = None


SCHEMA = "foretrace.profile/1"
"""Version 1 is the first; a reader refuses what it does not know."""


class Profile(Struct, frozen=True, forbid_unknown_fields=True):
    """A machine. `sources` maps the short names used throughout to citations; `notes` says what a reader must know.

    `instruction_set` is what its cores run, named as by QEMU: "x86_64", "aarch64", "riscv64", "ppc64".
    """

    schema: str
    name: str
    title: str
    kind: MachineKind
    date: str
    sources: dict[str, Source]
    instruction_set: str | None = None
    core: Core | None = None
    caches: tuple[CacheLevel, ...] = ()
    memory: Memory | None = None
    bandwidth: tuple[BandwidthPoint, ...] = ()
    latency: tuple[LatencyPoint, ...] = ()
    gather_scatter: tuple[GatherScatterCurve, ...] = ()
    link: Link | None = None
    notes: tuple[str, ...] = ()
    metadata: dict[str, str] | None = None  # of a measurement: CPU, kernel, compiler, flags
