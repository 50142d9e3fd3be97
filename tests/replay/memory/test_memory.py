"""What the model makes of memory: caches that others share, translation, and lines that come with their neighbours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from core_samples import ITERATIONS, instruction, loop_of
from replay_samples import CACHES, Program, measured_host, published_host, with_changes

from foretrace.profiles.hierarchies import effective_bytes
from foretrace.profiles.points import Movement, PrefetchPoint, SurfacePoint
from foretrace.profiles.profile import Memory
from foretrace.replay.base.records import HitSource
from foretrace.replay.figures.machine_figures import figures_of
from foretrace.replay.limits.convolution import irregular_shares
from foretrace.replay.limits.page_faults import in_huge_pages
from foretrace.replay.memory.hit_rates import Misses, misses_on
from foretrace.replay.memory.shared_cache import held_bytes, most_bytes, others_bytes_per_s
from foretrace.replay.prediction.core_regions import operation_costs
from foretrace.replay.workload.workload import Workload

SIZE = CACHES.levels[-1].size_bytes


def misses_of(lines: float) -> Misses:
    """A program that brings so many lines into the last cache."""
    column = np.array([lines])
    return Misses(CACHES, HitSource.SIMULATED, column, np.column_stack([column, column]), 0.0, ())


def test_a_fast_stream_holds_more_of_a_shared_cache_than_a_slow_one():
    others = 64 * 1e6

    def held(time_s: float) -> float:
        return held_bytes(CACHES, others, SIZE, lambda _: misses_of(1e6), lambda _: time_s)

    assert held(1.0) == pytest.approx(SIZE / 2)  # as fast as the others
    assert held(1 / 9) == pytest.approx(0.9 * SIZE)
    assert held(9.0) == pytest.approx(0.1 * SIZE)
    assert held_bytes(CACHES, 0.0, SIZE, lambda _: misses_of(1e6), lambda _: 1.0) == SIZE


def test_no_program_holds_more_than_the_fastest_streams():
    assert held_bytes(CACHES, 64e6, SIZE / 2, lambda _: misses_of(1e6), lambda _: 1e-9) == pytest.approx(SIZE / 2)
    assert held_bytes(CACHES, 64e6, SIZE / 2, lambda _: misses_of(1e6), lambda _: 1.0) == pytest.approx(SIZE / 4)


def test_what_is_lost_slows_a_program_which_then_loses_more():
    """It takes three times as long once it holds less than half, and then holds a quarter."""
    seen = []

    def misses_if(held: float) -> Misses:
        seen.append(held)
        return misses_of(1e6)

    def time_s(_: Misses) -> float:
        return 3.0 if seen[-1] < 0.6 * SIZE else 1.0

    assert held_bytes(CACHES, 64e6, SIZE, misses_if, time_s) == pytest.approx(SIZE / 4)


def test_stores_a_line_apart_tell_what_writing_back_takes():
    line = CACHES.levels[0].line_bytes
    surface = tuple(
        SurfacePoint(movement, size, line, 8, (0.0, hit), 8 / time_s, "here")
        for size, hit, times in ((SIZE // 2, 1.0, (2e-9, 3e-9)), (64 * SIZE, 0.0, (30e-9, 45e-9)))
        for movement, time_s in zip((Movement.LOAD, Movement.STORE), times, strict=True)
    )
    found = figures_of(measured_host(surface=surface), CACHES).memory.write_back_s
    assert found[1] == pytest.approx([0, 1e-9, 15e-9])
    assumed = figures_of(measured_host(), CACHES).memory.write_back_s
    assert assumed[1] == pytest.approx([0, 0, line / 2e9])  # as long as one from there


def test_others_fill_a_cache_as_dependent_loads_tell():
    host = measured_host()
    assert effective_bytes(host) is None
    assert others_bytes_per_s(host, 10e-9) == 0
    last = with_changes(host.caches[-1], effective_size_bytes=SIZE // 4, source={"effective_size_bytes": "here"})
    shared = with_changes(host, caches=(*host.caches[:-1], last))
    assert effective_bytes(shared) == SIZE // 4
    assert most_bytes(shared) == SIZE // 2  # not measured: halfway, as a ratio
    assert others_bytes_per_s(shared, 10e-9) == pytest.approx(64 / 10e-9)
    assert most_bytes(host) == SIZE
    source = last.source | {"effective_stream_size_bytes": "here"}
    for most, ratio in ((SIZE // 2, 1), (SIZE // 4, 0.05)):  # as much as dependent loads: few others
        streams = with_changes(last, effective_stream_size_bytes=most, source=source)
        part = with_changes(host, caches=(*host.caches[:-1], streams))
        assert most_bytes(part) == most
        assert others_bytes_per_s(part, 10e-9) == pytest.approx(ratio * 64 / 10e-9)


def test_how_long_lines_stay_tells_how_fast_others_bring_them_whatever_dependent_loads_get():
    host = measured_host()
    for figures in ({}, {"effective_size_bytes": SIZE // 4}):
        figures |= {"line_lifetime_s": 2e-3}
        last = with_changes(host.caches[-1], **figures, source=dict.fromkeys(figures, "here"))
        left_alone = with_changes(host, caches=(*host.caches[:-1], last))
        assert others_bytes_per_s(left_alone, 10e-9) == most_bytes(left_alone) / 2e-3


def test_no_more_of_a_cache_is_simulated_than_a_program_holds():
    program = Program()
    block = program.loop(1000)
    program.access(block, 1000, misses=(500, 100))
    whole = misses_on(program.signature(), measured_host())
    assert whole.source is HitSource.SIMULATED
    assert whole.misses.tolist() == [[500, 100]]


def test_a_stream_waits_for_some_lines_beside_streams_out_of_the_second_cache():
    def late(near_lines: int, far_of_near: int = 0, *, far: int = 1000) -> float:
        program = Program()
        block = program.loop(8000)
        program.access(block, 8000, misses=(far, far), length=64000)
        program.access(block, 8000, misses=(near_lines, far_of_near), length=64000)
        points = (PrefetchPoint(1.0, 0.99, "here"), PrefetchPoint(2.0, 0.98, "here"))
        host = with_changes(measured_host(), prefetch=points)
        workload = Workload.of(program.signature())
        misses = misses_on(workload.signature, host)
        return float(operation_costs(workload, misses, figures_of(host, CACHES), 1).irregular[0, -1])

    found = [late(lines) for lines in (0, 500, 1000)] + [late(900, far=600), late(1000, far=100)]
    assert found == pytest.approx([0, 0.005, 0.01, 0.015, 0.02])
    assert late(1000, 1000) == 0, "out of main memory as well"


def test_streams_behind_others_count_as_those_out_of_the_second_cache():
    """Rows of a stencil behind the first one are in the nearest cache, but not where they go over little memory."""

    def late(length: int, *, is_store: bool = False, pattern: str = "strided") -> float:
        accesses = [
            {"misses": (ITERATIONS, ITERATIONS), "pattern": "strided", "length": 1 << 20},
            {"misses": (0, 0), "pattern": pattern, "length": length, "is_store": is_store},
        ]
        second = {"store_operation": 1} if is_store else {"load_operation": 1}
        signature = loop_of(
            instruction("move", "", "r2", "r1", load_operation=0),
            instruction("move", "", "r3", "r1", **second),
            accesses=accesses,
        )
        points = (PrefetchPoint(1.0, 0.99, "here"),)
        host = with_changes(measured_host(), prefetch=points)
        workload = Workload.of(signature)
        misses = misses_on(workload.signature, host)
        return float(operation_costs(workload, misses, figures_of(host, CACHES), 1).irregular[0, -1])

    nearest = CACHES.levels[0].size_bytes
    assert late(2 * nearest) == pytest.approx(0.01, rel=0.01)
    assert late(nearest // 2) == 0
    assert late(2 * nearest, is_store=True) == 0
    assert late(2 * nearest, pattern="irregular") == pytest.approx(0, abs=1e-5)


def test_no_more_lines_stand_alone_than_there_are_irregular_accesses():
    """What was sampled says that a tenth of the lines stand alone, what was counted that few can."""
    program = Program()
    program.access(program.loop(8000), 8000, misses=(1000, 1000), length=64000)
    workload = Workload.of(program.signature())
    misses = misses_on(workload.signature, measured_host())

    def share(irregular: float) -> float:
        operations = replace(
            workload.operations,
            sparse=np.array([[0.1, 0.1]]),
            irregular=np.array([irregular]),
            unit_stride=workload.operations.unit_stride - irregular,
        )
        return float(irregular_shares(operations, misses, 64.0)[0, -1])

    assert [share(number) for number in (0, 20, 100, 4000)] == pytest.approx([0, 0.02, 0.1, 0.1], rel=0.01)


def test_fewer_pages_counted_than_touched_were_huge_ones():
    program = Program()
    block = program.loop(1000)
    program.access(block, 1000, misses=(900, 900), length=1 << 20, pattern="strided")
    workload = Workload.of(program.signature())
    memory = Memory(
        source={}, page_bytes=4096, huge_page_bytes=1 << 16, first_touch_page_s=1e-6, first_touch_huge_page_s=4e-6
    )
    pages = np.array([256.0])

    def told(counted: float) -> float:
        workload.totals.array_faults[:] = counted
        return float(in_huge_pages(workload, pages, memory)[0])

    assert told(0) == told(256) == told(300) == 256
    assert told(256 - 2 * 15) == pytest.approx(256 - 2 * 16 + 2 * 4)
    assert told(16) == told(1) == pytest.approx(16 * 4)
    assert in_huge_pages(workload, pages, None) is pages


def test_lines_wanted_with_their_neighbours_are_no_random_ones():
    program = Program()
    block = program.loop(1000)
    program.access(block, 1000, misses=(800, 0), pattern="irregular", length=1 << 20)
    workload = Workload.of(program.signature())
    operations, misses = workload.operations, misses_on(workload.signature, measured_host())
    assert np.isnan(operations.sparse).all()  # no reuse in this signature
    assert irregular_shares(operations, misses, 64.0).tolist() == [[1.0] * 3]
    operations.sparse[:] = 0.25
    assert irregular_shares(operations, misses, 64.0).tolist() == [[0.25] * 3]


def test_prefetchers_behind_the_nearest_cache_remember_more():
    program = Program()
    block = program.loop(1000)
    program.access(block, 1000, misses=(800, 400), pattern="irregular", length=1 << 20)
    workload = Workload.of(program.signature())
    workload.operations.sparse[:] = 0.5, 0.25
    found = irregular_shares(workload.operations, misses_on(workload.signature, measured_host()), 64.0)
    assert found.tolist() == [[0.5, 0.5, 0.25]], "of the second cache, and of main memory"


def test_strides_are_foreseen_in_time_for_caches_only():
    program = Program()
    block = program.loop(1000)
    program.access(block, 1000, misses=(999, 500), pattern="strided", length=1 << 20)
    workload = Workload.of(program.signature())
    workload.operations.sparse[:] = 1.0
    found = irregular_shares(workload.operations, misses_on(workload.signature, measured_host()), 64.0)
    assert found[0] == pytest.approx([0, 0, 1], abs=0.002)


def test_one_core_does_not_draw_the_peak_of_a_large_socket():
    def byte_s(peak_bytes_per_s: float) -> np.ndarray:
        source = {"peak_bandwidth_bytes_per_s": "here", "latency_s": "here"}
        memory = Memory(source=source, peak_bandwidth_bytes_per_s=peak_bytes_per_s, latency_s=100e-9)
        host = published_host(memory=memory, clock_hz=10e9)
        return figures_of(host, CACHES).memory.line_s[:, 0, -1] / 64

    assert byte_s(5e9) == pytest.approx([1 / 5e9, 2 / 5e9, 4 / 5e9])
    assert byte_s(500e9) == pytest.approx([100e-9 / (64 * lines) for lines in (48, 24, 12)])
