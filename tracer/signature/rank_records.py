"""Records of a parallel run: the calls of each rank in order, folded, and the computation before each.

A call is told apart by all that it says (kind, partner, tag, size, requests, place in the program) and by the call
before it, so that what is computed before the first iteration of a loop is not mixed with what is computed in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, auto

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class CallKind(IntEnum):
    """Kind of a call, or of the action that replays it, in the order of `enum ft_call_kind` in tracer/mpi/kinds.h."""

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
    REPEAT = auto()
    END_REPEAT = auto()
    SSEND = auto()
    ISSEND = auto()
    PUT = auto()
    GET = auto()
    FENCE = auto()
    LOCK = auto()
    UNLOCK = auto()
    FILE_READ = auto()
    FILE_WRITE = auto()
    FINALIZE = auto()


COLLECTIVES = tuple(kind for kind in CallKind if CallKind.BARRIER <= kind <= CallKind.EXSCAN)

CALL_NUMBERS = (
    "kind", "communicator", "peer", "tag", "size_bytes", "second_peer", "second_tag", "second_bytes", "request",
    "first_slot", "slots", "first_count", "site", "times",
)  # fmt: skip
CALL_SECONDS = ("compute_s", "compute_squares", "least_s", "most_s")
CALL = np.dtype([(name, "i8") for name in CALL_NUMBERS] + [(name, "f8") for name in CALL_SECONDS])
"""A call, and the computation between the call before and it.

`peer` is the partner's rank in MPI_COMM_WORLD (-1: any), or the root's rank in the communicator; `tag` -1: any.
`size_bytes` is what a send sends or a receive has room for; of a collective the send buffer for one partner, or what
all get from the root, or `counts[first_count ...]` by rank of the communicator (-1: alike). The `second_...` are of the
receiving half of an exchange. `request` is the slot that the call occupies until it is waited for, from 1; 0: none.
`slots[first_slot ...]` are the requests that a wait ends, `slots` many. `times` it happened; `compute_s` the sum of the
processor time before it, `compute_squares` that of its squares (s^2), with the least and the most; all 0 where the
run's work was traced instead.
"""

STEP = np.dtype([("call", "i8"), ("times", "i8")])
"""A step of a rank's program: a call (`times` 1), or `REPEAT` with the number of times, up to its `END`."""
REPEAT, END = -1, -2


@dataclass(frozen=True, slots=True)
class CallSite:
    """A place from which calls are made.

    Attributes:
        module: the program or library.
        offset: of the instruction behind the call, in the module.
        function, file, line: "" and 0 where not known.
    """

    module: str
    offset: int
    function: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class RankRecord:
    """A rank's run.

    Attributes:
        calls: `CALL`, each kind of call once.
        steps: `STEP`, the order of the calls.
        slots, counts: int64, see `CALL`.
        communicators: of each, the ranks in MPI_COMM_WORLD of its members, in order; the first is MPI_COMM_WORLD.
        processor_s: processor time of the rank's thread between MPI_Init and MPI_Finalize, without the calls.
        is_complete: whether it came to MPI_Finalize.
        left_out: calls by name that were not recorded, and how often.
        work: int64 [rows, 3]: (call, node of the execution tree, executions of basic blocks that are the node's own)
            before the call, where the run's work was traced; without rows where it was timed.
    """

    calls: npt.NDArray[np.void]
    steps: npt.NDArray[np.void]
    slots: Ints
    counts: Ints
    communicators: tuple[tuple[int, ...], ...]
    processor_s: float
    is_complete: bool
    left_out: dict[str, int] = field(default_factory=dict)
    work: Ints = field(default_factory=lambda: np.zeros((0, 3), np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class RankRun:
    """A parallel run.

    Attributes:
        library: version of the MPI library, as it calls itself.
        processor: model of the processor that it ran on.
        ranks: of MPI_COMM_WORLD.
        sites: that the calls of all ranks refer to.
    """

    library: str
    processor: str
    ranks: tuple[RankRecord, ...]
    sites: tuple[CallSite, ...]
