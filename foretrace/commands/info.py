"""`foretrace info`: show what a signature holds."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from foretrace.api.signatures import Signature, read_signature, summarise_loops
from foretrace.base.errors import OutputError, SignatureError
from foretrace.base.file_kinds import PICTURE, STACKS, FileKind
from foretrace.base.files import check_output, write_atomically
from foretrace.base.names import brief_name, demangle, function_text, place_text, short_name
from foretrace.base.terminal import console, plain, print_json, table
from foretrace.base.units import format_bytes, format_count, format_seconds
from foretrace.command_line.verb import Verb
from foretrace.reports import data_flow_reports, dependence_reports, event_reports, tree_reports, unseen_report
from foretrace.reports.cache_reports import hierarchy_documents, show_hierarchies
from foretrace.reports.flame_graph import flame_graph, folded_stacks
from foretrace.reports.left_out import outside_loops, outside_loops_line, rest_line, show_rest
from foretrace.tracer.recording.recording import signal_name
from foretrace.tracer.signature.records import IdiomKind, LibraryCall, ProcessRecord, Sampling, told_apart
from foretrace.tracer.signature.selection import Selection
from foretrace.tracer.signature.tree_records import ExecutionTree

if TYPE_CHECKING:
    from foretrace.profiles.profile import Profile
    from foretrace.replay.base.spread import Floats


@click.command(cls=Verb, epilog="Example: foretrace info app.sig --json")
@click.argument("signature", type=click.Path(path_type=Path))
@click.option("--top", default=12, show_default=True, type=click.IntRange(min=0), help="How many loops to show.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with all loops, or all of the tree.")
@click.option("--tree", "shows_tree", is_flag=True, help="The execution tree instead: what ran inside what.")
@click.option("--data-flow", "shows_flow", is_flag=True, help="Which node of the tree uses whose data instead.")
@click.option(
    "--dependences",
    "shows_dependences",
    is_flag=True,
    help="What loops carry from one iteration to the next instead (of trace --dependences).",
)
@click.option(
    "--by",
    type=click.Choice(["instructions", "bytes", "time"]),
    default="instructions",
    show_default=True,
    help="What the tree and the flame graph weigh; time is that predicted for --machine.",
)
@click.option("--machine", metavar="M", help="With --by time: a host's name or TOML file.")
@click.option(
    "--flame",
    type=click.Path(path_type=Path),
    metavar="F.svg|F.txt",
    help="Write a flame graph of the tree: a picture, or folded stacks.",
)
@click.option("--force", is_flag=True, help="Overwrite a flame graph that foretrace wrote.")
def command(
    signature: Path, top: int, as_json: bool, shows_tree: bool, shows_flow: bool, shows_dependences: bool, by: str,
    machine: str | None, flame: Path | None, force: bool,
) -> None:  # fmt: skip
    """Show what SIGNATURE holds: how it was obtained, totals, hit rates, and the loops with their address ranges."""
    if shows_dependences + shows_flow + (shows_tree or flame is not None) > 1:
        raise click.UsageError("--data-flow, --dependences, and --tree or --flame show different tables; choose one")
    if (machine is not None) != (by == tree_reports.TIME):
        raise click.UsageError("--by time is predicted for a machine: name it with --machine, and give both or neither")
    if by == tree_reports.TIME and not shows_tree and flame is None:
        raise click.UsageError("--by time is of the execution tree: give --tree or --flame, too")
    kind = None if flame is None else _flame_kind(flame)
    if flame is not None and kind is not None:
        check_output(flame, kind, force=force)
    read = read_signature(signature)
    if shows_dependences:
        _show_dependences(read, signature, top, as_json=as_json)
        return
    if shows_flow:
        _show_flow(read, signature, top, as_json=as_json)
        return
    if not shows_tree and flame is None:
        if as_json:
            print_json(document(read))
        else:
            _show(read, signature, top)
        return
    tree = _tree_of(read, signature)
    profile, time_s = (None, None) if machine is None else _predicted(read, machine)
    weighed = tree_reports.weigh(read, tree, by, time_s)
    if flame is not None and kind is not None:
        on = by if profile is None else f"time predicted on {profile.name}"
        write_atomically(flame, _flame(read, weighed, on, kind).encode("utf-8", "replace"), kind, force=force)
    if as_json:
        print_json(tree_reports.document(read, tree, None if profile is None else profile.name, time_s))
    elif shows_tree:
        if profile is not None:
            text = f"{profile.title}: {format_seconds(weighed.total)}, one core doing all work"
            console().print(plain(text), soft_wrap=True)
        tree_reports.show_tree(weighed)


def _predicted(signature: Signature, machine: str) -> tuple[Profile, Floats]:
    """A machine, and the time of each node there."""
    from foretrace.profiles.library import find
    from foretrace.replay.node.node_times import node_times

    profile = find(machine)
    return profile, node_times(signature, profile)


def _show_dependences(read: Signature, path: Path, top: int, *, as_json: bool) -> None:
    tree = _tree_of(read, path)
    if not read.examined_loops:
        raise SignatureError(f"{path}: no loop's dependences were looked for; trace it again with --dependences")
    if as_json:
        print_json(dependence_reports.document(read, tree))
    else:
        dependence_reports.show_dependences(read, tree, top)


def _show_flow(signature: Signature, path: Path, top: int, *, as_json: bool) -> None:
    tree, flow = _tree_of(signature, path), signature.data_flow
    if flow is None:
        why = "--no-data-flow left it out, or it had too many places"
        if signature.provenance.sampling is not None:
            why = "accesses were recorded in bursts, and what is stored between them is not seen: writers are unknown"
        raise SignatureError(f"{path}: has no data flow: {why}; trace the program again, with --accuracy high")
    if as_json:
        print_json(data_flow_reports.document(tree, flow))
    else:
        data_flow_reports.show(tree, flow, top)


def _flame_kind(path: Path) -> FileKind:
    kinds = {".svg": PICTURE, ".txt": STACKS}
    if path.suffix not in kinds:
        raise OutputError(f"{path}: flame graphs end in .svg (a picture) or .txt (folded stacks)")
    return kinds[path.suffix]


def _tree_of(signature: Signature, path: Path) -> ExecutionTree:
    if signature.tree is None:
        engine = signature.provenance.engine
        raise SignatureError(
            f"{path}: has no execution tree: {engine} did not tell it, --no-tree left it out, or it is of an "
            "older release; trace the program again"
        )
    return signature.tree


def _flame(signature: Signature, weighed: tree_reports.WeighedTree, by: str, kind: FileKind) -> str:
    names = tree_reports.node_names(weighed.tree)
    title = shlex.join(signature.provenance.command)
    if kind is STACKS:
        return folded_stacks(weighed.tree, names, weighed.of_stacks, title)
    return flame_graph(weighed.tree, names, weighed.inclusive, f"{title[:100]}: {by}", weighed.shown)


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
            | {
                "function": demangle(loop.function),
                "mangled": loop.function if demangle(loop.function) != loop.function else None,
            }
            | {"ranges": [msgspec.to_builtins(r) | {"bytes": r.range_bytes} for r in loop.ranges]}
            | {
                "calls": [call_document(call) for call in loop.calls],
                "frames": [
                    {"function": demangle(one.function), "file": one.file, "line": one.line} for one in loop.frames
                ],
            }
            for loop in summarise_loops(signature)
        ],
        "outside_loops": [
            {"module": module, "function": demangle(function), "caller": demangle(caller), "instructions": instructions}
            for (module, function, caller), instructions in outside_loops(signature).most_common()
        ],
        "events": [event_reports.event_document(event) for event in signature.events.events],
    }


def call_document(call: LibraryCall) -> dict[str, Any]:
    """A call of a library by the program, as JSON; of all that are not told apart, only the share."""
    return {
        "called": demangle(call.called),
        "function": demangle(call.function),
        "file": call.file,
        "line": call.line,
        "share": call.share,
    }


def _show(signature: Signature, path: Path, top: int) -> None:
    out, p, totals = console(), signature.provenance, signature.totals
    out.print(f"command       {plain(shlex.join(p.command))}")
    waited_s = 0.0 if p.waiting is None else p.waiting.waited_s
    waited = f", {format_seconds(waited_s)} of them waiting" if waited_s >= 1e-3 else ""
    out.print(
        f"traced        {plain(p.started)} on {plain(p.host)} with {plain(p.engine)}, "
        f"{format_seconds(p.wall_s)}{waited}"
    )
    out.print(f"complete      {'yes' if p.complete else 'no: ' + plain(p.incomplete_reason)}")
    ended = f"with exit code {p.exit_code}" if p.signal is None else f"by {signal_name(p.signal)}"
    raised = f" (uncaught {plain(p.exception)})" if p.exception else ""
    out.print(f"ended         {ended}{raised}")
    for note in p.notes:
        out.print(f"note          {plain(note)}")
    if p.unseen_calls or p.untraced_children or p.untraced_threads or p.decoded_share < 1:
        out.print(
            f"not seen      {p.unseen_calls} array calls, {p.untraced_children} child processes, "
            f"{p.untraced_threads} threads, {1 - p.decoded_share:.2%} of instructions not decoded"
        )
    if p.unseen.operations:
        worst = ", ".join(f"{o.name} {o.calls}" for o in p.unseen.operations[:5])
        out.print(
            f"array calls   not seen: {p.unseen.calls_share:.1%} of the calls, {p.unseen.bytes_share:.1%} "
            f"({format_bytes(p.unseen.bytes)}) of the bytes; {plain(worst)}"
        )
    if p.unseen.time_share or unseen_report.is_notable(p.unseen):
        out.print(f"time          {plain(unseen_report.line(p.unseen))}")
    if p.processes:
        followed = sum(process.followed for process in p.processes)
        beside = len(p.processes) - followed
        others = f"; {beside} not followed, which ran beside the trace" if beside else ""
        out.print(f"processes     {followed} followed and summed up, each with simulated caches of its own{others}")
    if p.selection is not None:
        _show_selection(p.selection)
    if p.sampling is not None:
        _show_sampling(p.sampling)
        if signature.data_flow is None:
            out.print("data flow     none, as accesses were recorded in bursts; trace --accuracy high has it")
    kind = "" if p.guest == "python" else f" ({plain(p.guest)})"
    out.print(f"instructions  {format_count(totals.instructions)}{kind} in {len(signature.blocks)} basic blocks")
    out.print(f"loads         {format_count(totals.loads)}, {format_bytes(totals.load_bytes)}")
    out.print(f"stores        {format_count(totals.stores)}, {format_bytes(totals.store_bytes)}")
    out.print(f"flops         {format_count(totals.flops)}")
    if signature.reuse is not None:
        reuse = signature.reuse
        out.print(
            f"reuse         distances of {_said_of_bursts(reuse.burst_share, reuse.bursts)}, and of 1 in "
            f"{1 / reuse.sampling_rate:.0f} blocks of memory, for caches not simulated"
        )
    show_hierarchies(signature.hierarchies, _all_accesses(signature))
    _show_processes(signature.provenance.processes, top)
    _show_events(signature, path, top)
    _show_loops(signature, top)


def _said_of_bursts(share: float, bursts: int) -> str:
    """Which accesses' distances were recorded: all of a short run's, or those in bursts."""
    if not bursts:
        return "all accesses" if share >= 1 else f"{share:.1%} of the accesses"
    return f"{share:.1%} of the accesses, in {bursts} burst{'s' if bursts != 1 else ''}"


_LEAST_CHOSEN_SHARE = 0.01


def _show_selection(selection: Selection) -> None:
    """Who asked what the processor has, and how much of the run was chosen by that."""
    out, margin = console(), " " * 14
    asked = ", ".join(f"{one.module.rpartition('/')[2]} ({one.how})" for one in selection.questions)
    if selection.share < _LEAST_CHOSEN_SHARE:
        if asked:
            out.print(f"processor     asked for its features by {plain(asked)}; little of the run was chosen by them")
        return
    most = ", ".join(
        f"{short_name(one.function) or '?'} of {one.module.rpartition('/')[2]} {one.share:.0%}"
        for one in selection.functions[:3]
    )
    share = f"{selection.share:.0%} of the instructions"
    out.print(f"processor     {share} are in code chosen by its features: {plain(most)}")
    if asked:
        out.print(f"{margin}asked by {plain(asked)}")
    if selection.lacking:
        out.print(f"{margin}this machine has what the engine lacks: {plain(', '.join(selection.lacking))}")


def _show_sampling(sampling: Sampling) -> None:
    """How accesses were sampled, and how sure the misses are."""
    out, margin = console(), " " * 14
    early = f" and {sampling.early_bursts} for new code" if sampling.early_bursts else ""
    out.print(
        f"accuracy      {plain(sampling.accuracy)}: {sampling.recorded_share:.1%} of the accesses recorded, in "
        f"{sampling.bursts} bursts{early} (seed {sampling.seed}); the first {format_count(sampling.exact_accesses)} all"
    )
    out.print(f"{margin}counts are exact; misses, reuse, patterns and ranges are estimates")
    for level in sampling.misses:
        interval = f"{format_count(level.low)} to {format_count(level.high)} with 95 % confidence"
        name = f"{plain(level.hierarchy)} {plain(level.level)}"
        out.print(f"{margin}{name}: {format_count(level.misses)} misses, {interval}")
    if sampling.unmeasured_operations:
        operations = f"{sampling.unmeasured_operations} operations, {sampling.unmeasured_share:.2%} of the accesses,"
        out.print(f"{margin}{operations} ran in no burst: their misses are guesses")


def _show_processes(processes: Sequence[ProcessRecord], top: int) -> None:
    """Those that ran the most instructions."""
    if not processes or not top:
        return
    rows = table(
        "process", "begun by", "instructions", "accesses", "threads", "ended", "program", "remark",
        title=f"processes by instructions, {min(top, len(processes))} of {len(processes)}",
        left=("ended", "program", "remark"), drop=("threads",),
    )  # fmt: skip
    ranked = sorted(processes, key=lambda process: process.instructions, reverse=True)
    for process in ranked[:top]:
        words = process.command
        program = shlex.join([Path(words[0]).name, *words[1:]]) if words else "(forked)"
        rows.add_row(
            str(process.number), "-" if process.number == 0 else str(process.parent),
            format_count(process.instructions), format_count(process.accesses), str(process.threads),
            _ended(process), plain(program), plain(process.problem),
        )  # fmt: skip
    out = console()
    out.print()
    out.print(rows)
    show_rest([process.instructions for process in ranked], top, "processes", "instructions")


def _show_events(signature: Signature, path: Path, top: int) -> None:
    """The first software-defined events."""
    num_events = len(signature.events.events)
    if not num_events or not top:
        return
    of = f"{min(top, num_events)} of {num_events}; all: foretrace events {shlex.quote(os.fspath(path))}"
    out = console()
    out.print()
    sources = [event_reports.EventSource(path.name, signature.events)]
    out.print(event_reports.events_table(sources, top, title=f"software-defined events, {plain(of)}"))


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


def _show_left_out(signature: Signature, of_loops: Sequence[int], shown: int) -> None:
    """Lines on the work that the table of loops leaves out."""
    lines = (
        rest_line(of_loops, shown, "loops", "instructions", signature.totals.instructions),
        outside_loops_line(signature),
    )
    for line in filter(None, lines):
        console().print(plain(line))


def _show_loops(signature: Signature, top: int) -> None:
    summaries = summarise_loops(signature)
    out = console()
    if not summaries or not top:
        _show_left_out(signature, [loop.instructions for loop in summaries], 0)
        return
    rows = table(
        "function", "source", "iterations", "instructions", "loads", "stores", "flops", "ranges", "idioms",
        title=f"loops by instructions, {min(top, len(summaries))} of {len(summaries)}",
        left=("function", "source", "idioms"), drop=("flops", "ranges", "iterations"),
    )  # fmt: skip
    for loop in summaries[:top]:
        source = place_text(loop.file, loop.line, loop.module, loop.caller, loop.inlined)
        largest = max((r.range_bytes for r in loop.ranges), default=0)
        ranges = f"{len(loop.ranges)}, largest {format_bytes(largest)}" if loop.ranges else "-"
        rows.add_row(
            plain(function_text(loop.function, loop.caller)), plain(source), format_count(loop.executions),
            format_count(loop.instructions), format_count(loop.loads), format_count(loop.stores),
            format_count(loop.flops), ranges, ", ".join(told_apart(map(IdiomKind, loop.idioms))),
        )  # fmt: skip
    out.print()
    out.print(rows)
    _show_left_out(signature, [loop.instructions for loop in summaries], top)
    for loop in summaries[:top]:
        if len(loop.calls) > 1 and loop.calls[1].share >= _LEAST_CALL:
            out.print(plain(f"{brief_name(loop.function)} from {_calls(loop.calls)}"))
