"""Data flow of traced programs, whose bytes follow from their sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from traces import trace_binary, trace_python

from foretrace.base.errors import SignatureError
from foretrace.tracer.analysis.data_flow.verdicts import Verdict, verdicts
from foretrace.tracer.signature.data_flow_records import OUTSIDE, DataFlow, ObjectKind
from foretrace.tracer.signature.file import read_signature, write_signature
from foretrace.tracer.signature.records import Signature
from foretrace.tracer.signature.tree_records import TreeNodeKind

PRODUCERS = """
#define N 1000
double a[N], b[N];
float narrow[N];
int main(void) {
    double sum = 0;
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < N; i++) a[i] = i * 2.0;              /* line 8 */
        for (int i = 0; i < N / 2; i++) b[i] = a[i] + 1;         /* line 9 */
        for (int i = 0; i < N; i++) narrow[i] = (float)a[i];     /* line 10 */
        for (int i = 0; i < N; i++) sum += a[i] * b[i];          /* line 11 */
        for (int i = 0; i < N; i += 2) sum += narrow[i];         /* line 12 */
    }
    return sum > 0 ? 0 : 1;
}
"""

STENCIL = """
#define N 512
#define T 5
double a[N], b[N];
int main(void) {
    for (int i = 0; i < N; i++) a[i] = i;                        /* line 6 */
    for (int t = 0; t < T; t++) {
        for (int i = 1; i < N - 1; i++) b[i] = a[i - 1] + a[i] + a[i + 1]; /* line 8 */
        for (int i = 1; i < N - 1; i++) a[i] = b[i] * 0.25;      /* line 9 */
    }
    double sum = 0;
    for (int i = 0; i < N; i++) sum += a[i];                     /* line 12 */
    return sum > 0 ? 0 : 1;
}
"""

PRODUCT = """
#define N 300
int row[N + 1], column[3 * N];
double value[3 * N], x[N], y[N];
__attribute__((noinline)) void multiply(void) {
    for (int i = 0; i < N; i++) {                                /* line 6 */
        double sum = 0;
        for (int k = row[i]; k < row[i + 1]; k++)                /* line 8 */
            sum += value[k] * x[column[k]];
        y[i] = sum;
    }
}
int main(void) {
    for (int i = 0; i <= N; i++) row[i] = 3 * i;                 /* line 14 */
    for (int k = 0; k < 3 * N; k++) column[k] = (7 * k) % N;     /* line 15 */
    for (int k = 0; k < 3 * N; k++) value[k] = k;                /* line 16 */
    for (int i = 0; i < N; i++) x[i] = 1;                        /* line 17 */
    double sum = 0;
    for (int r = 0; r < 4; r++) {
        multiply();
        for (int i = 0; i < N; i++) sum += y[i];                 /* line 21 */
    }
    return sum > 0 ? 0 : 1;
}
"""

Flows = Counter[tuple[int, tuple[int, ...]]]


def flow_of(signature: Signature) -> DataFlow:
    assert signature.data_flow is not None
    return signature.data_flow


def between_lines(signature: Signature, file: str, lines: Sequence[int]) -> Flows:
    """Bytes from the loops and array operations of some lines of a file to others of them."""
    flow, tree = flow_of(signature), signature.tree
    assert tree is not None
    line = {
        node: key.line
        for node, key in enumerate(tree.keys)
        if key.file.endswith(file) and key.line in lines and tree.kind[node] != TreeNodeKind.CALL
    }
    found: Flows = Counter()
    for writer, readers, num_bytes in zip(
        flow.flow_writer.tolist(), flow.flow_readers.tolist(), flow.flow_bytes.tolist(), strict=True
    ):
        nodes = flow.set_nodes[flow.set_starts[readers] : flow.set_starts[readers + 1]].tolist()
        into = tuple(sorted({line[node] for node in nodes if node in line} - {line.get(writer, 0)}))
        if writer in line and into:
            found[line[writer], into] += round(num_bytes)
    return found


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2"])
def test_producers_and_consumers(level: str, compile_c: Callable[..., Path]) -> None:
    program = compile_c(PRODUCERS, level, "-g")
    signature = trace_binary([str(program)]).signature
    flow = between_lines(signature, f"{program.name}.c", range(8, 13))
    flow = Counter({pair: num_bytes for pair, num_bytes in flow.items() if num_bytes > 100})  # not of counters
    assert flow == {(8, (9, 10, 11)): 12000, (8, (10, 11)): 12000, (9, (11,)): 12000, (10, (12,)): 6000}
    assert flow_of(signature).sampled_share == 1
    assert flow_of(signature).relative_error == 0


@pytest.mark.parametrize("level", ["-O0", "-O1"])
def test_a_pair_of_stencils(level: str, compile_c: Callable[..., Path]) -> None:
    program = compile_c(STENCIL, level, "-g", "-fno-tree-loop-distribute-patterns")
    flow = between_lines(trace_binary([str(program)]).signature, f"{program.name}.c", (6, 8, 9, 12))
    inner = 510 * 8
    assert flow == {(6, (8, 12)): 16, (6, (8,)): inner, (8, (9,)): 5 * inner, (9, (8,)): 4 * inner, (9, (12,)): inner}


@pytest.mark.parametrize("level", ["-O0", "-O1"])
def test_a_sparse_product(level: str, compile_c: Callable[..., Path], tmp_path: Path) -> None:
    program = compile_c(PRODUCT, level, "-g", "-fno-tree-vectorize")
    signature = trace_binary([str(program)]).signature
    flow = between_lines(signature, f"{program.name}.c", (6, 8, 14, 15, 16, 17, 21))
    rows = sum(num_bytes for (writer, _), num_bytes in flow.items() if writer == 14)
    assert rows == 301 * 4
    by_inner = {(6, (8,)), (8, (6,))}  # counter and sum of -O0
    expected = {(15, (8,)): 900 * 4, (16, (8,)): 900 * 8, (17, (8,)): 300 * 8, (6, (21,)): 4 * 300 * 8}
    assert {pair: num_bytes for pair, num_bytes in flow.items() if pair[0] != 14 and pair not in by_inner} == expected
    write_signature(signature, tmp_path / "s.sig")
    read = flow_of(read_signature(tmp_path / "s.sig"))
    for name in DataFlow.__slots__:
        assert str(getattr(read, name)) == str(getattr(flow_of(signature), name))


CHILDREN = """
#include <sys/wait.h>
#include <unistd.h>
#define N 1000
double a[N], b[N];
int main(void) {
    double sum = 0;
    for (int i = 0; i < N; i++) a[i] = i;                        /* line 8 */
    if (fork() == 0) {
        for (int i = 0; i < N; i++) b[i] = a[i];                 /* line 10 */
        for (int i = 0; i < N / 2; i++) sum += b[i];             /* line 11 */
        _exit(sum < 0);
    }
    wait(0);
    for (int i = 0; i < N / 4; i++) sum += a[i] + b[i];          /* line 15 */
    return sum < 0;
}
"""

THREADS = """
#include <pthread.h>
#define N 1000
double a[N], b[N];
static void *fill(void *p) {
    for (int i = 0; i < N; i++) a[i] = i;                        /* line 6 */
    return p;
}
static void *copy(void *p) {
    for (int i = 0; i < N / 2; i++) b[i] = a[i];                 /* line 10 */
    return p;
}
int main(void) {
    pthread_t thread;
    double sum = 0;
    pthread_create(&thread, 0, fill, 0);
    pthread_join(thread, 0);
    pthread_create(&thread, 0, copy, 0);
    pthread_join(thread, 0);
    for (int i = 0; i < N; i++) sum += b[i];                     /* line 20 */
    return sum < 0;
}
"""


def test_children_have_memory_of_their_own(compile_c: Callable[..., Path]) -> None:
    """What the parent wrote is from outside for the child, and what the child wrote never reaches the parent."""
    program = compile_c(CHILDREN, "-O1", "-g", "-fno-tree-loop-distribute-patterns")
    signature = trace_binary([str(program)], follow_children=True).signature
    flow = between_lines(signature, f"{program.name}.c", (8, 10, 11, 15))
    assert flow == {(8, (15,)): 2000, (10, (11,)): 4000}
    tree = signature.tree
    assert tree is not None
    (copies,) = (n for n, key in enumerate(tree.keys) if key.line == 10 and key.file.endswith(f"{program.name}.c"))
    is_read = flow_of(signature).sets_with(np.arange(len(tree.keys)) == copies)[flow_of(signature).flow_readers]
    from_outside = is_read & (flow_of(signature).flow_writer == OUTSIDE)
    assert flow_of(signature).flow_bytes[from_outside].sum() == 8000


def test_threads_share_memory(compile_c: Callable[..., Path]) -> None:
    program = compile_c(THREADS, "-O1", "-g", "-pthread", "-fno-tree-loop-distribute-patterns")
    flow = between_lines(trace_binary([str(program)]).signature, f"{program.name}.c", (6, 10, 20))
    assert flow == {(6, (10,)): 4000, (10, (20,)): 4000}


def test_static_variables_are_objects(compile_c: Callable[..., Path]) -> None:
    flow = flow_of(trace_binary([str(compile_c(PRODUCT, "-O1", "-g"))]).signature)
    touched: Counter[tuple[str, int]] = Counter()
    for number, num_bytes in zip(flow.touched_object.tolist(), flow.touched_bytes.tolist(), strict=True):
        one = flow.objects[number]
        if one.kind == ObjectKind.STATIC and one.name in ("row", "column", "value", "x", "y"):
            touched[one.name, one.last_exclusive - one.first] += num_bytes
    sizes = {"row": 301 * 4, "column": 900 * 4, "value": 900 * 8, "x": 300 * 8, "y": 300 * 8}
    assert touched == {(name, size): size for name, size in sizes.items()}


ARRAYS = """
import numpy as np
a = np.arange(1000.0)
for step in range(3):
    b = a * 2.0
    c = b[:500] + 1.0
    s = c.sum()
    t = np.take(b, np.arange(0, 100))
