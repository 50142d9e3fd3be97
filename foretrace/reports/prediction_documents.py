"""Loops of predictions as rows; predictions, and a native run shown with them, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foretrace.base.errors import ForetraceError
from foretrace.profiles.clock import at_clock
from foretrace.profiles.library import find
from foretrace.profiles.profile import Profile
from foretrace.replay.base.ranking import ranks
from foretrace.replay.base.records import HitRates, LoopTime, Prediction, Scaling
from foretrace.replay.base.totals import By, totals
from foretrace.replay.prediction.anchor import Anchored, SamplesByLoop, anchor, samples_by_loop
from foretrace.replay.prediction.predict import predict
from foretrace.tracer.native.timing import Timing
from foretrace.tracer.signature.records import Signature

from .assumption_costs import costs_document
from .event_time_reports import event_document
from .model import COUNT, SECONDS, SHARE, Column, document_of, for_programs
from .places import PLACE


@dataclass(frozen=True, slots=True)
class Measured:
    """A native run beside the predictions. `here` is the prediction for its machine, if that is to be scaled from."""

    timing: Timing
    samples: SamplesByLoop
    here: Prediction | None

    @classmethod
    def of(cls, signature: Signature, timing: Timing, anchor_machine: str | None) -> Measured:
        """A timing of the signature's program; `anchor_machine` is where it was made, if it is to be scaled."""
        here = None if anchor_machine is None else predict(signature, _as_timed(find(anchor_machine), timing))
        return cls(timing, samples_by_loop(signature, timing), here)

    def anchored(self, predictions: tuple[Prediction, ...]) -> list[Anchored]:
        """The measured time scaled to each machine; none if it is not to be."""
        if self.here is None:
            return []
        return [anchor(there, self.here, self.timing, self.samples) for there in predictions]


def _as_timed(profile: Profile, timing: Timing) -> Profile:
    """The machine at the clock that a program was timed at, if that is known."""
    return profile if timing.clock_hz is None else at_clock(profile, timing.clock_hz)


TIMES = (Column("time_s", "time", SECONDS), Column("low_s", "low", SECONDS), Column("high_s", "high", SECONDS))
_SHARE = (*TIMES, Column("share", "share", SHARE), Column("bound_by", "bound by", whole=True))
LOOP_DOCUMENT = (
    *PLACE,
    Column("kind"),
    Column("first_call", value=lambda loop: loop.is_first_call),
    *for_programs("as_traced", "entries"),
    Column("iterations", "iterations", COUNT, drop=1),
    *_SHARE,
    *for_programs("compute_s", "memory_s", "overlap_s", "python_s", "pages_s"),
)
LOOPS = (*LOOP_DOCUMENT, Column("label", "what"))
"""Columns of `LoopTime`."""
TOTALS: tuple[Column, ...] = (*PLACE, Column("label", "what"), Column("loops"), *_SHARE)
"""Columns of `LoopTotal`."""


def hit_rates_document(rates: HitRates) -> dict[str, Any]:
    """Hit rates and their origin, as JSON."""
    levels = [document_of(level, "name accesses misses hit_rate") for level in rates.levels]
    return document_of(rates, "source hierarchy relative_error") | {"levels": levels}


def document(
    predictions: tuple[Prediction, ...],
    refused: Mapping[str, ForetraceError],
    measured: Measured | None = None,
    by: By = By.LOOP,
) -> dict[str, Any]:
    """The JSON face, `foretrace.predict/1`."""
    return (_measured_document(measured, predictions) if measured else {}) | {
        "schema": "foretrace.predict/1",
        "predictions": [
            document_of(prediction, "machine title threads cores time_s low_s high_s")
            | {
                "best_rank": rank.best,
                "worst_rank": rank.worst,
                "waiting_s": None if prediction.waiting is None else prediction.waiting.waited_s,
                "children_s": None if prediction.waiting is None else prediction.waiting.children_s,
                "bound_by": prediction.bound_by,
                "time_by_bound_s": prediction.time_by_bound_s,
                "unseen_s": prediction.unseen_s,
                "unseen_share": prediction.unseen_s / prediction.time_s if prediction.time_s else 0.0,
                "complete": prediction.complete,
                "errors": [document_of(error, "source low high") for error in prediction.errors],
                "hit_rates": hit_rates_document(prediction.hit_rates),
                "assumptions": list(map(str, prediction.assumptions)),
                "warnings": prediction.warnings,
                "loops": [_loop_document(loop, measured) for loop in prediction.loops],
            }
            | _scaling_document(prediction.scaling)
            | event_document(prediction)
            | costs_document(prediction)
            | ({} if by is By.LOOP else {"by": by, "totals": [document_of(t, *TOTALS) for t in totals(prediction, by)]})
            for prediction, rank in zip(predictions, ranks(predictions), strict=True)
        ],
        "refused": [{"machine": name, "reason": str(error)} for name, error in refused.items()],
    }


def _scaling_document(scaling: Scaling | None) -> dict[str, Any]:
    """Speed-up by several threads, as JSON; empty where one thread does all work."""
    if scaling is None:
        return {}
    return {
        "speedup": scaling.speedup,
        "speedup_low": scaling.low,
        "speedup_high": scaling.high,
        "speedup_bound_by": scaling.limit,
        "lost_s": scaling.lost_s,
    }


def _measured_document(measured: Measured, predictions: tuple[Prediction, ...]) -> dict[str, Any]:
    timing = measured.timing
    return {
        "measured": {
            "shortest_cpu_s": timing.shortest.cpu_s,
            "shortest_wall_s": min(run.wall_s for run in timing.runs),
            "kernel_s": timing.shortest.system_s,
            "spread": timing.spread,
            "runs": len(timing.runs),
            "undisturbed_runs": timing.undisturbed_runs,
            "reference_slowdown": timing.shortest.slowdown,
            **document_of(timing, "least_alone_s time_s segments undivided clock_hz"),
            "samples": timing.num_samples,
            "samples_elsewhere": measured.samples.elsewhere,
            "sampled_by": timing.method,
        },
        "anchored": [
            document_of(one, "machine anchor measured_s time_s low_s high_s ratio by_loop")
            for one in measured.anchored(predictions)
        ],
    }


def _loop_document(loop: LoopTime, measured: Measured | None = None) -> dict[str, Any]:
    share = {} if measured is None else {"measured_share": measured.samples.share(loop)}
    return share | document_of(loop, *LOOP_DOCUMENT)
