"""Loops of instructions at random, in the nearest cache: timed natively, and predicted from a profile of this machine.

Nobody has written them, so no model can have been made for them; and no memory beyond the nearest cache has a part in
them: they show how far the core model is right by itself. Both times are told in cycles, the native one by chains of
additions before and behind it, so that a clock that rises and falls is no error.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from foretrace.base.errors import EngineError, ProfileError
from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.harness.machine_facts import pinned
from foretrace.benchmarks.harness.programs import LANGUAGES, compiler_for
from foretrace.benchmarks.harness.results import MeasuredPrediction, Part, ResultTable
from foretrace.profiles.library import find

LENGTHS = (20, 40, 80, 160)
"""Instructions, or one or two more."""
_INTEGERS = ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r14", "r15")
_NARROW = {name: f"e{name[1:]}" if name.isalpha() else f"{name}d" for name in _INTEGERS}
_VECTORS = tuple(f"xmm{number}" for number in range(16))
_BYTES = 4000  # that are loaded from, and as many that are stored to
_SKIPPED = (1, 3, 8)  # instructions behind a jump
_TRACED_ITERATIONS, _TIMED_ITERATIONS = 20_000, 1000
_RUNS, _SAMPLES = 6, 300
_MOST_TIMES = 3
_SLOWER = 1.3  # times as long the blocks take beside another thread

_WHOLE = {
    "mov {s}, {d}": 12, "mov ${i}, {d32}": 5, "mov {o}(%r12), {d}": 14, "mov {o}(%r12), {d32}": 4,
    "movzbl {o}(%r12), {d32}": 5, "mov {s}, {w}(%r12)": 8, "lea {i}({s}), {d}": 4, "lea ({s},{t}), {d}": 2,
    "lea {i}({s},{t},4), {d}": 1, "add {s}, {d}": 6, "add ${i}, {d}": 6, "and {s}, {d}": 2, "or {s}, {d}": 2,
    "xor {s}, {d}": 2, "shl $3, {d}": 1, "shr $3, {d}": 1, "sar $3, {d}": 1, "add {o}(%r12), {d}": 2,
    "addq ${i}, {w}(%r12)": 0.5, "imul {s}, {d}": 0.3, "test {t}, {t}; cmovs {s}, {d}": 0.7,
    "cmp {s}, {t}; setb %dl; movzbl %dl, {d32}": 0.5,
}  # fmt: skip
_NEVER = {"test %r13, %r13; js 9f": 7, "cmpb $77, {o}(%r12); je 9f": 3}
_JUMPS = {"jmp {n}f; {skipped}; {n}:": 8, "test %r13, %r13; jns {n}f; {skipped}; {n}:": 4}
_SCALAR = {
    "movsd {p}(%r12), {x}": 12, "movsd {y}, {q}(%r12)": 6, "movapd {y}, {x}": 6, "addsd {y}, {x}": 10,
    "mulsd {y}, {x}": 9, "subsd {y}, {x}": 4, "addsd {p}(%r12), {x}": 4, "mulsd {p}(%r12), {x}": 4,
    "lea {i}({s}), {d}": 2, "add ${i}, {d}": 2, "mov {o}(%r12), {d}": 1,
}  # fmt: skip
_PACKED = {
    "movapd {p}(%r12), {x}": 12, "movapd {y}, {q}(%r12)": 6, "movapd {y}, {x}": 6, "addpd {y}, {x}": 12,
    "mulpd {y}, {x}": 10, "addpd {p}(%r12), {x}": 4, "unpcklpd {y}, {x}": 2, "unpckhpd {y}, {x}": 2,
    "lea {i}({s}), {d}": 2, "add ${i}, {d}": 2,
}  # fmt: skip


def _more(weights: Mapping[str, float], times: float, *parts: str) -> dict[str, float]:
    return {text: weight * (times if any(part in text for part in parts) else 1) for text, weight in weights.items()}


KINDS: dict[str, Mapping[str, float]] = {
    "integers": _WHOLE | _NEVER,
    "jumps": _WHOLE | _NEVER | _JUMPS,
    "no branches": _WHOLE,
    "loads": _more(_WHOLE | _NEVER, 2.5, "mov {o}", "movzbl"),
    "stores": _more(_WHOLE | _NEVER, 3, "mov {s}, {w}"),
    "arithmetic": _more(_more(_WHOLE | _NEVER, 0, "mov {s}, {d}"), 3, "lea", "add {s}", "and ", "or ", "xor "),
    "floating point": _SCALAR,
    "packed floating point": _PACKED,
    "floating point of memory": _more(_SCALAR, 3, "sd {p}(%r12)"),
    "stores of floating point": _more(_SCALAR, 3, "{q}"),
}
"""Templates of instructions and how often they come, by what there is more of than in most code."""

_HEAD = """.text
.globl blocks
.type blocks, @function
blocks:
.p2align 6
1:
.rept 16
.rept 7
nopl 1(%rax)
.endr
jmp 2f
.p2align 6
2:
.endr
sub $1, %rdi
jne 1b
ret
.size blocks, . - blocks
"""
"""Blocks that jump to each other: a core whose other thread is awake fetches them half as fast."""
_LOOP = """.p2align 4
.globl {name}
.type {name}, @function
{name}:
push %rbx; push %r12; push %r13; push %r14; push %r15
mov %rdi, %r13
lea room(%rip), %r12
.irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
movapd (%r12), %xmm\\n
.endr
.p2align 4
1:
{body}
sub $1, %r13
jne 1b
9:
pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx
ret
.size {name}, . - {name}
"""
_TABLE = """.section .note.GNU-stack,"",@progbits
.data
.globl loops
.p2align 3
loops:
{pointers}
.quad 0
.globl room
.p2align 12
room:
.rept 1024
.double 1.0
.endr
"""
_MAIN = """#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
extern void (*const loops[])(long iterations);
extern void blocks(long rounds);
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
static double cycle_s(void) {
    uint64_t x = 1;
    const double begin = now();
    for (int i = 0; i < 200; i++) __asm__ volatile(".rept 20\\nadd $1, %0\\n.endr" : "+r"(x));
    return (now() - begin) / 4000;
}
static double blocks_s(void) {
    const double begin = now();
    blocks(64);
    return now() - begin;
}
/* ITERATIONS SAMPLES FIRST END: the fewest cycles of an iteration of each loop, and those of the blocks beside it;
 * nothing of a single sample. */
