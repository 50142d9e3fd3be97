"""Loops of instructions at random: what is made, and a real comparison of a few."""

import json
import math
import platform
import shutil
from collections import Counter

import pytest

from foretrace.benchmarks.__main__ import main
from foretrace.benchmarks.validation import random_loops
from foretrace.benchmarks.validation.random_loops import KINDS, LENGTHS, assembly, build, measured_cycles

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or not shutil.which("gcc"), reason="the loops are of x86-64, and need a compiler"
)


def test_a_seed_makes_the_same_loops_of_all_kinds():
    loops = random_loops.random_loops(25, 7)
    assert loops == random_loops.random_loops(25, 7)
    assert loops != random_loops.random_loops(25, 8)
    assert set(Counter(loop.kind for loop in loops).values()) == {2, 3}
    assert {loop.kind for loop in loops} == set(KINDS)
    assert all(any(length <= len(loop.lines) < length + 12 for length in LENGTHS) for loop in loops)


def test_every_template_is_assembled_and_ends(tmp_path):
    """Each of 200 loops ends when its counter says: all have times, positive and finite."""
    loops = random_loops.random_loops(200, 1)
    text = assembly(loops)
    stems = {template.split()[0] for kind in KINDS.values() for template, weight in kind.items() if weight}
    assert all(f"\n{stem} " in text for stem in stems)
    cycles = measured_cycles(build(loops, tmp_path), len(loops), runs=1, samples=20)
    assert len(cycles) == 200
    assert all(0 < of_loop < math.inf for of_loop, _ in cycles)


def test_instructions_that_are_skipped_count_and_labels_do_not():
    assert random_loops.Loop("x", "jumps", ("jmp 101f", "nop", "101:", "add %rax, %rbx")).instructions == 3


def test_the_command_compares_them(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(random_loops, "_RUNS", 1)
    output = tmp_path / "loops.json"
    options = ["--machine", "epyc-turin-vm", "--number", "3", "--seed", "2", "--output", str(output)]
    assert main(["random-loops", *options]) == 0
    (part,) = [part for part in json.loads(output.read_text())["parts"] if "predictions" in part]
    assert [loop["kind"] for loop in part["predictions"]] == list(KINDS)[:3]
    for loop in part["predictions"]:
        assert loop["unit"] == "cycles"
        assert loop["ratio"] == pytest.approx(loop["predicted"] / loop["measured"])
        assert loop["predicted"] > 0
    shown = capsys.readouterr().out
    assert "integers" in shown
    assert "all" in shown


def test_no_loops_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["random-loops", "--number", "0"])
    assert "argument --number: is 0, must be at least 1" in capsys.readouterr().err


def test_a_machine_that_is_not_there_is_said(capsys):
    assert main(["random-loops", "--machine", "nowhere.toml", "--number", "1"]) != 0
    assert "nowhere.toml" in capsys.readouterr().err
