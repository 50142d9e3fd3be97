"""The AArch64 instruction set (A64), decoded by capstone.

Everything is read off the text that capstone writes, Arm's own assembly syntax ("Arm Architecture Reference Manual
for A-profile architecture", DDI 0487, chapters C6 and C7): an instruction is four bytes, so the same few thousand
encodings recur, and each is decoded only once.

An instruction that loads or stores several registers, such as LDP, makes one access of their summed size. SVE and SME
are left out, as QEMU's plugins do not see their loads and stores: foretrace runs programs on a processor without them.

The module is long for one instruction set: tables of mnemonics, and what follows from each.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from functools import cache

import capstone

from foretrace.tracer.signature.records import OperationKind as Kind

from .instruction_set import UNKNOWN_INSTRUCTION, AccessParts, AddressSum, DataFlow, Flow, InstructionClass, StackUse
from .operand_text import associative, integer, is_low_mask, split_operands

_INSTRUCTION_BYTES = 4
_NO_FLOW = DataFlow()
_READS_FLAGS = re.compile(r"b\.\w+|f?csel|cs(inc|inv|neg)|cset|csetm|cinc|cinv|cneg|f?ccm[pn]e?|adcs?|sbcs?|ngcs?")
_WRITES_FLAGS = re.compile(r"adds|subs|ands|bics|negs|adcs|sbcs|ngcs|cm[pn]|tst|ccm[pn]|fcmpe?|fccmpe?")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# ---- mnemonics ------------------------------------------------------------------------------------------------------

_INT_ALU = _words(
    "add adds sub subs cmp cmn neg negs adc adcs sbc sbcs ngc ngcs and ands orr eor bic bics orn eon mvn tst sxtb sxth"
    " sxtw uxtb uxth rbit rev rev16 rev32 rev64 ccmp ccmn adr adrp rmif setf8 setf16 cfinv abs smax smin umax umin"
)
_INT_SHIFT = _words("lsl lsr asr ror ubfx sbfx ubfiz sbfiz bfi bfxil bfc extr")
_INT_SELECT = _words("csel csinc csinv csneg cset csetm cinc cinv cneg")
_INT_BIT_COUNT = _words("clz cls cnt ctz")
_INT_MUL = _words("mul madd msub mneg smull umull smulh umulh smaddl umaddl smsubl umsubl smnegl umnegl")
_INT_DIV = _words("sdiv udiv")
_MOVE = _words("mov movz movn movk movi mvni fmov dup ins umov smov")
_INTEGER_KINDS = (
    *((_INT_ALU, Kind.INT_ALU), (_INT_SHIFT, Kind.INT_SHIFT), (_INT_SELECT, Kind.INT_SELECT)),
    *((_INT_BIT_COUNT, Kind.INT_BIT_COUNT), (_INT_MUL, Kind.INT_MUL), (_INT_DIV, Kind.INT_DIV)),
)
_FP_CONTROL = _words("fpcr fpsr")
_SHIFTS_FIRST = re.compile(r"(lsl|lsr|asr|ror) #[1-9]|[su]xt[bhwx] #[1-9]")
_SHIFTED = re.compile(r"(lsl|lsr|asr|ror|[su]xt[bhwx])\b")
_CRC = re.compile(r"crc32c?[bhwx]")
_FENCES = _words("dmb dsb")
_TIMERS = _words("cntvct_el0 cntvctss_el0 cntpct_el0")
_VECTOR_KINDS = (
    (re.compile(r"aes[ed]"), Kind.AES),
    (re.compile(r"aesi?mc"), Kind.AES_MIX),
    (re.compile(r"sha(1[cmp]|(256|512)h2?)|sm3tt[12][ab]|sm4e"), Kind.SHA_ROUND),
    (re.compile(r"sha(1h|(1|256|512)su[01])|sm3(ss1|partw[12])|sm4ekey"), Kind.SHA_SCHEDULE),
    (re.compile(r"pmull?2?"), Kind.CARRYLESS_MUL),
    (re.compile(r"(mul|ml[as]|[su](mul|ml[as])l2?|sqr?d?mulh|sqrdml[as]h|sqdm(ul|l[as])l2?)"),
     Kind.VECTOR_MUL),
)  # fmt: skip
"""Vector instructions that cost more than an addition."""
_FP_KINDS = (
    (re.compile(r"f(add|sub|abd|addp|cadd)"), Kind.FP_ADD),
    (re.compile(r"f(mul|nmul|mulx)"), Kind.FP_MUL),
    (re.compile(r"f(n?madd|n?msub|mla|mls|mlal2?|mlsl2?|cmla|recps|rsqrts)|bf(dot|mmla|mlalb|mlalt)"), Kind.FP_FMA),
    (re.compile(r"fdiv"), Kind.FP_DIV),
    (re.compile(r"fsqrt"), Kind.FP_SQRT),
    (re.compile(r"fc?cmpe?|fcm[a-z]{2}|fac[a-z]{2}"), Kind.FP_COMPARE),
    (re.compile(r"[su]cvtf|bfcvt(n2?)?|fcvt[a-z0-9]+|fjcvtzs|frint[a-z0-9]+"), Kind.FP_CONVERT),
    (re.compile(r"f[a-z0-9]+"), Kind.FP_OTHER),
)
_FMAS_PER_LANE = {"bfdot": 2, "bfmmla": 4}  # DDI 0487, section C7.2: sums of products in one lane

_BRANCH = re.compile(r"bc?\.[a-z]{2}|cbn?z|tbn?z")
_JUMPS = {"b": Flow.JUMP, "br": Flow.INDIRECT_JUMP, "braa": Flow.INDIRECT_JUMP, "brab": Flow.INDIRECT_JUMP,
          "braaz": Flow.INDIRECT_JUMP, "brabz": Flow.INDIRECT_JUMP}  # fmt: skip
_CALL = _words("bl blr blraa blrab blraaz blrabz")
_RETURN = _words("ret retaa retab eret eretaa eretab")
_SYSTEM_CALL = _words("svc hvc smc brk hlt udf")

# ---- loads and stores -----------------------------------------------------------------------------------------------

_PAIR = re.compile(r"(ldp|ldnp|ldpsw|ldxp|ldaxp|ldiapp|stp|stnp|stxp|stlxp|stilp)")
_SINGLE = re.compile(
    r"(?:ldr|ldur|ldtr|ldar|ldlar|ldapr|ldapur|ldxr|ldaxr|str|stur|sttr|stlr|stllr|stlur|stxr|stlxr)(b|h|sb|sh|sw)?"
)
_AUTHENTICATED = re.compile(r"ldra[ab]")
_STRUCTURE = re.compile(r"(ld|st)[1-4](r)?")
_ATOMIC = re.compile(r"(?:(ld|st)(?:add|clr|eor|set|smax|smin|umax|umin)|swp)(?:al?|l)?(b|h)?")
_COMPARE_AND_SWAP = re.compile(r"cas(p)?(?:al?|l)?(b|h)?")
_EXCLUSIVE_STORE = re.compile(r"stl?x[rp][bh]?")
_SUFFIX_BYTES = {"b": 1, "sb": 1, "h": 2, "sh": 2, "sw": 4}
_REGISTER_BYTES = {"w": 4, "x": 8, "b": 1, "h": 2, "s": 4, "d": 8, "q": 16}
_ELEMENT_BITS = {"b": 8, "h": 16, "s": 32, "d": 64, "q": 128}

# ---- registers ------------------------------------------------------------------------------------------------------

_REGISTER = re.compile(r"([wxbhsdqv])(\d{1,2})(?:\.(\d{0,2})([bhsdq])(?:\[(\d+)\])?)?")
_ALIASES = {"sp": "sp", "wsp": "sp", "fp": "x29", "lr": "x30"}
_ZERO = _words("xzr wzr")
_EXTENDED = re.compile(r"(?:lsl|[su]xt[bhwx])(?: #(\w+))?")
_KEEPS_OLD = _words("movk bfi bfxil bfc ins tbx sri sli bit bif bsl")
_ACCUMULATES = re.compile(
    r"f?ml[as]l?2?|fml[as]l2?|fcmla|[su]ml[as]l2?|[su]aba\w*|[su](us)?dot|usdot|sudot|[su]?usmmla|[su]mmla"
    r"|bf(dot|mmla|mlal[bt])|sqdml[as]l2?|sqrdml[as]h|[su]r?sra|[su]adalp"
)
_VARIES = re.compile(r"cs(el|inc|inv|neg|et|etm)|c(inc|inv|neg)|fcsel|adcs?|sbcs?|ngcs?|mrs|cas\w*|svc|rndrr?s?")
_WRITES_NOTHING = re.compile(
    r"cmp|cmn|tst|ccmp|ccmn|fcmpe?|fccmpe?|cbn?z|tbn?z|b\.\w+|b|bl|br\w*|blr\w*|ret\w*|msr|prfu?m|dc|ic|at|tlbi|sys|svc|hint"
)
_SUMS = re.compile(r"(add|sub)s?")
_MULTIPLY_ADD = _words("madd smaddl umaddl")
_SHIFTS = _words("lsl sbfiz ubfiz")


@cache
def _register(text: str) -> str:
    """The widest register that an operand is part of; empty for other operands and the zero register."""
    match = _REGISTER.fullmatch(text)
    if match is None:
        return _ALIASES.get(text, "")
    return ("x" if match[1] in "wx" else "v") + match[2]


def _list_registers(text: str) -> list[str]:
    """The registers in braces."""
    return [part.strip() for part in text[1 : text.index("}")].split(",")]


def _data_registers(mnemonic: str, operands: list[str]) -> list[str]:
    """The register operands that are loaded into or stored; the status of an exclusive store is none."""
    first = 1 if _EXCLUSIVE_STORE.fullmatch(mnemonic) else 0
    if _PAIR.fullmatch(mnemonic) or (_COMPARE_AND_SWAP.fullmatch(mnemonic) and mnemonic.startswith("casp")):
        return operands[first : first + 2]
    return operands[first : first + 1]


def _width_bytes(register: str) -> int:
    """Size of a scalar register; 0 for other operands."""
    if register in _ZERO or register in _ALIASES:
        return 4 if register.startswith("w") else 8
    return _REGISTER_BYTES.get(register[:1], 0) if _REGISTER.fullmatch(register) else 0


def _structure_bytes(operands: list[str], *, one_element: bool) -> int:
    """Bytes of the vectors, or of one element of each."""
    if not operands or not operands[0].startswith("{") or "}" not in operands[0]:
        return 0
    registers = _list_registers(operands[0])
    match = re.fullmatch(r"v\d+\.(\d*)([bhsdq])", registers[0])
    if match is None:
        return 0
    element_bytes = _ELEMENT_BITS[match[2]] // 8
    lanes = 1 if one_element or not match[1] else int(match[1])
    return len(registers) * lanes * element_bytes


@cache
def _access_bytes(mnemonic: str, text: str) -> int:
    """Bytes that a load, store or atomic accesses; 0 for other instructions."""
    operands = split_operands(text)
    structure = _STRUCTURE.fullmatch(mnemonic)
    if structure:
        return _structure_bytes(operands, one_element=bool(structure[2]))
    if _PAIR.fullmatch(mnemonic):
        part_bytes = 4 if mnemonic == "ldpsw" else _width_bytes("".join(_data_registers(mnemonic, operands)[:1]))
        return 2 * part_bytes
    single = _SINGLE.fullmatch(mnemonic)
    if single or _AUTHENTICATED.fullmatch(mnemonic):
        suffix = single[1] if single else None
        return _SUFFIX_BYTES[suffix] if suffix else _width_bytes("".join(_data_registers(mnemonic, operands)[:1]))
    atomic = _ATOMIC.fullmatch(mnemonic) or _COMPARE_AND_SWAP.fullmatch(mnemonic)
    if atomic and operands:
        size_bytes = _SUFFIX_BYTES[atomic[2]] if atomic[2] else _width_bytes(operands[0])
        return 2 * size_bytes if mnemonic.startswith("casp") else size_bytes
    return 0


# ---- classes --------------------------------------------------------------------------------------------------------


def _element(operands: list[str]) -> tuple[int, int]:
    """Element bits and lanes of the first operand's register; (0, 1) if it is no register."""
    first = operands[0] if operands else ""
    if first.startswith("{"):
        registers = _list_registers(first)
        match = re.fullmatch(r"v\d+\.(\d*)([bhsdq])", registers[0])
        if match is None:
            return 64, 1
        return _ELEMENT_BITS[match[2]], len(registers) * int(match[1] or 1)
    match = _REGISTER.fullmatch(first)
    if match is None:
        return 8 * _width_bytes(first), 1
    if match[1] == "v":
        return _ELEMENT_BITS.get(match[4] or "d", 64), int(match[3] or 1)
    if match[1] == "q":
        return 64, 2
    return 8 * _REGISTER_BYTES[match[1]], 1


