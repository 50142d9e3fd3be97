"""What the operating system says about this machine: processor, caches, memory, and the state it is measured in."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from foretrace.cache_sim.hierarchy import parse_size_bytes
from foretrace.errors import HierarchyError

_CPU = Path("/sys/devices/system/cpu")
_SC_CACHE_SIZE = {1: 188, 2: 191, 3: 194}
"""Of each data cache level, glibc's name for its size; those of its ways and line size follow (bits/confname.h). Python
has no words for them."""


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """One data cache as the system reports it. None: it does not say."""

    name: str
    size_bytes: int
    ways: int | None
    line_bytes: int | None
    shared_by_cores: int | None


@contextlib.contextmanager
def pinned() -> Iterator[int | None]:
    """Keep this thread on one core, the last allowed one (the first serves most interrupts). None: not allowed to."""
    try:
        allowed = os.sched_getaffinity(0)
        cpu = max(allowed)
        os.sched_setaffinity(0, {cpu})
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield cpu
    finally:
        os.sched_setaffinity(0, allowed)


def caches(cpu: int, root: Path = _CPU) -> tuple[CacheFacts, ...]:
    """Data caches that a core sees, nearest first; empty where the system does not tell."""
    threads = len(_cpu_list(_text(root / f"cpu{cpu}/topology/thread_siblings_list"))) or 1
    found: dict[int, CacheFacts] = {}
    for index in sorted((root / f"cpu{cpu}/cache").glob("index*")):
        level, kind, size = (_text(index / name) for name in ("level", "type", "size"))
        if kind not in ("Data", "Unified") or not level.isdigit():
            continue
        try:
            size_bytes = parse_size_bytes(size)
        except HierarchyError:
            continue
        if size_bytes > 0:
            ways, line = (_positive(_text(index / n)) for n in ("ways_of_associativity", "coherency_line_size"))
            if ways is not None and line is not None and size_bytes % (ways * line):
                ways = None
            shared = max(1, len(_cpu_list(_text(index / "shared_cpu_list"))) // threads)
            found[int(level)] = CacheFacts(f"L{level}", size_bytes, ways, line, shared)
    return tuple(found[level] for level in sorted(found)) or _sysconf_caches()


def _sysconf_caches() -> tuple[CacheFacts, ...]:
    """What the C library knows, where /sys is not there or says nothing."""
    found = []
    for level, first in _SC_CACHE_SIZE.items():
        size, ways, line = (_sysconf(first + offset) for offset in range(3))
        if size:
            if ways and line and size % (ways * line):
                ways = None
            found.append(CacheFacts(f"L{level}", size, ways, line, None))
    return tuple(found)


def num_cores(root: Path = _CPU) -> int:
    """Cores that this process may use; the hardware threads of a core count once."""
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:
        return os.cpu_count() or 1
    return len({_text(root / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu) for cpu in allowed})


def memory_bytes() -> tuple[int | None, int | None]:
    """Main memory of this machine, and how much of it this process can still take."""
    info = {}
    for line in _text(Path("/proc/meminfo")).splitlines():
        key, _, value = line.partition(":")
        if value.strip().removesuffix(" kB").isdigit():
            info[key] = int(value.strip().removesuffix(" kB")) << 10
    limit = _positive(_text(Path("/sys/fs/cgroup/memory.max")))
    used = _positive(_text(Path("/sys/fs/cgroup/memory.current"))) or 0
    available = info.get("MemAvailable")
    if limit is not None and available is not None:
        available = max(0, min(available, limit - used))
    return info.get("MemTotal"), available


def cpu_model() -> str:
    """Name of the processor."""
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "cpu") and value.strip():
            return value.strip()
    return platform.processor() or platform.machine()


def environment(cpu: int | None, compiler: str) -> dict[str, str]:
    """What the figures depend on, as far as the system tells: for the profile's metadata."""
    flags = _text(Path("/proc/cpuinfo"))
    facts = {
        "cpu": cpu_model(),
        "architecture": platform.machine(),
        "kernel": f"{platform.system()} {platform.release()}",
        "virtual_machine": "yes" if " hypervisor" in flags else "not reported",
        "pinned_to_cpu": "not allowed to" if cpu is None else str(cpu),
        "frequency_governor": _text(_CPU / f"cpu{cpu or 0}/cpufreq/scaling_governor"),
        "transparent_huge_pages": _text(Path("/sys/kernel/mm/transparent_hugepage/enabled")),
        "compiler": compiler,
        "python": platform.python_version(),
        "python_implementation": sys.implementation.name,
        "numpy": np.__version__,
    }
    return {key: value for key, value in facts.items() if value}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _positive(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _sysconf(name: int) -> int | None:
    try:
        value = os.sysconf(name)
    except (ValueError, OSError):
        return None
    return value if value > 0 else None


def _cpu_list(text: str) -> set[int]:
    """The kernel's notation: `0-3,8`."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            cpus.update(range(int(first), int(last or first) + 1))
    return cpus
