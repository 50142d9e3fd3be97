"""Runs a program under an engine as a child process, and reads its stream while it runs.

Modules that are slow to import and not needed before the program's start are imported on first use.

The child is undisturbed: it has our standard streams, its own signals, and one shared memory, whose descriptor its
engine has mapped and closed before the program's first instruction. If the child dies, the rest of its stream is still
read; if we die, it goes on.
"""

from __future__ import annotations

import mmap
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import msgspec

from foretrace.base.errors import EngineError, ProgramError
from foretrace.cache_sim.simulator_core import SimulatorCore
from foretrace.tracer.reader import _reader
from foretrace.tracer.reader.raw_trace import RawBlock, RawPythonBlock, RawTrace
from foretrace.tracer.reader.side_table import INSTRUCTIONS_PER_BLOCK, MEMORY_BYTES, SideTable, StreamError
from foretrace.tracer.recording.departures import Departures
from foretrace.tracer.recording.recording import Ending, Recording, signal_name
from foretrace.tracer.sampling.burst_schedule import Schedule
from foretrace.tracer.signature.waiting import Waiting

from .options import DEFAULT_OPTIONS, TraceOptions

if TYPE_CHECKING:
    from foretrace.cache_sim.simulator import Simulator
    from foretrace.tracer.events.traced_board import ProcessEvents, TracedBoard
    from foretrace.tracer.sampling.bursts import BurstRecorder

_Counts = TypeVar("_Counts")

FORWARDED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_GROUP_SIGNAL_S = 0.5
"""Delay before a signal is passed on. A signal to the whole process group has reached the program, too, and most
programs have ended by then; one that goes on gets the signal a second time."""
_CHUNKS_PER_TURN = 128
MAX_BLOCKS = 1 << 18
"""Most blocks of machine code that are recorded. A program that keeps generating code has no end of them. The analysis
takes up to 1.3 KB for each instruction, and there may be as many instructions for each block. Execution in later blocks
is not seen, and the signature says so."""
MAX_CONTEXTS = 1 << 17
"""Most calling contexts that the execution tree distinguishes."""
MAX_SHADOW_BYTES = 1 << 30
"""Limit of the shadow memory for finding dependences: 8 bytes for each byte that the program touches, 32 where it
accesses single bytes."""
MAX_SHADOW_BYTES_OF_WINDOWS = 1 << 27
"""Limit of the shadow memory where dependences are searched in windows only."""
TREE_GUESTS = ("x86_64", "aarch64", "riscv64", "python")
_DECODING = threading.Lock()
"""An engine's decoder serves one thread at a time."""
_WAIT_MS = 10


class Engine(Protocol):
    """A tracing engine: runs a program so that it writes a stream."""

    guest: str
    mmap_call: int
    mprotect_call: int
    makes_bursts: bool
    """Whether the engine itself follows a schedule of bursts. If not, all accesses are in the stream, and the reader
    chooses those that are simulated."""

    @property
    def name(self) -> str:
        """Name and version of the engine."""
        ...

    def command(self, stream_fd: int) -> tuple[str, list[str], dict[str, str]]:
        """Path of the executable to start, its argument vector and environment."""
        ...

    @property
    def follows(self) -> tuple[int, int] | None:
        """Number of the execve system call, and the ELF machine of programs that the engine runs, each 0 where the
        engine's agent handles execve itself; None if it cannot follow a program's children."""
        ...

    def access_bytes(self, code: bytes, address: int, is_store: bool) -> int:
        """Size of an instruction's memory access, 0 if it is unknown or the instruction makes several."""
        ...

    def access_parts(self, code: bytes) -> int:
        """The form of the engine's report of an access made in parts: enum ft_parts (tracer/reader/reader.h)."""
        ...


@runtime_checkable
class Forks(Protocol):
    """An engine that makes the child process itself."""

    def start(self, stream_fd: int) -> int:
        """Start the program, which writes to the stream of the descriptor. Returns the child's process id."""
        ...


