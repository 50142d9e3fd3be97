"""The core model: closed forms, causes, and what must hold for any program and machine."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from core_samples import ITERATIONS, WIDTH, instruction, loop_of, machine, with_path
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from replay_samples import Program, with_changes

from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.points import Operation, OperationCost
from foretrace.profiles.profile import LatencyPoint, Memory
from foretrace.replay.base.interval import CONVOLUTION_ERROR, combined, path_error
from foretrace.replay.base.records import Bound
from foretrace.replay.base.residuals import model_error_range
from foretrace.replay.core import _core_model
from foretrace.replay.core.program import BLOCK, BRANCH, INSTRUCTION, CoreProgram
from foretrace.replay.core.times import CORE, OPERATION
from foretrace.replay.core.wrong_path import ALL_DEPEND
from foretrace.replay.figures.machine_figures import figures_of
from foretrace.replay.prediction.predict import predict
from foretrace.replay.workload.workload import Workload

CYCLE = 1e-9


def region(signature, profile=None):
    (found,) = predict(signature, profile or machine()).loops
    return found


def cycles(signature, profile=None):
    """Of an iteration, without the first touch of its pages."""
    found = region(signature, profile)
    return (found.time_s - found.pages_s) / CYCLE / ITERATIONS


# ---- code outside the paths -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("executions", "is_notable"), [(ITERATIONS, True), (ITERATIONS // 50, False)])
def test_code_in_no_path_widens_the_interval_and_is_told(executions, is_notable):
    """What it waits for is not known: it has the error of a model without latencies, by its share of the time."""
    program = Program()
    block = program.loop(ITERATIONS, instructions=4)
    program.loop(executions, instructions=4, function="outside")
    instructions = [instruction("move", writes=f"r{number}") for number in range(4)]
    signature = with_path(program.signature(), [block] * ITERATIONS, {block: instructions}, [], [])
    found = predict(signature, machine())
    [outside] = [loop for loop in found.loops if loop.place.function == "outside"]
    share = outside.time_s / found.time_s
    assert share == pytest.approx(executions / (executions + ITERATIONS), rel=0.01)
    assert outside.high_s / outside.time_s >= CONVOLUTION_ERROR[1]
    [error] = [part for part in found.errors if part.source == "model"]
    assert error.high == pytest.approx(
        1 + (1 - share) * (model_error_range()[1] - 1) + share * (CONVOLUTION_ERROR[1] - 1)
    )
    assert any("sampled paths" in warning for warning in found.warnings) == is_notable


# ---- computing ------------------------------------------------------------------------------------------------------


def test_independent_instructions_take_the_issue_width():
    signature = loop_of(*[instruction("move", writes=f"r{n}") for n in range(10)])
    assert cycles(signature) == pytest.approx(10 / WIDTH, rel=0.01)
    assert region(signature).bound_by is Bound.ISSUE


@pytest.mark.parametrize(
    ("kind", "latency"),
    [("int_alu", 1), ("int_mul", 3), ("fp_add", 3), ("fp_mul", 4), ("fp_fma", 5), ("fp_div", 15), ("fp_sqrt", 20)],
)
def test_a_chain_takes_its_latency(kind, latency):
    signature = loop_of(*[instruction(kind, "x1 x2", "x1") for _ in range(4)])
    assert cycles(signature) == pytest.approx(4 * latency, rel=0.01)
    if latency > 1:
        assert region(signature).bound_by is (Bound.DIVIDE if kind in ("fp_div", "fp_sqrt") else Bound.CHAIN)


def test_several_chains_overlap_until_their_unit_is_full():
    """Additions have two units of the four scalar operations a cycle: 8 chains of latency 3 take 4, not 24."""
    for chains, expected in ((1, 3), (4, 3), (8, 4), (12, 6)):
        signature = loop_of(*[instruction("fp_add", f"x{n}", f"x{n}") for n in range(chains)])
        assert cycles(signature) == pytest.approx(expected, rel=0.02)


def test_a_chain_goes_on_across_the_blocks_of_a_loop():
    """As in one block: where an engine cuts a loop is of no matter."""
    program = Program()
    first = program.loop(ITERATIONS, instructions=2)
    second = program.block(ITERATIONS, loop_id=0, instructions=2)
    chain = (instruction("fp_add", "x1", "x1"), instruction("move", writes="r1"))
    signature = with_path(program.signature(), [first, second] * ITERATIONS, {first: chain, second: chain}, [], [])
    assert cycles(signature) == pytest.approx(6, rel=0.01)


def test_a_sum_may_be_ready_for_another_one_before_a_product():
    add, multiply = (instruction(kind, "x1", "x1") for kind in ("fp_add", "fp_mul"))
    profile = machine(fp_add_other_latency_cycles=5.0)
    assert cycles(loop_of(add, add), profile) == pytest.approx(2 * 3, rel=0.01)
    assert cycles(loop_of(add, multiply), profile) == pytest.approx(5 + 4, rel=0.01)
    assert cycles(loop_of(add, add, multiply), profile) == pytest.approx(3 + 5 + 4, rel=0.01)
    assert cycles(loop_of(add, multiply)) == pytest.approx(3 + 4, rel=0.01), "as for another sum where it is not known"
    assert region(loop_of(add, multiply), profile).bound_by is Bound.CHAIN


def test_a_sum_from_memory_may_be_ready_sooner_for_another_one():
    add = instruction("fp_add", "x1", "x1", "r2", load_operation=0)
    code = loop_of(add, accesses=[{}], seen_lines=True)
    assert cycles(code, machine(fp_add_other_latency_cycles=5.0)) == pytest.approx(3, rel=0.01)


def with_costs(elements=1, **costs):
    """The machine, with latency and interval of operations."""
    operations = [OperationCost(Operation(name), 64, elements, "test", *cost) for name, cost in costs.items()]
    return with_changes(machine(), operations=tuple(operations))


@pytest.mark.parametrize(("kind", "latency"), [("int_shift_add", 2), ("int_bit_count", 3), ("int_select", 1)])
def test_kinds_of_integer_instructions_take_their_own_latency(kind, latency):
    chain = loop_of(*[instruction(kind, "r1", "r1") for _ in range(4)])
    assert cycles(chain, with_costs(**{kind: (latency, 0.5)})) == pytest.approx(4 * latency, rel=0.01)
    assert cycles(chain) == pytest.approx(4, rel=0.01), "as any other where the profile does not tell"
    assert any(kind in note.text for note in predict(chain, machine()).assumptions if note.name == "kinds")


def test_shuffles_take_what_was_measured_of_them():
    chain = loop_of(*[instruction("fp_other", "x1", "x1") for _ in range(4)])
    profile = with_costs(elements=2, fp_shuffle=(2.0, 1.0))
    assert cycles(chain, profile) == pytest.approx(4 * 2, rel=0.01)
    assert cycles(chain) == pytest.approx(4, rel=0.01), "a cycle assumed"
    assert "fp_other" not in {note.name for note in predict(chain, profile).assumptions}


def test_a_conversion_takes_its_latency_crossing_included():
    code = (instruction("fp_convert", "r1", "xmm1"), instruction("fp_convert", "xmm1", "r1"))
    profile = with_costs(fp_convert=(6.5, 1.0))
    assert cycles(loop_of(*code), profile) == pytest.approx(13, rel=0.01)
    assert cycles(loop_of(*code)) == pytest.approx(2 * (3 + 3), rel=0.01), "a crossing, and 3 assumed"


def of_cores(name, instruction_set="x86_64"):
    """The machine, with the cores of a design."""
    return with_changes(machine(), microarchitecture=name, instruction_set=instruction_set)


@pytest.mark.parametrize(
    ("kind", "name", "latency", "interval"),
    [("aes", "zen4", 4, 0.5), ("aes", "haswell", 7, 1), ("carryless_mul", "zen4", 4, 2), ("crc32", "skylake", 3, 1),
     ("sha_round", "sunny-cove", 4, 3), ("bit_deposit", "zen2", 21, 20), ("vector_mul", "skylake", 5, 0.63),
     ("galois", "zen4", 3, 0.5), ("fence", "skylake", 33, 33), ("x87_function", "zen5", 154, 126)],
)  # fmt: skip
def test_instructions_that_few_profiles_tell_cost_what_was_published_of_the_core(kind, name, latency, interval):
    register, other = ("r1", "r9") if kind in ("crc32", "bit_deposit") else ("xmm1", "xmm9")
    chain = loop_of(*[instruction(kind, register, register) for _ in range(4)])
    assert cycles(chain, of_cores(name)) == pytest.approx(4 * max(latency, interval), rel=0.02)
    free = loop_of(*[instruction(kind, f"{register}{number}", other) for number in range(8)])
    assert cycles(free, of_cores(name)) == pytest.approx(max(8 * interval, 8 / WIDTH), rel=0.1)


def test_a_round_of_aes_on_aarch64_is_one_pair_of_instructions():
    """AESMC is fused with the AESE before it: two cycles a round on Neoverse V1, three on Firestorm."""
    rounds = [
        one for _ in range(4) for one in (instruction("aes", "v0", "v0", "v1"), instruction("aes_mix", "v0", "v0"))
    ]
    assert cycles(loop_of(*rounds), of_cores("neoverse-v1", "aarch64")) == pytest.approx(4 * 2, rel=0.02)
    assert cycles(loop_of(*rounds), of_cores("firestorm", "aarch64")) == pytest.approx(4 * 3, rel=0.02)


def test_the_elements_of_a_gather_are_counted():
    gathers = loop_of(*[instruction("gather", f"xmm{number}", "xmm9", lanes=8) for number in range(2)])
    assert cycles(gathers, of_cores("zen4")) == pytest.approx(2 * 8 * 1, rel=0.02)


def test_a_core_that_nobody_measured_has_the_range_of_its_kin():
    chain = loop_of(*[instruction("aes", "xmm1", "xmm1") for _ in range(4)])
    unknown = predict(chain, of_cores("no-such-core"))
    (note,) = [note.text for note in unknown.assumptions if note.name == "cost of aes"]
    assert "4 (3 to 8)" in note and "11 cores of x86_64" in note
    known = predict(chain, of_cores("zen4"))
    assert "AESENC on zen4" in next(note.text for note in known.assumptions if note.name == "cost of aes")
    assert (unknown.high_s - unknown.low_s) / unknown.time_s > (known.high_s - known.low_s) / known.time_s
    other = loop_of(instruction("int_alu", "r1", "r1"))
    assert not [note for note in predict(other, of_cores("zen4")).assumptions if note.name.startswith("cost of")]


def test_a_profile_that_measured_an_instruction_decides():
    profile = with_changes(of_cores("zen4"), operations=(OperationCost(Operation.AES, 64, 2, "test", 6.0, 1.0),))
    chain = loop_of(*[instruction("aes", "xmm1", "xmm1") for _ in range(4)])
    assert cycles(chain, profile) == pytest.approx(4 * 6, rel=0.01)
    assert not [note for note in predict(chain, profile).assumptions if note.name == "cost of aes"]


def test_a_divider_takes_its_interval():
    signature = loop_of(*[instruction("fp_div", f"x{n}", f"y{n}") for n in range(3)])
    assert cycles(signature) == pytest.approx(3 * 10, rel=0.01)
    assert region(signature).bound_by is Bound.DIVIDE


def test_wide_vectors_take_several_turns_of_narrow_units():
    """Four lanes of 64 bits at 16 flops a cycle and four operations: eight lanes take two turns."""
    for lanes, expected in ((4, 4), (8, 8)):
        signature = loop_of(*[instruction("fp_mul", f"x{n}", f"y{n}", lanes=lanes) for n in range(8)])
        assert cycles(signature) == pytest.approx(expected, rel=0.02)


# ---- memory ---------------------------------------------------------------------------------------------------------

CHASE = instruction("move", "", "r1", "r1", load_operation=0)
LOAD = instruction("move", "", "r1", "r2", load_operation=0)
STORE = instruction("move", "r1", "", "r2", store_operation=0)
THEN_STORE, STORE_AGAIN = (instruction("move", "r1", "", "r2", store_operation=number) for number in (1, 2))


@pytest.mark.parametrize(
    ("misses", "latency", "bound"),
    [
        ((0, 0), 4, Bound.CHAIN),
        ((ITERATIONS, 0), 10, Bound.CACHE_LATENCY),
        ((ITERATIONS, ITERATIONS), 100, Bound.MEMORY_LATENCY),
        ((ITERATIONS / 2, ITERATIONS / 4), 0.5 * 4 + 0.25 * 10 + 0.25 * 100, Bound.MEMORY_LATENCY),
    ],
)
def test_a_pointer_chase_takes_the_latency_of_each_level(misses, latency, bound):
    """That each address comes from the load before follows from the registers alone."""
    signature = loop_of(CHASE, accesses=[{"misses": misses, "pattern": "irregular", "length": 512}])
    assert cycles(signature) == pytest.approx(latency, rel=0.02)
    assert region(signature).bound_by is bound


def test_independent_misses_overlap_as_measured():
    """50 ns apart, where each takes 100: the measured time between loads at random."""
    accesses = [{"misses": (ITERATIONS, ITERATIONS), "pattern": "irregular", "length": 1 << 20}]
    signature = loop_of(LOAD, accesses=accesses)
    assert cycles(signature) == pytest.approx(50, rel=0.02)


def test_few_misses_overlap_where_few_instructions_fit_between_them():
    """A load at random every 200 instructions, 8 in flight: each waits for its own latency."""
    filler = [instruction("move", writes="r9")] * 200
    accesses = [{"misses": (ITERATIONS, ITERATIONS), "pattern": "irregular", "length": 512}]
    signature = loop_of(LOAD, *filler, accesses=accesses)
    narrow = machine(issue_width_instructions_per_cycle=1.0)
    assert cycles(signature, narrow) == pytest.approx((200 - 8) + 100, rel=0.03)


def test_a_stream_takes_its_bytes_over_the_measured_bandwidth():
    accesses = [{"misses": (ITERATIONS / 8, ITERATIONS / 8)}]
    signature = loop_of(LOAD, accesses=accesses)
    assert cycles(signature) == pytest.approx(8 / 2e9 / CYCLE, rel=0.02)
    assert region(signature).bound_by is Bound.MEMORY_BANDWIDTH


def test_computing_hides_a_stream_and_a_stream_hides_computing():
    stream = cycles(loop_of(LOAD, accesses=[{"misses": (ITERATIONS / 8, ITERATIONS / 8)}]))
    chain = [instruction("fp_add", "x1", "x1")]
    for length in (0, 3):
        signature = loop_of(LOAD, *chain * length, accesses=[{"misses": (ITERATIONS / 8, ITERATIONS / 8)}])
        assert cycles(signature) == pytest.approx(max(stream, 3 * length), rel=0.03)


def test_a_line_that_is_stored_to_after_its_load_is_written_back():
    """From main memory: 50 between loads at random, and 32 to write a line of 64 bytes back at 2 GB/s."""
    load = {"misses": (ITERATIONS, ITERATIONS), "pattern": "irregular", "length": 1 << 20}
    loaded = loop_of(LOAD, accesses=[load])
    stored = loop_of(LOAD, THEN_STORE, accesses=[load, {"is_store": True}], seen_lines=True)
    again = loop_of(LOAD, THEN_STORE, STORE_AGAIN, accesses=[load, *[{"is_store": True}] * 2], seen_lines=True)
    elsewhere = loop_of(LOAD, THEN_STORE, accesses=[load, {"is_store": True}])
    assert cycles(loaded) == pytest.approx(50, rel=0.02)
    assert cycles(stored) == pytest.approx(50 + 32, rel=0.02)
    assert cycles(again) == pytest.approx(50 + 32, rel=0.02)
    assert cycles(elsewhere) == pytest.approx(50, rel=0.02)


def test_a_value_stored_and_read_back_is_a_chain():
    """Stored two accesses before it is loaded: x += 1 in memory."""
    load = instruction("fp_add", "x2", "x1", "r2", load_operation=0)
    store = instruction("move", "x1", "", "r2", store_operation=1)
    accesses = [{"pattern": "repeated"}, {"pattern": "repeated", "is_store": True}]
    chain = loop_of(load, store, accesses=accesses, store_distances=[1, 2], seen_lines=True)
    assert cycles(chain) == pytest.approx(7 + 3, rel=0.02)  # never sooner than 3 cycles after the nearest cache
    assert region(chain).bound_by is Bound.FORWARD
    slow = machine(store_forward_latency_cycles=12.0)
    assert cycles(chain, slow) == pytest.approx(12 + 3, rel=0.02)
    apart = loop_of(load, store, accesses=accesses, seen_lines=True)
    assert cycles(apart) < 2


def test_what_reads_more_than_was_stored_waits_for_the_cache():
    """It comes no sooner than what the store serves, and where the store waits for its line, it waits as well."""
    load = instruction("vector_int", "x2", "x1", "r2", load_operation=0)
    store = instruction("move", "x1", "", "r2", store_operation=1)

    def taken(load_bytes: int, *, misses: int = 0) -> float:
        accesses = [
            {"pattern": "repeated", "size": load_bytes},
            {"pattern": "irregular", "is_store": True, "size": 4, "misses": (misses, misses), "length": 512},
        ]
        chain = loop_of(load, store, accesses=accesses, store_distances=[1, 2], seen_lines=not misses)
        return cycles(chain, machine(store_forward_latency_cycles=1.0))

    assert taken(16) >= taken(4)
    assert taken(16, misses=ITERATIONS) > taken(4, misses=ITERATIONS)


def test_lines_of_several_levels_come_in_by_one_door():
    """Half from the second level, half from main memory: each takes its turn at the second level's door."""
    line_s = 64 / 2e9 / CYCLE
    far, near = (
        {"misses": (ITERATIONS, ITERATIONS), "pattern": "strided"},
        {"misses": (ITERATIONS, 0), "pattern": "strided"},
    )
    second = instruction("move", "", "r3", "r2", load_operation=1)
    alone, both = cycles(loop_of(LOAD, accesses=[far])), cycles(loop_of(LOAD, second, accesses=[far, near]))
    door = cycles(loop_of(LOAD, accesses=[near]))
    assert alone == pytest.approx(line_s, rel=0.02)
    assert both == pytest.approx(max(line_s, 2 * door), rel=0.05)


