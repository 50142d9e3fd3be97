"""A small share of what `make fuzz` does, and Hypothesis on the same checks."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from effort import examples
from fuzz_streams import FOREIGN, SMALL, Check, fuzz, read_foreign, read_frame
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_samples import entry

from foretrace.base.errors import TraceFileError
from foretrace.tracer.stored.simulate import simulate_stream


@pytest.mark.parametrize("seed", [1, 2])
def test_random_mistakes_are_read_or_refused(seed: int) -> None:
    assert fuzz(20_000, seed) >= 19_000


LINES = st.lists(
    st.one_of(
        st.from_regex(rb"(I  | [LSM] )[0-9a-f]{1,17},[0-9]{1,6}", fullmatch=True),
        st.from_regex(rb"[0-9a-z] (0x)?[0-9a-f]{1,17}( [0-9a-f]{1,6})?", fullmatch=True),
        st.binary(max_size=40),
        st.binary(min_size=200, max_size=400),
    )
)
ENTRIES = st.lists(st.builds(entry, st.integers(0, 55), st.integers(0, 2**16 - 1), st.integers(0, 2**64 - 1)))


@settings(max_examples=examples(100))
@given(lines=LINES, number=st.sampled_from([FOREIGN["lackey"][0], FOREIGN["din"][0]]))
def test_lines(lines: list[bytes], number: int) -> None:
    read_foreign(number, b"\n".join(lines), Check(), random.Random(0))


@settings(max_examples=examples(100))
@given(entries=ENTRIES)
def test_entries(entries: list[bytes]) -> None:
    read_foreign(FOREIGN["drmemtrace"][0], entry(25, 0, 7) + b"".join(entries), Check(), random.Random(0))


@settings(max_examples=examples(100))
@given(
    head=st.tuples(*[st.integers(0, 2**32 - 1) | st.integers(0, 9)] * 3),
    rest=st.binary(max_size=300),
)  # fmt: skip
def test_frames(head: tuple[int, int, int], rest: bytes) -> None:
    read_frame(b"".join(number.to_bytes(4, "little") for number in head) + rest, Check(), random.Random(0))


@settings(max_examples=examples(100))
@given(data=st.binary(max_size=400))
def test_any_bytes_as_a_file(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "trace").write_bytes(data)
    try:
        found = simulate_stream(tmp_path / "trace", [SMALL])
    except TraceFileError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert found.loads + found.stores > 0
