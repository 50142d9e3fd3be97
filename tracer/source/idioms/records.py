"""What the recogniser reports."""

from __future__ import annotations

from dataclasses import dataclass, replace

from foretrace.tracer.source.flow.records import Verdict
from foretrace.tracer.source.form.records import Language


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
    """Of the statement or statements that make the idiom."""
    last_line: int
    loop_line: int
    """Of the innermost loop around them; equal to `first_line` for array syntax."""
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
    """Why it is this idiom, and what the confidence lacks."""
    shape: str = ""
    """A stencil's offsets: "(-1,0) (0,-1) (0,0) (0,1) (1,0)"."""
    parent: int | None = None
    """Index of the finding this one is part of: the gather inside a sparse product."""

    def with_parent(self, parent: int | None) -> Finding:
        """The same finding with another index of its parent."""
        return self if parent == self.parent else replace(self, parent=parent)


@dataclass(frozen=True, slots=True)
class SkippedPart:
    """Something that was not read."""

    file: str
    line: int
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class LoopReport:
    """A loop of the source and the dependence test's answer."""

    file: str
    line: int
    last_line: int
    function: str
    lowered: bool
    """In normal shape with nothing unknown inside."""
    verdict: Verdict
    reason: str = ""
    """Which dependences or reductions it has, or what could not be excluded."""
    assumptions: tuple[str, ...] = ()
    """What the verdict rests on."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a source tree holds."""

    findings: tuple[Finding, ...]
    loops: tuple[LoopReport, ...]
    files: int
    lines: int
    skipped: tuple[SkippedPart, ...]