def _is_vector(operands: list[str]) -> bool:
    return any(re.match(r"[bhsdqv]\d", operand.lstrip("{")) for operand in operands)


def _memory_class(mnemonic: str, operands: list[str], access_bytes: int) -> InstructionClass:
    kind = Kind.MOVE
    if _COMPARE_AND_SWAP.fullmatch(mnemonic) or _ATOMIC.fullmatch(mnemonic) or _EXCLUSIVE_STORE.fullmatch(mnemonic):
        kind = Kind.ATOMIC
    if _STRUCTURE.fullmatch(mnemonic):
        return _shared(kind, *_element(operands))
    bits, lanes = _element(_data_registers(mnemonic, operands)[:1])
    if mnemonic.startswith("st"):
        bits = min(bits, 8 * access_bytes)
    return _shared(kind, bits, 2 * lanes if _PAIR.fullmatch(mnemonic) or mnemonic.startswith("casp") else lanes)


def _fp_class(mnemonic: str, operands: list[str]) -> InstructionClass | None:
    for pattern, kind in _FP_KINDS:
        if pattern.fullmatch(mnemonic):
            bits, lanes = _element(operands)
            if kind is Kind.FP_CONVERT and mnemonic.startswith("f") and not _is_vector(operands[:1]):
                bits, lanes = _element(operands[1:])  # to an integer register
            return _shared(kind, bits, lanes * _FMAS_PER_LANE.get(mnemonic, 1))
    return None


