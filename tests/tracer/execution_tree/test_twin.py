"""The C core of the execution tree against a slow interpreter that knows the structure of what it runs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from structured_programs import Path, Program

from foretrace.tracer.execution_tree.raw_tree import NONE, RawTree, raw_tree


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


@settings(max_examples=60)
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


@settings(max_examples=30)
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
