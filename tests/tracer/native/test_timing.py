"""`foretrace time`: the program is left alone, by either sampler, and samples are where the time went."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from changed_files import change_timing
from timing_samples import TIMING

from foretrace.base.errors import ProgramError, TimingError
from foretrace.base.neighbours import LoopSample
from foretrace.tracer.native.perf_events import PerfSampler
from foretrace.tracer.native.timing import NativeRun, time_natively
from foretrace.tracer.native.timing_file import MAX_FILE_BYTES, read_timing, write_timing


def allowed_methods():
    """Perf events are not allowed everywhere, in containers in particular."""
    try:
        PerfSampler(0.001).close()
    except OSError:
        return ["ptrace"]
    return ["perf", "ptrace"]


METHODS = allowed_methods()

TWO_LOOPS = """
#define APART __attribute__((noinline))
APART unsigned work(unsigned n) { unsigned x = n; while (n--) x = x * 1664525 + 1013904223; return x; }
APART unsigned more(unsigned n) { unsigned x = n; while (n--) x = x * 22695477 + 1; return x; }
int main(int argc, char **argv) { return (work(10000000u * argc) + more(190000000u * argc)) == 1; }
"""

THREADS = """
#include <pthread.h>
static void *spin(void *unused) { for (volatile int i = 0; i < 60000000; i++); return unused; }
int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(threads + i, 0, spin, 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    return 5;
}
"""

SIGNALS = """
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>
static volatile int ticks;
static void tick(int number) { (void)number; ticks++; }
int main(void)
{
    struct itimerval every = {{0, 1000}, {0, 1000}};
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &every, 0);
    while (ticks < 40);
    if (fork() == 0) {
        usleep(60000);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
    puts("went on");
    return 9;
}
"""


def functions_of(timing, program):
    """Samples by function of the program, by binutils' reading of it."""
    symbols = subprocess.run(["nm", "--defined-only", "-n", program], capture_output=True, text=True, check=True).stdout
    starts = [(int(line.split()[0], 16), line.split()[2]) for line in symbols.splitlines() if line.split()[1] in "tT"]
    counts = {}
    for position in timing.positions:
        if position.module == str(program):
            name = [name for start, name in starts if start <= position.offset][-1]
            counts[name] = counts.get(name, 0) + position.samples
    return counts


@pytest.mark.parametrize("flags", [("-no-pie",), ("-pie", "-fPIE")])
@pytest.mark.parametrize("method", METHODS)
def test_samples_lie_where_the_time_goes(compile_c, method, flags):
    program = compile_c(TWO_LOOPS, "-O1", *flags)
    timing = time_natively([str(program)], runs=2, method=method)
    counts = functions_of(timing, program)
    assert counts["more"] > 0.75 * timing.num_samples  # all but a twentieth, were no other work in the way
    assert len(timing.runs) == 2
    assert all(run.user_s > 0 for run in timing.runs)


@pytest.mark.parametrize("method", METHODS)
def test_all_threads_are_sampled(compile_c, method):
    program = compile_c(THREADS, "-O1")
    timing = time_natively([str(program)], method=method)
    assert timing.exit_code == 5
    assert functions_of(timing, program)["spin"] > 0.5 * timing.num_samples


@pytest.mark.parametrize("method", METHODS)
def test_signals_and_stops_reach_the_program(compile_c, method, foretrace, tmp_path):
    result = foretrace("time", "--method", method, "-o", tmp_path / "x.timing", "--", compile_c(SIGNALS, "-O1"))
    assert (result.returncode, result.stdout, result.stderr) == (9, "went on\n", "")


@pytest.mark.parametrize("method", METHODS)
def test_streams_and_exit_code_are_the_programs_own(foretrace, tmp_path, method):
    script = "read line; echo heard $line; echo oops >&2; exit 3"
    (tmp_path / "input").write_text("you\n")
    command = ("time", "--method", method, "-o", tmp_path / "x.timing", "--runs", "2", "--", "sh", "-c", script)
    with (tmp_path / "input").open() as stdin:
        result = foretrace(*command, stdin=stdin)
    assert (result.returncode, result.stdout, result.stderr) == (3, "heard you\n", "oops\n")
    assert read_timing(tmp_path / "x.timing").exit_code == 3


@pytest.mark.parametrize("method", METHODS)
def test_a_program_that_is_killed_ends_foretrace_the_same_way(foretrace, tmp_path, method):
    command = ("time", "--method", method, "-o", tmp_path / "x.timing", "--", "sh", "-c", "kill -SEGV $$")
    assert foretrace(*command).returncode == -signal.SIGSEGV
    assert read_timing(tmp_path / "x.timing").signal == signal.SIGSEGV


