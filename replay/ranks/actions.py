"""Actions of ranks: the form in which all parallel runs come to the replay, wherever they were traced."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from foretrace.tracer.signature.rank_records import COLLECTIVES as COLLECTIVES
from foretrace.tracer.signature.rank_records import CallKind

Kind = CallKind

ACTION = np.dtype(
    [(name, "i4") for name in ("kind", "peer", "tag", "request", "line", "first_count", "communicator", "second_tag")]
    + [("size_bytes", "f8"), ("amount", "f8")]
)
"""An action.

`peer` is the partner's number (-1: any), or the root's rank in the communicator; `tag` -1: any. `size_bytes` of a
receive is what it has room for; -1: any size. `request` 0 for a call that waits, else the number of its request,
collectives included; of a computation the number of its demand (`Hosts.demands`). `line` is where it is from
(`RankActions.place`). `first_count` is the first of the sizes of a collective by rank, or of the requests in
`RankActions.slots` of a wait for `peer` requests; -1: none. `communicator` is a number in `RankActions.communicators`.
Of an exchange, `request` - 1 is whom it receives from, with `second_tag`. `amount` is flops of a computation or after a
reduction, seconds of a sleep, the number of times of a `REPEAT`, whose body ends at its `END_REPEAT`.
"""


@dataclass(frozen=True, slots=True, eq=False)
class RankActions:
    """Actions of all ranks of a run.

    Attributes:
        actions: of each rank (`ACTION`), rank by rank.
        firsts: [ranks + 1] first action of each rank.
        requests: [ranks] number of requests of each.
        counts: bytes by rank of collectives: see `first_count`.
        origin: file or program, for messages.
        communicators: members of each, in order of their ranks; without any there is one, of all ranks.
        slots: requests that are waited for together.
        places: texts that say where actions are from, by `line`, such as "main.c:12".
        files: where there are no `places`: files that the lines are of, each with the number of lines before it.
        left_out: calls by name that the replay leaves out, and how often.
        unfinished: ranks that do not come to the end of MPI: their actions may be cut short.
    """

    actions: npt.NDArray[np.void]
    firsts: npt.NDArray[np.int64]
    requests: npt.NDArray[np.int64]
    counts: npt.NDArray[np.float64]
    origin: str
    communicators: tuple[tuple[int, ...], ...] = ()
    slots: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    places: tuple[str, ...] = ()
    files: tuple[tuple[str, int], ...] = ()
    left_out: dict[str, int] = field(default_factory=dict)
    unfinished: tuple[int, ...] = ()

    @property
    def num_ranks(self) -> int:
        """Number of ranks."""
        return len(self.requests)

    @property
    def rank_of(self) -> npt.NDArray[np.int32]:
        """[actions] rank of each action."""
        return np.repeat(np.arange(self.num_ranks, dtype=np.int32), np.diff(self.firsts))

    @property
    def times(self) -> npt.NDArray[np.float64]:
        """[actions] how often each happens: the product of the repetitions around it."""
        kind = self.actions["kind"]
        found = np.ones(len(kind))
        around = [1.0]
        last = 0
        for at in np.flatnonzero((kind == Kind.REPEAT) | (kind == Kind.END_REPEAT)).tolist():
            found[last:at] = around[-1]
            last = at
            if kind[at] == Kind.REPEAT:
                around.append(around[-1] * float(self.actions["amount"][at]))
            else:
                around.pop()
        return found

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """[communicators] number of members of each."""
        return np.array([len(members) for members in self.communicators] or [self.num_ranks], np.int64)

    def place(self, action: int) -> str:
        """Place of an action in its source: file and line."""
        return self.place_of_line(int(self.actions["line"][action]))

    def place_of_line(self, line: int) -> str:
        """Place that a number of `line` stands for."""
        if self.places:
            return self.places[line] if 0 <= line < len(self.places) else ""
        if not self.files:
            return f"{self.origin}:{line}"
        name, before = self.files[bisect.bisect_left([before for _, before in self.files], line) - 1]
        return f"{name}:{line - before}"
