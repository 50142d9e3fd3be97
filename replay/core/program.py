"""A signature's paths as the core model runs them: numbered instructions, and branches with their mispredictions.

Nothing here depends on a machine but for what its core is assumed to have: a branch predictor of the present kind, and
a compare and the branch behind it as one operation. The figures of a core are put in by `core_times`.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from foretrace.tracer.isa.registers import RegisterClass, register_class
from foretrace.tracer.signature.records import Instruction, OperationKind, Signature

from . import _core_model
from .wrong_path import WrongWays

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

INSTRUCTION = np.dtype(
    {
        "names": [
            *("latency", "sooner", "unit_cycles"),
            *("registers", "load", "store"),
            *("unit", "cause", "n_reads", "n_addresses", "n_writes"),
            *("runs_anyway", "is_scheduled", "takes_early", "decoded", "lines"),
        ],
        "formats": [*["f8"] * 3, "u4", "i4", "i4", *["u1"] * 10],
    },
    align=True,
)
BLOCK = np.dtype([(name, "u4") for name in (
    "first", "n_instructions", "first_operation", "n_operations", "first_line", "last_line",
)])  # fmt: skip
BRANCH = np.dtype({"names": ["place", "target", "kind"], "formats": ["u4", "u4", "u1"]}, align=True)
_CONDITIONAL, INDIRECT = 1, 2
_MISSED, _TAKEN, _SECOND_HALF = 1, 2, 4
_LEARNING = 32
"""Executions of a branch in the paths that are skipped as warm-up: a real predictor had learned it long before."""
_IN_REACH = 64
_CODE_LINE_BYTES = 64
"""Bytes of code fetched per cycle: on an AMD EPYC (Zen 3) a loop of three instructions takes one cycle where they lie
in one such line, and two where they lie in two."""
DECODED_AT_ONCE = 8
"""Instructions of one code line in an entry of the micro-op cache: on an AMD EPYC (Zen 3) blocks of 13 in a line each
were dispatched six a cycle where there were 240 of them, and three a cycle where there were 300."""
_NUM_LINES = 1 << 32
"""Modulus of line numbers: only lines of blocks that run one after the other are compared."""
_OF_VECTOR_UNITS = frozenset({RegisterClass.VECTOR, RegisterClass.MASK})
_FUSES = (OperationKind.INT_ALU,)


@dataclass(frozen=True, eq=False)
class CoreProgram:
    """Input of the core model. Block numbers are positions in `block_ids`, operation numbers in `operation_ids`.

    `instructions` INSTRUCTION [instructions], without the figures of a core; `kinds` are their kinds, element bits and
    lanes, `fused` bool whether a core may fuse one with the one before, `crosses` bool whether a value changes the kind
    of register.
    `candidates` float64 [operations]: share of the accesses whose line was not touched a short while before.
    `branches` uint8 and `depends` uint16 [executions] as in core_model.h;
    `missed` float64 [blocks]: share of a block's executions whose branch is mispredicted.
    """

    block_ids: Ints
    operation_ids: Ints
    instructions: npt.NDArray[np.void]
    kinds: Sequence[tuple[OperationKind, int, int]]
    fused: npt.NDArray[np.bool_]
    crosses: npt.NDArray[np.bool_]
    registers: npt.NDArray[np.uint16]
    blocks: npt.NDArray[np.void]
    path: npt.NDArray[np.uint32]
    branches: npt.NDArray[np.uint8]
    depends: npt.NDArray[np.uint16]
    store_distances: npt.NDArray[np.uint16]
    line_distances: npt.NDArray[np.uint16]
    candidates: Floats
    executions: Floats  # [2, blocks] in the paths: those of the first half, and of the second
    missed: Floats

    @functools.cached_property
    def distinct_kinds(self) -> tuple[list[tuple[OperationKind, int, int]], Ints]:
        """The distinct `kinds`, and the position of each instruction's kind among them."""
        position: dict[tuple[OperationKind, int, int], int] = {}
        of_instruction = np.array([position.setdefault(kind, len(position)) for kind in self.kinds], np.int64)
        return list(position), of_instruction

    @functools.cached_property
    def first_half(self) -> CoreProgram:
        """This program reduced to every other path."""
        chosen = self.branches & _SECOND_HALF == 0
        accesses = np.repeat(chosen, self.blocks["n_operations"].astype(np.int64)[self.path])
        return replace(
            self,
            path=self.path[chosen],
            branches=self.branches[chosen],
            depends=self.depends[chosen],
            store_distances=self.store_distances[accesses],
            line_distances=self.line_distances[accesses],
            executions=self.executions * np.array([[1.0], [0.0]]),
        )

    @property
    def fused_per_block(self) -> Floats:
        """[blocks]: instructions that may take no issue slot, because they fuse with the one before."""
        fused = np.concatenate([[0], np.cumsum(self.fused)])
        first, count = (
            self.blocks["first"].astype(np.int64),
            self.blocks["n_instructions"].astype(np.int64),
        )
        return np.asarray(fused[first + count] - fused[first], np.float64)

    @classmethod
    def of(cls, signature: Signature) -> CoreProgram | None:
        """The paths of a signature; None if it has none."""
        paths = signature.paths
        if not len(paths.blocks):
            return None
        block_ids, path = np.unique(paths.blocks.astype(np.int64), return_inverse=True)
        operations = _operations(signature, block_ids)
        first_operation = np.cumsum([0, *(len(of_block) for of_block in operations)])
        table = _InstructionTable(_Registers(signature.provenance.guest))
        blocks = np.zeros(len(block_ids), BLOCK)
        decoded: list[int] = []  # by each instruction
        lines_begun: list[int] = []  # by each instruction, beyond what is before it
        for number, block_id in enumerate(block_ids.tolist()):
            positions = {operation: position for position, operation in enumerate(operations[number])}
            first = len(table.rows)
            for one in paths.instructions[block_id]:
                table.add(one, positions, is_first=len(table.rows) == first)
            counts = len(table.rows) - first, first_operation[number], len(operations[number])
            lines = _code_lines(signature, block_id)
            blocks[number] = first, *counts, *(lines[[0, -1]] % _NUM_LINES)
            lines_begun += np.minimum(np.diff(lines), 255).tolist()
            decoded += _decoded(lines[1:], table.fused[first:])
        second = np.repeat(np.arange(len(paths.starts) - 1) % 2 == 1, np.diff(paths.starts))
        flags, missed = _branches(signature, block_ids, path, paths.starts)
        of_block = [paths.instructions[block_id] for block_id in block_ids.tolist()]
        outside = _Outside(signature, block_ids)
        ways = WrongWays.of(path, flags & _MISSED != 0, paths.starts, dict(enumerate(of_block)), outside.of)
        instructions = np.array(table.rows, INSTRUCTION)
        instructions["runs_anyway"] = [
            ways.runs_anyway(number, one) for number, block in enumerate(of_block) for one in block
        ]
        instructions["decoded"] = decoded
        instructions["lines"] = lines_begun
        executions = np.stack([np.bincount(path[second == half], minlength=len(block_ids)) for half in (False, True)])
        operation_ids = np.array([operation for of_block in operations for operation in of_block], np.int64)
        return cls(
            block_ids=block_ids,
            operation_ids=operation_ids,
            instructions=instructions,
            kinds=table.kinds,
            fused=np.array(table.fused, bool),
            crosses=np.array(table.crosses, bool),
            registers=np.array(table.registers, np.uint16),
            blocks=blocks,
            path=path.astype(np.uint32),
            depends=ways.depends,
            branches=flags | np.where(second, _SECOND_HALF, 0).astype(np.uint8),
            store_distances=paths.store_distances,
            line_distances=paths.line_distances,
            candidates=_candidates(blocks, path, paths.line_distances, len(operation_ids)),
            executions=executions.astype(np.float64),
            missed=missed,
        )


