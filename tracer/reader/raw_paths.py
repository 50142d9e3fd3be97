"""The chunks of a stream that were kept as samples, as paths: what ran in which order, and the addresses it touched.

stream.h has the words. They were in the memory of a program that may have gone wrong: what does not fit ends a path.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .raw_trace import RawBlock, RawPath, RawPythonBlock

_ID_SHIFT, _TAG_SHIFT = np.uint64(48), np.uint64(51)
_SHORT_ID, _LONG_ID = np.uint64(0x7FFF), np.uint64(0xFFFFFFFF)
_ADDRESS = np.uint64((1 << 48) - 1)
_TAG_MAX, _TAG_CALL, _TAG_EVENTS, _TAG_MEMORY, _TAG_SYNCHRONISATION = 0xFF9, 0xFFA, 0xFFB, 0xFFC, 0xFFD


def read_paths(
    samples: Sequence[tuple[int, int, bytes]], blocks: Sequence[RawBlock | RawPythonBlock]
) -> tuple[RawPath, ...]:
    """The paths in `samples`: number, cursor and words of each chunk. Chunks in a row of one thread make one path.

    A path begins with the first block that is entered in its chunks, and ends before the last, which may be cut off.
    There are none of Python programs, whose accesses come in records of many.
    """
    if not any(isinstance(block, RawBlock) for block in blocks):
        return ()
    first_tag = np.zeros(len(blocks) + 1, np.int64)
    first_tag[1:] = [block.first_access >> 3 if isinstance(block, RawBlock) else 0 for block in blocks]
    bursts: list[list[bytes]] = []
    last = (-2, -1)
    for number, cursor, words in samples:
        if (number - 1, cursor) != last:
            bursts.append([])
        bursts[-1].append(_without_events(words))
        last = (number, cursor)
    paths = (_path(np.frombuffer(b"".join(burst), np.uint64), first_tag) for burst in bursts)
    return tuple(path for path in paths if len(path.blocks))


def _without_events(words: bytes) -> bytes:
    """A chunk without the record of software-defined events that it may begin with."""
    first = int.from_bytes(words[:8], "little")
    return words[8 * (first >> 32 & 0x7FFFF) :] if first >> 51 == _TAG_EVENTS else words


def _path(words: npt.NDArray[np.uint64], first_tag: npt.NDArray[np.int64]) -> RawPath:
    tag_bits = words >> _TAG_SHIFT
    is_memory = tag_bits == _TAG_MEMORY  # of two words
    is_place = (tag_bits == _TAG_SYNCHRONISATION) | (tag_bits == _TAG_CALL)
    words = words[~is_place & ~is_memory & ~np.concatenate(([False], is_memory[:-1]))]
    is_entry = words >> np.uint64(63) == 1
    short = words >> _ID_SHIFT & _SHORT_ID
    ids = np.where(short > 0, short, words & _LONG_ID).astype(np.int64)
    known = np.minimum(ids, len(first_tag) - 1)
    tags = np.where(is_entry, np.where(short > 0, first_tag[known], 0), (words >> _TAG_SHIFT).astype(np.int64))
    wrong = np.flatnonzero((tags > _TAG_MAX) | (is_entry & ((ids == 0) | (ids >= len(first_tag)))))
    end = int(wrong[0]) if len(wrong) else len(words)
    entries = np.flatnonzero(is_entry[:end])
    execution = np.cumsum(is_entry[:end]) - 1
    accesses = np.flatnonzero((tags[:end] > 0) & (execution >= 0) & (execution < len(entries) - 1))
    return RawPath(
        blocks=ids[entries[:-1]],
        execution=execution[accesses],
        slot=tags[accesses] - 1,
        address=words[accesses] & _ADDRESS,
    )
