"""Captures of parallel runs that go wrong, and what users are told."""

import os
import platform
import re
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from mpi_runs import LIBRARIES, PROGRAMS, captured, compiled, environment, foretrace, needs, started, unfolded

from foretrace.base.errors import EngineError, SignatureError
from foretrace.tracer.mpi import building, launching, libraries, parts, record_file
from foretrace.tracer.mpi.joining import join_ranks
from foretrace.tracer.signature.file import read_signature
from foretrace.tracer.signature.rank_records import CALL, STEP, CallKind


@pytest.fixture
def made(tmp_path):
    """Compiles the body of a program's main; `rank`, `ranks` are known in it."""

    def make(body, library="openmpi", before=""):
        source = tmp_path / "program.c"
        source.write_text(
            "#include <mpi.h>\n#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
            f"{before}\nint main(int argc, char **argv)\n{{\n    int rank, ranks;\n    MPI_Init(&argc, &argv);\n"
            "    MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n    MPI_Comm_size(MPI_COMM_WORLD, &ranks);\n"
            f"{textwrap.indent(textwrap.dedent(body), '    ')}\n    MPI_Finalize();\n    return 0;\n}}\n"
        )
        return compiled(source, library)

    return make


def trace(output, *command):
    return foretrace("trace", "--mpi", "--native", "-o", output, "--", *command)


def calls_of(record):
    return [CallKind(record.calls[number]["kind"]) for number in unfolded(record)]


def test_without_a_launcher_it_says_how_to_start_it(tmp_path):
    variables = {name: value for name, value in os.environ.items() if not re.match("OMPI_|PMI|SLURM", name)}
    done = subprocess.run(trace(tmp_path / "a.sig", "true"), capture_output=True, text=True, env=variables, check=False)
    assert done.returncode == 71
    assert "mpirun -n 4 foretrace trace --mpi --native" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--native"], "--native goes with --mpi"),
        (["--join"], "--join goes with --mpi"),
        (["--mpi", "--native", "--follow-children", "--", "true"], "--follow-children"),
        (["--mpi", "--join", "--", "true"], "leave out the program"),
    ],
)
def test_options_that_do_not_go_together(options, said, tmp_path):
    command = foretrace("trace", "-o", tmp_path / "a.sig", *options)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_program_without_mpi(tmp_path):
    needs("openmpi")
    done = started("openmpi", 2, *trace(tmp_path / "a.sig", "true"))
    assert done.returncode == 71
    assert "did not call MPI_Init" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_killed_rank_is_named_and_the_others_are_joined(made, tmp_path):
    body = "MPI_Barrier(MPI_COMM_WORLD);\nif (rank == 1) raise(SIGKILL);\nMPI_Barrier(MPI_COMM_WORLD);"
    output = tmp_path / "a.sig"
    variables = {**environment(), "OMPI_MCA_odls_base_sigkill_timeout": "20"}  # seconds until it kills the others
    done = started("openmpi", 3, *trace(output, made(body)), env=variables)
    assert done.returncode != 0
    assert not output.exists()
    assert sorted(rank for rank, _ in parts.found_parts(output)) == [0, 2]
    assert f"foretrace trace --mpi --join -o {output}" in done.stderr
    command = foretrace("trace", "--mpi", "--join", "-o", output)
    joined = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "without calls: rank 1\n" in joined.stderr
    run = read_signature(output).ranks
    assert [len(record.calls) for record in run.ranks] == [1, 0, 1]
    assert not any(record.is_complete for record in run.ranks)
    assert not parts.found_parts(output)


def test_an_abort_keeps_what_came_before(made, tmp_path):
    program = made("MPI_Barrier(MPI_COMM_WORLD);\nMPI_Abort(MPI_COMM_WORLD, 3);")
    done = started("openmpi", 1, *trace(tmp_path / "a.sig", program))
    assert done.returncode == 3
    (record,) = read_signature(tmp_path / "a.sig").ranks.ranks
    assert calls_of(record) == [CallKind.BARRIER]
    assert record.left_out == {"MPI_Abort": 1}
    assert not record.is_complete


