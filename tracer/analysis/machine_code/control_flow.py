"""Loops of machine code: the steps that stay within functions, calls stepping to where they return."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from foretrace.tracer.analysis.loops import LoopForest, nest_loops
from foretrace.tracer.isa.instruction_set import Flow

from .basic_blocks import BasicBlocks

Landings = Sequence[tuple[int, int]]
"""Pairs of addresses: where a call returns to, and where an exception that leaves it continues."""


def find_loops(blocks: BasicBlocks, function_of: Sequence[int], landings: Landings = ()) -> LoopForest:
    """Find the loops; `function_of` numbers the function of each block."""
    return nest_loops(flow_within_functions(blocks, function_of, landings), blocks.executions.tolist())


def flow_within_functions(
    blocks: BasicBlocks, function_of: Sequence[int], landings: Landings = ()
) -> list[tuple[int, int, int]]:
    """The executed steps within functions: a call steps to its return point, or to the handler of an exception that
    leaves it.

    Steps into called functions, jumps to other functions (tail calls) and signals are left out. A repeated string
    instruction, which steps to itself, is a loop of its own.
    """
    starts, ends, flows = blocks.starts(), blocks.ends(), blocks.flows()
    calls = {ends[block]: block for block, flow in enumerate(flows) if flow is Flow.CALL}
    pads = frozenset(pad for _, pad in landings)
    landed: Counter[int] = Counter()
    steps: dict[tuple[int, int], int] = {}
    for source, target, count in blocks.edges.tolist():
        flow = flows[source]
        if starts[target] in pads and flow in (Flow.RETURN, Flow.INDIRECT_JUMP):
            landed[target] += count
            continue
        if flow is Flow.RETURN:
            caller = calls.get(starts[target])
            if caller is None:
                continue
            source = caller
        elif flow is Flow.CALL:
            continue
        elif source != target and ends[source] != starts[target]:
            is_jump = flow in (Flow.BRANCH, Flow.JUMP, Flow.INDIRECT_JUMP)
            if not is_jump or function_of[source] != function_of[target]:
                continue
        steps[source, target] = steps.get((source, target), 0) + count
    _add_landings(steps, landed, calls, landings, blocks)
    return [(source, target, count) for (source, target), count in steps.items()]


def _add_landings(
    steps: dict[tuple[int, int], int],
    landed: Counter[int],
    calls: dict[int, int],
    landings: Landings,
    blocks: BasicBlocks,
) -> None:
    """Add the steps from calls to where exceptions continued: from each call as often as it did not return, as far as
    that goes."""
    if not landed:
        return
    executions, starts = blocks.executions.tolist(), blocks.starts()
    returned: Counter[int] = Counter()
    for (source, _), count in steps.items():
        returned[source] += count
    callers: defaultdict[int, list[int]] = defaultdict(list)
    for behind, pad in landings:
        if behind in calls:
            callers[pad].append(calls[behind])
    for target, count in landed.items():
        left = count
        for caller in callers[starts[target]]:
            share = min(left, executions[caller] - returned[caller])
            if share > 0:
                steps[caller, target] = steps.get((caller, target), 0) + share
                returned[caller] += share
                left -= share
