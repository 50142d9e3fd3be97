"""Compilers' vectorisation reports, against the dependence test on source.

gcc, gfortran and clang say of each loop whether they vectorised it, and if not, why. The labelled programs of
benchmarks/programs (dependences, idioms) are compiled with `-O3 -march=haswell` and their reports are read; beside them
stands the verdict of `foretrace idioms --loops`. A compiler answers another question (may *and should* this loop be
vectorised here?), so each difference has a cause. It is found, in this order:

1. by compiling once more: a loop that is vectorised only with -fassociative-math was held up by the order of
   floating-point operations, one that needs -ffinite-math-only and the like by NaN, signed zeros, traps or errno, one
   that is vectorised only without a cost model by its price;
2. from the compiler's own words;
3. where the compiler vectorises what we call a recurrence, from our dependences: a vector that loads before it stores
   keeps an anti-dependence, and one shorter than the distance keeps a flow dependence.

What is left is `unexplained`: a suspected error of ours or of the compiler. Loops that are outer ones or gone before
they could be vectorised, and on which the compiler says nothing, are neither agreed nor differed on. Only functions
that are declared inline are inlined, and none is copied for constant arguments, because the dependence test reads each
function by itself.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from foretrace.benchmarks.harness.results import Part, ResultTable
from foretrace.tracer.source.flow.dependences import verdict
from foretrace.tracer.source.flow.effects import facts
from foretrace.tracer.source.flow.normal import normal
from foretrace.tracer.source.flow.records import Dependence, LoopVerdict, Verdict
from foretrace.tracer.source.form.records import Language
from foretrace.tracer.source.languages import language_of, lower

PROGRAMS = Path(__file__).parents[1] / "programs"
FOLDERS = ("dependences", "idioms")
FLAGS = ("-O3", "-march=haswell")
STANDARDS = {Language.CXX: ("-std=gnu++20",)}
SPECIAL_CASES = ("-fno-math-errno", "-fno-trapping-math", "-ffinite-math-only", "-fno-signed-zeros")
ANY_ORDER = (*SPECIAL_CASES, "-fassociative-math", "-freciprocal-math")
MOST_SECONDS = 120
_LABEL = re.compile(r"loop: (none|parallel|reduction|privatisable|recurrence|collision|unknown|unjudged)\b")
_LABELLED = {"none": "parallel", "privatisable": "parallel"}


class Cause(StrEnum):
    """Why a compiler's answer differs from ours."""

    ORDER = "floating-point order"  # the result of a reduction would change: needs -ffast-math
    SPECIAL = "NaN, signed zeros, traps or errno"  # the result or a side effect would change in special cases
    COST = "cost model"  # it may be vectorised, but that would not be faster
    OUTER = "outer loop"  # vectorisers take innermost loops
    ACCESS = "access pattern"  # indirect or strided elements that no instruction loads or stores together
    DEPENDENCE = "dependence not excluded"  # the compiler's own test is weaker, or it may not assume what ours does
    CARRIED = "carried value not recognised"  # a reduction of a kind it does not know
    CALL = "call"
    CONTROL = "control flow"
    COUNT = "iteration count"
    INSTRUCTION = "no such instruction"
    VOLATILE = "volatile"
    GONE = "no loop left"  # unrolled, or a call of memset or memcpy, before it is vectorised
    ANTI = "loads precede stores"  # an anti-dependence: no obstacle to vectors, one to threads
    DISTANCE = "distance of a vector or more"
    LAST = "last value kept"  # a scalar that is assigned where a condition holds: its last value is selected
    SPLIT = "part of the loop"  # split by iterations or statements: only a part is vectorised
    STORES = "stores keep their order"  # an output dependence: vectors are stored element by element
    UNDERSTOOD = "call understood"  # inlined, or known as malloc and free are
    ADVANCE = "scalar as a vector shifted by one"  # a value of the iteration before, taken from the vector before
    CHECKED = "checked at run time"  # whether two ranges overlap, and a version of the loop for each answer
    UNEXPLAINED = "unexplained"


