"""The demonstration, `make demo`: what a newcomer would type, one command after the other, and what comes of it.

By default it fits two screens: lines of output that are left out are marked `[...]`, and a few machines stand
for all. `make demo ARGS=--verbose` shows everything.

Traces a compiled program of ours, one that nobody here wrote, and a Python script; measures this machine; predicts all
three on it and on every machine with a profile; replays 64 copies of the first on a node of 64 cores; says which loops
of the first and the last are worth porting; and compares the predictions for this machine with what the programs
really take.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from foretrace.base.errors import EngineError, ForetraceError
from foretrace.base.terminal import table
from foretrace.base.units import format_seconds
from foretrace.benchmarks.harness import programs, tools
from foretrace.benchmarks.harness.results import Part

DIRECTORY = Path("demo")
HOST, ACCELERATOR = "jaguar-xt4", "convey-hc1-fpga"
NATIVE_RUNS = 5
NODE, COPIES = "epyc-7763", 64
FEW_MACHINES = ("epyc-turin-vm", "jaguar-xt4")
WIDTH = 100
SHOWN = {
    "info": (("instructions|loads|stores", 0), ("function ", 2)),
    "calibrate": (("here.toml:", 0),),
    "predict": (("(rank +)?machine ", 1 + len(FEW_MACHINES)),),
    "replay": ((".* copies on ", 1), ("  twice the memory", 0)),
    "triage": ((" +port ", 2), ("  1  ", 0), ("Porting ", 0)),
}
"""Lines of each command's output that the short form shows: those that begin so, and how many that follow each."""


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

    def __init__(self, directory: Path, console: Console, *, verbose: bool = False) -> None:
        """Commands find the `foretrace` and the `python` of this environment first.

        With `verbose` all of their output is shown.
        """
        self.directory = directory
        self.console = console
        self.verbose = verbose
        here = Path(sys.executable).parent
        self.environment = os.environ | {"PATH": f"{here}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}

    def say(self, text: str) -> None:
        """Print what comes next, and why."""
        self.console.print()
        self.console.rule(f"[bold]{text}", align="left")

    def run(self, *command: str, output: str | None = None) -> None:
        """Show a command and run it; its output goes to the terminal, as far as it is shown, or to the file `output`.

        Raises:
            ForetraceError: it fails.
        """
        shown = shlex.join(command) + (f" > {output}" if output else "")
        self.console.print(f"$ {shown}", style="bold green", highlight=False, markup=False, soft_wrap=True)
        sys.stdout.flush()
        if not self.verbose and output is None and command[0] == "foretrace":
            self._run_shortened(command, shown)
            return
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

    def _run_shortened(self, command: Sequence[str], shown: str) -> None:
        result = subprocess.run(
            command, cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
        )  # fmt: skip
        if result.returncode:
            self.console.print(result.stdout, highlight=False, markup=False, soft_wrap=True)
            raise ForetraceError(f"`{shown}` ended with {result.returncode}")
        for line in shortened(result.stdout.splitlines(), SHOWN[command[1]]):
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def native_seconds(self, command: Sequence[str]) -> float:
        """Wall clock of the shortest of a few untraced runs: a profile, too, is of the least disturbed moments."""
        runs = [tools.measure(command, self.environment, self.directory) for _ in range(NATIVE_RUNS)]
        return min(run.wall_s for run in runs)


def shortened(lines: Sequence[str], shown: Sequence[tuple[str, int]]) -> list[str]:
    """The lines that begin with a pattern, and as many behind each as it says; `[...]` for what is left out.

    Lines are cut to a width of 100; warnings among those left out are counted.
    """
    kept: set[int] = set()
    for number, line in enumerate(lines):
        for pattern, following in shown:
            if re.match(pattern, line):
                kept.update(range(number, number + following + 1))
    result: list[str] = []
    left_out = warnings = 0
    for number, line in [*enumerate(lines), (len(lines), "")]:
        if number in kept:
            result += [_left_out(warnings)] if left_out else []
            result.append(line if len(line) <= WIDTH else line[: WIDTH - 6] + " [...]")
            left_out = warnings = 0
        else:
            left_out += bool(line.strip())
            warnings += "warning: " in line
    return result + ([_left_out(warnings)] if left_out else [])


def _left_out(warnings: int) -> str:
    return f"[...] with {warnings} warning{'s' if warnings != 1 else ''}" if warnings else "[...]"


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
    demo.say("A Python script, as it is, traced once" if problem else "Three programs, as they are, traced once")
    if problem:
        demo.console.print(f"Compiled programs are left out: {problem}", highlight=False, markup=False, soft_wrap=True)
    subjects = prepare(demo, with_compiled=not problem)
    for subject in subjects:
        trace(demo, subject)
    first = subjects[0]
    demo.say(f"What a trace holds: {first.title}")
    demo.run("foretrace", "info", first.signature, "--top", "6" if demo.verbose else "2")
    demo.say("Measure this machine, in about half a minute. How long would it take here and elsewhere?")
    demo.run("foretrace", "calibrate", "--quick", "--force", "-o", "here.toml")
    if demo.verbose:
        predict_everywhere(demo, subjects)
    else:
        few = [option for name in FEW_MACHINES for option in ("--machine", name)]
        demo.run("foretrace", "predict", first.signature, "--machine", "here.toml", *few, "--top", "0")
    demo.say(f"And {COPIES} copies of it at once, one a core? {first.title}")
    copies = ("--copies", str(COPIES), "--force", "-o", "timeline.json.gz")
    demo.run("foretrace", "replay", first.signature, "--machine", NODE, *copies)
    for subject in subjects if demo.verbose else subjects[:1]:
        if subject.has_gathers:
            demo.say(f"What is worth porting to an accelerator? {subject.title}")
            options = ("--host", HOST, "--accelerator", ACCELERATOR)
            demo.run("foretrace", "triage", subject.signature, *options)
    demo.say("How good are the predictions for this machine?")
    demo.console.print(compare_with_reality(demo, subjects))
    demo.console.print(
        f"Measured: the shortest of {NATIVE_RUNS} runs; for PageRank without starting Python and importing SciPy."
    )


def predict_everywhere(demo: Demonstration, subjects: Sequence[Subject]) -> None:
    """The first program's loops here, and the times of all on every machine."""
    demo.say(f"How long would it take here, and where does the time go? {subjects[0].title}")
    demo.run("foretrace", "predict", subjects[0].signature, "--machine", "here.toml")
    for subject in subjects:
        demo.say(f"And elsewhere? {subject.title}")
        demo.run("foretrace", "predict", subject.signature, "--machine", "here.toml", "--all", "--top", "0")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the demonstration."""
    parser.add_argument("--verbose", action="store_true", help="show all output, on all machines: some 270 lines")


def run(options: argparse.Namespace, _scratch: Path) -> Iterator[Part]:
    """The demonstration, in `demo/`."""
    start = time.perf_counter()
    DIRECTORY.mkdir(exist_ok=True)
    demonstrate(Demonstration(DIRECTORY, Console(), verbose=options.verbose))
    elapsed = format_seconds(time.perf_counter() - start)
    yield f"\nDone in {elapsed}. The files are in {DIRECTORY}/; every command above can be typed there."
    if not options.verbose:
        yield "make demo ARGS=--verbose shows all output, on all machines."
