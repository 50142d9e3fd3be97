"""Anchored prediction: a time measured on one machine, scaled by what the model says of two.

Where the program was sampled, each loop's measured time is scaled by the model's ratio for that loop: what the
model gets wrong on both machines alike drops out, loop by loop. An anchored time is never mixed with one that is
not. docs/validation.md has the approximations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foretrace.base.errors import TimingError
from foretrace.replay.base.records import LoopKind, LoopTime, Prediction
from foretrace.tracer.native.sampled_blocks import samples_per_block
from foretrace.tracer.native.timing import Timing
from foretrace.tracer.signature.records import Signature

LEAST_SHARE = 0.01
"""Share of the predicted time that a loop must have for a ratio of its own."""

LoopKey = tuple[int | None, str, str]


@dataclass(frozen=True, slots=True)
class SamplesByLoop:
    """Samples by loop, and in all; those in no loop are in `num_samples` only.

    `all_samples` counts those of a timing in which no loop was met at all, too.
    """

    by_loop: Mapping[LoopKey, int]
    num_samples: int
    all_samples: int = 0

    @property
    def elsewhere(self) -> int:
        """Samples in no loop: in the kernel, or in code that the signature does not know."""
        return max(self.all_samples, self.num_samples) - sum(self.by_loop.values())

    def share(self, loop: LoopTime) -> float | None:
        """Share of the measured time; None where nothing was sampled, or where samples cannot tell (compiled code)."""
        if loop.kind is LoopKind.COMPILED:
            return None
        return self.by_loop.get(key_of(loop), 0) / self.num_samples if self.num_samples else None


@dataclass(frozen=True, slots=True)
class Anchored:
    """A measured time scaled to another machine. `ratio` is `time_s` over `measured_s`."""

    machine: str
    title: str
    anchor: str
    measured_s: float
    time_s: float
    low_s: float
    high_s: float
    by_loop: bool

    @property
    def ratio(self) -> float:
        """Time there over time here."""
        return self.time_s / self.measured_s


def key_of(loop: LoopTime) -> LoopKey:
    """Key of a loop on any machine: its loop, or its function, of Python with its line."""
    if loop.loop_id is not None:
        return loop.loop_id, "", ""
    return (
        None,
        loop.place.module,
        _function(loop.place.function, loop.place.line, loop.kind is LoopKind.LINE),
    )


def _function(name: str, line: int, is_line: bool) -> str:
    return f"{name}:{line}" if is_line else name


def samples_by_loop(signature: Signature, timing: Timing) -> SamplesByLoop:
    """The samples of a timing by the loops of a signature.

    Raises:
        TimingError: the timing is of another program.
    """
    command = signature.provenance.command
    if timing.command[-len(command) :] != command:
        raise TimingError(
            f"the timing is of '{' '.join(timing.command)}', the signature of '{' '.join(command)}': "
            "time the traced command with: foretrace time"
        )
    per_block, _ = samples_per_block(signature, timing)
    is_python = signature.provenance.guest == "python"
    by_loop: dict[LoopKey, int] = defaultdict(int)
    for block in signature.blocks:
        samples = int(per_block[block.block_id])
        if samples:
            function = _function(block.function, block.line, is_python)
            key = (None, block.module, function) if block.loop_id is None else (block.loop_id, "", "")
            by_loop[key] += samples
    return SamplesByLoop(dict(by_loop), timing.num_samples if by_loop else 0, timing.num_samples)


def anchor(there: Prediction, here: Prediction, timing: Timing, samples: SamplesByLoop) -> Anchored:
    """The measured time, scaled from the machine it was measured on to another.

    Args:
        there: prediction for the machine that is asked for.
        here: prediction for the machine of the timing.
        timing: the measurement.
        samples: of that measurement, by loop.

    Raises:
        TimingError: the prediction for here is of no time at all.
    """
    if here.time_s <= 0:
        raise TimingError(f"{here.machine}: the model sees nothing that takes time; there is nothing to scale by")
    measured_s = timing.time_s
    whole = _ratios((there.low_s, there.time_s, there.high_s), (here.low_s, here.time_s, here.high_s))
    parts = _parts(there.loops, here, samples, whole)
    low, typical, high = (sum(weight * ratios[corner] for weight, ratios in parts) for corner in range(3))
    error = 0.0
    if samples.num_samples:
        variance = sum(weight * (ratios[1] - typical) ** 2 for weight, ratios in parts)
        error = 2 * (variance / samples.num_samples) ** 0.5
    return Anchored(
        machine=there.machine,
        title=there.title,
        anchor=here.machine,
        measured_s=measured_s,
        time_s=measured_s * typical,
        low_s=timing.least_alone_s * max(low - error, 0.0),
        high_s=timing.most_s * (high + error),
        by_loop=samples.num_samples > 0,
    )


def _parts(
    loops: Sequence[LoopTime], here: Prediction, samples: SamplesByLoop, whole: tuple[float, float, float]
) -> list[tuple[float, tuple[float, float, float]]]:
    """Shares of the measured time, 1 together, and the ratios (low, typical, high) of each."""
    if not samples.num_samples:
        return [(1.0, whole)]
    here_by_key = {key_of(loop): loop for loop in here.loops if loop.time_s >= LEAST_SHARE * here.time_s}
    parts = []
    for loop in loops:
        count, same = samples.by_loop.get(key_of(loop), 0), here_by_key.get(key_of(loop))
        if count and same is not None:
            ends = (loop.low_s, loop.time_s, loop.high_s), (same.low_s, same.time_s, same.high_s)
            parts.append((count / samples.num_samples, _ratios(*ends)))
    return [*parts, (max(0.0, 1 - sum(weight for weight, _ in parts)), whole)]


def _ratios(there: tuple[float, float, float], here: tuple[float, float, float]) -> tuple[float, float, float]:
    """Lowest, typical and highest ratio of like ends: both fast, both typical, both slow."""
    typical = there[1] / here[1]
    like = [a / b for a, b in zip(there, here, strict=True) if b > 0]
    return min(like), typical, max(like)
