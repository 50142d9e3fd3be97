"""`foretrace trace`: run a program and record its signature."""

from __future__ import annotations

import gc
import os
import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foretrace.api.hierarchies import wanted_hierarchies
from foretrace.base.file_kinds import SIGNATURE, STREAM
from foretrace.base.files import check_output
from foretrace.command_line.interrupts import Interrupts
from foretrace.command_line.signals import die_by_signal
from foretrace.command_line.verb import Verb, begin_limits
from foretrace.tracer.session.launch import CompiledProgram, PythonProgram, Target, launch_of, python_program_behind

from .caches import cache_options

if TYPE_CHECKING:
    from foretrace.tracer.sampling.burst_schedule import Accuracy
    from foretrace.tracer.session.session import Progress
    from foretrace.tracer.signature.records import Provenance


@click.command(
    cls=Verb,
    runs_programs=True,
    last_options=("-m", "-c"),
    context_settings={"allow_interspersed_args": False},
    epilog="\b\nExamples:\n  foretrace trace -o ls.sig -- ls -l\n  foretrace trace -o app.sig app.py arguments\n"
    "  foretrace trace -o tool.sig -m json.tool data.json\n"
    "  foretrace trace --accuracy low -o long.sig -- gzip -c file",
)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Signature file to write.")
@click.option("-m", "module", metavar="MODULE", help="Trace a Python module, as python -m does.")
@click.option("-c", "code", metavar="CODE", help="Trace Python code, as python -c does.")
@cache_options
@click.option(
    "--accuracy",
    type=click.Choice(["auto", "low", "medium", "high"]),
    help="How much of a long run's accesses to record: the first 10^9 and then bursts of them (auto), bursts almost "
    "from the beginning (low, medium), or all (high). Blocks, instructions, loads and stores are counted exactly "
    "either way.  [default: auto]",
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Decides where bursts lie.  [default: chance]")
@click.option("--no-tree", is_flag=True, help="Leave out the execution tree, and the data flow.")
@click.option("--no-data-flow", is_flag=True, help="Leave out which node of the execution tree uses whose data.")
@click.option("--no-windows", is_flag=True, help="Do not look for dependences in windows of a binary's run.")
@click.option(
    "--dependences",
    is_flag=True,
    help="Also find what loops carry from one iteration to the next: reductions, recurrences, colliding updates. Takes "
    "several times as long, and records all accesses.",
)
@click.option(
    "--record-values", is_flag=True, help="Keep all values of recorders of software-defined events, not 10,000 of each."
)
@click.option(
    "--python-core",
    type=click.Choice(["markers", "settrace"]),
    default="markers",
    show_default=True,
    help="How to follow a Python program: by markers in its own code, or by sys.settrace through all code.",
)
@click.option(
    "--keep-stream",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also keep all accesses, compressed, for foretrace simulate.",
)
@click.option(
    "--follow-children",
    is_flag=True,
    help="Trace the processes it forks and the programs these become, summed up; of Python also those it starts in the "
    "same interpreter.",
)
@click.option(
    "--mpi",
    is_flag=True,
    help="Record a rank of a parallel run: mpirun -n 4 foretrace trace --mpi --native -o app.sig -- ./app. Each rank "
    "writes a part, OUTPUT.rank-R-of-N; the last one joins them.",
)
@click.option("--native", is_flag=True, help="With --mpi: record the MPI calls and time what is computed between them.")
@click.option(
    "--join", is_flag=True, help="With --mpi, without PROGRAM: join the parts of a run whose ranks were killed."
)
@click.option("--force", is_flag=True, help="Overwrite the files if they are a signature and a stored stream.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def command(
    output: Path,
    module: str | None,
    code: str | None,
    machines: tuple[str, ...],
    hierarchies: tuple[str, ...],
    accuracy: str | None,
    seed: int | None,
    no_tree: bool,
    no_data_flow: bool,
    no_windows: bool,
    dependences: bool,
    record_values: bool,
    python_core: str,
    keep_stream: Path | None,
    follow_children: bool,
    mpi: bool,
    native: bool,
    join: bool,
    force: bool,
    program: tuple[str, ...],
) -> int | None:
    """Run PROGRAM and record its signature: what it did, independent of any machine.

    PROGRAM is a compiled program with its arguments, or a script: of Python, or of what its first line names. All that
    follows it, or -m MODULE, or -c CODE, is its own, as are its output, exit code and signals. Exit codes of foretrace
    itself, each with a line on standard error that begins with "foretrace: error:", are listed in docs/exit-codes.md.
    """
    text = module if code is None else code
    kind = Target.MODULE if code is None else Target.CODE
    if native or join:
        from . import trace_ranks

        return trace_ranks.run(output, text, kind, program, native=native, join=join, force=force)
    if text is None and not program:
        raise click.UsageError("name a program to trace, e.g. foretrace trace -o ls.sig -- ls -l")
    if program and output.exists() and Path(program[0]).exists() and output.samefile(program[0]):
        raise click.UsageError(f"{output} is the program itself: choose another name for its signature")
    if keep_stream is not None and keep_stream.resolve() == output.resolve():
        raise click.UsageError(f"-o and --keep-stream both name {output}: choose another name for one of them")
    check_output(output, SIGNATURE, force=force)
    if keep_stream is not None:
        check_output(keep_stream, STREAM, force=force)
    launch = launch_of(program) if text is None else PythonProgram(text, program, kind)
    is_python = isinstance(launch, PythonProgram)
    if follow_children and keep_stream is not None:
        raise click.UsageError("--keep-stream keeps the accesses of one process; leave out --follow-children")
    if dependences and (no_tree or follow_children):
        other = "--no-tree" if no_tree else "--follow-children"
        raise click.UsageError(
            f"--dependences are those of the loops of one process's execution tree; leave out {other}"
        )
    if mpi:
        from .trace_ranks import check_traced

        check_traced(
            launch, follow_children=follow_children, keeps_stream=keep_stream is not None, has_tree=not no_tree
        )
    if dependences and accuracy not in (None, "auto", "high"):
        raise click.UsageError(f"--dependences follow from all accesses; leave out --accuracy {accuracy}")
    _hint(launch, output)
    gc.disable()  # nearly all that is made lives until the signature is written
    # NumPy's linear algebra, which nothing here uses, starts threads unless told not to. `os.environ`, which the
    # program gets, stays as it is.
    os.putenv("OPENBLAS_NUM_THREADS", "1")
    from foretrace.tracer.sampling.burst_schedule import Accuracy
    from foretrace.tracer.session.options import TraceOptions
    from foretrace.tracer.tracing import trace_program

    wanted = Accuracy(accuracy or Accuracy.AUTO)
    if accuracy is not None and not is_python:
        _say_cost(wanted)
    options = TraceOptions(
        wanted_hierarchies(hierarchies, machines),
        wanted,
        seed,
        follow_children,
        python_core,
        has_tree=not no_tree,
        has_data_flow=not no_data_flow,
        has_dependences=dependences,
        has_windows=not no_windows,
        has_recorded_values=record_values,
    )
    with ExitStack() as stack:
        unwritten = [path for path in (output, keep_stream) if path is not None]
        stack.enter_context(_giving_up(unwritten))
        interrupts = stack.enter_context(Interrupts("writing what was recorded"))
        show = stack.enter_context(_progress())

        def on_progress(progress: Progress) -> None:
            if progress.ended:  # it would have inherited them
                begin_limits("trace")
            interrupts.watch(progress)
            show(progress)

        keep = None
        if keep_stream is not None:
            from foretrace.tracer.stored.stored_stream import StreamWriter

            keep = stack.enter_context(StreamWriter(keep_stream, force=force))
        if mpi:
            from .trace_ranks import trace_and_keep

            traced = trace_and_keep(launch, options, on_progress, output, force=force)
        else:
            traced = trace_program(launch, options, on_progress, keep)
            from foretrace.tracer.signature.file import write_signature  # slow to import: the program has run meanwhile

            write_signature(traced.signature, output, force=force)
        unwritten.remove(output)
        if keep is not None:
            from foretrace.tracer import kept_stream

            kept_stream.commit(keep, traced)
    _explain(traced.explanation)
    _say_sampled(traced.signature.provenance)
    if not mpi:
        _say_done(traced.signature.provenance, output, keep_stream)
    if traced.ending.signal_number is not None:
        die_by_signal(traced.ending.signal_number)
    return traced.ending.exit_code


@contextmanager
def _giving_up(unwritten: Sequence[Path]) -> Iterator[None]:
    """After a ^C, says which files will not be there."""
    try:
        yield
    except KeyboardInterrupt:
        from foretrace.base.terminal import plain

        files = " and ".join(map(str, unwritten))
        print(plain(f"foretrace: gave up; {files} not written"), file=sys.stderr)
        raise


_BEFORE_SHOWN_S = 1.0


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """Shows how far the trace is on a terminal, while that disturbs nobody: a program may be writing to the same one
    until it ends, and what follows its end is shown if it takes long."""
    if not sys.stderr.isatty():
        yield lambda progress: None
        return
    from rich.console import Console

    from foretrace.base.units import format_count

    status = Console(stderr=True).status("tracing")
    is_shared = sys.stdout.isatty()
    later = threading.Timer(_BEFORE_SHOWN_S, status.start)
    later.daemon = True
    has_ended = False

    def show(progress: Progress) -> None:
        nonlocal has_ended
        counted = f"{format_count(progress.accesses)} accesses simulated"
        if not progress.ended:
            status.update(f"tracing: {counted}")
            return
        if not has_ended:
            has_ended = True
            if is_shared:
                later.start()
        status.update(f"the program has ended; {progress.stage or 'reading what is left'} ({counted})")

    if not is_shared:
        status.start()
    try:
        yield show
    finally:
        later.cancel()
        if later.ident is not None:
            later.join()
        status.stop()


def _say_cost(accuracy: Accuracy) -> None:
    """Says what a run at this accuracy is expected to take, before it begins."""
    from foretrace.tracer.sampling.burst_schedule import EXPECTED_COSTS

    cost = EXPECTED_COSTS.get(accuracy)
    if cost is None:
        return
    range_ = f"{cost.least:g} to {cost.most:g}"
    print(
        f"foretrace: accuracy {accuracy}: expect about {cost.mean:g} times the time under QEMU alone ({range_} were "
        "measured; less in long runs, more with many or elaborate caches)",
        file=sys.stderr,
        flush=True,
    )


def _explain(explanation: str) -> None:
    """Says what had a part in the program's end without being the program's own."""
    if explanation:
        from foretrace.base.terminal import plain

        print(f"foretrace: {plain(explanation)}", file=sys.stderr)


def _say_sampled(provenance: Provenance) -> None:
    """Says how much of a long run was recorded, and how sure what was estimated is."""
    if provenance.sampling is not None:
        from foretrace.base.terminal import plain
        from foretrace.reports import sampling_report

        print(f"foretrace: {plain(sampling_report.line(provenance.sampling))}", file=sys.stderr)


def _hint(launch: PythonProgram | CompiledProgram, output: Path) -> None:
    """Says how a script is traced, where its interpreter is about to be traced as a compiled program."""
    if isinstance(launch, PythonProgram) or not (script := python_program_behind(launch.command)):
        return
    from foretrace.base.terminal import plain

    better = plain(shlex.join(("foretrace", "trace", "-o", str(output), *script[:2])))
    print(
        "foretrace: hint: this traces the interpreter itself as a compiled program; to trace the lines of the Python "
        f"program: {better}{' ...' if script[2:] else ''}",
        file=sys.stderr,
    )


def _say_done(provenance: Provenance, output: Path, keep_stream: Path | None) -> None:
    """On a terminal, says what was written and what to do next; elsewhere standard error is the program's alone."""
    if not sys.stderr.isatty():
        return
    from foretrace.base.terminal import plain
    from foretrace.reports import unseen_report

    name = shlex.quote(str(output))
    kept = "" if keep_stream is None else f" and {keep_stream}"
    how = "" if provenance.complete else f" (incomplete: {provenance.incomplete_reason})"
    if provenance.exit_code:
        raised = f" (uncaught {provenance.exception})" if provenance.exception else ""
        how += f"; the program ended with exit code {provenance.exit_code}{raised}"
    lines = [f"wrote {output}{kept}{how}", f"next: foretrace info {name}, or foretrace predict {name} --all"]
    if unseen_report.is_notable(provenance.unseen):
        lines.insert(1, unseen_report.line(provenance.unseen))
    lines[1:1] = [f"note: {note}" for note in provenance.notes if note.startswith("the program read the clock")]
    if keep_stream is not None:
        lines[-1] += f", or foretrace simulate {shlex.quote(str(keep_stream))}"
    for line in lines:
        print(f"foretrace: {plain(line)}", file=sys.stderr)
