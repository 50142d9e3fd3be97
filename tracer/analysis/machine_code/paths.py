"""Paths: sampled stretches of a run, instruction by instruction, for models of order and dependence.

The engine's blocks become basic blocks, and its addresses become distances: how long ago the same bytes were stored,
and the same line was touched. Beside them stand the instructions of the blocks, with the registers they use.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from foretrace.tracer.isa.instruction_set import DataFlow, Flow, InstructionClass, Isa
from foretrace.tracer.reader.raw_trace import RawPath
from foretrace.tracer.signature.instruction_table import NO_OPERATION, InstructionTable
from foretrace.tracer.signature.records import NO_PATHS, InstructionForm, Paths

from ._distances import distances
from .basic_blocks import BasicBlocks
from .register_stack import ReadsAndWrites, stack_registers

Ints = npt.NDArray[np.int64]
Names = tuple[str, ...]
Uses = tuple[Names, Names, Names, bool]

STACK = "st"  # any register of x87's stack
WORD_BYTES = 8  # wide accesses come in words
_FLOWS = ["" if flow is Flow.FALLTHROUGH else flow.name.lower() for flow in Flow]


def find_paths(raw_paths: Sequence[RawPath], blocks: BasicBlocks, isa: Isa) -> Paths:
    """The sampled paths of an engine's stream, as sequences of basic blocks."""
    operations = _Operations(blocks)
    found = [_path(raw, blocks, operations) for raw in raw_paths]
    found = [path for path in found if len(path[0])]
    if not found:
        return NO_PATHS
    executed = np.concatenate([path[0] for path in found])
    used = np.flatnonzero(np.bincount(executed))
    return Paths(
        starts=np.cumsum([0, *(len(path[0]) for path in found)]),
        blocks=executed.astype(np.uint32),
        store_distances=np.concatenate([path[1] for path in found]),
        line_distances=np.concatenate([path[2] for path in found]),
        instructions=_instruction_table(used, blocks, operations, isa),
    )


