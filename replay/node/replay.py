"""Replaying a program on a machine: jobs on its cores, which share its last caches, memory and accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from foretrace.errors import PredictionError
from foretrace.profiles.hierarchies import ONE_HAS_ALL
from foretrace.profiles.profile import MachineKind, Profile
from foretrace.replay.engine.outcome import Outcome
from foretrace.replay.engine.program import Entity, Sharing, System
from foretrace.replay.engine.simulation import MOST_SEGMENTS, simulate
from foretrace.replay.offload.costs import Accelerator, Candidate, activities, candidates
from foretrace.replay.offload.decisions import Activity, Decider, Policy, device_names
from foretrace.replay.offload.device_memory import Link
from foretrace.replay.offload.policies import pays_by
from foretrace.replay.predict import NOTABLE_SHARE, TURNS, prediction_of, unseen_code_of, warnings_of
from foretrace.replay.records import Assumption, Prediction
from foretrace.replay.workload import Workload
from foretrace.tracer.signature.records import Signature

from .bandwidth import MemoryBandwidth
from .conditions import CACHE, CORES, MEMORY, Conditions
from .programs import region_names, regions_in_order
from .records import NodeReplay, PathPart, ResourceUse, WhatIf
from .tree_programs import JobPrograms, ThreadProgram, job_programs, team_size
from .tree_work import TreeWork

MOST_COPIES = 10_000
"""Of a job on a machine. More than that is a mistake in the command."""


@dataclass(frozen=True, slots=True)
class Offloading:
    """Accelerators of the machine: which, how many, and who goes there."""

    accelerator: Profile
    count: int = 1
    policy: Policy = Policy.GREEDY


def replay_on(
    signature: Signature,
    profile: Profile,
    *,
    cores: int | None = None,
    threads: int | None = None,
    copies: int = 1,
    offloading: Offloading | None = None,
    most_segments: int = MOST_SEGMENTS,
) -> NodeReplay:
    """Replay a program on a machine.

    Args:
        signature: of the program.
        profile: of the host.
        cores: to use; None: all that the profile names, or as many as there are copies if it names none.
        threads: of each copy; None: as it was traced.
        copies: of the program that run at the same time, each with a memory of its own.
        offloading: to accelerators; None: there are none.
        most_segments: of the timeline; more are counted and left out.

    Returns:
        the makespan with its interval, and how it came about.

    Raises:
        PredictionError: signature and profiles do not tell enough, a number is out of range, or the machine has fewer
            cores than asked for.
    """
    _check(profile, cores, threads, copies, offloading)
    workload = Workload.of(signature)
    made = _Node.of(workload, profile, _cores(profile, cores, copies, threads), copies, offloading, threads)
    prediction = prediction_of(made.conditions.run)
    outcome, decider = made.simulate(most_segments)
    fastest_s, slowest_s = _of_assumed_bandwidth(made, outcome.makespan_s)
    low, high = (end / prediction.time_s if prediction.time_s else 1.0 for end in (prediction.low_s, prediction.high_s))
    alone_s = replace(made, copies=1).simulate(0)[0].makespan_s if copies > 1 else outcome.makespan_s
    return NodeReplay(
        machine=profile.name,
        title=profile.title,
        cores=made.cores,
        threads=len(outcome.compiled.entities) // copies,
        copies=copies,
        accelerator=offloading.accelerator.name if offloading else None,
        accelerators=offloading.count if offloading else 0,
        policy=str(offloading.policy) if offloading else str(Policy.NEVER),
        makespan_s=outcome.makespan_s,
        low_s=fastest_s * low,
        high_s=slowest_s * high,
        alone_s=alone_s,
        prediction_s=prediction.time_s,
        complete=prediction.complete,
        outcome=outcome,
        resources=_resources(outcome, made),
        critical_path=_path(outcome),
        shorter=_what_if(made, outcome.makespan_s),
        decisions=tuple(decider.decisions),
        regions=made.names,
        assumptions=_assumptions(made, prediction),
        warnings=(*_of_signature(workload, made), *_own_warnings(made, outcome)),
    )


def _check(
    profile: Profile, cores: int | None, threads: int | None, copies: int, offloading: Offloading | None
) -> None:
    for what, count in (("--cores", cores), ("--threads", threads), ("--copies", copies)):
        if count is not None and count < 1:
            raise PredictionError(f"replay: {what} is {count}, must be at least 1")
    if copies > MOST_COPIES:
        raise PredictionError(f"replay: --copies is {copies}, at most {MOST_COPIES:,} are replayed")
    if offloading is not None and offloading.count < 1:
        raise PredictionError(f"replay: --accelerators is {offloading.count}, must be at least 1")
    has = profile.core.cores if profile.core else None
    if cores is not None and has is not None and cores > has:
        raise PredictionError(f"machine {profile.name}: has {has} cores, not {cores}")


def _cores(profile: Profile, asked: int | None, copies: int, threads: int | None) -> int:
    has = profile.core.cores if profile.core else None
    return asked or has or copies * (threads or 1)


def _tree_work(workload: Workload, conditions: Conditions, threads: int | None, offloads: bool) -> TreeWork | None:
    """The execution tree with times, if it is replayed.

    Raises:
        PredictionError: another number of threads is asked for than the signature tells the work of.
    """
    tree = workload.signature.tree
    work = None if tree is None else TreeWork.of(workload, tree, conditions.time_s[0])
    traced = 1 if work is None or offloads else len(work.tree.threads)
    can_divide = work is not None and not offloads and team_size(work) > 0
    if threads is not None and threads != traced and not can_divide:
        why = (
            "offloading is replayed for one thread" if offloads and work is not None
            else "the signature does not say which of its work others would share"
        )  # fmt: skip
        raise PredictionError(
            f"replay: cannot replay {threads} threads of a program traced with {traced}: {why}; replay it without "
            "--threads, or several jobs with --copies"
        )
    return None if offloads else work


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """A machine and the jobs on it."""

    profile: Profile
    conditions: Conditions
    names: tuple[str, ...]
    activities: tuple[Activity, ...]
    candidates: tuple[Candidate, ...]
    device: Accelerator | None
    cores: int
    copies: int
    accelerators: int
    policy: Policy
    bandwidth: MemoryBandwidth
    work: TreeWork | None
    threads: int | None
    made: dict[tuple[int, int, int], list[JobPrograms]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        workload: Workload,
        profile: Profile,
        cores: int,
        copies: int,
        offloading: Offloading | None,
        threads: int | None,
    ) -> _Node:
        if profile.kind is not MachineKind.HOST:
            raise PredictionError(
                f"machine {profile.name}: is an accelerator, it runs no program alone; name a host with --machine, "
                "and this one with --accelerator"
            )
        conditions = Conditions.of(workload, profile, jobs=copies, cores=cores)
        device = Accelerator.of(offloading.accelerator) if offloading else None
        found = candidates(conditions.run, device) if device else ()
        terms = {candidate.index: candidate.offload for candidate in found}
        return cls(
            profile=profile,
            conditions=conditions,
            names=region_names(workload),
            activities=tuple(
                replace(activity, offload=terms.get(activity.region)) for activity in activities(conditions.run)
            ),
            candidates=found,
            device=device,
            cores=cores,
            copies=copies,
            accelerators=offloading.count if offloading else 0,
            policy=offloading.policy if offloading else Policy.NEVER,
            bandwidth=conditions.bandwidth,
            work=_tree_work(workload, conditions, threads, offloading is not None),
            threads=threads,
        )

    @property
    def link(self) -> Link:
        return self.device.link if self.device else Link()

    def cache_of(self, job: int) -> str:
        """The last cache that a job uses: jobs are spread over the caches one by one."""
        return f"{CACHE} {job % self.num_caches}"

    @property
    def num_caches(self) -> int:
        shared_by = self.profile.caches[-1].shared_by_cores or self.cores
        return max(-(-self.cores // shared_by), 1)

    def system(self, jobs: Sequence[JobPrograms]) -> System:
        return System(
            cores={CORES: float(self.cores)},
            caches=tuple(f"{CACHE} {number}" for number in range(self.num_caches)),
            bandwidths={MEMORY: self.bandwidth.points(self.conditions.stored_share)}
            | ({_interpreter(job): (1.0,) for job in range(self.copies)} if self.has_interpreter_lock else {}),
            devices=dict.fromkeys(device_names(self.accelerators), 1),
            barriers={name: count for job in jobs for name, count in job.barriers.items()},
        )

    def jobs(self) -> list[JobPrograms]:
        """What the threads of each copy do; worked out once for all that differs in nothing else."""
        key = self.copies, self.num_caches, self.accelerators
        if key not in self.made:
            self.made[key] = self._jobs()
        return self.made[key]

    def _jobs(self) -> list[JobPrograms]:
        found = []
        caches = [f"{CACHE} {number}" for number in range(self.num_caches)]
        by_cache = {cache: self.sharings(cache, None) for cache in caches[: self.copies]}
        for job in range(self.copies):
            cache = self.cache_of(job)
            if self.work is None:
                program = regions_in_order(
                    self.conditions, self.names, cache, self.activities, self.accelerators, self.link
                )
                found.append(JobPrograms((ThreadProgram(f"job {job}", program, True),), {}, ()))
            else:
                sharings = self.sharings(cache, _interpreter(job)) if self.has_interpreter_lock else by_cache[cache]
                found.append(job_programs(self.work, self.names, sharings, f"job {job}", self.threads))
        return found

    def sharings(self, cache: str, interpreter: str | None) -> list[Sharing]:
        """Of all regions."""
        return [self.conditions.sharing(region, cache, interpreter) for region in range(len(self.names))]

    @property
    def has_interpreter_lock(self) -> bool:
        """Whether several threads of the program share a Python interpreter."""
        is_python = self.conditions.run.workload.signature.provenance.guest == "python"
        return is_python and self.work is not None and len(self.work.tree.threads) > 1

    def notes(self) -> tuple[str, ...]:
        """What could not be told of the program's threads."""
        if self.work is not None:
            return job_programs(self.work, self.names, [Sharing()] * len(self.names), "", self.threads).notes
        if not self.accelerators:
            return ("the signature has no execution tree: its regions are replayed in order, each once, as one thread",)
        return ()

    def simulate(self, most_segments: int) -> tuple[Outcome, Decider]:
        pays = pays_by(self.policy, self.conditions.run, self.device, self.candidates, self.activities)
        decider = Decider([self.activities] * self.copies, self.link, self.accelerators, pays)
        jobs = self.jobs()
        entities = [
            Entity(thread.name, thread.program, job=number, born=thread.is_born)
            for number, job in enumerate(jobs)
            for thread in job.threads
        ]
        outcome = simulate(self.system(jobs), entities, decide=decider, most_segments=most_segments)
        return outcome, decider


