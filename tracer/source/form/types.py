"""Types and ranks of expressions, as far as the form has them."""

from __future__ import annotations

from collections.abc import Mapping

from .records import (
    AddressOf,
    ArrayType,
    Call,
    Constant,
    Convert,
    Expression,
    Kind,
    Member,
    Name,
    Operation,
    PointerType,
    ScalarType,
    Section,
    Subscript,
    Type,
    Variable,
)  # fmt: skip

Variables = Mapping[str, Variable]

ELEMENTWISE = frozenset({
    "abs", "sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh",
    "tanh", "pow", "min", "max", "floor", "ceil", "round", "trunc", "mod", "sign", "fma", "conj", "real", "imag",
    "complex", "where",
})  # fmt: skip
"""Intrinsics whose value at an element depends on that element of their arguments alone."""

REDUCTIONS = frozenset({"sum", "product", "minval", "maxval", "minloc", "maxloc", "any", "all", "count"})
"""Intrinsics that make one value of an array, or of each line along one dimension of it."""

_RELATIONS = frozenset({"<", "<=", "==", "!=", ">", ">=", "not", "is", "in"})
_INTEGERS = frozenset({"size", "lower_bound", "upper_bound", "minloc", "maxloc", "count", "argsort", "bincount"})
_SAME = frozenset({
    "transpose", "cumsum", "cumprod", "cummax", "cummin", "sort", "argsort", "copy", "spread", "reshape", "cshift",
})  # fmt: skip
UNKNOWN = ScalarType(Kind.UNKNOWN)


def rank(expression: Expression, variables: Variables) -> int:
    """The number of dimensions of an expression's value; 0: a scalar, or not known."""
    match expression:
        case Constant():
            return 0
        case Name(name=name):
            variable = variables.get(name)
            return len(variable.type.shape) if variable and isinstance(variable.type, ArrayType) else 0
        case Member(type=None):
            return 0
        case Member(base=base, type=kind):
            return rank(base, variables) + (len(kind.shape) if isinstance(kind, ArrayType) else 0)
        case Section():
            return 1
        case Subscript(base=base, indices=indices):
            return _subscript_rank(base, indices, variables)
        case Operation(operator="is" | "in"):
            return 0
        case Operation(operands=operands):
            return max([rank(operand, variables) for operand in operands])
        case Convert(type=kind, operand=operand):
            return 0 if isinstance(kind, PointerType) else rank(operand, variables)
        case AddressOf(operand=operand):
            return rank(operand, variables)
        case Call(function=function, arguments=arguments):
            return _call_rank(function, arguments, variables)
    return 0


def _subscript_rank(base: Expression, indices: tuple[Expression, ...], variables: Variables) -> int:
    consumed, kept, fancy = 0, 0, 0
    for index in indices:
        if isinstance(index, Section):
            consumed, kept = consumed + 1, kept + 1
        elif own := rank(index, variables):
            mask = is_mask(index, variables)
            consumed += own if mask else 1
            fancy = max(fancy, 1 if mask else own)
        else:
            consumed += 1
    return kept + fancy + max(rank(base, variables) - consumed, 0)


def _call_rank(function: str, arguments: tuple[Expression, ...], variables: Variables) -> int:
    ranks = [rank(argument, variables) for argument in arguments]
    if function in ELEMENTWISE:
        return max(ranks, default=0)
    if function in REDUCTIONS:
        return ranks[0] - 1 if len(arguments) > 1 and ranks[0] else 0
    if function in _SAME:
        return ranks[0] if ranks else 0
    if function in ("dot", "matmul") and len(ranks) == 2:
        return max(ranks[0] + ranks[1] - 2, 0) if min(ranks) else max(ranks)
    if function in ("zeros", "ones", "empty"):
        return len(arguments)
    if function == "take" and len(ranks) > 1:
        return ranks[1]
    return 1 if function in ("arange", "bincount", "pack", "shape", "list") else 0


