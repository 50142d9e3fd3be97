"""x86-64 machine code that notes the time whenever a program has come to some of its places so many times.

Each place gets a jump to a stub of its own, which counts down, restores everything, does what the jump displaced, and
goes back. At zero it also writes a record: the time-stamp counter and the place's number. All stubs lie in one region
near the program, followed by what they count and write; nothing of it is the program's::

    code | a page that is left out | next record, end of records, counters | records

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
_NEXT_AT, _END_AT, _COUNTERS_AT = 0, 64, 128


class Displaced(msgspec.Struct, frozen=True):
    """An instruction under a jump: its bytes, and where in them its distance to an address is told (0: nowhere)."""

    code: bytes
    distance_at: int


class Place(msgspec.Struct, frozen=True):
    """Where time is noted: at `address` (link-time), whenever it has been come to `period` times."""

    address: int
    period: int
    displaced: tuple[Displaced, ...]

    @property
    def size_bytes(self) -> int:
        """Of what is displaced."""
        return sum(len(one.code) for one in self.displaced)


@dataclass(frozen=True, slots=True)
class Region:
    """The region's content and parts, and what is written over the program's code, by address."""

    code: bytes
    data_at: int
    records_at: int
    size_bytes: int
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
        if sum(len(each.code) for each in found) >= JUMP_BYTES:
            return tuple(found)
    return None


def region(places: Sequence[Place], bias: int, base: int, num_records: int) -> Region:
    """Build the region for `base`, of a program loaded `bias` above its link-time addresses.

    Raises:
        ValueError: the program is too far from it.
    """
    data_at = _to_page(_code_bytes(places)) + PAGE_BYTES
    records_at = data_at + _to_page(_COUNTERS_AT + 8 * len(places))
    code = bytearray(_writer(base + data_at, base))
    jumps = {}
    for number, place in enumerate(places):
        code += b"\x90" * (-len(code) % 16)
        at, start = place.address + bias, base + len(code)
        jumps[at] = b"\xe9" + _distance(at + JUMP_BYTES, start) + b"\x90" * (place.size_bytes - JUMP_BYTES)
        code += _stub(place, number, at, start, base, base + data_at + _COUNTERS_AT + 8 * number)
    return Region(bytes(code), data_at, records_at, _to_page(records_at + RECORD_BYTES * num_records), jumps)


def region_bytes(places: Sequence[Place], num_records: int) -> int:
    """At most how large the region is."""
    data_bytes = _to_page(_COUNTERS_AT + 8 * len(places))
    return _to_page(_code_bytes(places)) + PAGE_BYTES + data_bytes + _to_page(RECORD_BYTES * num_records)


def initial_data(places: Sequence[Place], records: int, end: int) -> bytes:
    """What the data begin with; `records` and `end` are the addresses of the first record and after the last."""
    head = struct.pack("<Q56xQ56x", records, end)
    return head + b"".join(struct.pack("<Q", place.period) for place in places)


def _to_page(size_bytes: int) -> int:
    return -(-size_bytes // PAGE_BYTES) * PAGE_BYTES


def _code_bytes(places: Sequence[Place]) -> int:
    return 128 + sum(112 + place.size_bytes for place in places)


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
    """Write a record with the number in rcx, if there is room for it."""
    code = bytearray(b"\x9c\x50\x52")  # pushfq; push rax; push rdx
    code += b"\x0f\x31"  # rdtsc
    code += b"\x48\xc1\xe2\x20"  # shl rdx, 32
    code += b"\x48\x09\xd0"  # or rax, rdx
    for opcode, target in ((b"\x48\x8b\x15", data + _NEXT_AT), (b"\x48\x3b\x15", data + _END_AT)):
        code += opcode + _distance(start + len(code) + 7, target)  # mov rdx, [next]; cmp rdx, [end]
    write = b"\x48\x0f\xc3\x02"  # movnti [rdx], rax
    write += b"\x48\x0f\xc3\x4a\x08"  # movnti [rdx + 8], rcx
    write += b"\x48\x83\xc2\x10"  # add rdx, 16
    code += b"\x73" + bytes([len(write) + 7]) + write  # jae full
    code += b"\x48\x89\x15" + _distance(start + len(code) + 7, data + _NEXT_AT)  # mov [next], rdx
    return bytes(code) + b"\x5a\x58\x9d\xc3"  # full: pop rdx; pop rax; popfq; ret
