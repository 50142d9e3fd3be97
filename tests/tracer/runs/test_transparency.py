"""A traced program behaves as if nobody watched: its output, exit code, signals and files are its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from binary_runs import trace_command
from effort import sweep
from polling import child_of, wait_until_it_has_run

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Compile = Callable[..., Path]
Start = Callable[..., "subprocess.Popen[str]"]

CHATTY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char line[100];
    printf("%s %d %s\n", argv[0], argc, argc > 1 ? argv[1] : "-");
    fprintf(stderr, "complaint about %s\n", getenv("SUBJECT") ? getenv("SUBJECT") : "nothing");
    while (fgets(line, sizeof line, stdin)) fputs(line, stdout);
    FILE *f = fopen("written", "w"); fputs("content", f); fclose(f);
    printf("next descriptor %d\n", dup(0));
    return 42;
}"""

DIES = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    puts("before"); fflush(stdout);
    if (atoi(argv[1]) == SIGSEGV) *(volatile int *)0 = 1;
    if (atoi(argv[1]) == SIGFPE) { volatile int zero = 0; return argc / zero; }
    if (atoi(argv[1]) == SIGABRT) abort();
    raise(atoi(argv[1])); return 0;
}"""

WAITS = r"""
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static volatile sig_atomic_t got;
static void note(int s) { got = s; }
int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "handle")) { signal(SIGINT, note); signal(SIGTERM, note); signal(SIGHUP, note); }
    volatile double x = 0;
    for (int i = 0; i < 1000; i++) x += 1;
    puts("ready"); fflush(stdout);
    while (!got) x += 1;
    printf("got %d\n", got); return 7;
}"""

TICKS = r"""
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
static volatile sig_atomic_t ticks;
static void tick(int s) { (void)s; ticks++; }
int main(void) {
    struct itimerval every_ms = {{0, 1000}, {0, 1000}};
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &every_ms, 0);
    while (ticks < 300) getchar();
    puts("enough"); return 0;
}"""

FORKS = r"""
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) { volatile long sum = 0; for (long k = 0; k < 200000; k++) sum += k; _exit(i); }
        int status; waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != i) return 1;
    }
    puts("all came back"); return 0;
}"""

THREADS = r"""
#include <pthread.h>
#include <stdio.h>
static int data[64][4096];
static void *work(void *p) {
    int *d = p;
    for (int r = 0; r < 50; r++) for (int i = 0; i < 4096; i++) d[i] += i;
    return 0;
}
int main(void) {
    pthread_t t[64];
    for (int i = 0; i < 64; i++) pthread_create(&t[i], 0, work, data[i]);
    for (int i = 0; i < 64; i++) pthread_join(t[i], 0);
    printf("%d\n", data[63][4095]); return 0;
}"""


def info(foretrace: Run, path: Path) -> dict[str, object]:
    result = foretrace("info", path, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_output_input_files_and_exit_code(compile_c: Compile, foretrace: Run, tmp_path: Path) -> None:
    program = compile_c(CHATTY)
    results = []
    for traced in (False, True):
        directory = tmp_path / str(traced)
        directory.mkdir()
        options = {"cwd": directory, "input": "one\ntwo\n", "stdin": None, "env": os.environ | {"SUBJECT": "weather"}}
        options.pop("stdin")
        command = ["trace", "-o", tmp_path / "c.sig", "--", program, "x y"]
        if traced:
            result = subprocess.run(
                [sys.executable, "-P", "-m", "foretrace", *map(str, command)], capture_output=True, text=True, **options
            )  # type: ignore[call-overload]
        else:
            result = subprocess.run([program, "x y"], capture_output=True, text=True, **options)  # type: ignore[call-overload]
        files = {p.name: p.read_text() for p in directory.iterdir()}
        results.append((result.stdout, result.stderr, result.returncode, files))
    assert results[0] == results[1]
    assert info(foretrace, tmp_path / "c.sig")["complete"] is True


@sweep(
    "number", [signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGKILL, signal.SIGTERM],
    [signal.SIGSEGV, signal.SIGKILL],
)  # fmt: skip
def test_death_by_signal(number: int, compile_c: Compile, foretrace: Run, tmp_path: Path) -> None:
    program = compile_c(DIES)
    native = subprocess.run([program, str(int(number))], capture_output=True, text=True)
    traced = foretrace("trace", "-o", tmp_path / "d.sig", "--", program, int(number), cwd=tmp_path)
    assert (traced.returncode, traced.stdout, traced.stderr) == (native.returncode, native.stdout, native.stderr)
    assert traced.returncode == -number
    document = info(foretrace, tmp_path / "d.sig")
    assert document["complete"] is False
    assert number.name in str(document["provenance"])  # type: ignore[attr-defined]
    assert document["totals"]["instructions"] > 1000  # type: ignore[index]
    assert [p.name for p in tmp_path.iterdir()] == ["d.sig"]  # no core file


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A function that traces a program up to its line "ready". Whatever the test does, nothing goes on running."""
    processes = []

    def begin(program: Path, *arguments: str, ignored: tuple[int, ...] = ()) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            trace_command(tmp_path / "w.sig", program, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True, preexec_fn=lambda: [signal.signal(n, signal.SIG_IGN) for n in ignored],
        )  # fmt: skip
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield begin
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@sweep("number", [signal.SIGINT, signal.SIGTERM], [signal.SIGINT])
@pytest.mark.parametrize("whom", ["us", "both"])
def test_signals_reach_the_program(
    number: int, whom: str, start: Start, compile_c: Compile, foretrace: Run, tmp_path: Path
) -> None:
    process = start(compile_c(WAITS, "-O1"), "handle")
    (os.kill if whom == "us" else os.killpg)(process.pid, number)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (7, f"got {int(number)}\n", "")
    assert info(foretrace, tmp_path / "w.sig")["complete"] is True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ignored_signals_reach_a_program_that_handles_them(number: int, start: Start, compile_c: Compile) -> None:
    process = start(
        compile_c(WAITS, "-O1"), "handle", ignored=(number,)
    )  # as a shell starts background jobs, and nohup
    os.kill(process.pid, number)
    assert process.communicate() == (f"got {int(number)}\n", "")
    assert process.returncode == 7


