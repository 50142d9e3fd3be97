"""Gathers, scatters and pointer chasing in compiled programs, at every level of optimisation, for every architecture.

The comments in the source say what is to be found on their lines: G a gather, S a scatter, C pointer chasing. The lines
without are not to have any: that is tested just as much.
"""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from effort import sweep

from foretrace.tracer.analysis.machine_code import binary_analysis
from foretrace.tracer.analysis.result import Analysis
from foretrace.tracer.qemu.binary import QemuEngine
from foretrace.tracer.session.session import Session
from foretrace.tracer.signature.records import AddressRange, IdiomKind, merge_ranges

SOURCE = r"""
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#define N 512
#define KERNEL __attribute__((noinline))
struct node { struct node *next; long value; };
struct particle { double x, y, z; int cell, type; };
struct grid { double *values; const int *order; int n; };
static int table[64];
static double lookup[N];
static int counter;

KERNEL void copy(double *b, const double *a, int n)
{
    for (int i = 0; i < n; i++)
        b[i] = a[i];
}
KERNEL void gather(double *b, const double *a, const int *idx, int n)
{
    for (int i = 0; i < n; i++)
        b[i] = a[idx[i]]; /* G */
}
KERNEL void scatter(double *a, const double *b, const int *idx, int n)
{
    for (int i = 0; i < n; i++)
        a[idx[i]] = b[i]; /* S */
}
KERNEL void gather_with_offset(double *b, const double *a, const long *idx, int n)
{
    for (int i = 0; i < n; i++)
        b[i] = a[idx[i] + 3]; /* G */
}
KERNEL void gather_computed(double *b, const double *a, const unsigned *key, int n)
{
    for (int i = 0; i < n; i++)
        b[i] = a[(key[i] * 2654435761u) >> 23]; /* G */
}
KERNEL void histogram(const unsigned char *s, int n)
{
    for (int i = 0; i < n; i++)
        table[s[i] & 63]++; /* G S */
}
KERNEL double sparse(double *y, const double *v, const int *col, const int *row, const double *x, int rows)
{
    double total = 0;
    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int j = row[r]; j < row[r + 1]; j++)
            sum += v[j] * x[col[j]]; /* G */
        y[r] = sum;
        total += sum;
    }
    return total;
}
KERNEL long chase(const struct node *p)
{
    long s = 0;
    while (p) {
        s += p->value;
        p = p->next; /* C */
    }
    return s;
}
KERNEL int chase_index(const int *next, int start, int n)
{
    int s = 0;
    for (int i = 0; i < n; i++) {
        start = next[start]; /* C */
        s += start;
    }
    return s;
}
KERNEL void stencil(double *b, const double *a, int n)
{
    for (int i = 1; i < n - 1; i++)
        b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3;
}
KERNEL double matrix(double **m, int rows, int cols)
{
    double s = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            s += m[i][j];
    return s;
}
KERNEL double particles(struct particle *p, const double *field, double *charge, int n)
{
    double e = 0;
    for (int i = 0; i < n; i++) {
        e += field[p[i].cell] * p[i].x; /* G */
        charge[p[i].cell] += p[i].y; /* G S */
    }
    return e;
}
KERNEL double through_a_struct(const struct grid *g)
{
    double s = 0;
    for (int i = 0; i < g->n; i++)
        s += g->values[g->order[i]]; /* G */
    return s;
}
KERNEL double two_levels(const double *a, const int *b, const int *c, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++)
        s += a[b[c[i]]]; /* G G */
    return s;
}
KERNEL void random_updates(unsigned long *t, int n)
{
    unsigned long r = 1;
    for (int i = 0; i < n; i++) {
        r = (r << 1) ^ ((long)r < 0 ? 7 : 0);
        t[r & (N - 1)] ^= r;
    }
}
KERNEL int count(const int *a, int n)
{
    for (int i = 0; i < n; i++)
        if (a[i] > 3)
            counter++;
    return counter;
}
KERNEL double from_a_global(const short *s, int n)
{
    double t = 0;
    for (int i = 0; i < n; i++)
        t += lookup[s[i]]; /* G */
    return t;
}
KERNEL int binary_search(const int *a, int n, int key)
{
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (a[mid] < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}
KERNEL void merge(int *out, const int *a, const int *b, int n)
{
    int i = 0, j = 0;
    for (int k = 0; k < 2 * n; k++)
        out[k] = j >= n || (i < n && a[i] <= b[j]) ? a[i++] : b[j++];
}
KERNEL unsigned checksum(const unsigned *t, const unsigned char *s, int n)
{
    unsigned c = ~0u;
    for (int i = 0; i < n; i++)
        c = t[(c ^ s[i]) & 255] ^ (c >> 8); /* C */
    return c;
}
KERNEL int interpret(const unsigned char *code, int n)
{
    int acc = 0;
    for (int i = 0; i < n; i++)
        switch (code[i] & 7) {
        case 0: acc += 3; break;
        case 1: acc ^= 5; break;
        case 2: acc -= 7; break;
        case 3: acc *= 3; break;
        case 4: acc |= 9; break;
        case 5: acc &= 0xffff; break;
        case 6: acc <<= 1; break;
        case 7: acc >>= 1; break;
        }
    return acc;
}
KERNEL void copy_pieces(char *d, const char *s, int n)
{
    for (int i = 0; i < n; i++)
        memcpy(d + 8 * i, s + 8 * i, 8);
}
KERNEL float gather_floats(const float *a, const int *idx, int n)
{
    float s = 0;
    for (int i = 0; i < n; i++)
        s += a[idx[i]]; /* G */
    return s;
}
KERNEL void transpose(double *b, const double *a, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            b[j * n + i] = a[i * n + j];
}
int main(void)
{
    double *a = calloc(N, 8), *b = calloc(N, 8), *c = calloc(N, 8), *m[16];
    float *f = calloc(N, 4);
    int *idx = calloc(N, 4), row[33];
    long *far = calloc(N, 8);
    short *near = calloc(N, 2);
    unsigned char *s = calloc(N, 1);
    unsigned *t = calloc(256, 4);
    unsigned long *u = calloc(N, 8);
    struct node *nodes = calloc(N, sizeof *nodes);
    struct particle *p = calloc(N, sizeof *p);
    for (int i = 0; i < N; i++) {
        a[i] = i, b[i] = 2 * i, f[i] = i, lookup[i] = i;
        idx[i] = i * 167 % N, far[i] = i * 91 % (N - 3), near[i] = i * 31 % N, s[i] = i * 37;
        nodes[i].next = &nodes[(i + 167) % N], nodes[i].value = i;
        p[i].cell = i * 13 % N, p[i].x = i;
    }
    nodes[N - 167].next = 0;
    for (int i = 0; i < 256; i++)
        t[i] = i * 2654435761u;
    for (int i = 0; i < 33; i++)
        row[i] = i * 15;
    for (int i = 0; i < 16; i++)
        m[i] = (i & 1 ? a : b) + 16 * i;
    struct grid g = {a, idx, N};
    int n = N;
    double r = 0;
    copy(c, a, n), gather(b, a, idx, n), scatter(c, b, idx, n), gather_with_offset(b, a, far, n);
    gather_computed(b, a, t, 256), histogram(s, n), r += sparse(c, a, idx, row, b, 32), r += chase(nodes);
    r += chase_index(idx, 1, n), stencil(c, a, n), r += matrix(m, 16, 16), r += particles(p, a, c, n);
    r += through_a_struct(&g), r += two_levels(a, idx, idx, n), random_updates(u, n), r += count(idx, n);
    r += from_a_global(near, n);
    for (int i = 0; i < 20; i++)
        r += binary_search(idx, n, i * 9);
    merge((int *)c, idx, idx, n / 2), r += checksum(t, s, n), r += interpret(s, n);
    copy_pieces((char *)c, (char *)a, n), r += gather_floats(f, idx, n), transpose(c, a, 16);
    return r == 0;
}
"""
BUILDS = [
    ("x86_64", "-O0"), ("x86_64", "-O0", "-static"), ("x86_64", "-O1", "-static"), ("x86_64", "-O2"),
    ("x86_64", "-O2", "-static"), ("x86_64", "-O2", "-no-pie", "-static"), ("x86_64", "-O3", "-static"),
    ("x86_64", "-O3", "-march=haswell", "-static"),
    ("aarch64", "-O0"), ("aarch64", "-O1", "-static"), ("aarch64", "-O2"), ("aarch64", "-O3", "-static"),
    ("riscv64", "-O0", "-static"), ("riscv64", "-O1"), ("riscv64", "-O2", "-static"), ("riscv64", "-O3", "-static"),
]  # fmt: skip


