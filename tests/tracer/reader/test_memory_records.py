"""Records of what becomes of memory, written word by word."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from word_streams import ENTRY, LAYOUT, Stream

from foretrace.tracer.reader import side_table
from foretrace.tracer.reader.raw_flow import RawFlow, raw_flow
from foretrace.tracer.signature.data_flow_records import ObjectKind

ALLOCATED, RELEASED, READ, WRITTEN = range(4)
SYSTEM = 0
A = 1 << 20


def memory(kind: int, address: int, length: int, number: int = 0) -> list[int]:
    return [0xFFC << 51 | kind << 48 | address, number << 48 | length]


def stream_of(words: list[int]) -> Stream:
    """A stream of two blocks of one instruction and one object, "a"."""
    stream = Stream()
    stream.reader.make_tree("x86_64", 100)
    stream.reader.follow_data()
    stream.describe_blocks([1, 1])
    used = stream.word(LAYOUT["side_used_bytes"])
    at = stream.word(LAYOUT["side_offset"]) + used
    entry = side_table.OBJECT.pack(side_table.SIDE_OBJECT, side_table.OBJECT.size + 8, 1, ObjectKind.HEAP, 77, 1, 0)
    stream.memory[at : at + len(entry) + 8] = entry + b"a".ljust(8, b"\0")
    struct.pack_into("<Q", stream.memory, LAYOUT["side_used_bytes"], used + len(entry) + 8)
    stream.publish(words)
    return stream


def flow_of(stream: Stream) -> RawFlow:
    table = side_table.SideTable()
    begin = stream.word(LAYOUT["side_offset"])
    with memoryview(stream.memory) as view, view[begin : begin + stream.word(LAYOUT["side_used_bytes"])] as used:
        table.extend(used)
    flow = raw_flow(stream.reader.data_flow(), table.objects)
    assert flow is not None
    return flow


def test_the_system_writes_what_a_block_reads() -> None:
    load = [ENTRY | 1, 1 << 51 | 3 << 48 | A]
    stream = stream_of([*load, *memory(ALLOCATED, A, 64, 1), *memory(WRITTEN, A, 16), *load, *memory(RELEASED, A, 0)])
    stream.read()
    flow = flow_of(stream)
    (one,) = flow.allocations
    assert (one.kind, one.name, one.site, one.count, one.num_bytes) == (ObjectKind.HEAP, "a", 77, 1, 64)
    assert (one.first, one.last_exclusive) == (A, A + 64)
    by_system = flow.writer == SYSTEM
    assert sorted(flow.version_bytes[by_system].sum(axis=1).tolist()) == [8, 8]  # read, and not
    assert np.all(flow.version_object[by_system] == 1)


@pytest.mark.parametrize(
    "words",
    [
        memory(ALLOCATED, A, 64, 2),
        memory(ALLOCATED, A, 64, 0),
        memory(RELEASED, A, 64, 1),
        memory(WRITTEN, A, 1 << 40),
        memory(5, A, 64),
        memory(ALLOCATED, A, 64, 1)[:1],
    ],
)
def test_impossible_records(words: list[int]) -> None:
    with pytest.raises(ValueError, match=r"memory|system call"):
        stream_of(words).read()


def test_ranges_of_any_size_take_no_time() -> None:
    """Lengths come from a program that may have gone wrong."""
    everything = (1 << 48) - 1
    stream = stream_of([*memory(ALLOCATED, 1, everything, 1), *memory(RELEASED, 1, everything)] * 50)
    stream.read()
    assert flow_of(stream).allocations[0].count == 50
