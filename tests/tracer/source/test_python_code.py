"""Python's front end: what it lowers runs as Python runs, before and after the passes, and bad input is skipped."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from python_form_interpreter import PythonInterpreter

from foretrace.tracer.source.flow.effects import facts
from foretrace.tracer.source.flow.normal import normal
from foretrace.tracer.source.form import records as form
from foretrace.tracer.source.form.text import function_text
from foretrace.tracer.source.form.walk import loops, statements
from foretrace.tracer.source.python_code import lower_file, lower_text

PROGRAMS = {
    "range": "for i in range(n):\n    a[i] = b[i] + i",
    "strides": "for i in range(1, n, 3):\n    a[i] = i\nfor i in range(n - 1, 2, -2):\n    b[i] = a[i] - i",
    "enumerate": "for i, v in enumerate(b):\n    a[i] = v * 2",
    "enumerate from": "for i, v in enumerate(b[2:], 2):\n    a[i] = v * 2",
    "zip": "k = 0\nfor x, y in zip(a, b):\n    a[k] = x * y\n    k += 1",
    "reversed": "k = 0\nfor i in reversed(range(n)):\n    a[k] = b[i]\n    k += 1",
    "over an array": "t = 0\nfor v in b:\n    t = t + v\na[0] = t",
    "variable used after": "for i in range(n):\n    a[i] = 1\na[0] = i",
    "variable assigned inside": "for i in range(n // 2):\n    a[i] = 1\n    i = i * 2\n    b[i] = 7",
    "while": "i = 0\nwhile i < n:\n    a[i] = i\n    i += 2",
    "countdown": "i = n\nwhile i:\n    i -= 1\n    a[i] = b[i] + i",
    "two ends": "i, j = 0, n - 1\nwhile i < j:\n    a[i], a[j] = a[j], a[i]\n    i += 1\n    j -= 1",
    "endless": "i = 0\nwhile True:\n    if i >= n:\n        break\n    a[i] = i\n    i += 1",
    "continue": "for i in range(n):\n    if b[i] > 2:\n        continue\n    a[i] = 5",
    "break and else": "for i in range(n):\n    if b[i] > 100:\n        break\nelse:\n    a[0] = 77",
    "break taken": "for i in range(n):\n    if b[i] > 1:\n        break\nelse:\n    a[0] = 77",
    "nested counter": "k = 0\nfor i in range(3):\n    for j in range(4):\n        a[k] = b[j] + i\n        k += 1",
    "list": "out = []\nfor v in b:\n    if v > 2:\n        out.append(v)\nfor i in range(2):\n    a[i] = out[i]",
    "comprehension": "c = [v * v for v in b]\nfor i in range(n):\n    a[i] = c[i]",
    "filtered": "c = [v for v in b if v > 2]\na[0] = c[1]",
    "generator": "a[0] = sum(x * y for x, y in zip(a, b))",
    "slices": "a[1:-1] = b[:-2] + b[2:]",
    "overlapping slices": "a[1:] = a[:-1]",
    "strided slices": "a[::2] = b[1::2]",
    "backwards": "a[:] = b[::-1]",
    "scalar to slice": "a[2:5] = 3",
    "augmented slice": "a[2:6] += b[:4]",
    "whole arrays": "c = a * 2 + b\na[:] = c",
    "mask": "a[a > 3] = 0",
    "mask read": "c = b[b > 2]\na[0] = c[0]",
    "gather": "a[:] = b[idx]",
    "scatter": "a[idx] = b",
    "at": "np.add.at(a, idx, 1)",
    "at with values": "np.add.at(a, idx, b)",
    "sum": "a[0] = np.sum(b * 2) + b.sum()",
    "dot": "a[0] = np.dot(a, b)\na[1] = a @ b",
    "minimum": "a[0] = b.max() - np.min(b)",
    "argmax": "a[0] = np.argmax(b)",
    "where": "a[:] = np.where(b > 2, b, -b)",
    "cumsum": "a[:] = np.cumsum(b)",
    "bincount": "c = np.bincount(idx, minlength=12)\na[:] = c",
    "matrix product": "c = m @ m\nfor j in range(4):\n    a[j] = c[1, j]",
    "rows": "for i in range(4):\n    row = m[i]\n    for j in range(4):\n        a[i] += row[j]",
    "axis": "c = np.sum(m, axis=0)\na[:4] = c",
    "transpose": "c = m.T + 1\na[0] = c[1, 2]",
    "chained": "m[1][2] = m[2][1]\na[0] = m[1][2]",
    "swap": "a[0], a[1] = a[1], a[0]",
    "conditional expression": "for i in range(n):\n    a[i] = b[i] if b[i] > 2 else -1",
    "walrus": "if (t := b[0] + b[1]) > 0:\n    a[0] = t",
    "match": "for i in range(n):\n    match b[i]:\n        case 1 | 2:\n            a[i] = 10\n        case _:\n"
    "            a[i] = 20",
    "negative index": "a[-1] = b[-2]",
    "view": "c = a[2:]\nfor i in range(3):\n    c[i] = b[i]",
    "copy": "c = a.copy()\nc[0] = 100\na[1] = c[0]",
    "at with an expression": "np.add.at(a, idx, b * b[idx] + 1)",
    "at with a maximum": "np.maximum.at(a, idx, b)",
    "running maximum": "a[:] = np.maximum.accumulate(b)",
    "running product": "a[:4] = np.cumprod(b[:4])",
    "accumulate": "c = list(itertools.accumulate(b))\na[0] = c[3]",
    "fold": "a[0] = functools.reduce(lambda x, y: x * 2 + y, b, 1)\na[1] = functools.reduce(operator.add, b)",
    "differences": "a[1:] = np.diff(b)",
    "pairwise": "k = 0\nfor x, y in itertools.pairwise(b):\n    a[k] = y - x\n    k += 1",
    "roll": "a[:] = np.roll(b, 1) - np.roll(b, -2)",
    "outer": "c = np.outer(a, b)\na[0] = c[2, 3]",
    "einsum": "c = np.einsum('ik,kj->ij', m, m)\na[:4] = c[1]\na[4] = np.einsum('i,i', a, b)",
    "slice in a variable": "s = slice(b[1], b[0] + 2)\na[s] = b[s] + 1",
    "list with elements": "c = [7]\nfor v in b:\n    c.append(c[-1] + v)\n"
    "for i in range(n):\n    a[i] = c[i]\na[0] = len(c)",
    "truth of a list": "c = []\nif not c:\n    a[0] = 50\nc.append(1)\nif c and n > 2:\n    a[1] = 51",
    "arrays change names": "c, d = a, b\nc, d = d, c\nd[0] = 33",
    "masked by an array": "c = b > 2\na[c] = b[c] * 2",
}  # fmt: skip


NOT_RUN_AS_LOWERED = {
    "mask", "mask read", "argmax", "bincount", "running maximum", "running product", "roll", "masked by an array",
}  # fmt: skip
"""The interpreter of the form has no such operation on whole arrays: only the loops that `normal` makes of it run."""


def arguments() -> dict[str, Any]:
    values = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])
    order = np.array([4, 0, 7, 2, 9, 1, 11, 3, 10, 5, 8, 6])
    return {"a": values * 2 - 7, "b": values.copy(), "idx": order, "m": np.arange(16).reshape(4, 4), "n": 12}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_what_python_computes(name: str) -> None:
    source = (
        "import functools, itertools, operator\nimport numpy as np\ndef f(a, b, idx, m: np.ndarray, n):\n"
        + textwrap.indent(PROGRAMS[name], "    ")
        + "\n"
    )
    source += "    if n < 0:\n        n = len(a) + len(b) + len(idx) + m[0, 0]\n"  # tells what is an array
    expected = arguments()
    scope: dict[str, Any] = {}
    exec(source, scope)
    scope["f"](**expected)
    unit = lower_text(source)
    assert not unit.skipped
    shaped = msgspec.structs.replace(unit, functions=tuple(normal(function) for function in unit.functions))
    for made in (shaped,) if name in NOT_RUN_AS_LOWERED else (unit, shaped):
        found = arguments()
        PythonInterpreter(made).call("f", list(found.values()))
        for key in ("a", "b", "m"):
            assert found[key].tolist() == expected[key].tolist(), function_text(made.functions[0])


def shaped(source: str, name: str = "f") -> form.Function:
    return normal(next(each for each in lower_text(textwrap.dedent(source)).functions if each.name == name))


def test_functions_methods_and_lambdas_have_qualified_names() -> None:
    unit = lower_text("class A:\n    def g(self):\n        def h(): pass\nf = lambda x: x + 1\nx = 1\n")
    assert [function.name for function in unit.functions] == ["A.g", "A.g.<locals>.h", "<lambda>", "<module>"]


def test_unknown_calls_are_statements_of_their_own() -> None:
    text = function_text(lower_text("def f(x):\n    y = g(x) + h(x)\n    return y\n").functions[0])
    assert "%1 = g(x)" in text
    assert "%2 = h(x)" in text
    assert "y = %1 + %2" in text


def test_calls_behind_a_condition_stay_behind_it() -> None:
    body = lower_text("def f(x):\n    return x > 0 and g(x)\n").functions[0].body
    branch = next(statement for statement in body if isinstance(statement, form.Branch))
    assert any(isinstance(inner, form.Assign) and isinstance(inner.value, form.Call) for inner in branch.body)


def test_iterables_that_are_not_known_make_unknown_loops() -> None:
    nests = list(loops(lower_text("def f(d):\n    for k in d.items():\n        print(k)\n").functions[0].body))
    assert [nest[-1].kind for nest in nests] == [form.LoopKind.UNKNOWN]


def test_numba_ranges_promise_independence() -> None:
    source = "from numba import prange\ndef f(a, n):\n    for i in prange(n):\n        a[i] = 1\n"
    assert [nest[-1].unordered for nest in loops(lower_text(source).functions[0].body)] == [True]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"def f(:\n", "syntax error"),
        (b"x = 1\0\n", "null"),
        (b"(" * 5000 + b")" * 5000, "syntax error"),
        (b"-" * 100_000 + b"1\n", "not parsed"),
    ],
)
def test_a_bad_file_is_skipped_once(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "bad.py"
    path.write_bytes(data)
    unit = lower_file(path)
    assert unit.functions == ()
    assert len(unit.skipped) == 1
    assert unit.skipped[0].what == "file"
    assert reason in unit.skipped[0].reason or "too many nested" in unit.skipped[0].reason


@pytest.mark.parametrize("data", [b"# caf\xe9\ndef f(): pass\n", b"# coding: no-such-code\ndef f(): pass\n"])
def test_an_odd_encoding_costs_no_code(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "odd.py"
    path.write_bytes(data)
    assert "f" in [function.name for function in lower_file(path).functions]


def test_a_syntax_error_costs_a_statement_of_the_module() -> None:
    source = "def f(a):\n    return a\n\ndef g(:\n    return 1\n\ndef h(a):\n    return a\n\ndef half(a):\n    for"
    unit = lower_text(source)
    assert [(one.name, one.place.line) for one in unit.functions if one.name != "<module>"] == [("f", 1), ("h", 7)]
    assert [(part.place.line, part.what) for part in unit.skipped] == [(4, "statement"), (11, "statement")]


def test_a_missing_file_is_skipped(tmp_path: Path) -> None:
    assert lower_file(tmp_path / "none.py").skipped[0].what == "file"


def test_deep_expressions_and_long_chains_are_opaque_and_the_rest_goes_on() -> None:
    deep = "x = " + " + ".join(["1"] * 500) + "\n"
    chain = "if x == 0:\n    y = 0\n" + "".join(f"elif x == {i}:\n    y = {i}\n" for i in range(1, 300))
    unit = lower_text(deep + chain + "z = 3\n")
    body = unit.functions[0].body
    assert any(isinstance(statement, form.Opaque) for statement in statements(body))
    assert isinstance(body[-1], form.Assign)
    assert unit.skipped


@pytest.mark.parametrize(
    "source", ["x = 10 ** 5000\n", "x = 1e999\n", "x = '\\ud800'\n", f"x = {'9' * 4000}\n", "x = b'\\0'\n"]
)
def test_strange_literals_lower(source: str) -> None:
    assert lower_text(source).functions


def test_every_statement_of_the_language_lowers() -> None:
    import python_syntax

    unit = lower_file(Path(python_syntax.__file__))
    assert not [part for part in unit.skipped if part.what == "file"]
    for function in unit.functions:
        facts(normal(function))
