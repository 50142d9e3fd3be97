"""Time-independent traces: the meaning of each action, and what is refused with file and line."""

import gzip

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.base.errors import TraceFileError
from foretrace.replay.ranks import time_independent
from foretrace.replay.ranks.actions import Kind
from foretrace.replay.ranks.time_independent import read_time_independent


def read(tmp_path, text, ranks=None):
    path = tmp_path / "trace"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_time_independent(path, ranks)


def first(tmp_path, line, ranks=4):
    """The first action of rank 0."""
    run = read(tmp_path, f"0 init\n0 {line}\n" + "".join(f"{rank} init\n" for rank in range(1, ranks)), ranks)
    return run.actions[0], run


# ---- what actions mean ----


@pytest.mark.parametrize(
    ("line", "kind", "fields"),
    [
        ("compute 1e6", Kind.COMPUTE, {"amount": 1e6}),
        ("sleep 0.5", Kind.SLEEP, {"amount": 0.5}),
        ("send 1 7 100", Kind.SEND, {"peer": 1, "tag": 7, "size_bytes": 100, "request": 0}),
        ("send 1 7 100 0", Kind.SEND, {"size_bytes": 800}),
        ("isend 1 7 100 1", Kind.ISEND, {"peer": 1, "tag": 7, "size_bytes": 400, "request": 1}),
        ("recv 2 7", Kind.RECEIVE, {"peer": 2, "tag": 7, "size_bytes": -1}),
        ("recv 2 7 -1", Kind.RECEIVE, {"size_bytes": -1}),
        ("recv -1 -1 100", Kind.RECEIVE, {"peer": -1, "tag": -1, "size_bytes": 100}),
        ("recv -555 -444 100", Kind.RECEIVE, {"peer": -1, "tag": -1}),
        ("irecv 2 7 100 3", Kind.IRECEIVE, {"peer": 2, "size_bytes": 200, "request": 1}),
        ("waitall", Kind.WAIT_ALL, {}),
        ("waitall 8", Kind.WAIT_ALL, {}),
        ("test 0 1 7", Kind.TEST, {}),
        ("sendrecv 100 1 200 3", Kind.EXCHANGE, {"peer": 1, "size_bytes": 100, "request": 4}),
        ("sendrecv 100 1 200 3 0 1", Kind.EXCHANGE, {"size_bytes": 800}),
        ("barrier", Kind.BARRIER, {}),
        ("bcast 100", Kind.BCAST, {"size_bytes": 100, "peer": 0}),
        ("bcast 100 2 1", Kind.BCAST, {"size_bytes": 400, "peer": 2}),
        ("reduce 100 5e6 2", Kind.REDUCE, {"size_bytes": 100, "amount": 5e6, "peer": 2}),
        ("allreduce 100 5e6 0", Kind.ALLREDUCE, {"size_bytes": 800, "amount": 5e6}),
        ("alltoall 100 200", Kind.ALLTOALL, {"size_bytes": 100}),
        ("gather 100 200 3 0 0", Kind.GATHER, {"size_bytes": 800, "peer": 3}),
        ("scatter 100 200 3", Kind.SCATTER, {"size_bytes": 100, "peer": 3}),
        ("allgather 100 200 0 0", Kind.ALLGATHER, {"size_bytes": 800}),
        ("scan 100 5", Kind.SCAN, {"size_bytes": 100, "amount": 5}),
        ("exscan 100 5 0", Kind.EXSCAN, {"size_bytes": 800, "amount": 5}),
        ("gatherv 100 1 2 3 4 2", Kind.GATHERV, {"size_bytes": 100, "peer": 2}),
        ("scatterv 1 2 3 4 100 2", Kind.SCATTERV, {"peer": 2}),
        ("allgatherv 100 1 2 3 4", Kind.ALLGATHERV, {"size_bytes": 100}),
        ("alltoallv 100 1 2 3 4 100 5 6 7 8", Kind.ALLTOALLV, {}),
        ("reducescatter 1 2 3 4 5e6", Kind.REDUCE_SCATTER, {"amount": 5e6}),
    ],
)
def test_actions(tmp_path, line, kind, fields):
    action, run = first(tmp_path, line)
    assert Kind(action["kind"]) is kind
    assert {name: action[name] for name in fields} == fields
    assert (action["line"], run.num_ranks, len(run.actions)) == (2, 4, 1)


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("gatherv 100 1 2 3 4 2 1 1", [4, 8, 12, 16]),
        ("scatterv 1 2 3 4 100 2", [1, 2, 3, 4]),
        ("allgatherv 100 1 2 3 4 0 0", [8, 16, 24, 32]),
        ("alltoallv 100 1 2 3 4 100 5 6 7 8", [1, 2, 3, 4]),
        ("reducescatter 1 2 3 4 5e6 0", [8, 16, 24, 32]),
    ],
)
def test_sizes_by_rank(tmp_path, line, counts):
    action, run = first(tmp_path, line)
    assert action["first_count"] == 0
    assert run.counts.tolist() == counts


