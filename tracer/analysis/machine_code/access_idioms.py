"""Idioms beyond gathers and scatters, from machine code and addresses: streams, stencils, reductions and more.

Two sources are combined. The stride of an operation's addresses (the next element, a constant distance, none) and its
address range come from the recorded accesses; the data flow between values comes from the instructions (`carried.py`).
A variable that lives in memory is recognised by its place: operations of one loop that only touch one address, or stay
at one address while the loop runs.

- stencil: several loads walk over one array some elements apart. Their ranges are equal, but shifted.
- recurrence: a value that depends on its older self, or a store whose element a load reads in a later iteration.
- reduction: a recurrence by one associative operation.
- stream, strided, transpose: stores (or loads) of successive elements, or at a constant distance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from foretrace.cache_sim.base.results import OperationStatistics
from foretrace.tracer.analysis.access_order import Access, Order, is_unit, recurrences, stencil, transposed
from foretrace.tracer.analysis.loops import LoopForest
from foretrace.tracer.isa.instruction_set import AccessParts, Isa
from foretrace.tracer.signature.data_flow_records import DependenceKind
from foretrace.tracer.signature.records import Idiom, IdiomKind

from .basic_blocks import BasicBlocks
from .carried import CarriedValues, Finding, Graph, Pair
from .idioms import Indirections, fixed_operations
from .value_graph import ValueGraph

_MOST_BLOCKS = 400
_MOST_OPERATIONS = 2000
"""Most memory operations of a loop that is searched; larger loops are those of interpreters."""
_MOST_TABLE = 256
"""Most elements of a look-up table: the number of values of a byte."""
_USES = 4
"""Least mean number of accesses to each element of a table."""
_LEAST_MASKED = 0.5
"""Least share of the range of whole vectors, one per iteration, that a stream with masks covers."""
_MOST_STEPS = 200
"""Longest path from a value to its use."""


class AccessIdioms:
    """Finds the idioms of a traced binary that are no gathers or scatters."""

    def __init__(
        self,
        blocks: BasicBlocks,
        forest: LoopForest,
        isa: Isa,
        statistics: OperationStatistics,
        sites: Sequence[tuple[str, int]],
        function_of: Sequence[int],
        functions: Sequence[str],
        indirections: Indirections,
        values: ValueGraph,
    ) -> None:
        """Prepare the search. `functions` names the function of each block."""
        self._blocks, self._forest, self._sites, self._isa = blocks, forest, sites, isa
        self._chased = indirections.self_dependent
        self._index_operation = indirections.index_operation
        self._indirect = {operation for idiom in indirections.idioms for operation in idiom.operations}
        self._gathers = [one for one in indirections.idioms if one.kind is IdiomKind.GATHER]
        self._statistics = statistics
        self._fixed = fixed_operations(statistics)
        self._is_store: list[bool] = blocks.operation_is_store.tolist()
        self._updates: dict[Pair, int] = {}
        self._stores: dict[int, int] = {}
        self._carried = CarriedValues(
            blocks,
            forest,
            isa,
            function_of,
            values,
            self._updates,
            self._stores,
            self._fixed,
            self._indirect,
            functions,
        )
        self._next = len(indirections.idioms)
        self._found: list[Idiom] = []

    def find(self) -> list[Idiom]:
        """Search all loops."""
        self._tables()
        innermost = self._forest.innermost[self._blocks.block_of[self._blocks.operation_instruction]].tolist()
        own: dict[int, list[int]] = defaultdict(list)
        executions = self._statistics.executions.tolist()
        for operation, loop in enumerate(innermost):
            if loop >= 0 and executions[operation]:
                own[loop].append(operation)
        for loop, operations in sorted(own.items()):
            here = self._forest.loops[loop]
            if len(here.blocks) > _MOST_BLOCKS or len(operations) > _MOST_OPERATIONS or here.iterations <= here.entries:
                continue
            self._search(loop, [self._access(operation) for operation in operations])
        return self._found

    def _tables(self) -> None:
        updated = {
            (self._access(number).first, self._access(number).last)
            for number in self._indirect
            if self._is_store[number]
        }
        for one in self._gathers:
            accesses = [self._access(operation) for operation in one.operations]
            size = min(access.size for access in accesses)
            span = max(access.last for access in accesses) - min(access.first for access in accesses)
            uses = sum(access.executions for access in accesses)
            if updated & {(access.first, access.last) for access in accesses}:
                continue
            if 0 < span <= _MOST_TABLE * size and uses * size >= _USES * span:
                self._add(one.loop_id, IdiomKind.TABLE_LOOKUP, one.operations, one.index_operations)

    def _access(self, number: int) -> Access:
        found = Access.of(self._statistics, number, is_store=self._is_store[number])
        code = self._blocks.codes[int(self._blocks.operation_instruction[number])]
        if found.order in (Order.UNIT, Order.STAYS) or self._isa.access_parts(code) is not AccessParts.MASKED:
            return found
        return self._with_masked_lanes(found, self._isa.access_bytes(code, 0, found.is_store))

    def _with_masked_lanes(self, one: Access, width_bytes: int) -> Access:
        """A masked access walks in steps of its whole width, whichever lanes are on: so it does if its range is that
        of its loop's iterations, one vector each."""
        block = int(self._blocks.block_of[self._blocks.operation_instruction[one.number]])
        loop = self._forest.loops[int(self._forest.innermost[block])]
        steps = int(self._blocks.executions[block]) / max(loop.entries, 1)
        fits = one.order is Order.STRIDED or _LEAST_MASKED * steps * width_bytes <= one.range
        if not fits or one.range > int(self._blocks.executions[block]) * width_bytes:
            return one
        return replace(one, order=Order.UNIT, size=width_bytes)

    def _add(self, loop: int, kind: IdiomKind, operations: Iterable[int], indices: Iterable[int] = ()) -> None:
        members = tuple(sorted(set(operations)))
        sites = [self._sites[operation] for operation in members]
        file, line = min(sites, key=lambda site: (site[1] == 0, site), default=("", 0))
        if not members:
            header = int(self._blocks.first[self._forest.loops[loop].header])
            file, line = self._sites_near(header)
        self._found.append(Idiom(self._next, loop, kind, file, line, members, tuple(indices)))
        self._next += 1

    def _sites_near(self, instruction: int) -> tuple[str, int]:
        """Place of the first memory operation from an instruction on."""
        at = int(self._blocks.operation_instruction.searchsorted(instruction))
        return self._sites[at] if at < len(self._sites) else ("", 0)

    # ---- one loop ----

    def _search(self, loop: int, accesses: Sequence[Access]) -> None:
        flow = self._one_place(accesses)
        findings, graph = self._carried.findings(loop, set(flow), set(flow))
        chases = [one.number for one in accesses if one.number in self._chased]
        if chases:
            self._add(loop, IdiomKind.POINTER_CHASE, chases)
        self._carried_values(loop, findings)
        walks = [
            one
            for one in accesses
            if one.order in (Order.UNIT, Order.STRIDED)
            and one.number not in self._indirect
            and one.number not in self._fixed
            and one.number not in self._chased
            and self._index_operation.get(one.number) not in self._chased
        ]
        self._walks(loop, walks, graph)

    def _one_place(self, accesses: Iterable[Access]) -> list[Pair]:
        """Stores and loads of variables: of one address, of one that the loop does not change, or of one index."""
        by_place: dict[tuple[int, int, bool], list[Access]] = defaultdict(list)
        for one in accesses:
            is_indexed = one.number in self._indirect
            if one.number in self._fixed or one.order is Order.STAYS or is_indexed:
                by_place[one.first, one.last, is_indexed].append(one)
        pairs = []
        for members in by_place.values():
            stores = [one for one in members if one.is_store]
            for store in stores:
                self._stores[store.number] = store.executions
                for load in members:
                    if not load.is_store:
                        pairs.append((store.number, load.number))
                        self._updates[load.number, store.number] = store.executions
        return pairs

    def _carried_values(self, loop: int, findings: Iterable[Finding]) -> None:
        """Values that depend on their older selves, by an instruction of the loop itself."""
        kinds: dict[IdiomKind, set[int]] = {}
        for one in findings:
            operations = {number for pair in one.pairs for number in pair}
            if not self._is_own(loop, one) or operations & self._chased or one.kind is None:
                continue
            if self._chased_in(one):
                continue
            if one.kind is DependenceKind.REDUCTION:
                kinds.setdefault(IdiomKind.REDUCTION, set()).update(operations - self._fixed.keys())
            elif one.kind is DependenceKind.COLLISION or (operations and operations <= self._indirect):
                kinds.setdefault(IdiomKind.GATHER_MODIFY_SCATTER, set()).update(operations)
            elif one.kind is DependenceKind.RECURRENCE and any(map(self._carried.is_calculated, one.cycle)):
                kinds.setdefault(IdiomKind.RECURRENCE, set()).update(operations - self._fixed.keys())
        for kind, operations in sorted(kinds.items()):
            self._add(loop, kind, operations)

    def _is_own(self, loop: int, one: Finding) -> bool:
        """Whether it is computed in the loop itself, not in one inside it."""
        nodes = [node for node in one.cycle if self._carried.is_combined(node)] or [*one.cycle] or [one.node]
        return any(self._loop_of(node) == loop for node in nodes if node >= 0)

    def _loop_of(self, node: int) -> int:
        return int(self._forest.innermost[self._blocks.block_of[self._carried.instruction_of(node)]])

    def _chased_in(self, one: Finding) -> bool:
        chased = {self._carried.node_of(operation) for operation in self._chased}
        return not chased.isdisjoint(one.cycle)

    # ---- arrays that a loop walks over ----

    def _walks(self, loop: int, walks: Sequence[Access], graph: Graph) -> None:
        """Add the idioms of regular strides: recurrence, stencil, transpose, stream, strided."""
        again = {one.number for pair in recurrences(walks, partial(self._comes_back, graph)) for one in pair}
        around = stencil(walks, partial(self._reaches, graph))
        turned = transposed(walks, partial(self._reaches, graph, only_moves=True))
        strided = [one for one in walks if not is_unit(one, walks)]
        stored = [one.number for one in walks if one.is_store and one not in strided]
        is_stream = stored and not around and all(one.is_store for one in strided)
        for kind, members in (
            (IdiomKind.RECURRENCE, again),
            (IdiomKind.STENCIL, around),
            (IdiomKind.TRANSPOSE, turned),
            (IdiomKind.STREAM, {*stored} - again - turned if is_stream else ()),
            (IdiomKind.STRIDED, {one.number for one in strided} - turned),
        ):
            if members:
                self._add(loop, kind, members)

    def _comes_back(self, graph: Graph, load: Access, store: Access) -> bool:
        """Whether a load flows into a store whose address is computed from the same values, apart from constants."""
        origins = [self._carried.address_origins(one.number, graph) for one in (load, store)]
        return origins[0] == origins[1] and self._reaches(graph, load, store)

    def _reaches(self, graph: Graph, load: Access, store: Access, *, only_moves: bool = False) -> bool:
        """Whether the loaded value flows into the stored one, in one iteration."""
        target = self._carried.node_of(store.number)
        pending, seen = [self._carried.node_of(load.number)], set[int]()
        while pending and len(seen) < _MOST_STEPS:
            node = pending.pop()
            for user in graph.successors.get(node, ()):
                if user == target:
                    return True
                if user >= 0 and user not in seen and not (only_moves and self._carried.is_combined(user)):
                    seen.add(user)
                    pending.append(user)
        return False
