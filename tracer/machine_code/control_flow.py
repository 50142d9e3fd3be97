"""Loops of machine code: the steps that stay within functions, calls stepping to where they return."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.tracer.analysis.loops import LoopForest, nest_loops

from .basic_blocks import BasicBlocks
from .isa.registry import Flow


def find_loops(blocks: BasicBlocks, function_of: Sequence[int]) -> LoopForest:
    """Find the loops; `function_of` numbers the function of each block."""
    return nest_loops(flow_within_functions(blocks, function_of), blocks.executions.tolist())


def flow_within_functions(blocks: BasicBlocks, function_of: Sequence[int]) -> list[tuple[int, int, int]]:
    """The executed steps that stay in one function, a call stepping to where it returns to.

    Left out are steps into a called function, jumps to other functions (tail calls) and what signals do. A repeated
    string instruction, which steps to itself, is a loop of its own.
    """
    starts, ends, flows = blocks.starts(), blocks.ends(), blocks.flows()
    calls = {ends[block]: block for block, flow in enumerate(flows) if flow is Flow.CALL}
    steps: dict[tuple[int, int], int] = {}
    for source, target, count in blocks.edges.tolist():
        flow = flows[source]
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
    return [(source, target, count) for (source, target), count in steps.items()]
