"""Array operations of Python: what a point of each is calibrated to take, and which points a traced program has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from replay_samples import Program, measured_host, with_changes
from traces import trace_python

from foretrace.benchmarks.calibration.array_suite import array_costs, array_measurements
from foretrace.benchmarks.harness.sampling import Timing
from foretrace.profiles.library import find
from foretrace.profiles.points import ARRAY_KEYS, ARRAY_OPERATIONS, ArrayCost
from foretrace.profiles.profile import Profile
from foretrace.profiles.relatives import array_costs_of
from foretrace.replay.base.records import LoopKind
from foretrace.replay.prediction.predict import predict
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.records import ArrayTime, InterpreterTime, Signature

SCRIPT = """\
import numpy as np
from scipy import sparse
a, b, c = np.ones(3000), np.ones(3000), np.zeros(3000)
i, m, h = np.arange(3000), np.arange(3000) % 3 == 0, np.arange(3000) < 1500
f, z, u = a.astype("f4"), a + 1j, i.astype("u1")
s, t = np.ones((30, 100)), np.zeros((30, 98))
x = sparse.csr_matrix((a, (i % 50, i)), shape=(50, 3000))
"""
OPERATIONS = {
    "np.subtract(a, b, out=c)": {"add": 3000},
    "np.floor_divide(i, 7)": {"int_floor_divide": 3000},
    "a[:1500] > b[:1500]": {"less": 1500},
    "np.logical_and(m, m)": {"logical_and": 3000},
    "np.add(f, f)": {"add (float32)": 3000, "add": 0},
    "np.sin(f)": {"sin (float32)": 3000, "sin": 0},
    "np.add(i, i)": {"add (int64)": 3000},
    "a.astype(np.int64)": {"astype": 3000},
    "a.sum()": {"add.reduce": 3000},
    "s.sum(axis=0)": {"add": 2900, "stretch": 0, "add.reduce.row": 28},
    "s.sum(axis=1)": {"add.reduce": 3000, "add.reduce.row": 30, "add": 0},
    "s.min(axis=1)": {"maximum.reduce": 3000, "maximum.reduce.row": 30},
    "np.cumsum(a, out=c)": {"add.accumulate": 2999},
    "c[i] = b": {"put": 3000},
    "a[i]": {"take": 3000},
    "a[h]": {"take_mask": 3000},
    "c[h] = 2.0": {"put_mask": 3000},
    "np.where(h, a, b)": {"where": 3000},
    "h.nonzero()": {"nonzero": 3000},
    "np.bincount(i)": {"bincount": 3000},
    "np.add.at(c, i, 1.0)": {"add.at": 3000},
    "np.copyto(c, a)": {"copy": 3000},
    "np.add(s[:, 1:-1], s[:, 2:], out=t)": {"add": 2940, "stretch": 2 * 2940},
    "x @ a": {"csr_matvec": 3000},
    "s.max(axis=0)": {"add": 2900, "maximum.reduce": 0, "maximum.reduce.row": 0},
}
NOT_CALIBRATED = (
    *(
        "np.tan(a)",
        "np.cos(a)",
        "np.where(h)",
        "a.compress(h)",
        "np.logaddexp(a, b)",
        "np.exp(z)",
        "np.sqrt(z)",
        "np.add(a, f)",
        "np.add(u, u)",
        "np.power(a, 3)",
    ),
    *(
        "np.remainder(i, i + 1)",
        "a[::2] + b[::2]",
        "np.sqrt(s[:, 1:-1])",
        "s.argmax(axis=0)",
        "s.T.copy()",
        "u.astype('f8')",
    ),
    *("a.astype(np.float32)", "np.array([0.5] * 3000)", "np.arange(3000.0)", "a[m]", "a[a < 0]", "c[m] = 1.0", "f[h]"),
    *(
        "np.where(m, a, b)",
        "np.where(h, f, f)",
        "m.nonzero()",
        "s[i % 30]",
        "s[i % 30, i % 100]",
        "f[i]",
        "np.count_nonzero(m)",
    ),
    *(
        "np.logical_or.reduce(m)",
        "np.cumprod(a)",
        "np.multiply.accumulate(f)",
        "np.bincount(i, weights=a)",
        "a.repeat(2)",
    ),
)
"""Each of another type, axis, layout, density or shape than what was."""


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Signature:
    script = tmp_path_factory.mktemp("arrays") / "arrays.py"
    script.write_text(SCRIPT + "".join(f"{operation}\n" for operation in (*OPERATIONS, *NOT_CALIBRATED)))
    return trace_python(str(script)).signature


@pytest.mark.parametrize("number", range(len(OPERATIONS)), ids=list(OPERATIONS))
def test_what_ran_is_told_in_points_of_what_is_measured(traced: Signature, number: int) -> None:
    expected = OPERATIONS[list(OPERATIONS)[number]]
    workload = Workload.of(traced)
    line = SCRIPT.count("\n") + 1 + number
    mine = np.array([region.place.line == line for region in workload.regions])
    points = np.nansum(workload.totals.array_points[mine], axis=0)
    names = [ArrayCost(name, 0.0, "", None, kind).name for name, kind in ARRAY_KEYS]
    of_first = {name: f"{name} ({kinds[0]})" for name, kinds in ARRAY_OPERATIONS.items()}
    found = {name: points[names.index(of_first.get(name, name))] for name in expected}
    assert found == pytest.approx(expected, rel=0.05, abs=1)


@pytest.mark.parametrize("number", range(len(NOT_CALIBRATED)), ids=NOT_CALIBRATED)
def test_what_was_not_calibrated_stands_for_nothing(traced: Signature, number: int) -> None:
    """The last array operation of each line is none whose cost is known."""
    workload = Workload.of(traced)
    line = SCRIPT.count("\n") + 1 + len(OPERATIONS) + number
    own = [n for n, r in enumerate(workload.regions) if r.place.line == line and r.kind is LoopKind.ARRAY]
    assert own
    assert np.isnan(workload.totals.array_points[own]).all(axis=1).any()


def test_gathers_and_masks_of_one_site_are_two_regions(tmp_path: Path) -> None:
    """Frames of library code, which is charged to the line that called it."""
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "both.py").write_text("def both(a, i, m):\n    return a[i], a[m]\n")
    script = tmp_path / "masks.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(library)!r})\nimport numpy as np\nimport both\na = np.ones(3000)\n"
        "i, m = np.arange(3000) * 7919 % 3000, np.zeros(3000, bool)\nboth.both(a, i, m)\n"
    )
    workload = Workload.of(trace_python(str(script)).signature)
    misses = [
        missed
        for region, missed in zip(workload.regions, workload.totals.branch_misses, strict=True)
        if region.place.line == 7 and "__getitem__" in region.place.module
    ]
    assert misses == [0, 0], "nothing is picked: the mask's branch is always alike"


def test_a_mask_that_changes_often_is_not_foreseen(tmp_path: Path) -> None:
    script = tmp_path / "masks.py"
    script.write_text(
        "import numpy as np\na = np.ones(3000)\nm, n = np.arange(3000) % 3 == 0, np.arange(3000) < 1000\na[m]\na[n]\n"
    )
    workload = Workload.of(trace_python(str(script)).signature)
    misses = {
        region.place.line: missed
        for region, missed in zip(workload.regions, workload.totals.branch_misses, strict=True)
        if region.place.function == "<module>" and region.loop_id is not None
    }
    assert misses[4] == pytest.approx(3000, rel=0.01), "each run: its end, its copy and the next one's beginning"
    assert misses[5] == 0


@pytest.mark.parametrize(
    ("call", "changes"),
    [
        ("np.where(m, a, b)", 2000),
        ("np.where(m, a, 0.0)", 2000),
        ("np.where(n, a, b)", 1),
        ("np.copyto(b, a, where=m)", 2000),
        ("np.putmask(b, m, a)", 2000),
    ],
)
def test_what_a_mask_decides_branches_on_it(tmp_path: Path, call: str, changes: int) -> None:
    script = tmp_path / "where.py"
    script.write_text(
        "import numpy as np\na, b = np.ones(3000), np.zeros(3000)\n"
        f"m, n = np.arange(3000) % 3 == 0, np.arange(3000) < 1000\n{call}\n"
    )
    workload = Workload.of(trace_python(str(script)).signature)
    (missed,) = (
        missed
        for region, missed in zip(workload.regions, workload.totals.branch_misses, strict=True)
        if region.place.line == 4 and region.kind is LoopKind.ARRAY
    )
    assert missed == pytest.approx(changes, rel=0.01, abs=2)


@pytest.mark.parametrize(
    ("call", "timed"),
    [
        ("np.add.at(a, i, b)", False),
        ("np.add.at(a, i, 1.0)", False),
        ("np.add.at(a, i, 1)", True),
        ("np.add.at(a, i, b.astype(np.float32))", True),
        ("np.add.at(t, (j, k), 1.0)", True),
        ("np.searchsorted(b, a)", True),
        ("np.take(a, i)", False),
    ],
)
def test_what_takes_longer_than_its_accesses_tell_is_timed(tmp_path: Path, call: str, timed: bool) -> None:
    """Then its time is in its line's, and not in the array operation's as well."""
    script = tmp_path / "timed.py"
    script.write_text(
        "import numpy as np\nn = 200_000\na, b, t = np.zeros(n), np.arange(n) / n, np.zeros((10, 10))\n"
        f"i = np.arange(n)[::-1].copy() * 7919 % n; j, k = i % 10, i % 9\n{call}\n"
    )
    regions = predict(trace_python(str(script)).signature, measured_host()).loops
    arrays = [r for r in regions if r.place.line == 5 and r.kind is LoopKind.ARRAY and "astype" not in r.place.module]
    assert (sum(region.time_s for region in arrays) < 1e-12) is timed
    lines = sum(r.python_s for r in regions if r.kind is not LoopKind.ARRAY)
    assert lines > (1e-4 if timed else 0)


def array_program(misses: tuple[int, int] = (0, 0)) -> Signature:
    program = Program()
    block = program.loop(10_000, kind="array", module="numpy.exp")
    program.access(block, 10_000, misses)
    program.access(block, 10_000, misses, first=1 << 30, is_store=True)
    return program.signature()


def time_s(signature: Signature, **point_s: float) -> float:
    costs = tuple(ArrayCost(name, cost, "here") for name, cost in point_s.items())
    return predict(signature, with_changes(measured_host(), array_costs=costs)).time_s


def test_points_take_what_was_measured_and_more_where_caches_miss() -> None:
    near, far = array_program(), array_program((2000, 2000))
    assert time_s(near, exp=3e-9) - time_s(near, exp=1e-9) == pytest.approx(2e-5)
    more = time_s(far, exp=1e-9, add=1e-9) - time_s(near, exp=1e-9, add=1e-9)
    assert more > 1e-6
    beside_arithmetic = time_s(far, exp=1e-6, add=1e-9) - time_s(near, exp=1e-6, add=1e-9)
    assert beside_arithmetic < 0.5 * more
    assert time_s(near, add=1.0) == time_s(near)  # of another kind


def as_traced(kind: str, lines: float, kept_calls: int = 0) -> Signature:
    """A division whose block took so many lines while it was traced."""
    program = Program()
    block = program.loop(10_000, kind="array", module="numpy.divide")
    program.access(block, 10_000, (0, 0))
    program.access(block, 10_000, (0, 0), first=1 << 30, is_store=True)
    times = (ArrayTime(block, f"{kind},{kind}", lines, 0.0, kept_calls),)
    return replace(program.signature(), array_times=times)


DIVIDE = ArrayCost("divide", 1e-9, "here")


@pytest.mark.parametrize(
    ("kind", "kept_calls", "expected_lines"), [("float64", 0, None), ("float16", 0, 70.0), ("float64", 1, 70.0)]
)
def test_an_operation_is_priced_or_takes_as_long_as_traced(
    kind: str, kept_calls: int, expected_lines: float | None
) -> None:
    """Never both. The time of a call that was kept is elsewhere."""
    profile = with_changes(measured_host(), array_costs=(DIVIDE,))
    (found,) = predict(as_traced(kind, 70.0, kept_calls), profile).loops
    if expected_lines is None:
        assert not found.as_traced
        assert found.time_s == pytest.approx(1e-5 + 1e-6), "and a call"
    else:
        assert found.as_traced
        assert found.time_s == pytest.approx(expected_lines * line_s(profile))
        assert found.low_s <= found.time_s / 2
        assert found.high_s >= 2 * found.time_s


def line_s(profile: Profile) -> float:
    """A line of Python on a machine."""
    program = Program()
    block = program.loop(1)
    program.interpreter_times = [InterpreterTime(block, 1.0, 0.0)]
    return predict(program.signature(), profile).time_s


def test_what_takes_as_long_as_traced_is_said() -> None:
    profile = with_changes(measured_host(), array_costs=(DIVIDE,))
    found = predict(as_traced("complex128", 70.0), profile)
    (text,) = (assumption.text for assumption in found.assumptions if assumption.name == "array_traced")
    assert "(program)" in text
    assert found.loops[0].label == "array: program (as traced)"
    assert not any(a.name == "array_traced" for a in predict(as_traced("float64", 70.0), profile).assumptions)


def test_machines_without_costs_have_those_of_their_class() -> None:
    """Cycles of vectors as wide, with bounds that say so; none where no such machine was calibrated."""
    turin, genoa = find("epyc-turin-vm"), find("epyc-9654")
    assert turin.core is not None
    assert genoa.core is not None
    assert array_costs_of(turin).machines == ""
    found = array_costs_of(genoa)
    assert found.machines is not None
    assert "epyc-turin-vm" in found.machines
    own = {cost.key: cost.point_s * (turin.core.clock_hz or 0) for cost in turin.array_costs}
    for cost in found.costs:
        if cost.key in own:
            assert 0.4 < cost.point_s * (genoa.core.clock_hz or 0) / own[cost.key] < 2.5, cost.name
        assert (cost.noise or 0) >= 0.3
    assert array_costs_of(find("grace")).costs == ()
    milan = {cost.key: cost.point_s for cost in array_costs_of(find("epyc-7763")).costs}
    assert milan["sin", "float64"] < 3 * {c.key: c.point_s for c in found.costs}["sin", "float64"]


def test_each_result_of_a_reduction_takes_its_time(traced: Signature) -> None:
    costs = {"add": 1e-9, "add.reduce": 1e-9}
    line = SCRIPT.count("\n") + 1 + list(OPERATIONS).index("s.sum(axis=1)")

    def line_s(**more: float) -> float:
        profile = with_changes(
            measured_host(), array_costs=tuple(ArrayCost(n, t, "here") for n, t in (costs | more).items())
        )
        return sum(region.time_s for region in predict(traced, profile).loops if region.place.line == line)

    # Both take longer than the interpreter was timed in that line, which overlaps them.
    assert line_s(**{"add.reduce.row": 3e-6}) - line_s(**{"add.reduce.row": 2e-6}) == pytest.approx(30e-6, rel=0.01)
    assert line_s() == line_s(**{"add.reduce.row": 1e-9}), "a profile without them has them as additions"


def test_costs_are_differences_of_many_points_and_few() -> None:
    times = {
        "add": 2.1e-6,
        "add, few": 1.1e-6,
        "stretch": 3.1e-6,
        "stretch, few": 1.1e-6,
        "add.reduce": 2e-6,
        "add.reduce, few": 1e-6,
        "add.reduce.row": 14e-6,
        "add.reduce.row, few": 1e-6,
        "exp": 1e-6,
        "exp, few": 2e-6,
    }
    costs = {cost.operation: cost for cost in array_costs({n: Timing(t, 0.01, 9) for n, t in times.items()}, "here")}
    assert costs["add"].point_s == pytest.approx(1e-6 / 992, rel=1e-3)
    assert costs["add"].noise == pytest.approx(0.032)
    assert costs["stretch"].point_s == pytest.approx(1e-6 / 992, rel=1e-3)
    assert costs["add.reduce.row"].point_s == pytest.approx(9e-6 / 992, rel=1e-3), "less four points"
    assert "exp" not in costs, "impossible"


def test_all_that_a_profile_can_hold_is_measured() -> None:
    names = {name.removesuffix(", few") for name in array_measurements()}
    keys = {
        operation if kind == ARRAY_OPERATIONS[operation][0] else f"{operation} of {kind}"
        for operation, kind in ARRAY_KEYS
    }
    assert names == keys
