"""The standard library of C and C++: members of containers, and algorithms as the loops that they are.

The module is long for one class, which has a method for each kind of member and algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from foretrace.tracer.source.form.records import (
    AddressOf,
    Assign,
    Branch,
    Call,
    Constant,
    Expression,
    Kind,
    Loop,
    LoopKind,
    Member,
    Name,
    Operation,
    ScalarType,
    Statement,
    Subscript,
    Variable,
)
from foretrace.tracer.source.form.text import expression_text

from .expressions import Expressions, added, combined, divided, subscripted, truth_of
from .scope import INDEX, ONE, ZERO
from .syntax import Declaration, Node, Tree, TypeKind


class StandardCalls(Expressions):
    """Lowers expressions; a subclass provides the further operations that calls of standard functions need."""

    allocation_type: int = -1
    """The type of the pointer that an allocation's result is assigned to; -1: not known."""

    def lambda_function(self, node: int) -> str:
        """The name of a lambda that becomes a function of its own."""
        raise NotImplementedError

    def applied(self, node: int, tree: Tree, function: int, arguments: list[Expression]) -> Expression | None:
        """The result of a function whose body is inlined; None if it is not."""
        raise NotImplementedError

    def allocated(self, node: int, name: str, operands: list[int], pointer: int) -> Expression:
        """The result of an allocation."""
        raise NotImplementedError

    def place_or_value(self, operand: int) -> Expression:
        """An argument of a function that is inlined."""
        made = self.whole(operand)
        if isinstance(made, Call) and not made.pure:
            return self.kept(operand, made, self.types.form(self.converted_type(operand)))
        return made


def method(
    lowering: StandardCalls, node: int, name: str, kind: int, base: int, operands: list[int]
) -> Expression | None:
    """Lower a call of a standard class's member function; None if the function is unknown."""
    types = lowering.types
    standard = types.standard(kind)
    if standard in ("atomic", "__atomic_base"):
        return _atomic(lowering, node, name, base, operands)
    if standard in ("complex",) and name in ("real", "imag") and not operands:
        return Call(name, (lowering.object(base),))
    if standard in ("unique_ptr", "shared_ptr") and name == "get":
        return lowering.value(base)
    if not types.is_container(kind):
        return None
    object_ = lowering.object(base)
    length = Call("size", (object_,))
    match name, len(operands):
        case (("size" | "length"), 0):
            return length
        case "empty", 0:
            return Operation("==", (length, ZERO))
        case (("data" | "begin" | "cbegin" | "c_str"), 0):
            return AddressOf(Subscript(object_, (ZERO,)))
        case (("end" | "cend"), 0):
            return AddressOf(Subscript(object_, (length,)))
        case "at", 1:
            return subscripted(object_, lowering.value(operands[0]), types.is_array(kind))
        case "front", 0:
            return Subscript(object_, (ZERO,))
        case "back", 0:
            return Subscript(object_, (Operation("-", (length, ONE)),))
        case (("push_back" | "emplace_back"), 1) if isinstance(object_, Name | Member):
            length_so_far = Name(f"%length.{expression_text(object_)}")
            lowering.variables.setdefault(length_so_far.name, Variable(INDEX))
            lowering.assign(node, Subscript(object_, (length_so_far,)), lowering.value(operands[0]))
            lowering.assign(node, length_so_far, Operation("+", (length_so_far, ONE)))
            return Call(name, (object_,), pure=False)
        case (("push_back" | "emplace_back" | "resize" | "assign" | "insert" | "erase" | "swap"), _):
            arguments = tuple(lowering.value(operand) for operand in operands)
            return Call(name, (object_, *arguments), pure=False)
        case "fill", 1:
            return _filled(lowering, node, object_, length, lowering.value(operands[0]))
        case (("sum" | "min" | "max"), 0):
            return Call({"sum": "sum", "min": "minval", "max": "maxval"}[name], (object_,))
    return None


