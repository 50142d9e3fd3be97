"""An interpreter of the source form: slow, obvious, and the oracle for front ends and passes.

    run(unit, "axpy", 3, 2.0, x, y)

runs a function on Python numbers and NumPy arrays; arrays are changed in place, as the source would change them. A
pass that rewrites a form, and a front end that makes one, are right if the same values come out.

Memory is NumPy arrays with an element type, so that stores round and wrap as the source's types do. Scalars are arrays
of one element. A pointer is an array and a position in it. Integer arithmetic has no limit until it is stored or
converted, but unsigned operands wrap at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from foretrace.tracer.source.form.records import (
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
    JumpKind,
    Kind,
    Language,
    Loop,
    LoopKind,
    Member,
    Name,
    Opaque,
    Operation,
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
    Variable,
)  # fmt: skip
from foretrace.tracer.source.form.text import expression_text

MOST_STEPS = 2_000_000


class UnrunnableError(Exception):
    """The form has a part that cannot be run: opaque statements, unknown calls, arrays of unknown size."""


@dataclass
class Array:
    """An array with its lowest indices; `data` is a view of the memory."""

    data: npt.NDArray[Any]
    lower: tuple[int, ...] = ()


@dataclass(frozen=True)
class Pointer:
    """A position in memory; `shape` is that of the elements it points at, in memory one after the other."""

    data: npt.NDArray[Any]
    at: int = 0
    shape: tuple[int, ...] = ()

    @property
    def step(self) -> int:
        """Cells from one element to the next."""
        return math.prod(self.shape)

    def moved(self, elements: int) -> Pointer:
        """The pointer some elements further on."""
        return Pointer(self.data, self.at + elements * self.step, self.shape)


@dataclass
class Struct:
    """A structure: its members come to be when they are assigned, or are given."""

    members: dict[str, Any] = field(default_factory=dict)


class _JumpedError(Exception):
    def __init__(self, jump: Jump, value: Any = None) -> None:
        super().__init__(jump.kind)
        self.jump, self.value = jump, value


@dataclass
class _Frame:
    function: Function
    memory: dict[str, Any]
    """Of each name: an `Array`, a `Struct`, or one cell."""


def run(unit: Unit, name: str, *arguments: Any, most_steps: int = MOST_STEPS) -> Any:
    """Calls a function of a unit and returns its value.

    Args:
        unit: the form.
        name: the function's name.
        arguments: numbers, NumPy arrays (changed in place), `Struct`s. A pointer parameter takes an array.
        most_steps: statements to run at most.

    Raises:
        UnrunnableError: the form cannot be run, or runs too long.
    """
    return Interpreter(unit, most_steps).call(name, arguments)


class Interpreter:
    """Runs the functions of a unit; globals live as long as it does."""

    def __init__(self, unit: Unit, most_steps: int = MOST_STEPS) -> None:
        self.unit = unit
        self.functions = {function.name: function for function in unit.functions}
        self.shared: dict[str, Any] = {}
        self.steps = most_steps

    def call(self, name: str, arguments: Sequence[Any]) -> Any:
        """Calls a function with values."""
        function = self.functions.get(name)
        if function is None:
            raise UnrunnableError(f"no function {name}")
        if len(arguments) > len(function.parameters):
            raise UnrunnableError(f"{name} takes {len(function.parameters)} arguments")
        frame = _Frame(function, {})
        for parameter, value in zip(function.parameters, arguments, strict=False):
            frame.memory[parameter] = self._bound(frame, function.variables.get(parameter), value)
        for variable in function.variables:
            self._home(frame, variable)
        try:
            self._body(function.body, frame)
        except _JumpedError as jumped:
            if jumped.jump.kind is JumpKind.RETURN:
                return jumped.value
            raise UnrunnableError(f"{jumped.jump.kind} leaves {name}") from jumped
        return None

    # Memory

    def _bound(self, frame: _Frame, variable: Variable | None, value: Any) -> Any:
        kind = variable.type if variable else None
        if isinstance(value, Pointer) and value.at == 0 and value.data.shape == (1,) and isinstance(kind, ScalarType):
            return value.data  # by reference
        if isinstance(value, (Array, np.ndarray)):
            data = value.data if isinstance(value, Array) else value
            if isinstance(kind, ArrayType):
                return Array(self._shaped(frame, kind, data), self._lower(frame, kind))
            if isinstance(kind, PointerType):
                inner = self._inner(frame, kind.element)
                return self._cell(kind, Pointer(data.reshape(-1), 0, inner))
            return Array(data)
        if isinstance(value, Pointer) and isinstance(kind, ArrayType):
            data = value.data[value.at :]
            return Array(self._shaped(frame, kind, data), self._lower(frame, kind))
        if isinstance(value, Struct):
            return value
        return self._cell(kind, value)

    def _shaped(self, frame: _Frame, kind: ArrayType, data: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if data.ndim == len(kind.shape):
            return data
        shape = [-1 if extent is None else self.value(extent, frame) for extent in kind.shape]
        if -1 not in shape:
            data = data.reshape(-1)[: math.prod(shape)]
        return data.reshape(shape, order="F" if kind.first_contiguous else "C")

    def _lower(self, frame: _Frame, kind: ArrayType) -> tuple[int, ...]:
        return tuple(self.value(lower, frame) for lower in kind.lower)

    def _inner(self, frame: _Frame, kind: Type) -> tuple[int, ...]:
        if isinstance(kind, ArrayType):
            return (*(self.value(extent, frame) for extent in kind.shape if extent is not None),
                    *self._inner(frame, kind.element))  # fmt: skip
        return ()

    def _cell(self, kind: Type | None, value: Any) -> npt.NDArray[Any]:
        cell = np.empty(1, dtype_of(kind))
        cell[0] = stored(kind, value)
        return cell

    def _home(self, frame: _Frame, name: str) -> Any:
        if name in frame.memory:
            return frame.memory[name]
        variable = frame.function.variables.get(name)
        if variable is None:
            return frame.memory.setdefault(name, np.empty(1, object))
        local = variable.storage in ("local", "parameter")
        key = f"{frame.function.name}.{name}" if variable.storage == "static" else name
        if not local and key in self.shared:
            home = self.shared[key]
        else:
            home = self._made(frame, variable)
            if not local:
                self.shared[key] = home
        frame.memory[name] = home
        if variable.value is not None and (local or self.shared.get(key) is home):
            self._initial(home, self.value(variable.value, frame), variable.type)
        return home

    def _made(self, frame: _Frame, variable: Variable) -> Any:
        match variable.type:
            case ArrayType(shape=shape) as kind:
                if any(extent is None for extent in shape):
                    return Array(np.empty((0,) * len(shape), dtype_of(_element(kind))), self._lower(frame, kind))
                extents = [self.value(extent, frame) for extent in shape if extent is not None]
                extents += self._inner(frame, kind.element)
                order: Any = "F" if kind.first_contiguous else "C"
                data = np.zeros([max(0, extent) for extent in extents], dtype_of(_element(kind)), order=order)
                if data.dtype == object:
                    for index in np.ndindex(data.shape):
                        data[index] = Struct()
                return Array(data, self._lower(frame, kind))
            case StructType():
                return Struct()
            case kind:
                return self._cell(kind, 0)

    def _initial(self, home: Any, value: Any, kind: Type) -> None:
        if isinstance(home, Array):
            home.data[...] = np.asarray(value).reshape(home.data.shape) if not np.isscalar(value) else value
        elif not isinstance(home, Struct):
            home[0] = stored(kind, value)

    # Statements

    def _body(self, body: Sequence[Statement], frame: _Frame) -> None:
        at = 0
        while at < len(body):
            try:
                self._statement(body[at], frame)
                at += 1
            except _JumpedError as jumped:
                targets = [
                    place
                    for place, statement in enumerate(body)
                    if isinstance(statement, Target) and statement.label == jumped.jump.label
                ]
                if jumped.jump.kind is not JumpKind.GOTO or not targets:
                    raise
                at = targets[0]

    def _statement(self, statement: Statement, frame: _Frame) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise UnrunnableError("too many steps")
        match statement:
            case Assign(target=target, value=value):
                self._assign(target, self.value(value, frame), frame)
            case Evaluate(call=call):
                self.value(call, frame)
            case Branch(condition=condition, body=body, otherwise=otherwise):
                self._body(body if truth(self.value(condition, frame)) else otherwise, frame)
            case Loop():
                self._loop(statement, frame)
            case Jump(kind=JumpKind.RETURN, value=value):
                raise _JumpedError(statement, None if value is None else self.value(value, frame))
            case Jump():
                raise _JumpedError(statement)
            case Target():
                pass
            case Opaque(text=text, reason=reason):
                raise UnrunnableError(f"opaque: {text} ({reason})")

    def _loop(self, loop: Loop, frame: _Frame) -> None:
        match loop.kind:
            case LoopKind.COUNTED:
                assert loop.first is not None
                assert loop.last is not None
                first, last = self.value(loop.first, frame), self.value(loop.last, frame)
                step = 1 if loop.step is None else self.value(loop.step, frame)
                target = Name(loop.variable)
                if isinstance(first, Pointer):
                    return self._pointer_loop(loop, first, last, step, frame)
                iterations = (last - first + step) // step
                for iteration in range(int(iterations)):
                    self._assign(target, first + iteration * step, frame)
                    if not self._iteration(loop, frame):
                        return None
                if self.unit.language is not Language.PYTHON:
                    self._assign(target, first + max(0, int(iterations)) * step, frame)
            case LoopKind.CONDITIONAL:
                assert loop.condition is not None
                self._count_iteration(loop, 0, frame)
                number = 0
                while truth(self.value(loop.condition, frame)) and self._iteration(loop, frame):
                    number += 1
                    self._count_iteration(loop, number, frame)
            case LoopKind.TRAILING:
                assert loop.condition is not None
                self._count_iteration(loop, 0, frame)
                number = 0
                while self._iteration(loop, frame) and truth(self.value(loop.condition, frame)):
                    number += 1
                    self._count_iteration(loop, number, frame)
            case LoopKind.ENDLESS:
                self._count_iteration(loop, 0, frame)
                number = 0
                while self._iteration(loop, frame):
                    number += 1
                    self._count_iteration(loop, number, frame)
            case LoopKind.UNKNOWN:
                raise UnrunnableError("a loop over something unknown")
        return None

    def _count_iteration(self, loop: Loop, number: int, frame: _Frame) -> None:
        """Gives the iteration of a loop that does not count beforehand its number."""
        if loop.variable:
            self._assign(Name(loop.variable), number, frame)

    def _pointer_loop(self, loop: Loop, first: Pointer, last: Pointer, step: int, frame: _Frame) -> None:
        current = first
        while current.at <= last.at if step > 0 else current.at >= last.at:
            self._assign(Name(loop.variable), current, frame)
            if not self._iteration(loop, frame):
                return
            current = current.moved(step)
        self._assign(Name(loop.variable), current, frame)

    def _iteration(self, loop: Loop, frame: _Frame) -> bool:
        """Runs the body once. False: the loop was left."""
        self.steps -= 1
        if self.steps < 0:
            raise UnrunnableError("too many steps")
        try:
            self._body(loop.body, frame)
        except _JumpedError as jumped:
            if jumped.jump.label not in ("", loop.label):
                raise
            if jumped.jump.kind is JumpKind.BREAK:
                return False
            if jumped.jump.kind is not JumpKind.CONTINUE:
                raise
        return True

    # Stores

    def _assign(self, target: Expression, value: Any, frame: _Frame) -> None:
        match target:
            case Name(name=name):
                home = self._home(frame, name)
                variable = frame.function.variables.get(name)
                if isinstance(home, Array):
                    data = _plain(value)
                    if home.data.shape != np.shape(data) and np.ndim(data) and not home.data.size:
                        home.data = np.array(data)  # allocated by the assignment
                    else:
                        home.data[...] = data
                elif isinstance(home, Struct) or (home.dtype == object and isinstance(value, (Struct, Array))):
                    frame.memory[name] = (
                        value if isinstance(value, Struct) else Array(np.array(value.data), value.lower)
                    )
                elif home.dtype == object and isinstance(value, np.ndarray):
                    frame.memory[name] = Array(np.array(value))
                else:
                    home[0] = stored(variable.type if variable else None, value)
            case Member(base=base, member=member):
                structure = self.value(base, frame)
                if not isinstance(structure, Struct):
                    raise UnrunnableError(f"{expression_text(base)} is no structure")
                old = structure.members.get(member)
                if isinstance(old, np.ndarray):
                    old[...] = _plain(value)
                else:
                    structure.members[member] = value
            case Subscript(base=base, indices=indices):
                self._store(self.value(base, frame), [self._index(index, frame) for index in indices], value)
            case Convert(operand=operand):
                self._assign(operand, value, frame)
            case _:
                raise UnrunnableError(f"cannot assign to {expression_text(target)}")

    def _store(self, base: Any, indices: list[Any], value: Any) -> None:
        data, place, rest = _located(base, indices)
        if rest:
            return self._store(data[place], rest, value)
        value = _plain(value)
        if data.dtype.kind in "iu" and np.isscalar(value):
            value = wrapped(int(value), data.dtype.itemsize, data.dtype.kind == "u")
        data[place] = value
        return None

    # Values

    def value(self, expression: Expression, frame: _Frame) -> Any:
        """An expression's value."""
        match expression:
            case Constant(value=value):
                return value
            case Name(name=name):
                return _loaded(self._home(frame, name))
            case Operation():
                return self._operation(expression, frame)
            case Subscript(base=base, indices=indices):
                return _element_at(self.value(base, frame), [self._index(index, frame) for index in indices])
            case Member(base=base, member=member):
                structure = self.value(base, frame)
                if isinstance(structure, Pointer):
                    structure = _element_at(structure, [0])
                if not isinstance(structure, Struct):
                    raise UnrunnableError(f"{expression_text(base)} is no structure")
                if member not in structure.members:
                    raise UnrunnableError(f"{expression_text(expression)} was never assigned")
                return _loaded(structure.members[member])
            case Convert(type=kind, operand=operand):
                return converted(kind, self.value(operand, frame))
            case AddressOf(operand=operand):
                return self._address(operand, frame)
            case Call():
                return self._call(expression, frame)
            case Section():
                raise UnrunnableError("a section outside a subscript")
            case Unknown(text=text):
                raise UnrunnableError(f"unknown: {text}")

    def _index(self, index: Expression, frame: _Frame) -> Any:
        if isinstance(index, Section):
            ends = [None if end is None else self.value(end, frame) for end in (index.first, index.last, index.step)]
            return _Range(*ends)
        value = self.value(index, frame)
        return np.asarray(_plain(value)) if isinstance(value, Array) else value

    def _address(self, operand: Expression, frame: _Frame) -> Any:
        match operand:
            case Name(name=name):
                home = self._home(frame, name)
                if isinstance(home, Array):
                    return Pointer(home.data.reshape(-1))
                return home if isinstance(home, Struct) else Pointer(home)
            case Subscript(base=base, indices=indices):
                places = [self._index(index, frame) for index in indices]
                found = self.value(base, frame)
                if isinstance(found, Pointer):
                    rest = found.moved(places[0])
                    for place in places[1:]:
                        step = math.prod(rest.shape[1:])
                        rest = Pointer(rest.data, rest.at + place * step, rest.shape[1:])
                    return rest
                data, place, more = _located(found, places)
                if more:
                    raise UnrunnableError(f"the address of {expression_text(operand)}")
                if isinstance(data[place], Struct):
                    return data[place]
                if data.flags.c_contiguous:
                    return Pointer(data.reshape(-1), int(np.ravel_multi_index(_padded(place, data), data.shape)),
                                   data.shape[len(place):])  # fmt: skip
                if data.flags.f_contiguous:
                    flat = int(np.ravel_multi_index(_padded(place, data), data.shape, order="F"))
                    return Pointer(data.reshape(-1, order="F"), flat)
                raise UnrunnableError("an address in a strided array")
            case _:
                return self.value(operand, frame)

    def _operation(self, operation: Operation, frame: _Frame) -> Any:
        operator, operands = operation.operator, operation.operands
        if operator in ("and", "or"):
            left = self.value(operands[0], frame)
            if isinstance(left, (Array, np.ndarray)):
                function = np.logical_and if operator == "and" else np.logical_or
                return function(_plain(left), _plain(self.value(operands[1], frame)))
            short = not truth(left) if operator == "and" else truth(left)
            return left if short else self.value(operands[1], frame)
        if operator == "select":
            condition = self.value(operands[0], frame)
            if isinstance(condition, (Array, np.ndarray)):
                return np.where(_plain(condition), *(_plain(self.value(part, frame)) for part in operands[1:]))
            return self.value(operands[1 if truth(condition) else 2], frame)
        values = [self.value(operand, frame) for operand in operands]
        if any(isinstance(value, Pointer) for value in values):
            return _pointer_operation(operator, values)
        value = self._number(operator, [_plain(value) for value in values])
        unsigned = self._unsigned_bytes(operation, frame) if isinstance(value, int) else 0
        return wrapped(value, unsigned, True) if unsigned and not isinstance(value, bool) else value

    def _number(self, operator: str, values: list[Any]) -> Any:
        if operator == "/" and self.unit.language is not Language.PYTHON and all(map(_whole, values)):
            return _truncated(values[0], values[1])
        if operator == "/" and np.isscalar(values[1]) and values[1] == 0 and self.unit.language is not Language.PYTHON:
            with np.errstate(all="ignore"):
                return float(np.float64(values[0]) / np.float64(values[1]))
        if operator == "%" and self.unit.language is not Language.PYTHON and all(map(_whole, values)):
            return values[0] - values[1] * _truncated(values[0], values[1])
        if operator not in _NUMBERS:
            raise UnrunnableError(f"operator {operator}")
        return _NUMBERS[operator](*values)

    def _unsigned_bytes(self, expression: Expression, frame: _Frame) -> int:
        """Bytes of an unsigned integer's type; 0: another type, or not known."""
        kind = self._scalar_type(expression, frame)
        return kind.bytes if kind and kind.kind is Kind.INTEGER and kind.unsigned and kind.bytes >= 4 else 0

    def _scalar_type(self, expression: Expression, frame: _Frame) -> ScalarType | None:
        """C's type of an expression, as far as the form tells; None: not told."""
        match expression:
            case Name(name=name):
                variable = frame.function.variables.get(name)
                return variable.type if variable and isinstance(variable.type, ScalarType) else None
            case Convert(type=ScalarType() as kind):
                return kind
            case Subscript(base=Name(name=name)):
                variable = frame.function.variables.get(name)
                kind2 = variable.type if variable else None
                while isinstance(kind2, (ArrayType, PointerType)):
                    kind2 = kind2.element
                return kind2 if isinstance(kind2, ScalarType) else None
            case Operation(operator="<<" | ">>" | "neg" | "~", operands=operands):
                return self._scalar_type(operands[0], frame)
            case Operation(operator="+" | "-" | "*" | "/" | "%" | "&" | "|" | "^", operands=operands):
                kinds = [self._scalar_type(operand, frame) for operand in operands]
                known = [kind for kind in kinds if kind is not None]
                return max(known, key=lambda kind: (kind.bytes, kind.unsigned), default=None)
            case Operation(operator="select", operands=(_, true, _)):
                return self._scalar_type(true, frame)
        return None

    def _call(self, call: Call, frame: _Frame) -> Any:
        if call.function in self.functions:
            reference = self.unit.language is Language.FORTRAN
            arguments = [
                self._address(argument, frame)
                if reference and isinstance(argument, (Name, Subscript))
                else self.value(argument, frame)
                for argument in call.arguments
            ]
            return self.call(call.function, arguments)
        if call.function not in _INTRINSICS:
            raise UnrunnableError(f"no function {call.function}")
        values = [_plain(self.value(argument, frame)) for argument in call.arguments]
        return _unwrapped(_INTRINSICS[call.function](*values))


