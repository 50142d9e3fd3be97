"""Pictures of predictions and of a triage, drawn into a figure of somebody's own, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from foretrace.base.terminal import plain
from foretrace.base.units import format_seconds
from foretrace.replay.base.records import Place

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from foretrace.replay.base.records import Prediction, Triage

_MOST_LETTERS = 36


def draw_loops(axes: Axes, prediction: Prediction, top: int) -> Axes:
    """The loops of most time as bars, the longest on top, coloured by what bounds them."""
    shown = [loop for loop in prediction.loops if loop.time_s > 0][:top]
    bounds = list(dict.fromkeys(loop.bound_by for loop in shown))
    for number, bound in enumerate(bounds):
        rows = [row for row, loop in enumerate(shown) if loop.bound_by is bound]
        axes.barh(rows, [1e3 * shown[row].time_s for row in rows], label=str(bound), color=f"C{number % 10}")
    axes.set_xlabel("time, ms")
    _name_rows(axes, [_name(loop.place, loop.label) for loop in shown])
    axes.set_title(f"{prediction.machine}: {format_seconds(prediction.time_s)}", parse_math=False)
    if shown:
        axes.legend(title="bound by", fontsize="small")
    return axes


def draw_machines(axes: Axes, predictions: Sequence[Prediction]) -> Axes:
    """Times with their intervals, a row for each machine, on a logarithmic axis."""
    for row, one in enumerate(predictions):
        reach = [[1e3 * max(one.time_s - one.low_s, 0)], [1e3 * max(one.high_s - one.time_s, 0)]]
        axes.errorbar([1e3 * one.time_s], [row], xerr=reach, fmt="o", capsize=3, color="C0")
    axes.set_xscale("log")
    axes.set_xlabel("predicted time, ms, with its interval")
    _name_rows(axes, [one.machine for one in predictions])
    return axes


def draw_triage(axes: Axes, report: Triage, top: int) -> Axes:
    """Draw the times of gather/scatter loops on host and accelerator; a star marks loops to port."""
    shown = sorted(report.instances, key=lambda one: -max(one.gain_s, one.host_s))[:top]
    rows = range(len(shown))
    axes.barh([row - 0.2 for row in rows], [1e3 * one.host_s for one in shown], height=0.4, label=report.host)
    priced = [(row + 0.2, 1e3 * one.accelerator_s) for row, one in enumerate(shown) if one.accelerator_s is not None]
    axes.barh([row for row, _ in priced], [time for _, time in priced], height=0.4, label=report.accelerator)
    axes.set_xlabel("time in the whole run, ms (*: worth porting)")
    _name_rows(axes, [_name(one.place, one.idiom) + (" *" if one.offload else "") for one in shown])
    axes.set_title(f"{report.host} with {report.accelerator}", parse_math=False)
    if shown:
        axes.legend(fontsize="small")
    return axes


def _name(place: Place, label: str) -> str:
    function = place.name
    if place.caller:
        return f"{function} {place.text}"
    where = f"{function}:{place.line}" if place.line else function or place.module
    return f"{where[:_MOST_LETTERS]} {label}"


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """A name at each row, the first on top."""
    axes.set_yticks(range(len(names)), [plain(name) for name in names], fontsize="small", parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(alpha=0.3, axis="x")
