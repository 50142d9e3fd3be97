"""Perf maps: names of code that a program compiled while it ran."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from binary_runs import run_traced

from foretrace.tracer.debug_info import perf_map
from foretrace.tracer.debug_info.perf_map import MODULE, read_perf_map
from foretrace.tracer.debug_info.symbols import Function

COMPILES = r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* first: mov edi, eax; loop: dec eax; jnz loop; ret.  second: the same, 64 bytes on */
    memcpy(code, "\x89\xf8\xff\xc8\x75\xfc\xc3", 7);
    memcpy(code + 64, code, 7);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx 7 JS:*first /app/n.js:1\n%lx 7 LH;::second\n", (long)code, (long)code + 64);
    fclose(map);
    ((void (*)(int))code)(1000);
    ((void (*)(int))(code + 64))(2000);
    puts(path);
    return 0;
}"""


FAMILY = r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, "\x89\xf8\xff\xc8\x75\xfc\xc3", 7);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx 7 of %s\n", (long)code, argc > 1 ? "the program it starts" : "the first");
    fclose(map);
    printf("%s\n", path);
    fflush(stdout);
    ((void (*)(int))code)(argc > 1 ? 2000 : 1000);
    for (int starts = 0; starts < 2 && argc == 1; starts++) {
        if (fork() == 0) {
            if (starts)
                execl("/proc/self/exe", argv[0], "started", (char *)0);
            ((void (*)(int))code)(500);
            _exit(0);
        }
        wait(0);
    }
    return 0;
}"""


def test_each_process_has_its_own_map(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    """A program that another one starts has its code at the same address; a forked child goes on with its parent's."""
    run = run_traced(tmp_path, compile_c(FAMILY, "-O1"), options=("--follow-children",))
    for path in run.stdout.split():
        Path(path).unlink()
    loops = sorted((loop.function, loop.iterations) for loop in run.signature.loops if loop.module == MODULE)
    assert loops == [("of the first", 500), ("of the first", 1000), ("of the program it starts", 2000)]


def test_all_maps_together_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_map, "MAX_FUNCTIONS", 2)
    for pid in (7, 8, 9, 10):
        (tmp_path / f"perf-{pid}.map").write_text(f"{pid}0 8 a{pid}\n{pid}8 8 b{pid}\n")
    maps = perf_map.read_perf_maps([7, 7, 8, 9, 10], [None, None, 1, None, None], 0.0, str(tmp_path))
    assert [[function.name for function in one.functions] for one in maps] == [
        [], ["a7", "b7"], ["a7", "b7", "a8", "b8"], [], [],
    ]  # fmt: skip
    assert all("some were not read" in one.notes[0] for one in maps[3:])


def _written(directory: Path, text: str | bytes) -> perf_map.PerfMap:
    path = directory / "perf-7.map"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_perf_map(7, time.time(), str(directory))


def test_loops_of_compiled_code_have_the_names_of_the_map(compile_c: Callable[..., Path], tmp_path: Path) -> None:
    run = run_traced(tmp_path, compile_c(COMPILES, "-O1"))
    Path(run.stdout.strip()).unlink()
    loops = {loop.function: loop for loop in run.signature.loops if loop.module == MODULE}
    assert {name: loop.iterations for name, loop in loops.items()} == {
        "JS:*first /app/n.js:1": 1000,
        "LH;::second": 2000,
    }


def test_what_is_read(tmp_path: Path) -> None:
    found = _written(tmp_path, "10 8 a\n0x20 0x10 LH;::b c\n\nnonsense\n30 zz d\n40 0 empty\n50 1 \x1b[31mred\n")
    assert [*found.functions] == [
        Function("a", 0x10, 0x18),
        Function("LH;::b c", 0x20, 0x30),
        Function("?[31mred", 0x50, 0x51),
    ]
    assert found.function(0x17) == Function("a", 0x10, 0x18)
    assert found.function(0x18) is None
    [note] = found.notes
    assert note.endswith("3 lines are not an address, a size and a name")


def test_later_code_at_the_same_place_wins(tmp_path: Path) -> None:
    found = _written(tmp_path, "10 10 old\n18 4 new\n30 10 first\n30 10 second\n40 20 kept\n")
    assert [*found.functions] == [
        Function("old", 0x10, 0x18),
        Function("new", 0x18, 0x1C),
        Function("second", 0x30, 0x40),
        Function("kept", 0x40, 0x60),
    ]


def test_files_of_others_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "perf-7.map"
    assert read_perf_map(7, 0.0, str(tmp_path)) == perf_map.NO_MAP
    (tmp_path / "target").write_text("10 8 a\n")
    path.symlink_to(tmp_path / "target")
    linked = read_perf_map(7, 0.0, str(tmp_path))
    path.unlink()
    os.mkfifo(path)
    pipe = read_perf_map(7, 0.0, str(tmp_path))
    path.unlink()
    path.write_text("10 8 a\n")
    old = read_perf_map(7, time.time() + 100, str(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
        others = read_perf_map(7, 0.0, str(tmp_path))
    for found, why in ((linked, "links"), (pipe, "regular"), (old, "older"), (others, "another user's")):
        assert not found.functions
        assert why in found.notes[0]
    assert read_perf_map(7, 0.0, str(tmp_path)).functions


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_map, "MAX_BYTES", 40)
    monkeypatch.setattr(perf_map, "MAX_FUNCTIONS", 2)
    found = _written(tmp_path, "10 8 a\n20 8 b\n30 8 c\n40 8 d\n50 8 e\n60 8 f\n")
    assert [function.name for function in found.functions] == ["a", "b"]
    assert len(found.notes) == 2
