"""Runs the verbs on damaged and hostile files of each kind that foretrace reads: `make hostile`.

For any content of a file, a verb ends with an answer or one line: no traceback, no crash, within its limits. Each
case is a forked process with a copy of everything imported, under lower limits than those stated; a case that reaches
them is reported, too. A case is made from its seed alone.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import tomli_w
from event_samples import odd_events, signature_with, solver_events
from fuzz_streams import ACCESSES, mutated, stored_file
from offload_samples import nest
from stored_samples import Instruction, champsim, din, drmemtrace, lackey
from timing_samples import TIMING

from foretrace import cli
from foretrace.base import json_text
from foretrace.benchmarks.validation.validation_file import MEASURED
from foretrace.profiles import library
from foretrace.tracer.native.timing_file import write_timing
from foretrace.tracer.signature import checksum
from foretrace.tracer.signature.file import read_signature, write_signature

MAX_MEMORY_GIB, MAX_TIME_S, WALL_S, SLOW_S = 2, 60, 300, 15
PROGRAMS = Path(__file__).parents[2] / "benchmarks" / "programs"
OWN_CODES = {0, 1, 2, 141, *range(70, 85)}
HOST, DEVICE = "epyc-9654", "h200-vm"

NUMBERS: list[Any] = [
    0, 1, -1, 2, 63, 64, 255, 65536, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 2**63,
    2**64 - 1, 10**30, 10**400, -(10**400), 0.0, -0.0, 0.1, -1.5, 1e-320, 1e300, 1.7e308, float("inf"), float("-inf"),
    float("nan"),
]  # fmt: skip
TEXTS = [
    "", "x" * 10_000, "\0", "\n", "\r\n", "\x1b[31m", "\u202e", "\ud800", "\udc80", "\udfff", "\U0001f600",
    "../../x", "/dev/zero",
    "/proc/self/mem", "a::b", "=1+1", "%s%n", "{}", "[red]", "<svg>", "&amp;", "_ZN" + "1a" * 500 + "Ev",
    "_ZN1a" + "I" * 800,
    "None", "nan", "-", "--help", "9" * 5000, "loop", "call", "thread", "gather",
]  # fmt: skip


# ---- mutations ------------------------------------------------------------------------------------------------------


def value_for(old: Any, chance: random.Random) -> Any:
    """A value that may stand for another in JSON, TOML or a table."""
    if isinstance(old, int | float) and not isinstance(old, bool) and chance.random() < 0.4:
        return chance.choice([old + 1, old - 1, -old, old * 2, old * 1000, old // 2 if old == old else 0])
    return chance.choice([
        lambda: chance.choice(NUMBERS), lambda: chance.choice(TEXTS), lambda: chance.choice([None, True, False]),
        lambda: chance.choice([[], {}, [[]], {"": 0}]), lambda: [old] * chance.choice([2, 100]), lambda: {"a": old},
        lambda: deep(chance.choice([50, 900, 3000])), lambda: chance.choice(NUMBERS),
    ])()  # fmt: skip


def deep(levels: int) -> Any:
    """Lists in lists."""
    made: Any = 0
    for _ in range(levels):
        made = [made]
    return made


def places(content: Any) -> list[tuple[Any, Any]]:
    """Every container within, with each of its keys."""
    found, left = [], [content]
    while left:
        one = left.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else []
        found += [(one, key) for key in keys]
        left += [one[key] for key in keys]
    return found


def changed(content: Any, chance: random.Random) -> Any:
    """JSON or TOML content with one to a few values, keys or entries changed."""
    content = json.loads(json.dumps(content))
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        where = places(content)
        if not where:
            return value_for(content, chance)
        holder, key = chance.choice(where)
        match chance.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[chance.choice(TEXTS)] = holder.pop(key)
            case 2 if isinstance(holder, list):
                holder[key:key] = [holder[key]] * chance.choice([1, 2, 1000])
            case _:
                holder[key] = value_for(holder[key], chance)
    return content


def as_json(content: Any) -> bytes:
    """Hostile JSON: lone surrogates and NaN included, integers of any length."""
    sys.set_int_max_str_digits(0)
    with suppress(RecursionError):
        return json.dumps(content).encode()
    text = "0"
    return b'{"schema": ' + b"[" * 5000 + text.encode() + b"]" * 5000 + b"}"


def changed_json(data: bytes, chance: random.Random) -> bytes:
    """A JSON document, changed as content or as text."""
    if chance.random() < 0.2:
        return mutated(data, chance)
    data = as_json(changed(json.loads(data), chance))
    if chance.random() < 0.1:  # a key twice
        at = data.find(b"{") + 1
        data = data[:at] + data[at : data.find(b",", at) + 1] + data[at:]
    return data


def changed_toml(data: bytes, chance: random.Random) -> bytes:
    """A TOML document, changed as text or as lines."""
    import tomllib

    choice = chance.random()
    if choice < 0.2:
        return mutated(data, chance)
    if choice < 0.5:
        with suppress(Exception):
            return tomli_w.dumps(changed(tomllib.loads(data.decode()), chance)).encode("utf-8", "surrogatepass")
    lines = data.split(b"\n")
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(lines))
        head, mark, _ = lines[at].partition(b"=")
        match chance.randrange(7):
            case 0:
                lines[at:at] = [lines[at]] * chance.choice([1, 3, 3000])
            case 1:
                del lines[at : at + chance.choice([1, 1, 5])]
            case 2 if mark:
                number = chance.choice(
                    [b"nan", b"-inf", b"1e999", b"9" * 5000, b"-1", b"0", b"0x10", b"1979-05-27", b"true"]
                )
                lines[at] = head + b"= " + number
            case 3 if mark:
                lines[at] = head + b"= " + b"[" * 2000
            case 4:
                lines[at] = b".".join([b"a"] * chance.choice([15, 17, 2000, 40_000])) + b" = 1"
            case 5:
                lines[at] = b"[" + b".".join([b"a%d" % at] * chance.choice([15, 17, 2000])) + b"]"
            case _:
                lines[at] = lines[at] + chance.choice(
                    [b"\0", b"\xff", b"'", b'"""', b"{", b"\\ud800", b"#" + b"x" * 5000]
                )
    return b"\n".join(lines)


