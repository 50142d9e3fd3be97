"""Where to note the time in a run of a program, so that it is divided into many short segments at little cost.

A signature tells how often each block runs, but not when. So candidates, of each function or loop one of several blocks
that run about as often, are all noted in a first run; of these are kept the ones that divide it best for what counting
their executions costs.
"""

from __future__ import annotations

import bisect
import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from foretrace.tracer.debug_info.elf_file import ElfFile
from foretrace.tracer.signature.records import Block, Signature

from .stamp_code import JUMP_BYTES, Displaced, Place, displaced_at, size_bytes

COUNTING_S = 1e-9
"""What an execution of a stub adds at most: 0.2 to 1.1 ns on a Zen 3 at 3.7 GHz, by what is around it."""
RECORDING_S = 40e-9
"""A record, at most."""
COUNTING_SHARES, RECORDING_SHARE = (0.03, 0.1), 0.002
"""Of the program's time may be added; by counting the second, where the first leaves most of it in long segments."""
SEGMENT_S = 0.0002
"""Shorter segments are not aimed at."""
MOST_PLACES = 1000
OF_THE_PROCESSOR = ("ld-linux", "libc.so", "libm.so", "libmvec.so", "libpthread.so")
"""Libraries whose functions exist in versions for several processors: natively others may run than under the engine,
and jump to where no block began there."""
_RECORDS_IN_PROBE = 2000  # of a place
LONGEST_INSTRUCTION_BYTES = 15
_LEAST_GAIN = 0.02  # of what is left, that all that may be added by counting must bring
_ALIKE = 1.2  # executions that differ by less


class Candidate(msgspec.Struct, frozen=True):
    """Where a jump can be written: `address` (link-time) of a module. It is come to so often in a run."""

    module: str
    address: int
    executions: int
    displaced: tuple[Displaced, ...]

    def place(self, records: int) -> Place:
        """With about so many records at most."""
        return Place(self.module, self.address, -(-self.executions // records), self.displaced)


def find_candidates(signature: Signature, time_s: float, counting_share: float) -> list[Candidate]:
    """Blocks of a program that takes about `time_s`, and of its libraries; of too many the most frequent.

    Counting at one of them adds `counting_share` of the time at most.
    """
    import capstone

    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    files = _Files()
    most = counting_share * time_s / COUNTING_S
    found: list[Candidate] = []
    seen: set[Any] = set()
    starts: dict[str, list[int]] = {}
    for block in signature.blocks:
        if block.executions:
            starts.setdefault(block.module, []).append(block.offset)
    for offsets in starts.values():
        offsets.sort()
    blocks = (block for block in signature.blocks if 0 < block.executions <= most)
    for block in sorted(blocks, key=lambda block: -block.executions):
        kind = (block.module, block.function, block.loop_id, round(math.log(block.executions, _ALIKE)))
        if kind in seen or len(found) >= MOST_PLACES:
            continue
        displaced = displaced_at(files.code(block), block.offset, block.instructions, decoder)
        if displaced is None:
            continue
        candidate = Candidate(block.module, block.offset, block.executions, displaced)
        if not _is_entered_in(candidate, starts[block.module]):
            seen.add(kind)
            found.append(candidate)
    return found


def _is_entered_in(candidate: Candidate, starts: Sequence[int]) -> bool:
    """Whether another block begins under the jump: who goes there would run half of it."""
    after = bisect.bisect_right(starts, candidate.address)
    return after < len(starts) and starts[after] < candidate.address + size_bytes(candidate.displaced)


class _Files:
    """What the modules' files have. Of those that are left out, and of what is no file, they have nothing."""

    def __init__(self) -> None:
        self._files: dict[str, ElfFile | None] = {}

    def code(self, block: Block) -> bytes:
        """Bytes from the block's first on, at least those that a jump displaces."""
        if block.module not in self._files:
            self._files[block.module] = self._open(block.module)
        elf = self._files[block.module]
        return b"" if elf is None else elf.loaded_at(block.offset, JUMP_BYTES + LONGEST_INSTRUCTION_BYTES)

    def _open(self, module: str) -> ElfFile | None:
        if Path(module).name.startswith(OF_THE_PROCESSOR):
            return None
        try:
            return ElfFile(module)
        except (OSError, ValueError, struct.error):
            return None


def probe(candidates: Sequence[Candidate]) -> tuple[Place, ...]:
    """All of them, for the first run."""
    return tuple(candidate.place(_RECORDS_IN_PROBE) for candidate in candidates)


def choose(
    candidates: Sequence[Candidate],
    ticks: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.int64],
    end: int,
    time_s: float,
    counting_share: float,
) -> list[tuple[Candidate, Place]]:
    """Those that divide a run best; ever the one whose gain is greatest for its cost.

    What is made small is the sum of the squares of the segments' lengths.

    Args:
        candidates: as noted in the first run.
        ticks: int64 [records], when, in that run.
        numbers: int64 [records], which.
        end: the run's last tick.
        time_s: what the program takes.
        counting_share: of it may be added by counting.
    """
    num_bins = max(1, round(time_s / SEGMENT_S))
    bins = np.minimum(ticks * num_bins // (end + 1), num_bins - 1)
    noted = np.zeros((len(candidates), num_bins), bool)
    noted[numbers, bins] = True
    most = left = counting_share * time_s / COUNTING_S
    chosen: list[int] = []
    union = np.zeros(num_bins, bool)
    undivided = _undivided(union)
    while True:
        best, best_gain = None, _LEAST_GAIN * undivided / most
        for number, candidate in enumerate(candidates):
            if number in chosen or candidate.executions > left:
                continue
            gain = (undivided - _undivided(union | noted[number])) / candidate.executions
            if gain > best_gain:
                best, best_gain = number, gain
        if best is None:
            break
        chosen.append(best)
        left -= candidates[best].executions
        union |= noted[best]
        undivided = _undivided(union)
    kept = [candidates[number] for number in sorted(chosen)]
    records = _records_of_a_place([one.executions for one in kept], RECORDING_SHARE * time_s / RECORDING_S)
    return [(one, one.place(records)) for one in kept]


def _undivided(noted: npt.NDArray[np.bool_]) -> float:
    """The sum of the squares of the gaps between bins that have a record."""
    edges = np.flatnonzero(np.concatenate([[True], noted, [True]]))
    return float((np.diff(edges).astype(np.float64) ** 2).sum())


def _records_of_a_place(executions: Sequence[int], records: float) -> int:
    """So many at most of each, that they are not more than `records` together."""
    most = 1
    while sum(min(count, 2 * most) for count in executions) < records and most < max(executions, default=0):
        most *= 2
    return most