@cache
def _classify(mnemonic: str, text: str) -> InstructionClass:
    """Class of an instruction from its text."""
    if mnemonic in _JUMPS:
        return InstructionClass(Kind.BRANCH, flow=_JUMPS[mnemonic])
    if _BRANCH.fullmatch(mnemonic):
        return InstructionClass(Kind.BRANCH, flow=Flow.BRANCH)
    if mnemonic in _CALL:
        return InstructionClass(Kind.CALL, flow=Flow.CALL)
    if mnemonic in _RETURN:
        return InstructionClass(Kind.RETURN, flow=Flow.RETURN)
    if mnemonic in _SYSTEM_CALL:
        return InstructionClass(Kind.OTHER, flow=Flow.SYSCALL)
    if mnemonic == "dc" and text.startswith(("zva", "gzva")):
        return InstructionClass(Kind.MOVE, hides_access=True)
    operands = split_operands(text)
    if mnemonic in ("mrs", "msr") and _FP_CONTROL.intersection(operands):
        return _shared(Kind.FP_CONTROL, 64, 1)
    if mnemonic in _FENCES:
        return _shared(Kind.FENCE, 64, 1)
    if mnemonic == "mrs" and _TIMERS.intersection(operands):
        return _shared(Kind.TIMER, 64, 1)
    access_bytes = _access_bytes(mnemonic, text)
    if access_bytes:
        return _memory_class(mnemonic, operands, access_bytes)
    if mnemonic in _MOVE:
        return _shared(Kind.MOVE, *_element(operands))
    fp = _fp_class(mnemonic, operands)
    if fp is not None:
        return fp
    bits, lanes = _element(operands)
    if _is_vector(operands):
        return _shared(
            next((k for pattern, k in _VECTOR_KINDS if pattern.fullmatch(mnemonic)), Kind.VECTOR_INT), bits, lanes
        )
    for names, kind in _INTEGER_KINDS:
        if mnemonic in names:
            is_shifted = kind is Kind.INT_ALU and any(map(_SHIFTED.match, operands[-1:]))
            return _shared(Kind.INT_SHIFT_ADD if is_shifted else kind, bits or 64, 1)
    return _shared(Kind.CRC32, 32, 1) if _CRC.fullmatch(mnemonic) else _shared(Kind.OTHER, 0, 1)


