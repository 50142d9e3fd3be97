"""Replays of ranks beside SimGrid's own (`smpirun -replay`), on the same traces and platforms."""

import json
import shutil

import pytest
from effort import examples

from foretrace.benchmarks.peers.rank_replay import CASES, Case, irregular, platform, simgrid, write_trace
from foretrace.replay.engine.network import Crossbar, FatTree, Torus
from foretrace.replay.ranks.platform import read_platform
from foretrace.replay.ranks.run import replay_ranks
from foretrace.replay.ranks.time_independent import read_time_independent
from foretrace.replay.ranks.trace_writer import write_time_independent

pytestmark = pytest.mark.skipif(not shutil.which("smpirun"), reason="smpirun (libsimgrid-dev) is not installed")
AGREES = 0.005
"""Difference of makespans that is allowed: SimGrid's own solver rounds to 1e-5 of a rate."""


def makespans(case, lines, directory):
    trace = write_trace(lines, directory)
    theirs_s, _ = simgrid(trace, case, len(lines))
    named = {name: ours for name, (_, ours) in case.algorithms.items()}
    where = read_platform(directory / "platform.xml", "LV08")
    ours = replay_ranks(read_time_independent(trace), where, library="simgrid", algorithms=named, most_segments=0)
    return ours.makespan_s, theirs_s


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_makespans_of_the_benchmark(case, tmp_path):
    ours_s, theirs_s = makespans(case, case.lines(0.01), tmp_path)
    assert ours_s == pytest.approx(theirs_s, rel=AGREES)


TOPOLOGIES = (
    Crossbar(12), Torus((4, 3)), Torus((2, 3, 2)), FatTree((4, 3), (2, 2), (1, 2)),
    FatTree((3, 2, 2), (1, 2, 2), (1, 1, 1)),
)  # fmt: skip
"""Fat trees with parallel links below the top are not among them: SimGrid 3.32 goes on counting links from one level to
the next on the way down (FatTreeZone::get_local_route), so that which of them it takes follows no rule."""


@pytest.mark.parametrize("seed", range(examples(10)))
def test_makespans_of_random_traces(seed, tmp_path):
    """Random partners, sizes of 1 byte to 3 MB, random collectives, on each topology in turn."""
    case = Case("random", TOPOLOGIES[seed % len(TOPOLOGIES)], lambda work: [])
    ours_s, theirs_s = makespans(case, irregular(12, 12, 0, 1000 + seed), tmp_path)
    assert ours_s == pytest.approx(theirs_s, rel=AGREES)


def test_it_replays_what_we_write(tmp_path):
    """A trace that was read and written again has the same makespan in both."""
    case = Case("random", Crossbar(12), lambda work: [])
    lines = irregular(12, 12, 0, 99)
    _, theirs_s = makespans(case, lines, tmp_path)
    run = read_time_independent(tmp_path / "trace.txt")
    write_time_independent(run, tmp_path / "again")
    again_s, _ = simgrid(tmp_path / "again" / "trace.txt", case, 12)
    assert again_s == pytest.approx(theirs_s, rel=1e-9)


COLLECTIVES = (
    "barrier", "bcast 50000 3", "reduce 50000 100 2", "allreduce 3000 0", "gather 700 700 1", "allgather 900 900",
    "scatter 1200 1200 4", "allgatherv 300 300 300 300 300 300 300", "alltoall 900 900", "alltoall 9000 9000",
    "scan 3000 100", "exscan 3000 100", "reducescatter 500 500 500 500 500 500 100",
    "gatherv 700 700 700 700 700 700 700 1",
)  # fmt: skip


@pytest.mark.parametrize("action", COLLECTIVES)
def test_collectives_are_those_of_its_default_selector(action, tmp_path):
    lines = [[f"compute {1000 * (rank + 1)}", action, "compute 1000", action] for rank in range(6)]
    ours_s, theirs_s = makespans(Case("collective", Crossbar(6), lambda work: lines), lines, tmp_path)
    assert ours_s == pytest.approx(theirs_s, rel=AGREES)


def test_the_command_says_what_became_of_the_ranks(tmp_path, foretrace):
    lines = [["compute 1e6", "send 1 0 1000"], ["recv 0 0 1000"]]
    write_trace(lines, tmp_path)
    (tmp_path / "p.xml").write_text(platform(Crossbar(2)))
    arguments = ("replay", "trace.txt", "--platform", "p.xml", "--network-model", "CM02")
    shown = foretrace(*arguments, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "2 ranks on c: 1.02 ms" in shown.stdout
    found = json.loads(foretrace(*arguments, "--json", cwd=tmp_path).stdout)
    assert found["messages"] == 1
    assert found["sent_bytes"] == found["moved_bytes"] == 1016
    assert found["ranks"][1]["partner_s"] == pytest.approx(1e-3)
    assert found["ranks"][1]["transfer_s"] == pytest.approx(2e-5 + 1016 / 1.25e9)
    assert [one["action"] for one in found["by_action"]] == ["compute", "receive"]
    half = json.loads(foretrace(*arguments, "--latency", "0.5x", "--json", cwd=tmp_path).stdout)
    assert found["makespan_s"] - half["makespan_s"] == pytest.approx(1e-5)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--machine", "epyc-9654"), 2, "do not go with it"),
        (("--copies", "2"), 2, "do not go with it"),
        (("--threads", "2"), 2, "do not go with it"),
        (("--latency", "fast"), 2, "--latency fast: must be a positive factor, as in 0.5x"),
        (("--bandwidth", "0x"), 2, "--bandwidth 0x: must be a positive factor, as in 0.5x"),
        (("--algorithm", "ring"), 2, "must name a collective and its algorithm, as in allreduce=ring"),
        (("--algorithm", "sum=ring"), 78, "there is no collective sum; there are barrier"),
        (("--ranks-per-node", "0"), 78, "0 ranks per node, must be at least 1"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_one_line(tmp_path, foretrace, options, code, message):
    write_trace([["compute 1"]], tmp_path)
    (tmp_path / "p.xml").write_text(platform(Crossbar(1)))
    refused = foretrace("replay", "trace.txt", "--platform", "p.xml", *options, cwd=tmp_path)
    assert refused.returncode == code
    assert message in refused.stderr.replace("\n", " ")
    assert not refused.stdout


def test_options_of_ranks_need_a_platform(tmp_path, foretrace):
    for options in (("--latency", "2x"), ("--algorithm", "bcast=ring"), ()):
        refused = foretrace("replay", "trace.txt", *options, cwd=tmp_path)
        assert refused.returncode == 2
        assert "--platform" in refused.stderr
