"""`foretrace time`: how long a program takes here, and where its time goes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foretrace.base.file_kinds import TIMING
from foretrace.base.files import check_output, is_standard_output
from foretrace.command_line.signals import die_by_signal
from foretrace.command_line.verb import Verb

if TYPE_CHECKING:
    from foretrace.tracer.native.timing import Timing


@click.command(
    cls=Verb,
    context_settings={"allow_interspersed_args": False},
    epilog="\b\nExample:\n  foretrace time -o ls.timing --runs 3 -- ls -l",
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="File to write; - is standard output, behind what PROGRAM writes there.",
)
@click.option("--runs", default=1, show_default=True, type=click.IntRange(1, 1000), help="How often to run it.")
@click.option(
    "--method",
    type=click.Choice(["auto", "perf", "ptrace"]),
    default="auto",
    show_default=True,
    help="How to sample: by the kernel's perf events, or by ptrace where these are not allowed.",
)
@click.option("--force", is_flag=True, help="Overwrite the file if it is a timing.")
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    output: Path,
    runs: int,
    method: str,
    force: bool,
    program: tuple[str, ...],
) -> int | None:
    """Run PROGRAM natively, time it, and sample where it is: what `foretrace predict --timing` compares with.

    PROGRAM is a compiled program with its arguments, or a Python script, which is timed with its interpreter. Its
    output, exit code and signals are its own; those of foretrace itself are listed in docs/exit-codes.md. Later runs
    than the first read the same input (a file again, up to 1 GiB of a pipe; nothing of a terminal), and what they print
    is thrown away. A program that ends because whoever reads its output stopped runs once. A loop of 0.1 ms that runs
    on its core every 8 ms tells how much a neighbour disturbed it.
    """
    if not is_standard_output(output):
        check_output(output, TIMING, force=force)
    from foretrace.api.measurements import time
    from foretrace.tracer.native.timing import NO_READER
    from foretrace.tracer.native.timing_file import write_timing

    def say_one_reads() -> None:
        print("foretrace: the first run alone reads from the terminal, others find no input", file=sys.stderr)

    timing = time(program, runs=runs, method=method, on_terminal_input=say_one_reads)
    write_timing(timing, output, force=force)
    if len(timing.runs) < runs:
        print(f"foretrace: {len(timing.runs)} of {runs} runs: {NO_READER}", file=sys.stderr)
    _say_done(output, timing)
    if timing.signal is not None:
        die_by_signal(timing.signal)
    return timing.exit_code


def _say_done(output: Path, timing: Timing) -> None:
    """On a terminal, says what came of it; elsewhere standard error is the program's alone."""
    if sys.stderr.isatty():
        from foretrace.base.terminal import plain
        from foretrace.base.units import format_seconds

        shortest = format_seconds(timing.shortest.cpu_s)
        print(
            plain(
                f"foretrace: wrote {output} ({shortest} at best, {timing.num_samples} samples by {timing.method}; "
                f"{said_of_neighbours(timing)}); "
                f"next: foretrace predict SIGNATURE --machine here.toml --timing {output}"
            ),
            file=sys.stderr,
        )


def said_of_neighbours(timing: Timing) -> str:
    """Whether runs were disturbed, for people."""
    if timing.shortest.slowdown is None:
        return "no neighbour was looked for"
    if timing.undisturbed_runs:
        return f"{timing.undisturbed_runs} of {len(timing.runs)} runs undisturbed"
    return f"beside a neighbour, a reference loop took {timing.shortest.slowdown:.2f} times as long"


def said_of_segments(timing: Timing) -> str:
    """The time by segments that older timings hold, for people, after something else; nothing if there is none."""
    from foretrace.base.units import format_seconds

    if timing.segments is None:
        return ""
    found = timing.segments
    low, likely, high = (format_seconds(time_s) for time_s in (found.low_s, found.time_s, found.high_s))
    return (
        f"; undisturbed {likely} ({low} to {high}), "
        f"by the times at rest of {found.segments} segments of {found.runs} runs"
    )
