"""Assumed figures below a report: each in full, or their number."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.profiles.ranges import Assumption

from .model import Section, Text


def assumed_figures(assumptions: Sequence[Assumption], *, in_full: bool) -> list[Section]:
    """Each assumption once, or how many figures they are about."""
    texts = dict.fromkeys(str(assumption) for assumption in assumptions)
    if not texts:
        return []
    if in_full:
        return [Text(["", "assumed", *(f"  {text}" for text in texts)])]
    figures = "1 figure is" if len(texts) == 1 else f"{len(texts)} figures are"
    return [Text(["", f"{figures} in no profile and assumed; --assumptions lists them"])]