def _atomic(lowering: StandardCalls, node: int, name: str, base: int, operands: list[int]) -> Expression | None:
    target = lowering.object(base)
    if name in ("load", "operator int"):
        return target
    if name == "store" and operands:
        lowering.out.append(Assign(lowering.place(node), target, lowering.value(operands[0]), atomic=True))
        return ZERO
    if name in ("fetch_add", "fetch_sub") and operands:
        before = lowering.kept(node, target, lowering.types.form(lowering.tree.type[node]))
        operator = "+" if name == "fetch_add" else "-"
        value = Operation(operator, (target, lowering.value(operands[0])))
        lowering.out.append(Assign(lowering.place(node), target, value, atomic=True))
        return before
    return None


def function(lowering: StandardCalls, node: int, declared: Declaration, operands: list[int]) -> Expression | None:
    """Lower a call of a standard library function; None if the function is unknown."""
    name = declared.name
    operands = [operand for operand in operands if lowering.tree.kind[operand] != Node.UNEXPOSED
                or lowering.tree.value[operand] is not None or lowering.tree.end[operand] > operand + 1]  # fmt: skip
    if declared.full_name.startswith("std::"):
        made = _ALGORITHMS.get(name)
        if made is not None:
            unordered = bool(operands) and "execution" in _spelling(lowering, operands[0])
            return made(_Algorithm(lowering, node, unordered), operands[1:] if unordered else operands)
        if name in ("move", "forward", "as_const", "ref", "cref") and len(operands) == 1:
            return lowering.whole(operands[0])
        if name in ("begin", "end", "cbegin", "cend", "size", "data") and len(operands) == 1:
            return _range_function(lowering, name, operands[0])
        if name == "swap" and len(operands) == 2:
            return _swapped(lowering, node, operands)
        if name in ("advance", "next", "prev", "distance"):
            return _iterator_function(lowering, node, name, operands)
        if name in ("min", "max") and len(operands) == 1:
            values = lowering.value(operands[0])
            if isinstance(values, Call) and values.function == "array":
                return Call(name, values.arguments)
    if name in ("memcpy", "memmove", "memset", "bzero") and len(operands) >= 2:
        return _memory(lowering, node, name, operands)
    if name in ("malloc", "calloc", "realloc", "aligned_alloc", "alloca", "_mm_malloc"):
        return lowering.allocated(node, name, operands, lowering.allocation_type)
    if name in ("free", "_mm_free"):
        return Call("free", tuple(lowering.value(operand) for operand in operands), pure=False)
    return None


def _spelling(lowering: StandardCalls, node: int) -> str:
    kind = lowering.types.bare(lowering.tree.type[node])
    return lowering.types[kind].spelling if kind >= 0 else ""


def _range_function(lowering: StandardCalls, name: str, operand: int) -> Expression | None:
    kind = lowering.tree.type[operand]
    types = lowering.types
    if not types.is_container(kind) and not types.is_array(kind):
        return None
    object_ = lowering.place_of(operand)
    if name in ("begin", "cbegin", "data"):
        return AddressOf(Subscript(object_, (ZERO,)))
    length = types[types.bare(kind)].length
    count: Expression = Constant(length) if length >= 0 else Call("size", (object_,))
    return count if name == "size" else AddressOf(Subscript(object_, (count,)))


def _iterator_function(lowering: StandardCalls, node: int, name: str, operands: list[int]) -> Expression | None:
    if not operands or not lowering.types.is_pointer(lowering.tree.type[operands[0]]):
        return None
    first = lowering.place_or_value(operands[0])
    more = lowering.value(operands[1]) if len(operands) > 1 else ONE
    if name == "distance":
        return _length(first, more)
    moved = combined("-" if name == "prev" else "+", first, more, True)
    if name != "advance":
        return moved
    lowering.assign(node, first, moved)
    return ZERO


def _swapped(lowering: StandardCalls, node: int, operands: list[int]) -> Expression:
    first, second = (lowering.place_or_value(operand) for operand in operands)
    old = lowering.temporary(lowering.types.form(lowering.tree.type[operands[0]]))
    lowering.assign(node, old, first)
    lowering.assign(node, first, second)
    lowering.assign(node, second, old)
    return ZERO


