"""The machines that come with foretrace: every figure sourced, and the published numbers come out again."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import tomli_w
from msgspec.structs import replace
from warm_command_line import warm_command_line

from foretrace.base.errors import ProfileError
from foretrace.cache_sim.base.hierarchy import Hierarchy
from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.interconnect import interconnect_from
from foretrace.profiles.library import find, names
from foretrace.profiles.plausibility import doubts
from foretrace.profiles.points import IndexMode
from foretrace.profiles.profile import CacheLevel, MachineKind, Source, SourceKind
from foretrace.profiles.profile_file import format_profile, parse_profile, read_profile, write_profile
from foretrace.replay.node.predictions import predict_each
from foretrace.replay.offload.devices.device import Device
from foretrace.replay.offload.devices.gather_scatter import bandwidth_bytes_per_s
from foretrace.replay.offload.triage import triage
from foretrace.reports import machine_reports
from foretrace.tracer.signature.file import read_signature

KB, MB = 1024, 1024 * 1024
HOSTS = tuple(name for name in names() if find(name).kind is MachineKind.HOST)
ACCELERATORS = tuple(name for name in names() if find(name).kind is MachineKind.ACCELERATOR)
MEASURED_HOSTS = ("epyc-milan-vm", "epyc-turin-vm", "xeon-granite-vm")
MEASURED = (*MEASURED_HOSTS, "h200-vm")
DOCS = Path(__file__).parents[2] / "docs" / "machine-profiles.md"


def test_the_machines_of_the_papers_are_there():
    assert set(names()) >= {
        "bluegene-p",
        "bluegene-q",
        "convey-hc1-fpga",
        "convey-hc1-host",
        "jaguar-xt4",
        "power6",
        "xeon-e5-2420",
        "xeon-e5462",
    }


def test_there_is_a_machine_for_each_kind_of_decision():
    assert len(names()) >= 20
    profiles = [find(name) for name in names()]
    assert {p.instruction_set for p in profiles if p.kind is MachineKind.HOST} >= {"x86_64", "aarch64", "ppc64"}
    assert sum(p.kind is MachineKind.ACCELERATOR for p in profiles) >= 8
    assert sum(p.kind is MachineKind.HOST and p.product.year >= 2021 for p in profiles) >= 10
    shared = {p.name for p in profiles if p.link and p.link.shared_memory}
    assert shared == {"convey-hc1-fpga", "mi300a"}


@pytest.mark.parametrize("name", names())
def test_each_loads_and_is_named_as_its_file(name):
    profile = find(name)
    assert profile.name == name
    assert profile.notes
    assert 1990 < profile.product.year <= 2026
    assert not doubts(profile)
    measured = any(source.kind is SourceKind.MEASURED for source in profile.sources.values())
    assert not profile.surface or measured, "nobody published a surface"


@pytest.mark.parametrize("name", names())
def test_each_comes_back_the_same_from_a_file(name, tmp_path):
    profile = find(name)
    write_profile(profile, tmp_path / "copy.toml")
    assert read_profile(tmp_path / "copy.toml") == profile


@pytest.mark.parametrize("name", HOSTS)
def test_each_host_has_a_hierarchy_of_its_published_sizes(name):
    profile = find(name)
    made = hierarchy_of(profile)
    assert made.hierarchy is not None
    assert [level.size_bytes for level in made.hierarchy.levels] == [cache.size_bytes for cache in profile.caches]
    for cache, level in zip(profile.caches, made.hierarchy.levels, strict=True):
        assert cache.ways in (None, level.ways)
        assert cache.line_bytes in (None, level.line_bytes)


@pytest.mark.parametrize("name", MEASURED_HOSTS)
def test_a_machine_that_was_measured_says_on_what_and_how(name):
    profile = find(name)
    assert profile.metadata["virtual_machine"] == "yes"
    assert set(profile.metadata) >= {"cpu", "kernel", "compiler", "compiler_flags", "samples", "noise", "duration_s"}
    assert profile.partial is None
    assert profile.surface
    assert profile.unstable
    last = profile.caches[-1]
    assert last.effective_size_bytes <= last.effective_stream_size_bytes < last.size_bytes


@pytest.mark.parametrize("operation", ["gather", "scatter"])
def test_gather_and_scatter_fall_in_steps_where_the_range_leaves_a_cache(operation):
    """As on the host of figures 6 and 7 of Carrington et al., ICS'11: with random indices more than with stride 1."""
    curves = {
        curve.index_mode: {point.range_bytes: point.bandwidth_bytes_per_s for point in curve.points}
        for curve in find("epyc-milan-vm").gather_scatter
        if curve.operations == (operation,) and curve.element_bytes == 8 and (curve.threads or 1) == 1
    }
    random, stride = curves[IndexMode.RANDOM], curves[IndexMode.STRIDE_1]
    assert random[16 * KB] > 1.3 * random[128 * KB] > 1.3 * 1.2 * random[2 * MB]  # L1 and L2 end
    assert random[4 * MB] > 3 * random[16 * MB]  # what it gets of L3 ends
    assert stride[4 * MB] > 1.5 * stride[32 * MB]
    assert stride[4 * MB] / stride[32 * MB] < 0.5 * random[4 * MB] / random[32 * MB]
    assert min(stride[128 * MB] / random[128 * MB], stride[64 * MB] / random[64 * MB]) > 5


