"""Texts and JSON about source that was joined with a run."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from foretrace.base.terminal import plain
from foretrace.tracer.source.flow.records import Verdict
from foretrace.tracer.source.idioms.records import LoopReport
from foretrace.tracer.source.joining import Join, Joined, NeverRan

from .model import document_of

MOST_NEVER = 8
_MOST_IDIOMS = 4


def place_text(file: str, first: int, last: int) -> str:
    """Lines of a file: "k.c:12-15"."""
    return plain(f"{PurePath(file).name}:{first}" + (f"-{last}" if last > first else ""))


def verdict_text(loop: LoopReport) -> str:
    """Verdict of the source on a loop's iterations, and the assumption it rests on."""
    why = f" ({loop.reason})" if loop.reason and loop.verdict is not Verdict.PARALLEL else ""
    assumed = f" if {'; '.join(loop.assumptions)}" if loop.assumptions else ""
    return plain(f"{loop.verdict}{why}{assumed}")


def join_lines(one: Joined) -> list[str]:
    """Lines that compare the source of something that ran with the run; then each disagreement."""
    names = one.idioms
    more = f" and {len(names) - _MOST_IDIOMS} more" if len(names) > _MOST_IDIOMS else ""
    shown = ", ".join(names[:_MOST_IDIOMS]) + more
    if one.loop is not None:
        where = f"{place_text(one.loop.file, one.loop.line, one.loop.last_line)} in {one.loop.function}"
    else:
        where = place_text(one.findings[0].file, one.findings[0].first_line, one.findings[0].last_line)
    parts = [f"source: {shown or 'no idiom'} ({plain(where)})"]
    if one.loop is not None:
        parts.append(verdict_text(one.loop))
    ran = plain(f"run: {one.ran.judged}, {one.ran.reason}") if one.ran.judged else "run: not examined"
    if one.ran.judged and one.ran.judged in one.ran.reason:
        ran = plain(f"run: {one.ran.reason}")
    parts.append(ran)
    if one.copies > 1:
        parts.append(f"{one.copies} loops of the binary")
    return ["; ".join(parts), *(f"disagree: {plain(str(text))}" for text in one.disagreements)]


def never_ran_lines(join: Join) -> list[str]:
    """The loops of the source that did not run, a few of them."""
    if not join.never_ran:
        return []
    loops = "loop" if len(join.never_ran) == 1 else "loops"
    lines = [f"{len(join.never_ran)} {loops} of the source never ran: their address ranges are unknown."]
    for one in join.never_ran[:MOST_NEVER]:
        what = ", ".join(one.idioms) or "no idiom"
        lines.append(f"  {place_text(one.file, one.line, one.last_line)} in {plain(one.function)}: {what}")
    if len(join.never_ran) > MOST_NEVER:
        lines.append(f"  {len(join.never_ran) - MOST_NEVER} more; --json lists all")
    return lines


def joined_document(one: Joined) -> dict[str, Any]:
    """Statement of the source on something that ran, as JSON."""
    loop = one.loop
    said: dict[str, Any] = {"verdict": None, "reason": "", "assumptions": []}
    return {
        "file": loop.file if loop else one.findings[0].file,
        "first_line": loop.line if loop else one.findings[0].first_line,
        "last_line": loop.last_line if loop else one.findings[0].last_line,
        "function": loop.function if loop else one.findings[0].function,
        "idioms": one.idioms,
        **(document_of(loop, "verdict reason assumptions") if loop else said),
        "run_verdict": one.ran.judged or None,
        "run_reason": one.ran.reason,
        "run_idioms": sorted(one.ran.idioms),
        "binary_loops": one.copies,
        "disagreements": [document_of(text, "what why") for text in one.disagreements],
        "findings": [
            document_of(finding, "file first_line last_line idiom text confidence") for finding in one.findings
        ],
    }


def never_ran_document(one: NeverRan) -> dict[str, Any]:
    """A loop of the source that did not run, as JSON."""
    return {"file": one.file, "first_line": one.line} | document_of(one, "last_line function idioms")
