"""Time that a program waited, which no machine's processor shortens."""

from __future__ import annotations

import msgspec


class Waiting(msgspec.Struct, frozen=True):
    """Wall-clock time in which no thread of a traced process ran or was ready to: it slept, or waited for a device, a
    lock or another process. Waiting for foretrace is not in it. `children_s` is processor time of child processes that
    the process waited for.
    """

    waited_s: float
    children_s: float = 0.0
