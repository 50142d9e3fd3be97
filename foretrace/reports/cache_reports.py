"""Simulated caches as reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from foretrace.base.units import format_bytes
from foretrace.cache_sim.base.results import SimulatedHierarchy

from .model import COUNT, FINE_SHARE, INTEGER, Column, Table, bound

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


def hierarchy_tables(hierarchies: Iterable[SimulatedHierarchy], all_accesses: int) -> Iterator[Table]:
    """A table of each simulated hierarchy's parts, with a column for each kind of event that occurred."""
    for hierarchy in hierarchy_documents(hierarchies, all_accesses):
        instruction = [hierarchy["instruction"]] if hierarchy["instruction"] else []
        parts = [*hierarchy["levels"], *instruction, *hierarchy["tlbs"]]
        columns = (
            Column("name", "level"),
            Column("size", "size", value=_size, left=False),
            Column("ways", "ways", INTEGER),
            Column("line", "line", value=_granule, left=False),
            Column("accesses", "accesses", COUNT),
            Column("misses", "misses", COUNT),
            Column("miss_rate", "miss rate", FINE_SHARE, _miss_rate),
            *(
                Column(name, heading, COUNT, bound(lambda part, name: part.get(name, 0), name))
                for name, heading in _EVENT_HEADINGS.items()
                if any(part.get(name) for part in parts)
            ),
        )
        yield Table(columns, parts, f"caches {hierarchy['name']}")


def _size(part: dict[str, Any]) -> str:
    return format_bytes(part["size_bytes"]) if "size_bytes" in part else f"{part['entries']} pages"


def _granule(part: dict[str, Any]) -> str:
    return f"{part['line_bytes']} B" if "line_bytes" in part else format_bytes(part["page_bytes"])


def _miss_rate(part: dict[str, Any]) -> float | None:
    return part["misses"] / part["accesses"] if part["accesses"] else None
