"""Predictions by number of threads: closed forms, limits, the command's faces, bad input."""

import json
from dataclasses import replace

import pytest
from command_line import run
from replay_samples import Program, measured_host, with_changes
from tree_samples import Tree

from foretrace.base.errors import PredictionError
from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.library import find
from foretrace.profiles.points import Movement, ThreadPoint
from foretrace.replay.base.ranking import ranks
from foretrace.replay.base.records import Limit, Model
from foretrace.replay.node.predictions import predict_each, predict_on
from foretrace.replay.node.replay import replay_on
from foretrace.replay.node.speedup import predict_threads
from foretrace.replay.prediction.predict import predict
from foretrace.tracer.signature.file import write_signature
from foretrace.tracer.signature.records import SimulatedHierarchy

STEP_S = 1000e-9
"""Of a thousand instructions at one a cycle of 1 GHz."""


def host(*bandwidths, cores=4):
    base = measured_host()
    core = with_changes(base.core, cores=cores, source={**base.core.source, "cores": "here"})
    points = tuple(ThreadPoint(Movement.LOAD, n, 1 << 20, b, "here") for n, b in enumerate(bandwidths, 1))
    return with_changes(base, core=core, thread_bandwidth=points)


def team(works, serial=0, spins=0):
    """Serial steps, then a parallel region; `works` are the executions of each thread."""
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    if serial:
        tree.does(main, serial)
    runtime = tree.call(main, "GOMP_parallel", module="/lib/libgomp.so.1")
    block = tree.does(tree.call(runtime, "main._omp_fn.0"), works[0])
    for number, work in enumerate(works[1:], 1):
        start = tree.call(tree.thread(number), "start", module="/lib/libgomp.so.1")
        if spins:
            tree.does(start, spins)
        tree.does(tree.call(start, "main._omp_fn.0"), work, block)
    return tree.signature()


def locked(works, inside):
    """POSIX threads, created and joined by the first; each holds one lock for `inside` steps in all."""
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    for name in ("pthread_create", "pthread_create", "pthread_join", "pthread_join"):
        tree.call(main, name)
    block = None
    for number, work in enumerate(works, 1):
        worker = tree.call(tree.thread(number), "worker")
        tree.does(worker, work)
        body = tree.loop(worker, 10)
        tree.call(body, "pthread_mutex_lock", entries=10, site=1)
        block = tree.does(tree.call(body, "update", entries=10, site=2), inside, block)
        tree.call(body, "pthread_mutex_unlock", entries=10, site=3)
    return tree.signature()


def by_threads(signature, profile, *counts):
    return {one.threads: one for one in predict_threads(signature, profile, counts)}


@pytest.mark.parametrize("signature", [team((200,), serial=7), team((120, 80), serial=7)])
def test_one_thread_is_the_prediction_to_the_last_digit(signature):
    (one,) = predict_threads(signature, host(), [1])
    assert replace(one, scaling=None) == predict(signature, host())
    assert one.scaling.speedup == one.scaling.low == one.scaling.high == 1


def test_equal_compute_bound_threads_divide_the_time():
    found = by_threads(team((100, 100)), host(), 1, 2, 4)
    assert [found[n].time_s for n in (1, 2, 4)] == pytest.approx([n * STEP_S for n in (200, 100, 50)])
    assert [found[n].scaling.speedup for n in (1, 2, 4)] == pytest.approx([1, 2, 4])
    assert found[4].scaling.limit is Limit.NONE


def test_the_time_is_the_replays():
    signature = team((100, 300), serial=50)
    for count, one in by_threads(signature, host(), 2, 3, 4).items():
        replayed = replay_on(signature, host(), threads=count)
        times = (one.time_s, one.low_s, one.high_s)
        assert times == (replayed.makespan_s, replayed.low_s, replayed.high_s)


def test_a_serial_part_bounds_as_amdahl_says():
    found = by_threads(team((100, 100), serial=200), host(), 2, 4)
    assert found[4].scaling.speedup == pytest.approx(400 / (200 + 50))
    assert found[4].scaling.limit is Limit.SERIAL
    assert found[4].scaling.lost_s[Limit.SERIAL] == pytest.approx((250 - 100) * STEP_S)


