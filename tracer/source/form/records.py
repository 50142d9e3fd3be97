"""The source form: functions with loops, branches, assignments and calls, independent of the language.

A front end lowers one file to a `Unit`. Lowering keeps the source's meaning and drops its notation:

- Expressions have no side effects. A front end splits `a[i++] = f(x) + (s = 2)` into statements, in order of
  evaluation. A call stays in an expression only if it is pure; other calls are statements of their own that assign a
  temporary.
- `a += b` is `a = a + b`. `*p` is `p[0]`, `p->m` is `p[0].m`, `*(p + i)` is `p[i]`.
- A loop whose number of iterations is fixed on entry is `COUNTED`: `variable` takes `first`, `first + step`, ... up to
  and including `last`. The front end lowers the language's own counted loops (Fortran's DO, Python's `range`) to
  `COUNTED`; the pass `normal` does it for the rest (`for`, `while`, pointers that move).
- A loop over the elements of an array counts an index of its own and assigns the element in its first statement.
- Subscripts are as written: in the order of the source, with the lower bounds of the source. `ArrayType` says which
  index is contiguous and where counting starts.
- Array syntax stays array syntax: a `Section` as an index, or an array's name as an operand. `normal` makes loops
  of it.
- A part that a front end cannot lower is `Opaque`: it names what the part may read and write, and why it was not
  lowered.

Names are unique within a function: a front end renames shadowed variables `x'2`, `x'3`. Temporaries of the lowering
start with "%". Every record is immutable, compares by value and converts to text (`text`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec


class Record(msgspec.Struct, frozen=True, tag=True, tag_field="is", omit_defaults=True, forbid_unknown_fields=True):
    """Base class of all records of the form: immutable, tagged by their class in JSON."""


class Place(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Source position: lines and columns count from 1; `file` indexes `Unit.files` (0: the file itself)."""

    line: int
    column: int = 1
    last_line: int = 0
    """0: the same line."""
    file: int = 0

    @property
    def last(self) -> int:
        """The last line, whether or not it was given."""
        return self.last_line or self.line


# Types


class Kind(StrEnum):
    """Kinds of scalar values."""

    INTEGER = "integer"
    FLOAT = "float"
    COMPLEX = "complex"
    BOOLEAN = "boolean"
    CHARACTER = "character"
    UNKNOWN = "unknown"


class ScalarType(Record, frozen=True, tag="scalar"):
    """A number or a character."""

    kind: Kind
    bytes: int = 0
    """Size of a value; 0: unknown."""
    unsigned: bool = False
    """An integer without sign: its arithmetic wraps around."""


class StructType(Record, frozen=True, tag="struct"):
    """A structure, class or derived type; the types of its members are in `Member`."""

    name: str
    bytes: int = 0


class PointerType(Record, frozen=True, tag="pointer"):
    """An address of one or more elements; so are C's array parameters."""

    element: Type
    restrict: bool = False
    """No other name reaches the same memory: C's `restrict`."""


class ArrayType(Record, frozen=True, tag="array"):
    """An array whose elements lie in memory without gaps unless `strided`."""

    element: Type
    shape: tuple[Expression | None, ...]
    """Number of elements along each dimension, in the order of subscripts. None: not known."""
    lower: tuple[Expression, ...] = ()
    """The lowest index along each dimension; (): 0 everywhere."""
    first_contiguous: bool = False
    """Fortran: the first index moves between neighbours. Otherwise (C, NumPy) the last one does."""
    strided: bool = False
    """Elements may lie apart: assumed-shape dummies, NumPy views."""
    alias: bool = True
    """Another name may reach the same memory. False: Fortran dummies without TARGET or POINTER, local arrays."""


Type: TypeAlias = ScalarType | StructType | PointerType | ArrayType


class Storage(StrEnum):
    """Storage of a variable, which decides who else can access it."""

    PARAMETER = "parameter"
    LOCAL = "local"
    GLOBAL = "global"  # file scope, modules, COMMON, Python globals
    STATIC = "static"  # local, but kept between calls: C's `static`, Fortran's SAVE
    REFERENCE = "reference"  # a parameter whose stores the caller sees: Fortran's dummies, C++ references


