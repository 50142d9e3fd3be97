"""Loops of toy programs whose structure and counts are known."""

from __future__ import annotations

import networkx as nx
import pytest
from analysis_toy import BRANCH, CALL, JUMP, LENGTH, NOP, RETURN, Program, ToyIsa, run, run_counted
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_programs import programs

from foretrace.tracer.analysis.graphs import cycles, groups
from foretrace.tracer.analysis.loops import LoopForest, nest_loops
from foretrace.tracer.analysis.machine_code.basic_blocks import BasicBlocks, find_basic_blocks
from foretrace.tracer.analysis.machine_code.control_flow import find_loops


def loops_of(program: Program, trips: dict[int, int], function: dict[int, int] | None = None) -> list[tuple[int, ...]]:
    """Header (as an instruction's number), depth, entries and iterations of each loop."""
    raw, _ = run_counted(program, trips)
    blocks = find_basic_blocks(raw, ToyIsa())
    starts = [start // LENGTH for start in blocks.starts()]
    forest = find_loops(blocks, [(function or {}).get(start, 0) for start in starts])
    return [(starts[loop.header], loop.depth, loop.entries, loop.iterations) for loop in forest.loops]


def test_a_loop_of_one_block() -> None:
    assert loops_of([(NOP, 0), (NOP, 0), (BRANCH, 1), (RETURN, 0)], {2: 9}) == [(1, 1, 1, 10)]


def test_nested_loops() -> None:
    program = [(NOP, 0), (NOP, 0), (NOP, 0), (BRANCH, 2), (NOP, 0), (BRANCH, 1), (RETURN, 0)]
    assert loops_of(program, {3: 4, 5: 2}) == [(1, 1, 1, 3), (2, 2, 3, 15)]


def test_a_loop_tested_at_its_top() -> None:
    """As compilers write loops without optimisation: jump to the test, which is the header."""
    program = [(JUMP, 3), (NOP, 0), (NOP, 0), (NOP, 0), (BRANCH, 1), (RETURN, 0)]
    assert loops_of(program, {4: 7}) == [(3, 1, 1, 8)]


def test_continue_makes_no_second_loop() -> None:
    """Two ways back to one header are one loop."""
    program = [(NOP, 0), (NOP, 0), (BRANCH, 1), (NOP, 0), (BRANCH, 1), (RETURN, 0)]
    assert loops_of(program, {2: 1, 4: 3}) == [(1, 1, 1, 8)]


def test_a_call_does_not_end_the_loop_around_it() -> None:
    program = [(NOP, 0), (CALL, 4), (BRANCH, 1), (RETURN, 0), (NOP, 0), (RETURN, 0)]
    assert loops_of(program, {2: 5}) == [(1, 1, 1, 6)]


def test_a_function_called_from_two_places_is_no_loop() -> None:
    program = [(CALL, 3), (CALL, 3), (RETURN, 0), (NOP, 0), (RETURN, 0)]
    assert loops_of(program, {}) == []


def test_recursion_is_no_loop() -> None:
    program = [(CALL, 2), (RETURN, 0), (BRANCH, 4), (RETURN, 0), (CALL, 2), (RETURN, 0)]
    assert loops_of(program, {2: 3}) == []
    assert loops_of([(CALL, 1), (NOP, 0), (CALL, 1)], {}) == []


def test_a_tail_call_leaves_the_function() -> None:
    """2 jumps to the start of another function, which jumps back: no loop of either function."""
    program = [(NOP, 0), (NOP, 0), (BRANCH, 4), (RETURN, 0), (NOP, 0), (JUMP, 1)]
    assert loops_of(program, {2: 5}, {4: 1}) == []
    assert loops_of(program, {2: 5}) == [(1, 1, 1, 6)]


def test_a_loop_with_two_entries_has_the_one_most_used_as_header() -> None:
    program = [
        (BRANCH, 3),  # into the middle, or
        (NOP, 0),
        (NOP, 0),  # to the start
        (NOP, 0),
        (BRANCH, 2),
        (BRANCH, 0),
        (RETURN, 0),
    ]
    assert loops_of(program, {0: 3, 4: 5, 5: 7}) == [(0, 1, 1, 8), (3, 2, 8, 48)]


def test_an_interpreter_is_one_loop() -> None:
    """Three pieces of code that each jump to any of the others; the last has a loop of its own in it."""
    program = [
        (NOP, 0),
        *[(NOP, 0), (BRANCH, 4), (JUMP, 7)],
        *[(NOP, 0), (BRANCH, 1), (JUMP, 7)],
        *[(NOP, 0), (NOP, 0), (BRANCH, 8), (BRANCH, 1), (BRANCH, 4), (RETURN, 0)],
    ]
    loops = loops_of(program, {2: 1, 5: 2, 9: 4, 10: 5, 11: 7})
    assert [(header, depth) for header, depth, _, _ in loops if depth < 3] == [(1, 1), (4, 2)]
    assert [(header, depth) for header, depth, _, _ in loops if depth == 3] == [(8, 3)]


def forest_of(program: Program, seed: int) -> tuple[BasicBlocks, LoopForest]:
    raw, _ = run(program, seed=seed, max_blocks=200)
    blocks = find_basic_blocks(raw, ToyIsa())
    return blocks, find_loops(blocks, [0] * blocks.num_blocks)


@settings(max_examples=examples(150))
@given(programs(), st.integers(0, 99))
def test_every_cycle_is_in_a_loop_and_every_loop_is_a_cycle(program: Program, seed: int) -> None:
    blocks, forest = forest_of(program, seed)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(blocks.num_blocks))
    graph.add_edges_from((source, target) for source, target, _ in forest.flow)
    in_cycles = {
        block
        for component in nx.strongly_connected_components(graph)
        if len(component) > 1 or graph.has_edge(*component, *component)
        for block in component
    }
    assert {block for loop in forest.loops for block in loop.blocks} == in_cycles
    for number, loop in enumerate(forest.loops):
        assert loop.header in loop.blocks
        assert nx.is_strongly_connected(graph.subgraph(loop.blocks))
        assert loop.entries >= 1
        if loop.parent is None:
            assert loop.depth == 1
        else:
            parent = forest.loops[loop.parent]
            assert loop.blocks < parent.blocks
            assert parent.header not in loop.blocks
            assert loop.depth == parent.depth + 1
            assert loop.parent < number or parent.header > loop.header
    for block, innermost in enumerate(forest.innermost.tolist()):
        depths = [loop.depth for loop in forest.loops if block in loop.blocks]
        assert (forest.loops[innermost].depth if innermost >= 0 else 0) == max(depths, default=0)


