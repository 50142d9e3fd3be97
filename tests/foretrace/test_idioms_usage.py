"""`foretrace idioms`: its options, its formats, and what a user can get wrong."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import command_line
import pytest

import foretrace
from foretrace.base.errors import SourceError

Run = Callable[..., "subprocess.CompletedProcess[str]"]

PROGRAM = """\
void gather(int n, double *a, const double *b, const int *c) {
    for (int i = 0; i < n; i++)
        a[i] = b[c[i]];
}
double norm(int n, int m, double (*a)[100]) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            sum += a[i][j] * a[i][j];
    return sum;
}
"""
BAD_PATTERNS = [
    ("", "axpy"),
    ("[axpy", "Expected"),
    ("[axpy]\nsummary = 'x'", "patterns"),
    ("[axpy]\nsummary = 'x'\npatterns = ['Y[i] = import os']", "axpy"),
    ("[axpy]\nsummary = 'x'\npatterns = ['Y[i] = __import__(1).x']", "axpy"),
    ("[axpy]\nsummary = 'x'\npatterns = ['" + "(" * 5000 + "']", "longer than 4096 bytes"),
    ("[axpy]\nsummary = 'x'\npatterns = ['Y[i] = X[i]']\nwhere = 'open(Y)'", "axpy"),
    ("[axpy]\nsummary = 'x'\npatterns = ['Y[i] = X[i]']\nunknown = 1", "unknown"),
    ("a = " + "[" * 5000, "patterns.toml"),
]

# What SARIF 2.1.0 (OASIS standard, sections 3.13 to 3.58) requires of the objects that foretrace writes. The official
# schema comes with no package.
_PLACE = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation", "region"],
            "additionalProperties": False,
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "required": ["uri"],
                    "additionalProperties": False,
                    "properties": {"uri": {"type": "string", "pattern": "^[A-Za-z0-9%/._~:-]+$"}},
                },
                "region": {
                    "type": "object",
                    "required": ["startLine"],
                    "additionalProperties": False,
                    "properties": {name: {"type": "integer", "minimum": 1} for name in ("startLine", "endLine")},
                },
            },
        },
        "logicalLocations": {"type": "array", "items": {"type": "object", "required": ["name"]}},
    },
    "additionalProperties": False,
}
_MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "additionalProperties": False,
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "properties": {
                                                "id": {"type": "string"},
                                                "shortDescription": _MESSAGE,
                                                "defaultConfiguration": {
                                                    "type": "object",
                                                    "properties": {"level": _LEVEL},
                                                },
                                            },
                                        },
                                    }
                                },
                            }
                        },
                    },
                    "invocations": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["executionSuccessful"],
                            "properties": {
                                "executionSuccessful": {"type": "boolean"},
                                "toolExecutionNotifications": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "required": ["message"],
                                        "properties": {
                                            "message": _MESSAGE,
                                            "level": _LEVEL,
                                            "locations": {"type": "array", "items": _PLACE},
                                        },
                                        "additionalProperties": False,
                                    },
                                },
                            },
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message"],
                            "additionalProperties": False,
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "level": _LEVEL,
                                "kind": {"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
                                "message": _MESSAGE,
                                "rank": {"type": "number", "minimum": 0, "maximum": 100},
                                "locations": {"type": "array", "items": _PLACE},
                                "properties": {"type": "object"},
                            },
                        },
                    },
                },
            },
        },
    },
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program, a broken one and one with an odd name."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "program.c").write_text(PROGRAM)
    (folder / 'odd "name",\n.py').write_text("def f(a, b, n):\n    for i in range(n):\n        a[i] = b[i]\n")
    (folder / "broken.py").write_text("def g(:\n    pass\n")
    return folder


def run(*arguments: Any) -> str:
    result = command_line.run("idioms", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def document(*arguments: Any) -> dict[str, Any]:
    return json.loads(run("--json", *arguments))  # type: ignore[no-any-return]


def test_the_table(tree: Path) -> None:
    shown = run(tree)
    for word in ("program.c", "gather", "reduction", "a[i] = b[c[i]];", "stream", "in 3 files"):
        assert word in shown
    assert "broken.py:1: file: syntax error" in shown
    assert "\x1b" not in shown


def test_json_is_as_designed(tree: Path) -> None:
    found = document(tree)
    assert found["schema"] == "foretrace.idioms/1"
    assert (found["files"], found["lines"]) == (3, 16)
    keys = {
        "file", "first_line", "last_line", "function", "language", "idiom", "depth", "arrays", "confidence", "reason"
    }  # fmt: skip
    assert all(keys <= one.keys() for one in found["findings"])
    gather = next(one for one in found["findings"] if one["idiom"] == "gather")
    assert (gather["first_line"], gather["function"], gather["language"], gather["depth"]) == (3, "gather", "c", 1)
    assert {use["name"]: use["element"] for use in gather["arrays"]}["b"] == "float64"
    assert [(one["first_line"], one["verdict"]) for one in found["loops"] if one["function"] == "norm"] == [
        (7, "reduction"), (8, "reduction"),
    ]  # fmt: skip
    (skipped,) = found["skipped"]
    assert skipped["file"].endswith("broken.py")
    assert "syntax error" in skipped["reason"]


def test_filters(tree: Path) -> None:
    assert [one["idiom"] for one in document("--idiom", "gather", tree)["findings"]] == ["gather"]
    both = document("--idiom", "gather", "--idiom", "stream", tree)["findings"]
    assert sorted(one["idiom"] for one in both) == ["gather", "stream"]
    assert {one["function"] for one in document("--depth", 2, tree)["findings"]} == {"norm"}
    chosen = document("--file", "*.c", tree)
    assert {Path(one["file"]).name for one in chosen["findings"] + chosen["loops"]} == {"program.c"}
    assert document("--file", "*.f90", tree)["findings"] == []
    assert "No idiom found in 3 files" in run("--file", "*.f90", tree)
    assert "1 more: --all shows" in run("--top", 2, tree)
    assert "more" not in run("--all", tree)


def test_loops(tree: Path) -> None:
    shown = run("--loops", tree)
    assert "4 loops, 4 of them read in full: 2 parallel, 2 reduction." in shown
    assert "sum is reduced by +" in shown
    rows = list(csv.DictReader(io.StringIO(run("--loops", "--csv", tree))))
    assert [row["verdict"] for row in rows if row["function"] == "norm"] == ["reduction", "reduction"]


def test_csv_keeps_odd_names_in_their_cells(tree: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run("--csv", tree))))
    assert len(rows) == len(document(tree)["findings"])
    (odd,) = (row for row in rows if row["language"] == "python")
    assert odd["file"].endswith('odd "name",\\n.py')
    assert (odd["first_line"], odd["idiom"], odd["text"]) == ("3", "stream", "a[i] = b[i]")


def test_csv_holds_no_formulas(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    Path("=cmd.c").write_text(PROGRAM)
    rows = list(csv.reader(io.StringIO(run("--csv", "=cmd.c"))))
    assert rows[1][0] == "'=cmd.c"


def test_sarif(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    monkeypatch.chdir(tree)
    for paths in ((tree,), (".",)):
        found = json.loads(run("--sarif", *paths))
        jsonschema.validate(found, SARIF, format_checker=jsonschema.FormatChecker())
        (log,) = found["runs"]
        rules = [rule["id"] for rule in log["tool"]["driver"]["rules"]]
        assert len(log["results"]) == len(document(*paths)["findings"])
        assert all(rules[one["ruleIndex"]] == one["ruleId"] for one in log["results"])
        (note,) = log["invocations"][0]["toolExecutionNotifications"]
        assert "syntax error" in note["message"]["text"]
        uris = {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in log["results"]}
        names = {"program.c", "odd%20%22name%22%2C%0A.py"}
        assert uris == {f"{tree.as_uri()}/{name}" if paths[0] == tree else name for name in names}


def test_patterns_of_ones_own(tree: Path, tmp_path: Path) -> None:
    patterns = tmp_path / "mine.toml"
    patterns.write_text('[square]\nsummary = "a sum of squares"\npatterns = ["s = s + A[i, j] * A[i, j]"]\n')
    assert "square: a sum of squares\n    s = s + A[i, j] * A[i, j]" in run("--list", "--patterns", patterns)
    assert [one["function"] for one in document("--patterns", patterns, "--idiom", "square", tree)["findings"]] == [
        "norm"
    ]
    sarif = json.loads(run("--patterns", patterns, "--sarif", tree))
    assert sarif["runs"][0]["tool"]["driver"]["rules"][0]["id"] == "square"


@pytest.mark.parametrize(("text", "words"), BAD_PATTERNS)
def test_hostile_pattern_files(text: str, words: str, tree: Path, tmp_path: Path) -> None:
    patterns = tmp_path / "patterns.toml"
    patterns.write_text(text)
    with pytest.raises(SourceError) as caught:
        command_line.run("idioms", "--patterns", patterns, "--idiom", "axpy", tree)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_list(tree: Path) -> None:
    assert "gather-modify-scatter:" in run("--list")
    assert run("--list", "--idiom", "stream").splitlines()[0].startswith("stream: ")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "name at least one file or folder"),
        (["--json", "--csv", "src"], 2, "exclude one another"),
        (["--loops", "--sarif", "src"], 2, "use --json or --csv"),
        (["--loops", "--depth", "2", "src"], 2, "use --file"),
        (["--list", "src"], 2, "--list takes only"),
        (["--depth", "0", "src"], 2, "--depth"),
        (["--jsno", "src"], 2, "--json"),
        (["--idiom", "gathr", "src"], 83, "'gathr': did you mean gather?"),
        (["--idiom", "zzz", "src"], 83, "'zzz': there are "),
        (["--patterns", "none.toml", "src"], 83, "none.toml: cannot be read: No such file"),
        (["--patterns", "/dev/zero", "src"], 83, "/dev/zero: is not a file"),
        (["nothing"], 83, "nothing: there is no such file or folder"),
        (["notes.txt"], 83, "notes.txt: no source of C"),
    ],
)
def test_mistakes_have_one_line_and_their_code(
    arguments: list[str], code: int, words: str, foretrace: Run, tree: Path
) -> None:
    (tree.parent / "notes.txt").write_text("")
    result = foretrace("idioms", *arguments, cwd=tree.parent)
    assert result.returncode == code, result.stderr
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("foretrace: error: ")
    assert words in last
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_the_example_in_the_help(foretrace: Run, tree: Path) -> None:
    shown = foretrace("idioms", "--help").stdout
    example = shown.split("Example: foretrace ", 1)[1].split("\n")[0].strip()
    assert foretrace(*example.split(), cwd=tree.parent).returncode == 0


def test_progress_is_on_a_terminal_only(foretrace: Run, tree: Path) -> None:
    assert foretrace("idioms", "--no-cache", tree).stderr == ""
    import pexpect

    child = pexpect.spawn(
        sys.executable, ["-P", "-m", "foretrace", "idioms", "--no-cache", str(tree)], encoding="utf-8"
    )
    child.expect("Reading")
    child.expect("100%")
    child.expect("gather")
    child.expect(pexpect.EOF)


def test_an_interrupt_ends_it_at_once_and_keeps_nothing_half(tree: Path) -> None:
    loop = "for(int i=0;i<n;i++)a[i]=b[i];"
    for number in range(4):  # minutes of work
        (tree / f"long{number}.c").write_text(f"void f(int n,double*a,double*b){{{loop * 20_000}}}")
    cache = tree.parent / "cache"
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "foretrace", "idioms", str(tree)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"XDG_CACHE_HOME": str(cache)}, start_new_session=True,
    )  # fmt: skip
    while not list(cache.rglob("*.json")):  # the short files are done
        assert child.poll() is None
        time.sleep(0.1)
    os.killpg(child.pid, signal.SIGINT)
    out, error = child.communicate()
    assert child.returncode == -signal.SIGINT
    assert out == b""
    assert b"Traceback" not in error
    assert [path for path in cache.rglob("*") if path.is_file() and path.suffix != ".json"] == []


def test_the_python_interface(tree: Path) -> None:
    found = foretrace.idioms(tree, tree / "program.c", only=["gather", "stream"])
    assert found.counts() == {"gather": 1, "stream": 1}
    assert list(found.to_dataframe()["idiom"]) == [one.idiom for one in found.findings]
    assert set(found.to_dataframe("loops")["verdict"]) == {"parallel", "reduction"}
    with pytest.raises(ValueError, match="there is no table"):
        found.to_dataframe("others")
    square = foretrace.idiom("square", "s = s + A[i, j] * A[i, j]")
    assert foretrace.idioms(str(tree), patterns=[square], cache=False).counts()["square"] == 1
    with pytest.raises(SourceError, match="name at least one"):
        foretrace.idioms()
    with pytest.raises(SourceError, match="idiom 'bad'"):
        foretrace.idiom("bad", "A[i] = lambda: 0")
    seen: list[tuple[int, int]] = []
    foretrace.idioms(tree, cache=False, progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 3)
    assert seen[-1] == (3, 3)