def test_an_exit_without_finalize_keeps_what_came_before(made, tmp_path):
    program = made("MPI_Barrier(MPI_COMM_WORLD);\nexit(5);", "mpich")
    done = started("mpich", 1, *trace(tmp_path / "a.sig", program))
    assert done.returncode == 5
    signature = read_signature(tmp_path / "a.sig")
    assert calls_of(signature.ranks.ranks[0]) == [CallKind.BARRIER]
    assert not signature.provenance.complete
    assert "1 of 1 ranks did not come to MPI_Finalize" in signature.provenance.incomplete_reason


def test_a_signal_to_foretrace_reaches_the_program(made, tmp_path):
    body = 'puts("ready");\nfflush(stdout);\nfor (;;)\n    pause();'
    before = "static void on(int n) { MPI_Finalize(); _exit(40 + (n == SIGUSR1)); }"
    program = made(f"signal(SIGUSR1, on);\n{body}", before=before)
    variables = {**environment(), "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}
    command = trace(tmp_path / "a.sig", program)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR1)
        assert process.wait(60) == 41
    assert read_signature(tmp_path / "a.sig").ranks.ranks[0].is_complete


@pytest.mark.parametrize("library", LIBRARIES)
def test_many_open_requests(library, made, tmp_path):
    count = 100_000
    body = f"""
    MPI_Request *requests = malloc({2 * count} * sizeof *requests);
    static char in[{count}], out[{count}];
    for (int i = 0; i < {count}; i++) MPI_Irecv(in + i, 1, MPI_CHAR, rank, 0, MPI_COMM_WORLD, requests + i);
    for (int i = 0; i < {count}; i++) MPI_Isend(out + i, 1, MPI_CHAR, rank, 0, MPI_COMM_WORLD, requests + {count} + i);
    MPI_Waitall({2 * count}, requests, MPI_STATUSES_IGNORE);
    """
    run, _ = captured(library, 1, tmp_path / "a.sig", made(body, library))
    (record,) = run.ranks
    assert sorted(record.slots.tolist()) == list(range(1, 2 * count + 1))
    assert sum(call["times"] for call in record.calls if call["kind"] == CallKind.ISEND) == count


def test_calls_that_never_repeat_are_kept_up_to_the_limit_and_counted_beyond(made, tmp_path):
    count = 300_000
    body = f"for (int i = 0; i < {count}; i++) MPI_Bcast(room, i * 7919LL % 524287, MPI_CHAR, 0, MPI_COMM_SELF);"
    program = made(body, before="static char room[1 << 20];")
    run, _ = captured("openmpi", 1, tmp_path / "a.sig", program)
    (record,) = run.ranks
    kept = int(record.calls["times"].sum())
    beyond = sum(times for name, times in record.left_out.items() if "past the limit" in name)
    assert kept + beyond == count + 1  # and MPI_Finalize
    assert len(record.calls) <= 1 << 18


def test_waits_name_the_requests_that_they_complete(made, tmp_path):
    body = """
    char in[4], out[4];
    MPI_Request requests[4];
    int index, done, indices[4], flag = 0;
    for (int i = 0; i < 4; i++) MPI_Irecv(in + i, 1, MPI_CHAR, rank, i, MPI_COMM_WORLD, requests + i);
    MPI_Send(out, 1, MPI_CHAR, rank, 2, MPI_COMM_WORLD);
    MPI_Waitany(4, requests, &index, MPI_STATUS_IGNORE);
    MPI_Test(requests, &flag, MPI_STATUS_IGNORE);
    MPI_Send(out, 1, MPI_CHAR, rank, 0, MPI_COMM_WORLD);
    MPI_Waitsome(4, requests, &done, indices, MPI_STATUSES_IGNORE);
    MPI_Send(out, 1, MPI_CHAR, rank, 1, MPI_COMM_WORLD);
    MPI_Wait(requests + 1, MPI_STATUS_IGNORE);
    MPI_Irecv(in, 1, MPI_CHAR, MPI_PROC_NULL, 0, MPI_COMM_WORLD, requests);
    MPI_Send(out, 1, MPI_CHAR, rank, 3, MPI_COMM_WORLD);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    """
    run, _ = captured("openmpi", 1, tmp_path / "a.sig", made(body))
    (record,) = run.ranks
    waited = [
        record.slots[call["first_slot"] :][: call["slots"]].tolist()
        for call in (record.calls[number] for number in unfolded(record))
        if call["slots"]
    ]
    assert waited == [[3], [1], [2], [4]]
    assert calls_of(record).count(CallKind.TEST) == 0  # it found none complete


