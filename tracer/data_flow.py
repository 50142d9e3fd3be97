"""Where the addresses within a loop come from: an abstract interpretation of its instructions.

A register or a piece of memory holds either a value that stays the same while the loop runs (a *constant* of the loop:
a root, which names a value of unknown size, and an offset from it), or one that varies; then all that is known of it is
from which loads of the loop it was computed. Memory at a loop-constant address (a stack slot, a global, a field of a
struct that a constant points to) is treated like a register: compiled without optimisation, every variable lives there.
Stores to varying addresses are taken not to overwrite such memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .isa import AddressSum, DataFlow

Constant = tuple[int, int]  # root, offset
Varying = frozenset[int]  # the loads that it was computed from
Value = Constant | Varying
Place = tuple[str, Hashable]  # ("register", name), ("memory", constant) or ("fixed", address)
State = dict[Place, Value]

_NUMBER = 0  # the root of plain numbers
_FROM_NOTHING: Varying = frozenset()


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction of the loop: its data flow, and the memory operations that are its load and its store, or -1."""

    instruction: int
    flow: DataFlow
    load: int
    store: int
    is_call: bool


@dataclass(slots=True)
class AddressOrigins:
    """What was found out about a loop.

    `sources`: for each memory operation at a varying address, the loads that the address was computed from.
    `bases`: for each such operation, the roots of the loop constants that went into the address.
    `jump_sources`: the loads that indirect jumps and calls take their destination from.
    `vector_gathers`: operations of vector gather or scatter instructions.
    """

    sources: dict[int, Varying] = field(default_factory=dict)
    bases: dict[int, frozenset[int]] = field(default_factory=dict)
    jump_sources: set[int] = field(default_factory=set)
    vector_gathers: set[int] = field(default_factory=set)


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
        self._stack_pointer: Place = ("register", stack_pointer)
        self._clobbered: list[Place] = [("register", name) for name in sorted(call_clobbered)]
        self._roots: dict[Hashable, int] = {"number": _NUMBER}
        self._origins = AddressOrigins()

    def run(self, header: int) -> AddressOrigins:
        """Interpret the loop from its header, where every register holds what it held when the loop was entered."""
        entry: dict[int, State] = {header: {}}
        work = deque([header])
        waiting = {header}
        while work:
            block = work.popleft()
            waiting.discard(block)
            state = dict(entry[block])
            for step in self._steps[block]:
                self._execute(step, state)
            for successor in self._successors.get(block, ()):
                known = entry.get(successor)
                joined = dict(state) if known is None else self._join(known, state)
                if known is None or joined != known:
                    entry[successor] = joined
                    if successor not in waiting:
                        waiting.add(successor)
                        work.append(successor)
        # What was noted on the way may come from states that were not final yet.
        self._origins = AddressOrigins()
        for block, before in entry.items():
            state = dict(before)
            for step in self._steps[block]:
                self._execute(step, state)
        return self._origins

    # ---- values -----------------------------------------------------------------------------------------------------

    def _root(self, name: Hashable) -> int:
        return self._roots.setdefault(name, len(self._roots))

    def _get(self, state: State, place: Place) -> Value:
        """What a place holds: if nothing in the loop has written it, what it held when the loop was entered."""
        value = state.get(place)
        return (self._root(place), 0) if value is None else value

    def _join(self, one: State, other: State) -> State:
        joined: State = {}
        for place in one.keys() | other.keys():
            a, b = self._get(one, place), self._get(other, place)
            joined[place] = a if a == b else _sources(a) | _sources(b)
        return joined

    def _sum(self, state: State, terms: AddressSum) -> tuple[Value, frozenset[int]]:
        """The value of a sum, and the roots of the constants in it."""
        offset = terms.displacement
        scales: dict[int, int] = {}
        sources = _FROM_NOTHING
        varies = False
        for name, scale in terms.registers:
            value = self._get(state, ("register", name))
            if isinstance(value, tuple):
                offset += value[1] * scale
                if value[0] != _NUMBER:
                    scales[value[0]] = scales.get(value[0], 0) + scale
            else:
                varies = True
                sources |= value
        roots = frozenset(scales)
        if varies:
            return sources, roots
        if not scales:
            return (_NUMBER, offset), roots
        if len(scales) == 1 and 1 in scales.values():
            return (next(iter(scales)), offset), roots
        return (self._root(("sum", tuple(sorted(scales.items())))), offset), roots

    # ---- instructions -----------------------------------------------------------------------------------------------

    def _execute(self, step: Step, state: State) -> None:
        flow = step.flow
        loaded = [self._load(step, address, state) for address in flow.loads]
        read = [self._get(state, ("register", name)) for name in flow.reads]
        result = self._result(step, loaded, read, state)
        places = [self._place(step.store, address, state) for address in flow.stores]
        for name in flow.steps:
            old = self._get(state, ("register", name))
            if isinstance(old, tuple):
                state["register", name] = (self._root((step.instruction, name, old)), 0)
        for name in flow.writes:
            state["register", name] = result
        for place in places:
            if place is not None:
                state[place] = result
        if flow.stack_bytes:
            pointer = self._get(state, self._stack_pointer)
            if isinstance(pointer, tuple):
                state[self._stack_pointer] = (pointer[0], pointer[1] + flow.stack_bytes)
        self._note_uses(step, state)
        if step.is_call:
            for place in self._clobbered:
                state[place] = _FROM_NOTHING

    def _note_uses(self, step: Step, state: State) -> None:
        for name in step.flow.target:
            self._origins.jump_sources |= _sources(self._get(state, ("register", name)))
        if step.flow.loads_target and step.load >= 0:
            self._origins.jump_sources.add(step.load)
        if step.flow.is_gather:
            self._origins.vector_gathers |= {operation for operation in (step.load, step.store) if operation >= 0}

    def _result(self, step: Step, loaded: list[Value], read: list[Value], state: State) -> Value:
        flow = step.flow
        if flow.sum is not None:
            return self._sum(state, flow.sum)[0]
        if flow.copies and loaded:
            return loaded[0]
        inputs = loaded + read
        if flow.varies or not inputs or not all(isinstance(value, tuple) for value in inputs):
            return _FROM_NOTHING.union(*(_sources(value) for value in inputs))
        return self._root((step.instruction, tuple(inputs))), 0

    def _place(self, operation: int, address: AddressSum, state: State) -> Place | None:
        """The place that an access goes to; None if it varies."""
        where, roots = self._sum(state, address)
        if isinstance(where, tuple):
            return "memory", where
        if operation in self._fixed:
            return "fixed", self._fixed[operation]
        if operation >= 0:
            self._origins.sources[operation] = self._origins.sources.get(operation, _FROM_NOTHING) | where
            self._origins.bases[operation] = self._origins.bases.get(operation, roots) & roots
        return None

    def _load(self, step: Step, address: AddressSum, state: State) -> Value:
        place = self._place(step.load, address, state)
        if place is None:
            return frozenset({step.load}) if step.load >= 0 else _FROM_NOTHING
        return self._get(state, place)


def _sources(value: Value) -> Varying:
    return _FROM_NOTHING if isinstance(value, tuple) else value
