"""An accelerator's rates: declared, checked against each other, and resolved into one set of figures with ranges."""

import pytest
from msgspec.structs import replace

from foretrace.base.errors import ProfileError
from foretrace.profiles.accelerator import AcceleratorTable, DeviceKind
from foretrace.profiles.checks import check
from foretrace.profiles.device_figures import DeviceFigures, device_figures
from foretrace.profiles.library import find, names
from foretrace.profiles.plausibility import doubts
from foretrace.profiles.profile import MachineKind, Profile, SourceKind
from foretrace.profiles.profile_file import format_profile, parse_profile
from foretrace.profiles.ranges import Range

ACCELERATORS = [name for name in names() if find(name).kind is MachineKind.ACCELERATOR]


def assumed(figures: DeviceFigures) -> dict[str, str]:
    """Assumptions by figure."""
    return {one.name: one.text for one in figures.assumptions}


def with_rates(name: str = "h200-sxm-141gb", **figures: object) -> Profile:
    """A shipped accelerator with other figures in its table."""
    profile = find(name)
    assert profile.accelerator is not None
    source = profile.accelerator.source | dict.fromkeys(set(figures) - {"noise"}, "nvidia")
    source = {field: key for field, key in source.items() if figures.get(field, 1) is not None}
    return replace(profile, accelerator=replace(profile.accelerator, **figures, source=source))


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"warp_threads": 4096}, "warp_threads is 4096, must be at most threads_per_multiprocessor, 2048"),
        ({"fp64_flops_per_s": 40e12}, "must be at most core's cores x clock_hz x peak_flops_per_cycle"),
        ({"fp32_flops_per_s": 2e12}, "special_ops_per_s is 4.182e.12, must be at most fp32_flops_per_s, 2e.12"),
        ({"l2_bytes_per_s": 2e12}, "sustained_bandwidth_bytes_per_s is 3.534e.12, must be at most l2_bytes_per_s"),
        ({"l1_bytes_per_s": 5e12}, "l2_bytes_per_s is 9.774e.12, must be at most l1_bytes_per_s"),
        ({"l2_peak_bytes_per_s": 5e12}, "l2_bytes_per_s is 9.774e.12, must be at most l2_peak_bytes_per_s, 5e.12"),
        ({"last_cache_bytes_per_s": 20e12}, "last_cache_bytes_per_s is 2e.13, must be at most l2_bytes_per_s"),
        ({"integer_ops_per_s": 16.7}, "integer_ops_per_s is 16.7, no machine has that"),
        ({"fp32_flops_per_s": 67.0}, "fp32_flops_per_s is 67, no machine has that: .* 67 Tflop/s is 67e12"),
        ({"atomics_per_s": 0.0}, "atomics_per_s is 0.0, must be positive"),
    ],
)
def test_rates_that_no_device_has_are_refused(figures, message):
    check(with_rates())
    with pytest.raises(ProfileError, match=message):
        check(with_rates(**figures))


def test_measured_rates_at_odds_are_doubted():
    profile = with_rates(l2_bytes_per_s=2e12)
    measured = replace(profile.sources["nvidia"], kind=SourceKind.MEASURED)
    profile = replace(profile, sources=profile.sources | {"nvidia": measured})
    check(profile)
    assert [doubt.partition(" is ")[0] for doubt in doubts(profile)] == [
        "accelerator: memory's sustained_bandwidth_bytes_per_s"
    ]


def test_a_rate_needs_a_source_and_a_host_has_none():
    profile = find("h200-sxm-141gb")
    bare = replace(profile.accelerator, atomics_per_s=1e9)
    with pytest.raises(ProfileError, match="accelerator: atomics_per_s has no source"):
        check(replace(profile, accelerator=bare))
    with pytest.raises(ProfileError, match=r"a host has no \[accelerator\]: remove it"):
        check(replace(find("epyc-9654"), accelerator=AcceleratorTable(source={})))


def test_a_table_comes_back_from_a_file():
    profile = with_rates(device_kind=DeviceKind.GENERAL, noise={"l2_bytes_per_s": 0.1})
    assert parse_profile(format_profile(profile).encode()) == profile


