"""What SciPy's sparse products touch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from python_runs import Run, shape, trace

from foretrace.tracer.signature.records import IdiomKind

pytest.importorskip("scipy")

PROGRAM = """\
import json, sys
import numpy as np
import scipy.sparse as sp
rng = np.random.default_rng(1)
matrix = sp.csr_matrix(sp.random(500, 300, density=0.03, random_state=rng))
x = rng.random(300)
many = np.ones((300, 4))
y = matrix @ x
t = matrix.T @ y
block = matrix @ many
columns = matrix.tocsc()
z = columns @ x
empty = sp.csr_matrix((5, 300)) @ x
facts = dict(nonzeros=int(matrix.nnz), used=[int(matrix.indices.min()), int(matrix.indices.max())])
for name, v in dict(x=x, indices=matrix.indices, values=matrix.data, pointers=matrix.indptr, many=many).items():
    facts[name] = [v.__array_interface__["data"][0], v.nbytes]
json.dump(facts, open(sys.argv[1], "w"))
"""


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, dict[str, list[int]]]:
    directory = tmp_path_factory.mktemp("sparse")
    run = trace(directory, PROGRAM, str(directory / "facts.json"))
    return run, json.loads((directory / "facts.json").read_text())


def product(run: Run, line: int, name: str) -> list[tuple[str, int, int]]:
    return [(shape(a), a.executions, a.points) for a in run.arrays(line) if a.name == f"scipy.sparse.{name}"]


def test_csr_times_vector(sparse: tuple[Run, dict[str, list[int]]]) -> None:
    run, facts = sparse
    rows, nonzeros = product(run, 8, "csr_matvec")
    assert rows == ("load4 load4 load8 store8", 1, 500)
    assert nonzeros == ("load4* load8 gather8", 1, facts["nonzeros"])
    operations = [o for o in run.operations(8) if o.array_operation == "scipy.sparse.csr_matvec"]
    pointers, ends, _, _, indices, values, gathered = ((o.first, o.range_bytes) for o in operations)
    first, size = facts["pointers"]
    assert (pointers, ends) == ((first, size - 4), (first + 4, size - 4))
    assert indices == tuple(facts["indices"])
    assert values == tuple(facts["values"])
    low, high = facts["used"]
    assert gathered == (facts["x"][0] + 8 * low, 8 * (high - low + 1))


def test_its_gather_is_an_idiom(sparse: tuple[Run, dict[str, list[int]]]) -> None:
    run, _ = sparse
    (idiom,) = run.idioms(8)
    assert idiom.kind is IdiomKind.GATHER
    assert run.analysis.loops[idiom.loop_id].module == "scipy.sparse.csr_matvec"
    assert run.analysis.operations[idiom.index_operations[0]].size_bytes == 4


def test_flops_are_two_for_each_nonzero(sparse: tuple[Run, dict[str, list[int]]]) -> None:
    run, facts = sparse
    blocks = [b for b in run.analysis.blocks if b.module == "scipy.sparse.csr_matvec" and b.line == 8]
    assert sum(block.flops * block.executions for block in blocks) == 2 * facts["nonzeros"]


def test_csc_times_vector_scatters(sparse: tuple[Run, dict[str, list[int]]]) -> None:
    run, facts = sparse
    for line, columns in ((9, 500), (12, 300)):
        assert product(run, line, "csc_matvec") == [
            ("load4 load4 load8", 1, columns),
            ("load4* load8 gather8 scatter8", 1, facts["nonzeros"]),
        ]
        assert [idiom.kind for idiom in run.idioms(line)] == [IdiomKind.GATHER, IdiomKind.SCATTER]


def test_csr_times_several_vectors(sparse: tuple[Run, dict[str, list[int]]]) -> None:
    run, facts = sparse
    rows, nonzeros, elements = product(run, 10, "csr_matvecs")
    assert (rows[0], rows[2]) == ("load4 load4", 500)
    assert (nonzeros[0], nonzeros[2]) == ("load4* load8", facts["nonzeros"])
    assert (elements[0], elements[2]) == ("gather8 load8 store8", 4 * facts["nonzeros"])
    low, high = facts["used"]
    gathered = next(o for o in run.operations(10) if o.operation_id == run.idioms(10)[0].operations[0])
    assert (gathered.first, gathered.range_bytes) == (facts["many"][0] + 32 * low, 32 * (high - low + 1))


def test_a_matrix_without_nonzeros(sparse: tuple[Run, dict[str, list[int]]]) -> None:
    run, _ = sparse
    assert product(run, 13, "csr_matvec") == [("load4 load4 load8 store8", 1, 5)]


def test_other_sparse_functions_count_as_unseen(sparse: tuple[Run, dict[str, list[int]]], tmp_path: Path) -> None:
    run, _ = sparse
    assert [a.name for a in run.arrays(11) if a.name.startswith("scipy.sparse.csr_tocsc")]
    other = trace(tmp_path, "import numpy as np, scipy.sparse as sp\nm = sp.csr_array(np.eye(3))\nm @ m\n")
    assert "scipy.sparse.csr_matmat" in {u.name for u in other.recording.raw.unseen}