@cache
def _shared(kind: Kind, bits: int, lanes: int) -> InstructionClass:
    return InstructionClass(kind, bits, lanes)


# ---- data flow ------------------------------------------------------------------------------------------------------


def _term(text: str) -> tuple[tuple[str, int], ...]:
    name = _register(text)
    return ((name, 1),) if name else ()


def _scaled(register: str, extension: str) -> tuple[tuple[str, int], ...] | None:
    """A register that is extended and shifted left; None for other shifts. The extension itself changes no sum."""
    match = _EXTENDED.fullmatch(extension)
    shift = integer(match[1] or "0") if match else None
    if shift is None:
        return None
    name = _register(register)
    return ((name, 1 << (shift & 63)),) if name else ()


def _sum(mnemonic: str, operands: list[str]) -> AddressSum | None:
    """The sum that an instruction on general registers computes; None if its result is none."""
    values = [integer(operand) for operand in operands]
    if mnemonic in ("mov", "movz", "adr", "adrp") and len(operands) == 2:
        if values[1] is not None:
            return AddressSum((), values[1])
        is_whole = _register(operands[1]) != "" or operands[1] in _ZERO
        return AddressSum(_term(operands[1])) if is_whole and "[" not in "".join(operands) else None
    if mnemonic == "fmov" and len(operands) == 2 and _register(operands[1]) and "." not in "".join(operands):
        return AddressSum(_term(operands[1]))
    if (mnemonic == "movi" and values[-1] == 0) or (mnemonic == "eor" and operands[1:2] == operands[2:]):
        return AddressSum()
    if len(operands) < 3:
        return None
    first = _term(operands[1])
    if mnemonic in _SHIFTS and values[2] is not None:
        return AddressSum(tuple((name, 1 << (values[2] & 63)) for name, _ in first))
    if not _SUMS.fullmatch(mnemonic) or operands[0][:1] == "v":
        return None
    if values[2] is not None:
        shift = _EXTENDED.fullmatch(operands[3]) if len(operands) > 3 else None
        value = values[2] << ((integer(shift[1] or "0") or 0) & 63 if shift else 0)
        return AddressSum(first, value if mnemonic.startswith("add") else -value)
    second = _scaled(operands[2], operands[3] if len(operands) > 3 else "lsl")
    if second is None or not mnemonic.startswith("add"):
        return None
    return AddressSum(first + second)


