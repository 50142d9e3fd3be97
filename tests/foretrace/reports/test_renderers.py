"""Renderers on a small report, with text that a terminal, a spreadsheet or a Markdown reader would act on."""

import csv
import io
import json
from dataclasses import dataclass

import pytest
from rich.console import Console

from foretrace.base.errors import OutputError
from foretrace.commands.output_options import FORMATS, Output, _checked
from foretrace.reports.model import COUNT, SECONDS, Column, Report, Table, Text, Tree, for_programs
from foretrace.reports.renderers import csv_text, data_frame, markdown, print_report, rendered


@dataclass(frozen=True)
class Loop:
    name: str
    time_s: float | None
    iterations: int


HOSTILE = '=HYPERLINK("x")|<b>\x1b[31m*_`\n'
LOOPS = (Loop("main", 0.25, 12_000), Loop(HOSTILE, None, 3))
COLUMNS = (
    Column("name", "loop"),
    Column("time_s", "time", SECONDS),
    Column("", "twice", COUNT, lambda loop: 2 * loop.iterations),
    *for_programs("iterations"),
)


def report(shown=None, rest=""):
    rows = Table(COLUMNS, LOOPS, shown=shown, rest=rest)
    tree = Tree("share  what", [(0, "50%  ", "a"), (1, " 5%  ", HOSTILE)])
    sections = [Text(["a line", f"of {HOSTILE}"]), rows, tree]
    return Report("Loops", sections, rows, lambda: {"schema": "foretrace.test/1", "loops": [one.name for one in LOOPS]})


def printed(shown=None, rest="", *, terminal=False):
    out = io.StringIO()
    print_report(report(shown, rest), Console(file=out, width=120, force_terminal=terminal, color_system=None))
    return out.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_a_terminal_gets_no_control_characters(terminal):
    text = printed(terminal=terminal)
    assert "\x1b[31m" not in text
    assert r"\x1b[31m" in text
    assert [line.split()[:3] for line in text.splitlines() if line.startswith("main")] == [["main", "250", "ms"]]
    assert "50%  a" in text
    assert " 5%    =HYPER" in text  # a level deeper


def test_a_terminal_gets_the_rows_shown_and_a_line_on_the_rest():
    text = printed(shown=1, rest="1 more")
    assert "1 more" in text
    assert "-" not in text.split("1 more")[0].split("main")[1]


def test_csv_has_all_rows_raw_and_no_formula():
    rows = list(csv.reader(io.StringIO(csv_text(report(shown=1).data))))
    assert rows[0] == ["name", "time_s", "iterations"]
    assert rows[1] == ["main", "0.25", "12000"]
    assert rows[2][0].startswith("'=HYPERLINK")
    assert rows[2][1:] == ["", "3"]
    assert "\x1b" not in rows[2][0]


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a"])
def test_csv_makes_what_begins_as_a_formula_text(text):
    rows = list(csv.reader(io.StringIO(csv_text(Table(for_programs("name", "n"), [{"name": text, "n": -1}])))))
    assert rows[1] == [f"'{text}", "-1"]


def test_markdown_has_all_rows_in_cells_of_their_own():
    text = markdown(report(shown=1))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows[:2] == ["| loop | time | twice |", "| --- | ---: | ---: |"]
    assert rows[2] == "| main | 250 ms | 24 k |"
    assert rows[3].replace("\\|", "").count("|") == 4
    assert "\\<b\\>" in rows[3]
    assert "\x1b" not in text


def test_a_data_frame_has_the_columns_for_programs():
    pytest.importorskip("pandas")
    frame = data_frame(report().data)
    assert frame.columns.tolist() == ["name", "time_s", "iterations"]
    assert frame["name"].tolist() == [loop.name for loop in LOOPS]


def test_headings_choose_columns_and_their_order():
    table = Table(COLUMNS, LOOPS, headings=("time", "loop"))
    assert table.cells(table.records[:1]) == [["250 ms", "main"]]


@pytest.mark.parametrize("ending", ["json", "csv", "md"])
def test_a_report_is_written_and_replaced_only_with_force(tmp_path, ending):
    path = tmp_path / f"report.{ending}"
    Output(None, (path,)).show(report(), prints=False)
    assert path.read_bytes() == rendered(report(), ending)
    with pytest.raises(OutputError, match="exists"):
        _checked(None, (path,), None, FORMATS, force=False)
    Output(None, _checked(None, (path,), None, FORMATS, force=True).files, force=True).show(report(), prints=False)
    assert path.read_bytes() == rendered(report(), ending)


def test_a_file_of_others_is_never_replaced(tmp_path):
    path = tmp_path / "notes.md"
    path.write_text("# mine\n")
    with pytest.raises(OutputError, match=r"notes\.md"):
        _checked(None, (path,), None, FORMATS, force=True)


def test_json_is_the_document(tmp_path):
    assert json.loads(rendered(report(), "json"))["schema"] == "foretrace.test/1"
