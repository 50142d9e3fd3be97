"""Machines: those that come with foretrace, and profiles of one's own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, overload

from foretrace.profiles.charts import charts_of, chosen
from foretrace.profiles.library import find, names
from foretrace.profiles.profile import MachineKind, Profile
from foretrace.profiles.profile_file import write_profile
from foretrace.reports.machine_reports import MACHINES, figure_table
from foretrace.reports.model import Table
from foretrace.reports.renderers import data_frame

from .views import Shown, ShownTable, shown_as

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes


class HasMachine(Protocol):
    """Object that holds a machine: a calibration."""

    @property
    def machine(self) -> Machine:
        """The machine."""
        ...


MachineLike: TypeAlias = "Profile | HasMachine | str | os.PathLike[str]"
"""A machine: its profile, a calibration, its name, or the path of its TOML file."""


class Machine(Shown, Profile, frozen=True, forbid_unknown_fields=True):
    """A machine's profile: what it can do, figure by figure, each with its source."""

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the profile as TOML; an existing one is replaced only with `force`.

        Raises:
            OutputError: the file exists, or cannot be written.
        """
        write_profile(self, path, force=force)

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each figure: part, name (which ends in the unit), value, source (a key of `sources`), meaning."""
        return data_frame(figure_table(self))

    def plot(self, *curves: str) -> Sequence[Axes]:
        """Draw its latencies, bandwidths and gather/scatter curves, or only those named, as `machines show -o` does.

        Returns:
            The axes of each chart.

        Raises:
            ProfileError: it has no curve (of that name).
            OutputError: matplotlib is missing.
        """
        from foretrace.base.errors import ProfileError
        from foretrace.reports.plots import charts_figure

        from .views import new_figure

        charts = charts_of(self)
        if not charts:
            raise ProfileError(f"{self.name}: has no latency, bandwidth or gather/scatter curve to draw")
        charts = chosen(charts, curves, self.name) if curves else charts
        return charts_figure(new_figure(3.4 * len(charts) + 0.4, 9), charts, self.title).axes

    def _line(self) -> str:
        return f"{self.name}: {self.title}"

    def _table(self) -> ShownTable:
        shown = {column.heading: column.text(self) for column in MACHINES if column.heading}
        shown |= {"instruction set": self.instruction_set or "", "profile of": str(self.date)}
        names = ("kind", "year", "instruction set", "cores", "clock", "caches", "profile of")
        rows = [(name, shown[name]) for name in names if shown[name]]
        notes = ("marked as partial: the measurement was interrupted",) if self.partial else ()
        return ShownTable(f"{self.name}: {self.title}", ("figure", "value"), rows, len(rows), 2, notes)


class Machines(Shown, Sequence[Machine]):
    """The machines that come with foretrace, by name or number: `machines()["epyc-9755"]`."""

    __slots__ = ("_machines",)

    def __init__(self, machines: Sequence[Machine]) -> None:
        """In this order."""
        self._machines = tuple(machines)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(machine.name for machine in self._machines)

    @property
    def hosts(self) -> Machines:
        """Machines that a program can run on: `predict` takes them."""
        return Machines([machine for machine in self._machines if machine.kind is MachineKind.HOST])

    @property
    def accelerators(self) -> Machines:
        """Machines that a loop can be ported to: `triage` takes them."""
        return Machines([machine for machine in self._machines if machine.kind is MachineKind.ACCELERATOR])

    def __len__(self) -> int:
        """Number of machines."""
        return len(self._machines)

    def __iter__(self) -> Iterator[Machine]:
        """One after another."""
        return iter(self._machines)

    def __contains__(self, item: object) -> bool:
        """A machine, or the name of one."""
        return item in self.names if isinstance(item, str) else item in self._machines

    @overload
    def __getitem__(self, key: int | str) -> Machine: ...
    @overload
    def __getitem__(self, key: slice) -> Machines: ...
    def __getitem__(self, key: int | str | slice) -> Machine | Machines:
        """A machine by name or number.

        Raises:
            ProfileError: there is none of that name.
        """
        if isinstance(key, str):
            return find_machine(key) if key not in self.names else self._machines[self.names.index(key)]
        return Machines(self._machines[key]) if isinstance(key, slice) else self._machines[key]

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.names)

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each machine. A figure that nobody published is missing."""
        return data_frame(Table([column for column in MACHINES if column.key != "caches"], self._machines))

    def _line(self) -> str:
        return f"{len(self.hosts)} hosts, {len(self.accelerators)} accelerators"

    def _table(self) -> ShownTable:
        headings = ("name", "kind", "machine", "cores", "clock", "caches")
        return ShownTable.of("", Table(MACHINES, self._machines, headings=headings))


def machines() -> Machines:
    """The machines that come with foretrace, sorted by name."""
    return Machines([find_machine(name) for name in names()])


def find_machine(machine: MachineLike) -> Machine:
    """A machine by its name, or by the path of its profile.

    Raises:
        ProfileError: there is none of that name (the message proposes the nearest), or the file is no profile.
    """
    if isinstance(machine, Machine):
        return machine
    if isinstance(machine, Profile):
        return shown_as(Machine, machine)
    if isinstance(machine, (str, os.PathLike)):
        return shown_as(Machine, find(os.fspath(machine)))
    try:
        return machine.machine
    except AttributeError:
        raise TypeError(
            f"a machine is wanted, its name, or the path of its profile, not {type(machine).__name__}"
        ) from None
