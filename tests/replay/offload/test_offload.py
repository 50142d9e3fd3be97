"""General accelerators: what kernels take, what may run in parallel, and answers that once were wrong."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from flow_samples import flow_of
from offload_samples import examined, gpu, nest, recurrence, with_flow
from replay_samples import Program, gather_into, measured_host, with_changes
from tree_samples import Tree

import foretrace
from foretrace.base.errors import PredictionError
from foretrace.profiles.accelerator import AcceleratorTable
from foretrace.profiles.library import find
from foretrace.profiles.points import IndexMode
from foretrace.profiles.profile import CurvePoint, GatherScatterCurve, Link, Memory
from foretrace.replay.base.records import Answer
from foretrace.replay.node.machine_run import Offloading
from foretrace.replay.node.replay import replay_on
from foretrace.replay.offload.devices.demand import written_back
from foretrace.replay.offload.devices.device import Device
from foretrace.replay.offload.policy import Policy
from foretrace.replay.offload.program import work_for
from foretrace.replay.offload.triage import checked_cores, triage
from foretrace.replay.prediction.predict import HostRun
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.data_flow_records import (
    OUTSIDE,
    MemoryObject,
    ObjectKind,
)
from foretrace.tracer.signature.records import IdiomKind

KIB, MIB, GB = 1 << 10, 1 << 20, 1e9
CONVEY = find("convey-hc1-fpga")


OWN_MEMORY = {
    "shared_memory": False, "to_device_bytes_per_s": 1e10, "from_device_bytes_per_s": 1e10, "transfer_latency_s": 1e-5
}  # fmt: skip


def test_a_streaming_loop_takes_its_bytes_at_the_bandwidth():
    """Two accesses of 8 bytes an iteration at 1 TB/s, and a launch of 10 us."""
    tree, _, loop = nest(inner=1 << 22, flops=0)
    signature = with_flow(tree, [(OUTSIDE, [loop], 8 << 22)])
    (one,) = triage(signature, measured_host(), gpu()).instances
    assert one.answer is Answer.PORT
    assert one.bound_by == "memory bandwidth"
    assert one.cost.kernel_s == pytest.approx(16 * (1 << 22) / 1e12, rel=1e-6)
    assert one.cost.launch_s == pytest.approx(1e-5)


def test_arithmetic_is_bound_by_the_rate_of_instructions():
    """1000 multiplications that no addition goes with, at half of the peak, less what is usual."""
    tree, _, loop = nest(inner=1 << 20, flops=1000)
    (one,) = triage(with_flow(tree, [(OUTSIDE, [loop], 8 << 20)]), measured_host(), gpu()).instances
    assert one.bound_by in ("64-bit arithmetic", "instruction issue")
    assert one.cost.kernel_s == pytest.approx(2 * 1000 * (1 << 20) / 12.8e12, rel=0.1)


def test_a_loop_of_100_iterations_does_not_fill_the_device():
    """As many iterations in all, 100 of them at a time: as many threads, each at its own speed."""
    many, few = nest(inner=1 << 20, flops=100), nest(outer=(1 << 20) // 100, inner=100, flops=100)
    kernels = []
    for tree, around, loop in (many, few):
        signature = examined(with_flow(tree, []), around, loop, dependences=[recurrence(around)])
        (one,) = triage(signature, measured_host(), gpu(), explain="loop").explained[-1:]
        kernels.append(one)
    assert [one.threads for one in kernels] == [1 << 20, 100]
    assert kernels[1].bound_by == "latency"
    assert kernels[1].cost.kernel_s > 100 * kernels[0].cost.kernel_s


def test_a_recurrence_runs_as_one_thread_and_stays():
    tree, around, loop = nest(inner=1 << 20)
    signature = examined(with_flow(tree, [(OUTSIDE, [loop], 8 << 20)]), around, loop, dependences=[recurrence(loop)])
    report = triage(signature, measured_host(), gpu())
    (one,) = report.instances
    assert (one.answer, one.threads) == (Answer.LEAVE, 1)
    found = triage(signature, measured_host(), gpu(), explain="loop").explained
    assert any("recurrence through register xmm0, distance 1" in " ".join(one.explanation) for one in found)


def test_a_time_loop_is_a_sequence_of_kernels_with_resident_data():
    """100 steps of a loop that reads what the step before wrote: 100 launches, the data moves once each way."""
    tree, around, loop = nest(outer=100, inner=1 << 16, flops=100)
    data = 8 * (1 << 16)
    versions = [(OUTSIDE, [loop], data), (loop, [loop], 99 * data), (loop, [0], data)]
    signature = examined(with_flow(tree, versions), around, loop, dependences=[recurrence(around)])
    one, steps = triage(signature, measured_host(), gpu(**OWN_MEMORY)).instances
    assert (one.answer, one.entries, one.transfers) == (Answer.PORT, 100, 2)
    assert (steps.answer, steps.parallel) == (Answer.LEAVE, "serial")
    assert one.to_device_bytes == one.from_device_bytes == data


def test_the_same_is_seen_in_the_data_flow_where_nothing_was_examined():
    tree, _, loop = nest(outer=100, inner=1 << 16, flops=100)
    data = 8 * (1 << 16)
    versions = [(OUTSIDE, [loop], data), (loop, [loop], 99 * data), (loop, [0], data)]
    report = triage(with_flow(tree, versions, [([loop], 2 * data)]), measured_host(), gpu(**OWN_MEMORY))
    one, steps = report.instances
    assert (one.answer, one.entries, one.parallel) == (Answer.PORT, 100, "assumed parallel")
    assert steps.answer is Answer.LEAVE
    assert any("--dependences" in warning for warning in report.warnings)
    assert one.accelerator_high_s >= one.host_s  # if it is not parallel after all, it stays


def test_a_reductions_value_comes_back_at_each_launch():
    tree, _, loop = nest(outer=1, inner=1 << 22, stores=False)
    (one,) = triage(with_flow(tree, [(OUTSIDE, [loop], 8 << 22)]), measured_host(), gpu(**OWN_MEMORY)).instances
    assert (one.from_device_bytes, one.transfers) == (8, 2)


def test_gathered_values_that_only_the_device_reads_do_not_return():
    """Nothing but what the host reads: once it was all that was written."""
    tree, _, loop = nest(inner=1 << 22)
    (one,) = triage(with_flow(tree, [(loop, [], 32 * MIB)]), measured_host(), gpu(**OWN_MEMORY)).instances
    assert one.from_device_bytes == 0


def test_what_does_not_fit_is_brought_piece_by_piece_with_the_number():
    tree, _, loop = nest(inner=1 << 22, flops=1000)
    signature = with_flow(tree, [(OUTSIDE, [loop], 32 * MIB)], [([loop], 64 * MIB)])
    report = triage(signature, measured_host(), gpu(capacity=16 * MIB, **OWN_MEMORY))
    assert any("64 MiB" in warning and "16 MiB" in warning for warning in report.warnings)
    (one,) = report.instances
    assert one.cost.transfer_s > 64 * MIB / 1e10
    assert any("piece by piece" in line for line in one.explanation)


def test_a_loop_that_calls_printf_stays_on_the_host():
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    loop = tree.loop(main, 1000)
    tree.does(loop, 1 << 20)
    tree.call(loop, "printf", entries=1000)
    (one,) = triage(with_flow(tree, []), measured_host(), gpu()).instances
    assert (one.answer, one.reason) == (Answer.LEAVE, "calls printf, which needs the host")


def test_start_up_code_is_no_candidate():
    tree = Tree()
    root = tree.thread()
    loader = tree.call(root, "resolve", module="/lib/ld-linux-x86-64.so.2")
    tree.does(tree.loop(loader, 1 << 20), 1 << 20)
    main = tree.call(root, "main")
    tree.does(tree.loop(main, 1 << 20), 1 << 20)
    report = triage(with_flow(tree, []), measured_host(), gpu())
    assert len(report.instances) == 1


def test_what_other_threads_run_is_a_candidate_and_start_up_code_of_theirs_is_none():
    """A thread is the program's from its beginning; of the one that runs `main`, what is inside."""
    tree = Tree()
    root = tree.thread()
    tree.does(tree.loop(tree.call(root, "before"), 1 << 20), 1 << 20)
    main = tree.call(root, "main")
    tree.does(tree.loop(main, 1 << 20), 1 << 20)
    other = tree.call(tree.thread(1), "clone")
    tree.does(tree.loop(tree.call(other, "work"), 1 << 20), 1 << 20)
    report = triage(with_flow(tree, []), measured_host(), gpu())
    assert sorted(one.caller.split(" > ")[0] for one in report.instances) == ["clone", "main"]


