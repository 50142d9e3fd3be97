"""Measured gathers and scatters (SGBench) as a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from foretrace.base.processor import cpu_model
from foretrace.base.units import format_bytes_per_s
from foretrace.benchmarks.calibration.sgbench import Loop, curves
from foretrace.benchmarks.harness.sampling import Timing

from .model import BYTES, Column, Report, Table, bound, for_programs


def sgbench_report(timings: Mapping[Loop, Timing], duration_s: float) -> Report:
    """Report of `foretrace sgbench`: bandwidth by address range, a column for each operation and index mode."""
    kinds = dict.fromkeys((loop.operation, loop.index_mode) for loop in timings)
    rates = {
        (loop.range_bytes, loop.operation, loop.index_mode): loop.referenced_bytes / timing.time_s
        for loop, timing in timings.items()
    }
    columns = (
        Column("range_bytes", "address range", BYTES, lambda size: size),
        *(
            Column("", f"{kind[0]} {kind[1]}", left=False,
                   value=bound(lambda size, kind: format_bytes_per_s(rates[size, *kind]), kind))
            for kind in kinds
        ),
    )  # fmt: skip
    of_loop = for_programs("operation", "index_mode", "element_bytes", "threads", "range_bytes")
    loops = (
        *(column.within(lambda pair: pair[0]) for column in of_loop),
        Column("bandwidth_bytes_per_s", value=lambda pair: pair[0].referenced_bytes / pair[1].time_s),
    )
    sizes = sorted({loop.range_bytes for loop in timings})
    return Report(
        "Gather and scatter", [Table(columns, sizes)], Table(loops, list(timings.items())),
        lambda: document(timings, duration_s),
    )  # fmt: skip


def document(timings: Mapping[Loop, Timing], duration_s: float) -> dict[str, Any]:
    """JSON of `foretrace sgbench`."""
    return {
        "schema": "foretrace.sgbench/1",
        "cpu": cpu_model(),
        "duration_s": duration_s,
        "curves": [msgspec.to_builtins(curve) for curve in curves(timings, "here")],
    }
