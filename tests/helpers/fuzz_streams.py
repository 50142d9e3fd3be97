"""Mutates traces and streams at random and reads them: `make fuzz` does it millions of times under the sanitizers.

A reader may refuse what it is given, in one line and with a place. It may not crash, hang, count what is not there, or
feed the simulator anything else than it counts.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import io
import lzma
import random
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from stored_samples import Access, Instruction, champsim, din, drmemtrace, entry, lackey

from foretrace.base.errors import TraceFileError
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.simulator import Simulator
from foretrace.tracer.stored import _streams
from foretrace.tracer.stored.input_file import Bytes, InputFile
from foretrace.tracer.stored.simulate import simulate_stream

_SIMULATED = 0.05
"""Share of the cases whose accesses go to a simulator: it takes longer than the readers."""
SMALL = Hierarchy.parse("L1=256/2/32")
NUMBERS = [0, 1, 2, 7, 8, 12, 64, 255, 256, 65535, 65536, 2**31, 2**32 - 1, 2**48, 2**63, 2**64 - 1]
TEXT = [
    b"I  ",
    b" L ",
    b" S ",
    b" M ",
    b",",
    b"\n",
    b"\r\n",
    b"0",
    b"g",
    b"ffffffffffffffff",
    b"0x",
    b" ",
    b"\t",
    b"9" * 30,
]

ACCESSES = [
    access
    for i in range(12)
    for access in (
        Access("fetch", 0x400000 + 3 * (i % 5), 3),
        Access("load", 0x1000 + 64 * i, 8),
        Access("store", 0x7FFF0000 - i, 4),
    )
]
RARE = b"".join(entry(kind, size, 0x1000) for kind in range(52) for size in (0, 1, 8, 9))
FOREIGN = {
    "lackey": (_streams.LACKEY, lackey(ACCESSES) + b" M 1000,8\nwhat the program says\n"),
    "din": (_streams.DIN, din(ACCESSES) + b"r 1000 8\n2 0x40 comment\n4 0\n"),
    "drmemtrace": (_streams.DRMEMTRACE, drmemtrace(ACCESSES)),
    "drmemtrace, all types": (_streams.DRMEMTRACE, drmemtrace(ACCESSES)[:-12] + RARE + drmemtrace(ACCESSES)[72:]),
    "champsim": (_streams.CHAMPSIM, champsim([Instruction(0x400 + i, (64 * i, 8), (4096 + i,)) for i in range(12)])),
}


def sample_frame(kinds: int = 5, records: int = 40) -> bytes:
    """A frame with runs, loops and several kinds."""
    table = b"".join(struct.pack("<QIIHH", 1000 * (i + 1), i, i % 2, 8, i % 4 % 3) for i in range(kinds))
    rows = [struct.pack("<HHQ", i * 7 % kinds, i % 5, 2 * i * i) for i in range(records)]
    total = sum(1 + i % 5 for i in range(records))
    planes = b"".join(b"".join(rows)[i::12] for i in range(12))
    return struct.pack("<III", kinds, records, total) + table + planes


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The data with one to a few mistakes in it."""
    result = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 3, 8])):
        at = chance.randrange(len(result) + 1)
        length = chance.choice([1, 1, 2, 4, 8, 12, 64])
        match chance.randrange(8):
            case 0:
                if result:
                    result[at % len(result)] ^= 1 << chance.randrange(8)
            case 1:
                result[at : at + length] = chance.randbytes(length)
            case 2:
                del result[at : at + length]
            case 3:
                result[at:at] = result[max(0, at - length) : at] * chance.choice([1, 2, 50])
            case 4:
                del result[at:]
            case 5:
                number = chance.choice(NUMBERS)
                result[at : at + 8] = struct.pack("<Q", number)[: chance.choice([1, 2, 4, 8])]
            case 6:
                result[at:at] = chance.choice(TEXT)
            case 7:
                other = chance.randrange(len(result) + 1)
                result[at:at] = result[other : other + length]
    return bytes(result)


class Check:
    """A simulator for many cases: each case must add to it just what its reader counts."""

    def __init__(self) -> None:
        """Nothing fed yet."""
        self.forget()

    def forget(self) -> None:
        """Start again: nobody knows what a reader fed before it found something wrong."""
        self.simulator = Simulator([SMALL], reuse_rate=None)
        self._fed = 0

    def added(self) -> int:
        """Accesses fed since the last call."""
        if self.simulator.num_operations > 1000:  # looking at all of them again and again takes time
            total = int(self.simulator.statistics().executions.sum()) - self._fed
            self.forget()
            return total
        total = int(self.simulator.statistics().executions.sum())
        added, self._fed = total - self._fed, total
        return added


