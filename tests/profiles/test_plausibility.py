"""What no machine can have is refused, with its line; what contradicts beyond noise is a doubt; hostile files end."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from profile_samples import GOOD

from foretrace.base.errors import ProfileError
from foretrace.profiles.checks import check
from foretrace.profiles.library import find
from foretrace.profiles.plausibility import doubts, with_contradictions_as_noise
from foretrace.profiles.positions import line_of
from foretrace.profiles.profile import BandwidthPoint, LatencyPoint, Pattern
from foretrace.profiles.profile_file import parse_named, parse_profile

KB, MB = 1024, 1 << 20


def error_of(text):
    with pytest.raises(ProfileError) as caught:
        parse_named("mine.toml", text if isinstance(text, bytes) else text.encode())
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600
    return message


def line_with(text, part):
    """Number of the first line of a text with this part."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [  # a figure in another unit than its key says
        ("clock_hz = 2.0e9", "clock_hz = 2.0", "clock_hz is 2, no machine has that: .* hertz: 2.1 GHz is 2.1e9"),
        ("clock_hz = 2.0e9", "clock_hz = 2000", "clock_hz is 2000, no machine"),
        ("size_bytes = 32768", "size_bytes = 32", "size_bytes is 32, no machine .* bytes: 32 KiB is 32768"),
        ("latency_s = 90e-9", "latency_s = 90", "memory: latency_s is 90, .* seconds: 85 ns is 85e-9"),
        (
            "bandwidth_bytes_per_s = 1e10",
            "bandwidth_bytes_per_s = 10.0",
            "bandwidth entry 1: bandwidth_bytes_per_s is 10, no machine .* 12.8 GB/s is 12.8e9",
        ),
    ],
)
def test_another_unit_is_noticed_and_its_line_told(old, new, message):
    text = GOOD.replace(old, new, 1)
    error = error_of(text)
    assert re.search(message, error)
    assert error.startswith(f"mine.toml:{line_with(text, new)}: ")


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ('title = "A box"', 'titel = "A box"', "titel ="),
        ('kind = "host"', 'kind = "toaster"', "toaster"),
        ('date = "2011-05-31"', 'date = "May"', '"May"'),
        ("ways = 8", "ways = 0", "ways = 0"),
        ("latency_s = 5e-9", "latency_s = 1e-10", "1e-10"),
        ("latency_s = 90e-9", "latency_s = 2e-9", "latency_s = 2e-9"),
        ('operations = ["gather"]', 'operations = ["gahter"]', "gahter"),
        ("to_bytes = 8192", "to_bytes = 4000", "to_bytes = 4000"),
        ("[core]", "[core", "[core"),
    ],
)
def test_a_complaint_tells_its_line(old, new, part):
    text = GOOD.replace(old, new, 1)
    line = int(re.match(r"mine\.toml:(\d+): ", error_of(text))[1])
    assert part in text.splitlines()[line - 1]


def test_lines_of_lists_in_lists_are_told_apart():
    assert line_of(GOOD, "gather_scatter entry 1, piece 2: from_bytes is 8192") == line_with(GOOD, "from_bytes = 8192")
    assert line_of(GOOD, "caches entry 2 (L2): size_bytes is 0") == line_with(GOOD, "size_bytes = 1048576")
    assert line_of(GOOD, "caches entry 3 (L2): size_bytes is 0") is None
    assert line_of(GOOD, "an accelerator needs [link]") is None
    inline = "caches = [\n  { name = 'L1' },\n]\n"
    assert line_of("x = 1\n" + inline, "caches entry 1, size_bytes is 'a'") == 3


def test_a_complaint_about_an_inline_table_is_placed_on_its_line():
    text = """
latency = [ # { not one
    { source = "}{", latency_s = 1 }, { latency_s = 2, noise = { a = 1 } },
    { latency_s = 3 },
]
y = 1
[[gather_scatter]]
points = [
    { range_bytes = 1 },

    { range_bytes = 2 }]
[core]
clock_hz = 1
"""
    assert [line_of(text, f"latency entry {n}: latency_s is 0") for n in (1, 2, 3)] == [3, 3, 4]
    assert line_of(text, "latency entry 4: latency_s is 0") == 2
    assert line_of(text, "gather_scatter entry 1, point 2: range_bytes is 0") == 11
    assert line_of(text, "core: clock_hz is 0") == 13


