"""From a program to its signature: run it under an engine, then work out what its stream meant.

What is not needed before a program's start takes long to import: that is done while the program runs.
"""

from __future__ import annotations

import datetime
import importlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from foretrace.cache_sim.hierarchy import DEFAULT_HIERARCHY, Hierarchy
from foretrace.errors import ForetraceError, HierarchyError
from foretrace.tracer.sampling.burst_schedule import Accuracy, schedule_of

from .launch import Interpreter, Target
from .session import Ending, Engine, Progress, Session

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from foretrace.tracer.qemu.binary import QemuEngine
    from foretrace.tracer.signature.records import ProcessRecord, Signature
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


def trace_binary(
    program: Sequence[str],
    hierarchies: Sequence[Hierarchy] = (DEFAULT_HIERARCHY,),
    on_progress: OnProgress = _ignore,
    keep: StreamWriter | None = None,
    *,
    follow_children: bool = False,
    accuracy: Accuracy = Accuracy.HIGH,
    seed: int | None = None,
    has_tree: bool = True,
) -> Traced:
    """Run a compiled program (its name, then its arguments), simulating `hierarchies`.

    The address stream goes to `keep` as well, which then is for `kept_stream.commit`. With `follow_children` the
    processes it forks, and the programs that it or they become, are traced too; the signature sums them up. Below
    `Accuracy.HIGH` accesses are recorded in bursts, at places that `seed` decides, or chance (docs/sampling.md).
    Without `has_tree` the signature has no execution tree.

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
        from foretrace.tracer.processes.family import Family

        family = Family(engine, hierarchies, schedule)
    session = Session(engine, hierarchies, _tee(keep, engine, program), family, schedule=schedule, has_tree=has_tree)
    importing = threading.Thread(target=_import_for_machine_code, args=[engine])
    recording = session.run(on_progress, on_start=importing.start)
    importing.join()
    from foretrace.tracer.analysis.assembly import estimated, signature_of
    from foretrace.tracer.machine_code import binary_analysis, endings

    from .recorded import part_of

    members = family.finish() if family else []
    explanation = endings.explain(recording, engine.guest, engine.name)
    if recording.problem and explanation:
        recording = replace(recording, problem=explanation)
    part = part_of(recording)
    processes: tuple[ProcessRecord, ...] = ()
    if members:
        from foretrace.tracer.processes.combination import combine
        from foretrace.tracer.processes.family import records, with_members

        processes = records(tuple(program), recording, part, members)
        recording = with_members(recording, members)
        part = combine([part, *(member.part for member in members)])
    analysis = binary_analysis.analyse(part.raw, part.statistics, engine.guest, part.bursts)
    signature = signature_of(tuple(program), engine.name, engine.guest, started, recording, part, analysis, processes)
    if part.bursts is not None and part.bursts.gaps:
        signature = estimated(signature, analysis.operation_map, part, accuracy)
    return Traced(signature, recording.ending, analysis.operation_map, explanation)


def _import_for_machine_code(engine: QemuEngine) -> None:
    _import(f"machine_code.isa.{engine.guest}", "machine_code.binary_analysis", "machine_code.endings")
    from foretrace.tracer.machine_code.debug_info import symbols

    symbols.import_for_lines(str(engine.path))


def _import(*names: str) -> None:
    """Import what is not needed before a program's end, while it runs."""
    for name in (*names, "analysis.assembly", "signature.file"):
        importlib.import_module(f"foretrace.tracer.{name}")


def trace_python(
    target: str,
    arguments: Sequence[str] = (),
    hierarchies: Sequence[Hierarchy] = (DEFAULT_HIERARCHY,),
    *,
    is_module: bool = False,
    is_code: bool = False,
    interpreter: Interpreter | None = None,
    core: str = "markers",
    on_progress: OnProgress = _ignore,
    keep: StreamWriter | None = None,
    has_tree: bool = True,
) -> Traced:
    """Run a Python script, simulating `hierarchies`.

    With `is_module`, `target` is a module that is run as `python -m` does; with `is_code`, code as for `python -c`.
    Without an `interpreter` the one that runs us is taken.

    The address stream goes to `keep` as well, which then is for `kept_stream.commit`.

    `core` is one of `python_program.PythonCore`: how the blocks that run are told. Without `has_tree` the signature has
    no execution tree.

    Raises:
        ProgramError, EngineError: it cannot be traced.
    """
    from foretrace.tracer.python import program as python_program

    kind = Target.CODE if is_code else Target.MODULE if is_module else Target.SCRIPT
    engine = python_program.PythonEngine(
        target, arguments, kind=kind, core=python_program.PythonCore(core), interpreter=interpreter
    )
    command = (*(() if kind is Target.SCRIPT else (kind.value,)), target, *arguments)
    started = _now()
    lines = python_program.lines_timed()
    line_s = python_program.line_s() if core == python_program.PythonCore.SETTRACE else None
    importing = threading.Thread(target=_import, args=["python.analysis"])
    session = Session(engine, hierarchies, _tee(keep, engine, command), has_tree=has_tree)
    recording = session.run(on_progress, on_start=importing.start)
    importing.join()
    from foretrace.tracer.analysis.assembly import signature_of
    from foretrace.tracer.python import analysis as python_analysis

    from .recorded import part_of

    part = part_of(recording)
    analysis = python_analysis.analyse(part.raw, part.statistics, lines)
    signature = signature_of(command, engine.name, engine.guest, started, recording, part, analysis)
    if line_s is not None:
        most_lines = recording.processor_s / line_s
        provenance = msgspec.structs.replace(signature.provenance, most_lines=most_lines)
        signature = replace(signature, provenance=provenance)
    return Traced(signature, recording.ending, analysis.operation_map)


def _tee(keep: StreamWriter | None, engine: Engine, command: Sequence[str]) -> Callable[[object], object]:
    if keep is None:
        return lambda sink: sink
    from foretrace.tracer.stored.stored_stream import Head

    head = Head(source=engine.name, command=tuple(command))
    return lambda sink: keep.sink(sink, head)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
