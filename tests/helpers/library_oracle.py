"""What array operations touch, seen three times: by the agent's templates, and in the libraries' machine code, twice.

The same program runs under the Python agent and, as a compiled program, under QEMU and under Valgrind, whose decoders
have nothing in common. Its arrays lie in an arena at a fixed address, so that accesses to them can be told from all
others; a store to a marker begins each operation.

Valgrind's own lackey writes a line of text for each instruction, some 600 million for the imports before the first
operation: about an hour. `valgrind_accesses.c` is a tool that writes accesses to the arena only, and takes seconds. It
is built here, of the static libraries that Debian's valgrind package brings for such tools.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from foretrace.tracer.python.program import PythonEngine
from foretrace.tracer.qemu.binary import QemuEngine
from foretrace.tracer.session.options import TraceOptions
from foretrace.tracer.session.session import Engine, Session

ARENA, ARENA_BYTES = 0x100_0000_0000, 64 << 20
MARKER_BYTES = 4096
LINE_BYTES = 64

PRELUDE = f"""\
import ctypes, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
assert libc.mmap({ARENA}, {ARENA_BYTES}, 3, 0x32, -1, 0) == {ARENA}
import numpy as np
arena = np.frombuffer((ctypes.c_char * {ARENA_BYTES}).from_address({ARENA}), np.uint8)
marker = arena[:{MARKER_BYTES}].view(np.float64)
taken = {MARKER_BYTES}
names = open(sys.argv[1], "w")
def put(name, values):
    global taken
    values = np.asarray(values)
    where = arena[taken : taken + values.nbytes].view(values.dtype).reshape(values.shape)
    where[...] = values
    names.write(f"{{name}} {{taken + {ARENA}}} {{values.nbytes}}\\n")
    taken += -(-values.nbytes // 4096) * 4096 + 4096
    return where
"""

_ACCESS = np.dtype([("address", "<u8"), ("op", "<u4"), ("size", "<u2"), ("flags", "<u2")])


_FEED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class _Sink(ctypes.Structure):
    _fields_ = [("simulator", ctypes.c_void_p), ("feed", _FEED), ("later_members", ctypes.c_uint64 * 9)]


def _view(address: int, dtype: np.dtype[np.void] | type, count: int) -> np.ndarray:
    size = np.dtype(dtype).itemsize * count
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype)


class _Recorder:
    """A sink that keeps the accesses to the arena."""

    def __init__(self) -> None:
        self.kept: list[np.ndarray] = []
        self._sink = _Sink(None, _FEED(self._feed))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self._name = b"foretrace.cache_sim.sink"
        self.capsule = new(ctypes.addressof(self._sink), self._name, None)

    def _keep(self, accesses: np.ndarray) -> int:
        inside = accesses["address"] - np.uint64(ARENA) < ARENA_BYTES
        if inside.any():
            self.kept.append(accesses[inside])
        return 0

    def _feed(self, _simulator: int, batch: int, length: int) -> int:
        return self._keep(_view(batch, _ACCESS, length))


@dataclass(frozen=True)
class Touched:
    """What one operation did to one array: loads and stores in order, as (address from the array's start, bytes)."""

    loads: list[tuple[int, int]]
    stores: list[tuple[int, int]]

    @staticmethod
    def bytes_of(accesses: Sequence[tuple[int, int]]) -> set[int]:
        """Each byte touched."""
        return {byte for address, size in accesses for byte in range(address, address + size)}

    @staticmethod
    def lines_of(accesses: Sequence[tuple[int, int]]) -> set[int]:
        """Each cache line touched."""
        return {line for a, size in accesses for line in range(a // LINE_BYTES, (a + size - 1) // LINE_BYTES + 1)}


def _run(engine: Engine) -> np.ndarray:
    recorder = _Recorder()
    no_tree = TraceOptions(has_tree=False)
    recording = Session(engine, no_tree, tee=lambda _: recorder.capsule).run()
    assert recording.problem == ""
    assert recording.ending.exit_code == 0
    return np.concatenate(recorder.kept)


_TOOL_SOURCE = Path(__file__).with_name("valgrind_accesses.c")
_PARTS, _LIBRARIES = Path("/usr/libexec/valgrind"), Path("/usr/lib/x86_64-linux-gnu/valgrind")
# As in the Makefile of Valgrind's own tools; 0x58000000 is where its launcher expects them.
_COMPILE = (
    *("-m64", "-O2", "-std=gnu11", "-Wall", "-fno-stack-protector", "-fno-strict-aliasing", "-fno-builtin", "-fno-pie"),
    *("-DVGA_amd64=1", "-DVGO_linux=1", "-DVGP_amd64_linux=1", "-DVGPV_amd64_linux_vanilla=1"),
    "-I/usr/include/valgrind",
)
_LINK = ("-m64", "-static", "-no-pie", "-nodefaultlibs", "-nostartfiles", "-u", "_start")


def valgrind_lacks() -> str:
    """What keeps the tool from being built here; empty if nothing does."""
    needed = (_PARTS, _LIBRARIES / "libcoregrind-amd64-linux.a", Path("/usr/include/valgrind/pub_tool_basics.h"))
    missing = [path for path in needed if not path.exists()]
    return f"valgrind is not installed whole: no {missing[0]}" if missing else ""


def _build_tool(directory: Path) -> Path:
    """A folder like valgrind's own, with our tool in it."""
    parts = directory / "valgrind"
    parts.mkdir()
    for part in _PARTS.iterdir():
        (parts / part.name).symlink_to(part)
    compiler, compiled = shutil.which("gcc") or "gcc", directory / "accesses.o"
    libraries = [_LIBRARIES / f"lib{name}-amd64-linux.a" for name in ("coregrind", "vex", "gcc-sup")]
    subprocess.run([compiler, *_COMPILE, "-c", _TOOL_SOURCE, "-o", compiled], check=True)
    at = "-Wl,-Ttext-segment=0x58000000,--build-id=none"
    tool = parts / "accesses-amd64-linux"
    subprocess.run([compiler, *_LINK, at, "-o", tool, compiled, *libraries[:2], "-lgcc", libraries[2]], check=True)
    return parts


def _valgrind(directory: Path, command: Sequence[str]) -> np.ndarray:
    """The accesses to the arena, as Valgrind sees them."""
    output = directory / "accesses"
    options = [f"--output={output}", f"--first={ARENA:#x}", f"--bytes={ARENA_BYTES:#x}", "--smc-check=none"]
    subprocess.run(
        ["valgrind", "--tool=accesses", "-q", *options, *command],
        env=os.environ | {"VALGRIND_LIB": str(_build_tool(directory))}, check=True,
    )  # fmt: skip
    return np.fromfile(output, _ACCESS)


def _by_operation(accesses: np.ndarray, arrays: dict[str, tuple[int, int]], count: int) -> list[dict[str, Touched]]:
    markers = np.flatnonzero((accesses["address"] < ARENA + MARKER_BYTES) & (accesses["flags"] == 1))
    assert accesses["address"][markers].tolist() == [ARENA + 8 * k for k in range(count + 1)]
    found = []
    for begin, end in itertools.pairwise(markers):
        part = accesses[begin + 1 : end]
        touched = {}
        for name, (first, size) in arrays.items():
            own = part[(part["address"] >= first) & (part["address"] < first + size)]
            both = [[(int(a) - first, int(s)) for a, s in own[own["flags"] == store][["address", "size"]].tolist()]
                    for store in (0, 1)]  # fmt: skip
            if both[0] or both[1]:
                touched[name] = Touched(*both)
        found.append(touched)
    return found


def compare(
    directory: Path, set_up: str, statements: Sequence[str], oracle: str
) -> list[tuple[dict[str, Touched], dict[str, Touched]]]:
    """For each statement, what it did to each array: as the agent says, and as the `oracle` (qemu, valgrind) saw."""
    marked = "".join(f"marker[{k}] = 1.0\n{text}\n" for k, text in enumerate(statements))
    script, names = directory / "operations.py", directory / "names"
    script.write_text(f"{PRELUDE}{set_up}\n{marked}marker[{len(statements)}] = 1.0\n")
    agent = _run(PythonEngine(str(script), [str(names)]))
    arrays = {n: (int(first), int(size)) for n, first, size in map(str.split, names.read_text().splitlines())}
    command = [sys.executable, str(script), str(names)]
    machine = _run(QemuEngine(command)) if oracle == "qemu" else _valgrind(directory, command)
    said = _by_operation(agent, arrays, len(statements))
    did = _by_operation(machine, arrays, len(statements))
    return list(zip(said, did, strict=True))
