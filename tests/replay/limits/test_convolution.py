"""The time of a region on a machine: hand-worked cases, and what must hold for any program."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_samples import CACHES, Program, measured_host, published_host, with_changes

from foretrace.base.errors import PredictionError
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.reuse.results import ReuseHistograms
from foretrace.profiles.profile import BandwidthPoint, Memory, Pattern
from foretrace.replay.base.records import Bound
from foretrace.replay.prediction.predict import predict
from foretrace.tracer.signature.records import InterpreterTime, OperationKind

NS = 1e-9


def only_region(signature, profile=None):
    (region,) = predict(signature, profile or measured_host()).loops
    return region


def test_stream_from_memory_takes_its_bytes_over_the_measured_bandwidth():
    """Carrington et al., ICS'11, equation 1: 1000 references of 8 bytes at 2 GB/s, one in 8 missing."""
    program = Program()
    block = program.loop(1000)
    program.access(block, 1000, (125, 125))
    assert only_region(program.signature()).memory_s == pytest.approx(1000 * 8 / 2e9)


def test_stream_from_second_level_takes_its_bytes_over_that_bandwidth():
    program = Program()
    block = program.loop(1000)
    program.access(block, 1000, (125, 0))
    region = only_region(program.signature())
    assert region.memory_s == pytest.approx(1000 * 8 / 6.4e9)
    assert region.bound_by is Bound.PORTS  # 1000 slots of 1 ns against 250 ns for lines


def test_stride_that_wastes_lines_pays_for_whole_lines():
    program = Program()
    block = program.loop(1000)
    program.access(block, 1000, (1000, 1000), pattern="strided")
    slot, line = 1 * NS, (32 - 8) * NS
    assert only_region(program.signature()).memory_s == pytest.approx(1000 * (slot + line))


def test_hits_and_misses_at_random_are_told_apart_in_the_measured_points():
    """4 KiB at random was measured at 3.25 ns: a quarter hits the first level, 1 ns, the others take 4 ns."""
    program = Program()
    block = program.loop(1000)
    program.access(block, 1000, (800, 0), pattern="irregular")
    assert only_region(program.signature()).memory_s == pytest.approx((200 * 1 + 800 * 4) * NS)


def test_pointer_chase_takes_the_latency_of_each_level():
    program = Program()
    block = program.loop(1000)
    program.access(block, 1000, (300, 100), pattern="irregular", self_dependent=True)
    region = only_region(program.signature())
    assert region.memory_s == pytest.approx((700 * 4 + 200 * 10 + 100 * 100) * NS)
    assert region.bound_by is Bound.MEMORY_LATENCY


def test_store_to_memory_also_writes_its_line_back():
    program = Program()
    block = program.loop(1000)
    program.access(block, 1000, (125, 125), is_store=True)
    assert only_region(program.signature()).memory_s == pytest.approx(2 * 4000 * NS, rel=1e-6)


def test_compute_and_memory_overlap_as_in_skope():
    """Two arithmetic instructions an iteration: half of the shorter time is hidden."""
    program = Program()
    block = program.loop(1000, instructions=2, computes=[(OperationKind.FP_MUL, 1), (OperationKind.INT_ALU, 1)])
    program.access(block, 1000, (125, 125))
    region = only_region(program.signature())
    assert region.compute_s == pytest.approx(2000 * NS)
    assert region.overlap_s == pytest.approx(1000 * NS)
    assert region.time_s == pytest.approx(5000 * NS)
    assert region.low_s == pytest.approx(4000 * NS)
    assert region.high_s >= 6000 * NS
    assert region.bound_by is Bound.MEMORY_BANDWIDTH


