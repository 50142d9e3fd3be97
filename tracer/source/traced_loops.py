"""Loops and array operations of a signature, prepared for joining with source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from foretrace.tracer.signature.data_flow_records import Dependence, DependenceKind
from foretrace.tracer.signature.records import Block, MemoryOperation, Signature
from foretrace.tracer.signature.tree_records import TreeNodeKind

PARALLEL, REDUCTION, COLLISION, SERIAL = "parallel", "reduction", "colliding updates", "serial"
_LEAST_ACCESSES = 64
"""Least accesses of an operation whose stride is judged."""
_MOST_SITES = 4
"""Levels of calls, or of code expanded in line, that are followed outwards."""

Place = tuple[str, int]
"""File and line."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A loop or array operation that ran."""

    file: str
    line: int
    function: str = ""
    module: str = ""
    loops: tuple[int, ...] = ()
    """`Loop.loop_id` of the signature's loops that it is."""
    idioms: frozenset[str] = frozenset()
    """Idioms that machine code and addresses show."""
    judged: str = ""
    """Verdict of the run's dependences: `PARALLEL`, `REDUCTION`, `COLLISION` or `SERIAL`; "": not examined."""
    reason: str = ""
    """Why it is judged so."""
    iterations: int = 0
    entries: int = 0
    irregular: float | None = None
    """Share of its accesses that follow no stride, of the operation with the most; None: too few accesses."""
    is_library: bool = False
    """It is a library's, called or expanded in line at its place."""
    sites: tuple[Place, ...] = ()
    """Places where it was expanded in line, or called from: innermost first."""


@dataclass(frozen=True, slots=True)
class Run:
    """A traced run: its loops, and the lines with executed code."""

    loops: tuple[Ran, ...]
    lines: dict[str, frozenset[int]] = field(default_factory=dict)
    """Lines by file that have a loop, or a memory operation with several addresses."""
    digests: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each file's content when the program was traced."""
    inside: dict[int, frozenset[int]] = field(default_factory=dict)
    """Loops that ran inside each loop, also in functions that it calls."""

    @property
    def has_lines(self) -> bool:
        """Whether anything that ran has a file and line."""
        return any(one.file for one in self.loops) or bool(self.lines)


def run_of(signature: Signature) -> Run:
    """The loops and array operations of a run that can be joined with source."""
    own: dict[int, list[MemoryOperation]] = defaultdict(list)
    lines: dict[str, set[int]] = defaultdict(set)
    for operation in signature.operations:
        loop = signature.blocks[operation.block_id].loop_id
        if loop is not None:
            own[loop].append(operation)
        if operation.file and (operation.range_bytes > operation.size_bytes or operation.array_operation):
            lines[operation.file].add(operation.line)
    idioms: dict[int, set[str]] = defaultdict(set)
    for idiom in signature.idioms:
        idioms[idiom.loop_id].add(str(idiom.kind))
    judged = _judged(signature)
    sites = _Sites(signature)
    ran = []
    for one in signature.loops:
        if one.file:
            lines[one.file].add(one.line)
        verdict, reason = judged.get(one.loop_id, ("", ""))
        ran.append(
            Ran(
                one.file, one.line, one.function, one.module, (one.loop_id,), frozenset(idioms[one.loop_id]), verdict,
                reason, one.iterations, one.entries, _irregular(own[one.loop_id]), one.is_library,
                sites.of(one.loop_id),
            )
        )  # fmt: skip
    return Run(
        tuple(ran),
        {file: frozenset(at) for file, at in lines.items()},
        dict(signature.provenance.source_digests),
        _inside(signature),
    )


def _inside(signature: Signature) -> dict[int, frozenset[int]]:
    found: dict[int, set[int]] = defaultdict(set)
    tree = signature.tree
    if tree is None:
        for one in signature.loops:
            above = one.parent_id
            while above is not None:
                found[above].add(one.loop_id)
                above = signature.loops[above].parent_id
    else:
        parent, loop_of = tree.parent.tolist(), tree.loop_id.tolist()
        for node, loop in enumerate(loop_of):
            above = parent[node]
            while loop >= 0 and above >= 0:
                if loop_of[above] >= 0:
                    found[loop_of[above]].add(loop)
                above = parent[above]
    return {loop: frozenset(below) for loop, below in found.items()}


