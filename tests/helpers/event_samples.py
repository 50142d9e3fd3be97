"""Signatures with software-defined events made by hand: two solvers, as a traced run would have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tree_samples import Tree

from foretrace.tracer.signature.event_records import (
    EventElement,
    EventKind,
    Events,
    EventSamples,
    RecordedEvent,
    record_values,
)
from foretrace.tracer.signature.records import Signature


def event(library: str, name: str, value: float | None = 0, kind: EventKind = EventKind.CREATED, **more: Any):
    """An event of the first process."""
    given = {"process": 0, "type": "long long", "is_instant": False, "description": f"{library}::{name}"}
    return RecordedEvent(library=library, name=name, value=value, kind=kind, **(given | more))


def recorder(library: str, name: str, values: npt.NDArray[Any], of_type: str = "double", most=None, **more: Any):
    """A recorder with these values."""
    recorded = record_values(values, most)
    return event(library, name, len(values), EventKind.RECORDER, type=of_type, values=recorded, **more)


def solver_events(iterations: int = 40, **residuals: npt.NDArray[Any]) -> Events:
    """Events of each solver, whose residuals are given, with samples of the iterations."""
    found = []
    for library, values in residuals.items():
        found += [
            event(library, "iterations", len(values), EventKind.REGISTERED, is_instant=True),
            event(library, "bytes sent", 8 * len(values), description="what was sent [bytes]"),
            recorder(library, "residuals", values),
        ]
    position = np.arange(0, 101, 10)
    counters = [number for number, one in enumerate(found) if one.kind is not EventKind.CALLBACK]
    values = np.array([[float(found[number].value or 0) * at / 100 for number in counters] for at in position])
    executions = np.stack([position * 0, position * 3], axis=1)
    samples = EventSamples(0, np.array(counters), position, values, np.array([0, 1]), executions)
    return Events(tuple(found), (samples,))


def odd_events() -> Events:
    """One of each kind, with names that a terminal, a spreadsheet or a picture could stumble over."""
    return Events(
        (
            event("=cmd|'/C calc'!A0", "@SUM(1+1)", 3, description="\x1b[31mred\x1b[0m, and a \r return [1/s]"),
            event("a::b", "c::d" * 2_500, 2.5, EventKind.REGISTERED, type="double", is_instant=True),
            event("$x^2$", "_hidden\n", None, EventKind.CALLBACK, unread="only the process can call its function"),
            event("lib", "diverged", float("nan"), EventKind.CALLBACK, type="double", is_instant=True),
            event("lib", "endless", float("-inf"), EventKind.GROUP, type="double"),
            event("lib", "asked for", None, EventKind.PLACEHOLDER, unread="no library has registered it"),
            event("lib", "st\udc80", -(2**63)),
            event(
                "lib", "sizes", 2, EventKind.SET, type="bytes",
                elements=(EventElement(b"\0x", 7, 5), EventElement(b"", 0, 1)),
            ),
            recorder("lib", "raw", np.arange(12, dtype=np.uint8).reshape(4, 3), "bytes"),
            recorder("lib", "nothing", np.zeros(0)),
            recorder("_lib", "residuals", np.array([1.0, np.nan, np.inf, 0.5])),
            recorder("$lib", "sizes", np.arange(-5, 20_000, dtype=np.int32), "int", most=100),
        ),
        lost_bytes=4096,
    )  # fmt: skip


def signature_with(events: Events, num_nodes: int = 2) -> Signature:
    """A signature with a tree of so many nodes."""
    tree = Tree()
    root = tree.thread()
    for number in range(num_nodes - 2):
        tree.call(root, f"f{number}")
    tree.does(tree.call(root, "main"), 300)
    return replace(tree.signature(), events=events)
