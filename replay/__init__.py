"""The model: a signature on a machine profile gives a prediction.

The package can be called: `foretrace.replay(signature, machine, ...)` is `foretrace.replay.node.replay.replay_on`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foretrace.profiles.profile import Profile
    from foretrace.tracer.signature.records import Signature

    from .node.records import NodeReplay


class _CallablePackage(ModuleType):
    """A package that is a verb as well: there is one name for both."""

    def __call__(
        self,
        signature: Signature | str | Path,
        machine: Profile | str,
        *,
        cores: int | None = None,
        threads: int | None = None,
        copies: int = 1,
        accelerator: Profile | str | None = None,
        accelerators: int = 1,
        policy: str = "greedy",
    ) -> NodeReplay:
        """Replay a program on a machine.

        Args:
            signature: of the program, or its file.
            machine: a host's profile, name or TOML file.
            cores: to use; None: all.
            threads: of each copy; None: as traced.
            copies: of the program that run at the same time.
            accelerator: of the host: a profile, name or TOML file; None for none.
            accelerators: how many there are.
            policy: which gather/scatter loops go there: never, always, threshold, greedy or plan.

        Returns:
            makespan, critical path and what would shorten it; DataFrames of entities, resources and timeline.

        Raises:
            ForetraceError: a file cannot be read, or signature and profiles do not tell enough.
            ValueError: there is no such policy.
        """
        from foretrace.profiles.library import find
        from foretrace.tracer.signature.file import read_signature

        from .node.machine_run import Offloading
        from .node.replay import replay_on
        from .offload.decisions import Policy

        read = read_signature(Path(signature)) if isinstance(signature, str | Path) else signature
        host, device = (find(one) if isinstance(one, str) else one for one in (machine, accelerator))
        assert host is not None, "a machine is given"
        offloading = None if device is None else Offloading(device, accelerators, Policy(policy))
        return replay_on(read, host, cores=cores, threads=threads, copies=copies, offloading=offloading)


sys.modules[__name__].__class__ = _CallablePackage
