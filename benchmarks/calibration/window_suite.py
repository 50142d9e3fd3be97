"""Instructions in flight in a core: as many as may stand between two loads from main memory that overlap.

Of all kinds, and of stores alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from foretrace.benchmarks.harness.buffers import Pages, allocate
from foretrace.benchmarks.harness.sampling import Measurement, Run, Timing, in_pieces
from foretrace.benchmarks.kernels import _kernels

from .capacity_limits import Edge, edge_of

KINDS = ("window", "storing")
"""Kinds of instructions: a figure of profile.Core is called after each."""
_KERNEL = re.compile(rf"({'|'.join(KINDS)})_(\d+)")
_NO_OVERLAP = 1.5  # times as long as with few instructions between them: the loads no longer overlap


@dataclass(frozen=True, slots=True)
class Window:
    """Two chains through memory whose loads take turns, with `between` instructions of a kind after each."""

    kind: str
    between: int


def window_measurements(largest_bytes: int, *, fine: bool) -> dict[Window, Measurement]:
    """By the kind and the number of instructions that stand between the loads; every other number if not `fine`."""
    half = largest_bytes // 2
    data = allocate(2 * half, Pages.HUGE)
    order = np.random.default_rng(4).permutation(half // _kernels.LINE_BYTES).astype(np.uint32)
    for part in (data[:half], data[half:]):
        _kernels.link_chain(part, order)
    state = 0  # of all: each goes on where the one before stopped, and finds nothing of it in a cache

    def run_of(kernel: str) -> Run:
        def run(repeats: int) -> tuple[float, int]:
            nonlocal state
            seconds, operations, state = _kernels.run(kernel, repeats=repeats, data=data, state=state)
            return seconds, operations

        return in_pieces(run)

    found: dict[Window, Measurement] = {}
    for kind in KINDS:
        matches = (_KERNEL.fullmatch(name) for name in _kernels.available())
        numbers = sorted(int(match[2]) for match in matches if match and match[1] == kind)
        for between in numbers if fine else numbers[::2]:
            found[Window(kind, between)] = Measurement("window", run_of(f"{kind}_{between}"))
    return found


def in_flight(measured: Mapping[Window, Timing]) -> dict[str, Edge]:
    """Number of instructions of each kind that there is room for, by field of profile.Core.

    Without those that nothing limits: a core that keeps the order stops at the first use alone.
    """
    found = {}
    for kind in KINDS:
        edge = edge_of({w.between: timing for w, timing in measured.items() if w.kind == kind}, _NO_OVERLAP)
        if edge is not None:
            found[f"{kind}_instructions"] = edge
    return found
