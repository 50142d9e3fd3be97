"""Source code joined with a traced run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from foretrace.base.errors import SourceError
from foretrace.tracer.signature import records
from foretrace.tracer.source.idioms.patterns import IdiomDefinition
from foretrace.tracer.source.idioms.records import Findings
from foretrace.tracer.source.joining import Join, join
from foretrace.tracer.source.scanning import source_files
from foretrace.tracer.source.traced_loops import run_of

from .sources import idioms

SourceLike: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"
"""A file or folder of source, or several."""


def read_source(
    source: SourceLike,
    *,
    patterns: str | os.PathLike[str] | Iterable[IdiomDefinition] | None = None,
    cache: bool = True,
    defines: Sequence[str] = (),
    branches: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Findings, list[Path]]:
    """The idioms and loops of a source tree, and its files.

    Raises:
        SourceError: it does not exist, holds no source, or a package that reads it is missing.
    """
    named = [source] if isinstance(source, str | os.PathLike) else list(source)
    files, _ = source_files([Path(one) for one in named])
    if not files:
        shown = ", ".join(os.fspath(one) for one in named)
        raise SourceError(f"{shown}: holds no source of C, C++, Fortran or Python; name the folder with the program's")
    found = idioms(*named, patterns=patterns, cache=cache, defines=defines, branches=branches, progress=progress)
    return found, files


def joined(signature: records.Signature, found: Findings, files: Iterable[Path] = ()) -> Join:
    """The source's verdict on each loop that ran, what never ran, and where source and run disagree."""
    return join(found, run_of(signature), files)
