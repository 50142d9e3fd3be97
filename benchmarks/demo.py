"""The demonstration, `make demo`: what a newcomer would type, one command after the other, and what comes of it.

Traces a compiled program of ours, one that nobody here wrote, and a Python script; measures this machine; predicts all
three on it and on every machine with a profile; says which loops of the first and the last are worth porting; and
compares the predictions for this machine with what the programs really take.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from foretrace.benchmarks.harness import programs, tools
from foretrace.errors import EngineError, ForetraceError
from foretrace.terminal import table
from foretrace.units import format_seconds

DIRECTORY = Path("demo")
HOST, ACCELERATOR = "jaguar-xt4", "convey-hc1-fpga"
NATIVE_RUNS = 5


@dataclass(frozen=True, slots=True)
class Subject:
    """A program of the demonstration. Its standard output goes to `output`.

    `start_up` is a command whose time is taken off the measured one: starting Python and importing packages is not part
    of a script's signature.
    """

    title: str
    signature: str
    command: tuple[str, ...]
    output: str
    has_gathers: bool
    start_up: tuple[str, ...] | None = None

    @property
    def is_python(self) -> bool:
        """Whether it is a Python script."""
        return self.command[0] == "python"


class Demonstration:
    """Runs commands in the demo's directory as a user would, and shows them."""

    def __init__(self, directory: Path, console: Console) -> None:
        """Commands find the `foretrace` and the `python` of this environment first."""
        self.directory = directory
        self.console = console
        here = Path(sys.executable).parent
        self.environment = os.environ | {"PATH": f"{here}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}

    def say(self, text: str) -> None:
        """What comes next, and why."""
        self.console.print()
        self.console.rule(f"[bold]{text}", align="left")

    def run(self, *command: str, output: str | None = None) -> None:
        """Show a command and run it; its output goes to the terminal, or to the file `output`.

        Raises:
            ForetraceError: it fails.
        """
        shown = shlex.join(command) + (f" > {output}" if output else "")
        self.console.print(f"$ {shown}", style="bold green", highlight=False, markup=False, soft_wrap=True)
        sys.stdout.flush()
        stdout = (self.directory / output).open("wb") if output else None
        try:
            status = subprocess.run(
                command, cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL, stdout=stdout, check=False
            ).returncode
        finally:
            if stdout:
                stdout.close()
        if status:
            raise ForetraceError(f"`{shown}` ended with {status}")

    def native_seconds(self, command: Sequence[str]) -> float:
        """Wall clock of the shortest of a few untraced runs: a profile, too, is of the least disturbed moments."""
        runs = [tools.measure(command, self.environment, self.directory) for _ in range(NATIVE_RUNS)]
        return min(run.wall_s for run in runs)


def engine_problem(demo: Demonstration) -> str:
    """Why compiled programs cannot be traced here, as foretrace says it; empty if they can."""
    command = ("foretrace", "trace", "--force", "-o", "gzip.sig", "--", "gzip", "--version")
    result = subprocess.run(
        command, cwd=demo.directory, env=demo.environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    said = result.stderr.decode(errors="replace").strip().removeprefix("foretrace: error: ")
    return said if result.returncode == EngineError.exit_code else ""


def prepare(demo: Demonstration, *, with_compiled: bool) -> list[Subject]:
    """Build and generate what will be traced."""
    shutil.copy(programs.SOURCES / "pagerank.py", demo.directory)
    pagerank = Subject(
        "PageRank in NumPy and SciPy",
        "pagerank.sig",
        ("python", "pagerank.py", "100000"),
        "pagerank.txt",
        has_gathers=True,
        start_up=("python", "-c", "import numpy, scipy.sparse"),
    )
    if not with_compiled:
        return [pagerank]
    for name in ("cg.c", "program.h"):
        shutil.copy(programs.SOURCES / name, demo.directory)
    demo.run("gcc", "-O2", "-g", "-o", "cg", "cg.c", "-lm")
    text = programs.make_text(2048, demo.directory).name
    return [
        Subject(
            "cg, an unstructured sparse solver in C", "cg.sig", ("./cg", "60000", "15"), "cg.txt", has_gathers=True
        ),
        Subject("gzip, as it came", "gzip.sig", ("gzip", "-6", "-c", text), "text.gz", has_gathers=False),
        pagerank,
    ]


def trace(demo: Demonstration, subject: Subject) -> None:
    """Trace a program; a script is traced by its name."""
    script = subject.command[1:] if subject.is_python else ("--", *subject.command)
    demo.run("foretrace", "trace", "--force", "-o", subject.signature, *script, output=subject.output)


def compare_with_reality(demo: Demonstration, subjects: Sequence[Subject]) -> Table:
    """Predicted and measured time on this machine."""
    rows = table("program", "predicted", "interval", "measured", "error")
    for subject in subjects:
        signature, profile = (str(demo.directory / name) for name in (subject.signature, "here.toml"))
        (prediction,) = tools.foretrace_json("predict", signature, "--machine", profile)["predictions"]
        measured_s = demo.native_seconds(subject.command)
        if subject.start_up:
            measured_s -= demo.native_seconds(subject.start_up)
        low, high = (format_seconds(prediction[key]) for key in ("low_s", "high_s"))
        rows.add_row(
            subject.title,
            format_seconds(prediction["time_s"]),
            f"{low} to {high}",
            format_seconds(measured_s),
            f"{prediction['time_s'] / measured_s - 1:+.0%}",
        )
    return rows


def demonstrate(demo: Demonstration) -> None:
    """All of it."""
    problem = engine_problem(demo)
    demo.say("A Python script, as it is" if problem else "Three programs, as they are")
    if problem:
        demo.console.print(f"Compiled programs are left out: {problem}", highlight=False, markup=False, soft_wrap=True)
    subjects = prepare(demo, with_compiled=not problem)
    demo.say("Trace each of them once")
    for subject in subjects:
        trace(demo, subject)
    demo.say("What a trace holds")
    demo.run("foretrace", "info", subjects[0].signature, "--top", "6")
    demo.say("Measure this machine")
    demo.run("foretrace", "calibrate", "--quick", "--force", "-o", "here.toml")
    demo.say(f"How long would it take here, and where does the time go? {subjects[0].title}")
    demo.run("foretrace", "predict", subjects[0].signature, "--machine", "here.toml")
    for subject in subjects:
        demo.say(f"And elsewhere? {subject.title}")
        demo.run("foretrace", "predict", subject.signature, "--machine", "here.toml", "--all", "--top", "0")
    for subject in subjects:
        if subject.has_gathers:
            demo.say(f"What is worth porting to an accelerator? {subject.title}")
            options = ("--host", HOST, "--accelerator", ACCELERATOR)
            demo.run("foretrace", "triage", subject.signature, *options)
    demo.say("How good are the predictions for this machine?")
    demo.console.print(compare_with_reality(demo, subjects))
    demo.console.print(
        f"Measured: the shortest of {NATIVE_RUNS} runs; for PageRank without starting Python and importing SciPy."
    )


def main() -> int:
    """Run the demonstration in `demo/`."""
    console = Console()
    start = time.perf_counter()
    DIRECTORY.mkdir(exist_ok=True)
    try:
        demonstrate(Demonstration(DIRECTORY, console))
    except ForetraceError as error:
        print(f"make demo: error: {error}", file=sys.stderr)
        return error.exit_code
    elapsed = format_seconds(time.perf_counter() - start)
    console.print(f"\nDone in {elapsed}. The files are in {DIRECTORY}/; every command above can be typed there.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
