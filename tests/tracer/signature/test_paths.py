"""Paths: the chunks that the reader keeps, what is read from them, and how a signature keeps it."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from analysis_toy import BRANCH, LOAD, NOP, UPDATE, ToyEngine, ToyIsa
from changed_files import change_signature
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import trace_binary
from word_streams import FIRST_ACCESS, Execution, Stream, words_of

from foretrace.base.errors import SignatureError
from foretrace.tracer.analysis.machine_code._distances import distances
from foretrace.tracer.analysis.machine_code.paths import find_paths
from foretrace.tracer.reader.raw_paths import read_paths
from foretrace.tracer.reader.raw_trace import RawBlock, RawPath
from foretrace.tracer.signature import packed_arrays
from foretrace.tracer.signature.file import read_signature, write_signature
from foretrace.tracer.signature.records import Paths, Signature

SOURCE = """
int main(void)
{
    static volatile long cell[4096];
    for (int i = 0; i < 20011; i++)
        cell[i * 17 % 4096] += i;
    return 0;
}
"""


@pytest.fixture(scope="module")
def signature(compile_c: Callable[..., Path]) -> Signature:
    return trace_binary([str(compile_c(SOURCE, "-O1"))]).signature


# ---- chunks kept ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("num_chunks", "interval"), [(3, 1), (64, 1), (65, 2), (500, 8)])
def test_samples_are_spread_evenly(num_chunks: int, interval: int) -> None:
    stream = Stream()
    stream.describe_blocks([8])
    for number in range(num_chunks):
        stream.publish(words_of([(1, [(2, 3, 0x1000 + number)])]), number % 40)
        stream.read()
    samples = stream.reader.samples()
    assert [number for number, _, _ in samples] == list(range(0, num_chunks, interval))
    for number, _, words in samples:
        assert np.frombuffer(words, np.uint64).tolist() == words_of([(1, [(2, 3, 0x1000 + number)])])


def offered(phases: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Chunks kept of a stream of `phases` (block, chunks), each of a thousand executions: number and block."""
    stream = Stream()
    stream.describe_blocks([8] * max(block for block, _ in phases))
    ran = [block for block, num_chunks in phases for _ in range(num_chunks)]
    for number, block in enumerate(ran):
        stream.publish(words_of([(block, [])] * 1000), number % 40)
        stream.read()
    samples = stream.reader.samples()
    assert [number for number, _, _ in samples] == sorted({number for number, _, _ in samples})
    for number, _, words in samples:
        assert np.frombuffer(words, np.uint64).tolist() == words_of([(ran[number], [])] * 1000)
    return [(number, ran[number]) for number, _, _ in samples]


def test_a_phase_between_two_samples_is_kept() -> None:
    """Two chunks of 602, which are none of those spread evenly."""
    kept = offered([(1, 301), (2, 2), (1, 299)])
    spread = [(number, 1) for number in range(0, 602, 16)]
    assert kept == sorted([*spread, (301, 2)])


def test_a_phase_that_lost_its_samples_gets_another_one() -> None:
    """The second block ran when every chunk was kept, and again when it was in none of those that are left."""
    kept = offered([(1, 33), (2, 1), (1, 303), (2, 3), (1, 260)])
    assert [number for number, block in kept if block == 2] == [337]


def test_longer_phases_take_the_place_of_shorter_ones() -> None:
    """A hundred blocks with a chunk each, then one with six: no more than 32 are kept beside those spread evenly."""
    kept = offered([(1, 301), *((block, 1) for block in range(2, 102)), (102, 6), (1, 193)])
    spread = set(range(0, 600, 16))
    phases = [block for number, block in kept if number not in spread]
    assert len(phases) == 32
    assert 102 in phases


# ---- words to executions --------------------------------------------------------------------------------------------

BLOCKS = [RawBlock(n, 0x1000 * n, (1,) * 8, b"\1" * 8, first_access=FIRST_ACCESS) for n in (1, 2, 3)]
EXECUTIONS: list[Execution] = [(1, [(0, 3, 80)]), (2, [(0, 3, 96), (5, 2, 100)]), (3, []), (2, [(4, 3, 7)]), (1, [])]


def test_paths_have_what_their_words_say() -> None:
    words = words_of(EXECUTIONS)
    first, second = words[:3], words[3:]  # cut within an execution, in two chunks that follow on one another
    chunks = [np.array([1 << 51 | 5, *first], np.uint64).tobytes(), np.array(second, np.uint64).tobytes()]
    (path,) = read_paths([(4, 0, chunks[0]), (5, 0, chunks[1])], BLOCKS)
    expected = EXECUTIONS[:-1]  # the last may go on
    assert path.blocks.tolist() == [block for block, _ in expected]
    accesses = [(n, slot, address) for n, (_, made) in enumerate(expected) for slot, _, address in made]
    assert list(zip(path.execution.tolist(), path.slot.tolist(), path.address.tolist(), strict=True)) == accesses