def test_an_access_waits_for_a_line_that_is_on_its_way():
    """Two fields of what a pointer leads to: the second is there with the first."""
    second = instruction("move", "", "r1", "r1", load_operation=1)
    first = instruction("move", "", "r3", "r1", load_operation=0)
    accesses = [{"misses": (ITERATIONS, ITERATIONS), "pattern": "irregular", "length": 512}, {"pattern": "irregular"}]
    signature = loop_of(first, second, accesses=accesses)
    signature.paths.line_distances[1::2] = 1
    assert cycles(signature) == pytest.approx(100, rel=0.02)


def test_the_first_touch_of_each_page_is_paid_once():
    """Two loops over the same 10 pages, one of them over 5 more."""
    program = Program()
    for length in (10, 15):
        block = program.loop(ITERATIONS, instructions=1)
        program.access(block, ITERATIONS, (ITERATIONS, ITERATIONS), first=1 << 20, length=length * 4096)
    host = machine()
    host = with_changes(host, memory=Memory(source={}, page_bytes=4096, first_touch_page_s=3e-6))
    first, second = sorted(predict(program.signature(), host).loops, key=lambda r: r.place.line)
    assert first.pages_s == pytest.approx(10 * 3e-6)
    assert second.pages_s == pytest.approx(5 * 3e-6)
    prediction = predict(program.signature(), with_changes(host, memory=None))
    assert "first_touch_page_s" in {assumption.name for assumption in prediction.assumptions}


