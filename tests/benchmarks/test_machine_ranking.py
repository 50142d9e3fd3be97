"""Several machines' validations compared: are they ranked as measured, and how far off is a time scaled to another."""

import csv
import hashlib
import io
import json
import os
from dataclasses import replace

import pytest
from click.testing import CliRunner
from msgspec import structs
from replay_samples import Program, measured_host
from timing_samples import TIMING

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness import suite
from foretrace.benchmarks.validation import validation_file
from foretrace.benchmarks.validation.machine_ranking import Comparison, Ranking
from foretrace.benchmarks.validation.validation_file import MAX_FILE_BYTES, find_validation, read_validation
from foretrace.cli import group
from foretrace.profiles.library import find
from foretrace.profiles.profile_file import profile_data
from foretrace.replay.prediction.anchor import anchor, samples_by_loop
from foretrace.replay.prediction.predict import predict
from foretrace.tracer.native.timing import NativeRun, SampledPosition
from foretrace.tracer.native.timing_file import read_timing, write_timing
from foretrace.tracer.signature.file import read_signature, write_signature
from foretrace.tracer.signature.records import OperationKind


def comparison(measured, predicted, anchored_s=1.0, first="a", second="b"):
    return Comparison("x", first, second, measured, predicted, anchored_s, False, False, True)


@pytest.mark.parametrize(
    ("measured", "predicted", "right"),
    [
        ((1.0, 1.2), (3.0, 3.1), True),
        ((1.2, 1.0), (3.0, 3.1), False),
        ((1.0, 1.2), (3.0, 3.0), False),
        ((1.0, 1.1), (3.0, 1.0), None),
        ((1.1, 1.0), (3.0, 1.0), None),
    ],
)
def test_machines_are_ranked_where_they_differ(measured, predicted, right):
    assert comparison(measured, predicted).ranked_right is right


def test_figures_of_a_ranking():
    pairs = [((1.0, 2.0), (1.0, 1.5), 1.5), ((2.0, 1.0), (1.0, 1.1), 2.2), ((1.0, 1.0), (1.0, 0.5), 0.5)]
    there = [comparison(*pair) for pair in pairs]
    back = [comparison(m[::-1], p[::-1], 1.0, "b", "a") for m, p, _ in pairs]
    ranking = Ranking(("a", "b"), (*there, *back), ())
    assert ranking.pairs == tuple(there)
    assert ranking.notable == tuple(there[:2])
    assert ranking.share_ranked_right == 0.5
    assert [c.error for c in there] == pytest.approx([-0.25, 0.1, -0.5])
    assert [c.anchored_error for c in there] == pytest.approx([-0.25, 1.2, -0.5])
    assert ranking.worst_anchored is there[1]
    assert Ranking(("a", "b"), tuple(there[2:]), ()).share_ranked_right is None


# ---- the whole way


def profile(slower=1):
    """A machine, or one that divides more slowly."""
    here = measured_host("here")
    sources = dict.fromkeys(("size_bytes", "ways", "line_bytes"), "here")
    caches = tuple(structs.replace(cache, source=sources) for cache in here.caches)
    memory = structs.replace(here.memory, first_touch_page_s=1e-12)  # as little as a file may have, like the next
    waking = dict.fromkeys(("line_transfer_latency_s", "thread_wake_latency_s", "thread_wake_call_s"), 1e-11)
    cycles = slower * here.core.fp_div_interval_cycles
    core = structs.replace(here.core, fp_div_interval_cycles=cycles, **waking)
    return structs.replace(here, caches=caches, memory=memory, core=core)


@pytest.fixture
def folder(tmp_path):
    """A program that divides in one loop and issues instructions in another, timed on the first of two machines."""
    program = Program()
    program.loop(1000, instructions=1, computes=[(OperationKind.FP_DIV, 1)])
    program.loop(1000, instructions=4)
    write_signature(program.signature(command=("./program", "1")), tmp_path / "both.sig")
    positions = (SampledPosition("program", 0, 50, 0), SampledPosition("program", 16, 100, 0))
    timing = replace(TIMING, positions=positions, elsewhere=0, runs=(NativeRun(2.0, 1.5, 0.5),))
    write_timing(timing, tmp_path / "both.timing")
    return tmp_path


def document(path, machine, *rows, **changes):
    times = [{"program": name, "measured": {"shortest_s": time_s}} | more for name, time_s, more in rows]
    made = {"schema": "foretrace.validate/2", "run_times": times, "profile": profile_data(machine)} | changes
    path.write_text(json.dumps(made))
    return path