def changed_source(data: bytes, chance: random.Random) -> bytes:
    """Source code with tokens and lines moved, multiplied, nested or replaced."""
    if chance.random() < 0.1:
        return mutated(data, chance)
    text = data.decode("utf-8", "replace")
    for _ in range(chance.choice([1, 1, 2, 3, 10])):
        tokens = re.findall(r"\s+|\w+|[^\w\s]", text)
        lines = text.splitlines(keepends=True) or [""]
        at, line = chance.randrange(len(tokens) or 1), chance.randrange(len(lines))
        many = chance.choice([2, 10, 100, 1000, 5000])
        match chance.randrange(14):
            case 0:
                del tokens[at : at + chance.choice([1, 2, 10])]
            case 1:
                tokens[at:at] = chance.choices(tokens or [""], k=chance.choice([1, 3]))
            case 2 if tokens:
                tokens[at] = chance.choice(tokens)
            case 3 if tokens:
                tokens[at] = chance.choice(["(" * many, "[" * many, "{" * many, "-" * many, "*" * many, ")" * many])
            case 4 if tokens:
                tokens[at] = "(" * many + tokens[at] + ")" * many
            case 5 if tokens:
                tokens[at] = "+".join([tokens[at]] * many)
            case 6 if tokens:
                tokens[at] = str(chance.choice(NUMBERS[:25])) if chance.random() < 0.8 else "9" * 6000
            case 7:
                lines[line:line] = [lines[line]] * min(many, 1000)
            case 8:
                del lines[line : line + chance.choice([1, 3])]
            case 9:
                lines[line:line] = chance.choice([
                    ["#pragma omp parallel for\n"] * many, [f"#define M{k} M{k + 1}\n" for k in range(many)],
                    ["#include \"self.h\"\n"] * min(many, 500), ["#if 1\n"] * many,
                    ["if (1)\n"] * many, ["for (;;)\n"] * many,
                    ["do i = 1, n\n"] * min(many, 1000), ["{\n"] * many, ["if x:\n"], ["!$omp parallel do\n"] * many,
                    [" " * k + "if x:\n" for k in range(min(many, 120))], ["continue\n"] * many,
                ])  # fmt: skip
            case 10:
                lines[line] = lines[line].rstrip("\n") + chance.choice(
                    ["\\\n", "&\n", " " * many + "\n", "x" * many + "\n"]
                )
            case 11:
                lines[line] = chance.choice(["\0", "\ufeff", "\u202e", "\r", "\f", "\x1b[2J", "é" * 100]) + lines[line]
            case 12:
                other = chance.randrange(len(lines))
                lines[line], lines[other] = lines[other], lines[line]
            case _:
                a, b = sorted((chance.randrange(len(lines)), chance.randrange(len(lines))))
                lines[a:a] = lines[a : min(b, a + 40)] * chance.choice([1, 2, 20])
        text = "".join(lines if "".join(lines) != text else tokens)
        text = text[: 4 << 20]
    return text.encode("utf-8", "surrogatepass")


