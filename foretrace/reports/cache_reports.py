"""Simulated caches as reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from foretrace.base.terminal import console, plain, table
from foretrace.base.units import format_bytes, format_count
from foretrace.cache_sim.base.results import SimulatedHierarchy

_EVENT_HEADINGS = {
    "write_backs": "written back",
    "victim_hits": "victim hits",
    "back_invalidations": "back-invalidated",
    "coherence_invalidations": "taken by cores",
    "prefetches": "prefetched",
    "useful_prefetches": "of use",
}


def hierarchy_documents(hierarchies: Iterable[SimulatedHierarchy], all_accesses: int) -> Iterator[dict[str, Any]]:
    """Each simulated hierarchy: its levels, and of a memory system all parts with what happened in them.

    What misses a level is what the next is asked for.
    """
    for simulated in hierarchies:
        totals = {} if simulated.events is None else simulated.events.totals()
        accesses, levels = all_accesses, []
        for level, misses in zip(simulated.hierarchy.levels, simulated.misses.sum(axis=0).tolist(), strict=True):
            levels.append(asdict(level) | {"accesses": accesses, "misses": misses} | totals.get(level.name, {}))
            accesses = misses
        tlbs = [asdict(tlb) | _asked(totals[tlb.name]) for tlb in simulated.hierarchy.tlbs]
        code = simulated.hierarchy.instruction
        yield {
            "name": simulated.hierarchy.name,
            "spec": simulated.hierarchy.spec,
            "levels": levels,
            "tlbs": tlbs,
            "instruction": None if code is None else asdict(code) | totals[code.name],
        }


def _asked(counts: dict[str, int]) -> dict[str, int]:
    return {name: counts[name] for name in ("accesses", "misses")}


def show_hierarchies(hierarchies: Iterable[SimulatedHierarchy], all_accesses: int) -> None:
    """A table of each simulated hierarchy."""
    for hierarchy in hierarchy_documents(hierarchies, all_accesses):
        _show_hierarchy(hierarchy)


def _show_hierarchy(hierarchy: dict[str, Any]) -> None:
    """A table of its parts, with a column for each kind of event that occurred."""
    parts = [
        *hierarchy["levels"],
        *([hierarchy["instruction"]] if hierarchy["instruction"] else []),
        *hierarchy["tlbs"],
    ]
    occurred = [name for name in _EVENT_HEADINGS if any(part.get(name) for part in parts)]
    rows = table(
        "level", "size", "ways", "line", "accesses", "misses", "miss rate",
        *(_EVENT_HEADINGS[name] for name in occurred),
        title=f"caches {plain(hierarchy['name'])}",
    )  # fmt: skip
    for part in parts:
        rate = f"{part['misses'] / part['accesses']:.2%}" if part["accesses"] else "-"
        size = format_bytes(part["size_bytes"]) if "size_bytes" in part else f"{part['entries']} pages"
        granule = f"{part['line_bytes']} B" if "line_bytes" in part else format_bytes(part["page_bytes"])
        rows.add_row(
            plain(part["name"]), size, str(part["ways"]), granule, format_count(part["accesses"]),
            format_count(part["misses"]), rate, *(format_count(part.get(name, 0)) for name in occurred),
        )  # fmt: skip
    out = console()
    out.print()
    out.print(rows)
