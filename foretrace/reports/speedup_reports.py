"""Predictions by number of threads: the table, the curve in characters and as a picture, and the JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretrace.errors import ForetraceError, PredictionError
from foretrace.file_kinds import PICTURE
from foretrace.files import check_output, write_atomically
from foretrace.profiles.charts import Chart, Quantity, Series
from foretrace.profiles.clock import at_clock
from foretrace.profiles.profile import Profile
from foretrace.replay.predict import TURNS
from foretrace.terminal import console, plain, table
from foretrace.tracer.signature.records import Signature
from foretrace.units import format_seconds

from .prediction_documents import document

if TYPE_CHECKING:
    from foretrace.replay.node.speedup import ThreadedPrediction


def predict_with_threads(
    signature: Signature, profiles: Iterable[Profile], counts: tuple[int, ...], clock_ghz: float | None = None
) -> tuple[tuple[ThreadedPrediction, ...], dict[str, ForetraceError]]:
    """Predictions by machine and number of threads, and why there are none for some machines."""
    from foretrace.replay.node.speedup import predict_threads

    found: list[ThreadedPrediction] = []
    refused: dict[str, ForetraceError] = {}
    for profile in profiles:
        try:
            clocked = profile if clock_ghz is None else at_clock(profile, clock_ghz * 1e9)
            found += predict_threads(signature, clocked, counts)
        except ForetraceError as error:
            refused[profile.name] = error
    return tuple(found), refused


def check_curve(output: Path, *, force: bool) -> None:
    """Refuse early a picture that cannot be written.

    Raises:
        OutputError: it cannot.
    """
    from .plots import check_picture

    check_picture(output)
    check_output(output, PICTURE, force=force)


def write_curve(found: tuple[ThreadedPrediction, ...], output: Path, *, force: bool) -> None:
    """Draw the speed-up over the number of threads.

    Raises:
        PredictionError: there is but one number.
        OutputError: the file cannot be written.
    """
    from .plots import draw_charts

    chart = _chart(found)
    if chart is None:
        raise PredictionError("predict: a curve needs two numbers of threads, such as --threads 1,2")
    write_atomically(output, draw_charts([chart], "predicted speed-up", output.suffix[1:]), PICTURE, force=force)


def threads_document(found: tuple[ThreadedPrediction, ...], refused: Mapping[str, ForetraceError]) -> dict[str, Any]:
    """The JSON of `predict`, with one prediction for each machine and number of threads."""
    made = document(tuple(one.prediction for one in found), refused)
    for row, one in zip(made["predictions"], found, strict=True):
        row |= {
            "speedup": one.speedup,
            "speedup_low": one.low,
            "speedup_high": one.high,
            "speedup_bound_by": str(one.limit),
            "lost_s": {str(limit): lost_s for limit, lost_s in one.lost_s.items()},
        }
    return made


def show_threads(found: tuple[ThreadedPrediction, ...], refused: Mapping[str, ForetraceError]) -> None:
    """Print the table, the curve, warnings and assumptions."""
    from .terminal_charts import draw

    out = console()
    rows = table(
        "machine", "threads", "time", "low", "high", "speed-up", "from", "to", "bound by", "lost",
        left=("machine", "bound by"), whole=("machine", "bound by"),
    )  # fmt: skip
    for one in found:
        prediction = one.prediction
        times = (prediction.time_s, prediction.low_s, prediction.high_s)
        speedups = (f"{value:.2f}" for value in (one.speedup, one.low, one.high))
        lost = sum(one.lost_s.values()) / prediction.time_s if prediction.time_s else 0.0
        rows.add_row(
            plain(prediction.machine), str(prediction.threads), *map(format_seconds, times), *speedups,
            str(one.limit) if one.lost_s else "-", f"{lost:.0%}" if one.lost_s else "-",
        )  # fmt: skip
    out.print(rows)
    out.print("lost: of the time, what an even division of the work among the threads would save; bound by: most of it")
    if (chart := _chart(found)) is not None:
        out.print()
        for line in draw(chart):
            out.print(plain(line), soft_wrap=True, highlight=False)
    for name, error in refused.items():
        out.print(f"not predicted: {plain(name)}: {plain(str(error))}")
    of_one_core = "" if all(one.prediction.threads == 1 for one in found) else TURNS  # the other rows are not
    for warning in dict.fromkeys(warning for one in found for warning in one.prediction.warnings):
        if of_one_core and of_one_core in warning:
            continue
        out.print(f"warning: {plain(warning)}")
    assumed = dict.fromkeys(str(text) for one in found for text in one.prediction.assumptions)
    if assumed:
        out.print("\nassumed")
        for text in assumed:
            out.print(f"  {plain(text)}")


def _chart(found: tuple[ThreadedPrediction, ...]) -> Chart | None:
    """A curve for each machine; None if there are no two numbers of threads."""
    counts = sorted({one.prediction.threads for one in found})
    if len(counts) < 2:
        return None
    series = [
        Series(machine, tuple((float(one.prediction.threads), one.speedup, 0.0) for one in ones), measured=True)
        for machine, ones in groupby(found, key=lambda one: one.prediction.machine)
    ]
    ideal = Series("even division", tuple((float(count), float(count), 0.0) for count in counts))
    return Chart("speed-up", Quantity.THREADS, "threads", Quantity.SPEEDUP, "speed-up", (*series, ideal))
