"""Evidence of parallelism in a signature, and reasons why nodes cannot run on a device at all.

Where dependences were recorded, they decide: in all iterations, or in windows of the run, where some iterations of hot
loops were seen. Where they were not, a loop counts as parallel, unless the data flow shows that it carries something
(`carried`). That is an assumption, and it is called so. Loops that only repeat the same work are no parallel ones in
either case (`repetition`).

What the source proves decides before all that (`with_source`): a recurrence stays, and a loop that it proves to be
parallel goes, whatever registers or data flow suggest. What it only shows under an assumption counts where no access of
the run contradicts it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from foretrace.replay.base.spread import Floats
from foretrace.tracer.analysis.data_flow.verdicts import is_in_part
from foretrace.tracer.signature.data_flow_records import Dependence, DependenceKind, ExaminedLoop
from foretrace.tracer.signature.verdicts import Authority, LoopVerdict, Said, Verdict

from .algorithms import is_known
from .array_calls import array_operation
from .carried import HANDED_ON, carried
from .demand import Demand
from .gather_scatter import LOADERS_CODE, is_loader
from .repetition import repetitions
from .stores import Stores
from .work import NodeKind, Work

_HOST_ONLY = re.compile(
    r"(_IO_.*|_?_?v?[fs]?n?w?printf(_internal|_chk)?|puts|fputs|putchar|fputc|fwrite|fread|fopen|fclose|fflush|read|write|open"
    r"|close|getline|fgets|v?f?scanf|getc|getchar|malloc|calloc|realloc|free|posix_memalign|aligned_alloc|mmap|munmap|brk"
    r"|exit|abort|fork|pthread_.*|rand|random|srand|drand48|getenv|time|clock_gettime|nanosleep|qsort)"
)


class Parallel(StrEnum):
    """Dependences between a loop's iterations, as far as known."""

    YES = "parallel"  # examined, none depends on another
    REDUCTION = "reduction"  # examined, they only combine into one value
    COLLISION = "colliding updates"  # examined, some update the same place: atomics
    SAMPLED = "likely parallel"  # examined in windows of the run, none depends on another there
    ASSUMED = "assumed parallel"  # not examined
    REPETITION = "repetition"  # iterations only overwrite what the one before stored
    NO = "serial"

    @property
    def verdict(self) -> Verdict:
        """Its place on the scale of verdicts. What a repetition's iterations store, each could store for itself."""
        return _ON_SCALE[self]

    @property
    def is_serial(self) -> bool:
        """Whether iterations run one after the other."""
        return self in (Parallel.NO, Parallel.REPETITION)


_ON_SCALE = {
    Parallel.YES: Verdict.PARALLEL,
    Parallel.REDUCTION: Verdict.REDUCTION,
    Parallel.COLLISION: Verdict.COLLISION,
    Parallel.SAMPLED: Verdict.PARALLEL,
    Parallel.ASSUMED: Verdict.UNKNOWN,
    Parallel.REPETITION: Verdict.PARALLEL,
    Parallel.NO: Verdict.RECURRENCE,
}
_SEVERITY = (Verdict.PARALLEL, Verdict.REDUCTION, Verdict.COLLISION, Verdict.RECURRENCE)
_KINDS = {
    DependenceKind.PRIVATISABLE: Verdict.PARALLEL,
    DependenceKind.REDUCTION: Verdict.REDUCTION,
    DependenceKind.COLLISION: Verdict.COLLISION,
    DependenceKind.RECURRENCE: Verdict.RECURRENCE,
}
Sources = Mapping[int, Said]
"""Statements of the source about loops, by the number of the signature's loop."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Verdict on each node: whether its iterations are independent, why, and why no device can run it ("" if one can).

    `refusals` are of the node itself, `refused_below` of it or a node below it. `is_candidate` bool [nodes]: loops and
    array operations, without serial loops that hold parallel ones. Those are sequences of kernels. Of a call into
    libraries only its main loop is one. `is_outside` bool [nodes]: what runs before, after or around `main`, where
    there is one. `by_flow` bool [nodes]: loops that count as serial by the data flow alone. `verdicts` are those of
    loops on the scale of verdicts, None of other nodes. `is_assumed` bool [nodes]: nothing but an assumption makes them
    parallel.
    """

    parallel: tuple[Parallel, ...]
    texts: tuple[str, ...]
    refusals: tuple[str, ...]
    refused_below: tuple[str, ...]
    is_candidate: np.typing.NDArray[np.bool_]
    is_outside: np.typing.NDArray[np.bool_]
    by_flow: np.typing.NDArray[np.bool_]
    verdicts: tuple[LoopVerdict | None, ...]
    is_assumed: np.typing.NDArray[np.bool_]

    @classmethod
    def of(cls, work: Work, demand: Demand, sources: Sources | None = None) -> Evidence:
        """Judge all nodes of a program."""
        judged, verdicts = _with_sources(work, _judged(work, demand), sources or {})
        refusals = [_refusal(work, demand, node) for node in range(len(work))]
        is_outside = _outside_main(work)
        for node in range(len(work)):  # what a call does that needs the host is of no interest of its own
            parent = work.parents[node]
            if parent >= 0 and refusals[parent].startswith("calls "):
                refusals[node] = refusals[parent]
        below = list(refusals)
        for node in range(len(work) - 1, 0, -1):
            parent = work.parents[node]
            if parent >= 0 and below[node] and not below[parent] and refusals[node] != LOADERS_CODE:
                below[parent] = below[node]
        runs = np.array([kind in (NodeKind.LOOP, NodeKind.ARRAY) for kind in work.kinds])
        runs &= work.place == np.arange(len(work))  # of what libraries do inside, nobody knows which data it needs
        goes = [not kind.is_serial and why != LOADERS_CODE for (kind, _), why in zip(judged, refusals, strict=True)]
        is_sequence = work.any_below(np.array(goes)) & ~np.array(goes)
        return cls(
            parallel=tuple(kind for kind, _ in judged),
            texts=tuple(text for _, text in judged),
            refusals=tuple(refusals),
            refused_below=tuple(below),
            is_candidate=runs & ~is_sequence & ~is_outside & np.array([not text for text in below]),
            is_outside=is_outside,
            by_flow=np.array([text.startswith(HANDED_ON) for _, text in judged], np.bool_),
            verdicts=verdicts,
            is_assumed=np.array([one is not None and one.decided_by is Authority.ASSUMPTION for one in verdicts]),
        )