@pytest.mark.parametrize(
    ("computes", "lanes", "cycles", "bound"),
    [
        ([(OperationKind.FP_MUL, 3)], 1, 3, Bound.COMPUTE),
        ([(OperationKind.FP_DIV, 1)], 1, 10, Bound.DIVIDE),
        ([(OperationKind.INT_DIV, 1)], 1, 20, Bound.DIVIDE),
        ([(OperationKind.FP_ADD, 1)], 1, 3, Bound.CHAIN),  # a sum: nothing is stored
        ([(OperationKind.FP_ADD, 4)], 4, 8, Bound.COMPUTE),  # adds alone use half of 4 flops a cycle
        ([(OperationKind.FP_ADD, 4), (OperationKind.FP_MUL, 4)], 4, 8, Bound.COMPUTE),
        ([(OperationKind.MOVE, 14)], 1, 7, Bound.ISSUE),
    ],
)
def test_compute_time_is_the_tightest_limit(computes, lanes, cycles, bound):
    program = Program()
    program.loop(1000, instructions=sum(c for _, c in computes), computes=computes, lanes=lanes)
    wide = measured_host()
    wide = with_changes(wide, core=with_changes(wide.core, issue_width_instructions_per_cycle=2.0))
    region = only_region(program.signature(), wide)
    assert region.compute_s == pytest.approx(1000 * cycles * NS)
    assert region.bound_by is bound


def test_sum_that_is_stored_each_time_is_no_chain():
    program = Program()
    block = program.loop(1000, instructions=1, computes=[(OperationKind.FP_ADD, 1)])
    program.access(block, 1000, is_store=True, size=8)
    assert only_region(program.signature()).bound_by is not Bound.CHAIN


def test_branch_that_goes_both_ways_costs_its_rarer_side():
    program = Program()
    head = program.loop(1000, instructions=1)
    other = program.block(300, loop_id=0)
    program.edges = [(head, head, 700), (head, other, 300), (other, head, 300)]
    assert only_region(program.signature()).compute_s == pytest.approx((1000 + 300 * 10) * NS)


@pytest.mark.parametrize(
    ("inside", "ends", "missed"), [(600, 200, 0), (610, 200, 200), (6400, 200, 0), (6600, 200, 200)]
)
def test_a_loop_that_always_runs_as_often_is_foreseen(inside: int, ends: int, missed: int):
    program = Program()
    head = program.loop(inside + ends, entries=ends, instructions=1)
    after = program.block(ends, loop_id=0)
    program.edges = [(head, head, inside), (head, after, ends)]
    assert only_region(program.signature()).compute_s == pytest.approx((inside + ends + missed * 10) * NS)


def test_return_to_many_callers_is_predicted():
    program = Program()
    block = program.block(1000, computes=[(OperationKind.RETURN, 1)])
    callers = [program.block(500, function=f"caller{i}") for i in range(2)]
    program.edges = [(block, caller, 500) for caller in callers]
    assert all(region.compute_s == 0 for region in predict(program.signature(), measured_host()).loops)


def test_python_takes_a_time_for_each_bytecode_and_each_array_call():
    program = Program()
    program.block(1000, instructions=5, computes=[(OperationKind.BYTECODE, 5)], file="app.py")
    block = program.loop(10_000, entries=20, kind="array", file="app.py")
    program.access(block, 10_000)
    regions = {str(region.kind): region for region in predict(program.signature(), measured_host()).loops}
    of_bytecode_s = 1.65 * 50e-9 / 3.8  # a line of the calibration has 3.8, of cheap kinds
    assert regions["function"].python_s == pytest.approx(1000 * 5 * of_bytecode_s)
    assert regions["function"].compute_s == 0
    assert regions["array"].python_s == pytest.approx(20 * 1e-6)
    assert regions["function"].bound_by is Bound.PYTHON


def test_prediction_is_the_sum_of_its_regions():
    program = Program()
    for executions in (1000, 300, 7):
        block = program.loop(executions, instructions=3)
        program.access(block, executions, (executions, executions), pattern="irregular")
    program.block(5, instructions=9)
    prediction = predict(program.signature(), measured_host())
    assert prediction.time_s == pytest.approx(sum(r.time_s for r in prediction.loops), rel=1e-12)
    assert sum(r.share for r in prediction.loops) == pytest.approx(1)
    assert [r.time_s for r in prediction.loops] == sorted((r.time_s for r in prediction.loops), reverse=True)
    assert prediction.low_s <= prediction.time_s <= prediction.high_s


