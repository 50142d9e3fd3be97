"""Replays: how a program's threads, or copies of it, share a machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foretrace.base.errors import PredictionError, quoted
from foretrace.base.units import format_seconds
from foretrace.replay.node.machine_run import Offloading
from foretrace.replay.node.records import NodeReplay
from foretrace.replay.node.replay import replay_on
from foretrace.replay.offload.policy import Policy
from foretrace.reports.replay_reports import entity_table

from .machines import MachineLike, find_machine
from .predictions import model_of
from .signatures import SignatureLike, signature_of
from .views import MOST_ROWS, ShownTable, ShownTimeline, shown_as

if TYPE_CHECKING:
    import pandas

TABLES = ("entities", "resources", "timeline")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Replay(ShownTimeline, NodeReplay):
    """Replay of threads and copies of a program on one machine: `makespan_s`, within `low_s` and `high_s`, and why."""

    def to_dataframe(self, table: str = "entities") -> pandas.DataFrame:
        """A row for each thread: busy, waiting and end, in seconds; or for each resource, or segment of the timeline.

        Args:
            table: "entities", "resources" or "timeline".

        Raises:
            ValueError: there is no such table.
        """
        if table not in TABLES:
            raise ValueError(f"there is no table {table!r}: {', '.join(TABLES)}")
        frame: pandas.DataFrame = getattr(self, f"{table}_frame")
        return frame

    def _line(self) -> str:
        return f"{self.machine}: {self._what()}: {self._interval()}"

    def _what(self) -> str:
        threads = f"{self.threads} threads" if self.threads > 1 else "1 thread"
        copies = "" if self.copies == 1 else f"{self.copies} copies with "
        cores = f"{self.cores} cores" if self.cores > 1 else "1 core"
        return f"{copies}{threads} on {cores}"

    def _interval(self) -> str:
        low, high = format_seconds(self.low_s), format_seconds(self.high_s)
        return f"{format_seconds(self.makespan_s)} ({low} to {high})"

    def _table(self) -> ShownTable:
        path = ", ".join(f"{part.activity} {part.share:.0%}" for part in self.critical_path[:3])
        notes = (
            *((f"critical path: {path}",) if path else ()),
            *(f"{one.change}: {one.speedup:.2f} times as fast" for one in self.shorter),
            *(f"warning: {warning}" for warning in self.warnings),
        )
        title = f"{self.title}, {self._what()}: {self._interval()}"
        return ShownTable.of(title, replace(entity_table(self), shown=MOST_ROWS), notes)


def replay(
    signature: SignatureLike,
    machine: MachineLike,
    *,
    cores: int | None = None,
    threads: int | None = None,
    copies: int = 1,
    accelerator: MachineLike | None = None,
    accelerators: int = 1,
    policy: str = "greedy",
    model: str = "core",
) -> Replay:
    """Replay a program on a machine: its threads, or copies of it, share cores, caches, memory and accelerators.

    Args:
        signature: a signature, a traced run, or the path of a signature file.
        machine: a host's name, profile, or the path of its TOML file.
        cores: to use; None: all.
        threads: of each copy; None: as traced.
        copies: of the program that run at the same time.
        accelerator: of the host: a name, a profile or the path of one; None for none.
        accelerators: how many there are.
        policy: which loops go there: never, always, threshold, greedy or plan.
        model: "core" for the detailed core model, "convolution" for the published one.

    Returns:
        Makespan, critical path and what would shorten it; DataFrames of entities, resources and timeline.

    Raises:
        SignatureError: a path names no signature file.
        ProfileError: there is no such machine.
        PredictionError: a number is out of range, there is no such policy or model, or signature and profiles do not
            tell enough.
    """
    offloading = None
    if accelerator is not None:
        offloading = Offloading(find_machine(accelerator), accelerators, _policy(policy))
    found = replay_on(
        signature_of(signature), find_machine(machine), cores=cores, threads=threads, copies=copies,
        offloading=offloading, model=model_of(model),
    )  # fmt: skip
    return shown_as(Replay, found)


def _policy(name: str) -> Policy:
    try:
        return Policy(name)
    except ValueError:
        raise PredictionError(f"policy {quoted(str(name))} is not known: {', '.join(Policy)}") from None