def test_other_threads_and_gaps_make_other_paths() -> None:
    words = np.array(words_of(EXECUTIONS), np.uint64).tobytes()
    assert len(read_paths([(0, 0, words), (1, 1, words), (4, 1, words), (5, 1, words)], BLOCKS)) == 3


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=30))
def test_any_words_are_taken_or_left(words: list[int]) -> None:
    for path in read_paths([(0, 0, np.array(words, np.uint64).tobytes())], BLOCKS):
        assert set(path.blocks.tolist()) <= {1, 2, 3}
        assert np.all((path.execution >= 0) & (path.execution < len(path.blocks)))


# ---- distances ------------------------------------------------------------------------------------------------------


Part = tuple[int, int, bool, int]
"""Of an access: address, bytes, whether it is stored, and its time."""


def plain_distances(parts: list[Part], num_times: int) -> tuple[list[int], list[int]]:
    """By a plain search: how long ago the last store was to any byte of an access, and the last access to its line."""
    cell = max(size for _, size, *_ in parts)
    while any(size < cell for _, size, *_ in parts):
        cell //= 2
    cells = [set(range(address // cell, (address + size - 1) // cell + 1)) for address, size, *_ in parts]
    stores, lines = [0] * num_times, [1] * num_times
    for at, (address, _, _, time) in enumerate(parts):
        ago = [
            time - before
            for i, (_, _, is_store, before) in enumerate(parts[:at])
            if is_store and before < time and cells[i] & cells[at]
        ]
        stores[time] = min([d for d in (*ago, stores[time]) if 0 < d < 1 << 16], default=0)
        if at == 0 or parts[at - 1][3] < time:
            same = [p[3] for i, p in enumerate(parts[:at]) if p[0] >> 6 == address >> 6 and is_first(parts, i)]
            lines[time] = time - same[-1] if same and time - same[-1] < 1 << 16 else 0
    return stores, lines


def is_first(parts: list[Part], i: int) -> bool:
    return i == 0 or parts[i - 1][3] < parts[i][3]


def found_distances(parts: list[Part], num_times: int) -> tuple[list[int], list[int]]:
    addresses, sizes, is_store, times = ([part[i] for part in parts] for i in range(4))
    stores, lines = np.zeros(num_times, np.uint16), np.ones(num_times, np.uint16)
    distances(
        np.array(addresses, np.uint64), np.array(sizes, np.uint8), np.array(is_store, bool),
        np.array(times, np.int64), stores, lines,
    )  # fmt: skip
    return stores.tolist(), lines.tolist()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 80), st.sampled_from([1, 2, 4, 8]), st.booleans(), st.sampled_from([0, 1, 1, 3, 40000])
        ),
        max_size=40,
    ),
    st.sampled_from([1, 2, 4]),
)
def test_distances_match_a_plain_search(rows: list[tuple[int, int, bool, int]], narrowest: int) -> None:
    """Neighbours in an array of small elements are not one place, whatever word they lie in."""
    parts, time = [], 0
    for address, size, is_store, later in rows:
        time += later
        is_store = parts[-1][2] if parts and later == 0 else is_store  # parts of one access
        parts.append((address, max(size, narrowest), is_store, time))
    if parts:
        assert found_distances(parts, time + 2) == plain_distances(parts, time + 2)


def test_parts_of_an_access_do_not_see_each_other() -> None:
    assert found_distances([(0, 8, True, 0), (4, 8, True, 0), (8, 4, False, 5)], 6)[0] == [0, 0, 0, 0, 0, 5]


@pytest.mark.parametrize(
    "part", [(0, 0, False, 0), (0, 9, False, 0), (0, 8, False, 4), (0, 8, False, -1), (2**64 - 1, 8, False, 0)]
)
def test_impossible_parts_are_refused(part: Part) -> None:
    with pytest.raises(ValueError, match=r"part|times"):
        found_distances([part], 4)


