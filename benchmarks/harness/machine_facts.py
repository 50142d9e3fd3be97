"""Facts of this machine from the operating system: processor, caches, memory, and the state it is measured in."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from foretrace.base.errors import HierarchyError
from foretrace.base.processor import cpu_model
from foretrace.cache_sim.base.hierarchy import parse_size_bytes

_CPU = Path("/sys/devices/system/cpu")
_SC_CACHE_SIZE = {1: 188, 2: 191, 3: 194}
"""Number of glibc's name for the size of each data cache level; those of its ways and line size follow
(bits/confname.h). Python has no words for them."""
_NO_LIMIT_BYTES = 1 << 62
"""Version 1 of the control groups says "no limit" with a number near 2^63."""


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
    """Caches as the C library knows them, where /sys is not there or says nothing."""
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
    return len(core_cpus(root)) or os.cpu_count() or 1


def core_cpus(root: Path = _CPU) -> tuple[int, ...]:
    """One hardware thread of each core that this process may use."""
    try:
        allowed = sorted(os.sched_getaffinity(0))
    except AttributeError:
        return ()
    first: dict[str, int] = {}
    for cpu in allowed:
        first.setdefault(_text(root / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu), cpu)
    return tuple(first.values())


# ---- limits and load -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of this process, from its control groups (version 1 or 2) and `ulimit -v`. None: no limit."""

    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    cpus: float | None = None


