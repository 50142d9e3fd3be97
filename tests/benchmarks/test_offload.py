"""Published timings of kernels on GPUs, the calculation by hand, and how predictions are set beside them."""

import datetime
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from foretrace.base.errors import EngineError
from foretrace.benchmarks.harness.programs import offload_programs
from foretrace.benchmarks.harness.results import MeasuredPrediction
from foretrace.benchmarks.validation.offload import (
    WITHIN,
    Measurement,
    by_hand,
    compare,
    kernel_time,
    published,
)
from foretrace.profiles.device_figures import device_figures
from foretrace.profiles.library import find
from foretrace.profiles.profile import MachineKind
from foretrace.replay.base.records import Instance, OffloadCost, Place

DOCUMENT = Path(__file__).parents[2] / "docs" / "offload-by-hand.md"
MEASUREMENTS = {one.name: one for one in published()}


def test_there_are_timings_of_many_kernels_on_many_devices():
    assert len(MEASUREMENTS) == len(published()) >= 12
    assert len({one.device for one in MEASUREMENTS.values()}) >= 4
    assert len({one.program for one in MEASUREMENTS.values()}) >= 6


@pytest.mark.parametrize("one", published(), ids=lambda one: one.name)
def test_each_names_a_device_a_program_and_a_source(one):
    profile = find(one.device)
    assert profile.kind is MachineKind.ACCELERATOR
    source = offload_programs()[one.program].read_text()
    for function in one.calls:
        assert re.search(rf"^KERNEL static \w+ \**{function}\(", source, re.MULTILINE), function
    assert one.url.startswith("https://")
    assert one.unit in ("s", "bytes/s", "flop/s", "cells/s")
    assert len(one.quote) > 10
    datetime.date.fromisoformat(one.read_on)
    assert one.url not in {cited.url for cited in profile.sources.values()}, "a figure of a profile is no prediction"


def test_a_file_that_is_none_is_one_error(tmp_path):
    path = tmp_path / "published.toml"
    path.write_text('[[measurements]]\nname = "x"\n')
    with pytest.raises(EngineError, match=r"published\.toml: Object missing required field"):
        published(path)


def instance(function: str, moved_bytes: int, entries: int, kernel_s: float | None, launch_s: float = 0.0) -> Instance:
    """A row of a triage."""
    cost = None if kernel_s is None else OffloadCost(0.0, launch_s, 9.0, kernel_s, 0.0)
    return Instance(
        Place("a.out", function, "a.c", 1), "none", 0, 0, moved_bytes, entries, 1.0, cost and 10.0, cost, 0.0, False,
        "it waits for itself", None, bound_by="memory bandwidth",
    )  # fmt: skip


def test_the_outermost_loop_of_a_function_is_its_kernel():
    found = [
        instance("product", 800, 4000, 5.0),
        instance("product", 1000, 4, 2.0, 0.4),
        instance("dot", 9000, 1, 1.0),
    ]
    assert kernel_time(found, "product").time_s == pytest.approx(2.4 / 4)
    assert kernel_time(found, "product").bound_by == "memory bandwidth"
    refused = kernel_time([instance("sweep", 10, 1, None)], "sweep")
    assert (refused.time_s, refused.refusal) == (None, "sweep: it waits for itself")
    assert kernel_time(found, "other").refusal == "other: no such function ran"


def test_a_rate_and_a_time_compare_alike():
    rate, time = MEASUREMENTS["triad-gh200"], MEASUREMENTS["product-ell-grid2-mi250x"]
    assert rate.published_s == pytest.approx(24 * 33_000_000 / 3534593.282e6)
    assert time.published_s == time.published
    assert MeasuredPrediction(name="x", predicted=0.6, measured=0.3).ratio == 2
    compared = [MeasuredPrediction(name="x", predicted=f, measured=1.0) for f in (0.6, 0.7, WITHIN, 1.6)]
    assert [row.is_within(WITHIN) for row in compared] == [False, True, True, False]
    refused = MeasuredPrediction(name="x", predicted=None, measured=1.0, problem="why")
    assert (refused.ratio, refused.is_within(WITHIN)) == (None, False)


@pytest.mark.parametrize(
    ("device", "launch_s", "missing_of_r"), [("h200-sxm-141gb", 2.4e-6, 7 / 8), ("mi300x-192gb", 9e-6, 1 / 2)]
)
def test_the_calculation_by_hand_follows_from_the_profiles(device, launch_s, missing_of_r):
    """Bytes over bandwidths and a launch, by the document's formulas."""
    command, lines = by_hand(DOCUMENT)
    assert command == ("cg_gauss_seidel", "104", "3", "8")
    figures = device_figures(find(device))
    rows, nonzeros = 104**3, 310**3
    product, sweep = 12 * nonzeros + 20 * rows, (12 * nonzeros + 28 * rows) / 8 + 8 * rows
    held = figures.last_cache_bytes or figures.l2_bytes.typical
    hits_per_s = (figures.last_cache_bytes_per_s or figures.l2_bytes_per_s).typical
    kept_z = 8 * rows if held > sweep else 0

    def time_s(missing: float, hits: float = 0.0) -> float:
        return missing / figures.memory_bytes_per_s.typical + hits / hits_per_s + launch_s

    expected = {
        "product": (1, time_s(product - held, held)),
        "sweep_forward": (8, time_s(sweep - kept_z, kept_z)),
        "sweep_backward": (8, time_s(sweep - held / 8, held / 8)),
        "dot": (3, time_s((missing_of_r * 8 * rows + 16 * rows * (1 - held / product)) / 3)),
        "scale_and_add": (1, time_s(16 * rows)),
        "add_scaled": (2, time_s(16 * rows)),
        "clear": (1, time_s(8 * rows)),
    }
    found = {line.function: (line.calls, line.time_s) for line in lines if line.device == device}
    assert found.keys() == expected.keys()
    for function, (calls, by_formula_s) in expected.items():
        assert found[function][0] == calls
        assert found[function][1] == pytest.approx(by_formula_s, abs=0.06e-6), function
    assert find("h200-sxm-141gb").link.launch_interval_s == 2.4e-6


@pytest.mark.parametrize("text", ["", "| function | calls | `h200` |\n| --- | --- | --- |\n| `dot` | 1 | 1 µs |\n"])
def test_a_document_without_a_table_is_one_error(tmp_path, text):
    path = tmp_path / "by-hand.md"
    with pytest.raises(EngineError, match="cannot be read"):
        by_hand(path)
    path.write_text(text)
    with pytest.raises(EngineError, match="has no table that begins with"):
        by_hand(path)


def test_a_small_program_is_traced_and_predicted(programs_directory):
    small: Measurement = replace(
        MEASUREMENTS["triad-gh200"], arguments=("20000", "2"), work=24.0 * 20000, calls={"triad": 1}
    )
    (found,) = compare([small], find("epyc-9654"), programs_directory)
    assert found.predicted is not None, found.problem
    assert found.predicted > 24.0 * 20000 / 4e12, "no faster than the memory's peak, and a launch"
    assert found.predicted < 100e-6
