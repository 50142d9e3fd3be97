"""Checks of the things that actions refer to: ranks of communicators, requests, sizes by rank, loops."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import PredictionError
from foretrace.replay.engine import _engine

from .actions import COLLECTIVES, Kind, RankActions

Ints = npt.NDArray[np.int64]

ROOTED = frozenset({Kind.BCAST, Kind.REDUCE, Kind.GATHER, Kind.SCATTER, Kind.GATHERV, Kind.SCATTERV})
"""Collectives with a root."""
PAIRS = (Kind.SEND, Kind.ISEND, Kind.SSEND, Kind.ISSEND, Kind.RECEIVE, Kind.IRECEIVE, Kind.EXCHANGE)
"""Messages between two ranks."""
UNSUPPORTED = (Kind.PUT, Kind.GET, Kind.FENCE, Kind.LOCK, Kind.UNLOCK, Kind.FILE_READ, Kind.FILE_WRITE)


def places_of(run: RankActions) -> dict[Kind, Ints]:
    """The actions of each kind."""
    order = np.argsort(run.actions["kind"].astype(np.int8), kind="stable")
    bounds = np.searchsorted(run.actions["kind"][order], np.arange(len(Kind) + 1))
    return {kind: order[bounds[kind] : bounds[kind + 1]] for kind in Kind}


def times_of(run: RankActions, places: Mapping[Kind, Ints]) -> npt.NDArray[np.float64]:
    """[actions] how often each happens: the product of the loops around it."""
    begins, ends = loops(run, places)
    if not len(begins):
        return np.ones(len(run.actions))
    times = run.actions["amount"][begins]
    change, never = np.zeros((2, len(run.actions) + 1))
    change[begins], never[begins] = np.log(np.maximum(times, 1)), times < 1
    change[ends], never[ends] = -change[begins], -never[begins]
    often = np.exp(np.cumsum(change)[:-1])
    return np.where(np.cumsum(never)[:-1] > 0.5, 0.0, np.where(often < 1e12, np.rint(often), often))


def check_actions(run: RankActions, places: Mapping[Kind, Ints]) -> None:
    """Refuse actions that refer to what does not exist.

    Args:
        run: all actions.
        places: the actions of each kind.

    Raises:
        PredictionError: with the place and the rank of the first such action.
    """
    for kind in UNSUPPORTED:
        _refuse(run, places[kind], f"{name_of(kind)} is not replayed")
    actions = run.actions
    numbers = actions["communicator"]
    count = len(run.sizes)
    if numbers.min(initial=0) < 0 or numbers.max(initial=0) >= count:
        wrong = np.flatnonzero((numbers < 0) | (numbers >= count))
        _refuse(run, wrong, f"there is no communicator {numbers[wrong[0]]}")
    _check_communicators(run)
    sizes = run.sizes[numbers] if count > 1 else run.sizes[0]
    for kind in ROOTED:
        which = places[kind]
        roots, members = actions["peer"][which], sizes[which] if count > 1 else sizes
        wrong = which[(roots < 0) | (roots >= members)]
        if len(wrong):
            _refuse(
                run, wrong, f"{name_of(kind)} has root {actions['peer'][wrong[0]]}, but its communicator has "
                f"{run.sizes[numbers[wrong[0]]]} ranks",
            )  # fmt: skip
    _check_partners(run, places)
    for kind in (Kind.WAIT, Kind.WAIT_ALL):
        which = places[kind]
        which = which[actions["first_count"][which] >= 0]
        ends = actions["first_count"][which].astype(np.int64) + actions["peer"][which]
        _refuse(run, which[(ends > len(run.slots)) | (actions["peer"][which] < 0)], "a wait has no such requests")
    if run.slots.min(initial=1) < 1:
        raise PredictionError(f"{run.origin}: a wait names request {run.slots.min()}; they are numbered from 1")


def name_of(kind: Kind) -> str:
    """A kind of action, as messages and labels have it."""
    return kind.name.lower().replace("_", "-")


def _refuse(run: RankActions, wrong: Ints, why: str) -> None:
    """Raise an error about the first of some actions, if there is one."""
    if len(wrong):
        first = int(wrong[0])
        rank = int(np.searchsorted(run.firsts, first, "right")) - 1
        raise PredictionError(f"{run.place(first)}: rank {rank}: {why}")


def _check_communicators(run: RankActions) -> None:
    for number, members in enumerate(run.communicators):
        if not members or len(set(members)) < len(members) or min(members) < 0 or max(members) >= run.num_ranks:
            raise PredictionError(f"{run.origin}: communicator {number} has no members, or such as are no ranks")


def _check_partners(run: RankActions, places: Mapping[Kind, Ints]) -> None:
    """Ranks and their partners must be members of the communicator."""
    actions, ranks = run.actions, run.num_ranks
    members = np.sort([number * ranks + rank for number, of in enumerate(run.communicators) for rank in of])
    is_of_all = all(len(of) == ranks for of in run.communicators)
    rank_of = run.rank_of if not is_of_all else np.zeros(0, np.int32)

    def are_members(which: Ints, who: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        keys = actions["communicator"][which].astype(np.int64) * ranks + who
        at = np.minimum(np.searchsorted(members, keys), len(members) - 1)
        return np.asarray(members[at] == keys)

    for kind in (*PAIRS, *COLLECTIVES):
        which = places[kind]
        if not len(which):
            continue
        if not is_of_all:
            _refuse(
                run, which[~are_members(which, rank_of[which])],
                f"{name_of(kind)} is on a communicator of which the rank is no member",
            )  # fmt: skip
        if kind in COLLECTIVES:
            continue
        is_receive = kind in (Kind.RECEIVE, Kind.IRECEIVE)
        peers = [actions["peer"][which]] + ([actions["request"][which] - 1] if kind is Kind.EXCHANGE else [])
        for side, who in enumerate(peers):
            may_be_any = is_receive or side == 1
            wrong = (who < (-1 if may_be_any else 0)) | (who >= ranks)
            if not is_of_all:
                wrong |= (who >= 0) & ~are_members(which, who)
            if wrong.any():
                _refuse(run, which[wrong], f"{name_of(kind)}: its communicator has no rank {who[wrong][0]} of the run")


def loops(run: RankActions, places: Mapping[Kind, Ints]) -> tuple[Ints, Ints]:
    """Begin and end of each loop: actions that belong together.

    Raises:
        PredictionError: one ends that did not begin, or does not end, in its rank, or they nest too deeply.
    """
    begins, ends = places[Kind.REPEAT], places[Kind.END_REPEAT]
    if not len(begins) and not len(ends):
        return begins, ends
    both = np.concatenate([begins, ends])
    order = np.argsort(both, kind="stable")
    both, change = both[order], np.repeat([1, -1], [len(begins), len(ends)])[order]
    rank_of = np.searchsorted(run.firsts, both, "right") - 1
    depth = np.cumsum(change)
    depth -= np.concatenate([[0], depth])[np.searchsorted(both, run.firsts[rank_of])]  # of the ranks before
    _refuse(run, both[depth < 0], "a loop ends that did not begin")
    last = np.flatnonzero(np.append(rank_of[1:] != rank_of[:-1], True))
    _refuse(run, both[last[depth[last] != 0]], "a loop does not end")
    deep = both[depth > _engine.MAX_NESTING]
    _refuse(run, deep, f"loops nest more than {_engine.MAX_NESTING} deep")
    times = run.actions["amount"][begins]
    _refuse(run, begins[~((times >= 0) & (times < 2.0**62))], "a loop's number of times is no number of times")
    by_level = np.argsort(depth + (change < 0), kind="stable")  # brackets of a level alternate
    paired = both[by_level].reshape(-1, 2)
    return paired[:, 0], paired[:, 1]
