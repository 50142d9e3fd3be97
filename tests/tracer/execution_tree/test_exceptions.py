"""Exceptions in the execution tree: calls that one leaves are over, and the catching function goes on."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from traces import trace_binary
from trees import function_nodes, loop_nodes, path_of, tree_of

from foretrace.tracer.signature.records import Signature
from foretrace.tracer.signature.tree_records import ExecutionTree, TreeNodeKind

needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

CAUGHT_IN_COLD_CODE = r"""
#include <cstdio>
#include <stdexcept>
double a[1000];
__attribute__((noinline)) double work(int n) { double s = 0; for (int i = 0; i < n; i++) s += a[i] * 1.5; return s; }
__attribute__((noinline)) double f(int r) {
    double s = work(1000);
    if (s >= 0) throw std::runtime_error("x");
    return s + r;
}
__attribute__((noinline)) double g(int r) { return f(r) + 1; }
int main() {
    int caught = 0;
    double t = 0;
    for (int r = 0; r < 100; r++) {
        try { t += g(r); } catch (std::exception &) { caught++; t += work(500); }
    }
    printf("%d %.1f\n", caught, t);
}
"""

KINDS = r"""
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#define CALLED extern "C" __attribute__((noinline))
volatile int sink;
CALLED void work(int n) { for (int i = 0; i < n; i++) sink += i; }
CALLED void inner(int k) { work(11); if (k >= 0) throw std::runtime_error("a"); }
CALLED void middle(int k) { try { inner(k); } catch (std::exception &) { work(22); throw; } }
CALLED void rethrows() { for (int k = 0; k < 10; k++) try { middle(k); } catch (std::exception &) { work(33); } }
CALLED void recurs(int n) {
    if (n == 0) throw 1;
    if (n == 5) { try { recurs(n - 1); } catch (int) { work(44); } } else { recurs(n - 1); }
    sink++;
}
CALLED void recursion() { for (int k = 0; k < 7; k++) recurs(9); }
CALLED void clean(int n) { work(n); }
struct Cleanup { int n; ~Cleanup() { clean(n); } };
CALLED void leaf(int k) { Cleanup cleanup{55}; if (k >= 0) throw 2; }
CALLED void around(int k) { Cleanup cleanup{56}; leaf(k); sink++; }
CALLED void cleanups() { for (int k = 0; k < 6; k++) try { around(k); } catch (int) { work(57); } }
CALLED int compare(const void *a, const void *b) { if (*(int *)a == 7) throw 3; return *(int *)a - *(int *)b; }
CALLED void callbacks() {
    for (int k = 0; k < 5; k++) {
        int values[8] = {5, 4, 7, 2, 9, 1, 0, 3};
        try { qsort(values, 8, sizeof *values, compare); } catch (int) { work(66); }
    }
}
CALLED void in_itself() {
    for (int k = 0; k < 9; k++) try { if (sink >= -1) throw 5; work(2); } catch (int) { work(88); }
}
int main() { rethrows(); recursion(); cleanups(); callbacks(); in_itself(); printf("%d\n", sink); }
"""

UNWOUND = r"""
#include <pthread.h>
#include <stdio.h>
volatile int sink;
__attribute__((noinline)) void work(int n) { for (int i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) void clean(int *n) { work(*n); }
__attribute__((noinline)) void leaves(int k) {
    int n __attribute__((cleanup(clean))) = 5;
    if (k >= 0) pthread_exit(0);
    sink++;
}
__attribute__((noinline)) void around(int k) { int n __attribute__((cleanup(clean))) = 6; leaves(k); sink++; }
__attribute__((noinline)) void above(int k) { around(k); sink++; }
void *run(void *k) { above(*(int *)k); return 0; }
int main(void) {
    pthread_t thread;
    int k = 1;
    pthread_create(&thread, 0, run, &k);
    pthread_join(thread, 0);
    printf("%d\n", sink);
}
"""

PANICS = r"""
use std::hint::black_box;
#[no_mangle] #[inline(never)] pub fn work(n: u64) -> u64 {
    let (mut s, mut i) = (0, 0);
    while i < n { s = black_box(s + i); i += 1; }
    s
}
#[no_mangle] #[inline(never)] pub fn clean(n: u64) { black_box(work(n)); }
struct Cleanup(u64);
impl Drop for Cleanup { fn drop(&mut self) { clean(self.0); } }
#[no_mangle] #[inline(never)] pub fn f(k: u64) -> u64 { let _c = Cleanup(5); if work(100) > 0 { panic!("x"); } k }
#[no_mangle] #[inline(never)] pub fn g(k: u64) -> u64 { let _c = Cleanup(6); f(k) + 1 }
#[no_mangle] #[inline(never)] pub fn catches() -> u64 {
    let mut t = 0;
    for k in 0..50 { t += match std::panic::catch_unwind(|| g(k)) { Ok(v) => v, Err(_) => work(20) }; }
    t
}
fn main() { std::panic::set_hook(Box::new(|_| {})); println!("{}", catches()); }
"""


def traced(tmp_path: Path, compiler: list[str], name: str, source: str) -> Signature:
    text = tmp_path / name
    text.write_text(source)
    program = tmp_path / "program"
    subprocess.run([*compiler, "-o", program, text], check=True)
    return trace_binary([str(program)]).signature


def calls_below(tree: ExecutionTree, top: str, function: str) -> dict[tuple[str, ...], tuple[int, list[int]]]:
    """Entries of a function's nodes by the path to them from `top`, and the iterations of their loops."""
    found = {}
    for node in function_nodes(tree, function):
        names = path_of(tree, node.node)
        if top in names:
            loops = [one.iterations for one in loop_nodes(tree, function) if one.parent == node.node]
            found[tuple(names[names.index(top) : -1])] = (node.entries, loops)
    return found


