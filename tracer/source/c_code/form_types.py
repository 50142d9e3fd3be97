"""Types of C and C++ as types of the form."""

from __future__ import annotations

import re

from foretrace.tracer.source.form.records import (
    ArrayType,
    Constant,
    Expression,
    Kind,
    PointerType,
    ScalarType,
    StructType,
    Type,
)

from .assumptions import FIRST_VALUE
from .syntax import RESTRICT, CType, Syntax, TypeKind

UNKNOWN = ScalarType(Kind.UNKNOWN)
ARRAYS = range(TypeKind.CONSTANT_ARRAY, TypeKind.DEPENDENT_ARRAY + 1)
REFERENCES = (TypeKind.REFERENCE, TypeKind.RVALUE_REFERENCE)
MOST_DEPTH = 12

OWNERS = frozenset({"vector", "array", "valarray", "deque", "basic_string", "initializer_list"})
"""Class templates of std that own an array of elements."""
VIEWS = frozenset({"span", "basic_string_view", "mdspan"})
"""Class templates of std that view elements owned by others."""
POINTERS = frozenset({"unique_ptr", "shared_ptr", "__normal_iterator", "__wrap_iter"})
"""Class templates that are pointers."""
_STANDARD = re.compile(r"(?:const |volatile )*(?:std|__gnu_cxx)::(?:__\w+::|pmr::)*(\w+)<")


def standard_name(spelling: str) -> str:
    """Name of a class template of the standard library, `vector` for `const std::vector<...>`; "" for other types."""
    found = _STANDARD.match(spelling)
    return found.group(1) if found else ""


class Types:
    """Types of a file, each lowered once."""

    def __init__(self, syntax: Syntax) -> None:
        """The types of a file's syntax."""
        self._syntax = syntax
        self._made: dict[int, Type] = {}
        self._standard: dict[int, str] = {}
        self.assumed = False
        """Whether some constants have assumed values: extents made of them are not known."""

    def __getitem__(self, number: int) -> CType:
        """The type with a number, as C has it."""
        return self._syntax.types[number]

    def form(self, number: int) -> Type:
        """The type with a number; -1 is not known."""
        if number < 0:
            return UNKNOWN
        made = self._made.get(number)
        if made is None:
            made = self._made[number] = self._form(number, 0)
        return made

    def bare(self, number: int) -> int:
        """The referenced type of a reference; any other type itself."""
        while number >= 0 and self._syntax.types[number].kind in REFERENCES:
            number = self._syntax.types[number].inner
        return number

    def kind(self, number: int) -> int:
        """The kind of a type behind references; 0: not known."""
        number = self.bare(number)
        return self._syntax.types[number].kind if number >= 0 else 0

    def standard(self, number: int) -> str:
        """The name of a standard class template behind references, `vector`; "": another type."""
        number = self.bare(number)
        if number < 0 or self._syntax.types[number].kind != TypeKind.RECORD:
            return ""
        name = self._standard.get(number)
        if name is None:
            name = self._standard[number] = standard_name(self._syntax.types[number].spelling)
        return name

    def is_integer(self, number: int) -> bool:
        """Whether a type is an integer, a character, a boolean or an enumeration."""
        kind = self.kind(number)
        return TypeKind.BOOLEAN <= kind <= TypeKind.LAST_INTEGER or kind == TypeKind.ENUM

    def is_floating(self, number: int) -> bool:
        """Whether a type is a floating-point number."""
        return _is_floating(self.kind(number))

    def is_pointer(self, number: int) -> bool:
        """Whether a type is a pointer, or an iterator that wraps a pointer in a class."""
        return self.kind(number) in (TypeKind.POINTER, TypeKind.NULL_POINTER) or self.standard(number) in POINTERS

    def is_class(self, number: int) -> bool:
        """Whether a type is a structure, union or class."""
        return self.kind(number) == TypeKind.RECORD

    def is_array(self, number: int) -> bool:
        """Whether a type is a C array, or a `std::array`, whose elements are contiguous as in C's."""
        kind = self.kind(number)
        return (kind in ARRAYS and kind != TypeKind.VECTOR) or self.standard(number) == "array"

    def is_container(self, number: int) -> bool:
        """Whether a type is a class of the standard library whose elements are an array."""
        name = self.standard(number)
        return name in OWNERS or name in VIEWS

    def _form(self, number: int, depth: int) -> Type:
        if number < 0 or depth > MOST_DEPTH:
            return UNKNOWN
        made = self._syntax.types[number]
        kind, size = made.kind, max(0, made.bytes)
        if kind == TypeKind.BOOLEAN:
            return ScalarType(Kind.BOOLEAN, size)
        if kind in (TypeKind.CHARACTER, TypeKind.CHARACTER_UNSIGNED):
            return ScalarType(Kind.CHARACTER, size)
        if TypeKind.CHARACTER_UNSIGNED < kind <= TypeKind.LAST_INTEGER:
            return ScalarType(Kind.INTEGER, size, kind <= TypeKind.UNSIGNED_128)
        if _is_floating(kind):
            return ScalarType(Kind.FLOAT, size)
        if kind == TypeKind.COMPLEX:
            return ScalarType(Kind.COMPLEX, size)
        if kind == TypeKind.ENUM:
            return self._form(made.inner, depth + 1) if made.inner >= 0 else ScalarType(Kind.INTEGER, size)
        if kind == TypeKind.POINTER:
            return PointerType(self._form(made.inner, depth + 1), bool(made.flags & RESTRICT))
        if kind in REFERENCES:
            return self._form(made.inner, depth + 1)
        if kind in ARRAYS:
            return self._array(number, depth)
        if kind == TypeKind.RECORD:
            return self._record(made, depth)
        return UNKNOWN

    def _array(self, number: int, depth: int) -> Type:
        shape: list[Expression | None] = []
        inner = number
        while inner >= 0 and self._syntax.types[inner].kind in ARRAYS and len(shape) < MOST_DEPTH:
            length = self._syntax.types[inner].length
            known = length >= 0 and not (self.assumed and length >= FIRST_VALUE)
            shape.append(Constant(length) if known else None)
            inner = self._syntax.types[inner].inner
        return ArrayType(self._form(inner, depth + 1), tuple(shape), alias=False)

    def _record(self, made: CType, depth: int) -> Type:
        name = standard_name(made.spelling)
        if name == "complex":
            return ScalarType(Kind.COMPLEX, max(0, made.bytes))
        if name == "atomic":
            return self._form(made.argument, depth + 1)
        if name in OWNERS or name in VIEWS:
            length = re.search(r", (\d+)>$", made.spelling) if name in ("array", "span") else None
            shape = (Constant(int(length.group(1))) if length else None,)
            return ArrayType(self._form(made.argument, depth + 1), shape, alias=name in VIEWS)
        if name in POINTERS:
            element = made.argument
            if (name.startswith("__") and element >= 0) or (
                element >= 0 and self._syntax.types[element].kind in ARRAYS
            ):
                element = self._syntax.types[element].inner
            return PointerType(self._form(element, depth + 1))
        spelling = re.sub(r"^(?:const |volatile )+", "", made.spelling)
        return StructType(spelling, max(0, made.bytes))


def _is_floating(kind: int) -> bool:
    return TypeKind.FLOAT <= kind <= TypeKind.LONG_DOUBLE or TypeKind.FLOAT_128 <= kind <= TypeKind.FLOAT_16
