"""`foretrace triage`: which loops are worth porting to an accelerator."""

from __future__ import annotations

from pathlib import Path

import click

from foretrace.api.triages import cores_asked, triage
from foretrace.command_line.verb import Verb
from foretrace.reports.triage_reports import triage_report

from .output_options import Output, output_options


@click.command(cls=Verb, epilog="Example: foretrace triage cg.sig --host epyc-9654 --accelerator h200-sxm-141gb")
@click.argument("signature", type=click.Path(path_type=Path))
@click.option("--host", required=True, metavar="H", help="The host: a machine's name or TOML file.")
@click.option(
    "--accelerator", "accelerators", required=True, multiple=True, metavar="A",
    help="The accelerator: a machine's name or TOML file (repeatable: the best one for each loop).",
)  # fmt: skip
@click.option(
    "--host-cores", default="1", metavar="N|all", show_default=True, help="Cores that loops on the host may use."
)
@click.option(
    "--source", "source", type=click.Path(path_type=Path), metavar="DIR",
    help="The program's source: what it proves of a loop decides; name idioms as it has them.",
)  # fmt: skip
@click.option(
    "-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="A symbol of --source's preprocessor (repeatable)."
)
@click.option("--branches", is_flag=True, help="Read branches of --source's preprocessor that are not taken, too.")
@click.option("--explain", metavar="LOOP", help="Print the arithmetic of one loop: file:line or function.")
@click.option("--top", default=8, show_default=True, type=click.IntRange(min=1), help="How many loops to show.")
@click.option("--all-loops", is_flag=True, help="Show all of them, those below 0.1 % of the time, too.")
@click.option("--assumptions", is_flag=True, help="Say in full what was assumed where a profile is silent.")
@output_options(json_help="Print one JSON object, with all loops.")
def command(
    signature: Path, host: str, accelerators: tuple[str, ...], host_cores: str, source: Path | None,
    defines: tuple[str, ...], branches: bool, explain: str | None, top: int, all_loops: bool, assumptions: bool,
    output: Output,
) -> None:  # fmt: skip
    """Tell which loops of SIGNATURE's program to port to an accelerator, or to thread, largest gain first."""
    if (defines or branches) and source is None:
        raise click.UsageError("-D and --branches go with --source")
    if explain is not None and not explain.strip():
        raise click.UsageError("--explain names no loop; give it one as the table does, file:line or a function")
    report = triage(
        signature, host, *accelerators, host_cores=cores_asked(host_cores), explain=explain or "", source=source,
        defines=defines, branches=branches,
    )  # fmt: skip
    output.show(
        triage_report(report, explain=bool(explain), top=None if all_loops else top, assumptions=assumptions)
    )  # fmt: skip
