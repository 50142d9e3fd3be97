"""Figures with a range: as a profile gives them, or as assumed where it does not. Each assumption is one sentence.

This is the one place where a missing figure becomes fast, typical and slow. What a figure is assumed to be is declared
with it (`Figure.defaults`); models ask here and say in `Assumptions` what they took.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import Struct

from foretrace.base.units import format_seconds

from .figure import CoreClass, Default, figures_of_record, unit_of
from .profile import Core, Profile

MOST_NOISE = 0.25
"""Noise of a measured figure that widens its range at most: the best of its samples is kept, so it is off by less."""


class Range(NamedTuple):
    """A figure where it makes a machine fastest, as it typically is, and where it makes it slowest."""

    fast: float
    typical: float
    slow: float

    @classmethod
    def exactly(cls, value: float) -> Range:
        """A figure that is not in doubt."""
        return cls(value, value, value)

    @classmethod
    def of(cls, default: Default) -> Range:
        """A default's range, in its own terms."""
        return cls(default.fast, default.typical, default.slow)

    def times(self, factor: Range) -> Range:
        """The product with another figure, both fastest at once."""
        return Range(self.fast * factor.fast, self.typical * factor.typical, self.slow * factor.slow)

    @property
    def factor(self) -> float:
        """The larger end over the smaller one: 1 of a figure that is not in doubt."""
        low, high = sorted((self.fast, self.slow))
        return 1.0 if low == high else high / low if low > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class Assumption:
    """A figure that the profile does not give and what was put in its place; `range`: its values, where it has any."""

    name: str
    text: str
    range: Range | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """One line for people and for JSON."""
        return f"{self.name}: {self.text}"


class Assumptions:
    """Collects the assumptions made about a machine, each name once."""

    def __init__(self, settled: Container[str] = ()) -> None:
        """Nothing yet. `settled` are names of figures that are taken to be exactly as typical."""
        self._settled = settled
        self._found: dict[str, Assumption] = {}

    def note(self, name: str, text: str, values: Range | None = None) -> None:
        """Add an assumption; a name noted before keeps its text."""
        self._found.setdefault(name, Assumption(name, text, values))

    def figure(self, name: str, text: str, values: Range) -> Range:
        """Add the assumption of a figure. Returns its range, which is one value of a settled figure."""
        self.note(name, text, values)
        return Range.exactly(values.typical) if name in self._settled else values

    @property
    def listed(self) -> tuple[Assumption, ...]:
        """In the order in which they were made."""
        return tuple(self._found.values())


def noise_of(noise: Mapping[str, float] | None, name: str) -> float:
    """The noise of a figure, as far as it widens its range; `noise` is that of its table."""
    return min((noise or {}).get(name, 0.0), MOST_NOISE)


def measured(value: float, noise: float, *, more_is_faster: bool) -> Range:
    """A figure with its noise."""
    low, high = value / (1 + noise), value * (1 + noise)
    return Range(high, value, low) if more_is_faster else Range(low, value, high)


def core_class(profile: Profile) -> CoreClass:
    """The class of a profile's cores."""
    core, product = profile.core, profile.product
    return CoreClass(
        in_order=bool(core and core.in_order),
        width=core.issue_width_instructions_per_cycle if core else None,
        instruction_set=profile.instruction_set,
        microarchitecture=profile.microarchitecture,
        year=product.year if product else None,
    )


def default_of(
    record: type[Struct], name: str, core: CoreClass, level: str = "", bases: Collection[str] | None = None
) -> Default:
    """The range assumed of a figure that has one for any core; with `bases`, the figures that it may be a multiple of.

    Raises:
        LookupError: none is declared for such a core.
    """
    default = figures_of_record(record)[name].default_for(core, level, bases)
    if default is None:
        raise LookupError(f"{record.__name__}.{name}: no default is declared for {core}")
    return default


def core_figure(profile: Profile, name: str, assumed: Assumptions) -> Range:
    """A figure of a profile's core as given, without its noise; else as assumed of cores of its class."""
    given: float | None = getattr(profile.core, name) if profile.core else None
    if given is not None:
        return Range.exactly(given)
    default = default_of(Core, name, core_class(profile))
    return assumed.figure(name, assumption_text(Core, name, default), Range.of(default))


def assumption_text(record: type[Struct], name: str, default: Default) -> str:
    """The sentence on an assumed figure of a record."""
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
    return f"{figures_of_record(record)[name].meaning}: {not_given(amount, default)}"


def not_given(amount: str, default: Default | None = None) -> str:
    """The sentence on a figure that a profile lacks: what was taken, and of which cores that is typical."""
    of_class = f", as of {default.cores}" if default is not None and default.cores else ""
    return f"not in the profile, {amount} assumed{of_class}"