def read_foreign(number: int, data: bytes, check: Check, chance: random.Random) -> None:
    """Read a trace in blocks of random lengths; what was counted must have been fed."""
    simulated = chance.random() < _SIMULATED
    reader = _streams.ForeignReader(number, 8, check.simulator.sink if simulated else None)
    try:
        begin = 0
        while begin < len(data):
            end = begin + chance.choice([1, 13, 100, 5000])
            reader.feed(data[begin:end])
            begin = end
        reader.finish()
    except ValueError as error:
        what, offset = error.args
        assert what
        assert 0 <= offset <= len(data), offset
        if simulated:
            check.forget()
        return
    counts = reader.counts()
    assert not simulated or counts["loads"] + counts["stores"] == check.added()
    assert counts["records"] <= len(data)
    pcs, kinds = reader.operations()
    assert len(pcs) == 8 * len(kinds)
    assert len(kinds) <= counts["loads"] + counts["stores"]


def read_frame(data: bytes, check: Check, chance: random.Random) -> None:
    """Read a frame of our own format."""
    simulated = chance.random() < _SIMULATED
    reader = _streams.FrameReader(check.simulator.sink if simulated else None)
    try:
        reader.begin(data)
        while reader.step(chance.choice([1, 10, 10_000])):
            pass
    except ValueError as error:
        assert str(error)
        if simulated:
            check.forget()
    else:
        loads, stores, _, _ = reader.counts()
        assert not simulated or loads + stores == check.added()


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 1),
    "xz": lambda data: lzma.compress(data, preset=0),
    "bzip2": bz2.compress,
    "zip": lambda data: zipped(data),
    "as it is": lambda data: data,
}


def zipped(data: bytes) -> bytes:
    """An archive of two members."""
    import zipfile

    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("chunk.0000", data[:200])
        archive.writestr("chunk.0001", data[200:])
    return target.getvalue()


def stored_file() -> bytes:
    """A whole stored stream, whose frames are sealed again after they are mutated."""

    def frame(tag: bytes, content: bytes) -> bytes:
        core = zlib.compressobj(1, zlib.DEFLATED, -15)
        stored = core.compress(content) + core.flush()
        return struct.pack("<4sIII", tag, len(stored), len(content), zlib.crc32(stored)) + stored

    accesses = sum(1 + i % 5 for i in range(40))
    return b"".join([
        b"FTSTORE1",
        frame(b"HEAD", b'{"format":"foretrace.stream/1","foretrace_version":"0","source":"x"}'),
        frame(b"ACCS", sample_frame()),
        frame(b"OPER", b'{"first":0,"operations":[{"is_store":true,"offset":1},{"is_store":false,"line":3}]}'),
        frame(b"DONE", b'{"accesses":%d,"complete":true}' % accesses),
    ])  # fmt: skip


def read_file(data: bytes, path: Path) -> None:
    """Read a whole file as `foretrace simulate` does; a refusal is one printable line."""
    path.write_bytes(data)
    try:
        found = simulate_stream(path, [SMALL])
    except TraceFileError as error:
        assert str(error).startswith(str(path)), error
        return
    assert found.loads + found.stores or found.format == "foretrace"


def read_bytes(data: bytes, path: Path) -> None:
    """Take a file apart, whatever it is compressed with."""
    path.write_bytes(data)
    file = InputFile(path)
    try:
        for block in Bytes(file):
            assert 0 < len(block) <= 1 << 20
    except TraceFileError:
        pass
    finally:
        file.close()


def fuzz(cases: int, seed: int, report: Callable[[str], None] = lambda line: None) -> int:
    """Run about so many cases, most of them in the C readers. Returns how many it were."""
    chance, check, done = random.Random(seed), Check(), 0
    frame = sample_frame()
    for name, (number, data) in FOREIGN.items():
        for _ in range(cases * 3 // 20):
            read_foreign(number, mutated(data, chance), check, chance)
        done += cases * 3 // 20
        report(f"{name}: {cases * 3 // 20} cases")
    for _ in range(cases // 5):
        read_frame(mutated(frame, chance), check, chance)
    report(f"frames: {cases // 5} cases")
    done += cases // 5
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "trace"
        whole = stored_file()
        read_file(whole, path)
        for name, compress in COMPRESSED.items():
            packed = compress(drmemtrace(ACCESSES))
            for _ in range(cases // 200):
                read_bytes(mutated(packed, chance), path)
            for _ in range(cases // 1000):
                read_file(mutated(packed, chance), path)
            done += cases // 200 + cases // 1000
            report(f"files, {name}: {cases // 200 + cases // 1000} cases")
        for _ in range(cases // 200):
            read_file(mutated(whole, chance), path)
        done += cases // 200
        report(f"stored streams: {cases // 200} cases")
    return done


def main() -> int:
    """Fuzz, and say how it went."""
    parser = argparse.ArgumentParser(prog="make fuzz", description="Mutate traces and streams at random and read them.")
    parser.add_argument("--cases", type=int, default=3_000_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    start = time.monotonic()
    done = fuzz(options.cases, options.seed, lambda line: print(line, flush=True))
    print(f"{done} cases in {time.monotonic() - start:.0f} s: no crash, no miscount")
    return 0


if __name__ == "__main__":
    sys.exit(main())
