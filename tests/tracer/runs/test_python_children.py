"""Python programs whose processes are followed: counted as if each ran alone, joined, and otherwise left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from polling import wait_until
from process_programs import nothing_is_left

from foretrace.profiles import library
from foretrace.replay.node.replay import replay_on
from foretrace.replay.node.speedup import predict_threads
from foretrace.replay.prediction.conditions import waking_of
from foretrace.tracer.signature.file import read_signature
from foretrace.tracer.signature.records import ProcessRecord, Signature
from foretrace.tracer.signature.tree_records import SynchronisationKind

__all__ = ["nothing_is_left"]
TRACE = (sys.executable, "-P", "-m", "foretrace", "trace")
METHODS = ("fork", "spawn", "forkserver")
pytestmark = pytest.mark.usefixtures("nothing_is_left")

WORK = """
import multiprocessing as mp, os, signal, subprocess, sys, time
def work(n):
    total = 0
    for i in range(n):
        total += i * i
    return total
"""


@dataclass(frozen=True, slots=True)
class Run:
    """A script that ran with its children followed."""

    script: Path
    stdout: str
    stderr: str
    returncode: int
    signature: Signature

    @property
    def processes(self) -> tuple[ProcessRecord, ...]:
        """All, the first one included."""
        return self.signature.provenance.processes

    def iterations(self, function: str) -> list[int]:
        """Of the function's loops."""
        return [loop.iterations for loop in self.signature.loops if loop.function == function and loop.kind == "code"]

    def edges(self) -> Counter[tuple[str, int, int]]:
        """Kind of waiting between processes, source and target line: how often."""
        found: Counter[tuple[str, int, int]] = Counter()
        tree = self.signature.tree
        assert tree is not None
        process = [thread.process for thread in tree.threads]
        for edge in tree.synchronisation:
            if process[edge.source] != process[edge.target]:
                found[edge.kind.name, edge.source_line, edge.target_line] += edge.count
        return found

    def line(self, text: str) -> int:
        """Number of the only line with that text."""
        (number,) = (n for n, line in enumerate(self.script.read_text().splitlines(), 1) if text in line)
        return number


