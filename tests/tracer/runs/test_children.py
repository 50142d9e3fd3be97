"""Processes that descend from a program, followed: each is counted as if it ran alone, and nothing hangs or is left."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from binary_runs import BinaryRun, run_traced, trace_command
from effort import sweep
from polling import wait_until
from process_programs import FORKS_OFTEN, REPLACES_ITSELF, nothing_is_left, processes_of

from foretrace.profiles import library
from foretrace.replay.prediction.predict import predict
from foretrace.tracer.processes import family

__all__ = ["nothing_is_left"]
Compile = Callable[..., Path]
pytestmark = pytest.mark.usefixtures("nothing_is_left")

FAMILY = r"""
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int x[1000];
__attribute__((noinline)) void work(void) { for (int i = 0; i < 1000; i++) x[i]++; }
static void *in_thread(void *p) { work(); return p; }
int main(int argc, char **argv) {
    pthread_t threads[4];
    work();
    if (argc > 1) return 0; /* what a child has become */
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, in_thread, 0);
    for (int i = 0; i < 3; i++)
        if (fork() == 0) { /* while the threads run */
            work();
            if (i == 1 && fork() == 0) { work(); _exit(0); }
            while (wait(0) > 0) {}
            if (i == 2) execl(argv[0], argv[0], "again", (char *)0);
            _exit(0);
        }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    if (vfork() == 0) { execl(argv[0], argv[0], "once more", (char *)0); _exit(1); }
    while (wait(0) > 0) {}
    puts("done"); return 6;
}"""

SCRIPT = """#!/bin/sh -e
{program} again
/no/such/program || true
exec {program} finally
"""

KILLED = r"""
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int x[1000];
__attribute__((noinline)) void work(void) { for (int i = 0; i < 1000; i++) x[i]++; }
int main(void) {
    pid_t child = fork();
    if (child == 0) { work(); kill(getpid(), SIGKILL); }
    int status; waitpid(child, &status, 0);
    printf("%d\n", WTERMSIG(status)); return 2;
}"""

ALL_AT_ONCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int x[1000];
__attribute__((noinline)) void work(void) { for (int i = 0; i < 1000; i++) x[i]++; }
int main(int argc, char **argv) {
    int children = atoi(argv[1]), ended = 0;
    for (int i = 0; i < children; i++)
        if (fork() == 0) { work(); _exit(0); }
    while (wait(0) > 0) ended++;
    printf("%d\n", ended); return 0;
}"""

OUTLIVES = r"""
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (fork()) return argc;
    for (int fd = 0; fd < 3; fd++) close(fd);
    while (access("go on", F_OK)) usleep(10000);
    return mkdir(argv[1], 0700);
}"""


def follow(directory: Path, *program: str | Path) -> BinaryRun:
    return run_traced(directory, *program, options=("--follow-children",))


def times_worked(run: BinaryRun) -> float:
    """How often `work` ran, which loads and stores 1,000 words."""
    stores = run.accesses("work", is_store=True, at_least=1000)
    assert stores == run.accesses("work", is_store=False, at_least=1000)
    return stores[4] / 1000


def test_forks_threads_vforks_and_what_they_become(compile_c: Compile, tmp_path: Path) -> None:
    program = compile_c(FAMILY, "-O1")
    run = follow(tmp_path, program)
    assert (run.returncode, run.stdout, run.stderr) == (6, "done\n", "")
    assert times_worked(run) == 1 + 4 + 3 + 1 + 2
    provenance = run.signature.provenance
    assert (provenance.complete, provenance.untraced_children, provenance.untraced_threads) == (True, 0, 0)
    assert [process.number for process in provenance.processes] == list(range(8))
    became = sorted(process.command for process in provenance.processes if process.command)
    assert became == [(str(program),), (str(program), "again"), (str(program), "once more")]
    counted = sum(process.instructions for process in provenance.processes)
    assert counted == pytest.approx(run.signature.totals.instructions, rel=0.01)  # with those cut by the end of a page
    assert sum(process.threads for process in provenance.processes) == provenance.threads == 8 + 4
    [loop] = [loop for loop in run.signature.loops if loop.function == "work"]  # one, though of several processes
    assert loop.entries == 11
    untraced = run_traced(tmp_path, program)
    assert times_worked(untraced) == 1 + 4
    assert untraced.signature.provenance.untraced_children == 4
    assert untraced.signature.provenance.processes == ()


def test_scripts_run_by_their_interpreters(compile_c: Compile, tmp_path: Path) -> None:
    program, script = compile_c(FAMILY, "-O1"), tmp_path / "-script"
    script.write_text(SCRIPT.format(program=program))
    script.chmod(0o755)
    run = follow(tmp_path, "/bin/sh", "-c", f"cd {tmp_path}; exec ./-script")
    assert (run.returncode, run.stdout) == (0, "")
    assert "/no/such/program" in run.stderr
    assert times_worked(run) == 2
    commands = [process.command for process in run.signature.provenance.processes]
    assert ("/bin/sh", "-e", "./-script") in commands
    assert (str(program), "finally") in commands
    assert {process.problem for process in run.signature.provenance.processes} == {""}


