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
_RUST_LEGACY = re.compile(r"_?_ZN(.+)17h[0-9a-f]{16}E(?:\.llvm\.\w+)?$")
"""A name of Rust's first scheme: identifiers with their lengths, the last a hash (rustc book, symbol mangling)."""
_RUST_ESCAPE = re.compile(r"\$(SP|BP|RF|LT|GT|LP|RP|C|u[0-9a-f]{1,6})\$|\.\.")
_RUST_LETTERS = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}
_CLONE = re.compile(r" \((\.[\w.]+)\)$")
_ANONYMOUS = "(anonymous namespace)"
_OPERATOR = re.compile(
    r"\boperator ?(?:\(\)|<=>|<<=|>>=|->\*?|<<|>>|<=|>=|<(?=[<(])|<$|>)|\boperator [a-z]+(?: ?\[\])?"
)
_PRIVATE, _FIRST_PRIVATE = "\ue000", 0xE100


@functools.lru_cache(maxsize=65536)
def demangle(name: str) -> str:
    """`name` as the source has it, with parameters; itself if it is not mangled, or not in a known way."""
    if not name.startswith(("_Z", "__Z", "_R", "__", "_QM")):
        return name
    fortran = _FORTRAN.match(name)
    if fortran:
        return "::".join(part for part in fortran.groups() if part is not None)
    rust = _rust_legacy(name)
    if rust:
        return rust
    try:
        found: str | None = pycxxfilt.demangle(name)
    except ValueError:  # a name of somebody's own that begins alike
        return name
    return found or name


def mangled_name(name: str) -> str | None:
    """The linker's name of a function whose source name differs; None if both are the same."""
    return name if demangle(name) != name else None


def _rust_legacy(name: str) -> str:
    """A name of Rust's first scheme without its hash; empty if it is none."""
    mangled = _RUST_LEGACY.match(name)
    rest, parts = (mangled[1] if mangled else ""), []
    while rest:
        length = re.match(r"\d+", rest)
        if not length:
            return ""
        end = length.end() + int(length[0])
        part, rest = rest[length.end() : end], rest[end:]
        if len(part) < int(length[0]):
            return ""
        parts.append(_RUST_ESCAPE.sub(_rust_letter, part.removeprefix("_") if part.startswith("_$") else part))
    return "::".join(parts)


def _rust_letter(escape: re.Match[str]) -> str:
    code = escape[1]
    if code is None:
        return "::"
    if code in _RUST_LETTERS:
        return _RUST_LETTERS[code]
    number = int(code[1:], 16)
    return chr(number) if 32 <= number < 0x110000 and not 0xD800 <= number < 0xE000 else escape[0]


@functools.lru_cache(maxsize=65536)
def short_name(name: str) -> str:
    """The demangled name without return type and parameters, short enough for a column."""
    full = demangle(name)
    if full == name or "(" not in full:
        return full
    clone = _CLONE.search(full)
    text = _hidden(_CLONE.sub("", full))
    depth, start = 0, 0
    for position, letter in enumerate(text):
        if letter == "(" and depth == 0:
            text = text[start:position]
            break
        if letter == " " and depth == 0:
            start = position + 1
        depth += (letter == "<") - (letter == ">" and depth > 0)
    return _shown(text) + (clone[1] if clone else "")


@functools.lru_cache(maxsize=65536)
def brief_name(name: str) -> str:
    """The short name without arguments of templates and generics: `std::vector::operator[]`."""
    short = short_name(name)
    text = _hidden(short)
    if text.startswith("<") and " as " in text:  # Rust: <Type as Trait>::function
        text = text[1:].replace(" as ", "<", 1)
    kept, depth = [], 0
    for letter in text:
        depth += letter == "<"
        if depth == 0:
            kept.append(letter)
        depth -= letter == ">" and depth > 0
    brief = _shown("".join(kept)).replace("::::", "::").strip(":")
    return brief if brief and depth == 0 else short


def _hidden(text: str) -> str:
    """A name in which brackets and spaces that belong to an operator or a namespace without a name are letters of a
    private use area."""
    text = text.replace(_ANONYMOUS, _PRIVATE)
    return _OPERATOR.sub(lambda found: "".join(chr(_FIRST_PRIVATE + ord(letter)) for letter in found[0]), text)


def _shown(text: str) -> str:
    letters = (chr(ord(a) - _FIRST_PRIVATE) if _FIRST_PRIVATE < ord(a) < _FIRST_PRIVATE + 128 else a for a in text)
    return "".join(letters).replace(_PRIVATE, _ANONYMOUS)


def place_text(file: str, line: int, module: str, caller: str = "", inlined: str = "") -> str:
    """`file:line` without directories, or the module where that is not known; `from file:line` for a library's code,
    which is called there by `caller`. What was expanded in line follows in parentheses."""
    name = file.rpartition("/")[2]
    if caller:
        text = f"from {name}:{line}" if file else f"from {short_name(caller)}"
    else:
        text = f"{name}:{line}" if file else module.rpartition("/")[2]
    return f"{text} ({inlined})" if inlined else text


def function_text(function: str, caller: str = "") -> str:
    """The name of a function for a table: that of a library's code, which has a `caller`, without arguments."""
    return brief_name(function) if caller else short_name(function)
