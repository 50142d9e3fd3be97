"""The reader and writer of profiles: whatever is wrong with a file, one line says what, where, and what to do."""

import itertools
import math
import os
import re
import string
from pathlib import Path

import msgspec
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from profile_samples import GOOD

from foretrace.base.errors import OutputError, ProfileError
from foretrace.base.file_kinds import PROFILE
from foretrace.base.files import check_output
from foretrace.base.toml_text import MAX_FILE_BYTES
from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.library import find
from foretrace.profiles.profile import (
    BandwidthPoint,
    Core,
    CurvePiece,
    GatherScatterCurve,
    LatencyPoint,
    MachineKind,
    Memory,
    Pattern,
    Profile,
    Source,
    SourceKind,
)
from foretrace.profiles.profile_file import format_profile, parse_profile, read_profile, write_profile


def error_of(text):
    with pytest.raises(ProfileError) as caught:
        parse_profile(text if isinstance(text, bytes) else text.encode())
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message


def names_in(folder):
    return [path.name for path in folder.iterdir()]


def test_the_example_is_good():
    assert parse_profile(GOOD.encode()).name == "box"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("clock_hz = 2.0e9", "clock = 2.0e9", r"^core: unknown key 'clock'; did you mean 'clock_hz'\?$"),
        ("clock_hz = 2.0e9", "colour = 1", r"^core: unknown key 'colour'"),
        ('title = "A box"', 'titel = "A box"', r"^unknown key 'titel'; did you mean 'title'\?$"),
        ('title = "A box"', "", r"^required key 'title' is missing$"),
        ('title = "A box"', 'title = " "', r"^title is empty"),
        ("clock_hz = 2.0e9", 'clock_hz = "fast"', r"^core\.clock_hz is 'fast', must be a number$"),
        ("clock_hz = 2.0e9", "clock_hz = true", r"^core\.clock_hz is true, must be a number$"),
        ("clock_hz = 2.0e9", "clock_hz = [1]", r"^core\.clock_hz is a list, must be a number$"),
        ("clock_hz = 2.0e9", "clock_hz = -2.0e9", r"^core: clock_hz is -2000000000\.0, must be positive$"),
        ("clock_hz = 2.0e9", "clock_hz = 0", r"^core: clock_hz is 0\.0, must be positive$"),
        ("clock_hz = 2.0e9", f"clock_hz = {10**400}", r"^core\.clock_hz is about 1e400, too large a number$"),
        ("size_bytes = 32768", f"size_bytes = {10**400}", r"size_bytes is about 1e400, must be below"),
        (
            "slope_bytes_per_s_per_byte = 0.0",
            "slope_bytes_per_s_per_byte = 1e308",
            r"bandwidth is inf at a range of 4096",
        ),
        ("clock_hz = 2.0e9", "clock_hz = nan", r"^core: clock_hz is nan, must be finite$"),
        ("clock_hz = 2.0e9", "clock_hz = inf", r"^core: clock_hz is inf, must be finite$"),
        ("clock_hz = 2.0e9", "clock_hz = 2011-05-31", r"^core\.clock_hz is 2011-05-31, must be a number$"),
        (
            "size_bytes = 32768",
            "size_bytes = -32768",
            r"^caches entry 1 \(L1\): size_bytes is -32768, must be positive$",
        ),
        (
            "size_bytes = 32768",
            "size_bytes = 32768.5",
            r"^caches entry 1, size_bytes is 32768\.5, must be a whole number$",
        ),
        ("size_bytes = 32768", "size_bytes = 32700", r"^caches entry 1 \(L1\): .*32700.*multiple of ways"),
        (
            "size_bytes = 32768",
            f"size_bytes = {1 << 70}",
            r"^caches entry 1 \(L1\): size_bytes is about 1e21, must be below 2\^63$",
        ),
        ("size_bytes = 32768", f"size_bytes = {'9' * 4000}", r"TOML|2\^63|huge"),
        (
            "size_bytes = 1048576",
            "size_bytes = 16384",
            r"L2\): size_bytes is 16384, must be at least that of L1, 32768",
        ),
        ("latency_s = 5e-9", "latency_s = 1e-10", r"L2\): latency_s is 1e-10, must be at least that of L1"),
        ("latency_s = 90e-9", "latency_s = 1e-9", r"^memory: latency_s is 1e-09, must be at least that of L2"),
        ('name = "L2"', 'name = "L1"', r"^caches entry 2 \(L1\): name is that of an earlier level"),
        (
            "ways = 8",
            'ways = 8\nreplacement = "best"',
            r"^caches entry 1, replacement is 'best', must be one of 'lru', 'plru'",
        ),
        ("ways = 8", 'ways = 8\nreplacement = "fifo"', r"^caches entry 1 \(L1\): replacement has no source"),
        ("ways = 8", "ways = 0", r"^caches entry 1 \(L1\): ways is 0, must be positive$"),
        ('source = { clock_hz = "doc" }', "", r"^core: required key 'source' is missing$"),
        (
            'source = { clock_hz = "doc" }',
            "source = {}",
            r"^core: clock_hz has no source: write source = \{ clock_hz =",
        ),
        (
            'source = { clock_hz = "doc" }',
            'source = { clock_hz = "dock" }',
            r"^core: clock_hz: source 'dock' is not in \[sources\]: add \[sources\.dock\]; did you mean 'doc'\?$",
        ),
        (
            'source = { clock_hz = "doc" }',
            'source = { clock_hz = "doc", cores = "doc" }',
            r"^core: source names 'cores', which is not given here",
        ),
        ('source = { clock_hz = "doc" }', 'source = "doc"', r"^core\.source is 'doc', must be a table$"),
        ('date = "2011-05-31"', 'date = "2011-05-32"', r"^sources\.doc\.date is '2011-05-32', must be a date"),
        ('date = "2011-05-31"', "date = 2011-05-31", r"^sources\.doc\.date is 2011-05-31, must be text in quotes$"),
        ('date = "2011-05-31"', "", r"^sources\.doc: required key 'date' is missing$"),
        ('citation = "Box manual"', 'citation = ""', r"^sources\.doc\.citation is empty"),
        ('kind = "vendor"', 'kind = "hearsay"', r"^sources\.doc\.kind is 'hearsay', must be one of 'paper', 'vendor'"),
        ('kind = "host"', 'kind = "toaster"', r"^kind is 'toaster', must be one of 'host', 'accelerator'$"),
        ('kind = "host"', 'kind = ["host"]', r"^kind is a list, must be one of"),
        ('kind = "host"', 'kind = "accelerator"', r"^an accelerator needs \[link\]"),
        ('schema = "foretrace.profile/1"', 'schema = "foretrace.profile/9"', r"^schema is 'foretrace\.profile/9'"),
        ('name = "box"', 'name = "My Box"', r"^name is 'My Box', must be"),
        ('name = "box"', 'name = "../box"', r"^name is '\.\./box', must be"),
        ('name = "box"', 'name = "box"\nname = "box"', r"^is not a profile: it is not TOML: .*line 4"),
        (
            "access_bytes = 8",
            "access_bytes = 8192",
            r"^bandwidth entry 1: access_bytes is 8192, more than its working set$",
        ),
        ('pattern = "sequential"', 'pattern = "chaotic"', r"^bandwidth entry 1, pattern is 'chaotic', must be one of"),
        (
            "bandwidth_bytes_per_s = 1e10",
            "bandwidth = 1e10",
            r"bandwidth entry 1: unknown key 'bandwidth'; .*bandwidth_byt",
        ),
        ('operations = ["gather"]', 'operations = ["gahter"]', r"operations has 'gahter'.* did you mean 'gather'\?$"),
        ('operations = ["gather"]', "operations = []", r"^gather_scatter entry 1: operations is empty"),
        ('operations = ["gather"]', 'operations = ["gather", "gather"]', r"a second curve for gather"),
        (
            "to_bytes = 8192",
            "to_bytes = 16384",
            r"piece 2: from_bytes is 8192, but piece 1 has its end at 16384: pieces must",
        ),
        (
            "to_bytes = 8192",
            "to_bytes = 8000",
            r"piece 2: from_bytes is 8192, but piece 1 has its end at 8000: pieces must",
        ),
        ("to_bytes = 8192\n", "", r"piece 2: from_bytes is 8192, but piece 1 has no end: pieces must adjoin"),
        ("to_bytes = 8192", "to_bytes = 4096", r"piece 1: to_bytes is 4096, must be above from_bytes, 4096$"),
        (
            "intercept_bytes_per_s = 2e9",
            "intercept_bytes_per_s = -2e9",
            r"bandwidth is -2000000000\.0 at a range of 4096 bytes",
        ),
        ("from_bytes = 4096", "from_bytes = -1", r"piece 1: from_bytes is -1, must be at least 0$"),
        ("[[latency]]\n", "[[latency]]\nnoise = -0.1\n", r"^latency entry 1: noise is -0\.1, must be at least 0$"),
        (
            "[memory]\n",
            "[link]\nshared_memory = true\nsource = {shared_memory='doc'}\n[memory]\n",
            r"^a host has no \[link\]",
        ),
        ("[core]", "[core", r"^is not a profile: it is not TOML: .*line"),
        ("[memory]", "[[memory]]", r"^memory is a list, must be a table$"),
        ("[sources.doc]", '[sources.""]', r"^sources: has an empty key$"),
    ],
)
def test_a_mistake_gets_one_clear_line(old, new, message):
    assert old in GOOD
    assert re.search(message, error_of(GOOD.replace(old, new, 1)))


