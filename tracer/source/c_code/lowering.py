"""A file of C or C++ as source form.

What bounds a file's cost: files beyond `MOST_BYTES` and functions beyond `MOST_NODES` are skipped, nesting beyond
`MOST_DEPTH` is opaque, and the parser's own limits on brackets, templates and constant expressions are set. Macros
and includes may still make a small file large, and the parser is C++ code that reads hostile text: a caller that
reads files of others runs `lower_file` in a worker process with limits on its memory (RLIMIT_AS) and time.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foretrace.base.errors import SourceError, shortened
from foretrace.tracer.source.form.records import Function, Language, Place, Skipped, Unit

from . import _syntax
from .arguments import Options, always, assumed, commands_for, language_of, standard_of
from .assumptions import Assumed
from .form_types import Types
from .headers import folders_for, missing_headers, project_of
from .library import bind_libclang
from .pragmas import promises
from .prelude import prelude
from .scope import MOST_NODES, Source
from .scratch_folder import own_folder
from .statements import Lowering
from .syntax import DEFINED, FUNCTION_KINDS, INSTANCE, PATTERN, SYSTEM, Node, Syntax

MOST_BYTES = 32 << 20
MOST_FUNCTIONS = 50_000
KEEP_GOING = 0x200
"""CXTranslationUnit_KeepGoing: a missing header does not stop the parser."""
WITH_BRANCHES = 0x01
"""CXTranslationUnit_DetailedPreprocessingRecord: branches that are not taken are kept."""
ERROR = 3
ROUNDS = 3
"""Number of times a file is parsed again because headers were found in other folders."""

Message = tuple[int, str, int, str, int]


def lower_file(path: Path, options: Options | None = None) -> Unit:
    """The form of a file; parts that could not be lowered are listed in `skipped`.

    Args:
        path: a file of C or C++.
        options: include folders, macros and the like.

    Raises:
        SourceError: the file cannot be read, or libclang is missing.
    """
    options = options or Options()
    bind_libclang()
    try:
        if not path.is_file():
            raise SourceError(f"{path}: no such file")
        large = path.stat().st_size > MOST_BYTES
        text = b"" if large else path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error
    language = language_of(path, text)
    lines = text.count(b"\n") + (not text.endswith(b"\n"))
    reason = f"it has more than {MOST_BYTES >> 20} MiB" if large else "it has null bytes" if b"\0" in text else ""
    if reason:
        return Unit(str(path), language, (str(path),), lines, (), (Skipped(Place(1), "file", reason),))
    try:
        unit, messages, assumed_names = _parsed(path, text, language, options)
    except RuntimeError as error:
        skipped = Skipped(Place(1), "file", f"it could not be parsed: {error}")
        return Unit(str(path), language, (str(path),), lines, (), (skipped,))
    source = Source(Syntax(unit), None, [], {})  # type: ignore[arg-type]
    source.types = Types(source.syntax)
    source.text = text.decode("utf-8", "replace").split("\n")
    source.promises = promises(text)
    source.files[0] = 0
    source.skipped = _skipped_by_parser(messages, _name(path))
    source.errors = sorted(
        (line, column, shortened(words)) for severity, words, line, file, column in messages
        if severity >= ERROR and file == _name(path) and not words.endswith("file not found")
    )  # fmt: skip
    untaken = unit.skipped()
    source.untaken = [(first, last) for file, first, last in untaken if file == _name(path)]
    source.skipped += [Skipped(Place(1), "declaration", reason) for reason in assumed_names.reasons()]
    source.assumed = frozenset((*assumed_names.values, *assumed_names.functions))
    source.types.assumed = bool(assumed_names.values)
    with _deeper_recursion():
        functions = _functions(source)
    names = source.syntax.files()
    for file, first, last in untaken:
        number = 0 if file == _name(path) else names.index(file) if file in names else -1
        if number in source.files:
            place = Place(first, 1, last, source.files[number])
            source.skipped.append(Skipped(place, "branch", "a branch of the preprocessor that is not taken"))
    files = tuple(str(path) if number == 0 else os.path.normpath(names[number]) for number in source.files)
    functions.sort(key=lambda function: (function.place.file, function.place.line, function.name))
    return Unit(str(path), language, files, lines, tuple(functions), tuple(source.skipped))


def _parsed(
    path: Path, text: bytes, language: Language, options: Options
) -> tuple[_syntax.Unit, list[Message], Assumed]:
    """The parsed file; headers that are missing are looked for, names that are not declared are assumed."""
    known = commands_for(path.resolve(), options.compile_commands)
    arguments = always(language)
    own: list[str] = [*(known if known is not None else assumed())]
    own += [f"-D{define}" for define in options.defines]
    own += [f"-U{name}" for name in options.undefines]
    own += [f"-I{folder}" for folder in options.include_dirs]
    standard = next((word for word in own if word.startswith("-std=")), standard_of(language))
    own = [standard, *(word for word in own if not word.startswith("-std="))]
    early: tuple[str, ...] = ()
    if language is Language.CXX and b"#" in text:
        made = prelude((*arguments, standard), options.cache)
        early = ("-include-pch", str(made)) if made else ()
    added: list[str] = []
    names = Assumed()
    roots = tuple(dict.fromkeys((project_of(path.resolve().parent), *(root.resolve() for root in options.roots))))
    lines: list[str] = []
    with tempfile.TemporaryDirectory(dir=own_folder()) as folder:
        header = Path(folder) / "assumed.h"
        for round_ in range(ROUNDS + 1):
            everything = (*arguments, *own, *(f"-I{found}" for found in added), *early)
            if len(names):
                header.write_text(names.header(language))
                everything = (*everything, "-include", str(header))
            try:
                unit = _syntax.Unit(_name(path), everything, KEEP_GOING | WITH_BRANCHES)
            except RuntimeError:
                if not early:
                    raise
                early = ()
                continue
            messages = unit.diagnostics()
            if round_ == ROUNDS:
                break
            if early and not len(names) and any(_is_clash(message) for message in messages):
                early = ()
                continue
            missing = missing_headers([words for severity, words, _, _, _ in messages if severity >= ERROR])
            folders = [found for found in folders_for(missing, roots, path.resolve().parent) if found not in added]
            if folders:
                added += folders
                continue
            lines = lines or text.decode("utf-8", "replace").split("\n")
            if not names.learn(messages, lines, _name(path)):
                break
    return unit, messages, names


def _is_clash(message: Message) -> bool:
    """Whether a name of the file is one of a standard header's that the file does not include."""
    severity, words, *_ = message
    return severity >= ERROR and ("redefinition of" in words or "redeclared as different kind" in words)


