"""Findings as SARIF 2.1.0 (OASIS), which editors and code hosts show beside the source."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from foretrace.base.version import __version__
from foretrace.tracer.source.idioms.patterns import IdiomDefinition
from foretrace.tracer.source.idioms.records import Finding, Findings, SkippedPart

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"


def sarif(found: Findings, definitions: Sequence[IdiomDefinition]) -> dict[str, Any]:
    """One run: idioms are rules, findings are results, what was skipped are notifications."""
    rules = [
        {"id": one.name, "shortDescription": {"text": one.summary}, "defaultConfiguration": {"level": "note"}}
        for one in definitions
    ]
    numbers = {one.name: number for number, one in enumerate(definitions)}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "foretrace", "version": __version__, "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": [_notification(part) for part in found.skipped],
                    }
                ],
                "results": [_result(one, numbers) for one in found.findings],
            }
        ],
    }


def _result(one: Finding, numbers: dict[str, int]) -> dict[str, Any]:
    arrays = ", ".join(f"{use.name}[{use.index}]" for use in one.arrays)
    return {
        "ruleId": one.idiom,
        "ruleIndex": numbers[one.idiom],
        "level": "note",
        "kind": "review" if one.confidence < 0.5 else "informational",
        "message": {"text": f"{one.idiom}: {one.reason}" + (f" ({arrays})" if arrays else "")},
        "rank": round(100 * one.confidence, 1),
        "locations": [_location(one.file, one.first_line, one.last_line, one.function)],
        "properties": {"depth": one.depth, "induction": list(one.induction), "shape": one.shape},
    }


def _notification(part: SkippedPart) -> dict[str, Any]:
    return {
        "level": "warning",
        "message": {"text": f"{part.what} skipped: {part.reason}"},
        "locations": [_location(part.file, max(part.line, 1), max(part.line, 1))],
    }


def _uri(path: Path) -> str:
    return path.as_uri() if path.is_absolute() else quote(os.fsencode(path))


def _location(file: str, first: int, last: int, function: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(Path(file))},
            "region": {"startLine": first, "endLine": last},
        }
    }
    if function:
        made["logicalLocations"] = [{"name": function, "kind": "function"}]
    return made