def test_pages_are_touched_first_wherever_the_loop_runs():
    """They once vanished when the loop was ported."""
    tree, _, loop = nest(inner=1 << 22)
    memory = Memory(source={}, first_touch_page_s=1e-5, page_bytes=4096)
    host = with_changes(measured_host(), memory=memory)
    report = triage(with_flow(tree, [(OUTSIDE, [loop], 8)]), host, gpu())
    pages_s = 2 * 8 * (1 << 22) / 4096 * 1e-5
    assert report.program.after_s > 0.9 * pages_s
    assert report.program.host_s - report.program.after_s == pytest.approx(report.instances[0].gain_s, rel=1e-6)


def test_an_unknown_launch_cost_is_assumed_not_free():
    tree, _, loop = nest(inner=64)
    device = with_changes(gpu(), link=Link(source={}, shared_memory=True))
    report = triage(with_flow(tree, [(OUTSIDE, [loop], 512)]), measured_host(), device)
    (one,) = report.instances
    assert one.answer is Answer.LEAVE
    assert one.cost.launch_s == pytest.approx(9e-6)
    assert "launch_latency_s" in {assumption.name for assumption in report.assumptions}
    assert one.break_even_bytes is None or one.break_even_bytes > 512


def test_spans_are_no_longer_than_what_is_accessed():
    """A result that lies in mmapped memory once and on the heap later: 41 TiB apart."""
    program = Program()
    block = program.loop(500_000, instructions=4, function="histogram")
    program.access(block, 500_000, (500_000,) * 2, first=1 << 30, length=41 << 40, pattern="irregular")
    program.access(block, 500_000, (500_000,) * 2, first=1 << 30, length=41 << 40, pattern="irregular", is_store=True)
    (one,) = triage(program.signature(), measured_host(), gpu(**OWN_MEMORY)).instances
    assert one.to_device_bytes + one.from_device_bytes <= 2 * 8 * 500_000
    assert one.accelerator_s < 1


