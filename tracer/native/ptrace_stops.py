"""The sampler for where perf events are not allowed, as in most containers: it stops the program by ptrace to look.

Only threads that run are stopped (in the other states they use no time), so that no waiting system call is disturbed.
Signals pass through (ptrace(2), "Signal-delivery-stop"); the program's children are left alone.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import time
from contextlib import suppress
from pathlib import Path

from foretrace.tracer.analysis.modules import Mapping, parse_maps

from .samples import Samples, Starter, resolve
from .system_calls import ptrace

_CONT, _SEIZE, _INTERRUPT, _LISTEN, _GETREGSET, _DETACH = 7, 0x4206, 0x4207, 0x4208, 0x4204, 17
_EVENT_STOP = 128
_GENERAL_REGISTERS = 1  # NT_PRSTATUS
_WALL = 0x40000000
_PROGRAM_COUNTER_AT = {"x86_64": 128, "aarch64": 256, "riscv64": 0}
"""Its place among the general registers: `struct user_regs_struct` or `user_pt_regs` of sys/user.h, asm/ptrace.h."""
_STOPS = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


class _Vector(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("size_bytes", ctypes.c_size_t))


class PtraceSampler:
    """Samples by stopping threads. Satisfies `samples.Sampler`.

    Raises:
        OSError: registers of this architecture are not known.
    """

    name = "ptrace"

    def __init__(self, interval_s: float) -> None:
        """`interval_s` is of real time."""
        if platform.machine() not in _PROGRAM_COUNTER_AT:
            raise OSError(f"registers of {platform.machine()} are not known")
        self._interval_s = interval_s
        self._found: list[tuple[int, bool]] = []
        self._mappings: list[Mapping] = []
        self._threads: set[int] = set()
        self._ended: tuple[int, resource.struct_rusage] | None = None

    def run(self, start: Starter) -> tuple[int, resource.struct_rusage]:
        """See `samples.Sampler`."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # to be waited for
        try:
            pid = start()
            due = time.monotonic()
            while self._ended is None:
                self._seize_threads(pid)
                for thread in self._threads:
                    if _state(pid, thread) == "R":
                        with suppress(OSError):  # it may have ended
                            ptrace(_INTERRUPT, thread, 0, 0)
                due = max(due + self._interval_s, time.monotonic())
                self._hear_until(due, pid)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self._ended

    def _hear_until(self, due: float, pid: int) -> None:
        """Answer all that happens to the threads."""
        while self._ended is None:
            for thread in sorted(self._threads | {pid}):
                self._hear(pid, thread)
            left = due - time.monotonic()
            if left <= 0:
                break
            signal.sigtimedwait([signal.SIGCHLD], left)

    def _seize_threads(self, pid: int) -> None:
        with suppress(OSError):  # it may have ended
            for thread in [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]:
                if thread not in self._threads and _state(pid, thread) not in "ZX":
                    ptrace(_SEIZE, thread, 0, 0)
                    self._threads.add(thread)

    def _hear(self, pid: int, thread: int) -> None:
        while self._ended is None:
            try:
                waited, status, usage = os.wait4(thread, _WALL | os.WNOHANG)
            except ChildProcessError:  # a thread other than the first, that has ended
                self._threads.discard(thread)
                return
            if waited == 0:
                return
            if os.WIFSTOPPED(status):
                with suppress(OSError):  # it may be killed at any time
                    self._answer(pid, thread, status)
                continue
            self._threads.discard(thread)
            if thread == pid:
                self._ended = status, usage

    def _answer(self, pid: int, thread: int, status: int) -> None:
        """Let a stopped thread go on, with the signal that it was stopped for."""
        number, event = os.WSTOPSIG(status), status >> 16
        if event == _EVENT_STOP and number in _STOPS:
            ptrace(_LISTEN, thread, 0, 0)  # stopped as a whole, until it is told to continue
            return
        try:
            if event == _EVENT_STOP:
                self._note(pid, thread)
        finally:
            ptrace(_CONT, thread, 0, 0 if event else number)

    def _note(self, pid: int, thread: int) -> None:
        registers = ctypes.create_string_buffer(1024)
        vector = _Vector(ctypes.cast(registers, ctypes.c_void_p), len(registers))
        ptrace(_GETREGSET, thread, _GENERAL_REGISTERS, ctypes.byref(vector))
        at = _PROGRAM_COUNTER_AT[platform.machine()]
        address = int.from_bytes(registers.raw[at : at + 8], "little")
        if not any(mapping.start <= address < mapping.end for mapping in self._mappings):
            text = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape")
            self._mappings += parse_maps(text, 0)[0]
        self._found.append((address, False))

    def samples(self) -> Samples:
        """See `samples.Sampler`."""
        return resolve(self._found, self._mappings, 0, 0)

    def close(self) -> None:
        """See `samples.Sampler`."""
        for thread in self._threads:
            with suppress(OSError):
                ptrace(_DETACH, thread, 0, 0)


def _state(pid: int, thread: int) -> str:
    """`R` for one that runs; `X` for one that is no more (proc(5))."""
    try:
        text = Path(f"/proc/{pid}/task/{thread}/stat").read_text()
    except OSError:
        return "X"
    return text[text.rindex(")") + 2]
