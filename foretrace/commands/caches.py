"""The options --machine and --hierarchy, and which caches they ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from foretrace.cache_sim.hierarchy import DEFAULT_HIERARCHY, Hierarchy


def cache_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the two options to a command, which gets them as `machines` and `hierarchies`."""
    machine = click.option(
        "--machine", "machines", multiple=True, metavar="M", help="Simulate this machine's caches (repeatable)."
    )
    hierarchy = click.option(
        "--hierarchy",
        "hierarchies",
        multiple=True,
        metavar="SPEC",
        help=f"Simulate these caches (repeatable), e.g. {DEFAULT_HIERARCHY.spec}: name=size/ways/line bytes, then "
        "options such as /plru or /write-back (docs/cache-simulation.md).",
    )
    return machine(hierarchy(command))


def wanted_hierarchies(machines: Sequence[str], specs: Sequence[str]) -> list[Hierarchy]:
    """The hierarchies asked for, each geometry once; the default if there are none."""
    wanted = [hierarchy for name in machines if (hierarchy := _hierarchy_of_machine(name))]
    wanted += [Hierarchy.parse(spec) for spec in specs]
    return list({h.spec: h for h in wanted}.values()) or [DEFAULT_HIERARCHY]


def _hierarchy_of_machine(name: str) -> Hierarchy | None:
    from foretrace.profiles.hierarchies import hierarchy_of
    from foretrace.profiles.library import find

    return hierarchy_of(find(name)).hierarchy
