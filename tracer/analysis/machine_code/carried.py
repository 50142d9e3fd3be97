"""Loop-carried dependences of a binary's loops: reductions, recurrences, collisions, private places.

Dependences through memory are recorded (tracer/reader/data_flow/dependences.c), those through registers come from the
instructions (value_graph.py). Together they make a graph of each loop. A *cycle* with an edge from one iteration to the
next is a value that depends on its own older value:

- by adding a loop invariant, equally much on every path: an induction variable, which every iteration can compute;
- by nothing: an invariant that is moved, or spilled to the frame and reloaded;
- by one associative operation, used for nothing else, and stored where it was loaded from: a reduction, or a collision
  where the place is chosen by an index that was loaded;
- by anything else: a recurrence.

A place that each iteration resets to an invariant (a sum that is set back to 0) can be privatised. A value passed on
without a cycle is a recurrence if it goes through memory other than a variable of the function's frame. In registers
and frame variables it is none, as an iteration can recompute the value of the one before (`x[i] - x[i - 1]`, of which
compilers keep the second part).

The module is long for one class: all questions about a cycle are asked of the same graph of a loop.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from foretrace.tracer.analysis.graphs import cycles
from foretrace.tracer.analysis.loops import LoopForest
from foretrace.tracer.isa.instruction_set import LOADED, Flow, Isa
from foretrace.tracer.signature.data_flow_records import Dependence, DependenceKind
from foretrace.tracer.signature.records import WIDER_KIND, OperationKind

from .basic_blocks import BasicBlocks
from .value_graph import FLAGS, PLACE, STEPS, VARYING, LoopValues, ValueGraph

_MOVES = frozenset({OperationKind.MOVE, OperationKind.FP_CONVERT})
_SHUFFLES = _MOVES | {OperationKind.FP_OTHER, OperationKind.VECTOR_INT, OperationKind.UNKNOWN}
_MOST_DEPTH = 12
"""Largest depth of compared expressions."""
_ALL = 0.99
"""Share of a store's executions that have to be updates."""

_CHOOSES = re.compile(r"_*f(max|min)(f|l|f\d+x?)?(@.*)?")
"""Functions of the C library that return the larger or the smaller of two numbers (C11, 7.12.12)."""

Pair = tuple[int, int]


@dataclass(slots=True)
class Occurrence:
    """Occurrences of a dependence: their number, least and greatest distance in iterations, and total bytes."""

    count: int = 0
    least: int = 0
    most: int = 0
    size_bytes: int = 0

    def add(self, count: int, least: int, most: int, size_bytes: int = 0) -> None:
        """Add occurrences seen elsewhere."""
        self.size_bytes += size_bytes
        self.least = min(self.least, least) if self.count else least
        self.most = max(self.most, most)
        self.count += count


