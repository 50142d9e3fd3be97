"""Comparison of published bandwidths and figures with a machine's profile, or the model's assumptions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from foretrace.profiles.profile import Profile
from foretrace.profiles.published import PublishedFigure
from foretrace.replay.base.spread import FAST, SLOW, TYPICAL, Floats
from foretrace.replay.figures.machine_figures import MachineFigures
from foretrace.replay.memory.bandwidth import MemoryBandwidth

_BW_MEM = re.compile(r"bw_mem-(rd|wr|rdwr)-([\d.]+)")
_STREAM = re.compile(r"(Copy|Scale|Add|Triad|read-only), (\d+) threads?")
_LINES = {"read-only": (1, 0), "Copy": (1, 1), "Scale": (1, 1), "Add": (2, 1), "Triad": (2, 1)}
"""Lines loaded and stored for each line of elements by STREAM's kernels."""
_STEP_BYTES = 16
"""Stride of lmbench's bw_mem: it touches one word of 4 bytes in each, and counts all bytes."""
_TABLES = ("core", "memory")
_WELL_INSIDE = 0.75
"""Largest share of a cache's size that a working set inside it has: a larger one lies in part in the next level."""
NEAR = 0.1
"""Published figures of like machines differ by so much (benchmarks/published/memory.csv): inside is within it."""


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """A published figure and the profile's, with its interval, in the base unit of `unit`."""

    program: str
    metric: str
    unit: str
    published: float
    profile: float
    low: float
    high: float
    source: str

    @property
    def ratio(self) -> float:
        """The profile's over the published one."""
        return self.profile / self.published

    @property
    def is_inside(self) -> bool:
        """Whether the published one lies in the interval, or near it."""
        return self.low / (1 + NEAR) <= self.published <= self.high * (1 + NEAR)


def compare_published(
    profile: Profile, figures: MachineFigures, published: Iterable[PublishedFigure], cores: int
) -> tuple[list[FigureComparison], list[PublishedFigure]]:
    """The published figures of a host that its profile alone answers, and those that need a program's signature.

    These are `bw_mem-rd-SIZE`, `bw_mem-wr-SIZE` and `bw_mem-rdwr-SIZE` (lmbench, one core, size in MB), STREAM by
    kernel and threads ("Triad, 4 threads"), and single figures by their key, as `memory.latency_s`.

    Args:
        profile: of the host.
        figures: made of it.
        published: of any machines; those of others are not looked at.
        cores: of the machine.
    """
    found, left = [], []
    for one in published:
        if one.machine != profile.name:
            continue
        values = _values(profile, figures, one, cores)
        if values is None:
            left.append(one)
        else:
            low, high = sorted((float(values[FAST]), float(values[SLOW])))
            found.append(
                FigureComparison(
                    one.program, one.metric, one.unit, one.value, float(values[TYPICAL]), low, high, one.source
                )
            )
    return found, left


def _values(profile: Profile, figures: MachineFigures, one: PublishedFigure, cores: int) -> Floats | None:
    bw_mem = _BW_MEM.fullmatch(one.program)
    if bw_mem:
        size = float(bw_mem[2])
        return _bw_mem(figures, bw_mem[1], size * (1e6 if size < 1 else 1 << 20))
    stream = _STREAM.fullmatch(one.metric) if one.program.startswith("STREAM") else None
    if stream:
        return _stream(profile, figures, *_LINES[stream[1]], threads=int(stream[2]), cores=cores)
    table, _, key = one.program.partition(".")
    value = getattr(getattr(profile, table, None), key, None) if table in _TABLES else None
    return np.full(3, float(value)) if isinstance(value, int | float) else None


def _line_times(figures: MachineFigures, level: int) -> tuple[float, Floats, Floats]:
    """A stream out of a cache level: bytes of its lines, times [3] of a line that is loaded and of one stored to."""
    memory = figures.memory
    line_bytes = float(memory.line_bytes[max(level - 1, 0)])
    loaded = (
        memory.line_s[:, :, level].min(axis=1) * line_bytes / float([memory.line_bytes[0], *memory.line_bytes][level])
    )
    return line_bytes, loaded, loaded + memory.write_back_s[:, level]


def _bw_mem(figures: MachineFigures, kind: str, size_bytes: float) -> Floats:
    """Bytes/s of bw_mem over a working set; one that fills a level, or nearly, lies between its level and the next."""
    sizes = figures.memory.sizes_bytes
    nearest, farthest = (int(np.searchsorted(share * sizes, size_bytes)) for share in (1.0, _WELL_INSIDE))
    near, far = (_bw_mem_in(figures, kind, level) for level in (nearest, farthest))
    return np.array([near[FAST], np.sqrt(near[TYPICAL] * far[TYPICAL]), far[SLOW]])


def _bw_mem_in(figures: MachineFigures, kind: str, level: int) -> Floats:
    access = {"rd": figures.load_s, "wr": figures.store_s, "rdwr": 2 * figures.store_s}[kind] / _STEP_BYTES
    if level == 0:
        return np.asarray(1 / access)
    line_bytes, loaded, stored = _line_times(figures, level)
    return np.asarray(1 / np.maximum((loaded if kind == "rd" else stored) / line_bytes, access))


def _stream(profile: Profile, figures: MachineFigures, loads: int, stores: int, *, threads: int, cores: int) -> Floats:
    line_bytes, loaded, stored = _line_times(figures, len(figures.memory.sizes_bytes))
    alone = (loads + stores) * line_bytes / (loads * loaded + stores * stored)
    shared = MemoryBandwidth.of(profile, line_bytes / float(loaded[TYPICAL]), cores)
    points = shared.points(float((stores * stored / (loads * loaded + stores * stored))[TYPICAL]))
    return np.asarray(alone * points[min(threads, len(points)) - 1] / points[0])
