"""Predictions, and a native run shown with them, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from foretrace.base.errors import ForetraceError
from foretrace.base.names import demangle, mangled_name
from foretrace.base.terminal import plain
from foretrace.profiles.clock import at_clock
from foretrace.profiles.library import find
from foretrace.profiles.profile import Profile
from foretrace.replay.base.ranking import ranks
from foretrace.replay.base.records import HitRates, LoopTime, LoopTotal, Place, Prediction, Scaling
from foretrace.replay.base.totals import By, totals
from foretrace.replay.prediction.anchor import Anchored, SamplesByLoop, anchor, samples_by_loop
from foretrace.replay.prediction.predict import predict
from foretrace.tracer.native.timing import Timing
from foretrace.tracer.signature.records import Signature

from .assumption_costs import costs_document
from .event_time_reports import event_document


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


def place_document(place: Place) -> dict[str, Any]:
    """Place in a program, as JSON."""
    mangled = mangled_name(place.function)
    return {
        "module": plain(place.module),
        "function": plain(demangle(place.function)),
        "mangled": None if mangled is None else plain(mangled),
        "file": plain(place.file),
        "line": place.line,
        "caller": plain(demangle(place.caller)) or None,
        "inlined": plain(place.inlined) or None,
    }


def hit_rates_document(rates: HitRates) -> dict[str, Any]:
    """Hit rates and their origin, as JSON."""
    return {
        "source": str(rates.source),
        "hierarchy": rates.hierarchy,
        "relative_error": rates.relative_error,
        "levels": [
            {"name": v.name, "accesses": v.accesses, "misses": v.misses, "hit_rate": v.hit_rate} for v in rates.levels
        ],
    }


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
            {
                "machine": prediction.machine,
                "title": prediction.title,
                "threads": prediction.threads,
                "cores": prediction.cores,
                "time_s": prediction.time_s,
                "low_s": prediction.low_s,
                "high_s": prediction.high_s,
                "best_rank": rank.best,
                "worst_rank": rank.worst,
                "waiting_s": None if prediction.waiting is None else prediction.waiting.waited_s,
                "children_s": None if prediction.waiting is None else prediction.waiting.children_s,
                "bound_by": str(prediction.bound_by),
                "time_by_bound_s": {str(bound): s for bound, s in prediction.time_by_bound_s.items()},
                "unseen_s": prediction.unseen_s,
                "unseen_share": prediction.unseen_s / prediction.time_s if prediction.time_s else 0.0,
                "complete": prediction.complete,
                "errors": [{"source": e.source, "low": e.low, "high": e.high} for e in prediction.errors],
                "hit_rates": hit_rates_document(prediction.hit_rates),
                "assumptions": [plain(str(assumption)) for assumption in prediction.assumptions],
                "warnings": [plain(warning) for warning in prediction.warnings],
                "loops": [_loop_document(loop, measured) for loop in prediction.loops],
            }
            | _scaling_document(prediction.scaling)
            | event_document(prediction)
            | costs_document(prediction)
            | ({} if by is By.LOOP else {"by": str(by), "totals": [_total_document(t) for t in totals(prediction, by)]})
            for prediction, rank in zip(predictions, ranks(predictions), strict=True)
        ],
        "refused": [{"machine": name, "reason": plain(str(error))} for name, error in refused.items()],
    }


def _scaling_document(scaling: Scaling | None) -> dict[str, Any]:
    """Speed-up by several threads, as JSON; empty where one thread does all work."""
    if scaling is None:
        return {}
    return {
        "speedup": scaling.speedup,
        "speedup_low": scaling.low,
        "speedup_high": scaling.high,
        "speedup_bound_by": str(scaling.limit),
        "lost_s": {str(limit): lost_s for limit, lost_s in scaling.lost_s.items()},
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
            "least_alone_s": timing.least_alone_s,
            "time_s": timing.time_s,
            "segments": None if timing.segments is None else asdict(timing.segments),
            "undivided": plain(timing.undivided),
            "clock_hz": timing.clock_hz,
            "samples": timing.num_samples,
            "samples_elsewhere": measured.samples.elsewhere,
            "sampled_by": timing.method,
        },
        "anchored": [
            {
                "machine": one.machine,
                "anchor": one.anchor,
                "measured_s": one.measured_s,
                "time_s": one.time_s,
                "low_s": one.low_s,
                "high_s": one.high_s,
                "ratio": one.ratio,
                "by_loop": one.by_loop,
            }
            for one in measured.anchored(predictions)
        ],
    }


def _loop_document(loop: LoopTime, measured: Measured | None = None) -> dict[str, Any]:
    share = {} if measured is None else {"measured_share": measured.samples.share(loop)}
    return (
        share
        | place_document(loop.place)
        | {
            "kind": str(loop.kind),
            "first_call": loop.is_first_call,
            "as_traced": loop.as_traced,
            "entries": loop.entries,
            "iterations": loop.iterations,
            "time_s": loop.time_s,
            "low_s": loop.low_s,
            "high_s": loop.high_s,
            "share": loop.share,
            "bound_by": str(loop.bound_by),
            "compute_s": loop.compute_s,
            "memory_s": loop.memory_s,
            "overlap_s": loop.overlap_s,
            "python_s": loop.python_s,
            "pages_s": loop.pages_s,
        }
    )


def _total_document(total: LoopTotal) -> dict[str, Any]:
    return place_document(total.place) | {
        "label": plain(total.label),
        "loops": total.loops,
        "time_s": total.time_s,
        "low_s": total.low_s,
        "high_s": total.high_s,
        "share": total.share,
        "bound_by": str(total.bound_by),
    }
