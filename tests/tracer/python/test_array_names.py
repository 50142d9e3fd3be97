"""Names of NumPy's arrays in the data flow, and where they were allocated."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from traces import trace_call, trace_python

from foretrace.tracer.analysis.python.array_names import Extent, names_in
from foretrace.tracer.python.program import PythonCore
from foretrace.tracer.sampling.burst_schedule import Accuracy
from foretrace.tracer.session.launch import PythonCall
from foretrace.tracer.signature.data_flow_records import Allocation, DataFlow, ObjectKind

N = 5000


def named(source: str) -> dict[str, str]:
    """The names of a line's expressions, by their text."""
    return {source[extent.column : extent.end_column]: name for extent, name in names_in(source).items()}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("u = np.zeros(n)", {"np.zeros(n)": "u"}),
        ("self.u: Array = b - a @ x", {"b - a @ x": "self.u"}),
        ("u, (v, w) = f(1), (f(2), f(3))", {"f(1)": "u", "f(2)": "v", "f(3)": "w"}),
        ("u, *v = f(1), f(2)", {}),
        ("m = np.arange(n).reshape(2, 3).T", {"np.arange(n).reshape(2, 3).T": "m", "np.arange(n)": "m"}),
        ("d['u'] = f(1)", {"f(1)": "d['u']"}),
        ("u[1:] = a * b", {}),
        ("u[0] = a * b", {}),
        ("u += a * b", {}),
        ("p = {'x': f(1)} if c else [f(2) for _ in y]", {"f(1)": "p", "f(2)": "p"}),
        ("g((u := f(1)))", {"f(1)": "u"}),
        ("u = g(f(1), f(2) + 1)", {"f(1)": "", "f(2)": ""}),
    ],
)
def test_expressions_have_the_name_of_what_holds_them(source: str, names: dict[str, str]) -> None:
    found = named(source)
    for text in ("np.zeros(n)", "b - a @ x", "f(1)", "f(2)", "f(3)", "np.arange(n)", "a * b"):
        assert found.get(text, "") == names.get(text, "")
    for text, name in names.items():
        assert found.get(text, "") == name


def test_lines_and_columns_are_those_of_the_interpreter() -> None:
    text = "é, u = 1, np.zeros(\n    3)\n"
    code = compile(text, "x.py", "exec")
    assert {Extent(1, 11, 2, 6): "u"}.items() <= names_in(text).items()
    assert (1, 2, 11, 6) in set(code.co_positions())


PROGRAM = f"""\
import numpy as np
def grid(n):
    return np.zeros(n)
def scaled(x, by):
    def inner():
        return x * by
    return inner()
class Field:
    def __init__(self, n):
        self.force = np.full(n, 2.0)
n = {N}
u, v = grid(n), grid(n)
field = Field(n)
for _ in range(3):
    w = scaled(u + 1, 0.5)
    v[:] = w * field.force
total = np.concatenate(
    [u, v]).sum()
"""


def flow_of_script(tmp_path: Path, text: str, core: PythonCore = PythonCore.MARKERS) -> DataFlow:
    script = tmp_path / "arrays.py"
    script.write_text(text)
    flow = trace_python(str(script), core=core).signature.data_flow
    assert flow is not None
    return flow


def by_place(flow: DataFlow) -> dict[tuple[str, int], list[Allocation]]:
    """The larger allocations by name and line."""
    found: dict[tuple[str, int], list[Allocation]] = {}
    for one in flow.allocations:
        if one.total_bytes >= 8 * N:
            found.setdefault((one.name, one.line), []).append(one)
    return found