def _filled(
    lowering: StandardCalls, node: int, object_: Expression, count: Expression, value: Expression
) -> Expression:
    index = lowering.temporary(INDEX)
    store = Assign(lowering.place(node), Subscript(object_, (index,)), value)
    lowering.out.append(counted(lowering, node, index, count, (store,)))
    return ZERO


def counted(
    lowering: StandardCalls,
    node: int,
    index: Name,
    count: Expression,
    body: tuple[Statement, ...],
    unordered: bool = False,
    label: str = "",
    synthetic: bool = True,
) -> Loop:
    """A loop of an index from 0 to a number of iterations, less one."""
    last = Constant(count.value - 1) if isinstance(count, Constant) and isinstance(count.value, int) else \
        Operation("-", (count, ONE))  # fmt: skip
    return Loop(lowering.place(node), LoopKind.COUNTED, body, index.name, ZERO, last, unordered=unordered,
                synthetic=synthetic, label=label)  # fmt: skip


def _memory(lowering: StandardCalls, node: int, name: str, operands: list[int]) -> Expression | None:
    """memcpy and memset as loops over the elements of the array they write."""
    tree, types = lowering.tree, lowering.types
    kind = tree.type[operands[0]]
    element = types[types.bare(kind)].inner if kind >= 0 else -1
    while element >= 0 and types.is_array(element) and types[element].inner >= 0:
        element = types[element].inner
    size_bytes = types[element].bytes if element >= 0 else 0
    if size_bytes <= 0 or types.kind(element) == TypeKind.VOID:
        return None
    if name == "memset":
        filled = lowering.value(operands[1])
        if filled != ZERO and size_bytes != 1:
            return None
        value: Expression = Constant(0.0, Kind.FLOAT) if types.is_floating(element) else filled
    else:
        value = ZERO
    target = lowering.value(operands[0])
    source = lowering.value(operands[1]) if name in ("memcpy", "memmove") else ZERO
    count = divided(lowering.value(operands[1 if name == "bzero" else 2]), size_bytes)
    if types.is_class(element) and name != "memcpy":
        return None
    index = lowering.temporary(INDEX)
    if name in ("memcpy", "memmove"):
        value = subscripted(source, index, False)
    store = Assign(lowering.place(node), subscripted(target, index, False), value)
    lowering.out.append(counted(lowering, node, index, count, (store,)))
    return target


def _length(first: Expression, last: Expression) -> Expression:
    """The number of elements from one iterator to another."""
    match first, last:
        case (
            AddressOf(operand=Subscript(base=start, indices=starts)),
            AddressOf(operand=Subscript(base=end, indices=ends)),
        ) if start == end and starts[:-1] == ends[:-1]:
            return _difference(ends[-1], starts[-1])
    if isinstance(last, Operation) and last.operator == "+":
        if last.operands[0] == first:
            return last.operands[1]
        if isinstance(first, Operation) and first.operator == "+" and first.operands[0] == last.operands[0]:
            return _difference(last.operands[1], first.operands[1])
    if isinstance(last, AddressOf) and isinstance(last.operand, Subscript) and last.operand.base == first:
        return last.operand.indices[-1]
    return Operation("-", (last, first))


def _difference(last: Expression, first: Expression) -> Expression:
    if first == ZERO:
        return last
    if isinstance(last, Constant) and isinstance(first, Constant):
        return Constant(last.value - first.value)  # type: ignore[operator]
    if isinstance(last, Operation) and last.operator == "+" and last.operands[0] == first:
        return last.operands[1]
    return Operation("-", (last, first))