def with_latencies(*points):
    return replace(find("jaguar-xt4"), latency=tuple(LatencyPoint(s, t, "amd", n) for s, t, n in points))


def test_latency_that_falls_beyond_noise_is_doubtful():
    assert not doubts(with_latencies((4 * KB, 1e-9, 0.0), (8 * KB, 1.2e-9, 0.1), (16 * KB, 1.0e-9, None)))
    (doubt,) = doubts(with_latencies((4 * KB, 1e-9, 0.0), (8 * MB, 130e-9, 0.1), (16 * MB, 90e-9, 0.02)))
    assert doubt.startswith("latency entry 3: falls from 1.3e-07 s over 8388608 bytes to 9e-08 s")
    assert "29% more than noise explains" in doubt  # 130 / 90 / (1.1 * 1.02)
    noisy = with_latencies((8 * MB, 130e-9, 0.3), (16 * MB, 90e-9, 0.02))
    assert not doubts(noisy)


def test_points_of_other_pages_are_other_curves():
    profile = replace(
        find("jaguar-xt4"),
        latency=(LatencyPoint(8 * MB, 200e-9, "amd", page_bytes=4096), LatencyPoint(16 * MB, 90e-9, "amd")),
    )
    assert not doubts(profile)


def test_latency_that_falls_to_less_than_half_is_refused():
    fall = "\n".join(
        f'[[latency]]\nworking_set_bytes = {size}\nlatency_s = {time}\nsource = "doc"\n'
        for size, time in ((1 << 20, 80e-9), (1 << 22, 30e-9))
    )
    message = error_of(GOOD + fall)
    assert "latency entry 3: latency_s is 3e-08 over 4194304 bytes, 2.67 times below the 8e-08 over 1048576" in message
    assert message.startswith(f"mine.toml:{len(GOOD.splitlines()) + 8}: ")


def test_an_outer_level_that_streams_faster_is_doubtful():
    def measured(*points):
        points = tuple(BandwidthPoint(s, Pattern.SEQUENTIAL, 8, b, "amd", 0.05) for s, b in points)
        return replace(find("jaguar-xt4"), bandwidth=points)

    assert not doubts(measured((4 * KB, 10e9), (32 * KB, 14e9), (128 * KB, 14.5e9), (64 * MB, 3e9)))
    (doubt,) = doubts(measured((32 * KB, 14e9), (128 * KB, 10e9), (1 * MB, 20e9), (64 * MB, 3e9)))
    assert "bandwidth: L3 streams" in doubt
    assert "faster than L2" in doubt


NOISE = st.none() | st.floats(0, 1)
SIZES = st.sampled_from([4 * KB, 16 * KB, 32 * KB, 128 * KB, 1 * MB, 8 * MB, 64 * MB])


@given(
    st.lists(
        st.tuples(SIZES, st.floats(1e-9, 1e-7), NOISE, st.sampled_from([None, 2 * MB])),
        max_size=8,
        unique_by=lambda p: (p[0], p[3]),
    ),
    st.lists(
        st.tuples(SIZES, st.floats(1e9, 1e11), NOISE, st.sampled_from([4, 8])),
        max_size=8,
        unique_by=lambda p: (p[0], p[3]),
    ),
)
def test_what_was_measured_is_as_noisy_as_its_contradictions_show(latencies, bandwidths):
    profile = replace(
        find("jaguar-xt4"),
        latency=tuple(LatencyPoint(size, value, "amd", noise, pages) for size, value, noise, pages in latencies),
        bandwidth=tuple(BandwidthPoint(s, Pattern.SEQUENTIAL, a, b, "amd", n) for s, b, n, a in bandwidths),
    )
    noisy = with_contradictions_as_noise(profile)
    assert not doubts(noisy)
    check(noisy)
    for before, after in zip((*profile.latency, *profile.bandwidth), (*noisy.latency, *noisy.bandwidth), strict=True):
        assert replace(after, noise=before.noise) == before
        assert (after.noise or 0) >= (before.noise or 0)