def follow(directory: Path, source: str, *arguments: str) -> Run:
    script, signature = directory / "program.py", directory / "program.sig"
    script.write_text(WORK + source)
    command = [*TRACE, "-o", str(signature), "--follow-children", str(script), *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    return Run(script, done.stdout, done.stderr, done.returncode, read_signature(signature))


def alone(run: Run, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(run.script), *arguments]
    return subprocess.run(command, cwd=run.script.parent, capture_output=True, text=True, check=False)


POOL = """
def main():
    with mp.Pool(2) as pool:
        print(sum(pool.map(work, [100] * 10, chunksize=1)))
    print(mp.active_children())
if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    main()
"""


@pytest.mark.parametrize("method", METHODS)
def test_a_pools_work_is_counted_however_it_starts_its_processes(method: str, tmp_path: Path) -> None:
    run = follow(tmp_path, POOL, method)
    assert (run.returncode, run.stdout, run.stderr) == (0, alone(run, method).stdout, "")
    assert run.signature.provenance.complete, run.signature.provenance.incomplete_reason
    assert run.iterations("work") == [1000]
    workers = [process for process in run.processes if process.signal == signal.SIGTERM]
    assert len(workers) <= 2  # terminate() ends a pool; a worker that was never waited for has no ending
    assert all(not process.problem for process in run.processes)


QUEUE = """
def consume(tasks, results):
    while (n := tasks.get()) >= 0:
        results.put(work(n))
def main():
    tasks, results = mp.Queue(), mp.SimpleQueue()
    child = mp.Process(target=consume, args=(tasks, results))
    child.start()
    for n in [50] * 8 + [-1]:
        tasks.put(n)
    print(sum(results.get() for _ in range(8)))
    child.join()
    print(child.exitcode)
if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    main()
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_processes_hand_each_other_is_an_edge(method: str, tmp_path: Path) -> None:
    run = follow(tmp_path, QUEUE, method)
    assert (run.returncode, run.stdout) == (0, alone(run, method).stdout)
    edges = run.edges()
    assert edges["CREATE", run.line("child.start()"), 0] == 1
    assert edges["JOIN", 0, run.line("child.join()")] == 1
    assert edges["WAKE", run.line("tasks.put(n)"), run.line("while (n := tasks.get())")] == 9
    assert edges["WAKE", run.line("results.put(work(n))"), run.line("print(sum(results.get()")] == 8
    shown = subprocess.run(
        [*TRACE[:-1], "info", "--tree", "program.sig"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert f"{sum(edges.values())} of these between processes" in shown
    tree = run.signature.tree
    assert tree is not None
    assert [thread.parent for thread in tree.threads] == [-1, 0]


def test_connections_and_locks_are_edges(tmp_path: Path) -> None:
    source = """
def waits_for_a_futex(pid):  # as sem_wait does: FUTEX_WAIT_BITSET
    with open(f"/proc/{pid}/syscall") as file:
        number, *arguments = file.read().split()
    return number in ("98", "202") and int(arguments[1], 16) & 127 == 9
def echo(end, lock):
    with lock:
        end.send(end.recv() + 1)
if __name__ == "__main__":
    mp.set_start_method("fork")
    ours, theirs = mp.Pipe()
    lock = mp.Lock()
    lock.acquire()
    child = mp.Process(target=echo, args=(theirs, lock))
    child.start()
    while not waits_for_a_futex(child.pid):
        time.sleep(0.001)
    lock.release()
    ours.send(1)
    print(ours.recv())
    child.join()
"""
    run = follow(tmp_path, source)
    assert run.stdout == "2\n"
    edges = run.edges()
    assert edges["LOCK", run.line("lock.release()"), run.line("with lock:")] == 1
    assert edges["WAKE", run.line("ours.send(1)"), run.line("end.send(end.recv()")] == 1
    assert edges["WAKE", run.line("end.send(end.recv()"), run.line("print(ours.recv())")] == 1
    warnings = predict_threads(run.signature, library.find("epyc-9654"), [2])[0].warnings
    assert any(text.startswith("1 waits for locks are left out, at program.py:") for text in warnings)


ENDS = """
def fails(): raise ValueError("on purpose")
def exits(): sys.exit(7)
def is_killed(): os.kill(os.getpid(), signal.SIGKILL)
def goes_on(): time.sleep(600)
if __name__ == "__main__":
    mp.set_start_method("fork")
    found = []
    for function in (fails, exits, is_killed):
        child = mp.Process(target=function)
        child.start()
        child.join()
        found.append(child.exitcode)
    mp.Process(target=goes_on, daemon=True).start()
    print(found)
    sys.exit(9)
"""


def test_endings_are_the_programs_own(tmp_path: Path) -> None:
    run = follow(tmp_path, ENDS)
    untraced = alone(run)
    assert (run.returncode, run.stdout) == (untraced.returncode, untraced.stdout) == (9, "[1, 7, -9]\n")
    assert "ValueError: on purpose" in run.stderr
    assert run.stderr.count("Traceback") == untraced.stderr.count("Traceback")
    codes = [(process.exit_code, process.signal) for process in run.processes]
    assert codes[:4] == [(9, None), (1, None), (7, None), (None, 9)]
    assert run.signature.provenance.complete


def test_programs_that_are_started(tmp_path: Path) -> None:
    source = """
for command in (["sh", "-c", "exit 4"], [sys.executable, "-S", "-c", "sum(range(9)); raise SystemExit(5)", "x"],
                [sys.executable, "-"], [sys.executable, __file__ + ".none"]):
    print(subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode, flush=True)
show = "import sys; print(sys.argv, sys.orig_argv[1:], sys.path[0])"
print(subprocess.run([sys.executable, "-Ic", show, "a", "-b"], capture_output=True, text=True).stdout)
"""
    run = follow(tmp_path, source)
    assert run.stdout.splitlines()[:4] == ["4", "5", "0", "2"]
    shown, expected = run.stdout.splitlines()[4], alone(run).stdout.splitlines()[4]
    assert shown.replace("'-I', '-c'", "'-Ic'") == expected
    by_command = {process.command[:1] + process.command[1:2]: process for process in run.processes[1:]}
    shell = by_command["sh", "-c"]
    assert (shell.followed, shell.exit_code, shell.problem) == (False, 4, "not followed: another program")
    python = by_command[sys.executable, "-S"]
    assert (python.followed, python.exit_code) == (True, 5)
    assert by_command[sys.executable, "-"].followed is False
    assert run.signature.provenance.untraced_children == 3  # that without a script has run alone, too


def test_a_program_that_becomes_another(tmp_path: Path) -> None:
    source = """
if len(sys.argv) == 1:
    work(20)
    os.execv(sys.executable, [sys.executable, __file__, "again"])
print(work(30), sys.argv[1:])
sys.exit(3)
"""
    run = follow(tmp_path, source)
    assert (run.returncode, run.stdout) == (3, "8555 ['again']\n")
    assert run.iterations("work") == [50]
    assert run.signature.provenance.complete, run.signature.provenance.incomplete_reason
    (tmp_path / "other").mkdir()
    other = follow(tmp_path / "other", "os.execvp('echo', ['echo', 'hi'])\n")
    assert other.stdout == "hi\n"
    assert not other.signature.provenance.complete
    assert "replaced itself by echo" in other.signature.provenance.incomplete_reason


@pytest.mark.parametrize("core", ["markers", "settrace"])
def test_forks_of_the_programs_own(core: str, tmp_path: Path) -> None:
    source = """
def main():
    work(10)
    if os.fork() == 0:
        work(100)
        if os.fork() == 0:
            work(1000)
            os._exit(2)
        os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
    print(os.waitstatus_to_exitcode(os.wait()[1]), work(10))
main()
"""
    script = tmp_path / "program.py"
    script.write_text(WORK + source)
    command = [*TRACE, "-o", "p.sig", "--python-core", core, "--follow-children", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "2 285\n"
    signature = read_signature(tmp_path / "p.sig")
    (loop,) = [loop for loop in signature.loops if loop.function == "work"]
    assert (loop.iterations, loop.entries) == (1120, 4)
    assert [process.parent for process in signature.provenance.processes] == [0, 0, 1]
    assert [process.exit_code for process in signature.provenance.processes] == [0, 2, 2]


def test_an_interrupt_ends_all(tmp_path: Path) -> None:
    script, signature = tmp_path / "program.py", tmp_path / "program.sig"
    script.write_text(
        WORK
        + "if os.fork() == 0:\n    print('ready', flush=True)\n    while True:\n        time.sleep(0.01)\nos.wait()\n"
    )
    command = [*TRACE, "-o", str(signature), "--follow-children", str(script)]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate()
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in stderr
    assert signature.exists()
    assert read_signature(signature).provenance.signal == signal.SIGINT


def test_a_child_that_outlives_the_program_goes_on(tmp_path: Path) -> None:
    source = """
if os.fork() == 0:
    for descriptor in range(3):
        os.close(descriptor)
    while not os.path.exists("go on"):
        time.sleep(0.01)
    open("done", "w").write("yes")
    os._exit(0)
print(work(10))
"""
    run = follow(tmp_path, source)
    assert (run.returncode, run.stdout) == (0, "285\n")
    assert not run.signature.provenance.complete
    assert "still running when the first program ended" in run.signature.provenance.incomplete_reason
    (tmp_path / "go on").touch()
    wait_until((tmp_path / "done").exists)


def test_processes_run_beside_each_other_in_the_replay(tmp_path: Path) -> None:
    """Two processes, each with an interpreter: on two cores the time of one, on one core twice that."""
    source = """
if __name__ == "__main__":
    mp.set_start_method("fork")
    children = [mp.Process(target=work, args=(200_000,)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
"""
    run = follow(tmp_path, source)
    profile = library.find("epyc-9654")
    two, one = (replay_on(run.signature, profile, cores=cores) for cores in (2, 1))
    waking, _ = waking_of(profile)
    assert one.outcome.work_s <= one.makespan_s <= one.outcome.work_s + 2 * waking.latency_s, (
        "at most a wait for each child"
    )
    first_s, *children_s = two.outcome.busy_s.tolist()
    assert len(children_s) == 2
    assert max(children_s) <= two.makespan_s <= (max(children_s) + first_s) * (1 + 1e-9)
    assert not [resource for resource in two.resources if resource.kind == "interpreter"]
    (both,) = predict_threads(run.signature, profile, [2])
    assert both.scaling is not None
    # the children's times were measured, and other work may have made one of them the longer
    assert both.scaling.speedup >= 0.95 * sum([first_s, *children_s]) / (max(children_s) + first_s)
    kinds = {edge.kind for edge in run.signature.tree.synchronisation} if run.signature.tree else set()
    assert {SynchronisationKind.CREATE, SynchronisationKind.JOIN} <= kinds


def test_a_pools_calls_are_divided_among_any_number(tmp_path: Path) -> None:
    run = follow(tmp_path, POOL.replace("[100] * 10", "[200_000] * 12"), "fork")
    profile = library.find("epyc-9654")
    one, two, four = predict_threads(run.signature, profile, [1, 2, 4])
    assert one.time_s > two.time_s > four.time_s
    assert two.scaling is not None
    assert 1.3 < two.scaling.speedup <= 2.0


def test_a_process_that_became_another_is_one(tmp_path: Path) -> None:
    source = "if len(sys.argv) == 1:\n    os.execv(sys.executable, [sys.executable, __file__, 'again'])\nwork(30)\n"
    run = follow(tmp_path, source)
    assert [process.pid for process in run.processes] == [run.processes[0].pid] * 2
    (one,) = predict_threads(run.signature, library.find("epyc-9654"), [1])
    assert not [warning for warning in one.warnings if "processes" in warning]
