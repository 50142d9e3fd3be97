"""Who creates, joins and wakes threads of Python programs, by both cores.

Programs let no thread be interrupted: each runs until it waits, so that the number of waits is that of their structure.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from traces import trace_python
from trees import tree_of

from foretrace.tracer.signature.tree_records import ExecutionTree, SynchronisationKind

CREATE, JOIN, WAKE, LOCK = SynchronisationKind

HEAD = """
import sys, threading
sys.setswitchinterval(1000)
"""

TURNS = """
def play(mine, other):
    for _ in range(20):
        mine.acquire()
        other.release()

first, second = threading.Semaphore(1), threading.Semaphore(0)
players = [threading.Thread(target=play, args=pair) for pair in ((first, second), (second, first))]
for player in players:
    player.start()
for player in players:
    player.join()
"""

CONTENDED = """
lock, recursive = threading.Lock(), threading.RLock()

def take():
    with lock:
        pass
    recursive.acquire()
    recursive.acquire(blocking=True, timeout=100)
    recursive.release()
    recursive.release()

lock.acquire()
recursive.acquire()
threads = [threading.Thread(target=take) for _ in range(2)]
for thread in threads:
    thread.start()
lock.release()
recursive.release()
for thread in threads:
    thread.join()
assert not lock.acquire(False) or lock.release() is None
assert lock.acquire(timeout=0.01) and not lock.acquire(timeout=0.01) and not lock.acquire(False)
"""

POOL = """
from concurrent.futures import ThreadPoolExecutor

def task(n):
    return sum(range(n))

with ThreadPoolExecutor(1) as pool:
    first = pool.submit(task, 10).result()
    second = [future.result() for future in [pool.submit(task, n) for n in range(5)]]
assert (first, second) == (45, [0, 0, 1, 3, 6])
"""

CREATED_BY_EACH_OTHER = """
def outer():
    inner = threading.Thread(target=print)
    inner.start()
    inner.join()

def begin():
    thread = threading.Thread(target=outer)
    thread.start()
    thread.join()

begin()
"""


def traced(program: str, core: str, directory: Path) -> ExecutionTree:
    script = directory / "script.py"
    script.write_text(HEAD + program)
    result = trace_python(str(script), (), core=core)  # type: ignore[arg-type]
    assert result.ending.exit_code == 0
    return tree_of(result.signature)


def counts(tree: ExecutionTree, kind: SynchronisationKind) -> dict[tuple[int, int], int]:
    found: Counter[tuple[int, int]] = Counter()
    for edge in tree.synchronisation:
        if edge.kind is kind:
            found[edge.source, edge.target] += edge.count
    return dict(found)


@pytest.mark.parametrize("core", ["markers", "settrace"])
def test_turns(core: str, tmp_path: Path) -> None:
    tree = traced(TURNS, core, tmp_path)
    assert [thread.parent for thread in tree.threads] == [-1, 0, 0]
    assert counts(tree, CREATE) == {(0, 1): 1, (0, 2): 1}
    assert counts(tree, JOIN) == {(1, 0): 1, (2, 0): 1}
    waits = counts(tree, WAKE)
    assert waits[1, 2] == waits[2, 1] == 19
    if core == "markers":  # the library's own functions are not told: waits are in the program's loop
        [edge] = [edge for edge in tree.synchronisation if edge.kind is WAKE and edge.source == 1]
        assert tree.keys[edge.source_node].function == tree.keys[edge.target_node].function == "play"
        assert (edge.source_line, edge.target_line) == (8, 7)


@pytest.mark.parametrize("core", ["markers", "settrace"])
def test_contended_locks(core: str, tmp_path: Path) -> None:
    """Both threads wait for a lock of the first one."""
    tree = traced(CONTENDED, core, tmp_path)
    locks = counts(tree, LOCK)
    assert sum(locks.values()) >= 2
    assert any(source == 0 for source, _ in locks)
    assert set(counts(tree, WAKE)) <= {(1, 0), (2, 0)}  # the first thread waits for others to start
    assert counts(tree, JOIN) == {(1, 0): 1, (2, 0): 1}


@pytest.mark.parametrize("core", ["markers", "settrace"])
def test_a_pool_of_threads(core: str, tmp_path: Path) -> None:
    tree = traced(POOL, core, tmp_path)
    assert counts(tree, CREATE) == {(0, 1): 1}
    assert counts(tree, JOIN) == {(1, 0): 1}
    waits = counts(tree, WAKE)
    assert waits[1, 0] >= 1  # for results
    assert waits[0, 1] >= 1  # for tasks


def test_threads_that_threads_create(tmp_path: Path) -> None:
    tree = traced(CREATED_BY_EACH_OTHER, "settrace", tmp_path)
    assert [thread.parent for thread in tree.threads] == [-1, 0, 1]
    assert counts(tree, JOIN) == {(1, 0): 1, (2, 1): 1}
