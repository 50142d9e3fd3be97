"""What a user can get wrong at the command line: one clear line, an exit code of its own kind, no damage."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

HELLO = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }'


def complaint(result: subprocess.CompletedProcess[str], code: int) -> str:
    """The one line of a failed command."""
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("foretrace: error: ")
    return lines[0]


def test_missing_program(foretrace: Run, tmp_path: Path) -> None:
    line = complaint(foretrace("trace", "-o", tmp_path / "x.sig", "--", "./nothing"), 71)
    assert "./nothing: no such file" in line
    line = complaint(foretrace("trace", "-o", tmp_path / "x.sig", "--", "no-such-program-anywhere"), 71)
    assert "PATH" in line
    assert "name is empty" in complaint(foretrace("trace", "-o", tmp_path / "x.sig", ""), 71)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not an ELF program"),
        (b"#!/no/shell\necho hi\n", "whose first line names its interpreter: /no/shell: no such file"),
        (b"MZ\x90\0" + bytes(100), "not an ELF program"),
        (
            b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\x08\x00" + bytes(100),
            "for MIPS; this release traces x86-64, AArch64, RISC-V",
        ),
        (b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00" + bytes(100), "nothing to load"),
        (b"\x7fELF\x01\x01\x01" + bytes(9) + b"\x02\x00\x03\x00" + bytes(100), "32-bit x86"),
        (b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x01\x00\x3e\x00" + bytes(100), "not a program"),
    ],
)
def test_not_a_program(content: bytes, words: str, foretrace: Run, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(content)
    program.chmod(0o755)
    assert words in complaint(foretrace("trace", "-o", tmp_path / "x.sig", "--", program), 71)
    program.chmod(0o644)
    line = complaint(foretrace("trace", "-o", tmp_path / "x.sig", "--", program), 71)
    assert f"is not executable; if it is a program, make it so with chmod +x {program}" in line


def test_no_qemu(foretrace: Run, compile_c: Callable[..., Path], tmp_path: Path) -> None:
    program = compile_c(HELLO)
    result = foretrace("trace", "-o", tmp_path / "x.sig", "--", program, env={"PATH": str(tmp_path)})
    assert "apt install qemu-user" in complaint(result, 72)
    fake = tmp_path / "qemu-x86_64"
    fake.write_text("#!/bin/sh\necho usage\n")
    fake.chmod(0o755)
    result = foretrace("trace", "-o", tmp_path / "x.sig", "--", program, env={"PATH": str(tmp_path)})
    assert "without plugins" in complaint(result, 72)


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-x86_64 is not installed")
def test_an_engine_killed_before_it_traces_is_not_a_broken_one(
    foretrace: Run, compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    fake, output = tmp_path / "qemu-x86_64", tmp_path / "x.sig"
    how = {"INT": "killed by SIGINT", "KILL": "killed by SIGKILL"}
    for name, words in how.items():
        fake.write_text(
            f'#!/bin/sh\ncase "$*" in *file=*) kill -{name} $$;; esac\nexec {shutil.which("qemu-x86_64")} "$@"\n'
        )
        fake.chmod(0o755)
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        result = foretrace("trace", "--force", "-o", output, "--", compile_c(HELLO), env=environment)
        assert result.returncode == -getattr(signal, f"SIG{name}")
        assert result.stderr == ""
        assert words in foretrace("info", output).stdout
    fake.write_text(fake.read_text().replace("KILL", "SEGV"))
    result = foretrace("trace", "--force", "-o", output, "--", compile_c(HELLO), env=environment)
    assert "did not load" in complaint(result, 72)


def test_output_exists(foretrace: Run, compile_c: Callable[..., Path], tmp_path: Path) -> None:
    program, output = compile_c(HELLO), tmp_path / "x.sig"
    output.write_text("precious")
    result = foretrace("trace", "-o", output, "--", program)
    assert "--force" in complaint(result, 75)
    assert result.stdout == ""  # refused before the program ran
    assert output.read_text() == "precious"
    output.unlink()
    assert foretrace("trace", "-o", output, "--", program).returncode == 0
    assert "--force" in complaint(foretrace("trace", "-o", output, "--", program), 75)
    assert foretrace("trace", "--force", "-o", output, "--", program).returncode == 0
    assert output.read_bytes().startswith(b"SQLite")
    assert "no directory" in complaint(foretrace("trace", "-o", tmp_path / "a" / "b", "--", program), 75)
    assert "directory" in complaint(foretrace("trace", "-o", tmp_path, "--", program), 75)


def test_an_output_that_is_something_else_of_the_run(
    foretrace: Run, compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    script, output = tmp_path / "script.py", tmp_path / "x.sig"
    script.write_text("print('hello')")
    for outputs, program, words in (
        ((script,), (script,), "is the program itself"),
        ((compile_c(HELLO),), ("--", compile_c(HELLO)), "is the program itself"),
        ((output, "--keep-stream", output), ("--", compile_c(HELLO)), "both name"),
    ):
        result = foretrace("trace", "--force", "-o", *outputs, *program)
        assert result.returncode == 2
        assert words in result.stderr
        assert result.stdout == ""
    assert script.read_text() == "print('hello')"


def test_full_disk(foretrace: Run, compile_c: Callable[..., Path], tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small], capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        result = foretrace("trace", "-o", small / "x.sig", "--", compile_c(HELLO))
        assert "No space left" in complaint(result, 75)
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)


def test_bad_signatures(foretrace: Run, compile_c: Callable[..., Path], tmp_path: Path) -> None:
    good, bad = tmp_path / "good.sig", tmp_path / "bad.sig"
    assert foretrace("trace", "-o", good, "--", compile_c(HELLO)).returncode == 0
    data = good.read_bytes()
    assert "No such file" in complaint(foretrace("info", bad), 73)
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it
    for name in (tmp_path / "pipe", "/dev/zero", tmp_path):
        assert "is not a file" in complaint(foretrace("info", name), 73)
    for content, words in [
        (b"", "is empty"),
        (b"hello world", "is not a signature; make one, in a file of another name"),
        (data[:2000], "damaged"),
        (data[: len(data) // 2], "damaged"),
        (data[:60] + (99).to_bytes(4, "big") + data[64:], "version 99"),
    ]:
        bad.write_bytes(content)
        assert words in complaint(foretrace("info", bad), 73)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("L1=32K/8", "NAME=SIZE/WAYS/LINE"),
        ("L1=x/8/64", "not a size"),
        ("L1=32K/0/64", "ways is 0"),
        ("L1=32K/8/65", "power of two"),
        ("L1=1000/8/64", "multiple of"),
        ("L1=32K/8/64,L1=1M/16/64", "same name"),
        (",".join(f"L{n}=32K/8/64" for n in range(3000)), "has 3000 levels, must have 1 to 8"),
        ("L1=32K" * 3000, "NAME=SIZE/WAYS/LINE"),
    ],
)
def test_bad_hierarchies(spec: str, words: str, foretrace: Run, tmp_path: Path) -> None:
    line = complaint(foretrace("trace", "-o", tmp_path / "x.sig", "--hierarchy", spec, "--", "true"), 76)
    assert words in line
    assert len(line) < 250


def test_no_verb_shows_the_help(foretrace: Run) -> None:
    result = foretrace()
    assert (result.returncode, result.stdout) == (2, "")
    *help_lines, error = result.stderr.splitlines()
    assert "  trace      run a program and record its signature" in help_lines
    assert error == "foretrace: error: name a verb"


def test_mistyped_verbs_are_guessed(foretrace: Run) -> None:
    result = foretrace("pradict")
    assert result.returncode == 2
    assert "predict" in result.stderr
    assert "Traceback" not in result.stderr