def sealed(data: bytes) -> bytes:
    """A signature with the checksum of its content, if it still has the place for it."""
    with suppress(Exception):
        return checksum.sealed(data)
    return data


def changed_signature(data: bytes, chance: random.Random) -> bytes:
    """A signature with cells, rows or documents changed, or with damaged pages; its checksum is right."""
    if chance.random() < 0.15:
        return sealed(data[:100] + mutated(data[100:], chance)) if chance.random() < 0.8 else mutated(data, chance)
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(data)
        database.text_factory = bytes
        tables = [name.decode() for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        filled = [name for name in tables if database.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone()]
        for _ in range(chance.choice([1, 1, 1, 2, 3, 8])):
            table = chance.choice([name for name in filled if name != "checksum"])
            with suppress(sqlite3.Error, OverflowError, ValueError, UnicodeError):
                _change_table(database, table, chance)
        database.commit()
        return sealed(database.serialize())


def _change_table(database: sqlite3.Connection, table: str, chance: random.Random) -> None:
    columns = [row[1].decode() for row in database.execute(f"PRAGMA table_info({table})")]
    rows = [row[0] for row in database.execute(f"SELECT rowid FROM {table} LIMIT 5000")]
    if not rows:
        return
    row, column = chance.choice(rows), f'"{chance.choice(columns)}"'
    (old,) = database.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (row,)).fetchone()
    if isinstance(old, bytes) and old[:1] in (b"{", b"["):
        database.execute(
            f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE rowid = ?", (changed_json(old, chance), row)
        )
        return
    match chance.randrange(9):
        case 0:
            database.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
        case 1:
            database.execute(f"DELETE FROM {table}")
        case 2:
            database.execute(f"INSERT INTO {table} SELECT * FROM {table} LIMIT ?", (chance.choice([1, 1000]),))
        case 3:
            (other,) = database.execute(
                f"SELECT {column} FROM {table} WHERE rowid = ?", (chance.choice(rows),)
            ).fetchone()
            database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (other, row))
        case 4 if isinstance(old, bytes):
            database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (mutated(old, chance), row))
        case 5:
            database.execute(f"UPDATE {table} SET {column} = ?", (_cell(old, chance),))
        case _:
            database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (_cell(old, chance), row))


def _cell(old: Any, chance: random.Random) -> Any:
    made = value_for(old.decode("utf-8", "replace") if isinstance(old, bytes) else old, chance)
    if isinstance(made, str):
        made = (
            made.encode("utf-8", "surrogateescape")
            if "\ud800" not in made and "\udfff" not in made
            else b"\xed\xa0\x80"
        )
        return made if chance.random() < 0.3 else made.decode("utf-8", "replace")
    return made if isinstance(made, int | float) or made is None else 7


