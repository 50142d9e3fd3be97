"""The core model's times: a signature's paths on a machine, and from them the time of each block of the program."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from foretrace.replay.base.records import Bound
from foretrace.replay.base.spread import Floats
from foretrace.tracer.signature.records import OperationKind as Kind

from . import _core_model
from .figures import BRANCH, CAUSES, DIVIDERS, FP_ADD, FP_DIV, FP_MUL, INT, INT_DIV, INT_MUL, VECTOR, CoreFigures
from .program import CoreProgram

_MAX_LEVELS = _core_model.MAX_LEVELS
_NAMES, _FORMATS, _OFFSETS = zip(*_core_model.CORE_FIGURES, strict=True)
CORE = np.dtype({"names": _NAMES, "formats": _FORMATS, "offsets": _OFFSETS, "itemsize": _core_model.CORE_BYTES})
"""A core's figures as core_model.h declares them."""
OPERATION = np.dtype(
    {
        "names": [
            *("share", "candidates", "bytes"),
            *("irregular", "latency", "random", "stream", "write_back"),
        ],
        "formats": [(np.float64, _MAX_LEVELS), "f8", "f8", *[(np.float64, _MAX_LEVELS)] * 5],
    },
    align=True,
)

_UNIT = {
    Kind.INT_ALU: INT,
    Kind.INT_SHIFT: INT,
    Kind.INT_SELECT: INT,
    Kind.INT_SHIFT_ADD: INT,
    Kind.INT_BIT_COUNT: INT,
    Kind.INT_MUL: INT_MUL,
    Kind.INT_DIV: INT_DIV,
    Kind.FP_ADD: FP_ADD,
    Kind.FP_MUL: FP_MUL,
    Kind.FP_FMA: FP_MUL,
    Kind.FP_DIV: FP_DIV,
    Kind.FP_SQRT: FP_DIV,
    Kind.FP_COMPARE: VECTOR,
    Kind.FP_CONVERT: VECTOR,
    Kind.FP_OTHER: VECTOR,
    Kind.VECTOR_INT: VECTOR,
    Kind.VECTOR_MUL: VECTOR,
    Kind.GATHER: VECTOR,
    Kind.AES: VECTOR,
    Kind.SHA_ROUND: VECTOR,
    Kind.SHA_SCHEDULE: VECTOR,
    Kind.CARRYLESS_MUL: VECTOR,
    Kind.GALOIS: VECTOR,
    Kind.CRC32: INT_MUL,
    Kind.BIT_DEPOSIT: INT_MUL,
    Kind.ATOMIC: INT_DIV,
    Kind.FENCE: INT_DIV,
    Kind.TIMER: INT_DIV,
    Kind.X87_FUNCTION: FP_DIV,
    Kind.BRANCH: BRANCH,
    Kind.CALL: BRANCH,
    Kind.RETURN: BRANCH,
}
"""Execution unit of each kind. Kinds with a single unit of their own that is seldom shared, such as atomic updates, are
charged to the divider."""
_VECTOR_UNITS = (FP_ADD, FP_MUL, FP_DIV, VECTOR)


@dataclass(frozen=True, slots=True, eq=False)
class OperationCosts:
    """Costs of a signature's memory operations on a machine: float64 [operations, levels + 1], level 0 the nearest.

    `hits`: accesses by the level that serves them. `latency_s`: latency of an access that is not prefetched. `random_s`
    and `stream_s`: time between two lines of a level, of lines not prefetched and of prefetched ones. `write_back_s`:
    write-back time of a line that the operation brought in, if it is stored to later. `irregular`: share of a level's
    lines that are not prefetched.
    """

    hits: Floats
    latency_s: Floats
    random_s: Floats
    stream_s: Floats
    write_back_s: Floats
    irregular: Floats
    access_bytes: Floats

    def ideal(self) -> OperationCosts:
        """These costs with all data in the nearest cache."""
        hits = np.zeros_like(self.hits)
        hits[:, 0] = self.hits.sum(axis=1)
        return replace(self, hits=hits)


