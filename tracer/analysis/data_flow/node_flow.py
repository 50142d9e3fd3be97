"""From the data flow between places of a recording to that between nodes of its execution tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from foretrace.tracer.analysis.modules import ModuleMap
from foretrace.tracer.reader.raw_flow import GROUPS, Ints, RawAllocation, RawFlow
from foretrace.tracer.reader.raw_trace import RawTrace
from foretrace.tracer.signature.data_flow_records import OUTSIDE, Allocation, DataFlow, MemoryObject, ObjectKind

Floats = npt.NDArray[np.float64]

_LARGEST_GAP_BYTES = 4096
"""Within an object, between stretches of touched memory, where all blocks are followed."""


class StaticVariable(Protocol):
    """A variable that a symbol table names: guest addresses [start, end)."""

    @property
    def name(self) -> str:
        """Name in the symbol table."""

    @property
    def start(self) -> int:
        """First address."""

    @property
    def end(self) -> int:
        """Address behind the last byte."""


@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    """Objects that the touched bytes belong to.

    `number` int64 [stretches] is the object of each stretch of `RawFlow`. `left` int64 [rows] is the object of each row
    of `RawFlow.left_object`: the one that memory belonged to before.
    """

    objects: tuple[MemoryObject, ...]
    number: Ints
    left: Ints


class Site(NamedTuple):
    """Place where memory is allocated, and the variable that holds it; empty and 0 where unknown."""

    function: str
    file: str
    line: int
    name: str = ""


def no_sites(sites: Sequence[int]) -> list[Site]:
    """Empty sites, for programs whose allocations have none."""
    return [Site("", "", 0) for _ in sites]


def data_flow_of(
    raw: RawTrace,
    nodes: Ints,
    counts_as: Ints | None = None,
    variables: Sequence[StaticVariable] = (),
    sites_of: Callable[[Sequence[int]], list[Site]] = no_sites,
) -> DataFlow | None:
    """The flow of a recording; None where it was not followed. `nodes` are those of the used places;
    `counts_as` int64 [nodes of the tree] the node that each one's accesses count for, None: itself; `variables` the
    static ones of all modules; `sites_of` says where the sites of allocations are."""
    flow = raw.flow
    if flow is None or flow.is_partial or flow.overflowed:
        return None
    variables = _apart(variables)
    sites = sites_of([one.site for one in flow.allocations])
    named = [replace(one, name=one.name or at.name) for one, at in zip(flow.allocations, sites, strict=True)]
    flow = _cut(replace(flow, allocations=tuple(named)), variables)
    objects = _objects(raw, flow, variables)
    node_of_place = np.full(len(flow.node), -1, np.int64)
    node_of_place[flow.used] = nodes if counts_as is None else counts_as[nodes]
    allocations = tuple(_allocation(one, site) for one, site in zip(flow.allocations, sites, strict=True))
    found = replace(node_flow(flow, node_of_place, objects), allocations=allocations)
    return found if counts_as is None else replace(found, node_place=counts_as)


def _allocation(raw: RawAllocation, site: Site) -> Allocation:
    return Allocation(_kind(raw), raw.name, site.function, site.file, site.line, raw.count, raw.num_bytes)


def _kind(raw: RawAllocation) -> ObjectKind:
    return ObjectKind(raw.kind) if 0 <= raw.kind < len(ObjectKind) else ObjectKind.UNKNOWN


def _apart(variables: Sequence[StaticVariable]) -> list[StaticVariable]:
    """By address, without those that begin in another, of a module that was mapped there at another time."""
    kept: list[StaticVariable] = []
    for one in sorted(variables, key=lambda one: (one.start, one.end)):
        if 0 <= one.start < one.end < 1 << 63 and (not kept or one.start >= kept[-1].end):
            kept.append(one)
    return kept


def _cut(flow: RawFlow, variables: Sequence[StaticVariable]) -> RawFlow:
    """The flow with touched stretches that end where variables do."""
    cuts = np.unique(np.array([edge for one in variables for edge in (one.start, one.end)], np.uint64))
    ends = flow.address + flow.length_bytes.astype(np.uint64)
    first = np.searchsorted(cuts, flow.address, side="right")
    pieces = np.searchsorted(cuts, ends, side="left") - first + 1
    stretch = np.repeat(np.arange(len(pieces)), pieces)
    piece = np.arange(len(stretch)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    begin, end = flow.address[stretch], ends[stretch]
    is_later, is_earlier = piece > 0, piece < pieces[stretch] - 1
    at = first[stretch] + piece
    begin[is_later] = cuts[at[is_later] - 1]
    end[is_earlier] = cuts[at[is_earlier]]
    return replace(
        flow,
        address=begin,
        length_bytes=(end - begin).astype(np.int64),
        touched_by=flow.touched_by[stretch],
        weight=flow.weight[stretch],
        touched_object=flow.touched_object[stretch],
    )


def _objects(raw: RawTrace, flow: RawFlow, variables: Sequence[StaticVariable]) -> Objects:
    """Static variables, and elsewhere stretches of touched memory without gaps: of one allocation, of what is mapped
    from one file, of Python's arrays, or unknown."""
    order = np.argsort(flow.address, kind="stable")
    address = flow.address[order]
    ends = address + flow.length_bytes[order].astype(np.uint64)
    variable = np.searchsorted(np.array([one.start for one in variables], np.uint64), address, side="right") - 1
    limits = np.array([*(one.end for one in variables), 0], np.uint64)  # the last: before all variables
    allocation = flow.touched_object[order] - 1
    variable = np.where((address < limits[variable]) & (allocation < 0), variable, -1)
    owner = np.zeros(len(address), np.int64)
    numbers: dict[str, int] = {"": 0}
    for mapping, positions in ModuleMap(raw.maps, raw.guest_base).find_all(address):
        if mapping is not None and mapping.path.startswith("/"):
            owner[positions] = numbers.setdefault(mapping.path, len(numbers))
    gap = np.uint64(_LARGEST_GAP_BYTES / flow.sampled_share)
    begins = np.ones(len(address), bool)
    is_other = (address[1:] > ends[:-1] + gap) | (allocation[1:] != allocation[:-1])
    is_other |= (owner[1:] != owner[:-1]) & (allocation[1:] < 0)
    begins[1:] = np.where(variable[1:] < 0, is_other, False) | (variable[1:] != variable[:-1])
    number = np.empty(len(address), np.int64)
    number[order] = np.cumsum(begins) - 1
    firsts = np.flatnonzero(begins)
    lasts = np.append(firsts, len(address))[1:]
    others = ObjectKind.ARRAY if raw.python_blocks else ObjectKind.UNKNOWN
    objects: list[MemoryObject] = []
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        known = int(allocation[first])
        if known >= 0:
            of, end = flow.allocations[known], int(ends[first:last].max())
            objects.append(MemoryObject(_kind(of), of.name, int(address[first]), end, known))
        elif variable[first] >= 0:
            one = variables[variable[first]]
            objects.append(MemoryObject(ObjectKind.STATIC, one.name, one.start, one.end))
        else:
            kind = ObjectKind.STATIC if owner[first] else others
            objects.append(MemoryObject(kind, "", int(address[first]), int(ends[first:last].max())))
    left, of_left = np.unique(flow.left_object, return_inverse=True)
    of_left = of_left.ravel() + len(objects)
    for known in (left - 1).tolist():
        kind, name = (_kind(flow.allocations[known]), flow.allocations[known].name) if known >= 0 else (others, "")
        objects.append(MemoryObject(kind, name, 0, 0, known))
    return Objects(tuple(objects), number, of_left)


