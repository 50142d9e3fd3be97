"""Report of `foretrace validate`: predictions beside run times measured here, and published figures beside ours."""

from __future__ import annotations

from foretrace.base.units import format_bytes, format_bytes_per_s, format_seconds
from foretrace.benchmarks.validation.run_times import Row, RunTimes
from foretrace.benchmarks.validation.speedup import remarks, speedup_table
from foretrace.benchmarks.validation.validate import Validation

from .model import (
    HERTZ,
    SECONDS,
    SIGNED_SHARE,
    WHOLE_SHARE,
    YES_NO,
    Column,
    Kind,
    Report,
    Section,
    Table,
    Text,
    bound,
    for_programs,
)  # fmt: skip

_NUMBER, _ERROR = Kind("{:,}".format), Kind("{:+.2%}".format)
_RANGES = (
    Column("loop", "loop"),
    Column("array", "array", left=False),
    Column("actual_bytes", "actual", _NUMBER),
    Column("measured_bytes", "foretrace", _NUMBER),
    Column("", "error", _ERROR, lambda row: row.measured_bytes / row.actual_bytes - 1),
    Column("paper_bytes", "paper", _NUMBER, lambda row: row.paper_bytes or None),
    Column("", "error", _ERROR, lambda row: row.paper_bytes / row.actual_bytes - 1 if row.paper_bytes else None),
)
_RATE = Kind(lambda value: format_bytes_per_s(value) if value else "on the host")
_BANDWIDTHS = (
    Column("range_bytes", "address range", Kind(lambda size: f"{format_bytes(size)} ({size:,})"), left=True),
    Column("equation", "equation", left=False),
    Column("paper_bytes_per_s", "paper", _RATE, lambda row: row.paper_bytes_per_s or 0),
    Column("triage_bytes_per_s", "foretrace", _RATE, lambda row: row.triage_bytes_per_s or 0),
)


def _alone(row: Row) -> str | None:
    alone = row.measured.alone
    return None if alone is None else f"{format_seconds(alone.time_s)} ±{alone.error_s / alone.time_s:.0%}"


def _neighbour(row: Row) -> str:
    return f"{row.measured.reference_slowdown:.2f}x" if row.beside_a_neighbour else "none"


_RUN_TIMES = (
    Column("program", "program"),
    Column("measured_s", "measured", SECONDS, lambda row: row.measured.time_s),
    Column("spread", "by", Kind("runs {:+.0%}".format), lambda row: row.measured.spread),
    Column("clock_hz", "clock", HERTZ, lambda row: row.measured.time_clock_hz),
    Column("", "neighbour", value=_neighbour, left=False),
    Column("", "alone", value=_alone, left=False),
    Column("predicted_s", "predicted", SECONDS),
    Column("error", "error", SIGNED_SHARE),
    Column("error_of_convolution", "convolution", SIGNED_SHARE),
    Column("error_at_clock", "at clock", SIGNED_SHARE),
    *for_programs("low_s", "high_s"),
    Column(
        "", "interval", value=lambda row: f"{format_seconds(row.low_s)} to {format_seconds(row.high_s)}", left=False
    ),
    Column("inside", "inside", YES_NO),
    Column("bound_by", "bound by"),
)  # fmt: skip
_LOOPS = (
    Column("", "program", value=lambda pair: pair[0]),
    *(
        column.within(lambda pair: pair[1])
        for column in (
            Column("", "loop", value=lambda loop: f"{loop.file}:{loop.line} {loop.function}"),
            Column("measured_share", "measured", WHOLE_SHARE),
            Column("predicted_share", "predicted", WHOLE_SHARE),
            Column("", "points", Kind("{:+.0f}".format), lambda loop: 100 * loop.difference),
        )
    ),
)


def validation_report(validation: Validation) -> Report:
    """Address ranges, bandwidths, run times, the loop of each program whose share is furthest off, and speed-ups."""
    times = validation.run_times
    title = f"Processor time here, not anchored; profile {times.machine.path} of {times.machine.profile.date}"
    rows = Table(_RUN_TIMES, times.rows, title)
    worst = [(row.program, max(row.loops, key=lambda loop: abs(loop.difference))) for row in times.rows if row.loops]
    tables = [rows, Table(_LOOPS, worst, "Loops: the worst of each program's top five, shares of the time")]
    if validation.ranges:
        title = "Gathering on the Convey HC-1; paper: ICS'11, equations 2 to 4"
        tables.insert(0, Table(_BANDWIDTHS, validation.bandwidths, title))
        title = "Address ranges, bytes; paper: Carrington et al., ICS'11, table 2"
        tables.insert(0, Table(_RANGES, validation.ranges, title))
    lines = []
    if validation.speedups:
        made = speedup_table(validation.speedups)
        columns = [
            Column("", heading, value=bound(lambda row, at: row[at], at), left=at == 0)
            for at, heading in enumerate(made.headings)
        ]
        tables.append(Table(columns, made.rows, made.title))
        lines = [*remarks(validation.speedups), ""]
    elif validation.no_speedups:
        lines = [f"no speed-ups: {validation.no_speedups}"]
    sections: list[Section] = [section for table in tables for section in (table, Text([""]))]
    if validation.speedups:
        del sections[-1]
    return Report("Validation", [*sections, Text(lines + _summary_lines(times))], rows, validation.as_json)


def _summary_lines(times: RunTimes) -> list[str]:
    lines = [
        f"{row.program} {row.error:+.0%}: {row.cause}"
        for row in sorted(times.rows, key=lambda row: -abs(row.error))
        if row.cause
    ]
    lines += [f"left out: {name}: {reason}" for name, reason in times.skipped]
    if disturbed := [row.program for row in times.rows if row.disturbed]:
        lines.append(f"the machine was busy with something else beside: {', '.join(disturbed)}")
    if beside := sum(row.beside_a_neighbour for row in times.rows):
        lines.append(
            f"measured beside a neighbour on the same core: {beside} of {len(times.rows)} (the table has how many "
            "times longer a loop took beside them than undisturbed, and what that tells of a run alone)"
        )
    apart = {
        "held out, no loop of which was looked at when the model was made": times.held_out,
        "programs of the system, as they came": times.installed,
        "textbook kernels, never looked at": times.textbook,
        "held back, all of these": times.held_back,
    }
    lines += [f"{what}: {_summary(some)}" for what, some in apart.items() if some is not None]
    loops = times.share_of_loops_within_5_points
    within = "" if loops is None else f", {loops:.0%} of the top loops' shares within 5 points"
    return [*lines, _summary(times) + within]


def _summary(times: RunTimes) -> str:
    worst, alone, at_clock = times.worst, times.mean_absolute_error_alone, times.mean_absolute_error_at_clock
    published = times.mean_absolute_error_of_convolution
    beside = "" if published is None else f"; {published:.1%} by the convolution as published"
    beside += "" if alone is None else f"; {alone:.1%} of the times alone"
    beside += "" if at_clock is None else f"; {at_clock:.1%} at the clocks beside the runs"
    return (
        f"{len(times.rows)} programs: mean absolute error {times.mean_absolute_error:.1%}, worst {worst.error:+.0%} "
        f"({worst.program}), {times.share_inside:.0%} inside their interval{beside}"
    )
