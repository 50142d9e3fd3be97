"""From a program to its signature: run it under an engine, then work out what its stream meant.

What is not needed before a program's start takes long to import: that is done while the program runs.
"""

from __future__ import annotations

import datetime
import importlib
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from foretrace.base.errors import EngineError, ForetraceError, HierarchyError
from foretrace.cache_sim.base.hierarchy import DEFAULT_HIERARCHY, Hierarchy
from foretrace.tracer.recording.recording import Ending
from foretrace.tracer.sampling.burst_schedule import Accuracy, Schedule, schedule_of
from foretrace.tracer.session.launch import CompiledProgram, Interpreter, PythonCall, PythonProgram, Target
from foretrace.tracer.session.session import Engine, Progress, Session
from foretrace.tracer.session.structure import ALL_BUT_DEPENDENCES, Structure

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from foretrace.tracer.python.forked import Outcome
    from foretrace.tracer.qemu.binary import QemuEngine
    from foretrace.tracer.signature.records import ProcessRecord, Signature
    from foretrace.tracer.stored.stored_stream import StreamWriter

OnProgress = Callable[[Progress], None]
_MOST_INTERRUPTS = 3


def _ignore(_progress: Progress) -> None:
    """Show nothing."""


class _Steps:
    """Says what is being worked out once the program has ended, and whether there is time for what takes long."""

    def __init__(self, progress: Progress, on_progress: OnProgress) -> None:
        self._progress, self._on_progress = progress, on_progress

    def __call__(self, what: str) -> bool:
        """Before a step. False: what can be left out should be."""
        self._progress.stage = what
        self._on_progress(self._progress)
        return not self._progress.hurries


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
    """Of a function of this interpreter: what came of it. None where it could not tell."""


def trace_program(
    launch: CompiledProgram | PythonProgram | PythonCall,
    hierarchies: Sequence[Hierarchy] = (DEFAULT_HIERARCHY,),
    on_progress: OnProgress = _ignore,
    keep: StreamWriter | None = None,
    *,
    follow_children: bool = False,
    accuracy: Accuracy = Accuracy.AUTO,
    seed: int | None = None,
    python_core: str = "markers",
    structure: Structure = ALL_BUT_DEPENDENCES,
) -> Traced:
    """Run what `launch` says under the engine for it, simulating `hierarchies`.

    Args:
        launch: what to run, see `launch.launch_of`.
        hierarchies: caches to simulate while it runs.
        on_progress: hears how far the run has come.
        keep: the address stream goes there, too, and then is for `kept_stream.commit`.
        follow_children: also trace the processes that the program forks, and programs that they become; of a Python
            program also those that it starts in the same interpreter.
        accuracy: how many of a run's accesses to record.
        seed: decides where bursts of recorded accesses lie; None for chance.
        python_core: one of `python_program.PythonCore`: how to follow a Python program.
        structure: what of the run's structure goes into the signature.

    Returns:
        The signature, and how the program ended.

    Raises:
        ProgramError, EngineError: it cannot be traced.
        HierarchyError: an instruction cache is to be simulated for several processes.
        ForetraceError: the options do not go together with the program or with each other.
    """
    if keep is not None and follow_children:
        raise ForetraceError("a kept stream has the accesses of one process: it cannot follow children")
    if structure.has_dependences and (follow_children or not structure.has_tree):
        raise ForetraceError("dependences are those of the loops of one process's execution tree")
    if isinstance(launch, CompiledProgram):
        return trace_binary(
            launch.command,
            hierarchies,
            on_progress,
            keep,
            follow_children=follow_children,
            accuracy=accuracy,
            seed=seed,
            structure=structure,
        )
    if isinstance(launch, PythonCall):
        if follow_children:
            raise ForetraceError("children of a function of this interpreter are not followed; trace it as a program")
        return trace_call(
            launch,
            hierarchies,
            core=python_core,
            on_progress=on_progress,
            keep=keep,
            accuracy=accuracy,
            seed=seed,
            structure=structure,
        )
    return trace_python(
        launch.target,
        launch.arguments,
        hierarchies,
        is_module=launch.kind is Target.MODULE,
        is_code=launch.kind is Target.CODE,
        interpreter=launch.interpreter,
        core=python_core,
        on_progress=on_progress,
        keep=keep,
        accuracy=accuracy,
        seed=seed,
        structure=structure,
        follow_children=follow_children,
    )


