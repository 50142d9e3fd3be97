"""Files of published figures."""

from __future__ import annotations

from pathlib import Path

import pytest

import foretrace.benchmarks
from foretrace.base.errors import ProfileError
from foretrace.profiles.library import names
from foretrace.profiles.published import read_published

HEAD = "program,machine,metric,value,unit,source\n"
SHIPPED = Path(foretrace.benchmarks.__file__).parent / "published"


def test_values_are_told_in_base_units(tmp_path):
    file = tmp_path / "figures.csv"
    file.write_text(
        HEAD + 'bw_mem-rd-512.00,epyc-9654,"one core, 1thr",34571.2,MB/s,https://example.org\n'
        "memory.latency_s,epyc-9654,,110,ns,\nsysbench,epyc-9654,events,2737.49,1/s,\n"
    )
    bandwidth, latency, events = read_published(file)
    assert (bandwidth.value, bandwidth.metric, bandwidth.source) == (34571.2e6, "one core, 1thr", "https://example.org")
    assert latency.value == pytest.approx(110e-9)
    assert (events.value, events.unit) == (2737.49, "1/s"), "as it stands where the unit is not known"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("program,machine,value,unit\n", "lacks the column 'metric'"),
        ("", "lacks the column 'program'"),
        (HEAD + "p,m,x,fast,MB/s,\n", ":2: value is 'fast', must be a positive number"),
        (HEAD + "p,m,x,-1,MB/s,\n", "must be a positive number"),
        (HEAD + "p,m,x,nan,MB/s,\n", "must be a positive number"),
        (HEAD + "p,m\n", "value is ''"),
        (HEAD + '"' + "x" * 200_000 + "\n", "field larger"),
    ],
)
def test_a_wrong_file_is_refused_in_a_line(tmp_path, text, message):
    file = tmp_path / "figures.csv"
    file.write_text(text)
    with pytest.raises(ProfileError, match=r"figures\.csv") as found:
        read_published(file)
    assert message in str(found.value) and "\n" not in str(found.value)


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ProfileError, match="cannot be read"):
        read_published(tmp_path / "none.csv")


@pytest.mark.parametrize("name", ["speeds.csv", "memory.csv"])
def test_the_files_of_the_project_are_of_known_machines_and_have_sources(name):
    figures = read_published(SHIPPED / name)
    assert len(figures) > 100
    assert {one.machine for one in figures} <= set(names())
    assert all(one.source.startswith("https://") for one in figures)
