"""The kinds of programs that can be traced: the engine of each, and the analysis of what it recorded.

What is not needed before a program's start takes long to import: that is done while the program runs.
"""

from __future__ import annotations

import importlib
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from foretrace.base.errors import HierarchyError
from foretrace.tracer.session.launch import CompiledProgram, PythonCall, PythonProgram, Target
from foretrace.tracer.session.options import TraceOptions
from foretrace.tracer.session.session import Engine, Progress

if TYPE_CHECKING:
    from foretrace.tracer.analysis.result import Analysis
    from foretrace.tracer.processes.family import Member
    from foretrace.tracer.python.forked import Outcome
    from foretrace.tracer.recording.recording import Recording
    from foretrace.tracer.signature.records import ProcessRecord, Signature

Step = Callable[[str], bool]
"""Names a step of the analysis before it begins. False: what takes long and can be left out should be."""
_MOST_INTERRUPTS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Analysed:
    """A recording with those of its children, and the analysis of all.

    `explanation` says in one line what the ending leaves open where the engine has a part in it; else it is empty.
    """

    recording: Recording
    processes: tuple[ProcessRecord, ...]
    analysis: Analysis
    explanation: str = ""


class Run(ABC):
    """A program that is about to be traced, of one kind.

    Attributes:
        engine: what runs it.
        command: the program and its arguments, for the signature.
        outcome: of a function of this interpreter: what came of it. None where it could not tell.
    """

    outcome: Outcome | None = None

    def __init__(self, engine: Engine, command: tuple[str, ...]) -> None:
        """Take the attributes."""
        self.engine, self.command = engine, command

    @abstractmethod
    def import_analysis(self) -> None:
        """Import what the analysis needs, while the program runs."""

    @abstractmethod
    def analyse(self, recording: Recording, members: Sequence[Member] | None, step: Step) -> Analysed:
        """Work out what was recorded of the program and of its children; None: they were not followed."""

    def watch(self, progress: Progress) -> None:  # noqa: B027 - most runs need not act
        """Hear how far the run has come."""

    def completed(self, signature: Signature, recording: Recording) -> Signature:
        """The signature with what only this kind of run knows."""
        return signature


def run_of(launch: CompiledProgram | PythonProgram, options: TraceOptions) -> Run:
    """The run of a program.

    Raises:
        ProgramError, EngineError: it cannot be traced.
        HierarchyError: an instruction cache is to be simulated for several processes.
    """
    if isinstance(launch, CompiledProgram):
        return BinaryRun(launch, options)
    from foretrace.tracer.python.program import PythonCore, PythonEngine

    engine = PythonEngine(
        launch.target, launch.arguments, kind=launch.kind, core=PythonCore(options.python_core),
        interpreter=launch.interpreter,
    )  # fmt: skip
    kind = () if launch.kind is Target.SCRIPT else (launch.kind.value,)
    return PythonRun(engine, (*kind, launch.target, *launch.arguments), options)


class BinaryRun(Run):
    """A compiled program, under QEMU."""

    def __init__(self, program: CompiledProgram, options: TraceOptions) -> None:
        """Prepare the run; see `run_of`."""
        from foretrace.tracer.qemu.binary import QemuEngine

        if options.follow_children and any(hierarchy.instruction is not None for hierarchy in options.hierarchies):
            raise HierarchyError(
                "an instruction cache cannot be simulated together with --follow-children; leave out one"
            )
        self._qemu = QemuEngine(program.command, program.environment, program.preloads)
        super().__init__(self._qemu, tuple(program.command))
        self._begun_s = time.time()

    def import_analysis(self) -> None:
        """See `Run`."""
        _import(f"isa.{self.engine.guest}", "analysis.machine_code.binary_analysis", "analysis.machine_code.endings")
        from foretrace.tracer.debug_info import symbols

        symbols.import_for_lines(str(self._qemu.path))

    def analyse(self, recording: Recording, members: Sequence[Member] | None, step: Step) -> Analysed:
        """See `Run`."""
        from foretrace.tracer.analysis.machine_code import binary_analysis, endings
        from foretrace.tracer.debug_info.perf_map import read_perf_map, read_perf_maps

        engine = self._qemu
        explanation = endings.explain(recording, engine.guest, engine.name)
        if recording.problem and explanation:
            recording = replace(recording, problem=explanation)
        processes: tuple[ProcessRecord, ...] = ()
        if not members:
            compiled = read_perf_map(recording.pid, self._begun_s)
        else:
            from foretrace.tracer.processes.combination import combine
            from foretrace.tracer.processes.family import Ends, parent_positions, records, with_members

            processes = records(self.command, recording, members, Ends(recording, members))
            recording = with_members(recording, members)
            parents = parent_positions(members)
            recordings = [recording, *(member.recording for member in members)]
            forked_by = [
                None, *(None if one.command else parent for one, parent in zip(members, parents[1:], strict=True))
            ]  # fmt: skip
            perf_maps = read_perf_maps([one.pid for one in recordings], forked_by, self._begun_s)
            recording, compiled = combine(recordings, parents, perf_maps)
        analysis = binary_analysis.analyse(
            recording.raw, recording.statistics, engine.guest, recording.bursts, compiled, step
        )
        if analysis.selection is not None:
            emulated, here = engine.features()
            selection = msgspec.structs.replace(analysis.selection, engine_features=emulated, host_features=here)
            analysis = replace(analysis, selection=selection)
        return Analysed(recording, processes, analysis, explanation)


