"""Replays on a machine: the convolution, copies that share memory and caches, policies, records, bad input."""

import gzip
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from command_line import run
from replay_samples import Program, accelerator, gather_into, gather_program, measured_host, with_changes
from tree_samples import Tree

from foretrace.base.errors import ForetraceError, OutputError, PredictionError
from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.library import find
from foretrace.profiles.points import Movement, ThreadPoint
from foretrace.profiles.profile import Memory
from foretrace.replay.memory.bandwidth import MemoryBandwidth
from foretrace.replay.node.machine_run import Offloading
from foretrace.replay.node.replay import replay_on
from foretrace.replay.offload.policy import Policy
from foretrace.replay.offload.triage import triage
from foretrace.replay.prediction.predict import predict
from foretrace.tracer.signature.file import read_signature, write_signature
from foretrace.tracer.signature.records import OperationKind, SimulatedHierarchy


def curve(*bandwidths, movement=Movement.LOAD):
    return tuple(ThreadPoint(movement, n, 1 << 20, b, "here") for n, b in enumerate(bandwidths, 1))


def host(*bandwidths, cores=4, **changes):
    """The sample host with `cores` cores, and what its memory gives to 1, 2, ... threads."""
    base = measured_host(**changes)
    core = with_changes(base.core, cores=cores, source={**base.core.source, "cores": "here"})
    return with_changes(base, core=core, thread_bandwidth=curve(*bandwidths))


def streaming(lines=1 << 20):
    """A loop whose every access misses both caches: nothing else takes time."""
    program = Program()
    block = program.loop(lines, instructions=1, function="stream")
    program.access(block, lines, (lines, lines), size=64, length=64 * lines)
    return program.signature()


def computing(iterations=1 << 20):
    program = Program()
    program.loop(iterations, instructions=4, computes=[(OperationKind.FP_MUL, 4)], function="compute")
    return program.signature()


@pytest.mark.parametrize("signature", [streaming(), computing(), gather_program(1 << 20, flops=2)])
def test_one_copy_is_the_prediction_to_the_last_digit(signature):
    profile = host(2e9, 3e9)
    replayed = replay_on(signature, profile)
    assert replayed.makespan_s == predict(signature, profile).time_s
    assert replayed.low_s <= replayed.makespan_s <= replayed.high_s
    assert sum(part.time_s for part in replayed.critical_path) == pytest.approx(replayed.makespan_s)


def test_compute_bound_copies_need_cores_only():
    alone_s = replay_on(computing(), host(2e9)).makespan_s
    for copies, cores, times in ((2, 2, 1), (2, 1, 2), (4, 2, 2), (3, 4, 1)):
        replayed = replay_on(computing(), host(2e9), copies=copies, cores=cores)
        assert replayed.makespan_s == pytest.approx(times * alone_s)
        assert replayed.alone_s == pytest.approx(alone_s)
        assert any("share" in warning for warning in replayed.warnings) == (copies > cores)


def test_bandwidth_bound_copies_take_the_profiles_curve():
    """One thread gets all that a thread can get of memory: n of them get what n were measured to get."""
    bandwidths = (2e9, 3e9, 3.5e9)
    profile = host(*bandwidths)
    alone = replay_on(streaming(), profile)
    full = next(use for use in alone.resources if use.kind == "memory")
    demand = full.amount / alone.makespan_s / bandwidths[0]  # of what one thread can get
    assert 0.9 < demand <= 1
    for copies in (2, 3, 4):
        replayed = replay_on(streaming(), profile, copies=copies)
        users = demand * copies
        capacity = np.interp(users, [1, 2, 3], bandwidths)
        assert replayed.makespan_s == pytest.approx(alone.makespan_s * users * bandwidths[0] / capacity)


def test_half_of_the_cores_suffice_where_memory_is_the_limit():
    shorter = {one.change: one.speedup for one in replay_on(streaming(), host(2e9, 2e9), copies=4).shorter}
    assert shorter["twice the cores"] == pytest.approx(1.0)
    assert shorter["twice the memory bandwidth"] == pytest.approx(2.0, rel=0.1)
    shorter = {one.change: one.speedup for one in replay_on(computing(), host(2e9, 2e9), copies=8).shorter}
    assert shorter["twice the cores"] == pytest.approx(2.0)
    assert shorter["twice the memory bandwidth"] == pytest.approx(1.0)


