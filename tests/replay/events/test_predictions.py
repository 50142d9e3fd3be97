"""Times for another count of an event: against the same program with that count, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from event_runs import EventRun, solver_run
from replay_samples import Program, measured_host, with_changes
from tree_samples import Tree

from foretrace.base.errors import PredictionError
from foretrace.profiles.profile import Memory
from foretrace.replay.events.predictions import EventQuestion
from foretrace.replay.node.predictions import predict_each
from foretrace.tracer.signature.event_records import EventKind, Events

NAME = "solver::iterations"


def predicted(signature, count=None, name=NAME, host=None, **options):
    (found,), refused = predict_each(
        signature, [host or measured_host()], question=EventQuestion(name, count), **options
    )
    assert not refused
    return found


def plain_time(signature):
    (found,), _ = predict_each(signature, [measured_host()])
    return found.time_s


@pytest.mark.parametrize("iterations", [12, 40, 300, 5000])
@pytest.mark.parametrize("factor", [0.5, 1, 2, 10])
def test_other_counts_take_what_a_run_with_them_takes(iterations, factor):
    parts = {"first": 700, "tail": 900}
    count = int(factor * iterations)
    found = predicted(solver_run(iterations, **parts)[0].signature(), count)
    true_s = plain_time(solver_run(count, **parts)[0].signature())
    assert found.time_s == pytest.approx(true_s, rel=0.01)
    assert found.events.ratio_low * found.events.traced_s <= true_s * 1.001
    assert found.events.ratio_high * found.events.traced_s >= true_s * 0.999
    assert found.events.ratio == pytest.approx(found.time_s / found.events.traced_s)
    assert found.low_s <= found.time_s <= found.high_s
    assert sum(loop.time_s for loop in found.loops) == pytest.approx(found.time_s)
    assert sum(found.time_by_bound_s.values()) == pytest.approx(found.time_s)
    assert sum(loop.share for loop in found.loops) == pytest.approx(1)


def test_the_traced_count_changes_nothing():
    signature = solver_run(50)[0].signature()
    (bare,), _ = predict_each(signature, [measured_host()])
    found = predicted(signature)
    assert replace(found, events=None) == bare
    assert found.events.count == found.events.traced == 50
    assert found.events.per_unit_s(found.time_s) == pytest.approx(found.time_s / 50)


def test_parts_are_the_nodes_work():
    run, nodes = solver_run(100, set_up=20_000, of_loop=300, first=1000, tail=0)
    parts = predicted(run.signature()).events.parts
    step_s = 1000e-9
    assert parts.proportional_s == pytest.approx(30_000 * step_s, rel=0.01)
    assert parts.fixed_s == pytest.approx(21_010 * step_s, rel=0.01)
    assert parts.unrecognised_s == 0
    by_node = {node.node: node for node in parts.nodes}
    assert by_node[nodes["dot"]].proportional_s == pytest.approx(10_000 * step_s, rel=0.02)
    assert by_node[nodes["dot"]].fixed_s == pytest.approx(1000 * step_s, rel=0.2)
    assert by_node[nodes["set_up"]].proportional_s == 0
    assert sum(node.time_s for node in parts.nodes) == pytest.approx(51_010 * step_s)


def growing_run(units, every=100):
    """The work of each unit is proportional to its number: nothing that one run tells of another."""
    run = EventRun(every)
    main = run.tree.call(run.tree.thread(), "main")
    loop = run.tree.loop(main, units)
    for number in range(units):
        run.runs(loop, number)
        run.counts()
    return run


def test_what_is_not_recognised_widens_the_interval():
    found = predicted(growing_run(200).signature(), 2000)
    assert found.events.parts.proportional_s == 0
    assert found.events.parts.unrecognised_s == pytest.approx(found.events.traced_s, rel=0.12)
    assert found.events.ratio_low == pytest.approx(1)
    assert found.events.ratio_high == pytest.approx(10, rel=0.12)
    assert found.events.ratio == pytest.approx(5.5, rel=0.05)


def test_small_nodes_are_judged_together():
    run, nodes = solver_run(100)
    whole = predicted(run.signature(), 1000)
    run, nodes = solver_run(100)
    found = predicted(run.signature(unsampled=(nodes["dot"], nodes["main"])), 1000)
    assert found.time_s == pytest.approx(whole.time_s, rel=1e-3)
    assert {node.node: node for node in found.events.parts.nodes}[nodes["dot"]].deviation is None


def test_code_that_no_node_has_is_not_recognised():
    run, _ = solver_run(100)
    run.tree.program.loop(50_000, instructions=1000, function="elsewhere")
    found = predicted(run.signature(), 1000)
    assert found.events.parts.unrecognised_s == pytest.approx(50_000 * 1000e-9)
    assert any(node.node is None and node.place.function == "elsewhere" for node in found.events.parts.nodes)


def test_pages_that_the_first_unit_maps_are_mapped_once():
    run, nodes = solver_run(100)
    signature = run.signature()
    host = measured_host()
    found = predicted(signature, 1000, host=host)
    block = int(signature.tree.work_block[signature.tree.work_node == nodes["loop"]][0])
    program = Program()
    program.blocks, program.loops = list(signature.blocks), list(signature.loops)
    lines = 1 << 10
    program.access(block, 100 * lines, (100 * lines, lines), length=64 * lines, first=1 << 30)
    with_data = replace(program.signature(), tree=signature.tree, events=signature.events)
    pages = replace_memory(host, first_touch_page_s=1e-3)
    dear, cheap = (predicted(with_data, 1000, host=one) for one in (pages, host))
    traced_s = dear.events.traced_s - cheap.events.traced_s
    assert traced_s == pytest.approx(16e-3, rel=0.1)
    assert dear.time_s - cheap.time_s == pytest.approx(traced_s, rel=0.01)
    assert cheap.time_s > found.time_s


def replace_memory(host, **figures):
    return with_changes(host, memory=Memory(source=dict.fromkeys(figures, "here"), **figures))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("solver::iteration", "did you mean 'solver::iterations'"),
        ("nothing", "is not in the signature"),
    ],
)
def test_unknown_names(name, message):
    with pytest.raises(PredictionError, match=message):
        predicted(solver_run(50)[0].signature(), 100, name)


def test_the_library_may_be_left_out_where_one_has_the_event():
    run, _ = solver_run(50)
    signature = run.signature()
    assert predicted(signature, name="iterations").events.event == NAME
    events = (*signature.events.events, run.event(library="other"))
    both = replace(signature, events=replace(signature.events, events=events))
    with pytest.raises(PredictionError, match="several libraries have one"):
        predicted(both, name="iterations")


def changed(signature, values):
    """The same with other values of the event at the samples, by a function of them."""
    (found,) = signature.events.samples
    other = replace(found, values=np.asarray(values(found.values), np.float64))
    return replace(signature, events=replace(signature.events, samples=(other,)))


def test_a_variable_may_begin_with_another_value_than_0():
    signature = solver_run(50)[0].signature()
    moved = changed(signature, lambda values: values + 10_000)
    found, usual = predicted(moved, 10_100), predicted(signature, 100)
    assert found.events.start == 10_000
    assert found.time_s == pytest.approx(usual.time_s)
    with pytest.raises(PredictionError, match="counts from 10000 up: 9999 is no value"):
        predicted(moved, 9999)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (lambda s: replace(s, events=Events()), "no software-defined events"),
        (lambda s: replace(s, events=replace(s.events, samples=())), "what ran while it changed"),
        (lambda s: replace(s, tree=None), "no execution tree"),
        (lambda s: changed(s, lambda values: 0 * values + 7), "never changed"),
        (lambda s: changed(s, lambda values: values // 20), "different values"),
        (lambda s: changed(s, lambda values: values + np.inf), "no numbers"),
        (lambda s: changed(s, lambda values: values * np.nan), "no numbers"),
        (lambda s: changed(s, lambda values: values % 30), "fell from 29 to 0"),
    ],
)
def test_what_tells_nothing_is_refused(changes, message):
    with pytest.raises(PredictionError, match=message) as error:
        predicted(changes(solver_run(50)[0].signature()), 100)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", [EventKind.CALLBACK, EventKind.GROUP])
def test_events_without_samples_have_a_time_per_unit_alone(kind):
    run, _ = solver_run(50)
    signature = run.signature(run.event(kind=kind), is_sampled=False)
    found = predicted(signature)
    assert found.events.parts is None
    assert str(kind) in found.events.unknown
    assert found.events.per_unit_s(found.time_s) == pytest.approx(found.time_s / 50)
    with pytest.raises(PredictionError, match=f"is a {kind}"):
        predicted(signature, 100)


def test_an_event_that_was_not_read():
    run, _ = solver_run(50)
    with pytest.raises(PredictionError, match="has no value: the library was unloaded"):
        predicted(run.signature(run.event(value=None, unread="the library was unloaded")))


@pytest.mark.parametrize("count", [-1, float("inf"), float("nan")])
def test_impossible_counts(count):
    with pytest.raises(PredictionError, match="no value for it"):
        predicted(solver_run(50)[0].signature(), count)


def test_several_threads_need_one_core():
    run, _ = solver_run(50)
    run.tree.call(run.tree.thread(1), "worker")
    signature = run.signature()
    with pytest.raises(PredictionError, match="2 threads: add --cores 1"):
        predicted(signature, 100)
    assert predicted(signature, 100, cores=1).events.count == 100
    with pytest.raises(PredictionError, match="leave --threads out"):
        predicted(signature, 100, counts=(2,))


def test_several_processes_are_refused():
    run, _ = solver_run(50)
    run.tree.call(run.tree.thread(1, process=1), "child")
    signature = run.signature()
    with pytest.raises(PredictionError, match="several processes"):
        predicted(signature, 100, cores=1)
    events = (*signature.events.events, run.event(process=1))
    both = replace(signature, events=replace(signature.events, events=events))
    with pytest.raises(PredictionError, match="2 processes of the run have it"):
        predicted(both, 100, cores=1)


def test_a_signature_without_events_predicts_as_ever():
    tree = Tree()
    tree.does(tree.call(tree.thread(), "main"), 1000)
    (found,), _ = predict_each(tree.signature(), [measured_host()])
    assert found.events is None
