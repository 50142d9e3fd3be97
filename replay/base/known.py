"""Figures of a core as ranges: as the profile gives them, or as its declaration assumes them for cores of the class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretrace.base.units import format_seconds
from foretrace.profiles.figure import CoreClass, Default, figures_of_record, unit_of
from foretrace.profiles.profile import CacheLevel, Core, Memory, Profile

from .spread import Floats, Notes, exactly

_MOST_NOISE = 0.25


def core_class(profile: Profile) -> CoreClass:
    """What a profile tells of the kind of its cores."""
    core, product = profile.core, profile.product
    return CoreClass(
        in_order=bool(core and core.in_order),
        width=core.issue_width_instructions_per_cycle if core else None,
        instruction_set=profile.instruction_set,
        microarchitecture=profile.microarchitecture,
        year=product.year if product else None,
    )


@dataclass(frozen=True, slots=True)
class KnownCore:
    """A profile's core, the class it is of, and where to note what is assumed of it."""

    core: Core
    of: CoreClass
    notes: Notes

    def given(self, name: str) -> float | None:
        """A figure of the profile."""
        value: float | None = getattr(self.core, name)
        return value

    def noise(self, name: str) -> float:
        """How far off a figure may be: the shortest of its samples is kept, so it is less than their spread."""
        return self.noise_of(self.core.noise, name)

    @staticmethod
    def noise_of(noise: dict[str, float] | None, name: str) -> float:
        """The same, of any table of noise."""
        return min((noise or {}).get(name, 0.0), _MOST_NOISE)

    def figure(self, name: str, base: float | Floats = 1.0) -> Floats:
        """[3]: a figure without its noise; or as assumed, in terms of `base` where the declaration is."""
        value = self.given(name)
        return self.assumed(name, base) if value is None else exactly(value)

    def cycles(self, name: str, base: float | Floats = 1.0) -> Floats:
        """[3]: a figure of which less is faster, with its noise; or as assumed."""
        value = self.given(name)
        if value is None:
            return self.assumed(name, base)
        return np.array([value / (1 + self.noise(name)), value, value * (1 + self.noise(name))])

    def room(self, name: str, base: float | Floats = 1.0) -> Floats:
        """[3]: a figure of which more is faster, with its noise; or as assumed."""
        value = self.given(name)
        if value is None:
            return self.assumed(name, base)
        return np.array([value * (1 + self.noise(name)), value, value / (1 + self.noise(name))])

    def assumed(self, name: str, base: float | Floats = 1.0) -> Floats:
        """[3]: as the declaration has it; `base` is what it is a multiple of."""
        default = default_of(Core, name, self.of)
        self.notes.add(name, assumption_text(Core, name, default))
        return np.array([default.fast, default.typical, default.slow]) * (base if default.of else 1.0)


def default_of(record: type[Core | CacheLevel | Memory], name: str, core: CoreClass, level: str = "") -> Default:
    """The range assumed of a figure that has one for any core."""
    default = figures_of_record(record)[name].default_for(core, level)
    if default is None:
        raise LookupError(f"{record.__name__}.{name}: no default is declared for {core}")
    return default


def assumption_text(record: type[Core | CacheLevel | Memory], name: str, default: Default) -> str:
    """What was assumed, of which cores."""
    unit = unit_of(name)
    word = unit.word if unit and not default.of and not default.beyond else ""
    if default.beyond:
        word = "cycles"
    if word == "s":
        times = (format_seconds(value) for value in (default.typical, default.fast, default.slow))
        amount = "{} ({} to {})".format(*times)
    else:
        low, high = sorted((default.fast, default.slow))
        amount = f"{default.typical:g}" + (f" ({low:g} to {high:g})" if low != high else "") + (word and f" {word}")
    amount += f" of {default.of}" if default.of else f" beyond {default.beyond}" if default.beyond else ""
    of_class = f", as of {default.cores}" if default.cores else ""
    return f"{figures_of_record(record)[name].meaning}: not in the profile, {amount} assumed{of_class}"
