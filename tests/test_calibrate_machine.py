"""Calibration: kernels that do what they say, facts read from the system, and a profile that holds them."""

import contextlib
import json
import math
import mmap
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from foretrace.benchmarks import _kernels, calibrate, machine_facts
from foretrace.benchmarks.core_suite import core_figures, core_measurements
from foretrace.benchmarks.machine_facts import CacheFacts
from foretrace.benchmarks.memory_suite import (
    REFERENCED_BYTES,
    Point,
    bandwidth_points,
    gather_scatter_curves,
    latency_points,
    memory_measurements,
    working_sets,
)
from foretrace.benchmarks.sampling import Measurement
from foretrace.errors import CalibrationError
from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.profile import MachineKind, Pattern, SourceKind
from foretrace.profiles.profile_file import read_profile

KIB, MIB = 1 << 10, 1 << 20
KERNELS = _kernels.available()


def foretrace(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-P", "-m", "foretrace", *arguments], capture_output=True, text=True, timeout=120, **options
    )


# ---- kernels


@pytest.mark.parametrize("name", [k for k in KERNELS if k.startswith(("int_", "fp_")) or k == "issue"])
def test_a_core_kernel_does_more_in_more_rounds(name):
    seconds, operations, state = _kernels.run(name, repeats=10)
    assert seconds >= 0
    assert operations > 0
    assert _kernels.run(name, repeats=30)[1] == 3 * operations
    assert state == 0


@pytest.mark.parametrize(
    ("name", "width"),
    [(k, w) for k, w in (("load8", 8), ("load16", 16), ("load32", 32), ("store8", 8)) if k in KERNELS],
)
def test_a_sweep_touches_all_of_its_data(name, width):
    assert _kernels.run(name, repeats=7, data=mmap.mmap(-1, 3 * 4096))[1] == 7 * 3 * 4096 // width


def test_stores_store():
    data = mmap.mmap(-1, 4096)
    data.write(b"\xff" * 4096)
    _kernels.run("store8", repeats=1, data=data)
    assert data[:] == bytes(4096)


def test_gather_and_scatter_follow_the_index():
    data = mmap.mmap(-1, 4096)
    values = np.arange(512, dtype=np.float64)
    data.write(values.tobytes())
    index = np.random.default_rng(1).permutation(512).astype(np.uint32)
    dense = np.zeros(512)
    assert _kernels.run("gather", repeats=2, data=data, index=index, dense=dense)[1] == 1024
    assert np.array_equal(dense, values[index])
    dense += 1000
    _kernels.run("scatter", repeats=1, data=data, index=index, dense=dense)
    assert np.array_equal(np.frombuffer(data[:], dtype=np.float64), values + 1000)


def test_a_chase_visits_every_line_once_and_comes_back():
    data = mmap.mmap(-1, 4096)
    order = np.random.default_rng(2).permutation(64).astype(np.uint32)
    _kernels.link_chain(data, order)
    links = np.frombuffer(data[:], dtype=np.uint64)[::8]
    assert len(set(links.tolist())) == 64
    base = int(links.min())
    line, seen = int(order[0]), []
    for _ in range(64):
        seen.append(line)
        line = (int(links[line]) - base) // _kernels.LINE_BYTES
    assert seen == order.tolist()
    start = int(order[0]) * _kernels.LINE_BYTES
    assert _kernels.run("chase", repeats=1, data=data, state=start)[2] == int(order[16]) * _kernels.LINE_BYTES
    assert _kernels.run("chase", repeats=4, data=data, state=start)[2] == start, "64 steps are once around"


@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel": "nonsense"},
        {"kernel": "load8"},
        {"kernel": "random8", "data": mmap.mmap(-1, 3 * 4096)},
        {"kernel": "gather", "data": mmap.mmap(-1, 4096)},
        {"kernel": "gather", "data": mmap.mmap(-1, 4096), "index": np.zeros(8, np.uint32), "dense": np.zeros(4)},
        {"kernel": "gather", "data": mmap.mmap(-1, 4096), "index": b"123", "dense": np.zeros(4)},
        {"kernel": "chase", "data": mmap.mmap(-1, 4096), "state": 4096},
        {"kernel": "chase", "data": mmap.mmap(-1, 4096), "state": 8},
    ],
)
def test_a_kernel_refuses_what_it_cannot_run_on(arguments):
    with pytest.raises(ValueError, match=r"kernel|dense|multiple"):
        _kernels.run(arguments.pop("kernel"), **arguments)


@pytest.mark.parametrize("order", [[0] * 64, [*range(63)], [*range(1, 65)], []])
def test_a_chain_needs_a_permutation(order):
    with pytest.raises(ValueError, match="permutation"):
        _kernels.link_chain(mmap.mmap(-1, 4096), np.array(order, dtype=np.uint32))


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


