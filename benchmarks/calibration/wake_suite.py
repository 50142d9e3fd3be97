"""Time until a thread that waits for another one goes on: spinning, and asleep in the system."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.benchmarks.harness.sampling import Measurement, Run
from foretrace.benchmarks.kernels import _kernels

WORK_S = 30e-6
"""Work of a thread between being woken and waking the other one: as long as threads sleep that wait for each other
often. An idle core sleeps more deeply the longer it does."""
_LEAST_SAMPLE_S = 0.002


def wake_measurements(cpus: Sequence[int]) -> dict[str, Measurement]:
    """The measurements, by figure of `profile.Core`; none on one core, or where the system has no futexes.

    Args:
        cpus: one hardware thread of each core.
    """
    if len(cpus) < 2:
        return {}
    pair = (cpus[0], cpus[1])
    try:
        _kernels.take_turns(pair, 1, 0.0, True)
    except OSError:
        return {}

    def spinning(repeats: int) -> tuple[float, int]:
        return _kernels.take_turns(pair, repeats, 0.0, False)[0], 2 * repeats

    def asleep(repeats: int) -> tuple[float, int]:
        return _kernels.take_turns(pair, repeats, WORK_S, True)[0], 2 * repeats

    def calling(repeats: int) -> tuple[float, int]:
        return _kernels.take_turns(pair, repeats, WORK_S, True)[1], 2 * repeats

    runs: dict[str, Run] = {
        "line_transfer_latency_s": spinning,
        "thread_wake_latency_s": asleep,
        "thread_wake_call_s": calling,
    }
    return {name: Measurement(name, run, least_sample_s=_LEAST_SAMPLE_S) for name, run in runs.items()}
