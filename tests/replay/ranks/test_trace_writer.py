"""Runs of ranks written as time-independent traces."""

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_runs import action, repeat, run_of

from foretrace.base.errors import PredictionError, TraceFileError
from foretrace.replay.ranks import trace_writer
from foretrace.replay.ranks.actions import Kind
from foretrace.replay.ranks.time_independent import read_time_independent
from foretrace.replay.ranks.trace_writer import write_time_independent

RANKS = 3
FIELDS = ["kind", "peer", "tag", "request", "second_tag", "size_bytes", "amount"]


def rewritten(run, folder):
    changed = write_time_independent(run, folder)
    return read_time_independent(folder / "trace.txt"), changed


def counts_of(run):
    """Sizes by rank of each action; None without any."""
    firsts = run.actions["first_count"].tolist()
    return [run.counts[at : at + run.num_ranks].tolist() if at >= 0 else None for at in firsts]


def same(one, other):
    assert one.firsts.tolist() == other.firsts.tolist()
    assert one.actions[FIELDS].tolist() == other.actions[FIELDS].tolist()
    assert counts_of(one) == counts_of(other)
    assert one.requests.tolist() == other.requests.tolist()


numbers = st.sampled_from(["0", "1", "8", "1000", "65536", "2.5", "1e6"])
peers = st.integers(0, RANKS - 1)


@st.composite
def traces(draw):
    """Lines of all ranks; collectives are the same on all of them, with sizes of their own where they may differ."""
    lines = []
    opened = [[] for _ in range(RANKS)]
    for _ in range(draw(st.integers(1, 12))):
        rank, peer, tag, size = draw(peers), draw(peers), draw(st.integers(0, 3)), draw(numbers)
        match draw(st.sampled_from(["compute", "sleep", "p", "i", "w", "a", "x", "c", "v"])):
            case "compute" | "sleep" as what:
                lines.append(f"{rank} {what} {size}")
            case "p":
                lines.append(f"{rank} {draw(st.sampled_from(['send', 'recv']))} {peer} {tag} {size}")
            case "i":
                what = draw(st.sampled_from(["isend", "irecv"]))
                opened[rank].append(f"wait {rank} {peer} {tag}" if what == "isend" else f"wait {peer} {rank} {tag}")
                lines.append(f"{rank} {what} {peer} {tag} {size}")
            case "w" if opened[rank]:
                lines.append(f"{rank} {opened[rank].pop(draw(st.integers(0, len(opened[rank]) - 1)))}")
            case "a":
                opened[rank].clear()
                lines.append(f"{rank} waitall")
            case "x":
                lines.append(f"{rank} sendrecv {size} {peer} {size} {draw(peers)}")
            case "c":
                what = draw(st.sampled_from([
                    "barrier", "bcast {0} {1}", "reduce {0} 5 {1}", "allreduce {0} 2.5", "alltoall {0} {0}",
                    "gather {0} {0} {1}", "scatter {0} {0} {1}", "allgather {0} {0}", "scan {0} 1", "exscan {0} 0",
                    "reducescatter 1 2 3 4", "allgatherv {2} 7 8 9",
                ]))  # fmt: skip
                lines += [f"{each} {what.format(size, peer, 7 + each)}" for each in range(RANKS)]
            case "v":
                table = [[draw(st.integers(0, 9)) for _ in range(RANKS)] for _ in range(RANKS)]
                for each, own in enumerate(table):
                    got = [row[each] for row in table]
                    lines.append(f"{each} alltoallv {sum(own)} {' '.join(map(str, own))} {sum(got)} "
                                 f"{' '.join(map(str, got))}")  # fmt: skip
                    sizes = " ".join(str(row[0]) for row in table)
                    lines.append(f"{each} gatherv {own[0]} {sizes} {peer}")
                    lines.append(f"{each} scatterv {sizes} {table[each][0]} {peer}")
    return "".join(f"{line}\n" for line in [*(f"{rank} init" for rank in range(RANKS)), *lines])


