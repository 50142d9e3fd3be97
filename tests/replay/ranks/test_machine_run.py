"""Recorded parallel runs on machines: what computation costs, where ranks run, and what one rank alone takes."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from mpi_runs import PROGRAMS, compiled, foretrace, needs, started

import foretrace as package
from foretrace.base.errors import PredictionError
from foretrace.profiles.interconnect import interconnect_of
from foretrace.profiles.library import find
from foretrace.replay.prediction.conditions import Conditions
from foretrace.replay.prediction.predict import predict
from foretrace.replay.ranks.compute_costs import predicted_costs, timed_costs
from foretrace.replay.ranks.machine_run import Layout, TimedOn, library_of, places_of, replay_run
from foretrace.replay.ranks.programs import MOST_PLACES
from foretrace.replay.workload.workload import Workload
from foretrace.reports.model import Text
from foretrace.reports.rank_reports import rank_report
from foretrace.tracer.signature.file import read_signature, write_signature
from foretrace.tracer.signature.rank_records import CALL, STEP, CallKind, CallSite, RankRecord, RankRun

_MACHINE = "epyc-9654"


@pytest.fixture(scope="module", params=["openmpi", "mpich"])
def traced(request, tmp_path_factory):
    """A halo exchange, its two ranks traced."""
    library = request.param
    needs(library)
    output = tmp_path_factory.mktemp(library) / "halo.sig"
    program = compiled(PROGRAMS / "halo2d.c", library)
    done = started(library, 2, *foretrace("trace", "--mpi", "-o", output, "--", program))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(output.parent.glob(f"{output.name}.*")), done.stderr
    return read_signature(output)


def record(seconds, times=1, kind=CallKind.BARRIER):
    """A rank that computes and calls once, `times` times."""
    calls = np.zeros(1, CALL)
    calls["kind"], calls["times"], calls["first_count"] = kind, times, -1
    calls["compute_s"], calls["least_s"], calls["most_s"] = seconds * times, seconds, seconds
    steps = np.array([(-1, times), (0, 1), (-2, 1)], STEP)
    nothing = np.zeros(0, np.int64)
    return RankRecord(calls, steps, nothing, nothing, ((0, 1),), seconds * times, True)


def run_of(*records):
    return RankRun("Open MPI v4.1.4", "some processor", records, (CallSite("app", 16, "main", "app.c", 3),))


def signature_of(run, like):
    """A signature of a run that was timed."""
    nothing = np.zeros((0, 3), np.uint64)
    return replace(like, blocks=(), operations=(), loops=(), idioms=(), edges=nothing, tree=None, ranks=run)


class TestTraced:
    def test_of_the_library_only_its_loading_is_in_it(self, traced):
        mine = [one for one in traced.blocks if "libmpi" in one.module or "libopen" in one.module]
        instructions = sum(one.executions * one.instructions for one in mine)
        assert instructions < 0.05 * traced.totals.instructions
        assert not [one.function for one in mine if "progress" in one.function]
        assert len(traced.provenance.processes) == 2
        assert traced.provenance.complete

    def test_work_before_calls_is_work_of_the_tree(self, traced):
        tree = traced.tree
        of_nodes = np.bincount(tree.work_node, weights=tree.work_executions, minlength=len(tree))
        of_calls = np.zeros(len(tree))
        for one in traced.ranks.ranks:
            np.add.at(of_calls, one.work[:, 1], one.work[:, 2])
        assert np.all(of_calls <= of_nodes)
        mine = [node for node, key in enumerate(tree.keys) if Path(key.module).name == "halo2d"]
        assert of_calls[mine].sum() > 0.95 * of_nodes[mine].sum()  # the loader's is that of no call

    def test_seconds_before_calls_and_the_rest_are_the_prediction(self, traced):
        workload, machine = Workload.of(traced), find(_MACHINE)
        conditions = Conditions.of(workload, machine, jobs=2, cores=96)
        costs = predicted_costs(workload, traced.ranks, conditions)
        done = sum(
            float(seconds @ one.calls["times"]) for seconds, one in zip(costs.before_s, traced.ranks.ranks, strict=True)
        )
        assert done + costs.rest_s == pytest.approx(float(conditions.time_s[0].sum()))
        assert done > 0
        assert costs.low <= 1 <= costs.high

    def test_ranks_compute_what_is_predicted_and_the_interval_holds_the_makespan(self, traced):
        found = replay_run(traced, find(_MACHINE))
        assert found.low_s <= found.makespan_s <= found.high_s
        assert found.low_s < found.high_s
        total_s = predict(traced, find(_MACHINE)).time_s
        assert found.compute_s.sum() < total_s * 1.01  # what comes before no call is not in it
        assert found.library == ("openmpi" if "Open MPI" in traced.ranks.library else "mpich")

    def test_a_slower_network_takes_longer(self, traced):
        def makespan_s(network):
            return replay_run(traced, find(_MACHINE), Layout(nodes=2, interconnect=interconnect_of(network))).makespan_s

        assert makespan_s("1us,25GB/s") < makespan_s("100us,25GB/s")
        assert makespan_s("1us,25GB/s") <= makespan_s("1us,0.1GB/s")

    def test_python_gives_what_the_command_gives(self, traced, tmp_path):
        found = package.replay_ranks(traced, machine=_MACHINE, nodes=2, network="infiniband-hdr")
        same = replay_run(traced, find(_MACHINE), Layout(nodes=2, interconnect=interconnect_of("infiniband-hdr")))
        assert found.makespan_s == same.makespan_s
        assert "2 ranks" in repr(found)


class TestTimed:
    def test_computation_takes_as_long_as_it_was_timed(self, traced):
        signature = signature_of(run_of(record(0.25, 4), record(0.5, 4)), traced)
        found = replay_run(signature, find(_MACHINE))
        assert found.compute_s.tolist() == pytest.approx([1.0, 2.0])
        assert found.makespan_s == pytest.approx(2.0, rel=1e-3)
        assert any("some processor" in warning for warning in found.warnings)

    def test_a_signature_scales_it_from_one_machine_to_another(self, traced):
        signature = signature_of(run_of(record(0.25, 4), record(0.5, 4)), traced)
        here, there = find("xeon-granite-vm"), find(_MACHINE)
        found = replay_run(signature, there, timed_on=TimedOn(here, traced))
        ratio = predict(traced, there).time_s / predict(traced, here).time_s
        assert found.compute_s.tolist() == pytest.approx([1.0 * ratio, 2.0 * ratio])
        assert not any("some processor" in warning for warning in found.warnings)

    def test_more_ranks_than_cores_share_them(self, traced):
        run = run_of(record(0.5), record(0.5))
        profile = find(_MACHINE)
        one_core = msgspec.structs.replace(profile, core=msgspec.structs.replace(profile.core, cores=1))
        alone = replay_run(signature_of(run, traced), profile)
        shared = replay_run(signature_of(run, traced), one_core, Layout(ranks_per_node=2))
        assert alone.makespan_s == pytest.approx(0.5, rel=1e-3)
        assert shared.makespan_s == pytest.approx(1.0, rel=1e-3)

    def test_files_take_what_they_cost_or_are_counted(self, traced):
        one, other = (record(0.5, 3, CallKind.FILE_WRITE) for _ in range(2))
        for each in (one, other):
            each.calls["size_bytes"] = 2_000_000_000
        signature = signature_of(run_of(one, other), traced)
        without = replay_run(signature, find(_MACHINE))
        assert without.left_out == {"file_write": 6}
        assert without.makespan_s == pytest.approx(1.5, rel=1e-3)
        written = replay_run(signature, find(_MACHINE), Layout(io_bytes_per_s=1e9))
        assert written.left_out == {}
        assert written.makespan_s == pytest.approx(3 * (0.5 + 2.0), rel=1e-3)

    def test_one_sided_transfers_are_counted_and_fences_are_barriers(self, traced):
        put = signature_of(run_of(record(0.5, 3, CallKind.PUT), record(0.5, 3, CallKind.PUT)), traced)
        assert replay_run(put, find(_MACHINE)).left_out == {"put": 6}
        fenced = signature_of(run_of(record(0.5, 3, CallKind.FENCE), record(1.0, 3, CallKind.FENCE)), traced)
        found = replay_run(fenced, find(_MACHINE))
        assert found.left_out == {}
        assert found.outcome.end_s.tolist() == pytest.approx([3.0, 3.0], rel=1e-3)

    def test_timed_costs_are_means(self):
        costs = timed_costs(run_of(record(0.25, 4)), ratio=2.0)
        assert costs.before_s[0].tolist() == [0.5]


class TestPlaces:
    @pytest.mark.parametrize(
        ("ranks", "layout", "places"),
        [
            (4, Layout(), (1, 4)),
            (200, Layout(interconnect=interconnect_of("2us,1GB/s")), (3, 96)),
            (8, Layout(nodes=2, interconnect=interconnect_of("2us,1GB/s")), (2, 4)),
            (8, Layout(nodes=4, ranks_per_node=4, interconnect=interconnect_of("2us,1GB/s")), (4, 4)),
        ],
    )
    def test_ranks_fill_nodes(self, ranks, layout, places):
        assert places_of(ranks, find(_MACHINE), layout) == places

    @pytest.mark.parametrize(
        ("layout", "said"),
        [
            (Layout(ranks_per_node=1), "need 2 nodes: say with --network what joins them"),
            (Layout(nodes=1, ranks_per_node=1), "need 2 nodes, not 1"),
            (Layout(nodes=0), "--nodes is 0, must be at least 1"),
            (Layout(ranks_per_node=-1), "--ranks-per-node is -1, must be at least 1"),
        ],
    )
    def test_what_has_no_room_is_refused(self, layout, said):
        with pytest.raises(PredictionError, match=said):
            places_of(2, find(_MACHINE), layout)


def test_a_signature_without_ranks_is_refused(traced):
    with pytest.raises(PredictionError, match="no parallel run; record one with foretrace trace --mpi"):
        replay_run(replace(traced, ranks=None), find(_MACHINE))


@pytest.mark.parametrize(
    ("version", "library"), [("Open MPI v4.1.4, package: Debian", "openmpi"), ("MPICH Version: 4.0.2", "mpich")]
)
def test_the_library_decides_whose_algorithms_are_followed(version, library):
    assert library_of(version) == library


class TestInfo:
    def test_it_says_what_the_ranks_called(self, traced, tmp_path):
        write_signature(traced, tmp_path / "halo.sig")
        text, document = (
            subprocess.run(foretrace("info", tmp_path / "halo.sig", *how), capture_output=True, text=True).stdout
            for how in ((), ("--json",))
        )
        calls = [int(one.calls["times"].sum()) for one in traced.ranks.ranks]
        library = " ".join(traced.ranks.library.splitlines()[0].split())
        assert f"parallel run  2 ranks of {library}: {sum(calls):,} calls" in text
        ranks = json.loads(document)["parallel_run"]["ranks"]
        assert [one["calls"] for one in ranks] == calls
        assert all(one["complete"] and one["wall_s"] > 0 for one in ranks)

    def test_a_timed_run_is_predicted_by_replay_alone(self, traced):
        with pytest.raises(PredictionError, match="was timed, not traced: foretrace replay predicts it"):
            predict(signature_of(run_of(record(0.5), record(0.5)), traced), find(_MACHINE))


def test_more_places_than_are_told_apart_are_said(traced, tmp_path):
    calls = np.zeros(MOST_PLACES, CALL)
    calls["kind"], calls["times"], calls["first_count"], calls["site"] = CallKind.BARRIER, 1, -1, range(MOST_PLACES)
    calls["compute_s"] = 0.5
    steps = np.array([(call, 1) for call in range(len(calls))], STEP)
    ranks = [replace(record(0.5), calls=calls, steps=steps) for _ in range(2)]
    sites = tuple(CallSite("app", 16, "main", "app.c", line) for line in range(MOST_PLACES))
    found = replay_run(signature_of(replace(run_of(*ranks), sites=sites), traced), find(_MACHINE))
    assert found.by_place == []
    assert found.labels.merged == 2 * MOST_PLACES  # a barrier and a computation at each
    assert f"{2 * MOST_PLACES:,} kinds of calls at source lines are more than the {MOST_PLACES}" in text_of(found)
    few = replay_run(signature_of(run_of(record(0.5), record(0.5)), traced), find(_MACHINE))
    assert few.labels.merged == 0
    assert "told apart" not in text_of(few)


def test_what_comes_before_no_call_is_said(traced):
    text = text_of(replay_run(traced, find(_MACHINE)))
    assert "of all ranks together are not in it: what ran before MPI was initialised, and after the last call" in text


def text_of(found):
    return "\n".join(line for part in rank_report(found).sections if isinstance(part, Text) for line in part.lines)
