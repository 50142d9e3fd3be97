"""The options that say where a result goes and as what: --format, --json, -o and --force, the same for each verb."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from foretrace.base.errors import OutputError
from foretrace.base.file_kinds import CSV, PICTURE, REPORT, csv_report
from foretrace.base.files import check_output, write_atomically
from foretrace.reports.model import Report
from foretrace.reports.renderers import FORMATS, PARQUET, check_parquet, print_report, rendered

Check = Callable[..., None]
"""Function that checks a path, and whether a file of the same kind may be replaced (`force`)."""
PICTURES = (".svg", ".png", ".pdf")


@dataclass(frozen=True, slots=True)
class Output:
    """Destination of a result.

    Attributes:
        format: of what is printed, one of `FORMATS`; None: for people.
        files: to write reports to, by their endings.
        pictures: to draw.
        force: whether files of the same kind may be replaced.
    """

    format: str | None
    files: tuple[Path, ...] = ()
    pictures: tuple[Path, ...] = ()
    force: bool = False

    def show(self, report: Report, *, prints: bool = True) -> None:
        """Write the files, and print the report: for people only if `prints`."""
        for path in self.files:
            content = rendered(report, path.suffix[1:])
            kind = csv_report(content) if path.suffix == ".csv" else REPORT
            write_atomically(path, content, kind, force=self.force)
        if self.format is not None:
            sys.stdout.buffer.write(rendered(report, self.format))
            sys.stdout.buffer.flush()
        elif prints:
            print_report(report)

    def draw(self, draw: Callable[[str], bytes]) -> None:
        """Draw the pictures; `draw` gets their format, such as "svg"."""
        for path in self.pictures:
            write_atomically(path, draw(path.suffix[1:]), PICTURE, force=self.force)


def output_options(
    *,
    pictures: str = "",
    json_help: str = "Print one JSON object.",
    synonyms: Sequence[str] = ("json",),
    files: bool = True,
    also: Sequence[str] = (),
    check: Check | None = None,
    parquet: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options of a verb that has a result. The command gets them as `output`, an `Output`.

    Args:
        pictures: what pictures of the result show, if it can be drawn.
        json_help: of --json.
        synonyms: formats that have an option of their own.
        files: whether it has -o and --force; not where the verb has files of its own.
        also: other values of --format, which the command gets as `other_format`.
        check: refuses pictures that cannot be written, if they are not those that matplotlib draws.
        parquet: whether files may be Parquet, too.
    """
    endings = (*FORMATS, PARQUET) if parquet else FORMATS
    listed = ", ".join(f".{name}" for name in endings)
    drawn = f", or a picture ({', '.join(PICTURES)}) of {pictures}" if pictures else ""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(*args: Any, output_format: str | None, outputs: tuple[Path, ...] = (), **options: Any) -> Any:
            if also:
                options["other_format"] = output_format if output_format in also else None
                output_format = output_format if output_format in FORMATS else None
            given = {name for name in synonyms if options.pop(f"as_{name}")}
            given |= set() if output_format is None else {output_format}
            if len(given) > 1:
                raise click.UsageError(f"--{' and --'.join(sorted(given))} exclude one another")
            force = files and options.pop("force")
            name = next(iter(given), None)
            return command(
                *args,
                output=_checked(
                    name, outputs, check if check else _check_picture if pictures else None, endings, force=force
                ),
                **options,
            )

        made: Callable[..., Any] = run
        if files:
            made = click.option("--force", is_flag=True, help="Overwrite files of -o that foretrace wrote.")(made)
        for name in reversed(synonyms):
            text = json_help if name == "json" else f"As --format {name}."
            made = click.option(f"--{name}", f"as_{name}", is_flag=True, help=text)(made)
        if files:
            made = click.option(
                "-o", "--output", "outputs", multiple=True, type=click.Path(path_type=Path), metavar="PATH",
                help=f"Also write the result ({listed}){drawn} (repeatable).",
            )(made)  # fmt: skip
        return click.option(
            "--format", "output_format", type=click.Choice((*FORMATS, *also)), metavar="|".join(FORMATS),
            help="Print JSON, all rows as CSV, or a Markdown document.",
        )(made)  # fmt: skip

    return decorate


def _checked(
    name: str | None, outputs: tuple[Path, ...], check: Check | None, endings: Sequence[str], *, force: bool
) -> Output:
    """Refuse early what cannot be written.

    Raises:
        OutputError: it has no ending of what can be made, exists, or cannot be written.
    """
    files = tuple(path for path in outputs if path.suffix[1:] in endings)
    for path in files:
        if path.suffix[1:] == PARQUET:
            check_parquet(path)
        check_output(path, CSV if path.suffix == ".csv" else REPORT, force=force)
    pictures = tuple(path for path in outputs if path not in files)
    for path in pictures:
        if check is None:
            listed = "".join(f".{ending}, " for ending in endings[:-1]).rstrip(", ")
            raise OutputError(f"{path}: must end in {listed} or .{endings[-1]}")
        check(path, force=force)
    return Output(name, files, pictures, force)


def _check_picture(path: Path, *, force: bool) -> None:
    if path.suffix not in PICTURES:
        endings = ", ".join([*(f".{name}" for name in FORMATS), *PICTURES[:-1]])
        raise OutputError(f"{path}: must end in {endings} or {PICTURES[-1]}")
    from foretrace.reports.plots import check_picture

    check_picture(path)
    check_output(path, PICTURE, force=force)
