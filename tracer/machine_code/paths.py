"""Stretches of a run as they went, for who wants to know in what order things happened and what waited for what.

The engine's blocks become basic blocks, and its addresses become distances: how long ago the same bytes were stored,
and the same line was touched. Beside them stand the instructions of the blocks, with the registers they use.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from foretrace.tracer.raw_trace import RawPath
from foretrace.tracer.signature import NO_PATHS, Instruction, Paths

from .basic_blocks import BasicBlocks
from .isa import DataFlow, Flow, Isa

Ints = npt.NDArray[np.int64]
Names = tuple[str, ...]

WORD_BYTES, LINE_BYTES_SHIFT = 8, 6  # wide accesses come in words, a line has 64 bytes
_FARTHEST = (1 << 16) - 1
_FLOWS = ["" if flow is Flow.FALLTHROUGH else flow.name.lower() for flow in Flow]


def find_paths(raw_paths: Sequence[RawPath], blocks: BasicBlocks, isa: Isa) -> Paths:
    """The paths that an engine's stream was sampled in, told in basic blocks."""
    operations = _Operations(blocks)
    found = [_path(raw, blocks, operations) for raw in raw_paths]
    found = [path for path in found if len(path[0])]
    if not found:
        return NO_PATHS
    executed = np.concatenate([path[0] for path in found])
    used = np.flatnonzero(np.bincount(executed)).tolist()
    registers = Registers(isa)
    return Paths(
        starts=np.cumsum([0, *(len(path[0]) for path in found)]),
        blocks=executed.astype(np.uint32),
        store_distances=np.concatenate([path[1] for path in found]),
        line_distances=np.concatenate([path[2] for path in found]),
        instructions={block: _instructions(block, blocks, operations, registers) for block in used},
    )


class _Operations:
    """The memory operations of each block: their ids go up with the position of their instruction."""

    def __init__(self, blocks: BasicBlocks) -> None:
        self.keys = 2 * blocks.operation_instruction + blocks.operation_is_store
        of_block = blocks.block_of[blocks.operation_instruction]
        self.first = np.searchsorted(of_block, np.arange(blocks.num_blocks + 1))  # of each block, and one past the last
        self._number = {key: number for number, key in enumerate(self.keys.tolist())}

    def find(self, instruction: int) -> tuple[int | None, int | None]:
        """The operations that are an instruction's load and store."""
        return self._number.get(2 * instruction), self._number.get(2 * instruction + 1)