@pytest.mark.parametrize("library", LIBRARIES)
def test_one_sided_calls_and_files(library, made, tmp_path):
    body = f"""
    double room[8] = {{0}}, own[8] = {{0}};
    MPI_Win window;
    MPI_File file;
    MPI_Win_create(room, sizeof room, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Put(own, 4, MPI_DOUBLE, 1 - rank, 0, 4, MPI_DOUBLE, window);
    MPI_Win_fence(0, window);
    MPI_Win_lock(MPI_LOCK_SHARED, 1 - rank, 0, window);
    MPI_Get(own, 2, MPI_DOUBLE, 1 - rank, 0, 2, MPI_DOUBLE, window);
    MPI_Win_unlock(1 - rank, window);
    MPI_Win_free(&window);
    MPI_File_open(MPI_COMM_WORLD, "{tmp_path}/data", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, rank * 64, own, 8, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_File_read_at(file, 0, own, 3, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    """
    run, _ = captured(library, 2, tmp_path / "a.sig", made(body, library))
    for rank, record in enumerate(run.ranks):
        said = [(CallKind(c["kind"]).name, int(c["peer"]), int(c["size_bytes"])) for c in record.calls]
        assert said == [
            ("FENCE", -1, 0), ("PUT", 1 - rank, 32), ("FENCE", -1, 0), ("LOCK", 1 - rank, 0), ("GET", 1 - rank, 16),
            ("UNLOCK", 1 - rank, 0), ("FILE_WRITE", -1, 64), ("FILE_READ", -1, 24), ("FINALIZE", 0, 0),
        ]  # fmt: skip
        assert record.left_out == {
            "MPI_Win_create": 1, "MPI_Win_free": 1, "MPI_File_open": 1, "MPI_File_close": 1
        }  # fmt: skip


def test_calls_of_other_threads_and_between_communicators_are_counted(made, tmp_path):
    before = "#include <pthread.h>\nstatic void *other(void *x) { MPI_Barrier(MPI_COMM_SELF); return x; }"
    body = """
    MPI_Comm half, between;
    pthread_t thread;
    int got = 0;
    pthread_create(&thread, NULL, other, NULL);
    pthread_join(thread, NULL);
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank, 0, &between);
    MPI_Bcast(&got, 1, MPI_INT, rank ? 0 : MPI_ROOT, between);
    """
    run, _ = captured("openmpi", 2, tmp_path / "a.sig", made(body, before=before))
    for record in run.ranks:
        assert record.left_out["MPI_Barrier (another thread)"] == 1
        assert record.left_out["MPI_Bcast (between communicators)"] == 1
        assert record.left_out["MPI_Comm_split"] == record.left_out["MPI_Intercomm_create"] == 1


def test_tags_that_rise_by_call_fold_and_agree_on_both_sides(made, tmp_path):
    body = """
    int x = 0;
    for (int i = 0; i < 1000; i++)
        if (rank == 0)
            MPI_Send(&x, 1, MPI_INT, 1, 100 + i, MPI_COMM_WORLD);
        else if (i % 2)
            MPI_Recv(&x, 1, MPI_INT, 0, 100 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Recv(&x, 1, MPI_INT, 0, 100 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    """
    run, _ = captured("openmpi", 2, tmp_path / "a.sig", made(body))
    sender, receiver = run.ranks
    assert {int(call["tag"]) for call in sender.calls if call["kind"] == CallKind.SEND} == {100}
    assert {int(call["tag"]) for call in receiver.calls if call["kind"] == CallKind.RECEIVE} == {100}
    assert len(sender.steps) < 50
    assert len(receiver.steps) < 150


