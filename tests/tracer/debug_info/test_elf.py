"""What is read straight from ELF files, checked against readelf."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from foretrace.tracer.debug_info.elf_file import ElfFile
from foretrace.tracer.debug_info.frame_table import function_ranges, function_starts

Build = Callable[..., Path]
SOURCE = '#include <stdio.h>\nstatic int twice(int n) { return 2 * n; }\nint main(void) { return twice(puts("")); }\n'


def _readelf(option: str, program: Path) -> str:
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    return subprocess.run(["readelf", option, "-W", program], text=True, capture_output=True, check=True).stdout


@pytest.mark.parametrize("flags", [("-O2",), ("-O2", "-static", "-g")], ids=" ".join)
def test_sections_are_those_of_readelf(compile_c: Build, flags: tuple[str, ...]) -> None:
    program = compile_c(SOURCE, *flags)
    rows = re.findall(r"\[ *(\d+)\] (\S+) +\S+ +(\w{16}) (\w+) (\w+)", _readelf("-S", program))
    assert len(rows) > 20
    file = ElfFile(str(program))
    found = {(s.number, s.name, s.address, s.offset, s.size_bytes) for s in file.sections}
    for number, name, *figures in rows:
        assert (int(number), name, *(int(figure, 16) for figure in figures)) in found
    comment = file.section(".comment")
    assert comment is not None
    assert b"GCC" in file.data(comment)


@pytest.mark.parametrize("flags", [("-O2",), ("-O0", "-no-pie"), ("-O2", "-static")], ids=" ".join)
def test_function_ranges_are_those_of_readelf(compile_c: Build, flags: tuple[str, ...]) -> None:
    program = compile_c(SOURCE, *flags)
    expected = [
        (int(start, 16), int(end, 16))
        for start, end in re.findall(r"FDE .*pc=(\w+)\.\.(\w+)", _readelf("--debug-dump=frames", program))
    ]
    assert len(expected) >= 3
    file = ElfFile(str(program))
    section = file.section(".eh_frame")
    assert section is not None
    assert function_ranges(file.data(section), section.address) == sorted(expected)
    header = file.section(".eh_frame_hdr")
    if header is not None:
        starts = function_starts(file.data(header), header.address)
        assert starts is not None
        assert starts.tolist() == sorted({start for start, _ in expected})


def test_pointers_of_any_usual_form_are_read() -> None:
    """Two common entries, with a personality and without; functions by absolute and by relative pointers."""
    absolute = b"\x01\x00" + b"\x01\x78\x10" + bytes(3)  # version 1, no augmentation
    relative = b"\x01zPLR\x00" + b"\x01\x78\x10" + b"\x07" + b"\x03\x78\x56\x34\x12" + b"\x1b\x1b" + bytes(3)

    def entry(owner: int, body: bytes) -> bytes:
        return (4 + len(body)).to_bytes(4, "little") + owner.to_bytes(4, "little") + body

    frames = entry(0, absolute)
    frames += entry(len(frames) + 4, (0x5000).to_bytes(8, "little") + (0x20).to_bytes(8, "little"))
    second = len(frames)
    frames += entry(0, relative)
    here = len(frames) + 8
    frames += entry(
        len(frames) + 4 - second, (-0x100).to_bytes(4, "little", signed=True) + (0x30).to_bytes(4, "little")
    )
    frames += bytes(4) + b"what follows the end is not read"
    assert function_ranges(frames, 0x9000) == [(0x5000, 0x5020), (0x9000 + here - 0x100, 0x9000 + here - 0x100 + 0x30)]


def test_damage_is_an_error() -> None:
    frames = b"\x10\0\0\0\0\0\0\0\x01zR\0\x01\x78\x10\x01\x9b\0\0\0" + b"\x0c\0\0\0\x18\0\0\0" + bytes(8)
    with pytest.raises(ValueError, match="encoding 0x9b"):
        function_ranges(frames, 0)
    with pytest.raises(KeyError):
        function_ranges(b"\x0c\0\0\0\x99\0\0\0" + bytes(8), 0)
