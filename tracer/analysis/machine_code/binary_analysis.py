"""Analyses an engine's recording of a binary's run into the typed records of its signature."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import starmap
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from foretrace.cache_sim.base.results import OperationStatistics
from foretrace.tracer.analysis.data_flow.library_code import places_of
from foretrace.tracer.analysis.data_flow.node_flow import data_flow_of
from foretrace.tracer.analysis.execution_tree.code_tree import CodeTree, engine_blocks
from foretrace.tracer.analysis.execution_tree.sampled_work import SampledWork, rank_work, sampled_work
from foretrace.tracer.analysis.loops import LoopForest
from foretrace.tracer.analysis.result import Analysis
from foretrace.tracer.debug_info.perf_map import NO_MAP, PerfMap
from foretrace.tracer.isa import registry as isa
from foretrace.tracer.reader.raw_dependences import RawDependences
from foretrace.tracer.reader.raw_trace import RawTrace
from foretrace.tracer.sampling.bursts import BurstCounts
from foretrace.tracer.sampling.estimate import scaled_to_run, varying
from foretrace.tracer.signature.data_flow_records import DataFlow
from foretrace.tracer.signature.records import (
    Block,
    Idiom,
    Loop,
    MemoryOperation,
    OperationCount,
    OperationKind,
)
from foretrace.tracer.signature.tree_records import ExecutionTree

from .access_idioms import AccessIdioms
from .basic_blocks import BasicBlocks, find_basic_blocks
from .control_flow import find_loops
from .dependences import Found, find_dependences
from .idioms import IdiomFinder, Indirections, fixed_operations
from .library_code import owned_code
from .paths import find_paths
from .places import Places
from .selected_code import find_selected
from .value_graph import ValueGraph

_STATISTICS = (
    "size_bytes", "executions", "total_bytes", "first", "last_exclusive", "repeated", "unit_stride", "strided",
    "irregular",
)  # fmt: skip
"""Fields of `OperationStatistics`, in the order of `MemoryOperation`."""

_MOST_BLOCKS_IN_WINDOWS = 10_000
"""Most blocks of a program whose dependences are searched without being requested."""


def _is_too_large(dependences: RawDependences, blocks: Sequence[Block]) -> bool:
    return dependences.in_windows and len(blocks) > _MOST_BLOCKS_IN_WINDOWS


def analyse(
    raw: RawTrace,
    statistics: OperationStatistics,
    arch: str,
    bursts: BurstCounts | None = None,
    compiled: PerfMap = NO_MAP,
    step: Callable[[str], bool] = lambda _: True,
) -> Analysis:
    """Relate the executed code to basic blocks, functions, source lines, loops and idioms.

    `statistics` are those of the raw operations. Where accesses were recorded in `bursts`, they are scaled to the run.
    `compiled` names code that the program itself compiled. `step` is called with the name of each analysis step and
    returns whether there is time: if not, optional steps are skipped.

    Raises:
        ProgramError: the instructions of `arch` cannot be decoded.
    """
    step("finding functions and loops")
    left_out = []
    instruction_set = isa.load(arch)
    blocks = find_basic_blocks(raw, instruction_set)
    places = Places(raw, blocks, arch, compiled)
    forest = find_loops(blocks, places.function_numbers(), raw.landings)
    merged, of_bursts = _statistics(blocks, statistics, bursts)
    sites = places.sites(blocks.operation_instruction)
    step("finding idioms")
    indirections = IdiomFinder(blocks, forest, instruction_set, merged, sites).find()
    signature_blocks = _blocks(blocks, places, forest)
    # Any call may change what calls may: looking into them takes longer than all the rest, in large programs.
    functions = places.function_numbers()
    values = ValueGraph(blocks, forest, instruction_set, functions, range(len(functions)))
    access_idioms: Sequence[Idiom] = ()
    if step("finding idioms"):
        access_idioms = AccessIdioms(
            blocks, forest, instruction_set, merged, sites, functions, [block.function for block in signature_blocks],
            indirections, values,
        ).find()  # fmt: skip
    else:
        left_out.append("idioms")
    given_up = []
    if indirections.loops_given_up:
        given_up.append(f"{indirections.loops_given_up} loops were too entangled to search for gathers and scatters")
    loops = tuple(_loop(number, blocks, places, forest) for number in range(len(forest.loops)))
    maker = _tree(raw, blocks, signature_blocks, loops)
    tree = maker.tree() if maker else None
    named_blocks = signature_blocks
    found = Found()
    examined = raw.dependences
    if examined is not None and not step("finding dependences"):
        examined = None
        left_out.append("dependences")
    if maker and tree is not None and examined is not None and not _is_too_large(examined, signature_blocks):
        nodes = maker.loop_nodes(examined.loops[:, :3].tolist())
        indirect = {operation for idiom in indirections.idioms for operation in idiom.operations}
        found = find_dependences(
            examined, nodes, tree, blocks, forest, instruction_set, signature_blocks,
            functions, fixed_operations(merged), indirect, values, in_windows=examined.in_windows,
            lines=places.lines.tolist(),
        )  # fmt: skip
    data_flow = None
    if maker and tree is not None and step("finding the data flow"):
        data_flow = _data_flow(raw, blocks, maker, tree, places)
    elif raw.flow is not None:
        left_out.append("data flow")
    work = _sampled_work(raw, maker, tree)
    idioms: Sequence[Idiom] = (*indirections.idioms, *access_idioms)
    if maker and tree is not None:
        owned = owned_code(maker, tree, blocks.edges.tolist(), places.library_blocks(), places.frames_at_end)
        tree, loops, named_blocks = owned.tree, owned.loops, owned.blocks
        sites = _owned_sites(sites, blocks, named_blocks)
        idioms = tuple(_owned_idiom(idiom, loops[idiom.loop_id]) for idiom in idioms)
    step("finding paths")
    if left_out:
        given_up.append(f"left out, as foretrace was told to stop: {', '.join(left_out)}")
    return Analysis(
        blocks=named_blocks,
        operations=_operations(blocks, places, merged, sites, indirections),
        loops=loops,
        idioms=idioms,
        edges=blocks.edges,
        operation_map=blocks.operation_map,
        block_map=blocks.block_map,
        decoded_share=_decoded_share(blocks),
        paths=find_paths(raw.paths, blocks, instruction_set),
        tree=tree,
        data_flow=data_flow,
        dependences=found.dependences,
        examined_loops=found.examined,
        sampled_work=work,
        rank_work=_rank_work(raw, maker, tree),
        selection=find_selected(blocks, merged, places.ran(), arch),
        notes=(*places.notes(), *given_up, *of_bursts, *_hidden_accesses(blocks, raw), *found.notes),
    )


def _owned_sites(
    sites: Sequence[tuple[str, int]], basic: BasicBlocks, blocks: Sequence[Block]
) -> list[tuple[str, int]]:
    """Places of memory operations: those of libraries are at the program's call."""
    owners = (blocks[block] for block in basic.block_of[basic.operation_instruction].tolist())
    return [(block.file, block.line) if block.caller else site for site, block in zip(sites, owners, strict=True)]


