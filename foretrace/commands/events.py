"""`foretrace events`: what libraries say that they do."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from foretrace.cli import die_by_signal
from foretrace.errors import EventsError, OutputError, ProgramError
from foretrace.file_kinds import PICTURE
from foretrace.files import check_output, write_atomically
from foretrace.reports.plots import check_picture, draw_recorders
from foretrace.terminal import console, plain, print_json, table
from foretrace.tracer.events import linking
from foretrace.tracer.events.board_file import Board, Event, Kind, is_running, processes, read_board
from foretrace.verb import Verb


@click.command(
    cls=Verb,
    epilog="\b\nExamples:\n  cc $(foretrace events --cflags) solver.c $(foretrace events --libs)\n"
    "  foretrace events -- ./a.out",
)
@click.argument("target", nargs=-1, metavar="[PID | -- PROGRAM [ARGS]...]", type=click.UNPROCESSED)
@click.option("--cflags", is_flag=True, help="Print what a compiler needs for foretrace_events.h.")
@click.option("--libs", is_flag=True, help="Print what a linker needs.")
@click.option("--drop-in", is_flag=True, help="Print a folder with libsde.so.1, for LD_LIBRARY_PATH.")
@click.option("--values", metavar="LIBRARY::EVENT", help="Print the values of one recorder, a line each.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Draw the recorders: .svg, .png or .pdf.")
@click.option("--force", is_flag=True, help="Replace the picture, if there is one.")
@click.option("--clean", is_flag=True, help="Remove what killed processes left behind.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a row for each event, comma-separated.")
def command(
    target: tuple[str, ...], cflags: bool, libs: bool, drop_in: bool, values: str | None, output: Path | None,
    force: bool, clean: bool, as_json: bool, as_csv: bool,
) -> int:  # fmt: skip
    """Show the software-defined events of a process, while it runs or after it was killed, or of a program's run.

    Without PID or PROGRAM it lists the processes that have events.
    """
    if cflags or libs or drop_in:
        asked = ((cflags, linking.compiler_flags), (libs, linking.linker_flags), (drop_in, linking.drop_in))
        print(*(str(flags()) for wanted, flags in asked if wanted))
    elif clean:
        _clean()
    elif not target:
        _list(as_json)
    else:
        show = partial(_show, values=values, as_json=as_json, as_csv=as_csv)
        if output is not None:
            check_picture(output)
            check_output(output, PICTURE, force=force)
            show = partial(_draw, output=output, force=force, show=show)
        if len(target) > 1 or not (target[0].isascii() and target[0].isdecimal()):
            return _run(target, show)
        show([_board_of(int(target[0]))])
    return 0


def _board_of(process: int) -> Board:
    found = processes()
    if process not in found:
        running = "has no software-defined events" if is_running(process) else "does not run"
        raise EventsError(f"process {process} {running}; foretrace events lists those that have any")
    return read_board(found[process])


def _clean() -> None:
    ended = [path for process, path in processes().items() if not is_running(process)]
    for path in ended:
        path.unlink(missing_ok=True)
    console().print(f"{len(ended)} removed.")


def _list(as_json: bool) -> None:
    found = [(process, is_running(process), read_board(path)) for process, path in processes().items()]
    if as_json:
        rows = [{"process": process, "running": runs, "events": len(board.events)} for process, runs, board in found]
        print_json({"schema": "foretrace.events.processes/1", "processes": rows})
        return
    if not found:
        console().print("No process of yours has software-defined events.")
        return
    shown = table("process", "state", "events", left=("state",))
    for process, runs, board in found:
        shown.add_row(str(process), "running" if runs else "killed", str(len(board.events)))
    console().print(shown)


@contextmanager
def _own_folder() -> Iterator[Path]:
    """A folder for the boards of one run, in memory if there is room."""
    base = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="foretrace-events.", dir=base) as folder:
        yield Path(folder)


def _run(program: Sequence[str], show: Callable[[Sequence[Board]], None]) -> int:
    """Run a program, then show its events and its children's. Returns its exit code, or dies of its signal."""
    with _own_folder() as folder:
        environment = os.environ | {"FORETRACE_EVENTS_DIRECTORY": str(folder), "FORETRACE_EVENTS_KEEP": "1"}
        try:
            code = subprocess.run(program, env=environment, check=False).returncode
        except OSError as error:
            raise ProgramError(f"{program[0]}: cannot be run: {error.strerror}") from None
        boards = [read_board(path) for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_ctime_ns)]
        if not boards:
            raise EventsError(
                f"{program[0]}: no library of it has software-defined events; link it with $(foretrace events --libs), "
                "or set LD_LIBRARY_PATH to $(foretrace events --drop-in)"
            )
        show(boards)
    if code < 0:
        die_by_signal(-code)
    return code