def _address(text: str) -> AddressSum | None:
    """The sum in a memory operand such as `[x0, w1, sxtw #3]`; None for other text. Literals are absolute addresses."""
    literal = integer(text)
    if literal is not None:
        return AddressSum((), literal)
    if not text.startswith("["):
        return None
    base, *rest = split_operands(text.rstrip("!")[1:-1])
    registers = _term(base)
    displacement = integer(rest[0]) if rest else 0
    if displacement is not None:
        return AddressSum(registers, displacement)
    return AddressSum(registers + (_scaled(rest[0], rest[1] if len(rest) > 1 else "lsl") or ()))


@cache
def _computes(mnemonic: str, text: str) -> DataFlow:
    """Data flow of an instruction that accesses no memory."""
    operands = split_operands(text)
    writes_nothing = _WRITES_NOTHING.fullmatch(mnemonic) is not None
    registers = [_register(operand) for operand in _flattened(operands)]
    reads = registers if writes_nothing else registers[1:]
    writes = () if writes_nothing else tuple(filter(None, registers[:1]))
    is_lane = bool(operands) and "[" in operands[0] and not operands[0].startswith("[")
    if writes and (mnemonic in _KEEPS_OLD or _ACCUMULATES.fullmatch(mnemonic) or is_lane or mnemonic.endswith("n2")):
        reads = [*registers[1:], *writes]
    total = None if writes_nothing or not writes else _sum(mnemonic, operands)
    if mnemonic in _CALL or mnemonic in _JUMPS:
        return DataFlow(reads=_unique(reads), target=_unique(reads))
    if total is not None and not total.registers:
        reads = []
    kept = _unique(reads)
    return DataFlow(
        reads=kept,
        writes=writes,
        sum=total,
        adds=mnemonic in _MULTIPLY_ADD,
        varies=_VARIES.fullmatch(mnemonic) is not None or bool(writes and not (kept or total)),
    )


