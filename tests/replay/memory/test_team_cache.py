"""Caches of threads that divide a loop: they add up over entries, and are shared within one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from replay_samples import Program

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.simulator import Simulator
from foretrace.profiles.library import find
from foretrace.replay.memory.hit_rates import misses_on
from foretrace.replay.memory.team_cache import TeamCaches
from foretrace.tracer.signature.records import Signature

MIB = 1 << 20
SWEEPS = 4


@cache
def sweeping(sweep_bytes: int, *, irregular: bool = False) -> Signature:
    """Lines of an array, one after the other, again and again."""
    lines = sweep_bytes // 64
    program = Program()
    block = program.loop(lines * SWEEPS, instructions=1, function="sweep")
    pattern = "irregular" if irregular else "unit_stride"
    program.access(block, lines * SWEEPS, (0, 0), size=64, length=sweep_bytes, pattern=pattern)
    simulator = Simulator((Hierarchy.parse("L1=1K/2/64"),), reuse_rate=1 / 16)
    simulator.feed(np.tile(np.arange(lines, dtype=np.int64) * 64, SWEEPS), 64, 0)
    return replace(program.signature(), hierarchies=(), reuse=simulator.reuse())


def team(signature: Signature, machine: str, threads: int) -> TeamCaches:
    profile = find(machine)
    found = TeamCaches.of(signature, profile, misses_on(signature, profile), threads)
    assert found is not None
    return found


def shares(signature: Signature, machine: str, threads: int, footprint_bytes: float) -> list[float]:
    """Of all accesses, those that miss the last caches of a team: fast, typical, slow."""
    made = team(signature, machine, threads)
    return [float(one[0, -1] / made.alone.executions[0]) for one in made.misses(footprint_bytes)]


def test_last_caches_of_all_dies_add_up_from_one_entry_to_the_next():
    """48 MiB are beyond the 32 MiB of a die, and 4 MiB in each of twelve: only the first sweep misses."""
    first = 1 / SWEEPS
    signature = sweeping(48 * MIB)
    assert shares(signature, "epyc-9654", 96, 48 * MIB) == pytest.approx([first, first, 1.0], abs=0.02)
    assert shares(signature, "epyc-9654", 8, 48 * MIB) == pytest.approx([1.0, 1.0, 1.0], abs=0.02), "of one die"
    assert shares(signature, "epyc-9654", 16, 48 * MIB)[1] == pytest.approx(first, abs=0.02), "of two"
    assert team(signature, "epyc-9654", 96).caches == (96, 96, 12)
    assert team(signature, "epyc-9654", 96).sharers == (1, 1, 8)


def test_what_comes_again_within_an_entry_shares_its_cache_with_the_other_threads():
    """8 MiB that each iteration of a loop over 4 GiB goes over again: eight threads need eight times as much."""
    own, any_of = sweeping(8 * MIB), sweeping(8 * MIB, irregular=True)
    first = 1 / SWEEPS
    fast, typical, slow = shares(own, "epyc-9654", 96, 4096 * MIB)
    assert fast == pytest.approx(first, abs=0.02)
    assert (typical, slow) == pytest.approx((1.0, 1.0), abs=0.02)
    fast, typical, slow = shares(any_of, "epyc-9654", 96, 4096 * MIB)
    assert (fast, typical) == pytest.approx((first, first), abs=0.03), "lines that any thread uses"
    assert slow == pytest.approx(1.0, abs=0.02)


def test_what_fits_into_one_cache_hits_there_whoever_uses_it():
    assert shares(sweeping(8 * MIB), "epyc-9654", 96, 8 * MIB) == pytest.approx([1 / SWEEPS] * 3, abs=0.02)


def test_private_caches_of_all_cores_hold_a_divided_array_as_well():
    """16 MiB, 170 KiB for each of 96 cores, lie in their second caches of 1 MiB."""
    made = team(sweeping(16 * MIB), "epyc-9654", 96)
    _, typical, slow = made.misses(16 * MIB)
    assert typical[0, 1] / made.alone.executions[0] == pytest.approx(1 / SWEEPS, abs=0.02)
    assert slow[0, 1] / made.alone.executions[0] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("machine", ["epyc-9654", "xeon-6980p", "graviton4", "a64fx", "epyc-milan-vm"])
@pytest.mark.parametrize("footprint_bytes", [0.0, MIB, 48 * MIB, 4096 * MIB, np.inf])
def test_the_ends_enclose_what_is_typical_and_levels_never_grow(machine, footprint_bytes):
    made = team(sweeping(48 * MIB), machine, find(machine).core.cores)
    fast, typical, slow = made.misses(footprint_bytes)
    assert (fast <= typical + 1e-6).all()
    assert (typical <= slow + 1e-6).all()
    for misses in (fast, typical, slow):
        assert (np.diff(np.column_stack([made.alone.executions, misses]), axis=1) <= 1e-6).all()


def test_nothing_is_known_without_reuse_distances_and_one_thread_is_no_team():
    signature, profile = sweeping(MIB), find("epyc-9654")
    alone = misses_on(signature, profile)
    assert TeamCaches.of(signature, profile, alone, 1) is None
    assert TeamCaches.of(replace(signature, reuse=None), profile, alone, 96) is None
