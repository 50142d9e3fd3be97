"""Resolves guest addresses to the mapped file and the link-time address, from copies of /proc/self/maps.

The maps are those of the engine's process and may hold anything; a line that is not a mapping is skipped and counted.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from foretrace.tracer.reader.raw_trace import RawFile

# proc(5), /proc/pid/maps: address range, permissions, offset, device, inode, path.
_LINE = re.compile(
    r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) [r-][w-][x-][ps] ([0-9a-f]{1,16}) [0-9a-f]+:[0-9a-f]+ (\d{1,20})(?: +(.*))?"
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{2})")
ANONYMOUS = "[anonymous]"
UNMAPPED = "[unmapped]"
_NAMELESS = " (deleted)"


class Mapping(msgspec.Struct, frozen=True):
    """Guest addresses [start, end) mapped from `path` at `file_offset`. A path like `[vdso]` is no file; an `inode` of
    0 is not known."""

    start: int
    end: int
    file_offset: int
    path: str
    inode: int = 0


def parse_maps(text: str, guest_base: int) -> tuple[list[Mapping], int]:
    """Mappings of one copy of /proc/self/maps, in guest addresses, and the number of lines that are none.

    What lies below `guest_base` cannot be the guest's and is left out.
    """
    mappings = []
    damaged = 0
    for line in text.split("\n"):
        if not line:
            continue
        match = _LINE.fullmatch(line)
        start, end, offset = (int(match[i], 16) for i in (1, 2, 3)) if match else (0, 0, 0)
        if not match or start >= end:
            damaged += 1
            continue
        if start >= guest_base:
            path = _ESCAPE.sub(lambda escape: chr(int(escape[1], 8)), match[5] or "")
            mappings.append(Mapping(start - guest_base, end - guest_base, offset, path or ANONYMOUS, int(match[4])))
    return mappings, damaged


class ModuleMap:
    """The memory map of a whole run: the union of the copies, a later one winning over an earlier.

    `copies` has the contents of files that were deleted when the run ended, by the path in their mappings.
    """

    def __init__(self, maps: Sequence[str], guest_base: int, files: Sequence[RawFile] = ()) -> None:
        """`maps` are copies of /proc/self/maps in order of time; guest address + `guest_base` = host address. `files`
        are copies of files that are gone."""
        self.damaged_lines = 0
        layers: list[list[Mapping]] = []
        for text in maps:
            mappings, damaged = parse_maps(text, guest_base)
            layers.append(mappings)
            self.damaged_lines += damaged
        self._starts, self._owners = _overlay(layers)
        self.copies: dict[str, bytes] = {}
        if files:
            self._find_copies(files)

    def _find_copies(self, files: Sequence[RawFile]) -> None:
        """Distinguish mapped files of one name by their inodes."""
        content = {(file.path.removesuffix(_NAMELESS), file.inode): file.content for file in files}
        inodes: dict[str, dict[int, None]] = {}
        for owner in self._owners:
            if owner is not None and owner.path.startswith("/"):
                inodes.setdefault(owner.path.removesuffix(_NAMELESS), {})[owner.inode] = None
        for at, owner in enumerate(self._owners):
            name = owner.path.removesuffix(_NAMELESS) if owner is not None else ""
            copy = content.get((name, owner.inode)) if owner is not None else None
            if owner is None or copy is None:
                continue
            path = owner.path if len(inodes[name]) == 1 else f"{owner.path} [inode {owner.inode}]"
            self._owners[at] = msgspec.structs.replace(owner, path=path)
            self.copies[path] = copy

    def mappings(self) -> list[Mapping]:
        """Mappings by address, without overlaps: later mappings replace earlier ones."""
        bounds = zip(self._starts, self._starts[1:], self._owners, strict=False)
        return [
            msgspec.structs.replace(owner, start=start, end=end, file_offset=owner.file_offset + start - owner.start)
            for start, end, owner in bounds
            if owner is not None
        ]

    def find(self, address: int) -> Mapping | None:
        """The mapping that holds a guest address, or None."""
        position = bisect_right(self._starts, address) - 1
        return self._owners[position] if position >= 0 else None

    def first_of(self, path: str) -> Mapping | None:
        """The mapping of a file with the lowest address, or None."""
        return next((owner for owner in self._owners if owner is not None and owner.path == path), None)

    def find_all(self, addresses: npt.NDArray[np.uint64]) -> Iterator[tuple[Mapping | None, npt.NDArray[np.intp]]]:
        """The mappings that hold guest addresses, each with the positions of those that it holds."""
        number = np.searchsorted(np.array(self._starts, np.uint64), addresses, side="right")
        order = np.argsort(number, kind="stable")
        for positions in np.split(order, np.flatnonzero(np.diff(number[order])) + 1):
            if len(positions):
                yield self.find(int(addresses[positions[0]])), positions

    def locate(self, address: int) -> tuple[str, int]:
        """Path and file offset of a guest address; for memory without a file its name and the offset in it."""
        mapping = self.find(address)
        if mapping is None:
            return UNMAPPED, address
        return mapping.path, mapping.file_offset + address - mapping.start


def _overlay(layers: Sequence[Sequence[Mapping]]) -> tuple[list[int], list[Mapping | None]]:
    """Start of each run of addresses with one owner, and its owner."""
    edges = sorted({edge for layer in layers for mapping in layer for edge in (mapping.start, mapping.end)})
    position = {edge: index for index, edge in enumerate(edges)}
    owners: list[Mapping | None] = [None] * len(edges)
    for layer in layers:
        for mapping in layer:
            begin, end = position[mapping.start], position[mapping.end]
            owners[begin:end] = [mapping] * (end - begin)
    return edges, owners
