"""Executable statements of a Fortran program unit, lowered to the source form.

The module is long for one class, which has a method for each kind of statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.types import type_of
from foretrace.tracer.source.form.walk import within

from .declarations import SPECIFICATIONS, Declarations
from .expressions import ONE, Expressions, text_of
from .scope import Scope
from .unreadable import PREFIX

if TYPE_CHECKING:
    from tree_sitter import Node
from .parsing import INCLUDES, NOT_PARSED, SourceFile, parsed_include, place_of

IGNORED = SPECIFICATIONS | frozenset({
    "comment", "format_statement", "end_subroutine_statement", "end_function_statement", "end_program_statement",
    "end_module_statement", "end_block_data_statement", "program_statement", "module_statement", "subroutine_statement",
    "function_statement", "block_data_statement", "contains_statement", "deallocate_statement",
    "end_do_loop_statement", "end_do_label_loop_statement",
    "end_if_statement", "end_where_statement", "end_select_statement", "entry_statement",
    "end_associate_statement", "end_block_construct_statement", "end_forall_statement", "block_label",
    "block_label_start_expression", "statement_label", "do_statement", ";", "\n", "&", "preproc_comment",
    "include_statement", "preproc_include", "submodule_statement", "end_submodule_statement",
    "end_module_procedure_statement", "module_procedure_statement",
})  # fmt: skip

_OUTPUT = frozenset({"write_statement", "print_statement"})
_FILES = frozenset({"open_statement", "close_statement", "inquire_statement", "file_position_statement"})
_UNORDERED = re.compile(r"^[!c*]\$(omp\s+.*\b(do|simd|loop|distribute)\b|acc\s+.*\bloop\b)", re.IGNORECASE)
_INDEPENDENT = re.compile(r"^[!c*](dir|dec|pgi|gcc|ibm)\$\s*(ivdep|independent)", re.IGNORECASE)
_ATOMIC = re.compile(r"^[!c*]\$(omp|acc)\s+atomic", re.IGNORECASE)


class Statements:
    """Lowers the executable part of one program unit."""

    def __init__(self, file: SourceFile, scope: Scope, number: int) -> None:
        """Statements of a unit with this scope, in the file of this number among all that are read."""
        self._file = file
        self._scope = scope
        self._number = number
        self._expressions = Expressions(scope, {number: one.text for number, one in file.unread.items()})
        self._labels: list[tuple[str, str]] = []  # of the loops around: label of the last statement, name
        self._loops = 0

    def statement_function(self, node: Node) -> None:
        """Take `f(x) = expression` for a statement function if f is no array (Fortran 2018, section 15.6.4)."""
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None or left.type != "call_expression" or len(left.named_children) != 2:
            return
        callee, arguments = left.named_children
        name = text_of(callee).lower()
        known = self._scope.find(name)
        if callee.type != "identifier" or (known is None and (self._scope.explicit or self._scope.open_modules)):
            return
        if known is not None and not isinstance(known.type, form.ScalarType):
            return
        if all(child.type == "identifier" for child in arguments.named_children):
            parameters = tuple(text_of(child).lower() for child in arguments.named_children)
            self._scope.assigned.discard(name)
            self._expressions.statement_functions[name] = (parameters, self._expressions.lower(right))

    def block(self, nodes: Sequence[Node]) -> tuple[form.Statement, ...]:
        """A list of statements."""
        made: list[form.Statement] = []
        unordered = atomic = False
        for node in nodes:
            if node.type == "comment":
                text = text_of(node)
                if text[1:2] == "$" or text[4:5] == "$":
                    unordered = unordered or bool(_UNORDERED.match(text) or _INDEPENDENT.match(text))
                    atomic = atomic or bool(_ATOMIC.match(text))
                continue
            if not node.is_named:
                continue
            for statement in self._statement(node):
                if unordered and isinstance(statement, form.Loop):
                    statement = msgspec.structs.replace(statement, unordered=True)
                if atomic and isinstance(statement, form.Assign):
                    statement = msgspec.structs.replace(statement, atomic=True)
                made.append(statement)
            unordered = atomic = False
        return tuple(made)

    def _statement(self, node: Node) -> Iterator[form.Statement]:
        """A statement, preceded by those that its expressions need."""
        made = list(self._lowered(node))
        place = self._place(node)
        yield from self._unread_conditions(place)
        for temporary, call in self._expressions.before:
            yield form.Assign(place, form.Name(temporary), call)
        self._expressions.before.clear()
        yield from made

    def _unread_conditions(self, place: form.Place) -> Iterator[form.Statement]:
        """Opaque statements for unread parts of the expressions since the last call."""
        place = form.Place(place.line, place.column, file=place.file)
        for unknown in self._expressions.unread_met:
            yield form.Opaque(place, unknown.text, NOT_PARSED, unknown.reads, unknown.reads, True)
        self._expressions.unread_met.clear()

    def _place(self, node: Node) -> form.Place:
        return place_of(node, self._number)

    def _lowered(self, node: Node) -> Iterator[form.Statement]:
        kind = node.type
        if kind == "assignment_statement":
            yield from self._assignment(node)
        elif kind in INCLUDES:
            yield from self._include(node)
        elif kind == "statement_label":
            yield form.Target(self._place(node), text_of(node).strip())
        elif kind in IGNORED:
            return
        elif kind == "do_loop":
            yield from self._loop(node)
        elif kind == "if_statement":
            yield from self._if(node)
        elif kind == "subroutine_call":
            yield self._call(node)
        elif kind == "keyword_statement":
            yield from self._keyword(node)
        elif kind == "where_statement":
            yield from self._where(node)
        elif kind == "arithmetic_if_statement":
            yield from self._arithmetic_if(node)
        elif kind == "forall_statement":
            yield from self._forall(node)
        elif kind == "select_case_statement":
            yield from self._select(node)
        elif kind in ("associate_statement", "block_construct"):
            yield from self._construct(node)
        elif kind == "pointer_association_statement" and len(node.named_children) == 2:
            yield self._pointed(node)
        elif kind == "nullify_statement":
            for child in node.named_children:
                yield form.Assign(self._place(node), self._expressions.pointer(child), form.Constant(0))
        elif kind == "allocate_statement":
            yield from self._allocate(node)
        elif kind in ("stop_statement", "error_stop_statement"):
            yield form.Jump(self._place(node), form.JumpKind.EXIT)
        elif kind in _OUTPUT:
            yield self._opaque(node, "output", reads=True)
        elif kind == "read_statement":
            yield self._opaque(node, "input", writes=True)
        elif kind in _FILES:
            yield self._opaque(node, "a file statement")
        elif kind == "ERROR":
            self._file.skip(self._place(node), "statement", NOT_PARSED)
            yield self._opaque(node, NOT_PARSED, anything=True)
        else:
            yield self._opaque(node, f"{kind.replace('_', ' ')} is not lowered", reads=True, writes=True, anything=True)

    def _opaque(
        self, node: Node, reason: str, *, reads: bool = False, writes: bool = False, anything: bool = False
    ) -> form.Opaque:
        names = self._expressions.unknown(node).reads
        return form.Opaque(
            self._place(node), text_of(node)[: form.MOST_TEXT], reason, names if reads else (), names if writes else (),
            anything,
        )  # fmt: skip

    # Assignments and calls

    def _assignment(self, node: Node) -> Iterator[form.Statement]:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None or node.has_error:
            self._file.skip(self._place(node), "statement", NOT_PARSED)
            yield self._opaque(node, NOT_PARSED, reads=True, writes=True, anything=True)
            return
        name = text_of(left.named_children[0]).lower() if left.type == "call_expression" else ""
        if name in self._expressions.statement_functions:
            return
        target = self._target(left)
        if right.type == "array_literal" and len(right.named_children) == 1:
            implied = right.named_children[0]
            if implied.type == "implied_do_loop_expression":
                yield from self._implied(node, target, implied)
                return
        value = self._expressions.lower(right)
        if left.type == "call_expression" and not isinstance(target, form.Subscript):
            value = form.Call("concatenate", (target, value))  # a part of a text is stored to, the rest stays
        yield form.Assign(self._place(node), target, value)

    def _pointed(self, node: Node) -> form.Assign:
        """`p => target`."""
        target, value = map(self._expressions.pointer, node.named_children)
        if text_of(node.named_children[1]).lower().replace(" ", "").startswith("null("):
            value = form.Constant(0)
        elif not isinstance(type_of(value, self._scope), form.PointerType):
            value = form.AddressOf(value)
        return form.Assign(self._place(node), target, value)

    def _target(self, node: Node) -> form.Expression:
        """The left-hand side of an assignment: always an element, never a call."""
        if node.type == "call_expression":
            callee, *lists = node.named_children
            made = self._expressions.lower(callee)
            for one in lists:
                indices = self._expressions.arguments(one) or (form.Section(),)
                if self._expressions.is_substring(made, indices):
                    return made  # all of the text, as far as anyone asks
                made = self._expressions.element(made, indices)
            return made
        return self._expressions.lower(node)

    def _implied(self, node: Node, target: form.Expression, implied: Node) -> Iterator[form.Statement]:
        """`a = [(f(i), i = 1, n)]` as a loop."""
        *values, control = implied.named_children
        lowest = self._lowest(target)
        if len(values) != 1 or control.type != "loop_control_expression" or lowest is None:
            yield self._opaque(node, "an array constructor", reads=True, writes=True)
            return
        variable, first, last, step = self._control(control)
        base, lower, by = lowest
        position: form.Expression = form.Name(variable)
        if step is not None:
            position = form.Operation("//", (form.Operation("-", (position, first)), step))
            position = form.Operation("+", (position, lower))
        elif lower != first:
            position = form.Operation("+", (form.Operation("-", (position, first)), lower))
        if by is not None and by != ONE and not self._reads(self._expressions.lower(values[0]), base):
            position = form.Operation("+", (form.Operation("*", (form.Operation("-", (position, lower)), by)), lower))
        place, value = self._place(node), self._expressions.lower(values[0])
        if self._reads(value, base):  # all values come first
            span = form.Operation("-", (last, first))
            count = form.Operation("+", (span if step is None else form.Operation("/", (span, step)), ONE))
            kept = self._expressions.temporary(form.ArrayType(type_of(value, self._scope), (count,), (lower,)))
            body = (form.Assign(place, form.Subscript(kept, (position,)), value),)
            yield form.Loop(place, form.LoopKind.COUNTED, body, variable, first, last, step, synthetic=True)
            yield form.Assign(place, target, kept)
            return
        body = (form.Assign(place, form.Subscript(base, (position,)), value),)
        yield form.Loop(place, form.LoopKind.COUNTED, body, variable, first, last, step, synthetic=True)

    def _reads(self, value: form.Expression, array: form.Expression) -> bool:
        return any(part == array for part in within(value))

    def _lowest(
        self, target: form.Expression
    ) -> tuple[form.Expression, form.Expression, form.Expression | None] | None:
        """A vector, the lowest index of the assigned elements, and the step; None for other targets."""
        section = form.Section()
        if isinstance(target, form.Subscript) and len(target.indices) == 1:
            only = target.indices[0]
            if not isinstance(only, form.Section):
                return None
            target, section = target.base, only
        kind = type_of(target, self._scope)
        if not isinstance(kind, form.ArrayType) or len(kind.shape) != 1:
            return None
        return target, section.first or (kind.lower[0] if kind.lower else ONE), section.step

    def _call(self, node: Node) -> form.Statement:
        callee = node.child_by_field_name("subroutine") or node.named_children[0]
        listed = next((child for child in node.named_children if child.type == "argument_list"), None)
        arguments = []
        for child in listed.named_children if listed is not None else []:
            value = child.named_children[-1] if child.type == "keyword_argument" else child
            if value.type != "comment":
                arguments.append(self._expressions.lower(value))
        name = text_of(callee).lower().replace("%", ".").replace(" ", "")
        unread = self._expressions.unread(name)
        if unread is not None:
            number = int(name.removeprefix(PREFIX))
            place = form.Place(*self._lines_of(number, self._place(node)), self._number)
            return form.Opaque(place, unread.text, NOT_PARSED, unread.reads, unread.reads, True)
        if callee.type == "derived_type_member_expression":
            arguments.insert(0, self._expressions.lower(callee.named_children[0]))
        return form.Evaluate(self._place(node), form.Call(name, tuple(arguments), pure=False))

    def _lines_of(self, number: int, place: form.Place) -> tuple[int, int, int]:
        one = self._file.unread[number]
        return one.line, place.column, one.last_line if one.last_line > one.line else 0

    def _allocate(self, node: Node) -> Iterator[form.Statement]:
        for child in node.named_children:
            if child.type == "sized_allocation":
                target = self._expressions.lower(child.named_children[0])
                size = child.named_children[-1]
                extents = [
                    self._expressions.section(one) if one.type == "extent_specifier" else self._expressions.lower(one)
                    for one in size.named_children
                ]
                yield form.Assign(self._place(node), target, form.Call("allocate", tuple(extents)))
            elif child.type in ("identifier", "derived_type_member_expression"):
                target = self._expressions.pointer(child)
                yield form.Assign(self._place(node), target, form.Call("allocate", ()))

    def _include(self, node: Node) -> Iterator[form.Statement]:
        included = parsed_include(self._file, node, self._number)
        if included is None:
            return
        outer = self._number
        root, self._number = included
        yield from self.block(root.children)
        self._number = outer
        self._file.including.pop()

    # Loops

    def _control(self, node: Node) -> tuple[str, form.Expression, form.Expression, form.Expression | None]:
        variable, first, last, *step = [child for child in node.named_children if child.type != "comment"]
        lower = self._expressions.lower
        by = lower(step[0]) if step else None
        return text_of(variable).lower(), lower(first), lower(last), None if by == ONE else by

    def _loop(self, node: Node) -> Iterator[form.Statement]:
        head = next((child for child in node.named_children if child.type == "do_statement"), None)
        if head is None:
            yield self._opaque(node, "a loop that does not parse", reads=True, writes=True, anything=True)
            return
        name = ""
        for child in node.named_children:
            if child.type == "block_label_start_expression":
                name = text_of(child).strip().rstrip(":").strip().lower()
        end_label = next((text_of(child).strip() for child in head.named_children if "label" in child.type), "")
        control = next(
            (child for child in head.named_children if child.type in (
                "loop_control_expression", "while_statement", "concurrent_statement"
            )), None,
        )  # fmt: skip
        self._labels.append((end_label, name))
        before = len(self._expressions.before)
        bounds = None
        if control is not None and control.type == "loop_control_expression":
            if len([child for child in control.named_children if child.type != "comment"]) < 3:
                self._labels.pop()
                yield self._opaque(node, "a loop that does not parse", reads=True, writes=True, anything=True)
                return
            bounds = self._control(control)
        pending = self._expressions.before[before:]
        del self._expressions.before[before:]
        body = self.block([child for child in node.children if child.type != "do_statement"])
        body += self._last_statement(node)
        self._labels.pop()
        self._expressions.before[before:] = pending
        place = self._place(node)
        if control is None:
            yield form.Loop(place, form.LoopKind.ENDLESS, body, label=name)
        elif bounds is not None:
            variable, first, last, step = bounds
            yield form.Loop(place, form.LoopKind.COUNTED, body, variable, first, last, step, label=name)
        elif control.type == "while_statement":
            condition = self._expressions.lower(control.named_children[-1])
            body = (*self._unread_conditions(place), *body)
            yield form.Loop(place, form.LoopKind.CONDITIONAL, body, condition=condition, label=name)
        else:
            yield from self._concurrent(control, body, place, name)

    def _last_statement(self, node: Node) -> tuple[form.Statement, ...]:
        """The labelled statement that ends a DO: it belongs to the innermost of the loops that it ends."""
        inner = node
        while True:
            end = next((child for child in inner.named_children if child.type == "end_do_label_loop_statement"), None)
            if end is None:
                return ()
            if any(child.type == "do_label_virtual" for child in end.named_children):
                if inner.parent is None or inner.parent.type != "do_loop":
                    return ()
                inner = inner.parent
                continue
            break
        nested = [child for child in node.named_children if child.type == "do_loop"]
        if nested and _ends_virtually(nested[-1]):
            return ()  # the loop inside has it
        return self.block([child for child in end.children if child.type not in ("statement_label", "do_label")])

    def _concurrent(
        self, control: Node, body: tuple[form.Statement, ...], place: form.Place, name: str
    ) -> Iterator[form.Statement]:
        header = next(iter(control.named_children))
        parts = header.named_children if header.type == "concurrent_header" else control.named_children
        loops = [part for part in parts if part.type == "concurrent_control"]
        mask = next((part for part in parts if part.type == "concurrent_mask"), None)
        if mask is not None:
            body = (form.Branch(place, self._expressions.lower(mask.named_children[0]), body),)
        for loop in reversed(loops):
            variable, first, last, *step = loop.named_children
            by = self._expressions.lower(step[0]) if step else None
            body = (
                form.Loop(
                    place, form.LoopKind.COUNTED, body, text_of(variable).lower(), self._expressions.lower(first),
                    self._expressions.lower(last), by, unordered=True, label=name if loop is loops[0] else "",
                ),
            )  # fmt: skip
        yield from body

    def _forall(self, node: Node) -> Iterator[form.Statement]:
        place = self._place(node)
        triplets = [child for child in node.named_children if child.type == "triplet_spec"]
        mask = [child for child in node.named_children if child.type.endswith("_expression") and child not in triplets]
        body = self.block([
            child for child in node.children if child not in triplets and child not in mask and child.type != "ERROR"
        ])  # fmt: skip
        for child in node.named_children:
            if child.type == "ERROR":  # `, m(i)`: the grammar knows no mask that is an element
                mask += child.named_children
        if mask:
            body = (form.Branch(place, self._expressions.lower(mask[0]), body),)
        for triplet in reversed(triplets):
            variable, first, last, *step = triplet.named_children
            by = self._expressions.lower(step[0]) if step else None
            lower = self._expressions.lower
            body = (
                form.Loop(
                    place, form.LoopKind.COUNTED, body, text_of(variable).lower(), lower(first), lower(last), by,
                    unordered=True,
                ),
            )  # fmt: skip
        yield from body

    # Branches and jumps

    def _if(self, node: Node) -> Iterator[form.Statement]:
        condition = next((child for child in node.named_children if child.type == "parenthesized_expression"), None)
        if condition is None:
            yield self._opaque(node, "a branch that does not parse", reads=True, writes=True, anything=True)
            return
        tested = self._expressions.lower(condition)
        yield self._branch(node, tested, [child for child in node.children if child != condition])

    def _arithmetic_if(self, node: Node) -> Iterator[form.Statement]:
        """`if (x) 10, 20, 30`: jumps if x is negative, zero or positive."""
        place = self._place(node)
        value = self._expressions.lower(node.named_children[0])
        labels = [text_of(child).strip() for child in node.named_children if child.type == "statement_label_reference"]
        jumps = [self._jump(place, label) for label in labels]
        if len(jumps) != 3:
            yield self._opaque(node, "a branch that does not parse", reads=True)
            return
        zero = form.Constant(0)
        rest = form.Branch(place, form.Operation("==", (value, zero)), (jumps[1],), (jumps[2],))
        yield form.Branch(place, form.Operation("<", (value, zero)), (jumps[0],), (rest,))

    def _branch(self, node: Node, condition: form.Expression, nodes: Sequence[Node]) -> form.Branch:
        """A branch, its ELSE IFs as branches of their own."""
        taken = [child for child in nodes if child.type not in ("elseif_clause", "else_clause")]
        clauses = [child for child in nodes if child.type in ("elseif_clause", "else_clause")]
        pending = list(self._expressions.before)
        self._expressions.before.clear()
        body = self.block(taken)
        otherwise: tuple[form.Statement, ...] = ()
        for clause in reversed(clauses):
            if clause.type == "else_clause":
                otherwise = self.block(clause.children)
                continue
            tested = next((one for one in clause.named_children if one.type == "parenthesized_expression"), None)
            inner = self.block([one for one in clause.children if one != tested])
            value = self._expressions.lower(tested) if tested is not None else form.Unknown("")
            calls = [form.Assign(self._place(clause), form.Name(name), call) for name, call in self._expressions.before]
            self._expressions.before.clear()
            otherwise = (*calls, form.Branch(self._place(clause), value, inner, otherwise))
        self._expressions.before[:] = pending
        return form.Branch(self._place(node), condition, body, otherwise)

    def _keyword(self, node: Node) -> Iterator[form.Statement]:
        words = text_of(node).lower().split()
        place = self._place(node)
        word = words[0] if words else ""
        name = words[1] if len(words) > 1 and words[1].isidentifier() else ""
        if word == "return":
            yield form.Jump(place, form.JumpKind.RETURN)
        elif word in ("exit", "cycle"):
            yield form.Jump(place, form.JumpKind.BREAK if word == "exit" else form.JumpKind.CONTINUE, name)
        elif word in ("goto", "go"):
            yield from self._goto(node)
        elif word == "stop":
            yield form.Jump(place, form.JumpKind.EXIT)

    def _goto(self, node: Node) -> Iterator[form.Statement]:
        """GOTO; a computed one is a chain of branches."""
        place = self._place(node)
        labels = [text_of(child).strip() for child in node.named_children if child.type == "statement_label_reference"]
        chosen = [child for child in node.named_children if child.type != "statement_label_reference"]
        if not labels or node.has_error:
            yield self._opaque(node, "an assigned GOTO", reads=True, anything=True)
        elif not chosen:
            yield self._jump(place, labels[0])
        else:
            value = self._expressions.lower(chosen[0])
            branches: tuple[form.Statement, ...] = ()
            for number, label in reversed(list(enumerate(labels, 1))):
                test = form.Operation("==", (value, form.Constant(number)))
                branches = (form.Branch(place, test, (self._jump(place, label),), branches),)
            yield from branches

    def _jump(self, place: form.Place, label: str) -> form.Jump:
        """A jump to a label: to the statement that ends the loop around, it starts the next iteration."""
        if self._labels and self._labels[-1][0] == label:
            return form.Jump(place, form.JumpKind.CONTINUE)
        return form.Jump(place, form.JumpKind.GOTO, label)

    def _where(self, node: Node) -> Iterator[form.Statement]:
        condition = next((child for child in node.named_children if child.type == "parenthesized_expression"), None)
        if condition is None:
            yield self._opaque(node, "a WHERE that does not parse", reads=True, writes=True)
            return
        clauses = [child for child in node.named_children if child.type == "elsewhere_clause"]
        body = self.block([child for child in node.children if child != condition and child not in clauses])
        otherwise: tuple[form.Statement, ...] = ()
        for clause in reversed(clauses):
            tested = next((one for one in clause.named_children if one.type == "parenthesized_expression"), None)
            inner = self.block([one for one in clause.children if one != tested])
            if tested is None:
                otherwise = inner
            else:
                otherwise = (form.Branch(self._place(clause), self._expressions.lower(tested), inner, otherwise),)
        yield form.Branch(self._place(node), self._expressions.lower(condition), body, otherwise)

    def _select(self, node: Node) -> Iterator[form.Statement]:
        selector = next((child for child in node.named_children if child.type == "selector"), None)
        value = self._expressions.lower(selector.named_children[0]) if selector is not None else form.Unknown("")
        otherwise: tuple[form.Statement, ...] = ()
        chain: list[tuple[Node, form.Expression, tuple[form.Statement, ...]]] = []
        for case in node.named_children:
            if case.type != "case_statement":
                continue
            ranges = next((one for one in case.named_children if one.type == "case_value_range_list"), None)
            body = self.block([one for one in case.children if one != ranges and one.type != "default"])
            if ranges is None:
                otherwise = body
            else:
                chain.append((case, self._one_of(value, ranges), body))
        for case, condition, body in reversed(chain):
            otherwise = (form.Branch(self._place(case), condition, body, otherwise),)
        yield from otherwise

    def _one_of(self, value: form.Expression, ranges: Node) -> form.Expression:
        made: form.Expression | None = None
        for one in ranges.named_children:
            if one.type == "extent_specifier":
                bounds = self._expressions.section(one)
                parts: list[form.Expression] = []
                if bounds.first is not None:
                    parts.append(form.Operation(">=", (value, bounds.first)))
                if bounds.last is not None:
                    parts.append(form.Operation("<=", (value, bounds.last)))
                test: form.Expression = form.Constant(True, form.Kind.BOOLEAN)
                if parts:
                    test = parts[0] if len(parts) == 1 else form.Operation("and", tuple(parts))
            else:
                test = form.Operation("==", (value, self._expressions.lower(one)))
            made = test if made is None else form.Operation("or", (made, test))
        return made if made is not None else form.Constant(False, form.Kind.BOOLEAN)

    def _construct(self, node: Node) -> Iterator[form.Statement]:
        """ASSOCIATE and BLOCK: their statements, with the names they introduce."""
        outer = dict(self._expressions.associated)
        for listed in node.named_children:
            if listed.type == "association_list":
                for one in listed.named_children:
                    name, value = one.child_by_field_name("name"), one.child_by_field_name("selector")
                    if name is not None and value is not None:
                        self._expressions.associated[text_of(name).lower()] = self._expressions.lower(value)
        inner = Declarations(self._scope, (), False)
        for child in node.named_children:
            if child.type in SPECIFICATIONS:
                inner.declare(child, lambda module: None)
        yield from self.block([child for child in node.children if child.type != "association_list"])
        self._expressions.associated = outer


def _ends_virtually(node: Node) -> bool:
    end = next((child for child in node.named_children if child.type == "end_do_label_loop_statement"), None)
    return end is not None and any(child.type == "do_label_virtual" for child in end.named_children)
