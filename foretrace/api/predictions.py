"""Predictions: how long a traced program takes on a machine, or on several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from foretrace.base.errors import ForetraceError, PredictionError, ProfileError, quoted
from foretrace.base.units import format_seconds
from foretrace.profiles.checks import suggestion
from foretrace.profiles.clock import at_clock
from foretrace.profiles.profile import Profile
from foretrace.replay.base import records
from foretrace.replay.base.totals import By
from foretrace.replay.events.predictions import EventQuestion
from foretrace.replay.node.predictions import predict_each
from foretrace.reports.model import Table
from foretrace.reports.prediction_documents import LOOPS
from foretrace.reports.prediction_reports import MACHINES, loop_table, ranked, warnings_once
from foretrace.reports.renderers import data_frame

from .machines import MachineLike, find_machine, machines
from .signatures import SignatureLike, signature_of
from .views import MOST_ROWS, SOURCE, Shown, ShownTable, axes_to_draw, shown_as

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, repr=False)
class Prediction(Shown, records.Prediction):
    """A program's time on a machine: `time_s`, within `low_s` and `high_s`, and where it goes (`loops`)."""

    def to_dataframe(self, by: str = "loop") -> pandas.DataFrame:
        """A row for each loop, longest time first; or for each source line or function.

        Args:
            by: "loop", "line" or "function".
        """
        return data_frame(loop_table(self, By(by)))

    def plot(self, ax: Axes | None = None, top: int = MOST_ROWS) -> Axes:
        """Draw the `top` loops of most time as bars, in what bounds them.

        Raises:
            OutputError: matplotlib is missing.
        """
        from foretrace.reports.result_plots import draw_loops

        return draw_loops(axes_to_draw(ax, 1.4 + 0.3 * min(top, len(self.loops))), self, top)

    def _line(self) -> str:
        return f"{self.machine}: {_interval(self)}{_said_of_threads(self)}, bound by {self.bound_by}"

    def _table(self) -> ShownTable:
        notable = [loop for loop in self.notable_loops if loop.time_s > 0]
        headings = ("source", "function", "what", "bound by", "share", "time")
        rows = Table((SOURCE, *LOOPS), notable, headings=headings, shown=MOST_ROWS)
        assumed = len({assumption.name for assumption in self.assumptions})
        notes = (
            *(f"warning: {warning}" for warning in self.warnings),
            *(
                (f"{assumed} figures are not in the profile and were assumed: .assumptions lists them",)
                if assumed
                else ()
            ),
        )
        title = f"{self.title}: {_interval(self)}{_said_of_threads(self)}, bound by {self.bound_by}"
        return ShownTable.of(title, rows, notes, len(self.loops))


class Predictions(Shown, Sequence[Prediction]):
    """Predictions of one program on several machines, fastest first; by number, or by the machine's name.

    `refused` says by name why there is none for a machine.
    """

    __slots__ = ("_predictions", "refused")

    def __init__(self, predictions: Iterable[Prediction], refused: Mapping[str, ForetraceError]) -> None:
        """In this order."""
        self._predictions = tuple(predictions)
        self.refused: dict[str, ForetraceError] = dict(refused)

    @property
    def machines(self) -> tuple[str, ...]:
        """Names of the machines, fastest first."""
        return tuple(prediction.machine for prediction in self._predictions)

    def __len__(self) -> int:
        """Number of predictions."""
        return len(self._predictions)

    def __iter__(self) -> Iterator[Prediction]:
        """One after another, fastest first."""
        return iter(self._predictions)

    @overload
    def __getitem__(self, key: int | str) -> Prediction: ...
    @overload
    def __getitem__(self, key: slice) -> Predictions: ...
    def __getitem__(self, key: int | str | slice) -> Prediction | Predictions:
        """A prediction by number or by the machine's name.

        Raises:
            ProfileError: it was not asked for that machine.
            ForetraceError: there is no prediction for it; says why.
        """
        if isinstance(key, slice):
            return Predictions(self._predictions[key], {})
        if isinstance(key, int):
            return self._predictions[key]
        if key in self.refused:
            raise self.refused[key]
        if key not in self.machines:
            raise ProfileError(f"no prediction was made for {quoted(key)}{suggestion(key, self.machines)}")
        return self._predictions[self.machines.index(key)]

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.machines)

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each machine, fastest first. Ranks overlap where intervals do."""
        return data_frame(Table(MACHINES, ranked(self._predictions)))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the times with their intervals, a row for each machine.

        Raises:
            OutputError: matplotlib is missing.
        """
        from foretrace.reports.result_plots import draw_machines

        return draw_machines(axes_to_draw(ax, 1 + 0.3 * len(self)), self._predictions)

    def _line(self) -> str:
        if not self._predictions:
            return "of no machine"
        first = self._predictions[0]
        return f"of {len(self)} machines; fastest: {first.machine}, {_interval(first)}"

    def _table(self) -> ShownTable:
        threaded = any(one.threads > 1 for one in self._predictions)
        more = ("threads", "cores", "speed-up") if threaded else ()
        headings = ("rank", "machine", "bound by", *more, "time", "low", "high")
        notes = [f"warning: {warning}" for warning in warnings_once(self._predictions)]
        notes += [f"not predicted: {name}: {error}" for name, error in self.refused.items()]
        return ShownTable.of("", Table(MACHINES, ranked(self._predictions), headings=headings), notes)


