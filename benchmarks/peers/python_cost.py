"""Cost of tracing Python programs, compared with coverage.py's C tracer in one run.

Programs that time themselves give the cost of a single event: a block, an access, an array operation. Each way of
running them takes its turn, and medians are compared: so many nanoseconds more than untraced, or so many times as long.
They go by the CPU time of their own thread, so that it matters little what else the machine does. Whole programs are
timed by the wall clock and from outside, with foretrace's own start and end, and where the simulation does not keep up,
waiting for it.
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.harness.results import Part, ResultTable, say

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
"""Greatest cost of an event of each kind: nanoseconds or times untraced, or no more than the other tool."""

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


def event_table(costs: Sequence[EventCost], ways: Sequence[str]) -> ResultTable:
    """Table of the cost of each event."""
    tracing = [way for way in ways if way != "untraced"]
    rows = []
    for cost in costs:
        cells = [f"{cost.ratio(w):.2f}x" if cost.kind == "bulk" else f"+{cost.added_ns(w):.1f}" for w in tracing]
        rows.append([cost.name, f"{cost.seconds['untraced'] * 1e9:.1f}", *cells, LIMITS[cost.kind]])
    title = "One event: nanoseconds untraced, and what tracing adds"
    return ResultTable(title, ("event", *ways, "at most"), rows, [asdict(cost) for cost in costs])


def whole_table(costs: dict[str, dict[str, tools.Cost]], ways: Sequence[str]) -> ResultTable:
    """Wall clock of whole programs."""
    rows = []
    for name, taken in costs.items():
        untraced = taken["untraced"].wall_s
        ratios = [f"{taken[way].wall_s / untraced:.2f}x" for way in ways if way != "untraced"]
        rows.append([name, f"{untraced:.2f}", *ratios, WHOLE_LIMITS[name]])
    data = {program: {way: asdict(cost) for way, cost in taken.items()} for program, taken in costs.items()}
    title = "Whole programs: seconds untraced, and times that"
    return ResultTable(title, ("program", *ways, "at most"), rows, data)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.repetitions(parser)
    parser.add_argument("--only", choices=("events", "programs"), help="one half of it")
    parser.add_argument("--scale", type=float, default=1.0, help="the work of whole programs, times this")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """Both tables."""
    repetitions, scale = common.repeated(options), 0.1 if options.quick else options.scale
    yield f"Python {platform.python_version()}"
    ways = [way for way in WAYS if way != "coverage" or importlib.util.find_spec("coverage")]
    if "coverage" not in ways:
        yield "Left out: coverage is not installed (pip install coverage)."
    events: list[EventCost] = []
    for program in EVENT_PROGRAMS if options.only != "programs" else ():
        events += event_costs(program, ways, scratch, repetitions)
        yield event_table(events, ways)
    programs: dict[str, dict[str, tools.Cost]] = {}
    for program in WHOLE_PROGRAMS if options.only != "events" else ():
        say(program)
        programs[program] = whole_costs(program, ways, scratch, repetitions, scale)
        yield whole_table(programs, ways)
