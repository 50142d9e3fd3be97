"""Curves drawn with characters."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

from foretrace.profiles.charts import Chart, Series

WIDTH, HEIGHT = 64, 14
MARKS = "*o+x#@%&=~"
MAX_SERIES = len(MARKS)


def draw(chart: Chart) -> list[str]:
    """A chart as lines of text: a frame, one character for each series, what they stand for.

    The first of several series on the same spot is seen. At most `MAX_SERIES` are drawn, and it says so.
    """
    series = chart.series[:MAX_SERIES]
    xs = [x for one in series for x, _, _ in one.points]
    ys = [y for one in series for _, y, _ in one.points]
    logarithmic = chart.x.is_logarithmic
    columns = [_between(min(xs), max(xs), k / (WIDTH - 1), logarithmic=logarithmic) for k in range(WIDTH)]
    low, high = min(ys), max(ys)
    grid = [[" "] * WIDTH for _ in range(HEIGHT)]
    for mark, one in reversed(list(zip(MARKS, series, strict=False))):
        for column, x in enumerate(columns):
            if (y := _value_at(one, x, logarithmic=logarithmic)) is not None:
                grid[_row(y, low, high)][column] = mark
    labels = {0: chart.y.shown(high), HEIGHT - 1: chart.y.shown(low)}
    labels[HEIGHT // 2] = chart.y.shown(_between(high, low, (HEIGHT // 2) / (HEIGHT - 1)))
    margin = max(len(text) for text in labels.values())
    lines = [f"{chart.title} ({chart.y_title} by {chart.x_title})"]
    lines += [f"{labels.get(row, ''):>{margin}} |{''.join(cells).rstrip()}" for row, cells in enumerate(grid)]
    lines.append(" " * margin + " +" + "-" * WIDTH)
    first, last = chart.x.shown(columns[0]), chart.x.shown(columns[-1])
    middle = chart.x.shown(columns[WIDTH // 2])
    lines.append(" " * (margin + 2) + first + middle.center(WIDTH - len(first) - len(last)) + last)
    lines += [f"{'':>{margin}}  {mark} {one.title}" for mark, one in zip(MARKS, series, strict=False)]
    if len(chart.series) > MAX_SERIES:
        lines.append(f"{'':>{margin}}  and {len(chart.series) - MAX_SERIES} more: draw a picture with -o")
    return lines


def _between(first: float, last: float, part: float, *, logarithmic: bool = True) -> float:
    """The value at a part of the way along an axis."""
    if part in (0.0, 1.0):
        return first if part == 0.0 else last
    if not logarithmic:
        return first + part * (last - first)
    return math.exp(math.log(first) + part * (math.log(last) - math.log(first)))


def _row(y: float, low: float, high: float) -> int:
    part = 0.5 if high <= low else (math.log(high) - math.log(y)) / (math.log(high) - math.log(low))
    return round(min(max(part, 0.0), 1.0) * (HEIGHT - 1))


def _value_at(series: Series, x: float, *, logarithmic: bool) -> float | None:
    """A series' value between its points, at a place on the x axis; None beyond them."""
    xs: Sequence[float] = [point[0] for point in series.points]
    right = bisect_left(xs, x)
    if right == len(xs) or x < xs[0]:
        return None
    if xs[right] == x:
        return series.points[right][1]
    (x0, y0, _), (x1, y1, _) = series.points[right - 1 : right + 1]
    part = math.log(x / x0) / math.log(x1 / x0) if logarithmic else (x - x0) / (x1 - x0)
    return _between(y0, y1, part)
