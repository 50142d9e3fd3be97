"""Idioms in source, found against labelled.

The programs in benchmarks/programs/idioms have a label, in a comment, at each statement or loop that is an idiom, and
at each loop what it carries from one iteration to the next:

    for (i = 0; i < n; i++)          /* loop: reduction */
        sum += v[k[i]] * x[i];       /* idiom: gather (reduction) */

Parts that are findings of their own stand in brackets. `idiom: none` says that there is none, `loop: unjudged` that the
source alone has no exact answer. Everything is labelled: a finding without a label is a wrong one. Files whose names
start with `held_back` were labelled after the recogniser was finished, and never used to improve it.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from foretrace.benchmarks.harness.results import LabelCount, Part, ResultTable, label_table, total
from foretrace.tracer.source.flow.records import Verdict
from foretrace.tracer.source.form.records import Language
from foretrace.tracer.source.idioms.patterns import built_in
from foretrace.tracer.source.idioms.records import Finding
from foretrace.tracer.source.languages import language_of
from foretrace.tracer.source.scanning import file_result

FOLDER = Path(__file__).parents[1] / "programs" / "idioms"
HELD_BACK = "held_back"
NO_IDIOM, UNJUDGED = "none", "unjudged"
_IDIOM = re.compile(r"idiom: ([a-z-]+)(?: \(([a-z, -]*)\))?")
_LOOP = re.compile(r"loop: (parallel|reduction|recurrence|unknown|unjudged)\b")


@dataclass(frozen=True, slots=True)
class Label:
    """Labels of a line."""

    line: int
    idioms: frozenset[str]
    """Empty: none."""
    parts: frozenset[str]
    verdict: str
    """"": no loop starts here."""


@dataclass(frozen=True, slots=True)
class Miss:
    """A label that was not met, or something found without a label."""

    place: str
    labelled: str
    found: str


@dataclass
class Judged:
    """A set of files, judged: counts by idiom and by verdict, and what differs."""

    idioms: dict[str, LabelCount] = field(default_factory=dict)
    verdicts: dict[str, LabelCount] = field(default_factory=dict)
    misses: list[Miss] = field(default_factory=list)
    loops: int = 0
    """Labelled loops."""


def programs(language: Language, *, held_back: bool = False) -> list[Path]:
    """The labelled files of a language."""
    return sorted(
        path for path in FOLDER.iterdir()
        if language_of(path) is language and path.stem.startswith(HELD_BACK) is held_back
    )  # fmt: skip


def labels(source: Path) -> list[Label]:
    """The labels of a file, by line."""
    found = []
    for number, text in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
        idioms = _IDIOM.findall(text)
        loop = _LOOP.search(text)
        if idioms or loop:
            parts = {part.strip() for _, listed in idioms for part in listed.split(",") if part.strip()}
            names = {name for name, _ in idioms} - {NO_IDIOM}
            found.append(Label(number, frozenset(names), frozenset(parts), loop[1] if loop else ""))
    return found


def judge(sources: Sequence[Path]) -> Judged:
    """Read labelled files and compare what is found with their labels.

    Raises:
        ForetraceError: a file cannot be read.
    """
    judged = Judged()
    for source in sources:
        _judge(source, judged)
    return judged


def _judge(source: Path, judged: Judged) -> None:
    result = file_result(source, built_in())
    expected = {label.line: label for label in labels(source)}
    found: dict[int, set[tuple[str, bool]]] = {line: set() for line in expected}
    for finding in result.findings:
        found.setdefault(_line(finding, expected), set()).add((finding.idiom, finding.parent is not None))
    verdicts: dict[int, set[Verdict]] = {}
    for loop in result.loops:
        verdicts.setdefault(loop.line, set()).add(loop.verdict)
    for line, here in sorted(found.items()):
        label = expected.get(line, Label(line, frozenset(), frozenset(), ""))
        wanted = {(name, False) for name in label.idioms} | {(name, True) for name in label.parts}
        for one in wanted | here:
            judged.idioms.setdefault(one[0], LabelCount()).add(one in wanted, one in here)
        if wanted != here:
            judged.misses.append(Miss(f"{source.name}:{line}", _shown(wanted), _shown(here)))
        if not label.verdict:
            continue
        judged.loops += 1
        if label.verdict != UNJUDGED:
            answer = max(verdicts.get(line, ()), key=list(Verdict).index, default=None)
            for name in {label.verdict} | ({answer.value} if answer else set()):
                judged.verdicts.setdefault(name, LabelCount()).add(name == label.verdict, name == answer)
            if answer != label.verdict:
                shown = answer.value if answer else "no loop"
                judged.misses.append(Miss(f"{source.name}:{line}", f"loop {label.verdict}", shown))


def _line(finding: Finding, expected: dict[int, Label]) -> int:
    """The line whose label a finding answers: of its statements, else of its loop."""
    own = range(finding.first_line, finding.last_line + 1)
    candidates = [line for line in (*own, finding.loop_line) if line in expected]
    named = [line for line in candidates if finding.idiom in expected[line].idioms | expected[line].parts]
    of_idioms = [line for line in candidates if expected[line].idioms]
    return next(iter([*named, *of_idioms, *candidates]), finding.first_line)


def _shown(names: set[tuple[str, bool]]) -> str:
    return ", ".join(sorted(f"({name})" if part else name for name, part in names)) or NO_IDIOM


def table_of(judged: Judged, title: str) -> ResultTable:
    """Precision and recall of each idiom and each verdict."""
    counts: dict[str, LabelCount] = {}
    for heading, group in (("idioms", judged.idioms), ("verdicts", judged.verdicts)):
        counts |= dict(sorted(group.items())) | {f"all {heading}": total(group.values())}
    return label_table(title, counts)


def sets() -> Iterator[tuple[str, list[Path]]]:
    """The labelled sets: each language's, then what was held back."""
    for held_back in (False, True):
        for language in Language:
            sources = programs(language, held_back=held_back)
            if sources:
                yield f"{language.value}{', held back' if held_back else ''}", sources


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    parser.add_argument("--no-held-back", action="store_true", help="leave out the files that were held back")


def run(options: argparse.Namespace, _scratch: Path) -> Iterator[Part]:
    """A table for each set, and what differs."""
    for title, sources in sets():
        if options.no_held_back and "held back" in title:
            continue
        judged = judge(sources)
        yield table_of(judged, f"{title}: {judged.loops} loops")
        kinds = Counter("verdict" if one.labelled[:5] == "loop " else "idiom" for one in judged.misses)
        for kind, number in kinds.items():
            yield f"{number} places with another {kind}:"
            for one in judged.misses:
                if (one.labelled[:5] == "loop ") == (kind == "verdict"):
                    yield f"  {one.place}: {one.labelled} labelled, {one.found} found"
