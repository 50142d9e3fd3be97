"""What tracing a Python program costs, beside coverage.py's C tracer, in one run.

Programs that time themselves give the cost of a single event: a block, an access, an array operation. Each way of
running them takes its turn, and medians are compared: so many nanoseconds more than untraced, or so many times as long.
They go by the CPU time of their own thread, so that it matters little what else the machine does. Whole programs are
timed by the wall clock and from outside, with foretrace's own start and end, and where the simulation does not keep up,
waiting for it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec
from rich.table import Table

from foretrace.base.errors import ForetraceError
from foretrace.base.terminal import console
from foretrace.benchmarks.harness import tables, tools

_PROGRAMS = Path(__file__).parents[1] / "programs"

EVENT_PROGRAMS = ("python_events.py",)
"""They time themselves: started with the name of a file, they write `_Result`s into it."""

LOOPS = ("sieve", "sort", "matrix", "collatz")
ARRAYS = ("stencil", "stars", "clusters", "options", "ranks", "records")
WHOLE_PROGRAMS = {name: ("python_loops.py", name) for name in LOOPS} | {
    name: ("python_arrays.py", name) for name in ARRAYS
}
"""The program's file, and its arguments; one more may follow, a factor to scale the work by."""

LIMITS = {"access": "15 ns", "bulk": "1.25x", "event": "coverage"}
"""What an event of each kind may cost: nanoseconds or times untraced, or no more than the other tool."""

WHOLE_LIMITS = dict.fromkeys(LOOPS, "3x") | dict.fromkeys(ARRAYS, "1.3x")

WAYS = ("untraced", "coverage", "markers", "settrace")


class _Result(msgspec.Struct, frozen=True):
    """One kind of event as a program has timed it: seconds for one, of several rounds."""

    name: str
    kind: str
    times: list[float]


@dataclass(frozen=True, slots=True)
class EventCost:
    """One kind of event: `event` or `access`, whose cost adds to that of the work, or `bulk`, which multiplies it."""

    name: str
    kind: str
    seconds: dict[str, float] = field(default_factory=dict)

    def added_ns(self, way: str) -> float:
        """Nanoseconds more than untraced."""
        return (self.seconds[way] - self.seconds["untraced"]) * 1e9

    def ratio(self, way: str) -> float:
        """Times as long as untraced."""
        return self.seconds[way] / self.seconds["untraced"]


def command(way: str, script: Sequence[str], directory: Path) -> list[str]:
    """A script's command line, in one of `WAYS`."""
    if way == "coverage":
        return [sys.executable, "-m", "coverage", "run", f"--data-file={directory / 'coverage'}", *script]
    if way == "untraced":
        return [sys.executable, *script]
    trace = ["-P", "-m", "foretrace", "trace", "--force", "-o", str(directory / "signature"), "--python-core", way]
    return [sys.executable, *trace, *script]


def event_costs(program: str, ways: Sequence[str], directory: Path, repetitions: int) -> list[EventCost]:
    """Run a program that times itself; of its own rounds and of ours the median counts."""
    results = directory / "results.json"
    taken: dict[tuple[str, str], dict[str, list[float]]] = {}
    for _ in range(repetitions):
        for way in ways:
            tools.measure(command(way, [str(_PROGRAMS / program), str(results)], directory))
            for result in msgspec.json.decode(results.read_bytes(), type=list[_Result]):
                rounds = taken.setdefault((result.name, result.kind), {})
                rounds.setdefault(way, []).append(statistics.median(result.times))
    return [
        EventCost(name, kind, {way: statistics.median(times) for way, times in rounds.items()})
        for (name, kind), rounds in taken.items()
    ]


def whole_costs(
    name: str, ways: Sequence[str], directory: Path, repetitions: int, scale: float
) -> dict[str, tools.Cost]:
    """Run a whole program in each way."""
    file, *arguments = WHOLE_PROGRAMS[name]
    script = [str(_PROGRAMS / file), *arguments, str(scale)]
    runs: dict[str, list[tools.Cost]] = {way: [] for way in ways}
    for _ in range(repetitions):
        for way in ways:
            runs[way].append(tools.measure(command(way, script, directory)))
    return {
        way: tools.Cost(statistics.median(c.wall_s for c in taken), statistics.median(c.cpu_s for c in taken))
        for way, taken in runs.items()
    }


def event_table(costs: Sequence[EventCost], ways: Sequence[str]) -> Table:
    """What each event costs."""
    table = tables.table("One event: nanoseconds untraced, and what tracing adds", "event", *ways, "at most")
    for cost in costs:
        tracing = [way for way in ways if way != "untraced"]
        cells = [f"{cost.ratio(w):.2f}x" if cost.kind == "bulk" else f"+{cost.added_ns(w):.1f}" for w in tracing]
        table.add_row(cost.name, f"{cost.seconds['untraced'] * 1e9:.1f}", *cells, LIMITS[cost.kind])
    return table


def whole_table(costs: dict[str, dict[str, tools.Cost]], ways: Sequence[str]) -> Table:
    """Wall clock of whole programs."""
    table = tables.table("Whole programs: seconds untraced, and times that", "program", *ways, "at most")
    for name, taken in costs.items():
        untraced = taken["untraced"].wall_s
        ratios = [f"{taken[way].wall_s / untraced:.2f}x" for way in ways if way != "untraced"]
        table.add_row(name, f"{untraced:.2f}", *ratios, WHOLE_LIMITS[name])
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison, print it, and write it as JSON."""
    parser = argparse.ArgumentParser(prog="make bench-python", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small programs, one repetition")
    parser.add_argument("--only", choices=("events", "programs"), help="one half of it")
    parser.add_argument("--repetitions", type=int, help="of each program in each way (default 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="the work of whole programs, times this")
    parser.add_argument("--output", type=Path, default=Path("results/bench-python.json"), help="where the JSON goes")
    options = parser.parse_args(arguments)
    repetitions = options.repetitions or (1 if options.quick else 3)
    scale = 0.1 if options.quick else options.scale

    out = console()
    ways = [way for way in WAYS if way != "coverage" or importlib.util.find_spec("coverage")]
    if "coverage" not in ways:
        out.print("Left out: coverage is not installed (pip install coverage).")
    events: list[EventCost] = []
    programs: dict[str, dict[str, tools.Cost]] = {}
    try:
        with tempfile.TemporaryDirectory(prefix="foretrace-bench-") as name:
            for program in EVENT_PROGRAMS if options.only != "programs" else ():
                events += event_costs(program, ways, Path(name), repetitions)
            for program in WHOLE_PROGRAMS if options.only != "events" else ():
                programs[program] = whole_costs(program, ways, Path(name), repetitions, scale)
    except ForetraceError as error:
        print(f"make bench-python: error: {error}", file=sys.stderr)
        return error.exit_code
    out.print(f"Python {platform.python_version()}")
    for table in (event_table(events, ways), whole_table(programs, ways)):
        if table.row_count:
            out.print(table)
            out.print()
    report = {
        "schema": "foretrace.bench-python/1",
        "python": platform.python_version(),
        "events": [asdict(cost) for cost in events],
        "programs": {program: {way: asdict(c) for way, c in taken.items()} for program, taken in programs.items()},
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=2) + "\n")
    out.print(f"Written to {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
