"""Signature files: what is written is read back; what is damaged or hostile is refused in one line."""

from __future__ import annotations

import dataclasses
import itertools
import random
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from changed_files import change_signature
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from traces import trace_binary

from foretrace.base.errors import OutputError, SignatureError
from foretrace.cache_sim.base.hierarchy import DEFAULT_HIERARCHY, Hierarchy
from foretrace.tracer.assembly import readable
from foretrace.tracer.signature import checksum as signature_checksum
from foretrace.tracer.signature import file as signature_file
from foretrace.tracer.signature.data_flow_records import Dependence, DependenceKind, ExaminedLoop
from foretrace.tracer.signature.file import read_signature, write_signature
from foretrace.tracer.signature.linear_algebra import LinearRoutine
from foretrace.tracer.signature.records import (
    AddressRange,
    ArrayTime,
    InterpreterTime,
    LinearAlgebra,
    Signature,
    merge_ranges,
)

GATHER = r"""
#include <stdio.h>
static double a[4096], b[1024]; static int index[1024];
int main(void) {
    for (int i = 0; i < 1024; i++) index[i] = (i * 37) % 4096;
    for (int i = 0; i < 1024; i++) b[i] = a[index[i]];
    return b[5] != 0;
}"""


ODD = (DependenceKind.REDUCTION, 3, -1, 7, 1, 4, "max", "st\udc80")
"""A dependence with a name that is not UTF-8."""

SYSTEM = Hierarchy.parse("L1=4K/4/64/plru,LL=64K/8/64/inclusive,I1=4K/4/64/instructions,DTLB=8/8/4K/tlb", "system")


@pytest.fixture(scope="module")
def signature(compile_c: Callable[..., Path]) -> Signature:
    program = str(compile_c(GATHER, "-O1"))
    traced = trace_binary([program], [DEFAULT_HIERARCHY, SYSTEM], has_dependences=True).signature
    return dataclasses.replace(
        traced,
        dependences=(*traced.dependences, Dependence(traced.examined_loops[0].node, *ODD)),
        interpreter_times=(InterpreterTime(2, 0.5, 1.0), InterpreterTime(4, 3.0, 2.0, 256.0)),
        array_times=(ArrayTime(3, "float64,-,bool", 12.5, 256.0, 2),),
        linear_algebra=(LinearAlgebra(1, LinearRoutine.GEMM, "float64", 30, 20, 10, 1, 7, 12_000.0),),
    )


