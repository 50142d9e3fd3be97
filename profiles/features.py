"""Extensions of the instruction set that a machine's cores have, as far as programs choose their code by them.

By microarchitecture, after LLVM's definitions of processors (19.1.7, llvm/lib/Target/X86/X86.td and
llvm/lib/Target/AArch64/AArch64Processors.td: core2, penryn, amdfam10, sandybridge, icelake-server, sapphirerapids,
graniterapids, znver3 to znver5; cortex-a76, neoverse-v1, neoverse-v2, a64fx, apple-m1), in the names of Linux's
/proc/cpuinfo on x86-64, and of GCC on AArch64. `erms` and `fsrm` are of X86.td alone, and of /proc/cpuinfo on a Zen 3.

What differs from LLVM, as makers may leave an extension out of a core:

- Sandy Bridge has AES: that of the Xeon E5-2420 does (Intel ARK, Intel AES New Instructions).
- The Neoverse V2 has cryptography: Grace and Graviton4 do (flags of part 0xd4f in /proc/cpuinfo).
- The A64FX has SHA-2, but not AES (/proc/cpuinfo of one in llvm/unittests/TargetParser/Host.cpp).

The Cortex-A76 is that of a BCM2712, with its cryptography (Raspberry Pi 5 product brief).
"""

from __future__ import annotations

from .profile import Profile

_CORE2 = frozenset({"sse3", "ssse3"})
_PENRYN = _CORE2 | {"sse4_1"}
_SANDY_BRIDGE = _PENRYN | {"sse4_2", "popcnt", "avx", "aes", "pclmulqdq"}
_AVX2 = _SANDY_BRIDGE | {"movbe", "fma", "avx2", "bmi1", "bmi2", "abm", "f16c", "adx", "erms"}
_AVX512 = frozenset({
    "avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", "avx512ifma", "avx512vbmi", "avx512_vbmi2",
    "avx512_vnni", "avx512_bitalg", "avx512_vpopcntdq", "gfni",
})  # fmt: skip
_VECTOR_CRYPTO = frozenset({"sha_ni", "vaes", "vpclmulqdq", "fsrm"})
_DIRECT_STORES = frozenset({"movdiri", "movdir64b"})
_ICE_LAKE = _AVX2 | _AVX512 | _VECTOR_CRYPTO
_AMX = frozenset({"amx_tile", "amx_int8", "amx_bf16"})
_SAPPHIRE_RAPIDS = _ICE_LAKE | _DIRECT_STORES | _AMX | {"avx_vnni", "avx512_bf16", "avx512_fp16"}
_ZEN3 = _AVX2 | _VECTOR_CRYPTO | {"sse4a"}
_ZEN4 = _ZEN3 | _AVX512 | {"avx512_bf16"}
_ARMV8 = frozenset({"crc32", "lse", "fp16"})
_NEOVERSE = _ARMV8 | {"aes", "sha2", "sha3", "dotprod", "i8mm", "bf16", "sve"}

_OF_MICROARCHITECTURE = {
    "core": _CORE2,
    "k10": frozenset({"sse3", "sse4a", "abm", "popcnt"}),
    "sandy-bridge": _SANDY_BRIDGE,
    "sunny-cove": _ICE_LAKE,
    "golden-cove": _SAPPHIRE_RAPIDS,
    "redwood-cove": _SAPPHIRE_RAPIDS | {"amx_fp16"},
    "zen3": _ZEN3,
    "zen4": _ZEN4,
    "zen5": _ZEN4 | _DIRECT_STORES | {"avx_vnni", "avx512_vp2intersect"},
    "cortex-a76": _ARMV8 | {"aes", "sha2", "dotprod"},
    "firestorm": _ARMV8 | {"aes", "sha2", "sha3", "dotprod"},
    "neoverse-v1": _NEOVERSE,
    "neoverse-v2": _NEOVERSE | {"sve2"},
    "a64fx": _ARMV8 | {"sha2", "sve"},
}
_OF_MACHINE = {"xeon-e5462": _PENRYN}
"""Machines whose cores have more than the first ones of their microarchitecture."""


def features_of(profile: Profile) -> frozenset[str] | None:
    """The extensions that a host's cores have; None: not known."""
    return _OF_MACHINE.get(profile.name) or _OF_MICROARCHITECTURE.get(profile.microarchitecture or "")