def test_hit_rates_are_those_of_the_same_geometry_whatever_its_name():
    program = Program()
    block = program.loop(1000)
    program.access(block, 1000, (250, 100))
    rates = predict(program.signature(replace(CACHES, name="other")), measured_host()).hit_rates
    assert str(rates.source) == "simulated"
    assert [level.hit_rate for level in rates.levels] == pytest.approx([0.75, 0.6])


def test_other_geometry_without_reuse_distances_is_refused():
    program = Program()
    block = program.loop(1000)
    program.access(block, 1000)
    signature = program.signature(Hierarchy.parse("L1=2K/2/64,L2=8K/4/64"))
    with pytest.raises(PredictionError, match=r"measured.*were not simulated.*no reuse distances.*trace again"):
        predict(signature, measured_host())


# ---- what the profile does not give


def test_memory_of_which_nothing_is_known_is_refused():
    program = Program()
    program.loop(10, instructions=1)
    with pytest.raises(PredictionError, match="tells neither bandwidth nor latency of main memory"):
        predict(program.signature(), published_host())


def test_missing_clock_is_refused():
    program = Program()
    program.loop(10, instructions=1)
    with pytest.raises(PredictionError, match=r"core\.clock_hz is missing"):
        predict(program.signature(), with_changes(measured_host(), core=None))


@pytest.mark.parametrize(
    "memory", [{"latency_s": 80e-9}, {"peak_bandwidth_bytes_per_s": 10e9}, {"core_read_bandwidth_bytes_per_s": 3e9}]
)
def test_published_figures_suffice_but_each_gap_is_named_and_widens_the_interval(memory):
    program = Program()
    block = program.loop(1000, instructions=4, computes=[(OperationKind.FP_ADD, 1)])
    program.access(block, 1000, (125, 125))
    program.access(block, 1000, (900, 500), pattern="irregular")
    signature = program.signature()
    wide = predict(signature, published_host(memory=Memory(source={}, **memory)))
    narrow = predict(signature, measured_host())
    names = {assumption.name for assumption in wide.assumptions}
    assert {"issue_width_instructions_per_cycle", "loads_per_cycle", "outstanding_misses", "flops"} <= names
    assert {"bandwidth_L2", "L1 latency_s"} <= names
    assert not {"int_div_interval_cycles", "python_bytecode"} & names  # of no matter to this program
    assert wide.high_s / wide.low_s > narrow.high_s / narrow.low_s
    assert narrow.assumptions == ()


def test_measured_noise_widens_the_interval():
    program = Program()
    block = program.loop(1000)
    program.access(block, 1000, (125, 125))
    quiet = measured_host()
    noisy = with_changes(quiet, bandwidth=tuple(with_changes(p, noise=0.2) for p in quiet.bandwidth))
    assert predict(program.signature(), noisy).high_s > predict(program.signature(), quiet).high_s
    assert predict(program.signature(), noisy).low_s < predict(program.signature(), quiet).low_s


def test_range_beyond_what_was_measured_is_said():
    program = Program()
    block = program.loop(1000)
    program.access(block, 1000, (900, 900), pattern="irregular", length=1 << 30)
    assert "beyond_measurement" in {a.name for a in predict(program.signature(), measured_host()).assumptions}


def test_random_accesses_to_memory_cost_what_was_measured_at_their_range():
    extra = BandwidthPoint(1 << 26, Pattern.RANDOM, 8, 8 / 150e-9, "here")
    host = measured_host(bandwidth=(*measured_host().bandwidth, extra))

    def memory_s(length):
        program = Program()
        block = program.loop(1000)
        program.access(block, 1000, (1000, 1000), pattern="irregular", length=length)
        return only_region(program.signature(), host).memory_s

    assert memory_s(1 << 26) == pytest.approx(150e-6, rel=0.01)
    assert memory_s(1 << 20) == pytest.approx(50e-6, rel=0.01)
    assert memory_s(1 << 20) < memory_s(1 << 23) < memory_s(1 << 26)


