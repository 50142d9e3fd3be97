"""Walks by a power of two: how often they miss, and that what misses in one set takes turns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from traces import trace_binary

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.reuse.model import misses_from_reuse
from foretrace.profiles.library import find
from foretrace.replay.base.records import Bound
from foretrace.replay.limits.set_conflicts import set_turns
from foretrace.replay.memory.hit_rates import misses_on
from foretrace.replay.prediction.predict import predict
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.records import Signature

WALK = r"""
#include <stdlib.h>
typedef struct { double a, b; } pair;
__attribute__((noinline)) void in(const char *x, pair *y, int n, long stride) {
    for (int k = 0; k < n; k++) y[k] = *(const pair *)(x + k * stride);
}
__attribute__((noinline)) void out(char *x, const pair *y, int n, long stride) {
    for (int k = 0; k < n; k++) *(pair *)(x + k * stride) = y[k];
}
int main(int argc, char **argv) {
    const long stride = atol(argv[1]);
    const int n = atoi(argv[2]), columns = atoi(argv[3]);
    static pair y[1024];
    char *x = aligned_alloc(1 << 16, (stride * n + columns * 16 + 0xffff) & ~0xffffL);
    for (int turn = 0; turn < 16; turn++)
        for (int c = 0; c < columns; c++) { in(x + 16 * c, y, n, stride); out(x + 16 * c, y, n, stride); }
    return 0;
}"""
"""A column of a matrix of pairs after the other, copied into a row and back: what a Fourier transform along the last
dimension does."""
HOST = "epyc-7763"  # 32 KiB of 8 ways, 512 KiB of 8
CACHES = Hierarchy.parse("L1=32K/8/64,L2=512K/8/64,L3=32M/16/64")


@pytest.fixture(scope="module")
def walk(compile_c: Callable[..., Path]) -> Callable[..., Signature]:
    program = str(compile_c(WALK, "-O2"))

    @functools.cache
    def traced(stride: int, lines: int, columns: int) -> Signature:
        return trace_binary([program, *map(str, (stride, lines, columns))], [CACHES]).signature

    return traced


def _of(signature: Signature, functions: Sequence[str], figures: np.ndarray) -> np.ndarray:
    chosen = [signature.blocks[operation.block_id].function in functions for operation in signature.operations]
    return figures[chosen].sum(axis=0)


@pytest.mark.parametrize(
    ("stride", "lines", "columns"),
    [(65536, 64, 256), (65600, 64, 256), (4096, 64, 256), (4160, 64, 256), (1024, 64, 256)],
)
def test_distances_tell_what_a_simulation_does(walk, stride, lines, columns):
    """Misses of the two functions, each level's, within 3 % of their accesses."""
    signature = walk(stride, lines, columns)
    executions = np.array([operation.executions for operation in signature.operations], np.float64)
    unit = np.array([operation.unit_stride for operation in signature.operations]) / np.maximum(executions, 1)
    estimated = _of(signature, ("in", "out"), misses_from_reuse(signature.reuse, CACHES, executions, unit))
    [simulated] = [one.misses for one in signature.hierarchies]
    accesses = _of(signature, ("in", "out"), executions)
    assert estimated == pytest.approx(_of(signature, ("in", "out"), simulated), abs=0.03 * accesses)


@pytest.mark.parametrize(("stride", "sets"), [(65536, 1), (4096, 1), (1024, 4), (4160, None)])
def test_conflicts_are_counted_by_the_sets_that_they_are_in(walk, stride, sets):
    """Of the accesses to a line, four in a row of columns, the first one misses anyway."""
    signature = walk(stride, 64, 256)
    workload = Workload.of(signature)
    turns = float(_of(signature, ("in", "out"), set_turns(workload, misses_on(signature, find(HOST)))))
    accesses = 2 * 16 * 256 * 64
    if sets is None:
        assert turns < 0.05 * accesses
    else:
        assert 0.4 * accesses / sets < turns < 1.1 * accesses / sets


def test_a_walk_through_a_set_is_bound_by_the_next_cache(walk):
    """Where those of a stream overlap, its misses take turns; without sets in the way, the same walk does not."""
    host = find(HOST)
    slow, fast = (predict(walk(stride, 64, 256), host) for stride in (65536, 65600))
    for function in ("in", "out"):
        [one], [other] = (
            [loop for loop in found.loops if loop.place.function == function and loop.iterations > 10_000]
            for found in (slow, fast)
        )
        assert one.bound_by is Bound.CACHE_LATENCY
        assert one.time_s > 3 * other.time_s
        assert one.low_s < 0.7 * one.time_s  # a core may keep what it loaded


def test_nothing_is_known_without_distances(walk):
    signature = replace(walk(4096, 64, 256), reuse=None)
    assert not set_turns(Workload.of(signature), misses_on(walk(4096, 64, 256), find(HOST))).any()
