"""Accesses to lists, array.array, bytearray and memoryview: their addresses, sizes and counts, in both cores."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from python_runs import Run, trace

from foretrace.tracer.python.program import PythonCore
from foretrace.tracer.signature.records import MemoryOperation

BUFFERS = """
import array, ctypes
a = array.array("i", range(100))
b = bytearray(100)
m = memoryview(array.array("d", [1.0] * 100))
c = memoryview(bytes(range(24))).cast("B", [4, 6])
address = lambda buffer: ctypes.addressof(ctypes.c_char.from_buffer(buffer))
print(address(a), address(b), address(m))
for i in range(10, 20): a[i]
for i in range(10, 20): a[-i] = i
for i in range(5): b[2 * i] = 1
for i in range(3): m[i + 1] = 2.0
s = a[10:20:3]
b[1:4] = b"abc"
v = m[3:50]
v[2]
c[1, 2]
class Own(array.array): pass
o = Own("h", [1, 2, 3]); o[1]
a.__getitem__(3)
try: a[1000]
except IndexError: a[0] if False else None
try: a[1] = "text"
except TypeError: pass
for x in range(2): del b[0]
"""
LISTS = """
import ctypes
a = list(range(50))
def slots(a): return ctypes.c_void_p.from_address(id(a) + 24).value
print(slots(a))
for i in range(10, 20): a[i]
for i in range(1, 5): a[-i] = i
a[3] += 1
s = a[10:20:3]
a[4:6] = [1, 2]
try: a[50]
except IndexError: pass
class Sub(list): pass
class Over(list):
    def __getitem__(self, i): return 1
Sub([1])[0]; Over([1])[0]; {0: 1}[0]; "a"[0]; (1,)[0]
class Index:
    def __index__(self): return 1
a[Index()]
a[True]
for x in [a[0] for j in range(4)]: pass
del a[40]
"""


def line_of(source: str, text: str) -> int:
    return source[: source.index(text)].count("\n") + 1


Accesses = tuple[str | None, bool, int, int, int, int]


def seen(run: Run, source: str, text: str) -> list[Accesses]:
    """Name, direction, size, executions and range of what the line with `text` did, in all of its blocks."""
    merged: dict[tuple[str | None, bool, int], list[MemoryOperation]] = {}
    for o in run.operations(line_of(source, text)):
        merged.setdefault((o.array_operation, o.is_store, o.size_bytes), []).append(o)
    return [
        (*key, sum(o.executions for o in os), min(o.first for o in os), max(o.last_exclusive for o in os))
        for key, os in merged.items()
    ]


@pytest.mark.parametrize("core", PythonCore)
def test_buffers(tmp_path: Path, capfd: pytest.CaptureFixture[str], core: PythonCore) -> None:
    run = trace(tmp_path, BUFFERS, core=core)
    a, b, m = map(int, re.findall(r"\d+", capfd.readouterr().out))
    get, put = "array.array.__getitem__", "array.array.__setitem__"

    def line(text: str) -> list[Accesses]:
        return seen(run, BUFFERS, text)

    assert line("a[i]\n") == [(get, False, 4, 10, a + 40, a + 80)]
    assert line("a[-i]") == [(put, True, 4, 10, a + 4 * 81, a + 4 * 91)]
    assert line("b[2 * i]") == [("bytearray.__setitem__", True, 1, 5, b, b + 9)]
    assert line("m[i + 1]") == [("memoryview.__setitem__", True, 8, 3, m + 8, m + 32)]
    assert line("s = a[10") == [(get, False, 4, 4, a + 40, a + 80)]
    assert line("b[1:4]") == [("bytearray.__setitem__", True, 1, 3, b + 1, b + 4)]
    assert line("v = m") == []
    assert line("v[2]") == [("memoryview.__getitem__", False, 8, 1, m + 40, m + 48)]
    assert [o[:4] for o in line("c[1, 2]")] == [("memoryview.__getitem__", False, 1, 1)]
    assert [o[:4] for o in line("o = Own")] == [(get, False, 2, 1)]
    assert line("a.__getitem__") == [(get, False, 4, 1, a + 12, a + 16)]
    assert line("try: a[1000]") == line("a[0] if") == line('a[1] = "text"') == []
    assert run.recording.unseen_calls == 2  # the deletions


def test_lists(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = trace(tmp_path, LISTS)
    a = int(capfd.readouterr().out)
    get, put = "list.__getitem__", "list.__setitem__"

    def line(text: str) -> list[Accesses]:
        return seen(run, LISTS, text)

    assert line("a[i]\n") == [(get, False, 8, 10, a + 80, a + 160)]
    assert line("a[-i]") == [(put, True, 8, 4, a + 8 * 46, a + 8 * 50)]
    assert line("a[3] += 1") == [(get, False, 8, 1, a + 24, a + 32), (put, True, 8, 1, a + 24, a + 32)]
    assert line("s = a[10") == [(get, False, 8, 4, a + 80, a + 160)]
    assert line("a[4:6]") == [(put, True, 8, 2, a + 32, a + 48)]
    assert line("try: a[50]") == []
    assert [o[:4] for o in line("Sub([1])")] == [(get, False, 8, 1)]
    assert line("a[Index()]") == []
    assert line("a[True]") == [(get, False, 8, 1, a + 8, a + 16)]
    assert line("for x in [a[0]") == [(get, False, 8, 4, a, a + 8)]
    assert line("del a[40]") == [
        ("list.__delitem__", False, 8, 9, a + 8 * 41, a + 8 * 50),
        ("list.__delitem__", True, 8, 9, a + 8 * 40, a + 8 * 49),
    ]
    assert run.recording.unseen_calls == 1  # a[Index()]


def test_a_gather_from_a_list(tmp_path: Path) -> None:
    """An index that NumPy's scalars bring makes an access indexed; elements stay accesses of their line."""
    source = "import numpy as np\nx = [1.0] * 64\nfor i in np.arange(0, 64, 7):\n    x[i]\n"
    run = trace(tmp_path, source)
    (operation,) = run.operations(4)
    assert (operation.executions, operation.last_exclusive - operation.first) == (10, 8 * 64)
    assert [idiom.kind.name for idiom in run.idioms(4)] == ["GATHER"]


@pytest.mark.parametrize("core", PythonCore)
def test_threads_have_their_own_accesses(tmp_path: Path, core: PythonCore) -> None:
    source = (
        "import array, threading\na = array.array('d', [0.0]) * 100\n"
        "def work(begin):\n    for i in range(begin, begin + 50):\n        a[i] += 1\n"
        "threads = [threading.Thread(target=work, args=(k,)) for k in (0, 50)]\n"
        "for t in threads: t.start()\nfor t in threads: t.join()\nassert set(a) == {1.0}\n"
    )
    run = trace(tmp_path, source, core=core)
    assert [(o.is_store, o.executions, o.last_exclusive - o.first) for o in run.operations(5)] == [
        (False, 100, 800),
        (True, 100, 800),
    ]
    assert run.executions(5, "work") == 100
    assert run.recording.threads == 3