_WORDS: tuple[tuple[str, Cause], ...] = (
    (r"volatile", Cause.VOLATILE),
    (r"unsafe fp math|fold-left reduction|reorder floating-point", Cause.ORDER),
    (r"number of iterations cannot|could not determine number of loop iterations|infinite number", Cause.COUNT),
    (r"multiple nested loops|consecutive inner loops|outer-loop already|inner-loop count", Cause.OUTER),
    (r"statement clobbers memory|call instruction cannot|dr in a call|contains function calls|library call cannot"
     r"|can throw an exception", Cause.CALL),
    (r"control flow|switch statement|too many exits|multiple exits|latch block", Cause.CONTROL),
    (r"possible alias involving gather|cannot identify array bounds|complicated access pattern|data ref analysis failed"
     r"|no array mode|unsupported (?:unaligned|vect_?permute)|not suitable for (?:gather|scatter)|bad data ref",
     Cause.ACCESS),
    (r"possible dependence between|bad data dependence|unsafe dependent memory|backward dep", Cause.DEPENDENCE),
    (r"unsupported use in stmt|could not be identified as reduction|def-use cycle|reduction used in loop"
     r"|unknown reduction|not a simple reduction|in-order|loop-carried", Cause.CARRIED),
    (r"not profitable|cost-model|cost model|will never be profitable", Cause.COST),
    (r"relevant stmt not supported|instruction cannot be vectorized|unsupported data-?type|no vectype"
     r"|not supported by target"
     r"|bad operation", Cause.INSTRUCTION),
)  # fmt: skip
_NO_OBSTACLE = re.compile(
    r"failed: evolution|step unknown|misalignment|hybrid|versioning not|single-iteration|versioning"
)


@dataclass
class Section:
    """Report of a compiler on one loop."""

    line: int
    vectorised: bool = False
    versioned: bool = False
    lanes: int = 0
    """Iterations that one vector operation covers; 0: not known."""
    split: bool = False
    """A part of it was not vectorised."""
    words: list[str] = field(default_factory=list)
    """Its reasons, in order."""

    def cause(self) -> tuple[Cause | None, str]:
        """The class of its first reason that is one, and its text."""
        for text in self.words:
            if _NO_OBSTACLE.search(text):
                continue
            for pattern, cause in _WORDS:
                if re.search(pattern, text):
                    return cause, text
        return None, self.words[-1] if self.words else ""


@dataclass(frozen=True, slots=True)
class SourceLoop:
    """A loop of the source, and our verdict."""

    line: int
    last_line: int
    found: LoopVerdict
    has_inner: bool
    label: str
    """parallel, reduction, recurrence, collision, unknown, unjudged; "": it has none."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A loop, our verdict and one compiler's answer."""

    place: str
    compiler: str
    loop: SourceLoop
    answer: str
    """vectorised, vectorised with checks, not vectorised, no report."""
    agrees: bool | None
    """None: the compiler does not say."""
    cause: Cause | None
    """None where both agree without a reserve."""
    words: str
    """The compiler's."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler, and what makes it report."""

    name: str
    commands: dict[Language, str]
    report: tuple[str, ...]
    no_cost: tuple[str, ...]
    is_gcc: bool


COMPILERS = (
    Compiler(
        "gcc", {Language.C: "gcc", Language.CXX: "g++", Language.FORTRAN: "gfortran"},
        ("-fno-inline-functions", "-fno-inline-small-functions", "-fno-inline-functions-called-once", "-fno-ipa-cp",
         "-fopt-info-vec-all-internals", "-fopt-info-loop-optimized"),
        ("-fvect-cost-model=unlimited",), True,
    ),
    Compiler(
        "clang", {Language.C: "clang", Language.CXX: "clang++", Language.FORTRAN: "flang-new"},
        ("-finline-hint-functions", "-Rpass=loop-(vectorize|unroll|idiom|delete)", "-Rpass-missed=loop-vectorize",
         "-Rpass-analysis=loop-vectorize"),
        ("-mllvm", "-force-vector-width=4"), False,
    ),
)  # fmt: skip


