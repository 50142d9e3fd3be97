"""The processes that descend from a traced program, where they are followed: each has a stream, a thread that reads it,
and simulated caches of its own.

A forked child and a program about to replace itself ask for a stream (children.h); a replaced program is a new member.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from foretrace.base.errors import ForetraceError
from foretrace.tracer.recording.recording import Ending, Recording
from foretrace.tracer.sampling.burst_schedule import Schedule
from foretrace.tracer.session.options import TraceOptions
from foretrace.tracer.session.session import Engine, Session
from foretrace.tracer.signature.records import ProcessRecord

MAX_AT_ONCE = 64
"""Processes that are read at the same time; each takes a thread and its own simulated caches. More go on untraced."""
MAX_IN_ALL = 1024
"""Processes that are read in one run: what is kept of each takes some 600 KB. More go on untraced."""

EXCHANGE_BYTES = 4 << 20
"""Size of the memory in which Python processes tell each other what they wait for (tracer/python/exchange.h)."""
SERVER_ENDS_S = 1.0
"""For the fork server of `multiprocessing` to end once the program has: it does when it finds its pipe closed."""
_FORK_SERVER = "from multiprocessing.forkserver import"
_PAUSE_S = 0.01
NOT_FOLLOWED = "not followed: another program"


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A process, or what it was until it replaced itself by another program.

    `number` counts from 1 in the order in which they began; the first program is 0. `command` is empty for a forked
    child, which goes on with its parent's program.
    """

    number: int
    parent: int
    command: tuple[str, ...]
    recording: Recording


class Family:
    """Reads those that ask for a stream while the first program runs."""

    def __init__(self, engine: Engine, options: TraceOptions, schedule: Schedule | None = None) -> None:
        """`engine`, `options` and `schedule` are those of the first program."""
        self._engine = engine
        self._options = options
        self._schedule = schedule
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._members: list[Member] = []
        self._ends = threading.Event()
        self._asked = 0
        self._at_once = 0
        self._servers = 0
        self._is_python = engine.guest == "python"
        self.exchange_fd = os.memfd_create("foretrace-exchange") if self._is_python else -1
        if self._is_python:
            os.ftruncate(self.exchange_fd, EXCHANGE_BYTES)

    def adopt(self, parent: int, pid: int, kind: int, command: bytes) -> int:
        """Begin to read the process `pid`. Returns a descriptor of the memory for its stream, or -1 to refuse it."""
        try:
            process = os.pidfd_open(pid)
        except OSError:
            return -1
        with self._lock:
            if self._at_once >= MAX_AT_ONCE or self._asked >= MAX_IN_ALL or self._ends.is_set():
                os.close(process)
                return -1
            self._at_once += 1
            self._asked += 1
            number = self._asked
        words = tuple(os.fsdecode(word) for word in command.split(b"\0")[:-1])
        try:
            session = _MemberSession(self._engine, self._options, family=self, number=number, schedule=self._schedule)
        except (ForetraceError, MemoryError):
            os.close(process)
            with self._lock:
                self._at_once -= 1
            return -1
        arguments = (session, process, number, parent, pid, words)
        thread = threading.Thread(target=self._read, args=arguments)
        self._threads.append(thread)
        thread.start()
        return session.descriptor

    def finish(self) -> list[Member]:
        """Once the first program has ended: all members. Those that still run go on untraced."""
        until = time.monotonic() + SERVER_ENDS_S
        while self._servers and time.monotonic() < until:
            time.sleep(_PAUSE_S)
        self._ends.set()
        for thread in self._threads:
            thread.join()
        if self.exchange_fd >= 0:
            os.close(self.exchange_fd)
            self.exchange_fd = -1
        return sorted(self._members, key=lambda member: member.number)

    def _read(
        self, session: _MemberSession, process: int, number: int, parent: int, pid: int, command: tuple[str, ...]
    ) -> None:
        is_server = any(word.startswith(_FORK_SERVER) for word in command)
        with self._lock:
            self._servers += is_server
        try:
            recording = session.read(process, pid, self._ends, stays_open=self._is_python)
            if recording is not None:
                recording = replace(recording, raw=recording.raw.executed())
                with self._lock:
                    self._members.append(Member(number, parent, command, recording))
        finally:
            os.close(process)
            with self._lock:
                self._at_once -= 1
                self._servers -= is_server


