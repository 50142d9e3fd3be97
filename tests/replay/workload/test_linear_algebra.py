"""Linear algebra of Python programs: what is recorded of it, what it is priced at, and how that is measured."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from python_runs import Run, trace
from replay_samples import Program, measured_host, with_changes

from foretrace.benchmarks.calibration.linear_suite import linear_costs, linear_measurements
from foretrace.benchmarks.validation import linear_algebra as benchmark
from foretrace.profiles.points import LINEAR_ROUTINES, LINEAR_TYPES, LinearCost
from foretrace.replay.prediction.predict import predict
from foretrace.replay.workload.linear_algebra import LinearFigures, effective_size, square_flops
from foretrace.tracer.analysis.python.linear_algebra import linear_algebra
from foretrace.tracer.analysis.python.python_analysis import analyse
from foretrace.tracer.reader.raw_trace import RawLinear
from foretrace.tracer.signature.linear_algebra import LinearRoutine as Routine
from foretrace.tracer.signature.linear_algebra import linear_flops
from foretrace.tracer.signature.records import LinearAlgebra, Signature

SCRIPT = """\
import numpy as np, scipy.linalg as sl, scipy.linalg.blas
random = np.random.default_rng(1)
a, b, v, t = random.random((40, 30)), random.random((30, 20)), random.random(30), random.random((5, 6, 7))
s, s4, i, c = random.random((30, 30)), np.ones((30, 30), "f4"), np.arange(900).reshape(30, 30), np.ones((30, 30), "c16")
h, p, w = s + s.T, s @ s.T + 30 * np.eye(30), random.random(40)
"""
CALLS = {
    "a @ b": ("gemm", "float64", 40, 20, 30, 1),
    "a @ v": ("gemv", "float64", 40, 1, 30, 1),
    "w @ a": ("gemv", "float64", 30, 1, 40, 1),
    "v @ v": ("dot", "float64", 1, 1, 30, 1),
    "a.dot(b)": ("gemm", "float64", 40, 20, 30, 1),
    "s4 @ s4": ("gemm", "float32", 30, 30, 30, 1),
    "c @ s": ("gemm", "complex128", 30, 30, 30, 1),
    "s4 @ s": ("gemm", "float64", 30, 30, 30, 1),
    "i @ i": ("no_blas", "integer", 30, 30, 30, 1),
    "a @ a.T": ("syrk", "float64", 40, 40, 30, 1),
    "t @ t.transpose(0, 2, 1)": ("gemm", "float64", 6, 6, 7, 5),
    "np.inner(a, b.T)": ("gemm", "float64", 40, 20, 30, 1),
    "np.vdot(a, a)": ("dot", "float64", 1, 1, 1200, 1),
    "np.dot(t, t[0].T)": ("dot", "float64", 1, 1, 7, 180),
    "np.tensordot(t, t, ((1, 2), (1, 2)))": ("syrk", "float64", 5, 5, 42, 1),
    "np.einsum('ij,jk->ik', a, b)": ("einsum", "float64", 24000, 1, 2, 1),
    "np.einsum('...ij,j->...i', t, v[:7])": ("einsum", "float64", 210, 1, 2, 1),
    "np.linalg.solve(s, v)": ("solve", "float64", 30, 30, 1, 1),
    "np.linalg.solve(s[None].repeat(4, 0), b)": ("solve", "float64", 30, 30, 20, 4),
    "np.linalg.solve(i + np.eye(30, dtype=int), v)": ("solve", "float64", 30, 30, 1, 1),
    "np.linalg.inv(s4 + np.eye(30, dtype='f4'))": ("inverse", "float32", 30, 30, 0, 1),
    "np.linalg.det(c + np.eye(30))": ("lu", "complex128", 30, 30, 0, 1),
    "np.linalg.cholesky(p)": ("cholesky", "float64", 30, 30, 0, 1),
    "np.linalg.qr(a, mode='r')": ("qr", "float64", 40, 30, 0, 1),
    "np.linalg.eigh(h)": ("eigenvectors_symmetric", "float64", 30, 30, 0, 1),
    "np.linalg.eigvalsh(h)": ("eigenvalues_symmetric", "float64", 30, 30, 0, 1),
    "np.linalg.eig(s)": ("eigenvectors", "float64", 30, 30, 0, 1),
    "np.linalg.eigvals(s)": ("eigenvalues", "float64", 30, 30, 0, 1),
    "np.linalg.svd(a)": ("singular_vectors_full", "float64", 40, 30, 0, 1),
    "np.linalg.svd(a, full_matrices=False)": ("singular_vectors", "float64", 40, 30, 0, 1),
    "np.linalg.svd(a, compute_uv=False)": ("singular_values", "float64", 40, 30, 0, 1),
    "np.linalg.lstsq(a, w, rcond=None)": ("least_squares", "float64", 40, 30, 1, 1),
    "sl.lu_factor(s)": ("lu", "float64", 30, 30, 0, 1),
    "sl.cho_factor(p)": ("cholesky", "float64", 30, 30, 0, 1),
    "sl.cho_solve((p, True), b)": ("cholesky_solve", "float64", 30, 30, 20, 1),
    "sl.eigh(h)": ("eigenvectors_symmetric", "float64", 30, 30, 0, 1),
    "sl.eigvalsh(h)": ("eigenvalues_symmetric", "float64", 30, 30, 0, 1),
    "sl.eig(s)": ("eigenvectors", "float64", 30, 30, 0, 1),
    "sl.svd(a)": ("singular_vectors_full", "float64", 40, 30, 0, 1),
    "sl.svdvals(a)": ("singular_values", "float64", 40, 30, 0, 1),
    "sl.hessenberg(s)": ("hessenberg", "float64", 30, 30, 0, 1),
    "sl.lstsq(a, w)": ("least_squares", "float64", 40, 30, 1, 1),
    "sl.blas.dgemm(1.0, a, b.T, trans_b=1)": ("gemm", "float64", 40, 20, 30, 1),
}
"""By the call: routine, type, m, n, k and batch of the work that is counted for it."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    pytest.importorskip("scipy")
    source = SCRIPT + "".join(f"{call}\n" for call in CALLS)
    return trace(
        tmp_path_factory.mktemp("linear"), source.replace("scipy.linalg as sl", "scipy.linalg as sl, scipy.linalg.blas")
    )


