"""`foretrace predict --set` and `--per`: what people and programs see, and errors in one line."""

import json
from dataclasses import replace

import pytest
from command_line import run
from event_runs import solver_run

import foretrace
from foretrace.base.errors import PredictionError
from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.library import find
from foretrace.tracer.signature.file import write_signature
from foretrace.tracer.signature.records import SimulatedHierarchy

NAME = "solver::iterations"
MACHINES = ("jaguar-xt4", "epyc-milan-vm")


def with_caches(signature):
    (sample,) = signature.hierarchies
    hierarchies = [hierarchy_of(find(name)).hierarchy for name in MACHINES]
    return replace(
        signature,
        hierarchies=tuple(
            SimulatedHierarchy(one, sample.misses[:, [min(i, 1) for i in range(len(one.levels))]])
            for one in hierarchies
        ),
    )


@pytest.fixture
def solver(tmp_path):
    path = tmp_path / "solver.sig"
    write_signature(with_caches(solver_run(100, set_up=20_000)[0].signature()), path)
    return path


def on(*names):
    return [word for name in names for word in ("--machine", name)]


def test_json(solver):
    plain, more = (
        json.loads(run("predict", solver, *on(*MACHINES), "--json", *options).output)["predictions"]
        for options in ((), ("--set", f"{NAME}=1000"))
    )
    assert "event" not in plain[0]
    for before, after in zip(plain, more, strict=True):
        event = after["event"]
        assert (event["name"], event["traced"], event["count"], event["unit"]) == (NAME, 100, 1000, "iteration")
        assert event["traced_s"] == before["time_s"]
        assert after["time_s"] == pytest.approx(event["ratio"] * before["time_s"])
        assert after["time_s"] / before["time_s"] == pytest.approx(320 / 50, rel=0.01)
        assert event["per_unit_s"] == pytest.approx(after["time_s"] / 1000)
        parts = event["traced_parts"]
        nodes = parts.pop("nodes")
        assert sum(parts.values()) == pytest.approx(event["traced_s"])
        for name, total_s in parts.items():
            assert sum(node[name] for node in nodes) == pytest.approx(total_s)
        assert {node["function"] for node in nodes if node["proportional_s"] > 0} == {"loop", "dot"}


def test_what_people_see(solver):
    shown = run("predict", solver, *on("jaguar-xt4"), "--set", f"{NAME}=1000", "--per", "iterations").output
    assert f"{NAME} (iterations of the solver [iteration]): 100 in the traced run, 1,000 predicted" in shown
    assert "time per iteration" in shown
    assert "traced run: proportional" in shown
    assert "traced run: fixed" in shown
    assert "set_up" in shown
    assert "traced run: proportional" not in run(
        "predict", solver, *on("jaguar-xt4"), "--per", NAME, "--top", "0"
    ).output  # fmt: skip


def test_many_places_are_cut(solver):
    shown = run("predict", solver, *on("jaguar-xt4"), "--set", f"{NAME}=1000", "--top", "1").output
    assert "1 more" in shown
    assert "--all-loops shows them" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--set", "iterations"), "is no event with a number"),
        (("--set", "=5"), "is no event with a number"),
        (("--set", f"{NAME}=many"), "is no event with a number"),
        (("--set", f"{NAME}=nan"), "is no event with a number"),
        (("--set", f"{NAME}=-5"), "is no value for it"),
        (("--set", "solver::iteration=5"), "did you mean 'solver::iterations'"),
        (("--set", f"{NAME}=5", "--per", "other"), "predictions are made by one event"),
        (("--per", NAME, "--threads", "2"), "leave --threads out"),
        (("--per", NAME, "--timing", "x"), "goes with neither --per nor --set"),
    ],
)
def test_errors(solver, options, message):
    try:
        result = run("predict", solver, *on("jaguar-xt4"), *options)
    except PredictionError as error:
        assert message in str(error)
    else:
        assert result.exit_code == 2
        assert message in result.output


def test_api(solver):
    prediction = foretrace.predict(solver, "jaguar-xt4", events={NAME: 1000})
    usual = foretrace.predict(solver, "jaguar-xt4")
    assert prediction.events.count == 1000
    assert prediction.time_s > 6 * usual.time_s
    assert usual.events is None
    several = foretrace.predict(solver, *MACHINES, per=NAME)
    assert [one.events.per_unit_s(one.time_s) for one in several] == pytest.approx(
        [one.time_s / 100 for one in several]
    )
    with pytest.raises(PredictionError, match="by one event"):
        foretrace.predict(solver, "jaguar-xt4", events={NAME: 1000, "other": 5})