@pytest.mark.parametrize("name", ACCELERATORS)
def test_each_shipped_device_resolves_to_ranges_in_order(name):
    profile = find(name)
    found = device_figures(profile)
    noisy = {} if profile.accelerator is None else profile.accelerator.noise or {}
    for field in found.__slots__:
        value = getattr(found, field)
        if isinstance(value, Range):
            low, high = sorted((value.fast, value.slow))
            assert 0 < low <= value.typical <= high, field
            assert (low == high) == (field not in assumed(found) and not noisy.get(field)), field
    kinds = {DeviceKind.GATHER_SCATTER_UNIT: "convey-hc1-fpga"}
    assert (kinds.get(found.device_kind) == name) == (name == "convey-hc1-fpga")


def test_figures_that_stand_elsewhere_are_not_repeated():
    profile = find("mi300x-192gb")
    found = device_figures(profile)
    assert found.multiprocessors == Range(304, 304, 304)
    assert found.l1_bytes == Range(32768, 32768, 32768)
    assert found.l2_bytes.typical == 8 * 4194304, "eight dies of 38 compute units, 4 MiB each"
    assert (found.last_cache_bytes, found.memory_capacity_bytes) == (268435456, 206158430208)
    assert found.memory_bytes_per_s == Range(0.94 * 5.3e12, 0.85 * 5.3e12, 0.6 * 5.3e12)
    assert "memory_bytes_per_s" in assumed(found) and "l2_bytes" not in assumed(found)


def test_what_a_cache_delivers_at_most_is_derated_as_the_peak_of_memory_is():
    """An Infinity Cache of 17.2 TB/s by its maker, and second and first caches likewise."""
    found = device_figures(find("mi300x-192gb"))
    for rate, peak in (
        (found.last_cache_bytes_per_s, 17.2e12), (found.l2_bytes_per_s, 34.41e12), (found.l1_bytes_per_s, 40.86e12),
    ):  # fmt: skip
        assert rate.slow < rate.typical < rate.fast <= peak
        assert rate.typical <= 0.95 * peak
    assert found.last_cache_bytes_per_s == Range(0.97 * 17.2e12, 0.8 * 17.2e12, 0.65 * 17.2e12)
    assert "last_cache_bytes_per_s" in assumed(found)
    measured = with_rates(l2_peak_bytes_per_s=20e12)
    assert device_figures(measured).l2_bytes_per_s == Range(9.774e12, 9.774e12, 9.774e12), "what was measured stands"


def test_what_is_missing_follows_from_what_is_there():
    found = device_figures(with_rates(fp32_flops_per_s=None, integer_ops_per_s=None, warp_threads=None))
    peak = 132 * 1.98e9 * 128
    assert found.fp64_flops_per_s.fast == pytest.approx(peak)
    assert found.fp32_flops_per_s.typical == pytest.approx(2 * found.fp64_flops_per_s.typical)
    assert found.integer_ops_per_s.slow == pytest.approx(0.2 * found.fp32_flops_per_s.slow)
    assert found.warp_threads == Range(32, 32, 64)
    assert assumed(found)["warp_threads"] == "not in the profile, 32 (32 to 64) assumed"
    amd = device_figures(replace(find("mi300a"), accelerator=None))
    assert amd.warp_threads == Range(64, 64, 64)
    assert assumed(amd)["warp_threads"].endswith("assumed, as of cdna, cdna2, cdna3")
    assert amd.last_cache_bytes_per_s is None


def test_a_measured_rate_is_as_uncertain_as_its_noise():
    found = device_figures(with_rates(noise={"l2_bytes_per_s": 0.1}))
    assert found.l2_bytes_per_s.fast == pytest.approx(1.1 * 9.774e12)
    assert found.l2_bytes_per_s.slow == pytest.approx(9.774e12 / 1.1)


def test_a_device_of_which_nothing_is_known_has_a_range_for_everything():
    profile = find("h200-sxm-141gb")
    bare = replace(profile, core=None, caches=(), memory=None, accelerator=None, microarchitecture=None)
    found = device_figures(bare)
    assert found.memory_capacity_bytes is None
    assert set(assumed(found)) >= {"multiprocessors", "clock_hz", "fp64_flops_per_s", "memory_bytes_per_s", "l2_bytes"}
    assert found.fp64_flops_per_s.fast > 10 * found.fp64_flops_per_s.slow
