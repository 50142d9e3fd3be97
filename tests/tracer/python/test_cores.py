"""Both cores of the Python agent tell the same of the same program; the markers stay unseen by it."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from python_runs import Run, run_plain, run_traced, trace

from foretrace.tracer.python.program import PythonCore

SYNTAX = (Path(__file__).parents[2] / "helpers" / "python_syntax.py").read_text()


def blocks(run: Run) -> Counter[tuple[object, ...]]:
    """Executions of each block of the script, and of what it makes from strings."""
    counts: Counter[tuple[object, ...]] = Counter()
    for b in run.recording.raw.python_blocks:
        made = b.file == "<made up>"
        if b.instructions and b.executions and (made or b.file == str(run.script)):
            counts[b.file, b.function, b.first_line, b.line, b.offset_bytes, b.instructions] += b.executions
    return counts


def loops(run: Run) -> Counter[tuple[object, ...]]:
    return Counter(
        (loop.function, loop.line, loop.depth, loop.entries, loop.iterations)
        for loop in run.loops()
        if loop.kind == "code"
    )


def flows(run: Run) -> Counter[tuple[object, ...]]:
    """Steps from a block to another within a function, without calls of the function by itself."""
    place = {
        b.block_id: (b.function, b.first_line, b.line, b.offset_bytes)
        for b in run.recording.raw.python_blocks
        if b.file == str(run.script)
    }
    steps: Counter[tuple[object, ...]] = Counter()
    for source, target, count in run.recording.raw.edges.tolist():
        is_step = source in place and target in place and place[source][:2] == place[target][:2]
        if is_step and place[target][3] and place[source] != place[target]:
            steps[place[source], place[target]] += count
    return steps


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    directory = tmp_path_factory.mktemp("cores")
    return trace(directory, SYNTAX), trace(directory, SYNTAX, core=PythonCore.SETTRACE)


def test_the_same_blocks(both: tuple[Run, Run]) -> None:
    markers, settrace = map(blocks, both)
    assert len(markers) > 400
    assert markers == settrace


def test_the_same_loops(both: tuple[Run, Run]) -> None:
    markers, settrace = map(loops, both)
    assert len(markers) > 30
    assert markers == settrace


def test_the_same_steps_within_functions(both: tuple[Run, Run]) -> None:
    markers, settrace = map(flows, both)
    assert len(markers) > 400
    assert markers == settrace


def test_the_same_threads(both: tuple[Run, Run]) -> None:
    assert [run.recording.threads for run in both] == [3, 3]


SEEN = """
import dis, inspect, sys, traceback, types, pickle, marshal
def f(a, i):
    x = a[i]
    return [y for y in a
            if y > x]
code = f.__code__
print([(i.opname, i.arg) for i in dis.get_instructions(f)])
print(code.co_consts, code.co_names, len(code.co_code), code.co_stacksize, len(marshal.dumps(code)))
print(inspect.getsource(f), inspect.signature(f), __file__, f.__code__ is code)
def g(a): return a[7]
f.__code__, g2 = g.__code__, f
try: g2([1])
except IndexError: traceback.print_exc(file=sys.stdout)
try:
    f([1, 2, 3],
      )
except Exception: traceback.print_exc(file=sys.stdout)
def lines(frame, event, argument):
    if frame.f_code.co_name == "loop": print(event, frame.f_lineno)
    return lines
def loop(n):
    for i in range(n):
        if i: continue
        x = i
    for i in range(2): x = i
    try: [][0]
    except IndexError: pass
    return (x or
            n)
sys.settrace(lines); loop(3); sys.settrace(None)
def generator():
    try: yield 1
    finally: print("closed", sys._getframe().f_lineno)
for v in generator(): break
import doctest
def documented():
    '''
    >>> [documented() for _ in range(2)]
    [5, 5]
    '''
    return 5
print(doctest.testmod())
try: exec("x = 1\\nraise KeyError(x)")
except KeyError: traceback.print_exc(file=sys.stdout)
try: eval("1 +")
except SyntaxError: traceback.print_exc(file=sys.stdout)
exec("print(locals()['p'], __name__)", {"p": 3, "__name__": "other"})
print(eval("[i for i in range(3)]"), eval(b"2"), eval(compile("1+1", "<s>", "eval")))
F = types.FunctionType(f.__code__, globals()); print(F([0] * 9))
"""


def test_the_program_does_not_see_them(tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(SEEN)
    plain, traced = run_plain(tmp_path, "seen.py"), run_traced(tmp_path, "seen.py")
    assert "IndexError" in plain.stdout
    assert re.sub("0x[0-9a-f]+", "0x", traced.stdout) == re.sub("0x[0-9a-f]+", "0x", plain.stdout)
    assert traced.stderr == plain.stderr
    assert traced.returncode == plain.returncode == 0


ASKED = """
import operator, sys
def asks(code):
    return sum(map(bool, code.co_consts)), [*map(operator.not_, code.co_consts)]
def f(a):
    for i in range(3):
        a[i] = i
        asks(sys._getframe().f_code)
    return a[0]
f([0] * 3)
"""


def test_a_program_that_asks_its_markers_whether_they_are_true(tmp_path: Path) -> None:
    """A frame's code has them among its constants."""
    markers, settrace = trace(tmp_path, ASKED), trace(tmp_path, ASKED, core=PythonCore.SETTRACE)
    assert blocks(markers) == blocks(settrace)
    assert sum(o.points for o in markers.recording.raw.array_operations if o.name.startswith("list.")) == 4


def test_only_the_programs_own_code_is_marked(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def own(n):\n    return [n] * n\n")
    run = trace(tmp_path, "import textwrap, helper\nhelper.own(3)\ntextwrap.wrap('a b c')\n")
    files = {Path(b.file).name for b in run.recording.raw.python_blocks if b.file != "<string>"}
    assert files == {"program.py", "helper.py"}


def test_the_main_module_is_the_programs_own(tmp_path: Path) -> None:
    """Also when it belongs to the standard library."""
    source = "import runpy, sys\nsys.argv[1:] = ['-h']\ntry:\n    runpy.run_module('textwrap', run_name='__main__')\n"
    run = trace(tmp_path, source + "except SystemExit: pass\n")
    assert any(b.file.endswith("textwrap.py") for b in run.recording.raw.python_blocks)


def test_code_run_many_times_has_its_blocks_once(tmp_path: Path) -> None:
    run = trace(tmp_path, "code = compile('x = 1', 'made', 'exec')\nfor i in range(50):\n    exec(code)\n")
    made = [b for b in run.recording.raw.python_blocks if b.file == "made" and b.instructions]
    assert {b.executions for b in made} == {50}


def test_a_program_that_monitors_itself(tmp_path: Path) -> None:
    if sys.version_info < (3, 12):
        source = "import sys\nsys.setprofile(lambda *a: None)\n"
    else:
        source = (
            "import sys\nm = sys.monitoring\nm.use_tool_id(0, 'own')\n"
            "m.register_callback(0, m.events.LINE, lambda *a: None)\nm.set_events(0, m.events.LINE)\n"
        )
    run = trace(tmp_path, source + "def f():\n    return 1\nfor i in range(5): f()\n")
    assert sum(b.executions for b in run.blocks("f") if b.offset_bytes) == 5


def test_an_unknown_core_is_refused() -> None:
    with pytest.raises(ValueError, match="ast"):
        PythonCore("ast")
