"""What array operations touch: the records of each template, compared with what was worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from python_runs import Run, shape, trace

from foretrace.tracer.signature.records import IdiomKind, MemoryOperation, OperationKind

pytest.importorskip("numpy")

PROGRAM = """\
import json, sys
import numpy as np
a = np.arange(1000.0)
b = np.arange(600.0).reshape(20, 30)
c = np.zeros(1000)
index = (np.arange(40) * 37 + 3) % 1000
index[5] = -1
small = index[:20].astype(np.int32) % 20
mask = a > 990
row = np.ones(30)
def each(line, function):
    return function()
x = a[7]; y = b[3, 4]; z = b[-1]
a[-1] = 5.0; b[2, 3] = 1.0
gathered = a[index]
a[index] = 2.0
a[index] = gathered
two = b[small, small]
rows = b[small]
b[:, small] = 1.0
kept = a[mask]
a[mask] = 0.0
a[mask] = kept
a[10:20] = a[20:30]
b[:] = row
np.add.at(c, index, gathered)
np.add.at(c, index, 1.0)
taken = a.take(index)
taken_rows = np.take(b, small, axis=1)
a.put(index, gathered)
total = a + c
a += 1
np.sqrt(a, out=c)
turned = b.T * 2.0
wide = b + row
s = a.sum()
columns = b.sum(axis=0)
sums = b.sum(axis=1)
largest = b.max()
running = np.cumsum(a)
inner = a.dot(c)
vector = b @ row
product = b @ b.T
outer = np.multiply.outer(row, row)
counts = np.bincount(index[6:])
chosen = np.where(mask, a, c)
joined = np.concatenate([a, c])
single = a.astype(np.float32)
filled = np.full(50, 3.0)
compared = index < 5
z = a * (1 + 2j) * (1j + c)
listed = a[[1, 2, 3]]
ordered = np.sort(a)
words = a.astype(object)
words + words
for i in index: c[i] += a[i]
for k in range(3):
    value = a[index[k]] * c[k]
