"""What the engine does otherwise than the system: as natively where it can, and said where it is met."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from binary_runs import run_traced, trace_command

from foretrace.tracer.qemu.binary import most_mapped_bytes
from foretrace.tracer.recording.departures import Departures

Compile = Callable[..., Path]

DEEP_STACK = r"""
#include <stdio.h>
#include <alloca.h>
__attribute__((noinline)) static double work(long n) {
    double *tmp = alloca(n * sizeof *tmp), s = 0;
    for (long i = 0; i < n; i++) tmp[i] = 0.5 * i;
    for (long i = n - 1; i >= 0; i -= n / 4) s += tmp[i];
    return s;
}
int main(void) { printf("%g\n", work(4000000)); return 0; }"""

RESERVES = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(int argc, char **argv) { /* as GHC's runtime does: less where so much is refused */
    size_t size = (size_t)atol(argv[argc - 1]) << 30;
    char *p = MAP_FAILED;
    for (; size && p == MAP_FAILED; size = p == MAP_FAILED ? size / 2 : size)
        p = mmap(0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    mprotect(p, 1 << 20, PROT_READ | PROT_WRITE);
    p[5] = 1;
    char *small = malloc(1 << 20);
    printf("%d %d\n", (int)(size >> 30), small != NULL);
    return 0;
}"""

TWO_MAPPINGS = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int fd = memfd_create("code", 0), is_file = argc > 1;
    if (ftruncate(fd, 4096)) return 3;
    unsigned char *x = is_file ? mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                               : mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    unsigned char *w = is_file ? 0 : mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int memory = is_file ? open("/proc/self/mem", O_RDWR) : -1;
    long total = 0;
    for (int r = 0; r < 30; r++) {
        unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3}; /* mov eax, r; ret */
        memcpy(code + 1, &r, 4);
        if (is_file) { if (pwrite(memory, code, 6, (off_t)(unsigned long)x) != 6) return 4; }
        else memcpy(w, code, 6);
        total += ((int (*)(void))x)();
    }
    printf("%ld\n", total);
    return 0;
}"""

ONCE_WRITTEN = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    int fd = memfd_create("code", 0);
    if (ftruncate(fd, 4096)) return 3;
    unsigned char *w = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    unsigned char *x = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    memcpy(w, "\xb8\x07\0\0\0\xc3", 6);
    int total = 0;
    for (int r = 0; r < 30; r++) total += ((int (*)(void))x)();
    printf("%d\n", total);
    return 0;
}"""

MISSING = r"""
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) {
    pid_t pid;
    char *arguments[] = {"true", 0};
    if (argc > 1) { if (posix_spawnp(&pid, "true", 0, 0, arguments, environ)) return 1; }
    else if (posix_spawn(&pid, "/no/such", 0, 0, arguments, environ)) return 1;
    wait(0);
    return 0;
}"""

