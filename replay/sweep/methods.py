"""Methods of a sweep: how a point is worked out. One function for each kind of run and question."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from foretrace.base.errors import ForetraceError, PredictionError
from foretrace.profiles.clock import at_clock
from foretrace.profiles.interconnect import Interconnect
from foretrace.profiles.profile import Profile
from foretrace.replay.base.records import Bound, Model, Prediction
from foretrace.replay.events.predictions import AskedEvent, EventQuestion
from foretrace.replay.node.machine_run import Offloading
from foretrace.replay.node.predictions import asked_of, predict_on
from foretrace.replay.node.replay import replay_on
from foretrace.replay.offload.policy import Policy
from foretrace.replay.ranks.machine_run import Layout, replay_run
from foretrace.replay.ranks.platform import changed, read_platform
from foretrace.replay.ranks.records import RankReplay
from foretrace.replay.ranks.run import replay_ranks

from .axes import event_of
from .fields import ERROR, PREDICTED, RANKS, REPLAYED, Field, Row, Value, bound_field, finite
from .inputs import CAPTURES, SIGNATURES, TRACES, RunKind, Source, as_file

_MOST_PROFILES = 32


@dataclass(slots=True)
class LoadedRun:
    """A run in a worker: what its kind reads, and what was worked out of it before."""

    content: Any
    asked: dict[tuple[Any, ...], AskedEvent] = field(default_factory=dict)


Values = Mapping[str, Any]
"""Value of each axis of a point; machines and platforms are a `Source`."""


@dataclass(frozen=True, slots=True)
class Method:
    """A way to work out a point.

    Attributes:
        name: of its verb.
        kind: of run.
        axes: that it takes, by name. The first must be given.
        fields: of its rows, but for the times.
        work_out: makes a row of a run and the values of its axes.
    """

    name: str
    kind: RunKind
    axes: tuple[str, ...]
    fields: tuple[Field, ...]
    work_out: Callable[[LoadedRun, Values], Row]

    def result(self, run: LoadedRun, values: Values) -> Row:
        """The result of a point; why there is none, where it is the fault of its inputs.

        Raises:
            MemoryError: it takes more memory than there is.
        """
        try:
            found = dict(self.work_out(run, values))
        except ForetraceError as error:
            found = refused(error)
        with suppress(ForetraceError):
            found |= {name: _profile(values[name]).name for name in ("machine", "accelerator") if values.get(name)}
        return {name: finite(value) if isinstance(value, float) else value for name, value in found.items()}


def refused(error: BaseException) -> dict[str, Value]:
    """Result of a point that failed."""
    text = str(error) if isinstance(error, ForetraceError) else f"{type(error).__name__}: {error}"
    return {ERROR.name: " ".join(text.split()) or type(error).__name__}


@functools.lru_cache(_MOST_PROFILES)
def _profile(source: Source) -> Profile:
    return source.profile()


def _machine(values: Values) -> Profile:
    profile = _profile(values["machine"])
    return profile if values["clock"] is None else at_clock(profile, values["clock"] * 1e9)


def _predicted(run: LoadedRun, values: Values) -> Row:
    workload, cores = run.content, values["cores"]
    counts = None if values["threads"] is None else (values["threads"],)
    asked = None
    if values["set"] is not None:
        key = (values["set"], counts, cores)
        if key not in run.asked:
            run.asked[key] = asked_of(workload, EventQuestion(*event_of(values["set"])), counts, cores)
        asked = run.asked[key]
    (found,) = predict_on(workload, _machine(values), counts, cores, Model(values["model"]), asked, loops=False)
    return _row_of(found)


def _row_of(found: Prediction) -> Row:
    levels = found.hit_rates.levels
    scaling = found.scaling
    bounds = {bound_field(bound): found.time_by_bound_s.get(bound, 0.0) for bound in Bound if bound != Bound.NOTHING}
    return bounds | {
        "threads": found.threads,
        "cores": found.cores,
        "time_s": found.time_s,
        "low_s": found.low_s,
        "high_s": found.high_s,
        "bound_by": str(found.bound_by),
        "speedup": None if scaling is None else scaling.speedup,
        "speedup_low": None if scaling is None else scaling.low,
        "speedup_high": None if scaling is None else scaling.high,
        "speedup_bound_by": None if scaling is None else str(scaling.limit),
        "unseen_s": found.unseen_s,
        "waiting_s": None if found.waiting is None else found.waiting.waited_s,
        "accesses": levels[0].accesses if levels else None,
        "nearest_misses": levels[0].misses if levels else None,
        "memory_accesses": levels[-1].misses if levels else None,
        **_notes(found.complete, found.assumptions, found.warnings),
    }


def _notes(complete: bool, assumptions: tuple[Any, ...], warnings: tuple[str, ...]) -> dict[str, Any]:
    number = len(dict.fromkeys(map(str, assumptions)))
    return {"complete": complete, "assumptions": number, "warnings": "; ".join(dict.fromkeys(warnings))}


def _replayed(run: LoadedRun, values: Values) -> Row:
    offloading = None
    if values["accelerator"] is not None:
        policy = Policy(values["policy"] or Policy.GREEDY)
        offloading = Offloading(_profile(values["accelerator"]), values["accelerators"] or 1, policy)
    elif values["accelerators"] is not None or values["policy"] not in (None, str(Policy.NEVER)):
        raise PredictionError("--accelerators and --policy are about an accelerator: name it with --accelerator")
    found = replay_on(
        run.content, _machine(values), cores=values["cores"], threads=values["threads"],
        copies=values["copies"] or 1, offloading=offloading, model=Model(values["model"]), most_segments=0,
    )  # fmt: skip
    used = {use.kind: use.utilisation for use in reversed(found.resources)}
    path = ", ".join(f"{part.activity} {part.share:.0%}" for part in found.critical_path[:3])
    return {
        "threads": found.threads,
        "cores": found.cores,
        "copies": found.copies,
        "time_s": found.makespan_s,
        "low_s": found.low_s,
        "high_s": found.high_s,
        "alone_s": found.alone_s,
        "one_thread_s": found.prediction_s,
        "cores_utilisation": used.get("cores"),
        "memory_utilisation": used.get("memory"),
        "critical_path": path,
        **_notes(found.complete, found.assumptions, found.warnings),
    }


def _ranks_replayed(run: LoadedRun, values: Values) -> Row:
    source = values["platform"]
    if source.problem:
        raise PredictionError(source.problem)
    with as_file(source.content, source.name) as path:
        platform = read_platform(path, values["network_model"])
    found = replay_ranks(
        run.content, changed(platform, latency=values["latency"], bandwidth=values["bandwidth"]),
        ranks_per_node=values["ranks_per_node"] or 1, library=values["collectives"] or "mpich",
        algorithms=_algorithms(values), most_segments=0,
    )  # fmt: skip
    return _row_of_ranks(found)


def _algorithms(values: Values) -> dict[str, str]:
    return dict(one.split("=", 1) for one in (values["algorithm"] or "").split())


def _capture_replayed(run: LoadedRun, values: Values) -> Row:
    network = values["network"]
    layout = Layout(
        values["nodes"], values["ranks_per_node"],
        None if network is None else msgspec.json.decode(network.content, type=Interconnect), values["topology"],
        values["collectives"] or "", _algorithms(values), values["latency"], values["bandwidth"],
    )  # fmt: skip
    return _row_of_ranks(
        replay_run(run.content, _machine(values), layout, model=Model(values["model"]), most_segments=0)
    )


def _row_of_ranks(found: RankReplay) -> Row:
    outcome = found.outcome
    left_out = ", ".join(f"{count:,} {name}" for name, count in found.left_out.items())
    warnings = (
        *found.warnings,
        *([f"left out: {left_out}"] if left_out else []),
        *([f"{len(found.unfinished):,} ranks did not finish"] if found.unfinished else []),
    )
    return {
        "nodes": len(set(found.hosts.node_of)),
        "time_s": found.makespan_s,
        "low_s": found.low_s,
        "high_s": found.high_s,
        "ranks": len(found.hosts.node_of),
        "compute_s": float(found.compute_s.sum()),
        "partner_s": float(found.partner_s.sum()),
        "transfer_s": float(found.transfer_s.sum()),
        "imbalance": found.imbalance,
        "messages": int(outcome.messages),
        "sent_bytes": float(outcome.sent_bytes),
        "estimated_s": float(outcome.estimated_s),
        **_notes(not found.unfinished, found.assumptions, warnings),
    }


_OF_MACHINES = ("machine", "clock", "model", "threads", "cores")
PREDICT = Method("predict", SIGNATURES, (*_OF_MACHINES, "set"), PREDICTED, _predicted)
REPLAY = Method(
    "replay", SIGNATURES, (*_OF_MACHINES, "copies", "accelerator", "accelerators", "policy"), REPLAYED, _replayed
)
_OF_RANKS = ("ranks_per_node", "collectives", "algorithm", "latency", "bandwidth")
REPLAY_RANKS = Method("replay ranks", TRACES, ("platform", "network_model", *_OF_RANKS), RANKS, _ranks_replayed)
REPLAY_CAPTURE = Method(
    "replay run", CAPTURES, ("machine", "clock", "model", "nodes", "network", "topology", *_OF_RANKS), RANKS,
    _capture_replayed,
)  # fmt: skip
METHODS = (PREDICT, REPLAY, REPLAY_RANKS, REPLAY_CAPTURE)
"""All methods. Of those for a kind of run, the first that takes all axes that are given is used."""
