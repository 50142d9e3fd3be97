"""The tables of a parallel run: its ranks, and the places from which they make calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Annotated, Any

import numpy as np

from foretrace.base import json_text

from .rank_records import (
    CALL,
    CALL_NUMBERS,
    CALL_SECONDS,
    STEP,
    CallSite,
    RankRecord,
    RankRun,
    check_ranks,
)
from .schema import Column, Floats, Identity, Ints, Rows, StoredTables, Table, columns, made, table_of

_ranks = attrgetter("ranks")


def _packed(kind: str, column: str, *length: int | str, **more: Any) -> Column:
    return Column(column=column, packed=kind, length=length, **more)


_RANK = columns(
    rank=Identity,
    processor_s=Annotated[float, Column(unit="s")],
    wall_s=Annotated[float, Column(unit="s")],
    is_complete=bool,
    left_out=str,
    calls=Rows,
    steps=Rows,
    slots=Rows,
    counts=Rows,
    communicators=Rows,
    members=Rows,
    work=Rows,
    numbers=Annotated[Ints, _packed("<i8", "call_numbers", "calls", len(CALL_NUMBERS), least=-1)],
    seconds=Annotated[Floats, _packed("<f8", "call_seconds", "calls", len(CALL_SECONDS))],
    program=Annotated[Ints, _packed("<i8", "program", "steps", 2, least=-2)],
    slot=Annotated[Ints, _packed("<i8", "slot", "slots", least=1)],
    count=Annotated[Ints, _packed("<i8", "count", "counts")],
    sizes=Annotated[Ints, _packed("<i8", "communicator_sizes", "communicators")],
    member=Annotated[Ints, _packed("<i8", "member", "members")],
    work_call=Annotated[Ints, _packed("<i8", "work_call", "work")],
    work_node=Annotated[Ints, _packed("<i8", "work_node", "work", of="tree_nodes")],
    work_executions=Annotated[Ints, _packed("<i8", "work_executions", "work")],
)


def _columns_of_calls(record: RankRecord, names: Sequence[str], kind: type) -> Any:
    return np.array([record.calls[name] for name in names], kind).T.reshape(len(record.calls), len(names))


def _rows(run: RankRun) -> Iterable[Sequence[Any]]:
    ranks = run.ranks
    members = [np.array([rank for one in record.communicators for rank in one], np.int64) for record in ranks]
    yield range(len(ranks))
    yield [record.processor_s for record in ranks]
    yield [record.wall_s for record in ranks]
    yield [record.is_complete for record in ranks]
    yield [json_text.encode(record.left_out).decode() for record in ranks]
    for name in ("calls", "steps", "slots", "counts", "communicators"):
        yield [len(getattr(record, name)) for record in ranks]
    yield list(map(len, members))
    yield [len(record.work) for record in ranks]
    yield [_columns_of_calls(record, CALL_NUMBERS, np.int64) for record in ranks]
    yield [_columns_of_calls(record, CALL_SECONDS, np.float64) for record in ranks]
    yield [np.array([record.steps["call"], record.steps["times"]]).T.reshape(-1, 2) for record in ranks]
    yield [record.slots for record in ranks]
    yield [record.counts for record in ranks]
    yield [np.array(list(map(len, record.communicators)), np.int64) for record in ranks]
    yield members
    for column in range(3):
        yield [record.work[:, column] for record in ranks]


RANK_TABLES = (
    Table(
        "parallel_run",
        "The MPI library of a parallel run, and the processor that it ran on.",
        columns(library=str, processor=str),
        lambda run: ([run.library], [run.processor]),
        _ranks,
        since=18,
    ),
    Table("ranks", "A rank: its calls, their order, and what it did before each.", _RANK, _rows, _ranks, "", since=18),
    table_of("call_sites", CallSite, "sites", part=_ranks, number="site", since=18),
)


def read_ranks(stored: StoredTables) -> RankRun | None:
    """The parallel run that a signature is of; None where it is of a program without ranks.

    Raises:
        ValueError: the tables do not fit together.
    """
    head = stored.row("parallel_run")
    if head is None:
        return None
    found = stored.columns("ranks")
    found.pop("rank")
    rows = [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]
    sites = stored.columns("call_sites")
    sites.pop("site")
    run = RankRun(head["library"], head["processor"], tuple(map(_record, rows)), made(CallSite, sites))
    check_ranks(run)
    return run


def _record(row: dict[str, Any]) -> RankRecord:
    calls = np.zeros(len(row["numbers"]), CALL)
    for names, values in ((CALL_NUMBERS, row["numbers"]), (CALL_SECONDS, row["seconds"])):
        for column, name in enumerate(names):
            calls[name] = values[:, column]
    steps = np.zeros(len(row["program"]), STEP)
    steps["call"], steps["times"] = row["program"].T
    if row["sizes"].sum(dtype=np.float64) != len(row["member"]):
        raise ValueError("ranks.communicator_sizes do not sum up to the members")
    members, ends = row["member"].tolist(), np.cumsum(row["sizes"]).tolist()
    return RankRecord(
        calls=calls,
        steps=steps,
        slots=row["slot"],
        counts=row["count"],
        communicators=tuple(tuple(members[a:b]) for a, b in zip([0, *ends], ends, strict=False)),
        processor_s=row["processor_s"],
        wall_s=row["wall_s"],
        is_complete=row["is_complete"],
        left_out=json_text.decode(row["left_out"], dict[str, int]),
        work=np.array([row["work_call"], row["work_node"], row["work_executions"]]).T.reshape(-1, 3),
    )