@pytest.mark.parametrize("method", METHODS)
def test_a_program_that_becomes_another_is_followed(compile_c, method):
    program = compile_c(TWO_LOOPS, "-O1", "-no-pie")
    timing = time_natively(["sh", "-c", f"exec {program}"], method=method)
    assert sum(functions_of(timing, program).values()) > 0.8 * timing.num_samples


def test_python_scripts_are_run_by_this_python(foretrace, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys; print(sys.executable, sys.argv[1:])")
    result = foretrace("time", "-o", tmp_path / "x.timing", script, "--one", "2")
    assert result.stdout == f"{sys.executable} ['--one', '2']\n"


def test_runs_that_end_differently_are_refused(tmp_path):
    script = f"test -e {tmp_path}/seen || exit 0; exit 1"
    with pytest.raises(ProgramError, match="exit code 0 in the first run, exit code 1 in run 2; time a single run"):
        time_natively(["sh", "-c", f"({script}); code=$?; touch {tmp_path}/seen; exit $code"], runs=2)


def test_an_interrupt_in_a_later_run_interrupts_the_timing(tmp_path):
    script = f"test -e {tmp_path}/seen && kill -INT $$; touch {tmp_path}/seen"
    with pytest.raises(KeyboardInterrupt):
        time_natively(["sh", "-c", script], runs=2)


def test_a_timing_is_read_as_it_was_written(tmp_path):
    write_timing(TIMING, tmp_path / "x.timing")
    timing = read_timing(tmp_path / "x.timing")
    assert timing == TIMING
    assert timing.shortest == NativeRun(1.25, 0.75, 0.25)
    assert timing.spread == pytest.approx(0.25)
    assert timing.num_samples == 10


def test_the_time_by_segments_of_an_older_timing_counts(tmp_path):
    path = tmp_path / "x.timing"
    write_timing(TIMING, path)
    times = {"time_s": 0.5, "low_s": 0.4, "high_s": 0.6, "long_share": 0.1, "counting_s": 0.01}
    change_timing(path, {"segments": {**times, "runs": 12, "segments": 400}})
    timing = read_timing(path)
    assert (timing.least_alone_s, timing.time_s, timing.most_s, timing.clock_hz) == (0.4, 0.5, 0.6, None)
    change_timing(path, {"segments": {**times, "runs": 12, "segments": 400, "low_s": 0.55}})
    with pytest.raises(TimingError, match="its segments took a time that cannot be"):
        read_timing(path)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"schema": "foretrace.timing/9"}, "is a timing of another version than foretrace.timing/2"),
        ({"runs": []}, "has no run"),
        ({"runs": [{"wall_s": 1.0, "user_s": 0.0, "system_s": 0.0}]}, "impossible|cannot be|took"),
        ({"runs": [{"wall_s": -1.0, "user_s": 1.0, "system_s": 0.0}]}, "impossible|cannot be|took"),
        ({"runs": [{"wall_s": 1.0, "user_s": 1.0, "system_s": "much"}]}, "is a damaged timing"),
        ({"positions": [{"module": "/x", "offset": 1, "samples": 1, "kernel_samples": 2}]}, "cannot be"),
        ({"positions": [{"module": "/x", "offset": -1, "samples": 1, "kernel_samples": 0}]}, "cannot be"),
        ({"elsewhere": -1}, "cannot be"),
        ({"interval_s": 0}, "cannot be"),
        ({"runs": [{"wall_s": 1, "user_s": 1, "system_s": 0, "slowdown": 0.5}]}, "0.5 times as long"),
        ({"runs": [{"wall_s": 1, "user_s": 1, "system_s": 0, "slowdown": 1e9}]}, "times as long"),
        ({"runs": [{"wall_s": 1, "user_s": 1, "system_s": 0, "clock_hz": 0.0}]}, "a clock of 0.0 Hz"),
        ({"runs": [{"wall_s": 1, "user_s": 1, "system_s": 0, "clock_hz": 1e20}]}, "a clock of 1e\\+20 Hz"),
    ],
)
def test_a_timing_that_cannot_be_is_refused(tmp_path, changes, complaint):
    path = tmp_path / "x.timing"
    write_timing(TIMING, path)
    change_timing(path, changes)
    with pytest.raises(TimingError, match=complaint):
        read_timing(path)


