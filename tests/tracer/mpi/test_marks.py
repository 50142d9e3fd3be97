"""Marks between a rank's program and its MPI library: what is traced, and before which call it is counted."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from foretrace.tracer.session.launch import CompiledProgram
from foretrace.tracer.tracing import trace_program

_PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile double sum, a[1000];
__attribute__((noinline)) void work(int times)
{
    for (int k = 0; k < times; k++)
        for (int i = 0; i < 1000; i++)
            sum += a[i];
}
__attribute__((noinline)) void *library(void *unused)
{
    for (int i = 0; i < 100000; i++)
        sum += 1;
    return unused;
}
__attribute__((noinline)) void call(long what, long number)
{
    pthread_t helper;
    syscall(0x464d50, 1L, 0L, 0L);
    syscall(0x464d50, 1L, 0L, 0L);
    pthread_create(&helper, 0, library, 0);
    pthread_join(helper, 0);
    library(0);
    syscall(0x464d50, what, number, 0L);
}
int main(void)
{
    work(4);
    call(4, 0);
    call(2, 0);
    for (int i = 0; i < 10; i++) {
        work(3);
        call(2, 1);
        work(5);
        call(3, 0);
        work(2);
        call(2, 2);
    }
    work(1);
    return 0;
}
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marks")
    (folder / "marks.c").write_text(_PROGRAM)
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-o", folder / "marks", folder / "marks.c"], check=True)
    return trace_program(CompiledProgram((str(folder / "marks"),)))


def test_the_library_is_not_traced(traced):
    signature = traced.signature
    assert not [block for block in signature.blocks if block.function == "library"]
    assert signature.provenance.threads == 1
    assert signature.provenance.complete


def test_work_is_counted_before_the_call_that_follows_it(traced):
    tree, work = traced.signature.tree, traced.rank_work
    inner = [node for node, key in enumerate(tree.keys) if key.function == "work" and tree.iterations[node] >= 1000]
    counts = {call: int(work[(work[:, 0] == call) & np.isin(work[:, 1], inner), 2].sum()) for call in range(3)}
    assert counts[0] == 0
    assert counts[1] == 10 * 3 * 1000
    assert counts[2] == 10 * (5 + 2) * 1000  # the call between them was not recorded


def test_work_and_what_follows_the_last_call_are_all_executions(traced):
    tree, work = traced.signature.tree, traced.rank_work
    of_calls = np.bincount(work[:, 1], weights=work[:, 2], minlength=len(tree))
    of_nodes = np.bincount(tree.work_node, weights=tree.work_executions, minlength=len(tree))
    assert np.all(of_calls <= of_nodes)
    inner = [node for node, key in enumerate(tree.keys) if key.function == "work" and tree.iterations[node] >= 1000]
    assert of_nodes[inner].sum() - of_calls[inner].sum() == (4 + 1) * 1000  # before MPI begins, and at its end


def test_a_program_that_marks_nothing_is_no_rank(tmp_path: Path):
    assert trace_program(CompiledProgram(("true",))).rank_work is None
