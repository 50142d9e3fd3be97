"""A machine at another clock: what goes with its cores, and what stays as it is."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profile_samples import GOOD

from foretrace.base.errors import ProfileError
from foretrace.profiles.clock import at_clock
from foretrace.profiles.library import find, names
from foretrace.profiles.profile import MachineKind
from foretrace.profiles.profile_file import parse_profile

ZEN_5 = "epyc-turin-vm"
HOSTS = [name for name in names() if find(name).kind is MachineKind.HOST]


def changed(path, before, after):
    """Paths of the figures that are not the same, with how many times as large they are."""
    if isinstance(before, dict):
        return [found for key in before for found in changed(f"{path}.{key}", before[key], after[key])]
    if isinstance(before, list | tuple):
        pairs = zip(before, after, strict=True)
        return [found for n, pair in enumerate(pairs) for found in changed(f"{path}[{n}]", *pair)]
    return [] if before == after else [(path, after / before if isinstance(before, float) else None)]


def figures_changed(profile, clock_hz):
    before, after = (msgspec.to_builtins(one) for one in (profile, at_clock(profile, clock_hz)))
    return dict(changed("", before, after))


def test_what_cores_do_alone_goes_with_the_clock():
    profile = find(ZEN_5)
    found = figures_changed(profile, 2 * profile.core.clock_hz)
    assert found.pop(".name") is found.pop(".title") is None
    assert found.pop(".core.clock_hz") == pytest.approx(2)
    times = {path: factor for path, factor in found.items() if path.endswith("_s") and not path.endswith("per_s")}
    assert list(times.values()) == pytest.approx([0.5] * len(times))
    rates = {path: factor for path, factor in found.items() if path.endswith("bytes_per_s")}
    assert list(rates.values()) == pytest.approx([2] * len(rates))
    assert len(times) + len(rates) == len(found)
    assert {".core.python_line_s", ".caches[0].latency_s", ".caches[1].latency_s", ".tlbs[0].miss_s"} <= set(times)
    reach = profile.caches[1].size_bytes
    expected = {f".latency[{n}].latency_s" for n, p in enumerate(profile.latency) if p.working_set_bytes <= reach}
    assert {path for path in times if path.startswith(".latency[")} == expected
    assert len(expected) < len(profile.latency)


def test_what_cores_share_stays_as_it_is():
    found = figures_changed(find(ZEN_5), 1e9)
    shared = (".caches[2]", ".memory", ".thread_bandwidth", ".prefetch", ".operations")
    assert not [path for path in found if path.startswith(shared)]


@pytest.mark.parametrize("name", HOSTS)
def test_every_machine_at_its_own_clock_is_itself(name):
    profile = find(name)
    found = {path: factor for path, factor in figures_changed(profile, profile.core.clock_hz).items() if factor}
    assert not found


@given(st.floats(1e8, 1e10))
def test_there_and_back_is_the_same_machine(clock_hz):
    profile = find(ZEN_5)
    back = at_clock(at_clock(profile, clock_hz), profile.core.clock_hz)
    found = dict(changed("", msgspec.to_builtins(profile), msgspec.to_builtins(back)))
    factors = [factor for factor in found.values() if factor is not None]
    assert factors == pytest.approx([1] * len(factors))


def test_a_machine_whose_clock_nobody_tells_is_refused():
    silent = parse_profile(GOOD.replace("clock_hz = 2.0e9\n", "").replace('clock_hz = "doc"', "").encode())
    with pytest.raises(ProfileError, match=r"box: core.clock_hz is missing"):
        at_clock(silent, 1e9)
