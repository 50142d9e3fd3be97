"""Measurements of a made-up machine, and its profile."""

from foretrace.benchmarks.calibration.calibrated_profile import Measured, measured_profile
from foretrace.benchmarks.calibration.core_suite import core_measurements
from foretrace.benchmarks.calibration.latency_suite import Chain
from foretrace.benchmarks.calibration.memory_suite import Point
from foretrace.benchmarks.calibration.multimaps import Sweep
from foretrace.benchmarks.calibration.sgbench import Loop
from foretrace.benchmarks.calibration.thread_suite import Team
from foretrace.benchmarks.calibration.window_suite import Window
from foretrace.benchmarks.harness.machine_facts import CacheFacts
from foretrace.benchmarks.harness.sampling import Timing
from foretrace.profiles.points import IndexMode, Movement

KIB, MIB = 1 << 10, 1 << 20

NS = 1e-9


def timing(seconds, noise=0.0):
    return Timing(seconds, noise, 10)


def core_timings(**changes):
    return {name: timing(1 * NS) for name in core_measurements()} | {k: timing(v) for k, v in changes.items()}


LEVELS = (
    CacheFacts("L1", 32 * KIB, 8, 64, 1),
    CacheFacts("L2", 512 * KIB, 8, 64, 1),
    CacheFacts("L3", 32 * MIB, 16, 64, 2),
)

FACTS = {"cpu": "A processor", "kernel": "Linux 6"}


def machine(
    level_sizes=(32 * KIB, 512 * KIB, 32 * MIB), *, pages=(4096,), partial=False, levels=LEVELS, stream_ends=None
):
    """A profile of a machine whose chains of loads take 1, 4, 14 and 100 ns by where they fit.

    Streams are as fast from anywhere, or take twice as long from beyond `stream_ends`, by width.
    """
    ends = stream_ends or {"load16": 1 << 62}
    measured = Measured(core=core_timings())
    for shift in range(12, 28):
        for size in (1 << shift, 3 << (shift - 1)):
            level = sum(size > end for end in level_sizes)
            for page in pages:
                measured.chains[Chain(size, page)] = timing((1, 4, 14, 100)[level] * NS)
        for kernel, end in ends.items():
            measured.memory[Point(kernel, 1 << shift)] = timing((1 if 1 << shift <= end else 2) * NS, 0.2)
        measured.memory[Point("random8", 1 << shift)] = timing(10 * NS)
        for movement in Movement:
            measured.sweeps[Sweep(movement, 1 << shift, 32, 32)] = timing(4 * NS)
        for operation in ("gather", "update"):
            measured.loops[Loop(operation, IndexMode.RANDOM, 8, 1, 1 << shift)] = timing(2 * NS, 0.1)
    measured.first_touch = {4096: timing(500 * NS), 2 * MIB: timing(1e-4)}
    measured.teams[Team(Movement.LOAD, 2, MIB, 32)] = timing(1 * NS)
    measured.windows = {Window("storing", n): timing((80 if n > 104 else 40) * NS) for n in (64, 96, 112)}
    return measured_profile("here", levels, measured, FACTS, memory_bytes=1 << 34, num_cores=2, partial=partial)
