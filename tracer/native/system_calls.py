"""The two system calls that samplers need and Python lacks."""

from __future__ import annotations

import ctypes
import os
import platform

from foretrace.base.errors import EngineError

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "riscv64": 241}
"""Linux, asm/unistd.h."""

_library = ctypes.CDLL(None, use_errno=True)
_library.syscall.restype = ctypes.c_long
_library.ptrace.restype = ctypes.c_long


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def perf_event_open(attributes: ctypes.Array[ctypes.c_char], cpu: int, flags: int) -> int:
    """Open an event of the calling thread on one CPU; see perf_event_open(2).

    Raises:
        OSError: the kernel does not allow it, or has no such event.
        EngineError: its number is not known for this architecture.
    """
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        raise EngineError(f"sampling is not supported on {platform.machine()} yet")
    arguments = (ctypes.c_long(value) for value in (0, cpu, -1, flags))
    return _checked(_library.syscall(ctypes.c_long(number), attributes, *arguments))


def ptrace(request: int, thread: int, address: int, data: object) -> int:
    """See ptrace(2). `data`: a number, or what `ctypes.byref` gives.

    Raises:
        OSError: it cannot be done, or the thread is no more.
    """
    passed = ctypes.c_void_p(data) if isinstance(data, int) else data
    return _checked(_library.ptrace(ctypes.c_long(request), ctypes.c_int(thread), ctypes.c_void_p(address), passed))
