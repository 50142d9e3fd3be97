"""The part of a process's recording that is kept after its simulator is freed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foretrace.cache_sim.base.results import OperationStatistics, SimulatedHierarchy
from foretrace.cache_sim.reuse.results import ReuseHistograms
from foretrace.tracer.reader.raw_trace import RawTrace
from foretrace.tracer.sampling.bursts import BurstCounts

from .recording import Recording


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Contents of the stream, and results of simulating its operations."""

    raw: RawTrace
    statistics: OperationStatistics
    simulated: Sequence[SimulatedHierarchy]
    reuse: ReuseHistograms | None
    bursts: BurstCounts | None = None


def part_of(recording: Recording) -> Part:
    """A recording's results."""
    simulator = recording.simulator
    return Part(recording.raw, simulator.statistics(), simulator.simulated(), simulator.reuse(), recording.bursts)