# ---- kinds of files -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        name: of the case's file, where it matters; a folder if `spread`.
        samples: well-formed ones.
        change: makes a hostile one.
        commands: that read it; "{}" stands for its name.
        place: puts the content where the command finds it; None: a file of that name.
    """

    name: str
    samples: Callable[[], Sequence[bytes]]
    change: Callable[[bytes, random.Random], bytes]
    commands: Sequence[Sequence[str]]
    place: Callable[[bytes, random.Random], None] | None = None
    environment: dict[str, str] = field(default_factory=dict)


def _written(write: Callable[[Path], object], suffix: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        write(path)
        return path.read_bytes()


TRACED = r"""
#include <stdio.h>
#define N 400
static double a[N][8], x[N], y[N]; static int c[N][8];
__attribute__((noinline)) static void product(void) {
    for (int i = 0; i < N; i++) { double s = 0; for (int j = 0; j < 8; j++) s += a[i][j] * x[c[i][j]]; y[i] = s; }
}
__attribute__((noinline)) static double dot(void) {
    double s = 0;
    #pragma omp parallel for reduction(+ : s)
    for (int i = 0; i < N; i++) s += x[i] * y[i];
    return s;
}
int main(void) {
    for (int i = 0; i < N; i++) {
        x[i] = i; for (int j = 0; j < 8; j++) { a[i][j] = i + j; c[i][j] = (7 * i + 131 * j) % N; } }
    double t = 0;
    for (int k = 0; k < 5; k++) { product(); t += dot(); }
    printf("%g\n", t);
}"""
TRACED_PYTHON = """import numpy as np
a, i, s = np.arange(100.0), np.arange(99, -1, -1), 0
for k in range(5):
    s += a[i].sum()
def f(n): return 1 if n < 2 else f(n - 1) + f(n - 2)
print(s, f(5), sum(x * x for x in range(20)))
"""


@cache
def program() -> Path | None:
    """A program with threads and line numbers; None: it cannot be made here."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    (folder / "traced.c").write_text(TRACED)
    made = folder / "traced"
    built = subprocess.run(
        ["gcc", "-O1", "-g", "-fopenmp", "-o", made, folder / "traced.c"], capture_output=True, check=False
    )
    return made if built.returncode == 0 and shutil.which("qemu-x86_64") else None


@cache
def signatures() -> tuple[bytes, ...]:
    """Made by hand, and traced ones where that can be done."""
    by_hand = [
        nest(outer=4, inner=1 << 10)[0].signature(),
        signature_with(odd_events()),
        signature_with(solver_events()),
    ]
    found = [_written(lambda path, one=one: write_signature(one, path), ".sig") for one in by_hand]  # type: ignore[misc]
    traced = program()
    if traced is None:
        return tuple(found)
    script = traced.parent / "traced.py"
    script.write_text(TRACED_PYTHON)
    for words in (("--dependences", "--", str(traced)), (str(script),)):
        path = traced.parent / "x.sig"
        command = [sys.executable, "-P", "-m", "foretrace", "trace", "--force", "-o", str(path), *words]
        environment = os.environ | {"OMP_NUM_THREADS": "2"}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        found.append(path.read_bytes())
    return tuple(found)


def profiles() -> tuple[bytes, ...]:
    """Profiles of hosts and accelerators that come with foretrace."""
    folder = Path(library.__file__).parent / "machines"
    return tuple(path.read_bytes() for path in sorted(folder.glob("*.toml"))[::4])


def patterns() -> tuple[bytes, ...]:
    """The built-in ones under other names."""
    from importlib import resources

    text = resources.files("foretrace.tracer.source.idioms").joinpath("builtin.toml").read_bytes()
    return (
        re.sub(rb"(?m)^\[", b"[my-", text),
        b'[mine]\nsummary = "s"\npatterns = ["A[i] = B[I[i]] + _"]\nwhere = "same(A, B)"\n',
    )


def sources(*endings: str) -> Callable[[], tuple[bytes, ...]]:
    """Programs of the benchmarks, in a language."""
    return lambda: tuple(p.read_bytes() for p in sorted(PROGRAMS.rglob("*")) if p.suffix in endings)[:12]


