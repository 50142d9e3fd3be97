"""Source joined with a run, as `triage --source` and `idioms --signature` show it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from command_line import run
from traces import trace_binary

import foretrace
from foretrace.base.errors import SourceError
from foretrace.tracer.signature.file import write_signature

SOURCE = """\
#include <stdio.h>
#define N 20000
static double a[N], b[N], c[N]; static int one[N];
int main(int argc, char **argv) {
    for (int i = 0; i < N; i++) {
        one[i] = i * 7 % N;
        a[i] = i;
    }
    if (argc > 3)
        for (int i = 0; i < N; i++)
            b[one[i]] = a[i];
    for (int i = 1; i < N - 1; i++)
        b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3;
    for (int i = 0; i < N; i++)
        c[one[i]] = b[i];
    printf("%g\\n", c[7]);
    return 0;
}
"""
MACHINES = ("--host", "epyc-9654", "--accelerator", "h200-sxm-141gb")


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program's source, its signature, and that of the stripped binary."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("joins")
    source = folder / "source" / "k.c"
    source.parent.mkdir()
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-g", "-O2", "-o", folder / "k", source], check=True)
    subprocess.run(["strip", "-o", folder / "bare", folder / "k"], check=True)
    for name in ("k", "bare"):
        signature = trace_binary([str(folder / name)], has_dependences=True).signature
        write_signature(signature, str(folder / f"{name}.sig"), force=True)
    return folder


def test_triage_names_idioms_as_the_source_has_them(traced: Path) -> None:
    text = run("triage", traced / "k.sig", *MACHINES, "--source", traced / "source").output
    assert "source: stencil (k.c:12-13 in main); parallel; run: parallel, no dependence seen" in text
    assert "disagree: a scatter that met no place twice in this run: " in text
    assert "1 loop of the source never ran: their address ranges are unknown.\n  k.c:10-11 in main: scatter" in text
    assert "warning" not in text


def test_triage_json_has_source_and_run_side_by_side(traced: Path) -> None:
    document = json.loads(run("triage", traced / "k.sig", *MACHINES, "--source", traced / "source", "--json").output)
    by_line = {one["line"]: one for one in document["instances"]}
    assert by_line[12]["idiom"] == "stencil"
    source = by_line[14]["source"]
    assert source["idioms"] == ["scatter"]
    assert (source["first_line"], source["last_line"], source["run_verdict"]) == (14, 15, "parallel")
    assert "scatter" in source["run_idioms"]
    assert [set(one) for one in source["disagreements"]] == [{"what", "why"}]
    assert [(one["first_line"], one["idioms"]) for one in document["never_ran"]] == [(10, ["scatter"])]


def test_triage_without_source_names_what_the_binary_shows(traced: Path) -> None:
    for name in ("k", "bare"):
        document = json.loads(run("triage", traced / f"{name}.sig", *MACHINES, "--json").output)
        names = {name for one in document["instances"] for name in one["idiom"].split("+")}
        assert {"stencil", "scatter", "stream"} <= names
        assert document["never_ran"] is None


def test_the_api_takes_source(traced: Path) -> None:
    report = foretrace.triage(traced / "k.sig", "epyc-9654", "h200-sxm-141gb", source=traced / "source")
    assert {"stencil", "scatter"} <= set(report.to_dataframe()["idiom"])


def test_idioms_say_what_ran(traced: Path) -> None:
    text = run("idioms", traced / "source", "--signature", traced / "k.sig").output
    assert "ranges unknown" in text
    rows = json.loads(run("idioms", traced / "source", "--signature", traced / "k.sig", "--json").output)
    ran = {one["loop_line"]: one["ran"] for one in rows["findings"]}
    assert ran[10] is None
    assert ran[12]["verdict"] == "parallel"
    assert [(one["line"], one["why"] != "") for one in rows["disagreements"]] == [(14, True)]
    assert run("idioms", traced / "source", "--signature", traced / "k.sig", "--csv").exit_code == 2


def test_no_source_is_one_clear_line(traced: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere: there is no such file or folder"):
        run("triage", traced / "k.sig", *MACHINES, "--source", tmp_path / "nowhere")
    with pytest.raises(SourceError, match="holds no source of C"):
        run("triage", traced / "k.sig", *MACHINES, "--source", tmp_path)


def test_no_debug_information_is_one_clear_line(traced: Path) -> None:
    text = run("triage", traced / "bare.sig", *MACHINES, "--source", traced / "source").output
    assert text.count("nothing that ran has a source line") == 1
    assert "compile with -g" in text


def test_another_version_and_another_program_are_one_line(traced: Path, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("\n\n" + SOURCE)
    text = run("triage", traced / "k.sig", *MACHINES, "--source", tmp_path).output
    assert text.count("is of another version than what ran (its content differs") == 1
    (tmp_path / "k.c").rename(tmp_path / "other.c")
    text = run("triage", traced / "k.sig", *MACHINES, "--source", tmp_path).output
    assert text.count("none of the files that ran (k.c) is in this source tree") == 1
