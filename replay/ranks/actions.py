"""Actions of ranks: the form in which all parallel runs come to the replay, wherever they were traced."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto

import numpy as np
import numpy.typing as npt

ACTION = np.dtype(
    [(name, "i4") for name in ("kind", "peer", "tag", "request", "line", "first_count")]
    + [("size_bytes", "f8"), ("amount", "f8")]
)
"""An action. `peer` is the partner (-1: any) or the root; `tag` -1 any; `request` 0 for a call that waits, else the
number of its request; `line` of the file it is from; `first_count` the first of the sizes of a collective by rank, -1
if all are alike; `amount` flops of a computation or after a reduction, seconds of a sleep."""


class Kind(IntEnum):
    """Kind of an action, in the order of `enum kind` in _time_independent.c."""

    COMPUTE = 0
    SLEEP = auto()
    SEND = auto()
    ISEND = auto()
    RECEIVE = auto()
    IRECEIVE = auto()
    WAIT = auto()
    WAIT_ALL = auto()
    TEST = auto()
    EXCHANGE = auto()
    BARRIER = auto()
    BCAST = auto()
    REDUCE = auto()
    ALLREDUCE = auto()
    ALLTOALL = auto()
    ALLTOALLV = auto()
    GATHER = auto()
    SCATTER = auto()
    GATHERV = auto()
    SCATTERV = auto()
    ALLGATHER = auto()
    ALLGATHERV = auto()
    REDUCE_SCATTER = auto()
    SCAN = auto()
    EXSCAN = auto()


COLLECTIVES = tuple(kind for kind in Kind if kind >= Kind.BARRIER)


@dataclass(frozen=True, slots=True, eq=False)
class RankActions:
    """Actions of all ranks of a run.

    Attributes:
        actions: of each rank (`ACTION`), rank by rank.
        firsts: [ranks + 1] first action of each rank.
        requests: [ranks] number of requests of each.
        counts: bytes by rank of collectives: see `first_count`.
        origin: file or program, for messages.
    """

    actions: npt.NDArray[np.void]
    firsts: npt.NDArray[np.int64]
    requests: npt.NDArray[np.int64]
    counts: npt.NDArray[np.float64]
    origin: str

    @property
    def num_ranks(self) -> int:
        """Number of ranks."""
        return len(self.requests)

    @property
    def rank_of(self) -> npt.NDArray[np.int32]:
        """[actions] rank of each action."""
        return np.repeat(np.arange(self.num_ranks, dtype=np.int32), np.diff(self.firsts))