def limits(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> Limits:
    """The tightest limits of this process, of its groups and of those around them."""
    memory = _address_space()  # limit, free
    cpus: list[float] = []
    for folder in _group_folders(groups, root):
        for limit_name, used_name in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit = _positive(_text(folder / limit_name))
            if limit is not None and limit < _NO_LIMIT_BYTES:
                memory.append((limit, max(0, limit - (_positive(_text(folder / used_name)) or 0))))
        quota, _, period = _text(folder / "cpu.max").partition(" ")
        quota = quota or _text(folder / "cpu.cfs_quota_us")
        period = period or _text(folder / "cpu.cfs_period_us")
        if _positive(quota) and _positive(period):
            cpus.append(int(quota) / int(period))
    return Limits(
        min((limit for limit, _ in memory), default=None),
        min((free for _, free in memory), default=None),
        min(cpus, default=None),
    )


def _address_space() -> list[tuple[int, int]]:
    """The limit of addresses (`ulimit -v`), and how many of these are free; empty without one."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    used = _text(Path("/proc/self/statm")).partition(" ")[0]
    if limit == resource.RLIM_INFINITY or not used.isdecimal():
        return []
    return [(limit, max(0, limit - int(used) * resource.getpagesize()))]


def _group_folders(groups: Path, root: Path) -> list[Path]:
    """The folders of this process's control groups, with those around each."""
    folders: list[Path] = []
    for line in _text(groups).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            if controller not in ("", "memory", "cpu"):
                continue
            mount = root / (controllers if controller and (root / controllers).is_dir() else controller)
            inner = Path(path.lstrip("/"))
            folders += [mount / folder for folder in (inner, *inner.parents) if ".." not in folder.parts]
    return list(dict.fromkeys([*folders, root, root / "memory", root / "cpu"]))


def memory_bytes(group: Limits | None = None) -> tuple[int | None, int | None]:
    """Main memory of this machine, and how much of it this process can still take."""
    info = {}
    for line in _text(Path("/proc/meminfo")).splitlines():
        key, _, value = line.partition(":")
        if value.strip().removesuffix(" kB").isdigit():
            info[key] = int(value.strip().removesuffix(" kB")) << 10
    group = limits() if group is None else group
    known = [free for free in (info.get("MemAvailable"), group.memory_free_bytes) if free is not None]
    return info.get("MemTotal"), min(known, default=None)


@dataclass(frozen=True, slots=True)
class Load:
    """Processor time since the machine started, in ticks: of all kinds, given to others by the hypervisor, and idle."""

    total: int
    stolen: int
    idle: int


def load(stat: Path = Path("/proc/stat")) -> Load:
    """The times so far; zeros where the system does not tell."""
    fields = _text(stat).partition("\n")[0].split()[1:9]
    ticks = [int(field) for field in fields if field.isdigit()]
    if len(ticks) < 8:
        return Load(0, 0, 0)
    return Load(sum(ticks), ticks[7], ticks[3] + ticks[4])


_AMD = (  # CPUID family, models from and to, and what it is: Linux, arch/x86/kernel/cpu/amd.c
    *((0x10, 0x00, 0xFF, "k10"), (0x17, 0x00, 0x2F, "zen"), (0x17, 0x30, 0xFF, "zen2")),
    *((0x19, 0x00, 0x0F, "zen3"), (0x19, 0x20, 0x5F, "zen3"), (0x19, 0x10, 0x1F, "zen4"), (0x19, 0x60, 0xAF, "zen4")),
    (0x1A, 0x00, 0xFF, "zen5"),
)
_INTEL = {  # of family 6: Linux, arch/x86/include/asm/intel-family.h
    **dict.fromkeys((0x2A, 0x2D), "sandy-bridge"),
    **dict.fromkeys((0x3A, 0x3E), "ivy-bridge"),
    **dict.fromkeys((0x3C, 0x3F, 0x45, 0x46), "haswell"),
    **dict.fromkeys((0x3D, 0x47, 0x4F, 0x56), "broadwell"),
    **dict.fromkeys((0x4E, 0x5E, 0x55, 0x8E, 0x9E, 0xA5, 0xA6), "skylake"),
    **dict.fromkeys((0x6A, 0x6C, 0x7D, 0x7E), "sunny-cove"),
    **dict.fromkeys((0x8F, 0x97, 0x9A), "golden-cove"),
    **dict.fromkeys((0xB7, 0xBA, 0xBF, 0xCF), "raptor-cove"),
    **dict.fromkeys((0xAA, 0xAC, 0xAD, 0xAE), "redwood-cove"),
}
_ARM = {  # implementer and part: Linux, arch/arm64/include/asm/cputype.h
    (0x41, 0xD0B): "cortex-a76", (0x41, 0xD0C): "neoverse-n1", (0x41, 0xD40): "neoverse-v1",
    (0x41, 0xD49): "neoverse-n2", (0x41, 0xD4F): "neoverse-v2", (0x46, 0x001): "a64fx",
    (0x61, 0x023): "firestorm", (0x61, 0x025): "firestorm", (0x61, 0x029): "firestorm",
}  # fmt: skip


def microarchitecture(cpuinfo: str | None = None) -> str | None:
    """The design of this machine's cores, as profiles name it; None for one that is not known here."""
    facts: dict[str, str] = {}
    for line in (_text(Path("/proc/cpuinfo")) if cpuinfo is None else cpuinfo).splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    try:
        if "CPU implementer" in facts:
            return _ARM.get((int(facts["CPU implementer"], 16), int(facts["CPU part"], 16)))
        family, model = int(facts["cpu family"]), int(facts["model"])
    except (KeyError, ValueError):
        return None
    if facts.get("vendor_id") == "GenuineIntel":
        return _INTEL.get(model) if family == 6 else None
    if facts.get("vendor_id") in ("AuthenticAMD", "HygonGenuine"):
        return next((name for f, low, high, name in _AMD if f == family and low <= model <= high), None)
    return None


def environment(cpu: int | None, compiler: str, flags: str) -> dict[str, str]:
    """Facts that the figures depend on, as far as the system reports them: for the profile's metadata."""
    virtual = " hypervisor" in _text(Path("/proc/cpuinfo"))
    facts = {
        "cpu": cpu_model(),
        "architecture": platform.machine(),
        "kernel": f"{platform.system()} {platform.release()}",
        "virtual_machine": "yes" if virtual else "not reported",
        "pinned_to_cpu": "not allowed to" if cpu is None else str(cpu),
        "frequency_governor": _text(_CPU / f"cpu{cpu or 0}/cpufreq/scaling_governor"),
        "transparent_huge_pages": _text(Path("/sys/kernel/mm/transparent_hugepage/enabled")),
        "compiler": compiler,
        "compiler_flags": flags,
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
