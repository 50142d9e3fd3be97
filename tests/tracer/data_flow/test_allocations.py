"""Allocations of traced programs, and what the system reads and writes of them."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from traces import trace_binary

from foretrace.tracer.signature.data_flow_records import DataFlow, ObjectKind
from foretrace.tracer.signature.file import read_signature, write_signature
from foretrace.tracer.signature.records import Signature

N = 4000
BUFFERS = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#define N 4000
double table[500];
int main(int argc, char **argv) {
    double *a = malloc(N * sizeof *a);                           /* line 9 */
    double *b = calloc(N, sizeof *b);                            /* line 10 */
    double *m = mmap(0, N * sizeof *m, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* line 11 */
    for (int i = 0; i < N; i++) a[i] = i;
    for (int i = 0; i < 500; i++) table[i] = a[i];
    for (int r = 0; r < 3; r++) {
        double *t = malloc(1000 * sizeof *t);                    /* line 15 */
        for (int i = 0; i < 1000; i++) t[i] = a[i] + b[i];       /* line 16 */
        for (int i = 0; i < 1000; i++) m[i] = t[i] + table[i % 500]; /* line 17 */
        free(t);
    }
    int out = open("out", O_CREAT | O_RDWR, 0600);
    if (write(out, m, 6000) != 6000 || pread(out, a, 6000, 0) != 6000) return 1;
    double sum = 0;
    for (int i = 0; i < 500; i++) sum += a[i];                   /* line 23 */
    double *grown = realloc(b, 4 * N * sizeof *b);               /* line 24 */
    for (int i = 0; i < N; i++) sum += grown[i];
    return sum < 0;
}
"""


def flow_of(signature: Signature) -> DataFlow:
    assert signature.data_flow is not None
    return signature.data_flow


def numbers_by_line(flow: DataFlow) -> dict[int, int]:
    """The allocation of each line of main."""
    return {one.line: number for number, one in enumerate(flow.allocations) if one.function == "main"}


def touched(flow: DataFlow) -> Counter[int]:
    """Bytes touched of each allocation."""
    found: Counter[int] = Counter()
    for number, size in zip(flow.touched_object.tolist(), flow.touched_bytes.tolist(), strict=True):
        found[flow.objects[number].allocation] += round(size)
    return found


