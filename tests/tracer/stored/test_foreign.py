"""Other tools' traces: each format as its documentation has it, real ones of valgrind, and damaged ones."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_samples import (
    Access,
    Instruction,
    champsim,
    champsim_accesses,
    din,
    documented_reader,
    drmemtrace,
    entry,
    lackey,
    stored_accesses,
)

from foretrace.base.errors import TraceFileError
from foretrace.benchmarks.harness import tools
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.simulator import Simulator
from foretrace.tracer.stored import _streams
from foretrace.tracer.stored.simulate import SimulatedStream, simulate_stream

SMALL = Hierarchy.parse("L1=256/2/32,L2=1K/4/64")
FORMATS = {"lackey": lackey, "din": din, "drmemtrace": drmemtrace}

ADDRESSES = st.one_of(
    st.integers(0x1000, 0x1400), st.integers(1, 2**47), st.integers(2**64 - 2**47, 2**64 - 2000)
)  # fmt: skip
ACCESSES = st.lists(
    st.builds(Access, st.sampled_from(["load", "store", "fetch"]), ADDRESSES, st.integers(1, 64)),
    min_size=1,
    max_size=80,
).filter(lambda accesses: any(access.kind != "fetch" for access in accesses))


def simulate(path: Path, data: bytes, **options: object) -> SimulatedStream:
    path.write_bytes(data)
    return simulate_stream(path, [SMALL], **options)  # type: ignore[arg-type]


def check_counters(found: SimulatedStream, accesses: Sequence[Access]) -> None:
    """Totals and misses are those of feeding the accesses one by one."""
    data = [access for access in accesses if access.kind != "fetch"]
    twin = Simulator([SMALL])
    for access in data:
        twin.feed([access.address], access.size_bytes, 0, access.kind == "store")
    assert found.loads == sum(access.kind == "load" for access in data)
    assert found.stores == sum(access.kind == "store" for access in data)
    assert found.instructions in (len(accesses) - len(data), None if len(accesses) == len(data) else -1)
    statistics = found.simulator.statistics()
    assert statistics.executions.sum() == len(data)
    assert statistics.total_bytes.sum() == sum(access.size_bytes for access in data)
    misses = found.simulator.simulated()[0].misses.sum(axis=0).tolist()
    assert misses == twin.simulated()[0].misses.sum(axis=0).tolist()


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=examples(60))
@given(accesses=ACCESSES)
def test_each_format_gives_its_accesses_in_order(name: str, accesses: list[Access], tmp_path: Path) -> None:
    stored = tmp_path / "stored"
    found = simulate(tmp_path / "trace", FORMATS[name](accesses), convert_to=stored, force=True)
    assert found.format == name
    assert found.problem == ""
    assert stored_accesses(stored) == accesses
    check_counters(found, accesses)
    again = simulate_stream(stored, [SMALL])
    check_counters(again, accesses)
    assert again.places == found.places


INSTRUCTIONS = st.lists(
    st.builds(
        Instruction,
        st.integers(1, 2**48),
        st.lists(st.integers(1, 2**48), max_size=4).map(tuple),
        st.lists(st.integers(1, 2**48), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=40,
).filter(lambda instructions: any(i.loads or i.stores for i in instructions))


@settings(max_examples=examples(60))
@given(instructions=INSTRUCTIONS, size_bytes=st.sampled_from([None, 1, 16]))
def test_champsim_gives_aligned_words(instructions: list[Instruction], size_bytes: int | None, tmp_path: Path) -> None:
    stored = tmp_path / "stored"
    found = simulate(tmp_path / "trace", champsim(instructions), convert_to=stored, force=True, access_bytes=size_bytes)
    accesses = list(champsim_accesses(instructions, size_bytes or 8))
    assert found.format == "champsim"
    assert stored_accesses(stored) == accesses
    check_counters(found, accesses)
    assert f"{found.loads + found.stores} accesses have no size" in found.notes[0]


@settings(max_examples=examples(60))
@given(accesses=ACCESSES)
def test_din_round_trips(accesses: list[Access], tmp_path: Path) -> None:
    written, again = tmp_path / "written", tmp_path / "again"
    for path in (written, again):  # force does not replace them: a din trace does not say who wrote it
        path.unlink(missing_ok=True)
    simulate(tmp_path / "trace", lackey(accesses), convert_to=written, convert_format="din")
    assert written.read_bytes() == din(accesses)
    simulate_stream(written, [SMALL], convert_to=again, convert_format="din")
    assert again.read_bytes() == written.read_bytes()


@pytest.mark.parametrize("block_bytes", [1, 2, 5, 7, 11, 64, 300])
def test_blocks_may_end_anywhere(block_bytes: int) -> None:
    accesses = [
        access
        for i in range(40)
        for access in (Access("fetch", 0x400000 + 3 * i, 3), Access("load", 8 * i + 64, 8), Access("store", 99 - i, 4))
    ]
    instructions = [Instruction(0x400000 + i, (64 * i + 64,), (4096 - i,)) for i in range(20)]
    traces = [
        (_streams.LACKEY, lackey(accesses) + b"x" * 700 + b"\n L 40,1"),
        (_streams.DIN, din(accesses)),
        (_streams.DRMEMTRACE, drmemtrace(accesses)),
        (_streams.CHAMPSIM, champsim(instructions)),
    ]
    for number, data in traces:
        whole, parts = Simulator([SMALL]), Simulator([SMALL])
        one, many = (_streams.ForeignReader(number, 8, simulator.sink) for simulator in (whole, parts))
        one.feed(data)
        for begin in range(0, len(data), block_bytes):
            many.feed(data[begin : begin + block_bytes])
        one.finish()
        many.finish()
        assert one.counts() == many.counts()
        assert one.counts()["loads"] >= 20
        assert one.operations() == many.operations()
        assert whole.simulated()[0].misses.tolist() == parts.simulated()[0].misses.tolist()


def test_operations_are_instructions_loads_and_stores(tmp_path: Path) -> None:
    text = b"I  400,3\n L 1000,8\n S 2000,4\nI  403,2\n M 3000,8\nI  400,3\n L 1008,8\n"
    found = simulate(tmp_path / "trace", text)
    assert [(place.offset, place.is_store) for place in found.places] == [
        (0x400, False), (0x400, True), (0x403, False), (0x403, True),
    ]  # fmt: skip
    assert found.simulator.statistics().executions.tolist() == [2, 1, 1, 1]
    assert found.instructions == 3
    assert found.notes == ("1 modifying accesses count as a load and a store each",)


@pytest.mark.parametrize(
    ("text", "accesses"),
    [
        (b"0 1000\n", [Access("load", 0x1000, 4)]),
        (b"1 0x1003\r\n", [Access("store", 0x1000, 4)]),
        (b"0 1000 a comment\n0 1000 ab comment\n", [Access("load", 0x1000, 4)] * 2),
        (b" 2\t40 \n0 1000 10\n", [Access("fetch", 0x40, 4), Access("load", 0x1000, 16)]),
        (b"r 1000 8\nW 0x1008 2 x\n", [Access("load", 0x1000, 8), Access("store", 0x1008, 2)]),
        (b"3 1000\n4 0\n0 8 ffffff\n", [Access("load", 8, 4)]),
    ],
)
def test_forms_of_din(text: bytes, accesses: list[Access], tmp_path: Path) -> None:
    stored = tmp_path / "stored"
    found = simulate(tmp_path / "trace", text, convert_to=stored)
    assert found.format == "din"
    assert stored_accesses(stored) == accesses


def test_rarer_entries_of_drmemtrace(tmp_path: Path) -> None:
    entries = [
        entry(25, 0, 5), entry(22, 4, 11), entry(24, 4, 11),
        entry(10, 3, 0x400), entry(17, 2, 0x0402), entry(0, 8, 0x1000),  # a bundle: fetches at 0x403 and 0x405
        entry(30, 2, 0x500), entry(1, 8, 0x2000), entry(30, 2, 0x500), entry(1, 8, 0x2008),  # one fetch, one more turn
        entry(29, 2, 0x500), entry(1, 8, 0x2010), entry(48, 2, 0x502), entry(10, 0, 0x600), entry(0, 0, 0x1000),
        entry(3, 1, 0x3000), entry(46, 1, 0x3000), entry(20, 64, 0x3000), entry(28, 2, 1),
        entry(22, 4, 12), entry(0, 4, 0x4000), entry(23, 4, 12), entry(26, 0, 0),
    ]  # fmt: skip
    stored = tmp_path / "stored"
    found = simulate(tmp_path / "trace", b"".join(entries), convert_to=stored)
    assert stored_accesses(stored) == [
        Access("fetch", 0x400, 3), Access("fetch", 0x403, 2), Access("fetch", 0x405, 4), Access("load", 0x1000, 8),
        Access("fetch", 0x500, 2), Access("store", 0x2000, 8), Access("store", 0x2008, 8), Access("store", 0x2010, 8),
        Access("fetch", 0x502, 2), Access("load", 0x4000, 4),
    ]  # fmt: skip
    assert found.places[1].offset == 0x500
    assert found.places[-1].offset == 0x600
    assert found.notes == (
        "1 accesses of no bytes were left out", "2 prefetches were left out", "1 cache flushes were left out",
    )  # fmt: skip


def thread_file(thread: int, pieces: Sequence[tuple[int, int]]) -> bytes:
    """A thread's trace: at each time, a load of an address."""
    entries = [entry(25, 0, 7), entry(28, 9, 0x40), entry(22, 4, thread), entry(24, 4, 1)]
    for stamp, address in pieces:
        entries += [entry(28, 2, stamp), entry(28, 3, 0), entry(10, 4, 0x400 + thread), entry(0, 8, address)]
    return b"".join([*entries, entry(23, 4, thread), entry(26, 0, 0)])


