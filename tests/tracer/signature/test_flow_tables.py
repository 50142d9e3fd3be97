"""Data flow and dependences of signatures: what is written is readable, and what is right comes back as it was."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from offload_samples import nest

from foretrace.tracer.assembly import readable
from foretrace.tracer.signature.data_flow_records import (
    OPERATIONS,
    OUTSIDE,
    Allocation,
    DataFlow,
    Dependence,
    DependenceKind,
    ExaminedLoop,
    MemoryObject,
    ObjectKind,
)
from foretrace.tracer.signature.file import read_signature, write_signature
from foretrace.tracer.signature.records import Signature

LARGEST = 2**63 - 1
TEXTS = st.text(max_size=12)  # also of lone surrogates: names that are not UTF-8
KINDS = st.sampled_from(list(ObjectKind))
COUNTS = st.integers(0, LARGEST)
SIZES = st.floats(0, 1e300, allow_nan=False)


def signature() -> Signature:
    """Of a program whose main calls a function with two loops."""
    tree, _, _ = nest()
    return tree.signature()


BARE = signature()
assert BARE.tree is not None
NODES = len(BARE.tree)
OPERATION_COUNT = len(BARE.operations)


def column(values: list[int]) -> np.typing.NDArray[np.int64]:
    return np.array(values, np.int64)


@st.composite
def data_flows(draw: st.DrawFn) -> DataFlow:
    """Such as a tracer may find."""
    place = np.arange(NODES)
    for node in draw(st.sets(st.integers(1, NODES - 1), max_size=2)):
        place[node] = 0
    nodes = [node for node in range(NODES) if place[node] == node]
    sets = [(), *draw(st.lists(st.sets(st.sampled_from(nodes)).map(sorted).map(tuple), max_size=5))]
    allocations = draw(st.lists(st.builds(Allocation, KINDS, *[TEXTS] * 3, *[COUNTS] * 3), max_size=3))
    numbers = st.integers(-1, len(allocations) - 1)
    objects = [
        MemoryObject(kind, name, *sorted(ends), number)
        for kind, name, ends, number in draw(
            st.lists(st.tuples(KINDS, TEXTS, st.tuples(COUNTS, COUNTS), numbers), max_size=3)
        )
    ]
    of_set = st.integers(0, len(sets) - 1)
    rows = draw(
        st.lists(st.tuples(st.sampled_from([OUTSIDE, *nodes]), of_set, SIZES, numbers, st.booleans()), max_size=6)
    )
    touched_object = st.integers(0, len(objects) - 1)
    feet = draw(st.lists(st.tuples(touched_object, of_set, SIZES), max_size=4)) if objects else []
    return DataFlow(
        set_starts=np.cumsum([0, *map(len, sets)]),
        set_nodes=column([node for one in sets for node in one]),
        flow_writer=column([row[0] for row in rows]),
        flow_readers=column([row[1] for row in rows]),
        flow_bytes=np.array([row[2] for row in rows], np.float64),
        touched_object=column([foot[0] for foot in feet]),
        touched_by=column([foot[1] for foot in feet]),
        touched_bytes=np.array([foot[2] for foot in feet], np.float64),
        objects=tuple(objects),
        sampled_share=draw(st.floats(0, 1, exclude_min=True)),
        relative_error=draw(SIZES),
        merged_bytes=draw(SIZES),
        allocations=tuple(allocations),
        flow_allocation=column([row[3] for row in rows]),
        flow_by_system=np.array([row[4] and row[0] == OUTSIDE for row in rows], np.bool_),
        set_has_system=np.array([False, *(draw(st.booleans()) for _ in sets[1:])], np.bool_),
        node_place=column(draw(st.sampled_from([[], place.tolist()]))),
    )


@st.composite
def dependences(draw: st.DrawFn) -> tuple[tuple[Dependence, ...], tuple[ExaminedLoop, ...]]:
    """Such as a tracer may find."""
    nodes = sorted(draw(st.sets(st.integers(0, NODES - 1))))
    examined = tuple(ExaminedLoop(node, draw(COUNTS), *sorted(draw(st.tuples(COUNTS, COUNTS)))[::-1]) for node in nodes)
    operations = st.integers(-1, OPERATION_COUNT - 1)
    found = [
        Dependence(
            draw(st.sampled_from(nodes)), draw(st.sampled_from(list(DependenceKind))), draw(operations),
            draw(operations), draw(COUNTS), *sorted(draw(st.tuples(COUNTS, COUNTS))),
            draw(st.sampled_from(sorted(OPERATIONS))), draw(TEXTS),
        )
        for _ in range(draw(st.integers(0, 3)) if nodes else 0)
    ]  # fmt: skip
    return tuple(found), examined


ODD_NUMBERS = st.sampled_from([-(2**70), -(2**63), -2, -1, 0, NODES, 2**31, 2**32, LARGEST, 2**63, 2**64])
ODD_FLOATS = st.sampled_from([float("nan"), float("inf"), -1.0, 0.0, 2.0])


@st.composite
def odd_flows(draw: st.DrawFn) -> DataFlow:
    """A data flow that may be wrong in one of its parts."""
    flow = draw(data_flows())
    name = draw(st.sampled_from([field.name for field in dataclasses.fields(flow)]))
    before = getattr(flow, name)
    now: Any
    if isinstance(before, float):
        now = draw(ODD_FLOATS)
    elif isinstance(before, tuple):
        if not before:
            return flow
        one = draw(st.sampled_from(before))
        numbers = [field.name for field in dataclasses.fields(one) if isinstance(getattr(one, field.name), int)]
        changed = draw(st.sampled_from([number for number in numbers if number != "kind"]))
        now = tuple(dataclasses.replace(it, **{changed: draw(ODD_NUMBERS)}) if it is one else it for it in before)
    else:
        now = before.copy() if draw(st.booleans()) else before[:-1]
        if len(now) and now.dtype == np.float64:
            now[-1] = draw(ODD_FLOATS)
        elif len(now) and now.dtype == np.int64:
            now[-1] = draw(ODD_NUMBERS.filter(lambda number: -(2**63) <= number <= LARGEST))
    return dataclasses.replace(flow, **{name: now})


@st.composite
def odd_dependences(draw: st.DrawFn) -> tuple[tuple[Dependence, ...], tuple[ExaminedLoop, ...]]:
    """Dependences that may be wrong."""
    found, examined = draw(dependences())
    records: list[Any] = [*found, *examined]
    if not records:
        return found, examined
    at = draw(st.integers(0, len(records) - 1))
    names = [field.name for field in dataclasses.fields(records[at]) if field.name not in ("kind", "where")]
    name = draw(st.sampled_from(names))
    value = draw(st.sampled_from(["sub", "ADD"])) if name == "operation" else draw(ODD_NUMBERS)
    records[at] = dataclasses.replace(records[at], **{name: value})
    again = draw(st.sampled_from([(), examined[:1]]))  # a loop that is there twice
    return tuple(records[: len(found)]), (*records[len(found) :], *again)


def written_and_read(made: Signature, folder: Path) -> Signature:
    path = folder / "s.sig"
    write_signature(made, path, force=True)
    return read_signature(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


def is_same(one: DataFlow, other: DataFlow) -> bool:
    return all(
        np.array_equal(getattr(one, field.name), getattr(other, field.name))
        if isinstance(getattr(one, field.name), np.ndarray)
        else getattr(one, field.name) == getattr(other, field.name)
        for field in dataclasses.fields(one)
    )


@given(flow=data_flows(), carried=dependences())
def test_what_is_right_comes_back(
    folder: Path, flow: DataFlow, carried: tuple[tuple[Dependence, ...], tuple[ExaminedLoop, ...]]
) -> None:
    found, examined = carried
    made = dataclasses.replace(BARE, data_flow=flow, dependences=found, examined_loops=examined)
    assert readable(made) is made
    read = written_and_read(made, folder)
    assert read.data_flow is not None
    assert is_same(read.data_flow, flow)
    assert (read.dependences, read.examined_loops) == (found, examined)


@given(flow=odd_flows(), carried=odd_dependences())
@example(flow=None, carried=((), (ExaminedLoop(0, 1), ExaminedLoop(0, 1))))
@example(flow=None, carried=((Dependence(0, DependenceKind.REDUCTION, -1, -1, 1, 1, 1, "sub"),), (ExaminedLoop(0, 1),)))
@example(flow=None, carried=((), (ExaminedLoop(0, 2**63),)))
def test_what_is_written_is_readable(
    folder: Path, flow: DataFlow | None, carried: tuple[tuple[Dependence, ...], tuple[ExaminedLoop, ...]]
) -> None:
    found, examined = carried
    made = readable(dataclasses.replace(BARE, data_flow=flow, dependences=found, examined_loops=examined))
    read = written_and_read(made, folder)
    assert (read.dependences, read.examined_loops) == (made.dependences, made.examined_loops)
    assert (read.data_flow is None) == (made.data_flow is None)
    if read.data_flow is not None and made.data_flow is not None:
        assert is_same(read.data_flow, made.data_flow)
    left_out = (flow is not None and made.data_flow is None) + (made.examined_loops != examined)
    assert len(made.provenance.notes) == len(BARE.provenance.notes) + left_out
