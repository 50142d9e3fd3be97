"""What reports show of a prediction: first calls, totals by line and function, the limit of the issue width."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from traces import trace_binary, trace_python

from foretrace.profiles.library import find
from foretrace.replay.base.records import LoopKind, Prediction
from foretrace.replay.base.spread import FAST, TYPICAL
from foretrace.replay.base.totals import By, totals
from foretrace.replay.prediction.predict import HostRun, predict
from foretrace.replay.workload.workload import Workload, issue_slots
from foretrace.tracer.signature.records import Signature

ARRAYS = """\
import numpy as np
a = np.arange(100_000.0)
b = np.sqrt(a) + np.exp(-a)
def f(x):
    return np.sqrt(x) * 2 + x
for _ in range(5):
    c = f(a)
"""


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Prediction:
    script = tmp_path_factory.mktemp("totals") / "arrays.py"
    script.write_text(ARRAYS)
    return predict(trace_python(str(script), []).signature, find("epyc-turin-vm"))


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Signature:
    """Of wc, whose loop has loads, additions and foreseen branches in step with most cores' width."""
    text = tmp_path_factory.mktemp("text") / "numbers"
    text.write_text("".join(f"{number}\n" for number in range(100_000)))
    return trace_binary(["wc", str(text)]).signature


def test_each_array_operation_is_named_and_the_first_call_marked(arrays: Prediction) -> None:
    labels = {(r.place.line, r.label) for r in arrays.loops if r.kind is LoopKind.ARRAY}
    assert {(3, "array: sqrt (first call)"), (3, "array: exp"), (5, "array: sqrt")} <= labels


@pytest.mark.parametrize("by", [By.LINE, By.FUNCTION])
def test_totals_hold_all_of_the_time_once(arrays: Prediction, by: By) -> None:
    found = totals(arrays, by)
    assert sum(total.time_s for total in found) == pytest.approx(sum(r.time_s for r in arrays.loops))
    assert sum(total.loops for total in found) == len(arrays.loops)
    assert list(found) == sorted(found, key=lambda total: -total.time_s)


def test_a_line_is_one_row_and_says_what_else_is_in_it(arrays: Prediction) -> None:
    (line,) = [total for total in totals(arrays, By.LINE) if total.place.line == 5]
    of_line = [r for r in arrays.loops if r.place.line == 5]
    assert line.loops == len(of_line) > 3
    assert line.label.endswith(f" and {len(of_line) - 1} more")
    (function,) = [total for total in totals(arrays, By.FUNCTION) if total.place.function == "f"]
    assert function.time_s >= line.time_s


@pytest.mark.parametrize("machine", ["epyc-milan-vm", "epyc-turin-vm", "xeon-platinum-8360y", "jaguar-xt4"])
def test_no_end_of_an_interval_is_beyond_the_issue_width(counted: Signature, machine: str) -> None:
    workload, profile = Workload.of(counted), find(machine)
    assert profile.core is not None and profile.core.clock_hz and profile.core.issue_width_instructions_per_cycle
    prediction = predict(workload, profile)
    width = profile.core.issue_width_instructions_per_cycle * (1 + 1e-9)
    assert issue_slots(workload).sum() / (prediction.low_s * profile.core.clock_hz) <= width
    slots = dict(zip([(r.place, r.loop_id) for r in workload.regions], issue_slots(workload), strict=True))
    for region in prediction.loops:
        if region.share >= 0.01:  # what a small one took can be put down to its neighbours
            assert slots[region.place, region.loop_id] / (region.low_s * profile.core.clock_hz) <= width


def test_the_width_does_bind_an_end(counted: Signature) -> None:
    run = HostRun.of(Workload.of(counted), find("epyc-milan-vm"))
    assert predict(counted, find("epyc-milan-vm")).low_s == pytest.approx(float(run.least_s().sum()))
    typical_s = run.times.time_s[TYPICAL]
    is_large = typical_s >= 0.01 * typical_s.sum()  # what a small one took can be put down to its neighbours
    assert np.all(run.least_s()[is_large] <= run.times.time_s[FAST][is_large] * 1.05)


def test_samples_outside_the_program_are_counted(
    foretrace: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Of a program that is almost all in children, few samples are in loops: the report says so beside the shares."""
    script = "i=0; while [ $i -lt 4 ]; do seq 1 3000000 > /dev/null; i=$((i+1)); done"
    signature, timing = tmp_path / "s.sig", tmp_path / "s.timing"
    for command in (
        ["trace", "-o", str(signature), "--", "sh", "-c", script],
        ["time", "-o", str(timing), "--", "sh", "-c", script],
    ):
        foretrace(*command, cwd=tmp_path)
    ask = ["predict", str(signature), "--machine", "epyc-turin-vm", "--timing", str(timing)]
    said = foretrace(*ask, cwd=tmp_path).stdout
    document = json.loads(foretrace(*ask, "--json", cwd=tmp_path).stdout)
    measured = document["measured"]
    if not measured["samples"]:
        pytest.skip("perf events are not allowed here, which sample child processes")
    assert measured["samples_elsewhere"] > 0.5 * measured["samples"] > 0
    assert f"{measured['samples_elsewhere']} of the {measured['samples']} samples" in said
