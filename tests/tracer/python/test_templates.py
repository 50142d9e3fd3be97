"""What the agent says that array operations touch, against the machine code of NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from library_oracle import Touched, compare, valgrind_lacks

pytest.importorskip("scipy")

SET_UP = """\
import importlib.util, pathlib
(scipy,) = importlib.util.find_spec("scipy").submodule_search_locations
(path,) = pathlib.Path(scipy, "sparse").glob("_sparsetools.*.so")
spec = importlib.util.spec_from_file_location("scipy.sparse._sparsetools", path)  # without all else of SciPy
st = importlib.util.module_from_spec(spec)
spec.loader.exec_module(st)
n = 4000
r = np.random.default_rng(5)
a, b, c = put("a", r.random(n)), put("b", r.random(n)), put("c", np.zeros(n))
i, j = put("i", r.integers(0, n, 500)), put("j", r.integers(0, 60, 20).astype(np.int32))
w, m = put("w", r.random(500)), put("m", r.random(n) < 0.3)
M, N, P = put("M", r.random((60, 70))), put("N", r.random((70, 50))), put("P", np.zeros((60, 50)))
x, y, T = put("x", r.random(70)), put("y", np.zeros(60)), put("T", np.zeros((70, 60)))
k, s, q = put("k", np.sort(r.integers(0, n, 200))), put("s", np.sort(r.random(n))), put("q", r.random(50))
Ap, Aj = put("Ap", np.arange(0, 501, 5, dtype=np.int32)), put("Aj", r.integers(0, 100, 500).astype(np.int32))
Ai, Ax = put("Ai", r.integers(0, 100, 500).astype(np.int32)), put("Ax", r.random(500))
X, Y, B = put("X", r.random(100)), put("Y", np.zeros(100)), put("B", np.zeros((100, 100)))
Bp, Bj, Bx = put("Bp", np.zeros(101, np.int32)), put("Bj", np.zeros(500, np.int32)), put("Bx", np.zeros(500))
off, D = put("off", np.array([0, 3, -2], np.int32)), put("D", r.random((3, 100)))
"""

# Each operation, and the arrays whose elements it touches in exactly the order recorded.
OPERATIONS = {
    "a[5]": "a",
    "c[7] = 1.0": "c",
    "a[i]": "a i",
    "c[i] = w": "c i w",
    "c[i] += w": "c i",
    "M[j]": "",
    "M[:, j]": "M",
    "a[m]": "",
    "c[m] = 0.0": "",
    "c[:] = a": "",
    "T[:] = M.T": "M T",
    "c.flat[3]": "c",
    "c.fill(1.0)": "",
    "np.add(a, b, out=c)": "",
    "np.sqrt(a, out=c)": "",
    "np.clip(a, 0.2, 0.8, out=c)": "",
    "np.multiply.outer(X, X, out=B)": "",
    "np.add.at(c, i, w)": "c w",
    "np.add.reduceat(a, k)": "",
    "np.cumsum(a, out=c)": "",
    "np.maximum.accumulate(a, out=c)": "",
    "a.sum()": "a",
    "a.mean()": "a",
    "np.argmax(a)": "",
    "M.sum(axis=0, out=x)": "",
    "M.sum(axis=1, out=y)": "M",
    "np.take(a, i)": "a i",
    "c.put(i, w)": "i",
    "np.copyto(c, a, where=m)": "",
    "np.putmask(c, m, a)": "a c m",
    "np.place(c, m, b)": "b c m",
    "np.compress(m, a)": "a",
    "np.where(m, a, b)": "a b m",
    "np.nonzero(m)": "",
    "np.repeat(w, 3)": "",
    "np.concatenate([a, b])": "",
    "a.copy()": "",
    "np.bincount(i)": "i",
    "np.searchsorted(s, q)": "s",
    "np.searchsorted(s, q, side='right')": "s",
    "np.digitize(q, s)": "",
    "np.diff(a)": "",
    "np.dot(a, b)": "",
    "np.matmul(M, x, out=y)": "",
    "np.matmul(M, N, out=P)": "",
    "np.sort(a)": "",
    "st.csr_matvec(100, 100, Ap, Aj, Ax, X, Y)": "Aj Ax X Y",
    "st.csc_matvec(100, 100, Ap, Aj, Ax, X, Y)": "Aj Ax Y",
    "st.coo_matvec(500, Ai, Aj, Ax, X, Y)": "Ai Aj Ax X Y",
    "st.dia_matvec(100, 100, 3, 100, off, D, X, Y)": "off",
    "st.csr_todense(100, 100, Ap, Aj, Ax, B)": "Aj Ax B",
    "st.coo_todense(100, 100, 500, Ai, Aj, Ax, B, 0)": "Ai Aj Ax B",
    "st.coo_tocsr(100, 100, 500, Ai, Aj, Ax, Bp, Bj, Bx)": "Ai Aj Ax Bj Bx",
    "st.csr_tocsc(100, 100, Ap, Aj, Ax, Bp, Bj, Bx)": "Aj Ax Bj Bx",
    "st.expandptr(100, Ap, Bj)": "Bj",
    "st.csr_has_sorted_indices(100, Ap, Aj)": "Aj",
}

if tuple(int(n) for n in np.__version__.split(".")[:2]) >= (2, 5):  # binary searches count as unseen
    OPERATIONS = {
        text: arrays for text, arrays in OPERATIONS.items() if "searchsorted" not in text and "digi" not in text
    }

Comparison = tuple[dict[str, Touched], dict[str, Touched]]
NOTHING = Touched([], [])


@pytest.fixture(scope="module", params=["qemu", pytest.param("valgrind", marks=pytest.mark.full)])
def comparisons(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Comparison]:
    if request.param == "valgrind" and valgrind_lacks():
        pytest.skip(valgrind_lacks())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_NUM_THREADS", "1")
        found = compare(tmp_path_factory.mktemp("oracle"), SET_UP, list(OPERATIONS), request.param)
    return dict(zip(OPERATIONS, found, strict=True))


@pytest.mark.parametrize("text", OPERATIONS)
def test_bytes_and_lines_touched_are_those_recorded(comparisons: dict[str, Comparison], text: str) -> None:
    said, did = comparisons[text]
    assert did
    for name in said.keys() | did.keys():
        ours, theirs = said.get(name, NOTHING), did.get(name, NOTHING)
        for recorded, real in ((ours.loads, theirs.loads), (ours.stores, theirs.stores)):
            assert Touched.bytes_of(recorded) == Touched.bytes_of(real), name
            assert Touched.lines_of(recorded) == Touched.lines_of(real), name


@pytest.mark.parametrize("text", [text for text, arrays in OPERATIONS.items() if arrays])
def test_irregular_operands_are_touched_in_the_order_recorded(comparisons: dict[str, Comparison], text: str) -> None:
    said, did = comparisons[text]
    for name in OPERATIONS[text].split():
        assert said[name].loads == did[name].loads, name
        if did[name].stores:
            assert [address for address, _ in said[name].stores] == [address for address, _ in did[name].stores], name
