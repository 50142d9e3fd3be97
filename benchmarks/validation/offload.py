"""Kernels on GPUs: predicted from signatures of our own programs, and what others measured or an expert works out.

Run by `python -m foretrace.benchmarks.validation.offload` (published timings) and, with `--by-hand FILE`, against the
table of docs/offload-by-hand.md.

Each program of `programs/offload` is traced here once; a kernel's time on a device is what `triage` gives for the
outermost loop of its function: kernel and launch, without transfers, as benchmarks of kernels time them.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from foretrace.base.errors import EngineError, ForetraceError, ProfileError
from foretrace.base.terminal import console
from foretrace.base.units import format_seconds
from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.harness.programs import build
from foretrace.benchmarks.harness.tables import table
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
class Comparison:
    """A measurement with the predicted time of its calls; None where a function of it is refused."""

    measurement: Measurement
    predicted_s: float | None
    said: str

    @property
    def factor(self) -> float | None:
        """Predicted over published time."""
        return self.predicted_s / self.measurement.published_s if self.predicted_s else None

    @property
    def is_within(self) -> bool:
        """Whether the two differ by at most `WITHIN`."""
        return self.factor is not None and 1 / WITHIN <= self.factor <= WITHIN


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


def compare(measurements: Sequence[Measurement], host: Profile, directory: Path) -> Iterator[Comparison]:
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
        if refusals:
            yield Comparison(one, None, "; ".join(refusals))
            continue
        parts = {name: calls * (times[name].time_s or 0.0) for name, calls in one.calls.items()}
        longest = max(parts, key=lambda name: parts[name])
        yield Comparison(one, sum(parts.values()), times[longest].bound_by)


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        prog="foretrace.benchmarks.validation.offload", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--host", default=HOST, metavar="MACHINE", help=f"of which the rest runs (default {HOST})")
    parser.add_argument("--by-hand", type=Path, metavar="FILE", help="compare with this document's table as well")
    parser.add_argument("names", nargs="*", metavar="NAME", help="these measurements only")
    options = parser.parse_args(arguments)
    try:
        known = {one.name: one for one in published()}
        for name in options.names:
            if name not in known:
                parser.error(f"there is no measurement {name!r}: {', '.join(known)}")
        host = find(options.host)
        wanted = [known[name] for name in options.names] if options.names else list(known.values())
        with tempfile.TemporaryDirectory(prefix="foretrace-offload-") as directory:
            _show(list(compare(wanted, host, Path(directory))))
            if options.by_hand:
                _show_by_hand(options.by_hand, host, Path(directory))
    except (ForetraceError, ProfileError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _show(rows: Sequence[Comparison]) -> None:
    shown = table("kernels on GPUs", "measurement", "device", "published", "predicted", "factor", "within", "bound by")
    for row in rows:
        one = row.measurement
        predicted = "-" if row.predicted_s is None else format_seconds(row.predicted_s)
        factor = "-" if row.factor is None else f"{row.factor:.2f}"
        shown.add_row(
            one.name, one.device, format_seconds(one.published_s), predicted, factor,
            "yes" if row.is_within else "no", row.said,
        )  # fmt: skip
    out = console()
    out.print(shown)
    out.print(f"{sum(row.is_within for row in rows)} of {len(rows)} within a factor of {WITHIN:g}")


def _show_by_hand(path: Path, host: Profile, directory: Path) -> None:
    command, lines = by_hand(path)
    signature = traced(command, directory)
    shown = table(
        f"{' '.join(command)}, a call", "function", "device", "by hand", "predicted", "difference", "bound by"
    )
    agreeing = 0
    for device in dict.fromkeys(line.device for line in lines):
        mine = [line for line in lines if line.device == device]
        times = kernel_times(signature, host, find(device), [line.function for line in mine])
        for line in mine:
            time = times[line.function]
            if time.time_s is not None:
                agreeing += abs(time.time_s / line.time_s - 1) <= WITHIN_BY_HAND
            shown.add_row(line.function, device, *_beside(line.time_s, time.time_s), time.bound_by or time.refusal)
        known = [(line.calls, times[line.function].time_s) for line in mine]
        whole_s = (
            None if any(time_s is None for _, time_s in known) else sum(n * (time_s or 0.0) for n, time_s in known)
        )
        shown.add_row("an iteration", device, *_beside(sum(line.calls * line.time_s for line in mine), whole_s), "")
    out = console()
    out.print(shown)
    out.print(f"{agreeing} of {len(lines)} within {WITHIN_BY_HAND:.0%} of the calculation by hand")


def _beside(by_hand_s: float, predicted_s: float | None) -> tuple[str, str, str]:
    """Both, and how far the prediction is off."""
    if predicted_s is None:
        return format_seconds(by_hand_s), "-", "-"
    return format_seconds(by_hand_s), format_seconds(predicted_s), f"{predicted_s / by_hand_s - 1:+.0%}"


if __name__ == "__main__":
    sys.exit(main())
