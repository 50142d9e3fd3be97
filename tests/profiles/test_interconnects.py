"""Interconnects: those that ship, reading and refusing files, finding one, and two figures on the command line."""

import json

import pytest
from warm_command_line import warm_command_line

from foretrace.base.errors import ProfileError
from foretrace.profiles import interconnect as interconnects
from foretrace.profiles.interconnect import (
    format_interconnect,
    interconnect_of,
    parse_named,
    read_interconnect,
)
from foretrace.profiles.plausibility import refuse_unlikely

GOOD = """schema = "foretrace.interconnect/1"
name = "mine"
title = "Mine"
date = "2026-11"
topology = "torus:4x4"
messages = [
    { message_bytes = 8, time_s = 2e-6, source = "bench", noise = 0.1 },
]

[sources.bench]
kind = "measured"
citation = "osu_latency"
date = "2026-11"

[network]
latency_s = 2e-6
bandwidth_bytes_per_s = 10e9
hop_latency_s = 1e-7
source = { latency_s = "bench", bandwidth_bytes_per_s = "bench", hop_latency_s = "bench" }
"""


def foretrace(*arguments):
    return warm_command_line().run([*arguments])


@pytest.mark.parametrize("name", interconnects.names())
def test_shipped_interconnects_are_sourced_and_rise_with_size(name):
    one = interconnect_of(name)
    assert one.name == name
    assert one.network.latency_s
    assert one.network.bandwidth_bytes_per_s
    sizes = [point.message_bytes for point in one.messages]
    assert sizes == sorted(sizes)
    for point in one.messages:
        assert point.time_s >= point.message_bytes / one.network.bandwidth_bytes_per_s * 0.97
    assert all(source.is_opened or "(m)" in source.citation for source in one.sources.values())


def test_there_is_a_choice():
    assert set(interconnects.names()) >= {"infiniband-hdr", "slingshot-11", "cray-aries", "tofu-d", "ethernet-25g"}


def test_a_file_is_read_and_written(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    one = interconnect_of(str(path))
    assert one == read_interconnect(path)
    assert one.network.hop_latency_s == 1e-7
    assert one.messages[0].noise == 0.1
    assert parse_named("x", format_interconnect(one).encode()) == one


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("latency_s = 2e-6\n", "latency_us = 2\n", "unknown key 'latency_us'; did you mean 'latency_s'?"),
        ("interconnect/1", "interconnect/2", "this release reads 'foretrace.interconnect/1'"),
        ("foretrace.interconnect/1", "foretrace.profile/1", "is a machine's profile, not an interconnect"),
        ("torus:4x4", "ring", "topology is 'ring', must be one of crossbar, torus, fat-tree, dragonfly"),
        ('latency_s = "bench", b', "b", "network: latency_s has no source"),
        ('latency_s = "bench", b', 'latency_s = "bunch", b', "source 'bunch' is not in [sources]"),
        ("latency_s = 2e-6\n", "latency_s = 2.0\n", "latency_s is 2, no machine has that"),
        ("latency_s = 2e-6\n", "latency_s = nan\n", "must be finite"),
        ("latency_s = 2e-6\n", 'latency_s = "2us"\n', "must be a number"),
        ("hop_latency_s = 1e-7", "hop_latency_s = 3e-6", "must be at most latency_s, 2e-06"),
        ("message_bytes = 8,", "message_bytes = -8,", "message_bytes is -8, must be positive"),
        ("},\n]", '},\n    { message_bytes = 8, time_s = 1e-6, source = "bench" },\n]', "a second point for 8"),
        ('name = "mine"', 'name = "My own"', "must be 1 to 64 lower-case letters"),
        ('title = "Mine"', 'title = "\\u001b[2J"', "has the control character U+001B"),
        ("[network]", "[network.x.y]", "unknown key 'x'"),
        ("[network]", "network", "is not an interconnect: it is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line_and_what_to_do(before, after, message):
    assert before in GOOD
    with pytest.raises(ProfileError) as refused:
        parse_named("mine.toml", GOOD.replace(before, after, 1).encode())
    assert message in str(refused.value)
    assert str(refused.value).startswith("mine.toml:")


def test_without_times_of_messages_latency_and_bandwidth_are_needed():
    lines = [line for line in GOOD.splitlines() if not line.startswith(("messages", "    {", "]", "bandwidth"))]
    content = "\n".join(lines).replace(', bandwidth_bytes_per_s = "bench"', "")
    with pytest.raises(ProfileError, match="latency_s and bandwidth_bytes_per_s must be given, or messages"):
        parse_named("mine.toml", content.encode())


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"a." * 5000 + b"b = 1", b"x = [" * 5000, b'schema = "foretrace.interconnect/1"', b"a" * 5000],
    ids=["empty", "not UTF-8", "long key", "nested", "no keys", "long line"],
)
def test_hostile_files_get_one_line(content, tmp_path):
    path = tmp_path / "evil.toml"
    path.write_bytes(content)
    with pytest.raises(ProfileError) as refused:
        read_interconnect(path)
    assert "\n" not in str(refused.value)


