"""Runs of ranks with a known result, and the algorithms that libraries choose for collectives."""

from functools import partial

import pytest
from effort import IS_FULL

from foretrace.base.errors import PredictionError
from foretrace.replay.engine.network import Crossbar, Network
from foretrace.replay.engine.program import ALGORITHMS
from foretrace.replay.engine.simulation import DeadlockError, run_compiled
from foretrace.replay.ranks.actions import COLLECTIVES, Kind
from foretrace.replay.ranks.collectives import LIBRARIES, recipes
from foretrace.replay.ranks.programs import Hosts, compile_ranks
from foretrace.replay.ranks.time_independent import read_time_independent

LATENCY, BANDWIDTH, SPEED = 0.25, 128.0, 1e6
HOP_S = 2 * LATENCY


def replayed(tmp_path, lines, *, nodes=None, cores=1, library="simgrid", named=None, folding=True, **network):
    """The outcome of a run, given the actions of each rank."""
    path = tmp_path / "trace"
    path.write_text("".join(f"{rank} {line}\n" for rank, own in enumerate(lines) for line in ["init", *own]))
    run = read_time_independent(path)
    places = tuple(range(len(lines))) if nodes is None else tuple(nodes)
    figures = {"own_latency_s": 0.125, "own_bytes_per_s": 256.0, "detached_below_bytes": 0.0} | network
    hosts = Hosts(places, cores, SPEED, Network(Crossbar(max(places) + 1), LATENCY, BANDWIDTH, **figures))
    return run_compiled(compile_ranks(run, hosts, partial(recipes, library, named=named)), folding=folding)


# ---- runs ----


def test_computation_and_sleep_take_their_time(tmp_path):
    outcome = replayed(tmp_path, [["compute 2e6", "sleep 0.5"], ["compute 1e6"], []])
    assert outcome.end_s.tolist() == [2.5, 1.0, 0.0]
    assert outcome.path_s == {"compute": 2.0, "sleep": 0.5}


def test_a_message_and_its_answer(tmp_path):
    outcome = replayed(tmp_path, [["send 1 1 128", "recv 1 2"], ["recv 0 1", "compute 3e6", "send 0 2 256"]])
    assert outcome.end_s == pytest.approx([2 * HOP_S + 1 + 3 + 2] * 2)
    assert outcome.seconds("partner") == pytest.approx([3.0, 0.0])
    assert (outcome.messages, outcome.sent_bytes) == (2, 384.0)


def test_requests_overlap_computation(tmp_path):
    """The message takes 1.5 s, during which its sender computes for 2 s; each request has a wait of its own."""
    first = ["isend 1 1 128", "isend 1 2 128", "compute 2e6", "wait 0 1 2", "wait 0 1 1"]
    second = ["irecv 0 1 128", "compute 1e6", "irecv 0 2 128", "waitall"]
    outcome = replayed(tmp_path, [first, second])
    # from 1 s on the second one is there; the first moves from 0.5 to 1.5 s, the other one from 1.5 to 2.5 s
    assert outcome.end_s == pytest.approx([2.5, 2.5])


def test_an_exchange_sends_and_receives_at_once(tmp_path):
    lines = [["sendrecv 128 1 256 1"], ["sendrecv 256 0 128 0"]]
    assert replayed(tmp_path, lines).makespan_s == pytest.approx(HOP_S + 2.0)
    ring = [[f"sendrecv 128 {(rank + 1) % 5} 128 {(rank + 4) % 5}"] * 3 for rank in range(5)]
    outcome = replayed(tmp_path, ring)
    assert outcome.makespan_s == pytest.approx(3 * (HOP_S + 1.0))
    assert outcome.messages == 15


def test_requests_stay_open_across_an_exchange(tmp_path):
    lines = [["isend 1 5 1280", "sendrecv 128 1 128 1", "wait 0 1 5"], ["sendrecv 128 0 128 0", "recv 0 5 1280"]]
    outcome = replayed(tmp_path, lines)
    assert outcome.makespan_s == pytest.approx(HOP_S + 1 + HOP_S + 10)


