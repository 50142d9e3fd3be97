"""The MultiMAPS surface, and the convolution that reads it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_samples import Program, measured_host

from foretrace.profiles.points import Movement, SurfacePoint
from foretrace.replay.base.records import Model
from foretrace.replay.limits.surface import BandwidthSurface
from foretrace.replay.prediction.predict import predict

LEVEL_S = np.array([0.25e-9, 1e-9, 8e-9])
"""Time of an access by the level that serves it: two caches and main memory."""


STREAM = (125, 125)
"""Misses of 1000 accesses to the next 8 bytes, out of main memory."""


def stream(misses: tuple[int, int] = STREAM):
    program = Program()
    program.access(program.loop(1000), 1000, misses)
    return program.signature()


def points(
    movement: Movement = Movement.LOAD, stride_bytes: int = 8, level_s: np.ndarray = LEVEL_S
) -> list[SurfacePoint]:
    """Sweeps through a working set in each level, one new line in 64 / stride accesses."""
    new = min(stride_bytes / 64, 1.0)
    served = [np.array([1.0, 0, 0]), np.array([1 - new, new, 0]), np.array([1 - new, 0, new])]
    return [
        SurfacePoint(
            movement, 1 << (9 + 4 * level), stride_bytes, 8, tuple(np.cumsum(shares)[:2].tolist()),
            8 / float(shares @ level_s), "here",
        )
        for level, shares in enumerate(served)
    ]  # fmt: skip


@pytest.mark.parametrize("stride_bytes", [8, 64])
def test_measured_points_are_read_back(stride_bytes: int) -> None:
    surface = BandwidthSurface.of(points(stride_bytes=stride_bytes))
    for point in points(stride_bytes=stride_bytes):
        found = surface.bandwidth_bytes_per_s(Movement.LOAD, 8, stride_bytes, point.hit_rates)
        assert found == pytest.approx(point.bandwidth_bytes_per_s, rel=1e-6)


@given(st.floats(0, 1), st.floats(0, 1))
def test_time_between_points_is_linear_in_the_shares(first: float, second: float) -> None:
    surface = BandwidthSurface.of(points(stride_bytes=64))
    hit_rates = (first, first + (1 - first) * second)
    shares = np.diff([0, *hit_rates, 1])
    found = surface.bandwidth_bytes_per_s(Movement.LOAD, 8, 64, hit_rates)
    assert 8 / found == pytest.approx(float(shares @ LEVEL_S), rel=1e-6)


@given(st.lists(st.floats(0.5, 2), min_size=9, max_size=9))
def test_no_level_is_ever_negative(noise: list[float]) -> None:
    noisy = [
        msgspec.structs.replace(point, bandwidth_bytes_per_s=point.bandwidth_bytes_per_s * factor)
        for point, factor in zip(points() + points() + points(), noise, strict=True)
    ]
    surface = BandwidthSurface.of(noisy)
    assert all(surface.bandwidth_bytes_per_s(Movement.LOAD, 8, 8, (x, x)) > 0 for x in (0.0, 0.5, 0.9, 1.0))


def test_equation_1_by_hand() -> None:
    """1000 accesses, of which one in 8 comes from main memory, at the bandwidth measured there for that hit rate."""
    host = measured_host(surface=(*points(), *points(stride_bytes=64)))
    prediction = predict(stream(), host, Model.CONVOLUTION)
    assert prediction.loops[0].memory_s == pytest.approx(1000 * float(np.array([7 / 8, 0, 1 / 8]) @ LEVEL_S))
    assert prediction.low_s < prediction.time_s < prediction.high_s


def test_a_surface_that_nobody_measured_is_derived_and_said() -> None:
    """The profile's stream from main memory is 2 GB/s: the synthetic sweep of unit stride has that bandwidth."""
    synthetic = predict(stream(), measured_host(), Model.CONVOLUTION)
    assert "surface" in {assumption.name for assumption in synthetic.assumptions}
    assert synthetic.loops[0].memory_s == pytest.approx(1000 * 8 / 2e9)
    host = measured_host(surface=(*points(), *points(stride_bytes=64)))
    assert "surface" not in {assumption.name for assumption in predict(stream(), host, Model.CONVOLUTION).assumptions}


def test_hit_rates_outside_the_surface_are_said_and_widen_the_interval() -> None:
    inside = measured_host(surface=(*points(), *points(stride_bytes=64)))
    cached = tuple(point for point in inside.surface if point.hit_rates[-1] == 1)
    outside = predict(stream(), measured_host(surface=cached), Model.CONVOLUTION)
    within = predict(stream(), inside, Model.CONVOLUTION)
    assert "beyond_surface" in {assumption.name for assumption in outside.assumptions}
    assert "beyond_surface" not in {assumption.name for assumption in within.assumptions}
    assert outside.high_s / outside.time_s > within.high_s / within.time_s


def test_the_core_model_is_the_default() -> None:
    host = measured_host(surface=(*points(), *points(stride_bytes=64)))
    assert predict(stream(), host) == predict(stream(), host, Model.CORE)
