"""Undisturbed times of Python scripts: places in the interpreter, what is taken off, and what is refused."""

from __future__ import annotations

import json
import math
import platform
import sys

import msgspec
import numpy as np
import pytest
from replay_samples import PROVENANCE

from foretrace.base.neighbours import SegmentTime
from foretrace.tracer.native import interpreter_places, segments
from foretrace.tracer.native.interpreter_places import affordable, counted, find_functions, start_up
from foretrace.tracer.native.segments import UndividedError, time_script_by_segments, without_start
from foretrace.tracer.native.stamp_code import Place
from foretrace.tracer.native.stamp_points import COUNTING_S, Candidate
from foretrace.tracer.native.stamped_run import TimeStampCounter, run_stamped
from foretrace.tracer.signature.records import Signature

on_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 programs are divided")

SCRIPT = """
import json, sys
from re import escape
def work(n):
    total = 0
    for i in range(n):
        total += len(json.dumps([i, str(i)]))
    return total
assert work(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000) > 0
sys.exit(3)
"""


def signature_of(script):
    provenance = msgspec.structs.replace(PROVENANCE, guest="python", command=(str(script),))
    return Signature(
        provenance=provenance, blocks=(), operations=(), loops=(), idioms=(), edges=np.zeros((0, 3), np.uint64),
        hierarchies=(), reuse=None,
    )  # fmt: skip


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(scope="module")
def functions():
    return find_functions()


@on_x86_64
def test_functions_of_the_interpreter_are_counted_and_nothing_else_changes(script, functions):
    """`json.dumps` makes a dictionary a call, and more with more calls; the script ends as without places."""

    def executions(calls):
        command = [sys.executable, str(script), str(calls)]
        run = run_stamped(command[0], command, functions, 1, TimeStampCounter(), {"PYTHONHASHSEED": "0"})
        assert run.exit_code == 3
        assert len(run.numbers) == 0
        return run.executions

    few, many = executions(1000), executions(2000)
    assert (few > 0).sum() > 500
    more = many - few
    assert ((more >= 1000) & (more % 1000 <= 20)).sum() > 10, "what each call comes to once, or a few times"


def test_what_starts_python_imports_what_the_script_does_but_not_its_own_modules(script):
    script.write_text(
        "import os.path, mine\nfrom json import dumps\nfrom . import x\nimport sys\ndef f():\n import re\n"
    )
    (script.parent / "mine.py").touch()
    imports = "import sys\nimport os.path\nfrom json import dumps\nimport sys"
    assert start_up(str(script)) == (sys.executable, "-c", imports)


def test_functions_that_are_called_as_often_each_time_are_places():
    places = [Place("x", number, 1, ()) for number in range(4)]
    runs = [np.array([5, 7, 0, 9]), np.array([5, 8, 0, 9])]
    found = counted(places, runs)
    assert found == [Candidate("x", 3, 9, ()), Candidate("x", 0, 5, ())]
    assert affordable(found, 1.0, 8 * COUNTING_S) == [Candidate("x", 0, 5, ())]


def test_a_jump_into_the_middle_of_what_is_displaced_is_found(compile_c):
    source = r"""
        __asm__(".globl into\n.type into, @function\ninto: nop\nback: nop\nnop\nnop\nnop\nnop\n"
                "dec %edi\njnz back\nret\n"
                ".size into, .-into\n.globl plain\n.type plain, @function\nplain: nop\nnop\nnop\nnop\nnop\nret\n"
                ".size plain, .-plain\n");
        int main(void) { return 0; }"""
    program = str(compile_c(source, "-O1", "-no-pie"))
    names = {function.start: function.name for function in interpreter_places.Symbols(program).functions()}
    found = {names[place.address] for place in interpreter_places._functions_of(program)}
    assert "plain" in found
    assert "into" not in found


def test_the_start_of_python_is_taken_off_with_its_uncertainty():
    whole = SegmentTime(0.5, 0.45, 0.52, runs=20, segments=2000, long_share=0.1, counting_s=0.002)
    start = SegmentTime(0.1, 0.08, 0.11, runs=14, segments=400, long_share=0.0, counting_s=0.001)
    found = without_start(whole, start)
    assert (found.time_s, found.low_s, found.high_s) == pytest.approx((0.4, 0.34, 0.44))
    assert (found.runs, found.segments, found.counting_s) == (20, 2000, pytest.approx(0.001))


@on_x86_64
def test_a_script_is_timed_by_segments_through_the_command(script, foretrace, tmp_path):
    """Within five attempts: a busy machine, or another order of what Python frees, may spoil one. It may stay busy."""
    signature, timing = tmp_path / "x.sig", tmp_path / "x.timing"
    foretrace("trace", "-o", signature, "--", script)
    for _ in range(5):
        result = foretrace("time", "--force", "-o", timing, "--signature", signature, "--seconds", "1", "--", script)
        assert (result.returncode, result.stdout) == (3, "")
        document = json.loads(timing.read_text())
        if not document["undivided"]:
            assert result.stderr == ""
            break
    if document["undivided"].startswith(("the machine is busy", "other work interrupted")):
        assert document["segments"] is None
        return
    assert document["undivided"] == ""
    found = document["segments"]
    assert found["runs"] >= segments.LEAST_RUNS
    assert found["segments"] > 10
    assert 0 < found["low_s"] <= found["time_s"] <= found["high_s"]


@on_x86_64
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import os\nfor i in range(os.urandom(1)[0] * 1000): str(i)\nraise SystemExit(3)", "the same way each time"),
        ("raise SystemExit(4)", "it ended with 4 instead of 3"),
        ("import time\nfor i in range(40): time.sleep(0.001)\nraise SystemExit(3)", "it waits for something"),
    ],
)
def test_scripts_that_cannot_be_divided_are_refused_with_the_reason(script, text, reason):
    script.write_text(text)
    with pytest.raises(UndividedError, match=reason):
        time_script_by_segments(
            signature_of(script), [sys.executable, str(script)], exit_code=3, best_s=math.inf, budget_s=0.0
        )


@on_x86_64
def test_a_script_that_takes_no_longer_than_its_start_is_refused_with_the_reason(script):
    script.write_text("raise SystemExit(3)\nimport decimal, email.parser, json, unittest\n")
    reason = segments.ANOTHER_WAY
    for _ in range(5):  # what Python frees, in which order, may spoil an attempt
        if segments.ANOTHER_WAY in reason:
            with pytest.raises(UndividedError) as refused:
                time_script_by_segments(
                    signature_of(script), [sys.executable, str(script)], exit_code=3, best_s=math.inf, budget_s=0.0
                )
            reason = str(refused.value)
    assert "starting Python and importing takes all of its time" in reason


@on_x86_64
def test_a_script_for_another_interpreter_is_refused_with_the_reason(script, tmp_path):
    (tmp_path / "python").symlink_to(sys.executable)
    with pytest.raises(UndividedError, match="is not the one that runs foretrace"):
        time_script_by_segments(
            signature_of(script), [str(tmp_path / "python"), str(script)], exit_code=3, best_s=math.inf, budget_s=0.0
        )


@on_x86_64
def test_a_signature_of_another_script_is_refused(script, tmp_path):
    with pytest.raises(UndividedError, match="signature is of another program, "):
        time_script_by_segments(
            signature_of(tmp_path / "other.py"),
            [sys.executable, str(script)],
            exit_code=0,
            best_s=math.inf,
            budget_s=0.0,
        )
