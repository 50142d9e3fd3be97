"""Names and lines of files whose debug information is compressed, in a 64-bit format, or in another file."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from foretrace.tracer.debug_info import debug_files
from foretrace.tracer.debug_info.symbols import Symbols

SOURCE = """double a[64], b[64];
__attribute__((noinline)) void triad(int n) {
    for (int i = 0; i < n; i++)
        a[i] = b[i] * 3.0 + a[i];
}
int main(void) { triad(64); return 0; }
"""
pytestmark = pytest.mark.skipif(shutil.which("objcopy") is None, reason="needs binutils")


def built(folder: Path, *flags: str) -> Path:
    (folder / "triad.c").write_text(SOURCE)
    program = folder / "triad"
    subprocess.run(["gcc", "-O1", "-g", *flags, "-o", program, "triad.c"], cwd=folder, check=True)
    return program


def split(program: Path, debug: Path, *, is_linked: bool = True) -> None:
    """Move the debug information to another file."""
    debug.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["strip", program], check=True)
    if is_linked:
        subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", program], check=True)


def lines_of(symbols: Symbols) -> Sequence[int]:
    """The lines of the function."""
    [function] = [one for one in symbols.functions() if one.name == "triad"]
    table = symbols.lines(np.array([function.start], np.uint64))
    _, lines = table.find(np.arange(function.start, function.end, dtype=np.uint64))
    return sorted(set(lines.tolist()))


@pytest.mark.parametrize(
    "flags", [(), ("-gdwarf64",), ("-gdwarf64", "-gdwarf-4"), ("-gz=zlib",), ("-gz=zlib-gnu",), ("-gsplit-dwarf",)]
)
def test_lines_are_read_in_each_form(flags: tuple[str, ...], tmp_path: Path) -> None:
    symbols = Symbols(str(built(tmp_path, *flags)))
    assert {3, 4} <= set(lines_of(symbols))
    assert symbols.notes == []


@pytest.mark.parametrize("where", ["triad.debug", ".debug/triad.debug", "system/by-id", "system/by-path"])
def test_a_separate_file_is_found_where_debuggers_look(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = tmp_path / "system"
    monkeypatch.setattr(debug_files, "SYSTEM_FOLDERS", (system,))
    program = built(tmp_path, "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567")
    debug = tmp_path / where
    if where == "system/by-id":
        debug = system / ".build-id/01/23456789abcdef0123456789abcdef01234567.debug"
    elif where == "system/by-path":
        debug = system / tmp_path.relative_to("/") / "triad.debug"
    split(program, debug, is_linked=where != "system/by-id")
    symbols = Symbols(str(program))
    assert {3, 4} <= set(lines_of(symbols))
    assert symbols.notes == []


def test_a_separate_file_that_is_missing_or_of_another_build_is_a_note(tmp_path: Path) -> None:
    program = built(tmp_path)
    split(program, tmp_path / "triad.debug")
    (tmp_path / "triad.debug").rename(tmp_path / "away")
    symbols = Symbols(str(program))
    assert symbols.functions() == []
    [note] = symbols.notes
    assert "triad.debug is not where it is looked for" in note
    assert "put it beside the file" in note
    other = tmp_path / "other"
    other.mkdir()
    split(built(other, "-O3"), tmp_path / "triad.debug")
    symbols = Symbols(str(program))
    assert symbols.functions() == []
    assert "triad.debug is of another build" in symbols.notes[0]


def test_a_file_that_was_removed_is_a_note_that_says_what_to_do(tmp_path: Path) -> None:
    [note] = Symbols(str(tmp_path / "gone.so")).notes
    assert "it was removed while the program ran; have the program keep it" in note


@pytest.mark.skipif(shutil.which("dwz") is None, reason="needs dwz")
def test_what_dwz_moved_to_a_shared_file_is_read_there(tmp_path: Path) -> None:
    programs = []
    for level in ("-O1", "-O2"):
        folder = tmp_path / level
        folder.mkdir()
        programs.append(built(folder, level))
    subprocess.run(["dwz", "-m", tmp_path / "shared", *programs], check=True)
    assert {3, 4} <= set(lines_of(Symbols(str(programs[0]))))
    (tmp_path / "shared").unlink()
    symbols = Symbols(str(programs[0]))
    symbols.lines(np.array([symbols.functions()[0].start], np.uint64))
    assert ".gnu_debugaltlink" in symbols.notes[0]
    assert "install its debug symbols" in symbols.notes[0]


def test_sections_compressed_by_zstandard_are_read() -> None:
    name = ctypes.util.find_library("zstd")
    if name is None:
        pytest.skip("needs libzstd")
    library = ctypes.CDLL(name)
    library.ZSTD_compress.restype = ctypes.c_size_t
    content = b"lines " * 1000
    packed = ctypes.create_string_buffer(4096)
    library.ZSTD_compress.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int
    size = library.ZSTD_compress(packed, 4096, content, len(content), 3)
    assert debug_files._unpacked(packed.raw[:size], len(content)) == content
    with pytest.raises(ValueError, match="damaged"):
        debug_files._unpacked(packed.raw[: size // 2], len(content))


def test_a_module_is_read_whatever_its_name_and_the_locale(tmp_path: Path) -> None:
    program = built(tmp_path, "-g")
    named = tmp_path / "caf\u00e9"
    program.rename(named)
    code = (
        "import sys\n"
        "from foretrace.tracer.debug_info.symbols import Symbols\n"
        "print(sys.getfilesystemencoding(), Symbols(sys.argv[1].encode(errors='surrogateescape').decode()).notes)"
    )
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    shown = subprocess.run(
        [sys.executable, "-P", "-c", code, os.fsencode(named)], env=environment, capture_output=True, check=True
    )
    assert shown.stdout.split(maxsplit=1) == [b"ascii", b"[]\n"]