def _of_assumed_bandwidth(node: _Node, makespan_s: float) -> tuple[float, float]:
    """The makespan with twice and with half the bandwidth for several threads, where the profile does not give it."""
    if node.bandwidth.is_measured:
        return makespan_s, makespan_s
    ends = [replace(node, bandwidth=node.bandwidth.scaled(factor)).simulate(0)[0].makespan_s for factor in (2.0, 0.5)]
    return min(ends[0], makespan_s), max(ends[1], makespan_s)


def _what_if(node: _Node, makespan_s: float) -> tuple[WhatIf, ...]:
    """The makespan with twice as much of each resource, simulated again."""
    changes = [
        ("twice the cores", replace(node, cores=2 * node.cores)),
        ("twice the memory bandwidth", replace(node, bandwidth=node.bandwidth.scaled(2))),
    ]
    if node.accelerators:
        changes.append(("twice the accelerators", replace(node, accelerators=2 * node.accelerators)))
    found = []
    for change, changed in changes:
        time_s = changed.simulate(0)[0].makespan_s
        found.append(WhatIf(change, time_s, makespan_s / time_s if time_s else 1.0))
    return tuple(sorted(found, key=lambda one: one.makespan_s))


def _interpreter(job: int) -> str:
    return f"interpreter {job}"


