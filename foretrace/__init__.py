"""foretrace: trace a program once, predict it on any machine, know what to port.

The library's face, for programs; the command line has the same verbs. Names are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foretrace.cache_sim.hierarchy import DEFAULT_HIERARCHY as DEFAULT_HIERARCHY
    from foretrace.cache_sim.hierarchy import Hierarchy as Hierarchy
    from foretrace.profiles.library import find as find_machine
    from foretrace.replay.offload.triage import triage as triage
    from foretrace.replay.predict import predict as predict
    from foretrace.tracer.signature.file import read_signature as read_signature
    from foretrace.tracer.signature.file import write_signature as write_signature
    from foretrace.tracer.tracing import trace_binary as trace_binary
    from foretrace.tracer.tracing import trace_python as trace_python

    from .errors import ForetraceError as ForetraceError

__version__ = "0.1.0"

_HOMES = {
    "DEFAULT_HIERARCHY": ("foretrace.cache_sim.hierarchy", "DEFAULT_HIERARCHY"),
    "ForetraceError": ("foretrace.errors", "ForetraceError"),
    "Hierarchy": ("foretrace.cache_sim.hierarchy", "Hierarchy"),
    "find_machine": ("foretrace.profiles.library", "find"),
    "predict": ("foretrace.replay.predict", "predict"),
    "read_signature": ("foretrace.tracer.signature.file", "read_signature"),
    "trace_binary": ("foretrace.tracer.tracing", "trace_binary"),
    "trace_python": ("foretrace.tracer.tracing", "trace_python"),
    "triage": ("foretrace.replay.offload.triage", "triage"),
    "write_signature": ("foretrace.tracer.signature.file", "write_signature"),
}

__all__ = [
    "DEFAULT_HIERARCHY",
    "ForetraceError",
    "Hierarchy",
    "__version__",
    "find_machine",
    "predict",
    "read_signature",
    "trace_binary",
    "trace_python",
    "triage",
    "write_signature",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)
