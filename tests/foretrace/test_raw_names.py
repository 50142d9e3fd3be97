"""Arguments and names that are not UTF-8, or that a terminal would act on: kept as they are, shown with escapes."""

from __future__ import annotations

import json
import os
import pty
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from foretrace.base.terminal import plain
from foretrace.tracer.native.timing_file import read_timing
from foretrace.tracer.signature.file import read_signature
from foretrace.tracer.stored.simulate import simulate_stream

ARGUMENT = b"caf\xe9\x1b[31m\xc2\x9b \xff"
DIRECTORY, PROGRAM, SOURCE, SCRIPT = b"d\xef\x1b[2Jir", b"pr\xe9\x1b[31mog", b"so\xe9.c", b"sc\xe9\x1bipt.py"
C = rb"""
#include <stdio.h>
static int index[4096]; static double a[4096], b[4096];
int main(int argc, char **argv) {
    for (int i = 0; i < 4096; i++) index[i] = i * 37 % 4096, a[i] = argc;
    for (int r = 0; r < 20; r++) for (int i = 0; i < 4096; i++) b[i] += a[index[i]];
    puts(argv[argc - 1]); return b[3] < 0;
}"""
PYTHON = b"""import os, sys
import numpy as np
x = np.arange(10_000.0)
for _ in range(5):
    x = x + x[x.astype(int) % 10_000]
print(os.fsencode(sys.argv[1]))
"""
PAIR = ("--host", "jaguar-xt4", "--accelerator", "convey-hc1-fpga")


def run(*arguments: str | bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-P", "-m", "foretrace", *arguments]
    return subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """With a program and a script, traced and timed."""
    made = os.fsencode(tmp_path_factory.mktemp("raw")) + b"/" + DIRECTORY
    os.mkdir(made)  # noqa: PTH102 - as bytes
    for name, content in ((SOURCE, C), (SCRIPT, PYTHON)):
        Path(os.fsdecode(made + b"/" + name)).write_bytes(content)
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    subprocess.run([b"gcc", b"-O1", b"-g", b"-static", b"-o", made + b"/" + PROGRAM, made + b"/" + SOURCE], check=True)
    program, script = made + b"/" + PROGRAM, made + b"/" + SCRIPT
    stream = ("--keep-stream", made + b"/c.fts")
    for arguments, output in (
        (("trace", "-o", made + b"/c.sig", *stream, "--", program, ARGUMENT), ARGUMENT),
        (("trace", "-o", made + b"/python.sig", script, ARGUMENT), repr(ARGUMENT).encode()),
        (("time", "-o", made + b"/c.timing", "--", program, ARGUMENT), ARGUMENT),
        (("time", "-o", made + b"/python.timing", script, ARGUMENT), repr(ARGUMENT).encode()),
    ):
        result = run(*arguments)
        assert (result.returncode, result.stderr, result.stdout) == (0, b"", output + b"\n"), arguments
    return made


@pytest.mark.parametrize("name", ["c", "python"])
def test_files_keep_the_bytes(name: str, directory: bytes) -> None:
    own = directory + b"/" + (PROGRAM if name == "c" else SCRIPT)
    path = Path(os.fsdecode(directory)) / f"{name}.sig"
    signature, timing = read_signature(path), read_timing(path.with_suffix(".timing"))
    assert list(map(os.fsencode, signature.provenance.command)) == [own, ARGUMENT]
    assert list(map(os.fsencode, timing.command[-2:])) == [own, ARGUMENT]
    source = own if name == "python" else directory + b"/" + SOURCE
    assert source in {os.fsencode(block.file) for block in signature.blocks}
    assert source in {os.fsencode(loop.file) for loop in signature.loops}
    assert source in {os.fsencode(operation.file) for operation in signature.operations}
    assert source in {os.fsencode(idiom.file) for idiom in signature.idioms}
    with closing(sqlite3.connect(path)) as database:
        assert (source,) in database.execute("SELECT DISTINCT file FROM loops").fetchall()
    if name == "c":
        assert own in {os.fsencode(block.module) for block in signature.blocks}
        modules = {os.fsencode(position.module) for position in timing.positions}
        assert own in modules or all(module.startswith((b"/usr/lib/", b"/lib/")) for module in modules), "or no sample"
        simulated = simulate_stream(path.with_suffix(".fts"), [])
        assert list(map(os.fsencode, simulated.command)) == [own, ARGUMENT]


@pytest.mark.parametrize("name", ["c", "python"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("info", ".sig"),
        ("predict", ".sig", "--machine", "jaguar-xt4", "--timing", ".timing"),
        ("triage", ".sig", *PAIR),
        ("curve", ".sig"),
        ("simulate", ".fts", "--hierarchy", "L1=32K/8/64"),
    ],
)
def test_reports_show_escapes(name: str, arguments: tuple[str, ...], directory: bytes) -> None:
    if name == "python" and arguments[0] == "simulate":
        name = "c"
    words = [directory + b"/" + f"{name}{word}".encode() if word[0] == "." else word for word in arguments]
    source = SOURCE if name == "c" else SCRIPT
    for result in (run(*words), run(*words, "--json")):
        assert result.returncode == 0, result.stderr
        text = result.stdout.decode("utf-8") + result.stderr.decode("utf-8")
        assert all(line.isprintable() for line in text.splitlines())
        shown = plain(os.fsdecode(source))
        assert shown in text.replace("\\\\", "\\") or arguments[0] == "curve"
    json.loads(result.stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        ("info", b"/missing\x1b\xff.sig"),
        ("trace", "-o", b"/c.sig", "--", "true"),
        ("trace", "-o", b"/new.sig", "--", b"/missing\x1b\xff"),
        ("trace", "-o", b"/new.sig", b"/missing\x1b\xff.py"),
        ("time", "-o", b"/new.timing", "--", b"/missing\x1b\xff"),
        ("predict", b"/c.sig", "--machine", b"/missing\x1b\xff.toml"),
        ("curve", b"/c.sig", "--function", b"f\x1b\xff"),
        ("simulate", b"/missing\x1b\xff"),
        ("frob\x1b", b"\xff"),
    ],
)
def test_complaints_show_escapes(arguments: tuple[str | bytes, ...], directory: bytes) -> None:
    result = run(*(directory + word if isinstance(word, bytes) and word[:1] == b"/" else word for word in arguments))
    assert result.returncode not in (0, 1)
    assert b"Traceback" not in result.stderr
    assert all(line.isprintable() for line in result.stderr.decode("utf-8").splitlines())


