"""`foretrace events`: what libraries say that they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

import click

from foretrace.api.recorded_events import signature_sources
from foretrace.base.errors import EventsError, OutputError, ProgramError
from foretrace.base.file_kinds import EXPORTED_EVENTS, PICTURE, SIGNATURE, kind_of
from foretrace.base.files import check_output, write_atomically
from foretrace.base.terminal import console, json_bytes
from foretrace.command_line.signals import die_by_signal
from foretrace.command_line.verb import Verb, begin_limits
from foretrace.reports import event_pictures, event_reports
from foretrace.reports.event_reports import EXPORTS, EventSource, check_export, chosen, listed, recorders, short
from foretrace.reports.model import INTEGER, Column, Report, Section, Table, Text
from foretrace.reports.plots import FORMATS, check_picture
from foretrace.tracer.events import linking
from foretrace.tracer.events.board_file import Board, is_running, left_behind, processes, read_board, start_of
from foretrace.tracer.events.run_folder import left_folders, remove, run_folder
from foretrace.tracer.signature.event_records import Events

from .output_options import Output, output_options

if TYPE_CHECKING:
    import pandas

Sources = Sequence[EventSource]


@dataclass(frozen=True, slots=True)
class View:
    """Builders of a view of events, one for each form."""

    sections: Callable[[Sources], list[Section]]
    document: Callable[[Sources], dict[str, Any]]
    frame: Callable[[Sources], pandas.DataFrame]
    draw: event_pictures.Draw


EVENTS = View(
    event_reports.listing, event_reports.document, event_reports.frame, event_pictures.recorders_figure
)  # fmt: skip
VALUES = View(
    event_reports.value_lines, event_reports.values_document, event_reports.values_frame,
    event_pictures.recorders_figure,
)  # fmt: skip
SAMPLES = View(
    event_reports.courses, event_reports.samples_document, event_reports.samples_frame,
    event_pictures.samples_figure,
)  # fmt: skip
DISTRIBUTIONS = View(
    event_reports.distributions, event_reports.distributions_document, event_reports.distributions_frame,
    event_pictures.distributions_figure,
)  # fmt: skip


@click.command(
    cls=Verb,
    runs_programs=True,
    epilog="\b\nExamples:\n  cc $(foretrace events --cflags) solver.c $(foretrace events --libs)\n"
    "  foretrace events -- ./a.out\n  foretrace events cg.sig gmres.sig --event '*::residuals' -o convergence.svg",
)
@click.argument("target", nargs=-1, metavar="[PID | SIGNATURE... | -- PROGRAM [ARGS]...]", type=click.UNPROCESSED)
@click.option("--cflags", is_flag=True, help="Print what a compiler needs for foretrace_events.h.")
@click.option("--libs", is_flag=True, help="Print what a linker needs.")
@click.option("--drop-in", is_flag=True, help="Print a folder with libsde.so.1, for LD_LIBRARY_PATH.")
@click.option(
    "--event", "patterns", multiple=True, metavar="LIBRARY::EVENT",
    help="Only this event; may be a pattern such as '*::residuals' (repeatable).",
)  # fmt: skip
@click.option("--values", metavar="LIBRARY::EVENT", help="The values of a recorder, a line each; may be a pattern.")
@click.option("--samples", is_flag=True, help="Values over the run (of signatures).")
@click.option("--distributions", is_flag=True, help="How the values of recorders are distributed.")
@click.option(
    "-o", "--output", "file", type=click.Path(path_type=Path),
    help="Draw (.svg, .png, .pdf) or export (.csv, .json, .parquet) what would be shown.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace what foretrace drew or exported.")
@click.option("--user", metavar="USER", help="Processes of this user, whose files you may read; your own if not given.")
@click.option("--clean", is_flag=True, help="Remove what killed processes left behind.")
@output_options(synonyms=("json", "csv"), files=False)
def command(
    target: tuple[str, ...], cflags: bool, libs: bool, drop_in: bool, patterns: tuple[str, ...], values: str | None,
    samples: bool, distributions: bool, file: Path | None, force: bool, user: str | None, clean: bool, output: Output,
) -> int:  # fmt: skip
    """Show the software-defined events of a process, while it runs or after it was killed, of a program's run, or of
    signatures.

    Without PID, SIGNATURE or PROGRAM it lists the processes that have events.
    """
    if (values is not None) + samples + distributions > 1:
        raise click.UsageError("--values, --samples and --distributions show different things; choose one")
    is_program = bool(target) and not _names_signatures(target) and not _is_number(target)
    if not is_program:
        begin_limits("events")
    if cflags or libs or drop_in:
        asked = ((cflags, linking.compiler_flags), (libs, linking.linker_flags), (drop_in, linking.drop_in))
        print(*(str(flags()) for wanted, flags in asked if wanted))
        return 0
    if clean:
        _clean()
        return 0
    if not target:
        _list(_user_number(user), output)
        return 0
    view = VALUES if values is not None else SAMPLES if samples else DISTRIBUTIONS if distributions else EVENTS
    if file is not None:
        _check(file, force=force)
    show = partial(_show, view=view, patterns=patterns, values=values, file=file, force=force, output=output)
    if _names_signatures(target):
        show(signature_sources(target))
    elif is_program:
        return _run(target, show)
    else:
        show([_source(_board_of(int(target[0]), _user_number(user)))])
    return 0


def _names_signatures(target: Sequence[str]) -> bool:
    """Whether the first word names a signature, or a file that should be one. No program looks like that."""
    return target[0].endswith(".sig") or kind_of(Path(target[0])) is SIGNATURE


def _is_number(target: Sequence[str]) -> bool:
    return len(target) == 1 and target[0].isascii() and target[0].isdecimal()


def _check(output: Path, *, force: bool) -> None:
    """Refuse an output early."""
    if output.suffix in EXPORTS:
        check_export(output)
        check_output(output, EXPORTED_EVENTS, force=force)
        return
    if output.suffix not in FORMATS:
        raise OutputError(f"{output}: its name must end in {', '.join(FORMATS)} for a picture, or {', '.join(EXPORTS)}")
    check_picture(output)
    check_output(output, PICTURE, force=force)


def _board_of(process: int, user: int | None) -> Board:
    found = processes(user)
    if process not in found:
        running = "has no software-defined events" if is_running(process) else "does not run"
        raise EventsError(f"process {process} {running}; foretrace events lists those that have any")
    return read_board(found[process])


def _source(board: Board) -> EventSource:
    facts = {"process": board.process, "ended": board.is_ended, "lost_bytes": board.lost_bytes}
    return EventSource(f"process {board.process}", Events(board.events, (), board.lost_bytes), facts)


def _clean() -> None:
    files, folders = left_behind(), left_folders()
    for path in files:
        path.unlink(missing_ok=True)
    for path in folders:
        remove(path)
    console().print(f"{len(files) + len(folders)} removed.")


def _user_number(user: str | None) -> int | None:
    """The number of a user given by name or number."""
    import pwd

    if user is None:
        return None
    try:
        return int(user) if user.isascii() and user.isdecimal() and len(user) < 11 else pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        raise EventsError(f"{short(user)}: there is no such user") from None


_PROCESSES = (
    Column("process", "process", INTEGER),
    Column("state", "state", value=lambda row: "running" if row["running"] else "killed"),
    Column("events", "events", INTEGER),
)


def _list(user: int | None, output: Output) -> None:
    rows = [_row(process, path) for process, path in processes(user).items()]
    found = Table(_PROCESSES, rows)
    sections = [found if rows else Text(["No process of yours has software-defined events."])]
    document = {"schema": "foretrace.events.processes/1", "processes": rows}
    output.show(Report("Processes with software-defined events", sections, found, lambda: document))
    for row in rows:
        if row["unread"] and output.format is None:
            hint = "" if row["running"] else "; foretrace events --clean removes what killed processes left"
            click.echo(f"foretrace: {row['unread']}{hint}", err=True)


def _row(process: int, path: Path) -> dict[str, Any]:
    """Row of the list for a process. One board that cannot be read does not hide the others."""
    row = {"process": process, "running": is_running(process, start_of(path)), "events": None, "unread": ""}
    try:
        row["events"] = len(read_board(path).events)
    except EventsError as error:
        row["unread"] = str(error)
    return row


class _KilledError(BaseException):
    """A signal that ends us, once there is no program to pass it to."""


class _PassedOn:
    """Passes SIGTERM and SIGHUP on to a program while it runs. Without one they end us, and what we made is removed."""

    def __init__(self) -> None:
        self.program: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._before = {
            number: signal.signal(number, self._handle)
            for number in (signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(number) is signal.SIG_DFL
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.program is None:
            raise _KilledError(number)
        self.program.send_signal(number)


def _run(program: Sequence[str], show: Callable[[Sources], None]) -> int:
    """Run a program, then show its events and its children's. Returns its exit code, or dies of its signal."""
    try:
        with _PassedOn() as signals, run_folder() as folder:
            code = _run_in(folder, program, signals)
            begin_limits("events")
            boards = [read_board(path) for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_ctime_ns)]
            if not boards:
                raise EventsError(
                    f"{program[0]}: no library of it has software-defined events; link it with "
                    "$(foretrace events --libs), or set LD_LIBRARY_PATH to $(foretrace events --drop-in)"
                )
            show([_source(board) for board in boards])
    except _KilledError as killed:
        die_by_signal(killed.args[0])
    if code < 0:
        die_by_signal(-code)
    return code