def _owned_idiom(idiom: Idiom, loop: Loop) -> Idiom:
    return msgspec.structs.replace(idiom, file=loop.file, line=loop.line) if loop.caller else idiom


def _statistics(
    blocks: BasicBlocks, statistics: OperationStatistics, bursts: BurstCounts | None
) -> tuple[OperationStatistics, list[str]]:
    """Statistics of the memory operations, scaled to the whole run, and notes on estimates."""
    merged = statistics.merged(blocks.operation_map, len(blocks.operation_instruction))
    if bursts is None or not bursts.gaps:
        return merged, []
    instruction = blocks.operation_instruction
    recorded, executions = blocks.recorded[instruction], blocks.executions[blocks.block_of[instruction]]
    in_parts = bursts.merged(blocks.operation_map, len(instruction)).in_parts
    scaled = scaled_to_run(merged, recorded=recorded, executions=executions, in_parts=in_parts)
    estimated = varying(merged.executions, recorded, executions)
    if not estimated.any():
        return scaled, []
    share = float(scaled.executions[estimated].sum() / scaled.executions.sum())
    what = f"{int(estimated.sum())} operations that make now one access, now another number"
    return scaled, [f"counts of accesses are estimated for {what}: {share:.2%} of all"]


def _blocks(blocks: BasicBlocks, places: Places, forest: LoopForest) -> tuple[Block, ...]:
    starts = blocks.first[:-1]
    columns = (
        places.modules(starts), places.offsets[starts].tolist(), places.sites(starts), forest.innermost.tolist(),
        blocks.executions.tolist(), np.diff(blocks.first).tolist(), _operation_counts(blocks),
    )  # fmt: skip
    return tuple(
        Block(
            block_id=number,
            module=module,
            offset=offset,
            function=places.function_name(number),
            file=file,
            line=line,
            loop_id=loop if loop >= 0 else None,
            executions=executions,
            instructions=instructions,
            operations=operations,
        )
        for number, (module, offset, (file, line), loop, executions, instructions, operations) in enumerate(
            zip(*columns, strict=True)
        )
    )


def _tree(raw: RawTrace, basic: BasicBlocks, blocks: Sequence[Block], loops: Sequence[Loop]) -> CodeTree | None:
    if raw.tree is None:
        return None
    engine = engine_blocks(basic.engine_first, basic.engine_instructions, basic.block_of, basic.first, raw.blocks)
    return CodeTree(raw.tree, engine, blocks, loops)


