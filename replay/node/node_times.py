"""Predicted time by node of the execution tree: what calls and loops take on a machine, one core doing all work."""

from __future__ import annotations

from foretrace.base.errors import PredictionError
from foretrace.profiles.profile import Profile
from foretrace.replay.base.records import Model
from foretrace.replay.base.spread import TYPICAL, Floats
from foretrace.replay.prediction.predict import HostRun
from foretrace.replay.threads.tree_work import TreeWork
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.records import Signature


def node_times(signature: Signature, profile: Profile, model: Model = Model.CORE) -> Floats:
    """Seconds that each node of the tree takes itself, [nodes]: a loop's time, shared out by its instructions there.

    What threads spun in the runtime of parallel regions is left out. Their sum is the prediction's time, less that, and
    less regions that the tree has no node for.

    Raises:
        PredictionError: the signature has no tree, or signature and profile do not tell enough.
    """
    if signature.tree is None:
        raise PredictionError("the signature has no execution tree, which times by call need; trace the program again")
    workload = Workload.of(signature)
    run = HostRun.of(workload, profile, model)
    return TreeWork.of(workload, signature.tree, run.times.time_s[TYPICAL]).own_total_s
