"""The micro-benchmark kernels compute what they say, count what they did, and refuse what they cannot run on."""

import itertools
import mmap
import re

import numpy as np
import pytest

from foretrace.benchmarks.calibration.window_suite import window_measurements
from foretrace.benchmarks.harness.buffers import Pages, allocate, allocate_each, huge_page_bytes
from foretrace.benchmarks.kernels import _kernels

MIB = 1 << 20
KERNELS = _kernels.available()
ARITHMETIC = [name for name in KERNELS if re.fullmatch(r"\w+_\d+x\d+_(chain|free)", name)]
OTHERS = [
    k
    for k in (
        *("issue", "taken_branches", "branches_random", "branches_regular", "flops_scalar", "flops_vector"),
        *("register_crossing", "fp_add_mul", "untaken_branches"),
    )
    if k in KERNELS
]
SWEEPS = [(k, int(re.search(r"\d+", k)[0])) for k in KERNELS if re.fullmatch(r"(load|store|copy)\d+", k)]


def doubles(data):
    return np.frombuffer(data, dtype=np.float64)


def of_values(values):
    """Memory that holds an array, aligned as kernels want it."""
    data = mmap.mmap(-1, values.nbytes)
    data.write(values.tobytes())
    return data


# ---- arithmetic


def test_every_operation_is_there_dependent_and_independent():
    names = {name.rpartition("_")[0] for name in ARITHMETIC}
    for name in names:
        assert {f"{name}_chain", f"{name}_free"} <= set(KERNELS)
    scalar = {f"fp_{op}_{bits}x1" for op in ("add", "mul", "div") for bits in (32, 64)}
    assert names >= scalar | {"int_add_64x1", "int_mul_64x1", "int_div_64x1", "int_div_32x1"}


@pytest.mark.parametrize("name", [*ARITHMETIC, *OTHERS])
def test_a_core_kernel_does_more_in_more_rounds(name):
    seconds, operations, _ = _kernels.run(name, repeats=10)
    assert seconds >= 0
    assert operations > 0
    assert _kernels.run(name, repeats=30)[1] == 3 * operations


def test_kernels_load_normal_numbers_where_others_left_integers():
    """An integer is subnormal when read as a double, and some cores compute with these in microcode."""
    data = of_values(np.full(64, 9, np.uint64))
    assert 0 < doubles(data)[0] < np.finfo(np.float64).tiny
    _kernels.run("fp_long_chains", repeats=1, data=data)
    assert doubles(data)[0] >= 1


def test_long_chains_count_themselves():
    assert _kernels.run("fp_long_chains", repeats=5, data=of_values(np.ones(8)))[1] == 5 * 4


def test_what_is_forwarded_comes_back():
    data = of_values(np.zeros(8))
    assert _kernels.run("store_forward", repeats=5, data=data)[1] == 80
    assert np.frombuffer(data, dtype=np.uint64)[:4].tolist() == [1, 1, 1, 1]


WINDOWS = [f"{window.kind}_{window.between}" for window in window_measurements(MIB, fine=True)]


@pytest.mark.parametrize("name", WINDOWS)
def test_loads_of_a_window_take_turns_in_two_chains_linked_alike(name):
    data = allocate(2 * 64 * 64)
    order = np.random.default_rng(1).permutation(64).astype(np.uint32)
    for half in (data[: 64 * 64], data[64 * 64 :]):
        _kernels.link_chain(half, order)
    start = int(order[0]) * 64
    assert _kernels.run(name, repeats=3, data=data, state=start)[1:] == (6, int(order[3]) * 64)
    assert _kernels.run(name, repeats=64, data=data, state=start)[2] == start


@pytest.mark.parametrize(
    ("kind", "most"),  # that is known of: of the Apple M1
    [("window", 640), ("storing", 60)],
)
def test_windows_are_tried_finely_enough(kind, most):
    for fine, step in ((True, 1.34), (False, 1.67)):
        between = [w.between for w in window_measurements(MIB, fine=fine) if w.kind == kind]
        assert between[0] <= 16
        assert between[-1] >= most
        assert all(b <= max(step * a, a + 32) for a, b in itertools.pairwise(between))


