"""Names of a Fortran program unit: declared types, implicit ones, those of modules, and values of PARAMETERs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from foretrace.tracer.source.form import records as form

_INTEGER = form.ScalarType(form.Kind.INTEGER, 4)
_REAL = form.ScalarType(form.Kind.FLOAT, 4)

KINDS = {
    "real64": 8, "real32": 4, "real128": 16, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "c_double": 8, "c_float": 4,
    "c_int": 4, "c_long": 8, "c_size_t": 8, "c_int64_t": 8, "c_int32_t": 4, "c_double_complex": 8, "dp": 8, "sp": 4,
    "r8": 8, "r4": 4, "i4": 4, "i8": 8,
}  # fmt: skip
"""Bytes of kinds that the language names (ISO_FORTRAN_ENV, ISO_C_BINDING), and of names that are in common use."""


@dataclass(eq=False)
class Scope(Mapping[str, form.Variable]):
    """Names of a program unit and their declarations; the host's names are visible as well."""

    host: Scope | None = None
    variables: dict[str, form.Variable] = field(default_factory=dict)
    types: dict[str, dict[str, form.Type]] = field(default_factory=dict)
    """Derived types: types of their members."""
    functions: set[str] = field(default_factory=set)
    """Functions that are declared or defined here."""
    pure: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)
    """Names on the left-hand side of an assignment: with indices, arrays."""
    implicit: dict[str, form.Type] = field(default_factory=dict)
    """Implicit types by first letter."""
    explicit: bool = False
    """IMPLICIT NONE."""
    open_modules: bool = False
    """Some module in use was not found: names that are not declared may be its arrays."""

    def find(self, name: str) -> form.Variable | None:
        """A declared variable."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.host
        return None

    def __getitem__(self, name: str) -> form.Variable:
        """A declared variable, or one that IMPLICIT declares."""
        return self.find(name) or form.Variable(self.implicit_type(name))

    def __iter__(self) -> Iterator[str]:
        """Names that are declared."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.variables
            scope = scope.host

    def __len__(self) -> int:
        """Number of declared names."""
        return sum(1 for _ in self)

    def members(self, type_name: str) -> dict[str, form.Type]:
        """Members of a derived type; {} if it is not known."""
        scope: Scope | None = self
        while scope is not None:
            if type_name in scope.types:
                return scope.types[type_name]
            scope = scope.host
        return {}

    def is_function(self, name: str) -> bool:
        """Whether a name is known as a function."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.functions:
                return True
            if name in scope.variables:
                return False
            scope = scope.host
        return False

    def is_pure(self, name: str) -> bool:
        """Whether a function is declared PURE or ELEMENTAL."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.pure:
                return True
            scope = scope.host
        return False

    def type_of(self, name: str) -> form.Type:
        """A variable's type, by IMPLICIT's rules if it is not declared."""
        known = self.find(name)
        return known.type if known is not None else self.implicit_type(name)

    def implicit_type(self, name: str) -> form.Type:
        """Type of an undeclared name by its first letter: i to n are integers (Fortran 2018, section 8.7)."""
        scope: Scope | None = self
        while scope is not None:
            if name[:1] in scope.implicit:
                return scope.implicit[name[:1]]
            scope = scope.host
        return _INTEGER if "i" <= name[:1] <= "n" else _REAL

    def kind_bytes(self, text: str, default: int) -> int:
        """Bytes of a KIND; 0: not known."""
        text = text.strip().lower()
        if not text:
            return default
        if text.isdecimal():
            return int(text)
        if "selected_real_kind" in text:
            found = re.search(r"\(\s*(?:p\s*=\s*)?(\d+)", text)
            return 0 if found is None else 4 if int(found[1]) <= 6 else 8 if int(found[1]) <= 15 else 16
        if "selected_int_kind" in text:
            found = re.search(r"\(\s*(?:r\s*=\s*)?(\d+)", text)
            return 0 if found is None else 4 if int(found[1]) <= 9 else 8
        if text.startswith("kind("):
            return 8 if "d" in text[5:] else 4
        known = self.find(text)
        if known is not None and known.value is not None:
            match known.value:
                case form.Constant(value=int() as value):
                    return value
                case form.Unknown(text=inner) if inner != text:
                    return self.kind_bytes(inner, 0)
        return KINDS.get(text, 0)


MOST_MODULE_FILES = 2000
"""Files of a folder that are looked through for modules."""
_MODULE = re.compile(rb"^[ \t]*module[ \t]+(?!procedure\b)(\w+)", re.IGNORECASE | re.MULTILINE)


@cache
def modules_of(folder: Path) -> dict[str, Path]:
    """Modules that the Fortran files of a folder define, each with its file."""
    found: dict[str, Path] = {}
    try:
        files = sorted(
            path for path in folder.iterdir() if path.suffix.lower() in (".f", ".f90", ".f95", ".f03", ".f08")
        )
    except OSError:
        return {}
    for path in files[:MOST_MODULE_FILES]:
        for name in _module_names(path):
            found.setdefault(name, path)
    return found


def _module_names(path: Path) -> Iterator[str]:
    try:
        if path.stat().st_size <= 16 << 20:
            for name in _MODULE.findall(path.read_bytes()):
                yield name.decode().lower()
    except OSError:
        return
