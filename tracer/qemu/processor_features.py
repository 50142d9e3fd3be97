"""Processor features by which programs choose code: extensions of the instruction set.

A tiny program queries them: run by the engine for the emulated processor, run natively for this machine.
"""

from __future__ import annotations

import functools
import os
import platform
import struct
import subprocess

_LEAVES = ((1, 0), (7, 0), (7, 1), (0x80000001, 0))
_EAX, _EBX, _ECX, _EDX = range(4)
_BITS = {
    (0, _ECX): {0: "sse3", 1: "pclmulqdq", 9: "ssse3", 12: "fma", 19: "sse4_1", 20: "sse4_2", 22: "movbe", 23: "popcnt",
                25: "aes", 28: "avx", 29: "f16c"},
    (1, _EBX): {3: "bmi1", 5: "avx2", 8: "bmi2", 9: "erms", 16: "avx512f", 17: "avx512dq", 19: "adx", 21: "avx512ifma",
                28: "avx512cd", 29: "sha_ni", 30: "avx512bw", 31: "avx512vl"},
    (1, _ECX): {1: "avx512vbmi", 6: "avx512_vbmi2", 8: "gfni", 9: "vaes", 10: "vpclmulqdq", 11: "avx512_vnni",
                12: "avx512_bitalg", 14: "avx512_vpopcntdq", 27: "movdiri", 28: "movdir64b"},
    (1, _EDX): {4: "fsrm", 8: "avx512_vp2intersect", 22: "amx_bf16", 23: "avx512_fp16", 24: "amx_tile", 25: "amx_int8"},
    (2, _EAX): {4: "avx_vnni", 5: "avx512_bf16", 21: "amx_fp16"},
    (3, _ECX): {5: "abm", 6: "sse4a", 11: "xop", 16: "fma4", 21: "tbm"},
}  # fmt: skip
"""Names as in Linux's /proc/cpuinfo, by position in `_LEAVES`, register and bit (Intel SDM, volume 2, CPUID; AMD64
Architecture Programmer's Manual, volume 3, appendix E)."""
_LEAF_BYTES = 16
_BASE = 0x400000

AARCH64 = frozenset({"aes", "sha2", "crc32", "lse", "fp16", "dotprod", "sha3", "i8mm", "bf16"})
"""Features of QEMU's processor `max` for AArch64 without SVE and SME (target/arm/cpu64.c, aarch64_max_initfn), named as
by GCC (AArch64 options, -march)."""


def _asking_program() -> bytes:
    """An ELF program for x86-64 that writes CPUID's answers for `_LEAVES` to its standard output."""
    code = b"\x48\x81\xec\x80\x00\x00\x00"  # sub rsp, 128
    for at, (leaf, subleaf) in enumerate(_LEAVES):
        code += b"\xb8" + struct.pack("<I", leaf) + b"\xb9" + struct.pack("<I", subleaf) + b"\x0f\xa2"
        for register, moves in enumerate((b"\x89\x44\x24", b"\x89\x5c\x24", b"\x89\x4c\x24", b"\x89\x54\x24")):
            code += moves + bytes([_LEAF_BYTES * at + 4 * register])  # mov [rsp + ...], register
    code += b"\xb8\x01\x00\x00\x00\xbf\x01\x00\x00\x00\x48\x89\xe6"  # write(1, rsp,
    code += b"\xba" + struct.pack("<I", _LEAF_BYTES * len(_LEAVES)) + b"\x0f\x05"  # bytes)
    code += b"\xb8\x3c\x00\x00\x00\x31\xff\x0f\x05"  # exit(0)
    start = 64 + 56
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, _BASE + start, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    size = start + len(code)
    return header + struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 4096) + code


def _named(answer: bytes) -> frozenset[str]:
    if len(answer) != _LEAF_BYTES * len(_LEAVES):
        return frozenset()
    words = struct.unpack(f"<{4 * len(_LEAVES)}I", answer)
    return frozenset(
        name
        for (leaf, register), bits in _BITS.items()
        for bit, name in bits.items()
        if words[4 * leaf + register] >> bit & 1
    )


@functools.cache
def asked(*engine: str) -> frozenset[str]:
    """Features of the processor that an engine's command emulates; of this machine's without one. Empty: unknown."""
    if not engine and platform.machine() != "x86_64":
        return frozenset()
    descriptor = os.memfd_create("foretrace-cpuid", 0)
    try:
        os.write(descriptor, _asking_program())
        path = f"/proc/self/fd/{descriptor}"
        run = subprocess.run([*engine, path], capture_output=True, timeout=20, pass_fds=[descriptor], check=False)
        return _named(run.stdout)
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    finally:
        os.close(descriptor)
