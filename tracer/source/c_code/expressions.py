"""Expressions of C and C++: values without side effects, and the statements that their side effects become.

The module is long for one class, which has a method for each kind of expression.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from foretrace.tracer.source.form.records import (
    AddressOf,
    Assign,
    Branch,
    Call,
    Constant,
    Convert,
    Evaluate,
    Expression,
    Kind,
    Member,
    Name,
    Operation,
    PointerType,
    ScalarType,
    Subscript,
    Type,
    Unknown,
)  # fmt: skip

from .form_types import ARRAYS, UNKNOWN
from .jumps import negation
from .scope import MOST_TABLE, NULL, ZERO, Scope, Source
from .syntax import (
    AND,
    ASSIGN,
    BINARY_OPERATORS,
    COMMA,
    DEFINED,
    FUNCTION_KINDS,
    OR,
    Node,
    TypeKind,
    Unary,
)

_TRUE_OPERATORS = frozenset({"<", "<=", "==", "!=", ">", ">=", "and", "or", "not"})


class Expressions(Scope):
    """Lowers expressions. `value` gives a value, `whole` may give a call with side effects as the whole value."""

    def value(self, node: int) -> Expression:
        """A node's value, without side effects; statements for those it has are made before or pending."""
        made = self.whole(node)
        if isinstance(made, Call) and not made.pure:
            return self.kept(node, made, self.types.form(self.converted_type(node)))
        return made

    def whole(self, node: int) -> Expression:
        """A node's value; it may be a call with side effects, as the whole expression."""
        made = self.place_of(node)
        conversion = self.tree.conversion[node]
        if conversion < 0:
            return made
        kind = self.tree.type[node]
        return made if conversion == kind else self.converted(node, made, kind, conversion)

    def place_of(self, node: int) -> Expression:
        """A node's expression before implicit conversions: a place in memory, or a value."""
        lower = _VALUES.get(self.tree.kind[node])
        return lower(self, node) if lower else self.unknown(node)

    def effects(self, node: int) -> None:
        """Runs an expression for its side effects."""
        made = self.whole(node)
        if isinstance(made, Call) and not made.pure:
            self.out.append(self.evaluated(node, made))
        self.flush()

    def evaluated(self, node: int, call: Call) -> Evaluate:
        """The statement of a call for its effects."""
        return Evaluate(self.place(node), call)

    def truth(self, node: int) -> Expression:
        """A node's value as a condition."""
        made = self.value(node)
        if self.tree.kind[node] == Node.BINARY and self.tree.operation[node] in (AND, OR):
            return made
        return truth_of(made, self.types.kind(self.tree.type[node]), self.types.is_pointer(self.converted_type(node)))

    def condition(self, node: int) -> Expression:
        """A condition at its sequence point: its side effects have taken place."""
        return self.sequenced(node, self.truth(node), ScalarType(Kind.BOOLEAN, 1))

    def converted_type(self, node: int) -> int:
        """The type of a node's value."""
        conversion = self.tree.conversion[node]
        return conversion if conversion >= 0 else self.tree.type[node]

    def converted(self, node: int, made: Expression, kind: int, to: int) -> Expression:
        """A value after an implicit conversion: conversions that change nothing leave no trace."""
        types = self.types
        target = types.kind(to)
        if target == TypeKind.BOOLEAN and types.kind(kind) != TypeKind.BOOLEAN:
            if isinstance(made, Call) and not made.pure:
                made = self.kept(node, made, types.form(kind))
            return truth_of(made, types.kind(kind), types.is_pointer(kind)) if not types.is_class(kind) else made
        if types.is_floating(kind) and types.is_integer(to):
            if isinstance(made, Call) and not made.pure:
                made = self.kept(node, made, types.form(kind))
            return Convert(types.form(to), made)
        if target == TypeKind.POINTER:
            if types.kind(kind) in ARRAYS:
                return self.address_of(subscripted(made, ZERO, True))
            if made == ZERO:
                return NULL
        if isinstance(made, Constant):
            if types.is_floating(to):
                return number(made)
            form = types.form(to)
            if isinstance(form, ScalarType) and form.unsigned and isinstance(made.value, int) and made.value < 0:
                return Constant(made.value % (1 << 8 * (form.bytes or 8)))
        return made

    def unknown(self, node: int) -> Expression:
        """An expression that is not lowered; its parts are read."""
        reads = tuple(self.value(child) for child in self.tree.children(node) if self.tree.kind[child] < Node.LABEL)
        return Unknown(self.words(node)[:80] or "...", tuple(read for read in reads if not isinstance(read, Constant)))

    # Leaves

    def _literal(self, node: int) -> Expression:
        value = self.tree.value[node]
        match self.tree.kind[node]:
            case _ if value is None:
                return self.unknown(node)
            case Node.FLOATING:
                if not isinstance(value, float) or not math.isfinite(value):
                    return Unknown(self.words(node)[:80] or "...")
                return Constant(value, Kind.FLOAT)
            case Node.STRING:
                text = str(value)
                return Constant(text[text.find('"') + 1 : -1] if text.endswith('"') else text, Kind.CHARACTER)
            case Node.CHARACTER:
                return Constant(value, Kind.CHARACTER)
            case Node.BOOLEAN:
                return Constant(bool(value), Kind.BOOLEAN)
        return Constant(value)

    def _null(self, node: int) -> Expression:
        return NULL

    def _size(self, node: int) -> Expression:
        value = self.tree.value[node]
        return Constant(value) if isinstance(value, int) else self.unknown(node)

    def _unexposed(self, node: int) -> Expression:
        value = self.tree.value[node]
        if isinstance(value, float) and math.isfinite(value):
            return Constant(value, Kind.FLOAT)
        if isinstance(value, int):
            return Constant(value)
        children = self.tree.children(node)
        return self.place_of(children[0]) if len(children) == 1 else self.unknown(node)

    def _name(self, node: int) -> Expression:
        number_of = self.tree.declaration[node]
        bound = self.bound.get(number_of)
        if bound is not None:
            return bound
        if number_of < 0:
            if self.tree.end[node] == node + 2:
                return self.place_of(node + 1)  # a template's parameter that is a value
            text = self.tree.value[node]
            return Unknown(str(text) if text else self.words(node)[:40] or "...")
        return self.declared_name(number_of)

    def declared_name(self, number_of: int) -> Expression:
        """The value of a declared variable, constant or function."""
        declared = self.declared(number_of)
        if declared.kind == Node.ENUMERATOR:
            if declared.name in self.source.assumed:
                return Name(declared.name)
            return Constant(declared.value)
        if declared.kind in FUNCTION_KINDS:
            return Name(declared.full_name)
        if declared.kind not in (Node.VARIABLE, Node.PARAMETER):
            return Name(declared.name or "%unnamed")
        made = Name(self.name(number_of))
        return Subscript(made, (ZERO,)) if self.is_scalar_reference(declared.type) else made

    def _this(self, node: int) -> Expression:
        return AddressOf(self.this)

    def _member(self, node: int) -> Expression:
        tree = self.tree
        number_of = tree.declaration[node]
        declared = self.declared(number_of) if number_of >= 0 else None
        if declared and declared.kind in (Node.VARIABLE, Node.ENUMERATOR):
            return self.declared_name(number_of)
        if number_of in self.bound:
            return self.bound[number_of]
        children = tree.children(node)
        base = self.object(children[0]) if children else self.this
        if declared is None:
            return Member(base, self._member_word(node))
        return Member(base, declared.name, self.member_type(declared.type)) if declared.name else base

    def member_type(self, number: int) -> Type | None:
        """The type of a member that is a number or a pointer; None: of others."""
        made = self.types.form(number)
        return made if isinstance(made, PointerType) or (isinstance(made, ScalarType) and made != UNKNOWN) else None

    def _member_word(self, node: int) -> str:
        """The name of a member that the syntax has no declaration for."""
        found = re.search(r"(?:\.|->)\s*(?:template\s+)?(\w+)", self.words(node))
        return found.group(1) if found else "%unknown"

    def object(self, node: int) -> Expression:
        """The object whose member is accessed, through a pointer or directly."""
        made = self.value(node)
        return self.pointee(made) if self.types.is_pointer(self.converted_type(node)) else made

    # Memory

    def pointee(self, pointer: Expression) -> Expression:
        """The object that a pointer points at, as an expression."""
        return pointee(pointer)

    def _subscript(self, node: int) -> Expression:
        children = self.tree.children(node)
        if len(children) != 2:
            return self.unknown(node)
        array, index = children
        types = self.types
        if types.is_integer(self.tree.type[array]) and not types.is_integer(self.tree.type[index]):
            array, index = index, array
        rows = types.is_array(self.tree.type[array])
        base = self.place_of(array) if rows else self.value(array)
        if isinstance(base, Call) and not base.pure:
            base = self.kept(node, base, types.form(self.tree.type[array]))
        return subscripted(base, self.value(index), rows)

    # Operators

    def _unary(self, node: int) -> Expression:
        tree = self.tree
        operand = node + 1
        if operand >= tree.end[node]:
            return self.unknown(node)
        match tree.operation[node]:
            case Unary.AFTER_PLUS | Unary.AFTER_MINUS | Unary.BEFORE_PLUS | Unary.BEFORE_MINUS:
                target = self.place_of(operand)
                return self.stepped(node, target, tree.operation[node])
            case Unary.ADDRESS:
                return self.address_of(self.place_of(operand))
            case Unary.POINTEE:
                made = self.value(operand)
                return made if self.types.kind(self.converted_type(operand)) == TypeKind.FUNCTION else pointee(made)
            case Unary.MINUS:
                return negated(self.value(operand))
            case Unary.COMPLEMENT:
                return Operation("~", (self.value(operand),))
            case Unary.NOT:
                return negation(self.truth(operand))
            case Unary.REAL | Unary.IMAGINARY:
                name = "real" if tree.operation[node] == Unary.REAL else "imag"
                return Call(name, (self.value(operand),))
            case Unary.PLUS | Unary.EXTENSION:
                return self.value(operand)
        return self.unknown(node)

    def stepped(self, node: int, target: Expression, operation: int) -> Expression:
        """`i++` and its like: the value, and the assignment before it or pending."""
        plus = operation in (Unary.AFTER_PLUS, Unary.BEFORE_PLUS)
        value = Operation("+" if plus else "-", (target, Constant(1)))
        step = Assign(self.place(node), target, value)
        if operation in (Unary.AFTER_PLUS, Unary.AFTER_MINUS):
            self.pending.append(step)
        else:
            self.out.append(step)
        return target

    def _binary(self, node: int) -> Expression:
        tree = self.tree
        children = tree.children(node)
        operation = tree.operation[node]
        if len(children) != 2:
            return self.unknown(node)
        left, right = children
        if operation == ASSIGN:
            return self.stored(node, left, right)
        if operation == COMMA:
            self.effects(left)
            return self.whole(right)
        if operation in (AND, OR):
            return self._short_circuit(node, left, right, BINARY_OPERATORS[operation])
        operator = BINARY_OPERATORS.get(operation)
        if operator is None:
            return self.unknown(node)
        if operator == "+" and self.types.is_pointer(self.converted_type(right)):
            left, right = right, left
        return combined(operator, self.value(left), self.value(right), self.types.is_pointer(self.converted_type(left)))

    def stored(self, node: int, left: int, right: int) -> Expression:
        """An assignment; its value is the assigned object."""
        value = self.whole(right)
        target = self.place_of(left)
        if isinstance(target, Call) and not target.pure:
            target = self.pointee(self.kept(node, target, PointerType(self.types.form(self.tree.type[left]))))
        if value != target:
            self.assign(node, target, value)
        return target

    def _compound(self, node: int) -> Expression:
        children = self.tree.children(node)
        operator = BINARY_OPERATORS.get(self.tree.operation[node])
        if len(children) != 2 or operator is None:
            return self.unknown(node)
        left, right = children
        value = self.value(right)
        target = self.place_of(left)
        made: Expression = Operation(operator, (target, value))
        types = self.types
        if types.is_integer(self.tree.type[left]) and types.is_floating(self.converted_type(right)):
            made = Convert(types.form(self.tree.type[left]), made)
        self.assign(node, target, made)
        return target

    def _short_circuit(self, node: int, left: int, right: int, operator: str) -> Expression:
        first = self.condition(left)
        with self.block() as statements:
            second = self.condition(right)
        if not statements:
            return Operation(operator, (first, second))
        result = self.temporary(ScalarType(Kind.BOOLEAN, 1))
        place = self.place(node)
        self.out.append(Assign(place, result, first))
        test: Expression = result if operator == "and" else Operation("not", (result,))
        self.out.append(Branch(place, test, (*statements, Assign(place, result, second))))
        return result

    def _conditional(self, node: int) -> Expression:
        children = self.tree.children(node)
        if len(children) != 3:
            return self.unknown(node)
        test, true, false = children
        condition = self.condition(test)
        with self.block() as if_true:
            first = self.value(true)
            self.flush()
        with self.block() as if_false:
            second = self.value(false)
            self.flush()
        if not if_true and not if_false:
            return Operation("select", (condition, first, second))
        place = self.place(node)
        kind = self.types.kind(self.tree.type[node])
        if kind == TypeKind.VOID:
            self.out.append(Branch(place, condition, tuple(if_true), tuple(if_false)))
            return ZERO
        result = self.temporary(self.types.form(self.tree.type[node]))
        if_true.append(Assign(place, result, first))
        if_false.append(Assign(place, result, second))
        self.out.append(Branch(place, condition, tuple(if_true), tuple(if_false)))
        return result

    def _cast(self, node: int) -> Expression:
        children = self.tree.children(node)
        if not children:
            return self.unknown(node)
        operand = children[-1]
        types = self.types
        to, kind = self.tree.type[node], self.converted_type(operand)
        target = types.kind(to)
        if target == TypeKind.VOID:
            return self.whole(operand)
        made = self.value(operand)
        form = types.form(to)
        if types.is_class(to) or form == types.form(kind):
            return made
        if isinstance(made, Constant):
            if types.is_floating(to) and isinstance(made.value, int | float):
                return number(made)
            if types.is_integer(to) and isinstance(made.value, int) and fits(made.value, form):
                return Constant(int(made.value))
        if target == TypeKind.POINTER:
            if made == ZERO:
                return NULL
            inner = types[types.bare(to)].inner
            if isinstance(made, Call) or made == NULL or types.kind(inner) == TypeKind.VOID:
                return made
            source = types.form(kind)
            if isinstance(source, PointerType) and source.element == types.form(inner):
                return made
        if target == TypeKind.BOOLEAN:
            return truth_of(made, types.kind(kind), types.is_pointer(kind))
        if isinstance(made, Convert) and made.type == form:
            return made
        return Convert(form, made)

    def _initialisers(self, node: int) -> Expression:
        if self.tree.end[node] - node > 4 * MOST_TABLE:
            return Unknown("{...}")
        children = self.tree.children(node)
        kind = self.tree.type[node]
        if self.types.is_class(kind) and not self.types.is_container(kind):
            name = self.types[self.types.bare(kind)].spelling
            return Call(re.sub(r"^const ", "", name), tuple(self.value(child) for child in children))
        if len(children) == 1 and not self.types.is_array(kind) and not self.types.is_container(kind):
            return self.value(children[0])
        if not children and not self.types.is_array(kind):
            return number(ZERO) if self.types.is_floating(kind) else ZERO
        return Call("array", tuple(self.value(child) for child in children))

    def _compound_literal(self, node: int) -> Expression:
        children = self.tree.children(node)
        return self.value(children[-1]) if children else self.unknown(node)

    def table(self, number: int) -> Expression | None:
        """The value of a constant of the file, if it is one without side effects."""
        tables = self.source.tables
        if number not in tables:
            tables[number] = None  # a value that refers to itself finds none
            tables[number] = constant_value(self.source, number)
        return tables[number]


