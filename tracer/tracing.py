"""From a program to its signature: run it under an engine, then work out what its stream meant.

Each engine and its analysis are imported when they are needed: neither needs what the other one does.
"""

from __future__ import annotations

import datetime
import importlib
import platform
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from foretrace import __version__
from foretrace.cache_sim.hierarchy import DEFAULT_HIERARCHY, Hierarchy
from foretrace.errors import ForetraceError, HierarchyError

from .analysis import Analysis
from .bursts import Accuracy, schedule_of
from .recorded import Part, part_of
from .session import Ending, Engine, Progress, Recording, Session
from .signature import ProcessRecord, Provenance, Sampling, Signature
from .unseen import unseen_of

if TYPE_CHECKING:
    from foretrace.tracer.streams.stored_stream import StreamWriter

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


def trace_binary(
    program: Sequence[str],
    hierarchies: Sequence[Hierarchy] = (DEFAULT_HIERARCHY,),
    on_progress: OnProgress = _ignore,
    keep: StreamWriter | None = None,
    *,
    follow_children: bool = False,
    accuracy: Accuracy = Accuracy.HIGH,
    seed: int | None = None,
) -> Traced:
    """Run a compiled program (its name, then its arguments), simulating `hierarchies`.

    The address stream goes to `keep` as well, which then is for `kept_stream.commit`. With `follow_children` the
    processes it forks, and the programs that it or they become, are traced too; the signature sums them up. Below
    `Accuracy.HIGH` accesses are recorded in bursts, at places that `seed` decides, or chance (docs/sampling.md).

    Raises:
        ProgramError, EngineError: it cannot be traced.
        HierarchyError: an instruction cache is to be simulated for several processes.
        ForetraceError: the stream of a run with bursts is to be kept.
    """
    from foretrace.tracer.qemu.binary import QemuEngine

    if follow_children and any(hierarchy.instruction is not None for hierarchy in hierarchies):
        raise HierarchyError("an instruction cache cannot be simulated together with --follow-children; leave out one")

    schedule = schedule_of(accuracy, seed)
    if schedule is not None and keep is not None:
        raise ForetraceError("a kept stream has all accesses: it needs --accuracy high")
    engine = QemuEngine(program)
    started = _now()
    family = None
    if follow_children:
        from .family import Family

        family = Family(engine, hierarchies, schedule)
    session = Session(engine, hierarchies, _tee(keep, engine, program), family, schedule=schedule)
    importing = threading.Thread(target=_import_for_the_end, args=[engine.guest])
    importing.start()
    recording = session.run(on_progress)
    importing.join()
    from foretrace.tracer.machine_code import binary_analysis, endings

    members = family.finish() if family else []
    explanation = endings.explain(recording, engine.guest, engine.name)
    if recording.problem and explanation:
        recording = replace(recording, problem=explanation)
    part = part_of(recording)
    processes: tuple[ProcessRecord, ...] = ()
    if members:
        from .combination import combine
        from .family import records, with_members

        processes = records(tuple(program), recording, part, members)
        recording = with_members(recording, members)
        part = combine([part, *(member.part for member in members)])
    analysis = binary_analysis.analyse(part.raw, part.statistics, engine.guest, part.bursts)
    traced = _traced(tuple(program), engine.name, engine.guest, started, recording, part, analysis, processes)
    if part.bursts is not None and part.bursts.gaps:
        traced = replace(traced, signature=_estimated(traced, part, accuracy))
    return replace(traced, explanation=explanation)


def _import_for_the_end(guest: str) -> None:
    """Import what is not needed before a program's end, while it runs."""
    from foretrace.tracer.machine_code import isa

    isa.load(guest)
    for name in ("tracer.machine_code.binary_analysis", "tracer.machine_code.endings", "tracer.signature_file"):
        importlib.import_module(f"foretrace.{name}")