def test_cores_that_keep_the_order_are_those_that_somebody_says_so_of():
    in_order = {name for name in HOSTS if find(name).core.in_order}
    assert in_order == {"bluegene-q", "power6"}
    for name in in_order:
        profile = find(name)
        assert profile.sources[profile.core.source["in_order"]].is_opened


def test_what_a_hierarchy_assumes_is_said():
    made = hierarchy_of(find("xeon-e5-2420"))
    assert any("L3" in text and "16 ways assumed" in text for text in made.assumptions)
    assert any("shared by 6 cores" in text for text in made.assumptions)
    assert hierarchy_of(find("convey-hc1-fpga")).hierarchy is None


def test_an_unpublished_geometry_is_assumed_to_fit():
    sizes = replace(
        find("convey-hc1-host"),
        caches=(CacheLevel("A", 48 * KB, {"size_bytes": "x"}), CacheLevel("B", 7 * 5 * KB * 64, {"size_bytes": "x"})),
    )
    made = hierarchy_of(sizes)
    assert made.hierarchy == Hierarchy.parse(f"A=48K/16/64,B={7 * 5 * KB * 64}/16/64", name="convey-hc1-host")
    assert len(made.assumptions) == 4


@pytest.mark.parametrize(
    ("range_bytes", "gigabytes_per_s"),
    [  # Carrington et al., ICS'11, equations 3 and 4, worked by hand
        (192 * KB + 1, 14.56609),
        (1 * MB, 23.08576),
        (3 * MB - 1, 44.05727),
        (3 * MB, 48.0),
        (16 * MB, 48.0),
    ],
)
def test_the_convey_curve_gives_the_published_bandwidths(range_bytes, gigabytes_per_s):
    (curve,) = find("convey-hc1-fpga").gather_scatter
    assert curve.bandwidth_bytes_per_s(range_bytes) == pytest.approx(gigabytes_per_s * 1e9, rel=1e-12)


@pytest.mark.parametrize("range_bytes", [0, 1, 191 * KB, 192 * KB])
def test_the_convey_does_not_take_short_ranges(range_bytes):
    (curve,) = find("convey-hc1-fpga").gather_scatter
    assert curve.bandwidth_bytes_per_s(range_bytes) is None
    assert curve.piece_at(range_bytes) is None
    assert range_bytes < curve.minimum_range_bytes


