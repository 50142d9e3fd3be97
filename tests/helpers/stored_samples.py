"""Traces of every format, written here as their documentation says, and the accesses that are in them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parents[2] / "docs" / "stored-streams.md"


class Access(NamedTuple):
    """One access: `kind` is "load", "store" or "fetch"."""

    kind: str
    address: int
    size_bytes: int


def documented_reader() -> dict[str, Any]:
    """The functions that the documentation shows."""
    (code,) = re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def stored_accesses(path: Path) -> list[Access]:
    """What the documented reader finds in a stored stream."""
    reader = documented_reader()["accesses"]
    kinds = {0: "load", 1: "store", 2: "fetch"}
    return [Access(kinds[flags], address, size) for address, _, _, size, flags in reader(path)]


def lackey(accesses: Iterable[Access]) -> bytes:
    """As valgrind 3.19 writes it: two blanks after I, one before L and S."""
    lines = ["==4711== Lackey, an example Valgrind tool", "==4711== Command: ./program", "==4711== "]
    for kind, address, size in accesses:
        lines.append({"fetch": f"I  {address:08x},{size}", "load": f" L {address:08x},{size}"}.get(
            kind, f" S {address:08x},{size}"
        ))  # fmt: skip
    return ("\n".join([*lines, "==4711== ", "==4711== Exit code:       0"]) + "\n").encode()


def din(accesses: Iterable[Access]) -> bytes:
    """Labels 0, 1 and 2, an address and a size."""
    labels = {"load": 0, "store": 1, "fetch": 2}
    return b"".join(b"%d %x %x\n" % (labels[kind], address, size) for kind, address, size in accesses)


HEADER, FOOTER, THREAD, PID, MARKER, ENCODING = 25, 26, 22, 24, 28, 47
VERSION_MARKER, FILE_TYPE_MARKER, TIMESTAMP_MARKER = 12, 9, 2


def entry(kind: int, size: int, address: int) -> bytes:
    """One entry of a drmemtrace trace."""
    return struct.pack("<HHQ", kind, size, address % 2**64)


def drmemtrace(accesses: Iterable[Access]) -> bytes:
    """A trace of one thread, with the entries around the accesses that DynamoRIO writes."""
    head = [
        entry(HEADER, 0, 7), entry(MARKER, VERSION_MARKER, 7), entry(MARKER, FILE_TYPE_MARKER, 0x40),
        entry(THREAD, 4, 4711), entry(PID, 4, 4710), entry(MARKER, TIMESTAMP_MARKER, 13334804716609227),
    ]  # fmt: skip
    kinds = {"load": 0, "store": 1, "fetch": 10}
    body = []
    for kind, address, size in accesses:
        if kind == "fetch":
            body.append(entry(ENCODING, min(size, 8), 0x90))
        body.append(entry(kinds[kind], size, address))
    return b"".join([*head, *body, entry(23, 4, 4711), entry(FOOTER, 0, 0)])


class Instruction(NamedTuple):
    """A ChampSim record's facts."""

    pc: int
    loads: tuple[int, ...]
    stores: tuple[int, ...]


def champsim(instructions: Iterable[Instruction]) -> bytes:
    """Records of 64 bytes."""
    return b"".join(
        struct.pack(
            "<QBB2B4B2Q4Q", i.pc, 0, 0, 1, 2, 3, 4, 5, 6,
            *(*i.stores, 0, 0)[:2], *(*i.loads, 0, 0, 0, 0)[:4],
        )
        for i in instructions
    )  # fmt: skip


def champsim_accesses(instructions: Iterable[Instruction], size_bytes: int = 8) -> Iterator[Access]:
    """The accesses of ChampSim records: aligned, of an assumed size, loads before stores."""
    for instruction in instructions:
        yield Access("fetch", instruction.pc, 4)
        for address in instruction.loads:
            yield Access("load", address & -size_bytes, size_bytes)
        for address in instruction.stores:
            yield Access("store", address & -size_bytes, size_bytes)
