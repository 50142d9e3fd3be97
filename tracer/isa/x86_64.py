"""The x86-64 instruction set, decoded by capstone.

Classes follow the mnemonic: capstone's own groups lack widths and kinds of arithmetic. Full operand detail costs
some ten times as much as mnemonic and operand text, so only `data_flow` asks for it.

The module is long for one instruction set: tables of mnemonics, and what follows from each.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from functools import cache

import msgspec

from foretrace.tracer.signature.records import OperationKind as Kind

from . import x87_stack
from .instruction_set import (
    LOADED,
    UNKNOWN_INSTRUCTION,
    AccessParts,
    AddressSum,
    DataFlow,
    Flow,
    InstructionClass,
    StackUse,
)
from .operand_text import associative, integer, is_low_mask, split_operands
from .x86_decoder import READS, WRITES, X86Decoder
from .x86_extensions import extension_of
from .x86_operands import PARENT, REGISTER_BITS, Form, Operand, OperandKind, OperandReader

_POINTER_BYTES = 8
_DECODED_AT_ONCE = 256  # instructions


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PREFIXES = _words("lock rep repe repne repz repnz notrack bnd data16 xacquire xrelease")
_SIZE_BYTES = {
    "byte": 1, "word": 2, "dword": 4, "qword": 8, "xword": 10, "tbyte": 10, "xmmword": 16, "ymmword": 32, "zmmword": 64,
}  # fmt: skip
_SIZED = re.compile(r"\b([a-z]+) ptr ")

# ---- mnemonics ------------------------------------------------------------------------------------------------------

_INT_ALU = _words(
    "add sub adc sbb inc dec neg not and or xor cmp test bt btc btr bts andn bextr blsi blsr blsmsk bzhi adcx adox xadd"
    " cmpxchg cmpxchg8b cmpxchg16b lea bswap cbw cwde cdqe cwd cdq cqo cmpsb cmpsw cmpsd cmpsq scasb scasw scasd scasq"
)
_INT_SHIFT = _words("shl sal shr sar rol ror rcl rcr shld shrd rorx sarx shlx shrx")
_INT_BIT_COUNT = _words("bsf bsr tzcnt lzcnt popcnt")
_FP_CONTROL = _words("stmxcsr ldmxcsr vstmxcsr vldmxcsr")
_EXTENSION = _words("movzx movsx movsxd")
_WIDENS_ITSELF = _words("cbw cwde cdqe")
_THREE_PARTS = re.compile(r".*\[\w+ \+ [\w*]+ [+-] \w+\]")
_INT_MUL = frozenset({"mul", "imul", "mulx"})
_INT_DIV = frozenset({"div", "idiv"})
_INTEGER_KINDS = (
    *((_INT_ALU, Kind.INT_ALU), (_INT_SHIFT, Kind.INT_SHIFT), (_INT_BIT_COUNT, Kind.INT_BIT_COUNT)),
    *((_INT_MUL, Kind.INT_MUL), (_INT_DIV, Kind.INT_DIV)),
    *((frozenset({"crc32"}), Kind.CRC32), (frozenset({"pdep", "pext"}), Kind.BIT_DEPOSIT)),
)
_WITHOUT_OPERANDS = {"mfence": Kind.FENCE, "rdtsc": Kind.TIMER, "rdtscp": Kind.TIMER}
_MOVE = _words(
    "mov movzx movsx movsxd movabs xchg push pop pushfq popfq movsb movsw movsd movsq stosb stosw stosd stosq"
    " lodsb lodsw lodsd lodsq movnti movbe leave enter xlatb fld fst fstp fxch fld1 fldz fldpi fldl2e fldl2t"
    " fldlg2 fldln2"
)
_STRING = re.compile(r"(movs|stos|lods|cmps|scas)[bwdq]$")
_LOOP_BRANCH = frozenset({"loop", "loope", "loopne", "jrcxz", "jecxz"})
_RETURN = frozenset({"ret", "retf", "retfq", "iret", "iretd", "iretq", "sysret", "sysretq"})
_SYSCALL = frozenset({"syscall", "sysenter", "int", "int1", "int3", "into"})
_X87 = (
    (re.compile(r"f(i?add|i?subr?)p?$"), Kind.FP_ADD),
    (re.compile(r"fi?mulp?$"), Kind.FP_MUL),
    (re.compile(r"fi?divr?p?$"), Kind.FP_DIV),
    (re.compile(r"fsqrt$"), Kind.FP_SQRT),
    (re.compile(r"f(i?u?comi?p?p?|ucomp?i?p?|comp?i?p?|tst)$"), Kind.FP_COMPARE),
    (re.compile(r"f(ild|istt?p?|bld|bstp|rndint)$"), Kind.FP_CONVERT),
    (re.compile(r"f(sin|cos|sincos|ptan|patan|2xm1|yl2x(p1)?|scale|prem1?)$"), Kind.X87_FUNCTION),
    (re.compile(r"f(abs|chs|xtract|xam|cmov\w+)$"), Kind.FP_OTHER),
)  # fmt: skip
# Scalar and packed floating point: SSE, AVX, FMA. The suffix gives element and number of lanes.
_FP = re.compile(r"v?([a-z0-9]+?)(ss|sd|ps|pd)$")
_FP_KINDS = (
    (re.compile(r"(h?add|h?sub|addsub)$"), Kind.FP_ADD),
    (re.compile(r"mul$"), Kind.FP_MUL),
    (re.compile(r"fn?m(add|sub|addsub|subadd)(132|213|231)?$"), Kind.FP_FMA),
    (re.compile(r"div$"), Kind.FP_DIV),
    (re.compile(r"sqrt$"), Kind.FP_SQRT),
    (re.compile(r"dp$"), Kind.FP_FMA),
    (re.compile(r"(mov(a|u|h|l|nt)?|maskmov|broadcast)$"), Kind.MOVE),
    (re.compile(r"(gather|scatter)[dq]$"), Kind.GATHER),
    (re.compile(r"(u?comi|cmp[a-z_]*)$"), Kind.FP_COMPARE),
    (re.compile(r"(cvt[a-z0-9]+|round|rndscale)$"), Kind.FP_CONVERT),
    (re.compile(r"(and|andn|or|xor|min|max|rcp|rsqrt|rcp14|rsqrt14|unpck[hl]|shuf|blendv?|test|perm(il|2)?|perm[it]2"
                r"|insert|extract|movmsk|getexp|getmant|fixupimm|scalef|range|reduce|fpclass|expand|compress)$"),
     Kind.FP_OTHER),
)  # fmt: skip
_FP_ODD = re.compile(r"v?(cvtt?[sp][sd]2(si|dq|pi|usi|udq|qq|uqq)|movlhps|movhlps|mov[sd]l?dup|movddup|movs[hl]dup)$")
_VECTOR_MOVE = re.compile(
    r"v?(movd|movq|movdqa|movdqu|lddqu|movntdqa?|movntq|movdq2q|movq2dq|maskmovdqu|maskmovq)$"
    r"|vmovdq[au](8|16|32|64)$|vpmaskmov[dq]$|vpbroadcast[bwdq]$"
    r"|v(extract|insert|broadcast)[fi](128|32x[248]|64x[24])$"
)
_SHUFFLES = re.compile(r"v?mov[ds]\w*dup$|v(p?broadcast\w+|(extract|insert)[fi](128|32x[248]|64x[24]))$")
"""Moves of parts of vectors: between registers they are shuffles."""
_VECTOR_INT = re.compile(r"(v?p[a-z0-9]+|v?mpsadbw|vperm2i128|vperm2f128|valign[dq])$")
_VECTOR_KINDS = (
    (re.compile(r"v?p(mul(l|h|hu|hrs)[wdq]|mulu?dq|madd(wd|ubsw|52[lh]uq)|dp(bu|ws)sds?)$"), Kind.VECTOR_MUL),
    (re.compile(r"vp(gather|scatter)[dq][dq]$"), Kind.GATHER),
    (re.compile(r"v?aes\w+$"), Kind.AES),
    (re.compile(r"sha(1rnds4|256rnds2|512rnds2)$|v?sm[34]rnds\d$"), Kind.SHA_ROUND),
    (re.compile(r"sha(1|256|512)(msg[12]|nexte)$|v?sm[34](msg[12]|key4)$"), Kind.SHA_SCHEDULE),
    (re.compile(r"v?pclmul\w+$"), Kind.CARRYLESS_MUL),
    (re.compile(r"v?gf2p8\w+$"), Kind.GALOIS),
)
"""Vector instructions that cost more than an addition."""
_VECTOR_SUFFIX = {"b": 8, "w": 16, "d": 32, "q": 64}
_NOT_VECTOR = _words("pause push pop pushfq popfq popcnt")
_GATHER = re.compile(r"vp?(gather|scatter)[dq](ps|pd|d|q)$")
_MASKED = re.compile(r"v?p?maskmov(ps|pd|d|q|dqu)$")
_STATE_BYTES = {
    **dict.fromkeys(_words("fxsave fxsave64 fxrstor fxrstor64"), 512),
    **dict.fromkeys(_words("fnsave fsave frstor"), 108),
    **dict.fromkeys(_words("fnstenv fstenv fldenv"), 28),
    **dict.fromkeys(_words("fbld fbstp"), 0),
    **dict.fromkeys(
        _words("xsave xsave64 xsavec xsavec64 xsaveopt xsaveopt64 xsaves xsaves64 xrstor xrstor64 xrstors xrstors64"), 0
    ),
}
"""Instructions that save or restore processor state, or a number digit by digit, and their bytes (Intel SDM,
volume 1, sections 4.7, 8.1.10, 10.5 and 13.4); 0: as many as are in use."""
_ELEMENT_BYTES = {"ps": 4, "pd": 8, "d": 4, "q": 8}

_CONDITION = re.compile(r"j(?!mp)[a-z]+$")


def _strip(mnemonic: str) -> str:
    """The mnemonic without prefixes."""
    while " " in mnemonic:
        first, _, rest = mnemonic.partition(" ")
        if first not in _PREFIXES:
            return first
        mnemonic = rest
    return mnemonic


def _vector_bits(operands: str) -> int:
    """Width of the widest vector register or operand named."""
    if "zmm" in operands:
        return 512
    if "ymm" in operands:
        return 256
    return 128 if "xmm" in operands else 64


def _memory_bytes(operands: str) -> int:
    """Size of the explicit memory operand in bytes; 0 if the text does not give it."""
    match = _SIZED.search(operands)
    return _SIZE_BYTES.get(match[1], 0) if match else 0


def _scalar_bits(operands: str) -> int:
    """Width of an integer instruction: that of its first operand."""
    first = operands.partition(",")[0]
    if first in REGISTER_BITS:
        return REGISTER_BITS[first]
    return 8 * _memory_bytes(operands) or 64


@cache
def _class_of(mnemonic: str, has_vector: bool) -> tuple[Kind, int, bool]:
    """Kind, element bits (0: those of the operands) and whether there is more than one lane."""
    scalar_fp = _FP.match(mnemonic) if has_vector else None
    if scalar_fp:
        bits = 32 if scalar_fp[2][1] == "s" else 64
        for pattern, kind in _FP_KINDS:
            if pattern.match(scalar_fp[1]):
                return kind, bits, scalar_fp[2][0] == "p"
    if _FP_ODD.match(mnemonic):
        is_move = "mov" in mnemonic
        return (
            (Kind.MOVE if "dup" in mnemonic else Kind.FP_OTHER) if is_move else Kind.FP_CONVERT,
            32 if "ps" in mnemonic else 64,
            "p" in mnemonic,
        )
    own = next((kind for pattern, kind in _VECTOR_KINDS if pattern.match(mnemonic)), None)
    if own is not None:
        return own, _VECTOR_SUFFIX.get(mnemonic[-1], 64), True
    if _VECTOR_MOVE.match(mnemonic):
        if mnemonic.endswith(("movd", "movq")):
            return Kind.MOVE, 32 if mnemonic.endswith("d") else 64, False
        sized = re.search(r"(maskmov|broadcast)[dq]?([bwdq])$", mnemonic)
        return Kind.MOVE, _VECTOR_SUFFIX[sized[2]] if sized else 64, True
    if mnemonic.startswith(("set", "cmov")):
        return Kind.INT_SELECT, 0, False
    if mnemonic in _FP_CONTROL:
        return Kind.FP_CONTROL, 32, False
    if mnemonic in _WITHOUT_OPERANDS:
        return _WITHOUT_OPERANDS[mnemonic], 64, False
    for names, kind in _INTEGER_KINDS:
        if mnemonic in names:
            return kind, 0, False
    for pattern, kind in _X87:
        if pattern.match(mnemonic):
            return kind, 80, False
    if mnemonic in _MOVE:
        return Kind.MOVE, 80 if mnemonic.startswith("f") else 0, False
    if mnemonic not in _NOT_VECTOR and not mnemonic.startswith("prefetch") and _VECTOR_INT.match(mnemonic):
        return Kind.VECTOR_INT, _VECTOR_SUFFIX.get(mnemonic[-1], 64), True
    if has_vector and mnemonic.startswith(("v", "kmov")):
        return Kind.MOVE if mnemonic.startswith("kmov") else Kind.FP_OTHER, 64, True
    return Kind.OTHER, 0, False


def _is_atomic(mnemonic: str, operands: str) -> bool:
    return mnemonic.startswith("lock") or (mnemonic == "xchg" and "[" in operands)


def _classify(mnemonic: str, operands: str) -> InstructionClass:
    """Class of an instruction from its text (Intel syntax)."""
    is_atomic = _is_atomic(mnemonic, operands)
    mnemonic = _strip(mnemonic)
    if mnemonic == "jmp":
        return _JUMP if operands[:1].isdigit() else _INDIRECT_JUMP
    if _CONDITION.match(mnemonic) or mnemonic in _LOOP_BRANCH:
        return _BRANCH
    if mnemonic == "call":
        return _CALL
    if mnemonic in _RETURN:
        return _RETURNS
    if mnemonic in _SYSCALL:
        return _CALLS_SYSTEM
    has_vector = "mm" in operands and bool(re.search(r"\b[xyz]?mm\d", operands))
    kind, bits, is_packed = _class_of(mnemonic, has_vector)
    if is_atomic:
        kind = Kind.ATOMIC
    elif mnemonic == "lea" and _THREE_PARTS.match(operands):
        kind = Kind.INT_SHIFT_ADD
    elif mnemonic in _EXTENSION and "[" not in operands:
        kind = Kind.INT_ALU
    elif _SHUFFLES.match(mnemonic) and "[" not in operands:
        kind = Kind.FP_OTHER
    elif _sets_zero(mnemonic, operands):
        kind = Kind.MOVE
    if is_packed:
        lanes = max(1, _vector_bits(operands) // bits)
    else:
        lanes = 1
        if bits == 0 and kind is not Kind.OTHER:
            bits = _scalar_bits(operands)
    return _shared(kind, bits, lanes)


def _sets_zero(mnemonic: str, operands: str) -> bool:
    """Whether it is a way to write zero to a register, which cores do without a unit."""
    if mnemonic not in _CLEARED_BY_ITSELF:
        return False
    registers = operands.split(", ")
    return len(registers) > 1 and len(set(registers[-2:])) == 1


def _likeness(mnemonic: str, operands: str) -> tuple[str, str]:
    return mnemonic, _NUMBERS.sub("", operands)


@cache
def _shared(kind: Kind, bits: int, lanes: int) -> InstructionClass:
    return InstructionClass(kind, bits, lanes)


_JUMP = InstructionClass(Kind.BRANCH, flow=Flow.JUMP)
_INDIRECT_JUMP = InstructionClass(Kind.BRANCH, flow=Flow.INDIRECT_JUMP)
_BRANCH = InstructionClass(Kind.BRANCH, flow=Flow.BRANCH)
_CALL = InstructionClass(Kind.CALL, flow=Flow.CALL)
_RETURNS = InstructionClass(Kind.RETURN, flow=Flow.RETURN)
_CALLS_SYSTEM = InstructionClass(Kind.OTHER, flow=Flow.SYSCALL)

# ---- data flow ------------------------------------------------------------------------------------------------------

_CLEARED_BY_ITSELF = _words(
    "xor sub pxor vpxor vpxord vpxorq xorps xorpd vxorps vxorpd psubb psubw psubd psubq vpsubb vpsubw vpsubd vpsubq"
)
_PLAIN_MOVE = _words(
    "mov movabs movd movq vmovd vmovq movaps movups movapd movupd movdqa movdqu vmovaps vmovups vmovapd vmovupd"
    " vmovdqa vmovdqu movnti movntdq movntps movntpd lddqu vlddqu"
)
_KEEPS_OLD = re.compile(r"cmov\w+|movhp[sd]|movlp[sd]|mov[hl][lh]ps|pinsr[bwdq]|insertps|mov(ss|sd)")
_VARIES = re.compile(
    r"set\w+|cmov\w+|adc|sbb|rc[lr]|adcx|adox|fcmov\w+|lahf|cmpxchg\w*|rdtscp?|cpuid|xgetbv|syscall|in|rdrand|rdseed"
)
_NUMBERS = re.compile(r"\b(0x[0-9a-f]+|\d+)\b")  # not those in the names of registers
_COMBINES = (
    ("add", re.compile(r"v?h?(add|sub)(ss|sd|ps|pd)?|inc|dec|lea|xadd|v?p(add|sub)[bwdq]|fi?(add|sub)p?"
                       r"|vfn?m(add|sub)(132|213|231)?[sp][sd]")),
    ("multiply", re.compile(r"i?mulx?|v?mul(ss|sd|ps|pd)|v?pmull[wdq]|v?pmuludq|fi?mulp?")),
    ("min", re.compile(r"v?min(ss|sd|ps|pd)|v?pmin[su][bwdq]")),
    ("max", re.compile(r"v?max(ss|sd|ps|pd)|v?pmax[su][bwdq]")),
    ("and", re.compile(r"and|v?p?and(ps|pd|d|q)?")),
    ("or", re.compile(r"or|v?p?or(ps|pd|d|q)?")),
    ("xor", re.compile(r"xor|v?p?xor(ps|pd|d|q)?")),
)  # fmt: skip
_SELECTS = re.compile(r"f?cmov\w+|v?p?blendv\w*")
_MULTIPLIES_AND_ADDS = re.compile(r"vfn?m(add|sub)(132|213|231)[sp][sd]")
"""FMA3 (Intel SDM, volume 2): the first two digits number the operands that are multiplied."""
_NO_ACCESS = re.compile(r"nop|prefetch\w*|lea|clflush(opt)?|clwb|cldemote")


class X8664:
    """x86-64, as Linux programs use it (System V AMD64 ABI)."""

    stack_pointer = "rsp"
    return_address = ""
    # System V AMD64 ABI, section 3.2.1: all but rbx, rbp, rsp and r12 to r15.
    call_clobbered = frozenset(set(PARENT.values()) - {"rbx", "rbp", "rsp", "r12", "r13", "r14", "r15", "fs", "gs"})
    arguments = frozenset(
        ["rdi", "rsi", "rdx", "rcx", "r8", "r9", "r10", "fs", "gs", *(f"xmm{number}" for number in range(8))]
    )  # figure 3.4; r10 is the static chain
    results = frozenset(["rax", "rdx", "xmm0", "xmm1", *(f"st({number})" for number in range(8))])

    def __init__(self) -> None:
        """Open the decoder."""
        self._decoder = X86Decoder()
        self._texts: dict[bytes, tuple[str, str] | None] = {}
        self._likenesses: dict[bytes, tuple[str, str]] = {}
        self._classes: dict[tuple[str, str], InstructionClass] = {}  # of a likeness
        self._operands = OperandReader()
        self._flows: dict[tuple[bytes, bool, bool], DataFlow] = {}

    def _text(self, code: bytes) -> tuple[str, str] | None:
        """Mnemonic and operands; operands relative to the instruction's address are given for address 0."""
        if code not in self._texts:
            found = self._decoder.texts(code, 1)
            self._texts[code] = found[0][1:] if found else None
        return self._texts[code]

    def access_bytes(self, code: bytes, address: int, is_store: bool) -> int:
        """Size of each load (or store) that the instruction makes, in bytes; 0 if unknown or not fixed."""
        text = self._text(code)
        if text is None:
            return 0
        mnemonic, operands = _strip(text[0]), text[1]
        if is_store and mnemonic in ("push", "call", "pushfq", "enter"):
            return 2 if REGISTER_BITS.get(operands) == 16 else _POINTER_BYTES
        if not is_store and (mnemonic in ("pop", "leave", "popfq") or mnemonic in _RETURN):
            return 2 if REGISTER_BITS.get(operands) == 16 else _POINTER_BYTES
        elements = _GATHER.match(mnemonic)
        if elements:
            return _ELEMENT_BYTES[elements[elements.lastindex or 1]]
        if _MASKED.match(mnemonic):
            return _vector_bits(operands) // 8
        if mnemonic in _STATE_BYTES:
            return _STATE_BYTES[mnemonic]
        return _memory_bytes(operands)

    def access_parts(self, code: bytes) -> AccessParts:
        """Form of an access in parts: lanes for masked moves (a gather makes one access per lane), fields of the state
        for instructions that save or restore it."""
        text = self._text(code)
        mnemonic = _strip(text[0]) if text else ""
        if _MASKED.match(mnemonic):
            return AccessParts.MASKED
        return AccessParts.STATE if mnemonic in _STATE_BYTES else AccessParts.ADJACENT

    def classify(self, codes: Sequence[bytes]) -> list[InstructionClass]:
        """Class of each instruction, given by its bytes."""
        classes: list[InstructionClass] = []
        for first in range(0, len(codes), _DECODED_AT_ONCE):
            classes += self._classify_some(codes[first : first + _DECODED_AT_ONCE])
        return classes

    def _classify_some(self, codes: Sequence[bytes]) -> Iterator[InstructionClass]:
        """Classes of the instructions, by one call of the decoder and another one after each unknown instruction."""
        joined = b"".join(codes)
        start = 0
        decoded = iter(self._decoder.texts(joined))
        for code in codes:
            text = next(decoded, None)
            start += len(code)
            if text is not None and text[0] == len(code):
                self._texts[code] = text[1], text[2]
                likeness = self._likenesses[code] = _likeness(text[1], text[2])
                if likeness not in self._classes:
                    self._classes[likeness] = _classify(text[1], text[2])
                yield self._classes[likeness]
            else:
                yield UNKNOWN_INSTRUCTION
                decoded = iter(self._decoder.texts(joined[start:]))

    def data_flow(self, code: bytes, address: int, loads: bool, stores: bool) -> DataFlow:
        """Data flow of one instruction that was seen to load and to store, or not to."""
        key = (code, loads, stores)
        known = self._flows.get(key)
        if known is not None:
            return known
        text = self._text(code)
        if text is None:
            return DataFlow()
        one = _Instruction(_strip(text[0]), *self._operands.read(code, *text), address + len(code))
        found = _data_flow(one, loads, stores)
        if not any(operand.is_relative for operand in one.operands):  # the same wherever it is
            self._flows[key] = found
        return found

    def likeness(self, code: bytes) -> Hashable:
        """An instruction's text without numbers."""
        known = self._likenesses.get(code)
        if known is None:
            text = self._text(code)
            return text and _likeness(*text)
        return known

    def flags(self, code: bytes, address: int) -> tuple[bool, bool]:
        """Whether an instruction reads condition flags, and whether it writes them."""
        text = self._text(code)
        if text is None:
            return False, False
        form, _ = self._operands.read(code, *text)
        return form.reads_flags, form.writes_flags

    def combines(self, code: bytes) -> str:
        """The associative operation that combines an instruction's inputs; "" if there is none."""
        text = self._text(code)
        return associative(_COMBINES, _strip(text[0])) if text else ""

    def multiplied(self, code: bytes) -> frozenset[str]:
        """Registers that an instruction multiplies before it adds to their product."""
        text = self._text(code)
        match = _MULTIPLIES_AND_ADDS.fullmatch(_strip(text[0])) if text else None
        if text is None or match is None:
            return frozenset()
        operands = text[1].split(",")
        chosen = [operands[int(number) - 1].strip() for number in match[2][:2] if int(number) <= len(operands)]
        return frozenset(LOADED if "[" in name else PARENT[name] for name in chosen if "[" in name or name in PARENT)

    def shifts(self, code: bytes) -> int | None:
        """Shift count of a left shift; 0 for extensions and for masks of the lowest bits."""
        text = self._text(code)
        if text is None:
            return None
        mnemonic, last = _strip(text[0]), integer(split_operands(text[1])[-1]) if text[1] else None
        if mnemonic in _EXTENSION or mnemonic in _WIDENS_ITSELF or (mnemonic == "and" and is_low_mask(last)):
            return 0
        if last is None or mnemonic not in ("shl", "shr", "sar"):
            return None
        return last if mnemonic == "shl" else -last

    def extension(self, code: bytes) -> str:
        """The extension that an instruction belongs to; empty: none."""
        text = self._text(code)
        return extension_of(_strip(text[0]), text[1]) if text else ""

    def selects(self, code: bytes) -> bool:
        """Whether an instruction's result is one of its inputs."""
        text = self._text(code)
        return text is not None and _SELECTS.fullmatch(_strip(text[0])) is not None

    def is_atomic(self, code: bytes) -> bool:
        """Whether an instruction reads and writes one place at once."""
        text = self._text(code)
        return text is not None and _is_atomic(*text)

    def stack_use(self, code: bytes) -> StackUse | None:
        """An x87 instruction's use of the x87 stack; None for other instructions."""
        return x87_stack.stack_use(code)


