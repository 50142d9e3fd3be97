"""Array operations of Python: what a point of each is calibrated to take, and which points a traced program has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from replay_samples import Program, measured_host, with_changes

from foretrace.benchmarks.calibration.array_suite import array_costs, array_measurements
from foretrace.benchmarks.harness.sampling import Timing
from foretrace.profiles.points import ARRAY_OPERATIONS, ArrayCost
from foretrace.replay.predict import predict
from foretrace.replay.records import LoopKind
from foretrace.replay.workload import Workload
from foretrace.tracer.signature.records import Signature
from foretrace.tracer.tracing import trace_python

SCRIPT = """\
import numpy as np
from scipy import sparse
a, b, c = np.ones(3000), np.ones(3000), np.zeros(3000)
i, m = np.arange(3000), np.arange(3000) % 3 == 0
s, t = np.ones((30, 100)), np.zeros((30, 98))
x = sparse.csr_matrix((a, (i % 50, i)), shape=(50, 3000))
"""
OPERATIONS = {
    "np.subtract(a, b, out=c)": {"add": 3000},
    "np.cos(a, out=c)": {"sin": 3000},
    "np.floor_divide(i, 7)": {"int_floor_divide": 3000},
    "a[:1500] > b[:1500]": {"less": 1500},
    "np.logical_and(m, m)": {"logical_and": 3000},
    "np.add(a.astype(np.float32), np.float32(1))": {"astype": 3000, "add": 1500},
    "a.sum()": {"add.reduce": 3000},
    "s.sum(axis=0)": {"add": 2900, "stretch": 0, "add.reduce.row": 28},
    "s.sum(axis=1)": {"add.reduce": 3000, "add.reduce.row": 30, "add": 0},
    "s.min(axis=1)": {"maximum.reduce": 3000, "maximum.reduce.row": 30},
    "np.cumsum(a, out=c)": {"add.accumulate": 2999},
    "c[i] = b": {"put": 3000},
    "a[i]": {"take": 3000},
    "a[m]": {"take_mask": 3000},
    "c[m] = 2.0": {"put_mask": 3000},
    "np.where(m, a, b)": {"where": 3000},
    "m.nonzero()": {"nonzero": 3000},
    "np.bincount(i)": {"bincount": 3000},
    "np.add.at(c, i, 1.0)": {"add.at": 3000},
    "np.copyto(c, a)": {"copy": 3000},
    "np.add(s[:, 1:-1], s[:, 2:], out=t)": {"add": 2940, "stretch": 2 * 2940},
    "x @ a": {"csr_matvec": 3000},
}


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Signature:
    script = tmp_path_factory.mktemp("arrays") / "arrays.py"
    script.write_text(SCRIPT + "".join(f"{operation}\n" for operation in OPERATIONS))
    return trace_python(str(script)).signature


@pytest.mark.parametrize("number", range(len(OPERATIONS)), ids=list(OPERATIONS))
def test_what_ran_is_told_in_points_of_what_is_measured(traced: Signature, number: int) -> None:
    expected = OPERATIONS[list(OPERATIONS)[number]]
    workload = Workload.of(traced)
    line = SCRIPT.count("\n") + 1 + number
    mine = np.array([region.place.line == line for region in workload.regions])
    points = np.nansum(workload.totals.array_points[mine], axis=0)
    found = {name: points[ARRAY_OPERATIONS.index(name)] for name in expected}
    assert found == pytest.approx(expected, rel=0.05, abs=1)


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


@pytest.mark.parametrize(("microarchitecture", "cycles"), [("zen4", 6.6), ("zen3", 45.0), (None, 45.0)])
def test_arithmetic_that_was_not_measured_takes_the_usual_cycles(microarchitecture: str | None, cycles: float) -> None:
    """A power is no pass over its operands, on a machine without calibration either."""
    program = Program()
    block = program.loop(10_000, kind="array", module="numpy.power")
    program.access(block, 10_000, (0, 0))
    program.access(block, 10_000, (0, 0), first=1 << 30, is_store=True)
    machine = with_changes(measured_host(), microarchitecture=microarchitecture)
    found = predict(program.signature(), machine)
    assert found.time_s == pytest.approx(10_000 * cycles / 1e9 + 1e-6), "and a call"
    assert found.low_s <= 0.51 * found.time_s
    assert found.high_s >= 1.99 * found.time_s
    calibrated = with_changes(machine, array_costs=(ArrayCost("power", 1e-9, "here"),))
    assert predict(program.signature(), calibrated).time_s == pytest.approx(1e-5 + 1e-6)


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
    assert {name.removesuffix(", few") for name in array_measurements()} == set(ARRAY_OPERATIONS)
