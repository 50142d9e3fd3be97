"""Miss ratios over cache size, from one trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretrace.base.errors import PredictionError
from foretrace.base.units import format_bytes
from foretrace.replay.memory.miss_curves import (
    FULLY_ASSOCIATIVE,
    SIZES_BYTES,
    Curve,
    miss_curve,
    part_of_function,
    part_of_line,
    whole_program,
)
from foretrace.reports.curve_reports import curve_table
from foretrace.reports.renderers import data_frame
from foretrace.tracer.signature.records import Signature as SignatureRecord

from .signatures import SignatureLike, described, signature_of
from .views import Shown, ShownTable, axes_to_draw

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from foretrace.replay.memory.miss_curves import Part

DEFAULT_WAYS: tuple[int | str, ...] = (1, 8, "full")


@dataclass(frozen=True, slots=True, repr=False)
class Curves(Shown):
    """Miss ratios of caches of several sizes, a curve for each number of ways, each as if it were the first level.

    `part` says of which accesses: the program's, a function's or a source line's.
    """

    part: str
    program: str
    line_bytes: int
    curves: tuple[Curve, ...]

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each cache. `ways` is "full" for fully associative ones, `standard_error` that of `miss_ratio`."""
        return data_frame(curve_table(self.curves))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the curves.

        Raises:
            OutputError: matplotlib is missing.
        """
        from foretrace.reports.plots import curve_axes

        return curve_axes(axes_to_draw(ax), self.curves, f"{self.part}, {self.line_bytes}-byte lines")

    def _line(self) -> str:
        return f"{self.program}: {self.part}, {', '.join(curve.title for curve in self.curves)}"

    def _table(self) -> ShownTable:
        sizes = sorted({point.size_bytes for curve in self.curves for point in curve.points})
        ratios = [{point.size_bytes: point.miss_ratio for point in curve.points} for curve in self.curves]
        rows = [
            (format_bytes(size), *(f"{100 * of[size]:.2f} %" if size in of else "-" for of in ratios)) for size in sizes
        ]
        headings = ("cache size", *(curve.title for curve in self.curves))
        title = f"accesses of {self.part} that miss, {self.line_bytes}-byte lines"
        return ShownTable(title, headings, rows, len(rows), 0)


def curve(
    signature: SignatureLike,
    *,
    function: str | None = None,
    line: str | None = None,
    ways: int | str | Iterable[int | str] = DEFAULT_WAYS,
    line_bytes: int = 64,
    sizes_bytes: Sequence[int] = SIZES_BYTES,
) -> Curves:
    """Miss ratio curves of a traced program: caches of many sizes, each as if it were the first level.

    Args:
        signature: a signature, a traced run, or the path of a signature file.
        function: only the accesses of this function.
        line: only those of this source line, "FILE:LINE".
        ways: a curve for each of these numbers of ways; "full" for fully associative caches.
        line_bytes: line size of the caches.
        sizes_bytes: sizes of the caches, in bytes.

    Returns:
        The curves; `miss_ratio` is from 0 to 1.

    Raises:
        SignatureError: a path names no signature file.
        PredictionError: nothing was traced there, or the signature holds no reuse distances.
    """
    read = signature_of(signature)
    part = part_of(read, function, line)
    wanted = [ways] if isinstance(ways, (int, str)) else ways
    numbers = dict.fromkeys(FULLY_ASSOCIATIVE if one == "full" else one for one in wanted)
    curves = []
    for number in numbers:
        if not isinstance(number, int) or number < 0:
            raise PredictionError(f"{number!r} is no number of ways: give one from 1 on, or 'full'")
        curves.append(miss_curve(read, part, number, line_bytes, sizes_bytes))
    return Curves(part.name, described(read).partition(":")[0], line_bytes, tuple(curves))


def part_of(signature: SignatureRecord, function: str | None, line: str | None) -> Part:
    """The accesses asked for.

    Raises:
        PredictionError: both are given, or nothing was traced there.
    """
    if function is not None and line is not None:
        raise PredictionError("give a function or a line, not both")
    if function is not None:
        return part_of_function(signature, function)
    return whole_program(signature) if line is None else part_of_line(signature, line)
