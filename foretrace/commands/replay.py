"""`foretrace replay`: a program's jobs on a machine's cores, memory and accelerators."""

from __future__ import annotations

from pathlib import Path

import click

from foretrace.base.terminal import console, plain, print_json, table
from foretrace.base.units import format_bytes, format_seconds
from foretrace.command_line.verb import Verb
from foretrace.profiles.library import find
from foretrace.replay.base.records import Model
from foretrace.replay.node.machine_run import Offloading
from foretrace.replay.node.records import NodeReplay
from foretrace.replay.node.replay import replay_on
from foretrace.replay.offload.decisions import Policy
from foretrace.reports.model import Report, Table
from foretrace.reports.prediction_reports import assumed_figures
from foretrace.reports.renderers import print_report
from foretrace.reports.replay_documents import document
from foretrace.reports.replay_groups import groups_of
from foretrace.reports.timelines import check_timeline, write_timeline
from foretrace.tracer.signature.file import read_signature

_MOST_ENTITIES = 16
_MOST_PATH = 8
_LEAST_SHARE = 1e-3


@click.command(cls=Verb, epilog="Example: foretrace replay app.sig --machine epyc-9654 --copies 8 -o timeline.json.gz")
@click.argument("signature", type=click.Path(path_type=Path))
@click.option("--machine", required=True, metavar="M", help="The host: a machine's name or TOML file.")
@click.option("--cores", type=int, metavar="N", help="Use this many of its cores; all if not given.")
@click.option("--threads", type=int, metavar="N", help="Threads of each copy; as traced if not given.")
@click.option("--copies", type=int, default=1, show_default=True, metavar="N", help="Copies that run at the same time.")
@click.option("--accelerator", metavar="A", help="An accelerator of the host: a machine's name or TOML file.")
@click.option("--accelerators", type=int, metavar="K", help="How many there are; 1 if not given.")
@click.option(
    "--policy",
    type=click.Choice([str(policy) for policy in Policy]),
    help="Which loops go to it; greedy if not given.",
)
@click.option(
    "--model",
    type=click.Choice([str(model) for model in Model]),
    default=str(Model.CORE),
    show_default=True,
    help="What gives a loop its time: the detailed core model, or the convolution as published.",
)
@click.option(
    "-o", "--output", "outputs", multiple=True, type=click.Path(path_type=Path),
    help="Timeline to write: .json.gz for ui.perfetto.dev, or .svg, .png, .pdf (repeatable).",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite timelines and pictures that foretrace wrote.")
@click.option("--assumptions", is_flag=True, help="Say in full what was assumed where a profile is silent.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    signature: Path, machine: str, cores: int | None, threads: int | None, copies: int, accelerator: str | None,
    accelerators: int | None, policy: str | None, model: str, outputs: tuple[Path, ...], force: bool, assumptions: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Replay SIGNATURE's program on a machine: its threads, or copies of it, share cores, caches, memory, devices."""
    if accelerator is None and (accelerators is not None or policy not in (None, str(Policy.NEVER))):
        raise click.UsageError("--accelerators and --policy are about an accelerator: name it with --accelerator")
    for output in outputs:
        check_timeline(output, force=force)
    offloading = None
    if accelerator is not None:
        count = 1 if accelerators is None else accelerators
        offloading = Offloading(find(accelerator), count, Policy(policy or Policy.GREEDY))
    replay = replay_on(
        read_signature(signature), find(machine), cores=cores, threads=threads, copies=copies, offloading=offloading,
        model=Model(model),
    )  # fmt: skip
    for output in outputs:
        write_timeline(replay, output, force=force)
    if as_json:
        print_json(document(replay))
    else:
        _show(replay, assumptions=assumptions)


def _show(replay: NodeReplay, *, assumptions: bool) -> None:
    out = console()
    jobs = "1 copy" if replay.copies == 1 else f"{replay.copies} copies"
    cores = "1 core" if replay.cores == 1 else f"{replay.cores} cores"
    out.print(
        f"{plain(replay.title)}, {jobs} on {cores}: {format_seconds(replay.makespan_s)} "
        f"({format_seconds(replay.low_s)} to {format_seconds(replay.high_s)})"
    )
    if replay.copies > 1 and replay.alone_s > 0:
        slowdown = replay.makespan_s / replay.alone_s
        out.print(
            f"one copy alone takes {format_seconds(replay.alone_s)}: {slowdown:.2f} times as long with the others"
        )
    for level in replay.caches:
        if level.jobs > 1:
            out.print(
                f"{plain(level.name)}: {level.jobs} copies share {format_bytes(level.size_bytes)}, each holds "
                f"{format_bytes(level.held_bytes)}"
            )
    _show_entities(replay)
    _show_resources(replay)
    _show_path(replay)
    _show_shorter(replay)
    _show_decisions(replay)
    for warning in replay.warnings:
        out.print(f"warning: {plain(warning)}")
    print_report(Report("", assumed_figures(replay.assumptions, in_full=assumptions), Table((), ())))


def _show_entities(replay: NodeReplay) -> None:
    outcome = replay.outcome
    rows = table("thread", "busy", "waits", "ends", title=None)

    def times(number: int) -> tuple[str, ...]:
        seconds = (outcome.busy_s[number], replay.wait_s[number], outcome.end_s[number])
        return tuple(format_seconds(float(time_s)) for time_s in seconds)

    groups = groups_of([entity.name for entity in outcome.compiled.entities], times)
    for group in groups[:_MOST_ENTITIES]:
        rows.add_row(plain(group.title), *times(group.members[0]))
    out = console()
    out.print()
    out.print(rows)
    left = sum(len(group.members) for group in groups[_MOST_ENTITIES:])
    if left:
        out.print(f"and {left} more: --json has all")


def _show_resources(replay: NodeReplay) -> None:
    rows = table("resource", "used", "amount", "full for", "waits", left=("resource",))
    for use in replay.resources:
        if use.kind == "lock" and not use.waits:
            continue
        amount = format_bytes(use.amount) if use.unit == "bytes" else format_seconds(use.amount)
        full = format_seconds(use.full_s) if use.kind == "memory" else "-"
        rows.add_row(plain(use.name), f"{use.utilisation:.1%}", amount, full, str(use.waits) if use.waits else "-")
    out = console()
    out.print()
    out.print(rows)


def _show_path(replay: NodeReplay) -> None:
    out = console()
    rows = table("share", "time", "critical path", left=("critical path",))
    parts = [part for part in replay.critical_path if part.share >= _LEAST_SHARE][:_MOST_PATH]
    for part in parts:
        rows.add_row(f"{part.share:.1%}", format_seconds(part.time_s), plain(part.activity))
    if not parts:
        return
    out.print()
    out.print(rows)


def _show_shorter(replay: NodeReplay) -> None:
    out = console()
    out.print("\nwhat would shorten it")
    for one in replay.shorter:
        out.print(f"  {one.change}: {format_seconds(one.makespan_s)}, {one.speedup:.2f} times as fast")


def _show_decisions(replay: NodeReplay) -> None:
    if replay.accelerator is None:
        return
    going = [decision for decision in replay.decisions if decision.offload]
    console().print(
        f"\n{len(going)} of {len(replay.decisions)} decisions sent a loop to {plain(replay.accelerator)} "
        f"({replay.policy}): they took {format_seconds(sum(d.host_s for d in going))} on the host, and were to take "
        f"{format_seconds(sum(d.cost.total_s for d in going if d.cost))} there"
    )
