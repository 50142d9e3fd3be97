"""The measurement of a GPU, on a stand-in for CuPy made of NumPy: that its loops do what they say, and the profile."""

import types

import numpy as np
import pytest

from foretrace.base.errors import CalibrationError
from foretrace.benchmarks.calibration import gpu_suite
from foretrace.benchmarks.calibration.gpu_suite import calibrate_gpu, gpu_measurements, load_cupy, long_index
from foretrace.benchmarks.calibration.sgbench import Loop
from foretrace.profiles.points import IndexMode
from foretrace.profiles.profile import MachineKind
from foretrace.profiles.profile_file import format_profile, parse_profile

KERNELS = (
    "gather", "scatter", "update", "stream", "fp64_flops_per_s", "fp32_flops_per_s", "integer_ops_per_s",
    "special_ops_per_s", "chain", "cached", "chase",
)  # fmt: skip
MEMORY_BYTES = 1 << 20
ALONE = {
    "fp64_flops_per_s", "fp32_flops_per_s", "integer_ops_per_s", "special_ops_per_s", "thread_instructions_per_s",
    "same_address_atomics_per_s", "l2_bytes_per_s", "memory_latency_s",
}  # fmt: skip


class OutOfMemoryError(MemoryError):
    """As CuPy has it."""


class DeviceArray(np.ndarray):
    def set(self, host):
        self[:] = host

    def get(self, out):
        out[:] = self


