"""Wrong-path execution: what is fetched past a mispredicted branch, judged by the branch's other executions.

A mispredicted branch costs less where both its ways soon reconverge: the code from there on has been run ahead. The
ways of one execution reconverge at the first block that also ran after the branch, and before it ran again, when it
went the other way. If one way has left the loop around the branch by then, so must the other have: the same block in
a loop that starts anew works on other data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from foretrace.tracer.signature.records import Instruction

Ints = npt.NDArray[np.int64]

ALL_DEPEND = 0xFFFF
_SOON = 24
"""Blocks after a branch that a core can have run before the branch is resolved."""
_SAMPLES = 64
_NOTHING, _LEFT = -1, 1 << 32
_LIKELY = 0.5
"""Share of the samples of the other way that a block must have run in."""


@dataclass(frozen=True, slots=True, eq=False)
class WrongWays:
    """Control dependence of the blocks after mispredicted branches.

    `depends` uint16 [executions]: for each mispredicted branch, the number of following executions that depend on its
    outcome; ALL_DEPEND where its ways do not reconverge. `anyway`: by block, instructions present on both ways.
    """

    depends: npt.NDArray[np.uint16]
    anyway: Mapping[int, set[Instruction]]

    @classmethod
    def of(
        cls,
        path: Ints,
        missed: npt.NDArray[np.bool_],
        starts: Ints,
        instructions: Mapping[int, tuple[Instruction, ...]],
        outside: Callable[[int], npt.NDArray[np.bool_]],
    ) -> WrongWays:
        """Find reconvergence from the path, its mispredicted block ends, and the starts of contiguous stretches.

        `instructions` are those of each block, by the numbers in `path`. `outside` maps a block to a mask of the blocks
        that run only after the loop around it has exited.
        """
        depends = np.full(len(path), ALL_DEPEND, np.uint16)
        anyway: dict[int, set[Instruction]] = defaultdict(set)
        last = np.append(starts[1:], len(path))[np.searchsorted(starts[1:], np.arange(len(path)), side="right")]
        for block in np.unique(path[missed]).tolist():
            places = np.flatnonzero((path == block) & (np.arange(len(path)) + _SOON < last))
            ways = _Ways(path, places, block, outside(block))
            sources = places[missed[places]]
            for taken in np.unique(path[sources + 1]).tolist():
                chosen = sources[path[sources + 1] == taken]
                depends[chosen] = ways.meet(chosen, taken)
                for meeting in ways.meeting_blocks(chosen, depends[chosen]):
                    own, other = ways.arm(taken, meeting), ways.other_arm(taken, meeting)
                    written = {_plain(one) for number in other for one in instructions[number]}
                    for number in own:
                        anyway[number] |= {_plain(one) for one in instructions[number]} & written
        return cls(depends, anyway)

    def runs_anyway(self, block: int, one: Instruction) -> bool:
        """Whether an instruction of a block runs whichever way an earlier branch goes."""
        return _plain(one) in self.anyway.get(block, ())


class _Ways:
    """Samples of the blocks that followed executions of one block until it ran again, by its successor.

    Once the loop has exited, a block is numbered `_LEFT` higher, as a different block.
    """

    def __init__(self, path: Ints, places: Ints, block: int, outside: npt.NDArray[np.bool_]) -> None:
        self._path, self._outside = path, outside
        self._samples: dict[int, Ints] = {}
        following = path[places + 1]
        for taken in np.unique(following).tolist():
            chosen = places[following == taken]
            chosen = chosen[:: max(len(chosen) // _SAMPLES, 1)][:_SAMPLES]
            samples = self._following(chosen)
            is_same = samples % _LEFT == block
            again = np.cumsum(is_same, axis=1) - is_same > 0
            self._samples[taken] = np.where(again, _NOTHING, samples)

    def _following(self, sources: Ints) -> Ints:
        """[sources, _SOON]: the blocks that ran after each of the executions."""
        blocks = self._path[sources[:, None] + 1 + np.arange(_SOON)]
        left = np.maximum.accumulate(self._outside[blocks], axis=1)
        return np.asarray(blocks + _LEFT * left, np.int64)

    def _other_way(self, taken: int) -> Ints:
        """Samples of the most frequent way other than `taken`."""
        others = [samples for way, samples in self._samples.items() if way != taken]
        return max(others, key=len, default=np.zeros((0, _SOON), np.int64))

    def meet(self, sources: Ints, taken: int) -> npt.NDArray[np.uint16]:
        """Distance to reconvergence, uint16 [sources]: blocks after each execution, which went `taken`, until one that
        the other way usually runs soon as well; ALL_DEPEND if there is none."""
        other = self._other_way(taken)
        if not len(other):
            return np.full(len(sources), ALL_DEPEND, np.uint16)
        blocks, counts = np.unique(np.concatenate([np.unique(row) for row in other]), return_counts=True)
        soon = blocks[(blocks != _NOTHING) & (counts >= _LIKELY * len(other))]
        follows = np.isin(self._following(sources), soon)
        return np.where(follows.any(axis=1), follows.argmax(axis=1), ALL_DEPEND).astype(np.uint16)

    def meeting_blocks(self, sources: Ints, depends: npt.NDArray[np.uint16]) -> list[int]:
        met = depends != ALL_DEPEND
        return [int(block) for block in np.unique(self._path[sources[met] + 1 + depends[met]])]

    def arm(self, taken: int, meeting: int) -> set[int]:
        return _blocks_before(self._samples[taken], meeting)

    def other_arm(self, taken: int, meeting: int) -> set[int]:
        return _blocks_before(self._other_way(taken), meeting)


def _blocks_before(samples: Ints, meeting: int) -> set[int]:
    """The blocks that run before `meeting` in the samples that contain it."""
    found: set[int] = set()
    for row in (samples % _LEFT).tolist():
        if meeting in row:
            found.update(row[: row.index(meeting)])
    return found


def _plain(one: Instruction) -> Instruction:
    return msgspec.structs.replace(one, load_operation=None, store_operation=None)
