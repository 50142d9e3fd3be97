"""Speeds that others published, beside predictions: compression, encryption and hashing by Debian's programs.

`benchmarks/published/speeds.csv` holds the published speeds with their sources, `published_programs.toml` the commands
that do the same work. Each command is traced twice, on a long and on a short piece of a text, and predicted on every
machine: the bytes between the two over the time between the two is its speed, without the start of the process. What
was published is of one thread and of the median instance.

The order of two machines is asked of each program where their published speeds differ by more than 20 %.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import math
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from foretrace.base.errors import EngineError, ForetraceError
from foretrace.benchmarks.harness import options as common
from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.harness.results import MeasuredPrediction, Part, ResultTable
from foretrace.profiles.library import find
from foretrace.profiles.published import PublishedFigure, read_published
from foretrace.replay.node.predictions import predict_on
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.file import read_signature
from foretrace.tracer.signature.records import Signature

from .public_runs import Runner

PROGRAMS = Path(__file__).parent / "published_programs.toml"
SPEEDS = Path(__file__).parents[1] / "published" / "speeds.csv"
NOTABLE = 1.2
"""Machines whose published speeds differ by less are in no order."""
SEED = 1
LIMIT_S = 1800.0
LONG_BYTES, SHORT_BYTES = 1 << 20, 1 << 16
_KEY, _IV = "00112233445566778899aabbccddeeff" * 2, "000102030405060708090a0b0c0d0e0f"
_MADE_KIB = 2 * LONG_BYTES >> 10

Progress = Callable[[str], None]


class Program(Struct, frozen=True, forbid_unknown_fields=True):
    """A program; see the head of `published_programs.toml`."""

    program: str
    pack: tuple[str, ...]
    unpack: tuple[str, ...] = ()
    package: str = ""

    @property
    def metrics(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Pairs of a metric's first word and the command that does it."""
        if not self.unpack:
            return (("", self.pack),)
        return ("compress", self.pack), ("decompress", self.unpack)


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    programs: tuple[Program, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """Pairs of machines whose published speeds differ, over all programs; those that the predictions order alike, and
    how far off their ratios are."""

    pairs: int
    right: int
    ratio_errors: tuple[float, ...]


def programs() -> tuple[Program, ...]:
    """The programs of `published_programs.toml`."""
    return msgspec.toml.decode(PROGRAMS.read_bytes(), type=_File).programs


def compared(
    chosen: Sequence[Program],
    figures: Iterable[PublishedFigure],
    signature_of: Callable[[Program, str, tuple[str, ...], int], Signature],
    say: Progress,
) -> Iterator[MeasuredPrediction]:
    """Each published speed of the chosen programs beside its prediction.

    Args:
        chosen: the programs.
        figures: what was published.
        signature_of: traces a program's command on so many bytes.
        say: is told what fails.
    """
    by_program: dict[tuple[str, str], list[PublishedFigure]] = {}
    for figure in figures:
        by_program.setdefault((figure.program, figure.metric.partition(",")[0].partition(" ")[0]), []).append(figure)
    for program in chosen:
        for metric, command in program.metrics:
            published = [
                one
                for (name, begins), some in by_program.items()
                if name == program.program and (not metric or begins == metric)
                for one in some
            ]
            if not published:
                continue
            try:
                signatures = [signature_of(program, metric, command, size) for size in (LONG_BYTES, SHORT_BYTES)]
                yield from _speeds(signatures, metric, published)
            except ForetraceError as error:
                say(f"{program.program} {metric}: {error}")


def _speeds(
    signatures: Iterable[Signature], metric: str, published: Sequence[PublishedFigure]
) -> Iterator[MeasuredPrediction]:
    workloads = [Workload.of(one) for one in signatures]
    for one in published:
        profile = find(one.machine)
        (more, *_), (less, *_) = (predict_on(workload, profile) for workload in workloads)
        speed = (LONG_BYTES - SHORT_BYTES) / max(more.time_s - less.time_s, 1e-12)
        yield MeasuredPrediction(
            name=f"{one.program} {metric}".strip(), machine=one.machine, unit=one.unit, measured=one.value,
            predicted=speed, low=speed * more.time_s / more.high_s, high=speed * more.time_s / more.low_s,
            notes={"source": one.source},
        )  # fmt: skip


def order_of(speeds: Sequence[MeasuredPrediction]) -> Order:
    """Agreement of predicted and published order, over all pairs of machines and programs."""
    pairs, right, errors = 0, 0, []
    groups: dict[str, list[MeasuredPrediction]] = {}
    for speed in speeds:
        groups.setdefault(speed.name, []).append(speed)
    for group in groups.values():
        for first, second in itertools.combinations(group, 2):
            assert first.measured and second.measured and first.predicted and second.predicted
            published = first.measured / second.measured
            predicted = first.predicted / second.predicted
            errors.append(max(predicted / published, published / predicted))
            if max(published, 1 / published) > NOTABLE:
                pairs += 1
                right += (published > 1) == (predicted > 1)
    return Order(pairs, right, tuple(sorted(errors)))


def summary(speeds: Sequence[MeasuredPrediction]) -> dict[str, Any]:
    """Counts and errors of all speeds together."""
    order = order_of(speeds)
    errors = order.ratio_errors
    return {
        "speeds": len(speeds),
        "inside": sum(speed.is_inside or False for speed in speeds),
        "median_error": statistics.median(abs(speed.error or 0.0) for speed in speeds) if speeds else None,
        "pairs": order.pairs,
        "pairs_in_order": order.right,
        "ratio_error_90_percent": errors[math.ceil(0.9 * len(errors)) - 1] if errors else None,
    }


def table(speeds: Sequence[MeasuredPrediction]) -> ResultTable:
    """A row for each program: predicted over published speed by machine, marked where outside the interval."""
    machines = sorted({speed.machine for speed in speeds})
    found = {(speed.name, speed.machine): speed for speed in speeds}
    rows = [
        [name, *(_cell(found.get((name, machine))) for machine in machines)]
        for name in dict.fromkeys(speed.name for speed in speeds)
    ]
    title = "predicted over published speed (*: published value outside the interval)"
    return ResultTable(title, ("program", *machines), rows, [speed.as_json() for speed in speeds], "predictions")


def _cell(speed: MeasuredPrediction | None) -> str:
    return "-" if speed is None else f"{speed.ratio:.2f}x" + ("" if speed.is_inside else "*")


class Traces:
    """Signatures of the programs in a folder, each made once."""

    def __init__(self, directory: Path, text: bytes, runner: Runner) -> None:
        """Make traces of a text with at least `LONG_BYTES`."""
        self._directory = directory
        self._text = text
        self._runner = runner

    def of(self, program: Program, metric: str, command: tuple[str, ...], size_bytes: int) -> Path:
        """The signature of a command on so many bytes of the text.

        Raises:
            EngineError: the program is not installed, or fails.
        """
        executable = shutil.which(command[0])
        if executable is None:
            raise EngineError(f"{command[0]} is not installed (Debian package {program.package or command[0]})")
        content = hashlib.sha256(self._text[:size_bytes]).hexdigest()[:12]
        signature = self._directory / f"{program.program}-{metric or 'run'}-{size_bytes}-{content}.sig"
        if tools.has_whole_run(signature, Path(executable)):
            return signature
        text = self._directory / f"text-{size_bytes}"
        text.write_bytes(self._text[:size_bytes])
        places = {"text": str(text), "out": str(self._directory / "out"), "key": _KEY, "iv": _IV}
        if metric == "decompress":
            packed = self._directory / f"{program.program}-{size_bytes}{_SUFFIXES.get(command[0], '')}"
            with packed.open("wb") as output:
                subprocess.run([part.format_map(places) for part in program.pack], stdout=output, check=True)
            places["packed"] = str(packed)
        options = ["--no-data-flow", "--no-windows", "--seed", str(SEED)]
        self._runner.trace_with(options, [part.format_map(places) for part in command], None, signature)
        return signature


_SUFFIXES: Mapping[str, str] = {"gzip": ".gz", "bzip2": ".bz2", "xz": ".xz", "zstd": ".zst", "brotli": ".br"}


def _made_text() -> bytes:
    maker = Path(__file__).parents[1] / "programs" / "make_text.py"
    return subprocess.run([sys.executable, str(maker), str(_MADE_KIB)], stdout=subprocess.PIPE, check=True).stdout


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the benchmark."""
    common.names(parser, [one.program for one in programs()], "PROGRAM")
    common.directory(parser)
    parser.add_argument("--text", type=Path, help="an English text of 1 MiB or more (default: made-up words)")
    parser.add_argument("--speeds", type=Path, default=SPEEDS, help="published speeds (default: those of the project)")


def run(options: argparse.Namespace, scratch: Path) -> Iterator[Part]:
    """The table and its summary."""
    text = options.text.read_bytes() if options.text else _made_text()
    if len(text) < LONG_BYTES:
        raise EngineError(f"{options.text} has {len(text)} bytes, must have {LONG_BYTES}")
    chosen = [one for one in programs() if not options.names or one.program in options.names]
    failed: list[str] = []
    traces = Traces(common.kept(options, scratch), text, Runner(LIMIT_S, 1, realtime=False))
    figures = read_published(options.speeds)
    speeds = list(compared(chosen, figures, lambda *of: read_signature(traces.of(*of)), failed.append))
    yield table(speeds)
    found = summary(speeds)
    if speeds:
        yield (
            f"{found['inside']} of {found['speeds']} inside their interval, median error {found['median_error']:.0%}; "
            f"{found['pairs_in_order']} of {found['pairs']} pairs of machines that differ by more than "
            f"{NOTABLE - 1:.0%} in order, ratios of machines within {found['ratio_error_90_percent']:.2f} for 90 %"
        )
    yield from (f"left out: {line}" for line in failed)