def test_without_a_curve_the_published_peak_is_shared_and_said():
    profile = with_changes(
        host(), thread_bandwidth=(), memory=Memory(source={}, first_touch_page_s=1e-30, peak_bandwidth_bytes_per_s=3e9)
    )
    replayed = replay_on(streaming(), profile, copies=4)
    assert any("share the peak bandwidth, 3 GB/s" in str(assumption) for assumption in replayed.assumptions)
    alone_s = replay_on(streaming(), profile).makespan_s
    assert replayed.makespan_s == pytest.approx(4 * alone_s * 2 / 3, rel=0.2)
    factor = replay_on(streaming(), profile).high_s / alone_s
    half = 2e9  # of 3 GB/s, but no less than one thread gets
    assert replayed.high_s == pytest.approx(replayed.makespan_s * factor * 3e9 / half, rel=0.01)
    silent = with_changes(host(), thread_bandwidth=())
    replayed = replay_on(streaming(), silent, copies=4)
    assert any("as if it were alone" in str(assumption) for assumption in replayed.assumptions)
    assert replayed.makespan_s == pytest.approx(alone_s)


def test_curves_of_loads_and_stores_are_mixed():
    profile = with_changes(host(), thread_bandwidth=curve(2e9, 4e9) + curve(1e9, 1e9, movement=Movement.STORE))
    bandwidth = MemoryBandwidth.of(profile, 1e9, 4)
    assert bandwidth.points(0.0) == (2e9, 4e9)
    assert bandwidth.points(1.0) == (2e9, 2e9)
    assert bandwidth.points(0.5)[1] == pytest.approx(2e9 / (0.5 / 2 + 0.5 / 1))
    assert bandwidth.scaled(2).points(0.0) == (2e9, 4e9, 6e9, 8e9)
    assert any("measured for 2 threads" in str(assumption) for assumption in bandwidth.assumptions)


def loops(count=3):
    """Gathers over ranges of 4 KiB, 64 KiB and 1 MiB, the last one the only one that an accelerator is good for."""
    program = Program()
    for number in range(count):
        block = program.loop(1 << 16, instructions=4, function=f"gather {number}")
        gather_into(program, block, 1 << 16, 1 << (12 + 4 * number), base=number << 44)
    return program.signature()


def test_policies():
    profile, device = host(2e9, 3e9), accelerator(gb_per_s=10.0, minimum=1 << 14)
    never, always, threshold, greedy, plan = (
        replay_on(loops(), profile, offloading=Offloading(device, 1, policy)) for policy in Policy
    )
    assert [sum(d.offload for d in r.decisions) for r in (never, always, threshold)] == [0, 2, 2]
    assert never.makespan_s == predict(loops(), profile).time_s
    assert greedy.makespan_s <= never.makespan_s
    assert plan.makespan_s <= min(greedy.makespan_s, never.makespan_s, always.makespan_s)
    assert greedy.makespan_s == pytest.approx(triage(loops(), profile, device).program.after_s)


def test_a_plan_moves_what_greed_leaves():
    """Two loops share data: the first one alone does not pay for its transfer, both together do."""
    program = Program()
    for number in range(2):
        block = program.loop(1 << 16, instructions=4, function=f"gather {number}")
        gather_into(program, block, 1 << 16, 1 << 20)
    signature, profile = program.signature(), host(2e9)
    link = {"shared_memory": False, "from_device_bytes_per_s": 1e12, "transfer_latency_s": 0.0}
    alone_s = replay_on(signature, profile).makespan_s / 2
    device = None
    for bandwidth in np.geomspace(1e7, 1e11, 60):
        device = accelerator(gb_per_s=1000.0, to_device_bytes_per_s=float(bandwidth), **link)
        costs = [d.cost for d in replay_on(signature, profile, offloading=Offloading(device)).decisions]
        if alone_s < costs[0].total_s < 1.5 * alone_s:
            break
    greedy, plan = (
        replay_on(signature, profile, offloading=Offloading(device, 1, p)) for p in (Policy.GREEDY, Policy.PLAN)
    )
    assert greedy.makespan_s == pytest.approx(2 * alone_s)
    assert plan.makespan_s < 0.95 * greedy.makespan_s


