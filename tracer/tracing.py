"""From a program to its signature: run it under an engine, then work out what its stream meant."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foretrace import __version__
from foretrace.cache_sim.hierarchy import Hierarchy

from . import binary_analysis, python_analysis
from .binary import QemuEngine
from .python_program import PythonEngine
from .session import Ending, Engine, Progress, Recording, Session
from .signature import Block, Idiom, Loop, MemoryOperation, Provenance, Signature


class Analysis:
    """What both analyses return: see `binary_analysis.BinaryAnalysis`."""

    blocks: Sequence[Block]
    operations: Sequence[MemoryOperation]
    loops: Sequence[Loop]
    idioms: Sequence[Idiom]
    edges: npt.NDArray[np.uint64]
    operation_map: npt.NDArray[np.int64]
    decoded_share: float
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Traced:
    """A signature, and how the program that it is of came to its end."""

    signature: Signature
    ending: Ending


def trace_binary(
    program: Sequence[str],
    hierarchies: Sequence[Hierarchy],
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Traced:
    """Run a compiled program and its arguments, simulating `hierarchies`.

    Raises:
        ProgramError, EngineError: it cannot be traced.
    """
    return _trace(QemuEngine(program), program, hierarchies, on_progress)