def by_line(run: Run) -> dict[int, list[LinearAlgebra]]:
    found: dict[int, list[LinearAlgebra]] = defaultdict(list)
    for record in run.analysis.linear_algebra:
        loop = run.analysis.loops[record.loop_id]
        if loop.file == str(run.script):
            found[loop.line].append(record)
    return found


@pytest.mark.parametrize("number", range(len(CALLS)), ids=list(CALLS))
def test_shapes_and_types_are_counted(run: Run, number: int) -> None:
    line, wanted = len(SCRIPT.splitlines()) + 1 + number, list(CALLS.values())[number]
    (record,) = by_line(run)[line]
    assert (str(record.routine), record.element_type, record.m, record.n, record.k, record.batch) == wanted
    assert record.calls == 1


def test_counted_calls_are_not_unseen(run: Run) -> None:
    """Nor are calls that ask LAPACK how much room it wants. Hessenberg form balances the matrix first, unseen."""
    lines = {b.block_id: b.line for b in run.recording.raw.python_blocks if b.file == str(run.script)}
    first = len(SCRIPT.splitlines()) + 1
    unseen = {(lines[u.block_id], u.name) for u in run.recording.raw.unseen if lines.get(u.block_id, 0) >= first}
    hessenberg = first + list(CALLS).index("sl.hessenberg(s)")
    of_libraries = {call for call in unseen if any(part in call[1] for part in ("linalg", "einsum", "dot", "f2py"))}
    assert of_libraries == {(hessenberg, "(functions made by f2py)")}


def test_flops_of_a_program_hold_those_of_linear_algebra(run: Run) -> None:
    line = len(SCRIPT.splitlines()) + 1 + list(CALLS).index("np.linalg.eig(s)")
    flops = sum(b.executions * b.flops for b in run.analysis.blocks if b.file == str(run.script) and b.line == line)
    assert flops == pytest.approx(25 * 30**3, rel=0.01)


def test_loops_over_many_shapes_have_them_rounded(tmp_path: Path) -> None:
    run = trace(
        tmp_path,
        "import numpy as np\nv = np.ones(3000)\nfor n in range(1, 3001):\n    v[:n] @ v[:n]\n",
    )
    records = by_line(run)[4]
    assert sum(record.calls for record in records) == 3000
    assert len(records) < 500
    assert sum(record.calls * record.flops for record in records) == pytest.approx(3000 * 3001, rel=0.01)