@dataclass(frozen=True)
class _Range:
    first: int | None
    last: int | None
    step: int | None

    def indices(self, length: int, lower: int) -> npt.NDArray[Any]:
        step = 1 if self.step is None else self.step
        first = (lower if step > 0 else lower + length - 1) if self.first is None else self.first
        last = (lower + length - 1 if step > 0 else lower) if self.last is None else self.last
        return np.arange(first, last + (1 if step > 0 else -1), step) - lower


def dtype_of(kind: Type | None) -> Any:
    """The NumPy type of a scalar's cell; objects hold structures, pointers and what is not known."""
    if not isinstance(kind, ScalarType):
        return object
    match kind.kind:
        case Kind.INTEGER if kind.bytes in (1, 2, 4, 8):
            return np.dtype(f"{'u' if kind.unsigned else 'i'}{kind.bytes}")
        case Kind.CHARACTER if kind.bytes == 1:
            return np.dtype("i1")
        case Kind.FLOAT:
            return np.dtype("f4" if kind.bytes == 4 else "f8")
        case Kind.COMPLEX:
            return np.dtype("c8" if kind.bytes == 8 else "c16")
    return object


def stored(kind: Type | None, value: Any) -> Any:
    """A value as a variable of a type keeps it."""
    if isinstance(kind, ScalarType) and isinstance(value, (int, float, np.number)):
        return converted(kind, value)
    return value


