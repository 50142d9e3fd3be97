"""The core model in C and its plain twin: the same cycles, put down to the same causes, for any small program."""

from __future__ import annotations

import core_model_reference as reference
import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.replay.core import _core_model
from foretrace.replay.core.program import BLOCK, INSTRUCTION
from foretrace.replay.core.times import CORE, OPERATION

NUM_REGISTERS = 12


def made(seed: int, num_blocks: int, executions: int):
    """A core, a program of some blocks, and a path through it, by chance."""
    rng = np.random.default_rng(seed)
    levels = int(rng.integers(2, 5))
    sizes = rng.integers(1, 7, num_blocks)
    instructions = np.zeros(int(sizes.sum()), INSTRUCTION)
    blocks = np.zeros(num_blocks, BLOCK)
    registers: list[int] = []
    row = num_operations = 0
    for number, size in enumerate(sizes.tolist()):
        own = 0
        for one in instructions[row : row + size]:
            counts = rng.integers(0, 3, 3)
            one["registers"] = len(registers)
            one["n_reads"], one["n_addresses"], one["n_writes"] = counts
            registers += rng.integers(0, NUM_REGISTERS, int(counts.sum())).tolist()
            one["latency"] = rng.integers(0, 6)
            one["sooner"], one["takes_early"] = rng.choice([0, 1, 2]), rng.integers(0, 2)
            one["unit"], one["unit_cycles"] = rng.integers(0, 8), rng.choice([0.0, 0.3, 1.0, 4.0])
            one["cause"] = rng.choice([0, 1, 2])
            one["runs_anyway"], one["is_scheduled"] = rng.integers(0, 2, 2)
            one["decoded"], one["lines"] = rng.choice([0, 0, 1, 4]), rng.choice([0, 0, 0, 1, 2])
            one["load"], one["store"] = -1, -1
            if rng.random() < 0.4:
                one["load"], own = own, own + 1
            if rng.random() < 0.3:
                one["store"], own = own, own + 1
        blocks[number] = row, size, num_operations, own, *rng.choice([0, 1, 64, 128], 2)
        row, num_operations = row + size, num_operations + own
    operations = np.zeros(num_operations, OPERATION)
    for facts in operations:
        facts["share"][:levels] = rng.dirichlet(np.ones(levels))
        facts["candidates"] = rng.random()
        facts["bytes"] = rng.choice([4, 8, 16])
        facts["irregular"][:levels] = rng.choice([0.0, 1.0, rng.random()], levels)
        for name, least in (("latency", 4.0), ("random", 0.0), ("stream", 0.0), ("write_back", 0.0)):
            facts[name][:levels] = least + np.sort(rng.random(levels)) * 60
    path = rng.integers(0, num_blocks, executions).astype(np.uint32)
    accesses = int(blocks["n_operations"][path].sum())
    distances = [
        np.where(rng.random(accesses) < 0.4, 0, rng.integers(1, 80, accesses)).astype(np.uint16) for _ in range(2)
    ]
    chances = {0: 0.25, 1: 0.15, 2: 0.3, 3: 0.15, 4: 0.1, 7: 0.05}
    branches = rng.choice(list(chances), executions, p=list(chances.values())).astype(np.uint8)
    depends = rng.choice([0, 1, 2, 5, reference.ALL_DEPEND], executions).astype(np.uint16)
    choices = {
        "taken_branch": (0.5, 1, 2), "decode": (0, 0.25, 1), "decode_switch_cycles": (0, 3), "decoded_ways": (1, 2, 32),
        "pairs": (0, 1), "forward": (1, 4, 8.5), "in_order": (0, 1), "load_cycles": (0.3, 0.5, 1.0),
        "store_cycles": (0.5, 1.0),
    }  # fmt: skip
    most = {
        "width": 7, "window_instructions": 60, "vector_scheduled_instructions": 30, "storing_instructions": 12,
        "refill": 20, "lead": 200,
    }  # fmt: skip
    chosen = {name: rng.choice(values) for name, values in choices.items()}
    core = figures(n_levels=levels, **chosen, **{name: rng.integers(1, end) for name, end in most.items()})
    return core, instructions, np.array(registers, np.uint16), blocks, operations, (path, branches, depends, *distances)


AMPLE = ("window_instructions", "vector_scheduled_instructions", "storing_instructions")


def figures(**given):
    """Of a core: four instructions a cycle, and nothing else limits it."""
    record = np.zeros((), CORE)
    for name, value in ({"width": 4, "decoded_ways": 1, "n_levels": 1} | dict.fromkeys(AMPLE, 1000) | given).items():
        record[name] = value
    return record


@settings(max_examples=examples(40))
@given(st.integers(0, 1 << 32), st.integers(1, 5), st.integers(1, 120))
def test_both_take_the_same_cycles_for_the_same_causes(seed, num_blocks, executions):
    core, instructions, registers, blocks, operations, path = made(seed, num_blocks, executions)
    found, expected = (np.zeros((2, num_blocks, reference.NUM_CAUSES)) for _ in range(2))
    _core_model.run(core, instructions.tobytes(), registers, blocks.tobytes(), operations.tobytes(), *path, found)
    reference.Core(core, instructions, registers, blocks, operations, path, expected).run()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-6)
    assert reference.NUM_CAUSES == _core_model.NUM_CAUSES


