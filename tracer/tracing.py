"""From a program to its signature: run it under an engine, then work out what its stream meant.

Each engine and its analysis are imported when they are needed: neither needs what the other one does.
"""

from __future__ import annotations

import datetime
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from foretrace import __version__
from foretrace.cache_sim.hierarchy import DEFAULT_HIERARCHY, Hierarchy

from .analysis import Analysis
from .session import Ending, Progress, Recording, Session
from .signature import Provenance, Signature
from .unseen import unseen_of

OnProgress = Callable[[Progress], None]


def _ignore(_progress: Progress) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A signature, and how the program that it is of came to its end.

    `explanation` says in one line what the status leaves open where the engine has a part in it; else it is empty.
    """

    signature: Signature
    ending: Ending
    explanation: str = ""


def trace_binary(
    program: Sequence[str],
    hierarchies: Sequence[Hierarchy] = (DEFAULT_HIERARCHY,),
    on_progress: OnProgress = _ignore,
) -> Traced:
    """Run a compiled program (its name, then its arguments), simulating `hierarchies`.

    Raises:
        ProgramError, EngineError: it cannot be traced.
    """
    from . import binary_analysis, endings
    from .binary import QemuEngine

    engine = QemuEngine(program)
    started = _now()
    recording = Session(engine, hierarchies).run(on_progress)
    explanation = endings.explain(recording, engine.guest, engine.name)
    if recording.problem and explanation:
        recording = replace(recording, problem=explanation)
    analysis = binary_analysis.analyse(recording.raw, recording.simulator.statistics(), engine.guest)
    traced = _traced(tuple(program), engine.name, engine.guest, started, recording, analysis)
    return replace(traced, explanation=explanation)


def trace_python(
    target: str,
    arguments: Sequence[str] = (),
    hierarchies: Sequence[Hierarchy] = (DEFAULT_HIERARCHY,),
    *,
    is_module: bool = False,
    core: str = "markers",
    on_progress: OnProgress = _ignore,
) -> Traced:
    """Run a Python script (or, with `is_module`, a module as `python -m` does), simulating `hierarchies`.

    `core` is one of `python_program.PythonCore`: how the blocks that run are told.

    Raises:
        ProgramError, EngineError: it cannot be traced.
    """
    from . import python_analysis
    from .python_program import PythonCore, PythonEngine

    engine = PythonEngine(target, arguments, is_module=is_module, core=PythonCore(core))
    started = _now()
    recording = Session(engine, hierarchies).run(on_progress)
    analysis = python_analysis.analyse(recording.raw, recording.simulator.statistics())
    command = (*(("-m",) if is_module else ()), target, *arguments)
    return _traced(command, engine.name, engine.guest, started, recording, analysis)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _traced(
    command: tuple[str, ...], engine: str, guest: str, started: str, recording: Recording, analysis: Analysis
) -> Traced:
    mapping, count = analysis.operation_map, len(analysis.operations)
    reuse = recording.simulator.reuse()
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
            unseen=unseen_of(recording.raw, recording.unseen_calls),
            untraced_children=recording.untraced_children,
            untraced_threads=recording.untraced_threads,
            threads=recording.threads,
            notes=tuple(analysis.notes),
        ),
        blocks=analysis.blocks,
        operations=analysis.operations,
        loops=analysis.loops,
        idioms=analysis.idioms,
        edges=analysis.edges,
        hierarchies=[
            simulated.merged(mapping, count).merged_blocks(analysis.block_map, len(analysis.blocks))
            for simulated in recording.simulator.simulated()
        ],
        reuse=None if reuse is None else reuse.merged(mapping, count),
    )
    return Traced(signature, recording.ending)
