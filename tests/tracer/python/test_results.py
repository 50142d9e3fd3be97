"""NumPy and SciPy compute the same bits, traced or not, whatever they are asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from python_runs import run_plain, run_traced

pytest.importorskip("scipy")

BATTERY = Path(__file__).parents[2] / "helpers" / "python_battery.py"


@pytest.mark.parametrize("seed", [1, 2])
def test_same_bits(tmp_path: Path, seed: int) -> None:
    plain = run_plain(tmp_path, str(BATTERY), str(seed), "80")
    traced = run_traced(tmp_path, str(BATTERY), str(seed), "80")
    assert plain.stderr == ""
    assert plain.returncode == 0
    assert len(plain.stdout.splitlines()) > 1500
    assert traced.stdout.splitlines() == plain.stdout.splitlines()
    assert (traced.returncode, traced.stderr) == (0, "")
