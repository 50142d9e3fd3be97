"""Code that a program chose by what the processor has."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs
from traces import trace_binary

from foretrace.profiles.library import find
from foretrace.replay.prediction.predict import predict
from foretrace.replay.prediction.selected_code import parts_of, selection_error, selection_warning
from foretrace.tracer.analysis.machine_code.selected_code import _INSTRUCTIONS
from foretrace.tracer.debug_info.symbols import Symbols
from foretrace.tracer.qemu import processor_features
from foretrace.tracer.signature.records import Provenance, Signature
from foretrace.tracer.signature.selection import SelectedFunction, SelectedWork, Selection

Compile = Callable[..., Path]

KERNELS = r"""
#include <cpuid.h>
#include <stdio.h>
#include <string.h>
static volatile double a[1000];
__attribute__((noinline)) void wide(void) { for (int i = 0; i < 1000; i++) a[i] = a[i] * 0.5 + i; }
__attribute__((noinline)) void narrow(void) { for (int i = 0; i < 1000; i++) a[i] = a[i] * 0.25 + i; }
__attribute__((noinline)) void other(void) { for (int i = 0; i < 1000; i++) a[i] += 1; }
"""

DISPATCHES = {
    "a variable": r"""
static unsigned features[2];
__attribute__((constructor, noinline)) static void ask(void) {
    unsigned a, b, c, d;
    __cpuid_count(7, 0, a, b, c, d);
    features[0] = b; features[1] = c;
}
__attribute__((noinline)) static void run(void) { if (features[0] & 1u << 29) wide(); else narrow(); }""",
    "a pointer": r"""
static unsigned features[2];
static void (*chosen)(void) = narrow;
__attribute__((constructor, noinline)) static void ask(void) {
    unsigned a, b, c, d;
    __cpuid_count(7, 0, a, b, c, d);
    features[0] = b;
}
__attribute__((noinline)) static void choose(void) { chosen = features[0] & 1u << 29 ? wide : narrow; }
__attribute__((noinline)) static void run(void) { static int done; if (!done++) choose(); chosen(); }""",
    "its result": r"""
__attribute__((noinline)) static int ask(void) {
    unsigned a, b, c, d;
    __cpuid_count(7, 0, a, b, c, d);
    return b >> 29 & 1;
}
__attribute__((noinline)) static void run(void) { if (ask()) wide(); else narrow(); }""",
    "the compiler": r"""
__attribute__((noinline)) static void run(void) { if (__builtin_cpu_supports("avx512f")) wide(); else narrow(); }""",
    "a question asked in line": r"""
__attribute__((noinline)) static void run(void) {
    static unsigned char kept = 255;
    if (kept == 255) {
        unsigned a, b, c, d;
        __cpuid(1, a, b, c, d);
        unsigned first = c;
        __cpuid_count(7, 0, a, b, c, d);
        kept = first >> 19 & b >> 29 & 1;
    }
    if (kept) wide();
    else for (int i = 0; i < 1000; i++) a[i] = a[i] * 0.25 + i;
}""",
    "an ifunc": r"""