def test_ignored_signals_stay_ignored_by_a_program_that_does_not(start: Start, compile_c: Compile) -> None:
    process = start(compile_c(WAITS, "-O1"), ignored=(signal.SIGINT,))
    os.kill(process.pid, signal.SIGINT)
    wait_until_it_has_run(child_of(process.pid))
    assert process.poll() is None
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait() == -signal.SIGTERM


def test_interrupted_program_leaves_a_valid_incomplete_signature(
    start: Start, compile_c: Compile, foretrace: Run, tmp_path: Path
) -> None:
    process = start(compile_c(WAITS, "-O1"))
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (-signal.SIGINT, "", "")
    document = info(foretrace, tmp_path / "w.sig")
    assert document["complete"] is False
    assert any(loop["function"] == "main" and loop["loads"] > 0 for loop in document["loops"])  # type: ignore[attr-defined]


def test_many_signals_leave_the_trace_whole(compile_c: Compile, foretrace: Run, tmp_path: Path) -> None:
    result = foretrace("trace", "-o", tmp_path / "a.sig", "--", compile_c(TICKS))
    assert (result.returncode, result.stdout, result.stderr) == (0, "enough\n", "")
    assert info(foretrace, tmp_path / "a.sig")["complete"] is True


def test_killed_program(start: Start, compile_c: Compile, foretrace: Run, tmp_path: Path) -> None:
    process = start(compile_c(WAITS, "-O1"))
    os.kill(child_of(process.pid), signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert info(foretrace, tmp_path / "w.sig")["complete"] is False


def test_program_outlives_a_killed_reader(start: Start, compile_c: Compile, tmp_path: Path) -> None:
    process = start(compile_c(WAITS, "-O1"), "handle")
    child = child_of(process.pid)
    process.kill()
    process.wait()
    wait_until_it_has_run(child)
    os.kill(child, signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.read() == "got 15\n"
    assert not (tmp_path / "w.sig").exists()


def test_forked_children_go_on_untraced(compile_c: Compile, foretrace: Run, tmp_path: Path) -> None:
    result = foretrace("trace", "-o", tmp_path / "f.sig", "--", compile_c(FORKS, "-O1"))
    assert (result.returncode, result.stdout, result.stderr) == (0, "all came back\n", "")
    document = info(foretrace, tmp_path / "f.sig")
    assert document["complete"] is True
    assert document["provenance"]["untraced_children"] == 20  # type: ignore[index]
    assert document["totals"]["instructions"] < 20 * 200000  # type: ignore[index]


def test_threads_are_counted_exactly(compile_c: Compile, foretrace: Run, tmp_path: Path) -> None:
    result = foretrace("trace", "-o", tmp_path / "t.sig", "--", compile_c(THREADS, "-O1"))
    assert (result.returncode, result.stdout) == (0, "204750\n")
    document = info(foretrace, tmp_path / "t.sig")
    work = [loop for loop in document["loops"] if loop["function"] == "work"]  # type: ignore[attr-defined]
    assert sum(loop["stores"] for loop in work) == 64 * 50 * 4096