class PythonRun(Run):
    """A Python program, with the agent inside its interpreter."""

    def __init__(self, engine: Engine, command: tuple[str, ...], options: TraceOptions) -> None:
        """Time lines of Python on this machine, in which the agent's times are converted."""
        from foretrace.tracer.python.program import PythonCore, line_s, lines_timed

        super().__init__(engine, command)
        self._lines = lines_timed()
        self._line_s = line_s() if options.python_core == PythonCore.SETTRACE else None

    def import_analysis(self) -> None:
        """See `Run`."""
        _import("analysis.python.python_analysis")

    def analyse(self, recording: Recording, members: Sequence[Member] | None, step: Step) -> Analysed:
        """See `Run`."""
        from foretrace.tracer.analysis.python import python_analysis

        processes: tuple[ProcessRecord, ...] = ()
        if members is not None:
            from foretrace.tracer.processes.python_family import summed_up

            recording, processes = summed_up(self.command, recording, members)
        analysis = python_analysis.analyse(recording.raw, recording.statistics, self._lines, recording.bursts)
        return Analysed(recording, processes, analysis)

    def completed(self, signature: Signature, recording: Recording) -> Signature:
        """See `Run`."""
        if self._line_s is None:
            return signature
        return _with_provenance(signature, most_lines=recording.processor_s / self._line_s)


class CallRun(PythonRun):
    """A function that is called in a fork of this interpreter.

    The third interrupt (^C) kills a child that does not end by it.
    """

    def __init__(self, call: PythonCall, options: TraceOptions) -> None:
        """Prepare the run; see `run_of`."""
        from foretrace.tracer.python.forked import ForkedEngine
        from foretrace.tracer.python.program import PythonCore

        self._forked = ForkedEngine(call.function, PythonCore(options.python_core))
        super().__init__(self._forked, (call.name,), options)
        self.was_killed = False
        self._was_asked = False

    def watch(self, progress: Progress) -> None:
        """See `Run`."""
        self._forked.relay()
        if progress.interrupts >= _MOST_INTERRUPTS and not progress.ended and self._forked.pid is not None:
            os.kill(self._forked.pid, signal.SIGKILL)
            self.was_killed = True

    def find_outcome(self) -> None:
        """Read what came of the function, once.

        Raises:
            EngineError: the interpreter could not be forked, or is being traced itself.
        """
        if not self._was_asked:
            self._was_asked = True
            self.outcome = self._forked.outcome()

    def completed(self, signature: Signature, recording: Recording) -> Signature:
        """See `Run`."""
        self.find_outcome()
        signature = super().completed(signature, recording)
        if self.outcome is not None and self.outcome.shared:
            note = f"first writes to memory that existed before cost a page fault each: {self.outcome.shared}"
            return _with_provenance(signature, notes=(*signature.provenance.notes, note))
        from foretrace.tracer.python.resident import largest

        return _with_provenance(signature, mapped=largest(self._forked.resident))


def _with_provenance(signature: Signature, **changes: object) -> Signature:
    return replace(signature, provenance=msgspec.structs.replace(signature.provenance, **changes))


def _import(*names: str) -> None:
    """Import what is not needed before a program's end, while it runs."""
    for name in (*names, "assembly", "signature.file"):
        importlib.import_module(f"foretrace.tracer.{name}")