@needs_gxx
def test_a_loop_that_catches_is_a_loop_and_what_it_calls_is_below_it(tmp_path: Path) -> None:
    """The code that catches lies before the function, and behind what throws, as g++ places it."""
    signature = traced(tmp_path, ["g++", "-O2", "-g"], "caught.cpp", CAUGHT_IN_COLD_CODE)
    tree = tree_of(signature)
    assert {
        name: [(n.entries, n.recursive_entries) for n in function_nodes(tree, name)] for name in ("_Z1gi", "_Z1fi")
    } == {
        "_Z1gi": [(100, 0)],
        "_Z1fi": [(100, 0)],
    }
    [loop] = [
        node
        for node in loop_nodes(tree, "main")
        if node.key.line == CAUGHT_IN_COLD_CODE[: CAUGHT_IN_COLD_CODE.index("r < 100")].count("\n") + 1
    ]
    assert (loop.entries, loop.iterations) == (1, 100)
    below = {node.node: node.parent for node in tree.nodes() if node.kind is TreeNodeKind.CALL}
    assert below[function_nodes(tree, "_Z1gi")[0].node] == loop.node
    assert calls_below(tree, "main", "_Z4worki") == {
        ("main", "_Z1gi", "_Z1fi"): (100, [100_000]),
        ("main",): (100, [50_000]),
    }
    assert [one.iterations for one in signature.loops if one.function == "main" and one.iterations == 100] == [100]
    assert not any("not called" in note for note in tree.notes)


@needs_gxx
@pytest.mark.parametrize("flags", [["-O0"], ["-O2"], ["-O2", "-static"]], ids=" ".join)
def test_kinds_of_exceptions(flags: list[str], tmp_path: Path) -> None:
    tree = tree_of(traced(tmp_path, ["g++", "-g", *flags], "kinds.cpp", KINDS))
    extra = flags == ["-O0"]  # the header runs once more than the body

    def times(entries: int, n: int) -> tuple[int, list[int]]:
        return entries, [entries * (n + extra)]

    assert calls_below(tree, "rethrows", "work") == {
        ("rethrows", "middle", "inner"): times(10, 11),
        ("rethrows", "middle"): times(10, 22),
        ("rethrows",): times(10, 33),
    }
    [recurs] = function_nodes(tree, "recurs")
    assert (recurs.entries, recurs.recursive_entries, recurs.depth) == (7, 63, 9)
    assert calls_below(tree, "recursion", "work") == {("recursion", "recurs"): times(7, 44)}
    works = calls_below(tree, "cleanups", "work")
    assert works.pop(("cleanups",)) == times(6, 57)
    assert sorted(works.values()) == [times(6, 55), times(6, 56)]
    assert all(
        path[:2] == ("cleanups", "around") and ("leaf" in path) == (loops == times(6, 55)[1])
        for path, (_, loops) in works.items()
    )
    assert calls_below(tree, "callbacks", "work") == {("callbacks",): times(5, 66)}
    assert calls_below(tree, "in_itself", "work") == {("in_itself",): times(9, 88)}
    assert all(
        path_of(tree, node.node)[-2] == "main"
        for name in ("rethrows", "recursion", "cleanups", "callbacks", "in_itself")
        for node in function_nodes(tree, name)
    )
    assert not any("not called" in note for note in tree.notes)


@pytest.mark.parametrize("linking", ["dynamic", "static"])
@pytest.mark.parametrize("target", ["x86_64", "aarch64", "riscv64"])
def test_a_thread_that_exits_cleans_up_in_the_functions_it_leaves(
    target: str, linking: str, compile_c: Callable[..., Path]
) -> None:
    """By the unwinder, as exceptions do."""
    flags = ["-O1", "-fno-inline", "-fexceptions", *(["-static"] if linking == "static" else [])]
    tree = tree_of(trace_binary([str(compile_c(UNWOUND, *flags, target=target))]).signature)
    assert calls_below(tree, "run", "work") == {
        ("run", "above", "around", "leaves", "clean"): (1, [5]),
        ("run", "above", "around", "clean"): (1, [6]),
    }


@pytest.mark.skipif(shutil.which("rustc") is None, reason="needs rustc")
def test_panics(tmp_path: Path) -> None:
    tree = tree_of(traced(tmp_path, ["rustc", "-O", "-g"], "panics.rs", PANICS))
    [loop] = [node for node in loop_nodes(tree, "catches") if node.iterations == 50]
    assert loop.entries == 1
    calls = {name: [(node.entries, node.recursive_entries) for node in function_nodes(tree, name)] for name in "fg"}
    assert calls == {"f": [(50, 0)], "g": [(50, 0)]}
    works = {path[-2:]: counts for path, counts in calls_below(tree, "catches", "work").items()}
    assert works[("g", "f")] == (50, [5000])
    assert works[("catches",)] == (50, [1000])
    cleaned = {
        "f" in path: sum(loops)
        for path, (_, loops) in calls_below(tree, "catches", "work").items()
        if path[-1] == "clean"
    }
    assert cleaned == {True: 250, False: 300}
