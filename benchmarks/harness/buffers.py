"""Memory that kernels run over: in pages of a chosen size, and kernels bound to it."""

from __future__ import annotations

import mmap
import random
import re
import resource
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from foretrace.benchmarks.kernels import _kernels

from .sampling import Run

Buffer = mmap.mmap | memoryview

_SMAPS = Path("/proc/self/smaps")
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")
_STATUS = Path("/proc/self/status")
_MOST_ALIGNED_BYTES = 2 << 20
_LARGEST_GAP_BYTES = 64 << 20


class Pages(StrEnum):
    """Kind of pages that memory is requested in."""

    DEFAULT = "default"  # whatever a program gets that does not ask
    USUAL = "usual"  # the system's usual page, mostly 4 KiB
    HUGE = "huge"  # transparent huge pages, mostly 2 MiB


def huge_page_bytes(folder: Path = _HUGE_PAGES, status: Path = _STATUS) -> int | None:
    """Size of a transparent huge page; None where the system has none, or does not give this process any if asked."""
    try:
        if "[never]" in (folder / "enabled").read_text() or "\nTHP_enabled:\t0\n" in status.read_text():
            return None
        return int((folder / "hpage_pmd_size").read_text())
    except (OSError, ValueError):
        return None


def new_memory(size_bytes: int, pages: Pages) -> mmap.mmap:
    """Memory that is not touched yet, private as a program's heap is (shared memory has pages and costs of its own)."""
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if pages is not Pages.DEFAULT and huge_page_bytes() is not None:
        memory.madvise(mmap.MADV_HUGEPAGE if pages is Pages.HUGE else mmap.MADV_NOHUGEPAGE)
    return memory


def allocate(size_bytes: int, pages: Pages = Pages.DEFAULT) -> memoryview:
    """Memory of its own, every page of it written to: one that was not is one and the same page of zeros.

    It begins at a huge page's boundary if those are asked for, else at a power of two: its size, up to 2 MiB. So what
    is as small as a first-level cache crosses no multiple of more: on Zen 3, which finds the way of a line by some bits
    of its address, loops over 12 to 32 KB that cross a multiple of 64 MiB take 1.4 to 2 times as long. Where it begins
    is up to chance otherwise: by the same bits, small arrays may be in each other's way.
    """
    huge = huge_page_bytes()
    if huge is not None and pages is Pages.HUGE:
        boundary = huge
    else:
        boundary = max(min(1 << (size_bytes - 1).bit_length(), _MOST_ALIGNED_BYTES), mmap.PAGESIZE)
    needed = size_bytes + boundary
    is_limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    gap = 0 if is_limited else random.randrange(_LARGEST_GAP_BYTES)
    try:  # the system maps downwards, so what is not used, after it, moves it
        memory = new_memory(needed + gap, pages)
    except OSError:  # it promises no more memory than it has
        memory = new_memory(needed, pages)
    start = -np.frombuffer(memory, dtype=np.uint8).ctypes.data % boundary
    view = memoryview(memory)[start : start + size_bytes]
    np.frombuffer(view, dtype=np.uint8)[:: mmap.PAGESIZE] = 1
    return view


def allocate_each(sizes_bytes: Sequence[int], pages: Pages) -> list[memoryview]:
    """Memory for each size. In huge pages those that are smaller than one lie side by side, or each would begin one."""
    huge = huge_page_bytes() if pages is Pages.HUGE else None
    small = [size for size in sizes_bytes if huge is not None and size < huge]
    together = allocate(sum(small), pages) if small else memoryview(b"")
    found: list[memoryview] = []
    begin = 0
    for size in sizes_bytes:
        if huge is not None and size < huge:
            found.append(together[begin : begin + size])
            begin += size
        else:
            found.append(allocate(size, pages))
    return found


def page_bytes_of(view: memoryview, smaps: Path = _SMAPS) -> int:
    """Size of the page that most of a buffer lies in, as the system reports it."""
    address = np.frombuffer(view, dtype=np.uint8).ctypes.data
    huge = huge_page_bytes()
    inside = False
    try:
        for line in smaps.read_text().splitlines():
            span = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
            if span:
                inside = int(span[1], 16) <= address < int(span[2], 16)
            elif inside and line.startswith("AnonHugePages:"):
                return huge if huge and int(line.split()[1]) << 10 >= view.nbytes // 2 else mmap.PAGESIZE
    except (OSError, ValueError, IndexError):
        pass
    return mmap.PAGESIZE


def over(kernel: str, data: Buffer, *, stride_bytes: int = 0, state: int = 0) -> Run:
    """A kernel over a buffer, going on where the run before stopped."""

    def run(repeats: int) -> tuple[float, int]:
        nonlocal state
        seconds, operations, state = _kernels.run(kernel, repeats=repeats, data=data, stride=stride_bytes, state=state)
        return seconds, operations

    return run


def indexed(kernel: str, data: Buffer, index: npt.NDArray[np.uint32], dense: npt.NDArray[np.uint8]) -> Run:
    """A gather, scatter or update over a buffer, going on where the run before stopped."""
    state = 0

    def run(repeats: int) -> tuple[float, int]:
        nonlocal state
        seconds, operations, state = _kernels.run(
            kernel, repeats=repeats, data=data, index=index, dense=dense, state=state
        )
        return seconds, operations

    return run
