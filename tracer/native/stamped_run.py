"""Runs a program natively with code in it that notes when it comes to some places (`stamp_code`).

The program is stopped where it begins, when its libraries have been loaded, by ptrace(2): it is made to map the regions
and the records, jumps are written over code in memory, and it is left alone from then on. What it prints is discarded.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import ProgramError
from foretrace.tracer.analysis.modules import Mapping, parse_maps
from foretrace.tracer.debug_info.elf_file import PT_LOAD, ElfFile

from .program_input import Reading
from .stamp_code import COUNTER_BYTES, PAGE_BYTES, RECORDS_AT, Place, no_records, records_bytes, region, region_bytes
from .system_calls import ptrace

_TRACE_ME, _CONT, _SINGLE_STEP, _GET_REGISTERS, _SET_REGISTERS, _DETACH, _SET_OPTIONS = 0, 7, 9, 12, 13, 17, 0x4200
_KILL_WITH_TRACER = 1 << 20  # PTRACE_O_EXITKILL
_REGISTERS = struct.Struct("<27Q")
_R10, _R9, _R8, _RAX, _RDX, _RSI, _RDI, _ORIG_RAX, _RIP = 7, 8, 9, 10, 12, 13, 14, 15, 16
"""Places in `struct user_regs_struct` of sys/user.h, x86-64."""
_MMAP, _CLOSE = 9, 3  # asm/unistd_64.h
_SHARED_POPULATED_THERE = 0x01 | 0x8000 | 0x100000  # MAP_SHARED, MAP_POPULATE, MAP_FIXED_NOREPLACE
_READ_WRITE, _READ_EXECUTE = 3, 5
_SYSTEM_CALL, _BREAKPOINT = b"\x0f\x05", b"\xcc"  # syscall; int3
_GAP_BYTES, _LIBRARY_GAP_BYTES = 16 << 20, 512 << 20
"""Left free below a program, and below its libraries, where most of what it allocates comes to lie."""
_LOWEST = 1 << 16  # /proc/sys/vm/mmap_min_addr where it is not lower
_CODE_OF_READING = b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3"  # rdtsc; shl rdx, 32; or rax, rdx; ret


@dataclass(frozen=True, slots=True)
class StampedRun:
    """When the program came where, in ticks of the time-stamp counter since it began, and what it took.

    `ticks` int64 [records], `numbers` int64 [records] (of places), `end_ticks`; `wall_s` is as long as these. While
    it was stopped nothing counts. `executions` int64 [places]: how often it came there, if all records had room.
    `cpu_s` holds its being started as well. `waits`: how often it gave up the processor of itself, but to be stopped.
    """

    ticks: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    executions: npt.NDArray[np.int64]
    end_ticks: int
    wall_s: float
    cpu_s: float
    waits: int
    exit_code: int


class TimeStampCounter:
    """Reads the processor's time-stamp counter, as the stubs do."""

    def __init__(self) -> None:
        """Make the function."""
        self._memory = mmap.mmap(-1, PAGE_BYTES, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._memory.write(_CODE_OF_READING)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._read = ctypes.CFUNCTYPE(ctypes.c_int64)(address)

    def now(self) -> tuple[int, float]:
        """Ticks, and seconds of the system's clock."""
        return int(self._read()), time.perf_counter()


def run_stamped(
    path: str,
    command: Sequence[str],
    places: Sequence[Place],
    num_records: int,
    counter: TimeStampCounter,
    environment: dict[str, str] | None = None,
    reading: Reading | None = None,
) -> StampedRun:
    """Run it to its end.

    Args:
        path: of the executable.
        command: its name and arguments.
        places: where to note the time; those of modules that are not loaded when it begins are not come to.
        num_records: for so many records there is room.
        counter: of this processor.
        environment: of the program; None: ours.
        reading: its standard input; None: an empty one.

    Raises:
        OSError: the system does not let us.
        ValueError: there is no room near a module.
        ProgramError: it ended before it began.
    """
    periods = np.array([place.period for place in places], np.int64)
    descriptor = os.memfd_create("foretrace", 0)  # inherited, and closed by the program once it is mapped
    try:
        variables = dict(os.environ) if environment is None else environment
        with _started(path, command, variables, descriptor, reading or Reading(None)) as child:
            began = counter.now()
            child.go_to(_entry(child, path))
            stopped = counter.now()
            records, counters_at = _prepare(child, path, places, num_records, descriptor)
            stops = child.waits()
            went_on = counter.now()
            status, usage = child.leave_alone()
            end = counter.now()
        with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as memory:
            (after,) = struct.unpack_from("<Q", memory, 0)
            rows = np.frombuffer(memory[RECORDS_AT : after - records], np.int64).reshape(-1, 2)
            left = [
                struct.unpack_from("<q", memory, at)[0] if at else period
                for at, period in zip(counters_at, periods.tolist(), strict=True)
            ]
    finally:
        os.close(descriptor)
    before_ticks, before_s = (now - then for now, then in zip(stopped, began, strict=True))
    return StampedRun(
        ticks=rows[:, 0] - went_on[0] + int(before_ticks),
        numbers=rows[:, 1].copy(),
        executions=np.bincount(rows[:, 1], minlength=len(places)) * periods + periods - np.array(left, np.int64),
        end_ticks=end[0] - went_on[0] + int(before_ticks),
        wall_s=end[1] - went_on[1] + before_s,
        cpu_s=usage.ru_utime + usage.ru_stime,
        waits=usage.ru_nvcsw - stops,
        exit_code=os.waitstatus_to_exitcode(status),
    )


class _Stopped:
    """A program that ptrace(2) stopped before its first instruction."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        ptrace(_SET_OPTIONS, pid, 0, _KILL_WITH_TRACER)

    def go_to(self, address: int) -> None:
        """Let it run until it is there."""
        registers = self._registers()
        if registers[_RIP] != address:
            code = self.swap(address, _BREAKPOINT)
            self._go_on(_CONT)
            registers = self._registers()
            registers[_RIP] = address
            self._set(registers)
            self.swap(address, code)

    def call(self, calls: Sequence[Sequence[int]]) -> list[int]:
        """Make it call the system, each time by a number and arguments; the results. Nothing else of it changes."""
        before = self._registers()
        code = self.swap(before[_RIP], _SYSTEM_CALL)
        results = []
        for number, *arguments in calls:
            registers = list(before)
            registers[_RAX], registers[_ORIG_RAX] = number, (1 << 64) - 1
            for place, argument in zip((_RDI, _RSI, _RDX, _R10, _R8, _R9), arguments, strict=False):
                registers[place] = argument
            self._set(registers)
            self._go_on(_SINGLE_STEP)
            value = self._registers()[_RAX]
            results.append(value - (1 << 64) if value >> 63 else value)
        self._set(before)
        self.swap(before[_RIP], code)
        return results

    def swap(self, address: int, code: bytes) -> bytes:
        """Write code there; what was there."""
        with Path(f"/proc/{self.pid}/mem").open("r+b", buffering=0) as memory:
            memory.seek(address)
            old = memory.read(len(code))
            memory.seek(address)
            memory.write(code)
        return old

    def mappings(self) -> list[Mapping]:
        """What is mapped where."""
        return parse_maps(Path(f"/proc/{self.pid}/maps").read_text(errors="surrogateescape"), 0)[0]

    def waits(self) -> int:
        """How often it has given up the processor of itself, as it does to be stopped."""
        text = Path(f"/proc/{self.pid}/status").read_text(errors="replace")
        return int(text.partition("\nvoluntary_ctxt_switches:")[2].split(maxsplit=1)[0])

    def leave_alone(self) -> tuple[int, resource.struct_rusage]:
        """Let it run to its end: its status, and what it used. A terminal's ^C is the program's meanwhile."""
        before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
        try:
            ptrace(_DETACH, self.pid, 0, 0)
            _, status, usage = os.wait4(self.pid, 0)
            return status, usage
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _go_on(self, request: int) -> None:
        ptrace(request, self.pid, 0, 0)
        _, status = os.waitpid(self.pid, 0)
        if not os.WIFSTOPPED(status) or os.WSTOPSIG(status) != signal.SIGTRAP:
            raise ProgramError("the program ended, or got a signal, before it began")

    def _registers(self) -> list[int]:
        buffer = ctypes.create_string_buffer(_REGISTERS.size)
        ptrace(_GET_REGISTERS, self.pid, 0, ctypes.byref(buffer))
        return list(_REGISTERS.unpack(buffer.raw))

    def _set(self, registers: Sequence[int]) -> None:
        buffer = ctypes.create_string_buffer(_REGISTERS.pack(*registers))
        ptrace(_SET_REGISTERS, self.pid, 0, ctypes.byref(buffer))


@contextmanager
def _started(
    path: str, command: Sequence[str], environment: dict[str, str], descriptor: int, reading: Reading
) -> Iterator[_Stopped]:
    """The program, stopped before its first instruction. It is killed if we fail."""
    arguments = list(command)
    pid = os.fork()
    if pid == 0:
        try:
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing if reading.descriptor is None else reading.descriptor, 0)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.set_inheritable(descriptor, True)
            ptrace(_TRACE_ME, 0, 0, 0)
            os.execve(path, arguments, environment)
        finally:
            os._exit(127)
    reading.begun()
    _, status = os.waitpid(pid, 0)
    if not os.WIFSTOPPED(status):
        raise ProgramError(f"cannot run {path} under ptrace")
    try:
        yield _Stopped(pid)
    except BaseException:
        with suppress(ProcessLookupError, ChildProcessError):  # it may have ended
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        raise


def _prepare(
    child: _Stopped, path: str, places: Sequence[Place], num_records: int, descriptor: int
) -> tuple[int, list[int]]:
    """Map records and regions in the stopped program and write the jumps.

    Returns the address of the records, and where in the file each place's counter is (0 if its module is not loaded).
    In the file are the records, then the regions one behind the other.
    """
    mappings, own = child.mappings(), str(Path(path).resolve())
    modules: dict[str, list[tuple[int, Place]]] = {own: []}
    for number, place in enumerate(places):
        modules.setdefault(place.module, []).append((number, place))
    size_bytes = records_bytes(num_records)
    records = _room(mappings, own, size_bytes + region_bytes(modules[own]))
    os.ftruncate(descriptor, size_bytes + sum(map(region_bytes, modules.values())))
    os.pwrite(descriptor, no_records(records, num_records), 0)
    maps = [(records, size_bytes, _READ_WRITE, 0)]
    at = size_bytes
    libraries = [one.start for one in mappings if one.path in modules and one.path != own]
    below = min(libraries, default=0) - _LIBRARY_GAP_BYTES
    jumps: dict[int, bytes] = {}
    counters_at = [0] * len(places)
    for module, noted in modules.items():
        first = _first(mappings, module)
        if first is None:
            continue
        if module == own:
            base = records + size_bytes
        else:
            base = below = (below - region_bytes(noted)) // PAGE_BYTES * PAGE_BYTES
        made = region(noted, _bias(first), base, records)
        os.pwrite(descriptor, made.code, at)
        os.pwrite(descriptor, made.data, at + made.data_at)
        maps.append((base, made.data_at - PAGE_BYTES, _READ_EXECUTE, at))
        maps.append((base + made.data_at, region_bytes(noted) - made.data_at, _READ_WRITE, at + made.data_at))
        jumps |= made.jumps
        for position, (number, _) in enumerate(noted):
            counters_at[number] = at + made.counters_at + COUNTER_BYTES * position
        at += region_bytes(noted)
    calls = [
        (_MMAP, where, size, kind, _SHARED_POPULATED_THERE, descriptor, begin) for where, size, kind, begin in maps
    ]
    results = child.call([*calls, (_CLOSE, descriptor)])
    for (where, *_), result in zip(maps, results, strict=False):
        if result != where:
            raise OSError(-result if result < 0 else 0, "memory cannot be mapped into the program")
    for address, jump in jumps.items():
        child.swap(address, jump)
    return records, counters_at


def _first(mappings: Sequence[Mapping], module: str) -> Mapping | None:
    """The lowest mapping of a module."""
    return min((one for one in mappings if one.path == module), key=lambda one: one.start, default=None)


def _bias(first: Mapping) -> int:
    """How far above its link-time addresses a module is loaded, by a mapping of it."""
    segments = [one for one in ElfFile(first.path).segments if one.kind == PT_LOAD]
    found = next((one for one in segments if one.begin // PAGE_BYTES * PAGE_BYTES == first.file_offset), None)
    if found is None:
        raise ValueError(f"{first.path} is not loaded as its file says")
    return first.start - found.address // PAGE_BYTES * PAGE_BYTES


def _entry(child: _Stopped, path: str) -> int:
    """Where the program itself begins, after the loader."""
    first = _first(child.mappings(), str(Path(path).resolve()))
    if first is None:
        raise ValueError("the program is not where it was looked for")
    return ElfFile(first.path).entry + _bias(first)


def _room(mappings: Sequence[Mapping], own: str, size_bytes: int) -> int:
    """A free address below the program."""
    first = _first(mappings, own)
    lowest = mappings[0].start if first is None else first.start
    base = max((lowest - _GAP_BYTES - size_bytes) // PAGE_BYTES * PAGE_BYTES, _LOWEST)
    if base + size_bytes > lowest:
        raise ValueError("there is no room below the program")
    return base
