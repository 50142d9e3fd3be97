"""Algorithms of collective operations, by library, size and number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from foretrace.base.errors import PredictionError
from foretrace.replay.engine.program import ALGORITHMS

from .actions import COLLECTIVES, Kind


@dataclass(frozen=True, slots=True)
class Step:
    """One algorithm of a collective: its messages have `share` of the operation's size (see collectives.c)."""

    algorithm: str
    share: float = 1.0


Steps = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Algorithms of a collective: `steps` for messages up to `up_to_bytes`."""

    up_to_bytes: float
    steps: Steps


_ANY_SIZE = float("inf")


def recipes(library: str, ranks: int, named: Mapping[str, str] | None = None) -> dict[Kind, tuple[Recipe, ...]]:
    """For each kind of collective the algorithms by size, smallest size first.

    Args:
        library: whose choices: "simgrid", "mpich" or "openmpi".
        ranks: number of ranks that take part.
        named: algorithms by collective, as in {"allreduce": "ring"}, that are used whatever the size.

    Raises:
        PredictionError: there is no such library, collective or algorithm.
    """
    if library not in LIBRARIES:
        raise PredictionError(f"collectives: there is no library {library}; there are {', '.join(LIBRARIES)}")
    chosen = LIBRARIES[library](ranks)
    for name, algorithm in (named or {}).items():
        kind = _kind(name)
        ways = _named(ranks)[kind]
        if algorithm not in ways:
            raise PredictionError(
                f"collectives: {name} has no algorithm {algorithm}; there are {', '.join(sorted(ways))}"
            )
        chosen[kind] = (Recipe(_ANY_SIZE, ways[algorithm]),)
    return chosen


def _kind(name: str) -> Kind:
    names = {kind.name.lower(): kind for kind in COLLECTIVES}
    if name not in names:
        raise PredictionError(f"collectives: there is no collective {name}; there are {', '.join(names)}")
    return names[name]


def _is_power_of_two(ranks: int) -> bool:
    return ranks & (ranks - 1) == 0


def _always(*steps: Step) -> tuple[Recipe, ...]:
    return (Recipe(_ANY_SIZE, steps),)


def _by_size(*choices: tuple[float, Steps]) -> tuple[Recipe, ...]:
    return tuple(Recipe(up_to_bytes, steps) for up_to_bytes, steps in choices)


_LINEAR_REDUCE: Steps = (Step("linear-gather"),)
_LINEAR_SCATTER: Steps = (Step("linear-scatter"),)
_LINEAR_EXCHANGE: Steps = (Step("linear-exchange"),)
_LINEAR_BARRIER = (Step("linear-gather", 0.0), Step("linear-scatter", 0.0))
_BINOMIAL_BCAST: Steps = (Step("binomial-bcast"),)
_BINOMIAL_REDUCE: Steps = (Step("binomial-reduce"),)
_DOUBLING: Steps = (Step("recursive-doubling"),)
_BRUCK: Steps = (Step("bruck"),)
_PAIRWISE: Steps = (Step("pairwise"),)
_CHAIN: Steps = (Step("chain"),)
_RABENSEIFNER: Steps = (Step("rabenseifner"),)


def _ring_reduce(ranks: int) -> Steps:
    """Reduce-scatter and allgather around a ring."""
    return Step("ring", 1 / ranks), Step("ring", 1 / ranks)


def _scattered_bcast(ranks: int, gather: str) -> Steps:
    return Step("binomial-scatter", 1 / ranks), Step(gather, 1 / ranks)


def _named(ranks: int) -> dict[Kind, dict[str, Steps]]:
    """Algorithms by name for each collective."""
    exchanges: dict[str, Steps] = {
        "linear": _LINEAR_EXCHANGE, "pairwise": _PAIRWISE, "bruck": _BRUCK,
        **({"exclusive-or": (Step("exclusive-or"),)} if _is_power_of_two(ranks) else {}),
    }  # fmt: skip
    gathers: dict[str, Steps] = {
        "linear": _LINEAR_EXCHANGE, "ring": (Step("ring"),), "bruck": (Step("bruck-gather"),),
        "recursive-doubling": (Step("doubling-gather"),),
    }  # fmt: skip
    scans: dict[str, Steps] = {
        "linear": (Step("linear-scan"),), "chain": _CHAIN, "recursive-doubling": _DOUBLING,
    }  # fmt: skip
    return {
        Kind.BARRIER: {
            "linear": _LINEAR_BARRIER, "dissemination": (Step("dissemination", 0.0),),
            "recursive-doubling": (Step("recursive-doubling", 0.0),),
        },
        Kind.BCAST: {
            "linear": _LINEAR_SCATTER, "binomial": _BINOMIAL_BCAST,
            "scatter-ring": _scattered_bcast(ranks, "ring"),
            "scatter-doubling": _scattered_bcast(ranks, "doubling-gather"),
        },
        Kind.REDUCE: {
            "linear": _LINEAR_REDUCE, "binomial": _BINOMIAL_REDUCE,
            "rabenseifner": (Step("halving-scatter"), Step("binomial-gather", 1 / ranks)),
        },
        Kind.ALLREDUCE: {
            "linear": _LINEAR_REDUCE + _BINOMIAL_BCAST, "recursive-doubling": _DOUBLING, "ring": _ring_reduce(ranks),
            "rabenseifner": _RABENSEIFNER, "binomial": _BINOMIAL_REDUCE + _BINOMIAL_BCAST,
        },
        Kind.ALLTOALL: exchanges,
        Kind.ALLTOALLV: {name: steps for name, steps in exchanges.items() if name != "bruck"},
        Kind.GATHER: {"linear": _LINEAR_REDUCE, "binomial": (Step("binomial-gather"),)},
        Kind.SCATTER: {"linear": _LINEAR_SCATTER, "binomial": (Step("binomial-scatter"),)},
        Kind.GATHERV: {"linear": _LINEAR_REDUCE},
        Kind.SCATTERV: {"linear": _LINEAR_SCATTER},
        Kind.ALLGATHER: gathers,
        Kind.ALLGATHERV: {name: gathers[name] for name in ("linear", "ring")},
        Kind.REDUCE_SCATTER: {
            "linear": (*_LINEAR_REDUCE, Step("linear-scatter", 1 / ranks)), "halving": (Step("halving-scatter"),),
            "pairwise": (Step("pairwise", 1 / ranks),),
        },
        Kind.SCAN: scans,
        Kind.EXSCAN: scans,
    }  # fmt: skip


def _simgrid(ranks: int) -> dict[Kind, tuple[Recipe, ...]]:
    """Choices of SMPI's default selector (smpi_default_selector.cpp)."""
    named = _named(ranks)
    chosen = {kind: _always(*named[kind]["linear"]) for kind in COLLECTIVES}
    chosen[Kind.BCAST] = _always(*_BINOMIAL_BCAST)
    chosen[Kind.ALLTOALL] = _simgrid_alltoall(ranks)
    return chosen


