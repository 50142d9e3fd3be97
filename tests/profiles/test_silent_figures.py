"""What profiles do not tell: defaults by class of core, relatives level by level, one rule for missed branches."""

from __future__ import annotations

import re

import numpy as np
import pytest
from msgspec import structs

from foretrace.profiles.figure import figures_of_record
from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.library import find, names
from foretrace.profiles.profile import Core, MachineKind
from foretrace.profiles.relatives import informed, is_calibrated, relative_of
from foretrace.replay.base.spread import FAST, SLOW, TYPICAL
from foretrace.replay.figures.machine_figures import figures_of

CALIBRATED_OVER_COMPILERS = 1.38


def silent(name):
    """A shipped machine whose profile tells no bandwidth of one core."""
    profile = find(name)
    kept = structs.replace(
        profile.memory, core_read_bandwidth_bytes_per_s=None, core_write_bandwidth_bytes_per_s=None,
        core_copy_bandwidth_bytes_per_s=None,
    )  # fmt: skip
    return structs.replace(profile, memory=kept, bandwidth=())


def memory_of(profile):
    return figures_of(profile, hierarchy_of(profile).hierarchy).memory


@pytest.mark.parametrize(
    ("name", "published"),
    [("epyc-9654", 34.6e9), ("graviton3", 30.8e9), ("graviton4", 30.8e9), ("xeon-platinum-8480", 13.1e9)],
)
def test_one_core_reads_what_was_published_of_its_class_where_a_profile_is_silent(name, published):
    memory = memory_of(silent(name))
    bandwidth = memory.line_bytes[-1] / memory.line_s[:, :, -1].min(axis=1)
    assert bandwidth[SLOW] <= published <= bandwidth[FAST]
    assert bandwidth[TYPICAL] == pytest.approx(published, rel=0.2)


@pytest.mark.parametrize(("name", "published"), [("epyc-9654", 27.1e9), ("graviton3", 10.9e9), ("graviton4", 11.8e9)])
def test_stores_of_one_core_lie_in_the_range_of_its_class(name, published):
    memory = memory_of(silent(name))
    stored = memory.line_bytes[-1] / (memory.line_s.min(axis=1)[:, -1] + memory.write_back_s[:, -1])
    assert stored[SLOW] <= published <= stored[FAST]


@pytest.mark.parametrize(
    ("name", "level", "published"),
    [("epyc-9654", 1, 105e9), ("epyc-9654", 2, 81e9), ("graviton3", 1, 68.9e9), ("graviton3", 2, 48.6e9),
     ("graviton4", 1, 70.7e9), ("xeon-platinum-8480", 2, 32.4e9)],
)  # fmt: skip
def test_caches_deliver_what_was_published_of_their_class(name, level, published):
    """Bandwidth by whole lines; loads of 8 bytes may be slower."""
    memory = memory_of(find(name))
    bandwidth = memory.line_bytes[level - 1] / memory.line_s[:, :, level].min(axis=1)
    loads = memory.line_bytes[0] / memory.line_s[:, :, 0].min(axis=1)
    assert bandwidth[SLOW] <= published
    assert bandwidth[TYPICAL] == pytest.approx(min(published, loads[TYPICAL]), rel=0.25)


def test_a_published_bandwidth_of_stores_is_used():
    profile = find("epyc-9654")
    memory = memory_of(profile)
    line = memory.line_s.min(axis=1)[:, -1] + memory.write_back_s[:, -1]
    assert memory.line_bytes[-1] / line == pytest.approx(np.full(3, 27.1e9))


def test_a_relative_tells_of_a_last_cache_of_another_size():
    """xeon-granite-vm sees 480 MiB of it, the processor has 504: a chase through 128 MiB takes tens of nanoseconds."""
    profile = find("xeon-6980p")
    found = informed(profile)
    assert found is not None and found.relative == "xeon-granite-vm"
    assert {"L3 latency_s", "surface", "bandwidth"} <= set(found.keys)
    memory = memory_of(profile)
    assert memory.dependent_s[TYPICAL, 2] == pytest.approx(35.8e-9)
    last = profile.caches[-1].size_bytes
    for point in (*found.profile.surface, *found.profile.bandwidth):
        relative = find("xeon-granite-vm").caches[-1].size_bytes
        assert (point.working_set_bytes > last) == (point.working_set_bytes > relative)


def test_a_relative_with_other_caches_of_its_own_tells_nothing_of_memory():
    profile = find("xeon-6980p")
    other = structs.replace(profile.caches[1], size_bytes=1 << 20)
    found = informed(structs.replace(profile, caches=(profile.caches[0], other, profile.caches[2])))
    assert found is not None
    assert not {"surface", "bandwidth", "prefetch", "gather_scatter", "L3 latency_s"} & set(found.keys)


def test_missed_branches_follow_one_rule():
    """Measured on the core or a relative with the same one; else a compiler's figure times what calibration measured
    over such figures; else the makers' or Agner Fog's, or the class of core."""
    ratios = [find(name).core.branch_miss_cycles / model for name, model in
              (("epyc-milan-vm", 13), ("xeon-granite-vm", 14), ("epyc-turin-vm", 13))]  # fmt: skip
    assert pytest.approx(np.median(ratios), abs=0.005) == CALIBRATED_OVER_COMPILERS
    for name in names():
        profile = find(name)
        core, year = profile.core, profile.product.year if profile.product else 0
        if profile.kind is not MachineKind.HOST or is_calibrated(profile) or core.in_order or (year or 0) < 2015:
            continue
        if relative_of(profile) is not None:
            assert core.branch_miss_cycles is None, f"{name}: its relative measured it"
        elif core.branch_miss_cycles is not None:
            source = profile.sources[core.source["branch_miss_cycles"]]
            stated = re.search(r": ([\d.]+) cycles, times ([\d.]+)", source.citation)
            assert stated, name
            assert float(stated[2]) == CALIBRATED_OVER_COMPILERS
            assert core.branch_miss_cycles == pytest.approx(float(stated[1]) * float(stated[2]), abs=0.06)
    default = figures_of_record(Core)["branch_miss_cycles"].defaults[1]
    assert default.fast <= 17.6 and default.slow >= 22.2