@pytest.mark.parametrize(
    ("lines", "decode", "ways", "per_cycle"),
    [
        (256, 0.25, 8, 6),
        (320, 0.25, 8, 4),
        (320, 0.0, 8, 6),
        (320, 0.25, 10, 6),
        (384, 0.25, 10, 4),
        (1024, 0.25, 32, 6),
    ],
)
def test_what_is_no_longer_decoded_is_decoded_anew(lines, decode, ways, per_cycle):
    """Of 16 instructions a line: groups of 8 are kept, in 64 sets by line."""
    executions, instructions = 10, np.zeros(16 * lines, INSTRUCTION)
    instructions["load"] = instructions["store"] = -1
    instructions["decoded"][::8], instructions["lines"][16::16] = 8, 1
    block = np.array([(0, len(instructions), 0, 0, 0, lines - 1)], BLOCK)
    core = figures(width=6.0, taken_branch=1.0, decode=decode, decoded_ways=ways)
    nothing, found = np.zeros(0, np.uint16), np.zeros((2, 1, reference.NUM_CAUSES))
    path = np.zeros(executions, np.uint32), np.zeros(executions, np.uint8), np.zeros(executions, np.uint16)
    _core_model.run(core, instructions.tobytes(), nothing, block.tobytes(), b"", *path, nothing, nothing, found)
    first = len(instructions) * max(decode, 1 / 6)
    assert found.sum() == pytest.approx(first + (executions - 1) * len(instructions) / per_cycle, rel=0.02)


@pytest.mark.parametrize(("kept", "switch", "expected"), [(0, 5.0, 160), (8, 5.0, 160 + 10 * 5), (8, 0.0, 160)])
def test_turning_from_what_is_decoded_to_what_is_not_takes_its_time(kept, switch, expected):
    """Ten stretches of 64 instructions, in lines of one set, so that all are decoded anew, at four a cycle; behind each
    some that are kept. Nothing but that takes time."""
    instructions = np.zeros(640 + kept, INSTRUCTION)
    instructions["load"] = instructions["store"] = -1
    instructions["decoded"][::8] = 8
    stretches = [(64 * number, 64, 0, 0, 64 * number, 64 * number) for number in range(10)]
    blocks = np.array([*stretches, (640, kept, 0, 0, 1, 1)], BLOCK)
    rounds, turns = 200, [number for stretch in range(10) for number in (stretch, 10)]
    core = figures(width=8.0, decode=0.25, decode_switch_cycles=switch, decoded_ways=9)
    path = np.array(rounds * (turns if kept else turns[::2]), np.uint32)
    nothing, found = np.zeros(0, np.uint16), np.zeros((2, len(blocks), reference.NUM_CAUSES))
    taken, depends = np.full(len(path), 2, np.uint8), np.zeros(len(path), np.uint16)
    _core_model.run(
        core, instructions.tobytes(), nothing, blocks.tobytes(), b"", path, taken, depends, nothing, nothing,
        found,
    )  # fmt: skip
    assert found.sum() / rounds == pytest.approx(expected, rel=0.05)


def of_empty_blocks(core, blocks, path):
    """Cycles of executions that each end in a taken branch. `blocks`: their first lines, and by how many instructions
    lie in each line from there on."""
    rows, table = [], []
    for first_line, of_lines in blocks:
        table.append((len(rows), sum(of_lines), 0, 0, first_line, first_line + len(of_lines) - 1))
        rows += [int(number == 0 and line > 0) for line, count in enumerate(of_lines) for number in range(count)]
    instructions = np.zeros(len(rows), INSTRUCTION)
    instructions["load"] = instructions["store"] = -1
    instructions["lines"] = rows
    program = instructions.tobytes(), np.zeros(0, np.uint16), np.array(table, BLOCK).tobytes(), b""
    executed = np.array(path, np.uint32), np.full(len(path), 2, np.uint8), np.zeros(len(path), np.uint16)
    nothing, found = np.zeros(0, np.uint16), np.zeros((2, len(blocks), reference.NUM_CAUSES))
    _core_model.run(core, *program, *executed, nothing, nothing, found)
    return found.sum()


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([[3], [3]], 1),  # both at once
        ([[2, 1], [3]], 2),
        ([[3], [2, 1]], 2),
        ([[2, 1], [2, 1]], 2),
        ([[3], [3], [3]], 1.5),
        ([[3], [3], [2, 1]], 2),
        ([[2, 1, 1], [3]], 2),
    ],
)
def test_two_branches_are_followed_at_once_if_each_leads_to_a_single_line(blocks, expected):
    turns = 500
    made = [(10 * number, of_lines) for number, of_lines in enumerate(blocks)]
    core = figures(width=8.0, taken_branch=0.5, pairs=True)
    assert of_empty_blocks(core, made, list(range(len(blocks))) * turns) / turns == pytest.approx(expected, rel=0.02)
