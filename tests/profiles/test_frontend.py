"""`[core.frontend]`: figures of some cores' front ends, which nothing else has."""

import pytest
from core_samples import machine
from msgspec import structs
from replay_samples import with_changes

from foretrace.base.errors import ProfileError
from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.library import find
from foretrace.profiles.profile import Frontend
from foretrace.profiles.profile_file import format_profile, parse_profile
from foretrace.profiles.relatives import informed
from foretrace.replay.figures.machine_figures import figures_of
from foretrace.reports.machine_reports import figures


def with_frontend(**given):
    host = machine()
    frontend = Frontend(source=dict.fromkeys(given, "test"), **given)
    return with_changes(host, core=structs.replace(host.core, frontend=frontend))


def switch(profile):
    return figures_of(profile, hierarchy_of(profile).hierarchy).core.members["decode_switch_cycles"].tolist()


def test_it_is_optional_and_nothing_of_it_is_assumed():
    assert switch(machine()) == [0, 0, 0]
    assert switch(with_frontend(decode_switch_cycles=3.0)) == [3, 3, 3]


def test_it_comes_back_from_a_file_and_is_shown():
    profile = find("epyc-turin-vm")
    text = format_profile(profile)
    assert "[core.frontend]" in text
    assert parse_profile(text.encode()) == profile
    shown = {(place, field) for place, field, *_ in figures(profile)}
    assert ("core.frontend", "decode_switch_cycles") in shown


def test_a_figure_without_a_source_is_refused():
    text = format_profile(find("epyc-turin-vm"))
    wrong = text.replace('[core.frontend.source]\ndecode_switch_cycles = "calibrate"', "[core.frontend.source]")
    assert wrong != text
    with pytest.raises(ProfileError, match=r"core\.frontend: decode_switch_cycles has no source"):
        parse_profile(wrong.encode())


def test_a_relative_takes_it_over():
    found = informed(find("epyc-9755"))
    assert found.profile.core.frontend.decode_switch_cycles == find("epyc-turin-vm").core.frontend.decode_switch_cycles
    assert "core.frontend decode_switch_cycles" in found.keys
