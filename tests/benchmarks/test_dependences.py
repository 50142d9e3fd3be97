"""The labelled loops: what is found of them is what their labels say."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from effort import sweep
from traces import trace_binary

from foretrace.benchmarks.validation import dependences
from foretrace.benchmarks.validation.dependences import FOLDER, HELD_BACK, LATER, TUNED, judge, labels, programs
from foretrace.tracer.analysis.data_flow.verdicts import Verdict, verdicts

LABELLED = [
    ("loops.c", "-O0"), ("loops.c", "-O2"), ("unusual.c", "-O0"), ("unusual.c", "-O2"), ("held_back.f90", "-O2"),
    ("loops.py", ""),
]  # fmt: skip


@sweep(("name", "level"), LABELLED, [one for one in LABELLED if one[1] != "-O0"])  # in short: each file once
def test_labelled_loops(name: str, level: str, tmp_path: Path) -> None:
    judged = list(judge(FOLDER / name, level, tmp_path))
    wrong = [(one.label, one.found, one.dependences) for one in judged if one.found is not None and not one.is_right]
    assert wrong == []
    seen = {one.found for one in judged}
    assert {Verdict.NONE, Verdict.REDUCTION, Verdict.RECURRENCE} <= seen
    assert name == "unusual.c" or Verdict.COLLISION in seen
    assert sum(one.found is None for one in judged) <= len(judged) // 10


GUESTS = sorted(dependences.CROSS_COMPILERS)


def compiler_of(guest: str) -> tuple[str, ...]:
    """A cross compiler; the test is skipped where it is not installed."""
    compiler = dependences.CROSS_COMPILERS[guest]
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"{compiler[0]} is not installed")
    return compiler


@pytest.mark.parametrize("guest", GUESTS)
def test_labelled_loops_of_other_instruction_sets(guest: str, tmp_path: Path) -> None:
    """Write-back addressing, return addresses in registers, fused multiplications, comparisons into registers."""
    judged = list(judge(FOLDER / "loops.c", "-O2", tmp_path, compiler_of(guest)))
    assert [(one.label, one.found) for one in judged if one.found is not None and not one.is_right] == []


NARROW = """
#include <stdio.h>
#define ALONE __attribute__((noinline))
#define N 900
static unsigned char bytes[N], sums[N];
static unsigned short halves[N];
static int ring[64], numbers[N], found[N];
static ALONE void steps(unsigned short by)
{
    unsigned short value = 3;
    for (int i = 0; i < N; i++) { /* loop: none */
        halves[i] = value;
        value += by;
    }
}
static ALONE void around(void)
{
    unsigned at = 5;
    for (int i = 0; i < N; i++) { /* loop: privatisable */
        ring[at & 63] = numbers[i];
        at = (at + 3) & 63;
    }
}
static ALONE unsigned char check(void)
{
    unsigned char sum = 0;
    for (int i = 0; i < N; i++) /* loop: reduction add */
        sum += bytes[i];
    return sum;
}
static ALONE void running(void)
{
    unsigned char sum = 0;
    for (int i = 0; i < N; i++) { /* loop: recurrence */
        sum += bytes[i];
        sums[i] = sum;
    }
}
static ALONE unsigned hash(void)
{
    unsigned value = 7;
    for (int i = 0; i < N; i++) /* loop: recurrence */
        value = (value * 31 + numbers[i]) & 0xffff;
    return value;
}
static ALONE unsigned mixed(void)
{
    unsigned value = 7;
    for (int i = 0; i < N; i++) /* loop: recurrence */
        value = ((value << 3) + numbers[i]) & 0x3ff;
    return value;
}
static ALONE int chosen(void)
{
    int number = 0;
    for (int i = 0; i < N; i++) /* loop: recurrence */
        if (numbers[i] % 3 == 1)
            found[number++] = i;
    return number;
}
int main(int argc, char **argv)
{
    for (int i = 0; i < N; i++) { /* loop: none */
        numbers[i] = i * 7 % 101;
        bytes[i] = i * i;
    }
    steps(argc + 40000);
    around();
    running();
    printf("%d %u %u %d %d\\n", check(), hash(), mixed(), chosen(), sums[5] + halves[7] + ring[3] + found[2]);
    return 0;
}
"""


@sweep("level", ["-O1", "-O2"], ["-O2"])
@pytest.mark.parametrize("guest", ["x86_64", *GUESTS])
def test_numbers_of_few_bits(guest: str, level: str, tmp_path: Path) -> None:
    """What is added up modulo a power of two is an induction or a reduction like any other sum."""
    source = tmp_path / "narrow.c"
    source.write_text(NARROW)
    judged = list(judge(source, level, tmp_path, () if guest == "x86_64" else compiler_of(guest)))
    assert [(one.label, one.found) for one in judged if one.found is not None and not one.is_right] == []
    assert sum(one.found is not None for one in judged) >= 7


COLLISIONS = """
#include <stdlib.h>
#define N 700
double to[97], from[N];
int at[N];
static __attribute__((noinline)) void add(void)
{
    for (int i = 0; i < N; i++)
        to[at[i]] += from[i];
}
static __attribute__((noinline)) void put(void)
{
    for (int i = 0; i < N; i++)
        to[at[i]] = from[i];
}
int main(void)
{
    unsigned seed = SEED;
    for (int i = 0; i < N; i++) {
        seed = seed * 1664525u + 1013904223u;
        at[i] = seed / 65536 % PLACES;
    }
    for (int again = 0; again < 3; again++) {
        add();
        put();
    }
    return 0;
}
"""


@pytest.mark.parametrize(("seed", "places"), [(1, 97), (2, 5), (3, 2)])
def test_collisions_are_those_of_the_indices(seed: int, places: int, tmp_path: Path) -> None:
    """Each of three entries: all updates but the first of each place."""
    source, executable = tmp_path / "collisions.c", tmp_path / "collisions"
    source.write_text(COLLISIONS)
    options = [f"-DSEED={seed}u", f"-DPLACES={places}u", "-O2", "-g"]
    subprocess.run(["gcc", *options, "-static", "-o", str(executable), str(source)], check=True)
    at = []
    for _ in range(700):
        seed = (seed * 1664525 + 1013904223) % (1 << 32)
        at.append(seed // 65536 % places)
    expected = 3 * (len(at) - len(set(at)))
    signature = trace_binary([str(executable)], (), has_dependences=True).signature
    tree = signature.tree
    assert tree is not None
    found = Counter[str]()
    for loop in verdicts(signature):
        if tree.keys[loop.node].function in ("add", "put"):  # in each calling context
            assert loop.verdict is Verdict.COLLISION
            found[tree.keys[loop.node].function] += sum(one.count for one in loop.dependences)
    assert found == {"add": expected, "put": expected}


def test_updates_are_judged_by_the_memory_that_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a share of the pages is followed, the updates of the others count neither as such nor as other stores."""
    source, executable = tmp_path / "scattered.c", tmp_path / "scattered"
    source.write_text(SCATTERED)
    subprocess.run(["gcc", "-O2", "-g", "-static", "-o", str(executable), str(source)], check=True)
    monkeypatch.setattr("foretrace.tracer.session.session.MAX_SHADOW_BYTES", 1 << 20)
    signature = trace_binary([str(executable)], (), has_dependences=True).signature
    tree = signature.tree
    assert tree is not None
    assert any("of the memory pages were followed" in note for note in signature.provenance.notes)
    found = {tree.keys[one.node].function: one.verdict for one in verdicts(signature)}
    assert found["count"] is Verdict.COLLISION