def test_linear_algebra_is_not_timed_as_well(tmp_path: Path) -> None:
    """A singular value decomposition takes as long as a million lines of Python; its call a small part of that."""
    run = trace(tmp_path, "import numpy as np\na = np.random.default_rng(1).random((600, 600))\nnp.linalg.svd(a)\n")
    analysis = analyse(run.recording.raw, run.recording.statistics, 100.0)
    blocks = {block.block_id for block in analysis.blocks if block.file == str(run.script) and block.line == 3}
    lines = [time.lines for time in analysis.interpreter_times if time.block_id in blocks]
    assert lines
    assert max(lines) < 200_000


# ---- operations by formula ------------------------------------------------------------------------------------------


def counted_lu(m: int, n: int) -> int:
    """A multiplication and a subtraction for each element behind each pivot, and the divisions by the pivots."""
    return sum((m - 1 - p) * (1 + 2 * (n - 1 - p)) for p in range(min(m, n)))


def counted_cholesky(n: int) -> int:
    return sum(1 + (n - 1 - p) + (n - 1 - p) * (n - p) for p in range(n))


def counted_qr(m: int, n: int) -> int:
    """Each reflector: its norm, and for each column behind it a product and an update."""
    return sum(3 * (m - p) + 4 * (m - p) * (n - 1 - p) for p in range(min(m - 1, n)))


@pytest.mark.parametrize(("m", "n"), [(200, 200), (300, 100)])
def test_formulas_are_those_of_the_algorithms(m: int, n: int) -> None:
    assert linear_flops(Routine.LU, m, n, 0) == pytest.approx(counted_lu(m, n), rel=0.03)
    assert linear_flops(Routine.LU, n, m, 0) == pytest.approx(counted_lu(n, m), rel=0.03)
    assert linear_flops(Routine.QR, m, n, 0) == pytest.approx(counted_qr(m, n), rel=0.03)
    assert linear_flops(Routine.CHOLESKY, n, n, 0) == pytest.approx(counted_cholesky(n), rel=0.03)


def test_complex_operations_count_four_times() -> None:
    assert linear_flops(Routine.GEMM, 3, 4, 5, is_complex=True) == 4 * 2 * 3 * 4 * 5


@pytest.mark.parametrize("routine", Routine)
def test_every_routine_is_priced_with_and_without_measurements(routine: Routine) -> None:
    record = LinearAlgebra(0, routine, "float64", 200, 200, 200, 1, 1, linear_flops(routine, 200, 200, 200))
    for costs in ((), (LinearCost("gemm", "float64", 64, 1e-5, "here"),)):
        price = LinearFigures.of(costs, np.full(3, 1e-11), 1e-9).price(record)
        assert 0 < price.time_s[0] < price.time_s[1] < price.time_s[2]


# ---- prediction -----------------------------------------------------------------------------------------------------


def program(*records: LinearAlgebra, misses: tuple[int, int] = (0, 0)) -> Signature:
    """An array operation of 10,000 loads, and what it computes."""
    made = Program()
    block = made.loop(10_000, kind="array", module="numpy.matmul", entries=1)
    made.access(block, 10_000, misses)
    return dataclasses.replace(made.signature(), linear_algebra=records)


def product(n: int, element_type: str = "float64", *, batch: int = 1, m: int | None = None) -> LinearAlgebra:
    flops = linear_flops(Routine.GEMM, m or n, n, n, is_complex=element_type.startswith("complex"))
    return LinearAlgebra(0, Routine.GEMM, element_type, m or n, n, n, batch, 1, flops)


HOST = with_changes(measured_host(), core=with_changes(measured_host().core, python_call_s=1e-12))
POINTS = {4: 1e-6, 50: 1e-4, 100: 4e-4}
COSTS = tuple(LinearCost("gemm", "float64", size, time_s, "here") for size, time_s in POINTS.items())


def time_s(signature: Signature, costs: tuple[LinearCost, ...] = COSTS) -> float:
    return predict(signature, with_changes(HOST, linear_algebra=costs)).time_s


def test_measured_sizes_take_what_they_took() -> None:
    for size, measured_s in POINTS.items():
        assert time_s(program(product(size))) == pytest.approx(measured_s, rel=0.01)
    assert 1e-4 < time_s(program(product(70))) < 4e-4
    assert time_s(program(product(50, batch=7))) == pytest.approx(7e-4, rel=0.01)


def test_thin_products_are_slower_by_the_flop_than_square_ones() -> None:
    thin, square = product(20, m=2_000), product(100)
    assert effective_size(thin) == pytest.approx(3 / (2 / 20 + 1 / 2_000))
    assert time_s(program(thin)) / thin.flops > 1.2 * time_s(program(square)) / square.flops


