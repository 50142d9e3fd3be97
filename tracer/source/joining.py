"""Loops of the source joined with those that ran, by file and line.

A loop that ran has the file and line of its debug information. Inlining, unrolling and vectorisation make several of
one source loop, and each joins it. What comes from a header outside of the tree (a template of the C++ library, say)
joins where it was expanded or called. Files are matched by the longest common end of their paths, since trees are
built elsewhere.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from foretrace.base.names import short_name
from foretrace.tracer.signature.verdicts import Said

from .flow.records import Verdict
from .idioms.records import Finding, Findings, LoopReport
from .traced_loops import COLLISION, PARALLEL, REDUCTION, SERIAL, Place, Ran, Run

_INDIRECT = frozenset({
    "gather", "scatter", "gather-modify-scatter", "sparse-product-csr", "sparse-product-coo", "sparse-product-ell",
    "table-lookup", "pointer-chase", "compaction",
})  # fmt: skip
"""Idioms whose addresses are, or may be, data-dependent."""
_BY_INDEX = _INDIRECT - {"pointer-chase", "compaction"}
"""Indirect idioms that load an index."""
_AFFINE = frozenset({
    "stream", "stencil", "reduction", "transpose", "matrix-product", "matrix-vector-product", "prefix-scan",
})  # fmt: skip
"""Idioms that walk through memory in regular steps."""
_MOST_MISSED = 0.5
"""Share of a file's traced loops that may lie outside of all its source loops before it counts as another version."""
_MOST_IRREGULAR = 0.5
_LEAST_ITERATIONS = 8
"""Least iterations per entry from which a loop's accesses are expected to be regular: short loops start at a new place
each time."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Source, machine code and run contradict each other."""

    what: str
    why: str
    """Possible explanation, and which side to trust."""

    def __str__(self) -> str:
        """One line."""
        return f"{self.what}: {self.why}"


@dataclass(frozen=True, slots=True)
class Joined:
    """The source's verdict and idioms for a loop or array operation that ran."""

    ran: Ran
    loop: LoopReport | None
    """None: no loop of the source stands at its place. Array syntax and calls of algorithms are no loops either."""
    findings: tuple[Finding, ...]
    """Findings in the loop itself, then in inner loops; parts of other findings are left out."""
    disagreements: tuple[Disagreement, ...] = ()
    copies: int = 1
    """Number of executed loops from this source loop: its remainder, its vectorised body, its inlined copies."""
    site: Place | None = None
    """The place in the source, if the executed loop was inlined or called there and has another place itself."""
    is_ambiguous: bool = False
    """Another loop of the source, with another verdict, starts on the same line."""

    @property
    def idioms(self) -> tuple[str, ...]:
        """Names of its idioms, each once."""
        return tuple(dict.fromkeys(one.idiom for one in self.findings))