_VALUES: dict[int, Callable[[Expressions, int], Expression]] = {
    Node.INTEGER: Expressions._literal,
    Node.FLOATING: Expressions._literal,
    Node.STRING: Expressions._literal,
    Node.CHARACTER: Expressions._literal,
    Node.BOOLEAN: Expressions._literal,
    Node.NULL_POINTER: Expressions._null,
    Node.GNU_NULL: Expressions._null,
    Node.SIZE: Expressions._size,
    Node.UNEXPOSED: Expressions._unexposed,
    Node.PARENTHESES: Expressions._unexposed,
    Node.NAME: Expressions._name,
    Node.THIS: Expressions._this,
    Node.MEMBER: Expressions._member,
    Node.SUBSCRIPT: Expressions._subscript,
    Node.UNARY: Expressions._unary,
    Node.BINARY: Expressions._binary,
    Node.COMPOUND_ASSIGN: Expressions._compound,
    Node.CONDITIONAL: Expressions._conditional,
    Node.C_CAST: Expressions._cast,
    Node.STATIC_CAST: Expressions._cast,
    Node.DYNAMIC_CAST: Expressions._cast,
    Node.REINTERPRET_CAST: Expressions._cast,
    Node.CONST_CAST: Expressions._cast,
    Node.FUNCTIONAL_CAST: Expressions._cast,
    Node.INITIALISERS: Expressions._initialisers,
    Node.COMPOUND_LITERAL: Expressions._compound_literal,
}