def test_a_directory_of_threads_is_put_in_one_order(tmp_path: Path) -> None:
    directory = tmp_path / "trace"
    directory.mkdir()
    (directory / "a.1.trace.zip").write_bytes(zipped(thread_file(11, [(100, 0x100), (300, 0x300), (350, 0x350)])))
    (directory / "a.2.trace.gz").write_bytes(gzip.compress(thread_file(12, [(200, 0x200), (320, 0x320)])))
    (directory / "cpu_schedule.bin.zip").write_bytes(b"another file")
    found = simulate_stream(directory, [SMALL], convert_to=tmp_path / "stored")
    loads = [(access[0], access[2]) for access in documented_reader()["accesses"](tmp_path / "stored") if not access[4]]
    assert loads == [(0x100, 0), (0x200, 1), (0x300, 0), (0x320, 1), (0x350, 0)]
    assert found.simulator.statistics().executions.tolist() == [3, 2]
    (directory / "a.2.trace.gz").write_bytes(gzip.compress(thread_file(12, [(200, 0x200)])[:-12]))
    with pytest.raises(TraceFileError, match=re.escape("a.2.trace.gz: ends without the footer")):
        simulate_stream(directory, [SMALL])
    with pytest.raises(TraceFileError, match="has 0 files"):
        simulate_stream(tmp_path, [SMALL])
    with pytest.raises(TraceFileError, match="is a directory"):
        simulate_stream(directory, [SMALL], name="foretrace")


