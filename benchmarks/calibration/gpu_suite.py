"""A CUDA GPU, through CuPy: gather and scatter by address range, stream and reduction, launches and transfers.

Loops have at least four million indices, whatever the range: what a launch costs is a figure of its own.
"""

from __future__ import annotations

import datetime
import importlib
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from msgspec import structs

from foretrace import __version__
from foretrace.benchmarks.harness.sampling import Measurement, Progress, Run, Timing, measure, rounded
from foretrace.errors import CalibrationError
from foretrace.profiles.checks import check
from foretrace.profiles.points import IdiomRate, IndexMode
from foretrace.profiles.profile import SCHEMA, Link, MachineKind, Memory, Profile, Source, SourceKind
from foretrace.units import format_bytes

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
    profile = _profile(timings, name, title, total_bytes, f"CuPy {cupy.__version__}")
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
    one, result = cupy.ones(1), cupy.ones(1)
    found["launch"] = Measurement("launch", _timed(lambda: stream(one, one, result), synchronize, 1, each=True))
    found["queued launch"] = Measurement("queued launch", _timed(lambda: stream(one, one, result), synchronize, 1))
    host, host_one = np.ones(min(n, _TRANSFERRED_BYTES // _ELEMENT_BYTES)), np.ones(1)
    part = a[: len(host)]
    found["to device"] = Measurement("to device", _timed(lambda: part.set(host), synchronize, len(host)))
    found["from device"] = Measurement("from device", _timed(lambda: part.get(out=host), synchronize, len(host)))
    found["short transfer"] = Measurement(
        "short transfer", _timed(lambda: one.set(host_one), synchronize, 1, each=True)
    )
    return found


def needed_bytes(largest_bytes: int, *, quick: bool) -> int:
    """Of the GPU's memory, for ranges up to this one: two arrays and two more for the stream, and all indices."""
    arrays = 3 * largest_bytes + max(LEAST_INDICES * _ELEMENT_BYTES, largest_bytes)
    indices = 0
    for size in ranges(largest_bytes, fine=not quick):
        for mode in IndexMode:
            each = 1 if mode is IndexMode.STRIDE_1 else ELEMENTS_PER_INDEX
            indices += max(LEAST_INDICES, size // _ELEMENT_BYTES // each)
    return arrays + INDEX_BYTES * indices


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


def _profile(timings: dict[Loop | str, Timing], name: str, title: str, total_bytes: int, library: str) -> Profile:
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
        memory=Memory(source={"size_bytes": _SYSTEM}, size_bytes=total_bytes),
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
