"""The machines that come with foretrace: every figure sourced, and the published numbers come out again."""

import re
import tomllib
from pathlib import Path

import pytest
import tomli_w
from msgspec.structs import replace

from foretrace.cache_sim.hierarchy import Hierarchy
from foretrace.errors import ProfileError
from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.library import find, names
from foretrace.profiles.profile import CacheLevel, MachineKind, Source, SourceKind
from foretrace.profiles.profile_file import format_profile, parse_profile, read_profile, write_profile

KB, MB = 1024, 1024 * 1024
DOCS = Path(__file__).parents[1] / "docs" / "machine-profiles.md"


def test_the_machines_of_the_papers_are_there():
    assert set(names()) >= {
        "bluegene-p",
        "bluegene-q",
        "convey-hc1-fpga",
        "convey-hc1-host",
        "jaguar-xt4",
        "xeon-e5-2420",
        "xeon-e5462",
    }


@pytest.mark.parametrize("name", names())
def test_each_loads_and_is_named_as_its_file(name):
    profile = find(name)
    assert profile.name == name
    assert profile.notes
    assert not profile.bandwidth, "nobody published a surface"


@pytest.mark.parametrize("name", names())
def test_each_comes_back_the_same_from_a_file(name, tmp_path):
    profile = find(name)
    write_profile(profile, tmp_path / "copy.toml")
    assert read_profile(tmp_path / "copy.toml") == profile


@pytest.mark.parametrize("name", [n for n in names() if find(n).kind is MachineKind.HOST])
def test_each_host_has_a_hierarchy_of_its_published_sizes(name):
    profile = find(name)
    made = hierarchy_of(profile)
    assert made.hierarchy is not None
    assert [level.size_bytes for level in made.hierarchy.levels] == [cache.size_bytes for cache in profile.caches]
    for cache, level in zip(profile.caches, made.hierarchy.levels, strict=True):
        assert cache.ways in (None, level.ways)
        assert cache.line_bytes in (None, level.line_bytes)


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


def test_sources_are_cited_whole():
    for name in names():
        for source in find(name).sources.values():
            assert isinstance(source, Source)
            assert len(source.citation) > 20
            assert source.kind is not SourceKind.MEASURED, "nothing shipped was measured by foretrace"


def test_the_example_of_the_documentation_is_a_profile():
    blocks = re.findall(r"^```toml\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    example = parse_profile(blocks[0].encode())
    assert example.caches[1].ways is None
    assert parse_profile(format_profile(example).encode()) == example
    # The second block is a part of a file: with the rest of the Convey's profile it is the curve that is shipped.
    table = tomllib.loads(format_profile(find("convey-hc1-fpga"))) | tomllib.loads(blocks[1])
    assert parse_profile(tomli_w.dumps(table).encode()) == find("convey-hc1-fpga")


def test_the_documentation_names_every_table():
    text = DOCS.read_text()
    for table in ("core", "memory", "link", "metadata"):
        assert f"`[{table}]`" in text
    for table in ("caches", "bandwidth", "latency", "gather_scatter"):
        assert f"`[[{table}]]`" in text