def sources() -> list[Path]:
    """The labelled programs that a compiler reads."""
    return [
        path for folder in FOLDERS if (PROGRAMS / folder).is_dir() for path in sorted((PROGRAMS / folder).iterdir())
        if language_of(path) not in (None, Language.PYTHON) and "loop:" in path.read_text(encoding="utf-8")
    ]  # fmt: skip


def source_loops(source: Path) -> dict[int, SourceLoop]:
    """The labelled loops of a file by line, with our verdicts.

    Raises:
        ForetraceError: the file cannot be read.
    """
    labels = {
        number: _LABELLED.get(match[1], match[1])
        for number, text in enumerate(source.read_text(encoding="utf-8").splitlines(), 1)
        if (match := _LABEL.search(text))
    }
    found: dict[int, SourceLoop] = {}
    for function in lower(source).functions:
        loops = [one for one in facts(normal(function)) if not one.loop.synthetic and one.loop.place.file == 0]
        for one in loops:
            line = one.loop.place.line
            if line not in labels:
                continue
            answer = verdict(one)
            before = found.get(line)
            if before is not None and list(Verdict).index(before.found.verdict) >= list(Verdict).index(answer.verdict):
                continue
            found[line] = SourceLoop(
                line, one.loop.place.last, answer,
                any(other is not one and one.loop in other.nest for other in loops),
                labels[line],
            )  # fmt: skip
    return found


_GCC_LINE = re.compile(r"(?P<file>[^\s:]+):(?P<line>\d+):\d+: (?P<kind>optimized|missed|note):\s*(?P<text>.*)")
_GCC_LOOP = re.compile(r"Analyzing loop at (?P<file>.+):(?P<line>\d+)$")
_CLANG_LINE = re.compile(r"(?P<file>[^\s:]+):(?P<line>\d+):\d+: remark: (?P<text>.*?) \[-Rpass[^\]]*\]")
_TRANSFORMED = re.compile(
    r"completely unrolled|turned into non-loop|distributed: split to|library call|formed a call|Loop deleted"
)


def gcc_sections(report: str, name: str) -> tuple[dict[int, Section], dict[int, str]]:
    """The sections of gcc's report on the file `name` by the loop's line, and what it did to loops otherwise."""
    sections: dict[int, Section] = {}
    changed: dict[int, str] = {}
    current: Section | None = None
    factor = 0
    for text in report.splitlines():
        start = _GCC_LOOP.match(text)
        if start is not None:
            line = int(start["line"])
            current = sections.setdefault(line, Section(line)) if Path(start["file"]).name == name else None
            factor = 0
            continue
        match = _GCC_LINE.match(text)
        if match is None or Path(match["file"]).name != name:
            continue
        line, kind, words = int(match["line"]), match["kind"], match["text"]
        if kind == "optimized":
            if words.startswith("loop vectorized"):
                section = sections.setdefault(line, Section(line))
                section.vectorised = True
                section.lanes = section.lanes or factor
            elif "possible aliasing" in words:
                sections.setdefault(line, Section(line)).versioned = True
            elif _TRANSFORMED.search(words):
                changed.setdefault(line, words)
        elif kind == "note" and (known := re.match(r"vectorization factor = (\d+)", words)):
            factor = factor or int(known[1])  # the first that fits; others are for what is left over
        elif kind == "missed" and current is not None and "couldn't vectorize loop" not in words:
            current.words.append(words)
    return sections, changed


