"""Programs in C that have software-defined events, for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from foretrace.tracer.events import linking

Compile = Callable[..., Path]


def build(compile_c: Compile, source: str, *flags: str) -> Path:
    """A program that is linked with the library."""
    folder = linking.library().parent
    return compile_c(
        source, f"-I{folder / 'include'}", "-Wl,--no-as-needed", str(linking.library()), f"-Wl,-rpath,{folder}", *flags
    )


def run(program: Path, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it with its board in a folder."""
    return subprocess.run(
        [program, *arguments], env=os.environ | {"FORETRACE_EVENTS_DIRECTORY": str(folder), **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


PRINT = r"""
#include <foretrace_events.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void print(const char *name)
{
    long long value;
    struct foretrace_event_set *set = foretrace_events_open(&name, 1);
    int code = foretrace_events_start(set);
    code = code ? code : foretrace_events_read(set, &value);
    foretrace_events_close(set);
    if (code)
        printf("%s error %d\n", name, code);
    else
        printf("%s %lld\n", name, value);
}
"""