def _outside_main(work: Work) -> np.typing.NDArray[np.bool_]:
    """Flags nodes before and after `main`, in the thread that runs it. All that other threads run is the program's."""
    is_main = [
        kind is NodeKind.CALL and place.function == "main" for kind, place in zip(work.kinds, work.places, strict=True)
    ]
    main = np.array(is_main, np.bool_)
    runs_main = work.any_below(main) & (work.parent < 0)
    return work.any_around(runs_main) & ~work.any_around(main)


def _refusal(work: Work, demand: Demand, node: int) -> str:
    place, kind = work.places[node], work.kinds[node]
    if is_loader(place.module):
        return LOADERS_CODE
    if kind is NodeKind.COMPILED:
        return f"{place.module} is compiled code that was not seen: its work is not known"
    if kind is NodeKind.CALL and _HOST_ONLY.fullmatch(place.function.partition("@")[0]):
        return f"calls {place.function.partition('@')[0]}, which needs the host"
    if work.has_unseen is not None and work.has_unseen[node] and not is_known(array_operation(work, node)):
        name = array_operation(work, node) or place.function
        return f"no device algorithm known: most of what {name} does was not seen"
    if demand.is_bytecode[node]:
        return "runs in the Python interpreter: write it as array operations or as a compiled kernel first"
    return ""


def _judged(work: Work, demand: Demand) -> list[tuple[Parallel, str]]:
    signature = work.run.workload.signature
    number = {int(tree): node for node, tree in enumerate(work.tree_node) if tree >= 0}
    found: dict[int, list[Dependence]] = defaultdict(list)
    for one in signature.dependences:
        if one.node in number:
            found[number[one.node]].append(one)
    known = {number[one.node]: one for one in signature.examined_loops if one.node in number}
    seen_in_part = {node for node, one in known.items() if is_in_part(signature, one)}
    examined = {node: one.iterations for node, one in known.items() if node not in seen_in_part}
    stores, accessed = Stores(work), work.inclusive(demand.access_bytes)
    handed_on, repeated = carried(work, stores, accessed), repetitions(work, stores, accessed, found, examined)
    judged = []
    for node, kind in enumerate(work.kinds):
        if kind is NodeKind.ARRAY:
            judged.append((Parallel.YES, "array operation"))
        elif kind is not NodeKind.LOOP:
            judged.append((Parallel.NO, ""))
        elif node in examined:
            judged.append(_examined(work, found[node], examined[node], repeated.get(node, "")))
        elif node in seen_in_part:
            judged.append(_sampled(work, node, found[node], known[node].iterations, repeated.get(node, "")))
        elif demand.chased[node] > 0.01 * demand.accesses[node]:
            judged.append((Parallel.NO, "each address comes from the load before it (pointer chase)"))
        elif node in handed_on:
            judged.append((Parallel.NO, handed_on[node]))
        elif node in repeated:
            judged.append((Parallel.REPETITION, repeated[node]))
        else:
            judged.append((Parallel.ASSUMED, "not examined: trace --dependences would tell"))
    return judged


