"""Speeds that others published, beside predictions: compression, encryption and hashing by Debian's programs.

Run by `python -m foretrace.benchmarks.validation.published` (`make published`).

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
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from foretrace.base.errors import EngineError, ForetraceError
from foretrace.base.terminal import console
from foretrace.benchmarks.harness import tools
from foretrace.benchmarks.harness.tables import table, times
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
class Speed:
    """Bytes a second of a program on a machine: published, and predicted with an interval."""

    program: str
    metric: str
    machine: str
    published: float
    predicted: float
    low: float
    high: float
    source: str

    @property
    def ratio(self) -> float:
        """Predicted over published."""
        return self.predicted / self.published

    @property
    def is_inside(self) -> bool:
        """Whether what was published lies in the interval."""
        return self.low <= self.published <= self.high


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
) -> Iterator[Speed]:
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


def _speeds(signatures: Iterable[Signature], metric: str, published: Sequence[PublishedFigure]) -> Iterator[Speed]:
    workloads = [Workload.of(one) for one in signatures]
    for one in published:
        profile = find(one.machine)
        (more, *_), (less, *_) = (predict_on(workload, profile) for workload in workloads)
        speed = (LONG_BYTES - SHORT_BYTES) / max(more.time_s - less.time_s, 1e-12)
        yield Speed(
            one.program, metric, one.machine, one.value, speed,
            speed * more.time_s / more.high_s, speed * more.time_s / more.low_s, one.source,
        )  # fmt: skip


def order_of(speeds: Sequence[Speed]) -> Order:
    """Agreement of predicted and published order, over all pairs of machines and programs."""
    pairs, right, errors = 0, 0, []
    groups: dict[tuple[str, str], list[Speed]] = {}
    for speed in speeds:
        groups.setdefault((speed.program, speed.metric), []).append(speed)
    for group in groups.values():
        for first, second in itertools.combinations(group, 2):
            published = first.published / second.published
            predicted = first.predicted / second.predicted
            errors.append(max(predicted / published, published / predicted))
            if max(published, 1 / published) > NOTABLE:
                pairs += 1
                right += (published > 1) == (predicted > 1)
    return Order(pairs, right, tuple(sorted(errors)))


def summary(speeds: Sequence[Speed]) -> dict[str, Any]:
    """Counts and errors of all speeds together."""
    order = order_of(speeds)
    errors = order.ratio_errors
    return {
        "speeds": len(speeds),
        "inside": sum(speed.is_inside for speed in speeds),
        "median_error": statistics.median(abs(speed.ratio - 1) for speed in speeds) if speeds else None,
        "pairs": order.pairs,
        "pairs_in_order": order.right,
        "ratio_error_90_percent": errors[math.ceil(0.9 * len(errors)) - 1] if errors else None,
    }


def document(speeds: Sequence[Speed], failed: Sequence[str]) -> dict[str, Any]:
    """The document that `--json` prints; speeds in bytes per second."""
    rows = [asdict(speed) | {"ratio": speed.ratio, "inside": speed.is_inside} for speed in speeds]
    return {"schema": "foretrace.published/1", "summary": summary(speeds), "speeds": rows, "failed": list(failed)}


def show(speeds: Sequence[Speed], failed: Sequence[str]) -> None:
    """Print a row for each program: predicted over published speed by machine, marked where outside the interval."""
    machines = sorted({speed.machine for speed in speeds})
    shown = table("predicted over published speed (*: published value outside the interval)", "program", *machines)
    rows: dict[tuple[str, str], dict[str, Speed]] = {}
    for speed in speeds:
        rows.setdefault((speed.program, speed.metric), {})[speed.machine] = speed
    for (program, metric), of_machine in rows.items():
        cells = [_cell(of_machine.get(machine)) for machine in machines]
        shown.add_row(f"{program} {metric}".strip(), *cells)
    console().print(shown)
    found = summary(speeds)
    if speeds:
        print(
            f"{found['inside']} of {found['speeds']} inside their interval, median error {found['median_error']:.0%}; "
            f"{found['pairs_in_order']} of {found['pairs']} pairs of machines that differ by more than "
            f"{NOTABLE - 1:.0%} in order, ratios of machines within {found['ratio_error_90_percent']:.2f} for 90 %"
        )
    for line in failed:
        print(f"left out: {line}")


def _cell(speed: Speed | None) -> str:
    return "-" if speed is None else times(speed.ratio) + ("" if speed.is_inside else "*")


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


def main() -> None:
    """Trace, predict, compare, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("programs", nargs="*", help="some of the programs, as gzip-5")
    parser.add_argument("--text", type=Path, help="an English text of 1 MiB or more (default: made-up words)")
    parser.add_argument("--speeds", type=Path, default=SPEEDS, help="published speeds (default: those of the project)")
    parser.add_argument("--directory", type=Path, help="keeps the signatures; those found there are used again")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    text = options.text.read_bytes() if options.text else _made_text()
    if len(text) < LONG_BYTES:
        parser.error(f"{options.text} has {len(text)} bytes, must have {LONG_BYTES}")
    chosen = [one for one in programs() if not options.programs or one.program in options.programs]
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        directory = options.directory or Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        traces = Traces(directory, text, Runner(LIMIT_S, 1, realtime=False))
        figures = read_published(options.speeds)
        speeds = list(compared(chosen, figures, lambda *of: read_signature(traces.of(*of)), failed.append))
    if options.json:
        print(json.dumps(document(speeds, failed), indent=2))
    else:
        show(speeds, failed)


if __name__ == "__main__":
    main()
