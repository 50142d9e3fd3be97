"""Pictures, drawn by matplotlib where it is installed (`pip install 'foretrace[plot]'`)."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from foretrace.base.errors import OutputError
from foretrace.base.file_kinds import PICTURE_CREATOR
from foretrace.base.terminal import plain
from foretrace.base.units import format_bytes, format_seconds

from .replay_groups import ThreadGroup, groups_of
from .timeline_bars import IDLE, NOT_KEPT, bars_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from foretrace.profiles.charts import Chart, Quantity
    from foretrace.replay.engine.outcome import Outcome
    from foretrace.replay.memory.miss_curves import Curve

FORMATS = (".svg", ".png", ".pdf")
STYLE: Any = {"svg.hashsalt": "foretrace", "svg.fonttype": "none"}


def check_picture(path: Path) -> None:
    """Refuse a picture early that could not be drawn.

    Raises:
        OutputError: its name ends in none of `FORMATS`, or matplotlib is missing.
    """
    if path.suffix not in FORMATS:
        raise OutputError(f"{path}: a picture's name must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise OutputError(
            f"{path}: pictures need matplotlib; install it with: pip install 'foretrace[plot]' "
            "(without -o curves are shown in the terminal)"
        ) from None


def draw_curves(curves: list[Curve], title: str, picture_format: str) -> bytes:
    """Miss ratio over cache size, with twice the standard error where it is known. `picture_format`: `svg`, ..."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        curve_axes(figure.add_subplot(), curves, title)
        return saved_figure(figure, picture_format)


