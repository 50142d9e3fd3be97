"""Rates of an accelerator's arithmetic, threads and caches: the table `[accelerator]` of a profile."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from . import defaults
from .figure import Figure


class DeviceKind(StrEnum):
    """Kind of offload: gathers and scatters on the host's memory, or whole loops."""

    GATHER_SCATTER_UNIT = "gather_scatter_unit"
    GENERAL = "general"


class AcceleratorTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Rates of an accelerator. Those without another word are of the whole device, all multiprocessors busy.

    A multiprocessor is a core of `[core]`, which gives their number and clock; `[[caches]]` gives sizes, `[memory]`
    capacity, latency and bandwidth. `source` and `noise` as of the core.
    """

    source: dict[str, str]
    device_kind: Annotated[
        DeviceKind | None,
        Figure(
            "what it takes over: gather_scatter_unit, gathers and scatters on the host's memory, arithmetic stays on "
            "the host; general, whole loops; not given: general"
        ),
    ] = None
    threads_per_multiprocessor: Annotated[
        int | None, Figure("most threads resident on a multiprocessor", defaults.RESIDENT_THREADS)
    ] = None
    warp_threads: Annotated[int | None, Figure("threads that execute one instruction together", defaults.WARP)] = None
    fp64_flops_per_s: Annotated[
        float | None,
        Figure("double-precision operations outside matrix units, a fused multiply-add as two", defaults.FP64_RATE),
    ] = None
    fp32_flops_per_s: Annotated[float | None, Figure("the same in single precision", defaults.FP32_RATE)] = None
    integer_ops_per_s: Annotated[
        float | None, Figure("additions and logic of 32-bit integers", defaults.INTEGER_RATE)
    ] = None
    special_ops_per_s: Annotated[
        float | None,
        Figure("single-precision reciprocals, roots, exponentials and sines of special units", defaults.SPECIAL_RATE),
    ] = None
    atomics_per_s: Annotated[
        float | None, Figure("atomic additions at addresses spread at random, in the second cache", defaults.ATOMICS)
    ] = None
    same_address_atomics_per_s: Annotated[
        float | None, Figure("atomic additions of all threads at one address", defaults.SAME_ADDRESS)
    ] = None
    l1_bytes_per_s: Annotated[
        float | None, Figure("loads from the first caches of all multiprocessors together", defaults.L1_RATE)
    ] = None
    l2_bytes_per_s: Annotated[
        float | None, Figure("loads from the second cache, all multiprocessors together", defaults.L2_RATE)
    ] = None
    last_cache_bytes_per_s: Annotated[
        float | None, Figure("loads from a third cache, all multiprocessors together", defaults.LAST_CACHE_RATE)
    ] = None
    l1_peak_bytes_per_s: Annotated[
        float | None, Figure("what the first caches can deliver at most: bytes a clock by the makers")
    ] = None
    l2_peak_bytes_per_s: Annotated[float | None, Figure("the same of the second cache")] = None
    last_cache_peak_bytes_per_s: Annotated[float | None, Figure("the same of a third cache")] = None
    thread_instructions_per_s: Annotated[
        float | None, Figure("of one thread alone, each waits for the one before", defaults.THREAD_RATE)
    ] = None
    noise: dict[str, float] | None = None
