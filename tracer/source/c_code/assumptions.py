"""Assumed declarations of names from missing headers; without them each use of such a name hides its statement.

Generated headers are missing in every source tree that was not configured: NPB's `npbparams.hpp`, a library's
`config.h`. A name used as a value is assumed to be a constant of unknown value, a called name a function, and a type
what its name suggests: an integer, a number, or a structure. Each assumption is listed in the unit."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from foretrace.tracer.source.form.records import Language

MOST_ASSUMED = 400
FIRST_VALUE = 100_003
"""Values of assumed constants: array extents made of them are no extents of the program."""

_UNDECLARED = re.compile(
    r"(?:use of undeclared identifier|unknown type name|call to undeclared function) '([A-Za-z_]\w*)'"
)
_NUMBER = re.compile(r"real|float|double|scalar|numeric|(?:^|_)fp(?:_|\d|$)", re.IGNORECASE)
_INTEGER = re.compile(r"int|size|index|idx|ordinal|long|count|_t$|^MPI_|bool", re.IGNORECASE)


@dataclass
class Assumed:
    """Names that a file was found to use without their being declared."""

    types: dict[str, str] = field(default_factory=dict)
    values: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)

    def learn(self, messages: list[tuple[int, str, int, str, int]], lines: list[str], path: str) -> bool:
        """Takes more names from the parser's messages; False: the messages have none."""
        before = len(self)
        for _, words, line, file, _ in messages:
            found = _UNDECLARED.match(words)
            if not found or len(self) >= MOST_ASSUMED:
                continue
            name = found.group(1)
            if name in self.types or name in self.values or name in self.functions:
                continue
            text = lines[line - 1] if file == path and 0 < line <= len(lines) else ""
            if words.startswith("unknown type name"):
                self.types[name] = _type_of(name)
            elif not text or re.search(rf"\b{name}\s*(?:::|<)", text) or name in ("std", "this"):
                continue
            elif re.search(rf"\b{name}\s*\(", text):
                self.functions.append(name)
            elif re.search(rf"(?:^|[({{;])\s*(?:const\s+)?{name}\s*[*&]?\s+[*&]?\w+\s*[;=,()\[]", text):
                self.types[name] = _type_of(name)
            else:
                self.values.append(name)
        return len(self) > before

    def __len__(self) -> int:
        """Number of assumed names."""
        return len(self.types) + len(self.values) + len(self.functions)

    def header(self, language: Language) -> str:
        """Declarations of the names."""
        lines = []
        for name, kind in self.types.items():
            lines.append(f"struct {name};" if kind == "struct" else f"typedef {kind} {name};")
            if kind == "struct" and language is Language.C:
                lines.append(f"typedef struct {name} {name};")
        lines += [f"enum {{ {name} = {FIRST_VALUE + 2 * place} }};" for place, name in enumerate(self.values)]
        if language is Language.CXX:
            lines += [f"template <class... Arguments> int {name}(Arguments...);" for name in self.functions]
        return "\n".join(lines) + "\n"

    def reasons(self) -> list[str]:
        """The assumptions, one line each."""
        return [
            *(f"no declaration of the type '{name}': taken as {kind}" for name, kind in self.types.items()),
            *(f"no declaration of '{name}': taken as a constant of unknown value" for name in self.values),
            *(f"no declaration of the function '{name}'" for name in self.functions),
        ]


def _type_of(name: str) -> str:
    if _NUMBER.search(name):
        return "double"
    return "int" if _INTEGER.search(name) else "struct"
