"""A signature as arrays: what each memory operation does, and what each region of the program computes.

A region is the smallest part that a prediction is made of: the blocks whose innermost loop is the same, or the blocks
of a function that are in no loop, of Python those of one line. Made once, used for any number of machines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import PredictionError
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.base.level import Level
from foretrace.cache_sim.reuse.model import misses_from_reuse
from foretrace.replay.base.records import LoopKind, Place
from foretrace.replay.core.program import CoreProgram
from foretrace.tracer.signature.records import (
    Block,
    Idiom,
    InterpreterTime,
    OperationKind,
    Signature,
)

from .array_costs import ArrayWork
from .linear_algebra import LinearWork

Floats = npt.NDArray[np.float64]

_KINDS = {"array": LoopKind.ARRAY, "compiled": LoopKind.COMPILED}
_NO_ARITHMETIC = {OperationKind.MOVE, OperationKind.BRANCH, OperationKind.CALL, OperationKind.RETURN}
_IN_TURNS = 32
"""Executions of a branch that predictors see as one pattern, at least: those of the core model look back on 288."""
LONG_LINES = 50_000.0
"""Length of an execution of a block that takes very long, at least: some 2 ms, mostly of a single built-in function."""
_UNPREDICTED = {OperationKind.RETURN, OperationKind.BYTECODE}


@dataclass(frozen=True, slots=True)
class Region:
    """A region. `operations` are the ids of its memory operations, `idioms` the gathers and scatters found in it."""

    place: Place
    kind: LoopKind
    loop_id: int | None
    entries: int
    iterations: int
    operations: tuple[int, ...]
    idioms: tuple[Idiom, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OperationArrays:
    """One element for each memory operation, in the order of their ids.

    `access_bytes` is the mean size. `repeated`, `unit_stride`, `strided` and `irregular` count accesses. `sparse`
    [operations, 2] is the share of the lines missed that stand alone, as the nearest cache sees it and as those behind
    it do: nan where nothing is known.
    """

    region: npt.NDArray[np.int64]
    executions: Floats
    access_bytes: Floats
    range_bytes: Floats
    is_store: npt.NDArray[np.bool_]
    self_dependent: npt.NDArray[np.bool_]
    repeated: Floats
    unit_stride: Floats
    strided: Floats
    irregular: Floats
    sparse: Floats


@dataclass(frozen=True, slots=True, eq=False)
class RegionArrays:
    """One element, or row, for each region: totals over the run, but for `arithmetic_per_iteration`.

    Vector operations are counted in flops of 64 bits: one of 32 bits counts half. `serial_adds` are scalar additions
    in loops that add and never store: each waits for the one before it. `branch_misses` is what a predictor would miss
    that always says what a branch does most often. `python_lines` is the time of blocks of Python that were timed, in
    lines, `long_lines` those of it in blocks that take very long, `recording_lines` what was taken off it, and
    `array_faults` pages mapped in array operations (`signature.InterpreterTime`); `python_bytecodes` counts those of
    the others. `array_points`, `array_kept` and `array_lines` are those of `array_costs.ArrayWork`.
    """

    instructions: Floats
    scalar_flops: Floats
    vector_add_flops: Floats
    vector_mul_flops: Floats
    vector_fma_flops: Floats
    fp_divides: Floats
    int_divides: Floats
    serial_adds: Floats
    branch_misses: Floats
    loads: Floats
    stores: Floats
    python_lines: Floats
    array_faults: Floats
    recording_lines: Floats
    long_lines: Floats
    python_bytecodes: Floats
    python_calls: Floats
    array_points: Floats
    array_kept: npt.NDArray[np.bool_]
    array_lines: Floats
    arithmetic_per_iteration: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A signature, its regions in the order in which they first ran, and both as arrays."""

    signature: Signature
    regions: tuple[Region, ...]
    operations: OperationArrays
    totals: RegionArrays
    linear: LinearWork
    region_of_block: npt.NDArray[np.int64]
    core: CoreProgram | None  # its paths; None where there are none

    @classmethod
    def of(cls, signature: Signature) -> Workload:
        """Sort a signature's blocks into regions.

        Raises:
            PredictionError: the signature holds no block that ran.
        """
        if not any(block.executions for block in signature.blocks):
            why = (
                "the parallel run was timed, not traced: foretrace replay predicts it"
                if signature.ranks is not None
                else "the signature holds no basic block that ran: there is nothing to predict"
            )
            raise PredictionError(why)
        region_of_block, members = _region_of_blocks(signature)
        regions = _regions(signature, region_of_block, members)
        operations = _operation_arrays(signature, region_of_block)
        totals = _region_arrays(signature, regions, members, region_of_block, operations)
        linear = LinearWork.of(signature.linear_algebra, [region.loop_id for region in regions])
        core = CoreProgram.of(signature)
        return cls(signature, regions, operations, totals, linear, region_of_block, core)


