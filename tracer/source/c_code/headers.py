"""Folders of the headers that a file includes: those it was compiled with, or found by a search among the sources."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path, PurePosixPath

MOST_FILES = 100_000
MOST_FOLDERS_ADDED = 24
ENDINGS = (".h", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".ipp", ".tcc", ".tpp", ".def", ".cuh")
_MISSING = re.compile(r"'([^'\n]+)' file not found")


MOST_LEVELS = 6
"""Folders between a source and the nearest sign of its project."""
_SIGNS = frozenset({
    ".git", ".hg", ".svn", "CMakeLists.txt", "Makefile", "makefile", "GNUmakefile", "Makefile.am", "configure",
    "configure.ac", "meson.build", "SConstruct", "BUILD.bazel", "setup.py", "pyproject.toml", "compile_commands.json",
})  # fmt: skip
_REPOSITORY = frozenset({".git", ".hg", ".svn"})


@lru_cache(maxsize=256)
def project_of(folder: Path) -> Path:
    """The folder of the project that sources belong to: the outermost of those above it that hold build files.

    A folder next to which one for headers lies (`include`) belongs to a project, too. The folder itself, if nothing
    above it looks like a project.
    """
    project = folder
    missed = 0
    for above in (folder, *folder.parents):
        if above in (Path.home(), Path(above.anchor)):
            break
        try:
            names = {entry.name for entry in os.scandir(above)}
        except OSError:
            break
        if names & _SIGNS or (above != folder and "include" in names):
            project, missed = above, 0
        else:
            missed += 1
        if names & _REPOSITORY or missed > (MOST_LEVELS if project == folder else 1):
            break
    return project


@lru_cache(maxsize=8)
def headers_below(root: Path) -> dict[str, tuple[str, ...]]:
    """Folders below a root that have a header, by the header's name; links to folders are not followed."""
    found: dict[str, list[str]] = {}
    number = 0
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        number += len(names)
        for name in names:
            if name.endswith(ENDINGS) or "." not in name:
                found.setdefault(name, []).append(folder)
        if number > MOST_FILES:
            break
    return {name: tuple(folders) for name, folders in found.items()}


def missing_headers(messages: list[str]) -> list[str]:
    """Headers that the parser did not find, by its messages."""
    return list(dict.fromkeys(found.group(1) for message in messages if (found := _MISSING.search(message))))


def folders_for(missing: list[str], roots: tuple[Path, ...], near: Path) -> list[str]:
    """Folders among the sources that have the missing headers; of several the one nearest to the file."""
    folders: list[str] = []
    for header in missing:
        parts = PurePosixPath(header)
        if parts.is_absolute() or ".." in parts.parts:
            continue
        candidates = []
        for root in roots:
            for folder in headers_below(root).get(parts.name, ()):
                start = Path(folder)
                steps = parts.parts[:-1]
                if steps and start.parts[-len(steps) :] != steps:
                    continue
                for _ in steps:
                    start = start.parent
                candidates.append(str(start))
        if candidates:
            nearest = max(candidates, key=lambda folder: (len(os.path.commonpath([folder, near])), -len(folder)))
            if nearest not in folders:
                folders.append(nearest)
    return folders[:MOST_FOLDERS_ADDED]
