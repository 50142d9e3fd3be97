"""Calls: operators and members of standard classes, inlined functions, pure functions, and the rest."""

from __future__ import annotations

import re
from collections.abc import Sequence

from foretrace.tracer.source.form.records import (
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
    Subscript,
)  # fmt: skip

from . import standard
from .expressions import (
    combined,
    divided,
    lowers,
    negated,
    pointee,
    subscripted,
)
from .form_types import VIEWS
from .scope import MOST_INLINED_DEPTH, ONE, ZERO, is_system
from .syntax import (
    FUNCTION_KINDS,
    STATIC_METHOD,
    VIRTUAL,
    Declaration,
    Node,
    Tree,
    Unary,
)

PURE = {
    name: intrinsic
    for intrinsic, names_of in {
        "abs": "abs fabs labs llabs fabsf fabsl cabs cabsf", "sqrt": "sqrt sqrtf sqrtl csqrt",
        "exp": "exp expf expl cexp",
        "log": "log logf logl clog", "log2": "log2 log2f log2l", "log10": "log10 log10f log10l",
        "sin": "sin sinf sinl", "cos": "cos cosf cosl", "tan": "tan tanf tanl", "asin": "asin asinf asinl",
        "acos": "acos acosf acosl", "atan": "atan atanf atanl", "atan2": "atan2 atan2f atan2l",
        "sinh": "sinh sinhf sinhl", "cosh": "cosh coshf coshl", "tanh": "tanh tanhf tanhl", "pow": "pow powf powl cpow",
        "min": "min fmin fminf fminl", "max": "max fmax fmaxf fmaxl", "floor": "floor floorf floorl",
        "ceil": "ceil ceilf ceill", "trunc": "trunc truncf truncl", "mod": "fmod fmodf fmodl",
        "round": "rint rintf nearbyint nearbyintf", "sign": "copysign copysignf copysignl", "fma": "fma fmaf fmal",
        "conj": "conj conjf", "real": "creal crealf real", "imag": "cimag cimagf imag",
    }.items()
    for name in names_of.split()
}  # fmt: skip
"""Functions of C's and C++'s library that have an intrinsic's meaning."""
PURE_AS_THEY_ARE = frozenset({
    "round", "roundf", "cbrt", "cbrtf", "hypot", "hypotf", "exp2", "exp2f", "expm1", "log1p", "erf", "erff", "erfc",
    "tgamma", "lgamma", "ldexp", "isnan", "isinf", "isfinite", "signbit", "norm", "arg", "polar", "lround", "lrint",
    "strlen", "strcmp", "strncmp", "memcmp", "toupper", "tolower", "isdigit", "isalpha", "isspace", "isalnum",
    "isupper", "islower", "__builtin_expect", "__builtin_popcount", "__builtin_popcountl", "__builtin_popcountll",
    "__builtin_clz", "__builtin_clzl", "__builtin_clzll", "__builtin_ctz", "__builtin_ctzl", "__builtin_ctzll",
    "omp_get_thread_num", "omp_get_num_threads", "omp_get_max_threads",
})  # fmt: skip
LEAVING = frozenset({"exit", "abort", "_exit", "quick_exit", "longjmp", "__assert_fail", "terminate", "_Exit"})
_BINARY = {
    f"operator{operator}": operator
    for operator in ("+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "<", "<=", "==", "!=", ">", ">=")
}
_BINARY |= {"operator&&": "and", "operator||": "or"}
_COMPOUND = {f"operator{operator}=": operator for operator in ("+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^")}
_NUMERIC = frozenset({"complex", "valarray", "_Expr", "atomic", "__atomic_base"})


class Calls(standard.StandardCalls):
    """Lowers calls."""

    def _call(self, node: int) -> Expression:
        tree = self.tree
        children = tree.children(node)
        callee = tree.declaration[node]
        if callee < 0:
            return self._unknown_callee(node, children)
        declared = self.declared(callee)
        if declared.kind == Node.CONSTRUCTOR:
            return self._constructed(node, declared, children)
        if declared.kind not in FUNCTION_KINDS:
            return self._called_value(node, callee, children)
        function, operands = -1, children
        for place, child in enumerate(children):
            if tree.declaration[child] == callee and tree.kind[child] in (Node.NAME, Node.MEMBER):
                function = child
                operands = children[:place] + children[place + 1 :]
                break
        if function >= 0 and tree.kind[function] == Node.MEMBER:
            base = tree.children(function)
            return self._method(node, callee, declared, base[0] if base else -1, operands)
        if declared.kind == Node.CONVERSION:
            return self.value(operands[0]) if operands else self.unknown(node)
        if declared.name.startswith("operator") and operands:
            return self._operator(node, callee, declared, operands)
        return self._function(node, callee, declared, operands)

    # Kinds of callees

    def _unknown_callee(self, node: int, children: list[int]) -> Expression:
        tree = self.tree
        if not children:
            return self.unknown(node)
        first = children[0]
        if tree.kind[first] == Node.MEMBER:
            base = tree.children(first)
            object_ = self.object(base[0]) if base else self.this
            word = self._member_word(first)
            if word == "size" and len(children) == 1:
                return Call("size", (object_,))
            return Call(word, (object_, *self.arguments(children[1:])), pure=False)
        called = self.value(first)
        name = called.name if isinstance(called, Name) else self.words(first)
        return Call((re.match(r"[\w:.>-]*", name) or [""])[0] or "%unknown", self.arguments(children[1:]), pure=False)

    def _called_value(self, node: int, callee: int, children: list[int]) -> Expression:
        """A call through a variable: a pointer to a function, a member of a structure."""
        called = self.value(children[0]) if children else Name(self.declared(callee).name)
        while isinstance(called, Subscript) and called.indices == (ZERO,):
            called = called.base
        name = ".".join(_path(called)) or self.declared(callee).name
        return Call(name, self.arguments(children[1:]), pure=False)

    def _constructed(self, node: int, declared: Declaration, operands: list[int]) -> Expression:
        types = self.types
        kind = self.tree.type[node]
        if len(operands) == 1:
            same = types.bare(self.tree.type[operands[0]])
            bare = types.bare(kind)
            if same >= 0 and bare >= 0 and _unqualified(types[same].spelling) == _unqualified(types[bare].spelling):
                return self.whole(operands[0])
            if types.standard(kind) in ("complex", "atomic", "function", "reference_wrapper"):
                return self.value(operands[0])
            if types.is_pointer(kind) or types.standard(kind) in VIEWS:
                return self.value(operands[0])
        if types.standard(kind) == "complex":
            return Call("complex", tuple(self.value(operand) for operand in operands) or (Constant(0.0, Kind.FLOAT),))
        if types.is_container(kind):
            made = self.container(operands)
            if made is not None:
                return made
        name = types[types.bare(kind)].spelling if kind >= 0 else declared.full_name
        return Call(_unqualified(name), self.arguments(operands), pure=not operands)

    def container(self, operands: list[int]) -> Expression | None:
        """A new container: of n zeros, of some values, or a copy."""
        types = self.types
        real = [operand for operand in operands if not types.standard(self.tree.type[operand]).endswith("allocator")]
        if not real:
            return Call("zeros", (ZERO,))
        first = real[0]
        if types.is_integer(self.tree.type[first]) and len(real) <= 2:
            count = self.value(first)
            fill = self.value(real[1]) if len(real) == 2 else ZERO
            if isinstance(fill, Constant) and fill.value == 0:
                return Call("zeros", (count,))
            return Operation("+", (Call("zeros", (count,)), fill))
        if types.standard(self.tree.type[first]) == "initializer_list" or self.tree.kind[first] == Node.INITIALISERS:
            return self.value(first)
        return None

    def _method(self, node: int, callee: int, declared: Declaration, base: int, operands: list[int]) -> Expression:
        types = self.types
        if base >= 0 and is_system(declared):
            kind = self.tree.type[base]
            if types.is_pointer(kind) and not types.is_class(kind):
                kind = types[types.bare(kind)].inner
            made = standard.method(self, node, declared.name, kind, base, operands)
            if made is not None:
                return made
        if declared.flags & STATIC_METHOD:
            return self._function(node, callee, declared, operands)
        object_ = self.object(base) if base >= 0 else self.this
        inlined = self.inline(node, callee, object_, operands)
        if inlined is not None:
            return inlined
        return Call(declared.full_name, (object_, *self.arguments(operands)), pure=False)

    def _operator(self, node: int, callee: int, declared: Declaration, operands: list[int]) -> Expression:
        name = declared.name
        types = self.types
        first = self.tree.type[operands[0]]
        standard_class = types.standard(first)
        pointer = types.is_pointer(first)
        container = types.is_container(first) and is_system(declared)
        if name == "operator[]" and (container or pointer):
            return subscripted(self.value(operands[0]), self.value(operands[1]), types.is_array(first))
        if name == "operator()" and (standard_class in VIEWS):
            return Subscript(self.value(operands[0]), tuple(self.value(operand) for operand in operands[1:]))
        if pointer and is_system(declared):
            if name in ("operator*", "operator->") and len(operands) == 1:
                place = pointee(self.value(operands[0]))
                return self.address_of(place) if name == "operator->" else place
            if name in ("operator++", "operator--"):
                steps = {("operator++", 1): Unary.BEFORE_PLUS, ("operator--", 1): Unary.BEFORE_MINUS,
                         ("operator++", 2): Unary.AFTER_PLUS, ("operator--", 2): Unary.AFTER_MINUS}  # fmt: skip
                return self.stepped(node, self.place_of(operands[0]), steps[name, min(2, len(operands))])
        inlined = self.inline_operator(node, callee, declared, operands)
        if inlined is not None:
            return inlined
        numeric = pointer or standard_class in _NUMERIC or (
            len(operands) == 2 and types.standard(self.tree.type[operands[1]]) in _NUMERIC
        )  # fmt: skip
        if name == "operator=" and len(operands) == 2:
            return self.stored(node, operands[0], operands[1])
        if name in _COMPOUND and len(operands) == 2 and (numeric or not is_system(declared)):
            value = self.value(operands[1])
            target = self.place_of(operands[0])
            made = combined(_COMPOUND[name], target, value, pointer)
            self.out.append(Assign(self.place(node), target, made, atomic=standard_class == "atomic"))
            return target
        if name in _BINARY and len(operands) == 2 and numeric:
            return combined(_BINARY[name], self.value(operands[0]), self.value(operands[1]), pointer)
        if name == "operator-" and len(operands) == 1 and numeric:
            return negated(self.value(operands[0]))
        if name in ("operator++", "operator--") and standard_class == "atomic":
            target = self.place_of(operands[0])
            step = Operation(name[-1], (target, ONE))
            self.out.append(Assign(self.place(node), target, step, atomic=True))
            return target
        if name == "operator<<" and self.tree.kind[operands[0]] == Node.CALL:
            return self._printed(node, declared, operands)
        pure = name in _BINARY and name not in ("operator<<", "operator>>")
        arguments = self.arguments(operands) if not pure else tuple(self.value(operand) for operand in operands)
        return Call(declared.full_name, arguments, pure)

    def _printed(self, node: int, declared: Declaration, operands: list[int]) -> Expression:
        """`out << a << b`: one call with all that is written."""
        tree, written = self.tree, []
        while True:
            callee = tree.declaration[node]
            children = [child for child in tree.children(node) if tree.declaration[child] != callee
                        or tree.kind[child] != Node.NAME]  # fmt: skip
            if len(children) != 2 or callee < 0 or self.declared(callee).name != "operator<<":
                break
            written.append(children[1])
            node = children[0]
            if tree.kind[node] != Node.CALL:
                break
        return Call(declared.name, self.arguments([node, *reversed(written)]), pure=False)

    def _function(self, node: int, callee: int, declared: Declaration, operands: list[int]) -> Expression:
        name = declared.name
        library = is_system(declared) or declared.definition < 0
        if library:
            made = standard.function(self, node, declared, operands)
            if made is not None:
                return made
            if name in PURE and operands and not any(self.types.is_class(self.tree.type[o]) and
                                                     self.types.standard(self.tree.type[o]) != "complex"
                                                     for o in operands):  # fmt: skip
                return Call(PURE[name], tuple(self.value(operand) for operand in operands[:3]))
            if name in PURE_AS_THEY_ARE:
                values = tuple(self.value(operand) for operand in operands)
                return values[0] if name == "__builtin_expect" else Call(name, values)
        inlined = self.inline(node, callee, None, operands)
        if inlined is not None:
            return inlined
        full_name = name if name in self.source.assumed else declared.full_name
        return Call(full_name, self.arguments(operands), pure=False)

    # Arguments

    def arguments(self, operands: Sequence[int]) -> tuple[Expression, ...]:
        """Arguments of a call that may access the memory they reach: arrays by name, references as addresses."""
        mark = len(self.pending)
        made = [self.argument(operand) for operand in operands]
        return tuple(self.entered(operands[0], made, mark)) if made else ()

    def argument(self, operand: int) -> Expression:
        """One argument."""
        tree, types = self.tree, self.types
        kind = tree.type[operand]
        if types.is_array(kind) and tree.conversion[operand] >= 0:
            return self.place_of(operand)
        if tree.conversion[operand] < 0 and not types.is_class(kind):
            place = tree.kind[operand] in (Node.NAME, Node.MEMBER, Node.SUBSCRIPT)
            place = place or (tree.kind[operand] == Node.UNARY and tree.operation[operand] == Unary.POINTEE)
            made = self.place_of(operand)
            if isinstance(made, Call) and not made.pure:
                return self.kept(operand, made, types.form(kind))
            if place and isinstance(made, Name | Member | Subscript) and not types.is_array(kind):
                declared = tree.declaration[operand]
                if declared >= 0 and self.declared(declared).kind in FUNCTION_KINDS:
                    return made
                return self.address_of(made)
            return made
        return self.value(operand)

    # Inlining

    def inline_operator(self, node: int, callee: int, declared: Declaration, operands: list[int]) -> Expression | None:
        """An overloaded operator, if it is a small function of the user's, or a lambda."""
        if is_system(declared):
            return None
        if declared.kind == Node.METHOD:
            known = self.tree.declaration[operands[0]]
            if declared.name == "operator()" and known in self.lambdas:
                return self.inline_lambda(node, known, operands[1:])
            return self.inline(node, callee, self.value(operands[0]), operands[1:])
        return self.inline(node, callee, None, operands)

    def inline_lambda(self, node: int, known: int, operands: list[int]) -> Expression | None:
        """A call of a lambda that a variable holds."""
        tree, place = self.lambdas[known]
        mark = len(self.pending)
        arguments = [self.place_or_value(operand) for operand in operands]
        return self.applied(node, tree, place, self.entered(node, arguments, mark))

    def inline(self, node: int, callee: int, object_: Expression | None, operands: list[int]) -> Expression | None:
        """The value of a small function that returns an expression; None for other functions."""
        declared = self.declared(callee)
        definition = declared.definition
        if definition < 0 or is_system(declared) or declared.flags & VIRTUAL or declared.last_line - declared.line > 12:
            return None
        if definition in self.inlined or len(self.inlined) >= MOST_INLINED_DEPTH:
            return None
        tree = self.source.tree(definition)
        if tree is None or not _is_simple(tree, 0):
            return None
        place = self.place(node)
        mark = len(self.pending)
        arguments = [self.place_or_value(operand) for operand in operands]
        arguments = self.entered(node, arguments, mark)
        outer_this, outer_line = self.this, self.line_of_inlining
        self.inlined.append(definition)
        self.line_of_inlining = place
        if object_ is not None:
            self.this = object_
        try:
            return self.applied(node, tree, 0, arguments)
        finally:
            self.this, self.line_of_inlining = outer_this, outer_line
            self.inlined.pop()

    def applied(self, node: int, tree: Tree, function: int, arguments: list[Expression]) -> Expression | None:
        """A function's or lambda's body with its parameters bound to arguments; None: it is not simple enough."""
        if not _is_simple(tree, function):
            return None
        body, parameters = -1, []
        for child in tree.children(function):
            if tree.kind[child] == Node.PARAMETER:
                parameters.append(tree.declaration[child])
            elif tree.kind[child] == Node.BLOCK:
                body = child
        if body < 0 or len(arguments) > len(parameters):
            return None
        outer_tree, outer_end, outer_line = self.tree, self.block_end, self.line_of_inlining
        if self.line_of_inlining is None:
            self.line_of_inlining = self.place(node)
        self.tree, self.block_end = tree, tree.end[function]
        assigned = self.assigned_in(function, tree.end[function])
        saved = {parameter: self.bound.get(parameter) for parameter in parameters}
        try:
            for parameter, argument in zip(parameters, arguments, strict=False):
                declared = self.declared(parameter)
                reference = self.is_scalar_reference(declared.type) or self.types.is_class(declared.type)
                if parameter in assigned and not reference:
                    copy = self.temporary(self.types.form(declared.type))
                    self.assign(body, copy, argument)
                    argument = copy
                self.bound[parameter] = argument
            statements = [child for child in tree.children(body) if not _is_check(tree, child)]
            if not statements:
                return ZERO
            last = statements[-1]
            if tree.kind[last] == Node.RETURN:
                value = tree.children(last)
                return self.place_or_value(value[0]) if value else ZERO
            self.effects(last)
            return ZERO
        finally:
            self.tree, self.block_end, self.line_of_inlining = outer_tree, outer_end, outer_line
            for parameter, before in saved.items():
                if before is None:
                    self.bound.pop(parameter, None)
                else:
                    self.bound[parameter] = before

    # Memory from the system

    def _new(self, node: int) -> Expression:
        tree, types = self.tree, self.types
        inner = types[tree.type[node]].inner if tree.type[node] >= 0 else -1
        children = [child for child in tree.children(node) if tree.kind[child] != Node.CALL]
        if children and types.is_integer(tree.type[children[0]]) and tree.kind[children[0]] != Node.INITIALISERS:
            return Call("allocate", (self.value(children[0]),), pure=False)
        built = [self.value(child) for child in tree.children(node) if tree.kind[child] == Node.CALL]
        name = types[inner].spelling if inner >= 0 else "new"
        if not types.is_class(inner):
            return Call("allocate", (ONE,), pure=False)
        arguments = built[0].arguments if built and isinstance(built[0], Call) else tuple(built)
        return Call(f"new {_unqualified(name)}", arguments, pure=False)

    def _delete(self, node: int) -> Expression:
        return Call("free", self.arguments(self.tree.children(node)), pure=False)

    def allocated(self, node: int, name: str, operands: list[int], pointer: int) -> Expression:
        """A call of malloc or the like: a number of elements of the type that the receiving pointer points at."""
        if not operands:
            return self.unknown(node)
        if name == "calloc" and len(operands) == 2:
            return Call("allocate", (self.value(operands[0]),), pure=False)
        size = self.value(operands[-1 if name in ("realloc", "aligned_alloc") else 0])
        inner = self.types[self.types.bare(pointer)].inner if pointer >= 0 else -1
        element = self.types[inner].bytes if inner >= 0 else 0
        return Call("allocate", (divided(size, max(1, element)),), pure=False)


def _is_simple(tree: Tree, function: int) -> bool:
    """Whether a body is one statement that can stand in an expression's place."""
    body = -1
    for child in tree.children(function):
        if tree.kind[child] == Node.BLOCK:
            body = child
    if body < 0:
        return False
    statements = tree.children(body)
    for statement in statements[:-1]:
        if tree.kind[statement] not in (Node.CONDITIONAL, Node.EMPTY, Node.C_CAST, Node.STATIC_CAST):
            return False
    if not statements:
        return tree.kind[function] != Node.CONSTRUCTOR
    last = tree.kind[statements[-1]]
    if last != Node.RETURN and last >= Node.LABEL and last != Node.EMPTY:
        return False
    allowed = (Node.LABEL, Node.RETURN, Node.EMPTY)
    if any(kind >= Node.LABEL and kind not in allowed for kind in tree.kind[statements[0] : tree.end[body]]):
        return False
    return not any(kind in (Node.LAMBDA, Node.THROW) for kind in tree.kind[body : tree.end[body]])


def _is_check(tree: Tree, statement: int) -> bool:
    """Whether a node is an expanded `assert`, or another statement without effect."""
    return tree.kind[statement] in (Node.CONDITIONAL, Node.EMPTY, Node.C_CAST, Node.STATIC_CAST)


def _unqualified(spelling: str) -> str:
    return re.sub(r"^(?:const |volatile )+", "", spelling)


def _path(called: Expression) -> list[str]:
    match called:
        case Member(base=base, member=member):
            return [*_path(base), member]
        case Name(name=name):
            return [name]
        case Subscript(base=base) | AddressOf(operand=base) | Convert(operand=base):
            return _path(base)
    return []


lowers(Node.CALL, Calls._call)
lowers(Node.NEW, Calls._new)
lowers(Node.DELETE, Calls._delete)
