"""Pictures of software-defined events: recorders in their order, distributions, and values over a run; by matplotlib.

Events with the same name share axes, whatever library they are of: solvers are compared so. What follows a `::` within
a name tells instances apart, as in `FlopsPerTask::contraction=46`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foretrace.base.errors import EventsError
from foretrace.base.fitting_table import shorten
from foretrace.base.terminal import plain
from foretrace.tracer.signature.event_records import RecordedEvent

from .event_reports import EventSource, recorders, sampled
from .plots import STYLE, saved_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
Draw = Callable[["Figure", Sequence[EventSource]], list[str]]

MOST_PANELS = 12
MOST_SERIES = 24
"""In one panel."""
MOST_BARS = 80
"""In one panel of bars; more are drawn as curves of density."""
_MOST_POINTS = 4_000
_MOST_MARKED = 60
"""Points of a line that are marked."""
_MOST_LETTERS = 40
_GREATEST = 1e150
_DECADES = 2.0
"""Decades that positive values must span for a logarithmic axis."""
_DENSITY_POINTS = 400
_LINES = ("-", "--", ":", "-.")


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One event in a panel.

    Attributes:
        label: what tells it from the others.
        unit: of its values; None: not known.
        x: int64 or float64 [points].
        y: float64 [points].
        quantiles: of all values, as in `RecordedValues`; empty for events that are no recorders.
        count: how many values there are of which `y` has some.
    """

    label: str
    unit: str | None
    x: npt.NDArray[Any]
    y: Floats
    quantiles: Floats
    count: int


Panels = dict[str, list[Series]]


