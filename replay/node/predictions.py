"""Predictions as `foretrace predict` makes them: programs with several threads on as many cores, others on one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from foretrace.base.errors import PredictionError
from foretrace.profiles.profile import Profile
from foretrace.replay.base.records import Model, Prediction
from foretrace.replay.events.predictions import AskedEvent, EventQuestion, with_event
from foretrace.replay.prediction.deep_trees import with_room
from foretrace.replay.prediction.predict import TURNS, predict
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.records import Signature

from .assumption_costs import assumption_costs
from .machine_run import check_cores
from .speedup import predict_threads, who_began_processes_is_known


def replayed_threads(signature: Signature) -> tuple[int, str]:
    """The threads that a prediction is of unless others are asked for; and for 1 the reason, if there were several."""
    tree, ran = signature.tree, signature.provenance.threads
    if tree is None:
        return 1, "the signature has no execution tree, which says what each thread did" if ran > 1 else ""
    if not who_began_processes_is_known(tree):
        return 1, "which of its processes ran at the same time is not known; foretrace replay runs all at once"
    return max(len(tree.threads), 1), ""


@with_room
def predict_on(
    program: Signature | Workload,
    profile: Profile,
    counts: Sequence[int] | None = None,
    cores: int | None = None,
    model: Model = Model.CORE,
    asked: AskedEvent | None = None,
    *,
    loops: bool = True,
) -> tuple[Prediction, ...]:
    """Predict a program on a machine.

    Args:
        program: its signature, or what follows from it.
        profile: of a host.
        counts: numbers of threads, for each of which there is a prediction; None: as many as were traced.
        cores: for the threads to run on; None: all of the machine. Without `counts`, on one core one thread does all
            work.
        model: what gives a region its time.
        asked: an event to predict by, on one core that does all work.
        loops: whether all loops are listed, or, without `asked`, only compiled code that was not seen.

    Raises:
        PredictionError: a number is out of range, or signature and profile do not tell enough.
    """
    workload = program if isinstance(program, Workload) else Workload.of(program)
    if counts is not None:
        return predict_threads(workload, profile, counts, cores, model, loops=loops)
    check_cores(profile, cores, "predict")
    threads, reason = replayed_threads(workload.signature)
    if cores != 1 and threads > 1:
        try:
            return predict_threads(workload, profile, None, cores, model, loops=loops)
        except PredictionError as error:
            reason = f"its {threads} threads cannot be replayed ({error})"
    if asked is not None:
        alone = with_event(workload, profile, asked, model)
    else:
        alone = predict(workload, profile, model, loops=loops)
    if cores == 1 or not reason:
        return (alone,)
    warnings = [f"{text}: {reason}" if text.endswith(TURNS) else text for text in alone.warnings]
    return (replace(alone, warnings=tuple(warnings)),)


def asked_of(
    workload: Workload, question: EventQuestion, counts: Sequence[int] | None, cores: int | None
) -> AskedEvent:
    """Relation of a program's work to an event.

    Raises:
        PredictionError: several threads would have to be replayed, or the event does not tell what is asked.
    """
    threads, _ = replayed_threads(workload.signature)
    if counts is not None:
        raise PredictionError("predict: --set and --per predict one core that does all work: leave --threads out")
    if cores != 1 and threads > 1:
        raise PredictionError(
            f"predict: --set and --per predict one core that does all work, and the run had {threads} threads: add "
            "--cores 1"
        )
    return AskedEvent.of(workload, question)


@with_room
def predict_each(
    signature: Signature,
    profiles: Sequence[Profile],
    counts: Sequence[int] | None = None,
    cores: int | None = None,
    model: Model = Model.CORE,
    question: EventQuestion | None = None,
    *,
    costs: bool = False,
) -> tuple[tuple[Prediction, ...], dict[str, PredictionError]]:
    """Predictions on all machines that one can be made for, and for the others, why not.

    With a `question` on one core, and with what an event has to do with the time. With `costs`, predictions of one core
    say what the assumptions about their machines cost.

    Returns:
        Without `counts` the fastest machine first, else in the order of `profiles` and `counts`.

    Raises:
        PredictionError: the signature holds nothing to predict, or the event does not tell what is asked.
    """
    workload = Workload.of(signature)
    asked = None if question is None else asked_of(workload, question, counts, cores)

    def predicted(profile: Profile) -> tuple[Prediction, ...]:
        found = predict_on(workload, profile, counts, cores, model, asked)
        if not costs or asked is not None:
            return found
        of_one = assumption_costs(workload, profile, model) if any(one.threads == 1 for one in found) else None
        return tuple(replace(one, assumption_costs=of_one) if one.threads == 1 else one for one in found)

    made: list[Prediction] = []
    refused: dict[str, PredictionError] = {}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as workers:  # the core model runs without Python's lock
        futures = [workers.submit(predicted, profile) for profile in profiles]
        for profile, future in zip(profiles, futures, strict=True):
            try:
                made += future.result()
            except PredictionError as error:
                refused[profile.name] = error
    if counts is None:
        made.sort(key=lambda prediction: prediction.time_s)
    return tuple(made), refused
