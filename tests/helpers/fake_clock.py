"""A clock for traced Python programs that no load of the machine moves, loaded in front of the C library's.

Time passes as the program says: `time.clock_getres(NANOSECONDS)` runs for so long, `advance_ns(...)` of compiled code
likewise, a reading of a clock takes `READING_NS`, and memory of a megabyte and more takes `LARGE_BLOCK_NS` to get. A
page that is mapped takes `PAGE_NS`, where a test asks for that. In a wait of the stream's writer `WAIT_NS` pass without
the processor.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

READING_NS = 300
LARGE_BLOCK_NS = 10_000_000
PAGE_NS = 100
WAIT_NS = 1_000_000
ROUND_NS = READING_NS / 6
"""A round of the agent's lines: six of them lie between two readings (N_TIMED in tracer/python/blocks/lines.c)."""

SOURCE = f"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t ran_ns = 1000000000, waited_ns; /* of all threads, of which one runs at a time */
static _Thread_local uint64_t own_ns __attribute__((tls_model("initial-exec")));

void advance_ns(uint64_t ns)
{{
    ran_ns += ns;
    own_ns += ns;
}}

static void get_large_block(void)
{{
#ifdef LARGE_BLOCKS_WAIT
    waited_ns += {LARGE_BLOCK_NS};
#else
    advance_ns({LARGE_BLOCK_NS});
#endif
}}

int clock_gettime(clockid_t clock, struct timespec *time)
{{
    if (clock == CLOCK_REALTIME)
        return (int)syscall(SYS_clock_gettime, clock, time);
    advance_ns({READING_NS});
#ifdef PAGES_TAKE_TIME
    static _Thread_local long faults __attribute__((tls_model("initial-exec")));
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    advance_ns({PAGE_NS} * (uint64_t)(usage.ru_minflt - faults));
    faults = usage.ru_minflt;
#endif
    const uint64_t ns = clock == CLOCK_THREAD_CPUTIME_ID ? own_ns :
                        clock == CLOCK_MONOTONIC ? ran_ns + waited_ns : (uint64_t)ran_ns;
    *time = (struct timespec){{(time_t)(ns / 1000000000), (long)(ns % 1000000000)}};
    return 0;
}}

int clock_getres(clockid_t ns, struct timespec *time)
{{
    advance_ns((uint64_t)ns);
    *time = (struct timespec){{0, 1}};
    return 0;
}}

long syscall(long number, ...)
{{
    static long (*next)(long, ...);
    va_list list;
    long a[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (!next)
        next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT)
        waited_ns += {WAIT_NS};
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}}

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);

void *malloc(size_t size)
{{
    if (size >= 1 << 20)
        get_large_block();
    return __libc_malloc(size);
}}

void *calloc(size_t count, size_t size)
{{
    if (count * size >= 1 << 20)
        get_large_block();
    return __libc_calloc(count, size);
}}
"""


@contextmanager
def fake_clock(directory: Path, *, large_blocks_wait: bool = False, pages_take_time: bool = False) -> Iterator[None]:
    """Within it, programs that are started live by this clock.

    Args:
        directory: where it is built.
        large_blocks_wait: memory of a megabyte and more is waited for, without the processor.
        pages_take_time: mapping a page takes `PAGE_NS`.
    """
    library = directory / "fake_clock.so"
    (directory / "fake_clock.c").write_text(SOURCE)
    flags = ["-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    flags += ["-DLARGE_BLOCKS_WAIT"] if large_blocks_wait else []
    flags += ["-DPAGES_TAKE_TIME"] if pages_take_time else []
    subprocess.run(["gcc", *flags, "-o", str(library), str(directory / "fake_clock.c"), "-ldl"], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        yield
