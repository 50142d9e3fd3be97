"""The engine for compiled programs: QEMU user mode with our plugin."""

from __future__ import annotations

import mmap
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from foretrace.base.errors import EngineError, ProgramError
from foretrace.tracer.session.launch import find_program

from . import processor_features
from .guest_libraries import library_prefix

if TYPE_CHECKING:
    from foretrace.tracer.isa.instruction_set import Isa

_VERSION = re.compile(r"version (\d+\.\d+(?:\.\d+)?)")
_VERSION_BYTES = 80  # of what QEMU says of itself: its name and version come first
_ELF_HEADER_BYTES = 20
_TABLE_BYTES_PER_PAGE = 25
"""Memory that QEMU before 8.0 takes for each page of 4 KiB that a program maps or reserves (struct PageDesc in
accel/tcg/translate-all.c); later versions keep ranges instead (accel/tcg/user-exec.c)."""
_TABLE_SHARE = 64
"""Divisor of this machine's memory that gives the largest size of that table."""
_LEAST_MAPPED_BYTES = 16 << 30
_MOST_STACK_BYTES = 16 << 30
"""Largest size of a stack without a limit: its address space is reserved when the program starts."""
_ELFCLASS64, _ELFDATA2LSB = 2, 1
_ET_EXEC, _ET_DYN = 2, 3


@dataclass(frozen=True, slots=True)
class Guest:
    """An architecture whose Linux programs can be traced.

    `cpu` is the processor that QEMU emulates: the fullest whose accesses its plugins see. `triplet` names the
    architecture in Debian's paths. System call numbers: Linux, asm/unistd.h.
    """

    name: str
    title: str
    cpu: str
    triplet: str
    libc_package: str
    mmap_call: int
    mprotect_call: int
    execve_call: int
    environment: str = ""
    """A variable that the program is given, as NAME=VALUE."""

    @property
    def qemu(self) -> str:
        """Name of the emulator."""
        return f"qemu-{self.name}"


GUESTS = {
    # Without the flags that make the C library copy memory by `rep movsb`, which QEMU runs, and would report, byte by
    # byte. Libraries that choose code by model (OpenBLAS) know none of QEMU's own, and take one without AVX: family and
    # model are those of a Zen 2, the AMD processor (QEMU's vendor) whose features are most like the engine's.
    62: Guest("x86_64", "x86-64", "max,erms=off,fsrm=off,family=23,model=49,stepping=0", "x86_64-linux-gnu",
              "libc6-amd64-cross", 9, 10, 59),
    # Plugins see neither what SVE and SME load and store nor what DC ZVA sets to zero: where the former are not there,
    # programs that look for them do without; the C library's memset for a Kunpeng 920 does without the latter (calls
    # from inside a shared C library still use it). Pointer authentication as the architecture has it takes most of
    # QEMU's time where it is used.
    183: Guest("aarch64", "AArch64", "max,sve=off,sme=off,pauth-impdef=on", "aarch64-linux-gnu", "libc6-arm64-cross",
               222, 226, 221, "GLIBC_TUNABLES=glibc.cpu.name=kunpeng920"),
    243: Guest("riscv64", "RISC-V", "rv64,v=on,vext_spec=v1.0", "riscv64-linux-gnu", "libc6-riscv64-cross", 222, 226,
               221),
}  # fmt: skip
"""Guests by ELF machine number (e_machine)."""

_MACHINE_NAMES = {
    3: "32-bit x86", 8: "MIPS", 20: "PowerPC", 21: "64-bit PowerPC", 22: "S/390", 40: "32-bit Arm", 62: "x86-64",
    183: "AArch64", 243: "RISC-V", 258: "LoongArch",
}  # fmt: skip


def guest_of(path: Path) -> Guest:
    """The architecture of a program.

    Raises:
        ProgramError: it is no ELF program, or one of an architecture that cannot be traced yet.
    """
    try:
        with path.open("rb") as file:
            header = file.read(_ELF_HEADER_BYTES)
    except OSError as error:
        raise ProgramError(f"{path}: may be run but not read, which tracing needs: {error.strerror}") from error
    if header[:2] == b"#!":
        raise ProgramError(f"{path}: is a script, not an ELF program; name its interpreter before it")
    if len(header) < _ELF_HEADER_BYTES or header[:4] != b"\x7fELF":
        raise ProgramError(f"{path}: is not an ELF program")
    machine = int.from_bytes(header[18:20], "little" if header[5] == _ELFDATA2LSB else "big")
    guest = GUESTS.get(machine)
    if guest is None or header[4] != _ELFCLASS64 or header[5] != _ELFDATA2LSB:
        what = _MACHINE_NAMES.get(machine, f"ELF machine {machine}")
        known = ", ".join(guest.title for guest in GUESTS.values())
        raise ProgramError(f"{path}: is a program for {what}; this release traces {known}")
    if int.from_bytes(header[16:18], "little") not in (_ET_EXEC, _ET_DYN):
        raise ProgramError(f"{path}: is an ELF file but not a program")
    return guest


