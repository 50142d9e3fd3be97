"""From what an engine reported of a binary's run to the typed records of its signature."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import starmap
from typing import Any

import numpy as np

from foretrace.cache_sim.results import OperationStatistics
from foretrace.tracer.analysis.loops import LoopForest
from foretrace.tracer.analysis.modules import UNMAPPED, ModuleMap
from foretrace.tracer.analysis.result import Analysis
from foretrace.tracer.data_flow.library_code import places_of
from foretrace.tracer.data_flow.node_flow import Site, data_flow_of
from foretrace.tracer.data_flow.raw_dependences import RawDependences
from foretrace.tracer.execution_tree.code_tree import CodeTree, engine_blocks
from foretrace.tracer.execution_tree.sampled_work import SampledWork, sampled_work
from foretrace.tracer.machine_code.debug_info.line_table import EMPTY, LineTable
from foretrace.tracer.machine_code.debug_info.symbols import Function, Symbols, Variable
from foretrace.tracer.machine_code.isa import registry as isa
from foretrace.tracer.reader.raw_trace import RawTrace
from foretrace.tracer.sampling.bursts import BurstCounts
from foretrace.tracer.sampling.estimate import scaled_to_run, varying
from foretrace.tracer.signature.data_flow_records import DataFlow
from foretrace.tracer.signature.records import Block, Loop, MemoryOperation, OperationCount, OperationKind
from foretrace.tracer.signature.tree_records import ExecutionTree

from .access_idioms import AccessIdioms
from .basic_blocks import BasicBlocks, Counts, Ints, find_basic_blocks
from .control_flow import find_loops
from .dependences import Found, find_dependences
from .idioms import IdiomFinder, Indirections, fixed_operations
from .paths import find_paths
from .value_graph import ValueGraph

_MAX_NOTES = 20
_STATISTICS = (
    "size_bytes", "executions", "total_bytes", "first", "last_exclusive", "repeated", "unit_stride", "strided",
    "irregular",
)  # fmt: skip
"""Fields of `OperationStatistics`, in the order of `MemoryOperation`."""


_MOST_BLOCKS_IN_WINDOWS = 10_000
"""Of a program whose dependences are looked for without being asked for."""


def _is_too_large(dependences: RawDependences, blocks: Sequence[Block]) -> bool:
    return dependences.in_windows and len(blocks) > _MOST_BLOCKS_IN_WINDOWS


def analyse(raw: RawTrace, statistics: OperationStatistics, arch: str, bursts: BurstCounts | None = None) -> Analysis:
    """Relate what ran to basic blocks, functions, source lines, loops and idioms.

    `statistics` are those of the raw operations. Where accesses were recorded in `bursts`, they are scaled to the run.

    Raises:
        ProgramError: the instructions of `arch` cannot be decoded.
    """
    instruction_set = isa.load(arch)
    blocks = find_basic_blocks(raw, instruction_set)
    places = _Places(raw, blocks)
    forest = find_loops(blocks, places.function_numbers())
    merged, of_bursts = _statistics(blocks, statistics, bursts)
    sites = places.sites(blocks.operation_instruction)
    indirections = IdiomFinder(blocks, forest, instruction_set, merged, sites).find()
    signature_blocks = _blocks(blocks, places, forest)
    # Any call may change what calls may: looking into them takes longer than all the rest, in large programs.
    functions = places.function_numbers()
    values = ValueGraph(blocks, forest, instruction_set, functions, range(len(functions)))
    access_idioms = AccessIdioms(
        blocks, forest, instruction_set, merged, sites, functions, [block.function for block in signature_blocks],
        indirections, values,
    ).find()  # fmt: skip
    given_up = []
    if indirections.loops_given_up:
        given_up.append(f"{indirections.loops_given_up} loops were too entangled to search for gathers and scatters")
    loops = tuple(_loop(number, blocks, places, forest) for number in range(len(forest.loops)))
    maker = _tree(raw, blocks, signature_blocks, loops)
    tree = maker.tree() if maker else None
    found = Found()
    examined = raw.dependences
    if maker and tree is not None and examined is not None and not _is_too_large(examined, signature_blocks):
        nodes = maker.loop_nodes(examined.loops[:, :3].tolist())
        indirect = {operation for idiom in indirections.idioms for operation in idiom.operations}
        found = find_dependences(
            examined, nodes, tree, blocks, forest, instruction_set, signature_blocks,
            functions, fixed_operations(merged), indirect, values, in_windows=examined.in_windows,
        )  # fmt: skip
    return Analysis(
        blocks=signature_blocks,
        operations=_operations(blocks, places, merged, sites, indirections),
        loops=loops,
        idioms=(*indirections.idioms, *access_idioms),
        edges=blocks.edges,
        operation_map=blocks.operation_map,
        block_map=blocks.block_map,
        decoded_share=_decoded_share(blocks),
        paths=find_paths(raw.paths, blocks, instruction_set),
        tree=tree,
        data_flow=_data_flow(raw, blocks, maker, tree, places) if maker and tree else None,
        dependences=found.dependences,
        examined_loops=found.examined,
        sampled_work=_sampled_work(raw, maker, tree),
        notes=(*places.notes(), *given_up, *of_bursts, *_hidden_accesses(blocks), *found.notes),
    )


def _statistics(
    blocks: BasicBlocks, statistics: OperationStatistics, bursts: BurstCounts | None
) -> tuple[OperationStatistics, list[str]]:
    """Those of the memory operations, and notes on them."""
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


class _Places:
    """Where each instruction and block comes from: module, link-time address, function, file and line."""

    def __init__(self, raw: RawTrace, blocks: BasicBlocks) -> None:
        self._blocks = blocks
        self._map = ModuleMap(raw.maps, raw.guest_base)
        self._symbols: dict[str, Symbols] = {}
        self.module_paths: list[str] = []
        self.module_of, self.offsets = self._locate(blocks.addresses)
        starts = blocks.first[:-1]
        self.functions = list(map(self._function, self.modules(starts), self.offsets[starts].tolist()))
        self.paths: list[str] = []
        self.files = np.full(len(self.offsets), -1, np.int32)
        self.lines = np.zeros(len(self.offsets), np.int32)
        self._first_lines: dict[tuple[str, int], tuple[int, int]] = {}
        self._tables: dict[str, tuple[int, LineTable]] = {}
        self._find_lines()

    def variables(self) -> list[Variable]:
        """The static variables of all modules with code that ran, by guest address. What a module has mapped nowhere,
        such as memory that is 0 at first, lies as far from its code as in the file."""
        found: list[Variable] = []
        for path, symbols in self._symbols.items():
            mapping = self._map.first_of(path)
            link_address = symbols.link_address(mapping.file_offset) if mapping else None
            if mapping is None or link_address is None:
                continue
            moved = mapping.start - link_address
            found += [Variable(one.name, one.start + moved, one.end + moved) for one in symbols.variables()]
        return found

    def call_sites(self, returns: Sequence[int]) -> list[Site]:
        """Where the calls are that return to some addresses."""
        addresses = np.array(returns, np.uint64)
        calls = addresses - np.minimum(addresses, np.uint64(1))
        found = [Site("", "", 0)] * len(returns)
        for mapping, indices in self._map.find_all(calls):
            symbols = self._symbols.get(mapping.path) if mapping is not None else None
            if mapping is None or symbols is None:
                continue
            offsets = symbols.link_addresses(calls[indices] - np.uint64(mapping.start) + np.uint64(mapping.file_offset))
            _, table = self._tables.get(mapping.path, (0, EMPTY))
            files, lines = table.find(offsets)
            for at, offset, file, line in zip(
                indices.tolist(), offsets.tolist(), files.tolist(), lines.tolist(), strict=True
            ):
                function = symbols.function(offset)
                name = function.name if function else ""
                found[at] = Site(name, table.paths[file], line) if file >= 0 and line > 0 else Site(name, "", 0)
        return found

    def _locate(self, addresses: Counts) -> tuple[Ints, Counts]:
        """Module (position in `module_paths`) and link-time address of each address."""
        numbers: dict[str, int] = {}
        module_of, offsets = np.zeros(len(addresses), np.int64), addresses.copy()
        for mapping, indices in self._map.find_all(addresses):
            path = UNMAPPED if mapping is None else mapping.path
            module_of[indices] = numbers.setdefault(path, len(numbers))
            if mapping is None:
                continue
            in_file = addresses[indices] - np.uint64(mapping.start) + np.uint64(mapping.file_offset)
            if path.startswith("/"):
                if path not in self._symbols:
                    self._symbols[path] = Symbols(path)
                in_file = self._symbols[path].link_addresses(in_file)
            offsets[indices] = in_file
        self.module_paths.extend(numbers)
        return module_of, offsets

    def modules(self, instructions: Ints) -> list[str]:
        """Path of the module of each instruction, or what it is called."""
        return [self.module_paths[number] for number in self.module_of[instructions].tolist()]

    def _function(self, module: str, offset: int) -> Function | None:
        symbols = self._symbols.get(module)
        return symbols.function(offset) if symbols else None

    def _find_lines(self) -> None:
        """Look up the lines of all instructions, and of the functions' first ones, module by module."""
        entries: dict[str, set[int]] = {}
        for module, function in zip(self.modules(self._blocks.first[:-1]), self.functions, strict=True):
            if function is not None:
                entries.setdefault(module, set()).add(function.start)
        for number, module in enumerate(self.module_paths):
            symbols = self._symbols.get(module)
            if symbols is None:
                continue
            here = np.flatnonzero(self.module_of == number)
            starts = np.array(sorted(entries.get(module, ())), np.uint64)
            table = symbols.lines(np.concatenate([self.offsets[here], starts]))
            base = len(self.paths)
            self._tables[module] = (base, table)
            self.paths.extend(table.paths)
            files, lines = table.find(self.offsets[here])
            self.files[here] = np.where(files >= 0, files + base, -1)
            self.lines[here] = lines
            for start in starts.tolist():
                file, line = table.find_first(start)
                if file >= 0:
                    self._first_lines[module, start] = (file + base, line)

    def sites(self, instructions: Ints) -> list[tuple[str, int]]:
        """File and line of each instruction; empty and 0 if unknown."""
        files, lines = self.files[instructions].tolist(), self.lines[instructions].tolist()
        pairs = zip(files, lines, strict=True)
        return [(self.paths[file], line) if file >= 0 and line > 0 else ("", 0) for file, line in pairs]

    def function_name(self, block: int) -> str:
        """Name of a block's function; empty if unknown."""
        function = self.functions[block]
        return function.name if function else ""

    def function_numbers(self) -> list[int]:
        """A number for the function of each block. The part that a compiler moved out of its way has the same."""
        numbers: dict[tuple[str, str], int] = {}
        keys = [
            (module, self.function_name(block).removesuffix(".cold"))
            for block, module in enumerate(self.modules(self._blocks.first[:-1]))
        ]
        return [numbers.setdefault(key, len(numbers)) for key in keys]

    def loop_site(self, header: int, members: Sequence[int]) -> tuple[str, int]:
        """File and line at which a reader of the source looks for a loop: where its statement begins.

        That is the smallest line among the loop's instructions, in the file of its function and after the function's
        own line: lines before that belong to functions expanded in line.
        """
        start = int(self._blocks.first[header])
        file, line = int(self.files[start]), int(self.lines[start])
        module = self.module_paths[int(self.module_of[start])]
        table = self._tables.get(module)
        if table is None:
            return "", 0
        base, rows = table
        candidates: set[tuple[int, int]] = set()
        with_code: set[tuple[int, int]] = set()
        for block in members:
            begin, last = int(self.offsets[self._blocks.first[block]]), int(self._blocks.first[block + 1]) - 1
            end = int(self.offsets[last]) + len(self._blocks.codes[last])
            candidates.update(
                (number + base, at) for number, at in rows.statements(begin, end, from_code=block == header)
            )
            inside = slice(int(self._blocks.first[block]), last + 1)
            with_code.update(zip(self.files[inside].tolist(), self.lines[inside].tolist(), strict=True))
        # Statements without code at the header's very start may come before the loop, but not if it has code of them.
        begin = int(self.offsets[start])
        at_start = rows.statements(begin, begin + 1)
        candidates.update(with_code.intersection((number + base, at) for number, at in at_start))
        function = self.functions[header]
        own = self._first_lines.get((module, function.start)) if function else None
        if own is not None:
            lines = [at for number, at in candidates if number == own[0] and at >= own[1]]
            if lines:
                return self.paths[own[0]], min(lines, key=lambda at: (at == own[1], at))
        lines = [at for number, at in candidates if number == file and at > 0]
        if file < 0:
            return "", 0
        return self.paths[file], min(lines, default=line)

    def notes(self) -> tuple[str, ...]:
        """What a reader of the signature has to know about what was not found."""
        notes = [note for symbols in self._symbols.values() for note in symbols.notes]
        if self._map.damaged_lines:
            notes.append(f"memory map: {self._map.damaged_lines} lines could not be read")
        if len(notes) > _MAX_NOTES:
            notes[_MAX_NOTES:] = [f"{len(notes) - _MAX_NOTES} more such notes"]
        return tuple(notes)


