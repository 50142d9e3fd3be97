"""Loops in execution trees against counters that the programs themselves keep."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from traces import trace_binary
from trees import loop_nodes, tree_of

from foretrace.tracer.signature.tree_records import ExecutionTree

HEAD = r"""
#include <stdio.h>
struct count { long entries, iterations, least, most; } counts[1000];
volatile int sink;
static unsigned state = 12345;
static unsigned draw(unsigned below) { state = state * 1664525u + 1013904223u; return (state >> 16) % below; }
static void leave(struct count *c, long n) {
    c->least = !c->entries || n < c->least ? n : c->least;
    c->most = n > c->most ? n : c->most;
    c->entries++;
    c->iterations += n;
}
"""
TAIL = r"""
int main(void) {
    for (int i = 0; i < ROUNDS; i++) f0(DEPTH);
    for (int line = 0; line < 1000; line++)
        if (counts[line].entries)
            printf("%d %ld %ld %ld %ld\n", line, counts[line].entries, counts[line].iterations, counts[line].least,
                   counts[line].most);
    return 0;
}
"""


class Source:
    """A random program: functions with nests of loops that call each other, and themselves to some depth."""

    def __init__(self, seed: int, functions: int) -> None:
        self._random = random.Random(seed)
        self._functions = functions
        self._loops = 100
        self.lines = HEAD.splitlines()
        names = "".join(f"static void f{number}(int depth);\n" for number in range(functions))
        self.lines += names.splitlines()
        for number in range(functions):
            self._function(number)
        self.lines += TAIL.replace("ROUNDS", "2").replace("DEPTH", "2").splitlines()

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def _function(self, number: int) -> None:
        self._loops += 1
        self.lines.append(f"#line {self._loops}")
        self.lines.append(f"__attribute__((noinline)) static void f{number}(int depth) {{")
        for _ in range(self._random.randint(1, 2)):
            self._statement(number, 0)
        self.lines.append("    sink++;")
        self.lines.append("}")

    def _statement(self, function: int, nesting: int) -> None:
        kind = self._random.random()
        if kind < 0.5 and nesting < 3:
            self._loop(function, nesting)
        elif kind < 0.65:
            self.lines.append("    if (draw(3) == 0) {")
            self._statement(function, nesting + 1)
            self.lines.append("    } else sink += 2;")
        elif kind < 0.85 and function + 1 < self._functions:
            callee = self._random.randint(function + 1, self._functions - 1)
            self.lines.append(f"    f{callee}(depth);")
        elif kind < 0.92:
            self.lines.append(f"    if (depth > 0) f{self._random.randint(0, function)}(depth - 1);")
        else:
            self.lines.append("    sink += 3;")

    def _loop(self, function: int, nesting: int) -> None:
        most = self._random.choice([1, 2, 3, 4])
        line = self._loops = self._loops + 1  # all of a loop is said to be in one line; inner loops have later ones
        self.lines.append(f"#line {line}")
        self.lines.append(f"    {{ long left = 1 + draw({most}), done = 0;")
        self.lines.append(f"#line {line}")
        self.lines.append("    do { done++;")
        for _ in range(self._random.randint(1, 2)):
            self._statement(function, nesting + 1)
            self.lines.append(f"#line {line}")
        if self._random.random() < 0.3:
            self.lines.append(f"#line {line}")
            self.lines.append("        if (draw(8) == 0) break;")
        if self._random.random() < 0.3:
            self.lines.append(f"#line {line}")
            self.lines.append("        if (draw(4) == 0) continue;")
        self.lines.append(f"#line {line}")
        self.lines.append("        sink++; } while (--left > 0);")
        self.lines.append(f"    leave(&counts[{line}], done); }}")


def expected_counts(program: Path) -> dict[int, tuple[int, ...]]:
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    rows = [tuple(map(int, row.split())) for row in printed.splitlines()]
    return {row[0]: row[1:] for row in rows}


def summed(tree: ExecutionTree, function: str) -> dict[int, tuple[int, int, int, int]]:
    """Entries, iterations, least and most of a function's loops by line, over all contexts."""
    found: dict[int, tuple[int, int, int, int]] = {}
    for node in loop_nodes(tree, function):
        before = found.get(node.key.line, (0, 0, node.least, node.most))
        found[node.key.line] = (
            before[0] + node.entries,
            before[1] + node.iterations,
            min(before[2], node.least),
            max(before[3], node.most),
        )
    return found


def check(program: Path, functions: list[str]) -> None:
    expected = expected_counts(program)
    tree = tree_of(trace_binary([str(program)]).signature)
    rows = np.zeros(len(tree), np.int64)
    np.add.at(rows, tree.histogram_node, tree.histogram_entries)
    assert rows.tolist() == tree.entries.tolist() or np.all((rows == tree.entries) | (tree.loop_id < 0))
    found = {}
    for function in functions:
        found |= summed(tree, function)
    # A loop that never comes back has no back edge: it is none to what watches the program.
    repeated = {line: counts for line, counts in expected.items() if counts[3] > 1}
    found = {line: counts for line, counts in found.items() if line in repeated}
    if any(node.recursive_entries for node in tree.nodes() if node.key.function in functions):
        # A loop that is found while calls of its function are under way may have an iteration in the wrong entry.
        assert {line: counts[:2] for line, counts in found.items()} == {
            line: counts[:2] for line, counts in repeated.items()
        }
        for line, counts in repeated.items():
            assert counts[2] <= found[line][2] <= counts[2] + 1
            assert counts[3] <= found[line][3] <= counts[3] + 2
    else:
        assert found == repeated


@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed: int, compile_c: Callable[..., Path]) -> None:
    """Entries, iterations and their extremes of every loop, under any calls, recursion included."""
    source = Source(seed, functions=5)
    check(compile_c(source.text, "-O1", "-fno-inline"), [f"f{number}" for number in range(5)])


COUNTED = (
    HEAD
    + r"""
/* An insertion sort, a sieve, and Euclid's algorithm: trip counts that depend on data. */
static int numbers[300]; static char composite[2000];
__attribute__((noipa)) static void f0(int depth) {
    for (int i = 1; i < 300; i++) {
        int j = i; long done = 0;
        numbers[0] = draw(1000) - 5000;
        numbers[i] = draw(1000);
#line 500
        do { int other = numbers[j]; done++; numbers[j] = numbers[j - 1]; numbers[--j] = other; } while (numbers[j] <
        numbers[j - 1]);
#line 501
        leave(&counts[500], done);
    }
    for (int i = 2; i * i < 2000; i++) {
        if (composite[i]) continue;
        long done = 0; int j = i * i;
#line 510
        do { composite[j] = 1; j += i; done++; } while (j < 2000);
#line 511
        leave(&counts[510], done);
    }
    for (int i = 1; i < 200; i++) {
        long done = 0; int a = i, b = draw(5000) + 1;
#line 520
        do { int rest = a % b; a = b; b = rest; done++; } while (b);
#line 521
        leave(&counts[520], done);
        sink += a + depth;
    }
}"""
    + TAIL.replace("ROUNDS", "2").replace("DEPTH", "1")
)


@pytest.mark.parametrize("optimisation", ["-O1", "-O2"])
def test_trip_counts_that_depend_on_data(optimisation: str, compile_c: Callable[..., Path]) -> None:
    check(compile_c(COUNTED, optimisation, "-fno-inline", "-fno-tree-vectorize"), ["f0"])
