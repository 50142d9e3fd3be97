"""The validation's run times: what is made of measurements and predictions, and the whole way at small sizes."""

import csv
import hashlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec import structs
from replay_samples import gather_program

from foretrace.base.errors import EngineError, ProfileError
from foretrace.benchmarks.harness import suite, tools
from foretrace.benchmarks.harness.native_runs import Alone, Measured
from foretrace.benchmarks.validation import run_times, validate
from foretrace.benchmarks.validation.run_times import LoopShare, Machine, Row, RunTimes
from foretrace.cli import group
from foretrace.profiles.library import find
from foretrace.reports.plots import draw_predictions
from foretrace.tracer.signature.file import write_signature

ROOT = Path(__file__).parents[2]
MACHINE = Machine("here.toml", "0" * 64, find("jaguar-xt4"))


def row(
    predicted_s,
    *loops,
    measured_s=1.0,
    low_s=0.5,
    high_s=2.0,
    wall_s=1.0,
    cause="",
    program="x",
    language="c",
    **neighbour,
):
    measured = Measured(measured_s, 0.01, wall_s, 0.1, 5, **neighbour)
    shares = tuple(LoopShare("f", "x.c", line, "issue", *pair) for line, pair in enumerate(loops))
    return Row(program, "X", language, measured, predicted_s, low_s, high_s, "issue", shares, cause)


def test_figures_of_a_suite():
    times = RunTimes(MACHINE, (row(1.1, (0.5, 0.46), (0.2, 0.3)), row(0.6, low_s=0.1, high_s=0.9), row(1.0)), ())
    assert [one.error for one in times.rows] == pytest.approx([0.1, -0.4, 0])
    assert [one.inside for one in times.rows] == [True, False, True]
    assert times.mean_absolute_error == pytest.approx(0.5 / 3)
    assert times.worst is times.rows[1]
    assert times.share_inside == pytest.approx(2 / 3)
    assert times.share_of_loops_within_5_points == 0.5
    assert times.rows[0].worst_loop_difference == pytest.approx(0.1)
    assert times.rows[1].worst_loop_difference is None


def test_errors_of_times_without_a_neighbour_are_summed_up_apart():
    rows = (row(1.1), row(1.1, alone=Alone(1.0, 0.1)), row(0.9, alone=Alone(0.6, 0.1)))
    assert [one.error_alone for one in rows] == [None, pytest.approx(0.1), pytest.approx(0.5)]
    assert RunTimes(MACHINE, rows, ()).mean_absolute_error_alone == pytest.approx(0.3)
    assert RunTimes(MACHINE, rows[:1], ()).mean_absolute_error_alone is None


def test_errors_at_the_clock_of_the_runs_are_summed_up_apart():
    rows = (row(1.1), replace(row(1.1), at_clock_s=1.04), replace(row(0.9), at_clock_s=0.98))
    assert [one.error_at_clock for one in rows] == [None, pytest.approx(0.04), pytest.approx(-0.02)]
    assert RunTimes(MACHINE, rows, ()).mean_absolute_error_at_clock == pytest.approx(0.03)
    assert RunTimes(MACHINE, rows[:1], ()).mean_absolute_error_at_clock is None


def test_the_error_of_programs_held_out_is_told_apart():
    names = suite.HELD_OUT
    assert len(names) == 41 // 3 + 6
    other = next(program.name for program in suite.SUITE if program.name not in names)
    held_out = RunTimes(MACHINE, (row(1.1, program=other), row(0.6, program=names[0])), ()).held_out
    assert held_out is not None
    assert [one.program for one in held_out.rows] == [names[0]]
    assert RunTimes(MACHINE, (row(1.1, program=other),), ()).held_out is None


def test_programs_of_the_system_are_told_apart():
    own, installed = row(1.1), row(0.5, program="gzip", language=suite.INSTALLED_LANGUAGE)
    apart = RunTimes(MACHINE, (own, installed), ()).installed
    assert apart is not None
    assert apart.rows == (installed,)
    assert RunTimes(MACHINE, (own,), ()).installed is None


def region(line, time_s, share, measured_share, kind="loop", file="/src/x.c"):
    return {
        "function": "f", "file": file, "module": "/lib/x.so", "line": line, "kind": kind, "bound_by": "issue",
        "time_s": time_s, "share": share, "measured_share": measured_share,
    }  # fmt: skip


def test_the_top_loops_are_those_seen_most_often():
    regions = [region(n, 1.0, 0.1, n / 100) for n in range(9)] + [region(99, 1.0, 0.1, 0.5, kind="function")]
    assert [loop.line for loop in run_times.top_loops(regions)] == [8, 7, 6, 5, 4]