def _skipped_by_parser(messages: list[Message], path: str) -> list[Skipped]:
    """Parts that the parser did not understand: missing headers, and statements with errors."""
    skipped = []
    for severity, words, line, file, _ in messages:
        if severity >= ERROR and words.endswith("file not found"):
            skipped.append(Skipped(Place(max(1, line)), "include", shortened(words)))
        elif severity >= ERROR and file == path:
            skipped.append(Skipped(Place(max(1, line)), "statement", shortened(words)))
    return skipped


def _functions(source: Source) -> list[Function]:
    """The functions of the file, instances of its templates, and those of headers' templates that it uses."""
    syntax = source.syntax
    found: list[Function] = []
    seen: set[int] = set()
    patterns: list[int] = []
    instantiated: set[int] = set()
    pending = list(dict.fromkeys(syntax.roots()))
    scanned = 0
    while pending and len(found) < MOST_FUNCTIONS:
        number = pending.pop(0)
        declared = syntax.declarations[number]
        if number in seen:
            continue
        seen.add(number)
        if declared.flags & PATTERN:
            patterns.append(number)
            continue
        if declared.template >= 0:
            instantiated.add(declared.template)
        found += _lowered(source, number)
        while scanned < len(syntax.declarations):
            other = syntax.declarations[scanned]
            instance = other.kind in FUNCTION_KINDS and other.flags & INSTANCE and other.flags & DEFINED
            if instance and not other.flags & (SYSTEM | PATTERN) and other.definition >= 0:
                pending.append(other.definition)
            scanned += 1
    for number in patterns:
        if number not in instantiated:
            found += [_as_pattern(function) for function in _lowered(source, number)]
    return found


def _as_pattern(function: Function) -> Function:
    """A template that nothing instantiates: its name stands as its own template's."""
    return Function(function.name, function.place, function.parameters, function.variables, function.body,
                    function.result, function.name)  # fmt: skip


def _lowered(source: Source, number: int) -> list[Function]:
    declared = source.syntax.declarations[number]
    place = Place(max(1, declared.line))
    try:
        tree = source.syntax.tree(number, MOST_NODES)
        if Node.BLOCK not in tree.kind and Node.TRY not in tree.kind:
            return []
        lowering = Lowering(source, tree)
        made = lowering.function(number)
        return [made, *lowering.lambda_functions(made.name)]
    except OverflowError:
        reason = f"{shortened(declared.full_name)} has more than {MOST_NODES} parts"
    except RecursionError:
        reason = f"{shortened(declared.full_name)} is nested too deeply"
    source.skipped.append(Skipped(place, "function", reason))
    return []


@contextmanager
def _deeper_recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 8000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _name(path: Path) -> str:
    """A file's name for the parser, which takes one with a dash in front for an option."""
    return f"./{path}" if str(path).startswith("-") else str(path)