def lowers(kind: int, lower: Callable[..., Expression]) -> None:
    """Registers a function that lowers a kind of expression, for modules that import this one."""
    _VALUES[kind] = lower
    _IN_FUNCTIONS.add(kind)


_IN_FUNCTIONS: set[int] = set()
"""Kinds of expressions that only statements of a function may hold: calls, lambdas."""


class _Constants(Expressions):
    """The values of variables of the file: nothing in them is called."""

    def place_of(self, node: int) -> Expression:
        """A call is a value that is not known."""
        return self.unknown(node) if self.tree.kind[node] in _IN_FUNCTIONS else super().place_of(node)


def constant_value(source: Source, number_of: int) -> Expression | None:
    """The value of a variable of the file, where it stands in the source."""
    declared = source.syntax.declarations[number_of]
    if not declared.flags & DEFINED or declared.definition < 0:
        return None
    tree = source.tree(declared.definition, 4 * MOST_TABLE)
    if tree is None or tree.kind[0] != Node.VARIABLE or not tree.operation[0] or tree.depth() > 50:
        return None
    scope = _Constants(source, tree)
    made = scope.value(tree.children(0)[-1])
    return None if scope.out or scope.pending or isinstance(made, Unknown) else made


def truth_of(made: Expression, kind: int, pointer: bool) -> Expression:
    """A value as a condition: comparisons are one, numbers are compared with 0."""
    if kind == TypeKind.BOOLEAN or isinstance(made, Unknown):
        return made
    if isinstance(made, Operation) and made.operator in _TRUE_OPERATORS:
        return made
    if isinstance(made, Constant) and isinstance(made.value, int):
        return Constant(bool(made.value), Kind.BOOLEAN)
    if pointer:
        return Operation("!=", (made, NULL))
    return Operation(
        "!=", (made, Constant(0.0, Kind.FLOAT) if TypeKind.FLOAT <= kind <= TypeKind.LONG_DOUBLE else ZERO)
    )


