"""What all tests share: skips that count as failures on request, and compiled programs to trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from compilers import compiler_for

# A shell that starts pytest in the background has it, and all it starts, ignore the terminal's ^C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No time is a reason to fail: other work makes any example slow. The same examples each time, unless random ones are
# asked for: `make test ARGS="--hypothesis-profile=random"`.
hypothesis.settings.register_profile(
    "fixed",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=60,
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
    """
    directory = tmp_path_factory.mktemp("programs")
    made: dict[tuple[str, ...], Path] = {}

    def build(source: str, *flags: str, target: str = "x86_64") -> Path:
        key = (target, source, *flags)
        if key not in made:
            path = directory / f"program{len(made)}"
            path.with_suffix(".c").write_text(source)
            command = [
                compiler_for(target),
                "-std=gnu11",
                "-g",
                *flags,
                "-o",
                str(path),
                str(path.with_suffix(".c")),
                "-lm",
                "-pthread",
            ]
            subprocess.run(command, check=True)
            made[key] = path
        return made[key]

    return build


@pytest.fixture(scope="session")
def programs_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `foretrace.benchmarks.harness.programs` builds, once for all tests."""
    return tmp_path_factory.mktemp("benchmark-programs")


@pytest.fixture
def foretrace() -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that runs the command line in a process of its own."""

    def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "foretrace", *map(str, arguments)]
        settings: dict[str, object] = {
            "capture_output": True,
            "text": True,
            "stdin": subprocess.DEVNULL,
        }
        return subprocess.run(command, **(settings | options))  # type: ignore[call-overload, no-any-return]

    return run