SCATTERED = """
static int bins[1 << 18], at[1 << 18];
static __attribute__((noinline)) void count(void)
{
    for (int i = 0; i < 1 << 18; i++)
        bins[at[i]]++;
}
int main(void)
{
    unsigned seed = 1;
    for (int i = 0; i < 1 << 18; i++) {
        seed = seed * 1664525u + 1013904223u;
        at[i] = seed >> 14;
    }
    count();
    return bins[3] == 77;
}
"""


@pytest.mark.parametrize(("colours", "expected"), [("1", Verdict.RECURRENCE), ("8", Verdict.NONE)])
def test_gauss_seidel_by_order_of_its_rows(colours: str, expected: Verdict, tmp_path: Path) -> None:
    """In natural order each row of a sweep uses rows before it; within one colour, no row uses another."""
    source = FOLDER.parent / "offload" / "cg_gauss_seidel.c"
    executable = tmp_path / source.stem
    include = f"-I{FOLDER.parent}"
    subprocess.run(["gcc", "-O2", "-g", "-static", include, "-o", str(executable), str(source), "-lm"], check=True)
    command = [str(executable), "6", "2", colours]
    signature = trace_binary(command, (), has_dependences=True).signature
    tree = signature.tree
    assert tree is not None
    over_rows = {
        (tree.keys[loop.node].function, loop.verdict)
        for loop in verdicts(signature)
        if tree.keys[loop.node].function.startswith("sweep_") and tree.loop_id[tree.parent[loop.node]] < 0
    }
    assert over_rows == {("sweep_forward", expected), ("sweep_backward", expected)}