def statement(text):
    """What a kernel of that statement does, in NumPy."""

    def gather(x, a, b):
        b[: len(x)] = a[x]

    def scatter(x, b, a):
        a[x] = b[: len(x)]

    def update(x, b, a):
        np.add.at(a, x, b[: len(x)])

    def stream(b, c, out):
        out[:] = b + 3.0 * c

    def fused(x, c, out):
        one, other = x.copy(), x + c
        for _ in range(gpu_suite._ROUNDS):
            one, other = one * c + c, other * c + c
        out[:] = one + other

    def whole(x, c, out):
        one, other = x.copy(), x + c
        for k in range(gpu_suite._ROUNDS):
            one, other = (one + c) ^ k, (other + c) ^ k
        out[:] = one + other

    def special(x, c, out):
        one, other = x.copy(), x + c
        for _ in range(gpu_suite._ROUNDS):
            one, other = 1 / np.sqrt(one), 1 / np.sqrt(other)
        out[:] = one + other

    def chain(x, out):
        out[:] = x
        for _ in range(gpu_suite._CHAIN):
            out[:] = out * x + x

    def cached(x, a, out):
        mask = min(gpu_suite._CACHED_BYTES, a.nbytes) // 8 - 1
        i = np.arange(len(x))
        out[:] = sum(a[(i + k * (mask // gpu_suite._PASSES)) & mask] for k in range(gpu_suite._PASSES))

    def chase(x, following, out):
        out[:] = x
        for _ in range(gpu_suite._CHASED):
            out[:] = following[out]

    loops = {"y = a + b": {"a * c": fused, "^ k": whole, "rsqrtf": special}, "z = z * x": {"": chain},
             "z += a[": {"": cached}, "following[z]": {"": chase}}  # fmt: skip
    for mark, kinds in loops.items():
        if mark in text:
            return next(run for part, run in kinds.items() if part in text)
    return {
        "b[i] = a[x]": gather,
        "a[x] = b[i]": scatter,
        "atomicAdd(&a[x], b[i])": update,
        "a = b + 3.0 * c": stream,
    }[text]


def stand_in(memory_bytes=1 << 20):
    arrays = []

    def ones(count):
        arrays.append(np.ones(count).view(DeviceArray))
        return arrays[-1]

    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: 1,
        getDeviceProperties=lambda _: {
            "name": b"A GPU",
            "totalGlobalMem": memory_bytes,
            "multiProcessorCount": 4,
            "maxThreadsPerMultiProcessor": 2048,
            "warpSize": 32,
            "sharedMemPerMultiprocessor": 65536,
            "l2CacheSize": 262144,
        },
        memGetInfo=lambda: (memory_bytes, memory_bytes),
    )
    null = types.SimpleNamespace(synchronize=lambda: None)
    return types.SimpleNamespace(
        __version__="0",
        arrays=arrays,
        ones=ones,
        asarray=lambda values: values.view(DeviceArray),
        ElementwiseKernel=lambda inputs, outputs, text, name: statement(text),
        RawKernel=lambda text, name: lambda grid, block, arguments: None,
        cuda=types.SimpleNamespace(
            runtime=runtime,
            Device=lambda number: types.SimpleNamespace(attributes={"ClockRate": 1_500_000}),
            Stream=types.SimpleNamespace(null=null),
            memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        ),
    )


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(gpu_suite, "LEAST_INDICES", 2048)
    monkeypatch.setattr(gpu_suite, "_ROUNDS", 4)
    monkeypatch.setattr(gpu_suite, "_CHAIN", 16)
    monkeypatch.setattr(gpu_suite, "_CHASED", 16)


@pytest.fixture(autouse=True)
def silent_overflow():
    """The loops add into what they read, as often as samples need: a device overflows silently, and so must NumPy."""
    with np.errstate(over="ignore"):
        yield


def test_loops_on_the_device_do_what_they_say():
    cupy = stand_in()
    found = gpu_measurements(cupy, 4096, quick=True)
    a, b = cupy.arrays[:2]
    a[:] = np.arange(len(a))
    _, operations = found[Loop("gather", IndexMode.STRIDE_1, 8, 1, 4096)].run(1)
    assert operations == 2048
    assert np.array_equal(b[:512], np.arange(512))
    b[:] = 5
    found[Loop("scatter", IndexMode.SPREAD, 8, 1, 1024)].run(1)
    assert np.count_nonzero(a[:128] == 5) == 32 + (a[5] == 5), "one element in four, and the fifth that was 5 before"
    a[:] = 0
    found[Loop("update", IndexMode.RANDOM, 8, 1, 1024)].run(1)
    assert a.sum() == 5 * 2048
    assert found["stream"].run(3)[1] == 3 * 512
    assert {key for key in found if isinstance(key, str)} == {
        "stream", "reduction", "launch", "queued launch", "to device", "from device", "short transfer", *ALONE
    }  # fmt: skip


def test_what_the_device_does_alone_is_what_is_counted():
    cupy = stand_in()
    found = gpu_measurements(cupy, 4096, quick=True)
    a, b = cupy.arrays[:2]
    assert found["fp64_flops_per_s"].run(2)[1] == 2 * 2048 * 4 * 4, "two fused operations on either value a round"
    assert found["special_ops_per_s"].run(1)[1] == 2048 * 4 * 2
    assert found["thread_instructions_per_s"].run(1)[1] == 16
    assert found["memory_latency_s"].run(1)[1] == 16
    a[:], b[:] = 0, 1
    assert found["same_address_atomics_per_s"].run(1)[1] == 2048
    assert (a[0], a[1:].sum()) == (2048, 0)
    a[:] = 3
    assert found["l2_bytes_per_s"].run(1)[1] == 2048 * 64
    assert np.array_equal(b[:2048], np.full(2048, 192.0))


@pytest.mark.parametrize("size_bytes", [64, 128, 4096, 1 << 16])
def test_a_chase_goes_through_every_line_once(size_bytes):
    following = gpu_suite.chase(size_bytes)
    place, seen = 0, []
    for _ in range(max(size_bytes // 128, 1)):
        seen.append(place)
        place = int(following[place])
    assert place == 0
    assert sorted(seen) == list(range(0, max(size_bytes, 128) // 4, 32))


def test_the_profile_is_that_of_an_accelerator():
    profile = calibrate_gpu(stand_in(MEMORY_BYTES), name="gpu", quick=True).profile
    assert parse_profile(format_profile(profile).encode()) == profile
    assert (profile.kind, profile.title) == (MachineKind.ACCELERATOR, "A GPU")
    assert profile.link.launch_latency_s > 0
    assert profile.link.launch_interval_s > 0
    assert profile.link.to_device_bytes_per_s > profile.link.launch_latency_s
    table = profile.accelerator
    assert (table.threads_per_multiprocessor, table.warp_threads, profile.core.cores) == (2048, 32, 4)
    assert set(table.source) >= ALONE - {"memory_latency_s"} | {"atomics_per_s"}
    assert profile.memory.latency_s > 0
    assert {rate.idiom for rate in profile.idiom_rates} == {"stream", "reduction"}
    for operation in ("gather", "scatter", "update"):
        for mode in IndexMode:
            assert profile.gather_scatter_curve(operation, mode).bandwidth_bytes_per_s(4096) > 0


@pytest.mark.parametrize("mode", list(IndexMode))
@pytest.mark.parametrize("num_elements", [128, 4096, 16384])
def test_an_index_is_repeated_until_it_is_long_enough(mode, num_elements):
    index = long_index(mode, num_elements, np.random.default_rng(1))
    own = num_elements if mode is IndexMode.STRIDE_1 else num_elements // 4
    assert len(index) == max(2048, own)
    assert index.max() < num_elements


def test_a_small_gpu_is_refused():
    with pytest.raises(CalibrationError, match="1,000 B of the GPU's 1,000 B are free, too little to measure with"):
        calibrate_gpu(stand_in(1000), name="gpu", quick=True)


def test_memory_that_others_take_is_said():
    def full(count):
        raise OutOfMemoryError

    cupy = stand_in(MEMORY_BYTES)
    cupy.ones = full
    with pytest.raises(CalibrationError, match="ran out, of which 1 MiB seemed to be free: end what else uses it"):
        calibrate_gpu(cupy, name="gpu", quick=True)


@pytest.mark.parametrize("quick", [True, False])
def test_as_much_memory_is_asked_for_as_is_needed(quick):
    taken = []
    cupy = stand_in()
    ones, asarray = cupy.ones, cupy.asarray
    cupy.ones = lambda count: taken.append(8 * count) or ones(count)
    cupy.asarray = lambda values: taken.append(values.nbytes) or asarray(values)
    gpu_measurements(cupy, 1 << 16, quick=quick)
    assert gpu_suite.needed_bytes(1 << 16, quick=quick) == sum(taken) - 8 - 3 * 4  # but for arrays of one element


def test_a_kernel_is_compiled_once_and_before_it_is_timed(monkeypatch):
    cupy = stand_in(MEMORY_BYTES)
    made, launched = [], []
    whole = cupy.ElementwiseKernel

    def kernel(inputs, outputs, text, name):
        made.append(name)
        run = whole(inputs, outputs, text, name)
        return lambda *arrays: launched.append(name) or run(*arrays)

    cupy.ElementwiseKernel = kernel
    seen = []

    def measure(measurements, **options):
        seen.append(set(launched))
        raise KeyboardInterrupt

    monkeypatch.setattr(gpu_suite, "measure", measure)
    with pytest.raises(KeyboardInterrupt):
        calibrate_gpu(cupy, name="gpu", quick=True)
    assert sorted(made) == sorted(f"foretrace_{name}" for name in KERNELS)
    assert seen == [set(made)]


def test_why_there_is_no_gpu_is_said(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(gpu_suite.importlib, "import_module", missing)
    with pytest.raises(CalibrationError, match="CuPy, which is not installed"):
        load_cupy()
    cupy = stand_in()
    monkeypatch.setattr(gpu_suite.importlib, "import_module", lambda name: cupy)
    assert load_cupy() is cupy
    cupy.cuda.runtime.getDeviceCount = lambda: 0
    with pytest.raises(CalibrationError, match="CuPy finds no GPU"):
        load_cupy()

    def driverless():
        raise RuntimeError("cudaErrorInsufficientDriver:\n old")

    cupy.cuda.runtime.getDeviceCount = driverless
    with pytest.raises(CalibrationError, match="no GPU: cudaErrorInsufficientDriver: old"):
        load_cupy()
