"""Calls of array libraries as a whole: what is seen of one, and the compiled code in it that is not, are one node.

A sort reads and writes an array, which is seen, and takes most of its time on what is not. That time is a leaf of its
own in the execution tree, of the same name and line, or belongs to the line that calls. Work with whole calls has it
with the accesses: else the accesses alone would be put to a device, as fast as it copies.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np

from foretrace.replay.base.records import LoopKind

from .work import NodeKind, Work

_TIMED = " (timed)"
"""Ends the names of operations whose time does not follow from what they touch: it is their line's."""


def with_whole_calls(work: Work) -> Work:
    """Copy of a program's work with each call's time at one node."""
    own_s, kinds = [dict(own) for own in work.own_s], list(work.kinds)
    unseen = np.zeros(len(work), np.bool_)
    of_call: dict[tuple[int, str, int], list[int]] = defaultdict(list)
    of_line: dict[tuple[int, str, int], list[int]] = defaultdict(list)
    for node, kind in enumerate(work.kinds):
        place = work.places[node]
        if kind is NodeKind.ARRAY:
            of_call[work.parents[node], place.module.removesuffix(_TIMED), place.line].append(node)
            if _name(work, node).endswith(_TIMED):
                of_line[work.parents[node], place.file, place.line].append(node)
    for node, kind in enumerate(work.kinds):
        place = work.places[node]
        calls = of_call.get((work.parents[node], place.module, place.line), [])
        if kind is NodeKind.COMPILED and calls:
            whole = max(calls, key=lambda one: work.iterations[one])
            _move(own_s, node, whole, list(own_s[node]))
            unseen[whole] = True
            kinds[node] = NodeKind.OTHER
    regions = work.run.workload.regions
    for (parent, file, line), calls in of_line.items():
        if parent < 0 or len(calls) > 1:  # whose time is whose is not known
            unseen[calls] = True
            continue
        lines = [
            region
            for region in own_s[parent]
            if regions[region].kind is LoopKind.LINE
            and (regions[region].place.file, regions[region].place.line) == (file, line)
        ]
        _move(own_s, parent, calls[0], lines)
        unseen[calls[0]] = True
    return replace(work, own_s=own_s, kinds=tuple(kinds), has_unseen=unseen)


def array_operation(work: Work, node: int) -> str:
    """The name of an array operation of Python: that of most accesses, if it is several."""
    return _name(work, node).removesuffix(_TIMED)


def _move(own_s: list[dict[int, float]], source: int, target: int, regions: list[int]) -> None:
    for region in regions:
        own_s[target][region] = own_s[target].get(region, 0.0) + own_s[source].pop(region)


def _name(work: Work, node: int) -> str:
    if work.kinds[node] is not NodeKind.ARRAY:
        return ""
    counts: Counter[str] = Counter()
    for one in work.operations_of(node):
        if one.array_operation:
            counts[one.array_operation] += one.executions
    return max(counts, key=lambda name: counts[name], default="")
