"""Events of signatures: text, JSON, CSV, Parquet, data frames and pictures, whatever their names and values are."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from effort import examples
from event_samples import event, odd_events, recorder, signature_with, solver_events
from hypothesis import given, settings
from hypothesis import strategies as st

import foretrace
from foretrace.base.errors import EventsError
from foretrace.base.terminal import json_bytes
from foretrace.reports import event_pictures, event_reports
from foretrace.reports.event_reports import EventSource, as_csv, chosen
from foretrace.tracer.signature.event_records import EventKind, Events
from foretrace.tracer.signature.file import write_signature

Run = Callable[..., "subprocess.CompletedProcess[str]"]
RESIDUALS = np.geomspace(1, 1e-9, 30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With signatures that nobody changes."""
    path = tmp_path_factory.mktemp("signatures")
    write_signature(signature_with(solver_events(CG=RESIDUALS, GMRES=RESIDUALS[::2])), path / "a.sig")
    write_signature(signature_with(solver_events(BiCGSTAB=RESIDUALS**2)), path / "b.sig")
    write_signature(signature_with(odd_events()), path / "odd.sig")
    write_signature(signature_with(Events()), path / "none.sig")
    return path


def source(*events: Any, title: str = "run") -> EventSource:
    return EventSource(title, Events(tuple(events)))


def test_a_signature_is_shown_as_a_process_is(folder: Path, foretrace: Run) -> None:
    found = json.loads(foretrace("events", "--json", folder / "a.sig").stdout)
    assert found["schema"] == "foretrace.events/1"
    (facts,) = found["sources"]
    assert (facts["signature"], facts["complete"], facts["lost_bytes"]) == (str(folder / "a.sig"), True, 0)
    sent = found["events"][1]
    expected = {
        "library": "CG", "name": "bytes sent", "kind": "created", "type": "long long", "value": 240, "unit": "bytes",
        "description": "what was sent [bytes]",
    }  # fmt: skip
    assert {key: sent[key] for key in expected} == expected
    assert found["events"][2]["quantiles"]["median"] == pytest.approx(np.median(RESIDUALS))
    text = foretrace("events", folder / "a.sig").stdout
    assert re.search(r"^CG::residuals +recorder +30  values, 1e-09 to 1, median", text, re.MULTILINE)
    assert re.search(r"^CG::bytes sent +created +240 .*wh.*\[?bytes\]", text, re.MULTILINE)


def test_info_shows_the_first_events(folder: Path, foretrace: Run) -> None:
    shown = foretrace("info", folder / "a.sig", "--top", "2").stdout
    assert f"software-defined events, 2 of 6; all: foretrace events {folder / 'a.sig'}" in shown
    assert "CG::bytes sent" in shown
    assert "CG::residuals" not in shown
    assert "software-defined" not in foretrace("info", folder / "none.sig").stdout
    assert len(json.loads(foretrace("info", folder / "a.sig", "--json").stdout)["events"]) == 6


def test_several_signatures_and_a_pattern(folder: Path, foretrace: Run) -> None:
    arguments = ("events", folder / "a.sig", folder / "b.sig", "--event", "*::residuals")
    rows = list(csv.DictReader(io.StringIO(foretrace(*arguments, "--csv").stdout)))
    assert [(row["source"], row["library"], row["value"]) for row in rows] == [
        ("a.sig", "CG", "30"), ("a.sig", "GMRES", "15"), ("b.sig", "BiCGSTAB", "30")
    ]  # fmt: skip
    text = foretrace(*arguments).stdout.splitlines()
    assert [line.split()[:2] for line in text[1:]] == [
        ["a.sig", "CG::residuals"], ["a.sig", "GMRES::residuals"], ["b.sig", "BiCGSTAB::residuals"]
    ]  # fmt: skip


