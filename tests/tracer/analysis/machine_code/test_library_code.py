"""Library code belongs to the program's line that calls it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from binary_runs import run_traced
from effort import sweep

from foretrace.replay.workload.workload import Workload
from foretrace.reports.info_reports import summarise_loops
from foretrace.tracer.analysis.machine_code.library_code import Arrival, is_library_source, names_by_arrival
from foretrace.tracer.signature.file import read_signature, write_signature
from foretrace.tracer.signature.records import Loop, Signature
from foretrace.tracer.signature.tree_records import TreeNodeKind

Build = Callable[..., Path]

COPIES = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void __attribute__((noipa)) copy(char *to, const char *from, size_t n)
{
    memcpy(to, from, n);
}
int main(int argc, char **argv)
{
    size_t n = 60000;
    char *a = malloc(n), *b = malloc(n);
    for (size_t i = 0; i < n; i++)
        a[i] = (char)(i * argc);
    for (int i = 0; i < 9; i++)
        copy(b, a, n);
    memcpy(a, b, n - argc);
    printf("%d\n", a[argc]);
    return 0;
}
"""
SORTED = r"""
#include <stdlib.h>
static int compare(const void *a, const void *b)
{
    return (*(int *)a > *(int *)b) - (*(int *)a < *(int *)b);
}
int main(int argc, char **argv)
{
    static int a[3000];
    for (int i = 0; i < 3000; i++)
        a[i] = i * 7919 % 3001;
    qsort(a, 3000, sizeof *a, compare);
    return a[0] != 0 || argc > 3;
}
"""
CPP = r"""
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>
int main(int argc, char **)
{
    std::vector<double> v(20000);
    for (int i = 0; i < 20000; i++)
        v[i] = i * 7919 % 10007 * argc;
    double sum = std::accumulate(v.begin(), v.end(), 0.0);
    std::sort(v.begin(), v.end());
    printf("%g %g\n", sum, v[7]);
}
"""
FORTRAN = """\
program copies
  implicit none
  integer, parameter :: n = 150
  real(8), allocatable :: u(:,:), w(:,:)
  integer :: t
  allocate(u(n,n), w(n,n))
  w = 1d0
  do t = 1, 8
    u = w
    w(t,:) = u(:,t) + 1
  end do
  print *, sum(u)
end program
"""
LIBRARIES = r"""
void apply(double *a, int n)
{
    for (int i = 0; i < n; i++)
        a[i] = a[i] * 3 + 1;
}
"""
USES = r"""
void apply(double *, int);
int main(void)
{
    static double a[500];
    for (int i = 0; i < 10; i++)
        apply(a, 500);
    return a[3] < 0;
}
"""


@pytest.fixture(name="build")
def _build(tmp_path: Path) -> Build:
    def build(name: str, source: str, *flags: str, compiler: str = "gcc") -> Path:
        if shutil.which(compiler) is None:
            pytest.skip(f"{compiler} is not installed")
        path, program = tmp_path / name, tmp_path / name.partition(".")[0]
        path.write_text(source)
        subprocess.run([compiler, *flags, "-o", program, path], check=True)
        return program

    return build


def _traced(program: Path) -> Signature:
    return run_traced(program.parent, program, options=("--no-data-flow",)).signature


def _hottest(signature: Signature, function: str) -> Loop:
    """The loop of a function with the most iterations."""
    return max((loop for loop in signature.loops if loop.function == function), key=lambda loop: loop.iterations)


def _line(source: str, text: str) -> int:
    return next(number for number, line in enumerate(source.splitlines(), 1) if text in line)