@dataclass(frozen=True, slots=True)
class NeverRan:
    """A loop of the source that did not run: its address ranges are unknown."""

    file: str
    line: int
    last_line: int
    function: str
    idioms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Result of joining source and run."""

    joined: tuple[Joined, ...]
    """One record for each loop or array operation that ran, in the order given."""
    never_ran: tuple[NeverRan, ...]
    """The outermost loops that did not run, those with idioms first."""
    notes: tuple[str, ...]
    """Reasons why source and run do not match: another version of a file, no debug information."""

    inside: dict[int, frozenset[int]] = field(default_factory=dict)
    """Loops that ran inside each loop, also in functions that it calls."""
    other_versions: frozenset[str] = frozenset()
    """Source files that differ from the version that ran."""
    coverage: str = ""
    """A warning with the number of the source's loops that were read; "": all."""

    def of(self, module: str, function: str, file: str, line: int) -> Joined | None:
        """The joined record of a place that ran, with the findings of loops that ran inside; None: it has none."""
        there = [
            one for one in self.joined
            if (one.ran.module, one.ran.function, one.ran.file, one.ran.line) == (module, function, file, line)
        ]  # fmt: skip
        if not there:
            return None
        best = max(there, key=lambda one: (one.loop is not None, len(one.findings), len(one.disagreements)))
        loops = {loop for one in there for loop in one.ran.loops}
        below = frozenset().union(*(self.inside.get(loop, frozenset()) for loop in loops)) - loops
        inner = [one for one in self.joined if not below.isdisjoint(one.ran.loops)]
        findings = dict.fromkeys(finding for one in (best, *there, *inner) for finding in one.findings)
        disagreements = dict.fromkeys(text for one in there for text in one.disagreements)
        if best.loop is None and not findings:
            return None
        return replace(best, findings=tuple(findings), disagreements=tuple(disagreements))

    def verdicts(self) -> dict[int, Said]:
        """The source's verdicts on executed loops, by their numbers in the signature. Only loops with exactly one
        source loop at their place, in a file of the version that ran, have one."""
        return {
            loop: Said(one.loop.verdict, one.loop.reason, one.loop.assumptions)
            for one in self.joined
            if one.loop is not None and one.loop.file not in self.other_versions and not one.is_ambiguous
            for loop in one.ran.loops
        }

    def runs_of(self, finding: Finding) -> tuple[Joined, ...]:
        """Executed loops of a finding's own source loop; if the compiler removed it, the loops around it."""
        around = [one for one in self.joined if finding in one.findings]
        own = [one for one in around if one.loop is None or one.loop.line == finding.loop_line]
        return tuple(own or around)

    def disagreements(self) -> list[tuple[str, int, Disagreement]]:
        """All disagreements, with file and line of the source, each once."""
        found: dict[tuple[str, int, Disagreement], None] = {}
        for one in self.joined:
            if one.loop is not None:
                found.update(dict.fromkeys((one.loop.file, one.loop.line, text) for text in one.disagreements))
            elif one.findings:
                place = one.findings[0]
                found.update(dict.fromkeys((place.file, place.first_line, text) for text in one.disagreements))
        return list(found)

    def is_never_run(self, finding: Finding) -> bool:
        """Whether a finding is in a loop that did not run."""
        return any(
            one.file == finding.file and one.line <= finding.loop_line <= one.last_line for one in self.never_ran
        )


def join(found: Findings, run: Run, files: Iterable[Path] = ()) -> Join:
    """Join the loops and array operations that ran with the source's loops and idioms.

    Args:
        found: the findings of the source tree.
        run: the traced run.
        files: the source files that were read, also those without loops.
    """
    index = _Index(found, files, _names_of(run))
    placed = index.in_order([index.joined(one) for one in run.loops])
    by_loop: dict[tuple[str, int], list[Joined]] = defaultdict(list)
    for one in placed:
        if one.loop is not None:
            by_loop[one.loop.file, one.loop.line].append(one)
    joined = []
    for one in placed:
        copies = by_loop[one.loop.file, one.loop.line] if one.loop is not None else [one]
        contradictions = _disagreements(one, [copy.ran for copy in copies], index)
        is_ambiguous = one.loop is not None and index.is_ambiguous(one)
        joined.append(
            replace(one, copies=len(copies), disagreements=contradictions, is_ambiguous=is_ambiguous)
        )  # fmt: skip
    others = frozenset(index.other_versions(run))
    coverage = "" if not found.unread else f"the source: {found.coverage()}"
    notes = tuple(index.notes(run))
    return Join(tuple(joined), index.never_ran(joined, run), notes, run.inside, others, coverage)


def _names_of(run: Run) -> set[str]:
    """The files that ran, as debug information calls them."""
    sites = (file for one in run.loops for file, _ in one.sites)
    return {name for name in (*(one.file for one in run.loops), *run.lines, *sites) if name}