@dataclass
class _Algorithm:
    """An algorithm over iterators, on its way to a loop."""

    lowering: StandardCalls
    node: int
    unordered: bool

    def range(self, first: int, last: int) -> tuple[Expression, Expression]:
        """The first element's address and the number of elements."""
        start, end = self.lowering.value(first), self.lowering.value(last)
        return start, _length(start, end)

    def at(self, pointer: Expression, index: Expression) -> Expression:
        """The element that a pointer points at."""
        return subscripted(pointer, index, False)

    def applied(self, function: int, arguments: list[Expression]) -> Expression:
        """The value of a function object for some arguments."""
        lowering = self.lowering
        tree = lowering.tree
        known = tree.declaration[function]
        while tree.kind[function] == Node.CALL and len(tree.children(function)) == 1:
            inner = tree.children(function)[0]
            if tree.kind[inner] not in (Node.LAMBDA, Node.NAME, Node.CALL):
                break
            function = inner
            known = tree.declaration[function]
        made: Expression | None = None
        if tree.kind[function] == Node.LAMBDA:
            made = lowering.applied(function, tree, function, arguments)
            if made is None:
                name = lowering.lambda_function(function)
                return lowering.kept(self.node, Call(name, tuple(arguments), pure=False), INDEX)
        elif known in lowering.lambdas:
            holder, place = lowering.lambdas[known]
            made = lowering.applied(function, holder, place, arguments)
        if made is not None:
            return made
        operator = _FUNCTION_OBJECTS.get(_function_object(lowering, function))
        if operator and len(arguments) == 2:
            return Operation(operator, tuple(arguments))
        name = lowering.declared(known).full_name if known >= 0 else lowering.words(function)[:40] or "%function"
        return lowering.kept(self.node, Call(name, tuple(arguments), pure=False), lowering.types.form(-1))

    def loop(self, count: Expression, index: Name, body: list[Statement]) -> None:
        """Adds the loop."""
        lowering = self.lowering
        lowering.out.append(counted(lowering, self.node, index, count, tuple(body), self.unordered))

    def element_type(self, pointer: int) -> int:
        """Type of the element that an iterator points at."""
        types = self.lowering.types
        kind = types.bare(self.lowering.converted_type(pointer))
        if kind < 0:
            return -1
        if types.kind(kind) == TypeKind.POINTER:
            return types[kind].inner
        argument = types[kind].argument
        return types[argument].inner if argument >= 0 and types.kind(argument) == TypeKind.POINTER else argument


def _function_object(lowering: StandardCalls, node: int) -> str:
    spelling = _spelling(lowering, node)
    return spelling.removeprefix("const ").removeprefix("std::").split("<")[0]


_FUNCTION_OBJECTS = {
    "plus": "+", "minus": "-", "multiplies": "*", "divides": "/", "modulus": "%", "less": "<", "greater": ">",
    "less_equal": "<=", "greater_equal": ">=", "equal_to": "==", "logical_and": "and", "logical_or": "or",
    "bit_and": "&", "bit_or": "|", "bit_xor": "^",
}  # fmt: skip


def _for_each(a: _Algorithm, operands: list[int]) -> Expression | None:
    if len(operands) != 3:
        return None
    first, count = a.range(operands[0], operands[1])
    index = a.lowering.temporary(INDEX)
    with a.lowering.block() as body:
        a.applied(operands[2], [a.at(first, index)])
    a.loop(count, index, body)
    return ZERO


def _transform(a: _Algorithm, operands: list[int]) -> Expression | None:
    if len(operands) not in (4, 5):
        return None
    first, count = a.range(operands[0], operands[1])
    more = [a.lowering.value(operand) for operand in operands[2:-1]]
    index = a.lowering.temporary(INDEX)
    with a.lowering.block() as body:
        inputs = [a.at(first, index), *(a.at(pointer, index) for pointer in more[:-1])]
        value = a.applied(operands[-1], inputs)
        a.lowering.assign(a.node, a.at(more[-1], index), value)
    a.loop(count, index, body)
    return combined("+", more[-1], count, True)


def _accumulate(a: _Algorithm, operands: list[int]) -> Expression | None:
    if not 2 <= len(operands) <= 4:
        return None
    lowering = a.lowering
    first, count = a.range(operands[0], operands[1])
    total = lowering.temporary(lowering.types.form(lowering.tree.type[a.node]))
    lowering.assign(a.node, total, lowering.value(operands[2]) if len(operands) > 2 else ZERO)
    index = lowering.temporary(INDEX)
    with lowering.block() as body:
        element = a.at(first, index)
        value = a.applied(operands[3], [total, element]) if len(operands) == 4 else Operation("+", (total, element))
        lowering.assign(a.node, total, value)
    a.loop(count, index, body)
    return total


