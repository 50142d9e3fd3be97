"""Kernels on GPUs: predicted from signatures of our own programs, and what others measured or an expert works out.

Compared are published timings and, with `--by-hand FILE`, the table of docs/offload-by-hand.md.

Each program of `programs/offload` is traced here once; a kernel's time on a device is what `triage` gives for the
outermost loop of its function: kernel and launch, without transfers, as benchmarks of kernels time them.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.harness.programs import build
from foretrace.benchmarks.harness.results import MeasuredPrediction, Part, growing, prediction_table
from foretrace.profiles.library import find
from foretrace.profiles.profile import Profile
from foretrace.replay.base.records import Instance
from foretrace.replay.offload.triage import triage
from foretrace.tracer.signature.file import read_signature
from foretrace.tracer.signature.records import Signature

PUBLISHED = Path(__file__).parent / "published_offload.toml"
WITHIN = 1.5
"""A prediction this many times a published figure, or its inverse, counts as agreeing."""
WITHIN_BY_HAND = 0.2
HOST = "epyc-9654"

Positive = Annotated[float, Meta(gt=0)]
Name = Annotated[str, Meta(pattern="^[a-z0-9_-]{1,64}$")]


class Measurement(Struct, frozen=True, forbid_unknown_fields=True):
    """A published timing of a kernel on a device, and what of our programs stands for it.

    `published` is in `unit`: of "s" the time of `calls`, else `work` over that time. `calls`: how often each function
    runs for the work. `quote` is what the source says.
    """

    name: Name
    device: str
    measured_on: str
    kernel: str
    program: str
    arguments: tuple[str, ...]
    calls: dict[str, Annotated[int, Meta(gt=0)]]
    work: Positive
    unit: str
    published: Positive
    published_size: str
    traced_size: str
    citation: str
    url: str
    date: str
    read_on: str
    quote: str
    note: str = ""

    @property
    def published_s(self) -> float:
        """The time of `calls` that the published figure stands for."""
        return self.published if self.unit == "s" else self.work / self.published


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    measurements: tuple[Measurement, ...]


@dataclass(frozen=True, slots=True)
class KernelTime:
    """A function's kernel on a device: seconds of one call, or why it has none."""

    time_s: float | None
    bound_by: str
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class ByHand:
    """A line of the calculation by hand: seconds of one call of a function on a device, and how often it runs."""

    function: str
    calls: int
    device: str
    time_s: float


def published(path: Path = PUBLISHED) -> tuple[Measurement, ...]:
    """The published timings.

    Raises:
        EngineError: the file is not as `Measurement` says.
    """
    try:
        return msgspec.toml.decode(path.read_bytes(), type=_File).measurements
    except msgspec.ValidationError as error:
        raise EngineError(f"{path}: {error}") from None


def by_hand(path: Path) -> tuple[tuple[str, ...], tuple[ByHand, ...]]:
    """The traced command and the lines of a calculation by hand: those of its table `function | calls | DEVICE | ...`.

    Raises:
        EngineError: the document cannot be read or has no such table.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(f"{path}: cannot be read: {error}") from None
    command = re.search(r"^    (cg_gauss_seidel [\d ]+)$", text, re.MULTILINE)
    head = re.search(r"^\| function \| calls \| (`.*)\|$", text, re.MULTILINE)
    if command is None or head is None:
        raise EngineError(f"{path}: has no table that begins with '| function | calls |', or no command above it")
    devices = [cell.strip().strip("`") for cell in head[1].split("|")]
    rows = text[head.end() :].split("\n\n")[0].splitlines()[2:]
    found = []
    for row in rows:
        function, calls, *cells = (cell.strip().strip("`") for cell in row.strip("|").split("|"))
        times = zip(devices, cells, strict=True)
        found += [
            ByHand(function, int(calls), device, 1e-6 * float(cell.removesuffix(" µs"))) for device, cell in times
        ]
    return tuple(command[1].split()), tuple(found)


def kernel_time(found: Sequence[Instance], function: str) -> KernelTime:
    """The time of a function's outermost loop, out of the rows of a triage that are in it."""
    loops = [one for one in found if one.place.function == function]
    costed = [one for one in loops if one.cost is not None and one.entries > 0]
    if not costed:
        why = loops[0].reason if loops else "no such function ran"
        return KernelTime(None, "", f"{function}: {why}")
    outermost = max(costed, key=lambda one: (one.moved_bytes, -one.entries))
    assert outermost.cost is not None
    time_s = (outermost.cost.kernel_s + outermost.cost.launch_s) / outermost.entries
    return KernelTime(time_s, outermost.bound_by)