@cache
def boards() -> tuple[bytes, ...]:
    """The board of a killed process, cut to the bytes it used."""
    with tempfile.TemporaryDirectory() as folder:
        code = (
            "import os, signal\n"
            "from foretrace import events\n"
            "l = events.Library('lib')\n"
            "l.counter('counts').increment(3)\n"
            "r = l.recorder('values')\n"
            "[r.record(float(k)) for k in range(200)]\n"
            "os.kill(os.getpid(), signal.SIGKILL)"
        )
        subprocess.run(
            [sys.executable, "-P", "-c", code],
            env=os.environ | {"FORETRACE_EVENTS_DIRECTORY": folder},
            check=False,
            capture_output=True,
        )
        found = []
        for path in Path(folder).iterdir():
            with path.open("rb") as file:
                head = file.read(64)
                file.seek(0)
                found.append(file.read(int.from_bytes(head[24:32], "little")))
        return tuple(found)


def place_board(data: bytes, chance: random.Random) -> None:
    """Mark a board as that of an ended process."""
    process = int.from_bytes(data[12:16], "little") if chance.random() < 0.95 else 1
    path = Path(f"foretrace-events-{os.geteuid()}-{process}")
    path.write_bytes(data)
    os.truncate(path, chance.choice([len(data), len(data), 1 << 20, 16 << 30]))
    path.chmod(0o600)


def threads_of() -> tuple[bytes, ...]:
    """The stream of one of several threads."""
    return (drmemtrace(ACCESSES),)


def place_threads(data: bytes, chance: random.Random) -> None:
    """One damaged file among those of other threads, or several."""
    folder = Path("threads")
    folder.mkdir()
    for number in range(chance.choice([1, 2, 5, 60])):
        content = data if number == 0 or chance.random() < 0.3 else drmemtrace(ACCESSES)
        (folder / chance.choice([f"drmemtrace.{number}.trace", f"t{number}.gz", f"{number}"])).write_bytes(content)


def place_executable(data: bytes, chance: random.Random) -> None:
    """A program whose code is as it was: what is damaged says what the code is called and where it comes from."""
    Path("program").write_bytes(data)
    Path("program").chmod(0o755)


def executables() -> tuple[bytes, ...]:
    """The program, if it can be made here."""
    made = program()
    return () if made is None else (made.read_bytes(),)