class _Outside:
    """Finds the blocks that run only after the innermost loop around a given block has exited."""

    def __init__(self, signature: Signature, block_ids: Ints) -> None:
        """Take the blocks with these ids; blocks are numbered by their positions among them."""
        blocks = [signature.blocks[block_id] for block_id in block_ids.tolist()]
        self._loop_of = [block.loop_id for block in blocks]
        functions: dict[tuple[str, str], int] = {}
        numbers = [functions.setdefault((block.module, block.function), len(functions)) for block in blocks]
        self._function = np.array(numbers, np.int64)
        self._inside: dict[int, list[int]] = defaultdict(list)
        for number, loop in enumerate(self._loop_of):
            while loop is not None:
                self._inside[loop].append(number)
                loop = signature.loops[loop].parent_id

    def of(self, block: int) -> npt.NDArray[np.bool_]:
        """Blocks of the same function that are not in the loop of `block`; none where it is in no loop."""
        loop = self._loop_of[block]
        if loop is None:
            return np.zeros(len(self._loop_of), bool)
        outside = np.asarray(self._function == self._function[block], bool)
        outside[self._inside[loop]] = False
        return outside


def _operations(signature: Signature, block_ids: Ints) -> list[list[int]]:
    """The memory operations of each of the blocks, in the order of their ids."""
    of_block: dict[int, list[int]] = {block_id: [] for block_id in block_ids.tolist()}
    for operation in signature.operations:
        if operation.block_id in of_block:
            of_block[operation.block_id].append(operation.operation_id)
    return list(of_block.values())


