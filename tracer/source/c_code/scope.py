"""State of the lowering of one function: names, variables, the statements emitted so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from foretrace.tracer.source.form.records import (
    MOST_TEXT,
    AddressOf,
    Assign,
    Call,
    Constant,
    Convert,
    Expression,
    Kind,
    Member,
    Name,
    Operation,
    Place,
    PointerType,
    ScalarType,
    Skipped,
    Statement,
    Storage,
    StructType,
    Subscript,
    Type,
    Unknown,
    Variable,
)  # fmt: skip
from foretrace.tracer.source.form.walk import names

from .form_types import ARRAYS, REFERENCES, Types
from .pragmas import Promise
from .syntax import (
    ASSIGN,
    CONST,
    FIRST_COMPOUND,
    LOCAL,
    STORAGE_STATIC,
    SYSTEM,
    Declaration,
    Node,
    Syntax,
    Tree,
    Unary,
)

MOST_NODES = 400_000
"""Nodes of one function; a larger one is skipped."""
MOST_DEPTH = 180
"""Nodes one inside the other in a statement; a deeper one is opaque."""
MOST_INLINED_NODES = 80
MOST_INLINED_DEPTH = 6
MOST_TABLE = 4096
"""Elements of a table of constants that are kept."""

ZERO, ONE = Constant(0), Constant(1)
NULL = Constant(None, Kind.UNKNOWN)
INDEX = ScalarType(Kind.INTEGER, 8)


@dataclass
class Source:
    """A parsed file, and the state that its functions share."""

    syntax: Syntax
    types: Types
    text: list[str]
    promises: dict[int, Promise]
    files: dict[int, int] = field(default_factory=dict)
    """The file's number in the unit, by its number in the syntax; filled as they are met."""
    skipped: list[Skipped] = field(default_factory=list)
    errors: list[tuple[int, int, str]] = field(default_factory=list)
    """Line, column and message of each parse error in the file itself, in order."""
    untaken: list[tuple[int, int]] = field(default_factory=list)
    """Lines of the file that the preprocessor left out, with the directives around them."""
    assumed: frozenset[str] = frozenset()
    """Constants and functions without declarations, known by name alone."""
    trees: dict[int, Tree | None] = field(default_factory=dict)
    tables: dict[int, Expression | None] = field(default_factory=dict)
    """Values of constants of the file."""

    def tree(self, declaration: int, most_nodes: int = MOST_INLINED_NODES) -> Tree | None:
        """The tree of a small function; None: it is not small."""
        if declaration not in self.trees:
            try:
                self.trees[declaration] = self.syntax.tree(declaration, most_nodes)
            except OverflowError:
                self.trees[declaration] = None
        return self.trees[declaration]

    def words(self, line: int, column: int, file: int) -> str:
        """The text from a place on, on its line; files other than the first are not kept."""
        if file == 0 and 0 < line <= len(self.text):
            return self.text[line - 1][column - 1 : column - 1 + MOST_TEXT].strip()
        return ""


