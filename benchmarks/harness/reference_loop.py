"""A short loop whose undisturbed time is known, run beside what is timed: it tells what a neighbour slowed down.

On a machine that others use as well, in particular on one hardware thread of a core whose other one belongs to another
virtual machine, a program may take half as long again for a while, and nothing that the system counts says so. The
loop issues as many instructions as the core can, from one line: whoever shares the core takes from that. Its time is
told in cycles, by chains of additions before and behind it, which a neighbour does not slow down: a clock that rises
and falls is no neighbour.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

from foretrace.base.neighbours import LoopSample
from foretrace.benchmarks.kernels import _kernels
from foretrace.profiles.profile import Profile, SourceKind

DISTURBED_GLANCE = 1.02
"""From this on a glance was disturbed, which a neighbour shares wholly or not at all. Others were within 0.7 %."""

_KERNEL = "issue"
_CYCLE_KERNEL = "int_add_64x1_chain"
_CYCLE_S = 0.000005
_SAME_CLOCK = 1.01
"""Chains before and behind the loop that differ by more were interrupted, or the clock changed between them."""
_FEWEST = 0.002
"""The least is what this part of the runs beside such chains take: two that are interrupted for as long make the loop
look shorter than it is, once in some 100,000 runs by more than 2 %."""
_STEP = 0.0025
"""Runs are counted by the logarithm of their cycles, in such steps."""
_SAMPLE_S = 0.0001
_GLANCE_S = 0.00001
_GLANCE_CLOCKS = 200  # so much longer than reading the clock, which an emulator makes slow
_RUNS = 5  # of which the shortest was not interrupted
_INTERVAL_S = 0.008
_LEARNT_S = 0.1


class ReferenceLoop:
    """The loop. What an instruction of it takes undisturbed is known beforehand, or the least that was seen.

    A sample is of the processor's time that the loop got, on whichever core this thread runs: keep it, and what is
    timed, on one (`machine_facts.pinned`). What is least is learnt from real time, of which no part can be missing: the
    processor's time leaves out what the hypervisor took, which it tells late, of a sample that had none of it taken.
    """

    def __init__(self, known_cycles: float | None = None) -> None:
        """Find out how much of it is a sample. `known_cycles`: what an instruction takes undisturbed."""
        self._known_cycles = math.inf if known_cycles is None else known_cycles
        self._seen: Counter[int] = Counter()
        self._least_cycles: float | None = self._known_cycles  # None: to be worked out from what was seen
        clock_s = _shortest_s(_KERNEL, 1)
        self._glance_repeats = _repeats_for(_KERNEL, max(_GLANCE_S, _GLANCE_CLOCKS * clock_s))
        self._sample_repeats = _repeats_for(_KERNEL, _SAMPLE_S)
        self._cycle_repeats = _repeats_for(_CYCLE_KERNEL, max(_CYCLE_S, _GLANCE_CLOCKS * clock_s))

    @property
    def least_cycles(self) -> float:
        """Cycles per instruction of the undisturbed loop; infinite as long as nothing is known of it."""
        if self._least_cycles is None:
            fewest = _FEWEST * self._seen.total()
            steps = sorted(self._seen)
            number = itertools.accumulate(self._seen[step] for step in steps)
            least = next(step for step, seen in zip(steps, number, strict=True) if seen >= fewest)
            self._least_cycles = min(self._known_cycles, math.exp(least * _STEP))
        return self._least_cycles

    @classmethod
    def of(cls, profile: Profile) -> ReferenceLoop:
        """The loop as it was when the machine was measured; of any other profile nothing is known."""
        core = profile.core
        if core is None or core.issue_width_instructions_per_cycle is None:
            return cls()
        source = core.source["issue_width_instructions_per_cycle"]
        if profile.sources[source].kind is not SourceKind.MEASURED:
            return cls()
        return cls(1 / core.issue_width_instructions_per_cycle)

    def sample(self) -> LoopSample:
        """Cycles an instruction takes now, of the processor's time."""
        _, sample = self._run(self._sample_repeats)
        return sample

    def glance(self) -> float:
        """Cycles per instruction now, in real time, from a fraction of a sample: for moments between neighbours."""
        cycles, _ = self._run(self._glance_repeats)
        return cycles

    def learn(self) -> None:
        """Look for a while how short it is."""
        end = time.monotonic() + _LEARNT_S
        while time.monotonic() < end:
            self.glance()

    @contextlib.contextmanager
    def beside(self, cpu: Callable[[], int | None] | None = None) -> Iterator[list[LoopSample]]:
        """Sample the loop before, during and after what is done meanwhile, which takes turns with it on the core.

        With `cpu`, which tells where that is, the loop goes after it, and is sampled only while it is anywhere. The
        samples are in the list when the context has ended.
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

    def slowdown(self, cycles: float) -> float:
        """Slowdown of the reference loop: its cycles per instruction over the undisturbed value; at least 1."""
        return max(1.0, cycles / self.least_cycles)

    def _run(self, repeats: int) -> tuple[float, LoopSample]:
        """Cycles an instruction took of real time, and a sample, which is of the processor's time."""
        before_s = _cycle_s(self._cycle_repeats)
        began = time.thread_time()
        real_s, instructions, _ = _kernels.run(_KERNEL, repeats=repeats)
        processor_s = time.thread_time() - began
        behind_s = _cycle_s(self._cycle_repeats)
        cycle_s = min(before_s, behind_s)
        cycles = real_s / instructions / cycle_s
        if max(before_s, behind_s) < _SAME_CLOCK * cycle_s:
            self._seen[math.ceil(math.log(cycles) / _STEP)] += 1
            self._least_cycles = None
        return cycles, LoopSample(processor_s / instructions / cycle_s, 2 / (before_s + behind_s))


def _cycle_s(repeats: int) -> float:
    """Seconds of a cycle, by a chain of additions."""
    seconds, additions, _ = _kernels.run(_CYCLE_KERNEL, repeats=repeats)
    return seconds / additions


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


def _repeats_for(kernel: str, sample_s: float) -> int:
    repeats = 1
    while _shortest_s(kernel, repeats) < sample_s:
        repeats *= 2
    return repeats


def _shortest_s(kernel: str, repeats: int) -> float:
    return min(_kernels.run(kernel, repeats=repeats)[0] for _ in range(_RUNS))