def test_each_of_its_bytes_is_covered_by_the_checksum(tmp_path):
    path = tmp_path / "x.timing"
    write_timing(TIMING, path)
    data = path.read_bytes()
    for at, byte in enumerate(data):
        if not chr(byte).isspace():
            path.write_bytes(data[:at] + bytes([byte ^ 1]) + data[at + 1 :])
            with pytest.raises(TimingError, match=r"x\.timing"):
                read_timing(path)
    document = json.loads(data)
    document["runs"][0]["user_s"] = 0.5
    path.write_text(json.dumps(document))
    with pytest.raises(TimingError, match="checksum"):
        read_timing(path)
    path.write_bytes(data)
    assert read_timing(path) == TIMING


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"schema": "foretrace.timing/2"}'],
)
def test_a_file_that_is_no_timing_is_refused(tmp_path, content):
    (tmp_path / "x.timing").write_bytes(content)
    with pytest.raises(TimingError, match=r"x\.timing: is (not a timing|a damaged timing|damaged).*; make"):
        read_timing(tmp_path / "x.timing")
    with pytest.raises(TimingError, match="No such file"):
        read_timing(tmp_path / "missing.timing")


# ---- beside a neighbour


def with_runs(*pairs):
    """`pairs`: processor time, and slowdown of the reference loop beside."""
    return replace(TIMING, runs=tuple(NativeRun(cpu_s, cpu_s, 0.0, slowdown) for cpu_s, slowdown in pairs))


def test_undisturbed_runs_count_before_shorter_ones():
    timing = with_runs((2.0, 1.5), (2.4, 1.01), (2.1, 1.0), (1.9, None))
    assert (timing.shortest.cpu_s, timing.undisturbed_runs) == (2.1, 2)
    assert timing.spread == pytest.approx(0.15 / 2.1)
    assert timing.least_alone_s == 2.1


@pytest.mark.parametrize(
    ("runs", "least_s"),
    [
        (((2.0, None), (1.5, None)), 1.5),  # nothing is known of neighbours
        (((2.0, 1.6), (1.8, 1.2)), 1.5),  # too few for a line
        (((2.4, 1.4), (2.2, 1.2), (2.3, 1.3), (2.5, 1.5), (2.6, 1.6)), 2.0),
        (((2.0, 1.2), (2.0, 1.3), (2.0, 1.4), (2.0, 1.5), (2.0, 1.6)), 2.0),  # it does not matter to this program
    ],
)
def test_what_a_run_may_have_taken_alone(runs, least_s):
    assert with_runs(*runs).least_alone_s == pytest.approx(least_s)


class PretendedLoop:
    """Twice as slow while the program runs on a core that is known."""

    def __init__(self):
        self.cpus = []

    @contextlib.contextmanager
    def beside(self, cpu):
        assert cpu() is None, "it is not started yet"
        samples = []
        done = threading.Event()

        def watch():
            while not done.wait(0.001):
                self.cpus.append(cpu())
                if self.cpus[-1] is not None:
                    samples.append(LoopSample(2.0, 3e9))

        thread = threading.Thread(target=watch)
        thread.start()
        yield samples
        done.set()
        thread.join()
        assert cpu() is None, "it has ended"

    def slowdown(self, cycles):
        return cycles


def test_a_loop_runs_beside_the_program_on_its_core(compile_c, tmp_path):
    loop = PretendedLoop()
    timing = time_natively([str(compile_c(TWO_LOOPS, "-O1"))], runs=2, method="ptrace", reference=loop)
    assert [(run.slowdown, run.clock_hz) for run in timing.runs] == [(2.0, 3e9)] * 2
    assert timing.clock_hz == 3e9
    assert set(loop.cpus) - {None} <= os.sched_getaffinity(0)
    write_timing(timing, tmp_path / "x.timing")
    assert read_timing(tmp_path / "x.timing") == timing


def test_a_program_too_short_for_the_loop_tells_nothing_of_neighbours(monkeypatch):
    loop = SimpleNamespace(beside=lambda cpu: contextlib.nullcontext([]), slowdown=lambda time_s: 1 / 0)
    (run,) = time_natively(["true"], method="ptrace", reference=loop).runs
    assert (run.slowdown, run.clock_hz) == (None, None)


def test_the_command_runs_the_loop(tmp_path, compile_c):
    path = tmp_path / "x.timing"
    command = [sys.executable, "-P", "-m", "foretrace", "time", "-o", path, "--", compile_c(TWO_LOOPS, "-O1")]
    subprocess.run(command, check=True)
    (run,) = read_timing(path).runs
    assert run.slowdown >= 1
    assert 1e7 < run.clock_hz < 1e10


def test_a_timing_that_is_no_file_of_that_size_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TimingError, match="is not a file"):
        read_timing(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(TimingError, match="is larger than 64 MiB"):
        read_timing(tmp_path / "huge")