e = a[index] + c[index]
n = np.count_nonzero(mask)
where = np.nonzero(mask)[0]
arrays = dict(a=a, b=b, c=c, index=index, small=small, mask=mask, row=row, gathered=gathered)
json.dump({name: [v.__array_interface__["data"][0], v.nbytes] for name, v in arrays.items()}, open(sys.argv[1], "w"))
"""

LINES = {text.partition(" #")[0]: number for number, text in enumerate(PROGRAM.splitlines(), 1)}

GET, SET = "numpy.ndarray.__getitem__", "numpy.ndarray.__setitem__"
EXPECTED = {
    "x = a[7]; y = b[3, 4]; z = b[-1]": [(GET, "load8", 1), (GET, "load8", 1)],
    "a[-1] = 5.0; b[2, 3] = 1.0": [(SET, "store8", 1), (SET, "store8", 1)],
    "gathered = a[index]": [(GET, "load8* gather8 store8", 40)],
    "a[index] = 2.0": [(SET + " (index check)", "load8", 40), (SET, "load8* scatter8", 40)],
    "a[index] = gathered": [(SET + " (index check)", "load8", 40), (SET, "load8* load8 scatter8", 40)],
    "two = b[small, small]": [
        (GET + " (index check)", "load4", 40),
        (GET, "load4* load4* gather8 store8", 20),
    ],
    "rows = b[small]": [(GET, "load4*", 20), (GET, "gather8 store8", 600)],
    "b[:, small] = 1.0": [
        (SET + " (index check)", "load4", 20),
        (SET, "load4*", 20),
        (SET, "scatter8", 400),
    ],
    "kept = a[mask]": [(GET + " (mask)", "load1", 2000), (GET + " (picked)", "gather8 store8", 9)],
    "a[mask] = 0.0": [(SET + " (mask)", "load1", 2000), (SET + " (picked)", "scatter8", 9)],
    "a[mask] = kept": [(SET + " (mask)", "load1", 2000), (SET + " (picked)", "load8 scatter8", 9)],
    "a[10:20] = a[20:30]": [(SET, "load8 store8", 10)],
    "b[:] = row": [(SET, "load8 store8", 600)],
    "np.add.at(c, index, gathered)": [
        ("numpy.ufunc.at (index check)", "load8", 40),
        ("numpy.add.at", "load8* gather8 load8 scatter8", 40),
    ],
    "np.add.at(c, index, 1.0)": [
        ("numpy.ufunc.at (index check)", "load8", 40),
        ("numpy.add.at", "load8* gather8 scatter8", 40),
    ],
    "taken = a.take(index)": [("numpy.ndarray.take", "load8* gather8 store8", 40)],
    "taken_rows = np.take(b, small, axis=1)": [("numpy.ndarray.take", "load4* gather8 store8", 400)],
    "a.put(index, gathered)": [("numpy.ndarray.put", "load8* load8 scatter8", 40)],
    "total = a + c": [("numpy.add", "load8 load8 store8", 1000)],
    "a += 1": [("numpy.add", "load8 store8", 1000)],
    "np.sqrt(a, out=c)": [("numpy.sqrt", "load8 store8", 1000)],
    "turned = b.T * 2.0": [("numpy.multiply", "load8 store8", 600)],
    "wide = b + row": [("numpy.add", "load8 load8 store8", 600)],
    "s = a.sum()": [("numpy.add.reduce", "load8", 1000)],
    "columns = b.sum(axis=0)": [("numpy.add.reduce", "load8 load8 store8", 600)],
    "sums = b.sum(axis=1)": [("numpy.add.reduce", "load8", 600), ("numpy.add.reduce", "load8 store8", 20)],
    "largest = b.max()": [("numpy.maximum.reduce", "load8", 600)],
    "running = np.cumsum(a)": [
        ("numpy.add.accumulate", "load8 store8", 1),
        ("numpy.add.accumulate", "load8 load8 store8", 999),
    ],
    "inner = a.dot(c)": [("numpy.ndarray.dot", "load8 load8", 1000)],
    "vector = b @ row": [
        ("numpy.matmul", "load8 load8", 600),
        ("numpy.matmul", "store8", 20),
        ("numpy.matmul", "load8 store8", 20),
    ],
    "product = b @ b.T": [
        ("numpy.matmul", "load8", 1200),
        ("numpy.matmul", "store8", 400),
        ("numpy.matmul", "load8 store8", 400),
    ],
    "outer = np.multiply.outer(row, row)": [("numpy.multiply.outer", "load8 load8 store8", 900)],
    "counts = np.bincount(index[6:])": [
        ("numpy.bincount (index check)", "load8", 34),
        ("numpy.bincount", "load8* gather8 scatter8", 34),
    ],
    "chosen = np.where(mask, a, c)": [("numpy.where", "load1 store8", 1000), ("numpy.where", "gather8", 1000)],
    "joined = np.concatenate([a, c])": [("numpy.concatenate", "load8 store8", 2000)],
    "single = a.astype(np.float32)": [("numpy.ndarray.astype", "load8 store4", 1000)],
    "filled = np.full(50, 3.0)": [("numpy.asarray", "store8", 1), ("numpy.copyto", "load8 store8", 50)],
    "compared = index < 5": [("numpy.less", "load8 store1", 40)],
    "z = a * (1 + 2j) * (1j + c)": [
        ("numpy.multiply", "load8 store16", 1000),
        ("numpy.add", "load8 store16", 1000),
        ("numpy.multiply", "load16 load16 store16", 1000),
    ],
    "listed = a[[1, 2, 3]]": [(GET, "load8* gather8 store8", 3)],
    "e = a[index] + c[index]": [
        (GET, "load8* gather8 store8", 40),
        (GET, "load8* gather8 store8", 40),
        ("numpy.add", "load8 load8 store8", 40),
    ],
    "n = np.count_nonzero(mask)": [("numpy.count_nonzero", "load1", 1000)],
    "where = np.nonzero(mask)[0]": [("numpy.ndarray.nonzero", "load1", 2000), ("numpy.ndarray.nonzero", "store8", 9)],
}


@pytest.fixture(scope="module")
def numpy_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, dict[str, tuple[int, int]]]:
    """The run, and where its arrays lay: address and size."""
    directory = tmp_path_factory.mktemp("arrays")
    run = trace(directory, PROGRAM, str(directory / "addresses.json"))
    return run, json.loads((directory / "addresses.json").read_text())


@pytest.fixture(scope="module")
def run(numpy_run: tuple[Run, dict[str, tuple[int, int]]]) -> Run:
    return numpy_run[0]


@pytest.fixture(scope="module")
def addresses(numpy_run: tuple[Run, dict[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    return numpy_run[1]


@pytest.mark.parametrize("text", EXPECTED)
def test_records(run: Run, text: str) -> None:
    arrays = run.arrays(LINES[text])
    assert [(a.name, shape(a), a.points) for a in arrays] == EXPECTED[text]


def flops(run: Run, text: str) -> int:
    return sum(a.flops_per_point * a.points for a in run.arrays(LINES[text]))


def test_flops_are_those_of_the_arithmetic(run: Run) -> None:
    assert flops(run, "total = a + c") == 1000
    assert flops(run, "s = a.sum()") == 1000
    assert flops(run, "inner = a.dot(c)") == 2000
    assert flops(run, "vector = b @ row") == 2 * 600
    assert flops(run, "product = b @ b.T") == 2 * 20 * 30 * 20
    assert flops(run, "z = a * (1 + 2j) * (1j + c)") == 1000 * (6 + 2 + 6)
    assert flops(run, "compared = index < 5") == 0
    block = next(b for b in run.analysis.blocks if b.module == "numpy.sqrt")
    assert {o.kind for o in block.operations} == {OperationKind.MOVE, OperationKind.FP_SQRT}
    assert (block.executions, block.flops) == (1000, 1)


def bounds(operation: MemoryOperation) -> tuple[int, int]:
    return operation.first, operation.last_exclusive - operation.first


def test_addresses_are_those_of_the_arrays(run: Run, addresses: dict[str, tuple[int, int]]) -> None:
    def ranges(text: str) -> list[tuple[int, int]]:
        return [bounds(operation) for operation in run.operations(LINES[text])]

    a, b = addresses["a"], addresses["b"]
    assert ranges("x = a[7]; y = b[3, 4]; z = b[-1]") == [(a[0] + 7 * 8, 8), (b[0] + (3 * 30 + 4) * 8, 8)]
    assert ranges("a[-1] = 5.0; b[2, 3] = 1.0") == [(a[0] + 999 * 8, 8), (b[0] + 63 * 8, 8)]
    index, gathered = ranges("gathered = a[index]")[0], ranges("gathered = a[index]")[2]
    assert index == tuple(addresses["index"])
    assert gathered == tuple(addresses["gathered"])
    assert ranges("a[10:20] = a[20:30]") == [(a[0] + 160, 80), (a[0] + 80, 80)]
    assert ranges("total = a + c")[:2] == [tuple(a), tuple(addresses["c"])]
    assert ranges("columns = b.sum(axis=0)")[0] == tuple(b)
    assert ranges("vector = b @ row")[:2] == [tuple(b), tuple(addresses["row"])]


def test_a_gather_touches_from_the_least_to_the_largest_index(run: Run, addresses: dict[str, tuple[int, int]]) -> None:
    values = [(i * 37 + 3) % 1000 for i in range(40)]
    values[5] = 999  # -1
    expected = (addresses["a"][0] + 8 * min(values), 8 * (max(values) - min(values) + 1))
    for text, kind in (("gathered = a[index]", IdiomKind.GATHER), ("a[index] = 2.0", IdiomKind.SCATTER)):
        (idiom,) = run.idioms(LINES[text])
        assert idiom.kind is kind
        (number,) = idiom.operations
        assert bounds(run.analysis.operations[number]) == expected
        (index,) = idiom.index_operations
        assert bounds(run.analysis.operations[index]) == tuple(addresses["index"])
        assert run.analysis.operations[number].index_operation == index


def test_two_gathers_of_one_line_keep_their_ranges(run: Run, addresses: dict[str, tuple[int, int]]) -> None:
    found = [run.analysis.operations[i.operations[0]] for i in run.idioms(LINES["e = a[index] + c[index]"])]
    starts = [next(n for n in ("a", "c") if addresses[n][0] <= o.first < sum(addresses[n])) for o in found]
    assert starts == ["a", "c"]
    assert [o.last_exclusive <= sum(addresses[name]) for o, name in zip(found, starts, strict=True)] == [True, True]


def test_order_within_arrays(run: Run) -> None:
    """Runs are runs: a transposed operand is walked as it lies in memory, a broadcast one is repeated."""
    turned = run.operations(LINES["turned = b.T * 2.0"])
    assert [o.unit_stride for o in turned] == [599, 599]
    wide = run.operations(LINES["wide = b + row"])
    assert [(o.unit_stride, o.irregular + o.strided) for o in wide] == [(599, 0), (29 * 20, 19), (599, 0)]
    rows = run.operations(LINES["rows = b[small]"])
    assert rows[1].unit_stride >= 29 * 20


def test_elements_at_loaded_indices_are_gathers_and_scatters(run: Run) -> None:
    kinds = [idiom.kind for idiom in run.idioms(LINES["for i in index: c[i] += a[i]"])]
    assert sorted(kinds) == [IdiomKind.GATHER, IdiomKind.GATHER, IdiomKind.SCATTER]
    text = "    value = a[index[k]] * c[k]"
    (idiom,) = run.idioms(LINES[text])
    operations = run.operations(LINES[text])
    assert [run.analysis.operations[n].executions for n in idiom.operations] == [3]
    (index,) = idiom.index_operations
    assert index in {operation.operation_id for operation in operations}
    loop = run.analysis.loops[idiom.loop_id]
    assert (loop.kind, loop.line) == ("code", LINES[text] - 1)


def test_what_is_not_seen_is_counted(run: Run, tmp_path: Path) -> None:
    assert [a.name for a in run.arrays(LINES["ordered = np.sort(a)"])] == [
        "numpy.ndarray.copy",
        "numpy.ndarray.sort",
        "numpy.ndarray.sort",
    ]
    assert run.arrays(LINES["words + words"]) == []
    imported = trace(tmp_path, "import numpy as np\n").recording.unseen_calls  # by NumPy 1, one
    seen = trace(tmp_path, "import numpy as np\na = np.ones(3)\na + a\na[1:]\n")
    sorted_once = trace(tmp_path, "import numpy as np\na = np.ones(3)\na.sort()\n")
    assert seen.recording.unseen_calls == imported
    assert sorted_once.recording.unseen_calls == imported + 1


def test_an_operation_split_over_records_is_one_execution(tmp_path: Path) -> None:
    run = trace(
        tmp_path,
        "import numpy as np\n"
        "a = np.ones(50_000)\n"
        "index = np.arange(50_000)[::-1].copy()\n"
        "b = a[index]\n"
        "m = np.ones((100, 500), bool)\n"
        "c = a.reshape(100, 500)[m]\n",
    )
    (gather,) = run.arrays(4)
    assert (gather.executions, gather.points) == (1, 50_000)
    mask, selected = run.arrays(6)[-2:]
    assert (mask.executions, mask.points, selected.executions, selected.points) == (1, 100_000, 1, 50_000)
    down = run.operations(4)[1]
    assert (down.executions, down.unit_stride, down.range_bytes) == (50_000, 49_999, 400_000)


def test_array_loops_stand_in_the_loop_of_their_line(tmp_path: Path) -> None:
    source = "import numpy as np\na = np.ones(10)\nfor k in range(5):\n    b = a + a\n"
    run = trace(tmp_path, source)
    loops = {loop.module: loop for loop in run.loops()}
    add, code = loops["numpy.add"], loops[str(run.script)]
    assert (code.line, code.iterations, code.entries) == (3, 5, 1)
    assert (add.parent_id, add.depth, add.line, add.kind) == (code.loop_id, 2, 4, "array")
    assert (add.entries, add.iterations) == (5, 50)


def test_calls_within_numpy_are_charged_to_their_caller(tmp_path: Path) -> None:
    source = "import numpy as np\ndef mine(a):\n    return np.mean(a)\nmine(np.ones(100))\n"
    run = trace(tmp_path, source)
    assert [(a.name, a.points) for a in run.arrays(3)] == [("numpy.add.reduce", 100)]


def test_subclasses_and_overrides(tmp_path: Path) -> None:
    source = """\