"""


def test_arrays_of_python(tmp_path: Path) -> None:
    script = tmp_path / "arrays.py"
    script.write_text(ARRAYS)
    flow = between_lines(trace_python(str(script)).signature, "arrays.py", range(3, 9))
    assert flow[5, (6, 8)] == 3 * 800
    assert flow[5, (6,)] == 3 * 3200
    assert flow[6, (7,)] == 3 * 4000


def test_it_can_be_left_out(tmp_path: Path) -> None:
    script = tmp_path / "none.py"
    script.write_text("print(1)\n")
    assert trace_python(str(script), has_data_flow=False).signature.data_flow is None
    assert trace_python(str(script), has_tree=False).signature.data_flow is None
    assert OUTSIDE not in flow_of(trace_python(str(script)).signature).set_nodes


def test_crossing_and_footprint_by_brute_force(compile_c: Callable[..., Path]) -> None:
    signature = trace_binary([str(compile_c(PRODUCERS, "-O1", "-g"))]).signature
    flow, tree = flow_of(signature), signature.tree
    assert tree is not None
    generator = np.random.default_rng(2)
    used = np.isin(np.arange(len(tree.kind)), np.append(flow.set_nodes, flow.flow_writer))
    for share in (0.3, 0.5, 0.9):
        device = used & (generator.random(len(tree.kind)) < share)
        to_device = from_device = footprint = 0.0
        sets = [set(part.tolist()) for part in np.split(flow.set_nodes, flow.set_starts[1:-1])]
        there = set(np.flatnonzero(device).tolist())
        for writer, readers, num_bytes in zip(flow.flow_writer, flow.flow_readers, flow.flow_bytes, strict=True):
            if writer not in there and sets[readers] & there:
                to_device += num_bytes
            if writer in there and sets[readers] - there:
                from_device += num_bytes
        for touched_by, num_bytes in zip(flow.touched_by, flow.touched_bytes, strict=True):
            footprint += num_bytes if sets[touched_by] & there else 0
        assert flow.crossing_bytes(device) == (to_device, from_device)
        assert flow.footprint_bytes(device) == footprint
        assert to_device > 0


def test_impossible_data_flow(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    """What a file says is checked: each change alone makes it unreadable."""
    signature = trace_binary([str(compile_c(PRODUCERS, "-O1"))]).signature
    flow = flow_of(signature)
    for change in (
        {"flow_writer": flow.flow_writer + (1 << 20)},
        {"flow_readers": flow.flow_readers + (1 << 20)},
        {"flow_bytes": -flow.flow_bytes},
        {"flow_bytes": flow.flow_bytes[:-1]},
        {"touched_object": flow.touched_object + len(flow.objects)},
        {"set_nodes": flow.set_nodes + (1 << 20)},
        {"sampled_share": 0.0},
        {"relative_error": -1.0},
        {"flow_allocation": flow.flow_allocation + len(flow.allocations) + 1},
        {"flow_allocation": flow.flow_allocation[:-1]},
        {"flow_by_system": np.ones(len(flow.flow_bytes), np.bool_)},
        {"set_has_system": np.ones(len(flow.set_starts) - 1, np.bool_)},
        {"set_has_system": flow.set_has_system[:-1]},
        {"allocations": ()},
    ):
        bad = replace(signature, data_flow=replace(flow, **change))
        write_signature(bad, tmp_path / "bad.sig", force=True)
        with pytest.raises(SignatureError, match="impossible value"):
            read_signature(tmp_path / "bad.sig")


WINDOWS = """
#define N 60000
static double a[N], b[N];
static unsigned long state = 1;
__attribute__((noinline)) static void randomise(void) {
    for (int i = 0; i < N; i++) {                                /* line 6 */
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        a[i] = (double)(state >> 40);
    }
}
__attribute__((noinline)) static double sums(void) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += a[i] * b[i];              /* line 13 */
    return sum;
}
__attribute__((noinline)) static void scale(void) {
    for (int i = 0; i < N; i++) b[i] = a[i] * 0.5;               /* line 17 */
}
int main(void) {
    double sum = 0;
    for (int r = 0; r < 40; r++) {                               /* line 21 */
        randomise();
        scale();
        sum += sums();
    }
    return sum > 0 ? 0 : 1;
}
"""


def test_dependences_are_looked_for_in_windows_of_every_run(compile_c: Callable[..., Path]) -> None:
    """Some chunks of the stream, where each loop runs: fewer iterations, but the same is found in them."""
    program = compile_c(WINDOWS, "-O2", "-g", "-fno-tree-vectorize")
    found: list[dict[int, tuple[Verdict, int]]] = []
    for has_dependences in (False, True):
        signature = trace_binary([str(program)], (), has_dependences=has_dependences).signature
        assert signature.tree is not None
        keys = signature.tree.keys
        found.append({
            keys[one.node].line: (one.verdict, one.iterations)
            for one in verdicts(signature)
            if keys[one.node].file.endswith(".c") and keys[one.node].function != "main"
        })  # fmt: skip
    sampled, complete = found
    assert {line: verdict for line, (verdict, _) in complete.items()} == {
        6: Verdict.RECURRENCE, 13: Verdict.REDUCTION, 17: Verdict.NONE
    }  # fmt: skip
    assert {line: verdict for line, (verdict, _) in sampled.items()} == {
        line: verdict for line, (verdict, _) in complete.items()
    }
    for line, (_, iterations) in complete.items():
        assert iterations == 40 * 60000
        assert 2**13 < sampled[line][1] < iterations / 4
    assert not trace_binary([str(program)], (), has_data_flow=False).signature.examined_loops
