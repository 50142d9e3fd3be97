"""Two measurements of a machine, figure by figure: what agrees, and what does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from msgspec import Struct, structs

from foretrace.benchmarks.harness.sampling import STABLE_NOISE
from foretrace.profiles.clock import at_clock
from foretrace.profiles.profile import Profile

AGREEMENT = 0.05
"""Two runs on a quiet machine are to agree within this part."""

_NOT_MEASURED = {"system"}  # the source of what the operating system tells


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure that both profiles have. `unstable`: one of them names it so. `noise`: the larger one's of the two.

    `relative` is how far the larger lies above the smaller.
    """

    figure: str
    before: float
    after: float
    unstable: bool = False
    noise: float | None = None

    @property
    def relative(self) -> float:
        """0 where they are the same."""
        low, high = sorted((self.before, self.after))
        return high / low - 1

    @property
    def agrees(self) -> bool:
        """Whether another run might be expected to come so near."""
        return self.relative <= AGREEMENT

    @property
    def surprising(self) -> bool:
        """It does not agree, and no profile says that it need not."""
        return not self.agrees and not self.unstable

    def to_json(self) -> dict[str, Any]:
        """All of it, as verbs print it with `--json`."""
        return asdict(self) | {"relative": self.relative, "surprising": self.surprising}


def differences(before: Profile, after: Profile) -> list[Difference]:
    """Every measured figure that both profiles have, those that differ most first.

    The later ones are taken to the earlier clock, as that rises and falls; the clocks are told as they were.
    """
    old = {name: (value, noise) for name, value, noise in _figures(before)}
    unstable = {*before.unstable, *after.unstable}
    found = []
    for name, value, noise in _figures(_at_the_clock_of(before, after)):
        if name in old:
            known = [n for n in (old[name][1], noise) if n is not None]
            found.append(Difference(name, old[name][0], value, name in unstable, max(known, default=None)))
    return sorted(found, key=lambda difference: -difference.relative)


def _at_the_clock_of(before: Profile, after: Profile) -> Profile:
    """The later profile with its figures at the clock of the earlier one, but for its own clock."""
    clocks = [None if profile.core is None else profile.core.clock_hz for profile in (before, after)]
    if clocks[0] is None or clocks[1] is None:
        return after
    taken = at_clock(after, clocks[0])
    assert taken.core is not None, "it has a clock"
    return structs.replace(taken, core=structs.replace(taken.core, clock_hz=clocks[1]))


def summary(found: Sequence[Difference]) -> str:
    """Number of figures that agree, and of the others how many were expected to differ, for people."""
    far = [d for d in found if not d.agrees]
    text = f"{len(found) - len(far)} of {len(found)} figures agree within {AGREEMENT:.0%}"
    if far:
        surprising = sum(d.surprising for d in far)
        text += f"; of the others {len(far) - surprising} are named as unstable, {surprising} are not"
    return text


def unstable_figures(profile: Profile) -> tuple[str, ...]:
    """Names of the measured figures whose noise says that another run need not agree."""
    return tuple(name for name, _, noise in _figures(profile) if (noise or 0.0) > STABLE_NOISE)


def _figures(profile: Profile) -> Iterator[tuple[str, float, float | None]]:
    """Name, value and noise of each measured figure; no value is zero."""
    places: list[tuple[str, Struct | None]] = [("core", profile.core), ("memory", profile.memory)]
    places += [("core.frontend", profile.core.frontend)] if profile.core else []
    places += [(cache.name, cache) for cache in profile.caches]
    places += [(f"{tlb.name}, pages of {tlb.page_bytes}:", tlb) for tlb in profile.tlbs]
    places += [("accelerator", profile.accelerator), ("link", profile.link), ("network", profile.network)]
    for place, record in places:
        if record is not None:
            sources: dict[str, str] = getattr(record, "source")  # noqa: B009 - shared by records, not by a base class
            noise: dict[str, float] = getattr(record, "noise") or {}  # noqa: B009
            for name, source in sources.items():
                if source not in _NOT_MEASURED and not isinstance(getattr(record, name), str):
                    yield f"{place} {name}", float(getattr(record, name)), noise.get(name)
    for cost in profile.operations:
        for part in ("latency_cycles", "interval_cycles"):
            value = getattr(cost, part)
            if value is not None:
                yield f"{cost.operation} {cost.element_bits}x{cost.elements} {part}", value, cost.noise
    for of_array in profile.array_costs:
        yield f"{of_array.name} of arrays", of_array.point_s, of_array.noise
    for linear in profile.linear_algebra:
        yield f"{linear.routine} of {linear.size} rows, {linear.element_type}", linear.time_s, linear.noise
    for bandwidth in profile.bandwidth:
        place = f"{bandwidth.pattern} loads of {bandwidth.access_bytes} at {bandwidth.working_set_bytes}"
        yield place, bandwidth.bandwidth_bytes_per_s, bandwidth.noise
    for latency in profile.latency:
        place = f"latency at {latency.working_set_bytes}, pages of {latency.page_bytes}"
        yield place, latency.latency_s, latency.noise
    for point in profile.surface:
        place = f"{point.movement} of {point.access_bytes} at {point.working_set_bytes}, stride {point.stride_bytes}"
        yield place, point.bandwidth_bytes_per_s, point.noise
    for ahead in profile.prefetch:
        place = f"lines fetched ahead beside {ahead.misses_per_line} near lines of streams"
        yield place, ahead.fetched_ahead, ahead.noise
    for team in profile.thread_bandwidth:
        place = f"{team.movement} at {team.working_set_bytes}, {team.threads} threads"
        yield place, team.bandwidth_bytes_per_s, team.noise
    for rate in profile.idiom_rates:
        yield rate.idiom, rate.bandwidth_bytes_per_s, rate.noise
    for message in profile.messages:
        yield f"message of {message.message_bytes}", message.time_s, message.noise
    for curve in profile.gather_scatter:
        operations = " and ".join(curve.operations)
        kind = f"{operations} {curve.index_mode}, {curve.element_bytes} bytes, {curve.threads} threads"
        for place_on in curve.points:
            yield f"{kind} at {place_on.range_bytes}", place_on.bandwidth_bytes_per_s, place_on.noise
