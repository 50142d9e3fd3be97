"""Costs of assumed figures: how much narrower a prediction's interval is once one of them is known.

The program is predicted again with one figure at a time taken to be exactly as typical: the typical time is the same,
the interval's ends are not. Sources of error add up in squares, so the parts of several figures add up to no sum.
Each figure takes as long as a prediction.
"""

from __future__ import annotations

from foretrace.profiles.profile import Profile
from foretrace.replay.base.records import AssumptionCost, Model
from foretrace.replay.prediction.predict import HostRun, interval_of
from foretrace.replay.workload.workload import Workload


def assumption_costs(workload: Workload, profile: Profile, model: Model = Model.CORE) -> tuple[AssumptionCost, ...]:
    """The cost of each assumed figure that this program needs, on one core; the dearest first.

    Raises:
        PredictionError: signature and profile do not tell enough.
    """
    run = HostRun.of(workload, profile, model)
    low_s, high_s = interval_of(run)
    found = []
    for name in dict.fromkeys(one.name for one in run.assumptions if one.range is not None and one.range.factor > 1):
        settled = HostRun.of(workload, profile, model, shared=run.misses, settled=(name,))
        ends_s = interval_of(settled)
        share = 1 - (ends_s[1] - ends_s[0]) / (high_s - low_s) if high_s > low_s else 0.0
        found.append(AssumptionCost(name, max(share, 0.0), *ends_s))
    found.sort(key=lambda one: -one.width_share)
    return tuple(found)
