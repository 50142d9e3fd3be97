"""Threads that compiled code starts: their processor time is counted, and nobody else's is taken for theirs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from traces import trace_python

import foretrace
from foretrace.profiles.library import find
from foretrace.replay.base.records import Bound, LoopKind
from foretrace.replay.prediction.predict import predict
from foretrace.reports import unseen_report
from foretrace.tracer.python.program import PythonCore
from foretrace.tracer.signature.records import NATIVE_THREADS, Signature

LIBRARY = """
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

struct work {
    double seconds; /* of processor time; it takes a little more */
    bool stays;     /* afterwards, asleep */
    sem_t done;
};

static volatile unsigned long sum;

static void *burn(void *of)
{
    struct work *work = of;
    struct timespec used = {0, 0};
    while ((double)used.tv_sec + 1e-9 * (double)used.tv_nsec < work->seconds) {
        for (unsigned long i = 0; i < 10000; i++)
            sum += i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    }
    sem_post(&work->done);
    while (work->stays)
        pause();
    return NULL;
}

/* In two threads, one after the other: the first ends, the second is there when the program ends. */
void burn_in_threads(double seconds)
{
    static struct work works[2];
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        works[i] = (struct work){.seconds = seconds / 2, .stays = i == 1};
        sem_init(&works[i].done, 0, 0);
        pthread_create(&thread, NULL, burn, &works[i]);
        sem_wait(&works[i].done);
        if (!works[i].stays)
            pthread_join(thread, NULL);
    }
}
"""

BURNT_S = 0.1
BURNS = """\
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.burn_in_threads.argtypes = [ctypes.c_double]
library.burn_in_threads(float(sys.argv[2]))
"""
OTHERS_WORK = """
import threading
import numpy as np
a = np.ones((500, 500))
for _ in range(5):
    a = a @ a / 500
def count():
    for _ in range(300_000):
        pass
threads = [threading.Thread(target=count) for _ in range(3)]
for t in threads:
    t.start()
for t in threads:
    t.join()
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("native-threads")
    (directory / "burning.c").write_text(LIBRARY)
    made = directory / "burning.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", made, directory / "burning.c", "-pthread"], check=True)
    return made


def trace(library: Path, source: str, burnt_s: float, core: PythonCore = PythonCore.MARKERS) -> Signature:
    script = library.with_name("program.py")
    script.write_text(source)
    return trace_python(str(script), [str(library), str(burnt_s)], core=core).signature


@pytest.fixture(scope="module")
def traced(library: Path) -> Signature:
    return trace(library, BURNS + OTHERS_WORK, BURNT_S)


def test_only_what_native_threads_take_is_theirs(traced: Signature) -> None:
    """Neither Python's threads nor those of linear algebra, which take several times as long."""
    unseen = traced.provenance.unseen
    assert 0.95 * BURNT_S < unseen.native_threads_s < 1.5 * BURNT_S
    assert 0.0 < unseen.native_threads_share < 1.0
    assert unseen.functions[0] == NATIVE_THREADS
    assert "native threads took" in unseen_report.line(unseen)


def test_a_program_without_them_has_none(library: Path) -> None:
    unseen = trace(library, BURNS + OTHERS_WORK, 0.0).provenance.unseen
    assert unseen.native_threads_s < 0.2 * BURNT_S


def test_their_time_is_predicted_and_said(traced: Signature) -> None:
    prediction = predict(traced, find("epyc-turin-vm"))
    regions = [loop for loop in prediction.loops if loop.place.module == NATIVE_THREADS]
    region = max(regions, key=lambda loop: loop.time_s)  # beside it other work may leave some of linear algebra's
    assert region.kind is LoopKind.COMPILED
    assert region.bound_by is Bound.UNSEEN
    assert (Path(region.place.file).name, region.place.line) == ("program.py", 4), "the line that started them"
    (block,) = (block.block_id for block in traced.blocks if block.module == NATIVE_THREADS and block.line == 4)
    (lines,) = (time.lines for time in traced.interpreter_times if time.block_id == block)
    assert 1e-9 < BURNT_S / lines < 1e-6, "a line of Python, on any machine and beside any other work"
    core = find("epyc-turin-vm").core
    assert core is not None and core.python_line_s is not None
    assert region.time_s == pytest.approx(lines * core.python_line_s)
    assert region.high_s >= 1.9 * region.time_s
    (warning,) = (warning for warning in prediction.warnings if "compiled code that was not seen" in warning)
    assert "native threads are those that it started" in warning


def test_each_line_has_those_that_it_started(library: Path) -> None:
    """What the lines are charged adds up to the whole; a line that starts none has none."""
    source = (
        BURNS + "for i in range(3):\n    library.burn_in_threads(4 * float(sys.argv[2]))\nx = sum(range(100_000))\n"
    )
    signature = trace(library, source, BURNT_S / 4)
    native = {block.line: block.block_id for block in signature.blocks if block.module == NATIVE_THREADS}
    assert set(native) - {0} == {4, 6}
    lines = {one.block_id: one.lines for one in signature.interpreter_times}
    executions = {block.block_id: block.executions for block in signature.blocks}
    by_line = {line: lines[block] * executions[block] for line, block in native.items()}
    assert by_line[6] > 3 * by_line[4], "twelve times as much"
    assert by_line.get(0, 0.0) < 0.05 * sum(by_line.values())


def test_without_times_their_share_is_said(library: Path) -> None:
    signature = trace(library, BURNS, BURNT_S, PythonCore.SETTRACE)
    assert signature.provenance.unseen.time_share is None
    assert signature.provenance.unseen.native_threads_s > 0.95 * BURNT_S
    warnings = predict(signature, find("epyc-turin-vm")).warnings
    assert any(warning.startswith("native threads, which compiled code started, took") for warning in warnings)


def test_linear_algebra_of_a_fork_has_threads_of_its_own() -> None:
    np = pytest.importorskip("numpy")
    a = np.ones((500, 500))

    def multiply() -> None:
        for _ in range(10):
            a @ a

    unseen = foretrace.trace(multiply).signature.provenance.unseen
    assert unseen.native_threads_share < 0.1
