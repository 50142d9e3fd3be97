"""Source trees with files that cannot be read, do harm or change meanwhile: the rest goes on, with reasons."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from foretrace.base.errors import SourceError
from foretrace.tracer.source import result_cache, scanning
from foretrace.tracer.source.idioms.patterns import built_in
from foretrace.tracer.source.idioms.records import Findings
from foretrace.tracer.source.result_cache import ResultCache
from foretrace.tracer.source.scanning import file_result, scanned

C_CODE = "void f(int n, double *a, const double *b) { for (int i = 0; i < n; i++) a[i] = b[i]; }\n"
FORTRAN = "subroutine f(n,a,b)\n integer n\n real a(n),b(n)\n do i=1,n\n  a(i)=b(i)\n end do\nend subroutine\n"
PYTHON = "def f(a, b, n):\n    for i in range(n):\n        a[i] = b[i]\n"
PATTERNS = built_in()


def scan(folder: Path, **options: object) -> Findings:
    return scanned([folder], PATTERNS, processes=2, **options)  # type: ignore[arg-type]


def reasons(found: Findings) -> dict[str, str]:
    return {Path(part.file).name: part.reason for part in found.skipped if part.what in ("file", "folder")}


def test_what_is_no_file_is_listed_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "good.c").write_text(C_CODE)
    os.mkfifo(tmp_path / "fifo.c")
    (tmp_path / "device.py").symlink_to("/dev/zero")
    (tmp_path / "gone.f90").symlink_to("nothing")
    (tmp_path / "a.c").symlink_to("b.c")
    (tmp_path / "b.c").symlink_to("a.c")
    (tmp_path / "up").symlink_to("..")
    (tmp_path / "folder.c").mkdir()
    found = scan(tmp_path)
    assert [one.idiom for one in found.findings] == ["stream"]
    assert reasons(found) == {
        "fifo.c": "no regular file",
        "device.py": "no regular file",
        "gone.f90": os.strerror(errno.ENOENT),
        "a.c": os.strerror(errno.ELOOP),
        "b.c": os.strerror(errno.ELOOP),
    }


def test_a_named_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.c")
    assert reasons(scan(tmp_path / "fifo.c", cache_folder=tmp_path / "cache")) == {"fifo.c": "no regular file"}


def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.py"
    path.write_text(PYTHON)

    def refuse(self: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    (part,) = file_result(path, PATTERNS).skipped
    assert (part.what, part.reason) == ("file", "Permission denied")


def test_a_file_that_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good.py").write_text(PYTHON)
    (tmp_path / "vanishing.py").write_text(PYTHON)
    listed = scanning.source_files

    def vanishing(paths: list[Path]) -> object:
        found = listed(paths)
        (tmp_path / "vanishing.py").unlink()
        return found

    monkeypatch.setattr(scanning, "source_files", vanishing)
    found = scan(tmp_path)
    assert len(found.findings) == 1
    assert reasons(found) == {"vanishing.py": os.strerror(errno.ENOENT)}


def test_too_large_too_slow_and_too_hungry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good.py").write_text(PYTHON)
    with (tmp_path / "huge.c").open("wb") as file:
        file.truncate(scanning.MOST_FILE_BYTES + 1)
    (tmp_path / "slow.c").write_text(C_CODE)
    (tmp_path / "hungry.f90").write_text(FORTRAN)
    real = scanning.lower

    def lower(path: Path, roots: tuple[Path, ...]) -> object:
        if path.name == "slow.c":
            time.sleep(60)
        if path.name == "hungry.f90":
            bytearray(1 << 40)
        return real(path, roots)

    monkeypatch.setattr(scanning, "lower", lower)
    monkeypatch.setattr(scanning, "FILE_SECONDS", 2)
    found = scan(tmp_path)
    assert len(found.findings) == 1
    assert reasons(found) == {
        "huge.c": "larger than 16 MiB",
        "slow.c": "reading it took more than 2 s; --no-cache tries again",
        "hungry.f90": "reading it took more than 4 GiB",
    }


def test_a_process_that_dies_and_a_fault_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("good.py", "crash.py", "fault.py", "deep.py"):
        (tmp_path / name).write_text(PYTHON)
    real = scanning.lower

    def lower(path: Path, roots: tuple[Path, ...]) -> object:
        match path.name:
            case "crash.py":
                os.abort()
            case "fault.py":
                raise KeyError("place")
            case "deep.py":
                raise RecursionError
        return real(path, roots)

    monkeypatch.setattr(scanning, "lower", lower)
    found = scan(tmp_path)
    assert len(found.findings) == 1
    why = reasons(found)
    assert why["crash.py"].startswith("reading it ended the process")
    assert why["fault.py"] == "foretrace failed on it, please report this: KeyError: 'place'"
    assert why["deep.py"] == "nested too deeply"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("deep.c", C_CODE.replace("b[i]", "(" * 20_000 + "b[i]" + ")" * 20_000)),
        ("deep.f90", FORTRAN.replace("=b(i)", "=" + "(" * 20_000 + "b(i)" + ")" * 20_000)),
        ("deep.py", PYTHON.replace("= b[i]", "= " + "(" * 20_000 + "b[i]" + ")" * 20_000)),
        ("ifs.c", "void f(int n, double *a) {" + "if (n) {" * 3000 + "a[0] = 1;" + "}" * 3000 + "}"),
        ("ifs.f90", "subroutine f(n)\n" + "if (n>0) then\n" * 1000 + "n=1\n" + "end if\n" * 1000 + "end\n"),
        ("elses.c", C_CODE.replace("a[i] =", "if (i == n) a[i] = 1; else " * 1000 + "a[i] =")),
        ("loops.f90", "subroutine f(n,a)\n" + "do i=1,n\n" * 300 + "a(i)=0\n" + "end do\n" * 300 + "end\n"),
        ("sum.c", C_CODE.replace("b[i]", "+".join(["b[i]"] * 5000))),
        ("null.c", C_CODE + "\0\0" + C_CODE),
        ("null.f90", FORTRAN + "\0\0" + FORTRAN),
        ("null.py", PYTHON + "\0\0" + PYTHON),
        ("half.c", C_CODE + C_CODE[:50]),
        ("half.f90", FORTRAN + FORTRAN[:50]),
        ("half.py", PYTHON + PYTHON[:30]),
        ("broken.c", "}}} ))) @@\n" + C_CODE),
        ("broken.f90", "))) do do ((\n" + FORTRAN),
        ("self.c", '#include "self.c"\n' + C_CODE),
        ("self.f90", "include 'self.f90'\n" + FORTRAN),
        ("line.c", "/*" + "x" * 1_000_000 + "*/" + C_CODE),
        ("line.f90", "! " + "x" * 1_000_000 + "\n" + FORTRAN),
        ("line.py", "x = '" + "y" * 1_000_000 + "'\n" + PYTHON),
    ],
)
def test_hostile_code_costs_at_most_its_file(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    (tmp_path / "good.py").write_text(PYTHON)
    found = scan(tmp_path)
    assert "good.py" in {Path(one.file).name for one in found.findings}
    assert found.files == 2
    assert all(part.reason and "foretrace failed" not in part.reason for part in found.skipped)
    if name.split(".")[0] in ("broken", "half"):
        assert name in {Path(part.file).name for part in found.skipped}
    if name.split(".")[0] in ("half", "line", "self"):  # the sound function is found
        assert name in {Path(one.file).name for one in found.findings}


def test_macros_and_includes_that_explode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "FILE_SECONDS", 2)
    doubling = "".join(f"#define M{k + 1} M{k} M{k} M{k} M{k}\n" for k in range(10))
    (tmp_path / "macro.c").write_text(
        "#define M0 a[i] = b[i];\n" + doubling + "void f(int n,double*a,double*b){for(int i=0;i<n;i++){ M10 }}"
    )
    for level in range(24):
        (tmp_path / f"h{level}.h").write_text(f'#include "h{level + 1}.h"\n' * 2)
    (tmp_path / "h24.h").write_text("int g(void);\n")
    (tmp_path / "include.c").write_text('#include "h0.h"\n' + C_CODE)
    (tmp_path / "good.py").write_text(PYTHON)
    found = scan(tmp_path)
    assert "good.py" in {Path(one.file).name for one in found.findings}
    assert "macro.c" in reasons(found) or any(part.what == "function" for part in found.skipped)


@pytest.mark.parametrize("name", ["new\nline.c", "esc\x1b[31m.py", "--help.c", "=1+1.f90", "a b,\"c'.c", "$(id).py"])
def test_odd_names(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text({".c": C_CODE, ".py": PYTHON, ".f90": FORTRAN}[Path(name).suffix])
    (finding,) = scan(Path(), cache_folder=tmp_path / "cache").findings
    assert finding.file == name


def test_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.py")).write_text(PYTHON)
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.c")).write_text(C_CODE)
    found = scan(tmp_path, cache_folder=tmp_path / "cache")
    assert not found.skipped
    assert [os.fsencode(Path(one.file).name) for one in found.findings] == [b"caf\xe9.c", b"caf\xe9.py"]


def test_what_is_named_must_be_there_and_source(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(SourceError, match="no source of C"):
        scan(tmp_path / "notes.txt")
    with pytest.raises(SourceError, match="no such file"):
        scan(tmp_path / "nothing.c")


# The cache


def test_a_second_run_reads_nothing_and_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, cache = tmp_path / "src", tmp_path / "cache"
    source.mkdir()
    for name, text in (("a.c", C_CODE), ("b.f90", FORTRAN), ("c.py", PYTHON)):
        (source / name).write_text(text)
    first = scan(source, cache_folder=cache)
    monkeypatch.setattr(scanning, "file_result", None)
    assert scan(source, cache_folder=cache) == first


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff\xfe", b'{"findings": 1}', b"[" * 100_000])
def test_damaged_entries_are_read_anew(damage: bytes, tmp_path: Path) -> None:
    source, cache = tmp_path / "src.py", tmp_path / "cache"
    source.write_text(PYTHON)
    first = scan(source, cache_folder=cache)
    (entry,) = cache.iterdir()
    entry.write_bytes(damage)
    result_cache.digest_of.cache_clear()
    assert scan(source, cache_folder=cache) == first
    assert entry.read_bytes() != damage


def test_a_full_disk_keeps_nothing_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, cache = tmp_path / "src.py", tmp_path / "cache"
    source.write_text(PYTHON)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    assert len(scan(source, cache_folder=cache).findings) == 1
    assert list(cache.iterdir()) == []
    assert len(scan(source, cache_folder=Path("/proc/nothing")).findings) == 1


def test_a_file_that_changes_while_it_is_read_is_not_kept(tmp_path: Path) -> None:
    source, cache = tmp_path / "src.py", tmp_path / "cache"
    source.write_text(PYTHON)
    changed = threading.Event()

    def progress(done: int, total: int) -> None:
        if not changed.is_set():
            source.write_text(PYTHON.replace("b[i]", "0"))
            changed.set()

    scan(source, cache_folder=cache, progress=progress)
    assert not cache.exists() or list(cache.iterdir()) == []


# Headers


HEADER = "#define LENGTH 8\ntypedef double value_t;\n"
USES_HEADER = '#include "sizes.h"\nvoid f(value_t *a) { for (int i = 0; i < LENGTH; i++) a[i] = 0; }\n'


@pytest.mark.parametrize(
    ("header", "source", "scanned_folder"),
    [
        ("include/sizes.h", "src/deep/a.c", "src"),  # a folder for headers beside the one that is read
        ("common/sizes.h", "src/a.c", ""),  # anywhere below the folder that is read
        ("common/sizes.h", "src/a.c", "src/a.c"),  # in the project, known by its build file
    ],
)
def test_headers_of_the_project_are_found(header: str, source: str, scanned_folder: str, tmp_path: Path) -> None:
    for name, text in ((header, HEADER), (source, USES_HEADER)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    if scanned_folder.endswith(".c"):
        (tmp_path / "Makefile").write_text("")
    found = scan(tmp_path / scanned_folder)
    assert not found.skipped
    assert [use.element for one in found.findings for use in one.arrays] == ["float64"]


def test_the_search_for_headers_stops_at_the_repository(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "sizes.h").write_text(HEADER)
    (tmp_path / "Makefile").write_text("")
    (tmp_path / "own" / ".git").mkdir(parents=True)
    (tmp_path / "own" / "a.c").write_text(USES_HEADER)
    assert "include" in [part.what for part in scan(tmp_path / "own").skipped]


def test_another_build_of_the_native_code_makes_other_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_cache, "__file__", str(tmp_path / "result_cache.py"))
    digests = set()
    for built in (b"one", b"two"):
        (tmp_path / "core.so").write_bytes(built)
        digests.add(result_cache._own_digest.__wrapped__())
    assert len(digests) == 2


def entry_of(folder: Path, number: int, size_bytes: int, name: str = "") -> Path:
    """A file in a cache's folder, older the smaller the number."""
    entry = folder / (name or f"{number:064x}.json")
    entry.write_bytes(b"x" * size_bytes)
    os.utime(entry, (number, number))
    return entry


