"""A program on 1, 2, 4, ... threads of a machine: its time, its speed-up, and what keeps it from being as many times.

The time of several threads is the replay's. The seconds lost to an even division of the work are found by simulating
again, each time with one more limit taken away: shared bandwidth, too few cores, locks. What is lost then is the serial
part's (Amdahl), and the rest is imbalance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from foretrace.base.errors import PredictionError
from foretrace.base.units import format_seconds
from foretrace.profiles.profile import Profile
from foretrace.replay.base.records import Limit, Model, Prediction, Scaling
from foretrace.replay.engine.program import Lock, Part, Post, Unlock, Wait, Waking
from foretrace.replay.prediction.deep_trees import with_room
from foretrace.replay.prediction.predict import TURNS, prediction_of
from foretrace.replay.threads.job_programs import with_programs, without
from foretrace.replay.threads.tree_programs import team_size
from foretrace.replay.threads.tree_work import TreeWork
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.records import Signature
from foretrace.tracer.signature.tree_records import ExecutionTree, SynchronisationKind

from .machine_run import MOST_THREADS, Node, check_cores, cores_of
from .replay import of_open_questions, of_signature, of_waits

_NOTABLE = 0.01
_ASSUMED = 2.0
"""An assumed bandwidth may be off by this factor, as in a replay's interval."""


def who_began_processes_is_known(tree: ExecutionTree) -> bool:
    """Whether the signature says where each process but the first was begun, so that it is known which ran at the same
    time; so it is of one process."""
    begun = {
        edge.target
        for edge in tree.synchronisation
        if edge.kind is SynchronisationKind.CREATE and edge.source_node >= 0
    }
    firsts: dict[int, int] = {}
    for thread in tree.threads:
        firsts.setdefault(thread.process, thread.number)
    return all(number in begun for process, number in firsts.items() if process)


def traced_threads(signature: Signature) -> int:
    """Threads in a signature's execution tree; 1 without a tree."""
    return len(signature.tree.threads) if signature.tree is not None else 1


@with_room
def predict_threads(
    program: Signature | Workload,
    profile: Profile,
    counts: Sequence[int] | None,
    cores: int | None = None,
    model: Model = Model.CORE,
    *,
    loops: bool = True,
) -> tuple[Prediction, ...]:
    """Predict a program with each of some numbers of threads.

    Args:
        program: its signature, or what follows from it.
        profile: of a host.
        counts: numbers of threads; None: as many as worked when the program was traced.
        cores: for them to run on; None: all of the machine.
        model: what gives a region its time.
        loops: whether all loops are listed, or only compiled code that was not seen.

    Returns:
        a prediction for each number, in this order, with its `scaling`; the `loops` are core seconds. One thread is
        predicted as without threads; of a program traced with several, the time that they spun in the runtime of
        parallel regions is left out.

    Raises:
        PredictionError: a number is out of range, signature and profile do not tell enough, or the signature does not
            say which work so many threads would share.
    """
    workload = program if isinstance(program, Workload) else Workload.of(program)
    for count in counts or ():
        if not 1 <= count <= MOST_THREADS:
            raise PredictionError(f"predict: --threads {count}: must be from 1 to {MOST_THREADS:,}")
    check_cores(profile, cores, "predict")
    if workload.signature.tree is None and max(counts or (1,)) > 1:
        raise PredictionError(
            "predict: the signature has no execution tree, which says what threads share: only --threads 1 is "
            "predicted; trace the program again, without --no-tree"
        )
    most = max(counts) if counts else traced_threads(workload.signature)
    node = Node.of(
        workload, profile, cores_of(profile, cores, 1, most), 1, None, None, model, cores_given=cores is not None
    )
    alone = prediction_of(node.conditions.run, loops=loops)
    work = node.work
    spun_s = work.waited_s if work is not None and len(work.tree.threads) > 1 else 0.0
    if spun_s > _NOTABLE * alone.time_s:
        alone = _scaled(alone, (alone.time_s - spun_s) / alone.time_s)
        text = f"{format_seconds(spun_s)} that threads spun in the runtime of parallel regions when traced are left out"
        alone = replace(alone, warnings=(*alone.warnings, text))
    traced = _working(node)
    allowed = {1} if work is None else _possible(work, node, traced)
    found = []
    for count in counts or (traced,):
        if count == 1:
            found.append(replace(alone, scaling=Scaling(1.0, 1.0, 1.0, {}, Limit.NONE)))
            continue
        if allowed is not None and count not in allowed:
            raise PredictionError(
                f"predict: --threads {count}: the signature does not say how {count} threads would share the work: it "
                f"has neither OpenMP regions nor a pool of workers; only {' and '.join(map(str, sorted(allowed)))} "
                "can be predicted"
            )
        assert work is not None, "checked above"
        asked = count if allowed is None and count != traced else None
        found.append(_with_threads(replace(node, threads=asked, jobs_by_key={}), workload, work, alone, count))
    return tuple(found)


def _working(node: Node) -> int:
    """The threads of the traced run; those of a pool alone, and not a first one that only waited for the others."""
    if node.work is None:
        return 1
    if node.pool is not None:
        return len(node.pool.workers)
    traced = max(len(node.work.tree.threads), 1)
    if traced == 1 or team_size(node.work):
        return traced
    outcome, _ = node.simulate(0)
    waited_s = float(outcome.seconds("join")[0])
    if len({thread.process for thread in node.work.tree.threads}) > 1:  # for results of processes, too
        waited_s += float(outcome.seconds("wait")[0])
    return traced - (waited_s >= 0.5 * float(outcome.busy_s[1:].max(initial=0.0)))