def _run_in(folder: Path, program: Sequence[str], signals: _PassedOn) -> int:
    """The end of a program whose processes keep their boards in a folder, as `subprocess` has it."""
    environment = os.environ | {"FORETRACE_EVENTS_DIRECTORY": str(folder), "FORETRACE_EVENTS_KEEP": "1"}
    try:
        with subprocess.Popen(program, env=environment) as running:
            signals.program = running
            try:
                return running.wait()
            except BaseException:  # ^C has reached the program, too
                running.kill()
                raise
            finally:
                signals.program = None
    except (OSError, ValueError) as error:  # a NUL in its name
        reason = error.strerror if isinstance(error, OSError) else error
        raise ProgramError(f"{program[0]}: cannot be run: {reason}; name a program, a process or a signature") from None


def _show(
    sources: Sources, *, view: View, patterns: Sequence[str], values: str | None, file: Path | None, force: bool,
    output: Output,
) -> None:  # fmt: skip
    asked: Sources = chosen(sources, patterns)
    if values is not None:
        asked = _recorders_called(asked, values)
    if file is not None:
        _write(asked, view, file, force=force)
    if output.format == "csv":
        sys.stdout.write(event_reports.as_csv(view.frame(asked)))
    else:
        rows = event_reports.events_table(asked)
        report = Report("Software-defined events", view.sections(asked), rows, lambda: view.document(asked))
        output.show(report, prints=file is None)


def _recorders_called(sources: Sources, name: str) -> Sources:
    """The sources with the named recorders only.

    Raises:
        EventsError: there is none of that name.
    """
    every = [event.full_name for _, event in recorders(sources)]
    try:
        found = chosen(sources, [name])
    except EventsError:
        found = []
    if not recorders(found):
        raise EventsError(f"{short(name)}: is no recorder; there are {listed(list(dict.fromkeys(every)))}")
    return found


def _write(sources: Sources, view: View, output: Path, *, force: bool) -> None:
    kind = output.suffix[1:]
    if output.suffix in FORMATS:
        try:
            content, left_out = event_pictures.draw(sources, view.draw, kind)
        except EventsError as error:
            raise EventsError(f"{output}: {error}") from None
        write_atomically(output, content, PICTURE, force=force)
        for one in left_out:
            click.echo(f"foretrace: {output}: left out, for want of room: {one}; choose with --event", err=True)
        return
    if kind == "json":
        content = json_bytes(view.document(sources))
    elif kind == "csv":
        content = event_reports.as_csv(view.frame(sources)).encode()
    else:
        content = event_reports.as_parquet(view.frame(sources))
    write_atomically(output, content, EXPORTED_EVENTS, force=force)
