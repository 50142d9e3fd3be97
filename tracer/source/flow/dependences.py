"""The dependence test: loop-carried dependences between the iterations of a loop.

Scalars are private, reductions or recurrences. Every two accesses to one array, one of them a store, are tested for
meeting in different iterations: dimension by dimension (equal subscripts, constant distances, greatest common
divisor, ranges), then, only if that does not decide, by an exact test over the integers. The induction variables of
outer loops are fixed; those of inner loops vary independently on both sides.

After Goff, Kennedy and Tseng, "Practical dependence testing", PLDI 1991; Banerjee, "Dependence analysis for
supercomputing", 1988.

The module is long for one algorithm: each test is tried where the one before it did not decide.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import gcd

from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.records import Kind, LoopKind, Storage
from foretrace.tracer.source.form.text import expression_text
from foretrace.tracer.source.form.walk import names, parts, statements, within

from . import algebra
from .algebra import Polynomial
from .integer_sets import System, renamed
from .records import Access, Dependence, Effect, LoopFacts, LoopVerdict, Verdict
from .reductions import reduction_operator
from .stores import resized_arrays, without_sizes
from .subscripts import Part, Scope, array_name, extreme, parted, parted_by, strides_of
from .subscripts import loads as element_loads

MOST_PAIRS = 2_000
"""Pairs of accesses tested in one loop; with more its verdict is UNKNOWN."""


def verdict(facts: LoopFacts) -> LoopVerdict:
    """Verdict on a loop's carried dependences, with the assumptions it rests on."""
    return _Test(facts).run()


