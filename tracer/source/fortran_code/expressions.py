"""Fortran expressions lowered to the form's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.types import UNKNOWN, element_type, rank, type_of
from foretrace.tracer.source.form.walk import replaced

from .scope import Scope
from .unreadable import PREFIX

if TYPE_CHECKING:
    from tree_sitter import Node

ONE = form.Constant(1)
_WORD = re.compile(r"(?<![\w%])[A-Za-z]\w*")
_TEXT = re.compile(r"""'[^']*'|"[^"]*\"""")

_OPERATORS = {
    ".eq.": "==", ".ne.": "!=", ".lt.": "<", ".le.": "<=", ".gt.": ">", ".ge.": ">=", "/=": "!=", ".and.": "and",
    ".or.": "or", ".not.": "not", ".eqv.": "==", ".neqv.": "!=",
}  # fmt: skip

_RENAMED = {
    **dict.fromkeys(("iabs", "dabs", "cabs"), "abs"), "dsqrt": "sqrt", "csqrt": "sqrt", "dexp": "exp", "cexp": "exp",
    **dict.fromkeys(("alog", "dlog", "clog"), "log"), **dict.fromkeys(("alog10", "dlog10"), "log10"),
    "dsin": "sin", "dcos": "cos", "dtan": "tan", "dasin": "asin", "dacos": "acos", "datan": "atan", "datan2": "atan2",
    "dsinh": "sinh", "dcosh": "cosh", "dtanh": "tanh", "ceiling": "ceil", "anint": "round", "nint": "round",
    "idnint": "round", "dnint": "round", "aint": "trunc", "isign": "sign", "dsign": "sign", "conjg": "conj",
    "dconjg": "conj", "aimag": "imag", "dimag": "imag", "cmplx": "complex", "dcmplx": "complex", "modulo": "mod",
    "dot_product": "dot", "lbound": "lower_bound", "ubound": "upper_bound",
    **dict.fromkeys(("max0", "max1", "amax0", "amax1", "dmax1"), "max"),
    **dict.fromkeys(("min0", "min1", "amin0", "amin1", "dmin1"), "min"),
}  # fmt: skip
"""Specific names, and names that the form spells differently (Fortran 2018, section 16)."""

_BINARY = {"iand": "&", "ior": "|", "ieor": "^", "mod": "%", "amod": "%", "dmod": "%", "shiftl": "<<", "shiftr": ">>"}
_CONVERSIONS = {
    "real": (form.Kind.FLOAT, 4), "float": (form.Kind.FLOAT, 4), "sngl": (form.Kind.FLOAT, 4),
    "dble": (form.Kind.FLOAT, 8), "dfloat": (form.Kind.FLOAT, 8), "int": (form.Kind.INTEGER, 4),
    "ifix": (form.Kind.INTEGER, 4), "idint": (form.Kind.INTEGER, 4), "logical": (form.Kind.BOOLEAN, 4),
}  # fmt: skip
_PURE = frozenset({
    "allocated", "associated", "present", "len", "len_trim", "trim", "adjustl", "adjustr", "index", "scan", "verify",
    "char", "ichar", "achar", "iachar", "kind", "tiny", "huge", "epsilon", "btest", "ishft", "ishftc", "ibset", "ibclr",
    "not", "cshift", "eoshift", "norm2", "gamma", "erf", "erfc", "hypot", "popcnt", "leadz", "trailz", "transfer",
    "unpack", "maskl", "maskr", "exponent", "fraction", "scale", "nearest", "null", "c_loc", "loc", "dim", "dprod",
    "findloc", "parity", "iall", "iany", "merge_bits", "storage_size", "is_contiguous", "same_type_as",
})  # fmt: skip
_OF_ARRAYS = {
    "sum": "0", "product": "1", "minval": "inf", "maxval": "-inf", "minloc": "inf", "maxloc": "-inf", "count": "",
    "any": "", "all": "",
}  # fmt: skip
"""Reductions, with the value that replaces elements outside a MASK."""


