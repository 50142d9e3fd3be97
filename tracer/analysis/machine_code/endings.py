"""Explains endings that the engine had a part in: an instruction it lacks, or an error message of its own.

A processor that the engine emulates incompletely ends a program by SIGILL where a real one would have gone on.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from foretrace.tracer.analysis.modules import ModuleMap
from foretrace.tracer.debug_info.line_table import LineTable
from foretrace.tracer.debug_info.symbols import Symbols
from foretrace.tracer.isa.instruction_set import Flow
from foretrace.tracer.isa.registry import load
from foretrace.tracer.reader.raw_trace import RawBlock, RawTrace
from foretrace.tracer.recording.recording import Recording

if TYPE_CHECKING:
    from capstone import Cs

_LONGEST_INSTRUCTION_BYTES = (
    15  # Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, section 2.3.11
)
_EVEX_PREFIX = 0x62  # the same, section 2.7: in 64-bit code no other instruction begins so
_TRAPS = frozenset({"ud0", "ud1", "ud2", "ud2b", "udf", "unimp", "c.unimp"})
"""Instructions whose purpose is to raise SIGILL."""
_NOISE = ("uncaught target signal", "**")
"""QEMU messages to ignore: the program's own signal, which the status gives; the line before a failed assertion."""


class _Instruction(msgspec.Struct, frozen=True):
    text: str
    mnemonic: str
    extension: str  # of the instruction set, if it is one that the engine leaves out


def engine_messages(message: bytes) -> tuple[str, ...]:
    """Lines written by the engine itself that add to the program's status."""
    lines = (line.strip() for line in message.decode("utf-8", "backslashreplace").splitlines())
    return tuple(line for line in lines if line and not any(noise in line for noise in _NOISE))


def explain(recording: Recording, guest: str, engine: str) -> str:
    """Explanation of the ending beyond its status, in one line; "" if there is nothing to add."""
    why, warnings = _why(recording, guest, engine), recording.departures.warnings
    if not warnings:
        return why
    if not why and recording.problem not in warnings:
        why = recording.problem
    return "; ".join((why, *warnings) if why else warnings)


def _why(recording: Recording, guest: str, engine: str) -> str:
    """The part that the engine had in how the program ended."""
    ending = recording.ending
    missing = ""
    if ending.signal_number == signal.SIGILL:
        missing = _missing_instruction(recording.raw, recording.last_blocks, guest, engine)
    if missing:
        return f"the program was killed by SIGILL at {missing}"
    messages = engine_messages(recording.engine_message) if ending.exit_code != 0 else ()
    return f"{engine}: {'; '.join(messages)}" if messages else ""


def _missing_instruction(raw: RawTrace, last_blocks: Sequence[int], guest: str, engine: str) -> str:
    """Instruction that the engine lacks, with its place and advice, for a program killed by SIGILL; "" if none.

    `last_blocks` are the ids of the blocks that the threads ran last. An instruction that the engine cannot translate
    ends its block, which otherwise ends at a control transfer. Some known instructions do so, too (XRSTOR, in the
    dynamic loader, where another thread may be): the block that ran least often is tried first, as no thread gets past
    a missing instruction.
    """
    maps = ModuleMap(raw.maps, raw.guest_base, raw.files)
    blocks = {block.block_id: block for block in raw.blocks}
    last = [block for number in last_blocks if (block := blocks.get(number)) is not None and block.lengths]
    for block in sorted(last, key=lambda block: block.executions):
        path, offset, instruction = _last_instruction(block, maps, guest)
        if instruction is not None and instruction.mnemonic not in _TRAPS:
            place = _place(path, offset, maps.copies.get(path))
            return f"{instruction.text} in {place}: {_advice(instruction, guest, engine)}"
    return ""


def _last_instruction(block: RawBlock, maps: ModuleMap, guest: str) -> tuple[str, int, _Instruction | None]:
    """Module, offset and decoding of a block's last instruction; no decoding if it is one that can end a block."""
    length = block.lengths[-1]
    address, recorded = block.address + sum(block.lengths[:-1]), block.code[-length:]
    path, offset = maps.locate(address)
    [flow] = [c.flow for c in load(guest).classify([recorded])]
    if flow is not Flow.FALLTHROUGH:
        return path, offset, None
    return path, offset, _decode(_whole(path, offset, recorded), address, guest)


def _whole(path: str, offset: int, recorded: bytes) -> bytes:
    """The instruction's bytes. The engine stops reading at the first that it does not know: the file has the rest."""
    try:
        with Path(path).open("rb") as file:
            file.seek(offset)
            code = file.read(_LONGEST_INSTRUCTION_BYTES)
    except (OSError, ValueError):
        return recorded
    return code if code.startswith(recorded) else recorded


def _decode(code: bytes, address: int, guest: str) -> _Instruction:
    extension = _extension(code, guest)
    for decoded in _disassembler(guest).disasm(code, address, 1):
        return _Instruction(f"{decoded.mnemonic} {decoded.op_str}".strip(), decoded.mnemonic, extension)
    return _Instruction(f"an instruction that begins with the bytes {code[:6].hex(' ')}", "", extension)


def _disassembler(guest: str) -> Cs:
    import capstone  # takes long to import, and few programs end so

    return {
        "x86_64": capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64),
        "aarch64": capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN),
        "riscv64": capstone.Cs(capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV64 | capstone.CS_MODE_RISCVC),
    }[guest]


def _extension(code: bytes, guest: str) -> str:
    if guest == "x86_64" and code[0] == _EVEX_PREFIX:
        return "AVX-512"
    # Arm Architecture Reference Manual for A-profile architecture (DDI 0487), section C4.1: op0 and op1.
    word = int.from_bytes(code[:4], "little")
    group = word >> 25 & 15
    return "SVE" if guest == "aarch64" and (group == 2 or (group == 0 and word >> 31)) else ""


def _place(path: str, offset: int, content: bytes | None) -> str:
    """Function, source line and module, as far as they are known."""
    symbols = Symbols(path, content) if path.startswith("/") else None
    address = symbols.link_address(offset) if symbols else None
    if symbols is None or address is None:
        return f"{path}+{offset:#x}"
    function = symbols.function(address)
    name, start = (function.name, function.start) if function else (f"{address:#x}", address)
    line = _source_line(symbols.lines(np.array([start, address], np.uint64)), start, address)
    return f"{name} ({line + ', ' if line else ''}{path})"


def _source_line(table: LineTable, start: int, address: int) -> str:
    """File and line of an instruction of the function at `start`.

    Within code inlined from another file (an intrinsic from its header), the function's own line before it.
    """
    files, lines = table.find(np.array([address], np.uint64))
    file, line = int(files[0]), int(lines[0])
    own, _ = table.find_first(start)
    if own not in (-1, file):
        before = [at for number, at, _ in table.statements(start, address + 1) if number == own and at > 0]
        file, line = (own, before[-1]) if before else (file, line)
    return f"{table.paths[file]}:{line}" if file >= 0 and line > 0 else ""


def _advice(instruction: _Instruction, guest: str, engine: str) -> str:
    if instruction.extension == "AVX-512":
        return f"{engine} has no AVX-512; compile with -mno-avx512f, or for -march=x86-64-v3"
    if guest == "x86_64":
        return f"{engine} does not have this instruction; compile for -march=x86-64-v3, which it has whole"
    if instruction.extension == "SVE":
        return "SVE and SME are off, as QEMU does not show what they access; compile for -march=armv8.6-a, without them"
    return f"{engine} does not have this instruction; compile for an older processor"
