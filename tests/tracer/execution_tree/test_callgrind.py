"""Execution trees of compiled programs against what callgrind counts of the same ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from callgrind import run_callgrind
from effort import sweep
from traces import trace_binary
from trees import calls_of, function_nodes, tree_of

PROGRAMS = Path(__file__).parents[3] / "benchmarks" / "programs"

SHARE = 0.001
"""How far counts may differ; a few instructions of stubs are the caller's in one and the callee's in the other."""
STUB_INSTRUCTIONS = 100

RECURSION = r"""
#include <stdio.h>
#include <stdlib.h>
volatile int sink;
__attribute__((noinline)) static int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__attribute__((noinline)) static int odd(int n);
__attribute__((noinline)) static int even(int n) { sink++; return n ? odd(n - 1) + 1 : 1; }
__attribute__((noinline)) static int odd(int n) { sink++; return n ? even(n - 1) + 2 : 0; }
__attribute__((noinline)) static int walk(int depth) {
    int sum = 1;
    for (int i = 0; i < 3; i++) { sink += i; if (depth) sum += walk(depth - 1); }
    return sum;
}
__attribute__((noinline)) static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) {
    static int numbers[500];
    for (int i = 0; i < 500; i++) numbers[i] = i * 7919 % 1000;
    qsort(numbers, 500, sizeof *numbers, compare);
    for (int i = 0; i < 20; i++) sink += even(i) + odd(2 * i);
    printf("%d %d %d\n", fibonacci(15), walk(5), numbers[3]);
    return 0;
}"""


@sweep(
    ("name", "arguments"),
    [("cg", ("2000", "5")), ("queens", ("7",)), ("mergesort", ("3000",)), ("quicksort", ("3000",)), ("recursion", ())],
    [("cg", ("2000", "5")), ("recursion", ())],
)
def test_functions_and_calls(
    name: str, arguments: tuple[str, ...], compile_c: Callable[..., Path], tmp_path: Path
) -> None:
    source = RECURSION if name == "recursion" else (PROGRAMS / f"{name}.c").read_text()
    program = compile_c(source, "-O2", "-fno-inline", f"-I{PROGRAMS}", loaded=True)
    expected = run_callgrind(tmp_path, program, *arguments)
    signature = trace_binary([str(program), *arguments]).signature
    found = calls_of(signature)
    functions = {block.function for block in signature.blocks if block.module == str(program)} & expected.own.keys()
    assert "main" in functions
    assert len(functions) >= 3
    called = dict.fromkeys(functions, 0)
    for (_, callee), calls in expected.calls.items():
        if callee in functions:
            called[callee] += calls
    for function in functions - {"_start"}:
        instructions = expected.own[function]
        assert abs(found.own[function] - instructions) <= SHARE * instructions + STUB_INSTRUCTIONS, function
        assert found.calls[function] == called[function], function
    recursive = {node.key.function for node in tree_of(signature).nodes() if node.recursive_entries}
    pairs = [(one, other) for one, other in expected.calls if {one, other} <= functions - recursive]
    assert pairs or name in ("recursion", "queens")
    for pair in pairs:
        assert found.entries[pair] == expected.calls[pair], pair
        assert abs(found.below[pair] - expected.below[pair]) <= SHARE * expected.below[pair] + STUB_INSTRUCTIONS, pair


def test_recursion_is_one_node(compile_c: Callable[..., Path]) -> None:
    program = compile_c(RECURSION, "-O1", "-fno-inline", loaded=True)
    tree = tree_of(trace_binary([str(program)]).signature)
    [fibonacci] = function_nodes(tree, "fibonacci")
    calls = 1973  # of fibonacci(15): 2 F(16) - 1
    assert (fibonacci.entries, fibonacci.recursive_entries, fibonacci.depth) == (1, calls - 1, 14)
    [walk] = function_nodes(tree, "walk")
    assert (walk.entries, walk.recursive_entries, walk.depth) == (1, 3 + 9 + 27 + 81 + 243, 5)
