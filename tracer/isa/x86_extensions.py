"""Extensions of x86-64 by mnemonic: which of the features that CPUID reports an instruction needs.

Names as in Linux's /proc/cpuinfo; vector instructions that every x86-64 processor has are "sse2" (Intel SDM, volume 2,
the column CPUID Feature Flag of each instruction; AMD64 Architecture Programmer's Manual, volume 3, appendix D).
`tzcnt` is left out: compilers write it for processors without it, too, which run it as `bsf`.
"""

from __future__ import annotations

import re

_VEX = re.compile(r"v(?!err|erw|m(call|launch|resume|xoff|xon|func|run|load|save|mcall|ptrld|ptrst|clear|read|write))")
_AVX512 = re.compile(r"zmm|[xy]mm(1[6-9]|2\d|3[01])|\bk[0-7]\b")
_OF_VEX = (
    (re.compile(r"vfn?m"), "fma"),
    (re.compile(r"vcvt(ph2ps|ps2ph)"), "f16c"),
    (re.compile(r"vgf2p8"), "gfni"),
    (re.compile(r"vpdp"), "avx_vnni"),
)
_AVX2 = re.compile(
    r"v(p?broadcasti|pbroadcast|p?gather|ps[lr]lv|psrav|perm(q|d|pd|ps|2i128)$|(insert|extract)i128|pblendd|pmaskmov)"
)
_INTEGER = re.compile(r"v(p(?!test|ermil|erm2f128)|mpsadbw|movntdqa)")
_BROADCAST = re.compile(r"vbroadcasts[sd]")
_WIDER = {"aes": "vaes", "pclmulqdq": "vpclmulqdq"}
_OF_LEGACY = tuple(
    (re.compile(f"({pattern})$"), feature)
    for pattern, feature in (
        (r"aes\w+", "aes"),
        (r"pclmul\w+", "pclmulqdq"),
        (r"sha(1|256)\w+", "sha_ni"),
        (r"gf2p8\w+", "gfni"),
        (r"crc32|pcmpgtq|pcmp[ei]str\w+", "sse4_2"),
        (r"p?blend\w+|dpp[sd]|round[sp][sd]|insertps|extractps|p(inserts?|insr|extr)[bdq]|pmul(dq|ld)|ptest|pcmpeqq"
         r"|p(min|max)(sb|sd|uw|ud)|pmov[sz]x\w+|packusdw|mpsadbw|phminposuw|movntdqa", "sse4_1"),
        (r"pshufb|palignr|pabs[bwd]|psign[bwd]|ph(add|sub)\w+|pmaddubsw|pmulhrsw", "ssse3"),
        (r"addsubp[sd]|h(add|sub)p[sd]|lddqu|mov(d|sh|sl)dup", "sse3"),
        (r"extrq|insertq|movnts[sd]", "sse4a"),
        (r"popcnt", "popcnt"),
        (r"lzcnt", "abm"),
        (r"movbe", "movbe"),
        (r"andn|bextr|blsi|blsr|blsmsk", "bmi1"),
        (r"bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx", "bmi2"),
        (r"adcx|adox", "adx"),
    )
)  # fmt: skip


def extension_of(mnemonic: str, operands: str) -> str:
    """The extension that an instruction, given by its text without prefixes, belongs to; empty: none."""
    if not _VEX.match(mnemonic):
        baseline = "sse2" if "xmm" in operands else ""
        return next((feature for pattern, feature in _OF_LEGACY if pattern.match(mnemonic)), baseline)
    wide = "ymm" in operands or "zmm" in operands
    for start, feature in (("vaes", "aes"), ("vpclmul", "pclmulqdq")):
        if mnemonic.startswith(start):
            return _WIDER[feature] if wide else feature
    if _AVX512.search(operands):
        return "avx512f"
    for pattern, feature in _OF_VEX:
        if pattern.match(mnemonic):
            return feature
    is_avx2 = _AVX2.match(mnemonic) or (wide and _INTEGER.match(mnemonic))
    return "avx2" if is_avx2 or (_BROADCAST.match(mnemonic) and "[" not in operands) else "avx"
