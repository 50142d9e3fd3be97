"""Results of the recogniser: findings, loops, and skipped parts of the source."""

from __future__ import annotations

from dataclasses import dataclass, replace

from foretrace.tracer.source.flow.records import Verdict
from foretrace.tracer.source.form.records import Language

_MOST_OPTIONS = 3
"""Sets of options that a line of text shows."""


@dataclass(frozen=True, slots=True)
class ArrayUse:
    """An array of a finding."""

    role: str
    """The pattern's name for it: A, B, index."""
    name: str
    element: str
    """Element type as text; "": unknown."""
    index: str
    """Index expression as text, temporaries resolved."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An idiom in a loop."""

    file: str
    first_line: int
    """Lines of the statement or statements that make the idiom."""
    last_line: int
    loop_line: int
    """Line of the innermost loop around them; equal to `first_line` for array syntax."""
    function: str
    language: Language
    idiom: str
    depth: int
    """Loops around it, itself included."""
    induction: tuple[str, ...]
    """Induction variables, outermost first."""
    arrays: tuple[ArrayUse, ...]
    text: str
    """Source text of the statements, one line."""
    confidence: float
    """0 to 1."""
    reason: str
    """Reasons for this idiom, and those that lower the confidence."""
    shape: str = ""
    """A stencil's offsets: "(-1,0) (0,-1) (0,0) (0,1) (1,0)"."""
    parent: int | None = None
    """Index of the finding this one is part of: the gather inside a sparse product."""

    def with_parent(self, parent: int | None) -> Finding:
        """This finding with another index of its parent."""
        return self if parent == self.parent else replace(self, parent=parent)


@dataclass(frozen=True, slots=True)
class SkippedPart:
    """A part of the source that was not read."""

    file: str
    line: int
    what: str
    reason: str
    last_line: int = 0
    """0: the same line."""


@dataclass(frozen=True, slots=True)
class UnreadLoop:
    """A loop that the text has and that was not read."""

    file: str
    line: int
    column: int
    reason: str
    options: str = ""
    """Options of a compiler with which the preprocessor would choose its branch: "-DUSE_MPI"; "": not known, or its
    branch is not the reason."""


@dataclass(frozen=True, slots=True)
class LoopReport:
    """A loop of the source and the dependence test's answer."""

    file: str
    line: int
    last_line: int
    function: str
    lowered: bool
    """Whether it is in normal shape with nothing unknown inside."""
    verdict: Verdict
    reason: str = ""
    """Its dependences or reductions, or those that could not be excluded."""
    assumptions: tuple[str, ...] = ()
    """Assumptions that the verdict rests on."""
    column: int = 1
    options: str = ""
    """It stands in a branch of the preprocessor that only these options of a compiler choose."""
    flows: tuple[str, ...] = ()
    """Dependences of a load on an earlier store."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings and loops of a source tree, with the coverage of its text."""

    findings: tuple[Finding, ...]
    loops: tuple[LoopReport, ...]
    files: int
    lines: int
    skipped: tuple[SkippedPart, ...]
    loops_read: int = 0
    """Loops of the text, by their keywords, that are in `loops`; those of `loops` without one (jumps back, macros of
    headers elsewhere) and further instances of a template are not counted."""
    unread: tuple[UnreadLoop, ...] = ()
    """Loops of the text that were not read."""

    @property
    def loops_in_text(self) -> int:
        """Loops that the text of all files has."""
        return self.loops_read + len(self.unread)

    def options_for_more(self) -> dict[str, int]:
        """Compiler options by which more loops would be read, with the number of loops, largest first."""
        found: dict[str, int] = {}
        for one in self.unread:
            if one.options:
                found[one.options] = found.get(one.options, 0) + 1
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def coverage(self) -> str:
        """The number of loops in the text that were read, and compiler options by which more would be."""
        text = f"read {self.loops_read:,} of {self.loops_in_text:,} loops"
        more = list(self.options_for_more().items())
        if more:
            shown = ", ".join(f"{options} {'would read ' if not place else ''}{number:,}{' more' if not place else ''}"
                              for place, (options, number) in enumerate(more[:_MOST_OPTIONS]))  # fmt: skip
            left = len(more) - _MOST_OPTIONS
            text += f"; {shown}" + (f", {left} other sets of options more" if left > 0 else "")
        return text
