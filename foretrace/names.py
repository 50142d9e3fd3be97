"""Names of functions as their source has them: C++ and Rust names demangled by LLVM's demangler, Fortran's of modules.

pycxxfilt is one small extension with LLVM's demangler inside: no compiler or C++ library is needed, one wheel serves
all versions of Python, and it is kept in step with LLVM.
"""

from __future__ import annotations

import functools
import re

import pycxxfilt

_FORTRAN = re.compile(r"__(\w+?)_MOD_(\w+)$|_QM(\w+?)P(\w+)$")
"""A procedure of a module, as GNU Fortran and Flang write it."""
_RUST_HASH = re.compile(r"::h[0-9a-f]{13,17}$")
_CLONE = re.compile(r" \((\.[\w.]+)\)$")
_ANONYMOUS = "(anonymous namespace)"


@functools.lru_cache(maxsize=65536)
def demangle(name: str) -> str:
    """`name` as the source has it, with parameters; itself if it is not mangled, or not in a known way."""
    if not name.startswith(("_Z", "__Z", "_R", "__", "_QM")):
        return name
    fortran = _FORTRAN.match(name)
    if fortran:
        return "::".join(part for part in fortran.groups() if part is not None)
    try:
        found: str | None = pycxxfilt.demangle(name)
    except ValueError:  # a name of somebody's own that begins alike
        return name
    return _RUST_HASH.sub("", found) if found else name


@functools.lru_cache(maxsize=65536)
def short_name(name: str) -> str:
    """The same without return type and parameters: what fits a column."""
    full = demangle(name)
    if full == name or "(" not in full:
        return full
    clone = _CLONE.search(full)
    text = _CLONE.sub("", full).replace(_ANONYMOUS, "{anonymous}")
    depth, start = 0, 0
    for position, letter in enumerate(text):
        if letter == "(" and depth == 0 and not text[:position].endswith("operator"):
            text = text[start:position]
            break
        if letter == " " and depth == 0 and not text[start:position].endswith("operator"):
            start = position + 1
        depth += (letter == "<") - (letter == ">" and depth > 0)
    return text.replace("{anonymous}", _ANONYMOUS) + (clone[1] if clone else "")
