"""Figures of profiles: each declared once, with a default by class of core that the whole model uses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from replay_samples import CACHES, Program, measured_host, published_host, with_changes

from foretrace.profiles import defaults
from foretrace.profiles.checks import check
from foretrace.profiles.figure import CoreClass, Default, figures_of_record, unit_of
from foretrace.profiles.figures_page import figures_page
from foretrace.profiles.hierarchies import hierarchy_of
from foretrace.profiles.library import find, names
from foretrace.profiles.points import Tlb
from foretrace.profiles.profile import RECORDS, CacheLevel, Core, MachineKind, Memory, Product
from foretrace.profiles.ranges import core_class
from foretrace.profiles.relatives import informed, is_calibrated, relative_of
from foretrace.replay.base.spread import SLOW, TYPICAL
from foretrace.replay.core.figures import FP_DIV, INT_DIV
from foretrace.replay.figures.machine_figures import MachineFigures, figures_of
from foretrace.replay.prediction.predict import predict

PAGE = Path(__file__).parents[2] / "docs" / "figures.md"
NOT_FIGURES = {"frontend", "name", "source", "noise", "page_bytes"}
CLASSES = [
    CoreClass(in_order, width, isa, design, year)
    for in_order in (False, True)
    for width in (None, 1.0, 2.0, 4.0, 6.0, 8.0)
    for isa in (None, "x86_64", "aarch64", "riscv64")
    for design in (None, "zen3", "zen5", "firestorm", "golden-cove")
    for year in (None, 2000, 2012, 2024)
]
HOSTS = [name for name in names() if find(name).kind is MachineKind.HOST]


def figures(name: str) -> MachineFigures:
    profile = find(name)
    hierarchy = hierarchy_of(profile).hierarchy
    assert hierarchy is not None
    return figures_of(profile, hierarchy)


def notes(found: MachineFigures) -> dict[str, str]:
    return {note.name: note.text for note in (*found.assumptions, *found.core_assumptions)}


# ---- declarations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", RECORDS)
def test_every_field_of_a_record_is_declared_as_a_figure(record: type) -> None:
    fields = set(record.__struct_fields__) - (NOT_FIGURES if record in (Tlb,) else NOT_FIGURES - {"page_bytes"})
    assert fields == set(figures_of_record(record))
    assert all(figure.meaning and "\n" not in figure.meaning for figure in figures_of_record(record).values())


def test_the_page_is_that_of_the_declarations() -> None:
    assert PAGE.read_text() == figures_page(), "docs/figures.md is not as declared: make docs"


@pytest.mark.parametrize("record", RECORDS)
def test_a_default_for_one_core_is_one_for_any(record: type) -> None:
    for name, figure in figures_of_record(record).items():
        levels = ("first", "middle", "last") if record is CacheLevel else ("",)
        for level in levels:
            found = {figure.default_for(core, level) for core in CLASSES}
            assert (None in found) != bool(figure.defaults), f"{name}: some cores have no default"


def test_defaults_hold_their_typical_value_and_are_figures_that_a_machine_may_have() -> None:
    for record in RECORDS:
        for name, figure in figures_of_record(record).items():
            for default in figure.defaults:
                low, high = sorted((default.fast, default.slow))
                assert low <= default.typical <= high, (name, default)
                assert default.source, (name, default)
                unit = unit_of(name)
                if unit and not default.of and not default.beyond and high < np.inf:
                    assert unit.least <= low <= high <= unit.most, (name, default)


def test_the_first_range_that_fits_counts() -> None:
    old, wide = Default(3, 2, 1, "b", year=2010), Default(5, 4, 3, "a", width=6)
    figure = figures_of_record(Core)["outstanding_misses"]
    assert wide.fits(CoreClass(width=8.0)) and not wide.fits(CoreClass()) and not old.fits(CoreClass(year=2009))
    assert figure.default_for(CoreClass(microarchitecture="firestorm", width=8.0, year=2021)).typical == 28
    assert figure.default_for(CoreClass(microarchitecture="skylake", width=4.0, year=2015)).typical == 10
    assert figure.default_for(CoreClass(in_order=True)).typical == 2
    assert figure.default_for(CoreClass(microarchitecture="unheard-of", width=8.0, year=2024)).typical == 24


# ---- what the model does with them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTS)
def test_both_models_compute_with_the_same_figures(name: str) -> None:
    """Of a machine that does not tell its divisions too: the convolution and the core model assume the same."""
    profile = find(name)
    core = with_changes(
        profile.core, fp_div_interval_cycles=None, int_div_interval_cycles=None, branch_miss_cycles=None
    )
    unknown = with_changes(profile, core=core, microarchitecture=None, operations=())
    hierarchy = hierarchy_of(unknown).hierarchy
    assert hierarchy is not None
    for found in (figures(name), figures_of(unknown, hierarchy)):
        assert found.core.unit_cycles[FP_DIV][TYPICAL] == pytest.approx(found.fp_divide_s[TYPICAL] / found.cycle_s)
        assert found.core.unit_cycles[INT_DIV][TYPICAL] == pytest.approx(found.int_divide_s[TYPICAL] / found.cycle_s)
        assert found.core.members["load_cycles"][TYPICAL] == pytest.approx(found.load_s[TYPICAL] / found.cycle_s)
        assert found.core.members["store_cycles"][TYPICAL] == pytest.approx(found.store_s[TYPICAL] / found.cycle_s)
        assert found.core.members["refill"][TYPICAL] + 1 == pytest.approx(found.branch_miss_s[TYPICAL] / found.cycle_s)


def test_what_is_reported_is_what_is_used() -> None:
    host = with_changes(
        published_host(memory=Memory(source={}, latency_s=80e-9)), product=Product(source={}, year=2012)
    )
    found = figures_of(host, CACHES)
    default = figures_of_record(Core)["int_div_interval_cycles"].default_for(core_class(host))
    assert default is not None
    assert found.core.unit_cycles[INT_DIV].tolist() == [default.fast, default.typical, default.slow]
    assert (
        f"{default.typical:g} ({default.fast:g} to {default.slow:g}) cycles" in notes(found)["int_div_interval_cycles"]
    )


@pytest.mark.parametrize("name", ["apple-m1-pro", "grace", "graviton3", "graviton4"])
def test_cores_with_instructions_of_one_length_get_no_decoders(name: str) -> None:
    found = figures(name)
    assert not found.core.members["decode"].any()
    assert "decode_instructions_per_cycle" not in notes(found)


def test_zens_decoders_are_zens() -> None:
    assert figures("epyc-9654").core.members["decode"][TYPICAL] == 1 / 4
    golden_cove = figures("xeon-platinum-8480")
    assert golden_cove.core.members["decode"].tolist() == [0, 0, 1 / 6]
    assert "no limit of decoders assumed, or 6" in notes(golden_cove)["decode_instructions_per_cycle"]


@pytest.mark.parametrize("name", HOSTS)
def test_every_assumption_has_a_name_of_its_own_and_a_sentence(name: str) -> None:
    for note in (*figures(name).assumptions, *figures(name).core_assumptions):
        assert len(note.text) > 10
        assert "None" not in note.text and "inf" not in note.text.split(), note


# ---- relatives ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "relative"), [("epyc-9755", "epyc-turin-vm"), ("epyc-7763", "epyc-milan-vm")])
def test_a_calibrated_machine_with_the_same_cores_tells_what_is_not_published(name: str, relative: str) -> None:
    profile, other = find(name), find(relative)
    found = informed(profile)
    assert found is not None
    assert found.relative == relative
    check(found.profile)
    for key in figures_of_record(Core):
        own, theirs, taken = (getattr(p.core, key) for p in (profile, other, found.profile))
        if own is not None or key in ("in_order",):
            assert taken == own, f"{key}: what is published stays"
        elif key.startswith("python"):
            assert taken == pytest.approx(theirs * other.core.clock_hz / profile.core.clock_hz), key
        else:
            assert taken == theirs, key
        if own is None and taken is not None:
            assert f"core {key}" in found.keys
            assert found.profile.core.source[key] == relative
            assert found.profile.core.noise[key] > (other.core.noise or {}).get(key, 0)
    assert found.profile.memory.size_bytes == profile.memory.size_bytes
    assert found.profile.memory.latency_s == other.memory.latency_s
    own = figures(name)
    assert own.relative == relative
    assert f"those of {relative}" in notes(own)["relative"]


def test_a_prediction_says_whose_figures_it_took_and_widens_its_interval() -> None:
    program = Program()
    program.loop(1000, instructions=4)
    alone, related = measured_host(), with_changes(measured_host(), microarchitecture="zen5")
    ours, theirs = (predict(program.signature(), host) for host in (related, alone))
    assert "relative" in {assumption.name for assumption in ours.assumptions}
    assert "relative" in {part.source for part in ours.errors}
    assert "relative" not in {part.source for part in theirs.errors}
    assert ours.high_s / ours.low_s > theirs.high_s / theirs.low_s


def test_only_published_hosts_have_relatives() -> None:
    for name in names():
        profile = find(name)
        other = relative_of(profile)
        assert other is None or (not is_calibrated(profile) and is_calibrated(other)), name
    assert relative_of(find("epyc-9654")) is None
    assert relative_of(with_changes(measured_host(), microarchitecture="zen5")).name == "epyc-turin-vm"


def test_a_relatives_figures_are_less_certain_than_its_own() -> None:
    own, taken = figures("epyc-turin-vm"), figures("epyc-9755")
    for field in ("random_memory_s", "dependent_s"):
        spread = [
            float(getattr(found.memory, field)[SLOW, -1] / getattr(found.memory, field)[TYPICAL, -1])
            for found in (own, taken)
        ]
        assert spread[1] > spread[0] * 1.2, field


def test_misses_in_flight_follow_the_core() -> None:
    """Four for any core made a sparse product on an EPYC 9755 several times slower than on a calibrated Turin."""
    random_s = {name: float(figures(name).memory.random_memory_s[TYPICAL, -1]) for name in HOSTS}
    assert random_s["epyc-9755"] / random_s["epyc-turin-vm"] == pytest.approx(1, abs=0.3)
    assert random_s["epyc-7763"] / random_s["epyc-milan-vm"] == pytest.approx(1, abs=0.3)
    for name in HOSTS:
        core = core_class(find(name))
        if core.in_order or (core.year or 0) < 2015 or find(name).core.outstanding_misses:
            continue
        default = figures_of_record(Core)["outstanding_misses"].default_for(core)
        assert default is not None and default.typical >= 10, name


def test_what_one_core_reads_follows_the_core() -> None:
    """24 lines a latency for any core gave one of an EPYC 9654 10 to 14 GB/s: Zen 3 reads 19.6, Zen 5 46.8."""

    def read_bytes_per_s(found: MachineFigures) -> float:
        return float(found.memory.line_bytes[-1] / found.memory.line_s[TYPICAL, :, -1].min())

    reads = {name: read_bytes_per_s(figures(name)) for name in HOSTS}
    assert reads["epyc-7763"] < reads["epyc-9654"] < reads["epyc-9755"]
    assert 0.8 * 19.63e9 < reads["epyc-7763"] < 1.2 * 19.63e9
    assert 25e9 < reads["epyc-9654"] < 45e9
    assert 0.8 * 46.83e9 < reads["epyc-9755"] < 1.2 * 46.83e9
    assert reads["apple-m1-pro"] > 50e9
    for name in ("xeon-6980p", "xeon-platinum-8480", "xeon-platinum-8360y"):
        assert 12e9 < reads[name] < 18e9
    given = find("epyc-9654")
    memory = with_changes(
        given.memory, stream_lines_in_flight=40.0, latency_s=100e-9, core_read_bandwidth_bytes_per_s=None
    )
    of_given = figures_of(with_changes(given, memory=memory), hierarchy_of(given).hierarchy)
    assert read_bytes_per_s(of_given) == pytest.approx(40 * 64 / 100e-9)


def test_lists_of_defaults_are_declared_where_they_are_used() -> None:
    """None is left over."""
    used = {id(figure.defaults) for record in RECORDS for figure in figures_of_record(record).values()}
    lists = {name: value for name, value in vars(defaults).items() if name.isupper() and isinstance(value, tuple)}
    ranges = {name for name, value in lists.items() if value and isinstance(value[0], Default)}
    assert {name for name in ranges if id(lists[name]) not in used} == set()