@settings(max_examples=examples(150))
@given(programs(), st.integers(0, 99))
def test_headers_are_those_of_natural_loops_where_flow_is_reducible(program: Program, seed: int) -> None:
    """Independent oracle: back edges by dominators."""
    one_function = [(NOP, 0) if operation == CALL else (operation, target) for operation, target in program]
    _, forest = forest_of(one_function, seed)
    graph = nx.DiGraph((source, target) for source, target, _ in forest.flow)
    if 0 not in graph:
        return
    dominators = nx.immediate_dominators(graph, 0)
    reached = set(nx.descendants(graph, 0)) | {0}

    def dominates(one: int, other: int) -> bool:
        while other != one and other not in (0, None):
            other = dominators[other]
        return other == one

    back = {(s, t) for s, t in graph.edges if s in reached and dominates(t, s)}
    forward = nx.DiGraph(edge for edge in graph.edges if edge not in back and edge[0] in reached)
    if reached != set(graph) or not nx.is_directed_acyclic_graph(forward):
        return  # not reducible
    assert {loop.header for loop in forest.loops} == {target for _, target in back}
    assert all(loop.entries <= loop.iterations for loop in forest.loops)


@pytest.mark.parametrize("trips", [1, 2, 100])
def test_iterations_and_entries(trips: int) -> None:
    program = [(NOP, 0), (CALL, 4), (BRANCH, 1), (RETURN, 0), (NOP, 0), (NOP, 0), (BRANCH, 5), (RETURN, 0)]
    assert loops_of(program, {2: 3, 6: trips}) == [(1, 1, 1, 4), (5, 1, 4, 4 * (trips + 1))]


def test_a_return_from_a_signal_into_the_middle_of_a_loop_is_no_entry() -> None:
    """Block 2 ran once more than steps lead to it. The loops stay nested as they are."""
    flow = [(0, 1, 1), (1, 2, 10), (2, 3, 91), (3, 2, 80), (3, 1, 9), (3, 4, 1)]
    forest = nest_loops(flow, [1, 10, 91, 91, 1])
    assert [(loop.header, loop.depth, loop.entries) for loop in forest.loops] == [(1, 1, 2), (2, 2, 11)]
    assert forest.loops[1].blocks == {2, 3}


edges = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=40)


@given(edges)
def test_cycles_are_the_strongly_connected_components(pairs: list[tuple[int, int]]) -> None:
    graph = nx.DiGraph(pairs)
    successors = {node: list(graph.successors(node)) for node in graph if graph.out_degree(node)}
    expected = [c for c in nx.strongly_connected_components(graph) if len(c) > 1 or graph.has_edge(*c, *c)]
    assert sorted(map(sorted, cycles(successors))) == sorted(map(sorted, expected))


@given(edges)
def test_groups_are_the_connected_components(pairs: list[tuple[int, int]]) -> None:
    graph = nx.Graph(pairs)
    graph.add_nodes_from(range(13))
    assert groups(range(13), pairs) == sorted(map(sorted, nx.connected_components(graph)))


def test_a_path_of_any_length_is_searched() -> None:
    """Python's recursion ends at a depth of 1000."""
    ring = {node: [(node + 1) % 100_000] for node in range(100_000)}
    assert [len(component) for component in cycles(ring)] == [100_000]
