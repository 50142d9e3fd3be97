"""Predictions by number of threads: closed forms, limits, the command's faces, bad input."""

import json
from dataclasses import replace

import pytest
from command_line import run
from replay_samples import Program, measured_host, with_changes
from tree_samples import Tree

from foretrace.errors import PredictionError
from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.library import find
from foretrace.profiles.points import Movement, ThreadPoint
from foretrace.replay.node.replay import replay_on
from foretrace.replay.node.speedup import Limit, predict_threads
from foretrace.replay.predict import predict
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
    return {one.prediction.threads: one for one in predict_threads(signature, profile, counts)}


@pytest.mark.parametrize("signature", [team((200,), serial=7), team((120, 80), serial=7)])
def test_one_thread_is_the_prediction_to_the_last_digit(signature):
    (one,) = predict_threads(signature, host(), [1])
    assert one.prediction == predict(signature, host())
    assert one.speedup == one.low == one.high == 1


def test_equal_compute_bound_threads_divide_the_time():
    found = by_threads(team((100, 100)), host(), 1, 2, 4)
    assert [found[n].prediction.time_s for n in (1, 2, 4)] == pytest.approx([n * STEP_S for n in (200, 100, 50)])
    assert [found[n].speedup for n in (1, 2, 4)] == pytest.approx([1, 2, 4])
    assert found[4].limit is Limit.NONE


def test_the_time_is_the_replays():
    signature = team((100, 300), serial=50)
    for count, one in by_threads(signature, host(), 2, 3, 4).items():
        replayed = replay_on(signature, host(), threads=count)
        times = (one.prediction.time_s, one.prediction.low_s, one.prediction.high_s)
        assert times == (replayed.makespan_s, replayed.low_s, replayed.high_s)


def test_a_serial_part_bounds_as_amdahl_says():
    found = by_threads(team((100, 100), serial=200), host(), 2, 4)
    assert found[4].speedup == pytest.approx(400 / (200 + 50))
    assert found[4].limit is Limit.SERIAL
    assert found[4].lost_s[Limit.SERIAL] == pytest.approx((250 - 100) * STEP_S)


def test_imbalance_is_told_from_the_serial_part():
    one = by_threads(team((100, 300)), host(), 2)[2]
    assert one.speedup == pytest.approx(400 / 300)
    assert one.limit is Limit.IMBALANCE
    assert sum(one.lost_s.values()) == pytest.approx((300 - 200) * STEP_S)


def test_fewer_cores_than_threads_are_the_limit_and_said():
    one = by_threads(team((100, 100)), host(cores=2), 8)[8]
    assert one.speedup == pytest.approx(2)
    assert one.limit is Limit.CORES
    assert any("has 2 cores: 8 threads share them" in warning for warning in one.prediction.warnings)


def test_a_lock_serialises():
    """Two threads that do nothing but hold the same lock are as slow as one."""
    signature = locked((10, 10), inside=1000)
    one = by_threads(signature, host(), 2)[2]
    assert one.speedup == pytest.approx(1, abs=0.12)
    assert one.limit is Limit.SYNCHRONISATION


def test_memory_is_the_limit_of_streams():
    tree = Tree()
    main = tree.call(tree.thread(), "main")
    runtime = tree.call(main, "GOMP_parallel", module="/lib/libgomp.so.1")
    lines = 1 << 20
    block = tree.does(tree.call(runtime, "main._omp_fn.0"), lines, instructions=1)
    tree.program.access(block, lines, (lines, lines), size=64, length=64 * lines)
    found = by_threads(tree.signature(), host(2e9, 3e9), 2, 4)
    demand = 32 / 33  # of what one thread gets: an instruction of 1 ns for each line of 32 ns
    assert found[2].speedup == pytest.approx((1 + 0.5 * (2 * demand - 1)) / demand)
    assert found[4].speedup == pytest.approx(1.5 / demand)
    assert found[4].limit is Limit.BANDWIDTH
    assert found[4].low <= found[4].speedup <= found[4].high


def test_spinning_is_no_work():
    found = by_threads(team((100, 100), spins=500), host(), 1, 2)
    assert [found[n].prediction.time_s for n in (1, 2)] == pytest.approx([200 * STEP_S, 100 * STEP_S])
    assert any("spun" in warning for warning in found[1].prediction.warnings)


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
    plain = json.loads(command(files, "--json").stdout)["predictions"][0]
    assert plain["threads"] == 1
    assert {name: rows[0][name] for name in plain if "rank" not in name} == {
        name: value for name, value in plain.items() if "rank" not in name
    }


def test_text_has_a_table_and_a_curve(files):
    shown = command(files, "--threads", "1,2,4").stdout
    assert "speed-up" in shown
    assert "serial part" in shown or "imbalance" in shown
    assert "even division" in shown
    assert "one core doing all" not in shown
    assert "one core doing all" in command(files, "--threads", "1").stdout
    assert "traced with 2 threads: --threads 2" in command(files).stdout
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
    [(("-o", "curve.svg"), "give --threads"), (("--threads", "2", "--model", "convolution"), "goes with neither")],
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
