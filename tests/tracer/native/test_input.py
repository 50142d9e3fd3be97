"""Standard input of programs that are timed several times: each run reads the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from foretrace.base.errors import ProgramError
from foretrace.tracer.native import program_input
from foretrace.tracer.native.program_input import ProgramInput, Reading
from foretrace.tracer.native.timing import NO_READER, time_natively
from foretrace.tracer.native.timing_file import read_timing

SUMS = r"""
#include <stdio.h>
int main(int argc, char **argv) {
    unsigned sum = 0; int letter; long count = 0;
    while ((letter = getchar()) != EOF) { count++; for (int i = 0; i < 20; i++) sum = sum * 31 + letter; }
    FILE *log = fopen(argv[argc - 1], "a");
    fprintf(log, "%ld %u\n", count, sum); fclose(log);
    printf("%u\n", sum); return 0;
}"""
LOOKS = r"""
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct stat status; char buffer[4096]; long count = 0, got;
    fstat(0, &status);
    while ((got = read(0, buffer, sizeof buffer)) > 0) count += got;
    FILE *log = fopen(argv[argc - 1], "a");
    fprintf(log, "%s %ld\n", S_ISFIFO(status.st_mode) ? "pipe" : S_ISREG(status.st_mode) ? "file" : "other", count);
    return fclose(log);
}"""
CONTENT = bytes(i * i % 251 for i in range(1_000_003))

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def time_command(output: Path, *program: str | Path, options: tuple[str, ...] = ("--runs", "4")) -> list[str]:
    command = [sys.executable, "-P", "-m", "foretrace", "time", "--force", *options, "-o", str(output), "--"]
    return [*command, *map(str, program)]


@contextmanager
def as_our_input(descriptor: int) -> Iterator[None]:
    """This process's own standard input, for a while."""
    before = os.dup(0)
    os.dup2(descriptor, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


@pytest.fixture
def sums(compile_c: Callable[..., Path]) -> Path:
    return compile_c(SUMS, "-O1")


@pytest.mark.parametrize("kind", ["file", "deleted file", "pipe", "socket"])
def test_each_run_reads_the_same(kind: str, sums: Path, tmp_path: Path) -> None:
    """Of a file, from where it stood; and whoever reads it after us goes on where the first run ended."""
    log, command = tmp_path / "log", time_command(tmp_path / "x.timing", sums, tmp_path / "log")
    if "file" in kind:
        (tmp_path / "input").write_bytes(b"skipped" + CONTENT)
        with (tmp_path / "input").open("rb") as file:
            os.lseek(file.fileno(), len(b"skipped"), os.SEEK_SET)
            if kind == "deleted file":
                (tmp_path / "input").unlink()
            result = subprocess.run(command, stdin=file, capture_output=True)
            assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == len(b"skipped" + CONTENT)
    elif kind == "pipe":
        result = subprocess.run(command, input=CONTENT, capture_output=True)
    else:
        import socket

        ours, theirs = socket.socketpair()
        process = subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        theirs.close()
        ours.sendall(CONTENT)
        ours.close()
        stdout, stderr = process.communicate()
        result = subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
    assert (result.returncode, result.stderr) == (0, b"")
    lines = log.read_text().splitlines()
    assert len(lines) == 4
    assert set(lines) == {f"{len(CONTENT)} {result.stdout.decode().strip()}"}


def test_a_pipe_without_end_of_which_little_is_read(tmp_path: Path) -> None:
    command = time_command(tmp_path / "x.timing", "head", "-c", "100000")
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        result = subprocess.run(command, stdin=endless.stdout, capture_output=True)
        assert endless.stdout is not None
        endless.stdout.close()
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout == b"y\n" * 50_000
    assert len(read_timing(tmp_path / "x.timing").runs) == 4


def test_a_pipe_that_nobody_writes_to_delays_nothing(tmp_path: Path) -> None:
    idle, writer = os.pipe()
    try:
        result = subprocess.run(time_command(tmp_path / "x.timing", "true"), stdin=idle)
    finally:
        os.close(idle)
        os.close(writer)
    assert result.returncode == 0


def test_a_program_that_closes_its_input_early(tmp_path: Path) -> None:
    command = time_command(tmp_path / "x.timing", "sh", "-c", "read -r x; exec <&-; sleep 0.01; echo $x")
    result = subprocess.run(command, input=b"first\n" + CONTENT, capture_output=True)
    assert (result.returncode, result.stdout) == (0, b"first\n")


def test_more_than_can_be_kept_is_refused(sums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_input, "MAX_KEPT_BYTES", 1 << 20)
    with subprocess.Popen(["head", "-c", "3000000", "/dev/zero"], stdout=subprocess.PIPE) as source:
        assert source.stdout is not None
        with (
            as_our_input(source.stdout.fileno()),
            pytest.raises(ProgramError, match=r"standard input cannot be kept .* longer than 1 MiB; .* a file"),
        ):
            time_natively([str(sums), str(tmp_path / "log")], runs=2)
    assert (tmp_path / "log").read_text().startswith("3000000 "), "the first run read all of it"


def test_a_single_run_has_our_own_input(tmp_path: Path) -> None:
    """Without a copy between: what it leaves is left for others."""
    script = "import os; print(os.read(0, 5))"
    command = time_command(tmp_path / "x.timing", sys.executable, "-c", script, options=())
    source, target = os.pipe()
    os.write(target, b"ours, theirs")
    os.close(target)
    result = subprocess.run(command, stdin=source, capture_output=True)
    assert result.stdout == b"b'ours,'\n"
    assert os.read(source, 100) == b" theirs"
    os.close(source)


def test_a_terminal_is_said_to_be_read_once(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    command = time_command(tmp_path / "x.timing", "true")
    result = subprocess.run(command, stdin=theirs, capture_output=True, text=True)
    os.close(ours)
    os.close(theirs)
    assert "the first run alone reads from the terminal" in result.stderr
    assert result.returncode == 0


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_programs_that_look_find_the_same_kind_of_input(
    kind: str, compile_c: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as `wc -c`, which asks a file for its length, and reads a pipe to its end."""
    monkeypatch.chdir(tmp_path)
    looks, log = compile_c(LOOKS, "-O1"), tmp_path / "log"
    (tmp_path / "input").write_bytes(CONTENT[:200_000])
    with (tmp_path / "input").open("rb") as file:
        command = time_command(tmp_path / "x.timing", looks, log, options=("--runs", "3"))
        if kind == "file":
            subprocess.run(command, stdin=file, check=True, capture_output=True)
        else:
            subprocess.run(command, input=file.read(), check=True, capture_output=True)
    lines = log.read_text().splitlines()
    assert len(lines) == 3
    assert set(lines) == {f"{kind} 200000"}


def test_a_later_run_that_reads_little_of_much_is_not_waited_for(tmp_path: Path) -> None:
    """Nor a child of it that keeps its input open."""
    script = "head -c 10; sleep 100 & exit 0"
    command = time_command(tmp_path / "x.timing", "sh", "-c", f"{script}")
    result = subprocess.run(command, input=CONTENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert result.returncode == 0
    assert len(read_timing(tmp_path / "x.timing").runs) == 4


def read_of(reading: Reading) -> bytes:
    """What a program reads of it at once, which has a copy of its own."""
    assert reading.descriptor is not None
    own = os.dup(reading.descriptor)
    reading.begun()
    try:
        return os.read(own, 10)
    finally:
        os.close(own)


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source, target = os.pipe()
    os.write(target, b"some")
    with as_our_input(source):
        descriptors = set(Path("/proc/self/fd").iterdir())
        with ProgramInput() as given:
            with given.first() as reading:
                assert read_of(reading) == b"some"
            for _ in range(2):
                with given.again() as again:
                    assert read_of(again) == b"some"
        assert set(Path("/proc/self/fd").iterdir()) == descriptors
    os.close(source)
    os.close(target)
    assert list(tmp_path.iterdir()) == []


ENDLESS_PYTHON = (
    "import sys\ntry:\n    while True: print('y')\nexcept BrokenPipeError:\n    sys.stdout = None\n    sys.exit(3)"
)


@pytest.mark.parametrize(
    ("program", "ending"),
    [(("yes",), -signal.SIGPIPE), (("sh", "-c", "yes; exit"), 141), ((sys.executable, "-c", ENDLESS_PYTHON), 3)],
)
def test_a_program_whose_output_nobody_reads_any_more_runs_once(
    program: tuple[str, ...], ending: int, tmp_path: Path
) -> None:
    """Nothing would end a later run."""
    output = tmp_path / "x.timing"
    process = subprocess.Popen(
        time_command(output, *program, options=("--runs", "3")),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "y\n"
    process.stdout.close()
    assert process.stderr is not None
    complaint = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == ending
    assert complaint == f"foretrace: 1 of 3 runs: {NO_READER}\n"
    timing = read_timing(output)
    assert len(timing.runs) == 1
    assert (timing.signal, timing.exit_code) == ((-ending, None) if ending < 0 else (None, ending))


def test_runs_go_on_where_an_output_without_reader_ended_nothing(tmp_path: Path) -> None:
    """All of it was in the pipe already."""
    output = tmp_path / "x.timing"
    process = subprocess.Popen(
        time_command(output, "sh", "-c", "sleep 0.2; echo done", options=("--runs", "3")), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"done\n"
    process.stdout.close()
    assert process.wait(60) == 0
    assert len(read_timing(output).runs) == 3
