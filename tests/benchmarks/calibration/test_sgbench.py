"""SGBench as a verb: what it prints, draws and refuses; and what its loops do to their arrays."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from foretrace.base.errors import CalibrationError
from foretrace.benchmarks.calibration import sgbench
from foretrace.benchmarks.calibration.sgbench import Loop, curves, loop_measurements, run_sgbench
from foretrace.benchmarks.harness import sampling
from foretrace.benchmarks.harness.sampling import Room
from foretrace.commands.sgbench import command
from foretrace.profiles.charts import gather_scatter_charts
from foretrace.profiles.points import IndexMode
from foretrace.profiles.profile import CurvePoint, GatherScatterCurve

KIB = 1 << 10


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    def measure(measurements, **options):
        sampling.measure(measurements, **(options | {"sample_s": 1e-6, "passes": 2, "budget_s": 0.0}))

    monkeypatch.setattr(sgbench, "measure", measure)


def run(*arguments):
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def test_the_report_has_a_row_for_each_range():
    result = run("--quick", "--largest", "16K", "--mode", "random", "--mode", "stride-1")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[:2] for line in lines[-3:]] == [["1", "KiB"], ["4", "KiB"], ["16", "KiB"]]
    assert len(lines[-1]) == 2 + 2 * 6, "three operations in two modes, each a number and a unit"


def test_json_has_the_curves():
    result = run("--quick", "--largest", "16K", "--json", "--element-bytes", "4", "--mode", "spread")
    printed = json.loads(result.stdout)
    assert printed["schema"] == "foretrace.sgbench/1"
    assert [c["operations"] for c in printed["curves"]] == [["gather"], ["scatter"], ["update"]]
    for curve in printed["curves"]:
        assert (curve["index_mode"], curve["element_bytes"], curve["threads"]) == ("spread", 4, 1)
        assert [p["range_bytes"] for p in curve["points"]] == [KIB, 4 * KIB, 16 * KIB]
        assert all(p["bandwidth_bytes_per_s"] > 0 for p in curve["points"])


def test_pictures_are_written_and_not_overwritten(tmp_path):
    picture = tmp_path / "x.svg"
    arguments = ("--quick", "--largest", "4K", "-o", str(picture), "-o", str(tmp_path / "x.png"))
    assert run(*arguments).exit_code == 0
    text = picture.read_text()
    for words in ("gather, stride-1", "scatter, random", "update, spread", "address range"):
        assert words in text
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(Exception, match="exists already"):
        run(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--largest", "3K"), "is not a power of two"),
        (("--largest", "x"), "is not a power of two"),
        (("--largest", "32G"), "is not a power of two"),
        (("--offset-bytes", "8"), "multiple of 64"),
        (("--threads", "1024"), "this process may use"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_more_memory_than_there_is_is_refused(monkeypatch):
    monkeypatch.setattr(sgbench, "memory_bytes", lambda: (1 << 20, 1 << 20))
    with pytest.raises(CalibrationError, match="needs 5 MiB of memory, more than half of the 1 MiB that are free"):
        run_sgbench([Loop("gather", IndexMode.RANDOM, 8, 1, 1 << 20)], quick=True)


@pytest.mark.parametrize("offset_bytes", [0, 64, 33 * 64])
@pytest.mark.parametrize("threads", [1, 2])
def test_loops_of_any_layout_run(offset_bytes, threads):
    loops = [
        Loop(operation, mode, element, threads, 4 * KIB)
        for operation in sgbench.OPERATIONS
        for mode in IndexMode
        for element in sgbench.ELEMENT_BYTES
    ]
    found = loop_measurements(loops, room=Room(KIB, KIB), offset_bytes=offset_bytes)
    assert set(found) == set(loops)
    for loop, measurement in found.items():
        elements = 4 * KIB // loop.element_bytes // (1 if loop.index_mode is IndexMode.STRIDE_1 else 4)
        _, operations = measurement.run(1)
        assert operations == threads * min(elements, 1024), loop


def test_offsets_are_from_the_beginning_of_a_page():
    arrays = sgbench._Arrays.of(8 * KIB, 192)
    assert np.frombuffer(arrays.a, dtype=np.uint8).ctypes.data % 4096 == 0
    assert arrays.b.ctypes.data % 4096 == 192
    index = sgbench._at(np.arange(100, dtype=np.uint32), 384)
    assert index.ctypes.data % 4096 == 384
    assert np.array_equal(index, np.arange(100))


def test_threads_add_up():
    loop = Loop("gather", IndexMode.RANDOM, 8, 2, KIB)
    other = Loop("gather", IndexMode.RANDOM, 8, 2, 2 * KIB)
    timing = sampling.Timing(1e-9, 0.0, 3)
    (curve,) = curves({loop: timing, other: timing}, "s")
    assert curve.threads == 2
    assert curve.points[0].bandwidth_bytes_per_s == 20e9


def test_many_curves_are_drawn_by_operation():
    points = (CurvePoint(8, 1e9), CurvePoint(16, 1e9))
    made = [
        GatherScatterCurve((operation,), "s", points=points, index_mode=mode)
        for operation in ("gather", "scatter")
        for mode in IndexMode
    ]
    assert [chart.title for chart in gather_scatter_charts(made)] == ["gather", "scatter"]
    assert [len(chart.series) for chart in gather_scatter_charts(made)] == [4, 4]
    assert [chart.title for chart in gather_scatter_charts(made[:2])] == ["gather and scatter"]