def _inner_product(a: _Algorithm, operands: list[int]) -> Expression | None:
    if len(operands) not in (4, 6):
        return None
    lowering = a.lowering
    first, count = a.range(operands[0], operands[1])
    second = lowering.value(operands[2])
    total = lowering.temporary(lowering.types.form(lowering.tree.type[a.node]))
    lowering.assign(a.node, total, lowering.value(operands[3]))
    index = lowering.temporary(INDEX)
    with lowering.block() as body:
        pair = [a.at(first, index), a.at(second, index)]
        product = a.applied(operands[5], pair) if len(operands) == 6 else Operation("*", tuple(pair))
        value = a.applied(operands[4], [total, product]) if len(operands) == 6 else Operation("+", (total, product))
        lowering.assign(a.node, total, value)
    a.loop(count, index, body)
    return total


def _copy(a: _Algorithm, operands: list[int]) -> Expression | None:
    if len(operands) != 3 or not a.lowering.types.is_pointer(a.lowering.converted_type(operands[2])):
        return None
    first, count = a.range(operands[0], operands[1])
    return _copied(a, first, count, a.lowering.value(operands[2]))


def _copy_n(a: _Algorithm, operands: list[int]) -> Expression | None:
    if len(operands) != 3:
        return None
    first, count = a.lowering.value(operands[0]), a.lowering.value(operands[1])
    return _copied(a, first, count, a.lowering.value(operands[2]))


def _copied(a: _Algorithm, first: Expression, count: Expression, target: Expression) -> Expression:
    index = a.lowering.temporary(INDEX)
    with a.lowering.block() as body:
        a.lowering.assign(a.node, a.at(target, index), a.at(first, index))
    a.loop(count, index, body)
    return combined("+", target, count, True)


def _copy_if(a: _Algorithm, operands: list[int]) -> Expression | None:
    if len(operands) != 4 or not a.lowering.types.is_pointer(a.lowering.converted_type(operands[2])):
        return None
    lowering = a.lowering
    first, count = a.range(operands[0], operands[1])
    target = lowering.value(operands[2])
    index, kept = lowering.temporary(INDEX), lowering.temporary(INDEX)
    lowering.assign(a.node, kept, ZERO)
    with lowering.block() as body:
        condition = a.applied(operands[3], [a.at(first, index)])
        with lowering.block() as taken:
            lowering.assign(a.node, a.at(target, kept), a.at(first, index))
            lowering.assign(a.node, kept, Operation("+", (kept, ONE)))
        lowering.out.append(Branch(lowering.place(a.node), condition, tuple(taken)))
    a.loop(count, index, body)
    return combined("+", target, kept, True)


def _fill(a: _Algorithm, operands: list[int]) -> Expression | None:
    if len(operands) != 3:
        return None
    first, count = a.range(operands[0], operands[1])
    return _set(a, first, count, a.lowering.value(operands[2]))


def _fill_n(a: _Algorithm, operands: list[int]) -> Expression | None:
    if len(operands) != 3:
        return None
    first = a.lowering.value(operands[0])
    return _set(a, first, a.lowering.value(operands[1]), a.lowering.value(operands[2]))


def _set(a: _Algorithm, first: Expression, count: Expression, value: Expression) -> Expression:
    index = a.lowering.temporary(INDEX)
    with a.lowering.block() as body:
        a.lowering.assign(a.node, a.at(first, index), value)
    a.loop(count, index, body)
    return combined("+", first, count, True)


def _iota(a: _Algorithm, operands: list[int]) -> Expression | None:
    if len(operands) != 3:
        return None
    first, count = a.range(operands[0], operands[1])
    value = a.lowering.value(operands[2])
    index = a.lowering.temporary(INDEX)
    with a.lowering.block() as body:
        a.lowering.assign(a.node, a.at(first, index), added(value, index))
    a.loop(count, index, body)
    return ZERO


