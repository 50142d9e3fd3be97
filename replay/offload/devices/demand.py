"""Demand of each node of a program on a general accelerator: operations by kind, accesses, bytes by level.

Counts are the node's own, over the whole run, in operations of single threads: an instruction on four lanes is four
operations. A multiplication and an addition beside it are one instruction there, as compilers for accelerators fuse
them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from foretrace.cache_sim.reuse.model import misses_fully_associative
from foretrace.replay.base.spread import Floats
from foretrace.tracer.signature.records import (
    WIDER_KIND,
    Block,
    IdiomKind,
    MemoryOperation,
    OperationKind,
    Signature,
)

from .device import Rates
from .divergence import issued
from .work import NodeKind, Work

_SPECIAL = {OperationKind.FP_DIV, OperationKind.FP_SQRT, OperationKind.INT_DIV}
_INTEGER = {
    OperationKind.INT_ALU, OperationKind.INT_SHIFT, OperationKind.INT_SELECT, OperationKind.INT_SHIFT_ADD,
    OperationKind.INT_BIT_COUNT, OperationKind.INT_MUL, OperationKind.VECTOR_INT,
}  # fmt: skip
_FUSED = {OperationKind.FP_ADD, OperationKind.FP_MUL, OperationKind.FP_FMA}
_OTHER_FP = {OperationKind.FP_COMPARE, OperationKind.FP_CONVERT, OperationKind.FP_OTHER}
_STEPS = {
    (False, False): ("fp32_flops", 8.0),
    (False, True): ("fp64_flops", 18.0),
    (True, False): ("integer", 16.0),
    (True, True): ("integer", 40.0),
}
"""Work of a division or square root after the special unit's approximation, (of integers, of 64 bits): the
steps of Newton's method that compilers for GPUs insert. Their numbers are assumed."""
_LINEAR_EFFICIENCY = 0.8
"""Share of a device's peak in products of large matrices by its library: usual."""


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """Counts of each node's own work, float64 [nodes].

    `fp64_flops`, `fp32_flops`: at two an instruction, fused or not. `special`: divisions and square roots.
    `instructions` of single threads; `diverged`, the same with what a warp issues for branches that only some of its
    threads take. `accesses`, of which `chased` wait for one another (dependent loads). `access_bytes` of all, and
    `array_bytes` without operations that only ever go to one place: variables that the host's compiler keeps in memory
    and return addresses, for which a device has registers, and constants. `atomics`: indirect updates of
    `atomic_bytes`, as if they went evenly to `atomic_places` different ones.
    `is_bytecode` bool [nodes]: work of a Python interpreter, which no device runs.
    """

    fp64_flops: Floats
    fp32_flops: Floats
    integer: Floats
    special: Floats
    instructions: Floats
    diverged: Floats
    accesses: Floats
    access_bytes: Floats
    array_bytes: Floats
    chased: Floats
    atomics: Floats
    atomic_places: Floats
    atomic_bytes: Floats
    is_bytecode: np.typing.NDArray[np.bool_]

    @classmethod
    def of(cls, work: Work) -> Demand:
        """Count a program's operations."""
        signature = work.run.workload.signature
        blocks = signature.blocks
        sums = {name: np.zeros(len(blocks)) for name in _COUNTS}
        for number, block in enumerate(blocks):
            for name, count in _of_block(block).items():
                sums[name][number] = count * block.executions
        _add_arrays(signature, sums)
        of_nodes = {name: work.of_blocks(values) for name, values in sums.items()}
        executions = np.array([one.executions for one in signature.operations], np.float64)
        size = np.array([one.total_bytes for one in signature.operations], np.float64)
        is_one_place = np.array([one.range_bytes <= one.size_bytes for one in signature.operations], np.bool_)
        chased = np.array([one.self_dependent for one in signature.operations], np.bool_)
        atomics, places, updated_bytes = _atomics(work, signature)
        is_bytecode = np.array([_is_bytecode(block) for block in blocks])
        return cls(
            **of_nodes,
            diverged=of_nodes["instructions"] * issued(work, _rounds(work)),
            accesses=work.of_operations(executions),
            access_bytes=work.of_operations(size),
            array_bytes=work.of_operations(np.where(is_one_place, 0.0, size)),
            chased=work.of_operations(np.where(chased, executions, 0.0)),
            atomics=atomics,
            atomic_places=places,
            atomic_bytes=updated_bytes,
            is_bytecode=np.bincount(work.row_node, is_bytecode[work.row_block], minlength=len(work)) > 0,
        )


_COUNTS = ("fp64_flops", "fp32_flops", "integer", "special", "instructions")