def _blocks(blocks: BasicBlocks, places: _Places, forest: LoopForest) -> tuple[Block, ...]:
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


def _data_flow(
    raw: RawTrace, basic: BasicBlocks, maker: CodeTree, tree: ExecutionTree, places: _Places
) -> DataFlow | None:
    if raw.flow is None:
        return None
    block_of = basic.block_of[basic.operation_instruction][basic.operation_map]
    nodes = maker.nodes_of(raw.flow.places(block_of.tolist()))
    return data_flow_of(raw, nodes, places_of(tree), places.variables(), places.call_sites)


def _operation_counts(blocks: BasicBlocks) -> list[tuple[OperationCount, ...]]:
    """Of each block, how many instructions of each kind it has."""
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
    places: _Places,
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


def _loop(number: int, blocks: BasicBlocks, places: _Places, forest: LoopForest) -> Loop:
    loop = forest.loops[number]
    file, line = places.loop_site(loop.header, sorted(loop.blocks))
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
    )


def _hidden_accesses(blocks: BasicBlocks) -> list[str]:
    """What the engine could not see, as a note."""
    hidden = _executions(blocks, [kind.hides_access for kind in blocks.classes])
    what = "instructions that set whole cache lines to zero (DC ZVA), which QEMU does not show as stores"
    return [f"not among the stores: {hidden} executions of {what}"] if hidden else []


def _decoded_share(blocks: BasicBlocks) -> float:
    """Share of the executed instructions that could be decoded."""
    total = _executions(blocks, [True for _ in blocks.classes])
    unknown = _executions(blocks, [kind.kind is OperationKind.UNKNOWN for kind in blocks.classes])
    return 1.0 - unknown / total if total else 1.0


def _executions(blocks: BasicBlocks, of_class: Sequence[bool]) -> int:
    """How often instructions of some classes were executed."""
    those = np.array(of_class, bool)[blocks.class_of]
    numbers = np.bincount(blocks.block_of[those], minlength=blocks.num_blocks).tolist()
    return sum(number * count for number, count in zip(numbers, blocks.executions.tolist(), strict=True) if number)
