"""The MultiMAPS surface: bandwidth of loads and stores by hit rates and stride, read between its measured points.

Equation 1 of Carrington et al., ICS'11, divides the bytes of each reference by the bandwidth that the surface gives at
the reference's hit rates (Figure 8). Between points, the time of an access is taken to be linear in the shares of the
accesses that each level serves: the bytes of several levels take the sum of their times. The time per level is a
non-negative least-squares fit of all points of one movement, stride and access size; its misfit is the error of the
reading.

A profile without a measured surface gets a synthetic one: the MultiMAPS sweeps, predicted from the profile's other
figures (published bandwidths and latencies).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from foretrace.profiles.points import Movement, SurfacePoint
from foretrace.profiles.ranges import Assumption
from foretrace.replay.base.spread import FAST, SLOW, TYPICAL, Floats
from foretrace.replay.workload.workload import OperationArrays

BEYOND = (0.5, 2.0)
"""Factors of the time of accesses whose hit rates lie outside the surface: assumed."""
_SLACK = 0.02
"""Share of the accesses by which hit rates may exceed the measured ones and still count as inside."""
_LEAST_RESIDUAL = 0.02
_NOTABLE_SHARE = 0.01
SYNTHETIC_STRIDES_BYTES = (8, 64, 256)
SYNTHETIC_ACCESS_BYTES = 8


class _Key(NamedTuple):
    movement: Movement
    access_bytes: int
    stride_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class _Plane:
    """The points of one movement, access size and stride.

    `level_s` [levels + 1]: time of an access by the level that serves it; nan where no point came from there.
    `most` [levels + 1]: the largest measured share of accesses that a level served. `misfit`: relative, RMS.
    """

    key: _Key
    level_s: Floats
    most: Floats
    misfit: float


@dataclass(frozen=True, slots=True, eq=False)
class BandwidthSurface:
    """The planes of a machine. `synthetic`: derived from its other figures, not measured."""

    planes: tuple[_Plane, ...]
    synthetic: bool

    @classmethod
    def of(cls, points: Sequence[SurfacePoint], *, synthetic: bool = False) -> BandwidthSurface:
        """The surface through measured points; those of copies, which are neither loads nor stores, are left out."""
        keyed = [p for p in points if p.movement is not Movement.COPY]
        keyed.sort(key=_key)
        planes = tuple(_plane(key, list(group)) for key, group in itertools.groupby(keyed, _key))
        return cls(planes, synthetic)

    def bandwidth_bytes_per_s(
        self, movement: Movement, access_bytes: int, stride_bytes: int, hit_rates: Sequence[float]
    ) -> float:
        """Bandwidth at cumulative hit rates [levels], on the nearest plane."""
        plane = self._plane(movement, access_bytes, stride_bytes)
        shares = np.diff(np.array([0.0, *hit_rates, 1.0]))
        return access_bytes / float(shares @ _filled(plane.level_s))

    def memory_times(self, operations: OperationArrays, hits: Callable[[int], Floats]) -> SurfaceTimes:
        """Equation 1: the time of each operation by the level that serves it.

        Args:
            operations: of a workload.
            hits: by corner (`replay.spread`), accesses by the level that serves them, [operations, levels + 1].
        """
        count, levels = hits(TYPICAL).shape
        seconds, outside = np.zeros((3, count, levels)), np.zeros(count)
        executions = np.maximum(operations.executions, 1)
        classed = operations.repeated + operations.unit_stride + operations.strided + operations.irregular
        far = (operations.strided + operations.irregular) / np.maximum(classed, 1)
        access = np.maximum(operations.access_bytes, 1)
        for stores, movement in ((False, Movement.LOAD), (True, Movement.STORE)):
            sizes = self._access_sizes(movement)
            nearest = sizes[np.abs(np.log2(access)[:, None] - np.log2(sizes)[None, :]).argmin(axis=1)]
            for size in sizes.tolist():
                chosen = (operations.is_store == stores) & (nearest == size)
                if not chosen.any():
                    continue
                near, apart = self._plane(movement, size, size), self._plane(movement, size, 1 << 30)
                if apart.key.stride_bytes == size:  # wide accesses were measured in unit stride only
                    apart = self._plane(movement, int(sizes[0]), 1 << 30)
                wide = np.maximum(access[chosen] / size, 1)
                for plane, weight in ((near, 1 - far[chosen]), (apart, far[chosen])):
                    for corner in (FAST, TYPICAL, SLOW):
                        factor = max(1 + (corner - TYPICAL) * 2 * plane.misfit, 0.1)
                        weighted = (weight * wide)[:, None] * hits(corner)[chosen]
                        seconds[corner, chosen] += factor * weighted * _filled(plane.level_s)
                    shares = hits(TYPICAL)[chosen] / executions[chosen, None]
                    unmeasured = (shares * weight[:, None] > plane.most * weight[:, None] + _SLACK).any(axis=1)
                    outside[chosen] = np.maximum(outside[chosen], np.where(unmeasured, weight, 0))
        less, more = BEYOND
        seconds[FAST] *= (1 + outside * (less - 1))[:, None]
        seconds[SLOW] *= (1 + outside * (more - 1))[:, None]
        return SurfaceTimes(np.sort(seconds, axis=0), outside)

    def assumptions(self, machine: str, times: SurfaceTimes) -> tuple[Assumption, ...]:
        """Assumptions of a prediction by this surface."""
        found = []
        if self.synthetic:
            found.append(
                Assumption(
                    "surface", f"{machine}: has no measured MultiMAPS surface, one is derived from its other figures"
                )
            )
        seconds = times.seconds[TYPICAL].sum(axis=1)
        share = float((seconds * times.outside).sum() / max(seconds.sum(), 1e-300))
        if share >= _NOTABLE_SHARE:
            less, more = BEYOND
            found.append(
                Assumption(
                    "beyond_surface",
                    f"{share:.0%} of the memory time is read off the surface outside of its measured hit rates; "
                    f"{less:g} to {more:g} times that is assumed",
                )
            )
        return tuple(found)

    def _access_sizes(self, movement: Movement) -> npt.NDArray[np.int64]:
        """The access sizes that a movement was measured with, ascending; of all movements if it was not."""
        keys = [plane.key for plane in self.planes]
        return np.unique(
            [key.access_bytes for key in keys if key.movement is movement] or [k.access_bytes for k in keys]
        )

    def _plane(self, movement: Movement, access_bytes: int, stride_bytes: int) -> _Plane:
        """The plane nearest in access size, then in stride; of one movement if that was measured."""
        return min(
            self.planes,
            key=lambda plane: (
                plane.key.movement is not movement,
                abs(np.log2(plane.key.access_bytes / access_bytes)),
                abs(np.log2(plane.key.stride_bytes / stride_bytes)),
            ),
        )


@dataclass(frozen=True, slots=True, eq=False)
class SurfaceTimes:
    """`seconds` [3, operations, levels + 1]; `outside` [operations]: share of the accesses outside the surface."""

    seconds: Floats
    outside: Floats


def _key(point: SurfacePoint) -> _Key:
    return _Key(point.movement, point.access_bytes, point.stride_bytes)


def _plane(key: _Key, points: Sequence[SurfacePoint]) -> _Plane:
    shares = np.diff(np.array([[0.0, *point.hit_rates, 1.0] for point in points]), axis=1)
    times = np.array([point.access_bytes / point.bandwidth_bytes_per_s for point in points])
    level_s = _non_negative_fit(shares / times[:, None], np.ones(len(times)))
    most = shares.max(axis=0)
    level_s[most <= _SLACK / 4] = np.nan
    misfit = np.sqrt(np.mean((shares @ _filled(level_s) / times - 1) ** 2))
    return _Plane(key, level_s, most, max(float(misfit), _LEAST_RESIDUAL))


def _filled(level_s: Floats) -> Floats:
    """Times by level; a level that was not measured takes the time of the next one inward."""
    known = np.where(np.isnan(level_s), 0.0, level_s)
    return np.asarray(np.where(np.isnan(level_s), np.maximum.accumulate(known), level_s), np.float64)


def _non_negative_fit(matrix: Floats, target: Floats) -> Floats:
    """The non-negative least-squares solution. Few columns: every set of positive ones is tried."""
    columns = matrix.shape[1]
    best, least = np.zeros(columns), np.inf
    for size in range(1, columns + 1):
        for chosen in itertools.combinations(range(columns), size):
            found = np.linalg.lstsq(matrix[:, chosen], target, rcond=None)[0]
            error = float(((matrix[:, chosen] @ found - target) ** 2).sum())
            if (found >= 0).all() and error < least * (1 - 1e-12):
                best, least = np.zeros(columns), error
                best[list(chosen)] = found
    return best


def synthetic_points(
    cache_bytes: Sequence[float],
    line_bytes: float,
    times_s: Callable[[OperationArrays, npt.NDArray[np.float64]], Floats],
) -> tuple[SurfacePoint, ...]:
    """MultiMAPS sweeps, one through a working set in each level, predicted.

    Args:
        cache_bytes: capacities [levels].
        line_bytes: of the nearest cache.
        times_s: the time of each of some operations, [operations], from the accesses by the level that serves them.
    """
    levels = len(cache_bytes)
    sets = [0.5 * cache_bytes[0], *(0.75 * size for size in cache_bytes[1:]), 4.0 * cache_bytes[-1]]
    sweeps = [
        (movement, stride, level)
        for movement in (Movement.LOAD, Movement.STORE)
        for stride in SYNTHETIC_STRIDES_BYTES
        for level in range(levels + 1)
    ]
    count = len(sweeps)
    executions = np.full(count, 1e6)
    strides = np.array([stride for _, stride, _ in sweeps], np.float64)
    served = np.zeros((count, levels + 1))
    new_lines = np.minimum(strides / line_bytes, 1)
    level_of = np.array([level for _, _, level in sweeps])
    served[np.arange(count), level_of] = np.where(level_of > 0, new_lines, 1) * executions
    served[:, 0] = executions - served[:, 1:].sum(axis=1)
    is_unit = strides == SYNTHETIC_ACCESS_BYTES
    operations = OperationArrays(
        region=np.arange(count),
        executions=executions,
        access_bytes=np.full(count, float(SYNTHETIC_ACCESS_BYTES)),
        range_bytes=np.array([sets[level] for level in level_of]),
        is_store=np.array([movement is Movement.STORE for movement, _, _ in sweeps]),
        self_dependent=np.zeros(count, np.bool_),
        repeated=np.zeros(count),
        unit_stride=np.where(is_unit, executions, 0),
        strided=np.where(is_unit, 0, executions),
        irregular=np.zeros(count),
        sparse=np.full((count, 2), np.nan),
    )
    seconds = times_s(operations, served) / executions
    return tuple(
        SurfacePoint(
            movement=movement,
            working_set_bytes=int(sets[level]),
            stride_bytes=stride,
            access_bytes=SYNTHETIC_ACCESS_BYTES,
            hit_rates=tuple(np.cumsum(served[index, :-1] / executions[index]).tolist()),
            bandwidth_bytes_per_s=SYNTHETIC_ACCESS_BYTES / float(seconds[index]),
            source="synthetic",
        )
        for index, (movement, stride, level) in enumerate(sweeps)
    )