def _flattened(operands: Sequence[str]) -> list[str]:
    """Operands, those of a list in braces one by one."""
    return [
        register for text in operands for register in (_list_registers(text) if text.startswith("{") else [text])
    ]  # fmt: skip


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, names)))


def _moved(address: AddressSum, offset_bytes: int) -> AddressSum:
    return AddressSum(address.registers, address.displacement + offset_bytes)


@cache
def _accesses(mnemonic: str, text: str, loads: bool, stores: bool) -> DataFlow:
    """Data flow of a load, store or atomic."""
    operands = split_operands(text)
    at = next((i for i, operand in enumerate(operands) if operand.startswith("[")), len(operands) - 1)
    address = _address(operands[at]) if operands else None
    if address is None:
        return _NO_FLOW
    parts: list[DataFlow]
    if _ATOMIC.fullmatch(mnemonic) or _COMPARE_AND_SWAP.fullmatch(mnemonic):
        parts = [_atomic(mnemonic, operands, address, loads, stores)]
    else:
        parts = _plain_accesses(mnemonic, operands, address, loads, stores)
    base = _term(operands[at][1:].split(",")[0].rstrip("]!"))
    if base and (operands[at].endswith("!") or at + 1 < len(operands)):
        step: AddressSum | None = address  # before the access
        if at + 1 < len(operands):
            by = integer(operands[at + 1])
            step = AddressSum(base + (_term(operands[at + 1]) if by is None else ()), by or 0)
        parts.append(DataFlow(reads=(base[0][0],), writes=(base[0][0],), sum=step))
    flow = parts[-1]
    for part in reversed(parts[:-1]):
        flow = part.followed_by(flow)
    return flow