def _path(
    raw: RawPath, blocks: BasicBlocks, operations: _Operations
) -> tuple[Ints, npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """Executions of basic blocks, and for each of their memory operations the two distances."""
    known = (raw.blocks >= 0) & (raw.blocks < len(blocks.engine_first) - 1)
    raw_blocks = np.where(known, raw.blocks, 0)
    begins = blocks.engine_first[raw_blocks]
    lengths = np.where(known, blocks.engine_first[np.minimum(raw_blocks + 1, len(blocks.engine_first) - 1)] - begins, 0)
    starts = np.cumsum(lengths) - lengths  # of each execution, among the executed instructions
    executed = blocks.engine_instructions[np.repeat(begins - starts, lengths) + np.arange(int(lengths.sum()))]
    enters = blocks.first[blocks.block_of[executed]] == executed
    executions = blocks.block_of[executed[enters]]
    number_of = np.cumsum(enters) - 1  # of the basic block's execution that an executed instruction is part of

    num_operations = np.diff(operations.first)[executions]
    first_slot = np.cumsum(num_operations) - num_operations
    total = int(num_operations.sum())
    within = raw.slot // 2
    fits = within < lengths[raw.execution]
    at = (starts[raw.execution] + within)[fits]
    keys = 2 * executed[at] + raw.slot[fits] % 2
    operation = np.minimum(np.searchsorted(operations.keys, keys), max(len(operations.keys) - 1, 0))
    good = (operations.keys[operation] == keys) & (number_of[at] >= 0) if len(keys) else np.zeros(0, bool)
    execution = number_of[at][good]
    slots = first_slot[execution] + operation[good] - operations.first[executions[execution]]
    addresses, is_store = raw.address[fits][good], blocks.operation_is_store[operation[good]]
    store_distances, line_distances = np.zeros(total, np.uint16), np.ones(total, np.uint16)
    _note_stores(store_distances, addresses, _part_bytes(blocks, executed[at][good]), is_store, slots)
    slots, first = np.unique(slots, return_index=True)  # of an access in several parts, the first
    addresses = addresses[first]
    every = np.ones(len(slots), bool)
    line_distances[slots] = _distances(addresses >> np.uint64(LINE_BYTES_SHIFT), every, slots)
    return executions, store_distances, line_distances


def _part_bytes(blocks: BasicBlocks, instructions: Ints) -> npt.NDArray[np.uint64]:
    """What one access of an instruction reads or writes at once; wider ones come in parts of a word."""
    used, numbers = np.unique(instructions, return_inverse=True)
    kinds = [blocks.classes[number] for number in used.tolist()]
    widths = [min(max(kind.element_bits * kind.lanes // 8, 1), WORD_BYTES) for kind in kinds]
    return np.array(widths, np.uint64)[numbers] if widths else np.zeros(0, np.uint64)


def _note_stores(
    result: npt.NDArray[np.uint16],
    addresses: npt.NDArray[np.uint64],
    part_bytes: npt.NDArray[np.uint64],
    is_store: npt.NDArray[np.bool_],
    slots: Ints,
) -> None:
    """Put into `result`, at each slot, how long ago the last store was to any of the bytes that its parts touch.

    Bytes are told apart as far as the narrowest access does, so that neighbours in an array of small elements are not
    one place.
    """
    shift = np.uint64(int(part_bytes.min(initial=WORD_BYTES)).bit_length() - 1)
    first, last = addresses >> shift, (addresses + part_bytes - np.uint64(1)) >> shift
    counts = (last - first + np.uint64(1)).astype(np.int64)
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    cells = np.repeat(first, counts) + within.astype(np.uint64)
    times, stores = np.repeat(slots, counts), np.repeat(is_store, counts)
    order = np.lexsort((times, cells))
    once = np.ones(len(order), bool)
    once[1:] = np.diff(cells[order]).astype(bool) | np.diff(times[order]).astype(bool)
    kept = order[once]
    distances = _distances(cells[kept], stores[kept], times[kept]).astype(np.int64)
    nearest = np.full(len(result), _FARTHEST + 1)
    np.minimum.at(nearest, times[kept], np.where(distances > 0, distances, _FARTHEST + 1))
    result[:] = np.where(nearest <= _FARTHEST, nearest, 0)


def _distances(places: npt.NDArray[np.uint64], counts: npt.NDArray[np.bool_], times: Ints) -> npt.NDArray[np.uint16]:
    """For each access the time since the last access to its place among those that count; 0 if there is none.

    `times` ascend.
    """
    order = np.argsort(places, kind="stable")
    sorted_places, position = places[order], np.arange(len(order))
    is_new = np.ones(len(order), bool)
    is_new[1:] = sorted_places[1:] != sorted_places[:-1]
    group = np.maximum.accumulate(np.where(is_new, position, 0))
    before = np.full(len(order), -1, np.int64)
    before[1:] = np.maximum.accumulate(np.where(counts[order], position, -1))[:-1]
    found = before >= group
    distance = np.where(found, times[order] - times[order[np.maximum(before, 0)]], 0)
    result = np.zeros(len(order), np.uint16)
    result[order] = np.where(distance > _FARTHEST, 0, distance)
    return result


def _instructions(
    block: int, blocks: BasicBlocks, operations: _Operations, registers: Registers
) -> tuple[Instruction, ...]:
    return tuple(_instruction(number, blocks, operations, registers) for number in blocks.instructions(block))


def _instruction(number: int, blocks: BasicBlocks, operations: _Operations, registers: Registers) -> Instruction:
    code, kind = blocks.codes[number], blocks.classes[number]
    load, store = operations.find(number)
    reads, addresses, writes = registers.of(code, loads=load is not None, stores=store is not None)
    return Instruction(
        kind=kind.kind,
        element_bits=kind.element_bits,
        lanes=kind.lanes,
        length_bytes=len(code),
        flow=_FLOWS[kind.flow],
        reads=reads,
        addresses=addresses,
        writes=writes,
        load_operation=load,
        store_operation=store,
    )


class Registers:
    """The registers that instructions read, use in addresses and write, wherever they stand."""

    def __init__(self, isa: Isa) -> None:
        """None is known yet."""
        self._isa = isa
        self._known: dict[tuple[bytes, bool, bool], tuple[Names, Names, Names]] = {}
        self._alike: dict[tuple[Hashable, bool, bool], tuple[Names, Names, Names]] = {}

    def of(self, code: bytes, *, loads: bool, stores: bool) -> tuple[Names, Names, Names]:
        """Registers read, those in addresses, and those written."""
        key = (code, loads, stores)
        found = self._known.get(key)
        if found is None:
            likeness = (self._isa.likeness(code), loads, stores)
            if likeness not in self._alike:
                self._alike[likeness] = self.find(code, loads=loads, stores=stores)
            found = self._known[key] = self._alike[likeness]
        return found

    def find(self, code: bytes, *, loads: bool, stores: bool) -> tuple[Names, Names, Names]:
        """The same of an instruction that none is known to be like."""
        reads: dict[str, None] = {}
        addresses: dict[str, None] = {}
        writes: dict[str, None] = {}
        flow: DataFlow | None = self._isa.data_flow(code, 0, loads, stores)
        while flow is not None:
            sums = (*flow.loads, *flow.stores)
            addresses |= dict.fromkeys(name for terms in sums for name, _ in terms.registers)
            computed = [name for name, _ in flow.sum.registers] if flow.sum else []
            reads |= dict.fromkeys((*flow.reads, *computed, *flow.steps, *flow.target))
            writes |= dict.fromkeys((*flow.writes, *flow.steps))
            flow = flow.then
        reads_flags, writes_flags = self._isa.flags(code, 0)
        reads |= {"flags": None} if reads_flags else {}
        writes |= {"flags": None} if writes_flags else {}
        for names in (reads, addresses, writes):
            names.pop(self._isa.stack_pointer, None)  # which a core's front end keeps track of
        return tuple(reads), tuple(addresses), tuple(writes)
