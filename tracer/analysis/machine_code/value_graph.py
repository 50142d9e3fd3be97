"""Data flow through registers: the instructions that use each instruction's result.

A *value* is what one step of an instruction computes; most instructions take one step. Values are numbered
`instruction * STEPS + step`. Condition flags count as a register. A call takes the registers that the called code reads
before it writes them, of those that pass arguments, and gives those that it writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import msgspec

from foretrace.tracer.analysis.loops import LoopForest
from foretrace.tracer.isa.instruction_set import AddressSum, DataFlow, Flow, Isa

from .basic_blocks import BasicBlocks
from .register_stack import stack_registers

STEPS = 4
FLAGS = "flags"
PLACE = "@"
VARYING = -(1 << 60)
"""Stands for an unknown value of a register, such as an argument's."""
_MAX_CALLS = 60
"""Depth of nested calls that are analysed. Deeper calls are taken to change all that any call may change."""
_MAX_SWEEPS = 64
_MAX_CALLERS = 3
"""Depth of nested calls whose callers are analysed."""

Defs = dict[str, frozenset[int]]


class Value(msgspec.Struct):
    """Inputs and outputs of a step. `address` are the registers whose sum is its load's address."""

    node: int
    flow: DataFlow
    reads: tuple[str, ...]
    address: tuple[str, ...]
    writes: tuple[str, ...]
    is_call: bool


class BlockValues(msgspec.Struct):
    """A block's values. `inside`: flow from one value to another, with its label; `exposed`: registers whose value at
    the block's beginning flows into a value, with the label; `left`: values in registers at its end.

    A label is the register's name; with `PLACE` before it where the register only says where a store goes.
    """

    values: list[Value]
    inside: list[tuple[int, int, str]]
    exposed: list[tuple[str, int, str]]
    left: dict[str, int]


class LoopValues(msgspec.Struct):
    """The values of a loop's blocks in one iteration.

    `inputs`: reaching definitions, as nodes, by node and label. A node below 0 stands for the value of register
    `registers[-1 - node]` at the iteration's beginning. `carried` has the nodes that may define it at the beginning of
    the next iteration, itself among them if it may be unchanged.
    """

    inputs: dict[int, dict[str, set[int]]]
    registers: list[str]
    carried: dict[int, frozenset[int]]