def test_a_record_that_cannot_be_written_is_said_and_the_program_goes_on(made, tmp_path):
    program = made("MPI_Barrier(MPI_COMM_WORLD);")
    library = building.interposer(libraries.mpi_library_of([str(program)], {}))
    for folder in (tmp_path / "none", "/dev/full"):
        variables = launching.preloaded(environment(), str(library), f"{folder}/record")
        done = started("openmpi", 1, program, env=variables)
        assert done.returncode == 0
        assert "the record of MPI calls cannot be written: " in done.stderr


# ---- records and parts ----------------------------------------------------------------------------------------------


def record_bytes(rank=0, ranks=1, run=7, calls=(), steps=(), sites=(), text=b"", changed=None):
    """A record as the interposer writes it."""
    header = np.zeros(1, record_file.HEADER)
    call_rows = np.zeros(len(calls), CALL)
    for row, call in zip(call_rows, calls, strict=True):
        row["site"], row["first_count"], row["times"] = -1, -1, 1
        for name, value in call.items():
            row[name] = value
    head = {
        "version": record_file.VERSION, "header_bytes": record_file.HEADER.itemsize, "rank": rank, "ranks": ranks,
        "run": run,
        "calls": len(calls), "steps": len(steps), "communicators": 1, "members": ranks, "sites": len(sites),
        "text_bytes": len(text), "is_complete": 1, **(changed or {}),
    }  # fmt: skip
    header["magic"] = record_file.MAGIC
    for name, value in head.items():
        header[name] = value
    members = np.array([ranks, *range(ranks)], "<i8")
    padded = text + bytes(-len(text) % 8)
    parts = (header, call_rows, np.array(list(steps), STEP), members, np.array(list(sites), record_file.SITE))
    return b"".join(part.tobytes() for part in parts) + padded


BARRIER = {"kind": CallKind.BARRIER}


def test_records_are_joined():
    records = [record_file.read_record(record_bytes(rank, 2, calls=[BARRIER], steps=[(0, 1)]), "x") for rank in (1, 0)]
    joined = join_ranks(records, "processor")
    assert joined.missing == ()
    assert [len(record.calls) for record in joined.run.ranks] == [1, 1]
    assert joined.run.sites[joined.run.ranks[0].calls[0]["site"]].module == ""


@pytest.mark.parametrize("cut", [0, 7, 100, -8, -1])
def test_a_truncated_record_is_refused(cut):
    content = record_bytes(calls=[BARRIER], steps=[(0, 1)])
    with pytest.raises(SignatureError, match="damaged"):
        record_file.read_record(content[:cut], "x")


@pytest.mark.parametrize(
    "changed",
    [
        {"version": 3}, {"ranks": 0}, {"rank": 1}, {"rank": -1}, {"ranks": 1 << 40}, {"calls": -1}, {"calls": 1 << 60},
        {"text_bytes": 1 << 62}, {"members": 3}, {"library_bytes": 5}, {"first_library": -1, "library_bytes": 2},
        {"header_bytes": 8}, {"communicators": 0},
    ],
    ids=str,
)  # fmt: skip
def test_a_record_with_an_impossible_header_is_refused(changed):
    with pytest.raises(SignatureError, match="damaged"):
        record_file.read_record(record_bytes(calls=[BARRIER], steps=[(0, 1)], changed=changed), "x")


@pytest.mark.parametrize(
    "call",
    [{"kind": 99}, {"kind": -1}, {"communicator": 1}, {"site": 0}, {"peer": 5}, {"size_bytes": -1}, {"slots": 4}],
    ids=str,
)
def test_a_record_with_an_impossible_call_is_refused(call):
    with pytest.raises(SignatureError, match=r"damaged|do not fit"):
        content = record_bytes(calls=[{**BARRIER, **call}], steps=[(0, 1)])
        join_ranks([record_file.read_record(content, "x")], "")


