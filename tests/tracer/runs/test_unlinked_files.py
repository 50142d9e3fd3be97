"""Names and lines of files that had lost their name when the run ended."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from binary_runs import BinaryRun, run_traced
from effort import sweep

PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static double values[512];

__attribute__((noinline)) double own_loop(int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += values[i];
    return sum;
}

static void copy(const char *from, int to) {
    char bytes[4096];
    int fd = open(from, O_RDONLY);
    for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) > 0;)
        if (write(to, bytes, n) != n) abort();
    close(fd);
}

static double run(const char *path, const char *name) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) { puts(dlerror()); exit(1); }
    double (*function)(double *, int) = dlsym(library, name);
    return function(values, 512);
}

static const char *in_memory(const char *from) {
    static char path[64];
    const int fd = memfd_create("kernel", 0);
    copy(from, fd);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

static void make(const char *from, const char *path) {
    const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0755);
    copy(from, fd);
    if (strstr(from, "one") && getenv("PADDING")) (void)!ftruncate(fd, atol(getenv("PADDING")));
    close(fd);
}

int main(int argc, char **argv) {
    const char *how = argv[1];
    if (strcmp(how, "itself") == 0) { unlink(argv[0]); printf("%g\n", own_loop(512)); return 0; }
    if (strcmp(how, "memory") == 0) {
        double sum = run(in_memory("./one.so"), "one");
        printf("%g\n", sum + run(in_memory("./two.so"), "two"));
        return 0;
    }
    make("./one.so", "./made.so");
    void *library = dlopen("./made.so", RTLD_NOW);
    double (*function)(double *, int) = dlsym(library, "one");
    double sum = function(values, 100);
    if (strcmp(how, "unlink") == 0) unlink("./made.so");
    else if (strcmp(how, "unlinkat") == 0) unlinkat(open(".", O_RDONLY), "made.so", 0);
    else if (strcmp(how, "moved") == 0) rename("./made.so", "./moved.so");
    else if (strcmp(how, "linked") == 0) { link("./made.so", "./other.so"); unlink("./made.so"); }
    else { make("./two.so", "./new.so"); rename("./new.so", "./made.so"); }
    sum += function(values, 512);
    if (strcmp(how, "both") == 0) sum += run("././made.so", "two");
    printf("%g %d\n", sum, open(".", O_RDONLY));
}
"""
KERNEL = """
double NAME(double *values, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += values[i] * 2;
    return sum;
}
"""


def traced(folder: Path, how: str) -> BinaryRun:
    for name, before in (("one", ""), ("two", "\n\n")):
        (folder / f"{name}.c").write_text(before + KERNEL.replace("NAME", name))
        command = ["gcc", "-O1", "-g", "-shared", "-fPIC", "-o", f"{name}.so", f"{name}.c"]
        subprocess.run(command, cwd=folder, check=True)
    (folder / "program.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-g", "-o", "program", "program.c", "-ldl"], cwd=folder, check=True)
    run = run_traced(folder, folder / "program", how)
    assert run.returncode == 0, run.stderr
    return run


def loops(run: BinaryRun) -> set[tuple[str, str, int]]:
    """Function, file and line of the loops of code that was built here."""
    found = {(loop.function, Path(loop.file).name, loop.line) for loop in run.signature.loops}
    return {one for one in found if one[1] in ("one.c", "two.c", "program.c")}


ONE, TWO = ("one", "one.c", 4), ("two", "two.c", 6)


@sweep("how", ["unlink", "unlinkat", "replaced", "moved", "linked"], ["unlink", "replaced"])  # in short: gone, another
def test_a_library_that_loses_its_name_is_read_as_it_was(how: str, tmp_path: Path) -> None:
    run = traced(tmp_path, how)
    assert ONE in loops(run)
    assert not [note for note in run.signature.provenance.notes if "made.so" in note]
    assert run.stdout.split()[1] == ("4" if how == "unlinkat" else "3")  # no descriptor is taken


def test_files_that_had_one_name_after_the_other_are_told_apart(tmp_path: Path) -> None:
    assert {ONE, TWO} <= loops(traced(tmp_path, "both"))


def test_libraries_in_memory_have_names_and_lines(tmp_path: Path) -> None:
    assert {ONE, TWO} <= loops(traced(tmp_path, "memory"))


def test_a_program_that_removes_itself_has_names_and_lines(tmp_path: Path) -> None:
    run = traced(tmp_path, "itself")
    assert ("own_loop", "program.c", 15) in loops(run)


def test_what_is_too_large_to_keep_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDING", str((64 << 20) + 1))
    run = traced(tmp_path, "unlink")
    assert ONE not in loops(run)
    expected = "made.so: no names and lines: it was removed while the program ran"
    assert any(expected in note for note in run.signature.provenance.notes)