def test_a_range_lies_in_one_piece_of_the_convey_curve():
    (curve,) = find("convey-hc1-fpga").gather_scatter
    first, second = curve.pieces
    assert curve.minimum_range_bytes == first.from_bytes == 192 * KB + 1
    assert curve.piece_at(3 * MB - 1) is first
    assert curve.piece_at(3 * MB) is second
    assert find("convey-hc1-fpga").link.shared_memory


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [  # one figure of each new machine, worked by hand from what its source says
        ("epyc-7763", "core.clock_hz * caches.0.latency_s", 4),  # cycles
        ("epyc-9654", "memory.peak_bandwidth_bytes_per_s", 12 * 8 * 4800e6),
        ("epyc-9755", "core.peak_flops_per_cycle", 2 * 8 * 2),  # two fused multiply-adds of eight
        ("xeon-platinum-8360y", "memory.latency_s", 89.2e-9),
        ("xeon-platinum-8480", "memory.sustained_bandwidth_bytes_per_s", 3 * 8 * 1000000512 / 0.060048817 / 2),
        ("xeon-6980p", "memory.peak_bandwidth_bytes_per_s", 12 * 8 * 8.8e9),
        ("graviton3", "memory.peak_bandwidth_bytes_per_s", 8 * 8 * 4.8e9),
        ("graviton4", "caches.2.size_bytes", 36 * MB),
        ("grace", "memory.peak_bandwidth_bytes_per_s", 410e9 / 0.8),
        ("a64fx", "memory.sustained_bandwidth_bytes_per_s", 4 * 227.5e9),
        ("raspberry-pi-5", "latency.15.latency_s", 117.9e-9),
        ("apple-m1-pro", "caches.0.size_bytes", 128 * KB),
        ("power6", "core.clock_hz * caches.0.latency_s", 2),
        ("a100-sxm-80gb", "memory.latency_s", 570.2 / 1.41e9),
        ("h100-pcie-80gb", "memory.latency_s", 658.4 / 1.755e9),
        ("h200-sxm-141gb", "core.cores", 135168 / 1024),
        ("gh200-gpu-96gb", "link.to_device_bytes_per_s", 346e9),
        ("b200-sxm-192gb", "core.cores", 2 * 74),
        ("mi250x-gcd", "core.cores * core.clock_hz * core.peak_flops_per_cycle", 23.9e12),
        ("mi300x-192gb", "core.cores * core.clock_hz * core.peak_flops_per_cycle", 81.7e12),
        ("mi300a", "memory.sustained_bandwidth_bytes_per_s", 0.63 * 5.3e12),
    ],
)
def test_a_published_figure_of_each_machine_comes_out_again(name, path, value):
    profile = find(name)
    product = 1.0
    for factor in path.split(" * "):
        found = profile
        for part in factor.split("."):
            found = found[int(part)] if part.isdigit() else getattr(found, part)
        product *= found
    assert product == pytest.approx(value, rel=2e-3)


def test_published_figures_of_the_other_papers():
    xeon, bgq = find("xeon-e5462"), find("bluegene-q")
    assert xeon.memory.core_read_bandwidth_bytes_per_s == 3585e6  # Narayanan et al., PSTI 2010, section 4.1
    assert xeon.core.clock_hz * xeon.core.peak_flops_per_cycle == pytest.approx(11.2e9)  # the same, table 6
    assert bgq.caches[1].latency_s * bgq.core.clock_hz == pytest.approx(51)  # Guo et al., IPDPS 2014, section VI
    assert bgq.memory.latency_s * bgq.core.clock_hz == pytest.approx(180)


def test_an_unknown_machine_gets_a_suggestion():
    with pytest.raises(
        ProfileError, match=r"'jaguar-xt5' is neither .* did you mean 'jaguar-xt4'\? .*foretrace machines"
    ):
        find("jaguar-xt5")


def test_a_path_is_read_as_a_file(tmp_path, monkeypatch):
    write_profile(find("jaguar-xt4"), tmp_path / "mine.toml")
    monkeypatch.chdir(tmp_path)
    assert find("mine.toml") == find(str(tmp_path / "mine.toml")) == find("jaguar-xt4")
    (tmp_path / "mine").write_bytes((tmp_path / "mine.toml").read_bytes())
    assert find("mine") == find("jaguar-xt4")
    with pytest.raises(ProfileError, match=r"absent\.toml: cannot be read: No such file"):
        find("absent.toml")


def figures(profile):
    """Place, key, value and source of every single figure, as `machines show` lists them."""
    return list(machine_reports.figures(profile))


@pytest.mark.parametrize("name", names())
def test_each_source_is_used_and_most_figures_are_from_one_that_was_opened(name):
    profile = find(name)
    used = [source for _, _, _, source, _ in figures(profile)]
    points = (*profile.bandwidth, *profile.latency, *profile.idiom_rates, *profile.operations, *profile.gather_scatter)
    used += [point.source for point in (*points, *profile.array_costs)]
    assert set(used) == set(profile.sources)
    for source in profile.sources.values():
        assert source.read_on is None or source.read_on >= source.date[:10]
        assert source.read_on is not None or source.url is None or source.kind is SourceKind.DERIVED


def test_most_figures_were_found_in_their_source():
    profiles = [find(name) for name in names()]
    opened = [p.sources[source].is_opened for p in profiles for _, _, _, source, _ in figures(p)]
    assert sum(opened) > 0.6 * len(opened)


def test_sources_are_cited_whole():
    for name in names():
        for source in find(name).sources.values():
            assert isinstance(source, Source)
            assert len(source.citation) > 20
            assert source.kind is not SourceKind.MEASURED or name in MEASURED


