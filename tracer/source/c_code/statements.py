"""Statements of C and C++.

The module is long for one class, which has a method for each kind of statement.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from foretrace.tracer.source.form.records import (
    MOST_TEXT,
    ArrayType,
    Assign,
    Branch,
    Call,
    Constant,
    Evaluate,
    Expression,
    Function,
    Jump,
    JumpKind,
    Kind,
    Loop,
    LoopKind,
    Member,
    Name,
    Opaque,
    Operation,
    Place,
    PointerType,
    ScalarType,
    Statement,
    Storage,
    StructType,
    Subscript,
    Target,
    Unknown,
    Variable,
)  # fmt: skip
from foretrace.tracer.source.form.walk import names

from .calls import LEAVING, Calls
from .expressions import lowers, number
from .form_types import ARRAYS, REFERENCES
from .jumps import negation, without_continue
from .left_out import left_out, written_in
from .scope import INDEX, MOST_DEPTH, ZERO, Source
from .standard import counted
from .syntax import FUNCTION_KINDS, STATIC_METHOD, STORAGE_STATIC, Node, Tree, TypeKind

MOST_CHAINED = 48
"""Cases of a `switch` that are branches one inside the other; more become jumps."""


@dataclass
class _Breakable:
    """Target of a `break`: a loop ("": plain `break`), or a switch with the label after it."""

    label: str = ""
    used: bool = False


class Lowering(Calls):
    """Lowers one function."""

    def __init__(self, source: Source, tree: Tree) -> None:
        """A function of a file, by its tree."""
        super().__init__(source, tree)
        self.breakables: list[_Breakable] = []
        self.unordered_left = 0
        self._labels = 0
        self._deep = tree.depth() > MOST_DEPTH
        self._misread_heads: dict[int, str] = {}
        """Loops whose heads the parser did not understand, with reasons."""

    # Functions

    def function(self, number_of: int) -> Function:
        """The function that the tree is of."""
        declared = self.declared(number_of)
        parameters, body = self._header(0)
        if declared.parent >= 0 and declared.kind in FUNCTION_KINDS and not declared.flags & STATIC_METHOD:
            parent = self.declared(declared.parent)
            if parent.kind not in FUNCTION_KINDS and parent.name:
                parameters.insert(0, "this")
                self.variables["this"] = Variable(StructType(parent.full_name), Storage.PARAMETER)
        with self.block() as made:
            self._members_set(0)
            self.inside(body)
        result = None
        if declared.type >= 0 and self.types[declared.type].kind == TypeKind.FUNCTION:
            returned = self.types[declared.type].inner
            if self.types.kind(returned) != TypeKind.VOID and declared.kind not in (Node.CONSTRUCTOR, Node.DESTRUCTOR):
                result = self.types.form(returned)
        pattern = self.declared(declared.template).full_name if declared.template >= 0 else ""
        name = declared.full_name or "%unnamed"
        return Function(name, self.place(0), tuple(parameters), self.variables, tuple(made), result, pattern)

    def lambda_value(self, name: str, node: int) -> Function:
        """A lambda as a function of its own; it shares captured variables with the enclosing function."""
        parameters, body = self._header(node)
        with self.block() as made:
            self.inside(body)
        return Function(name, self.place(node), tuple(parameters), self.variables, tuple(made))

    def _header(self, node: int) -> tuple[list[str], int]:
        parameters, body = [], -1
        for child in self.tree.children(node):
            if self.tree.kind[child] == Node.PARAMETER:
                number_of = self.tree.declaration[child]
                parameters.append(self.name(number_of))
                if self.types.kind(self.declared(number_of).type) in ARRAYS:
                    self._rows_sized(parameters[-1], child)
            elif self.tree.kind[child] in (Node.BLOCK, Node.TRY):
                body = child
        return parameters, body

    def _rows_sized(self, name: str, node: int) -> None:
        """A parameter `double a[n][m]`: a pointer to rows of m elements."""
        variable = self.variables[name]
        rows = variable.type.element if isinstance(variable.type, PointerType) else None
        extents = [self.value(child) for child in self.tree.children(node)][::-1]
        if isinstance(rows, ArrayType) and None in rows.shape and len(extents) >= len(rows.shape):
            sized = msgspec.structs.replace(rows, shape=tuple(extents[-len(rows.shape) :]))
            self.variables[name] = msgspec.structs.replace(variable, type=PointerType(sized))

    def _members_set(self, node: int) -> None:
        """A constructor's list of members with their values."""
        children = self.tree.children(node)
        for child, value in pairwise(children):
            if self.tree.kind[child] == Node.MEMBER_REFERENCE and Node.UNEXPOSED <= self.tree.kind[value] < Node.LABEL:
                word = self.tree.declaration[child]
                declared = self.declared(word) if word >= 0 else None
                member = declared.name if declared else str(self.tree.value[child] or "%unknown")
                kind = self.member_type(declared.type) if declared else None
                made = self.whole(value)
                if not (isinstance(made, Call) and not made.arguments):
                    self.assign(value, Member(self.this, member, kind), made)
                self.flush()

    # Blocks

    def inside(self, node: int) -> None:
        """The statements of a block, or one statement."""
        if node < 0:
            return
        if self.tree.kind[node] != Node.BLOCK:
            self.statement(node)
            return
        outer, self.block_end = self.block_end, self.tree.end[node]
        self.statements(node, self.tree.children(node))
        self.block_end = outer

    def statements(self, block: int, children: list[int]) -> None:
        """Statements of a block, with opaque statements for the parts that the parser left out."""
        at = (self.tree.line[block], self.tree.column[block] + 1)
        for child in children:
            self._left_out(block, at, self._start_of(child))
            self.statement(child)
            at = max(at, self._end_of(child))
        line, column = self._end_of(block)
        self._left_out(block, at, (line, column - 1))

    # What the parser did not understand

    def _start_of(self, node: int) -> tuple[int, int]:
        return self.tree.starts()[node]

    def _end_of(self, node: int) -> tuple[int, int]:
        return self.tree.last_line[node], self.tree.last_column[node]

    def _left_out(self, block: int, first: tuple[int, int], last: tuple[int, int]) -> None:
        """Adds statements between two places that the parser dropped, as opaque ones."""
        if first >= last or self.line_of_inlining is not None or self.tree.file[block] != 0:
            return
        for place, text, reason in left_out(self.source, first, last):
            reads, writes = (
                tuple(Name(name) for name in sorted(set(found) & self.variables.keys()))
                for found in (_WORD.findall(text), written_in(text))
            )
            self.out.append(Opaque(place, text[:MOST_TEXT], reason, reads, writes, True))

    def _misread(self, node: int) -> str:
        """The part of a statement itself, not of those inside it, that the parser did not understand; "": none."""
        errors = self.source.errors
        if not errors or self.line_of_inlining is not None or self.tree.file[node] != 0:
            return ""
        tree = self.tree
        first, last = self._start_of(node), self._end_of(node)
        if tree.kind[node] in _LEAVES or tree.kind[node] < Node.LABEL:
            inside: list[tuple[tuple[int, int], tuple[int, int]]] = []
        else:
            inside = [
                (self._start_of(child), self._end_of(child)) for child in tree.children(node)
                if tree.kind[child] >= Node.LABEL and tree.kind[child] not in (Node.DECLARATIONS, Node.EMPTY)
            ]  # fmt: skip
        for position in range(bisect_left(errors, (*first, "")), len(errors)):
            *place, words = errors[position]
            here = (place[0], place[1])
            if here > last:
                break
            if not any(start <= here <= end for start, end in inside):
                return words
        return ""

    def lowered(self, node: int) -> tuple[Statement, ...]:
        """The statements that a node becomes, as a block of their own."""
        with self.block() as made:
            self.inside(node)
            self.flush()
        return tuple(made)

    def statement(self, node: int) -> None:
        """Adds the statements that a node becomes."""
        kind = self.tree.kind[node]
        if self._deep and self._too_deep(node):
            self.opaque(node, "it is nested too deeply")
            return
        reason = self._misread(node) if kind != Node.BLOCK else ""
        if reason and kind in _LOOPS:
            self._misread_heads[node] = reason
        elif reason:
            self.opaque(node, reason)
            if kind < Node.LABEL:
                return
        lower = _STATEMENTS.get(kind)
        if lower is not None:
            lower(self, node)
        elif kind < Node.LABEL:
            self._expression(node)
        else:
            self.opaque(node, "it is no statement that is known")
        self.flush()

    def _too_deep(self, node: int) -> bool:
        """Whether an expression, or the statements around and in it, are deeper than the form may be."""
        tree = self.tree
        if tree.kind[node] in (Node.BLOCK, Node.FOR, Node.WHILE, Node.DO, Node.RANGE_FOR, Node.LABEL, Node.TRY):
            nested = sum(1 for before in range(node) if tree.end[before] > node) if tree.end[node] > node else 0
            return nested > MOST_DEPTH
        part = range(node, tree.end[node])
        ends: list[int] = []
        most = sum(1 for before in range(node) if tree.end[before] > node) if tree.kind[node] == Node.IF else 0
        if tree.kind[node] == Node.IF:
            return most > MOST_DEPTH
        for inner in part:
            while ends and ends[-1] <= inner:
                ends.pop()
            ends.append(tree.end[inner])
            if len(ends) > MOST_DEPTH:
                return True
        return False

    def _expression(self, node: int) -> None:
        tree = self.tree
        before = len(self.out)
        if tree.kind[node] in (Node.CALL, Node.BINARY, Node.UNARY, Node.COMPOUND_ASSIGN, Node.DELETE, Node.NEW):
            self.effects(node)
        elif tree.kind[node] == Node.UNEXPOSED and tree.end[node] > node + 1:
            self._recovered(node)
        else:
            self.value(node)
            self.flush()
        promise = self._promise(node)
        if promise and promise.atomic:
            self.out[before:] = [
                msgspec.structs.replace(made, atomic=True) if isinstance(made, Assign) else made
                for made in self.out[before:]
            ]
        callee = tree.declaration[node] if tree.kind[node] == Node.CALL else -1
        if callee >= 0 and self.declared(callee).name in LEAVING:
            self.out.append(Jump(self.place(node), JumpKind.EXIT))

    def _recovered(self, node: int) -> None:
        """An expression that is an error to the parser, but whose parts are known: a call of something unknown."""
        first, *rest = self.tree.children(node)
        if self.tree.kind[first] == Node.NAME:
            name = self.tree.value[first]
            found = re.match(r"[\w:]+", str(name or self.words(node)))
            call = Call(found[0] if found else "%unknown", self.arguments(rest), pure=False)
            self.out.append(Evaluate(self.place(node), call))
        else:
            self.opaque(node, "it was not understood")

    def _promise(self, node: int):  # type: ignore[no-untyped-def]
        if self.line_of_inlining is not None or self.tree.file[node] != 0:
            return None
        return self.source.promises.get(self.tree.line[node])

    def opaque(self, node: int, reason: str) -> None:
        """A statement that is not lowered, with the variables that are named in it."""
        tree = self.tree
        assigned = self.assigned_in(node, tree.end[node])
        reads, writes = [], []
        for declaration in dict.fromkeys(tree.declaration[node : tree.end[node]]):
            if declaration < 0 or self.declared(declaration).kind not in (Node.VARIABLE, Node.PARAMETER):
                continue
            place = self.bound.get(declaration) or self.declared_name(declaration)
            reads.append(place)
            if declaration in assigned or self.tree.kind[node] == Node.ASSEMBLY:
                writes.append(place)
        self.out.append(
            Opaque(self.place(node), self.words(node)[:MOST_TEXT], reason, tuple(reads), tuple(writes), True)
        )

    def _assembly(self, node: int) -> None:
        self.opaque(node, "it is assembly")

    def _computed_goto(self, node: int) -> None:
        self.opaque(node, "it jumps to an address")

    def _empty(self, node: int) -> None:
        pass

    # Declarations

    def _declarations(self, node: int) -> None:
        for child in self.tree.children(node):
            if self.tree.kind[child] == Node.VARIABLE:
                self._variable(child)
            elif self.tree.kind[child] == Node.UNEXPOSED_DECLARATION and self.tree.children(child):
                self._bindings(child)

    def _bindings(self, node: int) -> None:
        """Structured bindings: `auto [low, high] = bounds;`."""
        tree = self.tree
        value = tree.children(node)[-1]
        whole = self.place_of(value)
        parts = self._parts(node, whole) if isinstance(whole, Name | Subscript | Member) else None
        if parts is None:
            self.opaque(node, "it was not understood")
            return
        aliases = tree.type[node] >= 0 and self.types[tree.type[node]].kind in REFERENCES
        for name, part in parts:
            kind = self.types.form(tree.type[name])
            self.bound[tree.declaration[name]] = part if aliases else self.kept(node, part, kind)

    def _parts(self, node: int, whole: Expression) -> list[tuple[int, Expression]] | None:
        """The names of a structured binding with the parts that they stand for; None: the parts are unknown."""
        tree, types = self.tree, self.types
        kind = types.bare(tree.type[node])
        given = [child for child in tree.children(node) if tree.kind[child] == Node.UNEXPOSED_DECLARATION]
        if types.is_array(kind) or types.is_container(kind):
            return [(name, Subscript(whole, (Constant(number),))) for number, name in enumerate(given)]
        fields = self.source.syntax.fields(kind)
        if not given or len(fields) < len(given) or not all(fields[: len(given)]):
            return None
        return [
            (name, Member(whole, field, self.member_type(tree.type[name])))
            for name, field in zip(given, fields, strict=False)
        ]

    def _variable(self, node: int) -> None:
        tree, types = self.tree, self.types
        number_of = tree.declaration[node]
        declared = self.declared(number_of)
        children = tree.children(node)
        has_value = tree.operation[node] == 1
        value = children[-1] if has_value and children else -1
        if value >= 0 and tree.kind[value] == Node.LAMBDA:
            self.lambdas[number_of] = (tree, value)
            return
        if declared.type >= 0 and types[declared.type].kind in REFERENCES:
            self._reference(number_of, node, value)
            return
        name = self.name(number_of)
        variable = self.variables[name]
        if types.kind(declared.type) == TypeKind.VARIABLE_ARRAY:
            sizes = children[:-1] if has_value else children
            extents = [self.value(child) for child in sizes][::-1]  # the innermost extent comes first
            self.variables[name] = msgspec.structs.replace(variable, type=self._sized(variable.type, extents, node))
            return
        if value < 0:
            return
        if declared.storage == STORAGE_STATIC or (isinstance(variable.storage, Storage) and variable.storage in (
            Storage.STATIC, Storage.GLOBAL)):  # fmt: skip
            with self.block() as unused:
                made = self.value(value)
            if not unused and not isinstance(made, Unknown):
                constant = self.is_constant(declared)
                self.variables[name] = msgspec.structs.replace(variable, constant=constant, value=made)
            return
        self._initial(node, Name(name), value, declared.type)

    def _sized(self, kind, extents: list[Expression], node: int):  # type: ignore[no-untyped-def]
        if not isinstance(kind, ArrayType):
            return kind
        given = iter(extents)
        shape: list[Expression | None] = []
        fixed = [extent for extent in kind.shape if extent is not None]
        if len(extents) == len(kind.shape):
            shape = [self._fixed(node, extent) for extent in extents]
        elif len(extents) + len(fixed) == len(kind.shape):
            shape = [extent if extent is not None else self._fixed(node, next(given)) for extent in kind.shape]
        else:
            shape = list(kind.shape)
        return msgspec.structs.replace(kind, shape=tuple(shape))

    def _fixed(self, node: int, extent: Expression) -> Expression:
        """An array's extent as of its declaration: saved in a temporary if it names variables."""
        if isinstance(extent, Constant):
            return extent
        return extent if not names(extent) else self.kept(node, extent, INDEX)

    def _initial(self, node: int, target: Expression, value: int, kind: int) -> None:
        """A variable's first value."""
        types = self.types
        if self.tree.kind[value] == Node.INITIALISERS and types.is_class(kind) and not types.is_container(kind):
            children = self.tree.children(value)
            fields = self.source.syntax.fields(types.bare(kind))
            if len(children) <= len(fields) and all(fields):
                for field, child in zip(fields, children, strict=False):
                    self._initial(child, Member(target, field), child, self.tree.type[child])
                return
        self.allocation_type = kind
        made = self.whole(value)
        self.allocation_type = -1
        if types.is_array(kind) and self.tree.kind[value] == Node.INITIALISERS:
            made = self._array_value(made, types.form(kind))
        if (
            isinstance(made, Call)
            and made.pure
            and not made.arguments
            and (types.is_class(kind) or types.is_array(kind))
        ):
            return  # made by default: nothing is known to be stored
        if isinstance(made, Operation) and isinstance(made.operands[0], Call) and types.is_container(kind) and (
            made.operands[0].function == "zeros"):  # fmt: skip
            self.assign(node, target, made.operands[0])
            made = made.operands[1]
        if isinstance(made, Call) and made.function == "zeros" and made.arguments == (ZERO,):
            return
        self.assign(node, target, made)

    def _array_value(self, made: Expression, kind) -> Expression:  # type: ignore[no-untyped-def]
        """An initialiser of an array; missing elements are zeros."""
        if not isinstance(made, Call) or made.function != "array" or not isinstance(kind, ArrayType):
            return made
        zero: Constant = number(ZERO) if getattr(kind.element, "kind", None) is Kind.FLOAT else ZERO
        flat = made.arguments
        if all(part in (ZERO, zero) for part in flat):
            return zero
        length = kind.shape[0]
        wanted = length.value if isinstance(length, Constant) and isinstance(length.value, int) else len(flat)
        if len(kind.shape) == 1 and len(flat) < wanted <= 4096:
            return Call("array", (*flat, *(zero for _ in range(wanted - len(flat)))))
        return made

    def _reference(self, number_of: int, node: int, value: int) -> None:
        """Lower a reference: an alias of the object it refers to if that is fixed, else a pointer or a copy."""
        declared = self.declared(number_of)
        made = self.place_of(value) if value >= 0 else Unknown("?")
        if isinstance(made, Call) and not made.pure:
            made = self.kept(node, made, self.types.form(declared.type))
        if not isinstance(made, Name | Subscript | Member):
            copy = Name(self.name(number_of))
            self.variables[copy.name] = Variable(self.types.form(declared.type))
            self.assign(node, copy, made)
            self.bound[number_of] = copy
            return
        changed = set()
        for assigned in self.assigned_in(self.tree.end[node], self.block_end):
            if assigned in self._names:
                changed.add(self._names[assigned])
        parts: set[str] = set()
        place: Expression = made
        while isinstance(place, Subscript | Member):
            if isinstance(place, Subscript):
                parts.update(*(names(index) for index in place.indices))
            place = place.base
        if isinstance(made, Subscript) and isinstance(place, Name):
            held = self.variables.get(place.name)
            if held is not None and isinstance(held.type, PointerType):
                parts.add(place.name)
        if not parts & changed:
            self.bound[number_of] = made
            return
        pointer = Name(self.name(number_of))
        self.variables[pointer.name] = Variable(PointerType(self.types.form(declared.type)))
        self.assign(node, pointer, self.address_of(made))
        self.bound[number_of] = Subscript(pointer, (ZERO,))

    # Branches

    def _if(self, node: int) -> None:
        children = self.tree.children(node)
        while len(children) > 2 and self.tree.kind[children[0]] in (Node.DECLARATIONS, Node.VARIABLE):
            first = children.pop(0)
            self._variable(first) if self.tree.kind[first] == Node.VARIABLE else self._declarations(first)
        if len(children) < 2:
            self.opaque(node, "it was not understood")
            return
        condition = self.condition(children[0])
        body = self.lowered(children[1])
        otherwise = self.lowered(children[2]) if len(children) > 2 else ()
        self.out.append(Branch(self.place(node), condition, body, otherwise))

    def _switch(self, node: int) -> None:
        tree = self.tree
        children = tree.children(node)
        while len(children) > 2 and tree.kind[children[0]] in (Node.DECLARATIONS, Node.VARIABLE):
            first = children.pop(0)
            self._variable(first) if tree.kind[first] == Node.VARIABLE else self._declarations(first)
        if len(children) != 2 or tree.kind[children[1]] != Node.BLOCK:
            self.opaque(node, "it is a switch without a block")
            return
        value = self.sequenced(node, self.value(children[0]), INDEX)
        if not isinstance(value, Name | Constant):
            value = self.kept(node, value, self.types.form(self.converted_type(children[0])))
        groups = self._groups(children[1])
        if any(tree.kind[inner] in (Node.CASE, Node.DEFAULT) and not any(inner in labels for labels, _ in groups)
               for inner in self._cases(children[1])):  # fmt: skip
            self.opaque(node, "a case stands inside another statement")
            return
        breakable = _Breakable(self._label("end"))
        self.breakables.append(breakable)
        chained = len(groups) <= MOST_CHAINED and all(self._ends(body) for _, body in groups[:-1])
        if chained:
            self._chain(groups, value)
        else:
            self._jump_table(node, groups, value, breakable)
        self.breakables.pop()
        if breakable.used:
            self.out.append(Target(self.place(node), breakable.label))

    def _cases(self, block: int) -> list[int]:
        """Cases of this switch, those of switches inside left out."""
        tree, found, node = self.tree, [], block + 1
        while node < tree.end[block]:
            if tree.kind[node] == Node.SWITCH:
                node = tree.end[node]
                continue
            if tree.kind[node] in (Node.CASE, Node.DEFAULT):
                found.append(node)
            node += 1
        return found

    def _groups(self, block: int) -> list[tuple[list[int], list[int]]]:
        """The statements after each group of labels of a switch."""
        tree = self.tree
        groups: list[tuple[list[int], list[int]]] = []
        for child in tree.children(block):
            labels = []
            while child >= 0 and tree.kind[child] in (Node.CASE, Node.DEFAULT):
                labels.append(child)
                parts = tree.children(child)
                child = parts[-1] if parts else -1
            if labels and groups and not groups[-1][1]:
                groups[-1][0].extend(labels)
            elif labels:
                groups.append((labels, []))
            if child >= 0 and groups:
                groups[-1][1].append(child)
        return groups

    def _ends(self, body: list[int]) -> bool:
        """Whether control does not fall out of a group's end."""
        if not body:
            return False
        last = body[-1]
        while self.tree.kind[last] == Node.BLOCK:
            inner = self.tree.children(last)
            if not inner:
                return False
            last = inner[-1]
        return self.tree.kind[last] in (Node.BREAK, Node.RETURN, Node.CONTINUE, Node.GOTO, Node.THROW)

    def _case_condition(self, labels: list[int], value: Expression) -> Expression | None:
        """The condition of a group; None: it has the default."""
        made: Expression | None = None
        for label in labels:
            if self.tree.kind[label] == Node.DEFAULT:
                return None
            parts = self.tree.children(label)
            low = self.value(parts[0])
            if len(parts) == 3:
                high = Operation("<=", (value, self.value(parts[1])))
                test: Expression = Operation("and", (Operation(">=", (value, low)), high))
            else:
                test = Operation("==", (value, low))
            made = test if made is None else Operation("or", (made, test))
        return made

    def _chain(self, groups: list[tuple[list[int], list[int]]], value: Expression) -> None:
        default: tuple[Statement, ...] = ()
        branches: list[tuple[Place, Expression, tuple[Statement, ...]]] = []
        for labels, body in groups:
            with self.block() as made:
                for child in body[:-1]:
                    self.statement(child)
                if body:
                    self._without_break(body[-1])
            condition = self._case_condition(labels, value)
            if condition is None:
                default = tuple(made)
            else:
                branches.append((self.place(labels[0]), condition, tuple(made)))
        otherwise = default
        for place, condition, body_made in reversed(branches):
            otherwise = (Branch(place, condition, body_made, otherwise),)
        self.out += otherwise

    def _without_break(self, node: int) -> None:
        """The last statement of a case: the break at its end is the end of the branch."""
        tree = self.tree
        if tree.kind[node] == Node.BREAK:
            return
        if tree.kind[node] == Node.BLOCK:
            children = tree.children(node)
            for child in children[:-1]:
                self.statement(child)
            if children:
                self._without_break(children[-1])
            return
        self.statement(node)

    def _jump_table(
        self, node: int, groups: list[tuple[list[int], list[int]]], value: Expression, breakable: _Breakable
    ) -> None:
        default = breakable.label
        targets = []
        for labels, _ in groups:
            target = self._label("case")
            targets.append(target)
            condition = self._case_condition(labels, value)
            if condition is None:
                default = target
            else:
                place = self.place(labels[0])
                self.out.append(Branch(place, condition, (Jump(place, JumpKind.GOTO, target),)))
        self.out.append(Jump(self.place(node), JumpKind.GOTO, default))
        breakable.used = True
        for (labels, body), target in zip(groups, targets, strict=True):
            self.out.append(Target(self.place(labels[0]), target))
            for child in body:
                self.statement(child)

    def _label(self, stem: str) -> str:
        self._labels += 1
        return f"{stem}'{self._labels}"

    # Loops

    def _for(self, node: int) -> None:
        initial, test, update, body = self._for_parts(node)
        if initial >= 0:
            self.statement(initial)
        unordered = self._unordered(node)
        place = self.place(node)
        with self.block() as before:
            condition = self.condition(test) if test >= 0 else None
        made = self._loop_body(body, node)
        with self.block() as behind:
            if update >= 0:
                self._expression(update)
        label = self._label("next")
        if behind:
            made = without_continue(made, label, Place(place.last))
        made = (*made, *behind)
        self._finished(place, condition, tuple(before), made, unordered)

    def _finished(
        self,
        place: Place,
        condition: Expression | None,
        before: tuple[Statement, ...],
        body: tuple[Statement, ...],
        unordered: bool,
    ) -> None:
        if condition is not None and before:
            leave = Branch(Place(place.line, place.column, 0, place.file), negation(condition),
                           (Jump(Place(place.line, place.column, 0, place.file), JumpKind.BREAK),))  # fmt: skip
            body = (*before, leave, *body)
            condition = None
        if condition is None or condition == Constant(True, Kind.BOOLEAN):
            self.out.append(Loop(place, LoopKind.ENDLESS, body, unordered=unordered))
        else:
            self.out.append(Loop(place, LoopKind.CONDITIONAL, body, condition=condition, unordered=unordered))

    def _loop_body(self, node: int, loop: int) -> tuple[Statement, ...]:
        self.breakables.append(_Breakable())
        made = self.lowered(node)
        reason = self._misread_heads.get(loop)
        if reason is not None:
            made = (Opaque(self.place(loop), self.words(loop)[:MOST_TEXT], reason, anything=True), *made)
        self.breakables.pop()
        return made

    def _unordered(self, node: int) -> bool:
        promise = self._promise(node)
        if promise and promise.unordered_loops:
            self.unordered_left = promise.unordered_loops
        unordered = self.unordered_left > 0
        self.unordered_left = max(0, self.unordered_left - 1)
        return unordered

    def _for_parts(self, node: int) -> tuple[int, int, int, int]:
        """Initial statement, condition, update and body of a `for`; -1 for missing parts."""
        children = self.tree.children(node)
        if not children:
            return -1, -1, -1, -1
        *parts, body = children
        if len(parts) == 3:
            return parts[0], parts[1], parts[2], body
        found = [-1, -1, -1]
        for part, place in zip(parts, self._for_places(node, parts), strict=True):
            found[place] = part
        return found[0], found[1], found[2], body

    def _for_places(self, node: int, parts: list[int]) -> list[int]:
        """Index (0 to 2) of each given part of a `for` head, from the number of semicolons before it."""
        tree = self.tree
        if tree.file[node] == 0 and all(tree.file[part] == 0 for part in parts):
            lines = self.source.text[tree.line[node] - 1 : tree.last_line[node]]
            if lines:
                places = [_semicolons(lines, tree.line[node], tree.column[node], *_start(tree, part)) for part in parts]
                if all(place is not None for place in places) and len(set(places)) == len(places):
                    return [min(2, place) for place in places if place is not None]
        guessed = []
        for part in parts:
            kind, operation = tree.kind[part], tree.operation[part]
            if kind == Node.DECLARATIONS:
                guessed.append(0)
            elif kind == Node.COMPOUND_ASSIGN or (kind == Node.UNARY and operation <= 4):
                guessed.append(2)
            elif kind == Node.BINARY and operation == 22:
                guessed.append(2 if guessed else 0)
            else:
                guessed.append(1)
        return guessed if len(set(guessed)) == len(guessed) else list(range(len(parts)))

    def _while(self, node: int) -> None:
        *parts, body = self.tree.children(node)
        place = self.place(node)
        unordered = self._unordered(node)
        with self.block() as before:
            for part in parts[:-1]:
                self._variable(part) if self.tree.kind[part] == Node.VARIABLE else self._declarations(part)
            condition = self.truth(parts[-1])
            effects, self.pending[:] = list(self.pending), []
            leaves = bool(before) or self._leaves(body)
            if effects and leaves:
                self.pending += effects
                condition = self.sequenced(parts[-1], condition, ScalarType(Kind.BOOLEAN, 1))
                effects = []
        made = self._loop_body(body, node)
        self._finished(place, condition, tuple(before), (*effects, *made), unordered)
        self.out += effects

    def _leaves(self, body: int) -> bool:
        """Whether a loop's body may leave it by a jump."""
        jumps = (Node.BREAK, Node.RETURN, Node.GOTO, Node.THROW, Node.LABEL)
        return any(kind in jumps for kind in self.tree.kind[body : self.tree.end[body]])

    def _do(self, node: int) -> None:
        children = self.tree.children(node)
        if len(children) != 2:
            self.opaque(node, "it was not understood")
            return
        place = self.place(node)
        made = self._loop_body(children[0], node)
        with self.block() as behind:
            condition = self.condition(children[1])
        if behind:
            made = (*without_continue(made, self._label("next"), Place(place.last)), *behind)
        if condition == Constant(True, Kind.BOOLEAN):
            self.out.append(Loop(place, LoopKind.ENDLESS, made))
        elif condition == Constant(False, Kind.BOOLEAN) and not self._leaves(children[0]) and not _continuing(made):
            self.out += made
        else:
            self.out.append(Loop(place, LoopKind.TRAILING, made, condition=condition))

    def _range_for(self, node: int) -> None:
        tree, types = self.tree, self.types
        children = tree.children(node)
        while len(children) > 3 and tree.kind[children[0]] == Node.DECLARATIONS:
            self._declarations(children.pop(0))
        if len(children) != 3 or tree.kind[children[0]] not in (Node.VARIABLE, Node.UNEXPOSED_DECLARATION):
            self.opaque(node, "it was not understood")
            return
        variable, range_, body = children
        if tree.kind[variable] == Node.UNEXPOSED_DECLARATION and (
            not (types.is_array(tree.type[range_]) or types.is_container(tree.type[range_]))
            or self._parts(variable, ZERO) is None
        ):
            self.opaque(node, "it was not understood")
            return
        unordered = self._unordered(node)
        kind = tree.type[range_]
        declared = self.declared(tree.declaration[variable])
        over = self.place_of(range_)
        if not isinstance(over, Name | Member | Subscript):
            over = self.kept(node, over, types.form(kind))
        if not types.is_array(kind) and not types.is_container(kind):
            name = self.name(tree.declaration[variable])
            self.variables[name] = Variable(types.form(declared.type))
            self.bound[tree.declaration[variable]] = Name(name)
            made = self._loop_body(body, node)
            self.out.append(Loop(self.place(node), LoopKind.UNKNOWN, made, name, unordered=unordered))
            return
        index = self.temporary(INDEX)
        length = types[types.bare(kind)].length
        form = types.form(kind)
        first = form.shape[0] if isinstance(form, ArrayType) and form.shape else None
        count: Expression = Constant(length) if length >= 0 else first or Call("size", (over,))
        rows = types.is_array(kind) and isinstance(over, Subscript)
        element = Subscript(over.base, (*over.indices, index)) if rows and isinstance(over, Subscript) else Subscript(
            over, (index,))  # fmt: skip
        head: tuple[Statement, ...] = ()
        if tree.kind[variable] == Node.UNEXPOSED_DECLARATION:
            self.bound.update((tree.declaration[name], part) for name, part in self._parts(variable, element) or ())
        elif declared.type >= 0 and types[declared.type].kind in REFERENCES:
            self.bound[tree.declaration[variable]] = element
        else:
            name = self.name(tree.declaration[variable])
            head = (Assign(self.place(variable), Name(name), element),)
        made = (*head, *self._loop_body(body, node))
        self.out.append(counted(self, node, index, count, made, unordered, synthetic=False))

    # Jumps

    def _break(self, node: int) -> None:
        if self.breakables and self.breakables[-1].label:
            self.breakables[-1].used = True
            self.out.append(Jump(self.place(node), JumpKind.GOTO, self.breakables[-1].label))
        else:
            self.out.append(Jump(self.place(node), JumpKind.BREAK))

    def _continue(self, node: int) -> None:
        self.out.append(Jump(self.place(node), JumpKind.CONTINUE))

    def _return(self, node: int) -> None:
        children = self.tree.children(node)
        value = self.value(children[0]) if children else None
        if value is not None and self.pending:
            value = self.sequenced(node, value, self.types.form(self.converted_type(children[0])))
        self.out.append(Jump(self.place(node), JumpKind.RETURN, value=value))

    def _goto(self, node: int) -> None:
        children = self.tree.children(node)
        label = str(self.tree.value[children[0]]) if children else "?"
        self.out.append(Jump(self.place(node), JumpKind.GOTO, label))

    def _labelled(self, node: int) -> None:
        self.out.append(Target(self.place(node), str(self.tree.value[node])))
        for child in self.tree.children(node):
            self.inside(child)

    def _throw(self, node: int) -> None:
        for child in self.tree.children(node):
            self.effects(child)
        self.out.append(Jump(self.place(node), JumpKind.EXIT))

    def _try(self, node: int) -> None:
        body, *handlers = self.tree.children(node)
        self.inside(body)
        for handler in handlers:
            parts = self.tree.children(handler)
            if parts:
                made = self.lowered(parts[-1])
                if made:
                    self.out.append(Branch(self.place(handler), Unknown("an exception"), made))

    def _block(self, node: int) -> None:
        self.inside(node)

    # Values made of statements

    def _statements_value(self, node: int) -> Expression:
        children = self.tree.children(node)
        inner = self.tree.children(children[0]) if children else []
        for child in inner[:-1]:
            self.statement(child)
        if not inner:
            return ZERO
        if self.tree.kind[inner[-1]] < Node.LABEL:
            return self.value(inner[-1])
        self.statement(inner[-1])
        return ZERO

    def _thrown(self, node: int) -> Expression:
        self._throw(node)
        return ZERO

    def _lambda(self, node: int) -> Expression:
        return Name(self.lambda_function(node))

    def lambda_function(self, node: int) -> str:
        """The name of a lambda that becomes a function of its own."""
        for name, tree, known in self.found_lambdas:
            if tree is self.tree and known == node:
                return name
        name = f"lambda'{self.tree.line[node]}'{self.tree.column[node]}"
        self.found_lambdas.append((name, self.tree, node))
        return name

    def lambda_functions(self, name: str) -> list[Function]:
        """Lambdas that are functions of their own, and those that variables hold."""
        made = []
        for number_of, (tree, node) in self.lambdas.items():
            self.found_lambdas.append((self.declared(number_of).name, tree, node))
        done: set[tuple[int, int]] = set()
        while self.found_lambdas:
            known, tree, node = self.found_lambdas.pop()
            if (id(tree), node) in done or tree is not self.tree:
                continue
            done.add((id(tree), node))
            made.append(self.lambda_value(f"{name}::{known}", node))
        return made


