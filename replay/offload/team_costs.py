"""What a team of threads costs beside its work: starting it once, and a fork and a join for each parallel loop."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from foretrace.base.units import format_seconds
from foretrace.profiles.profile import Core, Profile
from foretrace.replay.base.known import core_class, default_of
from foretrace.replay.base.records import Assumption
from foretrace.replay.base.spread import FAST, SLOW, TYPICAL, Floats, between, exactly


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
        """Of a team on a host.

        Threads spin between loops that follow each other, so a fork and a join are two barriers. A barrier is a tree,
        where a line goes from core to core as often as the logarithm of the threads (LLVM's kmp_barrier.cpp), or one
        counter that they update one after the other (GCC's libgomp/config/linux/bar.c): fast and slow end. Typically
        it is the mean of both.
        """
        transfer_s, wake_s, call_s = (
            _figure(profile, name)
            for name in ("line_transfer_latency_s", "thread_wake_latency_s", "thread_wake_call_s")
        )
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


def _figure(profile: Profile, name: str) -> Floats:
    given: float | None = getattr(profile.core, name) if profile.core else None
    if given is not None:
        return exactly(given)
    default = default_of(Core, name, core_class(profile))
    return between(default.fast, default.typical, default.slow)
