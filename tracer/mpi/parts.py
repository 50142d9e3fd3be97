"""Parts of a parallel run: the file that each rank writes, and joining them when all are there.

A rank writes OUTPUT.rank-R-of-N. The one that finds all of them there joins them into OUTPUT and removes them; a lock
file keeps the others from doing so, too. All is done by creating, linking and renaming files, which a shared file
system does for all nodes alike.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from foretrace.base import json_text
from foretrace.base.errors import OutputError, SignatureError
from foretrace.base.file_kinds import PART, PART_MAGIC
from foretrace.base.files import read_bounded, write_atomically
from foretrace.tracer.signature.file import read_signature, write_signature
from foretrace.tracer.signature.rank_records import NO_WORK, Ints
from foretrace.tracer.signature.records import Signature

from .record_file import RawRank, read_record

MOST_PART_BYTES = 1 << 30


class PartHead(msgspec.Struct, frozen=True):
    """Facts of the run of a rank's program, for a signature's provenance."""

    command: tuple[str, ...]
    foretrace_version: str
    host: str
    processor: str
    started: str
    wall_s: float
    exit_code: int | None
    signal: int | None
    record_bytes: int | None = None
    """Length of the record of calls, behind which there is the work of a traced rank."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A rank's part of a run; of one that was traced, its signature and `RankRecord.work` in its own tree."""

    head: PartHead
    record: RawRank
    trace: Signature | None = None
    work: Ints = field(default_factory=lambda: NO_WORK)


def part_path(output: Path, rank: int, ranks: int) -> Path:
    """File of a rank's part."""
    return output.with_name(f"{output.name}.rank-{rank}-of-{ranks}")


def found_parts(output: Path) -> dict[tuple[int, int], Path]:
    """The parts of a run that are there, by rank and number of ranks."""
    pattern = re.compile(re.escape(output.name) + r"\.rank-(\d{1,7})-of-(\d{1,7})")
    found = {}
    try:
        for path in output.parent.iterdir():
            if named := pattern.fullmatch(path.name):
                found[int(named[1]), int(named[2])] = path
    except OSError as error:
        raise OutputError(f"{output.parent}: cannot be read: {error.strerror}") from None
    return found


def trace_path(part: Path) -> Path:
    """Signature of a rank that was traced, beside its part."""
    return part.with_name(f"{part.name}.sig")


def write_part(
    output: Path, head: PartHead, record: bytes, traced: tuple[Signature, Ints] | None = None, *, force: bool
) -> tuple[Path, RawRank]:
    """Write a rank's part.

    Args:
        output: file of the whole run.
        head: how the program ran.
        record: content of the file that the interposer wrote.
        traced: of a rank that was traced, its signature and the work before its calls.
        force: whether an older part may be replaced.

    Raises:
        SignatureError: the record is damaged.
        OutputError: the part cannot be written.
    """
    raw = read_record(record, str(output))
    path = part_path(output, raw.rank, raw.ranks)
    work = b""
    if traced is not None:
        head = msgspec.structs.replace(head, record_bytes=len(record))
        work = traced[1].astype("<i8").tobytes()
        write_signature(traced[0], trace_path(path), force=force)
    write_atomically(path, PART_MAGIC + json_text.encode(head) + b"\n" + record + work, PART, force=force)
    return path, raw


def read_part(path: Path) -> Part:
    """A rank's part.

    Raises:
        SignatureError: it cannot be read, or is damaged.
    """
    content = read_bounded(path, MOST_PART_BYTES, "a rank's part of a parallel run", SignatureError)
    head, separator, record = content.removeprefix(PART_MAGIC).partition(b"\n")
    if not content.startswith(PART_MAGIC) or not separator:
        raise SignatureError(f"{path}: is no rank's part of a parallel run")
    try:
        facts = json_text.decode(head, PartHead)
        if facts.record_bytes is None:
            return Part(facts, read_record(record, str(path)))
        work = np.frombuffer(record[facts.record_bytes :], "<i8").astype(np.int64).reshape(-1, 3)
        trace = read_signature(trace_path(path))
        if len(work) and (work.min() < 0 or trace.tree is None or work[:, 1].max() >= len(trace.tree)):
            raise ValueError("its work is of nodes that there are not")
        return Part(facts, read_record(record[: facts.record_bytes], str(path)), trace, work)
    except (msgspec.MsgspecError, ValueError) as error:
        raise SignatureError(f"{path}: is damaged: {error}") from None


def _lock_of(output: Path) -> Path:
    return output.with_name(f"{output.name}.joining")


def remove_stale_lock(output: Path) -> None:
    """Remove the lock file of a process of this machine that was killed while it joined the parts."""
    lock = _lock_of(output)
    try:
        node, process = lock.read_text().split()
        if node == platform.node() and process.isdecimal():
            os.kill(int(process), 0)
    except ProcessLookupError:
        lock.unlink(missing_ok=True)
    except (OSError, ValueError):  # there is none, it was not written whole, or is another user's
        return


@contextmanager
def only_one(output: Path) -> Iterator[bool]:
    """Whether this process is the one that joins the parts: False while another does.

    The lock file names its process, so that `remove_stale_lock` can tell whether that was killed meanwhile.
    """
    lock = _lock_of(output)
    try:
        with lock.open("x") as file:
            file.write(f"{platform.node()} {os.getpid()}\n")
    except FileExistsError:
        yield False
        return
    except OSError as error:
        with suppress(OSError):  # a full disk leaves an empty one
            lock.unlink(missing_ok=True)
        raise OutputError(f"{lock}: cannot be made: {error.strerror}") from None
    try:
        yield True
    finally:
        lock.unlink(missing_ok=True)