def _show(boards: Sequence[Board], *, values: str | None, as_json: bool, as_csv: bool) -> None:
    for board in boards:
        if values is not None:
            _print_values(board, values)
        elif as_json:
            print_json(document(board))
        elif as_csv:
            _print_csv(board)
        else:
            _print_table(board)


def _draw(boards: Sequence[Board], *, output: Path, force: bool, show: Callable[[Sequence[Board]], None]) -> None:
    """Show events, and draw the recorders that have numbers."""
    show(boards)
    recorders = [
        (event.library, event.name, event.values)
        for board in boards
        for event in board.events
        if event.values is not None and event.values.ndim == 1 and len(event.values)
    ]
    if not recorders:
        raise OutputError(f"{output}: there is nothing to draw: no recorder has numbers")
    write_atomically(output, draw_recorders(recorders, output.suffix[1:]), PICTURE, force=force)


def document(board: Board) -> dict[str, Any]:
    """The JSON face, `foretrace.events/1`."""
    return {
        "schema": "foretrace.events/1",
        "process": board.process,
        "ended": board.is_ended,
        "lost_bytes": board.lost_bytes,
        "events": [_event_document(event) for event in board.events],
    }


def _event_document(event: Event) -> dict[str, Any]:
    found: dict[str, Any] = {
        "library": event.library,
        "name": event.name,
        "kind": event.kind.name.lower(),
        "type": event.type,
        "instant": event.is_instant,
        "value": event.value,
        "unit": event.unit,
        "description": event.description,
    }
    if event.unread:
        found["reason"] = event.unread
    quantiles = _quantiles(event)
    if quantiles is not None:
        found["quantiles"] = dict(zip(("min", "q1", "median", "q3", "max"), quantiles, strict=True))
    if event.kind is Kind.SET:
        found["elements"] = [
            {"hex": one.content.hex(), "type_id": one.type_id, "count": one.count} for one in event.elements
        ]
    return found


def _quantiles(event: Event) -> list[float] | None:
    """Least, quartiles and greatest of a recorder's numbers; None: it has none."""
    if event.values is None or event.values.ndim != 1 or not len(event.values):
        return None
    found: list[float] = np.quantile(event.values, (0, 0.25, 0.5, 0.75, 1)).tolist()
    return found


def _print_csv(board: Board) -> None:
    text = io.StringIO()
    rows = csv.writer(text)
    names = ("library", "name", "kind", "type", "value", "unit", "description")
    rows.writerow(names)
    for event in board.events:
        values = _event_document(event)
        rows.writerow([plain(str(values[name])) if values[name] is not None else "" for name in names])
    sys.stdout.write(text.getvalue())


def _print_table(board: Board) -> None:
    out = console()
    shown = table(
        "event", "kind", "value", "", "description", left=("event", "kind", "", "description"), whole=("event", "kind")
    )
    for event in board.events:
        described = event.description if event.description != f"{event.library}::{event.name}" else ""
        value = (
            "-" if event.value is None else f"{event.value:,}" if isinstance(event.value, int) else f"{event.value:.6g}"
        )
        shown.add_row(
            plain(f"{event.library}::{event.name}"), event.kind.name.lower(), value, _note(event), plain(described)
        )
    out.print(shown if board.events else f"Process {board.process} has registered no events.")
    if board.lost_bytes:
        out.print(f"{board.lost_bytes:,} bytes did not fit into the shared memory: what was counted there is missing.")


def _note(event: Event) -> str:
    quantiles = _quantiles(event)
    if quantiles is not None:
        return f"values, {quantiles[0]:.4g} to {quantiles[4]:.4g}, median {quantiles[2]:.4g}"
    if event.kind is Kind.RECORDER:
        return "values"
    if event.kind is Kind.SET:
        return f"elements, {sum(one.count for one in event.elements):,} in all"
    return event.unread


def _print_values(board: Board, name: str) -> None:
    for event in board.events:
        if f"{event.library}::{event.name}" == name and event.values is not None:
            for value in event.values:
                print(value.tobytes().hex() if event.values.ndim > 1 else value)
            return
    recorders = [f"{one.library}::{one.name}" for one in board.events if one.kind is Kind.RECORDER]
    raise EventsError(f"{name}: is no recorder; there are {', '.join(map(plain, recorders)) or 'none'}")
