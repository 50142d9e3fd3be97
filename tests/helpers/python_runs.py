"""Traced runs of small Python programs, for the tests of the Python tracer."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from foretrace.tracer.analysis.python.python_analysis import analyse
from foretrace.tracer.analysis.result import Analysis
from foretrace.tracer.python.program import PythonCore, PythonEngine
from foretrace.tracer.reader.raw_trace import RawArrayOperation, RawPythonBlock
from foretrace.tracer.recording.recording import Recording
from foretrace.tracer.session.session import Session
from foretrace.tracer.signature.records import Idiom, Loop, MemoryOperation

RUNNER = """
import os, signal, sys
from foretrace.tracer.session.launch import Target
from foretrace.cache_sim.base.hierarchy import DEFAULT_HIERARCHY
from foretrace.tracer.python.program import PythonEngine
from foretrace.tracer.session.session import Session
core, target, *arguments = sys.argv[1:]
kind = Target(target) if target in ("-m", "-c") else Target.SCRIPT
if kind is not Target.SCRIPT:
    target, *arguments = arguments
ending = Session(PythonEngine(target, arguments, kind=kind, core=core)).run().ending
if ending.signal_number:
    signal.signal(ending.signal_number, signal.SIG_DFL)
    os.kill(os.getpid(), ending.signal_number)
os._exit(ending.exit_code)
"""


def run_plain(directory: Path, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """What the interpreter alone does with these arguments."""
    command = [sys.executable, *options, *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True)


def run_traced(
    directory: Path, *arguments: str, options: tuple[str, ...] = (), core: str = "markers"
) -> subprocess.CompletedProcess[str]:
    """What it does when it is traced by a foretrace that was started with the same options."""
    command = [sys.executable, *options, "-c", RUNNER, core, *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True)


@dataclass(frozen=True, slots=True)
class Run:
    """A script that was traced."""

    script: Path
    recording: Recording
    analysis: Analysis

    def blocks(self, function: str = "<module>") -> list[RawPythonBlock]:
        """The script's blocks in a function, as they were first seen."""
        return [b for b in self.recording.raw.python_blocks if b.file == str(self.script) and b.function == function]

    def executions(self, line: int, function: str = "<module>") -> int:
        """How often a line was begun: not the entries of functions, nor what goes on after a call."""
        blocks = [b for b in self.blocks(function) if b.line == line and b.instructions and b.offset_bytes]
        return sum(block.executions for block in blocks)

    def arrays(self, line: int) -> list[RawArrayOperation]:
        """The array operations charged to a line."""
        blocks = {b.block_id for b in self.recording.raw.python_blocks if b.file == str(self.script) and b.line == line}
        return [a for a in self.recording.raw.array_operations if a.block_id in blocks]

    def operations(self, line: int) -> list[MemoryOperation]:
        """The memory operations of a line."""
        return [o for o in self.analysis.operations if o.file == str(self.script) and o.line == line]

    def loops(self) -> list[Loop]:
        """The script's loops in the order in which they first ran."""
        own = [loop for loop in self.analysis.loops if loop.file == str(self.script)]
        return sorted(own, key=lambda loop: loop.order)

    def idioms(self, line: int) -> list[Idiom]:
        """The gathers and scatters of a line."""
        return [one for one in self.all_idioms(line) if one.kind.is_indirect]

    def all_idioms(self, line: int) -> list[Idiom]:
        """The idioms of a line."""
        return [one for one in self.analysis.idioms if one.file == str(self.script) and one.line == line]


def trace(directory: Path, source: str, *arguments: str, core: PythonCore = PythonCore.MARKERS) -> Run:
    """Trace a script given as text."""
    script = directory / "program.py"
    script.write_text(source)
    recording = Session(PythonEngine(str(script), arguments, core=core)).run()
    assert recording.problem == ""
    assert recording.ending.exit_code == 0
    return Run(script, recording, analyse(recording.raw, recording.statistics))


def shape(operation: RawArrayOperation) -> str:
    """An array operation's operands in short: "load8 gather8 store8", an index marked by a star."""
    words = []
    for one in operation.operands:
        kind = ("scatter" if one.is_store else "gather") if one.is_indexed else ("store" if one.is_store else "load")
        words.append(f"{kind}{one.size_bytes}{'*' if one.is_index else ''}")
    return " ".join(words)