@pytest.mark.parametrize(
    "line", ["init", "finalize", "comm_size 4", "comm_split 1 2 3 4", "comm_dup 1", "location a 5"]
)
def test_actions_that_take_no_time(tmp_path, line):
    assert len(read(tmp_path, f"0 {line}\n").actions) == 0


def test_init_says_what_the_default_datatype_is(tmp_path):
    """With an argument doubles, as in old traces; without one bytes. Each rank has its own."""
    run = read(tmp_path, "0 init\n1 init 1\n0 bcast 10\n1 bcast 10\n0 bcast 10 0 2\n")
    assert run.actions["size_bytes"].tolist() == [10, 10, 80]
    assert run.firsts.tolist() == [0, 2, 3]


def test_requests_are_numbered_and_awaited(tmp_path):
    lines = [
        "isend 1 5 10",
        "irecv 1 6 10",
        "isend 1 6 10",
        "wait 1 0 6",
        "irecv 1 7 10",
        "wait 0 1 5",
        "wait 0 1 6",
        "waitall",
        "isend 1 9 10",
    ]
    run = read(tmp_path, "".join(f"0 {line}\n" for line in lines) + "1 init\n")
    assert run.actions["request"].tolist() == [1, 2, 3, 2, 2, 1, 3, 0, 1]
    assert run.requests.tolist() == [3, 0]


def test_a_wait_for_what_a_test_has_ended_waits_for_nothing(tmp_path):
    run = read(tmp_path, "0 isend 0 1 10\n0 wait 0 0 1\n0 test 0 0 1\n0 wait 0 0 1\n")
    assert run.actions["request"].tolist() == [1, 1, 0, 0]


def test_many_open_requests_are_numbered_in_time(tmp_path):
    """Each wait frees the lowest of 4,000 requests, which the next message takes."""
    count = 4_000
    opened = [f"0 isend 1 {n} 1" for n in range(count)]
    turns = [line for n in range(count) for line in (f"0 wait 0 1 {n}", f"0 isend 1 {count + n} 1")]
    run = read(tmp_path, "\n".join([*opened, *turns, "1 init"]))
    assert run.requests[0] == count
    assert run.actions["request"][count::2].tolist() == list(range(1, count + 1))
    assert run.actions["request"][count + 1 :: 2].tolist() == list(range(1, count + 1))


def test_lists_of_files_and_files_of_all_ranks_are_alike(tmp_path):
    (tmp_path / "r0").write_text("0 compute 1\n0 send 1 0 10\n")
    (tmp_path / "r1").write_text("1 recv 0 0 10")
    (tmp_path / "list").write_text("r0\n\n  r1  \n")
    of_list = read_time_independent(tmp_path / "list")
    of_one = read(tmp_path, "1 recv 0 0 10\n0 compute 1\n# a comment\n\n0 send 1 0 10\n")
    assert (
        of_list.actions[["kind", "peer", "size_bytes"]].tolist()
        == of_one.actions[["kind", "peer", "size_bytes"]].tolist()
    )
    assert of_list.rank_of.tolist() == of_one.rank_of.tolist() == [0, 0, 1]


@pytest.mark.parametrize("text", ["0 compute 5", "0 compute 5\n", "0 compute 5\r\n", "\r\n0\tcompute  5 \r\n\r\n"])
def test_ends_of_lines(tmp_path, text):
    assert read(tmp_path, text).actions["amount"].tolist() == [5]