_KINDS_OF_DEVICES = {"accelerator": "accelerator", "copies": "copy engine"}


def _resources(outcome: Outcome, node: _Node) -> tuple[ResourceUse, ...]:
    compiled, whole_s = outcome.compiled, outcome.makespan_s or 1.0
    most = node.bandwidth.points(node.conditions.stored_share)[-1]
    core_s, moved = float(outcome.core_s[0]), float(outcome.bandwidth_bytes[0])
    found = [
        ResourceUse(CORES, "cores", core_s / (node.cores * whole_s), core_s, "core s", 0.0, 0),
        ResourceUse(
            MEMORY, "memory", moved / (most * whole_s), moved, "bytes", float(outcome.bandwidth_full_s[0]), 0,
        ),
    ]  # fmt: skip
    for number, name in enumerate(compiled.bandwidths[1:], 1):  # the interpreters' locks
        held_s, full_s = float(outcome.bandwidth_bytes[number]), float(outcome.bandwidth_full_s[number])
        found.append(ResourceUse(name, "interpreter", held_s / whole_s, held_s, "s", full_s, 0))
    for number, (name, kind) in enumerate(zip(compiled.objects, compiled.object_kinds, strict=True)):
        used_s, waits = float(outcome.device_s[number]), int(outcome.object_waits[number])
        if kind == "device":
            shown = _KINDS_OF_DEVICES[name.partition(" ")[0]]
            if shown == "copy engine" and node.link.shared_memory:
                continue
            found.append(ResourceUse(name, shown, used_s / whole_s, used_s, "s", used_s, waits))
        elif kind == "lock":
            found.append(ResourceUse(name, kind, 0.0, 0.0, "s", 0.0, waits))
    return tuple(found)