@dataclass(frozen=True, slots=True)
class _Site:
    """An access and where it stands."""

    access: Access
    effect: Effect
    order: int

    @property
    def key(self) -> tuple[form.Expression, int]:
        """Key of an access; accesses with equal keys meet the same other accesses."""
        return self.access.subscript, id(self.effect.nest[-1])


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Two accesses that may meet in different iterations."""

    distance: int | None
    """Iterations from the first one to the second one; negative: the second one comes first."""
    certain: bool
    test: str


@dataclass(slots=True)
class _Group:
    """Accesses to an array that meet one another in different iterations, and no others."""

    meetings: list[tuple[_Site, _Site, _Meeting]] = field(default_factory=list)
    written: list[_Site] = field(default_factory=list)
    read: list[_Site] = field(default_factory=list)


@dataclass
class _Test:
    facts: LoopFacts
    dependences: list[Dependence] = field(default_factory=list)
    reductions: dict[str, str] = field(default_factory=dict)
    private: dict[str, None] = field(default_factory=dict)
    assumptions: dict[str, None] = field(default_factory=dict)
    reasons: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        facts = self.facts
        self.loop = facts.loop
        self.depth = len(facts.nest)
        self.counted = self.loop.kind is LoopKind.COUNTED
        self.variables = facts.function.variables
        inner = {loop.variable for effect in facts.effects for loop in effect.nest[self.depth :]}
        scalars = {effect.target.name for effect in facts.effects if isinstance(effect.target, form.Name)}
        self.loop_variables = frozenset(inner | {self.loop.variable})
        self.varying = frozenset(scalars | inner | {self.loop.variable} | {name.name for name in facts.carried})
        self.stored = frozenset(effect.store.array for effect in facts.effects if effect.store is not None)
        self.step = 1 if self.loop.step is None else 0
        """0: not a number."""
        if isinstance(self.loop.step, form.Constant) and isinstance(self.loop.step.value, int):
            self.step = self.loop.step.value
        self._invariant: dict[int, tuple[form.Expression, bool]] = {}
        self._known_sizes: list[Polynomial] | None = None
        self._resized: frozenset[tuple[str, int]] | None = None

    def run(self) -> LoopVerdict:
        facts = self.facts
        for reason in facts.unknown:
            self.reasons[reason] = None
        for call in facts.calls:
            self.reasons[f"{call} is called: its effects are not known"] = None
        if facts.early_exit:
            self.reasons["a jump may leave it before its last iteration"] = None
        if not self.counted:
            self.reasons["its number of iterations is not fixed on entry"] = None
        self._scalars()
        self._arrays()
        self._aliases()
        certain = any(dependence.certain for dependence in self.dependences)
        possible = bool(self.dependences or self.reasons)
        if certain:
            answer = Verdict.RECURRENCE
        elif possible and self.loop.unordered and self.counted and not (facts.early_exit or facts.unknown):
            answer = Verdict.REDUCTION if self.reductions else Verdict.PARALLEL
            self.assumptions["the source declares its iterations independent"] = None
        elif possible:
            answer = Verdict.UNKNOWN
        else:
            answer = Verdict.REDUCTION if self.reductions else Verdict.PARALLEL
        return LoopVerdict(
            answer, tuple(self.dependences), tuple(sorted(self.reductions.items())), tuple(self.private),
            tuple(self.assumptions), tuple(self.reasons),
        )  # fmt: skip

    # Scalars

    def _scalars(self) -> None:
        carried = {name.name for name in self.facts.carried}
        live_out = {name.name for name in self.facts.live_out}
        assigned: dict[str, list[Effect]] = {}
        for effect in self.facts.effects:
            if isinstance(effect.target, form.Name) and effect.store is None:
                assigned.setdefault(effect.target.name, []).append(effect)
        located: dict[str, str] = {}
        for name in sorted(carried):
            effects = assigned.get(name, [])
            if not effects:
                continue
            operator = self._scalar_reduction(name, effects, located, carried)
            if operator:
                self.reductions[name] = operator
            elif self._is_induction(name, effects):
                self.private[name] = None
            else:
                self._scalar_dependence(name, effects[-1], effects[0])
        for name, effects in assigned.items():
            if name in carried:
                continue
            if name in located:
                self.reductions[name] = located[name]
            elif name in live_out and not any(self._always(effect) for effect in effects):
                if all(self.invariant(effect.value) for effect in effects) and len({e.value for e in effects}) == 1:
                    self.reductions[name] = "any"
                else:  # no iteration reads it, but the last one that assigns it decides what follows
                    self._scalar_dependence(name, effects[-1], effects[0], certain=not self._has_jumps())
            else:
                self.private[name] = None

    def _is_induction(self, name: str, effects: Sequence[Effect]) -> bool:
        """Whether a scalar is an induction variable: each iteration advances an integer or pointer by the same amount.

        Counted loops have no induction variables left but their own; other loops keep them.
        """
        variable = self.variables.get(name)
        kind = variable.type if variable is not None else None
        if not isinstance(kind, form.PointerType) and not (
            isinstance(kind, form.ScalarType) and kind.kind is Kind.INTEGER
        ):
            return False
        own = form.Name(name)
        for effect in effects:
            moved = algebra.plus(algebra.polynomial(effect.value), {(own,): 1}, -1)
            steady = all(self.invariant(atom) for product in moved for atom in product)
            if not steady or len(effect.nest) != self.depth or not all(map(self.invariant, effect.conditions)):
                return False
        return True

    def _has_jumps(self) -> bool:
        """Whether the function has a GOTO: then every scalar is taken to be read after the loop."""
        return any(
            isinstance(part, form.Target) or (isinstance(part, form.Jump) and part.kind is form.JumpKind.GOTO)
            for part in statements(self.facts.function.body)
        )

    def _scalar_dependence(self, name: str, source: Effect, sink: Effect, *, certain: bool = True) -> None:
        read = Access(name, form.Name(name), (), False, sink.place)
        written = Access(name, form.Name(name), (), True, source.place)
        self.dependences.append(Dependence(written, read, 1, certain, "scalar"))

    def _scalar_reduction(
        self, name: str, effects: Sequence[Effect], located: dict[str, str], carried: set[str]
    ) -> str:
        own = form.Name(name)
        operators = {reduction_operator(own, effect.value, effect.conditions) for effect in effects}
        operator = next(iter(operators)) if len(operators) == 1 else ""
        if not operator:
            return ""
        ours = {id(effect) for effect in effects}
        guarded = operator in ("min", "max") and len(effects) == 1
        places: list[str] = []
        for effect in self.facts.effects:
            if id(effect) in ours:
                continue
            if self._mentions(effect, name):
                target = effect.target
                if (
                    guarded and isinstance(target, form.Name) and target.name not in carried
                    and effect.conditions == effects[0].conditions and name not in names(effect.value)
                ):  # fmt: skip
                    places.append(target.name)
                    continue
                return ""
        for loop in self._inner_loops():
            if any(
                part is not None and name in names(part) for part in (loop.first, loop.last, loop.step, loop.condition)
            ):
                return ""
        for effect in effects:
            if any(name in names(condition) for condition in effect.conditions) and not guarded:
                return ""
        for place in places:
            located[place] = f"{operator}loc"
        return operator

    def _mentions(self, effect: Effect, name: str) -> bool:
        if name in names(effect.value) or any(name in names(condition) for condition in effect.conditions):
            return True
        return not isinstance(effect.target, form.Name) and name in names(effect.target)

    def _inner_loops(self) -> Iterator[form.Loop]:
        seen: set[int] = set()
        for effect in self.facts.effects:
            for loop in effect.nest[self.depth :]:
                if id(loop) not in seen:
                    seen.add(id(loop))
                    yield loop

    def _always(self, effect: Effect) -> bool:
        """Whether an effect takes place in all iterations or in none."""
        parts = [*effect.conditions]
        for loop in effect.nest[self.depth :]:
            if loop.kind is not LoopKind.COUNTED:
                return False
            parts += [part for part in (loop.first, loop.last, loop.step) if part is not None]
        return all(map(self.invariant, parts))

    def invariant(self, expression: form.Expression) -> bool:
        """Whether an expression has the same value in all iterations."""
        known = self._invariant.get(id(expression))
        if known is None:
            known = (expression, self._is_invariant(expression))
            self._invariant[id(expression)] = known
        return known[1]

    def _is_invariant(self, expression: form.Expression) -> bool:
        if any(isinstance(part, form.Call) and part.function == "size" for part in within(expression)):
            if self._resized is None:
                self._resized = resized_arrays(self.loop.body, self.variables)
            expression = without_sizes(expression, self._resized)
        for part in within(expression):
            if isinstance(part, form.Name) and part.name in self.varying:
                return False
            if isinstance(part, (form.Subscript, form.Member)) and array_name(part) in self.stored:
                return False
            if isinstance(part, form.Unknown) or (isinstance(part, form.Call) and not part.pure):
                return False
        return True

    # Arrays

    def _arrays(self) -> None:
        stores: dict[str, list[_Site]] = {}
        loads: dict[str, list[_Site]] = {}
        for order, effect in enumerate(self.facts.effects):
            for access in effect.loads:
                loads.setdefault(access.array, []).append(_Site(access, effect, order))
            for access in self._hidden(effect):
                loads.setdefault(access.array, []).append(_Site(access, effect, order))
            if effect.store is not None:
                stores.setdefault(effect.store.array, []).append(_Site(effect.store, effect, order))
        for site in self._bounds_read():
            loads.setdefault(site.access.array, []).append(site)
        self._overlapping_names(stores, loads)
        pairs = 0
        for array, written in stores.items():
            read = loads.get(array, [])
            if self._is_private(array, written, read):
                self.private[array] = None
                continue
            if not self.counted:
                continue
            pairs += len(written) * (len(written) + len(read))
            if pairs > MOST_PAIRS:
                self.reasons[f"more than {MOST_PAIRS} pairs of accesses"] = None
                return
            for group in self._groups(self._meetings(written, read), written, read):
                self._judge(array, group)

    def _judge(self, array: str, group: _Group) -> None:
        """Classify an array by the accesses of a group: private, a reduction, or dependences."""
        written, read = group.written, group.read
        place = written[0].access.subscript
        if self._is_overwritten(written, read):
            self.private[expression_text(place)] = None
            self.assumptions[f"each iteration has its own {expression_text(place)}"] = None
            return
        operator = self._array_reduction(written, read)
        if operator:
            self.reductions[array] = operator
        elif all(site.effect.atomic for site in written) and self._updates(written, read):
            self.reductions[array] = "atomic"
        elif not self.loop.unordered and self._stores_one_value(written, read):
            self.reductions.setdefault(array, "any")
        else:
            self.dependences.extend(self._dependence(*meeting) for meeting in group.meetings)

    def _is_overwritten(self, written: Sequence[_Site], read: Sequence[_Site]) -> bool:
        """Whether all accesses are to one place, which each iteration stores to before it reads it.

        So a member or an element serves as a temporary. What the last iteration leaves there may be read later.
        """
        place = written[0].access.subscript
        if isinstance(place, form.Name) or any(site.access.subscript != place for site in (*written, *read)):
            return False
        if not self.invariant_place(place) or not any(self._always(site.effect) for site in written):
            return False
        return all(any(self._precedes(store, load) for store in written) for load in read)

    def invariant_place(self, place: form.Expression) -> bool:
        """Whether an access means the same element or member in all iterations."""
        while isinstance(place, (form.Member, form.Subscript)):
            if isinstance(place, form.Subscript) and not all(map(self.invariant, place.indices)):
                return False
            place = place.base
            if isinstance(place, form.Subscript) and not self._fixed_base(place):
                return False
        return self.invariant(place)

    def _precedes(self, store: _Site, load: _Site) -> bool:
        """Whether a store to the place that is loaded runs before the load in each iteration that has the load."""
        if store.order >= load.order or any(one not in load.effect.conditions for one in store.effect.conditions):
            return False
        return store.effect.nest == load.effect.nest[: len(store.effect.nest)]

    def _stores_one_value(self, written: Sequence[_Site], read: Sequence[_Site]) -> bool:
        """Whether all stores are of one value, and nothing is read: then their order does not matter."""
        value = written[0].effect.value
        if read or not self.invariant(value):
            return False
        return all(site.effect.value == value and site.access.subscript == site.effect.target for site in written)

    def _groups(
        self, meetings: Sequence[tuple[_Site, _Site, _Meeting]], written: Sequence[_Site], read: Sequence[_Site]
    ) -> list[_Group]:
        """The accesses that may meet in different iterations, those that cannot meet in groups of their own."""
        if not meetings:
            return []
        heads: dict[tuple[form.Expression, int], tuple[form.Expression, int]] = {}

        def head(key: tuple[form.Expression, int]) -> tuple[form.Expression, int]:
            while (above := heads.get(key, key)) != key:
                key = above
            return key

        for one, other, _ in meetings:
            heads[head(one.key)] = head(other.key)
        groups: dict[tuple[form.Expression, int], _Group] = {}
        for meeting in meetings:
            groups.setdefault(head(meeting[0].key), _Group()).meetings.append(meeting)
        for site in written:
            if (group := groups.get(head(site.key))) is not None:
                group.written.append(site)
        for site in read:
            if (group := groups.get(head(site.key))) is not None:
                group.read.append(site)
        return list(groups.values())

    def _bounds_read(self) -> Iterator[_Site]:
        """Elements that bounds and conditions of inner loops read."""
        seen: set[int] = set()
        for order, effect in enumerate(self.facts.effects):
            for position in range(self.depth, len(effect.nest)):
                loop = effect.nest[position]
                if id(loop) in seen:
                    continue
                seen.add(id(loop))
                outer = effect.nest[:position]
                head = replace(effect, nest=outer, conditions=())
                for bound in (loop.first, loop.last, loop.step, loop.condition):
                    if bound is not None:
                        read = without_sizes(bound, ())
                        for access in element_loads(read, Scope(outer, self.variables), loop.place):
                            yield _Site(access, head, order)

    def _hidden(self, effect: Effect) -> Iterator[Access]:
        """Reads of stored arrays as wholes (arguments of calls), and of members of variables."""
        wholes = [effect.value, *effect.conditions]
        if effect.store is not None and isinstance(effect.target, (form.Subscript, form.Member)):
            wholes += parts(effect.target)[1:]
        pending = list(wholes)
        while pending:
            part = pending.pop()
            match part:
                case form.Subscript(base=base, indices=indices):
                    pending.extend(indices)
                    while isinstance(base, form.Member):
                        base = base.base
                    if not isinstance(base, form.Name):
                        pending.append(base)
                    continue
                case form.Call(function="size" | "shape"):
                    continue
                case form.Member() if array_name(part) in self.stored:
                    yield Access(array_name(part), part, (), False, effect.place)
                case form.Name(name=name) if name in self.stored:
                    yield Access(name, part, (), False, effect.place)
            pending.extend(parts(part))

    def _overlapping_names(self, stores: dict[str, list[_Site]], loads: dict[str, list[_Site]]) -> None:
        """Accesses to a structure as a whole meet those to its members."""
        for array in list(stores):
            for other in {*stores, *loads}:
                if other != array and other.startswith(f"{array}."):
                    loads.setdefault(array, []).extend(loads.get(other, []))
                    loads[array].extend(stores.get(other, []))
                elif other != array and array.startswith(f"{other}.") and other in loads:
                    loads.setdefault(array, []).extend(loads[other])

    def _meetings(self, written: Sequence[_Site], read: Sequence[_Site]) -> list[tuple[_Site, _Site, _Meeting]]:
        found: list[tuple[_Site, _Site, _Meeting]] = []
        tested: set[tuple[form.Expression, form.Expression, bool, int, int]] = set()
        for position, store in enumerate(written):
            for other in (*written[position:], *read):
                key = (
                    store.access.subscript, other.access.subscript, other.access.store,
                    id(store.effect.nest[-1]), id(other.effect.nest[-1]),
                )  # fmt: skip
                if key in tested:
                    continue
                tested.add(key)
                meeting = self._meeting(store, other)
                if meeting is not None:
                    found.append((store, other, meeting))
        return found

    def _dependence(self, store: _Site, other: _Site, meeting: _Meeting) -> Dependence:
        source, sink, distance = store.access, other.access, meeting.distance
        if distance is not None and distance < 0:
            source, sink, distance = sink, source, -distance
        return Dependence(source, sink, distance, meeting.certain, meeting.test)

    def _meeting(self, store: _Site, other: _Site) -> _Meeting | None:
        """Whether two accesses can meet in different iterations; None: they cannot."""
        sides = self._subscripts(store, other)
        if sides is None:
            return _Meeting(None, False, "indirect")
        inner = {loop.variable for loop in other.effect.nest[self.depth :]} | {self.loop.variable}
        primed = {name: f"{name}'" for name in inner}
        free = self.loop_variables | frozenset(primed.values())
        equations: list[Polynomial] = []
        distance: int | None = None
        exact, opaque = True, False
        test = "gcd"
        for left, right in sides:
            if not self._affine(left, store) or not self._affine(right, other):
                opaque, exact = True, False
                continue
            terms = algebra.plus(left, renamed(right, primed), -1)
            moved, rest = _parted(terms, free)
            equations.append(terms)
            if not moved:
                gap = algebra.constant(rest)
                if gap is None:
                    exact = False
                elif gap:
                    return None
                continue
            factor = moved.get(self.loop.variable)
            own, its = factor or {}, moved.get(primed[self.loop.variable], {})
            if len(moved) == 2 and factor and own == algebra.scaled(its, -1):
                shift = _multiple(rest, own)
                if shift is None:
                    number = algebra.constant(own)
                    if number is not None and algebra.constant(rest) is not None:
                        return None
                    exact = False
                    continue
                if algebra.constant(own) is None:
                    self.assumptions[f"{expression_text(algebra.expression(own))} is not 0"] = None
                if shift == 0 or (self.step and shift % self.step):
                    return None
                iterations = shift // (self.step or 1)
                if distance is not None and distance != iterations:
                    return None
                distance = iterations
                continue
            exact = False
            numbers = [algebra.constant(part) for part in moved.values()]
            known = [number for number in numbers if number is not None]
            gap = algebra.constant(rest)
            if len(known) == len(numbers) and gap is not None and gap % gcd(*known):
                return None
        if distance is not None and self._too_far(distance):
            return None
        if self.step == 0:
            return _Meeting(None, False, test)
        if exact and not opaque:
            return _Meeting(distance if distance is not None else 1, True, test)
        if equations:
            decided = self._exact(store, other, equations, primed)
            if decided is None:
                pass
            elif decided:
                return None
            elif not opaque:
                plain = all(_plain(terms, free) for terms in equations)
                plain = plain and self._are_known(store.effect.nest) and self._are_known(other.effect.nest)
                return _Meeting(distance, plain, "exact")
        if opaque:
            return _Meeting(distance, False, "indirect")
        return _Meeting(distance, False, "banerjee")

    def _too_far(self, distance: int) -> bool:
        assert self.loop.first is not None
        assert self.loop.last is not None
        span = algebra.difference(self.loop.last, self.loop.first)
        return span is not None and abs(distance * self.step) > abs(span)

    def _subscripts(self, store: _Site, other: _Site) -> list[tuple[Polynomial, Polynomial]] | None:
        """The two accesses' indices, dimension by dimension, where their dimensions correspond."""
        sides = []
        for site in (store, other):
            subscript = site.access.subscript
            while isinstance(subscript, form.Member):
                subscript = subscript.base
            if not isinstance(subscript, form.Subscript):
                return [] if isinstance(site.access.subscript, form.Member) else None
            sides.append(self._flattened(subscript))
        first, second = sides
        if first.base != second.base or not self._fixed_base(first.base):
            return None
        if len(first.indices) != len(second.indices):
            return None
        pairs: list[tuple[Polynomial, Polynomial]] = []
        around = self.facts.nest
        for part, its in zip(first.indices, second.indices, strict=True):
            own, theirs = Scope(store.effect.nest, self.variables), Scope(other.effect.nest, self.variables)
            both = _alike(parted(part, own), parted(its, theirs), around)
            if not both:
                strides = strides_of(part, own, strides_of(its, theirs))
                both = _alike(parted_by(part, own, strides), parted_by(its, theirs, strides), around)
            pairs += both or [(algebra.polynomial(part), algebra.polynomial(its))]
        return pairs

    def _flattened(self, subscript: form.Subscript) -> form.Subscript:
        """`a[i][j]` behind pointers, and `a[i].m[j]`, as one subscript; rows are assumed to lie apart."""
        base, indices = subscript.base, subscript.indices
        while True:
            inner = base
            while isinstance(inner, form.Member):
                inner = inner.base
            if not isinstance(inner, form.Subscript) or array_name(inner) in self.stored:
                return form.Subscript(base, indices)
            self.assumptions[f"rows of {array_name(inner)} do not overlap"] = None
            base, indices = inner.base, (*inner.indices, *indices)

    def _fixed_base(self, base: form.Expression) -> bool:
        """Whether a base is the same array in all iterations: an array's elements may change, a pointer may not."""
        while isinstance(base, form.Member):
            base = base.base
        return self.invariant(base)

    def _affine(self, terms: Polynomial, site: _Site) -> bool:
        """Whether a subscript is a sum of variables of the loops around it times invariants, plus an invariant."""
        around = {loop.variable for loop in site.effect.nest if loop.kind is LoopKind.COUNTED}
        for product in terms:
            loops = 0
            for atom in product:
                if isinstance(atom, form.Name) and atom.name in self.loop_variables:
                    if atom.name not in around:
                        return False
                    loops += 1
                elif not self.invariant(atom):
                    return False
            if loops > 1:
                return False
        return True

    # The exact test

    def _exact(
        self, store: _Site, other: _Site, equations: Sequence[Polynomial], primed: dict[str, str]
    ) -> bool | None:
        """True: the accesses never meet in different iterations. False: they may. None: not decided."""
        found = self._solved(store, other, equations, primed, ())
        if found:
            return True
        atoms = {atom for terms in equations for product in terms for atom in product}
        sizes = [size for size in self._sizes() if atoms & {atom for product in size for atom in product}]
        if sizes and self._solved(store, other, equations, primed, sizes):
            for size in sizes:
                self.assumptions[f"{expression_text(algebra.expression(size))} is not negative"] = None
            return True
        return found

    def _sizes(self) -> list[Polynomial]:
        """Numbers of iterations of inner loops, where they do not change: counts of something, so at least 0."""
        if self._known_sizes is None:
            found: list[Polynomial] = []
            for loop in self._inner_loops():
                if loop.kind is not LoopKind.COUNTED or loop.step or loop.first is None or loop.last is None:
                    continue
                first, last = self._bound(loop.first, {}), self._bound(loop.last, {})
                if first is None or last is None:
                    continue
                size = algebra.plus(algebra.plus(last, first, -1), {(): 1})
                atoms = [atom for product in size for atom in product]
                if atoms and all(map(self.invariant, atoms)) and size not in found:
                    found.append(size)
            self._known_sizes = found
        return self._known_sizes

    def _solved(
        self, store: _Site, other: _Site, equations: Sequence[Polynomial], primed: dict[str, str],
        sizes: Sequence[Polynomial],
    ) -> bool | None:  # fmt: skip
        answers = []
        own: Polynomial = {(form.Name(self.loop.variable),): 1}
        its: Polynomial = {(form.Name(primed[self.loop.variable]),): 1}
        for direction, negative in itertools.product((1, -1), (False, True)):
            system = System()
            for terms in equations:
                if all(len(atoms) <= 1 for atoms in terms):
                    system.require(terms, equal=True)
            self._bounds(system, store.effect.nest, {})
            self._bounds(system, other.effect.nest, primed)
            if system.is_large:
                return None
            gap = algebra.scaled(algebra.plus(own, its, -1), direction)
            system.require(algebra.plus(gap, {(): 1}, -1))
            for size in sizes:
                system.require(size)
            if not _require_quotients(system, negative=negative) and negative:
                continue
            answers.append(system.empty())
        if all(answers):
            return True
        return None if None in answers else False

    def _are_known(self, nest: Sequence[form.Loop]) -> bool:
        """Whether the bounds of the loops inside this one are known, so that an exact solution is one of theirs."""
        return all(
            loop.kind is LoopKind.COUNTED and loop.first is not None and loop.last is not None
            and self._bound(loop.first, {}) is not None and self._bound(loop.last, {}) is not None
            for loop in nest[self.depth :]
        )  # fmt: skip

    def _bounds(self, system: System, nest: Sequence[form.Loop], primed: dict[str, str]) -> None:
        for position, loop in enumerate(nest):
            if system.is_large:
                return
            if loop.kind is not LoopKind.COUNTED or loop.first is None or loop.last is None:
                continue
            if position < self.depth - 1 and primed:
                continue
            step = 1
            if loop.step is not None:
                if not isinstance(loop.step, form.Constant) or not isinstance(loop.step.value, int):
                    continue
                step = loop.step.value
            name = form.Name(primed.get(loop.variable, loop.variable))
            value: Polynomial = {(name,): 1}
            if abs(step) > 1:
                firsts = self._bound(loop.first, primed)
                if firsts is not None:
                    count: Polynomial = {(form.Name(f"{name.name}:count"),): 1}
                    system.require(algebra.plus(algebra.plus(value, firsts, -1), count, -step), equal=True)
                    system.require(count)
            lower, upper = (loop.first, loop.last) if step > 0 else (loop.last, loop.first)
            for bound in _alternatives(lower, "max"):
                terms = self._bound(bound, primed)
                if terms is not None:
                    system.require(algebra.plus(value, terms, -1))
            for bound in _alternatives(upper, "min"):
                terms = self._bound(bound, primed)
                if terms is not None:
                    system.require(algebra.plus(terms, value, -1))

    def _bound(self, bound: form.Expression, primed: dict[str, str]) -> Polynomial | None:
        terms = algebra.polynomial(bound)
        if any(len(product) > 1 for product in terms):
            return None
        for product in terms:
            for atom in product:
                if isinstance(atom, form.Name):
                    continue
                if not self.invariant(atom):
                    return None
        if any(
            isinstance(atom, form.Name) and atom.name in self.varying and atom.name not in self.loop_variables
            for product in terms for atom in product
        ):  # fmt: skip
            return None
        return renamed(terms, primed)

    # Reductions into arrays

    def _array_reduction(self, written: Sequence[_Site], read: Sequence[_Site]) -> str:
        operators: set[str] = set()
        for site in written:
            effect = site.effect
            operator = reduction_operator(effect.target, effect.value, effect.conditions)
            if not operator:
                return ""
            operators.add(operator)
        if len(operators) != 1 or not self._updates(written, read):
            return ""
        return operators.pop()

    def _updates(self, written: Sequence[_Site], read: Sequence[_Site]) -> bool:
        """Whether an array is read only to update the element that is read."""
        stores = {site.order: site for site in written}
        used: dict[int, int] = {}
        for site in read:
            store = stores.get(site.order)
            if store is None or site.access.subscript != store.access.subscript:
                return False
            used[site.order] = used.get(site.order, 0) + 1
        allowed = {
            order: 1 + sum(site.access.subscript in within(condition) for condition in site.effect.conditions)
            for order, site in stores.items()
        }
        return all(count <= max(allowed[order], 2) for order, count in used.items())

    # Private arrays

    def _is_private(self, array: str, written: Sequence[_Site], read: Sequence[_Site]) -> bool:
        variable = self.variables.get(array)
        if variable is None or not isinstance(variable.type, form.ArrayType) or variable.storage is not Storage.LOCAL:
            return False
        if array in self.facts.arrays_out or variable.address_taken:
            return False
        return all(any(self._covers(store, load) for store in written) for load in read)

    def _covers(self, store: _Site, load: _Site) -> bool:
        """Whether the value that a load reads was stored earlier in the same iteration."""
        if store.order >= load.order:
            return False
        extra = [condition for condition in store.effect.conditions if condition not in load.effect.conditions]
        if any(not self.invariant(condition) for condition in extra) or extra:
            return False
        if isinstance(store.access.subscript, form.Name):
            return store.effect.nest == load.effect.nest[: len(store.effect.nest)]
        one, two = store.access.subscript, load.access.subscript
        if not isinstance(one, form.Subscript) or not isinstance(two, form.Subscript):
            return False
        if len(one.indices) != len(two.indices) or one.base != two.base:
            return False
        ours, theirs = store.effect.nest, load.effect.nest
        shared = 0
        while shared < min(len(ours), len(theirs)) and ours[shared] is theirs[shared]:
            shared += 1
        if shared < self.depth:
            return False
        own = {loop.variable: loop for loop in ours[shared:]}
        if any(loop.kind is not LoopKind.COUNTED or loop.step is not None for loop in own.values()):
            return False
        fixed = self.varying - {loop.variable for loop in theirs}
        for left, right in zip(one.indices, two.indices, strict=True):
            if not self._covered(left, right, own, theirs[shared:], fixed):
                return False
        return not own

    def _covered(
        self,
        left: form.Expression,
        right: form.Expression,
        own: dict[str, form.Loop],
        inner: Sequence[form.Loop],
        fixed: frozenset[str],
    ) -> bool:
        used = [name for name in own if name in names(left)]
        if not used:
            return left == right and not self._loads_stored(left)
        if len(used) > 1:
            return False
        loop = own.pop(used[0])
        parts = algebra.split(algebra.polynomial(left), loop.variable)
        if parts is None or algebra.constant(parts[0]) != 1 or loop.first is None or loop.last is None:
            return False
        least = algebra.plus(parts[1], algebra.polynomial(loop.first))
        greatest = algebra.plus(parts[1], algebra.polynomial(loop.last))
        wanted = algebra.polynomial(right)
        low, high = extreme(wanted, inner, upper=False), extreme(wanted, inner, upper=True)
        if low is None or high is None:
            return False
        below = algebra.constant(algebra.plus(low, least, -1))
        above = algebra.constant(algebra.plus(greatest, high, -1))
        return below is not None and below >= 0 and above is not None and above >= 0

    def _loads_stored(self, expression: form.Expression) -> bool:
        return any(isinstance(part, form.Subscript) for part in within(expression))

    # Aliases

    def _aliases(self) -> None:
        """Lists the arrays that are assumed not to overlap."""
        accesses: dict[str, tuple[Access, bool]] = {}
        for effect in self.facts.effects:
            for access in (*effect.loads, *((effect.store,) if effect.store is not None else ())):
                known = accesses.get(access.array)
                accesses[access.array] = (access, access.store or (known is not None and known[1]))
        for site in self._bounds_read():
            accesses.setdefault(site.access.array, (site.access, False))
        listed = sorted(accesses)
        for position, one in enumerate(listed):
            for two in listed[position + 1 :]:
                if not (accesses[one][1] or accesses[two][1]) or _head(one) == _head(two):
                    continue
                if self._may_alias(one, two) and len(self.assumptions) < 20:
                    self.assumptions[f"{one} and {two} do not overlap"] = None

    def _may_alias(self, one: str, two: str) -> bool:
        kinds = []
        for array in (one, two):
            variable = self.variables.get(_head(array))
            if variable is None:
                return False
            kind = variable.type
            if isinstance(kind, form.PointerType):
                if kind.restrict:
                    return False
            elif isinstance(kind, form.ArrayType):
                if not kind.alias or (variable.storage is Storage.LOCAL and not kind.strided):
                    return False
            elif kind != form.ScalarType(Kind.UNKNOWN):
                return False
            element: form.Type = kind
            for _ in range(array.count("[]") + 1):
                while isinstance(element, form.ArrayType):
                    element = element.element
                if isinstance(element, form.PointerType):
                    element = element.element
            while isinstance(element, form.ArrayType):
                element = element.element
            if isinstance(element, form.PointerType):
                element = form.StructType("pointer", 8)
            kinds.append(element)
        if "." in one or "." in two:
            return True
        unknown = form.ScalarType(Kind.UNKNOWN)
        if kinds[0] == kinds[1] or unknown in kinds:
            return True
        return any(
            isinstance(kind, form.ScalarType) and (kind.kind is Kind.CHARACTER or kind.bytes == 1) for kind in kinds
        )


