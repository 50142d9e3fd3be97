"""Each verb writes one result as JSON, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from warm_command_line import warm_command_line

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
ROWS: dict[str, tuple[list[str], Callable[[dict], int]]] = {
    "predict": (["x.sig", "--machine", "epyc-9654"], lambda found: len(found["predictions"][0]["loops"])),
    "info": (["x.sig"], lambda found: len(found["loops"])),
    "triage": (
        ["x.sig", "--host", "epyc-9654", "--accelerator", "h200-sxm-141gb"], lambda found: len(found["instances"])
    ),
    "replay": (["x.sig", "--machine", "epyc-9654"], lambda found: found["threads"]),
    "machines": ([], lambda found: len(found["machines"])),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory, compile_c) -> Path:
    folder = tmp_path_factory.mktemp("formats")
    made = warm_command_line().run(["trace", "-o", "x.sig", "--", str(compile_c(PROGRAM, "-O1"))], cwd=folder)
    assert made.returncode == 0
    return folder


@pytest.mark.parametrize("verb", ROWS)
def test_csv_and_markdown_have_the_rows_of_json(verb, folder, foretrace, tmp_path):
    arguments, count = ROWS[verb]
    document = foretrace(verb, *arguments, "--format", "json", cwd=folder).stdout
    assert foretrace(verb, *arguments, "--json", cwd=folder).stdout == document
    found = json.loads(document)
    expected = count(found)
    assert expected > 0
    printed = foretrace(verb, *arguments, "--format", "csv", cwd=folder).stdout
    header, *rows = csv.reader(io.StringIO(printed, newline=""))
    assert len(rows) == expected
    assert {len(row) for row in rows} == {len(header)}
    markdown = foretrace(verb, *arguments, "--format", "md", cwd=folder).stdout
    assert markdown.startswith("<!-- foretrace report -->\n# ")
    tables = [line for line in markdown.splitlines() if line.startswith("| ---")]
    assert tables


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