# ---- the three forms of data flow -----------------------------------------------------------------------------------


class _Instruction(msgspec.Struct, frozen=True):
    """An instruction with its operands; `end` is the address after it."""

    mnemonic: str
    form: Form
    operands: tuple[Operand, ...]
    end: int

    def address(self, operand: Operand) -> AddressSum:
        """Address of a memory operand, as a sum of registers and a displacement."""
        if not operand.is_relative:
            return operand.address
        return AddressSum(operand.address.registers, operand.address.displacement + self.end)


def _data_flow(one: _Instruction, loads: bool, stores: bool) -> DataFlow:
    if one.mnemonic in ("push", "pop", "call", "pushfq", "popfq"):
        return _stack(one)
    sizes = zip(one.operands, one.form.sizes_bytes, strict=True)
    if _STRING.match(one.mnemonic) and all(op.kind != OperandKind.REGISTER or size <= 8 for op, size in sizes):
        return _string(one)
    return _ordinary(one, loads, stores)


def _ordinary(one: _Instruction, loads: bool, stores: bool) -> DataFlow:
    reads, writes, memory = _uses(one)
    mnemonic, operands = one.mnemonic, one.operands
    total: AddressSum | None = None
    copies = False
    first_is_wide = bool(operands) and operands[0].kind == OperandKind.REGISTER and one.form.sizes_bytes[0] >= 4
    registers = [op.name for op in operands if op.kind == OperandKind.REGISTER]
    if mnemonic in _CLEARED_BY_ITSELF and len(registers) == len(operands) and len(set(registers[-2:])) == 1:
        total, reads = AddressSum(), ()
    elif mnemonic == "lea" and memory:
        total, reads = memory[0], ()
    elif mnemonic in _PLAIN_MOVE and len(operands) == 2 and (first_is_wide or operands[0].kind == OperandKind.MEMORY):
        source = operands[1]
        copies = source.kind == OperandKind.MEMORY
        if source.kind == OperandKind.REGISTER:
            total = AddressSum(((source.register, 1),))
        elif source.kind == OperandKind.NUMBER:
            total = AddressSum((), source.number)
    elif first_is_wide and not memory:
        total = _sum(mnemonic, operands)
    if _NO_ACCESS.fullmatch(mnemonic):
        memory = ()
    return DataFlow(
        loads=memory if loads else (),
        stores=memory if stores else (),
        reads=reads,
        writes=writes,
        sum=total,
        copies=copies,
        adds=mnemonic == "add",
        varies=_varies(mnemonic) or bool(writes and not (reads or memory or total)),
        target=reads if mnemonic == "jmp" else (),
        loads_target=mnemonic == "jmp",
        is_gather=bool(_GATHER.match(mnemonic)),
    )