def expected(letters: str) -> dict[int, str]:
    """Line -> the letters of its comment, sorted, among those asked for."""
    found = {}
    for line, text in enumerate(SOURCE.splitlines(), 1):
        comment = re.search(r"/\* ([GSC ]+) \*/", text)
        marks = "".join(sorted(mark for mark in (comment[1] if comment else "") if mark in letters))
        if marks:
            found[line] = marks
    return found


@pytest.fixture(scope="module")
def analysed(compile_c: Callable[..., Path]) -> Callable[..., Analysis]:
    """A function that compiles the source for a target with flags, traces it, and analyses the trace."""
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("qemu-user is not installed")

    @cache
    def analyse(target: str, *flags: str) -> Analysis:
        program = compile_c(SOURCE, *flags, target=target)
        recording = Session(QemuEngine([str(program)])).run()
        assert recording.problem == ""
        return binary_analysis.analyse(recording.raw, recording.statistics, target)

    return analyse


SHORT = [("x86_64", "-O0", "-static"), ("x86_64", "-O2"), ("aarch64", "-O2"), ("riscv64", "-O2", "-static")]
"""Each instruction set, and what is linked statically and not, optimised and not."""
pytestmark = sweep("build", BUILDS, SHORT, ids=" ".join)
Analysed = Callable[..., Analysis]


