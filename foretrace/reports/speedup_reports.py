"""Predictions by number of threads: the table, the curve in characters and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from foretrace.base.errors import ForetraceError, PredictionError
from foretrace.profiles.charts import Chart, Quantity, Series
from foretrace.replay.base.records import Limit, Prediction, Scaling
from foretrace.replay.prediction.predict import TURNS

from .model import INTEGER, RATIO, SECONDS, WHOLE_SHARE, Column, Section, Table, Text

ONE = Scaling(1.0, 1.0, 1.0, {}, Limit.NONE)
"""Scaling of one thread."""


def speedup_picture(found: Sequence[Prediction], picture_format: str) -> bytes:
    """The speed-up over the number of threads, drawn.

    Raises:
        PredictionError: there is but one number.
    """
    from .plots import draw_charts

    chart = _chart(found)
    if chart is None:
        raise PredictionError("predict: a curve needs two numbers of threads, such as --threads 1,2")
    return draw_charts([chart], "predicted speed-up", picture_format)


def _lost(one: Prediction) -> float | None:
    scaling = one.scaling or ONE
    if not scaling.lost_s:
        return None
    return sum(scaling.lost_s.values()) / one.time_s if one.time_s else 0.0


THREADS = (
    Column("machine", "machine", whole=True),
    Column("threads", "threads", INTEGER),
    Column("cores", "cores", INTEGER),
    Column("time_s", "time", SECONDS),
    Column("low_s", "low", SECONDS),
    Column("high_s", "high", SECONDS),
    Column("speedup", "speed-up", RATIO, lambda one: (one.scaling or ONE).speedup),
    Column("speedup_low", "from", RATIO, lambda one: (one.scaling or ONE).low),
    Column("speedup_high", "to", RATIO, lambda one: (one.scaling or ONE).high),
    Column(
        "speedup_bound_by", "bound by", value=lambda one: one.scaling.limit if (one.scaling or ONE).lost_s else None,
        whole=True,
    ),
    Column("lost_share", "lost", WHOLE_SHARE, _lost),
)  # fmt: skip
"""Columns of `Prediction`."""


def thread_sections(found: Sequence[Prediction], refused: Mapping[str, ForetraceError]) -> list[Section]:
    """The table, the curve and warnings."""
    legend = "lost: of the time, what an even division of the work among the threads would save; bound by: most of it"
    sections: list[Section] = [Table(THREADS, found), Text([legend])]
    if (chart := _chart(found)) is not None:
        sections += [Text([""]), chart]
    lines = [f"not predicted: {name}: {error}" for name, error in refused.items()]
    of_one_core = "" if all(one.threads == 1 for one in found) else TURNS  # the other rows are not
    for warning in dict.fromkeys(warning for one in found for warning in one.warnings):
        if not of_one_core or of_one_core not in warning:
            lines.append(f"warning: {warning}")
    return [*sections, Text(lines)]


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