def node_flow(raw: RawFlow, node_of_place: Ints, objects: Objects) -> DataFlow:
    """The flow between nodes; `node_of_place` int64 [places] has each place's node of the finished tree.

    Places of one node become one: a version that two of them read has one reader.
    """
    system = int(node_of_place.max(initial=-1)) + 1  # a number for it, behind all nodes
    is_system = raw.node < 0
    node_of_place = np.where(is_system, system, node_of_place)
    sets, set_of = _node_sets(raw, node_of_place)
    has_system = np.array([system in members for members in sets], np.bool_)
    nodes_of_set = [members[members != system] for members in sets]
    writer = np.where(raw.writer < 0, OUTSIDE, node_of_place[raw.writer]) if len(node_of_place) else raw.writer
    readers = set_of[raw.readers]
    total = raw.version_bytes.sum(axis=1).astype(np.float64)
    keys, flow_bytes = _summed([writer, readers, raw.version_object], total)
    touched = np.concatenate([raw.length_bytes * raw.weight, raw.left_bytes]).astype(np.float64)
    number = np.concatenate([objects.number, objects.left])
    by = set_of[np.concatenate([raw.touched_by, raw.left_by])]
    (touched_object, touched_by), touched_bytes = _summed([number, by], touched)
    by_system = keys[0] == system
    return DataFlow(
        set_starts=np.cumsum([0, *(len(members) for members in nodes_of_set)]),
        set_nodes=np.concatenate(nodes_of_set),
        set_has_system=has_system,
        flow_writer=np.where(by_system, OUTSIDE, keys[0]),
        flow_by_system=by_system,
        flow_readers=keys[1],
        flow_allocation=keys[2] - 1,
        flow_bytes=flow_bytes,
        touched_object=touched_object,
        touched_by=touched_by,
        touched_bytes=touched_bytes,
        objects=objects.objects,
        sampled_share=raw.sampled_share,
        relative_error=_relative_error(raw, writer, readers, sets),
        merged_bytes=float(total[raw.is_merged[raw.readers]].sum()),
    )