class Expressions:
    """Lowers expressions of one program unit."""

    def __init__(self, scope: Scope, unread: Mapping[int, str] | None = None) -> None:
        """Calls of functions that are not pure become statements in `before`, in the order of evaluation.

        `unread`: the text of statements that do not parse, by the number of the name that stands for them.
        """
        self.scope = scope
        self.unread_met: list[form.Unknown] = []
        """Functions whose names occur in expressions."""
        self._unread = unread or {}
        self.before: list[tuple[str, form.Call]] = []
        self.associated: dict[str, form.Expression] = {}
        """Names of ASSOCIATE, with the expressions they stand for."""
        self.statement_functions: dict[str, tuple[tuple[str, ...], form.Expression]] = {}
        self._temporaries = 0

    def lower(self, node: Node) -> form.Expression:
        """An expression's form."""
        match node.type:
            case "identifier" | "name" | "type_member":
                name = text_of(node).lower()
                unread = self.unread(name)
                if unread is not None:
                    self.unread_met.append(unread)
                    return unread
                return self.associated.get(name) or self._target(form.Name(name))
            case "number_literal":
                return number(text_of(node))
            case "string_literal":
                return form.Constant(text_of(node)[1:-1], form.Kind.CHARACTER)
            case "boolean_literal":
                return form.Constant("true" in text_of(node).lower(), form.Kind.BOOLEAN)
            case "parenthesized_expression":
                return self._inner(node)
            case "math_expression" | "relational_expression" | "logical_expression" | "unary_expression":
                return self._operation(node)
            case "concatenation_expression":
                return form.Call("concatenate", tuple(map(self.lower, node.named_children)))
            case "call_expression":
                return self._call(node)
            case "derived_type_member_expression":
                base, *rest = node.named_children
                if not rest:
                    return self.lower(base)
                return self._member(self.lower(base), text_of(rest[-1]).lower())
            case "complex_literal":
                return form.Call("complex", tuple(map(self.lower, node.named_children)))
            case "array_literal" if not any(
                child.type == "implied_do_loop_expression" for child in node.named_children
            ):
                return form.Call("array", tuple(map(self.lower, node.named_children)))
            case "extent_specifier":
                return self.section(node)
        return self.unknown(node)

    def unread(self, name: str) -> form.Unknown | None:
        """The statement that a name stands for because it does not parse; None: an ordinary name."""
        number = name.removeprefix(PREFIX)
        if number == name or not number.isdecimal() or int(number) not in self._unread:
            return None
        text = self._unread[int(number)]
        words = (word.lower() for word in _WORD.findall(_TEXT.sub("", text)))
        reads = tuple(form.Name(word) for word in dict.fromkeys(words) if self.scope.find(word) is not None)
        return form.Unknown(text[: form.MOST_TEXT], reads)

    def _member(self, base: form.Expression, member: str) -> form.Expression:
        kind = element_type(base, self.scope)
        known = self.scope.members(kind.name).get(member) if isinstance(kind, form.StructType) else None
        if known is None and rank(base, self.scope):
            known = UNKNOWN  # one of each element
        return self._target(form.Member(base, member, known))

    def _target(self, place: form.Expression) -> form.Expression:
        """Target of a scalar pointer; any other expression unchanged."""
        pointer = isinstance(type_of(place, self.scope), form.PointerType)
        return form.Subscript(place, (form.Constant(0),)) if pointer else place

    def pointer(self, node: Node) -> form.Expression:
        """A pointer itself, not its target."""
        made = self.lower(node)
        if isinstance(made, form.Subscript) and isinstance(type_of(made.base, self.scope), form.PointerType):
            return made.base
        return made

    def unknown(self, node: Node) -> form.Unknown:
        """An expression that is not lowered, with the names inside it."""
        reads = tuple(form.Name(name) for name in dict.fromkeys(_identifiers(node)))
        return form.Unknown(text_of(node)[: form.MOST_TEXT], reads)

    def section(self, node: Node) -> form.Section:
        """`first:last:step`."""
        parts: list[form.Expression | None] = [None, None, None]
        position = 0
        for child in node.children:
            if child.type in (":", "::"):
                position += len(child.type)
            elif child.is_named and position < 3:
                parts[position] = self.lower(child)
        return form.Section(*parts)

    def arguments(self, node: Node) -> tuple[form.Expression, ...]:
        """The arguments of a list, keywords left out."""
        return tuple(self.lower(child) for child in _arguments(node) if child.type != "keyword_argument")

    def _inner(self, node: Node) -> form.Expression:
        inner = [child for child in node.named_children if child.type != "comment"]
        return self.lower(inner[0]) if len(inner) == 1 else self.unknown(node)

    def _operation(self, node: Node) -> form.Expression:
        operands = [child for child in node.named_children if child.type not in ("comment", "ERROR")]
        sign = next((child for child in node.children if not child.is_named and child.type != "&"), None)
        if sign is None or node.has_error:
            return self.unknown(node)
        operator = _OPERATORS.get(text_of(sign).lower(), text_of(sign).lower())
        if len(operands) == 1:
            if operator == "+":
                return self.lower(operands[0])
            return form.Operation("neg" if operator == "-" else operator, (self.lower(operands[0]),))
        if operator not in form.OPERATORS or len(operands) != 2:
            return self.unknown(node)
        return form.Operation(operator, (self.lower(operands[0]), self.lower(operands[1])))

    def _call(self, node: Node) -> form.Expression:
        callee, *lists = node.named_children
        if not lists or node.has_error:
            return self.unknown(node)
        if callee.type == "identifier" and len(lists) == 1:
            name = text_of(callee).lower()
            if name not in self.associated and not self._is_array(name, lists[0]):
                return self._function(name, lists[0], node)
        made = self.lower(callee)
        for one in lists:  # elements, then a substring
            indices = self.arguments(one) or (form.Section(),)
            if self.is_substring(made, indices):
                return form.Call("substring", (made, *_ends(indices[0])))
            made = self.element(made, indices)
        return made

    def is_substring(self, base: form.Expression, indices: tuple[form.Expression, ...]) -> bool:
        """Whether `base(first:last)` is a part of a text, not of an array."""
        if len(indices) != 1 or not isinstance(indices[0], form.Section):
            return False
        kind = type_of(base, self.scope)
        return isinstance(kind, form.ScalarType) and kind.kind is form.Kind.CHARACTER and not rank(base, self.scope)

    def element(self, base: form.Expression, indices: tuple[form.Expression, ...]) -> form.Expression:
        """Elements of an array, or of the section that a name of ASSOCIATE stands for, which counts from 1."""
        if not isinstance(base, form.Subscript) or not any(isinstance(one, form.Section) for one in base.indices):
            return form.Subscript(base, indices)
        kind = type_of(base.base, self.scope)
        lower = kind.lower if isinstance(kind, form.ArrayType) else ()
        left = list(indices)
        made: list[form.Expression] = []
        for position, one in enumerate(base.indices):
            if not isinstance(one, form.Section) or not left:
                made.append(one)
                continue
            first = one.first or (lower[position] if position < len(lower) else ONE)
            index = left.pop(0)
            if isinstance(index, form.Section):
                if index != form.Section():
                    return form.Subscript(base, indices)
                made.append(one)
                continue
            if one.step is not None:
                index = form.Operation("+", (form.Operation("*", (_less(index, ONE), one.step)), first))
            elif first != ONE:
                index = form.Operation("+", (first, _less(index, ONE)))
            made.append(index)
        return form.Subscript(base.base, tuple(made))

    def _is_array(self, name: str, indices: Node) -> bool:
        """Whether `name(...)` is an element, not a call."""
        known = self.scope.find(name)
        if known is not None and isinstance(known.type, form.ArrayType):
            return True
        if name in self.statement_functions or self.scope.is_function(name):
            return False
        if known is not None:
            kind = known.type
            return isinstance(kind, form.ScalarType) and kind.kind is form.Kind.CHARACTER
        if name in _RENAMED or name in _BINARY or name in _CONVERSIONS or name in form.INTRINSICS or name in _PURE:
            return name in self.scope.assigned
        if name == "merge":
            return False
        sections = any(child.type == "extent_specifier" for child in _arguments(indices))
        return name in self.scope.assigned or sections or self.scope.open_modules

    def _function(self, name: str, arguments: Node, node: Node) -> form.Expression:
        if name == "associated":
            return self._associated(arguments)
        given = self.arguments(arguments)
        keywords = {
            text_of(child.named_children[0]).lower(): child.named_children[-1]
            for child in _arguments(arguments)
            if child.type == "keyword_argument" and len(child.named_children) > 1
        }
        if name in self.statement_functions:
            parameters, value = self.statement_functions[name]
            if len(parameters) == len(given):
                return replaced(value, dict(zip(parameters, given, strict=True)))
        if self.scope.find(name) is not None or self.scope.is_function(name):
            return self._user_function(name, given)
        if name in _CONVERSIONS and given:
            kind, size = _CONVERSIONS[name]
            wanted = keywords.get("kind") or (_arguments(arguments)[1] if len(given) > 1 else None)
            if wanted is not None:
                size = self.scope.kind_bytes(text_of(wanted), size)
            return form.Convert(form.ScalarType(kind, size), given[0])
        if name in _BINARY and len(given) == 2:
            return form.Operation(_BINARY[name], given)
        if name == "merge" and len(given) == 3:
            return form.Operation("select", (given[2], given[0], given[1]))
        common = _RENAMED.get(name, name)
        if common in ("max", "min") and len(given) > 2:
            made = given[0]
            for one in given[1:]:
                made = form.Call(common, (made, one))
            return made
        if common in ("round", "floor", "ceil", "trunc"):
            given = given[:1]
        if common in _OF_ARRAYS:
            return self._reduction(common, given, keywords)
        if common in form.INTRINSICS or name in _PURE:
            return form.Call(common, given)
        return self._user_function(name, given)

    def _associated(self, arguments: Node) -> form.Expression:
        """ASSOCIATED of scalar pointers as comparisons of addresses."""
        given = [self.pointer(one) for one in _arguments(arguments)]
        kinds = [type_of(one, self.scope) for one in given]
        if not kinds or not isinstance(kinds[0], form.PointerType):
            return form.Call("associated", tuple(given))
        if len(given) == 1:
            return form.Operation("!=", (given[0], form.Constant(0)))
        other = given[1] if isinstance(kinds[1], form.PointerType) else form.AddressOf(given[1])
        return form.Operation("==", (given[0], other))

    def _reduction(self, name: str, given: tuple[form.Expression, ...], keywords: dict[str, Node]) -> form.Expression:
        """SUM and the like, with DIM counted from 0, and a choice for MASK."""
        if not given:
            return form.Call(name, given)
        array, *others = given
        dimension = self.lower(keywords["dim"]) if "dim" in keywords else None
        mask = self.lower(keywords["mask"]) if "mask" in keywords else None
        for one in others:
            if isinstance(one, form.Constant) and dimension is None:
                dimension = one
            else:
                mask = one
        if mask is not None and _OF_ARRAYS[name]:
            neutral = form.Constant(float(_OF_ARRAYS[name]), form.Kind.FLOAT)
            array = form.Operation("select", (mask, array, neutral))
        if name in ("minloc", "maxloc"):  # counted from 1
            return form.Operation("+", (form.Call(name, (array,)), ONE))
        if dimension is None:
            return form.Call(name, (array,))
        if isinstance(dimension, form.Constant) and isinstance(dimension.value, int):
            return form.Call(name, (array, form.Constant(dimension.value - 1)))
        return form.Call(name, (array, form.Operation("-", (dimension, ONE))))

    def temporary(self, kind: form.Type) -> form.Name:
        """A new variable of the program unit."""
        self._temporaries += 1
        name = f"%{self._temporaries}"
        self.scope.variables[name] = form.Variable(kind)
        return form.Name(name)

    def _user_function(self, name: str, given: Sequence[form.Expression]) -> form.Expression:
        if self.scope.is_pure(name):
            return form.Call(name, tuple(given))
        self._temporaries += 1
        temporary = f"%{self._temporaries}"
        self.before.append((temporary, form.Call(name, tuple(given), pure=False)))
        return form.Name(temporary)


def _ends(section: form.Expression) -> tuple[form.Expression, ...]:
    assert isinstance(section, form.Section)
    return tuple(one for one in (section.first, section.last) if one is not None)


def _less(left: form.Expression, right: form.Expression) -> form.Expression:
    if isinstance(left, form.Constant) and left == right:
        return form.Constant(0)
    return form.Operation("-", (left, right))


def text_of(node: Node) -> str:
    """A node's source text."""
    return (node.text or b"").decode("utf-8", "replace")


def number(text: str) -> form.Constant:
    """A literal without its kind."""
    value = text.split("_")[0].lower().replace("d", "e")
    try:
        if value.isdecimal():
            return form.Constant(int(value))
        return form.Constant(float(value), form.Kind.FLOAT)
    except ValueError:
        return form.Constant(text, form.Kind.UNKNOWN)


def _arguments(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "comment"]


def _identifiers(node: Node) -> list[str]:
    found: list[str] = []
    pending = [node]
    while pending and len(found) < 64:
        current = pending.pop()
        if current.type == "identifier":
            found.append(text_of(current).lower())
        pending.extend(reversed(current.named_children))
    return found
