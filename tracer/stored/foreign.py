"""Other tools' address traces: which format a file has, and reading it. The readers themselves are in C (foreign.h)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import TraceFileError
from foretrace.base.terminal import plain

from . import _streams
from .input_file import Bytes
from .stored_stream import MAGIC, Place
from .thread_files import ThreadFiles

FORMATS = {
    "lackey": _streams.LACKEY,
    "din": _streams.DIN,
    "drmemtrace": _streams.DRMEMTRACE,
    "champsim": _streams.CHAMPSIM,
}
STORED = "foretrace"
ASSUMED_BYTES = {"din": 4, "champsim": 8}
"""Default size of an access in formats that give none: Dinero IV assumes 4-byte words; ChampSim uses lines only."""

_PEEK_BYTES = 1 << 16
_LACKEY = re.compile(rb"^(?:I  | [LSM] )[0-9a-fA-F]{1,16},\d{1,5}\r?$", re.MULTILINE)
_DIN = re.compile(rb"^[ \t]*[0-4rwimcv][ \t]+(?:0[xX])?[0-9a-fA-F]{1,16}(?:[ \t].*)?\r?$", re.MULTILINE)
_ENTRY = struct.Struct("<HHQ")
_DRMEMTRACE_HEADER, _MAX_DRMEMTRACE_VERSION = 25, 100
_CHAMPSIM_BYTES = 64
_FILTERED, _INSTRUCTIONS_ONLY, _KERNEL = 0x1 | 0x80 | 0x100 | 0x2000, 0x4, 0x1000
"""Bits of drmemtrace's offline_file_type_t (trace_entry.h)."""
_SIGNATURE = b"SQLite format 3\0"
"""Beginning of a signature file, which users may pass as a trace by mistake."""


def detect(data: Bytes) -> str:
    """Detect a trace's format from its beginning.

    Raises:
        TraceFileError: it is empty, or of no known format.
    """
    head = data.peek(_PEEK_BYTES)
    if not head:
        raise TraceFileError(f"{data.file.name}: is empty")
    if head.startswith(MAGIC[:-1]):
        return STORED
    if len(head) >= _ENTRY.size:
        kind, size, version = _ENTRY.unpack_from(head)
        if kind == _DRMEMTRACE_HEADER and size == 0 and 0 < version <= _MAX_DRMEMTRACE_VERSION:
            return "drmemtrace"
    lackey, din = len(_LACKEY.findall(head)), len(_DIN.findall(head))
    if lackey or din:
        return "lackey" if lackey >= din else "din"
    if _looks_like_champsim(head):
        return "champsim"
    if head.startswith(_SIGNATURE):
        raise TraceFileError(
            f"{data.file.name}: is a database, such as a signature, and holds no accesses; "
            "foretrace trace --keep-stream keeps them"
        )
    raise TraceFileError(
        f"{data.file.name}: is no trace of a known format; name it with --format ({', '.join((*FORMATS, STORED))}) "
        "if it is one all the same"
    )


def _looks_like_champsim(head: bytes) -> bool:
    """Whether records look like ChampSim's: only two of their bytes have few values; an address is never 0."""
    records = [head[i : i + _CHAMPSIM_BYTES] for i in range(0, len(head) - _CHAMPSIM_BYTES + 1, _CHAMPSIM_BYTES)]
    return bool(records) and all(r[8] <= 1 and r[9] <= r[8] and any(r[:8]) for r in records)


@dataclass(frozen=True, slots=True)
class ForeignTrace:
    """Contents of a foreign trace: `counts` are those of struct ft_foreign_counts."""

    format: str
    assumed_bytes: int
    counts: dict[str, int]
    pcs: npt.NDArray[np.uint64]
    is_store: npt.NDArray[np.bool_]

    @property
    def places(self) -> list[Place]:
        """Places of the memory operations, by id; only the instruction's address is known."""
        return [
            Place(offset=pc, is_store=store)
            for pc, store in zip(self.pcs.tolist(), self.is_store.tolist(), strict=True)
        ]

    @property
    def instructions(self) -> int | None:
        """Instructions executed; None if the trace has no fetches."""
        return self.counts["instructions"] or None

    def notes(self) -> tuple[str, ...]:
        """Assumptions and omissions, a sentence each."""
        counts, notes = self.counts, []
        if counts["assumed_sizes"]:
            notes.append(
                f"{counts['assumed_sizes']} accesses have no size in the trace: "
                f"taken as aligned words of {self.assumed_bytes} bytes (--access-bytes changes that)"
            )
        if counts["modifies"]:
            notes.append(f"{counts['modifies']} modifying accesses count as a load and a store each")
        for what, why in (
            ("skipped", f"lines are no records and were skipped, the first of them line {counts['first_skipped']}"),
            ("unsized", "accesses of no bytes were left out"),
            ("prefetches", "prefetches were left out"),
            ("flushes", "cache flushes were left out"),
            ("merged", "accesses are by instructions beyond the first million, which are shown as one"),
        ):
            if counts[what]:
                notes.append(f"{counts[what]} {why}")
        if counts["file_type"] & _FILTERED:
            notes.append("the trace was filtered while it was recorded: accesses that hit the filter are missing")
        if counts["file_type"] & _KERNEL:
            notes.append("the trace has accesses of the operating system as well")
        return tuple(notes)


class ForeignReader:
    """Reads a trace and feeds its accesses to a sink.

    Raises:
        TraceFileError: it is damaged or cut short, the message says at which byte; or it holds no access.
    """

    def __init__(self, data: Bytes | ThreadFiles, name: str, sink: object, assumed_bytes: int | None = None) -> None:
        """Prepare to read `data` as format `name`."""
        self._data = data
        self._name = name
        self._assumed_bytes = assumed_bytes or ASSUMED_BYTES.get(name, 1)
        self._core = _streams.ForeignReader(FORMATS[name], self._assumed_bytes, sink)

    def steps(self) -> Iterator[int]:
        """Read the trace in steps; yields the number of accesses after each, until the trace is read."""
        try:
            for block in self._data:
                self._core.feed(block)
                yield self._accesses
            self._core.finish()
        except ValueError as error:
            what, offset = error.args
            raise TraceFileError(f"{self._data.file.name}: {what} at byte {offset}") from error
        except MemoryError:
            raise TraceFileError("memory ran out while simulating: simulate fewer or smaller caches") from None
        self._check_not_empty()

    def contents(self) -> ForeignTrace:
        """The trace's contents as far as it has been read."""
        pcs, kinds = self._core.operations()
        return ForeignTrace(
            format=self._name,
            assumed_bytes=self._assumed_bytes,
            counts=self._core.counts(),
            pcs=np.frombuffer(pcs, np.uint64),
            is_store=np.frombuffer(kinds, np.uint8) == 1,
        )

    @property
    def _accesses(self) -> int:
        counts = self._core.counts()
        return counts["loads"] + counts["stores"]

    def _check_not_empty(self) -> None:
        counts = self._core.counts()
        if self._accesses:
            return
        if counts["file_type"] & _INSTRUCTIONS_ONLY:
            why = "it was recorded without data accesses"
        elif counts["skipped"]:
            why = f"{counts['skipped']} lines were skipped, the first of them line {counts['first_skipped']}"
        else:
            why = f"{counts['records']} records were read"
        raise TraceFileError(f"{plain(self._data.file.name)}: has no access of a {self._name} trace in it: {why}")