REPETITION = """
#define N 300
double x[N], y[N], rows[N][20], scratch[64];
static __attribute__((noinline)) void scale(double *to, const double *from, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = 2 * from[i] + 1;
}
static __attribute__((noinline)) double sum(const double *from, int n)
{
    double total = 0;
    for (int i = 0; i < n; i++)
        total += from[i];
    return total;
}
int main(int argc, char **argv)
{
    double total = 0;
    for (int again = 0; again < 20 * argc; again++) // 18
        scale(y, x, N);
    total += sum(y, N);
    for (int tile = 0; tile < 20 * argc; tile++) // 21
        scale(rows[tile], x, 20);
    total += sum(rows[5], 20);
    for (int i = 0; i < N * argc; i++) { // 24: most of what it stores is temporary
        scale(scratch, x + i % 8, 64);
        y[i] = scratch[i % 64];
    }
    return total + y[7] > 1e9;
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_a_repetition_is_no_parallel_loop(level: str, tmp_path: Path) -> None:
    source, executable = tmp_path / "again.c", tmp_path / "again"
    source.write_text(REPETITION.lstrip())
    subprocess.run(["gcc", level, "-g", "-fno-inline", "-static", "-o", str(executable), str(source)], check=True)
    signature = trace_binary([str(executable)], (), has_dependences=True).signature
    tree = signature.tree
    assert tree is not None
    assert signature.data_flow is not None
    of_main = {tree.keys[one.node].line: one for one in verdicts(signature) if tree.keys[one.node].function == "main"}
    again, tiles, temporaries = (of_main[line] for line in (18, 21, 24))
    assert [one.is_repetition for one in (again, tiles, temporaries)] == [True, False, False]
    assert again.overwritten > 0.94
    assert tiles.overwritten == 0
    assert temporaries.overwritten > 0.97
    assert again.live_bytes == pytest.approx(300 * 8)
    # Without recorded dependences: results that nothing read count once, however often they were stored.
    inside = np.array([node == again.node or tree.parent[node] == again.node for node in range(len(tree))])
    inside |= np.isin(tree.parent, np.flatnonzero(inside))
    if level == "-O2":  # otherwise variables on the stack are stored and read all the time
        assert signature.data_flow.written_bytes(inside) < 0.2 * 20 * 300 * 8


def test_there_are_sixty_loops_of_all_kinds() -> None:
    tuned = [label for source in programs(TUNED) for label in labels(source)]
    held_back = [label for source in programs(HELD_BACK) for label in labels(source)]
    assert len(tuned) >= 60
    assert len(held_back) >= 30
    assert sum(len(labels(source)) for source in programs(LATER)) >= 50
    assert {label.verdict for label in tuned} == {label.verdict for label in held_back} == set(Verdict)


def test_a_wrong_operation_or_distance_is_wrong(tmp_path: Path) -> None:
    source = tmp_path / "loops.py"
    source.write_text("x = 0\nfor i in range(9):  # loop: reduction multiply\n    x += i * i\n")
    (one,) = judge(source, "", tmp_path)
    assert one.found is Verdict.REDUCTION
    assert not one.is_right
    assert len(dependences.table_of([one], "").rows) == len(Verdict)