def _node_sets(raw: RawFlow, node_of_place: Ints) -> tuple[list[Ints], Ints]:
    """The different sets of nodes, ascending, the empty one first, and the number of each set of places; 0 for sets
    that no version and no stretch of memory has."""
    num_sets, num_nodes = len(raw.starts) - 1, int(node_of_place.max(initial=0)) + 1
    is_used = np.zeros(num_sets, bool)
    is_used[raw.readers] = is_used[raw.touched_by] = is_used[raw.left_by] = True
    owner = np.repeat(np.arange(num_sets), np.diff(raw.starts))
    kept = is_used[owner]
    owner, nodes = np.divmod(np.unique(owner[kept] * num_nodes + node_of_place[raw.members[kept]]), num_nodes)
    bounds = np.searchsorted(owner, np.arange(num_sets + 1)).tolist()
    numbers: dict[bytes, int] = {b"": 0}
    number_of = [numbers.setdefault(nodes[begin:end].tobytes(), len(numbers)) for begin, end in pairwise(bounds)]
    return [np.frombuffer(members, np.int64) for members in numbers], np.array(number_of, np.int64)


def _summed(columns: Sequence[Ints], values: Floats) -> tuple[list[Ints], Floats]:
    """The different rows, in order, column by column, and the sums of their values."""
    order = np.lexsort(tuple(reversed(columns)))
    ordered = [column[order] for column in columns]
    begins = np.ones(len(order), np.bool_)
    if len(order):
        begins[1:] = np.any([column[1:] != column[:-1] for column in ordered], axis=0)
    firsts = np.flatnonzero(begins)
    sums = np.add.reduceat(values[order], firsts) if len(firsts) else np.zeros(0)
    return [column[firsts] for column in ordered], sums.astype(np.float64)


def _relative_error(raw: RawFlow, writer: Ints, readers: Ints, sets: Sequence[Ints]) -> float:
    """Relative standard error of all flow between different nodes in the sum, from the spread of groups of blocks.

    The groups are chosen by hash. This is the random-groups estimator (Wolter, "Introduction to Variance Estimation",
    chapter 2), with the correction for a finite population.
    """
    if raw.sampled_share == 1:
        return 0.0
    own = [int(members[0]) if len(members) == 1 else OUTSIDE for members in sets]
    is_read = np.array([len(members) > 0 for members in sets], bool)[readers]
    between = is_read & ((writer == OUTSIDE) | (np.array(own, np.int64)[readers] != writer))
    sums = raw.version_bytes[between].sum(axis=0).astype(np.float64)
    groups, total = sums[1:], float(sums.sum())
    variance = GROUPS / (GROUPS - 1) * float(((groups - groups.mean()) ** 2).sum()) * (1 - raw.sampled_share)
    return float(np.sqrt(variance)) / total if total else 0.0
