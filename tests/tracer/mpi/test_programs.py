"""Parallel programs captured natively: calls, partners and sizes are those that each rank counts itself."""

from collections import Counter

import numpy as np
import pytest
from effort import sweep
from mpi_runs import LIBRARIES, PROGRAMS, captured, compiled, needs, recorded, started, tallies, unfolded

from foretrace.tracer.signature.rank_records import CallKind

SOURCES = sorted(path for path in PROGRAMS.iterdir() if path.suffix in (".c", ".f90"))


@pytest.mark.parametrize("library", LIBRARIES)
@sweep("ranks", [4, 8, 16], [4])
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_calls_partners_and_sizes_are_those_that_the_program_counts(source, ranks, library, tmp_path):
    program = compiled(source, library)
    run, printed = captured(library, ranks, tmp_path / "app.sig", program)
    counted = tallies(printed)
    assert sorted(counted) == list(range(ranks))
    for rank, record in enumerate(run.ranks):
        assert recorded(record, counted[rank]) == counted[rank], rank
        check_order(record)
        check_matching(run)


def check_order(record):
    """The steps are the calls, as often as they happened; each request is waited for in the slot that it took."""
    order = unfolded(record)
    happened = np.bincount(order, minlength=len(record.calls))
    assert happened.tolist() == record.calls["times"].tolist()
    assert CallKind(record.calls[order[-1]]["kind"]) == CallKind.FINALIZE
    taken = set()
    for number in order:
        call = record.calls[number]
        if call["request"]:
            assert call["request"] == min(set(range(1, len(taken) + 2)) - taken)  # the lowest that is free
            taken.add(int(call["request"]))
        slots = record.slots[call["first_slot"] :][: call["slots"]].tolist()
        assert set(slots) <= taken
        taken -= set(slots)
    assert not taken


def check_matching(run):
    """Each message from one rank to another is received there, where receives name their sender."""
    sent, received, wild = Counter(), Counter(), set()
    for rank, record in enumerate(run.ranks):
        for call in record.calls:
            kind, peer, times = CallKind(call["kind"]), int(call["peer"]), int(call["times"])
            if kind in (CallKind.SEND, CallKind.ISEND, CallKind.SSEND, CallKind.ISSEND, CallKind.EXCHANGE):
                sent[rank, peer] += times
            if kind == CallKind.EXCHANGE:
                received[int(call["second_peer"]), rank] += times
            if kind in (CallKind.RECEIVE, CallKind.IRECEIVE):
                received[peer, rank] += times
                if peer < 0:
                    wild.add(rank)
    for pair in sent.keys() | received.keys():
        if pair[0] >= 0 and pair[1] not in wild:
            assert sent[pair] == received[pair], pair


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["halo2d.c", "conjugate_gradient.f90", "transposition.f90"])
def test_sites_are_the_program_s_own_lines(name, library, tmp_path):
    source = PROGRAMS / name
    run, _ = captured(library, 2, tmp_path / "app.sig", compiled(source, library))
    text = source.read_text().splitlines()
    words = {
        CallKind.ISEND: "Isend", CallKind.IRECEIVE: "Irecv", CallKind.WAIT_ALL: "Waitall", CallKind.SEND: "Sendrecv",
        CallKind.RECEIVE: "Sendrecv", CallKind.ALLREDUCE: "Allreduce", CallKind.BARRIER: "Barrier",
        CallKind.BCAST: "Bcast", CallKind.FINALIZE: "Finalize", CallKind.WAIT: "Wait", CallKind.ALLTOALL: "lltoall",
    }  # fmt: skip
    for record in run.ranks:
        for call in record.calls:
            site = run.sites[call["site"]]
            assert site.file.endswith(name)
            near = " ".join(text[site.line - 2 : site.line + 1])  # a statement of several lines has one of them
            assert words[CallKind(call["kind"])] in near, (call, site)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_program_prints_and_ends_as_it_does_alone(library, tmp_path):
    program = compiled(PROGRAMS / "sample_sort.c", library)
    _, printed = captured(library, 3, tmp_path / "app.sig", program)
    assert sorted(printed.splitlines()) == sorted(started(library, 3, program).stdout.splitlines())


def test_loops_fold(tmp_path):
    run, _ = captured("openmpi", 4, tmp_path / "app.sig", compiled(PROGRAMS / "halo2d.c", "openmpi"))
    for record in run.ranks:
        assert len(unfolded(record)) == 40 * 5 + 4 + 1  # two neighbours: four requests and a wait
        assert len(record.steps) < 40


def test_mpi4py(tmp_path):
    needs("openmpi")
    if started("openmpi", 1, "/usr/bin/python3", "-c", "import mpi4py").returncode:
        pytest.skip("mpi4py is not installed (Debian: python3-mpi4py)")
    program = PROGRAMS / "master_worker.py"
    run, printed = captured("openmpi", 4, tmp_path / "app.sig", "/usr/bin/python3", program)
    counted = tallies(printed)
    for rank, record in enumerate(run.ranks):
        found = recorded(record, counted[rank])  # and the messages of the lower-case allreduce
        assert {key: found[key] for key in counted[rank]} == counted[rank]
