"""Functions and lines of compiled programs, checked against nm, addr2line and objdump."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from foretrace.tracer.debug_info.symbols import Symbols

SOURCE = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
static inline double twice(double x)
{
    return 2 * x;
}
static double __attribute__((noinline)) hidden(double *a, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += twice(a[i]);
    return sum;
}
double __attribute__((noinline)) shown(double *a, int n)
{
    if (n < 0)
        abort();
    qsort(a, n, 8, (int (*)(const void *, const void *))hidden);
    return hidden(a, n) + pow(n, a[0]);
}
int main(int argc, char **argv)
{
    double a[4] = {argc, 2, 3, 4};
    printf("%s %g\n", argv[0], shown(a, argc));
    return 0;
}
"""
FLAGS = [
    ("-O0",), ("-O2",), ("-O2", "-static"), ("-O1", "-no-pie"), ("-O2", "-static-pie"), ("-O3", "-gdwarf-4"),
    ("-O1", "-gdwarf-3", "-gstrict-dwarf"), ("-O0", "-gdwarf-2", "-gstrict-dwarf"),
    ("-O1", "-ffunction-sections", "-Wl,--gc-sections"), ("-O1", "-gz"),
]  # fmt: skip

Build = Callable[..., Path]


def _tool(*command: str | Path, text: str | None = None) -> str:
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(command, input=text, text=True, capture_output=True, check=True).stdout


def _sample(symbols: Symbols, program: Path) -> list[int]:
    """Addresses of whole functions of ours, and of some of the library's."""
    addresses = []
    for name in ("hidden", "shown", "main", "_start"):
        start = _nm(program)[name][0]
        function = symbols.function(start)
        assert function is not None
        addresses.extend(range(function.start, function.end))
    return addresses


def _nm(program: Path) -> dict[str, tuple[int, int]]:
    """Start and size of each function in the symbol table."""
    found = {}
    for line in _tool("nm", "-S", program).splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[2] in "tTwWiu":
            found[fields[3]] = (int(fields[0], 16), int(fields[1], 16))
    return found


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_lines_are_those_of_addr2line(compile_c: Build, flags: tuple[str, ...]) -> None:
    program = compile_c(SOURCE, *flags)
    symbols = Symbols(str(program))
    addresses = _sample(symbols, program)
    table = symbols.lines(np.array(addresses, np.uint64))
    files, lines = table.find(np.array(addresses, np.uint64))
    answers = _tool("addr2line", "-e", program, text="\n".join(map(hex, addresses))).splitlines()
    assert len(answers) == len(addresses)
    for address, file, line, answer in zip(addresses, files.tolist(), lines.tolist(), answers, strict=True):
        path, _, number = answer.partition(" (")[0].rpartition(":")
        if number in ("?", "0"):
            assert line == 0 or file < 0, hex(address)
        else:
            assert (table.paths[file], line) == (os.path.normpath(path), int(number)), hex(address)
    assert any(path.endswith(".c") for path in table.paths)
    assert symbols.notes == []


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_functions_are_those_of_nm(compile_c: Build, flags: tuple[str, ...]) -> None:
    program = compile_c(SOURCE, *flags)
    symbols = Symbols(str(program))
    aliases: dict[tuple[int, int], set[str]] = {}
    for name, place in _nm(program).items():
        aliases.setdefault(place, set()).add(name)
    assert {"main", "shown", "hidden"} <= set().union(*aliases.values())
    starts = [start for start, _ in aliases]
    for (start, size), names in aliases.items():
        for address in (start, start + size - 1):
            if address == start or not any(start < other <= address for other in starts):
                function = symbols.function(address)
                assert function is not None
                assert function.name in names


