"""Idioms of array operations and of elements beyond gathers and scatters."""

from __future__ import annotations

import pytest
from python_runs import trace

SOURCE = """
import numpy as np
a, b, m = np.arange(2000.0), np.ones(2000), np.arange(10000.0).reshape(100, 100)
i = np.arange(2000)[::-1] % 600
c, h = np.empty(2000), np.zeros(600)
c[:] = a  # stream
np.add(a, b, out=c)  # stream
d = a[:-2] + a[2:]  # stencil
s = a.sum()  # reduction
t = m.T.copy()  # transpose
p = m @ m  # matrix-product
q = m @ m[0]  # matrix-vector-product
f = np.cumsum(a)  # prefix-scan
np.add.at(h, i, 1.0)  # gather-modify-scatter
e = a[::4] * 2  # strided
o = np.sort(b)  # sort
k = a[a > 10]  # compaction
w = a[:32][i % 32]  # table-lookup
l = [float(x) for x in range(500)]
for x in range(1, 499): l[x] = l[x - 1] + 1  # recurrence
"""
LINES = {number: text.split("# ")[1] for number, text in enumerate(SOURCE.splitlines(), 1) if "# " in text}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    """The script's analysis."""
    return trace(tmp_path_factory.mktemp("array_idioms"), SOURCE)


@pytest.mark.parametrize(("line", "idiom"), LINES.items(), ids=LINES.values())
def test_idioms(run, line: int, idiom: str) -> None:
    assert idiom in {str(one.kind) for one in run.all_idioms(line)}
