"""Axes of a sweep: what may differ from point to point. A further axis is one more line of `AXES`.

The command line has an option for each, the Python API a keyword, the results a column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from foretrace.base.errors import SweepError, quoted
from foretrace.base.units import parse_factor
from foretrace.replay.base.records import Model
from foretrace.replay.node.machine_run import MOST_COPIES, MOST_THREADS
from foretrace.replay.offload.policy import Policy
from foretrace.replay.ranks.collectives import LIBRARIES
from foretrace.replay.ranks.platform import MODELS

from .fields import Value


@dataclass(frozen=True, slots=True)
class Axis:
    """Something that may differ from point to point.

    Attributes:
        name: of its column, and of the keyword; the option is the same with dashes.
        wanted: what its values are, for messages.
        metavar: of the option.
        help: of the option.
        parse: makes a value of a text, or raises ValueError.
        type: of its column.
        default: value where none is given; None: as the verb has it.
        is_file: whether values are names of files, or of machines.
        combines: whether values with different names, as in "allreduce=ring", go together; those of one name are
            alternatives.
        splits: whether commas stand between values.
    """

    name: str
    wanted: str
    metavar: str
    help: str
    parse: Callable[[str], Value] = str
    type: type[str] | type[int] | type[float] = str
    default: Value = None
    is_file: bool = False
    combines: bool = False
    splits: bool = True

    @property
    def option(self) -> str:
        """Name of the option."""
        return f"--{self.name.replace('_', '-')}"

    def values(self, given: Any) -> tuple[Value, ...]:
        """The values of the axis: one, several, or texts with commas between values, in order, each once.

        Raises:
            SweepError: one of them is impossible.
        """
        parts: Iterable[Any] = (given,) if isinstance(given, (str, int, float)) or given is None else given
        found: dict[Value, None] = {}
        for part in parts:
            texts = [part]
            if self.splits and isinstance(part, str) and not (self.is_file and Path(part).exists()):
                texts = _split(part)
            for text in texts:
                try:
                    found[None if text is None else self.parse(text if isinstance(text, str) else f"{text}")] = None
                except ValueError:
                    raise SweepError(f"{self.option} {quoted(str(text))}: must be {self.wanted}") from None
        return _combined(map(str, found)) if self.combines else tuple(found)


def _combined(texts: Iterable[str]) -> tuple[Value, ...]:
    """Each choice of one value for every name, with spaces between."""
    by_name: dict[str, list[str]] = {}
    for text in texts:
        by_name.setdefault(text.partition("=")[0], []).append(text)
    return tuple(" ".join(chosen) for chosen in product(*by_name.values()))


def _split(text: str) -> list[str]:
    """Values between commas. What follows a comma without a name of its own belongs to the name before: "e=1,2"."""
    name, found = "", []
    for part in (one.strip() for one in text.split(",")):
        before, equals, _ = part.rpartition("=")
        name = f"{before}=" if equals else name
        found.append(part if equals else f"{name}{part}")
    return found


def _integer(most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and 1 <= int(text[:20]) <= most):
            raise ValueError
        return int(text)

    return parse


def _number(least: float, most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        number = float(text)
        if not least <= number <= most:  # nor nan
            raise ValueError
        return number

    return parse


def _one_of(names: Iterable[str]) -> Callable[[str], str]:
    known = tuple(map(str, names))

    def parse(text: str) -> str:
        if text not in known:
            raise ValueError
        return text

    return parse


def _assignment(text: str) -> str:
    name, equals, value = text.rpartition("=")
    if not name or not equals or not value:
        raise ValueError
    return text


def _count(text: str) -> str:
    if not math.isfinite(float(_assignment(text).rpartition("=")[2])):
        raise ValueError
    return text


def event_of(text: str) -> tuple[str, float]:
    """The event and its value of "solver::iterations=900"."""
    name, _, count = text.rpartition("=")
    return name, float(count)


_MANY = 1 << 20

AXES = (
    Axis("machine", "a name or TOML file", "M",
         "A host: its name, TOML file, a folder or pattern of such files, or all.", is_file=True),
    Axis("platform", "a platform file", "FILE",
         "Nodes and network (SimGrid's XML), for traces of parallel runs.", is_file=True),
    Axis("clock", "numbers of GHz from 0.01 to 100", "GHZ,...", "The cores' clock in GHz.", _number(0.01, 100), float),
    Axis("model", f"of {', '.join(Model)}", "MODEL,...", f"What gives a loop its time: {' or '.join(Model)}.",
         _one_of(Model), default=str(Model.CORE)),
    Axis("threads", f"numbers from 1 to {MOST_THREADS:,}, such as 1,2,4", "N,...",
         "Threads of the program; as traced if not given.", _integer(MOST_THREADS), int),
    Axis("cores", "numbers of cores, such as 1,2,4", "N,...",
         "Cores of the machine to use; all if not given.", _integer(_MANY), int),
    Axis("set", "an event with numbers, such as solver::iterations=100,200", "EVENT=N,...",
         "Values of a software-defined event.", _count),
    Axis("copies", "numbers of copies, such as 1,2,4", "N,...",
         "Copies that run at the same time.", _integer(MOST_COPIES), int),
    Axis("accelerator", "a name or TOML file", "A", "An accelerator of the host, as --machine names hosts.",
         is_file=True),
    Axis("accelerators", "numbers of accelerators, such as 1,2,4", "K,...", "How many there are; 1 if not given.",
         _integer(_MANY), int),
    Axis("policy", f"of {', '.join(Policy)}", "P,...", "Which loops go to the accelerator; greedy if not given.",
         _one_of(Policy)),
    Axis("nodes", "numbers of nodes, such as 1,2,4", "N,...",
         "Nodes for the ranks of a parallel run; as many as needed.", _integer(_MANY), int),
    Axis("ranks_per_node", "numbers of ranks, such as 1,2,4", "R,...",
         "Ranks that share a node; 1 of a platform, and as many as a machine has cores, if not given.",
         _integer(_MANY), int),
    Axis("network", "an interconnect", "X",
         "What joins the nodes: an interconnect's name or TOML file, or its latency and bandwidth: 2us,12.5GB/s.",
         splits=False),
    Axis("topology", "a topology", "T", "Of the network: crossbar, torus:4x4, fat-tree:...; as it says itself.",
         splits=False),
    Axis("network_model", f"of {', '.join(MODELS)}", "MODEL,...",
         "SimGrid's model of the network; SMPI if not given.", _one_of(MODELS), default="SMPI"),
    Axis("collectives", f"of {', '.join(LIBRARIES)}", "LIBRARY,...",
         "Whose algorithms collectives follow; the run's own library's, or mpich, if not given.", _one_of(LIBRARIES)),
    Axis("algorithm", "a collective and its algorithms, such as allreduce=ring,rabenseifner", "C=A,...",
         "Algorithms of a collective; those of several collectives go together.", _assignment, combines=True),
    Axis("latency", "positive factors, such as 0.5x,1x,2x", "Fx,...",
         "What if the links' latency were F times as long.", parse_factor, float, 1.0),
    Axis("bandwidth", "positive factors, such as 0.5x,1x,2x", "Fx,...",
         "What if the links' bandwidth were F times as high.", parse_factor, float, 1.0),
)  # fmt: skip
"""All axes. The first vary slowest."""

BY_NAME = {axis.name: axis for axis in AXES}