@pytest.mark.parametrize("flags", [("-O2",), ("-O2", "-static"), ("-O2", "-no-pie")], ids=" ".join)
def test_a_stripped_program_has_functions_named_by_their_start(compile_c: Build, tmp_path: Path, flags: str) -> None:
    program = compile_c(SOURCE, *flags)
    stripped = tmp_path / "stripped"
    _tool("strip", "-o", stripped, program)
    symbols = Symbols(str(stripped))
    for name in ("hidden", "shown", "main"):
        start, size = _nm(program)[name]
        for address in (start, start + size // 2, start + size - 1):
            function = symbols.function(address)
            assert function is not None
            assert (function.name, function.start) == (f"stripped+{start:#x}", start)
    assert len(symbols.lines(np.array([start], np.uint64)).addresses) == 0
    assert symbols.notes == []


@pytest.mark.parametrize(
    "flags", [("-O2",), ("-O2", "-no-pie"), ("-O2", "-fcf-protection", "-Wl,-z,ibtplt")], ids=" ".join
)
def test_stubs_are_those_of_objdump(compile_c: Build, flags: tuple[str, ...]) -> None:
    program = compile_c(SOURCE, *flags, loaded=True)
    symbols = Symbols(str(program))
    stubs = re.findall(
        r"^([0-9a-f]+) <(\w+)@plt>:", _tool("objdump", "-d", "-j", ".plt", "-j", ".plt.sec", program), re.M
    )
    assert {"qsort", "pow"} <= {name for _, name in stubs}
    for address, name in stubs:
        function = symbols.function(int(address, 16))
        assert function is not None
        assert function.name == f"{name}@plt"


def test_file_offsets_become_link_addresses(compile_c: Build) -> None:
    for flags in (("-O2",), ("-O2", "-static"), ("-O1", "-no-pie")):
        program = compile_c(SOURCE, *flags)
        symbols = Symbols(str(program))
        segments = re.findall(r"LOAD\s+0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", _tool("readelf", "-lW", program))
        assert len(segments) >= 2
        for offset, address, length in ([int(field, 16) for field in segment] for segment in segments):
            assert symbols.link_address(offset) == address
            assert symbols.link_address(offset + length - 1) == address + length - 1
        assert symbols.link_address(1 << 40) is None
        offsets = [int(field, 16) for segment in segments for field in segment[:1]] + [1 << 40]
        expected = [int(segment[1], 16) for segment in segments] + [1 << 40]
        assert symbols.link_addresses(np.array(offsets, np.uint64)).tolist() == expected


def test_what_is_no_elf_file_tells_nothing(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("not a program")
    empty = tmp_path / "empty"
    empty.touch()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (text, empty, pipe, tmp_path, tmp_path / "missing"):
        symbols = Symbols(str(path))
        assert symbols.function(0x1000) is None
        assert symbols.link_address(0) is None
        assert len(symbols.lines(np.array([1], np.uint64)).addresses) == 0
        assert len(symbols.notes) == 1
        assert str(path) in symbols.notes[0]


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file_never_stops_the_analysis(compile_c: Build, tmp_path: Path, seed: int) -> None:
    program = compile_c(SOURCE, "-O2")
    main = _nm(program)["main"][0]
    data = bytearray(program.read_bytes())
    generator = random.Random(seed)
    if seed % 3 == 0:
        del data[generator.randrange(1, len(data)) :]
    for _ in range(generator.choice([1, 10, 200])):
        # The headers at both ends steer everything; the rest is debug information for the most part.
        where = generator.choice([range(64), range(len(data) - min(len(data), 2500), len(data)), range(len(data))])
        data[generator.choice(where) % len(data)] = generator.randrange(256)
    damaged = tmp_path / "damaged"
    damaged.write_bytes(data)
    symbols = Symbols(str(damaged))
    symbols.link_address(0x1100)
    symbols.function(main)
    symbols.function(5)
    table = symbols.lines(np.array([main, main + 4, 1 << 63], np.uint64))
    table.find(np.array([0, main, (1 << 64) - 1], np.uint64))
    assert all(str(damaged) in note for note in symbols.notes)
