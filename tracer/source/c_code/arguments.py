"""Parser options of a file: its language and standard, macros, and header folders."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from foretrace.base import json_text
from foretrace.base.errors import SourceError
from foretrace.base.files import read_bounded
from foretrace.tracer.source.form.records import Language

C_ENDINGS = frozenset({".c"})
EITHER_ENDINGS = frozenset({".h", ".inc"})

STUBS = Path(__file__).parent / "stubs"
MOST_COMMANDS_BYTES = 128 << 20
MOST_ARGUMENTS = 2000
MOST_COMMAND_LETTERS = 1 << 17
"""Largest command, as Linux limits one argument (MAX_ARG_STRLEN); splitting takes time by the square of a word."""
_CXX_WORDS = re.compile(
    rb"^[ \t]*(?:class\b|template\b|namespace\b|using\b|public:|private:|typename\b)|\bstd::|\boperator\b", re.MULTILINE
)
_JOINED = ("-I", "-D", "-U", "-std=", "-isystem", "-iquote", "-include", "-idirafter", "-imacros")
_SEPARATE = frozenset({"-I", "-D", "-U", "-isystem", "-iquote", "-include", "-idirafter", "-imacros"})
_PATHS = ("-I", "-isystem", "-iquote", "-include", "-idirafter", "-imacros")


@dataclass(frozen=True)
class Options:
    """Options for the files to lower, all optional."""

    include_dirs: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()
    """`NAME` or `NAME=value`."""
    undefines: tuple[str, ...] = ()
    compile_commands: Path | None = None
    """Path of compile_commands.json; if None, the file is searched in the folders above each source."""
    roots: tuple[Path, ...] = ()
    """Folders below which headers are searched that are not found otherwise, besides the file's project."""
    cache: Path | None = None
    """Folder of the precompiled standard headers, kept between processes; None: a folder of this process."""


def language_of(path: Path, text: bytes) -> Language:
    """C or C++, by the file's name and, for `.h`, by its content."""
    if path.suffix in EITHER_ENDINGS:
        return Language.CXX if _CXX_WORDS.search(text) else Language.C
    return Language.C if path.suffix in C_ENDINGS else Language.CXX


def standard_of(language: Language) -> str:
    """The standard that is assumed where nothing says another."""
    return "-std=gnu17" if language is Language.C else "-std=gnu++20"


_OLD_C = tuple(
    f"-Wno-{warning}" for warning in ("implicit-function-declaration", "implicit-int", "int-conversion",
                                      "incompatible-function-pointer-types", "return-mismatch")
)  # fmt: skip
"""Options that accept what compilers took for warnings until C99 was two decades old."""


def always(language: Language) -> tuple[str, ...]:
    """Arguments for every file: no code generation, bounds, and stubs of the compiler's own headers."""
    return (
        "-fsyntax-only", "-w", "-ferror-limit=0", "-fbracket-depth=256", "-ftemplate-depth=200",
        "-fconstexpr-depth=128", "-fconstexpr-steps=100000", "-fno-spell-checking", "-nobuiltininc",
        *(_OLD_C if language is Language.C else ()),
        "-isystem", str(STUBS), "-x", "c" if language is Language.C else "c++",
    )  # fmt: skip


def assumed() -> tuple[str, ...]:
    """Macros that are assumed where no compile command is known: an optimised build with OpenMP."""
    return ("-D_OPENMP=201511", "-DNDEBUG")


def commands_for(path: Path, given: Path | None) -> tuple[str, ...] | None:
    """Options from a file's compile command: include folders, macros, the standard. None: it has no command."""
    database = given if given is not None else _database_above(path.parent)
    if database is None:
        return None
    return _commands(database).get(path)


@lru_cache(maxsize=256)
def _database_above(folder: Path) -> Path | None:
    for above in (folder, *folder.parents):
        for name in ("compile_commands.json", "build/compile_commands.json"):
            if (above / name).is_file():
                return above / name
        if (above / ".git").exists():
            break
    return None


@lru_cache(maxsize=4)
def _commands(database: Path) -> dict[Path, tuple[str, ...]]:
    try:
        content = read_bounded(database, MOST_COMMANDS_BYTES, "a compilation database", SourceError)
        entries = json_text.decode(content, list[Any])
    except (SourceError, msgspec.DecodeError):
        return {}
    found: dict[Path, tuple[str, ...]] = {}
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("file"), str):
            continue
        folder = Path(entry["directory"]) if isinstance(entry.get("directory"), str) else database.parent
        folder = database.parent / folder
        words = entry.get("arguments")
        if not isinstance(words, list):
            command = entry.get("command")
            try:
                words = (
                    shlex.split(command) if isinstance(command, str) and len(command) <= MOST_COMMAND_LETTERS else []
                )
            except ValueError:
                words = []
        try:
            found.setdefault((folder / entry["file"]).resolve(), kept_arguments([str(word) for word in words], folder))
        except (OSError, ValueError, RuntimeError):
            continue
    return found


def kept_arguments(words: list[str], folder: Path) -> tuple[str, ...]:
    """The compiler arguments that affect the source's meaning; no others reach the parser."""
    kept: list[str] = []
    given = iter(words[:MOST_ARGUMENTS])
    for word in given:
        if "\0" in word:
            continue
        if word in ("-fopenmp", "-qopenmp", "-openmp"):
            kept.append("-D_OPENMP=201511")
            continue
        prefix = next((prefix for prefix in _JOINED if word.startswith(prefix)), None)
        if prefix is None:
            continue
        value = word[len(prefix) :]
        if not value and prefix in _SEPARATE:
            value = next(given, "")
        if not value:
            continue
        if prefix in _PATHS:
            value = str(folder / value)
        kept += [f"{prefix}{value}"] if prefix in ("-I", "-D", "-U", "-std=") else [prefix, value]
    return tuple(kept)