# ---- what is wrong ----


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fly 1", "there is no action fly"),
        ("", "there is no action"),
        ("send 2 0 10", "there is no rank 2"),
        ("send -1 0 10", "there is no rank -1"),
        ("send x 0 10", "not a whole number: x"),
        ("send 1.5 0 10", "not a whole number: 1.5"),
        ("send 1 0", "too few arguments"),
        ("send 1 0 10 1 1", "too many arguments"),
        ("compute", "too few arguments"),
        ("compute 1 2", "too many arguments"),
        ("bcast 1 0 0 0", "too many arguments"),
        ("waitall 1 2", "too many arguments"),
        ("send 1 0 -10", "a negative size or time: -10"),
        ("recv 1 0 -2", "a negative size or time: -2"),
        ("compute -1", "a negative size or time: -1"),
        ("sleep nan", "not a number: nan"),
        ("sleep inf", "not a number: inf"),
        ("compute 1e999", "not a number: 1e999"),
        ("compute 1e300", "a size or time that is too large: 1e300"),
        ("send 1 0 " + "9" * 30, "a size or time that is too large: " + "9" * 30),
        ("send 1 0 " + "9" * 300, "not a number: " + "9" * 40),
        ("send 1 99999999999 10", "not a whole number: 99999999999"),
        ("send 1 0 10 99", "there is no datatype 99"),
        ("send 1 0 10 -1", "there is no datatype -1"),
        ("bcast 10 2", "there is no rank 2"),
        ("gatherv 10 1", "there are fewer sizes than ranks"),
        ("alltoallv 10 1 2 10 1", "there are fewer sizes than ranks"),
        ("scatterv 1 -2 10", "a negative size or time: -2"),
        ("wait 0 5 1", "there is no rank 5"),
        ("compute 1\x002", "not a number: 1?2"),
        ("caf\xe9 1", "there is no action caf??"),
    ],
)
def test_wrong_lines_are_refused_with_their_file_and_number(tmp_path, line, message):
    with pytest.raises(TraceFileError) as raised:
        read(tmp_path, f"0 init\n1 init\n0 {line}\n0 finalize\n")
    assert str(raised.value) == f"{tmp_path / 'trace'}:3: {message}"


def test_wrong_lines_of_a_list_name_the_file_of_the_rank(tmp_path):
    (tmp_path / "r0").write_text("0 compute 1\n")
    (tmp_path / "r1").write_text("1 compute 1\n7 compute 1\n")
    (tmp_path / "list").write_text("r0\nr1\n")
    with pytest.raises(TraceFileError, match=r"r1:2: there is no rank 7$"):
        read_time_independent(tmp_path / "list")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "lists no files, and has no actions"),
        (b"\n\n", "lists no files, and has no actions"),
        (b"r0\nnone\n", "none: No such file or directory"),
        (b"r0\nr0\x00\n", "is no name of a file"),
        (b"r0\n.\n", "is no regular file"),
        (b"r0\nempty\n", "there is no line of rank 1, of 2 ranks"),
        (b"r0\n" + b"x" * 5000, "File name too long"),
        (b"0 init\n2 init\n", "there is no line of rank 1, of 3 ranks"),
        (b"999999999 init\n", "1000000000 ranks, must be 1 to 1048576"),
        (b"9999999999999 init\n", "1000000000 ranks, must be"),
    ],
)
def test_wrong_files_are_refused_in_one_line(tmp_path, text, message):
    (tmp_path / "r0").write_text("0 init\n")
    (tmp_path / "empty").write_text("")
    with pytest.raises(TraceFileError, match=message) as raised:
        read(tmp_path, text)
    assert "\n" not in str(raised.value)


def test_what_is_no_file_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(TraceFileError):
            read_time_independent(path)


def test_places_are_files_and_lines(tmp_path):
    (tmp_path / "r0").write_text("0 init\n0 compute 1\n")
    (tmp_path / "r1").write_text("1 init\n\n1 compute 1\n1 compute 2")
    (tmp_path / "list").write_text("r0\nr1\n")
    run = read_time_independent(tmp_path / "list")
    assert [run.place(n) for n in range(3)] == [f"{tmp_path}/r0:2", f"{tmp_path}/r1:3", f"{tmp_path}/r1:4"]


def test_communicators_that_are_not_followed_and_ranks_that_do_not_end_are_said(tmp_path):
    run = read(tmp_path, "0 init\n0 comm_split 1 2 3\n0 comm_dup 1\n0 comm_dup 2\n0 finalize\n1 init\n2 compute 1\n")
    assert run.left_out == {"comm_split": 1, "comm_dup": 2}
    assert run.unfinished == (1,)


# ---- size ----


def test_compressed_files_are_read_as_such(tmp_path):
    (tmp_path / "r0").write_bytes(gzip.compress(b"0 compute 1\n0 send 1 0 10\n"))
    (tmp_path / "r1").write_bytes(b"1 recv 0 0 10\n")
    (tmp_path / "list").write_text("r0\nr1\n")
    run = read_time_independent(tmp_path / "list")
    assert run.actions["kind"].tolist() == [Kind.COMPUTE, Kind.SEND, Kind.RECEIVE]
    (tmp_path / "all.gz").write_bytes(gzip.compress(b"1 recv 0 0 10\n0 compute 1\n0 send 1 0 10\n"))
    assert read_time_independent(tmp_path / "all.gz").num_ranks == 2


