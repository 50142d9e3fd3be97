"""Analyses the Python agent's recording of a run into the typed records of its signature.

A block of Python is a run of bytecode that belongs to one line. The agent reports two more kinds: the entry of a
function, which runs at each call, and the resumption of a block after a call it made (without instructions), which here
becomes the block itself again.

An array operation is a loop of its own kind, in the loop of the line that ran it. Its blocks run once for each point of
its iteration space; `module` names the operation ("numpy.add"). What reads or writes a single element (`a[i]`) is no
loop but an access of the line's own block; where its index came out of an array, it is a gather or scatter of the loop
around the line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.cache_sim.base.results import OperationStatistics
from foretrace.tracer.analysis.access_order import Access
from foretrace.tracer.analysis.data_flow.node_flow import data_flow_of
from foretrace.tracer.analysis.execution_tree.lock_lines import with_lines_of_release
from foretrace.tracer.analysis.execution_tree.python_tree import PythonTree
from foretrace.tracer.analysis.execution_tree.sampled_work import sampled_work
from foretrace.tracer.analysis.loops import LoopForest, nest_loops
from foretrace.tracer.analysis.result import Analysis
from foretrace.tracer.reader.raw_trace import RawArrayOperation, RawPythonBlock, RawTrace
from foretrace.tracer.sampling.bursts import BurstCounts
from foretrace.tracer.sampling.estimate import scaled_to_run
from foretrace.tracer.signature.data_flow_records import DataFlow
from foretrace.tracer.signature.linear_algebra import LinearRoutine
from foretrace.tracer.signature.records import (
    ArrayTime,
    Block,
    Idiom,
    IdiomKind,
    InterpreterTime,
    LinearAlgebra,
    Loop,
    MemoryOperation,
    OperationCount,
    OperationKind,
)

from .array_idioms import idioms_of
from .array_names import sites_of_arrays
from .compiled import CompiledCalls, CompiledLoops, by_time, compiled_calls
from .dependences import Found, find_dependences
from .linear_algebra import linear_algebra

_ELEMENT_METHODS = ("__getitem__", "__setitem__", "item")
"""Methods that read or write a single element of any type. Each execution is one point."""

_OF_MASK = ("(mask)", "(picked)")
"""Record of a subscript by a mask of the array's shape: its passes over the mask, and the elements."""

_FLOP_KINDS = {
    "multiply": OperationKind.FP_MUL,
    "square": OperationKind.FP_MUL,
    "divide": OperationKind.FP_DIV,
    "reciprocal": OperationKind.FP_DIV,
    "floor_divide": OperationKind.FP_DIV,
    "remainder": OperationKind.FP_DIV,
    "fmod": OperationKind.FP_DIV,
    "sqrt": OperationKind.FP_SQRT,
}
"""Operation kinds by the ufunc's name; all other ufuncs count as additions."""

_PRODUCTS = frozenset(
    {"dot", "inner", "vdot", "matmul", "matvec", "vecmat", "vecdot", "csr_matvec", "csr_matvecs", "csc_matvec",
     "csc_matvecs"}
)  # fmt: skip
"""Their flops come in pairs, a multiplication and an addition to the sum."""


BLOCK_LINES, LIST_ELEMENT_LINES, ELEMENT_LINES, ARRAY_LINES = 0.08, 0.25, 0.45, 4.0
"""Lines of overhead: of recording a block, and of recording each element that it accesses, of a list or of
another container, and each array operation: in lines (`foretrace/base/python_line.py`), as it is the interpreter's work
for the most part. Reading the clock is not in it. In CPython 3.11, over 37 loops: 0.05 to 0.16 for the first, 0.18 to
0.43 and 0.4 to 0.5 for the elements."""