def _of_block(block: Block) -> dict[str, float]:
    """Operations of one execution of a block."""
    fused: dict[tuple[int, OperationKind], float] = defaultdict(float)
    counts = dict.fromkeys(_COUNTS, 0.0)
    decoded = 0.0
    roots: dict[int, float] = defaultdict(float)
    for one in block.operations:
        if one.kind is OperationKind.FP_SQRT:
            roots[one.element_bits] += one.lanes * one.count
    for one in block.operations:
        kind = WIDER_KIND.get(one.kind, one.kind)
        threads = float(one.lanes * one.count)
        decoded += one.count
        if one.kind in _FUSED:
            fused[one.element_bits, one.kind] += threads
        elif one.kind in _SPECIAL:
            name, steps = _STEPS[one.kind is OperationKind.INT_DIV, one.element_bits > 32]
            if one.kind is OperationKind.FP_DIV:  # by a root of the same block: one reciprocal root
                threads = max(threads - roots[one.element_bits], 0.0)
            counts["special"] += threads
            counts[name] += steps * threads
            counts["instructions"] += steps / 2 * threads
        elif kind in _INTEGER:
            counts["integer"] += threads
            counts["instructions"] += threads
        elif kind in _OTHER_FP:
            counts["fp32_flops" if one.element_bits <= 32 else "fp64_flops"] += 2 * threads
            counts["instructions"] += threads
        elif one.kind is not OperationKind.BYTECODE:
            counts["instructions"] += threads
    for bits in {bits for bits, _ in fused}:
        adds, products = fused[bits, OperationKind.FP_ADD], fused[bits, OperationKind.FP_MUL]
        issued = fused[bits, OperationKind.FP_FMA] + max(adds, products)
        counts["fp32_flops" if bits <= 32 else "fp64_flops"] += 2 * issued
        counts["instructions"] += issued
    counts["instructions"] += max(block.instructions - decoded, 0.0) if not _is_bytecode(block) else 0.0
    return counts


def _is_bytecode(block: Block) -> bool:
    return any(one.kind is OperationKind.BYTECODE for one in block.operations)


def _add_arrays(signature: Signature, sums: dict[str, Floats]) -> None:
    """Array operations of Python: an operation each for the elements that they store, and their linear algebra."""
    stored = np.zeros(len(signature.blocks))
    accessed = np.zeros(len(signature.blocks))
    for one in signature.operations:
        if one.array_operation:
            accessed[one.block_id] += one.executions
            stored[one.block_id] += one.executions if one.is_store else 0
    points = np.maximum(stored, accessed / 3)
    sums["instructions"] += accessed + points
    sums["fp64_flops"] += 2 * points
    linear: dict[tuple[int, bool], float] = defaultdict(float)
    for routine in signature.linear_algebra:
        linear[routine.loop_id, routine.element_type in ("float32", "complex64")] += (
            routine.flops * routine.batch * routine.calls
        )
    for (loop_id, is_single), flops in linear.items():
        if 0 <= loop_id < len(signature.loops):
            header = signature.loops[loop_id].header_block_id
            sums["fp32_flops" if is_single else "fp64_flops"][header] += flops / _LINEAR_EFFICIENCY


def _rounds(work: Work) -> Floats:
    """[nodes]: how often a node's own work may begin: of loops, each iteration."""
    is_loop = [kind is NodeKind.LOOP for kind in work.kinds]
    return np.where(is_loop, work.iterations, work.entries).astype(np.float64)


