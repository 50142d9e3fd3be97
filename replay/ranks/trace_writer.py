"""Writes runs of ranks as time-independent traces, which SimGrid replays as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import PredictionError, TraceFileError

from .actions import COLLECTIVES, Kind, RankActions
from .checks import check_actions, loops, name_of, places_of
from .time_independent import MOST_ACTIONS

Ints = npt.NDArray[np.int64]
LIST = "trace.txt"
_GATHERED = (Kind.ALLTOALLV, Kind.GATHERV, Kind.SCATTERV)
"""Collectives that say what other ranks send."""


def write_time_independent(run: RankActions, folder: Path, *, flops_per_s: float = 1.0) -> dict[str, int]:
    """Write a run into a new folder: a file for each rank, and `trace.txt`, the list of them. Loops are written out.

    Args:
        run: what its ranks do, all of it on the communicator of all ranks.
        folder: where to; it must not exist.
        flops_per_s: flops of a computation for each unit of its amount: of amounts in seconds, the speed of a core.

    Returns:
        Calls by name that the format has not and that were written as others, and how often: synchronous sends are
        sends.

    Raises:
        PredictionError: the run has calls that the format cannot express, or too many.
        TraceFileError: the folder exists, or cannot be written.
    """
    places = places_of(run)
    check_actions(run, places)
    _check_expressible(run, places)
    jumps = dict(zip(*(ends.tolist() for ends in loops(run, places)), strict=True))
    numbers = _Gathered(run, jumps)
    changed: Counter[str] = Counter()
    try:
        folder.mkdir(parents=True)
        for rank in range(run.num_ranks):
            with (folder / f"rank{rank}.txt").open("w") as file:
                file.write(f"{rank} init\n")
                for line in _Lines(run, jumps, numbers, rank, flops_per_s, changed):
                    file.write(f"{rank} {line}\n")
                file.write(f"{rank} finalize\n")
        (folder / LIST).write_text("".join(f"rank{rank}.txt\n" for rank in range(run.num_ranks)))
    except OSError as error:
        raise TraceFileError(f"{folder}: {error.strerror}") from None
    return dict(changed)


def _check_expressible(run: RankActions, places: dict[Kind, Ints]) -> None:
    actions = run.actions
    for kind in Kind:
        which = places[kind]
        wrong = which[actions["communicator"][which] > 0]
        if kind not in (Kind.COMPUTE, Kind.SLEEP) and len(wrong):
            raise PredictionError(f"{run.place(int(wrong[0]))}: a time-independent trace has one communicator only")
        wrong = which[actions["request"][which] > 0]
        if kind in COLLECTIVES and len(wrong):
            raise PredictionError(
                f"{run.place(int(wrong[0]))}: a time-independent trace has no {name_of(kind)} with a request"
            )


def expanded(run: RankActions, jumps: dict[int, int], rank: int) -> Iterator[int]:
    """The actions of a rank in the order in which they happen; `jumps` are ends of loops by their beginnings."""
    kinds, amounts = run.actions["kind"], run.actions["amount"]
    at, end = int(run.firsts[rank]), int(run.firsts[rank + 1])
    frames: list[list[int]] = []  # first action of the body, times left
    while at < end:
        kind = kinds[at]
        if kind == Kind.REPEAT:
            if amounts[at] < 1:
                at = jumps[at]
            else:
                frames.append([at, int(amounts[at]) - 1])
        elif kind == Kind.END_REPEAT:
            if frames[-1][1] > 0:
                frames[-1][1] -= 1
                at = frames[-1][0]
            else:
                frames.pop()
        else:
            yield at
        at += 1


class _Gathered:
    """Sizes that other ranks give in the same collective: the n-th of its kind of each."""

    def __init__(self, run: RankActions, jumps: dict[int, int]) -> None:
        """Walk through all ranks once, and count their actions.

        Raises:
            PredictionError: they are too many.
        """
        self.run = run
        self.at: dict[Kind, list[list[int]]] = {kind: [[] for _ in range(run.num_ranks)] for kind in _GATHERED}
        room = MOST_ACTIONS
        for rank in range(run.num_ranks):
            for action in expanded(run, jumps, rank):
                room -= 1
                if room < 0:
                    raise PredictionError(f"{run.origin}: more than the {MOST_ACTIONS} actions that a trace may have")
                kind = Kind(run.actions["kind"][action])
                if kind in self.at:
                    self.at[kind][rank].append(action)

    def others(self, kind: Kind, number: int) -> list[int]:
        """The action of each rank."""
        found = [own[number] for own in self.at[kind] if number < len(own)]
        if len(found) < self.run.num_ranks:
            raise PredictionError(f"{self.run.origin}: not all ranks take part in each {name_of(kind)}")
        return found

    def count(self, action: int, index: int) -> float:
        """A size by rank that an action says."""
        first = int(self.run.actions["first_count"][action])
        return float(self.run.counts[first + index]) if first >= 0 else float(self.run.actions["size_bytes"][action])


class _Lines:
    """The lines of a rank, without its number."""

    def __init__(
        self, run: RankActions, jumps: dict[int, int], gathered: _Gathered, rank: int, flops_per_s: float,
        changed: Counter[str],
    ) -> None:  # fmt: skip
        self.run, self.gathered, self.rank, self.flops_per_s = run, gathered, rank, flops_per_s
        self.actions, self.changed = expanded(run, jumps, rank), changed
        self.open: dict[int, tuple[int, int, int]] = {}  # requests: from, to, tag
        self.seen: Counter[Kind] = Counter()

    def __iter__(self) -> Iterator[str]:
        for action in self.actions:
            row = self.run.actions[action]
            kind = Kind(row["kind"])
            yield from self.of(kind, row, action)
            self.seen[kind] += 1

    def of(self, kind: Kind, row: np.void, action: int) -> Iterator[str]:
        """The lines of an action."""
        peer, tag, size = int(row["peer"]), int(row["tag"]), _number(row["size_bytes"])
        match kind:
            case Kind.COMPUTE:
                yield f"compute {_number(row['amount'] * self.flops_per_s)}"
            case Kind.SLEEP:
                yield f"sleep {_number(row['amount'])}"
            case Kind.SEND | Kind.ISEND | Kind.SSEND | Kind.ISSEND | Kind.RECEIVE | Kind.IRECEIVE:
                yield self.message(kind, peer, tag, size, int(row["request"]))
            case Kind.EXCHANGE:
                yield from self.exchange(peer, tag, size, int(row["request"]) - 1, int(row["second_tag"]))
            case Kind.WAIT | Kind.WAIT_ALL:
                yield from self.wait(kind, row)
            case Kind.FINALIZE | Kind.TEST:
                return
            case _:
                yield self.collective(kind, row, action)

    def message(self, kind: Kind, peer: int, tag: int, size: str, request: int) -> str:
        name = _MESSAGES[kind]
        if kind in (Kind.SSEND, Kind.ISSEND):
            self.changed[name_of(kind)] += 1
        if request:
            self.open[request] = (self.rank, peer, tag) if name == "isend" else (peer, self.rank, tag)
        return f"{name if request or not name.startswith('i') else name[1:]} {peer} {tag} {size}"

    def exchange(self, to: int, tag: int, size: str, sender: int, second_tag: int) -> Iterator[str]:
        if tag == second_tag == 0 and sender >= 0:
            yield f"sendrecv {size} {to} {size} {sender}"
            return
        yield f"irecv {sender} {second_tag} -1"
        yield f"isend {to} {tag} {size}"
        yield f"wait {self.rank} {to} {tag}"
        yield f"wait {sender} {self.rank} {second_tag}"

    def wait(self, kind: Kind, row: np.void) -> Iterator[str]:
        first, request = int(row["first_count"]), int(row["request"])
        if kind is Kind.WAIT_ALL and first < 0:
            self.open.clear()
            yield "waitall"
            return
        listed = [request] if first < 0 else self.run.slots[first : first + int(row["peer"])].tolist()
        for one in listed:
            if one in self.open:
                yield "wait {} {} {}".format(*self.open.pop(one))

    def collective(self, kind: Kind, row: np.void, action: int) -> str:
        ranks, size, root = range(self.run.num_ranks), _number(row["size_bytes"]), int(row["peer"])
        flops, gathered, own = _number(row["amount"] * self.flops_per_s), self.gathered, self.rank
        others = gathered.others(kind, self.seen[kind]) if kind in _GATHERED else []
        match kind:
            case Kind.BARRIER:
                return "barrier"
            case Kind.BCAST:
                return f"bcast {size} {root}"
            case Kind.REDUCE:
                return f"reduce {size} {flops} {root}"
            case Kind.ALLREDUCE | Kind.SCAN | Kind.EXSCAN:
                return f"{kind.name.lower()} {size} {flops}"
            case Kind.ALLTOALL | Kind.ALLGATHER:
                return f"{kind.name.lower()} {size} {size}"
            case Kind.GATHER | Kind.SCATTER:
                return f"{kind.name.lower()} {size} {size} {root}"
            case Kind.ALLTOALLV:
                sent = [gathered.count(action, rank) for rank in ranks]
                got = [gathered.count(other, own) for other in others]
                return f"alltoallv {_number(sum(sent))} {_numbers(sent)} {_number(sum(got))} {_numbers(got)}"
            case Kind.GATHERV:
                return f"gatherv {size} {_numbers(self.run.actions['size_bytes'][others])} {root}"
            case Kind.SCATTERV:
                sent = [gathered.count(others[root], rank) for rank in ranks]
                return f"scatterv {_numbers(sent)} {_number(sent[own])} {root}"
        counts = [gathered.count(action, rank) for rank in ranks]
        if kind is Kind.ALLGATHERV:
            return f"allgatherv {_number(counts[own])} {_numbers(counts)}"
        if row["first_count"] < 0:
            counts = [count / len(ranks) for count in counts]
        return f"reducescatter {_numbers(counts)} {flops}"


_MESSAGES = {
    Kind.SEND: "send", Kind.ISEND: "isend", Kind.SSEND: "send", Kind.ISSEND: "isend", Kind.RECEIVE: "recv",
    Kind.IRECEIVE: "irecv",
}  # fmt: skip


def _number(value: float) -> str:
    """Shortest text of a number that reads back as the same."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _numbers(values: npt.ArrayLike) -> str:
    return " ".join(_number(value) for value in np.asarray(values, np.float64))