def possible_threads(signature: Signature, profile: Profile) -> set[int] | None:
    """Numbers of threads that a program can be predicted with; None for any.

    Raises:
        PredictionError: signature and profile do not tell enough.
    """
    workload = Workload.of(signature)
    traced = traced_threads(signature)
    node = Node.of(workload, profile, cores_of(profile, None, 1, traced), 1, None, None)
    return {1} if node.work is None else _possible(node.work, node, _working(node))


def _scaled(prediction: Prediction, factor: float) -> Prediction:
    return replace(
        prediction,
        time_s=factor * prediction.time_s,
        low_s=factor * prediction.low_s,
        high_s=factor * prediction.high_s,
    )


def _possible(work: TreeWork, node: Node, working: int) -> set[int] | None:
    """Numbers of threads that can be replayed; None for any.

    A first thread that waits for others to end, rather than works with them, may be counted or not.
    """
    if team_size(work) or node.pool is not None:
        return None
    return {1, working, len(work.tree.threads)}


def _with_threads(node: Node, workload: Workload, work: TreeWork, alone: Prediction, count: int) -> Prediction:
    outcome, _ = node.simulate(0)
    time_s = outcome.makespan_s
    fastest_s, slowest_s = of_open_questions(node, time_s)
    low, high = (end / alone.time_s if alone.time_s else 1.0 for end in (alone.low_s, alone.high_s))
    unknown = 1.0 if node.bandwidth.is_measured else _ASSUMED
    ends_s = [
        replace(node, bandwidth=node.bandwidth.scaled(factor)).simulate(0)[0].makespan_s
        for factor in (low / unknown, high * unknown)
    ]
    lost_s = _lost(node, work, alone.time_s, time_s, count)
    most = max(lost_s, key=lambda limit: lost_s[limit])
    warnings = [*of_signature(workload, node), *node.notes()]
    if count > node.cores:
        has = node.profile.core.cores if node.profile.core else None
        some = f"has {node.cores} cores" if node.cores == has else f"gives {node.cores} of its cores"
        warnings.append(f"{node.profile.name} {some}: {count} threads share them")
    of_threads = (*node.conditions.assumptions, *of_waits(node, outcome))
    assumed = {str(one): one for one in (*alone.assumptions, *of_threads)}
    if node.team_waits is not None and node.team_waits.is_open:
        ends_s.append(replace(node, waits_otherwise=True).simulate(0)[0].makespan_s)
    speedups = [alone.time_s / end_s if end_s else 1.0 for end_s in (time_s, *ends_s)]
    limit = most if lost_s[most] > _NOTABLE * time_s else Limit.NONE
    return replace(
        alone,
        time_s=time_s,
        low_s=fastest_s * low,
        high_s=slowest_s * high,
        threads=count,
        cores=min(count, node.cores),
        scaling=Scaling(speedups[0], min(speedups), max(speedups), lost_s, limit),
        assumptions=tuple(assumed.values()),
        warnings=tuple(dict.fromkeys(warning for warning in warnings if TURNS not in warning)),
    )


def _lost(node: Node, work: TreeWork, alone_s: float, time_s: float, count: int) -> dict[Limit, float]:
    """Seconds over those of an even division of the work, by what they are lost to."""
    steps: list[tuple[Limit, Node]] = []
    node = replace(node, bandwidth=node.bandwidth.scaled(count))
    steps.append((Limit.BANDWIDTH, node))
    if count > node.cores:
        node = replace(node, cores=count, jobs_by_key={})
        steps.append((Limit.CORES, node))
    node = replace(
        _without_locks(node), interpreter_threads=count, conditions=replace(node.conditions, waking=Waking())
    )
    steps.append((Limit.SYNCHRONISATION, node))
    lost_s = {}
    for limit, freed in steps:
        freed_s = freed.simulate(0)[0].makespan_s
        lost_s[limit] = max(time_s - freed_s, 0.0)
        time_s = freed_s
    left_s = max(time_s - alone_s / count, 0.0)
    serial_s = max(alone_s - _parallel_s(work), 0.0)
    lost_s[Limit.SERIAL] = min(serial_s * (1 - 1 / count), left_s)
    lost_s[Limit.IMBALANCE] = left_s - lost_s[Limit.SERIAL]
    return lost_s


def _parallel_s(work: TreeWork) -> float:
    """Seconds of work in parallel regions, and of threads that others began."""
    roots = [thread.root for thread in work.tree.threads]
    if team_size(work):
        return float(sum(work.inclusive_s[node] for root in roots for node in work.all_parallel(root)))
    return float(sum(work.inclusive_s[root] for root in roots[1:]))


def _without_locks(node: Node) -> Node:
    """A copy of the program in which no thread waits for a lock."""
    (job,) = node.jobs()
    threads = with_programs(job.threads, lambda program: without(program, lambda part: _locks(part, job.shared_locks)))
    jobs = [replace(job, threads=tuple(threads))]
    key = next(key for key, made in node.jobs_by_key.items() if made is node.jobs())
    return replace(node, jobs_by_key={key: jobs})


def _locks(part: Part, shared_locks: frozenset[str]) -> bool:
    """Whether a part takes or gives back a lock; `shared_locks` are the semaphores that are some."""
    return isinstance(part, Lock | Unlock) or (isinstance(part, Wait | Post) and part.name in shared_locks)
