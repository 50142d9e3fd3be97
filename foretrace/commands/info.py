"""`foretrace info`: show what a signature holds."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foretrace.api.signatures import Signature, read_signature
from foretrace.base.errors import OutputError, SignatureError
from foretrace.base.file_kinds import PICTURE, STACKS, FileKind
from foretrace.base.files import check_output, write_atomically
from foretrace.command_line.verb import Verb
from foretrace.reports import data_flow_reports, dependence_reports, tree_reports
from foretrace.reports.flame_graph import flame_graph, folded_stacks
from foretrace.reports.info_reports import info_report
from foretrace.tracer.signature.data_flow_records import DataFlow
from foretrace.tracer.signature.tree_records import ExecutionTree

from .output_options import Output, output_options

if TYPE_CHECKING:
    from foretrace.profiles.profile import Profile
    from foretrace.replay.base.spread import Floats


@click.command(cls=Verb, epilog="Example: foretrace info app.sig --json")
@click.argument("signature", type=click.Path(path_type=Path))
@click.option("--top", default=12, show_default=True, type=click.IntRange(min=0), help="How many loops to show.")
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
@output_options(json_help="Print one JSON object, with all loops, or all of the tree.")
def command(
    signature: Path, top: int, shows_tree: bool, shows_flow: bool, shows_dependences: bool, by: str,
    machine: str | None, flame: Path | None, output: Output,
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
        check_output(flame, kind, force=output.force)
    read = read_signature(signature)
    if shows_dependences:
        tree = _tree_of(read, signature)
        if not read.examined_loops:
            raise SignatureError(
                f"{signature}: no loop's dependences were looked for; trace it again with --dependences"
            )
        output.show(dependence_reports.dependence_report(read, tree, top))
        return
    if shows_flow:
        tree, flow = _tree_of(read, signature), _flow_of(read, signature)
        output.show(data_flow_reports.data_flow_report(tree, flow, top))
        return
    if not shows_tree and flame is None:
        output.show(info_report(read, signature, top))
        return
    tree = _tree_of(read, signature)
    profile, time_s = (None, None) if machine is None else _predicted(read, machine)
    weighed = tree_reports.weigh(read, tree, by, time_s)
    if flame is not None and kind is not None:
        on = by if profile is None else f"time predicted on {profile.name}"
        content = _flame(read, weighed, on, kind).encode("utf-8", "replace")
        write_atomically(flame, content, kind, force=output.force)
    output.show(tree_reports.tree_report(read, weighed, profile, time_s), prints=shows_tree)


def _predicted(signature: Signature, machine: str) -> tuple[Profile, Floats]:
    """A machine, and the time of each node there."""
    from foretrace.profiles.library import find
    from foretrace.replay.node.node_times import node_times

    profile = find(machine)
    return profile, node_times(signature, profile)


def _flow_of(signature: Signature, path: Path) -> DataFlow:
    if signature.data_flow is None:
        why = "--no-data-flow left it out, or it had too many places"
        if signature.provenance.sampling is not None:
            why = "accesses were recorded in bursts, and what is stored between them is not seen: writers are unknown"
        raise SignatureError(f"{path}: has no data flow: {why}; trace the program again, with --accuracy high")
    return signature.data_flow


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
