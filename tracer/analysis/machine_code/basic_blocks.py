"""True basic blocks from the engine's translation blocks.

An engine translates an instruction into several blocks (a jump into the middle of one starts another that shares its
tail), and ends blocks where a page or its own limits end. Here each distinct instruction becomes one, the executed
control flow between instructions is summed up, and a basic block is a longest run of adjacent instructions that always
ran together. Instructions are distinguished by address and bytes, so overwritten code stays distinct.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from foretrace.tracer.isa.instruction_set import Flow, InstructionClass, Isa
from foretrace.tracer.reader.raw_trace import RawBlock, RawTrace

_KEY_BYTES = 16  # of an instruction's bytes, those that tell it from others at the same address

Ints = npt.NDArray[np.int64]
Counts = npt.NDArray[np.uint64]


class BasicBlocks(msgspec.Struct, frozen=True, eq=False):
    """Basic blocks in the order in which they first ran, their instructions one after the other.

    Per instruction: `addresses` uint64 (guest), `codes` (bytes), `class_of` int64 (its position in `classes`),
    `block_of` int64; `recorded` uint64, its executions whose accesses were recorded.
    Per block: `first` int64 [blocks + 1], its first instruction (and one past the last block's last);
    `executions` uint64.
    `edges`: uint64 [edges, 3], source block, destination block, count.
    Per memory operation: `operation_instruction` int64, `operation_is_store` bool.
    `operation_map`: int64 [raw operations], the memory operation that a raw one is (part of).
    `block_map`: int64 [largest raw block id + 1], the block that an engine block begins in; 0 for those that never ran.
    `engine_first`: int64 [largest raw block id + 2], where in `engine_instructions` the instructions of an engine block
    begin; those are positions of instructions.
    """

    addresses: npt.NDArray[np.uint64]
    codes: Sequence[bytes]
    classes: Sequence[InstructionClass]
    class_of: Ints
    block_of: Ints
    recorded: Counts
    first: Ints
    executions: Counts
    edges: Counts
    operation_instruction: Ints
    operation_is_store: npt.NDArray[np.bool_]
    operation_map: Ints
    block_map: Ints
    engine_first: Ints
    engine_instructions: Ints

    @property
    def num_blocks(self) -> int:
        """Number of basic blocks."""
        return len(self.executions)

    def instructions(self, block: int) -> range:
        """Positions of a block's instructions."""
        return range(int(self.first[block]), int(self.first[block + 1]))

    def instruction_class(self, instruction: int) -> InstructionClass:
        """Class of the instruction at a position."""
        return self.classes[int(self.class_of[instruction])]

    def starts(self) -> list[int]:
        """Address of each block's first instruction."""
        starts: list[int] = self.addresses[self.first[:-1]].tolist()
        return starts

    def ends(self) -> list[int]:
        """Address after each block's last instruction."""
        last = self.first[1:] - 1
        lengths = (len(self.codes[instruction]) for instruction in last.tolist())
        return [address + length for address, length in zip(self.addresses[last].tolist(), lengths, strict=True)]

    def flows(self) -> list[Flow]:
        """Control flow at each block's end."""
        return [self.classes[number].flow for number in self.class_of[self.first[1:] - 1].tolist()]


class _RawInstructions(msgspec.Struct, frozen=True, eq=False):
    """The instructions of all engine blocks, one after the other.

    `distinct` int64: number of the distinct instruction that each is; `sample` int64: one occurrence of each of those.
    `starts` int64 [blocks + 1]: first instruction of each engine block.
    """

    addresses: npt.NDArray[np.uint64]
    lengths: Ints
    offsets: Ints
    code: bytes
    starts: Ints
    distinct: Ints
    sample: Ints


def find_basic_blocks(raw: RawTrace, isa: Isa) -> BasicBlocks:
    """Split and join the engine's blocks into basic blocks, and sum counts, edges and operations accordingly."""
    used = set(raw.operation_block.tolist())
    ran = [block for block in raw.blocks if block.lengths and (block.executions or block.block_id in used)]
    blocks = _without_cut_instructions(ran)
    instructions = _distinct_instructions(blocks)
    total = len(instructions.sample)
    codes = _codes(instructions)
    classes, class_of = _classify(codes, isa)

    block_executions = np.array([block.executions for block in blocks], np.uint64)
    executions = _per_instruction(block_executions, instructions)
    is_recorded = np.array([not block.is_counted for block in blocks], bool)
    recorded = _per_instruction(np.where(is_recorded, block_executions, np.uint64(0)), instructions)
    position = {block.block_id: index for index, block in enumerate(blocks)}
    sources, targets, counts = _flow(raw.edges, position, block_executions, instructions, total)

    addresses = instructions.addresses[instructions.sample]
    ends = addresses + instructions.lengths[instructions.sample].astype(np.uint64)
    falls_through = np.array([c.flow is Flow.FALLTHROUGH for c in classes], bool)[class_of]
    joined = (
        (np.bincount(sources, minlength=total)[sources] == 1)
        & (np.bincount(targets, minlength=total)[targets] == 1)
        & falls_through[sources]
        & (ends[sources] == addresses[targets])
        & (executions[sources] == executions[targets])
    )
    following = np.full(total, -1, np.int64)
    following[sources[joined]] = targets[joined]
    order, first = _order(following, targets[joined], instructions, total)

    place = np.empty(total, np.int64)
    place[order] = np.arange(total)
    block_of = np.repeat(np.arange(len(first) - 1), np.diff(first))
    sources, targets, counts = sources[~joined], targets[~joined], counts[~joined]
    edges = np.stack(
        [block_of[place[sources]].astype(np.uint64), block_of[place[targets]].astype(np.uint64), counts], axis=1
    )
    keys, operation_map = _operations(raw, position, instructions, place)
    return BasicBlocks(
        addresses=addresses[order],
        codes=[codes[number] for number in order.tolist()],
        classes=classes,
        class_of=class_of[order],
        block_of=block_of,
        recorded=recorded[order],
        first=first,
        executions=executions[order[first[:-1]]],
        edges=edges[np.lexsort((edges[:, 1], edges[:, 0]))],
        operation_instruction=keys // 2,
        operation_is_store=keys % 2 == 1,
        operation_map=operation_map,
        block_map=_block_map(blocks, block_of[place[instructions.distinct[instructions.starts[:-1]]]]),
        engine_first=_engine_first(blocks),
        engine_instructions=place[instructions.distinct],
    )


def _codes(instructions: _RawInstructions) -> list[bytes]:
    """The bytes of each distinct instruction."""
    begins = instructions.offsets[instructions.sample]
    ends = begins + instructions.lengths[instructions.sample]
    return [instructions.code[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]


def _block_map(blocks: Sequence[RawBlock], begin_in: Ints) -> Ints:
    ids = np.array([block.block_id for block in blocks], np.int64)
    block_map = np.zeros(ids.max(initial=0) + 1, np.int64)
    block_map[ids] = begin_in
    return block_map


def _engine_first(blocks: Sequence[RawBlock]) -> Ints:
    ids = np.array([block.block_id for block in blocks], np.int64)
    lengths = np.zeros(ids.max(initial=0) + 2, np.int64)
    lengths[ids + 1] = [len(block.lengths) for block in blocks]
    return np.cumsum(lengths)


def _without_cut_instructions(blocks: Sequence[RawBlock]) -> list[RawBlock]:
    """The blocks, each without a last instruction that did not run as part of it.

    Where an instruction crosses into another page, QEMU before 8.0 ends the block ahead of it, but still shows the
    plugin the bytes of the instruction that it had read. The next block has the whole instruction.
    """
    begins: dict[int, bytes] = {}
    for block in blocks:
        begins[block.address] = max(begins.get(block.address, b""), block.code[: block.lengths[0]], key=len)
    whole = []
    for block in blocks:
        last = block.lengths[-1]
        cut = block.code[len(block.code) - last :]
        again = begins.get(block.address + len(block.code) - last, b"")
        if len(block.lengths) > 1 and len(again) > last and again.startswith(cut):
            kept = len(block.code) - last
            block = msgspec.structs.replace(block, lengths=block.lengths[:-1], code=block.code[:kept])
        whole.append(block)
    return whole


def _distinct_instructions(blocks: Sequence[RawBlock]) -> _RawInstructions:
    """Number the distinct instructions among those of all engine blocks."""
    lengths = np.array([length for block in blocks for length in block.lengths], np.int64)
    starts = np.cumsum([0, *(len(block.lengths) for block in blocks)], dtype=np.int64)
    offsets = np.cumsum(lengths) - lengths
    code = b"".join(block.code for block in blocks)
    base = np.array([block.address for block in blocks], np.uint64)
    within = offsets - np.repeat(offsets[starts[:-1]], np.diff(starts)) if len(blocks) else offsets
    addresses = np.repeat(base, np.diff(starts)) + within.astype(np.uint64)

    column = np.arange(_KEY_BYTES)
    padded = np.frombuffer(code + bytes(_KEY_BYTES), np.uint8)
    key = np.where(column < lengths[:, None], padded[offsets[:, None] + column], 0).astype(np.uint8)
    words = key.view(np.uint64).reshape(-1, 2)
    order = np.lexsort((lengths, words[:, 1], words[:, 0], addresses))
    fields = (addresses[order], words[order, 0], words[order, 1], lengths[order])
    is_new = np.zeros(len(order), bool)
    is_new[:1] = True
    for values in fields:
        is_new[1:] |= values[1:] != values[:-1]
    distinct = np.empty(len(order), np.int64)
    distinct[order] = np.cumsum(is_new) - 1
    return _RawInstructions(addresses, lengths, offsets, code, starts, distinct, order[is_new])


def _classify(codes: Sequence[bytes], isa: Isa) -> tuple[list[InstructionClass], Ints]:
    """The classes that there are, and which each instruction has; of several with the same bytes one is decoded."""
    numbers: dict[InstructionClass, int] = {}
    distinct = list(dict.fromkeys(codes))
    found = [numbers.setdefault(one, len(numbers)) for one in isa.classify(distinct)]
    class_of = dict(zip(distinct, found, strict=True))
    return list(numbers), np.array([class_of[code] for code in codes], np.int64)


def _per_instruction(block_counts: Counts, instructions: _RawInstructions) -> Counts:
    """Sum over the engine blocks that hold each distinct instruction."""
    sums = np.zeros(len(instructions.sample), np.uint64)
    np.add.at(sums, instructions.distinct, np.repeat(block_counts, np.diff(instructions.starts)))
    return sums


def _flow(
    raw_edges: Counts,
    position: dict[int, int],
    block_executions: Counts,
    instructions: _RawInstructions,
    total: int,
) -> tuple[Ints, Ints, Counts]:
    """The executed steps from one distinct instruction to another: sources, targets, counts."""
    starts, distinct = instructions.starts, instructions.distinct
    inner = np.ones(len(distinct), bool)
    inner[starts[1:] - 1] = False  # the last of each engine block
    within = np.flatnonzero(inner)
    largest = max(int(raw_edges[:, :2].max(initial=0)), max(position, default=0))
    position_of = np.full(largest + 1, -1, np.int64)
    position_of[list(position)] = list(position.values())
    ends = position_of[raw_edges[:, :2].astype(np.int64)]
    is_known = (ends >= 0).all(axis=1)
    pairs = ends[is_known]
    sources = np.concatenate([distinct[within], distinct[starts[pairs[:, 0] + 1] - 1]])
    targets = np.concatenate([distinct[within + 1], distinct[starts[pairs[:, 1]]]])
    per_instruction = np.repeat(block_executions, np.diff(starts))
    counts = np.concatenate([per_instruction[within], raw_edges[is_known, 2]])
    keys, inverse = np.unique(sources * total + targets, return_inverse=True)
    sums = np.zeros(len(keys), np.uint64)
    np.add.at(sums, inverse, counts)
    return keys // max(total, 1), keys % max(total, 1), sums


def _order(following: Ints, not_leading: Ints, instructions: _RawInstructions, total: int) -> tuple[Ints, Ints]:
    """Distinct instructions block by block, in the order in which blocks first ran; and where each block begins."""
    leads = np.ones(total, bool)
    leads[not_leading] = False
    first_seen = np.full(total, len(instructions.distinct), np.int64)
    np.minimum.at(first_seen, instructions.distinct, np.arange(len(instructions.distinct)))
    leaders = np.flatnonzero(leads)
    leaders = leaders[np.argsort(first_seen[leaders], kind="stable")]
    successor = following.tolist()
    order: list[int] = []
    first = []
    for leader in leaders.tolist():
        first.append(len(order))
        number = leader
        while number >= 0:
            order.append(number)
            number = successor[number]
    return np.array(order, np.int64), np.array([*first, len(order)], np.int64)


def _operations(
    raw: RawTrace, position: dict[int, int], instructions: _RawInstructions, place: Ints
) -> tuple[Ints, Ints]:
    """The distinct operations as 2 x instruction + is_store, and each raw operation's index among them."""
    blocks = np.array([position[block] for block in raw.operation_block.tolist()], np.int64)
    slots = raw.operation_slot.astype(np.int64)
    numbers = instructions.distinct[instructions.starts[blocks] + slots // 2]
    keys, operation_map = np.unique(2 * place[numbers] + slots % 2, return_inverse=True)
    return keys, operation_map.astype(np.int64).reshape(-1)
