"""Predictions as reports: machines, where the time goes, a native run beside them, what was assumed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foretrace.base.errors import ForetraceError
from foretrace.base.units import format_hz, format_seconds
from foretrace.replay.base.ranking import Rank, ranks
from foretrace.replay.base.records import LEAST_SHOWN_SHARE, LoopTime, LoopTotal, Prediction
from foretrace.replay.base.totals import By, totals
from foretrace.replay.prediction.anchor import Anchored

from .assumption_costs import assumption_cost_sections, unknown_costs_sections
from .event_time_reports import event_sections
from .model import (
    FINE_RATIO,
    INTEGER,
    RATIO,
    SECONDS,
    SHARE,
    TEXT,
    Column,
    Kind,
    Report,
    Section,
    Table,
    Text,
)
from .prediction_documents import LOOPS, TIMES, TOTALS, Measured, document
from .speedup_reports import thread_sections
from .timing_lines import said_of_neighbours, said_of_segments

_LEAST_WAITING_S = 1e-3


@dataclass(frozen=True, slots=True)
class Ranked:
    """A machine's prediction and its rank among the others."""

    prediction: Prediction
    rank: Rank


def _of_prediction(key: str, heading: str | None = None, kind: Kind = TEXT, **options: Any) -> Column:
    return Column(key, heading, kind, lambda one: getattr(one.prediction, key), **options)


MACHINES = (
    Column("", "rank", value=lambda one: str(one.rank), whole=True),
    _of_prediction("machine", "machine", whole=True),
    _of_prediction("title"),
    _of_prediction("threads", "threads", INTEGER),
    _of_prediction("cores", "cores", INTEGER),
    _of_prediction("time_s", "time", SECONDS),
    _of_prediction("low_s", "low", SECONDS),
    _of_prediction("high_s", "high", SECONDS),
    Column("speedup", "speed-up", RATIO, lambda one: one.prediction.scaling and one.prediction.scaling.speedup),
    Column(
        "speedup_bound_by", "limited by", value=lambda one: one.prediction.scaling and one.prediction.scaling.limit,
        drop=3, whole=True,
    ),
    Column("best_rank", value=lambda one: one.rank.best),
    Column("worst_rank", value=lambda one: one.rank.worst),
    _of_prediction("bound_by", "bound by", drop=4, whole=True),
    _of_prediction("unseen_s"),
    _of_prediction("complete"),
    Column("", "hits", value=lambda one: _hits(one.prediction), drop=2, whole=True),
    Column("hit_rates_are", "hit rates are", value=lambda one: one.prediction.hit_rates.source, drop=1),
    Column("num_assumed", "assumed", INTEGER, lambda one: len({text.name for text in one.prediction.assumptions})),
)  # fmt: skip
"""Columns of `Ranked`."""


def _hits(prediction: Prediction) -> str:
    return ", ".join(f"{level.name} {level.hit_rate:.1%}" for level in prediction.hit_rates.levels)


def ranked(predictions: Sequence[Prediction]) -> list[Ranked]:
    """Predictions of one program with their ranks."""
    return [Ranked(one, rank) for one, rank in zip(predictions, ranks(predictions), strict=True)]


def prediction_report(
    predictions: tuple[Prediction, ...], refused: Mapping[str, ForetraceError], measured: Measured | None = None,
    by: By = By.LOOP, *, by_threads: bool = False, top: int | None = 5, assumptions: bool = False, per: bool = False,
) -> Report:  # fmt: skip
    """Report of `foretrace predict`.

    Args:
        predictions: of one program, fastest first; with `by_threads`, of each number of threads.
        refused: why there is none for other machines.
        measured: a native run to compare with.
        by: what the time is summed up by.
        by_threads: whether the predictions are of several numbers of threads.
        top: rows shown for each machine; None: all.
        assumptions: whether to show all that was assumed.
        per: whether the time per unit of an event is asked for.
    """
    sections: list[Section] = []
    if by_threads:
        sections += thread_sections(predictions, refused)
    else:
        sections += _machine_sections(predictions, refused, measured)
        if predictions:
            sections += event_sections(predictions, per=per, top=top)
        for prediction in predictions:
            sections += _loop_sections(prediction, by, top, measured)
    in_full = assumptions or len({prediction.machine for prediction in predictions}) == 1
    sections += assumption_lines(predictions, in_full=in_full)
    for prediction in predictions if in_full else ():
        sections += assumption_cost_sections(prediction)
    sections += unknown_costs_sections(predictions) if assumptions else []
    return Report(
        "Predicted run time", sections, _all_loops(predictions, by),
        lambda: document(predictions, refused, measured, by),
    )  # fmt: skip


def _parts(prediction: Prediction, by: By) -> Sequence[LoopTime | LoopTotal]:
    return prediction.loops if by is By.LOOP else totals(prediction, by)


def loop_table(prediction: Prediction, by: By = By.LOOP) -> Table:
    """All loops of a prediction, or their sums by line or function."""
    return Table(LOOPS if by is By.LOOP else TOTALS, _parts(prediction, by))


def _all_loops(predictions: Sequence[Prediction], by: By) -> Table:
    """The loops on all machines."""
    columns = [one.within(lambda pair: pair[1]) for one in (LOOPS if by is By.LOOP else TOTALS)]
    machine = (
        Column("machine", value=lambda pair: pair[0].machine),
        Column("threads", value=lambda pair: pair[0].threads),
    )
    return Table((*machine, *columns), [(one, part) for one in predictions for part in _parts(one, by)])


