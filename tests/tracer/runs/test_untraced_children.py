"""Child processes that go on untraced are counted, however they begin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from binary_runs import run_traced
from effort import sweep
from python_runs import trace

from foretrace.tracer.python.program import PythonCore

WAYS = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static char stack[65536];
static int in_child(void *unused) { (void)unused; _exit(0); }
static pid_t begin(const char *way) {
    char *arguments[] = {"true", NULL};
    pid_t pid = 0;
    if (strcmp(way, "vfork") == 0 && (pid = vfork()) == 0) _exit(0);
    if (strcmp(way, "posix_spawn") == 0) posix_spawnp(&pid, "true", NULL, NULL, arguments, environ);
    if (strcmp(way, "system") == 0) return -system("true");
    if (strcmp(way, "popen") == 0) return -pclose(popen("true", "r"));
    if (strcmp(way, "clone") == 0) pid = clone(in_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    if (strcmp(way, "clone_call") == 0 && (pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) == 0) _exit(0);
    return pid;
}
int main(int argc, char **argv) {
    for (int i = 0; i < 3; i++) {
        pid_t pid = begin(argv[argc - 1]);
        if (pid < 0 || (pid > 0 && waitpid(pid, NULL, 0) != pid)) return 1;
    }
    return 0;
}"""


@pytest.mark.parametrize("way", ["vfork", "posix_spawn", "system", "popen", "clone", "clone_call"])
def test_those_of_compiled_programs(way: str, compile_c: Callable[..., Path], tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(WAYS), way)
    assert run.signature.provenance.exit_code == 0
    assert run.signature.provenance.untraced_children == 3


PYTHON_WAYS = {
    "os.fork": (1, "pid = os.fork() or os._exit(0)\nos.waitpid(pid, 0)"),
    "os.forkpty": (1, "pid, _ = os.forkpty()\npid or os._exit(0)\nos.waitpid(pid, 0)"),
    "os.system": (2, "os.system('true'), os.system('exit 3')"),
    "os.posix_spawn": (1, "os.waitpid(os.posix_spawn(sys.executable, ['python', '-c', ''], os.environ), 0)"),
    "os.posix_spawnp": (1, "os.waitpid(os.posix_spawnp('true', ['true'], os.environ), 0)"),
    "subprocess.run": (2, "for _ in range(2): subprocess.run(['true'], check=True)"),
    "subprocess.run with preexec_fn": (1, "subprocess.run(['true'], preexec_fn=int)"),
    "subprocess.run with shell": (1, "subprocess.run('true; true', shell=True)"),
    "subprocess.run in threads": (
        8,
        "threads = [threading.Thread(target=subprocess.run, args=[['true']]) for _ in range(8)]\n"
        "for each in threads: each.start()\nfor each in threads: each.join()",
    ),
    "spawn pool": (3, "with multiprocessing.get_context('spawn').Pool(2) as pool: print(pool.map(abs, [-1, 2]))"),
    "none": (0, "os.path.exists('/'); subprocess.list2cmdline([])"),
}


@sweep("core", list(PythonCore), [PythonCore.MARKERS])  # both tell a child by the same means
@pytest.mark.parametrize("way", PYTHON_WAYS)
def test_those_of_python_programs(way: str, core: PythonCore, tmp_path: Path) -> None:
    """A pool's are its workers and the process that tracks what they share."""
    children, code = PYTHON_WAYS[way]
    indented = "\n".join(f"    {line}" for line in code.splitlines())
    source = f"import multiprocessing, os, subprocess, sys, threading\nif __name__ == '__main__':\n{indented}\n"
    assert trace(tmp_path, source, core=core).recording.untraced_children == children