def is_mask(index: Expression, variables: Variables) -> bool:
    """Whether an index that is an array is one of truth values."""
    kind = element_type(index, variables)
    return isinstance(kind, ScalarType) and kind.kind is Kind.BOOLEAN


def element_type(expression: Expression, variables: Variables) -> Type:
    """The type of an expression's value, of an array's or a pointer's the type of its elements."""
    kind = type_of(expression, variables)
    return kind.element if isinstance(kind, ArrayType) else kind


def type_of(expression: Expression, variables: Variables) -> Type:
    """The type of an expression's value; a scalar of kind UNKNOWN where the form does not have it."""
    match expression:
        case Constant(kind=kind):
            return ScalarType(kind, 8 if kind in (Kind.INTEGER, Kind.FLOAT) else 0)
        case Name(name=name):
            variable = variables.get(name)
            return variable.type if variable else UNKNOWN
        case Member(base=base, type=kind):
            if kind is None or not rank(base, variables):
                return kind or UNKNOWN
            return ArrayType(_element(kind), (None,) * rank(expression, variables), strided=True)
        case Convert(type=kind):
            return kind
        case AddressOf(operand=operand):
            kind = type_of(operand, variables)
            return kind if isinstance(kind, ArrayType) else PointerType(kind)
        case Subscript(base=base):
            kind = type_of(base, variables)
            own = rank(expression, variables)
            if isinstance(kind, PointerType):
                return kind.element
            if isinstance(kind, ArrayType):
                return ArrayType(kind.element, (None,) * own, strided=True) if own else kind.element
            return UNKNOWN
        case Operation(operator=operator, operands=operands):
            return _operation_type(operator, operands, expression, variables)
        case Call(function=function, arguments=arguments):
            return _call_type(function, arguments, expression, variables)
    return UNKNOWN


def _of_rank(kind: Type, expression: Expression, variables: Variables) -> Type:
    own = rank(expression, variables)
    return ArrayType(kind, (None,) * own) if own else kind


def _operation_type(
    operator: str, operands: tuple[Expression, ...], expression: Expression, variables: Variables
) -> Type:
    if operator in _RELATIONS:
        return _of_rank(ScalarType(Kind.BOOLEAN), expression, variables)
    kinds = [type_of(operand, variables) for operand in (operands[1:] if operator == "select" else operands)]
    for kind in kinds:
        if isinstance(kind, PointerType):
            return kind
    return _of_rank(_widest([_element(kind) for kind in kinds]), expression, variables)


def _call_type(function: str, arguments: tuple[Expression, ...], expression: Expression, variables: Variables) -> Type:
    if function in _INTEGERS:
        return _of_rank(ScalarType(Kind.INTEGER, 8), expression, variables)
    if function in ("any", "all"):
        return _of_rank(ScalarType(Kind.BOOLEAN), expression, variables)
    if function in ("zeros", "ones", "empty"):
        return ArrayType(ScalarType(Kind.FLOAT, 8), tuple(arguments), alias=False)
    if function == "arange":
        return ArrayType(ScalarType(Kind.INTEGER, 8), (arguments[0] if len(arguments) == 1 else None,), alias=False)
    of = arguments[1:] if function == "where" else arguments[:1] if function == "take" else arguments
    return _of_rank(_widest([_element(type_of(part, variables)) for part in of]), expression, variables)


def _element(kind: Type) -> Type:
    return kind.element if isinstance(kind, ArrayType) else kind


_ORDER = {Kind.BOOLEAN: 0, Kind.INTEGER: 1, Kind.FLOAT: 2, Kind.COMPLEX: 3}


def _widest(kinds: list[Type]) -> Type:
    widest: ScalarType | None = None
    for kind in kinds:
        if not isinstance(kind, ScalarType) or kind.kind not in _ORDER:
            return UNKNOWN
        if widest is None or (_ORDER[kind.kind], kind.bytes) > (_ORDER[widest.kind], widest.bytes):
            widest = kind
    return widest or UNKNOWN