class _Index:
    """Loops and findings of a source tree by file."""

    def __init__(self, found: Findings, files: Iterable[Path], names: Iterable[str]) -> None:
        self._loops: dict[str, list[LoopReport]] = defaultdict(list)
        self._findings: dict[str, list[Finding]] = defaultdict(list)
        self._read = {str(path) for path in files}
        for loop in found.loops:
            self._loops[loop.file].append(loop)
        for finding in found.findings:
            if finding.parent is None:
                self._findings[finding.file].append(finding)
        by_name: dict[str, list[str]] = defaultdict(list)
        for file in dict.fromkeys((*self._loops, *self._findings, *self._read)):
            by_name[PurePath(file).name].append(file)
        self._names = set(names)
        self._file_of = _matched(self._names, by_name)

    def file(self, name: str) -> str | None:
        """The source file that debug information calls `name`; None: none, or several that fit alike."""
        return self._file_of.get(name)

    def joined(self, ran: Ran) -> Joined:
        """The source's verdict and findings for one loop or array operation that ran."""
        here = self._at(ran, (ran.file, ran.line), None)
        if here is not None:
            return here
        if self.file(ran.file) is None:  # of a header of a library: where it was expanded or called
            for site in ran.sites:
                there = self._at(ran, site, site)
                if there is not None:
                    return there
        return Joined(ran, None, ())

    def in_order(self, placed: Sequence[Joined]) -> list[Joined]:
        """The joined records, completed by inlined algorithms whose call site is unknown: if a function has as many
        calls of algorithms as loops from files outside of the tree, they are paired in order."""
        loops: dict[str, list[int]] = defaultdict(list)
        taken = {finding for one in placed for finding in one.findings}
        for position, one in enumerate(placed):
            if self._is_foreign(one):
                loops[_last_name(one.ran.function)].append(position)
        calls: dict[str, list[Finding]] = defaultdict(list)
        for file, findings in self._findings.items():
            for finding in findings:
                if finding not in taken and not self._starts(file, finding.loop_line):
                    calls[_last_name(finding.function)].append(finding)
        found = list(placed)
        for function, positions in loops.items():
            lines = dict.fromkeys((one.file, one.first_line) for one in calls[function])
            if len(lines) != len(positions):
                continue
            for position, (file, line) in zip(positions, sorted(lines), strict=True):
                there = tuple(one for one in calls[function] if (one.file, one.first_line) == (file, line))
                found[position] = Joined(placed[position].ran, None, there, site=(file, line))
        return found

    def _is_foreign(self, one: Joined) -> bool:
        """Whether a loop from outside of the tree has no place in it."""
        return bool(one.ran.file) and one.loop is None and not one.findings and self.file(one.ran.file) is None

    def _at(self, ran: Ran, place: Place, site: Place | None) -> Joined | None:
        file = self.file(place[0])
        if file is None:
            return None
        line = place[1]
        at_line = [one for one in self._findings[file] if one.first_line <= line <= one.last_line]
        loop = self.loop(file, line)
        if ran.is_library and loop is not None and loop.line != line:
            loop = None  # of the statement alone, not of the loop around it
        written = [one for one in at_line if not self._starts(file, one.loop_line)]  # array syntax, algorithms
        if (written and (loop is None or loop.line != line)) or site is not None or loop is None:
            at_line = written or ([] if ran.is_library and site is None else at_line)
            return Joined(ran, None, tuple(at_line), site=site) if at_line else None
        inside = [one for one in self._findings[file] if loop.line <= one.loop_line <= loop.last_line]
        return Joined(ran, loop, tuple(sorted(inside, key=lambda one: (one.loop_line != loop.line, one.first_line))))

    def loop(self, file: str, line: int) -> LoopReport | None:
        """The loop that starts at a line, or the innermost one around it."""
        around = [loop for loop in self._loops[file] if loop.line <= line <= loop.last_line]
        return min(around, key=lambda loop: (loop.line != line, loop.last_line - loop.line), default=None)

    def is_ambiguous(self, one: Joined) -> bool:
        """Whether it is open which loop of the source something is that ran, and the verdicts differ."""
        loop = one.loop
        assert loop is not None
        return len({other.verdict for other in self._loops[loop.file] if other.line == loop.line}) > 1

    def _starts(self, file: str, line: int) -> bool:
        """Whether a loop starts at a line."""
        return any(loop.line == line for loop in self._loops[file])

    def innermost(self, loop: LoopReport) -> bool:
        """Whether no other loop of the source is inside."""
        return not any(loop.line < one.line and one.last_line <= loop.last_line for one in self._loops[loop.file])

    # ---- what never ran ----

    def never_ran(self, joined: Sequence[Joined], run: Run) -> tuple[NeverRan, ...]:
        """The outermost loops, and statements of array syntax, that no code ran of."""
        lines: dict[str, set[int]] = defaultdict(set)
        for name, at in run.lines.items():
            file = self.file(name)
            if file is not None:
                lines[file] |= at
        for one in joined:
            if one.loop is not None:
                lines[one.loop.file].add(one.loop.line)
            for finding in one.findings if one.loop is None else ():
                lines[finding.file].update(range(finding.first_line, finding.last_line + 1))
        unplaced = {_last_name(one.ran.function) for one in joined if self._is_foreign(one)}
        found: dict[tuple[str, int], NeverRan] = {}
        for file in dict.fromkeys((*self._loops, *self._findings)):
            ran = sorted(lines[file])
            last = 0
            for loop in sorted(self._loops[file], key=lambda one: (one.line, -one.last_line)):
                if loop.last_line <= last or any(loop.line <= line <= loop.last_line for line in ran):
                    continue
                last = loop.last_line
                inside = [one for one in self._findings[file] if loop.line <= one.loop_line <= loop.last_line]
                names = tuple(dict.fromkeys(one.idiom for one in inside))
                found[file, loop.line] = NeverRan(file, loop.line, loop.last_line, loop.function, names)
            for finding in self._findings[file]:
                is_told = _last_name(finding.function) not in unplaced  # else it may be one of those
                if (
                    is_told
                    and self.loop(file, finding.first_line) is None
                    and not any(finding.first_line <= line <= finding.last_line for line in ran)
                ):
                    never = NeverRan(file, finding.first_line, finding.last_line, finding.function, (finding.idiom,))
                    found.setdefault((file, finding.first_line), never)
        return tuple(sorted(found.values(), key=lambda one: (not one.idioms, not lines[one.file], one.file, one.line)))

    # ---- versions ----

    def notes(self, run: Run) -> Iterable[str]:
        """Reasons why source and run do not match, one line each."""
        if not run.has_lines:
            yield (
                "nothing that ran has a source line, so that nothing can be joined with the source: compile with -g, "
                "and do not strip"
            )
            return
        if not self._file_of:
            some = ", ".join(sorted({PurePath(one).name for one in self._names})[:4])
            yield f"none of the files that ran ({some}) is in this source tree"
            return
        for file, reason in self.other_versions(run).items():
            yield f"{file}: is of another version than what ran ({reason}): what is said of its loops may be wrong"

    def other_versions(self, run: Run) -> dict[str, str]:
        """Files that differ from the version that ran, with the evidence."""
        found = ((file, self._other_version(name, file, run)) for name, file in sorted(self._file_of.items()))
        return {file: reason for file, reason in found if reason}

    def _other_version(self, name: str, file: str, run: Run) -> str:
        known = run.digests.get(name, "")
        try:
            content = Path(file).read_bytes() if file in self._read else None
        except OSError:
            content = None
        if known and content is not None and hashlib.sha256(content).hexdigest() != known:
            return "its content differs from when the program was traced"
        ran = sorted({one.line for one in run.loops if one.file == name} | run.lines.get(name, frozenset()))
        if content is not None and ran:
            length = content.count(b"\n") + (not content.endswith(b"\n"))
            if ran[-1] > length:
                return f"line {ran[-1]} ran, and it has {length}"
        loops = [one.line for one in run.loops if one.file == name and not one.is_library]
        outside = [line for line in loops if self.loop(file, line) is None and not self._has_finding(file, line)]
        if len(loops) > 1 and len(outside) > _MOST_MISSED * len(loops):
            return f"of {len(loops)} loops that ran, {len(outside)} stand where it has none, such as line {outside[0]}"
        return ""

    def _has_finding(self, file: str, line: int) -> bool:
        return any(one.first_line <= line <= one.last_line for one in self._findings[file])