def test_imbalance_is_told_from_the_serial_part():
    one = by_threads(team((100, 300)), host(), 2)[2]
    assert one.scaling.speedup == pytest.approx(400 / 300)
    assert one.scaling.limit is Limit.IMBALANCE
    assert sum(one.scaling.lost_s.values()) == pytest.approx((300 - 200) * STEP_S)


def test_fewer_cores_than_threads_are_the_limit_and_said():
    one = by_threads(team((100, 100)), host(cores=2), 8)[8]
    assert one.scaling.speedup == pytest.approx(2)
    assert one.scaling.limit is Limit.CORES
    assert any("has 2 cores: 8 threads share them" in warning for warning in one.warnings)


def test_a_lock_serialises():
    """Two threads that do nothing but hold the same lock are as slow as one."""
    signature = locked((10, 10), inside=1000)
    one = by_threads(signature, host(), 2)[2]
    assert one.scaling.speedup == pytest.approx(1, abs=0.12)
    assert one.scaling.limit is Limit.SYNCHRONISATION


def test_memory_is_the_limit_of_streams():
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    runtime = tree.call(main, "GOMP_parallel", module="/lib/libgomp.so.1")
    lines = 1 << 20
    block = tree.does(tree.call(runtime, "main._omp_fn.0"), lines, instructions=1)
    tree.program.access(block, lines, (lines, lines), size=64, length=64 * lines)
    found = by_threads(tree.signature(), host(2e9, 3e9), 2, 4)
    demand = 32 / 33  # of what one thread gets: an instruction of 1 ns for each line of 32 ns
    assert found[2].scaling.speedup == pytest.approx((1 + 0.5 * (2 * demand - 1)) / demand)
    assert found[4].scaling.speedup == pytest.approx(1.5 / demand)
    assert found[4].scaling.limit is Limit.BANDWIDTH
    assert found[4].scaling.low <= found[4].scaling.speedup <= found[4].scaling.high


def test_spinning_is_no_work():
    found = by_threads(team((100, 100), spins=500), host(), 1, 2)
    assert [found[n].time_s for n in (1, 2)] == pytest.approx([200 * STEP_S, 100 * STEP_S])
    assert any("spun" in warning for warning in found[1].warnings)


@pytest.mark.parametrize("signature", [team((300, 100), serial=50), locked((10, 10), inside=100)])
def test_threads_are_predicted_as_they_were_traced(signature):
    """A first thread that only waits for two others is none of those that work."""
    threads = 2
    (one,) = predict_on(signature, host())
    assert (one.threads, one.cores) == (threads, min(threads, 4))
    assert one.time_s == replay_on(signature, host()).makespan_s
    assert (one,) == predict_on(signature, host(), [threads])
    (on_two,) = predict_on(signature, host(), cores=2)
    assert on_two.cores == 2
    assert on_two.time_s == replay_on(signature, host(), cores=2).makespan_s
    assert predict_on(signature, host(), cores=1) == (predict(signature, host()),)


def test_another_thread_beside_a_team_does_not_make_it_larger():
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    runtime = tree.call(main, "GOMP_parallel", module="/lib/libgomp.so.1")
    block = tree.does(tree.call(runtime, "main._omp_fn.0"), 100)
    start = tree.call(tree.thread(1), "start", module="/lib/libgomp.so.1")
    tree.does(tree.call(start, "main._omp_fn.0"), 100, block)
    tree.does(tree.call(tree.thread(2), "logger"), 10)
    (one,) = predict_on(tree.signature(), host())
    assert (one.threads, one.time_s) == (3, pytest.approx(100 * STEP_S))


@pytest.mark.parametrize("depth", [1, 1500])
def test_a_first_thread_that_works_is_one_of_them(depth):
    """However deep its calls are nested."""
    tree = Tree()
    block = None
    for number in range(2):
        node = tree.thread(number)
        for level in range(depth):
            node = tree.call(node, f"level {level}")
        block = tree.does(node, 100, block)
    (one,) = predict_on(tree.signature(), host())
    assert (one.threads, one.time_s) == (2, pytest.approx(100 * STEP_S))


