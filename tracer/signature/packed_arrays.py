"""Long arrays as a signature keeps them: little-endian numbers, compressed (zlib)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

_COMPRESSION = 1  # takes half as long as zlib's default, and a fifth more room

MAX_SIGNATURE_BYTES = 5 << 28
"""Limit of all arrays of one signature, 1.25 GiB: few kilobytes of a file can hold many megabytes of zeros."""
_left_bytes: ContextVar[int | None] = ContextVar("_left_bytes", default=None)


@contextmanager
def bounded() -> Iterator[None]:
    """While this lasts, arrays are those of one signature."""
    token = _left_bytes.set(MAX_SIGNATURE_BYTES)
    try:
        yield
    finally:
        _left_bytes.reset(token)


def take_bytes(size_bytes: int) -> None:
    """Count an array's bytes before it is made.

    Raises:
        ValueError: the arrays of this signature would take more than all of one may.
    """
    left = _left_bytes.get()
    if left is None:
        return
    if size_bytes > left:
        raise ValueError(f"its arrays take more than {MAX_SIGNATURE_BYTES >> 20} MiB")
    _left_bytes.set(left - size_bytes)


def packed(array: npt.NDArray[Any], kind: str) -> bytes:
    """The array as numbers of a kind that they fit in, such as "<u4"."""
    return zlib.compress(array.astype(kind).tobytes(), _COMPRESSION)


def unpacked(blob: Any, kind: str, length: int, what: str) -> npt.NDArray[Any]:
    """The array of just this length that was packed. `what` it belongs to is for the error.

    Raises:
        ValueError: it cannot be unpacked, has another length, or the arrays of its signature take more than they may.
            No more than the length is ever unpacked.
    """
    dtype = np.dtype(kind)
    size_bytes = length * dtype.itemsize
    take_bytes(size_bytes)
    try:
        content = zlib.decompressobj().decompress(blob, size_bytes + 1)
    except (zlib.error, TypeError) as error:
        raise ValueError(f"{what} cannot be unpacked: {error}") from error
    if len(content) != size_bytes:
        raise ValueError(f"{what} is longer or shorter than it says")
    return np.frombuffer(content, dtype).astype(dtype.newbyteorder("="))
