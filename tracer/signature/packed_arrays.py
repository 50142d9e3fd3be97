"""Long arrays as a signature keeps them: little-endian numbers, compressed (zlib)."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

_COMPRESSION = 1  # takes half as long as zlib's default, and a fifth more room


def packed(array: npt.NDArray[Any], kind: str) -> bytes:
    """The array as numbers of a kind that they fit in, such as "<u4"."""
    return zlib.compress(array.astype(kind).tobytes(), _COMPRESSION)


def unpacked(blob: Any, kind: str, length: int, what: str) -> npt.NDArray[Any]:
    """The array of just this length that was packed. `what` it belongs to is for the error.

    Raises:
        ValueError: it cannot be unpacked, or has another length. No more than the length is ever unpacked.
    """
    dtype = np.dtype(kind)
    size_bytes = length * dtype.itemsize
    try:
        content = zlib.decompressobj().decompress(blob, size_bytes + 1)
    except (zlib.error, TypeError) as error:
        raise ValueError(f"{what} cannot be unpacked: {error}") from error
    if len(content) != size_bytes:
        raise ValueError(f"{what} is longer or shorter than it says")
    return np.frombuffer(content, dtype).astype(dtype.newbyteorder("="))
