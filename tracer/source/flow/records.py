"""Records of a loop's effects, with temporaries resolved: the input of idiom matching and dependence tests.

The passes, in order:

1. `normal`: a function's form in normal shape. Loops that count are `COUNTED`, whatever their notation (`while`,
   pointers that move, countdowns); jumps that nest are loops and branches; array syntax, slices and array intrinsics
   are loops; induction variables other than the loop's own are expressed by it (`p` that advances in each iteration is
   `p0 + i`).
2. `effects`: for each loop, the effects of an iteration. Copies, temporaries and scalars that are assigned before
   they are read in the same iteration are replaced by their values: data flow decides, not text.
3. `subscripts`: the dependence of each index on the induction variables.
4. `dependences`: the dependences between iterations.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from foretrace.tracer.signature.verdicts import Verdict
from foretrace.tracer.source.form.records import Expression, Function, Loop, Name, Place, Subscript


class IndexKind(StrEnum):
    """Kind of an index, by its dependence on the induction variables of the loops around it."""

    INVARIANT = "invariant"  # not at all
    AFFINE = "affine"  # a sum of induction variables times invariants, plus what stands still in the innermost loop
    INDIRECT = "indirect"  # through elements of arrays: `depth` of them, one inside the other
    COUNTER = "counter"  # a scalar that some iterations advance: compaction, queues
    OPAQUE = "opaque"  # in another way: products of induction variables, remainders, calls


@dataclass(frozen=True, slots=True)
class Index:
    """One index of a subscript."""

    kind: IndexKind
    expression: Expression
    """The index in terms of induction variables, invariants, loads and carried scalars."""
    coefficients: tuple[tuple[str, Expression], ...] = ()
    """AFFINE: induction variable and its factor, outermost first. INDIRECT: of the innermost array's own index."""
    offset: Expression | None = None
    """AFFINE: the added term."""
    depth: int = 0
    """INDIRECT: loads between the induction variable and this index, 1 for a[b[i]]."""
    through: tuple[str, ...] = ()
    """INDIRECT: names of the index arrays, outermost load first."""


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store of array elements, or through a pointer."""

    array: str
    """The name at the root of the access with its members, `grid.cells`: two accesses of equal `array` may overlap."""
    subscript: Expression
    """Resolved expression: a `Subscript`, or a `Member` of one."""
    indices: tuple[Index, ...]
    """Indices of all subscripts on the access path: i and j of `a[i].m[j]`."""
    store: bool
    place: Place
    element_bytes: int = 0
    """0: unknown."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of a statement that later iterations or the code after the loop can observe.

    A statement whose value only temporaries of the same iteration hold is no effect: its value is part of others'.
    """

    target: Expression
    """A `Subscript`, a `Member`, or the `Name` of a scalar that lives on."""
    value: Expression
    """Value with temporaries replaced: it has constants, induction variables, invariants, loads (`Subscript`), and
    names of scalars carried from the iteration before."""
    conditions: tuple[Expression, ...]
    """All hold where the statement runs: the guards inside its loops, outermost first, resolved likewise."""
    nest: tuple[Loop, ...]
    """The loops around the statement, outermost first, in normal shape."""
    place: Place
    store: Access | None
    """None: the target is a scalar."""
    loads: tuple[Access, ...]
    """All array elements that the value, the indices and the conditions read, in order."""
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """A loop in normal shape, and the effects of its iterations."""

    function: Function
    loop: Loop
    nest: tuple[Loop, ...]
    """The loops around it and itself, outermost first."""
    effects: tuple[Effect, ...]
    """Effects of all statements inside it, including inner loops, in order."""
    carried: tuple[Name, ...]
    """Scalars that an iteration reads as the one before left them."""
    live_out: tuple[Name, ...]
    """Scalars whose value is read after the loop."""
    unknown: tuple[str, ...] = ()
    """Reasons why parts inside it were not lowered. An idiom found in spite of it has less confidence."""
    early_exit: bool = False
    """A break, return or goto may leave it before its last iteration."""
    calls: tuple[str, ...] = ()
    """Functions of unknown effects that are called inside."""
    arrays_out: tuple[str, ...] = ()
    """Local arrays it stores to that may be read after it; arrays visible to others are not listed."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """Two accesses of a loop to the same element in different iterations."""

    source: Access
    sink: Access
    distance: int | None
    """Iterations between them. None: it varies, or is not known."""
    certain: bool
    """False: it may exist; no test could exclude it."""
    test: str
    """The test that found it or failed to exclude it: "gcd", "banerjee", "exact", "scalar", "indirect", "alias"."""


@dataclass(frozen=True, slots=True)
class LoopVerdict:
    """The dependence test's answer for one loop."""

    verdict: Verdict
    dependences: tuple[Dependence, ...] = ()
    reductions: tuple[tuple[str, str], ...] = ()
    """Variable and operator."""
    private: tuple[str, ...] = ()
    """Scalars and arrays that each iteration writes before it reads them."""
    assumptions: tuple[str, ...] = ()
    """Assumptions that the answer rests on: "x and y do not overlap", "n >= 1", "col has no value twice"."""
    reasons: tuple[str, ...] = ()
    """Reasons that made it UNKNOWN: calls, statements that were not lowered, jumps out of it."""


__all__ = [
    "Access", "Dependence", "Effect", "Index", "IndexKind", "LoopFacts", "LoopVerdict", "Subscript", "Verdict",
]  # fmt: skip