def converted(kind: Type, value: Any) -> Any:
    """A value as another type: integers wrap, floating-point numbers round, and lose their fraction as integers."""
    if not isinstance(kind, ScalarType) or isinstance(value, (Pointer, Struct)):
        return value
    if isinstance(value, (Array, np.ndarray)):
        data = _plain(value)
        return np.trunc(data).astype(dtype_of(kind)) if kind.kind is Kind.INTEGER else data.astype(dtype_of(kind))
    match kind.kind:
        case Kind.INTEGER if isinstance(value, (int, float)):
            if isinstance(value, float) and not math.isfinite(value):
                raise UnrunnableError("a number that no integer has")
            return wrapped(int(value), kind.bytes, kind.unsigned) if kind.bytes else int(value)
        case Kind.CHARACTER if isinstance(value, (int, float)):
            return wrapped(int(value), kind.bytes or 1, kind.unsigned)
        case Kind.BOOLEAN:
            return bool(value)
        case Kind.FLOAT if isinstance(value, (int, float)):
            with np.errstate(all="ignore"):
                return float(np.float32(value)) if kind.bytes == 4 else float(value)
        case Kind.COMPLEX:
            return complex(value)
    return value


def wrapped(value: int, num_bytes: int, unsigned: bool) -> int:
    """An integer in two's complement of some bytes."""
    value &= (1 << 8 * num_bytes) - 1
    return value if unsigned or value < 1 << (8 * num_bytes - 1) else value - (1 << 8 * num_bytes)


