"""Syntax as libclang has it, read from the tables of the C core: nodes, types, declarations."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from . import _syntax


class Node(IntEnum):
    """Kinds of nodes: clang-c/Index.h, CXCursorKind."""

    UNEXPOSED_DECLARATION = 1  # structured bindings, and each name of one
    STRUCT = 2
    UNION = 3
    CLASS = 4
    FIELD = 6
    ENUMERATOR = 7
    FUNCTION = 8
    VARIABLE = 9
    PARAMETER = 10
    METHOD = 21
    CONSTRUCTOR = 24
    DESTRUCTOR = 25
    CONVERSION = 26
    TYPE_PARAMETER = 27
    VALUE_PARAMETER = 28
    FUNCTION_TEMPLATE = 30
    CLASS_TEMPLATE = 31
    MEMBER_REFERENCE = 47
    LABEL_REFERENCE = 48
    UNEXPOSED = 100
    NAME = 101
    MEMBER = 102
    CALL = 103
    INTEGER = 106
    FLOATING = 107
    IMAGINARY = 108
    STRING = 109
    CHARACTER = 110
    PARENTHESES = 111
    UNARY = 112
    SUBSCRIPT = 113
    BINARY = 114
    COMPOUND_ASSIGN = 115
    CONDITIONAL = 116
    C_CAST = 117
    COMPOUND_LITERAL = 118
    INITIALISERS = 119
    STATEMENTS_VALUE = 121
    GENERIC = 122
    GNU_NULL = 123
    STATIC_CAST = 124
    DYNAMIC_CAST = 125
    REINTERPRET_CAST = 126
    CONST_CAST = 127
    FUNCTIONAL_CAST = 128
    BOOLEAN = 130
    NULL_POINTER = 131
    THIS = 132
    THROW = 133
    NEW = 134
    DELETE = 135
    SIZE = 136
    LAMBDA = 144
    LABEL = 201
    BLOCK = 202
    CASE = 203
    DEFAULT = 204
    IF = 205
    SWITCH = 206
    WHILE = 207
    DO = 208
    FOR = 209
    GOTO = 210
    CONTINUE = 212
    BREAK = 213
    RETURN = 214
    ASSEMBLY = 215
    CATCH = 223
    TRY = 224
    RANGE_FOR = 225
    EMPTY = 230
    DECLARATIONS = 231


class TypeKind(IntEnum):
    """Kinds of canonical types: clang-c/Index.h, CXTypeKind."""

    VOID = 2
    BOOLEAN = 3
    CHARACTER_UNSIGNED = 4
    UNSIGNED_CHARACTER = 5
    UNSIGNED_SHORT = 8
    UNSIGNED = 9
    UNSIGNED_LONG = 10
    UNSIGNED_LONG_LONG = 11
    UNSIGNED_128 = 12
    CHARACTER = 13
    LAST_INTEGER = 20
    FLOAT = 21
    LONG_DOUBLE = 23
    NULL_POINTER = 24
    FLOAT_128 = 30
    HALF = 31
    FLOAT_16 = 32
    COMPLEX = 100
    POINTER = 101
    REFERENCE = 103
    RVALUE_REFERENCE = 104
    RECORD = 105
    ENUM = 106
    FUNCTION = 111
    CONSTANT_ARRAY = 112
    VECTOR = 113
    INCOMPLETE_ARRAY = 114
    VARIABLE_ARRAY = 115
    DEPENDENT_ARRAY = 116


BINARY_OPERATORS = {
    3: "*", 4: "/", 5: "%", 6: "+", 7: "-", 8: "<<", 9: ">>", 11: "<", 12: ">", 13: "<=", 14: ">=", 15: "==", 16: "!=",
    17: "&", 18: "^", 19: "|", 20: "and", 21: "or", 23: "*", 24: "/", 25: "%", 26: "+", 27: "-", 28: "<<", 29: ">>",
    30: "&", 31: "^", 32: "|",
}  # fmt: skip
"""CXBinaryOperatorKind; from 23 on the operator of a compound assignment."""
AND, OR, ASSIGN, FIRST_COMPOUND, COMMA = 20, 21, 22, 23, 33


class Unary(IntEnum):
    """Unary operators: CXUnaryOperatorKind."""

    AFTER_PLUS = 1
    AFTER_MINUS = 2
    BEFORE_PLUS = 3
    BEFORE_MINUS = 4
    ADDRESS = 5
    POINTEE = 6
    PLUS = 7
    MINUS = 8
    COMPLEMENT = 9
    NOT = 10
    REAL = 11
    IMAGINARY = 12
    EXTENSION = 13


class CType(NamedTuple):
    """A type; -1 for parts it does not have."""

    kind: int
    bytes: int
    inner: int
    length: int
    flags: int
    spelling: str
    declaration: int
    argument: int
    second_argument: int


CONST, RESTRICT = 1, 2


class Declaration(NamedTuple):
    """A declaration; -1 for parts it does not have."""

    kind: int
    name: str
    full_name: str
    type: int
    parent: int
    storage: int
    flags: int
    line: int
    last_line: int
    file: int
    definition: int
    template: int
    value: int


LOCAL, SYSTEM, STATIC_METHOD, VIRTUAL, INSTANCE, PATTERN, DEFINED = 1, 2, 4, 8, 16, 32, 64
STORAGE_EXTERN, STORAGE_STATIC = 2, 3

FUNCTION_KINDS = frozenset({Node.FUNCTION, Node.METHOD, Node.CONSTRUCTOR, Node.DESTRUCTOR, Node.CONVERSION,
                            Node.FUNCTION_TEMPLATE})  # fmt: skip


class Tree:
    """The nodes of one function, in preorder; the children of node i are i + 1, end[i + 1], ... below end[i]."""

    __slots__ = (
        "_starts",
        "column",
        "conversion",
        "declaration",
        "end",
        "file",
        "kind",
        "last_column",
        "last_line",
        "line",
        "operation",
        "type",
        "value",
    )  # fmt: skip

    def __init__(self, columns: _syntax.Columns) -> None:
        """Nodes as columns of their properties."""
        (self.kind, self.operation, self.end, self.type, self.conversion, self.declaration, self.line, self.column,
         self.last_line, self.last_column, self.file, self.value) = columns  # fmt: skip
        self._starts: list[tuple[int, int]] | None = None

    def children(self, node: int) -> list[int]:
        """The children of a node, in order."""
        found = []
        child, end, ends = node + 1, self.end[node], self.end
        while child < end:
            found.append(child)
            child = ends[child]
        return found

    def starts(self) -> list[tuple[int, int]]:
        """Line and column where the text of each node begins in its file: an operator comes after its first operand."""
        if self._starts is not None:
            return self._starts
        self._starts = found = [(0, 0)] * len(self.end)
        inside: dict[int, dict[int, tuple[int, int]]] = {}
        for node in range(len(self.end) - 1, -1, -1):
            first = {self.file[node]: (self.line[node], self.column[node])}
            for child in self.children(node):
                for file, place in inside.pop(child).items():
                    first[file] = min(first.get(file, place), place)
            inside[node] = first
            found[node] = first[self.file[node]]
        return found

    def depth(self) -> int:
        """The most nodes one inside the other."""
        open_ends: list[int] = []
        most = 0
        for node, end in enumerate(self.end):
            while open_ends and open_ends[-1] <= node:
                open_ends.pop()
            open_ends.append(end)
            most = max(most, len(open_ends))
        return most


class Syntax:
    """A parsed file: its functions as trees, and the types and declarations that they refer to by number."""

    def __init__(self, unit: _syntax.Unit) -> None:
        """The syntax of a unit."""
        self._unit = unit
        self.types: list[CType] = []
        self.declarations: list[Declaration] = []

    def roots(self) -> list[int]:
        """The functions that the file defines."""
        found = self._unit.roots()
        self._read()
        return found

    def tree(self, declaration: int, most_nodes: int) -> Tree:
        """The nodes of a function, or of a variable with its value.

        Raises:
            OverflowError: it has more nodes than `most_nodes`.
        """
        columns = self._unit.walk(declaration, most_nodes)
        self._read()
        return Tree(columns)

    def fields(self, type_: int) -> list[str]:
        """Names of a structure's members, in order; [] for other types."""
        declaration = self.types[type_].declaration if type_ >= 0 else -1
        return self._unit.fields(declaration) if declaration >= 0 else []

    def files(self) -> list[str]:
        """Names of the files that nodes and declarations come from."""
        return self._unit.files()

    def _read(self) -> None:
        self.types += map(CType._make, self._unit.types(len(self.types)))
        self.declarations += map(Declaration._make, self._unit.declarations(len(self.declarations)))

    def parents(self, declaration: int) -> Iterator[Declaration]:
        """The classes and functions that a declaration is part of, innermost first."""
        while (declaration := self.declarations[declaration].parent) >= 0:
            yield self.declarations[declaration]
