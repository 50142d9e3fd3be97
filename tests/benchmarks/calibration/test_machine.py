"""Calibration: facts read from the system, and a profile that holds what was measured."""

import contextlib
import errno
import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from calibration_samples import FACTS, KIB, LEVELS, MIB, NS, core_timings, machine, timing
from warm_command_line import warm_command_line

from foretrace.base.errors import CalibrationError
from foretrace.benchmarks.calibration import calibrate, calibrated_profile
from foretrace.benchmarks.calibration.agreement import unstable_figures
from foretrace.benchmarks.calibration.calibrate import Plan
from foretrace.benchmarks.calibration.calibrated_profile import Measured, measured_profile
from foretrace.benchmarks.calibration.core_suite import core_figures, core_measurements, operation_costs
from foretrace.benchmarks.calibration.latency_suite import Chain, latency_points
from foretrace.benchmarks.harness import machine_facts
from foretrace.benchmarks.harness.machine_facts import CacheFacts, Limits, Load
from foretrace.benchmarks.harness.sampling import Measurement
from foretrace.benchmarks.kernels import _kernels
from foretrace.profiles.hierarchies import as_measured, hierarchy_of
from foretrace.profiles.points import IndexMode, Movement, Operation
from foretrace.profiles.profile import LatencyPoint, MachineKind, Pattern, SourceKind
from foretrace.profiles.profile_file import format_profile, parse_profile, read_profile

QUIET = SimpleNamespace(glance=lambda: 1.0, slowdown=lambda time_s: 1.0)
"""A reference loop that no neighbour disturbs."""


def foretrace(*arguments, **options):
    if options.keys() <= {"cwd", "env"}:
        return warm_command_line().run([*map(str, arguments)], **options)
    return subprocess.run(
        [sys.executable, "-P", "-m", "foretrace", *arguments], capture_output=True, text=True, **options
    )


# ---- what the system says


def cache_tree(root, *indexes, siblings="0"):
    (root / "cpu0/topology").mkdir(parents=True)
    (root / "cpu0/topology/thread_siblings_list").write_text(siblings)
    names = ("level", "type", "size", "ways_of_associativity", "coherency_line_size", "shared_cpu_list")
    for number, values in enumerate(indexes):
        folder = root / f"cpu0/cache/index{number}"
        folder.mkdir(parents=True)
        for name, value in zip(names, values, strict=True):
            (folder / name).write_text(f"{value}\n")
    return root


def test_caches_are_read_from_sys(tmp_path):
    root = cache_tree(
        tmp_path,
        ("1", "Data", "48K", "12", "64", "0,4"),
        ("1", "Instruction", "32K", "8", "64", "0,4"),
        ("2", "Unified", "2048K", "16", "64", "0,4"),
        ("3", "Unified", "33M", "0", "64", "0-7"),
        siblings="0,4",
    )
    assert machine_facts.caches(0, root) == (
        CacheFacts("L1", 48 * KIB, 12, 64, 1),
        CacheFacts("L2", 2 * MIB, 16, 64, 1),
        CacheFacts("L3", 33 * MIB, None, 64, 4),
    )


def test_nonsense_from_sys_is_passed_over(tmp_path):
    root = cache_tree(
        tmp_path,
        ("1", "Data", "32K", "7", "64", "rubbish"),
        ("x", "Data", "32K", "8", "64", "0"),
        ("2", "Unified", "lots", "8", "64", "0"),
        ("3", "Unified", "0", "8", "64", "0"),
    )
    assert machine_facts.caches(0, root) == (CacheFacts("L1", 32 * KIB, None, 64, 1),)


def test_the_core_is_given_back():
    before = os.sched_getaffinity(0)
    with contextlib.suppress(KeyError), machine_facts.pinned() as cpu:
        assert os.sched_getaffinity(0) == {cpu}
        raise KeyError
    assert os.sched_getaffinity(0) == before


# ---- limits and load


