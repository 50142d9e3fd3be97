"""Signatures: what a program did, and what `info` shows of it."""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from foretrace.base.names import demangle, function_text
from foretrace.base.units import format_bytes, format_count, format_seconds
from foretrace.tracer.recording.recording import signal_name
from foretrace.tracer.signature import file, records
from foretrace.tracer.signature.records import AddressRange, MemoryOperation, merge_ranges

from .views import MOST_ROWS, Shown, ShownTable, data_frame, shortened, shown_as, where

if TYPE_CHECKING:
    import pandas


class HasSignature(Protocol):
    """What a signature is taken from: a traced run."""

    @property
    def signature(self) -> Signature:
        """What the program did."""
        ...


SignatureLike: TypeAlias = "records.Signature | HasSignature | str | os.PathLike[str]"
"""A signature, a traced run, or the path of a signature file."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Signature(Shown, records.Signature):
    """What a program did, independent of any machine.

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


@dataclass(frozen=True, slots=True)
class LoopSummary:
    """A loop with what its own blocks (not those of loops inside it) did; for the last four see `records.Loop`."""

    module: str
    function: str
    file: str
    line: int
    depth: int
    entries: int
    executions: int
    instructions: int
    flops: int
    loads: int
    stores: int
    ranges: tuple[AddressRange, ...]
    idioms: tuple[str, ...]
    caller: str = ""
    inlined: str = ""
    calls: tuple[records.LibraryCall, ...] = ()
    frames: tuple[records.Frame, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Info(Shown):
    """What a signature holds: how it was obtained, totals, and its loops, those with most instructions first."""

    provenance: records.Provenance
    totals: records.Totals
    num_blocks: int
    loops: tuple[LoopSummary, ...]
    description: str

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each loop: where it is, how often it ran, what it did, the bytes of the ranges it touched."""
        return data_frame(LOOP_COLUMNS, map(_loop_row, self.loops))

    def _line(self) -> str:
        return self.description

    def _table(self) -> ShownTable:
        headings = ("function", "source", "idioms", "iterations", "instructions", "loads", "stores", "flops")
        rows = [
            (
                function_text(loop.function, loop.caller),
                where(loop.file, loop.line, loop.module, loop.caller, loop.inlined), ", ".join(loop.idioms),
                format_count(loop.executions), format_count(loop.instructions), format_count(loop.loads),
                format_count(loop.stores), format_count(loop.flops),
            )
            for loop in self.loops[:MOST_ROWS]
        ]  # fmt: skip
        p, totals = self.provenance, self.totals
        ended = f"with exit code {p.exit_code}" if p.signal is None else f"by {signal_name(p.signal)}"
        notes = (
            f"traced {p.started} on {p.host} with {p.engine}, {format_seconds(p.wall_s)}; ended {ended}",
            f"loads {format_bytes(totals.load_bytes)}, stores {format_bytes(totals.store_bytes)}",
            *(() if p.complete else (f"incomplete: {p.incomplete_reason}",)),
            *p.notes,
        )
        return ShownTable(self.description, headings, rows, len(self.loops), 3, notes)


LOOP_COLUMNS = (
    "module", "function", "mangled", "file", "line", "depth", "entries", "executions", "instructions", "flops", "loads",
    "stores", "num_ranges", "largest_range_bytes", "idioms", "caller", "inlined",
)  # fmt: skip


def _loop_row(loop: LoopSummary) -> dict[str, Any]:
    name = demangle(loop.function)
    return {field: getattr(loop, field) for field in LOOP_COLUMNS if field in LoopSummary.__slots__} | {
        "function": name,
        "mangled": loop.function if name != loop.function else None,
        "num_ranges": len(loop.ranges),
        "largest_range_bytes": max((r.range_bytes for r in loop.ranges), default=0),
        "idioms": ", ".join(loop.idioms),
    }


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
    """What a signature holds.

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
    """What was traced, in half a line."""
    p, totals = signature.provenance, signature.totals
    incomplete = "" if p.complete else ", incomplete"
    return (
        f"{shortened(shlex.join(p.command), 40)}: {format_count(totals.instructions)} instructions ({p.guest}), "
        f"{format_count(totals.loads)} loads, {format_count(totals.stores)} stores, "
        f"{format_count(totals.flops)} flops{incomplete}"
    )


def summarise_loops(signature: records.Signature) -> list[LoopSummary]:
    """All loops, those with most executed instructions first."""
    blocks_of, operations_of, idioms_of = defaultdict(list), defaultdict(list), defaultdict(set)
    for block in signature.blocks:
        if block.loop_id is not None:
            blocks_of[block.loop_id].append(block)
    for operation in signature.operations:
        loop_id = signature.blocks[operation.block_id].loop_id
        if loop_id is not None:
            operations_of[loop_id].append(operation)
    for idiom in signature.idioms:
        idioms_of[idiom.loop_id].add(str(idiom.kind))
    summaries = []
    for loop in signature.loops:
        blocks, operations = blocks_of[loop.loop_id], operations_of[loop.loop_id]
        summaries.append(
            LoopSummary(
                module=loop.module,
                function=loop.function,
                file=loop.file,
                line=loop.line,
                depth=loop.depth,
                entries=loop.entries,
                executions=loop.iterations,
                instructions=sum(block.executions * block.instructions for block in blocks),
                flops=sum(block.executions * block.flops for block in blocks),
                loads=_executions(operations, is_store=False),
                stores=_executions(operations, is_store=True),
                ranges=merge_ranges(AddressRange(op.first, op.last_exclusive) for op in operations),
                idioms=tuple(sorted(idioms_of[loop.loop_id])),
                caller=loop.caller,
                inlined=loop.inlined,
                calls=loop.calls,
                frames=loop.frames,
            )
        )
    return sorted(summaries, key=lambda summary: summary.instructions, reverse=True)


def _executions(operations: Iterable[MemoryOperation], *, is_store: bool) -> int:
    return sum(operation.executions for operation in operations if operation.is_store == is_store)