def draw(sources: Sequence[EventSource], drawn: Draw, picture_format: str) -> tuple[bytes, list[str]]:
    """A picture as the content of a file, and what was left out of it. `picture_format`: `svg`, ...

    Raises:
        EventsError: there is nothing to draw.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(layout="constrained")
        left_out = drawn(figure, sources)
        return saved_figure(figure, picture_format), left_out


def recorders_figure(figure: Figure, sources: Sequence[EventSource]) -> list[str]:
    """Draw the values of recorders in their order, into an empty figure. Returns what was left out."""
    panels = _panels(sources, _recorded(sources))
    if not panels:
        has_samples = any(source.events.samples for source in sources)
        hint = "; --samples draws counters over the run" if has_samples else ""
        raise EventsError(f"there is nothing to draw: no recorder has numbers{hint}")
    return _lines(figure, panels, "value recorded")


def samples_figure(figure: Figure, sources: Sequence[EventSource]) -> list[str]:
    """Draw values over the run, into an empty figure. Returns what was left out."""
    none = np.zeros(0)
    found = [
        (source, event, 100 * samples.position / max(int(samples.position[-1]), 1), values, none)
        for source in sources
        for samples in source.events.samples
        for event, values in sampled(source.events, samples)
        if len(values)
    ]
    panels = _panels(sources, found)
    if not panels:
        raise EventsError("there is nothing to draw: no event was sampled while the program ran")
    return _lines(figure, panels, "executed basic blocks, % of the run")


def distributions_figure(figure: Figure, sources: Sequence[EventSource]) -> list[str]:
    """Draw how the values of recorders are distributed, into an empty figure: bars where there are few different ones,
    else density and quartiles. Returns what was left out.
    """
    panels = _panels(sources, _recorded(sources))
    panels = {name: [one for one in series if len(one.quantiles)] for name, series in panels.items()}
    panels, left_out = _bounded({name: series for name, series in panels.items() if series})
    if not panels:
        raise EventsError("there is nothing to draw: no recorder has numbers")
    levels = [_levels(series) for series in panels.values()]
    heights = [
        3.6 if of_bars is not None else 1.1 + 0.55 * len(series)
        for of_bars, series in zip(levels, panels.values(), strict=True)
    ]
    figure.set_size_inches(8, sum(heights))
    rows = figure.subplots(len(panels), squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for axes, (name, series), of_bars in zip(rows, panels.items(), levels, strict=True):
        if of_bars is None:
            _densities(axes, series)
        else:
            _bars(axes, series, of_bars)
        axes.set_title(name, parse_math=False)
    return left_out


def _recorded(sources: Sequence[EventSource]) -> list[tuple[EventSource, RecordedEvent, Any, Any, Floats]]:
    return [
        (source, event, event.values.kept_index + 1, event.values.kept, event.values.quantiles)
        for source, event in recorders(sources)
        if event.values is not None and event.values.are_numbers and len(event.values.kept)
    ]


def _panels(
    sources: Sequence[EventSource], found: Sequence[tuple[EventSource, RecordedEvent, Any, Any, Floats]]
) -> Panels:
    """Series by what their panel is called. Their labels name the source where they would be the same without."""
    many_processes = {id(source): len({event.process for event in source.events.events}) > 1 for source in sources}
    labels = []
    for source, event, *_ in found:
        name, _, instance = event.name.partition("::")
        process = f"process {event.process}" if many_processes[id(source)] else ""
        labels.append((name, (event.library, instance, process)))
    are_unique = len(set(labels)) == len(labels)
    panels: Panels = {}
    for (name, parts), (source, event, x, y, quantiles) in zip(labels, found, strict=True):
        label = " ".join(part for part in (*parts, "" if are_unique else f"({source.title})") if part)
        values = _drawable(np.asarray(y, np.float64))
        series = Series(_shortened(label), event.unit, x, values, _drawable(quantiles), int(event.value or 0))
        panels.setdefault(_shortened(name), []).append(series)
    return panels


def _drawable(values: Floats) -> Floats:
    """Values without those that axes cannot have: they are drawn as gaps, or 0."""
    size = np.abs(values)
    return np.where(size > _GREATEST, np.nan, np.where(size < 1 / _GREATEST, 0.0, values))


def _shortened(name: str) -> str:
    return shorten(plain(name[:10_000]), _MOST_LETTERS)


def _bounded(panels: Panels) -> tuple[Panels, list[str]]:
    """The panels and series that a picture can show, and a text for each part left out."""
    shown = {name: series[:MOST_SERIES] for name, series in list(panels.items())[:MOST_PANELS]}
    left_out = [
        f"{len(panels[name]) - MOST_SERIES} of {len(panels[name])} events called {name}"
        for name, series in shown.items()
        if len(series) < len(panels[name])
    ]
    if len(shown) < len(panels):
        left_out.append(f"the events of {len(panels) - len(shown)} of {len(panels)} names")
    return shown, left_out


def _lines(figure: Figure, every: Panels, x_title: str) -> list[str]:
    panels, left_out = _bounded(every)
    figure.set_size_inches(8, (4 if len(panels) < 3 else 2.8) * len(panels))
    for axes, (name, series) in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels.items(), strict=True):
        for number, one in enumerate(series):
            x, y = thinned(one.x, one.y)
            marker = "." if len(y) <= _MOST_MARKED else ""
            axes.plot(x, y, color=_colour(number), linestyle=_line(number), linewidth=1.3, marker=marker, markersize=4)
        if _is_logarithmic(np.concatenate([one.y for one in series])):
            axes.set_yscale("log")
        axes.set_xlabel(x_title)
        axes.set_ylabel(_unit(series), parse_math=False)
        axes.set_title(name, parse_math=False)
        axes.grid(alpha=0.3)
        _legend(axes, series)
    return left_out


def thinned(x: npt.NDArray[Any], y: Floats) -> tuple[npt.NDArray[Any], Floats]:
    """At most `_MOST_POINTS` points with the same look: of each stretch the least and the greatest value stay."""
    if len(y) <= _MOST_POINTS:
        return x, y
    edges = np.linspace(0, len(y), _MOST_POINTS // 2 + 1).astype(np.int64)
    stretches = [slice(first, last) for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
    low, high = (
        [part.start + int(find(np.where(np.isnan(y[part]), instead, y[part]))) for part in stretches]
        for find, instead in ((np.argmin, np.inf), (np.argmax, -np.inf))
    )
    kept = np.unique([*low, *high])
    return x[kept], y[kept]


def _is_logarithmic(values: Floats) -> bool:
    """Whether all values are positive, and span decades."""
    finite = values[np.isfinite(values)]
    if not len(finite) or np.min(finite) <= 0:
        return False
    return bool(np.log10(np.max(finite)) - np.log10(np.min(finite)) >= _DECADES)


def _colour(number: int) -> str:
    return f"C{number % 10}"


def _line(number: int) -> Any:
    return _LINES[number // 10 % len(_LINES)]


def _unit(series: Sequence[Series]) -> str:
    """Unit that all series share; "" if they have several."""
    units = {one.unit for one in series}
    return plain(units.pop() or "") if len(units) == 1 else ""


def _legend(axes: Axes, series: Sequence[Series], kind: str = "line") -> None:
    """Names beside the axes. matplotlib leaves out those that begin with an underscore, and reads mathematics."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Patch(color=_colour(number))
        if kind == "bar"
        else Line2D([], [], color=_colour(number), linestyle=_line(number))
        for number in range(len(series))
    ]
    labels = [f" {one.label}" if one.label.startswith("_") else one.label for one in series]
    legend = axes.legend(handles, labels, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _levels(series: Sequence[Series]) -> Floats | None:
    """The different values of recorders that have few of them."""
    levels = np.unique(np.concatenate([one.y for one in series]))
    few = len(levels) * len(series) <= MOST_BARS and np.all(np.isfinite(levels))
    is_less_than_all = len(levels) < sum(len(one.y) for one in series)
    return levels if few and is_less_than_all else None


def _bars(axes: Axes, series: Sequence[Series], levels: Floats) -> None:
    """Draw how often each value was recorded, with a bar for each recorder."""
    width = 0.8 / len(series)
    is_estimate = False
    for number, one in enumerate(series):
        counts = Counter(np.searchsorted(levels, one.y).tolist())
        is_estimate |= one.count > len(one.y)
        heights = [counts[level] * one.count / len(one.y) for level in range(len(levels))]
        at = np.arange(len(levels)) - 0.4 + (number + 0.5) * width
        axes.bar(at, heights, width=width, color=_colour(number))
    axes.set_xticks(range(len(levels)), [f"{level:.10g}" for level in levels.tolist()])
    if len(levels) > 12:
        axes.tick_params(axis="x", rotation=60, labelsize=8)
    axes.set_xlabel(_unit(series) or "value", parse_math=False)
    axes.set_ylabel("values (estimated)" if is_estimate else "values")
    axes.grid(alpha=0.3, axis="y")
    _legend(axes, series, "bar")


def _with_margin(values: Floats, *, is_logarithmic: bool) -> tuple[float, float]:
    """Limits of an axis."""
    low, high = float(np.min(values)), float(np.max(values))
    if is_logarithmic:
        margin = (high / low) ** 0.03
        return low / margin, high * margin
    margin = 0.03 * (high - low) or 0.03 * abs(high) or 1.0
    return low - margin, high + margin


def _densities(axes: Axes, series: Sequence[Series]) -> None:
    """Density and quartiles of each recorder, a row each; a line reaches from 5 to 95 %."""
    from matplotlib.mlab import GaussianKDE

    finite = [one.quantiles[np.isfinite(one.quantiles)] for one in series]
    has_any = [values for values in finite if len(values)]
    is_logarithmic = bool(has_any) and _is_logarithmic(np.concatenate(has_any))
    if is_logarithmic:
        axes.set_xscale("log")
    for row, values in enumerate(finite):
        if not len(values):
            continue
        colour = _colour(row)
        if values[0] < values[-1]:
            scaled = np.log10(values) if is_logarithmic else values
            share = (scaled - scaled[0]) / (scaled[-1] - scaled[0])
            places = np.linspace(0, 1, _DENSITY_POINTS)
            density = GaussianKDE(share)(places)
            reach = 0.38 * density / np.max(density)
            at = scaled[0] + places * (scaled[-1] - scaled[0])
            at = np.power(10.0, at) if is_logarithmic else at
            axes.fill_between(at, row - reach, row + reach, color=colour, alpha=0.4, linewidth=0)
        low, q1, median, q3, high = np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95)).tolist()
        axes.plot([low, high], [row, row], color="black", linewidth=0.8)
        axes.barh([row], [q3 - q1], left=q1, height=0.2, color="white", edgecolor="black", linewidth=0.8, zorder=2)
        axes.plot([median], [row], color="black", marker="|", markersize=9, linestyle="", zorder=3)
        axes.plot(values[[0, -1]], [row, row], color=colour, marker="|", markersize=7, linestyle="")
    if has_any:
        axes.set_xlim(*_with_margin(np.concatenate(has_any), is_logarithmic=is_logarithmic))
    names = [f"{one.label} ({one.count:,})" for one in series]
    axes.set_yticks(range(len(series)), names, fontsize="small", parse_math=False)
    axes.set_ylim(len(series) - 0.4, -0.6)
    axes.set_xlabel(_unit(series) or "value", parse_math=False)
    axes.grid(alpha=0.3, axis="x")