@dataclass(frozen=True, slots=True, eq=False)
class BlockTimes:
    """Times of the blocks in the paths: `seconds` float64 [2, blocks, causes], summed over all executions in each half
    of the paths, by the cause they are attributed to."""

    program: CoreProgram
    seconds: Floats

    def per_execution(self, half: int | None = None) -> Floats:
        """[blocks, causes]: mean seconds per execution, in all paths or in one half; nan for a block that never ran."""
        seconds = self.seconds.sum(axis=0) if half is None else self.seconds[half]
        executions = self.program.executions.sum(axis=0) if half is None else self.program.executions[half]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(seconds / executions[:, None])


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Inputs of a run besides the program: records as core_model.h declares them."""

    core: bytes
    instructions: bytes
    operations: bytes

    @classmethod
    def of(cls, program: CoreProgram, core: CoreFigures, cycle_s: float, costs: OperationCosts, corner: int) -> _Inputs:
        record, operations = _core(core, cycle_s, costs, corner), _operations(program, costs, cycle_s)
        if not costs.hits[:, 1:].any():  # what lies behind the nearest cache does not matter
            record["lead"], record["n_levels"] = 0, 1
            operations["latency"][:, 1:] = 0
            for name in ("irregular", "random", "stream", "write_back"):
                operations[name] = 0
        return cls(record.tobytes(), _instructions(program, core, corner).tobytes(), operations.tobytes())


_MOST_KEPT = 8
_KEPT: WeakKeyDictionary[CoreProgram, deque[tuple[_Inputs, Floats]]] = WeakKeyDictionary()
"""Inputs and cycles of the latest runs of each program: the same core comes back for other numbers of threads, other
accelerators or another memory."""
_LOCK = threading.Lock()


def run_core(program: CoreProgram, core: CoreFigures, cycle_s: float, costs: OperationCosts, corner: int) -> BlockTimes:
    """Run the paths through the core model, with one corner of the core's figures."""
    inputs = _Inputs.of(program, core, cycle_s, costs, corner)
    with _LOCK:
        kept = _KEPT.setdefault(program, deque(maxlen=_MOST_KEPT))
        cycles = next((found for before, found in kept if before == inputs), None)
    if cycles is None:
        cycles = np.zeros((2, len(program.block_ids), _core_model.NUM_CAUSES))
        _core_model.run(
            inputs.core,
            inputs.instructions,
            program.registers,
            program.blocks.tobytes(),
            inputs.operations,
            program.path,
            program.branches,
            program.depends,
            program.store_distances,
            program.line_distances,
            cycles,
        )
        with _LOCK:
            kept.append((inputs, cycles))
    return BlockTimes(program, cycles * cycle_s)


def _core(core: CoreFigures, cycle_s: float, costs: OperationCosts, corner: int) -> npt.NDArray[np.void]:
    memory_cycles = float(costs.latency_s[:, -1].max(initial=0.0) / cycle_s)
    of_memory = {"lead": 2 * memory_cycles, "n_levels": costs.hits.shape[1]}
    record = np.zeros((), CORE)
    for name in _NAMES:
        record[name] = of_memory[name] if name in of_memory else core.members[name][corner]
    return record


def _operations(program: CoreProgram, costs: OperationCosts, cycle_s: float) -> npt.NDArray[np.void]:
    table = np.zeros(len(program.operation_ids), OPERATION)
    levels, ids = costs.hits.shape[1], program.operation_ids
    table["share"][:, :levels] = costs.hits[ids] / np.maximum(costs.hits[ids].sum(axis=1, keepdims=True), 1e-30)
    table["candidates"] = program.candidates
    table["bytes"] = costs.access_bytes[ids]
    table["irregular"][:, :levels] = costs.irregular[ids]
    for name, seconds in (("latency", costs.latency_s), ("random", costs.random_s), ("stream", costs.stream_s),
                          ("write_back", costs.write_back_s)):  # fmt: skip
        table[name][:, :levels] = seconds[ids] / cycle_s
    return table


def _instructions(program: CoreProgram, core: CoreFigures, corner: int) -> npt.NDArray[np.void]:
    table = program.instructions.copy()
    distinct, of_instruction = program.distinct_kinds
    rows = np.array([_figures_of(kind, core, corner) for kind in distinct]).reshape(len(distinct), -1)[of_instruction]
    table["latency"] = rows[:, 0] + np.where(program.crosses, core.crossing[corner], 0)
    adds = _is_of_kind(program, Kind.FP_ADD)
    table["sooner"], table["takes_early"] = np.where(adds, core.add_sooner[corner], 0), adds
    table["unit_cycles"] = rows[:, 1]
    table["unit"], table["cause"] = rows[:, 2], rows[:, 3]
    table["is_scheduled"] = np.isin(rows[:, 2], _VECTOR_UNITS) & (table["unit_cycles"] > 0)
    return table


def _is_of_kind(program: CoreProgram, kind: Kind) -> npt.NDArray[np.bool_]:
    """Mask of the instructions that are of a kind, bool [instructions]."""
    distinct, of_instruction = program.distinct_kinds
    return np.array([one is kind for one, _, _ in distinct], bool)[of_instruction]


def _figures_of(what: tuple[Kind, int, int], core: CoreFigures, corner: int) -> tuple[float, float, int, int]:
    """Latency, cycles of its unit, unit and cause of an instruction of one kind, element width and number of lanes."""
    kind, bits, lanes = what
    turns = max(lanes * bits / 64 / core.native_lanes, 1.0) if lanes > 1 else 1.0
    latency = float(core.latency.get(kind, np.ones(3))[corner])
    unit = _UNIT.get(kind)
    if unit is None:
        return latency, 0.0, INT, CAUSES.index(Bound.ISSUE)
    own = core.own.of(kind, bits)
    if own is not None:
        times = lanes if kind is Kind.GATHER else turns
        return float(own.latency[corner]), float(own.interval[corner]) * times, unit, CAUSES.index(Bound.COMPUTE)
    cause = Bound.DIVIDE if kind in DIVIDERS else Bound.COMPUTE
    if kind is Kind.FP_SQRT:
        return latency, float(core.root_cycles[corner]) * turns, unit, CAUSES.index(Bound.DIVIDE)
    return latency, float(core.unit_cycles[unit][corner]) * turns, unit, CAUSES.index(cause)