def _scan(a: _Algorithm, operands: list[int]) -> Expression | None:
    if len(operands) not in (3, 4):
        return None
    lowering = a.lowering
    first, count = a.range(operands[0], operands[1])
    target = lowering.value(operands[2])
    total = lowering.temporary(lowering.types.form(a.element_type(operands[0])))
    index = lowering.temporary(INDEX)
    if len(operands) == 3:
        lowering.assign(a.node, total, ZERO)
    with lowering.block() as body:
        element = a.at(first, index)
        if len(operands) == 4:
            later = a.applied(operands[3], [total, element])
            start = Operation("==", (index, ZERO))
            lowering.assign(a.node, total, Operation("select", (start, element, later)))
        else:
            lowering.assign(a.node, total, Operation("+", (total, element)))
        lowering.assign(a.node, a.at(target, index), total)
    a.loop(count, index, body)
    return combined("+", target, count, True)


def _extreme(operator: str) -> Callable[[_Algorithm, list[int]], Expression | None]:
    def extreme(a: _Algorithm, operands: list[int]) -> Expression | None:
        if len(operands) not in (2, 3):
            return None
        lowering = a.lowering
        first, count = a.range(operands[0], operands[1])
        index, best = lowering.temporary(INDEX), lowering.temporary(INDEX)
        lowering.assign(a.node, best, ZERO)
        kind = lowering.types.form(a.element_type(operands[0]))
        known: Expression = a.at(first, best)
        if isinstance(kind, ScalarType):
            known = lowering.temporary(kind)
            lowering.assign(a.node, known, a.at(first, ZERO))
        with lowering.block() as body:
            element = a.at(first, index)
            pair = [element, known]
            if len(operands) == 3:
                better = a.applied(operands[2], pair if operator == "<" else pair[::-1])
            else:
                better = Operation(operator, tuple(pair))
            place = lowering.place(a.node)
            taken = [Assign(place, best, index)]
            if known != a.at(first, best):
                taken.insert(0, Assign(place, known, element))
            lowering.out.append(Branch(place, better, tuple(taken)))
        a.loop(count, index, body)
        return AddressOf(a.at(first, best))

    return extreme


def _count(a: _Algorithm, operands: list[int], applied: bool = False) -> Expression | None:
    if len(operands) != 3:
        return None
    lowering = a.lowering
    first, count = a.range(operands[0], operands[1])
    index, found = lowering.temporary(INDEX), lowering.temporary(INDEX)
    wanted = ZERO if applied else lowering.value(operands[2])
    lowering.assign(a.node, found, ZERO)
    with lowering.block() as body:
        element = a.at(first, index)
        condition = a.applied(operands[2], [element]) if applied else Operation("==", (element, wanted))
        condition = truth_of(condition, TypeKind.BOOLEAN, False)
        plus = Assign(lowering.place(a.node), found, Operation("+", (found, ONE)))
        lowering.out.append(Branch(lowering.place(a.node), condition, (plus,)))
    a.loop(count, index, body)
    return found


def _count_if(a: _Algorithm, operands: list[int]) -> Expression | None:
    return _count(a, operands, applied=True)


def _sort(a: _Algorithm, operands: list[int]) -> Expression | None:
    pointers = [a.lowering.value(operand) for operand in operands[:2]]
    return Call("sort", tuple(pointers), pure=False)


_ALGORITHMS: dict[str, Callable[[_Algorithm, list[int]], Expression | None]] = {
    "for_each": _for_each, "transform": _transform, "accumulate": _accumulate, "reduce": _accumulate,
    "inner_product": _inner_product, "transform_reduce": _inner_product, "copy": _copy, "copy_n": _copy_n,
    "copy_if": _copy_if, "fill": _fill, "fill_n": _fill_n, "iota": _iota, "partial_sum": _scan, "inclusive_scan": _scan,
    "min_element": _extreme("<"), "max_element": _extreme(">"), "count": _count, "count_if": _count_if,
    "sort": _sort, "stable_sort": _sort,
}  # fmt: skip
