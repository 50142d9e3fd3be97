"""Two profiles of a machine, compared figure by figure."""

import msgspec
import pytest
from test_calibrate_machine import machine

from foretrace.benchmarks.agreement import AGREEMENT, differences, unstable_figures
from foretrace.commands.calibrate import MOST_TOLD, _say_differences


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


def test_what_differs_most_comes_first(profile):
    core = profile.core
    changed = msgspec.structs.replace(core, clock_hz=core.clock_hz / 2, loads_per_cycle=core.loads_per_cycle * 3)
    found = differences(profile, msgspec.structs.replace(profile, core=changed))
    assert [(d.figure, d.relative) for d in found[:2]] == [
        ("core loads_per_cycle", pytest.approx(2.0)),
        ("core clock_hz", pytest.approx(1.0)),
    ]
    assert found[2].relative == 0


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
