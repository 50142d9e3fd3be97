"""Times itself, by its own CPU time: what a block of Python costs, an access to a container, an array operation.

python_events.py RESULTS: writes JSON, a list of {name, kind, times}: seconds for one event, of several rounds.
"""

import array
import importlib
import json
import sys
import time
from pathlib import Path

ROUNDS = 7
N = 20_000
LINES = 10
"""Lines in the body of a loop below."""


def blocks(n):
    i = 0
    while i < n:
        i += 1
        a = i
        b = a
        c = b
        d = c
        e = d
        f = e
        g = f
        h = g
    return h


def call(n):
    for _ in range(n):
        nothing()


def nothing():
    pass


def load(c, n):
    for i in range(n):
        _ = (c[i], c[i], c[i], c[i], c[i], c[i], c[i], c[i], c[i], c[i])


def store(c, n, v):
    for i in range(n):
        c[i] = c[i] = c[i] = c[i] = c[i] = c[i] = c[i] = c[i] = c[i] = c[i] = v


def no_access(c, n):
    for _ in range(n):
        _ = c


def timed(function, *arguments):
    start = time.thread_time()
    function(*arguments)
    return time.thread_time() - start


def containers():
    yield "list", [1] * N, 2
    yield "array.array", array.array("d", [1.0]) * N, 2.0
    yield "bytearray", bytearray(N), 2
    yield "memoryview", memoryview(array.array("q", [1]) * N), 2
    try:
        import numpy as np
    except ImportError:
        return
    yield "ndarray", np.ones(N), 2.0


def imported(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def operations():
    """Operations on whole arrays, and how often to call each."""
    np, sparse = imported("numpy"), imported("scipy.sparse")
    if np is None:
        return
    random = np.random.default_rng(1)
    for n, calls in (1_000, 400), (10_000, 40), (100_000, 4):
        a, b, c = random.random(n), random.random(n), np.empty(n)
        shuffled, mask = random.permutation(n), random.random(n) < 0.5
        yield f"add, {n:,}", calls, lambda a=a, b=b, c=c: np.add(a, b, out=c)
        yield f"a + b * c, {n:,}", calls, lambda a=a, b=b, c=c: a + b * c
        yield f"sum, {n:,}", calls, lambda a=a: a.sum()
        yield f"copy of every second, {n:,}", calls, lambda a=a, c=c, n=n: np.copyto(c[: n // 2], a[::2])
        yield f"a[index], {n:,}", calls, lambda a=a, i=shuffled: a[i]
        yield f"a[mask], {n:,}", calls, lambda a=a, m=mask: a[m]
        square = a[: int(n**0.5) ** 2].reshape(int(n**0.5), -1)
        yield f"sum of rows, {n:,}", calls, lambda a=square: a.sum(axis=1)
        yield f"sum with neighbours, {n:,}", calls, lambda a=square: a[1:, 1:] + a[:-1, :-1]
        if sparse:
            matrix = sparse.random(n // 10, n // 10, min(1.0, 100 / n), "csr", rng=1)
            vector = random.random(n // 10)
            yield f"CSR product, {matrix.nnz:,}", calls, lambda m=matrix, v=vector: m @ v


def repeat(operation, calls):
    for _ in range(calls):
        operation()


def results():
    yield "block", "event", [timed(blocks, N) / (N * LINES) for _ in range(ROUNDS)]
    yield "call", "event", [timed(call, N) / N for _ in range(ROUNDS)]
    for name, container, value in containers():
        load(container, 100)
        store(container, 100, value)
        base = [timed(no_access, container, N) for _ in range(ROUNDS)]
        loads = [(timed(load, container, N) - b) / (10 * N) for b in base]
        stores = [(timed(store, container, N, value) - b) / (10 * N) for b in base]
        yield f"{name} load", "access", loads
        yield f"{name} store", "access", stores
    for name, calls, operation in operations():
        repeat(operation, 2)
        yield name, "bulk", [timed(repeat, operation, calls) / calls for _ in range(ROUNDS)]


names = ("name", "kind", "times")
report = [dict(zip(names, result, strict=True)) for result in results()]
Path(sys.argv[1]).write_text(json.dumps(report))
