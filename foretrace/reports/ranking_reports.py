"""Report of `foretrace validate --compare`: programs on several machines, ranked and scaled from one to another."""

from __future__ import annotations

from foretrace.benchmarks.validation.machine_ranking import NOTABLE_RATIO, Ranking

from .model import RATIO, SECONDS, SIGNED_SHARE, YES_NO, Column, Report, Table, Text, for_programs

_COMPARISONS = (
    Column("program", "program"),
    Column("", "machines", value=lambda one: f"{one.first}, {one.second}"),
    *for_programs("first", "second"),
    Column("measured_first_s", "measured", SECONDS, lambda one: one.measured_s[0]),
    Column("measured_second_s", "", SECONDS, lambda one: one.measured_s[1]),
    Column("measured_ratio", "ratio", RATIO),
    Column("predicted_ratio", "predicted", RATIO),
    Column("ranked_right", "right", YES_NO),
    Column("anchored_s", "anchored", SECONDS),
    Column("anchored_error", "error", SIGNED_SHARE),
    Column("error", "not anchored", SIGNED_SHARE),
)


def ranking_report(ranking: Ranking) -> Report:
    """Each program on each two machines, and what they come to; for programs in both orders."""
    title = "Predicted from one signature each; anchored: the first machine's measured time, scaled to the second"
    rows = Table(_COMPARISONS, ranking.comparisons, title, shown=ranking.pairs)
    lines = ["", *(f"left out: {name}: {reason}" for name, reason in ranking.skipped)]
    for what, names in (
        ("measured beside a neighbour only", [c.program for c in ranking.pairs if c.disturbed]),
        ("not the same executable on all machines", [c.program for c in ranking.pairs if not c.same_executable]),
    ):
        if names:
            lines.append(f"{what}: {', '.join(dict.fromkeys(names))}")
    return Report("Ranking of machines", [rows, Text([*lines, _summary(ranking)])], rows, ranking.as_json)


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