def kernel_times(
    signature: Signature, host: Profile, device: Profile, functions: Iterable[str]
) -> dict[str, KernelTime]:
    """The time of each function's kernel.

    Raises:
        ForetraceError: signature and profiles do not tell enough.
    """
    return {name: kernel_time(triage(signature, host, device, explain=name).explained, name) for name in functions}


def compare(measurements: Sequence[Measurement], host: Profile, directory: Path) -> Iterator[MeasuredPrediction]:
    """Trace what the measurements need, once each, and predict.

    Raises:
        ForetraceError: a program cannot be built, traced or predicted, or a device is not known.
    """
    signatures: dict[tuple[str, ...], Signature] = {}
    for one in measurements:
        command = (one.program, *one.arguments)
        if command not in signatures:
            signatures[command] = traced(command, directory)
        times = kernel_times(signatures[command], host, find(one.device), one.calls)
        refusals = [time.refusal for time in times.values() if time.time_s is None]
        parts = {name: calls * (times[name].time_s or 0.0) for name, calls in one.calls.items()}
        longest = max(parts, key=lambda name: parts[name])
        yield MeasuredPrediction(
            name=one.name, machine=one.device, measured=one.published_s,
            predicted=None if refusals else sum(parts.values()),
            problem="; ".join(refusals), notes={"bound by": times[longest].bound_by},
        )  # fmt: skip


def traced(command: Sequence[str], directory: Path) -> Signature:
    """Build and trace a program.

    Raises:
        ForetraceError: it cannot be.
    """
    name, *arguments = command
    signature = directory / f"{'-'.join(command)}.sig"
    tracing = [tools.foretrace_executable(), "trace", "--force", "-o", str(signature), "--"]
    result = subprocess.run(
        [*tracing, str(build(name, directory)), *arguments], capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise EngineError(f"{' '.join(command)}: foretrace trace failed with: {result.stderr.strip()}")
    return read_signature(signature)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.names(parser, [one.name for one in published()], "NAME")
    parser.add_argument("--host", default=HOST, metavar="MACHINE", help=f"of which the rest runs (default {HOST})")
    parser.add_argument("--by-hand", type=Path, metavar="FILE", help="compare with this document's table as well")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The tables, and how many predictions agree."""
    host = find(options.host)
    wanted = [one for one in published() if not options.names or one.name in options.names]
    rows: list[MeasuredPrediction] = []
    for rows in growing(compare(wanted, host, scratch)):
        yield prediction_table("kernels on GPUs", rows)
    yield f"{sum(row.is_within(WITHIN) for row in rows)} of {len(rows)} within a factor of {WITHIN:g}"
    if options.by_hand:
        yield from _compare_by_hand(options.by_hand, host, scratch)


def _compare_by_hand(path: Path, host: Profile, directory: Path) -> Iterator[Part]:
    command, lines = by_hand(path)
    signature = traced(command, directory)
    rows: list[MeasuredPrediction] = []
    agreeing = 0
    for device in dict.fromkeys(line.device for line in lines):
        mine = [line for line in lines if line.device == device]
        times = kernel_times(signature, host, find(device), [line.function for line in mine])
        own = [
            MeasuredPrediction(
                name=line.function, machine=device, predicted=times[line.function].time_s, measured=line.time_s,
                problem=times[line.function].refusal, notes={"bound by": times[line.function].bound_by},
            )
            for line in mine
        ]  # fmt: skip
        agreeing += sum(row.error is not None and abs(row.error) <= WITHIN_BY_HAND for row in own)
        known = [(line.calls, row.predicted) for line, row in zip(mine, own, strict=True)]
        rows += own
        rows.append(
            MeasuredPrediction(
                name="an iteration", machine=device,
                predicted=None if any(s is None for _, s in known) else sum(n * (s or 0.0) for n, s in known),
                measured=sum(line.calls * line.time_s for line in mine),
            )
        )  # fmt: skip
    yield prediction_table(f"{' '.join(command)}, a call; measured: worked out by hand", rows)
    yield f"{agreeing} of {len(lines)} within {WITHIN_BY_HAND:.0%} of the calculation by hand"