def test_ranks_of_a_node_share_its_cores(tmp_path):
    lines = [["compute 1e6"]] * 4
    assert replayed(tmp_path, lines, nodes=(0, 0, 0, 1)).end_s.tolist() == [3.0, 3.0, 3.0, 1.0]
    assert replayed(tmp_path, lines, nodes=(0, 0, 0, 1), cores=2).end_s.tolist() == [1.5, 1.5, 1.5, 1.0]
    assert replayed(tmp_path, lines, nodes=(0, 0, 1, 1), cores=2).makespan_s == 1.0


def test_messages_within_a_node_are_copies(tmp_path):
    outcome = replayed(tmp_path, [["send 1 0 256"], ["recv 0 0"]], nodes=(0, 0), cores=2)
    assert outcome.makespan_s == pytest.approx(0.125 + 1.0)


def test_reductions_compute_at_their_end(tmp_path):
    outcome = replayed(tmp_path, [["reduce 128 3e6 1"], ["reduce 128 3e6 1"]])
    assert outcome.makespan_s == pytest.approx(HOP_S + 1 + 3)
    assert outcome.label_s[outcome.compiled.labels.index("compute")] == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("action", "messages", "sent_bytes"),
    [
        ("gatherv 999 1 2 4 1", 2, 1998),
        ("scatterv 10 20 40 999 1", 2, 50),
        ("allgatherv 999 10 20 40", 6, None),
        ("alltoallv 999 10 20 40 999 10 20 40", 6, None),
        ("reducescatter 30 60 90 0", 4, 2 * 180 + 2 * 60),
        ("barrier", 4, 0),
        ("scan 128 0", 3, 384),
        ("gather 128 128 2", 2, 256),
    ],
)  # fmt: skip
def test_sizes_of_collectives(tmp_path, action, messages, sent_bytes):
    outcome = replayed(tmp_path, [[action]] * 3)
    assert outcome.messages == messages
    if sent_bytes is not None:
        assert outcome.sent_bytes == pytest.approx(sent_bytes)


def test_sizes_by_rank_are_each_rank_s_own(tmp_path):
    """Rank 0 sends 128 bytes to rank 1 and 256 to rank 2; the others nothing: 3 s over its link."""
    lines = [
        ["alltoallv 999 0 128 256 999 0 0 0"],
        ["alltoallv 999 0 0 0 999 128 0 0"],
        ["alltoallv 999 0 0 0 999 256 0 0"],
    ]
    outcome = replayed(tmp_path, lines)
    assert outcome.sent_bytes == 384.0
    assert outcome.makespan_s == pytest.approx(HOP_S + 3.0)


def test_loops_of_a_trace_give_what_whole_simulation_gives(tmp_path):
    lines = [["compute 1e6", f"sendrecv 128 {1 - rank} 128 {1 - rank}", "allreduce 8 1e3"] * 30 for rank in range(2)]
    folded, whole = (replayed(tmp_path, lines, folding=folding) for folding in (True, False))
    assert folded.makespan_s == pytest.approx(whole.makespan_s, rel=1e-12)
    assert folded.messages == whole.messages == 30 * 4


def test_an_unknown_wait_at_the_end_waits_for_nothing(tmp_path):
    outcome = replayed(tmp_path, [["compute 1e6", "test 0 1 5", "wait 0 1 5"], ["compute 2e6"]])
    assert outcome.end_s.tolist() == [1.0, 2.0]


def test_a_deadlock_says_what_each_rank_calls(tmp_path):
    with pytest.raises(DeadlockError) as caught:
        replayed(tmp_path, [["send 1 3 128", "barrier"], ["recv 0 4 128"], ["barrier"]])
    assert caught.value.waits == (
        f"rank 0 waits to send 128 bytes to rank 1 (tag 3) at {tmp_path}/trace:2",
        f"rank 1 waits to receive from rank 0 (tag 4) at {tmp_path}/trace:5",
        f"rank 2 waits to send 0 bytes to rank 0 (barrier) at {tmp_path}/trace:7",
    )


def test_places_must_be_as_many_as_ranks(tmp_path):
    with pytest.raises(PredictionError, match="3 places for 2 ranks"):
        replayed(tmp_path, [["barrier"]] * 2, nodes=(0, 1, 2))


# ---- recipes ----

