"""Where the addresses within a loop come from: an abstract interpretation of its instructions.

A register or a piece of memory holds either a value that stays the same while the loop runs (a *constant* of the loop:
a root, which names a value of unknown size, and an offset from it), or one that varies; then all that is known of it is
from which loads of the loop it was computed, and what was added to them. Memory at a loop-constant address (a stack
slot, a global, a field of a struct that a constant points to) is treated like a register: compiled without
optimisation, every variable lives there. Stores to varying addresses are taken not to overwrite such memory.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from heapq import heappop, heappush

import msgspec

from .isa import AddressSum, DataFlow

Constant = tuple[int, int]  # root, offset
Varying = frozenset[int]  # the loads that it was computed from; -1 - root for each constant added to them, or _ADDED
Value = Constant | Varying
Place = str | tuple[str, Hashable]  # a register's name, ("memory", constant) or ("fixed", address)
State = dict[Place, Value]

_NUMBER = 0  # the root of plain numbers
_ADDED = -1 - _NUMBER  # among the sources of a varying value: a large number or a varying value was added
_MAX_SWEEPS = 64  # over the blocks of a loop; a bytecode interpreter's main loop takes about 6
_SMALLEST_ADDRESS = 4096  # Linux maps nothing into the first page: a smaller number is no array's address
_FROM_NOTHING: Varying = frozenset()


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


class AddressOrigins(msgspec.Struct):
    """What was found out about a loop.

    `sources`: for each memory operation at a varying address, the loads that the address was computed from.
    `bases`: for each operation whose address is the sum of a loaded value and something else, the roots of the loop
    constants in that sum. An address that is a loaded pointer and a small number has no entry.
    `jump_sources`: the loads that indirect jumps and calls take their destination from.
    `vector_gathers`: operations of vector gather or scatter instructions.
    """

    sources: dict[int, Varying] = msgspec.field(default_factory=dict)
    bases: dict[int, frozenset[int]] = msgspec.field(default_factory=dict)
    jump_sources: set[int] = msgspec.field(default_factory=set)
    vector_gathers: set[int] = msgspec.field(default_factory=set)

    def note(self, operation: int, address: Varying) -> None:
        """Add one of the values that an operation's address had."""
        loads = _loads(address)
        self.sources[operation] = self.sources.get(operation, _FROM_NOTHING) | loads
        if len(loads) < len(address):
            added = frozenset(-1 - source for source in address if source < 0)
            self.bases[operation] = self.bases.get(operation, _FROM_NOTHING) | added