MAPPINGS = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
int main(int argc, char **argv) {
    const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    char *p = mmap(0, 65536, PROT_READ, anonymous, -1, 0), line[300];
    munmap(p + 32768, 32768);
    int taken = mmap(p + 4096, 4096, PROT_READ, anonymous | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED;
    int is_free = mmap(p + 32768, 4096, PROT_READ, anonymous | MAP_FIXED_NOREPLACE, -1, 0) == p + 32768;
    struct rlimit limit = {64 << 20, 64 << 20};
    setrlimit(RLIMIT_AS, &limit);
    int refused = malloc(256 << 20) == NULL, granted = malloc(16 << 20) != NULL;
    printf("%d %d %d %d\n", taken, is_free, refused, granted);
    if (argc > 1) { FILE *maps = fopen("/proc/self/maps", "r"); while (fgets(line, sizeof line, maps)) ; }
    return 0;
}"""


def _notes(directory: Path, *program: str | Path) -> tuple[str, ...]:
    run = run_traced(directory, *program)
    assert run.returncode == 0, run.stderr
    return run.signature.provenance.notes


def test_an_unlimited_stack_has_no_limit(compile_c: Compile, tmp_path: Path) -> None:
    if resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY:
        pytest.skip("the hard limit of the stack is not to be exceeded")
    program = compile_c(DEEP_STACK, "-O1")
    command = trace_command(tmp_path / "run.sig", program)
    unlimited = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_STACK, [resource.RLIM_INFINITY] * 2); "
    unlimited += "os.execv(sys.argv[1], sys.argv[1:])"
    run = subprocess.run([sys.executable, "-c", unlimited, *command], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "5e+06\n", "")


@pytest.mark.parametrize("gib", [16, 1 << 14])
def test_what_is_only_reserved_is_refused_where_it_takes_too_much_memory(
    gib: int, compile_c: Compile, tmp_path: Path
) -> None:
    run = run_traced(tmp_path, compile_c(RESERVES, "-O1"), str(gib))
    assert run.returncode == 0
    got, has_memory = map(int, run.stdout.split())
    assert has_memory == 1, "what follows is not refused"
    refused = [note for note in run.signature.provenance.notes if note.startswith("the engine refused ")]
    if got == gib:
        assert not refused
        assert gib == 16 or most_mapped_bytes(run.signature.provenance.engine.split()[1], 1 << 36) == 0
    else:
        assert gib == 1 << 14
        assert len(refused) == 1
        assert refused[0] in run.stderr


def test_how_much_may_be_reserved() -> None:
    assert most_mapped_bytes("8.0.2", 1 << 34) == 0
    assert most_mapped_bytes("10.0", 1 << 34) == 0
    assert most_mapped_bytes("7.2.22", 1 << 30) == 16 << 30
    terabyte = most_mapped_bytes("7.2", 1 << 40)
    assert terabyte // 4096 * 25 <= (1 << 40) // 64
    assert terabyte > 1 << 41


@pytest.mark.parametrize("arguments", [(), ("by-proc-self-mem",)])
def test_code_changed_through_another_mapping_is_noticed(
    arguments: tuple[str, ...], compile_c: Compile, tmp_path: Path
) -> None:
    run = run_traced(tmp_path, compile_c(TWO_MAPPINGS, "-O1"), *arguments)
    assert run.returncode == 0
    if run.stdout == "435\n":
        assert run.signature.provenance.complete
        return
    assert not run.signature.provenance.complete
    assert run.signature.provenance.incomplete_reason.startswith("29 executions of code that had been changed ")
    assert "29 executions of code" in run.stderr


def test_code_written_once_through_another_mapping_is_right(compile_c: Compile, tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(ONCE_WRITTEN, "-O1"))
    assert (run.stdout, run.signature.provenance.complete) == ("210\n", True)


def test_a_program_that_could_not_be_started_is_said(compile_c: Compile, tmp_path: Path) -> None:
    program = compile_c(MISSING, "-O1")
    assert any(note.startswith("1 programs could not be started after vfork") for note in _notes(tmp_path, program))
    assert not any("could not be started" in note for note in _notes(tmp_path, program, "found-in-path"))


def test_mappings_as_the_system_has_them(compile_c: Compile, tmp_path: Path) -> None:
    program = compile_c(MAPPINGS, "-O1")
    run = run_traced(tmp_path, program)
    assert run.stdout == "1 1 1 1\n"
    notes = run.signature.provenance.notes
    assert any("MAP_FIXED_NOREPLACE" in note for note in notes)
    assert not any("/proc/self/maps" in note for note in notes)
    assert any("read /proc/self/maps" in note for note in _notes(tmp_path, program, "maps"))


def test_a_followed_childs_departures_count(compile_c: Compile, tmp_path: Path) -> None:
    if shutil.which("sh") is None:
        pytest.skip("needs a shell")
    program = compile_c(MAPPINGS, "-O1")
    run = run_traced(tmp_path, "sh", "-c", f"{program} maps; true", options=("--follow-children",))
    assert any("read /proc/self/maps" in note for note in run.signature.provenance.notes)


def test_sums() -> None:
    one, two = Departures(maps=1, stale=2), Departures(maps=3)
    assert one + two == Departures(maps=4, stale=2)
    assert Departures().notes == ()