def number(made: Constant) -> Constant:
    """A constant as a floating-point number."""
    return Constant(float(made.value), Kind.FLOAT) if isinstance(made.value, int | float) else made


def negated(made: Expression) -> Expression:
    """A value with the other sign."""
    if isinstance(made, Constant) and isinstance(made.value, int | float) and not isinstance(made.value, bool):
        return Constant(-made.value, made.kind if made.kind is Kind.FLOAT else Kind.INTEGER)
    return Operation("neg", (made,))


def added(first: Expression, second: Expression) -> Expression:
    """A sum of two indices, without zeros."""
    if first == ZERO:
        return second
    if second == ZERO:
        return first
    return Operation("+", (first, second))


def combined(operator: str, left: Expression, right: Expression, pointer: bool) -> Expression:
    """A binary operator on two values; a sum with an element's address is the address of another element."""
    if operator == "+" and isinstance(right, AddressOf) and not isinstance(left, AddressOf):
        left, right = right, left
    if operator in ("+", "-") and isinstance(left, AddressOf) and not isinstance(right, AddressOf):
        place = left.operand
        if isinstance(place, Subscript):
            moved = added(place.indices[-1], right if operator == "+" else negated(right))
            return AddressOf(Subscript(place.base, (*place.indices[:-1], moved)))
    if pointer and operator in ("+", "-") and isinstance(left, Operation) and left.operator == "+":
        base, offset = left.operands
        if operator == "+":
            return Operation("+", (base, Operation("+", (offset, right))))
    return Operation(operator, (left, right))