def _simgrid_alltoall(ranks: int) -> tuple[Recipe, ...]:
    """Choices of smpi_openmpi_selector.cpp in SimGrid 3.32, after Open MPI 4.1; its linear algorithms are one here."""
    _, steps = next(choices for choices in _SIMGRID_ALLTOALL if ranks < choices[0])
    return _by_size(*steps, (_ANY_SIZE, _PAIRWISE if 64 <= ranks < 1024 else _LINEAR_EXCHANGE))


_SIMGRID_ALLTOALL: tuple[tuple[float, tuple[tuple[float, Steps], ...]], ...] = (
    (8, ((524287, _LINEAR_EXCHANGE), (1048575, _PAIRWISE))),
    (16, ()),
    (32, ((3, _LINEAR_EXCHANGE), (511, _BRUCK))),
    (64, ((511, _BRUCK),)),
    (256, ((1023, _BRUCK), (262143, _LINEAR_EXCHANGE))),
    (512, ((1023, _BRUCK), (32767, _LINEAR_EXCHANGE))),
    (1024, ((511, _BRUCK), (262143, _LINEAR_EXCHANGE))),
    (2048, ((511, _BRUCK),)),
    (4096, ((1023, _BRUCK),)),
    (_ANY_SIZE, ((2047, _BRUCK),)),
)
"""(below so many ranks, choices by size)."""


def _openmpi_alltoall(ranks: int) -> tuple[Recipe, ...]:
    small: tuple[tuple[float, Steps], ...] = ((199, _BRUCK),) if ranks > 12 else ()
    return _by_size(*small, (2999, _LINEAR_EXCHANGE), (_ANY_SIZE, _PAIRWISE))