def _code_lines(signature: Signature, block_id: int) -> Ints:
    """Numbers of the code lines in which a block begins and in which each of its instructions ends."""
    lengths = [one.length_bytes for one in signature.paths.instructions[block_id]]
    ends = signature.blocks[block_id].offset % (_NUM_LINES * _CODE_LINE_BYTES) + np.cumsum([1, *lengths]) - 1
    return np.concatenate((ends[:1], np.maximum(ends[1:] - 1, ends[0]))) // _CODE_LINE_BYTES


def _decoded(lines: Ints, fused: Sequence[bool]) -> list[int]:
    """Sizes of the decode groups of a block, at the first instruction of each group; 0 at the others.

    A group is at most 8 instructions of one line of code. An instruction fused with the one before is not counted.
    """
    result, first = [0] * len(lines), 0
    for number in range(len(lines)):
        if lines[number] != lines[first] or (result[first] == DECODED_AT_ONCE and not fused[number]):
            first = number
        result[first] += not fused[number]
    return result


class _InstructionTable:
    """Collects instructions in sequence, with numbered registers."""

    def __init__(self, registers: _Registers) -> None:
        self._of = registers
        self.rows: list[tuple[float | int, ...]] = []
        self.kinds: list[tuple[OperationKind, int, int]] = []
        self.fused: list[bool] = []
        self.crosses: list[bool] = []
        self.registers: list[int] = []
        self._numbers: dict[str, int] = {}
        self._before: Instruction | None = None

    def add(self, one: Instruction, positions: dict[int, int], *, is_first: bool) -> None:
        load, store = (
            -1 if operation is None else positions.get(operation, -1)
            for operation in (one.load_operation, one.store_operation)
        )
        first = len(self.registers)
        groups = [names[:255] for names in (one.reads, one.addresses, one.writes)]
        self.registers += [self._number(name) for names in groups for name in names]
        counts = [len(names) for names in groups]
        self.rows.append((*[0] * 3, first, load, store, 0, 0, *counts, False, 0, 0, 0, 0))
        self.kinds.append((one.kind, one.element_bits, one.lanes))
        self.crosses.append(self._of.crosses(one))
        before = None if is_first else self._before
        self.fused.append(
            one.flow == "branch" and before is not None and before.kind in _FUSES and "flags" in before.writes
        )
        self._before = one

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers) % _core_model.NUM_REGISTERS)