def test_values_samples_and_distributions(folder: Path, foretrace: Run) -> None:
    values = foretrace("events", folder / "a.sig", "--values", "CG::residuals").stdout
    assert [float(line) for line in values.splitlines()] == RESIDUALS.tolist()
    rows = list(csv.DictReader(io.StringIO(foretrace("events", folder / "a.sig", "--samples", "--csv").stdout)))
    of_cg = [(row["position"], row["value"]) for row in rows if (row["library"], row["name"]) == ("CG", "iterations")]
    assert of_cg == [(str(at), str(30 * at / 100)) for at in range(0, 101, 10)]
    assert re.search(r"^CG::iterations +0 +30  ▁.*█", foretrace("events", folder / "a.sig", "--samples").stdout, re.M)
    found = json.loads(foretrace("events", folder / "a.sig", "--distributions", "--json").stdout)
    assert found["recorders"][0]["quantiles"] == pytest.approx(np.quantile(RESIDUALS, np.linspace(0, 1, 1001)).tolist())


def test_what_is_exported_is_read_back(folder: Path, tmp_path: Path, foretrace: Run) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    for suffix in ("csv", "json", "parquet", "svg"):
        path = tmp_path / f"values.{suffix}"
        arguments = ("events", folder / "a.sig", "--values", "*::residuals", "-o", path)
        assert (foretrace(*arguments).stdout, path.stat().st_size > 0) == ("", True)
        again = foretrace(*arguments)
        assert (again.returncode, "--force" in again.stderr) == (75, True)
        assert foretrace(*arguments, "--force").returncode == 0
    from_csv, from_parquet = pandas.read_csv(tmp_path / "values.csv"), pandas.read_parquet(tmp_path / "values.parquet")
    assert from_csv.columns.tolist() == from_parquet.columns.tolist()
    expected = [*RESIDUALS, *RESIDUALS[::2]]
    assert from_csv["value"].tolist() == from_parquet["value"].tolist() == expected
    assert json.loads((tmp_path / "values.json").read_text())["recorders"][1]["values"] == RESIDUALS[::2].tolist()


def test_names_are_harmless(folder: Path, foretrace: Run) -> None:
    for arguments in ((), ("--csv",), ("--json",), ("--values", "*", "--csv"), ("--distributions", "--csv")):
        shown = foretrace("events", folder / "odd.sig", *arguments).stdout
        assert "lib" in shown
        assert "\x1b" not in shown
        assert "\r" not in shown
    assert max(map(len, foretrace("events", folder / "odd.sig").stdout.splitlines())) < 200
    rows = list(csv.DictReader(io.StringIO(foretrace("events", folder / "odd.sig", "--csv").stdout)))
    assert (rows[0]["library"], rows[0]["name"]) == ("'=cmd|'/C calc'!A0", "'@SUM(1+1)")
    assert rows[0]["description"].startswith("\\x1b[31mred")
    values = {row["name"]: row["value"] for row in rows}
    assert (values["diverged"], values["endless"], values["asked for"]) == ("nan", "-inf", "")
    assert values["st\\x80"] == str(-(2**63))


@pytest.mark.parametrize("view", [event_reports.values_frame, event_reports.distributions_frame, event_reports.frame])
def test_no_text_is_a_formula_in_any_table(view: Callable[..., pandas.DataFrame]) -> None:
    names = ("=1+1", "+1", "-1", "@x", "\t=1", "\uff1d1")
    events = [recorder(name, name, np.array([-1.5, 2.0]), description=name) for name in names]
    for row in csv.reader(io.StringIO(as_csv(view([source(*events, title="=run")])))):
        for cell in row:
            assert cell[:1] not in ("=", "+", "@", "\t", "\uff1d")
            assert not cell.startswith("-") or float(cell) < 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["a.sig", "--event", "CG::residual"], 84, "CG::residual: no event is called so; there are CG::residuals"),
        (["a.sig", "--values", "CG::iterations"], 84, "is no recorder; there are CG::residuals, GMRES::residuals"),
        (["a.sig", "--values", "*", "--samples"], 2, "choose one"),
        (["a.sig", "--json", "--csv"], 2, "exclude one another"),
        (["a.sig", "-o", "picture.gif"], 75, "must end in .svg, .png, .pdf"),
        (["none.sig", "-o", "picture.svg"], 84, "there is nothing to draw: no recorder has numbers"),
        (["a.sig", "--event", "*::iterations", "-o", "p.svg"], 84, "--samples draws counters over the run"),
        (["missing.sig"], 73, "missing.sig: cannot be read"),
        (["a.sig", "missing"], 73, "missing: cannot be read"),
        (["a.sig", "a.sig", "--values", "CG::nothing"], 84, "is no recorder"),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_line(
    arguments: list[str], code: int, message: str, folder: Path, foretrace: Run
) -> None:
    done = foretrace("events", *arguments, cwd=folder)
    assert message in done.stderr
    assert (done.returncode, done.stdout) == (code, "")
    assert sum(line.startswith("foretrace: error:") for line in done.stderr.splitlines()) == 1