def _sampled_work(raw: RawTrace, maker: CodeTree | None, tree: ExecutionTree | None) -> tuple[SampledWork, ...]:
    if maker is None or tree is None:
        return ()
    return tuple(sampled_work(maker, tree, samples) for samples in raw.event_samples)


def _rank_work(raw: RawTrace, maker: CodeTree | None, tree: ExecutionTree | None) -> npt.NDArray[np.int64] | None:
    return None if maker is None or tree is None or raw.rank_work is None else rank_work(maker, raw.rank_work)


def _data_flow(
    raw: RawTrace, basic: BasicBlocks, maker: CodeTree, tree: ExecutionTree, places: Places
) -> DataFlow | None:
    if raw.flow is None:
        return None
    block_of = basic.block_of[basic.operation_instruction][basic.operation_map]
    nodes = maker.nodes_of(raw.flow.places(block_of.tolist()))
    counts_as = places_of(tree, np.diff(basic.first).tolist())
    return data_flow_of(raw, nodes, counts_as, places.variables(), places.call_sites)


def _operation_counts(blocks: BasicBlocks) -> list[tuple[OperationCount, ...]]:
    """Number of instructions of each kind, by block."""
    of_class = [(c.kind, c.element_bits, c.lanes) for c in blocks.classes]
    kinds = sorted(set(of_class))
    kind_of = np.array([kinds.index(kind) for kind in of_class], np.int64)[blocks.class_of]
    keys = np.sort(blocks.block_of * len(kinds) + kind_of)
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    block, numbers = np.divmod(keys[firsts], max(len(kinds), 1))
    pairs = list(zip(numbers.tolist(), np.diff(firsts, append=len(keys)).tolist(), strict=True))
    shared = {}
    for number, count in set(pairs):
        kind, element_bits, lanes = kinds[number]
        shared[number, count] = OperationCount(kind, element_bits, lanes, count)
    counts = [shared[pair] for pair in pairs]
    ends = np.cumsum(np.bincount(block, minlength=blocks.num_blocks)).tolist()
    return [tuple(counts[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]


def _operations(
    blocks: BasicBlocks,
    places: Places,
    merged: OperationStatistics,
    sites: Sequence[tuple[str, int]],
    indirections: Indirections,
) -> tuple[MemoryOperation, ...]:
    instructions = blocks.operation_instruction
    operations = range(len(instructions))
    columns: tuple[Iterable[Any], ...] = (
        operations,
        blocks.block_of[instructions].tolist(),
        places.offsets[instructions].tolist(),
        [file for file, _ in sites],
        [line for _, line in sites],
        blocks.operation_is_store.tolist(),
        *(getattr(merged, name).tolist() for name in _STATISTICS),
        map(indirections.index_operation.get, operations),
        map(indirections.self_dependent.__contains__, operations),
    )
    return tuple(starmap(MemoryOperation, zip(*columns, strict=True)))


def _loop(number: int, blocks: BasicBlocks, places: Places, forest: LoopForest) -> Loop:
    loop = forest.loops[number]
    members = sorted(loop.blocks)
    file, line = places.loop_site(loop.header, members)
    (module,) = places.modules(blocks.first[loop.header : loop.header + 1])
    return Loop(
        loop_id=number,
        parent_id=loop.parent,
        header_block_id=loop.header,
        module=module,
        function=places.function_name(loop.header),
        file=file,
        line=line,
        depth=loop.depth,
        entries=loop.entries,
        iterations=loop.iterations,
        order=number,
        frames=places.frames_of_loop(loop.header, members, (file, line)),
    )


def _hidden_accesses(blocks: BasicBlocks, raw: RawTrace) -> list[str]:
    """Notes on accesses that the engine could not see."""
    hidden = _executions(blocks, [kind.hides_access for kind in blocks.classes])
    what = "instructions that set whole cache lines to zero (DC ZVA), which QEMU does not show as stores"
    notes = [f"not among the stores: {hidden} executions of {what}"] if hidden else []
    if raw.whole_masked_loads:
        what = "masked vector loads whose mask could not be read from the engine count with all lanes"
        notes.append(f"{raw.whole_masked_loads} {what}")
    return notes


def _decoded_share(blocks: BasicBlocks) -> float:
    """Share of the executed instructions that could be decoded."""
    total = _executions(blocks, [True for _ in blocks.classes])
    unknown = _executions(blocks, [kind.kind is OperationKind.UNKNOWN for kind in blocks.classes])
    return 1.0 - unknown / total if total else 1.0


def _executions(blocks: BasicBlocks, of_class: Sequence[bool]) -> int:
    """Number of executed instructions of the chosen classes."""
    those = np.array(of_class, bool)[blocks.class_of]
    numbers = np.bincount(blocks.block_of[those], minlength=blocks.num_blocks).tolist()
    return sum(number * count for number, count in zip(numbers, blocks.executions.tolist(), strict=True) if number)
