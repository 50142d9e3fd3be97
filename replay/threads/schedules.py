"""Schedules of parallel regions' runtimes: in blocks fixed beforehand, or in chunks and tasks to who is free.

A thread that is free takes the next chunk of a loop with a dynamic or guided schedule, and the next task, so that no
thread is busy for longer than a chunk beyond the others. Which thread took how many while the program was traced says
nothing: a tracer runs one thread at a time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from foretrace.tracer.signature.tree_records import ExecutionTree, TreeNodeKind

from .runtimes import FORK, LIBGOMP, SECTIONS, caller, function_name, is_loader, is_runtime, module_name
from .tree_work import TreeWork

_NEXT = re.compile(
    r"^GOMP_loop_(ull_)?(ordered_)?(maybe_)?(nonmonotonic_)?(dynamic|guided|runtime)_(start|next)|^__kmpc_dispatch_next_"
)
"""Calls that ask for a chunk, in libgomp and libomp. The last one of each thread gets none."""
_TASK = re.compile(r"\.omp_task_entry\.")


def chunks(tree: ExecutionTree, children: Sequence[Sequence[int]], region: Sequence[int], tasks: set[int]) -> int:
    """The number of chunks, sections and tasks handed out in a parallel region; 0 if it is divided beforehand.

    Args:
        tree: of the signature.
        children: of each node.
        region: nodes of the region's function.
        tasks: nodes of functions that compilers made of parallel regions and tasks: inside of others they are tasks.
    """
    found, asking = 0, set()
    is_of_sections = any(_is_of_sections(tree, root) for root in region)
    for root in region:
        pending = list(children[root])
        while pending:
            node = pending.pop()
            name = function_name(tree, node) if tree.kind[node] == TreeNodeKind.CALL else ""
            if FORK.match(name):
                continue
            if _NEXT.match(name) or (is_of_sections and SECTIONS.match(name)):
                found += int(tree.entries[node])
                asking.add(root)
                continue
            pending += children[node]
            above = caller(tree, node)
            if node in tasks and above >= 0 and is_runtime(tree, above):
                found += int(tree.entries[node]) + int(tree.recursive_entries[node])
    unanswered = sum(int(tree.entries[root]) for root in asking)
    return max(found - unanswered, 1) if found else 0


def _is_of_sections(tree: ExecutionTree, region: int) -> bool:
    """Whether all that a region does are sections."""
    fork = caller(tree, region)
    return fork >= 0 and function_name(tree, fork).startswith("GOMP_parallel_sections")


def runs_as_task(tree: ExecutionTree, node: int) -> bool:
    """Whether a function outside of regions is a task's: Clang names these so. libgomp runs tasks while a team meets,
    also below the fork, whose calls within the runtime have its name, and below a thread's start; the fork and the
    start themselves call a region's function.
    """
    if _TASK.search(tree.keys[node].function):
        return True
    calls: list[int] = []
    above = int(tree.parent[node])
    while above >= 0:
        if tree.kind[above] == TreeNodeKind.CALL and not (is_loader(tree, above) and not calls):
            if not is_runtime(tree, above):
                break
            calls.append(above)
        above = int(tree.parent[above])
    if len(calls) < 2:
        return False
    return tree.keys[calls[-1]].function.startswith("GOMP_parallel") or all(
        LIBGOMP.match(module_name(tree, one)) for one in calls
    )


def shares_of_chunks(count: float, threads: int) -> list[float]:
    """Shares of a region's work of each of `threads` threads that take `count` chunks of it one by one."""
    whole = max(round(count), 1)
    return [((number + 1) * whole // threads - number * whole // threads) / whole for number in range(threads)]


def shares_of_blocks(work_s: Sequence[float], threads: int) -> list[float]:
    """Shares of a region's work of each of `threads` threads that divide its iterations in blocks (a static schedule).

    As the work of the traced threads, `work_s`, rises and falls along these blocks, so does that of the new ones.
    """
    until = np.concatenate([[0.0], np.cumsum(work_s)]) / (sum(work_s) or 1.0)
    ends = np.interp(np.linspace(0, 1, threads + 1), np.linspace(0, 1, len(work_s) + 1), until)
    return [float(share) for share in np.diff(ends)]


BLOCKS = 64
"""Blocks that a thread's iterations are divided into, to say how its work changes along them."""


def work_along(work: TreeWork, region: int) -> list[float]:
    """Seconds of a parallel region along the iterations of its loops, in `BLOCKS` equal parts.

    The loops that a team shares are the outermost ones that do not call the runtime in each iteration. Where loops
    below one of them iterate more or less along its iterations, their work does, too. All else is spread evenly.
    """
    tree, rounds = work.tree, work.tree.rounds()
    ends = np.linspace(0, 1, BLOCKS + 1)
    found = np.zeros(BLOCKS)
    uneven_s = 0.0
    pending = list(work.children[region])
    while pending:
        node = pending.pop()
        is_loop = tree.kind[node] == TreeNodeKind.LOOP
        if not is_loop or any(is_runtime(tree, child) for child in work.children[node]):
            pending += work.children[node]
            continue
        if int(tree.entries[node]) * int(tree.most[node]) != int(tree.iterations[node]):
            continue  # it is not as long each time: how the work of one of them is spread is not known
        for child in work.children[node]:
            if child not in rounds:
                continue
            _, iterations, around = (np.array([0, *column], np.float64) for column in zip(*rounds[child], strict=True))
            places = np.cumsum(around) / max(float(np.sum(around[:-1])), float(tree.most[node]), 1.0)
            places[-1] = 1.0
            share = np.interp(ends, places, np.cumsum(iterations) / max(float(iterations.sum()), 1.0))
            found += np.diff(share) * float(work.inclusive_s[child])
            uneven_s += float(work.inclusive_s[child])
    return [float(part) for part in found + (float(work.inclusive_s[region]) - uneven_s) / BLOCKS]
