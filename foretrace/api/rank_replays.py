"""Replays of parallel runs: ranks that compute and send messages over a network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from foretrace.base.units import format_seconds
from foretrace.replay.ranks import records, run
from foretrace.replay.ranks.platform import changed, read_platform
from foretrace.replay.ranks.time_independent import read_time_independent
from foretrace.reports.rank_reports import (
    action_table,
    imbalance_table,
    link_table,
    pair_table,
    path_table,
    place_table,
    rank_table,
)
from foretrace.reports.renderers import data_frame

from .views import MOST_ROWS, ShownTable, ShownTimeline, shown_as

if TYPE_CHECKING:
    import pandas

_TABLES = {
    "ranks": rank_table, "actions": action_table, "places": place_table, "imbalances": imbalance_table,
    "critical path": path_table, "pairs": pair_table, "links": link_table,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RankReplay(ShownTimeline, records.RankReplay):
    """Replay of a parallel run: `makespan_s`, what each rank did and waited for, links, the critical path."""

    def to_dataframe(self, table: str = "ranks") -> pandas.DataFrame:
        """A row for each rank, action, pair of ranks, or link: seconds, bytes, shares.

        Args:
            table: "ranks", "actions", "places", "imbalances", "critical path", "pairs" or "links".

        Raises:
            ValueError: there is no such table.
        """
        if table not in _TABLES:
            raise ValueError(f"there is no table {table!r}: {', '.join(_TABLES)}")
        return data_frame(_TABLES[table](self))

    def _line(self) -> str:
        return f"{self.timeline_title}: {format_seconds(self.makespan_s)}"

    def _table(self) -> ShownTable:
        parts = [f"{one.action} {format_seconds(one.path_s)}" for one in self.by_action[:3] if one.path_s > 0]
        notes = (f"critical path: {', '.join(parts)}",) if parts else ()
        return ShownTable.of(self._line(), replace(rank_table(self), shown=MOST_ROWS), notes)


def replay_ranks(
    trace: str | os.PathLike[str],
    platform: str | os.PathLike[str],
    *,
    ranks_per_node: int = 1,
    placement: str | os.PathLike[str] = "block",
    network_model: str = "SMPI",
    collectives: str = "mpich",
    algorithms: Mapping[str, str] | None = None,
    latency: float = 1.0,
    bandwidth: float = 1.0,
) -> RankReplay:
    """Replay the ranks of a parallel run on nodes joined by a network.

    Args:
        trace: a time-independent trace: the list of its files, or one file with the actions of all ranks.
        platform: a cluster as SimGrid describes it.
        ranks_per_node: that share the cores of a node.
        placement: "block", "round-robin", or a file with the number of the node of each rank.
        network_model: "CM02", "LV08" or "SMPI".
        collectives: whose choices of algorithms are followed: "mpich", "openmpi" or "simgrid".
        algorithms: others by collective, as in {"allreduce": "ring"}.
        latency, bandwidth: what if those of the links were so many times as large.

    Returns:
        Makespan, critical path, and DataFrames of ranks, actions and links.

    Raises:
        TraceFileError: a file is missing or wrong.
        PredictionError: there are too few nodes, ranks deadlock, or a choice does not exist.
    """
    where = changed(read_platform(Path(platform), network_model), latency=latency, bandwidth=bandwidth)
    found = run.replay_ranks(
        read_time_independent(Path(trace)), where, ranks_per_node=ranks_per_node,
        placement=os.fspath(placement), library=collectives,
        algorithms=algorithms,
    )  # fmt: skip
    return shown_as(RankReplay, found)
