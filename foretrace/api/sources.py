"""Source code: the idioms and loops of files and folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from foretrace.base.errors import SourceError, quoted
from foretrace.base.files import cache_folder
from foretrace.reports.idiom_reports import FINDINGS, idiom_counts
from foretrace.reports.model import Table, for_programs
from foretrace.reports.renderers import data_frame
from foretrace.tracer.source.idioms.patterns import IdiomDefinition, built_in, definition, from_file
from foretrace.tracer.source.idioms.records import Finding, Findings
from foretrace.tracer.source.scanning import scanned

from .views import MOST_ROWS, Shown, ShownTable, shortened, shown_as

if TYPE_CHECKING:
    import pandas

_LOOPS = for_programs("file", "line", "last_line", "function", "lowered", "verdict", "reason", "assumptions")


@dataclass(frozen=True, slots=True, repr=False)
class Idioms(Shown, Findings):
    """Idioms in source code (`findings`), its loops with what they carry (`loops`), and what was `skipped`."""

    def to_dataframe(self, table: str = "findings") -> pandas.DataFrame:
        """A row for each finding, or for each loop.

        Raises:
            ValueError: `table` is neither "findings" nor "loops".
        """
        if table == "loops":
            return data_frame(Table(_LOOPS, self.loops))
        if table != "findings":
            raise ValueError(f"there is no table {table!r}: findings, loops")
        return data_frame(Table(FINDINGS, self.findings))

    def counts(self) -> dict[str, int]:
        """Number of findings of each idiom, most first; parts of other findings are not counted."""
        return idiom_counts(self)

    def _line(self) -> str:
        return f"{len(self.findings)} findings in {self.files} files, {self.lines:,} lines"

    def _table(self) -> ShownTable:
        rows = [
            (one.idiom, f"{Path(one.file).name}:{one.first_line}", one.function, shortened(one.text, 60))
            for one in self.findings[:MOST_ROWS]
        ]
        notes = [", ".join(f"{count} {name}" for name, count in self.counts().items())] if self.findings else []
        if self.skipped:
            notes.append(f"{len(self.skipped)} parts skipped")
        return ShownTable(self._line(), ("idiom", "place", "function", "code"), rows, len(self.findings), 4, notes)


def idioms(
    *paths: str | os.PathLike[str],
    patterns: str | os.PathLike[str] | Iterable[IdiomDefinition] | None = None,
    only: Sequence[str] = (),
    cache: bool = True,
    defines: Sequence[str] = (),
    branches: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Idioms:
    """Find idioms in source code of C, C++, Fortran and Python.

    Args:
        paths: files and folders.
        patterns: idioms of yours, looked for before the built-in ones: a pattern file, or what `idiom` makes.
        only: names of idioms to report; (): all.
        cache: whether results are kept on disk, by content, for the next time.
        defines: symbols of the preprocessor, `NAME` or `NAME=value`.
        branches: whether branches of the preprocessor that are not taken are read as well.
        progress: called with the number of files done and of all.

    Returns:
        Findings with file, lines, function, arrays and index expressions; loops with what they carry; skipped parts.

    Raises:
        SourceError: a path does not exist, a pattern does not parse, `only` has an unknown name, a package is missing.
    """
    if not paths:
        raise SourceError("name at least one file or folder")
    if patterns is None:
        own: tuple[IdiomDefinition, ...] = ()
    elif isinstance(patterns, str | os.PathLike):
        own = from_file(Path(patterns))
    else:
        own = tuple(patterns)
    definitions = (*own, *(one for one in built_in() if one.name not in {mine.name for mine in own}))
    check_names(only, definitions)
    home = cache_folder() if cache else None
    folder = home and home / "idioms"
    found = scanned(
        [Path(path) for path in paths], definitions, cache_folder=folder, defines=defines, branches=branches,
        progress=progress,
    )  # fmt: skip
    return shown_as(Idioms, selected(found, lambda one: not only or one.idiom in only))


def check_names(names: Iterable[str], definitions: Sequence[IdiomDefinition]) -> None:
    """Checks that idioms of these names exist.

    Raises:
        SourceError: one does not.
    """
    unknown = set(names) - {one.name for one in definitions}
    if unknown:
        known = [one.name for one in definitions]
        close = get_close_matches(min(unknown), known, 1)
        raise SourceError(
            f"there is no idiom {quoted(min(unknown))}: "
            + (f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}")
        )


def idiom(name: str, *patterns: str, summary: str = "", where: str = "", confidence: float = 0.9) -> IdiomDefinition:
    """An idiom of your own for `idioms(patterns=[...])`; docs/idioms.md describes the notation.

    Raises:
        SourceError: a pattern or the condition does not parse.
    """
    return definition(name, list(patterns), summary or name, where=where, confidence=confidence)


def selected(found: Findings, wanted: Callable[[Finding], bool]) -> Findings:
    """The findings that are wanted; one whose parent is not becomes a finding of its own."""
    kept: list[Finding] = []
    moved: dict[int, int] = {}
    for position, one in enumerate(found.findings):
        if wanted(one):
            moved[position] = len(kept)
            kept.append(one.with_parent(None if one.parent is None else moved.get(one.parent)))
    return replace(found, findings=tuple(kept))
