"""Repetitions: loops whose every iteration stores again to where the one before stored, from the same data.

The loop that runs a benchmark a hundred times is one. Nothing is handed from one iteration to the next, so no
dependence forbids to run them at once; but then they overwrite each other, unless each has a copy of all that it
stores. Nobody ports them so: they are sequences of kernels. A scratch buffer that each iteration fills does not make a
repetition, as its results go elsewhere each time; nor does a sum over different data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from foretrace.base.units import format_bytes
from foretrace.replay.base.records import LEAST_SHOWN_SHARE
from foretrace.replay.base.spread import Floats
from foretrace.tracer.signature.data_flow_records import Dependence, DependenceKind

from .stores import ARRAY_BYTES, Stores
from .work import NodeKind, Work

_AGAIN_SHARE = 0.9
"""Share of the different bytes that a loop stores which it stores to again in each iteration."""
_SAME_SHARE = 0.67
"""Bytes accessed in an iteration over different bytes touched in all of them, from which on they use the same data."""


def repetitions(
    work: Work,
    stores: Stores,
    accessed: Floats,
    found: Mapping[int, Sequence[Dependence]],
    examined: Mapping[int, int],
) -> dict[int, str]:
    """Loops that are repetitions, and why.

    Of examined loops the output dependences that they carry tell; of others, stores that advance through an array as
    long as all that is stored in it, and that do not load it in between.

    Args:
        work: the program.
        stores: of it.
        accessed: float64 [nodes], bytes of each node and all below it.
        found: dependences of each examined loop.
        examined: examined loops.
    """
    stored = work.inclusive(work.of_operations(_store_bytes(work)))
    host_s = work.inclusive_s
    least_s = LEAST_SHOWN_SHARE * float(work.own_total_s.sum())
    kept = _kept_bytes(work)
    made: dict[int, str] = {}
    for node, kind in enumerate(work.kinds):
        iterations, entries = int(work.iterations[node]), int(work.entries[node])
        if kind is not NodeKind.LOOP or iterations <= entries or host_s[node] < least_s:
            continue
        if stored[node] < ARRAY_BYTES * iterations:
            continue
        last = work.last_below[node]
        arrays = stores.arrays(node, last)
        distinct = sum(one.distinct_bytes for one in arrays)
        if distinct < ARRAY_BYTES:
            continue
        if node in examined:
            again = _overwritten_bytes(work, found.get(node, ())) / (iterations - entries)
        elif kept[node : last + 1].sum() > (1 - _AGAIN_SHARE) * stored[node]:
            continue  # stores update what is there: see `carried`
        else:
            again = sum(min(one.advancing_bytes / iterations, one.distinct_bytes) for one in arrays)
        if again < _AGAIN_SHARE * distinct:
            continue
        inside = np.zeros(len(work), np.bool_)
        inside[node : last + 1] = True
        if accessed[node] / iterations < _SAME_SHARE * work.flow.footprint_bytes(inside):
            continue
        made[node] = f"repetition: each iteration stores again to the same {format_bytes(round(distinct))}"
    return made


def _store_bytes(work: Work) -> Floats:
    operations = work.run.workload.signature.operations
    return np.array([one.total_bytes if one.is_store else 0 for one in operations], np.float64)


def _kept_bytes(work: Work) -> Floats:
    """[nodes]: bytes that a node wrote and reads itself."""
    flow = work.flow
    counts = np.diff(flow.set_starts)[flow.flow_readers]
    row = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    reader = flow.set_nodes[flow.set_starts[flow.flow_readers][row] + within]
    own = reader == flow.flow_writer[row]
    return np.bincount(reader[own], flow.flow_bytes[row][own], minlength=len(work)).astype(np.float64)


def _overwritten_bytes(work: Work, found: Sequence[Dependence]) -> float:
    """Bytes that iterations store to after an earlier one stored there, or read it; each store counts once."""
    operations = work.run.workload.signature.operations
    counts: dict[int, dict[bool, int]] = defaultdict(lambda: {True: 0, False: 0})
    for one in found:
        if one.kind is DependenceKind.PRIVATISABLE and one.sink >= 0 and one.source >= 0:
            counts[one.sink][operations[one.source].is_store] += one.count
    return sum(
        operations[sink].size_bytes * min(max(of_kind.values()), operations[sink].executions)
        for sink, of_kind in counts.items()
    )
