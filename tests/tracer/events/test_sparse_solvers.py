"""The worked example in Python: SciPy's solvers with events."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PROGRAM = Path(__file__).parents[3] / "benchmarks" / "programs" / "events" / "sparse_solvers.py"
Run = Callable[..., Any]

pytest.importorskip("scipy", reason="sparse_solvers.py needs SciPy")


def grid(side: int) -> np.ndarray[Any, Any]:
    second = 2 * np.eye(side) - np.eye(side, k=1) - np.eye(side, k=-1)
    return np.asarray(np.kron(np.eye(side), second) + np.kron(second, np.eye(side)))


def run(foretrace: Run, *arguments: str) -> Any:
    done = foretrace("events", *arguments)
    assert done.returncode == 0, done.stderr
    assert "Exception" not in done.stderr
    return done.stdout


def test_the_events_tell_what_each_method_did(foretrace: Run) -> None:
    printed = run(foretrace, "--json", "--", sys.executable, str(PROGRAM), "20", "5")
    events: dict[str, dict[str, Any]] = {}
    for event in json.loads(printed[printed.index("{") :])["events"]:
        events.setdefault(event["library"], {})[event["name"]] = event
    assert set(events) == {"CG", "CG+ILU", "BiCGSTAB", "BiCGSTAB+ILU", "GMRES", "GMRES+ILU"}
    for name, its in events.items():
        assert its["residuals"]["value"] == its["iterations"]["value"]
        steps = its["precondition.calls"]["value"]
        assert steps == its["precondition.seconds"]["value"]
        assert (steps >= its["iterations"]["value"]) if name.endswith("ILU") else (steps == 0)
        if not name.startswith("CG"):  # which is for symmetric matrices
            assert its["iterations"]["value"] < 300
            # The norm of the right side is 20. SciPy does not tell the last half step of BiCGSTAB.
            assert its["residual"]["value"] <= 1e-6
        if name.startswith("GMRES"):  # whose residuals fall
            assert its["residual"]["value"] == pytest.approx(its["residuals"]["quantiles"]["min"])
    for name in ("BiCGSTAB", "GMRES"):
        assert events[f"{name}+ILU"]["iterations"]["value"] < events[name]["iterations"]["value"]
    assert events["CG"]["products"]["value"] == events["CG"]["iterations"]["value"]


def test_the_residuals_are_those_of_the_method(foretrace: Run) -> None:
    printed = run(foretrace, "--values", "CG::residuals", "--", sys.executable, str(PROGRAM), "12", "0").splitlines()
    recorded = np.array([float(line) for line in printed if ":" not in line])
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
