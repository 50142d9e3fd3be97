"""Gathers and scatters, found from the program's data flow.

A load or store is indirect when its address is the sum of something and a value that the same loop loads at a varying
address: A[index[i]] (Carrington et al., ICS'11, section 2). The loaded value may first be computed with. An access
through a loaded pointer (p[i]->x) has no array A and is not indirect; nor is one whose address is computed from a value
it loaded before (p = p->next), nor accesses through that pointer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from foretrace.cache_sim.base.results import OperationStatistics
from foretrace.tracer.analysis.graphs import cycles, groups
from foretrace.tracer.analysis.loops import LoopForest
from foretrace.tracer.isa.instruction_set import DataFlow, Flow, Isa
from foretrace.tracer.signature.records import Idiom, IdiomKind

from .basic_blocks import BasicBlocks
from .data_flow import AddressOrigins, BlockCode, LoopDataFlow, Step


class Indirections(msgspec.Struct):
    """The idioms, and the findings on each memory operation alone.

    `loops_given_up` counts loops whose data flow exceeds the limits of the search.
    """

    idioms: list[Idiom] = msgspec.field(default_factory=list)
    index_operation: dict[int, int] = msgspec.field(default_factory=dict)
    self_dependent: set[int] = msgspec.field(default_factory=set)
    loops_given_up: int = 0


def fixed_operations(statistics: OperationStatistics) -> dict[int, int]:
    """Operations that ran more than once and touched a single address, and which."""
    last = statistics.first + statistics.size_bytes
    is_fixed = (statistics.executions > 1) & (statistics.last_exclusive == last)
    return {int(operation): int(statistics.first[operation]) for operation in np.flatnonzero(is_fixed)}


class IdiomFinder:
    """Finds the indirect accesses of a traced binary.

    `statistics` and `sites` (file and line) are those of the memory operations of `blocks`.
    """

    def __init__(
        self,
        blocks: BasicBlocks,
        forest: LoopForest,
        isa: Isa,
        statistics: OperationStatistics,
        sites: Sequence[tuple[str, int]],
    ) -> None:
        """Prepare the search."""
        self._blocks = blocks
        self._forest = forest
        self._isa = isa
        self._sites = sites
        self._executions = statistics.executions.tolist()
        self._first = statistics.first.tolist()
        self._last_exclusive = statistics.last_exclusive.tolist()
        self._fixed = fixed_operations(statistics)
        self._of_instruction: dict[tuple[int, bool], int] = {
            (instruction, is_store): operation
            for operation, (instruction, is_store) in enumerate(
                zip(blocks.operation_instruction.tolist(), blocks.operation_is_store.tolist(), strict=True)
            )
        }
        self._code: dict[int, BlockCode] = {}

    def find(self) -> Indirections:
        """Search all loops."""
        found = Indirections()
        successors: dict[int, list[int]] = {}
        for source, target, _ in self._forest.flow:
            successors.setdefault(source, []).append(target)
        innermost = self._forest.innermost[self._blocks.block_of[self._blocks.operation_instruction]].tolist()
        own: dict[int, list[int]] = {}
        for operation, loop in enumerate(innermost):
            if loop >= 0 and operation not in self._fixed:
                own.setdefault(loop, []).append(operation)
        for loop, operations in sorted(own.items()):
            self._search(loop, operations, successors, found)
        return found

    def _search(
        self, loop: int, operations: Sequence[int], successors: Mapping[int, Sequence[int]], found: Indirections
    ) -> None:
        """Find the indirect accesses among the operations of which this is the innermost loop."""
        members = self._forest.loops[loop].blocks
        origins = LoopDataFlow(
            {block: self._block_code(block) for block in members},
            {block: [target for target in successors.get(block, ()) if target in members] for block in members},
            self._fixed,
            self._isa.stack_pointer,
            self._isa.call_clobbered,
        ).run(self._forest.loops[loop].header)
        if origins is None:
            found.loops_given_up += 1
            return
        chased = _self_dependent(origins)
        indirect: dict[IdiomKind, list[int]] = {IdiomKind.GATHER: [], IdiomKind.SCATTER: []}
        for operation in operations:
            sources = origins.sources.get(operation, frozenset())
            if sources:
                found.index_operation[operation] = min(sources, key=lambda s: (-self._executions[s], s))
            if operation in chased:
                found.self_dependent.add(operation)
            is_indirect = (sources and operation in origins.bases) or operation in origins.vector_gathers
            if is_indirect and not sources & chased and operation not in chased | origins.jump_sources:
                is_store = bool(self._blocks.operation_is_store[operation])
                indirect[IdiomKind.SCATTER if is_store else IdiomKind.GATHER].append(operation)
        for kind, members_of_kind in indirect.items():
            for group in self._groups(members_of_kind, origins):
                indices = sorted({source for operation in group for source in origins.sources.get(operation, ())})
                sites = [self._sites[operation] for operation in group]
                file, line = min(sites, key=lambda site: (site[1] == 0, site))
                found.idioms.append(Idiom(len(found.idioms), loop, kind, file, line, tuple(group), tuple(indices)))

    def _block_code(self, block: int) -> BlockCode:
        """The instructions of a block with their data flow, decoded when first needed."""
        code = self._code.get(block)
        if code is None:
            steps = (
                step for instruction in self._blocks.instructions(block) for step in self._instruction(instruction)
            )
            code = self._code[block] = BlockCode(steps, self._isa.stack_pointer)
        return code

    def _instruction(self, instruction: int) -> Iterator[Step]:
        load = self._of_instruction.get((instruction, False), -1)
        store = self._of_instruction.get((instruction, True), -1)
        code, address = self._blocks.codes[instruction], int(self._blocks.addresses[instruction])
        flow: DataFlow | None = self._isa.data_flow(code, address, load >= 0, store >= 0)
        is_call = self._blocks.instruction_class(instruction).flow is Flow.CALL
        while flow is not None:
            yield Step(instruction, flow, load, store, is_call)
            flow = flow.then

    def _groups(self, operations: Sequence[int], origins: AddressOrigins) -> list[list[int]]:
        """Operations on one array: they touch mostly the same addresses, or stand on one line and have one base."""
        pairs = []
        by_base: dict[tuple[tuple[str, int], frozenset[int]], int] = {}
        for operation in operations:
            bases = origins.bases.get(operation, frozenset())
            if bases and self._sites[operation][1]:
                pairs.append((by_base.setdefault((self._sites[operation], bases), operation), operation))
        by_address = sorted(operations, key=lambda operation: self._first[operation])
        for position, one in enumerate(by_address):
            for other in by_address[position + 1 :]:
                common = min(self._last_exclusive[one], self._last_exclusive[other]) - self._first[other]
                if common <= 0:
                    break
                both = max(self._last_exclusive[one], self._last_exclusive[other]) - self._first[one]
                if 2 * common > both:
                    pairs.append((one, other))
        return groups(operations, pairs)


def _self_dependent(origins: AddressOrigins) -> set[int]:
    """Operations whose address depends on a value they loaded before, directly or through other loads."""
    return set().union(*cycles(origins.sources))
