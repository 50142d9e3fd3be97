"""Waiting policy of a parallel region's runtime on a machine: whether threads spin or sleep.

What decides is the number of threads, the cores of the machine the program is replayed on, and the runtime's settings
(environment variables of the traced command). How they waited while the program was traced says nothing: a tracer runs
one thread at a time, on another machine.

libgomp (GCC; libgomp/env.c at commit 0437c263 of 2020: initialize_env, parse_spincount, parse_wait_policy;
config/linux/wait.h at 16763729 of 2024: do_spin, do_wait): a thread that waits, at a barrier or for a lock, tests
GOMP_SPINCOUNT times, then sleeps. The default is 300,000 times, 30 billion with OMP_WAIT_POLICY=ACTIVE, none with
PASSIVE. With more threads of the runtime in the process than available CPUs it is at most 100 times, 1,000 with ACTIVE,
none with PASSIVE. Newer versions test once by default on x86-64 processors with cores of several kinds
(config/linux/x86/spincount.h at 254a858a), which profiles do not tell.

libomp (LLVM; openmp/runtime/src/kmp_settings.cpp at commit 0202a3b6: __kmp_stg_parse_blocktime,
__kmp_stg_parse_wait_policy, __kmp_stg_init; kmp.h at 00983f8b: KMP_DEFAULT_BLOCKTIME; kmp_wait_release.h at 03a9ccd1:
__kmp_wait_template): a thread spins for KMP_BLOCKTIME, by default 200 ms, then sleeps. Only where that is not set,
OMP_WAIT_POLICY=ACTIVE makes it infinite, and PASSIVE or KMP_LIBRARY=throughput none; KMP_LIBRARY is the stronger one.
With more threads than available CPUs, threads that spin yield their CPU in between. That is neither way of waiting
here, so that it is open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from foretrace.tracer.signature.records import THREAD_SETTINGS
from foretrace.tracer.signature.tree_records import ExecutionTree

from .runtimes import LIBGOMP, LIBOMP, module_name

_DEFAULT, _ACTIVE = 300_000, 30_000_000_000
_THROTTLED, _THROTTLED_ACTIVE = 100, 1_000
SPINS_PER_S = 1e8
"""Tests that libgomp counts on in a second (libgomp/env.c: "a rough estimation of 100000 spins per msec")."""
SLEEPS_BELOW_S, SPINS_ABOVE_S = 5e-6, 1e-3
"""Who spins for less has gone to sleep before a wait is over; who spins for longer pays little for waking. Between
these it depends on the wait."""
_BLOCKTIME_S = 0.2
_NUMBER = re.compile(r"([+-]?\d+)\s*([kKmMgGtT]?)")
_TIMES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_MS = re.compile(r"(\d+)\s*([a-zA-Z]*)")


class Waits(StrEnum):
    """Way of waiting."""

    SPIN = "spin"
    SLEEP = "sleep"


@dataclass(frozen=True, slots=True)
class TeamWaits:
    """Waiting policy of a team, the likely one where it is open; and why."""

    how: Waits
    why: str
    is_open: bool = False

    @property
    def other(self) -> TeamWaits:
        """The other way."""
        return TeamWaits(Waits.SLEEP if self.how is Waits.SPIN else Waits.SPIN, self.why, self.is_open)


def team_waits(tree: ExecutionTree, settings: Mapping[str, str] | None, threads: int, cores: int | None) -> TeamWaits:
    """The waiting policy of a team of `threads`.

    Args:
        tree: of the program: which runtime it uses.
        settings: of the traced command, those of `THREAD_SETTINGS` that were set; None: not known.
        threads: of the team.
        cores: of the machine; None: not known.
    """
    given = {name: value.strip() for name, value in (settings or {}).items()}
    modules = [module_name(tree, node) for node in range(len(tree))]
    is_libomp = any(map(LIBOMP.match, modules)) and not any(map(LIBGOMP.match, modules))
    names = [name for name in THREAD_SETTINGS if name in given]
    unset = "is not set" if settings is not None else "is not in the signature, taken as not set"
    said = ", ".join(f"{name}={given[name]}" for name in names) or f"OMP_WAIT_POLICY {unset}"
    on = f"{threads} threads on {cores} cores" if cores is not None else f"{threads} threads, cores not known"
    why = f"{on}; {said}"
    is_crowded = cores is not None and threads > cores
    if is_libomp:
        spins_s = _blocktime_s(given)
        return _by_time(spins_s, why, is_open=is_crowded and spins_s > 0)
    policy = given.get("OMP_WAIT_POLICY", "").upper()
    spins_s = _spins(given.get("GOMP_SPINCOUNT"), policy) / SPINS_PER_S
    if cores is None:
        return _by_time(spins_s, why, is_open=spins_s > SLEEPS_BELOW_S)
    if is_crowded:
        throttled = _THROTTLED_ACTIVE if policy == "ACTIVE" else 0 if policy == "PASSIVE" else _THROTTLED
        spins_s = min(spins_s, throttled / SPINS_PER_S)
    return _by_time(spins_s, why)


def _by_time(spins_s: float, why: str, *, is_open: bool = False) -> TeamWaits:
    between = SLEEPS_BELOW_S < spins_s < SPINS_ABOVE_S
    how = Waits.SLEEP if spins_s <= SLEEPS_BELOW_S else Waits.SPIN
    return TeamWaits(how, why, is_open or between)


def _spins(count: str | None, policy: str) -> float:
    if count is not None:
        if count.lower() in ("infinite", "infinity"):
            return float(_ACTIVE)
        found = _NUMBER.fullmatch(count)
        if found:  # strtoull takes a negative number for one near 2^64
            most = 2**64 - 1
            return float(min(int(found[1]) % (most + 1) * _TIMES[found[2].lower()], most))
    return float(_ACTIVE if policy == "ACTIVE" else 0 if policy == "PASSIVE" else _DEFAULT)


def _blocktime_s(given: Mapping[str, str]) -> float:
    time = given.get("KMP_BLOCKTIME")
    if time is not None:  # what is no time is the default, whatever the policy is
        if time.lower() in ("infinite", "infinity"):
            return float("inf")
        found = _MS.fullmatch(time)
        return int(found[1]) * (1e-6 if found[2].lower() == "us" else 1e-3) if found else _BLOCKTIME_S
    library, policy = (given.get(name, "").upper() for name in ("KMP_LIBRARY", "OMP_WAIT_POLICY"))
    if library.startswith(("TH", "M")):  # throughput, multiuser
        return 0.0
    if library.startswith(("TU", "D", "S")):  # turnaround, dedicated, serial
        return _BLOCKTIME_S
    return (
        float("inf")
        if policy and "ACTIVE".startswith(policy)
        else (0.0 if policy and "PASSIVE".startswith(policy) else _BLOCKTIME_S)
    )
