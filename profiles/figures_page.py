"""docs/figures.md: every figure of a profile with its unit, its meaning, and what is assumed where it is not given.

`python -m foretrace.profiles.figures_page > docs/figures.md` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from . import defaults
from .accelerator import AcceleratorTable
from .figure import Default, figures_of_record, unit_of
from .points import Tlb
from .profile import CacheLevel, Core, Frontend, Link, Memory, Network, NodeNetwork, Product

TABLES: tuple[tuple[str, type[Struct]], ...] = (
    ("[product]", Product),
    ("[core]", Core),
    ("[core.frontend]", Frontend),
    ("[[caches]]", CacheLevel),
    ("[memory]", Memory),
    ("[[tlbs]]", Tlb),
    ("[accelerator]", AcceleratorTable),
    ("[link]", Link),
    ("[network]", Network),
    ("[network] of an interconnect", NodeNetwork),
)

_HEAD = """\
# Figures of a machine profile

This page is generated from the declarations in `profiles/profile.py` and `profiles/defaults.py` by `make docs`.

What a profile does not give is taken from a calibrated machine with the same cores (`microarchitecture`), if there is
one: [the model](model.md) says how. Otherwise it is assumed, by class of core: the first line that fits counts. Ranges
are typical (least to most). Sources marked (m) are cited from memory.
"""


def figures_page() -> str:
    """The page."""
    return "\n".join([_HEAD, *_tables(), *_beyond()])


def _tables() -> Iterator[str]:
    for title, record in TABLES:
        yield f"## `{title}`\n"
        yield "| key | unit | meaning |\n| --- | --- | --- |"
        figures = figures_of_record(record)
        for name, figure in figures.items():
            unit = unit_of(name)
            yield f"| `{name}` | {unit.word if unit else ''} | {figure.meaning} |"
        yield ""
        assumed = {name: figure.defaults for name, figure in figures.items() if figure.defaults}
        if assumed:
            yield "| not given | of | assumed | after |\n| --- | --- | --- | --- |"
            for name, ranges in assumed.items():
                for number, default in enumerate(ranges):
                    yield _row(f"`{name}`" if number == 0 else "", default)
            yield ""


def _beyond() -> Iterator[str]:
    yield "## Beside these\n"
    yield "| what | of | assumed | after |\n| --- | --- | --- | --- |"
    yield _row("latency of a message between nodes above the eager threshold", defaults.RENDEZVOUS)
    yield _row("latency of a shuffle or comparison of vectors, cycles", defaults.FP_OTHER)
    yield _row("multiprocessors of an accelerator (`cores`)", defaults.MULTIPROCESSORS)
    yield _row("clock of an accelerator, Hz", defaults.DEVICE_CLOCK)
    yield _row("sustained bandwidth of an accelerator's memory", defaults.DEVICE_BANDWIDTH)
    yield _row("the same where its peak is not given, bytes/s", defaults.UNKNOWN_BANDWIDTH)
    yield _row("latency of an accelerator's memory, s", defaults.DEVICE_LATENCY)
    yield _row("first cache of an accelerator's multiprocessor, bytes", defaults.DEVICE_L1)
    yield _row("second cache of an accelerator, bytes", defaults.DEVICE_L2)
    yield ""


def _row(what: str, default: Default) -> str:
    return f"| {what} | {default.cores or 'all'} | {default.range_text.replace('inf', 'no limit')} | {default.source} |"


if __name__ == "__main__":
    print(figures_page(), end="")
