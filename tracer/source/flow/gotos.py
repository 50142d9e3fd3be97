"""Loops and branches in place of GOTO, where jumps nest as loops and branches do.

A jump back to a label of the same list of statements is a loop, one that leaves it for the next statement is a break,
one to the end of a loop's body a continue, and one forward over statements is a branch around them. Other jumps (into
loops, crossing ones) stay GOTO.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.records import JumpKind, LoopKind
from foretrace.tracer.source.form.walk import statements

from .liveness import ends

MOST_JUMPS = 200
"""Functions with more are left alone."""

Body = tuple[form.Statement, ...]


def without_gotos(body: Sequence[form.Statement]) -> Body:
    """Replaces jumps to labels by loops, branches, breaks and continues."""
    jumps = sum(1 for _ in _gotos(body))
    made = tuple(body)
    if not 0 < jumps <= MOST_JUMPS:
        return made
    made = _Structuring(Counter(jump.label for jump in _gotos(body))).block(made)
    if made and isinstance(made[-1], form.Loop) and made[-1].kind is LoopKind.ENDLESS:
        made = (*made[:-1], _with_breaks_for_returns(made[-1]))
    return made


def _with_breaks_for_returns(loop: form.Loop) -> form.Loop:
    """The last loop of a function, with breaks in place of returns."""

    def change(body: Body, nested: bool) -> Body:
        made: list[form.Statement] = []
        for part in body:
            match part:
                case form.Jump(kind=JumpKind.RETURN, value=None) if not nested or loop.label:
                    part = form.Jump(part.place, JumpKind.BREAK, loop.label if nested else "")
                case form.Loop():
                    part = msgspec.structs.replace(part, body=change(part.body, True))
                case form.Branch():
                    part = msgspec.structs.replace(
                        part, body=change(part.body, nested), otherwise=change(part.otherwise, nested)
                    )
            made.append(part)
        return tuple(made)

    return msgspec.structs.replace(loop, body=change(loop.body, False))


class _Structuring:
    def __init__(self, jumps: Counter[str]) -> None:
        self.jumps = jumps
        """Number of remaining jumps, by label."""

    def block(self, body: Body) -> Body:
        """A list of statements; those inside its loops and branches first."""
        body = tuple([self._inside(statement) for statement in body])
        body = self._loops(body)
        body = self._exits(body)
        body = self._branches(body)
        return tuple([part for part in body if not (isinstance(part, form.Target) and not self.jumps[part.label])])

    def _inside(self, statement: form.Statement) -> form.Statement:
        match statement:
            case form.Loop():
                return self._continued(msgspec.structs.replace(statement, body=self.block(statement.body)))
            case form.Branch():
                return msgspec.structs.replace(
                    statement, body=self.block(statement.body), otherwise=self.block(statement.otherwise)
                )
        return statement

    # Jumps back

    def _loops(self, body: Body) -> Body:
        for first in range(len(body) - 1, -1, -1):
            target = body[first]
            if not isinstance(target, form.Target):
                continue
            back = [
                place for place in range(first + 1, len(body))
                if any(jump.label == target.label for jump in _gotos(body[place : place + 1]))
            ]  # fmt: skip
            if back and self._entered_at_top(body, first, back[-1]):
                inside = self._repeated(body[first + 1 : back[-1] + 1], target.label)
                last = body[back[-1]].place.last
                place = form.Place(target.place.line, target.place.column, last, target.place.file)
                loop = form.Loop(place, LoopKind.ENDLESS, self._loop_body(inside), label=f"%{target.label}")
                body = (*body[: first + 1], loop, *body[back[-1] + 1 :])
        return body

    def _entered_at_top(self, body: Body, first: int, last: int) -> bool:
        """Whether no jump from elsewhere leads into the statements after a label."""
        own = Counter(jump.label for jump in _gotos(body[first + 1 : last + 1]))
        inside = {part.label for part in statements(body[first + 1 : last + 1]) if isinstance(part, form.Target)}
        return all(self.jumps[label] == own[label] for label in inside)

    def _repeated(self, body: Body, label: str) -> Body:
        """A loop's body: jumps to its top start the next iteration, its end leaves it."""
        *rest, last = body
        place = last.place
        match last:
            case form.Jump():
                self.jumps[label] -= 1
                return self._changed(tuple(rest), label, JumpKind.CONTINUE)
            case form.Branch(body=(form.Jump(kind=JumpKind.GOTO, label=to),), otherwise=otherwise) if to == label:
                self.jumps[label] -= 1
                leave = form.Branch(place, last.condition, (), (*otherwise, form.Jump(place, JumpKind.BREAK)))
                if not otherwise:
                    opposite = form.Operation("not", (last.condition,))
                    leave = form.Branch(place, opposite, (form.Jump(place, JumpKind.BREAK),))
                return (*self._changed(tuple(rest), label, JumpKind.CONTINUE), leave)
        return (*self._changed(body, label, JumpKind.CONTINUE), form.Jump(place, JumpKind.BREAK))

    def _changed(self, body: Body, label: str, kind: JumpKind, loop: str = "") -> Body:
        """Statements with jumps to a label turned into breaks or continues of the loop around."""

        def change(block: Body, nested: bool) -> Body:
            made: list[form.Statement] = []
            for part in block:
                match part:
                    case form.Jump(kind=JumpKind.GOTO, label=to) if to == label:
                        self.jumps[label] -= 1
                        part = form.Jump(part.place, kind, (loop or f"%{label}") if nested else "")
                    case form.Loop():
                        part = msgspec.structs.replace(part, body=change(part.body, True))
                    case form.Branch():
                        part = msgspec.structs.replace(
                            part, body=change(part.body, nested), otherwise=change(part.otherwise, nested)
                        )
                made.append(part)
            return tuple(made)

        return change(body, False)

    # Jumps to the end of a loop, and behind it

    def _continued(self, loop: form.Loop) -> form.Loop:
        if not loop.body or not isinstance(loop.body[-1], form.Target):
            return loop
        target = loop.body[-1].label
        name = loop.label or f"%{target}"
        body = self._loop_body(self._changed(loop.body, target, JumpKind.CONTINUE, name))
        return msgspec.structs.replace(loop, body=body, label=name if _named(body, name) else loop.label)

    def _loop_body(self, body: Body) -> Body:
        """A loop's body without labels that nothing jumps to."""
        return tuple([part for part in body if not (isinstance(part, form.Target) and not self.jumps[part.label])])

    def _exits(self, body: Body) -> Body:
        made = list(body)
        for place in range(len(made) - 1):
            loop, target = made[place], made[place + 1]
            if isinstance(loop, form.Loop) and isinstance(target, form.Target):
                name = loop.label or f"%{target.label}"
                inside = self._changed(loop.body, target.label, JumpKind.BREAK, name)
                made[place] = msgspec.structs.replace(loop, body=inside, label=name if _named(inside, name) else "")
        return tuple(made)

    # Jumps forward

    def _branches(self, body: Body) -> Body:
        changed = True
        while changed:
            changed = False
            for last, target in enumerate(body):
                if not isinstance(target, form.Target):
                    continue
                for first in range(last - 1, -1, -1):
                    made = self._skipping(body[first], body[first + 1 : last], target.label)
                    if made is not None:
                        body = (*body[:first], *made, *body[last:])
                        changed = True
                        break
                if changed:
                    break
        return body

    def _skipping(self, jumping: form.Statement, skipped: Body, label: str) -> Body | None:
        """A statement that may jump over others, as a branch around them; None: it cannot be one."""
        if not any(jump.label == label for jump in _gotos((jumping,))):
            return None
        own = Counter(jump.label for jump in _gotos(skipped))
        inside = {part.label for part in statements(skipped) if isinstance(part, form.Target)}
        if any(self.jumps[one] != own[one] for one in inside):
            return None
        skipped = self._loop_body(skipped)
        if isinstance(jumping, form.Jump):
            self.jumps[label] -= 1
            return ()
        if isinstance(jumping, form.Branch) and self._falls(jumping, label) <= (1 if skipped else MOST_JUMPS):
            return (self._around(jumping, skipped, label),)
        return None

    def _falls(self, branch: form.Branch, label: str) -> int:
        """The number of ways past the end of a branch that do not jump; many if a jump stands elsewhere than last."""
        ways = 0
        for block in (branch.body, branch.otherwise):
            last = block[-1] if block else None
            before = block[:-1] if isinstance(last, (form.Jump, form.Branch)) else block
            if any(jump.label == label for jump in _gotos(before)):
                return MOST_JUMPS + 1
            if isinstance(last, form.Branch) and any(jump.label == label for jump in _gotos((last,))):
                ways += self._falls(last, label)
            elif not ends(block):
                ways += 1
        return ways

    def _around(self, branch: form.Branch, skipped: Body, label: str) -> form.Branch:
        arms: list[Body] = []
        for block in (branch.body, branch.otherwise):
            last = block[-1] if block else None
            if isinstance(last, form.Jump) and last.kind is JumpKind.GOTO and last.label == label:
                self.jumps[label] -= 1
                block = block[:-1]
            elif isinstance(last, form.Branch) and any(jump.label == label for jump in _gotos((last,))):
                block = (*block[:-1], self._around(last, skipped, label))
            elif not ends(block):
                block = (*block, *skipped)
            arms.append(block)
        if not arms[0] and arms[1]:
            return form.Branch(branch.place, form.Operation("not", (branch.condition,)), arms[1])
        return msgspec.structs.replace(branch, body=arms[0], otherwise=arms[1])


def _gotos(body: Sequence[form.Statement]) -> Iterator[form.Jump]:
    for part in statements(body):
        if isinstance(part, form.Jump) and part.kind is JumpKind.GOTO:
            yield part


def _named(body: Body, name: str) -> bool:
    """Whether a break or continue inside names the loop."""
    return any(isinstance(part, form.Jump) and part.label == name for part in statements(body))
