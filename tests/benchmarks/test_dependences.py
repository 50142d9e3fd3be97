"""The labelled loops: what is found of them is what their labels say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from foretrace.benchmarks.validation import dependences
from foretrace.benchmarks.validation.dependences import FOLDER, HELD_BACK, TUNED, judge, labels, programs
from foretrace.tracer.data_flow.verdicts import Verdict, verdicts
from foretrace.tracer.structure import Structure
from foretrace.tracer.tracing import trace_binary


@pytest.mark.parametrize(
    ("name", "level"),
    [("loops.c", "-O0"), ("loops.c", "-O2"), ("held_back.f90", "-O2"), ("loops.py", "")],
)
def test_labelled_loops(name: str, level: str, tmp_path: Path) -> None:
    judged = list(judge(FOLDER / name, level, tmp_path))
    wrong = [(one.label, one.found, one.dependences) for one in judged if one.found is not None and not one.is_right]
    assert wrong == []
    seen = {one.found for one in judged}
    assert {Verdict.NONE, Verdict.REDUCTION, Verdict.RECURRENCE, Verdict.COLLISION} <= seen
    assert sum(one.found is None for one in judged) <= len(judged) // 10


@pytest.mark.parametrize(("colours", "expected"), [("1", Verdict.RECURRENCE), ("8", Verdict.NONE)])
def test_gauss_seidel_by_order_of_its_rows(colours: str, expected: Verdict, tmp_path: Path) -> None:
    """In natural order each row of a sweep uses rows before it; within one colour, no row uses another."""
    source = FOLDER.parent / "offload" / "cg_gauss_seidel.c"
    executable = tmp_path / source.stem
    include = f"-I{FOLDER.parent}"
    subprocess.run(["gcc", "-O2", "-g", include, "-o", str(executable), str(source), "-lm"], check=True)
    command = [str(executable), "6", "2", colours]
    signature = trace_binary(command, (), structure=Structure(has_dependences=True)).signature
    tree = signature.tree
    assert tree is not None
    over_rows = {
        (tree.keys[loop.node].function, loop.verdict)
        for loop in verdicts(signature)
        if tree.keys[loop.node].function.startswith("sweep_") and tree.loop_id[tree.parent[loop.node]] < 0
    }
    assert over_rows == {("sweep_forward", expected), ("sweep_backward", expected)}


def test_there_are_sixty_loops_of_all_kinds() -> None:
    tuned = [label for source in programs(TUNED) for label in labels(source)]
    held_back = [label for source in programs(HELD_BACK) for label in labels(source)]
    assert len(tuned) >= 60
    assert len(held_back) >= 30
    assert {label.verdict for label in tuned} == {label.verdict for label in held_back} == set(Verdict)


def test_a_wrong_operation_or_distance_is_wrong(tmp_path: Path) -> None:
    source = tmp_path / "loops.py"
    source.write_text("x = 0\nfor i in range(9):  # loop: reduction multiply\n    x += i * i\n")
    (one,) = judge(source, "", tmp_path)
    assert one.found is Verdict.REDUCTION
    assert not one.is_right
    assert dependences.table_of([one], "").row_count == len(Verdict)
