"""Pictures, drawn by matplotlib where it is installed (`pip install 'foretrace[plot]'`)."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from foretrace.errors import OutputError
from foretrace.units import format_bytes

if TYPE_CHECKING:
    from foretrace.replay.miss_curves import Curve

FORMATS = (".svg", ".png", ".pdf")


def check_picture(path: Path) -> None:
    """Refuse a picture early that could not be drawn.

    Raises:
        OutputError: its name ends in none of `FORMATS`, or matplotlib is missing.
    """
    if path.suffix not in FORMATS:
        raise OutputError(f"{path}: a picture's name must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise OutputError(
            f"{path}: pictures need matplotlib; install it with: pip install 'foretrace[plot]' "
            "(without -o the curve is shown in the terminal)"
        ) from None


def draw_curves(curves: list[Curve], title: str, picture_format: str) -> bytes:
    """Miss ratio over cache size, with twice the standard error where it is known. `picture_format`: `svg`, ..."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "foretrace", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes = figure.add_subplot()
        for curve in curves:
            sizes = [point.size_bytes for point in curve.points]
            ratios = [100 * point.miss_ratio for point in curve.points]
            errors = [200 * (point.standard_error or 0) for point in curve.points]
            axes.errorbar(sizes, ratios, yerr=errors, marker="o", markersize=3, capsize=2, label=curve.title)
        sizes = sorted({point.size_bytes for curve in curves for point in curve.points})
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [format_bytes(size) for size in sizes], rotation=45, ha="right")
        axes.set_xlabel("cache size")
        axes.set_ylabel("accesses that miss, %")
        axes.set_ylim(bottom=0)
        axes.set_title(title, parse_math=False)
        axes.grid(alpha=0.3)
        axes.legend()
        picture = io.BytesIO()
        undated = {".svg": {"Date": None}}.get(f".{picture_format}")
        figure.savefig(picture, format=picture_format, dpi=150, metadata=undated)
    return picture.getvalue()