def analyse(
    raw: RawTrace,
    statistics: OperationStatistics,
    round_lines: float | None = None,
    bursts: BurstCounts | None = None,
) -> Analysis:
    """Relate the executed code to functions, lines, loops and idioms.

    `statistics` are those of the raw operations; each becomes one operation of the result. `round_lines` is how many
    lines of `foretrace/base/python_line.py` take as long as a round of those that the agent runs; without it times are
    left out. Where accesses were recorded in `bursts`, `statistics` are scaled to the run.
    """
    if bursts is not None and bursts.gaps:
        statistics = _scaled_to_run(raw, statistics, bursts)
    code = _Code(raw)
    arrays = _Arrays(raw, code, statistics)
    timed = tuple(_interpreter_times(code, arrays, round_lines))
    executions = [block.executions for block in code.raw_blocks]
    taken = {time.block_id: time.lines * executions[time.block_id] for time in timed}
    calls = compiled_calls(raw.compiled, raw.native_threads_rounds, code.number, taken, round_lines)
    compiled = CompiledLoops(calls, code.raw_blocks, arrays.next_block, arrays.next_loop)
    blocks = (*code.blocks(), *arrays.blocks(), *compiled.blocks())
    loops = _in_order(code, arrays, compiled)
    operations = tuple(_operation(number, raw, arrays, statistics) for number in range(len(raw.operation_array)))
    maker = None if raw.tree is None else PythonTree(raw.tree, code.own_number, blocks, loops)
    tree = None if maker is None else with_lines_of_release(maker.tree())
    found = Found()
    if maker is not None and tree is not None and raw.dependences is not None:
        found = find_dependences(
            raw.dependences, maker.loop_nodes(raw.dependences.loops[:, :3].tolist()), tree, raw.array_operations,
            raw.operation_array.tolist(), [_line_of(raw, arrays, n) for n in range(len(raw.operation_array))],
            arrays.index_operation, arrays.loop_of,
        )  # fmt: skip
    return Analysis(
        blocks=blocks,
        operations=operations,
        loops=loops,
        idioms=tuple(arrays.idioms),
        edges=code.edges,
        operation_map=np.arange(len(raw.operation_array), dtype=np.int64),
        notes=(*_matrix_product_notes(raw), *found.notes),
        interpreter_times=(*_without(timed, compiled, executions), *compiled.times()),
        array_times=() if round_lines is None else tuple(arrays.times(round_lines)),
        linear_algebra=arrays.linear_algebra,
        unseen_time_share=_unseen_share(code, taken, calls, round_lines),
        unseen_functions=by_time(calls),
        tree=tree,
        data_flow=None if maker is None else _data_flow(raw, maker, operations),
        sampled_work=()
        if maker is None or tree is None
        else tuple(sampled_work(maker, tree, samples, maker.leaf_shares()) for samples in raw.event_samples),
        dependences=found.dependences,
        examined_loops=found.examined,
    )


def _data_flow(raw: RawTrace, maker: PythonTree, operations: Sequence[MemoryOperation]) -> DataFlow | None:
    if raw.flow is None:
        return None
    nodes = maker.nodes_of(raw.flow.places([operation.block_id for operation in operations]))
    return data_flow_of(raw, nodes, sites_of=sites_of_arrays(raw.python_blocks))


def _unseen_share(
    code: _Code, taken: Mapping[int, float], calls: Sequence[CompiledCalls], round_lines: float | None
) -> float | None:
    """Share of unseen compiled code in the time of all blocks, recorded array operations and native threads."""
    if round_lines is None or not taken:
        return None
    arrays = sum(b.array_rounds * b.executions / b.timed for b in code.raw_blocks if b.timed) * 1e-6 * round_lines
    native = sum(call.lines for call in calls if call.is_beside)
    whole = sum(taken.values()) + arrays + native
    return sum(call.lines for call in calls) / whole if whole else 0.0


def _scaled_to_run(raw: RawTrace, statistics: OperationStatistics, bursts: BurstCounts) -> OperationStatistics:
    """An array operation accesses each of its operands once at each point, and all its points were counted."""
    points = np.array([0, *(operation.points for operation in raw.array_operations)], np.uint64)
    executions = points[raw.operation_array]
    recorded = statistics.executions
    return scaled_to_run(statistics, recorded=recorded, executions=executions, in_parts=bursts.in_parts)