def test_of_two_figures_in_contradiction_the_slower_was_disturbed():
    noisy = with_contradictions_as_noise(
        with_latencies((4 * KB, 1e-9, 0.0), (8 * MB, 130e-9, 0.1), (16 * MB, 91e-9, 0.0))
    )
    assert [point.noise for point in noisy.latency] == [0.0, pytest.approx(130 / 91 - 1), 0.0]


@pytest.mark.parametrize("field", ["core_read_bandwidth_bytes_per_s", "sustained_bandwidth_bytes_per_s"])
def test_no_memory_gives_more_than_its_peak(field):
    text = GOOD.replace(
        'latency_s = 90e-9\nsource = { latency_s = "doc" }',
        f"peak_bandwidth_bytes_per_s = 10e9\n{field} = 12e9\n"
        f'source = {{ peak_bandwidth_bytes_per_s = "doc", {field} = "doc" }}',
    )
    assert f"memory: {field} is 1.2e+10, must be at most peak_bandwidth_bytes_per_s, 1e+10" in error_of(text)
    assert parse_profile(text.replace("12e9", "10.1e9").encode()).memory  # published figures are rounded


@pytest.mark.parametrize(
    ("content", "message"),
    [  # each of these takes a careless reader minutes, or all memory, or the terminal
        (b".".join([b"a"] * 500_000) + b" = 1", "mine.toml:1: is not a profile: longer than 4096 bytes"),
        (b"".join(b"[x%d]\n%b = 1\n" % (k, b".".join([b"a"] * 2000)) for k in range(250)), "a key of more than 16"),
        (b"x = 1\ny = {" + b" . ".join([b"'a'", b'"b.c"', b"d"] * 100) + b" = 1}", "mine.toml:2: is not a profile: a"),
        ((b"k" * 4000 + b"\n") * 250, "is not TOML"),
        (b"a = " + b"[\n" * 500_000, "nested too deeply"),
        (b"a = " + b"{a=" * 1300, "nested too deeply"),
        (b"k" * 4000 + b" = 1", "mine.toml: unknown key 'kkk"),
        (b"x = '" + b"\x00" * 10 + b"'", "is not TOML"),
        (GOOD.replace("A box", "A\\u001b[2J box").encode(), "title has the control character U+001B: remove it"),
        (GOOD.replace("A box", "A \\u202ebox").encode(), "title has the control character U+202E"),
        (GOOD.replace("Box manual", "Box\\u0000").encode(), "citation has the control character U+0000"),
        (GOOD.replace('"L1"', '"' + "L" * 1000 + '"').encode(), "name has 1000 characters, must have at most 64"),
        (GOOD.replace("[sources.doc]", "[sources." + "d" * 1000 + "]").encode(), "has 1000 characters"),
        (
            (GOOD + "[[caches]]\nname = 'x'\nsize_bytes = 4194304\nsource = {size_bytes = 'doc'}\n" * 20_000).encode(),
            "caches has 20002 entries, must have at most 8",
        ),
        (
            (GOOD.replace('{ clock_hz = "doc" }', '{ clock_hz = "dok" }') + "".join(
                f"[sources.s{k}]\nkind='vendor'\ncitation='c'\ndate='2011'\n" for k in range(20_000)
            )).encode(),
            "source 'dok' is not in [sources]: add [sources.dok]; did you mean 'doc'?",
        ),
        (GOOD.replace("clock_hz = 2.0e9", "clock_hz = -inf").encode(), "clock_hz is -inf, must be finite"),
        (GOOD.replace('name = "box"', 'name = "/etc/passwd"').encode(), "name is '/etc/passwd', must be"),
        (GOOD.replace('[sources.doc]', '[sources.doc]\nurl = "file:///etc/passwd"').encode(), "must begin with https://"),
    ],
)  # fmt: skip
def test_a_hostile_file_gets_one_short_line(content, message):
    assert message in error_of(content)
