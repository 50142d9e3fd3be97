"""The form as text, to read and to compare in tests: one statement a line, in a neutral notation.

function axpy(n, a, x, y)                      # axpy.c:3-7
  loop i = 0 .. n - 1                          # 4-6
    y[i] = y[i] + a * x[i]                     # 5
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .records import (
    AddressOf,
    ArrayType,
    Assign,
    Branch,
    Call,
    Constant,
    Convert,
    Evaluate,
    Expression,
    Function,
    Jump,
    Loop,
    LoopKind,
    Member,
    Name,
    Opaque,
    Operation,
    Place,
    PointerType,
    ScalarType,
    Section,
    Statement,
    StructType,
    Subscript,
    Target,
    Type,
    Unit,
    Unknown,
)  # fmt: skip

_PRECEDENCE = {
    "or": 1, "and": 2, "not": 3, "<": 4, "<=": 4, "==": 4, "!=": 4, ">": 4, ">=": 4, "is": 4, "in": 4, "|": 5, "^": 6,
    "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10, "neg": 11, "~": 11, "**": 12,
}  # fmt: skip
_ATOM = 13
_PLACE_COLUMN = 56


def unit_text(unit: Unit) -> str:
    """Text of a file's form: its functions, then the skipped parts."""
    lines = [f"unit {unit.path} ({unit.language}, {unit.lines} lines)"]
    for function in unit.functions:
        lines += ["", *function_lines(function)]
    if unit.skipped:
        lines.append("")
        lines += [f"skipped {part.what} at line {part.place.line}: {part.reason}" for part in unit.skipped]
    return "\n".join(lines) + "\n"


def function_text(function: Function) -> str:
    """A function's form."""
    return "\n".join(function_lines(function)) + "\n"


def function_lines(function: Function) -> Iterator[str]:
    """The lines of a function's form."""
    yield _placed(f"function {function.name}({', '.join(function.parameters)})", function.place)
    yield from body_lines(function.body, "  ")


def body_lines(body: Sequence[Statement], indent: str = "") -> Iterator[str]:
    """The lines of a list of statements."""
    for statement in body:
        yield _placed(indent + _head(statement), statement.place)
        match statement:
            case Loop(body=inner):
                yield from body_lines(inner, indent + "  ")
            case Branch(body=inner, otherwise=otherwise):
                yield from body_lines(inner, indent + "  ")
                if otherwise:
                    yield indent + "else"
                    yield from body_lines(otherwise, indent + "  ")


def expression_text(expression: Expression) -> str:
    """An expression on one line."""
    return _written(expression)[0]


def type_text(kind: Type) -> str:
    """A type on one line: `float64`, `integer32*`, `float64[n, m]`."""
    match kind:
        case ScalarType():
            return f"{'unsigned' if kind.unsigned else kind.kind}{kind.bytes * 8 or ''}"
        case StructType():
            return f"struct {kind.name}"
        case PointerType():
            return f"{type_text(kind.element)}*"
        case ArrayType():
            extents = ["?" if extent is None else expression_text(extent) for extent in kind.shape]
            return f"{type_text(kind.element)}[{', '.join(extents)}]"


def _head(statement: Statement) -> str:
    match statement:
        case Assign():
            atomic = "atomic " if statement.atomic else ""
            return f"{atomic}{expression_text(statement.target)} = {expression_text(statement.value)}"
        case Evaluate():
            return expression_text(statement.call)
        case Loop():
            return _loop_head(statement)
        case Branch():
            return f"if {expression_text(statement.condition)}"
        case Jump():
            words = [str(statement.kind), statement.label]
            if statement.value is not None:
                words.append(expression_text(statement.value))
            return " ".join(word for word in words if word)
        case Target():
            return f"{statement.label}:"
        case Opaque():
            reads = ", ".join(map(expression_text, statement.reads))
            writes = ", ".join(map(expression_text, statement.writes))
            more = ", and more" if statement.anything else ""
            return f"opaque ({statement.reason}) reads [{reads}] writes [{writes}]{more}"


def _loop_head(loop: Loop) -> str:
    label = f"{loop.label}: " if loop.label else ""
    order = "unordered " if loop.unordered else ""
    match loop.kind:
        case LoopKind.COUNTED:
            assert loop.first is not None
            assert loop.last is not None
            step = f" step {expression_text(loop.step)}" if loop.step is not None else ""
            words = f"loop {loop.variable} = {expression_text(loop.first)} .. {expression_text(loop.last)}{step}"
        case LoopKind.ENDLESS:
            words = f"loop counting {loop.variable}" if loop.variable else "loop"
        case LoopKind.UNKNOWN:
            words = f"loop {loop.variable} over ?" if loop.variable else "loop over ?"
        case LoopKind.CONDITIONAL | LoopKind.TRAILING:
            assert loop.condition is not None
            tested = "while" if loop.kind is LoopKind.CONDITIONAL else "do while"
            counting = f"counting {loop.variable} " if loop.variable else ""
            words = f"loop {counting}{tested} {expression_text(loop.condition)}"
    return f"{label}{order}{words}"


def _written(expression: Expression) -> tuple[str, int]:
    """An expression's text, and how tightly it binds."""
    match expression:
        case Constant(value=value):
            return (repr(value) if isinstance(value, str) else str(value)), _ATOM
        case Name(name=name):
            return name, _ATOM
        case Member(base=base, member=member):
            return f"{_bound(base, _ATOM)}.{member}", _ATOM
        case Subscript(base=base, indices=indices):
            return f"{_bound(base, _ATOM)}[{', '.join(map(expression_text, indices))}]", _ATOM
        case Section(first=first, last=last, step=step):
            ends = ["" if end is None else expression_text(end) for end in (first, last)]
            return " .. ".join(ends).strip() + (f" step {expression_text(step)}" if step is not None else ""), 0
        case Call(function=function, arguments=arguments):
            return f"{function}({', '.join(map(expression_text, arguments))})", _ATOM
        case Convert(type=kind, operand=operand):
            return f"{type_text(kind)}({expression_text(operand)})", _ATOM
        case AddressOf(operand=operand):
            return f"&{_bound(operand, _ATOM)}", _ATOM
        case Unknown(text=text):
            return f"?{{{text}}}", _ATOM
        case Operation(operator="select", operands=(condition, true, false)):
            return f"({expression_text(condition)} ? {expression_text(true)} : {expression_text(false)})", _ATOM
        case Operation(operator=operator, operands=(operand,)):
            binding = _PRECEDENCE[operator]
            sign = {"neg": "-", "not": "not "}.get(operator, operator)
            return sign + _bound(operand, binding), binding
        case Operation(operator=operator, operands=(left, right)):
            binding = _PRECEDENCE[operator]
            return f"{_bound(left, binding)} {operator} {_bound(right, binding + 1)}", binding
        case Operation(operator=operator, operands=operands):
            return f"{operator}({', '.join(map(expression_text, operands))})", _ATOM


def _bound(expression: Expression, binding: int) -> str:
    text, own = _written(expression)
    return text if own >= binding else f"({text})"


def _placed(text: str, place: Place) -> str:
    lines = f"{place.line}" if place.last == place.line else f"{place.line}-{place.last}"
    return f"{text:<{_PLACE_COLUMN}}  # {lines}"