class ValueGraph:
    """The values of a traced binary, worked out for one loop or function at a time."""

    def __init__(
        self,
        blocks: BasicBlocks,
        forest: LoopForest,
        isa: Isa,
        function_of: Sequence[int],
        left_out: Collection[int],
    ) -> None:
        """Prepare the graph; `function_of` numbers the function of each block.

        Blocks `left_out` are the loader's, which resolves calls and leaves all registers as they were.
        """
        self._blocks, self._forest, self._isa = blocks, forest, isa
        self._function_of = function_of
        self._successors: dict[int, list[int]] = defaultdict(list)
        self._predecessors: dict[int, list[int]] = defaultdict(list)
        for source, target, _ in forest.flow:
            self._successors[source].append(target)
            self._predecessors[target].append(source)
        self._called: dict[int, list[int]] = defaultdict(list)
        self._jumps: dict[int, list[int]] = defaultdict(list)
        flows = blocks.flows()
        for source, target, _ in blocks.edges.tolist():
            if target in left_out:
                continue
            if flows[source] is Flow.CALL:
                self._called[source].append(target)
            elif flows[source] in (Flow.JUMP, Flow.INDIRECT_JUMP, Flow.BRANCH):
                self._jumps[source].append(target)
        self._callers: dict[int, list[int]] = defaultdict(list)
        for source, targets in self._called.items():
            for target in targets:
                self._callers[target].append(source)
        self._members: dict[int, list[int]] = defaultdict(list)
        for block, function in enumerate(function_of):
            self._members[function].append(block)
        self._stack = stack_registers(blocks, isa)
        self._frames: dict[int, frozenset[str]] = {}
        self._in_block: dict[int, BlockValues] = {}
        self._loops: dict[int, LoopValues] = {}
        self._summaries: dict[int, tuple[frozenset[str], frozenset[str]]] = {}
        self._under_way: set[int] = set()
        self._of_operation = {
            (instruction, is_store): operation
            for operation, (instruction, is_store) in enumerate(
                zip(blocks.operation_instruction.tolist(), blocks.operation_is_store.tolist(), strict=True)
            )
        }
        self.value_of: dict[int, Value] = {}
        """Values by node, of all analysed blocks."""

    def block(self, block: int) -> BlockValues:
        """A block's values."""
        if block not in self._in_block:
            self._in_block[block] = self._read(block)
        return self._in_block[block]

    def node_of(self, operation: int) -> int:
        """The value that a memory operation loads or stores."""
        instruction = int(self._blocks.operation_instruction[operation])
        is_store = bool(self._blocks.operation_is_store[operation])
        self.block(int(self._blocks.block_of[instruction]))
        for step in range(STEPS):
            value = self.value_of.get(instruction * STEPS + step)
            if value is not None and (value.flow.stores if is_store else value.flow.loads):
                return value.node
        return instruction * STEPS

    def operation_of(self, node: int, *, is_store: bool) -> int:
        """The memory operation that loads or stores a value; -1 for none."""
        return self._of_operation.get((node // STEPS, is_store), -1)

    def loop(self, loop: int) -> LoopValues:
        """A loop's values in one iteration."""
        if loop not in self._loops:
            here = self._forest.loops[loop]
            self._loops[loop] = self._solve(here.blocks, here.header)
        return self._loops[loop]

    def function(self, function: int) -> LoopValues:
        """A function's values in one call."""
        return self._solve(self._members[function], -1)

    def is_set_before(self, loop: int, register: str) -> bool:
        """Whether a register is defined at a loop's entry: by its function, as an argument, or as the result of a call.
        Otherwise it holds a stale value, perhaps of the loop's own earlier run."""
        here = self._forest.loops[loop]
        before = [block for block in self._predecessors[here.header] if block not in here.blocks]
        return register == FLAGS or not before or self._is_set_at(before, register, set(here.blocks))

    def _is_set_at(self, blocks: Iterable[int], register: str, seen: set[int], calls: int = 0) -> bool:
        """Whether a register holds anything at the end of any of some blocks of a function, their calls left out."""
        pending: list[tuple[int, Sequence[Value]]] = [
            (one, self.block(one).values) for one in blocks if one not in seen
        ]
        seen.update(block for block, _ in pending)
        while pending:
            block, values = pending.pop()
            at = next((at for at in reversed(range(len(values))) if register in values[at].writes), None)
            if at is not None:
                spills = self._spills(block, values[:at], values[at], register)
                if spills is None:
                    called_only = all(one.is_call for one in values if register in one.writes)
                    if not called_only or register in self._isa.results:
                        return True
                pending += spills or []
                continue
            before = self._predecessors_in_function(block)
            pending += [(one, self.block(one).values) for one in before if one not in seen]
            seen.update(before)
            is_entry = not before or block in self._callers
            if is_entry and register in self._isa.arguments and self._is_passed(block, register, seen, calls):
                return True
        return False

    def _predecessors_in_function(self, block: int) -> list[int]:
        """Blocks of the same function that run before a block."""
        return [one for one in self._predecessors[block] if self._function_of[one] == self._function_of[block]]

    def _spills(
        self, block: int, before: Sequence[Value], value: Value, register: str
    ) -> list[tuple[int, Sequence[Value]]] | None:
        """The spills of a register to the place of the frame that a value reloads it from, on all paths: blocks, and
        their values up to there. None where it does more than get its own older value back."""
        if not value.flow.copies or len(value.flow.loads) != 1:
            return None
        (place,) = value.flow.loads
        if not self._is_in_frame(place, self._function_of[block]):
            return None
        found: list[tuple[int, Sequence[Value]]] = []
        pending, seen = [(block, before)], {block}
        while pending:
            at, values = pending.pop()
            spill = next((n for n in reversed(range(len(values))) if place in values[n].flow.stores), None)
            if spill is not None:
                if values[spill].flow.reads != (register,):
                    return None
                found.append((at, values[:spill]))
                continue
            earlier = self._predecessors_in_function(at)
            if not earlier and place.displacement >= 0:
                return None  # may be an argument's; below the stack pointer are none
            pending += [(one, self.block(one).values) for one in earlier if one not in seen]
            seen.update(earlier)
        return found

    def _is_in_frame(self, place: AddressSum, function: int) -> bool:
        return bool(place.registers) and {name for name, _ in place.registers} <= self.frame_registers(function)

    def _is_passed(self, entry: int, register: str, seen: set[int], calls: int) -> bool:
        """Whether a caller of a function leaves anything in a register."""
        callers = self._callers.get(entry, [])
        if not callers or calls == _MAX_CALLERS:
            return True
        for caller in callers:
            values = self.block(caller).values
            if any(register in value.writes and not value.is_call for value in values):
                return True
            if self._is_set_at(self._predecessors[caller], register, seen, calls + 1):
                return True
        return False

    def frame_registers(self, function: int) -> frozenset[str]:
        """The stack pointer, and the registers that a function sets from it: they point into its frame."""
        if function not in self._frames:
            pointer = self._isa.stack_pointer
            found = {pointer}
            for block in self._members[function]:
                for value in self.block(block).values:
                    flow = value.flow
                    summed = [name for name, _ in flow.sum.registers] if flow.sum is not None else []
                    if summed == [pointer] or (flow.copies and list(flow.reads) == [pointer]):
                        found.update(flow.writes)
            self._frames[function] = frozenset(found)
        return self._frames[function]

    def is_sum_of(self, node: int, names: Collection[str], wanted: Collection[str]) -> bool:
        """Whether one of the registers that a value reads is wanted, or a sum in its block of a wanted one."""
        inside = self.block(int(self._blocks.block_of[node // STEPS])).inside
        pending = [(node, name) for name in names]
        while pending:
            user, name = pending.pop()
            if name in wanted:
                return True
            for source, sink, label in inside:
                total = self.value_of[source].flow.sum
                if sink == user and label.removeprefix(PLACE) == name and total is not None:
                    pending += [(source, one) for one, _ in total.registers]
        return False

    # ---- one block ----

    def _read(self, block: int) -> BlockValues:
        found = BlockValues([], [], [], {})
        for instruction in self._blocks.instructions(block):
            for value in self._values(block, instruction):
                self.value_of[value.node] = value
                found.values.append(value)
                places = self._without_stack(_registers(value.flow.stores))
                labels = {name: name for name in (*value.reads, *value.address)} | {PLACE + n: n for n in places}
                for label, name in labels.items():
                    if name in found.left:
                        found.inside.append((found.left[name], value.node, label))
                    else:
                        found.exposed.append((name, value.node, label))
                for name in value.writes:
                    found.left[name] = value.node
        return found

    def _values(self, block: int, instruction: int) -> Iterable[Value]:
        code, address = self._blocks.codes[instruction], int(self._blocks.addresses[instruction])
        load = (instruction, False) in self._of_operation
        store = (instruction, True) in self._of_operation
        reads_flags, writes_flags = self._isa.flags(code, address)
        is_call = self._blocks.instruction_class(instruction).flow is Flow.CALL
        flow: DataFlow | None = self._isa.data_flow(code, address, load, store)
        stack_reads, stack_writes = self._stack.get(instruction, ((), ()))
        step = 0
        while flow is not None and step < STEPS - 1:
            total = [name for name, _ in flow.sum.registers] if flow.sum is not None else []
            reads = [*flow.reads, *total, *(stack_reads if step == 0 else ())]
            writes = [*flow.writes, *(stack_writes if step == 0 else ())]
            if step == 0:
                reads += [FLAGS] if reads_flags else []
                writes += [FLAGS] if writes_flags else []
                if is_call:
                    taken, given = self._call(block)
                    taken -= {self._isa.return_address}  # the call itself sets it
                    reads, writes = sorted(taken), sorted(given)
            yield Value(
                instruction * STEPS + step, flow, self._without_stack(reads),
                self._without_stack(_registers(flow.loads)), self._without_stack(writes), is_call,
            )  # fmt: skip
            for name in flow.steps:
                one = DataFlow(reads=(name,), writes=(name,), adds=True)
                yield Value(instruction * STEPS + STEPS - 1, one, (name,), (), (name,), False)
            flow = flow.then
            step += 1

    def _without_stack(self, names: Iterable[str]) -> tuple[str, ...]:
        left_out = (self._isa.stack_pointer, "st")
        return tuple(dict.fromkeys(name for name in names if name not in left_out))

    # ---- calls ----

    def called(self, node: int) -> Sequence[int]:
        """The blocks that a call led to."""
        return self._called.get(int(self._blocks.block_of[node // STEPS]), ())

    def _call(self, block: int) -> tuple[frozenset[str], frozenset[str]]:
        """The registers that a call takes and gives."""
        called = [self._summary(target) for target in self._called.get(block, ())]
        if not called:
            return frozenset(), self._isa.call_clobbered
        return frozenset().union(*(reads for reads, _ in called)), frozenset().union(*(writes for _, writes in called))

    def _summary(self, entry: int) -> tuple[frozenset[str], frozenset[str]]:
        """Registers that the code from a block on reads before it writes them, and registers that it writes."""
        if entry in self._summaries:
            return self._summaries[entry]
        if entry in self._under_way:
            return frozenset(), frozenset()
        if len(self._under_way) == _MAX_CALLS:
            return frozenset(), self._isa.call_clobbered
        self._under_way.add(entry)
        members = self._reached(entry)
        live: dict[int, frozenset[str]] = dict.fromkeys(members, frozenset())
        arguments = self._isa.call_clobbered - {FLAGS}
        written: set[str] = set()
        changes = True
        for _ in range(_MAX_SWEEPS):
            if not changes:
                break
            changes = False
            for block in reversed(members):
                inside = self.block(block)
                after: frozenset[str] = frozenset().union(*(live.get(s, frozenset()) for s in self._next(block)))
                before = {name for name, _, _ in inside.exposed} | (after - inside.left.keys())
                written |= inside.left.keys()
                now = frozenset(before & arguments)
                changes |= now != live[block]
                live[block] = now
        self._under_way.discard(entry)
        self._summaries[entry] = live[entry], frozenset(written & arguments)
        return self._summaries[entry]

    def _next(self, block: int) -> list[int]:
        return [*self._successors.get(block, ()), *self._jumps.get(block, ())]

    def _reached(self, entry: int) -> list[int]:
        seen, pending = {entry: None}, [entry]
        while pending and len(seen) < 2000:
            for successor in self._next(pending.pop()):
                if successor not in seen:
                    seen[successor] = None
                    pending.append(successor)
        return list(seen)

    # ---- several blocks ----

    def _solve(self, members: Iterable[int], header: int) -> LoopValues:
        """Reaching definitions of registers; an iteration begins and ends at the header, if there is one."""
        inside = set(members)
        registers: dict[str, int] = {}
        for block in sorted(inside):
            for name, _, _ in self.block(block).exposed:
                registers.setdefault(name, -1 - len(registers))
        entry: dict[int, Defs] = {}
        start: Defs = {name: frozenset((node,)) for name, node in registers.items()}
        work = [header] if header >= 0 else sorted(inside)
        for block in work:
            entry[block] = dict(start) if header >= 0 else {}
        carried: dict[str, frozenset[int]] = {}
        pending = list(reversed(work))
        waiting = set(pending)
        while pending:
            block = pending.pop()
            waiting.discard(block)
            left = self.block(block).left
            for successor in self._successors.get(block, ()):
                if successor not in inside:
                    continue
                changed = successor != header and successor not in entry
                into = carried if successor == header else entry.setdefault(successor, {})
                for name in registers:
                    defs = frozenset((left[name],)) if name in left else entry[block].get(name, frozenset())
                    old = into.get(name, frozenset())
                    if not defs <= old:
                        into[name] = old | defs
                        changed = True
                if successor != header and changed and successor not in waiting:
                    waiting.add(successor)
                    pending.append(successor)
        inputs: dict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for block in inside & entry.keys():
            values = self.block(block)
            for source, node, label in values.inside:
                inputs[node][label].add(source)
            for name, node, label in values.exposed:
                inputs[node][label] |= entry[block].get(name) or {VARYING}
        return LoopValues(
            {node: dict(of_one) for node, of_one in inputs.items()},
            list(registers),
            {registers[name]: defs for name, defs in carried.items()},
        )


def _registers(addresses: Sequence[AddressSum]) -> list[str]:
    return [name for address in addresses for name, _ in address.registers]
