"""No algorithm is quadratic in what a file says: twice as much of something is about twice the work.

Work is counted in lines of code that run, so neither the machine nor its load changes it. n log n at these sizes is a
factor of at most 2.4, a square is one of 4.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from effort import sweep
from offload_samples import gpu
from replay_samples import measured_host
from tree_samples import Tree
from work_count import work_of

import foretrace
from foretrace.replay.offload.triage import triage
from foretrace.replay.prediction.predict import predict
from foretrace.tracer.signature.file import read_signature, write_signature
from foretrace.tracer.source.idioms.patterns import built_in, from_file
from foretrace.tracer.source.scanning import TOO_MANY_WAYS, file_result

MOST = 2.5


def growth(prepare: Callable[[int], Callable[[], object]], size: int) -> float:
    """Ratio of the work at twice of `size` to that at `size`. A first run fills caches."""
    prepare(size)()
    return work_of(prepare(2 * size)) / work_of(prepare(size))


def in_loop(statements: str) -> str:
    return (
        f"void f(double *a, double *b, int *p, double s, int n) {{ for (int i = 0; i < n; i++) {{\n{statements} }} }}"
    )


SOURCES: dict[str, tuple[str, int, Callable[[int], str]]] = {
    "equal assignments": (".c", 30, lambda n: in_loop("a[i] = b[i];\n" * n)),
    "different assignments": (".c", 60, lambda n: in_loop(
        "".join(f"a[{n} * i + {k}] = b[i + {k}];\n" for k in range(n)))),
    "sums that are stored": (".c", 20, lambda n: in_loop("a[0] = a[0] + b[i]; p[i] = a[0];\n" * n)),
    "counters": (".c", 16, lambda n: in_loop("if (b[i] > 0) { s += 1; a[p[i]] += s; }\n" * n)),
    "a chain of temporaries": (".c", 60, lambda n: in_loop(
        "double t0 = b[i];" + "".join(f"double t{k + 1} = t{k} + b[i + {k}];\n" for k in range(n)) + f"a[i] = t{n};")),
    "loops in a loop": (".c", 20, lambda n: in_loop("for (int j = 0; j < n; j++) a[j] += b[i];\n" * n)),
    "loops in a file": (".c", 30, lambda n: in_loop("") + "".join(
        f"void f{k}(double *a, int n) {{ for (int i = 0; i < n; i++) a[i] = {k}; }}\n" for k in range(n))),
    "statements in a line": (".c", 200, lambda n: "void f(int x) { " + "x = x + 1; " * n + "}"),
    "pragmas": (".c", 200, lambda n: "#pragma omp parallel for\n" * n + in_loop("a[i] = 0;")),
    "equal assignments in Fortran": (".f90", 30, lambda n: (
        "subroutine f(a, b, n)\nreal a(n), b(n)\ndo i = 1, n\n" + "a(i) = b(i)\n" * n + "end do\nend\n")),
    "array statements in Fortran": (".f90", 20, lambda n: (
        "subroutine f(a, b, n)\nreal a(n), b(n)\n" + "a = a + b * 2\n" * n + "end\n")),
    "equal assignments in Python": (".py", 30, lambda n: (
        "def f(a, b, n):\n for i in range(n):\n" + "  a[i] = b[i]\n" * n)),
    "loops in Python": (".py", 30, lambda n: "def f(a, b, n):\n" + " for i in range(n):\n  a[i] += b[i]\n" * n),
}  # fmt: skip


# In short: statements, loops and pragmas of each language, without those that take the most time.
@sweep(
    "name", SOURCES, SOURCES.keys() - {"counters", "sums that are stored", "different assignments", "loops in a loop"}
)
def test_sources_take_work_as_they_are_long(name: str, tmp_path: Path) -> None:
    suffix, size, text = SOURCES[name]
    definitions = built_in()

    def prepare(number: int) -> Callable[[], object]:
        path = tmp_path / f"code{number}{suffix}"
        path.write_text(text(number))
        return lambda: file_result(path, definitions)

    assert growth(prepare, size) < MOST


def test_loops_within_loops_are_solved_up_to_a_size(tmp_path: Path) -> None:
    """Each loop tests all pairs within it: a cube of the depth, and not the fifth power that it was."""

    def prepare(depth: int) -> Callable[[], object]:
        path = tmp_path / f"nest{depth}.c"
        heads = "".join(f"for (int i{k} = 0; i{k} < n; i{k}++) {{ a[i{k}] += 1;\n" for k in range(depth))
        path.write_text(f"void f(double *a, int n) {{ {heads} {'}' * depth} }}")
        return lambda: file_result(path, built_in())

    assert growth(prepare, 5) < 9


def test_statements_with_more_ways_than_are_tried_are_said(tmp_path: Path) -> None:
    path = tmp_path / "many.c"
    path.write_text(in_loop("s = s + b[i]; a[i] = s;\n" * 40))
    found = file_result(path, built_in())
    unread = [part for part in found.skipped if part.reason == TOO_MANY_WAYS]
    assert unread
    assert all(2 <= part.line <= 41 for part in unread)
    path.write_text(in_loop("s = s + b[i]; a[i] = s;\n"))
    assert file_result(path, built_in()).skipped == ()


def test_patterns_take_work_as_they_are_many(tmp_path: Path) -> None:
    def prepare(number: int) -> Callable[[], object]:
        path = tmp_path / f"p{number}.toml"
        path.write_text(
            "".join(f'[mine-{k}]\nsummary = "s"\npatterns = ["A[i] = B[i] + {k}"]\n' for k in range(number))
        )
        return lambda: from_file(path)

    assert growth(prepare, 50) < MOST


def _threads(tree: Tree, number: int) -> None:
    for k in range(number):
        _work(tree, tree.call(tree.thread(k), f"f{k}"))


def _nodes(tree: Tree, number: int) -> None:
    main = tree.call(tree.thread(), "main")
    for k in range(number):
        _work(tree, tree.loop(tree.call(main, f"f{k}"), 1000))


def _sites(tree: Tree, number: int) -> None:
    loop = tree.loop(tree.call(tree.thread(), "main"), 1000)
    for _ in range(number):
        _work(tree, loop)


def _work(tree: Tree, node: int) -> None:
    block = tree.does(node, 1000)
    tree.program.access(block, 1000, (125, 125), size=8, first=1 << 40, length=8000)


@pytest.mark.parametrize("fill", [_threads, _nodes, _sites])
@pytest.mark.parametrize("verb", ["info", "predict", "triage"])
def test_signatures_take_work_as_they_hold(fill: Callable[[Tree, int], None], verb: str, tmp_path: Path) -> None:
    def prepare(number: int) -> Callable[[], object]:
        path = tmp_path / f"{number}.sig"
        tree = Tree()
        fill(tree, number)
        write_signature(tree.signature(), path, force=True)
        signature = read_signature(path)
        return {
            "info": lambda: foretrace.info(foretrace.read_signature(path)),
            "predict": lambda: predict(signature, measured_host()),
            "triage": lambda: triage(signature, measured_host(), gpu()),
        }[verb]

    assert growth(prepare, 40) < MOST
