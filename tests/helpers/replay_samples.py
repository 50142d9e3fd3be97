"""Small signatures and profiles, made by hand, for the tests of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.profiles.profile import (
    SCHEMA,
    BandwidthPoint,
    CacheLevel,
    Core,
    CurvePiece,
    GatherScatterCurve,
    LatencyPoint,
    Link,
    MachineKind,
    Memory,
    Pattern,
    Profile,
    Source,
    SourceKind,
)
from foretrace.tracer.signature.records import (
    Block,
    Idiom,
    IdiomKind,
    InterpreterTime,
    Loop,
    MemoryOperation,
    OperationCount,
    OperationKind,
    Provenance,
    Signature,
    SimulatedHierarchy,
)

CACHES = Hierarchy.parse("L1=1K/2/64,L2=8K/4/64", name="tiny")
SOURCES = {"here": Source(SourceKind.MEASURED, "measured for a test", "2020")}
PROVENANCE = Provenance(
    command=("./program",),
    engine="by hand",
    guest="x86_64",
    foretrace_version="0",
    host="nowhere",
    started="2020-01-01",
    wall_s=1.0,
    exit_code=0,
    signal=None,
    complete=True,
)


def measured_host(name: str = "measured", **changes) -> Profile:
    """1 GHz, all units one a cycle; streams at 8, 6.4 and 2 GB/s, random loads of 1, 4 and 50 ns. Waking is free."""
    core = {
        "clock_hz": 1e9,
        "issue_width_instructions_per_cycle": 1.0,
        "peak_flops_per_cycle": 4.0,
        "scalar_flops_per_cycle": 1.0,
        "loads_per_cycle": 1.0,
        "stores_per_cycle": 1.0,
        "fp_add_latency_cycles": 3.0,
        "fp_div_interval_cycles": 10.0,
        "int_div_interval_cycles": 20.0,
        "branch_miss_cycles": 10.0,
        "python_block_s": 50e-9,
        "python_line_s": 50e-9,
        "python_call_s": 1e-6,
        "line_transfer_latency_s": 1e-18,
        "thread_wake_latency_s": 1e-18,
        "thread_wake_call_s": 1e-18,
    }
    points = [
        BandwidthPoint(size, pattern, 8, bandwidth, "here")
        for size, sequential, random in ((512, 8e9, 8e9), (4096, 6.4e9, 8 / 3.25e-9), (1 << 20, 2e9, 8 / 50e-9))
        for pattern, bandwidth in ((Pattern.SEQUENTIAL, sequential), (Pattern.RANDOM, random))
    ]
    profile = Profile(
        schema=SCHEMA,
        name=name,
        title=name.title(),
        kind=MachineKind.HOST,
        date="2020",
        sources=SOURCES,
        core=Core(source=dict.fromkeys(core, "here"), **core),
        caches=tuple(
            CacheLevel(name=v.name, size_bytes=v.size_bytes, ways=v.ways, line_bytes=v.line_bytes, source={})
            for v in CACHES.levels
        ),
        bandwidth=tuple(points),
        latency=tuple(LatencyPoint(size, s, "here") for size, s in ((512, 4e-9), (4096, 10e-9), (1 << 20, 100e-9))),
        memory=Memory(source={"first_touch_page_s": "here"}, first_touch_page_s=1e-30),  # new pages cost nothing
    )
    return with_changes(profile, **changes)


def published_host(name: str = "published", memory: Memory | None = None, **core) -> Profile:
    """A host of which little is published."""
    return with_changes(
        measured_host(name),
        core=Core(source={}, **({"clock_hz": 1e9} | core)),
        bandwidth=(),
        latency=(),
        memory=memory,
    )


def accelerator(name: str = "device", *, gb_per_s: float = 10.0, minimum: int | None = None, **link) -> Profile:
    """A gather/scatter unit with a flat bandwidth; a shared memory unless `link` says otherwise."""
    return Profile(
        schema=SCHEMA,
        name=name,
        title=name.title(),
        kind=MachineKind.ACCELERATOR,
        date="2020",
        sources=SOURCES,
        gather_scatter=(
            GatherScatterCurve(
                operations=("gather", "scatter"),
                pieces=(piece(0, None, gb_per_s),),
                source="here",
                minimum_range_bytes=minimum,
            ),
        ),
        link=Link(**({"source": {}, "shared_memory": True, "launch_latency_s": 0.0} | link)),
    )


def piece(from_bytes: int, to_bytes: int | None, gb_per_s: float) -> CurvePiece:
    """A flat piece of a gather/scatter curve."""
    return CurvePiece(
        from_bytes=from_bytes, to_bytes=to_bytes, intercept_bytes_per_s=gb_per_s * 1e9, slope_bytes_per_s_per_byte=0.0,
        source="here",
    )  # fmt: skip


def with_changes(struct, **changes):
    """A changed copy of a profile record."""
    return type(struct)(**({name: getattr(struct, name) for name in struct.__struct_fields__} | changes))


@dataclass
class Program:
    """Builds a signature loop by loop."""

    blocks: list[Block] = field(default_factory=list)
    operations: list[MemoryOperation] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    idioms: list[Idiom] = field(default_factory=list)
    misses: list[Sequence[float]] = field(default_factory=list)
    edges: list[tuple[int, int, int]] = field(default_factory=list)
    interpreter_times: list[InterpreterTime] = field(default_factory=list)

    def block(
        self, executions: int, *, function: str = "main", loop_id: int | None = None, instructions: int = 0,
        file: str = "program.c", module: str = "program", computes: Sequence[tuple[OperationKind, int]] = (),
        lanes: int = 1,
    ) -> int:  # fmt: skip
        """A basic block; `computes` are (kind, count)."""
        number = len(self.blocks)
        counts = tuple(OperationCount(kind, 64, lanes, count) for kind, count in computes)
        self.blocks.append(
            Block(number, module, 16 * number, function, file, number + 1, loop_id, executions, instructions, counts)
        )
        return number

    def loop(self, iterations: int, *, entries: int = 1, kind: str = "code", order: int | None = None, **block) -> int:
        """A loop of one block; returns the block's id."""
        number = len(self.loops)
        header = self.block(iterations, loop_id=number, **block)
        made = self.blocks[header]
        rank = number if order is None else order
        self.loops.append(
            Loop(
                number, None, header, "program", made.function, made.file, made.line, 1, entries, iterations, rank, kind
            )
        )
        return header

    def access(
        self, block: int, executions: int, misses: Sequence[float] = (0, 0), *, size: int = 8, first: int = 0,
        length: int = 4096, pattern: str = "unit_stride", is_store: bool = False, **other,
    ) -> int:  # fmt: skip
        """A memory operation of which all accesses but the first follow `pattern`."""
        number = len(self.operations)
        pattern_counts = dict.fromkeys(("repeated", "unit_stride", "strided", "irregular"), 0)
        pattern_counts[pattern] = max(executions - 1, 0)
        self.operations.append(
            MemoryOperation(
                number, block, 0, self.blocks[block].file, self.blocks[block].line, is_store, size, executions,
                size * executions, first, first + length, **pattern_counts, **other,
            )
        )  # fmt: skip
        self.misses.append(misses)
        return number

    def idiom(self, block: int, kind: IdiomKind, operations: Sequence[int], index: Sequence[int] = ()) -> None:
        """Say that operations of a block gather or scatter."""
        made = self.blocks[block]
        self.idioms.append(
            Idiom(len(self.idioms), made.loop_id, kind, made.file, made.line, tuple(operations), tuple(index))
        )

    def signature(self, hierarchy: Hierarchy = CACHES, **provenance) -> Signature:
        """What was built."""
        misses = np.array(self.misses, dtype=np.uint64).reshape(-1, len(CACHES.levels))
        return Signature(
            provenance=msgspec.structs.replace(PROVENANCE, **provenance),
            blocks=tuple(self.blocks),
            operations=tuple(self.operations),
            loops=tuple(self.loops),
            idioms=tuple(self.idioms),
            edges=np.array(self.edges, dtype=np.uint64).reshape(-1, 3),
            hierarchies=(SimulatedHierarchy(hierarchy, misses),),
            reuse=None,
            interpreter_times=tuple(self.interpreter_times),
        )


def gather_program(range_bytes: int, iterations: int = 1 << 20, entries: int = 1, flops: int = 0) -> Signature:
    """B[i] = A[index[i]] over a range of A: 8-byte elements, 4-byte indices; every gather misses both caches."""
    program = Program()
    computes = [(OperationKind.FP_MUL, flops)] if flops else []
    block = program.loop(iterations, entries=entries, instructions=4, computes=computes, function="gather")
    gather_into(program, block, iterations, range_bytes)
    return program.signature()


def gather_into(program: Program, block: int, iterations: int, range_bytes: int, base: int = 0) -> None:
    """The accesses of that loop."""
    index = program.access(block, iterations, (iterations // 16,) * 2, size=4, first=base + (1 << 40), length=4096)
    gather = program.access(
        block, iterations, (iterations,) * 2, first=base + (1 << 32), length=range_bytes, pattern="irregular",
        index_operation=index,
    )  # fmt: skip
    program.access(block, iterations, (iterations // 8,) * 2, first=base + (1 << 41), is_store=True)
    program.idiom(block, IdiomKind.GATHER, [gather], [index])
