"""The curves of a machine: what is drawn, and where on the paper."""

import pytest
from msgspec.structs import replace

from foretrace.profiles.charts import BEYOND, Chart, Quantity, Series, charts_of
from foretrace.profiles.library import find, names
from foretrace.profiles.profile import LatencyPoint
from foretrace.reports.terminal_charts import HEIGHT, MARKS, WIDTH, draw

KB, MB = 1024, 1 << 20


def chart(*series):
    return Chart("loads", Quantity.SIZE, "working set", Quantity.TIME, "latency", series)


def rows_of(lines, mark):
    """(row, column) of a mark inside the frame."""
    frame = [line.partition("|")[2] for line in lines[1 : 1 + HEIGHT]]
    return [(row, column) for row, text in enumerate(frame) for column, cell in enumerate(text) if cell == mark]


@pytest.mark.parametrize("name", [name for name in names() if name != "bluegene-p"])  # nobody published one of its
def test_every_machine_has_a_curve_that_fits_the_terminal(name):
    charts = charts_of(find(name))
    assert charts
    for one in charts:
        lines = draw(one)
        assert all(len(line) <= WIDTH + 16 for line in lines[:-1])
        assert len(lines) >= HEIGHT + 4
        assert rows_of(lines, MARKS[0])


def test_published_latencies_are_steps_from_level_to_level():
    (latency, *_) = charts_of(find("jaguar-xt4"))
    (series,) = latency.series
    l3_size = find("jaguar-xt4").caches[2].size_bytes
    assert series.points[0] == (1024.0, 1.43e-9, 0.0)
    assert series.points[1:3] == ((64 * KB, 1.43e-9, 0.0), (64 * KB, 5.71e-9, 0.0))
    assert series.points[-1] == (BEYOND * l3_size, 85e-9, 0.0)
    assert not series.measured


def test_a_level_without_a_published_latency_is_a_gap():
    (latency, *_) = charts_of(find("xeon-platinum-8360y"))
    near, far = latency.series
    assert near.title == "L1, L2, as published"
    assert far.title == "main memory, as published"
    assert near.points[-1][0] == 1280 * KB
    assert far.points[0][0] == 54 * MB


def test_measured_points_stand_in_place_of_published_ones():
    measured = replace(
        find("jaguar-xt4"), latency=(LatencyPoint(8 * MB, 90e-9, "amd", 0.1), LatencyPoint(4 * KB, 1e-9, "amd"))
    )
    (latency, *_) = charts_of(measured)
    (series,) = latency.series
    assert series.measured
    assert series.points == ((4 * KB, 1e-9, 0.0), (8 * MB, 90e-9, 0.1))


def test_the_convey_curve_is_drawn_with_its_jump():
    (gather,) = charts_of(find("convey-hc1-fpga"))
    assert gather.title == "gather and scatter"
    (series,) = gather.series
    xs = [x for x, _, _ in series.points]
    assert xs == sorted(xs)
    assert {x: y for x, y, _ in series.points}[3 * MB - 1] == pytest.approx(44.05727e9)
    assert series.points[-1] == (BEYOND * 3 * MB, 48e9, 0.0)


def test_axes_are_logarithmic():
    lines = draw(chart(Series("a", ((1024.0, 1e-9, 0.0), (float(1 << 20), 1e-7, 0.0)))))
    marks = rows_of(lines, "*")
    assert (0, WIDTH - 1) in marks
    assert (HEIGHT - 1, 0) in marks
    assert len(marks) == WIDTH
    middle = [row for row, column in marks if column == WIDTH // 2]
    assert middle == pytest.approx([HEIGHT // 2], abs=1)
    assert lines[1].strip().startswith("100 ns |")
    assert "1 KiB" in lines[HEIGHT + 2]
    assert lines[HEIGHT + 2].endswith("1 MiB")


def test_more_curves_than_marks_are_counted():
    many = [Series(str(k), ((1024.0, k * 1e-9, 0.0), (4096.0, k * 1e-9, 0.0))) for k in range(1, 14)]
    lines = draw(chart(*many))
    assert lines[-1].endswith("and 3 more: draw a picture with -o")


def test_a_single_point_can_be_drawn():
    assert rows_of(draw(chart(Series("a", ((1024.0, 1e-9, 0.0),)))), "*")