def test_replacement_and_inclusion_are_those_simulated():
    stated = 'replacement = "plru"\ninclusion = "inclusive"\n'
    sources = (
        'source = { replacement = "doc", inclusion = "doc", size_bytes = "doc", line_bytes = "doc", latency_s = "doc" }'
    )
    head, _, tail = GOOD.partition("size_bytes = 1048576\n")
    text = head + "size_bytes = 1048576\n" + stated + re.sub("source = .*", sources, tail, count=1)
    profile = parse_profile(text.encode())
    assert parse_profile(format_profile(profile).encode()) == profile
    hierarchy = hierarchy_of(profile).hierarchy
    assert hierarchy is not None
    assert hierarchy.spec == "L1=32768/8/64,L2=1048576/16/64/plru/inclusive"
    first = text.replace("ways = 8\n", 'ways = 8\ninclusion = "exclusive"\n', 1)
    first = first.replace('ways = "doc"', 'ways = "doc", inclusion = "doc"', 1)
    assert error_of(first) == "caches: hierarchy box: inclusion of L1 is exclusive, but no level is inside it"


def test_an_open_piece_may_not_fall():
    text = GOOD.rpartition("slope_bytes_per_s_per_byte = 0.0")
    assert "must not be negative" in error_of(f"{text[0]}slope_bytes_per_s_per_byte = -1.0{text[2]}")