class _Code:
    """The blocks of bytecode, numbered from 0, and the loops they form."""

    def __init__(self, raw: RawTrace) -> None:
        own = [block for block in raw.python_blocks if block.instructions > 0]
        self.raw_blocks: Sequence[RawPythonBlock] = own
        by_place = {(block.code_id, block.offset_bytes): number for number, block in enumerate(own)}
        self.number: dict[int, int] = {block.block_id: number for number, block in enumerate(own)}
        self.own_number = dict(self.number)
        resumptions = set()
        for block in raw.python_blocks:
            if block.instructions == 0 and (block.code_id, block.offset_bytes) in by_place:
                self.number[block.block_id] = by_place[block.code_id, block.offset_bytes]
                resumptions.add(block.block_id)
        across = resumptions | {block.block_id for block in own if block.offset_bytes == 0}
        edges: list[list[int]] = raw.edges.tolist()
        self.edges = self._joined(edges)
        flow = self._joined([edge for edge in edges if edge[1] not in across])  # neither calls nor returns
        within = [
            (source, target, count)
            for source, target, count in flow.tolist()
            if own[source].code_id == own[target].code_id
        ]
        self.forest: LoopForest = nest_loops(within, [block.executions for block in own])

    def _joined(self, edges: Iterable[Sequence[int]]) -> npt.NDArray[np.uint64]:
        counts: dict[tuple[int, int], int] = {}
        for source, target, count in edges:
            if source in self.number and target in self.number:
                key = self.number[source], self.number[target]
                counts[key] = counts.get(key, 0) + int(count)
        rows = [(source, target, count) for (source, target), count in sorted(counts.items())]
        return np.array(rows, np.uint64).reshape(-1, 3)

    def loop_of(self, number: int) -> int | None:
        """The innermost loop around a block."""
        loop = int(self.forest.innermost[number])
        return loop if loop >= 0 else None

    def blocks(self) -> Iterable[Block]:
        """Records of the blocks."""
        for number, block in enumerate(self.raw_blocks):
            yield Block(
                block_id=number,
                module=block.file,
                offset=block.offset_bytes,
                function=block.function,
                file=block.file,
                line=block.line,
                loop_id=self.loop_of(number),
                executions=block.executions,
                instructions=block.instructions,
                operations=(OperationCount(OperationKind.BYTECODE, 0, 1, block.instructions),),
            )

    def loops(self) -> Iterable[Loop]:
        """Loops of the blocks. A loop's line is its first: that of its `for` or `while`."""
        for number, loop in enumerate(self.forest.loops):
            header = self.raw_blocks[loop.header]
            lines = [self.raw_blocks[block].line for block in loop.blocks]
            yield Loop(
                loop_id=number,
                parent_id=loop.parent,
                header_block_id=loop.header,
                module=header.file,
                function=header.function,
                file=header.file,
                line=min((line for line in lines if line > 0), default=0),
                depth=loop.depth,
                entries=loop.entries,
                iterations=loop.iterations,
                order=number,
            )


@dataclass(frozen=True, slots=True)
class _Member:
    """A raw array operation as a block of its loop; or, of a single element, as part of its line's own block."""

    operation: RawArrayOperation
    block: int
    loop: int | None


