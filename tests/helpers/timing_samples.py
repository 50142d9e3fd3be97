"""A timing, written by hand."""

from __future__ import annotations

from foretrace.tracer.native.timing import NativeRun, SampledPosition, Timing

TIMING = Timing(
    command=("./program", "1"),
    foretrace_version="0",
    host="nowhere",
    started="2020-01-01",
    exit_code=0,
    signal=None,
    runs=(NativeRun(1.5, 1.0, 0.25), NativeRun(1.25, 0.75, 0.25), NativeRun(3.0, 1.0, 0.5)),
    method="by hand",
    interval_s=0.001,
    positions=(SampledPosition("/bin/program", 4096, 7, 2),),
    elsewhere=3,
    lost=0,
)
