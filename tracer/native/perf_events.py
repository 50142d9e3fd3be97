"""The sampler that uses the kernel's perf events: a software clock, so it works in virtual machines as well.

Opened before the program starts, on each CPU, for the calling thread, switched on by `execve`: what that thread starts
inherits the event, with all of its threads and children, and their samples come to our buffers (perf_event_open(2)).
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import resource
import select
import struct

from foretrace.tracer.analysis.modules import Mapping

from .samples import Samples, Starter, resolve
from .system_calls import perf_event_open

_ATTRIBUTES = struct.Struct("<IIQQQQQIIQQQQIiQII")
"""perf_event_attr, version 5: type, size, config, sample_period, sample_type, read_format, flags, wakeup_watermark,
bp_type, config1, config2, branch_sample_type, sample_regs_user, sample_stack_user, clockid, sample_regs_intr,
aux_watermark, sample_max_stack with two reserved bytes."""
_PERF_TYPE_SOFTWARE, _PERF_COUNT_SW_TASK_CLOCK = 1, 1
_DISABLED, _INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 0, 1 << 1, 1 << 5, 1 << 6
_MMAP, _ENABLE_ON_EXEC, _WATERMARK, _MMAP2 = 1 << 8, 1 << 12, 1 << 14, 1 << 23
_SAMPLE_IP, _SAMPLE_TID, _SAMPLE_REGS_USER = 1 << 0, 1 << 1, 1 << 12
_PERF_FLAG_FD_CLOEXEC = 8
_PROGRAM_COUNTER = {"x86_64": 8, "aarch64": 32, "riscv64": 0}
"""Its number among the registers of a sample: asm/perf_regs.h."""

_RECORD_LOST, _RECORD_SAMPLE, _RECORD_MMAP2 = 2, 9, 10
_RECORD = struct.Struct("<IHH")  # type, misc, size
_CPU_MODE, _KERNEL_MODE = 7, 1
_SAMPLE = struct.Struct("<QII")  # instruction pointer, process, thread
_REGISTERS = struct.Struct("<QQ")  # ABI, program counter
_MAPPED = struct.Struct("<IIQQQIIQQII")  # process, thread, address, length, file offset, ..., protection, flags
_LOST = struct.Struct("<QQ")

_HEAD_AT, _TAIL_AT = 1024, 1032  # data_head, data_tail in perf_event_mmap_page
_BUFFER_PAGES = 64
_WAIT_MS = 50


class PerfSampler:
    """Samples by perf events. Satisfies `samples.Sampler`.

    Raises:
        OSError: the kernel does not let us.
    """

    name = "perf events"

    def __init__(self, interval_s: float) -> None:
        """`interval_s` is of the program's CPU time."""
        self._events: list[int] = []
        self._buffers: list[mmap.mmap] = []
        self._found: list[tuple[int, int, bool]] = []
        self._mappings: list[tuple[int, Mapping]] = []
        self._lost = 0
        self._pid = 0
        try:
            self._open(interval_s)
        except BaseException:
            self.close()
            raise

    def _open(self, interval_s: float) -> None:
        try:
            self._open_each(_attributes(interval_s, with_kernel=True))
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM) or self._events:
                raise
            self._open_each(_attributes(interval_s, with_kernel=False))

    def _open_each(self, attributes: bytes) -> None:
        for cpu in range(os.cpu_count() or 1):
            try:
                event = perf_event_open(ctypes.create_string_buffer(attributes), cpu, _PERF_FLAG_FD_CLOEXEC)
            except OSError as error:
                if error.errno == errno.ENODEV and cpu > 0:  # a CPU that is switched off
                    continue
                raise
            self._events.append(event)
            self._buffers.append(mmap.mmap(event, (1 + _BUFFER_PAGES) * mmap.PAGESIZE))

    def run(self, start: Starter) -> tuple[int, resource.struct_rusage]:
        """See `samples.Sampler`."""
        self._pid = start()
        ended = os.pidfd_open(self._pid)
        try:
            waiting = select.poll()
            waiting.register(ended, select.POLLIN)
            while not waiting.poll(_WAIT_MS):
                self._drain()
        finally:
            os.close(ended)
        _, status, usage = os.wait4(self._pid, 0)
        self._drain()
        return status, usage

    def _drain(self) -> None:
        for buffer in self._buffers:
            head, tail = struct.unpack_from("<QQ", buffer, _HEAD_AT)
            while tail < head:
                kind, misc, size_bytes = _RECORD.unpack(_copy(buffer, tail, _RECORD.size))
                record = _copy(buffer, tail + _RECORD.size, size_bytes - _RECORD.size)
                self._take(kind, misc, record)
                tail += size_bytes
            struct.pack_into("<Q", buffer, _TAIL_AT, tail)

    def _take(self, kind: int, misc: int, record: bytes) -> None:
        if kind == _RECORD_SAMPLE:
            address, pid, _ = _SAMPLE.unpack_from(record)
            in_kernel = misc & _CPU_MODE == _KERNEL_MODE
            if len(record) >= _SAMPLE.size + _REGISTERS.size:
                address = _REGISTERS.unpack_from(record, _SAMPLE.size)[1]
            self._found.append((pid, address, in_kernel))
        elif kind == _RECORD_MMAP2:
            pid, _, start, length, offset, *_ = _MAPPED.unpack_from(record)
            path = os.fsdecode(record[_MAPPED.size :].split(b"\0")[0])
            self._mappings.append((pid, Mapping(start, start + length, offset, path)))
        elif kind == _RECORD_LOST:
            self._lost += _LOST.unpack_from(record)[1]

    def samples(self) -> Samples:
        """See `samples.Sampler`."""
        own = [(address, in_kernel) for pid, address, in_kernel in self._found if pid == self._pid]
        mappings = [mapping for pid, mapping in self._mappings if pid == self._pid]
        return resolve(own, mappings, len(self._found) - len(own), self._lost)

    def close(self) -> None:
        """See `samples.Sampler`."""
        for buffer in self._buffers:
            buffer.close()
        for event in self._events:
            os.close(event)
        self._buffers, self._events = [], []