def test_threads_that_wait_too_deep_are_summed_up():
    tree = Tree()
    node = tree.thread()
    for level in range(1500):
        node = tree.call(node, f"level {level}")
    tree.call(node, "pthread_create")
    tree.does(node, 100)
    tree.does(tree.call(tree.thread(1), "worker"), 100)
    (one,) = predict_on(tree.signature(), host())
    assert (one.threads, one.time_s) == (1, pytest.approx(200 * STEP_S))
    assert any("its 2 threads cannot be replayed (replay: threads wait in calls" in text for text in one.warnings)
    with pytest.raises(PredictionError, match="nested more than"):
        predict_on(tree.signature(), host(), [2])


def test_threads_that_hardly_ran_are_counted():
    tree = Tree()
    block = tree.does(tree.call(tree.thread(), "main"), 100_000)
    for number in (1, 2):
        tree.does(tree.call(tree.thread(number), "worker"), 1, block)
    for warnings in (predict_on(tree.signature(), host())[0].warnings, replay_on(tree.signature(), host()).warnings):
        assert "2 of 3 threads did less than 0.01% of the work each" in warnings


def test_one_thread_is_predicted_as_ever():
    program = Program()
    program.loop(1000, function="alone")
    for signature in (program.signature(), team((200,))):
        assert predict_on(signature, host()) == predict_on(signature, host(), cores=3) == (predict(signature, host()),)


def test_why_threads_are_summed_up_is_said():
    program = Program()
    program.loop(1000, function="alone")
    (one,) = predict_on(program.signature(threads=2), host())
    assert one.time_s == predict(program.signature(threads=2), host()).time_s
    assert any("one core doing all their work: the signature has no execution tree" in text for text in one.warnings)
    tree = Tree()
    for process in (0, 1):
        tree.does(tree.call(tree.thread(process, process), "main"), 100)
    (one,) = predict_on(tree.signature(), host())
    assert (one.threads, one.time_s) == (1, pytest.approx(200 * STEP_S))
    assert any("which of its processes ran at the same time is not known" in text for text in one.warnings)


def test_machines_that_do_not_say_how_many_cores_they_have():
    silent = with_changes(host(), core=with_changes(host().core, cores=None))
    (one,) = predict_on(team((100, 100)), silent)
    assert (one.cores, one.time_s) == (2, pytest.approx(100 * STEP_S))
    assert any("each thread is taken to have a core of its own" in str(text) for text in one.assumptions)
    assert not any(text.name == "cores" for text in predict(team((100,)), silent).assumptions)


@pytest.mark.parametrize(("cores", "message"), [(0, "--cores is 0"), (5, "has 4 cores, not 5")])
@pytest.mark.parametrize("counts", [None, [2]])
def test_cores_out_of_range(cores, message, counts):
    for signature in (team((100, 100)), team((100,))):
        with pytest.raises(PredictionError, match=message):
            predict_on(signature, host(), counts, cores)


def test_ranks_are_among_machines_with_as_many_threads():
    signature = team((100_000, 100_000))
    slow = with_changes(host(), name="slow", core=with_changes(host().core, clock_hz=1e8))
    made, refused = predict_each(signature, [slow, host()], [1, 2])
    assert not refused
    assert [(one.machine, one.threads) for one in made] == [(name, n) for name in ("slow", host().name) for n in (1, 2)]
    assert [rank.best for rank in ranks(made)] == [2, 2, 1, 1]
    made, _ = predict_each(signature, [slow, host()])
    assert [one.machine for one in made] == [host().name, "slow"]


def test_the_published_model_is_replayed_too():
    signature = team((100, 100), serial=50)
    (one,) = predict_on(signature, host(), model=Model.CONVOLUTION)
    replayed = replay_on(signature, host(), model=Model.CONVOLUTION)
    assert one.time_s == replayed.makespan_s
    assert replayed.prediction_s == predict(signature, host(), Model.CONVOLUTION).time_s


@pytest.fixture
def files(tmp_path):
    program = Program()
    program.loop(1000, function="alone")
    signatures = {"app.sig": team((100_000, 300_000), serial=50_000), "bare.sig": program.signature()}
    for name, signature in signatures.items():
        misses = signature.hierarchies[0].misses[:, [0, 1, 1]]
        simulated = tuple(SimulatedHierarchy(hierarchy_of(find(machine)).hierarchy, misses) for machine in MACHINES)
        write_signature(replace(signature, hierarchies=simulated), tmp_path / name)
    return tmp_path


