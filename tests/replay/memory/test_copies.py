"""What copies of a program hold of the caches they share: no more than there is, on every machine; what it costs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from replay_samples import Program, measured_host, with_changes

from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.cache_sim.base.level import Replacement
from foretrace.cache_sim.simulator import Simulator
from foretrace.profiles.hierarchies import hierarchy_of, shrunk
from foretrace.profiles.library import find, names
from foretrace.profiles.profile import MachineKind, Profile
from foretrace.replay.memory.hit_rates import misses_on
from foretrace.replay.memory.shared_cache import check_held, jobs_of_levels, last_caches
from foretrace.replay.node.replay import replay_on
from foretrace.replay.prediction.conditions import Conditions
from foretrace.replay.prediction.predict import HostRun
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.records import Signature

HOSTS = [name for name in names() if find(name).kind is MachineKind.HOST]
MIB = 1 << 20


@cache
def sweeping(sweep_bytes: int, sweeps: int = 4) -> Signature:
    """A loop over an array, again and again: each line is used again once all others were."""
    lines = sweep_bytes // 64
    program = Program()
    block = program.loop(lines * sweeps, instructions=1, function="sweep")
    program.access(block, lines * sweeps, (0, 0), size=64, length=sweep_bytes)
    simulator = Simulator((Hierarchy.parse("L1=1K/2/64"),), reuse_rate=1 / 16)
    simulator.feed(np.tile(np.arange(lines, dtype=np.int64) * 64, sweeps), 64, 0)
    return replace(program.signature(), hierarchies=(), reuse=simulator.reuse())


def held(profile: Profile, jobs: int) -> list[int]:
    run = HostRun.of(Workload.of(sweeping(MIB)), profile, jobs=jobs)
    return [level.size_bytes for level in run.misses.hierarchy.levels]


@pytest.mark.parametrize("name", HOSTS)
def test_no_number_of_copies_holds_more_than_a_cache(name):
    """From one copy to two for each core, spread over its last caches, on every machine that ships."""
    profile = find(name)
    cores, caches = profile.core.cores, last_caches(profile, profile.core.cores)
    whole = hierarchy_of(profile).hierarchy
    for copies in range(1, 2 * cores + 1):
        jobs = jobs_of_levels(profile, -(-copies // caches))
        parts = shrunk(whole, [level.size_bytes / one for level, one in zip(whole.levels, jobs, strict=True)])
        check_held(profile, [level.size_bytes for level in parts.levels], jobs)
        assert jobs[-1] * caches >= copies
    for jobs in (2, 2 * (profile.caches[-1].shared_by_cores or cores)):  # with the shares that follow from times
        check_held(profile, held(profile, jobs), jobs_of_levels(profile, jobs))


def test_the_parts_of_a_cache_are_no_larger_than_asked_for():
    whole = Hierarchy.parse("L1=32K/8/64,L3=504M/16/64")
    for parts in (1, 2, 3, 15, 16, 17, 128, 1000):
        last = shrunk(whole, (32768, 504 * MIB / parts)).levels[-1]
        assert 0.99 * 504 * MIB / parts < last.size_bytes <= 504 * MIB / parts
        assert last.ways == 16
    tree = Hierarchy.parse("L1=32K/8/64/plru,L3=1M/16/64/plru")
    for parts in (2, 3, 5000, 10_000):
        last = shrunk(tree, (32768, MIB / parts)).levels[-1]
        assert last.replacement is Replacement.PLRU
        assert last.size_bytes <= MIB / parts
    assert shrunk(whole, (32768, 1.0)).levels[-1].size_bytes == 64


def test_more_than_a_cache_is_noticed():
    with pytest.raises(AssertionError, match="17 jobs hold 33030144 bytes each of L3"):
        check_held(find("xeon-6980p"), (49152, 2097152, 33030144.0), (1, 1, 17))
    check_held(find("xeon-6980p"), (49152, 2097152, 528482304 / 128), (1, 1, 128))


def test_inner_caches_that_cores_share_are_divided_too():
    """Two cores share an L2, eight the L3: of four jobs in the L3, each has an L2 of its own, of eight, half of one."""
    base = find("epyc-9654")
    first, second, last = base.caches
    two = with_changes(second, shared_by_cores=2, source=second.source | {"shared_by_cores": "amd"})
    profile = with_changes(base, caches=(first, two, last))
    assert jobs_of_levels(profile, 4) == (1, 1, 4)
    assert jobs_of_levels(profile, 5) == (1, 2, 5)
    assert jobs_of_levels(profile, 8) == (1, 2, 8)
    assert jobs_of_levels(profile, 16) == (1, 2, 16)  # half of them wait for a core
    assert held(profile, 8) == [first.size_bytes, second.size_bytes // 2, last.size_bytes // 8]


def test_copies_of_a_sweep_slow_down_where_their_arrays_no_longer_fit():
    """36 MiB each in 504 MiB: 12 copies hold all they use, 16 miss every line, as one does with 31.5 MiB."""
    profile = find("xeon-6980p")
    signature = sweeping(36 * MIB)
    fits, above = replay_on(signature, profile, copies=12), replay_on(signature, profile, copies=16)
    assert fits.makespan_s == pytest.approx(fits.alone_s, rel=0.01)
    assert [(level.name, level.jobs, level.held_bytes) for level in above.caches][-1] == ("L3", 16, 528482304 // 16)
    small = with_changes(profile.caches[-1], size_bytes=528482304 // 16, source=profile.caches[-1].source)
    alone = with_changes(profile, caches=(*profile.caches[:-1], small))
    assert above.makespan_s == pytest.approx(replay_on(signature, alone).makespan_s, rel=0.02)
    assert above.makespan_s > 1.25 * above.alone_s
    full = replay_on(signature, profile, copies=128)
    memory = next(use for use in full.resources if use.kind == "memory")
    assert full.makespan_s > above.makespan_s
    assert memory.utilisation == pytest.approx(1.0, abs=0.02)
    assert memory.amount == pytest.approx(128 * 4 * 36 * MIB, rel=0.1)


def test_copies_on_several_last_caches_share_what_each_has():
    """Twelve caches of 32 MiB: twelve copies have one each, 24 share them in pairs, and so on."""
    profile = find("epyc-9654")
    signature = sweeping(20 * MIB)
    for copies, each in ((12, 1), (13, 2), (24, 2), (96, 8), (192, 16)):
        made = replay_on(signature, profile, copies=copies, most_segments=0)
        assert made.caches[-1].jobs == each
        assert made.caches[-1].held_bytes <= 32 * MIB / each
        assert (made.makespan_s > 1.1 * made.alone_s) == (each > 1)


def test_without_reuse_distances_a_part_lies_between_the_caches_that_were_simulated():
    program = Program()
    block = program.loop(1000)
    program.access(block, 1000, misses=(600, 200))
    signature, profile = program.signature(), measured_host()  # caches of 1 and 8 KiB
    for size, misses in ((8192, 200), (4096, 333), (2048, 467), (1024, 600), (256, 600)):
        found = misses_on(signature, profile, (1024, size)).misses[0]
        assert found[-1] == pytest.approx(misses, abs=1)


def test_conditions_are_worked_out_for_as_many_jobs_as_share_a_cache():
    profile = find("epyc-9654")
    workload = Workload.of(sweeping(MIB))
    for jobs, cores, most in ((1, 96, 1), (12, 96, 1), (24, 96, 2), (97, 96, 9), (8, 8, 8), (20, 8, 20)):
        assert len(Conditions.of(workload, profile, jobs=jobs, cores=cores).time_s) == most
