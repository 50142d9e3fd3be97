"""Times itself, by its own CPU time: what a block of Python costs, and a single access to a container.

python_events.py RESULTS: writes JSON, a list of {name, kind, times}: seconds for one event, of several rounds.
"""

import array
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


names = ("name", "kind", "times")
report = [dict(zip(names, result, strict=True)) for result in results()]
Path(sys.argv[1]).write_text(json.dumps(report))