def test_what_is_said_on_a_terminal_shows_escapes(directory: bytes) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-P", "-m", "foretrace", "trace", "-o", directory + b"/said.sig", "--", "true"]
    subprocess.run(command, stdin=theirs, stdout=theirs, stderr=theirs, check=True)
    os.close(theirs)
    said = os.read(ours, 65536).decode("utf-8").rpartition("\x1b[2K")[2]  # what stays once progress is erased
    os.close(ours)
    assert plain(os.fsdecode(DIRECTORY)) in said
    assert all(line.isprintable() for line in said.splitlines())


def test_bytes_are_shown_as_such() -> None:
    assert plain(os.fsdecode(b"a\xff\x1b\xc3\xa9")) == "a\\xff\\x1bé"


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_signature_keeps_names_whatever_the_encoding_of_the_system(encoding: str, tmp_path: Path) -> None:
    program = (
        "import dataclasses, sys, msgspec\n"
        "from tree_samples import Tree\n"
        "from foretrace.tracer.signature.file import read_signature, write_signature\n"
        "tree = Tree()\n"
        "tree.does(tree.thread(), 10)\n"
        "one = tree.signature()\n"
        "block = msgspec.structs.replace(one.blocks[0], file='caf\\xe9\\udcff.c')\n"
        "one = dataclasses.replace(one, blocks=(block, *one.blocks[1:]))\n"
        "write_signature(one, 'x.sig')\n"
        "read = read_signature('x.sig').blocks[0].file\n"
        "print(sys.getfilesystemencoding(), ascii(read))\n"
    )
    utf8 = str(int(encoding == "utf-8"))
    environment = os.environ | {
        "LC_ALL": "C", "PYTHONUTF8": utf8, "PYTHONCOERCECLOCALE": "0",
        "PYTHONPATH": str(Path(__file__).parents[1] / "helpers"),
    }  # fmt: skip
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, cwd=tmp_path, env=environment)
    assert (result.stderr, result.stdout.decode().split()) == (b"", [encoding, "'caf\\xe9\\udcff.c'"])