def _stack(one: _Instruction) -> DataFlow:
    """Push, pop and call. A call is seen from the caller: it leaves the stack pointer as it was."""
    reads, writes, memory = _uses(one)
    reads = tuple(name for name in reads if name != "rsp")
    writes = tuple(name for name in writes if name != "rsp")
    size_bytes = one.form.sizes_bytes[0] if one.operands else _POINTER_BYTES
    value = AddressSum(((reads[0], 1),)) if reads else None
    if one.mnemonic.startswith("pop"):
        top = AddressSum((("rsp", 1),))
        return DataFlow(loads=(top,), stores=memory, writes=writes, copies=True, stack_bytes=size_bytes)
    if one.mnemonic == "call":
        below = AddressSum((("rsp", 1),), -_POINTER_BYTES)
        return DataFlow(loads=memory, stores=(below,), sum=AddressSum(), target=reads, loads_target=True)
    below = AddressSum((("rsp", 1),), -size_bytes)
    return DataFlow(memory, (below,), reads, (), value, copies=bool(memory), stack_bytes=-size_bytes)


def _string(one: _Instruction) -> DataFlow:
    """String instructions step rsi, rdi and, with a repeat prefix, rcx."""
    source, destination = AddressSum((("rsi", 1),)), AddressSum((("rdi", 1),))
    steps = tuple(name for name in one.form.writes if name in ("rsi", "rdi", "rcx"))
    match one.mnemonic[:4]:
        case "movs":
            return DataFlow((source,), (destination,), copies=True, steps=steps)
        case "stos":
            return DataFlow((), (destination,), ("rax",), sum=AddressSum((("rax", 1),)), steps=steps)
        case "lods":
            return DataFlow((source,), writes=("rax",), steps=steps)
        case "cmps":
            return DataFlow((source, destination), steps=steps)
    return DataFlow((destination,), steps=steps)


