"""Handling of ^C, SIGTERM and SIGHUP while the results of a program's run are worked out and written: what there is is
written soon, without what takes long. The second ^C in a row does no harm, the third gives up, as does a second SIGTERM
or SIGHUP.
"""

from __future__ import annotations

import os
import signal
import time
from types import FrameType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from foretrace.tracer.session.session import Progress

_IN_A_ROW_S = 1.0
"""Seconds: a ^C longer before the program's end than this did not end it."""
_GIVES_UP = 3
_ENDS = (signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts interrupts from the one that ended the program, or from the program's end if that had another cause.

    Until the program has ended, ^C is a KeyboardInterrupt, as ever.
    """

    def __init__(self, writing: str) -> None:
        """`writing` says what is at stake, for the message."""
        self._writing = writing
        self._has_ended = False
        self._count = self._seen = 0
        self._last_s = -_IN_A_ROW_S
        self._told = False
        self._progress: Progress | None = None

    def __enter__(self) -> Self:
        """Handle those signals, unless they are ignored or handled already."""
        self._ends = [number for number in _ENDS if signal.getsignal(number) is signal.SIG_DFL]
        for number in self._ends:
            signal.signal(number, self._handle_end)
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the previous handlers."""
        signal.signal(signal.SIGINT, self._before)
        for number in self._ends:
            signal.signal(number, signal.SIG_DFL)

    def watch(self, progress: Progress) -> None:
        """Take the progress of the program: see `Session.run`."""
        now_s = time.monotonic()
        self._progress = progress
        if progress.interrupts > self._seen:
            self._seen, self._last_s = progress.interrupts, now_s
        if progress.ended and not self._has_ended:
            self._has_ended = True
            in_a_row = now_s - self._last_s < _IN_A_ROW_S
            self._count = min(self._seen, _GIVES_UP - 1) if in_a_row else 1

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._count += self._has_ended
        if not self._has_ended or self._count >= _GIVES_UP:
            signal.default_int_handler(number, frame)
        self._hurry("^C")

    def _handle_end(self, number: int, frame: FrameType | None) -> None:
        if not self._has_ended or self._told:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self._told = True
        self._hurry(signal.Signals(number).name)

    def _hurry(self, what: str) -> None:
        if self._progress is not None:
            self._progress.hurries = True
        # Not by sys.stderr, which may be writing just now.
        os.write(2, f"foretrace: {self._writing}; {what} once more gives up\n".encode(errors="replace"))
