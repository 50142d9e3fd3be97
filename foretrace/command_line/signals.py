"""The end of a process by a signal."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn


def die_by_signal(number: int) -> NoReturn:
    """End as if `number` had killed us, so that whoever started us sees what happened. No core file is left."""
    import resource

    with suppress(OSError):
        sys.stdout.flush()
    sys.stderr.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # for a signal whose default is not to end a process