@settings(max_examples=examples(400))
@given(traces())
def test_what_is_written_is_read_as_it_was(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("written", numbered=True)
    (folder / "given").write_text(text)
    run = read_time_independent(folder / "given")
    again, changed = rewritten(run, folder / "out")
    same(run, again)
    assert not changed
    assert not again.unfinished


def test_loops_are_written_out(tmp_path):
    def body(size):
        return [action(Kind.COMPUTE, amount=5.0), action(Kind.SEND, peer=1, size_bytes=size)]

    got = [action(Kind.RECEIVE, peer=0, size_bytes=-1.0)]
    loops = run_of([repeat(3, *body(8.0), repeat(2, *body(16.0)), repeat(0, *body(99.0)))], [repeat(9, *got)])
    plain = run_of([[*body(8.0), *body(16.0), *body(16.0)] * 3], [got * 9])
    again, _ = rewritten(loops, tmp_path / "out")
    for name in ("kind", "peer", "amount"):
        assert again.actions[name].tolist() == plain.actions[name].tolist()
    assert np.maximum(again.actions["size_bytes"], 0).tolist() == np.maximum(plain.actions["size_bytes"], 0).tolist()


def test_what_the_format_has_not_is_written_as_others_and_counted(tmp_path):
    exchange = action(Kind.EXCHANGE, peer=1, request=2, tag=5, second_tag=6, size_bytes=128.0)
    other = action(Kind.EXCHANGE, peer=0, request=1, tag=6, second_tag=5, size_bytes=128.0)
    sends = [action(Kind.SSEND, peer=1), action(Kind.ISSEND, peer=1, request=1), action(Kind.WAIT_ALL)]
    gets = [action(Kind.RECEIVE, peer=0)] * 2
    waits = [
        *[action(Kind.ISEND, peer=1, tag=n, request=n) for n in (1, 2)],
        action(Kind.WAIT, first_count=0, peer=2),
        action(Kind.FINALIZE),
    ]
    run = run_of([exchange, *sends, *waits], [other, *gets], slots=(2, 1))
    again, changed = rewritten(run, tmp_path / "out")
    assert changed == {"ssend": 1, "issend": 1}
    assert (tmp_path / "out" / "rank0.txt").read_text().splitlines() == [
        "0 init", "0 irecv 1 6 -1", "0 isend 1 5 128", "0 wait 0 1 5", "0 wait 1 0 6", "0 send 1 0 0", "0 isend 1 0 0",
        "0 waitall", "0 isend 1 1 0", "0 isend 1 2 0", "0 wait 0 1 2", "0 wait 0 1 1", "0 finalize",
    ]  # fmt: skip
    assert again.num_ranks == 2


def test_amounts_in_seconds_become_flops(tmp_path):
    run = run_of([action(Kind.COMPUTE, amount=0.5)])
    write_time_independent(run, tmp_path / "out", flops_per_s=1e9)
    assert "0 compute 500000000\n" in (tmp_path / "out" / "rank0.txt").read_text()


@pytest.mark.parametrize(
    ("ranks", "fields", "message"),
    [
        ([[action(Kind.BARRIER, communicator=1)]], {"communicators": ((0,), (0,))}, "run:1: .*one communicator only"),
        ([[action(Kind.BARRIER, request=1)]], {}, "run:1: a time-independent trace has no barrier with a request"),
        ([[action(Kind.GATHERV)], []], {}, "run: not all ranks take part in each gatherv"),
        ([repeat(10**9, action(Kind.BARRIER))], {}, "run: more than the 1000 actions that a trace may have"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, monkeypatch, ranks, fields, message):
    monkeypatch.setattr(trace_writer, "MOST_ACTIONS", 1000)
    with pytest.raises(PredictionError, match=message):
        write_time_independent(run_of(*ranks, **fields), tmp_path / "out")


def test_nothing_is_overwritten(tmp_path):
    with pytest.raises(TraceFileError, match="File exists"):
        write_time_independent(run_of([]), tmp_path)


def test_the_command_writes_a_trace(tmp_path, foretrace):
    (tmp_path / "t").write_text("0 compute 1e6\n0 send 1 0 10\n1 recv 0 0 10\n")
    cluster = '<cluster id="c" prefix="n" suffix="" radical="0-1" speed="1Gf" bw="1GBps" lat="10us"/>'
    (tmp_path / "p.xml").write_text(f'<?xml version="1.0"?><platform version="4.1">{cluster}</platform>')
    command = ("replay", "t", "--platform", "p.xml", "--write-trace", "out")
    shown = foretrace(*command, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    same(*(read_time_independent(tmp_path / name) for name in ("t", "out/trace.txt")))
    assert foretrace(*command, cwd=tmp_path).returncode != 0
