"""Events of Python programs."""

from __future__ import annotations

import threading
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from foretrace import events
from foretrace.events import EventsError

_numbers = count()


@pytest.fixture
def library() -> events.Library:
    """A library of its own for each test: the registry is the process's."""
    return events.Library(f"tests of Python {next(_numbers)}")


def read(library: events.Library, name: str) -> float:
    full_name = f"{library.name}::{name}"
    with events.reading(full_name) as found:
        pass
    return found[full_name]


def test_a_counter_counts_from_the_start_of_reading(library: events.Library) -> None:
    counter = library.counter("counter")
    counter.increment(5)
    with events.reading(counter.name) as found:
        counter.increment()
        counter.increment(by=3)
    assert found == {counter.name: 4}


def test_instant_counters_have_their_value(library: events.Library) -> None:
    counter = library.counter("counter", instant=True)
    counter.increment(5)
    assert read(library, "counter") == 5
    counter.reset()
    assert read(library, "counter") == 0


def test_threads_count_together(library: events.Library) -> None:
    counter = library.counter("counter", instant=True)

    def work() -> None:
        for _ in range(1000):
            counter.increment()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(library, "counter") == 8000


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "i8", "S7", [("row", "i4"), ("name", "S5")]])
def test_a_recorder_keeps_values(library: events.Library, dtype: str) -> None:
    recorder = library.recorder("recorder", dtype)
    values = np.zeros(2000, dtype)
    values[1::2] = np.array([(7, b"xyz") if isinstance(dtype, list) else b"7" if dtype == "S7" else 7], dtype)[0]
    for value in values:
        recorder.record(value)
    assert np.array_equal(recorder.values(), values)
    assert read(library, "recorder:CNT") == 2000
    recorder.reset()
    assert len(recorder.values()) == 0


def test_a_watched_function_is_called_when_it_is_read(library: events.Library) -> None:
    values = iter((3, 9))
    library.watch("whole", lambda: next(values))
    library.watch("real", lambda: 2.5, kind=float)
    assert read(library, "real") == 2.5
    assert [read(library, "whole") for _ in range(2)] == [3, 9]


def test_a_watched_function_that_fails_reads_as_0(library: events.Library, capfd: pytest.CaptureFixture[str]) -> None:
    library.watch("text", lambda: "text")  # type: ignore[arg-type, return-value]
    library.watch("large", lambda: 1 << 64)
    library.watch("none", lambda: 1 / 0, kind=float)
    assert [read(library, name) for name in ("text", "text", "large", "none")] == [0, 0, 0, 0]
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[2] == f"foretrace events: {library.name}::none reads as 0: ZeroDivisionError: division by zero"


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4"])
def test_the_quartiles_of_a_recorder_are_numbers(library: events.Library, dtype: str) -> None:
    recorder = library.recorder("recorder", dtype)
    names = [f"{recorder.name}:{ending}" for ending in ("MIN", "MED", "MAX", "CNT")]
    with events.reading(*names) as empty:
        pass
    assert np.isnan([empty[name] for name in names[:3]]).all()
    for value in (5, -1, 3, 2, 4):
        recorder.record(value)
    with events.reading(*names) as found:
        pass
    assert list(found.values()) == [-1, 3, 5, 5]


def test_values_are_read_while_threads_record(library: events.Library) -> None:
    recorder = library.recorder("recorder", "i8")
    ended = threading.Event()

    def work() -> None:
        number = 0
        while not ended.is_set():
            recorder.record(number)
            number += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        found = [recorder.values() for _ in range(300)]
    finally:
        ended.set()
        thread.join()
    for values in (*found, recorder.values()):
        assert np.array_equal(values, np.arange(len(values)))
    assert len(recorder.values()) > 0


def test_groups_and_sets(library: events.Library) -> None:
    for name, value in (("a", 3), ("b", 4)):
        library.counter(name, instant=True).increment(value)
    library.group("sum", ["a", "b"])
    library.group("most", ["a", "b"], "max")
    assert (read(library, "sum"), read(library, "most")) == (7, 4)
    tiles = library.counting_set("tiles")
    for tile in (b"ab", b"ab", b"c"):
        tiles.insert(tile)
    tiles.remove(b"ab")
    assert tiles.counts() == {b"ab": 1, b"c": 1}


def test_a_decorated_function_is_counted(library: events.Library) -> None:
    @library.counted
    def half(number: int) -> float:
        return number / 2

    name = half.__qualname__
    with events.reading(f"{library.name}::{name}.calls") as found:
        assert [half(number) for number in (2, 4)] == [1, 2]
    assert list(found.values()) == [2]
    assert read(library, f"{name}.seconds:CNT") == 2


def test_what_cannot_be_is_one_line(library: events.Library) -> None:
    counter = library.counter("counter")
    recorder, tiles, other = library.recorder("recorder", "i4"), library.counting_set("tiles"), library.counter("other")
    library.remove("counter")
    refused = (
        (lambda: counter.increment(), "has ended"),
        (lambda: library.remove("absent"), "no such event"),
        (lambda: library.counter("recorder"), "another kind of event has that name"),
        (lambda: library.recorder("recorder", "f8"), "values of another size"),
        (lambda: library.recorder("recorder", "f4"), "records int32, not float32"),
        (lambda: library.recorder("new", "nosuch"), "not understood"),
        (lambda: library.watch("new", 3), "3 cannot be called"),  # type: ignore[arg-type]
        (lambda: other.increment(1 << 63), "out of the range"),
        (lambda: recorder.record(1 << 31), "is no int32"),
        (lambda: recorder.record(1.5), "is no int32"),
        (lambda: recorder.record(None), "is no int32"),
        (lambda: library.recorder("narrow", "f4").record(1e300), "is no float32"),
        (lambda: library.recorder("text", "S3").record("abcd"), "longer"),
        (lambda: tiles.insert("abc"), "bytes"),  # type: ignore[arg-type]
        (lambda: tiles.insert(b"abc", -1), "the type -1"),
        (lambda: library.group("group", ["other"], "mean"), "none of sum, max, min"),  # type: ignore[arg-type]
        (lambda: library.group("group", "other"), "list of names"),
        (lambda: events.reading(recorder.name).__enter__(), "no single value"),
        (lambda: events.reading(tiles.name).__enter__(), "no single value"),
        (lambda: library.recorder("objects", object), "no fixed size"),
        (lambda: recorder.record("text"), "is no int32"),
        (lambda: library.recorder("pair", "S2").record([b"a", b"b"]), "one value"),
        (lambda: library.group("group", ["absent"]), "absent in the group"),
        (lambda: library.counter("a\0b"), "no NUL"),
        (lambda: events.reading("no separator").__enter__(), "library::event"),
    )
    for call, message in refused:
        with pytest.raises(EventsError, match=message):
            call()


def test_the_example_of_the_module_prints_what_it_says(tmp_path: Path) -> None:
    assert events.__doc__ is not None
    code = events.__doc__.split("```python\n")[1].split("```")[0]
    said = code.rstrip().rpartition("# ")[2]
    printed: list[str] = []
    exec(code, {"print": lambda *values: printed.append(" ".join(map(str, values)))})
    assert printed == [said]