class _Operations:
    """The memory operations of each block: their ids go up with the position of their instruction."""

    def __init__(self, blocks: BasicBlocks) -> None:
        self.keys = 2 * blocks.operation_instruction + blocks.operation_is_store
        of_block = blocks.block_of[blocks.operation_instruction]
        self.first = np.searchsorted(of_block, np.arange(blocks.num_blocks + 1))  # of each block, and one past the last
        self.of_instruction = np.full((len(blocks.codes), 2), NO_OPERATION)  # its load, and its store
        self.of_instruction[self.keys // 2, self.keys % 2] = np.arange(len(self.keys))


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
    parts = _part_bytes(blocks, executed[at][good])
    addresses, is_store = raw.address[fits][good], blocks.operation_is_store[operation[good]]
    if np.any(slots[1:] < slots[:-1]):
        order = np.argsort(slots, kind="stable")
        addresses, parts, is_store, slots = addresses[order], parts[order], is_store[order], slots[order]
    store_distances, line_distances = np.zeros(total, np.uint16), np.ones(total, np.uint16)
    distances(addresses, parts, is_store, slots, store_distances, line_distances)
    return executions, store_distances, line_distances


def _part_bytes(blocks: BasicBlocks, instructions: Ints) -> npt.NDArray[np.uint8]:
    """Bytes of one part of an instruction's access; accesses wider than a word come in parts of a word."""
    widths = [min(max(kind.element_bits * kind.lanes // 8, 1), WORD_BYTES) for kind in blocks.classes]
    return np.array(widths, np.uint8)[blocks.class_of[instructions]]


def _instruction_table(used: Ints, blocks: BasicBlocks, operations: _Operations, isa: Isa) -> InstructionTable:
    """The instructions of some blocks."""
    registers = Registers(isa)
    lengths = np.diff(blocks.first)[used]
    first = np.cumsum([0, *lengths], dtype=np.int64)
    numbers = np.repeat(blocks.first[used] - first[:-1], lengths) + np.arange(first[-1])
    load, store = operations.of_instruction[numbers].T
    accesses = (load != NO_OPERATION).tolist(), (store != NO_OPERATION).tolist()
    stacked = stack_registers(blocks, isa)
    known: dict[tuple[bytes, bool, bool, ReadsAndWrites | None], int] = {}
    forms: dict[InstructionForm, int] = {}
    form = []
    for number, loads, stores in zip(numbers.tolist(), *accesses, strict=True):
        key = (blocks.codes[number], loads, stores, stacked.get(number))
        if key not in known:
            found = _with_stack(registers.of(key[0], loads=loads, stores=stores), key[3])
            known[key] = forms.setdefault(_form(key[0], blocks.instruction_class(number), found), len(forms))
        form.append(known[key])
    return InstructionTable(tuple(forms), used, first, np.array(form, np.int64), load, store)


def _with_stack(found: Uses, of_stack: ReadsAndWrites | None) -> Uses:
    """Uses of an instruction, extended by the stack registers that it names."""
    if of_stack is None:
        return found
    reads, addresses, writes, scaled = found
    others = [tuple(name for name in names if name != STACK) for names in (reads, writes)]
    return others[0] + of_stack[0], addresses, others[1] + of_stack[1], scaled


def _form(code: bytes, kind: InstructionClass, registers: Uses) -> InstructionForm:
    reads, addresses, writes, scaled = registers
    return InstructionForm(
        kind=kind.kind,
        element_bits=kind.element_bits,
        lanes=kind.lanes,
        length_bytes=len(code),
        flow=_FLOWS[kind.flow],
        reads=reads,
        addresses=addresses,
        writes=writes,
        scaled=scaled,
    )


class Registers:
    """Cache of the registers that instructions read, use in addresses and write, independent of their address."""

    def __init__(self, isa: Isa) -> None:
        """Start with an empty cache."""
        self._isa = isa
        self._known: dict[tuple[bytes, bool, bool], Uses] = {}
        self._alike: dict[tuple[Hashable, bool, bool], Uses] = {}

    def of(self, code: bytes, *, loads: bool, stores: bool) -> Uses:
        """Registers read, those in addresses, and those written; whether one is multiplied for an address."""
        key = (code, loads, stores)
        found = self._known.get(key)
        if found is None:
            likeness = (self._isa.likeness(code), loads, stores)
            if likeness not in self._alike:
                self._alike[likeness] = self.find(code, loads=loads, stores=stores)
            found = self._known[key] = self._alike[likeness]
        return found

    def find(self, code: bytes, *, loads: bool, stores: bool) -> Uses:
        """Registers used by an instruction, computed without the cache of similar instructions."""
        reads: dict[str, None] = {}
        addresses: dict[str, None] = {}
        writes: dict[str, None] = {}
        scaled = False
        flow: DataFlow | None = self._isa.data_flow(code, 0, loads, stores)
        while flow is not None:
            sums = (*flow.loads, *flow.stores)
            addresses |= dict.fromkeys(name for terms in sums for name, _ in terms.registers)
            scaled |= any(scale > 1 for terms in sums for _, scale in terms.registers)
            computed = [name for name, _ in flow.sum.registers] if flow.sum else []
            reads |= dict.fromkeys((*flow.reads, *computed, *flow.steps, *flow.target))
            writes |= dict.fromkeys((*flow.writes, *flow.steps))
            flow = flow.then
        reads_flags, writes_flags = self._isa.flags(code, 0)
        reads |= {"flags": None} if reads_flags else {}
        writes |= {"flags": None} if writes_flags else {}
        for names in (reads, addresses, writes):
            names.pop(self._isa.stack_pointer, None)  # which a core's front end keeps track of
        return tuple(reads), tuple(addresses), tuple(writes), scaled
