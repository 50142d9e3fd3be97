"""`foretrace machines` for people and for programs."""

import io
import json

import pytest
from msgspec import structs
from profile_samples import GOOD
from rich.console import Console
from warm_command_line import warm_command_line

from foretrace.base.units import format_bytes, format_bytes_per_s, format_count, format_hz, format_seconds
from foretrace.profiles.library import find, names
from foretrace.profiles.points import LinearCost, MessagePoint
from foretrace.reports.machine_reports import machine_report
from foretrace.reports.renderers import print_report


def foretrace(*arguments):
    return warm_command_line().run([*map(str, arguments)])


def test_the_list_names_every_machine():
    result = foretrace("machines")
    assert result.returncode == 0
    for name in names():
        assert name in result.stdout
    assert len(result.stdout.splitlines()) <= len(names()) + 2  # a heading, and what was left out to fit
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_the_list_as_json():
    document = json.loads(foretrace("machines", "--json").stdout)
    assert document["schema"] == "foretrace.machines/1"
    machines = {machine["name"]: machine for machine in document["machines"]}
    assert tuple(machines) == names()
    assert machines["jaguar-xt4"]["clock_hz"] == 2.1e9
    assert machines["jaguar-xt4"]["caches"][2] == {"name": "L3", "size_bytes": 2097152}
    assert machines["convey-hc1-fpga"]["gather_scatter_minimum_range_bytes"] == 196609
    assert machines["convey-hc1-fpga"]["clock_hz"] is None


def test_showing_a_machine_tells_figures_sources_curve_and_notes():
    text = foretrace("machines", "show", "convey-hc1-fpga").stdout
    assert "below 192 KiB: not offloaded" in text
    assert "192 KiB to 3 MiB: 14.6 GB/s to 44.1 GB/s" in text
    assert "from 3 MiB: 48 GB/s" in text
    assert "equations 3 and 4, in GB/s" in text
    assert "note: The two equations do not join" in text


def test_showing_a_host_says_what_is_assumed():
    text = foretrace("machines", "show", "xeon-e5-2420").stdout
    assert "assumed: xeon-e5-2420: L3 associativity is not published, 16 ways assumed" in text


def test_showing_a_machine_tells_every_table_that_it_has():
    sent = MessagePoint(message_bytes=8, time_s=1e-6, source="calibrate")
    whole = structs.replace(find("epyc-turin-vm"), messages=(sent,), idiom_rates=find("h200-sxm-141gb").idiom_rates)
    product = LinearCost("gemm", "float64", 64, 1e-5, "calibrate")
    whole = structs.replace(whole, linear_algebra=(product,))
    whole = structs.replace(whole, sources={**find("h200-sxm-141gb").sources, **whole.sources})
    tables = [name for name in whole.__struct_fields__ if isinstance(getattr(whole, name), tuple)]
    assert {"array_costs", "prefetch", "idiom_rates", "messages"} < set(tables)
    shown = shown_lines(whole)
    for name in tables:
        assert getattr(whole, name)
        assert shown_lines(structs.replace(whole, **{name: ()})) != shown, name


def test_showing_a_machine_tells_its_curves_apart():
    headings = [line for line in shown_lines(find("epyc-turin-vm")) if ": bandwidth by address range" in line]
    assert "gather, random, 8 bytes: bandwidth by address range (calibrate)" in headings
    assert len(set(headings)) == len(headings) == len(find("epyc-turin-vm").gather_scatter)


def shown_lines(profile):
    out = io.StringIO()
    print_report(machine_report(profile), Console(file=out, width=200))
    return out.getvalue().splitlines()


