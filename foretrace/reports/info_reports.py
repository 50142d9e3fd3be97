"""Signatures as reports: how they were obtained, totals, caches, processes, events, and loops."""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from foretrace.base.names import brief_name, demangle, function_text, mangled_name, place_text, short_name
from foretrace.base.units import format_bytes, format_count, format_seconds
from foretrace.tracer.recording.recording import signal_name
from foretrace.tracer.signature.rank_records import RankRun
from foretrace.tracer.signature.records import (
    AddressRange,
    Frame,
    IdiomKind,
    LibraryCall,
    MemoryOperation,
    ProcessRecord,
    Sampling,
    Signature,
    merge_ranges,
    told_apart,
)
from foretrace.tracer.signature.selection import Selection

from . import event_reports, unseen_report
from .cache_reports import hierarchy_documents, hierarchy_tables
from .left_out import outside_loops, outside_loops_line, rest_line
from .model import COUNT, INTEGER, Column, Report, Section, Table, Text, document_of, for_programs


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
    calls: tuple[LibraryCall, ...] = ()
    frames: tuple[Frame, ...] = ()


def _largest(loop: LoopSummary) -> int:
    return max((r.range_bytes for r in loop.ranges), default=0)


def _ranges(loop: LoopSummary) -> str | None:
    return f"{len(loop.ranges)}, largest {format_bytes(_largest(loop))}" if loop.ranges else None


def _source(loop: LoopSummary) -> str:
    return place_text(loop.file, loop.line, loop.module, loop.caller, loop.inlined)


LOOPS = (
    Column("module"),
    Column("function", value=lambda loop: demangle(loop.function)),
    Column("mangled", value=lambda loop: mangled_name(loop.function)),
    *for_programs("file", "line", "depth", "entries"),
    Column("", "function", value=lambda loop: function_text(loop.function, loop.caller)),
    Column("", "source", value=_source),
    Column("executions", "iterations", COUNT, drop=3),
    Column("instructions", "instructions", COUNT),
    Column("flops", "flops", COUNT, drop=1),
    Column("loads", "loads", COUNT),
    Column("stores", "stores", COUNT),
    Column("", "ranges", value=_ranges, drop=2, left=False),
    Column("num_ranges", value=lambda loop: len(loop.ranges)),
    Column("largest_range_bytes", value=_largest),
    Column("", "idioms", value=lambda loop: ", ".join(told_apart(map(IdiomKind, loop.idioms)))),
    Column("idioms", value=lambda loop: ", ".join(loop.idioms)),
    *for_programs("caller", "inlined"),
)
"""Columns of `LoopSummary`."""
_HEADINGS = ("function", "source", "iterations", "instructions", "loads", "stores", "flops", "ranges", "idioms")


def _program(process: ProcessRecord) -> str:
    words = process.command
    return shlex.join([Path(words[0]).name, *words[1:]]) if words else "(forked)"


PROCESSES = (
    Column("number", "process", INTEGER),
    Column("parent", "begun by", INTEGER, lambda process: None if process.parent == process.number else process.parent),
    Column("instructions", "instructions", COUNT),
    Column("accesses", "accesses", COUNT),
    Column("threads", "threads", INTEGER, drop=1),
    Column("ended", "ended", value=lambda process: _ended(process)),
    Column("program", "program", value=_program),
    Column("problem", "remark"),
)
"""Columns of `ProcessRecord`."""


def info_report(signature: Signature, path: Path, top: int = 12) -> Report:
    """Report of `foretrace info` on a signature that was read from a file; tables with the first `top` rows."""
    loops = summarise_loops(signature)
    sections: list[Section] = [Text(_facts(signature))]
    for table in hierarchy_tables(signature.hierarchies, _all_accesses(signature)):
        sections += [Text([""]), table]
    sections += _process_sections(signature.provenance.processes, top)
    num_events = len(signature.events.events)
    if num_events and top:
        of = f"{min(top, num_events)} of {num_events}; all: foretrace events {shlex.quote(os.fspath(path))}"
        sources = [event_reports.EventSource(path.name, signature.events)]
        sections += [Text([""]), event_reports.events_table(sources, top, title=f"software-defined events, {of}")]
    return Report(
        "Signature", [*sections, *_loop_sections(signature, loops, top)], Table(LOOPS, loops),
        lambda: document(signature),
    )  # fmt: skip


def _process_sections(processes: Sequence[ProcessRecord], top: int) -> list[Section]:
    """Table of the processes that ran the most instructions."""
    if not processes or not top:
        return []
    ranked = sorted(processes, key=lambda process: process.instructions, reverse=True)
    title = f"processes by instructions, {min(top, len(processes))} of {len(processes)}"
    rest = rest_line([process.instructions for process in ranked], top, "processes", "instructions")
    return [Text([""]), Table(PROCESSES, ranked, title, shown=top, rest=rest)]


