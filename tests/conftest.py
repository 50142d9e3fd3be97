"""What all tests share: skips that count as failures on request, and compiled programs to trace."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import hypothesis
import pytest
from compilers import compiler_for
from effort import IS_FULL, examples
from warm_command_line import warm_command_line

# A shell that starts pytest in the background has it, and all it starts, ignore the terminal's ^C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The tests are compiled once, with their assertions written out, whatever the environment says: half of collecting.
sys.dont_write_bytecode = False

# No time is a reason to fail: other work makes any example slow. The same examples each time, unless random ones are
# asked for: `make test ARGS="--hypothesis-profile=random"`. A full run tries four times as many.
hypothesis.settings.register_profile(
    "fixed",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=examples(60),
    suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.data_too_large,
        hypothesis.HealthCheck.filter_too_much,
        hypothesis.HealthCheck.large_base_example,
        hypothesis.HealthCheck.function_scoped_fixture,
    ],
)
hypothesis.settings.register_profile(
    "random", hypothesis.settings.get_profile("fixed"), derandomize=False, print_blob=True
)
hypothesis.settings.load_profile("fixed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests marked `full` to full runs."""
    if not IS_FULL:
        left_out = {item for item in items if item.get_closest_marker("full")}
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


ON_LINKING = re.compile(r"-static|-shared|-no-pie|-ldl|-rdynamic|-nostd|-nostart|-fsanitize|-fopenmp|-Wl|-c\b")
"""Compilers' flags that say how to link, or need the loader."""
FORBID_SKIPS = bool(os.environ.get("FORETRACE_FORBID_SKIPS"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """With FORETRACE_FORBID_SKIPS set, a skipped test is a failed one: what it needs must be there."""
    report = yield
    if FORBID_SKIPS and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which FORETRACE_FORBID_SKIPS forbids: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function that compiles C source text, with flags, and returns the program's path.

    `target` is an architecture as QEMU names it; without its cross compiler or emulator the test is skipped.
    Programs for this machine are linked statically, unless the flags say how to link them or they are to be `loaded`:
    the dynamic loader's code takes two thirds of the time that a trace of a small program is analysed for.
    """
    base = tmp_path_factory.getbasetemp()
    corpus = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "programs"  # one for all workers
    corpus.mkdir(exist_ok=True)

    def build(source: str, *flags: str, target: str = "x86_64", loaded: bool = False) -> Path:
        if not loaded and target == platform.machine() and not ON_LINKING.search(" ".join(flags)):
            flags = (*flags, "-static-pie")
        key = hashlib.sha256("\0".join((target, source, *flags)).encode()).hexdigest()[:24]
        path = corpus / key / f"program{key[:8]}"
        if not path.exists():
            made = Path(tempfile.mkdtemp(dir=corpus))
            text = made / f"{path.name}.c"
            text.write_text(source)
            settings = ["-std=gnu11", "-g", f"-ffile-prefix-map={made}={path.parent}", *flags]
            command = [compiler_for(target), *settings, "-o", str(made / path.name), str(text), "-lm", "-pthread"]
            subprocess.run(command, check=True)
            with suppress(OSError):  # another worker was faster
                made.rename(path.parent)
        return path

    return build


@pytest.fixture(scope="session")
def programs_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `foretrace.benchmarks.harness.programs` builds, once for all tests."""
    return tmp_path_factory.mktemp("benchmark-programs")


@pytest.fixture
def foretrace() -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that runs the command line in a process of its own; with options for `subprocess.run` in a new one."""

    def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        if options.keys() <= {"cwd", "env"}:
            return warm_command_line().run([*map(str, arguments)], **options)  # type: ignore[arg-type]
        command = [sys.executable, "-P", "-m", "foretrace", *map(str, arguments)]
        settings: dict[str, object] = {
            "capture_output": True,
            "text": True,
            "stdin": subprocess.DEVNULL,
        }
        return subprocess.run(command, **(settings | options))  # type: ignore[call-overload, no-any-return]

    return run