def is_ours(file: str) -> bool:
    return Path(file).name.startswith("program") and file.endswith(".c")


def test_gathers_and_scatters(analysed: Analysed, build: tuple[str, ...]) -> None:
    found = defaultdict(str)
    for idiom in analysed(*build).idioms:
        if is_ours(idiom.file) and idiom.kind.is_indirect:
            found[idiom.line] += {IdiomKind.GATHER: "G", IdiomKind.SCATTER: "S"}[idiom.kind]
    assert {line: "".join(sorted(marks)) for line, marks in found.items()} == expected("GS")


def test_pointer_chasing(analysed: Analysed, build: tuple[str, ...]) -> None:
    operations = analysed(*build).operations
    found = {op.line for op in operations if op.self_dependent and is_ours(op.file)}
    assert found == set(expected("C"))


def test_ranges_and_executions(analysed: Analysed, build: tuple[str, ...]) -> None:
    """The gather of `gather` touches all of a, each element once, and its index is the load of idx on the same line."""
    analysis = analysed(*build)
    line = next(n for n, text in enumerate(SOURCE.splitlines(), 1) if "b[i] = a[idx[i]];" in text)
    (idiom,) = (
        idiom for idiom in analysis.idioms if is_ours(idiom.file) and idiom.line == line and idiom.kind.is_indirect
    )
    operations = [analysis.operations[operation] for operation in idiom.operations]
    assert sum(operation.executions for operation in operations) == 512
    (whole,) = merge_ranges(AddressRange(op.first, op.last_exclusive) for op in operations)
    assert whole.range_bytes == 512 * 8
    indices = [analysis.operations[operation] for operation in idiom.index_operations]
    assert sum(index.total_bytes for index in indices) == 512 * 4
    assert {index.line for index in indices} == {line}
    assert all(operation.index_operation in idiom.index_operations for operation in operations)
    assert not any(operation.is_store for operation in operations)
    assert analysis.loops[idiom.loop_id].function == "gather"


def test_loops_have_the_lines_of_their_statements(analysed: Analysed, build: tuple[str, ...]) -> None:
    text = SOURCE.splitlines()
    loops = [loop for loop in analysed(*build).loops if is_ours(loop.file) and not loop.caller]
    assert len({loop.line for loop in loops}) >= 25
    for loop in loops:
        assert re.search(r"\b(for|while)\b", text[loop.line - 1]), (loop.function, loop.line)


def test_loops_have_the_counts_of_the_source(analysed: Analysed, build: tuple[str, ...]) -> None:
    """Where nothing is unrolled or vectorised, iterations are those written; the test at the top makes one more."""
    if "-O3" in build:
        pytest.xfail("vectorised and unrolled loops take fewer iterations")
    loops = {(loop.function, loop.depth): loop for loop in analysed(*build).loops if is_ours(loop.file)}
    for function, depth, entries, iterations in [
        ("gather", 1, 1, 512), ("sparse", 1, 1, 32), ("sparse", 2, 32, 480), ("matrix", 2, 16, 256),
        ("transpose", 1, 1, 16), ("transpose", 2, 16, 256), ("chase_index", 1, 1, 512), ("interpret", 1, 1, 512),
    ]:  # fmt: skip
        loop = loops[function, depth]
        assert loop.entries == entries
        assert loop.iterations - iterations in (0, entries), (function, depth)


def test_everything_was_decoded(analysed: Analysed, build: tuple[str, ...]) -> None:
    analysis = analysed(*build)
    assert analysis.decoded_share == 1.0
    assert [note for note in analysis.notes if "DC ZVA" not in note] == []  # what the C library's memset may use
