"""Compiled functions that a Python program called and whose accesses were not seen: their time, by calling line.

Each becomes a block of its own, of no instructions, in a loop of kind "compiled" that stands for its calls; `module`
names the function ("sklearn.cluster.lloyd_iter_chunked_dense"). Its time is an `InterpreterTime`, taken off that of the
block that called.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from foretrace.tracer.reader.raw_trace import RawCompiled, RawPythonBlock
from foretrace.tracer.signature.records import Block, InterpreterTime, Loop

LEAST_SHARE = 1e-4
"""Of all that was timed: what took less stays with the line that called it."""


@dataclass(frozen=True, slots=True)
class CompiledCalls:
    """A compiled function's time at one place. `caller` is the number of the block that called."""

    name: str
    caller: int
    lines: float


def compiled_calls(
    compiled: Sequence[RawCompiled], number: Mapping[int, int], times: Mapping[int, float], round_lines: float | None
) -> tuple[CompiledCalls, ...]:
    """What compiled functions took, in lines; no more than their callers' `times` (all executions, in lines)."""
    if round_lines is None:
        return ()
    found: dict[tuple[int, str], float] = defaultdict(float)
    for entry in compiled:
        if entry.block_id in number:
            found[number[entry.block_id], entry.name] += 1e-6 * entry.rounds * round_lines
    of_caller: dict[int, float] = defaultdict(float)
    for (caller, _), lines in found.items():
        of_caller[caller] += lines
    least = LEAST_SHARE * sum(times.values())
    calls = []
    for (caller, name), lines in found.items():
        fitting = lines * min(1.0, times.get(caller, 0.0) / of_caller[caller]) if of_caller[caller] else 0.0
        if fitting > least:
            calls.append(CompiledCalls(name, caller, fitting))
    return tuple(calls)


def by_time(calls: Sequence[CompiledCalls]) -> tuple[str, ...]:
    """The functions' names, that with most time first."""
    lines: dict[str, float] = defaultdict(float)
    for call in calls:
        lines[call.name] += call.lines
    return tuple(sorted(lines, key=lambda name: -lines[name]))


@dataclass(frozen=True, slots=True)
class CompiledLoops:
    """The calls as blocks and loops, numbered from `first_block` and `first_loop`."""

    calls: tuple[CompiledCalls, ...]
    callers: Sequence[RawPythonBlock]
    first_block: int
    first_loop: int

    def blocks(self) -> Iterable[Block]:
        """One for each function at each place."""
        for position, call in enumerate(self.calls):
            caller = self.callers[call.caller]
            yield Block(
                block_id=self.first_block + position,
                module=call.name,
                offset=caller.offset_bytes,
                function=caller.function,
                file=caller.file,
                line=caller.line,
                loop_id=self.first_loop + position,
                executions=max(caller.executions, 1),
                instructions=0,
                operations=(),
            )

    def loops(self, loop_of: Callable[[int], int | None], depth_of: Callable[[int], int]) -> Iterable[Loop]:
        """Likewise. `loop_of` a caller and `depth_of` that loop say where they are."""
        for position, call in enumerate(self.calls):
            caller = self.callers[call.caller]
            parent = loop_of(call.caller)
            yield Loop(
                loop_id=self.first_loop + position,
                parent_id=parent,
                header_block_id=self.first_block + position,
                module=call.name,
                function=caller.function,
                file=caller.file,
                line=caller.line,
                depth=1 if parent is None else depth_of(parent) + 1,
                entries=max(caller.executions, 1),
                iterations=max(caller.executions, 1),
                order=0,
                kind="compiled",
            )

    def times(self) -> Iterable[InterpreterTime]:
        """What an execution of each block took."""
        for position, call in enumerate(self.calls):
            executions = max(self.callers[call.caller].executions, 1)
            yield InterpreterTime(self.first_block + position, call.lines / executions, 0.0)

    def lines_of(self, caller: int) -> float:
        """What was taken off the caller's own time."""
        return sum(call.lines for call in self.calls if call.caller == caller)
