"""Standard streams that whoever started us may have closed, or that lead to where nothing can be written."""

from __future__ import annotations

import io
import os
import sys


class _Forgiving(io.FileIO):
    """A file whose writes never fail, as there is nowhere to report an error."""

    def write(self, data: object, /) -> int:
        """The number of bytes given, written or not."""
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError:
            return memoryview(data).nbytes  # type: ignore[arg-type]


def set_up() -> None:
    """Make standard output fail with an OSError if it is closed, and standard error never fail.

    A closed stream's number is kept from other files of ours, which a program that we run would take for its stream.
    The program itself finds it closed, as we did.
    """
    while (descriptor := os.open(os.devnull, os.O_RDONLY)) <= 2:
        pass  # the lowest that is free; writing to it fails as it would have done
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    encoding = "utf-8" if sys.stderr is None else sys.stderr.encoding
    if sys.stderr is not None:
        sys.stderr.flush()
    standard_error = io.BufferedWriter(_Forgiving(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(standard_error, encoding, "backslashreplace", line_buffering=True)
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
