"""Programs that ask for the time again and again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from traces import trace_binary

from foretrace.tracer.analysis.clock import clock_notes

READS = r"""
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct timespec now; volatile long sum = 0;
    for (int i = 0; i < atoi(argv[1]); i++) {
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
        for (int j = 0; j < 300; j++) sum += now.tv_nsec;
    }
    return 0;
}"""


@pytest.mark.parametrize("target", ["x86_64", "aarch64", "riscv64"])
def test_a_program_that_polls_the_clock_has_a_note(target: str, compile_c: Callable[..., Path]) -> None:
    program = compile_c(READS, "-O1", "-static", target=target)
    often, seldom = (trace_binary([str(program), times]).signature.provenance.notes for times in ("1200", "40"))
    assert any(note.startswith("the program read the clock 120") for note in often)
    assert not any("clock" in note for note in seldom)


def test_reads_are_held_against_the_work_between_them() -> None:
    assert clock_notes(1000, 10**8)
    assert clock_notes(999, 10**6) == ()
    assert clock_notes(1000, 10**8 + 1) == ()
    assert clock_notes(0, 0) == ()