def group_tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_limits_of_version_2_are_those_of_the_tightest_group_around(tmp_path):
    (tmp_path / "groups").write_text("0::/outer/inner\n")
    root = group_tree(
        tmp_path / "fs",
        {
            "outer/memory.max": "1000\n",
            "outer/memory.current": "400\n",
            "outer/cpu.max": "150000 100000\n",
            "outer/inner/memory.max": "max\n",
            "outer/inner/cpu.max": "max 100000\n",
        },
    )
    assert machine_facts.limits(tmp_path / "groups", root) == Limits(1000, 600, 1.5)


def test_limits_of_version_1_are_those_of_their_controllers(tmp_path):
    (tmp_path / "groups").write_text("9:name=systemd:/\n4:memory:/box\n2:cpu,cpuacct:/box\n")
    root = group_tree(
        tmp_path / "fs",
        {
            "memory/memory.limit_in_bytes": f"{2**63 - 4096}\n",
            "memory/box/memory.limit_in_bytes": "5000\n",
            "memory/box/memory.usage_in_bytes": "6000\n",
            "cpu,cpuacct/box/cpu.cfs_quota_us": "50000\n",
            "cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
            "cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        },
    )
    assert machine_facts.limits(tmp_path / "groups", root) == Limits(5000, 0, 0.5)


def test_a_container_sees_its_own_group_as_the_root(tmp_path):
    (tmp_path / "groups").write_text("0::/not/visible/here\n")
    root = group_tree(tmp_path / "fs", {"memory.max": "7000", "memory.current": "1000"})
    assert machine_facts.limits(tmp_path / "groups", root) == Limits(7000, 6000, None)


def test_without_groups_there_are_no_limits(tmp_path):
    assert machine_facts.limits(tmp_path / "none", tmp_path / "nothing") == Limits()
    (tmp_path / "groups").write_text("0::/../../etc\nrubbish\n")
    assert machine_facts.limits(tmp_path / "groups", tmp_path / "nothing") == Limits()


def test_the_least_of_free_memory_counts():
    total, free = machine_facts.memory_bytes(Limits(memory_bytes=10 * MIB, memory_free_bytes=9 * MIB))
    assert total is None or total > 9 * MIB
    assert free == 9 * MIB


def test_load_is_read_from_the_first_line(tmp_path):
    (tmp_path / "stat").write_text("cpu  10 1 5 100 20 0 4 30 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    assert machine_facts.load(tmp_path / "stat") == Load(total=170, stolen=30, idle=120)
    assert machine_facts.load(tmp_path / "none") == Load(0, 0, 0)


def test_a_loaded_machine_is_said():
    quiet = calibrate._warnings_of_load(Load(0, 0, 0), Load(2000, 0, 1000), own_cpu_s=10.0)
    assert quiet == []
    (busy,) = calibrate._warnings_of_load(Load(0, 0, 0), Load(2000, 0, 500), own_cpu_s=10.0)
    assert "other processes took 25% of its processors" in busy
    assert "gave 10% of the" in calibrate._warnings_of_load(Load(0, 0, 0), Load(2000, 200, 1000), own_cpu_s=10.0)[0]
    assert calibrate._warnings_of_load(Load(0, 0, 0), Load(0, 0, 0), own_cpu_s=1.0) == []


# ---- the plan


@pytest.mark.parametrize(
    ("last_bytes", "available_bytes", "quick", "expected"),
    [
        (32 * MIB, None, False, 128 * MIB),
        (32 * MIB, None, True, 64 * MIB),
        (33 * MIB, None, True, 64 * MIB),
        (32 * MIB, 100 * MIB, False, 8 * MIB),
        (1 << 40, None, False, 1 << 30),
    ],
)
def test_the_largest_working_set(last_bytes, available_bytes, quick, expected):
    levels = [CacheFacts("L1", last_bytes, None, None, None)]
    assert calibrate._plan(levels, available_bytes, (0,), quick=quick).largest_bytes == expected


def test_threads_share_the_memory():
    levels = [CacheFacts("L1", 32 * MIB, None, None, None)]
    plan = calibrate._plan(levels, 1 << 30, tuple(range(64)), quick=False)
    assert plan.largest_bytes == 128 * MIB
    assert plan.largest_of_threads_bytes == 4 * MIB
    assert calibrate._plan(levels, None, tuple(range(64)), quick=False).largest_of_threads_bytes == 128 * MIB


def test_too_little_memory_is_said():
    with pytest.raises(CalibrationError, match="only 4 MiB of memory are free, at least 8 MiB"):
        calibrate._plan([], 4 * MIB, (0,), quick=True)


def plan_of(largest, *, levels=None):
    levels = (CacheFacts("L1", MIB, None, None, None),) if levels is None else levels
    return Plan(True, levels, largest, largest, None, (0, 1))


def test_limits_are_said():
    warn = calibrate._warnings_of_limits
    assert warn(Limits(), plan_of(4 * MIB), 1) == []
    assert "does not let this process stay on one core" in warn(Limits(), plan_of(4 * MIB), None)[0]
    assert "does not tell the caches" in warn(Limits(), plan_of(4 * MIB, levels=()), 1)[0]
    (small,) = warn(Limits(memory_bytes=9 * MIB), plan_of(MIB), 1)
    assert "main memory could not be measured: the largest working set is 1 MiB" in small
    assert "a control group or ulimit limits memory to 9 MiB" in small
    assert "limits this process to 0.5 processors' time, of 2" in warn(Limits(cpus=0.5), plan_of(4 * MIB), 1)[0]


# They need huge pages, or a second processor.
NOT_EVERYWHERE = {
    "address translation, huge pages", "dependent loads, huge pages", "SGBench, threads", "threads that wake each other"
}  # fmt: skip


@pytest.mark.parametrize("suite", calibrate.SUITES, ids=lambda suite: suite.title)
def test_every_measurement_of_every_suite_runs(suite):
    for quick in (True, False):
        levels = tuple(CacheFacts(name, size, None, None, None) for name, size in (("L1", 4 * KIB), ("L2", 128 * KIB)))
        plan = Plan(quick, levels, 256 * KIB, 64 * KIB, None, (0,))
        measurements = suite.measurements(plan)
        if suite.title not in NOT_EVERYWHERE:
            assert measurements
        for key, measurement in measurements.items():
            seconds, operations = measurement.run(1)
            assert seconds >= 0, key
            assert operations > 0, key


# ---- from timings to figures


@pytest.mark.parametrize(
    ("cpuinfo", "design"),
    [
        ("vendor_id : AuthenticAMD\ncpu family : 26\nmodel : 2\nmodel name : AMD EPYC", "zen5"),
        ("vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 1", "zen3"),
        ("vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 17", "zen4"),
        ("vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143", "golden-cove"),
        ("CPU implementer : 0x41\nCPU part : 0xd4f", "neoverse-v2"),
        ("vendor_id : GenuineIntel\ncpu family : 15\nmodel : 6", None),
        ("vendor_id : Unheard\ncpu family : 6\nmodel : 143", None),
        ("model : lots", None),
        ("", None),
    ],
)
def test_the_design_of_a_core_is_told_by_its_numbers(cpuinfo, design):
    assert machine_facts.microarchitecture(cpuinfo) == design


def test_core_figures_are_in_cycles():
    figures, noise = core_figures(
        core_timings(
            int_add_64x1_chain=0.5 * NS,
            int_add_64x1_free=0.125 * NS,
            fp_add_64x1_chain=2 * NS,
            fp_mul_64x1_chain=1.5 * NS,
            fp_add_mul=4 * NS,
            fp_sqrt_64x1_chain=11.5 * NS,
            loads=0.25 * NS,
            untaken_branches=0.2 * NS,
            flops_vector=0.125 * NS,
            branches_random=5 * NS,
            branches_regular=1 * NS,
            python_block=20 * NS,
        )
        | {"store8": timing(1 * NS, noise=0.5)}
    )
    assert figures["clock_hz"] == pytest.approx(2e9)
    assert figures["int_adds_per_cycle"] == pytest.approx(4)
    assert figures["fp_add_latency_cycles"] == pytest.approx(4)
    assert figures["untaken_branches_per_cycle"] == pytest.approx(2.5)
    assert figures["fp_add_other_latency_cycles"] == pytest.approx(5), "its chain has a multiplication in it"
    assert figures["loads_per_cycle"] == pytest.approx(2)
    assert figures["peak_flops_per_cycle"] >= 4
    assert figures["branch_miss_cycles"] == pytest.approx(16)
    assert figures["python_block_s"] == pytest.approx(20 * NS)
    assert noise["stores_per_cycle"] == 0.5
    assert noise["loads_per_cycle"] == 0
    if "fp_sqrt_64x1_chain" in _kernels.available():
        assert figures["fp_sqrt_latency_cycles"] == pytest.approx(20), "its chain has a multiplication in it"


def test_a_clock_that_rises_and_falls_is_told_as_in_half_of_the_passes_and_cycles_by_its_peak():
    figures, noise = core_figures(core_timings(loads=0.25 * NS) | {"int_add_64x1_chain": timing(0.5 * NS, noise=0.04)})
    assert figures["clock_hz"] == pytest.approx(2e9 / 1.04, rel=1e-3)
    assert figures["loads_per_cycle"] == pytest.approx(2)
    assert noise["clock_hz"] == 0.04


def test_as_many_vectors_are_scheduled_as_wait_while_chains_overlap():
    """16 pairs take 96 cycles, and a chain is begun every 24: its last instruction waits for 72 cycles, its first for
    none, and 32 come in 24 cycles."""
    figures, noise = core_figures(
        core_timings(fp_add_mul=6 * NS, fp_long_chains=24 * NS) | {"fp_long_chains": timing(24 * NS, noise=0.03)}
    )
    assert figures["vector_scheduled_instructions"] == pytest.approx(72 / 2 * 32 / 24)
    assert noise["vector_scheduled_instructions"] == pytest.approx(0.03 * 96 / 72)
    one_by_one, _ = core_figures(core_timings(fp_add_mul=6 * NS, fp_long_chains=96 * NS))
    assert "vector_scheduled_instructions" not in one_by_one


def test_operations_come_with_latency_and_interval_by_width():
    timings = core_timings(
        int_add_64x1_chain=0.5 * NS,
        int_select_64x1_chain=1.25 * NS,
        fp_mul_64x1_chain=2 * NS,
        fp_mul_64x1_free=0.25 * NS,
    )
    costs = {(c.operation, c.element_bits, c.elements): c for c in operation_costs(timings, "s")}
    scalar = costs[Operation.FP_MUL, 64, 1]
    assert (scalar.latency_cycles, scalar.interval_cycles) == (4, 0.5)
    assert costs[Operation.INT_ADD, 64, 1].latency_cycles == 1
    assert costs[Operation.INT_SELECT, 64, 1].latency_cycles == 1.5, "without the comparisons of its chain"
    assert len(costs) == sum(name.endswith("_chain") for name in _kernels.available())


def test_a_figure_that_noise_made_impossible_is_left_out():
    assert "branch_miss_cycles" not in core_figures(core_timings(branches_random=1 * NS, branches_regular=2 * NS))[0]


def code_timings(decoded_anew):
    """Of code, at six instructions a cycle of 1 ns or, where so many are decoded anew, at four."""
    lengths = (int(name.removeprefix("code_")) for name in core_measurements() if name.startswith("code_"))
    return {f"code_{n}": NS / (4 if n >= decoded_anew else 6) for n in lengths}


def test_decoding_is_seen_where_more_code_takes_longer():
    """In code a bit longer than what is kept, part of it is found decoded."""
    figures, noise = core_figures(core_timings(**code_timings(5120) | {"code_5120": NS / 4.9}))
    assert figures["decode_instructions_per_cycle"] == 4
    assert figures["decoded_instructions"] == pytest.approx(math.sqrt(4096 * 5120), rel=0.001)
    assert noise["decoded_instructions"] == pytest.approx(math.sqrt(5120 / 4096) - 1, rel=0.001)


def test_turning_to_code_that_is_decoded_anew_takes_what_both_kinds_alone_do_not():
    in_turns = {"decode_in_turns": 23 * NS, "decode_kept": 4 * NS}
    figures, _ = core_figures(core_timings(**code_timings(5120) | in_turns))
    assert figures["decode_switch_cycles"] == pytest.approx(23 - 64 / 4 - 4)
    assert "decode_switch_cycles" not in core_figures(core_timings(**code_timings(8192) | in_turns))[0], "all is kept"


def test_code_that_is_as_fast_whatever_its_length_is_kept():
    figures, noise = core_figures(core_timings(**code_timings(1 << 20)))
    assert figures["decode_instructions_per_cycle"] == 6
    assert figures["decoded_instructions"] == pytest.approx(16384, rel=0.001)
    assert noise["decoded_instructions"] == 0


def test_the_longest_code_tells_the_rate_where_only_that_is_decoded_anew():
    assert core_figures(core_timings(**code_timings(16384)))[0]["decode_instructions_per_cycle"] == 4


def test_a_machine_s_figures_are_where_they_belong():
    profile = machine()
    assert parse_profile(format_profile(profile).encode()) == profile
    assert [cache.latency_s for cache in profile.caches] == pytest.approx([1 * NS, 4 * NS, 14 * NS])
    assert [cache.effective_size_bytes for cache in profile.caches] == [None, None, None]
    assert profile.memory.latency_s == pytest.approx(100 * NS)
    assert profile.memory.first_touch_page_s == 5e-7
    assert profile.memory.core_copy_bandwidth_bytes_per_s == 8e9
    assert profile.core.outstanding_misses == 10
    assert profile.core.storing_instructions == pytest.approx(math.sqrt(96 * 112), rel=0.001)
    assert profile.core.noise["storing_instructions"] == pytest.approx(math.sqrt(112 / 96) - 1, rel=0.001)
    assert profile.core.source["storing_instructions"] == "calibrate"
    assert {(p.pattern, p.access_bytes) for p in profile.bandwidth} == {(Pattern.SEQUENTIAL, 16), (Pattern.RANDOM, 8)}
    assert next(p for p in profile.bandwidth if p.pattern is Pattern.SEQUENTIAL).noise == 0.2
    assert profile.gather_scatter_curve("gather").bandwidth_bytes_per_s(MIB) == 10e9, "8 + 8 + 4 bytes in 2 ns"
    assert profile.gather_scatter_curve("update").bandwidth_bytes_per_s(MIB) == 14e9, "an update's element counts twice"
    assert profile.thread_bandwidth[0].bandwidth_bytes_per_s == 32e9
    assert {p.hit_rates for p in profile.surface if p.working_set_bytes == 4096} == {(1.0, 1.0, 1.0)}
    assert {p.hit_rates for p in profile.surface if p.working_set_bytes == 1 << 27} == {(0.5, 0.5, 0.5)}
    assert profile.partial is None


def test_what_streams_get_is_the_median_over_the_widths_that_tell_it():
    ends = {"load8": 4 * MIB, "load16": 16 * MIB, "load32": 8 * MIB}
    assert machine(stream_ends=ends).caches[2].effective_stream_size_bytes == 8 * MIB
    ends = {"load8": 1 << 62, "load16": 1 << 62, "load32": 8 * MIB}
    assert machine(stream_ends=ends).caches[2].effective_stream_size_bytes == 8 * MIB


def test_hit_rates_are_those_of_the_part_of_a_cache_that_loads_get():
    profile = machine((32 * KIB, 512 * KIB, 8 * MIB))
    assert [cache.effective_size_bytes for cache in profile.caches] == [None, None, 8 * MIB]
    assert profile.caches[2].size_bytes == 32 * MIB
    assert profile.caches[2].effective_stream_size_bytes is None, "its streams are as fast from anywhere"
    assert profile.caches[2].latency_s == pytest.approx(14 * NS)
    whole = hierarchy_of(profile).hierarchy
    part = as_measured(whole, profile)
    assert [level.size_bytes for level in part.levels] == [32 * KIB, 512 * KIB, 8 * MIB]
    assert part.levels[2].ways == whole.levels[2].ways, "fewer sets, not fewer ways"
    assert any("L3 is reported as 32 MiB" in note for note in profile.notes)
    sweep = next(p for p in profile.surface if p.working_set_bytes == 16 * MIB)
    assert sweep.hit_rates[2] == 0.5, "beyond the part, only the rest of a line hits"


def test_the_part_of_a_cache_is_as_uncertain_as_the_loads_that_show_it():
    def part(noise):
        points = [
            LatencyPoint(size, (14 if size <= 8 * MIB else 100) * NS, "s", noise if size > 8 * MIB else 0.0)
            for size in (3 << shift for shift in range(10, 27))
        ]
        return calibrated_profile._effective_size(LEVELS, points)

    assert part(0.0) == (8 * MIB, 0.0)
    assert part(5.0)[1] > 0.2


def test_one_core_is_said():
    measured = Measured(core=core_timings())
    profile = measured_profile("here", LEVELS, measured, FACTS, memory_bytes=None, num_cores=1)
    assert "Only one core could be used: what several share was not measured." in profile.notes


def test_caches_nobody_reports_are_those_that_are_seen():
    profile = machine(levels=())
    assert [cache.size_bytes for cache in profile.caches] == [32 * KIB, 512 * KIB, 32 * MIB]
    assert profile.caches[0].source["size_bytes"] == "calibrate"


def test_latencies_of_levels_are_those_in_the_largest_pages():
    profile = machine(pages=(4096, 2 * MIB))
    assert {p.page_bytes for p in profile.latency} == {4096, 2 * MIB}
    assert {p.page_bytes for p in profile.latencies()} == {profile.memory.default_page_bytes}


def test_the_latency_of_a_cache_is_that_of_its_fastest_larger_set():
    """A neighbour made the others slower."""
    times = {16: 1, 64: 9, 96: 4, 128: 9, 192: 5, 256: 9, 900: 50, 1800: 60}
    latency = [LatencyPoint(size * KIB, time * NS, "s") for size, time in times.items()]
    found = [point.latency_s for point in calibrated_profile._latencies([32 * KIB, 512 * KIB], latency)]
    assert found == pytest.approx([1 * NS, 5 * NS, 60 * NS])


def test_a_load_that_came_out_slower_than_one_from_more_memory_is_noisy():
    chains = {Chain(size, page): timing(time * NS, 0.1) for size, page, time in (
        (4096, 4096, 2), (8192, 4096, 5), (16384, 4096, 2.5), (4096, 2 * MIB, 9)
    )}  # fmt: skip
    assert [p.noise for p in latency_points(chains, "s")] == [0.1, 1.0, 0.1, 0.1]
    assert [p.latency_s for p in latency_points(chains, "s")] == [2e-9, 5e-9, 2.5e-9, 9e-9]


def test_a_partial_profile_says_so():
    profile = machine(partial=True)
    assert profile.partial is True
    assert profile.notes[0].startswith("Partial")


def test_the_core_alone_makes_a_profile():
    measured = Measured(core=core_timings())
    profile = measured_profile("here", LEVELS, measured, FACTS, memory_bytes=None, num_cores=None, partial=True)
    assert parse_profile(format_profile(profile).encode()) == profile
    assert profile.latency == ()


def test_later_passes_measure_what_is_unstable_over_new_memory(monkeypatch):
    made = []

    def measurements(plan):
        made.append({name: Measurement(name, lambda repeats, name=name: (times[name], 1)) for name in times})
        return made[-1]

    times = {"steady": 1.0, "wild": 1.0}
    suite = calibrate.Suite("a suite", "core", measurements)
    kept = {}
    for _ in range(2):
        calibrate._measure_suite(suite, plan_of(MIB), kept, QUIET, only_unstable=False)
        times["wild"] *= 0.5
    for _ in range(3):
        calibrate._measure_suite(suite, plan_of(MIB), kept, QUIET, only_unstable=True)
    assert {name: len(samples.groups) for name, samples in kept["core"].items()} == {"steady": 2, "wild": 5}
    assert len(made) == 5
    assert kept["core"]["wild"].timing.is_stable, "the last three passes agree"
    calibrate._measure_suite(suite, plan_of(MIB), kept, QUIET, only_unstable=True)
    assert len(made) == 5, "nothing to measure, so no memory is taken"


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.ENOMEM, "Cannot allocate memory")])
def test_memory_that_runs_out_is_said(error):
    def measurements(plan):
        raise error

    with pytest.raises(CalibrationError, match="out while the arrays were measured; 2 MiB seemed to be free"):
        calibrate._measure_suite(
            calibrate.Suite("the arrays", "core", measurements), replace(plan_of(MIB), available_bytes=2 * MIB),
            {}, QUIET, only_unstable=False,
        )  # fmt: skip