class _Registers:
    """Classifies the registers that instructions of one instruction set use."""

    def __init__(self, instruction_set: str) -> None:
        self._instruction_set = instruction_set

    def _uses_vector_units(self, name: str) -> bool:
        return register_class(self._instruction_set, name) in _OF_VECTOR_UNITS

    def crosses(self, one: Instruction) -> bool:
        """Whether a value moves between registers of the vector units and the others or the flags."""
        sources = {self._uses_vector_units(name) for name in one.reads}
        results = {self._uses_vector_units(name) for name in one.writes}
        return bool(sources and results) and sources.isdisjoint(results)


def _candidates(
    blocks: npt.NDArray[np.void], path: Ints, line_distances: npt.NDArray[np.uint16], num_operations: int
) -> Floats:
    """Share of each operation's accesses whose line was not touched by one of the last few accesses."""
    counts = blocks["n_operations"].astype(np.int64)[path]
    starts = np.cumsum(counts) - counts
    operation = np.repeat(blocks["first_operation"].astype(np.int64)[path] - starts, counts) + np.arange(
        len(line_distances)
    )
    far = (line_distances == 0) | (line_distances > _IN_REACH)
    all_of_it = np.bincount(operation, minlength=num_operations)
    return np.bincount(operation, weights=far, minlength=num_operations) / np.maximum(all_of_it, 1)


def _branches(signature: Signature, block_ids: Ints, path: Ints, starts: Ints) -> tuple[npt.NDArray[np.uint8], Floats]:
    """Flags of each execution, whether its branch was taken and mispredicted; and each block's misprediction rate."""
    lasts = [signature.paths.instructions[block_id][-1] for block_id in block_ids.tolist()]
    lengths = [sum(one.length_bytes for one in signature.paths.instructions[b]) for b in block_ids.tolist()]
    blocks = [signature.blocks[block_id] for block_id in block_ids.tolist()]
    begin = np.array([block.offset for block in blocks], np.uint64)
    end = begin + np.array(lengths, np.uint64)
    modules = np.unique([block.module for block in blocks], return_inverse=True)[1]
    kind = np.array([branch_kind(one) for one in lasts], np.uint8)
    following = np.roll(path, -1)
    taken = (begin[following] != end[path]) | (modules[following] != modules[path])
    cut = starts[1:] - 1  # what comes after a path's last execution is not known
    taken[cut] = False
    kinds = kind[path]
    kinds[cut] = 0
    records = np.zeros(len(path), BRANCH)
    records["place"] = path
    records["target"] = np.where(kinds == INDIRECT, following, taken)
    records["kind"] = kinds
    missed = np.zeros(len(path), np.uint8)
    _core_model.predict_branches(records.tobytes(), missed)
    missed[_occurrence(path) < _LEARNING] = 0
    share = np.bincount(path, weights=missed, minlength=len(block_ids)) / np.maximum(np.bincount(path), 1)
    return missed * _MISSED | taken * np.uint8(_TAKEN), share


def branch_kind(last: Instruction) -> int:
    """Prediction class of a block's last instruction: conditional, indirect or none, numbered as in branches.h."""
    if last.flow == "branch":
        return _CONDITIONAL
    is_call_to_register = last.flow == "call" and (last.load_operation is not None or bool(last.reads))
    return INDIRECT if last.flow == "indirect_jump" or is_call_to_register else 0


def _occurrence(path: Ints) -> Ints:
    """Number of earlier executions of the same block, for each position of the path."""
    order = np.argsort(path, kind="stable")
    ordered = path[order]
    position = np.arange(len(path))
    is_new = np.ones(len(path), bool)
    is_new[1:] = ordered[1:] != ordered[:-1]
    first = np.maximum.accumulate(np.where(is_new, position, 0))
    result = np.empty(len(path), np.int64)
    result[order] = position - first
    return result