def compare(folder, *paths, more=()):
    named = [word for path in paths for word in ("--compare", str(path))]
    command = ["validate", *named, "--directory", str(folder), *more]
    return CliRunner().invoke(group, command, catch_exceptions=False)


def test_machines_are_compared_from_one_signature(folder):
    """Both ways: by the loops' shares from where the timing is, by the whole program's ratio back."""
    timed = hashlib.sha256((folder / "both.timing").read_bytes()).hexdigest()
    here = document(folder / "here.json", profile(1), ("both", 2.0, {"timing_sha256": timed}), ("only", 1.0, {}))
    there = document(folder / "there.json", profile(2), ("both", 3.3, {}), ("absent", 1.0, {}))
    other = document(folder / "other.json", profile(2), ("absent", 1.0, {}))
    output = folder / "ranking.json"
    result = compare(folder, here, there, other, more=("--json", "-o", str(output)))
    found = json.loads(result.output)
    assert json.loads(output.read_text()) == found
    assert found["schema"] == "foretrace.validate.compare/1"
    assert found["machines"] == ["here", "there", "other"]
    printed = compare(folder, here, there, other, more=("--format", "csv")).output
    rows = list(csv.DictReader(io.StringIO(printed, newline="")))
    assert [row["first"] for row in rows] == ["here", "there"]
    assert [float(row["anchored_error"]) for row in rows] == [one["anchored_error"] for one in found["comparisons"]]
    forth, back = found["comparisons"]
    assert (forth["first"], forth["second"], forth["measured_ratio"]) == ("here", "there", pytest.approx(1.65))
    assert forth["ranked_right"] is True
    assert forth["anchored_by_loop"] is True, "the timing is from here"
    assert back["anchored_by_loop"] is False
    signature, timing = read_signature(folder / "both.sig"), read_timing(folder / "both.timing")
    times = predict(signature, profile(2)), predict(signature, profile(1))
    assert forth["predicted_s"] == pytest.approx([times[1].time_s, times[0].time_s])
    scaled = anchor(*times, timing, samples_by_loop(signature, timing))
    assert scaled.ratio != pytest.approx(forth["predicted_ratio"], rel=0.01), "the samples say otherwise"
    assert forth["anchored_s"] == pytest.approx(2.0 * scaled.ratio)
    assert forth["anchored_error"] == pytest.approx(2.0 * scaled.ratio / 3.3 - 1)
    assert back["anchored_s"] == pytest.approx(3.3 / forth["predicted_ratio"])
    assert found["share_ranked_right"] == found["share_of_undisturbed_ranked_right"] == 1
    assert {one["program"]: one["reason"] for one in found["skipped"]} == {
        "only": "was measured on here only", "absent": f"there is no {folder / 'absent.sig'}"
    }  # fmt: skip


def test_the_order_of_the_machines_does_not_matter(folder):
    here = document(folder / "here.json", profile(1), ("both", 2.0, {}))
    there = document(folder / "there.json", profile(2), ("both", 3.3, {}))
    pairs = {}
    for first, second in ((here, there), (there, here)):
        found = json.loads(compare(folder, first, second, more=("--json",)).output)
        assert found["share_ranked_right"] == 1
        pairs[first] = {(one["first"], one["second"]): one["predicted_s"] for one in found["comparisons"]}
    assert pairs[here] == pairs[there]


def test_what_is_shown_of_a_comparison(folder):
    beside = {"measured": {"shortest_s": 2.0, "undisturbed_runs": 0}}
    here = document(folder / "here.json", profile(1), ("both", 2.0, beside))
    there = document(folder / "there.json", profile(2), ("both", 1.0, {"executable_sha256": "0" * 64}))
    printed = compare(folder, here, there).output
    assert "here, there" in printed
    assert (
        "0 of 1 pairs that differ by more than 10% are ranked right (0%), 0 of the 0 that were measured without a "
        "neighbour; mean absolute error anchored"
    ) in printed
    assert "measured beside a neighbour only: both" in printed
    assert "not the same executable on all machines: both" in printed


def test_times_by_segments_are_compared_where_no_run_was_undisturbed(folder):
    beside = {"shortest_s": 2.0, "undisturbed_runs": 0, "segments": {"time_s": 1.5, "runs": 20}}
    here = document(folder / "here.json", profile(1), ("both", 2.0, {"measured": beside}))
    there = document(folder / "there.json", profile(2), ("both", 1.0, {}))
    (forth, _) = json.loads(compare(folder, here, there, more=("--json",)).output)["comparisons"]
    assert forth["measured_s"] == [1.5, 1.0]
    assert forth["disturbed"] is False


