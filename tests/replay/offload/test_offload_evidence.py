"""Evidence of offload: repetitions, buffers that are filled anew, and loops whose iterations differ within a warp."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from offload_samples import examined, gpu, nest, recurrence, with_flow
from replay_samples import measured_host
from tree_samples import Tree

from foretrace.replay.offload.devices.demand import Demand
from foretrace.replay.offload.devices.device import Device
from foretrace.replay.offload.devices.divergence import TripCounts, expected_longest
from foretrace.replay.offload.devices.evidence import Evidence, Parallel
from foretrace.replay.offload.program import work_for
from foretrace.replay.offload.triage import triage
from foretrace.replay.prediction.predict import HostRun
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.data_flow_records import OUTSIDE, Dependence, DependenceKind, ExaminedLoop
from foretrace.tracer.signature.records import OperationCount, OperationKind


@pytest.mark.parametrize(
    ("stretches", "lanes", "longest"),
    [
        ([(5, 5, 1.0)], 32, 5.0),
        ([(0, 1, 1.0)], 32, 32 / 33),  # even: lanes / (lanes + 1)
        ([(64, 127, 1.0)], 1, 95.5),
        ([(1, 1, 0.5), (64, 64, 0.5)], 2, 64 - 63 / 4),
        ([(0, 0, 0.9), (10, 20, 0.1)], 1, 1.5),
        ([(0, 0, 0.9), (100, 100, 0.1)], 32, 100 * (1 - 0.9**32)),
    ],
)
def test_the_longest_of_a_warps_lanes(stretches, lanes, longest):
    first, last, share = zip(*stretches, strict=True)
    assert expected_longest(first, last, share, lanes) == pytest.approx(longest)


def uneven(*, phases=()):
    """1,024 points, half of which take 1 iteration of a serial loop and half 64; nothing is loaded or stored."""
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    points = tree.loop(main, 1024)
    inner = tree.loop(points, 512 * 65, entries=1024)
    tree.does(inner, 512 * 65, instructions=10)
    if phases:
        tree.phases[inner] = list(phases)
    signature = with_flow(tree, [], examined_loops=(ExaminedLoop(points, 1024), ExaminedLoop(inner, 1024)),
                          dependences=(recurrence(inner),))  # fmt: skip
    least, most = (np.where(np.arange(len(signature.tree)) == inner, value, 0) for value in (1, 64))
    made = replace(
        signature.tree, least=least, most=most, histogram_node=np.array([inner, inner]),
        histogram_bucket=np.array([1, 7]), histogram_entries=np.array([512, 512]),
    )  # fmt: skip
    return replace(signature, tree=made), points


def test_a_warp_takes_as_long_as_its_longest_thread():
    """Of 32 threads one takes 64 iterations, all but certainly, where the mean is 32.5."""
    signature, points = uneven()
    counts = TripCounts(work_for(HostRun.of(Workload.of(signature), measured_host()), Device.of(gpu())))
    assert counts.imbalance(points + 1, 32.0) == pytest.approx((64 - 63 * 0.5**32) / 32.5)
    report = triage(signature, measured_host(), gpu(), explain="loop")
    assert any("the longest thread of a warp takes" in line for line in report.explained[0].explanation)


def test_what_changes_slowly_is_alike_for_neighbours():
    signature, points = uneven(phases=[(512, 512), (512, 512 * 64)])
    counts = TripCounts(work_for(HostRun.of(Workload.of(signature), measured_host()), Device.of(gpu())))
    assert counts.imbalance(points + 1, 32.0) == pytest.approx(1.0)


def repeated(*, size=8, inner=1 << 16, rounds=100, elsewhere=False):
    """`rounds` times a loop that reads an array and stores to another one: the same each time, or a part of it each."""
    tree, around, loop = nest(outer=rounds, inner=inner, flops=10)
    data = size * inner
    if elsewhere:
        for number, one in enumerate(tree.program.operations):
            tree.program.operations[number] = msgspec.structs.replace(one, last_exclusive=one.first + rounds * data)
        return tree, around, loop, rounds * data
    return tree, around, loop, data


def test_a_loop_that_stores_the_same_again_is_a_repetition():
    tree, _, _, data = repeated()
    loop = 3
    signature = with_flow(tree, [(OUTSIDE, [loop], data)], [([loop], 2 * data)])
    one, around = triage(signature, measured_host(), gpu()).instances
    assert (one.entries, one.parallel) == (100, "assumed parallel")
    assert around.parallel == "repetition"
    (outer,) = [one for one in triage(signature, measured_host(), gpu(), explain="loop").explained if one.entries == 1]
    assert outer.parallel == "repetition"


def test_recorded_output_dependences_make_a_repetition():
    tree, around, loop, data = repeated()
    overwritten = Dependence(around, DependenceKind.PRIVATISABLE, 1, 1, 99 * (1 << 16), 1, 1)
    flow = with_flow(tree, [(OUTSIDE, [loop], data)], [([loop], 2 * data)])
    for dependences, entries in (((overwritten,), 100), ((), 1)):
        kernel, *rest = triage(examined(flow, around, loop, dependences=dependences), measured_host(), gpu()).instances
        assert kernel.entries == entries
        assert [one.parallel for one in rest] == (["repetition"] if dependences else [])


def test_a_loop_whose_iterations_store_elsewhere_is_none():
    tree, _, loop, data = repeated(elsewhere=True)
    signature = with_flow(tree, [(OUTSIDE, [loop], data)], [([loop], 2 * data)])
    (one,) = triage(signature, measured_host(), gpu()).instances
    assert (one.entries, one.parallel) == (1, "assumed parallel")


def swept(*, filled):
    """Ten rows; in each a buffer is filled, or it is that of the row before, and eight passes go over it."""
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    rows = tree.loop(main, 10)
    fill = tree.loop(rows, 10 * 1024, entries=10)
    passes = tree.loop(rows, 80, entries=10)
    work = tree.loop(passes, 80 * 1024, entries=80)
    for node, times in ((fill, 10 * 1024), (work, 80 * 1024)):
        block = tree.does(node, times, instructions=1000)
        tree.program.access(block, times, first=1 << 40, length=8 * 1024)
        tree.program.access(block, times, first=1 << 40, length=8 * 1024, is_store=True)
    size = 8 * 1024
    versions = [(work, [work], (70 if filled else 79) * size)]
    versions += [(fill, [work], 10 * size)] if filled else []
    return with_flow(tree, versions, [([fill, work], size)]), rows, passes


@pytest.mark.parametrize("filled", [True, False])
def test_a_buffer_that_each_iteration_fills_is_not_handed_on(filled):
    signature, rows, passes = swept(filled=filled)
    work = work_for(HostRun.of(Workload.of(signature), measured_host()), Device.of(gpu()))
    evidence = Evidence.of(work, Demand.of(work))
    assert evidence.parallel[passes] is Parallel.NO
    assert evidence.parallel[rows] is (Parallel.ASSUMED if filled else Parallel.NO)


@pytest.mark.parametrize(("divisions", "special"), [(1, 1), (3, 3), (0, 1)])
def test_a_division_by_a_root_is_one_reciprocal_root(divisions, special):
    """One root and so many divisions: the first of them goes into the root."""
    tree, _, loop = nest(inner=1 << 20)
    (block,) = (row[1] for row in tree.work if row[0] == loop)
    counts = (
        OperationCount(OperationKind.FP_SQRT, 64, 1, 1),
        *([OperationCount(OperationKind.FP_DIV, 64, 1, divisions)] if divisions else []),
    )
    tree.program.blocks[block] = msgspec.structs.replace(tree.program.blocks[block], operations=counts)
    work = work_for(HostRun.of(Workload.of(with_flow(tree, [])), measured_host()), Device.of(gpu()))
    demand = Demand.of(work)
    assert demand.special[loop] == special * (1 << 20)
    assert demand.fp64_flops[loop] == 18 * special * (1 << 20)


@pytest.mark.parametrize(
    ("carries", "expected"),
    [
        ((), Parallel.SAMPLED),
        ((DependenceKind.REDUCTION,), Parallel.REDUCTION),
        ((DependenceKind.RECURRENCE,), Parallel.NO),
    ],
)
def test_a_loop_of_which_some_iterations_were_examined(carries, expected):
    """What was seen in windows of the run decides, and the text says in how many iterations."""
    tree, _, loop = nest(inner=1 << 20)
    found = tuple(Dependence(loop, kind, -1, -1, 10, 1, 1) for kind in carries)
    signature = replace(with_flow(tree, []), examined_loops=(ExaminedLoop(loop, 5000),), dependences=found)
    (one,) = triage(signature, measured_host(), gpu(), explain="loop").explained[-1:]
    assert one.parallel == str(expected)
    assert any("5,000" in line for line in one.explanation)
    assert any("5,000 of " in line for line in one.explanation) == (not carries)
