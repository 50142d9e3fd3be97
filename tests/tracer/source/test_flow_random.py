"""The normal form and the dependence test against running random loop nests."""

from __future__ import annotations

from random import Random

import numpy as np
from effort import examples
from form_interpreter import Interpreter
from hypothesis import given, settings
from hypothesis import strategies as st
from random_nests import Conflicts, arrays, random_function, unit_of

from foretrace.tracer.source.flow.dependences import verdict
from foretrace.tracer.source.flow.effects import facts
from foretrace.tracer.source.flow.normal import normal
from foretrace.tracer.source.flow.records import Verdict
from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.text import function_text
from foretrace.tracer.source.form.walk import loops


def ran(function: form.Function, seed: int, n: int) -> dict[str, list[object]]:
    given_arrays = arrays(Random(seed))
    Interpreter(unit_of(function)).call("f", [*given_arrays.values(), n])
    return {name: values.tolist() for name, values in given_arrays.items()}


@settings(max_examples=examples(120))
@given(st.integers(0, 1 << 40))
def test_the_normal_form_computes_the_same_values(seed: int) -> None:
    function = random_function(Random(seed))
    shaped = normal(function)
    n = seed % 6
    before, after = ran(function, seed, n), ran(shaped, seed, n)
    assert before == after, f"{function_text(function)}\n{function_text(shaped)}"


@settings(max_examples=examples(120))
@given(st.integers(0, 1 << 40))
def test_no_loop_is_called_parallel_whose_iterations_meet(seed: int) -> None:
    shaped = normal(random_function(Random(seed)))
    found = facts(shaped)
    nests = list(loops(shaped.body))
    assert len(found) == len(nests)
    conflicts = Conflicts(shaped)
    with np.errstate(all="ignore"):
        conflicts.call("f", [*arrays(Random(seed)).values(), seed % 6])
    for number, each in enumerate(found):
        answer = verdict(each)
        assert each.loop.place == nests[number][-1].place
        if answer.verdict in (Verdict.PARALLEL, Verdict.REDUCTION):
            allowed = {name for name, _ in answer.reductions} | set(answer.private)
            places = {name.partition("[")[0] for name in answer.private if "[" in name}
            assert not (places - allowed) & conflicts.needed[number], answer
            allowed |= places
            kept = {effect.target.name for effect in each.effects if isinstance(effect.target, form.Name)}
            dead = {name for name in shaped.variables if name not in kept}
            text = f"loop {number} at {each.loop.place.line}: {answer}\n{function_text(shaped)}"
            assert conflicts.shared[number] <= allowed, text
            assert conflicts.flows[number] - dead <= allowed, text