def test_what_cannot_be_compared_is_said(folder):
    here = document(folder / "here.json", profile(1), ("both", 2.0, {}))
    (folder / "more").mkdir()
    again = document(folder / "more" / "here.json", profile(1), ("both", 2.0, {}))
    with pytest.raises(EngineError, match="called the same: here, here; give the files other names"):
        compare(folder, here, again)
    there = document(folder / "there.json", profile(1), ("else", 2.0, {}))
    with pytest.raises(EngineError, match="nothing can be compared; both: was measured on here only"):
        compare(folder, here, there)
    assert "--compare is given twice or more" in compare(folder, here).output


# ---- machines that come with foretrace


def test_what_was_measured_of_machines_that_come_with_foretrace_fits_them_and_the_suite():
    found = {path.stem: read_validation(path) for path in validation_file.MEASURED.glob("*.json")}
    assert found
    known = {program.name for program in suite.choose("")}
    for name, machine in found.items():
        assert machine.profile == find(name)
        assert set(machine.programs) <= known
        assert all(row.executable_sha256 for row in machine.programs.values())


def test_a_machine_that_comes_with_foretrace_is_found_by_its_name(folder, monkeypatch):
    monkeypatch.setattr(validation_file, "MEASURED", folder)
    document(folder / "jaguar-xt4.json", profile(), ("both", 9.0, {}), profile="jaguar-xt4")
    found = find_validation("jaguar-xt4")
    assert (found.label, found.profile) == ("jaguar-xt4", find("jaguar-xt4"))
    assert found.programs["both"].measured.time_s == 9.0
    assert find_validation(str(folder / "jaguar-xt4.json")) == found
    with pytest.raises(EngineError, match="jaguar: no such file; measured times come with foretrace of jaguar-xt4"):
        compare(folder, "jaguar-xt4", "jaguar")


@pytest.mark.parametrize("name", ["nowhere", "../here", "here.toml", ""])
def test_a_document_names_no_machine_but_one_that_comes_with_foretrace(tmp_path, name):
    (tmp_path / "here.toml").touch()
    path = document(tmp_path / "x.json", profile(), profile=name)
    with pytest.raises(EngineError, match="is no machine that comes with foretrace"):
        read_validation(path)


# ---- documents from others


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no validation with its profile"),
        (b"\xff", "is no validation with its profile"),
        (b"[" * 100_000, "is no validation with its profile"),
        (b"{}", "missing required field `schema`"),
        (b'{"schema": "foretrace.validate/1", "run_times": [], "profile": {}}', "is no document of the version"),
        (
            b'{"schema": "foretrace.validate/2", "run_times": [], "profile": {}}',
            "profile is none: required key 'schema'",
        ),
    ],
)
def test_a_document_that_is_none(tmp_path, content, message):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(EngineError, match=message):
        read_validation(tmp_path / "x.json")


@pytest.mark.parametrize(
    "row",
    [
        ("../x", 1.0, {}),
        ("x", 0, {}),
        ("x", -1, {}),
        ("x", 1e12, {}),
        ("x", "1", {}),
        ("x", 1.0, {"timing_sha256": "no"}),
    ],
)
def test_a_program_that_cannot_be(tmp_path, row):
    path = document(tmp_path / "x.json", profile(1), row)
    with pytest.raises(EngineError, match=r"is no validation .*\$\.run_times\[0\]"):
        read_validation(path)


def test_too_many_programs_are_refused(tmp_path):
    path = document(tmp_path / "x.json", profile(1), *[("x", 1.0, {})] * 1001)
    with pytest.raises(EngineError, match="is no validation"):
        read_validation(path)


def test_what_is_no_document_s_file(tmp_path):
    with pytest.raises(EngineError, match="cannot be read: No such file"):
        read_validation(tmp_path / "absent")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EngineError, match="is not a file"):
        read_validation(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(EngineError, match="is larger than 16 MiB"):
        read_validation(tmp_path / "huge")


def test_a_document_keeps_the_profile_and_the_times(tmp_path):
    machine = read_validation(document(tmp_path / "x.json", profile(3), ("both", 2.0, {"title": "more keys"})))
    assert machine.profile == profile(3)
    assert machine.label == "x"
    assert machine.programs["both"].measured.shortest_s == 2.0
