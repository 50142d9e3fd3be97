"""Each verb writes one result as JSON, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from warm_command_line import warm_command_line

from foretrace.cli import VERBS, group
from foretrace.reports.renderers import FORMATS

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    double *a = malloc(80000), s = 0;
    for (int i = 0; i < 10000; i++) a[i] = i;
    for (int k = 0; k < 5; k++)
        for (int i = 0; i < 10000; i++) s += a[i * 7919 % 10000];
    printf("%g\\n", s);
}
"""
ROWS: dict[str, tuple[list[str], Callable[[dict], list]]] = {
    "predict": (
        ["x.sig", "--machine", "epyc-9654", "--all-loops"], lambda found: found["predictions"][0]["loops"]
    ),
    "predict --by line": (
        ["x.sig", "--machine", "epyc-9654", "--all-loops"], lambda found: found["predictions"][0]["totals"]
    ),
    "info": (["x.sig", "--top", "1000"], lambda found: found["loops"]),
    "info --tree": (["x.sig"], lambda found: found["nodes"]),
    "triage": (
        ["x.sig", "--host", "epyc-9654", "--accelerator", "h200-sxm-141gb"], lambda found: found["instances"]
    ),
    "replay": (["x.sig", "--machine", "epyc-9654"], lambda found: found["entities"]),
    "machines": ([], lambda found: found["machines"]),
    "machines compare": (["epyc-7763", "epyc-9654", "--all"], lambda found: found["differences"]),
    "simulate": (["x.fts", "--top", "100000"], lambda found: found["operations"]),
    "curve": (["x.sig"], lambda found: [
        point | {"ways": one["ways"] or "full"} for one in found["curves"] for point in one["points"]
    ]),
    "idioms": (["x.c", "--no-cache", "--all"], lambda found: found["findings"]),
    "idioms --loops": (["x.c", "--no-cache", "--all"], lambda found: found["loops"]),
    "events": (["x.sig"], lambda found: found["events"]),
}  # fmt: skip
"""Verb -> arguments, and its rows in the JSON document."""
SHOWN = ("predict", "predict --by line", "info", "replay", "machines", "machines compare", "simulate", "idioms")
"""Those of which the first table on a terminal that has any of the rows has all of them."""
OTHERS = {"trace", "time", "calibrate"}
"""Verbs that show no table: they write a file."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, compile_c) -> Path:
    folder = tmp_path_factory.mktemp("formats")
    (folder / "x.c").write_text(PROGRAM)
    options = ["--keep-stream", "x.fts", "-o", "x.sig"]
    made = warm_command_line().run(["trace", *options, "--", str(compile_c(PROGRAM, "-O1"))], cwd=folder)
    assert made.returncode == 0
    return folder


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_with_a_table_says_where_it_goes_and_as_what(verb):
    """`-o`, `--format`, `--json` and `--force`, also of the verbs of a group."""
    command = group.get_command(click.Context(group), verb)
    for one in (command, *getattr(command, "commands", {}).values()):
        options = {name: option for option in one.params for name in option.opts}
        if verb in OTHERS:
            assert "--format" not in options
            continue
        assert {"--format", "--json", "--output", "-o", "--force"} <= options.keys(), one.name
        assert set(FORMATS) <= set(options["--format"].type.choices)


def _text(value) -> str:
    return "" if value is None else str(value)


@pytest.mark.parametrize("words", ROWS)
def test_each_form_has_the_same_rows(words, folder, foretrace):
    """CSV and JSON: values of the keys that both have. Markdown and a terminal: as many rows of their table."""
    arguments, rows_of = ROWS[words]
    command = [*words.split(), *arguments]
    document = json.loads(foretrace(*command, "--format", "json", cwd=folder).stdout)
    assert json.loads(foretrace(*command, "--json", cwd=folder).stdout) | {"wall_s": 0} == document | {"wall_s": 0}
    expected = rows_of(document)
    assert expected or words == "events"
    printed = foretrace(*command, "--format", "csv", cwd=folder).stdout
    rows = list(csv.DictReader(io.StringIO(printed, newline="")))
    assert len(rows) == len(expected)
    for row, one in zip(rows, expected, strict=True):
        shared = {key for key in row.keys() & one.keys() if not isinstance(one[key], (list, dict))}
        assert len(shared) > 1
        assert {key: row[key].removeprefix("'") for key in shared} == {key: _text(one[key]) for key in shared}
    markdown = foretrace(*command, "--format", "md", cwd=folder).stdout
    assert markdown.startswith("<!-- foretrace report -->\n# ")
    tables = [len(part.splitlines()) - 2 for part in markdown.split("\n\n") if part.startswith("| ")]
    if words in SHOWN:
        assert len(expected) in tables


def test_a_result_goes_to_files_that_only_the_same_result_replaces(folder, foretrace, tmp_path):
    arguments, _ = ROWS["predict"]
    names = [tmp_path / f"out.{ending}" for ending in ("json", "csv", "md")]
    options = [word for name in names for word in ("-o", name)]
    done = foretrace("predict", *arguments, *options, cwd=folder)
    assert done.returncode == 0
    for name in names:
        printed = foretrace("predict", *arguments, "--format", name.suffix[1:], cwd=folder).stdout
        assert name.read_text() == printed
    again = foretrace("predict", *arguments, *options, cwd=folder)
    assert again.returncode == 75
    assert "exists already" in again.stderr
    assert foretrace("predict", *arguments, *options, "--force", cwd=folder).returncode == 0
    names[1].write_text("name,size\nmine,1\n")
    refused = foretrace("predict", *arguments, "-o", names[1], "--force", cwd=folder)
    assert refused.returncode == 75
    assert "is a table in CSV: --force replaces only a report with the same columns" in refused.stderr
    assert names[1].read_text() == "name,size\nmine,1\n"