def trace_binary(
    program: Sequence[str],
    hierarchies: Sequence[Hierarchy] = (DEFAULT_HIERARCHY,),
    on_progress: OnProgress = _ignore,
    keep: StreamWriter | None = None,
    *,
    follow_children: bool = False,
    accuracy: Accuracy = Accuracy.AUTO,
    seed: int | None = None,
    structure: Structure = ALL_BUT_DEPENDENCES,
) -> Traced:
    """Run a compiled program (its name, then its arguments), simulating `hierarchies`.

    The address stream goes to `keep` as well, which then is for `kept_stream.commit`. With `follow_children` the
    processes it forks, and the programs that it or they become, are traced too; the signature sums them up. Below
    `Accuracy.HIGH` accesses are recorded in bursts, at places that `seed` decides, or chance (docs/sampling.md); with
    `Accuracy.AUTO` only those beyond about 10^9, and none of a run whose stream is kept.
    `structure` says what of the run's structure goes into the signature.

    Raises:
        ProgramError, EngineError: it cannot be traced.
        HierarchyError: an instruction cache is to be simulated for several processes.
        ForetraceError: the stream of a run with bursts is to be kept.
    """
    from foretrace.tracer.qemu.binary import QemuEngine

    if follow_children and any(hierarchy.instruction is not None for hierarchy in hierarchies):
        raise HierarchyError("an instruction cache cannot be simulated together with --follow-children; leave out one")

    schedule = _schedule(accuracy, seed, keep, structure)
    engine = QemuEngine(program)
    started, begun_s = _now(), time.time()
    family = None
    if follow_children:
        from foretrace.tracer.processes.family import Family

        family = Family(engine, hierarchies, schedule, structure)
    tee = _tee(keep, engine, program)
    session = Session(engine, hierarchies, tee, family, schedule=schedule, structure=structure)
    importing = threading.Thread(target=_import_for_machine_code, args=[engine])
    recording = session.run(on_progress, on_start=importing.start)
    importing.join()
    from foretrace.tracer.analysis.machine_code import binary_analysis, endings
    from foretrace.tracer.debug_info.perf_map import read_perf_map, read_perf_maps
    from foretrace.tracer.recording.part import part_of

    from .assembly import estimated, signature_of

    step = _Steps(session.progress, on_progress)
    if family:
        step("reading the streams of its children")
    members = family.finish() if family else []
    explanation = endings.explain(recording, engine.guest, engine.name)
    if recording.problem and explanation:
        recording = replace(recording, problem=explanation)
    part = part_of(recording)
    processes: tuple[ProcessRecord, ...] = ()
    if not members:
        compiled = read_perf_map(recording.pid, begun_s)
    else:
        from foretrace.tracer.processes.combination import combine
        from foretrace.tracer.processes.family import Ends, records, with_members

        processes = records(tuple(program), recording, part, members, Ends(recording, members))
        recording = with_members(recording, members)
        position = {0: 0} | {member.number: place for place, member in enumerate(members, 1)}
        parents = [0, *(position.get(member.parent, place) for place, member in enumerate(members, 1))]
        pids = [recording.pid, *(member.pid for member in members)]
        forked_by = [None, *(None if one.command else parent for one, parent in zip(members, parents[1:], strict=True))]
        part, compiled = combine(
            [part, *(member.part for member in members)], parents, read_perf_maps(pids, forked_by, begun_s)
        )
    analysis = binary_analysis.analyse(part.raw, part.statistics, engine.guest, part.bursts, compiled, step)
    if analysis.selection is not None:
        emulated, here = engine.features()
        selection = msgspec.structs.replace(analysis.selection, engine_features=emulated, host_features=here)
        analysis = msgspec.structs.replace(analysis, selection=selection)
    signature = signature_of(tuple(program), engine.name, engine.guest, started, recording, part, analysis, processes)
    if part.bursts is not None and part.bursts.gaps:
        signature = estimated(signature, analysis.operation_map, part, accuracy)
    return Traced(signature, recording.ending, analysis.operation_map, explanation)


def _schedule(accuracy: Accuracy, seed: int | None, keep: StreamWriter | None, structure: Structure) -> Schedule | None:
    """When bursts come; None where all accesses are recorded."""
    if keep is None and not structure.has_dependences:
        return schedule_of(accuracy, seed)
    if accuracy in (Accuracy.AUTO, Accuracy.HIGH):
        return None
    what = "a kept stream has" if keep is not None else "dependences follow from"
    raise ForetraceError(f"{what} all accesses: --accuracy high goes with it, {accuracy} does not")


def _import_for_machine_code(engine: QemuEngine) -> None:
    _import(f"isa.{engine.guest}", "analysis.machine_code.binary_analysis", "analysis.machine_code.endings")
    from foretrace.tracer.debug_info import symbols

    symbols.import_for_lines(str(engine.path))