def _irregular(operations: Iterable[MemoryOperation]) -> float | None:
    shares = [
        one.irregular / moved
        for one in operations
        if (moved := one.unit_stride + one.strided + one.irregular) >= _LEAST_ACCESSES
    ]
    return max(shares, default=None)


_WORST = (SERIAL, COLLISION, REDUCTION, PARALLEL)
_KINDS = {
    DependenceKind.RECURRENCE: SERIAL,
    DependenceKind.COLLISION: COLLISION,
    DependenceKind.REDUCTION: REDUCTION,
    DependenceKind.PRIVATISABLE: PARALLEL,
}


def _judged(signature: Signature) -> dict[int, tuple[str, str]]:
    """Verdict and reason of each loop: the worst over all calling contexts."""
    tree = signature.tree
    if tree is None:
        return {}
    found: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for one in signature.examined_loops:
        if one.iterations > 1:
            why = f"no dependence seen in {one.iterations:,} iterations"
            found[int(tree.loop_id[one.node])].append((PARALLEL, why))
    for dependence in signature.dependences:
        loop = int(tree.loop_id[dependence.node])
        found[loop].append((_KINDS[dependence.kind], _reason(dependence, signature)))
    return {
        loop: min(all_of_it, key=lambda one: _WORST.index(one[0])) for loop, all_of_it in found.items() if loop >= 0
    }


def _reason(one: Dependence, signature: Signature) -> str:
    match one.kind:
        case DependenceKind.RECURRENCE:
            ends = [signature.operations[number].line for number in (one.source, one.sink) if number >= 0]
            where = " to ".join(f"line {line}" for line in ends if line) or one.where or "a register"
            return f"recurrence from {where}, distance {one.least_distance:,}"
        case DependenceKind.COLLISION:
            return f"{one.count:,} updates hit a place that another iteration hit"
        case DependenceKind.REDUCTION:
            return f"reduction ({one.operation or 'of an unknown operation'})"
    return "a place is used again, no value is handed on"


class _Sites:
    """Finds the sites at which loops were inlined or called.

    Inlined: the code that runs before the loop's entry belongs to the line of the inlined call. Called: the execution
    tree keeps the line of each call.
    """

    def __init__(self, signature: Signature) -> None:
        self._blocks = signature.blocks
        self._loops = signature.loops
        self._before: dict[int, list[int]] = defaultdict(list)
        for source, target, _ in signature.edges.tolist():
            self._before[int(target)].append(int(source))
        self._calls: dict[int, list[Place]] = defaultdict(list)
        tree = signature.tree
        if tree is None:
            return
        parent, kind, loop_of = tree.parent.tolist(), tree.kind.tolist(), tree.loop_id.tolist()
        for node, loop in enumerate(loop_of):
            if loop < 0:
                continue
            at, found = node, self._calls[loop]
            while at >= 0 and len(found) < 2 * _MOST_SITES:
                above = parent[at]
                if kind[at] == TreeNodeKind.CALL and above >= 0 and tree.keys[at].site_line and tree.keys[above].file:
                    site = (tree.keys[above].file, tree.keys[at].site_line)
                    if site not in found:
                        found.append(site)
                at = above

    def of(self, loop: int) -> tuple[Place, ...]:
        """Sites of a loop, innermost first."""
        header = self._loops[loop].header_block_id
        own = (self._loops[loop].file, self._loops[loop].line)
        found: list[Place] = []
        pending, seen = [header], {header}
        for _ in range(_MOST_SITES):
            pending = [
                block
                for one in pending
                for block in self._before[one]
                if block not in seen
                and self._function(block) == self._function(header)
                and self._is_before(block, loop)
            ]
            seen.update(pending)
            found += [site for block in pending if (site := _site(self._blocks[block])) != own and site[0]]
        return tuple(dict.fromkeys([*found, *self._calls[loop]]))

    def _function(self, block: int) -> tuple[str, str]:
        return self._blocks[block].module, self._blocks[block].function

    def _is_before(self, block: int, loop: int) -> bool:
        """Whether a block runs before a loop is entered, and is of no other loop."""
        within = self._blocks[block].loop_id
        above = self._loops[loop].parent_id
        while above is not None and above != within:
            above = self._loops[above].parent_id
        return above == within


def _site(block: Block) -> Place:
    return block.file, block.line
