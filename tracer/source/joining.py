"""Loops of the source joined with those that ran, by file and line.

A loop that ran has the file and line of its debug information. Inlining and unrolling make several of one source loop,
and each joins it. Files are matched by the longest common end of their paths, since trees are built elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from .flow.records import Verdict
from .idioms.records import Finding, Findings, LoopReport

_INDIRECT = frozenset({
    "gather", "scatter", "gather-modify-scatter", "sparse-product-csr", "sparse-product-coo", "sparse-product-ell",
    "table-lookup", "pointer-chase",
})  # fmt: skip
"""Idioms whose addresses come from data."""
_MOST_MISSED = 0.5
"""Share of a file's traced loops that may lie outside of all its source loops before it counts as another version."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A loop or array operation that ran."""

    file: str
    line: int
    indirect: bool
    """The binary or the run shows a gather or scatter in it."""
    judged: str = ""
    """What the run's dependences say: "parallel", "reduction", "colliding updates", "serial"; "": not examined."""


@dataclass(frozen=True, slots=True)
class Joined:
    """What the source says of something that ran."""

    ran: Ran
    loop: LoopReport | None
    """None: no loop of the source stands at its place."""
    findings: tuple[Finding, ...]
    """In the loop itself, then in loops inside it; parts of other findings are left out."""
    disagreements: tuple[str, ...]

    @property
    def idioms(self) -> tuple[str, ...]:
        """Names of its idioms, each once."""
        return tuple(dict.fromkeys(one.idiom for one in self.findings))


@dataclass(frozen=True, slots=True)
class Join:
    """Source and run side by side."""

    joined: tuple[Joined, ...]
    """One for each thing that ran, in the order given."""
    never_ran: tuple[Finding, ...]
    """Findings in loops that did not run: their address ranges are unknown."""
    other_versions: tuple[str, ...]
    """Source files whose loops do not stand where those that ran do: another version was built."""


def join(found: Findings, ran: Sequence[Ran]) -> Join:
    """Put what ran beside the source's loops and idioms."""
    index = _Index(found)
    joined = tuple(index.joined(one) for one in ran)
    reached = {
        (one.loop.file, line)
        for one in joined
        if one.loop is not None
        for line in range(one.loop.line, one.loop.last_line + 1)
    }
    never = tuple(one for one in found.findings if one.parent is None and (one.file, one.loop_line) not in reached)
    return Join(joined, never, index.other_versions(ran))


class _Index:
    """Loops and findings of a source tree by file."""

    def __init__(self, found: Findings) -> None:
        self._loops: dict[str, list[LoopReport]] = defaultdict(list)
        self._findings: dict[str, list[Finding]] = defaultdict(list)
        self._files: dict[str, list[str]] = defaultdict(list)
        for loop in found.loops:
            self._loops[loop.file].append(loop)
        for finding in found.findings:
            if finding.parent is None:
                self._findings[finding.file].append(finding)
        for file in dict.fromkeys((*self._loops, *self._findings)):
            self._files[PurePath(file).name].append(file)

    def file(self, name: str) -> str | None:
        """The source file that debug information calls `name`; None: none, or several that fit alike."""
        candidates = self._files.get(PurePath(name).name, [])
        scored = sorted(((_common_end(name, one), one) for one in candidates), reverse=True)
        if not scored or (len(scored) > 1 and scored[0][0] == scored[1][0]):
            return None
        return scored[0][1]

    def joined(self, ran: Ran) -> Joined:
        """What the source says of one thing that ran."""
        file = self.file(ran.file) if ran.file else None
        if file is None:
            return Joined(ran, None, (), ())
        loop = self._loop(file, ran.line)
        if loop is None:
            findings = tuple(one for one in self._findings[file] if one.first_line <= ran.line <= one.last_line)
            return Joined(ran, None, findings, _disagreements(ran, None, findings))
        inside = [one for one in self._findings[file] if loop.line <= one.loop_line <= loop.last_line]
        findings = tuple(sorted(inside, key=lambda one: (one.loop_line != loop.line, one.first_line)))
        return Joined(ran, loop, findings, _disagreements(ran, loop, findings))

    def other_versions(self, ran: Iterable[Ran]) -> tuple[str, ...]:
        """Files of which most traced loops lie outside of all loops."""
        seen: dict[str, list[bool]] = defaultdict(list)
        for one in ran:
            file = self.file(one.file) if one.file else None
            if file is not None:
                seen[file].append(self._loop(file, one.line) is not None)
        return tuple(
            file
            for file, hits in sorted(seen.items())
            if hits.count(False) > _MOST_MISSED * len(hits) and len(hits) > 1
        )

    def _loop(self, file: str, line: int) -> LoopReport | None:
        """The loop that starts at a line, or the innermost one around it."""
        around = [loop for loop in self._loops[file] if loop.line <= line <= loop.last_line]
        return min(around, key=lambda loop: (loop.line != line, loop.last_line - loop.line), default=None)


def _common_end(one: str, other: str) -> int:
    """Number of path components that two paths share at their ends."""
    shared = 0
    for left, right in zip(reversed(PurePath(one).parts), reversed(PurePath(other).parts), strict=False):
        if left != right:
            break
        shared += 1
    return shared


def _disagreements(ran: Ran, loop: LoopReport | None, findings: Sequence[Finding]) -> tuple[str, ...]:
    """Where source and run contradict each other."""
    found = []
    direct = [one for one in findings if loop is None or one.loop_line == loop.line]
    indirect = [one for one in direct if one.idiom in _INDIRECT]
    if ran.indirect and not any(one.idiom in _INDIRECT for one in findings):
        found.append("the run gathers or scatters here, the source shows no indirect index")
    if indirect and not ran.indirect:
        found.append(f"the source has a {indirect[0].idiom}, the run shows no indirect access")
    if loop is not None and ran.judged == "serial" and loop.verdict is Verdict.PARALLEL:
        assumed = f" if {'; '.join(loop.assumptions)}" if loop.assumptions else ""
        found.append(f"iterations depend on one another in the run, by its source the loop is parallel{assumed}")
    if loop is not None and ran.judged == "parallel" and loop.verdict is Verdict.RECURRENCE:
        found.append(f"the source carries a recurrence ({loop.reason}), no iteration needed another in the run")
    if ran.judged == "parallel" and any(one.idiom in ("scatter", "gather-modify-scatter") for one in direct):
        found.append("a scatter that met no place twice in this run")
    return tuple(found)
