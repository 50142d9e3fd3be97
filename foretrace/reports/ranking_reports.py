"""Report of `foretrace validate --compare`: programs on several machines, ranked and scaled from one to another."""

from __future__ import annotations

from rich.console import Console

from foretrace.base.terminal import plain, table
from foretrace.base.units import format_seconds
from foretrace.benchmarks.validation.machine_ranking import NOTABLE_RATIO, Ranking


def show_ranking(ranking: Ranking, out: Console) -> None:
    """Each program on each two machines, and what they come to."""
    rows = table(
        "program", "machines", "measured", "", "ratio", "predicted", "right", "anchored", "error", "not anchored",
        title="Predicted from one signature each; anchored: the first machine's measured time, scaled to the second",
        left=("program", "machines"),
    )  # fmt: skip
    for pair in ranking.pairs:
        right = "-" if pair.ranked_right is None else "yes" if pair.ranked_right else "no"
        rows.add_row(
            pair.program, plain(f"{pair.first}, {pair.second}"), *map(format_seconds, pair.measured_s),
            f"{pair.measured_ratio:.2f}", f"{pair.predicted_ratio:.2f}", right, format_seconds(pair.anchored_s),
            f"{pair.anchored_error:+.0%}", f"{pair.error:+.0%}",
        )  # fmt: skip
    out.print(rows)
    out.print()
    for name, reason in ranking.skipped:
        out.print(f"left out: {name}: {plain(reason)}", soft_wrap=True)
    for what, names in (
        ("measured beside a neighbour only", [c.program for c in ranking.pairs if c.disturbed]),
        ("not the same executable on all machines", [c.program for c in ranking.pairs if not c.same_executable]),
    ):
        if names:
            out.print(f"{what}: {', '.join(dict.fromkeys(names))}", soft_wrap=True)
    out.print(_summary(ranking), soft_wrap=True)


def _summary(ranking: Ranking) -> str:
    notable, share = ranking.notable, ranking.share_ranked_right
    worst = ranking.worst_anchored
    ranked = "no two machines differ by so much that they could be ranked"
    if share is not None:
        right = sum(bool(pair.ranked_right) for pair in notable)
        differ = f"pairs that differ by more than {NOTABLE_RATIO - 1:.0%}"
        ranked = f"{right} of {len(notable)} {differ} are ranked right ({share:.0%})"
        if len(ranking.undisturbed) < len(notable):
            right = sum(bool(pair.ranked_right) for pair in ranking.undisturbed)
            ranked += f", {right} of the {len(ranking.undisturbed)} that were measured without a neighbour"
    return (
        f"{ranked}; mean absolute error anchored {ranking.mean_absolute_anchored_error:.1%} "
        f"(worst {worst.anchored_error:+.0%}, {worst.program}), not anchored {ranking.mean_absolute_error:.1%}"
    )
