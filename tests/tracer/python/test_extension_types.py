"""Types of extension modules: what Python calls of them is compiled code that was not seen, not the interpreter's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_clock import fake_clock
from python_runs import run_plain, run_traced
from slots_extension import CALLS, FIRST_LINE, PROGRAM, build
from traces import trace_python

from foretrace.profiles.library import find
from foretrace.replay.base.records import LoopKind, LoopTime, Prediction
from foretrace.replay.prediction.predict import predict


@pytest.fixture(scope="module", autouse=True)
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Time is what the programs say it is."""
    with fake_clock(tmp_path_factory.mktemp("clock")):
        yield


@pytest.fixture(scope="module")
def predicted(clock: None, tmp_path_factory: pytest.TempPathFactory) -> Prediction:
    directory = tmp_path_factory.mktemp("slots")
    build(directory)
    (directory / "program.py").write_text(PROGRAM)
    return predict(trace_python(str(directory / "program.py"), []).signature, find("epyc-turin-vm"))


def at(prediction: Prediction, line: int) -> list[LoopTime]:
    return [region for region in prediction.loops if region.place.line == line]


@pytest.mark.parametrize("number", range(len(CALLS)), ids=list(CALLS))
def test_each_call_is_charged_to_its_line_by_name(predicted: Prediction, number: int) -> None:
    regions = at(predicted, FIRST_LINE + number)
    compiled = [region for region in regions if region.kind is LoopKind.COMPILED]
    assert f"slots.T.{list(CALLS.values())[number]}" in {region.place.module for region in compiled}
    assert sum(r.time_s for r in compiled) > 0.98 * sum(r.time_s for r in regions)
    assert all(region.low_s <= 0.51 * region.time_s and region.high_s >= 1.9 * region.time_s for region in compiled)


def test_all_calls_take_the_time_that_they_took(predicted: Prediction) -> None:
    """What takes as long is found to take as long, whatever it is."""
    times = {
        name: sum(r.time_s for r in at(predicted, FIRST_LINE + n) if r.place.module == f"slots.T.{name}")
        for n, name in enumerate(CALLS.values())
        if name != "__new__"  # it takes twice as long, with __init__
    }
    least, most = min(times.values()), max(times.values())
    assert most < 1.01 * least, times


def test_context_managers_and_operators_in_place(predicted: Prediction) -> None:
    names = {region.place.module for region in predicted.loops}
    assert {"slots.T.__enter__", "slots.T.__exit__", "slots.T.__imul__"} <= names


def test_only_what_cannot_be_bytecode_is_charged(tmp_path: Path) -> None:
    """What takes no longer than a line of bytecode stays the interpreter's."""
    (tmp_path / "short.py").write_text("import zlib\nfor i in range(2000):\n    x = zlib.crc32(b'a')\n")
    assert trace_python(str(tmp_path / "short.py"), []).signature.provenance.unseen.functions == ()


def test_the_program_notices_nothing(tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / "p.py").write_text(
        PROGRAM + "t = T()\nimport inspect, pickle, zlib, re, ctypes, decimal, sqlite3\n"
        "print([type(v).__name__ for v in vars(T).values()], T.one, T.__add__, T.value, t.one == t.one)\n"
        "print(T.one.__doc__, T.fast.__qualname__, inspect.ismethoddescriptor(T.one), d == 1, sorted(vars(T)))\n"
        "class Own(T):\n    def __add__(self, other): return super().__add__(other), 'own'\n"
        "    def __new__(cls, *a): return super().__new__(cls)\n    def __call__(self): return 'called'\n"
        "o = Own()\nprint(o + 1, o(), T.__call__(o), T.__new__(T).one(1))\n"
        "print(pickle.loads(pickle.dumps(zlib.crc32))(b'a'))\n"
        "class Plain:\n    def __init__(self, x): self.x = x\nprint(Plain(1).x, re.compile('a').sub('b', 'aa'))\n"
        "print(decimal.Decimal(2).sqrt() + 1, sqlite3.connect(':memory:').execute('select 1').fetchall())\n"
        "try:\n    T.one(1, 2)\nexcept TypeError as e:\n    print(e)\n"
        "print(ctypes.CDLL(None).abs(-3))\n"
    )
    plain, traced = run_plain(tmp_path, "p.py"), run_traced(tmp_path, "p.py")
    assert plain.returncode == traced.returncode == 0, traced.stderr
    assert traced.stdout == plain.stdout
