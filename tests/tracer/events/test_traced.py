"""Software-defined events of programs that are traced: those of the run without us, wherever the program goes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from event_programs import PRINT, build

from foretrace.tracer.signature.event_records import EventKind, RecordedEvent
from foretrace.tracer.signature.file import read_signature
from foretrace.tracer.signature.records import Signature

Compile = Callable[..., Path]
Trace = Callable[..., Signature]

SOURCES = sorted((Path(__file__).parents[3] / "tracer" / "events").glob("*.c"))

SOLVER = (
    PRINT
    + r"""
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void *updates, *residuals, *sizes;
static long long iterations;
static double points[100], level = -5;
static double ask(void *of) { return *(double *)of; }
static papi_handle_t begin(void)
{
    papi_handle_t solver = papi_sde_init("solver");
    papi_sde_register_counter(solver, "iterations", PAPI_SDE_INSTANT, PAPI_SDE_long_long, &iterations);
    papi_sde_register_counter(solver, "level", PAPI_SDE_INSTANT, PAPI_SDE_double, &level);
    papi_sde_describe_counter(solver, "iterations", "steps [iteration]");
    papi_sde_create_counter(solver, "updates", PAPI_SDE_RO, &updates);
    papi_sde_create_recorder(solver, "residuals", sizeof level, papi_sde_compare_double, &residuals);
    papi_sde_create_counting_set(solver, "sizes", &sizes);
    return solver;
}
static void solve(long long steps)
{
    for (long long step = 0; step < steps; step++) {
        for (int i = 0; i < 100; i++)
            points[i] = points[i] / 2 + step;
        double residual = 1.0 / (step + 1);
        papi_sde_inc_counter(updates, 1000);
        papi_sde_record(residuals, sizeof residual, &residual);
        papi_sde_counting_set_insert(sizes, 1, 1, step % 2 ? "odd" : "even", 0);
        iterations++;
    }
}
"""
)
PLAIN = SOLVER + r"""
int main(int argc, char **argv)
{
    begin();
    solve(atoi(argv[1]));
    level = 2.5;
    puts("solved");
    if (argc > 2)
        kill(getpid(), SIGKILL);
    return 3;
}
"""  # fmt: skip
THREADS = SOLVER + r"""
static void *work(void *steps) { solve((long long)steps); return NULL; }
int main(void)
{
    pthread_t threads[4];
    begin();
    for (long long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, (void *)(500 + i));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
"""  # fmt: skip
FORK = SOLVER + r"""
int main(int argc, char **argv)
{
    begin();
    solve(100);
    if (fork() == 0) {
        solve(50);
        if (argc > 1)
            _exit(0);
        return 0;
    }
    wait(NULL);
    solve(7);
    return 0;
}
"""  # fmt: skip
EXEC = SOLVER + r"""
int main(int argc, char **argv)
{
    begin();
    solve(argc > 1 ? 30 : 100);
    if (argc == 1)
        execl("/proc/self/exe", "again", "again", NULL);
    return 0;
}
"""  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path, foretrace: Callable[..., subprocess.CompletedProcess[str]]) -> Trace:
    """Trace a program with the boards in a folder of the test, and read its signature."""
    boards = tmp_path / "boards"
    boards.mkdir()

    def run(program: Path, *arguments: str, options: tuple[str, ...] = (), code: int = 0) -> Signature:
        path = tmp_path / "traced.sig"
        environment = os.environ | {"FORETRACE_EVENTS_DIRECTORY": str(boards)}
        done = foretrace(
            "trace", "--force", "-o", str(path), *options, "--", program, *arguments, env=environment, cwd=tmp_path
        )
        assert done.returncode == code, done.stderr
        assert not list(boards.iterdir())
        return read_signature(path)

    return run


def by_name(signature: Signature, process: int = 0) -> dict[str, RecordedEvent]:
    return {event.name: event for event in signature.events.events if event.process == process}


def column(signature: Signature, name: str) -> np.ndarray:
    """The samples of an event of the first process."""
    (samples,) = [samples for samples in signature.events.samples if samples.process == 0]
    names = [signature.events.events[number].name for number in samples.events]
    return samples.values[:, names.index(name)]


@pytest.mark.parametrize("options", [(), ("--record-values",)])
def test_the_signature_has_the_values_of_the_run(options: tuple[str, ...], compile_c: Compile, trace: Trace) -> None:
    found = by_name(trace(build(compile_c, PLAIN), "12000", options=options, code=3))
    assert {name: event.value for name, event in found.items()} == {
        "iterations": 12_000, "level": 2.5, "updates": 12_000_000, "residuals": 12_000, "sizes": 2,
    }  # fmt: skip
    assert found["iterations"].unit == "iteration"
    values = found["residuals"].values
    assert values is not None
    every = 1 / np.arange(1, 12_001)
    assert len(values.kept) == (12_000 if options else 10_000)
    assert np.array_equal(values.kept, every[values.kept_index])
    assert np.allclose(values.quantiles, np.quantile(every, np.linspace(0, 1, 1001)), rtol=1e-12)
    assert sorted((element.content[:1], element.count) for element in found["sizes"].elements) == [
        (b"e", 6_000), (b"o", 6_000),
    ]  # fmt: skip


def test_samples_rise_with_the_work_of_the_loop(compile_c: Compile, trace: Trace) -> None:
    signature = trace(build(compile_c, PLAIN), "12000", code=3)
    (samples,) = signature.events.samples
    updates = column(signature, "updates")
    assert len(updates) > 20
    assert np.all(np.diff(updates) >= 0)
    assert updates[-1] == 12_000_000
    assert set(column(signature, "level")) <= {0, -5, 2.5}, "0 before the first value"
    busiest = samples.executions[:, np.argmax(samples.executions[-1])]
    done, counted = busiest / busiest[-1], updates / updates[-1]
    assert np.max(np.abs(done - counted)) < 0.05


def test_threads_count_together(compile_c: Compile, trace: Trace) -> None:
    steps = 500 + 501 + 502 + 503
    found = by_name(trace(build(compile_c, THREADS)))
    assert (found["updates"].value, found["residuals"].value) == (1000 * steps, steps)
    values = found["residuals"].values
    assert values is not None
    assert sorted(values.kept) == sorted(1 / (step + 1) for most in range(500, 504) for step in range(most))


@pytest.mark.parametrize("end", [(), ("_exit",)])
def test_a_forked_process_goes_on_from_a_copy(end: tuple[str, ...], compile_c: Compile, trace: Trace) -> None:
    program = build(compile_c, FORK)
    followed = trace(program, *end, options=("--follow-children",))
    assert by_name(followed)["updates"].value == 107_000
    assert by_name(followed, 1)["updates"].value == 150_000


def test_a_forked_process_that_is_not_followed_is_left_alone(compile_c: Compile, trace: Trace) -> None:
    signature = trace(build(compile_c, FORK))
    assert {event.process for event in signature.events.events} == {0}
    assert by_name(signature)["updates"].value == 107_000


def test_events_before_and_after_exec(compile_c: Compile, trace: Trace) -> None:
    followed = trace(build(compile_c, EXEC), options=("--follow-children",))
    assert [by_name(followed, process)["updates"].value for process in (0, 1)] == [100_000, 30_000]


def test_events_before_an_exec_that_is_not_followed(compile_c: Compile, trace: Trace) -> None:
    found = by_name(trace(build(compile_c, EXEC)))
    assert (found["updates"].value, found["residuals"].value) == (100_000, 100)


def test_a_killed_program_leaves_its_events(compile_c: Compile, trace: Trace) -> None:
    found = by_name(trace(build(compile_c, PLAIN), "500", "killed", code=-9))
    assert (found["updates"].value, found["residuals"].value) == (500_000, 500)
    assert found["iterations"].value is None
    assert "was killed" in found["iterations"].unread


def test_a_program_without_events_has_none(compile_c: Compile, trace: Trace) -> None:
    assert trace(compile_c("int main(void) { return 0; }")).events.events == ()


@pytest.mark.parametrize("target", ["aarch64", "riscv64"])
def test_other_instruction_sets(target: str, compile_c: Compile, trace: Trace) -> None:
    include = SOURCES[0].parent / "include"
    flags = ["-static", f"-I{include}", f"-I{SOURCES[0].parents[2]}", *map(str, SOURCES)]
    signature = trace(compile_c(PLAIN, *flags, target=target), "2000", code=3)
    found = by_name(signature)
    assert (found["updates"].value, found["level"].value) == (2_000_000, 2.5)
    assert column(signature, "updates")[-1] == 2_000_000


def test_little_address_space(compile_c: Compile, tmp_path: Path) -> None:
    program = build(compile_c, PLAIN)
    command = f"ulimit -v 200000; exec {program} 10"
    environment = os.environ | {"FORETRACE_EVENTS_DIRECTORY": str(tmp_path), "FORETRACE_EVENTS_KEEP": "1"}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "solved\n", "")
    (board,) = tmp_path.iterdir()
    assert board.stat().st_size <= 200_000 * 1024 // 16


def test_a_python_program(tmp_path: Path, trace: Trace) -> None:
    script = tmp_path / "newton.py"
    script.write_text(
        "from foretrace import events\n"
        "library = events.Library('newton')\n"
        "steps = library.counter('steps', instant=True)\n"
        "errors = library.recorder('errors', dtype='double')\n"
        "total = 0\n"
        "for step in range(20_000):\n"
        "    total += step * step\n"
        "    steps.increment()\n"
        "    if step % 100 == 0:\n"
        "        errors.record(1 / (step + 1))\n"
    )
    signature = trace(script)
    found = by_name(signature)
    assert (found["steps"].value, found["errors"].value) == (20_000, 200)
    assert found["errors"].kind is EventKind.RECORDER
    steps = column(signature, "steps")
    assert len(steps) > 3
    assert np.all(np.diff(steps) >= 0)