# ---- the interval ---------------------------------------------------------------------------------------------------


def test_what_leaves_most_of_its_range_alone_touches_few_pages():
    """Arrays of a Python program, a gigabyte apart: 64 lines, a page's worth."""
    program = Program()
    block = program.loop(ITERATIONS, instructions=1)
    program.access(block, ITERATIONS, (64, 64), first=1 << 20, length=1 << 30)
    host = with_changes(machine(), memory=Memory(source={}, page_bytes=4096, first_touch_page_s=3e-6))
    assert region(program.signature(), host).pages_s == pytest.approx(3e-6)


def test_the_interval_is_made_of_its_sources():
    accesses = [{"misses": (ITERATIONS, ITERATIONS), "pattern": "irregular", "length": 512}]
    prediction = predict(loop_of(CHASE, accesses=accesses), machine())
    assert [part.source for part in prediction.errors] == ["figures", "paths", "model"]
    low, high = (math.sqrt(sum(math.log(getattr(p, end)) ** 2 for p in prediction.errors)) for end in ("low", "high"))
    assert prediction.low_s == pytest.approx(prediction.time_s * math.exp(-low))
    assert prediction.high_s == pytest.approx(prediction.time_s * math.exp(high))
    model = prediction.errors[-1]
    assert model.low < 1 < model.high