@settings(max_examples=examples(30))
@given(st.integers(0, 1 << 30), st.integers(1, 6))
def test_basic_blocks_of_a_path_are_those_that_ran(seed: int, limit: int) -> None:
    """Whatever blocks an engine makes of a program: the path in basic blocks runs the same instructions."""
    from foretrace.tracer.analysis.machine_code.basic_blocks import find_basic_blocks

    rng = random.Random(seed)
    program = [(LOAD, 0), (NOP, 0), (UPDATE, 0), (BRANCH, 1), (LOAD, 0), (NOP, 0), (BRANCH, 0), (NOP, 0)]
    engine = ToyEngine(program, page=5, limit=limit)
    ran: list[int] = []
    translate = engine._translate
    engine._translate = lambda at: ran.append(translate(at)) or ran[-1]  # type: ignore[method-assign, func-returns-value]
    raw = engine.run(lambda _: rng.random() < 0.5, 60)
    blocks = find_basic_blocks(raw, ToyIsa())
    paths = find_paths(
        [RawPath(np.array(ran), *(np.zeros(0, k) for k in (np.int64, np.int64, np.uint64)))], blocks, ToyIsa()
    )
    instructions = [number for block in ran for number in range(*engine.spans[block - 1])]
    found = [int(blocks.addresses[i]) // 4 for block in paths.blocks.tolist() for i in blocks.instructions(block)]
    assert found[: len(instructions)] == instructions
    assert len(found) - len(instructions) < max(len(blocks.instructions(b)) for b in paths.blocks.tolist())


# ---- of a real program ----------------------------------------------------------------------------------------------


def test_a_programs_paths_tell_its_loop(signature: Signature) -> None:
    paths = signature.paths
    (load, store) = (op for op in signature.operations if op.executions >= 20011 - 1)
    block = load.block_id
    assert (load.is_store, store.is_store, store.block_id) == (False, True, block)
    users = [
        one for one in paths.instructions[block] if one.load_operation is not None or one.store_operation is not None
    ]
    assert {one.load_operation for one in users} | {one.store_operation for one in users} >= {load.operation_id}
    assert all(one.addresses for one in users)
    per_block = np.bincount([op.block_id for op in signature.operations], minlength=len(signature.blocks))
    slots = np.cumsum(per_block[paths.blocks]) - per_block[paths.blocks]
    executed = slots[paths.blocks == block]
    assert len(executed) > 5000
    # Each cell is touched again 4096 iterations later; each iteration is a load and a store, in this order.
    loads, stores = (Counter(paths.store_distances[executed + n].tolist()) for n in (0, 1))
    assert set(loads) == {0, 2 * 4096 - 1}
    assert set(stores) == {0, 2 * 4096}
    assert loads[0] <= 4096 + 10 <= len(executed) / 1.2
    lines = Counter(paths.line_distances[executed + 1].tolist())
    assert set(lines) == {1}, "a store finds the line that its load has just touched"


def test_paths_survive_the_file(signature: Signature, tmp_path: Path) -> None:
    write_signature(signature, tmp_path / "a.sig")
    found = read_signature(tmp_path / "a.sig").paths
    for name in ("starts", "blocks", "store_distances", "line_distances"):
        assert np.array_equal(getattr(found, name), getattr(signature.paths, name)), name
    assert found.instructions == signature.paths.instructions


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE paths SET executions = executions + 1 WHERE path_id = 0",
        "UPDATE paths SET executions = -1",
        "UPDATE paths SET blocks = x'00'",
        "UPDATE paths SET blocks = 'text'",
        "UPDATE paths SET path_id = path_id + 1",
        "DELETE FROM instructions",
        "DELETE FROM instruction_forms",
        "UPDATE instruction_forms SET kind = 'magic'",
        "UPDATE instruction_forms SET lanes = -1 WHERE form_id = 0",
        "UPDATE instructions SET forms = x'ffffffff'",
        "UPDATE instructions SET forms = x'00'",
        "UPDATE instructions SET forms = x''",
        "UPDATE instructions SET forms = '0000'",
        "UPDATE instructions SET load_operations = store_operations",
        "UPDATE instructions SET load_operations = replace(hex(load_operations), 'FF', '7F')",
        "UPDATE instructions SET block_id = block_id + 1 WHERE block_id = (SELECT max(block_id) FROM instructions)",
    ],
)
def test_damaged_paths_are_refused(statement: str, signature: Signature, tmp_path: Path) -> None:
    write_signature(signature, tmp_path / "a.sig")
    change_signature(tmp_path / "a.sig", statement)
    with pytest.raises(SignatureError, match="trace the program again"):
        read_signature(tmp_path / "a.sig")


def test_a_path_that_unpacks_without_end_is_refused(signature: Signature, tmp_path: Path) -> None:
    write_signature(signature, tmp_path / "a.sig")
    change_signature(tmp_path / "a.sig", ("UPDATE paths SET line_distances = ?", (zlib.compress(bytes(1 << 28)),)))
    with pytest.raises(SignatureError, match="longer or shorter"):
        read_signature(tmp_path / "a.sig")


def test_more_arrays_than_a_signature_may_hold_are_refused(
    signature: Signature, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each path within its bounds, and all of them not."""
    write_signature(signature, tmp_path / "a.sig")
    paths, accesses = signature.paths, 4 * len(signature.paths.store_distances)
    monkeypatch.setattr(packed_arrays, "MAX_SIGNATURE_BYTES", 4 * len(paths.blocks) + accesses - 1)
    with pytest.raises(SignatureError, match="its arrays take more than 0 MiB"):
        read_signature(tmp_path / "a.sig")
    monkeypatch.undo()
    assert len(read_signature(tmp_path / "a.sig").paths.blocks) == len(paths.blocks)


def test_paths_of_nothing_are_empty() -> None:
    assert isinstance(read_paths([], BLOCKS), tuple)
    assert len(Paths(*(np.zeros(n, np.int64) for n in (1, 0, 0, 0)), {}).blocks) == 0
