"""Declaration of a profile's figure: its unit, its meaning, and its default range on cores of a class.

The fields of the records in `profile.py` carry a `Figure` each. Checks, assumptions of predictions and the table in
docs/figures.md follow from it.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from msgspec import Struct


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit by the suffix of the keys that have it, the least and the most that machines have had with room to spare,
    how values are written, and how they are read aloud."""

    suffix: str
    least: float
    most: float
    written: str
    word: str


UNITS = (
    Unit("_hz", 1e5, 1e11, "hertz: 2.1 GHz is 2.1e9", "Hz"),
    Unit("_bytes_per_s", 1e5, 1e17, "bytes a second: 12.8 GB/s is 12.8e9", "bytes/s"),
    Unit("flops_per_s", 1e6, 1e19, "operations a second: 67 Tflop/s is 67e12", "flop/s"),
    Unit("_per_s", 1e4, 1e18, "a second: 4 billion is 4e9", "a second"),
    Unit("launch_latency_s", 1e-9, 10.0, "seconds: 5 µs is 5e-6", "s"),
    Unit("latency_s", 1e-11, 0.1, "seconds: 85 ns is 85e-9", "s"),
    Unit("launch_interval_s", 1e-9, 10.0, "seconds: 5 µs is 5e-6", "s"),
    Unit("_s", 1e-12, 1e5, "seconds: 85 ns is 85e-9", "s"),
    Unit("_per_cycle", 1e-3, 1e6, "a cycle of one core", "a cycle"),
    Unit("_cycles", 1e-3, 1e5, "cycles", "cycles"),
    Unit("_instructions", 1, 1 << 20, "instructions", "instructions"),
    Unit("page_bytes", 512, 1 << 40, "bytes: 4 KiB is 4096", "bytes"),
    Unit("size_bytes", 256, 1 << 52, "bytes: 32 KiB is 32768", "bytes"),
    Unit("line_bytes", 1, 1 << 16, "bytes", "bytes"),
    Unit("power_w", 1e-3, 1e9, "watts", "W"),
    Unit("year", 1940, 2100, "the calendar's", ""),
)
"""The first that fits a key is its unit."""


def unit_of(name: str) -> Unit | None:
    """The unit that a key ends in; None for plain numbers and those with no bounds."""
    return next((unit for unit in UNITS if name.endswith(unit.suffix)), None)


@dataclass(frozen=True, slots=True)
class CoreClass:
    """Traits of a core that select the default of a missing figure."""

    in_order: bool = False
    width: float | None = None
    instruction_set: str | None = None
    microarchitecture: str | None = None
    year: int | None = None


@dataclass(frozen=True, slots=True)
class Default:
    """Default range of an unpublished figure on a class of cores, `fast`, `typical`, `slow`, with its source.

    They are multiples of the figure `of` (empty: in the key's own unit), or come on top of the figure `beyond`. The
    other fields say which cores are meant: all, unless given. `year` and `width` are the least; of machines that
    do not tell them, nothing is known to fit. `level` is "first", "middle" or "last" of the caches.
    """

    fast: float
    typical: float
    slow: float
    source: str
    of: str = ""
    beyond: str = ""
    in_order: bool | None = None
    width: float = 0.0
    year: int = 0
    instruction_sets: tuple[str, ...] = ()
    microarchitectures: tuple[str, ...] = ()
    level: str = ""

    def fits(self, core: CoreClass, level: str = "") -> bool:
        """Whether these are the figures of such a core."""
        return (
            (self.in_order is None or self.in_order == core.in_order)
            and (core.width or 0.0) >= self.width
            and (core.year or 0) >= self.year
            and (not self.instruction_sets or core.instruction_set in self.instruction_sets)
            and (not self.microarchitectures or core.microarchitecture in self.microarchitectures)
            and self.level in ("", level)
        )

    @property
    def cores(self) -> str:
        """The class in words; empty if it is all."""
        words = {True: ["in-order cores"], False: ["out-of-order cores"], None: ["cores"]}[self.in_order]
        words += [f"that issue {self.width:g} or more"] if self.width else []
        words += [f"from {self.year} on"] if self.year else []
        words += [f"of {', '.join(self.instruction_sets)}"] if self.instruction_sets else []
        words = [f"{', '.join(self.microarchitectures)}"] if self.microarchitectures else words
        if self.level:
            words = [f"the {self.level} cache", *(["of", *words] if words != ["cores"] else [])]
        return "" if words == ["cores"] else " ".join(words)

    @property
    def range_text(self) -> str:
        """Typical value with its range, as in "1 (1 to 2)"."""
        times = f" x {self.of}" if self.of else f" cycles beyond {self.beyond}" if self.beyond else ""
        times = " cycles" if self.of == "cycles" else times
        low, high = sorted((self.fast, self.slow))
        if low == high:
            return f"{self.typical:g}{times}"
        return f"{self.typical:g} ({low:g} to {high:g}){times}"


@dataclass(frozen=True, slots=True)
class Figure:
    """Meaning and defaults of a profile's key. The first of its `defaults` that fits a core counts; none: it is not
    assumed, and models do without. `may_be_zero`: 0 is a figure as well."""

    meaning: str
    defaults: tuple[Default, ...] = ()
    may_be_zero: bool = False

    def default_for(self, core: CoreClass, level: str = "", bases: Collection[str] | None = None) -> Default | None:
        """The range on such a core; with `bases`, one that is a multiple of none but these figures."""
        fitting = (default for default in self.defaults if default.fits(core, level))
        return next((one for one in fitting if bases is None or not one.of or one.of in bases), None)


@functools.cache
def figures_of_record(record: type[Struct]) -> Mapping[str, Figure]:
    """The figures of a record, by key, in its order."""
    hints = typing.get_type_hints(record, include_extras=True)
    return {
        name: extra
        for name in record.__struct_fields__
        for extra in getattr(hints[name], "__metadata__", ())
        if isinstance(extra, Figure)
    }
