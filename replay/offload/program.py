"""A program whose candidates are offered to accelerators, for replays on a whole machine."""

from __future__ import annotations

from dataclasses import dataclass

from foretrace.replay.engine.program import Part, Sharing
from foretrace.replay.offload.devices.array_calls import with_whole_calls
from foretrace.replay.offload.devices.device import Device
from foretrace.replay.offload.devices.kernels import Offers
from foretrace.replay.offload.devices.work import Work
from foretrace.replay.prediction.predict import HostRun

from .decisions import Pays, Program
from .host_threads import HostTimes
from .plan import Planner
from .policies import policy_offers
from .policy import Policy
from .ranks import HostRuns, activities


@dataclass(frozen=True, slots=True, eq=False)
class OffloadedProgram:
    """A program, its candidates for a device, and the policy by which they go there.

    `offered` are nodes that may go, None: all candidates; `names` are those of all nodes.
    """

    device: Device
    planner: Planner
    offered: tuple[int, ...] | None
    pays: Pays
    names: tuple[str, ...]

    @classmethod
    def of(cls, run: HostRun, device: Device, policy: Policy) -> OffloadedProgram:
        """Cost a program's candidates, and decide as far as the policy does so beforehand.

        Raises:
            PredictionError: signature and profile together do not tell enough.
        """
        work = work_for(run, device)
        offers = Offers.of(work, device)
        planner = Planner(offers, HostTimes.of(work, 1, None, None))
        offered, pays = policy_offers(policy, planner)
        return cls(device, planner, None if offered is None else tuple(offered), pays, node_names(work))

    @property
    def work(self) -> Work:
        """Its nodes."""
        return self.planner.work

    def parts(self, runs: HostRuns, accelerators: int, core: Sharing) -> tuple[tuple[Part, ...], Program]:
        """A job's timeline program, and what its offers are about.

        Args:
            runs: makes the host's work.
            accelerators: how many there are.
            core: where arithmetic that stays on the host runs.
        """
        program = Program()
        made = activities(self.planner, self.offered, runs)
        return program.parts(made, self.names, accelerators, self.device.way, core), program


def work_for(run: HostRun, device: Device) -> Work:
    """A program as a device takes it: by its tree, or by its regions for a gather/scatter unit."""
    return with_whole_calls(Work.of_tree(run)) if device.rates is not None else Work.of_loops(run, nested=False)


def node_names(work: Work) -> tuple[str, ...]:
    """A name for each node: function and place."""
    return tuple(
        f"{place.name} {place.text}"
        if place.caller
        else f"{place.function or place.module or '?'} {place.file.rpartition('/')[2]}:{place.line}"
        for place in work.places
    )
