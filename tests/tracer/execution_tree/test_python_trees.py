"""Execution trees of Python programs, by both cores."""

from __future__ import annotations

import pytest
from traces import trace_python
from trees import function_nodes, loop_nodes, path_of, tree_of

from foretrace.tracer.signature.tree_records import ExecutionTree, TreeNodeKind

PROGRAM = """
import threading
import numpy as np

def leaf(n):
    s = 0
    for i in range(n):
        s += i
    return s

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def numbers(n):
    for i in range(n):
        yield leaf(i)

def raises(n):
    if n == 0:
        raise ValueError
    raises(n - 1)

def catches():
    try:
        raises(3)
    except ValueError:
        leaf(2)

async def waits(n):
    leaf(n)

async def awaits():
    for k in range(4):
        await waits(k)

def main():
    for k in range(10):
        leaf(k)
    fib(10)
    total = 0
    for x in numbers(6):
        total += x
    for _ in range(3):
        catches()
    a = np.arange(1000.0)
    for _ in range(20):
        a = a + 1.0
    try:
        awaits().send(None)
    except StopIteration:
        pass
    thread = threading.Thread(target=leaf, args=(50,))
    thread.start()
    thread.join()

main()
"""


@pytest.fixture(scope="module", params=["markers", "settrace"])
def tree(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ExecutionTree:
    script = tmp_path_factory.mktemp("python-tree") / "program.py"
    script.write_text(PROGRAM)
    return tree_of(trace_python(str(script), core=request.param).signature)


def entries_below(tree: ExecutionTree, function: str) -> dict[str, int]:
    """Entries of a function by its caller."""
    found: dict[str, int] = {}
    for node in function_nodes(tree, function):
        caller = ["", *path_of(tree, node.node)][-2]
        found[caller] = found.get(caller, 0) + node.entries
    return found


def test_calls_in_their_contexts(tree: ExecutionTree) -> None:
    found = entries_below(tree, "leaf")
    assert {caller: found[caller] for caller in ("main", "numbers", "catches", "waits")} == {
        "main": 10,
        "numbers": 6,
        "catches": 3,
        "waits": 4,
    }
    assert entries_below(tree, "waits") == {"awaits": 4}
    assert entries_below(tree, "raises") == {"catches": 3}


def test_recursion_folds(tree: ExecutionTree) -> None:
    [fib] = function_nodes(tree, "fib")
    assert (fib.entries, fib.recursive_entries, fib.depth) == (1, 176, 9)
    [raises] = function_nodes(tree, "raises")
    assert (raises.entries, raises.recursive_entries, raises.depth) == (3, 9, 3)


def test_generators_go_on_below_who_asks_them(tree: ExecutionTree) -> None:
    nodes = function_nodes(tree, "numbers")
    assert {path_of(tree, node.node)[-2] for node in nodes} == {"main"}
    assert sum(node.entries for node in nodes) == 7  # six values, and the end


def test_loops(tree: ExecutionTree) -> None:
    loops = {tuple(path_of(tree, node.node)[-2:-1]): node for node in loop_nodes(tree, "leaf")}
    loop = loops["main",]
    assert (loop.entries, loop.iterations) in ((9, 45), (10, 55))  # the first call has none: its line is no loop's yet
    [loop] = [node for node in loop_nodes(tree, "main") if node.iterations == 20]
    [leaf] = [child for child in loop.children if tree.kind[child] == TreeNodeKind.LEAF]
    assert tree.entries[leaf] == 20
    assert tree.iterations[leaf] == 20_000
    assert not tree.is_estimated[leaf]


def test_threads(tree: ExecutionTree) -> None:
    assert len(tree.threads) == 2
    [alone] = [node for node in loop_nodes(tree, "leaf") if "main" not in path_of(tree, node.node)]
    assert alone.iterations in (50, 51)