def truth(value: Any) -> bool:
    """Whether a condition holds."""
    return True if isinstance(value, (Pointer, Struct)) else bool(value)


def _element(kind: Type) -> Type:
    while isinstance(kind, ArrayType):
        kind = kind.element
    return kind


def _unwrapped(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _plain(value: Any) -> Any:
    return value.data if isinstance(value, Array) else value


def _loaded(home: Any) -> Any:
    if isinstance(home, np.ndarray):
        return _unwrapped(home[0]) if home.shape == (1,) else Array(home)
    return home


def _whole(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, np.ndarray) and value.dtype.kind in "iu")


def _truncated(left: Any, right: Any) -> Any:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return np.trunc(np.asarray(left) / np.asarray(right)).astype(np.int64)
    if right == 0:
        raise UnrunnableError("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _pointer_operation(operator: str, values: list[Any]) -> Any:
    values = [Pointer(value.data.reshape(-1)) if isinstance(value, Array) else value for value in values]
    match operator, values:
        case "+", [Pointer() as pointer, int() as elements]:
            return pointer.moved(elements)
        case "+", [int() as elements, Pointer() as pointer]:
            return pointer.moved(elements)
        case "-", [Pointer() as pointer, int() as elements]:
            return pointer.moved(-elements)
        case "not", [Pointer()]:
            return False
        case (("==" | "!="), [Pointer(), int() | None] | [int() | None, Pointer()]):
            return operator == "!="
        case _, [Pointer() as left, Pointer() as right]:
            if not np.shares_memory(left.data, right.data):
                if operator in ("==", "!="):
                    return operator == "!="
                raise UnrunnableError("pointers into different arrays")
            if operator == "-":
                return (left.at - right.at) // left.step
            return _NUMBERS[operator](left.at, right.at)
    raise UnrunnableError(f"{operator} on a pointer")


def _located(base: Any, indices: list[Any]) -> tuple[npt.NDArray[Any], Any, list[Any]]:
    """The memory and the place in it that subscripts lead to, and the subscripts that are left."""
    if isinstance(base, Pointer):
        at, shape = base.at, base.shape
        if isinstance(indices[0], (_Range, np.ndarray)):
            offsets = indices[0].indices(0, 0) if isinstance(indices[0], _Range) else indices[0]
            return base.data, (offsets + at,), []
        at += indices[0] * math.prod(shape)
        rest = indices[1:]
        while shape and rest:
            shape = shape[1:]
            at += rest.pop(0) * math.prod(shape)
        if not 0 <= at <= len(base.data) - math.prod(shape):
            raise UnrunnableError(f"index {at} of {len(base.data)} elements")
        if shape:
            return base.data[at : at + math.prod(shape)].reshape(shape), (), rest
        return base.data, (at,), rest
    if isinstance(base, Array):
        rank = base.data.ndim
        own, rest = indices[:rank], indices[rank:]
        lower = base.lower or (0,) * rank
        places: list[Any] = []
        for axis, index in enumerate(own):
            if isinstance(index, _Range):
                places.append(index.indices(base.data.shape[axis], lower[axis]))
                continue
            place = index - lower[axis]
            if np.isscalar(place) and not 0 <= place < base.data.shape[axis]:
                raise UnrunnableError(f"index {index} of {base.data.shape[axis]} elements")
            places.append(place)
        if not any(isinstance(place, np.ndarray) for place in places):
            return base.data, tuple(places), rest
        places += [np.arange(extent) for extent in base.data.shape[len(own) :]]
        ranged = [place for place in places if isinstance(place, np.ndarray) and place.ndim]
        grids = iter(np.ix_(*ranged))
        return base.data, tuple(next(grids) if isinstance(p, np.ndarray) and p.ndim else p for p in places), rest
    if isinstance(base, np.ndarray):
        return _located(Array(base), indices)
    if isinstance(base, Struct) and indices[0] == 0:
        box = np.empty(1, object)
        box[0] = base
        return box, (0,), indices[1:]
    raise UnrunnableError(f"a subscript of {type(base).__name__}")


def _padded(place: tuple[int, ...], data: npt.NDArray[Any]) -> tuple[int, ...]:
    return (*place, *(0 for _ in range(data.ndim - len(place))))


def _element_at(base: Any, indices: list[Any]) -> Any:
    data, place, rest = _located(base, indices)
    value = data[place]
    if rest:
        return _element_at(Array(value) if isinstance(value, np.ndarray) else value, rest)
    return Array(value) if isinstance(value, np.ndarray) else _unwrapped(value)


_NUMBERS: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "**": lambda a, b: a**b, "neg": lambda a: -a,
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b, "&": lambda a, b: a & b, "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b, "~": lambda a: ~int(a), "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "not": lambda a: np.logical_not(a) if isinstance(a, np.ndarray) else not a,
    "is": lambda a, b: a is b, "in": lambda a, b: a in b,
}  # fmt: skip


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduced(array: Any, axis: Any = None) -> Any:
        return function(array, axis=axis)

    return reduced