class Scope:
    """One function on its way to the form. `out` takes the statements of the block that is being lowered."""

    def __init__(self, source: Source, tree: Tree) -> None:
        """A function of a file, by its tree."""
        self.source = source
        self.types = source.types
        self.tree = tree
        self.out: list[Statement] = []
        self.pending: list[Statement] = []
        """Pending side effects of the current expression, which take place when it is complete: `i++`."""
        self.variables: dict[str, Variable] = {}
        self.bound: dict[int, Expression] = {}
        """Declarations that stand for an expression: references, parameters of inlined functions."""
        self.lambdas: dict[int, tuple[Tree, int]] = {}
        """Lambdas by the variable that holds them."""
        self.this: Expression = Name("this")
        self.inlined: list[int] = []
        self.block_end = len(tree.kind)
        self.line_of_inlining: Place | None = None
        self.found_lambdas: list[tuple[str, Tree, int]] = []
        self._names: dict[int, str] = {}
        self._temporaries = 0
        self._assigned: dict[int, list[tuple[int, int]]] = {}

    # Places and text

    def place(self, node: int) -> Place:
        """Source position of a node; inside an inlined function, the position of its call."""
        if self.line_of_inlining is not None:
            return self.line_of_inlining
        tree = self.tree
        line, last = tree.line[node], tree.last_line[node]
        return Place(line, max(1, tree.column[node]), last if last > line else 0, self.file(tree.file[node]))

    def file(self, number: int) -> int:
        """The number of a file in the unit."""
        files = self.source.files
        return files.setdefault(number, len(files)) if number >= 0 else 0

    def words(self, node: int) -> str:
        """The source's text from a node on."""
        tree = self.tree
        return self.source.words(tree.line[node], tree.column[node], tree.file[node])

    # Names

    def declared(self, number: int) -> Declaration:
        """A declaration."""
        return self.source.syntax.declarations[number]

    def name(self, number: int) -> str:
        """The unique name of a declared variable."""
        known = self._names.get(number)
        if known is not None:
            return known
        declared = self.declared(number)
        if declared.flags & LOCAL or declared.kind == Node.PARAMETER:
            base = declared.name or "%unnamed"
            made, shadow = base, 1
            while made in self.variables:
                shadow += 1
                made = f"{base}'{shadow}"
            storage = Storage.PARAMETER if declared.kind == Node.PARAMETER else Storage.LOCAL
            if declared.storage == STORAGE_STATIC and declared.kind == Node.VARIABLE:
                storage = Storage.STATIC
            self._names[number] = made
            self.variables[made] = Variable(self.variable_type(declared), storage)
            return made
        made = declared.full_name or "%unnamed"
        self._names[number] = made
        if made not in self.variables:
            constant = self.is_constant(declared)
            value = self.table(number) if constant else None
            self.variables[made] = Variable(self.variable_type(declared), Storage.GLOBAL, constant, value)
        return made

    def table(self, number: int) -> Expression | None:
        """The value of a constant of the file; the lowering of expressions has more to say."""
        return None

    def is_constant(self, declared: Declaration) -> bool:
        """Whether a variable is never assigned."""
        number = declared.type
        while number >= 0:
            kind = self.types[number]
            if kind.flags & CONST:
                return True
            if not self.types.is_array(number):
                return False
            number = kind.inner
        return False

    def variable_type(self, declared: Declaration) -> Type:
        """A variable's type: references to numbers and pointers are pointers, those to objects are the objects."""
        made = self.types.form(declared.type)
        if declared.kind == Node.PARAMETER and self.types.kind(declared.type) in ARRAYS:
            return PointerType(self.types.form(self.types[declared.type].inner))
        if declared.type >= 0 and self.types[declared.type].kind in REFERENCES:
            if self.is_scalar_reference(declared.type):
                return PointerType(made)
            if hasattr(made, "alias"):
                made = msgspec.structs.replace(made, alias=True)
        return made

    def is_scalar_reference(self, number: int) -> bool:
        """A reference through which a number or pointer may be assigned."""
        if number < 0 or self.types[number].kind not in REFERENCES:
            return False
        bare = self.types.bare(number)
        if bare < 0 or self.types[bare].flags & CONST:
            return False
        made = self.types.form(bare)
        return isinstance(made, ScalarType | PointerType)

    def temporary(self, kind: Type) -> Name:
        """A new variable of the lowering's own."""
        self._temporaries += 1
        made = f"%{self._temporaries}"
        self.variables[made] = Variable(kind)
        return Name(made)

    def address_of(self, operand: Expression) -> Expression:
        """The address of a place in memory."""
        if isinstance(operand, Name) and operand.name in self.variables:
            known = self.variables[operand.name]
            if not known.address_taken and not isinstance(known.type, StructType) and known.storage != "global":
                self.variables[operand.name] = msgspec.structs.replace(known, address_taken=True)
        if isinstance(operand, Subscript) and operand.indices == (ZERO,) and self._points(operand.base):
            return operand.base
        return AddressOf(operand)

    def _points(self, base: Expression) -> bool:
        if isinstance(base, Name):
            known = self.variables.get(base.name)
            return known is not None and isinstance(known.type, PointerType)
        return False

    # Statements

    @contextmanager
    def block(self) -> Iterator[list[Statement]]:
        """Statements made inside go to a list of their own."""
        outer, self.out = self.out, []
        pending, self.pending = self.pending, []
        try:
            yield self.out
        finally:
            self.out, self.pending = outer, pending

    def assign(self, node: int, target: Expression, value: Expression) -> None:
        """Adds an assignment."""
        self.out.append(Assign(self.place(node), target, value))

    def kept(self, node: int, value: Expression, kind: Type) -> Expression:
        """The value in a temporary."""
        if isinstance(value, Constant):
            return value
        made = self.temporary(kind)
        self.assign(node, made, value)
        return made

    def sequenced(self, node: int, value: Expression, kind: Type) -> Expression:
        """The value at a sequence point: pending side effects are emitted; a value they change is saved first."""
        if not self.pending:
            return value
        written = {root(statement.target) for statement in self.pending if isinstance(statement, Assign)}
        if written & names(value):
            value = self.kept(node, value, kind)
        self.flush()
        return value

    def entered(self, node: int, values: list[Expression], mark: int) -> list[Expression]:
        """Arguments at a call's entry: their pending side effects, from `mark` on, are emitted before it."""
        effects = self.pending[mark:]
        if not effects:
            return values
        written = {root(statement.target) for statement in effects if isinstance(statement, Assign)}
        values = [
            self.kept(node, value, ScalarType(Kind.UNKNOWN)) if written & names(value) else value for value in values
        ]
        del self.pending[mark:]
        self.out += effects
        return values

    def flush(self) -> None:
        """Emits the pending side effects."""
        self.out += self.pending
        self.pending.clear()

    # Assignments in the tree

    def assigned_in(self, first: int, end: int) -> set[int]:
        """Declarations that nodes from `first` to `end` assign, or assign a part of."""
        tree = self.tree
        known = self._assigned.get(id(tree))
        if known is None:
            known = self._assigned[id(tree)] = list(_assignments(tree, self.source.syntax))
        return {declaration for node, declaration in known if first <= node < end}


