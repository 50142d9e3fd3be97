"""Result of the analysis of a recording, for machine code and Python alike."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from foretrace.tracer.analysis.execution_tree.sampled_work import SampledWork
from foretrace.tracer.signature.data_flow_records import DataFlow, Dependence, ExaminedLoop
from foretrace.tracer.signature.records import (
    NO_PATHS,
    ArrayTime,
    Block,
    Idiom,
    InterpreterTime,
    LinearAlgebra,
    Loop,
    MemoryOperation,
    Paths,
)
from foretrace.tracer.signature.selection import Selection
from foretrace.tracer.signature.tree_records import ExecutionTree


class Analysis(msgspec.Struct, frozen=True, eq=False):
    """Blocks, operations, loops and other parts of an analysed program, ready for its `Signature`.

    `operation_map`: int64 [raw operations], the id in `operations` of each operation of the recording.
    `block_map`: int64 [raw block ids], the block that each engine block begins in; empty where code is not fetched.
    `edges`: uint64 [edges, 3], ids of `blocks`. `decoded_share`: share of the executed instructions that were decoded.
    `sampled_work`: work done by each of `RawTrace.event_samples`; empty without a tree.
    `unseen_time_share` and `unseen_functions` are as in `Unseen`. `notes` are for the user.
    """

    blocks: Sequence[Block]
    operations: Sequence[MemoryOperation]
    loops: Sequence[Loop]
    idioms: Sequence[Idiom]
    edges: npt.NDArray[np.uint64]
    operation_map: npt.NDArray[np.int64]
    block_map: npt.NDArray[np.int64] = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))
    decoded_share: float = 1.0
    notes: Sequence[str] = ()
    paths: Paths = NO_PATHS
    interpreter_times: Sequence[InterpreterTime] = ()
    array_times: Sequence[ArrayTime] = ()
    linear_algebra: Sequence[LinearAlgebra] = ()
    tree: ExecutionTree | None = None
    data_flow: DataFlow | None = None
    dependences: tuple[Dependence, ...] = ()
    examined_loops: tuple[ExaminedLoop, ...] = ()
    sampled_work: tuple[SampledWork, ...] = ()
    unseen_time_share: float | None = None
    unseen_functions: tuple[str, ...] = ()
    selection: Selection | None = None
