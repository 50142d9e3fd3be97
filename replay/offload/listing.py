"""Loops with a row in triage's table, and the places of the others.

A row is a kernel, a loop that is threaded, or one that stays: those around kernels, and those inside of others that
stay, as long as they take part of the time. What is inside a kernel is a part of it. Nothing else is left out but what
takes hardly any time, what libraries do for their callers, and what runs before and after `main`.
"""

from __future__ import annotations

from collections.abc import Collection

from foretrace.replay.base.records import LEAST_SHOWN_SHARE, LoopCounts
from foretrace.replay.base.spread import Floats
from foretrace.replay.offload.devices.evidence import Evidence
from foretrace.replay.offload.devices.gather_scatter import is_loader
from foretrace.replay.offload.devices.work import NodeKind, Work

COUNTED = (NodeKind.LOOP, NodeKind.ARRAY, NodeKind.COMPILED)
"""Kinds of nodes that count as a loop."""


def listed_nodes(
    work: Work, evidence: Evidence, able: Collection[int], goals: Collection[int], alone_s: Floats
) -> list[int]:
    """Nodes that have a row.

    Args:
        work: the program.
        evidence: of its loops.
        able: nodes that the device can take.
        goals: kernels of the plan, and loops that are threaded.
        alone_s: float64 [nodes], seconds on the host of each node and all below it.
    """
    is_goal = work.flags(goals)
    is_able = work.flags(node for node in able if not evidence.parallel[node].is_serial)
    goes, could = work.any_below(is_goal), work.any_below(is_able)
    least_s = LEAST_SHOWN_SHARE * float(work.own_total_s.sum())
    found: list[int] = []
    pending = [(node, False) for node in work.roots]  # and whether it is inside a row
    while pending:
        node, inside = pending.pop()
        below = [(child, inside) for child in work.children[node]]
        if is_loader(work.places[node].module):
            pending += below
        elif is_goal[node]:
            found.append(node)
        elif evidence.refusals[node].startswith("calls "):
            continue
        elif inside or (goes[node] and not is_able[node]):
            if _is_notable(work, evidence, node, alone_s[node], least_s):
                found.append(node)
            pending += below
        elif is_able[node] and not goes[node] and not _runs_once(work, node):
            found.append(node)
            pending += [(child, True) for child in work.children[node]]
        elif goes[node] or could[node] or _runs_once(work, node) or work.kinds[node] in (NodeKind.CALL, NodeKind.OTHER):
            pending += below
            if work.kinds[node] is NodeKind.LOOP and _is_notable(work, evidence, node, alone_s[node], least_s):
                found.append(node)
        elif alone_s[node] > 0 and not evidence.is_outside[node]:
            found.append(node)
            pending += [(child, True) for child in work.children[node]]
    return found


def counts_of(
    work: Work, evidence: Evidence | None, listed: Collection[int], goals: Collection[int], alone_s: Floats
) -> LoopCounts:
    """Counts all loops of a program by place. Each is in one place: loops that take part of the time have a row."""
    loops = [node for node in range(len(work)) if work.kinds[node] in COUNTED]
    rows = set(listed)
    assert len(rows) == len(listed), "a loop has two rows"
    least_s = LEAST_SHOWN_SHARE * float(work.own_total_s.sum())
    found = dict.fromkeys(("listed", "inside", "library", "outside", "once", "small"), 0)
    for node in loops:
        around = [*work.around(node)]
        if node in rows:
            where = "listed"
        elif any(one in goals for one in around):
            where = "inside"
        elif is_loader(work.places[node].module) or (
            evidence is not None and any(evidence.refusals[one].startswith("calls ") for one in around)
        ):
            where = "library"
        elif evidence is not None and evidence.is_outside[node]:
            where = "outside"
        elif _runs_once(work, node):
            where = "once"
        else:
            assert alone_s[node] < least_s or not alone_s[node], f"a loop that takes its time has no row: node {node}"
            where = "small"
        found[where] += 1
    made = LoopCounts(there=len(loops), **found)
    assert made.there == made.listed + made.inside + made.library + made.outside + made.once + made.small
    assert made.listed == len(listed), "a row is no loop"
    return made


def _is_notable(work: Work, evidence: Evidence, node: int, time_s: float, least_s: float) -> bool:
    """Whether a loop around kernels, or inside of one that stays, has a row."""
    if work.kinds[node] not in COUNTED or evidence.is_outside[node] or _runs_once(work, node):
        return False
    return time_s > 0 and time_s >= least_s


def _runs_once(work: Work, node: int) -> bool:
    """Whether a loop has one iteration each time: there is nothing to divide, nor to carry."""
    return work.kinds[node] is NodeKind.LOOP and bool(work.iterations[node] <= work.entries[node])