def test_paths_that_differ_widen_the_interval():
    narrow, wide = path_error([1.0, 1.0], 1.0), path_error([0.8, 1.2], 1.0)
    assert (narrow.low, narrow.high) == (1, 1)
    assert wide.high == pytest.approx(1.4)
    assert combined([wide, wide])[1] > wide.high > combined([wide, narrow])[1] * 0.999


# ---- what calibration measures of the core --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("window_instructions", 248.0),
        ("register_crossing_cycles", 3.0),
        ("vector_scheduled_instructions", 60.0),
        ("storing_instructions", 60.0),
        ("vector_int_latency_cycles", 1.0),
    ],
)
def test_what_is_measured_is_not_assumed(name, value):
    for profile, assumed in ((machine(), True), (machine(**{name: value}), False)):
        hierarchy = hierarchy_of(profile).hierarchy
        assert (name in {a.name for a in figures_of(profile, hierarchy).core_assumptions}) is assumed


def test_a_chain_through_both_kinds_of_registers_takes_its_crossings():
    there_and_back = (instruction("move", "r1", "xmm1"), instruction("move", "xmm1", "r1"))
    for crossing in (1.0, 4.0):
        profile = machine(register_crossing_cycles=crossing)
        assert cycles(loop_of(*there_and_back), profile) == pytest.approx(2 * crossing, rel=0.01)


