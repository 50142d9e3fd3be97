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


NO_WORK: Ints = np.zeros((0, 3), np.int64)
"""`RankRecord.work` without rows."""


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
        wall_s: time between the two, while it was recorded.
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
    wall_s: float = 0.0
    work: Ints = field(default_factory=lambda: NO_WORK)


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


def check_ranks(run: RankRun) -> None:
    """Refuse a run whose columns, each of them allowed, do not fit together.

    Raises:
        ValueError: says what is wrong.
    """
    if not run.ranks:
        raise ValueError("a parallel run has no ranks")
    world = tuple(range(len(run.ranks)))
    for rank, record in enumerate(run.ranks):
        try:
            _check_record(record, world, len(run.sites))
        except ValueError as error:
            raise ValueError(f"rank {rank}: {error}") from None


def _check_record(record: RankRecord, world: tuple[int, ...], num_sites: int) -> None:
    calls, communicators = record.calls, record.communicators
    if not communicators or communicators[0] != world:
        raise ValueError("its first communicator is not that of all ranks")
    if any(len(set(one)) != len(one) or not set(one) <= set(world) for one in communicators[1:]):
        raise ValueError("a communicator has impossible members")
    for name, least, most in (
        ("kind", 0, len(CallKind)), ("communicator", 0, len(communicators)), ("peer", -1, len(world)),
        ("second_peer", -1, len(world)), ("site", 0, num_sites), ("times", 1, None), ("size_bytes", 0, None),
        ("second_bytes", 0, None), ("request", 0, 1 << 31), ("slots", 0, len(record.slots) + 1),
    ):  # fmt: skip
        if np.any(calls[name] < least) or (most is not None and np.any(calls[name] >= most)):
            raise ValueError(f"a call has an impossible {name}")
    ends = calls["first_slot"] + calls["slots"]
    if np.any((calls["slots"] > 0) & ((calls["first_slot"] < 0) | (ends > len(record.slots)))):
        raise ValueError("a call waits for requests that are not listed")
    sizes = np.array([len(one) for one in communicators])[calls["communicator"]]
    by_rank = calls["first_count"] >= 0
    if np.any(by_rank & (calls["first_count"] + sizes > len(record.counts))):
        raise ValueError("a call has sizes that are not listed")
    _check_steps(record)
    if len(record.work) and (record.work.min() < 0 or record.work[:, 0].max() >= len(calls)):
        raise ValueError("its work is that of an impossible call")


def _check_steps(record: RankRecord) -> None:
    steps = record.steps
    if np.any(steps["call"] >= len(record.calls)) or np.any(steps["call"] < END):
        raise ValueError("a step is no call")
    depth = np.cumsum(np.where(steps["call"] == REPEAT, 1, np.where(steps["call"] == END, -1, 0)))
    if len(depth) and (depth.min() < 0 or depth[-1] != 0):
        raise ValueError("a repetition does not end, or ends twice")
    if np.any(steps["times"][steps["call"] == REPEAT] < 1):
        raise ValueError("a repetition happens less than once")