@sweep(
    "flags",
    [
        ("-O2", "-g"), ("-O2", "-g", "-fno-plt"), ("-O2", "-g", "-static"), ("-O2", "-g", "-static-pie"),
        ("-O2", "-g", "-Wl,-z,now"), ("-O2", "-g", "-no-pie"),
    ],
    [("-O2", "-g"), ("-O2", "-g", "-static")],
    ids=" ".join,
)  # fmt: skip
def test_memcpy_goes_by_its_name_and_the_lines_that_call_it(flags: tuple[str, ...], build: Build) -> None:
    signature = _traced(build("copies.c", COPIES, *flags))
    loop = _hottest(signature, "memcpy")
    inside, in_main = _line(COPIES, "memcpy(to"), _line(COPIES, "memcpy(a")
    assert (Path(loop.file).name, loop.line, loop.caller) == ("copies.c", inside, "copy")
    assert [(call.called, call.function, call.line) for call in loop.calls] == [
        ("memcpy", "copy", inside), ("memcpy", "main", in_main),
    ]  # fmt: skip
    assert loop.calls[0].share == pytest.approx(0.9, abs=0.01)
    assert not [one for one in signature.loops if one.file and one.function.startswith("libc.so.6+0x")]
    assert {str(one.kind) for one in signature.idioms if one.loop_id == loop.loop_id} <= {"stream", "strided"}
    tree = signature.tree
    assert tree is not None
    calls = [
        (key.function, key.line, key.caller)
        for key, kind, parent in zip(tree.keys, tree.kind.tolist(), tree.parent.tolist(), strict=True)
        if kind == TreeNodeKind.CALL and key.function == "memcpy" and key.caller and not tree.keys[parent].caller
    ]
    assert list(dict.fromkeys(calls)) == [("memcpy", inside, "copy"), ("memcpy", in_main, "main")]


def test_what_calls_without_lines_is_named_by_its_function(build: Build) -> None:
    loop = _hottest(_traced(build("copies.c", COPIES, "-O2")), "memcpy")
    assert (loop.file, loop.line, loop.caller) == ("", 0, "copy")
    assert [call.function for call in loop.calls] == ["copy", "main"]


THROWN = r"""
#include <cstdio>
#include <vector>
__attribute__((noipa)) int at(const std::vector<int> &v, unsigned i)
{
    try {
        return v.at(i);
    } catch (...) {
        return 1;
    }
}
int main(int argc, char **)
{
    std::vector<int> v(argc);
    int sum = 0;
    for (int i = 0; i < 50; i++)
        sum += at(v, i);
    std::printf("%d\n", sum);
}
"""


def test_parts_of_another_library_do_not_go_by_what_the_program_calls(build: Build) -> None:
    """Exceptions of the C++ library unwind in libgcc, whose own functions have no names."""
    tree = _traced(build("thrown.cc", THROWN, "-O1", "-g", compiler="g++")).tree
    assert tree is not None
    inside = {
        key.function for key in tree.keys if key.module.rpartition("/")[2].startswith("libgcc_s.so") and key.caller
    }
    assert inside
    assert all(name.startswith(("_Unwind", "libgcc_s.so.1+0x", "__")) for name in inside)


def test_places_of_predictions_name_the_call(build: Build) -> None:
    workload = Workload.of(_traced(build("copies.c", COPIES, "-O2", "-g")))
    regions = [region for region in workload.regions if region.loop_id is not None]
    places = [region.place for region in regions if region.place.function == "memcpy"]
    assert {place.text for place in places} == {f"from copies.c:{_line(COPIES, 'memcpy(to')}"}


@pytest.mark.parametrize("flags", [("-O2", "-g"), ("-O2", "-g", "-static")], ids=" ".join)
def test_qsort_is_its_callers_and_the_comparison_the_programs(flags: tuple[str, ...], build: Build) -> None:
    signature = _traced(build("sorted.c", SORTED, *flags))
    loop = _hottest(signature, "qsort")
    assert (Path(loop.file).name, loop.line, loop.caller) == ("sorted.c", _line(SORTED, "qsort("), "main")
    compared = [block for block in signature.blocks if block.function == "compare"]
    assert compared
    assert {(Path(block.file).name, block.caller) for block in compared} == {("sorted.c", "")}


def test_expanded_library_code_is_at_the_programs_line_and_says_what_is_behind(build: Build) -> None:
    signature = _traced(build("use.cpp", CPP, "-O2", "-g", compiler="g++"))
    loops = {
        loop.line: loop for loop in signature.loops if Path(loop.file).name == "use.cpp" and loop.iterations > 1000
    }
    summed = loops[_line(CPP, "std::accumulate")]
    assert summed.function == "main" and not summed.calls
    assert summed.inlined.startswith("std::accumulate at stl_numeric.h:")
    ordered = loops[_line(CPP, "std::sort")]
    assert ordered.is_library
    assert not [loop for loop in loops.values() if loop.file.startswith("/usr/")]
    of_sort = [loop for loop in signature.loops if loop.calls and "sort" in loop.function]
    assert {loop.line for loop in of_sort} <= {_line(CPP, "std::sort")}
    plain = loops[_line(CPP, "for (int i")]
    assert not plain.calls