def _attributes(interval_s: float, *, with_kernel: bool) -> bytes:
    """Attributes (struct perf_event_attr) of a clock that runs with the program.

    Where we may look at the kernel, its time counts for the instruction that the program had come to.
    """
    flags = _DISABLED | _INHERIT | _EXCLUDE_HYPERVISOR | _MMAP | _MMAP2 | _ENABLE_ON_EXEC | _WATERMARK
    counter = _PROGRAM_COUNTER.get(platform.machine())
    sample_type, registers = _SAMPLE_IP | _SAMPLE_TID, 0
    if with_kernel and counter is not None:
        sample_type, registers = sample_type | _SAMPLE_REGS_USER, 1 << counter
    else:
        flags |= _EXCLUDE_KERNEL
    watermark = _BUFFER_PAGES * mmap.PAGESIZE // 2
    return _ATTRIBUTES.pack(
        _PERF_TYPE_SOFTWARE, _ATTRIBUTES.size, _PERF_COUNT_SW_TASK_CLOCK, round(interval_s * 1e9), sample_type, 0,
        flags, watermark, 0, 0, 0, 0, registers, 0, 0, 0, 0, 0,
    )  # fmt: skip


def _copy(buffer: mmap.mmap, position: int, size_bytes: int) -> bytes:
    """Bytes of the ring that begins after the buffer's first page."""
    ring_bytes = _BUFFER_PAGES * mmap.PAGESIZE
    begin = position % ring_bytes
    first = min(size_bytes, ring_bytes - begin)
    at = mmap.PAGESIZE + begin
    return buffer[at : at + first] + buffer[mmap.PAGESIZE : mmap.PAGESIZE + size_bytes - first]
