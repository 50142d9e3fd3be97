"""`foretrace validate`: reference figures beside foretrace's own."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from foretrace.terminal import console, plain, print_json
from foretrace.units import format_bytes, format_bytes_per_s, format_seconds

if TYPE_CHECKING:
    from foretrace.benchmarks.validate import Validation


@click.command(epilog="Example: foretrace validate --machine here.toml")
@click.option("--machine", metavar="M", help="Profile of this machine; without it, a quick one is measured first.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(machine: str | None, as_json: bool) -> None:
    """Compare foretrace with published figures, and its predictions for this machine with measured run times.

    Needs a C compiler and QEMU, and takes minutes.
    """
    from foretrace.benchmarks import tools
    from foretrace.benchmarks.validate import validate

    with tempfile.TemporaryDirectory(prefix="foretrace-validate-") as name, _progress() as progress:
        if machine is None:
            progress("measuring this machine")
            machine = f"{name}/here.toml"
            tools.measure([tools.foretrace_executable(), "calibrate", "--quick", "-o", machine])
        validation = validate(Path(name), machine, progress)
    if as_json:
        print_json(validation.as_json())
    else:
        _show(validation)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Says what is being done, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    with Console(stderr=True).status("validating") as status:
        yield lambda text: status.update(plain(text))


def _show(validation: Validation) -> None:
    out = console()
    for table in (_ranges(validation), _bandwidths(validation), _run_times(validation)):
        out.print(table)
        out.print()


def _table(title: str, *headings: str) -> Table:
    """A table whose first heading is on the left, the others on the right."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="left" if heading == headings[0] else "right")
    return table


def _ranges(validation: Validation) -> Table:
    table = _table(
        "Address ranges, bytes; paper: Carrington et al., ICS'11, table 2",
        "loop", "array", "actual", "foretrace", "error", "paper", "error",
    )  # fmt: skip
    for row in validation.ranges:
        paper = (
            [f"{row.paper_bytes:,}", f"{row.paper_bytes / row.actual_bytes - 1:+.2%}"]
            if row.paper_bytes
            else ["-", "-"]
        )
        error = row.measured_bytes / row.actual_bytes - 1
        table.add_row(row.loop, row.array, f"{row.actual_bytes:,}", f"{row.measured_bytes:,}", f"{error:+.2%}", *paper)
    return table


def _bandwidths(validation: Validation) -> Table:
    table = _table(
        "Gathering on the Convey HC-1; paper: ICS'11, equations 2 to 4",
        "address range", "equation", "paper", "foretrace",
    )  # fmt: skip
    for row in validation.bandwidths:
        values = (row.paper_bytes_per_s, row.triage_bytes_per_s)
        shown = [format_bytes_per_s(value) if value else "on the host" for value in values]
        table.add_row(f"{format_bytes(row.range_bytes)} ({row.range_bytes:,})", row.equation, *shown)
    return table


def _run_times(validation: Validation) -> Table:
    table = _table("Run time on this machine", "program", "predicted", "interval", "measured", "error")
    for row in validation.run_times:
        table.add_row(
            plain(row.program), format_seconds(row.predicted_s),
            f"{format_seconds(row.low_s)} to {format_seconds(row.high_s)}",
            format_seconds(row.measured_s), f"{row.error:+.0%}",
        )  # fmt: skip
    return table