def test_an_array_assignment_of_fortran_is_a_memcpy_from_its_line(build: Build) -> None:
    signature = _traced(build("copies.f90", FORTRAN, "-O2", "-g", compiler="gfortran"))
    loop = _hottest(signature, "memcpy")
    assert (Path(loop.file).name, loop.line) == ("copies.f90", _line(FORTRAN, "u = w"))


def test_a_library_of_the_programs_own_keeps_its_lines(tmp_path: Path, build: Build) -> None:
    (tmp_path / "apply.c").write_text(LIBRARIES)
    library = tmp_path / "libapply.so"
    subprocess.run(["gcc", "-O1", "-g", "-shared", "-fPIC", "-o", library, tmp_path / "apply.c"], check=True)
    flags = ("-O1", "-g", f"-L{tmp_path}", "-lapply", f"-Wl,-rpath,{tmp_path}", "-Wl,--no-as-needed")
    path, program = tmp_path / "uses.c", tmp_path / "uses"
    path.write_text(USES)
    subprocess.run(["gcc", "-O1", "-g", "-o", program, path, *flags], check=True)
    loop = _hottest(_traced(program), "apply")
    assert (Path(loop.file).name, loop.calls) == ("apply.c", ())
    subprocess.run(["strip", "-g", library], check=True)
    loop = _hottest(_traced(program), "apply")
    assert (Path(loop.file).name, loop.line, loop.caller) == ("uses.c", _line(USES, "apply(a"), "main")


def test_calls_and_frames_survive_the_file(build: Build, tmp_path: Path) -> None:
    signature = _traced(build("use.cpp", CPP, "-O2", "-g", compiler="g++"))
    write_signature(signature, tmp_path / "again.sig")
    again = read_signature(tmp_path / "again.sig")
    assert again.loops == signature.loops
    assert again.blocks == signature.blocks
    assert again.tree is not None and signature.tree is not None
    assert again.tree.keys == signature.tree.keys
    assert any(loop.calls for loop in again.loops) and any(loop.frames for loop in again.loops)


def test_json_has_all_calls(build: Build) -> None:
    program = build("copies.c", COPIES, "-O2", "-g")
    signature = _traced(program)
    summary = next(one for one in summarise_loops(signature) if one.function == "memcpy")
    assert [call.line for call in summary.calls] == [_line(COPIES, "memcpy(to"), _line(COPIES, "memcpy(a")]
    text = subprocess.run(
        [sys.executable, "-P", "-m", "foretrace", "info", "--json", "run.sig"], cwd=program.parent,
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    loop = next(one for one in json.loads(text)["loops"] if one["function"] == "memcpy")
    assert [call["line"] for call in loop["calls"]] == [call.line for call in summary.calls]


# ---- names ----


def test_functions_are_named_by_the_symbols_that_lead_to_them() -> None:
    copy, part, named, other = ("libc", 0x100), ("libc", 0x200), ("libc", 0x300), ("libc", 0x400)
    names = {copy: "libc+0x100", part: "libc+0x200", named: "__memset_avx2", other: "libc+0x400"}
    arrivals = [
        Arrival(copy, 40, symbol="memcpy"), Arrival(copy, 3, symbol="memmove"), Arrival(part, 7, jumped_from=copy),
        Arrival(named, 2, symbol="memset"), Arrival(other, 5, jumped_from=copy), Arrival(other, 1),
    ]  # fmt: skip
    expected = {copy: "memcpy", part: "memcpy", named: "memset"}
    assert names_by_arrival(arrivals, names, lambda function, name: name == "memset") == expected
    assert names_by_arrival(arrivals, names, lambda function, name: False) == {copy: "memcpy", part: "memcpy"}


@pytest.mark.parametrize(
    ("path", "is_library"),
    [
        ("/usr/include/c++/12/bits/stl_vector.h", True),
        ("/usr/lib/gcc/x86_64-linux-gnu/12/include/immintrin.h", True),
        ("/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/num/mod.rs", True),
        ("/home/a/.cargo/registry/src/index.crates.io-1/ndarray-0.15/src/lib.rs", True),
        ("/home/a/code/include/solver.h", False),
        ("/home/a/usr/main.c", False),
        ("main.c", False),
        ("", False),
    ],
)
def test_sources_of_libraries(path: str, is_library: bool) -> None:
    assert is_library_source(path) is is_library
