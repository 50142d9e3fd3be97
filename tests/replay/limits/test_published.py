"""Published bandwidths beside those of a profile."""

from __future__ import annotations

import json

import pytest
from command_line import run
from msgspec import structs

from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.library import find
from foretrace.profiles.published import PublishedFigure
from foretrace.replay.figures.machine_figures import figures_of
from foretrace.replay.limits.published import compare_published


def published(program, value, metric="one core", machine="epyc-9654"):
    return PublishedFigure(program, machine, metric, value, "bytes/s", "https://example.org")


def compared(profile, *figures):
    made = figures_of(profile, hierarchy_of(profile).hierarchy)
    return compare_published(profile, made, figures, profile.core.cores)


def test_bandwidths_of_memory_are_those_of_the_profile():
    profile = find("epyc-9654")
    reads, writes = published("bw_mem-rd-512.00", 34.6e9), published("bw_mem-wr-512.00", 20e9)
    (read, write), left = compared(profile, reads, writes)
    assert read.profile == pytest.approx(profile.memory.core_read_bandwidth_bytes_per_s)
    assert write.profile == pytest.approx(profile.memory.core_write_bandwidth_bytes_per_s)
    assert read.is_inside and read.ratio == pytest.approx(1) and not left
    assert not write.is_inside and write.ratio == pytest.approx(27.1 / 20)


def test_a_working_set_in_a_cache_is_read_at_its_rate():
    profile = find("graviton3")
    clock = profile.core.clock_hz
    (first, last), _ = compared(
        profile, *(published(f"bw_mem-rd-{size}", 50e9, machine="graviton3") for size in ("0.016384", "8.00"))
    )
    assert first.profile == pytest.approx(3 * 16 * clock), "three loads a cycle, a step of 16 bytes each"
    assert last.profile == pytest.approx(17 * clock, rel=0.01), "17 bytes a cycle out of the last cache"


def test_a_working_set_that_fills_a_cache_lies_between_two_levels():
    profile = find("epyc-9654")
    sizes = ("16.00", "32.00", "64.00")
    (inside, full, beyond), _ = compared(profile, *(published(f"bw_mem-rd-{size}", 50e9) for size in sizes))
    assert inside.profile > full.profile > beyond.profile
    assert full.low == pytest.approx(beyond.low) and full.high == pytest.approx(inside.high)


def test_stream_shares_the_memory_of_a_board():
    """The peak of a Raspberry Pi 5 is known: four threads are not four times as fast as one."""
    profile = find("raspberry-pi-5")
    one, four = (published("STREAM", 8e9, f"Triad, {n} threads", profile.name) for n in (1, 4))
    (alone, together), _ = compared(profile, one, four)
    assert together.profile / alone.profile <= 1.2
    free = structs.replace(
        profile,
        memory=structs.replace(profile.memory, peak_bandwidth_bytes_per_s=None, sustained_bandwidth_bytes_per_s=None),
    )
    (alone, together), _ = compared(free, one, four)
    assert together.profile / alone.profile == pytest.approx(4), "which is what nothing tells otherwise"


def test_single_figures_are_compared_by_their_key_and_programs_are_left():
    profile = find("graviton4")
    latency = published("memory.latency_s", 115e-9, "", profile.name)
    program = published("gzip-5", 3e7, "compress", profile.name)
    (found,), (left,) = compared(profile, latency, program, published("gzip-5", 3e7, "compress", "grace"))
    assert found.profile == profile.memory.latency_s and found.is_inside
    assert left is program


def test_the_command_compares_all_machines_of_a_file_or_one(tmp_path):
    file = tmp_path / "figures.csv"
    file.write_text(
        "program,machine,metric,value,unit\nbw_mem-rd-512.00,epyc-9654,x,34.6,GB/s\n"
        "bw_mem-rd-512.00,graviton3,x,10,GB/s\ngzip-1,graviton3,compress,10,MB/s\n"
    )
    found = json.loads(run("machines", "check", "--published", file, "--json").output)
    assert [machine["machine"] for machine in found["machines"]] == ["epyc-9654", "graviton3"]
    assert [one["inside"] for machine in found["machines"] for one in machine["figures"]] == [True, False]
    assert found["machines"][1]["need_a_program"] == ["gzip-1: compress"]
    text = run("machines", "check", "epyc-9654", "--published", file).output
    assert "1 of 1 inside their interval" in text and "graviton3" not in text
    assert run("machines", "check").exit_code == 2