def _estimated(traced: Traced, part: Part, accuracy: Accuracy) -> Signature:
    """The signature with what was recorded in bursts scaled to the whole run."""
    from .estimate import estimated_misses, scaled_reuse

    signature, bursts = traced.signature, part.bursts
    if bursts is None:
        return signature
    count = len(signature.operations)
    bursts = bursts.merged(traced.operation_map, count)
    executions = np.array([operation.executions for operation in signature.operations], np.uint64)
    accesses = max(int(executions.sum()), 1)
    hierarchies, misses = estimated_misses(bursts, signature.hierarchies, executions)
    sampling = Sampling(
        accuracy=str(accuracy),
        seed=bursts.seed,
        bursts=int(bursts.bursts.sum()),
        early_bursts=bursts.early_bursts,
        recorded_share=int(bursts.recorded.sum()) / accesses,
        unmeasured_operations=int(bursts.is_unmeasured.sum()),
        unmeasured_share=int(executions[bursts.is_unmeasured].sum()) / accesses,
        misses=misses,
    )
    return replace(
        signature,
        provenance=msgspec.structs.replace(signature.provenance, sampling=sampling),
        hierarchies=hierarchies,
        reuse=None if signature.reuse is None else scaled_reuse(signature.reuse, bursts.recorded, executions),
    )


def trace_python(
    target: str,
    arguments: Sequence[str] = (),
    hierarchies: Sequence[Hierarchy] = (DEFAULT_HIERARCHY,),
    *,
    is_module: bool = False,
    core: str = "markers",
    on_progress: OnProgress = _ignore,
    keep: StreamWriter | None = None,
) -> Traced:
    """Run a Python script (or, with `is_module`, a module as `python -m` does), simulating `hierarchies`.

    The address stream goes to `keep` as well, which then is for `kept_stream.commit`.

    `core` is one of `python_program.PythonCore`: how the blocks that run are told.

    Raises:
        ProgramError, EngineError: it cannot be traced.
    """
    from foretrace.tracer.python import analysis as python_analysis
    from foretrace.tracer.python import program as python_program

    engine = python_program.PythonEngine(target, arguments, is_module=is_module, core=python_program.PythonCore(core))
    command = (*(("-m",) if is_module else ()), target, *arguments)
    started = _now()
    lines = python_program.lines_timed()
    recording = Session(engine, hierarchies, _tee(keep, engine, command)).run(on_progress)
    part = part_of(recording)
    analysis = python_analysis.analyse(part.raw, part.statistics, lines)
    return _traced(command, engine.name, engine.guest, started, recording, part, analysis)


def _tee(keep: StreamWriter | None, engine: Engine, command: Sequence[str]) -> Callable[[object], object]:
    if keep is None:
        return lambda sink: sink
    from foretrace.tracer.streams.stored_stream import Head

    head = Head(source=engine.name, command=tuple(command))
    return lambda sink: keep.sink(sink, head)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _traced(
    command: tuple[str, ...],
    engine: str,
    guest: str,
    started: str,
    recording: Recording,
    part: Part,
    analysis: Analysis,
    processes: tuple[ProcessRecord, ...] = (),
) -> Traced:
    mapping, count = analysis.operation_map, len(analysis.operations)
    signature = Signature(
        provenance=Provenance(
            command=command,
            engine=engine,
            guest=guest,
            foretrace_version=__version__,
            host=platform.node(),
            started=started,
            wall_s=recording.wall_s,
            exit_code=recording.ending.exit_code,
            signal=recording.ending.signal_number,
            complete=not recording.problem,
            incomplete_reason=recording.problem,
            decoded_share=analysis.decoded_share,
            unseen_calls=recording.unseen_calls,
            unseen=unseen_of(part.raw, recording.unseen_calls),
            untraced_children=recording.untraced_children,
            untraced_threads=recording.untraced_threads,
            threads=recording.threads,
            notes=tuple(analysis.notes),
            processes=processes,
        ),
        blocks=analysis.blocks,
        operations=analysis.operations,
        loops=analysis.loops,
        idioms=analysis.idioms,
        edges=analysis.edges,
        hierarchies=[
            simulated.merged(mapping, count).merged_blocks(analysis.block_map, len(analysis.blocks))
            for simulated in part.simulated
        ],
        reuse=None if part.reuse is None else part.reuse.merged(mapping, count),
        paths=analysis.paths,
        interpreter_times=analysis.interpreter_times,
    )
    return Traced(signature, recording.ending, mapping)
