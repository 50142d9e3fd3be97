"""Natural loops of a traced program, from the control flow that was executed.

Loops are nested strongly connected components: a component's header is its entry, and without the header its remaining
components are the loops inside. Where control flow is reducible these are its natural loops, those with one header
merged. An irreducible loop has several entries: the one most used is taken for the header, and inner loops are what
remains without any of them (Steensgaard, "Sequentializing Program Dependence Graphs for Irreducible Programs", 1993).
An interpreter that jumps from each instruction's code to the next one's is thus one loop, not many nested ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from .graphs import cycles


class NaturalLoop(msgspec.Struct, frozen=True):
    """A loop. `blocks` holds those of inner loops too; `parent` is the position of the loop around it.

    `entries` counts the times it was entered from outside, `iterations` the executions of its header.
    """

    header: int
    blocks: frozenset[int]
    parent: int | None
    depth: int
    entries: int
    iterations: int


class LoopForest(msgspec.Struct, frozen=True, eq=False):
    """All loops, in the order in which they first ran. `innermost` int64 [blocks] is each block's loop, or -1.

    `flow`: source, destination and count of the steps within functions.
    """

    loops: Sequence[NaturalLoop]
    innermost: npt.NDArray[np.int64]
    flow: Sequence[tuple[int, int, int]]


def nest_loops(flow: Sequence[tuple[int, int, int]], executions: Sequence[int]) -> LoopForest:
    """Find the loops of a flow: source, destination and count of the steps within functions.

    `executions` are those of each block. Blocks are numbered in the order in which they first ran.
    """
    found: list[NaturalLoop] = []
    counts = {(source, target): count for source, target, count in flow}
    whole: dict[int, list[int]] = {}
    sources: dict[int, list[int]] = {}
    for source, target in counts:
        whole.setdefault(source, []).append(target)
        sources.setdefault(target, []).append(source)
    work: list[tuple[dict[int, list[int]], int | None]] = [(whole, None)]
    while work:
        successors, parent = work.pop()
        for component in cycles(successors):
            inside = {block: [target for target in successors[block] if target in component] for block in component}
            entering = {block: executions[block] for block in component}
            for block, targets in inside.items():
                for target in targets:
                    entering[target] -= counts[block, target]
            header = min(component, key=lambda block: (-entering[block], block))
            # Where it is entered by a step, not by what signals and exceptions do.
            doors = {block for block in component if not component.issuperset(sources.get(block, ()))} | {header}
            rest = {b: [t for t in targets if t not in doors] for b, targets in inside.items() if b not in doors}
            work.append((rest, len(found)))
            depth = 1 if parent is None else found[parent].depth + 1
            entries = max(1, sum(count for count in entering.values() if count > 0))
            found.append(NaturalLoop(header, frozenset(component), parent, depth, entries, executions[header]))
    return _ordered(found, flow, len(executions))


def _ordered(found: Sequence[NaturalLoop], flow: Sequence[tuple[int, int, int]], num_blocks: int) -> LoopForest:
    order = sorted(range(len(found)), key=lambda number: (found[number].header, found[number].depth))
    new = {old: position for position, old in enumerate(order)}
    loops = []
    innermost = np.full(num_blocks, -1, np.int64)
    depth = np.zeros(num_blocks, np.int64)
    for position, old in enumerate(order):
        loop = found[old]
        parent = None if loop.parent is None else new[loop.parent]
        loops.append(NaturalLoop(loop.header, loop.blocks, parent, loop.depth, loop.entries, loop.iterations))
        members = np.fromiter(loop.blocks, np.int64)
        members = members[depth[members] < loop.depth]
        innermost[members] = position
        depth[members] = loop.depth
    return LoopForest(loops, innermost, flow)
