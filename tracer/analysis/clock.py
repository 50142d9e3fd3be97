"""Programs that read the clock so often that their work may depend on it: traced, they may do other work."""

from __future__ import annotations

LEAST_READS = 1000
MOST_INSTRUCTIONS = 100_000
"""Most instructions between two reads of the clock, on average, of a program taken to wait for it or divide its work by
it."""


def clock_notes(reads: int, instructions: int) -> tuple[str, ...]:
    """A note on a program that read the clock `reads` times while it ran that many instructions; mostly none."""
    if reads < LEAST_READS or reads * MOST_INSTRUCTIONS < instructions:
        return ()
    return (
        f"the program read the clock {reads} times, once in {instructions // reads} instructions: if its work depends "
        "on the time, it was other work than that of a run without tracing",
    )
