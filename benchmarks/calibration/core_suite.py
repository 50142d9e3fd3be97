"""Abilities of one core: clock, issue width, latencies and rates of its units, and the costs of Python on it."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Mapping

import numpy as np

from foretrace.base.python_line import run_lines
from foretrace.benchmarks.harness.buffers import allocate, over
from foretrace.benchmarks.harness.sampling import Measurement, Timing, in_pieces, rounded
from foretrace.benchmarks.kernels import _kernels
from foretrace.profiles.points import Operation, OperationCost

from .capacity_limits import edge_of

CYCLE = "int_add_64x1_chain"
_L1_BYTES = 4096
_ADDITIONS = 64
_PAIRS = 16
"""Pairs of an addition and a multiplication, in each of the long chains."""
_CODE = re.compile(r"code_(\d+)")
_IN_TURNS, _ANEW, _ANEW_AT_ONCE = "decode_in_turns", 7 * 16 * 64, 64
"""A kernel, and how many of its instructions are decoded anew: in all, and one behind the other."""
_OF_CODE = ("code_", "decode_")
_DECODED_ANEW = 1.2  # times as long an instruction as in the least code
_ARITHMETIC = re.compile(r"(\w+)_(\d+)x(\d+)_(chain|free)")
_WITHOUT_DATA = (
    *("issue", "branches_random", "branches_regular", "taken_branches", "flops_scalar"),
    *("flops_vector", "register_crossing", "fp_add_mul", "untaken_branches"),
)
_WITH_DATA = ("fp_long_chains", "loads", "store8", "store_forward")

# Figures of profile.Core by the kernel that they are read off: operations a cycle, and cycles or seconds an operation.
_PER_CYCLE = {
    "issue_width_instructions_per_cycle": "issue",
    "scalar_flops_per_cycle": "flops_scalar",
    "loads_per_cycle": "loads",
    "stores_per_cycle": "store8",
    "int_adds_per_cycle": "int_add_64x1_free",
    "taken_branches_per_cycle": "taken_branches",
    "untaken_branches_per_cycle": "untaken_branches",
}
_CYCLES = {
    "store_forward_latency_cycles": "store_forward",
    "register_crossing_cycles": "register_crossing",
}
_SECONDS = {"python_block_s": "python_block", "python_line_s": "python_line", "python_call_s": "python_call"}
_OF_OPERATIONS = {
    "fp_add_latency_cycles": (Operation.FP_ADD, "latency_cycles"),
    "fp_mul_latency_cycles": (Operation.FP_MUL, "latency_cycles"),
    "fp_fma_latency_cycles": (Operation.FP_FMA, "latency_cycles"),
    "fp_div_latency_cycles": (Operation.FP_DIV, "latency_cycles"),
    "fp_div_interval_cycles": (Operation.FP_DIV, "interval_cycles"),
    "fp_sqrt_latency_cycles": (Operation.FP_SQRT, "latency_cycles"),
    "fp_sqrt_interval_cycles": (Operation.FP_SQRT, "interval_cycles"),
    "int_mul_latency_cycles": (Operation.INT_MUL, "latency_cycles"),
    "int_div_latency_cycles": (Operation.INT_DIV, "latency_cycles"),
    "int_div_interval_cycles": (Operation.INT_DIV, "interval_cycles"),
}
"""The figures of profile.Core that are those of a scalar operation on 64 bits."""


def core_measurements() -> dict[str, Measurement]:
    """The measurements, by name."""
    data = allocate(_L1_BYTES)
    found = {}
    for name in _kernels.available():
        if _ARITHMETIC.fullmatch(name) or name in _WITHOUT_DATA or name in _WITH_DATA:
            found[name] = Measurement(name, over(name, data), reference=name == CYCLE)
        elif name.startswith(_OF_CODE):
            found[name] = Measurement(name, in_pieces(over(name, data)))
    found["python_block"] = Measurement("python_block", _plain_lines)
    found["python_line"] = Measurement("python_line", run_lines)
    found["python_call"] = Measurement("python_call", _array_calls)
    return found


def operation_costs(measured: Mapping[str, Timing], source: str) -> tuple[OperationCost, ...]:
    """Latency and interval of each arithmetic operation, by element size and number of elements."""
    cycle_s = measured[CYCLE].time_s
    costs = []
    for name in measured:
        match = _ARITHMETIC.fullmatch(name)
        if match is None or match[4] == "free":
            continue
        chain, free = measured[name], measured[name.removesuffix("chain") + "free"]
        latency_s = chain.time_s
        if match[1] == Operation.FP_SQRT:  # its chain has a multiplication in it
            latency_s -= measured[name.replace("sqrt", "mul")].time_s
        if match[1] == Operation.INT_SELECT:  # its chain has comparisons in it
            latency_s -= cycle_s
        if match[1] == Operation.FP_COMPARE:  # its chain has an operation of one cycle in it, and a crossing
            latency_s -= cycle_s + measured["register_crossing"].time_s
        interval_s = free.time_s
        if match[1] == Operation.FP_CONTROL:  # it stands among additions
            interval_s -= _ADDITIONS * measured["int_add_64x1_free"].time_s
        costs.append(
            OperationCost(
                Operation(match[1]),
                element_bits=int(match[2]),
                elements=int(match[3]),
                source=source,
                latency_cycles=rounded(latency_s / cycle_s) if latency_s > 0 else None,
                interval_cycles=rounded(interval_s / cycle_s) if interval_s > 0 else None,
                noise=rounded(max(chain.noise, free.noise)),
            )
        )
    return tuple(sorted(costs, key=lambda c: (list(Operation).index(c.operation), c.element_bits, c.elements)))


def core_figures(measured: Mapping[str, Timing]) -> tuple[dict[str, float], dict[str, float]]:
    """Figures for the fields of profile.Core, and their noise. What came out impossible, for noise, is left out."""
    cycle_s = measured[CYCLE].time_s

    def cycles(name: str) -> float:
        return measured[name].time_s / cycle_s

    # Cycles are told by the shortest one, as the times that they are told of are shortest ones. A clock that rises and
    # falls is told as it was in half of the passes: what runs for longer than a sample does not meet its peak alone.
    figures = {"clock_hz": 1 / (cycle_s * (1 + measured[CYCLE].noise))}
    noise = {"clock_hz": measured[CYCLE].noise}
    for kernels, value_of in (
        (_PER_CYCLE, lambda name: 1 / cycles(name)),
        (_CYCLES, cycles),
        (_SECONDS, lambda name: measured[name].time_s),
    ):
        for field, name in kernels.items():
            if name in measured:  # not every machine has all kernels
                figures[field], noise[field] = value_of(name), measured[name].noise
    figures["fp_add_other_latency_cycles"] = cycles("fp_add_mul") - cycles("fp_mul_64x1_chain")
    noise["fp_add_other_latency_cycles"] = max(measured[name].noise for name in ("fp_add_mul", "fp_mul_64x1_chain"))
    # A predictor misses half of the random branches.
    figures["branch_miss_cycles"] = 2 * (cycles("branches_random") - cycles("branches_regular"))
    noise["branch_miss_cycles"] = max(measured[name].noise for name in ("branches_random", "branches_regular"))
    field = "vector_scheduled_instructions"
    figures[field], noise[field] = _scheduled(cycles("fp_add_mul"), cycles("fp_long_chains"), measured)
    costs = operation_costs(measured, "")
    for cost in costs:
        if cost.operation is Operation.INT_ADD and cost.elements > 1 and cost.latency_cycles is not None:
            figures["vector_int_latency_cycles"] = cost.latency_cycles
            noise["vector_int_latency_cycles"] = cost.noise or 0.0
    for field, (operation, part) in _OF_OPERATIONS.items():
        for cost in costs:
            if (cost.operation, cost.element_bits, cost.elements) == (operation, 64, 1):
                value = getattr(cost, part)
                if value is not None:
                    figures[field], noise[field] = value, cost.noise or 0.0
    figures["peak_flops_per_cycle"], noise["peak_flops_per_cycle"] = _peak(measured, costs, cycles)
    for field, (value, uncertain) in _decoding(measured, cycles).items():
        figures[field], noise[field] = value, uncertain
    possible = {field: rounded(value) for field, value in figures.items() if value > 0}
    return possible, {field: rounded(noise[field]) for field in possible}


def _scheduled(pair_cycles: float, chain_cycles: float, measured: Mapping[str, Timing]) -> tuple[float, float]:
    """Instructions of vectors that can start once their operands are there; their noise.

    Each of the long chains is begun `chain_cycles` after the one before: at that pace its instructions come, and at
    that of the sums and products they start. By Little's law as many wait as come in the mean time between the two.
    """
    alone_cycles = _PAIRS * pair_cycles
    waiting = _PAIRS * (alone_cycles / chain_cycles - 1)
    noise = max(measured[name].noise for name in ("fp_add_mul", "fp_long_chains"))
    return waiting, noise * alone_cycles / max(alone_cycles - chain_cycles, chain_cycles * noise, 1e-9)


def _peak(
    measured: Mapping[str, Timing], costs: tuple[OperationCost, ...], cycles: Callable[[str], float]
) -> tuple[float, float]:
    """Most flops a cycle in double precision, of fused operations or of additions beside multiplications; its noise."""
    rates = [(1 / cycles(name), measured[name].noise) for name in ("flops_scalar", "flops_vector") if name in measured]
    rates += [
        (2 * cost.elements / cost.interval_cycles, cost.noise or 0.0)
        for cost in costs
        if cost.operation is Operation.FP_FMA and cost.element_bits == 64 and cost.interval_cycles
    ]
    return max(rates)


def _decoding(measured: Mapping[str, Timing], cycles: Callable[[str], float]) -> dict[str, tuple[float, float]]:
    """Instructions that are kept decoded, that are decoded a cycle where they are not, and what turning to these from
    others takes, with their noise.

    Where more code is as fast as little, the most that was measured is kept. In code somewhat longer than what is kept,
    part of it may be found decoded: the rate is that of the next longer one.
    """
    lengths = sorted(int(match[1]) for match in map(_CODE.fullmatch, measured) if match)
    if not lengths:
        return {}
    edge = edge_of({length: measured[f"code_{length}"] for length in lengths}, _DECODED_ANEW)
    kept = (float(lengths[-1]), 0.0) if edge is None else (edge.figure, edge.uncertain)
    beyond = [length for length in lengths if edge is None or length > edge.beyond] or lengths[-1:]
    fastest = min((f"code_{length}" for length in beyond), key=cycles)
    rate = 1 / cycles(fastest), measured[fastest].noise
    found = {"decoded_instructions": kept, "decode_instructions_per_cycle": rate}
    anew = f"code_{_ANEW}"
    if kept[0] < _ANEW and _IN_TURNS in measured:
        turn = cycles(_IN_TURNS)
        switch = turn - _ANEW_AT_ONCE * cycles(anew) - cycles("decode_kept")
        noise = max(measured[name].noise for name in (_IN_TURNS, "decode_kept", anew))
        found["decode_switch_cycles"] = switch, noise * turn / max(switch, noise, 1e-9)
    return found


def _plain_lines(repeats: int) -> tuple[float, int]:
    """Lines of plain Python: arithmetic, an element of a list, a comparison. Five lines are run each time around."""
    values = [0.25, 0.75, 0.5, 1.5]
    total = 0.0
    begin = time.perf_counter()
    for i in itertools.repeat(3, repeats):
        x = values[i]
        y = x * 0.5 + total
        if y > 1e6:
            y = 0.0
        total = y
    return time.perf_counter() - begin, 5 * repeats


def _array_calls(repeats: int) -> tuple[float, int]:
    """Additions of arrays too short for their length to matter."""
    a, b = np.ones(4), np.ones(4)
    begin = time.perf_counter()
    for _ in itertools.repeat(None, repeats):
        a + b
    return time.perf_counter() - begin, repeats
