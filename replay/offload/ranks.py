"""Ranks that share a host and its accelerators, each a sequence of activities: the replay behind a triage.

All entries of a node are replayed as one activity (folded), in the order in which nodes first ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from foretrace.replay.base.records import Replay
from foretrace.replay.base.spread import TYPICAL
from foretrace.replay.engine.program import Run, Sharing
from foretrace.replay.machine.machine import Machine
from foretrace.replay.offload.devices.device import Way
from foretrace.replay.offload.devices.kernels import Candidate
from foretrace.replay.prediction.conditions import CORES
from foretrace.replay.threads.job_programs import JobPrograms

from .decisions import Activity, Decider, Offload, Pays, Program, pays_now
from .plan import Planner
from .residency import Versions

HostRuns = Callable[[int, Sequence[int], float], tuple[Run, ...]]
"""From a node, the nodes below it and their time on the host to the activities that run there."""


def one_run(node: int, nodes: Sequence[int], host_s: float) -> tuple[Run, ...]:
    """The host's work as one activity on a core."""
    return (Run(str(node), host_s, Sharing(CORES)),)


def replay(
    ranks: Sequence[Sequence[Activity]],
    versions: Versions,
    names: Sequence[str],
    *,
    way: Way,
    host_cores: int | None = None,
    accelerators: int = 0,
    pays: Pays = pays_now,
) -> Replay:
    """Replay one or more ranks that share a host and its accelerators.

    Args:
        ranks: the activities of each rank, in order.
        versions: of the data of one rank.
        names: of nodes.
        way: to each accelerator.
        host_cores: cores that ranks share; None for one each.
        accelerators: how many there are. With none nothing is offloaded.
        pays: the policy of decisions.
    """
    programs = [Program() for _ in ranks]
    decider = Decider(programs, versions, way, accelerators, pays)
    jobs = [
        JobPrograms.of_one_thread(program.parts(activities, names, accelerators, way, Sharing(CORES)))
        for program, activities in zip(programs, ranks, strict=True)
    ]
    machine = Machine(host_cores or max(len(ranks), 1), accelerators=accelerators)
    outcome = machine.run(jobs, decide=decider)
    moved = decider.moved
    return Replay(
        outcome.makespan_s,
        tuple(outcome.end_s.tolist()),
        tuple(decider.decisions),
        moved.to_device_bytes,
        moved.from_device_bytes,
        moved.to_device + moved.from_device,
    )


def activities(planner: Planner, offered: Iterable[int] | None, runs: HostRuns = one_run) -> tuple[Activity, ...]:
    """A program's activities: the candidates that are offered, and between them what the host does.

    Args:
        planner: of the program.
        offered: nodes that may go, those with a refusal as well; None: all.
        runs: makes the host's work.
    """
    asked = set(planner.offers.candidates if offered is None else offered)
    return _Builder(planner, asked, runs).all()


class _Builder:
    def __init__(self, planner: Planner, asked: set[int], runs: HostRuns) -> None:
        self.planner, self.work, self.asked, self.runs = planner, planner.work, asked, runs
        self.has_asked = self.work.any_below(self.work.flags(asked))
        kept = [one for one in asked if one in planner.able]
        _, threaded = planner.host.choice(kept)
        self.threaded = set(threaded)
        self.own_s = planner.host.own_s
        self.before_s = float(planner.work.pages_s.sum()) + (float(planner.host.start_s[TYPICAL]) if threaded else 0.0)

    def all(self) -> tuple[Activity, ...]:
        made = [self.node(node) for node in self.work.roots]
        if self.before_s:
            made.insert(0, Activity(0, (), self.before_s, runs=self.runs(0, (), self.before_s)))
        return tuple(made)

    def node(self, node: int) -> Activity:
        nodes = self.work.below(node)
        offload = self.terms(node)
        if not any(self.has_asked[child] for child in self.work.children[node]):
            seconds = self.host_s(nodes)
            return Activity(node, nodes, seconds, offload, nodes, self.runs(node, nodes, seconds))
        below = tuple(self.node(child) for child in self.work.children[node])
        own_s = float(self.own_s[node])
        host_s = own_s + sum(one.host_s for one in below)
        return Activity(node, nodes, host_s, offload, (node,), self.runs(node, (node,), own_s), below)

    def host_s(self, nodes: Sequence[int]) -> float:
        """Seconds of some subtrees on the host, with the loops threaded that are worth it."""
        total = 0.0
        skip: set[int] = set()
        for node in nodes:
            if node in skip:
                continue
            if node in self.threaded:
                total += self.planner.host.threaded_s[node]
                skip.update(self.work.below(node))
            else:
                total += float(self.own_s[node])
        return total

    def terms(self, node: int) -> Offload | None:
        if node not in self.asked:
            return None
        return offload_of(self.planner, self.planner.offers.candidates[node])


def offload_of(planner: Planner, one: Candidate) -> Offload:
    """A candidate's terms as the replay needs them."""
    return Offload(
        launches=one.launches,
        launch_s=float(one.launch_s[TYPICAL]),
        kernel_s=float(one.kernel_s[TYPICAL]),
        arithmetic_s=float(one.arithmetic_s[TYPICAL]),
        stage_s=planner.staged_s(one),
        results=one.results,
        refusal=one.refusal,
    )
