"""The data flow as the stream reader hands it over: between places, not yet related to nodes of the execution tree."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from foretrace.tracer.reader._reader import FlowRows
    from foretrace.tracer.reader.raw_trace import RawObject

Ints = npt.NDArray[np.int64]

NO_WRITER = (1 << 32) - 1
"""FT_FLOW_OUTSIDE of flow.h."""
MERGED_SET = 1
"""FT_FLOW_MERGED."""
GROUPS = 8
"""FT_FLOW_GROUPS: groups of sampled blocks that are counted apart."""


SYSTEM_PLACE = 0
"""FT_FLOW_SYSTEM of places.h."""


@dataclass(frozen=True, slots=True)
class RawAllocation:
    """Memory allocated at one place of a program: an object of flow.h. `kind`, `site` and `name` are those of struct
    ft_side_object; [first, last_exclusive) is around all `count` allocations, of `num_bytes` in all."""

    kind: int
    site: int
    name: str
    count: int
    num_bytes: int
    first: int
    last_exclusive: int


@dataclass(frozen=True, slots=True, eq=False)
class RawFlow:
    """Tables of numbers.

    Per place: `node` int64 [places], its node in the tree of the recording, -1 for the system; `operation` int64
    [places], a memory operation there. Set s is `members[starts[s]:starts[s + 1]]` int64, places; `is_merged` bool
    [sets] says which sets stand for several. Per version: `writer` int64, a place or -1; `readers` int64, a set;
    `version_object` int64, an object, 0 if it is not known; `version_bytes` int64 [versions, 1 + GROUPS], scaled up: of
    blocks that were all followed, then of sampled ones by group. Per stretch of memory that the same places touched:
    `address` uint64; `length_bytes`, `touched_by` (a set), `weight` (of how many blocks its block is one) and
    `touched_object` int64. Memory that belongs to another object by now, int64 each: `left_object`, `left_by` (a set),
    `left_bytes`. Object i is `allocations[i - 1]`.
    `is_partial`: it was followed until the first gap between bursts of accesses. `overflowed`: until there were too
    many places.
    """

    node: Ints
    operation: Ints
    starts: Ints
    members: Ints
    is_merged: npt.NDArray[np.bool_]
    writer: Ints
    readers: Ints
    version_bytes: Ints
    address: npt.NDArray[np.uint64]
    length_bytes: Ints
    touched_by: Ints
    weight: Ints
    version_object: Ints
    touched_object: Ints
    left_object: Ints
    left_by: Ints
    left_bytes: Ints
    allocations: tuple[RawAllocation, ...]
    sampled_share: float
    is_partial: bool
    overflowed: bool

    @property
    def used(self) -> Ints:
        """The places that have written, read or touched anything; int64."""
        used: Ints = np.unique(np.concatenate([self.members, self.writer[self.writer >= 0]]))
        return np.asarray(used[self.node[used] >= 0], np.int64)

    def places(self, block_of_operation: Sequence[int]) -> list[tuple[int, int]]:
        """Node and block of each of the `used` places, by the block of each of the recording's operations."""
        used = self.used
        nodes, operations = self.node[used].tolist(), self.operation[used].tolist()
        return [(node, block_of_operation[operation]) for node, operation in zip(nodes, operations, strict=True)]