@pytest.fixture(scope="module")
def written(signature: Signature, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """To be copied, not changed."""
    path = tmp_path_factory.mktemp("written") / "s.sig"
    write_signature(signature, path)
    return path


@pytest.fixture
def file(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copyfile(written, tmp_path / "s.sig"))


def test_round_trip(signature: Signature, file: Path) -> None:
    read = read_signature(file)
    assert signature.idioms, "the program has a gather to keep"
    for name in (
        "provenance",
        "blocks",
        "operations",
        "loops",
        "idioms",
        "totals",
        "interpreter_times",
        "array_times",
        "linear_algebra",
        "dependences",
        "examined_loops",
    ):
        assert getattr(read, name) == getattr(signature, name)
    assert np.array_equal(read.edges, signature.edges)
    assert [h.hierarchy for h in read.hierarchies] == [h.hierarchy for h in signature.hierarchies]
    assert all(np.array_equal(a.misses, b.misses) for a, b in zip(read.hierarchies, signature.hierarchies, strict=True))
    plain, system = (hierarchy.events for hierarchy in read.hierarchies)
    assert plain is None
    assert system is not None
    before = signature.hierarchies[1].events
    assert before is not None
    assert system.parts == before.parts == ("L1", "LL", "I1", "DTLB")
    assert np.array_equal(system.by_operation, before.by_operation)
    assert np.array_equal(system.by_block, before.by_block)
    assert read.reuse is not None
    assert signature.reuse is not None
    for field in dataclasses.fields(signature.reuse):
        assert np.array_equal(getattr(read.reuse, field.name), getattr(signature.reuse, field.name))


def test_round_trip_of_the_tree(signature: Signature, file: Path) -> None:
    before, after = signature.tree, read_signature(file).tree
    assert before is not None
    assert after is not None
    for field in dataclasses.fields(before):
        one, other = getattr(before, field.name), getattr(after, field.name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            assert one.tolist() == other.tolist()
        else:
            assert one == other


def test_a_signature_without_a_tree(signature: Signature, tmp_path: Path) -> None:
    without = dataclasses.replace(signature, tree=None, data_flow=None, dependences=(), examined_loops=())
    write_signature(without, tmp_path / "s.sig")
    assert read_signature(tmp_path / "s.sig").tree is None


def test_blocks_are_fetched_as_often_as_they_ran(signature: Signature) -> None:
    """Loops of 1024 iterations, the first of which the engine translates together with what comes before the loop."""
    events = signature.hierarchies[1].events
    assert events is not None
    code = events.parts.index("I1")
    loops = [loop for loop in signature.loops if loop.function == "main"]
    assert len(loops) == 2
    for loop in loops:
        accesses, misses = events.by_block[loop.header_block_id, code, :2].tolist()
        assert 1023 <= accesses <= loop.iterations == 1024
        assert misses <= 2
    loads = sum(op.executions for op in signature.operations)
    assert events.totals()["DTLB"]["accesses"] == events.totals()["L1"]["accesses"] == loads


def test_an_existing_file_is_kept(signature: Signature, file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(OutputError, match="--force"):
        write_signature(signature, file)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW extra AS SELECT 1",
        "CREATE TRIGGER t AFTER INSERT ON blocks BEGIN DELETE FROM loops; END",
        "DROP TABLE misses",
        "CREATE INDEX i ON blocks (line)",
        "UPDATE blocks SET executions = -1",
        "UPDATE blocks SET executions = 'many'",
        "UPDATE blocks SET executions = 1.5",
        "UPDATE blocks SET loop_id = 100000",
        "UPDATE memory_operations SET block_id = 100000",
        "UPDATE memory_operations SET index_operation = 100000",
        "UPDATE memory_operations SET first = last_exclusive + 1",
        "UPDATE loops SET parent_id = loop_id",
        "UPDATE edges SET source_block_id = 1000000",
        "UPDATE idiom_operations SET operation_id = -3",
        "UPDATE idioms SET kind = 'explode'",
        "UPDATE misses SET level = 9",
        "UPDATE reuse SET sampling_rate = 0",
        "UPDATE reuse SET burst_accesses = accesses + 1",
        "UPDATE reuse_counts SET rows = rows + 1",
        "UPDATE reuse_counts SET rows = -1",
        "UPDATE reuse_counts SET rows = 'many'",
        "UPDATE reuse_counts SET way = bin",
        "UPDATE reuse_counts SET accesses = 'text'",
        "DELETE FROM reuse_counts",
        "DELETE FROM reuse_errors",
        "INSERT INTO reuse_errors VALUES (x'00')",
        "UPDATE reuse_bins SET lower_edge_lines = 5",
        "UPDATE hierarchies SET spec = 'L1=32K/0/64'",
        "UPDATE hierarchies SET spec = 'L1=32K/8/64'",
        "UPDATE hierarchies SET hierarchy_id = 7 WHERE hierarchy_id = 1",
        "UPDATE memory_events SET part = 'L9'",
        "UPDATE memory_events SET event = 'explosions'",
        "UPDATE memory_events SET operation_id = 1, block_id = 1",
        "UPDATE memory_events SET block_id = 100000 WHERE operation_id IS NULL",
        "UPDATE memory_events SET hierarchy_id = 0",
        "UPDATE memory_events SET count = -1",
        "UPDATE interpreter_times SET lines = -1.0",
        "UPDATE interpreter_times SET recording_lines = 1e999",
        "UPDATE interpreter_times SET block_id = 100000 WHERE block_id = 2",
        "DROP TABLE interpreter_times",
        "UPDATE array_times SET lines = -1.0",
        "UPDATE array_times SET faults = 1e999",
        "UPDATE array_times SET kept_calls = -1",
        "UPDATE array_times SET block_id = 100000",
        "DROP TABLE array_times",
        "UPDATE linear_algebra SET loop_id = 100000",
        "UPDATE linear_algebra SET routine = 'magic'",
        "UPDATE linear_algebra SET m = -1",
        "UPDATE linear_algebra SET flops = 1e999",
        "UPDATE tree_nodes SET parent_id = 3 WHERE node_id = 2",
        "UPDATE tree_nodes SET parent_id = 100000 WHERE node_id = 2",
        "UPDATE tree_nodes SET parent_id = NULL WHERE node_id = 2",
        "UPDATE tree_nodes SET entries = -1 WHERE node_id = 1",
        "UPDATE tree_nodes SET entries = 1.5 WHERE node_id = 1",
        "UPDATE tree_nodes SET loop_id = 100000 WHERE loop_id IS NOT NULL",
        "UPDATE tree_nodes SET kind = 'magic' WHERE node_id = 1",
        "DELETE FROM tree_nodes WHERE node_id = 1",
        "DELETE FROM tree",
        "UPDATE tree SET notes = '{}'",
        "INSERT INTO tree SELECT * FROM tree",
        "UPDATE tree_work SET block_id = 100000",
        "UPDATE tree_work SET executions = -1",
        "UPDATE tree_work SET node_id = 'x'",
        "UPDATE tree_histograms SET bucket = 64",
        "UPDATE tree_threads SET root_id = 1",
        "UPDATE tree_threads SET last = -1",
        "UPDATE tree_threads SET parent = 5",
        "INSERT INTO tree_synchronisation VALUES ('wake', 0, 7, 1, NULL, NULL, 0, 0)",
        "INSERT INTO tree_synchronisation VALUES ('magic', 0, 0, 1, NULL, NULL, 0, 0)",
        "INSERT INTO tree_synchronisation VALUES ('wake', 0, 0, 1, 100000, NULL, 0, 0)",
        "INSERT INTO tree_synchronisation VALUES ('wake', 0, 0, 1, NULL, 'x', 0, 0)",
        "INSERT INTO tree_phases SELECT node_id, 0, entries + 1, iterations FROM tree_nodes WHERE kind = 'loop'",
        "INSERT INTO tree_phases VALUES (100000, 0, 1, 1)",
        "PRAGMA user_version = 9",
        "DROP TABLE checksum",
        "DELETE FROM provenance",
        "UPDATE provenance SET record = '{\"command\": 7}'",
        "DELETE FROM blocks WHERE block_id = 3",
    ],
)
def test_what_is_not_a_signature_is_refused(statement: str, file: Path) -> None:
    change_signature(file, statement)
    with pytest.raises(SignatureError, match=str(file)):
        read_signature(file)


def changed(array: npt.NDArray[Any], value: float) -> npt.NDArray[Any]:
    """A copy whose last value is another."""
    copy = array.copy()
    copy.reshape(-1)[-1] = value
    return copy


@pytest.mark.parametrize(
    ("column", "value"),
    [("operation", 1 << 30), ("line_bytes", 48), ("way", 21), ("bin", 173), ("errors", -1.0), ("errors", np.inf)],
)
def test_impossible_counts_of_reuse_are_refused(
    column: str, value: float, signature: Signature, tmp_path: Path
) -> None:
    assert signature.reuse is not None
    wrong = {column: changed(getattr(signature.reuse, column), value)}
    write_signature(
        dataclasses.replace(signature, reuse=dataclasses.replace(signature.reuse, **wrong)), tmp_path / "s.sig"
    )
    with pytest.raises(SignatureError, match="reuse"):
        read_signature(tmp_path / "s.sig")


@pytest.mark.parametrize("version", [0, 12, 13, 14, 19])
def test_another_version_is_refused(version: int, file: Path) -> None:
    change_signature(file, f"PRAGMA user_version = {version}")
    with pytest.raises(
        SignatureError, match=f"version {version}, and this release reads versions 15 to 18; trace .* again"
    ):
        read_signature(file)


def test_version_15_is_read(signature: Signature, file: Path) -> None:
    """It has no nodes that others count for, no library code, and no times of array operations."""
    for table in ("array_times", "data_flow_nodes", "called_code", "library_calls", "frames"):
        change_signature(file, f"DROP TABLE {table}")
    with pytest.raises(SignatureError, match="tables"):
        read_signature(file)
    change_signature(file, "PRAGMA user_version = 15")
    before, after = signature.data_flow, read_signature(file).data_flow
    assert before is not None
    assert after is not None
    assert after.flow_bytes.tolist() == before.flow_bytes.tolist()
    assert len(before.node_place)
    assert not len(after.node_place)


def test_nodes_that_count_for_others_are_checked(signature: Signature, tmp_path: Path) -> None:
    flow = signature.data_flow
    assert flow is not None
    wrong = [flow.node_place[:-1], np.roll(flow.node_place, 1), flow.node_place + len(flow.node_place)]
    for place in wrong:
        changed_flow = dataclasses.replace(flow, node_place=place)
        write_signature(dataclasses.replace(signature, data_flow=changed_flow), tmp_path / "s.sig", force=True)
        with pytest.raises(
            SignatureError, match=r"counts for another one|differ in length|data_flow_nodes\.place has the value"
        ):
            read_signature(tmp_path / "s.sig")


def test_parts_that_no_reader_would_take_are_left_out_with_a_note(signature: Signature, tmp_path: Path) -> None:
    assert readable(signature) is signature
    assert signature.data_flow is not None
    wrong = dataclasses.replace(
        signature,
        data_flow=dataclasses.replace(signature.data_flow, merged_bytes=-1.0),
        examined_loops=(ExaminedLoop(0, 5, written_bytes=7, overwritten_bytes=8),),
    )
    mended = readable(wrong)
    write_signature(mended, tmp_path / "s.sig")
    read = read_signature(tmp_path / "s.sig")
    assert (read.data_flow, read.dependences, read.examined_loops) == (None, (), ())
    said = read.provenance.notes[-2:]
    assert "the data flow was left out" in said[0]
    assert "a loop overwrites more bytes than it writes" in said[1]


def test_each_of_its_bytes_is_covered_by_the_checksum(file: Path) -> None:
    """Four bytes are overwritten, one after the other all over the file."""
    data = file.read_bytes()
    for start in range(0, len(data), len(data) // 500):
        damaged = bytearray(data)
        damaged[start : start + 4] = bytes(255 - byte for byte in data[start : start + 4])
        file.write_bytes(damaged)
        with pytest.raises(SignatureError, match=r"trace the program again|not a signature"):
            read_signature(file)
    file.write_bytes(data + b"more")
    with pytest.raises(SignatureError, match="checksum"):
        read_signature(file)
    file.write_bytes(data)
    read_signature(file)


@pytest.mark.parametrize("page_bytes", [512, 65536])
def test_the_checksum_is_found_whatever_the_size_of_pages(page_bytes: int, file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute(f"PRAGMA page_size = {page_bytes}")
        database.execute("VACUUM")
    with pytest.raises(SignatureError, match="checksum"):
        read_signature(file)
    change_signature(file)
    with closing(sqlite3.connect(file)) as database:
        (found,) = database.execute("SELECT crc32 FROM checksum").fetchone()
    data = file.read_bytes()
    before, at, after = data.partition(found)
    assert int.from_bytes(at, "big") == zlib.crc32(before + after)
    assert len(before) == 2 * page_bytes - 4
    read_signature(file)


@pytest.mark.parametrize(("table", "column"), [("instruction_forms", "reads"), ("hierarchies", "spec")])
def test_texts_that_are_missing_are_refused(table: str, column: str, file: Path) -> None:
    schema = f"UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = '{table}'"
    given, not_given = f"{column} TEXT NOT NULL", f"{column} TEXT"
    for statement in (
        (schema, (given, not_given)),
        f"UPDATE {table} SET {column} = NULL WHERE rowid = 1",
        (schema, (not_given, given)),
    ):
        change_signature(file, "PRAGMA writable_schema = ON", statement)
    with pytest.raises(SignatureError, match="impossible value"):
        read_signature(file)


def test_a_length_beyond_all_memory_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_memory(*_: object) -> None:
        raise MemoryError  # as sqlite3 does on some damaged lengths

    monkeypatch.setattr(signature_file, "read_tables", out_of_memory)
    with pytest.raises(SignatureError, match="memory"):
        read_signature(file)


def test_random_damage_never_does_more_than_raise(file: Path) -> None:
    data = file.read_bytes()
    chance = random.Random(7)
    for _ in range(examples(150)):
        damaged = bytearray(data)
        for _ in range(chance.choice([1, 10, 200])):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        whole = damaged[: chance.choice([len(damaged), chance.randrange(8192, len(damaged))])]
        file.write_bytes(signature_checksum.sealed(whole))
        try:
            read = read_signature(file)
        except SignatureError as error:
            assert str(file) in str(error)
        else:
            assert len(read.blocks) > 0


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 30)), max_size=30))
def test_merged_ranges_cover_the_same_bytes_and_do_not_overlap(pairs: list[tuple[int, int]]) -> None:
    ranges = [AddressRange(first, first + length) for first, length in pairs]
    merged = merge_ranges(ranges)
    assert {b for r in ranges for b in range(r.first, r.last_exclusive)} == {
        b for r in merged for b in range(r.first, r.last_exclusive)
    }
    assert all(a.last_exclusive <= b.first for a, b in itertools.pairwise(merged))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE dependences SET kind = 'guess'",
        "UPDATE dependences SET operation = 'divide'",
        "UPDATE dependences SET source = 1000000",
        "UPDATE dependences SET count = -1",
        "UPDATE dependences SET least_distance = 9, most_distance = 3",
        "UPDATE dependences SET most_distance = 'far'",
        "UPDATE dependences SET node_id = 1000000",
        "UPDATE examined_loops SET node_id = 1000000 + node_id",
        "UPDATE examined_loops SET iterations = -1",
        "UPDATE examined_loops SET overwritten_bytes = -1",
        "UPDATE examined_loops SET written_bytes = 7, overwritten_bytes = 8",
        "DELETE FROM examined_loops",
    ],
)
def test_impossible_dependences_are_refused(file: Path, change: str) -> None:
    change_signature(file, change)
    with pytest.raises(SignatureError, match=r"trace the program again"):
        read_signature(file)
