"""The C++ standard library's headers, parsed once: they are many times longer than the files that include them.

They lie in a folder that the processes which read files share (`scratch_folder`).
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from . import _syntax
from .scratch_folder import own_folder

HEADERS = (
    "algorithm", "array", "atomic", "bitset", "cassert", "cctype", "cfloat", "chrono", "climits", "cmath", "complex",
    "cstddef", "cstdint", "cstdio", "cstdlib", "cstring", "ctime", "deque", "exception", "fstream", "functional",
    "initializer_list", "iomanip", "iostream", "iterator", "limits", "list", "map", "memory", "mutex", "new", "numeric",
    "ostream", "queue", "random", "set", "span", "sstream", "stack", "stdexcept", "string", "string_view", "thread",
    "tuple", "type_traits", "typeinfo", "unordered_map", "unordered_set", "utility", "valarray", "vector",
)  # fmt: skip
"""Not `execution`: it needs a library of its own (TBB)."""
SKIP_FUNCTION_BODIES = 0x40

_made: dict[tuple[str, ...], Path | None] = {}


def prelude(arguments: tuple[str, ...], cache: Path | None) -> Path | None:
    """The precompiled headers for files with these arguments; None: they cannot be made here."""
    if arguments not in _made:
        try:
            _made[arguments] = _make(arguments, cache)
        except OSError:
            _made[arguments] = None
    return _made[arguments]


def _make(arguments: tuple[str, ...], cache: Path | None) -> Path | None:
    folder = cache if cache is not None else own_folder()
    folder.mkdir(parents=True, exist_ok=True)
    stem = hashlib.sha256("\0".join((*arguments, *HEADERS)).encode()).hexdigest()[:16]
    made = folder / f"prelude-{stem}.pch"
    if made.is_file():
        return made
    source = folder / f"prelude-{stem}.hpp"
    if not source.is_file():
        written = folder / f"{source.name}.{os.getpid()}"
        text = "".join(f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n" for name in HEADERS)
        written.write_text(text)
        written.replace(source)
    header = tuple("c++-header" if word == "c++" else word for word in arguments)
    try:
        unit = _syntax.Unit(str(source), header, 0x4 | SKIP_FUNCTION_BODIES)
    except RuntimeError:
        return None
    written = folder / f"{made.name}.{os.getpid()}"
    if not unit.save(str(written)):
        written.unlink(missing_ok=True)
        return None
    written.replace(made)
    return made
