"""The simulator alone, on a stored stream or another tool's trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from foretrace.base.errors import TraceFileError
from foretrace.cache_sim.base.hierarchy import DEFAULT_HIERARCHY, Hierarchy
from foretrace.cache_sim.simulator import Simulator

from .foreign import FORMATS, STORED, ForeignReader, detect
from .input_file import Bytes, InputFile
from .stored_stream import Head, LoopPlace, Place, StreamReader, StreamWriter
from .thread_files import ThreadFiles

OUTPUT_FORMATS = ("din", STORED)


@dataclass(slots=True)
class Progress:
    """Progress of reading: accesses simulated, bytes read, and size of the input (None: unknown)."""

    accesses: int
    read_bytes: int
    size_bytes: int | None


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedStream:
    """Results of simulating a stream. `problem` says why the stream is incomplete; it is empty for a complete one.

    `places` are of the memory operations, by id: those of `simulator`. `instructions` is None where they were not
    counted. `notes` list what was assumed, skipped or left out.
    """

    name: str
    format: str
    command: tuple[str, ...]
    problem: str
    simulator: Simulator
    loads: int
    stores: int
    fetches: int
    instructions: int | None
    places: Sequence[Place]
    loops: Sequence[LoopPlace]
    notes: tuple[str, ...]
    wall_s: float


def simulate_stream(
    path: str | Path,
    hierarchies: Sequence[Hierarchy] = (DEFAULT_HIERARCHY,),
    *,
    name: str = "auto",
    access_bytes: int | None = None,
    partial: bool = False,
    convert_to: Path | None = None,
    convert_format: str = STORED,
    force: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> SimulatedStream:
    """Read a stream ("-": standard input) and simulate `hierarchies`.

    Args:
        path: the stream or trace, perhaps compressed; or the directory of a drmemtrace trace.
        hierarchies: the hierarchies to simulate.
        name: its format; "auto": detected from its beginning.
        access_bytes: size of an access where the format has none (a power of two up to 64).
        partial: accept a damaged or cut-off stream up to the damage, instead of raising.
        convert_to: also write the stream to this file, in `convert_format`.
        convert_format: one of OUTPUT_FORMATS.
        force: overwrite `convert_to`.
        on_progress: called after each piece.

    Raises:
        TraceFileError: the stream is missing, empty, damaged, or of no known format.
        OutputError: `convert_to` cannot be written.
        ForetraceError: the caches cannot be simulated.
    """
    started = time.monotonic()
    is_directory = str(path) != "-" and Path(path).is_dir()
    if is_directory and name not in ("auto", "drmemtrace"):
        raise TraceFileError(f"{path}: is a directory, which only a drmemtrace trace can be")
    opened = ThreadFiles(Path(path)) if is_directory else InputFile(path)
    try:
        data = Bytes(opened) if isinstance(opened, InputFile) else opened
        found = name if name != "auto" else detect(data) if isinstance(data, Bytes) else "drmemtrace"
        simulator = Simulator(hierarchies)
        if convert_to is None:
            return _Run(data, found, simulator, access_bytes, partial, on_progress, started).read(simulator.sink)
        with StreamWriter(convert_to, din=convert_format == "din", force=force, fetches=True) as writer:
            run = _Run(data, found, simulator, access_bytes, partial, on_progress, started)
            simulated = run.read(writer.sink(simulator.sink, Head(source=found)))
            writer.commit(
                simulated.places,
                simulated.loops,
                incomplete_reason=simulated.problem,
                instructions=simulated.instructions,
                notes=simulated.notes,
            )
            return simulated
    finally:
        opened.close()


@dataclass(slots=True)
class _Run:
    data: Bytes | ThreadFiles
    format: str
    simulator: Simulator
    access_bytes: int | None
    partial: bool
    on_progress: Callable[[Progress], None]
    started: float

    def read(self, sink: object) -> SimulatedStream:
        return self._read_foreign(sink) if self.format in FORMATS else self._read_stored(sink)

    def _follow(self, steps: Iterator[int]) -> str:
        """Reads to the end of the trace. Returns why it ended early, if `partial` allows it; "" if it did not."""
        file, accesses = self.data.file, 0
        try:
            for accesses in steps:
                self.on_progress(Progress(accesses, file.offset, file.size_bytes))
        except TraceFileError as error:
            if not self.partial or not accesses:
                raise
            return str(error)
        return ""

    def _read_foreign(self, sink: object) -> SimulatedStream:
        reader = ForeignReader(self.data, self.format, sink, self.access_bytes)
        problem = self._follow(reader.steps())
        trace = reader.contents()
        self.simulator.reserve(len(trace.pcs))
        return SimulatedStream(
            name=self.data.file.name,
            format=self.format,
            command=(),
            problem=problem,
            simulator=self.simulator,
            loads=trace.counts["loads"],
            stores=trace.counts["stores"],
            fetches=trace.counts["instructions"],
            instructions=trace.instructions,
            places=trace.places,
            loops=(),
            notes=trace.notes(),
            wall_s=time.monotonic() - self.started,
        )

    def _read_stored(self, sink: object) -> SimulatedStream:
        assert isinstance(self.data, Bytes)  # a directory holds a drmemtrace trace
        reader = StreamReader(self.data, sink)
        problem = self._follow(reader.steps())
        contents = reader.contents
        if contents.done is not None and not contents.done.complete:
            problem = problem or contents.done.incomplete_reason or "its end does not say why"
        self.simulator.reserve(max(len(contents.places), contents.num_operations))
        return SimulatedStream(
            name=self.data.file.name,
            format=self.format,
            command=contents.head.command,
            problem=problem,
            simulator=self.simulator,
            loads=contents.loads,
            stores=contents.stores,
            fetches=contents.fetches,
            instructions=None if contents.done is None else contents.done.instructions,
            places=contents.places,
            loops=contents.loops,
            notes=() if contents.done is None else contents.done.notes,
            wall_s=time.monotonic() - self.started,
        )
