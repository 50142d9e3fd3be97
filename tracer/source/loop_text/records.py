"""Loops by the text alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextLoop:
    """A loop by its keyword: `for`, `while`, `do`, `forall`."""

    line: int
    column: int
    branches: tuple[tuple[int, str], ...] = ()
    """Branches of the preprocessor around it, outermost first: line of the directive, and the condition that holds in
    the branch in the syntax of `#if`."""
    macro: str = ""
    """The macro whose definition has the loop; "": none."""
    once: bool = False
    """`do ... while (0)`: its body runs once."""


@dataclass(frozen=True, slots=True)
class LoopText:
    """The loops of one file's text."""

    loops: tuple[TextLoop, ...] = ()
    includes: tuple[tuple[str, tuple[tuple[int, str], ...]], ...] = ()
    """Files that it includes, each with the branches of the preprocessor around."""
    macros: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Macros whose definition has a loop or names other macros: each with the names in its definition."""
