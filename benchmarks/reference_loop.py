"""A short loop whose undisturbed time is known, run beside native runs: it tells which of them a neighbour slowed down.

On a machine that others use as well, in particular on one hardware thread of a core whose other one belongs to another
virtual machine, a program may take half as long again for a while, and nothing that the system counts says so. The
loop issues as many instructions as the core can, from no memory: whoever shares the core takes from that.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from foretrace.profiles.profile import Profile, SourceKind

from . import _kernels

DISTURBED = 1.05
"""From this on, relative to its undisturbed time, the loop ran beside a neighbour."""

_KERNEL = "issue"
_SAMPLE_S = 0.0001
_INTERVAL_S = 0.008


class ReferenceLoop:
    """The loop. `least_s` is what an instruction of it takes undisturbed: as known beforehand, or the least seen.

    Each sample is of the processor's time that the loop got, on whichever core this thread runs: keep it, and what is
    timed, on one (`machine_facts.pinned`).
    """

    def __init__(self, known_s: float | None = None) -> None:
        """Find out how much of it is a sample. `known_s`: see `least_s`."""
        self.least_s = float("inf") if known_s is None else known_s
        self._repeats = 1
        while self._run()[0] < _SAMPLE_S:
            self._repeats *= 2

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
        """Seconds an instruction takes now."""
        seconds, instructions = self._run()
        time_s = seconds / instructions
        self.least_s = min(self.least_s, time_s)
        return time_s

    @contextlib.contextmanager
    def beside(self) -> Iterator[list[float]]:
        """Sample the loop before, during and after what is done meanwhile, which takes turns with it on the core.

        Seconds an instruction took are in the list when the context has ended.
        """
        samples = [self.sample()]
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_INTERVAL_S):
                samples.append(self.sample())

        thread = threading.Thread(target=watch, name="reference loop", daemon=True)
        thread.start()
        try:
            yield samples
        finally:
            done.set()
            thread.join()
            samples.append(self.sample())

    def slowdown(self, time_s: float) -> float:
        """How many times longer that is than an instruction of the loop takes undisturbed: 1 or more."""
        return max(1.0, time_s / self.least_s)

    def _run(self) -> tuple[float, int]:
        before = time.thread_time()
        _, instructions, _ = _kernels.run(_KERNEL, repeats=self._repeats)
        return time.thread_time() - before, instructions
