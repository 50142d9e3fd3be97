"""Merging of signatures: counts are summed, whatever the order and the grouping, and nothing is lost."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from event_samples import solver_events
from hypothesis import given, settings
from hypothesis import strategies as st
from offload_samples import nest
from traces import trace_binary

from foretrace.cache_sim.base.hierarchy import DEFAULT_HIERARCHY, Hierarchy
from foretrace.tracer.signature.file import TABLES, read_tables, write_tables
from foretrace.tracer.signature.merging import merged
from foretrace.tracer.signature.records import LibraryCall, ProcessRecord, Signature
from foretrace.tracer.signature.schema import Scale

SOURCE = """
#include <stdlib.h>
static long cells[4096];
__attribute__((noinline)) static long sum(int n) { long s = 0; for (int i = 0; i < n; i++) s += cells[i]; return s; }
int main(int argc, char **argv) {
    int n = atoi(argv[1]);
    for (int i = 0; i < n; i++) cells[i * 17 % 4096] += i;
    return argc > 2 ? sum(n) == 7 : 0;
}
"""
SYSTEM = Hierarchy.parse("L1=4K/4/64/plru,LL=64K/8/64/inclusive,I1=4K/4/64/instructions", "system")
MADE_OF_OTHERS = {"provenance", "block_ranges", "levels", "reuse_errors"}
"""The last are sums of squares, which rounding tells apart: see `test_grouping_does_not_matter`."""


@pytest.fixture(scope="module")
def runs(compile_c: Callable[..., Path]) -> tuple[Signature, ...]:
    """Two runs of one program. The second calls another function."""
    program = str(compile_c(SOURCE, "-O1"))
    inputs = (["300"], ["1000", "more"], ["4000", "more"])
    return tuple(trace_binary([program, *words], [DEFAULT_HIERARCHY, SYSTEM]).signature for words in inputs)


def merge(*signatures: Signature) -> Signature:
    """With a provenance that has a record of each process."""
    numbers = range(sum(max(len(one.provenance.processes), 1) for one in signatures))
    processes = tuple(ProcessRecord(number, 0, (), 0, 0, 1) for number in numbers)
    provenance = msgspec.structs.replace(signatures[0].provenance, processes=processes if len(processes) > 1 else ())
    return merged(signatures, provenance)


def tables(signature: Signature) -> dict[str, list[tuple[Any, ...]]]:
    return {name: list(table.rows(signature)) for name, table in TABLES.items() if name not in MADE_OF_OTHERS}


def sums(signature: Signature) -> Counter[str]:
    """Sum of each column of counts."""
    found: Counter[str] = Counter()
    for name, table in TABLES.items():
        for column, values in table.pairs(signature):
            if (
                column.scale is Scale.COUNT
                and name not in MADE_OF_OTHERS | {"reuse_errors"}
                and column.column != "rows"
            ):
                of_column = np.concatenate(list(values)) if column.packed else list(values)
                numbers = [value for value in np.ravel(of_column).tolist() if value is not None]
                found[f"{name}.{column.column}"] += round(sum(numbers))
    return found


def named(signature: Signature) -> dict[str, Counter[Any]]:
    """Values of each block, operation and loop, by place and not by number."""
    blocks = [(block.module, block.offset, block.instructions) for block in signature.blocks]
    loops = [(loop.module, blocks[loop.header_block_id], loop.depth) for loop in signature.loops]
    found: dict[str, Counter[Any]] = {
        "blocks": Counter(), "operations": Counter(), "loops": Counter(), "edges": Counter(), "misses": Counter(),
        "loop of block": Counter(), "reuse": Counter(),
    }  # fmt: skip
    for block, place in zip(signature.blocks, blocks, strict=True):
        found["blocks"][place] += block.executions
        found["loop of block"][place, None if block.loop_id is None else loops[block.loop_id]] = 1
    places = [(blocks[one.block_id], one.offset, one.is_store) for one in signature.operations]
    for operation, where in zip(signature.operations, places, strict=True):
        found["operations"][where, operation.range_bytes] += operation.executions
    for loop, where in zip(signature.loops, loops, strict=True):
        found["loops"][where] += loop.iterations
    for source, destination, count in signature.edges.tolist():
        found["edges"][blocks[source], blocks[destination]] += count
    for simulated in signature.hierarchies:
        for where, misses in zip(places, simulated.misses.tolist(), strict=True):
            found["misses"][where] += sum(misses)
    if signature.reuse is not None:
        for number, count in zip(signature.reuse.operation.tolist(), signature.reuse.count.tolist(), strict=True):
            found["reuse"][places[number]] += count
    return found


def test_one_signature_is_itself(runs: tuple[Signature, ...]) -> None:
    for signature in runs:
        assert tables(merge(signature)) == tables(signature)


def test_an_empty_signature_changes_nothing(runs: tuple[Signature, ...]) -> None:
    one = runs[1]
    edges = np.zeros((0, 3), np.uint64)
    empty = Signature((), (), (), (), edges, provenance=one.provenance, hierarchies=(), reuse=None)
    assert tables(merge(one, empty)) == tables(merge(empty, one)) == tables(one)
    assert tables(merge(empty, empty)) == tables(empty)


def test_counts_are_summed(runs: tuple[Signature, ...]) -> None:
    total = sums(merge(*runs))
    expected: Counter[str] = Counter()
    for signature in runs:
        expected.update(sums(signature))
    assert expected["blocks.executions"] > 0
    assert expected["tree_work.executions"] == expected["blocks.executions"]
    assert total == expected


def test_code_of_all_is_joined_by_its_place(runs: tuple[Signature, ...]) -> None:
    """A function that only one run calls keeps its loop, with the blocks, accesses and edges of that."""
    short, long, _ = runs
    both = merge(short, long)
    assert len(both.blocks) < len(short.blocks) + len(long.blocks)
    (loop,) = (loop for loop in both.loops if loop.function == "sum")
    assert not [loop for loop in short.loops if loop.function == "sum"]
    assert loop.iterations == 1000
    (filled,) = (loop for loop in both.loops if loop.function == "main")
    assert filled.iterations == 1300
    blocks = [block for block in both.blocks if block.loop_id == loop.loop_id]
    assert sum(block.executions for block in blocks) == 1000
    assert len({loop.order for loop in both.loops}) == len(both.loops)


def test_grouping_does_not_matter(runs: tuple[Signature, ...]) -> None:
    a, b, c = runs
    left, right, at_once = merge(merge(a, b), c), merge(a, merge(b, c)), merge(a, b, c)
    assert tables(left) == tables(right) == tables(at_once)
    for one in (left, right):
        assert one.reuse is not None
        assert at_once.reuse is not None
        assert np.allclose(one.reuse.errors, at_once.reuse.errors, rtol=1e-12)


def test_order_does_not_matter_but_for_numbers(runs: tuple[Signature, ...]) -> None:
    a, b, _ = runs
    one, other = merge(a, b), merge(b, a)
    assert sums(one) == sums(other)
    assert named(one) == named(other)


def test_what_is_merged_is_written_and_read(runs: tuple[Signature, ...]) -> None:
    both = merge(*runs)
    with closing(sqlite3.connect(":memory:")) as database:
        write_tables(both, database)
        assert tables(read_tables(database)) == tables(both)


def test_trees_flows_and_events_stand_side_by_side() -> None:
    signature = nest()[0].signature()
    assert signature.tree is not None
    with_events = dataclasses.replace(signature, events=solver_events(CG=np.geomspace(1, 1e-9, 30)))
    both = merge(with_events, with_events)
    nodes = len(signature.tree)
    assert both.tree is not None
    assert len(both.tree) == 2 * nodes
    assert both.tree.parent.tolist() == [
        *signature.tree.parent.tolist(), *(parent + nodes if parent >= 0 else -1 for parent in signature.tree.parent)
    ]  # fmt: skip
    assert [thread.process for thread in both.tree.threads] == [0, 1]
    assert len(both.blocks) == len(signature.blocks)
    first, second = both.events.samples
    assert (first.process, second.process) == (0, 1)
    assert second.nodes.tolist() == [node + nodes for node in first.nodes.tolist()]
    assert second.events.tolist() == [number + len(with_events.events.events) for number in first.events.tolist()]


def test_means_are_weighted_and_shares_by_iterations(runs: tuple[Signature, ...]) -> None:
    from foretrace.tracer.signature.records import InterpreterTime

    def with_time(signature: Signature, lines: float, share: float) -> Signature:
        (block,) = (one for one in signature.blocks if one.block_id == signature.loops[0].header_block_id)
        call = LibraryCall("memcpy", "main", "a.c", 3, share)
        others = LibraryCall("", "", "", 0, 1 - share)
        loops = (msgspec.structs.replace(signature.loops[0], calls=(call, others)), *signature.loops[1:])
        times = (InterpreterTime(block.block_id, lines, 0.5, 8.0),)
        return dataclasses.replace(signature, interpreter_times=times, loops=loops)

    short, long = with_time(runs[0], 2.0, 0.25), with_time(runs[0], 4.0, 0.75)
    (time,) = merge(short, long).interpreter_times
    assert (time.lines, time.recording_lines, time.array_faults) == (3.0, 0.5, 16.0)
    assert sorted(call.share for call in merge(short, long).loops[0].calls) == [0.5, 0.5]


def test_other_hierarchies_are_refused(runs: tuple[Signature, ...]) -> None:
    other = dataclasses.replace(runs[1], hierarchies=runs[1].hierarchies[:1])
    with pytest.raises(ValueError, match="different simulated hierarchies"):
        merge(runs[0], other)


@settings(max_examples=25)
@given(data=st.data())
def test_counts_of_changed_signatures_are_summed(data: st.DataObject) -> None:
    """Signatures whose counts are any numbers, and in which code is missing."""
    whole = nest()[0].signature()

    def changed() -> Signature:
        counts = st.integers(0, 2**40)
        blocks = tuple(msgspec.structs.replace(block, executions=data.draw(counts)) for block in whole.blocks)
        operations = tuple(
            msgspec.structs.replace(one, executions=data.draw(counts), total_bytes=data.draw(counts))
            for one in whole.operations
        )
        loops = tuple(msgspec.structs.replace(one, iterations=data.draw(counts)) for one in whole.loops)
        return dataclasses.replace(whole, blocks=blocks, operations=operations, loops=loops)

    some = [changed() for _ in range(data.draw(st.integers(1, 3)))]
    expected: Counter[str] = Counter()
    for one in some:
        expected.update(sums(one))
    assert sums(merge(*some)) == expected
    assert tables(merge(merge(*some), some[0])) == tables(merge(*some, some[0]))
