"""A CUDA GPU, through CuPy: gather and scatter by address range, stream and reduction, arithmetic, atomics, caches,
latency, launches and transfers.

Loops have at least four million indices, whatever the range: what a launch costs is a figure of its own.
"""

from __future__ import annotations

import datetime
import importlib
import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
from msgspec import structs

from foretrace.base.errors import CalibrationError
from foretrace.base.units import format_bytes
from foretrace.base.version import __version__
from foretrace.benchmarks.harness.sampling import Measurement, Progress, Run, Timing, measure, rounded
from foretrace.profiles.accelerator import AcceleratorTable
from foretrace.profiles.checks import check
from foretrace.profiles.points import IdiomRate, IndexMode
from foretrace.profiles.profile import SCHEMA, CacheLevel, Core, Link, MachineKind, Memory, Profile, Source, SourceKind

from .agreement import unstable_figures
from .calibrate import Calibration
from .sgbench import ELEMENTS_PER_INDEX, INDEX_BYTES, OPERATIONS, Loop, curves, index_array, ranges

LEAST_INDICES = 1 << 22
_ELEMENT_BYTES = 8
_LARGEST_BYTES = 1 << 30
_TRANSFERRED_BYTES = 256 << 20
_WARM_S = 0.002
_MEASURED, _SYSTEM = "calibrate", "system"
_KERNELS = {  # the array read, the array written, and what is done with index x of iteration i
    "gather": ("a", "b", "b[i] = a[x]"),
    "scatter": ("b", "a", "a[x] = b[i]"),
    "update": ("b", "a", "atomicAdd(&a[x], b[i])"),  # as a GPU's threads must
}
_WORDS = {  # of the link's fields: the measurement, and whether its bytes or its time is the figure
    "launch_latency_s": "launch",
    "launch_interval_s": "queued launch",
    "to_device_bytes_per_s": "to device",
    "from_device_bytes_per_s": "from device",
    "transfer_latency_s": "short transfer",
}
_ROUNDS = 256
_C_TYPES = {"float64": "double", "float32": "float", "int32": "int"}
_ARITHMETIC = {  # of the table: the type, a round on two independent values, operations that the round makes of both
    "fp64_flops_per_s": ("float64", "a = a * c + c; b = b * c + c", 4),
    "fp32_flops_per_s": ("float32", "a = a * c + c; b = b * c + c", 4),
    "integer_ops_per_s": ("int32", "a = (a + c) ^ k; b = (b + c) ^ k", 4),
    "special_ops_per_s": ("float32", "a = rsqrtf(a); b = rsqrtf(b)", 2),
}
_CHAIN = 1 << 18
_CHASED = 1 << 14
_LINE_BYTES = 128
_CHASE_BYTES = 256 << 20
_CACHED_BYTES = 16 << 20
"""More than first caches hold that see little of it again, less than a second cache does."""
_PASSES = 64
_ALONE = ("thread_instructions_per_s", "same_address_atomics_per_s", "l2_bytes_per_s")
_ATOMICS_BYTES = 4 << 20
"""The range that atomics fall into: in second caches, with few at one address at a time."""
_IDIOM_BYTES = {"stream": 3 * _ELEMENT_BYTES, "reduction": _ELEMENT_BYTES}


def load_cupy() -> ModuleType:
    """CuPy.

    Raises:
        CalibrationError: it is not installed, or finds no GPU; says which.
    """
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        raise CalibrationError(
            "a GPU is measured through CuPy, which is not installed: install the cupy package for your CUDA version, "
            "such as cupy-cuda12x"
        ) from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # of CuPy's own kinds, without a driver
        raise CalibrationError(f"CuPy finds no GPU: {' '.join(str(error).split())}") from None
    if count < 1:
        raise CalibrationError("CuPy finds no GPU")
    return cupy


