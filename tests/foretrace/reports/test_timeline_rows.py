"""Rows of a replay: equal threads are one with a count, and the bars of a picture have no holes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from command_line import run
from replay_samples import Program, measured_host

from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.library import find
from foretrace.replay.engine.outcome import KINDS, SEGMENT
from foretrace.replay.node.replay import replay_on
from foretrace.reports.plots import gantt, timeline_groups
from foretrace.reports.replay_groups import groups_of, name_of
from foretrace.reports.timeline_bars import IDLE, NOT_KEPT, Bar, bars_of
from foretrace.tracer.signature.file import write_signature
from foretrace.tracer.signature.records import SimulatedHierarchy

NUMBERS = {name: number for number, name in KINDS.items()}


def segments(*spans):
    return np.array([(0, 0, NUMBERS[kind], -1, start, end, 1) for start, end, kind in spans], SEGMENT)


def streaming():
    program = Program()
    block = program.loop(1 << 16, instructions=1, function="stream")
    program.access(block, 1 << 16, (1 << 16, 1 << 16), size=64, length=64 << 16)
    return program.signature()


@pytest.mark.parametrize(
    ("names", "name"),
    [
        (["job 0 thread 0"], "job 0 thread 0"),
        ([f"job {job} thread 0" for job in range(128)], "job 0-127 thread 0"),
        ([f"job {job} thread {one}" for job in range(3) for one in (1, 2, 4)], "job 0-2 thread 1-2, 4"),
        (["job 0 thread 1", "job 0 member 2", "job 0 member 3"], "job 0 thread 1, member 2-3"),
        (["job 0", "job 1", "job 3"], "job 0-1, 3"),
        (["job 0 thread 0", "job 1 thread 1"], "job 0 thread 0 and 1 more"),
        (["first", "second", "third"], "first and 2 more"),
    ],
)
def test_one_name_for_several_threads(names, name):
    assert name_of(names) == name


def test_threads_of_one_key_are_one_group_in_the_order_of_the_first():
    groups = groups_of(["job 0 thread 0", "job 1 thread 0", "job 2 thread 0"], lambda number: number % 2)
    assert [(group.title, group.members) for group in groups] == [
        ("job 0, 2 thread 0  x2", (0, 2)), ("job 1 thread 0", (1,)),
    ]  # fmt: skip


def test_equal_copies_are_one_row_and_json_has_all(tmp_path):
    signature = streaming()
    caches = hierarchy_of(find("epyc-milan-vm")).hierarchy
    simulated = SimulatedHierarchy(caches, signature.hierarchies[0].misses[:, [0, 1, 1]])
    write_signature(replace(signature, hierarchies=(simulated,)), tmp_path / "s.sig")
    result = run("replay", str(tmp_path / "s.sig"), "--machine", "epyc-milan-vm", "--copies", "2")
    rows = [line for line in result.stdout.splitlines() if line.startswith("job ")]
    assert len(rows) == 1
    assert rows[0].startswith("job 0-1  x2 ")
    result = run("replay", str(tmp_path / "s.sig"), "--machine", "epyc-milan-vm", "--copies", "2", "--json")
    assert result.stdout.count('"kind": "thread"') == 2


@pytest.mark.parametrize("most", [1000, 16])
def test_bars_follow_each_other_from_the_start_to_the_end(most):
    """Exact where there are few segments; else columns of the kind that most of each is of."""
    short = [(4 + n / 100, 4 + (n + 0.7) / 100, "run") for n in range(100)]
    short += [(4 + (n + 0.7) / 100, 4 + (n + 1) / 100, "lock") for n in range(100)]
    bars = bars_of(segments((1.0, 2.0, "run"), (2.0, 4.0, "barrier"), *short), 8.0, most, end_s=5.0)
    assert bars[0].start_s == 0.0
    assert bars[-1].end_s == 8.0
    assert all(before.end_s == after.start_s for before, after in pairwise(bars))
    assert all(before.kind != after.kind for before, after in pairwise(bars))
    assert [bar.kind for bar in bars[:3]] == [IDLE, "run", "barrier"]
    assert bars[-1] == Bar(5.0, 8.0, IDLE)
    ran = sum(bar.end_s - bar.start_s for bar in bars if bar.kind == "run")
    assert ran == pytest.approx(1.7 if most == 1000 else 2.0)


def test_segments_that_were_not_kept_are_no_idle_time():
    bars = bars_of(segments((0.0, 1.0, "run")), 4.0, 100, end_s=3.0, are_all=False)
    assert [(bar.start_s, bar.end_s, bar.kind) for bar in bars] == [
        (0.0, 1.0, "run"), (1.0, 3.0, NOT_KEPT), (3.0, 4.0, IDLE),
    ]  # fmt: skip


def test_the_picture_has_one_row_for_equal_copies_and_the_makespans_interval():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    replay = replay_on(streaming(), measured_host(), copies=3)
    assert [group.title for group in timeline_groups(replay)] == ["job 0-2  x3"]
    axes = gantt(figure.add_subplot(), replay)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["job 0-2  x3"]
    span = next(line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_ydata()[0] < 0)
    assert span.get_xdata()[0] == replay.low_s
    assert span.get_xdata()[1] == min(replay.high_s, 1.5 * replay.makespan_s)
    assert any(list(line.get_xdata()) == [replay.makespan_s] * 2 for line in axes.lines)
    (row,) = axes.collections
    spans = sorted((path.get_extents().x0, path.get_extents().x1) for path in row.get_paths())
    assert spans[0][0] == 0
    assert spans[-1][1] == pytest.approx(replay.makespan_s)