class Variable(Record, frozen=True, tag="variable"):
    """A named value of a function, or of the file."""

    type: Type
    storage: Storage = Storage.LOCAL
    constant: bool = False
    """`const`, PARAMETER, INTENT(IN), a tuple of Python: never assigned where it is visible."""
    value: Expression | None = None
    """The initial value of a constant, where it stands in the source."""
    address_taken: bool = False
    """Its address went somewhere: a store through a pointer may change it."""


# Expressions


class Constant(Record, frozen=True, tag="constant"):
    """A literal."""

    value: bool | int | float | str | None
    kind: Kind = Kind.INTEGER


class Name(Record, frozen=True, tag="name"):
    """The value of a variable; of an array, all its elements."""

    name: str


class Member(Record, frozen=True, tag="member"):
    """A member of a structure, an attribute of an object."""

    base: Expression
    member: str
    type: Type | None = None
    """Its type. None: the front end does not know it."""


class Section(Record, frozen=True, tag="section"):
    """Indices `first`, `first + step`, ... up to and including `last`. None: the first or the last one there is."""

    first: Expression | None = None
    last: Expression | None = None
    step: Expression | None = None


class Subscript(Record, frozen=True, tag="subscript"):
    """Elements of an array, or the object behind a pointer. An index may be a `Section` or an array of indices.

    Where the elements are arrays themselves (C's `double (*a)[4]`), the indices that follow are theirs: `a[i][j]` is
    one subscript `a[i, j]`. An array of pointers, or of vectors, takes one subscript for each: `(a[i])[j]`.
    """

    base: Expression
    indices: tuple[Expression, ...]


class Operation(Record, frozen=True, tag="operation"):
    """An operator on its operands. `OPERATORS` lists the operators and their numbers of operands."""

    operator: str
    operands: tuple[Expression, ...]


class Convert(Record, frozen=True, tag="convert"):
    """A value of another type: a cast, or a conversion that changes the result."""

    type: Type
    operand: Expression


class Call(Record, frozen=True, tag="call"):
    """A pure function's value. `INTRINSICS` lists names that mean the same in all languages."""

    function: str
    arguments: tuple[Expression, ...]
    pure: bool = True
    """False only below `Evaluate` and as the whole value of an `Assign`."""


class AddressOf(Record, frozen=True, tag="address"):
    """The address of a variable or element."""

    operand: Expression


class Unknown(Record, frozen=True, tag="unknown"):
    """An expression that was not lowered: the names it reads, and its text."""

    text: str
    reads: tuple[Expression, ...] = ()


Expression: TypeAlias = (
    Constant | Name | Member | Section | Subscript | Operation | Convert | Call | AddressOf | Unknown
)

OPERATORS = {
    "+": 2, "-": 2, "*": 2, "/": 2, "//": 2, "%": 2, "**": 2, "neg": 1,
    "<<": 2, ">>": 2, "&": 2, "|": 2, "^": 2, "~": 1,
    "<": 2, "<=": 2, "==": 2, "!=": 2, ">": 2, ">=": 2, "not": 1, "and": 2, "or": 2,
    "select": 3, "is": 2, "in": 2,
}  # fmt: skip
"""Operators and their numbers of operands. "/" divides as the types say, "//" rounds down (Python's), "%" is the
remainder of the source's language, "select" is condition, value if true, value if false."""

INTRINSICS = frozenset({
    "abs", "sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh",
    "tanh", "pow", "min", "max", "floor", "ceil", "round", "trunc", "mod", "sign", "fma", "conj", "real", "imag",
    "complex", "size", "shape", "lower_bound", "upper_bound",
    "sum", "product", "minval", "maxval", "minloc", "maxloc", "any", "all", "count", "dot", "matmul", "transpose",
    "where", "spread", "reshape", "cumsum", "cumprod", "cummax", "cummin", "sort", "argsort", "bincount", "take",
    "zeros", "ones", "empty", "arange",
    "copy", "pack", "allocate", "array", "cshift",
})  # fmt: skip
"""Functions that every front end maps to one name: those on scalars apply to whole arrays element by element; those
from "sum" on work on arrays. `sum(a, 0)` reduces dimension 0 (counted from 0 in the order of subscripts). `array` is an
array of its arguments, rows if they are arrays themselves; `allocate(n)` the address of n new elements. Element i of
`cshift(a, n)` is element i + n of `a`, around its end; -n is at most the number of elements."""


# Statements


class Assign(Record, frozen=True, tag="assign"):
    """A store: `target` is a name, a member or elements of an array."""

    place: Place
    target: Expression
    value: Expression
    atomic: bool = False
    """Under `omp atomic`, `std::atomic` and the like."""


