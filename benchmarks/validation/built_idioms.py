"""Idioms of our own programs, found in what compilers make of them.

Each example names the idiom that a line of a program is, by hand. Its program is built at several levels of
optimisation, with debug information and stripped, and traced at a small size. With debug information the line must come
back with its idiom from the source, joined with a loop that ran. Stripped, the table shows which idioms the machine
code and its addresses tell of the same loop: it is the same code, found again by its address.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from foretrace.base.errors import EngineError, ForetraceError
from foretrace.benchmarks.harness.programs import LANGUAGES, SOURCES, compiler_for
from foretrace.benchmarks.harness.results import Part, ResultTable
from foretrace.tracer.session.launch import CompiledProgram
from foretrace.tracer.signature.records import IdiomKind, Signature, told_apart
from foretrace.tracer.source.idioms.patterns import built_in
from foretrace.tracer.source.idioms.records import Findings
from foretrace.tracer.source.joining import Join, Joined, join
from foretrace.tracer.source.scanning import scanned
from foretrace.tracer.source.traced_loops import run_of
from foretrace.tracer.tracing import trace_program

LEVELS: tuple[tuple[str, ...], ...] = (("-O0",), ("-O2",), ("-O3", "-march=haswell"))


@dataclass(frozen=True, slots=True)
class Example:
    """A line of a program that is an idiom: the one that `text` is in."""

    idiom: str
    program: str
    text: str
    arguments: tuple[str, ...]


EXAMPLES = (
    Example("stream", "triad.c", "a[i] = b[i] + s * c[i];", ("2000", "2")),
    Example("stream", "particles.f90", "x(p) = x(p) + step*vx(p)", ("500", "24", "2")),
    Example("transpose", "transpose.c", "to[j * side + i] = from[i * side + j];", ("48", "2")),
    Example("transpose", "patterns.c", "b[j * n + i] = a[i * n + j];", ("transpose", "48", "2")),
    Example("gather", "sgbench.c", "B[i] = A[index[i]];", ("20480", "random", "4")),
    Example("scatter", "sgbench.c", "A[index[i]] = B[i];", ("20480", "random", "4")),
    Example("gather-modify-scatter", "histogram.c", "bins[image[i]]++;", ("64", "48", "2")),
    Example("gather-modify-scatter", "euler.cpp", "change[edge.left][k] -= across;", ("8", "2")),
    Example("gather-modify-scatter", "particles.f90", "charge(i, j) = charge(i, j) +", ("500", "24", "2")),
    Example("reduction", "cg.c", "sum += x[i] * y[i];", ("200", "7")),
    Example("stencil", "stencil2d.c", "previous[k] = 2 * u[k] - previous[k] + c[k] * laplacian;", ("40", "30", "3")),
    Example("stencil", "heat3d.f90", "next(i, j, k) = t(i, j, k) + conductivity(i, j, k)", ("16", "12", "10", "2")),
    Example("matrix-product", "patterns.c", "sum += a[i * n + k] * b[k * n + j];", ("product", "24", "24")),
    Example("matrix-product", "matrix_product.f90", "c(i, j) = c(i, j) + a(i, k)*b(k, j)", ("24", "8")),
    Example("matrix-vector-product", "textbook.c", "t += a[i * n + j] * x[j];", ("atax", "40", "2")),
    Example("sparse-product-csr", "spmv.c", "sum += value[k] * x[column[k]];", ("600", "9", "2")),
    Example("sparse-product-coo", "built/formats.c", "y[row[k]] += value[k] * x[column[k]];", ("coo", "600")),
    Example("sparse-product-ell", "built/formats.c", "sum += value[i * PER_ROW + k] * x[", ("ell", "600")),
    Example("prefix-scan", "textbook.c", "b[i] += b[i - 1];", ("prefix_compact", "400", "2")),
    Example("recurrence", "built/formats.c", "out[i] = 0.75 * out[i - 1] + 0.25 * in[i];", ("filter", "500")),
    Example("pointer-chase", "union_find.c", "vertex = parent[vertex];", ("500", "400")),
    Example("pointer-chase", "patterns.c", "k++, at = at->next)", ("list", "400", "3")),
    Example("table-lookup", "built/formats.c", "out[i] = curve[in[i] & (TABLE - 1)];", ("table", "2000")),
    Example("compaction", "textbook.c", "b[kept++] = a[i];", ("prefix_compact", "400", "2")),
    Example("sort", "built/formats.c", "a[i] = a[i + 1];", ("network", "300", "20")),
    Example("fft-butterfly", "patterns.c", "re[i + k] = u + x, im[i + k] = v + y;", ("fft", "256", "1")),
)
TOLD_AS = {
    "sparse-product-csr": "gather, reduction",
    "sparse-product-coo": "gather-modify-scatter",
    "sparse-product-ell": "gather, reduction",
    "matrix-product": "reduction",
    "matrix-vector-product": "reduction",
    "prefix-scan": "recurrence",
    "compaction": "recurrence",
}
"""Findings of machine code on an idiom that is only known by its name in the source."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An example at one level: whether source and run name it, what the stripped binary shows, and why not."""

    example: Example
    level: tuple[str, ...]
    is_joined: bool
    shown: tuple[str, ...]
    """Idioms that the stripped binary shows of the same loops."""
    remark: str = ""

    @property
    def is_shown(self) -> bool:
        """Whether the stripped binary shows the idiom itself, or what machine code has of it."""
        wanted = TOLD_AS.get(self.example.idiom, self.example.idiom).split(", ")
        return self.example.idiom in self.shown or set(wanted) <= set(self.shown)


