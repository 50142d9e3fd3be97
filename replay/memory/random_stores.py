"""What stores at random cost beside loads at random, off a profile's gather/scatter curves.

A scatter stores to lines that no load brought; an update loads each line, stores to it, and has it written back later.
What either takes longer than the gather over the same range is what a line costs more, by the level it comes from. In
main memory it can be less: a core has more stores on their way than loads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from foretrace.profiles.points import IndexMode
from foretrace.profiles.profile import Profile
from foretrace.replay.spread import Floats

_INDEX_BYTES = 4
_ELEMENT_BYTES = 8
_REFERENCES = {"gather": 2, "scatter": 2, "update": 3}
"""Elements that an iteration of a loop references, beside its index."""
_LEAST_SHARE = 0.3
"""Of a loop's lines that must come from a level for its time to tell of that level."""


def random_store_s(profile: Profile, size_bytes: Callable[[int], float], num_caches: int) -> Floats:
    """[3, levels + 1]: what a line takes longer that is stored to at random than one that is loaded so.

    Args:
        profile: of the machine.
        size_bytes: capacity up to and including a level.
        num_caches: its levels.
    """
    return _differences(profile, "scatter", size_bytes, num_caches)


def random_write_back_s(profile: Profile, size_bytes: Callable[[int], float], num_caches: int) -> Floats:
    """[3, levels + 1]: what a line takes longer that is loaded at random and then stored to; arguments as above."""
    return np.maximum(_differences(profile, "update", size_bytes, num_caches), 0)


def _differences(profile: Profile, operation: str, size_bytes: Callable[[int], float], num_caches: int) -> Floats:
    result = np.zeros((3, num_caches + 1))
    gather, other = _iterations(profile, "gather"), _iterations(profile, operation)
    for level in range(1, num_caches + 1):
        found = []
        for range_bytes in sorted(gather.keys() & other.keys()):
            shares = [_share(size_bytes, nearer, range_bytes) for nearer in range(level + 1)]
            if range_bytes <= size_bytes(level) and shares[level] >= _LEAST_SHARE:
                nearer_s = sum(share * result[1, at] for at, share in enumerate(shares[:-1]))
                found.append((other[range_bytes] - gather[range_bytes] - nearer_s) / shares[level])
        if found:
            result[:, level] = min(found), float(np.median(found)), max(found)
    return result


def _share(size_bytes: Callable[[int], float], level: int, range_bytes: float) -> float:
    """Of lines anywhere in a range, those that a level holds and none nearer."""
    return max(min(size_bytes(level), range_bytes) - size_bytes(level - 1), 0.0) / range_bytes


def _iterations(profile: Profile, operation: str) -> dict[float, float]:
    """Seconds of an iteration of a loop over random indices, by its address range."""
    for curve in profile.gather_scatter:
        usual = curve.index_mode is IndexMode.RANDOM and curve.element_bytes == _ELEMENT_BYTES and curve.threads == 1
        if usual and curve.operations == (operation,):
            referenced = _REFERENCES[operation] * _ELEMENT_BYTES + _INDEX_BYTES
            return {float(p.range_bytes): referenced / p.bandwidth_bytes_per_s for p in curve.points}
    return {}