@pytest.mark.parametrize("piece_bytes", [1, 7, 40, 1 << 22])
def test_pieces_end_where_lines_do(tmp_path, monkeypatch, piece_bytes):
    monkeypatch.setattr(time_independent, "_PIECE_BYTES", piece_bytes)
    run = read(tmp_path, "0 compute 1\n# a comment of some length\n\n1 compute 22222222\n0 send 1 0 10\n1 recv 0 0 10")
    assert run.actions["amount"].tolist() == [1, 0, 22222222, 0]
    assert run.actions["line"].tolist() == [1, 5, 4, 6]
    with pytest.raises(TraceFileError, match=r"trace:3: there is no action fly$"):
        read(tmp_path, "0 compute 1\n\n0 fly\n")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MOST_BYTES", 1000, "more text than the 1000 bytes of a run that are read"),
        ("MOST_LINE_BYTES", 100, "a line has more than 100 bytes"),
        ("MOST_ACTIONS", 50, ":51: there are more actions than can be replayed"),
        ("_MOST_LIST_BYTES", 100, "a list of files of more than 100 bytes"),
    ],
)
def test_files_that_grow_without_bound_are_refused_as_they_are_read(tmp_path, monkeypatch, name, value, message):
    """A compressed file says nothing of how much is in it."""
    monkeypatch.setattr(time_independent, name, value)
    monkeypatch.setattr(time_independent, "_PIECE_BYTES", 64)
    text = {
        "MOST_BYTES": b"0 compute 1\n" + b"\n" * 100_000,
        "MOST_LINE_BYTES": b"0 compute 1\n0 compute " + b"1" * 100_000,
        "MOST_ACTIONS": b"0 compute 1\n" * 100_000,
        "_MOST_LIST_BYTES": b"a name\n" * 100_000,
    }[name]
    with pytest.raises(TraceFileError, match=message) as raised:
        read(tmp_path, gzip.compress(text), ranks=None if name == "_MOST_LIST_BYTES" else 1)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("cut", [3, 12, 30, -1, -5])
def test_compressed_files_that_are_cut_short_are_refused(tmp_path, cut):
    whole = gzip.compress(b"".join(b"0 compute %d\n" % n for n in range(100)))
    with pytest.raises(TraceFileError, match="damaged or cut short"):
        read(tmp_path, whole[:cut])
    with pytest.raises(TraceFileError, match=r"damaged or cut short|not a number|no action"):
        read(tmp_path, whole[:40] + b"xxxxx" + whole[45:])


LINES = (
    b"0 init", b"0 send 1 0 10", b"1 irecv 0 0", b"1 wait 0 1 0", b"0 alltoallv 1 2 3 4 5 6", b"1 allreduce 8 1e3 0",
    b"0 gatherv 1 2 3 0 1 1", b"1 reducescatter 1 2 3", b"1 waitall", b"0 sendrecv 1 0 1 1",
)  # fmt: skip
WORDS = (b"0", b"1", b"-1", b"9", b"1e9", b"send", b"wait", b"gatherv", b"x", b"\x00", b"\xff")
rubbish = st.one_of(
    st.binary(max_size=200),
    st.lists(st.one_of(st.sampled_from(LINES), st.binary(max_size=20)), max_size=8).map(b"\n".join),
    st.lists(st.lists(st.sampled_from(WORDS), max_size=9).map(b" ".join), max_size=6).map(b"\n".join),
)


@settings(max_examples=examples(1000))
@given(rubbish, st.sampled_from([None, 1, 2, 3]))
def test_rubbish_is_read_or_refused_in_one_line(tmp_path_factory, content, ranks):
    path = tmp_path_factory.mktemp("trace", numbered=True) / "t"
    path.write_bytes(content)
    try:
        run = read_time_independent(path, ranks)
    except TraceFileError as error:
        assert "\n" not in str(error)
        assert str(error).isprintable()
        return
    assert run.firsts[-1] == len(run.actions)
    assert run.actions["peer"].max(initial=-1) < run.num_ranks


def test_a_list_of_one_file_has_the_actions_of_all_ranks(tmp_path):
    """SimGrid replays a trace in one file by a list that names it alone."""
    (tmp_path / "all.txt").write_text("0 send 2 0 8\n1 compute 1\n2 recv 0 0 8\n")
    (tmp_path / "list.txt").write_text("all.txt\n")
    listed, direct = (read_time_independent(tmp_path / name) for name in ("list.txt", "all.txt"))
    assert listed.num_ranks == direct.num_ranks == 3
    assert listed.actions.tobytes() == direct.actions.tobytes()


def test_names_of_a_list_may_be_relative_to_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "traces").mkdir()
    for rank in range(2):
        (tmp_path / "traces" / f"{rank}.txt").write_text(f"{rank} compute {rank + 1}\n")
    (tmp_path / "traces" / "list.txt").write_text("traces/0.txt\ntraces/1.txt\n")
    monkeypatch.chdir(tmp_path)
    assert read_time_independent(tmp_path / "traces" / "list.txt").actions["amount"].tolist() == [1.0, 2.0]