def test_a_point_may_not_be_given_twice():
    point = GOOD[GOOD.index("[[bandwidth]]") : GOOD.index("[[latency]]")]
    assert error_of(GOOD + point) == "bandwidth entry 2: a second point for (4096, 'sequential', 8), must be one"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "required key 'schema' is missing"),
        (b"a = 1\nb\xff\xfe", "is not text in UTF-8 (at line 2, column 2)"),
        (b"\x7fELF\x02\x01\x01\x00", "is not TOML"),
        (b"a = " + b"[\n" * 100_000, "nested too deeply"),
        (b"SQLite format 3\x00", "is not TOML"),
    ],
)
def test_a_file_that_is_something_else(content, message):
    assert message in error_of(content)


def test_the_message_names_the_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace("clock_hz = 2.0e9", "clock = 2.0e9"))
    with pytest.raises(ProfileError, match=rf"^{re.escape(str(path))}:14: core: unknown key 'clock'"):
        read_profile(path)


def test_what_is_no_file(tmp_path):
    with pytest.raises(ProfileError, match="cannot be read: No such file"):
        read_profile(tmp_path / "absent.toml")
    with pytest.raises(ProfileError, match="is not a file"):
        read_profile(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ProfileError, match="is not a file"):
        read_profile(tmp_path / "pipe")
    with pytest.raises(ProfileError, match="NUL"):
        read_profile("a\0b")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(ProfileError, match="is larger than 1 MiB"):
        read_profile(tmp_path / "huge")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")
def test_a_place_where_no_file_can_be_made_is_refused_before_the_work():
    """Where root, who may do everything, is told that it may."""
    with pytest.raises(OutputError, match="/proc cannot be written: "):
        check_output(Path("/proc/x.toml"), PROFILE, force=False)


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "secret.toml").write_text(GOOD)
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ProfileError, match=r"secret\.toml: cannot be read: Permission denied"):
        read_profile(tmp_path / "secret.toml")


def test_writing_never_replaces_without_force(tmp_path):
    path = tmp_path / "here.toml"
    path.write_text("precious")
    with pytest.raises(OutputError, match="exists already"):
        write_profile(find("jaguar-xt4"), path)
    assert path.read_text() == "precious"
    path.unlink()
    write_profile(find("power6"), path)
    with pytest.raises(OutputError, match="--force"):
        write_profile(find("jaguar-xt4"), path)
    write_profile(find("jaguar-xt4"), path, force=True)
    assert read_profile(path) == find("jaguar-xt4")
    assert names_in(tmp_path) == ["here.toml"]


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        write_profile(find("jaguar-xt4"), tmp_path / "here.toml")
    assert names_in(tmp_path) == []


def test_an_impossible_profile_is_not_written(tmp_path):
    profile = msgspec.structs.replace(find("jaguar-xt4"), name="No Name")
    with pytest.raises(ProfileError, match="name is 'No Name'"):
        write_profile(profile, tmp_path / "here.toml")
    assert names_in(tmp_path) == []


