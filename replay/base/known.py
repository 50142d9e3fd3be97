"""Figures of a core as arrays [fast, typical, slow]: as its profile gives them, or as assumed of cores of its class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretrace.profiles.figure import CoreClass
from foretrace.profiles.profile import Core
from foretrace.profiles.ranges import Assumptions, assumption_text, default_of, measured, noise_of

from .spread import Floats, assumed_as, exactly


@dataclass(frozen=True, slots=True)
class KnownCore:
    """A profile's core, the class it is of, and where to note what is assumed of it."""

    core: Core
    of: CoreClass
    notes: Assumptions

    def given(self, name: str) -> float | None:
        """A figure of the profile."""
        value: float | None = getattr(self.core, name)
        return value

    def noise(self, name: str) -> float:
        """The noise of a figure, as far as it widens its range."""
        return noise_of(self.core.noise, name)

    def figure(self, name: str, base: float | Floats = 1.0) -> Floats:
        """[3]: a figure without its noise; or as assumed, in terms of `base` where the declaration is."""
        value = self.given(name)
        return self.assumed(name, base) if value is None else exactly(value)

    def cycles(self, name: str, base: float | Floats = 1.0) -> Floats:
        """[3]: a figure of which less is faster, with its noise; or as assumed."""
        return self._with_noise(name, base, more_is_faster=False)

    def room(self, name: str, base: float | Floats = 1.0) -> Floats:
        """[3]: a figure of which more is faster, with its noise; or as assumed."""
        return self._with_noise(name, base, more_is_faster=True)

    def _with_noise(self, name: str, base: float | Floats, *, more_is_faster: bool) -> Floats:
        value = self.given(name)
        if value is None:
            return self.assumed(name, base)
        return np.array(measured(value, self.noise(name), more_is_faster=more_is_faster))

    def assumed(self, name: str, base: float | Floats = 1.0) -> Floats:
        """[3]: as the declaration has it; `base` is what it is a multiple of."""
        default = default_of(Core, name, self.of)
        values = np.array([default.fast, default.typical, default.slow]) * (base if default.of else 1.0)
        return assumed_as(self.notes, name, assumption_text(Core, name, default), values)