def clang_sections(report: str, name: str, lines: Sequence[int]) -> tuple[dict[int, Section], dict[int, str]]:
    """The sections of clang's report on the file `name` by the loop's line, and what it did to loops otherwise; a
    reason stands at the statement, before the line that names the loop."""
    sections: dict[int, Section] = {}
    changed: dict[int, str] = {}
    waiting: list[str] = []
    for text in report.splitlines():
        match = _CLANG_LINE.match(text)
        if match is None or Path(match["file"]).name != name:
            continue
        line, words = int(match["line"]), match["text"]
        if _TRANSFORMED.search(words):
            changed.setdefault(line, words)
        if "unrolled" in words or _TRANSFORMED.search(words):
            continue
        vectors = re.match(r"vectorized loop \(vectorization width: (\d+)", words)
        if vectors is None and words != "loop not vectorized" and "vectorization is not" not in words:
            if "interleaving" not in words:
                waiting.append(words)
            continue
        owner = line if line in lines else max((one for one in lines if one <= line), default=line)
        section = sections.setdefault(owner, Section(owner))
        if vectors is not None:
            section.vectorised = True
            section.lanes = max(section.lanes, int(vectors[1]))
        elif words == "loop not vectorized":
            section.words += waiting
        else:
            section.words.append(words)
        waiting = []
    return sections, changed


def compiled(compiler: Compiler, source: Path, extra: Sequence[str] = ()) -> str:
    """Report of a compiler on a file.

    Raises:
        subprocess.CalledProcessError: it does not compile.
    """
    language = language_of(source) or Language.C
    command = compiler.commands[language]
    with tempfile.TemporaryDirectory(prefix="foretrace-reports-") as folder:
        output = str(Path(folder, "loops.o"))
        # Fortran's .mod files are written to the working folder.
        result = subprocess.run(
            [command, *FLAGS, *STANDARDS.get(language, ()), *compiler.report, *extra, "-w", "-c", "-o", output,
             str(source.resolve())],
            check=True, capture_output=True, timeout=MOST_SECONDS, cwd=folder,
        )  # fmt: skip
    return result.stderr.decode("utf-8", "replace")


def compare(compiler: Compiler, source: Path) -> Iterator[Compared]:
    """Our verdicts on a file's loops and a compiler's answers.

    Raises:
        ForetraceError: the file cannot be read.
        subprocess.CalledProcessError: it does not compile.
    """
    loops = source_loops(source)

    def sections(extra: Sequence[str] = ()) -> tuple[dict[int, Section], dict[int, str]]:
        report = compiled(compiler, source, extra)
        if compiler.is_gcc:
            return gcc_sections(report, source.name)
        return clang_sections(report, source.name, sorted(loops))

    causes = {
        Cause.SPECIAL: SPECIAL_CASES, Cause.ORDER: ANY_ORDER, Cause.COST: (*ANY_ORDER, *compiler.no_cost)
    }  # fmt: skip
    with ThreadPoolExecutor() as threads:
        (plainly, changed), *others = threads.map(sections, ((), *causes.values()))
    trials = [(cause, made) for cause, (made, _) in zip(causes, others, strict=True)]
    for line, loop in sorted(loops.items()):
        section = plainly.get(line)
        if section is None:
            inside = [] if loop.has_inner else range(line, loop.last_line + 1)
            answer, words = "no report", next((changed[number] for number in inside if number in changed), "")
        elif section.vectorised:
            inside = range(line + 1, loop.last_line + 1)
            section.split = not loop.has_inner and any(
                number in plainly and not plainly[number].vectorised for number in inside
            )
            answer, words = "vectorised with checks" if section.versioned else "vectorised", ""
        else:
            answer, words = "not vectorised", section.cause()[1]
        tried = next((cause for cause, made in trials if line in made and made[line].vectorised), None)
        agrees, cause = judged(loop, section, tried)
        yield Compared(f"{source.name}:{line}", compiler.name, loop, answer, agrees, cause, words)