def calibrate_gpu(cupy: ModuleType, *, name: str, quick: bool, progress: Progress | None = None) -> Calibration:
    """Measure the first GPU.

    Raises:
        CalibrationError: too little of its memory is free to measure with, or it ran out.
    """
    begin = time.monotonic()
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    total_bytes = int(properties["totalGlobalMem"])
    free_bytes, _ = cupy.cuda.runtime.memGetInfo()
    largest, least = _LARGEST_BYTES, LEAST_INDICES * _ELEMENT_BYTES
    while largest >= least and needed_bytes(largest, quick=quick) > free_bytes:
        largest //= 2
    if largest < least:
        raise CalibrationError(
            f"{format_bytes(free_bytes)} of the GPU's {format_bytes(total_bytes)} are free, too little to measure with"
        )
    try:
        measurements = gpu_measurements(cupy, largest, quick=quick)
    except cupy.cuda.memory.OutOfMemoryError:
        raise CalibrationError(
            f"the GPU's memory ran out, of which {format_bytes(free_bytes)} seemed to be free: end what else uses it"
        ) from None
    for measurement in measurements.values():
        measurement.run(1)  # the first launch of a kernel compiles it
    measure(
        list(measurements.values()),
        sample_s=0.002 if quick else 0.01,
        passes=2 if quick else 4,
        budget_s=15.0 if quick else 100.0,
        progress=progress,
    )
    timings = {key: m.timing for key, m in measurements.items()}
    title = properties["name"].decode() if isinstance(properties["name"], bytes) else str(properties["name"])
    clock_hz = float(cupy.cuda.Device(0).attributes["ClockRate"]) * 1e3  # in kHz; CUDA 13 has it in no property
    profile = _profile(timings, name, title, properties, clock_hz, f"CuPy {cupy.__version__}")
    profile = structs.replace(profile, unstable=unstable_figures(profile))
    check(profile)
    unstable = sum(not timing.is_stable for timing in timings.values())
    warnings = (f"{unstable} of {len(timings)} figures are unstable, see their noise",) if unstable else ()
    return Calibration(profile, warnings, time.monotonic() - begin)


