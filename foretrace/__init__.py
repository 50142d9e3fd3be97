"""foretrace: trace a program once, predict it on any machine, know what to port.

`foretrace.trace`, `predict`, `triage` and so on are the verbs of the command line; docs/notebook.ipynb shows them.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretrace.base.version import __version__ as __version__

if TYPE_CHECKING:
    from foretrace.base.errors import ForetraceError as ForetraceError
    from foretrace.cache_sim.base.hierarchy import DEFAULT_HIERARCHY as DEFAULT_HIERARCHY
    from foretrace.cache_sim.base.hierarchy import Hierarchy as Hierarchy

    from .api.curves import Curves as Curves
    from .api.curves import curve as curve
    from .api.machines import Machine as Machine
    from .api.machines import Machines as Machines
    from .api.machines import find_machine as find_machine
    from .api.machines import machines as machines
    from .api.measurements import Calibration as Calibration
    from .api.measurements import Timing as Timing
    from .api.measurements import calibrate as calibrate
    from .api.measurements import time as time
    from .api.predictions import Prediction as Prediction
    from .api.predictions import Predictions as Predictions
    from .api.predictions import predict as predict
    from .api.rank_replays import RankReplay as RankReplay
    from .api.rank_replays import replay_ranks as replay_ranks
    from .api.recorded_events import RecordedEvents as RecordedEvents
    from .api.recorded_events import recorded_events as recorded_events
    from .api.replays import Replay as Replay
    from .api.replays import replay as replay
    from .api.signatures import Info as Info
    from .api.signatures import Signature as Signature
    from .api.signatures import info as info
    from .api.signatures import read_signature as read_signature
    from .api.simulations import Simulation as Simulation
    from .api.simulations import simulate as simulate
    from .api.sources import Idioms as Idioms
    from .api.sources import idiom as idiom
    from .api.sources import idioms as idioms
    from .api.sweeps import Sweep as Sweep
    from .api.sweeps import sweep as sweep
    from .api.tracing import Trace as Trace
    from .api.tracing import TracedFunctionError as TracedFunctionError
    from .api.tracing import trace as trace
    from .api.triages import Triage as Triage
    from .api.triages import triage as triage


if not (Path(__file__).parent / "tracer").is_dir():  # the root of a checkout: its parts lie beside this folder
    _root = Path(__file__).parents[1]
    if not any((_root / "tracer" / "reader").glob("_reader.*.so")):
        raise ImportError(f"foretrace is not built in {_root}: run `make dev` there, then {_root}/.venv/bin/python")
    __path__.append(str(_root))

_HOMES = {
    "Calibration": "foretrace.api.measurements",
    "Curves": "foretrace.api.curves",
    "DEFAULT_HIERARCHY": "foretrace.cache_sim.base.hierarchy",
    "ForetraceError": "foretrace.base.errors",
    "Hierarchy": "foretrace.cache_sim.base.hierarchy",
    "Idioms": "foretrace.api.sources",
    "Info": "foretrace.api.signatures",
    "Machine": "foretrace.api.machines",
    "Machines": "foretrace.api.machines",
    "Prediction": "foretrace.api.predictions",
    "Predictions": "foretrace.api.predictions",
    "RankReplay": "foretrace.api.rank_replays",
    "RecordedEvents": "foretrace.api.recorded_events",
    "Replay": "foretrace.api.replays",
    "Signature": "foretrace.api.signatures",
    "Simulation": "foretrace.api.simulations",
    "Sweep": "foretrace.api.sweeps",
    "Timing": "foretrace.api.measurements",
    "Trace": "foretrace.api.tracing",
    "TracedFunctionError": "foretrace.api.tracing",
    "Triage": "foretrace.api.triages",
    "calibrate": "foretrace.api.measurements",
    "curve": "foretrace.api.curves",
    "find_machine": "foretrace.api.machines",
    "idiom": "foretrace.api.sources",
    "idioms": "foretrace.api.sources",
    "info": "foretrace.api.signatures",
    "machines": "foretrace.api.machines",
    "predict": "foretrace.api.predictions",
    "read_signature": "foretrace.api.signatures",
    "recorded_events": "foretrace.api.recorded_events",
    "replay": "foretrace.api.replays",
    "replay_ranks": "foretrace.api.rank_replays",
    "simulate": "foretrace.api.simulations",
    "sweep": "foretrace.api.sweeps",
    "time": "foretrace.api.measurements",
    "trace": "foretrace.api.tracing",
    "triage": "foretrace.api.triages",
}
"""The module of each name. It is imported when the name is first used, so that importing foretrace takes no time."""

__all__ = [*_HOMES, "__version__"]


def load_ipython_extension(shell: Any) -> None:
    """Make `%load_ext foretrace` give IPython and notebooks the cell magic `%%foretrace`."""
    importlib.import_module("foretrace.api.magic").register(shell)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
