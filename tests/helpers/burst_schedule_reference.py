"""The twin of tracer/transport/phases.h: when bursts come, one phase after the other."""

from __future__ import annotations

from collections.abc import Iterable

from foretrace.tracer.sampling.burst_schedule import Schedule

COUNT, WARM, MEASURE, NEW_CODE = 1, 2, 3, 4
_LEAST_CHUNKS = 4


class _Random:
    """SplitMix64."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, bound: int) -> int:
        mask = (1 << 64) - 1
        self._state = (self._state + 0x9E3779B97F4A7C15) & mask
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return (z ^ (z >> 31)) % bound


def phases(schedule: Schedule, events: Iterable[str], unit: int = 1) -> list[tuple[int, int]]:
    """(units of time so far, the phase that begins), of a program for which one goes by with each event.

    A chunk of the schedule is `unit` of them.

    An event "n" says that code has been translated that no burst has seen, "t" that a further thread has begun; any
    other event is one unit.
    """
    random = _Random(schedule.seed)
    lengths = (schedule.warm_chunks, schedule.measured_chunks, schedule.period_chunks)
    warm, measured, period = (length * unit for length in lengths)
    least_gap, early_burst = _LEAST_CHUNKS * unit, measured
    phase, left = MEASURE, schedule.first_chunks * unit
    gap = period_left = interrupted = 0
    credits, bursts_of_length, doublings = 8, 0, 0
    is_new = has_threads = False
    begun = []
    time = 0
    for event in events:
        is_new |= event == "n"
        has_threads |= event == "t"
        if event in "nt":
            continue
        time += 1
        left = max(left - 1, 0)
        following = phase
        if has_threads:
            if phase in (COUNT, NEW_CODE):
                following = WARM
            elif phase == WARM and left == 0:
                following = MEASURE
        elif phase == COUNT and left > 0:
            if is_new and credits > 0 and gap - left >= least_gap:
                credits -= 1
                following = NEW_CODE
        elif left == 0:
            following = {COUNT: WARM, WARM: MEASURE, MEASURE: COUNT, NEW_CODE: COUNT}[phase]
        if following == phase:
            continue
        if COUNT in (phase, following):  # QEMU translates all code again
            if following == NEW_CODE:
                interrupted = left
            elif following == WARM:
                credits = min(credits + 1, 16)
                bursts_of_length += 1
            elif phase == MEASURE and bursts_of_length >= 16 and doublings < 5:
                warm, measured, period = 2 * warm, 2 * measured, 2 * period
                bursts_of_length = 0
                doublings += 1
            is_new = False
        phase = following
        begun.append((time, phase))
        if phase == COUNT:
            if interrupted == 0:
                before = random.below(period)
                interrupted = period_left + before + least_gap
                period_left = period - before
            gap = left = interrupted
            interrupted = 0
        else:
            left = {WARM: warm, MEASURE: measured, NEW_CODE: early_burst}[phase]
    return begun


def share_in_bursts(schedule: Schedule) -> float:
    """Share of the words of a long run that lies in bursts."""
    burst = schedule.warm_chunks + schedule.measured_chunks
    return burst / (burst + schedule.period_chunks)
