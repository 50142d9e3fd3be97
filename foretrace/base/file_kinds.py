"""The kinds of files that foretrace writes, and how each is recognised by its content.

Only a file of the same kind is ever replaced (`foretrace.base.files`), and a file of another kind is named in messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PEEK_BYTES = 1 << 16
"""Size of a file's beginning, and of its end, by which its kind is recognised."""

SQLITE_MAGIC = b"SQLite format 3\0"
SIGNATURE_APPLICATION_ID = 0x46545253  # "FTRS", in the database header where file(1) finds it
STREAM_MAGIC = b"FTSTORE1"
PART_MAGIC = b"FTPART1\n"
PICTURE_CREATOR = "foretrace"
"""Creator that pictures name in their metadata."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file: `title` with its article, `used_by` a command that reads it, `matches` recognises its bytes."""

    title: str
    used_by: str
    matches: Callable[[bytes], bool]


def _is_signature(content: bytes) -> bool:
    """Section 1.3 of SQLite's file format: the application's number is in bytes 68 to 71."""
    application_id = int.from_bytes(content[68:72], "big")
    return content.startswith(SQLITE_MAGIC) and application_id == SIGNATURE_APPLICATION_ID


def _searcher(pattern: bytes) -> Callable[[bytes], bool]:
    """Searches content for a pattern, line by line."""
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda content: compiled.search(content) is not None


def _json(schema: bytes) -> Callable[[bytes], bool]:
    """Recognises a JSON object whose first key is a schema of this name."""
    return _searcher(rb'\A\s*\{\s*"schema"\s*:\s*"' + re.escape(schema) + b"/")


SIGNATURE = FileKind("a signature", "foretrace info FILE", _is_signature)
PART = FileKind(
    "a rank's part of a parallel run", "foretrace trace --mpi --join -o OUTPUT",
    lambda content: content.startswith(PART_MAGIC[:6]),
)  # fmt: skip
STREAM = FileKind("a stored stream", "foretrace simulate FILE", lambda content: content.startswith(STREAM_MAGIC[:7]))
TIMING = FileKind("a timing", "foretrace predict SIGNATURE --timing FILE", _json(b"foretrace.timing"))
PROFILE = FileKind("a machine profile", "foretrace machines show FILE", _searcher(rb'^schema = "foretrace\.profile/'))
INTERCONNECT = FileKind(
    "an interconnect", "foretrace machines show FILE", _searcher(rb'^schema = "foretrace\.interconnect/')
)
VALIDATION = FileKind("a validation", "foretrace validate --compare FILE", _json(b"foretrace.validate"))
STACKS = FileKind("folded stacks", "a flame graph tool", _searcher(rb"\Aforetrace:[^\n;]*;"))
PICTURE = FileKind(
    "a picture drawn by foretrace", "an image viewer",
    _searcher(
        rb"\A\x89PNG(?s:.*)tEXtSoftware\0foretrace|<dc:creator>\s*<cc:Agent>\s*<dc:title>foretrace<|"
        rb"/Creator \(foretrace\)"
    ),
)  # fmt: skip
TIMELINE = FileKind(
    "a timeline",
    "a trace viewer such as ui.perfetto.dev",
    lambda content: content[:4] == b"\x1f\x8b\x08\x08" and content[10:].startswith(b"foretrace-timeline"),
)
EXPORTED_EVENTS = FileKind(
    "exported events",
    "a spreadsheet, or pandas",
    lambda content: (
        re.match(rb'\s*\{\s*"schema"\s*:\s*"foretrace\.events[./]', content) is not None
        or re.match(rb"library,name,(kind,type|process,\w+),value,", content) is not None
        or (content.startswith(b"PAR1") and b"foretrace.events" in content)
    ),
)
SWEEP_JOURNAL = FileKind(
    "a journal of foretrace sweep", "foretrace sweep --journal FILE", _json(b"foretrace.sweep-journal")
)
REPORT = FileKind(
    "a report", "an editor, or a spreadsheet",
    _searcher(rb'\A<!-- foretrace report -->|^  "schema": "foretrace\.[a-z.-]+/\d|\APAR1(?s:.*)foretrace\.report'),
)  # fmt: skip
"""Report as JSON, Markdown or Parquet."""
CSV = FileKind("a table in CSV", REPORT.used_by, _searcher(rb"\A[a-z]\w*(?:,\w+)+\r?\n"))
"""A file that may be a report as CSV: nothing in it says who wrote it. `csv_report` decides before it is replaced."""
DIN = FileKind("a din trace", "foretrace simulate FILE", lambda content: False)
"""Kinds of plain text that carry no mark of who wrote them: such a file is never replaced."""

_RECOGNISED = (
    SIGNATURE, PART, STREAM, TIMING, PROFILE, INTERCONNECT, VALIDATION, PICTURE, TIMELINE, STACKS, EXPORTED_EVENTS,
    REPORT, SWEEP_JOURNAL,
)  # fmt: skip


def csv_report(content: bytes) -> FileKind:
    """The kind of a report as CSV with this `content`: only a file with the same columns is replaced by it."""
    header = content.partition(b"\n")[0] + b"\n"
    return FileKind("a report with the same columns", REPORT.used_by, lambda there: there.startswith(header))


def peek(path: Path) -> bytes:
    """The beginning and the end of a file.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(PEEK_BYTES)
        size_bytes = file.seek(0, 2)
        if size_bytes > PEEK_BYTES:
            file.seek(max(PEEK_BYTES, size_bytes - PEEK_BYTES))
            content += file.read(PEEK_BYTES)
    return content


def kind_of(path: Path, *others: FileKind) -> FileKind | None:
    """The kind of a file that foretrace wrote; None if it wrote no such file, or it cannot be read."""
    try:
        content = peek(path) if path.is_file() else b""  # a pipe would keep us waiting
    except (OSError, ValueError):
        return None
    return next((kind for kind in (*_RECOGNISED, *others) if kind.matches(content)), None)


def instead(path: Path, wanted: FileKind, make: str) -> str:
    """Advice for a file that is not of the wanted kind: the command that reads it, or the command that makes one.

    Args:
        path: of an existing file.
        wanted: the kind that it is not.
        make: a command that makes one and names FILE as its output.
    """
    found = kind_of(path)
    if found is not None and found is not wanted:
        return f"is {found.title}, not {wanted.title}; it is for: {found.used_by.replace('FILE', str(path))}"
    return f"is not {wanted.title}; make one, in a file of another name, with: {make}"
