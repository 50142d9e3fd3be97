"""Why a node is ported, threaded or left: what bounds it, what each tax costs, and which figure would flip it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from foretrace.base.units import counted, format_bytes, format_bytes_per_s, format_count, format_seconds
from foretrace.replay.base.records import Answer, OffloadCost
from foretrace.replay.base.spread import TYPICAL
from foretrace.replay.offload.devices.device import Device
from foretrace.replay.offload.devices.evidence import Evidence, Parallel
from foretrace.replay.offload.devices.gather_scatter import bandwidth_bytes_per_s
from foretrace.replay.offload.devices.kernels import Candidate

from .residency import Moved

_MOST_SCALE = 2.0**40
_NOTABLE_LONGEST = 1.01
_MOST_TIMES = 1_000_000
_NOTABLE_PART = 0.001
"""Share of a kernel's time: limits below are not worth a line."""
NOTHING_S = 1e-9
"""Shorter taxes are not worth a word."""


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """An answer about a candidate, with the figures that it follows from."""

    candidate: Candidate
    answer: Answer
    host_s: float
    thread_s: float | None
    cost: OffloadCost | None
    moved: Moved
    bound: str  # on the host
    tree_s: float | None = None  # on the host, with the loops below it threaded where that is faster

    @property
    def best_host_s(self) -> float:
        """On the host, it or loops below it threaded if that is faster."""
        return min(self.host_s, self.thread_s or self.host_s, self.tree_s or self.host_s)


def reason(verdict: Verdict, device: Device, evidence: Evidence | None) -> str:
    """The answer in a sentence or two."""
    one, cost = verdict.candidate, verdict.cost
    if one.refusal or cost is None:
        carries = evidence.texts[one.node] if evidence is not None and evidence.parallel[one.node].is_serial else ""
        return f"{iterations_text(evidence, one.node)}; {one.refusal}" if evidence and carries else one.refusal
    entries = one.launches
    kernel = _kernel(one, device)
    back = verdict.moved
    parts = (
        ("in the queue", cost.queue_s),
        (f"for {counted(entries, 'launch')}", cost.launch_s),
        (
            f"for {_transfers(back)}" if one.terms else "for transfers",
            cost.transfer_s if cost.transfer_s > 1e-9 else 0.0,
        ),
        (kernel, cost.kernel_s),
        ("for arithmetic left on the host", cost.arithmetic_s),
    )
    taxes = " + ".join(f"{format_seconds(seconds)} {name}" for name, seconds in parts if seconds > NOTHING_S)
    host = f"{format_seconds(verdict.host_s)} on the host ({verdict.bound})"
    if verdict.thread_s is not None:
        host += f", {format_seconds(verdict.thread_s)} on all its cores"
    if verdict.answer is not Answer.PORT:
        words = "host is faster: " if verdict.best_host_s <= cost.total_s else "does not pay in the plan: "
        text = f"{words}{host} against {taxes}"
    else:
        text = f"{host} against {taxes}"
        if cost.total_s > verdict.best_host_s:
            text = f"goes with its data, which other kernels leave on or need from the device: {text}"
        if not device.launch_known:
            most = (verdict.best_host_s - cost.total_s) / entries
            text += f"; pays while a launch costs less than {format_seconds(max(most, 0.0) + cost.launch_s / entries)}"
    if evidence is not None and evidence.parallel[one.node] is not Parallel.YES:
        is_free = evidence.parallel[one.node] in (Parallel.ASSUMED, Parallel.SAMPLED)
        text += "" if is_free else f"; {evidence.texts[one.node]}"
    return text


def _transfers(moved: Moved) -> str:
    count = moved.to_device + moved.from_device
    shown = format_bytes(round(moved.to_device_bytes + moved.from_device_bytes))
    return f"{shown} in {counted(count, 'transfer')}" if count else f"{shown} that go with the launches"


def _kernel(one: Candidate, device: Device) -> str:
    if one.terms is not None:
        return f"in the kernel ({one.terms.bound_by})"
    assert one.loop is not None
    bandwidth = bandwidth_bytes_per_s(device.profile, one.loop.kinds, one.loop.range_bytes) or 0.0
    return f"for {format_bytes(one.loop.moved_bytes)} at {format_bytes_per_s(bandwidth)}"


