"""What a session leaves: the stream's meaning so far, the simulator that heard it, and how the program ended."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.tracer.reader.raw_trace import RawChild, RawTrace
from foretrace.tracer.signature.waiting import Waiting

from .departures import NO_DEPARTURES, Departures

if TYPE_CHECKING:
    from foretrace.cache_sim.simulator import Simulator
    from foretrace.tracer.events.traced_board import ProcessEvents
    from foretrace.tracer.sampling.bursts import BurstCounts


@dataclass(frozen=True, slots=True)
class Ending:
    """How the program ended: by `exit_code` or by `signal_number`, the other being None."""

    exit_code: int | None
    signal_number: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """What came of a run. `problem` says why the stream is not whole, and is empty if it is."""

    raw: RawTrace
    simulator: Simulator
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
    """Of a Python program that came to an orderly end: processor time of native threads (`signature.Unseen`)."""
    last_blocks: tuple[int, ...]
    """Ids of the blocks that its threads ran last."""
    engine_message: bytes
    """The beginning of what the engine itself had to say."""
    bursts: BurstCounts | None = None
    """Where accesses were recorded in bursts."""
    exception: str = ""
    """The type of the exception that ended a Python program; empty where none did."""
    clock_reads: int = 0
    """System calls of a compiled program that ask for the time."""
    departures: Departures = NO_DEPARTURES
    children: tuple[RawChild, ...] = ()
    """Of a Python program whose children are followed: those that are not, and how children ended."""
    pid: int = 0
    """Of the first program."""
    end_unknown: bool = False
    """`problem` is that nobody said how it ended."""
    events: tuple[ProcessEvents, ...] = ()
    """Software-defined events of each process that has any."""


def signal_name(number: int) -> str:
    """`SIGINT` for 2; `signal 70` for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
