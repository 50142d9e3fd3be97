"""Stored streams: what goes in comes out, and a stream that is damaged or not whole says so."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from polling import wait_until
from stored_samples import DOCS, documented_reader
from traces import trace_binary, trace_python

from foretrace.base.errors import OutputError, TraceFileError
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.simulator import Simulator
from foretrace.cli import VERBS
from foretrace.tracer import kept_stream
from foretrace.tracer.signature.records import Signature
from foretrace.tracer.stored.simulate import SimulatedStream, simulate_stream
from foretrace.tracer.stored.stored_stream import Head, Place, StreamWriter

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SMALL = Hierarchy.parse("L1=256/2/32,L2=1K/4/64")
ROOT = Path(__file__).parents[3]


def write(path: Path, columns: list[tuple[int, int, int, int]], **options: object) -> Simulator:
    """Store accesses (address, size, operation, is store); the simulator behind the writer."""
    simulator = Simulator([SMALL])
    with StreamWriter(path, force=True) as writer:
        feed(writer.sink(simulator.sink, Head(source="test")), columns)
        operations = 1 + max((operation for _, _, operation, _ in columns), default=-1)
        writer.commit([Place(is_store=False)] * operations, **options)  # type: ignore[arg-type]
    return simulator


def feed(sink: object, columns: list[tuple[int, int, int, int]]) -> None:
    """Push accesses into a sink through the reader of another stored stream, which is built by hand here."""
    from foretrace.tracer.stored import _streams

    reader = _streams.FrameReader(sink)
    for begin in range(0, len(columns), 1000):
        part = columns[begin : begin + 1000]
        kinds = b"".join(struct.pack("<QIIHH", address, op, 0, size, store) for address, size, op, store in part)
        records = b"".join(struct.pack("<HHQ", i, 0, 0) for i in range(len(part)))
        planes = b"".join(records[i::12] for i in range(12))
        reader.begin(struct.pack("<III", len(part), len(part), len(part)) + kinds + planes)
        while reader.step(300):
            pass


def documented(path: Path) -> list[tuple[int, int, int, int]]:
    """(address, size, operation, is store), as the documented reader finds them."""
    return [(a, size, op, flags) for a, op, _, size, flags in documented_reader()["accesses"](path)]


COLUMNS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 4000), st.integers(0, 2**64 - 70000)),
        st.sampled_from([1, 4, 8, 8, 8, 65535]),
        st.integers(0, 5),
        st.integers(0, 1),
    ),
    max_size=60,
)  # fmt: skip


@st.composite
def looping(draw: st.DrawFn) -> list[tuple[int, int, int, int]]:
    """Loops with strides, between arbitrary accesses."""
    columns = draw(COLUMNS)
    for _ in range(draw(st.integers(0, 3))):
        body = draw(
            st.lists(st.tuples(st.integers(10**6, 2 * 10**6), st.integers(-64, 64), st.integers(0, 5)), max_size=4)
        )
        for i in range(draw(st.integers(0, 60))):
            columns += [(base + i * stride, 8, operation, 0) for base, stride, operation in body]
        columns += draw(COLUMNS)
    return columns


@settings(max_examples=examples(150))
@given(columns=looping())
def test_what_goes_in_comes_out(columns: list[tuple[int, int, int, int]], tmp_path: Path) -> None:
    path = tmp_path / "stream"
    passed_on = write(path, columns)
    assert documented(path) == columns
    found = simulate_stream(path, [SMALL])
    assert found.loads + found.stores == len(columns)
    check_same(found.simulator, passed_on)


def check_same(found: Simulator, expected: Simulator) -> None:
    """Every counter, of every operation."""
    expected.reserve(found.num_operations)
    ours, theirs = found.statistics(), expected.statistics()
    for name in theirs.__dataclass_fields__:
        assert getattr(ours, name).tolist() == getattr(theirs, name).tolist(), name
    for one, other in zip(found.simulated(), expected.simulated(), strict=True):
        assert one.misses.tolist() == other.misses.tolist()
    reuse, twin = found.reuse(), expected.reuse()
    assert reuse is not None
    assert twin is not None
    assert reuse.count.tolist() == twin.count.tolist()
    assert reuse.operation.tolist() == twin.operation.tolist()


def test_long_runs_and_full_frames(tmp_path: Path) -> None:
    """More records than a frame has, runs longer than a record's, and random addresses, which are not compressed."""
    random = np.random.default_rng(3)
    scattered = random.integers(0, 2**40, 150_000).tolist()
    columns = [(address, 8, 0, 0) for address in scattered] + [(8 * i, 8, 1, 1) for i in range(150_000)]
    path = tmp_path / "stream"
    passed_on = write(path, columns)
    assert documented(path) == columns
    assert 5 * 150_000 < path.stat().st_size < 6 * 150_000
    check_same(simulate_stream(path, [SMALL]).simulator, passed_on)


