"""Formatting of quantities. Sizes use powers of 1024 (KiB), rates and frequencies powers of 1000 (GB/s)."""

from __future__ import annotations

import math


def _scaled(value: float, base: int, units: tuple[str, ...], digits: int = 3) -> str:
    """`value` in the unit that brings it between 1 and `base`, rounded to significant digits."""
    power = 0
    while power < len(units) - 1 and float(f"{abs(value):.{digits}g}") >= base:
        value /= base
        power += 1
    return f"{_rounded(value, digits)} {units[power]}"


def _rounded(value: float, digits: int) -> str:
    """`value` with `digits` significant digits, whole digits always kept, no exponent and no trailing zeros."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_bytes(size_bytes: float) -> str:
    """A size: `format_bytes(196608)` is "192 KiB"."""
    return _scaled(size_bytes, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"), digits=4)


def format_bytes_per_s(rate: float) -> str:
    """A bandwidth: `format_bytes_per_s(48e9)` is "48 GB/s"."""
    return _scaled(rate, 1000, ("B/s", "kB/s", "MB/s", "GB/s", "TB/s"))


def format_hz(frequency: float) -> str:
    """A frequency: `format_hz(2.1e9)` is "2.1 GHz"."""
    return _scaled(frequency, 1000, ("Hz", "kHz", "MHz", "GHz"))


def format_count(count: float) -> str:
    """A number of things: `format_count(12_345_678)` is "12.3 M"."""
    return _scaled(count, 1000, ("", "k", "M", "G", "T")).rstrip()


def counted(count: int, noun: str) -> str:
    """A number and its noun: "1 loop", "1,024 launches"."""
    ending = "" if count == 1 else "es" if noun.endswith(("ch", "sh", "s", "x")) else "s"
    return f"{count:,} {noun}{ending}"


_LEAST_NS = 0.01
"""No figure is printed below this."""


def format_seconds(seconds: float) -> str:
    """A time: "85 ns", "3.2 ms", "12.5 s", "2 min 5 s", "3 h 12 min". No shorter unit than nanoseconds is used."""
    if seconds < 0:
        return "-" + format_seconds(-seconds)
    if seconds == 0:
        return "0 s"
    if not math.isfinite(seconds):
        return f"{seconds:g} s"
    if seconds < 0.9995:
        nanoseconds = seconds * 1e9
        return _scaled(nanoseconds, 1000, ("ns", "µs", "ms")) if nanoseconds >= _LEAST_NS else f"< {_LEAST_NS:g} ns"
    if seconds < 119.5:
        return f"{_rounded(seconds, 3)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min"


def parse_factor(text: str) -> float:
    """The factor of a what-if: 0.5 of "0.5x" or "0.5".

    Raises:
        ValueError: it is no positive number.
    """
    factor = float(text.removesuffix("x"))
    if not 0 < factor < math.inf:
        raise ValueError(f"{factor} is no positive number")
    return factor
