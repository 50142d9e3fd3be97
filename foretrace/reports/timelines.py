"""Timelines of a replay for trace viewers, in Chrome's trace event format, which Perfetto reads.

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format, Google).
Events of an entity follow each other and never overlap, so that viewers nest them strictly.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from foretrace.base.file_kinds import PICTURE, TIMELINE, FileKind
from foretrace.base.files import check_output, write_atomically
from foretrace.base.terminal import plain
from foretrace.replay.engine.outcome import KINDS
from foretrace.replay.node.records import what_of

from .plots import TimelineSource, check_picture, draw_timeline

MOST_EVENTS = 500_000
"""Events of a file; more are left out and counted in it. Viewers become slow far below a million."""
TIMELINE_SUFFIX = ".json.gz"
_WAITS = {"barrier", "lock", "wait", "join", "queue", "decision", "partner", "transfer"}


def trace_events(replay: TimelineSource) -> dict[str, Any]:
    """The timeline as a document of trace events: times in microseconds, one process a job, one thread an entity."""
    outcome = replay.outcome
    entities = outcome.compiled.entities
    events: list[dict[str, Any]] = []
    for job in sorted({entity.job for entity in entities}):
        events.append({"ph": "M", "name": "process_name", "pid": job, "args": {"name": f"job {job}"}})
    for number, entity in enumerate(entities):
        events.append(
            {"ph": "M", "name": "thread_name", "pid": entity.job, "tid": number, "args": {"name": plain(entity.name)}}
        )
    segments = outcome.segments[:MOST_EVENTS]
    starts = np.round(segments["start_s"] * 1e9).astype(np.int64)
    ends = np.round(segments["end_s"] * 1e9).astype(np.int64)
    for segment, start_ns, end_ns in zip(segments, starts.tolist(), ends.tolist(), strict=True):
        number, kind = int(segment["entity"]), KINDS[int(segment["kind"])]
        event: dict[str, Any] = {
            "ph": "X",
            "name": plain(what_of(outcome, int(segment["label"]), int(segment["kind"]))),
            "cat": kind,
            "pid": entities[number].job,
            "tid": number,
            "ts": start_ns / 1000,
            "dur": (end_ns - start_ns) / 1000,
        }
        if kind in _WAITS and segment["by"] >= 0:
            event["args"] = {"ended by": plain(entities[int(segment["by"])].name)}
        if kind == "folded":
            event["args"] = {"times": int(segment["times"])}
        events.append(event)
    left_out = outcome.segments_left_out + len(outcome.segments) - len(segments)
    return {
        "displayTimeUnit": "ms",
        "otherData": {"schema": "foretrace.timeline/1", "machine": replay.machine, "segments_left_out": left_out},
        "traceEvents": events,
    }


def compressed(replay: TimelineSource) -> bytes:
    """The timeline as a file for trace viewers, `.json.gz`. The same replay gives the same bytes."""
    content = io.BytesIO()
    with gzip.GzipFile("foretrace-timeline.json", "wb", fileobj=content, mtime=0) as file:
        file.write(msgspec.json.encode(trace_events(replay)))
    return content.getvalue()


def check_timeline(output: Path, *, force: bool) -> None:
    """Refuse early a timeline or picture that cannot be written.

    Raises:
        OutputError: it cannot.
    """
    if not output.name.endswith(TIMELINE_SUFFIX):
        check_picture(output)
    check_output(output, _kind(output), force=force)


def write_timeline(replay: TimelineSource, output: Path, *, force: bool) -> None:
    """Write the timeline for trace viewers, or as a picture, by the file's ending.

    Raises:
        OutputError: it cannot be written.
    """
    is_trace = _kind(output) is TIMELINE
    content = compressed(replay) if is_trace else draw_timeline(replay, output.suffix[1:])
    write_atomically(output, content, _kind(output), force=force)


def _kind(output: Path) -> FileKind:
    return TIMELINE if output.name.endswith(TIMELINE_SUFFIX) else PICTURE