def test_a_measured_window_limits_what_is_in_flight():
    """A load at random every 200 instructions, 20 in flight: each waits for its own latency."""
    accesses = [{"misses": (ITERATIONS, ITERATIONS), "pattern": "irregular", "length": 512}]
    signature = loop_of(LOAD, *[instruction("move")] * 200, accesses=accesses)
    expected = (200 - 20) / WIDTH + 100
    assert cycles(signature, machine(window_instructions=20.0)) == pytest.approx(expected, rel=0.03)


def test_instructions_of_a_line_are_decoded_up_to_eight_at_once():
    """A compare and its branch count as one."""
    compare = instruction("int_alu", "r1", "flags", length_bytes=4)
    jump = instruction("branch", "flags", length_bytes=4, flow="branch")
    plain = instruction("move", length_bytes=4)
    program = CoreProgram.of(loop_of(*[plain] * 7, compare, jump, *[plain] * 9))
    assert program is not None
    assert [int(n) for n in program.instructions["decoded"] if n] == [8, 7, 2]


def test_what_is_measured_of_a_window_is_used_and_the_rest_assumed():
    """Each with its noise."""

    def core_of(**figures):
        profile = machine(window_instructions=200.0, **figures)
        found = figures_of(profile, hierarchy_of(profile).hierarchy)
        return found.core.members, {a.name: a.text for a in found.core_assumptions}

    measured, notes = core_of(storing_instructions=25.0, noise={"storing_instructions": 0.25})
    assert measured["storing_instructions"].tolist() == [31.25, 25.0, 20.0]
    assert measured["vector_scheduled_instructions"].tolist() == [100.0, 50.0, 25.0]
    assert "0.25 (0.125 to 0.5) of window_instructions assumed" in notes["vector_scheduled_instructions"]
    assert "storing_instructions" not in notes


@pytest.mark.parametrize(
    ("rate", "kept", "cycles_each", "ways"), [(4.0, 5609.0, 0.25, 11), (2.0, 100.0, 0.5, 1), (6.0, 16384.0, 1 / 6, 32)]
)
def test_measured_decoders_are_used(rate, kept, cycles_each, ways):
    """Groups of eight are kept, in 64 sets."""
    figures = {"decode_instructions_per_cycle": rate, "decoded_instructions": kept}
    profile = machine(issue_width_instructions_per_cycle=6.0, **figures)
    found = figures_of(profile, hierarchy_of(profile).hierarchy)
    assert found.core.members["decode"] == pytest.approx(cycles_each)
    assert found.core.members["decoded_ways"] == pytest.approx(ways)
    assert "decode_instructions_per_cycle" not in {a.name for a in found.core_assumptions}


@pytest.mark.parametrize(("width", "assumed"), [(4.0, False), (6.0, True)])
def test_cores_that_issue_no_more_than_they_decode_are_not_held_up(width, assumed):
    profile = machine(issue_width_instructions_per_cycle=width)
    assumptions = figures_of(profile, hierarchy_of(profile).hierarchy).core_assumptions
    assert ("decode_instructions_per_cycle" in {a.name for a in assumptions}) is assumed


# ---- what is measured of instructions -------------------------------------------------------------------------------


def test_multiplications_come_as_often_as_was_measured():
    independent = loop_of(*[instruction("int_mul", "r9", f"r{n}") for n in range(4)])
    assert cycles(independent) == pytest.approx(4, rel=0.02)
    assert cycles(independent, with_costs(int_mul=(3.0, 0.5))) == pytest.approx(4 * 0.5, rel=0.02)