def _plain_accesses(
    mnemonic: str, operands: list[str], address: AddressSum, loads: bool, stores: bool
) -> list[DataFlow]:
    """Loads and stores of one register, of a pair one after the other, or of vectors."""
    size_bytes = _access_bytes(mnemonic, ", ".join(operands))
    if _STRUCTURE.fullmatch(mnemonic):
        registers = _unique([_register(text.split("[")[0]) for text in _list_registers(operands[0])])
        if loads:
            keeps_old = registers if "}[" in operands[0] else ()
            return [DataFlow(loads=(address,), reads=keeps_old, writes=registers)]
        return [DataFlow(stores=(address,), reads=registers)] if stores else [_NO_FLOW]
    data = _data_registers(mnemonic, operands)
    part_bytes = size_bytes // len(data) if data else 0
    is_whole = bool(data) and (_width_bytes(data[0]) == part_bytes >= 4)
    parts = []
    for number, text in enumerate(data):
        where, name = _moved(address, number * part_bytes), _register(text)
        written = (name,) if name else ()
        if mnemonic.startswith("ld"):
            parts.append(DataFlow(loads=(where,) if loads else (), writes=written, copies=is_whole and loads))
        else:
            parts.append(DataFlow(stores=(where,) if stores else (), reads=written, sum=AddressSum(_term(text))))
    if len(parts) == 2 and parts[0].writes and parts[0].writes[0] in dict(address.registers):
        parts.reverse()  # the register that holds the address changes last
    if _EXCLUSIVE_STORE.fullmatch(mnemonic) and _register(operands[0]):
        parts.append(DataFlow(writes=(_register(operands[0]),), varies=True))
    return parts


def _atomic(mnemonic: str, operands: list[str], address: AddressSum, loads: bool, stores: bool) -> DataFlow:
    match = _ATOMIC.fullmatch(mnemonic)
    if match is None:  # compare and swap: the first registers are compared, and loaded into
        half = 2 if mnemonic.startswith("casp") else 1
        writes = _unique([_register(text) for text in operands[:half]])
        reads = _unique([_register(text) for text in operands[: 2 * half]])
    else:
        reads = _unique([_register(operands[0])])
        writes = _unique([_register(operands[1])]) if match[1] != "st" else ()
    return DataFlow(
        loads=(address,) if loads else (),
        stores=(address,) if stores else (),
        reads=reads,
        writes=writes,
        adds="add" in mnemonic,
        varies=match is None,
    )


_EXTENSION = re.compile(r"[su]xt[bhw]")
_COMBINES = (
    (
        "add",
        re.compile(
            r"(ld|st)add(al?|l)?[bh]?|f?(add|sub)s?|fn?m(add|sub)|m(add|sub)|[su]m(add|sub)l|ml[as]|fml[as]|addv|addp|faddp"
            r"|[su](add|sub)w2?|[su]adalp"
        ),
    ),
    ("multiply", re.compile(r"f?mul|fnmul|[su]mull")),
    ("min", re.compile(r"[su]min[vp]?|fmin(nm)?[vp]?")),
    ("max", re.compile(r"[su]max[vp]?|fmax(nm)?[vp]?")),
    ("and", re.compile(r"ands?")),
    ("or", re.compile(r"orr")),
    ("xor", re.compile(r"eor")),
)


_SELECTS = re.compile(r"f?csel|bsl|bi[tf]")
_MULTIPLIES_AND_ADDS = re.compile(r"fn?m(add|sub)|m(add|sub)|[su]m(add|sub)l|ml[as]|fml[as]")