def _mpich(ranks: int) -> dict[Kind, tuple[Recipe, ...]]:
    """Choices of MPICH (Thakur, Rabenseifner and Gropp 2005; thresholds of MPICH 3 and 4)."""
    power = _is_power_of_two(ranks)
    named = _named(ranks)
    gather = "recursive-doubling" if power else "bruck"
    middle = "scatter-doubling" if power else "scatter-ring"
    bcast: list[tuple[float, Steps]] = [(_ANY_SIZE, _BINOMIAL_BCAST)]
    if ranks >= 8:
        bcast = [
            (12287, _BINOMIAL_BCAST),
            (524287, named[Kind.BCAST][middle]),
            (_ANY_SIZE, named[Kind.BCAST]["scatter-ring"]),
        ]
    exchange = "exclusive-or" if power else "pairwise"
    small: list[tuple[float, Steps]] = [(256, _BRUCK)] if ranks >= 8 else []
    return {
        Kind.BARRIER: _always(*named[Kind.BARRIER]["dissemination"]),
        Kind.BCAST: _by_size(*bcast),
        Kind.REDUCE: _by_size((2048, _BINOMIAL_REDUCE), (_ANY_SIZE, named[Kind.REDUCE]["rabenseifner"])),
        Kind.ALLREDUCE: _by_size((2048, _DOUBLING), (_ANY_SIZE, _RABENSEIFNER)),
        Kind.ALLTOALL: _by_size(*small, (32768, _LINEAR_EXCHANGE), (_ANY_SIZE, named[Kind.ALLTOALL][exchange])),
        Kind.ALLTOALLV: _always(*_LINEAR_EXCHANGE),
        Kind.GATHER: _always(*named[Kind.GATHER]["binomial"]),
        Kind.SCATTER: _always(*named[Kind.SCATTER]["binomial"]),
        Kind.GATHERV: _always(*_LINEAR_REDUCE),
        Kind.SCATTERV: _always(*_LINEAR_SCATTER),
        Kind.ALLGATHER: _by_size(
            ((524287 if power else 81919) / ranks, named[Kind.ALLGATHER][gather]),
            (_ANY_SIZE, named[Kind.ALLGATHER]["ring"]),
        ),
        Kind.ALLGATHERV: _always(*named[Kind.ALLGATHERV]["ring"]),
        Kind.REDUCE_SCATTER: _by_size(
            (524287, named[Kind.REDUCE_SCATTER]["halving"]), (_ANY_SIZE, named[Kind.REDUCE_SCATTER]["pairwise"])
        ),
        Kind.SCAN: _always(*_DOUBLING),
        Kind.EXSCAN: _always(*_DOUBLING),
    }


def _openmpi(ranks: int) -> dict[Kind, tuple[Recipe, ...]]:
    """Choices of Open MPI's tuned component (coll_tuned_decision_fixed.c of 4.0).

    Its segmented trees and pipelines of long broadcasts are taken as a scatter and an allgather around a ring, which
    move as many bytes over each link.
    """
    power = _is_power_of_two(ranks)
    named = _named(ranks)
    gather = "recursive-doubling" if power else "bruck"
    return {
        Kind.BARRIER: _always(*named[Kind.BARRIER]["recursive-doubling" if power else "dissemination"]),
        Kind.BCAST: _by_size((2047, _BINOMIAL_BCAST), (_ANY_SIZE, named[Kind.BCAST]["scatter-ring"])),
        Kind.REDUCE: _always(*_BINOMIAL_REDUCE),
        Kind.ALLREDUCE: _by_size((9999, _DOUBLING), (_ANY_SIZE, _ring_reduce(ranks))),
        Kind.ALLTOALL: _openmpi_alltoall(ranks),
        Kind.ALLTOALLV: _always(*named[Kind.ALLTOALLV]["pairwise"]),
        Kind.GATHER: _always(*named[Kind.GATHER]["binomial"]),
        Kind.SCATTER: _always(*named[Kind.SCATTER]["binomial"]),
        Kind.GATHERV: _always(*_LINEAR_REDUCE),
        Kind.SCATTERV: _always(*_LINEAR_SCATTER),
        Kind.ALLGATHER: _by_size(
            (49999 / ranks, named[Kind.ALLGATHER][gather]), (_ANY_SIZE, named[Kind.ALLGATHER]["ring"])
        ),
        Kind.ALLGATHERV: _always(*named[Kind.ALLGATHERV]["ring"]),
        Kind.REDUCE_SCATTER: _by_size(
            (12287, named[Kind.REDUCE_SCATTER]["halving"]), (_ANY_SIZE, named[Kind.REDUCE_SCATTER]["pairwise"])
        ),
        Kind.SCAN: _always(*_CHAIN),
        Kind.EXSCAN: _always(*_CHAIN),
    }


LIBRARIES: dict[str, Callable[[int], dict[Kind, tuple[Recipe, ...]]]] = {
    "mpich": _mpich,
    "openmpi": _openmpi,
    "simgrid": _simgrid,
}
"""Choices of algorithms by MPI library."""


def algorithm_numbers(steps: Sequence[Step]) -> tuple[int, ...]:
    """Numbers of the algorithms as the event loop knows them."""
    return tuple(ALGORITHMS.index(step.algorithm) for step in steps)