class Adopts(Protocol):
    """Provider of streams for a program's child processes."""

    def adopt(self, parent: int, pid: int, kind: int, command: bytes) -> int:
        """Begin to read the process `pid`. Returns a descriptor of the memory for its stream, or -1 to refuse it."""
        ...

    @property
    def exchange_fd(self) -> int:
        """Descriptor of memory that all processes share, closed when all have ended; -1 if there is none."""
        ...


_UNKNOWN_NS = (1 << 64) - 1  # FT_WAITING_UNKNOWN of waiting.h


@dataclass(slots=True)
class Progress:
    """Progress of a run, for display.

    `interrupts` counts SIGINTs sent to us, or to us and the program. The program has ended once `ended` is set.
    """

    accesses: int = 0
    blocks: int = 0
    interrupts: int = 0
    ended: bool = False
    stage: str = ""
    """The current step of the analysis, once the program has ended."""
    hurries: bool = False
    """Set by the display once the program has ended: write the results at hand, skip slow analyses."""


class Session:
    """One traced run of one program."""

    def __init__(
        self,
        engine: Engine,
        options: TraceOptions = DEFAULT_OPTIONS,
        tee: Callable[[object], object] = lambda sink: sink,
        family: Adopts | None = None,
        number: int = 0,
        schedule: Schedule | None = None,
    ) -> None:
        """Set up the shared memory and the simulator, which `tee` may put another sink before.

        With `family` the program's children are followed; it is process `number`. With `schedule` accesses are recorded
        in bursts.

        Raises:
            EngineError: the system has no room for the shared memory.
        """
        self._engine = engine
        self._core = SimulatorCore(options.hierarchies)
        try:
            self._fd = os.memfd_create("foretrace-stream", 0)
            os.ftruncate(self._fd, MEMORY_BYTES)
            self._memory = mmap.mmap(self._fd, MEMORY_BYTES)
        except OSError as error:
            raise EngineError(f"cannot set up {MEMORY_BYTES >> 20} MiB of shared memory: {error.strerror}") from error
        self._reader = _reader.StreamReader(self._memory, tee(self._core.sink))
        self._reader.expect(os.getpid(), engine.mmap_call, engine.mprotect_call)
        self._reader.limit(MAX_BLOCKS)
        if options.has_tree and engine.guest in TREE_GUESTS:
            self._reader.make_tree(engine.guest, MAX_CONTEXTS)
            if options.has_data_flow:
                self._reader.follow_data()
            if options.has_dependences:
                self._reader.find_dependences(MAX_SHADOW_BYTES)
            elif options.has_windows and options.has_data_flow and family is None and engine.guest != "python":
                self._reader.find_dependences(MAX_SHADOW_BYTES_OF_WINDOWS, True)
        self._options, self._schedule = options, schedule
        if schedule is not None:
            follow = self._reader.schedule if engine.makes_bursts else self._reader.sample
            follow(
                schedule.seed + number, schedule.first_chunks, schedule.period_chunks, schedule.warm_chunks,
                schedule.measured_chunks,
            )  # fmt: skip
        self._side = SideTable()
        self._pid = 0
        self._maps = 0  # as many as the reader has been told of
        self._problem = ""
        self._family, self._number = family, number
        self._board: TracedBoard | None = None
        self._followed = 0
        self.progress = Progress()
        if family is not None and engine.follows is not None:
            exchange_fd = family.exchange_fd & 0xFFFFFFFF
            self._reader.follow(*engine.follows, number, self._fd, exchange_fd)

    @cached_property
    def _simulator(self) -> Simulator:
        from foretrace.cache_sim.simulator import Simulator

        return Simulator.of(self._core)

    @cached_property
    def _bursts(self) -> BurstRecorder | None:
        if self._schedule is None:
            return None
        from foretrace.tracer.sampling.bursts import BurstRecorder  # slow to import: the program runs meanwhile

        return BurstRecorder(self._simulator, self._options.hierarchies, self._schedule)

    def run(
        self,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        on_start: Callable[[], None] = lambda: None,
    ) -> Recording:
        """Run the program to its end, after `on_start` once it has been started.

        Signals sent to us while it runs are passed on to it.

        Raises:
            ProgramError, EngineError: it could not be started or traced at all.
        """
        started = time.monotonic()
        signals = sum(1 << number for number in FORWARDED_SIGNALS)
        _reader.catch_signals(signals)
        try:
            pid = self._pid = self._start()
            _reader.catch_ignored_signals(signals)
            on_start()
            ending = self._follow(pid, on_progress)
            self._reader.detach()
            wall_s = time.monotonic() - started
        finally:
            _reader.release_signals()
            self.close_descriptor()
        self._catch_up(on_progress)
        return self._recording(ending, wall_s)

    def _catch_up(self, on_progress: Callable[[Progress], None]) -> None:
        """Read the rest of the stream after the program's end."""
        progress = self.progress
        progress.stage = "reading what is left"
        while not self._read(lambda: self._reader.run(_CHUNKS_PER_TURN, 0)):
            progress.accesses = self._reader.header()["accesses"]
            on_progress(progress)
            if progress.hurries:
                self._fail("foretrace was told to stop before it had read all that the program had recorded")
                return
        self._read(self._reader.salvage)

    def _start(self) -> int:
        if isinstance(self._engine, Forks):
            try:
                return self._engine.start(self._fd)
            except OSError as error:
                raise EngineError(f"cannot fork this interpreter: {error.strerror}") from error
            finally:
                self.close_descriptor()
        path, argv, environment = self._engine.command(self._fd)
        os.set_inheritable(self._fd, True)
        stays_open = self._family is not None
        try:
            # Python ignores SIGPIPE and SIGXFSZ; a program of its own expects their defaults.
            return os.posix_spawn(path, argv, environment, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
        except OSError as error:
            raise ProgramError(f"cannot run {path}: {error.strerror}") from error
        finally:
            if stays_open:
                os.set_inheritable(self._fd, False)
            else:
                self.close_descriptor()

    def close_descriptor(self) -> None:
        """Close the descriptor once no process needs it to find the memory."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _follow(self, pid: int, on_progress: Callable[[Progress], None]) -> Ending:
        """Read until the child is dead."""
        progress, signals = self.progress, _Signals(pid)
        while True:
            idle = self.turn()
            signals.forward()
            if idle:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    progress.interrupts, progress.ended = _reader.interrupts(), True
                    on_progress(progress)
                    code = os.waitstatus_to_exitcode(status)
                    return Ending(code, None) if code >= 0 else Ending(None, -code)
            header = self._reader.header()
            progress.accesses, progress.blocks = header["accesses"], header["executions"]
            progress.interrupts = _reader.interrupts()
            on_progress(progress)

    def turn(self) -> bool:
        """Read what the stream has, waiting briefly for it, and answer requests; True if nothing more is ready."""
        idle = self._read(lambda: self._reader.run(_CHUNKS_PER_TURN, 0 if self._problem else _WAIT_MS))
        if self._problem:
            time.sleep(_WAIT_MS / 1000)
        self._find_board()
        self._find_owners()
        request = self._reader.request()
        if request is not None:
            pid, kind, command = request
            fd = self._family.adopt(self._number, pid, kind, command) if self._family else -1
            self._followed += fd >= 0 and kind != _reader.EXEC
            self._reader.answer(fd)
        return idle and request is None

    def _find_board(self) -> None:
        """Open the board of software-defined events, before the process may become another program."""
        if self._board is None and self._reader.header()["has_events"]:
            from foretrace.tracer.events.traced_board import TracedBoard

            self._board = TracedBoard(self._pid)
        if self._board is not None:
            self._board.open()

    def _find_owners(self) -> None:
        """Pass the owners of code ranges to the reader when new modules were mapped."""
        maps = self._reader.header()["maps"]
        if maps != self._maps and self._options.has_data_flow and not self._problem:
            from foretrace.tracer.analysis.data_flow.library_code import code_ranges

            self._maps = maps
            with suppress(StreamError):  # the analysis says so
                ranges = code_ranges(self._side_table().maps, self._reader.header()["guest_base"])
                self._reader.set_owners(ranges.tobytes())

    def _events(self, *, has_ended: bool) -> tuple[ProcessEvents, ...]:
        self._find_board()
        if self._board is None:
            return ()
        keeps_values = self._options.has_recorded_values
        return (self._board.finish(self._number, keeps_values=keeps_values, has_ended=has_ended),)

    def _read(self, step: Callable[[], int]) -> bool:
        """Take one step of reading; True when nothing more is ready. A failure ends the reading, not the program."""
        if self._problem:
            return True
        try:
            while (status := step()) in (_reader.WIDTH, _reader.MARK):
                if status == _reader.WIDTH:
                    self._answer_width()
                elif self._bursts is not None:
                    self._bursts.mark(self._reader.mark())
        except MemoryError:
            self._fail("foretrace ran out of memory")
        except ValueError as error:
            self._fail(f"the trace stream is damaged: {error}")
        else:
            return bool(status == _reader.IDLE)
        return True

    def _fail(self, why: str) -> None:
        self._problem = why
        self._reader.detach()

    def _answer_width(self) -> None:
        block_id, slot = self._reader.asked()
        entry = self._side_table().blocks[block_id - 1]
        width = parts = 0
        if isinstance(entry, RawBlock) and slot // 2 < len(entry.lengths):
            begin = sum(entry.lengths[: slot // 2])
            code = entry.code[begin : begin + entry.lengths[slot // 2]]
            with _DECODING:
                width = self._engine.access_bytes(code, entry.address + begin, bool(slot % 2))
                parts = self._engine.access_parts(code)
        self._reader.set_width(width, parts)

    def _side_table(self) -> SideTable:
        header = self._reader.header()
        begin = header["side_offset"]
        with memoryview(self._memory) as view, view[begin : begin + header["side_bytes"]] as table:
            self._side.extend(table)
        return self._side

    def _recording(self, ending: Ending, wall_s: float, *, has_ended: bool = True) -> Recording:
        events = self._events(has_ended=has_ended)
        header = self._reader.header()
        if not header["attached"] and ending.signal_number not in (*FORWARDED_SIGNALS, signal.SIGKILL):
            raise EngineError(
                f"{self._engine.name} did not load foretrace's tracing plugin; reinstall foretrace for this machine"
            )
        problem, end_unknown = self._problem, False
        if not problem and header["side_full"]:
            problem = _said_of_full(header["side_full"])
        if not problem and header["edges_full"]:
            problem = (
                f"the program's jumps outgrew the trace's table of {_reader.MAX_RARE_EDGES:,} beyond two for each "
                "block: the others were not recorded"
            )
        departures = Departures.of(header["departures"])
        if not problem and departures.stale:
            problem = departures.warnings[0]
        if not problem and ending.signal_number is not None:
            problem = f"the program was killed by {signal_name(ending.signal_number)}"
        elif not problem and not header["finished"] and not header["replaced"]:
            can_follow = self._family is None and self._engine.follows is not None
            hint = ", which --follow-children traces, too" if can_follow else ""
            end_unknown = True
            problem = f"the program ended without the engine's knowledge (it may have replaced itself by another{hint})"
        raw, bursts = self._raw_trace(), None if self._bursts is None else self._bursts.counts()
        return Recording(
            raw=raw,
            statistics=self._simulator.statistics(),
            simulated=self._simulator.simulated(),
            reuse=self._simulator.reuse(),
            ending=ending,
            wall_s=wall_s,
            problem=problem,
            untraced_children=max(0, header["forks"] - self._followed),
            untraced_threads=header["threads_untraced"],
            threads=header["threads"],
            unseen_calls=header["unseen_calls"],
            waiting=_waiting(header),
            processor_s=header["processor_ns"] * 1e-9 if header["finished"] else wall_s,
            native_threads_s=header["native_threads_ns"] * 1e-9,
            last_blocks=self._reader.last_blocks(),
            engine_message=header["message"],
            bursts=bursts,
            exception=header["exception"].decode(errors="ignore"),
            clock_reads=header["clock_reads"],
            departures=departures,
            children=tuple(self._side_table().children),
            pid=self._pid,
            end_unknown=end_unknown,
            events=events,
        )

    def _raw_trace(self) -> RawTrace:
        import numpy as np

        from foretrace.tracer.reader.raw_dependences import raw_dependences
        from foretrace.tracer.reader.raw_events import raw_event_samples, raw_rank_work
        from foretrace.tracer.reader.raw_flow import raw_flow
        from foretrace.tracer.reader.raw_paths import read_paths
        from foretrace.tracer.reader.raw_tree import raw_tree

        table = self._side_table()
        executions = np.frombuffer(self._reader.block_executions(), np.uint64).tolist()
        operations = np.frombuffer(self._reader.operations(), np.uint32).reshape(-1, 3)
        self._simulator.reserve(len(operations))  # a program cut short leaves some that were described but never fed
        arrays = np.frombuffer(self._reader.arrays(), np.uint64).reshape(-1, 3).tolist()
        if len(executions) > len(table.blocks) or len(arrays) > len(table.operations):
            raise StreamError("the trace stream's side table changed after it was read")
        timings, array_times = self._in_side_table(self._side.timings), self._in_side_table(self._side.array_times)
        blocks = [
            msgspec.structs.replace(block, executions=count, **timings.get(block.block_id, {}))
            for block, count in zip(table.blocks, executions, strict=False)
        ]
        array_operations = tuple(
            msgspec.structs.replace(operation, executions=counts[1], points=counts[2], **times)
            for operation, counts, times in zip(table.operations, arrays, array_times, strict=False)
        )
        return RawTrace(
            blocks=tuple(block for block in blocks if isinstance(block, RawBlock)),
            python_blocks=tuple(block for block in blocks if isinstance(block, RawPythonBlock)),
            array_operations=array_operations,
            operation_block=operations[:, 0].copy(),
            operation_slot=operations[:, 1].copy(),
            operation_array=operations[:, 2].copy(),
            operation_longest_range=np.frombuffer(self._reader.longest_ranges(), np.uint64),
            edges=np.frombuffer(self._reader.edges(), np.uint64).reshape(-1, 3).copy(),
            maps=tuple(table.maps),
            files=tuple(table.files),
            guest_base=self._reader.header()["guest_base"],
            **self._in_side_table(self._side.counted),
            native_threads_rounds=self._reader.header()["native_threads_rounds"],
            paths=read_paths(self._reader.samples(), table.blocks),
            tree=raw_tree(self._reader.tree()),
            flow=raw_flow(self._reader.data_flow(), table.objects),
            dependences=raw_dependences(self._reader.dependences()),
            event_samples=raw_event_samples(self._reader.event_samples(), self._number),
            rank_work=raw_rank_work(self._reader.rank_work()),
            landings=tuple(table.landings),
            whole_masked_loads=self._reader.header()["whole_masked_loads"],
        )

    def _in_side_table(self, read: Callable[[memoryview], _Counts]) -> _Counts:
        """Current counts from the live side table, by `read`."""
        header = self._reader.header()
        begin = header["side_offset"]
        with memoryview(self._memory) as view, view[begin : begin + header["side_bytes"]] as table:
            return read(table)


def _said_of_full(what: int) -> str:
    """A message on the limit that the trace met first: enum ft_full of stream.h."""
    limits = {
        1: f"{MAX_BLOCKS:,} blocks",
        2: f"{MAX_BLOCKS * INSTRUCTIONS_PER_BLOCK:,} different instructions",
    }
    limit = limits.get(what, f"{MEMORY_BYTES >> 20:,} MiB for what blocks are, and copies of its memory map")
    return f"the program's code outgrew the trace's table of {limit}: what is new after that was not recorded"


def _waiting(header: _reader.Header) -> Waiting | None:
    if not header["finished"] or header["waited_ns"] == _UNKNOWN_NS:
        return None
    return Waiting(header["waited_ns"] * 1e-9, header["children_ns"] * 1e-9)


class _Signals:
    """Passes on signals sent to us, without those that the terminal sent to the program as well."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._waiting: list[tuple[float, int]] = []

    def forward(self) -> None:
        """Pass on pending signals. Call it often, and never after the process was waited for."""
        now = time.monotonic()
        taken = _reader.take_signals()
        self._waiting += [(now + _GROUP_SIGNAL_S, number) for number in FORWARDED_SIGNALS if taken >> number & 1]
        while self._waiting and self._waiting[0][0] <= now:
            os.kill(self._pid, self._waiting.pop(0)[1])