class AArch64:
    """A64, as Linux programs use it (Procedure Call Standard for the Arm 64-bit Architecture, AAPCS64)."""

    stack_pointer = "sp"
    return_address = "x30"
    # AAPCS64, sections 6.1.1 and 6.1.2: r19 to r29, SP and the low halves of v8 to v15 are preserved; r18 belongs to
    # the platform, and on Linux to nobody.
    call_clobbered = frozenset(
        [f"x{number}" for number in (*range(19), 30)] + [f"v{number}" for number in (*range(8), *range(16, 32))]
    )

    arguments = frozenset([f"x{number}" for number in (*range(9), 18)] + [f"v{number}" for number in range(8)])
    results = frozenset([f"x{number}" for number in range(9)] + [f"v{number}" for number in range(8)])

    def __init__(self) -> None:
        """Open the decoder."""
        self._decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)

    def _text(self, code: bytes, address: int) -> tuple[str, str] | None:
        found = next(self._decoder.disasm_lite(code[:_INSTRUCTION_BYTES], address, 1), None)
        return (found[2], found[3]) if found else None

    def access_bytes(self, code: bytes, address: int, is_store: bool) -> int:
        """Size of the load (or store) that the instruction makes, in bytes; 0 if unknown."""
        text = self._text(code, address)
        return _access_bytes(*text) if text else 0

    def access_parts(self, code: bytes) -> AccessParts:
        """Form of an access in parts: adjacent parts, for all instructions."""
        return AccessParts.ADJACENT

    def classify(self, codes: Sequence[bytes]) -> list[InstructionClass]:
        """Class of each instruction, given by its bytes."""
        texts = (self._text(code, 0) if len(code) == _INSTRUCTION_BYTES else None for code in codes)
        return [_classify(*text) if text else UNKNOWN_INSTRUCTION for text in texts]

    def likeness(self, code: bytes) -> Hashable:
        """The instruction's bytes themselves: the role of numbers in the data flow differs between instructions."""
        return code

    def flags(self, code: bytes, address: int) -> tuple[bool, bool]:
        """Whether an instruction reads condition flags, and whether it writes them."""
        text = self._text(code, address)
        mnemonic = text[0] if text else ""
        return _READS_FLAGS.fullmatch(mnemonic) is not None, _WRITES_FLAGS.fullmatch(mnemonic) is not None

    def combines(self, code: bytes) -> str:
        """The associative operation that combines an instruction's inputs; "" if there is none."""
        text = self._text(code, 0)
        return associative(_COMBINES, text[0]) if text else ""

    def multiplied(self, code: bytes) -> frozenset[str]:
        """Registers that an instruction multiplies before it adds to their product."""
        text = self._text(code, 0)
        operands = split_operands(text[1]) if text else []
        if text and _SHIFTS_FIRST.match(operands[-1]) and associative(_COMBINES, text[0]):
            return frozenset(filter(None, [_register(operands[-2])]))  # add w4, w5, w4, asr #1
        if text is None or not _MULTIPLIES_AND_ADDS.fullmatch(text[0]):
            return frozenset()
        registers = [_register(operand.split("[")[0]) for operand in operands]
        return frozenset(filter(None, registers[1:3]))

    def shifts(self, code: bytes) -> int | None:
        """Shift count of a left shift; 0 for extensions and for masks of the lowest bits."""
        text = self._text(code, 0)
        operands = split_operands(text[1]) if text else []
        if text is None or len(operands) < 2:
            return None
        last = integer(operands[-1])
        if _EXTENSION.fullmatch(text[0]) or (text[0] in ("and", "ands") and is_low_mask(last)):
            return 0
        if text[0] in ("ubfx", "sbfx") and integer(operands[2]) == 0:
            return 0
        if last is None or len(operands) != 3 or text[0] not in ("lsl", "lsr", "asr"):
            return None
        return last if text[0] == "lsl" else -last

    def extension(self, code: bytes) -> str:
        """No extension: they are not known for AArch64."""
        return ""

    def selects(self, code: bytes) -> bool:
        """Whether an instruction's result is one of its inputs."""
        text = self._text(code, 0)
        return text is not None and _SELECTS.fullmatch(text[0]) is not None

    def is_atomic(self, code: bytes) -> bool:
        """Whether an instruction reads and writes one place at once."""
        text = self._text(code, 0)
        return text is not None and bool(_ATOMIC.fullmatch(text[0]) or _COMPARE_AND_SWAP.fullmatch(text[0]))

    def stack_use(self, _code: bytes) -> StackUse | None:
        """AArch64 has no stack of registers."""
        return None

    def data_flow(self, code: bytes, address: int, loads: bool, stores: bool) -> DataFlow:
        """Data flow of one instruction that was seen to load and to store, or not to."""
        text = self._text(code, address)
        if text is None:
            return _NO_FLOW
        return _accesses(*text, loads, stores) if _access_bytes(*text) else _computes(*text)
