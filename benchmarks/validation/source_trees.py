"""Source trees of others, read whole: idioms, loops, seconds and memory; and findings drawn at random to be checked.

    python -m foretrace.benchmarks source-trees hycom/ mfem/
    python -m foretrace.benchmarks source-trees --draw 50 --seed 1 hycom/

Each folder is read twice, with a cache of its own that starts empty: the first time reads every file, the second only
checks that nothing changed. A draw shows each finding with its loop, the dependence test's answer and the source, for
someone to judge by reading; nothing in it says what is right.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from foretrace.benchmarks.harness.results import Part, ResultTable
from foretrace.tracer.source.flow.records import Verdict
from foretrace.tracer.source.idioms.patterns import built_in
from foretrace.tracer.source.idioms.records import Finding, Findings, LoopReport
from foretrace.tracer.source.scanning import scanned

MOST_LINES = 40
"""Lines of source shown for a finding."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One source tree, read twice."""

    path: Path
    found: Findings
    first_seconds: float
    cpu_seconds: float
    """Processor time of all processes, while reading the first time."""
    second_seconds: float
    peak_bytes: int
    """The largest resident set of a process that read files, of this and earlier trees."""

    @property
    def lowered_share(self) -> float:
        """The share of loops that were read in full."""
        loops = self.found.loops
        return sum(loop.lowered for loop in loops) / len(loops) if loops else 0.0

    @property
    def decided_share(self) -> float:
        """The share of loops with another verdict than unknown."""
        loops = self.found.loops
        return sum(loop.verdict is not Verdict.UNKNOWN for loop in loops) / len(loops) if loops else 0.0


def measured(path: Path, processes: int | None = None) -> Measured:
    """Read a tree twice, and measure both.

    Raises:
        ForetraceError: there is no such folder, or a package is missing.
    """
    definitions = built_in()
    with tempfile.TemporaryDirectory(prefix="foretrace-trees-") as folder:
        before, start = _cpu_seconds(), time.perf_counter()
        found = scanned([path], definitions, cache_folder=Path(folder), processes=processes)
        first, cpu = time.perf_counter() - start, _cpu_seconds() - before
        start = time.perf_counter()
        scanned([path], definitions, cache_folder=Path(folder), processes=processes)
        second = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return Measured(path, found, first, cpu, second, peak)


def _cpu_seconds() -> float:
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


def drawn(found: Findings, number: int, seed: int) -> list[Finding]:
    """Findings drawn at random, each as likely as every other one, in the order of the source."""
    positions = range(len(found.findings))
    chosen = random.Random(seed).sample(positions, min(number, len(positions)))
    return [found.findings[position] for position in sorted(chosen)]


def loop_of(found: Findings, finding: Finding) -> LoopReport | None:
    """The innermost loop around a finding; None: it is made of array syntax or a library call."""
    around = [
        loop for loop in found.loops
        if loop.file == finding.file and loop.line == finding.loop_line and loop.function == finding.function
    ]  # fmt: skip
    return around[0] if around else None


def _drawn_parts(found: Findings, chosen: Sequence[Finding]) -> Iterator[str]:
    for number, one in enumerate(chosen, 1):
        loop = loop_of(found, one)
        part = "" if one.parent is None else f" (part of {found.findings[one.parent].idiom})"
        arrays = "; ".join(f"{use.role} = {use.name}[{use.index}]" for use in one.arrays)
        lines = [
            f"--- {number}. {one.file}:{one.first_line}, {one.function}: {one.idiom}{part}, depth {one.depth}",
            f"    induction {', '.join(one.induction)}; {arrays}{'; shape ' + one.shape if one.shape else ''}",
            f"    {one.reason} ({one.confidence})",
        ]
        if loop is not None:
            why = "; ".join((loop.reason, *(f"if {text}" for text in loop.assumptions)))
            lines.append(f"    loop {loop.line}-{loop.last_line}: {loop.verdict}: {why}")
        last = max(one.last_line, loop.last_line if loop else 0)
        lines += _source(Path(one.file), one.loop_line, one.first_line, last)
        yield from lines


def _source(path: Path, first: int, own: int, last: int) -> list[str]:
    """Lines of source around a finding: its loop, or where that is long, those nearest to the finding."""
    try:
        text = path.read_bytes().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    first, last = max(1, first - 2), min(len(text), last + 1)
    if last - first > MOST_LINES:
        first = max(first, own - MOST_LINES * 3 // 4)
        last = min(last, first + MOST_LINES)
    return [f"    {number}{'>' if number == own else ' '} {text[number - 1]}" for number in range(first, last + 1)]


def table_of(trees: Sequence[Measured]) -> ResultTable:
    """Trees beside one another: sizes, shares, seconds, then findings by idiom."""
    rows = {
        "files": [f"{tree.found.files:,}" for tree in trees],
        "lines": [f"{tree.found.lines:,}" for tree in trees],
        "loops": [f"{len(tree.found.loops):,}" for tree in trees],
        "loops read in full": [f"{tree.lowered_share:.1%}" for tree in trees],
        "loops with a verdict": [f"{tree.decided_share:.1%}" for tree in trees],
        "files skipped": [str(sum(part.what == "file" for part in tree.found.skipped)) for tree in trees],
        "first time, s": [f"{tree.first_seconds:.1f}" for tree in trees],
        "first time, CPU s": [f"{tree.cpu_seconds:.1f}" for tree in trees],
        "second time, s": [f"{tree.second_seconds:.1f}" for tree in trees],
        "largest process, MiB": [f"{tree.peak_bytes / 2**20:.0f}" for tree in trees],
        "findings": [f"{len(tree.found.findings):,}" for tree in trees],
    }
    counts = [Counter(one.idiom for one in tree.found.findings) for tree in trees]
    for definition in built_in():
        rows[definition.name] = [str(count[definition.name]) for count in counts]
    headings = ("", *(tree.path.name for tree in trees))
    cells = [[name, *values] for name, values in rows.items()]
    return ResultTable("source trees", headings, cells, [_document(tree) for tree in trees], "trees")


def _document(tree: Measured) -> dict[str, object]:
    return {
        "path": str(tree.path),
        "files": tree.found.files,
        "lines": tree.found.lines,
        "loops": len(tree.found.loops),
        "lowered_share": tree.lowered_share,
        "decided_share": tree.decided_share,
        "first_s": tree.first_seconds,
        "first_cpu_s": tree.cpu_seconds,
        "second_s": tree.second_seconds,
        "peak_bytes": tree.peak_bytes,
        "idioms": dict(Counter(one.idiom for one in tree.found.findings)),
        "verdicts": dict(Counter(str(loop.verdict) for loop in tree.found.loops)),
        "skipped_files": {part.file: part.reason for part in tree.found.skipped if part.what == "file"},
        "skipped_parts": dict(Counter(part.what for part in tree.found.skipped)),
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a folder or file of source")
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="show N findings of each, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: 1)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="that read files side by side")


def run(options: argparse.Namespace, _scratch: Path) -> Iterator[Part]:
    """The table, or the findings drawn."""
    if options.draw > 0:
        for path in options.paths:
            found = scanned([path], built_in(), processes=options.processes)
            yield from _drawn_parts(found, drawn(found, options.draw, options.seed))
        return
    trees = [measured(path, options.processes) for path in options.paths]
    yield table_of(trees)
    for tree in trees:
        yield from (f"skipped: {part.file}: {part.reason}" for part in tree.found.skipped if part.what == "file")
