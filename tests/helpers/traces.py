"""Traces of programs, options given one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from foretrace.cache_sim.base.hierarchy import DEFAULT_HIERARCHY, Hierarchy
from foretrace.tracer.session.launch import CompiledProgram, Interpreter, PythonCall, PythonProgram, Target
from foretrace.tracer.session.options import TraceOptions
from foretrace.tracer.session.session import Progress
from foretrace.tracer.stored.stored_stream import StreamWriter
from foretrace.tracer.tracing import Traced, trace_program


def _ignore(_progress: Progress) -> None:
    """Show nothing."""


def trace_binary(
    command: Sequence[str],
    hierarchies: Sequence[Hierarchy] = (DEFAULT_HIERARCHY,),
    on_progress: Callable[[Progress], None] = _ignore,
    keep: StreamWriter | None = None,
    **options: Any,
) -> Traced:
    return trace_program(CompiledProgram(tuple(command)), TraceOptions(hierarchies, **options), on_progress, keep)


def trace_python(
    target: str,
    arguments: Sequence[str] = (),
    hierarchies: Sequence[Hierarchy] = (DEFAULT_HIERARCHY,),
    *,
    kind: Target = Target.SCRIPT,
    interpreter: Interpreter | None = None,
    core: str = "markers",
    on_progress: Callable[[Progress], None] = _ignore,
    keep: StreamWriter | None = None,
    **options: Any,
) -> Traced:
    launch = PythonProgram(target, tuple(arguments), kind, interpreter)
    return trace_program(launch, TraceOptions(hierarchies, python_core=core, **options), on_progress, keep)


def trace_call(call: PythonCall, **options: Any) -> Traced:
    return trace_program(call, TraceOptions(**options))