def test_copies_queue_at_one_accelerator():
    device = accelerator(gb_per_s=3.0)
    one, two = (
        replay_on(loops(), host(2e9, 4e9, 6e9, 8e9), copies=4, offloading=Offloading(device, count, Policy.ALWAYS))
        for count in (1, 4)
    )
    assert two.makespan_s < one.makespan_s
    assert sum(use.waits for use in one.resources if use.kind == "accelerator") > 0
    assert {one.change for one in one.shorter} >= {"twice the accelerators"}


def test_frames():
    replayed = replay_on(streaming(), host(2e9, 3e9), copies=2)
    entities, resources, timeline = replayed.entities_frame, replayed.resources_frame, replayed.timeline_frame
    assert list(entities["name"]) == ["job 0", "job 1"]
    assert (entities["busy_s"] + entities["wait_s"]).tolist() == pytest.approx(entities["end_s"].tolist())
    assert list(resources["name"]) == ["cores", "memory"]
    assert resources["utilisation"].between(0, 1 + 1e-9).all()
    assert list(timeline["activity"]) == ["stream program.c:1"] * 2
    assert timeline["end_s"].max() == replayed.makespan_s


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cores": 0}, "--cores is 0, must be at least 1"),
        ({"copies": 0}, "--copies is 0"),
        ({"copies": 10**9}, "at most 10,000"),
        ({"threads": 0}, "--threads is 0"),
        ({"cores": 5}, "has 4 cores, not 5"),
        ({"threads": 2}, "cannot replay 2 threads of a program traced with 1: the signature does not say"),
        ({"offloading": Offloading(accelerator(), 0)}, "--accelerators is 0"),
        ({"offloading": Offloading(host(2e9))}, "is a host, not an accelerator"),
        ({"offloading": Offloading(with_changes(accelerator(), gather_scatter=()))}, "gather_scatter is missing"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(PredictionError, match=message) as caught:
        replay_on(streaming(), host(2e9), **options)
    assert "\n" not in str(caught.value)


def test_an_accelerator_runs_no_program_alone():
    with pytest.raises(PredictionError, match="runs no program alone"):
        replay_on(streaming(), accelerator())


# ---- the command ----


@pytest.fixture
def files(tmp_path):
    """A signature that has the caches of a shipped host of two cores simulated."""
    signature = loops()
    hierarchy = hierarchy_of(find("epyc-milan-vm")).hierarchy
    misses = signature.hierarchies[0].misses[:, [0, 1, 1]]
    simulated = (SimulatedHierarchy(hierarchy, misses),)
    write_signature(replace(signature, hierarchies=simulated), tmp_path / "loops.sig")
    return tmp_path


def command(files, *arguments):
    return run("replay", files / "loops.sig", "--machine", "epyc-milan-vm", *arguments)


def test_json(files):
    document = json.loads(command(files, "--copies", 3, "--accelerator", "convey-hc1-fpga", "--json").stdout)
    assert document["schema"] == "foretrace.replay/1"
    assert {"makespan_s", "low_s", "high_s", "entities", "resources", "critical_path", "decisions"} <= set(document)
    assert [entity["name"] for entity in document["entities"]] == ["job 0", "job 1", "job 2"]
    assert {"name", "kind", "busy_s", "wait_s", "end_s"} <= set(document["entities"][0])
    assert {"name", "kind", "utilisation"} <= set(document["resources"][0])
    assert len(document["decisions"]) == 9
    assert document["cores"] == 2
    assert any("3 threads share 2 cores" in warning for warning in document["warnings"])


def test_text(files):
    text = command(files, "--copies", 2).stdout
    assert "2 copies on 2 cores" in text
    for part in (
        "one copy alone takes",
        "critical path",
        "what would shorten it",
        "twice the cores",
        "job 0-1  x2",
        "memory",
    ):
        assert part in text
    text = command(files, "--accelerator", "convey-hc1-fpga", "--policy", "always").stdout
    assert "1 of 3 decisions sent a loop to convey-hc1-fpga (always)" in text


def test_timeline_for_trace_viewers(files):
    out = files / "timeline.json.gz"
    assert command(files, "--copies", 2, "--cores", 1, "-o", out).exit_code == 0
    document = json.loads(gzip.decompress(out.read_bytes()))
    events = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert len(events) == 6
    for thread in {event["tid"] for event in events}:
        own = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event["tid"] == thread)
        assert all(start >= end for (_, end), (start, _) in pairwise(own))
    assert document["otherData"]["segments_left_out"] == 0
    before = out.read_bytes()
    with pytest.raises(OutputError, match="exists"):
        command(files, "-o", out)
    assert command(files, "--copies", 2, "--cores", 1, "-o", out, "--force").exit_code == 0
    assert out.read_bytes() == before


