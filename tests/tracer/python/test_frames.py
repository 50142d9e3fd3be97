"""What a traced program sees of frames: its own opcodes and places, not those of the markers in its code."""

from __future__ import annotations

from pathlib import Path

import pytest
from python_runs import run_plain, run_traced

OPCODES = """
import sys
def opcodes(function, *arguments):
    found = []
    def tracer(frame, event, argument):
        frame.f_trace_opcodes = True
        if frame.f_code.co_filename == __file__:
            found.append((event, frame.f_lasti, frame.f_lineno, frame.f_code.co_name))
        return tracer
    sys.settrace(tracer)
    function(*arguments)
    sys.settrace(None)
    return found
"""

PROGRAMS = {
    "opcodes": OPCODES
    + """
def work(n):
    total = 0
    for i in range(n):
        if i % 2:
            total += i
        else:
            try:
                total -= [1, 2][i]
            except IndexError:
                continue
            finally:
                total += 1
    with open("/dev/null") as file:
        pass
    return [total for total in range(2)]
print(opcodes(work, 4))
""",
    "extended arguments": OPCODES
    + """
source = "def wide(x):\\n" + "".join(f"    x = x + v{i}\\n" for i in range(300))
source += "    while x > 0:\\n        x -= 100000\\n" + "    return here()\\n"
names = {f"v{i}": i for i in range(300)} | {"here": lambda: sys._getframe(1).f_lasti}
exec(compile(source, __file__, "exec"), names)
print(opcodes(names["wide"], 1), names["wide"](1))
""",
    "places": """
import dis, inspect, sys, traceback
def own():
    squares = [i for i in range(3)]
    frame = sys._getframe()
    return frame.f_code is own.__code__, frame.f_lasti, len(frame.f_code.co_code)
print(own())
def generator():
    x = 1
    yield x
    x += 2
    yield x
made = generator()
print(made.gi_code is generator.__code__, made.gi_frame.f_lasti)
for _ in made:
    print(made.gi_frame.f_lasti)
async def coroutine():
    return 1
started = coroutine()
print(started.cr_code is coroutine.__code__)
started.close()
def fails(d):
    try:
        return d["a"] + d["b"] * (1 / 0)
    except ZeroDivisionError as error:
        found = error.__traceback__
        print(found.tb_lasti, list(fails.__code__.co_positions())[found.tb_lasti // 2])
        traceback.print_exc(file=sys.stdout)
        return found
dis.distb(fails({"a": 1, "b": 2}), file=sys.stdout)
print(inspect.getframeinfo(sys._getframe()))
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_frames_show_the_programs_own_code(name: str, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(PROGRAMS[name])
    plain, traced = run_plain(tmp_path, "p.py"), run_traced(tmp_path, "p.py")
    assert plain.returncode == traced.returncode == 0, traced.stderr
    assert traced.stdout == plain.stdout