def issue_slots(workload: Workload) -> Floats:
    """[regions]: instructions that take a slot of a core's issue width each; those fused with the one before take none.

    Of blocks that no path came through, as many are taken to be fused as of the others.
    """
    instructions, program = workload.totals.instructions, workload.core
    if program is None:
        return instructions
    blocks = workload.signature.blocks
    executions = np.array([block.executions for block in blocks], np.float64)[program.block_ids]
    lengths = np.array([block.instructions for block in blocks], np.float64)[program.block_ids]
    region, count = workload.region_of_block[program.block_ids], len(workload.regions)
    fused = np.bincount(region, weights=executions * program.fused_per_block, minlength=count)
    inside = np.bincount(region, weights=executions * lengths, minlength=count)
    overall = fused.sum() / max(inside.sum(), 1.0)
    share = np.divide(fused, inside, out=np.full(count, overall), where=inside > 0)
    return np.asarray(instructions * (1 - share))


def _region_of_blocks(signature: Signature) -> tuple[npt.NDArray[np.int64], list[list[Block]]]:
    """The region of each block, and the blocks of each region; regions in the order in which they first ran.

    Block ids follow the order in which blocks were first seen. Loops keep the order the signature gives them.
    """
    blocks_of: dict[tuple[object, ...], list[Block]] = defaultdict(list)
    by_line = signature.provenance.guest == "python"
    for block in signature.blocks:
        loop = block.loop_id
        function = ("function", block.module, block.function, block.line if by_line else 0)
        blocks_of[function if loop is None else ("loop", loop)].append(block)
    keys = sorted(blocks_of, key=lambda key: blocks_of[key][0].block_id)
    loops = iter(sorted((key for key in keys if key[0] == "loop"), key=lambda key: _loop_order(signature, key)))
    keys = [next(loops) if key[0] == "loop" else key for key in keys]
    region_of_block = np.zeros(len(signature.blocks), dtype=np.int64)
    for index, key in enumerate(keys):
        for block in blocks_of[key]:
            region_of_block[block.block_id] = index
    return region_of_block, [blocks_of[key] for key in keys]


def _loop_order(signature: Signature, key: tuple[object, ...]) -> int:
    loop_id = key[1]
    if not isinstance(loop_id, int) or not 0 <= loop_id < len(signature.loops):
        raise PredictionError(f"signature: a block belongs to loop {loop_id}, of which the signature knows nothing")
    return signature.loops[loop_id].order


