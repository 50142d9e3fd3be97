"""The RISC-V instruction set (RV64GC and the bit manipulation of Zba, Zbb and Zbs), decoded by capstone.

Everything is read off the text of an instruction ("The RISC-V Instruction Set Manual, Volume I: Unprivileged
Architecture"). Compressed instructions are expanded. Capstone 5 does not know the bit manipulation, which is decoded
here, nor the vector extension, which is left undecoded.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from functools import cache

import capstone

from foretrace.tracer.signature.records import OperationKind as Kind

from .instruction_set import UNKNOWN_INSTRUCTION, AccessParts, AddressSum, DataFlow, Flow, InstructionClass, StackUse
from .operand_text import associative, integer, is_low_mask, split_operands

_NO_FLOW = DataFlow()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# ---- registers ------------------------------------------------------------------------------------------------------

# RISC-V ELF psABI, "Integer Register Convention".
_ABI_NAMES = ["zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", *(f"a{i}" for i in range(8)),
              *(f"s{i}" for i in range(2, 12)), "t3", "t4", "t5", "t6"]  # fmt: skip
_FP_REGISTER = re.compile(r"f([tsa])(\d{1,2})")
_INT_REGISTERS = frozenset(_ABI_NAMES) - {"zero"}
_LINK = _words("ra t0")  # manual, section 2.5.1: jumps through x1 and x5 are calls and returns

# ---- mnemonics, without the c. of compressed instructions ------------------------------------------------------------

_INT_ALU = _words(
    "add.uw andn orn xnor max maxu min minu sext.b sext.h zext.h orc.b rev8 bclr bclri bext bexti binv binvi bset bseti"
    " add addi addw addiw sub subw and andi or ori xor xori not neg negw slt slti sltu sltiu seqz snez sltz sgtz sext.w"
    " auipc addi4spn addi16sp"
)
_INT_SHIFT = _words(
    "sll slli sllw slliw srl srli srlw srliw sra srai sraw sraiw srli64 srai64 slli64 slli.uw rol rolw ror rorw rori"
    " roriw"
)
_INT_SHIFT_ADD = _words("sh1add sh2add sh3add sh1add.uw sh2add.uw sh3add.uw")
_INT_BIT_COUNT = _words("clz clzw ctz ctzw cpop cpopw")
_INTEGER_KINDS = (
    *((_INT_ALU, Kind.INT_ALU), (_INT_SHIFT, Kind.INT_SHIFT)),
    *((_INT_SHIFT_ADD, Kind.INT_SHIFT_ADD), (_INT_BIT_COUNT, Kind.INT_BIT_COUNT)),
)
_MOVE = _words("mv li lui")
_INT_MUL = re.compile(r"mul(h|hu|hsu|w)?")
_INT_DIV = re.compile(r"(div|rem)u?w?")
_FORMAT = {"h": 16, "s": 32, "w": 32, "d": 64, "q": 128}
_FP = re.compile(r"f([a-z]+)\.(?:([a-z]+)\.)?([a-z]+)")
_FP_KINDS = {
    "add": Kind.FP_ADD, "sub": Kind.FP_ADD, "mul": Kind.FP_MUL, "div": Kind.FP_DIV, "sqrt": Kind.FP_SQRT,
    "madd": Kind.FP_FMA, "msub": Kind.FP_FMA, "nmadd": Kind.FP_FMA, "nmsub": Kind.FP_FMA, "mv": Kind.MOVE,
    "eq": Kind.FP_COMPARE, "lt": Kind.FP_COMPARE, "le": Kind.FP_COMPARE, "cvt": Kind.FP_CONVERT,
}  # fmt: skip
_FP_MOVE = re.compile(r"fmv\.[hsdq]")
_FLOATING_STATUS = re.compile(r"f[rs](csr|rm|flags)i?|fs(rm|flags)i")
_LOAD = re.compile(r"(lb|lbu|lh|lhu|lw|lwu|ld|flh|flw|fld|flq)(sp)?")
_STORE = re.compile(r"(sb|sh|sw|sd|fsh|fsw|fsd|fsq)(sp)?")
_ATOMIC = re.compile(r"(lr|sc|amo[a-z]+)\.([wd])(?:\.(?:aq|rl|aqrl))?")
_ACCESS_BYTES = {"b": 1, "h": 2, "w": 4, "d": 8, "q": 16}
_BRANCH = re.compile(r"b(eq|ne|lt|ge|ltu|geu|eqz|nez|lez|gez|ltz|gtz|gt|le|gtu|leu)")
_SYSTEM = _words("ecall ebreak unimp uret sret mret wfi")
_ADDRESS = re.compile(r"(-?\w*)\((\w+)\)")
_TWO_OPERANDS = _words("add addi addw addiw sub subw and andi or xor slli srli srai addi16sp slli64 srli64 srai64")
"""Compressed forms that name the first source and the destination once."""
_VARIES = re.compile(r"csr\w+|rd(cycle|time|instret)h?|fr(csr|rm|flags)|sc\.[wd].*|ecall")
_SHIFT_ADD = re.compile(r"sh([123])add(?:\.uw)?")


@cache
def _register(text: str) -> str:
    """Name of a register; empty for other text and for the register that is always zero."""
    return text if text in _INT_REGISTERS or _FP_REGISTER.fullmatch(text) else ""


# ---- bit manipulation: "RISC-V Bit-Manipulation ISA-extensions", version 1.0.0, chapter 2 ----------------------------

_OP, _OP_32, _OP_IMM, _OP_IMM_32 = 0x33, 0x3B, 0x13, 0x1B
_REGISTER_FORMS = {  # opcode, funct3, funct7
    (_OP, 2, 0x10): "sh1add", (_OP, 4, 0x10): "sh2add", (_OP, 6, 0x10): "sh3add",
    (_OP_32, 0, 0x04): "add.uw", (_OP_32, 2, 0x10): "sh1add.uw", (_OP_32, 4, 0x10): "sh2add.uw",
    (_OP_32, 6, 0x10): "sh3add.uw", (_OP, 7, 0x20): "andn", (_OP, 6, 0x20): "orn", (_OP, 4, 0x20): "xnor",
    (_OP, 4, 0x05): "min", (_OP, 5, 0x05): "minu", (_OP, 6, 0x05): "max", (_OP, 7, 0x05): "maxu",
    (_OP, 1, 0x30): "rol", (_OP, 5, 0x30): "ror", (_OP_32, 1, 0x30): "rolw", (_OP_32, 5, 0x30): "rorw",
    (_OP, 1, 0x24): "bclr", (_OP, 5, 0x24): "bext", (_OP, 1, 0x34): "binv", (_OP, 1, 0x14): "bset",
}  # fmt: skip
_SHIFT_FORMS = {  # opcode, funct3, funct6
    (_OP_IMM, 5, 0x18): "rori", (_OP_IMM_32, 5, 0x18): "roriw", (_OP_IMM_32, 1, 0x02): "slli.uw",
    (_OP_IMM, 1, 0x12): "bclri", (_OP_IMM, 5, 0x12): "bexti", (_OP_IMM, 1, 0x1A): "binvi", (_OP_IMM, 1, 0x0A): "bseti",
}  # fmt: skip
_UNARY_FORMS = {  # opcode, funct3, bits 31 to 20
    (_OP_IMM, 1, 0x600): "clz", (_OP_IMM, 1, 0x601): "ctz", (_OP_IMM, 1, 0x602): "cpop", (_OP_IMM, 1, 0x604): "sext.b",
    (_OP_IMM, 1, 0x605): "sext.h", (_OP_IMM_32, 1, 0x600): "clzw", (_OP_IMM_32, 1, 0x601): "ctzw",
    (_OP_IMM_32, 1, 0x602): "cpopw", (_OP_32, 4, 0x080): "zext.h", (_OP_IMM, 5, 0x287): "orc.b",
    (_OP_IMM, 5, 0x6B8): "rev8",
}  # fmt: skip


def _bit_manipulation(word: int) -> tuple[str, str] | None:
    """Mnemonic and operands of an instruction of Zba, Zbb or Zbs; None for any other."""
    opcode, funct3 = word & 0x7F, word >> 12 & 7
    first, second = _ABI_NAMES[word >> 7 & 31], _ABI_NAMES[word >> 15 & 31]
    unary = _UNARY_FORMS.get((opcode, funct3, word >> 20))
    if unary:
        return unary, f"{first}, {second}"
    shift = _SHIFT_FORMS.get((opcode, funct3, word >> 26))
    if shift:
        return shift, f"{first}, {second}, {word >> 20 & 63}"
    register = _REGISTER_FORMS.get((opcode, funct3, word >> 25))
    return (register, f"{first}, {second}, {_ABI_NAMES[word >> 20 & 31]}") if register else None


# ---- classes --------------------------------------------------------------------------------------------------------


def _access_bytes(mnemonic: str) -> int:
    """Bytes that a load, store or atomic accesses; 0 for other instructions."""
    atomic = _ATOMIC.fullmatch(mnemonic)
    if atomic:
        return _ACCESS_BYTES[atomic[2]]
    match = _LOAD.fullmatch(mnemonic) or _STORE.fullmatch(mnemonic)
    return _ACCESS_BYTES[match[1].lstrip("f").removesuffix("u")[1]] if match else 0


def _jump(mnemonic: str, operands: list[str]) -> tuple[Flow, str, str] | None:
    """Flow, link register and target register of a jump; None for other instructions."""
    if mnemonic in ("j", "jal") and len(operands) <= 1:
        link, target = ("" if mnemonic == "j" else "ra"), ""
    elif mnemonic == "jal":
        link, target = _register(operands[0]), ""
    elif mnemonic == "ret":
        link, target = "", "ra"
    elif mnemonic in ("jr", "jalr"):
        link = "" if mnemonic == "jr" else "ra"
        if len(operands) > 1 and integer(operands[1]) is None:
            link, operands = _register(operands[0]), operands[1:]
        match = _ADDRESS.fullmatch(operands[0]) if operands else None
        target = _register(match[2] if match else "".join(operands[:1]))
    else:
        return None
    if link in _LINK:
        return Flow.CALL, link, target
    if not target:
        return Flow.JUMP, link, target
    return (Flow.RETURN if target in _LINK else Flow.INDIRECT_JUMP), link, target


_TIMERS = _words("rdcycle rdtime")
_KIND_OF_FLOW = {Flow.CALL: Kind.CALL, Flow.RETURN: Kind.RETURN}


@cache
def _classify(mnemonic: str, text: str) -> InstructionClass:
    """Class of an instruction from its text."""
    operands = split_operands(text)
    jump = _jump(mnemonic, operands)
    if jump:
        return InstructionClass(_KIND_OF_FLOW.get(jump[0], Kind.BRANCH), flow=jump[0])
    if _BRANCH.fullmatch(mnemonic):
        return InstructionClass(Kind.BRANCH, flow=Flow.BRANCH)
    if mnemonic in _SYSTEM:
        return InstructionClass(Kind.OTHER, flow=Flow.SYSCALL)
    access_bytes = _access_bytes(mnemonic)
    if access_bytes:
        is_wide = _LOAD.fullmatch(mnemonic) and not mnemonic.startswith("f")
        is_atomic = mnemonic.startswith(("amo", "sc."))
        return _shared(Kind.ATOMIC if is_atomic else Kind.MOVE, 64 if is_wide else 8 * access_bytes)
    if mnemonic == "fence":
        return _shared(Kind.FENCE, 64)
    if mnemonic in _TIMERS:
        return _shared(Kind.TIMER, 64)
    if _FLOATING_STATUS.fullmatch(mnemonic):
        return _shared(Kind.FP_CONTROL, 64)
    fp = _FP.fullmatch(mnemonic)
    if fp:
        formats = [name for name in (fp[2], fp[3]) if name in _FORMAT and (name != "w" or fp[1] == "mv")]
        return _shared(_FP_KINDS.get(fp[1], Kind.FP_OTHER), _FORMAT[formats[0]] if formats else 64)
    bits = 32 if mnemonic.endswith("w") and not mnemonic.endswith(".uw") else 64
    for names, kind in _INTEGER_KINDS:
        if mnemonic in names:
            return _shared(kind, bits)
    if mnemonic in _MOVE:
        return _shared(Kind.MOVE, 64)
    if _INT_MUL.fullmatch(mnemonic):
        return _shared(Kind.INT_MUL, bits)
    return _shared(Kind.INT_DIV, bits) if _INT_DIV.fullmatch(mnemonic) else _shared(Kind.OTHER, 0)


@cache
def _shared(kind: Kind, bits: int) -> InstructionClass:
    return InstructionClass(kind, bits)


# ---- data flow ------------------------------------------------------------------------------------------------------


def _term(text: str, scale: int = 1) -> tuple[tuple[str, int], ...]:
    name = _register(text)
    return ((name, scale),) if name else ()


def _registers(operands: Sequence[str]) -> list[str]:
    """The registers among operands; others become empty."""
    return [_register(operand) for operand in operands]


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, names)))


def _sum(mnemonic: str, operands: list[str], address: int) -> AddressSum | None:
    """The sum of integers, or the copy, that an instruction computes; None if its result is neither."""
    last = integer(operands[-1])
    if mnemonic == "li" and last is not None:
        return AddressSum((), last)
    if mnemonic in ("lui", "auipc") and last is not None:
        upper = ((last & 0xFFFFF) ^ 0x80000) - 0x80000  # sign extended
        return AddressSum((), (upper << 12) + (address if mnemonic == "auipc" else 0))
    if mnemonic == "mv" or _FP_MOVE.fullmatch(mnemonic):
        return AddressSum(_term(operands[1]))
    if len(operands) < 3:
        return None
    first = _term(operands[1])
    if mnemonic in ("addi", "addiw", "addi4spn", "addi16sp") and last is not None:
        return AddressSum(first, last)
    if mnemonic in ("add", "addw", "add.uw"):
        return AddressSum(first + _term(operands[2]))
    if mnemonic in ("slli", "slliw", "slli.uw") and last is not None:
        return AddressSum(_term(operands[1], 1 << (last & 63)))
    shift_add = _SHIFT_ADD.fullmatch(mnemonic)
    if shift_add:
        return AddressSum(_term(operands[1], 1 << int(shift_add[1])) + _term(operands[2]))
    return None


def _access(mnemonic: str, operands: list[str], loads: bool, stores: bool) -> DataFlow:
    """Data flow of a load, store or atomic."""
    match = _ADDRESS.fullmatch(operands[-1])
    if match is None:
        return _NO_FLOW
    address = AddressSum(_term(match[2]), integer(match[1]) or 0 if match[1] else 0)
    loaded, stored = ((address,) if loads else ()), ((address,) if stores else ())
    is_whole = not mnemonic.startswith(("lb", "lh"))
    if _LOAD.fullmatch(mnemonic) or mnemonic.startswith("lr."):
        return DataFlow(loads=loaded, writes=_unique(_registers(operands[:1])), copies=is_whole and loads)
    if _STORE.fullmatch(mnemonic):
        return DataFlow(stores=stored, reads=_unique(_registers(operands[:1])), sum=AddressSum(_term(operands[0])))
    reads, writes = _unique(_registers(operands[1:2])), _unique(_registers(operands[:1]))
    if mnemonic.startswith("sc."):
        store = DataFlow(stores=stored, reads=reads, sum=AddressSum(_term(operands[1])))
        return store.followed_by(DataFlow(writes=writes, varies=True)) if writes else store
    return DataFlow(loads=loaded, stores=stored, reads=reads, writes=writes, adds="add" in mnemonic)


def _flow(mnemonic: str, text: str, address: int, loads: bool, stores: bool) -> DataFlow:
    """Data flow of an instruction."""
    operands = split_operands(text)
    if _access_bytes(mnemonic) and operands:
        return _access(mnemonic, operands, loads, stores)
    jump = _jump(mnemonic, operands)
    if jump:
        _, link, target = jump
        written = (link,) if link else ()
        return DataFlow(reads=_unique([target]), writes=written, varies=bool(written), target=_unique([target]))
    registers = _registers(operands)
    if _BRANCH.fullmatch(mnemonic):
        return DataFlow(reads=_unique(registers))
    writes, reads = _unique(registers[:1]), _unique(registers[1:])
    total = _sum(mnemonic, operands, address) if writes else None
    if mnemonic == "ecall":
        writes = ("a0",)
    varies = _VARIES.fullmatch(mnemonic) is not None or bool(writes and not (reads or total))
    return DataFlow(reads=reads, writes=writes, sum=total, varies=varies)


_COMBINES = (
    ("add", re.compile(r"amoadd\.[wd](\.(aq|rl|aqrl))?|(c\.)?(add|sub)(i|w|iw|i16sp|i4spn)?|fn?m?(add|sub)\.[sd]")),
    ("multiply", re.compile(r"(c\.)?mulw?|fmul\.[sd]")),
    ("min", re.compile(r"fmin\.[sd]|minu?")),
    ("max", re.compile(r"fmax\.[sd]|maxu?")),
    ("and", re.compile(r"(c\.)?andi?")),
    ("or", re.compile(r"(c\.)?ori?")),
    ("xor", re.compile(r"(c\.)?xori?")),
)


_EXTENSIONS = _words("sext.b sext.h sext.w zext.b zext.h zext.w")
_SHIFT = re.compile(r"s([lr])[la]iw?(?:64)?")

_MULTIPLIES_AND_ADDS = re.compile(r"fn?m(add|sub)\.[sd]")


class RiscV64:
    """RV64, as Linux programs use it (RISC-V ELF psABI)."""

    stack_pointer = "sp"
    return_address = "ra"
    # RISC-V ELF psABI, "Procedure Calling Convention": s0 to s11, fs0 to fs11, sp, gp and tp are preserved.
    call_clobbered = frozenset(
        ["ra"]
        + [name for name in _ABI_NAMES if re.fullmatch(r"[ta]\d", name)]
        + [f"ft{number}" for number in range(12)]
        + [f"fa{number}" for number in range(8)]
    )

    arguments = frozenset(["gp", "tp", "t2"] + [f"{kind}{number}" for kind in ("a", "fa") for number in range(8)])
    results = frozenset(["a0", "a1", "fa0", "fa1"])

    def __init__(self) -> None:
        """Open the decoder."""
        self._decoder = capstone.Cs(capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV64 | capstone.CS_MODE_RISCVC)

    def _text(self, code: bytes) -> tuple[str, str] | None:
        """Mnemonic and operands, those of a compressed instruction written out."""
        found = next(self._decoder.disasm_lite(code, 0, 1), None)
        if found is None or found[1] != len(code):
            return _bit_manipulation(int.from_bytes(code, "little")) if len(code) == 4 else None
        mnemonic, operands = found[2], found[3]
        if mnemonic.startswith("c."):
            mnemonic = mnemonic[2:]
            if mnemonic in _TWO_OPERANDS:
                operands = f"{operands.partition(',')[0]}, {operands}"
        return mnemonic, operands

    def access_bytes(self, code: bytes, address: int, is_store: bool) -> int:
        """Size of the load (or store) that the instruction makes, in bytes; 0 if unknown."""
        text = self._text(code)
        return _access_bytes(text[0]) if text else 0

    def access_parts(self, code: bytes) -> AccessParts:
        """Form of an access in parts: adjacent parts, for all instructions."""
        return AccessParts.ADJACENT

    def classify(self, codes: Sequence[bytes]) -> list[InstructionClass]:
        """Class of each instruction, given by its bytes."""
        texts = map(self._text, codes)
        return [_classify(*text) if text else UNKNOWN_INSTRUCTION for text in texts]

    def likeness(self, code: bytes) -> Hashable:
        """The instruction's bytes themselves: the role of numbers in the data flow differs between instructions."""
        return code

    def flags(self, code: bytes, address: int) -> tuple[bool, bool]:
        """RISC-V has no condition flags."""
        return False, False

    def combines(self, code: bytes) -> str:
        """The associative operation that combines an instruction's inputs; "" if there is none."""
        text = self._text(code)
        return associative(_COMBINES, text[0]) if text else ""

    def multiplied(self, code: bytes) -> frozenset[str]:
        """Registers that an instruction multiplies before it adds to their product."""
        text = self._text(code)
        if text is None or not _MULTIPLIES_AND_ADDS.fullmatch(text[0]):
            return frozenset()
        return frozenset(_registers(split_operands(text[1])[1:3]))

    def shifts(self, code: bytes) -> int | None:
        """Shift count of a left shift; 0 for extensions and for masks of the lowest bits."""
        text = self._text(code)
        if text is None:
            return None
        mnemonic, last = text[0], integer(split_operands(text[1])[-1]) if text[1] else None
        if mnemonic in _EXTENSIONS or (mnemonic == "andi" and is_low_mask(last)):
            return 0
        shift = _SHIFT.fullmatch(mnemonic)
        return None if shift is None or last is None else last if shift[1] == "l" else -last

    def extension(self, code: bytes) -> str:
        """No extension: they are not known for RISC-V."""
        return ""

    def selects(self, code: bytes) -> bool:
        """False: RISC-V has no select, its conditional zeroing takes two instructions."""
        return False

    def is_atomic(self, code: bytes) -> bool:
        """Whether an instruction reads and writes one place at once."""
        text = self._text(code)
        return text is not None and text[0].startswith("amo")

    def stack_use(self, _code: bytes) -> StackUse | None:
        """RISC-V has no stack of registers."""
        return None

    def data_flow(self, code: bytes, address: int, loads: bool, stores: bool) -> DataFlow:
        """Data flow of one instruction that was seen to load and to store, or not to."""
        text = self._text(code)
        return _flow(*text, address, loads, stores) if text else _NO_FLOW
