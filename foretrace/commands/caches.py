"""The options --machine and --hierarchy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from foretrace.cache_sim.base.hierarchy import DEFAULT_HIERARCHY


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
