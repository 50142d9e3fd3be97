"""A machine and the jobs on it, ready to be simulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from foretrace.base.errors import PredictionError
from foretrace.profiles.profile import MachineKind, Profile
from foretrace.replay.base.records import Model
from foretrace.replay.engine.outcome import Outcome
from foretrace.replay.engine.program import Sharing
from foretrace.replay.engine.simulation import DeadlockError
from foretrace.replay.machine.machine import Machine, cache_of
from foretrace.replay.memory.bandwidth import MemoryBandwidth
from foretrace.replay.memory.shared_cache import last_caches
from foretrace.replay.offload.decisions import Decider, Program
from foretrace.replay.offload.devices.device import Device
from foretrace.replay.offload.policy import Policy
from foretrace.replay.offload.program import OffloadedProgram
from foretrace.replay.prediction.conditions import CACHE, CORES, MEMORY, Conditions
from foretrace.replay.threads.job_programs import JobPrograms, check_conserved, in_job
from foretrace.replay.threads.line_locks import INTERPRETER, LineLocks
from foretrace.replay.threads.stops import MOST_ATTEMPTS
from foretrace.replay.threads.team_waits import TeamWaits, Waits, team_waits
from foretrace.replay.threads.tree_programs import LEAST_SHARE, job_programs, team_size
from foretrace.replay.threads.tree_work import TreeWork
from foretrace.replay.threads.worker_pools import Pool
from foretrace.replay.workload.workload import Workload

from .programs import host_runs, region_names, regions_in_order

MOST_COPIES = 10_000
"""Most copies of a job on a machine. More than that is a mistake in the command."""
MOST_THREADS = 10_000
"""Most threads of a program. More than that is a mistake in the command."""
_Key = tuple[int, int, int, int | None, Waits | None]


@dataclass(frozen=True, slots=True)
class Offloading:
    """Accelerators of the machine: which, how many, and who goes there."""

    accelerator: Profile
    count: int = 1
    policy: Policy = Policy.GREEDY


def check(profile: Profile, cores: int | None, threads: int | None, copies: int, offloading: Offloading | None) -> None:
    """Refuse numbers out of range.

    Raises:
        PredictionError: one is, or the machine has fewer cores than asked for.
    """
    for what, count in (("--threads", threads), ("--copies", copies)):
        if count is not None and count < 1:
            raise PredictionError(f"replay: {what} is {count}, must be at least 1")
    if threads is not None and threads > MOST_THREADS:
        raise PredictionError(f"replay: --threads is {threads}, at most {MOST_THREADS:,} are replayed")
    if copies > MOST_COPIES:
        raise PredictionError(f"replay: --copies is {copies}, at most {MOST_COPIES:,} are replayed")
    if offloading is not None and offloading.count < 1:
        raise PredictionError(f"replay: --accelerators is {offloading.count}, must be at least 1")
    check_cores(profile, cores, "replay")


def check_cores(profile: Profile, cores: int | None, verb: str) -> None:
    """Refuse a number of cores that a machine does not have.

    Raises:
        PredictionError: it is not positive, or more than the machine has.
    """
    if cores is not None and cores < 1:
        raise PredictionError(f"{verb}: --cores is {cores}, must be at least 1")
    has = profile.core.cores if profile.core else None
    if cores is not None and has is not None and cores > has:
        raise PredictionError(f"machine {profile.name}: has {has} cores, not {cores}")


def cores_of(profile: Profile, asked: int | None, copies: int, threads: int | None) -> int:
    """Cores in use: those asked for, else all of the machine, else one for each thread."""
    has = profile.core.cores if profile.core else None
    return asked or has or copies * (threads or 1)


def tree_work_of(
    workload: Workload, conditions: Conditions, threads: int | None, offloads: bool
) -> tuple[TreeWork | None, Pool | None]:
    """The execution tree with times, if it is replayed, and the pool of workers in it, if it has one.

    Raises:
        PredictionError: another number of threads is asked for than the signature tells the work of.
    """
    tree = workload.signature.tree
    work = None if tree is None else TreeWork.of(workload, tree, conditions.time_s[0])
    is_python = workload.signature.provenance.guest == "python"
    pool = Pool.of(work) if work is not None and is_python and not offloads else None
    traced = 1 if work is None or offloads else len(work.tree.threads)
    can_divide = work is not None and not offloads and (team_size(work) > 0 or pool is not None)
    if threads is not None and threads != traced and not can_divide:
        why = (
            "offloading is replayed for one thread" if offloads and work is not None
            else "the signature does not say which of its work others would share"
        )  # fmt: skip
        raise PredictionError(
            f"replay: cannot replay {threads} threads of a program traced with {traced}: {why}; replay it without "
            "--threads, or several jobs with --copies"
        )
    return (None, None) if offloads else (work, pool)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A machine and the jobs on it."""

    profile: Profile
    conditions: Conditions
    names: tuple[str, ...]
    offloaded: OffloadedProgram | None
    cores: int
    copies: int
    accelerators: int
    policy: Policy
    bandwidth: MemoryBandwidth
    work: TreeWork | None
    pool: Pool | None
    threads: int | None
    interpreter_threads: int = 1
    """Threads that Python's lock lets run at the same time; more in what-ifs."""
    cores_given: bool = False
    """Whether the user named the number of cores."""
    waits_otherwise: bool = False
    """Whether teams wait the other way, as a what-if."""
    programs: dict[tuple[int | None, Waits | None], JobPrograms] = field(default_factory=dict)
    """By number of threads and how they wait: a job's programs."""
    jobs_by_key: dict[_Key, list[JobPrograms]] = field(default_factory=dict)
    offers: dict[_Key, list[Program]] = field(default_factory=dict)
    """By the keys of `jobs_by_key`: what each job offers to accelerators."""
    loosened: set[str] = field(default_factory=set)
    """Semaphores that got units, without which threads of a replay waited forever."""

    @classmethod
    def of(
        cls,
        workload: Workload,
        profile: Profile,
        cores: int,
        copies: int,
        offloading: Offloading | None,
        threads: int | None,
        model: Model = Model.CORE,
        *,
        cores_given: bool = False,
    ) -> Node:
        """Prepare a replay.

        Raises:
            PredictionError: the machine is an accelerator, or signature and profile do not tell enough.
        """
        if profile.kind is not MachineKind.HOST:
            raise PredictionError(
                f"machine {profile.name}: is an accelerator, it runs no program alone; name a host with --machine, "
                "and this one with --accelerator"
            )
        conditions = Conditions.of(workload, profile, jobs=copies, cores=cores, model=model)
        device = Device.of(offloading.accelerator) if offloading else None
        policy = offloading.policy if offloading else Policy.NEVER
        work, pool = tree_work_of(workload, conditions, threads, offloading is not None)
        return cls(
            profile=profile,
            conditions=conditions,
            names=region_names(workload),
            offloaded=OffloadedProgram.of(conditions.run, device, policy) if device else None,
            cores=cores,
            copies=copies,
            accelerators=offloading.count if offloading else 0,
            policy=policy,
            bandwidth=conditions.bandwidth,
            work=work,
            pool=pool,
            threads=threads,
            cores_given=cores_given,
        )

    @property
    def device(self) -> Device | None:
        """The accelerator."""
        return self.offloaded.device if self.offloaded else None

    @property
    def decided(self) -> tuple[str, ...]:
        """Names of what decisions are about."""
        return self.offloaded.names if self.offloaded else self.names

    @property
    def num_caches(self) -> int:
        """Number of last caches of its cores."""
        return last_caches(self.profile, self.cores)

    @property
    def machine(self) -> Machine:
        """Its resources."""
        bandwidths = {MEMORY: self.bandwidth.points(self.conditions.stored_share)} | self._interpreters()
        return Machine(self.cores, self.num_caches, bandwidths, self.accelerators, self.conditions.waking)

    def _interpreters(self) -> dict[str, tuple[float, ...]]:
        """Python's locks, one for each process with several threads: how many run together where 1, 2, ... want to."""
        together = tuple(map(float, range(1, self.interpreter_threads + 1)))
        names = [self._interpreter(one) for one in self.threaded_processes]
        return {f"{name} of job {job}": together for job in range(self.copies) for name in names}

    def _interpreter(self, process: int) -> str:
        is_only = self.work is None or len({thread.process for thread in self.work.tree.threads}) == 1
        return INTERPRETER if is_only else f"{INTERPRETER} of process {process}"

    @property
    def divided_pool(self) -> Pool | None:
        """The pool, if its tasks are divided anew: among another number of workers, or as they become free.

        Which of them took how many tasks while the program was traced says nothing. Where each ran one, that is kept.
        """
        if self.pool is None:
            return None
        traced = len(self.pool.workers)
        return self.pool if self.threads not in (None, traced) or self.pool.calls > traced else None

    def jobs(self) -> list[JobPrograms]:
        """The programs of each copy's threads; one object for all copies that differ in nothing."""
        key = self._key
        if key not in self.jobs_by_key:
            self.jobs_by_key[key] = self._jobs()
        return self.jobs_by_key[key]

    @property
    def _key(self) -> _Key:
        return self.copies, self.num_caches, self.accelerators, self.threads, self._how

    def _jobs(self) -> list[JobPrograms]:
        self.offers[self._key] = []
        if self.offloaded is None:
            return [self.job] * self.copies
        found = []
        for job in range(self.copies):
            runs = host_runs(self.conditions, self.names, cache_of(job, self.num_caches), self.offloaded.work)
            program, offers = self.offloaded.parts(runs, self.accelerators, Sharing(CORES))
            self.offers[self._key].append(offers)
            found.append(JobPrograms.of_one_thread(program))
        return found

    @property
    def _how(self) -> Waits | None:
        waits = self.team_waits
        return None if waits is None else waits.how

    @property
    def job(self) -> JobPrograms:
        """The programs of a job on this host, which all copies share.

        Names of its own are those of its cache, of Python's locks, and of all that its threads meet at.
        """
        key = self.threads, self._how
        if key not in self.programs:
            self.programs[key] = self._job()
        return self.programs[key]

    def _job(self) -> JobPrograms:
        if self.work is None:
            program = regions_in_order(self.conditions, self.names, CACHE)
            return JobPrograms.of_one_thread(program)
        sharings = self.sharings(CACHE, None)
        locked = {one: self.sharings(CACHE, self._interpreter(one)) for one in self.threaded_processes}
        threads = None if self.pool is not None else self.threads
        sleeps = self.team_waits is not None and self.team_waits.how is Waits.SLEEP
        made = job_programs(self.work, self.names, sharings, threads, locked, team_sleeps=sleeps)
        pool = self.divided_pool
        if pool is None:
            return made
        sharings = list(locked.get(pool.process, sharings))
        size = self.threads or len(pool.workers)
        divided = pool.divided(made, size, self.names, sharings)
        check_conserved(divided.threads, self.work.predicted_s - self.work.waited_s + pool.more_s(size))
        return divided

    def names_of(self, job: int, local: Collection[str]) -> dict[str, str]:
        """The system's names for those in a job's programs; `local` are the names of what the job has to itself."""
        if self.offloaded is not None:
            return {}
        own = {name: in_job(job, name) for name in local}
        interpreters = [self._interpreter(one) for one in self.threaded_processes]
        return own | {name: f"{name} of job {job}" for name in interpreters} | {CACHE: cache_of(job, self.num_caches)}

    @property
    def team_waits(self) -> TeamWaits | None:
        """Waiting policy of the runtime of parallel regions; None for programs that have none."""
        if self.work is None or not (traced := team_size(self.work)):
            return None
        has = self.profile.core.cores if self.profile.core else None
        cores = self.cores if has is not None or self.cores_given else None
        settings = self.conditions.run.workload.signature.provenance.thread_settings
        found = team_waits(self.work.tree, settings, self.threads or traced, cores)
        return found.other if self.waits_otherwise else found

    def sharings(self, cache: str, interpreter: str | None) -> list[Sharing]:
        """Resource use of all regions."""
        return [self.conditions.sharing(region, cache, interpreter) for region in range(len(self.names))]

    @property
    def threaded_processes(self) -> list[int]:
        """Processes in which several threads share a Python interpreter."""
        is_python = self.conditions.run.workload.signature.provenance.guest == "python"
        if not is_python or self.work is None:
            return []
        threads = Counter(thread.process for thread in self.work.tree.threads)
        return sorted(process for process, count in threads.items() if count > 1)

    def notes(self) -> tuple[str, ...]:
        """Notes on what is not known of the program's threads, and on idle ones."""
        if self.work is not None:
            idle = () if self.threads is not None or self.divided_pool is not None else _idle(self.work)
            loose = (
                (f"threads wait less than they did at {len(self.loosened)} places: their order there is not known",)
                if self.loosened else ()
            )  # fmt: skip
            return idle + self.job.notes + loose + self._notes_of_waits()
        if not self.accelerators:
            return ("the signature has no execution tree: its regions are replayed in order, each once, as one thread",)
        return ()

    def _notes_of_waits(self) -> tuple[str, ...]:
        """Notes on what is not known, or not replayed, of threads that wait in parallel regions."""
        waits = self.team_waits
        if waits is None or len(self.job.threads) == 1:
            return ()
        threads = len(self.job.threads) * self.copies
        is_crowded = self.copies > 1 and waits.how is Waits.SPIN and threads > self.cores
        open_text = f"whether threads of parallel regions spin or sleep is open ({waits.why}): the interval covers both"
        crowded = (
            f"{threads} threads of {self.copies} copies spin on {self.cores} cores: what they take from others so is "
            "not in the replay"
        )
        return (*((open_text,) if waits.is_open else ()), *((crowded,) if is_crowded else ()))

    def simulate(self, most_segments: int) -> tuple[Outcome, Decider | None]:
        """Run all jobs. `most_segments` of the timeline are kept.

        Where threads wait for a semaphore forever, it gets units and they begin again; at last without locks of lines.

        Raises:
            DeadlockError: threads wait forever for something else.
        """
        for attempt in range(MOST_ATTEMPTS):
            try:
                return self._simulated(most_segments)
            except DeadlockError as error:
                if not self._loosen(error.semaphores, 1 << attempt // 4) and not self._drop_line_locks():
                    raise
        return self._simulated(most_segments)

    def _loosen(self, semaphores: Sequence[str], units: int) -> bool:
        """Give the first of some semaphores units in the job that has it; false if none of them is one to give to."""
        jobs = self.jobs()
        for name in semaphores:
            for number, job in enumerate(jobs):
                own = next((one for one in job.semaphores if in_job(number, one) == name), None)
                if own is not None and own not in job.shared_locks:
                    more = job.semaphores | {own: job.semaphores[own] + units}
                    jobs[number] = replace(job, semaphores=more)
                    self.loosened.add(name)
                    return True
        return False

    def _drop_line_locks(self) -> bool:
        """Replay a Python program without its locks, if it has any: sections that are not what they seem deadlock."""
        if self.work is None or not self.work.waits.line_locks.of_body:
            return False
        note = "the program's locks are left out: with them its threads would wait forever"
        self.work.waits.line_locks = LineLocks(notes=(*self.work.waits.line_locks.notes, note))
        self.work.units.clear()
        self.programs.clear()
        self.jobs_by_key.clear()
        return True

    def _simulated(self, most_segments: int) -> tuple[Outcome, Decider | None]:
        jobs, decider = self.jobs(), None
        most = -(-self.copies // self.num_caches)
        assert most <= len(self.conditions.time_s), f"{most} jobs share a cache, with shares of fewer"
        if self.offloaded is not None:
            versions, way = self.offloaded.planner.versions, self.offloaded.device.way
            decider = Decider(self.offers[self._key], versions, way, self.accelerators, self.offloaded.pays)
        outcome = self.machine.run(jobs, decide=decider, names=self.names_of, most_segments=most_segments)
        return outcome, decider


def _idle(work: TreeWork) -> tuple[str, ...]:
    """Threads that were begun and hardly ran."""
    threads = work.tree.threads
    shared = Counter(thread.root for thread in threads)
    least_s = LEAST_SHARE * float(sum(work.inclusive_s[root] for root in shared))
    idle = sum(float(work.inclusive_s[one.root]) / shared[one.root] < least_s for one in threads if one.number)
    if not idle:
        return ()
    return (f"{idle} of {len(threads)} threads did less than {LEAST_SHARE:.2%} of the work each",)
