"""The tables of the data flow between nodes of the execution tree, and of what loops carry between iterations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Annotated, Any

import numpy as np

from .data_flow_records import (
    Allocation,
    DataFlow,
    Dependence,
    ExaminedLoop,
    MemoryObject,
    check_data_flow,
    check_dependences,
)
from .schema import Column, Ints, Rows, StoredTables, Table, columns, columns_of, part_table, table_of

_flow = attrgetter("data_flow")


def _sets(flow: DataFlow) -> Iterable[Sequence[Any]]:
    lengths = np.diff(flow.set_starts)
    return [len(lengths)], [len(flow.set_nodes)], [lengths], [flow.set_nodes], [flow.set_has_system]


FLOW_TABLES = (
    part_table(
        "data_flow",
        "How the data flow was followed; no row where it was not.",
        columns_of(DataFlow, "sampled_share", "relative_error", "merged_bytes"),
        _flow,
    ),
    Table(
        "data_flow_sets",
        "Sets of nodes, one behind the other.",
        columns(sets=Rows, members=Rows, lengths=Annotated[Ints, Column(packed="<u4", length=("sets",))])
        | columns_of(DataFlow, "set_nodes", "set_has_system"),
        _sets,
        _flow,
    ),
    part_table(
        "data_flow_versions",
        "Bytes by the node that wrote them and the set of those that read them.",
        columns_of(DataFlow, "flow_writer", "flow_by_system", "flow_readers", "flow_allocation", "flow_bytes"),
        _flow,
    ),
    part_table(
        "data_flow_touched",
        "Bytes by their object and the set of nodes that touched them.",
        columns_of(DataFlow, "touched_object", "touched_by", "touched_bytes"),
        _flow,
    ),
    part_table(
        "data_flow_nodes",
        "The node that each node's accesses count for.",
        columns_of(DataFlow, "node_place"),
        _flow,
        since=16,
    ),
    table_of("memory_objects", MemoryObject, "objects", number="object_id", part=_flow),
    table_of("allocations", Allocation, number="allocation_id", part=_flow),
)
DEPENDENCE_TABLES = (
    table_of("examined_loops", ExaminedLoop),
    table_of("dependences", Dependence, order="rowid"),
)


def read_data_flow(stored: StoredTables) -> DataFlow | None:
    """The data flow, if it was followed.

    Raises:
        ValueError: the tables do not fit together.
    """
    found = stored.row("data_flow")
    if found is None:
        return None
    for name in ("data_flow_sets", "data_flow_versions", "data_flow_touched", "data_flow_nodes"):
        if stored.has(name):
            found |= stored.part(name)
    found["set_starts"] = np.concatenate(([0], np.cumsum(found["lengths"])))
    for name in ("rows", "sets", "members", "lengths"):
        del found[name]
    flow = DataFlow(
        **found,
        objects=stored.records(MemoryObject, "memory_objects"),
        allocations=stored.records(Allocation, "allocations"),
    )
    check_data_flow(flow, stored.count("tree_nodes"))
    return flow


def read_dependences(stored: StoredTables) -> tuple[tuple[Dependence, ...], tuple[ExaminedLoop, ...]]:
    """The dependences of loops, and the loops that were examined for any.

    Raises:
        ValueError: the tables do not fit together.
    """
    examined = stored.records(ExaminedLoop, "examined_loops")
    dependences = stored.records(Dependence, "dependences")
    check_dependences(dependences, examined)
    return dependences, examined
