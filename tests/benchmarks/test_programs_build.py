"""The programs we trace: they build without a warning, do what they say, and refuse bad arguments with one line."""

import itertools
import os
import shutil
import subprocess
import sys

import pytest
from effort import sweep

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness import programs, suite
from foretrace.benchmarks.harness.programs import Linking
from foretrace.benchmarks.harness.programs import build as build_program

SMALL = {
    "patterns": ("fft", "256", "1"),
    "sgbench": ("20480",),
    **{program.source.stem: program.small for program in suite.SUITE if not program.is_python},
}
FIXED = [name for name, path in programs.compiled_programs().items() if path.suffix == ".c"]
"""Those that are meant for tools that must see the same addresses."""
MODES = ("random", "clustered", "spread", "stride1")


@pytest.fixture
def build(programs_directory):
    """Build a program, statically unless told otherwise."""
    return lambda name, linking=Linking.FIXED: build_program(name, programs_directory, linking)


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


def arrays(output):
    """Name -> (address, size in bytes), as sgbench prints them."""
    rows = [line.split() for line in output.splitlines()[1:4]]
    return {name: (int(address, 16), int(size_bytes)) for name, address, size_bytes in rows}


def test_every_source_is_a_program_with_a_small_size():
    assert sorted(programs.compiled_programs()) == sorted(SMALL)


# In short: floating point, integers, a program of several sizes of output.
@sweep("name", FIXED, ["cg", "compress", "sgbench"])
def test_output_is_the_same_every_time_and_however_linked(build, name):
    fixed = run(build(name), *SMALL[name])
    assert fixed.returncode == 0, fixed.stderr
    assert "checksum" in fixed.stdout
    assert run(build(name), *SMALL[name]).stdout == fixed.stdout
    dynamic = run(build(name, Linking.DYNAMIC), *SMALL[name]).stdout
    assert dynamic.splitlines()[-1] == fixed.stdout.splitlines()[-1]


@sweep("name", SMALL, ["cg", "euler", "heat3d"])  # in short: C, C++, Fortran
def test_bad_arguments_get_one_line_and_status_2(build, name):
    for arguments in (("-1",), ("1e3",), ("",), ("1", "2", "3", "4", "5", "6")):
        result = run(build(name, Linking.DYNAMIC), *arguments)
        assert (result.returncode, result.stdout) == (2, "")
        assert len(result.stderr.splitlines()) == 1
    usage = run(build(name, Linking.DYNAMIC), "--help")
    assert usage.returncode == 0
    assert usage.stdout.startswith(f"usage: {name}")
    first_line = programs.compiled_programs()[name].read_text().splitlines(keepends=True)[0]
    assert first_line.lstrip("/*! ") == usage.stdout


@pytest.mark.parametrize("points", ["2", "3", "40", "3000"])
def test_conjugate_gradients_converge(build, points):
    result = run(build("cg"), points, "15")
    assert result.returncode == 0
    assert float(result.stdout.split("residual")[1].split()[0]) <= 1e-10


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("element_bytes", [4, 8])
@pytest.mark.parametrize("range_bytes", [512, 20480, 65535, 1 << 20])
def test_sgbench_arrays_have_the_proportions_of_the_paper(build, mode, element_bytes, range_bytes):
    output = run(build("sgbench"), range_bytes, mode, element_bytes, 1, 64).stdout
    found = arrays(output)
    n = range_bytes // 32 * 32 // element_bytes // 4
    sizes = [n * element_bytes * (1 if mode == "stride1" else 4), n * element_bytes, n * 4]
    assert [size_bytes for _, size_bytes in found.values()] == sizes
    starts = [address for address, _ in found.values()]
    assert [b - a for a, b in itertools.pairwise(starts)] == [size + 64 for size in sizes[:2]]


def test_sgbench_refuses_an_unknown_mode(build):
    result = run(build("sgbench"), "4096", "zigzag")
    assert result.returncode == 2
    assert "zigzag" in result.stderr


def test_generated_text_has_the_size_asked_for_and_is_the_same_every_time(tmp_path):
    first, second = (programs.make_text(64, tmp_path / name).read_bytes() for name in "ab")
    assert first == second
    assert 64 * 1024 <= len(first) < 65 * 1024


def test_pagerank_ranks_sum_to_one():
    pytest.importorskip("scipy", reason="pagerank.py needs SciPy")
    result = run(sys.executable, programs.SOURCES / "pagerank.py", "2000", "5")
    assert result.returncode == 0, result.stderr
    assert float(result.stdout.rsplit(None, 1)[1]) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", ["cg", "euler", "heat3d"])  # C, C++, Fortran
def test_an_executable_is_the_same_wherever_it_is_built(tmp_path, monkeypatch, name):
    first = build_program(name, tmp_path / "one").read_bytes()
    moved = tmp_path / "elsewhere"
    shutil.copytree(programs.SOURCES, moved, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(programs, "SOURCES", moved)
    assert build_program(name, tmp_path / "another" / "place").read_bytes() == first


def test_a_source_newer_than_the_executable_is_built_again(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "SOURCES", tmp_path)
    (tmp_path / "program.h").touch()
    source = tmp_path / "hello.c"
    built = []
    for status in (3, 4):
        source.write_text(f"int main(void) {{ return {status}; }}\n")
        executable = build_program("hello", tmp_path / "out")
        built.append(run(executable).returncode)
        os.utime(executable, (0, 0))
    assert built == [3, 4]


def test_a_compiler_that_fails_or_is_missing_is_one_error(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "SOURCES", tmp_path)
    (tmp_path / "program.h").touch()
    (tmp_path / "broken.c").write_text("int main(void) { return nonsense; }\n")
    with pytest.raises(EngineError, match=r"broken\.c.*nonsense"):
        build_program("broken", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="apt install gcc"):
        build_program("broken", tmp_path)
