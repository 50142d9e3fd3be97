"""Code that a program chose by the processor's features: on a machine with others it may choose other code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from foretrace.profiles.features import features_of
from foretrace.profiles.profile import Profile
from foretrace.tracer.signature.records import Provenance
from foretrace.tracer.signature.selection import DEDICATED, Selection

from .records import ErrorPart

LEAST_SHARE = 0.05
"""Least share of the run's instructions in chosen code that widens a prediction."""
_DEDICATED_FACTOR = 6.5
"""Largest speed-up by instructions made for a purpose: SHA-256 on a Cortex-A53 in 15.5 and 2.38
cycles a byte (OpenSSL, crypto/sha/asm/sha512-armv8.pl, table of performance; 5.0 to 6.5 on five cores)."""
_WIDTH_FACTOR = 2.0
"""Largest speed-up by wider vectors (assumed): twice as many elements in each."""
_NO_FACTOR = frozenset({"erms", "fsrm", "movdiri", "movdir64b"})
"""Copies by `rep movsb`, which the engine hides: others move as many bytes. Direct stores: as wide as others."""


@dataclass(frozen=True, slots=True)
class Differences:
    """Features that chosen code may use: those the machine has more than the engine, and those it has fewer."""

    more: frozenset[str]
    fewer: frozenset[str]
    is_known: bool


_PURPOSES: Mapping[str, str] = {
    "aes": "AES", "vaes": "AES", "pclmulqdq": "products", "vpclmulqdq": "products", "sha_ni": "SHA-256",
    "sha2": "SHA-256", "sse4_2": "CRC-32C", "crc32": "CRC-32C", "sha3": "SHA-3", "dotprod": "dot products",
    "i8mm": "matrices", "amx_int8": "matrices", "bf16": "bfloat16", "amx_bf16": "bfloat16",
}  # fmt: skip
"""The purpose of instructions, by which those of two instruction sets are compared."""


def differences(selection: Selection, profile: Profile, guest: str) -> Differences:
    """The differences of a machine from the engine. Unknown features are taken to be those of the tracing machine.

    `guest` is the instruction set that was traced. Of a machine with another one, dedicated instructions alone are
    compared, by their purpose: all other code is another one there anyhow.
    """
    known = features_of(profile)
    engine, able = frozenset(selection.engine_features), frozenset(selection.contained)
    if profile.instruction_set not in (None, guest):
        if not engine or known is None:
            return Differences(frozenset(), frozenset(), False)
        more = _for(known, _purposes(able) - _purposes(engine))
        return Differences(more, _for(engine, _purposes(able) - _purposes(known)), True)
    there = known if known is not None else frozenset(selection.host_features)
    if not engine or not there:
        return Differences(frozenset(), frozenset(), False)

    def matters(feature: str) -> bool:
        return feature not in _NO_FACTOR and (feature not in DEDICATED or feature in able)

    more = frozenset(filter(matters, there - engine))
    return Differences(more, frozenset(filter(matters, engine - there)), known is not None)


def _purposes(features: Iterable[str]) -> frozenset[str]:
    return frozenset(_PURPOSES[feature] for feature in features if feature in _PURPOSES)


def _for(features: Iterable[str], purposes: frozenset[str]) -> frozenset[str]:
    """The features that serve one of these purposes."""
    return frozenset(feature for feature in features if _PURPOSES.get(feature) in purposes)


def _factor(features: frozenset[str], *, is_own: bool) -> float:
    if is_own and features & DEDICATED:
        return _DEDICATED_FACTOR
    return _WIDTH_FACTOR if features - DEDICATED else 1.0


def selection_error(provenance: Provenance, profile: Profile) -> ErrorPart | None:
    """The error of a prediction from other code being chosen on a machine; None: none."""
    selection = provenance.selection
    if selection is None or selection.share < LEAST_SHARE:
        return None
    found = differences(selection, profile, provenance.guest)
    low = high = 1.0
    for share, is_own in ((selection.question_share, True), (selection.ifunc_share, False)):
        low -= share * (1 - 1 / _factor(found.more, is_own=is_own))
        high += share * (_factor(found.fewer, is_own=is_own) - 1)
    return None if low == high == 1.0 else ErrorPart("code chosen by features", max(low, 1 / _DEDICATED_FACTOR), high)


def selection_warning(provenance: Provenance, profile: Profile) -> str:
    """A warning that other code may be chosen on a machine; empty: none."""
    selection = provenance.selection
    if selection is None or selection_error(provenance, profile) is None:
        return ""
    found = differences(selection, profile, provenance.guest)
    parts = []
    if found.more:
        parts.append(f"has {_listed(found.more)}, which the engine lacks")
    if found.fewer:
        parts.append(f"lacks {_listed(found.fewer)}, which the engine has")
    first = selection.functions[0]
    whose = "" if found.is_known else " (taken to be like this machine)"
    return (
        f"{selection.share:.0%} of the instructions are in code chosen by the processor's features (most of them in "
        f"{first.function or 'a function without a name'} of {first.module.rpartition('/')[2]}); {profile.name}{whose} "
        f"{' and '.join(parts)}: it may run other code, and the interval is widened"
    )


def _listed(features: frozenset[str]) -> str:
    names = sorted(features, key=lambda name: (name not in DEDICATED, name))
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + more
