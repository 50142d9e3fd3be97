"""Cache hierarchies to simulate. They are needed before a traced program starts, so slow imports have no place here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from foretrace.cache_sim.base.hierarchy import DEFAULT_HIERARCHY, Hierarchy

if TYPE_CHECKING:
    from .machines import MachineLike

HierarchyLike: TypeAlias = "Hierarchy | str"
"""Caches: a hierarchy, or its text, e.g. "L1=48K/12/64,L2=2M/16/64" (docs/cache-simulation.md)."""


def wanted_hierarchies(
    hierarchies: HierarchyLike | Iterable[HierarchyLike] = (), machines: MachineLike | Iterable[MachineLike] = ()
) -> list[Hierarchy]:
    """The caches asked for, each geometry once; `DEFAULT_HIERARCHY` if there are none.

    Args:
        hierarchies: hierarchies, or their texts.
        machines: those of these machines, too.

    Raises:
        HierarchyError: no cache can be like that.
        ProfileError: there is no such machine.
    """
    specs = [hierarchies] if isinstance(hierarchies, (Hierarchy, str)) else hierarchies
    named = machines if isinstance(machines, Iterable) and not isinstance(machines, str) else [machines]
    wanted = [made for one in named if (made := _of_machine(one))]
    wanted += [one if isinstance(one, Hierarchy) else Hierarchy.parse(one) for one in specs]
    return list({h.spec: h for h in wanted}.values()) or [DEFAULT_HIERARCHY]


def _of_machine(machine: MachineLike) -> Hierarchy | None:
    from foretrace.profiles.hierarchies import hierarchy_of

    from .machines import find_machine

    return hierarchy_of(find_machine(machine)).hierarchy
