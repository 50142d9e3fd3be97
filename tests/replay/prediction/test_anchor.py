"""Anchored predictions: a measured time, scaled by the model's ratio of two machines, region by region."""

import json
from dataclasses import replace

import pytest
from command_line import run
from replay_samples import Program, measured_host
from timing_samples import TIMING

from foretrace.base.errors import TimingError
from foretrace.commands import predict as predict_command
from foretrace.replay.prediction.anchor import anchor, key_of, samples_by_loop
from foretrace.replay.prediction.predict import predict
from foretrace.reports import prediction_documents
from foretrace.tracer.native.timing import NativeRun, SampledPosition
from foretrace.tracer.native.timing_file import write_timing
from foretrace.tracer.signature.file import write_signature
from foretrace.tracer.signature.records import OperationKind


def two_loops():
    """One loop that divides, 10 cycles each, and one that only issues instructions; blocks at 0 and 16."""
    program = Program()
    program.loop(1000, instructions=1, computes=[(OperationKind.FP_DIV, 1)])
    program.loop(1000, instructions=4)
    return program.signature(command=("./program", "1"))


def timing(*samples, **changes):
    """`samples`: (offset, count) in the program."""
    positions = tuple(SampledPosition("program", offset, count, 0) for offset, count in samples)
    return replace(TIMING, positions=positions, elsewhere=0, runs=(NativeRun(2.0, 1.5, 0.5),), **changes)


def ratio(signature, samples, here, there, **changes):
    measured = timing(*samples, **changes)
    here, there = predict(signature, here), predict(signature, there)
    return anchor(there, here, measured, samples_by_loop(signature, measured))


@pytest.fixture
def machines():
    """Two that differ only in how fast they divide: half the time."""
    here = measured_host("here")
    core = here.core
    changed = type(core)(
        **{name: getattr(core, name) for name in core.__struct_fields__ if name != "fp_div_interval_cycles"},
        fp_div_interval_cycles=core.fp_div_interval_cycles / 2,
    )
    return here, measured_host("there", core=changed)


def test_on_its_own_machine_a_program_takes_what_was_measured(machines):
    here, _ = machines
    anchored = ratio(two_loops(), [(0, 30), (16, 70)], here, here)
    assert anchored.time_s == anchored.low_s == anchored.high_s == pytest.approx(2.0)
    assert anchored.by_loop


def test_beside_a_neighbour_the_program_may_take_less_alone(machines):
    here, _ = machines
    signature, measured = two_loops(), timing((0, 30), (16, 70))
    prediction = predict(signature, here)
    beside = replace(measured, runs=(NativeRun(2.0, 1.5, 0.5, 1.25),))
    anchored = anchor(prediction, prediction, beside, samples_by_loop(signature, beside))
    assert (anchored.time_s, anchored.high_s) == (pytest.approx(2.0), pytest.approx(2.0))
    assert anchored.low_s == pytest.approx(1.6)


@pytest.mark.parametrize(("dividing", "expected"), [(100, 0.5), (50, 0.75), (0, 1.0)])
def test_each_region_is_scaled_by_its_own_ratio(machines, dividing, expected):
    samples = [(0, dividing), (16, 100 - dividing)]
    anchored = ratio(two_loops(), samples, *machines)
    assert anchored.ratio == pytest.approx(expected, rel=0.01)
    assert anchored.low_s <= anchored.time_s == pytest.approx(2 * expected, rel=0.01)
    assert anchored.time_s <= anchored.high_s


def test_samples_outside_the_program_are_scaled_by_the_ratio_of_the_whole(machines):
    here, there = machines
    signature = two_loops()
    whole = predict(signature, there).time_s / predict(signature, here).time_s
    anchored = ratio(signature, [(16, 50), (1 << 30, 50)], here, there)
    assert anchored.ratio == pytest.approx(0.5 * 1 + 0.5 * whole, rel=0.01)
    unsampled = ratio(signature, [], here, there)
    assert unsampled.ratio == pytest.approx(whole)
    assert not unsampled.by_loop


def test_few_samples_and_runs_that_differ_widen_the_interval(machines):
    few, many = (ratio(two_loops(), [(0, n), (16, n)], *machines) for n in (5, 500))
    assert few.time_s == pytest.approx(many.time_s)
    assert few.high_s - few.low_s > 3 * (many.high_s - many.low_s)
    signature = two_loops()
    measured = replace(timing((0, 500), (16, 500)), runs=(NativeRun(2, 2, 0), NativeRun(3, 3, 0), NativeRun(4, 4, 0)))
    here, there = (predict(signature, machine) for machine in machines)
    noisy = anchor(there, here, measured, samples_by_loop(signature, measured))
    assert noisy.high_s == pytest.approx(1.5 * many.high_s)


def test_samples_belong_to_the_block_that_holds_them():
    signature = two_loops()  # blocks of 1 and 4 instructions, at most 15 bytes each
    measured = timing((0, 1), (14, 2), (15, 4), (16, 8), (75, 16), (76, 32))
    samples = samples_by_loop(signature, measured)
    regions = {region.place.line: region for region in predict(signature, measured_host()).loops}
    counts = [samples.by_loop.get(key_of(regions[line])) for line in (1, 2)]
    assert counts == [3, 24]
    assert samples.num_samples == 63
    assert samples.share(regions[2]) == 24 / 63


def test_a_timing_of_another_program_is_refused():
    with pytest.raises(TimingError, match=r"the timing is of '\./other', the signature of '\./program 1'"):
        samples_by_loop(two_loops(), timing(command=("./other",)))


def test_a_script_may_have_been_timed_with_its_interpreter():
    assert samples_by_loop(two_loops(), timing(command=("python3", "./program", "1"))).num_samples == 0


def test_predict_shows_both_ways_apart(tmp_path, machines, monkeypatch):
    signature, measured = tmp_path / "x.sig", tmp_path / "x.timing"
    write_signature(two_loops(), signature)
    write_timing(timing((0, 50), (16, 50)), measured)
    by_name = {machine.name: machine for machine in machines}.__getitem__
    monkeypatch.setattr(predict_command, "find_machine", by_name)
    monkeypatch.setattr(prediction_documents, "find", by_name)
    names = ("here", "there")
    shown = run("predict", signature, "--machine", names[1], "--timing", measured, "--anchor", names[0]).output
    assert "measured: 2 s of a processor" in shown
    assert "scaled from here by the model's ratio" in shown
    assert "50.0%" in shown

    command = ("predict", signature, "--machine", names[1], "--timing", measured, "--json")
    alone, document = json.loads(run(*command).output), json.loads(run(*command, "--anchor", names[0]).output)
    assert alone["anchored"] == []
    assert alone["predictions"] == document["predictions"]
    (anchored,) = document["anchored"]
    assert (anchored["machine"], anchored["anchor"]) == ("there", "here")
    assert anchored["ratio"] == pytest.approx(0.75, rel=0.01)
    assert [loop["measured_share"] for loop in document["predictions"][0]["loops"]] == [0.5, 0.5]


def test_an_anchor_needs_a_timing(tmp_path):
    write_signature(two_loops(), tmp_path / "x.sig")
    result = run("predict", tmp_path / "x.sig", "--machine", "jaguar-xt4", "--anchor", "jaguar-xt4")
    assert result.exit_code == 2
    assert "--anchor needs a time to scale" in result.output
