"""Classes of registers by instruction set: which file of a core a register's value lies in.

Names are those that the decoders of this package give: the widest form of each register. This module needs no decoder,
so that who reads a signature need not load one.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache


class RegisterClass(Enum):
    """Register file in which a core keeps a register."""

    INTEGER = "integer"
    VECTOR = "vector"  # vectors and floating point; x87 and MMX are renamed onto the same file
    MASK = "mask"  # AVX-512's and SVE's predicates: a small file beside the vectors', written by vector units
    FLAGS = "flags"
    SEGMENT = "segment"  # bases of segments: part of addresses, never renamed


_CLASSES: dict[str, tuple[tuple[re.Pattern[str], RegisterClass], ...]] = {
    # Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, section 3.4, chapters 8 to 10 and 15.
    "x86_64": (
        (re.compile(r"[xyz]?mm\d+|st(\([0-7]\))?"), RegisterClass.VECTOR),
        (re.compile(r"k[0-7]"), RegisterClass.MASK),
        (re.compile(r"[c-gs]s"), RegisterClass.SEGMENT),
    ),
    # Arm Architecture Reference Manual for A-profile, section B1.2.
    "aarch64": (
        (re.compile(r"[vz]\d+"), RegisterClass.VECTOR),
        (re.compile(r"p\d+"), RegisterClass.MASK),
    ),
    # RISC-V ELF psABI, "Floating-point Register Convention" and "Vector Register Convention".
    "riscv64": ((re.compile(r"f[tsa]\d+|v\d+"), RegisterClass.VECTOR),),
}


@cache
def register_class(instruction_set: str, name: str) -> RegisterClass:
    """The class of a register of an instruction set, which is named as by QEMU; integers unless known to be others."""
    if name == "flags":
        return RegisterClass.FLAGS
    for pattern, found in _CLASSES.get(instruction_set, ()):
        if pattern.fullmatch(name):
            return found
    return RegisterClass.INTEGER
