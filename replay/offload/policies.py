"""Policies of offloading: which nodes of a program are offered to an accelerator, and who may go."""

from __future__ import annotations

from collections.abc import Iterable

from foretrace.replay.offload.devices.gather_scatter import break_even_bytes, curves_of
from foretrace.replay.offload.devices.kernels import Candidate

from .decisions import Pays, decided_beforehand, pays_now
from .plan import Planner
from .policy import Policy


def policy_offers(
    policy: Policy, planner: Planner, kernels: tuple[int, ...] | None = None
) -> tuple[Iterable[int] | None, Pays]:
    """The nodes that a policy offers (None: all candidates), and whether one goes when its turn comes.

    `kernels` are those of the policy, where they are known.
    """
    if policy is Policy.NEVER:
        return (), decided_beforehand(frozenset())
    if policy is Policy.GREEDY:
        return None, pays_now
    kernels = kernels_of(policy, planner) if kernels is None else kernels
    refused = [node for node, one in planner.offers.candidates.items() if one.refusal]
    return (*kernels, *refused), decided_beforehand(frozenset(kernels))


def kernels_of(policy: Policy, planner: Planner) -> tuple[int, ...]:
    """The kernels of a policy that decides before the program begins."""
    if policy is Policy.PLAN:
        return planner.plan()
    everything = planner.outermost()
    if policy is Policy.ALWAYS:
        return everything
    return tuple(node for node in everything if _is_beyond_threshold(planner, planner.able[node]))


def _is_beyond_threshold(planner: Planner, one: Candidate) -> bool:
    """Whether it is at least as large as the published threshold; if there is none, as where it breaks even alone."""
    offers, profile = planner.offers, planner.offers.device.profile
    if one.loop is None:
        return planner.time_s([one.node]) < planner.host_s
    published = [curve.minimum_range_bytes for curve in curves_of(profile, one.loop.kinds) or []]
    known = [least for least in published if least is not None]
    taxes_s = one.fixed_s - float(one.kernel_s[1])
    least = max(known) if known else break_even_bytes(offers.work.run, profile, one.loop, one.host_s, taxes_s)
    return least is not None and one.loop.range_bytes >= least