# ---- from samples to figures


def measured(name, seconds, *more):
    return Measurement(name, lambda repeats: (0.0, 1), samples_s=[seconds, *more])


def test_core_figures_are_in_cycles():
    ns = 1e-9
    times = dict.fromkeys(core_measurements(), 1 * ns) | {
        "int_add_chain": 0.5 * ns,
        "fp_add_chain": 2 * ns,
        "load8": 0.25 * ns,
        "fp_vector": 0.125 * ns,
        "fp_vector_fma": 0.03125 * ns,
        "branches random": 5 * ns,
        "branches regular": 1 * ns,
        "python block": 20 * ns,
    }
    figures = core_figures({name: measured(name, time) for name, time in times.items()})
    assert figures["clock_hz"] == pytest.approx(2e9)
    assert figures["fp_add_latency_cycles"] == pytest.approx(4)
    assert figures["loads_per_cycle"] == pytest.approx(2)
    assert figures["peak_flops_per_cycle"] == pytest.approx(16)
    assert figures["branch_miss_cycles"] == pytest.approx(16)
    assert figures["python_block_s"] == pytest.approx(20 * ns)


def test_a_figure_that_noise_made_impossible_is_left_out():
    times = dict.fromkeys(core_measurements(), 1e-9) | {"branches random": 1e-9, "branches regular": 2e-9}
    assert "branch_miss_cycles" not in core_figures({name: measured(name, time) for name, time in times.items()})


def test_points_count_the_bytes_accessed():
    samples = {
        Point("load16", 4096): measured("load16", 1e-9, 1.5e-9, 1.2e-9),
        Point("random8", 4096): measured("random8", 4e-9),
        Point("chase", 4096): measured("chase", 5e-9),
    }
    random, sequential = bandwidth_points(samples, "s")
    assert (random.pattern, random.access_bytes, random.bandwidth_bytes_per_s) == (Pattern.RANDOM, 8, 2e9)
    assert (sequential.pattern, sequential.access_bytes) == (Pattern.SEQUENTIAL, 16)
    assert sequential.bandwidth_bytes_per_s == 16e9
    assert sequential.noise == pytest.approx(0.2)
    assert [p.latency_s for p in latency_points(samples, "s")] == [5e-9]


def test_curves_go_straight_through_the_measured_points():
    samples = {
        Point(kernel, size): measured(kernel, REFERENCED_BYTES / rate)
        for kernel in ("gather", "scatter")
        for size, rate in ((4096, 8e9), (8192, 4e9), (16384, 5e9))
    }
    for curve in gather_scatter_curves(samples, "s"):
        for size, rate in ((4096, 8e9), (8192, 4e9), (16384, 5e9), (6144, 6e9)):
            assert curve.bandwidth_bytes_per_s(size) == pytest.approx(rate)
        assert curve.bandwidth_bytes_per_s(4095) is None
        assert curve.bandwidth_bytes_per_s(16385) is None


def test_working_sets():
    assert working_sets(16 * KIB, fine=False) == (4096, 8192, 16384)
    assert working_sets(16 * KIB, fine=True) == (4096, 6144, 8192, 12288, 16384)


def test_every_memory_measurement_runs():
    for point, measurement in memory_measurements(64 * KIB, fine=True).items():
        seconds, operations = measurement.run(1)
        assert seconds >= 0, point
        assert operations > 0, point


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
    assert calibrate._largest_working_set(levels, available_bytes, quick=quick) == expected


def test_too_little_memory_is_said():
    with pytest.raises(CalibrationError, match="only 4 MiB of memory are free, at least 8 MiB"):
        calibrate._largest_working_set([], 4 * MIB, quick=True)


# ---- the whole


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrate")
    result = foretrace("calibrate", "--quick", "--json", "-o", "here.toml", cwd=folder)
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
    assert 1e8 < profile.core.clock_hz < 1e10
    assert profile.core.outstanding_misses >= 1
    assert {p.pattern for p in profile.bandwidth} == set(Pattern)
    assert len(profile.latency) >= 5
    assert {operation for curve in profile.gather_scatter for operation in curve.operations} == {"gather", "scatter"}
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
    output, errors = process.communicate(timeout=60)
    assert process.returncode in (-signal.SIGINT, 130)
    assert "interrupted, nothing was written" in errors
    assert "Traceback" not in errors
    assert output == ""
    assert list(tmp_path.iterdir()) == []


_INTERRUPTED = """
import os, signal, sys
from foretrace.benchmarks import calibrate
from foretrace.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
calibrate.measure = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT)
sys.argv = ["foretrace", "calibrate", "--quick", "-o", "here.toml"]
main()
"""
