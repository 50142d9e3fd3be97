"""The worked example: Krylov solvers that say what they do."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foretrace.tracer.events import linking

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SOURCES = Path(__file__).parents[3] / "benchmarks" / "programs" / "events"


@pytest.fixture(scope="module")
def solve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("krylov") / "solve"
    flags = shlex.split(f"{linking.compiler_flags()} {linking.linker_flags()}")
    sources = [SOURCES / "krylov.c", SOURCES / "solve.c"]
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", *sources, *flags, "-lm", "-o", program], check=True)
    return program


def events_of(foretrace: Run, *command: str | Path) -> dict[str, dict[str, Any]]:
    done = foretrace("events", "--json", "--", *command)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = {}
    for event in json.loads(done.stdout[done.stdout.index("{") :])["events"]:
        found.setdefault(event["library"], {})[event["name"]] = event["value"]
    return found


def grid(side: int) -> np.ndarray[Any, Any]:
    second = 2 * np.eye(side) - np.eye(side, k=1) - np.eye(side, k=-1)
    return np.asarray(np.kron(np.eye(side), second) + np.kron(second, np.eye(side)))


def test_every_solver_converges_and_says_how(solve: Path, foretrace: Run) -> None:
    events = events_of(foretrace, solve, "40", "all", "both", "1000", "5")
    assert set(events) == {"CG", "CG+ILU", "BiCGSTAB", "BiCGSTAB+ILU", "GMRES", "GMRES+ILU"}
    for name, its in events.items():
        assert its["IterativeResidual_RCRD_D"] == its["numiter_I"]
        assert its["InitialResidual_D"] == pytest.approx(40)
        if not name.startswith("CG"):  # which is for symmetric matrices
            assert its["FinalResidual_D"] <= 1e-10 * 40
        assert its["SolverRuntime_D"] > 0
    assert events["CG"]["SpmvCount_I"] == events["CG"]["numiter_I"] + 1
    assert events["BiCGSTAB"]["SpmvCount_I"] == 2 * events["BiCGSTAB"]["numiter_I"] + 1
    restarts = -(-events["GMRES"]["numiter_I"] // 30)
    assert events["GMRES"]["SpmvCount_I"] == events["GMRES"]["numiter_I"] + restarts + 1
    for name in ("BiCGSTAB", "GMRES"):
        assert events[f"{name}+ILU"]["numiter_I"] < events[name]["numiter_I"]


def test_the_residuals_are_those_of_the_method(solve: Path, foretrace: Run) -> None:
    values = foretrace("events", "--values", "CG::IterativeResidual_RCRD_D", "--", solve, "12", "cg", "none")
    recorded = np.array([float(line) for line in values.stdout.splitlines()[1:]])
    a, residual, direction = grid(12), np.ones(144), np.ones(144)
    expected = []
    for _ in recorded:
        product = a @ direction
        next_one = residual - (residual @ residual) / (direction @ product) * product
        direction = next_one + (next_one @ next_one) / (residual @ residual) * direction
        residual = next_one
        expected.append(np.linalg.norm(residual))
    assert len(recorded) > 15
    assert recorded == pytest.approx(expected, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
def test_a_matrix_market_file_is_solved_like_the_matrix(
    symmetry: str, solve: Path, foretrace: Run, tmp_path: Path
) -> None:
    a = grid(20)
    rows, columns = np.nonzero(np.tril(a) if symmetry == "symmetric" else a)
    lines = [f"{row + 1} {column + 1} {a[row, column]:.17g}" for row, column in zip(rows, columns, strict=True)]
    path = tmp_path / "grid.mtx"
    head = f"%%MatrixMarket matrix coordinate real {symmetry}\n% a grid\n400 400 {len(lines)}\n"
    path.write_text(head + "\n".join(reversed(lines)) + "\n")
    of_file, of_grid = (events_of(foretrace, solve, matrix, "cg", "ilu")["CG+ILU"] for matrix in (path, "20"))
    for events in (of_file, of_grid):
        del events["SolverRuntime_D"]
    assert of_file == pytest.approx(of_grid)


@pytest.mark.parametrize(
    "content",
    ["", "%%MatrixMarket matrix array real general\n", "%%MatrixMarket matrix coordinate real general\n3 4 1\n1 1 1\n",
     "%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1\n"],
)  # fmt: skip
def test_a_damaged_file_is_refused(content: str, solve: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.mtx"
    path.write_text(content)
    done = subprocess.run([solve, path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{path}: is ")


def test_the_convergence_is_drawn(solve: Path, foretrace: Run, tmp_path: Path) -> None:
    picture = tmp_path / "convergence.svg"
    command = ("events", "-o", picture, "--", solve, "20", "all", "none")
    assert foretrace(*command).returncode == 0
    text = picture.read_text()
    assert all(name in text for name in ("BiCGSTAB", "GMRES", "IterativeResidual_RCRD_D"))
    again = foretrace(*command)
    assert (again.returncode, "exists" in again.stderr) == (75, True)
    nothing = foretrace("events", "-o", tmp_path / "none.svg", "--values", "GMRES::numiter_I", "--", solve, "5", "cg")
    assert nothing.returncode == 84