def test_a_large_file_is_refused_unread(tmp_path):
    path = tmp_path / "large.toml"
    path.write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(ProfileError, match=r"large\.toml"):
        read_interconnect(path)


@pytest.mark.parametrize(
    ("text", "latency_s", "bytes_per_s"),
    [
        ("2us,12.5GB/s", 2e-6, 12.5e9),
        ("2us, 100Gb/s", 2e-6, 12.5e9),
        ("500ns,100Gbps", 5e-7, 12.5e9),
        ("0.05ms,117MB/s", 5e-5, 117e6),
        ("1e-6s,1e9B/s", 1e-6, 1e9),
    ],
)
def test_two_figures_are_an_interconnect(text, latency_s, bytes_per_s):
    network = interconnect_of(text).network
    assert network.latency_s == pytest.approx(latency_s)
    assert network.bandwidth_bytes_per_s == pytest.approx(bytes_per_s)
    refuse_unlikely("x", "latency_s", network.latency_s)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("infiniband-hrd", "did you mean 'infiniband-hdr'?"),
        ("2us", "is neither a known interconnect"),
        ("2us,12.5", "write them as in 2us,12.5GB/s"),
        ("1.2.3us,1GB/s", "write them as in"),
        ("0us,1GB/s", "latency_s is 0.0, must be positive"),
        ("2s,1GB/s", "no machine has that"),
        ("2us,1e300GB/s", "bandwidth_bytes_per_s"),
        ("absent.toml", "absent.toml: cannot be read"),
        ("folder/absent", "cannot be read"),
        ("x" * 5000, "is neither a known interconnect"),
        ("\0", "is neither a known interconnect"),
    ],
)
def test_other_text_is_refused(text, message):
    with pytest.raises(ProfileError) as refused:
        interconnect_of(text)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 400


def test_the_command_lists_and_shows_them():
    text = foretrace("machines", "--networks").stdout
    assert all(name in text for name in interconnects.names())
    document = json.loads(foretrace("machines", "--networks", "--json").stdout)
    assert [one["name"] for one in document["interconnects"]] == list(interconnects.names())
    assert document["interconnects"][1]["latency_s"] == 1.11e-6
    text = foretrace("machines", "show", "cray-aries").stdout
    assert "eager_threshold_bytes" in text
    assert "Piz Daint" in text
    shown = json.loads(foretrace("machines", "show", "cray-aries", "--json").stdout)
    assert len(shown["interconnect"]["messages"]) == 23
    assert foretrace("machines", "--networks", "show", "cray-aries").returncode == 2
    assert foretrace("machines", "show", "cray-aries", "-o", "x.svg").returncode == 74
