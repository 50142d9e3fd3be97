"""Recognition: the idioms in one file's form, and the dependence test's answer for each of its loops."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.tracer.source.flow.dependences import verdict
from foretrace.tracer.source.flow.effects import facts
from foretrace.tracer.source.flow.normal import normal
from foretrace.tracer.source.flow.records import Dependence, LoopFacts, LoopVerdict
from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.text import expression_text, type_text
from foretrace.tracer.source.form.walk import within

from .bindings import Match
from .conditions import offsets, sources
from .consistency import agrees, flows
from .matching import matches
from .patterns import IdiomDefinition
from .python_values import is_of_arrays, views
from .records import ArrayUse, Finding, LoopReport
from .steps import Step, prepared
from .surroundings import FunctionSurroundings

MOST_TEXT = 200
"""Characters of source text in a finding."""

_UNKNOWN_INSIDE = 0.7
_CALLS_INSIDE = 0.9
_EARLY_EXIT = 0.95


def recognised(
    unit: form.Unit, definitions: Sequence[IdiomDefinition], lines: Sequence[str]
) -> tuple[list[Finding], list[LoopReport], list[form.Place]]:
    """Idioms and loops of a file, and statements that match idioms in more ways than are tried.

    `lines` is the file's source, for the text of findings.
    """
    findings: list[Finding] = []
    reports: list[LoopReport] = []
    unfinished: list[form.Place] = []
    for function in unit.functions:
        loops = facts(normal(function))
        verdicts = {id(loop.loop): verdict(loop) for loop in loops}
        reports += [_report(unit, loop, verdicts[id(loop.loop)]) for loop in loops if not loop.loop.synthetic]
        named = views(function) if unit.language is form.Language.PYTHON else frozenset()
        surroundings = FunctionSurroundings()
        _add(findings, _in_function(unit, loops, verdicts, named, definitions, lines, surroundings))
        unfinished += surroundings.unfinished
    return findings, reports, unfinished


def _report(unit: form.Unit, loop: LoopFacts, found: LoopVerdict) -> LoopReport:
    place = loop.loop.place
    return LoopReport(
        file=unit.files[place.file],
        line=place.line,
        last_line=place.last,
        function=loop.function.name,
        lowered=not loop.unknown and loop.loop.kind is not form.LoopKind.UNKNOWN,
        verdict=found.verdict,
        reason="; ".join(
            dict.fromkeys([*map(_reduction, found.reductions), *map(_dependence, found.dependences), *found.reasons])
        ),
        assumptions=found.assumptions,
        column=place.column,
        flows=tuple(map(_dependence, filter(flows, found.dependences))),
    )


def _reduction(reduction: tuple[str, str]) -> str:
    variable, operator = reduction
    return f"{variable} is reduced by {operator}"


def _dependence(dependence: Dependence) -> str:
    distance = "a varying distance" if dependence.distance is None else f"distance {dependence.distance}"
    places = f"lines {dependence.source.place.line} and {dependence.sink.place.line}"
    return f"{dependence.source.array} {'has' if dependence.certain else 'may have'} {distance} between {places}"


def _add(findings: list[Finding], found: Sequence[Finding]) -> None:
    """Append findings of one function; those of another instance of the same template are the same findings."""
    known = {(one.file, one.first_line, one.idiom) for one in findings}
    moved: dict[int, int] = {}
    for position, one in enumerate(found):
        if (one.file, one.first_line, one.idiom) in known:
            continue
        moved[position] = len(findings)
        parent = moved.get(one.parent) if one.parent is not None else None
        findings.append(one.with_parent(parent))


def _in_function(
    unit: form.Unit,
    loops: Sequence[LoopFacts],
    verdicts: dict[int, LoopVerdict],
    named: frozenset[tuple[form.Place, str]],
    definitions: Sequence[IdiomDefinition],
    lines: Sequence[str],
    surroundings: FunctionSurroundings,
) -> list[Finding]:
    facts_of = {id(loop.loop): loop for loop in loops}
    steps = [
        step for loop in loops
        for step in prepared(loop, facts_of.get(id(loop.nest[-2])) if len(loop.nest) > 1 else None, surroundings)
    ]  # fmt: skip
    beside: dict[int, list[Step]] = {}
    for step in steps:
        beside.setdefault(id(step.effect.nest[-1]), []).append(step)
    by_name = {definition.name: definition for definition in definitions}
    places = {id(step): position for position, step in enumerate(steps)}
    claimed: set[int] = set()
    placed: set[form.Place] = set()
    found: list[Finding] = []
    for definition in definitions:  # the most specific one claims first
        for position, step in enumerate(steps):
            if position in claimed:
                continue
            near = beside[id(step.effect.nest[-1])]
            match = next(matches(definition, near, step), None)
            if match is None or any(index in claimed for index in _positions(match, places)):
                continue
            if step.effect.place in placed and _of_temporaries(step):
                continue
            around = [verdicts[id(loop)] for loop in step.effect.nest if id(loop) in verdicts]
            part_of = [part for part in (by_name.get(name) for name in definition.parts) if part is not None]
            carries = any(next(matches(part, near, step), None) for part in part_of if part.name == "recurrence")
            if not agrees(match, around, carries=carries):
                continue
            if unit.language is form.Language.PYTHON and not is_of_arrays(match, named):
                continue
            claimed.update(_positions(match, places))
            placed.update(one.effect.place for one in match.steps)
            parent = len(found)
            found.append(_finding(unit, match, lines, None))
            for name in by_name:
                part = next(matches(by_name[name], near, step), None) if name in definition.parts else None
                if part is not None:
                    found.append(_finding(unit, part, lines, parent))
    return found


def _of_temporaries(step: Step) -> bool:
    """Whether a statement from array syntax only clears its target, or copies values computed before."""
    return step.effect.nest[-1].synthetic and all(
        part.name.startswith("%") for part in within(step.value) if isinstance(part, form.Name)
    )


def _positions(match: Match, places: dict[int, int]) -> list[int]:
    return [places[id(one)] for one in match.steps]


def _finding(unit: form.Unit, match: Match, lines: Sequence[str], parent: int | None) -> Finding:
    step = match.steps[0]
    places = [one.effect.place for one in match.steps]
    first, last = min(place.line for place in places), max(place.last for place in places)
    confidence, reason = _confidence(match)
    return Finding(
        file=unit.files[places[0].file],
        first_line=first,
        last_line=last,
        loop_line=step.effect.nest[-1].place.line,
        function=step.facts.function.name,
        language=unit.language,
        idiom=match.definition.name,
        depth=len(step.effect.nest),
        induction=tuple(variable for variable in step.variables if variable),
        arrays=_arrays(match),
        text=_text(lines, first, last) if places[0].file == 0 else "",
        confidence=confidence,
        reason=reason,
        shape=_shape(match),
        parent=parent,
    )


def _arrays(match: Match) -> tuple[ArrayUse, ...]:
    function = match.steps[0].facts.function
    uses = []
    for role, access in sources(match).items():
        variable = function.variables.get(access.array.split(".")[0])
        element = _element(variable.type) if variable is not None and "." not in access.array else ""
        index = ", ".join(expression_text(index.expression) for index in access.indices)
        uses.append(ArrayUse(role, access.array, element, index[:MOST_TEXT]))
    return tuple(uses)


def _element(kind: form.Type) -> str:
    match kind:
        case form.ArrayType(element=element) | form.PointerType(element=element):
            return type_text(element)
    return type_text(kind)


def _text(lines: Sequence[str], first: int, last: int) -> str:
    text = " ".join(line.strip() for line in lines[first - 1 : last])
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 3] + "..."


def _shape(match: Match) -> str:
    """A stencil's offsets, of the array that is read at most places."""
    if match.definition.name != "stencil":
        return ""
    widest = max(offsets(match).values(), key=len, default=())
    return " ".join(f"({','.join(map(str, offset))})" for offset in widest)


def _confidence(match: Match) -> tuple[float, str]:
    """Confidence of the finding, and its reasons."""
    confidence = match.definition.confidence
    reasons = [match.definition.summary]
    loop = match.steps[0].facts
    if loop.unknown:
        confidence *= _UNKNOWN_INSIDE
        reasons.append(f"a part of the loop was not understood: {loop.unknown[0]}")
    if loop.calls:
        confidence *= _CALLS_INSIDE
        reasons.append(f"the loop calls {loop.calls[0]}, which may change what it reads")
    if loop.early_exit:
        confidence *= _EARLY_EXIT
        reasons.append("the loop may end early")
    if match.steps[0].conditions and not match.pattern.statements[0].guards:
        reasons.append("under a condition")
    return round(confidence, 2), "; ".join(reasons)