def line_of(example: Example) -> int:
    """The example's line.

    Raises:
        ForetraceError: the program has no such line, or several.
    """
    lines = (SOURCES / example.program).read_text(encoding="utf-8").splitlines()
    found = [number for number, text in enumerate(lines, 1) if example.text in text]
    if not found:
        raise ForetraceError(f"{example.program}: no line has {example.text!r}")
    return found[0]


def build(program: str, level: Sequence[str], folder: Path) -> Path:
    """Compile a program with debug information.

    Raises:
        EngineError: there is no compiler, or it fails.
    """
    source = SOURCES / program
    language = LANGUAGES[source.suffix]
    executable = folder / f"{source.stem}{''.join(level)}"
    if executable.exists():
        return executable
    compiler = compiler_for(source.name, language)
    shared = [] if language.shared.endswith(".h") else [SOURCES / language.shared]
    command = [compiler, *language.options, *level, "-g", "-o", executable, *shared, source, *language.libraries]
    result = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode:
        raise EngineError(f"{source}: {compiler} failed with: {result.stderr.strip()}")
    return executable


def stripped(executable: Path) -> Path:
    """A copy without symbols and debug information.

    Raises:
        EngineError: there is no `strip`, or it fails.
    """
    copy = executable.with_name(f"{executable.name}-stripped")
    if not copy.exists():
        tool = shutil.which("strip")
        if tool is None:
            raise EngineError("strip is not on PATH; install binutils")
        subprocess.run([tool, "-o", str(copy), str(executable)], check=True, capture_output=True)
    return copy


def source_findings(examples: Iterable[Example]) -> Findings:
    """Findings in the sources of some examples."""
    return scanned([SOURCES / name for name in sorted({one.program for one in examples})], built_in())


def judge(examples: Sequence[Example], level: Sequence[str], found: Findings, folder: Path) -> list[Outcome]:
    """Build and trace the programs of some examples at one level.

    Raises:
        ForetraceError: a program cannot be built or traced.
    """
    outcomes = []
    runs: dict[tuple[str, tuple[str, ...]], tuple[Signature, Signature, Join]] = {}
    for one in examples:
        key = (one.program, one.arguments)
        if key not in runs:
            executable = build(one.program, level, folder)
            signatures = [
                trace_program(CompiledProgram((str(path), *one.arguments))).signature
                for path in (executable, stripped(executable))
            ]
            runs[key] = (*signatures, join(found, run_of(signatures[0])))  # type: ignore[assignment]
        outcomes.append(_outcome(one, tuple(level), found, *runs[key]))
    return outcomes