def root(target: Expression) -> str:
    """The name of the variable that a place in memory is part of, or is reached from."""
    while True:
        match target:
            case Subscript(base=base) | Member(base=base):
                target = base
            case Convert(operand=operand) | AddressOf(operand=operand):
                target = operand
            case Operation(operands=(first, *_)):
                target = first
            case Name(name=name):
                return name
            case Constant() | Unknown() | Call() | _:
                return ""


_ASSIGNING_OPERATORS = frozenset(
    f"operator{operator}"
    for operator in ("=", "+=", "-=", "*=", "/=", "%=", "++", "--", "<<=", ">>=", "&=", "|=", "^=")
)


def _assignments(tree: Tree, syntax: Syntax) -> Iterator[tuple[int, int]]:
    for node, kind in enumerate(tree.kind):
        if kind == Node.BINARY:
            changes = tree.operation[node] == ASSIGN
        elif kind == Node.UNARY:
            changes = tree.operation[node] <= Unary.BEFORE_MINUS or tree.operation[node] == Unary.ADDRESS
        elif kind == Node.CALL:
            callee = tree.declaration[node]
            changes = callee >= 0 and syntax.declarations[callee].name in _ASSIGNING_OPERATORS
        else:
            changes = kind == Node.COMPOUND_ASSIGN and tree.operation[node] >= FIRST_COMPOUND
        if changes:
            inside = node + 1
            while inside < tree.end[node] and tree.declaration[inside] < 0:
                inside += 1
            if inside < tree.end[node]:
                yield node, tree.declaration[inside]


def is_system(declared: Declaration) -> bool:
    """Whether a declaration is in a system header."""
    return bool(declared.flags & SYSTEM)
