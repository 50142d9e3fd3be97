"""Predictions by number of threads: the table, the curve in characters and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from foretrace.base.errors import ForetraceError, PredictionError
from foretrace.base.file_kinds import PICTURE
from foretrace.base.files import check_output, write_atomically
from foretrace.base.terminal import console, plain, table
from foretrace.base.units import format_seconds
from foretrace.profiles.charts import Chart, Quantity, Series
from foretrace.replay.base.records import Limit, Prediction, Scaling
from foretrace.replay.prediction.predict import TURNS

ONE = Scaling(1.0, 1.0, 1.0, {}, Limit.NONE)
"""Of one thread."""


def check_curve(output: Path, *, force: bool) -> None:
    """Refuse early a picture that cannot be written.

    Raises:
        OutputError: it cannot.
    """
    from .plots import check_picture

    check_picture(output)
    check_output(output, PICTURE, force=force)


def write_curve(found: Sequence[Prediction], output: Path, *, force: bool) -> None:
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


def show_threads(found: Sequence[Prediction], refused: Mapping[str, ForetraceError]) -> None:
    """Print the table, the curve, warnings and assumptions."""
    from .terminal_charts import draw

    out = console()
    rows = table(
        "machine", "threads", "cores", "time", "low", "high", "speed-up", "from", "to", "bound by", "lost",
        left=("machine", "bound by"), whole=("machine", "bound by"),
    )  # fmt: skip
    for one in found:
        scaling = one.scaling or ONE
        times = (one.time_s, one.low_s, one.high_s)
        speedups = (f"{value:.2f}" for value in (scaling.speedup, scaling.low, scaling.high))
        lost = sum(scaling.lost_s.values()) / one.time_s if one.time_s else 0.0
        rows.add_row(
            plain(one.machine), str(one.threads), str(one.cores), *map(format_seconds, times), *speedups,
            str(scaling.limit) if scaling.lost_s else "-", f"{lost:.0%}" if scaling.lost_s else "-",
        )  # fmt: skip
    out.print(rows)
    out.print("lost: of the time, what an even division of the work among the threads would save; bound by: most of it")
    if (chart := _chart(found)) is not None:
        out.print()
        for line in draw(chart):
            out.print(plain(line), soft_wrap=True, highlight=False)
    for name, error in refused.items():
        out.print(f"not predicted: {plain(name)}: {plain(str(error))}")
    of_one_core = "" if all(one.threads == 1 for one in found) else TURNS  # the other rows are not
    for warning in dict.fromkeys(warning for one in found for warning in one.warnings):
        if of_one_core and of_one_core in warning:
            continue
        out.print(f"warning: {plain(warning)}")
    assumed = dict.fromkeys(str(text) for one in found for text in one.assumptions)
    if assumed:
        out.print("\nassumed")
        for text in assumed:
            out.print(f"  {plain(text)}")


def _chart(found: Sequence[Prediction]) -> Chart | None:
    """A curve for each machine; None if there are no two numbers of threads."""
    counts = sorted({one.threads for one in found})
    if len(counts) < 2:
        return None
    series = [
        Series(machine, tuple((float(one.threads), (one.scaling or ONE).speedup, 0.0) for one in ones), measured=True)
        for machine, ones in groupby(found, key=lambda one: one.machine)
    ]
    ideal = Series("even division", tuple((float(count), float(count), 0.0) for count in counts))
    return Chart("speed-up", Quantity.THREADS, "threads", Quantity.SPEEDUP, "speed-up", (*series, ideal))