CODE = [int(name.removeprefix("code_")) for name in KERNELS if name.startswith("code_")]


@pytest.mark.parametrize("instructions", CODE)
def test_code_counts_its_instructions(instructions):
    assert _kernels.run(f"code_{instructions}", repeats=3)[1] == 3 * instructions


def test_code_is_tried_finely_enough():
    assert CODE[0] <= 1024
    assert CODE[-1] >= 12288
    assert all(b <= max(1.51 * a, a + 512) for a, b in itertools.pairwise(CODE))


def test_random_branches_go_on_where_they_stopped():
    _, _, state = _kernels.run("branches_random", repeats=10, state=7)
    expected = 7
    for _ in range(10):
        expected = (expected * 6364136223846793005 + 1442695040888963407) % 2**64
    assert state == expected


@pytest.mark.parametrize("pages", [Pages.DEFAULT, Pages.USUAL])
@pytest.mark.parametrize("size_bytes", [1, 4096, 12288, 32 << 10, 3 << 20])
def test_small_working_sets_cross_no_multiple_of_more_than_their_size(size_bytes, pages):
    """Else some loops over 12 to 32 KB take twice as long on a Zen 3, all through a calibration."""
    for _ in range(4):
        begin = np.frombuffer(allocate(size_bytes, pages), dtype=np.uint8).ctypes.data
        assert begin % mmap.PAGESIZE == 0
        for part in (min(size_bytes, 2 << 20), min(size_bytes, 32 << 10)):
            for multiple in (64 << 10, 2 << 20, 64 << 20):
                assert part > multiple or begin // multiple == (begin + part - 1) // multiple


def test_each_pass_has_its_memory_elsewhere():
    """Which lines are in each other's way depends on bits 12 to 27 of their addresses on a Zen 3."""
    begins = [np.frombuffer(allocate(4 << 20), dtype=np.uint8).ctypes.data for _ in range(64)]
    assert len({begin % (64 << 20) >> 21 for begin in begins}) > 8