def _import(*names: str) -> None:
    """Import what is not needed before a program's end, while it runs."""
    for name in (*names, "assembly", "signature.file"):
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
    accuracy: Accuracy = Accuracy.AUTO,
    seed: int | None = None,
    structure: Structure = ALL_BUT_DEPENDENCES,
    follow_children: bool = False,
) -> Traced:
    """Run a Python script, simulating `hierarchies`.

    With `is_module`, `target` is a module that is run as `python -m` does; with `is_code`, code as for `python -c`.
    Without an `interpreter` the one that runs us is taken.

    The address stream goes to `keep` as well, which then is for `kept_stream.commit`. `accuracy` and `seed` are as in
    `trace_binary`; all accesses are counted, and those in bursts simulated.

    `core` is one of `python_program.PythonCore`: how the blocks that run are told. `structure` says
    what of the run's structure goes into the signature. With `follow_children` the Python processes that it starts are
    traced too; the signature sums them up.

    Raises:
        ProgramError, EngineError: it cannot be traced.
        ForetraceError: the stream of a run with bursts is to be kept.
    """
    from foretrace.tracer.python import program as python_program

    kind = Target.CODE if is_code else Target.MODULE if is_module else Target.SCRIPT
    engine = python_program.PythonEngine(
        target, arguments, kind=kind, core=python_program.PythonCore(core), interpreter=interpreter
    )
    command = (*(() if kind is Target.SCRIPT else (kind.value,)), target, *arguments)
    return _trace_python(
        engine, command, hierarchies, core, on_progress, keep, accuracy, seed, structure, follow_children
    )


def trace_call(
    call: PythonCall,
    hierarchies: Sequence[Hierarchy] = (DEFAULT_HIERARCHY,),
    *,
    core: str = "markers",
    on_progress: OnProgress = _ignore,
    keep: StreamWriter | None = None,
    accuracy: Accuracy = Accuracy.AUTO,
    seed: int | None = None,
    structure: Structure = ALL_BUT_DEPENDENCES,
) -> Traced:
    """Call a function in a fork of this interpreter, simulating `hierarchies`.

    `core`, `keep`, `accuracy`, `seed` and `structure` are as for `trace_python`. The third interrupt (^C) kills a child
    that does not end by it.

    Raises:
        EngineError: this interpreter cannot be forked, or is being traced itself.
        KeyboardInterrupt: the child was killed by an interrupt.
    """
    from foretrace.tracer.python.forked import ForkedEngine
    from foretrace.tracer.python.program import PythonCore

    engine = ForkedEngine(call.function, PythonCore(core))

    def relay(progress: Progress) -> None:
        engine.relay()
        if progress.interrupts >= _MOST_INTERRUPTS and not progress.ended and engine.pid is not None:
            os.kill(engine.pid, signal.SIGKILL)
            killed.append(engine.pid)
        on_progress(progress)

    killed: list[int] = []

    try:
        traced = _trace_python(engine, (call.name,), hierarchies, core, relay, keep, accuracy, seed, structure)
    except EngineError:
        engine.outcome()  # knows better what was wrong
        raise
    outcome = engine.outcome()
    if killed or traced.ending.signal_number == signal.SIGINT:
        raise KeyboardInterrupt
    provenance = traced.signature.provenance
    if outcome is not None and outcome.shared:
        note = f"first writes to memory that existed before cost a page fault each: {outcome.shared}"
        provenance = msgspec.structs.replace(provenance, notes=(*provenance.notes, note))
    else:
        from foretrace.tracer.python.resident import largest

        provenance = msgspec.structs.replace(provenance, mapped=largest(engine.resident))
    return replace(traced, signature=replace(traced.signature, provenance=provenance), outcome=outcome)


def _trace_python(
    engine: Engine,
    command: tuple[str, ...],
    hierarchies: Sequence[Hierarchy],
    core: str,
    on_progress: OnProgress,
    keep: StreamWriter | None,
    accuracy: Accuracy,
    seed: int | None,
    structure: Structure,
    follow_children: bool = False,
) -> Traced:
    from foretrace.tracer.python import program as python_program

    schedule = _schedule(accuracy, seed, keep, structure)
    started = _now()
    lines = python_program.lines_timed()
    line_s = python_program.line_s() if core == python_program.PythonCore.SETTRACE else None
    importing = threading.Thread(target=_import, args=["analysis.python.python_analysis"])
    tee = _tee(keep, engine, command)
    family = None
    if follow_children:
        from foretrace.tracer.processes.family import Family

        family = Family(engine, hierarchies, schedule, structure)
    session = Session(engine, hierarchies, tee, family, schedule=schedule, structure=structure)
    recording = session.run(on_progress, on_start=importing.start)
    importing.join()
    from foretrace.tracer.analysis.python import python_analysis
    from foretrace.tracer.recording.part import part_of

    from .assembly import estimated, signature_of

    members = family.finish() if family else []
    part = part_of(recording)
    processes: tuple[ProcessRecord, ...] = ()
    if family is not None:
        from foretrace.tracer.processes.python_family import summed_up

        recording, part, processes = summed_up(command, recording, part, members)
    analysis = python_analysis.analyse(part.raw, part.statistics, lines, part.bursts)
    signature = signature_of(command, engine.name, engine.guest, started, recording, part, analysis, processes)
    if part.bursts is not None and part.bursts.gaps:
        signature = estimated(signature, analysis.operation_map, part, accuracy)
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