# ---- how the run was


def test_incomplete_signature_is_flagged():
    program = Program()
    program.loop(10, instructions=1)
    prediction = predict(program.signature(complete=False, incomplete_reason="interrupted"), measured_host())
    assert not prediction.complete
    assert any("incomplete (interrupted)" in warning for warning in prediction.warnings)


def test_what_was_not_seen_is_said_and_widens_the_interval():
    program = Program()
    program.loop(10, instructions=1)
    clean = predict(program.signature(), measured_host())
    murky = predict(program.signature(decoded_share=0.5, unseen_calls=3, threads=2), measured_host())
    assert murky.high_s == pytest.approx(2 * clean.high_s + 3 * 1.5e-6)
    assert len(murky.warnings) == 3


def test_python_that_was_timed_takes_its_lines_and_hides_what_its_accesses_take():
    program = Program()
    block = program.loop(1000, instructions=5, computes=[(OperationKind.BYTECODE, 5)], file="app.py")
    program.access(block, 1000, (1000, 1000), pattern="strided", length=1 << 16)
    program.interpreter_times = [InterpreterTime(block, 7.0, 2.0)]
    signature = program.signature(guest="python", unseen_calls=4)
    found = predict(signature, measured_host(memory=Memory(source={}, first_touch_page_s=1e-3)))
    (region,) = found.loops
    assert region.python_s == pytest.approx(7000 * 50e-9)
    assert region.overlap_s == pytest.approx(region.memory_s + region.compute_s)
    assert region.memory_s > 0
    assert found.time_s == pytest.approx(7000 * 50e-9)  # without first touches of pages, nor calls unseen
    assert found.low_s == pytest.approx(0.85 * 6 / 7 * found.time_s)  # recording may have added half as much
    assert found.high_s == pytest.approx(1.2 * 8 / 7 * found.time_s)
    (timed,) = (a for a in found.assumptions if a.name == "python_timed")
    assert "100% of the time" in timed.text
    assert "50 ns" in timed.text
    assert not any("compiled code" in warning for warning in found.warnings)
    published = predict(signature, published_host(memory=Memory(source={}, peak_bandwidth_bytes_per_s=2e9)))
    assert published.high_s > 3 * published.low_s
    assert any(a.name == "python_line" for a in published.assumptions)


def test_what_takes_very_long_is_less_certain():
    found = {}
    for lines in (1000.0, 200_000.0):
        program = Program()
        block = program.loop(1, instructions=5, computes=[(OperationKind.BYTECODE, 5)], file="app.py")
        program.interpreter_times = [InterpreterTime(block, lines, 0.0)]
        found[lines] = predict(program.signature(guest="python"), measured_host())
    short, long = found.values()
    assert long.time_s == pytest.approx(200 * short.time_s)
    assert long.low_s / long.time_s == pytest.approx(0.5 * short.low_s / short.time_s)
    assert long.high_s / long.time_s == pytest.approx(1.1 * short.high_s / short.time_s)
    assert "python_long" in {assumption.name for assumption in long.assumptions}
    assert "python_long" not in {assumption.name for assumption in short.assumptions}


def test_lines_that_were_not_measured_follow_from_lines_of_plain_numbers():
    program = Program()
    block = program.loop(1000, instructions=5, computes=[(OperationKind.BYTECODE, 5)], file="app.py")
    program.interpreter_times = [InterpreterTime(block, 7.0, 2.0)]
    host = measured_host()
    found = predict(
        program.signature(guest="python"),
        msgspec.structs.replace(host, core=msgspec.structs.replace(host.core, python_line_s=None)),
    )
    assert found.time_s == pytest.approx(7000 * 5.9 * 50e-9)
    assert any(a.name == "python_line" for a in found.assumptions)