def test_samples_follow_the_events_that_are_chosen() -> None:
    every = EventSource("run", solver_events(CG=RESIDUALS, GMRES=RESIDUALS))
    (found,) = chosen([every], ["GMRES::*", "CG::residuals"])
    assert [event.full_name for event in found.events.events] == [
        "CG::residuals", "GMRES::iterations", "GMRES::bytes sent", "GMRES::residuals"
    ]  # fmt: skip
    columns = {
        event.full_name: values for event, values in event_reports.sampled(found.events, found.events.samples[0])
    }
    assert columns["GMRES::bytes sent"][-1] == 8 * 30
    with pytest.raises(EventsError, match=r"CG::\*x: no event is called so"):
        chosen([every], ["CG::*", "CG::*x"])


def test_a_name_with_the_letters_of_a_pattern_is_found() -> None:
    odd = source(event("lib", "a[1]"), event("lib", "a1"))
    assert [one.name for one in chosen([odd], ["lib::a[1]"])[0].events.events] == ["a[1]", "a1"]


def test_data_frames(folder: Path) -> None:
    found = foretrace.recorded_events(
        folder / "a.sig", foretrace.read_signature(folder / "b.sig"), event="*::residuals"
    )
    assert found.to_dataframe().value.tolist() == [30, 15, 30]
    assert found.to_dataframe().value.dtype == np.int64
    assert found.values().groupby("library", sort=False).value.min().tolist() == pytest.approx(
        [1e-9, 3.76e-9, 1e-18], rel=1
    )
    assert found.samples().groupby("library", sort=False).value.max().tolist() == [30, 15, 30]
    assert len(found.distributions()) == 3 * 1001
    assert "CG::residuals" in str(found)
    assert "CG::residuals" in found._repr_html_()
    assert "\n" not in repr(found)
    odd = foretrace.recorded_events(folder / "odd.sig")
    assert odd.to_dataframe().value.dtype == np.float64
    assert odd.values().value.tolist()[:4] == ["000102", "030405", "060708", "090a0b"]
    assert len(foretrace.recorded_events(folder / "none.sig").samples()) == 0
    with pytest.raises(ValueError, match="recorders, samples, distributions"):
        found.plot("everything")  # type: ignore[arg-type]


def texts(picture: bytes) -> list[str]:
    """What an SVG picture says."""
    return re.findall(r"<text[^>]*>(.*?)</text>", picture.decode())


@pytest.mark.parametrize("draw", [event_pictures.recorders_figure, event_pictures.distributions_figure])
def test_solvers_share_axes_that_are_logarithmic_over_decades(draw: event_pictures.Draw) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    from matplotlib.figure import Figure

    def axes_of(*solvers: Any) -> Any:
        figure = Figure()
        assert draw(figure, [source(*solvers)]) == []
        return figure.axes

    scale = "get_yscale" if draw is event_pictures.recorders_figure else "get_xscale"
    (axes,) = axes_of(recorder("CG", "residuals", RESIDUALS), recorder("_GMRES", "residuals", RESIDUALS * 2))
    assert getattr(axes, scale)() == "log"
    (axes,) = axes_of(recorder("CG", "residuals", RESIDUALS + 1))
    assert getattr(axes, scale)() == "linear"
    (axes,) = axes_of(recorder("CG", "residuals", RESIDUALS - 0.5))
    assert getattr(axes, scale)() == "linear"
    first, second = axes_of(recorder("CG", "residuals", RESIDUALS), recorder("CG", "times", RESIDUALS))
    assert (first.get_title(), second.get_title()) == ("residuals", "times")