def test_a_tiny_loop_does_not_take_hours():
    program = Program()
    block = program.loop(100, instructions=4, function="tiny")
    program.access(block, 100, (100,) * 2, first=1 << 20, length=46 << 40, pattern="irregular")
    (one,) = triage(program.signature(), measured_host(), gpu(**OWN_MEMORY)).instances
    assert one.accelerator_s < 1e-3


def test_two_tables_apart_are_not_one_range():
    """64 KiB of static data and 64 KiB on the heap: below the Convey's 192 KiB, though 42 MiB apart."""
    program = Program()
    gather_into(program, program.loop(1 << 20, function="gather"), 1 << 20, 42 * MIB)
    signature = program.signature()
    tables = [MemoryObject(ObjectKind.STATIC, "table", 1 << 32, (1 << 32) + 64 * KIB),
              MemoryObject(ObjectKind.HEAP, "", (1 << 32) + 42 * MIB - 64 * KIB, (1 << 32) + 42 * MIB)]  # fmt: skip
    (merged,) = triage(signature, measured_host(), CONVEY).instances
    assert merged.offload
    apart = replace(signature, data_flow=flow_of([], [([], 1.0)], tables))
    (one,) = triage(apart, measured_host(), CONVEY).instances
    assert (one.range_bytes, one.offload) == (128 * KIB, False)