def gpu_measurements(cupy: ModuleType, largest_bytes: int, *, quick: bool) -> dict[Loop | str, Measurement]:
    """The measurements: loops of SGBench on one GPU, and words for the rest."""
    synchronize = cupy.cuda.Stream.null.synchronize
    a = cupy.ones(largest_bytes // _ELEMENT_BYTES)
    b = cupy.ones(max(LEAST_INDICES, largest_bytes // _ELEMENT_BYTES))
    arrays = {"a": a, "b": b}
    found: dict[Loop | str, Measurement] = {}
    kernels = {operation: _kernel(cupy, operation) for operation in OPERATIONS}
    rng = np.random.default_rng(5)
    for mode in IndexMode:
        for size in ranges(largest_bytes, fine=not quick):
            index = cupy.asarray(long_index(mode, size // _ELEMENT_BYTES, rng))
            for operation in OPERATIONS:
                read, written, _ = _KERNELS[operation]
                launch = _bound(kernels[operation], index, arrays[read], arrays[written])
                found[Loop(operation, mode, _ELEMENT_BYTES, 1, size)] = Measurement(
                    operation, _timed(launch, synchronize, len(index)), warm_s=_WARM_S
                )
    n = largest_bytes // _ELEMENT_BYTES
    stream = cupy.ElementwiseKernel("float64 b, float64 c", "float64 a", "a = b + 3.0 * c", "foretrace_stream")
    out, c = cupy.ones(n), cupy.ones(n)
    found["stream"] = Measurement("stream", _timed(lambda: stream(b[:n], c, out), synchronize, n))
    found["reduction"] = Measurement("reduction", _timed(lambda: a.sum(), synchronize, n))
    one = cupy.ones(1)
    empty = cupy.RawKernel('extern "C" __global__ void foretrace_empty() {}', "foretrace_empty")
    found["launch"] = Measurement("launch", _timed(lambda: empty((1,), (1,), ()), synchronize, 1, each=True))
    found["queued launch"] = Measurement("queued launch", _timed(lambda: empty((1,), (1,), ()), synchronize, 1))
    found |= _device_measurements(cupy, largest_bytes, kernels["update"], a, b)
    host, host_one = np.ones(min(n, _TRANSFERRED_BYTES // _ELEMENT_BYTES)), np.ones(1)
    part = a[: len(host)]
    found["to device"] = Measurement("to device", _timed(lambda: part.set(host), synchronize, len(host)))
    found["from device"] = Measurement("from device", _timed(lambda: part.get(out=host), synchronize, len(host)))
    found["short transfer"] = Measurement(
        "short transfer", _timed(lambda: one.set(host_one), synchronize, 1, each=True)
    )
    return found


def _device_measurements(
    cupy: ModuleType, largest_bytes: int, update: Callable[..., Any], a: Any, b: Any
) -> dict[Loop | str, Measurement]:
    """Measurements besides the loops of SGBench: arithmetic, one thread alone, one address, the second cache, memory's
    latency."""
    synchronize = cupy.cuda.Stream.null.synchronize
    found: dict[Loop | str, Measurement] = {}
    for name, (kind, statement, operations) in _ARITHMETIC.items():
        kernel = cupy.ElementwiseKernel(
            f"{kind} x, {kind} c",
            f"{kind} y",
            f"{_C_TYPES[kind]} a = x, b = x + c; for (int k = 0; k < {_ROUNDS}; k++) {{ {statement}; }} y = a + b",
            f"foretrace_{name}",
        )
        x, y = (cupy.asarray(np.ones(LEAST_INDICES, kind)) for _ in range(2))
        launch = _bound(kernel, x, x[:1], y)
        found[name] = Measurement(name, _timed(launch, synchronize, LEAST_INDICES * _ROUNDS * operations))
    chain = cupy.ElementwiseKernel(
        "float32 x",
        "float32 y",
        f"float z = x; for (int k = 0; k < {_CHAIN}; k++) z = z * x + x; y = z",
        "foretrace_chain",
    )
    one, result = (cupy.asarray(np.ones(1, np.float32)) for _ in range(2))
    found["thread_instructions_per_s"] = Measurement("chain", _timed(lambda: chain(one, result), synchronize, _CHAIN))
    zeros = cupy.asarray(np.zeros(LEAST_INDICES, np.uint32))
    found["same_address_atomics_per_s"] = Measurement(
        "one address", _timed(_bound(update, zeros, b, a), synchronize, LEAST_INDICES)
    )
    mask = min(_CACHED_BYTES, largest_bytes) // _ELEMENT_BYTES - 1
    cached = cupy.ElementwiseKernel(
        "int32 x, raw float64 a",
        "float64 y",
        f"double z = 0; for (int k = 0; k < {_PASSES}; k++) z += a[(i + k * {mask // _PASSES}) & {mask}]; y = z",
        "foretrace_cached",
    )
    count = cupy.asarray(np.zeros(LEAST_INDICES, np.int32))
    found["l2_bytes_per_s"] = Measurement(
        "second cache", _timed(lambda: cached(count, a, b[:LEAST_INDICES]), synchronize, LEAST_INDICES * _PASSES)
    )
    following = cupy.asarray(chase(min(_CHASE_BYTES, largest_bytes)))
    place = cupy.asarray(np.zeros(1, np.uint32))  # each launch goes on from it: lines that are not in caches any more
    chasing = cupy.ElementwiseKernel(
        "uint32 x, raw uint32 following",
        "uint32 y",
        f"unsigned z = x; for (int k = 0; k < {_CHASED}; k++) z = following[z]; y = z",
        "foretrace_chase",
    )
    found["memory_latency_s"] = Measurement(
        "chase", _timed(lambda: chasing(place, following, place), synchronize, _CHASED)
    )
    return found


def chase(size_bytes: int) -> np.ndarray[Any, Any]:
    """[size_bytes / 4]: indices that lead from the start of one line to that of another, through all, and back."""
    step = _LINE_BYTES // INDEX_BYTES
    order = np.random.default_rng(7).permutation(max(size_bytes // _LINE_BYTES, 1)).astype(np.uint32) * step
    following = np.zeros(len(order) * step, np.uint32)
    following[order] = np.roll(order, -1)
    return following


def needed_bytes(largest_bytes: int, *, quick: bool) -> int:
    """Size of the GPU memory needed for ranges up to this one, in bytes: two arrays and two more for the stream, and
    all indices."""
    arrays = 3 * largest_bytes + max(LEAST_INDICES * _ELEMENT_BYTES, largest_bytes)
    indices = 0
    for size in ranges(largest_bytes, fine=not quick):
        for mode in IndexMode:
            each = 1 if mode is IndexMode.STRIDE_1 else ELEMENTS_PER_INDEX
            indices += max(LEAST_INDICES, size // _ELEMENT_BYTES // each)
    rates = sum(2 * LEAST_INDICES * np.dtype(kind).itemsize for kind, _, _ in _ARITHMETIC.values())
    lines = max(min(_CHASE_BYTES, largest_bytes) // _LINE_BYTES, 1)
    return arrays + INDEX_BYTES * (indices + 2 * LEAST_INDICES) + rates + lines * _LINE_BYTES


def _kernel(cupy: ModuleType, operation: str) -> Callable[..., Any]:
    read, written, statement = _KERNELS[operation]
    made: Callable[..., Any] = cupy.ElementwiseKernel(
        f"uint32 x, raw float64 {read}", f"raw float64 {written}", statement, f"foretrace_{operation}"
    )
    return made


def long_index(mode: IndexMode, num_elements: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """The index array of a range, repeated until it is long enough."""
    index = index_array(mode, num_elements, _ELEMENT_BYTES, rng)
    return np.tile(index, -(-LEAST_INDICES // len(index)))[: max(LEAST_INDICES, len(index))]


def _caches(properties: Mapping[str, Any]) -> tuple[CacheLevel, ...]:
    """The first cache, which is a multiprocessor's memory shared with programs, and the second one."""
    first = int(properties["sharedMemPerMultiprocessor"])
    second = int(properties["l2CacheSize"])
    return (
        CacheLevel("L1", first, {"size_bytes": _SYSTEM}),
        CacheLevel("L2", second, {"size_bytes": _SYSTEM, "shared_by_cores": _SYSTEM},
                   shared_by_cores=int(properties["multiProcessorCount"])),
    )  # fmt: skip


def _bound(kernel: Callable[..., Any], index: Any, read: Any, written: Any) -> Callable[[], Any]:
    return lambda: kernel(index, read, written)


def _timed(launch: Callable[[], Any], synchronize: Callable[[], None], operations: int, *, each: bool = False) -> Run:
    """Time launches until all have finished; with `each`, waiting for every single one."""

    def run(repeats: int) -> tuple[float, int]:
        synchronize()
        begin = time.perf_counter()
        for _ in range(repeats):
            launch()
            if each:
                synchronize()
        synchronize()
        return time.perf_counter() - begin, operations * repeats

    return run


def _table(timings: dict[Loop | str, Timing], properties: Mapping[str, Any]) -> AcceleratorTable:
    """Table of what was measured of the device alone, and what its driver reports."""
    sizes = {
        field: int(properties[key])
        for field, key in (("threads_per_multiprocessor", "maxThreadsPerMultiProcessor"), ("warp_threads", "warpSize"))
    }
    measured: dict[str, Loop | str] = {field: field for field in (*_ARITHMETIC, *_ALONE)}
    loops = [k for k in timings if isinstance(k, Loop) and (k.operation, k.index_mode) == ("update", IndexMode.RANDOM)]
    measured["atomics_per_s"] = max((k for k in loops if k.range_bytes <= _ATOMICS_BYTES), key=lambda k: k.range_bytes)
    each = {"l2_bytes_per_s": _ELEMENT_BYTES}
    rates = {field: rounded(each.get(field, 1) / timings[key].time_s) for field, key in measured.items()}
    table = AcceleratorTable(
        source=dict.fromkeys(sizes, _SYSTEM) | dict.fromkeys(rates, _MEASURED),
        noise={field: rounded(timings[key].noise) for field, key in measured.items()},
    )
    return structs.replace(table, **sizes, **rates)


def _profile(
    timings: dict[Loop | str, Timing],
    name: str,
    title: str,
    properties: Mapping[str, Any],
    clock_hz: float,
    library: str,
) -> Profile:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    figures: dict[str, float] = {}
    for field, key in _WORDS.items():
        time_s = timings[key].time_s
        figures[field] = rounded(_ELEMENT_BYTES / time_s if field.endswith("_bytes_per_s") else time_s)
    return Profile(
        schema=SCHEMA,
        name=name,
        title=title,
        kind=MachineKind.ACCELERATOR,
        date=today,
        sources={
            _MEASURED: Source(
                SourceKind.MEASURED, f"foretrace calibrate --gpu, version {__version__}, through {library}", today
            ),
            _SYSTEM: Source(SourceKind.VENDOR, f"Reported by the driver about the {title}", today),
        },
        core=Core(
            source={"cores": _SYSTEM, "clock_hz": _SYSTEM},
            cores=int(properties["multiProcessorCount"]),
            clock_hz=clock_hz,
        ),
        caches=_caches(properties),
        memory=Memory(
            source={"size_bytes": _SYSTEM, "latency_s": _MEASURED, "sustained_bandwidth_bytes_per_s": _MEASURED},
            size_bytes=int(properties["totalGlobalMem"]),
            latency_s=rounded(timings["memory_latency_s"].time_s),
            sustained_bandwidth_bytes_per_s=rounded(_IDIOM_BYTES["stream"] / timings["stream"].time_s),
            noise={
                "latency_s": rounded(timings["memory_latency_s"].noise),
                "sustained_bandwidth_bytes_per_s": rounded(timings["stream"].noise),
            },
        ),
        accelerator=_table(timings, properties),
        gather_scatter=curves({k: t for k, t in timings.items() if isinstance(k, Loop)}, _MEASURED),
        idiom_rates=tuple(
            IdiomRate(idiom, rounded(size / timings[idiom].time_s), _MEASURED, rounded(timings[idiom].noise))
            for idiom, size in _IDIOM_BYTES.items()
        ),
        link=Link(
            source=dict.fromkeys(figures, _MEASURED) | {"shared_memory": _MEASURED},
            shared_memory=False,
            noise={field: rounded(timings[key].noise) for field, key in _WORDS.items()},
            **figures,
        ),
        notes=(
            "A launch is that of an empty kernel, until it has finished. Transfers are from and to pageable memory.",
            f"Loops have {LEAST_INDICES} indices or more. An update is atomic.",
        ),
        metadata={"library": library},
    )
