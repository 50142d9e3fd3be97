"""Timings on disk: one JSON object. Like every file, it may come from anyone.

`crc32` is the checksum of the rest, as JSON without spaces. Version history (`schema`): foretrace.timing/2 is the first
that was released; no other is read.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import msgspec

from foretrace.base import json_text
from foretrace.base.errors import TimingError
from foretrace.base.file_kinds import TIMING, instead, kind_of
from foretrace.base.files import read_bounded, write_output

from .timing import Timing

SCHEMA = "foretrace.timing/2"
MAX_FILE_BYTES = 64 << 20
MOST_SLOWDOWN = 1e6
_MAKE = "foretrace time -o FILE -- PROGRAM"
LEAST_CLOCK_HZ, MOST_CLOCK_HZ = 1e6, 1e11  # that of an emulator, and more than any


def write_timing(timing: Timing, path: Path, *, force: bool = False) -> None:
    """Write a timing, atomically; `-` is standard output.

    Raises:
        OutputError: the file exists (and `force` is False), is no timing, or cannot be written.
    """
    content = msgspec.to_builtins(timing)
    document = {"schema": SCHEMA, "crc32": _checksum(content)} | content
    write_output(path, json_text.encode(document, indent=1) + b"\n", TIMING, force=force)


def read_timing(path: Path) -> Timing:
    """Read a timing.

    Raises:
        TimingError: the file is missing, too large, no timing, or holds an impossible value.
    """
    content = read_bounded(path, MAX_FILE_BYTES, "a timing", TimingError)
    try:
        document = json_text.decode(content, dict[str, Any])
        if document.pop("schema", None) != SCHEMA:
            if kind_of(path) is TIMING:
                raise TimingError(f"{path}: is a timing of another version than {SCHEMA}; make it again with: {_MAKE}")
            raise TimingError(f"{path}: {instead(path, TIMING, _MAKE)}")
        if document.pop("crc32", None) != _checksum(document):
            raise TimingError(f"{path}: is damaged or was changed (its checksum is another content's); make it again")
        timing = msgspec.convert(document, type=Timing, strict=True)
    except msgspec.DecodeError as error:
        if kind_of(path) is TIMING:
            raise TimingError(f"{path}: is a damaged timing ({error}); make it again with: {_MAKE}") from error
        raise TimingError(f"{path}: {instead(path, TIMING, _MAKE)}") from error
    _check(timing, path)
    return timing


def _checksum(content: dict[str, Any]) -> str:
    return f"{zlib.crc32(json_text.encode(content)):08x}"


def _check(timing: Timing, path: Path) -> None:
    if not timing.runs or not timing.command:
        raise TimingError(f"{path}: has no run; make it again with: foretrace time")
    for run in timing.runs:
        if min(run.wall_s, run.user_s, run.system_s) < 0 or run.cpu_s <= 0:
            raise TimingError(
                f"{path}: a run of it took {run.cpu_s} s of a processor; make it again with: foretrace time"
            )
        if run.slowdown is not None and not 1 <= run.slowdown < MOST_SLOWDOWN:
            raise TimingError(
                f"{path}: a reference loop took {run.slowdown} times as long beside a run as undisturbed; "
                "make it again with: foretrace time"
            )
    for timed in (*timing.runs, timing.segments):
        if timed and timed.clock_hz is not None and not LEAST_CLOCK_HZ <= timed.clock_hz <= MOST_CLOCK_HZ:
            raise TimingError(f"{path}: has a clock of {timed.clock_hz} Hz; make it again with: foretrace time")
    if (found := timing.segments) is not None:
        good = 0 <= found.low_s <= found.time_s <= found.high_s and found.time_s > 0 and 0 <= found.long_share <= 1
        if not good or min(found.runs, found.segments, found.counting_s) < 0:
            raise TimingError(f"{path}: its segments took a time that cannot be; make it again with: foretrace time")
    good = all(0 <= p.kernel_samples <= p.samples and p.offset >= 0 for p in timing.positions)
    if not good or min(timing.elsewhere, timing.lost) < 0 or timing.interval_s <= 0:
        raise TimingError(f"{path}: counts samples in a way that cannot be; make it again with: foretrace time")