def bins(places, *, updates=1 << 22, again=0):
    """Updates of `places` of 4 bytes, of which `again` hit the place that the one before hit."""
    program = Program()
    block = program.loop(updates, instructions=4, function="bins")
    where = {"first": 1 << 32, "length": 4 * places, "size": 4, "pattern": "irregular"}
    load = program.access(block, updates, **where)
    store = program.access(block, updates, is_store=True, **where)
    program.operations[store] = msgspec.structs.replace(program.operations[store], repeated=again)
    program.idiom(block, IdiomKind.GATHER, [load])
    program.idiom(block, IdiomKind.SCATTER, [store])
    return program.signature()


def atomics(**rates):
    device = gpu()
    return with_changes(
        device, accelerator=AcceleratorTable(source={}, atomics_per_s=1e9, same_address_atomics_per_s=1e6, **rates)
    )


def test_updates_of_many_places_are_atomics_in_the_second_cache():
    (one,) = triage(bins(1 << 24), measured_host(), atomics()).instances
    assert one.bound_by == "atomics"
    assert one.idiom == "gather+scatter"
    assert one.cost.kernel_s == pytest.approx((1 << 22) / 1e9)


def test_updates_of_few_places_go_to_a_copy_of_each_multiprocessor():
    """16 places of 1e6 updates a second on each of 100 multiprocessors, whose 1600 copies are added up; at the slow end
    nobody has written that."""
    (one,) = triage(bins(16), measured_host(), atomics()).instances
    assert one.cost.kernel_s == pytest.approx((1 << 22) / 16 / 1e8 + 1600 / 1e9)
    assert one.accelerator_high_s == pytest.approx((1 << 22) / 16 / 1e6 + 1e-5)


def test_uneven_updates_count_as_those_of_fewer_places():
    """Half of the updates hit the place of the one before, as of two places that are hit evenly."""
    (one,) = triage(bins(16, again=1 << 21), measured_host(), atomics()).instances
    assert one.cost.kernel_s == pytest.approx((1 << 22) / 2 / 1e8 + 200 / 1e9)


def threaded_host(cores=8):
    host = measured_host()
    return with_changes(host, core=with_changes(host.core, cores=cores))


def test_a_loop_ends_as_port_thread_or_leave():
    tree, _, loop = nest(inner=1 << 20, flops=100)
    signature = with_flow(tree, [(OUTSIDE, [loop], 8 << 20)])
    slow_link = gpu(shared_memory=False, to_device_bytes_per_s=1e5, from_device_bytes_per_s=1e5)
    answers = {}
    for cores, device in ((1, gpu()), (8, slow_link), (1, slow_link)):
        report = triage(signature, threaded_host(), device, host_cores=cores)
        answers[cores, device.link.shared_memory] = report.instances[0].answer
    assert answers == {(1, True): Answer.PORT, (8, False): Answer.THREAD, (1, False): Answer.LEAVE}


def test_threads_gain_no_more_than_cores():
    tree, _, loop = nest(inner=1 << 20, flops=100)
    signature = with_flow(tree, [(OUTSIDE, [loop], 8 << 20)])
    report = triage(signature, threaded_host(), gpu(**OWN_MEMORY), host_cores=8)
    assert report.program.host_s / 8 <= report.program.threads_s < report.program.host_s / 4


def test_policies_are_compared_and_the_plan_is_the_fastest():
    tree, _, loop = nest(inner=1 << 20, flops=100)
    report = triage(with_flow(tree, [(OUTSIDE, [loop], 8 << 20)]), measured_host(), gpu(**OWN_MEMORY))
    times = {one.policy: one.time_s for one in report.policies}
    assert set(times) == {"never", "always", "threshold", "greedy", "plan"}
    assert times["plan"] == min(times.values()) == report.program.after_s
    assert times["never"] == pytest.approx(report.program.host_s)


@pytest.mark.parametrize("policy", list(Policy))
def test_a_replay_goes_by_each_policy(policy):
    tree, _, loop = nest(inner=1 << 20, flops=100)
    signature = with_flow(tree, [(OUTSIDE, [loop], 8 << 20)])
    alone = replay_on(signature, threaded_host())
    replayed = replay_on(signature, threaded_host(), offloading=Offloading(gpu(**OWN_MEMORY), 1, policy))
    assert replayed.makespan_s <= alone.makespan_s * (1 + 1e-9)
    assert (replayed.makespan_s < alone.makespan_s / 2) == (policy is not Policy.NEVER)