int main(int argc, char **argv) {
    const long iterations = atol(argv[1]), samples = atol(argv[2]);
    for (int n = atoi(argv[3]); n < atoi(argv[4]) && argc; n++) {
        double least = 1e30, beside = 0;
        for (long i = 0; i < samples; i++) {
            const double before_s = cycle_s(), fetched_s = blocks_s(), begin = now();
            loops[n](iterations);
            const double took = now() - begin, again_s = blocks_s(), behind_s = cycle_s();
            const double cycle = before_s < behind_s ? before_s : behind_s;
            if (before_s + behind_s < 2.01 * cycle && took / cycle < least) {
                least = took / cycle;
                beside = (fetched_s > again_s ? fetched_s : again_s) / cycle;
            }
        }
        if (samples > 1) printf("%.3f %.1f\\n", least / iterations, beside);
    }
}
"""


@dataclass(frozen=True, slots=True)
class Loop:
    """Its instructions, one a line in AT&T's syntax. Register 13 counts iterations down, 12 has the address of data."""

    name: str
    kind: str
    lines: tuple[str, ...]

    @property
    def instructions(self) -> int:
        """Number of instructions, those that a jump skips included."""
        return sum(not line.endswith(":") for line in self.lines)


@dataclass(frozen=True, slots=True)
class Result:
    """A loop's cycles an iteration, predicted and measured.

    `on_whole_core`: no other thread of the core was seen beside it. One that is awake takes half of its fetching.
    """

    kind: str
    instructions: int
    on_whole_core: bool
    cycles: MeasuredPrediction


def random_loops(number: int, seed: int) -> list[Loop]:
    """Random loops, as many of each kind as of any other, or one more; the same for the same seed."""
    drawn = random.Random(seed)
    kinds = list(KINDS)
    return [_random_loop(f"loop_{n}", kinds[n % len(kinds)], drawn) for n in range(number)]