def test_types_that_were_not_measured_are_scaled() -> None:
    double, single, complex_ = (time_s(program(product(100, kind))) for kind in ("float64", "float32", "complex128"))
    assert 1.4 < double / single < 2.1
    assert 3 < complex_ / double < 4.5


def test_without_measurements_products_come_near_the_vector_peak_and_say_so() -> None:
    prediction = predict(program(product(1000)), HOST)
    peak_s = 2e9 / 4e9
    assert prediction.low_s == pytest.approx(peak_s / 0.95, rel=0.05)
    assert 1.2 * peak_s < prediction.time_s < 1.5 * peak_s
    assert prediction.high_s > 2.3 * peak_s
    (assumption,) = [text for text in prediction.assumptions if text.name == "linear_algebra"]
    assert "not measured" in str(assumption)
    assert "scalar_flops" not in {text.name for text in prediction.assumptions}
    measured = predict(program(product(70)), with_changes(HOST, linear_algebra=COSTS))
    (assumption,) = [text for text in measured.assumptions if text.name == "linear_algebra"]
    assert "at the rates measured" in str(assumption)
    assert measured.high_s / measured.low_s < prediction.high_s / prediction.low_s


def test_large_vectors_wait_for_memory() -> None:
    gemv = LinearAlgebra(0, Routine.GEMV, "float64", 100, 1, 100, 1, 1, 2e4)
    costs = (LinearCost("gemv", "float64", 100, 1e-6, "here"),)
    near, far = time_s(program(gemv), costs), time_s(program(gemv, misses=(10_000, 10_000)), costs)
    assert near == pytest.approx(1e-6, rel=0.02)
    assert far > near + 2e-5  # 80,000 bytes at 2 GB/s


def test_large_products_hide_memory() -> None:
    hidden = time_s(program(product(1000), misses=(10_000, 10_000)))
    assert hidden == pytest.approx(time_s(program(product(1000))), rel=1e-6)


def test_loads_of_products_are_not_charged_as_a_scalar_loop_has_them() -> None:
    """10,000 loads, one a cycle of 1 ns, would be 10 us."""
    assert time_s(program(product(4))) == pytest.approx(1e-6, rel=0.01)


# ---- calibration ----------------------------------------------------------------------------------------------------


def test_what_is_measured_runs_and_has_points() -> None:
    measurements = linear_measurements(fine=False)
    for key, measurement in measurements.items():
        if key.size <= 64:
            measurement.run(1)
            measurement.run(1)
            measurement.sample()
    costs = linear_costs({key: m.timing for key, m in measurements.items() if m.samples.groups}, "here")
    assert {cost.routine for cost in costs} == set(LINEAR_ROUTINES) <= set(map(str, Routine))
    assert {cost.element_type for cost in costs} <= set(LINEAR_TYPES)
    assert all(cost.time_s > 0 for cost in costs)
    assert all(square_flops(Routine(cost.routine), cost.size, cost.element_type) > 0 for cost in costs)


def test_the_benchmark_compares_predictions_with_measurements(tmp_path: Path) -> None:
    rows = list(benchmark.compare("epyc-turin-vm", ["matmul float64 100", "solve 100"], tmp_path))
    assert [row.name for row in rows] == ["matmul float64 100", "solve 100"]
    for row in rows:
        assert 0 < row.low <= row.predicted <= row.high
        assert row.measured > 0


def test_names_that_are_counted_are_known(run: Run) -> None:
    """The agent's list and the analysis's agree: no name raises."""
    assert len(run.recording.raw.linear) >= len(CALLS)
    for raw in run.recording.raw.linear:
        assert linear_algebra(raw, 0).flops >= 0


def test_all_routines_of_the_agent_have_a_formula() -> None:
    source = (Path(__file__).parents[3] / "tracer/python/arrays/linear.c").read_text()
    lapack = source.partition("lapack[] = {")[2].partition("};")[0].split('"')[1::2]
    routines = source.partition("routines[] = {")[2].partition("};")[0].split('"')[1::2]
    assert len(lapack) > 40
    for name in (*(f"scipy.linalg.d{name}" for name in lapack), *routines):
        raw = RawLinear(1, 0, name, "f", 8, False, (30, 30), (30, 5), (30, 30), 1, 1)
        assert linear_algebra(raw, 0).flops > 0, name