def _path(outcome: Outcome) -> tuple[PathPart, ...]:
    whole_s = outcome.makespan_s or 1.0
    return tuple(PathPart(name, time_s, time_s / whole_s) for name, time_s in outcome.path_s.items())


def _assumptions(node: _Node, prediction: Prediction) -> tuple[Assumption, ...]:
    threads = node.threads or (1 if node.work is None else len(node.work.tree.threads))
    own = node.conditions.assumptions if node.copies * threads > 1 else ()
    of_one = tuple(one for one in prediction.assumptions if node.copies == 1 or not one.text.endswith(ONE_HAS_ALL))
    device = node.device.assumptions if node.device else ()
    return (*of_one, *own, *device)


def _of_signature(workload: Workload, node: _Node) -> tuple[str, ...]:
    """What of the run is not in the replay, or is in it otherwise than it was."""
    warnings = (warning for warning in warnings_of(workload.signature) if node.work is None or TURNS not in warning)
    return (*warnings, *unseen_code_of(node.conditions.run))


def _own_warnings(node: _Node, outcome: Outcome) -> tuple[str, ...]:
    found = list(node.notes())
    threads, ran_s = len(outcome.compiled.entities), float(outcome.seconds("run").sum())
    share = float(outcome.core_s[0]) / ran_s if ran_s else 1.0
    if share < 1 - NOTABLE_SHARE:
        found.append(
            f"{threads} threads share {node.cores} cores: each has {share:.0%} of one while it runs, on average"
        )
    if outcome.segments_left_out:
        found.append(
            f"the timeline holds {len(outcome.segments):,} segments; {outcome.segments_left_out:,} more are left out"
        )
    if outcome.estimated_s > NOTABLE_SHARE * outcome.makespan_s:
        found.append(
            f"{outcome.periods_estimated:,} periods of loops that never repeat exactly are estimated from earlier ones"
        )
    return tuple(found)
