"""From a program to its signature: run it under the engine for it, then work out the meaning of its stream."""

from __future__ import annotations

import datetime
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.base.errors import EngineError, ForetraceError

from .runs import CallRun, Run, run_of
from .session.launch import CompiledProgram, PythonCall, PythonProgram
from .session.options import DEFAULT_OPTIONS, TraceOptions
from .session.session import Engine, Progress, Session

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from foretrace.tracer.processes.family import Family
    from foretrace.tracer.python.forked import Outcome
    from foretrace.tracer.recording.recording import Ending
    from foretrace.tracer.signature.records import Signature
    from foretrace.tracer.stored.stored_stream import StreamWriter

OnProgress = Callable[[Progress], None]


def _ignore(_progress: Progress) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A signature, and how the program that it is of came to its end.

    `operation_map` has, for each memory operation of the stream, its id in the signature.
    `explanation` says in one line what the status leaves open where the engine has a part in it; else it is empty.
    """

    signature: Signature
    ending: Ending
    operation_map: npt.NDArray[np.int64]
    explanation: str = ""
    outcome: Outcome | None = None
    """Outcome of a function of this interpreter. None where it could not tell."""
    rank_work: npt.NDArray[np.int64] | None = None
    """`RankRecord.work` of a rank of a parallel run; None of any other program."""


def trace_program(
    launch: CompiledProgram | PythonProgram | PythonCall,
    options: TraceOptions = DEFAULT_OPTIONS,
    on_progress: OnProgress = _ignore,
    keep: StreamWriter | None = None,
) -> Traced:
    """Run what `launch` says under the engine for it.

    Args:
        launch: what to run, see `launch.launch_of`.
        options: how to trace it.
        on_progress: hears how far the run has come.
        keep: the address stream goes there, too, and then is for `kept_stream.commit`.

    Returns:
        The signature, and how the program ended.

    Raises:
        ProgramError, EngineError: it cannot be traced.
        HierarchyError: an instruction cache is to be simulated for several processes.
        ForetraceError: the options do not go together with the program or with each other.
        KeyboardInterrupt: a function's process was killed by an interrupt.
    """
    if keep is not None and options.follow_children:
        raise ForetraceError("a kept stream has the accesses of one process: it cannot follow children")
    if not isinstance(launch, PythonCall):
        return _trace(run_of(launch, options), options, on_progress, keep)
    if options.follow_children:
        raise ForetraceError("children of a function of this interpreter are not followed; trace it as a program")
    run = CallRun(launch, options)
    try:
        traced = _trace(run, options, on_progress, keep)
    except EngineError:
        run.find_outcome()  # knows better what was wrong
        raise
    if run.was_killed or traced.ending.signal_number == signal.SIGINT:
        raise KeyboardInterrupt
    return traced


def _trace(run: Run, options: TraceOptions, on_progress: OnProgress, keep: StreamWriter | None) -> Traced:
    schedule = options.schedule(keeps_stream=keep is not None)
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    family: Family | None = None
    if options.follow_children:
        from foretrace.tracer.processes.family import Family

        family = Family(run.engine, options, schedule)
    session = Session(run.engine, options, _tee(keep, run.engine, run.command), family, schedule=schedule)

    def hear(progress: Progress) -> None:
        run.watch(progress)
        on_progress(progress)

    importing = threading.Thread(target=run.import_analysis)
    recording = session.run(hear, on_start=importing.start)
    importing.join()
    from .assembly import estimated, signature_of

    def step(name: str) -> bool:
        session.progress.stage = name
        hear(session.progress)
        return not session.progress.hurries

    members = None
    if family is not None:
        step("reading the streams of its children")
        members = family.finish()
    found = run.analyse(recording, members, step)
    analysis, bursts = found.analysis, found.recording.bursts
    signature = signature_of(
        run.command, run.engine.name, run.engine.guest, started, found.recording, analysis, found.processes
    )
    if bursts is not None and bursts.gaps:
        signature = estimated(signature, analysis.operation_map, bursts, options.accuracy)
    signature = run.completed(signature, found.recording)
    return Traced(
        signature, found.recording.ending, analysis.operation_map, found.explanation, run.outcome, analysis.rank_work
    )


def _tee(keep: StreamWriter | None, engine: Engine, command: Sequence[str]) -> Callable[[object], object]:
    """Puts the writer of a kept stream before a sink."""
    if keep is None:
        return lambda sink: sink
    from foretrace.tracer.stored.stored_stream import Head

    head = Head(source=engine.name, command=tuple(command))
    return lambda sink: keep.sink(sink, head)