@pytest.mark.parametrize(("rate", "expected"), [(0.5, 4 / 0.5), (None, 8 / 4)])
def test_branches_without_a_comparison_take_their_units(rate, expected):
    """Four of them, the last of which is taken."""
    program = Program()
    blocks = [program.loop(ITERATIONS, instructions=2)]
    blocks += [program.block(ITERATIONS, loop_id=0, instructions=2) for _ in range(3)]
    move = instruction("move", writes="r1", length_bytes=14)
    code = dict.fromkeys(blocks, (move, instruction("branch", "flags", flow="branch", length_bytes=2)))
    signature = with_path(program.signature(), blocks * ITERATIONS, code, [], [])
    assert cycles(signature, machine(untaken_branches_per_cycle=rate)) == pytest.approx(expected, rel=0.02)


# ---- in order -------------------------------------------------------------------------------------------------------


def test_a_core_that_keeps_the_order_waits_at_the_first_use():
    """Two additions, the second of the first's sum: the next pair begins with the second, three cycles later."""
    pair = (instruction("fp_add", "x9", "x1"), instruction("fp_add", "x1", "x2"))
    assert cycles(loop_of(*pair), machine(in_order=True)) == pytest.approx(3, rel=0.01)
    assert cycles(loop_of(*pair), machine()) == pytest.approx(1, rel=0.02)


def test_a_load_is_waited_for_where_it_is_used():
    """Misses that nothing uses overlap as far as the caches let them; each that is used takes its latency."""
    accesses = [{"misses": (ITERATIONS, ITERATIONS), "pattern": "irregular", "length": 1 << 20}]
    use = instruction("int_alu", "r1", "r3")
    for code, in_order, expected in (((LOAD,), True, 50), ((LOAD, use), True, 100), ((LOAD, use), False, 50)):
        signature = loop_of(*code, accesses=accesses)
        assert cycles(signature, machine(in_order=in_order)) == pytest.approx(expected, rel=0.03)


def test_what_stands_behind_a_store_waits_for_its_value():
    code = (instruction("fp_add", "x1", "x2"), instruction("move", "x2", "", "r2", store_operation=0))
    signature = loop_of(*code, accesses=[{"is_store": True}])
    assert cycles(signature, machine(in_order=True)) == pytest.approx(3, rel=0.01)
    assert cycles(signature, machine()) == pytest.approx(1, rel=0.02)  # a store a cycle


# ---- fetching code --------------------------------------------------------------------------------------------------


ZEN = with_changes(machine(), microarchitecture="zen2")
"""A core that fetches anew behind a branch and for the next line; of others that is not known."""


def test_a_short_piece_of_a_line_is_fetched_while_a_long_one_is_dispatched():
    body = [instruction("move", writes=f"r{n}", length_bytes=4) for n in range(18)]  # of which two in the next line
    assert cycles(loop_of(*body)) == pytest.approx(18 / WIDTH, rel=0.01)


# ---- branches -------------------------------------------------------------------------------------------------------


def branching(outcomes):
    """A loop that goes one of two ways."""
    program = Program()
    taken = sum(outcomes)
    head = program.loop(len(outcomes), instructions=2)
    yes = program.block(taken, loop_id=0, instructions=1)
    no = program.block(len(outcomes) - taken, loop_id=0, instructions=1)
    compare = (instruction("int_alu", "r1", "flags"), instruction("branch", "flags", flow="branch", length_bytes=14))
    path = [block for outcome in outcomes for block in (head, yes if outcome else no)]
    instructions = {head: compare, yes: (instruction("move"),), no: (instruction("move"),)}
    return with_path(program.signature(), path, instructions, [], [])


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        (lambda _: True, 0, 0.001),
        (lambda i: i % 2 == 0, 0, 0.02),
        (lambda i: i % 7 == 3, 0, 0.03),
        (lambda i: i % 100 == 0, 0, 0.02),
        (lambda _: random.random() < 0.5, 0.4, 0.6),
        (lambda _: random.random() < 0.1, 0.08, 0.2),
    ],
)
def test_patterns_are_foreseen_and_chance_is_not(pattern, least, most):
    random.seed(1)
    outcomes = [pattern(i) for i in range(6000)]
    profile, free = machine(branch_miss_cycles=101.0), machine(branch_miss_cycles=0.0)
    signature = branching(outcomes)
    missed = (region(signature, profile).time_s - region(signature, free).time_s) / (100 * CYCLE) / len(outcomes)
    assert least - 0.001 <= missed <= most
    assert (region(signature, profile).bound_by is Bound.BRANCH) == (least > 0)


def test_a_miss_costs_what_the_calibration_measured():
    """Its loop: a value that each iteration makes from the last, and a branch on it that is missed every other time."""
    random.seed(2)
    outcomes = [random.random() < 0.5 for _ in range(6000)]
    program = Program()
    head, skipped = program.loop(len(outcomes), instructions=3), program.block(sum(outcomes), loop_id=0, instructions=1)
    code = {
        head: (
            instruction("int_mul", "r1", "r1"),
            instruction("int_alu", "r1", "flags"),
            instruction("branch", "flags", flow="branch", length_bytes=12),
        ),
        skipped: (instruction("move"),),
    }
    path = [block for outcome in outcomes for block in ((head, skipped) if outcome else (head,))]
    signature = with_path(program.signature(), path, code, [], [])
    missed = Workload.of(signature).core.missed[0]
    times = [region(signature, machine(branch_miss_cycles=miss)).time_s / CYCLE / 6000 for miss in (1.0, 18.0)]
    assert 0.4 < missed < 0.6
    assert times[1] - 3 == pytest.approx(18 * missed, rel=0.1)  # without misses the chain takes 3 cycles


