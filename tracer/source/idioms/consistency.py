"""Idiom and verdict of one loop never contradict each other.

The dependence test proves more than a pattern shows. Where it proves that a statement carries its own result from one
iteration to the next, no idiom is that of independent iterations; where it proves that no loop carries anything, no
idiom is that of a chain.
"""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.tracer.source.flow.records import Dependence, IndexKind, LoopVerdict, Verdict
from foretrace.tracer.source.form.records import Name
from foretrace.tracer.source.form.walk import within

from .bindings import Match
from .records import Finding, LoopReport

CARRYING = frozenset({"reduction", "prefix-scan", "recurrence", "compaction", "pointer-chase"})
"""Idioms that imply a dependence carried by some surrounding loop."""
INDEPENDENT = frozenset({
    "stream", "transpose", "matrix-product", "matrix-vector-product", "sparse-product-csr", "sparse-product-ell",
    "fft-butterfly",
})  # fmt: skip
"""Idioms whose statement has no dependence of its own carried by the innermost loop, apart from sums."""


def agrees(match: Match, around: Sequence[LoopVerdict], *, carries: bool) -> bool:
    """Whether an idiom is consistent with the verdicts of the loops around its statement, outermost first.

    `carries`: it includes a recurrence, as a stencil on one array does.
    """
    name = match.definition.name
    if name in CARRYING:
        own = around[-1:] if match.bindings.scalars else around
        if around and all(one.verdict is Verdict.PARALLEL for one in own):
            return False
        return name != "reduction" or not around or not _carries_own(match, around[-1], but_the_total=True)
    if name == "stream" and around and _from_state(match, around[-1]):
        return False
    if name in INDEPENDENT or (name == "stencil" and not carries):
        return not around or not _carries_own(match, around[-1])
    return True


def flows(one: Dependence) -> bool:
    """Whether a load certainly needs an earlier store. Where it only comes before the store, a copy frees the loop."""
    return one.certain and one.source.store and not one.sink.store


def _from_state(match: Match, inner: LoopVerdict) -> bool:
    """Whether a value comes from an element or member that keeps its place, as another statement left it before."""
    read = {part for step in match.steps for part in within(step.value) if part in step.accesses}
    places = {step.effect.place for step in match.steps}
    return inner.verdict is Verdict.RECURRENCE and any(
        flows(one) and one.sink.subscript in read and one.source.place not in places
        and all(index.kind is IndexKind.INVARIANT for index in one.sink.indices)
        for one in inner.dependences
    )  # fmt: skip


def _carries_own(match: Match, inner: LoopVerdict, *, but_the_total: bool = False) -> bool:
    """Whether the innermost loop certainly carries a flow dependence of the statements on themselves.

    `but_the_total`: apart from the place that they update, which carries in any reduction.
    """
    totals = {step.target for step in match.steps} if but_the_total else set()
    places = {step.effect.place for step in match.steps}
    written = {step.store.array for step in match.steps if step.store is not None}
    written |= {step.target.name for step in match.steps if step.store is None and isinstance(step.target, Name)}
    return inner.verdict is Verdict.RECURRENCE and any(
        flows(one)
        and one.source.array in written
        and one.source.place in places
        and one.sink.place in places
        and one.sink.subscript not in totals
        for one in inner.dependences
    )


def contradictions(findings: Sequence[Finding], loops: Sequence[LoopReport]) -> list[str]:
    """Contradictions in a report, one line each: of findings that carry something all loops around are parallel, or
    the innermost loop around a finding that carries nothing is a recurrence of nothing but its one statement."""
    found = []
    for one in findings:
        around = [
            loop for loop in loops
            if loop.file == one.file and loop.function == one.function
            and loop.line <= one.loop_line and one.last_line <= loop.last_line
        ]  # fmt: skip
        if len(around) != one.depth:
            continue  # array syntax has loops of its own
        if one.idiom in CARRYING and all(loop.verdict is Verdict.PARALLEL for loop in around):
            found.append(f"{one.file}:{one.first_line}: {one.idiom}, and every loop around is parallel")
        inner = max(around, key=lambda loop: (loop.line, loop.column))
        own = f"between lines {one.first_line} and {one.first_line}"
        written = next((use.name for use in one.arrays if use.role in ("A", "C", "Y")), "")
        if one.idiom in INDEPENDENT and any(text.startswith(f"{written} has") and own in text for text in inner.flows):
            alone = sum(other.first_line == one.first_line and other.file == one.file for other in findings) == 1
            if alone:
                found.append(f"{one.file}:{one.first_line}: {one.idiom}, and {inner.reason}")
    return found