def test_several_accelerators_make_a_matrix_with_the_best_for_each_loop():
    tree, _, loop = nest(inner=1 << 20, flops=100)
    signature = with_flow(tree, [(OUTSIDE, [loop], 8 << 20)])
    near = gpu("near")
    far = gpu("far", shared_memory=False, to_device_bytes_per_s=1e5, from_device_bytes_per_s=1e5)
    found = foretrace.triage(signature, measured_host(), far, near)
    assert found.best.accelerator == "near"
    for row in found.rows:
        assert row.best == "near"
        assert row.accelerator_s["near"] < row.host_s < row.accelerator_s["far"]
    assert set(found.to_dataframe()["best"]) == {"near"}
    with pytest.raises(TypeError):
        foretrace.triage(signature, measured_host())


def test_what_is_wrong_is_said_in_one_line():
    tree, _, loop = nest()
    signature = with_flow(tree, [(OUTSIDE, [loop], 8)])
    device = gpu()
    with pytest.raises(PredictionError, match="rates of arithmetic are missing"):
        triage(signature, measured_host(), with_changes(device, core=None))
    with pytest.raises(PredictionError, match=r"\[link\] is missing"):
        triage(signature, measured_host(), with_changes(device, link=None))
    with pytest.raises(PredictionError, match=r"link\.to_device_bytes_per_s is missing"):
        triage(signature, measured_host(), gpu(shared_memory=False))
    with pytest.raises(PredictionError, match="no loop, call or array operation"):
        triage(signature, measured_host(), device, explain="nowhere.c:1")
    with pytest.raises(PredictionError, match="has 8 cores, not 9"):
        checked_cores(threaded_host(), 9)
    with pytest.raises(PredictionError, match=r"core\.cores is missing"):
        checked_cores(measured_host(), None)


def test_signatures_without_data_flow_or_tree_are_told_to_be_traced_again():
    tree, _, _ = nest()
    signature = tree.signature()
    for given in (signature, replace(signature, tree=None)):
        report = triage(given, measured_host(), gpu(**OWN_MEMORY))
        assert any("trace the program again" in warning for warning in report.warnings)
        assert report.instances


def test_explanations_hold_the_arithmetic():
    tree, _, loop = nest(inner=1 << 22, flops=0)
    report = triage(with_flow(tree, [(OUTSIDE, [loop], 8)]), measured_host(), gpu(), explain="loop")
    text = "\n".join(report.explained[0].explanation)
    for words in ("memory bandwidth: 64 MiB at", "launches: 1 x 10 µs", "the memory is shared", "<- the kernel's time"):
        assert words in text
    assert report.instances[0].flip
    assert np.isfinite(report.instances[0].break_even_launch_s)


