"""Basic blocks from engine blocks, checked against what a toy program really ran."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from analysis_toy import BRANCH, CALL, FLOWS, JUMP, LENGTH, LOAD, NOP, RETURN, UPDATE, Program, ToyEngine, ToyIsa, run
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_programs import programs

from foretrace.tracer.analysis.machine_code.basic_blocks import BasicBlocks, find_basic_blocks
from foretrace.tracer.isa.instruction_set import Flow
from foretrace.tracer.reader.raw_trace import RawBlock, RawTrace


def number_of(blocks: BasicBlocks, instruction: int) -> int:
    return int(blocks.addresses[instruction]) // LENGTH


@settings(max_examples=examples(300))
@given(programs(), st.integers(0, 99), st.integers(2, 9), st.integers(1, 9), st.integers(1, 150))
def test_counts_are_those_of_the_program(program: Program, seed: int, page: int, limit: int, max_blocks: int) -> None:
    raw, engine = run(program, seed=seed, page=page, limit=limit, max_blocks=max_blocks)
    blocks = find_basic_blocks(raw, ToyIsa())
    _check_instructions(blocks, engine)
    _check_edges(blocks, engine)
    _check_operations(blocks, raw, engine)


def _check_instructions(blocks: BasicBlocks, engine: ToyEngine) -> None:
    """Each instruction belongs to one block, which ran as often as it did, and blocks stop at control transfers."""
    numbers = [number_of(blocks, instruction) for instruction in range(len(blocks.addresses))]
    assert len(set(numbers)) == len(numbers)
    assert {n: int(blocks.executions[blocks.block_of[i]]) for i, n in enumerate(numbers)} == dict(
        engine.truth.executions
    )
    for block in range(blocks.num_blocks):
        inside = [numbers[instruction] for instruction in blocks.instructions(block)]
        assert inside == list(range(inside[0], inside[0] + len(inside)))
        assert all(engine.program[number][0] not in FLOWS for number in inside[:-1])
        assert all(blocks.block_of[instruction] == block for instruction in blocks.instructions(block))


def _check_edges(blocks: BasicBlocks, engine: ToyEngine) -> None:
    """Between blocks and within them, the steps from instruction to instruction are those taken."""
    steps: Counter[tuple[int, int]] = Counter()
    for source, target, count in blocks.edges.tolist():
        last = number_of(blocks, blocks.instructions(source)[-1])
        steps[last, number_of(blocks, blocks.instructions(target)[0])] += count
    for block in range(blocks.num_blocks):
        inside = blocks.instructions(block)
        for one, other in pairwise(inside):
            steps[number_of(blocks, one), number_of(blocks, other)] += int(blocks.executions[block])
    assert steps == engine.truth.steps


def _check_operations(blocks: BasicBlocks, raw: RawTrace, engine: ToyEngine) -> None:
    """The accesses of the raw operations, summed by the map, are those of each instruction."""
    sums: Counter[tuple[int, bool]] = Counter()
    assert len(blocks.operation_map) == len(raw.operation_block)
    for operation, merged in enumerate(blocks.operation_map.tolist()):
        key = number_of(blocks, int(blocks.operation_instruction[merged])), bool(blocks.operation_is_store[merged])
        sums[key] += engine.operation_executions[operation]
    assert sums == engine.truth.accesses
    assert len(blocks.operation_instruction) == len(sums)


@settings(max_examples=examples(150))
@given(programs(), st.integers(0, 99), st.integers(1, 150))
def test_blocks_do_not_depend_on_where_the_engine_ends_its_own(program: Program, seed: int, max_blocks: int) -> None:
    """Pages and limits leave no trace: only how often instructions ran together counts."""
    whole, engine = run(program, seed=seed, max_blocks=max_blocks)
    steps = sum(engine.truth.executions.values())
    cut = ToyEngine(program, 3, 2)
    generator = random.Random(seed)
    raw = cut.run(lambda _: generator.random() < 0.6, 10 * max_blocks)
    if cut.truth.executions != engine.truth.executions or steps == 0:
        return  # the run was cut short at another instruction
    one, other = find_basic_blocks(whole, ToyIsa()), find_basic_blocks(raw, ToyIsa())
    assert one.starts() == other.starts()
    assert one.executions.tolist() == other.executions.tolist()
    assert one.edges.tolist() == other.edges.tolist()


def test_a_jump_into_the_middle_splits() -> None:
    program = [(NOP, 0), (LOAD, 0), (NOP, 0), (BRANCH, 1), (RETURN, 0)]
    raw, engine = run(program, seed=1)
    assert len(raw.blocks) == 3  # 0-3, 1-3, 4
    blocks = find_basic_blocks(raw, ToyIsa())
    assert [len(blocks.instructions(b)) for b in range(blocks.num_blocks)] == [1, 3, 1]
    assert blocks.flows() == [Flow.FALLTHROUGH, Flow.BRANCH, Flow.RETURN]
    assert blocks.operation_map.tolist() == [0, 0]
    assert engine.truth.executions[1] == blocks.executions[1]


def test_blocks_are_in_order_of_first_execution() -> None:
    program = [(JUMP, 4), (NOP, 0), (RETURN, 0), (NOP, 0), (CALL, 1), (RETURN, 0)]
    raw, _ = run(program)
    blocks = find_basic_blocks(raw, ToyIsa())
    assert [start // LENGTH for start in blocks.starts()] == [0, 4, 1, 5]


def test_an_update_is_a_load_and_a_store() -> None:
    raw, _ = run([(UPDATE, 0), (RETURN, 0)])
    blocks = find_basic_blocks(raw, ToyIsa())
    assert blocks.operation_instruction.tolist() == [0, 0]
    assert blocks.operation_is_store.tolist() == [False, True]


def _raw(blocks: list[RawBlock], edges: list[tuple[int, int, int]]) -> RawTrace:
    empty = np.empty(0, np.uint32)
    return RawTrace(tuple(blocks), (), (), empty, empty, empty, empty, np.array(edges, np.uint64).reshape(-1, 3), (), 0)


def test_code_that_was_overwritten_stays_distinct() -> None:
    old = RawBlock(1, 0, (4, 4), bytes([NOP, 1, 0, 0, RETURN, 0, 0, 0]), 5)
    new = RawBlock(2, 0, (4, 4), bytes([NOP, 2, 0, 0, RETURN, 0, 0, 0]), 7)
    blocks = find_basic_blocks(_raw([old, new], []), ToyIsa())
    assert list(zip(blocks.starts(), blocks.executions.tolist(), strict=True)) == [(0, 5), (4, 12), (0, 7)]


def test_the_beginning_of_an_instruction_is_not_one() -> None:
    """An instruction that crosses into the next page shows up cut in the block before it."""
    before = RawBlock(1, 0, (4, 2), bytes([NOP, 1, 0, 0, NOP, 9]), 5)
    whole = RawBlock(2, 4, (4, 4), bytes([NOP, 9, 0, 0, RETURN, 0, 0, 0]), 5)
    blocks = find_basic_blocks(_raw([before, whole], [(1, 2, 5)]), ToyIsa())
    assert blocks.codes == [bytes([NOP, 1, 0, 0]), bytes([NOP, 9, 0, 0]), bytes([RETURN, 0, 0, 0])]
    assert blocks.num_blocks == 1


@pytest.mark.parametrize("raw", [_raw([], []), _raw([RawBlock(1, 0, (4,), bytes(4), 0)], [])])
def test_nothing_ran(raw: RawTrace) -> None:
    blocks = find_basic_blocks(raw, ToyIsa())
    assert blocks.num_blocks == 0
    assert len(blocks.edges) == 0