def _continuing(body: tuple[Statement, ...]) -> bool:
    return any(isinstance(statement, Jump) and statement.kind is JumpKind.CONTINUE for statement in body)


def _start(tree: Tree, part: int) -> tuple[int, int]:
    """Start position of a part of a `for`; a binary operator starts at its first operand."""
    return tree.line[part], tree.column[part]


def _semicolons(lines: list[str], first_line: int, column: int, line: int, part_column: int) -> int | None:
    """Semicolons between the start of a `for` and a place in it, strings and comments left out; None: not known."""
    if line < first_line or line - first_line >= min(len(lines), 50):
        return None
    text = "\n".join(lines[: line - first_line + 1])
    length = len(text) - len(lines[line - first_line]) + part_column - 1
    head = text[column - 1 : length] if line > first_line else text[column - 1 : part_column - 1]
    head = re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//[^\n]*|/\*.*?\*/', "", head, flags=re.DOTALL)
    if not head.lstrip().startswith("for"):
        return None
    return head.count(";")


_WORD = re.compile(r"[A-Za-z_]\w*")
_LOOPS = frozenset({Node.FOR, Node.WHILE, Node.DO, Node.RANGE_FOR})
_LEAVES = frozenset({Node.DECLARATIONS, Node.RETURN, Node.GOTO, Node.EMPTY, Node.BREAK, Node.CONTINUE, Node.THROW})

_STATEMENTS: dict[int, Callable[[Lowering, int], None]] = {
    Node.BLOCK: Lowering._block,
    Node.DECLARATIONS: Lowering._declarations,
    Node.IF: Lowering._if,
    Node.SWITCH: Lowering._switch,
    Node.FOR: Lowering._for,
    Node.WHILE: Lowering._while,
    Node.DO: Lowering._do,
    Node.RANGE_FOR: Lowering._range_for,
    Node.BREAK: Lowering._break,
    Node.CONTINUE: Lowering._continue,
    Node.RETURN: Lowering._return,
    Node.GOTO: Lowering._goto,
    Node.LABEL: Lowering._labelled,
    Node.THROW: Lowering._throw,
    Node.TRY: Lowering._try,
    Node.ASSEMBLY: Lowering._assembly,
    229: Lowering._assembly,
    211: Lowering._computed_goto,
    Node.EMPTY: Lowering._empty,
}
lowers(Node.STATEMENTS_VALUE, Lowering._statements_value)
lowers(Node.LAMBDA, Lowering._lambda)
lowers(Node.THROW, Lowering._thrown)
