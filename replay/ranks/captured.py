"""Actions of the ranks of a run that was recorded by foretrace itself (`trace --mpi`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from foretrace.tracer.signature.rank_records import END, REPEAT, CallKind, CallSite, RankRecord, RankRun

from .actions import ACTION, RankActions

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_WAITS = (CallKind.WAIT, CallKind.WAIT_ALL)
_LEFT_OUT = (CallKind.PUT, CallKind.GET, CallKind.LOCK, CallKind.UNLOCK)
_OF_FILES = (CallKind.FILE_READ, CallKind.FILE_WRITE)
_BY_RANK = (
    CallKind.ALLTOALLV, CallKind.SCATTERV, CallKind.ALLGATHERV, CallKind.GATHERV, CallKind.REDUCE_SCATTER,
)  # fmt: skip


def actions_of(
    run: RankRun, before_s: Sequence[Floats], origin: str, demands: Sequence[npt.NDArray[np.int32]] | None = None,
    io_bytes_per_s: float | None = None,
) -> RankActions:  # fmt: skip
    """The actions of a recorded run: each call, and before it a computation.

    Args:
        run: as it was recorded.
        before_s: of each rank, [calls] seconds of the computation before each call, every time that it happens.
        origin: file of the run.
        demands: of each rank, [calls] numbers of the demands of these computations; 0 for all if not given.
        io_bytes_per_s: at which each rank reads and writes files; None: that is left out, and counted.
    """
    communicators = _Communicators()
    parts, counts, slots, requests = [], [], [], []
    first_count = first_slot = 0
    left_out: Counter[str] = Counter()
    for rank, record in enumerate(run.ranks):
        demand = np.zeros(len(record.calls), np.int32) if demands is None else demands[rank]
        numbers = np.array(communicators.numbers(record), np.int32)
        parts.append(_actions(record, before_s[rank], demand, numbers, (first_count, first_slot), io_bytes_per_s))
        left_out.update(record.left_out)
        for kind in (*_LEFT_OUT, *(_OF_FILES if io_bytes_per_s is None else ())):
            left_out[kind.name.lower()] += int(record.calls["times"][record.calls["kind"] == kind].sum())
        counts.append(record.counts.astype(np.float64))
        slots.append(record.slots.astype(np.int32))
        first_count += len(record.counts)
        first_slot += len(record.slots)
        requests.append(max(int(record.calls["request"].max(initial=0)), int(record.slots.max(initial=0))))
    return RankActions(
        actions=np.concatenate(parts),
        firsts=np.cumsum([0, *map(len, parts)]),
        requests=np.array(requests, np.int64),
        counts=np.concatenate(counts),
        origin=origin,
        communicators=tuple(communicators.members),
        slots=np.concatenate(slots),
        places=tuple(map(_place, run.sites)),
        left_out=dict(+left_out),
        unfinished=tuple(rank for rank, record in enumerate(run.ranks) if not record.is_complete),
    )


def _place(site: CallSite) -> str:
    """Text of a call site: file and line, or function or offset in a module."""
    if site.file:
        return f"{Path(site.file).name}:{site.line}"
    module = Path(site.module).name
    return f"{site.function} in {module}" if site.function else f"{module}+{site.offset:#x}"


class _Communicators:
    """The communicators of a run. Each rank lists its own: those with the same members, created in the same order, are
    one."""

    def __init__(self) -> None:
        """Begin without any."""
        self.members: list[tuple[int, ...]] = []
        self._numbers: dict[tuple[tuple[int, ...], int], int] = {}

    def numbers(self, record: RankRecord) -> list[int]:
        """The numbers of a rank's communicators."""
        seen: dict[tuple[int, ...], int] = {}
        found = []
        for members in record.communicators:
            seen[members] = seen.get(members, 0) + 1
            number = self._numbers.setdefault((members, seen[members]), len(self.members))
            if number == len(self.members):
                self.members.append(members)
            found.append(number)
        return found


def _actions(
    record: RankRecord,
    before_s: Floats,
    demand: npt.NDArray[np.int32],
    communicators: npt.NDArray[np.int32],
    firsts: tuple[int, int],
    io_bytes_per_s: float | None,
) -> npt.NDArray[np.void]:
    """The actions of a rank; `firsts` are the first of its counts, and of its slots, among those of all ranks."""
    calls, steps = record.calls, record.steps
    templates = np.zeros(len(calls), ACTION)
    for name in ("kind", "peer", "tag", "second_tag", "size_bytes", "request"):
        templates[name] = calls[name]
    templates["line"] = calls["site"]
    templates["communicator"] = communicators[calls["communicator"]]
    templates["first_count"] = -1
    by_rank = (calls["first_count"] >= 0) & np.isin(calls["kind"], _BY_RANK)
    templates["first_count"][by_rank] = firsts[0] + calls["first_count"][by_rank]
    is_wait = np.isin(calls["kind"], _WAITS)
    templates["kind"][is_wait] = CallKind.WAIT
    templates["peer"][is_wait] = calls["slots"][is_wait]
    templates["first_count"][is_wait] = firsts[1] + calls["first_slot"][is_wait]
    is_file, is_left_out = np.isin(calls["kind"], _OF_FILES), np.isin(calls["kind"], _LEFT_OUT)
    templates["amount"][is_file] = calls["size_bytes"][is_file] / (io_bytes_per_s or np.inf)
    for name, value in (("kind", CallKind.SLEEP), ("request", 0)):
        templates[name][is_file | is_left_out] = value
    templates["kind"][calls["kind"] == CallKind.FENCE] = CallKind.BARRIER
    is_exchange = calls["kind"] == CallKind.EXCHANGE
    templates["request"][is_exchange] = calls["second_peer"][is_exchange] + 1
    is_call = steps["call"] >= 0
    call = np.maximum(steps["call"], 0)
    computes = is_call & (before_s[call] > 0) if len(calls) else is_call
    at = np.arange(len(steps)) + np.cumsum(computes)
    actions = np.zeros(len(steps) + int(computes.sum()), ACTION)
    actions["first_count"] = -1
    if len(calls):
        actions[at[is_call]] = templates[call[is_call]]
    repeats = steps["call"] == REPEAT
    actions["kind"][at[repeats]] = CallKind.REPEAT
    actions["amount"][at[repeats]] = steps["times"][repeats]
    actions["kind"][at[steps["call"] == END]] = CallKind.END_REPEAT
    before = at[computes] - 1
    actions["kind"][before] = CallKind.COMPUTE
    actions["amount"][before] = before_s[call[computes]]
    actions["request"][before] = demand[call[computes]]
    actions["line"][before] = calls["site"][call[computes]]
    return actions


def timed_s(record: RankRecord) -> Floats:
    """[calls]: mean processor time before each call of a rank, as it was timed while the run was recorded."""
    return np.asarray(record.calls["compute_s"] / np.maximum(record.calls["times"], 1), np.float64)


def is_timed(run: RankRun) -> bool:
    """Whether the computation between calls was timed, not traced."""
    return not any(len(record.work) for record in run.ranks)