def test_pictures(files):
    out = files / "timeline.svg"
    assert command(files, "-o", out, "-o", files / "timeline.png").exit_code == 0
    assert "job 0" in out.read_text()
    assert (files / "timeline.png").read_bytes().startswith(b"\x89PNG")


def test_a_long_timeline_is_capped_and_said():
    replayed = replay_on(loops(), host(2e9), copies=8, most_segments=5)
    assert len(replayed.outcome.segments) == 5
    assert any("the timeline holds 5 segments; 19 more are left out" in warning for warning in replayed.warnings)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--cores", 0), "--cores is 0, must be at least 1"),
        (("--accelerator", "no-such-thing"), "no-such-thing"),
        (("-o", "timeline.txt"), "must end in"),
        (("--threads", 3), "cannot replay 3 threads"),
    ],
)
def test_commands_that_are_wrong_say_so(files, arguments, message):
    with pytest.raises(ForetraceError, match=message):
        command(files, *arguments)


def test_a_policy_needs_an_accelerator(files):
    result = command(files, "--policy", "always")
    assert result.exit_code == 2
    assert "name it with --accelerator" in result.stderr


def test_caches_of_copies():
    """Copies that share the last cache take no less time than one that has it; with caches of their own, as long."""
    profile = host(2e9, 4e9)
    last = with_changes(profile.caches[-1], shared_by_cores=1)
    own = with_changes(profile, caches=(*profile.caches[:-1], last))
    alone_s = replay_on(loops(), own).makespan_s
    assert replay_on(loops(), own, copies=2).makespan_s == pytest.approx(alone_s)
    shared = replay_on(loops(), profile, copies=2)
    assert any("no reuse distances" in str(assumption) for assumption in shared.assumptions)


def test_the_package_can_be_called(files):
    """`foretrace.replay(...)`, with what is given by name or as a record."""
    import foretrace.replay

    by_name = foretrace.replay(files / "loops.sig", "epyc-milan-vm", copies=2)
    signature = read_signature(files / "loops.sig")
    assert foretrace.replay(signature, find("epyc-milan-vm"), copies=2).makespan_s == by_name.makespan_s
    offloaded = foretrace.replay(signature, "epyc-milan-vm", accelerator="convey-hc1-fpga", policy="never")
    assert (offloaded.policy, offloaded.accelerator) == ("never", "convey-hc1-fpga")
    with pytest.raises(PredictionError, match="policy 'perhaps' is not known"):
        foretrace.replay(signature, "epyc-milan-vm", accelerator="convey-hc1-fpga", policy="perhaps")


def test_the_examples_of_the_page_run(files, monkeypatch):
    page = Path(__file__).parents[3] / "docs" / "replay.md"
    monkeypatch.chdir(files)
    signature = read_signature(files / "loops.sig")
    simulated = []
    for name in ("epyc-9654", "epyc-7763"):
        hierarchy = hierarchy_of(find(name)).hierarchy
        simulated.append(SimulatedHierarchy(hierarchy, signature.hierarchies[0].misses))
    write_signature(replace(signature, hierarchies=tuple(simulated)), files / "app.sig")
    tree = Tree()
    runtime = tree.call(tree.call(tree.thread(), "main"), "GOMP_parallel", module="/lib/libgomp.so.1")
    tree.does(tree.call(runtime, "main._omp_fn.0"), 1000)
    team = tree.signature()
    simulated = tuple(replace(one, misses=team.hierarchies[0].misses[:, [0, 1, 1]]) for one in simulated)
    write_signature(replace(team, hierarchies=simulated), files / "team.sig")
    commands = [line[2:] for line in page.read_text().splitlines() if line.startswith("$ foretrace ")]
    assert len(commands) >= 3
    for line in commands:
        result = run(*line.split()[1:])
        assert result.exit_code == 0, line
    code = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert code
    for block in code:
        exec(block, {})