def _alike(
    left: Sequence[Part], right: Sequence[Part], around: Sequence[form.Loop]
) -> list[tuple[Polynomial, Polynomial]]:
    """The parts of two subscripts side by side, if equal subscripts have equal parts."""
    both = list(zip(left, right, strict=False))
    if len(left) != len(right) or not all(one.matches(two, around) for one, two in both):
        return []
    return [(one.terms, two.terms) for one, two in both]


def _head(array: str) -> str:
    return array.split(".")[0].split("[")[0]


def _parted(terms: Polynomial, free: frozenset[str]) -> tuple[dict[str, Polynomial], Polynomial]:
    """Factors of the free variables, and the terms without free variables."""
    moved: dict[str, Polynomial] = {}
    rest: Polynomial = {}
    for product, factor in terms.items():
        own = next((atom.name for atom in product if isinstance(atom, form.Name) and atom.name in free), None)
        if own is None:
            rest[product] = factor
        else:
            others = tuple(atom for atom in product if not (isinstance(atom, form.Name) and atom.name == own))
            moved.setdefault(own, {})[others] = factor
    return moved, rest


def _plain(terms: Polynomial, free: frozenset[str]) -> bool:
    return all(
        not product or (len(product) == 1 and isinstance(product[0], form.Name) and product[0].name in free)
        for product in terms
    )


