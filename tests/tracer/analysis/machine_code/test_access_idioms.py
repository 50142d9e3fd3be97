"""Streams, stencils, reductions and more in compiled programs, with and without symbols."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from effort import sweep
from traces import trace_binary

from foretrace.tracer.signature.records import IdiomKind, Signature, told_apart

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#define N 1200
#define KERNEL __attribute__((noinline))
struct node { struct node *next; double value[3]; };
KERNEL void copy(double *restrict b, const double *restrict a) {
    for (int i = 0; i < N; i++)
        b[i] = 2 * a[i];
}
KERNEL void every_third(double *b) {
    for (int i = 0; i < N; i += 3)
        b[i] = b[i] + 1;
}
KERNEL void neighbours(double *restrict b, const double *restrict a) {
    for (int i = 1; i < N - 1; i++)
        b[i] = a[i - 1] + a[i + 1];
}
KERNEL void swapped(double *a, double *b) {
    for (int step = 0; step < 4; step++) {
        for (int i = 1; i < N - 1; i++)
            b[i] = 0.5 * (a[i - 1] + a[i + 1]);
        double *other = a;
        a = b;
        b = other;
    }
}
KERNEL double total(const double *a) {
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += a[i];
    return sum;
}
KERNEL double largest(const double *a) {
    double most = a[0];
    for (int i = 1; i < N; i++)
        if (a[i] > most)
            most = a[i];
    return most;
}
KERNEL void filter(double *restrict b, const double *restrict a) {
    for (int i = 1; i < N; i++)
        b[i] = 0.75 * b[i - 1] + a[i];
}
KERNEL double horner(const double *a) {
    double value = 0;
    for (int i = 0; i < N; i++)
        value = value * 0.5 + a[i];
    return value;
}
KERNEL void turned(double *restrict b, const double *restrict a) {
    for (int i = 0; i < 30; i++)
        for (int j = 0; j < 40; j++)
            b[j * 30 + i] = a[i * 40 + j];
}
KERNEL void counts(int *bins, const int *at) {
    for (int i = 0; i < N; i++)
        bins[at[i]]++;
}
KERNEL void table(double *restrict b, const double *restrict curve, const unsigned char *in) {
    for (int i = 0; i < N; i++)
        b[i] = curve[in[i] & 31];
}
KERNEL double list(const struct node *at) {
    double sum = 0;
    while (at) {
        sum += at->value[0];
        at = at->next;
    }
    return sum;
}
int main(void) {
    static double a[N], b[N]; static int at[N], bins[500]; static unsigned char in[N]; static struct node nodes[N];
    for (int i = 0; i < N; i++) {
        a[i] = i % 17, at[i] = i * 7919 % 499, in[i] = (unsigned char)(i * 31);
        nodes[i * 7 % N].next = i + 1 < N ? &nodes[(i + 1) * 7 % N] : NULL;
    }
    copy(b, a); every_third(b); neighbours(b, a); swapped(a, b); filter(b, a); turned(b, a);
    counts(bins, at); table(b, a, in);
    printf("%g %g %g %g %d\n", total(b), largest(a), horner(a), list(nodes), bins[3]);
    return 0;
}
"""
EXPECTED = {
    "copy": {"stream"},
    "every_third": {"strided"},
    "neighbours": {"stencil"},
    "swapped": {"stencil"},
    "total": {"reduction"},
    "largest": {"reduction"},
    "filter": {"recurrence"},
    "horner": {"recurrence"},
    "turned": {"transpose"},
    "counts": {"gather-modify-scatter"},
    "table": {"table-lookup", "stream"},
    "list": {"pointer-chase", "reduction"},
}
OTHERS = {
    ("filter", "-O2"): {"recurrence", "stream"},  # the value that is handed on stays in a register
    ("filter", "-O3 -march=haswell"): {"recurrence", "stream"},
    ("neighbours", "-O2"): {"stream"},  # the second load of each vector is the first one of the next, in a register
    ("turned", "-O3 -march=haswell"): {"strided"},  # rows of ten at a time, turned by shuffles
}
"""What a compiler makes of it."""
LEVELS = ("-O0", "-O1", "-O2", "-O3 -march=haswell")
SHORT = ("-O0", "-O3 -march=haswell")


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory):
    """Signatures of the program, with symbols and stripped."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    directory = tmp_path_factory.mktemp("access_idioms")
    source = directory / "program.c"
    source.write_text(SOURCE)

    @cache
    def at(level: str) -> tuple[Signature, Signature]:
        binary = directory / level.replace(" ", "")
        bare = Path(f"{binary}-stripped")
        subprocess.run(["gcc", "-g", *level.split(), "-o", binary, source], check=True)
        subprocess.run(["strip", "-o", bare, binary], check=True)
        plain, stripped = (trace_binary([str(path)]).signature for path in (binary, bare))
        return plain, stripped

    return at


def kinds(signature: Signature, loops: set[int | None]) -> set[str]:
    return set(map(str, told_apart(IdiomKind(one.kind) for one in signature.idioms if one.loop_id in loops)))


@sweep("level", LEVELS, SHORT)
def test_idioms_with_symbols(traced, level: str) -> None:
    signature, _ = traced(level)
    for function, expected in EXPECTED.items():
        loops = {loop.loop_id for loop in signature.loops if loop.function == function}
        shown = kinds(signature, loops)
        assert shown == OTHERS.get((function, level), expected), function


@sweep("level", LEVELS, SHORT)
def test_a_stripped_binary_shows_the_same(traced, level: str) -> None:
    signature, bare = traced(level)
    for function in EXPECTED:
        loops = {loop.loop_id for loop in signature.loops if loop.function == function}
        offsets = {block.offset for block in signature.blocks if block.loop_id in loops}
        names = {loop.module for loop in signature.loops if loop.loop_id in loops}
        same = {
            block.loop_id for block in bare.blocks
            if block.offset in offsets and block.module.removesuffix("-stripped") in names
        } - {None}  # fmt: skip
        assert same
        assert kinds(bare, same) == kinds(signature, loops), function