@pytest.mark.parametrize("steps", [[(5, 1)], [(-1, 2)], [(-2, 0)], [(-1, 0), (0, 1), (-2, 0)], [(-9, 1)]], ids=str)
def test_a_record_with_impossible_steps_is_refused(steps):
    with pytest.raises(SignatureError, match="do not fit"):
        join_ranks([record_file.read_record(record_bytes(calls=[BARRIER], steps=steps), "x")], "")


def test_records_of_different_runs_are_not_joined():
    records = [record_file.read_record(record_bytes(rank, 2, run), "x") for rank, run in ((0, 1), (1, 2))]
    with pytest.raises(SignatureError, match="different runs"):
        join_ranks(records, "")
    with pytest.raises(SignatureError, match="two records are of rank 0"):
        join_ranks([records[0], record_file.read_record(record_bytes(0, 2, 1), "x")], "")
    assert join_ranks(records[:1], "").missing == (1,)


def test_a_file_that_is_no_part_is_refused(tmp_path):
    path = tmp_path / "a.sig.rank-0-of-1"
    path.write_bytes(b"FTPART1\n{}\n")
    with pytest.raises(SignatureError, match="damaged"):
        parts.read_part(path)
    path.write_bytes(b"something else")
    with pytest.raises(SignatureError, match="no rank's part"):
        parts.read_part(path)


def test_one_process_joins(tmp_path):
    with parts.only_one(tmp_path / "a") as first, parts.only_one(tmp_path / "a") as second:
        assert (first, second) == (True, False)
    assert list(tmp_path.iterdir()) == []


def test_a_lock_goes_with_its_process(tmp_path):
    lock = tmp_path / "a.joining"
    with parts.only_one(tmp_path / "a"):
        parts.remove_stale_lock(tmp_path / "a")
        assert lock.exists()
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    for content, stays in (
        (f"{platform.node()} {ended.stdout}", False), (f"another-{platform.node()} {ended.stdout}", True), ("", True),
    ):  # fmt: skip
        lock.write_text(content)
        parts.remove_stale_lock(tmp_path / "a")
        assert lock.exists() == stays


# ---- the launcher and the library -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"}, (3, 8)),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, (0, 2)),
        ({"PMIX_RANK": "1"}, (1, None)),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "6"}, (5, 6)),
        ({"PMI_RANK": "x"}, None),
        ({}, None),
    ],
)
def test_the_rank_is_told_by_the_launcher_s_variables(variables, expected):
    found = launching.position(variables)
    assert found == (expected and launching.Position(*expected))


def test_the_library_is_compiled_once_for_each_mpi(tmp_path, monkeypatch):
    needs("openmpi")
    needs("mpich")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = {building.interposer(libraries.mpi_library_of(["true"], {"MPICC": f"mpicc.{name}"})) for name in LIBRARIES}
    again = {building.interposer(libraries.mpi_library_of(["true"], {"MPICC": f"mpicc.{name}"})) for name in LIBRARIES}
    assert len(made) == 2
    assert made == again


def test_a_missing_compiler_and_a_third_mpi_have_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(EngineError, match="there is no such compiler"):
        libraries.mpi_library_of(["true"], {"MPICC": "mpicc.none"})
    (tmp_path / "mpi.h").write_text("#define MPI_VERSION 3\n")
    compiler = tmp_path / "mpicc"
    compiler.write_text(f'#!/bin/sh\nexec cc -I{tmp_path} "$@"\n')
    compiler.chmod(0o755)
    with pytest.raises(EngineError, match="neither Open MPI nor MPICH"):
        building.interposer(libraries.MpiLibrary(str(compiler)))


def test_the_program_s_library_decides_the_compiler():
    for name in LIBRARIES:
        program = compiled(PROGRAMS / "halo2d.c", name)
        assert libraries.mpi_library_of([str(program)], {}).compiler.endswith(f"mpicc.{name}")