def test_lines_have_the_values(folder: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    from matplotlib.figure import Figure

    figure = Figure()
    event_pictures.recorders_figure(figure, foretrace.recorded_events(folder / "a.sig").sources)
    (axes,) = figure.axes
    assert axes.lines[0].get_ydata().tolist() == RESIDUALS.tolist()
    assert axes.lines[1].get_xdata().tolist() == list(range(1, 16))
    figure = Figure()
    event_pictures.samples_figure(figure, foretrace.recorded_events(folder / "a.sig").sources)
    assert [axes.get_title() for axes in figure.axes] == ["iterations", "bytes sent", "residuals"]
    assert figure.axes[0].lines[1].get_ydata().tolist() == [15 * at / 100 for at in range(0, 101, 10)]
    assert figure.axes[1].get_ylabel() == "bytes"


def test_few_different_values_are_bars_by_task() -> None:
    """As figure 5 of the article: lengths of tasks, a colour for each contraction."""
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    from matplotlib.figure import Figure

    lengths = {"first": [16] * 20 + [8] * 10, "second": [8] * 5 + [4] * 7}
    found = [
        recorder("TAMM", f"length::{name}", np.array(some), "long long", description="of a task [products]")
        for name, some in lengths.items()
    ]
    figure = Figure()
    event_pictures.distributions_figure(figure, [source(*found)])
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["4", "8", "16"]
    assert [bar.get_height() for bar in axes.patches] == [0, 10, 20, 7, 5, 0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["TAMM first", "TAMM second"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("products", "values")
    thinned = recorder("TAMM", "length", np.array([1, 2] * 500), "long long", most=100)
    figure = Figure()
    event_pictures.distributions_figure(figure, [source(thinned)])
    (axes,) = figure.axes
    assert sum(bar.get_height() for bar in axes.patches) == pytest.approx(1000)
    assert axes.get_ylabel() == "values (estimated)"


def test_labels_name_their_source_where_they_must(folder: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    one, two = (foretrace.recorded_events(folder / name).sources[0] for name in ("a.sig", "b.sig"))
    picture, _ = event_pictures.draw([one, two], event_pictures.recorders_figure, "svg")
    assert {"CG", "GMRES", "BiCGSTAB"} <= set(texts(picture))
    again = EventSource("again.sig", one.events)
    picture, _ = event_pictures.draw([one, again], event_pictures.recorders_figure, "svg")
    assert {"CG (a.sig)", "CG (again.sig)"} <= set(texts(picture))


def test_pictures_are_bounded_and_say_what_they_left_out() -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    many = [recorder(f"library {n}", "residuals", RESIDUALS) for n in range(40)]
    many += [recorder("library", f"name {n}", RESIDUALS) for n in range(30)]
    _, left_out = event_pictures.draw([source(*many)], event_pictures.recorders_figure, "svg")
    assert left_out == ["16 of 40 events called residuals", "the events of 19 of 31 names"]


def test_thinned_lines_keep_their_spikes() -> None:
    values = np.zeros(1_000_000)
    values[123_456], values[654_321], values[5] = 7, -3, np.nan
    x, y = event_pictures.thinned(np.arange(len(values)), values)
    assert len(y) <= 4_000
    assert (y[x == 123_456], y[x == 654_321]) == (7, -3)


NUMBERS = st.lists(st.floats(width=64) | st.sampled_from([0.0, 1e308, -1e308, 5e-324]), min_size=1, max_size=20)
NAMES = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("$_^{}\\%#"), max_size=20)


@settings(max_examples=examples(10))
@given(st.lists(st.tuples(NAMES, NAMES, NUMBERS), min_size=1, max_size=3))
def test_anything_is_drawn_or_refused(found: list[tuple[str, str, list[float]]]) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    events = [recorder(library, name, np.array(values)) for library, name, values in found]
    for draw in (event_pictures.recorders_figure, event_pictures.distributions_figure):
        try:
            picture, _ = event_pictures.draw([source(*events)], draw, "svg")
        except EventsError as error:
            assert "nothing to draw" in str(error)
        else:
            assert picture.startswith(b"<?xml")
    json_bytes(event_reports.values_document([source(*events)]))
    as_csv(event_reports.values_frame([source(*events)]))
    as_csv(event_reports.frame([source(*events)]))


def test_events_that_cannot_be_read_have_a_reason() -> None:
    unread = event("lib", "late", None, EventKind.CALLBACK, unread="only the process can call its function")
    assert event_reports.event_document(unread)["reason"] == "only the process can call its function"
    assert event_reports.frame([source(unread)]).reason.tolist() == ["only the process can call its function"]