# ---- compression ----------------------------------------------------------------------------------------------------

SAMPLE = [Access("fetch", 0x400, 3), Access("load", 0x1000, 8), Access("store", 0x2000, 8)] * 300


def zipped(data: bytes, *, through_a_pipe: bool = False) -> bytes:
    """An archive whose members are pieces of the data; through a pipe, lengths follow the members."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return not through_a_pipe

        def tell(self) -> int:
            if through_a_pipe:
                raise OSError("a pipe has no position")
            return super().tell()

    target = Pipe()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(3):
            archive.writestr(f"chunk.{i:04}", data[i * len(data) // 3 : (i + 1) * len(data) // 3])
    return target.getvalue()


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "gzip in two parts": lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:]) + bytes(20),
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "zip": zipped,
    "zip through a pipe": lambda data: zipped(data, through_a_pipe=True),
}


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_compressed_traces(name: str, tmp_path: Path) -> None:
    found = simulate(tmp_path / "trace", COMPRESSIONS[name](drmemtrace(SAMPLE)))
    assert (found.format, found.loads, found.stores, found.problem) == ("drmemtrace", 300, 300, "")


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_compressed_traces_cut_anywhere_are_refused(name: str, tmp_path: Path) -> None:
    data = COMPRESSIONS[name](drmemtrace(SAMPLE)).rstrip(b"\0")
    for end in {*range(1, len(data), max(1, len(data) // 60)), len(data) - 1}:
        with pytest.raises(TraceFileError):
            simulate(tmp_path / "trace", data[:end])


def test_unsupported_compression_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TraceFileError, match=re.escape("zstd -dc FILE | foretrace simulate -")):
        simulate(tmp_path / "trace", b"\x28\xb5\x2f\xfd" + bytes(100))


def test_little_memory_for_a_large_expansion(tmp_path: Path) -> None:
    """200 MB of nothing in 200 KB: read in pieces, and refused for what it is."""
    with gzip.open(tmp_path / "trace", "wb", compresslevel=9) as file:
        for _ in range(200):
            file.write(b"x" * 1_000_000)
    code = (
        "import resource, sys\n"
        "from foretrace.tracer.stored.simulate import simulate_stream\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    simulate_stream(sys.argv[1], name='din')\n"
        "except Exception as error:\n    print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    result = subprocess.run(
        [tools.sys.executable, "-P", "-c", code, tmp_path / "trace"], capture_output=True, text=True
    )
    message, grown_kib = result.stdout.splitlines()
    assert "has no access of a din trace" in message
    assert int(grown_kib) < 64 << 10


# ---- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "name", "words"),
    [
        (b"", "auto", "is empty"),
        (b"\0\1\2 hello, this is nothing", "auto", "no trace of a known format"),
        (b"hello\n\n\x1b[2Jworld\n", "lackey", "2 lines were skipped, the first of them line 1"),
        (b"SQLite format 3\0", "auto", "--keep-stream keeps them"),
        (b"I  400,3\n", "auto", "has no access"),
        (drmemtrace(SAMPLE)[:-12], "auto", "ends without the footer"),
        (drmemtrace(SAMPLE)[: 14496 - 5], "auto", "ends in the middle of a record at byte 14491"),
        (drmemtrace(SAMPLE)[:72] + entry(50, 0, 0), "auto", "a type that does not exist at byte 72"),
        (drmemtrace(SAMPLE)[:72] + entry(0, 8, -1), "auto", "end of the address space at byte 72"),
        (drmemtrace(SAMPLE)[:72] + entry(17, 9, 0), "auto", "cannot be at byte 72"),
        (drmemtrace(SAMPLE)[:12] + entry(28, 9, 0x20), "auto", "32-bit program"),
        (entry(0, 8, 0x1000), "drmemtrace", "does not begin with the header"),
        (champsim([Instruction(1, (8,), ())] * 3)[:-1], "auto", "ends in the middle of a record at byte 191"),
        (champsim([Instruction(1, (8,), ())]) + bytes([7] * 64), "champsim", "none of ChampSim's at byte 64"),
        (champsim([Instruction(1, (2**64 - 1,), ())]), "champsim", "end of the address space at byte 0"),
    ],
)
def test_damage_is_told_with_its_place(data: bytes, name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(TraceFileError, match=re.escape(words)):
        simulate(tmp_path / "trace", data, name=name)


def test_a_part_is_taken_on_request(tmp_path: Path) -> None:
    found = simulate(
        tmp_path / "trace", drmemtrace(SAMPLE)[: 72 + 12 * 400], partial=True, convert_to=tmp_path / "part"
    )
    assert "ends without the footer" in found.problem
    assert found.loads + found.stores == 200
    again = simulate_stream(tmp_path / "part", [SMALL])
    assert again.problem == found.problem


def test_skipped_lines_are_counted(tmp_path: Path) -> None:
    text = (
        b"I  400,3\n L 1000,8\nprogram output\n L 10g0,8\n L 1000,0\n L 1000,70000\n L ffffffffffffffff,1\n\n L 2000,8"
    )
    found = simulate(tmp_path / "trace", text)
    assert found.loads == 2
    assert found.notes == ("5 lines are no records and were skipped, the first of them line 3",)


# ---- the command ----------------------------------------------------------------------------------------------------


def test_the_command(foretrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_bytes(lackey(SAMPLE))
    result = foretrace("simulate", trace, "--hierarchy", "L1=1K/2/64", "--json")
    found = json.loads(result.stdout)
    assert found["schema"] == "foretrace.simulate/1"
    assert found["complete"]
    assert found["totals"] == {
        "instructions": 300, "loads": 300, "stores": 300, "load_bytes": 2400, "store_bytes": 2400,
    }  # fmt: skip
    (hierarchy,) = found["hierarchies"]
    assert [(v["name"], v["accesses"], v["misses"]) for v in hierarchy["levels"]] == [("L1", 600, 2)]
    assert found["patterns"] == {"repeated": 598, "unit_stride": 0, "strided": 0, "irregular": 0}
    assert [(o["offset"], o["is_store"], o["executions"]) for o in found["operations"]] == [
        (0x400, False, 300), (0x400, True, 300),
    ]  # fmt: skip
    with trace.open("rb") as data:
        text = foretrace("simulate", "-", "--top", "1", stdin=data).stdout
    assert "standard input, lackey" in text
    assert "0x400" in text


def test_bad_input_at_the_command_line(
    foretrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    bad = tmp_path / "bad\x1b[31m"
    bad.write_bytes(b"\x1b[2J" * 50)
    result = foretrace("simulate", bad)
    assert result.returncode == 81
    assert len(result.stderr.splitlines()) == 1
    assert "\x1b" not in result.stderr
    assert "No such file" in foretrace("simulate", tmp_path / "missing").stderr
    bad.write_bytes(lackey(SAMPLE))
    result = foretrace("simulate", bad, "--convert", bad)
    assert result.returncode == 75
    assert "--force" in result.stderr
    assert "\x1b" not in foretrace("simulate", bad).stdout


# ---- valgrind -------------------------------------------------------------------------------------------------------

WALK = """
#include <stdlib.h>
enum { N = 1 << 15 };
int main(void)
{
    double *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b);
    unsigned x = 1;
    for (int i = 0; i < N; i++)
        a[i] = b[i] = i;
    for (int i = 0; i < N; i++) {
        x = x * 1664525u + 1013904223u;
        b[x >> 17] += a[i];
    }
    return b[7] < 0;
}
"""
CACHES = ("--I1=4096,2,64", "--D1=8192,4,64", "--LL=131072,8,64")
DATA_CACHES = Hierarchy.parse("D1=8K/4/64,LL=128K/8/64")
ALL_CACHES = Hierarchy.parse("D1=8K/4/64,LL=128K/8/64,I1=4K/2/64/instructions")


def test_a_lackey_trace_has_the_misses_of_cachegrind(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    """Both tools run the program at the same addresses.

    The last level of cachegrind holds instructions, too, and ours takes what the first level writes back, which
    cachegrind leaves out: it is compared without both.
    """
    if not shutil.which("valgrind"):
        pytest.skip("needs valgrind (Debian package valgrind)")
    program, trace, counts = compile_c(WALK, "-O1", "-static"), tmp_path / "trace", tmp_path / "counts"
    subprocess.run(["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-file={trace}", program], check=True)
    subprocess.run(
        ["valgrind", "--tool=cachegrind", "--cache-sim=yes", *CACHES, f"--cachegrind-out-file={counts}", program],
        check=True, capture_output=True,
    )  # fmt: skip
    expected = cachegrind_totals(counts.read_text())
    found = simulate_stream(trace, [DATA_CACHES, ALL_CACHES], convert_to=tmp_path / "stored")
    for simulated in found.simulator.simulated():
        assert simulated.misses[:, 0].sum() == expected["D1mr"] + expected["D1mw"] > 20_000
    last_level = found.simulator.simulated()[0].misses[:, 1].sum()
    assert last_level == pytest.approx(expected["DLmr"] + expected["DLmw"], rel=0.001)
    events = found.simulator.simulated()[1].events
    assert events is not None
    assert events.totals()["I1"] | {"accesses": expected["Ir"], "misses": expected["I1mr"]} == events.totals()["I1"]
    assert found.instructions == expected["Ir"]
    assert found.notes[-1].endswith("count as a load and a store each")  # and no line was skipped
    again = simulate_stream(tmp_path / "stored", [DATA_CACHES, ALL_CACHES])
    for one, other in zip(again.simulator.simulated(), found.simulator.simulated(), strict=True):
        assert one.misses.tolist() == other.misses.tolist()
    assert again.instructions == found.instructions


def cachegrind_totals(text: str) -> dict[str, int]:
    """The counters of the whole program."""
    lines = dict(line.split(":", 1) for line in text.splitlines() if line.startswith(("events:", "summary:")))
    return dict(zip(lines["events"].split(), map(int, lines["summary"].split()), strict=True))