def test_showing_a_machine_as_json():
    document = json.loads(foretrace("machines", "show", "jaguar-xt4", "--json").stdout)
    assert document["schema"] == "foretrace.machines.show/1"
    assert document["profile"]["core"]["source"]["clock_hz"] in document["profile"]["sources"]
    assert document["hierarchy"] == "L1=65536/2/64,L2=524288/16/64,L3=2097152/32/64"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("machines", "show", "jaguar"), 74, "did you mean 'jaguar-xt4'?"),
        (("machines", "check", "absent.toml"), 74, "absent.toml: cannot be read: No such file"),
        (("machines", "--json", "show", "jaguar-xt4"), 2, "put --json behind show"),
        (("calibrate",), 2, "Missing option"),
        (("calibrate", "-o", "-", "--json"), 2, "name a file"),
        (("calibrate", "-o", "/nowhere/here.toml"), 75, "no directory /nowhere"),
    ],
)
def test_a_mistake_gets_one_line_and_its_exit_code(arguments, code, message):
    result = foretrace(*arguments)
    assert result.returncode == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_bad_profile_is_refused_with_its_name(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('schema = "foretrace.profile/1"\nclock = 3\n')
    result = foretrace("machines", "check", str(path))
    assert result.returncode == 74
    assert f"{path}:2: unknown key 'clock'" in result.stderr


def test_text_from_a_profile_cannot_act_on_the_terminal(tmp_path):
    from msgspec.structs import replace

    from foretrace.profiles.profile_file import write_profile

    write_profile(replace(find("jaguar-xt4"), metadata={"evil": "\x1b[2J"}), tmp_path / "evil.toml")
    for verb in ("show", "check"):
        result = foretrace("machines", verb, str(tmp_path / "evil.toml"))
        assert result.returncode == 0
        assert "\x1b" not in result.stdout


def test_curves_are_drawn_in_the_terminal():
    lines = foretrace("machines", "show", "jaguar-xt4").stdout.splitlines()
    start = lines.index("dependent loads (latency by working set)")
    plot = lines[start + 1 : lines.index("         * L1, L2, L3, main memory, as published")]
    assert plot[0].startswith("  85 ns |")
    rows = [number for number, line in enumerate(plot) if "*" in line]
    assert len(rows) == 4, "three caches and memory are steps, longer and longer to the right"
    firsts = [plot[row].index("*") for row in rows]
    assert firsts == sorted(firsts, reverse=True)
    assert lines.count("  *: cited from memory or from others; nobody has compared the figures with it") == 1


def test_curves_are_drawn_into_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "convey.svg"
    result = foretrace("machines", "show", "convey-hc1-fpga", "-o", str(path))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    picture = path.read_text()
    assert "gather and scatter" in picture
    assert "50 GB/s" in picture
    again = foretrace("machines", "show", "convey-hc1-fpga", "-o", str(path))
    assert again.returncode == 75
    assert path.read_text() == picture


def test_only_the_curves_asked_for_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "two.svg"
    command = ("machines", "show", "epyc-milan-vm", "-o", str(path))
    two = ("--curve", "gather, random, 8 bytes", "--curve", "scatter, random, 8 bytes")
    assert foretrace(*command, *two).returncode == 0
    picture = path.read_text()
    for title, is_there in (("gather, random, 8 bytes", True), ("gather, random, 4 bytes", False), ("latency", False)):
        assert (title in picture) is is_there
    unknown = foretrace(*command, "--force", "--curve", "gather, randm, 8 bytes")
    assert unknown.returncode != 0
    assert "has no curve 'gather, randm, 8 bytes'; did you mean 'gather, random, 8 bytes'?" in unknown.stderr
    assert path.read_text() == picture
    without_picture = foretrace("machines", "show", "epyc-milan-vm", *two)
    assert without_picture.returncode == 2
    assert "name a picture" in without_picture.stderr


def test_a_check_names_what_is_missing_and_what_is_assumed(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    result = foretrace("machines", "check", str(path))
    assert result.returncode == 0
    assert "missing: box: L2 associativity is not published, 16 ways assumed" in result.stdout
    assert (
        "missing: issue_width_instructions_per_cycle: most instructions started a cycle: not in the profile"
        in result.stdout
    )
    assert "missing: store_forward_latency_cycles: " in result.stdout, "of the core model"
    assert "cited but not opened by the author: doc" in result.stdout
    found = json.loads(foretrace("machines", "check", str(path), "--json").stdout)
    assert found["schema"] == "foretrace.machines.check/1"
    assert found["unopened_sources"] == ["doc"]
    assert (found["doubts"], found["unpredictable"]) == ([], None)
    path.write_text(GOOD.replace("clock_hz = 2.0e9", "cores = 2").replace("{ clock_hz =", "{ cores ="))
    assert "core.clock_hz is missing" in json.loads(
        foretrace("machines", "check", str(path), "--json").stdout
    )["unpredictable"]  # fmt: skip


def test_a_check_says_what_a_measurement_left_uncertain(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        GOOD.replace("[sources", 'partial = true\nunstable = ["core clock_hz", "L1 latency_s"]\n\n[sources', 1)
    )
    result = foretrace("machines", "check", str(path))
    assert result.returncode == 0
    assert "partial: the measurement was interrupted" in result.stdout
    assert "unstable, another run need not agree: core clock_hz; L1 latency_s" in result.stdout


def test_a_check_ends_with_an_error_where_figures_contradict(tmp_path):
    point = '[[latency]]\nworking_set_bytes = {}\nlatency_s = {}\nsource = "doc"\n'
    path = tmp_path / "mine.toml"
    path.write_text(GOOD + point.format(1 << 20, 8e-8) + point.format(1 << 22, 6e-8))
    result = foretrace("machines", "check", str(path))
    assert result.returncode == 74
    assert "contradiction: latency entry 3: falls from 8e-08 s" in result.stdout
    assert result.stderr.count("\n") == 1
    assert "1 of its figures contradict others beyond their noise" in result.stderr


def test_figures_with_an_opened_source_are_told_apart():
    profile = find("jaguar-xt4")
    opened = {key for key, source in profile.sources.items() if source.is_opened}
    assert opened
    text = foretrace("machines", "show", "jaguar-xt4").stdout
    for key in profile.sources:
        assert (f"  {key}: " in text) == (key in opened)
        assert (f"  {key}*: " in text) == (key not in opened)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_bytes(0), "0 B"),
        (format_bytes(196608), "192 KiB"),
        (format_bytes(20400), "19.92 KiB"),
        (format_bytes(1023), "1,023 B"),
        (format_bytes_per_s(48e9), "48 GB/s"),
        (format_bytes_per_s(23.08576e9), "23.1 GB/s"),
        (format_bytes_per_s(999.9e6), "1 GB/s"),
        (format_hz(2.13e9), "2.13 GHz"),
        (format_count(12_345_678), "12.3 M"),
        (format_count(7), "7"),
        (format_seconds(0), "0 s"),
        (format_seconds(85e-9), "85 ns"),
        (format_seconds(1.41e-9), "1.41 ns"),
        (format_seconds(0.9999), "1 s"),
        (format_seconds(12.54), "12.5 s"),
        (format_seconds(125), "2 min 5 s"),
        (format_seconds(3600 * 3.2), "3 h 12 min"),
        (format_seconds(-85e-9), "-85 ns"),
        (format_seconds(float("inf")), "inf s"),
    ],
)
def test_quantities_for_people(text, expected):
    assert text == expected
