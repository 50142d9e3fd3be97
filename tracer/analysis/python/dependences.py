"""Derives the loop-carried dependences of a Python program's loops from its recording and its source.

Elements of lists and arrays are followed by their recorded accesses, names by the source. Dictionaries, sets and the
state of compiled functions are not followed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from foretrace.tracer.reader.raw_dependences import RawDependences, RawKind, examined_loop, nest_of
from foretrace.tracer.reader.raw_trace import RawArrayOperation
from foretrace.tracer.signature.data_flow_records import Dependence, DependenceKind, ExaminedLoop
from foretrace.tracer.signature.tree_records import ExecutionTree, TreeNodeKind

from .carried_names import SourceLoops
from .source_text import source_text

_PRODUCTS = re.compile(r"(dot|vdot|inner|matmul|matvec|vecmat|vecdot|cs[rc]_matvecs?)$")
_NAMED = {
    "add": "add", "subtract": "add", "multiply": "multiply", "minimum": "min", "maximum": "max", "fmin": "min",
    "fmax": "max", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "logical_and": "and",
    "logical_or": "or", "logical_xor": "xor",
}  # fmt: skip
"""Associative ufuncs; differences count as sums of the subtracted values."""
_STORES = ("__setitem__", ".at")


class Found(msgspec.Struct, frozen=True):
    """Dependences of a recording's loops, and the loops that were examined."""

    dependences: tuple[Dependence, ...] = ()
    examined: tuple[ExaminedLoop, ...] = ()
    notes: tuple[str, ...] = ()


class _Totals(msgspec.Struct):
    """Number of dependences between two operations in a loop, with their least and greatest distance in iterations."""

    count: int = 0
    least: int = 0
    most: int = 0

    def add(self, count: int, least: int, most: int) -> None:
        self.least = min(self.least, least) if self.count else least
        self.most = max(self.most, most)
        self.count += count


def find_dependences(
    raw: RawDependences,
    loop_nodes: Sequence[int],
    tree: ExecutionTree,
    arrays: Sequence[RawArrayOperation],
    operation_array: Sequence[int],
    lines: Sequence[tuple[str, int]],
    index_operation: Mapping[int, int],
    array_loop: Callable[[int], int | None],
) -> Found:
    """Loop-carried dependences.

    `loop_nodes` are the tree's nodes of the rows of `raw.loops`, those of bytecode; -1 for all others. `lines` are file
    and line of each memory operation. `index_operation` maps an operation to the one that loads its index. `array_loop`
    returns the loop of an array operation.
    """
    finder = _Finder(tree, arrays, operation_array, lines, index_operation)
    nodes = finder.nodes(raw, loop_nodes, array_loop)
    finder.take_rows(raw, nodes)
    dependences = [*finder.of_elements(), *finder.of_names(), *finder.of_arrays()]
    dependences.sort(key=lambda one: (one.node, -int(one.kind), -one.count, one.source, one.sink, one.where))
    notes = list(finder.notes())
    if raw.share < 1:
        notes.append(f"dependences through memory: {raw.share:.1%} of the memory pages were followed")
    examined = tuple(
        examined_loop(node, iterations, finder.written.get(node, 0), finder.overwritten.get(node, 0))
        for node, (iterations, _) in sorted(finder.iterations.items())
    )
    return Found(tuple(dependences), examined, tuple(notes))