def _multiple(rest: Polynomial, factor: Polynomial) -> int | None:
    """The k for which `rest` is k times `factor`; None if no k fits."""
    if not rest:
        return 0
    if rest.keys() != factor.keys():
        return None
    quotients = set()
    for product, amount in rest.items():
        if amount % factor[product]:
            return None
        quotients.add(amount // factor[product])
    return quotients.pop() if len(quotients) == 1 else None


def _require_quotients(system: System, *, negative: bool) -> bool:
    """Adds bounds of quotients by constants; `negative`: the sign of the one that rounds to zero. Returns whether one
    rounds to zero."""
    quotients = [
        (atom, atom.operator == "/", atom.operands[0], by)
        for atom in system.unknowns
        if isinstance(atom, form.Operation) and atom.operator in ("/", "//")
        and isinstance(atom.operands[1], form.Constant) and isinstance(by := atom.operands[1].value, int) and by > 1
    ]  # fmt: skip
    if sum(to_zero for _, to_zero, _, _ in quotients) > 1:
        return False
    for atom, to_zero, above, by in quotients:
        number = algebra.polynomial(above)
        rest = algebra.plus(number, {(atom,): by}, -1)
        if to_zero:
            system.require(algebra.plus(algebra.scaled(number, -1), {(): -1}) if negative else number)
            if negative:
                rest = algebra.scaled(rest, -1)
        system.require(rest)
        system.require(algebra.plus({(): by - 1}, rest, -1))
    return any(to_zero for _, to_zero, _, _ in quotients)


def _alternatives(bound: form.Expression, function: str) -> list[form.Expression]:
    """Bounds that all hold: the arguments of a `min` above or of a `max` below."""
    if isinstance(bound, form.Call) and bound.function == function:
        return [part for argument in bound.arguments for part in _alternatives(argument, function)]
    if isinstance(bound, form.Operation) and bound.operator in ("+", "-"):
        left, right = bound.operands
        if isinstance(left, form.Call) and left.function == function:
            made = [form.Operation(bound.operator, (part, right)) for part in left.arguments]
            return [each for part in made for each in _alternatives(part, function)]
    return [bound]