def test_a_cause_is_where_predicted_and_sampled_time_differ_most():
    measured = Measured(1.0, 0.0, 1.0, 0.0, 5)
    regions = [region(1, 0.9, 0.6, 0.2), region(2, 0.6, 0.4, 0.5)]
    assert "x.c:1 f: 0.9 s predicted, 0.2 s sampled (issue)" in run_times.cause_of(regions, 1.5, measured)
    slow = [region(1, 0.1, 0.5, 0.2), region(2, 0.1, 0.5, 0.4, file="")]
    assert run_times.cause_of(slow, 0.2, measured).startswith("code that was not traced: 0.4 s")
    assert run_times.cause_of([slow[0], region(2, 0.1, 0.5, 0.7, file="")], 0.2, measured).startswith("x.so f: 0.1 s")
    assert run_times.cause_of([], 0.2, measured) == ""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Three programs at their small sizes, on a machine that this one is not."""
    if not tools.shutil.which("qemu-x86_64"):
        pytest.skip("needs qemu-x86_64 (Debian package qemu-user)")
    machine = Machine.of(str(ROOT / "profiles" / "machines" / "jaguar-xt4.toml"))
    chosen = suite.choose("queens,heat3d,orbits")
    told = []
    times = run_times.compare(chosen, tmp_path_factory.mktemp("v"), machine, told.append, runs=2, small=True)
    return times, told


@pytest.mark.full  # half a minute; the README's commands and the demo trace, time and predict in short runs
def test_programs_of_each_kind_are_traced_measured_and_sampled(small):
    times, told = small
    assert [one.program for one in times.rows] == ["queens", "heat3d", "orbits"]
    assert [one.language for one in times.rows] == ["c", "f90", "py"]
    assert all(one.low_s <= one.predicted_s <= one.high_s for one in times.rows)
    assert all(2 <= one.measured.runs <= 6 and one.measured.shortest_s > 0 for one in times.rows[:2])
    assert all(one.measured.reference_slowdown >= 1 for one in times.rows)
    clocks_hz = [one.measured.time_clock_hz for one in times.rows]
    assert all(clock_hz > 1e7 for clock_hz in clocks_hz)
    for one, clock_hz in zip(times.rows, clocks_hz, strict=True):  # page faults and memory do not go with the clock
        faster = clock_hz / MACHINE.profile.core.clock_hz
        least, most = sorted((1.0, faster))
        assert least <= one.predicted_s / one.at_clock_s <= most * 1.001
        assert one.predicted_s != one.at_clock_s
    assert all(len(one.executable_sha256) == 64 for one in times.rows)
    assert [one.timing_sha256 is None for one in times.rows] == [False, False, True]
    assert times.rows[2].loops == ()  # not sampled
    assert times.skipped == ()
    native = [text.split(":")[0] for text in told if "native run" in text]
    assert native[:6] == ["queens", "heat3d", "orbits"] * 2  # in rounds


@pytest.mark.full
def test_the_profile_is_identified_by_its_content(small):
    times, _ = small
    content = (ROOT / "profiles" / "machines" / "jaguar-xt4.toml").read_bytes()
    assert times.machine.sha256 == hashlib.sha256(content).hexdigest()
    assert times.machine.profile.name == "jaguar-xt4"


def test_a_program_that_cannot_be_sampled_is_measured_all_the_same(monkeypatch, tmp_path):
    def refuse(*_, **__):
        raise EngineError("the timing is of another program")

    subject = run_times._Subject(suite.choose("queens")[0], ("./queens",), tmp_path / "queens.sig", {
        "time_s": 1.5, "low_s": 1.0, "high_s": 2.0, "bound_by": "issue",
    })  # fmt: skip
    (tmp_path / "queens").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_times, "_predict", lambda *_, **__: subject)
    monkeypatch.setattr(run_times, "measure_in_rounds", lambda *_: {"queens": Measured(1.0, 0.1, 1.0, 0.0, 5)})
    monkeypatch.setattr(run_times, "_sampled", refuse)
    (one,) = run_times.compare([subject.program], tmp_path, MACHINE, lambda text: None, runs=1).rows
    assert (one.error, one.loops, one.timing_sha256) == (0.5, (), None)
    assert one.cause == "not sampled: the timing is of another program"


def test_programs_are_run_under_a_command_and_not_sampled_there(monkeypatch, tmp_path):
    subject = run_times._Subject(suite.choose("orbits")[0], ("python", "./orbits.py"), tmp_path / "orbits.sig", {
        "time_s": 1.5, "low_s": 1.0, "high_s": 2.0, "bound_by": "issue",
    })  # fmt: skip
    (tmp_path / "orbits.py").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    timed = []
    monkeypatch.setattr(run_times, "_predict", lambda *_, **__: subject)
    monkeypatch.setattr(
        run_times, "measure_in_rounds", lambda t, *_: timed.extend(t) or {"orbits": Measured(1.0, 0.1, 1.0, 0.0, 5)}
    )
    monkeypatch.setattr(run_times, "_sampled", lambda *_: pytest.fail("sampled"))
    run_times.compare([subject.program], tmp_path, MACHINE, lambda text: None, runs=1, under=("env", "-i"))
    (one,) = timed
    assert one.command == ("env", "-i", "python", "./orbits.py")
    assert one.start_up[:3] == ("env", "-i", sys.executable)


def test_a_program_that_cannot_be_built_is_left_out_and_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match=r"none of the programs could be run; heat3d: .*apt install gfortran"):
        run_times.compare(suite.choose("heat3d"), tmp_path, MACHINE, lambda text: None, runs=1)


def test_what_is_shown_and_written(monkeypatch, tmp_path):
    rows = (
        row(1.5, (0.5, 0.2), cause="x.c:1 f: 9 s predicted, 1 s sampled", wall_s=2.0),
        replace(row(1.0, program="y", undisturbed_runs=2, alone=Alone(0.8, 0.04), clock_hz=2.34e9), at_clock_s=0.9),
        row(0.6, measured_s=0.6, wall_s=0.6, program="w"),
        row(1.0, program="v", undisturbed_runs=1),
    )
    times = RunTimes(MACHINE, rows, (("z", "no compiler"),))
    asked = {}

    def pretend(directory, machine, chosen, progress, **options):
        asked.update(options, chosen=[program.name for program in chosen])
        return validate.Validation((), (), times)

    monkeypatch.setattr("foretrace.benchmarks.validation.validate.validate", pretend)
    profile = tmp_path / "here.toml"
    profile.write_bytes((ROOT / "profiles" / "machines" / "jaguar-xt4.toml").read_bytes())
    options = ["validate", "--machine", str(profile), "--quick", "-o", str(tmp_path / "x.json")]
    result = CliRunner().invoke(
        group, [*options, "-o", str(tmp_path / "x.csv"), "-o", str(tmp_path / "x.png")], catch_exceptions=False
    )
    quick = [program.name for program in suite.choose(",".join(suite.QUICK))]
    assert asked == {"runs": 3, "tables": False, "under": [], "chosen": quick}
    assert "4 programs: mean absolute error 12.5%, worst +50% (x), 100% inside" in result.output
    assert "x +50%: x.c:1 f: 9 s predicted, 1 s sampled" in result.output
    assert "left out: z: no compiler" in result.output
    assert "the machine was busy with something else beside: x\n" in result.output
    assert "measured beside a neighbour on the same core: 2 of 4 " in result.output
    assert "800 ms ±5%" in result.output
    assert "; 25.0% of the times alone" in result.output
    assert "2.34 GHz" in result.output
    assert "; 10.0% at the clocks beside the runs" in result.output
    document = json.loads((tmp_path / "x.json").read_text())
    assert [one["error_at_clock"] for one in document["run_times"]] == [None, pytest.approx(-0.1), None, None]
    assert document["schema"] == "foretrace.validate/2"
    assert document["anchored"] is False
    assert document["worst_error"] == {"program": "x", "error": 0.5}
    assert document["run_times"][0]["measured"]["wall_s"] == 2.0
    assert document["run_times"][2]["measured_s"] == 0.6
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    written = list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines()))
    assert [one["program"] for one in written] == [one["program"] for one in document["run_times"]]
    assert [float(one["error"]) for one in written] == [one["error"] for one in document["run_times"]]
    assert [one["clock_hz"] for one in written] == ["", "2340000000.0", "", ""]


def test_without_a_profile_it_says_how_to_make_one(tmp_path):
    with pytest.raises(ProfileError, match=r"no such profile; measure this machine first: foretrace calibrate -o"):
        CliRunner().invoke(group, ["validate", "--machine", str(tmp_path / "no.toml")], catch_exceptions=False)


def test_a_machine_is_a_file_or_one_that_comes_with_foretrace(tmp_path):
    shipped = ROOT / "profiles" / "machines" / "jaguar-xt4.toml"
    by_name, by_path = Machine.of("jaguar-xt4"), Machine.of(str(shipped))
    assert (by_name.sha256, by_name.profile) == (by_path.sha256, by_path.profile)
    assert by_name.path == "jaguar-xt4"
    with pytest.raises(ProfileError, match="neither a known machine nor a file; did you mean 'jaguar-xt4'"):
        CliRunner().invoke(group, ["validate", "--machine", "jaguar-xt5"], catch_exceptions=False)


def test_a_picture_names_each_program():
    picture = draw_predictions([("alpha", 1.0, 1.1, 0.9, 1.2), ("beta", 0.1, 0.3, 0.2, 0.4)], "svg").decode()
    assert ">alpha, 1 s<" in picture
    assert ">beta, 100 ms<" in picture


@pytest.mark.parametrize(("complete", "older_s", "expected"), [(True, 0, True), (True, 10, False), (False, 0, False)])
def test_a_signature_is_used_again_if_it_is_of_a_whole_run_of_the_same_executable(
    tmp_path, complete, older_s, expected
):
    executable, path = tmp_path / "program", tmp_path / "program.sig"
    executable.touch()
    signature = gather_program(1 << 10)
    reason = "" if complete else "killed"
    provenance = structs.replace(signature.provenance, complete=complete, incomplete_reason=reason)
    write_signature(replace(signature, provenance=provenance), path)
    changed_ns = executable.stat().st_mtime_ns - older_s * 10**9
    os.utime(path, ns=(changed_ns, changed_ns))
    assert tools.has_whole_run(path, executable) is expected
    assert not tools.has_whole_run(tmp_path / "other.sig", executable)