def update(*, in_place):
    """y[i] += x[i], or z[i] = x[i] + y[i], 8 MiB each."""
    tree = Tree()
    loop = tree.loop(tree.call(tree.thread(), "main"), MIB)
    block = tree.does(loop, MIB, instructions=4)
    for first, is_store in ((1 << 40, False), (1 << 41, False), (1 << 41 if in_place else 1 << 42, True)):
        tree.program.access(block, MIB, (MIB // 8,) * 2, size=8, first=first, length=8 * MIB, is_store=is_store)
    return work_for(HostRun.of(Workload.of(with_flow(tree, [])), measured_host()), Device.of(gpu()))


@pytest.mark.parametrize("in_place", [False, True])
def test_an_array_that_is_read_and_written_moves_twice(in_place):
    """Granules of 32 bytes: loads miss each once. A store into what was just loaded hits, and is written back."""
    work = update(in_place=in_place)
    executions, size, unit = np.full(3, float(MIB)), np.full(3, 8.0), np.ones(3)
    granules = MIB / 4
    misses = np.array([granules, granules, 0.0 if in_place else granules])[:, None]
    back = written_back(work, misses, executions, size, unit, 32.0)[:, 0]
    assert back == pytest.approx([0, 0, 8 * MIB if in_place else 0])
    nothing_fetched = written_back(work, 0 * misses, executions, size, unit, 32.0)
    assert not nothing_fetched.any(), "what stays in a cache goes nowhere"


@pytest.mark.parametrize(
    ("given", "threads", "least"),
    [
        ({"outer": 1000}, 1000 * 500, "3.2 k"),  # a warp on each of 100 multiprocessors
        ({"outer": 1000, "stores": False}, 1000, None),  # sums over the same data
        ({"outer": 50, "stores": False}, 50 * 32, "50"),  # too few of them: a warp shares a sum
        ({"outer": 5000, "called": True}, 5000, None),
        ({"outer": 1000, "called": True}, 1000 * 500, "3.2 k"),
    ],
)
def test_fewer_loops_of_a_nest_may_be_divided(given, threads, least):
    """Independent iterations, 500 inside each of an outer loop's."""
    tree, around, loop = nest(inner=500, flops=100, **given)
    signature = examined(with_flow(tree, []), around, loop)
    (one, *_) = triage(signature, measured_host(), gpu(), explain="loop").explained
    assert one.threads == threads
    text = " ".join(one.explanation)
    if least is None:
        assert "(at least" not in text
        assert one.accelerator_low_s < 0.5 * one.accelerator_s, "the fast end divides both loops"
    else:
        assert f"(at least {least})" in text
        assert one.accelerator_high_s > 2 * one.accelerator_s


@pytest.mark.parametrize(("rows", "threads"), [(1, 1000), (100, 1000), (200, 1000 * 32), (1000, 1000 * 32)])
def test_a_warp_shares_a_sum_over_data_of_its_own(rows, threads):
    """1000 sums of 500 numbers each, which read `rows` different rows. A warp shares each sum unless eight or more sums
    read the same row."""
    tree, around, loop = nest(outer=1000, inner=500, stores=False)
    signature = examined(with_flow(tree, [], [([loop], rows * 500 * 8)]), around, loop)
    (one, *_) = triage(signature, measured_host(), gpu(), explain="loop").explained
    assert one.threads == threads


def test_what_is_assumed_of_loops_is_said_once():
    tree, _, loop = nest(outer=1, inner=1 << 20)
    report = triage(with_flow(tree, [(OUTSIDE, [loop], 8 << 20)]), measured_host(), gpu())
    (one,) = report.instances
    assert one.what == "assumed parallel"
    assert sum("--dependences" in text for text in (*report.warnings, one.reason, one.flip)) == 1


def test_a_loop_inside_a_serial_one_says_so():
    tree, around, loop = nest(outer=1 << 16, inner=16)
    signature = examined(with_flow(tree, []), around, loop, dependences=[recurrence(around)])
    (one,) = triage(signature, measured_host(), gpu(), explain="loop").explained[-1:]
    assert one.answer is Answer.LEAVE
    assert "which is serial (recurrence through register xmm0, distance 1)" in one.reason


@pytest.mark.parametrize(
    ("bytes_per_s", "last_range", "granule_bytes"),
    [(5e11, 1 << 30, 32), (3.1e11, 1 << 28, 64), (1.7e11, 1 << 28, 128), (5e10, 1 << 28, 256), (1.7e11, 1 << 23, 32)],
)
def test_what_a_random_access_moves_is_what_the_measured_curve_leaves_of_the_bandwidth(
    bytes_per_s, last_range, granule_bytes
):
    """A gather counts 20 bytes, of which 12 stream at 1 TB/s. A curve within the caches, of 8 MiB, tells nothing."""
    points = (CurvePoint(1 << 10, 1e12), CurvePoint(last_range, bytes_per_s))
    curve = GatherScatterCurve(("gather",), "s", points=points, index_mode=IndexMode.RANDOM)
    device = Device.of(msgspec.structs.replace(gpu(), gather_scatter=(curve,)))
    assert device.rates is not None
    assert device.rates.granule_bytes == granule_bytes
    assert any("beyond its caches" in one.text for one in device.assumptions) == (last_range == 1 << 23)
