"""Who creates, joins and wakes threads, against counters in the traced programs; phases of loops."""

from __future__ import annotations

import itertools
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces import trace_binary
from trees import loop_nodes, path_of, tree_of
from word_streams import ENTRY, LAYOUT, Stream

from foretrace.tracer.analysis.execution_tree.builder import LEAST_CHANGE, phases
from foretrace.tracer.reader.raw_tree import NONE, raw_tree
from foretrace.tracer.signature.tree_records import MOST_PHASES, ExecutionTree, SynchronisationKind

CREATE, JOIN, WAKE, _ = SynchronisationKind

TURNS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;
static int waits[2];
static volatile int sums[2], ids[2], first_id;
/* Whether a thread waits in the kernel for a futex at the same place of its page as part of an object: proc(5) has
   the number of its system call, then the arguments. What engines wait for lies elsewhere. */
static int is_waiting(int id, const void *object, size_t size) {
    char path[64];
    unsigned long at = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", id);
    FILE *file = fopen(path, "r");
    const int found = file && fscanf(file, "%*d 0x%lx", &at) == 1;
    if (file) fclose(file);
    return found && ((at - (unsigned long)object) & 4095) < size;
}
static int is_there(int id) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d", id);
    return access(path, F_OK) == 0;
}
static void *player(void *argument) {
    int me = (int)(long)argument;
    ids[me] = (int)syscall(SYS_gettid);
    for (int round = 0; round < 50; round++) {
        pthread_mutex_lock(&lock);
        while (turn != me) { waits[me]++; pthread_cond_wait(&changed, &lock); }
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < 20000; i++) sums[me] += i;
        const int is_last = me == 1 && round == 49;
        while (!is_last && !is_waiting(ids[1 - me], &changed, sizeof changed)) usleep(1000);
        pthread_mutex_lock(&lock);
        turn = 1 - me;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
    while (me == 1 && is_there(ids[0])) usleep(1000); /* descriptors of threads lie at the same place of their pages */
    while (!is_waiting(first_id, (void *)pthread_self(), 2048)) usleep(1000);
    return NULL;
}
int main(void) {
    first_id = (int)syscall(SYS_gettid);
    pthread_t players[2];
    for (long i = 0; i < 2; i++) pthread_create(&players[i], NULL, player, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(players[i], NULL);
    FILE *counts = fopen("counts", "w");
    fprintf(counts, "%d %d\n", waits[0], waits[1]);
    return fclose(counts);
}"""

FUTEX = r"""
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>
static atomic_int word;
__attribute__((noinline)) void park(int was) { syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, was, 0, 0, -1); }
__attribute__((noinline)) int wake(int most) { return syscall(SYS_futex, &word, FUTEX_WAKE, most); }
static void *worker(void *unused) { for (int i = 0; i < 5; i++) park(0); return unused; }
int main(void) {
    pthread_t one, other;
    pthread_create(&one, NULL, worker, NULL);
    pthread_create(&other, NULL, worker, NULL);
    for (int woken = 0; woken < 10;) { usleep(1000); woken += wake(2); }
    pthread_join(one, NULL);
    pthread_join(other, NULL);
    return 0;
}"""

CHANGES = r"""
static volatile int sizes[3] = {8, 400, 50}, sink;
__attribute__((noinline)) static void solve(int n) { for (int i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) static void same(void) { for (int i = 0; i < 9; i++) sink += i; }
int main(void) {
    for (int step = 0; step < 120; step++) { solve(sizes[step >= 100]); same(); }
    return 0;
}"""


def edges_between(tree: ExecutionTree, kind: SynchronisationKind, source: str, target: str) -> Counter[tuple[int, int]]:
    """Counts of edges by threads, of those that are in calls of two functions."""
    found: Counter[tuple[int, int]] = Counter()
    for edge in tree.synchronisation:
        names = [
            {name.partition("@")[0] for name in path_of(tree, node)} for node in (edge.source_node, edge.target_node)
        ]
        if edge.kind is kind and source in names[0] and target in names[1]:
            found[edge.source, edge.target] += edge.count
    return found


@pytest.mark.parametrize("target", ["x86_64", "aarch64", "riscv64"])
def test_condition_variables(target: str, compile_c: Callable[..., Path], monkeypatch, tmp_path) -> None:
    """Threads wait as often as they count themselves, and were created and joined by the first one."""
    monkeypatch.chdir(tmp_path)
    program = compile_c(TURNS, "-O1", "-pthread", target=target)
    tree = tree_of(trace_binary([str(program)]).signature)
    assert [thread.parent for thread in tree.threads] == [-1, 0, 0]
    waits = [int(count) for count in Path("counts").read_text().split()]
    found = edges_between(tree, WAKE, "pthread_cond_signal", "pthread_cond_wait")
    assert waits == [49, 50]
    assert found == {(2, 1): 49, (1, 2): 50}
    created = [(edge.source, edge.target, edge.count) for edge in tree.synchronisation if edge.kind is CREATE]
    assert sorted(created) == [(0, 1, 1), (0, 2, 1)]
    for edge in tree.synchronisation:
        if edge.kind is CREATE:
            assert "pthread_create" in {name.partition("@")[0] for name in path_of(tree, edge.source_node)}
            assert edge.target_node == tree.threads[edge.target].root
    joined = {edge.source for edge in tree.synchronisation if edge.kind is JOIN and edge.target == 0}
    assert joined == {1, 2}


def test_bare_futexes(compile_c: Callable[..., Path]) -> None:
    program = compile_c(FUTEX, "-O1", "-pthread")
    tree = tree_of(trace_binary([str(program)]).signature)
    assert edges_between(tree, WAKE, "wake", "park") == {(0, 1): 5, (0, 2): 5}


def test_phases_of_loops(compile_c: Callable[..., Path]) -> None:
    program = compile_c(CHANGES, "-O1")
    tree = tree_of(trace_binary([str(program)]).signature)
    found = tree.phases()
    [changing], [same] = loop_nodes(tree, "solve"), loop_nodes(tree, "same")
    assert found[changing.node] == [(100, 800), (20, 8000)]
    assert same.node not in found


ROUNDS = """
volatile int sum, times = 5;
__attribute__((noinline)) void rows(int from)
{
    for (int i = 0; i < 64; i++)
        for (int j = from; j <= i; j++)
            sum += j;
}
int main(void)
{
    for (int round = 0; round < times; round++)
        rows(0);
    return 0;
}
"""


def test_loops_along_the_loop_around_them(compile_c: Callable[..., Path]) -> None:
    """A triangle, five times over: each iteration of the outer loop has one more of the inner one."""
    tree = tree_of(trace_binary([str(compile_c(ROUNDS, "-O1"))]).signature)
    [inner] = [node for node in loop_nodes(tree, "rows") if node.entries == 320]
    found = tree.rounds()[inner.node]
    assert sum(part[2] for part in found) == 64
    at = 0
    for entries, iterations, around in found:
        assert entries == 5 * around
        assert iterations == 5 * sum(range(at + 1, at + around + 1))
        at += around


@given(st.lists(st.tuples(st.integers(1, 64), st.integers(0, 10_000)), min_size=1, max_size=32))
def test_phases_keep_the_sums(stretches: list[tuple[int, int]]) -> None:
    found = phases(stretches)
    assert 1 <= len(found) <= MOST_PHASES
    sums = [list(itertools.accumulate(column)) for column in zip(*stretches, strict=True)]
    ends = [list(itertools.accumulate(column)) for column in zip(*found, strict=True)]
    assert set(zip(*ends, strict=True)) <= set(zip(*sums, strict=True))  # phases end where stretches do
    assert (ends[0][-1], ends[1][-1]) == (sums[0][-1], sums[1][-1])
    means = [iterations / entries for entries, iterations in found]
    if len(found) < MOST_PHASES:
        assert all(max(pair) >= LEAST_CHANGE * min(pair) for pair in itertools.pairwise(means))


def synchronisation(kind: int, thread: int, count: int) -> int:
    return 0xFFD << 51 | kind << 48 | thread << 27 | count


class Threads(Stream):
    """A stream of several threads, each in a cursor of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.reader.make_tree("x86_64", 1 << 10)
        self.describe_blocks([1] * 8)
        self.chunks = 0

    def write(self, thread: int, *words: int) -> None:
        self.publish(words, self.chunks)
        at = LAYOUT["ready"] + LAYOUT["ready_bytes"] * self.chunks
        struct.pack_into("<IIIII", self.memory, at, self.chunks, len(words), thread - 1, self.chunks + 1, thread)
        self.chunks += 1

    def edges(self) -> list[tuple[int, ...]]:
        """Kind, source thread, whether its node is known, target thread, count; threads from 0."""
        self.read()
        tree = raw_tree(self.reader.tree())
        assert tree is not None
        return [(row[0], row[1], row[2] != NONE, row[4], row[7]) for row in tree.edges.tolist()]


@pytest.mark.parametrize("source_first", [True, False])
def test_events_and_those_that_wait_are_read_in_any_order(source_first: bool) -> None:
    stream = Threads()
    parts = [
        (1, [ENTRY | 1, synchronisation(0, 1, 1), ENTRY | 2, synchronisation(0, 1, 2)]),
        (2, [ENTRY | 3, synchronisation(3, 1, 1), synchronisation(3, 1, 2)]),
        (3, [ENTRY | 3, synchronisation(3, 1, 2)]),
    ]
    for thread, words in parts if source_first else parts[::-1]:
        stream.write(thread, *words)
    assert sorted(stream.edges()) == [(3, 0, True, 1, 1), (3, 0, True, 1, 1), (3, 0, True, 2, 1)]


def test_events_that_never_came_have_no_place() -> None:
    stream = Threads()
    stream.write(1, ENTRY | 1)
    stream.write(2, ENTRY | 2, synchronisation(3, 1, 1), synchronisation(3, 1, 2), synchronisation(3, 7, 1))
    assert stream.edges() == [(3, 0, False, 1, 2)]


def test_more_events_than_are_remembered_lose_their_places_only() -> None:
    stream = Threads()
    count = 30_000
    for begin in range(0, count, 5000):
        stream.write(1, ENTRY | 1, *(synchronisation(0, 1, 1 + begin + i) for i in range(5000)))
    for begin in range(0, count, 5000):
        stream.write(2, ENTRY | 2, *(synchronisation(3, 1, 1 + begin + i) for i in range(5000)))
    edges = stream.edges()
    assert sum(edge[4] for edge in edges) == count
    assert {edge[2] for edge in edges} == {False, True}
