"""Calls expanded in line, checked against addr2line."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from foretrace.tracer.debug_info.inlined_calls import NONE
from foretrace.tracer.debug_info.symbols import Symbols

C = r"""
static inline double twice(double x) { return 2 * x; }
static inline double __attribute__((always_inline)) summed(const double *a, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += twice(a[i]) * a[n - 1 - i];
    return sum;
}
double __attribute__((noinline)) outer(const double *a, int n)
{
    return n > 3 ? summed(a, n) : summed(a + 1, n) + twice(a[0]);
}
int main(int argc, char **argv)
{
    double a[64];
    for (int i = 0; i < 64; i++)
        a[i] = twice(argc + i);
    return (int)outer(a, 32 + argc);
}
"""
CPP = r"""
#include <algorithm>
#include <numeric>
#include <vector>
namespace shapes {
struct Point { double x; double length() const { return x * x; } };
double __attribute__((noinline)) total(const std::vector<Point> &points)
{
    std::vector<double> lengths(points.size());
    std::transform(points.begin(), points.end(), lengths.begin(), [](const Point &p) { return p.length(); });
    std::sort(lengths.begin(), lengths.end());
    return std::accumulate(lengths.begin(), lengths.end(), 0.0) + lengths[lengths.size() / 2];
}
}
int main(int argc, char **)
{
    std::vector<shapes::Point> points;
    for (int i = 0; i < 100; i++)
        points.push_back({1.0 * (i * 37 % 11) * argc});
    return (int)shapes::total(points);
}
"""
BUILDS = [
    ("gcc", "c", ("-O2",)), ("gcc", "c", ("-O3", "-gdwarf-4")), ("gcc", "c", ("-O1", "-gdwarf-3", "-gstrict-dwarf")),
    ("gcc", "c", ("-O2", "-flto")), ("gcc", "c", ("-O2", "-gz")), ("clang", "c", ("-O2", "-gdwarf-4")),
    ("g++", "cpp", ("-O2",)), ("g++", "cpp", ("-O2", "-gdwarf-4")), ("clang++", "cpp", ("-O2", "-gdwarf-4")),
]  # fmt: skip


@pytest.mark.parametrize(("compiler", "language", "flags"), BUILDS, ids=lambda value: str(value))
def test_chains_of_calls_are_those_of_addr2line(
    compiler: str, language: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    for tool in (compiler, "addr2line"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    source, program = tmp_path / f"k.{language}", tmp_path / "k"
    source.write_text(C if language == "c" else CPP)
    subprocess.run([compiler, "-g", *flags, "-o", program, source], check=True)
    symbols = Symbols(str(program))
    functions = [one for one in symbols.functions() if one.name in ("main", "outer") or "total" in one.name]
    assert functions
    addresses = _instructions(program, [(one.start, one.end) for one in functions])
    asked = np.array(addresses, np.uint64)
    calls, table = symbols.inlined(asked), symbols.lines(asked)
    files, lines = table.find(asked)
    expected = _addr2line(program, addresses)
    assert any(len(chain) > 1 for chain in expected)
    for address, file, line, chain in zip(addresses, files.tolist(), lines.tolist(), expected, strict=True):
        found = calls.chain(calls.at(address), table.paths[file] if file >= 0 else "", line, "")
        assert [(Path(path).name, at) for _, path, at in found[1:]] == [(name, at) for _, name, at in chain[1:]]
        for (name, *_), (other, *_) in zip(found[:-1], chain, strict=False):
            assert name == other or not name.startswith("_Z")  # addr2line takes another's for one without such a name
    assert symbols.notes == []


@pytest.mark.parametrize(("compiler", "language"), [("clang", "c"), ("clang++", "cpp"), ("g++", "cpp")])
def test_dwarf_5_says_what_dwarf_4_says(compiler: str, language: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    source = tmp_path / f"k.{language}"
    source.write_text(C if language == "c" else CPP)
    found = []
    for version in (4, 5):
        program = tmp_path / f"k{version}"
        subprocess.run([compiler, "-O2", f"-gdwarf-{version}", "-o", program, source], check=True)
        symbols = Symbols(str(program))
        (main,) = (one for one in symbols.functions() if one.name == "main")
        calls = symbols.inlined(np.arange(main.start, main.end).astype(np.uint64))
        found.append([calls.chain(calls.at(address), "", 0, "") for address in range(main.start, main.end)])
    assert found[0] == found[1]
    assert any(len(chain) > 1 for chain in found[0])


def test_a_program_without_debug_information_has_none(tmp_path: Path) -> None:
    source, program = tmp_path / "k.c", tmp_path / "k"
    source.write_text(C)
    subprocess.run(["gcc", "-O2", "-o", program, source], check=True)
    symbols = Symbols(str(program))
    assert symbols.inlined(np.array([symbols.entry], np.uint64)) is NONE
    assert symbols.notes == []


def test_damaged_entries_are_left_out_with_a_note(tmp_path: Path) -> None:
    source, program = tmp_path / "k.c", tmp_path / "k"
    source.write_text(C)
    subprocess.run(["gcc", "-O2", "-g", "-o", program, source], check=True)
    symbols = Symbols(str(program))
    (function,) = (one for one in symbols.functions() if one.name == "outer")
    asked = np.arange(function.start, function.end).astype(np.uint64)
    whole = symbols.inlined(asked)
    assert (whole.innermost >= 0).any()
    section = _section(program, ".debug_info")
    content = bytearray(program.read_bytes())
    chance = random.Random(5)
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(8):
            damaged[section[0] + chance.randrange(section[1])] = chance.randrange(256)
        program.write_bytes(damaged)
        again = Symbols(str(program)).inlined(asked)  # raises nothing
        assert len(again.innermost) in (0, len(asked))


def _section(program: Path, name: str) -> tuple[int, int]:
    from foretrace.tracer.debug_info.elf_file import ElfFile

    section = ElfFile(str(program)).section(name)
    assert section is not None
    return section.offset, section.size_bytes


def _instructions(program: Path, ranges: list[tuple[int, int]]) -> list[int]:
    import capstone

    from foretrace.tracer.debug_info.elf_file import ElfFile

    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    elf = ElfFile(str(program))
    found = [
        address
        for start, end in ranges
        for address, *_ in decoder.disasm_lite(elf.loaded_at(start, end - start), start)
    ]
    return sorted(found)


def _addr2line(program: Path, addresses: list[int]) -> list[list[tuple[str, str, int]]]:
    """Function, name of the file and line of each frame at each address, innermost first."""
    text = subprocess.run(
        ["addr2line", "-a", "-i", "-f", "-e", program], input="\n".join(map(hex, addresses)), text=True,
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    found: list[list[tuple[str, str, int]]] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("0x"):
            found.append([])
            continue
        path, _, rest = next(lines).rpartition(":")
        number = rest.split()[0]
        found[-1].append((line, Path(path).name, int(number) if number.isdigit() else 0))
    return found