@dataclass(slots=True)
class Seen:
    """Dependences observed in a loop in one context, by source and sink operation.

    `within`: flow inside an iteration, and dependences carried by inner loops.
    """

    node: int
    iterations: int
    entries: int
    flow: dict[Pair, Occurrence]
    output: dict[Pair, Occurrence]
    anti: dict[Pair, Occurrence]
    within: set[Pair]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a loop carries, in all of its contexts.

    It goes through memory from `pairs`, or through register `register` at `node`. `kind` None: induction.
    """

    kind: DependenceKind | None
    operation: str
    pairs: frozenset[Pair]
    node: int
    register: str
    cycle: frozenset[int] = frozenset()
    """The values that depend on themselves; empty where a value is only handed on."""
    is_constant: bool = False
    """Whether the value passed on through memory is the same in all iterations: it is reset for the next one."""


class CarriedValues:
    """Classifies loop-carried dependences.

    `updates` counts, by load and store, how often the store overwrote the value that the load had just read; `stores`
    counts executions of stores. `fixed` maps operations that only ever touched one place to its address; `indirect` are
    those whose address comes from an index.
    """

    def __init__(
        self,
        blocks: BasicBlocks,
        forest: LoopForest,
        isa: Isa,
        function_of: Sequence[int],
        values: ValueGraph,
        updates: Mapping[Pair, int],
        stores: Mapping[int, int],
        fixed: Mapping[int, int],
        indirect: Collection[int],
        functions: Sequence[str],
        lines: Sequence[int] = (),
    ) -> None:
        """Prepare the classification. `functions` names each block's function, `lines` has each instruction's line."""
        self._blocks, self._forest, self._isa, self._function_of = blocks, forest, isa, function_of
        self._graph = values
        self._updates, self._stores = updates, stores
        self._fixed, self._indirect = fixed, indirect
        self._names, self._lines = functions, lines
        self._block_of_operation: list[int] = blocks.block_of[blocks.operation_instruction].tolist()
        self._is_store: list[bool] = blocks.operation_is_store.tolist()
        self._functions: dict[int, LoopValues] = {}
        self._moving: dict[int, frozenset[str]] = {}  # registers that loops change
        self._combining: dict[int, str] = {}
        self._updaters: dict[int, list[int]] = defaultdict(list)  # stores that update what a load read
        for (load, store), count in updates.items():
            if count and count >= _ALL * stores.get(store, 0):
                self._updaters[load].append(store)

    # ---- one loop ----

    def dependences(self, loop: int, contexts: Sequence[Seen]) -> Iterable[Dependence]:
        """Loop-carried dependences of a loop in each of its contexts."""
        findings = self._findings(loop, contexts)
        in_cycle: set[Pair] = set().union(*(finding.pairs for finding in findings))
        for seen in contexts:
            if seen.iterations <= seen.entries:
                continue
            yield from self._of_context(seen, findings)
            yield from self._storage(loop, seen, findings, in_cycle)

    def _of_context(self, seen: Seen, findings: Iterable[Finding]) -> Iterable[Dependence]:
        again = seen.iterations - seen.entries
        for finding in findings:
            if finding.kind is None:
                continue
            total = Occurrence()
            pairs = [pair for pair in finding.pairs if pair in seen.flow]
            for pair in pairs:
                total.add(seen.flow[pair].count, seen.flow[pair].least, seen.flow[pair].most)
            source, sink = max(pairs, key=lambda pair: (seen.flow[pair].count, pair), default=(-1, -1))
            where = ""
            kind = finding.kind
            if finding.is_constant and all(_is_reset(seen.flow[pair], again) for pair in pairs):
                kind = DependenceKind.PRIVATISABLE
            if finding.register:
                if not pairs:
                    total.add(again, 1, 1)
                where = self._name(finding.register) + self._at(finding)
            if total.count:
                yield Dependence(
                    seen.node, kind, source, sink, total.count, total.least, total.most, finding.operation,
                    where,
                )  # fmt: skip

    @staticmethod
    def _name(register: str) -> str:
        return "condition flags" if register == FLAGS else f"register {register}"

    def _at(self, finding: Finding) -> str:
        """The lines that compute a value, moves of it aside; empty where they are not known."""
        nodes = [node for node in finding.cycle or {finding.node} if node >= 0]
        computing = [node for node in nodes if self._combines(node) != "move"] or nodes
        lines = sorted({int(self._lines[node // STEPS]) for node in computing} - {0}) if len(self._lines) else []
        if len(lines) <= 1:
            return f" at line {lines[0]}" if lines else ""
        return f" at lines {lines[0]} to {lines[-1]}"

    def _storage(
        self, loop: int, seen: Seen, findings: Iterable[Finding], in_cycle: Collection[Pair]
    ) -> Iterable[Dependence]:
        """Places that are used again without a value being handed on, one for each store that does so."""
        told = {source for source, _ in in_cycle} | {sink for _, sink in in_cycle}
        told |= {source for source, _ in seen.flow}
        places: dict[tuple[int, DependenceKind], tuple[Occurrence, Pair]] = {}
        for table in (seen.output, seen.anti):
            for (source, sink), occurred in table.items():
                if sink in told or self.is_private(sink, loop) or self.is_private(source, loop):
                    continue
                collides = table is seen.output and sink in self._indirect and source in self._indirect
                kind = DependenceKind.COLLISION if collides else DependenceKind.PRIVATISABLE
                if self._is_atomic(source) and self._is_atomic(sink):
                    kind = DependenceKind.COLLISION if collides else DependenceKind.REDUCTION
                total, _ = places.setdefault((sink, kind), (Occurrence(), (source, sink)))
                total.add(occurred.count, occurred.least, occurred.most)
        for (_, kind), (total, (source, sink)) in places.items():
            operation = self._combines(self._graph.node_of(sink)) if self._is_atomic(sink) else ""
            operation = "" if operation == "move" else operation
            yield Dependence(seen.node, kind, source, sink, total.count, total.least, total.most, operation)

    def overwritten_bytes(self, loop: int, seen: Seen) -> int:
        """Bytes that were stored where an earlier iteration of the same entry had stored, but for private variables."""
        return sum(one.size_bytes for (_, sink), one in seen.output.items() if not self.is_private(sink, loop))

    # ---- values ----

    def node_of(self, operation: int) -> int:
        """The value that a memory operation loads or stores."""
        return self._graph.node_of(operation)

    def address_origins(self, operation: int, graph: Graph) -> frozenset[object]:
        """Origins of an operation's address: registers at the start of the iteration, and loads. Loads of one variable,
        which has a fixed place, are the same origin."""
        node = self.node_of(operation)
        names = {
            name
            for address in (*self._graph.value_of[node].flow.loads, *self._graph.value_of[node].flow.stores)
            for name, _ in address.registers
        }
        found: set[object] = set()
        seen: set[int] = set()
        pending = [
            source
            for label, sources in graph.inputs.get(node, {}).items()
            if label.removeprefix(PLACE) in names
            for source in sources
        ]
        while pending:
            one = pending.pop()
            if one in seen:
                continue
            seen.add(one)
            if one < 0:
                found.add(one)
            elif self._graph.value_of[one].flow.loads:
                load = self._graph.operation_of(one, is_store=False)
                found.add(("place", self._fixed[load]) if load in self._fixed else ("load", load))
            else:
                of_one = graph.inputs.get(one, {})
                pending += [source for label, sources in of_one.items() if label != FLAGS for source in sources]
        return frozenset(found)

    def instruction_of(self, node: int) -> int:
        """The instruction that computes a value."""
        return node // STEPS

    def is_combined(self, node: int) -> bool:
        """Whether a value is computed, not only moved or compared."""
        return node >= 0 and self._combines(node) != "move" and not self._is_compare(node)

    def is_calculated(self, node: int) -> bool:
        """Whether scalar or floating-point arithmetic makes a value: a shuffle may keep half of a register."""
        return self.is_combined(node) and self._kind(node) not in _SHUFFLES

    # ---- places ----

    def _is_atomic(self, operation: int) -> bool:
        """Whether a store is an atomic update, whose load the engine does not report."""
        return self._isa.is_atomic(self._blocks.codes[self._graph.node_of(operation) // STEPS])

    def is_private(self, operation: int, loop: int) -> bool:
        """Whether it goes to a variable of the loop's own function, or to the frame of one that it calls."""
        value = self._graph.value_of.get(self._graph.node_of(operation))
        if value is None:
            return False
        addresses = value.flow.stores if self._is_store[operation] else value.flow.loads
        names = {name for address in addresses for name, _ in address.registers}
        block = self._block_of_operation[operation]
        frame = self._graph.frame_registers(self._function_of[block])
        if value.is_call or not self._is_own(operation, loop):
            return value.is_call or self._graph.is_sum_of(self._graph.node_of(operation), names, frame)
        if not names & frame:
            return False
        if loop not in self._moving:
            members = self._forest.loops[loop].blocks
            self._moving[loop] = frozenset(name for one in members for name in self._graph.block(one).left)
        return len(names) == 1 and not names & self._moving[loop]

    def _is_own(self, operation: int, loop: int) -> bool:
        return self._block_of_operation[operation] in self._forest.loops[loop].blocks

    # ---- the graph ----

    def _findings(self, loop: int, contexts: Sequence[Seen]) -> list[Finding]:
        flow = set().union(*(seen.flow for seen in contexts))
        within = set().union(*(seen.within for seen in contexts))
        return self.findings(loop, flow, within)[0]

    def findings(self, loop: int, flow: set[Pair], within: set[Pair]) -> tuple[list[Finding], Graph]:
        """Findings on a loop's carried values, and the graph of its values.

        `flow` are pairs of a store and a load that reads its value in a later iteration, `within` pairs in one
        iteration.
        """
        values = self._without_unset(loop)
        graph = Graph(values)
        for function in {self._function_of[self._block_of_operation[o]] for pair in flow | within for o in pair}:
            if function != self._function_of[self._forest.loops[loop].header]:
                if function not in self._functions:
                    self._functions[function] = self._graph.function(function)
                graph.add_inputs(self._functions[function])
        for source, sink in within:
            node = self._graph.node_of(source)
            if node not in self._graph.value_of or not self._graph.value_of[node].is_call:  # no return address
                graph.add_edge(node, self._graph.node_of(sink))
        by_edge: dict[Pair, set[Pair]] = defaultdict(set)
        for source, sink in flow:
            edge = (self._graph.node_of(source), self._graph.node_of(sink))
            by_edge[edge].add((source, sink))
            graph.across.add(edge)
            graph.add_edge(*edge)
        for phi, defs in values.carried.items():
            for node in defs:
                if node != phi:
                    graph.add_edge(node, phi)
        found: list[Finding] = []
        explained: set[Pair] = set()
        in_cycle: set[int] = set()
        found_cycles = list(cycles(graph.successors))
        for cycle in found_cycles:
            graph.cycle_of |= dict.fromkeys(cycle, cycle)
            if self._stays(cycle, graph):
                graph.kept |= dict.fromkeys(cycle, max(cycle))
        for cycle in found_cycles:
            pairs = {pair for (a, b), of_edge in by_edge.items() if a in cycle and b in cycle for pair in of_edge}
            phis = [node for node in cycle if node < 0 and any(d in cycle for d in values.carried.get(node, ()))]
            if not pairs and not phis:
                continue
            in_cycle |= cycle
            kind, operation = self._classify(loop, cycle, pairs, graph)
            register = values.registers[-1 - max(phis)] if phis else ""
            found.append(
                Finding(kind, operation, frozenset(pairs), self._first(cycle), register, frozenset(cycle))
            )  # fmt: skip
            explained |= {pair for (a, _), of_edge in by_edge.items() if a in cycle for pair in of_edge}
        found += self._handed_on(loop, flow - explained, graph)
        found += self._registers_handed_on(in_cycle, graph, values)
        return found, graph

    def _without_unset(self, loop: int) -> LoopValues:
        """A loop's values; registers that hold nothing where it is entered, and are used, are not handed on.

        An iteration that uses one before it sets it would use it in the first iteration of an entry, too. So each sets
        it first, though not on all paths that its instructions have. What is used less often may leave out the first.
        """
        values = self._graph.loop(loop)
        iterations = self._forest.loops[loop].iterations
        users: dict[int, set[int]] = defaultdict(set)
        for node, of_one in values.inputs.items():
            for label, sources in of_one.items():
                for source in sources:
                    if source < 0 and label != FLAGS:
                        users[source].add(node)
        unset = {
            phi
            for phi, defs in values.carried.items()
            if defs - {phi}
            and self._runs(defs - {phi}) >= iterations
            and all(self._runs([user]) >= iterations for user in users[phi])
            and not self._graph.is_set_before(loop, values.registers[-1 - phi])
        }
        carried = {phi: defs for phi, defs in values.carried.items() if phi not in unset}
        return LoopValues(values.inputs, values.registers, carried)

    def _runs(self, nodes: Iterable[int]) -> int:
        blocks = {int(self._blocks.block_of[node // STEPS]) for node in nodes if node >= 0}
        return sum(int(self._blocks.executions[block]) for block in blocks)

    @staticmethod
    def _first(cycle: Collection[int]) -> int:
        return min((node for node in cycle if node >= 0), default=-1)

    # ---- kinds of values ----

    def _kind(self, node: int) -> OperationKind:
        kind = self._blocks.instruction_class(node // STEPS).kind
        return WIDER_KIND.get(kind, kind)

    def _combines(self, node: int) -> str:
        """The associative operation of a value: "move" where it is one of its inputs, "" for all else."""
        if node not in self._combining:
            value = self._graph.value_of[node]
            found = "add" if node % STEPS == STEPS - 1 else self._isa.combines(self._blocks.codes[node // STEPS])
            if value.is_call:
                found = self._chosen_by_call(node)
            if value.flow.sum is not None and any(scale != 1 for _, scale in value.flow.sum.registers):
                found = "add" if len(value.flow.sum.registers) > 1 else ""  # of multiples: see _multiplies
            elif node % STEPS and value.flow.sum is not None and value.flow.sum.registers and not value.flow.stores:
                found = "add"  # a register that held an address moves on
            elif not found and (value.flow.copies or self._kind(node) is OperationKind.MOVE):
                found = "move"
            self._combining[node] = found
        return self._combining[node]

    def _chosen_by_call(self, node: int) -> str:
        """ "max" or "min" if all that a call reached returns the larger or the smaller of its arguments."""
        names = [_CHOOSES.fullmatch(self._names[block]) for block in self._graph.called(node)]
        found = {name[1] if name else "" for name in names}
        return found.pop() if len(found) == 1 else ""

    def _is_compare(self, node: int) -> bool:
        value = self._graph.value_of[node]
        if value.flow.stores or value.is_call:
            return False
        is_branch = self._blocks.instruction_class(node // STEPS).flow is Flow.BRANCH
        if self._kind(node) is OperationKind.FP_COMPARE:
            return True
        return value.writes == (FLAGS,) or (is_branch and bool(value.reads) and value.reads != (FLAGS,))

    def _classify(
        self, loop: int, cycle: set[int], pairs: set[Pair], graph: Graph
    ) -> tuple[DependenceKind | None, str]:
        """The kind of a cycle, and its operation."""
        nodes = [node for node in cycle if node >= 0]
        nodes = [node for node in nodes if not self._keeps_or_replaces(node, cycle, graph)] or nodes
        operations = {self._combines(node) for node in nodes if not self._narrows(node, cycle, graph)} - {"move"}
        operations = operations or {self._combines(node) for node in nodes} - {"move"}
        if any(self._chooses_address(node, cycle, graph) or self._multiplies(node, cycle, graph) for node in nodes):
            return DependenceKind.RECURRENCE, ""
        if any(self._is_compare(node) for node in nodes):
            is_choice = all(
                self._is_compare(node) or self._combines(node) == "move" or self._is_select(node) for node in nodes
            )
            if is_choice and not self._escapes(cycle, graph) and self._are_updates(pairs):
                return self._reduction(pairs, "")
            return DependenceKind.RECURRENCE, ""
        if cycle <= graph.kept.keys():
            return None, ""
        if not operations:
            return self._kept_or_replaced(cycle, pairs, graph)
        if self._is_replaced(cycle) and not self._escapes(cycle, graph):
            return None, ""
        if len(operations) != 1 or "" in operations:
            return DependenceKind.RECURRENCE, ""
        (operation,) = operations
        if operation not in ("min", "max") and self._is_set_back(cycle, graph):
            return DependenceKind.RECURRENCE, ""
        escapes = self._escapes(cycle, graph)
        adds_constants = operation == "add" and self._adds_constants(cycle, graph)
        if adds_constants and (self._is_regular(loop, nodes) or self._steps_alike(loop, cycle, graph)):
            return None, ""
        if escapes or not self._are_updates(pairs):
            return DependenceKind.RECURRENCE, ""
        return self._reduction(pairs, operation)

    def _keeps_or_replaces(self, node: int, cycle: set[int], graph: Graph) -> bool:
        """Whether an instruction selects one of two values of a cycle by flags that do not depend on them."""
        groups = [sources for label, sources in graph.inputs.get(node, {}).items() if label != FLAGS]
        is_select = self._kind(node) is OperationKind.INT_SELECT
        return is_select and len(groups) > 1 and all(group <= cycle for group in groups)

    def _kept_or_replaced(self, cycle: set[int], pairs: set[Pair], graph: Graph) -> tuple[DependenceKind | None, str]:
        """Kind and operation of a variable that is kept or replaced: `m = x[i] > m ? x[i] : m`."""
        users = {user for node in cycle for user in graph.successors.get(node, ()) if user not in cycle and user >= 0}
        readers = users | {node for node in cycle if node >= 0 and self._graph.value_of[node].flow.loads}
        compares = {compare for node in readers for compare in self._compared(node, graph)}
        if not compares:
            return (DependenceKind.RECURRENCE if self._escapes(cycle, graph) else None), ""
        kept = [self._expression(node, graph, 0) for node in cycle if node >= 0]
        stored: set[object] = set()
        for node in cycle:
            if node >= 0 and self._graph.value_of[node].flow.stores:
                stored |= self._stored(node, graph)
        if self._is_compared(stored.difference(kept), compares, -1, graph):
            return self._reduction(pairs, "")
        return DependenceKind.RECURRENCE, ""

    def _reduction(self, pairs: Collection[Pair], operation: str) -> tuple[DependenceKind, str]:
        collides = any(source in self._indirect or sink in self._indirect for source, sink in pairs)
        return (DependenceKind.COLLISION if collides else DependenceKind.REDUCTION), operation

    def _is_select(self, node: int) -> bool:
        return self._kind(node) is OperationKind.INT_SELECT or self._kind(node) is OperationKind.FP_OTHER

    def _narrows(self, node: int, cycle: set[int], graph: Graph) -> bool:
        """Whether a value of a cycle is another one's lower bits, extended or not: sums are then modulo a power of
        two. A pair of shifts, to the left and back, does the same."""
        shift = self._isa.shifts(self._blocks.codes[node // STEPS]) if node % STEPS == 0 else None
        if not shift:
            return shift == 0
        others = graph.successors.get(node, set()) if shift > 0 else _sources(node, graph)
        others = {one for one in others if one in cycle}
        return bool(others) and all(
            one >= 0 and one % STEPS == 0 and self._isa.shifts(self._blocks.codes[one // STEPS]) == -shift
            for one in others
        )

    def _chooses_address(self, node: int, cycle: set[int], graph: Graph) -> bool:
        value = self._graph.value_of[node]
        of_one = graph.inputs.get(node, {})
        return any(not cycle.isdisjoint(of_one.get(name, ())) for name in value.address)

    def _multiplies(self, node: int, cycle: set[int], graph: Graph) -> bool:
        """Whether an instruction multiplies, or shifts, a value of the cycle before it combines it with another."""
        if node % STEPS or self._combines(node) in ("", "move"):
            return False
        of_one = graph.inputs.get(node, {})
        total = self._graph.value_of[node].flow.sum
        names = set(self._isa.multiplied(self._blocks.codes[node // STEPS]))
        names |= {name for name, scale in total.registers if scale != 1} if total is not None else set()
        if LOADED in names and not graph.memory.get(node, set()).isdisjoint(cycle):
            return True
        return any(not cycle.isdisjoint(of_one.get(name, ())) for name in names)

    def _are_updates(self, pairs: Collection[Pair]) -> bool:
        """Whether each store overwrites the value loaded just before."""
        loads = {sink for _, sink in pairs}
        for store in {source for source, _ in pairs}:
            updates = sum(self._updates.get((load, store), 0) for load in loads)
            if updates < _ALL * self._stores.get(store, 0):
                return False
        return True

    def _updated_by(self, load: int, graph: Graph) -> str:
        """The associative operation that updates the place of a load; "" if none does, or anything else uses the
        value. Compilers that unroll a loop of updates make one load and one store of each."""
        if load not in graph.updated_by:
            graph.updated_by[load] = "add"  # until all that read the updated place are known
            graph.updated_by[load] = self._update(load, graph)
        return graph.updated_by[load]

    def _update(self, load: int, graph: Graph) -> str:
        ends = {self._graph.node_of(store) for store in self._updaters.get(load, ())}
        if not ends:
            return ""
        first = self._graph.node_of(load)
        path, pending, operations = {first}, [first], set[str]()
        while pending:
            node = pending.pop()
            if node < 0 or graph.places.get(node) or self._multiplies(node, path, graph):
                return ""
            is_kept = self._graph.operation_of(node, is_store=True) >= 0 and not graph.successors.get(node)
            if is_kept and node not in ends:
                return ""  # the updated value is stored elsewhere, too
            if node == first and LOADED in self._isa.multiplied(self._blocks.codes[node // STEPS]):
                return ""
            operations.add(self._combines(node))
            if node in ends:
                continue
            for user in graph.successors.get(node, ()):
                is_left = user < 0 and not graph.successors.get(user)  # in a register that no later iteration reads
                if user not in path and not is_left:
                    path.add(user)
                    pending.append(user)
        operations.discard("move")
        if len(operations) != 1 or "" in operations or not ends <= path:
            return ""
        (operation,) = operations
        readers = {user for node in ends for user in graph.successors.get(node, ()) if user not in path}
        return operation if all(self._is_updated(node, operation, graph) for node in readers) else ""

    def _updates_by(self, store: int, graph: Graph) -> str:
        """The associative operation with which a store updates its place; "" if it does not update it."""
        loads = [load for load, stores in self._updaters.items() if store in stores]
        found = {self._updated_by(load, graph) for load in loads}
        return found.pop() if len(found) == 1 else ""

    def _is_updated(self, node: int, operation: str, graph: Graph) -> bool:
        """Whether a value is only loaded to update its place by an operation."""
        load = self._graph.operation_of(node, is_store=False) if node >= 0 else -1
        return load >= 0 and self._updated_by(load, graph) == operation

    def _escapes(self, cycle: Collection[int], graph: Graph) -> bool:
        """Whether anything but the cycle uses its values in the loop. Overwriting one place again and again is none,
        nor is another update of the place by the same operation."""
        combined = {self._combines(node) for node in cycle if node >= 0} - {"move"}
        operation = combined.pop() if len(combined) == 1 else ""
        for node in cycle:
            if graph.places.get(node):
                return True
            for user in graph.successors.get(node, ()):
                if user in cycle or user < 0 or self._chooses_place(node, user, cycle, graph):
                    continue
                if operation and node in graph.memory.get(user, ()) and self._is_updated(user, operation, graph):
                    continue
                if not self._only_keeps(user, cycle, graph):
                    return True
        return False

    def _chooses_place(self, node: int, user: int, cycle: Collection[int], graph: Graph) -> bool:
        """Whether a use of the least or largest value so far only decides whether its place is replaced as well."""
        if self._is_replaced(cycle):
            return False
        if node >= 0 and self._is_compare(node):
            return self._is_place(user, graph)
        if not self._is_compare(user):
            return False
        others = {
            self._expression(source, graph, 0)
            for one in cycle
            if one >= 0 and self._combines(one) in ("min", "max")
            for source in _sources(one, graph)
            if source not in cycle
        }
        is_candidate = self._is_compared(others, [user], -1, graph)
        return is_candidate and all(self._is_place(one, graph) for one in graph.successors.get(user, ()))

    def _is_place(self, user: int, graph: Graph) -> bool:
        """Whether the user of a comparison's result is a branch, or a select whose value only the loop's end uses."""
        if user < 0:
            return False
        if self._blocks.instruction_class(user // STEPS).flow is Flow.BRANCH:
            return True
        cycle = graph.cycle_of.get(user, {user})  # none where an unset register is replaced
        return self._is_replaced(cycle) and not self._escapes(cycle, graph)

    def _is_replaced(self, cycle: Collection[int]) -> bool:
        """Whether a value stays as it is, or is replaced as a select instruction says."""
        nodes = [node for node in cycle if node >= 0]
        selects = [node for node in nodes if self._isa.selects(self._blocks.codes[node // STEPS])]
        return bool(selects) and all(node in selects or self._combines(node) == "move" for node in nodes)

    def _only_keeps(self, node: int, cycle: Collection[int], graph: Graph, depth: int = 0) -> bool:
        """Whether a value only copies into registers that nothing reads, or into one place."""
        value = self._graph.value_of[node]
        if value.flow.stores:
            return self._is_one_place(node, graph) and not graph.successors.get(node) and self._combines(node) == "move"
        if self._combines(node) != "move" or depth > _MOST_DEPTH or graph.places.get(node):
            return False
        return all(
            user in cycle or (user >= 0 and self._only_keeps(user, cycle, graph, depth + 1))
            for user in graph.successors.get(node, ())
        )

    def _is_one_place(self, node: int, graph: Graph) -> bool:
        """Whether a store goes to the same place in all iterations."""
        if self._graph.operation_of(node, is_store=True) in self._fixed:
            return True
        of_one = graph.inputs.get(node, {})
        sources = {source for label, sources in of_one.items() if label.startswith(PLACE) for source in sources}
        return all(self._is_constant(source, graph) for source in sources)

    def _is_regular(self, loop: int, nodes: Iterable[int]) -> bool:
        """Whether the updates of a value run in every iteration but the last, or in an inner loop."""
        here = self._forest.loops[loop]
        for node in nodes:
            if self._combines(node) == "move":
                continue
            block = int(self._blocks.block_of[node // STEPS])
            again = here.iterations - here.entries
            if int(self._forest.innermost[block]) == loop and int(self._blocks.executions[block]) < again:
                return False
        return True

    @staticmethod
    def _is_set_back(cycle: set[int], graph: Graph) -> bool:
        """Whether a value is reset on some paths through an iteration: `run = x[i] == x[i - 1] ? run + 1 : 0`."""
        groups: list[Collection[int]] = [graph.carried.get(phi, frozenset()) for phi in cycle if phi < 0]
        for node in cycle:
            groups += [sources for label, sources in graph.inputs.get(node, {}).items() if label != FLAGS]
            groups.append(graph.memory.get(node, ()))
        return any(not cycle.isdisjoint(group) and not cycle.issuperset(group) for group in groups)

    def _steps_alike(self, loop: int, cycle: set[int], graph: Graph) -> bool:
        """Whether all paths through an iteration add the same amount: compilers repeat `i++` on each path."""
        across = {(source, phi) for phi in cycle if phi < 0 for source in graph.carried.get(phi, ()) if source in cycle}
        if any(graph.carried.get(phi, frozenset()) - cycle for phi in cycle if phi < 0):
            return False
        across |= {(a, b) for a, b in graph.across if a in cycle and b in cycle}
        in_memory = {source for source, sink in across if sink >= 0}
        if in_memory and not self._runs_once(loop, in_memory):
            return False
        within = {(a, b) for a in cycle for b in graph.successors.get(a, ()) if b in cycle} - across
        steps = {node: self._step(node, cycle, graph) for node in cycle if node >= 0}
        if None in steps.values():
            return False
        added = {node: one for node, one in steps.items() if one is not None} | {n: _Sum() for n in cycle if n < 0}
        start = min(sink for _, sink in across)
        found = {start: added[start]}
        _propagate(found, added, within, _Sum())
        totals = {found[source] for source, sink in across if sink == start and source in found}
        if len(totals) != 1:
            return False
        each = totals.pop()
        _propagate(found, added, within, _Sum(), across, each)
        return found.keys() == cycle and all(
            found[b] == found[a] + added[b] - least
            for edges, least in ((within, _Sum()), (across, each))
            for a, b in edges
        )

    def _runs_once(self, loop: int, nodes: Iterable[int]) -> bool:
        """Whether one of several instructions of a loop runs in every iteration that another one follows.

        Those that were not seen, in windows, but store to the same place by the same instruction, count as well.
        """
        here = self._forest.loops[loop]
        nodes = set(nodes)
        operations = {self._graph.operation_of(node, is_store=True) for node in nodes}
        places = {self._fixed[one] for one in operations if one in self._fixed}
        codes = {self._blocks.codes[node // STEPS] for node in nodes}
        for operation, place in self._fixed.items():
            node = self._graph.node_of(operation) if place in places and self._is_store[operation] else -1
            if node >= 0 and self._is_own(operation, loop) and self._blocks.codes[node // STEPS] in codes:
                nodes.add(node)
        blocks = {int(self._blocks.block_of[node // STEPS]) for node in nodes}
        if any(int(self._forest.innermost[block]) != loop for block in blocks):
            return False
        return sum(int(self._blocks.executions[block]) for block in blocks) >= here.iterations - here.entries

    def _step(self, node: int, cycle: set[int], graph: Graph) -> _Sum | None:
        """Sum that an instruction adds to a value of a cycle; None if it does anything else."""
        if self._combines(node) == "move" or self._narrows(node, cycle, graph):
            return _Sum()
        if self._combines(node) != "add":
            return None
        total = self._graph.value_of[node].flow.sum
        of_one = graph.inputs.get(node, {})
        terms: list[tuple[object, int]] = []
        displacement = 0
        if total is not None:
            displacement = total.displacement
            for name, scale in total.registers:
                sources = of_one.get(name, set())
                if not cycle.isdisjoint(sources):
                    continue
                formulas = {self._expression(one, graph, 0) for one in sources}
                if len(formulas) > 1:
                    return None
                terms += [(one, scale) for one in formulas]
        else:  # the number that is added is part of the instruction
            others = frozenset(
                self._expression(one, graph, 0)
                for label, sources in of_one.items()
                if label != FLAGS and not label.startswith(PLACE)
                for one in sources
                if one not in cycle
            )
            terms.append(((self._blocks.codes[node // STEPS], node % STEPS, others), 1))
        return _Sum.of(terms, displacement)

    def _stays(self, cycle: set[int], graph: Graph) -> bool:
        """Whether nothing goes into a cycle of moves: a value that is kept, in registers or in variables."""
        for node in cycle:
            if node < 0:
                if not graph.carried.get(node, frozenset()) <= cycle:
                    return False
                continue
            value = self._graph.value_of[node]
            if value.flow.varies or value.is_call or self._combines(node) != "move":
                return False
            names = set(value.reads) - (set(value.address) if value.flow.loads else set())
            of_one = graph.inputs.get(node, {})
            if any(not of_one.get(name, set()) <= cycle for name in names):
                return False
            if value.flow.loads and not (self._is_at_one_place(node, graph) and graph.memory.get(node, set()) <= cycle):
                return False
            if value.flow.stores and not self._is_one_place(node, graph):
                return False
        return True

    def _is_at_one_place(self, node: int, graph: Graph) -> bool:
        """Whether a load is of the same place in all iterations."""
        if self._graph.operation_of(node, is_store=False) in self._fixed:
            return True
        of_one = graph.inputs.get(node, {})
        sources = {source for name in self._graph.value_of[node].address for source in of_one.get(name, ())}
        return all(self._is_constant(source, graph) for source in sources)

    def _adds_constants(self, cycle: Collection[int], graph: Graph) -> bool:
        """Whether all that goes into a cycle from outside, and the places it is kept in, stay as they are."""
        groups = [
            [source for source in sources if source not in cycle]
            for node in cycle
            if node >= 0
            for label, sources in (*graph.inputs.get(node, {}).items(), ("", graph.memory.get(node, ())))
            if label != FLAGS
        ]
        return all(self._is_one_constant(group, graph) for group in groups)

    def _is_constant(self, node: int, graph: Graph, depth: int = 0) -> bool:
        """Whether a value is the same in all iterations of the loop, but perhaps for the first."""
        if node in graph.kept:
            return True
        if node == VARYING or depth > _MOST_DEPTH:
            return False
        if node not in graph.constants:
            graph.constants[node] = False  # what depends on itself by more than moves
            groups: list[Collection[int]] = []
            if node < 0:
                before = graph.carried.get(node, frozenset())
                groups = [] if before <= {node} else [before]
            else:
                value = self._graph.value_of[node]
                if value.is_call or value.flow.varies:
                    return False
                groups = [sources for label, sources in graph.inputs.get(node, {}).items() if label != FLAGS]
                groups += [graph.memory[node]] if graph.memory.get(node) else []
            graph.constants[node] = all(self._is_one_constant(group, graph, depth + 1) for group in groups)
        return graph.constants[node]

    def _is_one_constant(self, nodes: Collection[int], graph: Graph, depth: int = 0) -> bool:
        """Whether values that come to a place by different paths are the same, in all iterations."""
        if not all(self._is_constant(node, graph, depth) for node in nodes):
            return False
        return len(nodes) < 2 or len({self._expression(node, graph, 0) for node in nodes}) == 1

    # ---- values that are handed on without a cycle ----

    def _handed_on(self, loop: int, pairs: Collection[Pair], graph: Graph) -> Iterable[Finding]:
        for source, sink in sorted(pairs):
            store, load = self._graph.node_of(source), self._graph.node_of(sink)
            chosen = self._is_choice(loop, source, store, load, graph)
            if chosen is None and self.is_private(source, loop):
                continue
            kind, operation = (DependenceKind.RECURRENCE, "")
            updated_by = self._updated_by(sink, graph)
            if chosen:
                kind, operation = self._reduction([(source, sink)], "")
            elif updated_by and self._updates_by(source, graph) == updated_by:
                kind, operation = self._reduction([(source, sink)], updated_by)
            is_constant = kind is DependenceKind.RECURRENCE and self._is_reset(store, graph)
            yield Finding(kind, operation, frozenset([(source, sink)]), load, "", is_constant=is_constant)

    def _is_choice(self, loop: int, source: int, store: int, load: int, graph: Graph) -> bool | None:
        """Whether a conditionally replaced variable selects its least or largest value (True) or depends on its own
        value otherwise (False). None if it does not depend on its own value."""
        compares = self._compared(load, graph)
        block = self._block_of_operation[source]
        here = self._forest.loops[loop]
        is_sometimes = int(self._blocks.executions[block]) < here.iterations - here.entries
        if not compares or not is_sometimes:
            return None
        return self._is_compared(self._stored(store, graph), compares, load, graph)

    def _is_reset(self, store: int, graph: Graph) -> bool:
        """Whether a store stores the same in all iterations."""
        value = self._graph.value_of[store]
        if value.is_call or value.flow.varies or self._combines(store) != "move":
            return False
        names = set(value.reads) - set(value.address)
        of_one = graph.inputs.get(store, {})
        return all(self._is_one_constant(of_one.get(name, set()), graph) for name in names)

    def _stored(self, store: int, graph: Graph) -> set[object]:
        """Formulas of the stored values."""
        return {
            self._expression(origin, graph, 0)
            for name, sources in graph.inputs.get(store, {}).items()
            if name in self._graph.value_of[store].reads
            for origin in sources
        }

    def _is_compared(self, formulas: Collection[object], compares: Iterable[int], own: int, graph: Graph) -> bool:
        """Whether `own` is compared with one of the formulas."""
        others: set[object] = set()
        for node in compares:
            value = self._graph.value_of[node]
            for name, sources in graph.inputs.get(node, {}).items():
                if name in value.reads:
                    found = frozenset(self._expression(source, graph, 0) for source in sources if source != own)
                    others |= {*found, found}  # one of several, or what copies of them are
            if value.flow.loads and node != own:
                others.add(self._expression(node, graph, 0, as_load=True))
        return not others.isdisjoint(formulas)

    def _compared(self, node: int, graph: Graph) -> set[int]:
        """The comparisons that a value goes into, as it is."""
        if node >= 0 and self._is_compare(node):
            return {node}
        found: set[int] = set()
        pending, seen = [node], {node}
        while pending:
            for user in graph.successors.get(pending.pop(), ()):
                if user in seen or user < 0:
                    continue
                seen.add(user)
                if self._is_compare(user):
                    found.add(user)
                elif self._combines(user) == "move" and not self._graph.value_of[user].flow.stores:
                    pending.append(user)
        return found

    def _expression(self, node: int, graph: Graph, depth: int, *, as_load: bool = False) -> object:
        """A value's formula, the same for two values that are computed alike."""
        for _ in range(_MOST_DEPTH):  # a copy is no deeper than what it copies
            copied = self._copied(node, graph)
            if copied is None:
                break
            node = copied
        if node in graph.kept:
            return graph.kept[node]
        if node < 0 or depth > _MOST_DEPTH:
            return node
        key = (node, depth, as_load)
        if key not in graph.expressions:
            formula = self._formula(node, graph, depth, as_load=as_load)
            is_new = isinstance(formula, tuple)
            graph.expressions[key] = graph.formulas.setdefault(formula, Formula()) if is_new else formula
        return graph.expressions[key]

    def _copied(self, node: int, graph: Graph) -> int | None:
        """The value that a value is a copy of, where that is one value."""
        total = self._graph.value_of[node].flow.sum if node >= 0 and node not in graph.kept else None
        if total is None or total.displacement or len(total.registers) != 1 or total.registers[0][1] != 1:
            return None
        sources = graph.inputs.get(node, {}).get(total.registers[0][0], set())
        return next(iter(sources)) if len(sources) == 1 else None

    def _formula(self, node: int, graph: Graph, depth: int, *, as_load: bool) -> object:
        """Formula of a value from its inputs; for a copy, the expression of the original."""
        value = self._graph.value_of[node]
        of_one = graph.inputs.get(node, {})

        def inputs(names: Iterable[str]) -> tuple[frozenset[object], ...]:
            return tuple(
                frozenset(self._expression(source, graph, depth + 1) for source in of_one.get(name, ()))
                for name in names
            )

        if value.flow.loads and (value.flow.copies or as_load or self._kind(node) is OperationKind.MOVE):
            (address, *_) = value.flow.loads
            scales = tuple(scale for _, scale in address.registers)
            return "load", address.displacement, scales, inputs(name for name, _ in address.registers)
        if value.flow.sum is not None:
            total = value.flow.sum
            if len(total.registers) == 1 and total.registers[0][1] == 1 and not total.displacement:
                (only,) = inputs([total.registers[0][0]])
                return next(iter(only)) if len(only) == 1 else only
            scales = tuple(scale for _, scale in total.registers)
            return "sum", total.displacement, scales, inputs(name for name, _ in total.registers)
        return self._isa.likeness(self._blocks.codes[node // STEPS]), node if value.is_call else -1, inputs(value.reads)

    def _registers_handed_on(self, in_cycle: Collection[int], graph: Graph, values: LoopValues) -> Iterable[Finding]:
        for phi, defs in values.carried.items():
            changed = defs - {phi}
            if phi in in_cycle or not changed or not graph.successors.get(phi):
                continue
            register = values.registers[-1 - phi]
            compares = self._compared(phi, graph)
            if phi in defs and compares:
                is_chosen = self._is_compared({self._expression(n, graph, 0) for n in changed}, compares, phi, graph)
                kind = DependenceKind.REDUCTION if is_chosen else DependenceKind.RECURRENCE
                yield Finding(kind, "", frozenset(), self._first(changed), register)
            elif phi not in defs and len(changed) == 1 and self._is_result(next(iter(changed)), graph):
                yield Finding(DependenceKind.RECURRENCE, "", frozenset(), self._first(changed), register)

    def _is_result(self, node: int, graph: Graph) -> bool:
        """Whether a value is computed, not loaded, and also stored into an array."""
        if node < 0 or self._combines(node) == "move" or self._graph.value_of[node].is_call:
            return False
        for user in graph.successors.get(node, ()):
            if user >= 0 and self._graph.value_of[user].flow.stores and not self._is_one_place(user, graph):
                names = {name for name, sources in graph.inputs.get(user, {}).items() if node in sources}
                if names & set(self._graph.value_of[user].reads):
                    return True
        return False


def _is_reset(occurred: Occurrence, again: int) -> bool:
    """Whether each iteration but an entry's first read, equally often, the value stored by the iteration before."""
    return occurred.most == 1 and occurred.count >= again > 0 and occurred.count % again == 0


def _sources(node: int, graph: Graph) -> set[int]:
    """Inputs of a value through registers, without flags."""
    return {source for label, sources in graph.inputs.get(node, {}).items() if label != FLAGS for source in sources}


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum of values that do not vary, each times a number, and of a number."""

    terms: frozenset[tuple[object, int]] = frozenset()
    displacement: int = 0

    @classmethod
    def of(cls, terms: Iterable[tuple[object, int]], displacement: int) -> _Sum:
        """A sum with terms of the same value combined."""
        scales: dict[object, int] = defaultdict(int)
        for value, scale in terms:
            scales[value] += scale
        return cls(frozenset((value, scale) for value, scale in scales.items() if scale), displacement)

    def __add__(self, other: _Sum) -> _Sum:
        """The sum of both."""
        return _Sum.of([*self.terms, *other.terms], self.displacement + other.displacement)

    def __sub__(self, other: _Sum) -> _Sum:
        """The difference of both."""
        return self + _Sum(frozenset((value, -scale) for value, scale in other.terms), -other.displacement)


def _propagate(
    found: dict[int, _Sum],
    added: Mapping[int, _Sum],
    within: Collection[Pair],
    none: _Sum,
    across: Collection[Pair] = (),
    each: _Sum | None = None,
) -> None:
    """Compute the distance of values from that at the iteration's beginning, which grows by `each` per iteration."""
    users: dict[int, list[tuple[int, _Sum]]] = defaultdict(list)
    for edges, less in ((within, none), (across, each or none)):
        for source, sink in edges:
            users[source].append((sink, less))
    pending = list(found)
    while pending:
        node = pending.pop()
        for user, less in users[node]:
            if user not in found:
                found[user] = found[node] + added[user] - less
                pending.append(user)


class Formula:
    """Identity of a formula: formulas are compared by it, not by their contents."""


class Graph:
    """Values and their users: `inputs` by register, `memory` by way of memory; `places` are users that store there.

    `expressions` caches expressions by node, depth and whether it is that of the load; `formulas` has their identities.
    `kept` maps values that are only moved, spilled and reloaded while the loop runs to one representative; `constants`
    caches whether other values are loop-invariant. `across` are the edges through memory from one iteration to a later
    one. `cycle_of` has each value's cycle, `updated_by` caches the operation that updates a load's place.
    """

    def __init__(self, values: LoopValues) -> None:
        """Take the loop's values and their flow through registers."""
        self.inputs: dict[int, dict[str, set[int]]] = {}
        self.carried = values.carried
        self.memory: dict[int, set[int]] = defaultdict(set)
        self.successors: dict[int, set[int]] = defaultdict(set)
        self.places: dict[int, set[int]] = defaultdict(set)
        self.expressions: dict[tuple[int, int, bool], object] = {}
        self.formulas: dict[object, Formula] = {}
        self.constants: dict[int, bool] = {}
        self.kept: dict[int, int] = {}
        self.across: set[Pair] = set()
        self.updated_by: dict[int, str] = {}
        self.cycle_of: dict[int, set[int]] = {}
        self.add_inputs(values)

    def add_inputs(self, values: LoopValues) -> None:
        """Add the inputs of another function, which the loop calls."""
        for node, of_one in values.inputs.items():
            self.inputs[node] = of_one
            for label, sources in of_one.items():
                for source in sources:
                    (self.places if label.startswith(PLACE) else self.successors)[source].add(node)

    def add_edge(self, source: int, sink: int) -> None:
        """Add the flow of a value into another through memory."""
        self.successors[source].add(sink)
        if sink >= 0:
            self.memory[sink].add(source)