def _least(*values: Any) -> Any:
    result = values[0]
    for value in values[1:]:
        result = np.minimum(result, value)
    return result


def _greatest(*values: Any) -> Any:
    result = values[0]
    for value in values[1:]:
        result = np.maximum(result, value)
    return result


_INTRINSICS: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "log2": np.log2, "log10": np.log10, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "pow": np.power, "min": _least, "max": _greatest,
    "floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc, "mod": np.fmod,
    "sign": np.copysign, "fma": lambda a, b, c: a * b + c, "conj": np.conj, "real": np.real, "imag": np.imag,
    "complex": complex, "size": lambda a, axis=None: np.size(a, axis),
    "sum": _reduction(np.sum), "product": _reduction(np.prod), "minval": _reduction(np.min),
    "maxval": _reduction(np.max), "any": _reduction(np.any), "all": _reduction(np.all),
    "count": _reduction(np.count_nonzero), "dot": np.dot, "matmul": np.matmul, "transpose": np.transpose,
    "where": np.where, "cumsum": _reduction(np.cumsum), "sort": np.sort, "argsort": np.argsort, "take": np.take,
    "array": lambda *values: np.array(values),
    "zeros": lambda *shape: np.zeros(shape), "ones": lambda *shape: np.ones(shape),
    "empty": lambda *shape: np.zeros(shape), "arange": np.arange, "copy": np.array,
    "bincount": np.bincount,
}  # fmt: skip
