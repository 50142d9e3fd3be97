"""Registers of x87's stack: what each instruction does with them, and what that makes of loops."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces import trace_binary

from foretrace.profiles.library import find
from foretrace.replay.prediction.predict import predict
from foretrace.tracer.analysis.machine_code.register_stack import NUM_REGISTERS, named
from foretrace.tracer.isa.instruction_set import StackUse
from foretrace.tracer.isa.x87_stack import stack_use

# Instruction; registers read, by their distance from the top before, and written, likewise after its pushes.
USES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "fld1": ((), (0,)),
    "fldz": ((), (0,)),
    "fld qword ptr [rsi]": ((), (0,)),
    "fld tbyte ptr [rsi]": ((), (0,)),
    "fild word ptr [rsi]": ((), (0,)),
    "fild qword ptr [r8 + 8*rcx]": ((), (0,)),
    "fld st(3)": ((3,), (0,)),
    "fst qword ptr [rsi]": ((0,), ()),
    "fstp dword ptr [rsi]": ((0,), ()),
    "fstp tbyte ptr [rsi]": ((0,), ()),
    "fistp qword ptr [rsi]": ((0,), ()),
    "fisttp dword ptr [rsi]": ((0,), ()),
    "fst st(2)": ((0,), (2,)),
    "fstp st(2)": ((0,), (2,)),
    "fstp st(0)": ((), ()),
    "fadd dword ptr [rsi]": ((0,), (0,)),
    "fidiv word ptr [rsi]": ((0,), (0,)),
    "fadd st, st(2)": ((0, 2), (0,)),
    "fsub st(2), st": ((0, 2), (2,)),
    "fmulp st(1), st": ((0, 1), (1,)),
    "fdivrp st(3), st": ((0, 3), (3,)),
    "fchs": ((0,), (0,)),
    "fsqrt": ((0,), (0,)),
    "fsin": ((0,), (0,)),
    "fprem": ((0, 1), (0,)),
    "fscale": ((0, 1), (0,)),
    "fyl2x": ((0, 1), (1,)),
    "fpatan": ((0, 1), (1,)),
    "fsincos": ((0,), (0, 1)),
    "fptan": ((0,), (0, 1)),
    "fxtract": ((0,), (0, 1)),
    "fcom qword ptr [rsi]": ((0,), ()),
    "fcomp dword ptr [rsi]": ((0,), ()),
    "fcomi st, st(2)": ((0, 2), ()),
    "fucomip st, st(1)": ((0, 1), ()),
    "fcompp": ((0, 1), ()),
    "fucompp": ((0, 1), ()),
    "fucom st(3)": ((0, 3), ()),
    "fcmovb st, st(2)": ((0, 2), (0,)),
    "fnstcw word ptr [rsi]": ((), ()),
    "fnstsw ax": ((), ()),
    "ffree st(6)": ((), ()),
    "fincstp": ((), ()),
    "fdecstp": ((), ()),
    "fnop": ((), ()),
}


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """By text, as the assembler has them."""
    if platform.machine() != "x86_64" or shutil.which("as") is None or shutil.which("objdump") is None:
        pytest.skip("needs binutils for x86-64")
    directory = tmp_path_factory.mktemp("x87")
    (directory / "a.s").write_text(
        ".intel_syntax noprefix\n" + "\n".join([*USES, "fxch st(2)", "addpd xmm1, xmm2"]) + "\n"
    )
    subprocess.run(["as", "--64", "-o", "a.o", "a.s"], cwd=directory, check=True)
    dump = subprocess.run(["objdump", "-d", "-w", "a.o"], cwd=directory, check=True, capture_output=True, text=True)
    rows = re.findall(r"^ +[0-9a-f]+:\t((?:[0-9a-f]{2} )+)", dump.stdout, re.MULTILINE)
    return dict(zip([*USES, "fxch st(2)", "addpd xmm1, xmm2"], map(bytes.fromhex, rows), strict=True))


def test_instructions_read_and_write_as_the_manual_says(codes: dict[str, bytes]) -> None:
    for text, (reads, writes) in USES.items():
        use = stack_use(codes[text])
        assert use is not None, text
        assert (use.reads, use.writes, use.exchanges) == (reads, writes, 0), text
    assert stack_use(codes["fxch st(2)"]) == StackUse(exchanges=2)
    assert stack_use(codes["addpd xmm1, xmm2"]) is None
    assert stack_use(b"\xd9") is None


def test_the_top_moves_as_the_processor_moves_it(codes: dict[str, bytes], compile_c: Callable[..., Path]) -> None:
    """TOP is bits 11 to 13 of the status word: volume 1, section 8.1.3.1."""
    lines = []
    for number, text in enumerate(USES):
        if text == "fnstsw ax":
            continue
        lines.append(
            f'__asm__ volatile("mov r8, rsi\\n fninit\\n fld1\\n fld1\\n fld1\\n fld1\\n {text}\\n fnstsw ax" '
            ': "=a"(status) '
            ': "S"(memory), "c"(0L) : "r8", "memory");\n'
            f'printf("{number} %d\\n", (((status >> 11) & 7) - 4) & 7);'
        )
    source = (
        "#include <stdio.h>\nint main(void) { static double memory[4] = {1, 1}; unsigned short status;\n"
        + "\n".join(lines)
        + "\nreturn 0; }\n"
    )
    printed = subprocess.run([compile_c(source, "-masm=intel")], check=True, capture_output=True, text=True).stdout
    moved = dict(tuple(map(int, line.split())) for line in printed.splitlines())
    for number, text in enumerate(USES):
        use = stack_use(codes[text])
        assert use is not None
        assert moved.get(number, 0) == (use.pops - use.pushes) % NUM_REGISTERS, text


PUSH, POP = StackUse(pushes=1, writes=(0,)), StackUse(reads=(0,), pops=1)
ADD_POP = StackUse(reads=(0, 1), writes=(1,), pops=1)


def test_a_register_keeps_its_name_while_the_top_moves() -> None:
    assert named([PUSH, None, PUSH, ADD_POP, POP], 0) == [
        ((), ("st(7)",)),
        None,
        ((), ("st(6)",)),
        (("st(6)", "st(7)"), ("st(7)",)),
        (("st(7)",), ()),
    ]


def test_an_exchange_costs_no_dependence_where_it_is_undone() -> None:
    exchange = StackUse(exchanges=1)
    change = StackUse(reads=(0,), writes=(0,))
    assert named([exchange, change, exchange], 0)[1] == (("st(1)",), ("st(1)",))
    assert named([exchange, change], 0) == [(("st(0)", "st(1)"), ("st(0)", "st(1)")), (("st(0)",), ("st(0)",))]


@given(
    st.lists(st.sampled_from([PUSH, POP, ADD_POP, StackUse(exchanges=2), StackUse(reads=(0, 3), writes=(0,)), None])),
    st.integers(0, 7),
)
def test_what_is_read_is_what_was_last_written_there(uses: list[StackUse | None], top: int) -> None:
    """Compared with a stack that really pushes and pops names of the last writer."""
    values = {number: f"before {number}" for number in range(NUM_REGISTERS)}  # by place
    by_name = {f"st({number})": value for number, value in values.items()}
    at, is_copied = top, any(use and use.exchanges for use in uses)
    for number, (use, found) in enumerate(zip(uses, named(uses, top), strict=True)):
        if use is None:
            assert found is None
            continue
        assert found is not None
        reads, writes = found
        if use.exchanges:
            one, other = at % NUM_REGISTERS, (at + use.exchanges) % NUM_REGISTERS
            values[one], values[other] = values[other], values[one]
            if writes:  # copied
                by_name[writes[0]], by_name[writes[1]] = by_name[writes[1]], by_name[writes[0]]
            continue
        assert [by_name[name] for name in reads] == [values[(at + one) % NUM_REGISTERS] for one in use.reads]
        at -= use.pushes
        for place, name in zip(use.writes, writes, strict=True):
            by_name[name] = values[(at + place) % NUM_REGISTERS] = f"{number} {place}"
        at += use.pops
    assert is_copied or all(by_name[f"st({number})"] == value for number, value in values.items())


DIVISIONS = """
#include <stdio.h>
int main(void) {
    volatile KIND one = 1; KIND sum = 0, by = 1.5;
    for (int i = 0; i < 20000; i++) { sum += one / by; by += 0.25; }
    printf("%f\\n", (double)sum); return 0;
}"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x87 is x86-64's")
def test_divisions_that_do_not_depend_on_each_other_overlap(compile_c: Callable[..., Path]) -> None:
    """As they do in SSE's registers. In a row each would take the latencies of a division and two additions."""
    times_s = []
    for kind in ("double", "long double"):
        traced = trace_binary([str(compile_c(DIVISIONS, "-O2", f"-DKIND={kind}"))])
        (loop,) = (loop for loop in traced.signature.loops if loop.function == "main")
        prediction = predict(traced.signature, find("epyc-milan-vm"))
        times_s.append(sum(loop.time_s for loop in prediction.loops if loop.place.function == "main"))
        assert loop.iterations >= 19_999
    assert 0.8 < times_s[1] / times_s[0] < 1.6