MACHINES = ("epyc-milan-vm", "epyc-9654")


def command(files, *arguments, signature="app.sig"):
    return run("predict", files / signature, "--machine", MACHINES[0], *arguments)


def test_json_has_one_prediction_for_each_machine_and_count(files):
    result = command(files, "--machine", MACHINES[1], "--threads", "4,1,2,2", "--json")
    rows = json.loads(result.stdout)["predictions"]
    assert [(row["machine"], row["threads"]) for row in rows] == [
        (machine, count) for machine in MACHINES for count in (1, 2, 4)
    ]
    assert all(row["speedup_low"] <= row["speedup"] <= row["speedup_high"] for row in rows)
    assert rows[0]["speedup"] == 1 < rows[2]["speedup"]
    assert rows[2]["time_s"] < rows[0]["time_s"]
    plain = json.loads(command(files, "--cores", "1", "--json").stdout)["predictions"][0]
    assert (plain["threads"], plain["cores"]) == (1, 1)
    assert {name: rows[0][name] for name in plain if "rank" not in name} == {
        name: value for name, value in plain.items() if "rank" not in name
    }


def test_json_of_threads_as_traced(files):
    row = json.loads(command(files, "--json").stdout)["predictions"][0]
    assert (row["threads"], row["cores"]) == (2, 2)
    assert {name: row[name] for name in ("speedup", "lost_s")}
    assert row == json.loads(command(files, "--threads", "2", "--json").stdout)["predictions"][0]


def test_assumptions_of_several_machines_are_listed_if_asked_for(files):
    several = ("--machine", MACHINES[1], "--threads", "2,4")
    short, full = (command(files, *several, *more).stdout for more in ((), ("--assumptions",)))
    assert "--assumptions lists them" in short
    assert "not in the profile" not in short
    assert "--assumptions lists them" not in full
    assert f"({MACHINES[1]})" in full
    assert f"{MACHINES[1]}, {MACHINES[1]}" not in full
    assert "costs of assumptions are worked out for the traced run, on one core" in full
    one = command(files, "--threads", "2").stdout
    assert "\nassumed\n" in one
    assert f"({MACHINES[0]})" not in one


def test_text_has_a_table_and_a_curve(files):
    shown = command(files, "--threads", "1,2,4").stdout
    assert "speed-up" in shown
    assert "serial part" in shown or "imbalance" in shown
    assert "even division" in shown
    assert "one core doing all" not in shown
    assert "one core doing all" in command(files, "--threads", "1").stdout
    assert "times are of 2 threads, as traced" in command(files).stdout
    assert "--threads" not in command(files, signature="bare.sig").stdout


def test_a_picture(files):
    result = command(files, "--threads", "1,2,4", "-o", str(files / "curve.svg"))
    assert result.exit_code == 0
    assert "<svg" in (files / "curve.svg").read_text()


@pytest.mark.parametrize("counts", ["0", "two", "1,,2", "-1", "1.5", "99999999"])
def test_numbers_of_threads_that_are_none(files, counts):
    result = command(files, f"--threads={counts}")
    assert result.exit_code == 2
    assert "is no list of numbers of threads" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "curve.svg"), "give --threads"),
        (("--threads", "2", "--timing", "app.timing"), "goes with neither"),
        (("--cores", "2", "--timing", "app.timing"), "goes with neither"),
    ],
)
def test_options_that_contradict(files, arguments, message):
    result = command(files, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_curve_needs_two_points(files):
    with pytest.raises(PredictionError, match="a curve needs two"):
        command(files, "--threads", "2", "-o", files / "curve.svg")


def test_a_signature_without_a_tree_is_one_thread(files):
    assert command(files, "--threads", "1", signature="bare.sig").exit_code == 0
    with pytest.raises(PredictionError, match="no execution tree"):
        command(files, "--threads", "2", signature="bare.sig")


def test_threads_that_nothing_tells_the_work_of():
    with pytest.raises(PredictionError, match="only 1 and 2 and 3 can be predicted"):
        predict_threads(locked((10, 10), inside=100), host(), [4])
