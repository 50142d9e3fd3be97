"""`foretrace events` on programs in C."""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from event_programs import PRINT
from polling import wait_until

from foretrace.base.errors import EventsError
from foretrace.tracer.events import linking
from foretrace.tracer.events.board_file import (
    MOST_EVENTS,
    VERSION,
    CBoard,
    CChunk,
    CEvent,
    CLane,
    CRecording,
    is_running,
    read_board,
)

Compile = Callable[..., Path]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

SOURCE = (
    PRINT
    + r"""
#include <signal.h>
int main(int argc, char **argv)
{
    static long long iterations;
    static double residual = 1;
    void *products, *residuals, *sizes, *raw;
    papi_handle_t solver = papi_sde_init("solver");
    papi_sde_register_counter(solver, "iterations", PAPI_SDE_INSTANT, PAPI_SDE_long_long, &iterations);
    papi_sde_register_counter(solver, "residual", PAPI_SDE_INSTANT, PAPI_SDE_double, &residual);
    papi_sde_describe_counter(solver, "residual", "\033[31mnorm");
    papi_sde_create_counter(solver, "products", PAPI_SDE_RO, &products);
    papi_sde_describe_counter(solver, "products", "sparse products [calls]");
    papi_sde_create_recorder(solver, "residuals", sizeof residual, papi_sde_compare_double, &residuals);
    papi_sde_create_recorder(solver, "raw", 2, NULL, &raw);
    papi_sde_create_counting_set(solver, "sizes", &sizes);
    for (iterations = 0; iterations < 4; iterations++) {
        residual /= 2;
        papi_sde_inc_counter(products, 2);
        papi_sde_record(residuals, sizeof residual, &residual);
        papi_sde_record(raw, 2, "ab");
        papi_sde_counting_set_insert(sizes, 1, 1, "x", 0);
    }
    if (argc > 1 && strcmp(argv[1], "die") == 0)
        kill(getpid(), SIGTERM);
    if (argc > 1) {
        puts("ready");
        fflush(stdout);
        pause();
    }
    return 3;
}
"""
)


