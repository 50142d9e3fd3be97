"""What `info` says of what its tables leave out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from traces import trace_binary

from foretrace.commands.info import command
from foretrace.reports.left_out import rest_line
from foretrace.tracer.signature.file import write_signature

RECURSIVE = r"""
volatile int sink;
__attribute__((noinline)) int tree(int n) { sink++; return n < 2 ? n : tree(n - 1) + tree(n - 2); }
__attribute__((noinline)) void one(void) { for (int i = 0; i < 900; i++) sink++; }
__attribute__((noinline)) void two(void) { for (int i = 0; i < 800; i++) sink++; }
int main(void) { one(); two(); return tree(18) == 0; }
"""


@pytest.fixture(scope="module")
def recursive(compile_c: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("left-out") / "recursive.sig"
    program = compile_c(RECURSIVE, "-O1", "-fno-optimize-sibling-calls", "-static")
    write_signature(trace_binary([str(program)]).signature, path)
    return path


def said(path: Path, *options: str) -> str:
    result = CliRunner().invoke(command, [str(path), *options], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_functions_outside_loops_are_named_with_their_share(recursive: Path) -> None:
    document = json.loads(said(recursive, "--json"))
    outside = document["outside_loops"]
    assert outside[0]["function"] == "tree"
    total = document["totals"]["instructions"]
    in_loops = sum(loop["instructions"] for loop in document["loops"])
    assert in_loops + sum(one["instructions"] for one in outside) == total
    share = 100 * (total - in_loops) / total
    of_tree = 100 * outside[0]["instructions"] / total
    text = " ".join(said(recursive).split())
    assert f"{share:.0f}% of the instructions are in functions, outside loops: tree {of_tree:.0f}%" in text


def test_loops_that_are_not_shown_are_counted_with_their_share(recursive: Path) -> None:
    document = json.loads(said(recursive, "--json"))
    counts = [loop["instructions"] for loop in document["loops"]]
    text = " ".join(said(recursive, "--top", "1").split())
    share = 100 * sum(counts[1:]) / document["totals"]["instructions"]
    assert f"{share:.0f}% of the instructions are in {len(counts) - 1} loops that are not shown" in text
    assert "not shown" not in said(recursive, "--top", str(len(counts)))
    assert f"are in {len(counts)} loops that are not shown" in " ".join(said(recursive, "--top", "0").split())


def test_nodes_and_allocations_of_data_flow_that_are_not_shown_are_counted(recursive: Path) -> None:
    text = " ".join(said(recursive, "--data-flow", "--top", "1").split())
    assert re.search(r"of the live bytes are in \d+ nodes that are not shown", text)
    assert re.search(r"of the touched bytes are in \d+ allocations that are not shown", text)
    assert "not shown" not in said(recursive, "--data-flow", "--top", "1000")


def test_a_rest_is_of_all_rows() -> None:
    assert rest_line([6, 3, 1], 1, "flows", "bytes") == "40% of the bytes are in 2 flows that are not shown"
    assert rest_line([6, 3, 1], 3, "flows", "bytes") == ""
    assert rest_line([1e6, 1], 1, "loops", "iterations") == "1 of the iterations are in 1 loops that are not shown"
