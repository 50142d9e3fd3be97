"""Triage: which gather/scatter loops of a program are worth porting to an accelerator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foretrace.names import short_name
from foretrace.replay import records
from foretrace.replay.offload import triage as offload
from foretrace.units import format_bytes, format_seconds

from .machines import MachineLike, find_machine
from .predictions import PLACE_COLUMNS, place_row
from .signatures import SignatureLike, signature_of
from .views import MOST_ROWS, Shown, ShownTable, axes_to_draw, data_frame, shown_as, where

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

COLUMNS = (
    *PLACE_COLUMNS, "port", "idiom", "range_bytes", "moved_bytes", "refs", "entries", "host_s", "accelerator_s",
    "gain_s", "break_even_bytes", "reason",
)  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class Triage(Shown, records.Triage):
    """Which gather/scatter loops to port (`instances`, largest gain first), and what that gains (`program`)."""

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each gather/scatter loop, largest gain first; `port` says whether to port it."""
        return data_frame(COLUMNS, map(_row, self.instances))

    def plot(self, ax: Axes | None = None, top: int = MOST_ROWS) -> Axes:
        """Draw what the `top` loops take on the host and on the accelerator.

        Raises:
            OutputError: matplotlib is missing.
        """
        from foretrace.reports.result_plots import draw_triage

        return draw_triage(axes_to_draw(ax, 1.4 + 0.4 * min(top, len(self.instances))), self, top)

    def _line(self) -> str:
        return f"{self.host} with {self.accelerator}: {self._verdict()}"

    def _verdict(self) -> str:
        program = self.program
        if not self.instances:
            return "no gather/scatter loop was found"
        if not program.loops_offloaded:
            return f"none of {program.loops} gather/scatter loops is worth porting"
        before, after = format_seconds(program.host_s), format_seconds(program.after_s)
        return (
            f"porting {program.loops_offloaded} of {program.loops} gather/scatter loops takes the program from "
            f"{before} to {after}, {program.speedup:.2f} times as fast"
        )

    def _table(self) -> ShownTable:
        rows = [
            (
                "yes" if one.offload else "no", where(one.place.file, one.place.line, one.place.module),
                short_name(one.place.function), one.idiom, format_bytes(one.range_bytes), format_seconds(one.host_s),
                "-" if one.accelerator_s is None else format_seconds(one.accelerator_s),
                format_seconds(one.gain_s) if one.offload else "-",
            )
            for one in self.notable_instances[:MOST_ROWS]
        ]  # fmt: skip
        headings = ("port", "source", "function", "idiom", "range", "host", "accelerator", "gain")
        notes = (
            self._verdict(),
            *(f"warning: {warning}" for warning in self.warnings),
            *(f"assumed {assumption}" for assumption in self.assumptions if assumption.name == "launch"),
        )
        title = f"{self.host_title}, with {self.accelerator_title}"
        return ShownTable(title, headings, rows, len(self.instances), 4, notes)


def triage(signature: SignatureLike, host: MachineLike, accelerator: MachineLike) -> Triage:
    """Decide for each gather/scatter loop of a traced program whether to port it to an accelerator.

    Args:
        signature: a signature, a traced run, or the path of a signature file.
        host: the machine that runs the rest: a name, a profile, or the path of one.
        accelerator: likewise.

    Returns:
        The loops, largest gain first, each with its times in seconds on both and the reason; and the program's gain.

    Raises:
        SignatureError: a path names no signature file.
        ProfileError: there is no such machine.
        PredictionError: host or accelerator is not one, or signature and profiles do not tell enough.
    """
    found = offload.triage(signature_of(signature), find_machine(host), find_machine(accelerator))
    return shown_as(Triage, found)


def _row(one: records.Instance) -> dict[str, Any]:
    numbers = {name: getattr(one, name, None) for name in COLUMNS if name not in PLACE_COLUMNS}
    return place_row(one.place) | numbers | {"port": one.offload}