def chance_loads(step_of_other, *, memory=1.0):
    """Seconds of a loop of branches at random on values of which a share comes from a slow memory, at an address that
    both ways step on."""
    random.seed(3)
    program = Program()
    count = 3000
    head = program.loop(count, instructions=3)
    program.access(head, count, misses=[round(count * memory)] * 2, pattern="irregular", length=512)
    arms = [program.block(count // 2, loop_id=0, instructions=1) for _ in range(2)]
    value = instruction("move", "", "r1", "r9", load_operation=0)
    step = instruction("int_alu", "r9", "r9")
    code = {
        head: (
            value,
            instruction("int_alu", "r1", "flags"),
            instruction("branch", "flags", flow="branch", length_bytes=12),
        ),
        arms[0]: (step,),
        arms[1]: (step_of_other,),
    }
    path = [block for _ in range(count) for block in (head, random.choice(arms))]
    signature = with_path(program.signature(), path, code, [0] * count, [0] * count)
    slow_memory = (*machine().latency[:-1], LatencyPoint(1 << 20, 400e-9, "here"))
    return region(signature, with_changes(machine(), latency=slow_memory)).time_s / count


def test_behind_a_missed_branch_lines_are_asked_for_where_the_ways_meet():
    """The loads do not wait for each other, if both ways step to the same address."""
    alike, apart = (chance_loads(instruction(kind, "r9", "r9")) for kind in ("int_alu", "int_mul"))
    assert 150e-9 < apart < 400e-9  # one after the other where a branch is missed
    assert alike < 0.6 * apart


def test_behind_a_branch_that_is_soon_known_the_next_one_is_run_on_from():
    """Four of five branches wait for the nearest cache. The lines of memory are asked for behind these as well."""
    alike, apart = (chance_loads(instruction(kind, "r9", "r9"), memory=0.2) for kind in ("int_alu", "int_mul"))
    assert 30e-9 < apart < 80e-9
    assert alike < 0.4 * apart


def test_ways_do_not_meet_in_a_loop_that_one_of_them_begins_anew():
    """What the next search loads is not asked for by going on with this one: only what is behind both of them is."""
    random.seed(5)
    program = Program()
    steps = [random.randint(1, 12) for _ in range(400)]
    start = program.loop(len(steps), instructions=1)
    step = program.loop(sum(steps), instructions=2)
    program.loops[1] = structs.replace(program.loops[1], parent_id=0, depth=2)
    end = program.block(len(steps), loop_id=0, instructions=1)
    compare = instruction("int_alu", "r9", "flags", length_bytes=14)
    code = {
        start: (instruction("move", "", "r9"),),
        step: (compare, instruction("branch", "flags", flow="branch", length_bytes=2)),
        end: (instruction("move", "", "r8"),),
    }
    path = [block for number in steps for block in (start, *[step] * number, end)]
    core = Workload.of(with_path(program.signature(), path, code, [], [])).core
    missed = core.branches & 1 > 0
    ends = missed & (core.path == step) & (np.roll(core.path, -1) == end)
    assert ends.sum() > 100
    assert set(core.depends[ends].tolist()) == {ALL_DEPEND}


def predicted(places, targets, kind):
    branches = np.zeros(len(places), BRANCH)
    branches["place"], branches["target"], branches["kind"] = places, targets, kind
    missed = np.zeros(len(places), np.uint8)
    _core_model.predict_branches(branches.tobytes(), missed)
    return missed


def test_indirect_jumps_are_foreseen_by_those_before():
    """An interpreter's: its program's loop leads to the same targets in the same order."""
    loop = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
    assert predicted([7] * 2000, loop * 200, 2)[500:].mean() < 0.01
    rng = np.random.default_rng(1)
    assert predicted([7] * 2000, rng.integers(0, 8, 2000), 2).mean() > 0.8


def test_targets_that_follow_from_a_branch_before_are_foreseen():
    """An interpreter's, behind a conditional jump of its program: what it jumps to next depends on that alone."""
    outcomes = np.random.default_rng(4).integers(0, 2, 4000)
    places, kinds, targets = np.tile([1, 2], 4000), np.tile([1, 2], 4000), np.stack([outcomes, 5 + outcomes], 1).ravel()
    missed = predicted(places, targets, kinds)[2000:]
    assert missed[0::2].mean() > 0.4
    assert missed[1::2].mean() < 0.02


@pytest.mark.parametrize(("period", "least", "most"), [(256, 0, 0.1), (512, 0, 0.2), (4096, 0.5, 1)])
def test_so_many_targets_are_learnt(period, least, most):
    """About as many as an AMD EPYC (Zen 5) learnt: 256 of 16, and a tenth of 512 were missed."""
    targets = np.tile(np.random.default_rng(5).integers(0, 16, period), 30)
    assert least <= predicted([7] * len(targets), targets, 2)[-5 * period :].mean() <= most


def test_many_branches_do_not_get_in_each_others_way():
    rng = np.random.default_rng(2)
    always = rng.integers(0, 2, 300)
    places = rng.integers(0, 300, 60000)
    assert predicted(places, always[places], 1)[30000:].mean() < 0.02


# ---- any program ----------------------------------------------------------------------------------------------------

KINDS = ("int_alu", "int_mul", "fp_add", "fp_mul", "fp_div", "move", "vector_int")


@st.composite
def programs(draw):
    registers = st.sampled_from(["r1", "r2", "x1", "x2", "x3"])
    instructions, accesses = [], []
    for _ in range(draw(st.integers(1, 8))):
        other = {}
        what = draw(st.sampled_from(["compute", "compute", "load", "store"]))
        if what != "compute":
            is_store = what == "store"
            other["store_operation" if is_store else "load_operation"] = len(accesses)
            missing = draw(st.sampled_from([0, 0.1, 1]))
            misses = (ITERATIONS * missing, ITERATIONS * missing * draw(st.sampled_from([0, 0.5, 1])))
            pattern = draw(st.sampled_from(["unit_stride", "irregular"]))
            length = draw(st.sampled_from([512, 4096, 1 << 20]))
            accesses.append({"misses": misses, "pattern": pattern, "is_store": is_store, "length": length})
        kind = draw(st.sampled_from(KINDS)) if what == "compute" else "move"
        instructions.append(instruction(kind, draw(registers), draw(registers), draw(registers), **other))
    return loop_of(*instructions, accesses=accesses)


FASTER = {
    "clock_hz": 2.0,
    "issue_width_instructions_per_cycle": 2.0,
    "loads_per_cycle": 2.0,
    "stores_per_cycle": 2.0,
    "fp_add_latency_cycles": 0.5,
    "fp_mul_latency_cycles": 0.5,
    "fp_div_latency_cycles": 0.5,
    "fp_div_interval_cycles": 0.5,
    "int_mul_latency_cycles": 0.5,
    "int_adds_per_cycle": 2.0,
    "store_forward_latency_cycles": 0.5,
}


@settings(max_examples=examples(25))
@given(programs(), st.sampled_from(sorted(FASTER)))
def test_a_faster_core_is_never_slower(signature, figure):
    """But for the little by which a greedy order of instructions can get worse (Graham, "Bounds on multiprocessing
    timing anomalies", 1969): with a store and a load that miss, of one chain, 8 ns of 144 at twice the clock."""
    slow = machine()
    fast = machine(**{figure: getattr(slow.core, figure) * FASTER[figure]})
    assert region(signature, fast).time_s <= region(signature, slow).time_s * 1.06


@settings(max_examples=examples(25))
@given(programs())
def test_keeping_the_order_is_never_faster(signature):
    """But for what a window of 168 instructions hides less than none."""
    assert region(signature, machine(in_order=True)).time_s >= region(signature, machine()).time_s * 0.97


@settings(max_examples=examples(25))
@given(programs())
def test_faster_memory_is_never_slower_and_times_are_in_their_interval(signature):
    slow = machine()
    fast = with_changes(
        slow,
        latency=tuple(with_changes(p, latency_s=p.latency_s / 2) for p in slow.latency),
        bandwidth=tuple(with_changes(p, bandwidth_bytes_per_s=2 * p.bandwidth_bytes_per_s) for p in slow.bandwidth),
    )
    a, b = region(signature, fast), region(signature, slow)
    assert a.time_s <= b.time_s * 1.03
    for found in (a, b):
        assert found.low_s <= found.time_s <= found.high_s
        assert found.time_s == pytest.approx(found.compute_s + found.memory_s - found.overlap_s + found.pages_s)
        assert min(found.compute_s, found.memory_s, found.overlap_s) >= 0


# ---- the binding ----------------------------------------------------------------------------------------------------


def test_layouts_agree():
    assert CORE.itemsize == _core_model.CORE_BYTES
    assert INSTRUCTION.itemsize == _core_model.INSTRUCTION_BYTES
    assert BLOCK.itemsize == _core_model.BLOCK_BYTES
    assert OPERATION.itemsize == _core_model.OPERATION_BYTES
    assert BRANCH.itemsize == _core_model.BRANCH_BYTES


def test_what_refers_to_nothing_is_refused():
    core = np.ones((), CORE)
    core["n_levels"] = 2
    row = np.zeros(1, INSTRUCTION)
    row["load"], row["store"] = 5, -1
    block = np.array([0, 1, 0, 0, 0, 0], np.uint32)
    cycles_out = np.zeros((2, 1, _core_model.NUM_CAUSES))
    one, none, ways = np.zeros(1, np.uint32), np.zeros(0, np.uint16), np.zeros(1, np.uint16)
    with pytest.raises(ValueError, match="refers to what does not exist"):
        _core_model.run(core, row.tobytes(), none, block, b"", one, np.zeros(1, np.uint8), ways, none, none, cycles_out)
    row["load"] = -1
    with pytest.raises(ValueError, match="a block runs that does not exist"):
        _core_model.run(
            core, row.tobytes(), none, block, b"", one + 1, np.zeros(1, np.uint8), ways, none, none, cycles_out
        )
    with pytest.raises(ValueError, match="do not fit together"):
        _core_model.run(core, row.tobytes(), none, block, b"", one, np.zeros(2, np.uint8), ways, none, none, cycles_out)