def test_pages_that_arrays_had_mapped_are_in_the_time():
    program = Program()
    block = program.loop(1000, instructions=5, computes=[(OperationKind.BYTECODE, 5)], file="app.py")
    program.interpreter_times = [InterpreterTime(block, 7.0, 2.0, 3.0)]
    host = measured_host(memory=Memory(source={}, first_touch_page_s=1e-6))
    found = predict(program.signature(guest="python"), host)
    assert found.loops[0].pages_s == pytest.approx(3000 * 1e-6)
    assert found.time_s == pytest.approx(7000 * 50e-9 + 3000 * 1e-6)


def test_what_a_python_trace_cannot_hold_is_said():
    program = Program()
    program.block(1000, computes=[(OperationKind.BYTECODE, 5)], file="app.py")
    (warning,) = predict(program.signature(guest="python"), measured_host()).warnings
    assert "starting the interpreter" in warning


def test_a_program_for_another_instruction_set_is_predicted_with_a_wider_interval_that_says_why():
    program = Program()
    program.loop(10, instructions=1000)
    same = predict(program.signature(guest="aarch64"), measured_host(instruction_set="aarch64"))
    unknown = predict(program.signature(guest="aarch64"), measured_host())
    foreign = predict(program.signature(guest="aarch64"), measured_host(instruction_set="x86_64"))
    assert (unknown.low_s, unknown.high_s) == (same.low_s, same.high_s)
    assert not any(a.name == "instruction_set" for a in (*same.assumptions, *unknown.assumptions))
    assert foreign.time_s == pytest.approx(same.time_s)
    assert foreign.low_s == pytest.approx(0.78 * same.low_s)
    assert foreign.high_s == pytest.approx(1.28 * same.high_s)
    (assumption,) = (a for a in foreign.assumptions if a.name == "instruction_set")
    assert "compiled for aarch64, the machine runs x86_64" in assumption.text
    python = predict(program.signature(guest="python"), measured_host(instruction_set="x86_64"))
    assert not any(a.name == "instruction_set" for a in python.assumptions)


def test_signature_without_blocks_is_refused():
    with pytest.raises(PredictionError, match="no basic block"):
        predict(Program().signature(), measured_host())


# ---- for any program

counts = st.integers(0, 10_000)


@st.composite
def programs(draw):
    """Some loops with some accesses, and misses that fit."""
    program = Program()
    for _ in range(draw(st.integers(1, 4))):
        iterations = draw(st.integers(1, 10_000))
        kinds = st.sampled_from([k for k in OperationKind if k is not OperationKind.BYTECODE])
        computes = draw(st.lists(st.tuples(kinds, st.integers(1, 5)), max_size=4))
        block = program.loop(iterations, instructions=draw(st.integers(0, 20)), computes=computes)
        for _ in range(draw(st.integers(0, 3))):
            executions = draw(st.integers(1, 10_000))
            first = draw(st.integers(0, executions))
            program.access(
                block,
                executions,
                (first, draw(st.integers(0, first))),
                size=draw(st.sampled_from([1, 4, 8, 16, 32, 64, 200])),
                length=draw(st.integers(1, 1 << 30)),
                pattern=draw(st.sampled_from(["repeated", "unit_stride", "strided", "irregular"])),
                is_store=draw(st.booleans()),
                self_dependent=draw(st.booleans()),
            )
    return program


NEW_PAGES = {"source": {}, "first_touch_page_s": 1e-30}  # cost nothing: they do not grow with the work
hosts = st.sampled_from(
    [
        measured_host(),
        published_host(memory=Memory(**NEW_PAGES, latency_s=80e-9)),
        published_host(
            memory=Memory(**NEW_PAGES, core_read_bandwidth_bytes_per_s=3e9), issue_width_instructions_per_cycle=4
        ),
        published_host(memory=Memory(**NEW_PAGES, peak_bandwidth_bytes_per_s=1e10), outstanding_misses=8.0),
    ]
)


