"""Stack use of x87 instructions, which name their eight registers by the distance from the stack's top.

A core renames the stack's registers like all others: divisions of two neighbouring stack registers are independent.
Opcodes are those of the Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, section A.5 (escape
opcodes D8 to DF).
"""

from __future__ import annotations

from functools import cache

from .instruction_set import StackUse

_PREFIXES = frozenset({0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, *range(0x40, 0x50)})
_ESCAPE = 0xD8
_REGISTER_FORM = 0xC0
_NO_USE = StackUse()

_PUSH = StackUse(pushes=1, writes=(0,))
_READ = StackUse(reads=(0,))
_POP = StackUse(reads=(0,), pops=1)
_CHANGE = StackUse(reads=(0,), writes=(0,))
_OF_TWO = StackUse(reads=(0, 1), writes=(0,))
_TO_SECOND = StackUse(reads=(0, 1), writes=(1,), pops=1)
_IN_TWO = StackUse(reads=(0,), pushes=1, writes=(0, 1))
_COMPARE_TWO = StackUse(reads=(0, 1), pops=2)

_ARITHMETIC = (_CHANGE, _CHANGE, _READ, _POP, *[_CHANGE] * 4)  # add, multiply, two comparisons, subtract, divide
_MEMORY: dict[int, tuple[StackUse, ...]] = {
    0xD8: _ARITHMETIC,
    0xD9: (_PUSH, _NO_USE, _READ, _POP),
    0xDA: _ARITHMETIC,
    0xDB: (_PUSH, _POP, _READ, _POP, _NO_USE, _PUSH, _NO_USE, _POP),
    0xDC: _ARITHMETIC,
    0xDD: (_PUSH, _POP, _READ, _POP),
    0xDE: _ARITHMETIC,
    0xDF: (_PUSH, _POP, _READ, _POP, _PUSH, _PUSH, _POP, _POP),
}
"""Stack use of instructions with a memory operand, by the first byte and the operation field of the second."""
_FIXED: dict[int, dict[int, StackUse]] = {
    0xD9: dict.fromkeys(range(0xE8, 0xEF), _PUSH)
    | dict.fromkeys((0xE0, 0xE1, 0xF0, 0xFA, 0xFC, 0xFE, 0xFF), _CHANGE)
    | dict.fromkeys((0xE4, 0xE5), _READ)
    | dict.fromkeys((0xF1, 0xF3, 0xF9), _TO_SECOND)
    | dict.fromkeys((0xF2, 0xF4, 0xFB), _IN_TWO)
    | dict.fromkeys((0xF5, 0xF8, 0xFD), _OF_TWO)
    | {0xF6: StackUse(pushes=1), 0xF7: StackUse(pops=1)},
    0xDA: {0xE9: _COMPARE_TWO},
    0xDE: {0xD9: _COMPARE_TWO},
}
"""Without operands, by both bytes."""


@cache
def stack_use(code: bytes) -> StackUse | None:
    """An instruction's use of the x87 stack; None if it is no x87 instruction."""
    at = 0
    while at < len(code) and code[at] in _PREFIXES:
        at += 1
    if at + 1 >= len(code) or not _ESCAPE <= code[at] < _ESCAPE + 8:
        return None
    first, second = code[at], code[at + 1]
    operation, number = second >> 3 & 7, second & 7
    if second < _REGISTER_FORM:
        of_first = _MEMORY[first]
        return of_first[operation] if operation < len(of_first) else _NO_USE
    return _FIXED.get(first, {}).get(second) or _of_register(first, operation, number)


def _of_register(first: int, operation: int, number: int) -> StackUse:
    """Stack use of instructions that name a register other than the top."""
    both = tuple(dict.fromkeys((0, number)))
    to_number = StackUse(reads=both, writes=(number,), pops=int(first == 0xDE))
    match first, operation:
        case (0xD8 | 0xDC, 2) | (0xDD, 4) | (0xDB, 5 | 6):  # comparisons
            return StackUse(reads=both)
        case (0xD8 | 0xDC, 3) | (0xDD, 5) | (0xDF, 5 | 6) | (0xDE, 2):  # comparisons that pop
            return StackUse(reads=both, pops=1)
        case (0xD8, _):
            return StackUse(reads=both, writes=(0,))
        case (0xDC | 0xDE, _):
            return to_number
        case (0xDA | 0xDB, 0 | 1 | 2 | 3):  # conditional moves
            return StackUse(reads=both, writes=(0,))
        case (0xD9, 0):
            return StackUse(reads=(number,), pushes=1, writes=(0,))
        case (0xD9, 1):
            return StackUse(exchanges=number)
        case (0xDD, 2):
            return StackUse(reads=(0,), writes=(number,))
        case (0xDD, 3):  # with the top itself it only pops
            return StackUse(reads=(0,), writes=(number,), pops=1) if number else StackUse(pops=1)
    return _NO_USE
