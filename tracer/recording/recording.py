"""Result of a session: the stream's decoded contents, results of simulating its accesses, and the program's ending."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.tracer.reader.raw_trace import RawChild, RawTrace
from foretrace.tracer.signature.waiting import Waiting

from .departures import NO_DEPARTURES, Departures

if TYPE_CHECKING:
    from foretrace.cache_sim.base.results import OperationStatistics, SimulatedHierarchy
    from foretrace.cache_sim.reuse.results import ReuseHistograms
    from foretrace.tracer.events.traced_board import ProcessEvents
    from foretrace.tracer.sampling.bursts import BurstCounts


@dataclass(frozen=True, slots=True)
class Ending:
    """Ending of the program: by `exit_code` or by `signal_number`, the other being None."""

    exit_code: int | None
    signal_number: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Recording of a process, or of several summed up. `problem` says why it is incomplete, and is empty if it is not.

    `statistics`, `simulated` and `reuse` have a row for each operation of `raw`.
    """

    raw: RawTrace
    statistics: OperationStatistics
    simulated: Sequence[SimulatedHierarchy]
    reuse: ReuseHistograms | None
    ending: Ending
    wall_s: float
    problem: str
    untraced_children: int
    untraced_threads: int
    threads: int
    unseen_calls: int
    waiting: Waiting | None
    """None where the program did not come to an orderly end, or the system does not say when its threads were ready."""
    processor_s: float
    """Processor time of the program, tracing included; where it came to no orderly end, all of the wall-clock time."""
    native_threads_s: float
    """Processor time of native threads of a Python program that ended in order (`signature.Unseen`)."""
    last_blocks: tuple[int, ...]
    """Ids of the blocks that its threads ran last."""
    engine_message: bytes
    """Beginning of the engine's own messages."""
    bursts: BurstCounts | None = None
    """Counts of bursts; None where accesses were not recorded in bursts."""
    exception: str = ""
    """The type of the exception that ended a Python program; empty where none did."""
    clock_reads: int = 0
    """System calls of a compiled program that ask for the time."""
    departures: Departures = NO_DEPARTURES
    children: tuple[RawChild, ...] = ()
    """Children of a Python program whose children are followed: untraced ones, and how children ended."""
    pid: int = 0
    """Process id of the first program."""
    end_unknown: bool = False
    """Whether `problem` is that the program's ending is unknown."""
    events: tuple[ProcessEvents, ...] = ()
    """Software-defined events of each process that has any."""


def signal_name(number: int) -> str:
    """`SIGINT` for 2; `signal 70` for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
