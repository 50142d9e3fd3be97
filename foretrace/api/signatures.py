"""Signatures: what a program did, and what `info` shows of it."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from foretrace.base.units import format_bytes, format_count, format_seconds
from foretrace.reports.info_reports import LOOPS, LoopSummary, summarise_loops
from foretrace.reports.model import Column, Table
from foretrace.reports.renderers import data_frame
from foretrace.tracer.recording.recording import signal_name
from foretrace.tracer.signature import file, records

from .views import MOST_ROWS, Shown, ShownTable, shortened, shown_as, where

if TYPE_CHECKING:
    import pandas


class HasSignature(Protocol):
    """Object that holds a signature: a traced run."""

    @property
    def signature(self) -> Signature:
        """Record of the program's work."""
        ...


SignatureLike: TypeAlias = "records.Signature | HasSignature | str | os.PathLike[str]"
"""A signature, a traced run, or the path of a signature file."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Signature(Shown, records.Signature):
    """Record of a program's work, independent of any machine.

    `totals`, `provenance` (how it was obtained), `blocks`, `operations`, `loops` and so on are the records of the file.
    """

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write a signature file; an existing one is replaced only with `force`.

        Raises:
            OutputError: the file exists, or cannot be written.
        """
        file.write_signature(self, os.fspath(path), force=force)

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each loop, as `info(signature).to_dataframe()`."""
        return info(self).to_dataframe()

    def _line(self) -> str:
        return described(self)

    def _table(self) -> ShownTable:
        return info(self)._table()


@dataclass(frozen=True, slots=True, repr=False)
class Info(Shown):
    """Contents of a signature: how it was obtained, totals, and its loops, those with most instructions first."""

    provenance: records.Provenance
    totals: records.Totals
    num_blocks: int
    loops: tuple[LoopSummary, ...]
    description: str

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each loop: where it is, how often it ran, what it did, the bytes of the ranges it touched."""
        return data_frame(Table(LOOPS, self.loops))

    def _line(self) -> str:
        return self.description

    def _table(self) -> ShownTable:
        headings = ("function", "source", "idioms", "iterations", "instructions", "loads", "stores", "flops")
        rows = Table((*_FOR_NOTEBOOKS, *LOOPS), self.loops, headings=headings, shown=MOST_ROWS)
        p, totals = self.provenance, self.totals
        ended = f"with exit code {p.exit_code}" if p.signal is None else f"by {signal_name(p.signal)}"
        notes = (
            f"traced {p.started} on {p.host} with {p.engine}, {format_seconds(p.wall_s)}; ended {ended}",
            f"loads {format_bytes(totals.load_bytes)}, stores {format_bytes(totals.store_bytes)}",
            *(() if p.complete else (f"incomplete: {p.incomplete_reason}",)),
            *p.notes,
        )
        return ShownTable.of(self.description, rows, notes)


_FOR_NOTEBOOKS = (
    Column("", "source", value=lambda loop: where(loop.file, loop.line, loop.module, loop.caller, loop.inlined)),
    Column("", "idioms", value=lambda loop: ", ".join(loop.idioms)),
)


def read_signature(path: str | os.PathLike[str]) -> Signature:
    """Read a signature file.

    Raises:
        SignatureError: there is none, or it is damaged or foreign.
    """
    return shown_as(Signature, file.read_signature(os.fspath(path)))


def signature_of(given: SignatureLike) -> Signature:
    """A signature from any of what the functions of the API take for one.

    Raises:
        SignatureError: a path names no signature file.
    """
    if isinstance(given, Signature):
        return given
    if isinstance(given, records.Signature):
        return shown_as(Signature, given)
    if isinstance(given, (str, os.PathLike)):
        return read_signature(given)
    try:
        return given.signature
    except AttributeError:
        raise TypeError(
            f"a signature is wanted, a traced run, or the path of a signature file, not {type(given).__name__}"
        ) from None


def info(signature: SignatureLike) -> Info:
    """Contents of a signature.

    Args:
        signature: a signature, a traced run, or the path of a signature file.

    Returns:
        How it was obtained, totals of the run, and its loops, those with most executed instructions first.

    Raises:
        SignatureError: a path names no signature file.
    """
    read = signature_of(signature)
    return Info(read.provenance, read.totals, len(read.blocks), tuple(summarise_loops(read)), described(read))


def described(signature: records.Signature) -> str:
    """Description of what was traced, in half a line."""
    p, totals = signature.provenance, signature.totals
    incomplete = "" if p.complete else ", incomplete"
    return (
        f"{shortened(shlex.join(p.command), 40)}: {format_count(totals.instructions)} instructions ({p.guest}), "
        f"{format_count(totals.loads)} loads, {format_count(totals.stores)} stores, "
        f"{format_count(totals.flops)} flops{incomplete}"
    )
