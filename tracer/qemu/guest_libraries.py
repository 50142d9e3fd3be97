"""Paths of the shared libraries of a program for another architecture on this machine.

A dynamically linked program names its dynamic linker by an absolute path. If this system has no such file, QEMU looks
for it, and for all that the program opens, below a prefix: that of the user (QEMU_LD_PREFIX), or the one where Debian's
cross compilers have the libraries, /usr/TRIPLET.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from foretrace.base.errors import ProgramError

# ELF-64 Object File Format, version 1.5, sections 2 and 5.
_PHOFF_AT, _PHENTSIZE_AT = 32, 54
_PROGRAM_HEADER = struct.Struct("<IIQQQQ")  # type, flags, offset, virtual and physical address, size in the file
_PT_LOAD, _PT_INTERP = 1, 3
_MAX_PATH_BYTES = 4096


def dynamic_linker(path: Path) -> str:
    """The dynamic linker that a 64-bit little-endian ELF program asks for; empty if it is linked statically.

    Raises:
        ProgramError: the program's headers are damaged, or name nothing to load.
    """
    try:
        with path.open("rb") as file:
            header = file.read(64)
            (offset,) = struct.unpack_from("<Q", header, _PHOFF_AT)
            entry_bytes, number = struct.unpack_from("<HH", header, _PHENTSIZE_AT)
            file.seek(offset)
            table = file.read(entry_bytes * number)
            loads = False
            for at in range(0, entry_bytes * number, max(entry_bytes, 1)):
                kind, _, begin, _, _, size_bytes = _PROGRAM_HEADER.unpack_from(table, at)
                if kind == _PT_INTERP:
                    file.seek(begin)
                    return os.fsdecode(file.read(min(size_bytes, _MAX_PATH_BYTES)).rstrip(b"\0"))
                loads |= kind == _PT_LOAD
    except (OSError, OverflowError, ValueError, struct.error) as error:
        raise ProgramError(f"{path}: its ELF headers are damaged") from error
    if not loads:
        raise ProgramError(f"{path}: is an ELF file with nothing to load")
    return ""


def library_prefix(path: Path, triplet: str, package: str) -> str:
    """The directory to be given to QEMU as the program's root; empty if the program needs none.

    `triplet` names the program's architecture, `package` is the Debian package with its C library.

    Raises:
        ProgramError: the program's dynamic linker is not to be found.
    """
    linker = dynamic_linker(path)
    if not linker:
        return ""
    chosen = os.environ.get("QEMU_LD_PREFIX", "")
    if chosen:
        if not Path(chosen + "/" + linker).exists() and not Path(linker).exists():
            raise ProgramError(f"{path}: needs {linker}, which QEMU_LD_PREFIX ({chosen}) does not hold")
        return chosen
    if Path(linker).exists():
        return ""
    prefix = f"/usr/{triplet}"
    if Path(prefix + "/" + linker).exists():
        return prefix
    raise ProgramError(
        f"{path}: needs {linker}, which is not on this machine; on Debian or Ubuntu: apt install {package}, or set "
        "QEMU_LD_PREFIX to a directory that holds the libraries of such a system"
    )