def test_small_working_sets_share_huge_pages():
    """Each of its own would begin one: some 40 MiB for 20 chains of a few KiB."""
    huge = huge_page_bytes() or 2 << 20
    sizes = [4096, 6144, huge // 2, huge, 3 * huge]
    views = allocate_each(sizes, Pages.HUGE)
    assert [len(view) for view in views] == sizes
    begins = [np.frombuffer(view, dtype=np.uint8).ctypes.data for view in views]
    spans = sorted(zip(begins, sizes, strict=True))
    assert all(a + size <= b for (a, size), (b, _) in itertools.pairwise(spans)), "none lies in another"
    assert all(begin % 64 == 0 for begin in begins)
    if huge_page_bytes() is not None:
        assert begins[1] - begins[0] == 4096
        assert all(begin % huge == 0 for begin in begins[3:])


# ---- sweeps


@pytest.mark.parametrize(("name", "width"), SWEEPS)
def test_a_sweep_goes_through_all_of_its_data(name, width):
    data = mmap.mmap(-1, 3 * 4096)
    assert _kernels.run(name, repeats=7, data=data)[1] == 7 * 3 * 4096 // width


@pytest.mark.parametrize("name", [k for k in KERNELS if re.fullmatch(r"store\d+", k)])
def test_stores_store(name):
    data = of_values(np.full(512, 3.5))
    _kernels.run(name, repeats=1, data=data)
    assert not doubles(data).any()


@pytest.mark.parametrize("name", [k for k in KERNELS if re.fullmatch(r"copy\d+", k)])
def test_a_copy_goes_from_the_first_half_to_the_second(name):
    values = np.arange(512.0)
    data = of_values(values)
    _kernels.run(name, repeats=1, data=data)
    assert np.array_equal(doubles(data), np.concatenate([values[:256], values[:256]]))


@pytest.mark.parametrize("name", [k for k in KERNELS if re.fullmatch(r"streams\d_\d", k)])
@pytest.mark.parametrize(("stride", "apart"), [(64, 0), (1 << 15, 17)])
def test_streams_count_a_line_of_each(name, stride, apart):
    """Streams through much memory begin some lines apart."""
    size, far = 16 * stride, int(name[7])
    data = of_values(np.full(max(size, 512) // 8, 7.0))
    lines = (len(doubles(data)) * 8 - stride) // far // 64 - far * apart
    assert _kernels.run(name, repeats=3, data=data, stride=stride)[1] == 3 * lines
    assert (doubles(data) == 7.0).all()


@pytest.mark.parametrize("stride", [8, 24, 64, 256])
def test_strided_kernels_touch_one_element_a_stride(stride):
    count = 32 if stride == 256 else 64
    size = count * stride
    if size % 64:
        size = size // 64 * 64
    data = of_values(np.full(size // 8, 7.0))
    assert _kernels.run("load_strided", repeats=3, data=data, stride=stride)[1] == 3 * count
    assert _kernels.run("store_strided", repeats=1, data=data, stride=stride)[1] == count
    values = doubles(data)
    assert not values[:: stride // 8].any(), "the first round stores its number, 0"
    assert np.count_nonzero(values) == len(values) - count
    values = np.arange(size // 8, dtype=np.float64) + 1
    data = of_values(values)
    assert _kernels.run("copy_strided", repeats=1, data=data, stride=stride)[1] == count
    half, step = len(values) // 2, stride // 8
    assert np.array_equal(doubles(data)[half::step], values[:half:step])
    assert np.count_nonzero(doubles(data) != values) == count // 2


# ---- gather and scatter


@pytest.mark.parametrize(("element", "dtype"), [(4, np.float32), (8, np.float64)])
@pytest.mark.parametrize("length", [512, 1024, 2500])
def test_gather_scatter_and_update_follow_the_index(element, dtype, length):
    """Whatever is not a multiple of a round's 1,024 elements is done in a shorter one."""
    values = np.arange(4096, dtype=dtype)
    data = of_values(values)
    index = np.random.default_rng(1).permutation(4096)[:length].astype(np.uint32)
    dense = np.zeros(length, dtype=dtype)
    rounds = -(-length // 1024)
    assert _kernels.run(f"gather{element}", repeats=rounds, data=data, index=index, dense=dense)[1:] == (length, 0)
    assert np.array_equal(dense, values[index])
    dense += 1000
    expected = values.copy()
    expected[index] = dense
    _kernels.run(f"scatter{element}", repeats=rounds, data=data, index=index, dense=dense)
    assert np.array_equal(np.frombuffer(data, dtype=dtype), expected)
    expected[index] += dense
    _kernels.run(f"update{element}", repeats=rounds, data=data, index=index, dense=dense)
    assert np.array_equal(np.frombuffer(data, dtype=dtype), expected)


def test_a_round_of_gather_goes_on_where_the_one_before_stopped():
    data = of_values(np.arange(4096.0))
    index = np.arange(3000, dtype=np.uint32)
    dense = np.zeros(3000)
    _, done, state = _kernels.run("gather8", repeats=1, data=data, index=index, dense=dense)
    assert (done, state) == (1024, 1024)
    assert dense[1023] == 1023
    assert dense[1024] == 0
    _, done, state = _kernels.run("gather8", repeats=2, data=data, index=index, dense=dense, state=state)
    assert (done, state) == (3000 - 1024, 0)
    assert np.array_equal(dense, np.arange(3000.0))


# ---- threads


def test_threads_do_the_work_of_each():
    arrays = [of_values(np.arange(2048.0) + 10_000 * i) for i in range(3)]
    index = np.random.default_rng(1).permutation(2048).astype(np.uint32)
    dense = [np.zeros(2048) for _ in arrays]
    works = tuple((-1, a, index, d, 0) for a, d in zip(arrays, dense, strict=True))
    seconds, operations, states = _kernels.run_together("gather8", 2, works)
    assert seconds > 0
    assert operations == 3 * 2048
    assert states == (0, 0, 0)
    for i, d in enumerate(dense):
        assert np.array_equal(d, index + 10_000.0 * i)


def test_a_core_that_is_not_there_is_no_obstacle():
    assert _kernels.run_together("load8", 1, ((1023, mmap.mmap(-1, 4096), None, None, 0),))[1] == 512


@pytest.mark.parametrize(
    "works", [(), ((0,),), ((0, None, None, None, 0),), ((-1, mmap.mmap(-1, 100), None, None, 0),)]
)
def test_threads_refuse_what_they_cannot_run_on(works):
    with pytest.raises((ValueError, TypeError), match=r"works, must be|a work is|cannot run"):
        _kernels.run_together("load8", 1, works)


# ---- chains


@pytest.mark.parametrize("size_bytes", [64, 1 << 16])
def test_loads_at_random_go_on_where_they_stopped(size_bytes):
    data = allocate(size_bytes)
    _, operations, state = _kernels.run("random8", repeats=3, data=data)
    assert operations == 3 * 512
    assert (
        _kernels.run("random8", repeats=2, data=data, state=_kernels.run("random8", repeats=1, data=data)[2])[2]
        == state
    )


def test_a_chase_visits_every_line_once_and_comes_back():
    data = mmap.mmap(-1, 4096)
    order = np.random.default_rng(2).permutation(64).astype(np.uint32)
    _kernels.link_chain(data, order)
    links = np.frombuffer(data[:], dtype=np.uint64)[::8]
    assert len(set(links.tolist())) == 64
    base = int(links.min())
    line, seen = int(order[0]), []
    for _ in range(64):
        seen.append(line)
        line = (int(links[line]) - base) // _kernels.LINE_BYTES
    assert seen == order.tolist()
    start = int(order[0]) * _kernels.LINE_BYTES
    assert _kernels.run("chase", repeats=1, data=data, state=start)[2] == int(order[16]) * _kernels.LINE_BYTES
    assert _kernels.run("chase", repeats=4, data=data, state=start)[2] == start, "64 steps are once around"


def test_a_chain_may_go_through_some_of_the_lines():
    data = mmap.mmap(-1, 8 * 4096)
    order = np.arange(0, 512, 16, dtype=np.uint32)[::-1].copy()
    _kernels.link_chain(data, order)
    start = int(order[0]) * _kernels.LINE_BYTES
    assert _kernels.run("chase", repeats=1, data=data, state=start)[2] == int(order[16]) * _kernels.LINE_BYTES
    assert _kernels.run("chase", repeats=2, data=data, state=start)[2] == start, "32 lines are once around"


@pytest.mark.parametrize("order", [[0] * 64, [*range(1, 65)], [7, 7], []])
def test_a_chain_needs_distinct_lines_of_the_data(order):
    with pytest.raises(ValueError, match="distinct lines"):
        _kernels.link_chain(mmap.mmap(-1, 4096), np.array(order, dtype=np.uint32))


@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel": "nonsense"},
        {"kernel": "load8"},
        {"kernel": "random8", "data": mmap.mmap(-1, 3 * 4096)},
        {"kernel": "load_strided", "data": mmap.mmap(-1, 4096)},
        {"kernel": "load_strided", "data": mmap.mmap(-1, 4096), "stride": 12},
        {"kernel": "load_strided", "data": mmap.mmap(-1, 4096), "stride": 4096},
        {"kernel": "store_strided", "data": mmap.mmap(-1, 4096), "stride": 24},
        {"kernel": "copy_strided", "data": mmap.mmap(-1, 4096), "stride": 512},
        {"kernel": "gather8", "data": mmap.mmap(-1, 4096)},
        {"kernel": "gather8", "data": mmap.mmap(-1, 4096), "index": np.zeros(8, np.uint32), "dense": np.zeros(4)},
        {"kernel": "gather4", "data": mmap.mmap(-1, 4096), "index": np.zeros(9, np.uint32), "dense": np.zeros(4)},
        {"kernel": "gather8", "data": mmap.mmap(-1, 4096), "index": b"123", "dense": np.zeros(4)},
        {
            "kernel": "gather8",
            "data": mmap.mmap(-1, 64),
            "index": np.zeros(4, np.uint32),
            "dense": np.zeros(4),
            "state": 4,
        },
        {"kernel": "chase", "data": mmap.mmap(-1, 4096), "state": 4096},
        {"kernel": "chase", "data": mmap.mmap(-1, 4096), "state": 8},
    ],
)
def test_a_kernel_refuses_what_it_cannot_run_on(arguments):
    with pytest.raises(ValueError, match=r"kernel|dense|multiple"):
        _kernels.run(arguments.pop("kernel"), **arguments)
