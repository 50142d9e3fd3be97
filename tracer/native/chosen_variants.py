"""Variants of library functions that this machine's processor makes a C library choose.

An IFUNC's resolver chooses when a program starts. It chose for this process too, which has the C library loaded: so
`dlsym` tells which code goes by which name here. The variant may jump into another one's code for a part of its work.
"""

from __future__ import annotations

import ctypes
import os
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from foretrace.tracer.analysis.modules import Mapping, parse_maps
from foretrace.tracer.debug_info.symbols import Function, Symbols

_MOST_CODE_BYTES = 1 << 14
"""Part of a variant's code in which jumps to others are looked for, in bytes."""


def chosen_variants(modules: Iterable[str]) -> dict[str, Variants]:
    """The variants that are in use here, of those modules that this process has loaded too."""
    maps, _ = parse_maps(Path("/proc/self/maps").read_text(), 0)
    loaded = {mapping.path for mapping in maps}
    found = {}
    for path in sorted(loaded.intersection(modules)):
        symbols = Symbols(path)
        if symbols.ifuncs:
            found[path] = Variants(symbols, _starts(path, symbols, maps))
    return found


class Variants:
    """The variants of one module."""

    def __init__(self, symbols: Symbols, names: dict[int, set[str]]) -> None:
        """`names` by link-time address."""
        self._symbols = symbols
        self._names: dict[int, set[str]] = defaultdict(set)
        for start, of_one in names.items():
            function = symbols.function(start)
            if function is None:
                continue
            self._names[function.start] |= of_one
            for part in self._parts(function):
                if part.start not in names:
                    self._names[part.start] |= of_one

    def names(self, offset: int) -> tuple[str, ...]:
        """The public names of the code at a link-time address; none if it is no variant."""
        function = self._symbols.function(offset)
        return tuple(sorted(self._names.get(function.start, ()))) if function else ()

    def _parts(self, function: Function) -> list[Function]:
        """Functions without a name into which one jumps."""
        targets = self._symbols.jumps(function.start, min(function.end, function.start + _MOST_CODE_BYTES))
        found = {}
        for target in targets:
            other = self._symbols.function(target)
            if other is not None and other.start != function.start and "+0x" in other.name:
                found[other.start] = other
        return list(found.values())


def _starts(path: str, symbols: Symbols, maps: Iterable[Mapping]) -> dict[int, set[str]]:
    """The names of functions by the link-time address of the chosen variant."""
    here = [mapping for mapping in maps if mapping.path == path]
    found: dict[int, set[str]] = defaultdict(set)
    with suppress(OSError):  # it was unloaded meanwhile
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        for name in symbols.ifuncs:
            with suppress(AttributeError):
                address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
                for mapping in here:
                    if mapping.start <= address < mapping.end:
                        linked = symbols.link_address(mapping.file_offset + address - mapping.start)
                        if linked is not None:
                            found[linked].add(name)
    return found
