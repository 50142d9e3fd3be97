"""Replaying a program on a machine: jobs on its cores, which share its last caches, memory and accelerators."""

from __future__ import annotations

from dataclasses import replace

from foretrace.profiles.hierarchies import ONE_HAS_ALL
from foretrace.profiles.profile import Profile
from foretrace.profiles.ranges import Assumption
from foretrace.replay.base.records import Model, Prediction
from foretrace.replay.engine.outcome import Outcome
from foretrace.replay.engine.program import Waking
from foretrace.replay.engine.simulation import MOST_SEGMENTS
from foretrace.replay.offload.policy import Policy
from foretrace.replay.prediction.conditions import CORES, MEMORY, waking_of
from foretrace.replay.prediction.deep_trees import with_room
from foretrace.replay.prediction.predict import NOTABLE_SHARE, TURNS, prediction_of, warnings_of, warnings_of_run
from foretrace.replay.threads.team_waits import Waits
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.records import Signature

from .machine_run import Node, Offloading, check, cores_of
from .records import NodeReplay, PathPart, ResourceUse, WhatIf


@with_room
def replay_on(
    program: Signature | Workload,
    profile: Profile,
    *,
    cores: int | None = None,
    threads: int | None = None,
    copies: int = 1,
    offloading: Offloading | None = None,
    model: Model = Model.CORE,
    most_segments: int = MOST_SEGMENTS,
) -> NodeReplay:
    """Replay a program on a machine.

    Args:
        program: its signature, or what follows from it.
        profile: of the host.
        cores: to use; None: all that the profile names, or as many as there are copies if it names none.
        threads: of each copy; None: as it was traced.
        copies: of the program that run at the same time, each with a memory of its own.
        offloading: to accelerators; None: there are none.
        model: what gives a region its time.
        most_segments: of the timeline; more are counted and left out.

    Returns:
        the makespan with its interval, and how it came about.

    Raises:
        PredictionError: signature and profiles do not tell enough, a number is out of range, or the machine has fewer
            cores than asked for.
    """
    check(profile, cores, threads, copies, offloading)
    workload = program if isinstance(program, Workload) else Workload.of(program)
    tree = workload.signature.tree
    most = threads or (1 if tree is None or offloading else len(tree.threads))
    made = Node.of(
        workload, profile, cores_of(profile, cores, copies, most), copies, offloading, threads, model,
        cores_given=cores is not None,
    )  # fmt: skip
    prediction = prediction_of(made.conditions.run)
    outcome, decider = made.simulate(most_segments)
    fastest_s, slowest_s = of_open_questions(made, outcome.makespan_s)
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
        model=model,
        makespan_s=outcome.makespan_s,
        low_s=fastest_s * low,
        high_s=slowest_s * high,
        alone_s=alone_s,
        prediction_s=prediction.time_s,
        complete=prediction.complete,
        outcome=outcome,
        resources=_resources(outcome, made),
        caches=made.conditions.levels,
        critical_path=_path(outcome),
        shorter=_what_if(made, outcome.makespan_s, has_threads=len(outcome.compiled.entities) > copies),
        decisions=tuple(decider.decisions) if decider else (),
        regions=made.decided,
        assumptions=(*assumptions_of(made, prediction), *of_waits(made, outcome)),
        warnings=(*of_signature(workload, made), *_own_warnings(made, outcome)),
    )


def of_open_questions(node: Node, makespan_s: float) -> tuple[float, float]:
    """The least and the greatest makespan with what is not known either way.

    That is twice and half the bandwidth for several threads, where the profile does not give it, and threads of
    parallel regions that wait the other way, where it is open how they do.
    """
    changed = []
    if not node.bandwidth.is_measured:
        changed += [replace(node, bandwidth=node.bandwidth.scaled(factor)) for factor in (2.0, 0.5)]
    if node.team_waits is not None and node.team_waits.is_open:
        changed += [replace(one, waits_otherwise=True) for one in (node, *changed)]
    ends = [makespan_s, *(one.simulate(0)[0].makespan_s for one in changed)]
    return min(ends), max(ends)


def _what_if(node: Node, makespan_s: float, *, has_threads: bool) -> tuple[WhatIf, ...]:
    """The makespan with twice as much of each resource, or with threads that are woken at once, simulated again."""
    changes = [
        ("twice the cores", replace(node, cores=2 * node.cores)),
        ("twice the memory bandwidth", replace(node, bandwidth=node.bandwidth.scaled(2))),
    ]
    if has_threads:
        changes.append((WAKING_AT_ONCE, replace(node, conditions=replace(node.conditions, waking=Waking()))))
    if node.team_waits is not None and node.team_waits.how is Waits.SLEEP:
        changes.append((SPINNING, replace(node, waits_otherwise=True)))
    if node.accelerators:
        changes.append(("twice the accelerators", replace(node, accelerators=2 * node.accelerators)))
    found = []
    for change, changed in changes:
        time_s = changed.simulate(0)[0].makespan_s
        found.append(WhatIf(change, time_s, makespan_s / time_s if time_s else 1.0))
    return tuple(sorted(found, key=lambda one: one.makespan_s))


WAKING_AT_ONCE = "threads that go on at once when woken"
SPINNING = "threads of parallel regions that spin, not sleep"
_KINDS_OF_DEVICES = {"accelerator": "accelerator", "copies": "copy engine"}


def _resources(outcome: Outcome, node: Node) -> tuple[ResourceUse, ...]:
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
            if shown == "copy engine" and (node.device is None or node.device.way.shared_memory):
                continue
            found.append(ResourceUse(name, shown, used_s / whole_s, used_s, "s", used_s, waits))
        elif kind == "lock":
            found.append(ResourceUse(name, kind, 0.0, 0.0, "s", 0.0, waits))
    return tuple(found)


def _path(outcome: Outcome) -> tuple[PathPart, ...]:
    whole_s = outcome.makespan_s or 1.0
    return tuple(PathPart(name, time_s, time_s / whole_s) for name, time_s in outcome.path_s.items())


def of_waits(node: Node, outcome: Outcome) -> tuple[Assumption, ...]:
    """Assumptions on waking threads, if there are several in a job."""
    if len(outcome.compiled.entities) <= node.copies:
        return ()
    waits = node.team_waits
    text = f"threads of parallel regions {waits.how} while they wait: {waits.why}" if waits else ""
    return (*waking_of(node.profile)[1], *((Assumption("team_waits", text),) if waits else ()))


def assumptions_of(node: Node, prediction: Prediction) -> tuple[Assumption, ...]:
    """Assumptions on the program alone, its neighbours and accelerators."""
    threads = node.threads or (1 if node.work is None else len(node.work.tree.threads))
    own = node.conditions.assumptions if node.copies * threads > 1 else ()
    of_one = tuple(one for one in prediction.assumptions if node.copies == 1 or not one.text.endswith(ONE_HAS_ALL))
    device = node.device.assumptions if node.device else ()
    return (*of_one, *own, *device)


def of_signature(workload: Workload, node: Node) -> tuple[str, ...]:
    """Warnings on parts of the run that the replay leaves out or changes."""
    warnings = (warning for warning in warnings_of(workload.signature) if node.work is None or TURNS not in warning)
    notes = node.offloaded.work.notes if node.offloaded else ()
    return (*warnings, *warnings_of_run(node.conditions.run), *notes)


def _own_warnings(node: Node, outcome: Outcome) -> tuple[str, ...]:
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