def _loop_sections(signature: Signature, loops: Sequence[LoopSummary], top: int) -> list[Section]:
    """The loops of most instructions, the work that they leave out, and who called those of libraries."""
    shown = loops[:top]
    of_loops = [loop.instructions for loop in loops]
    lines = [
        rest_line(of_loops, len(shown), "loops", "instructions", signature.totals.instructions),
        outside_loops_line(signature),
    ]
    lines = list(filter(None, lines))
    if not shown:
        return [Text(lines)]
    lines += [
        f"{brief_name(loop.function)} from {_calls(loop.calls)}"
        for loop in shown
        if len(loop.calls) > 1 and loop.calls[1].share >= _LEAST_CALL
    ]
    title = f"loops by instructions, {len(shown)} of {len(loops)}"
    return [Text([""]), Table(LOOPS, loops, title, _HEADINGS, shown), Text(lines)]


def _all_accesses(signature: Signature) -> int:
    return sum(operation.executions for operation in signature.operations)


def document(signature: Signature) -> dict[str, Any]:
    """The signature's JSON face."""
    provenance = msgspec.to_builtins(signature.provenance)
    return {
        "schema": "foretrace.info/1",
        "complete": provenance.pop("complete"),
        "command": provenance.pop("command"),
        "provenance": provenance,
        "totals": msgspec.to_builtins(signature.totals),
        "blocks": len(signature.blocks),
        "hierarchies": list(hierarchy_documents(signature.hierarchies, _all_accesses(signature))),
        "reuse": None if signature.reuse is None else signature.reuse.document,
        "loops": [
            asdict(loop)
            | {"function": demangle(loop.function), "mangled": mangled_name(loop.function)}
            | {"ranges": [msgspec.to_builtins(r) | {"bytes": r.range_bytes} for r in loop.ranges]}
            | {
                "calls": [
                    {"called": demangle(call.called), "function": demangle(call.function)}
                    | document_of(call, "file line share")
                    for call in loop.calls
                ],
                "frames": [{"function": demangle(one.function)} | document_of(one, "file line") for one in loop.frames],
            }
            for loop in summarise_loops(signature)
        ],
        "outside_loops": [
            {"module": module, "function": demangle(function), "caller": demangle(caller), "instructions": instructions}
            for (module, function, caller), instructions in outside_loops(signature).most_common()
        ],
        "parallel_run": None
        if signature.ranks is None
        else {
            "library": signature.ranks.library,
            "processor": signature.ranks.processor,
            "ranks": [
                {
                    "rank": rank,
                    "calls": int(record.calls["times"].sum()),
                    "steps": len(record.steps),
                    "processor_s": record.processor_s,
                    "wall_s": record.wall_s,
                    "complete": record.is_complete,
                    "left_out": record.left_out,
                }
                for rank, record in enumerate(signature.ranks.ranks)
            ],
        },
        "events": [event_reports.event_document(event) for event in signature.events.events],
    }


def _facts(signature: Signature) -> list[str]:
    """Lines about the trace: what was traced, how, and what the whole run did."""
    p, totals = signature.provenance, signature.totals
    lines: list[str] = []
    lines.append(f"command       {shlex.join(p.command)}")
    waited_s = 0.0 if p.waiting is None else p.waiting.waited_s
    waited = f", {format_seconds(waited_s)} of them waiting" if waited_s >= 1e-3 else ""
    lines.append(f"traced        {p.started} on {p.host} with {p.engine}, {format_seconds(p.wall_s)}{waited}")
    lines.append(f"complete      {'yes' if p.complete else 'no: ' + p.incomplete_reason}")
    ended = f"with exit code {p.exit_code}" if p.signal is None else f"by {signal_name(p.signal)}"
    raised = f" (uncaught {p.exception})" if p.exception else ""
    lines.append(f"ended         {ended}{raised}")
    for note in p.notes:
        lines.append(f"note          {note}")
    if p.unseen_calls or p.untraced_children or p.untraced_threads or p.decoded_share < 1:
        lines.append(
            f"not seen      {p.unseen_calls} array calls, {p.untraced_children} child processes, "
            f"{p.untraced_threads} threads, {1 - p.decoded_share:.2%} of instructions not decoded"
        )
    if p.unseen.operations:
        worst = ", ".join(f"{o.name} {o.calls}" for o in p.unseen.operations[:5])
        lines.append(
            f"array calls   not seen: {p.unseen.calls_share:.1%} of the calls, {p.unseen.bytes_share:.1%} "
            f"({format_bytes(p.unseen.bytes)}) of the bytes; {worst}"
        )
    if p.unseen.time_share or unseen_report.is_notable(p.unseen):
        lines.append(f"time          {unseen_report.line(p.unseen)}")
    if signature.ranks is not None:
        lines.append(f"parallel run  {_parallel_run(signature.ranks)}")
    if p.processes:
        followed = sum(process.followed for process in p.processes)
        beside = len(p.processes) - followed
        others = f"; {beside} not followed, which ran beside the trace" if beside else ""
        lines.append(f"processes     {followed} followed and summed up, each with simulated caches of its own{others}")
    if p.selection is not None:
        lines += _selection_lines(p.selection)
    if p.sampling is not None:
        lines += _sampling_lines(p.sampling)
        if signature.data_flow is None:
            lines.append("data flow     none, as accesses were recorded in bursts; trace --accuracy high has it")
    kind = "" if p.guest == "python" else f" ({p.guest})"
    lines.append(f"instructions  {format_count(totals.instructions)}{kind} in {len(signature.blocks)} basic blocks")
    lines.append(f"loads         {format_count(totals.loads)}, {format_bytes(totals.load_bytes)}")
    lines.append(f"stores        {format_count(totals.stores)}, {format_bytes(totals.store_bytes)}")
    lines.append(f"flops         {format_count(totals.flops)}")
    if signature.reuse is not None:
        reuse = signature.reuse
        lines.append(
            f"reuse         distances of {_said_of_bursts(reuse.burst_share, reuse.bursts)}, and of 1 in "
            f"{1 / reuse.sampling_rate:.0f} blocks of memory, for caches not simulated"
        )
    return lines


