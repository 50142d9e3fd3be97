"""Changes of the program that would change triage's answer about a loop, as far as they are known."""

from __future__ import annotations

from collections.abc import Collection

from foretrace.base.units import counted, format_count, format_seconds
from foretrace.replay.base.records import Answer
from foretrace.replay.base.spread import TYPICAL
from foretrace.replay.offload.devices.carried import HANDED_ON
from foretrace.replay.offload.devices.device import Device
from foretrace.replay.offload.devices.evidence import Evidence, Parallel
from foretrace.tracer.signature.records import IdiomKind

from .reasons import Verdict

LAUNCH_BOUND = 0.5
"""Share of the time on a device spent in launches, from which on they are what to change."""
LATENCY = "latency"
_MANY_LAUNCHES = 10
_BUSY_SHARE = 0.1
"""Share of a device's threads, below which a launch leaves it idle."""
_THROUGH_MEMORY = ("recurrence from line", HANDED_ON)
_NEIGHBOURS = {IdiomKind.GATHER, IdiomKind.SCATTER, IdiomKind.STENCIL}


def would_change(
    verdict: Verdict,
    device: Device,
    evidence: Evidence | None,
    idioms: Collection[IdiomKind],
    num_kernels: int,
    *,
    inside_serial: bool,
) -> str:
    """Text on what would change the answer, or make a kernel pay more; empty where nothing is known to.

    Args:
        verdict: about the loop.
        device: which would run it.
        evidence: of its iterations.
        idioms: of the loop and those below it.
        num_kernels: how many kernels the loop around it launches in each iteration, this one included.
        inside_serial: whether the iterations of the loop around it depend on each other.
    """
    if evidence is None or device.rates is None:
        return ""
    found = [
        text
        for text in (
            _carried(verdict, evidence, idioms),
            _launches(verdict, num_kernels),
            _threads(verdict, device, inside_serial=inside_serial),
        )
        if text
    ]
    begin = "would gain more" if verdict.answer is Answer.PORT else "would change it"
    return f"{begin}: {'; or '.join(found)}" if found else ""


def _carried(verdict: Verdict, evidence: Evidence, idioms: Collection[IdiomKind]) -> str:
    """Another order of iterations that depend on each other, or private copies of what they update."""
    kind, text = evidence.parallel[verdict.candidate.node], evidence.texts[verdict.candidate.node]
    if kind is Parallel.COLLISION:
        return (
            "privatise: each thread or block updates a copy of its own, and the copies are combined at the end"
            if verdict.answer is not Answer.PORT or _bound_by(verdict) == "atomics"
            else ""
        )
    inside = verdict.candidate.nodes[1:]
    if kind is not Parallel.NO or verdict.answer is Answer.PORT or any(evidence.parallel[n] is kind for n in inside):
        return ""
    if text.startswith(_THROUGH_MEMORY) and not _NEIGHBOURS.isdisjoint(idioms):
        return (
            "colour the iterations, or schedule them by levels: those that use none of each other's results run at the "
            "same time (colours change the order, so a solver may converge differently)"
        )
    return ""


def _launches(verdict: Verdict, num_kernels: int) -> str:
    """Fewer launches."""
    cost, one = verdict.cost, verdict.candidate
    if cost is None or one.launches < _MANY_LAUNCHES or cost.launch_s < LAUNCH_BOUND * cost.total_s:
        return ""
    share = f"{cost.launch_s / cost.total_s:.0%} of {format_seconds(cost.total_s)} are {one.launches:,} launches"
    if num_kernels > 1:
        return (
            f"fuse launches ({share}): the loop around it launches {counted(num_kernels, 'kernel')} in each iteration"
        )
    return f"fewer launches ({share}): more work in each, or the loop around it within the kernel"


def _threads(verdict: Verdict, device: Device, *, inside_serial: bool) -> str:
    """More work in each launch, where that would take less time than the host."""
    cost, one = verdict.cost, verdict.candidate
    if verdict.answer is Answer.PORT or cost is None or one.terms is None or device.rates is None:
        return ""
    if one.terms.bound_by != LATENCY or cost.kernel_s < LAUNCH_BOUND * cost.total_s:
        return ""
    most, threads = float(device.rates.threads[TYPICAL]), max(one.terms.threads, 1.0)
    if threads <= 1 or threads > _BUSY_SHARE * most:
        return ""
    limits = {name: limit[TYPICAL] for name, limit in one.terms.limits.items()}
    busy = max(limits[LATENCY] * threads / most, *(limit for name, limit in limits.items() if name != LATENCY))
    each_s = cost.total_s - cost.launch_s - cost.kernel_s * (1 - busy / limits[LATENCY])  # all share a launch
    if each_s >= verdict.best_host_s:
        return ""
    several = "several runs" if inside_serial or one.launches == 1 else "several of its entries"
    times = f"{format_seconds(each_s)} a run instead of {format_seconds(cost.total_s)}"
    return (
        f"batch: a launch has work for {format_count(round(threads))} of {format_count(round(most))} threads; "
        f"{several} at once would keep it busy ({times})"
    )


def _bound_by(verdict: Verdict) -> str:
    return verdict.candidate.terms.bound_by if verdict.candidate.terms else ""