def flip(verdict: Verdict, device: Device) -> str:
    """The single figure whose smallest relative change turns the answer; empty where none does."""
    cost, one = verdict.cost, verdict.candidate
    if cost is None or one.refusal:
        return ""
    way, host_s = device.way, verdict.best_host_s
    spare = host_s - cost.total_s
    link = min(way.to_device_bytes_per_s, way.from_device_bytes_per_s)
    bound = one.terms.bound_by if one.terms else "gather/scatter bandwidth"
    found: list[tuple[float, str]] = []
    parts = (
        ("launch", cost.launch_s, 1),
        ("link", cost.transfer_s, 1),
        ("kernel", cost.kernel_s, 1),
        ("host", host_s, -1),
    )
    for name, part_s, sign in parts:
        change = 1 + sign * spare / part_s if part_s > 0 else 0.0
        if change <= 0 or change == 1:
            continue
        text = {
            "launch": f"a launch of {format_seconds(cost.launch_s / one.launches * change)}",
            "link": f"a link of {format_bytes_per_s(link / change)}" if math.isfinite(link) else "slower results",
            "kernel": f"a kernel {_times(change)} ({bound})",
            "host": f"a host {_times(change)}",
        }[name]
        found.append((abs(math.log(change)), text))
    return f"flips at {min(found)[1]}" if found else ""


def _times(factor: float) -> str:
    times, word = (factor, "slow") if factor >= 1 else (1 / factor, "fast")
    shown = f"more than {_MOST_TIMES:,}" if times > _MOST_TIMES else _rounded(times)
    return f"{shown} times as {word}"


def _rounded(number: float) -> str:
    """Three digits, without an exponent."""
    return f"{float(f'{number:.3g}'):,.0f}" if number >= 100 else f"{number:.3g}"


def break_even_launch_s(verdict: Verdict) -> float | None:
    """The most that a launch may take for the accelerator to win; None where it loses with free ones."""
    if verdict.cost is None:
        return None
    spare = verdict.best_host_s - (verdict.cost.total_s - verdict.cost.launch_s)
    return spare / verdict.candidate.launches if spare > 0 else None


def break_even_footprint(verdict: Verdict, device: Device) -> int | None:
    """The footprint from which the accelerator wins if all of its work and data grow together; None: never.

    Threads grow with the work, launches stay as many; caches are taken to hit as often.
    """
    cost, one = verdict.cost, verdict.candidate
    if cost is None or one.terms is None or device.rates is None or verdict.best_host_s <= 0 or not one.footprint_bytes:
        return None
    latency_s = one.terms.limits["latency"][TYPICAL] if "latency" in one.terms.limits else 0.0
    other_s = max(limit[TYPICAL] for name, limit in one.terms.limits.items() if name != "latency")
    most = float(device.rates.threads[TYPICAL])

    threads = max(one.terms.threads, 1.0)

    def wins(scale: float) -> bool:
        spread = max(min(threads * scale, most), 1.0) / min(threads, most)
        kernel_s = max(other_s * scale, latency_s * scale / spread)
        return kernel_s + cost.transfer_s * scale + cost.launch_s < verdict.best_host_s * scale

    if not wins(_MOST_SCALE):
        return None
    low, high = 1 / _MOST_SCALE, _MOST_SCALE
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if wins(middle) else (middle, high)
    return max(round(one.footprint_bytes * high), 1)


