"""The C core of the execution tree against a slow interpreter that knows the structure of what it runs."""

from __future__ import annotations

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from linked_programs import ISAS, linked
from structured_programs import Path, Program
from word_streams import ENTRY, Stream, machine_code_block, python_block

from foretrace.tracer.reader.raw_tree import NONE, RawTree, raw_tree


def tree_of_stream(program: Program) -> RawTree:
    stream = program.stream()
    stream.read()
    tree = raw_tree(stream.reader.tree())
    assert tree is not None
    return tree


def paths_of(tree: RawTree) -> list[Path | None]:
    """Of each node, the blocks that call; None for a root."""
    paths: list[Path | None] = []
    for parent, _, site, *_ in tree.nodes.tolist():
        above = None if parent == NONE else paths[parent]
        paths.append(None if parent == NONE else () if above is None else (*above, site))
    return paths


@settings(max_examples=examples(60))
@given(st.integers(0, 1 << 30))
def test_calls_loops_and_work(seed: int) -> None:
    program = Program(seed)
    program.run()
    tree = tree_of_stream(program)
    paths = paths_of(tree)
    entries = {path: row[4] for path, row in zip(paths, tree.nodes.tolist(), strict=True) if path is not None}
    assert entries == program.calls
    work = {(paths[node], block): times for node, block, times in tree.counts.tolist()}
    assert work == program.executions
    loops = {(paths[row[0]], row[1]): tuple(row[2:6]) for row in tree.loops.tolist()}
    expected = {
        place: (len(loop.entries), sum(loop.entries), min(loop.entries), max(loop.entries))
        for place, loop in program.loops.items()
        if place[1] in program.repeated
    }
    assert loops == expected
    histograms: dict[tuple[Path | None, int], dict[int, int]] = {}
    for node, header, bucket, count in tree.histograms.tolist():
        histograms.setdefault((paths[node], header), {})[bucket] = count
    for place in expected:
        lengths = [count.bit_length() for count in program.loops[place].entries]
        assert histograms[place] == {bucket: lengths.count(bucket) for bucket in lengths}


@settings(max_examples=examples(30))
@given(st.lists(st.integers(1, 12), min_size=1, max_size=400), st.integers(0, 1 << 30))
def test_any_order_of_blocks_is_counted(order: list[int], seed: int) -> None:
    """Blocks in an order that no program has: every execution is in one node, of any kind."""
    program = Program(seed)
    program.ran = [1 + block % len(program.codes) for block in order]
    tree = tree_of_stream(program)
    executions: dict[int, int] = {}
    for _, block, times in tree.counts.tolist():
        executions[block] = executions.get(block, 0) + times
    assert executions == {block: program.ran.count(block) for block in program.ran}
    assert all(parent == NONE or parent < node for node, (parent, *_) in enumerate(tree.nodes.tolist()))


@pytest.mark.parametrize("guest", list(ISAS))
def test_what_the_loader_binds_is_called_wherever_it_ran_before(guest: str) -> None:
    """A function that the loader's resolver once led to is none of the resolver's own blocks."""
    stream, blocks = linked(ISAS[guest])
    tree = raw_tree(stream.reader.tree())
    assert tree is not None
    nodes = tree.nodes.tolist()
    names = {block: name for name, block in blocks.items()}

    def path(node: int) -> list[str]:
        above = [] if nodes[node][0] == NONE else path(nodes[node][0])
        return [*above, names[nodes[node][1]]] if nodes[node][1] in names else above

    found = sorted(path(node) for node, row in enumerate(nodes) if names.get(row[1], "fixup") != "fixup")
    assert found == [["main"], ["main", "f"], ["main", "f", "g"], ["main", "g"]]
    assert (tree.unwound, tree.resumed, tree.signals) == (0, 0, 0)


PYTHON_BLOCKS = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2), st.booleans())
"""Function, offset, instructions, whether a generator goes on."""


@settings(max_examples=examples(60))
@given(st.lists(PYTHON_BLOCKS, min_size=1, max_size=12), st.lists(st.integers(0, 1 << 20), min_size=1, max_size=200))
def test_any_order_of_python_blocks_is_counted(blocks: list[tuple[int, int, int, bool]], order: list[int]) -> None:
    """Blocks that no agent sends, in any order: every execution of one with instructions is in one node."""
    stream = Stream()
    stream.reader.make_tree("python", 1 << 10)
    stream.describe([python_block(number, *block) for number, block in enumerate(blocks, 1)])
    ran = [1 + number % len(blocks) for number in order]
    stream.publish([ENTRY | number for number in ran])
    stream.read()
    tree = raw_tree(stream.reader.tree())
    assert tree is not None
    executions: dict[int, int] = {}
    for _, block, times in tree.counts.tolist():
        executions[block] = executions.get(block, 0) + times
    for number, (_, _, instructions, _) in enumerate(blocks, 1):
        if instructions:
            assert executions.get(number, 0) == ran.count(number)


@pytest.mark.parametrize(
    ("guest", "entry", "what"),
    [
        ("python", machine_code_block(1, 4), "a Python program has a block of machine code"),
        ("x86_64", python_block(1, 1, 0, 3), "a program of machine code has a block of Python"),
    ],
)
def test_blocks_of_the_other_kind_are_refused(guest: str, entry: bytes, what: str) -> None:
    stream = Stream()
    stream.reader.make_tree(guest, 1 << 10)
    stream.describe([entry])
    stream.publish([ENTRY | 1] * 3)
    with pytest.raises(ValueError, match=what):
        stream.read()