ACTIONS = {
    Kind.BARRIER: "barrier", Kind.BCAST: "bcast {0}", Kind.REDUCE: "reduce {0} 0", Kind.ALLREDUCE: "allreduce {0} 0",
    Kind.ALLTOALL: "alltoall {0} {0}", Kind.ALLTOALLV: "alltoallv {0} {1} {0} {1}", Kind.GATHER: "gather {0} {0}",
    Kind.SCATTER: "scatter {0} {0}", Kind.GATHERV: "gatherv {0} {1}", Kind.SCATTERV: "scatterv {1} {0}",
    Kind.ALLGATHER: "allgather {0} {0}", Kind.ALLGATHERV: "allgatherv {0} {1}",
    Kind.REDUCE_SCATTER: "reducescatter {1} 0", Kind.SCAN: "scan {0} 0", Kind.EXSCAN: "exscan {0} 0",
}  # fmt: skip


@pytest.mark.parametrize("library", LIBRARIES)
def test_recipes_name_algorithms_that_exist_for_any_size(library):
    for ranks in range(1, 34):
        chosen = recipes(library, ranks)
        assert set(chosen) == set(COLLECTIVES)
        for kind, ways in chosen.items():
            limits = [way.up_to_bytes for way in ways]
            assert limits == sorted(set(limits)), (kind, ranks)
            assert limits[-1] == float("inf")
            for step in (step for way in ways for step in way.steps):
                assert step.algorithm in ALGORITHMS
                assert 0 <= step.share <= 1
                assert step.algorithm != "exclusive-or" or ranks & (ranks - 1) == 0


@pytest.mark.parametrize("ranks", range(1, 34) if IS_FULL else (1, 2, 3, 5, 8, 12, 13, 16, 33))
@pytest.mark.parametrize("library", LIBRARIES)
def test_collectives_of_each_library_end(tmp_path, library, ranks):
    """All collectives in turn, of sizes on both sides of each threshold: no rank waits in vain, no byte is lost."""
    sizes = sorted({way.up_to_bytes for ways in recipes(library, ranks).values() for way in ways} - {float("inf")})
    around = [0, *(int(size) + more for size in sizes for more in (0, 1)), 1 << 20]
    lines = [
        action.format(
            size // ranks if kind is Kind.REDUCE_SCATTER else size,
            " ".join([str(size // ranks if kind is Kind.REDUCE_SCATTER else size)] * ranks),
        )
        for size in (around if IS_FULL else around[:: max(1, len(around) // 5)])
        for kind, action in ACTIONS.items()
    ]
    outcome = replayed(tmp_path, [lines] * ranks, library=library)
    assert outcome.moved_bytes == pytest.approx(outcome.sent_bytes)
    assert (outcome.makespan_s > 0) == (ranks > 1)


@pytest.mark.parametrize("ranks", [1, 4, 6])
def test_every_named_algorithm_ends(tmp_path, ranks):
    names = {kind.name.lower(): kind for kind in COLLECTIVES}
    for name, kind in names.items():
        with pytest.raises(PredictionError, match="has no algorithm none; there are") as caught:
            recipes("mpich", ranks, {name: "none"})
        for algorithm in str(caught.value).rpartition("there are ")[2].split(", "):
            action = ACTIONS[kind].format(64, " ".join(["64"] * ranks))
            outcome = replayed(tmp_path, [[action]] * ranks, named={name: algorithm})
            assert outcome.moved_bytes == pytest.approx(outcome.sent_bytes), (name, algorithm)


@pytest.mark.parametrize(
    ("library", "named", "message"),
    [
        ("none", {}, "there is no library none; there are mpich, openmpi, simgrid"),
        ("mpich", {"allreduce": "magic"}, "allreduce has no algorithm magic; there are "),
        ("mpich", {"sum": "ring"}, "there is no collective sum; there are barrier, "),
        ("mpich", {"alltoall": "exclusive-or"}, "alltoall has no algorithm exclusive-or"),
    ],
)
def test_unknown_choices_are_refused_in_one_line(library, named, message):
    with pytest.raises(PredictionError, match=message) as caught:
        recipes(library, 6, named)
    assert "\n" not in str(caught.value)


def test_one_algorithm_named_is_used_whatever_the_size(tmp_path):
    for size in (8, 100_000):
        outcome = replayed(tmp_path, [[f"allreduce {size} 0"]] * 6, library="mpich", named={"allreduce": "ring"})
        assert outcome.messages == 2 * 6 * 5
        assert outcome.sent_bytes == pytest.approx(2 * 5 * size)
