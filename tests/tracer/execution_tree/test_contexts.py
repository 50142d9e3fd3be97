"""What is unusual in call contexts: jumps out of calls, signals, tail calls, coroutines, threads, processes."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from traces import trace_binary
from trees import function_nodes, loop_nodes, path_of, tree_of

from foretrace.tracer.session import session
from foretrace.tracer.signature.tree_records import TreeNodeKind

ODD = r"""
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
static jmp_buf before;
volatile int sink;
__attribute__((noinline)) static void deep(int n) {
    if (n == 0) longjmp(before, 1);
    for (int i = 0; i < 10; i++) sink += i;
    deep(n - 1);
    sink++;
}
__attribute__((noinline)) static void after(void) { for (int i = 0; i < 7; i++) sink++; }
__attribute__((noinline)) static void handler(int number) { for (int i = 0; i < 5; i++) sink += number; }
__attribute__((noinline)) int second(int n) { for (int i = 0; i < n; i++) sink += i; return sink; }
__attribute__((noinline)) int first(int n) { sink++; return second(n + 1); }
__attribute__((noinline)) static void tries(void) {
    for (volatile int k = 0; k < 4; k++) { if (!setjmp(before)) deep(3); after(); }
}
__attribute__((noinline)) static void signals(void) { for (int k = 0; k < 6; k++) { raise(SIGUSR1); after(); } }
int main(void) {
    signal(SIGUSR1, handler);
    tries();
    signals();
    for (int k = 0; k < 8; k++) first(5);
    after();
    return 0;
}"""


@pytest.mark.parametrize("target", ["x86_64", "aarch64", "riscv64"])
def test_jumps_signals_and_tail_calls(target: str, compile_c: Callable[..., Path]) -> None:
    program = compile_c(ODD, "-O1", "-fno-inline", "-foptimize-sibling-calls", target=target)
    tree = tree_of(trace_binary([str(program)]).signature)
    calls = {path_of(tree, node.node)[-2]: node.entries for node in function_nodes(tree, "after")}
    assert calls == {"tries": 4, "signals": 6, "main": 1}
    [deep] = function_nodes(tree, "deep")
    assert (deep.entries, deep.recursive_entries, deep.depth) == (4, 12, 3)
    assert sum(node.entries for node in function_nodes(tree, "handler")) == 6
    assert all("signals" in path_of(tree, node.node) for node in function_nodes(tree, "handler"))
    assert [(loop.entries, loop.iterations) for loop in loop_nodes(tree, "handler")] == [(6, 30)]
    [second] = function_nodes(tree, "second")
    assert second.entries == 8
    assert path_of(tree, second.node)[-3:] == ["main", "first", "second"]
    assert any("longjmp" in note for note in tree.notes)
    assert any("signals" in note for note in tree.notes)


EXCEPTIONS = r"""
#include <cstdio>
#include <stdexcept>
volatile int sink;
__attribute__((noinline)) void raises(int n) { if (n == 0) throw std::runtime_error("x"); sink = n; raises(n - 1);
sink++; } __attribute__((noinline)) void after() { for (int i = 0; i < 7; i++) sink = i; } __attribute__((noinline))
void catches(int n) {
    try { raises(n); } catch (const std::exception &) { sink = n; }
    after();
} int main() { for (int k
= 0; k < 5; k++) catches(k); after(); }
"""


def test_exceptions(tmp_path: Path) -> None:
    source = tmp_path / "exceptions.cpp"
    source.write_text(EXCEPTIONS)
    subprocess.run(["g++", "-O1", "-g", "-o", tmp_path / "exceptions", source], check=True)
    tree = tree_of(trace_binary([str(tmp_path / "exceptions")]).signature)
    calls = {path_of(tree, node.node)[-2]: node.entries for node in function_nodes(tree, "_Z5afterv")}
    assert calls == {"_Z7catchesi": 1, "main": 1}
    catches = function_nodes(tree, "_Z7catchesi")
    assert sum(node.entries for node in catches) == 5
    assert all(path_of(tree, node.node)[-2] == "main" for node in catches)


COROUTINES = r"""
#include <ucontext.h>
static ucontext_t main_context, other_context;
static char stack[65536];
volatile int sink;
__attribute__((noinline)) static void work(int n) { for (int i = 0; i < n; i++) sink += i; }
static void other(void) { for (;;) { work(9); swapcontext(&other_context, &main_context); } }
int main(void) {
    getcontext(&other_context);
    other_context.uc_stack.ss_sp = stack;
    other_context.uc_stack.ss_size = sizeof stack;
    makecontext(&other_context, other, 0);
    for (int k = 0; k < 6; k++) { swapcontext(&main_context, &other_context); work(4); }
    return 0;
}"""


def test_coroutines_are_resumed_where_they_are_switched_to(compile_c: Callable[..., Path]) -> None:
    tree = tree_of(trace_binary([str(compile_c(COROUTINES, "-O1", "-fno-inline"))]).signature)
    calls = {path_of(tree, node.node)[-2]: node.entries for node in function_nodes(tree, "work")}
    assert calls == {"other": 6, "main": 6}
    assert any("coroutines" in note for note in tree.notes)


THREADS = r"""
#include <pthread.h>
volatile int sinks[8];
__attribute__((noinline)) static void work(long n) { for (long i = 0; i < n; i++) sinks[n % 8] += 1; }
static void *run(void *n) { work((long)n); return 0; }
int main(void) {
    pthread_t threads[4];
    for (long k = 0; k < 4; k++) pthread_create(&threads[k], 0, run, (void *)(1000 * (k + 1)));
    for (int k = 0; k < 4; k++) pthread_join(threads[k], 0);
    for (int k = 0; k < 3; k++) { pthread_create(&threads[k], 0, run, (void *)500L); pthread_join(threads[k], 0); }
    return 0;
}"""


def test_each_thread_has_a_tree(compile_c: Callable[..., Path]) -> None:
    """Also those that start when another one has ended, whose place they take."""
    tree = tree_of(trace_binary([str(compile_c(THREADS, "-O1", "-fno-inline"))]).signature)
    assert len(tree.threads) == 8
    assert len({thread.root for thread in tree.threads}) == 8
    loops = loop_nodes(tree, "work")
    assert sorted(loop.iterations for loop in loops) == [500, 500, 500, 1000, 2000, 3000, 4000]
    for loop in loops:
        assert path_of(tree, loop.node)[-2:] == ["run", "work"]
        assert loop.entries == 1
    main, *others = tree.threads
    assert main.first == 0
    assert all(0 < thread.first <= thread.last for thread in others)
    assert [int(kind) for kind in tree.kind[[thread.root for thread in tree.threads]]] == [TreeNodeKind.THREAD] * 8
    sequential = others[-3:]
    assert all(one.last <= other.first for one, other in itertools.pairwise(sequential))


TEAM = r"""
#include <stdio.h>
volatile int sinks[64];
__attribute__((noinline)) static void row(int n) { for (int i = 0; i < n; i++) sinks[n % 64] += 1; }
int main(void) {
    #pragma omp parallel for schedule(static, 1) num_threads(4)
    for (int i = 0; i < 100; i++) row(i + 2);
    #pragma omp parallel for schedule(static, 1) num_threads(3)
    for (int i = 0; i < 30; i++) row(i + 2);
    return 0;
}"""


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_a_region_is_below_its_function_when_the_loader_bound_calls_on_the_way(
    binding: str, compile_c: Callable[..., Path]
) -> None:
    program = compile_c(TEAM, "-O1", "-fopenmp", f"-Wl,-z,{binding}")
    tree = tree_of(trace_binary([str(program)]).signature)
    rows = {thread.root: 0 for thread in tree.threads}
    for node in function_nodes(tree, "row"):
        names = path_of(tree, node.node)
        root = node.node
        while tree.parent[root] >= 0:
            root = int(tree.parent[root])
        rows[root] += node.entries
        assert names.count("row") == 1
        if root == tree.threads[0].root:
            assert names[names.index("main") + 1] == "GOMP_parallel"
        assert not {"pthread_create", "_dl_allocate_tls_init"} & set(names)
    assert list(rows.values()) == [25 + 10, 25 + 10, 25 + 10, 25]
    assert not any("longjmp" in note or "coroutines" in note for note in tree.notes)


CHILDREN = r"""
#include <sys/wait.h>
#include <unistd.h>
volatile int sink;
__attribute__((noinline)) static void work(int n) { for (int i = 0; i < n; i++) sink++; }
int main(void) {
    work(100);
    if (fork() == 0) { work(200); _exit(0); }
    wait(0);
    work(300);
    return 0;
}"""


def test_child_processes_have_trees(compile_c: Callable[..., Path]) -> None:
    program = compile_c(CHILDREN, "-O1", "-fno-inline")
    tree = tree_of(trace_binary([str(program)], follow_children=True).signature)
    assert [thread.process for thread in tree.threads] == [0, 1]
    assert [thread.parent for thread in tree.threads] == [-1, 0]
    roots = {thread.root: thread.process for thread in tree.threads}

    def process(node: int) -> int:
        while tree.parent[node] >= 0:
            node = int(tree.parent[node])
        return roots[node]

    found = {(process(loop.node), loop.iterations) for loop in loop_nodes(tree, "work")}
    assert found == {(0, 100), (1, 200), (0, 300)}


def test_order_and_distribution(compile_c: Callable[..., Path]) -> None:
    """Siblings are in the order in which they first ran, and a histogram has every entry."""
    source = r"""
    volatile int sink;
    __attribute__((noinline)) static void triangle(int n) { for (int i = 0; i < n; i++) sink++; }
    __attribute__((noinline)) static void dot(void) { sink++; }
    __attribute__((noinline)) static void update(void) { sink--; }
    int main(void) {
        for (int k = 1; k <= 16; k++) { triangle(k); dot(); update(); dot(); }
        return 0;
    }"""
    tree = tree_of(trace_binary([str(compile_c(source, "-O1", "-fno-inline"))]).signature)
    [outer] = loop_nodes(tree, "main")
    assert (outer.entries, outer.iterations) == (1, 16)
    assert [tree.keys[child].function for child in outer.children] == ["triangle", "dot", "update", "dot"]
    assert [int(tree.rank[child]) for child in outer.children] == [0, 1, 2, 3]
    [inner] = loop_nodes(tree, "triangle")
    assert (inner.entries, inner.iterations, inner.least, inner.most) == (16, 136, 1, 16)
    here = tree.histogram_node == inner.node
    assert dict(zip(tree.histogram_bucket[here].tolist(), tree.histogram_entries[here].tolist(), strict=True)) == {
        1: 1, 2: 2, 3: 4, 4: 8, 5: 1,
    }  # fmt: skip


@pytest.mark.parametrize("most", [60, 200])
def test_contexts_beyond_the_bound_are_merged(
    most: int, compile_c: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts stay whole, and what does most of the work stays where it is."""
    source = r"""
    volatile int sink;
    __attribute__((noipa)) static void leaf(int n) { for (int i = 0; i < n; i++) sink++; }
    __attribute__((noipa)) static void hot(void) { for (int k = 0; k < 100; k++) leaf(100); }
    int main(void) { leaf(1); hot(); leaf(2); return 0; }"""
    program = str(compile_c(source, "-O1", "-fno-inline", loaded=True))
    whole = tree_of(trace_binary([program]).signature)
    monkeypatch.setattr(session, "MAX_CONTEXTS", most)
    tree = tree_of(trace_binary([program]).signature)
    assert tree.merged_contexts > 0
    assert whole.merged_contexts == 0
    assert any(node.kind is TreeNodeKind.MERGED for node in tree.nodes())
    for loop in range(int(whole.loop_id.max()) + 1):
        one, other = whole.loop_id == loop, tree.loop_id == loop
        assert whole.entries[one].sum() == tree.entries[other].sum()
        assert whole.iterations[one].sum() == tree.iterations[other].sum()
    assert max(node.entries for node in function_nodes(tree, "leaf")) == 100
    assert path_of(tree, max(function_nodes(tree, "leaf"), key=lambda node: node.entries).node)[-2:] == ["hot", "leaf"]
