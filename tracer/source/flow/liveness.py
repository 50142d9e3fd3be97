"""Liveness: variables read before they are assigned, and variables live after a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.records import JumpKind, LoopKind, Storage
from foretrace.tracer.source.form.walk import blocks, expressions, names, statements

NONE: frozenset[str] = frozenset()
_LASTING = (Storage.GLOBAL, Storage.STATIC, Storage.REFERENCE)


@dataclass(frozen=True, slots=True)
class Summary:
    """Names that a statement, or a list of statements, reads and assigns."""

    exposed: frozenset[str]
    """Read before they are assigned."""
    certain: frozenset[str]
    """Assigned on every way to the end."""
    assigned: frozenset[str]
    """Assigned on some way, loop variables included."""
    leaves: bool = False
    """A jump may leave it."""


@dataclass(slots=True)
class Liveness:
    """Liveness in one function: summaries of statements, and names live after each loop."""

    function: form.Function
    lasting: frozenset[str] = NONE
    """Names visible to other functions: globals, variables whose address was taken."""
    after: dict[int, frozenset[str]] = field(default_factory=dict)
    """Names live after each loop, by the loop's identity."""
    jumps: bool = False
    """The function has a GOTO: all names are live everywhere."""
    _summaries: dict[int, Summary] = field(default_factory=dict)
    _kept: list[form.Statement] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Computes the names live after each loop."""
        function = self.function
        variables = function.variables
        self.lasting = frozenset(
            name for name, known in variables.items() if known.storage in _LASTING or known.address_taken
        )
        self._kept.extend(function.body)
        found = self.body(function.body)
        self.jumps = any(
            isinstance(part, form.Target) or (isinstance(part, form.Jump) and part.kind is JumpKind.GOTO)
            for part in statements(function.body)
        )
        everything = found.exposed | found.assigned
        self._push(function.body, everything if self.jumps else self.lasting & everything)

    def of(self, statement: form.Statement) -> Summary:
        """A statement's summary."""
        known = self._summaries.get(id(statement))
        if known is None:
            known = self._summaries[id(statement)] = self._summarised(statement)
            self._kept.append(statement)
        return known

    def body(self, body: Sequence[form.Statement]) -> Summary:
        """The summary of a list of statements."""
        exposed: set[str] = set()
        defined: set[str] = set()
        certain: set[str] = set()
        assigned: set[str] = set()
        leaves = False
        for statement in body:
            part = self.of(statement)
            exposed |= part.exposed - defined
            defined |= part.certain
            assigned |= part.assigned
            leaves |= part.leaves
            if not leaves:
                certain |= part.certain
        return Summary(frozenset(exposed), frozenset(certain), frozenset(assigned), leaves)

    def _summarised(self, statement: form.Statement) -> Summary:
        match statement:
            case form.Assign(target=target, value=value):
                read = names(value)
                if isinstance(target, form.Name):
                    written = frozenset((target.name,))
                    whole = not isinstance(self._type(target.name), form.ArrayType)
                    sure = written if whole else NONE
                else:
                    read |= names(target)
                    written = sure = NONE
                if isinstance(value, form.Call) and not value.pure:
                    written |= self.lasting
                    read |= self.lasting
                return Summary(frozenset(read), sure, written)
            case form.Evaluate(call=call):
                written = addressed(call) | self.lasting
                return Summary(frozenset(names(call)) | self.lasting, NONE, written)
            case form.Branch(condition=condition, body=body, otherwise=otherwise):
                one, other = self.body(body), self.body(otherwise)
                if ends(body):
                    certain = other.certain
                elif ends(otherwise):
                    certain = one.certain
                else:
                    certain = one.certain & other.certain
                exposed = frozenset(names(condition)) | one.exposed | other.exposed
                return Summary(exposed, certain, one.assigned | other.assigned, one.leaves or other.leaves)
            case form.Loop(body=body, variable=variable, kind=kind):
                inside = self.body(body)
                read = {name for part in expressions(statement) for name in names(part)}
                own = frozenset((variable,)) if variable else NONE
                exposed = inside.exposed - ({statement.induction} if variable else NONE)
                if kind is LoopKind.TRAILING and statement.condition is not None:
                    tested = names(statement.condition) - inside.certain
                    read = read - names(statement.condition) | tested
                certain = inside.certain if kind in (LoopKind.TRAILING, LoopKind.ENDLESS) else NONE
                leaves = any(
                    isinstance(part, form.Jump) and (part.kind not in (JumpKind.BREAK, JumpKind.CONTINUE) or part.label)
                    for part in statements(body)
                )
                return Summary(frozenset(exposed | read), certain, inside.assigned | own, leaves)
            case form.Jump(value=value):
                return Summary(frozenset(names(value)) if value is not None else NONE, NONE, NONE, leaves=True)
            case form.Opaque(reads=reads, writes=writes, anything=anything):
                read = {name for part in (*reads, *writes) for name in names(part)}
                written = frozenset(name for part in writes for name in names(part))
                if anything:
                    read |= self.lasting
                    written |= self.lasting
                return Summary(frozenset(read), NONE, written)
        return Summary(NONE, NONE, NONE)

    def _type(self, name: str) -> form.Type | None:
        variable = self.function.variables.get(name)
        return variable.type if variable else None

    def _push(self, body: Sequence[form.Statement], after: frozenset[str]) -> None:
        """Records the names live after each loop of a body, given those live after the body."""
        live = after
        for statement in reversed(body):
            part = self.of(statement)
            if isinstance(statement, form.Loop):
                self.after[id(statement)] = live
                self._push(statement.body, live | part.exposed)
            else:
                for block in blocks(statement):
                    self._push(block, live)
            live = part.exposed | (live - part.certain)


def addressed(call: form.Call) -> frozenset[str]:
    """Variables whose addresses are arguments of a call."""
    found: set[str] = set()
    for argument in call.arguments:
        if isinstance(argument, form.AddressOf):
            operand = argument.operand
            while isinstance(operand, form.Member):
                operand = operand.base
            if isinstance(operand, form.Name):
                found.add(operand.name)
    return frozenset(found)


def ends(body: Sequence[form.Statement]) -> bool:
    """Whether no way leads past the end of a body."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, form.Jump):
        return True
    return isinstance(last, form.Branch) and ends(last.body) and ends(last.otherwise)
