"""`foretrace trace --mpi`: record a rank of a parallel run, and join the parts of all ranks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from foretrace.base.errors import ProgramError
from foretrace.base.file_kinds import SIGNATURE
from foretrace.base.files import check_output
from foretrace.command_line.signals import die_by_signal
from foretrace.command_line.verb import begin_limits
from foretrace.tracer.session.launch import PYTHON_SUFFIXES, CompiledProgram, PythonProgram, Target

if TYPE_CHECKING:
    from foretrace.tracer.mpi.parts import PartHead
    from foretrace.tracer.session.options import TraceOptions
    from foretrace.tracer.session.session import Progress
    from foretrace.tracer.tracing import Traced

_WITH_NATIVE = {"output", "module", "code", "mpi", "native", "join", "force", "program"}


def run(
    output: Path, text: str | None, kind: Target, program: tuple[str, ...], *, native: bool, join: bool, force: bool
) -> int | None:
    """Record a rank, or join the parts.

    Args:
        output: of the run.
        text: a Python module or code, or None.
        kind: which of the two.
        program: name and arguments; those of the module or code.
        native: whether the program is timed instead of traced.
        join: whether to join parts that are there.
        force: whether files may be replaced.
    """
    _check(native=native, join=join, has_program=bool(program) or text is not None)
    from foretrace.tracer.mpi.capture import join_parts, keep_part
    from foretrace.tracer.mpi.native import check_launched, run_rank

    check_output(output, SIGNATURE, force=force)
    if join:
        _say(join_parts(output, force=force).lines)
        _say_done(output)
        return None
    check_launched(os.environ)
    outcome = run_rank(_command(text, kind, program), os.environ)
    begin_limits("trace")
    head = outcome.head
    if outcome.record is not None:
        written = keep_part(outcome, output, force=force)
        _say(written.lines)
        if written.joined is not None:
            _say_done(output)
    else:
        _say_nothing_recorded(head)
    if head.signal is not None:
        die_by_signal(head.signal)
    return head.exit_code


def _say_nothing_recorded(head: PartHead) -> None:
    """Say, or refuse with, why a rank has no record.

    Raises:
        ProgramError: it ended well.
    """
    if head.exit_code == 0:
        raise ProgramError(
            f"{head.command[0]}: did not call MPI_Init, or its MPI library is linked statically: no call was recorded"
        )
    _say([f"{head.command[0]}: ended before MPI_Init, or was killed: no call of this rank was recorded"])


def check_traced(
    launch: PythonProgram | CompiledProgram, *, follow_children: bool, keeps_stream: bool, has_tree: bool
) -> None:
    """Refuse what cannot be traced as a rank.

    Raises:
        ProgramError: it is a Python program, or no launcher started it.
    """
    from foretrace.tracer.mpi.native import check_launched

    if isinstance(launch, PythonProgram):
        raise ProgramError(
            f"{launch.target}: --mpi traces compiled programs; record a Python program's calls with --native, too"
        )
    for name, is_given in (
        ("--follow-children", follow_children), ("--keep-stream", keeps_stream), ("--no-tree", not has_tree),
    ):  # fmt: skip
        if is_given:
            raise click.UsageError(f"{name} does not go with --mpi")
    check_launched(os.environ)


def trace_and_keep(
    launch: PythonProgram | CompiledProgram,
    options: TraceOptions,
    on_progress: Callable[[Progress], None],
    output: Path,
    *,
    force: bool,
) -> Traced:
    """Trace a rank and write its part; the last rank joins all.

    Raises:
        ProgramError, EngineError: it cannot be traced.
        SignatureError, OutputError: its record is damaged, or a file cannot be written.
    """
    from foretrace.tracer.mpi.capture import keep_part
    from foretrace.tracer.mpi.traced import trace_rank
    from foretrace.tracer.signature.rank_records import NO_WORK

    assert isinstance(launch, CompiledProgram)
    outcome, traced = trace_rank(launch, options, os.environ, on_progress)
    if outcome.record is None:
        _say_nothing_recorded(outcome.head)
        return traced
    work = NO_WORK if traced.rank_work is None else traced.rank_work
    written = keep_part(outcome, output, (traced.signature, work), force=force)
    _say(written.lines)
    if written.joined is not None:
        _say_done(output)
    return traced


def _check(*, native: bool, join: bool, has_program: bool) -> None:
    """Refuse options that do not go together."""
    context = click.get_current_context()
    given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    if "mpi" not in given:
        raise click.UsageError(f"--{'native' if native else 'join'} goes with --mpi")
    if join and (native or has_program):
        raise click.UsageError("--join joins what was recorded: leave out the program and --native")
    if not join and not has_program:
        raise click.UsageError("name a program, e.g. mpirun -n 4 foretrace trace --mpi --native -o app.sig -- ./app")
    if others := given - _WITH_NATIVE:
        names = [option.opts[-1] for option in context.command.params if option.name in others]
        raise click.UsageError(f"{' and '.join(sorted(names))}: of a traced program; leave out with --native or --join")


def _command(text: str | None, kind: Target, program: tuple[str, ...]) -> tuple[str, ...]:
    """Command line of the program."""
    if text is not None:
        return PythonProgram(text, program, kind).command
    if program[0].endswith(PYTHON_SUFFIXES):
        return PythonProgram(program[0], program[1:]).command
    return program


def _say(lines: Iterable[str]) -> None:
    from foretrace.base.terminal import plain

    for line in lines:
        print(f"foretrace: {plain(line)}", file=sys.stderr)


def _say_done(output: Path) -> None:
    if sys.stderr.isatty():
        _say([f"wrote {output}", f"next: foretrace replay {output} --machine M"])
