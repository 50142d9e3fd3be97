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
from foretrace.base.file_kinds import PICTURE, REPORT
from foretrace.base.files import check_output, write_atomically
from foretrace.reports.model import Report
from foretrace.reports.renderers import FORMATS, print_report, rendered

PICTURES = (".svg", ".png", ".pdf")


@dataclass(frozen=True, slots=True)
class Output:
    """Where a result goes.

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
            write_atomically(path, rendered(report, path.suffix[1:]), REPORT, force=self.force)
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
    *, pictures: str = "", json_help: str = "Print one JSON object.", synonyms: Sequence[str] = ("json",)
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options of a verb that has a result. The command gets them as `output`, an `Output`.

    Args:
        pictures: what pictures of the result show, if it can be drawn.
        json_help: of --json.
        synonyms: formats that have an option of their own.
    """
    drawn = f", or a picture ({', '.join(PICTURES)}) of {pictures}" if pictures else ""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def run(*args: Any, output_format: str | None, outputs: tuple[Path, ...], force: bool, **options: Any) -> Any:
            given = {name for name in synonyms if options.pop(f"as_{name}")} | ({output_format} - {None})
            if len(given) > 1:
                raise click.UsageError(f"--{' and --'.join(sorted(given))} are different formats; choose one")
            return command(*args, output=_checked(next(iter(given), None), outputs, bool(pictures), force), **options)

        made = click.option("--force", is_flag=True, help="Overwrite files of -o that foretrace wrote.")(run)
        for name in reversed(synonyms):
            text = json_help if name == "json" else f"As --format {name}."
            made = click.option(f"--{name}", f"as_{name}", is_flag=True, help=text)(made)
        made = click.option(
            "-o", "--output", "outputs", multiple=True, type=click.Path(path_type=Path), metavar="PATH",
            help=f"Also write the result (.json, .csv, .md){drawn} (repeatable).",
        )(made)  # fmt: skip
        return click.option(
            "--format", "output_format", type=click.Choice(FORMATS),
            help="Print JSON, all rows as CSV, or a Markdown document.",
        )(made)  # fmt: skip

    return decorate


def _checked(name: str | None, outputs: tuple[Path, ...], has_pictures: bool, force: bool) -> Output:
    """Refuse early what cannot be written.

    Raises:
        OutputError: it has no ending of what can be made, exists, or cannot be written.
    """
    files = tuple(path for path in outputs if path.suffix[1:] in FORMATS)
    pictures = tuple(path for path in outputs if path not in files)
    for path in files:
        check_output(path, REPORT, force=force)
    for path in pictures:
        if path.suffix not in PICTURES or not has_pictures:
            endings = [f".{one}" for one in FORMATS] + (list(PICTURES) if has_pictures else [])
            raise OutputError(f"{path}: must end in {', '.join(endings[:-1])} or {endings[-1]}")
        from foretrace.reports.plots import check_picture

        check_picture(path)
        check_output(path, PICTURE, force=force)
    return Output(name, files, pictures, force)
