"""Compiled code of a Python program whose accesses were not seen: its time, by calling line.

Each function that a line called becomes a block of its own, of no instructions, in a loop of kind "compiled" that
stands for its calls; `module` names the function ("sklearn.cluster.lloyd_iter_chunked_dense"). Its time is an
`InterpreterTime`, subtracted from the time of the calling block. Threads started by compiled code are one more such
block at each line that let them run; their time is not part of the line's own time. Thread time that no line caused is
a block that no line calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from foretrace.tracer.reader.raw_trace import RawCompiled, RawPythonBlock
from foretrace.tracer.signature.records import NATIVE_THREADS, Block, InterpreterTime, Loop

LEAST_SHARE = 1e-4
"""Least share of all timed lines: functions below it stay part of the calling line."""
_LEAST_NATIVE_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class CompiledCalls:
    """A compiled function's time at one place. `caller` is the number of the calling block; None: native threads that
    no line let run."""

    name: str
    caller: int | None
    lines: float

    @property
    def is_beside(self) -> bool:
        """Whether it is no part of the caller's own time."""
        return self.name == NATIVE_THREADS


def compiled_calls(
    compiled: Sequence[RawCompiled],
    native_threads_rounds: int,
    number: Mapping[int, int],
    times: Mapping[int, float],
    round_lines: float | None,
) -> tuple[CompiledCalls, ...]:
    """Time of compiled functions, in lines; at most their callers' `times` (all executions, in lines)."""
    if round_lines is None:
        return ()
    found: dict[tuple[int, str], float] = defaultdict(float)
    native: dict[int, float] = defaultdict(float)
    for entry in compiled:
        if entry.block_id in number and entry.name == NATIVE_THREADS:
            native[number[entry.block_id]] += 1e-6 * entry.rounds * round_lines
        elif entry.block_id in number:
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
    if times:
        calls += _native_threads(native, 1e-6 * native_threads_rounds * round_lines, least)
    return tuple(calls)


def _native_threads(charged: Mapping[int, float], all_lines: float, least: float) -> list[CompiledCalls]:
    """Time of native threads by the line that let them run, together all their time. Tiny shares go to the line with
    most: clocks are not read at one time, and a thread that is about to run Python is not known at once."""
    by_caller: dict[int | None, float] = dict(charged.items())
    by_caller[None] = max(all_lines - sum(charged.values()), 0.0)
    all_lines = sum(by_caller.values())
    most = max(by_caller, key=lambda caller: by_caller[caller])
    for caller in [caller for caller in by_caller if caller != most]:
        if by_caller[caller] < _LEAST_NATIVE_SHARE * all_lines:
            by_caller[most] += by_caller.pop(caller)
    return [CompiledCalls(NATIVE_THREADS, caller, lines) for caller, lines in by_caller.items() if lines > least]


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
        """A block for each compiled function at each place."""
        for position, call in enumerate(self.calls):
            caller = self._caller(call)
            yield Block(
                block_id=self.first_block + position,
                module=call.name,
                offset=caller.offset_bytes if caller else 0,
                function=caller.function if caller else "",
                file=caller.file if caller else "",
                line=caller.line if caller else 0,
                loop_id=self.first_loop + position,
                executions=self._executions(call),
                instructions=0,
                operations=(),
            )

    def loops(self, loop_of: Callable[[int], int | None], depth_of: Callable[[int], int]) -> Iterable[Loop]:
        """A loop for each compiled function at each place. `loop_of` returns a caller's loop, `depth_of` its depth."""
        for position, call in enumerate(self.calls):
            caller = self._caller(call)
            parent = None if call.caller is None else loop_of(call.caller)
            yield Loop(
                loop_id=self.first_loop + position,
                parent_id=parent,
                header_block_id=self.first_block + position,
                module=call.name,
                function=caller.function if caller else "",
                file=caller.file if caller else "",
                line=caller.line if caller else 0,
                depth=1 if parent is None else depth_of(parent) + 1,
                entries=self._executions(call),
                iterations=self._executions(call),
                order=0,
                kind="compiled",
            )

    def times(self) -> Iterable[InterpreterTime]:
        """Time of an execution of each block."""
        for position, call in enumerate(self.calls):
            yield InterpreterTime(self.first_block + position, call.lines / self._executions(call), 0.0)

    def _caller(self, call: CompiledCalls) -> RawPythonBlock | None:
        return None if call.caller is None else self.callers[call.caller]

    def _executions(self, call: CompiledCalls) -> int:
        caller = self._caller(call)
        return max(caller.executions, 1) if caller else 1

    def lines_of(self, caller: int) -> float:
        """Lines subtracted from the caller's own time."""
        return sum(call.lines for call in self.calls if call.caller == caller and not call.is_beside)
