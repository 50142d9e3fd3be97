"""Origins of the addresses within a loop, by abstract interpretation of its instructions.

A register or a piece of memory holds either a value that stays the same while the loop runs (a *constant* of the loop:
a root, which names an unknown value, and an offset from it), or one that varies; of that one only the loads of the loop
that it was computed from, and the constants added to them, are known. Memory at a loop-constant address (a stack
slot, a global, a field of a struct that a constant points to) is treated like a register: compiled without
optimisation, every variable lives there. Stores to varying addresses are taken not to overwrite such memory.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from heapq import heappop, heappush

import msgspec

from foretrace.tracer.isa.instruction_set import AddressSum, DataFlow

Constant = tuple[int, int]  # root, offset
Varying = int  # a bit for each load that it was computed from, and for the root of each constant added to them
Value = Constant | Varying
Place = str | tuple[str, Hashable]  # a register's name, ("memory", constant) or ("fixed", address)
State = dict[Place, Value]
Changes = list[tuple[Place, Value | None]]  # None: what the place held when the loop was entered

_NUMBER = 0  # the root of plain numbers; added to a varying value: a large number, or another varying value
_MAX_SWEEPS = 64  # over the blocks of a loop; a bytecode interpreter's main loop takes about 6
_SMALLEST_ADDRESS = 4096  # Linux maps nothing into the first page: a smaller number is no array's address
_FROM_NOTHING: Varying = 0


class Step(msgspec.Struct, frozen=True):
    """An instruction of the loop: its data flow, and the memory operations that are its load and its store, or -1."""

    instruction: int
    flow: DataFlow
    load: int
    store: int
    is_call: bool

    @property
    def matters(self) -> bool:
        """Whether it does anything to values: comparisons of registers and jumps do not."""
        flow = self.flow
        moves = flow.loads or flow.stores or flow.writes or flow.steps or flow.stack_bytes
        return bool(moves or flow.target or flow.loads_target or flow.is_gather or self.is_call)

    @property
    def tells_origins(self) -> bool:
        """Whether there may be anything in it for `AddressOrigins`."""
        flow = self.flow
        return bool(flow.loads or flow.stores or flow.target or flow.loads_target or flow.is_gather)


class BlockCode:
    """The instructions of a block that have effects, and the registers that these effects depend on."""

    def __init__(self, steps: Iterable[Step], stack_pointer: str) -> None:
        """Keep the steps with effects."""
        self.steps = [step for step in steps if step.matters]
        self.registers = frozenset().union(*(_registers_used(step.flow, stack_pointer) for step in self.steps))
        self.tells_origins = any(step.tells_origins for step in self.steps)


class AddressOrigins(msgspec.Struct):
    """Address origins of one loop.

    `sources`: for each memory operation at a varying address, the loads that the address was computed from.
    `bases`: for each operation whose address is the sum of a loaded value and something else, the roots of the loop
    constants in that sum. An address that is a loaded pointer and a small number has no entry.
    `jump_sources`: the loads that indirect jumps and calls take their destination from.
    `vector_gathers`: operations of vector gather or scatter instructions.
    """

    sources: dict[int, frozenset[int]] = msgspec.field(default_factory=dict)
    bases: dict[int, frozenset[int]] = msgspec.field(default_factory=dict)
    jump_sources: set[int] = msgspec.field(default_factory=set)
    vector_gathers: set[int] = msgspec.field(default_factory=set)


class _Sources:
    """Origins of varying values, as bits of an integer: sets of them are joined very often, and can be large.

    There are bits for loads and bits for roots of constants; `loads` has all of the former.
    """

    def __init__(self) -> None:
        self._bits: dict[tuple[bool, int], Varying] = {}
        self.loads: Varying = 0

    def load(self, operation: int) -> Varying:
        """The bit of a load."""
        bit = self._bit((True, operation))
        self.loads |= bit
        return bit

    def root(self, root: int) -> Varying:
        """The bit of a root."""
        return self._bit((False, root))

    def _bit(self, source: tuple[bool, int]) -> Varying:
        return self._bits.setdefault(source, 1 << len(self._bits))

    def loads_and_roots(self, value: Varying) -> tuple[frozenset[int], frozenset[int]]:
        """Loads and roots whose bits are set in a value."""
        digits = reversed(f"{value:b}")
        found = [source for source, digit in zip(self._bits, digits, strict=False) if digit == "1"]
        loads, roots = ([number for is_load, number in found if is_load == of] for of in (True, False))
        return frozenset(loads), frozenset(roots)


class LoopDataFlow:
    """Interprets the blocks of one loop to a fixed point.

    `code` are the instructions of each block, `successors` its steps within the loop. `fixed` maps a memory operation
    that was seen to touch a single address to that address: it is a variable, whatever its address is computed from.
    """

    def __init__(
        self,
        code: Mapping[int, BlockCode],
        successors: Mapping[int, Iterable[int]],
        fixed: Mapping[int, int],
        stack_pointer: str,
        call_clobbered: frozenset[str],
    ) -> None:
        """Prepare the interpretation."""
        self._code = code
        self._successors = successors
        self._fixed = fixed
        self._stack_pointer = stack_pointer
        used = {stack_pointer}.union(*(block.registers for block in code.values()))
        self._used = used
        self._clobbered = sorted(call_clobbered & used)
        self._roots: dict[Hashable, int] = {"number": _NUMBER}
        self._sources = _Sources()
        self._addresses: dict[int, Varying] = {}  # of operations, resolved once states are final
        self._targets: Varying = _FROM_NOTHING  # of indirect jumps and calls
        self._vector_gathers: set[int] = set()
        self._is_final = False
        self._before: State = {}  # of the block that is interpreted
        self._written: State = {}  # by the block, so far
        self._loaded: set[Place] = set()  # what it has read of memory, so far
        self._last: dict[int, tuple[State, set[Place]]] = {}  # both, of each block as it was last interpreted

    def run(self, header: int) -> AddressOrigins | None:
        """Interpret the loop from its header, where every register holds its value at the loop's entry.

        Returns None if the interpretation does not converge within its limits.
        """
        order = self._order(header)
        entry: dict[int, State] = {header: {}}
        news: dict[int, set[Place]] = {}  # in the entry of a block, since it was last interpreted
        work = [(0, 0, header)]
        waiting = {header}
        while work:
            sweep, _, block = heappop(work)
            if sweep > _MAX_SWEEPS:
                return None
            waiting.discard(block)
            self._before = entry[block]
            fresh = self._pass_on(block, news.get(block))
            news[block] = set()
            for successor in self._successors.get(block, ()):
                if successor not in entry:
                    entry[successor] = self._before | self._written
                else:
                    changed = self._join(entry[successor], fresh)
                    if not changed:
                        continue
                    if successor in news:
                        news[successor] |= changed
                if successor not in waiting:
                    waiting.add(successor)
                    # A step back is for the next sweep, so that all that comes before a block is settled first.
                    next_sweep = sweep + (order[successor] <= order[block])
                    heappush(work, (next_sweep, order[successor], successor))
        # Origins of addresses come from final states, which exist only now.
        self._is_final = True
        for block, self._before in entry.items():
            if self._code[block].tells_origins:
                self._interpret(block)
        return self._origins()

    def _origins(self) -> AddressOrigins:
        origins = {address: self._sources.loads_and_roots(address) for address in set(self._addresses.values())}
        return AddressOrigins(
            sources={operation: origins[address][0] for operation, address in self._addresses.items()},
            bases={
                operation: origins[address][1] for operation, address in self._addresses.items() if origins[address][1]
            },
            jump_sources=set(self._sources.loads_and_roots(self._targets)[0]),
            vector_gathers=self._vector_gathers,
        )

    def _pass_on(self, block: int, news: set[Place] | None) -> Changes | None:
        """Interpret a block for the first time, or after `news` in its entry.

        Returns the places and values that its successors may not have joined yet; None for all places.
        """
        before = self._before
        if news is None:
            self._interpret(block)
            self._last[block] = self._written, self._loaded
            return None
        written, loaded = self._last[block]
        if news.isdisjoint(self._code[block].registers) and news.isdisjoint(loaded):
            self._written = written
            return [(place, before[place]) for place in news.difference(written)]
        self._interpret(block)
        self._last[block] = self._written, self._loaded
        fresh: Changes = [change for change in self._written.items() if written.get(change[0]) != change[1]]
        passed = news.union(written).difference(self._written)
        return fresh + [(place, before.get(place)) for place in passed]

    def _interpret(self, block: int) -> None:
        self._written, self._loaded = {}, set()
        for step in self._code[block].steps:
            self._execute(step)

    def _order(self, header: int) -> dict[int, int]:
        """Position of each block in reverse postorder: predecessors are mostly interpreted first."""
        postorder: list[int] = []
        seen = {header}
        path = [(header, iter(self._successors.get(header, ())))]
        while path:
            block, following = path[-1]
            for successor in following:
                if successor not in seen:
                    seen.add(successor)
                    path.append((successor, iter(self._successors.get(successor, ()))))
                    break
            else:
                postorder.append(block)
                path.pop()
        return {block: position for position, block in enumerate(reversed(postorder))}

    # ---- values -----------------------------------------------------------------------------------------------------

    def _root(self, name: Hashable) -> int:
        return self._roots.setdefault(name, len(self._roots))

    def _get(self, place: Place) -> Value:
        """Value of a place; its value at the loop's entry if nothing in the loop has written it."""
        value = self._written.get(place)
        if value is None:
            value = self._before.get(place)
        return self._at_entry(place) if value is None else value

    def _at_entry(self, place: Place) -> Constant:
        return self._root(place), 0

    def _join(self, known: State, fresh: Changes | None) -> set[Place]:
        """Join the state that was reached into one that is known, for all places or a few; those that changed."""
        if fresh is None:
            reached = self._before | self._written
            fresh = [(place, reached.get(place)) for place in known.keys() | reached.keys()]
        changed = set()
        for place, new in fresh:
            old = known.get(place)
            if old is new:
                continue
            if isinstance(new, int):
                both = old | new if isinstance(old, int) else new
                if both == old:
                    continue
                known[place] = both
            elif isinstance(old, int) or (old or self._at_entry(place)) == (new or self._at_entry(place)):
                continue
            else:
                known[place] = _FROM_NOTHING
            changed.add(place)
        return changed

    def _sum(self, terms: AddressSum) -> Value:
        """The value of a sum."""
        if len(terms.registers) == 1 and terms.registers[0][1] == 1:  # as most have
            value = self._get(terms.registers[0][0])
            if isinstance(value, tuple):
                return value[0], value[1] + terms.displacement
            return self._added([value], (), terms.displacement)
        values = [(self._get(name), scale) for name, scale in terms.registers]
        offset = terms.displacement
        scales: dict[int, int] = {}
        for value, scale in values:
            if isinstance(value, tuple):
                offset += value[1] * scale
                if value[0] != _NUMBER:
                    scales[value[0]] = scales.get(value[0], 0) + scale
        varying = [value for value, _ in values if not isinstance(value, tuple)]
        if varying:
            return self._added(varying, scales, offset)
        if not scales:
            return _NUMBER, offset
        if len(scales) == 1 and 1 in scales.values():
            return next(iter(scales)), offset
        return self._root(("sum", tuple(sorted(scales.items())))), offset

    def _added(self, varying: Sequence[Varying], roots: Collection[int], offset: int) -> Varying:
        """The sum of varying values, constants and a number."""
        sources = _joined(varying)
        if not sources & self._sources.loads:
            return _FROM_NOTHING
        for root in roots:
            if root != _NUMBER:
                sources |= self._sources.root(root)
        if len(varying) > 1 or abs(offset) >= _SMALLEST_ADDRESS:
            sources |= self._sources.root(_NUMBER)
        return sources

    # ---- instructions -----------------------------------------------------------------------------------------------

    def _execute(self, step: Step) -> None:
        flow = step.flow
        loaded = [self._load(step, address) for address in flow.loads] if flow.loads else []
        read = [self._get(name) for name in flow.reads] if flow.reads else []
        result = self._result(step, loaded, read)
        places = [self._place(step.store, address) for address in flow.stores] if flow.stores else ()
        for name in flow.steps:
            old = self._get(name)
            if isinstance(old, tuple):
                self._written[name] = (self._root((step.instruction, name, old)), 0)
        for name in flow.writes:
            if name in self._used:
                self._written[name] = result
        for place in places:
            if place is not None:
                self._written[place] = result
        if flow.stack_bytes:
            pointer = self._get(self._stack_pointer)
            if isinstance(pointer, tuple):
                self._written[self._stack_pointer] = (pointer[0], pointer[1] + flow.stack_bytes)
        if self._is_final:
            self._note_uses(step)
        if step.is_call:
            for place in self._clobbered:
                self._written[place] = _FROM_NOTHING

    def _note_uses(self, step: Step) -> None:
        for name in step.flow.target:
            self._targets |= _varying(self._get(name))
        if step.flow.loads_target and step.load >= 0:
            self._targets |= self._sources.load(step.load)
        if step.flow.is_gather:
            self._vector_gathers |= {operation for operation in (step.load, step.store) if operation >= 0}

    def _result(self, step: Step, loaded: list[Value], read: list[Value]) -> Value:
        flow = step.flow
        if flow.sum is not None:
            return self._sum(flow.sum)
        if flow.copies and loaded:
            return loaded[0]
        inputs = loaded + read
        varying = [value for value in inputs if not isinstance(value, tuple)]
        if flow.adds and varying:
            return self._added(varying, [value[0] for value in inputs if isinstance(value, tuple)], 0)
        if flow.varies or varying or not inputs:
            return _joined(varying)
        return self._root((step.instruction, tuple(inputs))), 0

    def _place(self, operation: int, address: AddressSum) -> Place | None:
        """The place that an access goes to; None if it varies."""
        where = self._sum(address)
        if isinstance(where, tuple):
            return "memory", where
        if operation in self._fixed:
            return "fixed", self._fixed[operation]
        if operation >= 0 and self._is_final:
            self._addresses[operation] = self._addresses.get(operation, _FROM_NOTHING) | where
        return None

    def _load(self, step: Step, address: AddressSum) -> Value:
        place = self._place(step.load, address)
        if place is None:
            return self._sources.load(step.load) if step.load >= 0 else _FROM_NOTHING
        self._loaded.add(place)
        return self._get(place)


def _registers_used(flow: DataFlow, stack_pointer: str) -> set[str]:
    """Registers whose values an instruction's effects depend on."""
    sums = [*flow.loads, *flow.stores, *([flow.sum] if flow.sum else ())]
    moved = (stack_pointer,) if flow.stack_bytes else ()
    return {name for terms in sums for name, _ in terms.registers} | {*flow.reads, *flow.steps, *flow.target, *moved}


def _joined(values: Iterable[Varying]) -> Varying:
    sources = _FROM_NOTHING
    for value in values:
        sources |= value
    return sources


def _varying(value: Value) -> Varying:
    return _FROM_NOTHING if isinstance(value, tuple) else value