def test_the_example_of_the_documentation_is_a_profile():
    blocks = re.findall(r"^```toml\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    example = parse_profile(blocks[0].encode())
    assert example.caches[1].ways is None
    assert parse_profile(format_profile(example).encode()) == example
    assert interconnect_from(tomllib.loads(blocks[1])).network.latency_s > 0
    # The third block is a part of a file: with the rest of the Convey's profile it is the curve that is shipped.
    table = tomllib.loads(format_profile(find("convey-hc1-fpga"))) | tomllib.loads(blocks[2])
    assert parse_profile(tomli_w.dumps(table).encode()) == find("convey-hc1-fpga")


def shown_in_the_documentation():
    """The commands of the documentation's consoles, each with the lines that it is shown to print."""
    for block in re.findall(r"^```console\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            yield command, lines


def test_the_steps_of_the_documentation_print_what_it_shows(tmp_path):
    example = re.findall(r"^```toml\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)[3]
    (tmp_path / "mine.toml").write_text(example)
    executable = Path(sys.executable).parent / "foretrace"
    commands = 0
    for command, lines in shown_in_the_documentation():
        shell = re.sub("^foretrace ", f"{executable} ", command)
        made = subprocess.run(shell, shell=True, cwd=tmp_path, capture_output=True, text=True)
        printed = (made.stdout + made.stderr).splitlines()
        assert made.returncode == (74 if any("error:" in line for line in lines) else 0), command
        assert [line for line in lines if line != "..." and line not in printed] == [], command
        assert "..." in lines or lines == printed, command
        commands += 1
    assert commands == 8


def test_the_documentation_names_every_table():
    text = DOCS.read_text()
    for table in ("product", "core", "memory", "link", "metadata"):
        assert f"`[{table}]`" in text
    for table in ("caches", "bandwidth", "latency", "gather_scatter"):
        assert f"`[[{table}]]`" in text


GATHER = """
#include <stdlib.h>
int main(void) {
    enum { n = 1 << 19 };
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), sum = 0;
    unsigned *index = malloc(n * sizeof *index), state = 1;
    for (unsigned i = 0; i < n; i++) { a[i] = i; index[i] = (state = state * 1664525u + 1013904223u) >> 13; }
    for (int round = 0; round < 3; round++)
        for (unsigned i = 0; i < n; i++) b[i] = a[index[i]];
    for (unsigned i = 0; i < n; i++) sum += b[i];
    return sum < 0;
}
"""


@pytest.fixture(scope="module")
def gathering(compile_c, tmp_path_factory):
    """The signature of a program that gathers 4 MiB at random."""
    path = tmp_path_factory.mktemp("gathering") / "gather.sig"
    trace = ["trace", "-o", str(path), "--", str(compile_c(GATHER, "-O2"))]
    assert warm_command_line().run(trace).returncode == 0
    return read_signature(path)


def test_every_host_is_predicted_and_the_order_makes_sense(gathering):
    predictions, refused = predict_each(gathering, [find(name) for name in HOSTS])
    assert not refused
    assert {prediction.machine for prediction in predictions} == set(HOSTS)
    for prediction in predictions:
        assert 0 < prediction.low_s <= prediction.time_s <= prediction.high_s < 60
    time_s = {prediction.machine: prediction.time_s for prediction in predictions}
    servers = [name for name in HOSTS if find(name).product.year >= 2020 and find(name).core.cores >= 32]
    for older in ("bluegene-p", "bluegene-q", "convey-hc1-host", "jaguar-xt4", "xeon-e5462"):
        assert [name for name in servers if time_s[name] >= time_s[older]] == [], older


@pytest.mark.parametrize("name", ACCELERATORS)
def test_every_accelerator_tells_what_a_triage_needs(name):
    profile = find(name)
    device = Device.of(profile)
    assert bandwidth_bytes_per_s(profile, frozenset({"gather", "scatter"}), 1 << 30) > 1e9
    assert device.way.shared_memory or device.way.to_device_bytes_per_s > 1e9
    assert (device.rates is None) == (name == "convey-hc1-fpga")


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "mi300a"])
def test_an_accelerator_with_and_one_without_transfers_is_triaged(name, gathering):
    found = triage(gathering, find("xeon-platinum-8360y"), find(name))
    assert found.instances
    assert all(instance.reason for instance in found.instances)
    assert any(instance.offload for instance in found.instances)
    assert found.program.after_s <= found.program.host_s * (1 + 1e-9)
