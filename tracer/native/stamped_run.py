"""Runs a program natively with code in it that notes when it comes to some places (`stamp_code`).

The program is stopped once, as soon as it has been loaded, by ptrace(2): it is made to map the region, jumps are
written over its code in memory, and it is left alone from then on. What it prints is discarded.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from foretrace.errors import ProgramError
from foretrace.tracer.machine_code.elf_file import PT_LOAD, ElfFile
from foretrace.tracer.modules import parse_maps

from .stamp_code import PAGE_BYTES, RECORD_BYTES, Place, initial_data, region, region_bytes
from .system_calls import ptrace

_TRACE_ME, _SINGLE_STEP, _GET_REGISTERS, _SET_REGISTERS, _DETACH, _SET_OPTIONS = 0, 9, 12, 13, 17, 0x4200
_KILL_WITH_TRACER = 1 << 20  # PTRACE_O_EXITKILL
_REGISTERS = struct.Struct("<27Q")
_R10, _R9, _R8, _RAX, _RDX, _RSI, _RDI, _ORIG_RAX, _RIP = 7, 8, 9, 10, 12, 13, 14, 15, 16
"""Places in `struct user_regs_struct` of sys/user.h, x86-64."""
_MMAP, _CLOSE = 9, 3  # asm/unistd_64.h
_SHARED_POPULATED_THERE = 0x01 | 0x8000 | 0x100000  # MAP_SHARED, MAP_POPULATE, MAP_FIXED_NOREPLACE
_READ_WRITE, _READ_EXECUTE = 3, 5
_GAP_BYTES = 16 << 20  # between region and program, so that neither notices the other
_LOWEST = 1 << 16  # /proc/sys/vm/mmap_min_addr where it is not lower
_CODE_OF_READING = b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3"  # rdtsc; shl rdx, 32; or rax, rdx; ret


@dataclass(frozen=True, slots=True)
class StampedRun:
    """When the program came where, in ticks of the time-stamp counter since it began, and what it took.

    `ticks` int64 [records], `numbers` int64 [records] (of places), `end_ticks`; `wall_s` is as long as these.
    `cpu_s` holds its being started as well. `waits`: how often it gave up the processor of itself.
    """

    ticks: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
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
        self.read = ctypes.CFUNCTYPE(ctypes.c_int64)(address)


def run_stamped(
    path: str, command: Sequence[str], places: Sequence[Place], num_records: int, counter: TimeStampCounter
) -> StampedRun:
    """Run it to its end.

    Args:
        path: of the executable.
        command: its name and arguments.
        places: where to note the time.
        num_records: for so many records there is room.
        counter: of this processor.

    Raises:
        OSError: the system does not let us.
        ValueError: there is no room near the program.
        ProgramError: it ended before it began.
    """
    descriptor = os.memfd_create("foretrace", 0)  # inherited, and closed by the program once it is mapped
    try:
        os.ftruncate(descriptor, region_bytes(places, num_records))
        with mmap.mmap(descriptor, 0) as memory:
            child = _start(path, command, descriptor)
            try:
                records_at = _prepare(child, path, places, num_records, memory, descriptor)
                began_s, began = time.perf_counter(), counter.read()
                ptrace(_DETACH, child, 0, 0)
            except BaseException:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise
            status, usage = _wait(child)
            end, wall_s = counter.read(), time.perf_counter() - began_s
            return _result(memory, places, records_at, (began, end), wall_s, status, usage)
    finally:
        os.close(descriptor)


def _result(
    memory: mmap.mmap,
    places: Sequence[Place],
    records_at: tuple[int, int],
    span: tuple[int, int],
    wall_s: float,
    status: int,
    usage: resource.struct_rusage,
) -> StampedRun:
    data_at, address = records_at
    start = region(places, 0, 0, 0).records_at
    (after,) = struct.unpack_from("<Q", memory, data_at)
    rows = np.frombuffer(memory[start : start + after - address], np.int64).reshape(-1, 2)
    return StampedRun(
        ticks=rows[:, 0] - span[0],
        numbers=rows[:, 1].copy(),
        end_ticks=span[1] - span[0],
        wall_s=wall_s,
        cpu_s=usage.ru_utime + usage.ru_stime,
        waits=usage.ru_nvcsw,
        exit_code=os.waitstatus_to_exitcode(status),
    )


def _start(path: str, command: Sequence[str], descriptor: int) -> int:
    """The program, stopped before its first instruction."""
    arguments, environment = list(command), dict(os.environ)
    child = os.fork()
    if child == 0:
        try:
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nothing, stream)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.set_inheritable(descriptor, True)
            ptrace(_TRACE_ME, 0, 0, 0)
            os.execve(path, arguments, environment)
        finally:
            os._exit(127)
    _, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status):
        raise ProgramError(f"cannot run {path} under ptrace")
    return child


def _wait(child: int) -> tuple[int, resource.struct_rusage]:
    """Its end. A terminal's ^C is the program's, not ours, while it runs."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        _, status, usage = os.wait4(child, 0)
        return status, usage
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _prepare(
    child: int, path: str, places: Sequence[Place], num_records: int, memory: mmap.mmap, descriptor: int
) -> tuple[int, int]:
    """Map the region in the stopped program and write the jumps; where in the file the data are, and the address of the
    first record."""
    ptrace(_SET_OPTIONS, child, 0, _KILL_WITH_TRACER)
    bias, lowest = _loaded(child, path)
    size_bytes = region_bytes(places, num_records)
    base = _room(lowest, size_bytes)
    made = region(places, bias, base, num_records)
    first_record = base + made.records_at
    data = initial_data(places, first_record, first_record + RECORD_BYTES * num_records)
    memory[: len(made.code)] = made.code
    memory[made.data_at : made.data_at + len(data)] = data
    stopped = _Stopped(child)
    code_bytes = made.data_at - PAGE_BYTES
    stopped.map_there(base, code_bytes, _READ_EXECUTE, descriptor, 0)
    stopped.map_there(base + made.data_at, size_bytes - made.data_at, _READ_WRITE, descriptor, made.data_at)
    stopped.call(_CLOSE, descriptor)
    stopped.restore()
    with Path(f"/proc/{child}/mem").open("r+b", buffering=0) as program:
        for address, jump in made.jumps.items():
            program.seek(address)
            program.write(jump)
    return made.data_at, first_record


