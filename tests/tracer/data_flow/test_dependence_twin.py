"""The C core that finds dependences between iterations against a slow twin."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from dependence_reference import AccessProgram, Row
from effort import IS_FULL, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from structured_programs import Path

from foretrace.tracer.reader.raw_dependences import RawDependences, RawKind, examined_loop, nest_of, raw_dependences
from foretrace.tracer.reader.raw_tree import NONE, RawTree, raw_tree


def read(program: AccessProgram) -> tuple[RawDependences, RawTree, list[tuple[int, bool]]]:
    stream = program.stream()
    stream.read()
    tree = raw_tree(stream.reader.tree())
    found = raw_dependences(stream.reader.dependences())
    assert tree is not None
    assert found is not None
    operations = np.frombuffer(stream.reader.operations(), np.uint32).reshape(-1, 3)
    return found, tree, [(int(block), bool(slot % 2)) for block, slot, _ in operations]


def paths_by_rank(tree: RawTree) -> dict[int, Path]:
    """Of each node, by its rank, the blocks that call."""
    paths: list[Path | None] = []
    for parent, _, site, *_ in tree.nodes.tolist():
        above = None if parent == NONE else paths[parent]
        paths.append(None if parent == NONE else () if above is None else (*above, site))
    ranks = tree.nodes[:, 7].tolist()
    return {rank: path for rank, path in zip(ranks, paths, strict=True) if path is not None}


def rows_of(
    found: RawDependences, tree: RawTree, operations: list[tuple[int, bool]]
) -> dict[Row, tuple[int, int, int]]:
    """Rows other than of stores, by what they are of: count, least and most distance."""
    paths = paths_by_rank(tree)
    loops = dict(enumerate((paths[rank], header) for rank, _, header, *_ in found.loops.tolist()))
    return {
        (RawKind(kind), operations[source], operations[sink], loops.get(loop)): (count, least, most)
        for kind, source, sink, loop, count, least, most, _ in found.rows.tolist()
        if kind not in (RawKind.STORES, RawKind.WRITTEN)
    }


def check_bytes(
    found: RawDependences, tree: RawTree, operations: list[tuple[int, bool]], program: AccessProgram
) -> None:
    """What loops wrote, and overwrote, is what the twin says."""
    paths = paths_by_rank(tree)
    loops = [(paths[rank], header) for rank, _, header, *_ in found.loops.tolist()]
    written, overwritten = Counter[object](), Counter[object]()
    for kind, source, sink, loop, _, _, _, size_bytes in found.rows.tolist():
        if kind == RawKind.OUTPUT:
            overwritten[operations[sink], loops[loop]] += size_bytes
        if kind == RawKind.WRITTEN:
            nest = program.nests[loops[source]]
            for one in nest[nest.index(loops[loop]) :]:
                written[operations[sink], one] += size_bytes
    assert overwritten == program.overwritten
    for key in written.keys() | program.written.keys():
        assert key[1] in program.known_late or written[key] == program.written[key]


@settings(max_examples=examples(12))
@given(st.integers(0, 1 << 30), st.booleans(), st.booleans())
def test_dependences_of_random_loop_nests(seed: int, only_words: bool, has_branches: bool) -> None:
    """All kinds, counts and distances are equal, with branches that are first taken late, too.

    Both know a loop from the second iteration on that any entry of it has: what meets an earlier access before is not
    of that loop. The first iteration of that entry counts from then on. A read is remembered as the first one since
    the last write and since the last loop began; the twin takes a loop for running until blocks tell that it was left.
    """
    program = AccessProgram(seed, only_words=only_words, has_branches=has_branches)
    program.run()
    found, tree, operations = read(program)
    expected = {row: (of.count, min(of.distances), max(of.distances)) for row, of in program.rows.items()}
    assert rows_of(found, tree, operations) == expected
    stores = {operations[row[2]]: row[4] for row in found.rows.tolist() if row[0] == RawKind.STORES}
    assert stores == program.stores
    assert found.share == 1
    paths = paths_by_rank(tree)
    iterations = {(paths[rank], header): number for rank, _, header, _, number, *_ in found.loops.tolist()}
    assert iterations == program.iterations
    check_bytes(found, tree, operations, program)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 6, 7, 8, 9, 11])
def test_no_loop_overwrites_more_than_it_writes(seed: int) -> None:
    """Whichever loops of the recording are none in the finished tree."""
    program, chance = AccessProgram(seed, only_words=False), Random(seed)
    program.run()
    found, tree, _ = read(program)
    paths = paths_by_rank(tree)
    around = found.loops[:, 6].tolist()
    loops = [(paths[rank], header) for rank, _, header, *_ in found.loops.tolist()]
    nests = [[loops.index(one) for one in program.nests.get(loop, ()) if one in loops] for loop in loops]
    parents = [nest[-2] if len(nest) > 1 else -1 for nest in nests]
    for lost_share in (0.0, 0.3, 0.7):
        nodes = [-1 if chance.random() < lost_share else number for number in range(len(loops))]
        above = []
        for parent in parents:
            while parent >= 0 and nodes[parent] < 0:
                parent = parents[parent]
            above.append(parent)
        written, overwritten = Counter[int](), Counter[int]()
        for kind, source, _, loop, _, _, _, size_bytes in found.rows.tolist():
            if kind == RawKind.OUTPUT and nodes[loop] >= 0:
                overwritten[nodes[loop]] += size_bytes
            if kind == RawKind.WRITTEN:
                for node in nest_of(source, loop, around, nodes, above):
                    written[node] += size_bytes
        assert all(overwritten[node] <= written[node] for node in overwritten)
        expected = Counter[int]()
        for (_, loop), size_bytes in program.written.items():
            expected[loops.index(loop)] += size_bytes
        for number, loop in enumerate(loops):
            assert lost_share or loop in program.known_late or written[number] == expected[number]


def test_what_is_overwritten_was_written() -> None:
    assert examined_loop(3, 10, 7, 8).written_bytes == 8
    assert examined_loop(3, 10, 9, 8).written_bytes == 9


def test_the_random_programs_have_dependences_of_all_kinds() -> None:
    kinds, wanted = set(), set(RawKind) - {RawKind.STORES, RawKind.WRITTEN}
    for seed in range(6):
        program = AccessProgram(seed, only_words=False)
        program.run()
        kinds |= {kind for kind, *_ in program.rows}
        if kinds == wanted and not IS_FULL:
            break
    assert kinds == wanted


@pytest.mark.parametrize(("distance", "least"), [(1, 1), (700, 700), (1023, 1023), (3000, 3000)])
def test_distances_of_many_iterations(distance: int, least: int) -> None:
    """One block in a loop stores to a place of its own, and loads what it stored `distance` iterations before."""
    from word_streams import ENTRY, LAYOUT

    class Long(AccessProgram):
        def __init__(self) -> None:
            super().__init__(0, only_words=True)
            self.codes = [(0x1000, b"\xe9\0\0\0\0"), (0x1005, b"\x0f\x85" + (-6).to_bytes(4, "little", signed=True))]

    program = Long()
    number = 5000
    words = [[ENTRY | 1]]
    for i in range(number):
        load, store = 0x100000 + 8 * (i - distance), 0x100000 + 8 * i
        words.append([ENTRY | 2, 1 << 51 | 3 << 48 | load, 2 << 51 | 3 << 48 | store])
    program._words = words
    assert LAYOUT["chunk_words"] > 3
    found, _, _ = read(program)
    flow = [row for row in found.rows.tolist() if row[0] == RawKind.FLOW]
    assert len(flow) == 1
    assert flow[0][4] == number - distance
    assert flow[0][5] == least if distance < 1024 else least <= flow[0][5] <= flow[0][6] < least + 1024
