"""Triage: which loops, calls and array operations of a program to port to an accelerator, and what that gains.

The module is long for one class, which works out all that a report says of a pair of machines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from foretrace.base.errors import PredictionError
from foretrace.base.units import format_bytes
from foretrace.profiles.profile import Profile
from foretrace.replay.base.interval import combined
from foretrace.replay.base.records import (
    LEAST_SHOWN_SHARE,
    Answer,
    Instance,
    LoopCounts,
    MovedArray,
    OffloadCost,
    Place,
    PolicyOutcome,
    ProgramGain,
    Triage,
)
from foretrace.replay.base.spread import FAST, SLOW, TYPICAL, Floats
from foretrace.replay.offload.devices.array_calls import array_operation
from foretrace.replay.offload.devices.device import Device
from foretrace.replay.offload.devices.evidence import Parallel, Sources
from foretrace.replay.offload.devices.gather_scatter import GatherScatter, break_even_bytes, is_loader
from foretrace.replay.offload.devices.kernels import Candidate, Offers
from foretrace.replay.offload.devices.work import NodeKind, shown
from foretrace.replay.prediction.conditions import Conditions
from foretrace.replay.prediction.deep_trees import with_room
from foretrace.replay.prediction.predict import HostRun, unseen_code, warnings_of, warnings_of_run
from foretrace.replay.workload.workload import Workload
from foretrace.tracer.signature.records import IdiomKind, Signature, told_apart

from .changes import would_change
from .host_threads import HostTimes
from .listing import counts_of, listed_nodes
from .plan import Planner
from .policies import policy_offers
from .policy import Policy
from .program import node_names, work_for
from .ranks import activities, replay
from .reasons import Verdict, break_even_footprint, break_even_launch_s, explanation, flip, reason
from .residency import HOST, Moved, Residency, moved_by_allocation, results_of

MOST_OF_THE_GAIN = 0.95


@with_room
def triage(
    signature: Signature,
    host: Profile,
    accelerator: Profile,
    *,
    host_cores: int = 1,
    explain: str = "",
    sources: Sources | None = None,
) -> Triage:
    """Find the best division of a program between a host and one accelerator, and say why, candidate by candidate.

    Args:
        signature: of the program.
        host: the machine that runs the rest.
        accelerator: the device.
        host_cores: cores that loops left on the host may be divided among.
        explain: a place (`file.c:12`), a function, or part of either: candidates there are explained too.
        sources: what the source says of the program's loops.

    Raises:
        PredictionError: host or accelerator is not one, has fewer cores, or signature and profiles do not tell enough.
    """
    device = Device.of(accelerator)
    return _Report(signature, host, device, host_cores, sources).triage(explain)


@with_room
def triages(
    signature: Signature,
    host: Profile,
    accelerators: Sequence[Profile],
    *,
    host_cores: int = 1,
    explain: str = "",
    sources: Sources | None = None,
) -> tuple[list[Triage], list[list[Instance | None]]]:
    """Triages for several accelerators, and a matrix: for each loop that any of them lists, its row on each.

    None: a gather/scatter unit does not take it.
    """
    reports = [_Report(signature, host, Device.of(one), host_cores, sources) for one in accelerators]
    found = [one.triage(explain) for one in reports]
    general = [one for one in reports if one.device.rates is not None]
    nodes = dict.fromkeys(node for one in general for node in one.listed)
    rows: list[list[Instance | None]] = []
    seen = set()
    for node in nodes:
        place = general[0].work.places[node]
        seen.add(place)
        rows.append([
            one.instance(node) if one.device.rates is not None else _at(made, place)
            for one, made in zip(reports, found, strict=True)
        ])  # fmt: skip
    of_units = dict.fromkeys(one.place for made in found if made.is_unit for one in made.instances)
    rows += [[_at(made, place) for made in found] for place in of_units if place not in seen]
    return found, rows


def _at(made: Triage, place: Place) -> Instance | None:
    return next((one for one in made.instances if one.place == place), None)


def checked_cores(host: Profile, asked: int | None) -> int:
    """Cores of a host; None: all of them.

    Raises:
        PredictionError: it has fewer, or does not tell how many.
    """
    has = host.core.cores if host.core else None
    if asked is None:
        if has is None:
            raise PredictionError(f"machine {host.name}: core.cores is missing; say how many with --host-cores")
        return has
    if asked < 1 or (has is not None and asked > has):
        raise PredictionError(f"machine {host.name}: has {has or 'some'} cores, not {asked}")
    return asked


class _Report:
    def __init__(
        self, signature: Signature, host: Profile, device: Device, cores: int, sources: Sources | None
    ) -> None:
        workload = Workload.of(signature)
        conditions = Conditions.of(workload, host, jobs=1, cores=cores) if cores > 1 else None
        self.run = conditions.run if conditions else HostRun.of(workload, host)
        self.signature, self.host, self.device = signature, host, device
        self.work = work_for(self.run, device)
        self.offers = Offers.of(self.work, device, sources)
        footprints = {node: one.footprint_bytes for node, one in self.offers.candidates.items()}
        self.times = HostTimes.of(self.work, cores, self.offers.evidence, conditions, footprints)
        self.planner = Planner(self.offers, self.times)
        self.names = node_names(self.work)
        self.kinds: dict[int | None, list[IdiomKind]] = defaultdict(list)
        for idiom in signature.idioms:
            self.kinds[idiom.loop_id].append(idiom.kind)
        self.best_host_s = self.times.time_s(())
        self.kernels, self.policies = self._planned()
        self.threaded = set(self.times.choice(self.kernels)[1])
        self.alone_s = self.work.inclusive_s
        self.low, self.high = self._host_factors()
        self.shares = self._shares()
        self._moved_by: dict[tuple[int, ...], Moved] = {}
        self.listed = self._listed()

    def triage(self, explain: str) -> Triage:
        work, signature = self.work, self.signature
        nodes = self.listed
        instances = sorted((self.instance(node) for node in nodes), key=lambda one: (-one.gain_s, -one.host_s))
        explained = [self.instance(node) for node in self._matching(explain)] if explain else []
        if explain and not explained:
            raise PredictionError(
                f"no loop, call or array operation of the program is at or in {explain!r}; name one as the table does, "
                "file:line or a function"
            )
        unseen_s, unseen = unseen_code(self.run)
        return Triage(
            host=self.host.name,
            host_title=self.host.title,
            accelerator=self.device.profile.name,
            accelerator_title=self.device.profile.title,
            complete=signature.provenance.complete,
            instances=tuple(instances),
            program=self._program(instances),
            hit_rates=self.run.misses.hit_rates,
            assumptions=(*self.run.assumptions, *self.device.assumptions, *self.times.assumptions),
            warnings=(
                *self.device.warnings,
                *warnings_of(signature),
                *warnings_of_run(self.run),
                *work.notes,
                *self._unexamined(instances),
                *self._beyond_memory(),
            ),
            unseen_s=unseen_s,
            unseen=unseen,
            is_unit=self.device.rates is None,
            policies=self.policies,
            explained=tuple(explained),
            arrays=self._arrays(),
            loops=self._loop_counts(),
        )

    def _arrays(self) -> tuple[MovedArray, ...]:
        """Movement of each allocation by the plan; nothing where memory is shared or data flow was not followed."""
        flow = self.signature.data_flow
        if flow is None or self.device.way.shared_memory:
            return ()
        is_there = self.work.flags(below for node in self.kernels for below in self.planner.able[node].nodes)
        found = []
        for number, (to_device, from_device) in moved_by_allocation(self.planner.versions, is_there).items():
            if number < 0:
                found.append(MovedArray("unknown", "", "", "", 0, to_device, from_device))
            else:
                one = flow.allocations[number]
                place = (one.kind.name.lower(), one.name, one.function, one.file, one.line)
                found.append(MovedArray(*place, to_device, from_device))
        return tuple(sorted(found, key=lambda one: -one.to_device_bytes - one.from_device_bytes))

    def _listed(self) -> list[int]:
        """Nodes that have a row."""
        if self.device.rates is None:
            return list(self.offers.candidates)
        assert self.offers.evidence is not None
        goals = self.threaded.union(self.kernels)
        return listed_nodes(self.work, self.offers.evidence, self.planner.able, goals, self.alone_s)

    def _loop_counts(self) -> LoopCounts:
        """Counts of loops by place; a gather/scatter unit only knows those that gather or scatter."""
        if self.device.rates is None:
            return LoopCounts(there=len(self.listed), listed=len(self.listed))
        goals = self.threaded.union(self.kernels)
        return counts_of(self.work, self.offers.evidence, self.listed, goals, self.alone_s)

    def _matching(self, text: str) -> list[int]:
        found = []
        for node, place in enumerate(self.work.places):
            name = place.file.rpartition("/")[2]
            shown = (f"{name}:{place.line}", f"{place.file}:{place.line}", place.function, place.module)
            if text in shown and self.work.kinds[node] is not NodeKind.OTHER:
                found.append(node)
        loops = [node for node in found if self.work.kinds[node] is not NodeKind.CALL]
        return loops or found or self._with_code_at(text)

    def _with_code_at(self, text: str) -> list[int]:
        """The innermost loops that ran code of a line, or the calls where no loop is around it."""
        name, _, line = text.rpartition(":")
        if not name or not line.isdecimal():
            return []
        signature, work = self.signature, self.work
        is_file = {file: file == name or file.rpartition("/")[2] == name for file in {b.file for b in signature.blocks}}
        is_file |= {one.file: one.file == name or one.file.rpartition("/")[2] == name for one in signature.operations}
        blocks = {n for n, block in enumerate(signature.blocks) if block.line == int(line) and is_file[block.file]}
        blocks |= {one.block_id for one in signature.operations if one.line == int(line) and is_file[one.file]}
        found = set()
        for node in np.unique(work.row_node[np.isin(work.row_block, list(blocks))]).tolist():
            around = (one for one in work.around(node) if work.kinds[one] not in (NodeKind.CALL, NodeKind.OTHER))
            found.add(next(around, node))
        kept = sorted(node for node in found if work.kinds[node] is not NodeKind.OTHER)
        return [node for node in kept if work.kinds[node] is not NodeKind.CALL] or kept

    def _shares(self) -> dict[int, Moved]:
        """Movement due to each kernel of the plan: the data it needs first, and the results that the host needs."""
        residency = Residency(self.planner.versions)
        away = {below for node in self.kernels for below in self.planner.able[node].nodes}
        residency.put([node for node in range(len(self.work)) if node not in away], HOST)
        return {
            node: residency.put(self.planner.able[node].nodes, 0, self.planner.able[node].launches)
            + results_of(self.planner.able[node].results)
            for node in self.kernels
        }

    def verdict(self, node: int) -> Verdict:
        """The answer about a node, and its figures in the plan."""
        candidate = self.offers.candidates.get(node) or self._refused(node)
        host_s, thread_s = float(self.alone_s[node]), self.times.threaded_s.get(node)
        is_ported = node in self.kernels
        answer = Answer.PORT if is_ported else Answer.THREAD if node in self.threaded else Answer.LEAVE
        tree_s = float(self.times.best_s[node])
        if candidate.refusal:
            return Verdict(candidate, answer, host_s, thread_s, None, Moved(), self._bound(node), tree_s)
        moved = self.shares[node] if is_ported else self._alone(node)
        to_device, from_device = moved.times_s(self.device.way)
        cost = OffloadCost(
            queue_s=0.0,
            launch_s=float(candidate.launch_s[TYPICAL]),
            transfer_s=float(to_device[TYPICAL] + from_device[TYPICAL]) + self.planner.staged_s(candidate),
            kernel_s=float(candidate.kernel_s[TYPICAL]),
            arithmetic_s=float(candidate.arithmetic_s[TYPICAL]),
        )
        return Verdict(candidate, answer, host_s, thread_s, cost, moved, self._bound(node), tree_s)

    def _alone(self, node: int) -> Moved:
        """Extra transfers if this node, which stays on the host in the plan, were ported as well."""
        inside = set(self.planner.able[node].nodes)
        others = tuple(one for one in self.kernels if one not in inside and node not in self.planner.able[one].nodes)
        if others not in self._moved_by:
            self._moved_by[others] = self.planner.moved(others)[0]
        before = self._moved_by[others]
        after, _ = self.planner.moved([*others, node])
        return Moved(
            max(after.to_device_bytes - before.to_device_bytes, 0.0),
            max(after.from_device_bytes - before.from_device_bytes, 0.0),
            max(after.to_device - before.to_device, 0),
            max(after.from_device - before.from_device, 0),
        )

    def _refused(self, node: int) -> Candidate:
        evidence = self.offers.evidence
        why = evidence.refused_below[node] if evidence else ""
        if not why:
            why = "a sequence: its loops are kernels of their own" if self.work.children[node] else "no loop"
        none = np.zeros(3)
        return Candidate(
            node,
            self.work.below(node),
            float(self.alone_s[node]),
            int(self.work.entries[node]),
            None,
            none,
            none,
            none,
            0.0,
            refusal=why,
        )

    def _bound(self, node: int) -> str:
        seconds: dict[int, float] = {}
        for below in self.work.below(node):
            for region, time_s in self.work.own_s[below].items():
                seconds[region] = seconds.get(region, 0.0) + time_s
        if not seconds:
            return "nothing"
        bounds = self.run.times.bound_without_pages or self.run.times.bound_by
        return str(bounds[max(seconds, key=lambda region: seconds[region])])

    def instance(self, node: int) -> Instance:
        """A row of the report."""
        verdict = self.verdict(node)
        one, cost, evidence = verdict.candidate, verdict.cost, self.offers.evidence
        low_s, high_s = self._device_range(verdict)
        is_ported = verdict.answer is Answer.PORT
        loop = one.loop or self._gathers(node)
        taxes_s = cost.total_s - cost.kernel_s if cost else float((one.launch_s + one.arithmetic_s)[TYPICAL])
        place = self.work.places[node]
        gain_s = 0.0
        if is_ported and cost:
            gain_s = verdict.best_host_s - cost.total_s
        elif verdict.answer is Answer.THREAD and verdict.thread_s is not None:
            gain_s = verdict.host_s - verdict.thread_s
        return Instance(
            place=place,
            idiom=self._idioms(node, loop),
            range_bytes=loop.range_bytes if loop else round(one.footprint_bytes),
            refs=loop.refs if loop else round(self._sum(node, "accesses")),
            moved_bytes=loop.moved_bytes if loop else round(self._sum(node, "access_bytes")),
            entries=one.launches,
            host_s=verdict.host_s,
            accelerator_s=cost.total_s if cost else None,
            cost=cost,
            gain_s=gain_s,
            offload=is_ported,
            reason=reason(verdict, self.device, evidence) + self._around(verdict),
            break_even_bytes=(
                break_even_bytes(self.run, self.device.profile, one.loop, verdict.host_s, taxes_s)
                if one.loop
                else break_even_footprint(verdict, self.device)
            ),
            kind=str(self.work.kinds[node]),
            answer=verdict.answer,
            host_low_s=float(self.low[node]),
            host_high_s=float(self.high[node]),
            accelerator_low_s=low_s if cost else None,
            accelerator_high_s=high_s if cost else None,
            thread_s=verdict.thread_s,
            bound_by=one.terms.bound_by if one.terms else "",
            parallel=str(evidence.parallel[node]) if evidence else "",
            threads=one.terms.threads if one.terms else 1.0,
            to_device_bytes=verdict.moved.to_device_bytes,
            from_device_bytes=verdict.moved.from_device_bytes,
            transfers=verdict.moved.to_device + verdict.moved.from_device,
            footprint_bytes=one.footprint_bytes,
            break_even_launch_s=break_even_launch_s(verdict),
            flip=flip(verdict, self.device),
            explanation=explanation(verdict, self.device, evidence),
            caller=self._around_in_words(node, loops=False),
            path=self._around_in_words(node, loops=True),
            verdict=evidence.verdicts[node] if evidence else None,
            would_change=would_change(
                verdict,
                self.device,
                evidence,
                self._kinds_below(node),
                self._launched_together(node),
                inside_serial=self._serial_around(node) >= 0,
            ),
            array_operation=array_operation(self.work, node),
            best_host_s=verdict.best_host_s,
        )

    def _serial_around(self, node: int) -> int:
        """The innermost loop around a node if its iterations run one after the other; -1 otherwise."""
        around = self.work.loop_around(self.work.parents[node])
        evidence = self.offers.evidence
        return around if around >= 0 and evidence is not None and evidence.parallel[around].is_serial else -1

    def _around(self, verdict: Verdict) -> str:
        """For a loop that stays, names the serial loop around it that would launch it so often."""
        evidence = self.offers.evidence
        if evidence is None or verdict.answer is not Answer.LEAVE or verdict.cost is None:
            return ""
        around = self._serial_around(verdict.candidate.node)
        if around < 0:
            return ""
        return f"; inside {shown(self.work.places[around])}, which is serial ({evidence.texts[around]})"

    def _gathers(self, node: int) -> GatherScatter | None:
        """Gathers and scatters of the hottest such loop below a node."""
        regions = self.run.workload.regions
        below = {region for one in self.work.below(node) for region in self.work.own_s[one] if regions[region].idioms}
        if not below:
            return None
        hottest = max(below, key=lambda region: float(self.run.times.time_s[TYPICAL, region]))
        return GatherScatter.of(self.signature, regions[hottest])

    def _idioms(self, node: int, gathers: GatherScatter | None) -> str:
        """Idioms of the loops below a node, as one word; a gather/scatter unit only knows its own."""
        if self.device.rates is not None:
            names = "+".join(told_apart(kind for loop in self._loops_below(node) for kind in self.kinds[loop]))
        else:
            names = gathers.idiom if gathers else ""
        return names or "none"

    def _sum(self, node: int, name: str) -> float:
        demand = self.offers.demand
        return float(sum(getattr(demand, name)[below] for below in self.work.below(node))) if demand else 0.0

    def _kinds_below(self, node: int) -> set[IdiomKind]:
        """The idioms of the loops of a node and below it."""
        return {kind for loop in self._loops_below(node) for kind in self.kinds[loop]}

    def _loops_below(self, node: int) -> list[int]:
        """The loops of a node and below it, without those of the loader, which resolves calls at their first use."""
        regions = self.run.workload.regions
        inside = [one for one in self.work.below(node) if not is_loader(self.work.places[one].module)]
        loops = {regions[region].loop_id for one in inside for region in self.work.own_s[one]}
        return sorted(loop for loop in loops if loop is not None)

    def _launched_together(self, node: int) -> int:
        """Number of the plan's kernels that the innermost loop around a node launches, the node's included."""
        around = self.work.loop_around(self.work.parents[node])
        if around < 0:
            return 1
        return len({node, *self.kernels}.intersection(self.work.below(around)))

    def _around_in_words(self, node: int, *, loops: bool) -> str:
        """The calls, and `loops`, around a node, outermost first, without the start-up code."""
        names: list[str] = []
        for around in self.work.around(self.work.parents[node]):
            if self.work.kinds[around] is NodeKind.CALL:
                names.append(self.work.places[around].function)
            elif loops and self.work.kinds[around] is NodeKind.LOOP:
                names.append(f"loop {shown(self.work.places[around])}")
        names.reverse()
        return " > ".join(names[names.index("main") :] if "main" in names else names)

    @cached_property
    def _merged_s(self) -> float:
        """Seconds of moving all versions whose readers were too many to tell apart: that much less may move."""
        return self._moving_s(self.work.flow.merged_bytes)

    def _moving_s(self, num_bytes: float) -> float:
        """Seconds of moving bytes to the device or back, whichever takes longer."""
        way = self.device.way
        if way.shared_memory or not num_bytes:
            return 0.0
        return float(num_bytes / min(way.to_device_bytes_per_s, way.from_device_bytes_per_s))

    def _device_range(self, verdict: Verdict) -> tuple[float, float]:
        """Least and most of a candidate on the device. One that is taken to be parallel may have to stay."""
        one, evidence, way = verdict.candidate, self.offers.evidence, self.device.way
        to_device, from_device = verdict.moved.times_s(way)
        times = one.kernel_s + one.launch_s + one.arithmetic_s + to_device + from_device + self.planner.staged_s(one)
        error = self.work.flow.relative_error * float((to_device + from_device)[TYPICAL])
        low = max(float(times[FAST]) - 2 * error, 0.0)
        low = max(low - min(self._merged_s, float((to_device + from_device)[FAST])), 0.0)
        high = float(times[SLOW]) + 2 * error
        if evidence is not None and evidence.is_assumed[one.node]:
            high = max(high, verdict.host_s)
        return low, high

    def _host_factors(self) -> tuple[Floats, Floats]:
        """[nodes]: least and most seconds on the host of each node and all below it."""
        factors = {}
        for own in self.work.own_s:
            for region in own:
                if region not in factors:
                    factors[region] = combined(self.run.errors_of_region(region))
        low, high = (
            np.array([sum(time_s * factors[region][end] for region, time_s in own.items()) for own in self.work.own_s])
            for end in (0, 1)
        )
        return self.work.inclusive(low), self.work.inclusive(high)

    def _program(self, instances: Sequence[Instance]) -> ProgramGain:
        after = self.policies[-1]
        host_s = float(self.work.own_total_s.sum() + self.work.pages_s.sum())
        threads_s = [self.times.choice((), corner)[0] for corner in (FAST, TYPICAL, SLOW)]
        rests_s = [self.times.choice(self.kernels, corner)[0] for corner in (FAST, TYPICAL, SLOW)]
        gain = program_gain(self.best_host_s, after.time_s, instances)
        low, high = combined(self.run.errors())
        kernels = [self.verdict(node) for node in self.kernels]
        ranges = [self._device_range(one) for one in kernels]
        device_s = sum(one.cost.total_s for one in kernels if one.cost)
        rest_s = max(after.time_s - device_s, 0.0)
        rest_low_s, rest_high_s = (
            rest_s * error * rests_s[corner] / max(rests_s[TYPICAL], 1e-300)
            for error, corner in ((low, FAST), (high, SLOW))
        )
        least, most = sum(one[0] for one in ranges), sum(one[1] for one in ranges)
        most += self._moving_s(self.work.left_out_bytes) if kernels else 0.0
        moved = Moved() if self.device.way.shared_memory else self.planner.moved(self.kernels)[0]
        return replace(
            gain,
            host_s=host_s,
            one_core_speedup=host_s / after.time_s if after.time_s else 1.0,
            after_low_s=rest_low_s + least,
            after_high_s=rest_high_s + most,
            speedup_low=threads_s[FAST] * low / max(rest_low_s + most, 1e-300),
            speedup_high=threads_s[SLOW] * high / max(rest_high_s + least, 1e-300),
            threads_low_s=threads_s[FAST] * low,
            threads_high_s=threads_s[SLOW] * high,
            threads_s=threads_s[TYPICAL],
            host_cores=self.times.cores,
            to_device_bytes=moved.to_device_bytes,
            from_device_bytes=moved.from_device_bytes,
            transfers=moved.to_device + moved.from_device,
            launches=sum(self.planner.able[node].launches for node in self.kernels),
        )

    def _planned(self) -> tuple[tuple[int, ...], tuple[PolicyOutcome, ...]]:
        """The kernels of the plan, and the program by each policy, the plan last.

        The plan is the best that the search finds; if another policy's replay ends sooner, it is that one's.
        """
        begun = self.planner.plan()
        tried = [self._replayed(policy) for policy in Policy if policy is not Policy.PLAN]
        found = [self._replayed(Policy.PLAN, begun), *tried]
        best, kernels = min(found, key=lambda one: one[0].time_s)
        fits = self.planner.fitting(kernels) == kernels
        best, kernels = (best, kernels) if fits else found[0]
        return kernels, (*(one for one, _ in tried), replace(best, policy=str(Policy.PLAN)))

    def _replayed(
        self, policy: Policy, kernels: tuple[int, ...] | None = None
    ) -> tuple[PolicyOutcome, tuple[int, ...]]:
        """The program by a policy, replayed on one rank and one accelerator, and what went there."""
        offered, pays = policy_offers(policy, self.planner, kernels)
        made = activities(self.planner, offered)
        found = replay([made], self.planner.versions, self.names, way=self.device.way, accelerators=1, pays=pays)
        gone = tuple(sorted(decision.node for decision in found.decisions if decision.offload))
        outcome = PolicyOutcome(
            policy=str(policy),
            time_s=found.makespan_s,
            speedup=self.best_host_s / found.makespan_s if found.makespan_s else 1.0,
            kernels=len(gone),
            moved_bytes=0.0 if self.device.way.shared_memory else found.to_device_bytes + found.from_device_bytes,
        )
        return outcome, gone

    def _unexamined(self, instances: Sequence[Instance]) -> tuple[str, ...]:
        """Warnings on loops taken to be parallel, or serial, for want of evidence."""
        evidence = self.offers.evidence
        if evidence is None:
            return ()
        said = []
        if assumed := sum(one.offload and one.parallel == Parallel.ASSUMED for one in instances):
            loops, are = ("1 loop", "was") if assumed == 1 else (f"{assumed} loops", "were")
            said.append(
                f"{loops} to port {are} not examined for dependences and assumed to be parallel: run foretrace trace "
                "--dependences to know; intervals reach to what the program takes if the iterations depend on each "
                "other"
            )
        least_s = LEAST_SHOWN_SHARE * float(self.work.own_total_s.sum())
        if count := int((evidence.by_flow & ~evidence.is_outside & (self.alone_s >= least_s)).sum()):
            loops, count_as = ("1 loop", "counts") if count == 1 else (f"{count} loops", "count")
            said.append(
                f"{loops} {count_as} as serial for what an iteration seems to hand on, where an array that each "
                "iteration writes anew looks the same: foretrace trace --dependences tells them apart"
            )
        return tuple(said)

    def _beyond_memory(self) -> tuple[str, ...]:
        rates = self.device.rates
        if rates is None or self.device.way.shared_memory:
            return ()
        most = max((one.footprint_bytes for one in self.planner.able.values()), default=0.0)
        if most <= rates.capacity_bytes:
            return ()
        return (
            f"the program touches {format_bytes(round(most))} in one candidate, more than the "
            f"{format_bytes(round(rates.capacity_bytes))} of {self.device.profile.title}: what does not fit is brought "
            "piece by piece, or stays on the host",
        )


def program_gain(host_s: float, after_s: float, instances: Sequence[Instance]) -> ProgramGain:
    """Sum up; `host_s` is the program's best time on the host, `instances` are sorted by gain, largest first."""
    ported = [instance for instance in instances if instance.offload]
    total = sum(instance.gain_s for instance in ported)
    reached, enough = 0.0, 0
    for instance in ported:
        if total <= 0 or reached >= MOST_OF_THE_GAIN * total:
            break
        reached += instance.gain_s
        enough += 1
    return ProgramGain(
        host_s=host_s,
        after_s=after_s,
        speedup=host_s / after_s if after_s else 1.0,
        loops=len(instances),
        loops_offloaded=len(ported),
        loops_for_95_percent=enough,
        best_host_s=host_s,
    )
