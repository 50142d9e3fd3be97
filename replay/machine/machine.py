"""A machine as a simulation has it: what the jobs on it share, and how they are run. Replays and triage both use it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from foretrace.replay.engine.outcome import Outcome
from foretrace.replay.engine.program import Entity, System, Waking
from foretrace.replay.engine.simulation import Decide, simulate
from foretrace.replay.prediction.conditions import CACHE, CORES
from foretrace.replay.threads.job_programs import JobPrograms, in_job, local_names


class Accelerator(NamedTuple):
    """The devices that an accelerator is in a simulation, by name: itself, and a copy engine each way."""

    kernels: str
    to_device: str
    from_device: str

    @classmethod
    def of(cls, number: int) -> Accelerator:
        """Accelerators are numbered from 0."""
        return cls(f"accelerator {number}", f"copies to accelerator {number}", f"copies from accelerator {number}")


def cache_of(job: int, num_caches: int) -> str:
    """The last cache that a job uses: jobs are spread over the caches one by one."""
    return f"{CACHE} {job % num_caches}"


SystemNames = Callable[[int, Collection[str]], Mapping[str, str]]
"""From a job's number, and the names of what it has to itself, to the system's names for those in its programs."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Resources that jobs share.

    Attributes:
        cores: that all threads share evenly.
        num_caches: last caches.
        bandwidths: by resource, the total rates that 1, 2, ... entities get.
        accelerators: number of them.
        waking: how long it takes until waiting threads go on.
    """

    cores: float
    num_caches: int = 0
    bandwidths: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    accelerators: int = 0
    waking: Waking = field(default_factory=Waking)

    def run(
        self,
        jobs: Sequence[JobPrograms],
        *,
        decide: Decide | None = None,
        names: SystemNames | None = None,
        most_segments: int = 0,
    ) -> Outcome:
        """Simulate jobs to their end, each with barriers and semaphores of its own.

        Args:
            jobs: the programs of each job's threads.
            decide: who is asked at offers.
            names: None: programs have the system's names.
            most_segments: of the timeline that are kept.

        Raises:
            DeadlockError: threads wait for each other forever.
        """
        local = {id(job): local_names(job) for job in {id(job): job for job in jobs}.values()}
        entities = []
        for number, job in enumerate(jobs):
            own = names(number, local[id(job)]) if names is not None else {}
            entities += [
                Entity(in_job(number, thread.name), thread.program, job=number, born=thread.is_born, names=own)
                for thread in job.threads
            ]
        return simulate(self._system(jobs), entities, decide=decide, most_segments=most_segments)

    def _system(self, jobs: Sequence[JobPrograms]) -> System:
        devices = (name for number in range(self.accelerators) for name in Accelerator.of(number))
        return System(
            cores={CORES: float(self.cores)},
            caches=tuple(cache_of(number, self.num_caches) for number in range(self.num_caches)),
            bandwidths=dict(self.bandwidths),
            devices=dict.fromkeys(devices, 1),
            barriers=_by_system_name(job.barriers for job in jobs),
            semaphores=_by_system_name(job.semaphores for job in jobs),
            waking=self.waking,
        )


def _by_system_name(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts of each job's own objects, by their names in the system."""
    return {in_job(job, name): count for job, own in enumerate(counts) for name, count in own.items()}
