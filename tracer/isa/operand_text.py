"""Operands of an instruction as a disassembler writes them, taken apart."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SEPARATOR = re.compile(r",\s*(?![^\[{(]*[\]})])")
_INTEGER = re.compile(r"#?(-?)(0x)?([0-9a-f]+)")


def split_operands(text: str) -> list[str]:
    """The operands, separated by commas outside brackets."""
    return _SEPARATOR.split(text) if text else []


def integer(text: str) -> int | None:
    """The value of an integer operand, such as `16` or `#-0x10`; None for other text."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    try:
        value = int(match[3], 16 if match[2] else 10)
    except ValueError:
        return None
    return -value if match[1] else value


def is_low_mask(value: int | None) -> bool:
    """Whether a number has its lowest bits set, and no others."""
    return value is not None and value > 0 and value & (value + 1) == 0


def associative(operations: Iterable[tuple[str, re.Pattern[str]]], mnemonic: str) -> str:
    """The operation whose pattern a mnemonic fits; "" for none."""
    return next((name for name, pattern in operations if pattern.fullmatch(mnemonic)), "")
