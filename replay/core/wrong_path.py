"""What a core runs while a branch is thought to go the other way, from how the program went there at other times.

A missed branch costs less where both its ways soon meet again: what comes then has been run ahead. A branch's ways
meet, for one execution of it, at the first block that also ran after it, and before it ran again, when it went the
other way; once one way has left the loop around the branch, so must the other have: the same block in a loop that is
begun anew works on other data.
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
"""Blocks after a branch that a core can have run before it knows better."""
_SAMPLES = 64
_NOTHING, _LEFT = -1, 1 << 32
_LIKELY = 0.5
"""Share of the samples of the other way that a block must have run in."""


@dataclass(frozen=True, slots=True, eq=False)
class WrongWays:
    """`depends` uint16 [executions]: of each missed branch, how many executions that follow run for its outcome only;
    ALL_DEPEND where its ways do not meet. `anyway`: by block, instructions that stand on both ways of a branch."""

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
        """From the blocks that ran, which of their ends were missed, and where stretches of the run begin.

        `instructions` are those of each block, by the numbers in `path`; `outside` tells of a block which others run
        only once the loop around it was left.
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
        """Whether an instruction of a block is run whichever way a branch before it goes."""
        return _plain(one) in self.anyway.get(block, ())


class _Ways:
    """What followed the executions of one block until it ran again, by the block that came next.

    A block counts as another one, `_LEFT` further on, once the loop was left.
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
        """[sources, _SOON]: the blocks that ran after some executions."""
        blocks = self._path[sources[:, None] + 1 + np.arange(_SOON)]
        left = np.maximum.accumulate(self._outside[blocks], axis=1)
        return np.asarray(blocks + _LEFT * left, np.int64)

    def _other(self, taken: int) -> Ints:
        """Samples of the other ways, the most usual of them."""
        others = [samples for way, samples in self._samples.items() if way != taken]
        return max(others, key=len, default=np.zeros((0, _SOON), np.int64))

    def meet(self, sources: Ints, taken: int) -> npt.NDArray[np.uint16]:
        """Of executions that went `taken`, how many follow until what runs soon on the other way as well."""
        other = self._other(taken)
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
        return _before(self._samples[taken], meeting)

    def other_arm(self, taken: int, meeting: int) -> set[int]:
        return _before(self._other(taken), meeting)


def _before(samples: Ints, meeting: int) -> set[int]:
    """The blocks in samples that run before one of them."""
    found: set[int] = set()
    for row in (samples % _LEFT).tolist():
        if meeting in row:
            found.update(row[: row.index(meeting)])
    return found


def _plain(one: Instruction) -> Instruction:
    return msgspec.structs.replace(one, load_operation=None, store_operation=None)