def _regions(
    signature: Signature, region_of_block: npt.NDArray[np.int64], members: Sequence[Sequence[Block]]
) -> tuple[Region, ...]:
    operations: list[list[int]] = [[] for _ in members]
    for operation in signature.operations:
        operations[region_of_block[operation.block_id]].append(operation.operation_id)
    idioms: dict[int, list[Idiom]] = defaultdict(list)
    for idiom in signature.idioms:
        if idiom.kind.is_indirect:
            idioms[idiom.loop_id].append(idiom)
    regions = []
    for index, blocks in enumerate(members):
        first = blocks[0]
        if first.loop_id is None:
            entry = min(blocks, key=lambda block: block.offset)
            place = Place(first.module, first.function, entry.file, entry.line, entry.caller)
            kind = LoopKind.LINE if signature.provenance.guest == "python" else LoopKind.FUNCTION
            entries = max(entry.executions, 1)
            iterations = max(block.executions for block in blocks)
            found: list[Idiom] = []
        else:
            loop = signature.loops[first.loop_id]
            place = Place(loop.module, loop.function, loop.file, loop.line, loop.caller, loop.inlined)
            kind = _KINDS.get(loop.kind, LoopKind.LOOP)
            entries, iterations = max(loop.entries, 1), max(loop.iterations, 1)
            found = idioms.get(first.loop_id, [])
        regions.append(Region(place, kind, first.loop_id, entries, iterations, tuple(operations[index]), tuple(found)))
    return tuple(regions)


def _operation_arrays(signature: Signature, region_of_block: npt.NDArray[np.int64]) -> OperationArrays:
    operations = signature.operations

    def column(name: str) -> Floats:
        return np.array([getattr(op, name) for op in operations], dtype=np.float64)

    executions = column("executions")
    blocks = np.array([op.block_id for op in operations], dtype=np.int64)
    return OperationArrays(
        region=region_of_block[blocks],
        executions=executions,
        access_bytes=column("total_bytes") / np.maximum(executions, 1),
        range_bytes=column("range_bytes"),
        is_store=np.array([op.is_store for op in operations], dtype=np.bool_),
        self_dependent=np.array([op.self_dependent for op in operations], dtype=np.bool_),
        repeated=column("repeated"),
        unit_stride=column("unit_stride"),
        strided=column("strided"),
        irregular=column("irregular"),
        sparse=_sparse(signature, executions),
    )


_WATCHED_BYTES = (32 << 10, 256 << 10)
"""Bytes that are remembered, in lines four times as long as common ones: 128 of them in front of the nearest cache, and
a thousand behind it. On an AMD EPYC (Zen 5) stores that went to 256 or 512 streams in turns, out of main memory, took
12 and 16 ns a line, to 1024 and 2048 of them 29 and 40."""


def _sparse(signature: Signature, executions: Floats) -> Floats:
    """Share of each operation's missed lines whose neighbours are not wanted at about the same time.

    Of lines that are, a cache with lines four times as long misses a quarter; of others as many. Several streams taken
    in turn, which no stride tells, are seen so: what a prefetcher does that watches each page by itself.
    """
    if signature.reuse is None:
        return np.full((len(executions), len(_WATCHED_BYTES)), np.nan)
    found = []
    for size_bytes in _WATCHED_BYTES:
        levels = (Level("L1", size_bytes, 8, line_bytes) for line_bytes in (64, 256))
        caches = (Hierarchy("", (level,)) for level in levels)
        short, long = (misses_from_reuse(signature.reuse, cache, executions)[:, 0] for cache in caches)
        found.append(np.divide(long, short, out=np.ones_like(long), where=short > 0))
    return np.clip((np.stack(found, axis=1) - 0.25) / 0.75, 0, 1)