@overload
def predict(  # type: ignore[overload-overlap] # text is iterable, too
    signature: SignatureLike,
    machine: MachineLike,
    /,
    *,
    clock_ghz: float | None = None,
    model: str = "core",
    threads: int | None = None,
    cores: int | None = None,
    events: Mapping[str, float] | None = None,
    per: str | None = None,
) -> Prediction: ...
@overload
def predict(
    signature: SignatureLike,
    /,
    *machines: MachineLike | Iterable[MachineLike],
    clock_ghz: float | None = None,
    model: str = "core",
    threads: int | Sequence[int] | None = None,
    cores: int | None = None,
    events: Mapping[str, float] | None = None,
    per: str | None = None,
) -> Predictions: ...
def predict(
    signature: SignatureLike, /, *machines: MachineLike | Iterable[MachineLike], clock_ghz: float | None = None,
    model: str = "core", threads: int | Sequence[int] | None = None, cores: int | None = None,
    events: Mapping[str, float] | None = None, per: str | None = None,
) -> Prediction | Predictions:  # fmt: skip
    """Predict how long a traced program takes on a machine, or on several.

    A program that ran several threads is predicted with as many, on the cores of the machine (docs/replay.md).

    Args:
        signature: a signature, a traced run, or the path of a signature file.
        machines: a machine's name, profile, or the path of its TOML file. With several, or a list, the result compares
            them; with none, all hosts that come with foretrace.
        clock_ghz: predict with the cores at this clock, in GHz, and not at that of the profiles.
        model: "core" for the detailed core model, "convolution" for the published one (docs/model.md).
        threads: predict with this number of threads, or with each of several; None: as many as were traced.
        cores: for the threads to run on; None: all of the machine. 1 without `threads`: one core does all work.
        events: a software-defined event and the value to predict the time for, {"solver::iterations": 900}
            (docs/events.md).
        per: the event that `.events` of a prediction gives the time per unit of.

    Returns:
        For one machine its prediction, for several their predictions, fastest first; with several numbers of threads,
        those of each machine by number. Times are in seconds.

    Raises:
        SignatureError: a path names no signature file.
        ProfileError: there is no such machine, or its clock is not known.
        PredictionError: signature and profile together do not tell enough, or not how so many threads share the work.
    """
    found, is_one = wanted_machines(machines)
    counts = None if threads is None else (threads,) if isinstance(threads, int) else tuple(sorted(set(threads)))
    predictions = predict_on(signature, found, clock_ghz, model, counts, cores, question_of(events or {}, per))
    if predictions.refused and (machines or not predictions):
        raise next(iter(predictions.refused.values()))
    return predictions[0] if is_one and (threads is None or isinstance(threads, int)) else predictions


def wanted_machines(wanted: Sequence[MachineLike | Iterable[MachineLike]]) -> tuple[list[Profile], bool]:
    """The machines that arguments name, each once, and whether they are one machine that is no list."""
    given: list[MachineLike] = []
    is_one = len(wanted) == 1
    for one in wanted:
        if isinstance(one, Iterable) and not isinstance(one, str):
            given += one
            is_one = False
        else:
            given.append(one)
    if not wanted:
        given += machines().hosts
    found = {profile.name: profile for profile in map(find_machine, given)}
    return list(found.values()), is_one


def predict_on(
    signature: SignatureLike,
    profiles: Iterable[Profile],
    clock_ghz: float | None = None,
    model: str = "core",
    counts: Sequence[int] | None = None,
    cores: int | None = None,
    question: EventQuestion | None = None,
    *,
    costs: bool = False,
) -> Predictions:
    """Predictions on all machines that one can be made for; for the others `refused` says why not.

    With `counts` those of each number of threads, in this order; else as many threads as were traced. With `costs`,
    each of one core says what the assumptions about its machine cost.

    Raises:
        SignatureError: a path names no signature file.
        PredictionError: the signature holds nothing to predict.
    """
    clocked: list[Profile] = []
    refused: dict[str, ForetraceError] = {}
    for profile in profiles:
        try:
            clocked.append(profile if clock_ghz is None else at_clock(profile, clock_ghz * 1e9))
        except ProfileError as error:
            refused[profile.name] = error
    made, unpredicted = predict_each(
        signature_of(signature), clocked, counts, cores, model_of(model), question, costs=costs
    )
    return Predictions((shown_as(Prediction, one) for one in made), {**refused, **unpredicted})


def question_of(events: Mapping[str, float], per: str | None) -> EventQuestion | None:
    """The event to predict by; None where there is none.

    Raises:
        PredictionError: there are several.
    """
    names = list(dict.fromkeys([*events, *([] if per is None else [per])]))
    counts = dict(events)
    if len(events) == 1 and per is not None:
        whole, part = sorted(names, key=len)[-1], min(names, key=len)
        if whole == part or whole.endswith(f"::{part}"):  # the library may be left out of one
            names, counts = [whole], {whole: next(iter(events.values()))}
    if len(names) > 1:
        raise PredictionError(
            f"predictions are made by one event, not by {' and '.join(quoted(name) for name in names[:3])}"
        )
    return EventQuestion(names[0], counts.get(names[0])) if names else None


def model_of(name: str) -> records.Model:
    """A model by its name.

    Raises:
        PredictionError: there is none of that name.
    """
    try:
        return records.Model(name)
    except ValueError:
        raise PredictionError(f"model {quoted(str(name))} is not known: {', '.join(records.Model)}") from None


def _interval(prediction: records.Prediction) -> str:
    low, high = format_seconds(prediction.low_s), format_seconds(prediction.high_s)
    return f"{format_seconds(prediction.time_s)} ({low} to {high})"


def _said_of_threads(one: records.Prediction) -> str:
    """with several threads: how many, on how many cores, and what they gain."""
    if one.threads == 1 or one.scaling is None:
        return ""
    cores = "1 core" if one.cores == 1 else f"{one.cores} cores"
    return f" with {one.threads} threads on {cores}, {one.scaling.speedup:.2f} times as fast as with one"