# ---- random input

words = st.text(string.ascii_lowercase + "_", min_size=1, max_size=12)
keys = st.one_of(
    words, st.sampled_from(["schema", "name", "core", "caches", "memory", "sources", "source", "clock_hz"])
)
scalars = st.one_of(
    st.text(max_size=20), st.integers(), st.floats(), st.booleans(), st.dates(), st.sampled_from(["host", "doc"])
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)


def read_or_refuse(content):
    try:
        return parse_profile(content)
    except ProfileError as error:
        assert str(error)
        assert "\n" not in str(error)
        return None


@given(st.binary(max_size=400))
def test_random_bytes_are_read_or_refused(content):
    read_or_refuse(content)


@given(st.dictionaries(keys, values, max_size=6))
def test_random_tables_are_read_or_refused(table):
    read_or_refuse(tomli_w.dumps(table).encode("utf-8", "surrogatepass"))


@given(st.data())
def test_a_good_profile_with_a_value_changed_is_read_or_refused(data):
    table = msgspec.to_builtins(parse_profile(GOOD.encode()))
    place = table
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if not isinstance(inner, dict | list | tuple) or not inner or data.draw(st.booleans()):
            break
        if isinstance(inner, tuple):
            inner = place[key] = list(inner)
        place = inner
    place[key] = data.draw(values)
    read_or_refuse(tomli_w.dumps(without_none(table)).encode("utf-8", "surrogatepass"))


@given(st.integers(0, len(GOOD)), st.integers(0, len(GOOD)), st.text(max_size=3))
def test_a_mangled_text_is_read_or_refused(begin, end, middle):
    read_or_refuse((GOOD[:begin] + middle + GOOD[end:]).encode("utf-8", "surrogatepass"))


def without_none(value):
    if isinstance(value, dict):
        return {k: without_none(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [without_none(v) for v in value]
    return value


times = st.floats(1e-9, 1e-2)
rates = st.floats(1e6, 1e15)
likely = {"clock_hz": st.floats(1e6, 1e10), "peak_flops_per_cycle": st.floats(0.1, 1e3), "python_call_s": times}
sizes = st.integers(64, 1 << 40)
text = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Zl", "Zp")), min_size=1, max_size=40
).filter(str.strip)


@st.composite
def profiles(draw):
    """Profiles that must be accepted."""
    core = draw(st.fixed_dictionaries({}, optional=likely))
    memory = draw(st.fixed_dictionaries({}, optional={"latency_s": times, "peak_bandwidth_bytes_per_s": rates}))
    edges = draw(st.lists(sizes, min_size=2, max_size=4, unique=True).map(sorted))
    latencies = sorted(draw(st.lists(times, min_size=len(edges), max_size=len(edges))))
    pieces = [CurvePiece(begin, draw(rates), 0.0, "s", to_bytes=end) for begin, end in itertools.pairwise(edges)]
    return Profile(
        schema="foretrace.profile/1",
        name=draw(st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True)),
        title=draw(text),
        kind=MachineKind.HOST,
        date="2011-05",
        sources={"s": Source(draw(st.sampled_from(SourceKind)), draw(text), "2011")},
        core=Core(source=dict.fromkeys(core, "s"), **core),
        memory=Memory(source=dict.fromkeys(memory, "s"), **memory),
        bandwidth=tuple(
            BandwidthPoint(size, Pattern.RANDOM, 8, draw(rates), "s", draw(st.none() | st.floats(0, 9)))
            for size in draw(st.lists(sizes, max_size=3, unique=True))
        ),
        latency=tuple(LatencyPoint(size, time, "s") for size, time in zip(edges, latencies, strict=True)),
        gather_scatter=(GatherScatterCurve(("gather",), "s", pieces=tuple(pieces)),),
        notes=tuple(draw(st.lists(text, max_size=2))),
        metadata=draw(st.none() | st.dictionaries(words, text, max_size=3)),
    )


@given(profiles())
def test_what_is_written_is_read_back(profile):
    assert parse_profile(format_profile(profile).encode()) == profile


@given(profiles(), st.integers(0, 1 << 41))
def test_a_curve_answers_inside_its_pieces_and_only_there(profile, range_bytes):
    (curve,) = profile.gather_scatter
    piece = curve.piece_at(range_bytes)
    inside = curve.pieces[0].from_bytes <= range_bytes < curve.pieces[-1].to_bytes
    assert (piece is not None) == inside
    bandwidth = curve.bandwidth_bytes_per_s(range_bytes)
    if piece is None:
        assert bandwidth is None
    else:
        assert bandwidth == piece.intercept_bytes_per_s
        assert math.isfinite(bandwidth)