def curve_axes(axes: Axes, curves: Sequence[Curve], title: str) -> Axes:
    """Draw miss ratio over cache size into the caller's axes, with twice the standard error where it is known."""
    for curve in curves:
        sizes = [point.size_bytes for point in curve.points]
        ratios = [100 * point.miss_ratio for point in curve.points]
        errors = [200 * (point.standard_error or 0) for point in curve.points]
        axes.errorbar(sizes, ratios, yerr=errors, marker="o", markersize=3, capsize=2, label=curve.title)
    sizes = sorted({point.size_bytes for curve in curves for point in curve.points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [format_bytes(size) for size in sizes], rotation=45, ha="right")
    axes.set_xlabel("cache size")
    axes.set_ylabel("accesses that miss, %")
    axes.set_ylim(bottom=0)
    axes.set_title(title, parse_math=False)
    axes.grid(alpha=0.3)
    axes.legend()
    return axes


def draw_charts(charts: Sequence[Chart], title: str, picture_format: str) -> bytes:
    """A machine's charts below each other, noise as bars."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.4 * len(charts) + 0.4), layout="constrained")
        return saved_figure(charts_figure(figure, charts, title), picture_format)


def charts_figure(figure: Figure, charts: Sequence[Chart], title: str) -> Figure:
    """Draw a machine's charts below each other into the caller's figure, which is empty."""
    figure.suptitle(title, parse_math=False)
    panels = figure.subplots(len(charts), squeeze=False)
    for chart, axes in zip(charts, panels[:, 0], strict=True):
        _draw_chart(chart, axes)
    return figure


def _draw_chart(chart: Chart, axes: Axes) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    from foretrace.profiles.charts import Quantity

    for series in chart.series:
        xs, ys, noise = zip(*series.points, strict=True)
        # Noise only adds time: the figure is that of the shortest, the bar ends at the median.
        slower = chart.y is Quantity.TIME
        above = [y * n if slower else 0 for y, n in zip(ys, noise, strict=True)]
        below = [0 if slower else y - y / (1 + n) for y, n in zip(ys, noise, strict=True)]
        axes.errorbar(
            xs, ys, yerr=(below, above) if any(noise) else None, marker="o" if series.measured else "", markersize=3,
            capsize=2, label=series.title,
        )  # fmt: skip
    if chart.x.is_logarithmic:
        axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    for axis, quantity in ((axes.xaxis, chart.x), (axes.yaxis, chart.y)):
        axis.set_major_formatter(_labels(quantity))
    axes.set_xlabel(chart.x_title)
    axes.set_ylabel(chart.y_title)
    axes.set_title(chart.title, parse_math=False)
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))


def _labels(quantity: Quantity) -> Callable[[float, float], str]:
    return lambda value, _: quantity.shown(value)


def saved_figure(figure: Figure, picture_format: str) -> bytes:
    """A figure as the content of a file. `picture_format`: `svg`, ..."""
    picture = io.BytesIO()
    metadata = {"svg": {"Creator": PICTURE_CREATOR, "Date": None}, "png": {"Software": PICTURE_CREATOR}}
    creator = metadata.get(picture_format, {"Creator": PICTURE_CREATOR})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # letters that matplotlib's font lacks, in names
        figure.savefig(picture, format=picture_format, dpi=150, metadata=creator)
    return picture.getvalue()


def draw_predictions(points: list[tuple[str, float, float, float, float]], picture_format: str) -> bytes:
    """Predicted relative to measured time, a line a program. `points`: name, measured_s, predicted_s, low_s, high_s."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    ordered = sorted(points, key=lambda point: point[2] / point[1])
    with matplotlib.rc_context({"svg.hashsalt": "foretrace", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7.5, 1.2 + 0.19 * len(ordered)), layout="constrained")
        axes = figure.add_subplot()
        axes.axvspan(0.85, 1.15, alpha=0.15, label="within 15 %")
        axes.axvline(1, color="black", linewidth=1)
        for row, (_, measured_s, predicted_s, low_s, high_s) in enumerate(ordered):
            ratio, low, high = (time_s / measured_s for time_s in (predicted_s, low_s, high_s))
            colour = "tab:blue" if low <= 1 <= high else "tab:red"
            reach = [[max(ratio - low, 0)], [max(high - ratio, 0)]]
            axes.errorbar([ratio], [row], xerr=reach, fmt="o", markersize=4, linewidth=0.8, color=colour)
        axes.set_yticks(range(len(ordered)), [f"{name}, {format_seconds(time_s)}" for name, time_s, *_ in ordered])
        axes.tick_params(axis="y", labelsize=7)
        axes.set_ylim(-1, len(ordered))
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator([0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("predicted / measured, with the interval (red: measured time outside)")
        axes.grid(alpha=0.3, axis="x")
        axes.legend(loc="lower right")
        return saved_figure(figure, picture_format)


MOST_ROWS = 64
MOST_BARS = 2_000
"""Rows of a picture, and bars of a row: twice as many as it is wide in points."""
_COLOURS = {
    "run": "#4477aa", "device": "#228833", "sleep": "#bbbbbb", "folded": "#99bbdd", "barrier": "#ee6677",
    "lock": "#aa3377", "wait": "#ccbb44", "join": "#dddddd", "queue": "#ee9966", "decision": "#000000",
    "partner": "#ee6677", "transfer": "#ccbb44",
    IDLE: "#f4f4f4", NOT_KEPT: "#ffe0b0",
}  # fmt: skip
_MOST_BEYOND = 1.5
"""Multiple of the makespan up to which the upper end of its interval is drawn."""


class TimelineSource(Protocol):
    """A replay with a timeline: of threads or of ranks."""

    @property
    def outcome(self) -> Outcome:
        """The simulation's result."""

    @property
    def machine(self) -> str:
        """Name of the machine."""

    @property
    def timeline_title(self) -> str:
        """The machine, and how much of it was used."""

    @property
    def makespan_s(self) -> float:
        """End of the last entity, within `low_s` and `high_s`."""

    @property
    def low_s(self) -> float:
        """Lower end of the makespan's interval."""

    @property
    def high_s(self) -> float:
        """Upper end of the makespan's interval."""


def draw_timeline(replay: TimelineSource, picture_format: str) -> bytes:
    """A Gantt chart: a row for all entities that did the same at the same times (the first `MOST_ROWS` rows)."""
    import matplotlib
    from matplotlib.figure import Figure

    rows = min(len(timeline_groups(replay)), MOST_ROWS)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 2.1 + 0.28 * rows), layout="constrained")
        gantt(figure.add_subplot(), replay)
        return saved_figure(figure, picture_format)


def timeline_groups(replay: TimelineSource) -> list[ThreadGroup]:
    """Entities with the same timeline, to a millionth of the makespan."""
    outcome = replay.outcome
    scale = 1e6 / (outcome.makespan_s or 1.0)
    order = np.argsort(outcome.segments["entity"], kind="stable")
    segments = outcome.segments[order]
    ends = np.searchsorted(segments["entity"], np.arange(len(outcome.compiled.entities) + 1))
    times = np.stack(
        [np.rint(segments["start_s"] * scale), np.rint(segments["end_s"] * scale), segments["kind"]], axis=1
    )

    def key(number: int) -> tuple[bytes, int]:
        own = times[ends[number] : ends[number + 1]].astype(np.int64)
        return own.tobytes(), int(np.rint(outcome.end_s[number] * scale))

    return groups_of([entity.name for entity in outcome.compiled.entities], key)


def gantt(axes: Axes, replay: TimelineSource) -> Axes:
    """Draw the timeline of a replay into the caller's axes."""
    from matplotlib.patches import Patch

    outcome = replay.outcome
    groups = timeline_groups(replay)[:MOST_ROWS]
    makespan_s = outcome.makespan_s or 1.0
    limit_s = min(max(replay.high_s, makespan_s), _MOST_BEYOND * makespan_s)
    seen: dict[str, None] = {}
    for row, group in enumerate(groups):
        number = group.members[0]
        own = outcome.segments[outcome.segments["entity"] == number]
        bars = bars_of(
            own, makespan_s, MOST_BARS, end_s=float(outcome.end_s[number]), are_all=not outcome.segments_left_out
        )
        seen |= dict.fromkeys(bar.kind for bar in bars)
        spans = [(bar.start_s, bar.end_s - bar.start_s) for bar in bars]
        axes.broken_barh(
            spans, (row - 0.4, 0.8), color=[_COLOURS[bar.kind] for bar in bars], linewidth=0, antialiased=False
        )
    axes.set_yticks(range(len(groups)), [plain(group.title) for group in groups], parse_math=False)
    axes.set_ylim(len(groups) - 0.4, -1.4)
    axes.set_xlim(0, limit_s * 1.02)
    axes.set_xlabel("time, s")
    axes.set_title(plain(replay.timeline_title), parse_math=False)
    handles: list[Any] = [Patch(color=_COLOURS[kind], label=kind) for kind in _COLOURS if kind in seen]
    axes.legend(
        handles=[*_interval(axes, replay, limit_s), *handles], loc="upper left", bbox_to_anchor=(1, 1), fontsize=8
    )
    return axes


def _interval(axes: Axes, replay: TimelineSource, limit_s: float) -> list[Artist]:
    """The makespan with its interval, above the first row; an arrow where its end lies beyond the picture."""
    line = axes.axvline(replay.makespan_s, color="black", linewidth=1)
    line.set_label("makespan")
    if replay.low_s == replay.high_s:
        return [line]
    ends = (replay.low_s, min(replay.high_s, limit_s))
    is_beyond = replay.high_s > limit_s
    (span,) = axes.plot(ends, (-0.9, -0.9), color="black", linewidth=1.2, marker="|", markersize=7, markevery=[0])
    axes.plot([ends[1]], [-0.9], color="black", marker=">" if is_beyond else "|", markersize=5 if is_beyond else 7)
    axes.plot([replay.makespan_s], [-0.9], color="black", marker="o", markersize=4)
    span.set_label(f"{format_seconds(replay.low_s)} to {format_seconds(replay.high_s)}")
    return [line, span]
