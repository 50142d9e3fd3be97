"""Replays of parallel runs: ranks that compute and send messages over a network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from foretrace.base.errors import PredictionError
from foretrace.base.units import format_seconds
from foretrace.profiles.interconnect import interconnect_of
from foretrace.replay.ranks import records
from foretrace.replay.ranks.machine_run import Layout, TimedOn, replay_run
from foretrace.replay.ranks.platform import changed, read_platform
from foretrace.replay.ranks.run import replay_ranks as run_on_platform
from foretrace.replay.ranks.run_files import read_ranks
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

from .machines import MachineLike, find_machine
from .signatures import SignatureLike, signature_of
from .views import MOST_ROWS, ShownTable, ShownTimeline, shown_as

if TYPE_CHECKING:
    import pandas

    from .signatures import Signature

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
        return f"{self.timeline_title}: {format_seconds(self.makespan_s)}{self._interval()}"

    def _interval(self) -> str:
        return f" ({format_seconds(self.low_s)} to {format_seconds(self.high_s)})" if self.ends_s else ""

    def _table(self) -> ShownTable:
        parts = [f"{one.action} {format_seconds(one.path_s)}" for one in self.by_action[:3] if one.path_s > 0]
        notes = (f"critical path: {', '.join(parts)}",) if parts else ()
        return ShownTable.of(self._line(), replace(rank_table(self), shown=MOST_ROWS), notes)


def replay_ranks(
    run: str | os.PathLike[str] | Signature,
    platform: str | os.PathLike[str] | None = None,
    *,
    machine: MachineLike | None = None,
    nodes: int | None = None,
    ranks_per_node: int | None = None,
    placement: str | os.PathLike[str] | None = None,
    network: str | None = None,
    topology: str | None = None,
    timed_on: MachineLike | None = None,
    like: SignatureLike | None = None,
    network_model: str = "SMPI",
    collectives: str | None = None,
    algorithms: Mapping[str, str] | None = None,
    latency: float = 1.0,
    bandwidth: float = 1.0,
) -> RankReplay:
    """Replay the ranks of a parallel run on nodes joined by a network: of a machine, or of a platform.

    Args:
        run: a signature of a parallel run (`foretrace trace --mpi`), or a time-independent trace: the list of its
            files, or one file with the actions of all ranks, which takes a platform.
        platform: a cluster as SimGrid describes it. A run that was traced, not timed, takes a machine instead.
        machine: a host's name, profile, or the path of its TOML file: each node is one.
        nodes: number of nodes of the machine; None: as many as are needed.
        ranks_per_node: that share a node; None: 1 of a platform, as many as a machine has cores.
        placement: of ranks on a platform's nodes: "block" (the default), "round-robin", or a file with the number of
            the node of each rank.
        network: what joins the machine's nodes: an interconnect's name or TOML file, or "2us,12.5GB/s".
        topology: of the network, as in "torus:4x4"; None: the interconnect's.
        timed_on, like: of a run that was timed, the machine it was timed on, and a signature whose times on both
            machines scale its computation.
        network_model: of a platform: "CM02", "LV08" or "SMPI".
        collectives: whose choices of algorithms are followed: "mpich", "openmpi" or "simgrid"; None: those of the
            run's own library, or MPICH's.
        algorithms: others by collective, as in {"allreduce": "ring"}.
        latency, bandwidth: what if those of the links were so many times as large.

    Returns:
        Makespan, critical path, and DataFrames of ranks, actions and links.

    Raises:
        TraceFileError, SignatureError, ProfileError: a file is missing or wrong.
        PredictionError: there are too few nodes, ranks deadlock, a choice does not exist, or options do not go
            together.
    """
    of_machine = (nodes, network, topology, timed_on, like)
    if (platform is None) == (machine is None):
        raise PredictionError("name either the machine or the platform that the run is replayed on")
    if platform is not None:
        if any(given is not None for given in of_machine):
            raise PredictionError("nodes, network, topology, timed_on and like are of a machine, not of a platform")
        where = changed(read_platform(Path(platform), network_model), latency=latency, bandwidth=bandwidth)
        if not isinstance(run, str | os.PathLike):
            raise PredictionError("on a platform a run is replayed from its file")
        found = run_on_platform(
            read_ranks(Path(run)), where, ranks_per_node=ranks_per_node or 1,
            placement=os.fspath(placement or "block"), library=collectives or "mpich", algorithms=algorithms,
        )  # fmt: skip
        return shown_as(RankReplay, found)
    if placement is not None:
        raise PredictionError("placement is of a platform's nodes")
    if (timed_on is None) != (like is None):
        raise PredictionError("timed_on and like go together: the machine, and what is predicted on both")
    assert machine is not None
    layout = Layout(
        nodes, ranks_per_node, None if network is None else interconnect_of(network), topology, collectives or "",
        dict(algorithms or {}), latency, bandwidth,
    )  # fmt: skip
    ratio = None if timed_on is None or like is None else TimedOn(find_machine(timed_on), signature_of(like))
    origin = str(run) if isinstance(run, str | os.PathLike) else "the run"
    return shown_as(
        RankReplay, replay_run(signature_of(run), find_machine(machine), layout, origin=origin, timed_on=ratio)
    )
