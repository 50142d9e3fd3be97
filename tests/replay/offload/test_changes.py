"""What would change the answer about a loop: colours, private copies, fewer launches, more work in each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from traces import trace_binary

from foretrace.base.units import format_seconds
from foretrace.profiles.library import find
from foretrace.replay.base.records import Answer, Instance, OffloadCost
from foretrace.replay.offload.changes import would_change
from foretrace.replay.offload.devices.device import Device
from foretrace.replay.offload.devices.evidence import Evidence, Parallel
from foretrace.replay.offload.devices.kernels import Candidate, Terms
from foretrace.replay.offload.reasons import Verdict
from foretrace.replay.offload.residency import Moved
from foretrace.replay.offload.triage import triage

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#define APART __attribute__((noinline))
APART void sweep(int n, const int *start, const int *col, const double *val, const double *b, double *x) {
    for (int i = 0; i < n; i++) {
        double sum = b[i];
        for (int k = start[i]; k < start[i + 1]; k++) sum -= val[k] * x[col[k]];
        x[i] += 0.1 * sum;
    }
}
APART void first(int n, double *a, const double *b) { for (int i = 0; i < n; i++) a[i] = 0.5 * b[i] + sqrt(b[i]); }
APART void second(int n, double *a, const double *b) { for (int i = 0; i < n; i++) a[i] += b[i] / (1.0 + b[i]); }
APART void bins(int n, int *count, const int *key) { for (int i = 0; i < n; i++) count[key[i]]++; }
APART void orbits(int n, double *at) {
    for (int i = 0; i < n; i++) {
        double x = at[i];
        for (int k = 0; k < 3000; k++) x = x * 0.999 + 1.0 / (1.0 + x);
        at[i] = x;
    }
}
int main(void) {
    int n = 10000, m = 0, *start = malloc(4 * (n + 1)), *col = malloc(20 * n), *key = malloc(4 * n);
    int *count = calloc(64, 4);
    double *val = malloc(40 * n), *b = malloc(8 * n), *x = calloc(n, 8), *y = calloc(n, 8);
    for (int i = 0; i < n; i++) {
        start[i] = m; b[i] = i % 7;
        int at[5] = {i - 100, i - 1, i, i + 1, i + 100};
        for (int j = 0; j < 5; j++) if (at[j] >= 0 && at[j] < n) { col[m] = at[j]; val[m++] = j == 2 ? 4 : -1; }
    }
    start[n] = m;
    for (int s = 0; s < 10; s++) sweep(n, start, col, val, b, x);
    for (int t = 0; t < 200; t++) { first(2000, y, x + 100); second(2000, x + 100, y); }
    for (int t = 0; t < 5; t++) orbits(3, b);
    for (int i = 0; i < n; i++) key[i] = (i * 7919u) % 61 % 4;
    for (int r = 0; r < 20; r++) bins(n, count, key);
    printf("%g %d\n", x[n / 2], count[3]);
    return 0;
}
"""


@pytest.fixture(scope="module")
def rows(compile_c: Callable[..., Path]) -> dict[str, Instance]:
    """By function, its outermost loop."""
    program = compile_c(PROGRAM, "-O2")
    signature = trace_binary([str(program)], has_dependences=True).signature
    machines = (find("epyc-9654"), find("h200-sxm-141gb"))
    places = {name: name for name in ("sweep", "first", "second", "bins", "orbits")}
    places["sweeps"] = f"{program.name}.c:{line_of('s < 10')}"
    return {name: triage(signature, *machines, explain=place).explained[0] for name, place in places.items()}


def line_of(text: str) -> int:
    return 1 + next(number for number, line in enumerate(PROGRAM.splitlines()) if text in line)


def test_a_recurrence_over_neighbours_is_coloured_or_scheduled_by_levels(rows: dict[str, Instance]) -> None:
    assert rows["sweep"].answer is Answer.LEAVE
    assert rows["sweep"].would_change.startswith("would change it: colour the iterations, or schedule them by levels")
    assert "colour" not in rows["sweeps"].would_change, "it repeats what the sweep does"


def test_many_launches_are_fused(rows: dict[str, Instance]) -> None:
    for function in ("first", "second"):
        assert "fuse launches" in rows[function].would_change
        assert "200 launches" in rows[function].would_change
        assert "launches 2 kernels in each iteration" in rows[function].would_change


def test_colliding_updates_are_made_private(rows: dict[str, Instance]) -> None:
    assert rows["bins"].parallel == "colliding updates"
    assert "privatise: each thread or block updates a copy of its own" in rows["bins"].would_change


def test_few_threads_are_batched(rows: dict[str, Instance]) -> None:
    row = rows["orbits"]
    assert row.answer is Answer.LEAVE
    assert row.parallel == "parallel"
    assert "batch: a launch has work for 3 of 270 k threads; several runs at once" in row.would_change, (
        "steps are serial"
    )


def verdict(host_s: float, transfer_s: float, answer: Answer = Answer.LEAVE, launches: int = 1) -> Verdict:
    """100 threads that take 1 ms one after the other, as does what they move in 10 us."""
    nothing = np.zeros(3)
    terms = Terms({"latency": (1e-3,) * 3, "memory": (1e-5,) * 3}, 100.0, 100.0, {})
    candidate = Candidate(0, (0,), host_s, launches, terms, nothing + 1e-3, nothing + 1e-5, nothing, 1e3)
    cost = OffloadCost(0.0, 1e-5, transfer_s, 1e-3, 0.0)
    return Verdict(candidate, answer, host_s, None, cost, Moved(), "issue")


def said(one: Verdict, *, inside_serial: bool = False) -> str:
    evidence = cast("Evidence", SimpleNamespace(parallel=[Parallel.YES], texts=[""]))
    return would_change(one, Device.of(find("h200-sxm-141gb")), evidence, [], 1, inside_serial=inside_serial)


def test_a_batch_is_worth_its_saying_only_if_it_beats_the_host() -> None:
    text = said(verdict(host_s=2e-4, transfer_s=5e-5))
    assert text.startswith("would change it: batch: a launch has work for 100 of 270 k threads; several runs at once")
    assert f"({format_seconds(6e-5)} a run instead of {format_seconds(1.06e-3)})" in text
    assert not said(verdict(host_s=5e-5, transfer_s=5e-5)), "what it moves alone takes as long as the host"
    assert not said(verdict(host_s=9e-6, transfer_s=0.0)), "memory alone takes longer than the host"
    assert not said(verdict(host_s=2e-4, transfer_s=5e-5, answer=Answer.PORT))


def test_entries_are_batched_unless_they_depend_on_each_other() -> None:
    assert "several of its entries at once" in said(verdict(2e-4, 5e-5, launches=5))
    assert "several runs at once" in said(verdict(2e-4, 5e-5, launches=5), inside_serial=True)