def test_a_limit_of_addresses_is_kept(tmp_path):
    """As `ulimit -v` sets it: less is measured, or it is said that there is too little."""
    command = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40)); " + (
        "from foretrace.benchmarks.harness.machine_facts import limits; from pathlib import Path; "
        "found = limits(Path('/none'), Path('/none')); print(found.memory_bytes, found.memory_free_bytes)"
    )
    result = subprocess.run([sys.executable, "-P", "-c", command], capture_output=True, text=True, check=True)
    limit, free = map(int, result.stdout.split())
    assert limit == 1 << 40
    assert 0 < free < limit


def test_an_interrupted_pass_is_left_out_whole(monkeypatch):
    def interrupted(repeats):
        raise KeyboardInterrupt

    runs = [lambda repeats: (1.0, 1), lambda repeats: (1.0, 1)]
    suite = calibrate.Suite("a suite", "core", lambda plan: {n: Measurement("x", run) for n, run in enumerate(runs)})
    kept = {}
    calibrate._measure_suite(suite, plan_of(MIB), kept, QUIET, only_unstable=False)
    runs[1] = interrupted
    with pytest.raises(KeyboardInterrupt):
        calibrate._measure_suite(suite, plan_of(MIB), kept, QUIET, only_unstable=False)
    assert [len(samples.groups) for samples in kept["core"].values()] == [1, 1]