def _random_loop(name: str, kind: str, drawn: random.Random) -> Loop:
    length, labels = drawn.choice(LENGTHS), 100
    lines: list[str] = []
    while len(lines) < length:
        (template,) = drawn.choices(list(KINDS[kind]), list(KINDS[kind].values()))
        labels += 1
        target = drawn.choice(_INTEGERS)
        text = template.format(
            d=f"%{target}", d32=f"%{_NARROW[target]}", s=f"%{drawn.choice(_INTEGERS)}", t=f"%{drawn.choice(_INTEGERS)}",
            x=f"%{drawn.choice(_VECTORS)}", y=f"%{drawn.choice(_VECTORS)}", i=drawn.choice((1, 2, 8, 16, 100, 1000)),
            o=8 * drawn.randrange(_BYTES // 8), w=4096 + 8 * drawn.randrange(_BYTES // 8),
            p=16 * drawn.randrange(_BYTES // 16), q=4096 + 16 * drawn.randrange(_BYTES // 16),
            n=labels, skipped="; ".join(["nop"] * drawn.choice(_SKIPPED)),
        )  # fmt: skip
        lines += text.split("; ")
    return Loop(name, kind, tuple(lines))


def assembly(loops: Sequence[Loop]) -> str:
    """A source for the GNU assembler: the loops as functions, and a table of them."""
    text = "".join(_LOOP.format(name=loop.name, body="\n".join(loop.lines)) for loop in loops)
    return _HEAD + text + _TABLE.format(pointers="\n".join(f".quad {loop.name}" for loop in loops))


def build(loops: Sequence[Loop], directory: Path) -> Path:
    """The executable.

    Raises:
        EngineError: there is no C compiler, or it fails.
    """
    sources, executable = [directory / "loops.s", directory / "main.c"], directory / "loops"
    compiler = compiler_for("main.c", LANGUAGES[".c"])
    for path, text in zip(sources, (assembly(loops), _MAIN), strict=True):
        path.write_text(text)
    command = [compiler, "-O2", "-o", str(executable), *map(str, sources)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise EngineError(f"{compiler} failed with: {result.stderr.strip()}")
    return executable


def measured_cycles(
    executable: Path, number: int, *, runs: int = _RUNS, samples: int = _SAMPLES
) -> list[tuple[float, bool]]:
    """Fewest cycles of an iteration of each, over some runs; and whether blocks were fetched as fast as ever beside it.

    Runs go on, for three times as many, until that holds for all.
    """
    command = [str(executable), str(_TIMED_ITERATIONS), str(samples), "0", str(number)]
    found: list[list[tuple[float, float]]] = []
    with pinned():
        for run in range(_MOST_TIMES * runs):
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            found.append([(float(cycles), float(beside)) for cycles, beside in map(str.split, output.splitlines())])
            least = [min(of_loop) for of_loop in zip(*found, strict=True)]
            fastest = min(beside for one in found for _, beside in one)
            whole = [beside < _SLOWER * fastest for _, beside in least]
            if run + 1 >= runs and all(whole):
                break
    return [(cycles, is_whole) for (cycles, _), is_whole in zip(least, whole, strict=True)]


def predicted(executable: Path, loops: Sequence[Loop], machine: str) -> Iterator[tuple[float, str]]:
    """Cycles of an iteration of each by the profile's clock, and what bounds it.

    Raises:
        ProfileError: there is no such profile.
        EngineError: foretrace failed.
    """
    core = find(machine).core
    if core is None or core.clock_hz is None:
        raise ProfileError(f"{machine}: no clock is given, without which there are no cycles")
    for number, loop in enumerate(loops):  # one to a trace: a signature's paths are some twenty stretches
        signature = executable.parent / f"{number}.sig"
        command = [str(executable), str(_TRACED_ITERATIONS), "1", str(number), str(number + 1)]
        tools.measure(tools.trace_command(command, signature))
        document = tools.foretrace_json("predict", str(signature), "--machine", machine)
        regions = document["predictions"][0]["loops"]
        own = [region for region in regions if (region["kind"], region["function"]) == ("loop", loop.name)]
        seconds = sum(region["time_s"] - region["pages_s"] for region in own)
        yield seconds * core.clock_hz / _TRACED_ITERATIONS, max(own, key=lambda region: region["time_s"])["bound_by"]


def compare(number: int, seed: int, machine: str, directory: Path) -> list[Result]:
    """So many loops, measured and predicted."""
    loops = random_loops(number, seed)
    executable = build(loops, directory)
    measured = measured_cycles(executable, number)
    results = []
    for loop, (cycles, is_whole), (predicted_cycles, bound_by) in zip(
        loops, measured, predicted(executable, loops, machine), strict=True
    ):
        row = MeasuredPrediction(
            name=loop.name, unit="cycles", predicted=predicted_cycles, measured=cycles,
            notes={"kind": loop.kind, "instructions": str(loop.instructions), "bound by": bound_by},
        )  # fmt: skip
        results.append(Result(loop.kind, loop.instructions, is_whole, row))
    return results


def table(results: Sequence[Result]) -> ResultTable:
    """Errors by kind of loop."""
    rows = []
    for kind in [*KINDS, ""]:
        of_kind = [result for result in results if kind in ("", result.kind)]
        if of_kind:
            rows.append([kind or "all", str(len(of_kind)), *_cells(of_kind)])
    headings = ("loops of", "loops", "instructions a cycle", "absolute error", "mean", "median", "worst")
    return ResultTable(
        "loops of random instructions", headings, rows, [result.cycles.as_json() for result in results], "predictions"
    )


def _cells(results: Sequence[Result]) -> tuple[str, ...]:
    errors = [result.cycles.error or 0.0 for result in results]
    rates = sorted(result.instructions / (result.cycles.measured or 1.0) for result in results)
    return (
        f"{rates[0]:.1f} to {rates[-1]:.1f}",
        f"{statistics.fmean(map(abs, errors)):.1%}",
        f"{statistics.fmean(errors):+.1%}",
        f"{statistics.median(errors):+.1%}",
        f"{max(errors, key=abs):+.1%}",
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.machine(parser)
    parser.add_argument("--number", type=common.positive, default=120, help="of loops (default 120)")
    parser.add_argument("--seed", type=int, default=1, help="other loops for another one (default 1)")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The table of errors."""
    if platform.machine() != "x86_64":
        raise EngineError(f"the loops are of x86-64's instructions, this is {platform.machine()}")
    results = compare(options.number, options.seed, options.machine, scratch)
    yield table(results)
    beside = sum(not result.on_whole_core for result in results)
    if beside:
        yield f"{beside} of {len(results)} were timed beside another thread of the core only, which takes half of it."