def _with_sources(
    work: Work, judged: Sequence[tuple[Parallel, str]], sources: Sources
) -> tuple[list[tuple[Parallel, str]], tuple[LoopVerdict | None, ...]]:
    """Combines what is known of each node with its source; also returns the verdicts on the loops."""
    signature = work.run.workload.signature
    found: dict[int, list[Dependence]] = defaultdict(list)
    for one in signature.dependences:
        found[one.node].append(one)
    examined = {one.node: one for one in signature.examined_loops}
    kinds: list[tuple[Parallel, str]] = []
    verdicts: list[LoopVerdict | None] = []
    for node, (kind, text) in enumerate(judged):
        at = int(work.tree_node[node])
        if work.kinds[node] is not NodeKind.LOOP:
            kinds.append((kind, text))
            verdicts.append(None)
            continue
        run, binary = _said(examined.get(at), found.get(at, ()))
        source = sources.get(int(work.loop_number[node]))
        now, why, decided_by = with_source(kind, text, source, run)
        if decided_by is Authority.RUN and binary is not None and run is not None and kind is Parallel.NO:
            decided_by = Authority.RUN if run.verdict is Verdict.RECURRENCE else Authority.BINARY
        kinds.append((now, why))
        verdicts.append(LoopVerdict(now.verdict, decided_by, source, run, binary))
    return kinds, tuple(verdicts)


def _said(loop: ExaminedLoop | None, found: Sequence[Dependence]) -> tuple[Said | None, Said | None]:
    """Finding of a run's accesses and the binary's registers on a loop; None where it was not examined."""
    if loop is None:
        return None, None
    said = []
    for is_register in (False, True):
        kinds = [_KINDS[one.kind] for one in found if is_register == (one.source < 0 and bool(one.where))]
        worst = max(kinds, key=_SEVERITY.index, default=Verdict.PARALLEL)
        said.append(Said(worst, f"in {loop.iterations:,} iterations"))
    return said[0], said[1]


def with_source(kind: Parallel, text: str, source: Said | None, run: Said | None) -> tuple[Parallel, str, Authority]:
    """Combines what is known of a loop with its source: what that proves decides.

    Args:
        kind: what is known of it without.
        text: why.
        source: what the source says.
        run: what the accesses of the run say; None: it was not examined.
    """
    before = Authority.ASSUMPTION if kind is Parallel.ASSUMED else Authority.RUN
    if source is None or source.verdict not in (Verdict.PARALLEL, Verdict.REDUCTION, Verdict.RECURRENCE):
        return kind, text, before
    because = f" ({source.reason})" if source.reason else ""
    if source.verdict is Verdict.RECURRENCE:
        return Parallel.NO, f"recurrence by its source{because}", Authority.SOURCE
    if kind in (Parallel.REPETITION, Parallel.COLLISION):
        return kind, text, before
    if source.assumptions and run is not None and run.verdict is Verdict.RECURRENCE:
        return kind, text, before  # what the source assumes does not hold
    if_so = f" if {'; '.join(source.assumptions)}" if source.assumptions else ""
    decided_by = Authority.ASSUMPTION if source.assumptions and run is None else Authority.SOURCE
    if source.verdict is Verdict.REDUCTION:
        return Parallel.REDUCTION, f"reduction by its source{because}{if_so}", decided_by
    if kind in (Parallel.YES, Parallel.SAMPLED) and source.assumptions:
        return kind, text, before
    now = Parallel.YES if decided_by is Authority.SOURCE else Parallel.ASSUMED
    return now, f"parallel by its source{if_so}", decided_by


def _examined(work: Work, found: list[Dependence], iterations: int, repeated: str) -> tuple[Parallel, str]:
    of_kind = {one.kind: one for one in found}
    if recurrence := of_kind.get(DependenceKind.RECURRENCE):
        operations = work.run.workload.signature.operations
        ends = [operations[number] for number in (recurrence.source, recurrence.sink) if number >= 0]
        lines = " to ".join(f"line {one.line}" for one in ends if one.line)
        where = f"from {lines}" if lines else f"through {recurrence.where or 'a register'}"
        return Parallel.NO, f"recurrence {where}, distance {recurrence.least_distance:,}"
    if repeated:
        return Parallel.REPETITION, repeated
    if collision := of_kind.get(DependenceKind.COLLISION):
        return Parallel.COLLISION, f"{collision.count:,} updates hit a place that another iteration hit: atomics"
    if reduction := of_kind.get(DependenceKind.REDUCTION):
        return Parallel.REDUCTION, f"reduction ({reduction.operation or 'of an unknown operation'})"
    return Parallel.YES, f"no dependence seen in {iterations:,} iterations"


def _sampled(work: Work, node: int, found: list[Dependence], iterations: int, repeated: str) -> tuple[Parallel, str]:
    """Finding on a loop that was examined in windows of the run: what was not seen there may have been elsewhere."""
    kind, text = _examined(work, found, iterations, repeated)
    if kind is Parallel.YES:
        return Parallel.SAMPLED, f"no dependence seen in {iterations:,} of {int(work.iterations[node]):,} iterations"
    return kind, text if kind is Parallel.REPETITION else f"{text}, in {iterations:,} iterations examined"


def trip_counts(work: Work) -> Floats:
    """Iterations of an entry of each loop, on average; 1 for other nodes."""
    is_loop = np.array([kind is NodeKind.LOOP for kind in work.kinds])
    return np.where(is_loop, np.maximum(work.iterations / np.maximum(work.entries, 1), 1.0), 1.0)
