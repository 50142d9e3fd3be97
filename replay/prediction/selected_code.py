"""Code that a program chose by the processor's features: on a machine with others it may choose other code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from foretrace.base.names import short_name
from foretrace.profiles.features import features_of
from foretrace.profiles.profile import Profile
from foretrace.replay.base.records import ErrorPart
from foretrace.tracer.signature.records import Provenance
from foretrace.tracer.signature.selection import DEDICATED, SelectedWork, Selection

LEAST_SHARE = 0.05
"""Least share of the run's instructions in code that may be other code on a machine that widens a prediction."""
_LEAST_NAMED_SHARE = 0.01
"""Least share in parts of the chosen code whose features are named."""
_DEDICATED_FACTOR = 6.5
"""Largest speed-up by instructions made for a purpose: SHA-256 on a Cortex-A53 in 15.5 and 2.38
cycles a byte (OpenSSL, crypto/sha/asm/sha512-armv8.pl, table of performance; 5.0 to 6.5 on five cores)."""
_WIDTH_FACTOR = 2.0
"""Largest speed-up by wider vectors (assumed): twice as many elements in each."""
_NO_FACTOR = frozenset({"erms", "fsrm", "movdiri", "movdir64b"})
"""Copies by `rep movsb`, which the engine hides: others move as many bytes. Direct stores: as wide as others."""
_REPLACES = {"vaes": "aes", "vpclmulqdq": "pclmulqdq"}
"""Wider forms of instructions made for a purpose, and what they replace."""


_PURPOSES: Mapping[str, str] = {
    "aes": "AES", "vaes": "AES", "pclmulqdq": "products", "vpclmulqdq": "products", "sha_ni": "SHA-256",
    "sha2": "SHA-256", "sse4_2": "CRC-32C", "crc32": "CRC-32C", "sha3": "SHA-3", "dotprod": "dot products",
    "i8mm": "matrices", "amx_int8": "matrices", "bf16": "bfloat16", "amx_bf16": "bfloat16",
}  # fmt: skip
"""{feature: purpose of its instructions}, by which two instruction sets are compared."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the chosen code: features that other code may use in its place on a machine (`more`), and features
    that it uses and the machine lacks (`fewer`)."""

    work: SelectedWork
    more: frozenset[str]
    fewer: frozenset[str]


def parts_of(selection: Selection, profile: Profile, guest: str) -> list[Part]:
    """The parts of the chosen code for which a machine may run other code. `guest`: the instruction set traced.

    A machine whose features are not known is taken to have those of the tracing machine.
    """
    more, fewer = _differences(selection, profile, guest)
    if selection.work is None:
        unused = DEDICATED - set(selection.contained)
        own = SelectedWork("question", (), selection.question_share), SelectedWork("ifunc", (), selection.ifunc_share)
        found = [Part(work, more - unused, fewer - unused) for work in own]
    else:
        contained = {"question": selection.contained, "ifunc": selection.contained_by_ifuncs}
        found = [
            Part(work, _replacing(more.intersection(contained[work.how]), work), fewer.intersection(work.extensions))
            for work in selection.work
        ]
    return [part for part in found if _factor(part.more, part.work) > 1 or _factor(part.fewer, part.work) > 1]


def _differences(selection: Selection, profile: Profile, guest: str) -> tuple[frozenset[str], frozenset[str]]:
    """The guest's features that a machine has more than the engine, and those it has fewer.

    Of a machine with another instruction set dedicated instructions alone are compared, by their purpose: all other
    code is another one there, which has an error of its own.
    """
    engine, known = frozenset(selection.engine_features), features_of(profile)
    there = known or (frozenset(selection.host_features) if _runs(profile, guest) else frozenset())
    if not engine or not there:
        return frozenset(), frozenset()
    if not _runs(profile, guest):
        return _for(_purposes(there) - _purposes(engine)), engine & _for(_purposes(engine) - _purposes(there))
    more, fewer = there - engine - _NO_FACTOR, engine - there - _NO_FACTOR
    if "avx512f" in more:
        more = frozenset(name for name in more if name == "avx512f" or not name.startswith("avx512"))
    return more, fewer


def _runs(profile: Profile, guest: str) -> bool:
    return profile.instruction_set in (None, guest)


def _purposes(features: Iterable[str]) -> frozenset[str]:
    return frozenset(_PURPOSES[feature] for feature in features if feature in _PURPOSES)


def _for(purposes: frozenset[str]) -> frozenset[str]:
    """The features of all instruction sets that serve one of these purposes."""
    return frozenset(feature for feature, purpose in _PURPOSES.items() if purpose in purposes)


def _replacing(features: frozenset[str], work: SelectedWork) -> frozenset[str]:
    """Features of a module whose instructions may be used in the place of some of its code.

    Code made of instructions for one purpose gives way to their wider forms alone, and those to nothing else.
    """
    used = DEDICATED.intersection(work.extensions)
    return frozenset(
        name
        for name in features
        if name not in DEDICATED or (_REPLACES[name] in used if name in _REPLACES else not used)
    )


def _factor(features: frozenset[str], work: SelectedWork) -> float:
    if work.how == "question" and features & DEDICATED:
        return _DEDICATED_FACTOR
    return _WIDTH_FACTOR if features - DEDICATED else 1.0


def _differing(provenance: Provenance, profile: Profile) -> list[Part]:
    selection = provenance.selection
    if selection is None:
        return []
    found = parts_of(selection, profile, provenance.guest)
    return found if sum(part.work.share for part in found) >= LEAST_SHARE else []


def selection_error(provenance: Provenance, profile: Profile) -> ErrorPart | None:
    """The error of a prediction from other code being chosen on a machine; None: none."""
    found = _differing(provenance, profile)
    if not found:
        return None
    low = 1 - sum(part.work.share * (1 - 1 / _factor(part.more, part.work)) for part in found)
    high = 1 + sum(part.work.share * (_factor(part.fewer, part.work) - 1) for part in found)
    return ErrorPart("code chosen by features", max(low, 1 / _DEDICATED_FACTOR), high)


def selection_warning(provenance: Provenance, profile: Profile) -> str:
    """A warning that other code may be chosen on a machine; empty: none."""
    selection, found = provenance.selection, _differing(provenance, profile)
    if selection is None or not found:
        return ""
    named = [part for part in found if part.work.share >= _LEAST_NAMED_SHARE] or found
    more = frozenset().union(*(part.more for part in named))
    fewer = frozenset().union(*(part.fewer for part in named))
    like = "" if _runs(profile, provenance.guest) else "the like of "
    said = []
    if more:
        said.append(f"has {like}{_listed(more)}, which the engine lacks")
    if fewer:
        said.append(f"lacks {like}{_listed(fewer)}, which the engine has")
    first = selection.functions[0]
    name = short_name(first.function) or "a function without a name"
    whose = "" if features_of(profile) is not None else " (taken to be like this machine)"
    return (
        f"{selection.share:.0%} of the instructions are in code chosen by the processor's features (most of them in "
        f"{name} of {first.module.rpartition('/')[2]}); {profile.name}{whose} "
        f"{' and '.join(said)}: it may run other code for {sum(part.work.share for part in found):.0%} of the "
        "instructions, and the interval is widened"
    )


def _listed(features: frozenset[str]) -> str:
    names = sorted(features, key=lambda name: (name not in DEDICATED, name))
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + more
