"""x86-64 machine code that notes the time whenever a program has come to some of its places so many times.

Each place gets a jump to a stub of its own, which counts down, restores everything, does what the jump displaced, and
goes back. At zero it also writes a record: the time-stamp counter and the place's number. The stubs of a module (the
program, or a library) lie in a region near it, with what they count; all write to the same records. Nothing of this is
the program's::

    region:   code | a page that is left out | where the records are, counters
    records:  the next one, the end | records

Counting changes no flags (`lea`, `jrcxz`), the stack is used below the red zone (System V ABI for AMD64, section
3.2.2), and records bypass the caches (`movnti`). Instructions that go by their own address are rewritten for the new.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

PAGE_BYTES = 4096
RECORD_BYTES = 16
JUMP_BYTES = 5
COUNTER_BYTES = 8
LONGEST_PERIOD = (1 << 31) - 1
RECORDS_AT = PAGE_BYTES
_NEXT_AT, _END_AT, _COUNTERS_AT = 0, 8, 64


class Displaced(msgspec.Struct, frozen=True):
    """An instruction under a jump: its bytes, and where in them its distance to an address is told (0: nowhere)."""

    code: bytes
    distance_at: int


def size_bytes(displaced: Sequence[Displaced]) -> int:
    """Of what lies under a jump."""
    return sum(len(one.code) for one in displaced)


class Place(msgspec.Struct, frozen=True):
    """Where time is noted: at `address` (link-time) of a module, whenever it has been come to `period` times."""

    module: str
    address: int
    period: int
    displaced: tuple[Displaced, ...]

    @property
    def size_bytes(self) -> int:
        """Of what is displaced."""
        return size_bytes(self.displaced)


@dataclass(frozen=True, slots=True)
class Region:
    """The content of a region, whose data begin at `data_at`, and what is written over code, by address.

    What is left to count is 8 bytes for each place, in their order, from `counters_at` on.
    """

    code: bytes
    data_at: int
    counters_at: int
    data: bytes
    jumps: dict[int, bytes]


def displaced_at(code: bytes, address: int, instructions: int, decoder: Any) -> tuple[Displaced, ...] | None:
    """What a jump at the start of a block displaces; None where it is too short, or has what cannot be moved.

    Args:
        code: bytes from the block's first on.
        address: where they lie.
        instructions: of the block.
        decoder: a `capstone.Cs` with details.
    """
    from capstone import CS_GRP_CALL, CS_GRP_INT, CS_GRP_JUMP, CS_GRP_RET
    from capstone.x86 import X86_OP_MEM, X86_REG_RIP

    found: list[Displaced] = []
    for one in decoder.disasm(code, address, instructions):
        if any(one.group(group) for group in (CS_GRP_JUMP, CS_GRP_CALL, CS_GRP_RET, CS_GRP_INT)):
            return None
        relative = any(part.type == X86_OP_MEM and part.mem.base == X86_REG_RIP for part in one.operands)
        if relative and one.disp_size != 4:
            return None
        found.append(Displaced(bytes(one.bytes), one.disp_offset if relative else 0))
        if size_bytes(found) >= JUMP_BYTES:
            return tuple(found)
    return None


def region(places: Sequence[tuple[int, Place]], bias: int, base: int, records: int) -> Region:
    """Build the region at `base`, for places of a module that is loaded `bias` above its link-time addresses.

    `places` are with their numbers; `records` is where the records are, the two addresses before them included.

    Raises:
        ValueError: the module is too far from it.
    """
    data_at = _to_page(_code_bytes(places)) + PAGE_BYTES
    code = bytearray(_writer(base + data_at, base))
    jumps = {}
    for position, (number, place) in enumerate(places):
        code += b"\x90" * (-len(code) % 16)
        at, start = place.address + bias, base + len(code)
        jumps[at] = b"\xe9" + _distance(at + JUMP_BYTES, start) + b"\x90" * (place.size_bytes - JUMP_BYTES)
        counter = base + data_at + _COUNTERS_AT + COUNTER_BYTES * position
        code += _stub(place, number, at, start, base, counter)
    counters = b"".join(struct.pack("<Q", place.period) for _, place in places)
    return Region(bytes(code), data_at, data_at + _COUNTERS_AT, struct.pack("<Q56x", records) + counters, jumps)


def region_bytes(places: Sequence[tuple[int, Place]]) -> int:
    """How large the region is."""
    return _to_page(_code_bytes(places)) + PAGE_BYTES + _to_page(_COUNTERS_AT + COUNTER_BYTES * len(places))


def records_bytes(num_records: int) -> int:
    """How large the records are, with what is before them."""
    return RECORDS_AT + _to_page(RECORD_BYTES * num_records)


def no_records(records: int, num_records: int) -> bytes:
    """What the records begin with, at this address, before there is any."""
    first = records + RECORDS_AT
    return struct.pack("<QQ", first, first + RECORD_BYTES * num_records)


def _to_page(size_bytes: int) -> int:
    return -(-size_bytes // PAGE_BYTES) * PAGE_BYTES


def _code_bytes(places: Sequence[tuple[int, Place]]) -> int:
    return 128 + sum(112 + place.size_bytes for _, place in places)


def _distance(after: int, target: int) -> bytes:
    """From the end of an instruction to what it means.

    Raises:
        ValueError: it is too far.
    """
    try:
        return struct.pack("<i", target - after)
    except struct.error:
        raise ValueError("the program is too large, or lies too far from free memory") from None


def _stub(place: Place, number: int, at: int, start: int, writer: int, counter: int) -> bytes:
    """Of one place, whose instructions lie at `at`."""
    code = bytearray()

    def add(opcode: bytes, target: int, behind: bytes = b"") -> None:
        after = start + len(code) + len(opcode) + 4 + len(behind)
        code.extend(opcode + _distance(after, target) + behind)

    code += b"\x48\x8d\x64\x24\x80"  # lea rsp, [rsp - 128]
    code += b"\x51"  # push rcx
    add(b"\x48\x8b\x0d", counter)  # mov rcx, [counter]
    code += b"\x48\x8d\x49\xff"  # lea rcx, [rcx - 1]
    code += b"\xe3"  # jrcxz zero
    zero_at = len(code)
    code += b"\0"
    add(b"\x48\x89\x0d", counter)  # mov [counter], rcx
    restored = start + len(code)
    code += b"\x59"  # pop rcx
    code += b"\x48\x8d\xa4\x24\x80\0\0\0"  # lea rsp, [rsp + 128]
    old = at
    for one in place.displaced:
        moved = bytearray(one.code)
        if one.distance_at:
            (distance,) = struct.unpack_from("<i", moved, one.distance_at)
            new = start + len(code)
            moved[one.distance_at : one.distance_at + 4] = _distance(new + len(moved), old + len(moved) + distance)
        old += len(moved)
        code += moved
    add(b"\xe9", at + place.size_bytes)  # jmp back
    code[zero_at] = len(code) - zero_at - 1
    add(b"\x48\xc7\x05", counter, struct.pack("<i", place.period))  # mov qword [counter], period
    code += b"\xb9" + struct.pack("<I", number)  # mov ecx, number
    add(b"\xe8", writer)  # call writer
    add(b"\xe9", restored)  # jmp restored
    return bytes(code)


def _writer(data: int, start: int) -> bytes:
    """Write a record with the number in rcx, if there is room for it. `data` tells where the records are."""
    code = bytearray(b"\x9c\x50\x52\x53")  # pushfq; push rax; push rdx; push rbx
    code += b"\x0f\x31"  # rdtsc
    code += b"\x48\xc1\xe2\x20"  # shl rdx, 32
    code += b"\x48\x09\xd0"  # or rax, rdx
    code += b"\x48\x8b\x1d" + _distance(start + len(code) + 7, data)  # mov rbx, [records]
    code += b"\x48\x8b" + bytes([0x53, _NEXT_AT])  # mov rdx, [rbx + next]
    code += b"\x48\x3b" + bytes([0x53, _END_AT])  # cmp rdx, [rbx + end]
    write = b"\x48\x0f\xc3\x02"  # movnti [rdx], rax
    write += b"\x48\x0f\xc3\x4a\x08"  # movnti [rdx + 8], rcx
    write += b"\x48\x83\xc2\x10"  # add rdx, 16
    write += b"\x48\x89" + bytes([0x53, _NEXT_AT])  # mov [rbx + next], rdx
    code += b"\x73" + bytes([len(write)]) + write  # jae full
    return bytes(code) + b"\x5b\x5a\x58\x9d\xc3"  # full: pop rbx; pop rdx; pop rax; popfq; ret