def judged(loop: SourceLoop, section: Section | None, tried: Cause | None) -> tuple[bool | None, Cause | None]:
    """Whether we and a compiler agree on a loop, and why not; None: it does not say.

    Args:
        loop: with our verdict.
        section: what the compiler says of it; None: nothing.
        tried: what held it up, by compiling otherwise; None: something else.
    """
    independent = loop.found.verdict in (Verdict.PARALLEL, Verdict.REDUCTION)
    if section is None:
        return None, Cause.OUTER if loop.has_inner else Cause.GONE
    if section.vectorised:
        if independent:
            return True, Cause.CHECKED if section.versioned else None
        return False, _allowed(loop, section)
    if not independent:
        return True, None
    if loop.has_inner:
        return False, Cause.OUTER
    return False, tried or section.cause()[0] or Cause.UNEXPLAINED


def _allowed(loop: SourceLoop, section: Section) -> Cause:
    """Why a compiler may vectorise what is not independent."""
    if section.split:
        return Cause.SPLIT
    if any("is called" in reason for reason in loop.found.reasons):
        return Cause.UNDERSTOOD
    causes = {_allowed_in_spite_of(one, section) for one in loop.found.dependences} or {Cause.UNEXPLAINED}
    return next(cause for cause in reversed(Cause) if cause in causes)


def _allowed_in_spite_of(one: Dependence, section: Section) -> Cause:
    if one.test == "scalar":
        return Cause.LAST if one.source.place == one.sink.place else Cause.ADVANCE
    if not one.source.store:
        return Cause.ANTI
    if one.sink.store:
        return Cause.STORES
    if one.distance is not None and 0 < section.lanes <= one.distance:
        return Cause.DISTANCE
    return Cause.CHECKED if section.versioned or not one.certain else Cause.UNEXPLAINED


def table_of(compared: Sequence[Compared], title: str) -> ResultTable:
    """Our verdicts against a compiler's answers."""
    answers = ("vectorised", "vectorised with checks", "not vectorised", "no report")
    rows = []
    for one in Verdict:
        here = [each for each in compared if each.loop.found.verdict is one]
        counts = [sum(each.answer == answer for each in here) for answer in answers]
        counts += [sum(each.agrees is wanted for each in here) for wanted in (True, False)]
        rows.append([one.value, *map(str, counts)])
    return ResultTable(title, ("our verdict", *answers, "agree", "differ"), rows)


def _parts(compared: Sequence[Compared], title: str, *, listed: bool) -> Iterator[Part]:
    agreeing, differing = ([one for one in compared if one.agrees is wanted] for wanted in (True, False))
    silent = [one for one in compared if one.agrees is None]
    yield table_of(
        compared,
        f"{title}: {len(compared)} loops, {len(agreeing)} agree, {len(differing)} differ, {len(silent)} not judged",
    )
    checked = [one for one in agreeing if one.cause is Cause.CHECKED]
    stated = sum(bool(one.loop.found.assumptions) for one in checked)
    yield f"{len(checked)} agree by a check at run time; for {stated} of them we state an assumption"
    for group, what in ((differing, "differ"), (silent, "are not judged")):
        for cause, number in Counter(one.cause for one in group if one.cause is not None).most_common():
            yield f"{number:4} {what}: {cause.value}"
            for one in group:
                if one.cause is cause and (listed or cause is Cause.UNEXPLAINED):
                    words = f": {one.words}" if one.words else ""
                    ours = f"{one.loop.found.verdict.value} (labelled {one.loop.label})"
                    yield f"       {one.place}: {ours}, {one.answer}{words}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    parser.add_argument("--short", action="store_true", help="count the differences, and list only unexplained ones")


def run(options: argparse.Namespace, _scratch: Path) -> Iterator[Part]:
    """The tables, and what differs."""
    for compiler in COMPILERS:
        compared: list[Compared] = []
        for source in sources():
            command = compiler.commands[language_of(source) or Language.C]
            if shutil.which(command) is None:
                yield f"{source.name}: left out, as {command} is not installed"
                continue
            try:
                compared += compare(compiler, source)
            except subprocess.CalledProcessError as error:
                first = error.stderr.decode("utf-8", "replace").strip().splitlines()[:1]
                yield f"{source.name}: left out, as {command} fails: {' '.join(first)}"
        if compared:
            yield from _parts(compared, compiler.name, listed=not options.short)