# ---- traced programs ------------------------------------------------------------------------------------------------

THREADS = """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static double sum[4];
static void *work(void *argument)
{
    long me = (long)argument;
    double *values = calloc(3000, sizeof *values);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 3000; i++)
            values[(i * 7 + me) % 3000] += i;
    for (int i = 0; i < 3000; i++)
        sum[me] += values[i];
    return NULL;
}
int main(void)
{
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return sum[0] + sum[3] < 0;
}
"""


def check_signature(found: SimulatedStream, signature: Signature) -> None:
    """The stream, simulated again, has the counters of the run it was kept from."""
    operation_map = [place.operation for place in found.places]
    count = len(signature.operations)
    statistics = found.simulator.statistics().merged(operation_map, count)
    for name in (
        "executions",
        "total_bytes",
        "first",
        "last_exclusive",
        "repeated",
        "unit_stride",
        "strided",
        "irregular",
    ):
        assert getattr(statistics, name).tolist() == [getattr(op, name) for op in signature.operations], name
    (simulated,), (expected,) = found.simulator.simulated(), signature.hierarchies
    assert simulated.merged(operation_map, count).misses.tolist() == expected.misses.tolist()
    reuse, twin = found.simulator.reuse(), signature.reuse
    assert reuse is not None
    assert twin is not None
    assert reuse.merged(operation_map, count).count.tolist() == twin.count.tolist()
    for operation, place in enumerate(found.places):
        original = signature.operations[operation_map[operation] or 0]
        assert (place.offset, place.file, place.line, place.is_store) == (
            original.offset, original.file, original.line, original.is_store,
        )  # fmt: skip
    assert found.instructions == signature.totals.instructions
    assert (found.loads, found.stores) == (signature.totals.loads, signature.totals.stores)


