"""Departures of the engine for compiled programs from the system that a program met."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from foretrace.base.units import format_bytes

_COUNTS = struct.Struct("=7Q")  # enum ft_departure of tracer/transport/stream.h


@dataclass(frozen=True, slots=True)
class Departures:
    """Counts of a program's encounters with each departure; `refused_bytes` of address space."""

    refused_bytes: int = 0
    no_replace: int = 0
    low: int = 0
    maps: int = 0
    limits: int = 0
    failed_starts: int = 0
    stale: int = 0

    @classmethod
    def of(cls, counts: bytes) -> Departures:
        """The counts of a stream's header."""
        return cls(*_COUNTS.unpack(counts))

    def __add__(self, other: Departures) -> Departures:
        """The sums over two processes."""
        pairs = zip(self._numbers(), other._numbers(), strict=True)
        return Departures(*(one + another for one, another in pairs))

    def _numbers(self) -> tuple[int, ...]:
        return (self.refused_bytes, self.no_replace, self.low, self.maps, self.limits, self.failed_starts, self.stale)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Departures that may have made the program do other work than without tracing."""
        found = []
        if self.stale:
            found.append(
                f"{self.stale} executions of code that had been changed through another mapping of its memory: the "
                "engine ran it as it was before, so that the program's results and work are not its own"
            )
        if self.refused_bytes:
            found.append(
                f"the engine refused {format_bytes(self.refused_bytes)} of address space, for which its tables would "
                f"take {format_bytes(self.refused_bytes // 4096 * 25)} of memory: programs with sanitizers need it "
                "(trace one without); QEMU 8.0 and later have no such tables"
            )
        if self.failed_starts:
            found.append(
                f"{self.failed_starts} programs could not be started after vfork or posix_spawn, and the program was "
                "not told: the engine's vfork is a fork, so posix_spawn returned 0, and only the child's exit code "
                "says it"
            )
        return tuple(found)

    @property
    def notes(self) -> tuple[str, ...]:
        """The warnings, and departures that rarely matter."""
        found = list(self.warnings)
        if self.no_replace:
            found.append(
                f"{self.no_replace} mappings with MAP_FIXED_NOREPLACE, where something was mapped, failed by ENOMEM, "
                "not EEXIST"
            )
        if self.low:
            found.append(f"{self.low} mappings with MAP_32BIT may lie above 2 GiB: the engine ignores the flag")
        if self.maps:
            found.append(
                "the program read /proc/self/maps, which the engine makes up: it shows no memory as executable, and "
                "joins neighbours"
            )
        if self.limits:
            found.append("the program limited its stack or its data, which has no effect under the engine")
        return tuple(found)


NO_DEPARTURES = Departures()