class _MemberSession(Session):
    """Reads a process that is not our child: it tells of its end by its descriptor, but not how it ended."""

    @property
    def descriptor(self) -> int:
        """File descriptor of the memory, until the process has it."""
        return self._fd

    def read(self, process: int, pid: int, ends: threading.Event, *, stays_open: bool) -> Recording | None:
        """Read until process `pid`, of that descriptor, is dead, or until `ends`. None if it never used its stream.

        With `stays_open` the memory can be found until then, by those that the process starts.
        """
        self._pid = pid
        poll = select.poll()
        poll.register(process, select.POLLIN)
        while True:
            idle = self.turn()
            if self._reader.header()["attached"] and not stays_open:
                self.close_descriptor()
            if ends.is_set() or (idle and poll.poll(0)):
                break
        is_dead = bool(poll.poll(0))
        self.close_descriptor()
        if not is_dead:
            self._fail("it was still running when the first program ended")
        self._reader.detach()
        self._read(self._reader.salvage)
        with suppress(ForetraceError):
            return self._recording(Ending(None, None), 0.0, has_ended=is_dead)
        return None


def with_endings(members: Sequence[Member], ends: Ends) -> list[Member]:
    """Members; those that a signal killed are whole, if somebody waited for them: all was recorded until then."""
    return [
        replace(member, recording=replace(member.recording, problem=""))
        if member.recording.end_unknown and ends.status_of(member.recording.pid) is not None
        else member
        for member in members
    ]


def with_members(recording: Recording, members: Sequence[Member]) -> Recording:
    """The first program's recording with what holds for all processes."""
    others = [member.recording for member in members]
    cut_short = [other.problem for other in others if other.problem]
    problem = recording.problem
    if cut_short and not problem:
        problem = f"{len(cut_short)} of {len(members)} child processes were not recorded to their end: {cut_short[0]}"
    summed = (
        "untraced_children", "untraced_threads", "threads", "unseen_calls", "processor_s", "native_threads_s",
    )  # fmt: skip
    return replace(
        recording,
        problem=problem,
        departures=sum((other.departures for other in others), recording.departures),
        events=(*recording.events, *(events for other in others for events in other.events)),
        **{name: sum(getattr(one, name) for one in (recording, *others)) for name in summed},
    )


def parent_positions(members: Sequence[Member]) -> list[int]:
    """Positions of the parents of the first program and its members, in this order; its own of one without any."""
    position = {0: 0} | {member.number: place for place, member in enumerate(members, 1)}
    return [0, *(position.get(member.parent, place) for place, member in enumerate(members, 1))]


class Ends:
    """Exit statuses of processes, reported by those that waited for them, and the children that are not followed."""

    def __init__(self, recording: Recording, members: Sequence[Member]) -> None:
        """Collect them from the first program and all that descend from it."""
        told = [(0, recording), *((member.number, member.recording) for member in members)]
        self._status = {
            child.pid: child.status for _, one in told for child in one.children if child.status is not None
        }
        followed = {member.recording.pid for member in members}  # one that became another program keeps its number
        self.others = [
            (number, child)
            for number, one in told
            for child in one.children
            if child.status is None and child.command and (child.became or child.pid not in followed)
        ]

    def status_of(self, pid: int) -> int | None:
        """Exit status as waitpid() reports it; None if nobody waited."""
        return self._status.get(pid)

    def codes_of(self, pid: int) -> tuple[int | None, int | None]:
        """Exit code and signal."""
        status = self._status.get(pid)
        if status is None:
            return None, None
        code = os.waitstatus_to_exitcode(status)
        return (code, None) if code >= 0 else (None, -code)


def records(
    command: tuple[str, ...], recording: Recording, members: Sequence[Member], ends: Ends
) -> tuple[ProcessRecord, ...]:
    """A line for each process, and for each child of a Python program that is not followed."""
    own = ProcessRecord(
        0, 0, command, *_work(recording), recording.threads, recording.problem,
        recording.pid, recording.ending.exit_code, recording.ending.signal_number,
    )  # fmt: skip
    found = [own]
    for m in members:
        one = m.recording
        work, how = _work(one), ends.codes_of(one.pid)
        found.append(ProcessRecord(m.number, m.parent, m.command, *work, one.threads, one.problem, one.pid, *how))
    last = max((m.number for m in members), default=0)
    for number, (parent, child) in enumerate(ends.others, last + 1):
        code, signal = ends.codes_of(child.pid)
        found.append(
            ProcessRecord(number, parent, child.command, 0, 0, 0, NOT_FOLLOWED, child.pid, code, signal, False)
        )
    return tuple(found)


def _work(recording: Recording) -> tuple[int, int]:
    """Instructions and accesses."""
    instructions = sum(block.executions * len(block.lengths) for block in recording.raw.blocks)
    instructions += sum(block.executions * block.instructions for block in recording.raw.python_blocks)
    return instructions, int(recording.statistics.executions.sum())