def changed_debug_information(data: bytes, chance: random.Random) -> bytes:
    """An ELF file with mistakes in what is not loaded: section headers, symbols, debug information."""
    from elftools.elf.elffile import ELFFile

    with open(program() or "", "rb") as file:  # noqa: PTH123
        parts = [
            (section["sh_offset"], section["sh_size"])
            for section in ELFFile(file).iter_sections()
            if not section["sh_flags"] & 2 and section["sh_size"] and section["sh_type"] != "SHT_NULL"
        ]
    result = bytearray(data)
    parts.append((int.from_bytes(data[40:48], "little"), 64 * int.from_bytes(data[60:62], "little")))
    for _ in range(chance.choice([1, 3, 10, 50])):
        offset, size = chance.choice(parts)
        at = offset + chance.randrange(size)
        if chance.random() < 0.5:
            result[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        else:
            length = min(chance.choice([2, 4, 8]), offset + size - at)
            result[at : at + length] = chance.choice([b"\xff" * 8, b"\0" * 8, b"\x7f" * 8, chance.randbytes(8)])[
                :length
            ]
    return bytes(result)


def place_database(data: bytes, chance: random.Random) -> None:
    """A compilation database above a source."""
    Path("compile_commands.json").write_bytes(data)
    Path("code.c").write_text(TRACED)


DATABASE = json.dumps([{"directory": ".", "file": "code.c", "command": "cc -I. -DN=3 -std=c11 -c code.c"},
                       {"directory": "/", "file": "x.c", "arguments": ["cc", "-isystem", "/usr", "x.c"]}])  # fmt: skip


def place_header(data: bytes, chance: random.Random) -> None:
    """A source that includes it."""
    Path("self.h").write_bytes(data)
    Path("code.c").write_text(
        '#include "self.h"\nint f(int *a) { int s = 0; for (int i = 0; i < 9; i++) s += a[i]; return s; }\n'
    )


def traced_signature() -> bytes:
    """One that can be predicted on any machine, if there is one."""
    return signatures()[min(3, len(signatures()) - 1)]


def timing() -> bytes:
    """A timing of the signature's program."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(traced_signature())
        command = read_signature(file.name).provenance.command
    return _written(lambda path: write_timing(replace(TIMING, command=command), path), ".json")


def place_timing(data: bytes, chance: random.Random) -> None:
    """A timing, and the signature that it is compared with."""
    Path("x.timing").write_bytes(data)
    Path("x.sig").write_bytes(traced_signature())


def place_profile(data: bytes, chance: random.Random) -> None:
    """A profile, and a signature to predict."""
    Path("m.toml").write_bytes(data)
    Path("x.sig").write_bytes(traced_signature())


def changed_timing(data: bytes, chance: random.Random) -> bytes:
    """A timing with the checksum of its content."""
    from foretrace.tracer.native import timing_file

    made = changed_json(data, chance)
    with suppress(Exception):
        content = json_text.decode(made, dict[str, Any])
        content.pop("crc32", None)
        rest = {key: value for key, value in content.items() if key != "schema"}
        return as_json({"schema": content["schema"], "crc32": timing_file._checksum(rest)} | rest)
    return made


IDIOMS = (("idioms", "--no-cache", "--json", "."), ("idioms", "--no-cache", "--loops", "."))
SIMULATE = (("simulate", "{}", "--json"), ("simulate", "{}", "--convert", "y.fts"))


def source_kind(name: str, *endings: str) -> Kind:
    """Files of a language."""
    return Kind(name, sources(*endings), changed_source, (*IDIOMS, ("idioms", "--no-cache", "--sarif", "{}")))


INSTRUCTIONS = [Instruction(0x400 + i, (64 * i, 8), (4096 + i,)) for i in range(12)]
KINDS = {
    "signature": Kind("x.sig", signatures, changed_signature, (
        ("info", "{}"), ("info", "{}", "--json"), ("info", "{}", "--tree"), ("info", "{}", "--tree", "--json"),
        ("info", "{}", "--data-flow"), ("info", "{}", "--dependences"), ("info", "{}", "--flame", "f.svg"),
        ("info", "{}", "--tree", "--by", "time", "--machine", HOST), ("predict", "{}", "--machine", HOST),
        ("predict", "{}", "--machine", HOST, "--threads", "1,4", "--json"), ("predict", "{}", "--all", "--json"),
        ("predict", "{}", "--machine", HOST, "--by", "line"), ("replay", "{}", "--machine", HOST, "--json"),
        ("replay", "{}", "--machine", HOST, "--copies", "3", "-o", "t.json.gz"),
        ("replay", "{}", "--machine", HOST, "--accelerator", DEVICE, "--policy", "greedy"),
        ("triage", "{}", "--host", HOST, "--accelerator", DEVICE),
        ("triage", "{}", "--host", HOST, "--accelerator", DEVICE, "--json", "--assumptions"),
        ("curve", "{}", "-o", "c.svg"), ("events", "{}"), ("events", "{}", "--json"), ("events", "{}", "--values", "*"),
        ("events", "{}", "--samples", "--csv"), ("events", "{}", "--distributions"), ("events", "{}", "-o", "e.svg"),
    )),
    "profile": Kind("m.toml", profiles, changed_toml, (
        ("machines", "show", "{}"), ("machines", "check", "{}"), ("machines", "show", "{}", "--json"),
        ("machines", "compare", "{}", HOST), ("predict", "x.sig", "--machine", "{}"),
        ("triage", "x.sig", "--host", HOST, "--accelerator", "{}"), ("replay", "x.sig", "--machine", "{}"),
    ), place_profile),
    "patterns": Kind("p.toml", patterns, changed_toml, (
        ("idioms", "--no-cache", "--patterns", "{}", str(PROGRAMS / "cg.c")), ("idioms", "--patterns", "{}", "--list"),
    )),
    "timing": Kind("x.timing", lambda: (timing(),), changed_timing, (
        ("predict", "x.sig", "--machine", HOST, "--timing", "{}"),
        ("predict", "x.sig", "--machine", HOST, "--timing", "{}", "--anchor", "epyc-9654", "--json"),
    ), place_timing),
    "C": source_kind("code.c", ".c"),
    "C++": source_kind("code.cpp", ".cpp", ".cc"),
    "Fortran": source_kind("code.f90", ".f90", ".f"),
    "fixed Fortran": source_kind("code.f", ".f90", ".f"),
    "Python": source_kind("code.py", ".py"),
    "header": Kind("self.h", sources(".c", ".h"), changed_source, IDIOMS, place_header),
    "compilation database": Kind(
        "compile_commands.json", lambda: (DATABASE.encode(),), changed_json, IDIOMS, place_database
    ),
    "stored stream": Kind("x.fts", lambda: (stored_file(),), mutated, SIMULATE),
    "lackey": Kind("x.txt", lambda: (lackey(ACCESSES),), mutated, SIMULATE),
    "din": Kind("x.din", lambda: (din(ACCESSES),), mutated, SIMULATE),
    "drmemtrace": Kind("x.trace", lambda: (drmemtrace(ACCESSES),), mutated, SIMULATE),
    "champsim": Kind("x.champsim", lambda: (champsim(INSTRUCTIONS),), mutated, SIMULATE),
    "thread files": Kind("threads", threads_of, mutated, (("simulate", "{}", "--json"),), place_threads),
    "event board": Kind("board", boards, mutated, (
        ("events",), ("events", "--json"), ("events", "{board}"), ("events", "{board}", "--json"),
        ("events", "{board}", "--values", "*"), ("events", "{board}", "--distributions"), ("events", "--clean"),
    ), place_board, {"FORETRACE_EVENTS_DIRECTORY": "."}),
    "validation": Kind("v.json", lambda: tuple(p.read_bytes() for p in MEASURED.glob("*.json")), changed_json, (
        ("validate", "--directory", ".", "--compare", "{}", "--compare", "epyc-turin-vm"),
    )),
    "debug information": Kind("program", executables, changed_debug_information, (
        ("trace", "-o", "x.sig", "--", "./{}"),
    ), place_executable),
}  # fmt: skip


# ---- running --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """The end of a case: `fault` says what is wrong, "" if nothing is."""

    command: tuple[str, ...]
    fault: str
    code: int
    cpu_s: float
    memory_bytes: int
    output: str


def run(command: Sequence[str], folder: Path, environment: dict[str, str]) -> Result:
    """Run a command in a folder, in a process of its own under the limits."""
    sys.stdout.flush()
    bounded = command[0] not in ("validate",)
    limits = ("--max-memory", str(MAX_MEMORY_GIB), "--max-time", str(MAX_TIME_S)) if bounded else ()
    pid = os.fork()
    if pid == 0:
        _become(("foretrace", *limits, *command), folder, environment)
    until = time.monotonic() + WALL_S
    pause_s = 0.001
    killed = False
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > until and not killed:
            killed = True
            os.killpg(pid, signal.SIGKILL)
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.05)
    code = os.waitstatus_to_exitcode(status)
    output = (folder / ".output").read_text(errors="replace")
    return Result(tuple(command), fault_of(code, output, killed), code, usage.ru_utime + usage.ru_stime,
                  usage.ru_maxrss << 10, output)  # fmt: skip


def _become(words: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
    """The command, in this forked process."""
    os.setpgid(0, 0)
    os.chdir(folder)
    os.environ.update(environment)
    handle = os.open(".output", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    sys.argv = list(words)
    sys.set_int_max_str_digits(sys.int_info.default_max_str_digits)
    try:
        cli.main()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    os._exit(99)


def fault_of(code: int, output: str, killed: bool) -> str:
    """The fault of an end; "" if there is none."""
    if killed:
        return f"no end within {WALL_S} s"
    if "Traceback (most recent call last)" in output or code == 99:
        lines = output.strip().splitlines()
        return f"traceback: {lines[-1][:150] if lines else ''}"
    if "please report this" in output:
        return f"fault: {output[output.index('please report this') :][:150]}"
    if code < 0:
        return f"killed by signal {-code}"
    if code == 85:
        return "limit"
    if code not in OWN_CODES:
        return f"exit code {code}"
    if code >= 70 and "foretrace: error: " not in output:
        return "an error without its line"
    return ""


def cases(
    names: Sequence[str], number: int, seed: int, keep: Path | None, most_s: float = float("inf")
) -> Iterator[tuple[str, int, Result]]:
    """Run `number` cases of each kind, each from its own seed; none begins later than `most_s` after the first."""
    for verb in cli.VERBS:
        importlib.import_module(f"foretrace.commands.{verb}")
    for name in names:
        kind = KINDS[name]
        samples = kind.samples()
        until = time.monotonic() + most_s
        if not samples:
            raise SystemExit(f"{name}: there is no sample to change")
        for index in range(number):
            if time.monotonic() > until:
                break
            yield name, index, one_case(name, kind, samples, f"{seed} {name} {index}", keep)


def one_case(name: str, kind: Kind, samples: Sequence[bytes], seed: str, keep: Path | None) -> Result:
    """Make a hostile file, and run one of the commands that read it."""
    chance = random.Random(seed)
    data = kind.change(chance.choice(samples), chance)
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        os.chdir(folder)
        (kind.place or (lambda data, chance: Path(kind.name).write_bytes(data)))(data, chance)
        command = [word.replace("{}", kind.name) for word in chance.choice(kind.commands)]
        if "{board}" in command:
            board = next((p.name.rpartition("-")[2] for p in Path().iterdir() if p.name.startswith("foretrace-")), "1")
            command = [word.replace("{board}", board) for word in command]
        result = run(command, Path(folder), kind.environment)
        os.chdir("/")
        if result.fault and keep is not None:
            target = keep / re.sub(r"\W+", "-", seed)
            shutil.rmtree(target, ignore_errors=True)
            with suppress(OSError, shutil.Error):
                if name != "event board":
                    shutil.copytree(folder, target)
                    (target / ".command").write_text(" ".join(command))
    return result


def main() -> int:
    """Run the cases, and say how they ended."""
    parser = argparse.ArgumentParser(prog="make hostile", description="Run the verbs on hostile files of each kind.")
    parser.add_argument("--cases", type=int, default=200, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS), help="names, separated by commas")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for each kind; no case begins later")
    parser.add_argument("--keep", type=Path, help="folder for the files of cases that went wrong")
    options = parser.parse_args()
    names = options.kinds.split(",")
    if options.keep is not None:
        options.keep = options.keep.resolve()
        options.keep.mkdir(parents=True, exist_ok=True)
    faults = 0
    codes: dict[str, Counter[int]] = {}
    most: dict[str, tuple[float, int]] = {}
    for name, index, result in cases(names, options.cases, options.seed, options.keep, options.seconds):
        codes.setdefault(name, Counter())[result.code] += 1
        cpu_s, memory = most.get(name, (0.0, 0))
        most[name] = max(cpu_s, result.cpu_s), max(memory, result.memory_bytes)
        if result.fault:
            faults += 1
            print(f"{name} {index}: {' '.join(result.command)}: {result.fault}", flush=True)
        elif result.cpu_s > SLOW_S:
            print(f"{name} {index}: {' '.join(result.command)}: {result.cpu_s:.1f} s", flush=True)
    for name, count in codes.items():
        ends = ", ".join(f"{number} x {code}" for code, number in sorted(count.items()))
        took = f"at most {most[name][0]:.1f} s and {most[name][1] >> 20} MiB"
        print(f"{name}: {count.total()} cases, {took}; exit codes {ends}", flush=True)
    print(f"seed {options.seed}: {faults} of {sum(count.total() for count in codes.values())} cases went wrong")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