def test_a_kept_stream_has_the_counters_of_its_run(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    program = compile_c(THREADS, "-O1")
    with StreamWriter(tmp_path / "stream") as keep:
        traced = trace_binary([str(program)], keep=keep)
        kept_stream.commit(keep, traced)
    found = simulate_stream(tmp_path / "stream")
    check_signature(found, traced.signature)
    assert found.command == (str(program),)
    assert "work" in {loop.function for loop in found.loops}
    assert len({thread for _, _, thread, _, _ in documented_reader()["accesses"](tmp_path / "stream")}) > 1


def test_a_python_program_leaves_a_stream_as_well(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import numpy as np\na = np.arange(5000.0)\nb = a[::3] * 2\nc = a[[4, 2, 4999]]\n")
    with StreamWriter(tmp_path / "stream") as keep:
        traced = trace_python(str(script), keep=keep)
        kept_stream.commit(keep, traced)
    assert traced.ending.exit_code == 0
    check_signature(simulate_stream(tmp_path / "stream"), traced.signature)


def test_the_commands(foretrace: Run, compile_c: Callable[..., Path], tmp_path: Path) -> None:
    program, stream, signature = compile_c(THREADS, "-O1"), tmp_path / "x.fts", tmp_path / "x.sig"
    caches = ("--hierarchy", "L1=4K/2/64,L2=16K/4/64")
    assert foretrace("trace", "-o", signature, "--keep-stream", stream, *caches, "--", program).returncode == 0
    found = json.loads(foretrace("simulate", stream, *caches, "--json").stdout)
    info = json.loads(foretrace("info", signature, "--json").stdout)
    assert found["hierarchies"] == info["hierarchies"]
    assert {key: info["totals"][key] for key in found["totals"]} == found["totals"]
    (work,) = [loop for loop in found["loops"] if loop["function"] == "work" and loop["executions"] > 60_000]
    assert work["file"].endswith(".c")
    text = foretrace("simulate", stream, *caches).stdout
    assert "loops by misses of L2" in text
    assert f"work {program.name}.c:" in text
    refused = foretrace("trace", "-o", signature, "--force", "--keep-stream", tmp_path / "no" / "x", "--", program)
    assert (refused.returncode, refused.stdout) == (75, "")


def test_many_targets_in_one_run_have_the_misses_of_each_alone(
    foretrace: Run, compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    stream, signature = tmp_path / "x.fts", tmp_path / "x.sig"
    targets = [
        ("--machine", "epyc-9654"), ("--hierarchy", "L1=4K/2/64/plru,L2=16K/4/64"), ("--machine", "bluegene-p"),
    ]  # fmt: skip
    together = [option for target in targets for option in target]
    command = ("trace", "-o", signature, "--keep-stream", stream, *together, "--", compile_c(THREADS, "-O1"))
    assert foretrace(*command).returncode == 0
    found = json.loads(foretrace("info", signature, "--json").stdout)["hierarchies"]
    alone = [json.loads(foretrace("simulate", stream, *target, "--json").stdout)["hierarchies"] for target in targets]
    assert sorted(found, key=str) == sorted((hierarchy for [hierarchy] in alone), key=str)
    assert len({hierarchy["levels"][0]["misses"] for hierarchy in found}) == 3
    refused = foretrace("trace", "-o", tmp_path / "y.sig", "--machine", "epyc-9645", "--", "ls")
    assert (refused.returncode, refused.stdout) == (74, "")
    assert "did you mean 'epyc-9654'" in refused.stderr


def test_full_disk(foretrace: Run, compile_c: Callable[..., Path], tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small], capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    program = compile_c(THREADS, "-O1")
    try:
        result = foretrace("trace", "-o", tmp_path / "x.sig", "--keep-stream", small / "x.fts", "--", program)
        assert result.returncode == 75
        assert "x.fts: cannot be written: No space left" in result.stderr
        assert list(small.iterdir()) == []
        assert foretrace("info", tmp_path / "x.sig").returncode == 0  # the run itself is not lost
    finally:
        subprocess.run(["umount", small], check=True)


def half_written(pid: int, directory: Path) -> Path | None:
    """What a process has open in a directory, once it has something in it."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if descriptor.readlink().is_relative_to(directory) and descriptor.stat().st_size > 4096:
                return descriptor
        except OSError:  # closed meanwhile
            pass
    return None


def test_a_killed_foretrace_leaves_no_stream_that_looks_whole(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    program = compile_c("int main(void) { volatile int a[999]; for (unsigned i = 0;; i++) a[i * 7 % 999]++; }", "-O1")
    directory, rest = tmp_path / "here", tmp_path / "rest"
    directory.mkdir()
    stream = directory / "x.fts"
    command = [sys.executable, "-P", "-m", "foretrace", "trace", "-o", directory / "x.sig", "--keep-stream", stream]
    with subprocess.Popen([*map(str, command), "--", str(program)], start_new_session=True) as process:
        wait_until(lambda: half_written(process.pid, directory))
        descriptor = half_written(process.pid, directory)
        assert descriptor is not None
        rest.write_bytes(descriptor.read_bytes())
        process.kill()
        process.wait()
        os.killpg(process.pid, signal.SIGKILL)
    assert not stream.exists()
    with pytest.raises(TraceFileError, match="breaks off at byte"):
        simulate_stream(rest, [SMALL])


# ---- damage ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sample") / "stream"
    write(path, [(i * i % 5000, 8, i % 3, i % 2) for i in range(3000)])
    return path.read_bytes()


def test_a_stream_cut_anywhere_is_refused_with_the_place(sample: bytes, tmp_path: Path) -> None:
    path = tmp_path / "stream"
    for end in {*range(8, len(sample), 97), len(sample) - 1}:
        path.write_bytes(sample[:end])
        with pytest.raises(TraceFileError, match=rf"breaks off at byte {end}\b"):
            simulate_stream(path, [SMALL])


def test_a_stream_with_any_byte_changed_is_refused(sample: bytes, tmp_path: Path) -> None:
    path = tmp_path / "stream"
    for position in range(0, len(sample), max(1, len(sample) // 150)):
        damaged = bytearray(sample)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(TraceFileError):
            simulate_stream(path, [SMALL])


def frame(tag: bytes, content: bytes, raw_bytes: int | None = None) -> bytes:
    core = zlib.compressobj(1, zlib.DEFLATED, -15)
    stored = core.compress(content) + core.flush()
    return struct.pack("<4sIII", tag, len(stored), raw_bytes or len(content), zlib.crc32(stored)) + stored


HEAD = b"FTSTORE1" + frame(b"HEAD", b'{"format":"foretrace.stream/1","foretrace_version":"0","source":"x"}')
DONE = frame(b"DONE", b'{"accesses":1,"complete":true}')
KIND = struct.pack("<QIIHH", 64, 0, 0, 8, 0)


def accesses(kinds: int, records: int, count: int, rest: bytes) -> bytes:
    return frame(b"ACCS", struct.pack("<III", kinds, records, count) + rest)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"FTSTORE2" + HEAD[8:], "version"),
        (HEAD + frame(b"WHAT", b"x"), "unknown kind"),
        (HEAD + DONE, "does not hold as many accesses"),
        (HEAD + accesses(1, 1, 1, KIND) + DONE + b"x", "goes on after its end"),
        (HEAD + frame(b"DONE", b"{}"), "missing required field"),
        (HEAD + frame(b"DONE", b"[" * 5000), "not as it should be"),
        (HEAD + frame(b"OPER", b'{"first":1,"operations":[]}'), "out of order"),
        (HEAD + accesses(0, 1, 1, b""), "impossible counts"),
        (HEAD + accesses(1, 2**31, 2**31, KIND), "impossible counts"),
        (HEAD + accesses(1, 1, 2**25, KIND), "impossible counts"),
        (HEAD + accesses(1, 1, 1, KIND + bytes(13)), "length does not fit"),
        (HEAD + accesses(1, 1, 1, KIND + b"\1"), "kind that does not exist"),
        (HEAD + accesses(1, 1, 2, KIND), "fewer accesses"),
        (HEAD + accesses(1, 1, 1, KIND + b"\0\0\1"), "more accesses"),
        (HEAD + accesses(1, 1, 1, struct.pack("<QIIHH", 64, 2**31, 0, 8, 0)), "number beyond"),
        (HEAD + accesses(1, 1, 1, struct.pack("<QIIHH", 64, 0, 2**31, 8, 0)), "thread with a number beyond"),
        (HEAD + accesses(1, 1, 1, struct.pack("<QIIHH", 64, 0, 0, 0, 0)), "without a size"),
        (HEAD + accesses(1, 1, 1, struct.pack("<QIIHH", 64, 0, 0, 8, 4)), "unknown flags"),
        (HEAD + accesses(1, 1, 1, struct.pack("<QIIHH", 2**64 - 4, 0, 0, 8, 0)), "end of the address space"),
        (HEAD + frame(b"ACCS", bytes(1 << 20), raw_bytes=100), "not as long as it says"),
        (HEAD + struct.pack("<4sIII", b"ACCS", 2**32 - 1, 1, 0), "impossible length"),
    ],
)
def test_impossible_frames_are_refused(data: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "stream"
    path.write_bytes(data)
    with pytest.raises(TraceFileError, match=words) as error:
        simulate_stream(path, [SMALL])
    assert "version" in words or re.search(r"at byte \d+", str(error.value))


def test_a_stream_of_an_incomplete_run_says_so(tmp_path: Path) -> None:
    write(tmp_path / "stream", [(8, 8, 0, 0)], incomplete_reason="it was cut short", notes=("a note",))
    found = simulate_stream(tmp_path / "stream", [SMALL])
    assert (found.problem, found.notes) == ("it was cut short", ("a note",))


def test_files_appear_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    with pytest.raises(KeyboardInterrupt), StreamWriter(path) as writer:
        feed(writer.sink(None, Head(source="test")), [(8, 8, 0, 0)])
        assert not path.exists()
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"precious")
    with pytest.raises(OutputError, match="--force"):
        StreamWriter(path)
    assert path.read_bytes() == b"precious"


# ---- documentation --------------------------------------------------------------------------------------------------


def test_the_documentation_names_commands_and_targets_that_exist() -> None:
    text = DOCS.read_text()
    assert set(re.findall(r"foretrace\s+([a-z]+)", text)) - {"stream"} <= set(VERBS)
    for target in re.findall(r"`make ([a-z-]+)`", text):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target


def test_each_byte_of_a_stream_is_checked(tmp_path: Path) -> None:
    path, data = tmp_path / "stream", HEAD + accesses(1, 1, 1, KIND) + DONE
    path.write_bytes(data)
    assert simulate_stream(path, [SMALL]).problem == ""
    for at, byte in enumerate(data):
        path.write_bytes(data[:at] + bytes([byte ^ 4]) + data[at + 1 :])
        with pytest.raises(TraceFileError, match=str(path)):
            simulate_stream(path, [SMALL])
