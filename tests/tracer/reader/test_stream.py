"""The stream's layout: reader/side_table.py must agree with stream.h as the compiler sees it, and refuse damage."""

from __future__ import annotations

import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrace.cache_sim.base.hierarchy import DEFAULT_HIERARCHY
from foretrace.cache_sim.simulator import Simulator
from foretrace.tracer.reader import _reader
from foretrace.tracer.reader import side_table as stream
from foretrace.tracer.reader.side_table import SideTable, StreamError

MEMORY_BYTES = 80 << 20


def test_python_agrees_with_the_header() -> None:
    layout = _reader.layout()
    assert layout["side_entry"] == stream.ENTRY.size
    assert layout["side_block"] == stream.BLOCK.size
    assert layout["side_pyblock"] == stream.PYBLOCK.size
    assert layout["side_operation"] == stream.OPERATION_BYTES
    assert layout["side_unseen"] == stream.UNSEEN.size
    assert layout["side_linear"] == stream.LINEAR.size
    assert layout["side_compiled"] == stream.COMPILED.size
    assert layout["side_child"] == stream.CHILD.size
    assert layout["side_object"] == stream.OBJECT.size
    assert layout["side_landing"] == stream.LANDING.size
    assert layout["side_file"] == stream.FILE.size
    assert layout["operand"] == stream.OPERAND.size


def test_memory_too_small_is_refused() -> None:
    simulator = Simulator([DEFAULT_HIERARCHY])
    with pytest.raises(ValueError, match="too small"):
        _reader.StreamReader(mmap.mmap(-1, 4096), simulator.sink)


@given(st.binary(max_size=200))
def test_a_damaged_side_table_is_a_stream_error(data: bytes) -> None:
    table = SideTable()
    try:
        table.extend(memoryview(data + bytes(-len(data) % 8)))
    except StreamError:
        pass
    else:
        assert len(table.blocks) + len(table.operations) + len(table.maps) <= len(data) // 8 + 1


def test_entries_arrive_in_pieces() -> None:
    code = b"\x90\xc3"
    block = stream.BLOCK.pack(stream.SIDE_BLOCK, 40, 1, 2, 0x1000, 0, 0) + b"\x01\x01" + code + bytes(4)
    maps = stream.ENTRY.pack(stream.SIDE_MAPS, 16) + b"a map\0\0\0"
    table = SideTable()
    table.extend(memoryview(block))
    table.extend(memoryview(block + maps))
    assert [(b.address, b.lengths, b.code) for b in table.blocks] == [(0x1000, (1, 1), code)]  # type: ignore[union-attr]
    assert table.maps == ["a map"]
