"""Times that follow from a region's work and published figures: worked out by hand."""

import pytest
from msgspec.structs import replace

from foretrace.benchmarks.validation.first_principles import Expected, Reference, Work, beside, expected

REFERENCE = Reference(
    core_clock_hz=1e9, cores=10, core_cache_bytes_per_s=10e9, core_memory_bytes_per_s=1e9, core_cache_bytes=1e6,
    cores_memory_bytes_per_s=4e9, cores_cache_bytes=10e6, fork_s=1e-3, device_clock_hz=1e9,
    device_memory_bytes_per_s=100e9, device_cache_bytes_per_s=200e9, device_cache_bytes=5e6,
    device_flops64_per_s=1e12, device_flops32_per_s=2e12, launch_s=1e-6, link_bytes_per_s=10e9, wait_s=1e-5,
)  # fmt: skip
WORK = Work(cycles=1e9, bytes=1e6, footprint_bytes=1e6, kernels=1)


def test_arithmetic_decides_on_a_core_and_is_shared_among_cores():
    found = expected(WORK, REFERENCE)
    assert found.core_s == 1.0
    assert found.cores_s == pytest.approx(0.1 + 1e-3)
    assert expected(replace(WORK, width=2), REFERENCE).cores_s == pytest.approx(0.5 + 1e-3)


@pytest.mark.parametrize(
    ("footprint_bytes", "core_s", "cores_s", "device_s"),
    [(1e6, 1.0, 0.1, 0.05), (5e6, 10.0, 0.1, 0.05), (9e6, 10.0, 0.1, 0.1), (20e6, 10.0, 2.5, 0.1)],
)
def test_bandwidth_is_that_of_what_holds_the_data(footprint_bytes, core_s, cores_s, device_s):
    found = expected(Work(cycles=1.0, bytes=10e9, footprint_bytes=footprint_bytes, kernels=1), REFERENCE)
    assert found.core_s == pytest.approx(core_s)
    assert found.cores_s == pytest.approx(cores_s + 1e-3)
    assert found.device_low_s == found.device_high_s == pytest.approx(device_s + 1e-6)


def test_cores_are_left_alone_where_starting_them_costs_more():
    short = Work(cycles=1e6, bytes=1.0, footprint_bytes=1.0, kernels=5)
    assert expected(short, REFERENCE).cores_s == expected(short, REFERENCE).core_s == 1e-3


def test_a_device_takes_launches_transfers_and_the_longest_thread():
    found = expected(replace(WORK, kernels=3, depth_cycles=5e6, moved_bytes=1e6), REFERENCE)
    assert found.device_high_s == pytest.approx(5e-3 + 3e-6 + 1e-4)
    assert expected(replace(WORK, kernels=3), REFERENCE).device_high_s == pytest.approx(6e-6 + 3e-6)
    assert expected(replace(WORK, kernels=3, waits=2), REFERENCE).device_high_s == pytest.approx(6e-6 + 3e-6 + 2e-5)
    assert expected(replace(WORK, flops64=1e12), REFERENCE).device_high_s == pytest.approx(1.0 + 1e-6)
    assert expected(replace(WORK, flops32=1e12), REFERENCE).device_high_s == pytest.approx(0.5 + 1e-6)


def test_sharing_the_loops_inside_makes_the_device_an_interval():
    found = expected(replace(WORK, depth_cycles=5e6, shared_depth_cycles=1e6), REFERENCE)
    assert (found.device_low_s, found.device_high_s) == pytest.approx((1e-3 + 1e-6, 5e-3 + 1e-6))
    assert found.over(found.core_s) == pytest.approx((1 / 5.001e-3, 1 / 1.001e-3))


def test_a_ratio_is_to_the_nearer_end_of_an_interval():
    assert Expected(8.0, 4.0, 1.0, 2.0).over(8.0) == (4.0, 8.0)
    assert [beside(speedup, (4.0, 8.0)) for speedup in (2.0, 4.0, 5.0, 16.0)] == [0.5, 1.0, 1.0, 2.0]