def _said_of_bursts(share: float, bursts: int) -> str:
    """Text on the accesses whose distances were recorded: all of a short run's, or those in bursts."""
    if not bursts:
        return "all accesses" if share >= 1 else f"{share:.1%} of the accesses"
    return f"{share:.1%} of the accesses, in {bursts} burst{'s' if bursts != 1 else ''}"


_LEAST_CHOSEN_SHARE = 0.01


def _selection_lines(selection: Selection) -> list[str]:
    """Who asked what the processor has, and how much of the run was chosen by that."""
    lines, margin = [], " " * 14
    asked = ", ".join(f"{one.module.rpartition('/')[2]} ({one.how})" for one in selection.questions)
    if selection.share < _LEAST_CHOSEN_SHARE:
        if asked:
            lines.append(f"processor     asked for its features by {asked}; little of the run was chosen by them")
        return lines
    most = ", ".join(
        f"{short_name(one.function) or '?'} of {one.module.rpartition('/')[2]} {one.share:.0%}"
        for one in selection.functions[:3]
    )
    share = f"{selection.share:.0%} of the instructions"
    lines.append(f"processor     {share} are in code chosen by its features: {most}")
    if asked:
        lines.append(f"{margin}asked by {asked}")
    if selection.lacking:
        lines.append(f"{margin}this machine has what the engine lacks: {', '.join(selection.lacking)}")
    return lines


def _sampling_lines(sampling: Sampling) -> list[str]:
    """Lines on how accesses were sampled, and how sure the misses are."""
    lines, margin = [], " " * 14
    early = f" and {sampling.early_bursts} for new code" if sampling.early_bursts else ""
    lines.append(
        f"accuracy      {sampling.accuracy}: {sampling.recorded_share:.1%} of the accesses recorded, in "
        f"{sampling.bursts} bursts{early} (seed {sampling.seed}); the first {format_count(sampling.exact_accesses)} all"
    )
    lines.append(f"{margin}counts are exact; misses, reuse, patterns and ranges are estimates")
    for level in sampling.misses:
        interval = f"{format_count(level.low)} to {format_count(level.high)} with 95 % confidence"
        name = f"{level.hierarchy} {level.level}"
        lines.append(f"{margin}{name}: {format_count(level.misses)} misses, {interval}")
    if sampling.unmeasured_operations:
        operations = f"{sampling.unmeasured_operations} operations, {sampling.unmeasured_share:.2%} of the accesses,"
        lines.append(f"{margin}{operations} ran in no burst: their misses are guesses")
    return lines


def _parallel_run(run: RankRun) -> str:
    calls = sum(int(record.calls["times"].sum()) for record in run.ranks)
    steps = sum(len(record.steps) for record in run.ranks)
    timed = "" if any(len(record.work) for record in run.ranks) else ", computation timed"
    library = " ".join((run.library.splitlines() or [""])[0].split()) or "an MPI library"
    return f"{len(run.ranks)} ranks of {library}: {calls:,} calls in {steps:,} steps{timed}"


def _ended(process: ProcessRecord) -> str:
    """Exit code or signal of a process; a dash where nobody that was followed waited for it."""
    if process.signal is not None:
        return signal_name(process.signal)
    return "-" if process.exit_code is None else str(process.exit_code)


_LEAST_CALL = 0.01
"""Share of the instructions of a library's loop from which on a call besides the first is printed."""


def _calls(calls: Sequence[LibraryCall]) -> str:
    """The program's calls of a library's loop, those with the most instructions first."""
    places = [
        (
            place_text(call.file, call.line, "", call.function).removeprefix("from ") if call.function else "elsewhere",
            call,
        )
        for call in calls
        if call.share >= _LEAST_CALL
    ]
    return ", ".join(f"{place} ({call.share:.0%})" for place, call in places)


def summarise_loops(signature: Signature) -> list[LoopSummary]:
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