class _Arrays:
    """The array operations: those of one name at one place in a line are one loop, subscripts with masks apart."""

    def __init__(self, raw: RawTrace, code: _Code, statistics: OperationStatistics) -> None:
        self._code = code
        groups: dict[tuple[int, int, str, bool], int] = {}
        first_block, first_loop = len(code.raw_blocks), len(code.forest.loops)
        n_blocks = 0
        self.members: list[_Member] = []
        for operation in raw.array_operations:
            line = code.number[operation.block_id]
            if operation.name.endswith(_ELEMENT_METHODS) and operation.points == operation.executions:
                self.members.append(_Member(operation, line, code.loop_of(line)))
                continue
            name, _, part = operation.name.partition(" ")
            loop = groups.setdefault((line, operation.site, name, part in _OF_MASK), len(groups)) + first_loop
            self.members.append(_Member(operation, first_block + n_blocks, loop))
            n_blocks += 1
        self.next_block, self.next_loop = first_block + n_blocks, first_loop + len(groups)
        self.first_operation = self._first_operations(raw)
        self._first_address: list[int] = statistics.first.tolist()
        self._by_loop: dict[int | None, list[_Member]] = {}
        for member in self.members:
            self._by_loop.setdefault(member.loop, []).append(member)
        self.linear_algebra = tuple(self._linear_algebra(raw, groups, first_loop))
        self._linear_flops = self._flops_of_linear_algebra()
        self.index_operation: dict[int, int] = {}
        self.idioms: list[Idiom] = []
        self._find_idioms()
        self._find_more(raw, statistics)

    def _linear_algebra(
        self, raw: RawTrace, groups: dict[tuple[int, int, str, bool], int], first_loop: int
    ) -> Iterable[LinearAlgebra]:
        """Calls of linear algebra, in the loops of their accesses. Without elements there are none."""
        for call in raw.linear:
            group = groups.get((self._code.number.get(call.block_id, -1), call.site, call.name, False))
            if group is not None and call.calls:
                yield linear_algebra(call, first_loop + group)

    def _flops_of_linear_algebra(self) -> dict[int, int]:
        """Flops per point of linear algebra whose recorded operations have none, by its loop's most executed block."""
        flops: dict[int, float] = {}
        for record in self.linear_algebra:
            if record.element_type != "integer":
                done = record.calls * record.batch * record.flops
                flops[record.loop_id] = flops.get(record.loop_id, 0.0) + done
        return {
            header.block: round(done / max(header.operation.points, 1))
            for loop, done in flops.items()
            if not any(member.operation.flops_per_point for member in self._by_loop[loop])
            for header in [_header(self._by_loop[loop])]
        }

    def _first_operations(self, raw: RawTrace) -> list[int]:
        """For each array operation, the number of its first operand's memory operation."""
        first = [0] * (len(raw.array_operations) + 1)
        for number in range(len(raw.operation_array) - 1, -1, -1):
            first[int(raw.operation_array[number])] = number
        return first

    def _indices_of(self, member: _Member) -> tuple[int, ...]:
        """The loads of the indices that a member's indexed operands go by: its own, or its loop's."""
        if not self.is_loop(member):
            return self._element_index(member)
        for candidates in ([member], self._by_loop[member.loop]):
            found = tuple(
                self.first_operation[other.operation.array_operation_id] + operand
                for other in candidates
                for operand, one in enumerate(other.operation.operands)
                if one.is_index
            )
            if found:
                return found
        return ()

    def _element_index(self, member: _Member) -> tuple[int, ...]:
        """The element load that an element's index comes from: the last before it on its line, or else in its loop.

        Not that of the same elements, as in a[i] += 1.
        """
        own = self._first_address[self.first_operation[member.operation.array_operation_id]]
        loads = {
            number: other
            for other in self._by_loop[member.loop]
            if not self.is_loop(other) and not other.operation.operands[0].is_store
            if self._first_address[number := self.first_operation[other.operation.array_operation_id]] != own
        }
        before = [n for n, o in loads.items() if o.block == member.block and o.operation.site < member.operation.site]
        return (max(before, key=lambda number: loads[number].operation.site),) if before else tuple(loads)

    def _find_idioms(self) -> None:
        for member in self.members:
            operation = member.operation
            if member.loop is None or not any(one.is_indexed for one in operation.operands):
                continue
            indices = self._indices_of(member)
            line = self._code.raw_blocks[self._code.number[operation.block_id]]
            for operand, one in enumerate(operation.operands):
                if not one.is_indexed:
                    continue
                number = self.first_operation[operation.array_operation_id] + operand
                kind = IdiomKind.SCATTER if one.is_store else IdiomKind.GATHER
                self.idioms.append(Idiom(len(self.idioms), member.loop, kind, line.file, line.line, (number,), indices))
                if indices:
                    self.index_operation[number] = indices[0]

    def _find_more(self, raw: RawTrace, statistics: OperationStatistics) -> None:
        """Idioms beyond gathers and scatters."""
        indexed = {number for idiom in self.idioms for number in idiom.operations}
        routines: dict[int, list[LinearRoutine]] = {}
        for record in self.linear_algebra:
            routines.setdefault(record.loop_id, []).append(record.routine)
        for loop, members in self._by_loop.items():
            if loop is None:
                continue
            accesses, names = [], set()
            for member in members:
                operation = member.operation
                first = self.first_operation[operation.array_operation_id]
                names.add(operation.name)
                for operand, one in enumerate(operation.operands):
                    if not one.is_index:
                        accesses.append(Access.of(statistics, first + operand, is_store=one.is_store))
            line = self.line_of(_header(members))
            for kind, operations in idioms_of(names, routines.get(loop, ()), accesses, indexed):
                self.idioms.append(Idiom(len(self.idioms), loop, kind, line.file, line.line, operations, ()))

    def is_loop(self, member: _Member) -> bool:
        """Whether it is a loop of its own, not an element that its line's block accesses."""
        return member.block >= len(self._code.raw_blocks)

    def loop_of(self, array_id: int) -> int | None:
        """The loop of an array operation, or the one that an element is accessed in."""
        return self.members[array_id - 1].loop if 0 < array_id <= len(self.members) else None

    def line_of(self, member: _Member) -> RawPythonBlock:
        """The block of bytecode that ran a member."""
        return self._code.raw_blocks[self._code.number[member.operation.block_id]]

    def blocks(self) -> Iterable[Block]:
        """A block for each array operation; its instructions are its accesses and its arithmetic."""
        for member in filter(self.is_loop, self.members):
            line = self.line_of(member)
            operations = (*_arithmetic(member.operation), *self._multiplications(member))
            yield Block(
                block_id=member.block,
                module=member.operation.name,
                offset=line.offset_bytes,
                function=line.function,
                file=line.file,
                line=line.line,
                loop_id=member.loop,
                executions=member.operation.points,
                instructions=sum(operation.count for operation in operations),
                operations=operations,
            )

    def times(self, round_lines: float) -> Iterable[ArrayTime]:
        """The time of each block."""
        for member in filter(self.is_loop, self.members):
            line = self.line_of(member)
            all_executions = line.executions / line.timed if line.timed else 1.0
            yield ArrayTime(
                block_id=member.block,
                operand_types=",".join(_type_name(one.kind, one.size_bytes) for one in member.operation.operands),
                lines=1e-6 * member.operation.rounds * round_lines * all_executions,
                faults=member.operation.faults * all_executions,
                kept_calls=member.operation.kept_calls,
            )

    def _multiplications(self, member: _Member) -> Iterable[OperationCount]:
        """Arithmetic of linear algebra: half of the flops are multiplications, half additions."""
        flops = self._linear_flops.get(member.block, 0)
        bits = _element_bits(member.operation)
        for kind, count in ((OperationKind.FP_MUL, flops // 2), (OperationKind.FP_ADD, flops - flops // 2)):
            if count:
                yield OperationCount(kind, bits, 1, count)

    def loops(self) -> Iterable[Loop]:
        """A loop for each name on each line; its header is the block that ran most."""
        for loop, members in self._by_loop.items():
            if loop is None or not self.is_loop(members[0]):
                continue
            header = _header(members)
            line = self.line_of(header)
            parent = self._code.loop_of(self._code.number[header.operation.block_id])
            yield Loop(
                loop_id=loop,
                parent_id=parent,
                header_block_id=header.block,
                module=_loop_name(header.operation),
                function=line.function,
                file=line.file,
                line=line.line,
                depth=1 if parent is None else self._code.forest.loops[parent].depth + 1,
                entries=max(1, header.operation.executions),
                iterations=header.operation.points,
                order=loop,
                kind="array",
            )


def _header(members: Sequence[_Member]) -> _Member:
    return max(members, key=lambda member: (member.operation.points, -member.block))


def _interpreter_times(code: _Code, arrays: _Arrays, round_lines: float | None) -> Iterable[InterpreterTime]:
    """Times of the timed blocks, without the overhead of recording and timing."""
    if round_lines is None:
        return
    recorded = [0.0] * len(code.raw_blocks)
    of_elements, faults = [0] * len(code.raw_blocks), [0] * len(code.raw_blocks)
    for member in arrays.members:
        number = code.number[member.operation.block_id]
        faults[number] += member.operation.faults
        if arrays.is_loop(member):
            lines = 0.0 if " " in member.operation.name else ARRAY_LINES
        else:
            lines = LIST_ELEMENT_LINES if member.operation.name.startswith("list.") else ELEMENT_LINES
            of_elements[number] += member.operation.rounds
        recorded[number] += lines * member.operation.executions
    for number, block in enumerate(code.raw_blocks):
        if block.executions and (block.timed or block.long_rounds):
            added = BLOCK_LINES + recorded[number] / block.executions
            timed = max(block.timed, 1)
            rounds = 1e-6 * ((block.timed_rounds + of_elements[number]) / timed + block.long_rounds / block.executions)
            lines = max(rounds * round_lines - added, 0.0)
            yield InterpreterTime(number, lines, added, faults[number] / timed)


def _without(
    times: Iterable[InterpreterTime], compiled: CompiledLoops, executions: Sequence[int]
) -> Iterable[InterpreterTime]:
    """Times of blocks, without those of compiled functions that have blocks of their own."""
    for time in times:
        lines = time.lines - compiled.lines_of(time.block_id) / max(executions[time.block_id], 1)
        yield InterpreterTime(time.block_id, max(lines, 0.0), time.recording_lines, time.array_faults)


_TYPES = {"f": "float", "i": "int", "u": "uint", "c": "complex", "b": "bool"}


def _type_name(kind: str, size_bytes: int) -> str:
    """NumPy's name for a type of elements; "-" if the kind is not known."""
    return "bool" if kind == "b" else f"{_TYPES.get(kind, kind)}{8 * size_bytes}" if kind else "-"


def _loop_name(operation: RawArrayOperation) -> str:
    """Operation's name without the part in parentheses: "numpy.ufunc.at" for "numpy.ufunc.at (index check)"."""
    return operation.name.partition(" ")[0]


def _element_bits(operation: RawArrayOperation) -> int:
    return 8 * max((one.size_bytes for one in operation.operands), default=0)


def _arithmetic(operation: RawArrayOperation) -> tuple[OperationCount, ...]:
    """Operation counts per point. The vector width is not known: lanes are 1."""
    stem = _loop_name(operation)
    for method in (".reduce", ".accumulate", ".at", ".outer"):
        stem = stem.removesuffix(method)
    stem = stem.rpartition(".")[2]
    bits = _element_bits(operation)
    flops = operation.flops_per_point
    counts = [OperationCount(OperationKind.MOVE, bits, 1, len(operation.operands))]
    if flops and stem in _PRODUCTS:
        counts.append(OperationCount(OperationKind.FP_MUL, bits, 1, flops // 2))
        counts.append(OperationCount(OperationKind.FP_ADD, bits, 1, flops - flops // 2))
    elif flops:
        counts.append(OperationCount(_FLOP_KINDS.get(stem, OperationKind.FP_ADD), bits, 1, flops))
    if operation.int_ops_per_point:
        counts.append(OperationCount(OperationKind.INT_ALU, bits, 1, operation.int_ops_per_point))
    return tuple(counts)


def _operation(number: int, raw: RawTrace, arrays: _Arrays, statistics: OperationStatistics) -> MemoryOperation:
    member = arrays.members[int(raw.operation_array[number]) - 1]
    line = arrays.line_of(member)
    return MemoryOperation(
        operation_id=number,
        block_id=member.block,
        offset=line.offset_bytes,
        file=line.file,
        line=line.line,
        is_store=member.operation.operands[int(raw.operation_slot[number])].is_store,
        size_bytes=int(statistics.size_bytes[number]),
        executions=int(statistics.executions[number]),
        total_bytes=int(statistics.total_bytes[number]),
        first=int(statistics.first[number]),
        last_exclusive=int(statistics.last_exclusive[number]),
        repeated=int(statistics.repeated[number]),
        unit_stride=int(statistics.unit_stride[number]),
        strided=int(statistics.strided[number]),
        irregular=int(statistics.irregular[number]),
        index_operation=arrays.index_operation.get(number),
        array_operation=member.operation.name,
        execution_range_bytes=int(raw.operation_longest_range[number]) or None,
    )


def _in_order(code: _Code, arrays: _Arrays, compiled: CompiledLoops) -> tuple[Loop, ...]:
    """All loops, each with its rank in the order in which they first ran: that of the blocks they began with."""
    called = compiled.loops(code.loop_of, lambda loop: code.forest.loops[loop].depth)
    loops = (*code.loops(), *arrays.loops(), *called)
    first_ran = {
        loop.loop_id: min(code.forest.loops[loop.loop_id].blocks) if loop.kind == "code" else loop.header_block_id
        for loop in loops
    }
    line_of = {member.block: code.number[member.operation.block_id] for member in arrays.members}
    line_of |= {
        compiled.first_block + position: call.caller
        for position, call in enumerate(compiled.calls)
        if call.caller is not None
    }

    def began(loop: Loop) -> tuple[int, int, int]:
        first = first_ran[loop.loop_id]
        return line_of.get(first, first), loop.depth, loop.loop_id

    rank = {loop.loop_id: position for position, loop in enumerate(sorted(loops, key=began))}
    return tuple(
        Loop(
            loop.loop_id, loop.parent_id, loop.header_block_id, loop.module, loop.function, loop.file, loop.line,
            loop.depth, loop.entries, loop.iterations, rank[loop.loop_id], loop.kind,
        )
        for loop in loops
    )  # fmt: skip


def _line_of(raw: RawTrace, arrays: _Arrays, operation: int) -> tuple[str, int]:
    """File and line of a memory operation."""
    line = arrays.line_of(arrays.members[int(raw.operation_array[operation]) - 1])
    return line.file, line.line


def _matrix_product_notes(raw: RawTrace) -> tuple[str, ...]:
    """Notes on matrix products, recognised by their flops, which are all attributed to the stores of the result."""
    names = {
        o.name for o in raw.array_operations if o.flops_per_point and [one.is_store for one in o.operands] == [True]
    }
    return tuple(f"{name}: of matrices, counts as one pass over each, with all its flops" for name in sorted(names))