def raw_flow(rows: FlowRows | None, objects: Sequence[RawObject] = ()) -> RawFlow | None:
    """The reader's data flow as arrays. `objects` are those of the side table."""
    if rows is None:
        return None
    places = np.frombuffer(rows["places"], np.uint32).reshape(-1, 2).astype(np.int64)
    starts, members = _sets(np.frombuffer(rows["sets"], np.uint32))
    places[:1, 0] = -1  # SYSTEM_PLACE
    versions = np.frombuffer(rows["versions"], np.uint64).reshape(-1, 4 + GROUPS).astype(np.int64)
    touched = np.frombuffer(rows["touched"], np.uint64).reshape(-1, 5)
    left = np.frombuffer(rows["left"], np.uint64).reshape(-1, 3).astype(np.int64)
    counts = np.frombuffer(rows["objects"], np.uint64).reshape(-1, 4).tolist()
    return RawFlow(
        node=places[:, 0],
        operation=places[:, 1],
        starts=starts,
        members=members,
        is_merged=np.arange(len(starts) - 1) == MERGED_SET,
        writer=np.where(versions[:, 0] == NO_WRITER, -1, versions[:, 0]),
        readers=versions[:, 2],
        version_bytes=versions[:, 3:],
        address=touched[:, 0],
        length_bytes=touched[:, 1].astype(np.int64),
        touched_by=touched[:, 2].astype(np.int64),
        weight=touched[:, 3].astype(np.int64),
        version_object=versions[:, 1],
        touched_object=touched[:, 4].astype(np.int64),
        left_object=left[:, 0],
        left_by=left[:, 1],
        left_bytes=left[:, 2],
        allocations=tuple(
            RawAllocation(one.kind, one.site, one.name, *numbers) for one, numbers in zip(objects, counts, strict=False)
        ),
        sampled_share=0.5 ** rows["log_weight"],
        is_partial=rows["ended"],
        overflowed=rows["overflowed"],
    )


def _sets(words: npt.NDArray[np.uint32]) -> tuple[Ints, Ints]:
    """Start of each set, int64 [sets + 1], and the members of all sets, int64."""
    at, heads = 0, []
    lengths = []
    while at < len(words):
        heads.append(at)
        lengths.append(int(words[at]))
        at += 1 + lengths[-1]
    return np.cumsum([0, *lengths]), np.delete(words, heads).astype(np.int64)


def combined(flows: Sequence[RawFlow], node_offsets: Sequence[int], operation_offsets: Sequence[int]) -> RawFlow:
    """The flows of several processes as one, whose nodes and operations are numbered from those offsets.

    Each process has memory of its own: what a parent wrote before a fork is from outside for the child.
    """
    places = list(itertools.accumulate((len(flow.node) for flow in flows), initial=0))
    sets = list(itertools.accumulate((len(flow.starts) - 1 for flow in flows), initial=0))
    objects = list(itertools.accumulate((len(flow.allocations) for flow in flows), initial=0))

    def joined(name: str, offsets: Sequence[int], least: int = 0) -> Ints:
        """A column of all flows, with each one's offset added to what is at least `least`."""
        columns = (getattr(flow, name) for flow in flows)
        moved = [np.where(one >= least, one + by, one) for one, by in zip(columns, offsets, strict=False)]
        return np.concatenate(moved)

    unchanged = ("is_merged", "version_bytes", "address", "length_bytes", "weight", "left_bytes")
    columns: dict[str, Any] = {name: np.concatenate([getattr(flow, name) for flow in flows]) for name in unchanged}
    return RawFlow(
        **columns,
        node=joined("node", node_offsets),
        operation=joined("operation", operation_offsets),
        starts=np.cumsum([0, *np.concatenate([np.diff(flow.starts) for flow in flows])]),
        members=joined("members", places),
        writer=joined("writer", places),
        readers=joined("readers", sets),
        touched_by=joined("touched_by", sets),
        version_object=joined("version_object", objects, 1),
        touched_object=joined("touched_object", objects, 1),
        left_object=joined("left_object", objects, 1),
        left_by=joined("left_by", sets),
        allocations=tuple(one for flow in flows for one in flow.allocations),
        sampled_share=min(flow.sampled_share for flow in flows),
        is_partial=any(flow.is_partial for flow in flows),
        overflowed=any(flow.overflowed for flow in flows),
    )


def with_sites(flow: RawFlow, moved: Callable[[int], int]) -> RawFlow:
    """The flow with the address of each allocation's site moved."""
    allocations = tuple(replace(one, site=moved(one.site)) if one.site else one for one in flow.allocations)
    return replace(flow, allocations=allocations)
