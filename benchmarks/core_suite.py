"""What one core can do: clock, issue width, latencies and rates of its units, and the costs of Python on it."""

from __future__ import annotations

import itertools
import mmap
import time
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from . import _kernels
from .sampling import Measurement

_CYCLE = "int_add_chain"
_L1_BYTES = 4096
_BRANCHES = 1 << 16

# Figures of profile.Core from the times of kernels. `cycles(kernel)` is the time of one of its operations in cycles.
_FIGURES: dict[str, Callable[[Callable[[str], float]], float]] = {
    "issue_width_instructions_per_cycle": lambda cycles: 1 / cycles("issue"),
    "scalar_flops_per_cycle": lambda cycles: 1 / cycles("fp_scalar"),
    "loads_per_cycle": lambda cycles: 1 / cycles("load8"),
    "stores_per_cycle": lambda cycles: 1 / cycles("store8"),
    "fp_add_latency_cycles": lambda cycles: cycles("fp_add_chain"),
    "fp_mul_latency_cycles": lambda cycles: cycles("fp_mul_chain"),
    "fp_div_latency_cycles": lambda cycles: cycles("fp_div_chain"),
    "fp_div_interval_cycles": lambda cycles: cycles("fp_div"),
    "int_div_interval_cycles": lambda cycles: cycles("int_div"),
    # A predictor misses half of the random branches.
    "branch_miss_cycles": lambda cycles: 2 * (cycles("branches random") - cycles("branches regular")),
}


def core_measurements() -> dict[str, Measurement]:
    """The measurements, by name."""
    buffer = mmap.mmap(-1, _L1_BYTES)
    rng = np.random.default_rng(1)
    random_bits = rng.integers(0, 2, _BRANCHES, dtype=np.uint8)
    regular_bits = np.tile(np.array([0, 1], dtype=np.uint8), _BRANCHES // 2)
    found = {
        name: Measurement(name, _kernel(name, None), reference=name == _CYCLE)
        for name in _kernels.available()
        if name.startswith(("int_", "fp_")) or name == "issue"
    }
    for name in ("load8", "store8"):
        found[name] = Measurement(name, _kernel(name, buffer))
    for name, bits in (("branches random", random_bits), ("branches regular", regular_bits)):
        found[name] = Measurement(name, _kernel("branches", _aligned(bits)))
    found["python block"] = Measurement("python block", _python_lines)
    found["python call"] = Measurement("python call", _array_calls)
    return found


def core_figures(measured: Mapping[str, Measurement]) -> dict[str, float]:
    """Figures for the fields of profile.Core. What came out impossible, for noise, is left out."""
    cycle_s = measured[_CYCLE].best_s

    def cycles(name: str) -> float:
        return measured[name].best_s / cycle_s

    figures = {field: formula(cycles) for field, formula in _FIGURES.items()}
    figures["clock_hz"] = 1 / cycle_s
    if "fp_fma_chain" in measured:
        figures["fp_fma_latency_cycles"] = cycles("fp_fma_chain")
    vectors = [name for name in ("fp_vector", "fp_vector_fma") if name in measured]
    figures["peak_flops_per_cycle"] = max(1 / cycles(name) for name in vectors)
    figures["python_block_s"] = measured["python block"].best_s
    figures["python_call_s"] = measured["python call"].best_s
    return {field: value for field, value in figures.items() if value > 0}


def _kernel(name: str, data: mmap.mmap | None) -> Callable[[int], tuple[float, int]]:
    def run(repeats: int) -> tuple[float, int]:
        seconds, operations, _ = _kernels.run(name, repeats=repeats, data=data)
        return seconds, operations

    return run


def _aligned(values: npt.NDArray[np.uint8]) -> mmap.mmap:
    buffer = mmap.mmap(-1, values.nbytes)
    buffer.write(values.tobytes())
    return buffer


def _python_lines(repeats: int) -> tuple[float, int]:
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
