"""`foretrace replay`: a program's jobs on a machine's cores, memory and accelerators."""

from __future__ import annotations

from pathlib import Path

import click

from foretrace.command_line.verb import Verb
from foretrace.profiles.library import find
from foretrace.replay.base.records import Model
from foretrace.replay.node.machine_run import Offloading
from foretrace.replay.node.replay import replay_on
from foretrace.replay.offload.decisions import Policy
from foretrace.reports.replay_reports import replay_report
from foretrace.reports.timelines import check_timeline, write_timeline
from foretrace.tracer.signature.file import read_signature

from .output_options import Output, output_options


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
@click.option("--assumptions", is_flag=True, help="Say in full what was assumed where a profile is silent.")
@output_options(pictures="the timeline (.json.gz is for ui.perfetto.dev)", check=check_timeline)
def command(
    signature: Path, machine: str, cores: int | None, threads: int | None, copies: int, accelerator: str | None,
    accelerators: int | None, policy: str | None, model: str, assumptions: bool, output: Output,
) -> None:  # fmt: skip
    """Replay SIGNATURE's program on a machine: its threads, or copies of it, share cores, caches, memory, devices."""
    if accelerator is None and (accelerators is not None or policy not in (None, str(Policy.NEVER))):
        raise click.UsageError("--accelerators and --policy are about an accelerator: name it with --accelerator")
    offloading = None
    if accelerator is not None:
        count = 1 if accelerators is None else accelerators
        offloading = Offloading(find(accelerator), count, Policy(policy or Policy.GREEDY))
    replay = replay_on(
        read_signature(signature), find(machine), cores=cores, threads=threads, copies=copies, offloading=offloading,
        model=Model(model),
    )  # fmt: skip
    for path in output.pictures:
        write_timeline(replay, path, force=output.force)
    output.show(replay_report(replay, assumptions=assumptions))