import numpy as np
class Plain(np.ndarray): pass
class Loud(np.ndarray):
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        inputs = [np.asarray(i) for i in inputs]
        return getattr(ufunc, method)(*inputs, **kwargs)
    def __getitem__(self, key):
        return super().__getitem__(key)
p = np.ones(20).view(Plain)
q = np.ones(30).view(Loud)
p + p
q + q
p[3]
q[3]
np.ma.array([1.0, 2.0, 3.0])[1]
memory = np.memmap(__file__, mode="r", dtype=np.uint8)
memory[5]
"""
    run = trace(tmp_path, source)
    assert [(a.name, a.points) for a in run.arrays(11)] == [("numpy.add", 20)]
    assert [(a.name, a.points) for a in run.arrays(6)] == [("numpy.add", 30)]
    assert run.arrays(12) == []
    assert [shape(a) for a in run.arrays(13)] == ["load8"]
    assert [shape(a) for a in run.arrays(8)] == ["load8"]
    assert [shape(a) for a in run.arrays(17)] == ["load1"]


def test_cython_functions_count_as_unseen_and_store_their_result(tmp_path: Path) -> None:
    run = trace(
        tmp_path, "import numpy as np\nrng = np.random.default_rng(0)\na = rng.random(1000)\nb = rng.random()\n"
    )
    assert [(a.name, shape(a), a.points) for a in run.arrays(3)] == [("numpy.random.Generator.random", "store8", 1000)]
    assert run.arrays(4) == []
    assert run.recording.unseen_calls > 0


def test_a_program_ahead_of_its_reader_loses_nothing(tmp_path: Path) -> None:
    """Its records go to memory that was kept for other threads, which start afterwards all the same."""
    run = trace(
        tmp_path,
        "import threading\nimport numpy as np\n"
        "a = np.zeros(1000)\nindex = np.arange(2_000_000) % 1000\nb = a[index]\n"
        "def work():\n    a[index[:1000]]\n"
        "threads = [threading.Thread(target=work) for _ in range(20)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n",
    )
    (gather,) = run.arrays(5)
    assert (gather.executions, gather.points) == (1, 2_000_000)
    (inner,) = run.arrays(7)
    assert (inner.executions, inner.points) == (20, 20_000)