@settings(max_examples=examples(60))
@given(programs(), hosts)
def test_interval_holds_the_time_and_the_regions_add_up(program, host):
    prediction = predict(program.signature(), host)
    assert 0 <= prediction.low_s <= prediction.time_s <= prediction.high_s < float("inf")
    for region in prediction.loops:
        assert region.low_s <= region.time_s * (1 + 1e-12)
        assert region.time_s <= region.high_s * (1 + 1e-12)
        parts = region.compute_s + region.memory_s - region.overlap_s + region.python_s + region.pages_s
        assert region.time_s == pytest.approx(parts, abs=1e-18)


@settings(max_examples=examples(60))
@given(programs(), hosts, st.data())
def test_more_misses_are_never_faster(program, host, data):
    before = predict(program.signature(), host)
    for index, operation in enumerate(program.operations):
        first = data.draw(st.integers(int(program.misses[index][0]), operation.executions))
        last = data.draw(st.integers(min(int(program.misses[index][1]), first), first))
        program.misses[index] = (first, max(last, int(program.misses[index][1])))
    after = predict(program.signature(), host)
    assert after.time_s >= before.time_s * (1 - 1e-12)
    assert after.low_s >= before.low_s * (1 - 1e-12)
    assert after.high_s >= before.high_s * (1 - 1e-12)


@settings(max_examples=examples(30))
@given(programs(), hosts, st.integers(2, 9))
def test_doing_all_of_it_several_times_takes_as_many_times_as_long(program, host, factor):
    once = predict(program.signature(), host).time_s
    program.blocks = [msgspec.structs.replace(b, executions=b.executions * factor) for b in program.blocks]
    program.loops = [msgspec.structs.replace(v, iterations=v.iterations * factor) for v in program.loops]
    program.misses = [tuple(m * factor for m in misses) for misses in program.misses]
    program.operations = [
        msgspec.structs.replace(
            op,
            executions=op.executions * factor,
            total_bytes=op.total_bytes * factor,
            **{name: getattr(op, name) * factor for name in ("repeated", "unit_stride", "strided", "irregular")},
        )
        for op in program.operations
    ]
    assert predict(program.signature(), host).time_s == pytest.approx(factor * once)


def test_misses_never_grow_outwards():
    program = Program()
    block = program.loop(100)
    program.access(block, 100, (10, 50))  # no cache does this; a foreign signature may
    levels = predict(program.signature(), measured_host()).hit_rates.levels
    assert [level.misses for level in levels] == [10, 10]
    assert np.isfinite(levels[1].hit_rate)


def test_caches_that_were_not_simulated_are_estimated_from_reuse_distances():
    """A loop over some 56 lines, each touched again after all others: it misses L1 (16 lines), hits L2 (128)."""
    program = Program()
    block = program.loop(10_000)
    program.access(block, 10_000, (0, 0), size=64, pattern="strided", length=6400)
    edges = np.array([0.0, 1.0, 2.0, 4.0, np.inf])
    reuse = ReuseHistograms(
        accesses=10_000,
        bursts=1,
        burst_accesses=10_000,
        sampling_rate=1.0,
        sampled_blocks=14,
        bin_edges=edges,
        operation=np.zeros(4, dtype=np.uint32),
        line_bytes=np.full(4, 64, dtype=np.uint16),
        way=np.array([1, 1, 4, 4], dtype=np.uint8),  # from 2 KB on there is room for all but the first uses
        bin=np.full(4, 4, dtype=np.uint16),
        count=np.array([9900, 100, -9900, 0]),
        errors=np.zeros((4, 21, len(edges))),
    )
    signature = replace(program.signature(), hierarchies=(), reuse=reuse)
    rates = predict(signature, measured_host()).hit_rates
    assert str(rates.source) == "estimated from reuse distances"
    first, second = rates.levels
    assert first.hit_rate == pytest.approx(0, abs=0.01)
    assert second.misses == 100
    assert rates.relative_error == 0
    noisy = replace(signature, reuse=replace(reuse, errors=np.full((4, 21, len(edges)), 500.0)))
    assert predict(noisy, measured_host()).hit_rates.relative_error == 5
    assert predict(noisy, measured_host()).high_s > predict(signature, measured_host()).high_s
    assert predict(noisy, measured_host()).low_s < predict(signature, measured_host()).low_s