class LoopDataFlow:
    """Interprets the blocks of one loop until nothing changes.

    `steps` are the instructions of each block, `successors` its steps within the loop. `fixed` maps a memory operation
    that was seen to touch a single address to that address: it is a variable, whatever its address is computed from.
    """

    def __init__(
        self,
        steps: Mapping[int, Sequence[Step]],
        successors: Mapping[int, Iterable[int]],
        fixed: Mapping[int, int],
        stack_pointer: str,
        call_clobbered: frozenset[str],
    ) -> None:
        """Nothing is interpreted yet."""
        self._steps = steps
        self._successors = successors
        self._fixed = fixed
        self._stack_pointer = stack_pointer
        used = {stack_pointer}.union(*(_registers_used(step.flow) for block in steps.values() for step in block))
        self._used = used
        self._clobbered = sorted(call_clobbered & used)
        self._roots: dict[Hashable, int] = {"number": _NUMBER}
        self._origins: AddressOrigins | None = None  # until states are final
        self._before: State = {}  # of the block that is interpreted
        self._written: State = {}  # by the block, so far

    def run(self, header: int) -> AddressOrigins | None:
        """Interpret the loop from its header, where every register holds what it held when the loop was entered.

        Returns None if it is too entangled to settle.
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
            self._interpret(block, entry[block])
            # Whatever else it passes on, its successors have joined already.
            fresh = {*news[block], *self._written} if block in news else None
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
        # Only now are the states final that what is told of addresses comes from.
        self._origins = origins = AddressOrigins()
        for block, before in entry.items():
            self._interpret(block, before)
        return origins

    def _interpret(self, block: int, before: State) -> None:
        self._before, self._written = before, {}
        for step in self._steps[block]:
            self._execute(step)

    def _order(self, header: int) -> dict[int, int]:
        """Position of each block in reverse postorder: what comes before a block is mostly interpreted before it."""
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
        """What a place holds: if nothing in the loop has written it, what it held when the loop was entered."""
        value = self._written.get(place)
        if value is None:
            value = self._before.get(place)
        return (self._root(place), 0) if value is None else value

    def _join(self, known: State, fresh: set[Place] | None) -> set[Place]:
        """Join the state that was reached into one that is known, for all places or a few; those that changed."""
        before, written = self._before, self._written
        changed = set()
        for place in known.keys() | before.keys() | written.keys() if fresh is None else fresh:
            new = written.get(place)
            if new is None:
                new = before.get(place)
            old = known.get(place)
            if old is new:
                continue
            if new is None:
                new = (self._root(place), 0)
            if old is None:
                old = known[place] = (self._root(place), 0)
            if isinstance(old, tuple):
                if old == new:
                    continue
                known[place] = _sources(new)
            elif isinstance(new, tuple) or new <= old:
                continue
            else:
                known[place] = old | new
            changed.add(place)
        return changed

    def _sum(self, terms: AddressSum) -> Value:
        """The value of a sum."""
        if len(terms.registers) == 1 and terms.registers[0][1] == 1:  # as most have
            value = self._get(terms.registers[0][0])
            if isinstance(value, tuple):
                return value[0], value[1] + terms.displacement
            return _added([value], (), terms.displacement)
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
            return _added(varying, scales, offset)
        if not scales:
            return _NUMBER, offset
        if len(scales) == 1 and 1 in scales.values():
            return next(iter(scales)), offset
        return self._root(("sum", tuple(sorted(scales.items())))), offset

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
        if self._origins is not None:
            self._note_uses(step, self._origins)
        if step.is_call:
            for place in self._clobbered:
                self._written[place] = _FROM_NOTHING

    def _note_uses(self, step: Step, origins: AddressOrigins) -> None:
        for name in step.flow.target:
            origins.jump_sources |= _loads(_sources(self._get(name)))
        if step.flow.loads_target and step.load >= 0:
            origins.jump_sources.add(step.load)
        if step.flow.is_gather:
            origins.vector_gathers |= {operation for operation in (step.load, step.store) if operation >= 0}

    def _result(self, step: Step, loaded: list[Value], read: list[Value]) -> Value:
        flow = step.flow
        if flow.sum is not None:
            return self._sum(flow.sum)
        if flow.copies and loaded:
            return loaded[0]
        inputs = loaded + read
        varying = [value for value in inputs if not isinstance(value, tuple)]
        if flow.adds and varying:
            return _added(varying, [value[0] for value in inputs if isinstance(value, tuple)], 0)
        if flow.varies or varying or not inputs:
            return _FROM_NOTHING.union(*varying)
        return self._root((step.instruction, tuple(inputs))), 0

    def _place(self, operation: int, address: AddressSum) -> Place | None:
        """The place that an access goes to; None if it varies."""
        where = self._sum(address)
        if isinstance(where, tuple):
            return "memory", where
        if operation in self._fixed:
            return "fixed", self._fixed[operation]
        if operation >= 0 and self._origins is not None:
            self._origins.note(operation, where)
        return None

    def _load(self, step: Step, address: AddressSum) -> Value:
        place = self._place(step.load, address)
        if place is None:
            return frozenset({step.load}) if step.load >= 0 else _FROM_NOTHING
        return self._get(place)


def _registers_used(flow: DataFlow) -> set[str]:
    """Registers whose values an instruction's effects depend on."""
    sums = [*flow.loads, *flow.stores, *([flow.sum] if flow.sum else ())]
    return {name for terms in sums for name, _ in terms.registers} | {*flow.reads, *flow.steps, *flow.target}


def _added(varying: Sequence[Varying], roots: Collection[int], offset: int) -> Varying:
    """The sum of varying values, constants and a number."""
    sources = varying[0] if len(varying) == 1 else _FROM_NOTHING.union(*varying)
    if max(sources, default=-1) < 0:
        return _FROM_NOTHING
    added = {-1 - root for root in roots if root != _NUMBER} if roots else set()
    if len(varying) > 1 or abs(offset) >= _SMALLEST_ADDRESS:
        added.add(_ADDED)
    return sources | added if added else sources


def _loads(sources: Varying) -> Varying:
    if min(sources, default=0) >= 0:
        return sources
    return frozenset([source for source in sources if source >= 0])


def _sources(value: Value) -> Varying:
    return _FROM_NOTHING if isinstance(value, tuple) else value
