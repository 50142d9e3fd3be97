"""What Python takes on cores where nobody measured it, and which order of machines that leaves open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from replay_samples import Program, measured_host
from traces import trace_python

from foretrace.profiles.library import find, names
from foretrace.profiles.profile import MachineKind, Profile
from foretrace.profiles.ranges import Assumptions
from foretrace.replay.base.ranking import Rank, ranks
from foretrace.replay.base.records import Prediction
from foretrace.replay.base.spread import FAST, SLOW, TYPICAL
from foretrace.replay.figures.python_figures import python_figures
from foretrace.replay.node.predictions import predict_each
from foretrace.replay.prediction.predict import predict
from foretrace.tracer.signature.records import Signature

HOSTS = [profile for profile in map(find, names()) if profile.kind is MachineKind.HOST]
MEASURED = [profile for profile in HOSTS if profile.core is not None and profile.core.python_line_s is not None]


def unmeasured(profile: Profile) -> Profile:
    assert profile.core is not None
    core = msgspec.structs.replace(profile.core, python_line_s=None, python_block_s=None, python_call_s=None)
    return msgspec.structs.replace(profile, core=core)


def line_cycles(profile: Profile, **changes: object) -> list[float]:
    core = msgspec.structs.replace(unmeasured(profile).core, **changes)
    assert core is not None
    assert core.clock_hz is not None
    figures = python_figures(profile, core, core.clock_hz, 4.0, Assumptions())
    return [float(figures.line_s[corner] * core.clock_hz) for corner in (FAST, TYPICAL, SLOW)]


@pytest.mark.parametrize("profile", MEASURED, ids=lambda profile: profile.name)
def test_what_was_measured_lies_in_what_is_derived(profile: Profile) -> None:
    assert profile.core is not None
    core, derived = profile.core, unmeasured(profile).core
    assert core.clock_hz is not None
    assert derived is not None
    figures = python_figures(profile, derived, core.clock_hz, 4.0, Assumptions())
    assert figures.line_s[FAST] < (core.python_line_s or 0) < figures.line_s[SLOW]
    assert figures.line_s[TYPICAL] == pytest.approx(core.python_line_s, rel=0.35)
    assert figures.call_s[FAST] < (core.python_call_s or 0) < figures.call_s[SLOW]


def test_cores_that_do_less_at_a_time_take_longer() -> None:
    grace = find("grace")
    by_width = [line_cycles(grace, issue_width_instructions_per_cycle=width)[TYPICAL] for width in (1, 2, 3, 4, 8)]
    assert by_width == sorted(by_width, reverse=True)
    assert line_cycles(grace, in_order=True)[TYPICAL] > 2 * line_cycles(grace)[TYPICAL]
    old = msgspec.structs.replace(grace, product=msgspec.structs.replace(grace.product, year=2007))
    assert line_cycles(old)[TYPICAL] > 1.3 * line_cycles(grace)[TYPICAL]
    assert line_cycles(old)[SLOW] / line_cycles(old)[FAST] > line_cycles(grace)[SLOW] / line_cycles(grace)[FAST]


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Signature:
    script = tmp_path_factory.mktemp("pure") / "pure.py"
    script.write_text("d = {}\nfor i in range(50_000):\n    d[i % 99] = d.get(i % 7, 0) + i\n")
    return trace_python(str(script)).signature


def test_an_old_core_in_order_is_behind_today_s_and_neighbours_are_undecided(pure: Signature) -> None:
    predictions, refused = predict_each(pure, HOSTS)
    assert not refused
    by_name = dict(
        zip((p.machine for p in predictions), zip(predictions, ranks(predictions), strict=True), strict=True)
    )
    power6, _ = by_name["power6"]
    for today in ("epyc-turin-vm", "epyc-9755", "grace", "xeon-platinum-8480", "apple-m1-pro"):
        assert by_name[today][0].time_s < power6.time_s
    assert by_name["epyc-turin-vm"][0].high_s < power6.low_s
    grace, xeon = by_name["grace"], by_name["xeon-platinum-8480"]
    assert max(grace[0].low_s, xeon[0].low_s) < min(grace[0].high_s, xeon[0].high_s)
    assert grace[1].best < grace[1].worst
    assert by_name["bluegene-q"][1].worst == len(predictions)


def test_ranks_are_ranges_where_intervals_overlap() -> None:
    program = Program()
    program.loop(1000)
    one = predict(program.signature(), measured_host())

    def at(low_s: float, time_s: float, high_s: float) -> Prediction:
        return replace(one, low_s=low_s, time_s=time_s, high_s=high_s)

    assert ranks([at(1, 2, 3), at(2.5, 3, 4), at(3.5, 4, 5), at(9, 9, 9)]) == (
        Rank(1, 2),
        Rank(1, 3),
        Rank(2, 3),
        Rank(4, 4),
    )
    assert [str(rank) for rank in (Rank(1, 3), Rank(4, 4))] == ["1-3", "4"]


def test_what_nothing_was_timed_of_has_an_interval_up_to_the_traced_run(tmp_path: Path) -> None:
    """Sorting and dictionaries are most of the time, and no bytecode."""
    script = tmp_path / "blind.py"
    script.write_text(
        "values = [(i * 7919) % 200003 for i in range(200003)]\n"
        "for _ in range(5):\n    sorted(values)\n    set(values)\n"
    )
    timed = predict(trace_python(str(script)).signature, measured_host())
    signature = trace_python(str(script), core="settrace").signature
    blind = predict(signature, measured_host())
    assert signature.provenance.most_lines is not None
    traced_s = signature.provenance.most_lines * 50e-9  # the host's time of a line; another run may take another time
    assert blind.low_s <= blind.time_s < 0.7 * traced_s
    assert blind.high_s >= traced_s
    assert "python_blind" in {assumption.name for assumption in blind.assumptions}
    assert "python_blind" not in {assumption.name for assumption in timed.assumptions}