@pytest.mark.parametrize("target", ["x86_64", "aarch64", "riscv64"])
@pytest.mark.parametrize("static", [False, True])
def test_where_memory_was_allocated(
    target: str, static: bool, compile_c: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["-O1", "-g", "-fno-tree-loop-distribute-patterns", *(["-static"] if static else [])]
    signature = trace_binary([str(compile_c(BUFFERS, *options, target=target))]).signature
    flow = flow_of(signature)
    at, bytes_of = numbers_by_line(flow), touched(flow)
    kinds = {line: flow.allocations[at[line]].kind for line in (9, 10, 11, 15, 24)}
    assert kinds == {line: ObjectKind.MAPPED if line == 11 else ObjectKind.HEAP for line in kinds}
    assert [flow.allocations[at[line]].count for line in (9, 15)] == [1, 3]
    assert flow.allocations[at[15]].total_bytes == 3 * 8000
    assert bytes_of[at[9]] == N * 8
    assert bytes_of[at[11]] == 8000
    assert bytes_of[at[15]] == 8000
    (table,) = (number for number, one in enumerate(flow.allocations) if one.name == "table")
    assert flow.allocations[table].kind is ObjectKind.STATIC
    assert bytes_of[table] == 4000
    assert any(one.kind is ObjectKind.STACK for one in flow.allocations)

    reads, by_system, of = flow.set_has_system[flow.flow_readers], flow.flow_by_system, flow.flow_allocation
    assert flow.flow_bytes[reads & (of == at[11])].sum() == 6000
    assert flow.flow_bytes[by_system & (of == at[9])].sum() == 6000
    written_again = by_system & (of == at[9]) & (np.diff(flow.set_starts)[flow.flow_readers] == 1)
    assert flow.flow_bytes[written_again].sum() == 4000  # what line 23 reads

    write_signature(signature, tmp_path / "s.sig")
    read = flow_of(read_signature(tmp_path / "s.sig"))
    for name in DataFlow.__slots__:
        assert str(getattr(read, name)) == str(getattr(flow, name))


def test_released_memory_has_no_versions(compile_c: Callable[..., Path], monkeypatch, tmp_path: Path) -> None:
    """Each buffer of line 15 is written once and read once, though all three lie at one address."""
    monkeypatch.chdir(tmp_path)
    flow = flow_of(trace_binary([str(compile_c(BUFFERS, "-O1", "-g"))]).signature)
    mine = flow.flow_allocation == numbers_by_line(flow)[15]
    assert flow.flow_bytes[mine].tolist() == [3 * 8000]


def test_a_stripped_static_program_has_one_heap(compile_c: Callable[..., Path], monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    program = compile_c(BUFFERS, "-O1", "-static")
    subprocess.run(["strip", str(program)], check=True)
    flow = flow_of(trace_binary([str(program)]).signature)
    heaps = [number for number, one in enumerate(flow.allocations) if one.kind is ObjectKind.HEAP]
    assert [flow.allocations[number].function for number in heaps] == [""]
    assert touched(flow)[heaps[0]] >= N * 8 + 8000


def test_an_output_array_returns_from_a_device(compile_c: Callable[..., Path], monkeypatch, tmp_path: Path) -> None:
    """What only the system reads must be on the host."""
    monkeypatch.chdir(tmp_path)
    signature = trace_binary([str(compile_c(BUFFERS, "-O1", "-g"))]).signature
    flow, tree = flow_of(signature), signature.tree
    assert tree is not None
    device = np.array([key.line == 17 and key.file.endswith(".c") for key in tree.keys])
    _, back = flow.crossing_bytes(device)
    assert back == 6000


def test_without_data_flow_nothing_is_told(compile_c: Callable[..., Path], monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert trace_binary([str(compile_c(BUFFERS, "-O1"))], has_data_flow=False).signature.data_flow is None


SHRINKS = """
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>
#define BYTES 65536
int main(void) {
    double sum = 0, *heap = sbrk(BYTES);
    for (int i = 0; i < BYTES / 8; i++) heap[i] = i;             /* line 8 */
    sbrk(-BYTES);
    heap = sbrk(BYTES);
    for (int i = 0; i < BYTES / 8; i++) sum += heap[i];          /* line 11: what the system cleared */
    double *m = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < BYTES / 8; i++) m[i] = i;                /* line 13 */
    m = mremap(m, BYTES, BYTES / 2, 0);
    m = mremap(m, BYTES / 2, BYTES, MREMAP_MAYMOVE);
    for (int i = BYTES / 16; i < BYTES / 8; i++) sum += m[i];    /* line 16 */
    return sum < 0;
}
"""


def test_memory_given_back_and_taken_again_has_no_versions(
    compile_c: Callable[..., Path], monkeypatch, tmp_path
) -> None:
    monkeypatch.chdir(tmp_path)
    signature = trace_binary([str(compile_c(SHRINKS, "-O1", "-g"))]).signature
    flow, tree = flow_of(signature), signature.tree
    assert tree is not None
    line = {node: key.line for node, key in enumerate(tree.keys) if key.file.endswith(".c")}
    writer = np.array([line.get(int(node), 0) for node in flow.flow_writer])
    reads = [flow.sets_with(np.array([line.get(n) == at for n in range(len(tree.keys))])) for at in (11, 16)]
    for at, by in zip((8, 13), reads, strict=True):
        assert flow.flow_bytes[(writer == at)].sum() >= 32768
        assert not flow.flow_bytes[(writer == at) & by[flow.flow_readers]].sum()