def test_only_own_entries_are_trimmed_the_oldest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_cache, "MOST_BYTES", 2500)
    cache = tmp_path / "cache"
    cache.mkdir()
    entries = [entry_of(cache, number, 1000) for number in range(1, 5)]
    others = [entry_of(cache, 0, 5000, "thesis.tex"), entry_of(cache, 0, 5000, "A" * 64 + ".json")]
    others.append(cache / f"{9:064x}.json")
    others[-1].symlink_to(others[0])
    others.append(cache / f"{8:064x}.json")
    others[-1].mkdir()
    ResultCache(cache, "").trim()
    assert [entry.exists() for entry in entries] == [False, False, True, True]
    assert all(other.exists() for other in others)


def test_a_folder_that_is_a_link_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_cache, "MOST_BYTES", 0)
    (tmp_path / "documents").mkdir()
    kept = entry_of(tmp_path / "documents", 1, 1000)
    (tmp_path / "cache").symlink_to(tmp_path / "documents")
    ResultCache(tmp_path / "cache", "").trim()
    assert kept.exists()


def test_files_of_another_user_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_cache, "MOST_BYTES", 0)
    kept = entry_of(tmp_path, 1, 1000)
    owner = kept.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    ResultCache(tmp_path, "").trim()
    assert kept.exists()


CPLUSPLUS = """#include <vector>
double sum(const std::vector<double> &x) { double s = 0; for (double one : x) s += one; return s; }
"""


def test_scratch_files_are_in_one_folder_that_is_gone_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process's folder is removed; a running one's stays, and so does a link that bears such a name."""
    scratch, trees = tmp_path / "scratch", tmp_path / "trees"
    scratch.mkdir()
    trees.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    for number in range(4):
        (trees / f"{number}.cpp").write_text(CPLUSPLUS)
    ended = subprocess.Popen(["true"])
    ended.wait()
    left, running = scratch / f"foretrace-source-{ended.pid}-abc", scratch / f"foretrace-source-{os.getpid()}-abc"
    link = scratch / f"foretrace-source-{ended.pid}-def"
    for folder in (left, running):
        folder.mkdir()
    link.symlink_to(tmp_path)
    seen: set[str] = set()

    def progress(_done: int, _total: int) -> None:
        seen.update(folder.name for folder in scratch.iterdir())

    found = scan(trees, progress=progress)
    assert len(found.loops) == 4
    new = seen - {left.name, running.name, link.name}
    assert len(new) == 1, "of both processes"
    assert {folder.name for folder in scratch.iterdir()} == {running.name, link.name}