static void (*resolve(void))(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") ? wide : narrow;
}
void run(void) __attribute__((ifunc("resolve")));""",
}
MAIN = r"""
int main(int argc, char **argv) {
    char text[100];
    for (int i = 0; i < 300; i++) { run(); if (argc > 1) for (int j = 0; j < 9; j++) other(); }
    memset(text, 'x', sizeof text);
    printf("%g %zu\n", a[5], strnlen(text, sizeof text));
    return 0;
}"""
PLAIN = "__attribute__((noinline)) static void run(void) { narrow(); }"


def _traced(program: Path, *arguments: str) -> Signature:
    return trace_binary([str(program), *arguments]).signature


@pytest.mark.parametrize("keeps", DISPATCHES)
def test_what_is_chosen_by_a_question_is_found(keeps: str, compile_c: Compile) -> None:
    selection = _traced(compile_c(KERNELS + DISPATCHES[keeps] + MAIN, "-O1")).provenance.selection
    assert selection is not None
    assert any(question.how == "cpuid" for question in selection.questions)
    most = selection.functions[0]
    assert most.share > 0.8
    assert most.how == ("ifunc" if keeps == "an ifunc" else "question")
    assert most.function in ("run", "narrow")


ON_THE_HEAP = r"""
#include <stdio.h>
#include <stdlib.h>
static volatile float a[1000];
struct codec { void (*run)(float); };
__attribute__((noinline, target("avx2"))) void wide(float x) { for (int i = 0; i < 1000; i++) a[i] = a[i] * x + i; }
__attribute__((noinline)) void narrow(float x) { for (int i = 0; i < 1000; i++) a[i] = a[i] * x + i; }
__attribute__((noinline)) void other(float x) { for (int i = 0; i < 1000; i++) a[i] += x; }
__attribute__((noinline)) struct codec *made(void) {
    struct codec *codec = malloc(sizeof *codec);
    codec->run = __builtin_cpu_supports("avx2") ? wide : narrow;
    return codec;
}
int main(int argc, char **argv) {
    struct codec *codec = made();
    for (int i = 0; i < 300; i++) { codec->run(argc); other(argc); }
    printf("%g\n", a[5]);
    return 0;
}"""


def test_what_the_rest_of_a_module_is_not_built_for_was_chosen(compile_c: Compile) -> None:
    """The answer is on the heap alone. A program built for AVX2 as a whole chose nothing."""
    selection = _traced(compile_c(ON_THE_HEAP, "-O1", loaded=True)).provenance.selection
    assert selection is not None
    [chosen] = [function for function in selection.functions if function.share > 0.1]
    assert chosen.function == "wide"
    assert chosen.how == "question"
    [work] = [work for work in selection.work or () if work.share > 0.1]
    assert work.extensions == ("avx",)
    assert work.share == pytest.approx(chosen.share, rel=0.01)
    whole = _traced(compile_c(ON_THE_HEAP, "-O1", "-mavx2", loaded=True)).provenance.selection
    assert whole is None or whole.question_share < 0.01


ASKS_MODEL = r"""
#include <cpuid.h>
#include <stdio.h>
int main(void) {
    unsigned a, b, c, d;
    __cpuid(1, a, b, c, d);
    printf("%u %u\n", (a >> 8 & 15) + (a >> 20 & 255), (a >> 4 & 15) | (a >> 12 & 0xf0));
    return 0;
}"""


def test_the_engine_is_a_processor_that_libraries_know(compile_c: Compile, capfd: pytest.CaptureFixture[str]) -> None:
    """Family and model of a Zen 2: libraries that choose by them take code with AVX2."""
    _traced(compile_c(ASKS_MODEL, "-O1"))
    assert capfd.readouterr().out.split() == ["23", "49"]


def test_what_is_not_chosen_is_not_counted(compile_c: Compile) -> None:
    selection = _traced(compile_c(KERNELS + DISPATCHES["a variable"] + MAIN, "-O1"), "more").provenance.selection
    assert selection is not None
    assert 0.05 < selection.question_share < 0.2
    assert not any(function.function == "other" for function in selection.functions)


def test_a_program_that_only_starts_is_not_widened(compile_c: Compile) -> None:
    signature = _traced(compile_c(KERNELS + PLAIN + MAIN, "-O1"))
    selection = signature.provenance.selection
    assert selection is None or selection.share < 0.05
    prediction = predict(signature, find("xeon-6980p"))
    assert not any(part.source == "code chosen by features" for part in prediction.errors)


LOOP_IN_MAIN = r"""
#include <stdio.h>
static double a[100000];
int main(void) {
    double sum = 0;
    for (int i = 0; i < 100000; i++) { a[i] = a[i] * 0.5 + i; sum += a[i]; }
    printf("%g\n", sum);
    return 0;
}"""


@pytest.mark.parametrize("linking", ["-static", "-static-pie"])
def test_the_startup_of_a_static_program_chooses_no_code_of_its_own(linking: str, compile_c: Compile) -> None:
    """It queries the processor as a dynamic linker does, right before it calls main."""
    selection = _traced(compile_c(LOOP_IN_MAIN, "-O1", linking)).provenance.selection
    assert selection is None or selection.share < 0.01


WIDEST = """
__attribute__((used)) static void widest(void) { __asm__(".rept 9; vaddpd %zmm1, %zmm2, %zmm3; .endr"); }"""


def test_a_machine_with_other_features_widens(compile_c: Compile) -> None:
    """The program must have code for them; it need not have run."""
    for more, low in ((WIDEST, 0.6), ("", None)):
        signature = _traced(compile_c(KERNELS + more + DISPATCHES["a variable"] + MAIN, "-O1", loaded=True))
        selection = signature.provenance.selection
        assert selection is not None
        assert "avx512f" not in selection.engine_features
        prediction = predict(signature, find("epyc-9654"))
        parts = [part for part in prediction.errors if part.source == "code chosen by features"]
        assert len(parts) == (low is not None)
        assert all(part.low < low and part.high == 1.0 for part in parts if low)
        said = [warning for warning in prediction.warnings if "chosen by the processor's features" in warning]
        assert len(said) == len(parts)
        assert all("has avx512f, which the engine lacks:" in warning for warning in said)


ON_ARM = r"""
#include <stdio.h>
#include <sys/auxv.h>
static volatile double a[1000];
static unsigned long features;
__attribute__((noinline)) void wide(void) { for (int i = 0; i < 1000; i++) a[i] = a[i] * 0.5 + i; }
__attribute__((noinline)) void narrow(void) { for (int i = 0; i < 1000; i++) a[i] = a[i] * 0.25 + i; }
__attribute__((constructor, noinline)) static void ask(void) { features = getauxval(AT_HWCAP); }
__attribute__((noinline)) static void run(void) { if (features & 1u << 22) wide(); else narrow(); }
int main(void) { for (int i = 0; i < 300; i++) run(); printf("%g\n", a[5]); return 0; }"""


def test_hardware_capabilities(compile_c: Compile) -> None:
    program = compile_c(ON_ARM, "-O1", "-static", target="aarch64")
    signature = _traced(program)
    selection = signature.provenance.selection
    assert selection is not None
    assert selection.functions[0].function in ("run", "narrow")
    assert selection.question_share > 0.8
    assert any("sve" in part.more for part in parts_of(selection, find("graviton3"), "aarch64"))
    assert not any("sve" in part.more for part in parts_of(selection, find("raspberry-pi-5"), "aarch64"))


def test_the_engine_says_what_it_has() -> None:
    qemu = shutil.which("qemu-x86_64")
    if qemu is None:
        pytest.skip("needs qemu-x86_64 (qemu-user)")
    whole = processor_features.asked(qemu, "-cpu", "max")
    less = processor_features.asked(qemu, "-cpu", "max,avx2=off,bmi2=off")
    assert {"avx2", "bmi2", "sse4_2"} <= whole
    assert whole - less == {"avx2", "bmi2"}
    assert processor_features.asked("/no/such/engine") == frozenset()


def _provenance(selection: Selection) -> Provenance:
    return Provenance((), "qemu", "x86_64", "", "", "", 1.0, 0, None, True, selection=selection)


def _selection(*, question: float = 0.0, ifunc: float = 0.0, contained: tuple[str, ...] = ()) -> Selection:
    zen3 = ("avx", "avx2", "aes", "sse4_2", "ssse3", "sse3", "popcnt", "bmi1", "bmi2", "fma", "f16c", "movbe", "abm")
    functions = (SelectedFunction("/lib/libx.so", "f", "question", question + ifunc),)
    features = (*zen3, "adx", "pclmulqdq", "vaes", "sse4_1", "sse4a")
    return Selection((), functions, ifunc, question, features, (*features, "sha_ni"), contained)


def test_only_features_that_the_module_can_use_widen() -> None:
    zen3, zen4, old = find("epyc-milan-vm"), find("epyc-9654"), find("xeon-e5-2420")
    with_sha, without = (_provenance(_selection(question=0.8, contained=one)) for one in (("sha_ni",), ()))
    part = selection_error(with_sha, zen3)
    assert part is not None
    assert part.low == pytest.approx(1 - 0.8 * (1 - 1 / 6.5))
    assert part.high == 1.0
    assert selection_error(without, zen3) is None
    assert selection_warning(without, zen3) == ""
    wider = selection_error(without, zen4)
    assert wider is not None
    assert wider.low == pytest.approx(1 - 0.8 / 2)
    slower = selection_error(without, old)
    assert slower is not None
    assert slower.high == pytest.approx(1 + 0.8)
    text = selection_warning(with_sha, zen3)
    assert "f of libx.so" in text
    assert "epyc-milan-vm has sha_ni, which the engine lacks" in text


def test_ifuncs_of_libraries_depend_on_the_width_alone() -> None:
    provenance = _provenance(_selection(ifunc=0.6, contained=("sha_ni",)))
    assert selection_error(provenance, find("epyc-milan-vm")) is None
    part = selection_error(provenance, find("epyc-9654"))
    assert part is not None
    assert part.low == pytest.approx(1 - 0.6 / 2)
    assert selection_error(_provenance(_selection(ifunc=0.04)), find("epyc-9654")) is None
    assert selection_error(provenance, find("graviton3")) is None, "all code is another one there"


def test_dedicated_instructions_of_another_instruction_set_count_by_their_purpose() -> None:
    provenance = _provenance(_selection(question=0.8, contained=("sha_ni", "aes")))
    part = selection_error(provenance, find("graviton3"))
    assert part is not None
    assert part.low == pytest.approx(1 - 0.8 * (1 - 1 / 6.5))
    assert part.high == 1.0
    assert "graviton3 has the like of sha_ni, which the engine lacks" in selection_warning(
        provenance, find("graviton3")
    )
    selection = Selection((), (), 0.0, 0.5, ("sha2", "crc32"), (), ("sha2",))
    slower = selection_error(structs.replace(_provenance(selection), guest="aarch64"), find("xeon-e5-2420"))
    assert slower is not None
    assert slower.high == pytest.approx(1 + 0.5 * 5.5)
    assert selection_error(_provenance(_selection(question=0.5)), find("graviton3")) is None


ENGINE = ("avx", "avx2", "aes", "pclmulqdq", "vaes", "ssse3", "sse4_1", "fma", "sse4a")


def _parts(
    profile: str, contained: tuple[str, ...], *work: SelectedWork
) -> dict[tuple[str, ...], tuple[set[str], set[str]]]:
    selection = Selection((), (), 0.0, 0.9, ENGINE, ENGINE, contained, ("avx512f",), work)
    return {
        part.work.extensions: (set(part.more), set(part.fewer)) for part in parts_of(selection, find(profile), "x86_64")
    }


def test_features_are_those_that_code_has_or_may_give_way_to() -> None:
    vector = SelectedWork("question", ("avx", "avx2"), 0.5)
    cipher = SelectedWork("question", ("aes", "sse4_1"), 0.2)
    checksum = SelectedWork("question", ("pclmulqdq",), 0.2)
    copy = SelectedWork("ifunc", ("avx",), 0.1)
    all_work = (vector, cipher, checksum, copy)
    assert _parts("epyc-7763", (), *all_work) == {}
    assert _parts("epyc-7763", ("sha_ni", "vpclmulqdq"), *all_work) == {
        ("avx", "avx2"): ({"sha_ni"}, set()),
        ("pclmulqdq",): ({"vpclmulqdq"}, set()),
    }
    assert _parts("epyc-9654", (), *all_work) == {("avx",): ({"avx512f"}, set())}
    assert _parts("epyc-9654", ("avx512f",), vector, copy) == {
        ("avx", "avx2"): ({"avx512f"}, set()),
        ("avx",): ({"avx512f"}, set()),
    }
    assert _parts("xeon-e5-2420", ("sha_ni", "avx512f"), *all_work) == {("avx", "avx2"): (set(), {"avx2"})}


def test_what_few_instructions_may_give_way_to_widens_nothing() -> None:
    plain = SelectedWork("question", ("sse2",), 0.7)
    checksum = SelectedWork("question", ("pclmulqdq",), 0.04)
    functions = (SelectedFunction("/lib/libx.so", "f", "question", 0.74),)
    selection = Selection((), functions, 0.0, 0.74, ENGINE, ENGINE, ("vpclmulqdq",), (), (plain, checksum))
    assert selection_error(_provenance(selection), find("epyc-7763")) is None
    more = Selection((), functions, 0.0, 0.74, ENGINE, ENGINE, ("vpclmulqdq", "avx512f"), (), (plain, checksum))
    part = selection_error(_provenance(more), find("epyc-9654"))
    assert part is not None
    assert part.low == pytest.approx(1 - 0.7 / 2 - 0.04 * (1 - 1 / 6.5))
    assert "for 74% of the instructions" in selection_warning(_provenance(more), find("epyc-9654"))


ENCODED = {
    "sha_ni": ("sha256rnds2 %xmm1, %xmm2", "sha1msg1 %xmm9, %xmm3"),
    "aes": ("aesenc %xmm1, %xmm2", "aesdeclast %xmm10, %xmm11"),
    "pclmulqdq": ("pclmulqdq $1, %xmm1, %xmm9",),
    "sse4_2": ("crc32q %rax, %rbx", "crc32b %al, %ecx"),
    "gfni": ("gf2p8mulb %xmm1, %xmm2", "vgf2p8affineqb $3, %ymm1, %ymm9, %ymm10"),
    "vaes": ("vaesenc %ymm1, %ymm2, %ymm3", "vaesdeclast %zmm17, %zmm2, %zmm3"),
    "vpclmulqdq": ("vpclmulqdq $1, %ymm1, %ymm2, %ymm3", "vpclmulqdq $0, %zmm1, %zmm20, %zmm3"),
    "avx_vnni": ("{vex} vpdpbusd %ymm1, %ymm2, %ymm3", "{vex} vpdpwssds (%rax), %xmm2, %xmm9"),
    "amx_tile": ("tileloadd (%rax,%rcx,1), %tmm1", "tilestored %tmm3, 8(%rax,%rcx,1)"),
    "amx_int8": ("tdpbssd %tmm1, %tmm2, %tmm3", "tdpbuud %tmm1, %tmm2, %tmm3"),
    "amx_bf16": ("tdpbf16ps %tmm1, %tmm2, %tmm3",),
}
IN_A_ROW = (
    "vmovups (%rax), %zmm1", "vaddps 64(%rax), %zmm1, %zmm2", "vfmadd231pd 128(%rax,%rcx,8), %zmm3, %zmm4",
    "vpcmpub $1, %ymm1, %ymm2, %k1", "vpaddd 0x12345(%rax), %zmm20, %zmm3{%k1}", "vmovdqu8 (%rax,%rcx,1), %xmm17",
)  # fmt: skip


def test_instructions_of_features_are_known_by_their_bytes(compile_c: Compile) -> None:
    """As GNU as encodes them; those of other features, and plain ones, are not taken for them."""
    in_a_row = {"avx512f": len(IN_A_ROW) - 1}
    for feature, texts in {**ENCODED, "avx512f": IN_A_ROW}.items():
        lines = "".join(f'__asm__("{text}");' for text in texts)
        program = compile_c(f"void f(void) {{ {lines} }} int main(void) {{ return 0; }}", "-O1")
        symbols = Symbols(str(program))
        [function] = [function for function in symbols.functions() if function.name == "f"]
        assert symbols._elf is not None
        code = symbols._elf.loaded_at(function.start, function.end - function.start)
        counts = {name: len(re.findall(pattern, code, re.DOTALL)) for name, pattern in _INSTRUCTIONS.items()}
        assert counts.pop(feature) == in_a_row.get(feature, len(texts))
        assert not any(counts.values()), feature