@pytest.mark.parametrize("core", list(PythonCore))
def test_a_script_has_its_arrays_by_name(core: PythonCore, tmp_path: Path) -> None:
    flow = flow_of_script(tmp_path, PROGRAM, core)
    found = by_place(flow)
    expected = {("u", 12): 1, ("v", 12): 1, ("self.force", 10): 1, ("", 15): 3, ("w", 15): 3, ("", 16): 3, ("", 17): 1}
    assert {place: [one.count for one in found[place]] for place in expected} == {
        place: [count] for place, count in expected.items()
    }
    assert {one.kind for ones in found.values() for one in ones} == {ObjectKind.ARRAY}
    assert {one.total_bytes for place in (("u", 12), ("self.force", 10)) for one in found[place]} == {8 * N}
    assert {found[place][0].function for place in expected} == {"<module>", "Field.__init__"}


def test_versions_and_footprints_belong_to_arrays(tmp_path: Path) -> None:
    flow = flow_of_script(tmp_path, PROGRAM)
    numbers = {(one.name, one.line): number for number, one in enumerate(flow.allocations)}
    touched: Counter[int] = Counter()
    for number, size in zip(flow.touched_object.tolist(), flow.touched_bytes.tolist(), strict=True):
        touched[flow.objects[number].allocation] += round(size)
    for name, line in (("u", 12), ("v", 12), ("self.force", 10)):
        assert touched[numbers[name, line]] == 8 * N
    of_v = flow.flow_allocation == numbers["v", 12]
    # One node stores all of it three times before concatenate reads it: one version.
    assert flow.flow_bytes[of_v].tolist() == [8 * N]
    (readers,) = flow.flow_readers[of_v].tolist()
    assert flow.set_starts[readers + 1] - flow.set_starts[readers] == 1


def test_memory_that_is_free_ends_its_versions(tmp_path: Path) -> None:
    loop = "for _ in range(4):\n    y = x + 1\n    del y\n"
    text = f"import numpy as np\nx = np.ones({N})\n{loop}z = np.empty({N})\nz[:] = x\n"
    flow = flow_of_script(tmp_path, text)
    (number,) = (i for i, one in enumerate(flow.allocations) if (one.name, one.line) == ("y", 4))
    rows = flow.flow_allocation == number
    assert flow.allocations[number].count == 4
    assert flow.flow_bytes[rows & (flow.flow_readers == 0)].sum() == 4 * 8 * N
    assert not flow.flow_bytes[rows & (flow.flow_readers != 0)].sum()


def test_arrays_that_grow_move(tmp_path: Path) -> None:
    text = f"import numpy as np\na = np.ones({N})\na.resize({40 * N}, refcheck=False)\na[:] = 2.0\nb = a + 1\n"
    found = by_place(flow_of_script(tmp_path, text))
    assert found["", 3][0].total_bytes == 8 * 40 * N
    assert found["b", 5][0].total_bytes == 8 * 40 * N


def test_threads_and_generated_code(tmp_path: Path) -> None:
    text = f"""\
import threading
import numpy as np
def work():
    mine = np.ones({N})
    mine *= 2
threads = [threading.Thread(target=work) for _ in range(3)]
for one in threads: one.start()
for one in threads: one.join()
exec("hidden = np.ones({N}) * 3")
"""
    found = by_place(flow_of_script(tmp_path, text))
    assert found["mine", 4][0].count == 3
    assert any(one.file == "<string>" for ones in found.values() for one in ones)


def test_arrays_of_a_function_that_is_traced() -> None:
    before = np.ones(N)

    def work() -> float:
        inside = before * 2.0
        return float(inside.sum())

    flow = trace_call(PythonCall(work, "work")).signature.data_flow
    assert flow is not None
    names = {one.name: one for one in flow.allocations}
    assert names["inside"].total_bytes == 8 * N
    assert "before" not in names


def test_bursts(tmp_path: Path) -> None:
    script = tmp_path / "long.py"
    script.write_text("import numpy as np\nfor i in range(3000):\n    a = np.ones(3000)\n    a += i\nprint(a.sum())\n")
    result = trace_python(str(script), accuracy=Accuracy.LOW)
    assert result.ending.exit_code == 0
    assert result.signature.provenance.complete
    assert result.signature.data_flow is None
