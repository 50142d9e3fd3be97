"""Result of the analysis of a recording, for machine code and Python alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from foretrace.tracer.analysis.execution_tree.sampled_work import SampledWork
from foretrace.tracer.signature.records import AnalysedCode
from foretrace.tracer.signature.selection import Selection


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Analysis(AnalysedCode):
    """The analysed code, and what else the signature is made with.

    `operation_map`: int64 [raw operations], the id in `operations` of each operation of the recording.
    `block_map`: int64 [raw block ids], the block that each engine block begins in; empty where code is not fetched.
    `decoded_share`: share of the executed instructions that were decoded. `sampled_work`: work done by each of
    `RawTrace.event_samples`; empty without a tree. `unseen_time_share` and `unseen_functions` are as in `Unseen`.
    `notes` are for the user.
    """

    operation_map: npt.NDArray[np.int64]
    block_map: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    decoded_share: float = 1.0
    notes: Sequence[str] = ()
    sampled_work: tuple[SampledWork, ...] = ()
    rank_work: npt.NDArray[np.int64] | None = None
    """`RankRecord.work` of a rank of a parallel run; None of any other program."""
    unseen_time_share: float | None = None
    unseen_functions: tuple[str, ...] = ()
    selection: Selection | None = None