def _loaded(child: int, path: str) -> tuple[int, int]:
    """How far above its link-time addresses the program lies, and its lowest address."""
    real = str(Path(path).resolve())
    mappings = parse_maps(Path(f"/proc/{child}/maps").read_text(errors="surrogateescape"), 0)[0]
    first = min((one for one in mappings if one.path == real), key=lambda one: one.start, default=None)
    if first is None:
        raise ValueError("the program is not where it was looked for")
    segments = [one for one in ElfFile(real).segments if one.kind == PT_LOAD]
    linked = next(one for one in segments if one.begin // PAGE_BYTES * PAGE_BYTES == first.file_offset)
    return first.start - linked.address // PAGE_BYTES * PAGE_BYTES, first.start


def _room(lowest: int, size_bytes: int) -> int:
    """An address below the program: what it allocates lies above it."""
    base = (lowest - _GAP_BYTES - size_bytes) // PAGE_BYTES * PAGE_BYTES
    if base < _LOWEST:
        base = _LOWEST
    if base + size_bytes > lowest:
        raise ValueError("there is no room below the program")
    return base


class _Stopped:
    """A stopped program that is made to call the system: with an instruction written over its next one."""

    def __init__(self, child: int) -> None:
        self._child = child
        self._before = self._registers()
        self._mem = Path(f"/proc/{child}/mem")
        self._code = self._swap(b"\x0f\x05")  # syscall

    def map_there(self, address: int, size_bytes: int, protection: int, descriptor: int, offset: int) -> None:
        """Raises: OSError: it cannot be mapped."""
        got = self.call(_MMAP, address, size_bytes, protection, _SHARED_POPULATED_THERE, descriptor, offset)
        if got != address:
            raise OSError(-got if got < 0 else 0, "memory cannot be mapped into the program")

    def call(self, number: int, *arguments: int) -> int:
        """Its result."""
        registers = list(self._before)
        registers[_RAX], registers[_ORIG_RAX] = number, (1 << 64) - 1
        for place, argument in zip((_RDI, _RSI, _RDX, _R10, _R8, _R9), arguments, strict=False):
            registers[place] = argument
        self._set(registers)
        ptrace(_SINGLE_STEP, self._child, 0, 0)
        _, status = os.waitpid(self._child, 0)
        if not os.WIFSTOPPED(status):
            raise ProgramError("the program ended while it was prepared")
        value = self._registers()[_RAX]
        return value - (1 << 64) if value >> 63 else value

    def restore(self) -> None:
        """As it was found."""
        self._swap(self._code)
        self._set(self._before)

    def _registers(self) -> list[int]:
        buffer = ctypes.create_string_buffer(_REGISTERS.size)
        ptrace(_GET_REGISTERS, self._child, 0, ctypes.byref(buffer))
        return list(_REGISTERS.unpack(buffer.raw))

    def _set(self, registers: Sequence[int]) -> None:
        buffer = ctypes.create_string_buffer(_REGISTERS.pack(*registers))
        ptrace(_SET_REGISTERS, self._child, 0, ctypes.byref(buffer))

    def _swap(self, code: bytes) -> bytes:
        """Write code at the next instruction; what was there."""
        with self._mem.open("r+b", buffering=0) as memory:
            memory.seek(self._before[_RIP])
            old = memory.read(len(code))
            memory.seek(self._before[_RIP])
            memory.write(code)
        return old
