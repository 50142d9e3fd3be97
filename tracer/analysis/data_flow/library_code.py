"""Library code, whose data flow is that of the call into it.

All that runs between a call into libraries and its return is one place, other than functions of the program that
libraries call back. All of the dynamic loader is one place, and so is what runs before and after `main` in the thread
that runs it. Without that, each lazy binding and each formatted number would be hundreds of places of which no question
is ever asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from foretrace.tracer.analysis.modules import ModuleMap
from foretrace.tracer.signature.tree_records import ExecutionTree, TreeNodeKind

Ints = npt.NDArray[np.int64]

_LOADER = re.compile(r"ld(-linux.*|-musl-.*|64|-[\d.]+)?\.so(\.\d+)*")
_SYSTEM = re.compile(r"(/usr)?/(lib|lib32|lib64|libx32)/|/usr/[^/]+-[^/]+/(lib|lib64)/|/(nix|gnu)/store/")
"""Directories of libraries: Filesystem Hierarchy Standard 3.0, sections 3.9, 3.10, 4.6 and 4.7; those of cross
compilers' sysroots; Nix and Guix."""
_SHARED_OBJECT = re.compile(r".*\.so(\.\d+)*")
_VDSO = "[vdso]"


class Owner(IntEnum):
    """Whose code it is: enum ft_code_owner of places.h."""

    PROGRAM = 0
    LIBRARY = 1
    LOADER = 2


def is_loader(path: str) -> bool:
    """Whether a module is a system's dynamic loader, by its file's name (ld.so(8))."""
    return _LOADER.fullmatch(path.rpartition("/")[2]) is not None


def owner_of(path: str) -> Owner:
    """Whose code a mapped file is, by its path: shared objects of the system are libraries."""
    if is_loader(path):
        return Owner.LOADER
    is_library = _SYSTEM.match(path) and _SHARED_OBJECT.fullmatch(path)
    return Owner.LIBRARY if is_library or path == _VDSO else Owner.PROGRAM


def code_ranges(maps: Sequence[str], guest_base: int) -> npt.NDArray[np.uint64]:
    """Address ranges of code that is not the program's, from copies of /proc/self/maps: uint64 [ranges, 3], guest
    addresses [first, last_exclusive) and the owner."""
    ranges = [
        (mapping.start, mapping.end, owner)
        for mapping in ModuleMap(maps, guest_base).mappings()
        if (owner := owner_of(mapping.path))
    ]
    return np.array(ranges, np.uint64).reshape(-1, 3)


_MOST_OF_A_CALL = 0.5
"""Share of the instructions of a call into libraries: a loop that has more stands for the call."""


def places_of(tree: ExecutionTree, instructions: Sequence[int]) -> Ints:
    """[nodes]: the node that the data flow of each node counts for; `instructions` of each block.

    Of a call into libraries that is the outermost loop in which it spends most of its instructions, else the call.
    Beside the system's libraries, shared objects without line information count as such where `main` has some.
    """
    calls = _calls(tree)
    work = np.array(instructions, np.float64)[tree.work_block] * tree.work_executions
    own = np.bincount(tree.work_node, work, len(tree)).astype(np.float64)
    of_call = np.bincount(calls, own, len(tree))
    within = own.copy()  # a node and all below it that belong to the same call
    parent = tree.parent.tolist()
    for node in range(len(tree) - 1, -1, -1):
        if parent[node] >= 0 and calls[parent[node]] == calls[node]:
            within[parent[node]] += within[node]
    stands = np.arange(len(tree))
    is_loop = tree.kind == TreeNodeKind.LOOP
    has_inside = np.bincount(calls, minlength=len(tree)) > 1
    has_inside[[root for root in range(len(tree)) if parent[root] < 0]] = False
    for node in np.flatnonzero(is_loop & has_inside[calls] & (within > _MOST_OF_A_CALL * of_call[calls])).tolist():
        call = int(calls[node])
        if stands[call] == call:  # else one around it stands for the call
            stands[call] = node
    return np.asarray(stands[calls], np.int64)


def _calls(tree: ExecutionTree) -> Ints:
    """[nodes]: of library code the call into libraries, of the loader its first node, of what runs outside of `main`
    the thread's root; itself of all others."""
    owners = _owners(tree)
    outside = _outside_main(tree)
    places = np.arange(len(tree))
    above = np.full(len(tree), -1, np.int64)  # itself, or of the loader's the nearest node above that is none of it
    loader = next((node for node, owner in enumerate(owners) if owner is Owner.LOADER), -1)
    for node, owner in enumerate(owners):
        parent = int(tree.parent[node])
        over = int(above[parent]) if parent >= 0 else -1
        above[node] = over if owner is Owner.LOADER else node
        if outside[node] >= 0:
            places[node] = outside[node]
        elif owner is Owner.LOADER:
            places[node] = loader if outside[loader] < 0 else outside[loader]
        elif owner is Owner.LIBRARY and over >= 0 and owners[over] is Owner.LIBRARY and outside[over] < 0:
            places[node] = places[over]
    return np.asarray(places, np.int64)


def _owners(tree: ExecutionTree) -> list[Owner]:
    """Owner of each node; a loop has its function's."""
    main = next((key for key, kind in zip(tree.keys, tree.kind, strict=True) if _is_main(key.function, kind)), None)
    has_lines = main is not None and bool(main.file)
    owners: list[Owner] = []
    for node, key in enumerate(tree.keys):
        kind, parent = int(tree.kind[node]), int(tree.parent[node])
        if kind in (TreeNodeKind.LOOP, TreeNodeKind.LEAF) and parent >= 0:
            owners.append(owners[parent])
            continue
        owner = owner_of(key.module)
        is_unseen = has_lines and not key.file and _SHARED_OBJECT.fullmatch(key.module) is not None
        owners.append(Owner.LIBRARY if owner is Owner.PROGRAM and is_unseen else owner)
    return owners


def _is_main(function: str, kind: int) -> bool:
    return function == "main" and kind == TreeNodeKind.CALL


def _outside_main(tree: ExecutionTree) -> Ints:
    """[nodes]: the root of the thread that runs `main`, of what runs there before and after it; -1 of all others."""
    root = np.arange(len(tree))
    names = zip(tree.keys, tree.kind, strict=True)
    is_inside = np.array([_is_main(key.function, int(kind)) for key, kind in names], np.bool_)
    for node, parent in enumerate(tree.parent.tolist()):
        if parent >= 0:
            root[node] = root[parent]
            is_inside[node] |= is_inside[parent]
    return np.where(np.isin(root, root[is_inside]) & ~is_inside, root, -1)