def _outcome(
    one: Example, level: tuple[str, ...], found: Findings, signature: Signature, bare: Signature, joined: Join
) -> Outcome:
    line = line_of(one)
    at_line = [finding for finding in found.findings if finding.first_line <= line <= finding.last_line]
    here = [finding for finding in at_line if finding.file.endswith(one.program)]
    if not any(finding.idiom == one.idiom for finding in here):
        names = ", ".join(sorted({finding.idiom for finding in here})) or "nothing"
        return Outcome(one, level, False, (), f"the source is read as {names}")
    named = [finding for finding in here if finding.idiom == one.idiom]
    around = [each for each in joined.joined if any(finding in each.findings for finding in named)]
    loops = [each for each in around if each.loop is None or any(each.loop.line == f.loop_line for f in named)]
    if not loops:
        if around:
            shown = _shown(around, signature, bare)
            return Outcome(one, level, True, shown, "its loop is no loop of the binary; joined with the one around")
        return Outcome(one, level, False, (), "no loop that ran is at its place")
    return Outcome(one, level, True, _shown(loops, signature, bare))


def _shown(loops: Iterable[Joined], signature: Signature, bare: Signature) -> tuple[str, ...]:
    """Idioms of the loops of a stripped binary with code of these loops."""
    wanted = {number for one in loops for number in one.ran.loops}
    offsets = {block.offset for block in signature.blocks if block.loop_id in wanted}
    names = {Path(signature.loops[number].module).name for number in wanted}
    same = {
        block.loop_id
        for block in bare.blocks
        if block.offset in offsets and Path(block.module).name.removesuffix("-stripped") in names
    }
    return tuple(map(str, told_apart(IdiomKind(idiom.kind) for idiom in bare.idioms if idiom.loop_id in same)))


def table_of(outcomes: Sequence[Outcome]) -> ResultTable:
    """A row for each example: found with debug information at each level, and what each stripped binary shows."""
    levels = list(dict.fromkeys(one.level for one in outcomes))
    headings = ["idiom", "program"]
    for level in levels:
        headings += [f"{' '.join(level)} -g", f"{' '.join(level)} stripped"]
    rows = []
    for example in dict.fromkeys(one.example for one in outcomes):
        cells = [example.idiom, example.program]
        for level in levels:
            one = next(each for each in outcomes if each.example == example and each.level == level)
            mark = "" if one.is_shown else "not: " if one.shown else "nothing"
            cells += ["found" if one.is_joined else "missed", mark + ", ".join(one.shown)]
        rows.append(cells)
    title = "idioms in binaries: with source and debug information, and in the stripped binary alone"
    return ResultTable(title, headings, rows, left=headings)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    parser.add_argument("--idiom", action="append", help="only this idiom (repeatable)")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The table, why something was not found, and how much was found at each level."""
    examples = [one for one in EXAMPLES if not options.idiom or one.idiom in options.idiom]
    found = source_findings(examples)
    outcomes = [one for level in LEVELS for one in judge(examples, level, found, scratch)]
    yield table_of(outcomes)
    for one in outcomes:
        if one.remark:
            yield f"{one.example.idiom} in {one.example.program} at {' '.join(one.level)}: {one.remark}"
    kinds = {one.example.idiom for one in outcomes}
    for level in LEVELS:
        here = [one for one in outcomes if one.level == level]
        joined = kinds - {one.example.idiom for one in here if not one.is_joined}
        alone = {one.example.idiom for one in here if one.is_shown}
        yield (
            f"{' '.join(level)}: {sum(one.is_joined for one in here)} of {len(here)} examples found with source "
            f"({len(joined)} of {len(kinds)} idioms), {sum(one.is_shown for one in here)} by the stripped binary alone "
            f"({len(alone)} idioms)."
        )