def _ask_qemu(qemu: str, option: str) -> str:
    try:
        answer = subprocess.run([qemu, option], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{qemu} does not run: {error}") from error
    return answer.stdout + answer.stderr


def _version_in_file(qemu: str, name: str) -> str | None:
    """Version of the QEMU in a file, if the file names the plugin interface and has the version text; None otherwise.
    Running QEMU to ask would take twice ten milliseconds."""
    try:
        with Path(qemu).open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
            at = content.find(f"{name} version ".encode())
            if at < 0 or content.find(b"qemu_plugin_register_vcpu_tb_exec_cb") < 0:
                return None
            said = content[at : at + _VERSION_BYTES].decode("ascii", "replace")
    except (OSError, ValueError):  # it may be run, but not read; or it is empty
        return None
    version = _VERSION.search(said)
    return version[1] if version else None


def _version_of(qemu: str, name: str) -> str:
    """The version of a QEMU that has plugins; a script that starts one is asked.

    Raises:
        EngineError: it has no plugins, or no version.
    """
    found = _version_in_file(qemu, name)
    if found is not None:
        return found
    if "-plugin" not in _ask_qemu(qemu, "-h"):
        raise EngineError(
            f"{qemu} was built without plugins, as Debian 13's and Ubuntu 24.04's are: it traces no compiled program; "
            "build QEMU with --enable-plugins, or take Debian 12's qemu-user, and put it first in PATH"
        )
    version = _VERSION.search(_ask_qemu(qemu, "--version"))
    if version is None:
        raise EngineError(f"{qemu} does not tell its version; install a QEMU that does, such as Debian 12's qemu-user")
    return version[1]


def most_mapped_bytes(version: str, memory_bytes: int) -> int:
    """Address space that a program may map before the engine's own page table of it harms this machine; 0: any."""
    if int(version.partition(".")[0]) >= 8:
        return 0
    return max(memory_bytes // _TABLE_SHARE // _TABLE_BYTES_PER_PAGE * 4096, _LEAST_MAPPED_BYTES)


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _stack_option(memory_bytes: int) -> list[str]:
    """QEMU's option for an unlimited stack, for which it would take 8 MiB; it inherits a finite limit by itself."""
    if "QEMU_STACK_SIZE" in os.environ or resource.getrlimit(resource.RLIMIT_STACK)[0] != resource.RLIM_INFINITY:
        return []
    return ["-s", str(min(memory_bytes, _MOST_STACK_BYTES))]


def _with_own_value(variable: str) -> str:
    """A list of settings NAME=A=B, followed by those that the environment has under this name: the last one wins."""
    name, _, value = variable.partition("=")
    own = os.environ.get(name, "")
    return f"{name}={value}:{own}" if own else variable


class QemuEngine:
    """Runs one program under QEMU user mode. Satisfies `session.Engine`.

    Raises:
        ProgramError: the program cannot be traced.
        EngineError: there is no QEMU, or one without plugins.
    """

    makes_bursts = True

    def __init__(
        self, program: Sequence[str], environment: Mapping[str, str] | None = None, preloads: Sequence[str] = ()
    ) -> None:
        """Take the program's name and its arguments; see `CompiledProgram` for the rest."""
        self._environment = dict(environment or {})
        self.path = find_program(program[0])
        self._program = list(program)
        guest = guest_of(self.path)
        self._follows = next((guest.execve_call, machine) for machine, known in GUESTS.items() if known is guest)
        self.guest, self.mmap_call, self.mprotect_call = guest.name, guest.mmap_call, guest.mprotect_call
        qemu = shutil.which(guest.qemu)
        if qemu is None:
            raise EngineError(f"{guest.qemu} is not installed; on Debian or Ubuntu: apt install qemu-user")
        self._qemu = qemu
        version = _version_of(qemu, guest.qemu)
        self.name = f"{guest.qemu} {version}"
        self._most_mapped_bytes = most_mapped_bytes(version, _memory_bytes())
        self._plugin = Path(__file__).with_name("plugin.so")
        prefix = library_prefix(self.path, guest.triplet, guest.libc_package)
        self._options = ["-cpu", guest.cpu, *_stack_option(_memory_bytes())]
        if prefix:
            self._options += ["-L", prefix]
        if guest.environment:
            self._options += ["-E", _with_own_value(guest.environment)]
        if preloads:  # into the program, not into the emulator
            if any("," in path for path in preloads):
                raise EngineError(f"{preloads[0]}: {guest.qemu} preloads no library with a comma in its name")
            self._options += ["-E", f"LD_PRELOAD={':'.join(preloads)}"]

    def command(self, stream_fd: int) -> tuple[str, list[str], dict[str, str]]:
        """See `session.Engine`."""
        plugin = str(self._plugin).replace(",", ",,")
        agent = f"file={plugin},mapped={self._most_mapped_bytes},fd={stream_fd}"
        options = [*self._options, "-plugin", agent, "-0", self._program[0]]
        return (
            self._qemu,
            [self._qemu, *options, str(self.path), *self._program[1:]],
            {**os.environ, **self._environment},
        )

    def features(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Features of the emulated processor, and of this machine's, that programs choose code by; empty: unknown."""
        if self.guest == "aarch64":
            return tuple(sorted(processor_features.AARCH64)), ()
        if self.guest != "x86_64":
            return (), ()
        cpu = self._options[self._options.index("-cpu") + 1]
        engine = processor_features.asked(self._qemu, "-cpu", cpu)
        return tuple(sorted(engine)), tuple(sorted(processor_features.asked()))

    @property
    def follows(self) -> tuple[int, int] | None:
        """See `session.Engine`."""
        return self._follows

    def access_bytes(self, code: bytes, address: int, is_store: bool) -> int:
        """See `session.Engine`."""
        return self._isa.access_bytes(code, address, is_store)

    def access_parts(self, code: bytes) -> int:
        """See `session.Engine`."""
        return self._isa.access_parts(code)

    @cached_property
    def _isa(self) -> Isa:
        from foretrace.tracer.isa import registry as isa

        return isa.load(self.guest)