class _Finder:
    def __init__(
        self,
        tree: ExecutionTree,
        arrays: Sequence[RawArrayOperation],
        operation_array: Sequence[int],
        lines: Sequence[tuple[str, int]],
        index_operation: Mapping[int, int],
    ) -> None:
        self._tree, self._arrays = tree, arrays
        self._operation_array, self._lines, self._index = operation_array, lines, index_operation
        self._sources: dict[str, SourceLoops | None] = {}
        self.iterations: dict[int, tuple[int, int]] = {}  # and entries, by node
        self._array_of: dict[int, int] = {}
        self._tables: dict[tuple[int, RawKind], dict[tuple[int, int], _Totals]] = defaultdict(
            lambda: defaultdict(_Totals)
        )
        self.written: dict[int, int] = defaultdict(int)
        self.overwritten: dict[int, int] = defaultdict(int)
        self._updates: dict[tuple[int, int], int] = defaultdict(int)
        self._stores: dict[int, int] = defaultdict(int)

    def nodes(
        self, raw: RawDependences, loop_nodes: Sequence[int], array_loop: Callable[[int], int | None]
    ) -> list[int]:
        """The tree's node of each row of `raw.loops`; -1 for none."""
        leaves: dict[int, int] = {}
        for node in range(len(self._tree)):
            if int(self._tree.kind[node]) == TreeNodeKind.LEAF:
                leaves.setdefault(int(self._tree.loop_id[node]), node)
        found = []
        for node, (array_id, iterations, entries) in zip(loop_nodes, raw.loops[:, 3:6].tolist(), strict=True):
            if array_id:
                loop = array_loop(array_id)
                node = -1 if loop is None else leaves.get(loop, -1)
                self._array_of.setdefault(node, array_id)
                iterations -= entries  # the point before the first
            found.append(node)
            if node >= 0:
                before = self.iterations.get(node, (0, 0))
                self.iterations[node] = (before[0] + iterations, before[1] + entries)
        return found

    def take_rows(self, raw: RawDependences, nodes: Sequence[int]) -> None:
        """Enter the recorded dependences."""
        around, parents = raw.loops[:, 6].tolist(), self._tree.parent.tolist()
        for kind, source, sink, loop, count, least, most, size_bytes in raw.rows.astype(np.int64).tolist():
            if kind == RawKind.STORES:
                self._stores[sink] += count
            elif kind == RawKind.WRITTEN:
                self._take_written(nest_of(source, loop, around, nodes, parents), sink, size_bytes)
            elif kind == RawKind.UPDATE:
                self._updates[source, sink] += count
            elif nodes[loop] >= 0 and kind != RawKind.FLOW_WITHIN:
                self._tables[nodes[loop], RawKind(kind)][source, sink].add(count, least, most)
                if kind == RawKind.OUTPUT and self._name(sink).endswith(_STORES):
                    self.overwritten[nodes[loop]] += size_bytes

    def _take_written(self, loops: Sequence[int], store: int, size_bytes: int) -> None:
        """Enter the bytes that loops write in an iteration. The results of array operations are left out: their memory
        is soon free again."""
        for node in loops if self._name(store).endswith(_STORES) else ():
            if node in self.iterations:
                self.written[node] += size_bytes

    def _source(self, file: str) -> SourceLoops | None:
        if file not in self._sources:
            self._sources[file] = _source_of(file)
        return self._sources[file]

    def _name(self, operation: int) -> str:
        array_id = self._operation_array[operation]
        return self._arrays[array_id - 1].name if 0 < array_id <= len(self._arrays) else ""

    def notes(self) -> Iterable[str]:
        """Notes on source files that could not be read."""
        lost = sum(one is None for file, one in self._sources.items() if file.endswith(".py"))
        if lost:
            yield f"names were not followed in {lost} source files that could not be read"

    # ---- elements, in loops of bytecode ----

    def of_elements(self) -> Iterable[Dependence]:
        """Dependences carried through elements of lists and arrays."""
        for (node, kind), table in self._tables.items():
            if int(self._tree.kind[node]) != TreeNodeKind.LOOP:
                continue
            key = self._tree.keys[node]
            source = self._source(key.file)
            for (store, other), totals in table.items():
                file, line = self._lines[store if kind is not RawKind.ANTI else other]
                of_line = self._source(file)
                if of_line is not None and source is not None and file == key.file and of_line.is_new(line, key.line):
                    continue
                is_indexed = of_line is not None and of_line.is_indirect(line)
                found = self._element(kind, store, other, line, of_line, is_indexed=is_indexed or store in self._index)
                if found is not None:
                    least, most = totals.least, totals.most
                    yield Dependence(node, found[0], store, other, totals.count, least, most, found[1])

    def _element(
        self, kind: RawKind, store: int, other: int, line: int, source: SourceLoops | None, *, is_indexed: bool
    ) -> tuple[DependenceKind, str] | None:
        if kind is RawKind.FLOW:
            operation = source.update(line) if source is not None else None
            if operation and self._updates.get((other, store), 0) == self._stores[store]:
                return (DependenceKind.COLLISION if is_indexed else DependenceKind.REDUCTION), operation
            return DependenceKind.RECURRENCE, ""
        if not self._name(other).endswith(_STORES):
            return None  # a result in memory that was free again
        if kind is RawKind.OUTPUT and self._is_update(other):
            return None  # told as one, if at all
        if kind is RawKind.ANTI and self._updates.get((store, other), 0) == self._stores[other]:
            return None
        if kind is RawKind.OUTPUT and is_indexed:
            return DependenceKind.COLLISION, ""
        return DependenceKind.PRIVATISABLE, ""

    def _is_update(self, store: int) -> bool:
        return any(sink == store and count == self._stores[store] for (_, sink), count in self._updates.items())

    # ---- names ----

    def of_names(self) -> Iterable[Dependence]:
        """Dependences carried through names."""
        for node, (iterations, entries) in self.iterations.items():
            key = self._tree.keys[node]
            again = iterations - entries
            source = self._source(key.file)
            if int(self._tree.kind[node]) != TreeNodeKind.LOOP or source is None or again <= 0:
                continue
            for one in source.carried(key.line):
                yield Dependence(node, one.kind, -1, -1, again, 1, 1, one.operation, one.name)

    # ---- array operations ----

    def of_arrays(self) -> Iterable[Dependence]:
        """Dependences between the points of an array operation."""
        for node, array_id in self._array_of.items():
            if node < 0:
                continue
            name = self._arrays[array_id - 1].name.removesuffix(" (index check)")
            *_, function = name.split(".")
            again = max(self.iterations[node][0] - self.iterations[node][1], 0)
            if function == "at":
                yield from self._collisions(node, _NAMED.get(name.split(".")[-2], ""))
            elif function in ("reduce", "reduceat") and again:
                yield Dependence(node, DependenceKind.REDUCTION, -1, -1, again, 1, 1, self._operation(name), name)
            elif function == "accumulate" and again:
                yield Dependence(node, DependenceKind.RECURRENCE, -1, -1, again, 1, 1, "", name)
            elif _PRODUCTS.search(function) and again:
                yield Dependence(node, DependenceKind.REDUCTION, -1, -1, again, 1, 1, "add", name)
            elif function == "__setitem__":
                yield from self._collisions(node, "")

    @staticmethod
    def _operation(name: str) -> str:
        parts = name.split(".")
        return _NAMED.get(parts[-2], "") if len(parts) > 1 else ""

    def _collisions(self, node: int, operation: str) -> Iterable[Dependence]:
        """Collisions of an array operation that stores through indices."""
        totals, ends = _Totals(), (-1, -1)
        for (store, other), one in self._tables.get((node, RawKind.OUTPUT), {}).items():
            if store in self._index or self._is_indexed(store):
                totals.add(one.count, one.least, one.most)
                ends = (store, other)
        if totals.count:
            yield Dependence(
                node, DependenceKind.COLLISION, *ends, totals.count, totals.least, totals.most, operation
            )  # fmt: skip

    def _is_indexed(self, operation: int) -> bool:
        array_id = self._operation_array[operation]
        if not 0 < array_id <= len(self._arrays):
            return False
        first = operation
        while first > 0 and self._operation_array[first - 1] == array_id:
            first -= 1
        return self._arrays[array_id - 1].operands[operation - first].is_indexed


def _source_of(file: str) -> SourceLoops | None:
    """A source file's loops; None where it cannot be read."""
    text = source_text(file)
    try:
        return None if text is None else SourceLoops(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