def _matched(names: Iterable[str], by_name: dict[str, list[str]]) -> dict[str, str]:
    """Source file for each file name of the run: the one with the longest common path suffix, if it is unique.

    Of several names for one source file, those with the longest common suffix count.
    """
    best: dict[str, tuple[int, list[str]]] = {}
    for name in names:
        scored = sorted(((_common_end(name, one), one) for one in by_name.get(PurePath(name).name, [])), reverse=True)
        if scored and (len(scored) == 1 or scored[0][0] > scored[1][0]):
            score, file = scored[0]
            known, which = best.get(file, (0, []))
            if score >= known:
                best[file] = (score, [*which, name] if score == known else [name])
    return {name: file for file, (_, which) in best.items() for name in which}


def _last_name(function: str) -> str:
    """A function's name without parameters, namespace and template arguments."""
    return short_name(function).partition("<")[0].rpartition("::")[2]


def _common_end(one: str, other: str) -> int:
    """Number of path components that two paths share at their ends."""
    shared = 0
    for left, right in zip(reversed(PurePath(one).parts), reversed(PurePath(other).parts), strict=False):
        if left != right:
            break
        shared += 1
    return shared


def _disagreements(one: Joined, copies: Sequence[Ran], index: _Index) -> tuple[Disagreement, ...]:
    """Contradictions between source, machine code and run.

    `copies` are all loops that ran of the same source loop.
    """
    if one.loop is None and not one.findings:
        return ()
    return (*_of_idioms(one, copies, index), *_of_dependences(one))


