"""Triage: which gather/scatter loops of a program are worth porting to an accelerator, and what that gains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from foretrace.profiles.profile import Profile
from foretrace.replay.predict import HostRun, unseen_code, unseen_code_of, warnings_of
from foretrace.replay.records import Decision, Instance, ProgramGain, Triage
from foretrace.replay.workload import Workload
from foretrace.tracer.signature.records import Signature

from .costs import Accelerator, Candidate, activities, break_even_bytes, candidates, reason
from .ranks import replay

MOST_OF_THE_GAIN = 0.95


def triage(signature: Signature, host: Profile, accelerator: Profile) -> Triage:
    """Replay a program on a host with one accelerator, and tell for each gather/scatter loop whether to port it.

    Raises:
        PredictionError: host or accelerator is not one, or signature and profiles together do not tell enough.
    """
    device = Accelerator.of(accelerator)
    run = HostRun.of(Workload.of(signature), host)
    found = candidates(run, device)
    terms = {candidate.index: candidate.offload for candidate in found}
    regions = activities(run)
    before = replay([regions])
    after = replay(
        [[replace(activity, offload=terms.get(activity.region)) for activity in regions]],
        accelerators=1,
        link=device.link,
    )
    decisions = {decision.region: decision for decision in after.decisions}
    instances = sorted(
        (_instance(run, device, candidate, decisions[candidate.index]) for candidate in found),
        key=lambda instance: (-instance.gain_s, -instance.host_s),
    )
    provenance = signature.provenance
    unseen_s, unseen = unseen_code(run)
    return Triage(
        host=host.name,
        host_title=host.title,
        accelerator=accelerator.name,
        accelerator_title=accelerator.title,
        complete=provenance.complete,
        instances=tuple(instances),
        program=program_gain(before.makespan_s, after.makespan_s, instances),
        hit_rates=run.misses.hit_rates,
        assumptions=(*run.assumptions, *device.assumptions),
        warnings=(*warnings_of(signature), *unseen_code_of(run)),
        unseen_s=unseen_s,
        unseen=unseen,
    )


def _instance(run: HostRun, device: Accelerator, candidate: Candidate, decision: Decision) -> Instance:
    cost = decision.cost
    taxes_s = (
        cost.total_s - cost.kernel_s
        if cost
        else device.launch_s * candidate.region.entries + float(run.times.arithmetic_s[candidate.index])
    )
    return Instance(
        place=candidate.region.place,
        idiom=candidate.idiom,
        range_bytes=candidate.range_bytes,
        refs=candidate.refs,
        moved_bytes=candidate.moved_bytes,
        entries=candidate.region.entries,
        host_s=decision.host_s,
        accelerator_s=cost.total_s if cost else None,
        cost=cost,
        gain_s=decision.host_s - cost.total_s if cost and decision.offload else 0.0,
        offload=decision.offload,
        reason=reason(run, device, candidate, decision),
        break_even_bytes=break_even_bytes(run, device, candidate, taxes_s),
    )


def program_gain(host_s: float, after_s: float, instances: Sequence[Instance]) -> ProgramGain:
    """Sum up; `instances` are sorted by gain, largest first."""
    total = sum(instance.gain_s for instance in instances)
    reached, enough = 0.0, 0
    for instance in instances:
        if total <= 0 or reached >= MOST_OF_THE_GAIN * total:
            break
        reached += instance.gain_s
        enough += 1
    return ProgramGain(
        host_s=host_s,
        after_s=after_s,
        speedup=host_s / after_s if after_s else 1.0,
        loops=len(instances),
        loops_offloaded=sum(instance.offload for instance in instances),
        loops_for_95_percent=enough,
    )
