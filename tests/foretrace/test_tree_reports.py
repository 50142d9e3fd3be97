"""`foretrace info --tree`: text, JSON, flame graphs."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from traces import trace_binary

from foretrace.tracer.signature.file import read_signature, write_signature

SOLVER = r"""
volatile int sink;
__attribute__((noinline)) static void product(void) { for (int i = 0; i < 50; i++) sink++; }
__attribute__((noinline)) static void dot(void) { sink++; }
__attribute__((noinline)) static int walk(int n) { return n ? walk(n - 1) + walk(n - 1) + 1 : sink; }
int main(void) {
    for (int k = 0; k < 400; k++) { product(); dot(); }
    return walk(5) == 0;
}"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def signature(compile_c: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tree") / "s.sig"
    traced = trace_binary([str(compile_c(SOLVER, "-O1", "-fno-inline"))])
    write_signature(traced.signature, path)
    return path


def test_text(signature: Path, foretrace: Run) -> None:
    lines = foretrace("info", "--tree", signature).stdout.splitlines()
    main = next(number for number, line in enumerate(lines) if " main " in line)
    assert "400 x loop" in lines[main + 1]
    assert "product" in lines[main + 2]
    assert "50 x loop" in lines[main + 3]
    indents = [len(line[20:]) - len(line[20:].lstrip()) for line in lines[main : main + 4]]
    assert indents == sorted(set(indents))


def test_json(signature: Path, foretrace: Run) -> None:
    document = json.loads(foretrace("info", "--tree", "--json", signature).stdout)
    nodes = document["nodes"]
    assert [node["node"] for node in nodes] == list(range(len(nodes)))
    total = sum(node["own"]["instructions"] for node in nodes)
    assert total == sum(node["inclusive"]["instructions"] for node in nodes if node["parent"] is None)
    [walk] = [node for node in nodes if node["kind"] == "call" and node["function"] == "walk"]
    assert (walk["entries"], walk["recursive_entries"], walk["depth"]) == (1, 62, 5)
    [loop] = [node for node in nodes if node["kind"] == "loop" and node["function"] == "product"]
    assert loop["entries_by_iterations"] == {"32": 400}
    assert len(document["threads"]) == 1


@pytest.mark.parametrize("by", ["instructions", "bytes"])
def test_folded_stacks(by: str, signature: Path, foretrace: Run, tmp_path: Path) -> None:
    out = tmp_path / "f.txt"
    assert foretrace("info", "--flame", out, "--by", by, signature).returncode == 0
    weights = {}
    for line in out.read_text().splitlines():
        stack, _, weight = line.rpartition(" ")
        assert stack.startswith("foretrace:")
        weights[stack.partition(";")[2]] = int(weight)
    totals = read_signature(signature).totals
    expected = totals.instructions if by == "instructions" else totals.load_bytes + totals.store_bytes
    assert abs(sum(weights.values()) - expected) <= 0.001 * expected
    assert foretrace("info", "--flame", out, signature).returncode != 0, "it exists"
    assert foretrace("info", "--flame", out, "--force", signature).returncode == 0


def test_flame_graph(signature: Path, foretrace: Run, tmp_path: Path) -> None:
    """Boxes lie within their parents', and names with special characters are escaped."""
    read = read_signature(signature)
    assert read.tree is not None
    keys = [
        dataclasses.replace(key, function='a<b>&"c\x01') if key.function == "product" else key for key in read.tree.keys
    ]
    odd = dataclasses.replace(read, tree=dataclasses.replace(read.tree, keys=tuple(keys)))
    write_signature(odd, tmp_path / "odd.sig")
    out = tmp_path / "f.svg"
    assert foretrace("info", "--flame", out, tmp_path / "odd.sig").returncode == 0
    root = ElementTree.fromstring(out.read_text())
    space = "{http://www.w3.org/2000/svg}"
    boxes = [
        (float(r.attrib["x"]), float(r.attrib["width"]), int(r.attrib["y"]))
        for r in root.iterfind(f"{space}g/{space}rect")
    ]
    titles = [title.text or "" for title in root.iterfind(f"{space}g/{space}title")]
    assert any(title.startswith('a<b>&"c?') for title in titles)
    rows = sorted({y for _, _, y in boxes})
    for x, width, y in boxes:
        if y > rows[0]:
            above = rows[rows.index(y) - 1]
            assert any(
                other <= x + 0.02 and x + width <= other + wide + 0.02 for other, wide, row in boxes if row == above
            )
    assert foretrace("info", "--flame", out, "--force", signature).returncode == 0


def test_what_cannot_be_done_is_said_in_one_line(signature: Path, foretrace: Run, tmp_path: Path) -> None:
    write_signature(
        dataclasses.replace(read_signature(signature), tree=None, data_flow=None, dependences=(), examined_loops=()),
        tmp_path / "none.sig",
    )
    for arguments in (["--tree"], ["--flame", tmp_path / "f.svg"], ["--tree", "--json"]):
        result = foretrace("info", *arguments, tmp_path / "none.sig")
        assert result.returncode != 0
        assert "has no execution tree" in result.stderr
        assert result.stderr.count("\n") == 1
    result = foretrace("info", "--flame", tmp_path / "f.pdf", signature)
    assert result.returncode != 0
    assert ".svg" in result.stderr


def test_the_tree_by_predicted_time(signature: Path, foretrace: Run, tmp_path: Path) -> None:
    """Times of all nodes, those of their own and those of the roots, are the prediction's."""
    (prediction,) = json.loads(foretrace("predict", signature, "--machine", "grace", "--json").stdout)["predictions"]
    by_time = ("--by", "time", "--machine", "grace")
    document = json.loads(foretrace("info", "--tree", *by_time, "--json", signature).stdout)
    nodes = document["nodes"]
    assert document["machine"] == "grace"
    for total in (
        sum(node["own"]["time_s"] for node in nodes),
        sum(node["inclusive"]["time_s"] for node in nodes if node["parent"] is None),
    ):
        assert total == pytest.approx(prediction["time_s"], rel=1e-6)
    lines = foretrace("info", "--tree", *by_time, signature).stdout.splitlines()
    assert "one core doing all work" in lines[0]
    assert lines[1].split() == ["time", "own", "what"]
    for name in ("flame.txt", "flame.svg"):
        foretrace("info", "--flame", tmp_path / name, *by_time, signature)
    stacks = [line.rsplit(" ", 1) for line in (tmp_path / "flame.txt").read_text().splitlines()]
    assert sum(int(weight) for _, weight in stacks) == pytest.approx(1e9 * prediction["time_s"], rel=0.01), "ns"
    titles = [
        text.text or "" for text in ElementTree.parse(tmp_path / "flame.svg").iter() if text.tag.endswith("}text")
    ]
    assert any("time predicted on grace" in title for title in titles)


@pytest.mark.parametrize(
    "options", [("--tree", "--by", "time"), ("--tree", "--machine", "grace"), ("--by", "time", "--machine", "grace")]
)
def test_time_is_of_the_tree_on_a_machine(signature: Path, foretrace: Run, options: tuple[str, ...]) -> None:
    result = foretrace("info", *options, signature, check=False)
    assert result.returncode == 2
    assert "--by time" in result.stderr
