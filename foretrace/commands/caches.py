"""Which caches the options --machine and --hierarchy ask for."""

from __future__ import annotations

from collections.abc import Sequence

from foretrace.cache_sim.hierarchy import DEFAULT_HIERARCHY, Hierarchy


def wanted_hierarchies(machines: Sequence[str], specs: Sequence[str]) -> list[Hierarchy]:
    """The hierarchies asked for, each geometry once; the default if there are none."""
    wanted = [hierarchy for name in machines if (hierarchy := _hierarchy_of_machine(name))]
    wanted += [Hierarchy.parse(spec) for spec in specs]
    return list({h.spec: h for h in wanted}.values()) or [DEFAULT_HIERARCHY]


def _hierarchy_of_machine(name: str) -> Hierarchy | None:
    from foretrace.profiles.hierarchies import hierarchy_of
    from foretrace.profiles.library import find

    return hierarchy_of(find(name)).hierarchy
