"""Events of Python programs."""

from __future__ import annotations

import threading
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from foretrace import events
from foretrace.errors import EventsError

_numbers = count()


@pytest.fixture
def library() -> events.Library:
    """A library of its own for each test: the registry is the process's."""
    return events.Library(f"tests of Python {next(_numbers)}")


def read(library: events.Library, name: str) -> int:
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
    with events.reading(f"{library.name}::real") as found:
        pass
    assert np.int64(found[f"{library.name}::real"]).view(np.float64) == 2.5
    assert [read(library, "whole") for _ in range(2)] == [3, 9]


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
    recorder = library.recorder("recorder", "i4")
    library.remove("counter")
    refused = (
        (lambda: counter.increment(), "has ended"),
        (lambda: library.remove("absent"), "an argument is wrong"),
        (lambda: library.counter("recorder"), "an argument is wrong"),
        (lambda: library.recorder("objects", object), "no fixed size"),
        (lambda: recorder.record("text"), "is no int32"),
        (lambda: recorder.record([1, 2]), "one value at a time"),
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
