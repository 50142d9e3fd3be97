"""A short loop whose undisturbed time is known, run beside what is timed: it tells what a neighbour slowed down.

On a machine that others use as well, in particular on one hardware thread of a core whose other one belongs to another
virtual machine, a program may take half as long again for a while, and nothing that the system counts says so. The
loop issues as many instructions as the core can, from no memory: whoever shares the core takes from that.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

from foretrace.profiles.profile import Profile, SourceKind

from . import _kernels

DISTURBED_GLANCE = 1.02
"""From this on a glance was disturbed, which a neighbour shares wholly or not at all. Others were within 0.7 %."""

_KERNEL = "issue"
_SAMPLE_S = 0.0001
_GLANCE_S = 0.00001
_GLANCE_CLOCKS = 200  # so much longer than reading the clock, which an emulator makes slow
_RUNS = 5  # of which the shortest was not interrupted
_INTERVAL_S = 0.008
_LEARNT_S = 0.1


class ReferenceLoop:
    """The loop. `least_s` is what an instruction of it takes undisturbed: as known beforehand, or the least seen.

    A sample is of the processor's time that the loop got, on whichever core this thread runs: keep it, and what is
    timed, on one (`machine_facts.pinned`). What is least is learnt from real time, of which no part can be missing: the
    processor's time leaves out what the hypervisor took, which it tells late, of a sample that had none of it taken.
    """

    def __init__(self, known_s: float | None = None) -> None:
        """Find out how much of it is a sample. `known_s`: see `least_s`."""
        self.least_s = float("inf") if known_s is None else known_s
        clock_s = _shortest_s(1)
        self._glance_repeats = _repeats_for(max(_GLANCE_S, _GLANCE_CLOCKS * clock_s))
        self._sample_repeats = _repeats_for(_SAMPLE_S)

    @classmethod
    def of(cls, profile: Profile) -> ReferenceLoop:
        """The loop as it was when the machine was measured; of any other profile nothing is known."""
        core = profile.core
        if core is None or core.clock_hz is None or core.issue_width_instructions_per_cycle is None:
            return cls()
        source = core.source["issue_width_instructions_per_cycle"]
        if profile.sources[source].kind is not SourceKind.MEASURED:
            return cls()
        return cls(1 / (core.clock_hz * core.issue_width_instructions_per_cycle))

    def sample(self) -> float:
        """Seconds an instruction takes now, of the processor's time."""
        return self._run(self._sample_repeats)[0]

    def glance(self) -> float:
        """The same of real time, in a fraction of a sample's: short enough for the moments between two neighbours."""
        return self._run(self._glance_repeats)[1]

    def learn(self) -> None:
        """Look for a while how short it is."""
        end = time.monotonic() + _LEARNT_S
        while time.monotonic() < end:
            self.glance()

    @contextlib.contextmanager
    def beside(self, cpu: Callable[[], int | None] | None = None) -> Iterator[list[float]]:
        """Sample the loop before, during and after what is done meanwhile, which takes turns with it on the core.

        With `cpu`, which tells where that is, the loop goes after it, and is sampled only while it is anywhere. Seconds
        an instruction took are in the list when the context has ended.
        """
        samples = [self.sample()] if cpu is None else []
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_INTERVAL_S):
                if _went_to(cpu):
                    samples.append(self.sample())

        thread = threading.Thread(target=watch, name="reference loop", daemon=True)
        thread.start()
        try:
            yield samples
        finally:
            done.set()
            thread.join()
            if cpu is None:
                samples.append(self.sample())

    def slowdown(self, time_s: float) -> float:
        """How many times longer that is than an instruction of the loop takes undisturbed: 1 or more."""
        return max(1.0, time_s / self.least_s)

    def _run(self, repeats: int) -> tuple[float, float]:
        """Seconds an instruction took, of the processor's time and of real time."""
        before = time.thread_time()
        real_s, instructions, _ = _kernels.run(_KERNEL, repeats=repeats)
        processor_s = time.thread_time() - before
        self.least_s = min(self.least_s, real_s / instructions)
        return processor_s / instructions, real_s / instructions


def _went_to(cpu: Callable[[], int | None] | None) -> bool:
    """Whether this thread is on the core asked for now; on any, if none is asked for."""
    if cpu is None:
        return True
    number = cpu()
    try:
        if number is not None:
            os.sched_setaffinity(0, {number})  # of this thread alone
    except OSError:
        return False
    return number is not None


def _repeats_for(sample_s: float) -> int:
    repeats = 1
    while _shortest_s(repeats) < sample_s:
        repeats *= 2
    return repeats


def _shortest_s(repeats: int) -> float:
    return min(_kernels.run(_KERNEL, repeats=repeats)[0] for _ in range(_RUNS))