def _atomics(work: Work, signature: Signature) -> tuple[Floats, Floats, Floats]:
    """Indirect updates (y[index[i]] += ...) of each node, the places that they go to, and the bytes of all of these.

    A scatter into a range that the same loop gathers from is taken to update it. Where some places are updated more
    often than others, an update hits that of the one before more often: with probability sum p^2, as of 1 / sum p^2
    places that are hit evenly.
    """
    gathered: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for idiom in signature.idioms:
        if idiom.kind is IdiomKind.GATHER:
            gathered[idiom.loop_id] += [
                (signature.operations[one].first, signature.operations[one].last_exclusive) for one in idiom.operations
            ]
    updates = np.zeros(len(signature.operations))
    places, updated_bytes = np.zeros(len(work)), np.zeros(len(work))
    for idiom in signature.idioms:
        if idiom.kind is not IdiomKind.SCATTER:
            continue
        for number in idiom.operations:
            one = signature.operations[number]
            if any(first < one.last_exclusive and one.first < last for first, last in gathered[idiom.loop_id]):
                updates[number] = one.executions
                nodes = np.unique(work.row_node[work.row_block == one.block_id])
                evenly = one.executions / max(one.repeated, 1)
                places[nodes] = np.maximum(places[nodes], min(one.range_bytes / max(one.size_bytes, 1), evenly))
                updated_bytes[nodes] += one.range_bytes
    return work.of_operations(updates), places, updated_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Traffic of each node on a device, float64 [nodes]: bytes that the first, the second and a third cache miss (two
    levels: the last two are the same); and the accesses that wait for the second cache, and for memory."""

    l2_bytes: Floats
    last_bytes: Floats
    memory_bytes: Floats
    l2_waits: Floats
    memory_waits: Floats

    @classmethod
    def of(cls, work: Work, rates: Rates) -> Traffic:
        """By the reuse distances of the program, at the device's caches.

        An access at random moves a whole granule, one of a stream its own bytes. Without reuse distances all comes out
        of memory.
        """
        signature = work.run.workload.signature
        operations = signature.operations
        executions = np.array([one.executions for one in operations], np.float64)
        size = np.array([one.total_bytes for one in operations], np.float64) / np.maximum(executions, 1)
        unit = np.array([one.unit_stride + one.repeated for one in operations]) / np.maximum(executions, 1)
        granule = float(rates.granule_bytes)
        if signature.reuse is None or not len(operations):
            missed = executions * np.where(unit > 0.5, np.minimum(size / granule, 1.0), 1.0)
            misses = np.column_stack([missed, missed, missed])
        else:
            l2_bytes = max(rates.l2_bytes, rates.l1_bytes)
            sizes = (rates.l1_bytes, l2_bytes, max(rates.last_bytes or 0, l2_bytes))
            misses = misses_fully_associative(signature.reuse, sizes, rates.granule_bytes, executions, unit)
        fetched = misses * granule
        moved = fetched + written_back(work, misses, executions, size, unit, granule)
        waits = [np.minimum(fetched[:, level] / np.maximum(size, 1.0), executions) for level in (0, 2)]
        is_load = np.array([not one.is_store for one in operations], np.bool_)
        return cls(
            l2_bytes=work.of_operations(moved[:, 0]),
            last_bytes=work.of_operations(moved[:, 1]),
            memory_bytes=work.of_operations(moved[:, 2]),
            l2_waits=work.of_operations(np.where(is_load, waits[0] - waits[1], 0.0)),
            memory_waits=work.of_operations(np.where(is_load, waits[1], 0.0)),
        )


def written_back(work: Work, misses: Floats, executions: Floats, size: Floats, unit: Floats, granule: float) -> Floats:
    """[operations, levels]: bytes that stores send back of lines that loads of the same loop fetched.

    A store that misses is counted by its miss: it writes its bytes and fetches none. One that hits what a load has just
    fetched (y[i] += x[i]) writes that line back as well. Accesses of one loop whose ranges overlap count as one array:
    of the lines that its loads fetch, those are written back that its stores go to, each once.
    """
    operations = work.run.workload.signature.operations
    lines = executions * np.where(unit > 0.5, np.minimum(size / granule, 1.0), 1.0)
    region = work.run.workload.region_of_block
    order = sorted(
        (one for one in range(len(operations)) if operations[one].range_bytes > 0),
        key=lambda one: (int(region[operations[one].block_id]), operations[one].first),
    )
    back = np.zeros_like(misses)
    group: list[int] = []
    end, of_region = 0, -1
    for one in [*order, -1]:
        if one >= 0 and int(region[operations[one].block_id]) == of_region and operations[one].first < end:
            group.append(one)
            end = max(end, operations[one].last_exclusive)
            continue
        stores = [number for number in group if operations[number].is_store]
        loads = [number for number in group if not operations[number].is_store]
        if stores and loads:
            first = min(operations[number].first for number in stores)
            last = max(operations[number].last_exclusive for number in stores)
            share = np.array([_overlap(operations[number], first, last) for number in loads])
            fetched = share @ misses[loads]
            unwritten = np.maximum(lines[stores].sum() - misses[stores].sum(axis=0), 0.0)
            weights = lines[stores] / max(float(lines[stores].sum()), 1e-300)
            back[stores] = weights[:, None] * np.minimum(fetched, unwritten)[None, :] * granule
        if one >= 0:
            group, end, of_region = [one], operations[one].last_exclusive, int(region[operations[one].block_id])
    return back


def _overlap(operation: MemoryOperation, first: int, last_exclusive: int) -> float:
    """The share of an operation's range that is within another one."""
    common = min(operation.last_exclusive, last_exclusive) - max(operation.first, first)
    return max(common, 0) / operation.range_bytes