def _region_arrays(
    signature: Signature,
    regions: Sequence[Region],
    members: Sequence[Sequence[Block]],
    region_of_block: npt.NDArray[np.int64],
    operations: OperationArrays,
) -> RegionArrays:
    sums: dict[str, Floats] = defaultdict(lambda: np.zeros(len(regions)))
    timed = {time.block_id: time for time in signature.interpreter_times}
    for block in signature.blocks:
        _add_block(sums, int(region_of_block[block.block_id]), block, timed.get(block.block_id))

    def per_region(weights: Floats) -> Floats:
        return np.bincount(operations.region, weights=weights, minlength=len(regions)).astype(np.float64)

    stores = per_region(np.where(operations.is_store, operations.executions, 0))
    is_loop = np.array([region.loop_id is not None for region in regions])
    is_array = np.array([region.kind is LoopKind.ARRAY for region in regions])
    iterations = np.array([region.iterations for region in regions], dtype=np.float64)
    arrays = ArrayWork.of(signature, members, is_array)
    return RegionArrays(
        instructions=sums["instructions"],
        scalar_flops=sums["scalar_flops"],
        vector_add_flops=sums["vector_add_flops"],
        vector_mul_flops=sums["vector_mul_flops"],
        vector_fma_flops=sums["vector_fma_flops"],
        fp_divides=sums["fp_divides"],
        int_divides=sums["int_divides"],
        serial_adds=np.where(is_loop & ~is_array & (stores == 0), sums["fp_adds"], 0),
        branch_misses=_branch_misses(signature, region_of_block, len(regions)) + arrays.branch_misses,
        loads=per_region(np.where(operations.is_store, 0, operations.executions)),
        stores=stores,
        python_lines=sums["python_lines"],
        array_faults=arrays.faults if signature.array_times else sums["array_faults"],
        recording_lines=sums["recording_lines"],
        long_lines=sums["long_lines"],
        python_bytecodes=sums["python_bytecodes"],
        python_calls=np.where(is_array & ~arrays.kept, [region.entries for region in regions], 0.0),
        array_points=arrays.points,
        array_kept=arrays.kept & bool(signature.array_times or sums["python_lines"].any()),
        array_lines=arrays.lines,
        arithmetic_per_iteration=sums["arithmetic"] / iterations,
    )


def _add_block(sums: dict[str, Floats], region: int, block: Block, timed: InterpreterTime | None) -> None:
    """Add all executions of a block to its region's sums; `timed` is what the interpreter took for one."""
    times = float(block.executions)
    if timed is not None:
        sums["python_lines"][region] += times * timed.lines
        sums["recording_lines"][region] += times * timed.recording_lines
        sums["long_lines"][region] += times * timed.lines if timed.lines >= LONG_LINES else 0.0
        sums["array_faults"][region] += times * timed.array_faults
    elif any(operation.kind is OperationKind.BYTECODE for operation in block.operations):
        sums["python_bytecodes"][region] += times * block.instructions
    else:
        sums["instructions"][region] += times * block.instructions
    for operation in block.operations:
        count = times * operation.count
        if operation.kind is OperationKind.FP_DIV or operation.kind is OperationKind.FP_SQRT:
            sums["fp_divides"][region] += count * max(operation.lanes * operation.element_bits / 128, 1)
        elif operation.kind is OperationKind.INT_DIV:
            sums["int_divides"][region] += count
        elif operation.flops:
            flops = times * operation.flops
            if operation.lanes == 1:
                sums["scalar_flops"][region] += flops
                sums["fp_adds"][region] += count if operation.kind is not OperationKind.FP_MUL else 0
            else:
                name = {OperationKind.FP_ADD: "add", OperationKind.FP_MUL: "mul"}.get(operation.kind, "fma")
                sums[f"vector_{name}_flops"][region] += flops * operation.element_bits / 64
        if operation.kind not in _NO_ARITHMETIC and operation.kind is not OperationKind.BYTECODE:
            sums["arithmetic"][region] += count


def _branch_misses(signature: Signature, region_of_block: npt.NDArray[np.int64], regions: int) -> Floats:
    """Executions of blocks that did not go where the block mostly goes, by region; returns and bytecode left out.

    Where a block went elsewhere once for a whole number of times, and a small one, it did so in turns, as loops do that
    always run as often: that is foreseen.
    """
    taken = np.zeros(len(signature.blocks))
    mostly = np.zeros(len(signature.blocks))
    if len(signature.edges):
        source = signature.edges[:, 0].astype(np.int64)
        count = signature.edges[:, 2].astype(np.float64)
        np.add.at(taken, source, count)
        np.maximum.at(mostly, source, count)
    unjudged = [any(operation.kind in _UNPREDICTED for operation in block.operations) for block in signature.blocks]
    elsewhere = taken - mostly
    times, rest = np.divmod(mostly, np.maximum(elsewhere, 1))
    missed = np.where(unjudged | ((rest == 0) & (times <= _IN_TURNS)), 0, elsewhere)
    return np.bincount(region_of_block, weights=missed, minlength=regions).astype(np.float64)