def _of_idioms(one: Joined, copies: Sequence[Ran], index: _Index) -> Iterable[Disagreement]:
    ran, loop = one.ran, one.loop
    own = [finding for finding in one.findings if loop is None or finding.loop_line == loop.line]
    in_source = {finding.idiom for finding in one.findings}
    shown = frozenset().union(*(copy.idioms for copy in copies))
    is_read = loop is None or loop.lowered
    if ran.idioms & _BY_INDEX and not in_source & _INDIRECT and is_read:
        yield Disagreement(
            f"the run shows a {' and a '.join(sorted(ran.idioms & _BY_INDEX))}, the source no index that is loaded",
            "the machine code takes an address from memory, such as a row's pointer or a table that the compiler made",
        )
    by_index = sorted({finding.idiom for finding in own} & _BY_INDEX)
    if by_index and not shown & _BY_INDEX and (loop is None or index.innermost(loop)) and not _is_python(ran):
        yield Disagreement(
            f"the source has a {by_index[0]}, the machine code shows no index that is loaded",
            "the index comes through a call or more instructions than data flow follows; trust the source",
        )
    names = {finding.idiom for finding in own}
    is_long = ran.iterations >= _LEAST_ITERATIONS * max(ran.entries, 1)
    if names and names <= _AFFINE and (ran.irregular or 0.0) > _MOST_IRREGULAR and is_long:
        yield Disagreement(
            f"affine in the source ({', '.join(sorted(names))}), irregular in the run ({ran.irregular:.0%} of the "
            "accesses follow no stride)",
            "the arrays are reached through pointers that change, or several walks alternate; trust the run",
        )
    scatters = sorted(names & {"scatter", "gather-modify-scatter"})
    if scatters and ran.judged in (PARALLEL, REDUCTION):
        yield Disagreement(
            f"a {scatters[0]} that met no place twice in this run",
            "its indices were all different; another input's may collide, so that it needs atomics or a proof",
        )


def _of_dependences(one: Joined) -> Iterable[Disagreement]:
    ran, loop = one.ran, one.loop
    if loop is None or not ran.judged:
        return
    if loop.verdict is Verdict.PARALLEL and ran.judged in (SERIAL, COLLISION):
        assumed = f"the source assumes that {'; '.join(loop.assumptions)}" if loop.assumptions else ""
        yield Disagreement(
            f"parallel by its source, in the run iterations depend on one another ({ran.reason})",
            assumed or "each iteration could have a variable for itself: what the source proves decides",
        )
    elif loop.verdict is Verdict.REDUCTION and ran.judged == SERIAL:
        yield Disagreement(
            f"a reduction by its source, a recurrence in the run ({ran.reason})",
            "the machine code uses the partial value for more than the reduction, or calls for it",
        )
    elif loop.verdict is Verdict.RECURRENCE and ran.judged == PARALLEL:
        yield Disagreement(
            f"a recurrence by its source ({loop.reason}), no iteration needed another in the run",
            "this input did not meet it, or each entry was too short to; another input may",
        )


def _is_python(ran: Ran) -> bool:
    return PurePath(ran.file).suffix == ".py"