def test_unstable_figures_are_told_by_kind():
    measured = Measured(core=core_timings())
    measured.core["loads"] = timing(1 * NS, noise=0.5)
    measured.core["issue"] = timing(1 * NS, noise=0.3)
    measured.core["store8"] = timing(1 * NS, noise=0.05)
    (warning,) = calibrate._warnings_of_noise(measured)
    assert warning.startswith("unstable: the core, 2 of")
    assert "most loads (passes disagree by 50%)" in warning


# ---- the whole


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrate")
    arguments = ("calibrate", "--quick", "--force", "--json", "-o", "here.toml")
    result = subprocess.run(
        [sys.executable, "-c", _FEW_SAMPLES, *arguments], cwd=folder, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return folder, json.loads(result.stdout)


def test_calibrate_writes_a_profile_of_this_machine(quick_run):
    folder, _ = quick_run
    profile = read_profile(folder / "here.toml")
    assert os.listdir(folder) == ["here.toml"]  # noqa: PTH208
    assert profile.name == "here"
    assert profile.kind is MachineKind.HOST
    assert profile.sources["calibrate"].kind is SourceKind.MEASURED
    for field in ("clock_hz", "issue_width_instructions_per_cycle", "peak_flops_per_cycle", "python_block_s", "cores"):
        assert math.isfinite(getattr(profile.core, field))
    assert profile.core.clock_hz == pytest.approx(1e9)
    assert profile.core.outstanding_misses >= 1
    assert {p.pattern for p in profile.bandwidth} == set(Pattern)
    assert len(profile.latency) >= 5
    assert {c.index_mode for c in profile.gather_scatter} == set(IndexMode)
    assert {operation for c in profile.gather_scatter for operation in c.operations} == {"gather", "scatter", "update"}
    assert {p.movement for p in profile.surface} == set(Movement) or not profile.caches
    assert profile.thread_bandwidth
    assert profile.memory.first_touch_page_s > 0
    assert profile.partial is None
    assert {c.operation for c in profile.operations} >= {Operation.INT_MUL, Operation.FP_ADD}
    assert set(profile.core.noise) <= set(profile.core.source)
    assert set(profile.unstable) == set(unstable_figures(profile))
    assert "-O3" in profile.metadata["compiler_flags"]
    assert profile.metadata["compiler"] == _kernels.COMPILER
    if profile.caches:
        assert hierarchy_of(profile).hierarchy is not None


def test_calibrate_prints_what_it_wrote(quick_run):
    folder, printed = quick_run
    assert printed["schema"] == "foretrace.calibrate/1"
    assert printed["output"] == "here.toml"
    assert printed["duration_s"] > 0
    assert isinstance(printed["warnings"], list)
    assert printed["profile"]["core"]["clock_hz"] == read_profile(folder / "here.toml").core.clock_hz


def test_the_measured_profile_can_be_shown_and_checked(quick_run):
    folder, _ = quick_run
    shown = foretrace("machines", "show", "here.toml", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    assert "core clock_hz" in shown.stdout
    assert "working set" in shown.stdout
    checked = foretrace("machines", "check", "here.toml", cwd=folder)
    assert checked.returncode == 0
    assert "here.toml: is a valid profile" in checked.stdout


def test_an_existing_file_is_refused_before_measuring(tmp_path):
    (tmp_path / "here.toml").write_text("precious")
    result = foretrace("calibrate", "-o", "here.toml", cwd=tmp_path)
    assert result.returncode == 75
    assert "here.toml: exists already" in result.stderr
    assert (tmp_path / "here.toml").read_text() == "precious"


def test_interrupting_leaves_nothing(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    output, errors = process.communicate()
    assert process.returncode in (-signal.SIGINT, 130)
    assert "interrupted, nothing was written" in errors
    assert "Traceback" not in errors
    assert output == ""
    assert list(tmp_path.iterdir()) == []


def test_interrupted_partial_results_are_kept_if_asked_for(tmp_path):
    """The fourth suite is interrupted: what was measured until then is kept, marked."""
    result = subprocess.run([sys.executable, "-c", _KEPT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode in (-signal.SIGINT, 130), result.stderr
    assert "interrupted: here.toml holds what was measured until then, and is marked as partial" in result.stderr
    profile = read_profile(tmp_path / "here.toml")
    assert profile.partial is True
    assert profile.core.clock_hz
    assert profile.latency
    assert profile.gather_scatter == ()
    assert os.listdir(tmp_path) == ["here.toml"]  # noqa: PTH208


_RECORDED = """
from foretrace.benchmarks.harness.sampling import SAMPLES_OF_PASS, Sample
def recorded(measurements, **_):
    for measurement in measurements:
        seconds, operations = measurement.run(1)
        assert seconds >= 0 and operations > 0
        measurement.samples.groups.append([Sample(1e-9)] * SAMPLES_OF_PASS)
"""
"""Runs the kernel of each measurement, and records a nanosecond an operation whatever it took."""

_FEW_SAMPLES = (
    _RECORDED
    + """
from foretrace.benchmarks.calibration import calibrate, latency_suite; from foretrace.benchmarks.harness import sampling
from foretrace.cli import main
calibrate._LARGEST_BYTES, calibrate._QUICK_BUDGET_S = 4 << 20, 0.1
latency_suite._WARM_PASSES = 0
sampling.measure_once = recorded
main()
"""
)

_INTERRUPTED = """
import os, signal, sys
from foretrace.benchmarks.calibration import calibrate
from foretrace.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
calibrate.sampling.measure_once = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT)
sys.argv = ["foretrace", "calibrate", "--quick", "--force", "-o", "here.toml"]
main()
"""

_KEPT = (
    _RECORDED
    + """
import os, signal, sys
from foretrace.benchmarks.calibration import calibrate
from foretrace.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
calibrate._LARGEST_BYTES = 4 << 20
turns = []
def measure(*arguments, **options):
    turns.append(1)
    if len(turns) == 4:
        os.kill(os.getpid(), signal.SIGINT)
    recorded(*arguments, **options)
calibrate.sampling.measure_once = measure
sys.argv = ["foretrace", "calibrate", "--quick", "--force", "--keep-partial", "-o", "here.toml"]
main()
"""
)
