"""Results of samplers: how often a program was at which of its instructions."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from foretrace.tracer.analysis.modules import Mapping
from foretrace.tracer.debug_info.symbols import Symbols


@dataclass(frozen=True, slots=True)
class Position:
    """An instruction, by its link-time address in a module, as in a signature's blocks.

    `in_kernel`: the kernel was at work for the program, which had come to this instruction.
    """

    module: str
    offset: int
    in_kernel: bool


@dataclass(frozen=True, slots=True)
class Samples:
    """Number of samples by position in the program. `elsewhere` counts samples of child processes and of code that is
    in no file.

    `lost` samples are known to have been taken, but could not be kept.
    """

    positions: Counter[Position]
    elsewhere: int
    lost: int


class Sampler(Protocol):
    """Looks, at an interval of the program's own CPU time or of real time, where a child process is."""

    name: str

    def run(self, start: Starter) -> tuple[int, resource.struct_rusage]:
        """Start the program, and sample it to its end; its wait status, and what it used."""
        ...

    def samples(self) -> Samples:
        """The samples found."""
        ...

    def close(self) -> None:
        """Give back what is held."""
        ...


class Starter(Protocol):
    """Starts the program."""

    def __call__(self) -> int:
        """Its process id."""
        ...


def resolve(found: Iterable[tuple[int, bool]], mappings: Sequence[Mapping], elsewhere: int, lost: int) -> Samples:
    """From addresses (with `in_kernel`) and what was mapped where, later mappings winning, to positions in files."""
    positions: Counter[Position] = Counter()
    modules: dict[str, Symbols] = {}
    for (address, in_kernel), count in Counter(found).items():
        mapping = next((m for m in reversed(mappings) if m.start <= address < m.end), None)
        if mapping is None or not mapping.path.startswith("/"):
            elsewhere += count
            continue
        symbols = modules.get(mapping.path)
        if symbols is None:
            symbols = modules[mapping.path] = Symbols(mapping.path)
        file_offset = mapping.file_offset + address - mapping.start
        linked = symbols.link_address(file_offset)
        positions[Position(mapping.path, file_offset if linked is None else linked, in_kernel)] += count
    return Samples(positions, elsewhere, lost)