class Evaluate(Record, frozen=True, tag="evaluate"):
    """A call for its effects. Arguments that are arrays, pointers or addresses may be read and written."""

    place: Place
    call: Call


class LoopKind(StrEnum):
    """Kind of a loop, by how it ends."""

    COUNTED = "counted"
    CONDITIONAL = "conditional"  # while `condition`, tested before the body
    TRAILING = "trailing"  # while `condition`, tested after the body
    ENDLESS = "endless"  # only a jump leaves it
    UNKNOWN = "unknown"  # over something that is not lowered: an iterator, a generator, a list of objects


class Loop(Record, frozen=True, tag="loop"):
    """A loop. Which fields count depends on `kind`."""

    place: Place
    """First and last line, with the body."""
    kind: LoopKind
    body: tuple[Statement, ...]
    variable: str = ""
    """Iteration number from 0 of a loop that is not COUNTED, added by the pass `normal`."""
    first: Expression | None = None
    last: Expression | None = None
    """Inclusive."""
    step: Expression | None = None
    """None: 1."""
    condition: Expression | None = None
    unordered: bool = False
    """The source promises that iterations may run in any order: DO CONCURRENT, FORALL, `omp parallel for`, `ivdep`."""
    synthetic: bool = False
    """Made from array syntax, a slice, a comprehension or a library call: no loop of the source."""
    label: str = ""
    """Label for jumps out of an inner loop."""

    @property
    def induction(self) -> str:
        """The induction variable, which advances by the same amount in each iteration; "" if the loop has none."""
        return "" if self.kind is LoopKind.UNKNOWN else self.variable


class Branch(Record, frozen=True, tag="branch"):
    """An if statement; `switch`, `select case`, `where` and `elif` become chains of branches."""

    place: Place
    condition: Expression
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


class JumpKind(StrEnum):
    """Kind of a jump, by its target."""

    BREAK = "break"
    CONTINUE = "continue"
    RETURN = "return"
    EXIT = "exit"  # ends the program, raises an exception
    GOTO = "goto"


class Jump(Record, frozen=True, tag="jump"):
    """Leaves the statements around it. `label` names the loop (BREAK, CONTINUE; "": the innermost) or GOTO's target."""

    place: Place
    kind: JumpKind
    label: str = ""
    value: Expression | None = None
    """Value that RETURN returns."""


class Target(Record, frozen=True, tag="target"):
    """The target of a GOTO."""

    place: Place
    label: str


class Opaque(Record, frozen=True, tag="opaque"):
    """A statement that was not lowered."""

    place: Place
    text: str
    """Its source, at most `MOST_TEXT` characters."""
    reason: str
    reads: tuple[Expression, ...] = ()
    writes: tuple[Expression, ...] = ()
    anything: bool = False
    """Whether it may also read and write unlisted memory: globals, memory behind pointers."""


Statement: TypeAlias = Assign | Evaluate | Loop | Branch | Jump | Target | Opaque

MOST_TEXT = 200


# Functions and files


class Language(StrEnum):
    """Languages with a front end."""

    C = "c"
    CXX = "c++"
    FORTRAN = "fortran"
    PYTHON = "python"


class Function(Record, frozen=True, tag="function"):
    """A function, subroutine, method or lambda; a template's instance; the main program or a module's top level."""

    name: str
    """Name that its users call it by: `mod_tides::tides_set`, `Matrix<double>::multiply`, `Solver.step`, `<module>`."""
    place: Place
    parameters: tuple[str, ...]
    variables: dict[str, Variable]
    """All names that its statements use, globals included, that could be resolved."""
    body: tuple[Statement, ...]
    result: Type | None = None
    instance_of: str = ""
    """The template it was made from."""


class Skipped(Record, frozen=True, tag="skipped"):
    """A part of a file that was not lowered, or only by an assumption ("declaration"), and why.

    `what` is "file", "function", "statement", "include" or "declaration".
    """

    place: Place
    what: str
    reason: str


class Unit(Record, frozen=True, tag="unit"):
    """One source file, lowered."""

    path: str
    language: Language
    files: tuple[str, ...]
    """The file itself, then the included files that something of it comes from."""
    lines: int
    functions: tuple[Function, ...]
    skipped: tuple[Skipped, ...] = ()