@contextmanager
def waiting(program: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has made its board, and waits."""
    with subprocess.Popen([program, "wait"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


@pytest.fixture
def program(compile_c: Compile, foretrace: Run) -> Path:
    """Built with the flags that the command prints."""
    flags = [foretrace("events", option).stdout for option in ("--cflags", "--libs")]
    return compile_c(SOURCE, "-Wl,--no-as-needed", *shlex.split(" ".join(flags)))


def test_a_run_shows_events_and_ends_as_the_program(program: Path, foretrace: Run) -> None:
    done = foretrace("events", "--json", "--", program)
    assert (done.returncode, done.stderr) == (3, "")
    found = json.loads(done.stdout)
    assert found["schema"] == "foretrace.events/1"
    assert [source["ended"] for source in found["sources"]] == [True]
    events = {event["name"]: event for event in found["events"]}
    assert {name: event["value"] for name, event in events.items()} == {
        "iterations": 4, "residual": 0.0625, "products": 8, "residuals": 4, "raw": 4, "sizes": 1
    }  # fmt: skip
    assert (events["products"]["unit"], events["products"]["kind"]) == ("calls", "created")
    assert events["residuals"]["quantiles"]["median"] == pytest.approx((0.25 + 0.125) / 2)
    assert events["sizes"]["elements"] == [{"hex": "78", "type_id": 0, "count": 4}]
    table = foretrace("events", "--", program).stdout
    assert "solver::products" in table
    assert "\033" not in table
    assert foretrace("events", "--csv", "--", program).stdout.splitlines()[3].startswith("solver,products,created")


def test_values_are_printed_a_line_each(program: Path, foretrace: Run) -> None:
    asked = foretrace("events", "--values", "solver::residuals", "--", program)
    assert [float(line) for line in asked.stdout.splitlines()] == [0.5, 0.25, 0.125, 0.0625]
    assert foretrace("events", "--values", "solver::raw", "--", program).stdout.split() == ["6162"] * 4
    wrong = foretrace("events", "--values", "solver::products", "--", program)
    assert wrong.returncode == 84
    assert "is no recorder; there are solver::residuals, solver::raw" in wrong.stderr


def test_a_process_is_shown_while_it_runs_and_after_it_was_killed(
    program: Path, foretrace: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORETRACE_EVENTS_DIRECTORY", str(tmp_path))
    with waiting(program) as process:
        running, every = foretrace("events", "--json", str(process.pid)), foretrace("events")
        process.kill()
    assert json.loads(running.stdout)["sources"][0]["ended"] is False
    assert {event["name"]: event["value"] for event in json.loads(running.stdout)["events"]}["products"] == 8
    assert f"{process.pid}  running" in every.stdout
    assert f"{process.pid}  killed" in foretrace("events").stdout
    assert "which was killed" in foretrace("events", "--json", str(process.pid)).stdout
    assert foretrace("events", "--clean").stdout == "1 removed.\n"
    assert foretrace("events").stdout == "No process of yours has software-defined events.\n"
    gone = foretrace("events", str(process.pid))
    assert (gone.returncode, gone.stderr.count("\n")) == (84, 1)
    assert "does not run" in gone.stderr


def test_a_program_that_dies_of_a_signal(program: Path, foretrace: Run) -> None:
    done = foretrace("events", "--", program, "die")
    assert done.returncode == -signal.SIGTERM
    assert "solver::products" in done.stdout


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"ftevents" + (9).to_bytes(4, "little") + bytes(4084), "holds no events of this version of foretrace"),
        (b"ftev", "is cut off, or damaged"),
    ],
)
def test_a_board_that_cannot_be_read_does_not_hide_the_others(
    content: bytes, reason: str, program: Path, foretrace: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORETRACE_EVENTS_DIRECTORY", str(tmp_path))
    (tmp_path / f"foretrace-events-{os.geteuid()}-4000000000").write_bytes(content)
    with waiting(program) as process:
        listed, document = foretrace("events"), json.loads(foretrace("events", "--json").stdout)
        process.kill()
    assert f"{process.pid}  running       6" in listed.stdout
    assert "4000000000  killed        -" in listed.stdout
    assert reason in listed.stderr
    unread = {row["process"]: row["unread"] for row in document["processes"]}
    assert unread[process.pid] == ""
    assert reason in unread[4000000000]
    (tmp_path / f"foretrace-events-{os.geteuid()}-4000000000.replaced").touch()
    assert foretrace("events", "--clean").stdout == "3 removed.\n"


def test_a_board_is_of_the_user_and_process_in_its_name(
    program: Path, foretrace: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORETRACE_EVENTS_DIRECTORY", str(tmp_path))
    with waiting(program) as process:
        process.kill()
    own = tmp_path / f"foretrace-events-{os.geteuid()}-{process.pid}"
    with own.open("rb") as board:  # it is long, and nearly all a hole
        (tmp_path / f"foretrace-events-{os.geteuid()}-4000000000").write_bytes(board.read(1 << 20))
    other = foretrace("events", "4000000000")
    assert other.returncode == 84
    assert f"is no board of process 4000000000: it says that it is of {process.pid}" in other.stderr
    (tmp_path / f"foretrace-events-{os.geteuid()}-4000000001").symlink_to(own)
    assert {row["process"] for row in json.loads(foretrace("events", "--json").stdout)["processes"]} == {
        process.pid, 4000000000,
    }  # fmt: skip
    if os.geteuid() == 0:
        os.chown(own, 12345, 12345)
        assert "does not run; foretrace events lists" in foretrace("events", str(process.pid)).stderr
        theirs = tmp_path / f"foretrace-events-12345-{process.pid}"
        own.rename(theirs)
        assert str(process.pid) not in foretrace("events").stdout
        assert str(process.pid) in foretrace("events", "--user", "12345").stdout
        assert foretrace("events", "--user", "12345", str(process.pid)).returncode == 0
    assert "there is no such user" in foretrace("events", "--user", "no such").stderr


def test_a_variable_is_read_only_from_the_process_that_made_the_board(
    program: Path, foretrace: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not from a later one that has its number: the start in the head tells them apart."""
    monkeypatch.setenv("FORETRACE_EVENTS_DIRECTORY", str(tmp_path))
    with waiting(program) as process:
        path = tmp_path / f"foretrace-events-{os.geteuid()}-{process.pid}"

        def iterations() -> tuple[int | None, bool]:
            shown = foretrace("events", "--json", str(process.pid)).stdout
            found = json.loads(shown)["events"]
            value = next(event["value"] for event in found if event["name"] == "iterations")
            return value, "it was in the memory of the process, which was killed" in shown

        found = [iterations()]
        with path.open("r+b") as board:
            board.seek(CBoard.start_ticks.offset)
            start = int.from_bytes(board.read(8), "little")
            board.seek(CBoard.start_ticks.offset)
            board.write((start - 1).to_bytes(8, "little"))
        found.append(iterations())
        listed = foretrace("events").stdout
        process.kill()
    assert found == [(4, False), (None, True)]
    assert f"{process.pid}  killed" in listed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_run_that_is_killed_leaves_nothing_that_clean_does_not_remove(
    number: signal.Signals, program: Path, foretrace: Run, tmp_path: Path
) -> None:
    def folders() -> set[Path]:
        return set(Path("/dev/shm").glob("foretrace-events-run-*"))

    before = folders()
    command = [sys.executable, "-P", "-m", "foretrace", "events", "--", str(program), "wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        [folder] = folders() - before
        [board] = folder.iterdir()
        traced = int(board.name.rpartition("-")[2])
        running.send_signal(number)
        if number == signal.SIGKILL:
            running.wait()
            foretrace("events", "--clean")
            assert folder.exists()  # the program still counts there
            os.kill(traced, signal.SIGKILL)
            wait_until(lambda: not is_running(traced))
            assert foretrace("events", "--clean").stdout != "0 removed.\n"
        running.wait()
    assert running.returncode == -number
    assert not folder.exists()


def test_what_a_board_holds_is_bounded_by_its_file(foretrace: Run, tmp_path: Path) -> None:
    """A sparse file costs whoever makes it nothing: a chunk of 4 GiB in it is refused, not read."""
    size = ctypes.sizeof
    head = CBoard(magic=b"ftevents", version=VERSION, process=4000000000, size_bytes=1 << 34)
    event = CEvent(kind=5, size_bytes=8, slot=0, value=1, name=size(CBoard) + size(CEvent))
    at = size(CBoard) + size(CEvent) + 16
    lane = CLane()
    lane.recordings[0] = at + size(CLane)
    recording = CRecording(
        epoch=1, first=at + size(CLane) + size(CRecording), current=at + size(CLane) + size(CRecording)
    )
    chunk = CChunk(size_bytes=1 << 32, used_bytes=1 << 32)
    head.first_event, head.first_lane = size(CBoard), at
    path = tmp_path / f"foretrace-events-{os.geteuid()}-4000000000"
    path.write_bytes(b"".join(map(bytes, (head, event, b"lib::values".ljust(16, b"\0"), lane, recording, chunk))))
    os.truncate(path, 1 << 34)
    with pytest.raises(EventsError, match="its recorders hold more than 1 GiB, or than the file does"):
        read_board(path)


def board_of(num_events: int, name_bytes: int) -> bytes:
    """A board of counters with equal long names and descriptions."""
    head = CBoard(magic=b"ftevents", version=VERSION, process=4000000000)
    name = ctypes.sizeof(CBoard)
    first = name + name_bytes + 1
    head.first_event = first
    events = []
    for number in range(num_events):
        after = first + (number + 1) * ctypes.sizeof(CEvent) if number + 1 < num_events else 0
        events.append(CEvent(next=after, name=name, description=name, kind=4, id=number, slot=number % 64))
    text = b"l::" + b"n" * (name_bytes - 3) + b"\0"
    return bytes(head) + text + b"".join(map(bytes, events)) + bytes(4096)


def test_many_events_are_read_and_more_than_a_file_holds_are_not(foretrace: Run, tmp_path: Path) -> None:
    path = tmp_path / f"foretrace-events-{os.geteuid()}-4000000000"
    path.write_bytes(board_of(60_000, 20))
    assert len(read_board(path).events) == 60_000
    path.write_bytes(board_of(MOST_EVENTS + 1, 20))
    with pytest.raises(EventsError, match=f"does not end, or has more than {MOST_EVENTS} entries"):
        read_board(path)
    path.write_bytes(board_of(20_000, 100_000))  # the same text, again and again
    with pytest.raises(EventsError, match="its events hold more than the file does"):
        read_board(path)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--", "/missing"), 71, "/missing: cannot be run"),
        (("--", "true"), 84, "no library of it has software-defined events"),
        (("1",), 84, "process 1 has no software-defined events"),
        (("--unknown",), 2, "No such option"),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_line(
    arguments: tuple[str, ...], code: int, message: str, foretrace: Run
) -> None:
    done = foretrace("events", *arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert sum(line.startswith("foretrace: error:") for line in done.stderr.splitlines()) == 1


def test_the_drop_in_folder_has_papis_names(foretrace: Run) -> None:
    folder = Path(foretrace("events", "--drop-in").stdout.strip())
    files = [folder / name for name in ("libsde.so", "libsde.so.1", "libsde.so.1.0")]
    assert len({path.stat().st_ino for path in files}) == 1
    assert {path.resolve() for path in files} == {linking.library().resolve()}


def test_another_installation_has_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = linking.drop_in()
    other = tmp_path / "other.so"
    other.touch()
    monkeypatch.setattr(linking, "library", lambda: other)
    second = linking.drop_in()
    assert (second / "libsde.so.1").resolve() == other
    assert (first / "libsde.so.1").resolve() != other
    assert linking.drop_in() == second