def pointee(pointer: Expression) -> Expression:
    """The object that a pointer points at, as an expression."""
    match pointer:
        case AddressOf(operand=operand):
            return operand
        case Operation(operator="+", operands=(base, offset)) if not isinstance(base, Constant):
            return Subscript(base, (offset,))
        case Operation(operator="-", operands=(base, offset)):
            return Subscript(base, (negated(offset),))
    return Subscript(pointer, (ZERO,))


def subscripted(base: Expression, index: Expression, rows: bool) -> Expression:
    """An element of an array or behind a pointer. `rows`: the base is itself an element and an array."""
    match base:
        case AddressOf(operand=Subscript(base=array, indices=indices)):
            return Subscript(array, (*indices[:-1], added(indices[-1], index)))
        case Subscript(base=array, indices=indices) if rows:
            return Subscript(array, (*indices, index))
        case Operation(operator="+", operands=(array, offset)) if not isinstance(array, Constant):
            return Subscript(array, (added(offset, index),))
    return Subscript(base, (index,))


def fits(value: int, kind: Type) -> bool:
    """Whether an integer type has a value."""
    if not isinstance(kind, ScalarType) or not kind.bytes:
        return False
    if kind.unsigned:
        return 0 <= value < 1 << 8 * kind.bytes
    return -(1 << (8 * kind.bytes - 1)) <= value < 1 << (8 * kind.bytes - 1)


def divided(size: Expression, element_bytes: int) -> Expression:
    """A size in bytes as a number of elements."""
    if element_bytes == 1:
        return size
    if isinstance(size, Constant) and isinstance(size.value, int) and size.value % element_bytes == 0:
        return Constant(size.value // element_bytes)
    if isinstance(size, Operation) and size.operator == "*":
        left, right = size.operands
        if right == Constant(element_bytes):
            return left
        if left == Constant(element_bytes):
            return right
        if isinstance(left, Operation) and left.operator == "*":
            inner = divided(left, element_bytes)
            if not (isinstance(inner, Operation) and inner.operator == "/"):
                return Operation("*", (inner, right))
    return Operation("/", (size, Constant(element_bytes)))