def _sum(mnemonic: str, operands: Sequence[Operand]) -> AddressSum | None:
    """The sum that an integer instruction on registers computes; None if its result is none."""
    first = operands[0].register
    if mnemonic in ("inc", "dec"):
        return AddressSum(((first, 1),), 1 if mnemonic == "inc" else -1)
    if len(operands) != 2 or mnemonic not in ("add", "sub", "shl", "sal"):
        return None
    second = operands[1]
    if second.kind == OperandKind.REGISTER and mnemonic == "add":
        return AddressSum(((first, 1), (second.register, 1)))
    if second.kind != OperandKind.NUMBER:
        return None
    if mnemonic in ("shl", "sal"):
        return AddressSum(((first, 1 << (second.number & 63)),))
    return AddressSum(((first, 1),), second.number if mnemonic == "add" else -second.number)


def _uses(one: _Instruction) -> tuple[tuple[str, ...], tuple[str, ...], tuple[AddressSum, ...]]:
    """Registers read (addresses left out), registers written, memory operands.

    A write to the low 8 or 16 bits counts as one to the whole register: compilers do not use the bits above.
    Where capstone does not give an operand's role, the first is taken as written and all as read.
    """
    mnemonic = one.mnemonic
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    memory = []
    for position, (operand, access) in enumerate(zip(one.operands, one.form.accesses, strict=True)):
        if operand.kind == OperandKind.MEMORY:
            memory.append(one.address(operand))
        if not operand.register:
            continue
        if access & WRITES if access else position == 0:
            writes[operand.register] = None
        if not access or access & READS:
            reads[operand.register] = None
    reads |= dict.fromkeys(one.form.reads)
    writes |= dict.fromkeys(one.form.writes)
    if _keeps_old(mnemonic) and not (mnemonic in ("movss", "movsd") and memory):
        reads.update(writes)
    if mnemonic.startswith("f") and mnemonic not in PARENT and not mnemonic.startswith(("fxsave", "fxrstor")):
        reads["st"] = None
        if not memory or mnemonic.startswith(("fld", "fild")):
            writes["st"] = None
    if mnemonic == "syscall":  # System V AMD64 ABI, section A.2.1
        writes.update({"rax": None, "rcx": None, "r11": None})
    return tuple(reads), tuple(writes), tuple(memory)


@cache
def _keeps_old(mnemonic: str) -> bool:
    return _KEEPS_OLD.fullmatch(mnemonic) is not None


@cache
def _varies(mnemonic: str) -> bool:
    return _VARIES.fullmatch(mnemonic) is not None