def explanation(verdict: Verdict, device: Device, evidence: Evidence | None) -> tuple[str, ...]:
    """The arithmetic line by line."""
    one, cost = verdict.candidate, verdict.cost
    lines = [f"on the host: {format_seconds(verdict.host_s)}, bound by {verdict.bound}"]
    if verdict.thread_s is not None:
        lines.append(f"on all its cores: {format_seconds(verdict.thread_s)}")
    if one.refusal or cost is None:
        if evidence is not None and evidence.texts[one.node]:
            lines.append(f"iterations: {iterations_text(evidence, one.node)}")
        return (*lines, f"not on the accelerator: {one.refusal}")
    if one.terms is None or device.rates is None:
        loop = one.loop
        assert loop is not None
        lines.append(f"moves {format_bytes(loop.moved_bytes)} in {format_count(loop.refs)} references, over a range of "
                     f"{format_bytes(loop.range_bytes)}")  # fmt: skip
        lines.append(f"{_kernel(one, device)}: {format_seconds(cost.kernel_s)}")
    else:
        if evidence is not None:
            lines.append(f"iterations: {iterations_text(evidence, one.node)}")
        rates, counts = device.rates, one.terms.counts
        made_of = {
            "64-bit arithmetic": (counts["fp64_flops"], "operations"),
            "32-bit arithmetic": (counts["fp32_flops"], "operations"),
            "integer arithmetic": (counts["integer"], "operations"),
            "divisions and square roots": (counts["special"], "operations"),
            "instruction issue": (counts["diverged"], "instructions of threads"),
            "first cache": (counts["array_bytes"], "bytes"),
            "second cache": (counts["l2_bytes"], "bytes"),
            "last cache": (counts["last_bytes"], "bytes"),
            "memory bandwidth": (counts["memory_bytes"], "bytes"),
            "atomics": (counts["atomics"], "updates"),
        }
        if counts["longest"] > _NOTABLE_LONGEST:
            lines.append(
                f"iterations of serial loops differ: the longest thread of a warp takes {counts['longest']:.2f} times "
                "the mean, and all wait for it"
            )
        least_s = _NOTABLE_PART * cost.kernel_s
        for name, limit in one.terms.limits.items():
            if limit[TYPICAL] < least_s:
                continue
            if name == "passes of a sort":
                text = (
                    f"{format_bytes(round(counts['sorted_bytes']))} in {counts['passes']:.0f} passes, one for each 8 "
                    "bits of a key, at 0.4 to 0.75 of the bandwidth (Onesweep, arXiv:2206.01784)"
                )
            elif name == "latency":
                at_a_time = min(one.terms.threads, float(rates.threads[TYPICAL]))
                least = round(one.terms.least_threads)
                fewer = f" (at least {format_count(least)})" if least < at_a_time else ""
                threads = f"{format_count(round(at_a_time))} threads at a time{fewer}, each"
                text = f"{threads if at_a_time > 1 else '1 thread,'} waiting for its own loads"
            else:
                amount, unit = made_of[name]
                if not amount:
                    continue
                speed = amount / limit[TYPICAL] if limit[TYPICAL] else 0.0
                text = f"{format_count(round(amount))} {unit} at {format_count(round(speed))} a second"
                if unit == "bytes":
                    text = f"{format_bytes(round(amount))} at {format_bytes_per_s(speed)}"
            mark = "  <- the kernel's time" if name == one.terms.bound_by else ""
            lines.append(f"{name}: {text}: {_range(np.array(limit))}{mark}")
        lines.append(f"touches {format_bytes(round(one.footprint_bytes))}")
    each = cost.launch_s / max(one.launches, 1)
    lines.append(f"launches: {one.launches:,} x {format_seconds(each)}: {format_seconds(cost.launch_s)}")
    if device.way.shared_memory:
        lines.append("transfers: none, the memory is shared")
    elif not verdict.moved.to_device + verdict.moved.from_device:
        lines.append("transfers: none, its data is there and stays there")
    else:
        lines.append(
            f"transfers: {format_bytes(round(verdict.moved.to_device_bytes))} there in {verdict.moved.to_device:,}, "
            f"{format_bytes(round(verdict.moved.from_device_bytes))} back in {verdict.moved.from_device:,}: "
            f"{format_seconds(cost.transfer_s)}"
        )
    if one.staged_bytes:
        lines.append(_staged(one, device))
    if cost.arithmetic_s:
        lines.append(f"arithmetic left on the host: {format_seconds(cost.arithmetic_s)}")
    lines.append(f"together: {format_seconds(cost.total_s)} against {format_seconds(verdict.best_host_s)}")
    return tuple(lines)


def iterations_text(evidence: Evidence, node: int) -> str:
    """Text on the dependences between a loop's iterations, the kind first."""
    kind, text = str(evidence.parallel[node]), evidence.texts[node]
    return text if text.startswith(kind) else f"{kind} ({text})"


def _staged(one: Candidate, device: Device) -> str:
    assert device.rates is not None
    held = format_bytes(round(device.rates.capacity_bytes))
    return (
        f"touches {format_bytes(round(one.footprint_bytes))}, more than the {held} of its memory: brought piece by "
        f"piece, {format_bytes(round(one.staged_bytes))} in all"
    )


def _range(times: np.typing.NDArray[np.float64]) -> str:
    low, typical, high = (float(time_s) for time_s in times)
    least, most = format_seconds(min(low, high)), format_seconds(max(low, high))
    return format_seconds(typical) if least == most else f"{format_seconds(typical)} ({least} to {most})"
