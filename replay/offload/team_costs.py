"""Overhead of a team of threads: starting it once, and a fork and a join for each parallel loop."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from foretrace.base.units import format_seconds
from foretrace.profiles.profile import Profile
from foretrace.profiles.ranges import Assumption, Assumptions, core_figure
from foretrace.replay.base.spread import FAST, SLOW, TYPICAL, Floats
from foretrace.replay.prediction.conditions import WAKING_FIGURES


@dataclass(frozen=True, slots=True, eq=False)
class TeamCosts:
    """Seconds, [fast, typical, slow] each.

    Attributes:
        start_s: the first time that threads are needed: the first thread makes all others, one after the other.
        fork_s: of a parallel loop: its threads are let go, and wait for each other at its end.
        assumptions: what they follow from.
    """

    start_s: Floats
    fork_s: Floats
    assumptions: tuple[Assumption, ...]

    @classmethod
    def of(cls, profile: Profile, threads: int) -> TeamCosts:
        """Costs of a team on a host.

        Threads spin between loops that follow each other, so a fork and a join are two barriers. A barrier is a tree,
        where a line goes from core to core as often as the logarithm of the threads (LLVM's kmp_barrier.cpp), or one
        counter that they update one after the other (GCC's libgomp/config/linux/bar.c): fast and slow end. Typically
        it is the mean of both.
        """
        transfer_s, wake_s, call_s = (np.array(core_figure(profile, name, Assumptions())) for name in WAKING_FIGURES)
        transfers = 2 * np.array([_steps(threads), (_steps(threads) + threads) / 2, threads])
        fork_s = transfers * transfer_s
        start_s = wake_s + (threads - 1) * call_s
        shown = (format_seconds(float(value)) for value in (
            fork_s[TYPICAL], fork_s[FAST], fork_s[SLOW], start_s[TYPICAL], start_s[FAST], start_s[SLOW],
        ))  # fmt: skip
        text = (
            "a parallel loop takes {} ({} to {}) to let its {threads} threads go and to join them; they are made once, "
            "in {} ({} to {})"
        ).format(*shown, threads=threads)
        return cls(start_s, fork_s, (Assumption("fork", text),))


def _steps(threads: int) -> int:
    return max(math.ceil(math.log2(max(threads, 2))), 1)
