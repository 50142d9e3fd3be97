"""Sweeps: many runs on many machines under many changes."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretrace.base.errors import OutputError
from foretrace.base.file_kinds import REPORT, csv_report
from foretrace.base.files import write_atomically
from foretrace.base.units import counted
from foretrace.profiles.profile import Profile
from foretrace.profiles.profile_file import format_profile
from foretrace.replay.sweep.inputs import Run, Source, digest_of, run_at
from foretrace.replay.sweep.plan import Plan
from foretrace.replay.sweep.sweep import Progress, SweepResult, run_sweep
from foretrace.reports.model import Table
from foretrace.reports.renderers import FORMATS, PARQUET, check_parquet, data_frame, rendered
from foretrace.reports.sweep_reports import fastest, point_table, sweep_report

from .machines import find_machine
from .signatures import Signature, SignatureLike, signature_of
from .views import MOST_ROWS, Shown, ShownTable, shown_as

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sweep(Shown, SweepResult):
    """Results of a sweep: `rows`, one for each point, and those that `failed`."""

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each point: run, machine, values of the axes, times in seconds, or the `error`."""
        return data_frame(point_table(self, self.rows))

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write all points (.csv, .parquet, .json), or a summary (.md).

        Raises:
            OutputError: the file exists and `force` is not given, has another ending, or cannot be written.
        """
        target = Path(path)
        name = target.suffix[1:]
        if name not in (*FORMATS, PARQUET):
            raise OutputError(f"{target}: must end in .{', .'.join(FORMATS)} or .{PARQUET}")
        if name == PARQUET:
            check_parquet(target)
        content = rendered(sweep_report(self, MOST_ROWS), name)
        kind = csv_report(content) if name == "csv" else REPORT
        write_atomically(target, content, kind, force=force)

    def _line(self) -> str:
        failed = f", {len(self.failed):,} failed" if self.failed else ""
        return f"{counted(len(self.rows), 'point')}{failed}"

    def _table(self) -> ShownTable:
        *_, shown = (section for section in sweep_report(self, MOST_ROWS).sections if isinstance(section, Table))
        return ShownTable.of(self._line(), shown, self.notes, len(fastest(self)))


def sweep(
    runs: SignatureLike | Iterable[SignatureLike],
    *,
    jobs: int | None = None,
    dask: str | None = None,
    journal: str | os.PathLike[str] | None = None,
    on_progress: Progress = lambda done, total: None,
    **axes: Any,
) -> Sweep:
    """Predict or replay many runs on many machines, under every combination of the values given.

    A point that cannot be worked out has an `error` in place of its times, and the others go on.

    Args:
        runs: signatures, traced runs, or paths of signatures and of time-independent traces: one or several.
        jobs: worker processes; None: as many as there are cores.
        dask: address of a Dask scheduler whose workers are used instead, "tcp://host:8786".
        journal: file in which finished points are written down; those that it has already are not worked out again.
        on_progress: called with the numbers of points done and of all.
        axes: what differs from point to point, as the options of `foretrace sweep`: a value or several. machine: names,
            profiles, TOML files, folders or patterns of them, or "all"; clock (GHz), model, threads, cores, set
            ("solver::iterations=900"), copies, accelerator, accelerators, policy; for traces platform, ranks_per_node,
            network_model, collectives, algorithm, latency, bandwidth.

    Returns:
        A row for each point, in the order given: runs vary slowest.

    Raises:
        SweepError: a value is impossible, an axis is missing or goes with none of the runs, or there are no workers.
        ProfileError: there is no such machine.
        OutputError: the journal cannot be written.
    """
    given = [runs] if isinstance(runs, (str, os.PathLike, Signature)) or not isinstance(runs, Iterable) else list(runs)
    for name in ("machine", "accelerator"):
        if axes.get(name) is not None:
            axes[name] = _sources(axes[name])
    with tempfile.TemporaryDirectory(prefix="foretrace-") as folder:
        made = [_run(one, Path(folder) / f"{number}.sig") for number, one in enumerate(given)]
        found = run_sweep(
            Plan.of(made, axes), jobs=jobs, dask=dask, journal=None if journal is None else Path(journal),
            progress=on_progress,
        )  # fmt: skip
    return shown_as(Sweep, found)


def _run(given: SignatureLike, file: Path) -> Run:
    """A run; a signature in memory is written to a file."""
    if isinstance(given, (str, os.PathLike)):
        return run_at(given)
    signature = signature_of(given)
    signature.save(file)
    return replace(run_at(file), name=shlex.join(signature.provenance.command))


def _sources(given: Any) -> list[Any]:
    """Machines, profiles as their files would be."""
    several = [given] if isinstance(given, (str, os.PathLike, Profile)) or not isinstance(given, Iterable) else given
    return [one if isinstance(one, (str, os.PathLike)) else _source(find_machine(one)) for one in several]


def _source(profile: Profile) -> Source:
    content = format_profile(profile).encode()
    return Source(profile.name, True, content, digest_of(content))