def test_program_that_runs_itself_again(compile_c: Compile, tmp_path: Path) -> None:
    program = compile_c(REPLACES_ITSELF)
    run = follow(tmp_path, program)
    assert (run.returncode, run.stdout) == (5, "again\n")
    assert [p.command for p in run.signature.provenance.processes] == [(str(program),), (str(program), "again")]


def test_many_short_lived_children_followed(compile_c: Compile, tmp_path: Path) -> None:
    run = follow(tmp_path, compile_c(FORKS_OFTEN), "80")
    assert (run.returncode, run.stdout, run.stderr) == (2, "80 right\n", "")
    provenance = run.signature.provenance
    assert (provenance.complete, provenance.untraced_children, len(provenance.processes)) == (True, 0, 81)


def test_children_beyond_what_is_read_go_on_untraced(
    compile_c: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from traces import trace_binary

    monkeypatch.setattr(family, "MAX_IN_ALL", 3)
    traced = trace_binary([str(compile_c(FORKS_OFTEN)), "10"], follow_children=True)
    assert traced.ending.exit_code == 2
    provenance = traced.signature.provenance
    assert (len(provenance.processes), provenance.untraced_children) == (4, 7)


def test_many_children_at_once_wait_their_turn_asleep(compile_c: Compile, tmp_path: Path) -> None:
    """Each asks its parent's reader for a stream; polling, they took the processors from it, by the square."""
    run = follow(tmp_path, compile_c(ALL_AT_ONCE, "-O1"), "150")
    assert (run.returncode, run.stdout, run.stderr) == (0, "150\n", "")
    provenance = run.signature.provenance
    followed = len(provenance.processes) - 1
    assert followed + provenance.untraced_children == 150
    assert times_worked(run) == followed >= family.MAX_AT_ONCE


def test_killed_child(compile_c: Compile, tmp_path: Path) -> None:
    run = follow(tmp_path, compile_c(KILLED, "-O1"))
    assert (run.returncode, run.stdout) == (2, "9\n")
    assert times_worked(run) == 1
    provenance = run.signature.provenance
    assert not provenance.complete
    assert provenance.incomplete_reason.startswith("1 of 1 child processes were not recorded to their end: ")


def test_child_that_outlives_the_program_goes_on_untraced(compile_c: Compile, tmp_path: Path) -> None:
    program = tmp_path / "outlives"
    program.write_bytes(compile_c(OUTLIVES).read_bytes())
    program.chmod(0o755)
    run = follow(tmp_path, program, tmp_path / "made")
    assert (run.returncode, run.stderr) == (2, "")
    assert run.signature.provenance.processes[1].problem == "it was still running when the first program ended"
    (tmp_path / "go on").touch()
    wait_until((tmp_path / "made").is_dir)


def test_children_outlive_a_killed_reader(compile_c: Compile, tmp_path: Path) -> None:
    program = tmp_path / "outlives"
    program.write_bytes(compile_c(OUTLIVES).read_bytes())
    program.chmod(0o755)
    command = trace_command(
        tmp_path / "x.sig", "/bin/sh", "-c", f"{program} made & wait", options=("--follow-children",)
    )
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    wait_until(lambda: sum("/outlives" in command for command in processes_of(tmp_path)) == 3)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    (tmp_path / "go on").touch()
    wait_until((tmp_path / "made").is_dir)


@sweep(
    ("script", "words"),
    [
        ("true", None),
        ("exec env true", None),
        ("env true; env true", "the program ran 3 processes; "),
        ("env true & (exec env env true); wait", "the program ran 3 processes; "),
    ],
    [("exec env true", None), ("env true; env true", "the program ran 3 processes; ")],
)
def test_a_prediction_names_processes_as_such(script: str, words: str | None, tmp_path: Path) -> None:
    """Not as threads, whatever they become."""
    run = run_traced(tmp_path, "sh", "-c", script, options=("--follow-children",))
    warnings = predict(run.signature, library.find("jaguar-xt4")).warnings
    found = [warning for warning in warnings if "one core doing all their work" in warning]
    assert len(found) == (words is not None)
    assert not words or found[0].startswith(words)


def test_a_prediction_names_threads_of_processes(compile_c: Compile, tmp_path: Path) -> None:
    """The first has five, and forks four times, twice to become another program; a child forks once."""
    run = run_traced(tmp_path, compile_c(FAMILY), options=("--follow-children",))
    warnings = predict(run.signature, library.find("jaguar-xt4")).warnings
    assert any(warning.startswith("the program ran 6 processes with 10 threads in all; ") for warning in warnings)
