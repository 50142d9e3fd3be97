"""Two profiles of a machine, compared figure by figure."""

import json

import msgspec
import pytest
from calibration_samples import machine
from click.testing import CliRunner

from foretrace.benchmarks.calibration.agreement import AGREEMENT, differences, unstable_figures
from foretrace.commands.calibrate import MOST_TOLD, _say_differences
from foretrace.commands.machines import command
from foretrace.profiles.clock import at_clock
from foretrace.profiles.profile_file import write_profile


@pytest.fixture(scope="module")
def profile():
    return machine()


def test_a_profile_agrees_with_itself(profile):
    found = differences(profile, profile)
    assert len(found) > 100
    assert {d.relative for d in found} == {0.0}
    assert len({d.figure for d in found}) == len(found)


def test_what_the_system_tells_is_not_compared(profile):
    assert not any("size_bytes" in d.figure or d.figure.endswith(" cores") for d in differences(profile, profile))


def test_what_differs_most_comes_first_at_the_clock_of_the_earlier_run(profile):
    """Times of the core alone are twice as long at half the clock, and agree."""
    slower = at_clock(profile, profile.core.clock_hz / 2)
    changed = msgspec.structs.replace(slower.core, loads_per_cycle=slower.core.loads_per_cycle * 3)
    found = differences(profile, msgspec.structs.replace(slower, core=changed))
    assert [(d.figure, d.relative) for d in found[:2]] == [
        ("core loads_per_cycle", pytest.approx(2.0)),
        ("core clock_hz", pytest.approx(1.0)),
    ]
    assert found[2].relative == pytest.approx(0)


def test_a_figure_that_only_one_has_is_passed_over(profile):
    less = msgspec.structs.replace(profile, surface=())
    assert len(differences(less, profile)) == len(differences(profile, profile)) - len(profile.surface)


def test_at_most_twenty_are_told(profile, capsys, tmp_path):
    faster = tuple(
        msgspec.structs.replace(p, bandwidth_bytes_per_s=2 * p.bandwidth_bytes_per_s) for p in profile.surface
    )
    found = differences(profile, msgspec.structs.replace(profile, surface=faster))
    assert sum(d.relative > AGREEMENT for d in found) == len(faster) > MOST_TOLD
    _say_differences(found, tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert f"{len(found) - len(faster)} of {len(found)} figures agree" in lines[0]
    assert f"of the others 0 are named as unstable, {len(faster)} are not:" in lines[0]
    assert len(lines) == MOST_TOLD + 2
    assert f"and {len(faster) - MOST_TOLD} more" in lines[-1]
    _say_differences(differences(profile, profile), None)
    assert "within 5%" in capsys.readouterr().err


def test_figures_with_much_noise_are_named_as_unstable(profile, capsys, tmp_path):
    """The samples of loads of 16 bytes disagree by a fifth, see machine()."""
    unstable = unstable_figures(profile)
    assert "sequential loads of 16 at 4096" in unstable
    assert "random loads of 8 at 4096" not in unstable
    named = msgspec.structs.replace(profile, unstable=unstable)
    faster = tuple(
        msgspec.structs.replace(p, bandwidth_bytes_per_s=2 * p.bandwidth_bytes_per_s) for p in profile.bandwidth
    )
    found = differences(named, msgspec.structs.replace(profile, bandwidth=faster))
    assert {d.figure for d in found if d.unstable and d.relative} == {n for n in unstable if n.startswith("sequential")}
    _say_differences(found, tmp_path)
    lines = capsys.readouterr().out.splitlines()
    random = [p for p in profile.bandwidth if p.pattern == "random"]
    assert f"of the others {len(faster) - len(random)} are named as unstable, {len(random)} are not:" in lines[0]
    assert all("random loads" in line for line in lines[1:])


def test_what_differs_more_than_was_said_comes_first(profile, tmp_path):
    faster = at_clock(profile, 1.2 * profile.core.clock_hz)
    core = msgspec.structs.replace(faster.core, loads_per_cycle=9.0)
    other = msgspec.structs.replace(faster, core=core, name="other", unstable=("core loads_per_cycle",))
    paths = [tmp_path / "a.toml", tmp_path / "b.toml"]
    for path, one in zip(paths, (profile, other), strict=True):
        write_profile(one, path)
    lines = compare(*paths).splitlines()
    assert "of the others 1 are named as unstable, 1 are not" in lines[0]
    assert lines[2].startswith("core clock_hz")
    assert "20.0%" in lines[2]
    assert lines[3].startswith("core loads_per_cycle")
    assert lines[3].rstrip().endswith("named as unstable")
    assert len(lines) == 4
    everything = compare(*paths, "--all").splitlines()
    document = json.loads(compare(*paths, "--json"))
    assert len(everything) == 2 + document["figures"]
    assert [document[key] for key in ("unstable", "surprising")] == [1, 1]
    assert document["agreeing"] == document["figures"] - 2
    assert document["machines"] == [profile.name, "other"]
    assert [d["figure"] for d in document["differences"] if d["surprising"]] == ["core clock_hz"]
    assert "figures agree within 5%" in compare(paths[0], paths[0])


def compare(*arguments):
    result = CliRunner().invoke(command, ["compare", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output
