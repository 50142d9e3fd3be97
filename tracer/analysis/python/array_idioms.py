"""Idioms of Python's loops and array operations beyond gathers and scatters.

Names identify many array operations: `numpy.add.reduce` is a reduction. The others, and elements of lists and arrays
that a loop of bytecode accesses, are classified by the addresses of their operands, as in machine code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from foretrace.tracer.analysis.access_order import Access, Order, is_unit, recurrences, stencil, transposed
from foretrace.tracer.signature.linear_algebra import LinearRoutine
from foretrace.tracer.signature.records import IdiomKind

_MOST_TABLE = 256
"""Most elements of a look-up table: the number of values of a byte."""
_USES = 4
"""Least mean number of accesses to each element of a table."""
_BY_LAST_NAME = {
    **dict.fromkeys(
        ("reduce", "sum", "prod", "min", "max", "mean", "std", "var", "any", "all", "argmin", "argmax", "dot", "vdot",
         "inner", "trace", "count_nonzero", "norm", "average", "median", "vecdot", "reduceat"),
        IdiomKind.REDUCTION,
    ),
    **dict.fromkeys(("accumulate", "cumsum", "cumprod"), IdiomKind.PREFIX_SCAN),
    **dict.fromkeys(("sort", "argsort", "partition", "argpartition", "lexsort", "unique"), IdiomKind.SORT),
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "fftn", "ifftn"), IdiomKind.FFT),
    **dict.fromkeys(("nonzero", "where", "compress", "flatnonzero", "extract"), IdiomKind.COMPACTION),
    **dict.fromkeys(("csr_matvec", "csr_matvecs"), IdiomKind.SPARSE_PRODUCT),
}  # fmt: skip
_BY_ROUTINE = {
    LinearRoutine.GEMM: IdiomKind.MATRIX_PRODUCT,
    LinearRoutine.SYRK: IdiomKind.MATRIX_PRODUCT,
    LinearRoutine.GEMV: IdiomKind.MATRIX_VECTOR_PRODUCT,
    LinearRoutine.DOT: IdiomKind.REDUCTION,
}
_COPIES = frozenset(
    {"copy", "copyto", "ascontiguousarray", "asfortranarray", "__setitem__", "array", "ravel", "flatten"}
)

Found = tuple[IdiomKind, tuple[int, ...]]
"""An idiom, and the memory operations that make it."""


def idioms_of(
    names: Collection[str],
    routines: Collection[LinearRoutine],
    accesses: Sequence[Access],
    indexed: Collection[int],
) -> Iterator[Found]:
    """The idioms of one loop.

    Args:
        names: of its array operations: "numpy.add.reduce".
        routines: linear algebra routines among them.
        accesses: its memory operations.
        indexed: the memory operations whose address comes from an index.
    """
    last_names = {name.rpartition(".")[2] for name in names}
    everything = tuple(one.number for one in accesses)
    by_routine = {_BY_ROUTINE[routine] for routine in routines if routine in _BY_ROUTINE}
    known = by_routine or {_BY_LAST_NAME[name] for name in last_names if name in _BY_LAST_NAME}
    if any(name.endswith("(mask)") for name in names):
        known.add(IdiomKind.COMPACTION)
    for kind in sorted(known):
        yield kind, everything
    yield from _indirect(accesses, indexed)
    if known or routines:
        return
    walks = [one for one in accesses if one.order in (Order.UNIT, Order.STRIDED) and one.number not in indexed]
    yield from _walks(
        walks, is_copy=bool(last_names & _COPIES), is_indirect=any(one.number in indexed for one in accesses)
    )


def _indirect(accesses: Iterable[Access], indexed: Collection[int]) -> Iterator[Found]:
    """Idioms of indexed accesses: updates through an index, and look-up tables."""
    there = [one for one in accesses if one.number in indexed]
    stores = {(one.first, one.last): one for one in there if one.is_store}
    for load in there:
        if load.is_store:
            continue
        store = stores.get((load.first, load.last))
        if store is not None:
            yield IdiomKind.GATHER_MODIFY_SCATTER, (load.number, store.number)
        elif load.range <= _MOST_TABLE * load.size and load.executions * load.size >= _USES * load.range:
            yield IdiomKind.TABLE_LOOKUP, (load.number,)


def _walks(walks: Sequence[Access], *, is_copy: bool, is_indirect: bool) -> Iterator[Found]:
    """Idioms of regular strides: recurrence, stencil, transpose, stream, strided."""
    again = {one.number for pair in recurrences(walks, lambda load, store: True) for one in pair}
    around = stencil(walks, lambda load, store: True)
    turned = transposed(walks, lambda load, store: True) if is_copy else set()
    strided = [one for one in walks if not is_unit(one, walks)]
    stored = {one.number for one in walks if one.is_store and one not in strided}
    is_stream = not is_indirect and not around and all(one.is_store for one in strided)
    for kind, members in (
        (IdiomKind.RECURRENCE, again),
        (IdiomKind.STENCIL, around),
        (IdiomKind.TRANSPOSE, turned),
        (IdiomKind.STREAM, stored - again - turned if is_stream else set()),
        (IdiomKind.STRIDED, {one.number for one in strided} - turned),
    ):
        if members:
            yield kind, tuple(sorted(members))
