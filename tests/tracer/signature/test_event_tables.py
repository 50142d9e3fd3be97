"""Software-defined events in signature files: what is written is read back; what is damaged is refused in one line."""

from __future__ import annotations

import dataclasses
import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from changed_files import change_signature
from event_samples import event, odd_events, recorder, signature_with, solver_events
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_numpy

from foretrace.base.errors import SignatureError
from foretrace.tracer.signature import event_tables
from foretrace.tracer.signature.event_records import (
    MOST_SAMPLES,
    NO_EVENTS,
    NUM_QUANTILES,
    VALUE_DTYPES,
    EventElement,
    EventKind,
    Events,
    EventSamples,
    RecordedEvent,
    record_values,
    thinned,
)
from foretrace.tracer.signature.file import read_signature, read_tables, write_signature, write_tables
from foretrace.tracer.signature.records import ProcessRecord

NODES = 20


def same(one: Any, other: Any) -> bool:
    """Records and their arrays, all of them; NaN is NaN."""
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        return type(one) is type(other) and all(same(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return type(one) is type(other) and bool(one == other)


def written_and_read(events: Events) -> Events:
    made = signature_with(events, NODES)
    processes = (ProcessRecord(number, 0, (), 0, 0, 1) for number in (0, 3))
    provenance = msgspec.structs.replace(made.provenance, processes=tuple(processes))
    with closing(sqlite3.connect(":memory:")) as database:
        write_tables(dataclasses.replace(made, provenance=provenance), database)
        return read_tables(database).events


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
INTEGERS = st.integers(-(2**63), 2**63 - 1)


@st.composite
def recorders(draw: st.DrawFn) -> RecordedEvent:
    of_type = draw(st.sampled_from([*VALUE_DTYPES, "bytes"]))
    if of_type == "bytes":
        shape = st.tuples(st.integers(0, 9), st.integers(1, 5))
        values = draw(of_numpy.arrays(np.uint8, shape))
    else:
        values = draw(of_numpy.arrays(VALUE_DTYPES[of_type], st.integers(0, 50)))
    kept = record_values(values, draw(st.sampled_from([None, 2, 7])))
    return event(draw(TEXTS), draw(TEXTS), len(values), EventKind.RECORDER, type=of_type, values=kept, process=3)


@st.composite
def single_values(draw: st.DrawFn) -> RecordedEvent:
    kinds = set(EventKind) - {EventKind.RECORDER, EventKind.SET}
    value = draw(st.none() | INTEGERS | st.floats())
    return RecordedEvent(
        draw(st.sampled_from([0, 3])), draw(TEXTS), draw(TEXTS), draw(st.sampled_from(sorted(kinds))),
        draw(st.sampled_from([*VALUE_DTYPES])), draw(st.booleans()), draw(TEXTS), value,
        draw(TEXTS.filter(bool)) if value is None else "",
    )  # fmt: skip


@st.composite
def sets(draw: st.DrawFn) -> RecordedEvent:
    counts = sorted(draw(st.lists(st.integers(1, 2**32 - 1), max_size=5)), reverse=True)
    elements = tuple(EventElement(draw(st.binary(max_size=20)), draw(st.integers(0, 2**32 - 1)), n) for n in counts)
    return event(draw(TEXTS), draw(TEXTS), len(elements), EventKind.SET, type="bytes", elements=elements)


@st.composite
def samples(draw: st.DrawFn, events: tuple[RecordedEvent, ...]) -> EventSamples:
    process = draw(st.sampled_from([0, 3]))
    own = [number for number, one in enumerate(events) if one.process == process]
    chosen = draw(st.permutations(own))[: draw(st.integers(0, len(own)))]
    nodes = sorted(draw(st.sets(st.integers(0, NODES - 1), max_size=6)))
    num_samples = draw(st.integers(0, 8))

    def rising(width: int) -> Any:
        steps = of_numpy.arrays(np.int64, (num_samples, width), elements=st.integers(0, 2**50))
        return np.cumsum(draw(steps), axis=0)

    values = draw(of_numpy.arrays(np.float64, (num_samples, len(chosen))))
    numbers = (np.array(some, np.int64) for some in (chosen, nodes))
    return EventSamples(process, next(numbers), rising(1)[:, 0], values, next(numbers), rising(len(nodes)))


@st.composite
def all_events(draw: st.DrawFn) -> Events:
    events = tuple(draw(st.lists(recorders() | single_values() | sets(), max_size=8)))
    sampled = (draw(samples(events)),) if draw(st.booleans()) else ()
    return Events(events, sampled, draw(st.integers(0, 2**40)))


@given(all_events())
def test_round_trip(events: Events) -> None:
    assert same(written_and_read(events), events)


def test_round_trip_of_a_file(tmp_path: Path) -> None:
    for number, events in enumerate((NO_EVENTS, odd_events(), solver_events(CG=np.geomspace(1, 1e-9, 30)))):
        write_signature(signature_with(events), tmp_path / f"{number}.sig")
        assert same(read_signature(tmp_path / f"{number}.sig").events, events)


def test_a_recorder_larger_than_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_tables, "PART_VALUES", 7)
    rows = np.random.default_rng(1).integers(0, 256, (50, 3), np.uint8)
    events = Events(tuple(recorder("a", str(n), np.arange(float(n))) for n in range(30)))
    events = Events((*events.events, recorder("a", "rows", rows, "bytes", most=20)))
    assert same(written_and_read(events), events)


def test_recorders_of_many_processes_are_thinned_to_what_a_signature_may_have() -> None:
    events = [recorder("a", str(n), np.arange(1000.0), process=n) for n in range(3)]
    assert thinned(events, 3 * 8000) == tuple(events)
    found = thinned(events, 8000)
    assert [len(event.values.kept) for event in found if event.values is not None] == [333] * 3
    for one in found:
        assert one.values is not None
        assert one.values.kept.tolist() == one.values.kept_index.tolist()
        assert (one.value, one.values.kept_index[0], one.values.kept_index[-1]) == (1000, 0, 999)
        assert one.values.quantiles[500] == 499.5


@given(of_numpy.arrays(np.float64, st.integers(1, 300), elements=st.floats(-1e6, 1e6)), st.none() | st.integers(2, 40))
def test_quantiles_are_those_of_numpy_and_kept_values_are_spread(values: Any, most: int | None) -> None:
    found = record_values(values, most)
    assert found.quantiles == pytest.approx(np.quantile(values, np.linspace(0, 1, NUM_QUANTILES)), abs=1e-6)
    assert len(found.kept) == min(len(values), most or len(values))
    assert (found.kept_index[0], found.kept_index[-1]) == (0, len(values) - 1)
    assert found.kept.tolist() == values[found.kept_index].tolist()
    gaps = np.diff(found.kept_index)
    assert not len(gaps) or np.max(gaps) - np.min(gaps) <= 1


def test_quantiles_of_values_that_are_not_finite() -> None:
    found = record_values(np.array([np.nan, 3.0, np.inf, 1.0, 2.0, np.nan]))
    assert found.quantiles[[0, 333, 1000]].tolist() == [1, pytest.approx(1.999), np.inf]
    assert not len(record_values(np.array([np.nan])).quantiles)
    assert not len(record_values(np.zeros((3, 2), np.uint8)).quantiles)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("events") / "s.sig"
    events = solver_events(CG=np.geomspace(1, 1e-9, 30))
    sizes = event("CG", "sizes", 2, EventKind.SET, elements=(EventElement(b"x", 0, 5), EventElement(b"y", 0, 1)))
    raw = recorder("CG", "raw", np.zeros((4, 2), np.uint8), "bytes")
    write_signature(signature_with(dataclasses.replace(events, events=(*events.events, sizes, raw))), path)
    return path.read_bytes()


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE event_samples",
        "DELETE FROM events_lost",
        "INSERT INTO events_lost VALUES (1)",
        "UPDATE events_lost SET lost_bytes = -1",
        "UPDATE events_lost SET lost_bytes = 'all'",
        "UPDATE events SET process = 1",
        "UPDATE events SET event_id = 99 WHERE event_id = 1",
        "UPDATE events SET kind = 'explosion'",
        "UPDATE events SET kind = 'created'",
        "UPDATE events SET kind = 'recorder' WHERE event_id = 3",
        "UPDATE events SET type = 'quad'",
        "UPDATE events SET type = 'int' WHERE kind = 'recorder'",
        "UPDATE events SET is_instant = 2",
        "UPDATE events SET value = 'many'",
        "UPDATE events SET value = -1 WHERE kind = 'recorder'",
        "UPDATE events SET value = 3 WHERE kind = 'recorder'",
        "UPDATE events SET value = 29 WHERE kind = 'recorder'",
        "UPDATE events SET value = 30.0 WHERE kind = 'recorder'",
        "UPDATE events SET value = 1 WHERE kind = 'set'",
        "UPDATE events SET value = NULL WHERE kind = 'recorder'",
        "UPDATE events SET unread = 'why'",
        "UPDATE event_recorders SET kept = kept + 1",
        "UPDATE event_recorders SET kept = -1",
        "UPDATE event_recorders SET kept = 1 << 60",
        "UPDATE event_recorders SET kept = 'all'",
        "UPDATE event_recorders SET value_bytes = 8 WHERE value_bytes IS NULL",
        "UPDATE event_recorders SET value_bytes = 0",
        "UPDATE event_recorders SET value_bytes = 1 << 61, kept = 8",
        "UPDATE event_recorders SET value_bytes = NULL",
        "UPDATE event_recorders SET quantiles = x'00'",
        "UPDATE event_recorders SET quantiles = (SELECT sampled FROM event_samples)",
        "UPDATE event_recorders SET event_id = 99 WHERE event_id = 2",
        "UPDATE event_values SET event_id = 99",
        "UPDATE event_values SET part = 1",
        "UPDATE event_values SET steps = content",
        "UPDATE event_values SET content = 'text'",
        "DELETE FROM event_values",
        "INSERT INTO event_values SELECT * FROM event_values",
        "UPDATE event_elements SET event_id = 99",
        "UPDATE event_elements SET event_id = 0",
        "UPDATE event_elements SET count = 0",
        "UPDATE event_elements SET count = 6 WHERE count = 1",
        "UPDATE event_elements SET content = 'text'",
        "UPDATE event_elements SET type_id = 1.5",
        "UPDATE event_samples SET process = 1",
        "UPDATE event_samples SET samples = 12",
        "UPDATE event_samples SET samples = 257",
        "UPDATE event_samples SET events = -1",
        "UPDATE event_samples SET nodes = 3",
        "UPDATE event_samples SET position = sampled",
        "UPDATE event_samples SET event_id = x''",
        "UPDATE event_samples SET node_id = event_id",
        "UPDATE event_samples SET executions = position",
    ],
)
def test_impossible_events_are_refused(statement: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s.sig"
    path.write_bytes(content)
    change_signature(path, statement)
    with pytest.raises(SignatureError, match=r"trace the program again") as refused:
        read_signature(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def changed(field: str, change: Callable[[EventSamples], Any]) -> Callable[[EventSamples], EventSamples]:
    return lambda samples: dataclasses.replace(samples, **{field: change(samples)})


@pytest.mark.parametrize(
    "change",
    [
        changed("position", lambda s: s.position[::-1].copy()),
        changed("position", lambda s: s.position - 1),
        changed("events", lambda s: s.events * 0),
        changed("events", lambda s: s.events + 50),
        changed("nodes", lambda s: s.nodes[::-1].copy()),
        changed("nodes", lambda s: s.nodes + NODES),
        changed("executions", lambda s: s.executions[::-1].copy()),
        changed("process", lambda s: 3),
    ],
)
def test_impossible_samples_are_refused(change: Callable[[EventSamples], EventSamples]) -> None:
    events = solver_events(CG=np.geomspace(1, 1e-9, 30))
    written_and_read(events)
    with pytest.raises(ValueError, match=r"samples|sample"):
        written_and_read(Events(events.events, (change(events.samples[0]),)))


def test_samples_of_a_process_twice_or_too_many_are_refused() -> None:
    events = solver_events(CG=np.geomspace(1, 1e-9, 30))
    with pytest.raises(sqlite3.IntegrityError):
        written_and_read(Events(events.events, events.samples * 2))
    (one,) = events.samples
    rows = np.arange(MOST_SAMPLES + 1)
    many = EventSamples(0, one.events[:1], rows, rows[:, None] * 1.0, one.nodes[:0], np.zeros((len(rows), 0), np.int64))
    with pytest.raises(ValueError, match=r"event_samples\.samples has the value 257"):
        written_and_read(Events(events.events, (many,)))


def test_values_that_would_fill_the_memory_are_refused(content: bytes, tmp_path: Path) -> None:
    """A few bytes of zlib that say they are a gibibyte of values; each of several recorders alone would be allowed."""
    path = tmp_path / "s.sig"
    path.write_bytes(content)
    change_signature(path, "UPDATE event_recorders SET kept = 100000000, value_bytes = 8")
    with pytest.raises(SignatureError, match="impossible value"):
        read_signature(path)
