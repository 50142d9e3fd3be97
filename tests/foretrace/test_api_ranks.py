"""Replays of ranks from Python: the same figures as the command's, as records, tables and pictures."""

import json
from pathlib import Path

import pytest

import foretrace
from foretrace.base.errors import PredictionError
from foretrace.benchmarks.peers.rank_replay import halo, platform, write_trace
from foretrace.replay.engine.network import Crossbar


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    trace = write_trace(halo((4, 3), 3, 30_000, 1), folder)
    (folder / "platform.xml").write_text(platform(Crossbar(12)))
    return trace, folder / "platform.xml"


@pytest.fixture(scope="module")
def replayed(files):
    return foretrace.replay_ranks(*files, network_model="LV08", algorithms={"allreduce": "ring"})


def test_it_is_what_the_command_says(files, replayed, foretrace):
    options = ("--network-model", "LV08", "--algorithm", "allreduce=ring", "--json")
    said = json.loads(foretrace("replay", files[0], "--platform", files[1], *options).stdout)
    assert said["makespan_s"] == replayed.makespan_s
    for name, table in (("ranks", "ranks"), ("by_action", "actions"), ("links", "links")):
        assert replayed.to_dataframe(table).to_dict("records") == said[name]
    assert replayed.to_dataframe()["end_s"].max() == replayed.makespan_s


def test_it_shows_itself(replayed, tmp_path):
    assert repr(replayed).startswith("<RankReplay c, 12 ranks: ")
    assert "critical path: allreduce" in str(replayed)
    replayed.save(tmp_path / "timeline.svg")
    assert (tmp_path / "timeline.svg").read_text().startswith("<?xml")
    with pytest.raises(ValueError, match="there is no table 'x': ranks, actions, places, imbalances"):
        replayed.to_dataframe("x")


def test_slower_links_take_longer(files, replayed):
    slower = foretrace.replay_ranks(
        *files, network_model="LV08", algorithms={"allreduce": "ring"}, latency=4.0, bandwidth=0.1
    )
    assert slower.makespan_s > replayed.makespan_s
    assert slower.compute_s == pytest.approx(replayed.compute_s)


def test_what_is_not_there_is_one_error(files):
    with pytest.raises(foretrace.ForetraceError, match="No such file"):
        foretrace.replay_ranks(Path("nothing.txt"), files[1])
    with pytest.raises(foretrace.ForetraceError, match="there is no library lam; there are mpich, openmpi, simgrid"):
        foretrace.replay_ranks(*files, collectives="lam")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "name either the machine or the platform"),
        ({"machine": "epyc-9654", "platform": "c.xml"}, "name either the machine or the platform"),
        ({"platform": "c.xml", "nodes": 2}, "are of a machine, not of a platform"),
        ({"platform": "c.xml", "network": "infiniband-hdr"}, "are of a machine, not of a platform"),
        ({"machine": "epyc-9654", "timed_on": "epyc-9654"}, "timed_on and like go together"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, said):
    with pytest.raises(PredictionError, match=said):
        foretrace.replay_ranks("app.sig", **options)