def _machine_sections(
    predictions: tuple[Prediction, ...], refused: Mapping[str, ForetraceError], measured: Measured | None
) -> list[Section]:
    sources = {str(prediction.hit_rates.source) for prediction in predictions}
    several = len(predictions) > 1
    threads = max((prediction.threads for prediction in predictions), default=1)
    headings = (
        *(["rank"] if several else []), "machine", "time", "low", "high",
        *(["cores", "speed-up", "limited by"] if threads > 1 else []), "bound by", "hits",
        *(["hit rates are"] if len(sources) > 1 else []), *(["assumed"] if several else []),
    )  # fmt: skip
    lines = []
    if threads > 1:
        lines.append(
            f"times are of {threads} threads, as traced, on as many cores as there are for them; --threads 1,2,4 "
            "predicts other numbers, --cores 1 one core that does all work"
        )
    if len(sources) == 1:
        lines.append(f"hit rates: {sources.pop()}")
    lines += _waiting(predictions)
    measured_sections = [] if measured is None else _measured_sections(measured, predictions)
    more = [f"not predicted: {name}: {error}" for name, error in refused.items()]
    more += [f"warning: {warning}" for warning in warnings_once(predictions)]
    return [Table(MACHINES, ranked(predictions), headings=headings), Text(lines), *measured_sections, Text(more)]


def warnings_once(predictions: Sequence[Prediction]) -> list[str]:
    """Each warning once; of several machines' shares of unseen code, which differ by little, the first."""
    found = {w.partition("% of the time ")[2] or w: w for p in reversed(predictions) for w in reversed(p.warnings)}
    return list(reversed(found.values()))


def _waiting(predictions: tuple[Prediction, ...]) -> list[str]:
    """Line on the time that the program waited when it was traced, if that is notable beside the predicted times."""
    waiting = predictions[0].waiting if predictions else None
    if waiting is None:
        return []
    least_s = max(_LEAST_WAITING_S, 0.01 * min(prediction.time_s for prediction in predictions))
    if waiting.waited_s < least_s:
        return []
    ran_s = min(waiting.children_s, waiting.waited_s)
    but = f" but for {format_seconds(ran_s)} that child processes ran" if ran_s >= least_s else ""
    return [f"and {format_seconds(waiting.waited_s)} of waiting (sleep, I/O, locks), which no machine shortens{but}"]


_ANCHORED = (
    Column("machine", "machine"),
    *TIMES,
    Column("ratio", "ratio", FINE_RATIO),
)
"""Columns of `Anchored`."""


def _measured_sections(measured: Measured, predictions: tuple[Prediction, ...]) -> list[Section]:
    timing = measured.timing
    runs = "1 run" if len(timing.runs) == 1 else f"{len(timing.runs)} runs, median {timing.spread:+.1%}"
    at = "" if timing.clock_hz is None else f" at {format_hz(timing.clock_hz)}"
    lines = [
        "",
        f"measured: {format_seconds(timing.shortest.cpu_s)} of a processor ({runs}; {timing.num_samples} samples by "
        f"{timing.method}{said_of_segments(timing)}){at}",
    ]
    elsewhere = measured.samples.elsewhere
    if timing.num_samples and elsewhere:
        lines.append(
            f"{elsewhere} of the {timing.num_samples} samples ({elsewhere / timing.num_samples:.0%}) were in no loop "
            "or function that was traced, but in the kernel or in code that is not in the signature: the measured "
            "shares of the loops are of all samples"
        )
    if timing.segments is None and timing.least_alone_s < timing.shortest.cpu_s:
        lines.append(f"{said_of_neighbours(timing)}: alone it may take {format_seconds(timing.least_alone_s)}")
    anchored: list[Anchored] = sorted(measured.anchored(predictions), key=lambda one: one.time_s)
    if not anchored:
        return [Text(lines)]
    lines.append(f"anchored: that time, scaled from {anchored[0].anchor} by the model's ratio")
    return [Text(lines), Table(_ANCHORED, anchored)]


def _loop_sections(prediction: Prediction, by: By, top: int | None, measured: Measured | None) -> list[Section]:
    """The `top` rows of most time, of those with a share that shows; None: all that took time."""
    parts = [part for part in _parts(prediction, by) if part.time_s > 0]
    shown = [part for part in parts if top is None or part.share >= LEAST_SHOWN_SHARE][:top]
    if not shown:
        return []
    columns, headings = TOTALS, ["share", "time", "source", "function", "what", "bound by"]
    if by is By.LOOP:
        columns = LOOPS
        headings.insert(-1, "iterations")
        if measured is not None:
            columns = (*LOOPS, Column("measured_share", "measured", SHARE, measured.samples.share))
            headings.insert(0, "measured")
    rest = ""
    if len(parts) > len(shown) and top is not None and len(shown) < top:
        hidden_s = sum(part.time_s for part in parts if part not in shown)
        rest = (
            f"{len(parts) - len(shown)} that take less than 0.1 % each, {format_seconds(hidden_s)} together: "
            "--all-loops shows them"
        )
    of_all = "" if prediction.threads == 1 else ", in core seconds of all threads"
    return [
        Text(["", f"{prediction.title}: where the time goes{of_all}"]),
        Table(columns, parts, headings=headings, shown=shown, rest=rest),
    ]


def assumption_lines(predictions: Sequence[Prediction], *, in_full: bool) -> list[Section]:
    """Each assumption once with the machines that it was made for; or that there are some."""
    made: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for prediction in predictions:
        for assumption in prediction.assumptions:
            made[str(assumption)][prediction.machine] = None
    if not made:
        return []
    if not in_full:
        text = "assumed: how many figures a machine's profile lacks that this program needs; --assumptions lists them"
        return [Text(["", text])]
    several = len({prediction.machine for prediction in predictions}) > 1
    lines = [f"  {text} ({', '.join(on)})" if several else f"  {text}" for text, on in made.items()]
    return [Text(["", "assumed", *lines])]
